//! Reading rows by distance, as many as the executor asks for.
//!
//! A search looks for `treedb.hnsw_ef_search` nodes before the nearest of them is returned. It goes on with each row that is
//! returned ([`treedb_vector::graph::Walk`]), until it has seen the whole graph. So a query whose conditions keep few rows still
//! gets as many as it asks for, as long as there are some. Once `treedb.hnsw_max_scan_tuples` nodes have been compared, it goes
//! no further, and only returns those that it has met; a notice says so if they are fewer than the query asks for. Where that is to be
//! expected of a query with a limit, the planner does not choose the index.
//!
//! Where nodes do not have their vectors, they are found by codes of 8 bits; before a row is returned, it and those that come
//! next are compared by their vectors, the more of them, the more have been returned.
//!
//! A row with several vectors is found by the nearest of them, and not again.
//!
//! While the codes of an index are made anew about a centre ([`super::centre`]), some are about what others are not: a scan compares all nodes,
//! which are not many then, by their vectors. One that is under way when that begins may have taken codes for what they are not. So as long as
//! an index may still get a centre, a scan looks at the meta page after each search. If there is one now, it forgets what it has not returned yet,
//! and begins again. Rows that it has returned are not found again.
//!
//! Rows are returned in order. A scan that goes on looks half as many nodes ahead as it has returned rows: one that it
//! finds too late all the same, nearer than the last one that was returned, is kept back until there is no other. So the order holds for
//! a query that is content with the rows that come in order, and one that is not loses none. With
//! `treedb.hnsw_strict_order` off rows are returned as they are found.

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashSet};

use pgrx::{check_for_interrupts, pg_sys};
use treedb_vector::code::{self, Coded, Factors};
use treedb_vector::graph::Walk;
use treedb_vector::neighbour::Turned;

use super::graph::{Graph, Query, Rows};
use super::meta::{Choice, Meta};
use super::record::{self, Layout};
use super::value;
use super::writer::each_node_of_page;
use crate::shim::buffer::{self, Page, Shared};
use crate::shim::distance_method::Target;
use crate::shim::error::{SqlState, fail};
use crate::shim::relation::{Index, Relation};
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

/// On: a row that a search finds too late, nearer than one that was returned, comes after all others. So rows come in the
/// order that the planner has been promised, which an incremental sort, a window function or `WITH TIES` relies on, for as long
/// as there are any.
static STRICT_ORDER: Switch = Switch::new(
    c"treedb.hnsw_strict_order",
    c"Returns rows that a scan of a treedb_hnsw index finds too late to return them in order after all others.",
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

/// How many times the rows that a scan is expected to return until enough of them fulfil a condition it must be allowed to meet: those that do
/// come unevenly. (Where 30 are expected, fewer than 10 come once in 100,000 times. A scan meets hardly more nodes than it returns: of
/// 30,000 rows with 8 and with 32 dimensions in clusters, 95 in 100 of the nearest `n` were among `n` to `1.6 n` that were met.)
const MARGIN: f64 = 3.0;

/// Whether a scan returns so many rows, the nearest of so many, before it has met as many nodes as it may.
pub(super) fn reaches(asked: f64, rows: f64) -> bool {
    (MARGIN * asked).min(rows) <= MAX_SCAN_TUPLES.get() as f64
}

/// Rows that are compared by their vectors before the nearest of them is returned, where they were found by codes: at least so many,
const RANKED: usize = 20;
/// and where they are to come in order, the number of those that were returned, divided by this. The more rows are about as far, the more
/// places are between where codes put a row and where it belongs, and one that is put farther off than others are compared is late.
/// (*Measured*, 8,000 rows of 1,536 dimensions in clusters, of which one in a hundred fulfils a condition: .87 of the nearest ten with 20 at any
/// time, .948 with this in the same time, .993 by a scan that is in no order.)
const RANKED_SHARE: usize = 4;

/// A scan that goes on finds at once what it has returned, divided by this,
const AT_ONCE: usize = 32;
/// but at least the lesser of what its first search was for and so many: to begin a search costs as much as some rows do.
const AT_LEAST: usize = 8;

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
    /// There are no other nodes than those of rows that are ready.
    AllReady,
    /// Only rows that were found too late are left.
    AllFound,
}

thread_local! {
    /// What a scan that has ended leaves to the next one, which need not allocate it.
    static SPARE: Cell<Option<Memory>> = const { Cell::new(None) };
    /// How many nodes the last scan that has ended has compared.
    static COMPARED: Cell<usize> = const { Cell::new(0) };
}

/// How many nodes the scan that ended last has compared, by their vectors or codes, since it began or began again.
pub(crate) fn compared_by_last_scan() -> usize {
    COMPARED.get()
}

/// Bytes of memory that are left to the next scan, at most.
pub(super) const MOST_SPARE: usize = 1 << 20;

/// What a scan looks for, and what it has found.
#[derive(Default)]
struct Memory {
    /// What is looked for; empty if all rows are as far.
    vector: Vec<f32>,
    /// The same of length 1 where only its direction counts.
    direction: Vec<f32>,
    turned: Turned,
    codes: Vec<u8>,
    walk: Walk,
    /// Of the nodes that have been expanded, as far as they have not been returned.
    rows: Rows,
    /// The nearest rows that have been found: all of them are to be returned before another one is looked for, or, where nodes
    /// were found by codes, the nearest.
    ready: BinaryHeap<Ranked>,
    /// Rows that were found too late.
    late: BinaryHeap<Ranked>,
    /// Rows that have been returned, or were found too late: of an index where a row may be found again.
    seen: HashSet<[u8; 6]>,
    /// Room for a vector.
    other: Vec<f32>,
}

impl Memory {
    fn clear(&mut self) {
        self.vector.clear();
        self.direction.clear();
        self.rows.clear();
        self.ready.clear();
        self.late.clear();
        self.seen.clear();
    }

    /// Bytes that it takes, but for those of a few vectors.
    fn bytes(&self) -> usize {
        let rows = self.ready.capacity() + self.late.capacity() + self.rows.capacity() + self.seen.capacity();
        self.walk.bytes() + 2 * size_of::<Ranked>() * rows
    }
}

/// A scan.
#[derive(Default)]
pub(super) struct State {
    progress: Progress,
    /// What the index is, which does not change while this searches for one vector.
    opened: Option<(Meta, Layout)>,
    /// The scan has an order.
    ordered: bool,
    /// Rows that are ready are in order, and none that is nearer is looked for.
    is_final: bool,
    /// The index may get a centre while it is scanned.
    may_begin_again: bool,
    /// What makes the vector of length 1 where only its direction counts.
    unit: f32,
    /// What distances from the vector need beside it.
    squares: f32,
    /// Those of the vector's codes.
    factors: Factors,
    farthest: Option<f32>,
    /// Rows that have been returned.
    returned: usize,
    /// Nodes that were compared because all were.
    compared_all: usize,
    /// The notice about an early end was already given for this plan.
    reported: bool,
    memory: Memory,
}

impl Drop for State {
    fn drop(&mut self) {
        let compared = match self.progress {
            _ if self.compared_all > 0 => self.compared_all,
            Progress::Before => 0,
            _ => self.memory.walk.compared(),
        };
        let _ = COMPARED.try_with(|last| last.set(compared));
        if self.memory.bytes() <= MOST_SPARE {
            // When the session ends there is no next scan.
            let _ = SPARE.try_with(|spare| spare.set(Some(std::mem::take(&mut self.memory))));
        }
    }
}

impl State {
    /// One that has not begun.
    pub(super) fn new() -> State {
        let mut state = State::default();
        state.memory = SPARE.take().unwrap_or_default();
        state
    }

    /// What the index is.
    fn opened(&mut self, index: Index<'_>) -> (Meta, Layout) {
        let opened = *self.opened.get_or_insert_with(|| {
            let Graph { meta, layout, .. } = Graph::open(index);
            (meta, layout)
        });
        self.may_begin_again |= matches!(opened.0.choice, Choice::Open { .. });
        opened
    }

    /// Begins again.
    pub(super) fn rescan(&mut self, index: Index<'_>, target: Target<'_>) {
        // Only what codes are about may have changed.
        if self.opened.is_some_and(|(meta, _)| meta.choice != Choice::Made) {
            self.opened = None;
        }
        self.may_begin_again = false;
        let (meta, _) = self.opened(index);
        self.memory.clear();
        (self.progress, self.farthest, self.returned, self.compared_all) = (Progress::Before, None, 0, 0);
        self.ordered = !matches!(target, Target::Missing);
        if let Target::Value(value) = target {
            let Memory { vector, direction, .. } = &mut self.memory;
            match value::target(meta.kind, meta.dimensions, value.bytes(), vector) {
                Some(unit) => {
                    direction.extend(vector.iter().map(|element| element * unit));
                    self.unit = unit;
                    self.encode(index);
                }
                // It has no direction: its distance from every row is NaN.
                None => vector.clear(),
            }
        }
    }

    /// Makes what searches for the vector need of it, about the centre that the index has.
    fn encode(&mut self, index: Index<'_>) {
        let (meta, layout) = self.opened(index);
        let Memory { vector, direction, turned, codes, .. } = &mut self.memory;
        let (metric, graph) = (meta.kind.metric, Graph::opened(index, meta, layout));
        self.squares = metric.squares(&graph.kernels, vector);
        codes.resize(code::code_bytes(metric, vector.len()), 0);
        self.factors = graph.encode_query(vector, self.unit, codes);
        graph.turn(direction, turned);
    }

    /// Begins again if the index has got a centre since it was opened: codes that were met may be about it. True if it has.
    fn begins_again(&mut self, index: Index<'_>) -> bool {
        let is_as_before = |(meta, _): (Meta, Layout)| Graph::meta_now(index).centre == meta.centre;
        if !self.may_begin_again || self.opened.is_none_or(is_as_before) {
            return false;
        }
        self.opened = None;
        self.progress = Progress::Before;
        self.memory.rows.clear();
        self.memory.ready.clear();
        if !self.memory.vector.is_empty() {
            self.encode(index);
        }
        true
    }

    /// The next row.
    pub(super) fn next(&mut self, index: Index<'_>, table: Relation<'_>) -> Option<pg_sys::ItemPointerData> {
        if !self.ordered {
            fail(
                SqlState::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!("index \"{}\" cannot be scanned without an order", index.shown()),
                "Order by the distance from a vector.",
            );
        }
        if self.progress == Progress::AllFound {
            return self.memory.late.pop().map(|late| late.row);
        }
        let is_strict = STRICT_ORDER.is_on();
        let has_several = self.opened.is_some_and(|(meta, _)| meta.kind.has_several());
        loop {
            if self.progress != Progress::AllReady && (self.memory.ready.is_empty() || !self.is_final) {
                let (meta, layout) = self.opened(index);
                let rows = std::mem::take(&mut self.memory.rows);
                let graph = Graph::opened(index, meta, layout).for_scan(rows);
                if let Choice::Recoding { .. } = meta.choice {
                    self.compare_all(&graph);
                } else {
                    self.search(&graph, table, is_strict);
                }
                self.memory.rows = graph.into_rows();
                if self.begins_again(index) {
                    continue;
                }
            }
            let Some(found) = self.memory.ready.pop() else {
                let has_searched = self.progress == Progress::Searching;
                self.progress = Progress::AllFound;
                if !self.reported && has_searched && self.memory.walk.compared() >= MAX_SCAN_TUPLES.get() {
                    self.reported = true;
                    pgrx::notice!(
                        "a scan of index \"{}\" has looked for no more rows after comparing {}: see treedb.hnsw_max_scan_tuples",
                        index.shown(),
                        MAX_SCAN_TUPLES.get()
                    );
                }
                return self.memory.late.pop().map(|late| late.row);
            };
            let may_be_found_again = has_several || self.may_begin_again;
            if may_be_found_again && !self.memory.seen.insert(record::row_bytes(found.row)) {
                continue;
            }
            if is_strict && self.farthest.is_some_and(|farthest| found.distance < farthest) {
                self.memory.late.push(found);
                continue;
            }
            self.farthest = Some(found.distance);
            self.returned += 1;
            return Some(found.row);
        }
    }

    /// Compares all nodes by their vectors.
    fn compare_all(&mut self, graph: &Graph<'_>) {
        let Memory { vector, ready, other, .. } = &mut self.memory;
        let query = (!vector.is_empty()).then_some((vector.as_slice(), self.squares));
        let mut nodes = Vec::new();
        for block in 1..graph.index.blocks() {
            check_for_interrupts!();
            let page: Page<Shared> = Page::read(graph.index, block);
            each_node_of_page(graph, &page, &mut |node, _| nodes.push(node));
            // Their vectors may be on other pages, of which one at a time is latched.
            drop(page);
            self.compared_all += nodes.len();
            for node in nodes.drain(..) {
                let found = graph.row_by_vector(node, query, other);
                ready.extend(found.map(|(distance, row)| Ranked { distance, row }));
            }
        }
        (self.progress, self.is_final) = (Progress::AllReady, true);
    }

    /// Finds the next rows, of which the nearest may be returned.
    fn search(&mut self, graph: &Graph<'_>, table: Relation<'_>, is_strict: bool) {
        let Memory { vector, direction, turned, codes, walk, ready, other, .. } = &mut self.memory;
        let coded = Coded { factors: self.factors, codes };
        let query = match vector.is_empty() {
            true => None,
            false => Some(Query { vector, squares: self.squares, direction, coded, turned }),
        };
        if self.progress == Progress::Before {
            let Ok(()) = walk.begin(graph, &query);
            self.progress = Progress::Searching;
        }
        // The first search counts until half of its rows have been returned.
        let ef = ef_search();
        let mut ahead = ef / 2;
        if is_strict && ahead < self.returned / 2 {
            ahead = self.returned / 2;
            walk.go_on();
        }
        let first = ef.saturating_sub(self.returned);
        self.is_final = graph.layout.finds_in_order();
        let (ranked, wanted) = if self.is_final {
            let at_once =
                first.saturating_sub(ahead).max(self.returned / AT_ONCE).max(ahead.clamp(1, AT_LEAST));
            (at_once, ahead + at_once)
        } else {
            let ranked = if is_strict { RANKED.max(self.returned / RANKED_SHARE) } else { RANKED };
            (ranked, ahead.max(first).max(ranked).saturating_sub(ready.len()).max(1))
        };
        loop {
            let Ok(()) = walk.search(graph, &query, wanted, MAX_SCAN_TUPLES.get());
            let has_ended = walk.count() == 0;
            while ready.len() < ranked
                && let Some(found) = walk.take()
            {
                if let Some(next) = walk.found().next() {
                    graph.fetch_vector(next.node);
                }
                let row = graph.row(found, query.as_ref(), other);
                if let Some((_, row)) = row {
                    buffer::expect_row(table, graph.index, graph.layout.place(found.node).block, row);
                    // Of what the first search has found, a limit may leave most.
                    if self.returned > 0 {
                        graph.prefetch_page(table, row);
                    }
                }
                ready.extend(row.map(|(distance, row)| Ranked { distance, row }));
            }
            // Nodes that were found may have been vacuumed since, all of them even: there may be others.
            if has_ended || ready.len() >= ranked {
                if self.is_final && self.returned > 0 {
                    ready.iter().for_each(|ranked| graph.prefetch_row(ranked.row));
                }
                return;
            }
        }
    }
}
