//! An embedded key/value store: named tables of bytes, transactions, crash recovery.
//!
//! ```
//! use treedb_storage::{Reads, Store, TableKind};
//!
//! # fn main() -> treedb_storage::Result<()> {
//! # let dir = tempfile::tempdir().expect("a temporary directory");
//! let store = Store::open(dir.path())?;
//! let mut txn = store.begin_write()?;
//! let films = txn.create_table("films", TableKind::Ordered)?;
//! txn.put(&films, b"alien", b"1979")?;
//! txn.commit()?;
//! assert_eq!(store.begin_read()?.get(&films, b"alien")?, Some(&b"1979"[..]));
//! # Ok(())
//! # }
//! ```
//!
//! Data lives in copy-on-write B+trees in one page file. Commits go to a command log with group commit; values too
//! large for a page go to a value log. There is one writer at a time; readers see snapshots and never block.
//! `docs/key-value.md` in the repository is the guide, `docs/format.md` describes every byte on disk.
//!
//! # Features
//!
//! All are on by default.
//!
//! | feature | what it adds |
//! |---|---|
//! | `leveldb` | [`leveldb`]: LevelDB's interface over a store |
//! | `dup-tables` | [`TableKind::Dup`]: tables with many sorted values under a key |
//! | `optimistic` | [`OptimisticTxn`]: many writers at once, checked for conflicts when they commit |
//!
//! A build without `dup-tables` has no code that reads such tables. It refuses to open a store that contains one, or
//! whose log creates one, with an error that names the feature.
//!
//! # Layers
//!
//! Each module uses only the ones below it in this list.
//!
//! | module | what it is |
//! |---|---|
//! | `kv` | store, tables, transactions, cursors, recovery: the public API, re-exported here |
//! | `btree` | trees over pages: search, insert, delete, cursor, bulk load, check |
//! | `wal`, `vlog` | command log, value log |
//! | `page` | page file: map, copy-on-write, allocation, meta pages, checkpoint |
//! | [`disk`] | the only part that touches files, and a simulated disk for crash tests |
//! | `cipher` | encryption at rest |
//! | `tasks` | work divided among threads |
//! | `sync` | locks and atomics, which tests replace by ones whose schedules they choose |
//!
//! `btree`, `page` and `wal` are public but hidden: the fuzz targets feed them hostile bytes without a store around
//! them. So is `tasks`, for the layers above. They are not part of the API.

#[doc(hidden)]
pub mod btree;
mod cipher;
pub mod disk;
mod kv;
#[doc(hidden)]
pub mod page;
mod sync;
#[doc(hidden)]
pub mod tasks;
mod vlog;
#[doc(hidden)]
pub mod wal;

pub use cipher::Key;
#[cfg(feature = "leveldb")]
pub use kv::leveldb;
pub use kv::{
    BackupProgress, Batch, Bounds, CacheStats, CheckReport, CompactProgress, Cursor, DerivedFiles,
    DerivedMap, DerivedWriter, Durability, Entry, Identity, KeyBuf, LOCAL_TABLES, LogStats, MAX_KEY,
    MAX_NAME, MAX_VALUE, Options, PageCounts, Range, ReadTxn, Reader, Reads, Rows, Savepoint, SharedReadTxn,
    Snapshot, Stats, Store, Table, TableKind, TableStats, TableVersion, Timings, TypedKey, TypedRange,
    TypedTable, TypedValue, ValueLogStats, WriteCursor, WriteTxn, backoff,
};
#[cfg(feature = "dup-tables")]
pub use kv::{DupCursor, DupValues, MAX_DUP_VALUE, Pairs, TypedDupTable, TypedPairs, TypedValues};
#[cfg(feature = "optimistic")]
pub use kv::{Isolation, OptimisticCursor, OptimisticRange, OptimisticTxn};
pub use treedb_formats::{Corruption, Error, Result};

#[cfg(all(doctest, feature = "dup-tables", feature = "leveldb", feature = "optimistic"))]
#[doc = include_str!("../../../docs/key-value.md")]
struct KeyValue;
