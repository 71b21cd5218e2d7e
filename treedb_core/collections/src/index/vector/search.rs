//! The nearest vectors to another one, row by row, as many as the query takes.
//!
//! The graph finds `ef` rows by what its nodes have of the vectors; the vectors themselves, which are in the documents, put them in
//! exact order, some at a time. If the query wants more, the graph is searched again with a greater `ef`, and in the end
//! all other nodes are compared one by one: every row of the index is visited sooner or later.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use treedb_query::access::{Flow, RowId, Source, VisitNearest};
use treedb_query::doc::Fields;
use treedb_query::error::Result;
use treedb_query::index::vector::VectorDef;
use treedb_storage::{Reads, Table};
use treedb_vector::graph::{self, Scratch};

use super::graph::{Met, NodeHasher, StoredGraph};
use super::record::{damaged, encode_vector, node_of_vector_row};
use super::vector_of;
use crate::index::Uncommitted;
use crate::read::view::View;

/// Rows that are put in exact order at a time, at least.
const RANKED: usize = 20;
/// How many times as many nodes are looked at when the query wants more rows.
const GROWTH: usize = 4;
/// Most nodes that are looked at through the graph: beyond that, all nodes are compared instead.
const MOST: usize = 8192;

/// A search in the graph of one index.
struct Search<'s, R> {
    view: &'s View<'s, R>,
    graph: StoredGraph<'s, R>,
    vector: &'s [f32],
    /// The indexed field.
    fields: Fields,
    /// Rows that are put in exact order at a time.
    ranked: usize,
    /// Rows that were visited.
    visited: HashSet<u64, BuildHasherDefault<NodeHasher>>,
}

impl<R: Reads> Search<'_, R> {
    /// The exact distance of a row.
    fn distance(&self, row: u64) -> Result<f32> {
        let def = self.graph.def;
        let mut found = None;
        self.view.fetch_row(RowId(row), &mut |document| {
            let vector = def.vector(document.partial_document(&self.fields)?);
            found = vector.map(|vector| def.metric.distance(self.vector, &vector));
            Ok(())
        })?;
        found.ok_or_else(|| damaged(def, "a node"))
    }

    /// Visits rows that were not visited before; `candidates` are in the order of their scores.
    fn visit_all(
        &mut self,
        candidates: impl Iterator<Item = u64>,
        visit: &mut VisitNearest<'_>,
    ) -> Result<Flow> {
        let new: Vec<u64> = candidates.filter(|row| self.visited.insert(*row)).collect();
        for some in new.chunks(self.ranked) {
            let mut exact = Vec::with_capacity(some.len());
            for row in some {
                exact.push((self.distance(*row)?, *row));
            }
            exact.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            for (distance, row) in exact {
                if visit(RowId(row), distance)? == Flow::Break(()) {
                    return Ok(Flow::Break(()));
                }
            }
        }
        Ok(Flow::Continue(()))
    }

    /// All nodes, in the order of their scores.
    fn all_nodes(&self, query: &[u8]) -> Result<Vec<(f32, u64)>> {
        let mut all = Vec::new();
        let mut rows = self.graph.reads.rows(self.graph.table, 0)?;
        while let Some((row, record)) = rows.lend_next()? {
            if let Some(node) = node_of_vector_row(row) {
                all.push((self.graph.comparison.score(record, query), node));
            }
        }
        all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        Ok(all)
    }
}

/// Visits the rows of an index, the nearest first. `vector` is one that could be in it.
pub(super) fn nearest(
    def: &VectorDef,
    view: &View<'_, impl Reads>,
    table: &Table,
    vector: &[f32],
    k: usize,
    ef: usize,
    visit: &mut VisitNearest<'_>,
) -> Result<()> {
    // Two rows for each node, and the head.
    let nodes = usize::try_from(view.reads.len(table)? / 2).unwrap_or(usize::MAX);
    let query = encode_vector(def, vector);
    let mut search = Search {
        view,
        graph: StoredGraph::new(def, view.reads, table),
        vector,
        fields: Fields::new(std::iter::once(def.path.first().as_bytes())),
        ranked: k.saturating_mul(2).max(RANKED),
        visited: HashSet::default(),
    };
    let mut scratch = Scratch::<u64, Met>::default();
    let mut ef = ef.max(k).max(1);
    while ef <= MOST && search.visited.len() < nodes {
        graph::search(&search.graph, &&*query, ef.min(nodes), &mut scratch)?;
        let found = scratch.pool.found().iter().map(|found| found.node);
        if search.visit_all(found, visit)? == Flow::Break(()) {
            return Ok(());
        }
        ef = ef.saturating_mul(GROWTH);
    }
    if search.visited.len() < nodes {
        let all = search.all_nodes(&query)?;
        search.visit_all(all.into_iter().map(|(_, node)| node), visit).map(drop)?;
    }
    Ok(())
}

/// [`nearest`] in an open transaction: the rows of the snapshot whose vectors it has not changed, and the vectors that it has
/// added.
#[expect(clippy::too_many_arguments, reason = "the parts of a probe, and where it is answered")]
pub(super) fn nearest_uncommitted(
    def: &VectorDef,
    base: Option<&View<'_, impl Reads>>,
    index: usize,
    uncommitted: &Uncommitted<'_>,
    vector: &[f32],
    k: usize,
    ef: usize,
    visit: &mut VisitNearest<'_>,
) -> Result<()> {
    let removed: HashSet<RowId> = uncommitted.entries.removed_rows().collect();
    let added = uncommitted.entries.added();
    let mut own: Vec<(f32, RowId)> =
        added.map(|(entry, row)| (def.metric.distance(vector, &vector_of(entry)), *row)).collect();
    own.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut own = own.into_iter().peekable();
    let mut stopped = false;
    if let Some((view, table)) = base.and_then(|view| Some((view, &view.meta.indexes.get(index)?.table))) {
        nearest(def, view, table, vector, k, ef, &mut |row, distance| {
            while let Some((distance, row)) = own.next_if(|(nearer, _)| *nearer <= distance) {
                if visit(row, distance)? == Flow::Break(()) {
                    stopped = true;
                    return Ok(Flow::Break(()));
                }
            }
            if removed.contains(&row) {
                return Ok(Flow::Continue(()));
            }
            let flow = visit(row, distance)?;
            stopped = flow == Flow::Break(());
            Ok(flow)
        })?;
    }
    for (distance, row) in own {
        if stopped || visit(row, distance)? == Flow::Break(()) {
            break;
        }
    }
    Ok(())
}
