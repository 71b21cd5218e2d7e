//! What all custom paths of ours have in common.

use std::ptr;

use pgrx::pg_sys;

/// A custom path for a relation, parameterized by the relations `outer`, without costs and without what it is for.
///
/// # Safety
/// The planner and a relation of its.
pub(super) unsafe fn new_path(
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    outer: pg_sys::Relids,
    methods: &'static pg_sys::CustomPathMethods,
) -> *mut pg_sys::CustomPath {
    // SAFETY: a node of the planner's, made and filled as it makes its own.
    unsafe {
        let path = pg_sys::palloc0(size_of::<pg_sys::CustomPath>()).cast::<pg_sys::CustomPath>();
        (*path).path.type_ = pg_sys::NodeTag::T_CustomPath;
        (*path).path.pathtype = pg_sys::NodeTag::T_CustomScan;
        (*path).path.parent = rel;
        (*path).path.pathtarget = (*rel).reltarget;
        (*path).path.param_info = pg_sys::get_baserel_parampathinfo(root, rel, outer);
        let parameters = (*path).path.param_info.as_ref();
        (*path).path.rows = parameters.map_or((*rel).rows, |parameters| parameters.ppi_rows);
        (*path).flags = pg_sys::CUSTOMPATH_SUPPORT_PROJECTION;
        (*path).methods = methods;
        path
    }
}

/// Sets the costs of a path: `own` (of the first row, of all), then the conditions of the relation on each of `found` rows,
/// and what is made of the rows that are left. The result is what all these rows cost the processor beside the path itself.
///
/// # Safety
/// A path of [`new_path`] that has its number of rows.
pub(super) unsafe fn set_costs(
    path: *mut pg_sys::CustomPath,
    (startup, total): (f64, f64),
    found: f64,
) -> f64 {
    // SAFETY: the caller's.
    unsafe {
        let rel = (*path).path.parent;
        let (conditions, target) = ((*rel).baserestrictcost, &*(*rel).reltarget);
        let rows = (pg_sys::cpu_tuple_cost + conditions.per_tuple) * found
            + target.cost.per_tuple * (*path).path.rows;
        let first = conditions.startup + target.cost.startup;
        (*path).path.startup_cost = startup + first;
        (*path).path.total_cost = total + first + rows;
        rows
    }
}

/// Adds a path that several processes execute a part each of, beside their leader.
///
/// # Safety
/// A path of [`new_path`] with the costs and the rows of one process, which no list of paths has.
pub(super) unsafe fn add_partial_path(path: *mut pg_sys::CustomPath, workers: i32) {
    // SAFETY: the caller's.
    unsafe {
        (*path).path.parallel_aware = true;
        (*path).path.parallel_safe = true;
        (*path).path.parallel_workers = workers;
        pg_sys::add_partial_path((*path).path.parent, path.cast());
    }
}

/// How many rows of a relation are likely to be read, 0 for all; `None` if that is up to a join.
///
/// # Safety
/// The planner and a relation of its.
pub(super) unsafe fn wanted_rows(
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
) -> Option<u32> {
    // SAFETY: sets of numbers; fields of valid nodes.
    unsafe {
        if !pg_sys::bms_equal((*root).all_baserels, (*rel).relids) {
            return None;
        }
        let (limit, fraction) = ((*root).limit_tuples, (*root).tuple_fraction);
        Some(match () {
            () if limit > 0.0 => limit as u32,
            () if fraction >= 1.0 => fraction as u32,
            () if fraction > 0.0 => 1,
            () => 0,
        })
    }
}

/// Columns of a relation, that of number 0 standing for the row as a whole.
pub(super) struct Columns(*mut pg_sys::Bitmapset);

impl Columns {
    /// Those that a query uses of a relation: in what it makes of its rows, and in these lists of conditions.
    ///
    /// # Safety
    /// A relation of the planner's, and lists of conditions on it.
    pub(super) unsafe fn used(rel: *mut pg_sys::RelOptInfo, conditions: &[*mut pg_sys::List]) -> Columns {
        let mut columns = ptr::null_mut();
        // SAFETY: lists of expressions, and of conditions with an expression each.
        unsafe {
            pg_sys::pull_varattnos((*(*rel).reltarget).exprs.cast(), (*rel).relid, &raw mut columns);
            for list in conditions {
                for at in 0..pg_sys::list_length(*list) {
                    let condition = pg_sys::list_nth(*list, at).cast::<pg_sys::RestrictInfo>();
                    pg_sys::pull_varattnos((*condition).clause.cast(), (*rel).relid, &raw mut columns);
                }
            }
        }
        Columns(columns)
    }

    /// Whether the column of that number is among them.
    pub(super) fn has(&self, number: i32) -> bool {
        // SAFETY: a set of the planner's, where column numbers are kept with this offset.
        unsafe { pg_sys::bms_is_member(number - pg_sys::FirstLowInvalidHeapAttributeNumber, self.0) }
    }
}
