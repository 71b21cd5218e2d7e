//! Parts of the server's headers that the generated bindings leave out (macros): tuple header flags, item pointers,
//! and the heap functions of headers that the bindings do not read.

use pgrx::pg_sys;

/// The most line pointers a page of a table can have, for pages of 8 KiB; also the greatest offset there.
pub(crate) const MAX_TUPLES_PER_PAGE: usize = 291;

/// "Any row version": a static of the server.
pub(crate) fn snapshot_any() -> pg_sys::Snapshot {
    &raw mut pg_sys::SnapshotAnyData
}

/// A tuple without index entries of its own, reached through its HOT chain.
pub(crate) unsafe fn is_heap_only(header: pg_sys::HeapTupleHeader) -> bool {
    // SAFETY: the caller passes a tuple header in a pinned page.
    unsafe { u32::from((*header).t_infomask2) & pg_sys::HEAP_ONLY_TUPLE != 0 }
}

/// A tuple whose successor is in the same HOT chain.
pub(crate) unsafe fn is_hot_updated(header: pg_sys::HeapTupleHeader) -> bool {
    // SAFETY: as above.
    unsafe {
        let (mask, mask2) = (u32::from((*header).t_infomask), u32::from((*header).t_infomask2));
        let xmin = pg_sys::HEAP_XMIN_COMMITTED | pg_sys::HEAP_XMIN_INVALID;
        mask2 & pg_sys::HEAP_HOT_UPDATED != 0
            && mask & pg_sys::HEAP_XMAX_INVALID == 0
            && mask & xmin != pg_sys::HEAP_XMIN_INVALID
    }
}

/// The inserting transaction.
pub(crate) unsafe fn xmin(header: pg_sys::HeapTupleHeader) -> pg_sys::TransactionId {
    // SAFETY: as above; xmin is valid in every tuple.
    unsafe {
        let frozen = pg_sys::HEAP_XMIN_COMMITTED | pg_sys::HEAP_XMIN_INVALID;
        if u32::from((*header).t_infomask) & frozen == frozen {
            return pg_sys::FrozenTransactionId;
        }
        (*header).t_choice.t_heap.t_xmin
    }
}

/// The updating or deleting transaction, looked up in the multixact where there is one.
pub(crate) unsafe fn update_xid(header: pg_sys::HeapTupleHeader) -> pg_sys::TransactionId {
    // SAFETY: as above.
    unsafe {
        let mask = u32::from((*header).t_infomask);
        if mask & pg_sys::HEAP_XMAX_INVALID == 0
            && mask & pg_sys::HEAP_XMAX_IS_MULTI != 0
            && mask & pg_sys::HEAP_XMAX_LOCK_ONLY == 0
        {
            return pg_sys::HeapTupleGetUpdateXid(header);
        }
        (*header).t_choice.t_heap.t_xmax
    }
}

/// An item pointer.
pub(crate) fn tid(block: u32, offset: u16) -> pg_sys::ItemPointerData {
    pg_sys::ItemPointerData {
        ip_blkid: pg_sys::BlockIdData { bi_hi: (block >> 16) as u16, bi_lo: block as u16 },
        ip_posid: offset,
    }
}

/// Block and offset of an item pointer.
pub(crate) fn tid_parts(tid: pg_sys::ItemPointerData) -> (u32, u16) {
    ((u32::from(tid.ip_blkid.bi_hi) << 16) | u32::from(tid.ip_blkid.bi_lo), tid.ip_posid)
}

/// State of a table rewrite (VACUUM FULL, CLUSTER); opaque.
#[repr(C)]
pub(crate) struct RewriteStateData {
    _private: [u8; 0],
}

#[pgrx::pg_guard]
unsafe extern "C-unwind" {
    /// Begins a rewrite of `old` into `new`, keeping update chains together and freezing what is old enough.
    pub(crate) fn begin_heap_rewrite(
        old: pg_sys::Relation,
        new: pg_sys::Relation,
        oldest_xmin: pg_sys::TransactionId,
        freeze_xid: pg_sys::TransactionId,
        cutoff_multi: pg_sys::MultiXactId,
    ) -> *mut RewriteStateData;
    /// Writes out the last page and syncs.
    pub(crate) fn end_heap_rewrite(state: *mut RewriteStateData);
    /// Adds `new_tuple`, a new form of `old_tuple`.
    pub(crate) fn rewrite_heap_tuple(
        state: *mut RewriteStateData,
        old_tuple: pg_sys::HeapTuple,
        new_tuple: pg_sys::HeapTuple,
    );
    /// Tells of a dead tuple; true if that makes an earlier recently dead one dead too.
    pub(crate) fn rewrite_heap_dead_tuple(state: *mut RewriteStateData, old_tuple: pg_sys::HeapTuple)
    -> bool;
}
