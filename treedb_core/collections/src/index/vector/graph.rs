//! The graph of a vector index, over the rows of its table: read by searches, changed by writes.
//!
//! A write keeps the links that it has read in memory and stores those that it has changed when it ends, since the links of a
//! node change several times while its neighbours are linked.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use treedb_query::error::{QueryError, Result};
use treedb_query::index::vector::{Metric, Quantization, VectorDef};
use treedb_storage::{Reads, Table, WriteTxn};
use treedb_vector::centre::{Centre, Reach};
use treedb_vector::graph::{self, Limits, Link, Nodes, NodesMut, Scratch, Visited};
use treedb_vector::memory::MemoryGraph;

use super::near::Near;
use super::record::{
    CENTRE, Compared, Comparison, HEAD, Head, centre_and_reach_in, centre_in, damaged, encode_links,
    encode_vector, for_each_link, level_of, links_row, vector_row,
};

/// Nodes whose links are in memory before those that have changed are stored. The nodes that one insertion meets are added.
#[cfg(not(test))]
const CACHED: usize = 32 * 1024;
/// Small in tests, so that a few rows are linked in several steps.
#[cfg(test)]
const CACHED: usize = 32;

/// How many links the nodes of an index have.
pub(super) fn limits(def: &VectorDef) -> Limits {
    Limits { links: def.links, links_below: 3 * def.links, ef: def.candidates }
}

/// A graph in memory for the vectors of an index, whose links are those that the stored one would have.
pub(super) fn empty_graph(def: &VectorDef) -> MemoryGraph {
    let graph = MemoryGraph::new(def.metric, def.dimensions, limits(def)).with_elements(def.elements);
    if def.quantization == Quantization::None { graph.exact() } else { graph }
}

/// The same, without vectors, whose codes are about a centre, if there is one.
pub(super) fn graph_about(def: &VectorDef, centre: Option<(Centre, Option<Reach>)>) -> MemoryGraph {
    let mut graph = empty_graph(def).without_vectors();
    if let Some((centre, reach)) = centre {
        graph.set_centre(Arc::new(centre));
        reach.into_iter().for_each(|reach| graph.set_reach(reach));
    }
    graph
}

/// A graph in memory for searches, to which the links of the stored one are copied.
///
/// Under cosine, elements are packed: 16 bits besides their codes of 8 bits, relative to the greatest element of the vector. For angles this is less
/// off than rounding in sums is. Other metrics keep floats: equal vectors must be exactly 0 apart, and in an inner product a small element beside a
/// great one may decide.
pub(super) fn empty_image(def: &VectorDef) -> MemoryGraph {
    let graph = empty_graph(def).without_scores();
    match (def.quantization.few_bits(), def.metric) {
        (Some(bits), _) => graph.with_few_bits(bits),
        (None, Metric::Cosine) => graph.packed(),
        _ => graph,
    }
}

/// Hashes node numbers, which need no protection: they are not chosen by users.
#[derive(Default)]
pub(super) struct NodeHasher(u64);

impl Hasher for NodeHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

pub(super) type NodeMap<V> = HashMap<u64, V, BuildHasherDefault<NodeHasher>>;
pub(super) type NodeSet = HashSet<u64, BuildHasherDefault<NodeHasher>>;

/// The nodes that a search has met.
#[derive(Debug, Default)]
pub(super) struct Met(NodeSet);

impl Visited<u64> for Met {
    fn clear(&mut self) {
        self.0.clear();
    }

    fn insert(&mut self, node: u64) -> bool {
        self.0.insert(node)
    }
}

/// The graph in a snapshot.
pub(super) struct StoredGraph<'g, R> {
    pub(super) def: &'g VectorDef,
    pub(super) reads: &'g R,
    pub(super) table: &'g Table,
    /// What its codes are about, if it is not zero.
    pub(super) centre: Option<Arc<Centre>>,
    /// What links are chosen with beside it.
    reach: Option<Reach>,
    pub(super) comparison: Comparison,
}

impl<'g, R: Reads> StoredGraph<'g, R> {
    pub(super) fn new(def: &'g VectorDef, reads: &'g R, table: &'g Table) -> Result<Self> {
        let (centre, reach) = centre_and_reach_in(def, reads, table)?.unzip();
        let comparison = Comparison::of(def, centre.as_deref());
        Ok(StoredGraph { def, reads, table, centre, reach: reach.flatten(), comparison })
    }

    pub(super) fn head(&self) -> Result<Head> {
        let mut head = Some(Head::default());
        self.reads.visit_row(self.table, HEAD, &mut |record| head = Head::decode(Some(record)))?;
        head.ok_or_else(|| damaged(self.def, "the entry point"))
    }

    /// Calls `visit` with the record of a node's vector.
    pub(super) fn with_vector<T>(&self, node: u64, visit: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let (mut visit, mut visited) = (Some(visit), None);
        self.reads.visit_row(self.table, vector_row(node), &mut |record| {
            visited = visit.take().map(|visit| visit(record));
        })?;
        visited.ok_or_else(|| damaged(self.def, "the graph"))
    }

    /// Calls `visit` with the record of a node's links; false if there is no such node.
    fn with_links(&self, node: u64, visit: &mut dyn FnMut(&[u8]) -> Option<()>) -> Result<bool> {
        let mut visited = Some(());
        let there =
            self.reads.visit_row(self.table, links_row(node), &mut |record| visited = visit(record))?;
        visited.map(|()| there).ok_or_else(|| damaged(self.def, "a node"))
    }

    fn between(&self, a: u64, b: u64) -> Result<f32> {
        self.with_vector(a, |a| self.with_vector(b, |b| self.comparison.score(b, &self.comparison.read(a))))?
    }
}

impl<R: Reads> Nodes for StoredGraph<'_, R> {
    type Node = u64;
    type Query<'q> = Compared<'q>;
    type Error = QueryError;

    fn entry(&self) -> Result<Option<(u64, u8)>> {
        Ok(self.head()?.entry)
    }

    fn links(&self, node: u64, level: u8, out: &mut Vec<u64>) -> Result<()> {
        out.clear();
        self.with_links(node, &mut |record| for_each_link(record, level, &mut |link| out.push(link.node)))?;
        Ok(())
    }

    fn score(&self, query: &Compared<'_>, node: u64) -> Result<f32> {
        self.with_vector(node, |record| self.comparison.score(record, query))
    }

    fn tied_are_copies(&self) -> bool {
        !self.def.metric.is_of_bits()
    }

    fn prefetch(&self, _: u64) {}

    fn prefetch_links(&self, _: u64) {}
}

/// The links of a node, from level 0 on, in memory.
#[derive(Debug, Clone)]
struct NodeLinks {
    levels: Vec<Vec<Link<u64>>>,
    changed: bool,
}

/// The graph with changes in memory, until [`GraphChanges::store`] stores them.
pub(super) struct GraphEdit<'g, R> {
    stored: StoredGraph<'g, R>,
    limits: Limits,
    head: Head,
    links: RefCell<NodeMap<NodeLinks>>,
    scratch: Scratch<u64, Met>,
    /// Nothing changes: links that were read may be forgotten.
    only_reads: bool,
    /// What finds nodes near one that is linked, and the vector of that.
    near: Option<(&'g Near, &'g [f32])>,
}

/// What a write has changed in the graph.
pub(super) struct GraphChanges {
    head: Head,
    links: Vec<(u64, Vec<u8>)>,
}

impl GraphChanges {
    /// Stores them.
    pub(super) fn store(self, txn: &mut WriteTxn, table: &Table) -> Result<()> {
        for (node, record) in self.links {
            txn.put_row(table, links_row(node), &record)?;
        }
        match self.head.encode() {
            Some(record) => txn.put_row(table, HEAD, &record)?,
            None => {
                txn.delete_row(table, HEAD)?;
                // No vector is left that is coded about it: those that come may need another one.
                txn.delete_row(table, CENTRE)?;
            }
        }
        Ok(())
    }
}

/// Adds vectors as nodes, except where there is such a node; returns how many were added. `near` is of before the transaction.
pub(super) fn insert_nodes(
    def: &VectorDef,
    txn: &mut WriteTxn,
    table: &Table,
    nodes: &[(u64, Vec<f32>)],
    near: Option<&Near>,
) -> Result<usize> {
    let mut new = Vec::with_capacity(nodes.len());
    let centre = centre_in(def, txn, table)?;
    for (node, vector) in nodes {
        if !has_node(txn, table, *node)? {
            let record = encode_vector(def, centre.as_deref(), vector);
            txn.put_row(table, vector_row(*node), &record)?;
            new.push((*node, record, vector.as_slice()));
        }
    }
    near.inspect(|near| near.begin(new.iter().map(|(node, ..)| *node)));
    let mut left = new.iter();
    while !left.as_slice().is_empty() {
        let changes = {
            let mut edit = GraphEdit::begin(def, txn, table)?;
            while edit.links.borrow().len() < CACHED
                && let Some((node, record, vector)) = left.next()
            {
                edit.near = edit.finder(near).map(|near| (near, *vector));
                edit.insert(*node, record)?;
                near.inspect(|near| near.link(*node));
            }
            edit.finish()
        };
        changes.store(txn, table)?;
    }
    Ok(new.len())
}

/// Whether there is such a node.
fn has_node(reads: &impl Reads, table: &Table, node: u64) -> Result<bool> {
    Ok(reads.visit_row(table, vector_row(node), &mut |_| {})?)
}

/// What is wrong with the graph over these nodes, if anything is.
pub(super) fn damage(
    def: &VectorDef,
    reads: &impl Reads,
    table: &Table,
    nodes: &BTreeSet<u64>,
) -> Result<Option<String>> {
    let graph = GraphEdit::begin_to_read(def, reads, table)?;
    let damage = graph::check(&graph, nodes, &graph.limits)?;
    Ok(damage.first().map(|first| format!("has a damaged graph: {first:?}")))
}

/// Removes a node, if it is there.
pub(super) fn remove_node(def: &VectorDef, txn: &mut WriteTxn, table: &Table, node: u64) -> Result<()> {
    if !has_node(txn, table, node)? {
        return Ok(());
    }
    let changes = {
        let mut edit = GraphEdit::begin(def, txn, table)?;
        edit.remove(node)?;
        edit.finish()
    };
    changes.store(txn, table)?;
    txn.delete_row(table, links_row(node))?;
    txn.delete_row(table, vector_row(node))?;
    Ok(())
}

impl<'g, R: Reads> GraphEdit<'g, R> {
    fn begin(def: &'g VectorDef, reads: &'g R, table: &'g Table) -> Result<Self> {
        let mut stored = StoredGraph::new(def, reads, table)?;
        stored.comparison.for_links(stored.reach);
        let head = stored.head()?;
        let (links, scratch) = (RefCell::default(), Scratch::default());
        Ok(GraphEdit { stored, limits: limits(def), head, links, scratch, only_reads: false, near: None })
    }

    /// The graph as it is, of which the links of some nodes are in memory.
    fn begin_to_read(def: &'g VectorDef, reads: &'g R, table: &'g Table) -> Result<Self> {
        Ok(GraphEdit { only_reads: true, ..Self::begin(def, reads, table)? })
    }

    fn finish(self) -> GraphChanges {
        let changed = self.links.into_inner().into_iter().filter(|(_, links)| links.changed);
        let mut links: Vec<_> = changed.map(|(node, links)| (node, encode_links(&links.levels))).collect();
        // In the order of the table.
        links.sort_unstable_by_key(|(node, _)| *node);
        GraphChanges { head: self.head, links }
    }

    fn insert(&mut self, node: u64, record: &[u8]) -> Result<()> {
        // The same graph from the same writes: levels come from the numbers of the nodes.
        let mut hasher = NodeHasher::default();
        hasher.write_u64(node);
        let level = graph::level_of(hasher.finish(), &self.limits);
        self.scratch.ranking.begin_with_child(hasher.finish() as u32 as usize);
        let levels = vec![Vec::new(); usize::from(level) + 1];
        self.links.get_mut().insert(node, NodeLinks { levels, changed: true });
        let (limits, mut scratch) = (self.limits, std::mem::take(&mut self.scratch));
        let query = self.stored.comparison.read(record);
        graph::insert(self, node, level, &query, &limits, &mut scratch)?;
        self.scratch = scratch;
        Ok(())
    }

    /// What finds nodes near one that is linked: `near`, unless it has other scores than those that links are chosen by.
    fn finder<'n>(&self, near: Option<&'n Near>) -> Option<&'n Near> {
        near.filter(|near| self.stored.reach.is_none() && near.is_of(&self.stored))
    }

    /// The score of two nodes, if what finds nodes has them.
    fn between_near(&self, a: u64, b: u64) -> Option<f32> {
        self.near.and_then(|(near, _)| near.between(a, b))
    }

    fn remove(&mut self, node: u64) -> Result<()> {
        let limits = self.limits;
        graph::delete(self, node, &limits)?;
        self.links.get_mut().remove(&node);
        Ok(())
    }

    /// Calls `visit` with the links of a node; they are read when they are first asked for.
    fn with_links<T>(&self, node: u64, visit: impl FnOnce(&mut NodeLinks) -> T) -> Result<T> {
        let mut all = self.links.borrow_mut();
        if let Some(links) = all.get_mut(&node) {
            return Ok(visit(links));
        }
        let mut levels = Vec::new();
        self.stored.with_links(node, &mut |record| {
            for level in 0..=level_of(record)? {
                let mut links = Vec::new();
                for_each_link(record, level, &mut |link| links.push(link))?;
                levels.push(links);
            }
            Some(())
        })?;
        if self.only_reads && all.len() >= CACHED {
            all.clear();
        }
        Ok(visit(all.entry(node).or_insert(NodeLinks { levels, changed: false })))
    }
}

impl<R: Reads> Nodes for GraphEdit<'_, R> {
    type Node = u64;
    type Query<'q> = Compared<'q>;
    type Error = QueryError;

    fn entry(&self) -> Result<Option<(u64, u8)>> {
        Ok(self.head.entry)
    }

    fn links(&self, node: u64, level: u8, out: &mut Vec<u64>) -> Result<()> {
        out.clear();
        self.with_links(node, |links| {
            out.extend(links.levels.get(usize::from(level)).into_iter().flatten().map(|link| link.node));
        })
    }

    fn score(&self, query: &Compared<'_>, node: u64) -> Result<f32> {
        self.stored.score(query, node)
    }

    fn tied_are_copies(&self) -> bool {
        self.stored.tied_are_copies()
    }

    fn prefetch(&self, _: u64) {}

    fn prefetch_links(&self, _: u64) {}
}

impl<R: Reads> NodesMut for GraphEdit<'_, R> {
    fn root(&self) -> Result<Option<u64>> {
        Ok(self.head.root)
    }

    fn set_root(&mut self, root: Option<u64>) -> Result<()> {
        self.head.root = root;
        Ok(())
    }

    fn set_entry(&mut self, entry: Option<(u64, u8)>) -> Result<()> {
        self.head.entry = entry;
        Ok(())
    }

    fn scored_links(&self, node: u64, level: u8, out: &mut Vec<Link<u64>>) -> Result<()> {
        out.clear();
        self.with_links(node, |links| {
            out.extend(links.levels.get(usize::from(level)).into_iter().flatten());
        })
    }

    fn set_links(&mut self, node: u64, level: u8, links: &[Link<u64>]) -> Result<()> {
        self.with_links(node, |own| {
            own.changed = true;
            if let Some(own) = own.levels.get_mut(usize::from(level)) {
                own.clear();
                own.extend_from_slice(links);
            }
        })
    }

    fn nearest(
        &self,
        query: &Compared<'_>,
        _: &[(f32, u64)],
        ef: usize,
        out: &mut Vec<(f32, u64)>,
    ) -> Result<bool> {
        self.near.map_or(Ok(false), |(near, vector)| near.nearest(&self.stored, (vector, query), ef, out))
    }

    fn level(&self, node: u64) -> Result<u8> {
        self.with_links(node, |links| links.levels.len().saturating_sub(1) as u8)
    }

    fn between(&self, a: u64, b: u64) -> Result<f32> {
        self.between_near(a, b).map_or_else(|| self.stored.between(a, b), Ok)
    }

    fn first_within(
        &self,
        node: u64,
        score: f32,
        others: &[u64],
        is_left_out: impl Fn(usize) -> bool,
    ) -> Result<Option<usize>> {
        let comparison = &self.stored.comparison;
        self.stored.with_vector(node, |record| {
            let own = comparison.read(record);
            for (at, other) in others.iter().enumerate() {
                if is_left_out(at) {
                    continue;
                }
                let between = match self.between_near(node, *other) {
                    Some(score) => score,
                    None => self.stored.with_vector(*other, |other| comparison.score(other, &own))?,
                };
                if between <= score {
                    return Ok(Some(at));
                }
            }
            Ok(None)
        })?
    }

    fn is_copy(&self, a: u64, b: u64) -> Result<bool> {
        self.stored.with_vector(a, |a| self.stored.with_vector(b, |b| a == b))?
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use treedb_storage::disk::SimDisk;
    use treedb_testing::Rng;

    use super::*;
    use crate::IndexSpec;

    #[test]
    fn a_check_of_a_graph_keeps_the_links_of_some_of_its_nodes_only() {
        let db = crate::tests::open(&SimDisk::new()).unwrap();
        let things = db.collection("shop.things").unwrap();
        let document = |n: i32| rawdoc! { "_id": n, "v": [n % 17, n % 31] };
        things.insert_many(&(0..500).map(document).collect::<Vec<_>>(), true).unwrap();
        let definition = rawdoc! { "path": "v", "numDimensions": 2, "similarity": "euclidean" };
        things.create_index(IndexSpec::vector(definition)).unwrap();
        let reads = db.store().begin_read().unwrap();
        let table = reads.table("index/1/1").unwrap().unwrap();
        let def = VectorDef::new("v", 2, Metric::L2);
        let graph = GraphEdit::begin_to_read(&def, &reads, &table).unwrap();
        assert_eq!(graph::check(&graph, &(1..=500).collect(), &graph.limits).unwrap(), []);
        let kept = graph.links.borrow().len();
        assert!((1..=CACHED).contains(&kept), "{kept}");
    }

    #[test]
    fn the_image_and_the_table_link_a_new_node_to_the_same_nodes() {
        for (seed, (similarity, quantization)) in (1..).zip([
            ("cosine", "scalar"),
            ("cosine", "none"),
            ("euclidean", "scalar"),
            ("euclidean", "none"),
            ("dotProduct", "scalar"),
            ("manhattan", "none"),
            ("hamming", "none"),
        ]) {
            let mut rng = Rng::new(seed);
            let db = crate::tests::open(&SimDisk::new()).unwrap();
            let things = db.collection("shop.things").unwrap();
            let bits = similarity == "hamming";
            let vector = |rng: &mut Rng| -> Vec<f32> {
                // A tenth are copies of one of a few.
                let mut rng =
                    if rng.below(10) == 0 { Rng::new(rng.below(5) as u64) } else { Rng::new(rng.next_u64()) };
                (0..16)
                    .map(|_| if bits { rng.below(2) as f32 } else { rng.below(2001) as f32 / 1000.0 - 0.99 })
                    .collect()
            };
            let document = |id: i32, vector: &[f32]| {
                let vector: bson::RawArrayBuf = vector
                    .iter()
                    .map(|element| {
                        if bits { bson::RawBson::Int32(*element as i32) } else { f64::from(*element).into() }
                    })
                    .collect();
                rawdoc! { "_id": id, "v": vector }
            };
            let all: Vec<_> = (0..700).map(|id| document(id, &vector(&mut rng))).collect();
            things.insert_many(&all, true).unwrap();
            let definition = rawdoc! {
                "path": "v", "numDimensions": 16, "similarity": similarity, "quantization": quantization,
                "hnswOptions": { "maxEdges": 8, "numEdgeCandidates": 40 },
            };
            things.create_index(IndexSpec::vector(definition).name("near")).unwrap();
            let search = |rng: &mut Rng| {
                let request = crate::VectorSearchRequest::new("near", vector(rng), 1);
                things.vector_search(&request).unwrap();
            };
            (0..40).for_each(|_| search(&mut rng));
            assert_eq!(db.vector_memory_use().images, 1, "{similarity} {quantization}");
            let namespace = crate::catalog::namespace::Namespace::parse("shop.things").unwrap();
            let mut compared = 0;
            for round in 0..30 {
                // The next one has the image follow this.
                things.insert_one(document(1000 + round, &vector(&mut rng))).unwrap();
                let mut txn = db.store().begin_write().unwrap();
                let meta = db.inner.catalog.find(&txn, &namespace).unwrap().unwrap();
                let (def, index) =
                    meta.indexes.iter().find_map(|index| Some((index.def.as_vector()?, index))).unwrap();
                let table = &index.table;
                let near = Near::before(def, &txn, &meta, index).unwrap().expect("there is an image");
                let (new, node) = (vector(&mut rng), 5000);
                let centre = centre_in(def, &txn, table).unwrap();
                let record = encode_vector(def, centre.as_deref(), &new);
                txn.put_row(table, vector_row(node), &record).unwrap();
                assert!(Near::before(def, &txn, &meta, index).unwrap().is_none(), "the table has changed");
                near.begin([node]);
                let mut edit = GraphEdit::begin(def, &txn, table).unwrap();
                edit.links.get_mut().insert(node, NodeLinks { levels: vec![Vec::new()], changed: true });
                let plan = |edit: &GraphEdit<'_, WriteTxn>| {
                    let mut scratch = Scratch::<u64, Met>::default();
                    let query = edit.stored.comparison.read(&record);
                    // Of a node above level 0, the table is searched from more nodes.
                    graph::plan(edit, node, 0, &query, &[], &limits(def), &mut scratch).unwrap()
                };
                let by_table = plan(&edit);
                edit.near = edit.finder(Some(&near)).map(|near| (near, new.as_slice()));
                assert!(edit.near.is_some());
                let mut found = Vec::new();
                assert!(edit.nearest(&edit.stored.comparison.read(&record), &[], 40, &mut found).unwrap());
                for pair in found.windows(2) {
                    let [(_, a), (_, b)] = pair else { continue };
                    let score = near.between(*a, *b).expect("the image has them");
                    assert_eq!(score.to_bits(), edit.stored.between(*a, *b).unwrap().to_bits());
                    assert_eq!(near.between(*a, node), None);
                }
                compared += found.len();
                let by_image = plan(&edit);
                assert_eq!(
                    format!("{by_table:?}"),
                    format!("{by_image:?}"),
                    "{similarity} {quantization} {round}"
                );
            }
            assert!(compared > 1000, "{compared}");
        }
    }
}
