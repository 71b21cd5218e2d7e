//! The change log: every change of a collection, by sequence number.
//!
//! | file | what it holds |
//! |---|---|
//! | `settings` | [`ChangeLogOptions`]: whether changes are recorded, and for how long they are kept |
//! | `recorder` | collects the changes of a transaction and writes them to the log |
//! | `record` | the bytes of a record |
//! | `log` | the log in a transaction: its first and last record, earlier versions of documents |
//! | `row_history` | the changes of each row |
//! | `dropped_collections`, `renames` | collections by id, including dropped ones, and their earlier names |
//! | `state` | the log of an open database: switching it on and off, waking waiters at commits |
//! | `retention` | removing changes that are too old or exceed the size limit |
//! | `check` | consistency checks of the log |
//! | `watch` | [`WatchRequest`]: the parameters of a change stream |
//! | `stream`, `event`, `update_description`, `split`, `resume_token` | [`ChangeStream`], its events, and positions in it |
//! | `oplog`, `document_diff` | [`Oplog`]: the changes as MongoDB's oplog has them |
//! | `apply_difference` | applying the differences of an oplog to documents |
//! | `as_of` | reading collections as of an earlier change: [`AsOf`], and the history of a document |
//! | `since`, `row_ranges` | what happened after a change |
//! | `rewind` | making the database what it was: [`Rewound`] |
//!
//! # Contents
//!
//! A record is written by the transaction that makes its changes, so both are durable or both are lost. Inserts are recorded as
//! spans of row ids, which costs little. An update or delete keeps the *earlier* version of the row: the whole document or, for
//! an update, the bytes that differ from the later version. The document that a change produced is reconstructed from the row's
//! present document, or its last whole earlier version, by undoing the later changes, which the row history lists. Row ids are
//! never reused.
//!
//! Every change gets the next sequence number. Sequence numbers of durable changes are never reused. A power loss that loses commits
//! loses their numbers too, which is why a position in the log is a number *and* the time of its record.
//!
//! # Bytes
//!
//! ```text
//! changes          ordered table
//!   key ""         settings, BSON: { v: 1, on: bool, from: int64, since: int64 (ms), keep_ms: int64, bytes: int64 }
//!   key seq        u64 BE, number of the record's first change, >= 1:
//!     u8           version, 1; 2 of a record with a rename, 3 of one with a change of a definition
//!     number       changes in the record, >= 1
//!     number       time of the commit, ms since 1970, not before that of the previous record
//!     number       bytes of all records so far, including this one and its entries in the row history
//!     number       collection id; 0 for a database
//!     runs         of changes:
//!       0          inserts: number first row, number of rows
//!       1, 2       update, replacement: number row, earlier version
//!       3          delete: number row, number length, document
//!       4, 5       drop of the collection, of the database: number length, name
//!       6          rename of the collection: number length, old name, number length, new name
//!       7 to 10    the collection was created, indexes were created, indexes were dropped, options were changed: number length, BSON
//!                  that describes it
//!   earlier version: number length << 1 | 1, document
//!                 or number length << 1, number prefix, number suffix, bytes: a document whose bytes after the first four
//!                    are the first `prefix` bytes of the later version after its first four, then these, then the last
//!                    `suffix` bytes of the later version
//!   number         7 bits per byte, lowest first, all bytes but the last with the highest bit set
//! changes/trail    the row history: ordered table, empty values, a key for each update, replacement and delete:
//!   6 bytes        seq >> 16, BE: an epoch, so that old entries are removed as a range
//!   8 + 8 bytes    collection id, row, BE
//!   2 bytes        the low 16 bits of seq, BE
//! changes/dropped  ordered table: collection id, u64 BE -> BSON { ns, seq: int64, time: int64 (ms), bytes: int64,
//!                  entry: binary? }: `entry` is the catalog entry without indexes, present while the rows are kept
//!   collection id, u64 BE, seq, u64 BE -> BSON { from }: a rename, and the name that the collection had until then
//! ```

mod apply_difference;
mod as_of;
mod check;
mod document_diff;
mod dropped_collections;
mod event;
mod log;
mod oplog;
mod record;
mod recorder;
mod renames;
mod resume_token;
mod retention;
mod rewind;
mod row_history;
mod row_ranges;
mod settings;
mod since;
mod split;
mod state;
mod stream;
#[cfg(test)]
pub(super) mod tests;
mod update_description;
mod watch;

pub use as_of::{AsOf, Revision};
pub use oplog::Oplog;
pub(crate) use oplog::{by_time, is_oplog};
pub use rewind::Rewound;
pub use settings::{ChangeLogOptions, ChangeLogStatus};
pub use stream::ChangeStream;
pub use watch::{FullDocument, FullDocumentBeforeChange, WatchFrom, WatchRequest, Watched};

pub(crate) use as_of::{AsOfOverlay, AsOfView};
pub(crate) use check::{check, entries_to_check};
pub(crate) use record::Defined;
pub(crate) use recorder::Recorder;
pub(crate) use state::ChangeLog;
