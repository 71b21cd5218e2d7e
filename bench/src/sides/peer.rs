//! Who there is, and how each is opened.

use std::path::Path;

#[cfg(feature = "peers")]
use super::fjall::FjallKeys;
use super::lmdb::{LmdbKeys, LmdbRows};
#[cfg(feature = "peers")]
use super::mdbx::MdbxKeys;
#[cfg(feature = "peers")]
use super::redb::RedbKeys;
#[cfg(feature = "peers")]
use super::rocksdb::RocksDbKeys;
use super::sqlite::SqliteKeys;
use super::treedb::{TreeDbKeys, TreeDbRows};
use super::{Class, Folder, Form, Keys, Rows};
use crate::Result;

/// A cache that all fits into.
pub const CACHE: usize = 1 << 30;

/// The peers that `BENCH_PEERS` asks for.
pub fn chosen() -> Option<String> {
    std::env::var("BENCH_PEERS").ok()
}

/// A side of a key/value contest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// Ourselves.
    TreeDb,
    /// LMDB. Without flushes: `WRITEMAP`, its fastest.
    Lmdb,
    /// libmdbx. Without flushes: `WRITEMAP`, `UTTERLY_NOSYNC`, `LIFORECLAIM`: its fastest for small commits.
    Mdbx,
    /// libmdbx without flushes and without `WRITEMAP`: faster for some large commits.
    MdbxNoMap,
    /// redb.
    Redb,
    /// fjall, with a cache that all fits into.
    Fjall,
    /// RocksDB with zstd, bloom filters and a cache that all fits into.
    RocksDb,
    /// SQLite.
    Sqlite,
}

/// A store in a folder of its own.
pub struct Opened {
    /// Whose.
    pub name: &'static str,
    /// The store; before the folder, which goes after it.
    pub keys: Box<dyn Keys>,
    _folder: Folder,
}

impl Peer {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Peer::TreeDb => "TreeDB",
            Peer::Lmdb => "LMDB",
            Peer::Mdbx => "libmdbx",
            Peer::MdbxNoMap => "libmdbx, no map",
            Peer::Redb => "redb",
            Peer::Fjall => "fjall",
            Peer::RocksDb => "RocksDB",
            Peer::Sqlite => "SQLite",
        }
    }

    /// Whether the program was built with it, and `BENCH_PEERS` does not ask for others only.
    pub fn is_here(self) -> bool {
        let built = cfg!(feature = "peers") || matches!(self, Peer::TreeDb | Peer::Lmdb | Peer::Sqlite);
        let asked = || chosen().is_none_or(|names| names.split('+').any(|name| name == self.name()));
        built && (self == Peer::TreeDb || asked())
    }

    /// An empty store.
    ///
    /// # Errors
    /// From the side and the file system, or because the program was built without this peer.
    pub fn keys(self, class: Class, form: Form) -> Result<Opened> {
        let folder = Folder::new("keys")?;
        Ok(Opened { name: self.name(), keys: self.open(class, form, folder.path(), CACHE)?, _folder: folder })
    }

    /// The store in `dir`, which is new if the folder is empty. `cache` is for those that do not leave caching to the
    /// system.
    ///
    /// # Errors
    /// As [`Peer::keys`].
    pub fn open(self, class: Class, form: Form, dir: &Path, cache: usize) -> Result<Box<dyn Keys>> {
        #[cfg(not(feature = "peers"))]
        let _ = cache;
        Ok(match self {
            Peer::TreeDb => Box::new(TreeDbKeys::open(class, form, dir)?),
            Peer::Lmdb => Box::new(LmdbKeys::open(class, form, dir)?),
            Peer::Sqlite => Box::new(SqliteKeys::open(class, form, dir)?),
            #[cfg(feature = "peers")]
            Peer::Mdbx => Box::new(MdbxKeys::open(class, form, dir, true)?),
            #[cfg(feature = "peers")]
            Peer::MdbxNoMap => Box::new(MdbxKeys::open(class, form, dir, false)?),
            #[cfg(feature = "peers")]
            Peer::Redb => Box::new(RedbKeys::open(class, form, dir)?),
            #[cfg(feature = "peers")]
            Peer::Fjall => Box::new(FjallKeys::open(class, form, dir)?),
            #[cfg(feature = "peers")]
            Peer::RocksDb => Box::new(RocksDbKeys::open(class, form, dir, cache)?),
            #[cfg(not(feature = "peers"))]
            _ => return Err(format!("built without {}: it needs --features peers", self.name()).into()),
        })
    }

    /// The store in `dir`, set up so that its log keeps all that is done to it: nothing is folded in meanwhile.
    ///
    /// # Errors
    /// As [`Peer::keys`].
    pub fn open_logging(self, form: Form, dir: &Path) -> Result<Box<dyn Keys>> {
        match self {
            Peer::TreeDb => Ok(Box::new(TreeDbKeys::open_logging(form, dir)?)),
            _ => self.open(Class::Relaxed, form, dir, CACHE),
        }
    }

    /// Those of `peers` that are here, each empty.
    ///
    /// # Errors
    /// As [`Peer::keys`].
    pub fn all(peers: &[Peer], class: Class, form: Form) -> Result<Vec<Opened>> {
        let here = peers.iter().filter(|peer| peer.is_here());
        here.map(|peer| peer.keys(class, form)).collect()
    }

    /// The peer with this name.
    pub fn named(name: &str) -> Option<Peer> {
        use Peer::*;
        [TreeDb, Lmdb, Mdbx, MdbxNoMap, Redb, Fjall, RocksDb, Sqlite].into_iter().find(|p| p.name() == name)
    }
}

/// A store of rows in a folder of its own.
pub struct OpenedRows {
    /// Whose.
    pub name: &'static str,
    /// The store; before the folder, which goes after it.
    pub rows: Box<dyn Rows>,
    _folder: Folder,
}

/// Empty stores of rows: TreeDB's and LMDB's.
///
/// # Errors
/// From the side and the file system.
pub fn rows(class: Class, form: Form) -> Result<[OpenedRows; 2]> {
    let (ours, theirs) = (Folder::new("rows")?, Folder::new("rows")?);
    let rows: Box<dyn Rows> = Box::new(TreeDbRows::open(class, form, ours.path())?);
    let ours = OpenedRows { name: Peer::TreeDb.name(), rows, _folder: ours };
    let rows: Box<dyn Rows> = Box::new(LmdbRows::open(class, form, theirs.path())?);
    Ok([ours, OpenedRows { name: Peer::Lmdb.name(), rows, _folder: theirs }])
}
