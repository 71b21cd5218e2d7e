//! TreeDB and its peers behind common traits. Each engine does the same work in the way its own users would.
//!
//! Trait methods take whole loops of operations rather than single ones, so that the harness adds nothing to the
//! measured cost. Everything an engine needs to produce a result (beginning transactions, opening tables, encoding,
//! decoding) happens inside its loop.

mod data_dir;
mod engine;
mod entries;
#[cfg(feature = "peers")]
mod fjall;
mod libpq;
pub(crate) mod lmdb;
#[cfg(feature = "peers")]
mod mdbx;
pub(crate) mod package_stores;
mod pg_session;
#[cfg(feature = "peers")]
mod polodb;
mod postgres;
#[cfg(feature = "peers")]
mod redb;
#[cfg(feature = "peers")]
mod rocksdb;
mod sqlite;
pub(crate) mod treedb;
mod user_bson;

pub use data_dir::{DataDir, base};
pub(crate) use engine::is_chosen;
pub use engine::{CACHE, Engine, OpenRowStore, OpenStore, chosen, row_stores};
pub use entries::{EntryFormat, EntryGenerator, KeyFormat};
pub use lmdb::LmdbDocuments;
pub use pg_session::{OneProcessor, Session};
#[cfg(feature = "peers")]
pub use polodb::PoloDbDocuments;
pub use postgres::{Postgres, WARM_UP};
pub use sqlite::{Layout, SqliteDocuments};
pub use treedb::{CheckedStore, TreeDbDocuments};

use crate::Result;

/// What a commit guarantees. Every engine is configured for the same guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DurabilityClass {
    /// A returned commit survives a power failure. TreeDB: durable. SQLite: WAL, `synchronous=FULL`. LMDB: its default.
    Durable,
    /// No flush at commit. TreeDB: relaxed. SQLite: WAL, `synchronous=NORMAL`. LMDB: `NOSYNC | WRITEMAP`, the only
    /// one of the three that can lose the whole file in a power failure.
    Relaxed,
}

impl DurabilityClass {
    /// As printed in tables.
    pub fn label(self) -> &'static str {
        match self {
            DurabilityClass::Durable => "flushed at commit",
            DurabilityClass::Relaxed => "not flushed at commit",
        }
    }
}

/// Numbers of keys or documents, in the order in which they are used.
pub type Order<'a> = dyn Iterator<Item = u64> + 'a;

/// How a table is scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan {
    /// In key order.
    Forward,
    /// In descending key order.
    Backward,
    /// In key order, with every byte going into the checksum: for verification, not for timing.
    Verify,
}

/// A key/value store with one table, whose keys and values are generated from numbers. Keys that are read must exist.
pub trait KeyValueStore: Send + Sync {
    /// Puts entries, `batch` per transaction.
    fn put(&self, numbers: &[u64], batch: usize, version: u64) -> Result<()>;
    /// The same for numbers in key order, through a write cursor if the engine has one.
    fn put_sorted(&self, numbers: &[u64], batch: usize, version: u64) -> Result<()> {
        self.put(numbers, batch, version)
    }
    /// Gets entries, `batch` per snapshot, and returns a checksum of their values.
    fn get(&self, numbers: &[u64], batch: usize) -> Result<u64>;
    /// Gets entries in one snapshot, `group` per call if the engine has a multi-get. The checksum of
    /// [`KeyValueStore::get`].
    fn get_many(&self, numbers: &[u64], _group: usize) -> Result<u64> {
        self.get(numbers, numbers.len())
    }
    /// Moves one cursor to each of the keys. The checksum of [`KeyValueStore::get`].
    fn seek(&self, numbers: &[u64]) -> Result<u64>;
    /// Scans the whole table and returns a checksum of keys and values.
    fn scan(&self, scan: Scan) -> Result<u64>;
    /// Begins and ends this many snapshots.
    fn snapshots(&self, count: u64) -> Result<()>;
    /// Completes deferred work (flushes, checkpoints, compaction), so that it does not run while another engine is
    /// being timed.
    fn checkpoint(&self) -> Result<()>;
}

/// A store of rows under consecutive row numbers, starting at 1.
pub trait RowStore: Send + Sync {
    /// Appends `count` rows, `batch` per transaction. `from` is the next row number.
    fn append(&self, from: u64, count: u64, batch: u64) -> Result<()>;
    /// Gets rows in one snapshot and returns a checksum of them.
    fn get(&self, numbers: &[u64]) -> Result<u64>;
}

/// A collection of users with a unique index on `email` and an index on `city`.
pub trait DocumentStore: Sync {
    /// Its name in tables.
    fn name(&self) -> &'static str;
    /// Inserts `count` users of `order`, `batch` per transaction, encoding them from fields.
    fn insert(&self, order: &mut Order<'_>, count: u64, batch: u64) -> Result<()>;
    /// Finds `count` users of `order` by `_id`, decodes them to fields and returns a checksum of those.
    fn find_by_id(&self, order: &mut Order<'_>, count: u64) -> Result<u64>;
    /// The same by e-mail address, through the unique index.
    fn find_by_email(&self, order: &mut Order<'_>, count: u64) -> Result<u64>;
    /// Finds all users of a city through its index, in any order, decodes them to fields and returns a checksum of
    /// those that does not depend on the order.
    fn find_by_city(&self, city: u64) -> Result<u64>;
    /// Sets the `pad` field of `count` users of `order`, found by `_id`, one per transaction.
    fn update(&self, order: &mut Order<'_>, count: u64) -> Result<()>;
    /// Deletes `count` users of `order`, found by `_id`, one per transaction. All of them must exist.
    fn delete(&self, order: &mut Order<'_>, count: u64) -> Result<()>;
    /// The number of users in total, and in city 7, the latter through the index.
    fn counts(&self) -> Result<(u64, u64)>;
    /// Applies logs to the main files.
    fn checkpoint(&self) -> Result<()>;
    /// The bytes that its files occupy.
    fn bytes_on_disk(&self) -> Result<u64>;
}
