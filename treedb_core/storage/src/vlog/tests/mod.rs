//! Tests of the value log, on the real and on the simulated disk.

mod basics;
mod crash;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{ValueLog, ValueLogOptions, ValueLogState, ValuePtr};
use crate::Result;
use crate::disk::Disk;

const DIR: &str = "/values";

/// A directory of its own under the system's temporary one, removed at the end.
struct TempDir(PathBuf);

impl TempDir {
    fn new() -> TempDir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("treedb-vlog-{}-{n}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        TempDir(dir)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Segments of 16 KiB, so that a few values fill one.
fn small(state: ValueLogState) -> ValueLogOptions {
    ValueLogOptions { state, segment_bytes: 16 * 1024, ..ValueLogOptions::default() }
}

fn open(disk: impl Disk, dir: &Path, state: ValueLogState) -> Result<ValueLog> {
    ValueLog::open(Arc::new(disk), dir, small(state))
}

/// A value that says which one it is.
fn value(tag: u64, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len as u64).map(|i| (i.wrapping_mul(17) ^ tag) as u8).collect();
    bytes.extend_from_slice(&tag.to_le_bytes());
    bytes
}

/// Makes the log durable as it is and returns what a checkpoint would remember.
fn checkpoint(log: &ValueLog) -> Result<ValueLogState> {
    let state = log.state();
    log.sync()?;
    ValueLogState::decode(&state.encode())
}

/// Removes what the durable state `state` allows to remove.
fn clean(log: &ValueLog, state: &ValueLogState) -> Result<usize> {
    let gone = log.removable(state);
    for id in &gone {
        // SAFETY: the tests copy what they read and hold no slice over this call.
        unsafe { log.remove(*id)? };
    }
    Ok(gone.len())
}
