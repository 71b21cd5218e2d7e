//! Scans in the order of a distance that nobody reads: `SELECT id FROM films ORDER BY embedding <-> $1 LIMIT 10`.
//!
//! The planner makes what a query is ordered by a column of its plan, which the executor throws away in the end if the query does
//! not return it. Each row that a scan returns is read for it, from the table of long values if the vector is long, although the
//! rows come in that order already. A hook of the planner's puts NULL in the place of such a column.
//!
//! It does so only where nothing but the end of the query is above the scan: no sort or merge, which compares the column, no row locks, after
//! which it may be computed anew, and no LIMIT .. WITH TIES. The access method says that its order is exact, so the scan itself
//! does not compute the column either. The hook is called when all paths have been made, for which the index, and with it this library,
//! has been loaded.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::OnceLock;

use pgrx::pg_sys;

use super::{catalog, error_frame};

/// What the hook works with, set when the library is loaded.
struct Hook {
    previous: pg_sys::create_upper_paths_hook_type,
    method: &'static CStr,
}

static HOOK: OnceLock<Hook> = OnceLock::new();

/// Lets scans of indexes of this access method leave out distances that nobody reads.
pub(crate) fn install(method: &'static CStr) {
    // SAFETY: the backend has one thread; the server calls the hook with what it is declared to take.
    unsafe {
        let previous = pg_sys::create_upper_paths_hook;
        if HOOK.set(Hook { previous, method }).is_ok() {
            pg_sys::create_upper_paths_hook = Some(upper_paths);
        }
    }
}

unsafe extern "C-unwind" fn upper_paths(
    root: *mut pg_sys::PlannerInfo,
    stage: pg_sys::UpperRelationKind::Type,
    input: *mut pg_sys::RelOptInfo,
    output: *mut pg_sys::RelOptInfo,
    extra: *mut c_void,
) {
    let Some(hook) = HOOK.get() else { return };
    if stage != pg_sys::UpperRelationKind::UPPERREL_FINAL && hook.previous.is_none() {
        return;
    }
    // SAFETY: called by the planner, with relations that have their paths. The callback is the outermost Rust frame below the
    // server's, and another library's hook is called as the server calls it.
    unsafe {
        error_frame::guarded(|| {
            if let Some(previous) = hook.previous {
                pg_sys::ffi::pg_guard_ffi_boundary(|| previous(root, stage, input, output, extra));
            }
            if stage != pg_sys::UpperRelationKind::UPPERREL_FINAL {
                return;
            }
            for at in 0..pg_sys::list_length((*output).pathlist) {
                let cell = pg_sys::list_nth_cell((*output).pathlist, at);
                if let Some(path) = without_distance(root, (*cell).ptr_value.cast(), hook.method) {
                    (*cell).ptr_value = path.cast();
                }
            }
        })
    }
}

/// A path like this one for a whole query that does not compute the distance that it is in the order of; `None` if it may be needed.
///
/// # Safety
/// A final path of the planner's.
unsafe fn without_distance(
    root: *mut pg_sys::PlannerInfo,
    path: *mut pg_sys::Path,
    method: &CStr,
) -> Option<*mut pg_sys::Path> {
    // SAFETY: the tag of a node says what structure it is.
    unsafe {
        match (*path).type_ {
            pg_sys::NodeTag::T_LimitPath => {
                let limit = copy(path.cast::<pg_sys::LimitPath>());
                if (*limit).limitOption != pg_sys::LimitOption::LIMIT_OPTION_COUNT {
                    return None;
                }
                (*limit).subpath = without_distance(root, (*limit).subpath, method)?;
                (*limit).path.pathtarget = (*(*limit).subpath).pathtarget;
                Some(limit.cast())
            }
            // One of these is no node of the plan: the scan returns these columns.
            pg_sys::NodeTag::T_ProjectionPath => {
                let columns = copy(path.cast::<pg_sys::ProjectionPath>());
                if !(*columns).dummypp {
                    return None;
                }
                let target = unread(root, (*columns).subpath, (*path).pathtarget, method)?;
                (*columns).path.pathtarget = target;
                Some(columns.cast())
            }
            pg_sys::NodeTag::T_IndexPath => {
                let target = unread(root, path, (*path).pathtarget, method)?;
                let scan = copy(path.cast::<pg_sys::IndexPath>());
                (*scan).path.pathtarget = target;
                Some(scan.cast())
            }
            _ => None,
        }
    }
}

/// The columns of a query, with NULL for the distance that `scan` is in the order of; `None` if it is not a scan of the access method's, or the
/// query returns the distance.
///
/// # Safety
/// A path of the planner's and the columns of the whole query.
unsafe fn unread(
    root: *mut pg_sys::PlannerInfo,
    scan: *mut pg_sys::Path,
    columns: *mut pg_sys::PathTarget,
    method: &CStr,
) -> Option<*mut pg_sys::PathTarget> {
    // SAFETY: as above.
    unsafe {
        if (*scan).type_ != pg_sys::NodeTag::T_IndexPath {
            return None;
        }
        let scan = scan.cast::<pg_sys::IndexPath>();
        let (distances, count) = ((*scan).indexorderbys, pg_sys::list_length((*columns).exprs));
        if pg_sys::list_length(distances) != 1
            || count != pg_sys::list_length((*root).processed_tlist)
            || catalog::index_access_method(method) != Some((*(*scan).indexinfo).relam)
        {
            return None;
        }
        let distance = pg_sys::list_nth(distances, 0).cast::<pg_sys::Node>();
        let is_unread = |at: &i32| {
            let column = pg_sys::list_nth((*root).processed_tlist, *at).cast::<pg_sys::TargetEntry>();
            let expression = pg_sys::list_nth((*columns).exprs, *at);
            (*column).resjunk
                && is_same((*column).expr.cast(), distance)
                && is_same(expression.cast(), distance)
        };
        let at = (0..count).find(is_unread)?;
        let new = pg_sys::copy_pathtarget(columns);
        let (kind, modifier) = (pg_sys::exprType(distance), pg_sys::exprTypmod(distance));
        let null = pg_sys::makeNullConst(kind, modifier, pg_sys::exprCollation(distance));
        (*pg_sys::list_nth_cell((*new).exprs, at)).ptr_value = null.cast();
        Some(new)
    }
}

/// Whether an expression is a distance, or has its sides exchanged: the server asks an index for `column <-> constant` where a query
/// has `constant <-> column`.
///
/// # Safety
/// Expressions of the planner's.
unsafe fn is_same(expression: *mut pg_sys::Node, distance: *mut pg_sys::Node) -> bool {
    // SAFETY: the tag of a node says what structure it is.
    unsafe {
        if pg_sys::equal(expression.cast(), distance.cast()) {
            return true;
        }
        let call = expression.cast::<pg_sys::OpExpr>();
        if (*expression).type_ != pg_sys::NodeTag::T_OpExpr || pg_sys::list_length((*call).args) != 2 {
            return false;
        }
        let exchanged = copy(call);
        (*exchanged).opno = pg_sys::get_commutator((*call).opno);
        // Not looked up yet: it is not compared with that of another expression.
        (*exchanged).opfuncid = pg_sys::InvalidOid;
        let [left, right] = [0, 1].map(|at| pg_sys::list_nth((*call).args, at));
        (*exchanged).args = pg_sys::lappend(pg_sys::lappend(ptr::null_mut(), right), left);
        pg_sys::equal(exchanged.cast(), distance.cast())
    }
}

/// A copy of a node, of which other paths may be made.
///
/// # Safety
/// A node of this type.
unsafe fn copy<T>(node: *const T) -> *mut T {
    // SAFETY: the caller's; as much memory as it takes.
    unsafe {
        let new = pg_sys::palloc(size_of::<T>()).cast::<T>();
        ptr::copy_nonoverlapping(node, new, 1);
        new
    }
}
