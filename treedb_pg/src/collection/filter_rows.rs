//! `WHERE doc @@ filter`: the rows that the indexes of a table lead to, in a scan of the server's plan.
//!
//! Indexes only narrow the search: the server's plan evaluates `@@` on each row, after the conditions that come before it,
//! unless the keys of the index have decided it. So row security holds: of a row that a policy hides nothing is read but
//! the bytes of its keys.

use std::ffi::CStr;
use std::rc::Rc;

use treedb_query::access::{Flow, RowId};
use treedb_query::query::{Filter, Plan, Query, RowCandidates};

use super::estimate;
use super::ordered_rows::{self, OrderedRows};
use super::point_scan::{PointFilter, PointScan};
use super::reader::{Reader, address};
use super::shown_plan::ShownPlan;
use super::spill::spilling;
use super::table::Table;
use crate::shim::catalog;
use crate::shim::datum::Datum;
use crate::shim::error::accept;
use crate::shim::filter_scan::{FilteredRows, Given, PathNames, Scanned, SearchedBy, ValueStatistics};
use crate::shim::heap;
use crate::shim::relation::OpenTable;
use crate::shim::row_claims::RowClaims;
use crate::shim::row_order::RowOrder;
use crate::shim::snapshot::Registered;
use crate::shim::streamed::{Argument, Estimate, Explanation};
use crate::shim::table::Slot;
use crate::shim::text;
use crate::shim::value_condition::{ValueFunction, Wanted};
use crate::types::{bson, implied, value_range};

use super::find_stream::show_document;

/// Rows of the first batch.
const FIRST: usize = 64;
/// Most rows of a batch.
const MOST: usize = 4096;

/// A scan that is being executed.
pub(crate) struct FilterRows {
    reader: Reader,
    search: Search,
    order: Option<RowOrder>,
    batch: Vec<RowId>,
    /// How many rows of the batch have been looked at.
    taken: usize,
    /// How many rows the next batch has.
    size: usize,
    /// Whether there may be another batch.
    more: bool,
    /// Entries of indexes visited for earlier filters.
    keys_before: u64,
    /// Which rows are returned, if other processes return the others.
    claims: Option<RowClaims>,
    /// Entries that all processes have visited, once they are done.
    keys_of_all: Option<u64>,
}

/// How rows are found.
enum Search {
    /// By one key of an index.
    Point(PointScan),
    /// As the planner says.
    Plan(Box<RowCandidates>),
    /// In an order.
    Ordered(Box<OrderedRows>),
}

impl Search {
    /// Begins a search of the table that `reader` reads.
    fn begin(reader: &mut Reader, filter: Datum<'_>, order: Option<&RowOrder>) -> Search {
        let bytes = filter.bytes();
        let filter = bson::document(&bytes);
        if let Some(order) = order {
            return Search::Ordered(Box::new(OrderedRows::begin(reader, filter, order)));
        }
        if let Some(scan) = PointFilter::of(filter).and_then(|point| point.scan(reader)) {
            return Search::Point(scan);
        }
        let query = accept(Filter::parse(filter).map(Query::new));
        reader.open_for(&query);
        Search::Plan(Box::new(accept(RowCandidates::new(reader, &spilling(), query))))
    }

    /// The bytes of the filter.
    fn filter(&self) -> &[u8] {
        match self {
            Search::Point(scan) => scan.filter(),
            Search::Plan(candidates) => candidates.query().filter.source().as_bytes(),
            Search::Ordered(rows) => rows.filter(),
        }
    }

    /// Begins again with the first row.
    fn rewind(&mut self) {
        match self {
            Search::Point(scan) => scan.rewind(),
            Search::Plan(candidates) => candidates.rewind(),
            Search::Ordered(rows) => rows.rewind(),
        }
    }

    /// Entries of indexes visited so far.
    fn keys_examined(&self) -> u64 {
        match self {
            Search::Point(scan) => scan.counters().keys_examined,
            Search::Plan(candidates) => candidates.keys_examined(),
            Search::Ordered(rows) => rows.keys_examined(),
        }
    }

    /// Adds the next rows to `found`, about `most`. True if there may be more.
    fn next(&mut self, reader: &Reader, most: usize, found: &mut Vec<RowId>) -> bool {
        accept(match self {
            Search::Point(scan) => scan.rows(reader, &mut |row| {
                found.push(row);
                Ok(if found.len() < most { Flow::Continue(()) } else { Flow::Break(()) })
            }),
            Search::Plan(candidates) => candidates.next(reader, most, found),
            Search::Ordered(rows) => rows.next(reader, most, found),
        })
    }

    /// Whether a row that was found last time, and that the snapshot shows, is one to be returned.
    fn takes(&self, reader: &Reader, slot: &Slot) -> bool {
        reader.has_document(slot)
            && match self {
                Search::Point(_) | Search::Plan(_) => true,
                Search::Ordered(rows) => rows.takes(reader, slot),
            }
    }

    /// How many rows the first batch has.
    fn first_batch(&self) -> usize {
        match self {
            Search::Point(_) | Search::Plan(_) => FIRST,
            Search::Ordered(rows) => rows.wanted().clamp(1, FIRST),
        }
    }
}

impl FilteredRows for FilterRows {
    const NODE: &'static CStr = c"TreeDB Filter";
    const COLUMN: &'static CStr = c"doc";
    const VALUES: &'static [ValueFunction] = value_range::VALUES;
    const LABEL: &'static CStr = c"Document Filter";

    fn filter_of_values(path: &[u8], wanted: &[Wanted]) -> Option<Vec<u8>> {
        value_range::filter_of_values(path, wanted)
    }

    fn filter_of_presence(path: &[u8]) -> Vec<u8> {
        implied::presence(&text::to_utf8(path))
    }

    fn filter_of_all(filters: &[&[u8]]) -> Vec<u8> {
        value_range::filter_of_all(filters)
    }

    fn estimate(
        table: Scanned,
        filter: &Argument<'_>,
        exact: bool,
        order: Option<&RowOrder>,
    ) -> Option<Estimate> {
        match order {
            None => estimate::filter(table, filter, exact),
            Some(order) => estimate::ordered_filter(table, filter, order),
        }
    }

    fn fields_of_indexes(table: Scanned, paths: PathNames<'_>) -> Vec<Vec<usize>> {
        estimate::fields_of_indexes(table, paths)
    }

    fn searched_by(table: Scanned, filter: &[u8], known: &[u8], paths: PathNames<'_>) -> Rc<[SearchedBy]> {
        estimate::searched_by(table, filter, known, paths)
    }

    fn estimate_unknown(blocks: f64, keys: f64, rows: f64) -> Estimate {
        estimate::unknown_values(blocks, keys, rows)
    }

    fn share(table: Scanned, filter: &Argument<'_>, exact: bool) -> Option<f64> {
        estimate::share(table, filter, exact)
    }

    fn statistics(table: Scanned, path: &[u8]) -> Option<ValueStatistics> {
        estimate::value_statistics(table, path)
    }

    fn open(
        table: OpenTable,
        column: i16,
        filter: Datum<'_>,
        order: Option<RowOrder>,
        snapshot: Registered,
    ) -> Self {
        let mut reader = Reader::without_indexes(Table { relation: table, doc: column }, snapshot);
        let search = Search::begin(&mut reader, filter, order.as_ref());
        let size = search.first_batch();
        FilterRows {
            reader,
            search,
            order,
            batch: Vec::new(),
            taken: 0,
            size,
            more: true,
            keys_before: 0,
            claims: None,
            keys_of_all: None,
        }
    }

    fn divide(&mut self, claims: Option<RowClaims>) {
        if let (Some(claims), None) = (self.claims, claims) {
            self.keys_of_all = Some(claims.keys());
        }
        self.claims = claims;
    }

    fn reopen(&mut self, filter: Datum<'_>) {
        // Nothing is read after an error.
        (self.taken, self.more) = (0, false);
        self.batch.clear();
        if *self.search.filter() == *filter.bytes() {
            self.search.rewind();
        } else {
            self.keys_before += self.search.keys_examined();
            self.reader.ensure_slot();
            self.search = Search::begin(&mut self.reader, filter, self.order.as_ref());
        }
        self.size = self.search.first_batch();
        self.more = true;
    }

    fn finds_matches(&self) -> bool {
        match &self.search {
            Search::Point(_) => true,
            Search::Plan(candidates) => candidates.are_matches(&self.reader),
            Search::Ordered(rows) => rows.are_matches(&self.reader),
        }
    }

    fn slot(&mut self) -> Slot {
        let lent = match self.search {
            // No row is fetched for this one.
            Search::Point(_) => self.reader.lend_slot(),
            Search::Plan(_) | Search::Ordered(_) => None,
        };
        lent.unwrap_or_else(|| Slot::new(self.reader.table.relation.get()))
    }

    fn next(&mut self, slot: &mut Slot) -> bool {
        loop {
            while let Some(row) = self.batch.get(self.taken) {
                self.taken += 1;
                let address = address(*row);
                let (block, _) = heap::tid_parts(address);
                if self.claims.is_none_or(|claims| claims.claim(block))
                    && self.reader.read(address, slot)
                    && self.search.takes(&self.reader, slot)
                {
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
            let before = self.search.keys_examined();
            self.more = self.search.next(&self.reader, size, &mut self.batch);
            if let Some(claims) = self.claims {
                claims.add_keys(self.search.keys_examined() - before);
            }
        }
    }

    fn is_done(&self) -> bool {
        !self.more && self.taken >= self.batch.len()
    }

    fn explain(running: Option<&Self>, given: &Given<'_>, shown: &mut Explanation<'_>) {
        show_document(&given.filter, shown, Self::LABEL);
        if let Some((_, sql)) = &given.order {
            shown.text(c"Order By", sql);
        }
        let plan = match running {
            Some(FilterRows { reader, search: Search::Point(scan), .. }) => {
                Some(ShownPlan::of_point(reader, scan))
            }
            Some(FilterRows { reader, search: Search::Plan(candidates), .. }) => {
                Some(ShownPlan::of(reader, candidates.query(), candidates.plan()))
            }
            Some(FilterRows { reader, search: Search::Ordered(rows), .. }) => rows.shown(reader),
            None => planned(given),
        };
        if let Some(plan) = plan {
            plan.show(shown);
        }
        // How many hidden rows match is nothing that the user may know.
        if shown.is_analyze() && !catalog::hides_rows(given.table.table) {
            let keys = running.map_or(0, |rows| {
                rows.keys_of_all.unwrap_or_else(|| rows.keys_before + rows.search.keys_examined())
            });
            shown.number(c"Keys Examined", keys);
        }
    }
}

/// The plan of a scan that has not been executed, if its filter is a constant.
fn planned(given: &Given<'_>) -> Option<ShownPlan> {
    let bytes = given.filter.constant()?.bytes();
    let query = Query::new(Filter::parse(bson::document(&bytes)).ok()?);
    let reader = Reader::for_estimate(Table::of_plan(given.table));
    if let Some((order, _)) = &given.order {
        return ordered_rows::planned(&reader, query, order);
    }
    let plan = Plan::choose(&reader, &spilling(), &query).ok()?;
    Some(ShownPlan::of(&reader, &query, &plan))
}
