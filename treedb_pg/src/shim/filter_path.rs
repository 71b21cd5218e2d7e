//! Planning of `WHERE doc @@ filter` on a collection: a custom path that reads the matching documents as a call of a
//! [`StreamedFunction`](super::streamed::StreamedFunction) in FROM would, with the indexes of the collection.
//!
//! The path stands beside those of the server, so that costs decide. It is only made where its rows, which have the
//! document and nothing else, are enough, and where reading them as the caller is allowed to is what the query means:
//! not for rows that are to be locked or changed, not under row security, not for tables with children.

use std::ptr;

use pgrx::pg_sys;

use super::catalog;
use super::compat;
use super::function_path::{Planned, estimated, make_path};

/// The function behind the operator `@@`.
const MATCHES: &std::ffi::CStr = c"matches";

/// Bytes of the empty document.
const EMPTY_DOCUMENT: [u8; 5] = [5, 0, 0, 0, 0];

/// Adds a path to a table, for each condition that is a filter.
///
/// # Safety
/// A relation of the planner's, its number and its entry in the range table; `find` is a function with the arguments
/// collection, filter and options.
pub(super) unsafe fn add_paths(
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    number: pg_sys::Index,
    entry: *mut pg_sys::RangeTblEntry,
    find: &'static Planned,
) {
    // SAFETY: nodes of the planner's; the tag of a node says what structure it is.
    unsafe {
        if (*rel).reloptkind != pg_sys::RelOptKind::RELOPT_BASEREL
            || (*entry).rtekind != pg_sys::RTEKind::RTE_RELATION
            || (*entry).relkind as u8 != pg_sys::RELKIND_RELATION
            || (*entry).inh
            || !(*entry).tablesample.is_null()
            || !(*entry).securityQuals.is_null()
            || ![pg_sys::InvalidOid, pg_sys::GetUserId()].contains(&compat::checked_as(rel, entry))
            || (*(*root).parse).resultRelation == number as i32
            || catalog::has_policies((*entry).relid)
            || !catalog::may_read((*entry).relid)
        {
            return;
        }
        let conditions = (*rel).baserestrictinfo;
        if (0..pg_sys::list_length(conditions)).all(|at| filter_of(conditions, at, number).is_none()) {
            return;
        }
        let Some((column, kind)) = catalog::column((*entry).relid, c"doc") else { return };
        if kind != catalog::own_type(c"bson") || !needs_only(rel, column) {
            return;
        }
        for at in 0..pg_sys::list_length(conditions) {
            let Some((document, filter)) = filter_of(conditions, at, number) else { continue };
            if (*document).varattno != column {
                continue;
            }
            let call = call_of((*entry).relid, find, kind, filter);
            let estimate = estimated(root, find, call);
            let path = make_path(root, rel, find, call, estimate, estimate.rows);
            // The condition has been met by the rows that the path gives.
            (*path).custom_private =
                pg_sys::lappend((*path).custom_private, pg_sys::list_nth(conditions, at));
            pg_sys::add_path(rel, path.cast());
        }
    }
}

/// The number of a table's column of documents.
///
/// # Safety
/// The entry of a table in the range table.
pub(super) unsafe fn document_column(entry: *mut pg_sys::RangeTblEntry) -> i16 {
    // SAFETY: the caller's.
    catalog::column(unsafe { (*entry).relid }, c"doc").map_or(0, |(number, _)| number)
}

/// Document and filter of condition `at`, if it is `column @@ filter` with a filter that does not depend on a row.
///
/// # Safety
/// A list of conditions of relation `number`.
unsafe fn filter_of(
    conditions: *mut pg_sys::List,
    at: i32,
    number: pg_sys::Index,
) -> Option<(*mut pg_sys::Var, *mut pg_sys::Node)> {
    // SAFETY: the tag of a node says what structure it is.
    unsafe {
        let condition = pg_sys::list_nth(conditions, at).cast::<pg_sys::RestrictInfo>();
        let clause = (*condition).clause.cast::<pg_sys::OpExpr>();
        if (*condition).pseudoconstant
            || (*condition).security_level > 0
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
            && !pg_sys::contain_var_clause(filter)
            && !pg_sys::contain_volatile_functions(filter)
            && catalog::is_own_function(pg_sys::get_opcode((*clause).opno), MATCHES);
        is_filter.then_some((document, filter))
    }
}

/// Whether the query uses no column of a relation but this one, system columns included.
///
/// # Safety
/// A relation of the planner's.
unsafe fn needs_only(rel: *mut pg_sys::RelOptInfo, column: i16) -> bool {
    // SAFETY: for each column from the least to the greatest number, the relations that need it.
    unsafe {
        let (least, greatest) = ((*rel).min_attr, (*rel).max_attr);
        let mut columns = ptr::null_mut();
        pg_sys::pull_varattnos((*(*rel).reltarget).exprs.cast(), (*rel).relid, &raw mut columns);
        let conditions = (*rel).baserestrictinfo;
        for at in 0..pg_sys::list_length(conditions) {
            let condition = pg_sys::list_nth(conditions, at).cast::<pg_sys::RestrictInfo>();
            pg_sys::pull_varattnos((*condition).clause.cast(), (*rel).relid, &raw mut columns);
        }
        (least..=greatest).all(|number| {
            // Column numbers are kept with this offset.
            let member = i32::from(number) - pg_sys::FirstLowInvalidHeapAttributeNumber;
            number == column || !pg_sys::bms_is_member(member, columns)
        })
    }
}

/// The call of the function for a table and a filter.
///
/// # Safety
/// Called by the planner; the table is one of the query's.
unsafe fn call_of(
    table: pg_sys::Oid,
    find: &'static Planned,
    kind: pg_sys::Oid,
    filter: *mut pg_sys::Node,
) -> *mut pg_sys::FuncExpr {
    // SAFETY: nodes made as the parser makes them; constants in memory of the planner.
    unsafe {
        let name = catalog::qualified(
            pg_sys::get_rel_namespace(table),
            std::ffi::CStr::from_ptr(pg_sys::get_rel_name(table)),
        );
        let constant = |kind, bytes: &[u8]| {
            let value = pg_sys::cstring_to_text_with_len(bytes.as_ptr().cast(), bytes.len() as i32);
            let value = pg_sys::Datum::from(value);
            let collation = pg_sys::get_typcollation(kind);
            pg_sys::makeConst(kind, -1, collation, -1, value, false, false).cast::<std::ffi::c_void>()
        };
        let mut arguments = pg_sys::lappend(ptr::null_mut(), constant(pg_sys::TEXTOID, name.to_bytes()));
        arguments = pg_sys::lappend(arguments, pg_sys::copyObjectImpl(filter.cast()));
        arguments = pg_sys::lappend(arguments, constant(kind, &EMPTY_DOCUMENT));
        let call = pg_sys::makeFuncExpr(
            find.function_number(),
            kind,
            arguments,
            pg_sys::InvalidOid,
            pg_sys::InvalidOid,
            pg_sys::CoercionForm::COERCE_EXPLICIT_CALL,
        );
        (*call).funcretset = true;
        call
    }
}
