//! LMDB, through heed. Documents are BSON under their `_id`; the two indexes are separate databases that the caller
//! maintains, as LMDB requires.

use std::path::Path;

use bench_common::{Checksum, IdPattern, city, padding};
use bson::raw::RawDocument;
use heed::byteorder::NativeEndian;
use heed::types::{Bytes, Str, U64};
use heed::{Database, DatabaseFlags, Env, EnvFlags, EnvOpenOptions, IntegerComparator, PutFlags};

use super::{
    DataDir, DocumentStore, DurabilityClass, EntryFormat, EntryGenerator, KeyValueStore, Order, RowStore,
    Scan, user_bson,
};
use crate::Result;

/// Opens an environment in `dir`.
pub(crate) fn open(dir: &Path, class: DurabilityClass) -> Result<Env> {
    let mut options = EnvOpenOptions::new();
    options.map_size(16 << 30).max_dbs(4);
    // Without read-ahead, data that does not fit in memory is read faster; other data is not affected.
    let flags = match class {
        DurabilityClass::Durable => EnvFlags::NO_READ_AHEAD,
        DurabilityClass::Relaxed => EnvFlags::NO_READ_AHEAD | EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP,
    };
    // SAFETY: without syncs the file may be lost in a power failure, which is acceptable here; only LMDB writes to the
    // map.
    unsafe { options.flags(flags) };
    // SAFETY: the directory belongs to this store: no other process and no second environment opens it.
    Ok(unsafe { options.open(dir) }?)
}

/// LMDB as a key/value store.
pub(super) struct LmdbKeyValue {
    env: Env,
    table: Database<Bytes, Bytes>,
    format: EntryFormat,
}

impl LmdbKeyValue {
    /// Opens the store in `dir`.
    pub(super) fn open(class: DurabilityClass, format: EntryFormat, dir: &Path) -> Result<LmdbKeyValue> {
        let env = open(dir, class)?;
        let txn = env.read_txn()?;
        let there = env.open_database(&txn, Some("t"))?;
        // The database handle is only kept if the transaction commits.
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
        Ok(LmdbKeyValue { env, table, format })
    }
}

impl KeyValueStore for LmdbKeyValue {
    fn put(&self, numbers: &[u64], batch: usize, version: u64) -> Result<()> {
        let mut entries = EntryGenerator::with_values(self.format);
        for numbers in numbers.chunks(batch) {
            let mut txn = self.env.write_txn()?;
            for &n in numbers {
                let (key, value) = entries.entry(n, version);
                self.table.put(&mut txn, key, value)?;
            }
            txn.commit()?;
        }
        Ok(())
    }

    fn put_sorted(&self, numbers: &[u64], batch: usize, version: u64) -> Result<()> {
        let mut entries = EntryGenerator::with_values(self.format);
        for numbers in numbers.chunks(batch) {
            let mut txn = self.env.write_txn()?;
            let mut cursor = self.table.iter_mut(&mut txn)?;
            for &n in numbers {
                let (key, value) = entries.entry(n, version);
                // SAFETY: no reference into the database is held.
                unsafe { cursor.put_current_with_options::<Bytes>(PutFlags::empty(), key, value) }?;
            }
            drop(cursor);
            txn.commit()?;
        }
        Ok(())
    }

    fn get(&self, numbers: &[u64], batch: usize) -> Result<u64> {
        let (mut entries, mut checksum) = (EntryGenerator::keys_only(self.format), Checksum::default());
        for numbers in numbers.chunks(batch) {
            let txn = self.env.read_txn()?;
            for &n in numbers {
                checksum.add_prefix(self.table.get(&txn, entries.key(n))?.ok_or("a key is missing")?);
            }
        }
        Ok(checksum.finish())
    }

    fn seek(&self, numbers: &[u64]) -> Result<u64> {
        let (mut entries, mut checksum) = (EntryGenerator::keys_only(self.format), Checksum::default());
        let txn = self.env.read_txn()?;
        for &n in numbers {
            let found = self.table.get_greater_than_or_equal_to(&txn, entries.key(n))?;
            checksum.add_prefix(found.ok_or("a key is missing")?.1);
        }
        Ok(checksum.finish())
    }

    fn scan(&self, scan: Scan) -> Result<u64> {
        let mut checksum = Checksum::default();
        let txn = self.env.read_txn()?;
        if scan == Scan::Backward {
            for entry in self.table.rev_iter(&txn)?.move_between_keys() {
                let (key, value) = entry?;
                checksum.add_entry_prefix(key, value);
            }
            return Ok(checksum.finish());
        }
        for entry in self.table.iter(&txn)?.move_between_keys() {
            let (key, value) = entry?;
            match scan {
                Scan::Verify => checksum.add_entry(key, value),
                _ => checksum.add_entry_prefix(key, value),
            }
        }
        Ok(checksum.finish())
    }

    fn snapshots(&self, count: u64) -> Result<()> {
        for _ in 0..count {
            std::hint::black_box(&self.env.read_txn()?);
        }
        Ok(())
    }

    fn checkpoint(&self) -> Result<()> {
        Ok(self.env.force_sync()?)
    }
}

/// LMDB as a row store: integer keys, appended.
pub(super) struct LmdbRows {
    env: Env,
    table: Database<U64<NativeEndian>, Bytes, IntegerComparator>,
    format: EntryFormat,
}

impl LmdbRows {
    /// Opens the store in `dir`, which must be empty.
    pub(super) fn open(class: DurabilityClass, format: EntryFormat, dir: &Path) -> Result<LmdbRows> {
        let env = open(dir, class)?;
        let mut txn = env.write_txn()?;
        let table = env
            .database_options()
            .types::<U64<NativeEndian>, Bytes>()
            .key_comparator::<IntegerComparator>()
            .name("t")
            .create(&mut txn)?;
        txn.commit()?;
        Ok(LmdbRows { env, table, format })
    }
}

impl RowStore for LmdbRows {
    fn append(&self, from: u64, count: u64, batch: u64) -> Result<()> {
        let mut entries = EntryGenerator::with_values(self.format);
        for start in (from..from + count).step_by(batch as usize) {
            let mut txn = self.env.write_txn()?;
            for n in start..(start + batch).min(from + count) {
                self.table.put_with_flags(&mut txn, PutFlags::APPEND, &n, entries.entry(n, 0).1)?;
            }
            txn.commit()?;
        }
        Ok(())
    }

    fn get(&self, numbers: &[u64]) -> Result<u64> {
        let mut checksum = Checksum::default();
        let txn = self.env.read_txn()?;
        for n in numbers {
            checksum.add_prefix(self.table.get(&txn, n)?.ok_or("a row is missing")?);
        }
        Ok(checksum.finish())
    }
}

/// LMDB as a document store.
pub struct LmdbDocuments {
    env: Env,
    documents: Database<Str, Bytes>,
    emails: Database<Str, Str>,
    cities: Database<Str, Str>,
    ids: IdPattern,
    data_dir: DataDir,
}

impl LmdbDocuments {
    /// Opens an empty one.
    ///
    /// # Errors
    /// From LMDB and the file system.
    pub fn new(class: DurabilityClass, ids: IdPattern) -> Result<LmdbDocuments> {
        let data_dir = DataDir::new("lmdb-documents")?;
        let env = open(data_dir.path(), class)?;
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
        Ok(LmdbDocuments { env, documents, emails, cities, ids, data_dir })
    }

    fn fetch(&self, txn: &heed::RoTxn<'_>, id: &str, checksum: &mut Checksum) -> Result<()> {
        let found = self.documents.get(txn, id)?.ok_or("a document is missing")?;
        user_bson::decode(RawDocument::from_bytes(found)?)?.add_to(checksum);
        Ok(())
    }
}

impl DocumentStore for LmdbDocuments {
    fn name(&self) -> &'static str {
        "LMDB"
    }

    fn insert(&self, order: &mut Order<'_>, count: u64, batch: u64) -> Result<()> {
        for start in (0..count).step_by(batch as usize) {
            let mut txn = self.env.write_txn()?;
            for n in order.take(batch.min(count - start) as usize) {
                let user = self.ids.user(n);
                let bson = user_bson::encode(&user);
                let once = PutFlags::NO_OVERWRITE;
                self.documents.put_with_flags(&mut txn, once, &user.id, bson.as_bytes())?;
                self.emails.put_with_flags(&mut txn, once, &user.email, &user.id)?;
                self.cities.put(&mut txn, &user.city, &user.id)?;
            }
            txn.commit()?;
        }
        Ok(())
    }

    fn find_by_id(&self, order: &mut Order<'_>, count: u64) -> Result<u64> {
        let mut checksum = Checksum::default();
        for n in order.take(count as usize) {
            let txn = self.env.read_txn()?;
            self.fetch(&txn, &self.ids.id(n), &mut checksum)?;
        }
        Ok(checksum.finish())
    }

    fn find_by_email(&self, order: &mut Order<'_>, count: u64) -> Result<u64> {
        let mut checksum = Checksum::default();
        for n in order.take(count as usize) {
            let txn = self.env.read_txn()?;
            let id = self.emails.get(&txn, &self.ids.email(n))?.ok_or("an address is missing")?;
            self.fetch(&txn, id, &mut checksum)?;
        }
        Ok(checksum.finish())
    }

    fn find_by_city(&self, number: u64) -> Result<u64> {
        let mut sum = 0;
        let txn = self.env.read_txn()?;
        for found in self.cities.get_duplicates(&txn, &city(number))?.into_iter().flatten() {
            let mut checksum = Checksum::default();
            self.fetch(&txn, found?.1, &mut checksum)?;
            sum = checksum.finish().wrapping_add(sum);
        }
        Ok(sum)
    }

    fn update(&self, order: &mut Order<'_>, count: u64) -> Result<()> {
        for n in order.take(count as usize) {
            let mut txn = self.env.write_txn()?;
            let found = self.documents.get(&txn, &self.ids.id(n))?.ok_or("a document is missing")?;
            let mut user = user_bson::decode(RawDocument::from_bytes(found)?)?;
            user.pad = padding(n);
            self.documents.put(&mut txn, &user.id, user_bson::encode(&user).as_bytes())?;
            txn.commit()?;
        }
        Ok(())
    }

    fn delete(&self, order: &mut Order<'_>, count: u64) -> Result<()> {
        for n in order.take(count as usize) {
            let mut txn = self.env.write_txn()?;
            let found = self.documents.get(&txn, &self.ids.id(n))?.ok_or("a document is missing")?;
            let user = user_bson::decode(RawDocument::from_bytes(found)?)?;
            self.documents.delete(&mut txn, &user.id)?;
            self.emails.delete(&mut txn, &user.email)?;
            self.cities.delete_one_duplicate(&mut txn, &user.city, &user.id)?;
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

    fn checkpoint(&self) -> Result<()> {
        Ok(self.env.force_sync()?)
    }

    fn bytes_on_disk(&self) -> Result<u64> {
        self.data_dir.bytes()
    }
}
