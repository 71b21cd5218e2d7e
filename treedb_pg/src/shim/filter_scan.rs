//! The executor's node for `WHERE column @@ filter` on a table: rows that the table's indexes lead to. What such a search
//! is, as a trait of safe functions, and how the executor carries it out. [`super::filter_path`] plans it.
//!
//! The node returns rows of the table, with all columns, `ctid` and `tableoid`. The conditions of the plan, `@@` among
//! them, are evaluated by the server on every row, in the order that row security asks for. Where a search finds nothing
//! but matches, `@@` is left out of them: that it is true was seen by the keys of an index. Rows that are looked at again
//! after a change are not those that were found, so that all conditions are evaluated on them.
//!
//! The server has prepared those for a slot of values that are there already. So each row is decoded from the slot that
//! holds its page into the node's, which points into that page until the next row is asked for.

use std::ffi::{CStr, CString, c_void};
use std::marker::PhantomData;
use std::rc::Rc;

use pgrx::pg_sys;

use super::catalog;
use super::custom_scan::argument_of;
use super::datum::{Datum, Layout};
use super::memory::Context;
use super::prepared::{ImpliedCall, Prepared};
use super::relation::{OpenTable, Table};
use super::row_claims::RowClaims;
use super::row_order::RowOrder;
use super::scan_node::{NodeMethods, ScanNode, store_virtual};
use super::snapshot::Registered;
use super::streamed::{Argument, Estimate, Explanation};
use super::table::Slot;
use super::unguarded;
use super::value_condition::{ValueFunction, Wanted};

/// A table in a plan, which the statement has locked, and its column of documents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Scanned {
    pub(crate) table: pg_sys::Oid,
    pub(crate) column: i16,
}

/// Dotted paths, in the database's encoding.
pub(crate) type PathNames<'p> = &'p [&'p [u8]];

/// By which paths an index finds rows, by their positions among those that were asked about.
#[derive(Clone, Debug)]
pub(crate) struct SearchedBy {
    /// Those that bound what is read of it.
    pub(crate) bounding: Vec<usize>,
    /// Those that are tested on what is read.
    pub(crate) tested: Vec<usize>,
    /// Whether it may have several values of a document: then one condition at each path is searched by.
    pub(crate) multikey: bool,
}

/// What statistics say of the values at a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueStatistics {
    /// The share of the rows without a value.
    pub(crate) missing: f64,
    /// The number of different values, at least 1.
    pub(crate) distinct: f64,
}

impl ValueStatistics {
    /// The share of the rows that have one value of which nothing is known.
    pub(crate) fn equal(self) -> f64 {
        (1.0 - self.missing) / self.distinct
    }
}

/// A scan as EXPLAIN finds it.
pub(crate) struct Given<'a> {
    pub(crate) table: Scanned,
    pub(crate) filter: Argument<'a>,
    /// The order, and its SQL.
    pub(crate) order: Option<(RowOrder, CString)>,
}

/// A search for the rows of a table whose document may match a filter.
pub(crate) trait FilteredRows: Sized + 'static {
    /// What EXPLAIN calls the plan's node.
    const NODE: &'static CStr;
    /// The column with the documents.
    const COLUMN: &'static CStr;
    /// The functions whose results are values at paths of a document, by which rows are found and ordered.
    const VALUES: &'static [ValueFunction];
    /// What EXPLAIN calls the filter.
    const LABEL: &'static CStr;

    /// The filter that every document matches whose value at a dotted path, in the database's encoding, is what all of these
    /// ask for; `None` if it would say nothing.
    fn filter_of_values(path: &[u8], wanted: &[Wanted]) -> Option<Vec<u8>>;

    /// The filter that every document matches which has a value at a dotted path, in the database's encoding.
    fn filter_of_presence(path: &[u8]) -> Vec<u8>;

    /// The filter for what all of these match.
    fn filter_of_all(filters: &[&[u8]]) -> Vec<u8>;

    /// How many rows match, and what it takes to find them by an index; `None` if nothing is known, or if no index
    /// helps. `exact`: the filter is the query's own; otherwise it is wider, or says nothing. With an order: `None` too if no
    /// index is expected to give it. It must not raise errors: the scan may never be executed.
    fn estimate(
        table: Scanned,
        filter: &Argument<'_>,
        exact: bool,
        order: Option<&RowOrder>,
    ) -> Option<Estimate>;

    /// The fields of each index of the table that are among these paths, by their positions; of an index on
    /// all paths, each alone. It must not raise errors either.
    fn fields_of_indexes(table: Scanned, paths: PathNames<'_>) -> Vec<Vec<usize>>;

    /// By which of `paths` indexes find the rows of a filter in which some values stand for others, of which a part is `known`. It must
    /// not raise errors either.
    fn searched_by(table: Scanned, filter: &[u8], known: &[u8], paths: PathNames<'_>) -> Rc<[SearchedBy]>;

    /// What it takes to find `rows` rows of a table of so many blocks by an index of which as many entries as `keys` are read. It must not
    /// raise errors either.
    fn estimate_unknown(blocks: f64, keys: f64, rows: f64) -> Estimate;

    /// Which share of the rows matches; `None` if nothing is known. It must not raise errors either.
    fn share(table: Scanned, filter: &Argument<'_>, exact: bool) -> Option<f64>;

    /// What statistics say of the values at a dotted path, in the database's encoding; `None` if there are none. It must not raise
    /// errors either.
    fn statistics(table: Scanned, path: &[u8]) -> Option<ValueStatistics>;

    /// Begins a search under the snapshot of the statement; `column` of the table has the documents. With an order, rows come in
    /// that order, whether an index gives it or not.
    fn open(
        table: OpenTable,
        column: i16,
        filter: Datum<'_>,
        order: Option<RowOrder>,
        snapshot: Registered,
    ) -> Self;
    /// Begins it again, with another filter perhaps.
    fn reopen(&mut self, filter: Datum<'_>);
    /// Whether every row that is returned for this filter matches it.
    fn finds_matches(&self) -> bool;
    /// Returns only rows of blocks that this process claims, from the next one on; `None`: all processes are done.
    fn divide(&mut self, claims: Option<RowClaims>);
    /// A slot for a row. Called once, when the search has begun.
    fn slot(&mut self) -> Slot;
    /// Puts the next row that the snapshot shows into the slot; false if there is none. Every row that matches must be
    /// returned once, others may be.
    fn next(&mut self, slot: &mut Slot) -> bool;
    /// Whether the row that was returned last is known to be the last one.
    fn is_done(&self) -> bool;

    /// Shows the search in EXPLAIN: `running` if it has been executed.
    fn explain(running: Option<&Self>, given: &Given<'_>, shown: &mut Explanation<'_>);
}

/// What plans of searches `T` are executed by.
pub(super) struct Methods<T>(PhantomData<T>);

impl<T: FilteredRows> Methods<T> {
    /// How a plan becomes a plan state.
    pub(super) const SCAN: &'static pg_sys::CustomScanMethods = NodeMethods::<Running<T>>::SCAN;
}

/// A node that has begun.
struct Running<T> {
    /// The search and the row it has found last, dropped before the contexts that they live in.
    search: Option<(Slot, T)>,
    /// Whether the filter has been evaluated, and the search begun for it.
    opened: bool,
    /// Whether there may be more rows.
    more: bool,
    /// What says which rows are this process's, in a parallel plan.
    claims: Option<RowClaims>,
    /// How many blocks it is about.
    claimed_blocks: u32,
    filter: PreparedFilter,
    order: Option<RowOrder>,
    /// The conditions of the plan; null for none.
    conditions: *mut pg_sys::ExprState,
    /// Those without the filter; null for none.
    others: *mut pg_sys::ExprState,
    /// Whether the next row is the first one, which is looked for in `memory`: many searches find one.
    fresh: bool,
    /// What is allocated while the next row is looked for.
    scratch: Option<Context>,
    /// What the search allocates in.
    memory: Context,
}

/// The filter of a node, or an argument of a function that makes it.
enum PreparedFilter {
    /// The query's own, or one that the planner has made.
    Given(Prepared),
    /// What a function makes of parts of the query's conditions.
    Implied(ImpliedCall, Vec<PreparedFilter>),
}

/// The functions of which the planner makes filters of values, of constants, filters and values.
pub(super) const VALUE_FILTERS: [&CStr; 3] = [c"values_filter", c"any_value_filter", c"both_filters"];

impl PreparedFilter {
    /// # Safety
    /// A plan state of a plan that `filter_path` made, which begins; the current memory context is that of the query.
    unsafe fn new(node: *mut pg_sys::CustomScanState) -> PreparedFilter {
        // SAFETY: a filter that is implied is a constant, or a call of a function of at most three arguments.
        unsafe {
            let (_, filter) = plan_of(node);
            match number_of(node, IMPLIED) == 0 || (*filter).type_ != pg_sys::NodeTag::T_FuncExpr {
                true => PreparedFilter::Given(Prepared::new(filter.cast(), node)),
                false => PreparedFilter::call(filter.cast(), node),
            }
        }
    }

    /// # Safety
    /// As [`Self::new`], and a call of such a function.
    unsafe fn call(call: *mut pg_sys::FuncExpr, node: *mut pg_sys::CustomScanState) -> PreparedFilter {
        // SAFETY: the caller's; arguments of `both_filters` that are calls of such functions are the planner's too.
        unsafe {
            let arguments = (0..(*(*call).args).length as usize).map(|at| {
                let argument: *mut pg_sys::Node = unguarded::nth((*call).args, at).cast();
                let inner = argument.cast::<pg_sys::FuncExpr>();
                let implied = (*argument).type_ == pg_sys::NodeTag::T_FuncExpr
                    && catalog::own_function_among((*inner).funcid, &VALUE_FILTERS, |name| name).is_some();
                match implied {
                    true => PreparedFilter::call(inner, node),
                    false => PreparedFilter::Given(Prepared::new(argument.cast(), node)),
                }
            });
            let arguments = arguments.collect();
            PreparedFilter::Implied(ImpliedCall::new((*call).funcid), arguments)
        }
    }

    /// The value; `None` for NULL.
    ///
    /// # Safety
    /// A filter of this node. The value lives until the next row is asked for.
    unsafe fn value(&self, node: *mut pg_sys::CustomScanState) -> Option<pg_sys::Datum> {
        // SAFETY: the caller's.
        unsafe {
            match self {
                PreparedFilter::Given(filter) => filter.value(node),
                PreparedFilter::Implied(call, arguments) => {
                    let arguments: Option<Vec<_>> =
                        arguments.iter().map(|argument| argument.value(node)).collect();
                    Some(call.value(&arguments?, node))
                }
            }
        }
    }
}

// The numbers of a plan that `filter_path` made.
/// The position of the filter in the plan's list of conditions; -1 if it is not there.
const CONDITION: usize = 0;
/// The number of the column with the documents.
const COLUMN: usize = 1;
/// Whether the filter is one that an operator implies.
const IMPLIED: usize = 2;
/// The first of three of [`RowOrder::numbers`], if the plan has an order.
const ORDER: usize = 3;

/// A number of the plan of a node.
///
/// # Safety
/// A plan state of a plan that `filter_path` made, which has that number.
unsafe fn number_of(node: *mut pg_sys::CustomScanState, at: usize) -> i32 {
    // SAFETY: the caller's.
    unsafe { unguarded::nth_number((*(*node).ss.ps.plan.cast::<pg_sys::CustomScan>()).custom_private, at) }
}

/// The table of a node, and the expression of its filter.
///
/// # Safety
/// A plan state of a plan that `filter_path` made, which has begun.
unsafe fn plan_of(node: *mut pg_sys::CustomScanState) -> (Scanned, *mut pg_sys::Node) {
    // SAFETY: `filter_path` makes plans whose first expression is the filter; the server has opened the table.
    unsafe {
        let plan = (*node).ss.ps.plan.cast::<pg_sys::CustomScan>();
        let column = number_of(node, COLUMN) as i16;
        let table = (*(*node).ss.ss_currentRelation).rd_id;
        (Scanned { table, column }, unguarded::nth((*plan).custom_exprs, 0).cast())
    }
}

/// The order of a node, and the expression of the value that it is of.
///
/// # Safety
/// As [`plan_of`].
unsafe fn order_of<T: FilteredRows>(
    node: *mut pg_sys::CustomScanState,
) -> Option<(RowOrder, *mut pg_sys::Node)> {
    // SAFETY: `filter_path` makes plans with a second expression if they have an order, and numbers that belong to it.
    unsafe {
        let plan = (*node).ss.ps.plan.cast::<pg_sys::CustomScan>();
        if (*(*plan).custom_exprs).length < 2 {
            return None;
        }
        let value = unguarded::nth((*plan).custom_exprs, 1).cast();
        let numbers = std::array::from_fn(|at| number_of(node, ORDER + at));
        Some((RowOrder::of(value, T::VALUES, numbers)?, value))
    }
}

/// How many blocks the table of a node has.
///
/// # Safety
/// A plan state of a table, which has begun.
unsafe fn blocks_of(node: *mut pg_sys::CustomScanState) -> u32 {
    // SAFETY: the server has opened the table.
    unsafe {
        let table = (*node).ss.ss_currentRelation;
        pg_sys::RelationGetNumberOfBlocksInFork(table, pg_sys::ForkNumber::MAIN_FORKNUM)
    }
}

/// The conditions of a node that has begun, without the filter that it searches for: with it where they cannot be
/// prepared twice.
///
/// # Safety
/// As [`plan_of`].
unsafe fn other_conditions(node: *mut pg_sys::CustomScanState) -> *mut pg_sys::ExprState {
    // SAFETY: the server makes no other list of the plan's conditions than that in which the filter has its position.
    unsafe {
        let plan = (*node).ss.ps.plan.cast::<pg_sys::CustomScan>();
        let at = number_of(node, CONDITION);
        let all = (*plan).scan.plan.qual;
        if at == 0 && !all.is_null() && (*all).length == 1 {
            return std::ptr::null_mut();
        }
        // A part of the plan that is a condition's would be begun twice.
        if at < 0 || pg_sys::contain_subplans(all.cast()) {
            return (*node).ss.ps.qual;
        }
        let others = pg_sys::list_delete_nth_cell(pg_sys::list_copy(all), at);
        pg_sys::ExecInitQual(others, &raw mut (*node).ss.ps)
    }
}

/// Where the server looks again at rows that have changed (EvalPlanQual), and this table is not the one that did, it puts
/// the same row as before into the slot of the node, as the table stores it. A slot of values does not take it.
///
/// # Safety
/// A plan state of a table, which begins.
unsafe fn use_table_slot(node: *mut pg_sys::CustomScanState) {
    // SAFETY: the caller's; the server has an element for each relation of the query.
    unsafe {
        let estate = (*node).ss.ps.state;
        let Some(again) = (*estate).es_epq_active.as_ref() else { return };
        let plan = (*node).ss.ps.plan.cast::<pg_sys::CustomScan>();
        let number = (*plan).scan.scanrelid as usize;
        let marks = again.relsubs_rowmark;
        if number > 0 && !marks.is_null() && !(*marks.add(number - 1)).is_null() {
            let slots = &raw mut (*estate).es_tupleTable;
            (*node).ss.ss_ScanTupleSlot = pg_sys::table_slot_create((*node).ss.ss_currentRelation, slots);
        }
    }
}

impl<T: FilteredRows> ScanNode for Running<T> {
    const NAME: &'static CStr = T::NODE;

    unsafe fn begin(node: *mut pg_sys::CustomScanState) -> Self {
        // SAFETY: the caller's; plans are those that `filter_path` made for `T`.
        unsafe {
            use_table_slot(node);
            Running {
                search: None,
                opened: false,
                more: false,
                claims: None,
                claimed_blocks: 0,
                filter: PreparedFilter::new(node),
                order: order_of::<T>(node).map(|(order, _)| order),
                conditions: (*node).ss.ps.qual,
                others: other_conditions(node),
                fresh: true,
                scratch: None,
                memory: Context::new(c"TreeDB scan"),
            }
        }
    }

    unsafe fn choose_conditions(&mut self, node: *mut pg_sys::CustomScanState) {
        // SAFETY: the caller's; both are conditions of this node.
        unsafe {
            let again = !(*(*node).ss.ps.state).es_epq_active.is_null();
            if !again {
                self.ensure_open(node);
            }
            let decided = !again && self.search.as_ref().is_some_and(|(_, search)| search.finds_matches());
            (*node).ss.ps.qual = if decided { self.others } else { self.conditions };
        }
    }

    unsafe fn fetch(&mut self, node: *mut pg_sys::CustomScanState, slot: *mut pg_sys::TupleTableSlot) {
        // SAFETY: the caller's. Both slots have the columns of the table, and the arrays of both have an element for
        // each. What was found last is not used any more once the scan's slot is clear.
        unsafe {
            let Some(found) = self.next(node) else { return };
            let columns = (*(*slot).tts_tupleDescriptor).natts;
            found.decode(columns);
            let (row, columns) = (found.raw(), usize::try_from(columns).unwrap_or(0));
            std::ptr::copy_nonoverlapping((*row).tts_values, (*slot).tts_values, columns);
            std::ptr::copy_nonoverlapping((*row).tts_isnull, (*slot).tts_isnull, columns);
            store_virtual(slot);
            (*slot).tts_tid = (*row).tts_tid;
            (*slot).tts_tableOid = (*row).tts_tableOid;
        }
    }

    /// The slot has the current version of a row that has changed since the snapshot. The server evaluates the conditions
    /// on it, which expect its values to be decoded.
    unsafe fn recheck(_scan: *mut pg_sys::ScanState, slot: *mut pg_sys::TupleTableSlot) -> bool {
        // SAFETY: a slot with a row.
        unsafe { pg_sys::slot_getallattrs(slot) };
        true
    }

    fn rescan(&mut self) {
        if let Some((slot, _)) = &mut self.search {
            slot.clear();
        }
        (self.opened, self.more) = (false, false);
    }

    unsafe fn shared_size(&mut self, node: *mut pg_sys::CustomScanState) -> usize {
        // SAFETY: the caller's.
        self.claimed_blocks = unsafe { blocks_of(node) };
        RowClaims::size(self.claimed_blocks)
    }

    unsafe fn make_shared(&mut self, _node: *mut pg_sys::CustomScanState, place: *mut c_void) {
        // SAFETY: the caller's.
        self.claims = Some(unsafe { RowClaims::make(place, self.claimed_blocks) });
    }

    unsafe fn restart_shared(&mut self, place: *mut c_void) {
        // SAFETY: the caller's.
        unsafe { RowClaims::at(place).clear() }
    }

    unsafe fn join_shared(&mut self, place: *mut c_void) {
        // SAFETY: the caller's.
        self.claims = Some(unsafe { RowClaims::at(place) });
    }

    fn leave_shared(&mut self) {
        if self.claims.take().is_some() {
            (self.opened, self.more) = (true, false);
            if let Some((_, search)) = &mut self.search {
                search.divide(None);
            }
        }
    }

    unsafe fn explain(
        running: Option<&Self>,
        node: *mut pg_sys::CustomScanState,
        sql: &dyn Fn(*mut pg_sys::Node) -> Option<CString>,
        shown: &mut Explanation<'_>,
    ) {
        // SAFETY: the caller's; the filter and the value are expressions of the plan.
        let given = unsafe {
            let (table, filter) = plan_of(node);
            let order = order_of::<T>(node).map(|(order, value)| {
                let value = sql(value).unwrap_or_default();
                let shown = [value.to_bytes(), order.direction().as_bytes()].concat();
                (order, CString::new(shown).unwrap_or_default())
            });
            Given { table, filter: argument_of(filter, sql), order }
        };
        let search = running.and_then(|running| running.search.as_ref());
        T::explain(search.map(|(_, search)| search), &given, shown);
    }
}

impl<T: FilteredRows> Running<T> {
    /// Begins the search, if it has not begun.
    ///
    /// # Safety
    /// As [`Self::open`].
    unsafe fn ensure_open(&mut self, node: *mut pg_sys::CustomScanState) {
        if !self.opened {
            self.opened = true;
            // SAFETY: the caller's.
            self.more = unsafe { self.open(node) };
        }
    }

    /// The slot with the next row; `None` if there are no more.
    ///
    /// # Safety
    /// `node` is the plan state that this belongs to, and the row before this one is not used any more.
    unsafe fn next(&mut self, node: *mut pg_sys::CustomScanState) -> Option<&mut Slot> {
        // SAFETY: the caller's.
        unsafe { self.ensure_open(node) };
        let Running { search, more, fresh, scratch, memory, .. } = self;
        let (slot, search) = search.as_mut()?;
        if !*more {
            slot.clear();
            return None;
        }
        // After an error there are no more rows.
        *more = false;
        let context = match std::mem::take(fresh) {
            true => &*memory,
            // SAFETY: what was allocated while an earlier row was looked for is not used later.
            false => unsafe { Context::emptied(scratch, c"TreeDB rows", memory) },
        };
        let found = context.enter(|| search.next(slot));
        *more = found && !search.is_done();
        if !found {
            slot.clear();
        }
        found.then_some(slot)
    }

    /// Evaluates the filter and begins the search; false if there are no rows, as it is NULL.
    ///
    /// # Safety
    /// `node` is the plan state that this belongs to.
    unsafe fn open(&mut self, node: *mut pg_sys::CustomScanState) -> bool {
        // SAFETY: an expression of this node, of the type of documents, evaluated in the context for that, which is reset
        // when the next row is asked for. The server has opened the table.
        let (table, column, filter, snapshot) = unsafe {
            let Some(filter) = self.filter.value(node) else { return false };
            let state = (*node).ss.ps.state;
            // The search is dropped when the node ends.
            let snapshot = Registered::of_executor((*state).es_snapshot);
            let table = Table::from_raw((*node).ss.ss_currentRelation);
            (table, number_of(node, COLUMN) as i16, Datum::from_raw(filter, Layout::Varlena), snapshot)
        };
        let Running { search, claims, memory, order, .. } = self;
        match search {
            Some((_, search)) => memory.enter(|| search.reopen(filter)),
            None => {
                *search = Some(memory.enter(|| {
                    let mut opened =
                        T::open(OpenTable::again(table), column, filter, order.clone(), snapshot);
                    (opened.slot(), opened)
                }));
            }
        }
        if let (Some(claims), Some((_, search))) = (*claims, search) {
            search.divide(Some(claims));
        }
        true
    }
}
