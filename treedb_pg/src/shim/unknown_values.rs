//! Comparisons of values at paths of documents with what is known when a statement is executed: parameters of a generic plan,
//! values of another table's row, results of a subquery that is executed once.
//!
//! The filter of such conditions is an expression: a call of a function that makes it of the values, by the same rules as the
//! planner makes it of constants. So whatever a value turns out to be, every row that meets the conditions matches the filter, and the
//! conditions are evaluated on each row that is found. How the rows are found is decided when the filter is known.
//!
//! Conditions on one path make one filter, whether they are known or not, so that two ends of a range are one range. Conditions between
//! the table and several others are searched for together where an index has the paths of all ([`super::unknown_terms`]): its path is
//! parameterized by all these tables.
//!
//! Which index it will be is not known either. Each that a filter of the same form is searched by, with placeholders for the values, is
//! estimated, and the cheapest one counts, as it will when the values are known.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::CStr;
use std::ptr;
use std::rc::Rc;

use pgrx::pg_sys;

use super::catalog;
use super::datum::Datum;
use super::filter_path::{FilterPaths, Search, document_constant};
use super::filter_scan::SearchedBy;
use super::relation_set::RelationSet;
use super::unknown_terms::Term;
use super::value_condition::{ComparedWith, Comparison, ValueConditions, Wanted};

/// The first bytes of stored values.
const DATE: u8 = 9;
const INT32: u8 = 16;

/// Conditions on values of one table's documents of which one at least is not known.
pub(super) struct UnknownValues {
    /// The filter that they imply, without those that are known already: an expression.
    filter: *mut pg_sys::Node,
    /// The filters that it is made of, with placeholders for their values.
    with_placeholders: Vec<Rc<[u8]>>,
    /// What they all imply: that there is a value, at each path.
    presence: Vec<Vec<u8>>,
    paths: Vec<AtPath>,
}

/// The conditions on the value at one path.
struct AtPath {
    path: Vec<u8>,
    conditions: Vec<AtValue>,
    /// Whether one of them is not known.
    unknown: bool,
    /// Whether the filter has all comparisons with single values: with those that are known too, if one is not.
    compared: bool,
}

/// One of them.
struct AtValue {
    condition: *mut pg_sys::RestrictInfo,
    /// How the value is compared with a single one.
    comparison: Option<Comparison>,
    /// The other relations that it needs.
    tables: RelationSet,
}

impl AtPath {
    /// The one that an index searches by which may have several values of a document: a single value rather than a range, and of a range
    /// the lower end.
    fn one(&self) -> Option<&AtValue> {
        let rank = |one: &&AtValue| match one.comparison {
            Some(Comparison::Equal) | None => 0,
            Some(Comparison::Greater | Comparison::GreaterOrEqual) => 1,
            Some(Comparison::Less | Comparison::LessOrEqual) => 2,
        };
        self.conditions.iter().min_by_key(rank)
    }
}

impl UnknownValues {
    /// Those of conditions by their paths; `None` if all are known.
    ///
    /// # Safety
    /// In the planner.
    pub(super) unsafe fn of(by_path: &[(&[u8], Vec<&Term>)], filters: &FilterPaths) -> Option<UnknownValues> {
        let (with_placeholders, presence, paths) = (Vec::new(), Vec::new(), Vec::new());
        let mut found = UnknownValues { filter: ptr::null_mut(), with_placeholders, presence, paths };
        for (path, terms) in by_path {
            // SAFETY: the caller's.
            unsafe { found.add(path, terms, filters) }?;
        }
        (!found.filter.is_null()).then_some(found)
    }

    /// Adds the conditions on the value at a path, all there are.
    ///
    /// # Safety
    /// In the planner.
    unsafe fn add(&mut self, path: &[u8], terms: &[&Term], filters: &FilterPaths) -> Option<()> {
        let mut at_path =
            AtPath { path: path.to_vec(), conditions: Vec::new(), unknown: false, compared: false };
        // SAFETY: nodes and sets of the planner's, made and filled as it makes its own.
        unsafe {
            let (mut values, mut compared) = (ptr::null_mut(), Vec::new());
            for term in terms {
                let (condition, tables) = (term.condition, term.tables.clone());
                let comparison = match term.compared_with {
                    ComparedWith::Value(comparison, value) => {
                        compared.push(comparison);
                        values = pg_sys::lappend(values, value.cast());
                        at_path.compared |= !term.is_known();
                        Some(comparison)
                    }
                    ComparedWith::OneOf(list) => {
                        if !term.is_known() {
                            at_path.unknown = true;
                            let arguments = pg_sys::lappend(ptr::null_mut(), text_constant(path).cast());
                            let filter = call(c"any_value_filter", pg_sys::lappend(arguments, list.cast()))?;
                            self.and_filter(filter)?;
                            self.with_placeholders.push(placeholder_filter(
                                path,
                                &[Comparison::Equal],
                                filters,
                            )?);
                        }
                        None
                    }
                };
                at_path.conditions.push(AtValue { condition, comparison, tables });
            }
            if at_path.compared {
                at_path.unknown = true;
                let arguments = pg_sys::lappend(ptr::null_mut(), text_constant(path).cast());
                let names: Vec<&str> = compared.iter().map(|comparison| comparison.name()).collect();
                let names = text_constant(names.join(" ").as_bytes());
                let arguments = pg_sys::lappend(arguments, names.cast());
                let filter = call(c"values_filter", pg_sys::lappend(arguments, array_of(values).cast()))?;
                self.and_filter(filter)?;
                self.with_placeholders.push(placeholder_filter(path, &compared, filters)?);
            }
        }
        if at_path.unknown {
            self.presence.push((filters.filter_of_presence)(path));
        }
        self.paths.push(at_path);
        Some(())
    }

    /// Asks for what a filter asks for, too.
    ///
    /// # Safety
    /// In the planner.
    unsafe fn and_filter(&mut self, filter: *mut pg_sys::Node) -> Option<()> {
        self.filter = match self.filter.is_null() {
            true => filter,
            // SAFETY: expressions of the type of documents.
            false => unsafe { both(self.filter, filter) }?,
        };
        Some(())
    }

    /// Of which of these conditions, which are known, the filter has the comparisons, too.
    pub(super) fn has_comparisons(&self, known: &[ValueConditions]) -> Vec<bool> {
        let has = |conditions: &ValueConditions| {
            self.paths.iter().any(|at_path| at_path.compared && at_path.path == conditions.path)
        };
        known.iter().map(has).collect()
    }

    /// The search for them, together with a filter of the other conditions that are known, `beside` them. All that is `known`, of the same
    /// paths too, is what the search asks for whatever the values are. It asks for a value at each path, too: no comparison is true of none.
    pub(super) fn and<'a>(
        self,
        beside: Option<Datum<'_>>,
        known: Option<Datum<'_>>,
        filters: &FilterPaths,
    ) -> Search<'a> {
        let UnknownValues { mut filter, with_placeholders, presence, paths } = self;
        let mut all: Vec<&[u8]> = with_placeholders.iter().map(|filter| &**filter).collect();
        let beside = beside.map(Datum::bytes);
        if let Some(beside) = &beside {
            // SAFETY: expressions of the type of documents.
            if let Some(both) = unsafe { both(document_constant(beside), filter) } {
                filter = both;
                all.insert(0, beside);
            }
        }
        let known = known.map(Datum::bytes);
        let known: Vec<&[u8]> =
            known.as_deref().into_iter().chain(presence.iter().map(Vec::as_slice)).collect();
        let known = (filters.filter_of_all)(&known);
        Search::unknown(filter, PlaceholderFilter { filter: (filters.filter_of_all)(&all), known, paths })
    }
}

/// These conditions, those that are marked without comparisons.
pub(super) fn without_comparisons(known: &[ValueConditions], marked: &[bool]) -> Vec<ValueConditions> {
    let left = known.iter().zip(marked).map(|(conditions, marked)| {
        let mut left = conditions.clone();
        left.wanted.retain(|wanted| !marked || matches!(wanted, Wanted::OneOf(_)));
        left
    });
    left.filter(|conditions| !conditions.wanted.is_empty()).collect()
}

/// The conditions on the value at one path by which an index finds rows.
pub(super) type OnValue = Vec<*mut pg_sys::RestrictInfo>;

/// What is known of a search for values that are not.
pub(super) struct PlaceholderFilter {
    /// Its filter, with placeholders for the values: they may contradict what is known of the same paths.
    pub(super) filter: Vec<u8>,
    /// What it asks for whatever the values are.
    pub(super) known: Vec<u8>,
    paths: Vec<AtPath>,
}

impl PlaceholderFilter {
    /// The paths of the values.
    pub(super) fn paths(&self) -> Vec<&[u8]> {
        self.paths.iter().map(|at_path| &*at_path.path).collect()
    }

    /// The conditions that bound what is read of an index, and all by which it finds rows, those on the value at each path together, where
    /// a row of each of `outer` is known and one of each of `known` has to be. `None` if all these conditions are known, or some of the rows
    /// are not needed.
    pub(super) fn conditions(
        &self,
        by: &SearchedBy,
        known: &RelationSet,
        outer: &RelationSet,
    ) -> Option<(Vec<OnValue>, Vec<OnValue>)> {
        let (mut bounding, mut all, mut unknown) = (Vec::new(), Vec::new(), false);
        let fields = by.bounding.iter().map(|at| (at, true)).chain(by.tested.iter().map(|at| (at, false)));
        let mut needed = known.clone();
        for (at, is_bounding) in fields {
            let Some(at_path) = self.paths.get(*at) else { continue };
            unknown |= at_path.unknown;
            let one = at_path.one();
            let is_searched_by =
                |found: &&AtValue| !by.multikey || one.is_some_and(|one| ptr::eq(one, *found));
            let mut on_value = OnValue::new();
            for found in at_path.conditions.iter().filter(is_searched_by) {
                needed = needed.and(&found.tables);
                on_value.push(found.condition);
            }
            if is_bounding {
                bounding.push(on_value.clone());
            }
            all.push(on_value);
        }
        (unknown && needed == *outer).then_some((bounding, all))
    }
}

/// Most filters with placeholders that are remembered; when there would be more, all are forgotten.
const MOST_PLACEHOLDERS: usize = 1024;
/// Those of longer paths are made each time.
const MOST_PATH_BYTES: usize = 512;

/// Filters with placeholders by paths and comparisons.
type Placeholders = HashMap<(Vec<u8>, Vec<Comparison>), Option<Rc<[u8]>>>;

thread_local! {
    /// Those that were made: partitions, and sets of other tables, ask for the same ones again and again.
    static PLACEHOLDERS: RefCell<Placeholders> = RefCell::default();
}

/// A filter of the value at a path that compares so with what is not known; see [`new_placeholder_filter`].
pub(super) fn placeholder_filter(
    path: &[u8],
    comparisons: &[Comparison],
    filters: &FilterPaths,
) -> Option<Rc<[u8]>> {
    if path.len() + comparisons.len() > MOST_PATH_BYTES {
        return new_placeholder_filter(path, comparisons, filters).map(Rc::from);
    }
    let asked = (path.to_vec(), comparisons.to_vec());
    if let Some(known) = PLACEHOLDERS.with_borrow(|made| made.get(&asked).cloned()) {
        return known;
    }
    let new: Option<Rc<[u8]>> = new_placeholder_filter(path, comparisons, filters).map(Rc::from);
    PLACEHOLDERS.with_borrow_mut(|made| {
        if made.len() >= MOST_PLACEHOLDERS {
            made.clear();
        }
        made.insert(asked, new.clone());
    });
    new
}

/// A filter of the value at a path that compares so with what is not known: with placeholders that do not contradict each other, of a type
/// for which an index with arrays helps, too. `None` if there is none, as of a path with positions.
fn new_placeholder_filter(path: &[u8], comparisons: &[Comparison], filters: &FilterPaths) -> Option<Vec<u8>> {
    let is_open =
        |comparison: &Comparison| matches!(comparison, Comparison::Greater | Comparison::GreaterOrEqual);
    // Arrays come after numbers and before dates: what is greater than a number may be one.
    let all_open = comparisons.iter().all(is_open);
    let stored = |comparison: &Comparison| match comparison {
        _ if all_open => vec![DATE, 0, 0, 0, 0, 0, 0, 0, 0],
        Comparison::Greater | Comparison::GreaterOrEqual => vec![INT32, 0, 0, 0, 0],
        Comparison::Equal => vec![INT32, 1, 0, 0, 0],
        Comparison::Less | Comparison::LessOrEqual => vec![INT32, 2, 0, 0, 0],
    };
    let wanted = comparisons.iter().map(|comparison| Wanted::Compared(*comparison, stored(comparison)));
    (filters.filter_of_values)(path, &wanted.collect::<Vec<_>>())
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
