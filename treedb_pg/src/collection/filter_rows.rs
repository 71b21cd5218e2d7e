//! `WHERE doc @@ filter`: the rows that the indexes of a table lead to, in a scan of the server's plan.
//!
//! Indexes only narrow the search: the server's plan evaluates `@@` on each row, after the conditions that come before it,
//! unless the keys of the index have decided it. So row security holds: of a row that a policy hides nothing is read but
//! the bytes of its keys.

use std::ffi::CStr;

use treedb_query::access::RowId;
use treedb_query::query::explain::{self, Wanted};
use treedb_query::query::{Filter, Plan, Query, RowCandidates};

use super::estimate;
use super::reader::{Reader, address};
use super::spill::spilling;
use super::table::Table;
use crate::shim::catalog;
use crate::shim::datum::Datum;
use crate::shim::error::accept;
use crate::shim::filter_scan::{FilteredRows, Given, Scanned};
use crate::shim::snapshot::{Registered, Snapshot};
use crate::shim::streamed::{Argument, Estimate, Explanation};
use crate::shim::table::Slot;
use crate::shim::text;
use crate::types::bson;

use super::find_stream::show_document;

/// Rows of the first batch.
const FIRST: usize = 64;
/// Most rows of a batch.
const MOST: usize = 4096;

/// A scan that is being executed.
pub(crate) struct FilterRows {
    reader: Reader,
    candidates: RowCandidates,
    batch: Vec<RowId>,
    /// How many rows of the batch have been looked at.
    taken: usize,
    /// How many rows the next batch has.
    size: usize,
    /// Whether there may be another batch.
    more: bool,
    /// Entries of indexes visited for earlier filters.
    keys_before: u64,
}

/// The query of a filter.
fn query(filter: Datum<'_>) -> treedb_query::query::Result<Query> {
    Filter::parse(bson::document(&filter.bytes())).map(Query::new)
}

fn candidates(reader: &Reader, query: Query) -> RowCandidates {
    accept(RowCandidates::new(reader, &spilling(), query))
}

impl FilteredRows for FilterRows {
    const NODE: &'static CStr = c"TreeDB Filter";
    const COLUMN: &'static CStr = c"doc";
    const LABEL: &'static CStr = c"Document Filter";

    fn estimate(table: Scanned, filter: &Argument<'_>) -> Option<Estimate> {
        estimate::filter(table, filter)
    }

    fn share(table: Scanned, filter: &Argument<'_>) -> Option<f64> {
        estimate::share(table, filter)
    }

    fn open(table: Scanned, filter: Datum<'_>, snapshot: Snapshot<'_>) -> Self {
        let query = accept(query(filter));
        let reader = Reader::for_query(Table::of_plan(table), Registered::of(snapshot), &query);
        let candidates = candidates(&reader, query);
        FilterRows {
            reader,
            candidates,
            batch: Vec::new(),
            taken: 0,
            size: FIRST,
            more: true,
            keys_before: 0,
        }
    }

    fn reopen(&mut self, filter: Datum<'_>) {
        // Nothing is read after an error.
        (self.taken, self.size, self.more) = (0, FIRST, false);
        self.batch.clear();
        if *self.candidates.query().filter.source().as_bytes() == *filter.bytes() {
            self.candidates.rewind();
        } else {
            self.keys_before += self.candidates.keys_examined();
            let query = accept(query(filter));
            self.reader.open_for(&query);
            self.candidates = candidates(&self.reader, query);
        }
        self.more = true;
    }

    fn finds_matches(&self) -> bool {
        self.candidates.are_matches(&self.reader)
    }

    fn slot(&self) -> Slot {
        Slot::new(self.reader.table.relation.get())
    }

    fn next(&mut self, slot: &mut Slot) -> bool {
        loop {
            while let Some(row) = self.batch.get(self.taken) {
                self.taken += 1;
                if self.reader.read(address(*row), slot) {
                    return true;
                }
            }
            if !self.more {
                return false;
            }
            self.batch.clear();
            (self.taken, self.more) = (0, false);
            let size = self.size;
            self.size = size.saturating_mul(8).min(MOST);
            self.more = accept(self.candidates.next(&self.reader, size, &mut self.batch));
        }
    }

    fn explain(running: Option<&Self>, given: &Given<'_>, shown: &mut Explanation<'_>) {
        show_document(&given.filter, shown, Self::LABEL);
        let plan = match running {
            Some(rows) => Some(stages(&rows.reader, rows.candidates.query(), rows.candidates.plan())),
            None => planned(given),
        };
        if let Some(plan) = plan {
            shown.text(c"Plan", &text::owned_cstring(&plan));
        }
        // How many hidden rows match is nothing that the user may know.
        if shown.is_analyze() && !catalog::hides_rows(given.table.table) {
            let keys = running.map_or(0, |rows| rows.keys_before + rows.candidates.keys_examined());
            shown.number(c"Keys Examined", keys);
        }
    }
}

/// The plan of a scan that has not been executed, if its filter is a constant.
fn planned(given: &Given<'_>) -> Option<String> {
    let query = query(given.filter.constant()?).ok()?;
    let reader = Reader::new(Table::of_plan(given.table));
    let plan = Plan::choose(&reader, &spilling(), &query).ok()?;
    Some(stages(&reader, &query, &plan))
}

/// Where rows come from, on one line. What is done with them is the server's part of the plan.
fn stages(reader: &Reader, query: &Query, plan: &Plan) -> String {
    explain::one_line(&explain::stages(reader, query, plan, Wanted::Documents))
}
