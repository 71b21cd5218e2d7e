//! Planning of `WHERE column @@ filter` on a table, and of other operators on its documents: custom paths that look for the
//! rows by the table's indexes, see [`FilteredRows`]. They stand beside those of the server, so that costs decide.
//!
//! Of an operator other than `@@` a function of SQL makes a filter that every row matches of which the operator is true
//! ([`FilterOperator`]). The path searches for that filter, and the operator is evaluated on each row. No query asks for that
//! function, so nobody needs to be allowed to execute it: like the server's support functions it is called without asking, for
//! a constant by the planner, else by the plan's node.
//!
//! Of all comparisons of the value at one path with constants, `column -> 'path' > value`, the search makes a filter too
//! ([`ValueConditions`]), and of several filters that are known one of them all, so that an index over several paths, or several
//! indexes, serve all conditions together.
//!
//! A filter that depends on no other table makes an ordinary path; one that depends on others, a path parameterized by
//! them, for the inner side of a nested loop. Where the query is ordered by a value of the documents first, there is a second
//! path that has this order ([`AskedOrder`]), with every condition or, if there is none, for all rows. That it has it does not
//! depend on what the planner believes of the indexes: the search sorts the rows where they no longer give the order.
//!
//! `@@` is not leakproof, as some of its errors tell of the document. Under row security the server's own index conditions
//! are therefore leakproof operators alone. These paths may serve any filter: by an index they compare bytes of keys,
//! which shows nothing of a row to anybody, and the conditions of the query, those of the policies first and `@@` among
//! the others, are evaluated on each row that is returned.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::ptr;
use std::rc::Rc;

use pgrx::pg_sys;

use super::custom_path::Columns;
use super::custom_scan::argument_of;
use super::datum::Datum;
use super::filter_scan::{FilteredRows, Methods, PathNames, Scanned, SearchedBy, ValueStatistics};
use super::function::Args;
use super::relation_set::RelationSet;
use super::row_order::{AskedOrder, RowOrder};
use super::scan_node::new_plan;
use super::streamed::{Argument, Estimate};
use super::table_paths::TablePaths;
use super::unknown_terms::Terms;
use super::unknown_values::{PlaceholderFilter, without_comparisons};
use super::value_condition::{ValueConditions, ValueFunction, Wanted};
use super::{catalog, compat, error_frame};

/// An operator between a document and something that says which documents are wanted.
pub(crate) struct FilterOperator {
    /// The function behind it.
    pub(crate) function: &'static CStr,
    /// Which argument the document is.
    pub(crate) document: i32,
    /// The function of the other argument that makes a filter; `None` if that is one.
    pub(crate) filter: Option<&'static CStr>,
    /// Whether a filter that is not known is likely to find few documents.
    pub(crate) finds_few: bool,
}

/// The share of the rows that match a filter of which nothing is known: that of the server's operators of containment.
const UNKNOWN_SHARE: f64 = 0.001;

/// By which of some paths the indexes of a table find the rows of a filter with placeholders, of which a part is known.
type IndexesSearched = fn(Scanned, &[u8], &[u8], PathNames<'_>) -> Rc<[SearchedBy]>;

/// A search that the planner's hook knows.
pub(crate) struct FilterPaths {
    column: &'static CStr,
    pub(super) values: &'static [ValueFunction],
    operators: &'static [FilterOperator],
    pub(super) filter_of_values: fn(&[u8], &[Wanted]) -> Option<Vec<u8>>,
    pub(super) filter_of_presence: fn(&[u8]) -> Vec<u8>,
    pub(super) filter_of_all: fn(&[&[u8]]) -> Vec<u8>,
    pub(super) paths: &'static pg_sys::CustomPathMethods,
    pub(super) scan: &'static pg_sys::CustomScanMethods,
    pub(super) estimate: fn(Scanned, &Argument<'_>, bool, Option<&RowOrder>) -> Option<Estimate>,
    pub(super) share: fn(Scanned, &Argument<'_>, bool) -> Option<f64>,
    pub(super) fields_of_indexes: fn(Scanned, PathNames<'_>) -> Vec<Vec<usize>>,
    pub(super) searched_by: IndexesSearched,
    pub(super) estimate_unknown: fn(f64, f64, f64) -> Estimate,
    pub(super) statistics: fn(Scanned, &[u8]) -> Option<ValueStatistics>,
}

// SAFETY: its methods are constants of the program.
unsafe impl Sync for FilterPaths {}
// SAFETY: as above.
unsafe impl Send for FilterPaths {}

impl FilterPaths {
    /// The record of a search for the rows that these operators want.
    pub(crate) const fn new<T: FilteredRows>(operators: &'static [FilterOperator]) -> FilterPaths {
        FilterPaths {
            column: T::COLUMN,
            values: T::VALUES,
            operators,
            filter_of_values: T::filter_of_values,
            filter_of_presence: T::filter_of_presence,
            filter_of_all: T::filter_of_all,
            paths: Paths::<T>::METHODS,
            scan: Methods::<T>::SCAN,
            estimate: T::estimate,
            share: T::share,
            fields_of_indexes: T::fields_of_indexes,
            searched_by: T::searched_by,
            estimate_unknown: T::estimate_unknown,
            statistics: T::statistics,
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
        ReparameterizeCustomPathByChild: Some(reparameterize),
    };
}

/// Adds paths to a table for each search that its conditions allow.
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
        if !(*entry).tablesample.is_null() {
            return;
        }
        let Some(table) = filters.scanned(entry) else { return };
        let (own, shared) = ((*rel).baserestrictinfo, (*rel).joininfo);
        // Under row security the rows that are hidden would be found too, which costs that EXPLAIN shows would tell.
        let on_values = match are_rows_hidden(root) {
            true => Vec::new(),
            false => ValueConditions::in_list(own, (number, table.column), filters.values),
        };
        let mut searches = Search::all(root, own, &on_values, number, table, filters);
        let known = searches.iter().rev().find_map(Search::fixed);
        let hidden = are_rows_hidden(root);
        let terms = if hidden { Terms::default() } else { Terms::of(root, rel, table, filters) };
        // What is known beside values that are not: each condition is searched for once. By the paths of which comparisons are left out.
        let mut beside: Vec<(Vec<bool>, Option<Datum<'_>>)> = vec![(vec![false; on_values.len()], known)];
        let mut given = |others: &RelationSet| {
            let unknown = terms.given(others, filters)?;
            let compared = unknown.has_comparisons(&on_values);
            let beside = match beside.iter().find(|(left_out, _)| *left_out == compared) {
                Some((_, beside)) => *beside,
                None => {
                    let others = without_comparisons(&on_values, &compared);
                    let searches = Search::all(root, own, &others, number, table, filters);
                    let found = searches.iter().rev().find_map(Search::fixed);
                    beside.push((compared, found));
                    found
                }
            };
            Some(unknown.and(beside, known, filters))
        };
        searches.extend(given(&RelationSet::default()));
        let joined =
            (0..pg_sys::list_length(shared)).any(|at| condition_at(shared, at, number, filters).is_some());
        // The order of a partition would have to be translated from that of the whole table.
        let order = if base { AskedOrder::of(root, rel, filters.values, c"bson_value") } else { None };
        let mut order = order.filter(|order| order.column == table.column);
        // No comparison is true of no value.
        if let Some(AskedOrder { order, .. }) = &mut order {
            order.with_value = on_values.iter().any(|conditions| conditions.path == order.path);
        }
        let none = searches.is_empty() && !joined && !terms.are_joined() && order.is_none();
        if none || needs_header(rel) {
            return;
        }
        let paths = TablePaths::new(root, rel, filters, table);
        let lateral = RelationSet::of((*rel).lateral_relids);
        for search in &searches {
            paths.add(search, &lateral, None);
            if order.is_some() {
                paths.add(search, &lateral, order.as_ref());
            }
        }
        if searches.is_empty() && order.is_some() {
            paths.add(&Search::of_all(), &RelationSet::default(), order.as_ref());
        }
        for others in terms.sets() {
            let outer = others.and(&lateral);
            if let Some(search) = given(&outer) {
                paths.add(&search, &outer, None);
            }
        }
        for at in 0..if joined { pg_sys::list_length(shared) } else { 0 } {
            let Some(condition) = condition_at(shared, at, number, filters) else { continue };
            let clause = pg_sys::list_nth(shared, at).cast::<pg_sys::RestrictInfo>();
            if (*condition.document).varattno == table.column
                && !pg_sys::bms_is_member(number as i32, pg_sys::pull_varnos(root, condition.wanted))
                && pg_sys::join_clause_is_movable_to(clause, rel)
                && let Some(search) = Search::of(root, &condition)
            {
                let others = RelationSet::of((*clause).clause_relids).without(number);
                paths.add(&search, &others.and(&lateral), None);
            }
        }
    }
}

/// A search that a path makes.
pub(super) struct Search<'a> {
    pub(super) filter: *mut pg_sys::Node,
    /// The filter as far as it is known now.
    pub(super) value: Argument<'a>,
    /// The condition, if the filter is all that it asks; else null.
    pub(super) condition: *mut pg_sys::OpExpr,
    /// Whether the filter is one that a function of ours makes, or has made, of the other argument of an operator.
    pub(super) implied: bool,
    /// Of values that are known when the statement is executed: what is known of it before.
    pub(super) placeholders: Option<PlaceholderFilter>,
}

impl Search<'_> {
    /// That for a condition; `None` if there is nothing to search for.
    ///
    /// # Safety
    /// The planner, and a condition of the query.
    unsafe fn of(root: *mut pg_sys::PlannerInfo, condition: &Condition) -> Option<Self> {
        // SAFETY: the server makes new expressions, with parameters and stable functions replaced where it can.
        unsafe {
            let operator = condition.operator;
            let estimated = pg_sys::estimate_expression_value(root, condition.wanted);
            let wanted = pg_sys::eval_const_expressions(root, condition.wanted);
            let (filter, estimated) = (operator.filter_of(wanted)?, operator.filter_of(estimated)?);
            let value = match are_rows_hidden(root) {
                true => Argument::Expression(None),
                false => argument_of(estimated, |_| None),
            };
            if matches!(value, Argument::Expression(_)) && !operator.finds_few {
                return None;
            }
            let implied = operator.filter.is_some();
            let condition = if implied { ptr::null_mut() } else { condition.clause };
            Some(Search { filter, value, condition, implied, placeholders: None })
        }
    }

    /// The filter, if it is a constant of the plan, and not only estimated.
    fn fixed<'f>(&self) -> Option<Datum<'f>> {
        // SAFETY: an expression of a type of variable length, which lives while the server plans.
        unsafe { argument_of(self.filter, |_| None) }.constant()
    }

    /// Those for the conditions on a table's documents: for each that is a filter, for those on the value at one path, and for
    /// all whose filters are known together.
    ///
    /// # Safety
    /// The planner, and the conditions of relation `number`, which is this table.
    unsafe fn all(
        root: *mut pg_sys::PlannerInfo,
        conditions: *mut pg_sys::List,
        on_values: &[ValueConditions],
        number: pg_sys::Index,
        table: Scanned,
        filters: &FilterPaths,
    ) -> Vec<Self> {
        // SAFETY: the caller's.
        unsafe {
            let mut searches: Vec<Self> = (0..pg_sys::list_length(conditions))
                .filter_map(|at| condition_at(conditions, at, number, filters))
                .filter(|condition| (*condition.document).varattno == table.column)
                .filter(|condition| !pg_sys::contain_var_clause(condition.wanted))
                .filter_map(|condition| Search::of(root, &condition))
                .collect();
            if are_rows_hidden(root) {
                return searches;
            }
            for ValueConditions { path, wanted } in on_values {
                searches
                    .extend((filters.filter_of_values)(path, wanted).map(|filter| Self::implied(&filter)));
            }
            let known: Vec<_> = searches.iter().filter_map(|search| Some(search.fixed()?.bytes())).collect();
            if known.len() > 1 {
                let known: Vec<&[u8]> = known.iter().map(|filter| &**filter).collect();
                let together = Self::implied(&(filters.filter_of_all)(&known));
                // What it finds is never more. Alone the query's own filters need not be evaluated on what keys decide.
                searches.retain(|search| !search.implied || search.fixed().is_none());
                searches.push(together);
            }
            searches
        }
    }

    /// That for a filter which conditions imply.
    fn implied(filter: &[u8]) -> Self {
        let filter = document_constant(filter);
        // SAFETY: a constant of a type of variable length.
        let value = unsafe { argument_of(filter, |_| None) };
        Search { filter, value, condition: ptr::null_mut(), implied: true, placeholders: None }
    }

    /// That for a filter which is made when the statement is executed.
    pub(super) fn unknown(filter: *mut pg_sys::Node, placeholders: PlaceholderFilter) -> Self {
        let value = Argument::Expression(None);
        Search { filter, value, condition: ptr::null_mut(), implied: true, placeholders: Some(placeholders) }
    }

    /// That for every row.
    fn of_all() -> Self {
        // An empty document.
        const ALL: &[u8; 5] = &[5, 0, 0, 0, 0];
        Search { implied: false, ..Self::implied(ALL) }
    }
}

/// A constant with these bytes of a document.
pub(super) fn document_constant(bytes: &[u8]) -> *mut pg_sys::Node {
    let (kind, none) = (catalog::own_type(c"bson"), pg_sys::InvalidOid);
    // SAFETY: the server copies the bytes to a value of variable length, the type of which is such a one.
    unsafe {
        let len = i32::try_from(bytes.len()).unwrap_or(0);
        let value = pg_sys::cstring_to_text_with_len(bytes.as_ptr().cast(), len);
        pg_sys::makeConst(kind, -1, none, -1, pg_sys::Datum::from(value), false, false).cast()
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

/// A condition on the documents of a table.
struct Condition {
    clause: *mut pg_sys::OpExpr,
    operator: &'static FilterOperator,
    document: *mut pg_sys::Var,
    /// The other argument.
    wanted: *mut pg_sys::Node,
}

impl FilterOperator {
    /// The operator of a condition, if it is among `operators`, the document and the other argument.
    ///
    /// # Safety
    /// The number of an operator and its arguments, two.
    unsafe fn of(
        operators: &'static [FilterOperator],
        operator: pg_sys::Oid,
        arguments: *mut pg_sys::List,
    ) -> Option<(&'static FilterOperator, *mut pg_sys::Node, *mut pg_sys::Node)> {
        // SAFETY: the caller's.
        unsafe {
            let function = pg_sys::get_opcode(operator);
            let known = catalog::own_function_among(function, operators, |known| known.function)?;
            let argument = |at: i32| pg_sys::list_nth(arguments, at).cast::<pg_sys::Node>();
            Some((known, argument(known.document), argument(1 - known.document)))
        }
    }

    /// The filter that says which documents are `wanted`: a constant, or a call of the function that makes it; `None` if there
    /// is no such function.
    ///
    /// # Safety
    /// An expression of the type of the operator's other argument, simplified.
    unsafe fn filter_of(&self, wanted: *mut pg_sys::Node) -> Option<*mut pg_sys::Node> {
        let Some(function) = self.filter else { return Some(wanted) };
        let function = catalog::own_function_if_exists(function)?;
        let (kind, none) = (catalog::own_type(c"bson"), pg_sys::InvalidOid);
        // SAFETY: a strict function of one argument of this type, which returns a document.
        unsafe {
            if (*wanted).type_ == pg_sys::NodeTag::T_Const {
                let constant = &*wanted.cast::<pg_sys::Const>();
                let filter = match constant.constisnull {
                    true => pg_sys::Datum::null(),
                    false => pg_sys::OidFunctionCall1Coll(function, none, constant.constvalue),
                };
                return Some(
                    pg_sys::makeConst(kind, -1, none, -1, filter, constant.constisnull, false).cast(),
                );
            }
            let arguments = pg_sys::lappend(ptr::null_mut(), wanted.cast());
            let shown = pg_sys::CoercionForm::COERCE_EXPLICIT_CALL;
            Some(pg_sys::makeFuncExpr(function, kind, arguments, none, none, shown).cast())
        }
    }
}

/// Condition `at`, if it is one of the operators between a column of relation `number` and something that has the same value
/// for all its rows, unless it has variables of it.
///
/// # Safety
/// A list of conditions.
unsafe fn condition_at(
    conditions: *mut pg_sys::List,
    at: i32,
    number: pg_sys::Index,
    filters: &FilterPaths,
) -> Option<Condition> {
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
        let (operator, document, wanted) =
            FilterOperator::of(filters.operators, (*clause).opno, (*clause).args)?;
        let document = document.cast::<pg_sys::Var>();
        let is_search = (*document.cast::<pg_sys::Node>()).type_ == pg_sys::NodeTag::T_Var
            && (*document).varno == number as i32
            && (*document).varlevelsup == 0
            && !pg_sys::contain_volatile_functions(wanted);
        is_search.then_some(Condition { clause, operator, document, wanted })
    }
}

/// Whether the query uses system columns of a relation that are read from a row's header, which a row has lost when it
/// is decoded: all but `ctid` and `tableoid`.
///
/// # Safety
/// A relation of the planner's.
unsafe fn needs_header(rel: *mut pg_sys::RelOptInfo) -> bool {
    // SAFETY: the caller's.
    let used = unsafe { Columns::used(rel, &[(*rel).baserestrictinfo, (*rel).joininfo]) };
    (pg_sys::FirstLowInvalidHeapAttributeNumber + 1..0).any(|number| {
        number != pg_sys::SelfItemPointerAttributeNumber
            && number != pg_sys::TableOidAttributeNumber
            && used.has(number)
    })
}

/// What a path's private list has, by position: expressions, numbers, and the condition that is all that its filter asks, or null.
const EXPRESSIONS: i32 = 0;
const NUMBERS: i32 = 1;
const CONDITION: i32 = 2;

/// What a path has of its own once it depends on a partition of another table in place of that table.
unsafe extern "C-unwind" fn reparameterize(
    root: *mut pg_sys::PlannerInfo,
    private: *mut pg_sys::List,
    partition: *mut pg_sys::RelOptInfo,
) -> *mut pg_sys::List {
    // SAFETY: called by the planner with the private list of a path of `add_path`, which stays as it is, and the partition.
    unsafe {
        error_frame::guarded(|| {
            let private = pg_sys::list_copy(private);
            for at in [EXPRESSIONS, CONDITION] {
                let cell = pg_sys::list_nth_cell(private, at);
                let node = (*cell).ptr_value.cast::<pg_sys::Node>();
                if !node.is_null() {
                    (*cell).ptr_value = compat::of_partition(root, node, partition).cast();
                }
            }
            private
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
    // SAFETY: called by the planner with a path of `add_path`. The expressions are those of the plan, so that the server replaces
    // references to other tables in them. The conditions come in the order in which they have to be evaluated.
    unsafe {
        error_frame::guarded(|| {
            let private = (*path).custom_private;
            let expressions = pg_sys::list_nth(private, EXPRESSIONS);
            let numbers = pg_sys::list_copy(pg_sys::list_nth(private, NUMBERS).cast());
            let condition = pg_sys::list_nth(private, CONDITION).cast::<pg_sys::OpExpr>();
            let scan = new_plan(path, columns, conditions, Methods::<T>::SCAN);
            (*scan).scan.scanrelid = (*rel).relid;
            (*scan).custom_exprs = pg_sys::copyObjectImpl(expressions).cast();
            let at = match condition.is_null() {
                true => -1,
                false => position((*scan).scan.plan.qual, condition),
            };
            (*scan).custom_private = pg_sys::lcons_int(at, numbers);
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
    /// The share of a table's rows that a condition on its documents leaves, for a function that the server calls as
    /// the estimator of the operator: with the planner, the operator, the arguments and a relation.
    pub(crate) fn filter_share(&self, filters: &'static FilterPaths) -> f64 {
        let (Some(root), Some(arguments)) = (self.internal(0), self.internal(2)) else {
            return UNKNOWN_SHARE;
        };
        let operator = self.oid(1);
        // SAFETY: SQL cannot call a function with an argument of type internal; the server calls estimators with these.
        let share = unsafe {
            let (root, arguments) = (root.cast_mut_ptr(), arguments.cast_mut_ptr());
            filters.share(root, operator, arguments)
        };
        share.unwrap_or(UNKNOWN_SHARE).clamp(0.0, 1.0)
    }
}

impl FilterPaths {
    /// The share of the rows that match; `None` if nothing is known.
    ///
    /// # Safety
    /// The planner, an operator and its arguments.
    unsafe fn share(
        &self,
        root: *mut pg_sys::PlannerInfo,
        operator: pg_sys::Oid,
        arguments: *mut pg_sys::List,
    ) -> Option<f64> {
        // SAFETY: the tag of a node says what structure it is; the planner has arrays of as many relations as it says.
        unsafe {
            if pg_sys::list_length(arguments) != 2 {
                return None;
            }
            let (operator, document, wanted) = FilterOperator::of(self.operators, operator, arguments)?;
            let document = document.cast::<pg_sys::Var>();
            if (*document.cast::<pg_sys::Node>()).type_ != pg_sys::NodeTag::T_Var
                || (*document).varlevelsup != 0
            {
                return None;
            }
            let table = self.readable(root, (*document).varno, (*document).varattno)?;
            let filter = operator.filter_of(pg_sys::estimate_expression_value(root, wanted))?;
            let value = argument_of(filter, |_| None);
            let exact = operator.filter.is_none();
            let known = operator.finds_few || !matches!(value, Argument::Expression(_));
            known.then(|| (self.share)(table, &value, exact)).flatten()
        }
    }

    /// The table of relation `number` with documents in this column, if the user may know what its statistics say.
    ///
    /// # Safety
    /// The planner.
    pub(super) unsafe fn readable(
        &self,
        root: *mut pg_sys::PlannerInfo,
        number: i32,
        column: i16,
    ) -> Option<Scanned> {
        // SAFETY: the planner has arrays of as many relations as it says.
        unsafe {
            if number <= 0 || number >= (*root).simple_rel_array_size || are_rows_hidden(root) {
                return None;
            }
            let entry = *(*root).simple_rte_array.add(number as usize);
            let table = self.scanned(entry).filter(|table| table.column == column)?;
            // As for statistics that the server keeps: not for those who may not read the column.
            may_read(root, number as usize, column).then_some(table)
        }
    }

    /// The share of a table's rows whose value at a path is what all of these ask for; `None` if nothing is known.
    pub(super) fn share_of_values(&self, table: Scanned, path: &[u8], wanted: &[Wanted]) -> Option<f64> {
        let search = Search::implied(&(self.filter_of_values)(path, wanted)?);
        (self.share)(table, &search.value, false)
    }
}

/// Whether the user may read a column of relation `number`, or, of a child or a partition, that of the table in the query that it belongs
/// to: who reads all of a table needs no privileges on its parts.
///
/// # Safety
/// The planner, and a relation of the query.
unsafe fn may_read(root: *mut pg_sys::PlannerInfo, number: usize, column: i16) -> bool {
    // SAFETY: the planner has arrays of as many relations as it says, and of what each belongs to, if anything does.
    unsafe {
        let Some(rel) = (*(*root).simple_rel_array.add(number)).as_mut() else { return false };
        let entry = *(*root).simple_rte_array.add(number);
        if (*entry).rtekind != pg_sys::RTEKind::RTE_RELATION {
            return false;
        }
        let user = compat::checked_as(rel, entry);
        let user = if user == pg_sys::InvalidOid { pg_sys::GetUserId() } else { user };
        let (table, select) = ((*entry).relid, compat::class_privileges(pg_sys::ACL_SELECT));
        let ok = pg_sys::AclResult::ACLCHECK_OK;
        if pg_sys::pg_class_aclcheck(table, user, select) == ok
            || pg_sys::pg_attribute_aclcheck(table, column, user, select) == ok
        {
            return true;
        }
        if (*root).append_rel_array.is_null() {
            return false;
        }
        let Some(part) = (*(*root).append_rel_array.add(number)).as_ref() else { return false };
        if column <= 0 || i32::from(column) > part.num_child_cols {
            return false;
        }
        // 0: the parent has no such column.
        let column = *part.parent_colnos.add(column as usize - 1);
        column != 0 && may_read(root, part.parent_relid as usize, column)
    }
}
