//! SQLite, bundled, called from Rust without an intermediate layer: prepared statements, a 256 MiB cache and map,
//! tables without rowid, no automatic checkpoint (its log is folded in outside the timer).

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{CachedStatement, Connection, Row, params};
use serde_json::json;

use super::{Class, Documents, Folder, Form, Keys, Maker, Order, Walk};
use crate::Result;
use crate::contest::Answer;
use crate::people::{Names, Person, city, filler};

fn open(dir: &Path, class: Class, schema: &str) -> Result<Mutex<Connection>> {
    let db = Connection::open(dir.join("db.sqlite"))?;
    let synchronous = match class {
        Class::Durable => "FULL",
        Class::Relaxed => "NORMAL",
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

/// SQLite as a key/value store. One connection: its commits are one after the other in any case, and a lock of ours
/// wakes waiting threads sooner than its busy handler does.
pub(super) struct SqliteKeys {
    db: Mutex<Connection>,
    form: Form,
}

impl SqliteKeys {
    /// The store in `dir`.
    pub(super) fn open(class: Class, form: Form, dir: &Path) -> Result<SqliteKeys> {
        let schema = "CREATE TABLE IF NOT EXISTS t (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID;";
        Ok(SqliteKeys { db: open(dir, class, schema)?, form })
    }
}

impl Keys for SqliteKeys {
    fn put(&self, numbers: &[u64], batch: usize, version: u64) -> Result<()> {
        let mut make = Maker::pairs(self.form);
        for numbers in numbers.chunks(batch) {
            // Taken anew for each commit, so that other threads get theirs.
            let db = lock(&self.db);
            db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            let mut put = db.prepare_cached("INSERT OR REPLACE INTO t VALUES (?1, ?2)")?;
            for &n in numbers {
                let (key, value) = make.pair(n, version);
                put.execute(params![key, value])?;
            }
            db.prepare_cached("COMMIT")?.execute([])?;
        }
        Ok(())
    }

    fn get(&self, numbers: &[u64], batch: usize) -> Result<u64> {
        let (mut make, mut answer) = (Maker::keys(self.form), Answer::default());
        let db = lock(&self.db);
        let mut get = db.prepare_cached("SELECT v FROM t WHERE k = ?1")?;
        for numbers in numbers.chunks(batch) {
            // A single statement is a snapshot of its own.
            if batch > 1 {
                db.prepare_cached("BEGIN")?.execute([])?;
            }
            for &n in numbers {
                let mut rows = get.query([make.key(n)])?;
                answer.glance(rows.next()?.ok_or("a key is missing")?.get_ref(0)?.as_blob()?);
            }
            if batch > 1 {
                db.prepare_cached("COMMIT")?.execute([])?;
            }
        }
        Ok(answer.finish())
    }

    fn seek(&self, numbers: &[u64]) -> Result<u64> {
        let (mut make, mut answer) = (Maker::keys(self.form), Answer::default());
        let db = lock(&self.db);
        let mut seek = db.prepare_cached("SELECT v FROM t WHERE k >= ?1 ORDER BY k LIMIT 1")?;
        db.prepare_cached("BEGIN")?.execute([])?;
        for &n in numbers {
            let mut rows = seek.query([make.key(n)])?;
            answer.glance(rows.next()?.ok_or("a key is missing")?.get_ref(0)?.as_blob()?);
        }
        db.prepare_cached("COMMIT")?.execute([])?;
        Ok(answer.finish())
    }

    fn walk(&self, how: Walk) -> Result<u64> {
        let mut answer = Answer::default();
        let db = lock(&self.db);
        let mut all = db.prepare_cached(match how {
            Walk::Backward => "SELECT k, v FROM t ORDER BY k DESC",
            _ => "SELECT k, v FROM t ORDER BY k",
        })?;
        let mut rows = all.query([])?;
        while let Some(row) = rows.next()? {
            let (key, value) = (row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
            match how {
                Walk::Whole => answer.pair(key, value),
                _ => answer.pass(key, value),
            }
        }
        Ok(answer.finish())
    }

    fn snapshots(&self, count: u64) -> Result<()> {
        let db = lock(&self.db);
        for _ in 0..count {
            db.prepare_cached("BEGIN")?.execute([])?;
            db.prepare_cached("COMMIT")?.execute([])?;
        }
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        Ok(lock(&self.db).execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?)
    }
}

/// How documents lie in SQLite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A column for each field: what it is best at.
    Columns,
    /// JSON text, with stored generated columns for the indexed fields.
    Json,
}

/// SQLite as a place for documents.
pub struct SqliteDocuments {
    db: Mutex<Connection>,
    shape: Shape,
    names: Names,
    folder: Folder,
}

impl SqliteDocuments {
    /// An empty one.
    ///
    /// # Errors
    /// From SQLite and the file system.
    pub fn new(class: Class, shape: Shape, names: Names) -> Result<SqliteDocuments> {
        let folder = Folder::new("sqlite-documents")?;
        let columns = match shape {
            Shape::Columns => {
                "name TEXT NOT NULL, email TEXT NOT NULL, city TEXT NOT NULL, pad TEXT NOT NULL"
            }
            Shape::Json => {
                "document TEXT NOT NULL, email TEXT GENERATED ALWAYS AS (document ->> 'email') STORED,
                 city TEXT GENERATED ALWAYS AS (document ->> 'city') STORED"
            }
        };
        let schema = format!(
            "CREATE TABLE people (id TEXT PRIMARY KEY, {columns}) WITHOUT ROWID;
             CREATE UNIQUE INDEX by_email ON people (email); CREATE INDEX by_city ON people (city);"
        );
        Ok(SqliteDocuments { db: open(folder.path(), class, &schema)?, shape, names, folder })
    }

    fn select<'db>(&self, db: &'db Connection, condition: &str) -> Result<CachedStatement<'db>> {
        let columns = match self.shape {
            Shape::Columns => "id, name, email, city, pad",
            Shape::Json => "id, document",
        };
        Ok(db.prepare_cached(&format!("SELECT {columns} FROM people WHERE {condition} = ?1"))?)
    }

    fn person(&self, row: &Row<'_>) -> Result<Person> {
        if self.shape == Shape::Columns {
            return Ok(Person {
                id: row.get(0)?,
                name: row.get(1)?,
                email: row.get(2)?,
                city: row.get(3)?,
                pad: row.get(4)?,
            });
        }
        let document: serde_json::Value = serde_json::from_slice(row.get_ref(1)?.as_bytes()?)?;
        let field = |name: &str| document[name].as_str().map(str::to_owned).ok_or("a field is missing");
        Ok(Person {
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
        name: fn(Names, u64) -> String,
    ) -> Result<u64> {
        let mut answer = Answer::default();
        let db = lock(&self.db);
        let mut get = self.select(&db, condition)?;
        for n in order.take(count as usize) {
            let mut rows = get.query([name(self.names, n)])?;
            self.person(rows.next()?.ok_or("a document is missing")?)?.answer(&mut answer);
        }
        Ok(answer.finish())
    }
}

impl Documents for SqliteDocuments {
    fn name(&self) -> &'static str {
        match self.shape {
            Shape::Columns => "SQLite, columns",
            Shape::Json => "SQLite, JSON",
        }
    }

    fn insert(&self, order: &mut Order<'_>, count: u64, batch: u64) -> Result<()> {
        let statement = match self.shape {
            Shape::Columns => "INSERT INTO people VALUES (?1, ?2, ?3, ?4, ?5)",
            Shape::Json => "INSERT INTO people (id, document) VALUES (?1, ?2)",
        };
        for start in (0..count).step_by(batch as usize) {
            let db = lock(&self.db);
            db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            let mut insert = db.prepare_cached(statement)?;
            for n in order.take(batch.min(count - start) as usize) {
                let p = self.names.person(n);
                if self.shape == Shape::Columns {
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

    fn by_id(&self, order: &mut Order<'_>, count: u64) -> Result<u64> {
        self.fetch("id", order, count, Names::id)
    }

    fn by_email(&self, order: &mut Order<'_>, count: u64) -> Result<u64> {
        self.fetch("email", order, count, Names::email)
    }

    fn by_city(&self, number: u64) -> Result<u64> {
        let mut sum = 0;
        let db = lock(&self.db);
        let mut get = self.select(&db, "city")?;
        let mut rows = get.query([city(number)])?;
        while let Some(row) = rows.next()? {
            let mut answer = Answer::default();
            self.person(row)?.answer(&mut answer);
            sum = answer.finish().wrapping_add(sum);
        }
        Ok(sum)
    }

    fn update(&self, order: &mut Order<'_>, count: u64) -> Result<()> {
        let db = lock(&self.db);
        let mut update = db.prepare_cached(match self.shape {
            Shape::Columns => "UPDATE people SET pad = ?2 WHERE id = ?1",
            Shape::Json => "UPDATE people SET document = json_set(document, '$.pad', ?2) WHERE id = ?1",
        })?;
        for n in order.take(count as usize) {
            if update.execute([self.names.id(n), filler(n)])? != 1 {
                return Err("a document is missing".into());
            }
        }
        Ok(())
    }

    fn counts(&self) -> Result<(u64, u64)> {
        let db = lock(&self.db);
        let all: i64 = db.query_row("SELECT count(*) FROM people", [], |row| row.get(0))?;
        let city: i64 =
            db.query_row("SELECT count(*) FROM people WHERE city = 'city-07'", [], |row| row.get(0))?;
        Ok((all as u64, city as u64))
    }

    fn settle(&self) -> Result<()> {
        Ok(lock(&self.db).execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?)
    }

    fn folder(&self) -> &Folder {
        &self.folder
    }
}
