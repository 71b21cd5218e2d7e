//! TreeDB's graph and its peers behind one trait. All link a new node to 16 others, looking at 128.

use treedb_vector::graph::Limits;
use treedb_vector::memory::{MemoryGraph, Searcher};
use treedb_vector::metric::Metric;

use super::sets::Set;
use crate::Result;

/// An index over a set, under cosine distance.
pub(crate) trait VectorIndex: Sync {
    /// Its name in tables.
    fn name(&self) -> &'static str;
    /// Searches for the `k` nearest vectors of queries, one at a time, and gives the rows found for each.
    fn search(
        &mut self,
        queries: &[Vec<f32>],
        k: usize,
        ef: usize,
        each: &mut dyn FnMut(usize, &[u32]),
    ) -> Result<()>;
    /// Bytes that it occupies, with everything that a search needs.
    fn bytes(&self) -> usize;
    /// TreeDB's graph, for what only TreeDB is asked.
    fn graph(&self) -> Option<&MemoryGraph> {
        None
    }
}

/// Links of a new node, and twice as many in level 0.
#[cfg(feature = "usearch")]
pub(super) const LINKS: usize = 16;
/// Candidates among which they are chosen.
#[cfg(feature = "usearch")]
pub(super) const CANDIDATES: usize = 128;

/// Builds an index in one thread.
type Build = fn(&Set) -> Result<Box<dyn VectorIndex>>;

/// All engines, TreeDB first.
pub(crate) fn all() -> Vec<(&'static str, Build)> {
    #[cfg_attr(not(feature = "usearch"), expect(unused_mut, reason = "peers are added to it"))]
    let mut all: Vec<(&'static str, Build)> = vec![("TreeDB", TreeDb::build)];
    #[cfg(feature = "usearch")]
    all.extend(usearch::ALL);
    #[cfg(feature = "peers")]
    all.push((super::hnswlib::Hnswlib::NAME, super::hnswlib::Hnswlib::build));
    all
}

/// Codes of 8 bits, and distances of the nearest found by 24 bits.
struct TreeDb {
    graph: MemoryGraph,
    searcher: Searcher,
}

impl TreeDb {
    fn build(set: &Set) -> Result<Box<dyn VectorIndex>> {
        let mut graph = MemoryGraph::new(Metric::Cosine, set.dimensions, Limits::default());
        for vector in &set.vectors {
            graph.insert(vector).map_err(|e| e.to_string())?;
        }
        let graph = graph.packed();
        Ok(Box::new(TreeDb { graph, searcher: Searcher::default() }))
    }
}

impl VectorIndex for TreeDb {
    fn name(&self) -> &'static str {
        "TreeDB"
    }

    fn search(
        &mut self,
        queries: &[Vec<f32>],
        k: usize,
        ef: usize,
        each: &mut dyn FnMut(usize, &[u32]),
    ) -> Result<()> {
        let mut rows = Vec::with_capacity(k);
        for (i, query) in queries.iter().enumerate() {
            let found = self.graph.search(query, k, ef, &mut self.searcher).map_err(|e| e.to_string())?;
            rows.clear();
            rows.extend(found.iter().map(|(_, row)| *row));
            each(i, &rows);
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.graph.bytes()
    }

    fn graph(&self) -> Option<&MemoryGraph> {
        Some(&self.graph)
    }
}

#[cfg(feature = "usearch")]
mod usearch {
    //! USearch with elements of three kinds.

    use usearch::{Index, IndexOptions, MetricKind, ScalarKind};

    use super::{Build, CANDIDATES, LINKS, VectorIndex};
    use crate::Result;
    use crate::vectors::Set;

    pub(super) const ALL: [(&str, Build); 3] = [
        ("USearch f32", |set| Peer::build(set, "USearch f32", ScalarKind::F32)),
        ("USearch f16", |set| Peer::build(set, "USearch f16", ScalarKind::F16)),
        ("USearch i8", |set| Peer::build(set, "USearch i8", ScalarKind::I8)),
    ];

    struct Peer {
        name: &'static str,
        index: Index,
        kind: ScalarKind,
        /// What makes the largest element of the set 127. USearch's own conversion multiplies by 127 whatever the
        /// elements are, which leaves a unit vector of many dimensions a handful of values.
        scale: f32,
    }

    impl Peer {
        fn build(set: &Set, name: &'static str, kind: ScalarKind) -> Result<Box<dyn VectorIndex>> {
            let options = IndexOptions {
                dimensions: set.dimensions,
                metric: MetricKind::Cos,
                quantization: kind,
                connectivity: LINKS,
                expansion_add: CANDIDATES,
                expansion_search: 64,
                multi: false,
            };
            let index = Index::new(&options)?;
            index.reserve(set.vectors.len())?;
            let largest = set.vectors.iter().flatten().fold(0.0f32, |most, x| most.max(x.abs()));
            let peer = Peer { name, index, kind, scale: 127.0 / largest };
            for (row, vector) in set.vectors.iter().enumerate() {
                match kind {
                    ScalarKind::I8 => peer.index.add(row as u64, &peer.scaled(vector))?,
                    _ => peer.index.add(row as u64, vector)?,
                }
            }
            Ok(Box::new(peer))
        }

        fn scaled(&self, vector: &[f32]) -> Vec<i8> {
            vector.iter().map(|x| (x * self.scale).round() as i8).collect()
        }
    }

    impl VectorIndex for Peer {
        fn name(&self) -> &'static str {
            self.name
        }

        fn search(
            &mut self,
            queries: &[Vec<f32>],
            k: usize,
            ef: usize,
            each: &mut dyn FnMut(usize, &[u32]),
        ) -> Result<()> {
            self.index.change_expansion_search(ef);
            let mut rows = Vec::with_capacity(k);
            for (i, query) in queries.iter().enumerate() {
                let found = match self.kind {
                    ScalarKind::I8 => self.index.search(&self.scaled(query), k)?,
                    _ => self.index.search(query, k)?,
                };
                rows.clear();
                rows.extend(found.keys.iter().map(|row| *row as u32));
                each(i, &rows);
            }
            Ok(())
        }

        fn bytes(&self) -> usize {
            // What it writes to a file; in memory it takes more.
            self.index.serialized_length()
        }
    }
}
