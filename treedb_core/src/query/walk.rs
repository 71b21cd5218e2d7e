//! Walking rows or index entries and showing those that match.

use std::collections::HashSet;

use bson::RawDocument;

use crate::access::{Flow, Row, RowId, Source, Way};
use crate::code::Result;

use super::exec::Counters;
use super::filter::Filter;
use super::plan::{Path, Plan, Room, Truth};

/// The place of a walk between two batches.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// The range that is being walked.
    range: usize,
    /// The entry or row that was looked at last.
    last_key: Vec<u8>,
    last_row: Option<RowId>,
    /// Rows met already, where a row can be met twice.
    seen: HashSet<RowId>,
    /// There is nothing behind it.
    pub(super) done: bool,
    room: Room,
}

/// What a walk shows of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Show {
    /// Where it is.
    Rows,
    /// Its document.
    Documents,
}

impl Show {
    fn of(self, row: &mut dyn Row) -> Result<Option<&RawDocument>> {
        match self {
            Show::Rows => Ok(None),
            Show::Documents => row.document().map(Some),
        }
    }
}

/// What is shown of each matching row.
pub(super) type VisitMatch<'a> = dyn FnMut(RowId, Option<&RawDocument>) -> Result<Flow> + 'a;

impl Walk {
    /// [`Walk::run`] for those who want the documents.
    pub(super) fn documents(
        &mut self,
        source: &dyn Source,
        plan: &Plan,
        filter: &Filter,
        counters: &mut Counters,
        visit: &mut dyn FnMut(&RawDocument) -> Result<Flow>,
    ) -> Result<()> {
        self.run(source, plan, filter, counters, Show::Documents, &mut |_, document| match document {
            Some(document) => visit(document),
            None => Ok(Flow::Continue(())),
        })
    }

    /// Shows `visit` the matching rows from the place of the last call on, in the plan's order, until it says stop.
    pub(super) fn run(
        &mut self,
        source: &dyn Source,
        plan: &Plan,
        filter: &Filter,
        counters: &mut Counters,
        show: Show,
        visit: &mut VisitMatch<'_>,
    ) -> Result<()> {
        match &plan.path {
            Path::Nothing => self.done = true,
            Path::Rows => self.rows(source, filter, counters, show, visit)?,
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
        filter: &Filter,
        counters: &mut Counters,
        show: Show,
        visit: &mut VisitMatch<'_>,
    ) -> Result<()> {
        let mut stopped = false;
        let last = &mut self.last_row;
        source.scan_rows(Way::Forward, *last, &mut |id, row| {
            counters.docs_examined += 1;
            *last = Some(id);
            if filter.admits(row)? && visit(id, show.of(row)?)? == Flow::Break(()) {
                stopped = true;
                return Ok(Flow::Break(()));
            }
            Ok(Flow::Continue(()))
        })?;
        self.done = !stopped;
        Ok(())
    }

    /// The rest of the range that the walk is in.
    fn index(
        &mut self,
        source: &dyn Source,
        plan: &Plan,
        filter: &Filter,
        counters: &mut Counters,
        show: Show,
        visit: &mut VisitMatch<'_>,
    ) -> Result<Flow> {
        let Path::Index { index, ranges, way, distinct, keys, .. } = &plan.path else {
            return Ok(Flow::Continue(()));
        };
        let Walk { range, last_key, last_row, seen, room, .. } = self;
        let Some(range) = ranges.get(*range) else { return Ok(Flow::Continue(())) };
        let complete = keys.complete && source.entries_are_exact();
        let from = last_row.map(|row| (last_key.clone(), row));
        let after = from.as_ref().map(|(key, row)| (key.as_slice(), *row));
        let mut ended = Flow::Continue(());
        source.index_range(*index, range, *way, after, &mut |row, key| {
            counters.keys_examined += 1;
            let truth = keys.test.as_ref().map_or(Truth::Yes, |test| test.check(key, room));
            if truth == Truth::No || !*distinct && !seen.insert(row) {
                return Ok(Flow::Continue(()));
            }
            let known = complete && truth == Truth::Yes;
            let mut flow = Flow::Continue(());
            if known && show == Show::Rows {
                flow = visit(row, None)?;
            } else {
                source.fetch_row(row, &mut |found| {
                    counters.docs_examined += 1;
                    if known || filter.admits(found)? {
                        flow = visit(row, show.of(found)?)?;
                    }
                    Ok(())
                })?;
            }
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
}
