//! Reading rows by distance, as many as the executor asks for.
//!
//! A search keeps `treedb.hnsw_ef_search` nodes. Where nodes do not have their vectors, they are found by codes of 8 bits;
//! before a row is returned, it and those that come next are compared by their vectors, so that rows are found in exact
//! order, except where the codes badly misplace a row. When all nodes of a search have been returned, it goes on to as many more, until it has seen the whole
//! graph. So a query whose conditions keep few rows still gets as many as it asks for, as long as there are some. Once
//! `treedb.hnsw_max_scan_tuples` nodes have been compared, it goes no further, and only returns those that it has met.
//!
//! A row that is found after a farther one has been returned is left out, unless `treedb.hnsw_strict_order` is off.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

use pgrx::pg_sys;
use treedb_vector::code::{self, Coded, Factors};
use treedb_vector::graph::{Hashed, Scratch, search_first, search_on};

use super::graph::{Graph, Query, Rows};
use super::meta::Meta;
use super::value;
use crate::shim::distance_method::Target;
use crate::shim::error::{SqlState, fail};
use crate::shim::relation::Index;
use crate::shim::setting::{Number, Switch};

static EF_SEARCH: Number = Number::new(
    c"treedb.hnsw_ef_search",
    c"Candidates that a scan of a treedb_hnsw index keeps at a time: the more, the better its recall, and the longer it takes.",
    40,
    10_000,
);

static MAX_SCAN_TUPLES: Number = Number::new(
    c"treedb.hnsw_max_scan_tuples",
    c"Rows that a scan of a treedb_hnsw index compares at most before it stops looking for more.",
    20_000,
    i32::MAX,
);

/// On: a row that a search finds too late, nearer than one that was returned, is left out. So rows come in the order that
/// the planner has been promised, which an incremental sort, a window function or `WITH TIES` relies on.
static STRICT_ORDER: Switch = Switch::new(
    c"treedb.hnsw_strict_order",
    c"Leaves rows out that a scan of a treedb_hnsw index finds too late to return them in order.",
    true,
);

/// Makes the settings known to the server.
pub(super) fn define_settings() {
    EF_SEARCH.define();
    MAX_SCAN_TUPLES.define();
    STRICT_ORDER.define();
}

/// How many candidates a search keeps.
pub(super) fn ef_search() -> usize {
    EF_SEARCH.get()
}

/// Rows that are compared by their vectors before the nearest of them is returned, at least.
const RANKED: usize = 20;

/// A row, and how far it is: whatever is in the order of the distance.
struct Ranked {
    distance: f32,
    row: pg_sys::ItemPointerData,
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Ranked) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Ranked) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    /// The nearest is the greatest, which a heap returns first.
    fn cmp(&self, other: &Ranked) -> Ordering {
        other.distance.total_cmp(&self.distance)
    }
}

/// How far a scan is.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Progress {
    #[default]
    Before,
    Searching,
    Ended,
}

/// A scan.
#[derive(Default)]
pub(super) struct State {
    progress: Progress,
    /// What the index is, which does not change.
    meta: Option<Meta>,
    /// The scan has an order.
    ordered: bool,
    /// What is looked for; empty if all rows are as far.
    vector: Vec<f32>,
    /// The same of length 1 where only its direction counts.
    direction: Vec<f32>,
    codes: Vec<u8>,
    factors: Factors,
    scratch: Scratch<u32, Hashed>,
    /// Rows of nodes whose scores are exact.
    rows: RefCell<Rows>,
    /// How many nodes of the pool have been compared by their vectors.
    taken: usize,
    ready: BinaryHeap<Ranked>,
    farthest: Option<f32>,
    /// Rows that have been returned.
    returned: usize,
    /// The search has gone on from its first nodes.
    went_on: bool,
    /// All nodes have been found, or as many as may be.
    exhausted: bool,
    other: Vec<f32>,
}

impl State {
    /// Begins again.
    pub(super) fn rescan(&mut self, index: Index<'_>, target: Target<'_>) {
        let meta = Meta::of(index);
        self.meta = Some(meta);
        self.rows.borrow_mut().clear();
        self.vector.clear();
        self.direction.clear();
        self.ready.clear();
        (self.progress, self.taken, self.farthest) = (Progress::Before, 0, None);
        (self.returned, self.went_on, self.exhausted) = (0, false, false);
        self.ordered = !matches!(target, Target::Missing);
        if let Target::Value(value) = target {
            match value::indexable(meta.kind, meta.dimensions, value.bytes(), &mut self.vector) {
                Some(unit) => {
                    self.codes.resize(self.vector.len(), 0);
                    self.direction.clear();
                    self.direction.extend(self.vector.iter().map(|element| element * unit));
                    self.factors = code::encode(&self.vector, unit, &mut self.codes);
                }
                // It has no direction: its distance from every row is NaN.
                None => self.vector.clear(),
            }
        }
    }

    /// The next row.
    pub(super) fn next(&mut self, index: Index<'_>) -> Option<pg_sys::ItemPointerData> {
        if !self.ordered {
            fail(
                SqlState::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!("index \"{}\" cannot be scanned without an order", index.shown()),
                "Order by the distance from a vector.",
            );
        }
        if self.progress == Progress::Ended {
            return None;
        }
        let meta = self.meta.unwrap_or_else(|| Meta::of(index));
        let graph = Graph::opened(index, meta).remembering();
        loop {
            // A scan that goes on keeps ahead by as many rows as it has returned, so that few are found too late.
            let is_strict = STRICT_ORDER.is_on();
            let ahead = if is_strict && self.went_on { self.returned.max(1) } else { 1 };
            self.rank(&graph, ahead.max(RANKED));
            if self.ready.len() < ahead && !self.exhausted {
                self.went_on = self.progress == Progress::Searching;
                self.search(&graph);
                self.exhausted = self.scratch.pool.found().is_empty();
                continue;
            }
            let Some(Ranked { distance, row }) = self.ready.pop() else {
                self.progress = Progress::Ended;
                return None;
            };
            if is_strict && self.farthest.is_some_and(|farthest| distance < farthest) {
                continue;
            }
            self.farthest = Some(distance);
            self.returned += 1;
            return Some(row);
        }
    }

    /// Compares nodes by their vectors until so many rows are ready.
    fn rank(&mut self, graph: &Graph<'_>, wanted: usize) {
        if self.progress == Progress::Before {
            return;
        }
        while self.ready.len() < wanted {
            let Some(found) = self.scratch.pool.found().get(self.taken) else { return };
            self.taken += 1;
            // A node that has its vector and was expanded has been compared by it.
            let known = self.rows.borrow().get(&found.node).copied().filter(|_| graph.layout.exact);
            let ranked = match known {
                Some(row) => Some((found.score, row)),
                None => graph.row(found.node, &self.vector, &self.direction, &mut self.other),
            };
            let ranked = ranked.map(|(distance, row)| Ranked { distance, row });
            self.ready.extend(ranked);
        }
    }

    /// Finds the first nodes, or the next ones.
    fn search(&mut self, graph: &Graph<'_>) {
        let coded = Coded { factors: self.factors, codes: &self.codes };
        let vector = (!self.vector.is_empty()).then_some((&self.direction[..], coded));
        let query = Query { vector, rows: Some(&self.rows) };
        let ef = graph.layout.candidates(ef_search());
        let Ok(()) = match self.progress {
            Progress::Before => search_first(graph, &query, ef, &mut self.scratch),
            _ => {
                let expand = self.scratch.compared < MAX_SCAN_TUPLES.get();
                search_on(graph, &query, ef, expand, &mut self.scratch)
            }
        };
        (self.progress, self.taken) = (Progress::Searching, 0);
    }
}
