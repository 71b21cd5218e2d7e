//! SQLite, bundled, through rusqlite: prepared statements, a 256 MiB cache and memory map, tables without rowid, no
//! automatic checkpoints (they run outside the timer).

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{CachedStatement, Connection, Row, params};
use serde_json::json;

use super::{
    DataDir, DocumentStore, DurabilityClass, EntryFormat, EntryGenerator, KeyValueStore, Order, Scan,
};
use crate::Result;
use bench_common::{Checksum, IdPattern, User, city, padding};

fn open(dir: &Path, class: DurabilityClass, schema: &str) -> Result<Mutex<Connection>> {
    let db = Connection::open(dir.join("db.sqlite"))?;
    let synchronous = match class {
        DurabilityClass::Durable => "FULL",
        DurabilityClass::Relaxed => "NORMAL",
    };
    db.execute_batch(&format!(
        "PRAGMA page_size=4096; PRAGMA journal_mode=WAL; PRAGMA synchronous={synchronous};
         PRAGMA cache_size=-262144; PRAGMA mmap_size=268435456; PRAGMA wal_autocheckpoint=0; {schema}"
    ))?;
    Ok(Mutex::new(db))
}

fn lock(db: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    db.lock().unwrap_or_else(PoisonError::into_inner)
}

/// SQLite as a key/value store. Threads share one connection: commits are serialized in any case, and a mutex wakes
/// waiting threads sooner than SQLite's busy handler does.
pub(super) struct SqliteKeyValue {
    db: Mutex<Connection>,
    format: EntryFormat,
}

impl SqliteKeyValue {
    /// Opens the store in `dir`.
    pub(super) fn open(class: DurabilityClass, format: EntryFormat, dir: &Path) -> Result<SqliteKeyValue> {
        let schema = "CREATE TABLE IF NOT EXISTS t (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID;";
        Ok(SqliteKeyValue { db: open(dir, class, schema)?, format })
    }
}

impl KeyValueStore for SqliteKeyValue {
    fn put(&self, numbers: &[u64], batch: usize, version: u64) -> Result<()> {
        let mut entries = EntryGenerator::with_values(self.format);
        for numbers in numbers.chunks(batch) {
            // Locked anew for each commit, so that other threads get a turn.
            let db = lock(&self.db);
            db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            let mut put = db.prepare_cached("INSERT OR REPLACE INTO t VALUES (?1, ?2)")?;
            for &n in numbers {
                let (key, value) = entries.entry(n, version);
                put.execute(params![key, value])?;
            }
            db.prepare_cached("COMMIT")?.execute([])?;
        }
        Ok(())
    }

    fn get(&self, numbers: &[u64], batch: usize) -> Result<u64> {
        let (mut entries, mut checksum) = (EntryGenerator::keys_only(self.format), Checksum::default());
        let db = lock(&self.db);
        let mut get = db.prepare_cached("SELECT v FROM t WHERE k = ?1")?;
        for numbers in numbers.chunks(batch) {
            // A single statement needs no explicit transaction.
            if batch > 1 {
                db.prepare_cached("BEGIN")?.execute([])?;
            }
            for &n in numbers {
                let mut rows = get.query([entries.key(n)])?;
                checksum.add_prefix(rows.next()?.ok_or("a key is missing")?.get_ref(0)?.as_blob()?);
            }
            if batch > 1 {
                db.prepare_cached("COMMIT")?.execute([])?;
            }
        }
        Ok(checksum.finish())
    }

    fn seek(&self, numbers: &[u64]) -> Result<u64> {
        let (mut entries, mut checksum) = (EntryGenerator::keys_only(self.format), Checksum::default());
        let db = lock(&self.db);
        let mut seek = db.prepare_cached("SELECT v FROM t WHERE k >= ?1 ORDER BY k LIMIT 1")?;
        db.prepare_cached("BEGIN")?.execute([])?;
        for &n in numbers {
            let mut rows = seek.query([entries.key(n)])?;
            checksum.add_prefix(rows.next()?.ok_or("a key is missing")?.get_ref(0)?.as_blob()?);
        }
        db.prepare_cached("COMMIT")?.execute([])?;
        Ok(checksum.finish())
    }

    fn scan(&self, scan: Scan) -> Result<u64> {
        let mut checksum = Checksum::default();
        let db = lock(&self.db);
        let mut all = db.prepare_cached(match scan {
            Scan::Backward => "SELECT k, v FROM t ORDER BY k DESC",
            _ => "SELECT k, v FROM t ORDER BY k",
        })?;
        let mut rows = all.query([])?;
        while let Some(row) = rows.next()? {
            let (key, value) = (row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
            match scan {
                Scan::Verify => checksum.add_entry(key, value),
                _ => checksum.add_entry_prefix(key, value),
            }
        }
        Ok(checksum.finish())
    }

    fn snapshots(&self, count: u64) -> Result<()> {
        let db = lock(&self.db);
        for _ in 0..count {
            db.prepare_cached("BEGIN")?.execute([])?;
            db.prepare_cached("COMMIT")?.execute([])?;
        }
        Ok(())
    }

    fn checkpoint(&self) -> Result<()> {
        Ok(lock(&self.db).execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?)
    }
}

/// How documents are stored in SQLite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// A column for each field, SQLite's fastest layout.
    Columns,
    /// JSON text, with stored generated columns for the indexed fields.
    Json,
}

/// SQLite as a document store.
pub struct SqliteDocuments {
    db: Mutex<Connection>,
    layout: Layout,
    ids: IdPattern,
    data_dir: DataDir,
}

impl SqliteDocuments {
    /// Opens an empty one.
    ///
    /// # Errors
    /// From SQLite and the file system.
    pub fn new(class: DurabilityClass, layout: Layout, ids: IdPattern) -> Result<SqliteDocuments> {
        let data_dir = DataDir::new("sqlite-documents")?;
        let columns = match layout {
            Layout::Columns => {
                "name TEXT NOT NULL, email TEXT NOT NULL, city TEXT NOT NULL, pad TEXT NOT NULL"
            }
            Layout::Json => {
                "document TEXT NOT NULL, email TEXT GENERATED ALWAYS AS (document ->> 'email') STORED,
                 city TEXT GENERATED ALWAYS AS (document ->> 'city') STORED"
            }
        };
        let schema = format!(
            "CREATE TABLE users (id TEXT PRIMARY KEY, {columns}) WITHOUT ROWID;
             CREATE UNIQUE INDEX by_email ON users (email); CREATE INDEX by_city ON users (city);"
        );
        Ok(SqliteDocuments { db: open(data_dir.path(), class, &schema)?, layout, ids, data_dir })
    }

    fn select<'db>(&self, db: &'db Connection, condition: &str) -> Result<CachedStatement<'db>> {
        let columns = match self.layout {
            Layout::Columns => "id, name, email, city, pad",
            Layout::Json => "id, document",
        };
        Ok(db.prepare_cached(&format!("SELECT {columns} FROM users WHERE {condition} = ?1"))?)
    }

    fn user(&self, row: &Row<'_>) -> Result<User> {
        if self.layout == Layout::Columns {
            return Ok(User {
                id: row.get(0)?,
                name: row.get(1)?,
                email: row.get(2)?,
                city: row.get(3)?,
                pad: row.get(4)?,
            });
        }
        let document: serde_json::Value = serde_json::from_slice(row.get_ref(1)?.as_bytes()?)?;
        let field = |name: &str| document[name].as_str().map(str::to_owned).ok_or("a field is missing");
        Ok(User {
            id: row.get(0)?,
            name: field("name")?,
            email: field("email")?,
            city: field("city")?,
            pad: field("pad")?,
        })
    }

    fn fetch(
        &self,
        condition: &str,
        order: &mut Order<'_>,
        count: u64,
        name: fn(IdPattern, u64) -> String,
    ) -> Result<u64> {
        let mut checksum = Checksum::default();
        let db = lock(&self.db);
        let mut get = self.select(&db, condition)?;
        for n in order.take(count as usize) {
            let mut rows = get.query([name(self.ids, n)])?;
            self.user(rows.next()?.ok_or("a document is missing")?)?.add_to(&mut checksum);
        }
        Ok(checksum.finish())
    }
}

impl DocumentStore for SqliteDocuments {
    fn name(&self) -> &'static str {
        match self.layout {
            Layout::Columns => "SQLite, columns",
            Layout::Json => "SQLite, JSON",
        }
    }

    fn insert(&self, order: &mut Order<'_>, count: u64, batch: u64) -> Result<()> {
        let statement = match self.layout {
            Layout::Columns => "INSERT INTO users VALUES (?1, ?2, ?3, ?4, ?5)",
            Layout::Json => "INSERT INTO users (id, document) VALUES (?1, ?2)",
        };
        for start in (0..count).step_by(batch as usize) {
            let db = lock(&self.db);
            db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            let mut insert = db.prepare_cached(statement)?;
            for n in order.take(batch.min(count - start) as usize) {
                let p = self.ids.user(n);
                if self.layout == Layout::Columns {
                    insert.execute(params![p.id, p.name, p.email, p.city, p.pad])?;
                } else {
                    let document = json!({"name": p.name, "email": p.email, "city": p.city, "pad": p.pad});
                    insert.execute(params![p.id, document.to_string()])?;
                }
            }
            db.prepare_cached("COMMIT")?.execute([])?;
        }
        Ok(())
    }

    fn find_by_id(&self, order: &mut Order<'_>, count: u64) -> Result<u64> {
        self.fetch("id", order, count, IdPattern::id)
    }

    fn find_by_email(&self, order: &mut Order<'_>, count: u64) -> Result<u64> {
        self.fetch("email", order, count, IdPattern::email)
    }

    fn find_by_city(&self, number: u64) -> Result<u64> {
        let mut sum = 0;
        let db = lock(&self.db);
        let mut get = self.select(&db, "city")?;
        let mut rows = get.query([city(number)])?;
        while let Some(row) = rows.next()? {
            let mut checksum = Checksum::default();
            self.user(row)?.add_to(&mut checksum);
            sum = checksum.finish().wrapping_add(sum);
        }
        Ok(sum)
    }

    fn update(&self, order: &mut Order<'_>, count: u64) -> Result<()> {
        let db = lock(&self.db);
        let mut update = db.prepare_cached(match self.layout {
            Layout::Columns => "UPDATE users SET pad = ?2 WHERE id = ?1",
            Layout::Json => "UPDATE users SET document = json_set(document, '$.pad', ?2) WHERE id = ?1",
        })?;
        for n in order.take(count as usize) {
            if update.execute([self.ids.id(n), padding(n)])? != 1 {
                return Err("a document is missing".into());
            }
        }
        Ok(())
    }

    fn delete(&self, order: &mut Order<'_>, count: u64) -> Result<()> {
        let db = lock(&self.db);
        let mut delete = db.prepare_cached("DELETE FROM users WHERE id = ?1")?;
        for n in order.take(count as usize) {
            if delete.execute([self.ids.id(n)])? != 1 {
                return Err("a document is missing".into());
            }
        }
        Ok(())
    }

    fn counts(&self) -> Result<(u64, u64)> {
        let db = lock(&self.db);
        let all: i64 = db.query_row("SELECT count(*) FROM users", [], |row| row.get(0))?;
        let city: i64 =
            db.query_row("SELECT count(*) FROM users WHERE city = 'city-07'", [], |row| row.get(0))?;
        Ok((all as u64, city as u64))
    }

    fn checkpoint(&self) -> Result<()> {
        Ok(lock(&self.db).execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?)
    }

    fn bytes_on_disk(&self) -> Result<u64> {
        self.data_dir.bytes()
    }
}
