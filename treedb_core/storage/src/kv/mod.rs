//! The key/value store: tables, transactions, cursors, recovery.
//!
//! | file | noun |
//! |---|---|
//! | `store` | [`Store`]: a directory opened |
//! | `options` | [`Options`], [`Durability`] |
//! | `catalog` | [`Table`]: names, kinds and roots, in a tree of their own |
//! | `reads` | [`Reads`]: what every transaction offers |
//! | `cursor` | [`Cursor`], [`Range`], [`Rows`] |
//! | `hold`, `arena` | what cursors and transactions keep in memory if the page file is not mapped |
//! | `figures` | [`TableStats`]: a table in numbers |
//! | `snapshot` | [`ReadTxn`] and [`Snapshot`]: a transaction pinned for reading |
//! | `write` | [`WriteTxn`]: the one writer |
//! | [`leveldb`] | LevelDB's interface over a store |
//! | `optimistic` | [`OptimisticTxn`]: many writers at once, checked when they commit |
//! | `put_all` | many entries put in one call |
//! | `savepoint` | [`Savepoint`]: points in a write transaction to go back to |
//! | `write_cursor` | [`WriteCursor`]: a cursor that changes what it stands on |
//! | `batch` | [`Batch`]: changes put together beforehand |
//! | `codec` | [`TypedKey`], [`TypedValue`]: Rust values as bytes of keys and of values |
//! | `typed` | [`TypedTable`]: a table whose keys and values have types |
//! | `dup` | tables with many values under a key: [`DupCursor`], [`TypedDupTable`] |
//! | `command` | the changes of a transaction as a log frame |
//! | `edit` | commands applied to pages, by a transaction or by recovery |
//! | `fingers` | where the last puts went |
//! | `unlogged` | commits that the log does not have |
//! | `values` | large values, in the value log |
//! | `gate` | who is the writer |
//! | `recover` | opening: the newest checkpoint and the log's frames after it |
//! | `checkpoint` | making the page file catch up, and the thread that does |
//! | `backup` | copies of a live store, into a directory or a stream |
//! | `housekeeping` | changes that no command says |
//! | `stalls` | what holds writers up, and slowing them down before |
//! | `read_ahead` | whether the system reads ahead in the files |
//! | `reclaim` | keeping the value log at most half dead |
//! | `compact` | making the files small |
//! | `check` | everything in the directory against everything else |
//!
//! # A directory
//!
//! ```text
//! pages     the page file: trees of tables, and the catalog tree
//! log/      the command log: what happened since the page file's last checkpoint
//! values/   the value log: values too large for a page
//! LOCK      held while a process has the directory open
//! ```
//!
//! # Promises
//!
//! * A transaction is all or nothing: for readers, and after any crash.
//! * A crash loses a suffix of the commits, never one from the middle, whatever their durability.
//! * A durable commit that returned survives a power cut, and with it every commit before it. So does a durable
//!   commit that changed nothing: it is a barrier.
//! * A relaxed commit that returned survives the death of the process, and with it every commit before it.
//! * Readers see the state of one moment, are never blocked and block nobody.
//! * A failed write or flush poisons the store: it refuses writes until it is opened again.
//!
//! # How a commit goes
//!
//! The transaction changes copies of pages in the map, and writes its commands, values included, into a frame.
//! Commit appends the frame to the log, publishes the new root in memory, lets the next writer in, and then, if
//! durable, waits for the log's group flush. A checkpoint later flushes pages and values and switches the meta
//! page; the log up to there is cut. A crash loses the map's unflushed pages, and recovery replays the frames.

mod arena;
mod backup;
mod batch;
mod catalog;
mod check;
mod checkpoint;
mod codec;
mod command;
mod compact;
mod cursor;
mod dup;
mod edit;
mod figures;
mod fingers;
mod gate;
mod hold;
mod housekeeping;
pub mod leveldb;
mod optimistic;
mod options;
mod put_all;
mod read_ahead;
mod reads;
mod reclaim;
mod recover;
mod savepoint;
mod snapshot;
mod stalls;
mod store;
mod typed;
mod unlogged;
mod values;
mod write;
mod write_cursor;

#[cfg(test)]
mod tests;

pub use crate::page::{CacheStats, Reader};
pub use backup::Copied;
pub use batch::Batch;
pub use catalog::{MAX_NAME, Table, TableKind};
pub use check::CheckReport;
pub use codec::{KeyBuf, TypedKey, TypedValue};
pub use compact::Compacted;
pub use cursor::{Cursor, Range, Rows};
pub use dup::{DupCursor, DupValues, MAX_DUP_VALUE, Pairs, TypedDupTable, TypedPairs, TypedValues};
pub use edit::MAX_VALUE;
pub use figures::TableStats;
pub use optimistic::pause;
pub use optimistic::{Isolation, OptimisticCursor, OptimisticRange, OptimisticTxn};
pub use options::{Durability, Options};
pub use reads::{Bounds, Entry, Reads};
pub use savepoint::Savepoint;
pub use snapshot::Beside;
pub use snapshot::{ReadTxn, Snapshot};
pub use stalls::StallStats;
pub use store::{Stats, Store};
pub use typed::{TypedRange, TypedTable};
pub use write::WriteTxn;
pub use write_cursor::WriteCursor;

/// The longest key of an ordered table, in bytes.
pub const MAX_KEY: usize = crate::btree::MAX_KEY;
