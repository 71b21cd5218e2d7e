//! A segment's write buffer: records are written together, because a write for each would cost more than copying it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::disk::DiskFile;
use crate::{Error, Result};

/// Bytes that are written at once, about.
const BUFFER: usize = 512 << 10;
/// Full buffers that wait for another thread at most; the thread that fills one more writes them all.
const QUEUE: usize = 16;
/// Empty buffers kept for another use.
const SPARE: usize = 4;

/// Why a log refuses writes, known to all of its segments.
pub(super) type Failure = Arc<OnceLock<String>>;

/// The records that are not in a segment's file yet.
pub(super) struct WriteBuffer {
    file: Arc<dyn DiskFile>,
    /// Offset up to which records are in the file. Stored after they are written.
    written: AtomicU64,
    queue: Mutex<Queue>,
    /// Held by whoever writes, so that buffers reach the file in order.
    writing: Mutex<()>,
    /// The records that a failed write left, from `written` on.
    stuck: OnceLock<Vec<u8>>,
    failure: Failure,
}

#[derive(Default)]
struct Queue {
    /// Oldest first; those that are being written are not among them.
    full: VecDeque<Vec<u8>>,
    filling: Vec<u8>,
    spare: Vec<Vec<u8>>,
    /// True if no more records come, so that buffers need not be kept.
    closed: bool,
}

impl Queue {
    fn next(&mut self) -> Option<Vec<u8>> {
        let next = self.full.pop_front().unwrap_or_else(|| std::mem::take(&mut self.filling));
        (!next.is_empty()).then_some(next)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WriteBuffer {
    /// Nothing, after the records that end at `end` of the file.
    pub(super) fn new(file: Arc<dyn DiskFile>, end: u64, failure: Failure) -> WriteBuffer {
        let (written, stuck) = (AtomicU64::new(end), OnceLock::new());
        WriteBuffer { file, written, queue: Mutex::default(), writing: Mutex::default(), stuck, failure }
    }

    /// Offset up to which records are in the file.
    #[inline]
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    fn refuse_if_stuck(&self) -> Result<()> {
        match self.failure.get().filter(|_| self.stuck.get().is_some()) {
            Some(reason) => Err(Error::Poisoned { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Adds a record of `size` bytes, given in parts. True if a buffer became full: another thread is to write it if
    /// `helped`. Otherwise, or if too many are full, this call writes them.
    pub(super) fn push(&self, size: usize, parts: &[&[u8]], helped: bool) -> Result<bool> {
        let mut queue = lock(&self.queue);
        self.refuse_if_stuck()?;
        if queue.filling.capacity() == 0 {
            queue.filling = queue.spare.pop().unwrap_or_default();
        }
        let fills = !queue.filling.is_empty() && queue.filling.len() + size > BUFFER;
        if fills {
            if !helped || queue.full.len() >= QUEUE {
                drop(queue);
                self.write_out()?;
                queue = lock(&self.queue);
            } else {
                let next = queue.spare.pop().unwrap_or_else(|| Vec::with_capacity(BUFFER));
                let full = std::mem::replace(&mut queue.filling, next);
                queue.full.push_back(full);
            }
        }
        let whole = queue.filling.len() + size;
        parts.iter().for_each(|part| queue.filling.extend_from_slice(part));
        queue.filling.resize(whole, 0);
        Ok(fills)
    }

    /// Writes a record directly, after the buffered ones. Called by the one thread that adds records.
    pub(super) fn write(&self, size: u64, parts: &[&[u8]]) -> Result<()> {
        self.write_out()?;
        let _writing = lock(&self.writing);
        let at = self.written();
        let mut to = at;
        for part in parts {
            self.file.write_at(part, to)?;
            to += part.len() as u64;
        }
        self.written.store(at + size, Ordering::Release);
        Ok(())
    }

    /// Writes all buffered records. After an error it can be had from [`WriteBuffer::stuck`], and nothing more is written.
    pub(super) fn write_out(&self) -> Result<()> {
        let _writing = lock(&self.writing);
        self.refuse_if_stuck()?;
        loop {
            let next = lock(&self.queue).next();
            let Some(mut buffer) = next else { return Ok(()) };
            let at = self.written();
            if let Err(error) = self.file.write_at(&buffer, at) {
                let _ = self.failure.set(error.to_string());
                let mut queue = lock(&self.queue);
                while let Some(more) = queue.next() {
                    buffer.extend_from_slice(&more);
                }
                // Under the lock, so that nothing is added that is neither here nor there.
                let _ = self.stuck.set(buffer);
                return Err(error);
            }
            self.written.store(at + buffer.len() as u64, Ordering::Release);
            let mut queue = lock(&self.queue);
            if queue.spare.len() < SPARE && buffer.capacity() <= 2 * BUFFER && !queue.closed {
                buffer.clear();
                queue.spare.push(buffer);
            }
        }
    }

    /// Makes sure that the bytes up to `end` are in the file, or among those that could not be written.
    pub(super) fn reach(&self, end: u64) -> Result<()> {
        if end > self.written() {
            self.write_out().or_else(|error| if self.stuck.get().is_some() { Ok(()) } else { Err(error) })?;
        }
        Ok(())
    }

    /// The bytes `at..at + len`, if they are stuck in memory.
    pub(super) fn stuck(&self, at: u64, len: u64) -> Option<&[u8]> {
        let stuck = self.stuck.get()?;
        let from = usize::try_from(at.checked_sub(self.written())?).ok()?;
        stuck.get(from..from.checked_add(usize::try_from(len).ok()?)?)
    }

    /// Discards the records: they are no longer needed, and the file is reused.
    pub(super) fn retire(&self) {
        let _writing = lock(&self.writing);
        *lock(&self.queue) = Queue { closed: true, ..Queue::default() };
    }

    /// No more records come.
    pub(super) fn close(&self) {
        let mut queue = lock(&self.queue);
        queue.closed = true;
        queue.spare = Vec::new();
    }
}
