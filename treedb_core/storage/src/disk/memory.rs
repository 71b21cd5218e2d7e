//! Files that exist in memory only: for databases that are gone with their last handle.
//!
//! A file is a `memfd`, so reading, writing, growing and mapping are those of a real file, and `fdatasync` costs nothing.
//! The names are in a map. What [`SimDisk`](super::SimDisk) adds, power cuts, is not here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{MemfdFlags, memfd_create};

use super::real::RealFile;
use super::{Disk, DiskFile};
use crate::{Error, Result};

/// A disk in memory. Clones share their files.
#[derive(Debug, Clone, Default)]
pub struct MemoryDisk {
    names: Arc<Mutex<Names>>,
}

#[derive(Debug, Default)]
struct Names {
    files: BTreeMap<PathBuf, Arc<File>>,
    directories: BTreeSet<PathBuf>,
    locked: BTreeSet<PathBuf>,
}

fn not_found(op: &'static str, path: &Path) -> Error {
    Error::Io { op, path: path.to_path_buf(), source: io::ErrorKind::NotFound.into() }
}

impl MemoryDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        // Every change of the names is a single call, so a panic elsewhere leaves them whole.
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for MemoryDisk {
    fn is_lasting(&self) -> bool {
        false
    }

    fn open(&self, path: &Path, create: bool) -> Result<Arc<dyn DiskFile>> {
        let mut names = self.names();
        let file = match names.files.get(path) {
            Some(file) => Arc::clone(file),
            None if !create => return Err(not_found("open", path)),
            None => {
                let fd = memfd_create("treedb", MemfdFlags::CLOEXEC).map_err(|errno| Error::Io {
                    op: "memfd_create",
                    path: path.to_path_buf(),
                    source: errno.into(),
                })?;
                let file = Arc::new(File::from(fd));
                names.files.insert(path.to_path_buf(), Arc::clone(&file));
                file
            }
        };
        Ok(Arc::new(RealFile::new(file, path)))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        let names = self.names();
        Ok(names.files.contains_key(path) || names.directories.contains(path))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let names = self.names();
        if !names.directories.contains(dir) {
            return Err(not_found("readdir", dir));
        }
        let here = names.files.keys().chain(&names.directories).filter(|path| path.parent() == Some(dir));
        let here = here.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
        Ok(here.collect::<BTreeSet<String>>().into_iter().collect())
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        self.names().directories.extend(dir.ancestors().map(Path::to_path_buf));
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.names().files.remove(path).map(drop).ok_or_else(|| not_found("unlink", path))
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        if !self.list(dir)?.is_empty() {
            let source = io::ErrorKind::DirectoryNotEmpty.into();
            return Err(Error::Io { op: "rmdir", path: dir.to_path_buf(), source });
        }
        self.names().directories.remove(dir);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut names = self.names();
        if let Some(file) = names.files.remove(from) {
            names.files.insert(to.to_path_buf(), file);
            return Ok(());
        }
        if !names.directories.remove(from) {
            return Err(not_found("rename", from));
        }
        let moved = |path: &Path| path.strip_prefix(from).ok().map(|rest| to.join(rest));
        let Names { files, directories, .. } = &mut *names;
        *files = std::mem::take(files).into_iter().map(|(p, f)| (moved(&p).unwrap_or(p), f)).collect();
        *directories = std::mem::take(directories).into_iter().map(|p| moved(&p).unwrap_or(p)).collect();
        directories.insert(to.to_path_buf());
        Ok(())
    }

    fn sync_dir(&self, _: &Path) -> Result<()> {
        Ok(())
    }

    fn lock(&self, dir: &Path) -> Result<Box<dyn Send + Sync>> {
        if !self.names().locked.insert(dir.to_path_buf()) {
            return Err(Error::InUse { dir: dir.to_path_buf(), pid: std::process::id() });
        }
        Ok(Box::new(Lock { disk: self.clone(), dir: dir.to_path_buf() }))
    }
}

/// A lock that is held.
struct Lock {
    disk: MemoryDisk,
    dir: PathBuf,
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.disk.names().locked.remove(&self.dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_bytes_through_renames_and_is_gone_when_removed() {
        let disk = MemoryDisk::new();
        let (a, b) = (Path::new("/db/log/a"), Path::new("/db/log/b"));
        disk.create_dir(Path::new("/db/log")).unwrap();
        let file = disk.open(a, true).unwrap();
        file.write_at(b"bytes", 3).unwrap();
        disk.rename(a, b).unwrap();
        assert_eq!(disk.list(Path::new("/db/log")).unwrap(), ["b"]);
        assert_eq!(disk.list(Path::new("/db")).unwrap(), ["log"]);
        disk.rename(Path::new("/db"), Path::new("/moved")).unwrap();
        let mut read = [0; 8];
        disk.open(Path::new("/moved/log/b"), false).unwrap().read_at(&mut read, 0).unwrap();
        assert_eq!(&read, b"\0\0\0bytes");
        assert!(disk.open(b, false).is_err() && disk.remove_dir(Path::new("/moved/log")).is_err());
        disk.remove(Path::new("/moved/log/b")).unwrap();
        disk.remove_dir(Path::new("/moved/log")).unwrap();
        assert!(!disk.exists(Path::new("/moved/log")).unwrap());
    }

    #[test]
    fn a_directory_is_locked_once_at_a_time() {
        let disk = MemoryDisk::new();
        let lock = disk.lock(Path::new("/db")).unwrap();
        assert!(matches!(disk.lock(Path::new("/db")), Err(Error::InUse { .. })));
        drop(lock);
        disk.lock(Path::new("/db")).unwrap();
    }
}
