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

/// A new temporary directory, removed when dropped.
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

/// A value that is unique to its tag.
fn value(tag: u64, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len as u64).map(|i| (i.wrapping_mul(17) ^ tag) as u8).collect();
    bytes.extend_from_slice(&tag.to_le_bytes());
    bytes
}

/// Makes the log durable and returns the state that a checkpoint stores.
fn checkpoint(log: &ValueLog) -> Result<ValueLogState> {
    let state = log.state();
    log.sync()?;
    ValueLogState::decode(&state.encode())
}

/// Removes the segments that are not needed by the durable state `state`.
fn clean(log: &ValueLog, state: &ValueLogState) -> Result<usize> {
    let gone = log.removable(state);
    for id in &gone {
        // SAFETY: the tests copy what they read and keep no slices during this call.
        unsafe { log.remove(*id)? };
    }
    Ok(gone.len())
}
