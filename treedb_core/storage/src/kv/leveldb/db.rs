//! Open, put, get, delete, write.

use std::path::Path;
use std::sync::Arc;

use super::TABLE;
use super::batch::{Change, WriteBatch};
use super::destroy_repair::repair_was_cut_short;
use super::iter::{DbIterator, DbSnapshot};
use crate::disk::{Disk, RealDisk};
use crate::kv::catalog::{Table, TableKind};
use crate::kv::options::Durability;
use crate::kv::reads::Reads;
use crate::kv::recover::PAGES;
use crate::kv::store::Store;
use crate::{Error, Result};

/// How a database is opened.
#[derive(Clone)]
pub struct Options {
    /// Create a missing database. Otherwise it is an error.
    pub create_if_missing: bool,
    /// An existing database is an error.
    pub error_if_exists: bool,
    /// Where the files are.
    pub disk: Arc<dyn Disk>,
}

impl Default for Options {
    fn default() -> Self {
        Options { create_if_missing: false, error_if_exists: false, disk: Arc::new(RealDisk) }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("create_if_missing", &self.create_if_missing)
            .field("error_if_exists", &self.error_if_exists)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// Options of the store.
    pub(super) fn of_store(&self) -> crate::kv::Options {
        crate::kv::Options { disk: Arc::clone(&self.disk), ..crate::kv::Options::default() }
    }
}

/// What a read sees.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadOptions<'s> {
    /// Read from this snapshot; without one, from the current state.
    pub snapshot: Option<&'s DbSnapshot>,
}

/// How durable a write is when it returns.
#[derive(Debug, Clone, Copy, Default)]
pub struct WriteOptions {
    /// It is on the disk, and every write before it: it survives a power cut. Concurrent writes share a flush.
    pub sync: bool,
}

impl WriteOptions {
    fn durability(self) -> Durability {
        if self.sync { Durability::Durable } else { Durability::Relaxed }
    }
}

/// A database with LevelDB's interface; see the module. It may be used by any number of threads. It closes when it is
/// dropped, with its iterators and snapshots gone.
#[derive(Debug)]
pub struct Db {
    pub(super) store: Store,
    pub(super) table: Table,
}

impl Db {
    /// Opens the database in `dir`.
    ///
    /// # Errors
    /// `Invalid` if it is missing or exists and the options do not allow that, or if a repair was interrupted;
    /// otherwise as [`Store::open`].
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Db> {
        let dir = dir.as_ref();
        let there = options.disk.exists(&dir.join(PAGES))?;
        if there && options.error_if_exists {
            let text = "there is a database already, and error_if_exists is set: name another directory";
            return Err(Error::Invalid(format!("{}: {text}", dir.display())));
        }
        if !there && !options.create_if_missing {
            let text = "there is no database, and create_if_missing is not set: set it, or correct the name";
            return Err(Error::Invalid(format!("{}: {text}", dir.display())));
        }
        if repair_was_cut_short(dir, &options)? {
            let text = "a repair of this database was cut short: call repair again";
            return Err(Error::Invalid(format!("{}: {text}", dir.display())));
        }
        Db::of(Store::open_with(dir, options.of_store())?)
    }

    /// A store as a database of this interface.
    pub(in crate::kv) fn of(store: Store) -> Result<Db> {
        let read = store.begin_read()?;
        let table = match read.table(TABLE)? {
            Some(table) => {
                table.expect(TableKind::Ordered)?;
                table
            }
            None => {
                let mut txn = store.begin_write()?;
                let table = txn.open_table(TABLE, TableKind::Ordered)?;
                txn.commit()?;
                table
            }
        };
        Ok(Db { store, table })
    }

    /// The store underneath.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Stores `value` under `key`, instead of what was there. `KeyTooLong` over [`MAX_KEY`](crate::kv::MAX_KEY),
    /// `ValueTooLong` over [`MAX_VALUE`](crate::kv::MAX_VALUE); otherwise as
    /// [`WriteTxn::commit_with`](crate::kv::WriteTxn::commit_with).
    pub fn put(&self, options: WriteOptions, key: &[u8], value: &[u8]) -> Result<()> {
        let mut txn = self.store.begin_write()?;
        txn.put(&self.table, key, value)?;
        txn.commit_with(options.durability())
    }

    /// Removes `key`; it is no error if it is not there. Errors as [`Db::put`].
    pub fn delete(&self, options: WriteOptions, key: &[u8]) -> Result<()> {
        let mut txn = self.store.begin_write()?;
        txn.delete(&self.table, key)?;
        txn.commit_with(options.durability())
    }

    /// Makes the changes of a batch in order, all or none. Errors as [`Db::put`].
    pub fn write(&self, options: WriteOptions, batch: &WriteBatch) -> Result<()> {
        let mut txn = self.store.begin_write()?;
        for change in batch.iter() {
            match change {
                Change::Put(key, value) => txn.put(&self.table, key, value)?,
                Change::Delete(key) => txn.delete(&self.table, key).map(|_| ())?,
            }
        }
        txn.commit_with(options.durability())
    }

    /// The value of `key`, `None` if it is not there.
    pub fn get(&self, options: ReadOptions<'_>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(match options.snapshot {
            Some(snapshot) => snapshot.read.get(&self.table, key)?.map(<[u8]>::to_vec),
            None => self.store.snapshot()?.get(&self.table, key)?.map(<[u8]>::to_vec),
        })
    }

    /// The current state, to read from later. It is released when it is dropped; an old one keeps files from shrinking.
    pub fn snapshot(&self) -> Result<DbSnapshot> {
        Ok(DbSnapshot { read: self.store.begin_read()? })
    }

    /// An iterator over the state of now, or of a snapshot. It is not valid before it is moved.
    pub fn iter<'d>(&'d self, options: ReadOptions<'d>) -> Result<DbIterator<'d>> {
        DbIterator::new(self, options.snapshot)
    }
}
