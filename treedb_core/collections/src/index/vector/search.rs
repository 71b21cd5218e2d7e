//! The nearest vectors to another one, row by row, as many as the query takes.
//!
//! The graph finds `ef` rows by what its nodes have of the vectors; the vectors themselves, which are in the documents, put them in
//! exact order, some at a time. If the query wants more, the graph is searched again with a greater `ef`, and in the end
//! all other nodes are compared one by one: every row of the index is visited sooner or later.
//!
//! A row with several vectors is visited when the first of them is found, with the distance of the nearest of all its vectors, which the
//! document tells.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use treedb_query::access::{Flow, RowId, VisitNearest};
use treedb_query::error::Result;
use treedb_query::index::vector::VectorDef;
use treedb_storage::{Reads, Table};
use treedb_vector::code;
use treedb_vector::graph::{self, Scratch, Visited};
use treedb_vector::kernel::Kernels;
use treedb_vector::memory::Searcher;

use super::follow::document_vectors;
use super::graph::{Met, NodeHasher, StoredGraph};
use super::image::{Image, Workspace, with_workspace};
use super::record::{coded, damaged, encode_vector, node_of_vector_row, row_of};
use super::{floats_of, parts_of};
use crate::index::Uncommitted;
use crate::read::view::View;

/// Rows that are put in exact order at a time, at least.
const RANKED: usize = 20;
/// How many times as many nodes are looked at when the query wants more rows.
const GROWTH: usize = 4;
/// Most nodes that are looked at through the graph: beyond that, all nodes are compared instead.
const MOST: usize = 8192;

/// Rows on their way to the query; kept from one search to the next, it allocates nothing.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Candidates, the nearest first by what the graph goes by.
    candidates: Vec<u64>,
    /// Rows with their exact distances.
    nearest: Vec<(f32, u64)>,
    /// Candidates of batches before.
    visited: HashSet<u64, BuildHasherDefault<NodeHasher>>,
    /// The rows visited, if a row may have several candidates.
    rows: HashSet<u64, BuildHasherDefault<NodeHasher>>,
}

/// A graph that gives candidates.
trait Candidates {
    /// Writes about `ef` candidates over `out`.
    fn search(&mut self, ef: usize, out: &mut Vec<u64>) -> Result<()>;
    /// Writes all nodes over `out`.
    fn all(&mut self, out: &mut Vec<u64>) -> Result<()>;
    /// Tells that the distances of these candidates are about to be asked for.
    fn prefetch(&self, candidates: &[u64]);
    /// The exact distance of a candidate, and its row.
    fn distance(&mut self, candidate: u64) -> Result<(f32, u64)>;
    /// Whether a row may have several candidates.
    fn repeats_rows(&self) -> bool;
    /// The exact distance of the nearest vector of a row.
    fn row_distance(&mut self, row: u64) -> Result<f32>;
}

/// The graph in the table of an index. A candidate is a row.
struct Stored<'s, R> {
    view: &'s View<'s, R>,
    graph: StoredGraph<'s, R>,
    vector: &'s [f32],
    query: Vec<u8>,
    scratch: Scratch<u64, Met>,
}

impl<R: Reads> Candidates for Stored<'_, R> {
    fn search(&mut self, ef: usize, out: &mut Vec<u64>) -> Result<()> {
        graph::search(&self.graph, &&*self.query, ef, &mut self.scratch)?;
        set_rows(self.scratch.pool.found().iter().map(|found| found.node), out);
        Ok(())
    }

    fn all(&mut self, out: &mut Vec<u64>) -> Result<()> {
        let mut all = Vec::new();
        let mut rows = self.graph.reads.rows(self.graph.table, 0)?;
        while let Some((row, record)) = rows.lend_next()? {
            if let Some(node) = node_of_vector_row(row) {
                all.push((self.graph.comparison.score(record, &self.query), node));
            }
        }
        all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        set_rows(all.into_iter().map(|(_, node)| node), out);
        Ok(())
    }

    fn prefetch(&self, _: &[u64]) {}

    fn distance(&mut self, row: u64) -> Result<(f32, u64)> {
        Ok((nearest_of(self.graph.def, self.view, row, self.vector)?, row))
    }

    fn repeats_rows(&self) -> bool {
        false
    }

    fn row_distance(&mut self, row: u64) -> Result<f32> {
        Ok(self.distance(row)?.0)
    }
}

/// Writes the rows of nodes over `rows`, each once.
fn set_rows(nodes: impl Iterator<Item = u64>, rows: &mut Vec<u64>) {
    let mut met = Met::default();
    rows.clear();
    rows.extend(nodes.map(row_of).filter(|row| met.insert(*row)));
}

/// The distance of the nearest vector of a row.
fn nearest_of(def: &VectorDef, view: &View<'_, impl Reads>, row: u64, vector: &[f32]) -> Result<f32> {
    let vectors = document_vectors(def, view, row)?;
    vectors.distance(def.metric, vector).ok_or_else(|| damaged(def, "a node"))
}

/// The graph in an image. A candidate is a node.
struct Imaged<'i, R> {
    def: &'i VectorDef,
    view: &'i View<'i, R>,
    image: &'i Image,
    vector: &'i [f32],
    /// The record of a vector of bits, whose codes are compared.
    bits: Option<Vec<u8>>,
    searcher: &'i mut Searcher,
    /// Where a vector is read into.
    place: &'i mut Vec<f32>,
}

impl<R> Imaged<'_, R> {
    /// The exact distance of a node.
    #[inline]
    fn node_distance(&mut self, node: u32) -> f32 {
        let (metric, graph) = (self.def.metric, &self.image.graph);
        match &self.bits {
            Some(bits) => code::score(metric, &Kernels::best(), coded(bits), graph.coded(node)),
            None => metric.distance(self.vector, graph.read_vector(node, self.place)),
        }
    }
}

impl<R: Reads> Candidates for Imaged<'_, R> {
    fn search(&mut self, ef: usize, out: &mut Vec<u64>) -> Result<()> {
        out.clear();
        // A vector that no node can be compared with is near none.
        if let Ok(found) = self.image.graph.search_candidates(self.vector, ef, self.searcher) {
            out.extend(found.map(u64::from));
        }
        Ok(())
    }

    fn all(&mut self, out: &mut Vec<u64>) -> Result<()> {
        let image = self.image;
        let nodes = (0..image.numbers.count() as u32).filter(|node| image.number(*node) != 0);
        let mut all: Vec<(f32, u32)> = nodes.map(|node| (self.node_distance(node), node)).collect();
        all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        out.clear();
        out.extend(all.into_iter().map(|(_, node)| u64::from(node)));
        Ok(())
    }

    fn prefetch(&self, candidates: &[u64]) {
        candidates.iter().for_each(|node| self.image.graph.prefetch_vector(*node as u32));
    }

    fn distance(&mut self, node: u64) -> Result<(f32, u64)> {
        let node = node as u32;
        let distance = self.node_distance(node);
        Ok((distance, row_of(self.image.number(node))))
    }

    fn repeats_rows(&self) -> bool {
        self.image.several
    }

    fn row_distance(&mut self, row: u64) -> Result<f32> {
        nearest_of(self.def, self.view, row, self.vector)
    }
}

impl Batch {
    /// Visits the candidates that were not visited before, `ranked` at a time in exact order.
    fn visit(
        &mut self,
        graph: &mut impl Candidates,
        ranked: usize,
        visit: &mut VisitNearest<'_>,
    ) -> Result<Flow> {
        let Batch { candidates, nearest, visited, rows } = self;
        let several = graph.repeats_rows();
        // Many of them may be of the same few rows.
        let ranked = if several { ranked.max(candidates.len()) } else { ranked };
        if !visited.is_empty() {
            candidates.retain(|candidate| !visited.contains(candidate));
        }
        for some in candidates.chunks(ranked) {
            graph.prefetch(some);
            nearest.clear();
            for candidate in some {
                nearest.push(graph.distance(*candidate)?);
            }
            if several {
                // A row is as far as its nearest vector, which need not be one of those that were found.
                nearest.retain(|(_, row)| rows.insert(*row));
                for (distance, row) in nearest.iter_mut() {
                    *distance = graph.row_distance(*row)?;
                }
            }
            nearest.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            for (distance, row) in nearest.iter() {
                if visit(RowId(*row), *distance)? == Flow::Break(()) {
                    return Ok(Flow::Break(()));
                }
            }
        }
        visited.extend(candidates.iter().copied());
        Ok(Flow::Continue(()))
    }

    /// Visits the rows of a graph of so many nodes, the nearest first.
    fn walk(
        &mut self,
        graph: &mut impl Candidates,
        nodes: usize,
        (k, ef): (usize, usize),
        visit: &mut VisitNearest<'_>,
    ) -> Result<()> {
        self.visited.clear();
        self.rows.clear();
        let ranked = k.saturating_mul(2).max(RANKED);
        let mut ef = ef.max(k).max(1);
        while ef <= MOST && self.visited.len() < nodes {
            graph.search(ef.min(nodes), &mut self.candidates)?;
            if self.visit(graph, ranked, visit)? == Flow::Break(()) {
                return Ok(());
            }
            ef = ef.saturating_mul(GROWTH);
        }
        if self.visited.len() < nodes {
            graph.all(&mut self.candidates)?;
            self.visit(graph, ranked, visit).map(drop)?;
        }
        Ok(())
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
    with_workspace(|workspace| {
        if let Some(image) = view.meta.images.image(def, view, table, workspace)? {
            let Workspace { searcher, batch, vector: place, .. } = workspace;
            let bits = def.metric.is_of_bits().then(|| encode_vector(def, vector));
            let mut graph = Imaged { def, view, image: &image, vector, bits, searcher, place };
            return batch.walk(&mut graph, nodes, (k, ef), visit);
        }
        let mut graph = Stored {
            view,
            graph: StoredGraph::new(def, view.reads, table),
            vector,
            query: encode_vector(def, vector),
            scratch: Scratch::default(),
        };
        workspace.batch.walk(&mut graph, nodes, (k, ef), visit)
    })
}

/// See [`Source::distances`](treedb_query::access::Source::distances). Only an image tells: a record of the table may have codes only.
pub(super) fn distances(
    def: &VectorDef,
    view: &View<'_, impl Reads>,
    table: &Table,
    vector: &[f32],
    rows: &[RowId],
    visit: &mut dyn FnMut(RowId, f32),
) -> Result<bool> {
    with_workspace(|workspace| {
        let images = &view.meta.images;
        let Some(image) = images.image(def, view, table, workspace)? else { return Ok(false) };
        let Some(nodes) = images.nodes_of(table, &image, rows) else { return Ok(false) };
        let Workspace { searcher, vector: place, .. } = workspace;
        let bits = def.metric.is_of_bits().then(|| encode_vector(def, vector));
        let mut graph = Imaged { def, view, image: &image, vector, bits, searcher, place };
        for nodes in nodes.chunks(PREFETCHED) {
            nodes.iter().for_each(|(node, _)| image.graph.prefetch_vector(*node));
            for (node, row) in nodes {
                visit(*row, graph.node_distance(*node));
            }
        }
        Ok(true)
    })
}

/// Vectors that are fetched from memory at a time.
const PREFETCHED: usize = 16;

/// The distance of the nearest vector of an entry.
fn least_of(def: &VectorDef, entry: &Vec<u8>, vector: &[f32]) -> Option<f32> {
    let parts = parts_of(def, Some(entry)).map(|(_, part)| def.metric.distance(vector, &floats_of(part)));
    parts.min_by(f32::total_cmp)
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
        added.filter_map(|(entry, row)| Some((least_of(def, entry, vector)?, *row))).collect();
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
