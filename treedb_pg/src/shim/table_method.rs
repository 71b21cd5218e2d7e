//! Table access methods: heap's routine with callbacks replaced, as a trait of safe functions.

use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;

use pgrx::pg_sys;

use super::compat;
use super::declared::Class;
use super::function::{Args, Output};
use super::heap::{HeapScan, HeapTable};
use super::relation::Index;
use super::rewrite::Copy;
use super::row_form::{FormedRow, IndexInfo, RowForm};
use super::snapshot::{Registered, Snapshot};

/// The callbacks that heap does not lend to another access method.
pub(crate) trait TableMethod: 'static {
    /// Shows a table's rows to the build of an index; returns how many live rows there are.
    fn build_range_scan(build: &mut RangeBuild<'_>) -> f64;
    /// The second pass of CREATE INDEX CONCURRENTLY.
    fn validate_scan(validation: &mut Validation<'_>);
    /// Copies a table for VACUUM FULL and CLUSTER.
    fn copy_for_cluster(copy: &mut Copy<'_>);
}

/// A routine that lives as long as the backend, as the server wants it.
pub(crate) struct Routine(pg_sys::TableAmRoutine);

// SAFETY: a table of function pointers that is never written again.
unsafe impl Sync for Routine {}
// SAFETY: as above.
unsafe impl Send for Routine {}

/// The result of a table access method's handler function.
pub(crate) struct Handler(&'static Routine);

impl Output for Handler {
    const CLASS: Class = Class::TableAm;

    fn into_datum(self, _: &Args) -> Option<pg_sys::Datum> {
        Some(pg_sys::Datum::from(ptr::from_ref(&self.0.0)))
    }
}

/// Heap's routine with the callbacks of `M` in place of its own; `routine` is where it is kept.
pub(crate) fn handler<M: TableMethod>(routine: &'static OnceLock<Routine>) -> Handler {
    Handler(routine.get_or_init(|| {
        // SAFETY: the server returns its static routine.
        let mut own = unsafe { *pg_sys::GetHeapamTableAmRoutine() };
        own.relation_toast_am = Some(toast_am);
        own.index_build_range_scan = Some(build_range_scan::<M>);
        own.index_validate_scan = Some(validate_scan::<M>);
        own.relation_copy_for_cluster = Some(copy_for_cluster::<M>);
        Routine(own)
    }))
}

/// TOAST tables are plain heap tables: the server's detoasting reads them directly.
unsafe extern "C-unwind" fn toast_am(_relation: pg_sys::Relation) -> pg_sys::Oid {
    pg_sys::HEAP_TABLE_AM_OID
}

/// A callback: errors and panics of `work` become SQL errors.
fn guarded<R: std::marker::Copy>(work: impl FnOnce() -> R) -> R {
    // SAFETY: only called by the callbacks of this module, which are the outermost Rust frames below the server's.
    unsafe { super::error_frame::guarded(work) }
}

// What all callbacks rely on: the server passes open, locked relations, the table one of the access method, and
// structures that are valid, and not used by others, until the callback returns.

#[allow(clippy::too_many_arguments)]
unsafe extern "C-unwind" fn build_range_scan<M: TableMethod>(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    allow_sync: bool,
    any_visible: bool,
    progress: bool,
    start_block: pg_sys::BlockNumber,
    blocks: pg_sys::BlockNumber,
    callback: pg_sys::IndexBuildCallback,
    state: *mut c_void,
    scan: pg_sys::TableScanDesc,
) -> f64 {
    guarded(|| {
        let Some(callback) = callback else { return 0.0 };
        // SAFETY: see above.
        let mut build = unsafe {
            RangeBuild {
                table: HeapTable::from_raw(table),
                index: Index::from_raw(index),
                info: IndexInfo::from_raw(info),
                any_visible,
                progress,
                allow_sync,
                range: (start_block, blocks),
                callback,
                state,
                scan: (!scan.is_null()).then_some(scan),
            }
        };
        M::build_range_scan(&mut build)
    })
}

/// The server's callback for each row of an index build.
type EachRow = unsafe extern "C-unwind" fn(
    pg_sys::Relation,
    pg_sys::ItemPointer,
    *mut pg_sys::Datum,
    *mut bool,
    bool,
    *mut c_void,
);

/// A scan of a range of blocks for the build of an index.
pub(crate) struct RangeBuild<'c> {
    pub(crate) table: HeapTable<'c>,
    index: Index<'c>,
    pub(crate) info: IndexInfo<'c>,
    /// Whether rows that nobody can see yet, or any more, count as live.
    pub(crate) any_visible: bool,
    /// Whether progress is to be reported.
    pub(crate) progress: bool,
    allow_sync: bool,
    range: (pg_sys::BlockNumber, pg_sys::BlockNumber),
    callback: EachRow,
    state: *mut c_void,
    /// A scan that the server has begun, for one worker of several.
    scan: Option<pg_sys::TableScanDesc>,
}

impl<'c> RangeBuild<'c> {
    /// Whether rows are seen by an MVCC snapshot, where no scan has been begun.
    fn by_snapshot(&self) -> bool {
        // SAFETY: a global of this backend.
        self.info.is_concurrent() || unsafe { pg_sys::Mode == pg_sys::ProcessingMode::BootstrapProcessing }
    }

    /// The newest transaction whose deleted rows nobody can see any more; the invalid one where an MVCC snapshot
    /// decides.
    pub(crate) fn oldest_xmin(&self) -> pg_sys::TransactionId {
        if self.by_snapshot() { pg_sys::InvalidTransactionId } else { self.table.oldest_xmin() }
    }

    /// The scan of the rows, which is to be read once.
    pub(crate) fn scan(&mut self) -> HeapScan<'c> {
        let (start, blocks) = self.range;
        // SAFETY: the server's scan, which is used and ended here; or a new one. Limits are set before it begins.
        unsafe {
            let (scan, registered) = match self.scan.take() {
                Some(scan) => (scan, None),
                None => {
                    let registered = self.by_snapshot().then(Registered::transaction);
                    let snapshot = registered.as_ref().map_or(Snapshot::any(), Registered::get).raw();
                    let table = self.table.raw();
                    let sync = self.allow_sync;
                    (
                        pg_sys::table_beginscan_strat(table, snapshot, 0, ptr::null_mut(), true, sync),
                        registered,
                    )
                }
            };
            if !self.allow_sync {
                pg_sys::heap_setscanlimits(scan, start, blocks);
            }
            HeapScan::from_raw(self.table, scan, registered)
        }
    }

    /// What forms the values of rows.
    pub(crate) fn form(&self) -> RowForm<'c> {
        // SAFETY: the server's description of an index of the table.
        unsafe { RowForm::new(self.table, self.info) }
    }

    /// Hands a row to the index; `alive` if it is not a deleted one that older snapshots see.
    pub(crate) fn hand_over(&mut self, mut tid: pg_sys::ItemPointerData, row: &FormedRow<'_>, alive: bool) {
        let (values, nulls) = row.raw(self.info);
        // SAFETY: the server's callback with its own state; errors that it raises are passed on.
        unsafe {
            pg_sys::ffi::pg_guard_ffi_boundary(|| {
                (self.callback)(self.index.raw(), &raw mut tid, values, nulls, alive, self.state);
            });
        }
    }
}

unsafe extern "C-unwind" fn validate_scan<M: TableMethod>(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    snapshot: pg_sys::Snapshot,
    state: *mut pg_sys::ValidateIndexState,
) {
    guarded(|| {
        // SAFETY: see above.
        let mut validation = unsafe {
            Validation {
                table: HeapTable::from_raw(table),
                index: Index::from_raw(index),
                info: IndexInfo::from_raw(info),
                snapshot: Snapshot::from_raw(snapshot),
                state: &mut *state,
            }
        };
        M::validate_scan(&mut validation)
    })
}

/// The second pass of CREATE INDEX CONCURRENTLY: rows that a snapshot sees and the index does not have.
pub(crate) struct Validation<'c> {
    table: HeapTable<'c>,
    index: Index<'c>,
    info: IndexInfo<'c>,
    snapshot: Snapshot<'c>,
    state: &'c mut pg_sys::ValidateIndexState,
}

impl<'c> Validation<'c> {
    /// The table.
    pub(crate) fn table(&self) -> HeapTable<'c> {
        self.table
    }

    /// The rows that the snapshot sees, from block 0 upwards.
    pub(crate) fn scan(&self) -> HeapScan<'c> {
        // SAFETY: a new scan under the server's snapshot.
        unsafe {
            let (table, snapshot) = (self.table.raw(), self.snapshot.raw());
            let scan = pg_sys::table_beginscan_strat(table, snapshot, 0, ptr::null_mut(), true, false);
            HeapScan::from_raw(self.table, scan, None)
        }
    }

    /// What forms the values of rows.
    pub(crate) fn form(&self) -> RowForm<'c> {
        // SAFETY: the server's description of an index of the table.
        unsafe { RowForm::new(self.table, self.info) }
    }

    /// Counts a row of the table.
    pub(crate) fn count_row(&mut self) {
        self.state.htups += 1.0;
    }

    /// The next address that the index has, in order: block and offset.
    pub(crate) fn next_indexed(&mut self) -> Option<(u32, u16)> {
        // SAFETY: the server's sort of encoded addresses (int8).
        let encoded = unsafe { compat::sorted_datum(self.state.tuplesort) }?.value() as u64;
        // The server encodes an address as block << 16 | offset.
        Some(((encoded >> 16) as u32, encoded as u16))
    }

    /// Inserts a row into the index.
    pub(crate) fn insert(&mut self, mut tid: pg_sys::ItemPointerData, row: &FormedRow<'_>) {
        let (values, nulls) = row.raw(self.info);
        let unique = if self.info.is_unique() {
            pg_sys::IndexUniqueCheck::UNIQUE_CHECK_YES
        } else {
            pg_sys::IndexUniqueCheck::UNIQUE_CHECK_NO
        };
        let (index, table, info) = (self.index.raw(), self.table.raw(), self.info.raw());
        // SAFETY: an index of the table and its description; a value for each of its columns.
        unsafe { pg_sys::index_insert(index, values, nulls, &raw mut tid, table, unique, false, info) };
        self.state.tups_inserted += 1.0;
    }
}

#[allow(clippy::too_many_arguments)]
unsafe extern "C-unwind" fn copy_for_cluster<M: TableMethod>(
    old: pg_sys::Relation,
    new: pg_sys::Relation,
    old_index: pg_sys::Relation,
    use_sort: bool,
    oldest_xmin: pg_sys::TransactionId,
    xid_cutoff: *mut pg_sys::TransactionId,
    multi_cutoff: *mut pg_sys::MultiXactId,
    num_tuples: *mut f64,
    tups_vacuumed: *mut f64,
    tups_recently_dead: *mut f64,
) {
    guarded(|| {
        // SAFETY: see above; both tables are locked exclusively, and the index, if any, is the old one's.
        unsafe {
            let mut copy = Copy {
                old: HeapTable::from_raw(old),
                new: HeapTable::from_raw(new),
                old_index: (!old_index.is_null()).then(|| Index::from_raw(old_index)),
                use_sort,
                oldest_xmin,
                freeze_xid: *xid_cutoff,
                cutoff_multi: *multi_cutoff,
                copied: *num_tuples,
                vacuumed: *tups_vacuumed,
                recently_dead: *tups_recently_dead,
            };
            M::copy_for_cluster(&mut copy);
            *num_tuples = copy.copied;
            *tups_vacuumed = copy.vacuumed;
            *tups_recently_dead = copy.recently_dead;
        }
    })
}
