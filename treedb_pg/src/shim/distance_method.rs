//! Index access methods that return rows by their distance from a value, the nearest first: `ORDER BY column <-> value`.
//!
//! [`handler`] makes the server's routine of a type that implements [`DistanceMethod`]. An index has one column, and a scan
//! one ordering operator and no conditions; the executor filters rows, and asks for more of them as it needs them.

use std::ffi::c_void;

use pgrx::{PgBox, PgMemoryContexts, pg_sys};

use super::datum::{Datum, Layout};
use super::index_method::{
    Handler, IndexWrites, NEVER, build, build_empty, build_phase_name, bulk_delete, guarded, insert,
    vacuum_cleanup,
};
use super::relation::{Index, Relation};
use super::{compat, operator_class, vector_options};

/// What rows are ordered by.
pub(crate) enum Target<'c> {
    /// The scan has no order.
    Missing,
    /// The distance from NULL, which is NULL for every row.
    Null,
    /// The distance from a value.
    Value(Datum<'c>),
}

/// An access method that returns rows by distance.
pub(crate) trait DistanceMethod: IndexWrites {
    /// A scan. It is `Send`, so it holds no handle of the server's.
    type Scan: Send + 'static;

    /// Whether there are operator classes whose support function 1 returns this number.
    fn is_kind(kind: i32) -> bool;
    /// The share of an index with so many rows that is read before the first one is returned.
    fn share_of_first(index: Index<'_>, rows: f64) -> f64;
    /// Whether a scan can be expected to find so many rows, the nearest of an index with so many, before a limit of the access
    /// method ends it.
    fn reaches(asked: f64, rows: f64) -> bool;

    /// Begins a scan, which is dropped with its memory context.
    fn begin_scan() -> Self::Scan;
    /// Begins again, from another value.
    fn rescan(state: &mut Self::Scan, index: Index<'_>, target: Target<'_>);
    /// The next row.
    fn next(state: &mut Self::Scan, index: Index<'_>, table: Relation<'_>)
    -> Option<pg_sys::ItemPointerData>;
}

/// The routine of an access method.
pub(crate) fn handler<M: DistanceMethod>() -> Handler {
    // SAFETY: a node of that type, zero but for its tag, which the server frees.
    let mut am = unsafe { PgBox::<pg_sys::IndexAmRoutine>::alloc_node(pg_sys::NodeTag::T_IndexAmRoutine) };
    am.amstrategies = operator_class::DISTANCE as u16;
    am.amsupport = operator_class::DISTANCE_KIND;
    am.amcanorderbyop = true;
    am.amoptionalkey = true;
    am.amkeytype = pg_sys::InvalidOid;
    am.amparallelvacuumoptions = pg_sys::VACUUM_OPTION_PARALLEL_BULKDEL as u8;
    am.ambuild = Some(build::<M>);
    am.ambuildempty = Some(build_empty::<M>);
    am.aminsert = Some(insert::<M>);
    am.ambulkdelete = Some(bulk_delete::<M>);
    am.amvacuumcleanup = Some(vacuum_cleanup::<M>);
    am.amcostestimate = Some(cost_estimate::<M>);
    am.amoptions = Some(options);
    am.ambuildphasename = Some(build_phase_name::<M>);
    am.amvalidate = Some(validate::<M>);
    am.ambeginscan = Some(begin_scan::<M>);
    am.amrescan = Some(rescan::<M>);
    am.amgettuple = Some(get_tuple::<M>);
    am.amendscan = Some(end_scan);
    Handler(am.into_pg())
}

// What all callbacks rely on is what those of `index_method` do.

#[allow(clippy::too_many_arguments)]
unsafe extern "C-unwind" fn cost_estimate<M: DistanceMethod>(
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
        // SAFETY: called by the planner, with an index that it has locked; the server fills the structure of numbers.
        unsafe {
            let mut costs = pg_sys::GenericCosts::default();
            pg_sys::genericcostestimate(root, path, loop_count, &raw mut costs);
            (*selectivity, *correlation) = (costs.indexSelectivity, costs.indexCorrelation);
            *pages = costs.numIndexPages;
            if (*path).indexorderbys.is_null() {
                (*startup, *total) = (NEVER, NEVER);
                compat::disable_path(path);
                return;
            }
            let info = (*path).indexinfo;
            // A scan is asked for rows until as many as the query's limit fulfil its conditions. One that would end before that
            // has fewer: then all rows that fulfil them are sorted.
            let (limit, share) = ((*root).limit_tuples, (*path).path.rows / (*info).tuples.max(1.0));
            if limit > 0.0 && share > 0.0 && share < 1.0 && !M::reaches(limit / share, (*info).tuples) {
                (*startup, *total) = (NEVER, NEVER);
                compat::disable_path(path);
                return;
            }
            // An index that is only supposed to be there has no pages to ask.
            let mut share = 1.0;
            if !(*info).hypothetical {
                let index = pg_sys::index_open((*info).indexoid, pg_sys::NoLock as i32);
                share = M::share_of_first(Index::from_raw(index), (*info).tuples);
                pg_sys::index_close(index, pg_sys::NoLock as i32);
            }
            *startup = costs.indexTotalCost * share;
            *total = costs.indexTotalCost;
        }
    })
}

unsafe extern "C-unwind" fn options(options: pg_sys::Datum, validate: bool) -> *mut pg_sys::bytea {
    // SAFETY: see above.
    guarded(|| unsafe { vector_options::parse(options, validate) })
}

unsafe extern "C-unwind" fn validate<M: DistanceMethod>(class: pg_sys::Oid) -> bool {
    guarded(|| operator_class::is_valid_distance(class, M::is_kind))
}

/// The state of a scan.
///
/// # Safety
/// `scan` was begun by `begin_scan` of the same access method, and the result is used by one callback only.
unsafe fn state<'c, M: DistanceMethod>(scan: pg_sys::IndexScanDesc) -> &'c mut M::Scan {
    // SAFETY: set by `begin_scan`, alive until the context of the scan goes away.
    unsafe { &mut *(*scan).opaque.cast() }
}

unsafe extern "C-unwind" fn begin_scan<M: DistanceMethod>(
    index: pg_sys::Relation,
    keys: i32,
    order_bys: i32,
) -> pg_sys::IndexScanDesc {
    guarded(|| {
        // SAFETY: see above.
        unsafe {
            let scan = pg_sys::RelationGetIndexScan(index, keys, order_bys);
            // Dropped with the context, whether or not the scan is ended.
            let state = PgMemoryContexts::CurrentMemoryContext.leak_and_drop_on_delete(M::begin_scan());
            (*scan).opaque = state.cast::<c_void>();
            scan
        }
    })
}

unsafe extern "C-unwind" fn rescan<M: DistanceMethod>(
    scan: pg_sys::IndexScanDesc,
    _keys: pg_sys::ScanKey,
    _count: i32,
    order_bys: pg_sys::ScanKey,
    _order_by_count: i32,
) {
    guarded(|| {
        // SAFETY: a scan of `begin_scan`, which has room for its number of ordering operators. The argument is of the type
        // of the operator class, which is stored as all types of vectors are, and lives as long as the call.
        unsafe {
            let count = usize::try_from((*scan).numberOfOrderBys).unwrap_or(0);
            if !order_bys.is_null() && count > 0 {
                std::ptr::copy(order_bys, (*scan).orderByData, count);
            }
            let target = if count == 0 {
                Target::Missing
            } else {
                let key = &*(*scan).orderByData;
                match key.sk_flags as u32 & pg_sys::SK_ISNULL {
                    0 => Target::Value(Datum::from_raw(key.sk_argument, Layout::Varlena)),
                    _ => Target::Null,
                }
            };
            let index = Index::from_raw((*scan).indexRelation);
            index.count_scan();
            compat::count_searches(scan, 1);
            M::rescan(state::<M>(scan), index, target);
        }
    })
}

unsafe extern "C-unwind" fn get_tuple<M: DistanceMethod>(
    scan: pg_sys::IndexScanDesc,
    _direction: pg_sys::ScanDirection::Type,
) -> bool {
    guarded(|| {
        // SAFETY: a scan of `begin_scan`, after `rescan`; the access method scans forward only.
        unsafe {
            let row = M::next(
                state::<M>(scan),
                Index::from_raw((*scan).indexRelation),
                Relation::from_raw((*scan).heapRelation),
            );
            if let Some(row) = row {
                (*scan).xs_heaptid = row;
                (*scan).xs_recheck = false;
                (*scan).xs_recheckorderby = false;
            }
            row.is_some()
        }
    })
}

/// There is nothing to release: the state is dropped with its memory context. So a caller that scans many times gives each scan
/// a context of its own.
unsafe extern "C-unwind" fn end_scan(_scan: pg_sys::IndexScanDesc) {}
