//! The paths of a table for searches by filters on its documents: what each takes, and how several processes share it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ptr;

use pgrx::pg_sys;

use super::custom_path;
use super::filter_path::{FilterPaths, Search};
use super::filter_scan::Scanned;
use super::relation_set::RelationSet;
use super::row_order::{AskedOrder, RowOrder};
use super::scan_team;
use super::streamed::Estimate;
use super::unknown_values::{OnValue, PlaceholderFilter};
use super::value_share::Together;

/// A table as the planner has it, for which paths are made.
pub(super) struct TablePaths {
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    filters: &'static FilterPaths,
    table: Scanned,
    /// The relations that all paths need rows of.
    lateral: RelationSet,
    /// The shares of the rows that conditions on values leave: the server does not remember those of conditions between tables, and there
    /// are many paths with the same ones.
    shares: RefCell<HashMap<OnValue, f64>>,
}

impl TablePaths {
    /// # Safety
    /// The planner, and a relation of its that is this table; both stay as long as this is used.
    pub(super) unsafe fn new(
        root: *mut pg_sys::PlannerInfo,
        rel: *mut pg_sys::RelOptInfo,
        filters: &'static FilterPaths,
        table: Scanned,
    ) -> TablePaths {
        // SAFETY: a set of the planner's.
        let lateral = unsafe { RelationSet::of((*rel).lateral_relids) };
        TablePaths { root, rel, filters, table, lateral, shares: RefCell::default() }
    }

    /// Adds the path of a search, parameterized by the relations `outer`, which returns rows in `order` if there is one.
    ///
    /// # Safety
    /// A search of this table.
    pub(super) unsafe fn add(&self, search: &Search<'_>, outer: &RelationSet, order: Option<&AskedOrder>) {
        let TablePaths { root, rel, filters, table, .. } = *self;
        // SAFETY: nodes of the planner's, made and filled as it makes its own.
        unsafe {
            let exact = !search.implied;
            let asked = order.map(|order| {
                let wanted = self.to_be_found(search, order.order.wanted);
                RowOrder { wanted, ..order.order.clone() }
            });
            let estimate = match &search.placeholders {
                Some(placeholders) => {
                    let in_order = asked.as_ref().is_none_or(|order| {
                        (filters.estimate)(table, &search.value, exact, Some(order)).is_some()
                    });
                    in_order.then(|| self.estimate_unknown(placeholders, outer)).flatten()
                }
                None => (filters.estimate)(table, &search.value, exact, asked.as_ref()),
            };
            let Some(estimate) = estimate else { return };
            let Estimate { startup, total, rows: found } = estimate;
            let others = outer.to_planner();
            let known = pg_sys::bms_add_member(pg_sys::bms_copy(others), (*rel).relid as i32);
            let path = Together::Of(known)
                .estimate(root, || custom_path::new_path(root, rel, others, filters.paths));
            (*path).path.parallel_safe = (*rel).consider_parallel;
            let rows_cost = custom_path::set_costs(path, (startup, total), found);
            let mut expressions = pg_sys::lappend(ptr::null_mut(), search.filter.cast());
            let mut numbers = vec![i32::from(table.column), i32::from(search.implied)];
            if let (Some(order), Some(asked)) = (order, &asked) {
                expressions = pg_sys::lappend(expressions, order.expression.cast());
                numbers.extend(asked.numbers());
                (*path).path.pathkeys = order.path_keys();
            }
            let numbers =
                numbers.into_iter().fold(ptr::null_mut(), |list, number| pg_sys::lappend_int(list, number));
            let private = pg_sys::lappend(ptr::null_mut(), expressions.cast());
            let private = pg_sys::lappend(private, numbers.cast());
            (*path).custom_private = pg_sys::lappend(private, search.condition.cast());
            if order.is_none() && (*rel).consider_parallel && (*path).path.param_info.is_null() {
                // The server divides what rows cost the processor, and not what pages cost.
                self.share_path(path, found, found * pg_sys::cpu_tuple_cost + rows_cost);
            }
            pg_sys::add_path(rel, path.cast());
        }
    }

    /// What it takes to find rows by the index that is the cheapest one where a row of each of `outer` is known; `None` if none helps, or
    /// less is enough for what it does.
    ///
    /// # Safety
    /// As [`Self::add`].
    unsafe fn estimate_unknown(
        &self,
        placeholders: &PlaceholderFilter,
        outer: &RelationSet,
    ) -> Option<Estimate> {
        let PlaceholderFilter { filter, known, .. } = placeholders;
        let indexes = (self.filters.searched_by)(self.table, filter, known, &placeholders.paths());
        let estimates = indexes.iter().filter_map(|by| {
            let (bounding, all) = placeholders.conditions(by, &self.lateral, outer)?;
            // SAFETY: a relation of the planner's, and conditions on it.
            unsafe {
                let blocks = f64::from((*self.rel).pages);
                let keys = self.left_by(&bounding);
                let rows = if by.tested.is_empty() { keys } else { self.left_by(&all) };
                Some((self.filters.estimate_unknown)(blocks, keys, rows))
            }
        });
        estimates.min_by(|one, other| one.total.total_cmp(&other.total))
    }

    /// How many rows of the table conditions leave, those on each value together: the product of their shares. The server takes those of
    /// two ends of a range together, but only for operators whose estimators it knows.
    ///
    /// # Safety
    /// Conditions on this table.
    unsafe fn left_by(&self, conditions: &[OnValue]) -> f64 {
        // SAFETY: a relation of the planner's, and conditions on it.
        unsafe {
            let shares = conditions.iter().map(|on_value| self.share_of(on_value));
            (shares.product::<f64>() * (*self.rel).tuples).max(1.0)
        }
    }

    /// The share of the rows that conditions on one value leave.
    ///
    /// # Safety
    /// Conditions on this table.
    unsafe fn share_of(&self, on_value: &OnValue) -> f64 {
        if let Some(known) = self.shares.borrow().get(on_value) {
            return *known;
        }
        // SAFETY: the caller's.
        let share = unsafe {
            let (number, inner) = ((*self.rel).relid as i32, pg_sys::JoinType::JOIN_INNER);
            let share = |condition: &*mut pg_sys::RestrictInfo| {
                pg_sys::clause_selectivity(self.root, (*condition).cast(), number, inner, ptr::null_mut())
            };
            Together::These(on_value).estimate(self.root, || on_value.iter().map(share).product::<f64>())
        };
        self.shares.borrow_mut().insert(on_value.clone(), share);
        share
    }

    /// How many rows have to be found where `wanted` are likely to be read, 0 for all: other conditions leave some of them out.
    ///
    /// # Safety
    /// As [`Self::add`].
    unsafe fn to_be_found(&self, search: &Search<'_>, wanted: u32) -> u32 {
        let TablePaths { rel, filters, table, .. } = *self;
        // SAFETY: the caller's.
        unsafe {
            if wanted == 0 || pg_sys::list_length((*rel).baserestrictinfo) < 2 && !search.condition.is_null()
            {
                return wanted;
            }
            let share = (filters.share)(table, &search.value, !search.implied).unwrap_or(1.0);
            let left_of_one = (*rel).rows / (share * (*rel).tuples).max(1.0);
            (f64::from(wanted) / left_of_one.clamp(1e-9, 1.0)) as u32
        }
    }

    /// Adds the path of several processes that all search by the indexes and share the rows that are `found`, which cost
    /// `rows_cost` of the costs of `path`.
    ///
    /// # Safety
    /// A path of [`Self::add`] for a relation that workers may read.
    unsafe fn share_path(&self, path: *const pg_sys::CustomPath, found: f64, rows_cost: f64) {
        let rel = self.rel;
        // SAFETY: nodes of the planner's; settings.
        unsafe {
            let most = pg_sys::max_parallel_workers_per_gather;
            let pages = found.min(f64::from((*rel).pages));
            let workers = pg_sys::compute_parallel_worker(rel, pages, -1.0, most);
            if workers <= 0 {
                return;
            }
            let divisor = scan_team::divisor(usize::try_from(workers).unwrap_or(0));
            let partial = pg_sys::palloc0(size_of::<pg_sys::CustomPath>()).cast::<pg_sys::CustomPath>();
            partial.copy_from_nonoverlapping(path, 1);
            (*partial).path.rows = ((*path).path.rows / divisor).max(1.0);
            (*partial).path.total_cost -= rows_cost * (1.0 - 1.0 / divisor);
            custom_path::add_partial_path(partial, workers);
        }
    }
}
