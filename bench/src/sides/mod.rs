//! The sides of a contest, each doing the same work in its own best way.
//!
//! Work comes in loops, not in single calls, so that no side pays for the harness. Everything a side needs for an
//! answer (begin a transaction, look the table up if it must, encode, decode) is inside its loop.

#[cfg(feature = "peers")]
mod fjall;
mod form;
pub(crate) mod lmdb;
#[cfg(feature = "peers")]
mod mdbx;
mod peer;
mod postgres;
#[cfg(feature = "peers")]
mod redb;
#[cfg(feature = "peers")]
mod rocksdb;
mod sqlite;
mod treedb;

use std::path::{Path, PathBuf};

pub use form::{Form, KeyForm, Maker};
pub use lmdb::LmdbDocuments;
pub use peer::{CACHE, Opened, OpenedRows, Peer, chosen, rows};
pub use postgres::Postgres;
pub use sqlite::{Shape, SqliteDocuments};
pub use treedb::TreeDbDocuments;

use crate::Result;

/// What a commit promises; each side is set up to promise the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A returned commit survives a power cut. TreeDB: durable. SQLite: WAL, `synchronous=FULL`. LMDB: its default.
    Durable,
    /// No flush at commit. TreeDB: relaxed. SQLite: WAL, `synchronous=NORMAL`. LMDB: `NOSYNC | WRITEMAP`, which
    /// alone of the three can lose the whole file in a power cut.
    Relaxed,
}

impl Class {
    /// In the words of a table.
    pub fn label(self) -> &'static str {
        match self {
            Class::Durable => "flushed at commit",
            Class::Relaxed => "not flushed at commit",
        }
    }
}

/// Which numbers, in which order.
pub type Order<'a> = dyn Iterator<Item = u64> + 'a;

/// How a table is walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Walk {
    /// In key order.
    Forward,
    /// Against it.
    Backward,
    /// In key order, every byte going into the checksum: for checking, not for timing.
    Whole,
}

/// A key/value store with one table, whose keys and values are made from numbers. Numbers that are read must be there.
pub trait Keys: Send + Sync {
    /// Puts numbers, `batch` to a transaction.
    fn put(&self, numbers: &[u64], batch: usize, version: u64) -> Result<()>;
    /// The same for numbers in key order, in the way a side has for that: a cursor where there is one, else as ever.
    fn put_sorted(&self, numbers: &[u64], batch: usize, version: u64) -> Result<()> {
        self.put(numbers, batch, version)
    }
    /// Gets numbers, `batch` to a snapshot, and returns a checksum of what they are.
    fn get(&self, numbers: &[u64], batch: usize) -> Result<u64>;
    /// Gets numbers in one snapshot, `group` with one call where a side has such a call. The checksum of
    /// [`Keys::get`].
    fn get_many(&self, numbers: &[u64], _group: usize) -> Result<u64> {
        self.get(numbers, numbers.len())
    }
    /// Moves one cursor to each of the numbers. The checksum of [`Keys::get`].
    fn seek(&self, numbers: &[u64]) -> Result<u64>;
    /// Walks the whole table, and returns a checksum of keys and values.
    fn walk(&self, how: Walk) -> Result<u64>;
    /// Begins and ends this many snapshots.
    fn snapshots(&self, count: u64) -> Result<()>;
    /// Does what the side has put off (flushes, folding logs in, compaction), so that it is not done in the timer of
    /// another.
    fn settle(&self) -> Result<()>;
}

/// A store of rows under numbers that count up from 1.
pub trait Rows: Send + Sync {
    /// Appends the rows from `from` on, which is the next number, `batch` to a transaction.
    fn append(&self, from: u64, count: u64, batch: u64) -> Result<()>;
    /// Gets rows in one snapshot and returns a checksum of what they are.
    fn get(&self, numbers: &[u64]) -> Result<u64>;
}

/// A place for documents with a unique index on `email` and an index on `city`.
pub trait Documents: Sync {
    /// Its name in tables.
    fn name(&self) -> &'static str;
    /// Inserts `count` people of `order`, `batch` to a transaction, encoding them from fields.
    fn insert(&self, order: &mut Order<'_>, count: u64, batch: u64) -> Result<()>;
    /// Fetches `count` people of `order` by id, decodes them to fields and returns a checksum of those.
    fn by_id(&self, order: &mut Order<'_>, count: u64) -> Result<u64>;
    /// The same by e-mail address, through the unique index.
    fn by_email(&self, order: &mut Order<'_>, count: u64) -> Result<u64>;
    /// Fetches everybody of a city through its index, in any order, decodes them to fields and returns a checksum of
    /// those.
    fn by_city(&self, city: u64) -> Result<u64>;
    /// Gives `count` people of `order` another filler, found by id, each in a transaction of its own.
    fn update(&self, order: &mut Order<'_>, count: u64) -> Result<()>;
    /// People in all, and those in city 7, the latter through the index.
    fn counts(&self) -> Result<(u64, u64)>;
    /// Folds logs in, as a database at rest has done.
    fn settle(&self) -> Result<()>;
    /// Its files.
    fn folder(&self) -> &Folder;
}

/// A folder of its own for one side, removed at the end.
pub struct Folder(PathBuf);

impl Folder {
    /// A new, empty folder under the bench folder.
    ///
    /// # Errors
    /// From the file system.
    pub fn new(name: &str) -> Result<Folder> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = base()?.join(format!("{name}-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Folder(path))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Bytes of all files in it.
    ///
    /// # Errors
    /// From the file system.
    pub fn bytes(&self) -> Result<u64> {
        fn of(dir: &Path) -> std::io::Result<u64> {
            use std::os::unix::fs::MetadataExt;
            let mut sum = 0;
            for entry in std::fs::read_dir(dir)? {
                let meta = entry?;
                let path = meta.path();
                // Blocks, not lengths: a sparse file is as large as what it takes from the disk.
                sum += if path.is_dir() { of(&path)? } else { meta.metadata()?.blocks() * 512 };
            }
            Ok(sum)
        }
        Ok(of(&self.0)?)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Where the sides keep their files: `BENCH_DIR`, or `target/bench-data` of the checkout.
///
/// # Errors
/// From the file system.
pub fn base() -> Result<PathBuf> {
    let path = match std::env::var_os("BENCH_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench-data"),
    };
    std::fs::create_dir_all(&path)?;
    Ok(path)
}
