//! [`Execution`]: runs a plan, batch by batch.
//!
//! An execution owns its query, its plan and its position, and borrows the [`Source`] only while it runs. Between two
//! batches a cursor therefore holds nothing but its snapshot. The execution stops after the last row it returned and
//! continues from there.

use bson::{RawDocument, RawDocumentBuf};

use crate::access::{Direction, Flow, QueryContext, Row, RowId, Source};
use crate::error::{ErrorCode, QueryError, Result};

use super::Counters;
use super::external_sort::{KeyedDocument, SortedRuns, memory_size};
use super::returned::ReturnedDocument;
use super::top_k::TopK;
use super::walk::{RowContent, Walk};
use crate::query::Projection;
use crate::query::filter::Filter;
use crate::query::plan::{Path, Plan, evict_if_misestimated};
use crate::query::{Query, Returns};

/// Bytes a sort may hold: MongoDB's limit for a sort in memory.
const MAX_SORT_BYTES: usize = 100 * 1024 * 1024;

/// How many documents beyond the limit a sort collects before it drops them.
const SORT_SLACK: usize = 500;

/// Of so few documents all is decoded: it would take longer to find out which of their fields are needed.
const FEW: u64 = 4;

/// `tick` is called once per this many rows.
const TICK_INTERVAL: u64 = 64;

/// A running query.
#[derive(Debug)]
pub struct Execution {
    query: Query,
    plan: Plan,
    walk: Walk,
    to_skip: u64,
    /// The sorted result, once the sort is done.
    sorted: Option<SortedRuns>,
    /// Bytes that a sort may hold in memory.
    sort_memory: usize,
    counters: Counters,
}

impl Execution {
    /// Plans `query` over `source`.
    pub fn new(source: &dyn Source, context: &QueryContext<'_>, mut query: Query) -> Result<Self> {
        let plan = Plan::choose(source, context, &query)?;
        plan.begin(source);
        // Of rows that are returned as they are found, only what the projection keeps is decoded.
        let as_found = !plan.sort_in_memory && query.returns == Returns::default();
        let few = plan.unique || (1..=FEW).contains(&query.limit);
        if as_found && !few && query.used.is_none() && plan.covered().is_none() {
            query.used = query.projection.as_ref().and_then(|projection| projection.used(&query.filter));
        }
        let to_skip = query.skip;
        Ok(Execution {
            query,
            plan,
            walk: Walk::default(),
            to_skip,
            sorted: None,
            sort_memory: MAX_SORT_BYTES,
            counters: Counters::default(),
        })
    }

    /// The query.
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// The chosen plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Work done so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Passes documents to `take` until it returns `Break` or there are no more. True if there may be more.
    ///
    /// `source` must be that of [`Execution::new`], or another view of the same snapshot.
    pub fn run(
        &mut self,
        source: &dyn Source,
        context: &QueryContext<'_>,
        take: &mut dyn FnMut(RawDocumentBuf) -> Flow,
    ) -> Result<bool> {
        if self.plan.sort_in_memory {
            return self.run_sorted(source, context, take);
        }
        let Execution { query, plan, walk, to_skip, counters, .. } = self;
        if query.limit > 0 && counters.returned >= query.limit {
            return Ok(false);
        }
        let mut returned = counters.returned;
        let returns = ReturnedDocument::of(source, plan, query)?;
        walk.documents(source, plan, query, counters, &mut |row, document| {
            if *to_skip > 0 {
                *to_skip -= 1;
                return Ok(Flow::Continue(()));
            }
            returned += 1;
            let flow = take(match &returns {
                None => project(query.projection.as_ref(), document)?,
                Some(returns) => returns.finish(query, &returns.with_row(document, row))?,
            });
            Ok(if query.limit > 0 && returned >= query.limit { Flow::Break(()) } else { flow })
        })?;
        counters.returned = returned;
        evict_if_misestimated(context, plan, counters);
        Ok(!walk.done && (query.limit == 0 || returned < query.limit))
    }

    /// Passes references to the remaining documents to `visit` until it returns `Break`. Without a projection
    /// or a sort in memory the documents are not copied.
    /// True if there may be more.
    ///
    /// # Errors
    /// As [`Self::run`], and the errors of `visit`.
    pub fn lend(
        &mut self,
        source: &dyn Source,
        context: &QueryContext<'_>,
        visit: &mut dyn FnMut(&RawDocument) -> Result<Flow>,
    ) -> Result<bool> {
        if self.plan.sort_in_memory
            || self.query.projection.is_some()
            || self.query.returns != Returns::default()
        {
            let mut failed = None;
            let more = self.run(source, context, &mut |document| {
                visit(&document).unwrap_or_else(|error| {
                    failed = Some(error);
                    Flow::Break(())
                })
            })?;
            return failed.map_or(Ok(more), Err);
        }
        let Execution { query, plan, walk, to_skip, counters, .. } = self;
        if query.limit > 0 && counters.returned >= query.limit {
            return Ok(false);
        }
        let mut returned = counters.returned;
        walk.documents(source, plan, query, counters, &mut |_, document| {
            if *to_skip > 0 {
                *to_skip -= 1;
                return Ok(Flow::Continue(()));
            }
            returned += 1;
            let flow = visit(document)?;
            Ok(if query.limit > 0 && returned >= query.limit { Flow::Break(()) } else { flow })
        })?;
        counters.returned = returned;
        evict_if_misestimated(context, plan, counters);
        Ok(!walk.done && (query.limit == 0 || returned < query.limit))
    }

    /// Sets the memory limit of a sort, in bytes.
    pub fn with_sort_memory(self, bytes: usize) -> Self {
        Execution { sort_memory: bytes, ..self }
    }

    fn run_sorted(
        &mut self,
        source: &dyn Source,
        context: &QueryContext<'_>,
        take: &mut dyn FnMut(RawDocumentBuf) -> Flow,
    ) -> Result<bool> {
        let mut sorted = match self.sorted.take() {
            Some(sorted) => sorted,
            None => self.sort(source, context)?,
        };
        let Execution { query, plan, counters, .. } = self;
        let returns = ReturnedDocument::of(source, plan, query)?;
        let wanted = |returned: u64| query.limit == 0 || returned < query.limit;
        while wanted(counters.returned)
            && let Some(document) = sorted.next()?
        {
            counters.returned += 1;
            let document = match &returns {
                None => project(query.projection.as_ref(), &document)?,
                Some(returns) => returns.finish(query, &document)?,
            };
            if take(document) == Flow::Break(()) {
                break;
            }
        }
        let more = wanted(counters.returned) && !sorted.is_empty();
        self.sorted = Some(sorted);
        Ok(more)
    }

    /// The sorted result, with the skipped documents removed.
    fn sort(&mut self, source: &dyn Source, context: &QueryContext<'_>) -> Result<SortedRuns> {
        let mut runs = match self.first(source, context, &mut || Ok(()))? {
            Some(first) => {
                let mut runs = SortedRuns::default();
                runs.add_in_memory(first)?;
                runs
            }
            None => self.sort_all(source, context)?,
        };
        for _ in 0..self.query.skip {
            if runs.next()?.is_none() {
                break;
            }
        }
        Ok(runs)
    }

    /// The first documents of the result with their sort keys, sorted, including the documents to skip.
    /// `None` if there is no limit, if they do not fit in memory, or if the plan covers the query. `tick` is
    /// called regularly and may fail.
    ///
    /// # Errors
    /// As [`Self::run`], and the errors of `tick`.
    pub fn first(
        &mut self,
        source: &dyn Source,
        context: &QueryContext<'_>,
        tick: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Option<Vec<KeyedDocument>>> {
        let Execution { query, plan, walk, counters, sort_memory, .. } = self;
        // A covered plan does not fetch rows; and what is returned beside the document is not in its row.
        if query.limit == 0 || plan.covered().is_some() || query.returns != Returns::default() {
            return Ok(None);
        }
        let Some(mut top) = TopK::new(query, *sort_memory) else { return Ok(None) };
        let (begun, mut number, mut fits) = (*counters, 0_u64, true);
        let mut offer = |id: RowId, row: &mut dyn Row| {
            number += 1;
            if number.is_multiple_of(TICK_INTERVAL) {
                tick()?;
            }
            fits = top.offer(id, number, row)?;
            Ok(if fits { Flow::Continue(()) } else { Flow::Break(()) })
        };
        match &plan.path {
            Path::CollectionScan => {
                let direction = if plan.backward { Direction::Backward } else { Direction::Forward };
                source.scan_rows(direction, None, &mut offer)?;
                counters.docs_examined += number;
            }
            _ => {
                walk.run(source, plan, &Filter::all(), counters, RowContent::Row, &mut |id, row| match row {
                    Some(row) => offer(id, row),
                    None => Ok(Flow::Continue(())),
                })?
            }
        }
        let found = if fits { top.documents(source, *sort_memory)? } else { None };
        match &found {
            Some(_) => evict_if_misestimated(context, plan, counters),
            None => (*walk, *counters) = (Walk::default(), begun),
        }
        Ok(found)
    }

    /// Sorts all documents; what exceeds the memory limit is spilled to temporary files.
    fn sort_all(&mut self, source: &dyn Source, context: &QueryContext<'_>) -> Result<SortedRuns> {
        let Execution { query, plan, walk, counters, sort_memory, .. } = self;
        let mut runs = SortedRuns::default();
        let Some(sort) = &query.sort else { return Ok(runs) };
        let (mut all, mut bytes, keep) = (Vec::<KeyedDocument>::new(), 0_usize, query.wanted());
        // The sort is stable: documents with equal keys stay in the order in which they were found.
        let sort_by_key = |all: &mut Vec<KeyedDocument>| all.sort_by(|a, b| a.0.cmp(&b.0));
        let returns = ReturnedDocument::of(source, plan, query)?;
        walk.documents(source, plan, query, counters, &mut |row, document| {
            let key = sort.key(document)?;
            bytes += memory_size(&key, document);
            let kept = returns.as_ref().map_or_else(|| document.to_owned(), |returns| returns.with_row(document, row));
            all.push((key, kept));
            // From time to time, documents that cannot be among the first are dropped.
            if all.len() / 2 > keep.saturating_add(SORT_SLACK) {
                sort_by_key(&mut all);
                all.truncate(keep);
                bytes = all.iter().map(|(key, document)| memory_size(key, document)).sum();
            }
            if bytes > *sort_memory {
                let file = if query.spill { context.temp_file()? } else { None };
                let Some(file) = file else {
                    return Err(QueryError::new(
                        ErrorCode::QueryExceededMemoryLimitNoDiskUseAllowed,
                        format!(
                            "Sort exceeded memory limit of {sort_memory} bytes, but did not opt in to external sorting: \
                             add an index on the sort's fields or a limit, or pass allowDiskUse: true"
                        ),
                    ));
                };
                sort_by_key(&mut all);
                runs.spill(all.drain(..), file)?;
                bytes = 0;
            }
            Ok(Flow::Continue(()))
        })?;
        evict_if_misestimated(context, plan, counters);
        sort_by_key(&mut all);
        runs.add_in_memory(all)?;
        Ok(runs)
    }
}

/// Applies `projection` to a document; without one the whole document is returned.
pub fn project(projection: Option<&Projection>, document: &RawDocument) -> Result<RawDocumentBuf> {
    match projection {
        Some(projection) => projection.apply(document),
        None => Ok(document.to_owned()),
    }
}
