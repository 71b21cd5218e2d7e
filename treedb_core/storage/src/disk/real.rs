//! The operating system's disk.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock, statvfs};
use rustix::io::Errno;

use super::map::Mapping;
use super::{Disk, DiskFile, Map};
use crate::{Error, Result};

/// Name of the file in a directory that carries its lock; its text is the holder's process id.
pub const LOCK_FILE: &str = "LOCK";

/// The operating system's files.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

fn failed(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::DiskFull { path },
        _ => Error::Io { op, path, source },
    }
}

impl Disk for RealDisk {
    fn is_lasting(&self) -> bool {
        true
    }

    fn free_bytes(&self, dir: &Path) -> Option<u64> {
        let about = statvfs(dir).ok()?;
        Some(about.f_bavail.saturating_mul(about.f_frsize))
    }

    fn open(&self, path: &Path, create: bool) -> Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(create)
            .truncate(false)
            .open(path)
            .map_err(failed("open", path))?;
        Ok(Arc::new(RealFile::new(Arc::new(file), path)))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        path.try_exists().map_err(failed("stat", path))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir).map_err(failed("readdir", dir))? {
            let entry = entry.map_err(failed("readdir", dir))?;
            // A name that is not UTF-8 was not written by TreeDB.
            if let Ok(name) = entry.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        std::fs::create_dir_all(dir).map_err(failed("mkdir", dir))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        std::fs::remove_file(path).map_err(failed("unlink", path))
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        std::fs::remove_dir(dir).map_err(failed("rmdir", dir))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        std::fs::rename(from, to).map_err(failed("rename", from))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let failed = |source| Error::Io { op: "fsync", path: dir.to_path_buf(), source };
        File::open(dir).and_then(|d| d.sync_all()).map_err(failed)
    }

    fn lock(&self, dir: &Path) -> Result<Box<dyn Send + Sync>> {
        let path = dir.join(LOCK_FILE);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed("open", &path))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let pid = format!("{}\n", std::process::id());
                let written = file.set_len(0).and_then(|()| file.write_all_at(pid.as_bytes(), 0));
                match written.map_err(failed("write", &path)) {
                    // The number is for a message only, and a store on a full disk can be opened.
                    Ok(()) | Err(Error::DiskFull { .. }) => Ok(Box::new(Lock(file))),
                    Err(error) => Err(error),
                }
            }
            Err(Errno::WOULDBLOCK) => Err(Error::InUse { dir: dir.to_path_buf(), pid: holder(&path) }),
            Err(e) => Err(failed("flock", &path)(e.into())),
        }
    }
}

/// A lock that is held: it goes with the open file, so with this or with the process.
struct Lock(File);

impl Drop for Lock {
    /// A process that this one is just about to start has the open file too, until it becomes another program: closing
    /// it here would not be enough.
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// The process id in a lock file. The holder writes it right after it got the lock, so an empty file is given a
/// moment; 0 if it stays unreadable.
fn holder(path: &Path) -> u32 {
    for _ in 0..20 {
        if let Some(pid) = std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()) {
            return pid;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    0
}

/// A file of the operating system, by name or in memory.
pub(super) struct RealFile {
    file: Arc<File>,
    path: PathBuf,
}

impl RealFile {
    pub(super) fn new(file: Arc<File>, path: &Path) -> Self {
        RealFile { file, path: path.to_path_buf() }
    }

    fn failed(&self, op: &'static str) -> impl FnOnce(io::Error) -> Error {
        failed(op, &self.path)
    }

    /// How many addresses a mapping of so many bytes takes.
    fn addresses(&self, len: u64) -> Result<usize> {
        usize::try_from(len).map_err(|_| self.failed("mmap")(io::ErrorKind::OutOfMemory.into()))
    }

    /// Reserves blocks by writing zeroes, for file systems without `fallocate`.
    fn write_zeroes(&self, from: u64, to: u64) -> io::Result<()> {
        let zeroes = [0u8; 64 * 1024];
        let mut at = from;
        while at < to {
            let len = (to - at).min(zeroes.len() as u64) as usize;
            self.file.write_all_at(&zeroes[..len], at)?;
            at += len as u64;
        }
        Ok(())
    }
}

impl DiskFile for RealFile {
    fn len(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(self.failed("fstat"))?.len())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len).map_err(self.failed("ftruncate"))
    }

    fn reserve(&self, len: u64) -> Result<()> {
        let old = self.len()?;
        if len <= old {
            return Ok(());
        }
        let done = match fallocate(&*self.file, FallocateFlags::empty(), old, len - old) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.write_zeroes(old, len),
            other => other.map_err(io::Error::from),
        };
        done.map_err(|e| {
            // Some blocks may have been taken; give them back.
            let _ = self.file.set_len(old);
            self.failed("fallocate")(e)
        })
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(buf, offset).map_err(self.failed("read"))
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.file.write_all_at(buf, offset).map_err(self.failed("write"))
    }

    fn sync(&self) -> Result<()> {
        // Whatever the system says: also some file systems that are full fail here.
        let failed = |source| Error::Io { op: "fdatasync", path: self.path.clone(), source };
        self.file.sync_data().map_err(failed)
    }

    fn map(&self, len: u64) -> Result<Box<dyn Map>> {
        Ok(Box::new(Mapping::of_file(&self.file, self.addresses(len)?).map_err(self.failed("mmap"))?))
    }

    fn map_to_read(&self, len: u64) -> Result<Box<dyn Map>> {
        let mapping = Mapping::of_file_to_read(&self.file, self.addresses(len)?);
        Ok(Box::new(mapping.map_err(self.failed("mmap"))?))
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
