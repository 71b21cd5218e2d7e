//! Pages of an index in the buffer pool.
//!
//! A [`Page`] is pinned and locked; dropping it unlocks and unpins. How it is locked is part of its type: only a
//! `Page<Exclusive>` can be written, by [`Page::bytes_mut`] or by [`write`](super::wal::write). When the stack
//! unwinds from an error nothing is released here: the server has already given up its own count of held
//! interrupts, and aborting the transaction releases every lock and pin.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;

use pgrx::pg_sys;
use treedb_vector::kernel::prefetch_line;

use super::relation::{Index, Relation};
use super::{compat, unguarded};

/// Bytes of a page.
pub(crate) const PAGE_SIZE: usize = pg_sys::BLCKSZ as usize;

mod sealed {
    /// The two ways of locking a page.
    pub(crate) trait Mode {
        const MODE: u32;
    }
}

/// How a page is locked: [`Shared`] or [`Exclusive`].
pub(crate) trait LockMode: sealed::Mode {}

/// Others may read too.
pub(crate) enum Shared {}

/// Nobody else reads or writes.
pub(crate) enum Exclusive {}

impl sealed::Mode for Shared {
    const MODE: u32 = pg_sys::BUFFER_LOCK_SHARE;
}

impl sealed::Mode for Exclusive {
    const MODE: u32 = pg_sys::BUFFER_LOCK_EXCLUSIVE;
}

impl LockMode for Shared {}
impl LockMode for Exclusive {}

/// Buffers that a pass over a whole relation uses again and again, so that it does not evict everything else.
#[derive(Clone, Copy)]
pub(crate) struct Strategy<'s> {
    raw: pg_sys::BufferAccessStrategy,
    lifetime: PhantomData<&'s ()>,
}

impl Strategy<'_> {
    /// # Safety
    /// A strategy of the server's that lives for the lifetime of the result, or null for none.
    pub(super) unsafe fn from_raw(raw: pg_sys::BufferAccessStrategy) -> Self {
        Strategy { raw, lifetime: PhantomData }
    }
}

/// The buffers in which this backend has found the blocks of an index. They may hold other blocks by now, which the server
/// notices: it is less work than looking a block up.
#[derive(Default)]
pub(crate) struct RecentBuffers {
    /// By blocks; 0 for none.
    buffers: Vec<pg_sys::Buffer>,
}

/// One of so many pages that are found where they were before is looked up all the same.
const COUNTED: u8 = 16;

/// Whether a page is to be looked up although it is known where it was: only that raises the count by which the server keeps pages. One that
/// is read all the time would be evicted first otherwise.
fn is_counted() -> bool {
    thread_local! {
        static READ: Cell<u8> = const { Cell::new(0) };
    }
    READ.with(|read| {
        read.set((read.get() + 1) % COUNTED);
        read.get() == 0
    })
}

impl RecentBuffers {
    /// Asks the processor to bring one byte and a part of a block nearer that are about to be read, if it was read before.
    #[inline]
    pub(crate) fn prefetch(&self, block: u32, byte: usize, part: Range<usize>) {
        let known = self.buffers.get(block as usize).copied().unwrap_or(0);
        if known <= 0 || byte >= PAGE_SIZE || part.end > PAGE_SIZE {
            return;
        }
        // SAFETY: a shared buffer of this number was pinned before, and buffers stay where they are. Nothing is read.
        let (page, descriptors) =
            unsafe { (pg_sys::BufferGetPage(known).cast::<u8>(), pg_sys::BufferDescriptors) };
        // What the server pins and locks the buffer by: a line of its own, which is not beside the page.
        prefetch_line(descriptors.wrapping_add(known as usize - 1).cast());
        prefetch_line(page.wrapping_add(byte));
        // A plain loop: this is done for each line of each node.
        let mut at = part.start;
        while at < part.end {
            prefetch_line(page.wrapping_add(at));
            at += LINE;
        }
    }
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// The hole of a page, as the server's header says it, unchecked.
pub(crate) fn hole_of(page: &[u8]) -> Range<usize> {
    const LOWER: usize = std::mem::offset_of!(pg_sys::PageHeaderData, pd_lower);
    const UPPER: usize = std::mem::offset_of!(pg_sys::PageHeaderData, pd_upper);
    let word = |at: usize| {
        let bytes = page.get(at..).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| usize::from(u16::from_ne_bytes(*bytes)))
    };
    word(LOWER)..word(UPPER)
}

/// A page, pinned and locked.
pub(crate) struct Page<L: LockMode> {
    buffer: pg_sys::Buffer,
    block: u32,
    /// A raw pointer, so that a page is not `Send`, and cannot be kept where only what is `Send` can.
    lock: PhantomData<(L, *mut ())>,
}

impl<L: LockMode> Page<L> {
    /// Locks a buffer that is pinned.
    ///
    /// # Safety
    /// The caller gives up its pin of this buffer.
    unsafe fn lock(buffer: pg_sys::Buffer) -> Page<L> {
        // SAFETY: pinned.
        unsafe { pg_sys::LockBuffer(buffer, L::MODE as i32) };
        // SAFETY: pinned and locked.
        unsafe { Page::of(buffer) }
    }

    /// # Safety
    /// The caller gives up its pin and its lock of this buffer.
    unsafe fn of(buffer: pg_sys::Buffer) -> Page<L> {
        // SAFETY: pinned.
        Page { buffer, block: unsafe { pg_sys::BufferGetBlockNumber(buffer) }, lock: PhantomData }
    }

    /// Reads and locks a block of the main fork; an SQL error if the index does not have it.
    pub(crate) fn read(index: Index<'_>, block: u32) -> Page<L> {
        expect_block(index, block);
        let relation = index.raw();
        // SAFETY: an open index; the server raises an error for a block outside it. Nothing in the boundary needs to be
        // dropped.
        let buffer = unsafe {
            unguarded::guard(|| {
                let buffer = unguarded::ReadBuffer(relation, block);
                unguarded::LockBuffer(buffer, L::MODE as i32);
                buffer
            })
        };
        Page { buffer, block, lock: PhantomData }
    }

    /// The same, rather in the buffer where it was found before. Not for an index with local buffers.
    pub(crate) fn read_recent(index: Index<'_>, block: u32, recent: &mut RecentBuffers) -> Page<L> {
        let known = recent.buffers.get(block as usize).copied().unwrap_or(0);
        if known > 0
            && !is_counted()
            && let Some(page) = Page::lock_recent(index, block, known)
        {
            return page;
        }
        let page = Page::read(index, block);
        let at = block as usize;
        if at >= recent.buffers.len() {
            recent.buffers.resize(at + 1, 0);
        }
        if let Some(place) = recent.buffers.get_mut(at) {
            *place = page.buffer;
        }
        page
    }

    /// The same of the meta page or the root, rather in the buffer where this backend found it the last time.
    pub(crate) fn read_top(index: Index<'_>, block: u32) -> Page<L> {
        let Some(known) = index.cached_buffer(block).filter(|_| !is_counted()) else {
            let page = Page::read(index, block);
            index.cache_buffer(block, page.buffer);
            return page;
        };
        if let Some(page) = Page::lock_recent(index, block, known) {
            return page;
        }
        index.cache_buffer(block, 0);
        Page::read_top(index, block)
    }

    /// The block, locked, if this buffer of the shared ones holds it.
    fn lock_recent(index: Index<'_>, block: u32, known: pg_sys::Buffer) -> Option<Page<L>> {
        // SAFETY: an open index, whose main fork is asked for; the server pins the buffer if it holds the block. Nothing in
        // the boundary needs to be dropped.
        let found = unsafe {
            let file = super::compat::file(index.raw());
            unguarded::guard(|| {
                let found = unguarded::ReadRecentBuffer(file, pg_sys::ForkNumber::MAIN_FORKNUM, block, known);
                if found {
                    unguarded::LockBuffer(known, L::MODE as i32);
                }
                found
            })
        };
        // Made only then: what is dropped is unlocked.
        found.then(|| Page { buffer: known, block, lock: PhantomData })
    }

    /// As [`Page::read`], through a ring of buffers, for passes over a whole index.
    pub(crate) fn read_with(index: Index<'_>, block: u32, strategy: Strategy<'_>) -> Page<L> {
        // SAFETY: as above.
        unsafe {
            Page::lock(buffer_of(index, Fork::Main, block, pg_sys::ReadBufferMode::RBM_NORMAL, strategy.raw))
        }
    }

    /// Gives the page back, then reads and locks another one.
    pub(crate) fn exchange<M: LockMode>(self, index: Index<'_>, block: u32) -> Page<M> {
        expect_block(index, block);
        let (old, relation) = (self.buffer, index.raw());
        std::mem::forget(self);
        // SAFETY: as `read`; the old page is locked and pinned by us.
        let buffer = unsafe {
            unguarded::guard(|| {
                unguarded::UnlockReleaseBuffer(old);
                let buffer = unguarded::ReadBuffer(relation, block);
                unguarded::LockBuffer(buffer, M::MODE as i32);
                buffer
            })
        };
        Page { buffer, block, lock: PhantomData }
    }

    /// The block's number.
    #[inline]
    pub(crate) fn block(&self) -> u32 {
        self.block
    }

    /// The position in the WAL after the last logged change of the page; of an index that is not logged it says
    /// nothing.
    pub(crate) fn wal_position(&self) -> u64 {
        const POSITION: usize = std::mem::offset_of!(pg_sys::PageHeaderData, pd_lsn);
        let half = |at: usize| {
            let bytes = self.bytes().get(POSITION + at..).and_then(|bytes| bytes.first_chunk());
            bytes.map_or(0, |bytes| u64::from(u32::from_ne_bytes(*bytes)))
        };
        half(0) << 32 | half(4)
    }

    /// All bytes of the page.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: pinned and locked for as long as `self` lives. Only the holder of an exclusive lock writes to a
        // page of an index of ours, which has no hint bits: through `bytes_mut` or a WAL record, both of which
        // borrow their page exclusively.
        unsafe { std::slice::from_raw_parts(pg_sys::BufferGetPage(self.buffer).cast::<u8>(), PAGE_SIZE) }
    }

    /// The server's handle.
    pub(super) fn buffer(&self) -> pg_sys::Buffer {
        self.buffer
    }

    /// Unlocks but keeps the pin.
    pub(crate) fn into_pin(self) -> Pin {
        let buffer = self.buffer;
        std::mem::forget(self);
        // SAFETY: locked by us.
        unsafe { pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_UNLOCK as i32) };
        Pin(buffer)
    }
}

impl Page<Exclusive> {
    /// Reads a block and locks it when nobody else has it pinned.
    pub(crate) fn read_for_cleanup(index: Index<'_>, block: u32, strategy: Strategy<'_>) -> Page<Exclusive> {
        // SAFETY: as `read`.
        unsafe {
            let buffer =
                buffer_of(index, Fork::Main, block, pg_sys::ReadBufferMode::RBM_NORMAL, strategy.raw);
            pg_sys::LockBufferForCleanup(buffer);
            Page::of(buffer)
        }
    }

    /// Reads a block and locks it if that is possible at once.
    pub(crate) fn try_read(index: Index<'_>, block: u32) -> Option<Page<Exclusive>> {
        // SAFETY: as `read`.
        unsafe {
            let buffer = pg_sys::ReadBuffer(index.raw(), block);
            if pg_sys::ConditionalLockBuffer(buffer) {
                return Some(Page::of(buffer));
            }
            pg_sys::ReleaseBuffer(buffer);
            None
        }
    }

    /// A block to be written over, whatever is in it: locked, and not read from disk.
    pub(crate) fn overwrite(index: Index<'_>, block: u32) -> Page<Exclusive> {
        let mode = pg_sys::ReadBufferMode::RBM_ZERO_AND_LOCK;
        // SAFETY: as `read`; this mode locks the buffer exclusively.
        unsafe { Page::of(buffer_of(index, Fork::Main, block, mode, std::ptr::null_mut())) }
    }

    /// A new block at the end of `fork`, zero-filled and locked. Only for an index that nobody else adds blocks to.
    pub(crate) fn extend(index: Index<'_>, fork: Fork) -> Page<Exclusive> {
        let mode = pg_sys::ReadBufferMode::RBM_NORMAL;
        // SAFETY: as `read`; the invalid block number asks for a new block.
        unsafe { Page::lock(buffer_of(index, fork, pg_sys::InvalidBlockNumber, mode, std::ptr::null_mut())) }
    }

    /// A new block at the end of the main fork, while others are kept from extending the index.
    pub(crate) fn extend_shared(index: Index<'_>) -> Page<Exclusive> {
        while_extension_locked(*index, || Page::extend(index, Fork::Main))
    }

    /// All bytes, to be written without WAL (builds, which log whole pages afterwards). Marks the page dirty.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: locked exclusively for as long as `self` lives, which is borrowed exclusively.
        unsafe {
            pg_sys::MarkBufferDirty(self.buffer);
            std::slice::from_raw_parts_mut(pg_sys::BufferGetPage(self.buffer).cast::<u8>(), PAGE_SIZE)
        }
    }

    /// Logs the whole page, as pages of an initial fork are.
    pub(crate) fn log(&mut self) {
        // SAFETY: written and locked; nothing between the counters can raise an error but running out of disk, which
        // must then stop the server, as for every initial fork.
        unsafe {
            pg_sys::CritSectionCount += 1;
            pg_sys::log_newpage_buffer(self.buffer, true);
            pg_sys::CritSectionCount -= 1;
        }
    }
}

impl<L: LockMode> Drop for Page<L> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: locked and pinned by us.
            unsafe { unguarded::UnlockReleaseBuffer(self.buffer) }
        }
    }
}

/// Blocks that are added to the main fork at a time: where they are more than 8, the server asks the file system for room, and does not write zeros.
const ADDED: usize = 32;

/// So many new blocks at the end of the main fork of an index that nobody else adds blocks to, one after another. The server adds several at a
/// time, which takes less time than one by one.
pub(crate) struct NewPages<'i> {
    index: Index<'i>,
    /// Blocks that have not been added.
    left: usize,
    /// Those that have been, the next one last.
    pinned: Vec<pg_sys::Buffer>,
}

impl<'i> NewPages<'i> {
    pub(crate) fn new(index: Index<'i>, count: usize) -> NewPages<'i> {
        NewPages { index, left: count, pinned: Vec::with_capacity(ADDED) }
    }

    /// The next one, zero-filled and locked; also if there were to be no more.
    pub(crate) fn add(&mut self) -> Page<Exclusive> {
        if self.pinned.is_empty() {
            self.pinned.resize(self.left.clamp(1, ADDED), 0);
            // SAFETY: an open index.
            let added = unsafe { compat::extend(self.index.raw(), &mut self.pinned) };
            self.pinned.truncate(added as usize);
            self.left = self.left.saturating_sub(self.pinned.len());
            self.pinned.reverse();
        }
        match self.pinned.pop() {
            // SAFETY: pinned, by this alone.
            Some(buffer) => unsafe { Page::lock(buffer) },
            None => Page::extend(self.index, Fork::Main),
        }
    }
}

impl Drop for NewPages<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: pinned by us.
            self.pinned.drain(..).for_each(|buffer| unsafe { pg_sys::ReleaseBuffer(buffer) });
        }
    }
}

/// The pin of a page that is not locked: a vacuum waits for it before it removes entries.
///
/// Dropping it does not release it: a scan may be dropped after its transaction has been aborted, and then the pin
/// is gone already. [`Pin::release`] does; a pin that is not released stays until the end of the transaction.
#[must_use]
pub(crate) struct Pin(pg_sys::Buffer);

impl Pin {
    /// Pins the page once more.
    pub(crate) fn again(&self) -> Pin {
        // SAFETY: an error if this backend does not have the page pinned.
        unsafe { pg_sys::IncrBufferRefCount(self.0) };
        Pin(self.0)
    }

    /// Gives the pin back.
    pub(crate) fn release(self) {
        // SAFETY: the server knows which pins this backend has, and raises an error if this is none of them.
        unsafe { pg_sys::ReleaseBuffer(self.0) }
    }
}

/// The files of an index.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fork {
    Main,
    /// What an unlogged index is reset to after a crash.
    Init,
}

/// Reads a block into a buffer, which is then pinned.
///
/// # Safety
/// The caller makes a [`Page`] or gives back the pin.
unsafe fn buffer_of(
    index: Index<'_>,
    fork: Fork,
    block: u32,
    mode: pg_sys::ReadBufferMode::Type,
    strategy: pg_sys::BufferAccessStrategy,
) -> pg_sys::Buffer {
    let fork = match fork {
        Fork::Main => pg_sys::ForkNumber::MAIN_FORKNUM,
        Fork::Init => pg_sys::ForkNumber::INIT_FORKNUM,
    };
    // SAFETY: an open index; a null strategy is allowed.
    unsafe { pg_sys::ReadBufferExtended(index.raw(), fork, block, mode, strategy) }
}

/// Does `work` while nobody else can add a block to the relation.
fn while_extension_locked<T>(relation: Relation<'_>, work: impl FnOnce() -> T) -> T {
    let lock = pg_sys::ExclusiveLock as i32;
    if relation.is_own() {
        return work();
    }
    // SAFETY: an open relation. An error in between ends the transaction, which gives the lock back.
    unsafe { pg_sys::LockRelationForExtension(relation.raw(), lock) };
    let done = work();
    // SAFETY: locked above.
    unsafe { pg_sys::UnlockRelationForExtension(relation.raw(), lock) };
    done
}

/// How many blocks the main fork has. Whoever added them by [`Page::extend_shared`] has locked them already.
pub(crate) fn settled_blocks(index: Index<'_>) -> u32 {
    while_extension_locked(*index, || index.blocks())
}

/// Whether the main fork has this block. Asks the file system only if it had fewer blocks the last time.
#[inline]
pub(crate) fn has_block(relation: Relation<'_>, block: u32) -> bool {
    // SAFETY: an open relation; its storage handle is null or valid, and not used beyond this.
    let known = unsafe { (*relation.raw()).rd_smgr.as_ref().map(|storage| storage.smgr_cached_nblocks) };
    let known = known.and_then(|blocks| blocks.first().copied());
    known.is_some_and(|known| known != pg_sys::InvalidBlockNumber && block < known)
        || block < relation.blocks()
}

/// Raises an error if the index does not have this block: the server's own error would not say that the index is damaged, and
/// the greatest number stands for a new block at the end.
#[inline]
fn expect_block(index: Index<'_>, block: u32) {
    if !has_block(*index, block) {
        super::error::corrupted(
            &index.shown(),
            block,
            "a page points to this block, which the index does not have",
        );
    }
}

/// Raises an error if the table does not have the block of a row that a page of an index has: only a damaged page leads there, since
/// a table is truncated only while no other backend reads it.
#[inline]
pub(crate) fn expect_row(table: Relation<'_>, index: Index<'_>, page: u32, row: pg_sys::ItemPointerData) {
    let (block, offset) = super::heap::tid_parts(row);
    if !has_block(table, block) {
        let what = format!("an entry is of row ({block},{offset}), which is not in the table");
        super::error::corrupted(&index.shown(), page, what);
    }
}

/// The free space map of an index: pages that may be written over. It is only a hint.
pub(crate) mod free_space {
    use super::{Index, pg_sys};

    /// Takes a page out of the map.
    pub(crate) fn take(index: Index<'_>) -> Option<u32> {
        // SAFETY: an open index.
        let block = unsafe { pg_sys::GetFreeIndexPage(index.raw()) };
        (block != pg_sys::InvalidBlockNumber).then_some(block)
    }

    /// Puts a page into the map.
    pub(crate) fn record(index: Index<'_>, block: u32) {
        // SAFETY: an open index.
        unsafe { pg_sys::RecordFreeIndexPage(index.raw(), block) }
    }

    /// Makes what was recorded known in the upper levels of the map.
    pub(crate) fn publish(index: Index<'_>) {
        // SAFETY: an open index.
        unsafe { pg_sys::IndexFreeSpaceMapVacuum(index.raw()) }
    }
}
