//! TreeDB, through its library.

use std::path::Path;

use bson::raw::RawDocumentBuf;
use bson::rawdoc;
use treedb_core::{Collection, Database, FindRequest, IndexSpec, UpdateRequest};
use treedb_storage::{Durability, Options, Reads, Store, Table, TableKind};

use super::{Class, Documents, Folder, Form, Keys, Maker, Order, Rows, Walk};
use crate::Result;
use crate::contest::Answer;
use crate::people::{Names, Person, city, filler};

fn options(class: Class) -> Options {
    let mut options = Options::default();
    options.durability = match class {
        Class::Durable => Durability::Durable,
        Class::Relaxed => Durability::Relaxed,
    };
    options
}

/// TreeDB as a key/value store.
pub(super) struct TreeDbKeys {
    store: Store,
    table: Table,
    form: Form,
}

impl TreeDbKeys {
    /// The store in `dir`.
    pub(super) fn open(class: Class, form: Form, dir: &Path) -> Result<TreeDbKeys> {
        TreeDbKeys::open_with(options(class), form, dir)
    }

    /// The store in `dir`, which makes no checkpoint of its own: its log holds all that it did.
    pub(super) fn open_logging(form: Form, dir: &Path) -> Result<TreeDbKeys> {
        let mut options = options(Class::Relaxed);
        options.checkpoint_log_bytes = u64::MAX;
        options.checkpoint_dead_pages = usize::MAX;
        TreeDbKeys::open_with(options, form, dir)
    }

    fn open_with(options: Options, form: Form, dir: &Path) -> Result<TreeDbKeys> {
        let store = Store::open_with(dir.join("db"), options)?;
        let there = store.snapshot()?.table("t")?;
        let table = match there {
            Some(table) => table,
            None => {
                let mut txn = store.begin_write()?;
                let table = txn.create_table("t", TableKind::Ordered)?;
                txn.commit()?;
                table
            }
        };
        Ok(TreeDbKeys { store, table, form })
    }
}

impl Keys for TreeDbKeys {
    fn put(&self, numbers: &[u64], batch: usize, version: u64) -> Result<()> {
        let mut make = Maker::pairs(self.form);
        for numbers in numbers.chunks(batch) {
            let mut txn = self.store.begin_write()?;
            for &n in numbers {
                let (key, value) = make.pair(n, version);
                txn.put(&self.table, key, value)?;
            }
            txn.commit()?;
        }
        Ok(())
    }

    fn put_sorted(&self, numbers: &[u64], batch: usize, version: u64) -> Result<()> {
        let mut make = Maker::pairs(self.form);
        for numbers in numbers.chunks(batch) {
            let mut txn = self.store.begin_write()?;
            let mut cursor = txn.write_cursor(&self.table)?;
            for &n in numbers {
                let (key, value) = make.pair(n, version);
                cursor.put(key, value)?;
            }
            drop(cursor);
            txn.commit()?;
        }
        Ok(())
    }

    fn get(&self, numbers: &[u64], batch: usize) -> Result<u64> {
        let (mut make, mut answer) = (Maker::keys(self.form), Answer::default());
        for numbers in numbers.chunks(batch) {
            let txn = self.store.snapshot()?;
            for &n in numbers {
                answer.glance(txn.get(&self.table, make.key(n))?.ok_or("a key is missing")?);
            }
        }
        Ok(answer.finish())
    }

    fn get_many(&self, numbers: &[u64], group: usize) -> Result<u64> {
        let mut answer = Answer::default();
        let txn = self.store.snapshot()?;
        let mut rooms = vec![[0; 64]; group];
        for numbers in numbers.chunks(group) {
            let keys = numbers.iter().zip(&mut rooms).map(|(&n, room)| self.form.key(n, room));
            let keys: Vec<&[u8]> = keys.collect();
            for value in txn.get_many(&self.table, &keys)? {
                answer.glance(value.ok_or("a key is missing")?);
            }
        }
        Ok(answer.finish())
    }

    fn seek(&self, numbers: &[u64]) -> Result<u64> {
        let (mut make, mut answer) = (Maker::keys(self.form), Answer::default());
        let txn = self.store.snapshot()?;
        let mut cursor = txn.cursor(&self.table)?;
        for &n in numbers {
            cursor.seek(make.key(n))?;
            answer.glance(cursor.value()?.ok_or("a key is missing")?);
        }
        Ok(answer.finish())
    }

    fn walk(&self, how: Walk) -> Result<u64> {
        let mut answer = Answer::default();
        let txn = self.store.snapshot()?;
        let mut cursor = txn.cursor(&self.table)?;
        let mut more = if how == Walk::Backward { cursor.last()? } else { cursor.first()? };
        while more {
            let (key, value) = cursor.entry()?.ok_or("the cursor stands on no entry")?;
            match how {
                Walk::Whole => answer.pair(key, value),
                _ => answer.pass(key, value),
            }
            more = if how == Walk::Backward { cursor.prev()? } else { cursor.next()? };
        }
        Ok(answer.finish())
    }

    fn snapshots(&self, count: u64) -> Result<()> {
        for _ in 0..count {
            std::hint::black_box(&self.store.snapshot()?);
        }
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        Ok(self.store.checkpoint()?)
    }
}

/// TreeDB as a store of rows.
pub(super) struct TreeDbRows {
    store: Store,
    table: Table,
    form: Form,
}

impl TreeDbRows {
    /// The store in `dir`, which is empty.
    pub(super) fn open(class: Class, form: Form, dir: &Path) -> Result<TreeDbRows> {
        let store = Store::open_with(dir.join("db"), options(class))?;
        let mut txn = store.begin_write()?;
        let table = txn.create_table("t", TableKind::Rows)?;
        txn.commit()?;
        Ok(TreeDbRows { store, table, form })
    }
}

impl Rows for TreeDbRows {
    fn append(&self, from: u64, count: u64, batch: u64) -> Result<()> {
        let mut make = Maker::pairs(self.form);
        for start in (from..from + count).step_by(batch as usize) {
            let mut txn = self.store.begin_write()?;
            for n in start..(start + batch).min(from + count) {
                txn.append_row(&self.table, make.pair(n, 0).1)?;
            }
            txn.commit()?;
        }
        Ok(())
    }

    fn get(&self, numbers: &[u64]) -> Result<u64> {
        let mut answer = Answer::default();
        let txn = self.store.snapshot()?;
        for &n in numbers {
            answer.glance(txn.row(&self.table, n)?.ok_or("a row is missing")?);
        }
        Ok(answer.finish())
    }
}

/// TreeDB as a place for documents.
pub struct TreeDbDocuments {
    db: Database,
    people: Collection,
    names: Names,
    folder: Folder,
}

impl TreeDbDocuments {
    /// An empty one.
    ///
    /// # Errors
    /// From the database and the file system.
    pub fn new(class: Class, names: Names) -> Result<TreeDbDocuments> {
        let folder = Folder::new("treedb-documents")?;
        let db = Database::open_with(folder.path().join("db"), options(class))?;
        let people = db.collection("bench.people")?;
        people.create_index(IndexSpec::new(rawdoc! { "email": 1 }).unique())?;
        people.create_index(IndexSpec::new(rawdoc! { "city": 1 }))?;
        Ok(TreeDbDocuments { db, people, names, folder })
    }

    fn fetch(
        &self,
        order: &mut Order<'_>,
        count: u64,
        filter: impl Fn(u64) -> RawDocumentBuf,
    ) -> Result<u64> {
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
            let documents: Vec<RawDocumentBuf> = batch.map(|n| self.names.person(n).to_bson()).collect();
            let outcome = self.people.insert_many(&documents, true)?;
            if let Some((_, error)) = outcome.errors.into_iter().next() {
                return Err(error.into());
            }
        }
        Ok(())
    }

    fn by_id(&self, order: &mut Order<'_>, count: u64) -> Result<u64> {
        self.fetch(order, count, |n| rawdoc! { "_id": self.names.id(n) })
    }

    fn by_email(&self, order: &mut Order<'_>, count: u64) -> Result<u64> {
        self.fetch(order, count, |n| rawdoc! { "email": self.names.email(n) })
    }

    fn by_city(&self, number: u64) -> Result<u64> {
        let mut sum = 0;
        for found in self.people.find(FindRequest::filter(rawdoc! { "city": city(number) }))? {
            let mut answer = Answer::default();
            Person::from_bson(&found?)?.answer(&mut answer);
            sum = answer.finish().wrapping_add(sum);
        }
        Ok(sum)
    }

    fn update(&self, order: &mut Order<'_>, count: u64) -> Result<()> {
        for n in order.take(count as usize) {
            let change = rawdoc! { "$set": { "pad": filler(n) } };
            let done = self.people.update(UpdateRequest::one(rawdoc! { "_id": self.names.id(n) }, change))?;
            if done.matched != 1 {
                return Err("a document is missing".into());
            }
        }
        Ok(())
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
