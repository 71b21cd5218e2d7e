//! The log's handle, its options and its state.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use super::append::Tail;
use super::files::Files;
use super::frame::{Kind, Lsn};
use super::group::Group;
use super::open;
use super::recovery::Recovery;
use crate::cipher::Keys;
use crate::disk::Disk;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};
use crate::{Error, Result};

/// How far a frame has got when its append returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// Buffered for the next group: the caller goes on to [`Log::wait_durable`].
    Durable,
    /// Handed to the operating system: survives a crash of the process, not of the machine.
    Relaxed,
}

/// How a log is opened.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// The checkpoint's LSN: frames up to it are not needed any more. A log that had frames above it and lost them
    /// in a crash goes on above it all the same.
    pub applied: Lsn,
    /// Refuse to start a new log: a database that has been written to has one, even if it was just cut.
    pub must_exist: bool,
    /// Length of a segment, in bytes. The first one of a log is shorter and grows, a frame that does not fit gets one
    /// of its own size.
    pub segment_bytes: u64,
    /// Durable frames waiting for their group take at most about this much memory, in bytes; beyond it an append
    /// writes them out itself.
    pub max_buffered: usize,
    /// How many segments are kept for another use when the log is cut.
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
    /// Segments kept for another use.
    pub spares: usize,
    /// Bytes of frames in the segments in use: what recovery would read, and what triggers a checkpoint.
    pub bytes: u64,
    /// Number of the last frame appended.
    pub last: Lsn,
    /// The log is durable up to this frame.
    pub durable: Lsn,
    /// Flushes since the log was opened, and so the number of durable groups.
    pub groups: u64,
    /// How often an append had to go on in another segment.
    pub switches: u64,
    /// How long that took, all in all.
    pub in_switches: Duration,
    /// How long it took at most.
    pub longest_switch: Duration,
}

/// An open command log. All methods may be called from any thread; the order of frames is the order of the
/// [`append`](Log::append) calls.
pub struct Log {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: PathBuf,
    pub(super) options: LogOptions,
    /// Where the next frame goes. Locked before `files` and never together with `group`.
    pub(super) tail: Mutex<Tail>,
    pub(super) files: Mutex<Files>,
    pub(super) group: Mutex<Group>,
    pub(super) durable: AtomicU64,
    pub(super) groups: AtomicU64,
    /// True once the current segment is half full and there is none to follow it, until that has been asked for.
    pub(super) wanting: AtomicBool,
    pub(super) failure: OnceLock<String>,
}

/// Takes a lock. A thread that panicked while it held one has left the state as it was before its last step.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Log {
    /// Opens the log in `dir` (made if it is not there) and finds its end. The returned [`Recovery`] reads the
    /// frames above `options.applied`; new frames may be appended meanwhile.
    ///
    /// Every frame that recovery returns is durable when this returns.
    ///
    /// # Errors
    /// `Corrupt` for damage that no crash explains, naming file, offset, expected and found, also if there is no log
    /// and `options.must_exist`; `Format` for a log of another version; `Io` and `DiskFull` from the disk.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, options: LogOptions) -> Result<(Log, Recovery)> {
        open::open(disk, dir, options)
    }

    /// Appends a frame and returns its number.
    ///
    /// A durable frame is only buffered: it is durable once [`wait_durable`](Log::wait_durable) says so. A relaxed
    /// frame is with the operating system when this returns.
    ///
    /// # Errors
    /// `TransactionTooLarge` over [`MAX_PAYLOAD`](super::MAX_PAYLOAD) and `DiskFull` if no segment can be made for the
    /// frame: the frame is then not in the log, and later appends may succeed. `Poisoned` after an earlier
    /// failure. Any other error poisons the log.
    pub fn append(&self, payload: &[u8], sync: Sync) -> Result<Lsn> {
        let kind = if self.options.keys.is_some() { Kind::Encrypted } else { Kind::Data };
        self.append_kind(payload, sync, kind)
    }

    /// Waits until frame `lsn` and all before it are durable. The first thread writes and flushes for all that
    /// have appended by then; the others sleep until their own frame is durable.
    ///
    /// # Errors
    /// `Poisoned` if a write or flush failed: whether the frame will be there after a restart is not known.
    pub fn wait_durable(&self, lsn: Lsn) -> Result<()> {
        self.wait(lsn)
    }

    /// The log is durable up to and including this frame.
    pub fn durable_lsn(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    /// The last frame appended by any thread.
    pub fn last_lsn(&self) -> Lsn {
        Lsn(lock(&self.tail).next - 1)
    }

    /// Truncates the log up to `upto`, which a durable checkpoint covers: segments without later frames are kept as spares
    /// or removed.
    ///
    /// # Errors
    /// From the disk. The log stays whole and usable; what could not be removed now goes at the next cut or open.
    pub fn cut(&self, upto: Lsn) -> Result<()> {
        self.cut_files(upto)
    }

    /// True, once, if another thread should [`prepare`](Log::prepare) the segment after the current one.
    #[inline]
    pub fn wants_segment(&self) -> bool {
        self.wanting.load(Ordering::Relaxed) && self.wanting.swap(false, Ordering::Relaxed)
    }

    /// Creates a segment ahead of use, so that an append that needs one does not wait while its blocks are written. May run
    /// concurrently with appends, in one thread at a time.
    ///
    /// # Errors
    /// From the disk; the log is as it was.
    pub fn prepare(&self) -> Result<()> {
        self.prepare_spare()
    }

    /// Why the log refuses writes, if it does.
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
            let tail = lock(&self.tail);
            if tail.closed {
                return Ok(());
            }
            Arc::clone(&tail.segment)
        };
        self.refuse_if_poisoned()?;
        segment.note_length().map_err(|e| self.poison(&e))?;
        let lsn = self.append_kind(&[], Sync::Durable, Kind::Closed)?;
        self.wait(lsn)
    }

    /// The statistics as of now.
    pub fn stats(&self) -> LogStats {
        let (last, used, switched) = {
            let tail = lock(&self.tail);
            (Lsn(tail.next - 1), tail.used(), tail.switched)
        };
        let files = lock(&self.files);
        LogStats {
            segments: files.segments(),
            spares: files.spares.len(),
            bytes: used + files.full_bytes(),
            last,
            durable: self.durable_lsn(),
            groups: self.groups.load(Ordering::Relaxed),
            switches: switched.count,
            in_switches: switched.total,
            longest_switch: switched.longest,
        }
    }

    /// `Err` if the log is poisoned.
    pub(super) fn refuse_if_poisoned(&self) -> Result<()> {
        match self.failure.get() {
            Some(reason) => Err(Error::Poisoned { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Poisons the log with the first failure and returns the error callers get from now on.
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
    /// Writes what is buffered; its durability was not promised.
    fn drop(&mut self) {
        if self.failure.get().is_none() {
            let tail = self.tail.get_mut().unwrap_or_else(PoisonError::into_inner);
            let _ = tail.write_out();
        }
    }
}
