//! Rewriting a table into new storage (VACUUM FULL, CLUSTER): the server's rewrite module, and the old table's rows in
//! its own order, in an index's, or sorted.

use std::ptr;

use pgrx::pg_sys;

use super::compat;
use super::error::{SqlState, fail};
use super::heap::{HeapRow, HeapScan, HeapTable};
use super::relation::Index;
use super::snapshot::Snapshot;

/// State of a table rewrite; opaque.
#[repr(C)]
struct RewriteStateData {
    _private: [u8; 0],
}

#[pgrx::pg_guard]
unsafe extern "C-unwind" {
    /// Begins a rewrite of `old` into `new`, keeping update chains together and freezing what is old enough.
    fn begin_heap_rewrite(
        old: pg_sys::Relation,
        new: pg_sys::Relation,
        oldest_xmin: pg_sys::TransactionId,
        freeze_xid: pg_sys::TransactionId,
        cutoff_multi: pg_sys::MultiXactId,
    ) -> *mut RewriteStateData;
    /// Writes out the last page and syncs.
    fn end_heap_rewrite(state: *mut RewriteStateData);
    /// Adds `new_tuple`, a new form of `old_tuple`.
    fn rewrite_heap_tuple(
        state: *mut RewriteStateData,
        old_tuple: pg_sys::HeapTuple,
        new_tuple: pg_sys::HeapTuple,
    );
    /// Tells of a dead tuple; true if that makes an earlier recently dead one dead too.
    fn rewrite_heap_dead_tuple(state: *mut RewriteStateData, old_tuple: pg_sys::HeapTuple) -> bool;
}

/// What the server asks for: its arguments of `relation_copy_for_cluster`.
pub(crate) struct Copy<'c> {
    pub(super) old: HeapTable<'c>,
    pub(super) new: HeapTable<'c>,
    pub(super) old_index: Option<Index<'c>>,
    pub(super) use_sort: bool,
    pub(super) oldest_xmin: pg_sys::TransactionId,
    pub(super) freeze_xid: pg_sys::TransactionId,
    pub(super) cutoff_multi: pg_sys::MultiXactId,
    /// Rows copied.
    pub(crate) copied: f64,
    /// Dead rows left out.
    pub(crate) vacuumed: f64,
    /// Recently dead rows, which were copied.
    pub(crate) recently_dead: f64,
}

impl<'c> Copy<'c> {
    /// The old table.
    pub(crate) fn old(&self) -> HeapTable<'c> {
        self.old
    }

    /// The newest transaction whose deleted rows nobody can see any more.
    pub(crate) fn oldest_xmin(&self) -> pg_sys::TransactionId {
        self.oldest_xmin
    }

    /// The index whose order rows are read in, if they are.
    pub(crate) fn order(&self) -> Option<Index<'c>> {
        self.old_index.filter(|_| !self.use_sort)
    }

    /// All versions of the old table's rows.
    pub(crate) fn rows(&self) -> OldRows<'c> {
        match self.order() {
            Some(index) => OldRows::Index(IndexRows::begin(self.old, index)),
            None => OldRows::Table(self.table_rows()),
        }
    }

    fn table_rows(&self) -> HeapScan<'c> {
        // SAFETY: a new scan of the old table under the snapshot that shows every version.
        unsafe {
            let scan = pg_sys::table_beginscan(self.old.raw(), Snapshot::any().raw(), 0, ptr::null_mut());
            HeapScan::from_raw(self.old, scan, None)
        }
    }

    /// The sort that rows go through, if they do.
    pub(crate) fn sort(&self) -> Option<Sort<'c>> {
        let index = self.old_index.filter(|_| self.use_sort)?;
        // SAFETY: an open table and an index of it.
        let sort = unsafe {
            pg_sys::tuplesort_begin_cluster(
                self.old.columns(),
                index.raw(),
                pg_sys::maintenance_work_mem,
                ptr::null_mut(),
                pg_sys::TUPLESORT_NONE as i32,
            )
        };
        Some(Sort { sort, table: self.old })
    }

    /// Begins writing the new table.
    pub(crate) fn rewrite(&self) -> Rewrite<'c> {
        // SAFETY: tables that are locked exclusively, with the same number of columns.
        unsafe {
            let (old, new) = (self.old.columns(), self.new.columns());
            let attributes = (*new).natts.max((*old).natts).max(0) as usize;
            Rewrite {
                table: self.old,
                old,
                new,
                values: vec![pg_sys::Datum::from(0usize); attributes],
                nulls: vec![true; attributes],
                rewrite: begin_heap_rewrite(
                    self.old.raw(),
                    self.new.raw(),
                    self.oldest_xmin,
                    self.freeze_xid,
                    self.cutoff_multi,
                ),
            }
        }
    }
}

/// The old table's rows, in one order or the other.
pub(crate) enum OldRows<'c> {
    Index(IndexRows<'c>),
    Table(HeapScan<'c>),
}

impl OldRows<'_> {
    /// Goes to the next row; false at the end.
    pub(crate) fn advance(&mut self) -> bool {
        match self {
            OldRows::Index(rows) => rows.advance(),
            OldRows::Table(scan) => scan.advance(),
        }
    }

    /// The row that has been reached.
    pub(crate) fn row(&self) -> Option<HeapRow<'_>> {
        match self {
            OldRows::Index(rows) => rows.row(),
            OldRows::Table(scan) => scan.row(),
        }
    }
}

/// The old table's rows in the order of an index.
pub(crate) struct IndexRows<'c> {
    table: HeapTable<'c>,
    scan: pg_sys::IndexScanDesc,
    slot: *mut pg_sys::TupleTableSlot,
    at_row: bool,
}

impl<'c> IndexRows<'c> {
    fn begin(table: HeapTable<'c>, index: Index<'c>) -> IndexRows<'c> {
        // SAFETY: an open table and an index of it, whose entries are all asked for.
        unsafe {
            let scan = compat::begin_index_scan(table.raw(), index.raw(), Snapshot::any().raw(), 0, 0);
            pg_sys::index_rescan(scan, ptr::null_mut(), 0, ptr::null_mut(), 0);
            let slot = pg_sys::table_slot_create(table.raw(), ptr::null_mut());
            IndexRows { table, scan, slot, at_row: false }
        }
    }

    fn advance(&mut self) -> bool {
        let forward = pg_sys::ScanDirection::ForwardScanDirection;
        // SAFETY: a scan of the table and a slot for its rows.
        unsafe {
            self.at_row = pg_sys::index_getnext_slot(self.scan, forward, self.slot);
            if self.at_row && (*self.scan).xs_recheck {
                fail(
                    SqlState::ERRCODE_FEATURE_NOT_SUPPORTED,
                    "CLUSTER does not support lossy index conditions",
                    "CLUSTER by a btree index.",
                );
            }
        }
        self.at_row
    }

    fn row(&self) -> Option<HeapRow<'_>> {
        if !self.at_row {
            return None;
        }
        // SAFETY: the table's slots are heap's: the row's page is pinned until the scan advances.
        unsafe {
            let tuple = pg_sys::ExecFetchSlotHeapTuple(self.slot, false, ptr::null_mut());
            let buffer = (*self.slot.cast::<pg_sys::BufferHeapTupleTableSlot>()).buffer;
            Some(HeapRow::from_raw(self.table, tuple, buffer, self.slot))
        }
    }
}

impl Drop for IndexRows<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: begun by us.
            unsafe {
                pg_sys::index_endscan(self.scan);
                pg_sys::ExecDropSingleTupleTableSlot(self.slot);
            }
        }
    }
}

/// Rows being sorted by an index's order.
pub(crate) struct Sort<'c> {
    sort: *mut pg_sys::Tuplesortstate,
    table: HeapTable<'c>,
}

/// Rows in order.
pub(crate) struct Sorted<'c> {
    sort: *mut pg_sys::Tuplesortstate,
    table: HeapTable<'c>,
}

/// A row that has been sorted, until the next one.
pub(crate) struct SortedRow<'s> {
    tuple: pg_sys::HeapTuple,
    table: HeapTable<'s>,
}

impl<'c> Sort<'c> {
    /// Adds a row, which is copied.
    pub(crate) fn put(&mut self, row: &HeapRow<'_>) {
        expect_table(self.table, row.table());
        // SAFETY: a row of the table that is sorted.
        unsafe { pg_sys::tuplesort_putheaptuple(self.sort, row.tuple()) }
    }

    /// Sorts.
    pub(crate) fn sort(self) -> Sorted<'c> {
        // SAFETY: begun by us, and sorted once.
        unsafe { pg_sys::tuplesort_performsort(self.sort) };
        Sorted { sort: self.sort, table: self.table }
    }
}

impl Sorted<'_> {
    /// The next row.
    pub(crate) fn next(&mut self) -> Option<SortedRow<'_>> {
        // SAFETY: sorted; the row stays until the next one.
        let tuple = unsafe { pg_sys::tuplesort_getheaptuple(self.sort, true) };
        (!tuple.is_null()).then_some(SortedRow { tuple, table: self.table })
    }

    /// Ends the sort.
    pub(crate) fn end(self) {
        // SAFETY: begun by us, and ended once.
        unsafe { pg_sys::tuplesort_end(self.sort) }
    }
}

/// Writes rows of the old table to the new one.
pub(crate) struct Rewrite<'c> {
    table: HeapTable<'c>,
    old: pg_sys::TupleDesc,
    new: pg_sys::TupleDesc,
    values: Vec<pg_sys::Datum>,
    nulls: Vec<bool>,
    rewrite: *mut RewriteStateData,
}

impl Rewrite<'_> {
    /// Copies a row.
    pub(crate) fn copy(&mut self, row: &HeapRow<'_>) {
        expect_table(self.table, row.table());
        // SAFETY: a row of the old table in a pinned page.
        unsafe { self.copy_tuple(row.tuple()) }
    }

    /// Copies a row that has been sorted.
    pub(crate) fn copy_sorted(&mut self, row: &SortedRow<'_>) {
        expect_table(self.table, row.table);
        // SAFETY: a copy of a row of the old table.
        unsafe { self.copy_tuple(row.tuple) }
    }

    /// Forms a row anew for the new table: dropped columns become NULL.
    ///
    /// # Safety
    /// `tuple` is of the old table.
    unsafe fn copy_tuple(&mut self, tuple: pg_sys::HeapTuple) {
        // SAFETY: the arrays have room for every attribute.
        unsafe {
            pg_sys::heap_deform_tuple(tuple, self.old, self.values.as_mut_ptr(), self.nulls.as_mut_ptr());
            let count = (*self.new).natts.max(0) as usize;
            for (at, null) in self.nulls.iter_mut().enumerate().take(count) {
                *null |= compat::attribute(self.new, at).attisdropped;
            }
            let copy = pg_sys::heap_form_tuple(self.new, self.values.as_mut_ptr(), self.nulls.as_mut_ptr());
            rewrite_heap_tuple(self.rewrite, tuple, copy);
            pg_sys::heap_freetuple(copy);
        }
    }

    /// Tells of a dead row; true if that makes an earlier recently dead one dead too.
    pub(crate) fn dead(&mut self, row: &HeapRow<'_>) -> bool {
        expect_table(self.table, row.table());
        // SAFETY: a row of the old table.
        unsafe { rewrite_heap_dead_tuple(self.rewrite, row.tuple()) }
    }

    /// Writes out the last page and syncs.
    pub(crate) fn finish(self) {
        // SAFETY: begun by us, and ended once.
        unsafe { end_heap_rewrite(self.rewrite) }
    }
}

/// Rows of another table have other columns.
fn expect_table(wanted: HeapTable<'_>, found: HeapTable<'_>) {
    if !ptr::eq(wanted.raw(), found.raw()) {
        fail(
            SqlState::ERRCODE_INTERNAL_ERROR,
            "a row is of another table",
            "Report this as a bug of treedb.",
        );
    }
}
