//! Index access methods: the callbacks that the server calls, as a trait of safe functions.
//!
//! [`handler`] makes the server's routine of a type that implements [`IndexMethod`], an ordered index. Its callbacks here are
//! the only place where the server's pointers become the types that the access method works with. Those of
//! [`IndexWrites`] serve the access methods of [`super::distance_method`] too.

use std::ffi::{CStr, c_char, c_void};

use pgrx::{PgBox, PgMemoryContexts, pg_sys};
use treedb_query::access::Direction;

use super::declared::Class;
use super::function::{Args, Output};
use super::index_build::{Build, IndexRow};
use super::index_scan::{Bitmap, EntryBuffer, Scan, from_server};
use super::parallel_build::Part;
use super::parallel_scan::{self, SharedScan};
use super::relation::{Index, NUMBERS, OPTIONS, Table};
use super::vacuum::Vacuum;
use super::{compat, index_options, operator_class};

/// Cost of a path that must not be taken: above the server's own for disabled ones.
pub(super) const NEVER: f64 = 1e30;

/// What an access method can do: the fields of the server's routine of the same names, without `amcan`.
pub(crate) struct Capabilities {
    pub(crate) strategies: u16,
    pub(crate) order: bool,
    pub(crate) backward: bool,
    pub(crate) multi_column: bool,
    pub(crate) optional_key: bool,
    pub(crate) search_array: bool,
    pub(crate) search_nulls: bool,
    pub(crate) clusterable: bool,
    pub(crate) include: bool,
    /// Scans can be shared: [`IndexMethod::next`] goes by [`Scan::shared`].
    pub(crate) parallel: bool,
}

/// Tells of each row whether it is gone, with an element for each in the second argument.
pub(crate) type FindGone<'f> = dyn FnMut(&[pg_sys::ItemPointerData], &mut Vec<bool>) + 'f;

/// The part of an access method that writes indexes.
pub(crate) trait IndexWrites: 'static {
    /// What is kept of an index while rows are inserted by one statement. It is `Send`, so it holds no handle of the
    /// server's: the context that drops it may outlive the transaction.
    type Inserting: Send + 'static;

    /// Fills a new index; returns how many entries it has.
    fn build(build: &mut Build<'_>) -> u64;
    /// Makes the initial fork of an unlogged index.
    fn build_empty(index: Index<'_>);
    /// What the progress view calls a phase.
    fn phase_name(phase: i64) -> Option<&'static CStr>;

    /// Begins inserting.
    fn begin_insert(index: Index<'_>) -> Self::Inserting;
    /// Inserts the entries of a row of `table`; `unchanged` tells that it is a new version of a row with the same values.
    fn insert(
        inserting: &Self::Inserting,
        table: Table<'_>,
        index: Index<'_>,
        row: &IndexRow<'_>,
        unchanged: bool,
    );

    /// Removes the entries of rows that are gone.
    fn bulk_delete(vacuum: &mut Vacuum<'_>, find_gone: &mut FindGone<'_>);
    /// Ends a vacuum.
    fn vacuum_cleanup(vacuum: &mut Vacuum<'_>);
}

/// An access method for ordered indexes.
pub(crate) trait IndexMethod: IndexWrites {
    const CAPABILITIES: Capabilities;

    /// A scan, which is `Send` as what is kept of inserts is.
    type Scan: Send + 'static;

    /// Does a worker's part of a build.
    fn build_part(part: &mut Part<'_>);

    /// Whether an index-only scan may take a column's value from the entry; columns count from 0.
    fn can_return(index: Index<'_>, column: usize) -> bool;
    /// Whether the planner may use an index.
    fn is_plannable(index: Index<'_>) -> bool;
    /// How many levels there are above the leaves, for the planner; -1 if that cannot be read.
    fn height(index: Index<'_>) -> i32;
    /// Whether columns have an order for whose operator class support function 11 returns `kind`; an error that says
    /// what is wrong if there is no such kind, or if it is not for types with this `typlen` and `typbyval`.
    fn check_kind(kind: i32, len: i16, by_value: bool) -> Result<bool, String>;

    /// Begins a scan, which is dropped with its memory context.
    fn begin_scan(index: Index<'_>) -> Self::Scan;
    /// Begins again, with other keys.
    fn rescan(state: &mut Self::Scan, index: Index<'_>);
    /// Goes to the next entry, if it is at hand; false says nothing. It must not panic, nor call the server: nothing
    /// would make errors of panics.
    fn next_at_hand(state: &mut Self::Scan, scan: &mut Scan<'_>, direction: Direction) -> bool;
    /// Goes to the next entry; false if there is none.
    fn next(state: &mut Self::Scan, scan: &mut Scan<'_>, direction: Direction) -> bool;
    /// Puts all rows into a bitmap; returns how many.
    fn bitmap(state: &mut Self::Scan, scan: &Scan<'_>, bitmap: &mut Bitmap<'_>) -> i64;
    /// Ends a scan; it may still be dropped much later.
    fn end_scan(state: &mut Self::Scan, index: Index<'_>);
    /// Remembers the entry that the scan is at, if that takes no call of the server; it must not panic.
    fn mark_at_hand(state: &mut Self::Scan) -> bool;
    /// Remembers the entry that the scan is at.
    fn mark(state: &mut Self::Scan);
    /// Goes back to the entry remembered.
    fn restore(state: &mut Self::Scan);
}

/// The result of an access method's handler function.
pub(crate) struct Handler(pub(super) *mut pg_sys::IndexAmRoutine);

impl Output for Handler {
    const CLASS: Class = Class::IndexAm;

    fn into_datum(self, _: &Args) -> Option<pg_sys::Datum> {
        Some(pg_sys::Datum::from(self.0))
    }
}

/// The routine of an access method.
pub(crate) fn handler<M: IndexMethod>() -> Handler {
    let can = M::CAPABILITIES;
    // SAFETY: a node of that type, which the server frees.
    let mut am = unsafe { PgBox::<pg_sys::IndexAmRoutine>::alloc_node(pg_sys::NodeTag::T_IndexAmRoutine) };
    am.amstrategies = can.strategies;
    am.amsupport = NUMBERS;
    am.amcanorder = can.order;
    am.amcanbackward = can.backward;
    am.amcanmulticol = can.multi_column;
    am.amoptionalkey = can.optional_key;
    am.amsearcharray = can.search_array;
    am.amsearchnulls = can.search_nulls;
    am.amclusterable = can.clusterable;
    am.amcaninclude = can.include;
    am.amcanparallel = can.parallel;
    am.amoptsprocnum = OPTIONS;
    am.amkeytype = pg_sys::InvalidOid;
    am.amparallelvacuumoptions =
        (pg_sys::VACUUM_OPTION_PARALLEL_BULKDEL | pg_sys::VACUUM_OPTION_PARALLEL_COND_CLEANUP) as u8;
    am.ambuild = Some(build::<M>);
    am.ambuildempty = Some(build_empty::<M>);
    am.aminsert = Some(insert::<M>);
    am.ambulkdelete = Some(bulk_delete::<M>);
    am.amvacuumcleanup = Some(vacuum_cleanup::<M>);
    am.amcanreturn = Some(can_return::<M>);
    am.amcostestimate = Some(cost_estimate::<M>);
    am.amoptions = Some(options);
    am.ambuildphasename = Some(build_phase_name::<M>);
    am.amvalidate = Some(validate::<M>);
    am.ambeginscan = Some(begin_scan::<M>);
    am.amrescan = Some(rescan::<M>);
    am.amgettuple = Some(get_tuple::<M>);
    am.amgetbitmap = Some(get_bitmap::<M>);
    am.amendscan = Some(end_scan::<M>);
    am.ammarkpos = Some(mark::<M>);
    am.amrestrpos = Some(restore::<M>);
    am.aminitparallelscan = Some(init_parallel_scan);
    am.amparallelrescan = Some(restart_parallel_scan);
    compat::complete(&mut am, tree_height::<M>);
    Handler(am.into_pg())
}

/// A callback: errors and panics of `work` become SQL errors.
pub(super) fn guarded<R: Copy>(work: impl FnOnce() -> R) -> R {
    // SAFETY: only called by callbacks of access methods, which are the outermost Rust frames below the server's.
    unsafe { super::error_frame::guarded(work) }
}

// What all callbacks rely on: the server passes open, locked relations of the access method, and structures that are
// valid, and not used by others, until the callback returns.

pub(super) unsafe extern "C-unwind" fn build<M: IndexWrites>(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
) -> *mut pg_sys::IndexBuildResult {
    guarded(|| {
        // SAFETY: see above.
        let mut build = unsafe { Build::from_raw(table, index, info) };
        let entries = M::build(&mut build);
        // SAFETY: a structure of numbers, which the server frees.
        let mut result = unsafe { PgBox::<pg_sys::IndexBuildResult>::alloc0() };
        result.heap_tuples = build.rows();
        result.index_tuples = entries as f64;
        result.into_pg()
    })
}

pub(super) unsafe extern "C-unwind" fn build_empty<M: IndexWrites>(index: pg_sys::Relation) {
    // SAFETY: see above.
    guarded(|| M::build_empty(unsafe { Index::from_raw(index) }))
}

pub(super) unsafe extern "C-unwind" fn build_phase_name<M: IndexWrites>(phase: i64) -> *mut c_char {
    guarded(|| M::phase_name(phase).map_or(std::ptr::null_mut(), |name| name.as_ptr().cast_mut()))
}

#[allow(clippy::too_many_arguments)]
pub(super) unsafe extern "C-unwind" fn insert<M: IndexWrites>(
    index: pg_sys::Relation,
    values: *mut pg_sys::Datum,
    nulls: *mut bool,
    row: pg_sys::ItemPointer,
    table: pg_sys::Relation,
    _unique: pg_sys::IndexUniqueCheck::Type,
    unchanged: bool,
    info: *mut pg_sys::IndexInfo,
) -> bool {
    guarded(|| {
        // SAFETY: see above; `ii_AmCache` is the access method's and null at first, and lives as long as `ii_Context`.
        unsafe {
            let (table, index) = (Table::from_raw(table), Index::from_raw(index));
            let row = IndexRow::from_raw(index, values, nulls, *row);
            let Some(info) = info.as_mut() else {
                M::insert(&M::begin_insert(index), table, index, &row, unchanged);
                return false;
            };
            if info.ii_AmCache.is_null() {
                let mut context = PgMemoryContexts::For(info.ii_Context);
                info.ii_AmCache = context.leak_and_drop_on_delete(M::begin_insert(index)).cast::<c_void>();
            }
            let inserting = info.ii_AmCache.cast::<M::Inserting>();
            M::insert(&*inserting, table, index, &row.inserted(info), unchanged);
            false
        }
    })
}

pub(super) unsafe extern "C-unwind" fn bulk_delete<M: IndexWrites>(
    info: *mut pg_sys::IndexVacuumInfo,
    stats: *mut pg_sys::IndexBulkDeleteResult,
    callback: pg_sys::IndexBulkDeleteCallback,
    state: *mut c_void,
) -> *mut pg_sys::IndexBulkDeleteResult {
    guarded(|| {
        // SAFETY: see above; the callback is the server's, to be called with its own state.
        unsafe {
            let stats = if stats.is_null() {
                PgBox::<pg_sys::IndexBulkDeleteResult>::alloc0().into_pg()
            } else {
                stats
            };
            if let Some(callback) = callback {
                M::bulk_delete(&mut Vacuum::from_raw(info, stats), &mut |rows, gone| {
                    gone.clear();
                    gone.resize(rows.len(), false);
                    // One boundary for all rows: nothing in the loop needs to be dropped if the server raises an error.
                    pg_sys::ffi::pg_guard_ffi_boundary(|| {
                        for (row, gone) in rows.iter().zip(gone.iter_mut()) {
                            let mut row = *row;
                            *gone = callback(&raw mut row, state);
                        }
                    });
                });
            }
            stats
        }
    })
}

pub(super) unsafe extern "C-unwind" fn vacuum_cleanup<M: IndexWrites>(
    info: *mut pg_sys::IndexVacuumInfo,
    stats: *mut pg_sys::IndexBulkDeleteResult,
) -> *mut pg_sys::IndexBulkDeleteResult {
    guarded(|| {
        // SAFETY: see above.
        unsafe {
            if (*info).analyze_only {
                return stats;
            }
            let stats = if stats.is_null() {
                // Nothing was deleted, so nothing was counted.
                let mut stats = PgBox::<pg_sys::IndexBulkDeleteResult>::alloc0();
                stats.estimated_count = true;
                stats.num_index_tuples = (*info).num_heap_tuples;
                stats.into_pg()
            } else {
                stats
            };
            M::vacuum_cleanup(&mut Vacuum::from_raw(info, stats));
            stats
        }
    })
}

unsafe extern "C-unwind" fn can_return<M: IndexMethod>(index: pg_sys::Relation, column: i32) -> bool {
    guarded(|| {
        let column = usize::try_from(column).ok().and_then(|number| number.checked_sub(1));
        // SAFETY: see above.
        column.is_some_and(|column| M::can_return(unsafe { Index::from_raw(index) }, column))
    })
}

#[allow(clippy::too_many_arguments)]
unsafe extern "C-unwind" fn cost_estimate<M: IndexMethod>(
    root: *mut pg_sys::PlannerInfo,
    path: *mut pg_sys::IndexPath,
    loop_count: f64,
    startup: *mut pg_sys::Cost,
    total: *mut pg_sys::Cost,
    selectivity: *mut pg_sys::Selectivity,
    correlation: *mut f64,
    pages: *mut f64,
) {
    guarded(|| {
        // SAFETY: called by the planner, with an index that it has locked.
        unsafe {
            let info = (*path).indexinfo;
            let index = pg_sys::index_open((*info).indexoid, pg_sys::NoLock as i32);
            let plannable = M::is_plannable(Index::from_raw(index));
            // The server reads it of its own btrees only; a descent costs something here, too.
            if (*info).tree_height < 0 && !(*info).hypothetical {
                (*info).tree_height = M::height(Index::from_raw(index));
            }
            pg_sys::index_close(index, pg_sys::NoLock as i32);
            compat::btree_cost(root, path, loop_count, startup, total, selectivity, correlation, pages);
            if !plannable {
                (*startup, *total) = (NEVER, NEVER);
                compat::disable(path);
            }
        }
    })
}

/// The planner of versions that have this callback asks it of every index of a table that a query reads.
unsafe extern "C-unwind" fn tree_height<M: IndexMethod>(index: pg_sys::Relation) -> i32 {
    guarded(|| {
        // SAFETY: see above.
        let index = unsafe { Index::from_raw(index) };
        if M::is_plannable(index) { M::height(index) } else { -1 }
    })
}

unsafe extern "C-unwind" fn options(options: pg_sys::Datum, validate: bool) -> *mut pg_sys::bytea {
    // SAFETY: see above.
    guarded(|| unsafe { index_options::parse(options, validate) })
}

unsafe extern "C-unwind" fn validate<M: IndexMethod>(class: pg_sys::Oid) -> bool {
    guarded(|| operator_class::is_valid(class, M::check_kind))
}

/// What the descriptor of a scan leads to.
struct Opaque<S> {
    state: S,
    entry: EntryBuffer,
}

/// The state of a scan.
///
/// # Safety
/// `scan` was begun by `begin_scan` of the same access method, and the result is used by one callback only.
unsafe fn opaque<'c, M: IndexMethod>(scan: pg_sys::IndexScanDesc) -> &'c mut Opaque<M::Scan> {
    // SAFETY: set by `begin_scan`, alive until the context of the scan goes away.
    unsafe { &mut *(*scan).opaque.cast() }
}

unsafe extern "C-unwind" fn begin_scan<M: IndexMethod>(
    index: pg_sys::Relation,
    keys: i32,
    order_bys: i32,
) -> pg_sys::IndexScanDesc {
    guarded(|| {
        // SAFETY: see above.
        unsafe {
            let scan = pg_sys::RelationGetIndexScan(index, keys, order_bys);
            let state = M::begin_scan(Index::from_raw(index));
            // Dropped with the context, whether or not the scan is ended.
            let opaque = PgMemoryContexts::CurrentMemoryContext
                .leak_and_drop_on_delete(Opaque { state, entry: EntryBuffer::default() });
            (*scan).opaque = opaque.cast::<c_void>();
            (*scan).xs_itupdesc = (*index).rd_att;
            scan
        }
    })
}

unsafe extern "C-unwind" fn rescan<M: IndexMethod>(
    scan: pg_sys::IndexScanDesc,
    keys: pg_sys::ScanKey,
    _count: i32,
    _order_bys: pg_sys::ScanKey,
    _order_by_count: i32,
) {
    guarded(|| {
        // SAFETY: a scan of `begin_scan`, which has room for its number of keys.
        unsafe {
            M::rescan(&mut opaque::<M>(scan).state, Index::from_raw((*scan).indexRelation));
            let count = usize::try_from((*scan).numberOfKeys).unwrap_or(0);
            if !keys.is_null() && count > 0 {
                std::ptr::copy(keys, (*scan).keyData, count);
            }
        }
    })
}

unsafe extern "C-unwind" fn get_tuple<M: IndexMethod>(
    scan: pg_sys::IndexScanDesc,
    direction: pg_sys::ScanDirection::Type,
) -> bool {
    let direction = from_server(direction);
    // SAFETY: a scan of `begin_scan`, after `rescan`.
    let (state, mut scan) = unsafe {
        let Opaque { state, entry } = opaque::<M>(scan);
        (state, Scan::from_raw(scan, entry))
    };
    M::next_at_hand(state, &mut scan, direction) || guarded(|| M::next(state, &mut scan, direction))
}

unsafe extern "C-unwind" fn get_bitmap<M: IndexMethod>(
    scan: pg_sys::IndexScanDesc,
    bitmap: *mut pg_sys::TIDBitmap,
) -> i64 {
    guarded(|| {
        // SAFETY: as above; the bitmap is the server's.
        unsafe {
            let Opaque { state, entry } = opaque::<M>(scan);
            M::bitmap(state, &Scan::from_raw(scan, entry), &mut Bitmap::from_raw(bitmap))
        }
    })
}

unsafe extern "C-unwind" fn end_scan<M: IndexMethod>(scan: pg_sys::IndexScanDesc) {
    // SAFETY: a scan of `begin_scan`.
    guarded(|| unsafe {
        M::end_scan(&mut opaque::<M>(scan).state, Index::from_raw((*scan).indexRelation));
    })
}

unsafe extern "C-unwind" fn mark<M: IndexMethod>(scan: pg_sys::IndexScanDesc) {
    // SAFETY: a scan of `begin_scan`.
    let Opaque { state, .. } = unsafe { opaque::<M>(scan) };
    if !M::mark_at_hand(state) {
        guarded(|| M::mark(state));
    }
}

unsafe extern "C-unwind" fn restore<M: IndexMethod>(scan: pg_sys::IndexScanDesc) {
    // SAFETY: a scan of `begin_scan`.
    guarded(|| M::restore(&mut unsafe { opaque::<M>(scan) }.state))
}

unsafe extern "C-unwind" fn init_parallel_scan(target: *mut c_void) {
    // SAFETY: the server has as much room there as it was told above, and has not started other processes yet.
    guarded(|| unsafe { parallel_scan::init(target) })
}

unsafe extern "C-unwind" fn restart_parallel_scan(scan: pg_sys::IndexScanDesc) {
    // SAFETY: a parallel scan of `begin_scan`; the server calls this when the other processes have ended.
    guarded(|| unsafe {
        if let Some(shared) = SharedScan::of(scan) {
            shared.restart();
        }
    })
}
