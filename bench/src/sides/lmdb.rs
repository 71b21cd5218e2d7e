//! LMDB, through heed. Documents are BSON under their id; the two indexes are databases kept by hand, as its users
//! do.

use std::path::Path;

use bson::raw::RawDocument;
use heed::types::{Bytes, Str};
use heed::{Database, DatabaseFlags, Env, EnvFlags, EnvOpenOptions, PutFlags};

use super::{Class, Documents, Folder, Keys, Order, key, value};
use crate::Result;
use crate::contest::Answer;
use crate::people::{Person, email, id};

fn open(dir: &Path, class: Class) -> Result<Env> {
    let mut options = EnvOpenOptions::new();
    options.map_size(16 << 30).max_dbs(4);
    if class == Class::Relaxed {
        // SAFETY: without syncs the file may be lost in a power cut, which this side of the contest accepts; the
        // map is written by LMDB alone.
        unsafe { options.flags(EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP) };
    }
    // SAFETY: the folder is this side's own: no other process and no second environment opens it.
    Ok(unsafe { options.open(dir) }?)
}

/// LMDB as a key/value store.
pub struct LmdbKeys {
    env: Env,
    table: Database<Bytes, Bytes>,
    _folder: Folder,
}

impl LmdbKeys {
    /// An empty store.
    ///
    /// # Errors
    /// From LMDB and the file system.
    pub fn new(class: Class) -> Result<LmdbKeys> {
        let folder = Folder::new("lmdb-keys")?;
        let env = open(folder.path(), class)?;
        let mut txn = env.write_txn()?;
        let table = env.create_database(&mut txn, Some("t"))?;
        txn.commit()?;
        Ok(LmdbKeys { env, table, _folder: folder })
    }
}

impl Keys for LmdbKeys {
    fn name(&self) -> &'static str {
        "LMDB"
    }

    fn put(&self, order: &mut Order<'_>, count: u64, batch: u64, version: u64) -> Result<()> {
        for start in (0..count).step_by(batch as usize) {
            let mut txn = self.env.write_txn()?;
            for n in order.take(batch.min(count - start) as usize) {
                self.table.put(&mut txn, &key(n), &value(n, version))?;
            }
            txn.commit()?;
        }
        Ok(())
    }

    fn get(&self, order: &mut Order<'_>, count: u64, batch: u64) -> Result<u64> {
        let mut answer = Answer::default();
        for start in (0..count).step_by(batch as usize) {
            let txn = self.env.read_txn()?;
            for n in order.take(batch.min(count - start) as usize) {
                let found = self.table.get(&txn, &key(n))?.ok_or("a key is missing")?;
                answer.add(&found[..16]);
            }
        }
        Ok(answer.finish())
    }

    fn scan(&self) -> Result<u64> {
        let mut answer = Answer::default();
        let txn = self.env.read_txn()?;
        for entry in self.table.iter(&txn)? {
            let (key, value) = entry?;
            answer.add(key);
            answer.add(&value[..16]);
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
    folder: Folder,
}

impl LmdbDocuments {
    /// An empty one.
    ///
    /// # Errors
    /// From LMDB and the file system.
    pub fn new(class: Class) -> Result<LmdbDocuments> {
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
        Ok(LmdbDocuments { env, documents, emails, cities, folder })
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
                let person = Person::new(n);
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
            self.fetch(&txn, &id(n), &mut answer)?;
        }
        Ok(answer.finish())
    }

    fn by_email(&self, order: &mut Order<'_>, count: u64) -> Result<u64> {
        let mut answer = Answer::default();
        for n in order.take(count as usize) {
            let txn = self.env.read_txn()?;
            let id = self.emails.get(&txn, &email(n))?.ok_or("an address is missing")?;
            self.fetch(&txn, id, &mut answer)?;
        }
        Ok(answer.finish())
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
