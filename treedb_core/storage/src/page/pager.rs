//! The page file as a whole: opening, publishing transactions, checkpoints.

use std::path::Path;
use std::sync::Arc;

use super::accounting::PageAccounting;
use super::alloc::{Allocator, Bits, PageCounts};
use super::cache::{Cache, CacheStats};
use super::layout::{FIRST_PAGE, PAGE_SIZE, offset_of};
use super::meta::{self, Meta, Secret};
use super::paging::EpochGuard;
use super::prefault::Prefault;
use super::slots::{Pin, Reader, Slots};
use super::view::View;
use super::writer::PageWriter;
use super::{PageId, PageSource, free_list};
use crate::cipher::{Key, Keys};
use crate::disk::{Disk, DiskFile};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::{Corruption, Error, Result};

/// No checkpoint is being written.
const NOT_FLUSHING: u64 = u64::MAX;
/// Default size of the page cache of an encrypted file, in pages: 64 MiB.
const CACHE: usize = 16 << 10;
/// The least the file is asked to grow by when the disk refuses a full step.
const SMALL_STEP: u32 = 16;

/// How a page file grows.
#[derive(Debug, Clone)]
pub struct PagerOptions {
    /// The most bytes the file may have while it is open: the address space reserved for it. If the system does
    /// not give as much, less is reserved.
    pub max_bytes: u64,
    /// Pages the file grows by at least; large files grow by a sixteenth.
    pub growth: u32,
    /// The most pages in memory, of a file that is not to be mapped.
    pub cache: Option<usize>,
    /// The key of an encrypted file. It is never mapped.
    pub key: Option<Key>,
}

impl Default for PagerOptions {
    fn default() -> Self {
        PagerOptions { max_bytes: 1 << 40, growth: 256, cache: None, key: None }
    }
}

/// What a file was opened with.
#[derive(Debug)]
pub struct Opened {
    /// The checkpoint.
    pub meta: Meta,
    /// The owner's state in its free list.
    pub state: Vec<u8>,
    /// What is wrong with the other meta page, if something is. If the log does not reach back to `meta`, the
    /// newest checkpoint was lost to damage and this is the error to report.
    pub other: Option<Corruption>,
    /// The keys, if it is encrypted: those of the log and of values are among them.
    pub(crate) keys: Option<Arc<Keys>>,
}

/// A checkpoint on its way to the disk, made by [`Pager::start_checkpoint`].
#[derive(Debug)]
pub struct Checkpoint {
    meta: Meta,
    dirty: Bits,
    free: Vec<u32>,
    state: Vec<u8>,
    free_list: Vec<u32>,
}

impl Checkpoint {
    /// The last log sequence number in it.
    pub fn lsn(&self) -> u64 {
        self.meta.lsn
    }

    /// The transaction number it was given.
    pub fn txn(&self) -> u64 {
        self.meta.txn
    }
}

/// An open page file.
#[derive(Debug)]
pub struct Pager {
    /// Unique among the pagers of this process, also those of the same file.
    id: u64,
    view: View,
    slots: Slots,
    /// Transaction of the last durable checkpoint.
    durable: AtomicU64,
    /// Transaction of the checkpoint being written.
    flushing: AtomicU64,
    /// Number of the next checkpoint.
    number: AtomicU64,
    /// Pages in use according to the last durable checkpoint.
    durable_pages: AtomicU32,
    prefault: Prefault,
    /// Page counts as of the last transaction, for threads other than the writer: used and free, kept and live.
    counts: [AtomicU64; 2],
    growth: u32,
}

impl Pager {
    /// Writes an empty page file to `path`, which must not exist: durable, and there as a whole or not at all. Encrypted,
    /// if there is a key.
    pub fn create(disk: &dyn Disk, path: &Path, key: Option<&Key>) -> Result<()> {
        let secret = key.map(Secret::new).transpose()?;
        let dir = path.parent().unwrap_or(Path::new("."));
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(".new");
        let draft = dir.join(name);
        let file = disk.open(&draft, true)?;
        file.set_len(0)?;
        file.set_len(offset_of(FIRST_PAGE))?;
        for number in 0..2 {
            let meta = Meta { number, pages: FIRST_PAGE, ..Meta::default() };
            file.write_at(&meta.encode(secret.as_ref())?, offset_of(number as u32))?;
        }
        file.sync()?;
        disk.rename(&draft, path)?;
        disk.sync_dir(dir)
    }

    /// Opens the file at its newest checkpoint.
    pub fn open(disk: &dyn Disk, path: &Path, options: PagerOptions) -> Result<(Pager, Allocator, Opened)> {
        let file = disk.open(path, false)?;
        let meta::Chosen { meta, secret, other } = meta::choose(&*file, options.key.as_ref())?;
        let cache = options.cache.or(secret.is_some().then_some(CACHE));
        let keys = secret.as_ref().map(|secret| Arc::clone(&secret.keys));
        // A process that died may have left a checkpoint that only the system knows. Pages of the one before must
        // not be reused until it is durable.
        file.sync()?;
        let pages = (file.len()? / PAGE_SIZE as u64).min(u32::MAX.into()) as u32;
        let capacity = (options.max_bytes / PAGE_SIZE as u64).min(u32::MAX.into()) as u32;
        let view = map_as_much_as_possible(&file, pages, capacity, meta.txn, cache, secret)?;
        let free_list = {
            let _epoch = view.enter_epoch();
            free_list::read(&view, meta.free_list, meta.free_list_len, meta.pages)?
        };
        let alloc = Allocator::new(meta.txn, meta.pages, free_list.free, free_list.pages);
        static OPENED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let pager = Pager {
            id: OPENED.fetch_add(1, Ordering::Relaxed),
            view,
            slots: Slots::new(meta.txn, &meta.root),
            durable: AtomicU64::new(meta.txn),
            flushing: AtomicU64::new(NOT_FLUSHING),
            number: AtomicU64::new(meta.number + 1),
            durable_pages: AtomicU32::new(meta.pages),
            prefault: Prefault::new(meta.pages),
            counts: Default::default(),
            growth: options.growth.max(SMALL_STEP),
        };
        pager.store_counts(&alloc);
        Ok((pager, alloc, Opened { meta, state: free_list.state, other, keys }))
    }

    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// Its number, that no other pager has while this process lives.
    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The file's path, for messages.
    pub fn path(&self) -> &Path {
        self.view.path()
    }

    /// Bytes of the file.
    pub fn file_bytes(&self) -> u64 {
        offset_of(self.view.pages())
    }

    /// True if the file is mapped, so that slices of pages may be kept as long as a pin.
    #[inline]
    pub fn is_mapped(&self) -> bool {
        self.view.cache.is_none()
    }

    /// Turns the system's read-ahead on or off.
    pub fn read_ahead(&self, on: bool) {
        self.view.read_ahead(on);
    }

    /// Enters an epoch. Pages of a file that is not mapped are read within one, and slices of them must not be used after
    /// its end, unless the page is pinned.
    #[inline]
    pub(crate) fn enter_epoch(&self) -> EpochGuard<'_> {
        self.view.enter_epoch()
    }

    /// Keeps a page that has just been read in memory until [`Cache::unpin_page`]; nothing in a mapped file. Call within an epoch.
    pub(crate) fn pin_page(&self, page: PageId) -> Result<()> {
        self.view.pin_page(page.0)
    }

    /// The page cache, of a file that is not mapped.
    #[inline]
    pub(crate) fn cache(&self) -> Option<&Arc<Cache>> {
        self.view.cache.as_ref()
    }

    /// Evicts pages between two changes; for the writer, outside of an epoch.
    #[inline]
    pub(crate) fn evict_for_writer(&self) {
        self.view.evict_for_writer();
    }

    /// Statistics of the cache, of a file that is not mapped.
    pub fn cache_stats(&self) -> Option<CacheStats> {
        self.view.cache.as_ref().map(|cache| cache.stats())
    }

    /// Pins the current transaction: no page it can reach is reused until [`Pager::unpin`].
    #[inline]
    pub fn pin(&self) -> Pin {
        self.slots.pin()
    }

    /// Ends a pin.
    #[inline]
    pub fn unpin(&self, pin: &Pin) {
        self.slots.release(pin);
    }

    /// Transactions pinned now, oldest first; for the owner's own reclamation.
    pub fn pinned(&self) -> Vec<u64> {
        let mut pins = Vec::new();
        self.slots.pinned(&mut pins);
        pins.sort_unstable();
        pins
    }

    /// Who holds a pin now, the oldest transaction first.
    pub fn readers(&self) -> Vec<Reader> {
        self.slots.readers()
    }

    /// The current transaction's number.
    pub fn current(&self) -> u64 {
        self.slots.current()
    }

    /// The last durable checkpoint's transaction.
    pub fn durable(&self) -> u64 {
        self.durable.load(Ordering::SeqCst)
    }

    /// Begins a transaction: frees what no reader or checkpoint keeps any more.
    pub fn begin(&self, alloc: &mut Allocator) {
        self.begin_later(alloc, 0);
    }

    /// Begins a transaction whose number is so many after the next one.
    #[inline]
    pub fn begin_later(&self, alloc: &mut Allocator, skipped: u64) {
        alloc.begin(self.slots.current().saturating_add(1).saturating_add(skipped));
        let mut pins = std::mem::take(&mut alloc.pins);
        pins.clear();
        self.slots.survey(&mut pins);
        // In this order: a checkpoint that ends between the two looks is durable first and no longer being written
        // afterwards, so it is met by one of them. The other way round it could be missed by both.
        let flushing = self.flushing.load(Ordering::SeqCst);
        if flushing != NOT_FLUSHING {
            pins.push(flushing);
        }
        pins.push(self.durable());
        pins.sort_unstable();
        alloc.reclaim(&pins);
        alloc.pins = pins;
    }

    /// The pages of the transaction in progress.
    #[inline]
    pub fn writer<'a>(&'a self, alloc: &'a mut Allocator) -> PageWriter<'a> {
        PageWriter::new(self, alloc)
    }

    /// Ends the transaction in progress and makes it, with `root`, the one that readers get. Returns its number.
    pub fn publish(&self, alloc: &mut Allocator, root: &[u8; 16]) -> u64 {
        alloc.commit();
        // Savepoints skip numbers. The records of even and odd transactions take turns, so that the one that readers
        // copy is not written to.
        if alloc.txn.abs_diff(self.slots.current()).is_multiple_of(2) {
            alloc.txn += 1;
        }
        self.slots.publish(alloc.txn, root);
        if let Some(cache) = &self.view.cache {
            cache.published.store(alloc.txn, Ordering::Release);
        }
        self.store_counts(alloc);
        alloc.txn
    }

    fn store_counts(&self, alloc: &Allocator) {
        let PageCounts { used, free, kept, live } = alloc.counts();
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        self.counts[0].store(pair(used, free), Ordering::Relaxed);
        self.counts[1].store(pair(kept, live), Ordering::Relaxed);
    }

    /// How the pages were used after the last transaction; any thread may ask.
    pub fn last_counts(&self) -> PageCounts {
        let [a, b] = [&self.counts[0], &self.counts[1]].map(|pair| pair.load(Ordering::Relaxed));
        PageCounts { used: a as u32, free: (a >> 32) as u32, kept: b as u32, live: (b >> 32) as u32 }
    }

    /// Ends the transaction in progress as if it had never been.
    pub fn roll_back(&self, alloc: &mut Allocator) {
        alloc.roll_back();
        alloc.begin(self.slots.current());
    }

    /// A page never used before, growing the file if there is none.
    pub(crate) fn extend(&self, alloc: &mut Allocator) -> Result<u32> {
        let page = match alloc.extend(self.view.pages()) {
            Some(page) => page,
            None => {
                self.grow()?;
                alloc.extend(self.view.pages()).ok_or_else(|| self.full())?
            }
        };
        self.prefault.took(&self.view, page, alloc.extended());
        Ok(page)
    }

    /// True, once, if the writer takes pages so fast that another thread should call [`make_ready`](Pager::make_ready).
    #[inline]
    pub(crate) fn wants_pages(&self) -> bool {
        self.prefault.wants()
    }

    /// Makes pages that the writer is about to take present, concurrently with the writer: grows the file if necessary, so
    /// that the first stores to them cause no page fault.
    pub(crate) fn make_ready(&self) {
        self.prefault.make_ready(&self.view);
    }

    fn full(&self) -> Error {
        Error::DiskFull { path: self.path().to_path_buf() }
    }

    fn grow(&self) -> Result<()> {
        let pages = self.view.pages();
        let target = pages.saturating_add(self.step(pages)).min(self.view.capacity());
        if target <= pages {
            return Err(self.full());
        }
        match self.view.grow_early(target) {
            // A nearly full disk may still have room for a little, or get it.
            Err(Error::DiskFull { .. }) => self.view.grow(pages + SMALL_STEP.min(target - pages)),
            other => other,
        }
    }

    /// Sorts the free pages, so that the lowest are taken next. Returns where the live pages would end if they were
    /// contiguous.
    pub(crate) fn sort_free_pages(&self, alloc: &mut Allocator) -> u32 {
        alloc.sort_free();
        let counts = alloc.counts();
        FIRST_PAGE + counts.live
    }

    /// Forgets free pages at the file's end, so that the next checkpoint is without them and [`Pager::shrink`] can cut
    /// them off: all of them, or none unless more than half of all pages are free. Call as the writer, between
    /// transactions.
    pub fn trim(&self, alloc: &mut Allocator, all: bool) {
        self.begin(alloc);
        let counts = alloc.counts();
        if all || counts.free > counts.used / 2 {
            // New pages are then taken from the front, so that the free end grows.
            alloc.sort_free();
            alloc.trim();
            self.store_counts(alloc);
        }
    }

    /// Shortens the file if it has many pages after those in use. It keeps `slack` of them; without `slack`, as many as the
    /// file would grow by, and then only if a quarter of the file can be cut off. Call as the writer,
    /// between transactions, with no checkpoint being written.
    pub fn shrink(&self, alloc: &Allocator, slack: Option<u32>) -> Result<()> {
        let used = alloc.high().max(self.durable_pages.load(Ordering::Relaxed));
        let pages = self.view.pages();
        let target = used.saturating_add(slack.unwrap_or_else(|| self.step(used)));
        let least = if slack.is_some() { 1 } else { (pages / 4).max(self.growth.saturating_mul(4)) };
        if target.saturating_add(least) > pages {
            return Ok(());
        }
        self.prefault.cut(target);
        self.view.shrink(target)
    }

    /// Pages a file of `pages` grows by.
    fn step(&self, pages: u32) -> u32 {
        self.growth.max(pages / 16)
    }

    /// Begins a checkpoint of the current transaction: assigns it a number, takes the list of pages to
    /// flush and writes down the free ones. Call as the writer, between transactions; `lsn` is the last log
    /// sequence number applied, `state` the owner's own. `DiskFull` if the free list finds no room; nothing changed.
    pub fn start_checkpoint(&self, alloc: &mut Allocator, lsn: u64, state: Vec<u8>) -> Result<Checkpoint> {
        self.begin(alloc);
        let _epoch = self.enter_epoch();
        let root = self.peek_root();
        let len = free_list::len_of(alloc.free_count() + alloc.free_list.len(), state.len());
        let old = std::mem::take(&mut alloc.free_list);
        let mut pages = Vec::with_capacity(len.div_ceil(free_list::room(self.view.payload())));
        let mut writer = self.writer(alloc);
        let mut turn_over = || -> Result<()> {
            for &page in &old {
                super::PageSink::free(&mut writer, PageId(page))?;
            }
            for _ in 0..len.div_ceil(free_list::room(self.view.payload())) {
                pages.push(super::PageSink::allocate(&mut writer)?.0);
            }
            // They are filled when they are published already.
            pages.iter().try_for_each(|&page| self.view.pin_page(page))
        };
        if let Err(error) = turn_over() {
            alloc.free_list = old;
            self.roll_back(alloc);
            return Err(error);
        }
        alloc.free_list.clone_from(&pages);
        self.flushing.store(alloc.txn, Ordering::SeqCst);
        let txn = self.publish(alloc, &root);
        let free = alloc.all_free();
        let meta = Meta {
            number: self.number.load(Ordering::Relaxed),
            txn,
            lsn,
            pages: alloc.high(),
            free_list: pages.first().copied().unwrap_or(0),
            free_list_len: free_list::len_of(free.len(), state.len()) as u64,
            root,
        };
        Ok(Checkpoint { meta, dirty: alloc.take_dirty(), free, state, free_list: pages })
    }

    fn peek_root(&self) -> [u8; 16] {
        let pin = self.pin();
        let root = *pin.root();
        self.unpin(&pin);
        root
    }

    /// Completes a checkpoint: checksums, flush, meta page, flush. Readers and the writer are not blocked.
    /// After an error it is unknown whether the checkpoint is durable, and nothing more may be written.
    pub fn finish_checkpoint(&self, checkpoint: Checkpoint) -> Result<()> {
        let Checkpoint { meta, dirty, free, state, free_list: pages } = checkpoint;
        let bytes = free_list::encode(&free, &state);
        for (index, &page) in pages.iter().enumerate() {
            // SAFETY: the page was allocated for this free list, which no one reads before the file is opened again; it has been
            // pinned since then.
            let payload = unsafe { self.view.payload_mut(page) }?;
            free_list::fill(payload, &bytes, index, &pages);
        }
        for page in dirty.iter() {
            self.view.seal(page)?;
        }
        if let Some(cache) = &self.view.cache {
            pages.iter().for_each(|&page| cache.unpin_page(page));
        }
        let file = self.view.file();
        file.sync()?;
        file.write_at(&meta.encode(self.view.secret.as_ref())?, offset_of((meta.number % 2) as u32))?;
        file.sync()?;
        self.number.store(meta.number + 1, Ordering::Relaxed);
        self.durable_pages.store(meta.pages, Ordering::Relaxed);
        self.durable.store(meta.txn, Ordering::SeqCst);
        self.flushing.store(NOT_FLUSHING, Ordering::SeqCst);
        Ok(())
    }

    /// Dead pages that only the last checkpoint keeps: what the next one will free.
    pub fn kept_by_checkpoint(&self, alloc: &Allocator) -> usize {
        alloc.kept_by(self.durable())
    }

    /// How the pages are used.
    pub fn counts(&self, alloc: &Allocator) -> PageCounts {
        alloc.counts()
    }

    /// Begins the page accounting; call as the writer, between transactions, with no checkpoint being written.
    ///
    /// # Errors
    /// `Corrupt` if the free pages are not each there once.
    pub fn account_pages<'a>(&'a self, alloc: &'a Allocator) -> Result<PageAccounting<'a>> {
        PageAccounting::new(self, alloc)
    }
}

impl PageSource for Pager {
    #[inline]
    fn page(&self, id: PageId) -> Result<&[u8]> {
        self.view.page(id)
    }

    #[inline]
    fn prefetch_lines(&self, id: PageId, from: usize, lines: usize) {
        self.view.prefetch_lines(id, from, lines);
    }

    #[cold]
    fn damaged(&self, id: PageId, at: usize, expected: &str, found: &str) -> Error {
        self.view.damaged(id, at, expected, found)
    }
}

/// Maps the file with as much address space as the system gives, up to `capacity` pages.
fn map_as_much_as_possible(
    file: &Arc<dyn DiskFile>,
    pages: u32,
    capacity: u32,
    opened_at: u64,
    cache: Option<usize>,
    secret: Option<Secret>,
) -> Result<View> {
    let mut capacity = capacity.max(pages);
    loop {
        let cache = cache.map(|budget| Cache::new(budget, opened_at));
        match View::new(Arc::clone(file), pages, capacity, opened_at, cache, secret.clone()) {
            Err(Error::Io { .. }) if capacity / 2 > pages => capacity /= 2,
            other => return other,
        }
    }
}
