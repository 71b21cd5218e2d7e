//! Pages of a relation in the buffer pool.
//!
//! A [`Page`] is pinned and locked; dropping it unlocks and unpins. When the stack unwinds from an error nothing is
//! released here: the server has already given up its own count of held interrupts, and aborting the transaction
//! releases every lock and pin.

use pgrx::pg_sys;

/// Bytes of a page.
pub(crate) const PAGE_SIZE: usize = pg_sys::BLCKSZ as usize;

/// How a page is locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lock {
    /// Others may read too.
    Share,
    /// Nobody else.
    Exclusive,
}

impl Lock {
    fn mode(self) -> i32 {
        match self {
            Lock::Share => pg_sys::BUFFER_LOCK_SHARE as i32,
            Lock::Exclusive => pg_sys::BUFFER_LOCK_EXCLUSIVE as i32,
        }
    }
}

/// A page, pinned and locked.
pub(crate) struct Page {
    buffer: pg_sys::Buffer,
    lock: Lock,
}

impl Page {
    /// Reads and locks block `block` of the main fork. The caller has seen that it is not the invalid block number.
    pub(crate) fn read(relation: pg_sys::Relation, block: u32, lock: Lock) -> Page {
        // SAFETY: an open relation; the server raises an error for a block outside it.
        unsafe {
            let buffer = pg_sys::ReadBuffer(relation, block);
            pg_sys::LockBuffer(buffer, lock.mode());
            Page { buffer, lock }
        }
    }

    /// The same through a ring of buffers, for passes over a whole relation.
    pub(crate) fn read_with(
        relation: pg_sys::Relation,
        block: u32,
        lock: Lock,
        strategy: pg_sys::BufferAccessStrategy,
    ) -> Page {
        // SAFETY: as above; a null strategy is allowed.
        unsafe {
            let buffer = pg_sys::ReadBufferExtended(
                relation,
                pg_sys::ForkNumber::MAIN_FORKNUM,
                block,
                pg_sys::ReadBufferMode::RBM_NORMAL,
                strategy,
            );
            pg_sys::LockBuffer(buffer, lock.mode());
            Page { buffer, lock }
        }
    }

    /// Reads a block and locks it when nobody else has it pinned.
    pub(crate) fn read_for_cleanup(
        relation: pg_sys::Relation,
        block: u32,
        strategy: pg_sys::BufferAccessStrategy,
    ) -> Page {
        // SAFETY: as above.
        unsafe {
            let buffer = pg_sys::ReadBufferExtended(
                relation,
                pg_sys::ForkNumber::MAIN_FORKNUM,
                block,
                pg_sys::ReadBufferMode::RBM_NORMAL,
                strategy,
            );
            pg_sys::LockBufferForCleanup(buffer);
            Page { buffer, lock: Lock::Exclusive }
        }
    }

    /// Reads a block and locks it exclusively if that is possible at once.
    pub(crate) fn try_exclusive(relation: pg_sys::Relation, block: u32) -> Option<Page> {
        // SAFETY: as above.
        unsafe {
            let buffer = pg_sys::ReadBuffer(relation, block);
            if pg_sys::ConditionalLockBuffer(buffer) {
                return Some(Page { buffer, lock: Lock::Exclusive });
            }
            pg_sys::ReleaseBuffer(buffer);
            None
        }
    }

    /// A block to be written over, whatever is in it: locked exclusively, and not read from disk.
    pub(crate) fn overwrite(relation: pg_sys::Relation, block: u32) -> Page {
        // SAFETY: as above.
        unsafe {
            let buffer = pg_sys::ReadBufferExtended(
                relation,
                pg_sys::ForkNumber::MAIN_FORKNUM,
                block,
                pg_sys::ReadBufferMode::RBM_ZERO_AND_LOCK,
                std::ptr::null_mut(),
            );
            Page { buffer, lock: Lock::Exclusive }
        }
    }

    /// A new block at the end of `fork`, zero-filled and locked exclusively. The caller keeps others from extending.
    pub(crate) fn extend(relation: pg_sys::Relation, fork: pg_sys::ForkNumber::Type) -> Page {
        // SAFETY: as above; the invalid block number asks for a new block.
        unsafe {
            let buffer = pg_sys::ReadBufferExtended(
                relation,
                fork,
                pg_sys::InvalidBlockNumber,
                pg_sys::ReadBufferMode::RBM_NORMAL,
                std::ptr::null_mut(),
            );
            pg_sys::LockBuffer(buffer, Lock::Exclusive.mode());
            Page { buffer, lock: Lock::Exclusive }
        }
    }

    /// A new block at the end of the main fork, keeping others from extending where others can.
    pub(crate) fn extend_shared(relation: pg_sys::Relation) -> Page {
        while_nobody_extends(relation, || Page::extend(relation, pg_sys::ForkNumber::MAIN_FORKNUM))
    }

    /// The block's number.
    pub(crate) fn block(&self) -> u32 {
        // SAFETY: pinned.
        unsafe { pg_sys::BufferGetBlockNumber(self.buffer) }
    }

    /// The server's handle.
    pub(crate) fn buffer(&self) -> pg_sys::Buffer {
        self.buffer
    }

    /// All bytes of the page.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: pinned and locked for as long as `self` lives; nobody writes under either lock but its exclusive
        // holder, who does so through `bytes_mut` or a WAL record, both of which borrow `self`.
        unsafe { std::slice::from_raw_parts(pg_sys::BufferGetPage(self.buffer).cast::<u8>(), PAGE_SIZE) }
    }

    /// All bytes, to be written without WAL (builds, which log whole pages afterwards). Marks the page dirty.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        debug_assert_eq!(self.lock, Lock::Exclusive);
        // SAFETY: locked exclusively for as long as `self` lives.
        unsafe {
            pg_sys::MarkBufferDirty(self.buffer);
            std::slice::from_raw_parts_mut(pg_sys::BufferGetPage(self.buffer).cast::<u8>(), PAGE_SIZE)
        }
    }

    /// Unlocks but keeps the pin, which the caller gives back with [`unpin`].
    pub(crate) fn into_pin(self) -> pg_sys::Buffer {
        let buffer = self.buffer;
        std::mem::forget(self);
        // SAFETY: locked by us.
        unsafe { pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_UNLOCK as i32) };
        buffer
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: locked and pinned by us.
            unsafe { pg_sys::UnlockReleaseBuffer(self.buffer) }
        }
    }
}

/// Does `work` while nobody else can add a block to the relation.
fn while_nobody_extends<T>(relation: pg_sys::Relation, work: impl FnOnce() -> T) -> T {
    // SAFETY: an open relation. An error in between ends the transaction, which gives the lock back.
    unsafe {
        let own = (*relation).rd_islocaltemp || (*relation).rd_createSubid != 0;
        if !own {
            pg_sys::LockRelationForExtension(relation, pg_sys::ExclusiveLock as i32);
        }
        let done = work();
        if !own {
            pg_sys::UnlockRelationForExtension(relation, pg_sys::ExclusiveLock as i32);
        }
        done
    }
}

/// How many blocks the main fork has. Whoever added them by [`Page::extend_shared`] has latched them already.
pub(crate) fn settled_blocks(relation: pg_sys::Relation) -> u32 {
    while_nobody_extends(relation, || {
        // SAFETY: an open relation.
        unsafe { pg_sys::RelationGetNumberOfBlocksInFork(relation, pg_sys::ForkNumber::MAIN_FORKNUM) }
    })
}

/// Whether the main fork has this block. Asks the file system only if it had fewer blocks the last time.
pub(crate) fn has_block(relation: pg_sys::Relation, block: u32) -> bool {
    // SAFETY: an open relation, whose storage handle lives as long as we look at it.
    unsafe {
        let known = (*pg_sys::RelationGetSmgr(relation)).smgr_cached_nblocks;
        known.first().is_some_and(|known| *known != pg_sys::InvalidBlockNumber && block < *known)
            || block < pg_sys::RelationGetNumberOfBlocksInFork(relation, pg_sys::ForkNumber::MAIN_FORKNUM)
    }
}

/// Gives back a pin of [`Page::into_pin`].
pub(crate) fn unpin(buffer: pg_sys::Buffer) {
    // SAFETY: the caller holds the pin.
    unsafe { pg_sys::ReleaseBuffer(buffer) }
}
