//! A database: a directory with collections.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bson::Document;
use treedb_collections as engine;
use treedb_storage::disk::MemoryDisk;
use treedb_storage::{Durability, Options, Store};

use crate::collection::Collection;
use crate::error::Result;
use crate::target::Target;
use crate::transaction::{self, Transaction};
use crate::{AsOf, ChangeLogOptions, DatabaseCheck, IndexBuild, Rewound, VectorMemory};

/// An open database. A handle is cheap to clone and can be used by any number of threads; one process at a time can have a
/// directory open.
///
/// Collections are named `database.collection`, as on a server. A name without a dot is a collection of the database
/// `test`, the one that MongoDB's shell begins in.
#[derive(Clone)]
pub struct Database {
    engine: engine::Database,
}

impl Database {
    /// Opens the database in `dir`, or creates it, and recovers it if it was not closed.
    ///
    /// # Errors
    /// [`Error::Storage`](crate::Error::Storage): a directory that another process has open, damaged files, I/O errors.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(dir, Options::default())
    }

    /// [`Self::open`] with options: durability, cache size, encryption key.
    ///
    /// # Errors
    /// As there.
    pub fn open_with(dir: impl AsRef<Path>, options: Options) -> Result<Self> {
        Ok(Database { engine: engine::Database::open_with(dir, options)? })
    }

    /// A database in memory, for tests: it is gone with its last handle.
    ///
    /// # Errors
    /// [`Error::Storage`](crate::Error::Storage) if there is no memory.
    pub fn in_memory() -> Result<Self> {
        let mut options = Options::default();
        options.disk = Arc::new(MemoryDisk::new());
        options.durability = Durability::Relaxed;
        options.log_segment_bytes = 1 << 20;
        options.value_segment_bytes = 4 << 20;
        Self::open_with("/in-memory", options)
    }

    /// The collection of this name, with documents of the type `T`. An invalid name is the error of its first action.
    pub fn collection<T>(&self, name: &str) -> Collection<T> {
        Collection::new(Target::new(self.engine.clone(), name, None))
    }

    /// Creates a collection with options: see [`CreateCollection`]. Without options there is no need to: the first
    /// document creates its collection.
    pub fn create_collection(&self, name: &str) -> CreateCollection<'_> {
        let name = Target::new(self.engine.clone(), name, None).name().to_owned();
        CreateCollection { db: self, name, options: Document::new() }
    }

    /// Creates a view: a name by which the documents are read that `pipeline` makes of those of `on`, a collection or view of the same
    /// database. It cannot be written to.
    ///
    /// ```
    /// use treedb_core::{Collection, Database, bson::doc};
    ///
    /// # fn main() -> treedb_core::Result<()> {
    /// let db = Database::in_memory()?;
    /// let films: Collection = db.collection("films");
    /// films.insert_many([doc! { "title": "Alien", "year": 1979 }, doc! { "title": "Heat", "year": 1995 }]).run()?;
    /// db.create_view("old", "films", [doc! { "$match": { "year": { "$lt": 1990 } } }])?;
    /// let old: Collection = db.collection("old");
    /// assert_eq!(old.find(doc! {}).run()?.count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NamespaceExists`; those of the stages; `GraphContainsCycle`, `OptionNotSupportedOnView`.
    pub fn create_view(
        &self,
        name: &str,
        on: &str,
        pipeline: impl IntoIterator<Item = Document>,
    ) -> Result<()> {
        let name = Target::new(self.engine.clone(), name, None).name().to_owned();
        self.engine.create_view(&name, on, pipeline.into_iter().collect())?;
        Ok(())
    }

    /// The full names of all collections, in order.
    ///
    /// # Errors
    /// Those of the storage engine.
    pub fn list_collection_names(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for database in self.engine.list_databases()? {
            let collections = self.engine.list_collections(&database)?;
            names.extend(collections.into_iter().map(|info| info.namespace.as_str().to_owned()));
        }
        Ok(names)
    }

    /// Runs `work` in a transaction and commits it; after a conflict with another transaction again, with pauses.
    /// `work` must do nothing outside of the database that may not be done twice.
    ///
    /// ```
    /// use treedb_core::{Collection, Database, bson::{Document, doc}};
    ///
    /// # fn main() -> treedb_core::Result<()> {
    /// let db = Database::in_memory()?;
    /// let stock: Collection = db.collection("stock");
    /// stock.insert_one(doc! { "_id": "bolts", "left": 7 }).run()?;
    /// db.transaction(|txn| {
    ///     txn.collection::<Document>("stock")
    ///         .update_one(doc! { "_id": "bolts" }, doc! { "$inc": { "left": -2 } })
    ///         .run()?;
    ///     txn.collection("orders").insert_one(doc! { "what": "bolts", "many": 2 }).run()?;
    ///     Ok(())
    /// })?;
    /// assert_eq!(db.collection::<Document>("orders").count_documents(doc! {}).run()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `work`; [`Error::WriteConflict`](crate::Error::WriteConflict) after a hundred attempts.
    pub fn transaction<T>(&self, work: impl FnMut(&Transaction) -> Result<T>) -> Result<T> {
        transaction::run(&self.engine, work)
    }

    /// Begins a transaction that you commit yourself.
    ///
    /// # Errors
    /// Those of the storage engine.
    pub fn begin(&self) -> Result<Transaction> {
        Transaction::begin(&self.engine)
    }

    /// Sets how long a write outside of transactions waits in all for open transactions that have changed the same documents (60
    /// seconds by default), and how many writes may wait at a time (any number). Beyond that they fail with
    /// [`Error::WriteConflict`](crate::Error::WriteConflict).
    pub fn set_write_wait(&self, time: Duration, writes: usize) {
        self.engine.set_write_wait(time, writes);
    }

    /// Records changes from now on, for [`Collection::watch`] and for reading the past; `None` stops that and drops what
    /// was recorded.
    ///
    /// # Errors
    /// Those of the storage engine.
    pub fn record_changes(&self, options: Option<ChangeLogOptions>) -> Result<()> {
        Ok(self.engine.record_changes(options)?)
    }

    /// Makes the database what it was `at` an earlier time, as far back as changes are recorded: documents, collections with their names, and
    /// indexes. Nobody else may write meanwhile; a rewind that was interrupted leaves a mixture, and has to be repeated. It is recorded as other
    /// writes are, so that another one can undo it while the change log keeps that. Views and users stay as they are, and so do changed options and what was
    /// done to vector indexes; [`Rewound::notes`] says which collections have other options, limits or fewer indexes than they had.
    ///
    /// # Errors
    /// `SnapshotTooOld` if the changes since are not all kept, or the documents of a collection that was dropped; `IllegalOperation` if
    /// changes are not recorded; then nothing was changed. Those of writes.
    pub fn rewind(&self, at: AsOf) -> Result<Rewound> {
        Ok(self.engine.rewind(at, &mut |_, _| {})?)
    }

    /// Verifies everything: pages, checksums, documents, and every index against its documents both ways.
    ///
    /// # Errors
    /// The first disagreement found, and where.
    pub fn check(&self) -> Result<DatabaseCheck> {
        Ok(self.engine.check()?)
    }

    /// The index builds in progress, those of this handle and of others.
    pub fn index_builds(&self) -> Vec<IndexBuild> {
        self.engine.index_builds()
    }

    /// Sets how many bytes of memory the copies of vector indexes may take, which answer searches faster than the indexes do, and the
    /// graphs of those that are being built, together. By default a quarter of the memory that this process may use, at least 1 GiB, or [`Options::cache_bytes`] if that is set; with
    /// 0 there are none. A copy that does not fit replaces those that no search has used for some seconds. [`Database::close`] saves them in files.
    pub fn set_vector_memory(&self, bytes: u64) {
        self.engine.set_vector_memory(bytes);
    }

    /// Bytes of memory that the copies of vector indexes take now.
    pub fn vector_memory(&self) -> u64 {
        self.engine.vector_memory()
    }

    /// The same with its limit, what builds take, and how many indexes have a copy.
    pub fn vector_memory_use(&self) -> VectorMemory {
        self.engine.vector_memory_use()
    }

    /// Sets how many threads build a vector index over documents that are there; 0, the default, for as many as there are cores.
    pub fn set_vector_build_threads(&self, threads: usize) {
        self.engine.set_vector_build_threads(threads);
    }

    /// Saves the copies of vector indexes that are in memory in files, in the directory `derived` of the database: after the next opening searches use them there, from the first one on, instead of building them anew.
    /// [`Database::close`] does so too. The files may be removed at any time.
    ///
    /// # Errors
    /// Those of the disk and of the storage engine. An index whose file would not leave as much room on the disk as it takes has none; if the disk is full, none has.
    pub fn save_vector_images(&self) -> Result<()> {
        Ok(self.engine.save_vector_images()?)
    }

    /// Sets whether [`Database::close`] saves them, which takes as long as writing them: true by default.
    pub fn set_save_vector_images_at_close(&self, saves: bool) {
        self.engine.set_save_vector_images_at_close(saves);
    }

    /// Copies the database, as it is now, into `dir`, which is empty or does not exist. Readers and writers go on meanwhile. The copy is on
    /// disk when this returns, and a database that [`Database::open`] opens; until then nothing is at `dir`. [`Store::backup`] writes a
    /// stream instead.
    ///
    /// ```
    /// use treedb_core::{Database, bson::{Document, doc}};
    ///
    /// # fn main() -> treedb_core::Result<()> {
    /// # let dir = tempfile::tempdir().expect("a temporary directory");
    /// # let (data, monday) = (dir.path().join("data"), dir.path().join("monday"));
    /// let db = Database::open(data)?;
    /// db.collection::<Document>("films").insert_one(doc! { "title": "Alien" }).run()?;
    /// db.backup_to(&monday)?;
    /// let copy = Database::open(&monday)?;
    /// assert_eq!(copy.collection::<Document>("films").count_documents(doc! {}).run()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Storage`](crate::Error::Storage): there is something at `dir`, the disk is full, this database is damaged. What was written so
    /// far is removed then.
    pub fn backup_to(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.store().backup_to(dir, |_| {})?;
        Ok(())
    }

    /// The key/value store underneath: statistics, checkpoints, backup, compaction, tables of your own. The tables named
    /// `catalog`, `rows/..`, `index/..` and `changes..` are those of the collections.
    pub fn store(&self) -> &Store {
        self.engine.store()
    }

    /// Saves the copies of vector indexes that are in memory ([`Database::save_vector_images`]) and writes a checkpoint, whether there are other handles or not, and closes the files when this is the last one. Dropping all handles is enough for what was
    /// committed, which is recovered when the database is opened again, but saves no copies of vector indexes.
    ///
    /// # Errors
    /// Those of the storage engine.
    pub fn close(self) -> Result<()> {
        Ok(self.engine.close()?)
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").finish_non_exhaustive()
    }
}

/// The action of [`Database::create_collection`].
#[must_use = "an action does nothing until it is run"]
pub struct CreateCollection<'d> {
    db: &'d Database,
    name: String,
    options: Document,
}

impl CreateCollection<'_> {
    /// What its documents must match: a filter, or `doc! { "$jsonSchema": { .. } }`.
    pub fn validator(mut self, validator: Document) -> Self {
        self.options.insert("validator", validator);
        self
    }

    /// How strings are compared where nothing else is said: `doc! { "locale": "en", "strength": 2 }`.
    pub fn collation(mut self, collation: Document) -> Self {
        self.options.insert("collation", collation);
        self
    }

    /// Any of the options of MongoDB's `create` command.
    pub fn options(mut self, options: Document) -> Self {
        self.options.extend(options);
        self
    }

    /// Creates the collection.
    ///
    /// # Errors
    /// `NamespaceExists`, `InvalidNamespace`; those of the options.
    pub fn run(self) -> Result<()> {
        self.db.engine.create_collection(&self.name, self.options)?;
        Ok(())
    }
}
