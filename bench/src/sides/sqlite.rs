//! SQLite, bundled, called from Rust without an intermediate layer: prepared statements, a 256 MiB cache and map,
//! tables without rowid, no automatic checkpoint (its log is folded in outside the timer).

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{CachedStatement, Connection, Row, params};
use serde_json::json;

use super::{Class, Documents, Folder, Keys, Order, key, value};
use crate::Result;
use crate::contest::Answer;
use crate::people::{Person, email, id};

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
pub struct SqliteKeys {
    db: Mutex<Connection>,
    _folder: Folder,
}

impl SqliteKeys {
    /// An empty store.
    ///
    /// # Errors
    /// From SQLite and the file system.
    pub fn new(class: Class) -> Result<SqliteKeys> {
        let folder = Folder::new("sqlite-keys")?;
        let schema = "CREATE TABLE t (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID;";
        Ok(SqliteKeys { db: open(folder.path(), class, schema)?, _folder: folder })
    }
}

impl Keys for SqliteKeys {
    fn name(&self) -> &'static str {
        "SQLite"
    }

    fn put(&self, order: &mut Order<'_>, count: u64, batch: u64, version: u64) -> Result<()> {
        for start in (0..count).step_by(batch as usize) {
            // Taken anew for each commit, so that other threads get theirs.
            let db = lock(&self.db);
            db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            let mut put = db.prepare_cached("INSERT OR REPLACE INTO t VALUES (?1, ?2)")?;
            for n in order.take(batch.min(count - start) as usize) {
                put.execute(params![key(n), value(n, version)])?;
            }
            db.prepare_cached("COMMIT")?.execute([])?;
        }
        Ok(())
    }

    fn get(&self, order: &mut Order<'_>, count: u64, batch: u64) -> Result<u64> {
        let mut answer = Answer::default();
        let db = lock(&self.db);
        let mut get = db.prepare_cached("SELECT v FROM t WHERE k = ?1")?;
        for start in (0..count).step_by(batch as usize) {
            // A single statement is a snapshot of its own.
            let several = batch > 1;
            if several {
                db.prepare_cached("BEGIN")?.execute([])?;
            }
            for n in order.take(batch.min(count - start) as usize) {
                let mut rows = get.query([key(n)])?;
                let row = rows.next()?.ok_or("a key is missing")?;
                answer.add(&row.get_ref(0)?.as_blob()?[..16]);
            }
            if several {
                db.prepare_cached("COMMIT")?.execute([])?;
            }
        }
        Ok(answer.finish())
    }

    fn scan(&self) -> Result<u64> {
        let mut answer = Answer::default();
        let db = lock(&self.db);
        let mut all = db.prepare_cached("SELECT k, v FROM t ORDER BY k")?;
        let mut rows = all.query([])?;
        while let Some(row) = rows.next()? {
            answer.add(row.get_ref(0)?.as_blob()?);
            answer.add(&row.get_ref(1)?.as_blob()?[..16]);
        }
        Ok(answer.finish())
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
    folder: Folder,
}

impl SqliteDocuments {
    /// An empty one.
    ///
    /// # Errors
    /// From SQLite and the file system.
    pub fn new(class: Class, shape: Shape) -> Result<SqliteDocuments> {
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
        Ok(SqliteDocuments { db: open(folder.path(), class, &schema)?, shape, folder })
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
        name: fn(u64) -> String,
    ) -> Result<u64> {
        let mut answer = Answer::default();
        let db = lock(&self.db);
        let mut get = self.select(&db, condition)?;
        for n in order.take(count as usize) {
            let mut rows = get.query([name(n)])?;
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
                let p = Person::new(n);
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
        self.fetch("id", order, count, id)
    }

    fn by_email(&self, order: &mut Order<'_>, count: u64) -> Result<u64> {
        self.fetch("email", order, count, email)
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
