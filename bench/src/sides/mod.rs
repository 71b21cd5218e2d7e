//! The sides of a contest, each doing the same work in its own best way.
//!
//! Work comes in loops, not in single calls, so that no side pays for the harness. Everything a side needs for an
//! answer (begin a transaction, look the table up if it must, encode, decode) is inside its loop.

mod lmdb;
mod postgres;
mod sqlite;
mod treedb;

use std::path::{Path, PathBuf};

pub use lmdb::{LmdbDocuments, LmdbKeys};
pub use postgres::Postgres;
pub use sqlite::{Shape, SqliteDocuments, SqliteKeys};
pub use treedb::{TreeDbDocuments, TreeDbKeys};

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

/// Bytes of a value in the key/value workloads.
pub const VALUE: usize = 100;

/// The key of number `n`: 8 bytes, in no order.
#[inline]
pub fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// The value of number `n` after it was written in round `version`.
#[inline]
pub fn value(n: u64, version: u64) -> [u8; VALUE] {
    let mut value = [(n ^ version) as u8; VALUE];
    value[..8].copy_from_slice(&n.to_le_bytes());
    value[8..16].copy_from_slice(&version.to_le_bytes());
    value
}

/// Which numbers, in which order.
pub type Order<'a> = dyn Iterator<Item = u64> + 'a;

/// A key/value store with one table.
pub trait Keys: Sync {
    /// Its name in tables.
    fn name(&self) -> &'static str;
    /// Puts `count` numbers of `order`, `batch` to a transaction.
    fn put(&self, order: &mut Order<'_>, count: u64, batch: u64, version: u64) -> Result<()>;
    /// Gets `count` numbers of `order`, `batch` to a snapshot, and returns a checksum of the values.
    fn get(&self, order: &mut Order<'_>, count: u64, batch: u64) -> Result<u64>;
    /// Walks the whole table in order and returns a checksum of keys and values.
    fn scan(&self) -> Result<u64>;
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
