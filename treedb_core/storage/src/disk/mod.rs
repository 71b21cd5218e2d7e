//! The only part of TreeDB that touches files.
//!
//! Everything above works against [`Disk`] and [`DiskFile`]; `real` is the operating system, `sim` is a disk in
//! memory that can lose, tear and reorder everything not yet synced, so that tests can cut the power at every
//! boundary.

pub mod crash;
pub mod damage;
mod map;
mod medium;
mod memory;
mod memory_limit;
mod names;
pub mod real;
pub mod replay;
mod scratch;
pub mod sim;

pub use map::Mapping;
#[cfg(all(test, not(miri)))]
pub(crate) use map::test_unit;
pub(crate) use map::unit;
pub use memory::MemoryDisk;
pub use memory_limit::memory_limit;
pub use real::RealDisk;
pub use scratch::scratch;
pub use sim::SimDisk;

use std::path::Path;
use std::sync::Arc;

use crate::Result;

/// A file system: the operating system's, or a simulated one.
///
/// Durability contract: a file's bytes are durable after [`DiskFile::sync`] returned `Ok`; a created, renamed or
/// removed name, of a directory too, is durable after [`Disk::sync_dir`] of the directory it is in returned `Ok`.
/// Nothing else is promised.
pub trait Disk: Send + Sync + 'static {
    /// False if files are gone with the last handle, so that nothing needs to be written for a later opening only.
    fn is_lasting(&self) -> bool;
    /// Bytes that files in `dir` may still grow by, if that is known.
    fn free_bytes(&self, _dir: &Path) -> Option<u64> {
        None
    }
    /// Opens `path` for reading and writing; creates it, empty, when `create` is set and it does not exist.
    fn open(&self, path: &Path, create: bool) -> Result<Arc<dyn DiskFile>>;
    /// True if the file exists.
    fn exists(&self, path: &Path) -> Result<bool>;
    /// Names (not paths) of the files and directories in `dir`, sorted.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;
    /// Creates `dir` and its parents; no error if it is there. Each is durable after `sync_dir` of the one it is in.
    fn create_dir(&self, dir: &Path) -> Result<()>;
    /// Removes a file; durable after `sync_dir`.
    fn remove(&self, path: &Path) -> Result<()>;
    /// Removes an empty directory; durable after `sync_dir` of the one it is in.
    fn remove_dir(&self, dir: &Path) -> Result<()>;
    /// Renames a file over `to`, atomically; durable after `sync_dir`. Or a directory with everything in it, to a name
    /// that is free or that of an empty directory.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Makes the names in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> Result<()>;
    /// Takes the exclusive lock of `dir`, held until the returned guard is dropped or the process ends.
    /// `Error::InUse` names the process that holds it.
    fn lock(&self, dir: &Path) -> Result<Box<dyn Send + Sync>>;
}

/// An open file.
pub trait DiskFile: Send + Sync + 'static {
    /// Length in bytes.
    fn len(&self) -> Result<u64>;
    /// True if the file has no bytes.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Sets the length; new bytes read as zero.
    fn set_len(&self, len: u64) -> Result<()>;
    /// Grows the file to `len` with disk blocks reserved, so that a later store into the map cannot fail for lack
    /// of room. `Error::DiskFull` if there is none; the file is then as it was.
    fn reserve(&self, len: u64) -> Result<()>;
    /// The same for room that is asked for early: a full disk does not make others give up theirs for it.
    fn reserve_early(&self, len: u64) -> Result<()> {
        self.reserve(len)
    }
    /// Fills `buf` from `offset`; reading past the end is an error.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<()>;
    /// Writes all of `buf` at `offset`, growing the file if needed.
    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()>;
    /// `fdatasync`: everything written, through the map too, is durable when it returns `Ok`. Never `Error::DiskFull`, which says that
    /// nothing has changed.
    fn sync(&self) -> Result<()>;
    /// Maps the first `len` bytes, shared: stores are seen by `read_at` and made durable by `sync`. `len` may be
    /// more than the file has: that reserves addresses, so that the mapping never moves while the file grows;
    /// bytes past the file's end must not be touched (which raises SIGBUS) until the file has grown.
    fn map(&self, len: u64) -> Result<Box<dyn Map>>;
    /// Maps the first `len` bytes, which the file has, to be read only: a store ends the process on a disk of the system.
    fn map_to_read(&self, len: u64) -> Result<Box<dyn Map>> {
        self.map(len)
    }
    /// The path it was opened with, for messages.
    fn path(&self) -> &Path;
}

/// A shared mapping of a file's first bytes. It stays valid while it lives, whatever happens to the file's handle.
pub trait Map: Send + Sync + 'static {
    /// The first byte. The same address for the life of the mapping.
    fn as_ptr(&self) -> *mut u8;
    /// Bytes mapped, which may be more than the file has.
    fn len(&self) -> usize;
    /// Asks for the bytes `from..to` to be present and writable, so that the first stores do not fault one by one.
    /// A hint: it never fails.
    fn prefault(&self, _from: usize, _to: usize) {}
    /// Returns the memory of the bytes `from..to` to the system, in whole pages of the system ([`unit`]); anonymous memory reads as zero
    /// from then on. The caller guarantees that nothing reads them meanwhile. A hint: it never fails.
    fn discard(&self, _from: usize, _to: usize) {}
    /// Says whether the system is to read what lies around a byte that is missing, as it does until it is reported. A hint:
    /// it never fails.
    fn read_ahead(&self, _on: bool) {}
    /// Asks for the bytes `from..to` to be read at once. A hint: it never fails.
    fn will_need(&self, _from: usize, _to: usize) {}
    /// True if nothing is mapped.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// `len` bytes of zeroes that no file backs; memory is taken as they are first touched, a page of the system at a time.
pub(crate) fn memory(len: u64) -> Result<Box<dyn Map>> {
    let failed = |source| crate::Error::Io { op: "mmap", path: std::path::PathBuf::from("(memory)"), source };
    let len = usize::try_from(len).map_err(|_| failed(std::io::ErrorKind::OutOfMemory.into()))?;
    let mapping = Mapping::anonymous(len).map_err(failed)?;
    mapping.in_small_pieces();
    Ok(Box::new(mapping))
}

#[cfg(test)]
#[cfg(all(feature = "dup-tables", feature = "leveldb", feature = "optimistic"))]
pub(crate) mod faulty;
#[cfg(test)]
mod tests;
