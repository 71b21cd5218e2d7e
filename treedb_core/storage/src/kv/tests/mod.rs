//! The store against a model, against power cuts, against damaged files.

mod backup;
mod bad_input;
mod basics;
mod compact;
mod crash;
mod damage;
mod dup;
mod encryption;
mod faults;
mod flush;
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

/// Where stores of these tests live on their simulated disks.
fn dir() -> PathBuf {
    PathBuf::from("/data/store")
}

/// How stores of these tests keep their pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    /// In a map of the file.
    Mapped,
    /// In a cache of a few pages.
    Cached,
    /// The same, and encrypted.
    Encrypted,
}

/// The key of encrypted stores of these tests.
fn key() -> Key {
    Key::new([0x5a; Key::LEN])
}

thread_local! {
    static MODE: Cell<Mode> = const { Cell::new(Mode::Mapped) };
}

/// Runs `body` with stores of this thread being opened in `mode`.
fn in_mode<T>(mode: Mode, body: impl FnOnce() -> T) -> T {
    let before = MODE.replace(mode);
    let result = body();
    MODE.set(before);
    result
}

/// Small files and no thread, so that a run is the same every time.
fn options(disk: &SimDisk) -> Options {
    Options {
        disk: Arc::new(disk.clone()),
        background: false,
        max_bytes: 16 << 20,
        cache_bytes: match MODE.get() {
            Mode::Mapped => None,
            // The least there is: nearly everything is read and written again and again.
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

/// A directory of its own under the system's temporary one, removed at the end.
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
