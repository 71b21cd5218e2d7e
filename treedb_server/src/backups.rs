//! Online backups of the database, and the progress of those that are running.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use treedb_storage::{BackupProgress, Store};

/// A running backup.
#[derive(Debug)]
pub(crate) struct Job {
    /// The target directory.
    pub(crate) to: PathBuf,
    /// When it was started.
    pub(crate) started: Instant,
    entries: AtomicU64,
    of: AtomicU64,
    bytes: AtomicU64,
}

impl Job {
    fn note(&self, copied: BackupProgress) {
        self.entries.store(copied.entries, Ordering::Relaxed);
        self.of.store(copied.of, Ordering::Relaxed);
        self.bytes.store(copied.bytes, Ordering::Relaxed);
    }

    /// Entries copied so far, entries in total, and bytes copied so far.
    pub(crate) fn progress(&self) -> [u64; 3] {
        [&self.entries, &self.of, &self.bytes].map(|figure| figure.load(Ordering::Relaxed))
    }
}

/// The running backups.
#[derive(Debug, Default)]
pub(crate) struct Backups {
    running: Mutex<Vec<Arc<Job>>>,
}

impl Backups {
    fn running(&self) -> MutexGuard<'_, Vec<Arc<Job>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The running backups, the oldest first.
    pub(crate) fn jobs(&self) -> Vec<Arc<Job>> {
        self.running().clone()
    }

    /// Copies the current state into the directory `to`, which must be empty or not exist. Returns when it is durable.
    ///
    /// # Errors
    /// As [`Store::backup_to`].
    pub(crate) fn run(&self, store: &Store, to: &Path) -> treedb_storage::Result<BackupProgress> {
        let job = Arc::new(Job {
            to: to.to_owned(),
            started: Instant::now(),
            entries: AtomicU64::new(0),
            of: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        });
        self.running().push(Arc::clone(&job));
        let _listed = Listed { backups: self, job: &job };
        store.backup_to(to, |copied| job.note(copied))
    }
}

/// A job in the list until this is dropped: also when a panic unwinds.
struct Listed<'a> {
    backups: &'a Backups,
    job: &'a Arc<Job>,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.backups.running().retain(|job| !Arc::ptr_eq(job, self.job));
    }
}
