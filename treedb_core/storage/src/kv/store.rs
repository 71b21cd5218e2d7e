//! The store: an open directory.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::changed_rows::ChangedRows;
use super::check::{self, CheckReport};
use super::checkpoint::Worker;
use super::derived::Holders;
use super::edit::Writer;
use super::large_values::DeadValues;
#[cfg(feature = "optimistic")]
use super::optimistic::RecentCommits;
use super::options::{Durability, Options};
use super::recover::{self, MOST_IN_A_CHECKPOINT};
use super::snapshot::{ReadTxn, Snapshot};
use super::write::WriteTxn;
use super::writer_lock::WriterLock;
use crate::page::{CacheStats, PageCounts, Pager, Reader};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::vlog::{ValueLog, ValueLogStats};
use crate::wal::timings::Timer;
use crate::wal::{Log, LogStats, Timings};
use crate::{Error, Result};

/// A store: tables in a directory. Clones are handles to the same one; it is closed by
/// [`Store::close`], or when the last handle and the last transaction are dropped.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

/// The state that all handles share.
pub(crate) struct Inner {
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    pub(crate) pager: Pager,
    pub(crate) values: ValueLog,
    pub(crate) log: Log,
    /// The thread that takes this is the writer.
    pub(crate) writer_lock: WriterLock<Box<Writer>>,
    pub(crate) dead: DeadValues,
    /// What optimistic transactions are checked against.
    #[cfg(feature = "optimistic")]
    pub(crate) recent_commits: RecentCommits,
    /// What images in memory are brought up to date by.
    pub(super) changed_rows: ChangedRows,
    /// Who has files of derived data mapped.
    pub(super) derived_holders: Arc<Holders>,
    /// KeyValues for the length of a checkpoint.
    pub(crate) checkpointing: Mutex<()>,
    pub(crate) worker: Worker,
    /// What held writers up: the beginning of a checkpoint, pauses because the log was over its limit, waiting for a checkpoint or
    /// making one.
    pub(crate) stalls: Timer,
    pub(crate) checkpoints: Timer,
    pub(crate) failure: OnceLock<String>,
    pub(crate) closed: AtomicBool,
    /// True if the system reads ahead in the mapped files.
    pub(crate) reads_ahead: AtomicBool,
    /// Last, so that the directory is free only when everything else is gone.
    pub(crate) _lock: Box<dyn Send + Sync>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("dir", &self.dir).finish_non_exhaustive()
    }
}

/// Statistics of a store; they are not all taken at the same moment.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Stats {
    /// How the pages of the page file are used.
    pub pages: PageCounts,
    /// Bytes of the page file.
    pub page_file_bytes: u64,
    /// The page cache, if the page file is not mapped.
    pub cache: Option<CacheStats>,
    /// The command log.
    pub log: LogStats,
    /// The value log.
    pub values: ValueLogStats,
    /// Snapshots alive.
    pub readers: usize,
    /// The current transaction.
    pub txn: u64,
    /// The oldest transaction that a snapshot sees.
    pub oldest_reader: Option<u64>,
    /// The transaction of the last durable checkpoint.
    pub checkpoint: u64,
    /// How long writes were held up: by the beginning of a checkpoint, by pauses because the log was over its limit, by waiting
    /// for a checkpoint or making one, by the change to another log segment.
    pub stalls: Timings,
    /// Checkpoints that were completed.
    pub checkpoints: Timings,
}

impl Stats {
    /// Commits since the store was created.
    pub fn commits(&self) -> u64 {
        // A recovery may skip numbers of transactions, always so many.
        self.txn % MOST_IN_A_CHECKPOINT
    }

    /// Commits since the last durable checkpoint.
    pub fn commits_since_checkpoint(&self) -> u64 {
        self.commits().saturating_sub(self.checkpoint % MOST_IN_A_CHECKPOINT)
    }
}

impl Store {
    /// Opens the store in `dir` with the default options; an empty or missing directory becomes a new store.
    ///
    /// # Errors
    /// `InUse` if a process has it open, naming that process; `Corrupt` and `Format` for files that are damaged,
    /// foreign or of a newer TreeDB; `Invalid` if there is no store but other files; `DiskFull` and `Io` from the system.
    pub fn open(dir: impl AsRef<Path>) -> Result<Store> {
        Store::open_with(dir, Options::default())
    }

    /// Opens the store in `dir`. Errors as [`Store::open`].
    pub fn open_with(dir: impl AsRef<Path>, options: Options) -> Result<Store> {
        let inner = Arc::new(recover::open(dir.as_ref(), options)?);
        inner.worker.start(&inner)?;
        Ok(Store { inner })
    }

    /// Whether threads of its own may work for it: see [`Options::background`](super::Options::background).
    pub fn works_in_background(&self) -> bool {
        self.inner.options.background
    }

    /// Pins the current state for reading. Until it ends, the pages of that state are not reused: however long it
    /// is open and whatever is written meanwhile, the page file grows by at most one copy of what it sees.
    pub fn begin_read(&self) -> Result<ReadTxn> {
        ReadTxn::new(Arc::clone(&self.inner))
    }

    /// Pins the current state for reading, borrowing the store: the cheapest way to read.
    #[inline]
    pub fn snapshot(&self) -> Result<Snapshot<'_>> {
        Snapshot::new(&self.inner)
    }

    /// Waits until this is the writer, and begins a transaction.
    ///
    /// There is one writer: a thread that holds a [`WriteTxn`] and begins another, checkpoints, checks or closes the
    /// store deadlocks. End the transaction first.
    ///
    /// # Errors
    /// `Poisoned` after a failed write or flush, `Invalid` after [`Store::close`].
    pub fn begin_write(&self) -> Result<WriteTxn> {
        WriteTxn::new(Arc::clone(&self.inner))
    }

    /// Makes everything committed so far durable in the page file and truncates the log. Readers and writers are not
    /// blocked; a thread that holds a [`WriteTxn`] deadlocks. After a failed flush the store is poisoned.
    pub fn checkpoint(&self) -> Result<()> {
        self.inner.refuse_writes()?;
        self.inner.checkpoint()
    }

    /// Waits until every commit that has returned is durable, whatever its durability. So a series of weaker commits can
    /// be made durable by one wait at the end. It becomes the writer for a moment: a thread that holds a
    /// [`WriteTxn`] deadlocks.
    ///
    /// # Errors
    /// `Poisoned` after a failed write or flush, `DiskFull` if the log had to grow for commits made with
    /// [`Durability::None`](super::Durability) and could not, `Invalid` after [`Store::close`].
    pub fn flush(&self) -> Result<()> {
        self.begin_write()?.commit_with(Durability::Durable)
    }

    /// Reads everything and compares it with everything else: each page reachable from exactly one place, checksums,
    /// order, counts, value pointers, free pages. Writers wait meanwhile, and a thread that holds a [`WriteTxn`]
    /// deadlocks. The error is the first damage found.
    pub fn check(&self) -> Result<CheckReport> {
        self.check_with(1, |_| {})
    }

    /// As [`Store::check`] by so many threads, this one among them: they find the same. `on_checked` is called by any of them with the number
    /// of entries, rows and pairs that it has checked since its last call; together those are [`CheckReport::entries`].
    pub fn check_with(&self, threads: usize, on_checked: impl Fn(u64) + Sync) -> Result<CheckReport> {
        check::check(&self.inner, threads, &on_checked)
    }

    /// Statistics. Never blocks.
    pub fn stats(&self) -> Stats {
        let inner = &self.inner;
        let (pins, log) = (inner.pager.pinned(), inner.log.stats());
        Stats {
            pages: inner.pager.last_counts(),
            page_file_bytes: inner.pager.file_bytes(),
            cache: inner.pager.cache_stats(),
            log,
            values: inner.values.stats(),
            readers: pins.len(),
            txn: inner.pager.current(),
            oldest_reader: pins.first().copied(),
            checkpoint: inner.pager.durable(),
            stalls: inner.stalls.timings().and(log.switches),
            checkpoints: inner.checkpoints.timings(),
        }
    }

    /// The snapshots alive, the one of the oldest transaction first: an old one keeps pages and values from being
    /// used again. Never blocks.
    pub fn readers(&self) -> Vec<Reader> {
        self.inner.pager.readers()
    }

    /// Why writes are refused, if a failure poisoned the store.
    pub fn poisoned(&self) -> Option<String> {
        self.inner.poisoned()
    }

    /// An unnamed temporary file in the store's directory, for data that does not fit in memory. `None` for an encrypted
    /// store, whose data must not be written in the clear, and for one that is not on the system's disk.
    pub fn scratch(&self) -> Result<Option<std::fs::File>> {
        self.inner.scratch()
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.inner.dir
    }

    /// Closes the store after a last checkpoint, so that the next opening has nothing to replay. Other handles
    /// refuse writes from now on; the directory is free when they and their snapshots are gone. Waits for the writer: a
    /// thread that holds a [`WriteTxn`] waits for itself, for ever. The same goes for dropping the last handle, but a
    /// transaction is such a handle itself.
    pub fn close(self) -> Result<()> {
        self.inner.worker.stop();
        self.inner.shut_down()
    }
}

impl Drop for Store {
    /// The last handle does not leave the closing of the store to its worker, which may be holding another one just
    /// now: whoever drops it finds the directory free. (A transaction that outlives all handles is a third holder.)
    fn drop(&mut self) {
        while Arc::strong_count(&self.inner) <= 2 && self.inner.worker.is_busy() {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

impl Inner {
    /// An unnamed temporary file in the store's directory, for data that does not fit in memory; `None` for an encrypted
    /// store, whose data must not be written in the clear, and for one that is not on the system's disk.
    pub(crate) fn scratch(&self) -> Result<Option<std::fs::File>> {
        if self.options.key.is_some() || !self.dir.is_dir() {
            return Ok(None);
        }
        crate::disk::scratch(&self.dir).map(Some)
    }

    pub(crate) fn poisoned(&self) -> Option<String> {
        self.failure.get().cloned().or_else(|| self.log.poisoned()).or_else(|| self.values.poisoned())
    }

    /// Refuses writes from now on, because of `error`.
    pub(crate) fn poison(&self, error: &Error) {
        let _ = self.failure.set(error.to_string());
    }

    /// Becomes the writer while `work` runs. If that panics, the store is poisoned, because a change may be half done, and
    /// the lock is released for those who wait.
    pub(crate) fn with_writer<T>(&self, work: impl FnOnce(&mut Writer) -> T) -> T {
        let mut writer = self.writer_lock.acquire();
        let done = catch_unwind(AssertUnwindSafe(|| work(&mut writer)));
        if done.is_err() {
            self.poison(&Error::Invalid("a writer of this store panicked".into()));
        }
        self.writer_lock.release(writer);
        done.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// `Err` if the store is poisoned.
    pub(crate) fn refuse_poisoned(&self) -> Result<()> {
        self.poisoned().map_or(Ok(()), |reason| Err(Error::Poisoned { reason }))
    }

    pub(crate) fn refuse_writes(&self) -> Result<()> {
        self.refuse_poisoned()?;
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Invalid("the store is closed".into()));
        }
        Ok(())
    }

    /// Makes the last checkpoint and refuses writes from then on. Does nothing the second time.
    fn shut_down(&self) -> Result<()> {
        let first = self.with_writer(|_| !self.closed.swap(true, Ordering::AcqRel));
        if !first {
            return Ok(());
        }
        if let Some(reason) = self.poisoned() {
            return Err(Error::Poisoned { reason });
        }
        self.checkpoint()?;
        self.log.close()
    }
}

impl Drop for Inner {
    /// As `close`; errors cannot be reported here, and the next opening recovers.
    fn drop(&mut self) {
        self.worker.stop();
        let _ = self.shut_down();
    }
}
