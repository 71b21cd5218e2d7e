//! Who there is, and how each is opened.

#[cfg(feature = "peers")]
use super::fjall::FjallKeys;
use super::lmdb::LmdbKeys;
#[cfg(feature = "peers")]
use super::mdbx::MdbxKeys;
#[cfg(feature = "peers")]
use super::redb::RedbKeys;
#[cfg(feature = "peers")]
use super::rocksdb::RocksDbKeys;
use super::sqlite::SqliteKeys;
use super::treedb::TreeDbKeys;
use super::{Class, Form, Keys};
use crate::Result;

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

/// A store that a peer has opened.
pub type Opened = (&'static str, Box<dyn Keys>);

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

    /// Whether the program was built with it.
    pub fn is_here(self) -> bool {
        cfg!(feature = "peers") || matches!(self, Peer::TreeDb | Peer::Lmdb | Peer::Sqlite)
    }

    /// An empty store.
    ///
    /// # Errors
    /// From the side and the file system, or because the program was built without this peer.
    pub fn keys(self, class: Class, form: Form) -> Result<Box<dyn Keys>> {
        Ok(match self {
            Peer::TreeDb => Box::new(TreeDbKeys::new(class, form)?),
            Peer::Lmdb => Box::new(LmdbKeys::new(class, form)?),
            Peer::Sqlite => Box::new(SqliteKeys::new(class, form)?),
            #[cfg(feature = "peers")]
            Peer::Mdbx => Box::new(MdbxKeys::new(class, form, true)?),
            #[cfg(feature = "peers")]
            Peer::MdbxNoMap => Box::new(MdbxKeys::new(class, form, false)?),
            #[cfg(feature = "peers")]
            Peer::Redb => Box::new(RedbKeys::new(class, form)?),
            #[cfg(feature = "peers")]
            Peer::Fjall => Box::new(FjallKeys::new(class, form)?),
            #[cfg(feature = "peers")]
            Peer::RocksDb => Box::new(RocksDbKeys::new(class, form)?),
            #[cfg(not(feature = "peers"))]
            _ => return Err(format!("built without {}: it needs --features peers", self.name()).into()),
        })
    }

    /// Those of `peers` that are here, each empty.
    ///
    /// # Errors
    /// As [`Peer::keys`].
    pub fn all(peers: &[Peer], class: Class, form: Form) -> Result<Vec<Opened>> {
        let here = peers.iter().filter(|peer| peer.is_here());
        here.map(|peer| Ok((peer.name(), peer.keys(class, form)?))).collect()
    }
}
