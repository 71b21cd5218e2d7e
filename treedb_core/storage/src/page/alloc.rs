//! Which pages are free, and what keeps the others.
//!
//! A page is *born* in the transaction that allocates it and *dies* in the one that frees it; every transaction in
//! `birth..death` can reach it. It may be reused when no pin is in that range, where the pins are the live
//! snapshots, the last durable checkpoint and a checkpoint being written. So a reader pinned for long keeps the
//! pages of its own snapshot, not everything that died since, and pages born and dead since the last checkpoint
//! are reused at once. Free pages are taken last in, first out: those are in the cache and already dirty.
//!
//! A transaction may be marked by *savepoints*. Each begins a new transaction number, one that is never published, so
//! that pages born before it are copied, like those of other transactions, when they are changed after it; rolling back
//! to it reverts the births and deaths since then. The numbers in between are skipped, and no pin can have them.
//!
//! A dead page waits on the list of one pin that keeps it. When that pin is gone the page looks for another pin in
//! its range; pins in a dead page's range only ever go away, so a page moves at most once per pin.

use std::collections::BTreeMap;

use super::layout::FIRST_PAGE;

/// A page that died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeadPage {
    pub(crate) page: u32,
    pub(crate) birth: u64,
    pub(crate) death: u64,
}

/// A growing set of page numbers.
#[derive(Debug, Default, Clone)]
pub(crate) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// Adds `page`; false if it was in.
    pub(crate) fn insert(&mut self, page: u32) -> bool {
        let (word, bit) = (page as usize / 64, 1 << (page % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        new
    }

    pub(crate) fn remove(&mut self, page: u32) {
        if let Some(word) = self.words.get_mut(page as usize / 64) {
            *word &= !(1 << (page % 64));
        }
    }

    pub(crate) fn contains(&self, page: u32) -> bool {
        self.words.get(page as usize / 64).is_some_and(|word| word >> (page % 64) & 1 == 1)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.words.iter().enumerate().flat_map(|(i, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(i as u32 * 64 + bit)
            })
        })
    }
}

/// The state that a savepoint saves.
#[derive(Debug)]
struct SavepointState {
    /// [`Allocator::own`] before it and after it.
    own_before: u64,
    own_after: u64,
    born: usize,
    freed: usize,
    /// Pages that were spare: they are not reused, in case the savepoint needs them unchanged.
    spare: Vec<u32>,
}

/// How the pages of a file are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PageCounts {
    /// Pages in use or once used, the two meta pages included.
    pub used: u32,
    /// Pages that can be reused now.
    pub free: u32,
    /// Dead pages that a snapshot or a checkpoint keeps.
    pub kept: u32,
    /// Pages of the current state.
    pub live: u32,
}

/// The allocation state of a file; its holder is the writer.
#[derive(Debug, Default)]
pub struct Allocator {
    /// The transaction in progress, or the last one.
    pub(crate) txn: u64,
    /// Pages born at or after this number may be stored to: they are of the transaction in progress, and of the time
    /// since its last savepoint.
    own: u64,
    savepoints: Vec<SavepointState>,
    /// Pages below this number have been used; below the other, before the transaction in progress began.
    high: u32,
    began_at: u32,
    free: Vec<u32>,
    /// Dead pages by the pin they wait for.
    waiting: BTreeMap<u64, Vec<DeadPage>>,
    /// Pages freed by transactions committed since pins were last checked.
    fresh: Vec<DeadPage>,
    kept: usize,
    /// Pages born since the last checkpoint began and alive: those it must give a checksum.
    dirty: Bits,
    /// Pages of the free list of the last checkpoint.
    pub(crate) free_list: Vec<u32>,
    /// A buffer for the pins, kept between transactions.
    pub(crate) pins: Vec<u64>,
    // What the transaction in progress did.
    born: Vec<u32>,
    spare: Vec<u32>,
    freed: Vec<DeadPage>,
}

impl Allocator {
    /// The state at the opening of a file.
    pub(crate) fn new(txn: u64, high: u32, free: Vec<u32>, free_list: Vec<u32>) -> Allocator {
        Allocator { txn, high: high.max(FIRST_PAGE), free, free_list, ..Allocator::default() }
    }

    /// Begins transaction `txn`.
    pub(crate) fn begin(&mut self, txn: u64) {
        (self.txn, self.own) = (txn, txn);
        self.began_at = self.high;
    }

    /// Pages born at or after this number may be stored to.
    #[inline]
    pub(crate) fn own(&self) -> u64 {
        self.own
    }

    /// Whether a page born by `birth` may be stored to.
    #[inline]
    pub(crate) fn owns(&self, birth: u64) -> bool {
        birth >= self.own
    }

    /// A page for the transaction in progress, or `None` if the file must grow first: see [`Allocator::extend`].
    pub(crate) fn take(&mut self) -> Option<u32> {
        if let Some(page) = self.spare.pop() {
            return Some(page);
        }
        let page = self.free.pop()?;
        self.born.push(page);
        self.dirty.insert(page);
        Some(page)
    }

    /// Takes the first never-used page if it is below `limit`.
    pub(crate) fn extend(&mut self, limit: u32) -> Option<u32> {
        if self.high >= limit {
            return None;
        }
        let page = self.high;
        self.high += 1;
        self.born.push(page);
        self.dirty.insert(page);
        Some(page)
    }

    /// Pages taken by the transaction in progress.
    pub(crate) fn taken(&self) -> usize {
        self.born.len()
    }

    /// Never-used pages taken by the transaction in progress.
    pub(crate) fn extended(&self) -> u32 {
        self.high.saturating_sub(self.began_at)
    }

    /// Puts the free pages in order, so that the lowest is taken first.
    pub(crate) fn sort_free(&mut self) {
        // Mostly they are in order already, which this sort makes use of.
        self.free.sort_by_key(|&page| std::cmp::Reverse(page));
    }

    /// How many of the next pages to be taken are before `end`, up to `most`; after [`Allocator::sort_free`].
    pub(crate) fn free_before(&self, end: u32, most: usize) -> usize {
        self.free.iter().rev().take(most).take_while(|&&page| page < end).count()
    }

    /// Forgets the free pages after the last one that is not free: they count as never used.
    pub(crate) fn trim(&mut self) {
        let mut free = Bits::default();
        for &page in &self.free {
            free.insert(page);
        }
        while self.high > FIRST_PAGE && free.contains(self.high - 1) {
            self.high -= 1;
        }
        let high = self.high;
        self.free.retain(|&page| page < high);
    }

    /// First never-used page.
    pub(crate) fn high(&self) -> u32 {
        self.high
    }

    /// Frees a page born by `birth`.
    pub(crate) fn give_back(&mut self, page: u32, birth: u64) {
        if self.owns(birth) {
            self.spare.push(page);
        } else {
            self.freed.push(DeadPage { page, birth, death: self.txn });
        }
    }

    /// Creates a savepoint in the transaction in progress.
    pub(crate) fn savepoint(&mut self) {
        let own_before = self.own;
        self.txn += 1;
        self.own = self.txn;
        self.savepoints.push(SavepointState {
            own_before,
            own_after: self.own,
            born: self.born.len(),
            freed: self.freed.len(),
            spare: std::mem::take(&mut self.spare),
        });
    }

    /// Rolls back to savepoint number `index`, which remains; those after it are gone.
    pub(crate) fn rollback_to(&mut self, index: usize) {
        self.savepoints.truncate(index + 1);
        let Some(mark) = self.savepoints.last() else { return };
        self.own = mark.own_after;
        self.freed.truncate(mark.freed);
        self.spare.clear();
        self.spare.extend(self.born.iter().skip(mark.born));
    }

    /// Releases savepoint number `index` and those after it; the changes since then are kept.
    pub(crate) fn release_savepoint(&mut self, index: usize) {
        for mut mark in self.savepoints.drain(index.min(self.savepoints.len())..).rev() {
            self.own = mark.own_before;
            self.spare.append(&mut mark.spare);
        }
    }

    /// Makes the transaction's changes the state.
    pub(crate) fn commit(&mut self) {
        self.release_savepoint(0);
        for dead in &self.freed {
            self.dirty.remove(dead.page);
        }
        for page in &self.spare {
            self.dirty.remove(*page);
        }
        self.kept += self.freed.len();
        self.fresh.append(&mut self.freed);
        self.free.append(&mut self.spare);
        self.born.clear();
    }

    /// Forgets the transaction's changes.
    pub(crate) fn roll_back(&mut self) {
        self.savepoints.clear();
        for page in &self.born {
            self.dirty.remove(*page);
        }
        self.free.append(&mut self.born);
        self.spare.clear();
        self.freed.clear();
    }

    /// Frees what no pin keeps any more. `pins` is sorted.
    pub(crate) fn reclaim(&mut self, pins: &[u64]) {
        let mut unassigned = std::mem::take(&mut self.fresh);
        let gone: Vec<u64> =
            self.waiting.keys().filter(|pin| pins.binary_search(pin).is_err()).copied().collect();
        for pin in gone {
            unassigned.extend(self.waiting.remove(&pin).unwrap_or_default());
        }
        for dead in unassigned.drain(..) {
            match pin_in_range(&dead, pins) {
                Some(pin) => self.waiting.entry(pin).or_default().push(dead),
                None => {
                    self.kept -= 1;
                    self.free.push(dead.page);
                }
            }
        }
        // Keep the buffer: one commit frees about as many pages as the next.
        if self.fresh.is_empty() {
            self.fresh = unassigned;
        }
    }

    /// Dead pages that wait for `pin`.
    pub(crate) fn kept_by(&self, pin: u64) -> usize {
        self.waiting.get(&pin).map_or(0, Vec::len)
    }

    /// Every page that is free once no snapshot is left: what a checkpoint writes down.
    pub(crate) fn all_free(&self) -> Vec<u32> {
        let kept = self.waiting.values().flatten().chain(&self.fresh).map(|dead| dead.page);
        let mut all = Vec::with_capacity(self.free.len() + self.kept);
        all.extend_from_slice(&self.free);
        all.extend(kept);
        all
    }

    /// How many pages [`Allocator::all_free`] would name.
    pub(crate) fn free_count(&self) -> usize {
        self.free.len() + self.kept
    }

    /// Pages that need a checksum; the next checkpoint starts with none.
    pub(crate) fn take_dirty(&mut self) -> Bits {
        std::mem::take(&mut self.dirty)
    }

    pub(crate) fn is_dirty(&self, page: u32) -> bool {
        self.dirty.contains(page)
    }

    /// How the pages are used.
    pub fn counts(&self) -> PageCounts {
        let (free, kept) = (self.free.len() as u32, self.kept as u32);
        PageCounts {
            used: self.high,
            free,
            kept,
            live: self.high.saturating_sub(FIRST_PAGE).saturating_sub(free).saturating_sub(kept),
        }
    }
}

/// A pin in the page's range.
fn pin_in_range(dead: &DeadPage, pins: &[u64]) -> Option<u64> {
    let first = pins.partition_point(|&pin| pin < dead.birth);
    pins.get(first).copied().filter(|&pin| pin < dead.death)
}
