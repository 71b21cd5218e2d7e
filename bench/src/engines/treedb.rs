//! TreeDB, through its library. All code of the benchmarks that calls TreeDB is in this file.

use std::path::Path;

use bench_common::{Checksum, IdPattern, city, padding};
use bson::raw::{RawDocument, RawDocumentBuf};
use bson::rawdoc;
use treedb_collections::AggregateRequest;
use treedb_collections::{Collection, Database, DeleteRequest, FindRequest, IndexSpec, UpdateRequest};
use treedb_storage::{Durability, Options, Reads, Store, Table, TableKind};

use super::{
    DataDir, DocumentStore, DurabilityClass, EntryFormat, EntryGenerator, KeyValueStore, Order, RowStore,
    Scan, user_bson,
};
use crate::Result;
use crate::debian_packages::{BATCH, FieldChecksum, Package, PackageStore};

fn options(class: DurabilityClass) -> Options {
    let mut options = Options::default();
    options.durability = match class {
        DurabilityClass::Durable => Durability::Durable,
        DurabilityClass::Relaxed => Durability::Relaxed,
    };
    options
}

/// TreeDB as a key/value store.
pub(super) struct TreeDbKeyValue {
    store: Store,
    table: Table,
    format: EntryFormat,
}

impl TreeDbKeyValue {
    /// Opens the store in `dir`.
    pub(super) fn open(class: DurabilityClass, format: EntryFormat, dir: &Path) -> Result<TreeDbKeyValue> {
        TreeDbKeyValue::open_with(options(class), format, dir)
    }

    /// Opens the store in `dir` without automatic checkpoints, so that its log keeps everything.
    pub(super) fn open_without_checkpoints(format: EntryFormat, dir: &Path) -> Result<TreeDbKeyValue> {
        let mut options = options(DurabilityClass::Relaxed);
        options.checkpoint_log_bytes = u64::MAX;
        options.checkpoint_dead_pages = usize::MAX;
        TreeDbKeyValue::open_with(options, format, dir)
    }

    fn open_with(options: Options, format: EntryFormat, dir: &Path) -> Result<TreeDbKeyValue> {
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
        Ok(TreeDbKeyValue { store, table, format })
    }
}

/// A store of TreeDB that is checked.
pub struct CheckedStore(Store);

impl CheckedStore {
    /// Opens the store in `dir`.
    ///
    /// # Errors
    /// Those of the store.
    pub fn open(dir: &Path) -> Result<CheckedStore> {
        Ok(CheckedStore(Store::open_with(dir.join("db"), options(DurabilityClass::Relaxed))?))
    }

    /// MiB of its pages in use.
    pub fn mebibytes(&self) -> u64 {
        u64::from(self.0.stats().pages.live) * 4 / 1024
    }

    /// Checks it by so many threads. Returns the number of entries.
    ///
    /// # Errors
    /// Those of the store.
    pub fn check(&self, threads: usize) -> Result<u64> {
        Ok(self.0.check_with(threads, |_| {})?.entries)
    }
}

impl KeyValueStore for TreeDbKeyValue {
    fn put(&self, numbers: &[u64], batch: usize, version: u64) -> Result<()> {
        let mut entries = EntryGenerator::with_values(self.format);
        for numbers in numbers.chunks(batch) {
            let mut txn = self.store.begin_write()?;
            for &n in numbers {
                let (key, value) = entries.entry(n, version);
                txn.put(&self.table, key, value)?;
            }
            txn.commit()?;
        }
        Ok(())
    }

    fn put_sorted(&self, numbers: &[u64], batch: usize, version: u64) -> Result<()> {
        let mut entries = EntryGenerator::with_values(self.format);
        for numbers in numbers.chunks(batch) {
            let mut txn = self.store.begin_write()?;
            let mut cursor = txn.write_cursor(&self.table)?;
            for &n in numbers {
                let (key, value) = entries.entry(n, version);
                cursor.put(key, value)?;
            }
            drop(cursor);
            txn.commit()?;
        }
        Ok(())
    }

    fn get(&self, numbers: &[u64], batch: usize) -> Result<u64> {
        let (mut entries, mut checksum) = (EntryGenerator::keys_only(self.format), Checksum::default());
        for numbers in numbers.chunks(batch) {
            let txn = self.store.snapshot()?;
            for &n in numbers {
                checksum.add_prefix(txn.get(&self.table, entries.key(n))?.ok_or("a key is missing")?);
            }
        }
        Ok(checksum.finish())
    }

    fn get_many(&self, numbers: &[u64], group: usize) -> Result<u64> {
        let mut checksum = Checksum::default();
        let txn = self.store.snapshot()?;
        let mut buffers = vec![[0; 64]; group];
        for numbers in numbers.chunks(group) {
            let keys = numbers.iter().zip(&mut buffers).map(|(&n, buffer)| self.format.key(n, buffer));
            let keys: Vec<&[u8]> = keys.collect();
            for value in txn.get_many(&self.table, &keys)? {
                checksum.add_prefix(value.ok_or("a key is missing")?);
            }
        }
        Ok(checksum.finish())
    }

    fn seek(&self, numbers: &[u64]) -> Result<u64> {
        let (mut entries, mut checksum) = (EntryGenerator::keys_only(self.format), Checksum::default());
        let txn = self.store.snapshot()?;
        let mut cursor = txn.cursor(&self.table)?;
        for &n in numbers {
            cursor.seek(entries.key(n))?;
            checksum.add_prefix(cursor.value()?.ok_or("a key is missing")?);
        }
        Ok(checksum.finish())
    }

    fn scan(&self, scan: Scan) -> Result<u64> {
        let mut checksum = Checksum::default();
        let txn = self.store.snapshot()?;
        let mut cursor = txn.cursor(&self.table)?;
        let mut more = if scan == Scan::Backward { cursor.last()? } else { cursor.first()? };
        while more {
            let (key, value) = cursor.entry()?.ok_or("the cursor is on no entry")?;
            match scan {
                Scan::Verify => checksum.add_entry(key, value),
                _ => checksum.add_entry_prefix(key, value),
            }
            more = if scan == Scan::Backward { cursor.prev()? } else { cursor.next()? };
        }
        Ok(checksum.finish())
    }

    fn snapshots(&self, count: u64) -> Result<()> {
        for _ in 0..count {
            std::hint::black_box(&self.store.snapshot()?);
        }
        Ok(())
    }

    fn checkpoint(&self) -> Result<()> {
        Ok(self.store.checkpoint()?)
    }
}

/// TreeDB as a row store.
pub(super) struct TreeDbRows {
    store: Store,
    table: Table,
    format: EntryFormat,
}

impl TreeDbRows {
    /// Opens the store in `dir`, which must be empty.
    pub(super) fn open(class: DurabilityClass, format: EntryFormat, dir: &Path) -> Result<TreeDbRows> {
        let store = Store::open_with(dir.join("db"), options(class))?;
        let mut txn = store.begin_write()?;
        let table = txn.create_table("t", TableKind::Rows)?;
        txn.commit()?;
        Ok(TreeDbRows { store, table, format })
    }
}

impl RowStore for TreeDbRows {
    fn append(&self, from: u64, count: u64, batch: u64) -> Result<()> {
        let mut entries = EntryGenerator::with_values(self.format);
        for start in (from..from + count).step_by(batch as usize) {
            let mut txn = self.store.begin_write()?;
            for n in start..(start + batch).min(from + count) {
                txn.append_row(&self.table, entries.entry(n, 0).1)?;
            }
            txn.commit()?;
        }
        Ok(())
    }

    fn get(&self, numbers: &[u64]) -> Result<u64> {
        let mut checksum = Checksum::default();
        let txn = self.store.snapshot()?;
        for &n in numbers {
            checksum.add_prefix(txn.row(&self.table, n)?.ok_or("a row is missing")?);
        }
        Ok(checksum.finish())
    }
}

/// Inserts documents as one transaction.
fn insert(collection: &Collection, documents: &[RawDocumentBuf]) -> Result<()> {
    match collection.insert_many(documents, true)?.errors.into_iter().next() {
        Some((_, error)) => Err(error.into()),
        None => Ok(()),
    }
}

/// TreeDB as a document store.
pub struct TreeDbDocuments {
    db: Database,
    users: Collection,
    ids: IdPattern,
    data_dir: DataDir,
}

impl TreeDbDocuments {
    /// Opens an empty one.
    ///
    /// # Errors
    /// From the database and the file system.
    pub fn new(class: DurabilityClass, ids: IdPattern) -> Result<TreeDbDocuments> {
        let data_dir = DataDir::new("treedb-documents")?;
        let db = Database::open_with(data_dir.path().join("db"), options(class))?;
        let users = db.collection("bench.users")?;
        users.create_index(IndexSpec::new(rawdoc! { "email": 1 }).unique())?;
        users.create_index(IndexSpec::new(rawdoc! { "city": 1 }))?;
        Ok(TreeDbDocuments { db, users, ids, data_dir })
    }

    fn find_each(
        &self,
        order: &mut Order<'_>,
        count: u64,
        filter: impl Fn(u64) -> RawDocumentBuf,
    ) -> Result<u64> {
        let mut checksum = Checksum::default();
        for n in order.take(count as usize) {
            let found = self.users.find_one(filter(n))?.ok_or("a document is missing")?;
            user_bson::decode(&found)?.add_to(&mut checksum);
        }
        Ok(checksum.finish())
    }
}

impl DocumentStore for TreeDbDocuments {
    fn name(&self) -> &'static str {
        "TreeDB"
    }

    fn insert(&self, order: &mut Order<'_>, count: u64, batch: u64) -> Result<()> {
        for start in (0..count).step_by(batch as usize) {
            let batch = order.take(batch.min(count - start) as usize);
            let documents: Vec<RawDocumentBuf> =
                batch.map(|n| user_bson::encode(&self.ids.user(n))).collect();
            insert(&self.users, &documents)?;
        }
        Ok(())
    }

    fn find_by_id(&self, order: &mut Order<'_>, count: u64) -> Result<u64> {
        self.find_each(order, count, |n| rawdoc! { "_id": self.ids.id(n) })
    }

    fn find_by_email(&self, order: &mut Order<'_>, count: u64) -> Result<u64> {
        self.find_each(order, count, |n| rawdoc! { "email": self.ids.email(n) })
    }

    fn find_by_city(&self, number: u64) -> Result<u64> {
        let mut sum = 0;
        for found in self.users.find(FindRequest::filter(rawdoc! { "city": city(number) }))? {
            let mut checksum = Checksum::default();
            user_bson::decode(&found?)?.add_to(&mut checksum);
            sum = checksum.finish().wrapping_add(sum);
        }
        Ok(sum)
    }

    fn update(&self, order: &mut Order<'_>, count: u64) -> Result<()> {
        for n in order.take(count as usize) {
            let change = rawdoc! { "$set": { "pad": padding(n) } };
            let result = self.users.update(UpdateRequest::one(rawdoc! { "_id": self.ids.id(n) }, change))?;
            if result.matched != 1 {
                return Err("a document is missing".into());
            }
        }
        Ok(())
    }

    fn delete(&self, order: &mut Order<'_>, count: u64) -> Result<()> {
        for n in order.take(count as usize) {
            let deleted = self.users.delete(DeleteRequest::one(rawdoc! { "_id": self.ids.id(n) }))?;
            if deleted != 1 {
                return Err("a document is missing".into());
            }
        }
        Ok(())
    }

    fn counts(&self) -> Result<(u64, u64)> {
        let city = self.users.count(FindRequest::filter(rawdoc! { "city": "city-07" }))?;
        Ok((self.users.len()?, city))
    }

    fn checkpoint(&self) -> Result<()> {
        Ok(self.db.checkpoint()?)
    }

    fn bytes_on_disk(&self) -> Result<u64> {
        self.data_dir.bytes()
    }
}

/// TreeDB as a store of Debian packages.
pub(crate) struct TreeDbPackages {
    db: Database,
    packages: Collection,
    data_dir: DataDir,
}

impl TreeDbPackages {
    /// Opens an empty one.
    pub(crate) fn new() -> Result<TreeDbPackages> {
        let data_dir = DataDir::new("treedb-packages")?;
        let db = Database::open_with(data_dir.path().join("db"), options(DurabilityClass::Relaxed))?;
        let packages = db.collection("bench.packages")?;
        packages.create_index(IndexSpec::new(rawdoc! { "Package": 1, "Version": 1 }).unique())?;
        packages.create_index(IndexSpec::new(rawdoc! { "Section": 1 }))?;
        Ok(TreeDbPackages { db, packages, data_dir })
    }

    fn find_each(&self, filters: impl Iterator<Item = RawDocumentBuf>) -> Result<u64> {
        let mut checksum = FieldChecksum::default();
        for filter in filters {
            let found = self.packages.find_one(filter)?;
            checksum.add_document(&found.ok_or("a package is missing")?)?;
        }
        Ok(checksum.finish())
    }
}

impl PackageStore for TreeDbPackages {
    fn name(&self) -> &'static str {
        "TreeDB"
    }

    fn insert(&self, packages: &[Package]) -> Result<()> {
        for (number, batch) in packages.chunks(BATCH).enumerate() {
            let first = (number * BATCH) as u64;
            let documents: Vec<RawDocumentBuf> =
                batch.iter().zip(first..).map(|(package, id)| package.to_bson(id)).collect::<Result<_>>()?;
            insert(&self.packages, &documents)?;
        }
        Ok(())
    }

    fn find_by_id(&self, numbers: &[u64]) -> Result<u64> {
        self.find_each(numbers.iter().map(|number| rawdoc! { "_id": *number as i64 }))
    }

    fn find_by_name(&self, names: &[(&str, &str)]) -> Result<u64> {
        let filter = |(name, version): &(&str, &str)| rawdoc! { "Package": *name, "Version": *version };
        self.find_each(names.iter().map(filter))
    }

    fn find_by_section(&self, section: &str) -> Result<u64> {
        let mut checksum = FieldChecksum::default();
        for found in self.packages.find(FindRequest::filter(rawdoc! { "Section": section }))? {
            checksum.add_document(&found?)?;
        }
        Ok(checksum.finish())
    }

    fn checkpoint(&self) -> Result<()> {
        Ok(self.db.checkpoint()?)
    }

    fn bytes_on_disk(&self) -> Result<u64> {
        self.data_dir.bytes()
    }
}

/// Bytes that a pipeline stage may hold by default.
pub(crate) const DEFAULT_STAGE_MEMORY: usize = treedb_query::aggregate::DEFAULT_MEMORY_LIMIT;

/// TreeDB with collections that are aggregated, and on which indexes are built.
pub(crate) struct TreeDbAnalytics {
    db: Database,
    _data_dir: DataDir,
}

impl TreeDbAnalytics {
    /// Opens an empty one.
    pub(crate) fn new() -> Result<TreeDbAnalytics> {
        let data_dir = DataDir::new("treedb-groups")?;
        let db = Database::open_with(data_dir.path().join("db"), options(DurabilityClass::Relaxed))?;
        Ok(TreeDbAnalytics { db, _data_dir: data_dir })
    }

    fn collection(&self, name: &str) -> Result<Collection> {
        Ok(self.db.collection(&format!("bench.{name}"))?)
    }

    /// Inserts `count` generated documents, `batch` per transaction.
    pub(crate) fn fill(
        &self,
        collection: &str,
        count: u64,
        batch: u64,
        document: impl Fn(u64) -> RawDocumentBuf,
    ) -> Result<()> {
        let collection = self.collection(collection)?;
        for start in (0..count).step_by(batch as usize) {
            let documents: Vec<RawDocumentBuf> = (start..(start + batch).min(count)).map(&document).collect();
            insert(&collection, &documents)?;
        }
        Ok(())
    }

    /// Applies the log to the page file.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        Ok(self.db.checkpoint()?)
    }

    /// The number of documents of a collection.
    pub(crate) fn len(&self, collection: &str) -> Result<u64> {
        Ok(self.collection(collection)?.len()?)
    }

    /// Calls `each` with all documents of a collection.
    pub(crate) fn for_each(
        &self,
        collection: &str,
        mut each: impl FnMut(&RawDocument) -> Result<()>,
    ) -> Result<()> {
        for document in self.collection(collection)?.find(FindRequest::default())? {
            each(&document?)?;
        }
        Ok(())
    }

    /// Runs a pipeline whose stages may hold `memory` bytes each, and returns a checksum of its result. All numbers
    /// are added as doubles. Without `threads` it uses as many as it chooses.
    pub(crate) fn aggregate(
        &self,
        collection: &str,
        stages: Vec<RawDocumentBuf>,
        memory: usize,
        threads: Option<usize>,
    ) -> Result<u64> {
        let mut request = AggregateRequest::new(stages);
        request.memory = memory;
        request.threads = threads;
        let mut checksum = Checksum::default();
        for document in self.db.aggregate(&format!("bench.{collection}"), &request)? {
            for field in &document? {
                let (_, value) = field?;
                match (value.as_str(), value.as_i32(), value.as_i64(), value.as_f64()) {
                    (Some(text), ..) => checksum.add(text.as_bytes()),
                    (_, Some(number), ..) => checksum.add(&f64::from(number).to_le_bytes()),
                    (_, _, Some(number), _) => checksum.add(&(number as f64).to_le_bytes()),
                    (.., Some(number)) => checksum.add(&number.to_le_bytes()),
                    _ => return Err("a result has an unexpected type".into()),
                }
            }
        }
        Ok(checksum.finish())
    }

    /// Builds an index and returns its name.
    pub(crate) fn create_index(
        &self,
        collection: &str,
        keys: RawDocumentBuf,
        unique: bool,
    ) -> Result<String> {
        let spec = IndexSpec::new(keys);
        let spec = if unique { spec.unique() } else { spec };
        Ok(self.collection(collection)?.create_index(spec)?)
    }

    /// Counts the documents that match a filter, using the index with this name.
    pub(crate) fn count(&self, collection: &str, filter: RawDocumentBuf, index: &str) -> Result<u64> {
        Ok(self.collection(collection)?.count(FindRequest::filter(filter).hint(index.to_owned()))?)
    }

    /// Drops an index.
    pub(crate) fn drop_index(&self, collection: &str, name: &str) -> Result<()> {
        Ok(self.collection(collection)?.drop_index(name)?)
    }
}
