//! TreeDB's engine, as a library.
//!
//! The modules are layers; each may use the ones below it in this list and none above
//! (`scripts/check_layers.py` fails the build otherwise):
//!
//! | layer | what it is |
//! |---|---|
//! | [`collection`] | catalog, rows by [`RowId`], index maintenance: the document API |
//! | [`aggregate`] | pipeline stages, over `access` |
//! | [`query`] | filter, update, projection, sort, planner, executor, over `access` |
//! | [`access`] | the traits: what queries need of a place where rows live |
//! | [`index`] | map keys to row ids |
//! | [`doc`] | BSON views, paths, order-preserving keys |
//! | [`kv`] | store, tables, transactions, cursors, recovery |
//! | [`btree`] | node format, search, insert, delete, cursor, bulk load, check |
//! | [`wal`], [`vlog`] | command log, value log |
//! | [`page`] | page file: map, copy-on-write, allocation, meta pages, checkpoint |
//! | [`disk`] | the only part that touches files |
//! | [`cipher`] | encryption at rest |
//! | `sync` | locks and atomics, whose schedules tests choose |

pub mod access;
pub mod aggregate;
pub mod btree;
pub mod cipher;
pub mod code;
pub mod collection;
pub mod disk;
pub mod doc;
pub mod error;
pub mod index;
pub mod kv;
pub mod page;
pub mod query;
mod sync;
pub mod vlog;
pub mod wal;

pub use access::RowId;
pub use bson;
pub use cipher::Key;
pub use code::{DuplicateKey, ErrorCode, QueryError};
pub use collection::{
    AggregateRequest, Aggregation, AsOf, ChangeLogOptions, ChangeLogStatus, ChangeStream, Collection,
    CollectionInfo, Cursor, Database, DatabaseCheck, DeleteRequest, Explanation, FindAndModifyOutcome,
    FindAndModifyRequest, FindRequest, Format, IndexBuild, IndexSpec, IndexesCreated, InsertOutcome,
    MAX_TRANSACTION_BYTES, Namespace, Revision, Texts, Together, Transaction, TransactionCollection,
    TransactionCursor, UpdateOutcome, UpdateRequest, WatchFrom, WatchRequest, Watched,
};
pub use error::{Corruption, Error, Result};
pub use kv::{Durability, Options, Store};

// The Rust examples of these pages are compiled and run as tests of this crate.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
#[cfg(doctest)]
#[doc = include_str!("../../docs/key-value.md")]
struct KeyValue;
#[cfg(doctest)]
#[doc = include_str!("../../docs/collections.md")]
struct Collections;
