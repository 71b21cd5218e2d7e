//! The engines of key/value comparisons, and how each is opened.

use std::path::Path;

#[cfg(feature = "peers")]
use super::fjall::FjallKeyValue;
use super::lmdb::{LmdbKeyValue, LmdbRows};
#[cfg(feature = "peers")]
use super::mdbx::MdbxKeyValue;
#[cfg(feature = "peers")]
use super::redb::RedbKeyValue;
#[cfg(feature = "peers")]
use super::rocksdb::RocksDbKeyValue;
use super::sqlite::SqliteKeyValue;
use super::treedb::{TreeDbKeyValue, TreeDbRows};
use super::{DataDir, DurabilityClass, EntryFormat, KeyValueStore, RowStore};
use crate::Result;

/// Size of caches that hold all data.
pub const CACHE: usize = 1 << 30;

/// The peers selected by `BENCH_PEERS`.
pub fn chosen() -> Option<String> {
    std::env::var("BENCH_PEERS").ok()
}

/// Whether `BENCH_PEERS` selects this peer, or nothing.
pub(crate) fn is_chosen(peer: &str) -> bool {
    chosen().is_none_or(|names| names.split('+').any(|name| name == peer))
}

/// An engine of a key/value comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// TreeDB itself.
    TreeDb,
    /// LMDB. Without flushes: `WRITEMAP`, its fastest mode.
    Lmdb,
    /// libmdbx. Without flushes: `WRITEMAP`, `UTTERLY_NOSYNC`, `LIFORECLAIM`, its fastest mode for small commits.
    Mdbx,
    /// libmdbx without flushes and without `WRITEMAP`: faster for some large commits.
    MdbxNoMap,
    /// redb.
    Redb,
    /// fjall, with a cache that holds all data.
    Fjall,
    /// RocksDB with zstd, bloom filters and a cache that holds all data.
    RocksDb,
    /// SQLite.
    Sqlite,
}

/// A store in a directory of its own.
pub struct OpenStore {
    /// The engine's name.
    pub name: &'static str,
    /// The store. Declared before the directory, because it must be closed before that is removed.
    pub store: Box<dyn KeyValueStore>,
    _data_dir: DataDir,
}

impl Engine {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Engine::TreeDb => "TreeDB",
            Engine::Lmdb => "LMDB",
            Engine::Mdbx => "libmdbx",
            Engine::MdbxNoMap => "libmdbx, no map",
            Engine::Redb => "redb",
            Engine::Fjall => "fjall",
            Engine::RocksDb => "RocksDB",
            Engine::Sqlite => "SQLite",
        }
    }

    /// Whether it was compiled in and `BENCH_PEERS` does not exclude it.
    pub fn is_available(self) -> bool {
        let compiled =
            cfg!(feature = "peers") || matches!(self, Engine::TreeDb | Engine::Lmdb | Engine::Sqlite);
        compiled && (self == Engine::TreeDb || is_chosen(self.name()))
    }

    /// Opens an empty store.
    ///
    /// # Errors
    /// From the engine and the file system, or because the engine was not compiled in.
    pub fn create(self, class: DurabilityClass, format: EntryFormat) -> Result<OpenStore> {
        let data_dir = DataDir::new("keys")?;
        let store = self.open(class, format, data_dir.path(), CACHE)?;
        Ok(OpenStore { name: self.name(), store, _data_dir: data_dir })
    }

    /// Opens the store in `dir`, which is created if the directory is empty. `cache` is for engines with a cache of
    /// their own.
    ///
    /// # Errors
    /// See [`Engine::create`].
    pub fn open(
        self,
        class: DurabilityClass,
        format: EntryFormat,
        dir: &Path,
        cache: usize,
    ) -> Result<Box<dyn KeyValueStore>> {
        #[cfg(not(feature = "peers"))]
        let _ = cache;
        Ok(match self {
            Engine::TreeDb => Box::new(TreeDbKeyValue::open(class, format, dir)?),
            Engine::Lmdb => Box::new(LmdbKeyValue::open(class, format, dir)?),
            Engine::Sqlite => Box::new(SqliteKeyValue::open(class, format, dir)?),
            #[cfg(feature = "peers")]
            Engine::Mdbx => Box::new(MdbxKeyValue::open(class, format, dir, true)?),
            #[cfg(feature = "peers")]
            Engine::MdbxNoMap => Box::new(MdbxKeyValue::open(class, format, dir, false)?),
            #[cfg(feature = "peers")]
            Engine::Redb => Box::new(RedbKeyValue::open(class, format, dir)?),
            #[cfg(feature = "peers")]
            Engine::Fjall => Box::new(FjallKeyValue::open(class, format, dir)?),
            #[cfg(feature = "peers")]
            Engine::RocksDb => Box::new(RocksDbKeyValue::open(class, format, dir, cache)?),
            #[cfg(not(feature = "peers"))]
            _ => {
                return Err(
                    format!("{} was not compiled in: build with --features peers", self.name()).into()
                );
            }
        })
    }

    /// Opens the store in `dir` so that its log keeps everything: no checkpoint runs meanwhile.
    ///
    /// # Errors
    /// See [`Engine::create`].
    pub fn open_without_checkpoints(self, format: EntryFormat, dir: &Path) -> Result<Box<dyn KeyValueStore>> {
        match self {
            Engine::TreeDb => Ok(Box::new(TreeDbKeyValue::open_without_checkpoints(format, dir)?)),
            _ => self.open(DurabilityClass::Relaxed, format, dir, CACHE),
        }
    }

    /// Opens an empty store for each of the `engines` that are available.
    ///
    /// # Errors
    /// See [`Engine::create`].
    pub fn create_all(
        engines: &[Engine],
        class: DurabilityClass,
        format: EntryFormat,
    ) -> Result<Vec<OpenStore>> {
        let available = engines.iter().filter(|engine| engine.is_available());
        available.map(|engine| engine.create(class, format)).collect()
    }

    /// The engine with this name.
    pub fn named(name: &str) -> Option<Engine> {
        use Engine::*;
        [TreeDb, Lmdb, Mdbx, MdbxNoMap, Redb, Fjall, RocksDb, Sqlite].into_iter().find(|e| e.name() == name)
    }
}

/// A row store in a directory of its own.
pub struct OpenRowStore {
    /// The engine's name.
    pub name: &'static str,
    /// The store. Declared before the directory, because it must be closed before that is removed.
    pub rows: Box<dyn RowStore>,
    _data_dir: DataDir,
}

/// Opens empty row stores: TreeDB's and LMDB's.
///
/// # Errors
/// From the engines and the file system.
pub fn row_stores(class: DurabilityClass, format: EntryFormat) -> Result<[OpenRowStore; 2]> {
    let (ours, theirs) = (DataDir::new("rows")?, DataDir::new("rows")?);
    let rows: Box<dyn RowStore> = Box::new(TreeDbRows::open(class, format, ours.path())?);
    let ours = OpenRowStore { name: Engine::TreeDb.name(), rows, _data_dir: ours };
    let rows: Box<dyn RowStore> = Box::new(LmdbRows::open(class, format, theirs.path())?);
    Ok([ours, OpenRowStore { name: Engine::Lmdb.name(), rows, _data_dir: theirs }])
}
