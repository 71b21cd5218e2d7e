//! The handle of an open log, its options and its statistics.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError};

use super::append::Appender;
use super::files::Files;
use super::frame::{Kind, Lsn};
use super::group::Group;
use super::open;
use super::recovery::Recovery;
use super::timings::{Timer, Timings};
use crate::cipher::Keys;
use crate::disk::Disk;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};
use crate::{Error, Result};

/// What has happened to a frame when its append returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// It is buffered for the next commit group: the caller waits with [`Log::wait_durable`].
    Durable,
    /// It was handed to the operating system: it survives a crash of the process, but not of the machine.
    Relaxed,
}

/// Options for opening a log.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// The checkpoint's LSN: frames up to it are no longer needed. New frames get higher LSNs even if the log
    /// ends before the checkpoint because of a crash.
    pub applied: Lsn,
    /// Do not create a log: a database that has been written to has one, even after it was truncated.
    pub must_exist: bool,
    /// Length of a segment, in bytes. A log's first segment is shorter and grows; for a frame that does not
    /// fit, a longer segment is created.
    pub segment_bytes: u64,
    /// The approximate maximum of bytes buffered for the next commit group; an append that exceeds it writes
    /// the buffered frames to the file.
    pub max_buffered: usize,
    /// How many segments are kept for reuse when the log is truncated.
    pub spares: usize,
    /// Keys of an encrypted log.
    pub(crate) keys: Option<Arc<Keys>>,
}

impl Default for LogOptions {
    fn default() -> Self {
        LogOptions {
            applied: Lsn::NONE,
            must_exist: false,
            segment_bytes: 16 << 20,
            max_buffered: 4 << 20,
            spares: 4,
            keys: None,
        }
    }
}

/// Statistics of a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Segments in use.
    pub segments: usize,
    /// Segments kept for reuse.
    pub spares: usize,
    /// Bytes of frames in the segments in use: what recovery would read, and what triggers a checkpoint.
    pub bytes: u64,
    /// LSN of the last frame appended.
    pub last: Lsn,
    /// The log is durable up to this frame.
    pub durable: Lsn,
    /// Writes and flushes since the log was opened: one for each group of commits.
    pub flushes: Timings,
    /// Appends that had to switch to another segment.
    pub switches: Timings,
}

/// An open command log. All methods may be called from any thread; the order of frames is the order of the
/// [`append`](Log::append) calls.
pub struct Log {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: PathBuf,
    pub(super) options: LogOptions,
    /// Locked before `files` and never together with `group`.
    pub(super) appender: Mutex<Appender>,
    pub(super) files: Mutex<Files>,
    pub(super) group: Mutex<Group>,
    pub(super) durable: AtomicU64,
    pub(super) flushes: Timer,
    /// True once the current segment is half full and there is no segment to follow it, until
    /// [`Log::wants_segment`] returns it.
    pub(super) next_wanted: AtomicBool,
    pub(super) failure: OnceLock<String>,
}

/// Locks a mutex, also after a thread panicked while it held the lock: the state is that before its last
/// step.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Log {
    /// Opens the log in `dir` (created if it does not exist) and finds its end. The returned [`Recovery`]
    /// reads the frames above `options.applied`; new frames may be appended meanwhile.
    ///
    /// Every frame that recovery returns is durable when this returns.
    ///
    /// # Errors
    /// `Corrupt` for damage that a crash cannot cause, naming file, offset, expected and found, also if there
    /// is no log but `options.must_exist` is set; `Format` for a log of another version; `Io` and `DiskFull`
    /// from the disk.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, options: LogOptions) -> Result<(Log, Recovery)> {
        open::open(disk, dir, options)
    }

    /// Appends a frame and returns its LSN.
    ///
    /// A durable frame is only buffered: it is durable when [`wait_durable`](Log::wait_durable) returns. A
    /// relaxed frame has been handed to the operating system when this returns.
    ///
    /// # Errors
    /// `TransactionTooLarge` over [`MAX_PAYLOAD`](super::MAX_PAYLOAD) and `DiskFull` if no segment can be
    /// created for the frame: the frame is then not in the log, and later appends may succeed. `Poisoned`
    /// after an earlier failure. Any other error poisons the log.
    pub fn append(&self, payload: &[u8], sync: Sync) -> Result<Lsn> {
        let kind = if self.options.keys.is_some() { Kind::Encrypted } else { Kind::Data };
        self.append_kind(payload, sync, kind)
    }

    /// Waits until frame `lsn` and all frames before it are durable. The first thread that waits writes and
    /// flushes the frames of all threads; the others sleep until their own frame is durable.
    ///
    /// # Errors
    /// `Poisoned` if a write or flush failed: it is unknown whether the frame will exist after a restart.
    pub fn wait_durable(&self, lsn: Lsn) -> Result<()> {
        self.wait(lsn)
    }

    /// The log is durable up to and including this frame.
    pub fn durable_lsn(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    /// The last frame appended by any thread.
    pub fn last_lsn(&self) -> Lsn {
        Lsn(lock(&self.appender).next - 1)
    }

    /// Truncates the log up to `upto`, which a durable checkpoint covers: segments without later frames are kept as spares
    /// or removed.
    ///
    /// # Errors
    /// Errors from the disk. The log stays intact and usable; segments that could not be removed are removed
    /// by the next truncation or when the log is opened.
    pub fn cut(&self, upto: Lsn) -> Result<()> {
        self.cut_files(upto)
    }

    /// True if another thread should [`prepare`](Log::prepare) the segment after the current one; true only
    /// once.
    #[inline]
    pub fn wants_segment(&self) -> bool {
        self.next_wanted.load(Ordering::Relaxed) && self.next_wanted.swap(false, Ordering::Relaxed)
    }

    /// Creates a segment ahead of use, so that an append that needs one does not wait while its blocks are written. May run
    /// concurrently with appends, in one thread at a time.
    ///
    /// # Errors
    /// Errors from the disk; the log is unchanged.
    pub fn prepare(&self) -> Result<()> {
        self.prepare_spare()
    }

    /// The reason if the log is poisoned and refuses writes.
    pub fn poisoned(&self) -> Option<String> {
        self.failure.get().cloned()
    }

    /// Makes everything durable and records a clean shutdown, so that the next open continues where this one stopped. Later
    /// appends are refused.
    ///
    /// # Errors
    /// As `append` and `wait_durable`.
    pub fn close(&self) -> Result<()> {
        let segment = {
            let appender = lock(&self.appender);
            if appender.closed {
                return Ok(());
            }
            Arc::clone(&appender.segment)
        };
        self.refuse_if_poisoned()?;
        segment.record_length().map_err(|e| self.poison(&e))?;
        let lsn = self.append_kind(&[], Sync::Durable, Kind::Closed)?;
        self.wait(lsn)
    }

    /// The current statistics.
    pub fn stats(&self) -> LogStats {
        let (last, used, switches) = {
            let appender = lock(&self.appender);
            (Lsn(appender.next - 1), appender.used(), appender.switches)
        };
        let files = lock(&self.files);
        LogStats {
            segments: files.segments(),
            spares: files.spares.len(),
            bytes: used + files.full_bytes(),
            last,
            durable: self.durable_lsn(),
            flushes: self.flushes.timings(),
            switches,
        }
    }

    /// `Err` if the log is poisoned.
    pub(super) fn refuse_if_poisoned(&self) -> Result<()> {
        match self.failure.get() {
            Some(reason) => Err(Error::Poisoned { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Poisons the log with the first failure and returns the error that callers get from now on.
    pub(super) fn poison(&self, cause: &Error) -> Error {
        let reason = self.failure.get_or_init(|| cause.to_string()).clone();
        Error::Poisoned { reason }
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("dir", &self.dir).field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl Drop for Log {
    /// Writes the buffered frames without flushing: they were not waited for, so they need not be durable.
    fn drop(&mut self) {
        if self.failure.get().is_none() {
            let appender = self.appender.get_mut().unwrap_or_else(PoisonError::into_inner);
            let _ = appender.write_out();
        }
    }
}
