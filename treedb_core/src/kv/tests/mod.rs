//! The store against a model, against power cuts, against damaged files.

mod backup;
mod bad_input;
mod basics;
mod crash;
mod damage;
mod dup;
mod flush;
mod model;
mod optimistic;
mod reads;
mod savepoints;
mod threads;
mod typed;
mod write_cursor;
mod writes;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::*;
use crate::disk::SimDisk;

/// Where stores of these tests live on their simulated disks.
fn dir() -> PathBuf {
    PathBuf::from("/data/store")
}

/// Small files and no thread, so that a run is the same every time.
fn options(disk: &SimDisk) -> Options {
    Options {
        disk: Arc::new(disk.clone()),
        background: false,
        max_bytes: 16 << 20,
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
