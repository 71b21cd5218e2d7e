//! The bounded page cache: which pages are in memory, and which may be evicted.
//!
//! A file that is not mapped has its pages in anonymous memory, each at the address it would have in a map, so that a
//! reader finds it by the same arithmetic. A page's bit in [`View`](super::view::View) says that it may be read in
//! place; without the bit, a reader calls the cache. A page in memory is
//!
//! * *hot*: its bit is set, and reads leave no trace. Hot pages form a queue in the order in which they became hot;
//! * *cool*: its bit was cleared, to see whether it is still in use. The next reader makes it hot again, without I/O.
//!   Cool pages that no reader asked for are evicted in the order in which they were cooled.
//!
//! So a hit costs no counter and no shared write, and what is evicted is approximately what was least recently used.
//! Bits change under the cache's lock only: a bit set without it could be that of a page that has just been cooled, which
//! would then be evicted while it is read.
//!
//! # Why no slice of an evicted page exists
//!
//! Pages are read within an *epoch* ([`Cache::enter`]), which a thread announces in the same kind of slots in which
//! readers announce transactions. Clearing bits advances the epoch, and a page is evicted only when every thread in an
//! epoch has entered it after the page was cooled: such a thread found the bit cleared. An epoch lasts for one call; what is
//! used beyond it is copied, or its page is *pinned* ([`Frame::pins`]) by the cursor that is on it.
//!
//! # Dirty pages
//!
//! A page that the writer changed is *dirty* until it is written to the file, by a checkpoint or, if memory is short,
//! before one. Because of copy-on-write no durable root reaches its number, so writing it early loses nothing. A dirty
//! page of a published transaction may be written by any thread, since nothing stores to it any more; one of the
//! transaction in progress only by the writer, between two changes.
//!
//! The budget is exceeded by the pages of running calls, by pinned pages, and by the dirty pages of one change. A thread
//! that is descheduled within an epoch blocks eviction; so that the others do not read more and more pages meanwhile, no
//! epoch is entered while the cache is far over its budget and others are open. The wait is limited to about 50 ms,
//! because some calls take long.
//!
//! # Pages of the system
//!
//! Memory goes back to the system in pages of the system, which on 64-bit ARM may be 4 or 16 of these pages. Such a *piece* goes back when
//! the last of its pages is evicted. So that the budget bounds the memory, each piece of which a page is in memory counts in whole.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::sync::PoisonError;

use super::layout::PAGE_SIZE;
use super::slots::{Pin, Slots};
use crate::disk;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard, thread_local};

/// Fewer pages (or pieces, where these are more) than this are not a cache: a descent, a split and a free list must find room.
pub(crate) const LEAST: usize = 16;

/// Pages (or pieces) above the budget and a sixteenth of it from which on new calls wait for others.
const SLACK: usize = 32;

/// Statistics of a page cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// The most pages to keep in memory.
    pub budget: usize,
    /// Pages in memory; where a page of the system has several of these, all of them if one is.
    pub present: usize,
    /// Pages read from the file.
    pub misses: u64,
    /// Pages that left memory.
    pub evictions: u64,
    /// Changed pages written before a checkpoint, to make room.
    pub early_writes: u64,
}

/// What a page in memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It is being read; no thread may read it.
    Loading,
    Hot,
    /// Cooled in this epoch.
    Cool(u64),
}

/// A page in memory.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) state: State,
    /// Number of cursors that are on it.
    pub(super) pins: u32,
    /// The transaction that changed it, if that has not been written to the file; otherwise 0.
    pub(super) dirty: u64,
    /// It is being written to the file.
    pub(super) writing: bool,
}

/// Hashes page numbers with one multiplication.
#[derive(Default)]
pub(super) struct PageHasher(u64);

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, n: u32) {
        let mixed = (self.0 ^ u64::from(n)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

/// All pages in memory, after the cache's lock.
#[derive(Debug, Default)]
pub(super) struct Frames {
    pub(super) by_page: HashMap<u32, Frame, BuildHasherDefault<PageHasher>>,
    /// Number of pages in memory of each piece that has any. Empty if a piece is a page.
    pieces: HashMap<u32, u32, BuildHasherDefault<PageHasher>>,
    /// Pages of a piece, less one.
    others: u32,
    /// Every hot page once, in the order they became it.
    pub(super) hot: VecDeque<u32>,
    /// Pages in the order they were cooled, with the epoch. One that is not cool of this epoch has been warmed up since.
    pub(super) cool: VecDeque<(u32, u64)>,
    /// Cool pages.
    pub(super) cooled: usize,
    /// A buffer for the epochs that threads are in.
    entered: Vec<u64>,
}

impl Frames {
    /// Number of pages of a piece.
    fn shared(&self) -> u32 {
        self.others + 1
    }

    /// Adds a page that is not there.
    pub(super) fn insert(&mut self, page: u32, frame: Frame) {
        self.by_page.insert(page, frame);
        if self.others > 0 {
            *self.pieces.entry(page / self.shared()).or_default() += 1;
        }
    }

    /// Removes a page. Returns the pages whose memory can go back to the system: none, or those of its piece.
    pub(super) fn remove(&mut self, page: u32) -> Range<usize> {
        if let Some(Frame { state: State::Cool(_), .. }) = self.by_page.remove(&page) {
            self.cooled -= 1;
        }
        let (shared, piece) = (self.shared() as usize, page / self.shared());
        let whole = piece as usize * shared..(piece as usize + 1) * shared;
        match self.pieces.get_mut(&piece) {
            Some(pages) if *pages > 1 => {
                *pages -= 1;
                0..0
            }
            _ => {
                self.pieces.remove(&piece);
                whole
            }
        }
    }

    /// Number of pages that have memory.
    pub(super) fn present(&self) -> usize {
        match self.others {
            0 => self.by_page.len(),
            _ => self.pieces.len() * self.shared() as usize,
        }
    }

    /// Makes a page hot.
    pub(super) fn warm(&mut self, page: u32) {
        if let Some(frame) = self.by_page.get_mut(&page) {
            match frame.state {
                State::Hot => return,
                State::Cool(_) => self.cooled -= 1,
                State::Loading => {}
            }
            frame.state = State::Hot;
            self.hot.push_back(page);
        }
    }

    /// Makes a hot page cool.
    pub(super) fn cool(&mut self, page: u32, epoch: u64) {
        if let Some(frame) = self.by_page.get_mut(&page) {
            frame.state = State::Cool(epoch);
            self.cooled += 1;
            self.cool.push_back((page, epoch));
        }
    }
}

/// A page cache.
pub(crate) struct Cache {
    pub(super) budget: usize,
    /// Pages of a piece.
    shared: usize,
    epochs: Slots,
    frames: Mutex<Frames>,
    /// A page was read or written.
    changed: Condvar,
    /// Pages in memory, to be seen without the lock.
    pub(super) present: AtomicUsize,
    /// Pages held, to be seen without the lock.
    pub(super) pinned: AtomicUsize,
    /// The last transaction published: nothing stores to its pages or to older ones.
    pub(super) published: AtomicU64,
    pub(super) misses: AtomicU64,
    pub(super) evictions: AtomicU64,
    pub(super) early_writes: AtomicU64,
}

thread_local! {
    /// Epochs that this thread is in, to detect reads outside of one.
    static ENTERED: Cell<usize> = const { Cell::new(0) };
}

impl Cache {
    /// An empty cache of `budget` pages for a file whose last transaction is `txn`.
    pub(crate) fn new(budget: usize, txn: u64) -> Cache {
        let shared = (disk::unit() / PAGE_SIZE).max(1);
        Cache {
            budget: budget.max(LEAST * shared),
            shared,
            epochs: Slots::new(1, &[0; 16]),
            frames: Mutex::new(Frames { others: shared as u32 - 1, ..Frames::default() }),
            changed: Condvar::new(),
            present: AtomicUsize::new(0),
            pinned: AtomicUsize::new(0),
            published: AtomicU64::new(txn),
            misses: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            early_writes: AtomicU64::new(0),
        }
    }

    /// Enters an epoch, which the same thread ends with [`Cache::leave`].
    pub(super) fn enter(&self) -> Pin {
        ENTERED.with(|entered| entered.set(entered.get() + 1));
        self.epochs.pin()
    }

    pub(super) fn leave(&self, guard: &Pin) {
        ENTERED.with(|entered| entered.set(entered.get().saturating_sub(1)));
        self.epochs.release(guard);
    }

    /// True in a thread that has entered an epoch.
    pub(super) fn in_epoch() -> bool {
        ENTERED.with(Cell::get) > 0
    }

    /// Takes the lock. A thread that panicked while it held it has left the state consistent: each change is one step.
    pub(super) fn lock(&self) -> MutexGuard<'_, Frames> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a page was read or written.
    pub(super) fn wait<'g>(&self, frames: MutexGuard<'g, Frames>) -> MutexGuard<'g, Frames> {
        self.changed.wait(frames).unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes those who wait.
    pub(super) fn wake(&self) {
        self.changed.notify_all();
    }

    /// The current epoch. Call with the lock held, so that it does not change.
    pub(super) fn epoch(&self) -> u64 {
        self.epochs.current()
    }

    /// Advances to the next epoch. Call with the lock held.
    pub(super) fn advance_epoch(&self) {
        self.epochs.publish(self.epochs.current() + 1, &[0; 16]);
    }

    /// The oldest epoch that any thread is in; pages cooled before it are not being read.
    pub(super) fn oldest_epoch(&self, frames: &mut Frames) -> u64 {
        frames.entered.clear();
        self.epochs.pinned(&mut frames.entered);
        frames.entered.iter().copied().min().unwrap_or(u64::MAX)
    }

    /// True if more pages are in memory than should be.
    pub(super) fn is_over(&self) -> bool {
        self.present.load(Ordering::Relaxed) > self.budget
    }

    /// True if the budget is exceeded so far that new calls should wait before they read.
    pub(super) fn is_far_over(&self) -> bool {
        self.present.load(Ordering::Relaxed)
            > self.budget + self.budget / 16 + self.shared * (SLACK + self.pinned.load(Ordering::Relaxed))
    }

    /// Unpins a page.
    pub(crate) fn unpin_page(&self, page: u32) {
        if let Some(frame) = self.lock().by_page.get_mut(&page) {
            frame.pins = frame.pins.saturating_sub(1);
            if frame.pins == 0 {
                self.pinned.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// The statistics as of now.
    pub(crate) fn stats(&self) -> CacheStats {
        CacheStats {
            budget: self.budget,
            present: self.present.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            evictions: self.evictions.load(Ordering::Relaxed),
            early_writes: self.early_writes.load(Ordering::Relaxed),
        }
    }
}
