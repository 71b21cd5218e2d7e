//! LMDB, through heed. Documents are BSON under their id; the two indexes are databases kept by hand, as its users
//! do.

use std::path::Path;

use bson::raw::RawDocument;
use heed::byteorder::NativeEndian;
use heed::types::{Bytes, Str, U64};
use heed::{Database, DatabaseFlags, Env, EnvFlags, EnvOpenOptions, IntegerComparator, PutFlags};

use super::{Class, Documents, Folder, Form, Keys, Maker, Order, Rows, Walk};
use crate::Result;
use crate::contest::Answer;
use crate::people::{Names, Person, city, filler};

/// An environment in `dir`.
pub(crate) fn open(dir: &Path, class: Class) -> Result<Env> {
    let mut options = EnvOpenOptions::new();
    options.map_size(16 << 30).max_dbs(4);
    // Data that does not fit in memory is read better without the system's reading ahead; other data does not care.
    let flags = match class {
        Class::Durable => EnvFlags::NO_READ_AHEAD,
        Class::Relaxed => EnvFlags::NO_READ_AHEAD | EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP,
    };
    // SAFETY: without syncs the file may be lost in a power cut, which this side of the contest accepts; the map is
    // written by LMDB alone.
    unsafe { options.flags(flags) };
    // SAFETY: the folder is this side's own: no other process and no second environment opens it.
    Ok(unsafe { options.open(dir) }?)
}

/// LMDB as a key/value store.
pub(super) struct LmdbKeys {
    env: Env,
    table: Database<Bytes, Bytes>,
    form: Form,
}

impl LmdbKeys {
    /// The store in `dir`.
    pub(super) fn open(class: Class, form: Form, dir: &Path) -> Result<LmdbKeys> {
        let env = open(dir, class)?;
        let txn = env.read_txn()?;
        let there = env.open_database(&txn, Some("t"))?;
        // Ended with a commit, or the handle is gone with it.
        txn.commit()?;
        let table = match there {
            Some(table) => table,
            None => {
                let mut txn = env.write_txn()?;
                let table = env.create_database(&mut txn, Some("t"))?;
                txn.commit()?;
                table
            }
        };
        Ok(LmdbKeys { env, table, form })
    }
}

impl Keys for LmdbKeys {
    fn put(&self, numbers: &[u64], batch: usize, version: u64) -> Result<()> {
        let mut make = Maker::pairs(self.form);
        for numbers in numbers.chunks(batch) {
            let mut txn = self.env.write_txn()?;
            for &n in numbers {
                let (key, value) = make.pair(n, version);
                self.table.put(&mut txn, key, value)?;
            }
            txn.commit()?;
        }
        Ok(())
    }

    fn put_sorted(&self, numbers: &[u64], batch: usize, version: u64) -> Result<()> {
        let mut make = Maker::pairs(self.form);
        for numbers in numbers.chunks(batch) {
            let mut txn = self.env.write_txn()?;
            let mut cursor = self.table.iter_mut(&mut txn)?;
            for &n in numbers {
                let (key, value) = make.pair(n, version);
                // SAFETY: nothing borrowed from the database is held.
                unsafe { cursor.put_current_with_options::<Bytes>(PutFlags::empty(), key, value) }?;
            }
            drop(cursor);
            txn.commit()?;
        }
        Ok(())
    }

    fn get(&self, numbers: &[u64], batch: usize) -> Result<u64> {
        let (mut make, mut answer) = (Maker::keys(self.form), Answer::default());
        for numbers in numbers.chunks(batch) {
            let txn = self.env.read_txn()?;
            for &n in numbers {
                answer.glance(self.table.get(&txn, make.key(n))?.ok_or("a key is missing")?);
            }
        }
        Ok(answer.finish())
    }

    fn seek(&self, numbers: &[u64]) -> Result<u64> {
        let (mut make, mut answer) = (Maker::keys(self.form), Answer::default());
        let txn = self.env.read_txn()?;
        for &n in numbers {
            let found = self.table.get_greater_than_or_equal_to(&txn, make.key(n))?;
            answer.glance(found.ok_or("a key is missing")?.1);
        }
        Ok(answer.finish())
    }

    fn walk(&self, how: Walk) -> Result<u64> {
        let mut answer = Answer::default();
        let txn = self.env.read_txn()?;
        if how == Walk::Backward {
            for entry in self.table.rev_iter(&txn)?.move_between_keys() {
                let (key, value) = entry?;
                answer.pass(key, value);
            }
            return Ok(answer.finish());
        }
        for entry in self.table.iter(&txn)?.move_between_keys() {
            let (key, value) = entry?;
            match how {
                Walk::Whole => answer.pair(key, value),
                _ => answer.pass(key, value),
            }
        }
        Ok(answer.finish())
    }

    fn snapshots(&self, count: u64) -> Result<()> {
        for _ in 0..count {
            std::hint::black_box(&self.env.read_txn()?);
        }
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        Ok(self.env.force_sync()?)
    }
}

/// LMDB as a store of rows: its integer keys, appended.
pub(super) struct LmdbRows {
    env: Env,
    table: Database<U64<NativeEndian>, Bytes, IntegerComparator>,
    form: Form,
}

impl LmdbRows {
    /// The store in `dir`, which is empty.
    pub(super) fn open(class: Class, form: Form, dir: &Path) -> Result<LmdbRows> {
        let env = open(dir, class)?;
        let mut txn = env.write_txn()?;
        let table = env
            .database_options()
            .types::<U64<NativeEndian>, Bytes>()
            .key_comparator::<IntegerComparator>()
            .name("t")
            .create(&mut txn)?;
        txn.commit()?;
        Ok(LmdbRows { env, table, form })
    }
}

impl Rows for LmdbRows {
    fn append(&self, from: u64, count: u64, batch: u64) -> Result<()> {
        let mut make = Maker::pairs(self.form);
        for start in (from..from + count).step_by(batch as usize) {
            let mut txn = self.env.write_txn()?;
            for n in start..(start + batch).min(from + count) {
                self.table.put_with_flags(&mut txn, PutFlags::APPEND, &n, make.pair(n, 0).1)?;
            }
            txn.commit()?;
        }
        Ok(())
    }

    fn get(&self, numbers: &[u64]) -> Result<u64> {
        let mut answer = Answer::default();
        let txn = self.env.read_txn()?;
        for n in numbers {
            answer.glance(self.table.get(&txn, n)?.ok_or("a row is missing")?);
        }
        Ok(answer.finish())
    }
}

/// LMDB as a place for documents.
pub struct LmdbDocuments {
    env: Env,
    documents: Database<Str, Bytes>,
    emails: Database<Str, Str>,
    cities: Database<Str, Str>,
    names: Names,
    folder: Folder,
}

impl LmdbDocuments {
    /// An empty one.
    ///
    /// # Errors
    /// From LMDB and the file system.
    pub fn new(class: Class, names: Names) -> Result<LmdbDocuments> {
        let folder = Folder::new("lmdb-documents")?;
        let env = open(folder.path(), class)?;
        let mut txn = env.write_txn()?;
        let documents = env.create_database(&mut txn, Some("documents"))?;
        let emails = env.create_database(&mut txn, Some("emails"))?;
        let cities = env
            .database_options()
            .types::<Str, Str>()
            .flags(DatabaseFlags::DUP_SORT)
            .name("cities")
            .create(&mut txn)?;
        txn.commit()?;
        Ok(LmdbDocuments { env, documents, emails, cities, names, folder })
    }

    fn fetch(&self, txn: &heed::RoTxn<'_>, id: &str, answer: &mut Answer) -> Result<()> {
        let found = self.documents.get(txn, id)?.ok_or("a document is missing")?;
        Person::from_bson(RawDocument::from_bytes(found)?)?.answer(answer);
        Ok(())
    }
}

impl Documents for LmdbDocuments {
    fn name(&self) -> &'static str {
        "LMDB"
    }

    fn insert(&self, order: &mut Order<'_>, count: u64, batch: u64) -> Result<()> {
        for start in (0..count).step_by(batch as usize) {
            let mut txn = self.env.write_txn()?;
            for n in order.take(batch.min(count - start) as usize) {
                let person = self.names.person(n);
                let bson = person.to_bson();
                let once = PutFlags::NO_OVERWRITE;
                self.documents.put_with_flags(&mut txn, once, &person.id, bson.as_bytes())?;
                self.emails.put_with_flags(&mut txn, once, &person.email, &person.id)?;
                self.cities.put(&mut txn, &person.city, &person.id)?;
            }
            txn.commit()?;
        }
        Ok(())
    }

    fn by_id(&self, order: &mut Order<'_>, count: u64) -> Result<u64> {
        let mut answer = Answer::default();
        for n in order.take(count as usize) {
            let txn = self.env.read_txn()?;
            self.fetch(&txn, &self.names.id(n), &mut answer)?;
        }
        Ok(answer.finish())
    }

    fn by_email(&self, order: &mut Order<'_>, count: u64) -> Result<u64> {
        let mut answer = Answer::default();
        for n in order.take(count as usize) {
            let txn = self.env.read_txn()?;
            let id = self.emails.get(&txn, &self.names.email(n))?.ok_or("an address is missing")?;
            self.fetch(&txn, id, &mut answer)?;
        }
        Ok(answer.finish())
    }

    fn by_city(&self, number: u64) -> Result<u64> {
        let mut sum = 0;
        let txn = self.env.read_txn()?;
        for found in self.cities.get_duplicates(&txn, &city(number))?.into_iter().flatten() {
            let mut answer = Answer::default();
            self.fetch(&txn, found?.1, &mut answer)?;
            sum = answer.finish().wrapping_add(sum);
        }
        Ok(sum)
    }

    fn update(&self, order: &mut Order<'_>, count: u64) -> Result<()> {
        for n in order.take(count as usize) {
            let mut txn = self.env.write_txn()?;
            let found = self.documents.get(&txn, &self.names.id(n))?.ok_or("a document is missing")?;
            let mut person = Person::from_bson(RawDocument::from_bytes(found)?)?;
            person.pad = filler(n);
            self.documents.put(&mut txn, &person.id, person.to_bson().as_bytes())?;
            txn.commit()?;
        }
        Ok(())
    }

    fn counts(&self) -> Result<(u64, u64)> {
        let txn = self.env.read_txn()?;
        let all = self.documents.len(&txn)?;
        let city = self.cities.get_duplicates(&txn, "city-07")?.map_or(0, |found| found.count());
        Ok((all, city as u64))
    }

    fn settle(&self) -> Result<()> {
        Ok(self.env.force_sync()?)
    }

    fn folder(&self) -> &Folder {
        &self.folder
    }
}
