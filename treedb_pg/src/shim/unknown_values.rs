//! Comparisons of values at paths of documents with what is known when a statement is executed: parameters of a generic plan,
//! values of another table's row, results of a subquery that is executed once.
//!
//! The filter of such conditions is an expression: a call of a function that makes it of the values, by the same rules as the
//! planner makes it of constants. So whatever a value turns out to be, every row that meets the conditions matches the filter, and the
//! conditions are evaluated on each row that is found. How the rows are found is decided when the filter is known.
//!
//! Conditions on one path make one filter, whether they are known or not, so that two ends of a range are one range. Conditions between
//! the table and several others are searched for together where an index has the paths of all: its path is parameterized by all these
//! tables. As in the server, the sets of tables that are tried are those of the conditions and their unions.

use std::ffi::CStr;
use std::ptr;

use pgrx::pg_sys;

use super::catalog;
use super::datum::Datum;
use super::error_frame;
use super::filter_path::{FilterPaths, Search, document_constant};
use super::filter_scan::Scanned;
use super::value_condition::{Comparison, Other, ValueAt, ValueConditions, Wanted, sides};

/// A stored value that stands for one that is not known: an ObjectId that no document has.
const SOME_VALUE: [u8; 13] = [7, 255, 254, 253, 252, 251, 250, 249, 248, 247, 246, 245, 244];

/// Most sets of other tables that are tried for each condition: as many as the server tries for an index.
const MOST_SETS: usize = 10;

/// A condition on the value at a path of a table's documents.
struct Term {
    path: Vec<u8>,
    other: Other,
    condition: *mut pg_sys::RestrictInfo,
    /// The other relations that it needs; none if it is the table's own.
    others: pg_sys::Relids,
}

impl Term {
    /// What the value is compared with.
    fn other(&self) -> *mut pg_sys::Node {
        let (Other::Compared(_, other) | Other::OneOf(other)) = self.other;
        other
    }

    /// Whether that is a constant.
    ///
    /// # Safety
    /// In the planner.
    unsafe fn is_known(&self) -> bool {
        // SAFETY: an expression.
        unsafe { (*self.other()).type_ == pg_sys::NodeTag::T_Const }
    }
}

/// The conditions on values of a table's documents.
#[derive(Default)]
pub(super) struct Terms {
    own: Vec<Term>,
    /// Those between the table and others.
    joins: Vec<Term>,
}

impl Terms {
    /// Those of a relation, which is this table.
    ///
    /// # Safety
    /// The planner, and a relation of its.
    pub(super) unsafe fn of(
        root: *mut pg_sys::PlannerInfo,
        rel: *mut pg_sys::RelOptInfo,
        table: Scanned,
        filters: &FilterPaths,
    ) -> Terms {
        // SAFETY: lists and sets of the planner's; the callback gets what is given here.
        unsafe {
            let number = (*rel).relid;
            let term = |condition: *mut pg_sys::RestrictInfo, others| {
                let (path, other) = searched(root, condition, number, table, filters)?;
                Some(Term { path, other, condition, others })
            };
            let conditions = |list: *mut pg_sys::List| {
                (0..pg_sys::list_length(list))
                    .map(move |at| pg_sys::list_nth(list, at).cast::<pg_sys::RestrictInfo>())
            };
            let own = conditions((*rel).baserestrictinfo);
            let own = own.filter_map(|condition| term(condition, ptr::null_mut())).collect();
            let mut between = pg_sys::list_copy((*rel).joininfo);
            if (*rel).has_eclass_joins {
                // The server stops at the first class of equal values of which it finds a member.
                let mut sought = Sought { number, table, filters, done: Vec::new() };
                loop {
                    let equal = pg_sys::generate_implied_equalities_for_column(
                        root,
                        rel,
                        Some(is_sought),
                        (&raw mut sought).cast(),
                        (*rel).lateral_referencers,
                    );
                    let Some(first) = conditions(equal).next() else { break };
                    sought.done.push((*first).parent_ec);
                    between = pg_sys::list_concat(between, equal);
                }
            }
            let joins = conditions(between)
                .filter(|condition| pg_sys::join_clause_is_movable_to(*condition, rel))
                .filter_map(|condition| {
                    let others = pg_sys::bms_copy((*condition).clause_relids);
                    let others = pg_sys::bms_del_member(others, number as i32);
                    term(condition, others)
                })
                .filter(|term| pg_sys::bms_num_members(term.others) > 0)
                .collect();
            Terms { own, joins }
        }
    }

    /// Whether there are any between the table and others.
    pub(super) fn are_joined(&self) -> bool {
        !self.joins.is_empty()
    }

    /// The sets of other relations that may be looked at before this table is searched.
    pub(super) fn sets(&self) -> Vec<pg_sys::Relids> {
        let mut sets: Vec<pg_sys::Relids> = Vec::new();
        // SAFETY: sets of the planner's.
        unsafe {
            let is_new =
                |sets: &[pg_sys::Relids], set| !sets.iter().any(|known| pg_sys::bms_equal(*known, set));
            for Term { others, .. } in &self.joins {
                if !is_new(&sets, *others) {
                    continue;
                }
                for at in 0..sets.len() {
                    let Some(before) = sets.get(at).copied() else { break };
                    let within =
                        pg_sys::bms_is_subset(*others, before) || pg_sys::bms_is_subset(before, *others);
                    let both = pg_sys::bms_union(before, *others);
                    if !within && is_new(&sets, both) && sets.len() < MOST_SETS * self.joins.len() {
                        sets.push(both);
                    }
                }
                if is_new(&sets, *others) {
                    sets.push(*others);
                }
            }
        }
        sets
    }

    /// What is known once a row of each of `others` is; `None` if all is known before.
    ///
    /// # Safety
    /// The planner, and a set of relations.
    pub(super) unsafe fn given(
        &self,
        others: pg_sys::Relids,
        filters: &FilterPaths,
    ) -> Option<UnknownValues> {
        let mut by_path: Vec<(&[u8], Vec<&Term>)> = Vec::new();
        let mut classes = Vec::new();
        // SAFETY: sets and conditions of the planner's.
        unsafe {
            for term in self.own.iter().chain(&self.joins) {
                if !pg_sys::bms_is_subset(term.others, others) {
                    continue;
                }
                // Of values that are equal to each other one is enough.
                let class = (*term.condition).parent_ec;
                if !term.others.is_null() && !class.is_null() {
                    if classes.contains(&class) {
                        continue;
                    }
                    classes.push(class);
                }
                match by_path.iter_mut().find(|(path, _)| *path == term.path) {
                    Some((_, terms)) => terms.push(term),
                    None => by_path.push((&term.path, vec![term])),
                }
            }
            let mut found = UnknownValues { filter: ptr::null_mut(), like: Vec::new(), paths: Vec::new() };
            for (path, terms) in by_path {
                found.add(path, &terms, filters)?;
            }
            (!found.filter.is_null()).then_some(found)
        }
    }
}

/// Conditions on values of one table's documents of which one at least is not known.
pub(super) struct UnknownValues {
    /// The filter that they imply, without those that are known already: an expression.
    filter: *mut pg_sys::Node,
    /// A filter of that form, for single values.
    like: Vec<u8>,
    paths: Vec<AtPath>,
}

/// The conditions on the value at one path.
pub(super) struct AtPath {
    pub(super) path: Vec<u8>,
    pub(super) conditions: *mut pg_sys::List,
    /// The other relations that they need.
    pub(super) others: pg_sys::Relids,
    /// Whether one of them is not known.
    pub(super) unknown: bool,
    /// Whether the filter has all comparisons with single values: with those that are known too, if one is not.
    compared: bool,
}

impl UnknownValues {
    /// Adds the conditions on the value at a path, all there are.
    ///
    /// # Safety
    /// In the planner.
    unsafe fn add(&mut self, path: &[u8], terms: &[&Term], filters: &FilterPaths) -> Option<()> {
        let mut at_path = AtPath {
            path: path.to_vec(),
            conditions: ptr::null_mut(),
            others: ptr::null_mut(),
            unknown: false,
            compared: false,
        };
        // SAFETY: nodes and sets of the planner's, made and filled as it makes its own.
        unsafe {
            let (mut values, mut names) = (ptr::null_mut(), Vec::new());
            for term in terms {
                at_path.conditions = pg_sys::lappend(at_path.conditions, term.condition.cast());
                at_path.others = pg_sys::bms_add_members(at_path.others, term.others);
                match term.other {
                    Other::Compared(comparison, value) => {
                        names.push(comparison.name());
                        values = pg_sys::lappend(values, value.cast());
                        at_path.compared |= !term.is_known();
                    }
                    Other::OneOf(list) if !term.is_known() => {
                        at_path.unknown = true;
                        let arguments = pg_sys::lappend(ptr::null_mut(), text_constant(path).cast());
                        let filter = call(c"any_value_filter", pg_sys::lappend(arguments, list.cast()))?;
                        self.and_filter(filter, path, filters)?;
                    }
                    Other::OneOf(_) => {}
                }
            }
            if at_path.compared {
                at_path.unknown = true;
                let arguments = pg_sys::lappend(ptr::null_mut(), text_constant(path).cast());
                let names = text_constant(names.join(" ").as_bytes());
                let arguments = pg_sys::lappend(arguments, names.cast());
                let filter = call(c"values_filter", pg_sys::lappend(arguments, array_of(values).cast()))?;
                self.and_filter(filter, path, filters)?;
            }
        }
        self.paths.push(at_path);
        Some(())
    }

    /// Asks for what a filter of the value at a path asks for, too.
    ///
    /// # Safety
    /// In the planner.
    unsafe fn and_filter(
        &mut self,
        filter: *mut pg_sys::Node,
        path: &[u8],
        filters: &FilterPaths,
    ) -> Option<()> {
        let like = like(path, filters)?;
        if self.filter.is_null() {
            (self.filter, self.like) = (filter, like);
        } else {
            // SAFETY: expressions of the type of documents.
            self.filter = unsafe { both(self.filter, filter) }?;
            self.like = (filters.filter_of_all)(&[&self.like, &like]);
        }
        Some(())
    }

    /// Those of conditions that are known which the filter does not have; `None` if it has none of them.
    pub(super) fn others_known(&self, known: &[ValueConditions]) -> Option<Vec<ValueConditions>> {
        let has = |conditions: &ValueConditions| {
            self.paths.iter().any(|at_path| at_path.compared && at_path.path == conditions.path)
        };
        if !known.iter().any(has) {
            return None;
        }
        let others = known.iter().map(|conditions| {
            let mut others = conditions.clone();
            if has(conditions) {
                others.wanted.retain(|wanted| matches!(wanted, Wanted::OneOf(_)));
            }
            others
        });
        Some(others.filter(|conditions| !conditions.wanted.is_empty()).collect())
    }

    /// The search for them, together with a filter that is known.
    pub(super) fn and<'a>(self, known: Option<Datum<'_>>, filters: &FilterPaths) -> Search<'a> {
        let UnknownValues { filter, like, paths } = self;
        if let Some(known) = known {
            let known = known.bytes();
            // SAFETY: expressions of the type of documents.
            let both = unsafe { both(document_constant(&known), filter) };
            if let Some(both) = both {
                return Search::unknown(both, &(filters.filter_of_all)(&[&known, &like]), paths);
            }
        }
        Search::unknown(filter, &like, paths)
    }
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

/// The array of these values.
///
/// # Safety
/// A list of expressions of the type of values.
unsafe fn array_of(values: *mut pg_sys::List) -> *mut pg_sys::ArrayExpr {
    // SAFETY: a node of the planner's, made and filled as it makes its own.
    unsafe {
        let kind = catalog::own_type(c"bson_value");
        let array = pg_sys::palloc0(size_of::<pg_sys::ArrayExpr>()).cast::<pg_sys::ArrayExpr>();
        (*array).xpr.type_ = pg_sys::NodeTag::T_ArrayExpr;
        (*array).array_typeid = pg_sys::get_array_type(kind);
        (*array).element_typeid = kind;
        (*array).elements = values;
        (*array).location = -1;
        array
    }
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
    /// The classes of which the conditions are known.
    done: Vec<*mut pg_sys::EquivalenceClass>,
}

unsafe extern "C-unwind" fn is_sought(
    _root: *mut pg_sys::PlannerInfo,
    _rel: *mut pg_sys::RelOptInfo,
    class: *mut pg_sys::EquivalenceClass,
    member: *mut pg_sys::EquivalenceMember,
    sought: *mut std::ffi::c_void,
) -> bool {
    // SAFETY: called by the server with what `Terms::of` gave it.
    unsafe {
        error_frame::guarded(|| {
            let sought = &*sought.cast::<Sought<'_>>();
            let expression = (*member).em_expr.cast::<pg_sys::Node>();
            !sought.done.contains(&class)
                && ValueAt::of(expression, sought.number, sought.filters.values)
                    .is_some_and(|value| value.column == sought.table.column && !value.is_left_to_server())
        })
    }
}
