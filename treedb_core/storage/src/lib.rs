//! TreeDB's storage engine: an embedded key/value store.
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
//! The modules are layers; each uses only the ones below it in this list:
//!
//! | layer | what it is |
//! |---|---|
//! | [`kv`] | store, tables, transactions, cursors, recovery: the public API, re-exported here |
//! | [`btree`] | trees over pages: search, insert, delete, cursor, bulk load, check |
//! | [`wal`], [`vlog`] | command log, value log |
//! | [`page`] | page file: map, copy-on-write, allocation, meta pages, checkpoint |
//! | [`disk`] | the only part that touches files |
//! | [`cipher`] | encryption at rest |
//! | `sync` | locks and atomics, whose schedules tests choose |

pub mod btree;
pub mod cipher;
pub mod disk;
pub mod kv;
pub mod page;
mod sync;
pub mod vlog;
pub mod wal;

pub use cipher::Key;
pub use kv::*;
pub use treedb_formats::{Corruption, Error, Result};

#[cfg(doctest)]
#[doc = include_str!("../../../docs/key-value.md")]
struct KeyValue;
