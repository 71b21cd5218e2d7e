//! LMDB and SQLite as stores of Debian packages.

use std::collections::BTreeMap;

use bson::raw::RawDocument;
use heed::byteorder::BigEndian;
use heed::types::{Bytes, U64};
use heed::{DatabaseFlags, Env, PutFlags};
use rusqlite::types::{ToSqlOutput, Value as SqlValue, ValueRef};
use rusqlite::{CachedStatement, Connection, params_from_iter};

use super::{DataDir, DurabilityClass, lmdb};
use crate::Result;
use crate::debian_packages::{BATCH, Field, FieldChecksum, Package, PackageStore};

/// LMDB with packages as BSON, and two databases as indexes.
pub(crate) struct LmdbPackages {
    env: Env,
    packages: heed::Database<U64<BigEndian>, Bytes>,
    names: heed::Database<Bytes, U64<BigEndian>>,
    sections: heed::Database<Bytes, U64<BigEndian>>,
    data_dir: DataDir,
}

/// A name and a version as one index key.
fn key(name: &str, version: &str) -> Vec<u8> {
    [name.as_bytes(), b"\0", version.as_bytes()].concat()
}

impl LmdbPackages {
    pub(crate) fn new() -> Result<LmdbPackages> {
        let data_dir = DataDir::new("lmdb-packages")?;
        let env = lmdb::open(data_dir.path(), DurabilityClass::Relaxed)?;
        let mut txn = env.write_txn()?;
        let packages = env.create_database(&mut txn, Some("packages"))?;
        let names = env.create_database(&mut txn, Some("names"))?;
        let mut options = env.database_options().types();
        let sections = options
            .flags(DatabaseFlags::DUP_SORT | DatabaseFlags::DUP_FIXED)
            .name("sections")
            .create(&mut txn)?;
        txn.commit()?;
        Ok(LmdbPackages { env, packages, names, sections, data_dir })
    }

    fn visit(&self, txn: &heed::RoTxn<'_>, number: u64, checksum: &mut FieldChecksum) -> Result<()> {
        let found = self.packages.get(txn, &number)?.ok_or("a package is missing")?;
        checksum.add_document(RawDocument::from_bytes(found)?)
    }
}

impl PackageStore for LmdbPackages {
    fn name(&self) -> &'static str {
        "LMDB"
    }

    fn insert(&self, packages: &[Package]) -> Result<()> {
        for (number, batch) in packages.chunks(BATCH).enumerate() {
            let first = (number * BATCH) as u64;
            let mut txn = self.env.write_txn()?;
            for (package, id) in batch.iter().zip(first..) {
                self.packages.put(&mut txn, &id, package.to_bson(id)?.as_bytes())?;
                let name = key(package.text("Package"), package.text("Version"));
                self.names.put_with_flags(&mut txn, PutFlags::NO_OVERWRITE, &name, &id)?;
                self.sections.put(&mut txn, package.text("Section").as_bytes(), &id)?;
            }
            txn.commit()?;
        }
        Ok(())
    }

    fn find_by_id(&self, numbers: &[u64]) -> Result<u64> {
        let mut checksum = FieldChecksum::default();
        for number in numbers {
            let txn = self.env.read_txn()?;
            self.visit(&txn, *number, &mut checksum)?;
        }
        Ok(checksum.finish())
    }

    fn find_by_name(&self, names: &[(&str, &str)]) -> Result<u64> {
        let mut checksum = FieldChecksum::default();
        for (name, version) in names {
            let txn = self.env.read_txn()?;
            let number = self.names.get(&txn, &key(name, version))?.ok_or("a name is missing")?;
            self.visit(&txn, number, &mut checksum)?;
        }
        Ok(checksum.finish())
    }

    fn find_by_section(&self, section: &str) -> Result<u64> {
        let (mut checksum, txn) = (FieldChecksum::default(), self.env.read_txn()?);
        for found in self.sections.get_duplicates(&txn, section.as_bytes())?.into_iter().flatten() {
            self.visit(&txn, found?.1, &mut checksum)?;
        }
        Ok(checksum.finish())
    }

    fn checkpoint(&self) -> Result<()> {
        Ok(self.env.force_sync()?)
    }

    fn bytes_on_disk(&self) -> Result<u64> {
        self.data_dir.bytes()
    }
}

/// SQLite with a column for every field that occurs, or with JSON text and stored generated columns for the indexed
/// fields.
pub(crate) struct SqlitePackages {
    db: Connection,
    /// The columns after the id, sorted; `None` for JSON.
    columns: Option<Vec<String>>,
    data_dir: DataDir,
}

impl SqlitePackages {
    pub(crate) fn new(columns: Option<&[String]>) -> Result<SqlitePackages> {
        let data_dir = DataDir::new("sqlite-packages")?;
        let db = Connection::open(data_dir.path().join("db.sqlite"))?;
        let fields = match columns {
            Some(columns) => columns.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", "),
            None => {
                let stored = ["Package", "Version", "Section"].map(|name| {
                    format!("\"{name}\" TEXT GENERATED ALWAYS AS (document ->> '{name}') STORED")
                });
                format!("document TEXT NOT NULL, {}", stored.join(", "))
            }
        };
        db.execute_batch(&format!(
            "PRAGMA page_size=4096; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-262144;
             PRAGMA mmap_size=268435456; PRAGMA wal_autocheckpoint=0;
             CREATE TABLE packages (id INTEGER PRIMARY KEY, {fields});
             CREATE UNIQUE INDEX by_name ON packages (\"Package\", \"Version\");
             CREATE INDEX by_section ON packages (\"Section\");"
        ))?;
        Ok(SqlitePackages { db, columns: columns.map(<[String]>::to_vec), data_dir })
    }

    fn select(&self, condition: &str) -> Result<CachedStatement<'_>> {
        let what = if self.columns.is_some() { "*" } else { "id, document" };
        Ok(self.db.prepare_cached(&format!("SELECT {what} FROM packages WHERE {condition}"))?)
    }

    fn visit(&self, row: &rusqlite::Row<'_>, checksum: &mut FieldChecksum) -> Result<()> {
        checksum.add(b"_id", &row.get::<_, i64>(0)?.to_le_bytes());
        if let Some(columns) = &self.columns {
            for (at, name) in columns.iter().enumerate() {
                match row.get_ref(at + 1)? {
                    ValueRef::Null => {}
                    ValueRef::Text(text) => checksum.add(name.as_bytes(), text),
                    ValueRef::Integer(number) => checksum.add(name.as_bytes(), &number.to_le_bytes()),
                    _ => return Err(format!("{name} is of another type").into()),
                }
            }
            return Ok(());
        }
        let document: BTreeMap<String, serde_json::Value> =
            serde_json::from_slice(row.get_ref(1)?.as_bytes()?)?;
        for (name, value) in &document {
            match (value.as_str(), value.as_i64()) {
                (Some(text), _) => checksum.add(name.as_bytes(), text.as_bytes()),
                (_, Some(number)) => checksum.add(name.as_bytes(), &number.to_le_bytes()),
                _ => return Err(format!("{name} is of another type").into()),
            }
        }
        Ok(())
    }
}

impl PackageStore for SqlitePackages {
    fn name(&self) -> &'static str {
        if self.columns.is_some() { "SQLite, columns" } else { "SQLite, JSON" }
    }

    fn insert(&self, packages: &[Package]) -> Result<()> {
        let width = self.columns.as_ref().map_or(1, Vec::len);
        let into = if self.columns.is_some() { "" } else { "(id, document)" };
        let statement = format!("INSERT INTO packages {into} VALUES (?{})", ", ?".repeat(width));
        for (number, batch) in packages.chunks(BATCH).enumerate() {
            self.db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            let mut insert = self.db.prepare_cached(&statement)?;
            for (package, id) in batch.iter().zip((number * BATCH) as i64..) {
                let Some(columns) = &self.columns else {
                    let fields = package.0.iter().map(|(name, field)| match field {
                        Field::Text(text) => (name.clone(), serde_json::Value::from(text.as_str())),
                        Field::Number(number) => (name.clone(), serde_json::Value::from(*number)),
                    });
                    let text = serde_json::Value::Object(fields.collect()).to_string();
                    insert.execute((id, text))?;
                    continue;
                };
                let mut values = vec![ToSqlOutput::Owned(SqlValue::Null); width + 1];
                values[0] = ToSqlOutput::Owned(SqlValue::Integer(id));
                for (name, field) in &package.0 {
                    let at = columns.binary_search(name).map_err(|_| "a field without a column")?;
                    values[at + 1] = match field {
                        Field::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
                        Field::Number(number) => ToSqlOutput::Owned(SqlValue::Integer(*number)),
                    };
                }
                insert.execute(params_from_iter(values))?;
            }
            self.db.prepare_cached("COMMIT")?.execute([])?;
        }
        Ok(())
    }

    fn find_by_id(&self, numbers: &[u64]) -> Result<u64> {
        let (mut get, mut checksum) = (self.select("id = ?1")?, FieldChecksum::default());
        for number in numbers {
            let mut rows = get.query([*number as i64])?;
            self.visit(rows.next()?.ok_or("a package is missing")?, &mut checksum)?;
        }
        Ok(checksum.finish())
    }

    fn find_by_name(&self, names: &[(&str, &str)]) -> Result<u64> {
        let (mut get, mut checksum) =
            (self.select("\"Package\" = ?1 AND \"Version\" = ?2")?, FieldChecksum::default());
        for (name, version) in names {
            let mut rows = get.query([name, version])?;
            self.visit(rows.next()?.ok_or("a package is missing")?, &mut checksum)?;
        }
        Ok(checksum.finish())
    }

    fn find_by_section(&self, section: &str) -> Result<u64> {
        let (mut get, mut checksum) = (self.select("\"Section\" = ?1")?, FieldChecksum::default());
        let mut rows = get.query([section])?;
        while let Some(row) = rows.next()? {
            self.visit(row, &mut checksum)?;
        }
        Ok(checksum.finish())
    }

    fn checkpoint(&self) -> Result<()> {
        Ok(self.db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?)
    }

    fn bytes_on_disk(&self) -> Result<u64> {
        self.data_dir.bytes()
    }
}
