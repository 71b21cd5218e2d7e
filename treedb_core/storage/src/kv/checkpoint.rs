//! Checkpoints: bringing the page file up to date with the log.
//!
//! A checkpoint blocks the writer only to take a number, write down the free pages and collect the list of changed ones.
//! Everything slow runs concurrently with readers and writers: the log is flushed first (so that it is never behind the
//! page file), then the values, then the pages, then the meta page. Then the log is truncated, and dead values that no
//! snapshot needs are released.

use std::sync::{Arc, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::edit::Writer;
use super::large_values::{decode_state, encode_state};
use super::store::Inner;
use crate::page::Checkpoint;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::wal::Lsn;
use crate::{Error, Result};

/// How urgent a checkpoint is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    No,
    /// The worker may make it, if there is one.
    Soon,
    /// The log has grown far beyond its limit: whoever wrote last waits for the checkpoint.
    Now,
}

/// The log may be this many times its limit before commits wait for a checkpoint.
pub(super) const PATIENCE: u64 = 4;

/// Checkpoints that the reclamation of dead values takes: one that has the live values in their new places, one that
/// is without the old segments, and one more for what was written meanwhile.
const RECLAIMS: usize = 3;

impl Inner {
    /// Whether the transaction just published made a checkpoint due. Call as the writer.
    pub(crate) fn checkpoint_due(&self, writer: &Writer) -> Due {
        let limit = self.options.checkpoint_log_bytes;
        if writer.logged > limit.saturating_mul(PATIENCE) {
            return Due::Now;
        }
        let dead = self.pager.kept_by_checkpoint(&writer.alloc);
        let many = dead > self.options.checkpoint_dead_pages
            && dead as u64 * 5 > u64::from(self.pager.counts(&writer.alloc).live) * 2;
        if many || writer.logged > limit { Due::Soon } else { Due::No }
    }

    /// Makes a checkpoint that is due, or has it made. Its failure is not the commit's: a failed flush poisons the store, a full
    /// disk is tried again at the next commit.
    pub(crate) fn checkpoint_if(&self, due: Due) {
        match due {
            Due::No => {}
            Due::Soon if self.options.background => self.worker.wake(),
            Due::Soon | Due::Now => {
                let begun = Instant::now();
                let _ = if self.options.background { self.catch_up() } else { self.checkpoint() };
                self.stalls.note(begun.elapsed());
            }
        }
    }

    /// How long the commit of `bytes` just logged is to pause. Call as the writer.
    pub(super) fn pause_due(&self, writer: &mut Writer, bytes: usize) -> Option<Duration> {
        let limit = self.options.checkpoint_log_bytes;
        let most = limit.saturating_mul(PATIENCE);
        writer.debt.add(bytes, writer.logged, limit, most).filter(|_| self.options.background)
    }

    /// Pauses, if that is due.
    pub(super) fn pause(&self, pause: Option<Duration>) {
        if let Some(pause) = pause {
            std::thread::sleep(pause);
            self.stalls.note(pause);
        }
    }

    /// Makes a checkpoint, and leaves the clean-up after it to the worker. The worker is only woken if there is any, because
    /// it would make another checkpoint of what was committed meanwhile.
    fn catch_up(&self) -> Result<()> {
        let one = self.lock_checkpoints();
        self.refuse_poisoned()?;
        let made = self.current_checkpoint();
        drop(one);
        if self.half_dead() || self.mostly_free() {
            self.worker.wake();
        }
        made
    }

    /// Makes a checkpoint of the current transaction, unless the last one already is. Call with the guard of
    /// [`Inner::lock_checkpoints`].
    fn current_checkpoint(&self) -> Result<()> {
        if self.pager.current() == self.pager.durable() {
            // Snapshots that kept dead values may be gone.
            return self.dead.release(&self.values, self.pager.durable(), &self.pager.pinned());
        }
        self.write_checkpoint(None)
    }

    /// Makes a checkpoint of the current transaction, unless the last one already is, and shrinks files that are mostly free.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        let _one = self.lock_checkpoints();
        self.refuse_poisoned()?;
        self.current_checkpoint()?;
        // The checkpoint is complete: what fails here is tried again after the next one, unless it poisoned the store.
        let _ = self.reclaim().and_then(|()| match self.mostly_free() {
            true => self.relocate_and_truncate(),
            false => Ok(()),
        });
        self.refuse_poisoned()
    }

    /// Reclaims the dead part of the value log, if that is more than half of it.
    pub(super) fn reclaim(&self) -> Result<()> {
        for _ in 0..RECLAIMS {
            if !self.half_dead() {
                break;
            }
            self.move_values()?;
            self.write_checkpoint(None)?;
        }
        Ok(())
    }

    /// While the guard lives, no one else makes a checkpoint.
    pub(super) fn lock_checkpoints(&self) -> MutexGuard<'_, ()> {
        self.checkpointing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a checkpoint unconditionally, and, given `slack`, shortens the page file to that many spare pages. Call with the guard of [`Inner::lock_checkpoints`].
    pub(super) fn write_checkpoint(&self, slack: Option<u32>) -> Result<()> {
        let start = Instant::now();
        let (begun, started) = self.with_writer(|writer| {
            let begun = Instant::now();
            (begun, self.start_checkpoint(writer, slack))
        });
        self.stalls.note(begun.elapsed());
        let (checkpoint, lsn, state) = started?;
        let flushed = self
            .log
            .wait_durable(lsn)
            .and_then(|()| self.values.sync())
            .and_then(|()| self.pager.finish_checkpoint(checkpoint))
            .and_then(|()| self.remove_obsolete(lsn, &state));
        flushed.inspect_err(|error| self.poison(error))?;
        self.checkpoints.note(start.elapsed());
        self.set_read_ahead();
        // Failing to shrink the file does no harm.
        self.with_writer(|writer| self.pager.shrink(&writer.alloc, slack))
    }

    /// The part of a checkpoint that only the writer can do. Returns the checkpoint, the last frame in it, and the state of
    /// the value log.
    fn start_checkpoint(
        &self,
        writer: &mut Writer,
        slack: Option<u32>,
    ) -> Result<(Checkpoint, Lsn, Vec<u8>)> {
        writer.pending.write_to_log(&self.log, self.pager.current())?;
        self.pager.trim(&mut writer.alloc, slack.is_some());
        let lsn = self.log.last_lsn();
        let state = encode_state(&self.values.state(), &self.dead);
        let checkpoint = self.pager.start_checkpoint(&mut writer.alloc, lsn.0, state.clone())?;
        writer.logged = 0;
        Ok((checkpoint, lsn, state))
    }

    /// Makes a commit durable that the log cannot, because it lacks commits before it. A failure is that of the
    /// commit's flush: it poisons the store.
    pub(crate) fn checkpoint_for_commit(&self) -> Result<()> {
        self.checkpoint().map_err(|error| match error {
            Error::Poisoned { reason } => Error::Poisoned { reason },
            error => {
                self.poison(&error);
                Error::Poisoned { reason: error.to_string() }
            }
        })
    }

    /// Removes what the durable checkpoint made obsolete.
    fn remove_obsolete(&self, lsn: Lsn, state: &[u8]) -> Result<()> {
        self.log.cut(lsn)?;
        let (state, _) = decode_state(state)?;
        for segment in self.values.removable(&state) {
            // SAFETY: the segment had no live value when the durable state was taken. A value is released only when
            // every snapshot that could reach its pointer is gone and a durable checkpoint is without it, so neither
            // a reader, nor the writer, nor a later opening can finds a pointer into this segment.
            unsafe { self.values.remove(segment) }?;
        }
        self.dead.release(&self.values, self.pager.durable(), &self.pager.pinned())
    }
}

/// What the worker is asked to do.
#[derive(Debug, Default)]
struct Requests {
    checkpoint: bool,
    /// A log segment is wanted for when the current one is full.
    segment: bool,
    /// Values wait to be written.
    values: bool,
    /// The writer takes many pages.
    pages: bool,
    stop: bool,
}

impl Requests {
    fn any(&self) -> bool {
        self.checkpoint || self.segment || self.values || self.pages
    }
}

#[derive(Debug, Default)]
struct Notifier {
    requests: Mutex<Requests>,
    changed: Condvar,
    /// The worker is at work; changed with `requests` held.
    busy: AtomicBool,
}

impl Notifier {
    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until there is a request. `None` if the worker is to stop.
    fn wait(&self) -> Option<Requests> {
        let mut requests = self.requests();
        loop {
            if requests.stop {
                return None;
            }
            if requests.any() {
                self.busy.store(true, Ordering::Relaxed);
                return Some(std::mem::take(&mut *requests));
            }
            requests = self.changed.wait(requests).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn request(&self, change: impl FnOnce(&mut Requests)) {
        change(&mut self.requests());
        self.changed.notify_one();
    }

    /// The work has ended, even if by a panic.
    fn finished(&self) {
        let _requests = self.requests();
        self.busy.store(false, Ordering::Relaxed);
    }
}

/// Marks the worker as idle when it is dropped.
struct Working<'b>(&'b Notifier);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.finished();
    }
}

/// The thread that makes due checkpoints, and prepares what the writer is about to need.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    notifier: Arc<Notifier>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Worker {
    /// Starts the thread, if the options ask for one.
    pub(crate) fn start(&self, inner: &Arc<Inner>) -> Result<()> {
        if !inner.options.background {
            return Ok(());
        }
        let (notifier, inner_ref): (_, Weak<Inner>) = (Arc::clone(&self.notifier), Arc::downgrade(inner));
        let body = move || {
            while let Some(requests) = notifier.wait() {
                // Dropped after the handle.
                let _working = Working(&notifier);
                let Some(inner) = inner_ref.upgrade() else { return };
                if requests.pages {
                    inner.pager.make_ready();
                }
                // Its failures show as poison.
                if requests.values {
                    let _ = inner.values.write_out();
                }
                // If there is no room for a segment, the writer that needs one gets the error.
                if requests.segment {
                    let _ = inner.log.prepare();
                }
                // Its failures show as poison, or the checkpoint falls due again.
                if requests.checkpoint {
                    let _ = inner.checkpoint();
                }
            }
        };
        let thread = std::thread::Builder::new().name("treedb-checkpoint".into()).spawn(body);
        let thread = thread.map_err(|source| Error::Io { op: "spawn", path: inner.dir.clone(), source })?;
        *self.thread() = Some(thread);
        let notifier = Arc::clone(&self.notifier);
        inner.values.help(move || notifier.request(|requests| requests.values = true));
        Ok(())
    }

    fn thread(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True while the worker has something to do, or is about to: it may hold a handle to the store.
    pub(super) fn is_busy(&self) -> bool {
        let requests = self.notifier.requests();
        let there = self.thread().as_ref().is_some_and(|thread| !thread.is_finished());
        there && !requests.stop && (requests.any() || self.notifier.busy.load(Ordering::Relaxed))
    }

    /// Asks for a checkpoint.
    pub(crate) fn wake(&self) {
        self.notifier.request(|requests| requests.checkpoint = true);
    }

    /// Asks for a log segment to be made ahead.
    pub(crate) fn wake_for_segment(&self) {
        self.notifier.request(|requests| requests.segment = true);
    }

    /// Asks for pages to be made ready for the writer.
    #[cold]
    pub(crate) fn wake_for_pages(&self) {
        self.notifier.request(|requests| requests.pages = true);
    }

    /// Ends the thread and waits for it, unless this is that thread (which then held the last handle).
    pub(crate) fn stop(&self) {
        self.notifier.request(|requests| requests.stop = true);
        let thread = self.thread().take();
        if let Some(thread) = thread.filter(|t| t.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}
