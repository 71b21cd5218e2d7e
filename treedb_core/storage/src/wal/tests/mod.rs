//! Tests of the log, on the real and on the simulated disk.

mod basics;
mod clean_shutdown;
mod crash;
mod damage;
mod groups;
#[cfg(feature = "shuttle")]
mod schedules;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Log, LogOptions, Lsn, Recovery, Sync};
use crate::Result;
use crate::disk::{Disk, RealDisk};

/// A new temporary directory, removed when dropped.
pub(super) struct TempDir(pub(super) PathBuf);

impl TempDir {
    pub(super) fn new() -> TempDir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("treedb-wal-{}-{n}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        TempDir(dir)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn real() -> Arc<dyn Disk> {
    Arc::new(RealDisk)
}

/// Segments of 4 KiB, so that a few frames fill one.
fn small() -> LogOptions {
    LogOptions { segment_bytes: 4096, max_buffered: 2048, spares: 2, ..LogOptions::default() }
}

fn from(applied: Lsn) -> LogOptions {
    LogOptions { applied, ..small() }
}

/// Frames read back: numbers and payloads.
type Frames = Vec<(Lsn, Vec<u8>)>;

/// Reads all frames of a recovery.
fn drain(mut recovery: Recovery) -> Result<Frames> {
    let mut frames = Vec::new();
    while let Some(frame) = recovery.next()? {
        frames.push((frame.lsn, frame.payload.to_vec()));
    }
    Ok(frames)
}

/// Opens the log and returns it with its frames above `options.applied`.
fn open(disk: Arc<dyn Disk>, dir: &Path, options: LogOptions) -> Result<(Log, Frames)> {
    let (log, recovery) = Log::open(disk, dir, options)?;
    Ok((log, drain(recovery)?))
}

/// A payload of about `len` bytes that is unique to the frame.
fn payload(tag: u64, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len as u64).map(|i| (i.wrapping_mul(31).wrapping_add(tag)) as u8).collect();
    bytes.extend_from_slice(&tag.to_le_bytes());
    bytes
}

fn durable(log: &Log, bytes: &[u8]) -> Result<Lsn> {
    let lsn = log.append(bytes, Sync::Durable)?;
    log.wait_durable(lsn)?;
    Ok(lsn)
}
