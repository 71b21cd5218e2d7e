//! Comparisons of values at paths of documents with what is known when a statement is executed: parameters of a generic plan,
//! values of another table's row, results of a subquery that is executed once.
//!
//! The filter of such conditions is an expression: a call of a function that makes it of the values, by the same rules as the
//! planner makes it of constants. So whatever a value turns out to be, every row that meets the conditions matches the filter, and the
//! conditions are evaluated on each row that is found. How the rows are found is decided when the filter is known.

use std::ffi::CStr;
use std::ptr;

use pgrx::pg_sys;

use super::catalog;
use super::datum::Datum;
use super::error_frame;
use super::filter_path::{FilterPaths, Search, document_constant};
use super::filter_scan::Scanned;
use super::value_condition::{Comparison, Other, ValueAt, Wanted, sides};

/// A stored value that stands for one that is not known: an ObjectId that no document has.
const SOME_VALUE: [u8; 13] = [7, 255, 254, 253, 252, 251, 250, 249, 248, 247, 246, 245, 244];

/// Conditions on values of one table's documents.
pub(super) struct UnknownValues {
    /// The filter that they imply: an expression.
    filter: *mut pg_sys::Node,
    /// A filter of that form, for single values.
    like: Vec<u8>,
    conditions: *mut pg_sys::List,
}

/// The conditions on the value at one path that compare it with single values.
struct Compared {
    path: Vec<u8>,
    comparisons: Vec<Comparison>,
    values: *mut pg_sys::List,
    known: bool,
    conditions: *mut pg_sys::List,
}

impl UnknownValues {
    /// Those of a table's own conditions of which one at least is not known.
    ///
    /// # Safety
    /// The planner, and the conditions of relation `number`, which is this table.
    pub(super) unsafe fn among(
        root: *mut pg_sys::PlannerInfo,
        conditions: *mut pg_sys::List,
        number: pg_sys::Index,
        table: Scanned,
        filters: &FilterPaths,
    ) -> Option<UnknownValues> {
        let mut by_path: Vec<Compared> = Vec::new();
        let mut found = None;
        // SAFETY: lists of the planner's.
        unsafe {
            for at in 0..pg_sys::list_length(conditions) {
                let condition = pg_sys::list_nth(conditions, at).cast::<pg_sys::RestrictInfo>();
                let Some((path, other)) = searched(root, condition, number, table, filters) else { continue };
                match other {
                    Other::Compared(comparison, value) => {
                        let at = by_path.iter().position(|known| known.path == path);
                        let at = at.unwrap_or_else(|| {
                            by_path.push(Compared {
                                path,
                                comparisons: Vec::new(),
                                values: ptr::null_mut(),
                                known: true,
                                conditions: ptr::null_mut(),
                            });
                            by_path.len() - 1
                        });
                        if let Some(of_path) = by_path.get_mut(at) {
                            of_path.comparisons.push(comparison);
                            of_path.values = pg_sys::lappend(of_path.values, value.cast());
                            of_path.known &= is_constant(value);
                            of_path.conditions = pg_sys::lappend(of_path.conditions, condition.cast());
                        }
                    }
                    Other::OneOf(list) if !is_constant(list) => {
                        let arguments = pg_sys::lappend(ptr::null_mut(), text_constant(&path).cast());
                        let filter = call(c"any_value_filter", pg_sys::lappend(arguments, list.cast()))?;
                        let conditions = pg_sys::lappend(ptr::null_mut(), condition.cast());
                        let like = like(&path, filters)?;
                        join(&mut found, UnknownValues { filter, like, conditions }, filters)?;
                    }
                    Other::OneOf(_) => {}
                }
            }
            for of_path in by_path.into_iter().filter(|of_path| !of_path.known) {
                join(&mut found, of_path.filter(filters)?, filters)?;
            }
        }
        found
    }

    /// Those of conditions between a table and others, each with the other relations that it needs.
    ///
    /// # Safety
    /// The planner, and a relation of the query's own, which is this table.
    pub(super) unsafe fn of_joins(
        root: *mut pg_sys::PlannerInfo,
        rel: *mut pg_sys::RelOptInfo,
        table: Scanned,
        filters: &FilterPaths,
    ) -> Vec<(pg_sys::Relids, UnknownValues)> {
        let mut found = Vec::new();
        // SAFETY: lists and sets of the planner's; the callback gets what is given here.
        unsafe {
            let number = (*rel).relid;
            let mut conditions = pg_sys::list_copy((*rel).joininfo);
            if (*rel).has_eclass_joins {
                let mut sought = Sought { number, table, filters };
                let equal = pg_sys::generate_implied_equalities_for_column(
                    root,
                    rel,
                    Some(is_sought),
                    (&raw mut sought).cast(),
                    (*rel).lateral_referencers,
                );
                conditions = pg_sys::list_concat(conditions, equal);
            }
            for at in 0..pg_sys::list_length(conditions) {
                let condition = pg_sys::list_nth(conditions, at).cast::<pg_sys::RestrictInfo>();
                if !pg_sys::join_clause_is_movable_to(condition, rel) {
                    continue;
                }
                let Some((path, Other::Compared(comparison, value))) =
                    searched(root, condition, number, table, filters)
                else {
                    continue;
                };
                let one = Compared {
                    path,
                    comparisons: vec![comparison],
                    values: pg_sys::lappend(ptr::null_mut(), value.cast()),
                    known: false,
                    conditions: pg_sys::lappend(ptr::null_mut(), condition.cast()),
                };
                let Some(values) = one.filter(filters) else { continue };
                let others = pg_sys::bms_copy((*condition).clause_relids);
                let others = pg_sys::bms_del_member(others, number as i32);
                found.push((pg_sys::bms_add_members(others, (*rel).lateral_relids), values));
            }
        }
        found
    }

    /// The search for them, together with a filter that is known.
    pub(super) fn and<'a>(self, known: Option<Datum<'_>>, filters: &FilterPaths) -> Search<'a> {
        let UnknownValues { filter, like, conditions } = self;
        if let Some(known) = known {
            let known = known.bytes();
            // SAFETY: expressions of the type of documents.
            let both = unsafe { both(document_constant(&known), filter) };
            if let Some(both) = both {
                return Search::unknown(both, &(filters.filter_of_all)(&[&known, &like]), conditions);
            }
        }
        Search::unknown(filter, &like, conditions)
    }
}

impl Compared {
    /// The filter that they imply.
    ///
    /// # Safety
    /// In the planner.
    unsafe fn filter(self, filters: &FilterPaths) -> Option<UnknownValues> {
        let names: Vec<&str> = self.comparisons.iter().map(|comparison| comparison.name()).collect();
        // SAFETY: nodes of the planner's, made and filled as it makes its own.
        unsafe {
            let kind = catalog::own_type(c"bson_value");
            let values = pg_sys::palloc0(size_of::<pg_sys::ArrayExpr>()).cast::<pg_sys::ArrayExpr>();
            (*values).xpr.type_ = pg_sys::NodeTag::T_ArrayExpr;
            (*values).array_typeid = pg_sys::get_array_type(kind);
            (*values).element_typeid = kind;
            (*values).elements = self.values;
            (*values).location = -1;
            let arguments = pg_sys::lappend(ptr::null_mut(), text_constant(&self.path).cast());
            let arguments = pg_sys::lappend(arguments, text_constant(names.join(" ").as_bytes()).cast());
            let filter = call(c"values_filter", pg_sys::lappend(arguments, values.cast()))?;
            let like = like(&self.path, filters)?;
            Some(UnknownValues { filter, like, conditions: self.conditions })
        }
    }
}

/// Adds conditions to those found before.
///
/// # Safety
/// In the planner.
unsafe fn join(found: &mut Option<UnknownValues>, more: UnknownValues, filters: &FilterPaths) -> Option<()> {
    *found = Some(match found.take() {
        None => more,
        // SAFETY: expressions of the type of documents, and lists of conditions.
        Some(known) => unsafe {
            UnknownValues {
                filter: both(known.filter, more.filter)?,
                like: (filters.filter_of_all)(&[&known.like, &more.like]),
                conditions: pg_sys::list_concat(known.conditions, more.conditions),
            }
        },
    });
    Some(())
}

/// What a condition compares a value at a path of this table with, if a filter can be made of it when it is known.
///
/// # Safety
/// The planner, and a condition of relation `number`, which is this table.
unsafe fn searched(
    root: *mut pg_sys::PlannerInfo,
    condition: *mut pg_sys::RestrictInfo,
    number: pg_sys::Index,
    table: Scanned,
    filters: &FilterPaths,
) -> Option<(Vec<u8>, Other)> {
    // SAFETY: the caller's.
    unsafe {
        let (value, other) = sides(condition, number, filters.values)?;
        if value.column != table.column || value.is_left_to_server() {
            return None;
        }
        let (Other::Compared(_, expression) | Other::OneOf(expression)) = &other;
        let fixed = !pg_sys::bms_is_member(number as i32, pg_sys::pull_varnos(root, *expression))
            && !pg_sys::contain_volatile_functions(*expression)
            && !pg_sys::contain_subplans(*expression);
        let known_path = fixed && like(&value.path, filters).is_some();
        known_path.then_some((value.path, other))
    }
}

/// The filter of one value at a path.
fn like(path: &[u8], filters: &FilterPaths) -> Option<Vec<u8>> {
    (filters.filter_of_values)(path, &[Wanted::Compared(Comparison::Equal, SOME_VALUE.to_vec())])
}

/// Whether an expression is a constant.
///
/// # Safety
/// An expression.
unsafe fn is_constant(expression: *mut pg_sys::Node) -> bool {
    // SAFETY: the caller's.
    unsafe { (*expression).type_ == pg_sys::NodeTag::T_Const }
}

/// A constant text.
fn text_constant(bytes: &[u8]) -> *mut pg_sys::Const {
    // SAFETY: the server copies the bytes.
    unsafe {
        let text =
            pg_sys::cstring_to_text_with_len(bytes.as_ptr().cast(), i32::try_from(bytes.len()).unwrap_or(0));
        let (kind, collation) = (pg_sys::TEXTOID, pg_sys::DEFAULT_COLLATION_OID);
        pg_sys::makeConst(kind, -1, collation, -1, pg_sys::Datum::from(text), false, false)
    }
}

/// A call of the extension's function of that name, which makes a filter; `None` if there is none, as the extension is of an
/// earlier version than the library.
///
/// # Safety
/// Arguments of its types.
unsafe fn call(function: &'static CStr, arguments: *mut pg_sys::List) -> Option<*mut pg_sys::Node> {
    let function = catalog::own_function_if_exists(function)?;
    let (kind, none) = (catalog::own_type(c"bson"), pg_sys::InvalidOid);
    // SAFETY: the caller's.
    unsafe {
        let shown = pg_sys::CoercionForm::COERCE_EXPLICIT_CALL;
        Some(pg_sys::makeFuncExpr(function, kind, arguments, none, none, shown).cast())
    }
}

/// The filter that asks for two.
///
/// # Safety
/// Expressions of the type of documents.
unsafe fn both(one: *mut pg_sys::Node, other: *mut pg_sys::Node) -> Option<*mut pg_sys::Node> {
    // SAFETY: the caller's.
    unsafe {
        let arguments = pg_sys::lappend(ptr::null_mut(), one.cast());
        call(c"both_filters", pg_sys::lappend(arguments, other.cast()))
    }
}

/// What is sought among the expressions that are equal to others.
struct Sought<'f> {
    number: pg_sys::Index,
    table: Scanned,
    filters: &'f FilterPaths,
}

unsafe extern "C-unwind" fn is_sought(
    _root: *mut pg_sys::PlannerInfo,
    _rel: *mut pg_sys::RelOptInfo,
    _class: *mut pg_sys::EquivalenceClass,
    member: *mut pg_sys::EquivalenceMember,
    sought: *mut std::ffi::c_void,
) -> bool {
    // SAFETY: called by the server with what `of_joins` gave it.
    unsafe {
        error_frame::guarded(|| {
            let sought = &*sought.cast::<Sought<'_>>();
            let expression = (*member).em_expr.cast::<pg_sys::Node>();
            ValueAt::of(expression, sought.number, sought.filters.values)
                .is_some_and(|value| value.column == sought.table.column && !value.is_left_to_server())
        })
    }
}
