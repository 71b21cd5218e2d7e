//! TreeDB, through its library.

use bson::raw::RawDocumentBuf;
use bson::rawdoc;
use treedb_core::kv::{Durability, Options, Reads, Store, Table, TableKind};
use treedb_core::{Collection, Database, FindRequest, IndexSpec};

use super::{Class, Documents, Folder, Keys, Order, key, value};
use crate::Result;
use crate::contest::Answer;
use crate::people::{Person, email, id};

fn options(class: Class) -> Options {
    let mut options = Options::default();
    options.durability = match class {
        Class::Durable => Durability::Durable,
        Class::Relaxed => Durability::Relaxed,
    };
    options
}

/// TreeDB as a key/value store.
pub struct TreeDbKeys {
    store: Store,
    table: Table,
    _folder: Folder,
}

impl TreeDbKeys {
    /// An empty store.
    ///
    /// # Errors
    /// From the store and the file system.
    pub fn new(class: Class) -> Result<TreeDbKeys> {
        let folder = Folder::new("treedb-keys")?;
        let store = Store::open_with(folder.path().join("db"), options(class))?;
        let mut txn = store.begin_write()?;
        let table = txn.create_table("t", TableKind::Ordered)?;
        txn.commit()?;
        Ok(TreeDbKeys { store, table, _folder: folder })
    }
}

impl Keys for TreeDbKeys {
    fn name(&self) -> &'static str {
        "TreeDB"
    }

    fn put(&self, order: &mut Order<'_>, count: u64, batch: u64, version: u64) -> Result<()> {
        for start in (0..count).step_by(batch as usize) {
            let mut txn = self.store.begin_write()?;
            for n in order.take(batch.min(count - start) as usize) {
                txn.put(&self.table, &key(n), &value(n, version))?;
            }
            txn.commit()?;
        }
        Ok(())
    }

    fn get(&self, order: &mut Order<'_>, count: u64, batch: u64) -> Result<u64> {
        let mut answer = Answer::default();
        for start in (0..count).step_by(batch as usize) {
            let txn = self.store.snapshot()?;
            for n in order.take(batch.min(count - start) as usize) {
                let found = txn.get(&self.table, &key(n))?.ok_or("a key is missing")?;
                answer.add(&found[..16]);
            }
        }
        Ok(answer.finish())
    }

    fn scan(&self) -> Result<u64> {
        let mut answer = Answer::default();
        let txn = self.store.snapshot()?;
        let mut cursor = txn.cursor(&self.table)?;
        let mut more = cursor.first()?;
        while more {
            if let Some((key, value)) = cursor.entry()? {
                answer.add(key);
                answer.add(&value[..16]);
            }
            more = cursor.next()?;
        }
        Ok(answer.finish())
    }
}

/// TreeDB as a place for documents.
pub struct TreeDbDocuments {
    db: Database,
    people: Collection,
    folder: Folder,
}

impl TreeDbDocuments {
    /// An empty one.
    ///
    /// # Errors
    /// From the database and the file system.
    pub fn new(class: Class) -> Result<TreeDbDocuments> {
        let folder = Folder::new("treedb-documents")?;
        let db = Database::open_with(folder.path().join("db"), options(class))?;
        let people = db.collection("bench.people")?;
        people.create_index(IndexSpec::new(rawdoc! { "email": 1 }).unique())?;
        people.create_index(IndexSpec::new(rawdoc! { "city": 1 }))?;
        Ok(TreeDbDocuments { db, people, folder })
    }

    fn fetch(&self, order: &mut Order<'_>, count: u64, filter: fn(u64) -> RawDocumentBuf) -> Result<u64> {
        let mut answer = Answer::default();
        for n in order.take(count as usize) {
            let found = self.people.find_one(filter(n))?.ok_or("a document is missing")?;
            Person::from_bson(&found)?.answer(&mut answer);
        }
        Ok(answer.finish())
    }
}

impl Documents for TreeDbDocuments {
    fn name(&self) -> &'static str {
        "TreeDB"
    }

    fn insert(&self, order: &mut Order<'_>, count: u64, batch: u64) -> Result<()> {
        for start in (0..count).step_by(batch as usize) {
            let batch = order.take(batch.min(count - start) as usize);
            let documents: Vec<RawDocumentBuf> = batch.map(|n| Person::new(n).to_bson()).collect();
            let outcome = self.people.insert_many(&documents, true)?;
            if let Some((_, error)) = outcome.errors.into_iter().next() {
                return Err(error.into());
            }
        }
        Ok(())
    }

    fn by_id(&self, order: &mut Order<'_>, count: u64) -> Result<u64> {
        self.fetch(order, count, |n| rawdoc! { "_id": id(n) })
    }

    fn by_email(&self, order: &mut Order<'_>, count: u64) -> Result<u64> {
        self.fetch(order, count, |n| rawdoc! { "email": email(n) })
    }

    fn counts(&self) -> Result<(u64, u64)> {
        let city = self.people.count(FindRequest::filter(rawdoc! { "city": "city-07" }))?;
        Ok((self.people.len()?, city))
    }

    fn settle(&self) -> Result<()> {
        Ok(self.db.checkpoint()?)
    }

    fn folder(&self) -> &Folder {
        &self.folder
    }
}
