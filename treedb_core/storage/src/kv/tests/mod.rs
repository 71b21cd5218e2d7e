//! Tests of the store: against a model, with power cuts, with damaged files.

mod backup;
mod bad_input;
mod basics;
mod check;
mod compact;
mod crash;
mod damage;
mod derived;
mod dup;
mod encryption;
mod faults;
mod flush;
mod full_disk;
mod garbage;
mod leveldb;
mod model;
mod optimistic;
mod read_ahead;
mod reads;
mod savepoints;
#[cfg(feature = "shuttle")]
mod schedules;
mod threads;
mod typed;
mod write_cursor;
mod writes;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::*;
use crate::cipher::Key;
use crate::disk::SimDisk;

/// The directory of the store on the simulated disk.
fn dir() -> PathBuf {
    PathBuf::from("/data/store")
}

/// How the store accesses its pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    /// Through a mapping of the file.
    Mapped,
    /// Through a cache of a few pages.
    Cached,
    /// Through the same cache, encrypted.
    Encrypted,
}

/// The encryption key.
fn key() -> Key {
    Key::new([0x5a; Key::LEN])
}

thread_local! {
    static MODE: Cell<Mode> = const { Cell::new(Mode::Mapped) };
}

/// Runs `body`; stores that this thread opens meanwhile use `mode`.
fn in_mode<T>(mode: Mode, body: impl FnOnce() -> T) -> T {
    let before = MODE.replace(mode);
    let result = body();
    MODE.set(before);
    result
}

/// Small files and no background thread, so that runs are deterministic.
fn options(disk: &SimDisk) -> Options {
    Options {
        disk: Arc::new(disk.clone()),
        background: false,
        max_bytes: 16 << 20,
        cache_bytes: match MODE.get() {
            Mode::Mapped => None,
            // The smallest cache: nearly all pages are repeatedly evicted and read again.
            Mode::Cached | Mode::Encrypted => Some(64 << 10),
        },
        key: (MODE.get() == Mode::Encrypted).then(key),
        growth: 16,
        log_segment_bytes: 16 << 10,
        value_segment_bytes: 64 << 10,
        ..Options::default()
    }
}

fn open(disk: &SimDisk) -> crate::Result<Store> {
    Store::open_with(dir(), options(disk))
}

/// Checks a store by one thread and by four, which have to find the same.
fn checked(store: &Store) -> crate::Result<CheckReport> {
    let (alone, together) = (store.check(), store.check_with(4, |_| {}));
    match (&alone, &together) {
        (Ok(alone), Ok(together)) => assert_eq!(alone, together),
        (Err(alone), Err(together)) => assert_eq!(alone.to_string(), together.to_string()),
        (alone, together) => panic!("one thread: {alone:?}, four: {together:?}"),
    }
    alone
}

/// A new temporary directory, removed when dropped.
struct TempDir(PathBuf);

impl TempDir {
    fn new(name: &str) -> TempDir {
        let dir = std::env::temp_dir().join(format!("treedb-kv-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        TempDir(dir)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
