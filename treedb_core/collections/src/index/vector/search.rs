//! The nearest vectors to another one, row by row, as many as the query takes.
//!
//! The graph finds `ef` rows by what its nodes have of the vectors; the vectors themselves, which are in the documents, put them in
//! exact order, some at a time. If the query wants more, the search of the graph goes on to a greater `ef`, and in the end
//! all other nodes are compared one by one: every row of the index is visited sooner or later.
//!
//! An image with codes of few bits has no vectors: documents put its candidates in exact order, more of them, the fewer the bits are.
//!
//! A row with several vectors is visited when the first of them is found, with the distance of the nearest of all its vectors, which the
//! image tells, or the document.

use std::cell::OnceCell;
use std::collections::HashSet;

use treedb_query::access::{Comparisons, Flow, RowId, VisitNearest};
use treedb_query::doc::Fields;
use treedb_query::error::Result;
use treedb_query::index::vector::VectorDef;
use treedb_query::query::interrupt::InterruptTick;
use treedb_storage::{Reads, Table};
use treedb_vector::code;
use treedb_vector::graph::{self, Part, Scratch, Visited};
use treedb_vector::kernel::Kernels;
use treedb_vector::memory::Searcher;

use super::among::search_among;
use super::follow::document_vectors;
use super::graph::{Met, NodeSet, StoredGraph};
use super::image::Image;
use super::record::{coded, damaged, encode_query, encode_vector_over, node_of_vector_row, nodes_in, row_of};
use super::workspace::{Workspace, with_workspace};
use super::{floats_of, parts_of};
use crate::index::Uncommitted;
use crate::read::view::View;

/// Rows that are put in exact order at a time, at least.
pub(super) const RANKED: usize = 20;
/// How many times as many nodes are looked at when the query wants more rows.
pub(super) const GROWTH: usize = 2;
/// Most nodes that are looked at through the graph: beyond that, all nodes are compared instead.
const MOST: usize = 8192;

/// Rows on their way to the query; kept from one search to the next, it allocates nothing.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Candidates, the nearest first by what the graph goes by.
    candidates: Vec<u64>,
    /// Rows with their exact distances that were not visited yet.
    nearest: Vec<(f32, u64)>,
    /// How many candidates were put in exact order, and how many of them were visited.
    ranked: (usize, usize),
    /// Candidates of batches before.
    visited: NodeSet,
    /// The rows visited, if a row may have several candidates.
    pub(super) rows: NodeSet,
    /// All rows that were visited, if the graph is one in a file.
    visited_rows: Vec<u64>,
    /// The graph turned out to be damaged before all that was wanted was visited.
    is_abandoned: bool,
}

impl Batch {
    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        let listed =
            size_of::<u64>() * self.candidates.capacity() + size_of::<(f32, u64)>() * self.nearest.capacity();
        let sets = 2 * (self.visited.capacity() + self.rows.capacity());
        listed + size_of::<u64>() * (sets + self.visited_rows.capacity())
    }
}

/// A graph that gives candidates.
trait Candidates {
    /// Does a part of a search and writes about `ef` candidates over `out`; returns how many nodes it has compared.
    fn search(&mut self, ef: usize, part: Part, out: &mut Vec<u64>) -> Result<usize>;
    /// Writes all nodes over `out`.
    fn all(&mut self, out: &mut Vec<u64>) -> Result<()>;
    /// Tells that the distances of these candidates are about to be asked for.
    fn prefetch(&self, candidates: &[u64]);
    /// How many of `ef` candidates are to be put in exact order at a time to find `k`.
    fn ranked(&self, k: usize, ef: usize) -> usize;
    /// How many of the nearest of so many candidates in exact order are likely to be nearer than all that are not among them.
    fn trusted(&self, ranked: usize) -> usize {
        ranked
    }
    /// The exact distance of a candidate, and its row.
    fn distance(&mut self, candidate: u64) -> Result<(f32, u64)>;
    /// Whether a row may have several candidates.
    fn repeats_rows(&self) -> bool;
    /// The exact distance of the nearest vector of a row.
    fn row_distance(&mut self, row: u64) -> Result<f32>;
    /// How many documents were read.
    fn documents(&self) -> u64;
    /// Whether it is in a file, parts of which may turn out to be damaged.
    fn is_mapped(&self) -> bool {
        false
    }
    /// Whether that has happened: what it has told since the last time that it was asked may be wrong.
    fn is_damaged(&self) -> bool {
        false
    }
}

/// The documents of an index, whose vectors are compared with one.
pub(super) struct Documents<'s, R> {
    def: &'s VectorDef,
    view: &'s View<'s, R>,
    vector: &'s [f32],
    /// Where the vectors are, once a document is read. Where they are in documents of the same shape is remembered for it.
    fields: OnceCell<Fields>,
    /// How many were read.
    pub(super) read: u64,
    interrupt: InterruptTick,
}

impl<'s, R: Reads> Documents<'s, R> {
    pub(super) fn new(def: &'s VectorDef, view: &'s View<'s, R>, vector: &'s [f32]) -> Documents<'s, R> {
        Documents { def, view, vector, fields: OnceCell::new(), read: 0, interrupt: InterruptTick::default() }
    }

    /// The exact distance of the nearest vector of a document.
    pub(super) fn distance(&mut self, row: u64) -> Result<f32> {
        self.interrupt.tick()?;
        self.read += 1;
        let fields = self.fields.get_or_init(|| self.def.fields());
        let vectors = document_vectors(self.def, self.view, fields, row)?;
        vectors.distance(self.def.metric, self.vector).ok_or_else(|| damaged(self.def, "a node"))
    }
}

/// The graph in the table of an index. A candidate is a row.
struct Stored<'s, R> {
    documents: Documents<'s, R>,
    graph: StoredGraph<'s, R>,
    query: Vec<u8>,
    scratch: Scratch<u64, Met>,
}

impl<R: Reads> Candidates for Stored<'_, R> {
    fn search(&mut self, ef: usize, part: Part, out: &mut Vec<u64>) -> Result<usize> {
        let query = self.graph.comparison.read(&self.query);
        graph::search_part(&self.graph, &query, ef, part, &mut self.scratch)?;
        set_rows(self.scratch.pool.found().map(|found| found.node), out);
        Ok(self.scratch.compared)
    }

    fn all(&mut self, out: &mut Vec<u64>) -> Result<()> {
        let (mut all, query) = (Vec::new(), self.graph.comparison.read(&self.query));
        let mut rows = self.graph.reads.rows(self.graph.table, 0)?;
        while let Some((row, record)) = rows.lend_next()? {
            if let Some(node) = node_of_vector_row(row) {
                all.push((self.graph.comparison.score(record, &query), node));
            }
        }
        all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        set_rows(all.into_iter().map(|(_, node)| node), out);
        Ok(())
    }

    fn prefetch(&self, _: &[u64]) {}

    fn ranked(&self, k: usize, _: usize) -> usize {
        k.saturating_mul(2).max(RANKED)
    }

    fn distance(&mut self, row: u64) -> Result<(f32, u64)> {
        Ok((self.documents.distance(row)?, row))
    }

    fn repeats_rows(&self) -> bool {
        false
    }

    fn row_distance(&mut self, row: u64) -> Result<f32> {
        self.documents.distance(row)
    }

    fn documents(&self) -> u64 {
        self.documents.read
    }
}

/// Writes the rows of nodes over `rows`, each once.
fn set_rows(nodes: impl Iterator<Item = u64>, rows: &mut Vec<u64>) {
    let mut met = Met::default();
    rows.clear();
    rows.extend(nodes.map(row_of).filter(|row| met.insert(*row)));
}

/// The graph in an image. A candidate is a node.
pub(super) struct Imaged<'i, R> {
    pub(super) documents: Documents<'i, R>,
    pub(super) image: &'i Image,
    /// The record of a vector of bits, whose codes are compared.
    pub(super) bits: Option<&'i [u8]>,
    pub(super) searcher: &'i mut Searcher,
    /// Where a vector is read into.
    pub(super) place: &'i mut Vec<f32>,
}

impl<R> Imaged<'_, R> {
    /// The exact distance of a node.
    #[inline]
    pub(super) fn node_distance(&mut self, node: u32) -> f32 {
        let (metric, graph) = (self.documents.def.metric, &self.image.graph);
        match self.bits {
            Some(bits) => code::score(metric, &Kernels::best(), coded(bits), graph.coded(node)),
            None => metric.distance(self.documents.vector, graph.read_vector(node, self.place)),
        }
    }

    /// The exact distance of the nearest vector of a row.
    pub(super) fn nearest_of_row(&mut self, row: u64) -> f32 {
        let image = self.image;
        image
            .nodes_of(row)
            .map(|node| self.node_distance(node))
            .min_by(f32::total_cmp)
            .unwrap_or(f32::INFINITY)
    }
}

impl<R: Reads> Candidates for Imaged<'_, R> {
    fn search(&mut self, ef: usize, part: Part, out: &mut Vec<u64>) -> Result<usize> {
        out.clear();
        // A vector that no node can be compared with is near none.
        match self.image.graph.search_candidates(self.documents.vector, ef, part, self.searcher) {
            Ok(found) => out.extend(found.map(u64::from)),
            Err(_) => return Ok(0),
        }
        Ok(self.searcher.compared())
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

    fn ranked(&self, k: usize, ef: usize) -> usize {
        self.image.graph.ranked(k, ef)
    }

    fn distance(&mut self, node: u64) -> Result<(f32, u64)> {
        let node = node as u32;
        let distance = self.node_distance(node);
        Ok((distance, row_of(self.image.number(node))))
    }

    fn repeats_rows(&self) -> bool {
        self.image.several()
    }

    fn row_distance(&mut self, row: u64) -> Result<f32> {
        Ok(self.nearest_of_row(row))
    }

    fn documents(&self) -> u64 {
        self.documents.read
    }

    fn is_mapped(&self) -> bool {
        self.image.graph.is_mapped()
    }

    fn is_damaged(&self) -> bool {
        self.image.is_damaged()
    }
}

/// The graph in an image without vectors. A candidate is a row.
struct Coarse<'i, R> {
    documents: Documents<'i, R>,
    image: &'i Image,
    searcher: &'i mut Searcher,
}

impl<R> Coarse<'_, R> {
    /// Writes the rows of nodes over `rows`, each once.
    fn set_rows(image: &Image, nodes: impl Iterator<Item = u32>, rows: &mut Vec<u64>) {
        let numbers = nodes.map(|node| image.number(node));
        if image.several() {
            return set_rows(numbers, rows);
        }
        rows.clear();
        rows.extend(numbers.map(row_of));
    }
}

impl<R: Reads> Candidates for Coarse<'_, R> {
    fn search(&mut self, ef: usize, part: Part, out: &mut Vec<u64>) -> Result<usize> {
        out.clear();
        // A vector that no node can be compared with is near none.
        match self.image.graph.search_candidates(self.documents.vector, ef, part, self.searcher) {
            Ok(found) => Self::set_rows(self.image, found, out),
            Err(_) => return Ok(0),
        }
        Ok(self.searcher.compared())
    }

    fn all(&mut self, out: &mut Vec<u64>) -> Result<()> {
        let image = self.image;
        let nodes: Vec<u32> =
            (0..image.numbers.count() as u32).filter(|node| image.has_vector(*node)).collect();
        out.clear();
        if search_among(image, self.documents.vector, &nodes, nodes.len(), self.searcher)?.is_some() {
            Self::set_rows(image, self.searcher.found_among().iter().map(|(_, node)| *node), out);
        }
        Ok(())
    }

    fn prefetch(&self, _: &[u64]) {}

    fn ranked(&self, k: usize, ef: usize) -> usize {
        self.image.graph.ranked(k, ef)
    }

    fn trusted(&self, ranked: usize) -> usize {
        // Four bits tell about as much as eight.
        ranked * self.documents.def.quantization.few_bits().unwrap_or(4) / 4
    }

    fn distance(&mut self, row: u64) -> Result<(f32, u64)> {
        Ok((self.documents.distance(row)?, row))
    }

    fn repeats_rows(&self) -> bool {
        false
    }

    fn row_distance(&mut self, row: u64) -> Result<f32> {
        self.documents.distance(row)
    }

    fn documents(&self) -> u64 {
        self.documents.read
    }

    fn is_mapped(&self) -> bool {
        self.image.graph.is_mapped()
    }

    fn is_damaged(&self) -> bool {
        self.image.is_damaged()
    }
}

impl Batch {
    /// Visits the candidates that were not visited before, `ranked` at a time in exact order, as far as it can be trusted: the others wait
    /// for the next candidates.
    fn visit(
        &mut self,
        graph: &mut impl Candidates,
        ranked: usize,
        visit: &mut VisitNearest<'_>,
    ) -> Result<Flow> {
        let Batch { candidates, nearest, ranked: counts, visited, rows, visited_rows, is_abandoned } = self;
        let (several, is_mapped) = (graph.repeats_rows(), graph.is_mapped());
        if is_mapped && graph.is_damaged() {
            *is_abandoned = true;
            return Ok(Flow::Break(()));
        }
        // Many of them may be of the same few rows.
        let ranked = if several { ranked.max(candidates.len()) } else { ranked };
        if !visited.is_empty() {
            candidates.retain(|candidate| !visited.contains(candidate));
        }
        for some in candidates.chunks(ranked) {
            graph.prefetch(some);
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
            // Nothing that a damaged part has led to is visited.
            if is_mapped && graph.is_damaged() {
                *is_abandoned = true;
                return Ok(Flow::Break(()));
            }
            nearest.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let (compared, before) = counts;
            *compared += some.len();
            let trusted = match graph.trusted(*compared) {
                all if all == *compared => nearest.len(),
                some => some.saturating_sub(*before).min(nearest.len()),
            };
            *before += trusted;
            for (distance, row) in nearest.drain(..trusted) {
                if is_mapped {
                    visited_rows.push(row);
                }
                if visit(RowId(row), distance)? == Flow::Break(()) {
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
        wanted: Wanted,
        done: &mut Comparisons,
        visit: &mut VisitNearest<'_>,
    ) -> Result<()> {
        let walked = self.walk_all(graph, nodes, wanted, &mut done.vectors, visit);
        done.documents += graph.documents();
        walked
    }

    fn walk_all(
        &mut self,
        graph: &mut impl Candidates,
        nodes: usize,
        Wanted { k, ef, discards }: Wanted,
        compared: &mut u64,
        visit: &mut VisitNearest<'_>,
    ) -> Result<()> {
        self.visited.clear();
        self.rows.clear();
        self.nearest.clear();
        self.visited_rows.clear();
        self.is_abandoned = false;
        self.ranked = (0, 0);
        let mut ef = ef.max(k).max(1);
        let ranked = graph.ranked(k, ef);
        // A query that discards nothing hardly ever wants more, unless these are too few to trust.
        let mut part =
            if discards || graph.trusted(ef.min(nodes)) < k.min(nodes) { Part::First } else { Part::Whole };
        while ef <= MOST && self.visited.len() < nodes {
            *compared += graph.search(ef.min(nodes), part, &mut self.candidates)? as u64;
            if self.visit(graph, ranked, visit)? == Flow::Break(()) {
                return Ok(());
            }
            ef = ef.saturating_mul(GROWTH);
            part = if part == Part::Whole { Part::First } else { Part::Next };
        }
        if self.visited.len() < nodes {
            graph.all(&mut self.candidates)?;
            *compared += self.candidates.len() as u64;
            if self.visit(graph, ranked, visit)? == Flow::Break(()) {
                return Ok(());
            }
        }
        for (distance, row) in self.nearest.drain(..) {
            if visit(RowId(row), distance)? == Flow::Break(()) {
                break;
            }
        }
        Ok(())
    }
}

/// What a query wants of a walk: see [`Probe::Nearest`](treedb_query::access::Probe::Nearest).
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) k: usize,
    pub(super) ef: usize,
    pub(super) discards: bool,
}

/// A search of an index for the rows that are nearest to `vector`, which is one that could be in it.
pub(super) struct Search<'s, R> {
    pub(super) def: &'s VectorDef,
    pub(super) view: &'s View<'s, R>,
    pub(super) table: &'s Table,
    pub(super) vector: &'s [f32],
}

impl<R: Reads> Search<'_, R> {
    /// Visits the rows, the nearest first.
    pub(super) fn run(
        &self,
        wanted: Wanted,
        done: &mut Comparisons,
        visit: &mut VisitNearest<'_>,
    ) -> Result<()> {
        with_workspace(|workspace| self.run_with(workspace, wanted, done, visit))
    }

    /// The same with a workspace of the caller's.
    pub(super) fn run_with(
        &self,
        workspace: &mut Workspace,
        wanted: Wanted,
        done: &mut Comparisons,
        visit: &mut VisitNearest<'_>,
    ) -> Result<()> {
        let Search { def, view, table, vector } = *self;
        let nodes = usize::try_from(nodes_in(view.reads.len(table)?)).unwrap_or(usize::MAX);
        let Some(image) = view.meta.images.image(def, view, table, workspace)? else {
            return self.by_table(workspace, nodes, wanted, done, visit);
        };
        let Workspace { searcher, batch, vector: place, record, .. } = &mut *workspace;
        let documents = Documents::new(def, view, vector);
        if def.quantization.few_bits().is_some() {
            let mut graph = Coarse { documents, image: &image, searcher };
            batch.walk(&mut graph, nodes, wanted, done, visit)?;
        } else {
            let bits = bits_of(def, vector, record);
            let mut graph = Imaged { documents, image: &image, bits, searcher, place };
            batch.walk(&mut graph, nodes, wanted, done, visit)?;
        }
        if batch.is_abandoned {
            return self.after_damage(workspace, nodes, wanted, done, visit);
        }
        Ok(())
    }

    /// The same by the graph in the table, which has so many nodes.
    fn by_table(
        &self,
        workspace: &mut Workspace,
        nodes: usize,
        wanted: Wanted,
        done: &mut Comparisons,
        visit: &mut VisitNearest<'_>,
    ) -> Result<()> {
        let documents = Documents::new(self.def, self.view, self.vector);
        let graph = StoredGraph::new(self.def, self.view.reads, self.table)?;
        let query = encode_query(self.def, graph.centre.as_deref(), self.vector);
        let mut graph = Stored { documents, graph, query, scratch: Scratch::default() };
        workspace.batch.walk(&mut graph, nodes, wanted, done, visit)
    }

    /// The same for the rows that were not visited before the image turned out to be damaged.
    #[cold]
    fn after_damage(
        &self,
        workspace: &mut Workspace,
        nodes: usize,
        wanted: Wanted,
        done: &mut Comparisons,
        visit: &mut VisitNearest<'_>,
    ) -> Result<()> {
        let visited: HashSet<u64> = workspace.batch.visited_rows.drain(..).collect();
        let wanted = Wanted { discards: wanted.discards || !visited.is_empty(), ..wanted };
        self.by_table(workspace, nodes, wanted, done, &mut |row, distance| {
            if visited.contains(&row.0) { Ok(Flow::Continue(())) } else { visit(row, distance) }
        })
    }
}

/// The record of a vector of bits, written over `record`; `None` of other vectors.
pub(super) fn bits_of<'r>(def: &VectorDef, vector: &[f32], record: &'r mut Vec<u8>) -> Option<&'r [u8]> {
    if !def.metric.is_of_bits() {
        return None;
    }
    encode_vector_over(def, None, vector, record);
    Some(record)
}

/// The distance of the nearest vector of an entry.
fn least_of(def: &VectorDef, entry: &Vec<u8>, vector: &[f32]) -> Option<f32> {
    let parts = parts_of(def, Some(entry)).map(|(_, part)| def.metric.distance(vector, &floats_of(part)));
    parts.min_by(f32::total_cmp)
}

/// A [`Search`] in an open transaction: the rows of the snapshot whose vectors it has not changed, and the vectors that it has
/// added.
#[expect(clippy::too_many_arguments, reason = "the parts of a probe, and where it is answered")]
pub(super) fn nearest_uncommitted(
    def: &VectorDef,
    base: Option<&View<'_, impl Reads>>,
    index: usize,
    uncommitted: &Uncommitted<'_>,
    vector: &[f32],
    wanted: Wanted,
    done: &mut Comparisons,
    visit: &mut VisitNearest<'_>,
) -> Result<()> {
    let removed: HashSet<RowId> = uncommitted.entries.removed_rows().collect();
    let wanted = Wanted { discards: wanted.discards || !removed.is_empty(), ..wanted };
    let added = uncommitted.entries.added();
    let mut own: Vec<(f32, RowId)> =
        added.filter_map(|(entry, row)| Some((least_of(def, entry, vector)?, *row))).collect();
    own.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut own = own.into_iter().peekable();
    let mut stopped = false;
    if let Some((view, table)) = base.and_then(|view| Some((view, &view.meta.indexes.get(index)?.table))) {
        let search = Search { def, view, table, vector };
        search.run(wanted, done, &mut |row, distance| {
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
