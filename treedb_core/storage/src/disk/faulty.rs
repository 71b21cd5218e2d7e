//! A simulated disk of which one `write_at` writes only the first half of its bytes and then fails.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::sim::Fault;
use super::{Disk, DiskFile, Map, SimDisk};
use crate::{Error, Result};

/// A disk of which one write stops half way.
#[derive(Clone)]
pub(crate) struct FaultyDisk {
    inner: SimDisk,
    fault: Fault,
    /// Writes until the one that fails.
    left: Arc<AtomicU64>,
}

impl FaultyDisk {
    /// The first `writes` writes succeed, and the next one fails half way as `fault` says.
    pub(crate) fn new(inner: &SimDisk, fault: Fault, writes: u64) -> FaultyDisk {
        FaultyDisk { inner: inner.clone(), fault, left: Arc::new(AtomicU64::new(writes)) }
    }

    /// True once it has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.left.load(Ordering::Relaxed) == u64::MAX
    }
}

impl Disk for FaultyDisk {
    fn is_lasting(&self) -> bool {
        self.inner.is_lasting()
    }
    fn free_bytes(&self, dir: &Path) -> Option<u64> {
        self.inner.free_bytes(dir)
    }
    fn open(&self, path: &Path, create: bool) -> Result<Arc<dyn DiskFile>> {
        let file = self.inner.open(path, create)?;
        Ok(Arc::new(FaultyFile { file, disk: self.clone(), path: path.to_path_buf() }))
    }
    fn exists(&self, path: &Path) -> Result<bool> {
        self.inner.exists(path)
    }
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.inner.list(dir)
    }
    fn create_dir(&self, dir: &Path) -> Result<()> {
        self.inner.create_dir(dir)
    }
    fn remove(&self, path: &Path) -> Result<()> {
        self.inner.remove(path)
    }
    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.inner.remove_dir(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename(from, to)
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.inner.sync_dir(dir)
    }
    fn lock(&self, dir: &Path) -> Result<Box<dyn Send + Sync>> {
        self.inner.lock(dir)
    }
}

struct FaultyFile {
    file: Arc<dyn DiskFile>,
    disk: FaultyDisk,
    path: PathBuf,
}

impl DiskFile for FaultyFile {
    fn len(&self) -> Result<u64> {
        self.file.len()
    }
    fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len)
    }
    fn reserve(&self, len: u64) -> Result<()> {
        self.file.reserve(len)
    }
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        let left = &self.disk.left;
        let step = |n: u64| Some(if n == u64::MAX { n } else { n.wrapping_sub(1) });
        if left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step) != Ok(0) {
            return self.file.write_at(buf, offset);
        }
        self.file.write_at(&buf[..buf.len() / 2], offset)?;
        let path = self.path.clone();
        Err(match self.disk.fault {
            Fault::Full => Error::DiskFull { path },
            Fault::Io => Error::Io { op: "write", path, source: rustix::io::Errno::IO.into() },
        })
    }
    fn sync(&self) -> Result<()> {
        self.file.sync()
    }
    fn map(&self, len: u64) -> Result<Box<dyn Map>> {
        self.file.map(len)
    }
    fn map_to_read(&self, len: u64) -> Result<Box<dyn Map>> {
        self.file.map_to_read(len)
    }
    fn path(&self) -> &Path {
        &self.path
    }
}
