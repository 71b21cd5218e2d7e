//! What happens when the disk is full: files of derived data make room, and the call that needs it is made again.
//!
//! A file that is removed makes room once nobody has it mapped any more. So those who have are asked to let go; a search that is under way in one
//! may keep it a moment longer, and if that was the room that is needed, the call fails as it would without such files.
//!
//! All of a store's files are opened through this disk, so it is the same for whoever needs room: a transaction, a checkpoint, which the
//! store's own thread may make, a recovery. What fails has changed nothing, or writes the same bytes to the same place again. A flush is
//! never repeated: what a failed one was to make durable may be lost.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::derived::{DerivedFiles, Holders};
use crate::disk::{Disk, DiskFile, Map};
use crate::{Error, Result};

/// The disk of an open store.
pub(super) struct StoreDisk {
    disk: Arc<dyn Disk>,
    spare: Arc<Spare>,
}

/// What there is to remove.
struct Spare {
    files: DerivedFiles,
    /// How often any were removed.
    removals: AtomicU64,
    removing: Mutex<()>,
}

impl StoreDisk {
    /// That of the store in `dir`, which this process has locked: nobody else may remove its files. `holders` have some of them mapped.
    pub(super) fn new(disk: &Arc<dyn Disk>, dir: &Path, holders: &Arc<Holders>) -> StoreDisk {
        let files = DerivedFiles::new(Arc::clone(disk), dir, Arc::clone(holders));
        let spare = Arc::new(Spare { files, removals: AtomicU64::new(0), removing: Mutex::new(()) });
        StoreDisk { disk: Arc::clone(disk), spare }
    }
}

impl Spare {
    /// Does `work`, once more if the disk was full and there was something to remove.
    fn in_room<T>(&self, work: impl Fn() -> Result<T>) -> Result<T> {
        let before = self.removals.load(Ordering::Acquire);
        match work() {
            Err(Error::DiskFull { .. }) if self.make_room(before) => work(),
            done => done,
        }
    }

    /// True if there is more room than when removals were so many.
    fn make_room(&self, before: u64) -> bool {
        let _one = self.removing.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have removed them just now.
        if self.removals.load(Ordering::Acquire) == before {
            // In this order: what has no name any more is not mapped again. Also files that somebody else has removed may still be mapped.
            let (removed, let_go) = (self.files.remove_those(|_| true), self.files.let_go());
            self.removals.fetch_add(u64::from(removed || let_go), Ordering::AcqRel);
        }
        self.removals.load(Ordering::Acquire) != before
    }
}

impl Disk for StoreDisk {
    fn is_lasting(&self) -> bool {
        self.disk.is_lasting()
    }
    fn free_bytes(&self, dir: &Path) -> Option<u64> {
        self.disk.free_bytes(dir)
    }
    fn open(&self, path: &Path, create: bool) -> Result<Arc<dyn DiskFile>> {
        let file = self.spare.in_room(|| self.disk.open(path, create))?;
        Ok(Arc::new(StoreFile { file, spare: Arc::clone(&self.spare) }))
    }
    fn exists(&self, path: &Path) -> Result<bool> {
        self.disk.exists(path)
    }
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.disk.list(dir)
    }
    fn create_dir(&self, dir: &Path) -> Result<()> {
        self.spare.in_room(|| self.disk.create_dir(dir))
    }
    fn remove(&self, path: &Path) -> Result<()> {
        self.disk.remove(path)
    }
    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.disk.remove_dir(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.spare.in_room(|| self.disk.rename(from, to))
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.disk.sync_dir(dir)
    }
    fn lock(&self, dir: &Path) -> Result<Box<dyn Send + Sync>> {
        self.disk.lock(dir)
    }
}

/// A file of the store.
struct StoreFile {
    file: Arc<dyn DiskFile>,
    spare: Arc<Spare>,
}

impl DiskFile for StoreFile {
    fn len(&self) -> Result<u64> {
        self.file.len()
    }
    fn set_len(&self, len: u64) -> Result<()> {
        self.spare.in_room(|| self.file.set_len(len))
    }
    fn reserve(&self, len: u64) -> Result<()> {
        self.spare.in_room(|| self.file.reserve(len))
    }
    fn reserve_early(&self, len: u64) -> Result<()> {
        self.file.reserve_early(len)
    }
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.spare.in_room(|| self.file.write_at(buf, offset))
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
        self.file.path()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::path::PathBuf;

    use super::*;
    use crate::disk::SimDisk;

    #[test]
    fn of_two_threads_that_find_the_disk_full_one_makes_room_and_both_go_on() {
        let disk = SimDisk::new();
        let dir = Path::new("/data");
        disk.overwrite(&dir.join("derived/some-7"), vec![1]);
        let spare = StoreDisk::new(&(Arc::new(disk.clone()) as Arc<dyn Disk>), dir, &Arc::default()).spare;
        let full = || Err(Error::DiskFull { path: PathBuf::from("/data/pages") });
        let once = |calls: &Cell<u32>| {
            calls.set(calls.get() + 1);
            if calls.get() == 1 { full() } else { Ok(()) }
        };
        let (one, other) = (Cell::new(0), Cell::new(0));
        spare
            .in_room(|| {
                // Between the failure of this one and its look at what there is to remove.
                if one.get() == 0 {
                    spare.in_room(|| once(&other))?;
                    assert!(!disk.exists(&dir.join("derived/some-7")).unwrap());
                }
                once(&one)
            })
            .unwrap();
        assert_eq!((one.get(), other.get()), (2, 2));
        // Nothing is left that would make room.
        let calls = Cell::new(0);
        let result: Result<()> = spare.in_room(|| {
            calls.set(calls.get() + 1);
            full()
        });
        assert!(matches!(result, Err(Error::DiskFull { .. })) && calls.get() == 1);
    }
}
