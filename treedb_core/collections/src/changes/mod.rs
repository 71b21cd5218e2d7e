//! The change log: every change of a collection, by sequence number.
//!
//! | file | what it holds |
//! |---|---|
//! | `settings` | [`ChangeLogOptions`]: whether changes are recorded, and for how long they are kept |
//! | `recorder` | the changes of a transaction on their way into the log |
//! | `record` | a record's bytes |
//! | `log` | the log in a transaction: where it begins and ends, a document's earlier version |
//! | `row_history` | which changes a row has seen |
//! | `dropped_collections` | collections by id, dropped ones included |
//! | `state` | what an open database knows of its log; switching it on and off; the bell that rings at commits |
//! | `retention` | cutting off what is too old or too much |
//! | `check` | the log against itself |
//! | `watch` | [`WatchRequest`]: what a change stream is asked for |
//! | `stream`, `event`, `update_description`, `resume_token` | [`ChangeStream`], the documents it hands out, and places in it |
//! | `as_of` | collections as they were: [`AsOf`], and a document's history |
//!
//! # What is kept
//!
//! A record is written by the transaction whose changes it tells, so the two are there or lost together. Inserts are
//! told as spans of row ids, which costs next to nothing; an update or delete keeps the row's *earlier* version, as a
//! whole or, for an update, as the bytes that differ from the later one. The document that a change made is found by going from the
//! row's present document, or its last whole earlier version, back through the changes behind it: the trail tells
//! which those are. Row ids are never used twice.
//!
//! Every change takes the next sequence number. Numbers are never used twice by changes that are durable: a power cut that loses
//! commits loses their numbers, which is why a place in the log is a number *and* the time of its record.
//!
//! # Bytes
//!
//! ```text
//! changes          ordered table
//!   key ""         settings, BSON: { v: 1, on: bool, from: int64, since: int64 (ms), keep_ms: int64, bytes: int64 }
//!   key seq        u64 BE, number of the record's first change, >= 1:
//!     u8           version, 1
//!     number       changes in the record, >= 1
//!     number       when it was committed, ms since 1970, not before the record in front of it
//!     number       bytes of all records so far, this one and its entries of the trail included
//!     number       collection id; 0 for a database
//!     runs         of changes:
//!       0          inserts: number first row, number how many rows
//!       1, 2       update, replacement: number row, earlier version
//!       3          delete: number row, number length, document
//!       4, 5       drop of the collection, of the database: number length, its name
//!   earlier version: number length << 1 | 1, document
//!                 or number length << 1, number prefix, number suffix, bytes: a document whose bytes behind the
//!                    first four are the `prefix` bytes that the later version has there, then these, then the
//!                    last `suffix` bytes of the later version
//!   number         7 bits a byte, lowest first, all but the last with the highest bit set
//! changes/trail    ordered table, empty values, a key for each update, replacement and delete:
//!   6 bytes        seq >> 16, BE: an epoch, so that old entries go by the range
//!   8 + 8 bytes    collection id, row, BE
//!   2 bytes        seq, the low 16 bits, BE
//! changes/dropped  ordered table: collection id, u64 BE -> BSON { ns, seq: int64, time: int64 (ms), bytes: int64,
//!                  entry: binary? }: `entry` is its catalog entry without indexes, there while its rows are kept
//! ```

mod as_of;
mod check;
mod dropped_collections;
mod event;
mod log;
mod record;
mod recorder;
mod resume_token;
mod retention;
mod row_history;
mod settings;
mod state;
mod stream;
#[cfg(test)]
pub(super) mod tests;
mod update_description;
mod watch;

pub use as_of::{AsOf, Revision};
pub use settings::{ChangeLogOptions, ChangeLogStatus};
pub use stream::ChangeStream;
pub use watch::{FullDocument, FullDocumentBeforeChange, WatchFrom, WatchRequest, Watched};

pub(crate) use as_of::{AsOfOverlay, AsOfView};
pub(crate) use check::check;
pub(crate) use recorder::Recorder;
pub(crate) use state::ChangeLog;
