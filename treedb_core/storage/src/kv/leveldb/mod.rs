//! LevelDB's interface over a store, for programs written for LevelDB.
//!
//! | file | what |
//! |---|---|
//! | `db` | [`Db`]: open, put, get, delete, write |
//! | `batch` | [`WriteBatch`] |
//! | `iter` | [`DbSnapshot`], [`DbIterator`] |
//! | `properties` | properties, approximate sizes, compaction |
//! | `destroy_repair` | [`destroy`], [`repair`] |
//!
//! Names and meanings are LevelDB's, with these differences:
//!
//! * Files are TreeDB's: a directory of LevelDB's is not opened, but imported (`treedb import --from leveldb`).
//! * Keys have at most [`MAX_KEY`](super::MAX_KEY) bytes and are ordered by their bytes; there are no other comparators.
//! * Options that tune a log-structured tree (write buffer, block size, filter, compression) do not exist here.
//! * A write without `sync` survives the death of the process, as LevelDB's does; a crash of the machine loses a
//!   complete suffix of such writes, never one from the middle.
//! * Everything is in one table, [`TABLE`], of an ordinary [`Store`](super::Store). [`Db::store`] gives access to it:
//!   transactions, further tables, backup.
//!
//! ```
//! use treedb_storage::leveldb::{Db, Options, ReadOptions, WriteBatch, WriteOptions};
//!
//! # fn main() -> treedb_storage::Result<()> {
//! # let dir = tempfile::tempdir().expect("a temporary directory");
//! let db = Db::open(dir.path(), Options { create_if_missing: true, ..Options::default() })?;
//! db.put(WriteOptions::default(), b"key1", b"value")?;
//!
//! // Moves a value to another key, atomically.
//! if let Some(value) = db.get(ReadOptions::default(), b"key1")? {
//!     let mut batch = WriteBatch::new();
//!     batch.delete(b"key1");
//!     batch.put(b"key2", &value);
//!     db.write(WriteOptions { sync: true }, &batch)?;
//! }
//!
//! let mut it = db.iter(ReadOptions::default())?;
//! it.seek_to_first();
//! while it.valid() {
//!     assert_eq!(it.entry(), (&b"key2"[..], &b"value"[..]));
//!     it.next();
//! }
//! it.status()?;
//! # Ok(())
//! # }
//! ```

mod batch;
mod db;
mod destroy_repair;
mod iter;
mod properties;

pub use batch::{Change, WriteBatch};
pub use db::{Db, Options, ReadOptions, WriteOptions};
pub use destroy_repair::{destroy, repair};
pub use iter::{DbIterator, DbSnapshot};

/// The table that contains everything.
pub const TABLE: &str = "leveldb";
