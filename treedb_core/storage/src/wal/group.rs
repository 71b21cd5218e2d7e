//! Group commit: one thread, the leader, writes and flushes for all waiting threads.
//!
//! Each waiting thread sleeps on its own slot. The leader stores the result in the slots before it hands over
//! the leader role, so a waiting thread need not take the leader's lock to see that it is done.

use std::sync::Arc;
use std::time::Instant;

use super::append::FlushWork;
use super::frame::Lsn;
use super::log::{Log, lock};
use crate::Result;
use crate::sync::atomic::{AtomicU8, Ordering};
use crate::sync::thread::{self, Thread};

/// The leader role, and the waiting threads.
#[derive(Default)]
pub(super) struct Group {
    /// True while a thread is the leader, or has been woken to become it.
    leading: bool,
    waiting: Vec<(Lsn, Arc<Slot>)>,
}

const WAITING: u8 = 0;
/// The thread's frame is durable, or the log is poisoned.
const DONE: u8 = 1;
/// The thread becomes the leader of the next group.
const LEAD: u8 = 2;

struct Slot {
    state: AtomicU8,
    thread: Thread,
}

impl Slot {
    fn wake(&self, state: u8) {
        self.state.store(state, Ordering::Release);
        self.thread.unpark();
    }

    fn sleep(&self) -> u8 {
        loop {
            match self.state.load(Ordering::Acquire) {
                WAITING => thread::park(),
                state => return state,
            }
        }
    }
}

impl Log {
    /// See [`Log::wait_durable`].
    pub(super) fn wait(&self, lsn: Lsn) -> Result<()> {
        if self.durable_lsn() >= lsn {
            return Ok(());
        }
        self.refuse_if_poisoned()?;
        let slot = {
            let mut group = lock(&self.group);
            // Checked again under the lock: a leader stores the durable LSN before it takes this lock.
            if self.durable_lsn() >= lsn {
                return Ok(());
            }
            if group.leading {
                let slot = Arc::new(Slot { state: AtomicU8::new(WAITING), thread: thread::current() });
                group.waiting.push((lsn, slot.clone()));
                Some(slot)
            } else {
                group.leading = true;
                None
            }
        };
        if slot.is_none_or(|slot| slot.sleep() == LEAD) {
            self.lead();
        }
        if self.durable_lsn() >= lsn {
            return Ok(());
        }
        self.refuse_if_poisoned()?;
        // The frame was never appended.
        Err(crate::Error::Invalid(format!("there is no frame {lsn} to wait for")))
    }

    /// Writes and flushes everything appended so far, wakes the threads whose frames are durable, and hands
    /// over the leader role.
    fn lead(&self) {
        let begun = Instant::now();
        let result = self.refuse_if_poisoned().and_then(|()| {
            let work = lock(&self.appender).take_flush_work()?;
            flush(&work)?;
            Ok(work.upto)
        });
        match &result {
            Ok(upto) => {
                self.flushes.note(begun.elapsed());
                self.durable.fetch_max(upto.0, Ordering::Release);
            }
            Err(e) => {
                self.poison(e);
            }
        }
        let mut group = lock(&self.group);
        let durable = self.durable_lsn();
        let failed = result.is_err();
        // A thread that waits for a later frame continues to wait, or becomes the next leader.
        let mut next = None;
        group.waiting.retain(|(lsn, slot)| {
            if failed || *lsn <= durable {
                slot.wake(DONE);
                false
            } else if next.is_none() {
                next = Some(slot.clone());
                false
            } else {
                true
            }
        });
        group.leading = next.is_some();
        drop(group);
        if let Some(next) = next {
            next.wake(LEAD);
        }
    }
}

fn flush(work: &FlushWork) -> Result<()> {
    // Oldest first: after a hole in an earlier segment, later frames are worthless.
    for segment in &work.segments {
        segment.file.sync()?;
    }
    Ok(())
}
