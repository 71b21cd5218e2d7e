//! The packages of Debian as documents: long texts, and fields that most have and some have not.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::process::Command;

use bson::raw::{CString, RawBsonRef, RawDocument, RawDocumentBuf};
use bson::rawdoc;
use heed::byteorder::BigEndian;
use heed::types::{Bytes, U64};
use heed::{DatabaseFlags, Env, PutFlags};
use rusqlite::types::{ToSqlOutput, Value as SqlValue, ValueRef};
use rusqlite::{CachedStatement, Connection, params_from_iter};
use treedb_core::collection::{Collection, Database};
use treedb_core::{FindRequest, IndexSpec};
use treedb_storage::{Durability, Options};

use super::Scale;
use super::documents::{BY_ID, BY_OTHER, BY_UNIQUE, INSERT, NONE};
use crate::Result;
use crate::contest::{Answer, Side, Turn, Unit, contest};
use crate::people::Random;
use crate::report::{Row, rows};
use crate::sides::{Class, Folder, lmdb};

/// Packages to a transaction.
const BATCH: usize = 1000;
/// Fields that are numbers.
const NUMBERS: [&str; 2] = ["Installed-Size", "Size"];

/// What a field says.
#[derive(Debug, Clone, PartialEq)]
enum Field {
    Text(String),
    Number(i64),
}

/// A package: its fields in the order of the list it comes from. `Package`, `Version` and `Section` are among them.
struct Package(Vec<(String, Field)>);

impl Package {
    fn text(&self, name: &str) -> &str {
        let field = self.0.iter().find(|(field, _)| field == name);
        field.map_or("", |(_, field)| match field {
            Field::Text(text) => text,
            Field::Number(_) => "",
        })
    }

    /// One paragraph of the list; `None` if it lacks a field that is indexed.
    fn parse(paragraph: &str) -> Option<Package> {
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in paragraph.lines() {
            if let (true, Some((_, text))) = (line.starts_with([' ', '\t']), fields.last_mut()) {
                text.push('\n');
                text.push_str(line.trim_start());
            } else if let Some((name, text)) = line.split_once(": ") {
                fields.push((name.to_owned(), text.to_owned()));
            }
        }
        let package = Package(
            fields
                .into_iter()
                .map(|(name, text)| {
                    let number = NUMBERS.contains(&name.as_str()).then(|| text.parse().ok()).flatten();
                    let field = number.map_or(Field::Text(text), Field::Number);
                    (name, field)
                })
                .collect(),
        );
        let whole = ["Package", "Version", "Section"].iter().all(|name| !package.text(name).is_empty());
        whole.then_some(package)
    }

    fn to_bson(&self, id: u64) -> Result<RawDocumentBuf> {
        let mut document = rawdoc! { "_id": id as i64 };
        for (name, field) in &self.0 {
            let name = CString::try_from(name.as_str())?;
            match field {
                Field::Text(text) => document.append(name, text.as_str()),
                Field::Number(number) => document.append(name, *number),
            }
        }
        Ok(document)
    }
}

/// Adds up fields, in whatever order they come.
#[derive(Default)]
struct Sum(u64);

impl Sum {
    fn add(&mut self, name: &[u8], value: &[u8]) {
        let mut answer = Answer::default();
        answer.pair(name, value);
        self.0 = self.0.wrapping_add(answer.finish());
    }

    fn document(&mut self, document: &RawDocument) -> Result<()> {
        for field in document {
            let (name, value) = field?;
            match value {
                RawBsonRef::String(text) => self.add(name.as_str().as_bytes(), text.as_bytes()),
                RawBsonRef::Int64(number) => self.add(name.as_str().as_bytes(), &number.to_le_bytes()),
                _ => return Err(format!("{name} is of another type").into()),
            }
        }
        Ok(())
    }
}

/// The packages that the system knows of, each name and version once; none if there are no lists.
fn available() -> Vec<Package> {
    let listed = Command::new("apt-cache").arg("dumpavail").output();
    let text = listed.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()).unwrap_or_default();
    let mut seen = HashSet::new();
    text.split("\n\n")
        .filter_map(Package::parse)
        .filter(|p| seen.insert((p.text("Package").to_owned(), p.text("Version").to_owned())))
        .collect()
}

/// A place for packages under numbers, with a unique index on name and version and an index on the section.
trait Shelf {
    fn name(&self) -> &'static str;
    /// Inserts packages under numbers from 0 on, encoding them from fields.
    fn insert(&self, packages: &[Package]) -> Result<()>;
    /// Visits every field of packages under these numbers.
    fn by_id(&self, numbers: &[u64]) -> Result<u64>;
    /// The same of packages with these names and versions.
    fn by_name(&self, names: &[(&str, &str)]) -> Result<u64>;
    /// The same of all of a section.
    fn by_section(&self, section: &str) -> Result<u64>;
    /// Folds logs in.
    fn settle(&self) -> Result<()>;
    fn folder(&self) -> &Folder;
}

struct Tree {
    db: Database,
    packages: Collection,
    folder: Folder,
}

impl Tree {
    fn new() -> Result<Tree> {
        let folder = Folder::new("treedb-packages")?;
        let mut options = Options::default();
        options.durability = Durability::Relaxed;
        let db = Database::open_with(folder.path().join("db"), options)?;
        let packages = db.collection("bench.packages")?;
        packages.create_index(IndexSpec::new(rawdoc! { "Package": 1, "Version": 1 }).unique())?;
        packages.create_index(IndexSpec::new(rawdoc! { "Section": 1 }))?;
        Ok(Tree { db, packages, folder })
    }
}

impl Shelf for Tree {
    fn name(&self) -> &'static str {
        "TreeDB"
    }

    fn insert(&self, packages: &[Package]) -> Result<()> {
        for (number, batch) in packages.chunks(BATCH).enumerate() {
            let first = (number * BATCH) as u64;
            let documents: Vec<RawDocumentBuf> =
                batch.iter().zip(first..).map(|(package, id)| package.to_bson(id)).collect::<Result<_>>()?;
            if let Some((_, error)) = self.packages.insert_many(&documents, true)?.errors.into_iter().next() {
                return Err(error.into());
            }
        }
        Ok(())
    }

    fn by_id(&self, numbers: &[u64]) -> Result<u64> {
        let mut sum = Sum::default();
        for number in numbers {
            let found = self.packages.find_one(rawdoc! { "_id": *number as i64 })?;
            sum.document(&found.ok_or("a package is missing")?)?;
        }
        Ok(sum.0)
    }

    fn by_name(&self, names: &[(&str, &str)]) -> Result<u64> {
        let mut sum = Sum::default();
        for (name, version) in names {
            let found = self.packages.find_one(rawdoc! { "Package": *name, "Version": *version })?;
            sum.document(&found.ok_or("a package is missing")?)?;
        }
        Ok(sum.0)
    }

    fn by_section(&self, section: &str) -> Result<u64> {
        let mut sum = Sum::default();
        for found in self.packages.find(FindRequest::filter(rawdoc! { "Section": section }))? {
            sum.document(&found?)?;
        }
        Ok(sum.0)
    }

    fn settle(&self) -> Result<()> {
        Ok(self.db.checkpoint()?)
    }

    fn folder(&self) -> &Folder {
        &self.folder
    }
}

struct Lmdb {
    env: Env,
    packages: heed::Database<U64<BigEndian>, Bytes>,
    names: heed::Database<Bytes, U64<BigEndian>>,
    sections: heed::Database<Bytes, U64<BigEndian>>,
    folder: Folder,
}

/// A name and a version as one key.
fn key(name: &str, version: &str) -> Vec<u8> {
    [name.as_bytes(), b"\0", version.as_bytes()].concat()
}

impl Lmdb {
    fn new() -> Result<Lmdb> {
        let folder = Folder::new("lmdb-packages")?;
        let env = lmdb::open(folder.path(), Class::Relaxed)?;
        let mut txn = env.write_txn()?;
        let packages = env.create_database(&mut txn, Some("packages"))?;
        let names = env.create_database(&mut txn, Some("names"))?;
        let mut options = env.database_options().types();
        let sections = options
            .flags(DatabaseFlags::DUP_SORT | DatabaseFlags::DUP_FIXED)
            .name("sections")
            .create(&mut txn)?;
        txn.commit()?;
        Ok(Lmdb { env, packages, names, sections, folder })
    }

    fn visit(&self, txn: &heed::RoTxn<'_>, number: u64, sum: &mut Sum) -> Result<()> {
        let found = self.packages.get(txn, &number)?.ok_or("a package is missing")?;
        sum.document(RawDocument::from_bytes(found)?)
    }
}

impl Shelf for Lmdb {
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

    fn by_id(&self, numbers: &[u64]) -> Result<u64> {
        let mut sum = Sum::default();
        for number in numbers {
            let txn = self.env.read_txn()?;
            self.visit(&txn, *number, &mut sum)?;
        }
        Ok(sum.0)
    }

    fn by_name(&self, names: &[(&str, &str)]) -> Result<u64> {
        let mut sum = Sum::default();
        for (name, version) in names {
            let txn = self.env.read_txn()?;
            let number = self.names.get(&txn, &key(name, version))?.ok_or("a name is missing")?;
            self.visit(&txn, number, &mut sum)?;
        }
        Ok(sum.0)
    }

    fn by_section(&self, section: &str) -> Result<u64> {
        let (mut sum, txn) = (Sum::default(), self.env.read_txn()?);
        for found in self.sections.get_duplicates(&txn, section.as_bytes())?.into_iter().flatten() {
            self.visit(&txn, found?.1, &mut sum)?;
        }
        Ok(sum.0)
    }

    fn settle(&self) -> Result<()> {
        Ok(self.env.force_sync()?)
    }

    fn folder(&self) -> &Folder {
        &self.folder
    }
}

/// SQLite with a column for every field that there is, or with JSON and stored columns for those that are indexed.
struct Sqlite {
    db: Connection,
    /// The columns behind the number; `None` for JSON.
    columns: Option<Vec<String>>,
    folder: Folder,
}

impl Sqlite {
    fn new(columns: Option<&[String]>) -> Result<Sqlite> {
        let folder = Folder::new("sqlite-packages")?;
        let db = Connection::open(folder.path().join("db.sqlite"))?;
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
        Ok(Sqlite { db, columns: columns.map(<[String]>::to_vec), folder })
    }

    fn select(&self, condition: &str) -> Result<CachedStatement<'_>> {
        let what = if self.columns.is_some() { "*" } else { "id, document" };
        Ok(self.db.prepare_cached(&format!("SELECT {what} FROM packages WHERE {condition}"))?)
    }

    fn visit(&self, row: &rusqlite::Row<'_>, sum: &mut Sum) -> Result<()> {
        sum.add(b"_id", &row.get::<_, i64>(0)?.to_le_bytes());
        if let Some(columns) = &self.columns {
            for (at, name) in columns.iter().enumerate() {
                match row.get_ref(at + 1)? {
                    ValueRef::Null => {}
                    ValueRef::Text(text) => sum.add(name.as_bytes(), text),
                    ValueRef::Integer(number) => sum.add(name.as_bytes(), &number.to_le_bytes()),
                    _ => return Err(format!("{name} is of another type").into()),
                }
            }
            return Ok(());
        }
        let document: BTreeMap<String, serde_json::Value> =
            serde_json::from_slice(row.get_ref(1)?.as_bytes()?)?;
        for (name, value) in &document {
            match (value.as_str(), value.as_i64()) {
                (Some(text), _) => sum.add(name.as_bytes(), text.as_bytes()),
                (_, Some(number)) => sum.add(name.as_bytes(), &number.to_le_bytes()),
                _ => return Err(format!("{name} is of another type").into()),
            }
        }
        Ok(())
    }
}

impl Shelf for Sqlite {
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

    fn by_id(&self, numbers: &[u64]) -> Result<u64> {
        let (mut get, mut sum) = (self.select("id = ?1")?, Sum::default());
        for number in numbers {
            let mut rows = get.query([*number as i64])?;
            self.visit(rows.next()?.ok_or("a package is missing")?, &mut sum)?;
        }
        Ok(sum.0)
    }

    fn by_name(&self, names: &[(&str, &str)]) -> Result<u64> {
        let (mut get, mut sum) = (self.select("\"Package\" = ?1 AND \"Version\" = ?2")?, Sum::default());
        for (name, version) in names {
            let mut rows = get.query([name, version])?;
            self.visit(rows.next()?.ok_or("a package is missing")?, &mut sum)?;
        }
        Ok(sum.0)
    }

    fn by_section(&self, section: &str) -> Result<u64> {
        let (mut get, mut sum) = (self.select("\"Section\" = ?1")?, Sum::default());
        let mut rows = get.query([section])?;
        while let Some(row) = rows.next()? {
            self.visit(row, &mut sum)?;
        }
        Ok(sum.0)
    }

    fn settle(&self) -> Result<()> {
        Ok(self.db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?)
    }

    fn folder(&self) -> &Folder {
        &self.folder
    }
}

/// An empty place of each kind, TreeDB first.
fn shelves(columns: &[String]) -> Result<Vec<Box<dyn Shelf>>> {
    Ok(vec![
        Box::new(Tree::new()?),
        Box::new(Lmdb::new()?),
        Box::new(Sqlite::new(Some(columns))?),
        Box::new(Sqlite::new(None)?),
    ])
}

pub(super) fn run(scale: Scale) -> Result<Vec<Row>> {
    let mut out = Vec::new();
    if !scale.wants("Debian packages") {
        return Ok(out);
    }
    let mut packages = available();
    packages.truncate(scale.of(packages.len() as u64) as usize);
    if packages.len() < 100 {
        eprintln!(
            "documents: apt has no lists here, the packages are left out (apt-get update fetches them)"
        );
        return Ok(out);
    }
    eprintln!("documents: {} Debian packages", packages.len());
    let columns: Vec<String> = {
        let names: BTreeSet<&String> =
            packages.iter().flat_map(|p| p.0.iter().map(|(name, _)| name)).collect();
        names.into_iter().cloned().collect()
    };
    let label = Class::Relaxed.label();
    let count = packages.len() as u64;
    let every: Vec<u64> = (0..count.min(200)).collect();

    // Each round fills new places; those of the last stay for what follows.
    let mut filled = shelves(&columns)?;
    let mut turns: Vec<Side<'_>> = filled
        .iter_mut()
        .enumerate()
        .map(|(at, shelf)| {
            let (packages, columns, every, mut fresh) = (&packages, &columns, &every, true);
            let turn = move |_| {
                if !std::mem::take(&mut fresh) {
                    *shelf = shelves(columns)?.swap_remove(at);
                }
                let turn = Turn::timed(count, || shelf.insert(packages).map(|()| 0))?;
                Ok(Turn { answer: Some(shelf.by_id(every)?), ..turn })
            };
            let name = ["TreeDB", "LMDB", "SQLite, columns", "SQLite, JSON"][at];
            Side { name, turn: Box::new(turn) }
        })
        .collect();
    let figures = contest(Unit::OpsPerSecond, scale.rounds, &mut turns)?;
    drop(turns);
    out.extend(rows(
        "insert all Debian packages, two indexes, 1,000 to a commit",
        label,
        Unit::OpsPerSecond,
        figures,
        INSERT,
    ));

    for shelf in &filled {
        shelf.settle()?;
    }
    let gets = scale.of(30_000);
    let order = |round: u64| Random::new(round + 1, count).take(gets as usize).collect::<Vec<u64>>();
    let name = |number: u64| {
        let package = packages.get(number as usize);
        package.map_or(("", ""), |package| (package.text("Package"), package.text("Version")))
    };
    let mut largest: Vec<(usize, &str)> = {
        let mut sizes = BTreeMap::new();
        packages.iter().for_each(|package| *sizes.entry(package.text("Section")).or_insert(0) += 1);
        sizes.into_iter().map(|(section, size)| (size, section)).collect()
    };
    largest.sort_unstable_by(|a, b| b.cmp(a));
    type Read<'r> = dyn Fn(&dyn Shelf, u64) -> Result<Turn> + 'r;
    let reads: [(&str, &Read<'_>, _); 3] = [
        (
            "fetch a Debian package by `_id`",
            &|shelf, round| {
                let order = order(round);
                Turn::timed(gets, || shelf.by_id(&order))
            },
            BY_ID,
        ),
        (
            "fetch a Debian package by name and version, a unique index",
            &|shelf, round| {
                let names: Vec<_> = order(round).into_iter().map(name).collect();
                Turn::timed(gets, || shelf.by_name(&names))
            },
            BY_UNIQUE,
        ),
        (
            "fetch the Debian packages of a section by its index",
            &|shelf, round| {
                let (size, section) = largest[round as usize % largest.len().min(20)];
                Turn::timed(size as u64, || shelf.by_section(section))
            },
            BY_OTHER,
        ),
    ];
    for (workload, read, goals) in reads {
        let mut turns: Vec<Side<'_>> = filled
            .iter()
            .map(|shelf| {
                let turn = move |round| read(shelf.as_ref(), round);
                Side { name: shelf.name(), turn: Box::new(turn) }
            })
            .collect();
        let figures = contest(Unit::NanosPerOp, scale.rounds, &mut turns)?;
        out.extend(rows(workload, label, Unit::NanosPerOp, figures, goals));
    }
    let mut turns: Vec<Side<'_>> = filled
        .iter()
        .map(|shelf| {
            let turn = move |_| Ok(Turn { ops: count, spent: shelf.folder().bytes()?, answer: None });
            Side { name: shelf.name(), turn: Box::new(turn) }
        })
        .collect();
    let figures = contest(Unit::BytesPerDocument, 1, &mut turns)?;
    out.extend(rows(
        "files of all Debian packages with two indexes",
        label,
        Unit::BytesPerDocument,
        figures,
        NONE,
    ));
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_is_a_package_with_numbers_and_long_texts() {
        let package = Package::parse("Package: a\nVersion: 1:2\nSize: 5\nTag: x,\n y\nSection: web").unwrap();
        assert_eq!(package.text("Version"), "1:2");
        assert_eq!(package.0[2], ("Size".to_owned(), Field::Number(5)));
        assert_eq!(package.text("Tag"), "x,\ny");
        assert!(Package::parse("Package: a\nVersion: 1").is_none());
    }
}
