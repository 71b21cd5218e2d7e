//! Planning of [`StreamedFunction`]s in FROM: a hook of the planner's, and the support function of their SQL
//! declarations.
//!
//! A call in FROM is scanned by a function scan, which collects the whole answer first and shows nothing of how. Where nothing speaks against it,
//! the hook puts a custom path in its place, which [`super::custom_scan`] executes. The library has to be loaded before
//! the planner makes paths; it is, because the planner asks the support function to simplify every call first.
//!
//! The hook also adds the paths of [`super::filter_path`] to tables.
//!
//! The support function also estimates rows and cost where the call stays a function scan, or stands in a SELECT list.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::ptr;
use std::sync::OnceLock;

use pgrx::pg_sys;

use super::custom_path::{self, Columns};
use super::custom_scan::{Methods, arguments_of};
use super::declared::Class;
use super::filter_path::{self, FilterPaths};
use super::function::{Args, Output};
use super::scan_node::new_plan;
use super::setting::Switch;
use super::streamed::{ARGUMENTS, Argument, Divided, Estimate, Returned, StreamedFunction};
use super::{catalog, error_frame};

/// A function that the hook knows.
pub(crate) struct Planned {
    function: &'static CStr,
    returned: Returned,
    methods: &'static pg_sys::CustomPathMethods,
    scan: &'static pg_sys::CustomScanMethods,
    estimate: fn(&[Argument<'_>; ARGUMENTS]) -> Option<Estimate>,
    divided: fn(&[Argument<'_>; ARGUMENTS], &Estimate) -> Option<Divided>,
}

// SAFETY: its methods are constants of the program.
unsafe impl Sync for Planned {}
// SAFETY: as above.
unsafe impl Send for Planned {}

impl Planned {
    /// The record of a function.
    pub(crate) const fn new<T: StreamedFunction>() -> Planned {
        Planned {
            function: T::FUNCTION,
            returned: T::RETURNED,
            methods: Paths::<T>::METHODS,
            scan: Methods::<T>::SCAN,
            estimate: T::estimate,
            divided: T::divided,
        }
    }

    /// Whether it is the function of that number.
    fn is(&self, function: pg_sys::Oid) -> bool {
        catalog::is_own_function(function, self.function)
    }
}

/// How paths of `T` become plans.
struct Paths<T>(PhantomData<T>);

impl<T: StreamedFunction> Paths<T> {
    const METHODS: &'static pg_sys::CustomPathMethods = &pg_sys::CustomPathMethods {
        CustomName: T::NODE.as_ptr(),
        PlanCustomPath: Some(plan::<T>),
        ReparameterizeCustomPathByChild: None,
    };
}

/// What the hook works with, set when the library is loaded.
struct Hook {
    previous: pg_sys::set_rel_pathlist_hook_type,
    functions: &'static [Planned],
    filters: &'static FilterPaths,
    enabled: &'static Switch,
}

static HOOK: OnceLock<Hook> = OnceLock::new();

/// Puts paths for calls of these functions in FROM in place of function scans, and adds paths for filters of tables, as
/// long as `enabled` says so.
pub(crate) fn install(
    functions: &'static [Planned],
    filters: &'static FilterPaths,
    enabled: &'static Switch,
) {
    // SAFETY: the backend has one thread; the server calls the hook with what it is declared to take. The methods
    // live as long as the library, which is never unloaded.
    unsafe {
        let previous = pg_sys::set_rel_pathlist_hook;
        if HOOK.set(Hook { previous, functions, filters, enabled }).is_ok() {
            pg_sys::set_rel_pathlist_hook = Some(rel_pathlist);
            for function in functions {
                pg_sys::RegisterCustomScanMethods(function.scan);
            }
            pg_sys::RegisterCustomScanMethods(filters.scan);
        }
    }
}

unsafe extern "C-unwind" fn rel_pathlist(
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    number: pg_sys::Index,
    entry: *mut pg_sys::RangeTblEntry,
) {
    let Some(hook) = HOOK.get() else { return };
    // SAFETY: called by the planner, with a relation that has its paths. The callback is the outermost Rust frame
    // below the server's, and another library's hook is called as the server calls it.
    unsafe {
        error_frame::guarded(|| {
            if let Some(previous) = hook.previous {
                pg_sys::ffi::pg_guard_ffi_boundary(|| previous(root, rel, number, entry));
            }
            if !hook.enabled.is_on() {
                return;
            }
            if let Some((planned, call)) = planned(hook.functions, rel, entry) {
                let estimate = estimated(root, planned, call);
                let path = make_path(root, rel, planned, call, estimate, (*rel).tuples);
                (*rel).pathlist = std::ptr::null_mut();
                pg_sys::add_path(rel, path.cast());
                if let Some(divided) = divided(root, rel, planned, call, &estimate) {
                    add_divided_path(root, rel, planned, call, &divided);
                }
            }
            filter_path::add_paths(root, rel, number, entry, hook.filters);
        })
    }
}

/// The call in FROM that a relation is, if it can be streamed.
///
/// # Safety
/// A relation of the planner's and its entry in the range table.
unsafe fn planned(
    functions: &'static [Planned],
    rel: *mut pg_sys::RelOptInfo,
    entry: *mut pg_sys::RangeTblEntry,
) -> Option<(&'static Planned, *mut pg_sys::FuncExpr)> {
    // SAFETY: the tag of a node says what structure it is.
    unsafe {
        let kind = (*rel).reloptkind;
        let base =
            kind == pg_sys::RelOptKind::RELOPT_BASEREL || kind == pg_sys::RelOptKind::RELOPT_OTHER_MEMBER_REL;
        if !base
            || (*entry).rtekind != pg_sys::RTEKind::RTE_FUNCTION
            || (*entry).funcordinality
            || pg_sys::list_length((*entry).functions) != 1
        {
            return None;
        }
        let function = pg_sys::list_nth((*entry).functions, 0).cast::<pg_sys::RangeTblFunction>();
        let call = (*function).funcexpr.cast::<pg_sys::FuncExpr>();
        if (*function).funccolcount != 1
            || !(*function).funccolnames.is_null()
            || (*call.cast::<pg_sys::Node>()).type_ != pg_sys::NodeTag::T_FuncExpr
            || pg_sys::list_length((*call).args) != ARGUMENTS as i32
        {
            return None;
        }
        let returned = if (*call).funcretset { Returned::Set } else { Returned::Number };
        let planned =
            functions.iter().find(|planned| planned.returned == returned && planned.is((*call).funcid))?;
        // A function scan evaluates its arguments once and then repeats its rows; a stream evaluates them again.
        let again = pg_sys::contain_volatile_functions((*call).args.cast());
        (!again && !wants_whole_rows(rel)).then_some((planned, call))
    }
}

/// Whether the query uses rows of a relation as a whole, as it does to look at them again after another table's row
/// was locked.
///
/// # Safety
/// A relation of the planner's.
unsafe fn wants_whole_rows(rel: *mut pg_sys::RelOptInfo) -> bool {
    // SAFETY: the caller's.
    unsafe { Columns::used(rel, &[(*rel).baserestrictinfo]) }.has(0)
}

/// The custom path of a call that takes `estimate` and gives `tuples` rows before the relation's conditions.
///
/// # Safety
/// A relation of the planner's whose rows, as far as the query uses them, are those of the call.
unsafe fn make_path(
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    planned: &'static Planned,
    call: *mut pg_sys::FuncExpr,
    estimate: Estimate,
    tuples: f64,
) -> *mut pg_sys::CustomPath {
    // SAFETY: nodes of the planner's, made and filled as it makes its own.
    unsafe {
        // A call with lateral references is parameterized by them.
        let path = custom_path::new_path(root, rel, (*rel).lateral_relids, planned.methods);
        custom_path::set_costs(path, (estimate.startup, estimate.total), tuples);
        // How often a call in a join is read, and how far, is the join's affair. Often there are few rows, which are found at
        // once if a few more are asked for.
        const OF_A_JOIN: u32 = 8;
        let wanted = custom_path::wanted_rows(root, rel).unwrap_or(OF_A_JOIN);
        let wanted = pg_sys::makeInteger(i32::try_from(wanted).unwrap_or(0));
        let private = pg_sys::lappend(std::ptr::null_mut(), wanted.cast());
        (*path).custom_private = pg_sys::lappend(private, call.cast());
        path
    }
}

/// How several processes share a call, if they can.
///
/// # Safety
/// As [`make_path`].
unsafe fn divided(
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    planned: &'static Planned,
    call: *mut pg_sys::FuncExpr,
    estimate: &Estimate,
) -> Option<Divided> {
    // SAFETY: nodes of the planner's.
    unsafe {
        // A member of a union is read by workers only if the server has found all members to be safe in parallel. And nothing
        // cheaper than workers is worth a closer look.
        if (*rel).reloptkind != pg_sys::RelOptKind::RELOPT_BASEREL
            || !(*(*root).glob).parallelModeOK
            || estimate.total <= pg_sys::parallel_setup_cost
            || pg_sys::max_parallel_workers_per_gather <= 0
            || !(*rel).lateral_relids.is_null()
            || !pg_sys::is_parallel_safe(root, (*rel).baserestrictinfo.cast())
            || !pg_sys::is_parallel_safe(root, (*(*rel).reltarget).exprs.cast())
        {
            return None;
        }
        // The arguments themselves, not what they are expected to be: the plan depends on them.
        (planned.divided)(&arguments_of((*call).args, |_| None), estimate)
    }
}

/// Adds the path of a call that several processes share. The server takes a relation for one that workers cannot read if its
/// function is not safe in parallel: that is so of calls, which may be of any table, but not of this one.
///
/// # Safety
/// As [`make_path`].
unsafe fn add_divided_path(
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    planned: &'static Planned,
    call: *mut pg_sys::FuncExpr,
    divided: &Divided,
) {
    // SAFETY: the caller's.
    unsafe {
        let share = divided.each.rows / (*rel).tuples.max(1.0);
        let path = make_path(root, rel, planned, call, divided.each, divided.each.rows);
        (*path).path.rows = ((*path).path.rows * share).max(1.0);
        (*rel).consider_parallel = true;
        custom_path::add_partial_path(path, i32::try_from(divided.workers).unwrap_or(0));
    }
}

/// What a call is expected to take.
///
/// # Safety
/// A call of the function, and the planner or null.
unsafe fn estimated(
    root: *mut pg_sys::PlannerInfo,
    planned: &'static Planned,
    call: *mut pg_sys::FuncExpr,
) -> Estimate {
    // SAFETY: the server makes new expressions, with parameters and stable functions replaced where it can.
    let known = unsafe {
        if pg_sys::list_length((*call).args) != ARGUMENTS as i32 {
            return UNKNOWN;
        }
        let arguments = pg_sys::estimate_expression_value(root, (*call).args.cast());
        (planned.estimate)(&arguments_of(arguments.cast(), |_| None))
    };
    known.unwrap_or(UNKNOWN)
}

/// A call of which nothing is known: the declaration's number of rows, at the cost of reading a thousand.
const UNKNOWN: Estimate = Estimate { startup: 1.0, total: 20.0, rows: 100.0 };

unsafe extern "C-unwind" fn plan<T: StreamedFunction>(
    _root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    path: *mut pg_sys::CustomPath,
    columns: *mut pg_sys::List,
    conditions: *mut pg_sys::List,
    _plans: *mut pg_sys::List,
) -> *mut pg_sys::Plan {
    // SAFETY: called by the planner with a path of `make_path`, whose private list has the number of rows wanted
    // and the call. The call is an expression of the plan, so that the
    // server replaces lateral references in it and notes that the plan depends on the function.
    unsafe {
        error_frame::guarded(|| {
            let private = (*path).custom_private;
            let wanted = pg_sys::list_nth(private, 0).cast::<pg_sys::Integer>();
            let call = pg_sys::list_nth(private, 1).cast::<pg_sys::FuncExpr>();
            let (kind, collation) = ((*call).funcresulttype, (*call).funccollid);
            let column = pg_sys::makeVar((*rel).relid as i32, 1, kind, -1, collation, 0);
            let column = pg_sys::makeTargetEntry(column.cast(), 1, std::ptr::null_mut(), false);
            let scan = new_plan(path, columns, conditions, Methods::<T>::SCAN);
            // No table: the rows are as the list of columns says.
            (*scan).scan.scanrelid = 0;
            (*scan).custom_scan_tlist = pg_sys::lappend(std::ptr::null_mut(), column.cast());
            (*scan).custom_exprs = pg_sys::lappend(std::ptr::null_mut(), call.cast());
            (*scan).custom_private = pg_sys::lappend_int(ptr::null_mut(), (*wanted).ival);
            scan.cast()
        })
    }
}

/// What the planner asks the support function of a [`StreamedFunction`].
pub(crate) struct Request<'r> {
    raw: *mut pg_sys::Node,
    lifetime: PhantomData<&'r pg_sys::Node>,
}

/// The answer to a [`Request`].
pub(crate) struct Answer(pg_sys::Datum);

impl Answer {
    /// Nothing is known.
    pub(crate) fn none() -> Answer {
        Answer(pg_sys::Datum::from(0_usize))
    }
}

impl Output for Answer {
    const CLASS: Class = Class::Internal;

    fn into_datum(self, _: &Args) -> Option<pg_sys::Datum> {
        Some(self.0)
    }
}

impl Args {
    /// Argument number `n` of a support function.
    pub(crate) fn request(&self, n: usize) -> Option<Request<'_>> {
        let raw = self.internal(n)?.cast_mut_ptr::<pg_sys::Node>();
        (!raw.is_null()).then_some(Request { raw, lifetime: PhantomData })
    }
}

impl Request<'_> {
    /// Answers what can be answered.
    pub(crate) fn answer(self) -> Answer {
        let Some(hook) = HOOK.get() else { return Answer::none() };
        // SAFETY: SQL cannot call a function with an argument of type internal; the server calls support functions with
        // a node whose tag says what it asks. The functions that name this one are calls with a known list of arguments.
        unsafe {
            let tag = (*self.raw).type_;
            let (root, node) = match tag {
                pg_sys::NodeTag::T_SupportRequestRows => {
                    let request = &*self.raw.cast::<pg_sys::SupportRequestRows>();
                    (request.root, request.node)
                }
                pg_sys::NodeTag::T_SupportRequestCost => {
                    let request = &*self.raw.cast::<pg_sys::SupportRequestCost>();
                    (request.root, request.node)
                }
                _ => return Answer::none(),
            };
            if node.is_null() || (*node).type_ != pg_sys::NodeTag::T_FuncExpr {
                return Answer::none();
            }
            let call = node.cast::<pg_sys::FuncExpr>();
            let planned = hook.functions.iter().find(|planned| planned.is((*call).funcid));
            let Some(planned) = planned else { return Answer::none() };
            let estimate = estimated(root, planned, call);
            if tag == pg_sys::NodeTag::T_SupportRequestRows {
                (*self.raw.cast::<pg_sys::SupportRequestRows>()).rows = estimate.rows;
            } else {
                let request = self.raw.cast::<pg_sys::SupportRequestCost>();
                (*request).startup = 0.0;
                (*request).per_tuple = estimate.total;
            }
            Answer(pg_sys::Datum::from(self.raw))
        }
    }
}
