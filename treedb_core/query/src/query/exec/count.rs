//! Counting the documents that match, and collecting the ids of their rows.

use crate::access::{Flow, QueryContext, RowId, Source};
use crate::error::Result;
use crate::query::plan::{Plan, PlanSummary, evict_if_misestimated};
use crate::query::{Query, interrupt};

use super::Counters;
use super::walk::{RowContent, Walk};

/// The ids of the rows that `query` finds, in its order, at most `limit` (0: all): the rows an update or a delete
/// changes. They are collected first, so that a change cannot bring a row into the walk again.
pub fn find_rows(
    source: &dyn Source,
    context: &QueryContext<'_>,
    query: &Query,
    limit: u64,
) -> Result<Vec<RowId>> {
    rows_of(source, &Plan::choose(source, context, query)?, query, limit)
}

/// The same by a plan of the query.
pub(super) fn rows_of(source: &dyn Source, plan: &Plan, query: &Query, limit: u64) -> Result<Vec<RowId>> {
    let mut found = FoundRows::default();
    found.find(source, plan, query, limit)?;
    Ok(found.rows)
}

/// The ids of the rows that a plan finds: some at first, and more of them if they are wanted.
#[derive(Debug, Default)]
pub(super) struct FoundRows {
    pub(super) rows: Vec<RowId>,
    walk: Walk,
    begun: bool,
}

impl FoundRows {
    /// Finds more rows, until there are so many (0: all). The plan and the query are those of the calls before.
    pub(super) fn find(&mut self, source: &dyn Source, plan: &Plan, query: &Query, limit: u64) -> Result<()> {
        if !std::mem::replace(&mut self.begun, true) {
            plan.begin(source);
        }
        let FoundRows { rows, walk, .. } = self;
        if walk.done || limit > 0 && rows.len() as u64 >= limit {
            return Ok(());
        }
        walk.run(source, plan, &query.filter, &mut Counters::default(), RowContent::RowIds, &mut |row, _| {
            rows.push(row);
            Ok(if limit > 0 && rows.len() as u64 >= limit { Flow::Break(()) } else { Flow::Continue(()) })
        })
    }
}

/// Number of documents that `query` finds, skip and limit applied.
pub fn count(source: &dyn Source, context: &QueryContext<'_>, query: &Query) -> Result<u64> {
    counted(source, context, query).map(|(_, counters)| counters.returned)
}

/// [`count`] with the plan and the work it took. Documents are fetched only where the keys of an index do not decide.
///
/// # Errors
/// As [`Plan::choose`].
pub fn counted(source: &dyn Source, context: &QueryContext<'_>, query: &Query) -> Result<(Plan, Counters)> {
    let query = Query { sort: None, projection: None, ..query.clone() };
    let plan = Plan::choose(source, context, &query)?;
    plan.count_use(source);
    let most = if query.limit == 0 { u64::MAX } else { query.skip.saturating_add(query.limit) };
    let (mut found, mut counters) = (0_u64, Counters::default());
    let all = if query.filter.is_all() && query.hint.is_none() { source.known_rows()? } else { None };
    interrupt::note_plan(|| match all {
        Some(_) => PlanSummary::RECORD_COUNT,
        None => PlanSummary::of(&plan, source, true),
    });
    if let Some(rows) = all {
        found = rows.min(most);
    } else {
        Walk::default().run(
            source,
            &plan,
            &query.filter,
            &mut counters,
            RowContent::RowIds,
            &mut |_, _| {
                found += 1;
                Ok(if found >= most { Flow::Break(()) } else { Flow::Continue(()) })
            },
        )?;
    }
    evict_if_misestimated(context, &plan, &counters);
    counters.returned = found.saturating_sub(query.skip);
    Ok((plan, counters))
}
