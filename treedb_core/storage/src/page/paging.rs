//! Paging of a file that is not mapped: pages are read into memory when they are needed, written back, and evicted.
//!
//! This is the part of [`View`] that moves bytes between file and memory. [`cache`](super::cache) explains who may do
//! what when.

use std::time::Duration;

use super::cache::{Cache, Frame, Frames, State};
use super::layout::{CHECKSUM_AT, HEADER, NUMBER_AT, PAGE_SIZE, SEALED_PAYLOAD, offset_of};
use super::slots::Pin;
use super::view::View;
use super::{PageId, PageSource};
use crate::Result;
use crate::sync::atomic::Ordering;
use crate::sync::{MutexGuard, thread};

/// Keeps an epoch open: while it lives, the pages that its thread reads stay in memory. In a mapped file it does nothing.
pub(crate) struct EpochGuard<'a>(Option<(&'a View, &'a Cache, Pin)>);

impl Drop for EpochGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some((view, cache, pin)) = &self.0 {
            cache.leave(pin);
            if cache.is_over() {
                // The pages that this epoch kept in memory may be evicted now.
                drop(view.make_room(cache, cache.lock(), false));
            }
        }
    }
}

/// How often a thread that enters an epoch checks whether others have ended, so that their pages can be evicted: a few
/// times at once, then with sleeps in between, about 50 ms in all. Counted instead of timed, because a clock would make the
/// number of schedules that tests explore unbounded.
const LOOKS: u32 = 300;
const SLEEP: Duration = Duration::from_micros(100);

impl View {
    /// Enters an epoch; every call that reads pages does.
    #[inline]
    pub(crate) fn enter_epoch(&self) -> EpochGuard<'_> {
        EpochGuard(self.cache.as_deref().map(|cache| {
            if cache.is_far_over() && !Cache::in_epoch() {
                self.await_room(cache);
            }
            (self, cache, cache.enter())
        }))
    }

    /// Waits a little while epochs of other threads, which may have been descheduled, keep the cache over its budget: the
    /// pages read meanwhile must not pile up.
    #[cold]
    fn await_room(&self, cache: &Cache) {
        for look in 0..LOOKS {
            let mut frames = self.make_room(cache, cache.lock(), false);
            let none_open = cache.oldest_epoch(&mut frames) == u64::MAX;
            drop(frames);
            if none_open || !cache.is_far_over() {
                return;
            }
            match look {
                0..16 => thread::yield_now(),
                _ => thread::sleep(SLEEP),
            }
        }
    }

    /// Makes `page` present, reading it from the file if necessary.
    #[cold]
    pub(super) fn fetch(&self, cache: &Cache, page: u32) -> Result<()> {
        debug_assert!(Cache::in_epoch(), "page {page} is read outside of an epoch");
        let mut frames = cache.lock();
        loop {
            match frames.by_page.get(&page).map(|frame| frame.state) {
                None => break,
                Some(State::Loading) => frames = cache.wait(frames),
                Some(_) => {
                    frames.warm(page);
                    self.set_verified(page);
                    return Ok(());
                }
            }
        }
        self.admit(cache, &mut frames, page, State::Loading, 0);
        drop(self.make_room(cache, frames, false));
        let loaded = self.load(page);
        let mut frames = cache.lock();
        if loaded.is_ok() {
            cache.misses.fetch_add(1, Ordering::Relaxed);
            frames.warm(page);
            self.set_verified(page);
        } else {
            self.evict(cache, &mut frames, page);
        }
        cache.wake();
        loaded
    }

    fn admit(&self, cache: &Cache, frames: &mut Frames, page: u32, state: State, dirty: u64) {
        frames.insert(page, Frame { state, pins: 0, dirty, writing: false });
        cache.present.store(frames.present(), Ordering::Relaxed);
    }

    /// Frees a page's memory, as soon as that of all pages in the same piece can be. Nothing reads the page, and no thread starts to while the lock is held.
    fn evict(&self, cache: &Cache, frames: &mut Frames, page: u32) {
        let unused = frames.remove(page);
        cache.present.store(frames.present(), Ordering::Relaxed);
        if !unused.is_empty() {
            self.map.discard(unused.start * PAGE_SIZE, unused.end * PAGE_SIZE);
        }
    }

    /// Cools pages until a quarter is cool, so that pages still in use have time to be asked for.
    fn cool_some(&self, cache: &Cache, frames: &mut Frames) {
        // Pages that are alone in their pieces of memory are fewer than the budget.
        let wanted = (cache.budget.min(frames.by_page.len()) / 4).max(1);
        let epoch = cache.epoch();
        let mut any = false;
        for _ in 0..frames.hot.len() {
            if frames.cooled >= wanted {
                break;
            }
            let Some(page) = frames.hot.pop_front() else { break };
            if frames.by_page.get(&page).is_some_and(|frame| frame.pins > 0) {
                frames.hot.push_back(page);
                continue;
            }
            self.clear_verified(page);
            frames.cool(page, epoch);
            any = true;
        }
        if any {
            cache.advance_epoch();
        }
    }

    /// Evicts cool pages until the cache is within its budget, as far as epochs, pins and the writer allow. `writer`: the
    /// caller is the writer between two changes, so that dirty pages of its transaction may be written too. A page that
    /// cannot be written stays in memory; the checkpoint that must write it meets the same error and reports it.
    pub(super) fn make_room<'c>(
        &self,
        cache: &'c Cache,
        mut frames: MutexGuard<'c, Frames>,
        writer: bool,
    ) -> MutexGuard<'c, Frames> {
        // A reader tries a few pages only, however many there are that only the writer may write: the next reader
        // continues after them. The writer makes a little more room than needed, so as not to come here at each change.
        let (mut tries, budget) = match writer {
            true => (2 * frames.by_page.len(), cache.budget - cache.budget / 8),
            false => (64, cache.budget),
        };
        while frames.present() > budget && tries > 0 {
            tries -= 1;
            if frames.cooled < (cache.budget.min(frames.by_page.len()) / 8).max(1) {
                self.cool_some(cache, &mut frames);
            }
            let oldest = cache.oldest_epoch(&mut frames);
            let Some(&(page, epoch)) = frames.cool.front() else { break };
            let books = &mut *frames;
            let Some(frame) = books.by_page.get_mut(&page).filter(|f| f.state == State::Cool(epoch)) else {
                books.cool.pop_front();
                continue;
            };
            if epoch >= oldest {
                break;
            }
            let frozen = frame.dirty <= cache.published.load(Ordering::Acquire) || writer;
            let dirty = frame.dirty > 0;
            books.cool.pop_front();
            if frame.pins > 0 || frame.writing || dirty && !frozen {
                books.warm(page);
                continue;
            }
            if dirty {
                frame.writing = true;
                drop(frames);
                let written = self.write_back(page);
                frames = cache.lock();
                let still = self.written(&mut frames, page, written.is_ok());
                cache.wake();
                if written.is_ok() {
                    cache.early_writes.fetch_add(1, Ordering::Relaxed);
                }
                if !still || written.is_err() {
                    // Another thread asked for it meanwhile, or it could not be written.
                    frames.warm(page);
                    continue;
                }
            }
            self.evict(cache, &mut frames, page);
            cache.evictions.fetch_add(1, Ordering::Relaxed);
        }
        frames
    }

    /// A page has been written, if `ok`: true if it is still cool and not pinned.
    fn written(&self, frames: &mut Frames, page: u32, ok: bool) -> bool {
        let Some(frame) = frames.by_page.get_mut(&page) else { return false };
        frame.writing = false;
        if ok {
            frame.dirty = 0;
        }
        matches!(frame.state, State::Cool(_)) && frame.pins == 0
    }

    /// `page`, just allocated by transaction `birth`, exists only in memory; its bytes are undefined.
    pub(super) fn insert_new(&self, cache: &Cache, page: u32, birth: u64) {
        let mut frames = cache.lock();
        loop {
            match frames.by_page.get_mut(&page) {
                // Its old content is still being written or read.
                Some(frame) if frame.writing || frame.state == State::Loading => frames = cache.wait(frames),
                Some(frame) => {
                    frame.dirty = birth;
                    frames.warm(page);
                    break;
                }
                None => {
                    self.admit(cache, &mut frames, page, State::Loading, birth);
                    frames.warm(page);
                    break;
                }
            }
        }
        self.set_verified(page);
        drop(self.make_room(cache, frames, false));
    }

    /// Pages from number `pages` on, which nothing can reach, need not be written any more.
    pub(super) fn discard_beyond(&self, cache: &Cache, pages: u32) {
        let mut frames = cache.lock();
        while frames.by_page.iter().any(|(&page, frame)| page >= pages && frame.writing) {
            frames = cache.wait(frames);
        }
        for (_, frame) in frames.by_page.iter_mut().filter(|(page, _)| **page >= pages) {
            frame.dirty = 0;
        }
    }

    /// `page` of transaction `birth`, the one in progress, is about to be changed, by the writer, within an epoch.
    pub(super) fn mark_dirty(&self, cache: &Cache, page: u32, birth: u64) -> Result<()> {
        loop {
            let mut frames = cache.lock();
            match frames.by_page.get_mut(&page) {
                Some(frame) if frame.state != State::Loading => {
                    frame.dirty = birth;
                    return Ok(());
                }
                _ => {
                    drop(frames);
                    self.page(PageId(page))?;
                }
            }
        }
    }

    /// Keeps `page`, which the caller has just read, in memory until [`Cache::unpin_page`]. Call within an epoch.
    pub(crate) fn pin_page(&self, page: u32) -> Result<()> {
        let Some(cache) = self.cache.as_deref() else { return Ok(()) };
        loop {
            let mut frames = cache.lock();
            match frames.by_page.get_mut(&page) {
                Some(frame) if frame.state != State::Loading => {
                    frame.pins += 1;
                    if frame.pins == 1 {
                        cache.pinned.fetch_add(1, Ordering::Relaxed);
                    }
                    return Ok(());
                }
                _ => {
                    drop(frames);
                    self.page(PageId(page))?;
                }
            }
        }
    }

    /// Evicts pages between two changes of the transaction in progress, writing pages of it early if there is no other
    /// way. Only the writer calls this, outside of its own epochs.
    pub(crate) fn evict_for_writer(&self) {
        if let Some(cache) = self.cache.as_deref().filter(|cache| cache.is_over()) {
            drop(self.make_room(cache, cache.lock(), true));
        }
    }

    /// Writes a page of a checkpoint to the file, unless it was written before.
    pub(super) fn flush(&self, cache: &Cache, page: u32) -> Result<()> {
        let mut frames = cache.lock();
        loop {
            match frames.by_page.get_mut(&page) {
                Some(frame) if frame.writing => frames = cache.wait(frames),
                Some(frame) if frame.dirty > 0 => {
                    frame.writing = true;
                    break;
                }
                _ => return Ok(()),
            }
        }
        drop(frames);
        let done = self.write_back(page);
        let _ = self.written(&mut cache.lock(), page, done.is_ok());
        cache.wake();
        done
    }

    /// Reads `page` into its place. The caller has claimed it: no other thread reads it or stores to it.
    fn load(&self, page: u32) -> Result<()> {
        // SAFETY: the page is inside the range (the caller checked), and claimed by the caller.
        let bytes = unsafe { &mut *self.start(page).cast::<[u8; PAGE_SIZE]>() };
        self.file().read_at(bytes, offset_of(page))?;
        let newest = if self.was_rewritten(page) { u64::MAX } else { self.opened_at };
        match &self.secret {
            Some(secret) => self.unseal(secret, page, bytes, newest),
            None => self.verify_bytes(page, bytes, newest),
        }
    }

    /// Writes `page`, to which nothing is being stored, to the file, with its checksum or sealed.
    fn write_back(&self, page: u32) -> Result<()> {
        let mut image = self.image(page);
        match &self.secret {
            Some(secret) => {
                image[CHECKSUM_AT..NUMBER_AT].fill(0);
                let (header, rest) = image.split_at_mut(HEADER);
                let (content, seal) = rest.split_at_mut(SEALED_PAYLOAD);
                seal.copy_from_slice(&secret.keys.pages.seal(header, content)?);
            }
            None => {
                let sum = crc32c::crc32c(&image[NUMBER_AT..]);
                image[CHECKSUM_AT..NUMBER_AT].copy_from_slice(&sum.to_le_bytes());
            }
        }
        self.set_rewritten(page);
        self.file().write_at(&image, offset_of(page))
    }

    /// A copy of a page in memory.
    fn image(&self, page: u32) -> [u8; PAGE_SIZE] {
        let mut image = [0; PAGE_SIZE];
        // SAFETY: the page is inside the range, and being written to the file, so it stays in memory; it is either
        // of a published transaction, or the writer itself is here: nothing stores to it.
        let bytes = unsafe { std::slice::from_raw_parts(self.start(page), PAGE_SIZE) };
        image.copy_from_slice(bytes);
        image
    }

    /// Reads `page` in the file against its checksum or seal, whatever memory has.
    pub(super) fn reread(&self, page: u32) -> Result<()> {
        let mut image = [0; PAGE_SIZE];
        self.file().read_at(&mut image, offset_of(page))?;
        match &self.secret {
            Some(secret) => self.unseal(secret, page, &mut image, u64::MAX),
            None => self.verify_bytes(page, &image, u64::MAX),
        }
    }
}
