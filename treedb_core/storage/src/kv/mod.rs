//! The key/value store: tables, transactions, cursors, recovery.
//!
//! | file | what |
//! |---|---|
//! | `store` | [`Store`]: an open directory |
//! | `options` | [`Options`], [`Durability`] |
//! | `catalog` | [`Table`]: names, kinds and roots, in a tree of their own |
//! | `reads` | [`Reads`]: the reads that every transaction offers |
//! | `record_cache` | the table records that a thread used last |
//! | `cursor`, `two_ended` | [`Cursor`], [`Range`], [`Rows`] |
//! | `pinned_cursor` | cursors that pin their leaf while pages may leave memory |
//! | `arena` | memory for what a transaction has read, with a bounded page cache |
//! | `stats` | [`TableStats`] |
//! | `table_version` | [`TableVersion`]: which state of a table a snapshot sees, and what is new in it |
//! | `changed_rows` | the rows that recent commits changed |
//! | `snapshot` | [`ReadTxn`], [`Snapshot`], [`SharedReadTxn`] |
//! | `write` | [`WriteTxn`]: the one writer |
//! | `put_all` | many entries stored in one call |
//! | `savepoint` | [`Savepoint`]: a point in a write transaction to roll back to |
//! | `write_cursor` | [`WriteCursor`]: a cursor that puts and deletes |
//! | `batch` | [`Batch`]: changes collected before the transaction that makes them |
//! | `codec` | [`TypedKey`], [`TypedValue`]: Rust values as bytes of keys and values |
//! | `typed` | [`TypedTable`]: a table whose keys and values have types |
//! | `dup` | tables with many values under a key: [`DupCursor`], [`TypedDupTable`] |
//! | `leveldb` | LevelDB's interface over a store |
//! | `optimistic` | [`OptimisticTxn`]: many writers at once, checked when they commit |
//! | `backoff` | random waits between attempts of a transaction that conflicts |
//! | `command` | the changes of a transaction as a log frame |
//! | `edit` | commands applied to pages, by a transaction or by recovery |
//! | `fingers` | where the last puts of each table went |
//! | `pending` | commits that are not in the log yet |
//! | `large_values` | values in the value log |
//! | `writer_lock` | the lock that makes its holder the writer |
//! | `recover` | opening: the newest checkpoint and the log's frames after it |
//! | `checkpoint` | bringing the page file up to date, and the thread that does it |
//! | `backup` | copies of a live store, into a directory or a stream |
//! | `derived` | [`DerivedFiles`]: what was made of tables, kept in files |
//! | `full_disk` | what makes room when the disk is full |
//! | `maintenance` | transactions that move pages and values but change no content |
//! | `stalls` | how writers are slowed down gradually, before something has to hold them up |
//! | `read_ahead` | whether the system reads ahead in the files |
//! | `reclaim` | keeping at least half of the value log live |
//! | `compact` | making the files small |
//! | `check` | comparing everything in the directory with everything else |
//!
//! # A directory
//!
//! ```text
//! pages     the page file: trees of tables, and the catalog tree
//! log/      the command log: changes since the page file's last checkpoint
//! values/   the value log: values too large for a page
//! derived/  what was made of tables and can be made again: may be removed at any time
//! LOCK      locked while a process has the directory open
//! ```
//!
//! # Guarantees
//!
//! * A transaction is all or nothing: for readers, and after any crash.
//! * A crash loses a suffix of the commits, never one from the middle, whatever their durability.
//! * A durable commit that returned survives a power cut, and with it every commit before it. So does a durable
//!   commit that changed nothing: it is a barrier.
//! * A relaxed commit that returned survives the death of the process, and with it every commit before it.
//! * Readers see the state of one moment. They are never blocked and block no one.
//! * A failed write or flush poisons the store: it refuses writes until it is opened again.
//!
//! # How a commit works
//!
//! The transaction changes copies of pages in memory, and writes its commands, values included, into a frame.
//! Commit appends the frame to the log, publishes the new root in memory, admits the next writer, and then, if the
//! commit is durable, waits for the log's group flush. A later checkpoint flushes pages and values, switches the meta
//! page, and truncates the log. A crash loses the unflushed pages, and recovery replays the frames.

mod arena;
mod backoff;
mod backup;
mod batch;
mod catalog;
mod changed_rows;
mod check;
mod checkpoint;
mod codec;
mod command;
mod compact;
mod cursor;
mod derived;
mod derived_map;
#[cfg(feature = "dup-tables")]
mod dup;
#[cfg(not(feature = "dup-tables"))]
#[path = "dup_disabled.rs"]
mod dup;
mod edit;
mod fingers;
mod full_disk;
mod large_values;
#[cfg(feature = "leveldb")]
pub mod leveldb;
mod maintenance;
#[cfg(feature = "optimistic")]
mod optimistic;
mod options;
mod pending;
mod pinned_cursor;
mod put_all;
mod read_ahead;
mod reads;
mod reclaim;
mod record_cache;
mod recover;
mod savepoint;
mod snapshot;
mod stalls;
mod stats;
mod store;
mod table_version;
mod two_ended;
mod typed;
mod undone;
mod write;
mod write_cursor;
mod writer_lock;

#[cfg(test)]
#[cfg(all(feature = "dup-tables", feature = "leveldb", feature = "optimistic"))]
mod tests;

pub use crate::page::{CacheStats, PageCounts, Reader};
pub use crate::vlog::ValueLogStats;
pub use crate::wal::{LogStats, Timings};
pub use backoff::backoff;
pub use backup::BackupProgress;
pub use batch::Batch;
pub use catalog::{LOCAL_TABLES, MAX_NAME, Table, TableKind};
pub use check::CheckReport;
pub use codec::{KeyBuf, TypedKey, TypedValue};
pub use compact::CompactProgress;
pub use cursor::{Cursor, Range, Rows};
pub use derived::{DerivedFiles, DerivedWriter, Identity};
pub use derived_map::DerivedMap;
#[cfg(feature = "dup-tables")]
pub use dup::{DupCursor, DupValues, MAX_DUP_VALUE, Pairs, TypedDupTable, TypedPairs, TypedValues};
pub use edit::MAX_VALUE;
#[cfg(feature = "optimistic")]
pub use optimistic::{Isolation, OptimisticCursor, OptimisticRange, OptimisticTxn};
pub use options::{Durability, Options};
pub use reads::{Bounds, Entry, Reads};
pub use savepoint::Savepoint;
pub use snapshot::{ReadTxn, SharedReadTxn, Snapshot};
pub use stats::TableStats;
pub use store::{Stats, Store};
pub use table_version::TableVersion;
pub use typed::{TypedRange, TypedTable};
pub use write::WriteTxn;
pub use write_cursor::WriteCursor;

/// The longest key of an ordered table, in bytes.
pub const MAX_KEY: usize = crate::btree::MAX_KEY;
