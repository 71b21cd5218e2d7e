//! A database: a directory of collections.

use std::cell::Cell;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use bson::Document;

use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_storage::{CheckReport, Durability, Options, ReadTxn, Reads, Stats, Store, WriteTxn};

use crate::Collection;
use crate::catalog::Catalog;
use crate::catalog::meta::{IndexMeta, Meta};
use crate::catalog::namespace::{Namespace, check_database};
use crate::catalog::special::{indexes_of_series, make_capped};
use crate::changes::{self, ChangeLog};
use crate::index::VectorMemory;
use crate::maintenance::check::{self, CollectionCheck};
use crate::maintenance::check_progress::{CheckProgress, Meter};
use crate::maintenance::expiry::TtlMonitor;
use crate::maintenance::image_writer::ImageWriter;
use crate::maintenance::index_build::{self, Builds};
use crate::maintenance::index_rebuild;
use crate::transaction::{Intents, Owner, Turn, conflict};
use crate::write::edit::Edit;

/// An open database: collections of documents over a key/value store, in one directory.
///
/// A handle is cheap to clone and may be used from any number of threads. Collections are named
/// `database.collection`, as MongoDB names them; the first part only groups them.
///
/// Writes are acknowledged as the database's default [`Durability`] says (`Durable`, unless [`Options`] say
/// otherwise): a durable write has been `fdatasync`ed to the command log when the call returns.
#[derive(Clone)]
pub struct Database {
    pub(crate) inner: Arc<Inner>,
}

/// The state that all handles share.
pub(crate) struct Inner {
    /// First: it ends before what it uses.
    pub(crate) image_writer: ImageWriter,
    pub(crate) ttl_monitor: TtlMonitor,
    pub(crate) builds: Builds,
    pub(crate) store: Store,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) changes: ChangeLog,
    pub(crate) intents: Arc<Intents>,
}

/// The options of a collection that is created by a write; making a document takes time, even if nothing is in it.
static NO_OPTIONS: LazyLock<Document> = LazyLock::new(Document::new);

/// How an edit ended.
enum Edited<T> {
    /// `None`: there is no such collection.
    Done(Option<T>),
    /// It has changed nothing, because this transaction is open.
    Blocked(Owner),
}

/// What `listCollections` shows of a collection.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectionInfo {
    /// Its name.
    pub namespace: Namespace,
    /// The options it was created with.
    pub options: Document,
    /// Its identity, which only dropping it ends; `None` for what is not stored, such as a view.
    pub uuid: Option<bson::Uuid>,
}

impl CollectionInfo {
    /// True for a view.
    pub fn is_view(&self) -> bool {
        self.options.contains_key("viewOn")
    }
}

/// What [`Database::check`] has checked.
#[derive(Debug, Clone)]
pub struct DatabaseCheck {
    /// Pages, trees, the value log.
    pub store: CheckReport,
    /// Each collection: rows and index entries compared with each other.
    pub collections: Vec<CollectionCheck>,
    /// Changes in the change log, each compared with its entry in the row history.
    pub changes: u64,
}

impl Database {
    /// Opens the database in `dir`, creating it if there is none, and recovers it if it was not closed.
    ///
    /// # Errors
    /// `Error::InUse` (as the error's source) names the process that has the database open; damaged files are
    /// `Error::Corrupt`, with file, offset, and the expected and actual contents. An index whose collation has changed
    /// with this version is rebuilt; if that fails, the error says what to do.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(dir, Options::default())
    }

    /// [`Self::open`] with options.
    pub fn open_with(dir: impl AsRef<Path>, options: Options) -> Result<Self> {
        Self::open_and(dir, options, |_| Ok(()))
    }

    /// [`Self::open_with`] of a copy ([`Store::backup_to`]) to which the changes are to be applied that were made after it. An index that was being built
    /// when the copy was made is dropped: it was not there yet, and is created with the change that says so, if it ever was. [`Self::open_with`]
    /// would complete it, and record that as a change of the copy's own after those that it has in common with the database it was made from. Vector indexes
    /// are completed, as their creation is not recorded.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_copy(dir: impl AsRef<Path>, options: Options) -> Result<Self> {
        Self::open_and(dir, options, index_build::drop_unfinished)
    }

    /// Opens a database, and does something to it before anything that was interrupted is completed.
    fn open_and(
        dir: impl AsRef<Path>,
        options: Options,
        first: impl FnOnce(&Database) -> Result<()>,
    ) -> Result<Self> {
        let cache_bytes = options.cache_bytes;
        let store = Store::open_with(dir, options)?;
        let mut txn = store.begin_write()?;
        let catalog = Catalog::open(&mut txn)?;
        if let Some(bytes) = cache_bytes {
            catalog.images().set_limit(bytes);
        }
        txn.commit()?;
        catalog.images().keep_in_files(&store);
        let database = Database {
            inner: Arc::new(Inner {
                image_writer: ImageWriter::default(),
                ttl_monitor: TtlMonitor::default(),
                builds: Builds::default(),
                store,
                catalog: Arc::new(catalog),
                changes: ChangeLog::default(),
                intents: Arc::default(),
            }),
        };
        first(&database)?;
        index_rebuild::rebuild_outdated(&database)?;
        index_build::resume_all(&database)?;
        database.start_ttl_monitor()?;
        database.start_image_writer()?;
        Ok(database)
    }

    /// The key/value store underneath. Its tables `catalog`, `rows/..`, `index/..` and `changes..` belong to the collections.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// Sets how many bytes the images of vector indexes may take: graphs in memory that answer vector searches about ten times as
    /// fast as the tables of the indexes do. They are built by the first searches, follow every write, and are dropped where they take
    /// more, or for those of other indexes if no search has used them for some seconds. With 0 there are none. By default a quarter of the
    /// memory that this process may use, at least 1 GiB, or [`Options::cache_bytes`] if that is set. [`Self::close`] saves
    /// them in files, unless the database is encrypted or in memory: see [`Self::save_vector_images`]. What is used in such a file does not count.
    /// One that has no room is written into its file straight from the index's table, at the end of a build or by a thread beside the searches that find no room, and used
    /// there ([`VectorMemory::streamed`]), if there is room for what stays in memory, some 60 bytes for each vector.
    ///
    /// The graphs of indexes that are being built may take what they leave, together: rows that do not fit are added one by one to the
    /// index's table, which is slower. Some 20 MB beyond it hold what is being read and linked.
    pub fn set_vector_memory(&self, bytes: u64) {
        self.inner.catalog.images().set_limit(bytes);
    }

    /// Bytes that the images of vector indexes take now.
    pub fn vector_memory(&self) -> u64 {
        self.inner.catalog.images().bytes()
    }

    /// The same with its limit, what builds take, and how many indexes have an image.
    pub fn vector_memory_use(&self) -> VectorMemory {
        self.inner.catalog.images().memory()
    }

    /// Sets whether [`Self::close`] saves the images of vector indexes ([`Self::save_vector_images`]), which takes as long as writing them: true
    /// by default. With false, files are not written for indexes that there is no room for in memory either ([`Self::set_vector_memory`]). Those that were saved before are read in any case.
    pub fn set_save_vector_images_at_close(&self, saves: bool) {
        self.inner.catalog.images().set_saved_at_close(saves);
    }

    /// Sets how many threads build the graph of a vector index that is created; 0, the default, for as many as there are cores. The
    /// graph is the same however many they are.
    pub fn set_vector_build_threads(&self, threads: usize) {
        self.inner.catalog.images().set_build_threads(threads);
    }

    /// A handle of the collection of this name (`database.collection`). The collection itself is created with its first
    /// document or index, or by [`Self::create_collection`].
    ///
    /// # Errors
    /// `InvalidNamespace`.
    pub fn collection(&self, namespace: &str) -> Result<Collection> {
        Ok(self.collection_of(Namespace::parse(namespace)?))
    }

    /// The same, of a name that has been checked.
    pub fn collection_of(&self, namespace: Namespace) -> Collection {
        Collection::new(self.clone(), namespace)
    }

    /// Creates an empty collection. The option `collation` is the default of its queries and indexes, and decides which
    /// `_id`s are equal.
    ///
    /// # Errors
    /// `NamespaceExists`, `InvalidNamespace`; those of the options.
    pub fn create_collection(&self, namespace: &str, options: Document) -> Result<Collection> {
        let namespace = Namespace::parse(namespace)?;
        if options.contains_key("viewOn") {
            self.create_view_of(namespace.clone(), options)?;
            return Ok(Collection::new(self.clone(), namespace));
        }
        let mut txn = self.inner.store.begin_write()?;
        let meta = Arc::new(self.inner.catalog.create(&mut txn, &namespace, options)?);
        let indexes = indexes_of_series(&meta.options)?;
        let expires = meta.options.contains_key("expireAfterSeconds");
        let mut edit = self.edit_in(&mut txn, meta)?;
        edit.record_creation();
        for def in &indexes {
            index_build::add_ready(&mut edit, def)?;
        }
        let recorded = edit.recorder.is_some();
        edit.finish()?;
        txn.commit()?;
        if recorded {
            self.after_commit();
        }
        if expires {
            self.inner.ttl_monitor.start(self);
        }
        Ok(Collection::new(self.clone(), namespace))
    }

    /// Makes a collection capped: it keeps its last documents only, of at most `size` bytes. Its indexes stay.
    ///
    /// # Errors
    /// `NamespaceNotFound`; `BadValue` for the size; `InvalidOptions` for a collection that cannot be capped.
    pub fn convert_to_capped(&self, namespace: &str, size: u64, max: Option<u64>) -> Result<()> {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let mut limits = bson::doc! { "capped": true, "size": number(size) };
        if let Some(max) = max {
            limits.insert("max", number(max));
        }
        let namespace = Namespace::parse(namespace)?;
        self.edit_documents(&namespace, false, None, |edit| {
            edit.record_modification(&limits);
            make_capped(edit, &limits)
        })?
        .ok_or_else(|| Self::namespace_not_found(&namespace))
    }

    /// Drops a collection with its rows and indexes. False if there is none of that name. Open cursors keep their
    /// snapshots and remain usable.
    pub fn drop_collection(&self, namespace: &str) -> Result<bool> {
        let namespace = Namespace::parse(namespace)?;
        let mut txn = self.inner.store.begin_write()?;
        if self.inner.catalog.drop_view(&mut txn, &namespace)? {
            txn.commit()?;
            return Ok(true);
        }
        let Some(meta) = self.inner.catalog.drop_collection(&mut txn, &namespace)? else { return Ok(false) };
        self.inner.changes.collection_dropped(&mut txn, &meta)?;
        txn.commit()?;
        self.inner.catalog.images().remove(meta.vector_tables());
        self.after_commit();
        Ok(true)
    }

    /// Drops every collection of a database, in one transaction. Returns how many there were.
    pub fn drop_database(&self, database: &str) -> Result<usize> {
        check_database(database)?;
        let mut txn = self.inner.store.begin_write()?;
        let all = self.inner.catalog.list_with_views(&txn, &format!("{database}."))?;
        let mut tables = Vec::new();
        for (namespace, _) in &all {
            if self.inner.catalog.drop_view(&mut txn, namespace)? {
                continue;
            }
            if let Some(meta) = self.inner.catalog.drop_collection(&mut txn, namespace)? {
                self.inner.changes.collection_dropped(&mut txn, &meta)?;
                tables.extend(meta.vector_tables());
            }
        }
        if !all.is_empty() {
            self.inner.changes.database_dropped(&mut txn, database)?;
            txn.commit()?;
            self.inner.catalog.images().remove(tables);
            self.after_commit();
        }
        Ok(all.len())
    }

    /// The collections of a database, by name.
    pub fn list_collections(&self, database: &str) -> Result<Vec<CollectionInfo>> {
        self.collections_in(&self.inner.store.begin_read()?, database)
    }

    /// The collections of a database in a snapshot, by name.
    pub(crate) fn collections_in(&self, reads: &impl Reads, database: &str) -> Result<Vec<CollectionInfo>> {
        check_database(database)?;
        let mut found = Vec::new();
        for (namespace, _) in self.inner.catalog.list_with_views(reads, &format!("{database}."))? {
            if let Some(view) = self.inner.catalog.view(reads, &namespace)? {
                found.push(CollectionInfo { namespace, options: view.options, uuid: None });
            } else if let Some(meta) = self.inner.catalog.find(reads, &namespace)? {
                found.push(CollectionInfo {
                    namespace,
                    options: meta.options.clone(),
                    uuid: Some(meta.uuid),
                });
            }
        }
        Ok(found)
    }

    /// The databases that have collections, by name.
    pub fn list_databases(&self) -> Result<Vec<String>> {
        let reads = self.inner.store.begin_read()?;
        let all = self.inner.catalog.list_with_views(&reads, "")?;
        let mut names: Vec<String> = all.iter().map(|(name, _)| name.database().to_owned()).collect();
        names.dedup();
        Ok(names)
    }

    /// Writes all changes to the page file, durably, and truncates the log.
    pub fn checkpoint(&self) -> Result<()> {
        Ok(self.inner.store.checkpoint()?)
    }

    /// Saves the images of vector indexes ([`Self::set_vector_memory`]) in files of the directory `derived`, as they are in a checkpoint that this makes: after the next opening
    /// searches use them where they are, with what was changed since, instead of building them. [`Self::close`] does the same. A file is about as large as the image; it is removed with the index, and
    /// anyone may remove it. Images that one search would build, those that the last searches left incomplete or out of date after many writes, and those that are saved already are left out.
    ///
    /// # Errors
    /// Those of the checkpoint; of the disk. If it is full, there are no saved images any more. If it would not have as much room left as a file
    /// takes, that index has none, unless its image is in one already, which stays as it is, and the others are saved.
    pub fn save_vector_images(&self) -> Result<()> {
        let Inner { catalog, store, .. } = &*self.inner;
        if !catalog.images().has_any_to_save() {
            return Ok(());
        }
        self.checkpoint()?;
        let metas = self.all_metas(&store.begin_read()?)?;
        let mut result = Ok(());
        for meta in &metas {
            let saved = catalog.images().save(store, meta);
            // One that fails does not keep the others from being saved.
            result = result.and(saved);
        }
        result
    }

    /// Verifies the whole database: every page reachable once, order and checksums, every document valid, every index
    /// entry against its row and every row against its indexes.
    ///
    /// # Errors
    /// The first inconsistency found, and where it is.
    pub fn check(&self) -> Result<DatabaseCheck> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.check_with(cores, |_| {})
    }

    /// The same by so many threads, this one among them: first the store, then the collections, then the change log, which one thread reads.
    /// `on_progress` is called by any of them, one after another.
    ///
    /// # Errors
    /// As [`Database::check`], the same whatever the number of threads.
    pub fn check_with(
        &self,
        threads: usize,
        on_progress: impl FnMut(CheckProgress) + Send,
    ) -> Result<DatabaseCheck> {
        let threads = threads.max(1);
        let (entries, compared, changed) = match self.entries_to_check() {
            Ok(counted) => counted,
            Err(error) => {
                // Damage of the store is what is to be reported, if that is why.
                self.inner.store.check_with(threads, |_| {})?;
                return Err(error);
            }
        };
        let meter = Meter::new(entries.saturating_add(compared).saturating_add(changed), on_progress);
        meter.begin(entries);
        let store = self.inner.store.check_with(threads, |n| meter.advance(n))?;
        meter.end();
        meter.begin(compared);
        let reads = self.inner.store.begin_read()?;
        let metas = self.all_metas(&reads)?;
        let collections = check::collections(reads, &metas, threads, &|n| meter.advance(n))?;
        meter.end();
        meter.begin(changed);
        let changes = changes::check(&self.inner.store.begin_read()?, &|n| meter.advance(n))?;
        meter.end();
        Ok(DatabaseCheck { store, collections, changes })
    }

    /// Numbers of entries that a check reads in the store, compares in collections, and compares in the change log.
    fn entries_to_check(&self) -> Result<(u64, u64, u64)> {
        let reads = self.inner.store.begin_read()?;
        let mut entries = 0_u64;
        for table in reads.tables()? {
            entries = entries.saturating_add(reads.len(&table)?);
        }
        let metas = self.all_metas(&reads)?;
        Ok((entries, check::entries_to_check(&reads, &metas)?, changes::entries_to_check(&reads)?))
    }

    /// Whether a collection has such an index.
    pub(crate) fn has_index(&self, is_such: impl Fn(&IndexMeta) -> bool) -> Result<bool> {
        let reads = self.inner.store.begin_read()?;
        for namespace in self.inner.catalog.list(&reads, "")? {
            if let Some(meta) = self.inner.catalog.find(&reads, &namespace)?
                && meta.indexes.iter().any(&is_such)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// All collections, in the order of their names.
    fn all_metas(&self, reads: &ReadTxn) -> Result<Vec<Arc<Meta>>> {
        let mut metas = Vec::new();
        for namespace in self.inner.catalog.list(reads, "")? {
            metas.extend(self.inner.catalog.find(reads, &namespace)?);
        }
        Ok(metas)
    }

    /// Namespace and name of each index, and how many operations have used it since the database was opened; `limit` of them at
    /// most, in the order of the names.
    ///
    /// # Errors
    /// Those of reading the catalog.
    pub fn index_uses(&self, limit: usize) -> Result<Vec<(Namespace, String, u64)>> {
        let reads = self.inner.store.begin_read()?;
        let mut uses = Vec::new();
        for namespace in self.inner.catalog.list(&reads, "")? {
            let Some(meta) = self.inner.catalog.find(&reads, &namespace)? else { continue };
            for index in &meta.indexes {
                if uses.len() == limit {
                    return Ok(uses);
                }
                uses.push((namespace.clone(), index.def.name().to_owned(), index.uses.operations()));
            }
        }
        Ok(uses)
    }

    /// Sizes and counters of the store.
    pub fn stats(&self) -> Stats {
        self.inner.store.stats()
    }

    /// [Saves images of vector indexes](Self::save_vector_images), which are not needed, so that they cannot be saved is only logged; makes a
    /// [checkpoint](Self::checkpoint), a second one only if there is anything new since, such as the records of saved images; and closes. All of this but the last is done whether there are other handles or not. These and open cursors keep the files open until they
    /// are dropped. Dropping the last handle closes too, but saves no images.
    pub fn close(self) -> Result<()> {
        self.inner.ttl_monitor.stop_if_last(&|| Arc::strong_count(&self.inner));
        // What it writes is not waited for.
        if Arc::strong_count(&self.inner) == 1 {
            self.inner.image_writer.stop();
        } else {
            self.inner.catalog.images().asks().end_current();
        }
        if self.inner.catalog.images().are_saved_at_close()
            && let Err(error) = self.save_vector_images()
        {
            tracing::warn!(%error, "the images of vector indexes are not saved while the database is closed");
        }
        match Arc::try_unwrap(self.inner) {
            Ok(inner) => {
                inner.image_writer.stop();
                Ok(inner.store.close()?)
            }
            Err(shared) => Ok(shared.store.checkpoint()?),
        }
    }

    /// Runs `work` on a collection in a write transaction and commits it if `work` succeeds. If there is no such
    /// collection, `create` decides whether to create it or to return `None` without calling `work`.
    ///
    /// If it changes a document that an open transaction has changed, that is an error: see [`Self::edit_documents`].
    pub(crate) fn edit<T>(
        &self,
        namespace: &Namespace,
        create: bool,
        durability: Option<Durability>,
        work: impl FnOnce(&mut Edit<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        match self.try_edit(namespace, create.then(|| &*NO_OPTIONS), durability, work)? {
            Edited::Done(done) => Ok(done),
            Edited::Blocked(_) => Err(conflict(namespace)),
        }
    }

    /// [`Self::edit`] of documents: as long as an open transaction has changed one of those that `work` changes, it waits for the
    /// transaction, and then begins again.
    pub(crate) fn edit_documents<T>(
        &self,
        namespace: &Namespace,
        create: bool,
        durability: Option<Durability>,
        work: impl FnMut(&mut Edit<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        self.edit_or_create(namespace, create.then(|| &*NO_OPTIONS), durability, work)
    }

    /// The same, of a collection that is created with these options if there is none.
    pub(crate) fn edit_or_create<T>(
        &self,
        namespace: &Namespace,
        create: Option<&Document>,
        durability: Option<Durability>,
        mut work: impl FnMut(&mut Edit<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut turn = Turn::new(&self.inner.intents);
        loop {
            match self.try_edit(namespace, create, durability, &mut work)? {
                Edited::Done(done) => return Ok(done),
                Edited::Blocked(owner) => turn.wait(owner, namespace)?,
            }
        }
    }

    fn try_edit<T>(
        &self,
        namespace: &Namespace,
        create: Option<&Document>,
        durability: Option<Durability>,
        work: impl FnOnce(&mut Edit<'_>) -> Result<T>,
    ) -> Result<Edited<T>> {
        let catalog = &self.inner.catalog;
        let mut txn = self.inner.store.begin_write()?;
        let found = catalog.find_to_write(&txn, namespace)?;
        let created = found.is_none();
        let meta = match (found, create) {
            (Some(meta), _) => meta,
            (None, Some(options)) => Arc::new(catalog.create(&mut txn, namespace, options.clone())?),
            (None, None) => return Ok(Edited::Done(None)),
        };
        let mut edit = self.edit_in(&mut txn, meta.clone())?;
        if created {
            edit.record_creation();
            for def in &indexes_of_series(&meta.options)? {
                index_build::add_ready(&mut edit, def)?;
            }
        }
        let recorded = edit.recorder.is_some();
        let done = work(&mut edit);
        // Whatever came of it: an insert of many documents goes on after one that fails.
        if let Some(owner) = edit.blocked.get() {
            return Ok(Edited::Blocked(owner));
        }
        let done = done?;
        let now = edit.meta.clone();
        edit.finish()?;
        match durability {
            Some(durability) => txn.commit_with(durability)?,
            None => txn.commit()?,
        }
        if !Arc::ptr_eq(&meta, &now) {
            let gone = meta.vector_tables().filter(|table| now.vector_tables().all(|kept| kept != *table));
            catalog.images().remove(gone);
        }
        if recorded {
            self.after_commit();
        } else if now.special.capped.is_some() {
            self.inner.changes.notify();
        }
        Ok(Edited::Done(Some(done)))
    }

    /// A collection inside a write transaction. Its changes are recorded if the change log is on.
    pub(crate) fn edit_in<'t>(&'t self, txn: &'t mut WriteTxn, meta: Arc<Meta>) -> Result<Edit<'t>> {
        let recorder = match meta.namespace.is_recorded() {
            true => self.inner.changes.begin(txn, meta.id)?,
            false => None,
        };
        Ok(Edit {
            txn,
            catalog: &self.inner.catalog,
            intents: &self.inner.intents,
            owner: None,
            blocked: Cell::new(None),
            meta,
            recorder,
            validates: true,
            grown: 0,
            changed: false,
        })
    }

    /// The error of an operation that needs the collection to exist.
    pub(crate) fn namespace_not_found(namespace: &Namespace) -> QueryError {
        QueryError::new(ErrorCode::NamespaceNotFound, format!("ns does not exist: {namespace}"))
    }
}
