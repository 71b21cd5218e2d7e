//! Planning of `WHERE column @@ filter` on a table: custom paths that look for the rows by the table's indexes, see
//! [`FilteredRows`]. They stand beside those of the server, so that costs decide.
//!
//! A filter that depends on no other table makes an ordinary path; one that depends on others, a path parameterized by
//! them, for the inner side of a nested loop.
//!
//! `@@` is not leakproof, as some of its errors tell of the document. Under row security the server's own index conditions
//! are therefore leakproof operators alone. These paths may serve any filter: by an index they compare bytes of keys,
//! which shows nothing of a row to anybody, and the conditions of the query, those of the policies first and `@@` among
//! the others, are evaluated on each row that is returned.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::ptr;

use pgrx::pg_sys;

use super::custom_scan::argument_of;
use super::filter_scan::{FilteredRows, Methods, Scanned};
use super::function::Args;
use super::scan_node::new_plan;
use super::streamed::{Argument, Estimate};
use super::{catalog, compat, error_frame};

/// The function behind the operator `@@`.
const MATCHES: &CStr = c"matches";

/// The share of the rows that match a filter of which nothing is known: that of the server's operators of containment.
const UNKNOWN_SHARE: f64 = 0.001;

/// A search that the planner's hook knows.
pub(crate) struct FilterPaths {
    column: &'static CStr,
    paths: &'static pg_sys::CustomPathMethods,
    pub(super) scan: &'static pg_sys::CustomScanMethods,
    estimate: fn(Scanned, &Argument<'_>) -> Option<Estimate>,
    share: fn(Scanned, &Argument<'_>) -> Option<f64>,
}

// SAFETY: its methods are constants of the program.
unsafe impl Sync for FilterPaths {}
// SAFETY: as above.
unsafe impl Send for FilterPaths {}

impl FilterPaths {
    /// The record of a search.
    pub(crate) const fn new<T: FilteredRows>() -> FilterPaths {
        FilterPaths {
            column: T::COLUMN,
            paths: Paths::<T>::METHODS,
            scan: Methods::<T>::SCAN,
            estimate: T::estimate,
            share: T::share,
        }
    }

    /// The table of an entry in the range table, if it has documents.
    ///
    /// # Safety
    /// An entry in the range table.
    unsafe fn scanned(&self, entry: *mut pg_sys::RangeTblEntry) -> Option<Scanned> {
        // SAFETY: the caller's.
        unsafe {
            if (*entry).rtekind != pg_sys::RTEKind::RTE_RELATION
                || (*entry).relkind as u8 != pg_sys::RELKIND_RELATION
                || (*entry).inh
            {
                return None;
            }
            let (column, kind) = catalog::column((*entry).relid, self.column)?;
            (kind == catalog::own_type(c"bson")).then_some(Scanned { table: (*entry).relid, column })
        }
    }
}

/// How paths of `T` become plans.
struct Paths<T>(PhantomData<T>);

impl<T: FilteredRows> Paths<T> {
    const METHODS: &'static pg_sys::CustomPathMethods = &pg_sys::CustomPathMethods {
        CustomName: T::NODE.as_ptr(),
        PlanCustomPath: Some(plan::<T>),
        ReparameterizeCustomPathByChild: None,
    };
}

/// Adds a path to a table for each condition that is a filter.
///
/// # Safety
/// A relation of the planner's, its number and its entry in the range table.
pub(super) unsafe fn add_paths(
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    number: pg_sys::Index,
    entry: *mut pg_sys::RangeTblEntry,
    filters: &'static FilterPaths,
) {
    // SAFETY: nodes of the planner's.
    unsafe {
        let kind = (*rel).reloptkind;
        let base = kind == pg_sys::RelOptKind::RELOPT_BASEREL;
        if !base && kind != pg_sys::RelOptKind::RELOPT_OTHER_MEMBER_REL {
            return;
        }
        let (own, shared) = ((*rel).baserestrictinfo, (*rel).joininfo);
        let candidates = |list: *mut pg_sys::List| {
            (0..pg_sys::list_length(list)).any(|at| filter_of(list, at, number).is_some())
        };
        // Conditions on several tables are those of a partitioned table's parent where it is joined piece by piece: such
        // paths would have to be translated.
        let joined = base && candidates(shared);
        if !candidates(own) && !joined || !(*entry).tablesample.is_null() || needs_header(rel) {
            return;
        }
        let Some(table) = filters.scanned(entry) else { return };
        for at in 0..pg_sys::list_length(own) {
            let Some(Condition { clause, document, filter }) = filter_of(own, at, number) else { continue };
            if (*document).varattno == table.column && !pg_sys::contain_var_clause(filter) {
                add_path(root, rel, filters, table, clause, (*rel).lateral_relids);
            }
        }
        for at in 0..if joined { pg_sys::list_length(shared) } else { 0 } {
            let Some(Condition { clause, document, filter }) = filter_of(shared, at, number) else {
                continue;
            };
            let condition = pg_sys::list_nth(shared, at).cast::<pg_sys::RestrictInfo>();
            if (*document).varattno == table.column
                && !pg_sys::bms_is_member(number as i32, pg_sys::pull_varnos(root, filter))
                && pg_sys::join_clause_is_movable_to(condition, rel)
            {
                let others = pg_sys::bms_copy((*condition).clause_relids);
                let others = pg_sys::bms_del_member(others, number as i32);
                let others = pg_sys::bms_add_members(others, (*rel).lateral_relids);
                add_path(root, rel, filters, table, clause, others);
            }
        }
    }
}

/// Adds the path for one condition, parameterized by the relations `outer`.
///
/// # Safety
/// As [`add_paths`].
unsafe fn add_path(
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    filters: &'static FilterPaths,
    table: Scanned,
    condition: *mut pg_sys::OpExpr,
    outer: pg_sys::Relids,
) {
    // SAFETY: nodes of the planner's, made and filled as it makes its own; the server makes a new expression, with
    // parameters and stable functions replaced where it can.
    unsafe {
        let filter = pg_sys::list_nth((*condition).args, 1).cast::<pg_sys::Node>();
        let value = match are_rows_hidden(root) {
            true => Argument::Expression(None),
            false => argument_of(pg_sys::estimate_expression_value(root, filter), |_| None),
        };
        let Some(Estimate { startup, total, rows: found }) = (filters.estimate)(table, &value) else {
            return;
        };
        let path = pg_sys::palloc0(size_of::<pg_sys::CustomPath>()).cast::<pg_sys::CustomPath>();
        (*path).path.type_ = pg_sys::NodeTag::T_CustomPath;
        (*path).path.pathtype = pg_sys::NodeTag::T_CustomScan;
        (*path).path.parent = rel;
        (*path).path.pathtarget = (*rel).reltarget;
        (*path).path.param_info = pg_sys::get_baserel_parampathinfo(root, rel, outer);
        let parameters = (*path).path.param_info.as_ref();
        (*path).path.rows = parameters.map_or((*rel).rows, |parameters| parameters.ppi_rows);
        let conditions = (*rel).baserestrictcost;
        let target = &*(*rel).reltarget;
        let each = pg_sys::cpu_tuple_cost + conditions.per_tuple;
        (*path).path.startup_cost = startup + conditions.startup + target.cost.startup;
        (*path).path.total_cost = total
            + conditions.startup
            + target.cost.startup
            + each * found
            + target.cost.per_tuple * (*path).path.rows;
        (*path).flags = pg_sys::CUSTOMPATH_SUPPORT_PROJECTION;
        let column = pg_sys::makeInteger(i32::from(table.column));
        let private = pg_sys::lappend(ptr::null_mut(), condition.cast());
        (*path).custom_private = pg_sys::lappend(private, column.cast());
        (*path).methods = filters.paths;
        pg_sys::add_path(rel, path.cast());
    }
}

/// Whether policies or a view with `security_barrier` hide rows from the query. An estimate that depends on the filter would
/// tell whether hidden rows match it, in the costs that EXPLAIN shows; so the filter is taken for one that is not known.
///
/// # Safety
/// The planner of a query.
unsafe fn are_rows_hidden(root: *mut pg_sys::PlannerInfo) -> bool {
    // SAFETY: the caller's.
    unsafe { (*root).qual_security_level > 0 }
}

/// A condition `column @@ filter`.
struct Condition {
    clause: *mut pg_sys::OpExpr,
    document: *mut pg_sys::Var,
    filter: *mut pg_sys::Node,
}

/// Condition `at`, if it is `column @@ filter` with a filter that has the same value for all rows
/// of relation `number`, unless it has variables of it.
///
/// # Safety
/// A list of conditions.
unsafe fn filter_of(conditions: *mut pg_sys::List, at: i32, number: pg_sys::Index) -> Option<Condition> {
    // SAFETY: the tag of a node says what structure it is.
    unsafe {
        let condition = pg_sys::list_nth(conditions, at).cast::<pg_sys::RestrictInfo>();
        let clause = (*condition).clause.cast::<pg_sys::OpExpr>();
        if (*condition).pseudoconstant
            || (*clause.cast::<pg_sys::Node>()).type_ != pg_sys::NodeTag::T_OpExpr
            || pg_sys::list_length((*clause).args) != 2
        {
            return None;
        }
        let document = pg_sys::list_nth((*clause).args, 0).cast::<pg_sys::Var>();
        let filter = pg_sys::list_nth((*clause).args, 1).cast::<pg_sys::Node>();
        let is_filter = (*document.cast::<pg_sys::Node>()).type_ == pg_sys::NodeTag::T_Var
            && (*document).varno == number as i32
            && (*document).varlevelsup == 0
            && !pg_sys::contain_volatile_functions(filter)
            && catalog::is_own_function(pg_sys::get_opcode((*clause).opno), MATCHES);
        is_filter.then_some(Condition { clause, document, filter })
    }
}

/// Whether the query uses system columns of a relation that are read from a row's header, which a row has lost when it
/// is decoded: all but `ctid` and `tableoid`.
///
/// # Safety
/// A relation of the planner's.
unsafe fn needs_header(rel: *mut pg_sys::RelOptInfo) -> bool {
    // SAFETY: lists of expressions, and of conditions with an expression each.
    unsafe {
        let mut columns = ptr::null_mut();
        pg_sys::pull_varattnos((*(*rel).reltarget).exprs.cast(), (*rel).relid, &raw mut columns);
        for conditions in [(*rel).baserestrictinfo, (*rel).joininfo] {
            for at in 0..pg_sys::list_length(conditions) {
                let condition = pg_sys::list_nth(conditions, at).cast::<pg_sys::RestrictInfo>();
                pg_sys::pull_varattnos((*condition).clause.cast(), (*rel).relid, &raw mut columns);
            }
        }
        (pg_sys::FirstLowInvalidHeapAttributeNumber + 1..0).any(|number| {
            // Column numbers are kept with this offset.
            let member = number - pg_sys::FirstLowInvalidHeapAttributeNumber;
            number != pg_sys::SelfItemPointerAttributeNumber
                && number != pg_sys::TableOidAttributeNumber
                && pg_sys::bms_is_member(member, columns)
        })
    }
}

unsafe extern "C-unwind" fn plan<T: FilteredRows>(
    _root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    path: *mut pg_sys::CustomPath,
    columns: *mut pg_sys::List,
    conditions: *mut pg_sys::List,
    _plans: *mut pg_sys::List,
) -> *mut pg_sys::Plan {
    // SAFETY: called by the planner with a path of `add_path`, whose private list has the condition and the number of the
    // column. The filter is an expression of the plan, so that the server replaces references to other tables in it. The
    // conditions come in the order in which they have to be evaluated.
    unsafe {
        error_frame::guarded(|| {
            let condition = pg_sys::list_nth((*path).custom_private, 0).cast::<pg_sys::OpExpr>();
            let filter = pg_sys::list_nth((*condition).args, 1);
            let column = pg_sys::list_nth((*path).custom_private, 1).cast::<pg_sys::Integer>();
            let scan = new_plan(path, columns, conditions, Methods::<T>::SCAN);
            (*scan).scan.scanrelid = (*rel).relid;
            (*scan).custom_exprs = pg_sys::lappend(ptr::null_mut(), pg_sys::copyObjectImpl(filter).cast());
            let private = pg_sys::lappend_int(ptr::null_mut(), (*column).ival);
            (*scan).custom_private =
                pg_sys::lappend_int(private, position((*scan).scan.plan.qual, condition));
            scan.cast()
        })
    }
}

/// Where in a list of conditions one is; -1 if it is not there.
///
/// # Safety
/// A list of conditions, and one.
unsafe fn position(conditions: *mut pg_sys::List, condition: *mut pg_sys::OpExpr) -> i32 {
    // SAFETY: the caller's.
    unsafe {
        let is = |at: &i32| pg_sys::equal(pg_sys::list_nth(conditions, *at), condition.cast());
        (0..pg_sys::list_length(conditions)).find(is).unwrap_or(-1)
    }
}

impl Args {
    /// The share of a table's rows that a condition `column @@ filter` leaves, for a function that the server calls as
    /// the estimator of the operator: with the planner, the operator, the arguments and a relation.
    pub(crate) fn filter_share(&self, filters: &'static FilterPaths) -> f64 {
        let (Some(root), Some(arguments)) = (self.internal(0), self.internal(2)) else {
            return UNKNOWN_SHARE;
        };
        // SAFETY: SQL cannot call a function with an argument of type internal; the server calls estimators with these.
        let share = unsafe {
            let (root, arguments) = (root.cast_mut_ptr(), arguments.cast_mut_ptr());
            filters.share(root, arguments)
        };
        share.unwrap_or(UNKNOWN_SHARE).clamp(0.0, 1.0)
    }
}

impl FilterPaths {
    /// The share of the rows that match; `None` if nothing is known.
    ///
    /// # Safety
    /// The planner and the arguments of the operator.
    unsafe fn share(&self, root: *mut pg_sys::PlannerInfo, arguments: *mut pg_sys::List) -> Option<f64> {
        // SAFETY: the tag of a node says what structure it is; the planner has arrays of as many relations as it says.
        unsafe {
            let document = pg_sys::list_nth(arguments, 0).cast::<pg_sys::Var>();
            if pg_sys::list_length(arguments) != 2
                || (*document.cast::<pg_sys::Node>()).type_ != pg_sys::NodeTag::T_Var
                || (*document).varlevelsup != 0
                || (*document).varno <= 0
                || (*document).varno >= (*root).simple_rel_array_size
            {
                return None;
            }
            if are_rows_hidden(root) {
                return None;
            }
            let number = (*document).varno as usize;
            let rel = (*(*root).simple_rel_array.add(number)).as_mut()?;
            let entry = *(*root).simple_rte_array.add(number);
            let table = self.scanned(entry).filter(|table| table.column == (*document).varattno)?;
            // As for statistics that the server keeps: not for those who may not read the column.
            let user = compat::checked_as(rel, entry);
            let user = if user == pg_sys::InvalidOid { pg_sys::GetUserId() } else { user };
            let select = compat::class_privileges(pg_sys::ACL_SELECT);
            if pg_sys::pg_class_aclcheck(table.table, user, select) != pg_sys::AclResult::ACLCHECK_OK {
                return None;
            }
            let filter = pg_sys::estimate_expression_value(root, pg_sys::list_nth(arguments, 1).cast());
            (self.share)(table, &argument_of(filter, |_| None))
        }
    }
}
