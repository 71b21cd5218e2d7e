//! [`Walk`]: visits the rows that a plan finds and that match the filter.

use std::collections::HashSet;

use bson::RawDocument;

use crate::access::{Direction, Flow, Row, RowId, Source};
use crate::error::Result;

use crate::query::filter::Filter;
use crate::query::interrupt::InterruptTick;
use crate::query::plan::{BitmapScan, KeyMatch, Path, Plan, SplitKey};
use crate::query::{Counters, Query};
use crate::query::{MatchRate, UsedFields};

use super::bitmap::{BitmapResult, Wanted};
use super::near::NearWalk;
use super::row_set::{RowIter, RowSet};

/// A walk and its position between two batches.
#[derive(Debug, Default)]
pub(in crate::query) struct Walk {
    /// Position of the current range.
    range: usize,
    /// The last entry or row visited.
    last_key: Vec<u8>,
    last_row: Option<RowId>,
    /// Rows already visited, if a row can be found twice.
    seen: HashSet<RowId>,
    /// The position of a search by distance.
    near: NearWalk,
    /// True if there are no more rows.
    pub(in crate::query) done: bool,
    split: SplitKey,
    tally: MatchRate,
    /// The remaining rows of a bitmap plan, once the bitmaps are built.
    sets: Option<RemainingRows>,
}

/// Rows of a bitmap that have not been visited.
#[derive(Debug)]
struct RemainingRows {
    rows: RowIter,
    /// The rows among them that need no recheck.
    exact: RowSet,
    /// Whether the snapshot is known to show those.
    shown: bool,
}

/// What a scan passes to its callback for each matching row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::query) enum RowContent<'f> {
    /// Its id.
    RowIds,
    /// Its document.
    Documents,
    /// At least these fields of its document.
    Fields(&'f UsedFields),
    /// The row itself, not decoded.
    Row,
}

impl RowContent<'_> {
    fn row(self, id: RowId, row: &mut dyn Row, visit: &mut VisitMatch<'_>) -> Result<Flow> {
        match self {
            RowContent::RowIds => visit(id, None),
            RowContent::Documents => visit(id, Some(&mut row.document()?)),
            RowContent::Fields(used) => visit(id, Some(&mut row.partial_document(used.fields())?)),
            RowContent::Row => visit(id, Some(row)),
        }
    }
}

/// The callback of a walk.
pub(in crate::query) type VisitMatch<'a> = dyn FnMut(RowId, Option<&mut dyn Row>) -> Result<Flow> + 'a;

impl Walk {
    /// [`Walk::run`] with documents.
    pub(in crate::query) fn documents(
        &mut self,
        source: &dyn Source,
        plan: &Plan,
        query: &Query,
        counters: &mut Counters,
        visit: &mut dyn FnMut(RowId, &RawDocument) -> Result<Flow>,
    ) -> Result<()> {
        let show = query.used.as_ref().map_or(RowContent::Documents, RowContent::Fields);
        self.run(source, plan, &query.filter, counters, show, &mut |id, row| match row {
            Some(row) => visit(id, row.document()?),
            None => Ok(Flow::Continue(())),
        })
    }

    /// Passes the matching rows to `visit` in the order of the plan, starting after the last row of the
    /// previous call, until it breaks.
    pub(in crate::query) fn run(
        &mut self,
        source: &dyn Source,
        plan: &Plan,
        filter: &Filter,
        counters: &mut Counters,
        show: RowContent<'_>,
        visit: &mut VisitMatch<'_>,
    ) -> Result<()> {
        match &plan.path {
            Path::Empty => self.done = true,
            Path::CollectionScan => {
                let direction = if plan.backward { Direction::Backward } else { Direction::Forward };
                self.rows(source, direction, filter, counters, show, visit)?
            }
            Path::Bitmap(set) => self.bitmap(source, set, filter, counters, show, visit)?,
            Path::Near(search) => {
                while let Some(row) = self.near.next(source, search, filter, counters)? {
                    let flow = match show {
                        RowContent::RowIds => visit(row, None)?,
                        _ => fetched(source, row, None, show, &mut Counters::default(), visit)?,
                    };
                    if flow == Flow::Break(()) {
                        return Ok(());
                    }
                }
                self.done = true;
            }
            Path::Index { ranges, .. } => {
                while self.range < ranges.len() {
                    if self.index(source, plan, filter, counters, show, visit)? == Flow::Break(()) {
                        return Ok(());
                    }
                    self.range += 1;
                    self.last_row = None;
                }
                self.done = true;
            }
        }
        Ok(())
    }

    fn rows(
        &mut self,
        source: &dyn Source,
        direction: Direction,
        filter: &Filter,
        counters: &mut Counters,
        show: RowContent<'_>,
        visit: &mut VisitMatch<'_>,
    ) -> Result<()> {
        let mut stopped = false;
        let Walk { last_row: last, tally, .. } = self;
        let mut interrupt = InterruptTick::default();
        source.scan_rows(direction, *last, &mut |id, row| {
            interrupt.tick()?;
            counters.docs_examined += 1;
            *last = Some(id);
            let flow = match show {
                RowContent::Fields(used) => match used.of(filter, row, tally)? {
                    Some(mut part) => visit(id, Some(&mut part))?,
                    None => Flow::Continue(()),
                },
                _ if filter.admits(row)? => show.row(id, row, visit)?,
                _ => Flow::Continue(()),
            };
            if flow == Flow::Break(()) {
                stopped = true;
                return Ok(Flow::Break(()));
            }
            Ok(Flow::Continue(()))
        })?;
        self.done = !stopped;
        Ok(())
    }

    /// Scans the rest of the current range of an index.
    fn index(
        &mut self,
        source: &dyn Source,
        plan: &Plan,
        filter: &Filter,
        counters: &mut Counters,
        show: RowContent<'_>,
        visit: &mut VisitMatch<'_>,
    ) -> Result<Flow> {
        let Path::Index { index, ranges, direction, distinct, keys, .. } = &plan.path else {
            return Ok(Flow::Continue(()));
        };
        let Walk { range, last_key, last_row, seen, split, .. } = self;
        let Some(range) = ranges.get(*range) else { return Ok(Flow::Continue(())) };
        let exact = source.entries_are_exact();
        let decided = keys.complete && (exact || source.keys_decide(*index));
        let from = last_row.map(|row| (last_key.clone(), row));
        let after = from.as_ref().map(|(key, row)| (key.as_slice(), *row));
        let (mut ended, mut interrupt) = (Flow::Continue(()), InterruptTick::default());
        let cover = if show == RowContent::Documents && decided { plan.covered() } else { None };
        if keys.test.is_none() && cover.is_none() {
            let key = source.index_rows(*index, range, *direction, after, &mut |row| {
                interrupt.tick()?;
                counters.keys_examined += 1;
                if !*distinct && !seen.insert(row) {
                    return Ok(Flow::Continue(()));
                }
                let flow = if decided && show == RowContent::RowIds {
                    if exact || source.shows(row)? { visit(row, None)? } else { Flow::Continue(()) }
                } else {
                    fetched(source, row, (!decided).then_some(filter), show, counters, visit)?
                };
                if flow == Flow::Break(()) {
                    ended = flow;
                    *last_row = Some(row);
                }
                Ok(flow)
            })?;
            if let Some(key) = key {
                *last_key = key;
            }
            return Ok(ended);
        }
        source.index_range_typed(*index, range, *direction, after, &mut |row, key, type_bits| {
            interrupt.tick()?;
            counters.keys_examined += 1;
            let truth = keys.test.as_ref().map_or(KeyMatch::Yes, |test| test.check(key, split));
            if truth == KeyMatch::No || !*distinct && !seen.insert(row) {
                return Ok(Flow::Continue(()));
            }
            let known = decided && truth == KeyMatch::Yes;
            let flow = if known && show == RowContent::RowIds {
                if exact || source.shows(row)? { visit(row, None)? } else { Flow::Continue(()) }
            } else if known
                && let Some(cover) = cover
                && let Some(document) = cover.document(key, type_bits, split)
            {
                if exact || source.shows(row)? {
                    visit(row, Some(&mut &*document))?
                } else {
                    Flow::Continue(())
                }
            } else {
                fetched(source, row, (!known).then_some(filter), show, counters, visit)?
            };
            if flow == Flow::Break(()) {
                ended = flow;
                last_key.clear();
                last_key.extend_from_slice(key);
                *last_row = Some(row);
            }
            Ok(flow)
        })?;
        Ok(ended)
    }

    /// Visits the remaining rows of a bitmap scan.
    fn bitmap(
        &mut self,
        source: &dyn Source,
        set: &BitmapScan,
        filter: &Filter,
        counters: &mut Counters,
        show: RowContent,
        visit: &mut VisitMatch<'_>,
    ) -> Result<()> {
        let left = match &mut self.sets {
            Some(left) => left,
            None => {
                let wanted = if show == RowContent::RowIds { Wanted::Shown } else { Wanted::Candidates };
                let BitmapResult { recheck, exact, shown } =
                    BitmapResult::of(source, set, wanted, counters, &mut self.split)?;
                let rows = recheck.union(exact.clone()).into_iter();
                self.sets.insert(RemainingRows { rows, exact, shown })
            }
        };
        let shown = left.shown || source.entries_are_exact();
        for row in left.rows.by_ref() {
            let known = left.exact.contains(row);
            let flow = if known && show == RowContent::RowIds && shown {
                visit(row, None)?
            } else {
                fetched(source, row, (!known).then_some(filter), show, counters, visit)?
            };
            if flow == Flow::Break(()) {
                return Ok(());
            }
        }
        self.done = true;
        Ok(())
    }
}

/// Fetches a row and passes it to `visit` if it matches `filter`; without one, every row matches.
fn fetched(
    source: &dyn Source,
    row: RowId,
    filter: Option<&Filter>,
    show: RowContent,
    counters: &mut Counters,
    visit: &mut VisitMatch<'_>,
) -> Result<Flow> {
    let mut flow = Flow::Continue(());
    source.fetch_row(row, &mut |found| {
        counters.docs_examined += 1;
        if filter.map_or(Ok(true), |filter| filter.admits(found))? {
            flow = show.row(row, found, visit)?;
        }
        Ok(())
    })?;
    Ok(flow)
}
