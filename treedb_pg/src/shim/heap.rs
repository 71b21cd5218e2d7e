//! Heap's rows: scans that show every row version, and what a row version's header says.
//!
//! Some of it is what the server has in macros, which the generated bindings leave out.

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr;

use pgrx::pg_sys;

use super::relation::Table;
use super::snapshot::Registered;

/// The most line pointers a page of a table can have, for pages of 8 KiB; also the greatest offset there.
pub(crate) const MAX_TUPLES_PER_PAGE: usize = 291;

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

/// A tuple without index entries of its own, reached through its HOT chain.
///
/// # Safety
/// The header of a tuple in a pinned page or in memory.
unsafe fn is_heap_only(header: pg_sys::HeapTupleHeader) -> bool {
    // SAFETY: the caller's.
    unsafe { u32::from((*header).t_infomask2) & pg_sys::HEAP_ONLY_TUPLE != 0 }
}

/// A tuple whose successor is in the same HOT chain.
///
/// # Safety
/// As above.
unsafe fn is_hot_updated(header: pg_sys::HeapTupleHeader) -> bool {
    // SAFETY: the caller's.
    unsafe {
        let (mask, mask2) = (u32::from((*header).t_infomask), u32::from((*header).t_infomask2));
        let xmin = pg_sys::HEAP_XMIN_COMMITTED | pg_sys::HEAP_XMIN_INVALID;
        mask2 & pg_sys::HEAP_HOT_UPDATED != 0
            && mask & pg_sys::HEAP_XMAX_INVALID == 0
            && mask & xmin != pg_sys::HEAP_XMIN_INVALID
    }
}

/// The inserting transaction.
///
/// # Safety
/// As above.
pub(super) unsafe fn xmin(header: pg_sys::HeapTupleHeader) -> pg_sys::TransactionId {
    // SAFETY: the caller's; xmin is valid in every tuple.
    unsafe {
        let frozen = pg_sys::HEAP_XMIN_COMMITTED | pg_sys::HEAP_XMIN_INVALID;
        if u32::from((*header).t_infomask) & frozen == frozen {
            return pg_sys::FrozenTransactionId;
        }
        (*header).t_choice.t_heap.t_xmin
    }
}

/// The updating or deleting transaction, looked up in the multixact where there is one.
///
/// # Safety
/// As above.
unsafe fn update_xid(header: pg_sys::HeapTupleHeader) -> pg_sys::TransactionId {
    // SAFETY: the caller's.
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

/// A table whose rows are in heap's format and whose scans are heap's.
#[derive(Clone, Copy)]
pub(crate) struct HeapTable<'r>(Table<'r>);

impl HeapTable<'_> {
    /// # Safety
    /// As for a table; its access method is this extension's, whose scans are heap's.
    pub(super) unsafe fn from_raw(raw: pg_sys::Relation) -> Self {
        // SAFETY: the caller's.
        HeapTable(unsafe { Table::from_raw(raw) })
    }

    /// The newest transaction whose deleted rows nobody can see any more.
    pub(super) fn oldest_xmin(self) -> pg_sys::TransactionId {
        // SAFETY: an open table.
        unsafe { pg_sys::GetOldestNonRemovableTransactionId(self.raw()) }
    }
}

impl<'r> Deref for HeapTable<'r> {
    type Target = Table<'r>;

    fn deref(&self) -> &Table<'r> {
        &self.0
    }
}

/// What a row version is to transactions that run now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RowState {
    /// Visible to no snapshot.
    Dead,
    /// Deleted, but visible to some older snapshot.
    RecentlyDead,
    Live,
    /// Inserted by this transaction, which has not ended.
    Inserting(pg_sys::TransactionId),
    /// Deleted by this transaction, which has not ended.
    Deleting(pg_sys::TransactionId),
}

/// A row version's state, and whether its successor is in the same HOT chain.
#[derive(Clone, Copy)]
pub(crate) struct Visibility {
    pub(crate) state: RowState,
    pub(crate) hot_updated: bool,
}

/// Roots of the HOT chains of a page: for each offset, less one, that of its chain's root; 0 where there is none.
pub(crate) type Roots = [pg_sys::OffsetNumber; MAX_TUPLES_PER_PAGE];

/// A row version in a pinned page, which is not locked.
#[derive(Clone, Copy)]
pub(crate) struct HeapRow<'s> {
    table: HeapTable<'s>,
    tuple: pg_sys::HeapTuple,
    buffer: pg_sys::Buffer,
    /// Holds the row too.
    slot: *mut pg_sys::TupleTableSlot,
}

impl<'s> HeapRow<'s> {
    /// # Safety
    /// A row of `table` in the pinned page of `buffer`; all of it stays for `'s`.
    pub(super) unsafe fn from_raw(
        table: HeapTable<'s>,
        tuple: pg_sys::HeapTuple,
        buffer: pg_sys::Buffer,
        slot: *mut pg_sys::TupleTableSlot,
    ) -> HeapRow<'s> {
        HeapRow { table, tuple, buffer, slot }
    }

    /// The table.
    pub(super) fn table(&self) -> HeapTable<'s> {
        self.table
    }

    /// The server's form.
    pub(super) fn tuple(&self) -> pg_sys::HeapTuple {
        self.tuple
    }

    /// The slot that holds the row.
    pub(super) fn slot(&self) -> *mut pg_sys::TupleTableSlot {
        self.slot
    }

    /// Its address.
    pub(crate) fn tid(&self) -> pg_sys::ItemPointerData {
        // SAFETY: a row in a pinned page.
        unsafe { (*self.tuple).t_self }
    }

    /// Whether it is reached only through its HOT chain.
    pub(crate) fn is_heap_only(&self) -> bool {
        // SAFETY: a row in a pinned page.
        unsafe { is_heap_only((*self.tuple).t_data) }
    }

    /// Its state; `oldest_xmin` decides between recently dead and dead.
    pub(crate) fn visibility(&self, oldest_xmin: pg_sys::TransactionId) -> Visibility {
        use pg_sys::HTSV_Result as State;
        // SAFETY: the row lies in the pinned page of the buffer, which is locked while its header is read.
        unsafe {
            pg_sys::LockBuffer(self.buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
            let state = pg_sys::HeapTupleSatisfiesVacuum(self.tuple, oldest_xmin, self.buffer);
            let header = (*self.tuple).t_data;
            let state = match state {
                State::HEAPTUPLE_DEAD => RowState::Dead,
                State::HEAPTUPLE_RECENTLY_DEAD => RowState::RecentlyDead,
                State::HEAPTUPLE_INSERT_IN_PROGRESS => RowState::Inserting(xmin(header)),
                State::HEAPTUPLE_DELETE_IN_PROGRESS => RowState::Deleting(update_xid(header)),
                _ => RowState::Live,
            };
            let hot_updated = is_hot_updated(header);
            pg_sys::LockBuffer(self.buffer, pg_sys::BUFFER_LOCK_UNLOCK as i32);
            Visibility { state, hot_updated }
        }
    }

    /// Waits for the end of a transaction that inserts or deletes the row.
    pub(crate) fn wait_for(&self, xid: pg_sys::TransactionId) {
        let reason = pg_sys::XLTW_Oper::XLTW_InsertIndexUnique;
        // SAFETY: an open table, a row in a pinned page; no page is locked here.
        unsafe { pg_sys::XactLockTableWait(xid, self.table.raw(), &raw mut (*self.tuple).t_self, reason) }
    }

    /// Reads the roots of all HOT chains of the row's page.
    pub(crate) fn read_roots(&self, roots: &mut Roots) {
        // SAFETY: the page is pinned, and locked while it is read; the server fills as many elements as a page can
        // have rows.
        unsafe {
            pg_sys::LockBuffer(self.buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
            pg_sys::heap_get_root_tuples(pg_sys::BufferGetPage(self.buffer), roots.as_mut_ptr());
            pg_sys::LockBuffer(self.buffer, pg_sys::BUFFER_LOCK_UNLOCK as i32);
        }
    }
}

/// Whether this backend's transaction is the one of that number.
pub(crate) fn is_own_transaction(xid: pg_sys::TransactionId) -> bool {
    // SAFETY: a plain question to the server.
    unsafe { pg_sys::TransactionIdIsCurrentTransactionId(xid) }
}

/// A scan of a table in heap's format, ended when it goes away.
pub(crate) struct HeapScan<'r> {
    table: HeapTable<'r>,
    scan: *mut pg_sys::HeapScanDescData,
    slot: *mut pg_sys::TupleTableSlot,
    at_row: bool,
    /// Kept until the scan has ended.
    _snapshot: Option<Registered>,
    lifetime: PhantomData<&'r ()>,
}

impl<'r> HeapScan<'r> {
    /// Takes a scan over.
    ///
    /// # Safety
    /// A scan of `table`, which nobody else uses or ends, under a snapshot that lives as long as this, or is
    /// `snapshot`.
    pub(super) unsafe fn from_raw(
        table: HeapTable<'r>,
        scan: pg_sys::TableScanDesc,
        snapshot: Option<Registered>,
    ) -> HeapScan<'r> {
        HeapScan {
            table,
            scan: scan.cast(),
            // SAFETY: an open table.
            slot: unsafe { pg_sys::table_slot_create(table.raw(), ptr::null_mut()) },
            at_row: false,
            _snapshot: snapshot,
            lifetime: PhantomData,
        }
    }

    /// Whether it shows every row version.
    pub(crate) fn shows_all(&self) -> bool {
        // SAFETY: the scan's snapshot.
        let snapshot = unsafe { super::snapshot::Snapshot::from_raw((*self.scan).rs_base.rs_snapshot) };
        snapshot.is_any()
    }

    /// Goes to the next row; false at the end.
    pub(crate) fn advance(&mut self) -> bool {
        let forward = pg_sys::ScanDirection::ForwardScanDirection;
        // SAFETY: the scan's own table and slot.
        self.at_row = unsafe { pg_sys::heap_getnextslot(self.scan.cast(), forward, self.slot) };
        self.at_row
    }

    /// The row that the scan is at.
    pub(crate) fn row(&self) -> Option<HeapRow<'_>> {
        if !self.at_row {
            return None;
        }
        // SAFETY: the row and its page's pin stay until the scan advances.
        unsafe {
            let tuple = &raw mut (*self.scan).rs_ctup;
            Some(HeapRow::from_raw(self.table, tuple, (*self.scan).rs_cbuf, self.slot))
        }
    }

    /// The block that the scan is at, or was at last.
    pub(crate) fn block(&self) -> u32 {
        // SAFETY: our scan.
        unsafe { (*self.scan).rs_cblock }
    }

    /// The blocks that it began with.
    pub(crate) fn own_blocks(&self) -> u32 {
        // SAFETY: our scan.
        unsafe { (*self.scan).rs_nblocks }
    }

    /// The block that it begins at: a synchronized scan begins in the middle and wraps around.
    pub(crate) fn own_start(&self) -> u32 {
        // SAFETY: our scan.
        unsafe { (*self.scan).rs_startblock }
    }

    /// The scan that all workers share, if there are several.
    fn parallel(&self) -> Option<&pg_sys::ParallelBlockTableScanDescData> {
        // SAFETY: heap's parallel scans are those by blocks.
        unsafe { (*self.scan).rs_base.rs_parallel.cast::<pg_sys::ParallelBlockTableScanDescData>().as_ref() }
    }

    /// Blocks the scan will read, all workers together.
    pub(crate) fn total_blocks(&self) -> u32 {
        self.parallel().map_or_else(|| self.own_blocks(), |parallel| parallel.phs_nblocks)
    }

    /// Blocks read so far, for progress reports.
    pub(crate) fn blocks_done(&self) -> u32 {
        let start = self.parallel().map_or_else(|| self.own_start(), |parallel| parallel.phs_startblock);
        let current = self.block();
        if current > start {
            current - start
        } else {
            self.total_blocks().saturating_sub(start).saturating_add(current)
        }
    }
}

impl Drop for HeapScan<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: taken over, and ended once; the slot is ours.
            unsafe {
                pg_sys::table_endscan(self.scan.cast());
                pg_sys::ExecDropSingleTupleTableSlot(self.slot);
            }
        }
    }
}

/// Whether an address in a table is one that may be given to another row: there is no line pointer, or it is unused.
pub(crate) fn is_reusable(table: Table<'_>, tid: pg_sys::ItemPointerData) -> bool {
    let (block, offset) = tid_parts(tid);
    // SAFETY: an open table, whose page is pinned and locked while its line pointers are read; other backends set
    // hint bits in rows meanwhile, but change no line pointer. No read goes beyond the page: a page of line pointers
    // that is laid out otherwise would give a wrong answer, not an invalid access.
    unsafe {
        let buffer = pg_sys::ReadBuffer(table.raw(), block);
        pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
        let page = pg_sys::BufferGetPage(buffer).cast::<u8>();
        let lower = usize::from(page.add(12).cast::<u16>().read()).min(pg_sys::BLCKSZ as usize);
        let count = lower.saturating_sub(24) / 4;
        let used = (1..=count).contains(&usize::from(offset)) && {
            // Bits 15 and 16 of a line pointer: 0 says that it is unused.
            let pointer = page.add(20 + 4 * usize::from(offset)).cast::<u32>().read();
            pointer >> 15 & 3 != 0
        };
        pg_sys::UnlockReleaseBuffer(buffer);
        !used
    }
}

/// Whether a row was inserted by an INSERT ON CONFLICT that may still take it back.
pub(crate) fn is_speculative(table: Table<'_>, mut tid: pg_sys::ItemPointerData) -> bool {
    // SAFETY: an open table. The slot is of heap's kind where its methods are, and then has the tuple of a row that was
    // found, in a page that it keeps pinned.
    unsafe {
        let slot = pg_sys::table_slot_create(table.raw(), std::ptr::null_mut());
        let any = &raw mut pg_sys::SnapshotAnyData;
        let found = pg_sys::table_tuple_fetch_row_version(table.raw(), &raw mut tid, any, slot);
        let is_heap = std::ptr::eq((*slot).tts_ops, &raw const pg_sys::TTSOpsBufferHeapTuple);
        let tuple = if found && is_heap {
            (*slot.cast::<pg_sys::HeapTupleTableSlot>()).tuple
        } else {
            std::ptr::null_mut()
        };
        let token = tuple
            .as_ref()
            .is_some_and(|tuple| u32::from((*tuple.t_data).t_ctid.ip_posid) == pg_sys::SpecTokenOffsetNumber);
        pg_sys::ExecDropSingleTupleTableSlot(slot);
        token
    }
}
