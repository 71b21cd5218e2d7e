//! The directory of a copy: it has a temporary name until everything in it is durable.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::options::Options;
use super::super::recover::{LOG, VALUES, sync_parents};
use super::super::store::Store;
use crate::disk::Disk;
use crate::{Error, Result};

/// A store that is being made under a temporary name.
pub(in crate::kv) struct StagedStore {
    options: Options,
    at: PathBuf,
    to: PathBuf,
}

impl StagedStore {
    /// For a store at `to`, which must not exist or be empty.
    pub(in crate::kv) fn new(options: &Options, to: &Path) -> Result<StagedStore> {
        let disk = &options.disk;
        if disk.exists(to)? {
            let things = disk.list(to).map_err(|_| taken(to, "it is not a directory"))?;
            if let Some(first) = things.first() {
                return Err(taken(to, &format!("{first:?} is in it")));
            }
        }
        let mut name = to.file_name().ok_or_else(|| taken(to, "it has no file name"))?.to_os_string();
        name.push(".partial");
        let options = Options {
            // The copy is not logged: it is made durable as a whole.
            pending_bytes: 0,
            background: false,
            ..options.clone()
        };
        let draft = StagedStore { options, at: to.with_file_name(name), to: to.to_path_buf() };
        draft.clear(&draft.at)?;
        Ok(draft)
    }

    fn disk(&self) -> &Arc<dyn Disk> {
        &self.options.disk
    }

    /// Removes what an interrupted copy left.
    fn clear(&self, dir: &Path) -> Result<()> {
        if !self.disk().exists(dir)? {
            return Ok(());
        }
        // Another copy to the same place may be under way.
        drop(self.disk().lock(dir)?);
        for dir in [dir.join(LOG), dir.join(VALUES), dir.to_path_buf()] {
            if !self.disk().exists(&dir)? {
                continue;
            }
            for name in self.disk().list(&dir)? {
                self.disk().remove(&dir.join(name))?;
            }
            self.disk().remove_dir(&dir)?;
        }
        Ok(())
    }

    /// Fills the store with `work`, then renames it to its final name.
    pub(in crate::kv) fn fill<T>(self, work: impl FnOnce(&Store) -> Result<T>) -> Result<T> {
        let made = self.make(work);
        if made.is_err() {
            let _ = self.clear(&self.at);
        }
        made
    }

    fn make<T>(&self, work: impl FnOnce(&Store) -> Result<T>) -> Result<T> {
        let store = Store::open_with(&self.at, self.options.clone())?;
        let done = work(&store)?;
        store.close()?;
        // The names in it are durable since they were made; its own and those above it come last.
        self.disk().sync_dir(&self.at)?;
        self.disk().rename(&self.at, &self.to)?;
        if let Err(error) = sync_parents(&**self.disk(), &self.to) {
            let _ = self.clear(&self.to);
            return Err(error);
        }
        Ok(done)
    }
}

fn taken(dir: &Path, why: &str) -> Error {
    Error::Invalid(format!(
        "cannot put a store at {}: {why}; name a directory that is empty or does not exist",
        dir.display()
    ))
}
