//! TreeDB's graph and its peers behind one trait. All link a new node to 16 others, looking at 128.

use treedb_vector::graph::Limits;
use treedb_vector::memory::{Builder, MemoryGraph, Searcher, Undisturbed};
use treedb_vector::metric::Metric;

use super::sets::Set;
use crate::Result;

/// What searches a set by an index, under cosine distance.
pub(crate) trait VectorSearch {
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
}

/// An index over a set in memory.
pub(crate) trait VectorIndex: VectorSearch + Sync {
    /// A search among rows whose number in its thousand is below `part`; false from an engine that has no such search.
    fn search_filtered(
        &mut self,
        queries: &[Vec<f32>],
        k: usize,
        ef: usize,
        part: u32,
        each: &mut dyn FnMut(usize, &[u32]),
    ) -> Result<bool> {
        let _ = (queries, k, ef, part, each);
        Ok(false)
    }
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

/// Builds an index with so many threads.
type Build = fn(&Set, usize) -> Result<Box<dyn VectorIndex>>;

/// An engine.
pub(crate) struct Engine {
    /// Its name in tables.
    pub(crate) name: &'static str,
    pub(crate) build: Build,
    /// Whether it can build an index with several threads.
    pub(crate) has_threads: bool,
}

impl Engine {
    const fn new(name: &'static str, build: Build) -> Engine {
        Engine { name, build, has_threads: true }
    }
}

/// All engines, TreeDB first.
pub(crate) fn all() -> Vec<Engine> {
    #[cfg_attr(not(feature = "usearch"), expect(unused_mut, reason = "peers are added to it"))]
    let mut all = vec![Engine::new("TreeDB", |set, threads| TreeDb::build(set, threads, Limits::default()))];
    #[cfg(feature = "usearch")]
    all.extend(usearch::ALL);
    #[cfg(feature = "peers")]
    all.push(Engine {
        name: super::hnswlib::Hnswlib::NAME,
        build: |set, _| super::hnswlib::Hnswlib::build(set),
        has_threads: false,
    });
    all
}

/// TreeDB's graph whose nodes choose their links among so many candidates.
pub(crate) fn with_candidates(set: &Set, threads: usize, candidates: usize) -> Result<Box<dyn VectorIndex>> {
    TreeDb::build(set, threads, Limits { ef: candidates, ..Limits::default() })
}

/// Codes of 8 bits, and distances of the nearest found by 24 bits.
struct TreeDb {
    graph: MemoryGraph,
    searcher: Searcher,
}

impl TreeDb {
    fn build(set: &Set, threads: usize, limits: Limits) -> Result<Box<dyn VectorIndex>> {
        let graph = MemoryGraph::new(Metric::Cosine, set.dimensions, limits);
        let mut builder = Builder::new(graph, threads, Undisturbed);
        for vector in &set.vectors {
            builder.add(vector).map_err(|e| e.to_string())?;
        }
        let graph = builder.finish().packed();
        Ok(Box::new(TreeDb { graph, searcher: Searcher::default() }))
    }
}

impl VectorSearch for TreeDb {
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
}

impl VectorIndex for TreeDb {
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

    use std::sync::atomic::{AtomicUsize, Ordering};

    use usearch::{Index, IndexOptions, MetricKind, ScalarKind};

    use super::{CANDIDATES, Engine, LINKS, VectorIndex, VectorSearch};
    use crate::Result;
    use crate::vectors::Set;

    pub(super) const ALL: [Engine; 3] = [
        Engine::new("USearch f32", |set, threads| Peer::build(set, threads, "USearch f32", ScalarKind::F32)),
        Engine::new("USearch f16", |set, threads| Peer::build(set, threads, "USearch f16", ScalarKind::F16)),
        Engine::new("USearch i8", |set, threads| Peer::build(set, threads, "USearch i8", ScalarKind::I8)),
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
        fn build(
            set: &Set,
            threads: usize,
            name: &'static str,
            kind: ScalarKind,
        ) -> Result<Box<dyn VectorIndex>> {
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
            index.reserve_capacity_and_threads(set.vectors.len(), threads)?;
            let largest = set.vectors.iter().flatten().fold(0.0f32, |most, x| most.max(x.abs()));
            let peer = Peer { name, index, kind, scale: 127.0 / largest };
            // Each thread takes the next vector, as the order of insertion would be with one.
            let next = AtomicUsize::new(0);
            let add = || -> Result<()> {
                loop {
                    let row = next.fetch_add(1, Ordering::Relaxed);
                    let Some(vector) = set.vectors.get(row) else { return Ok(()) };
                    match kind {
                        ScalarKind::I8 => peer.index.add(row as u64, &peer.scaled(vector))?,
                        _ => peer.index.add(row as u64, vector)?,
                    }
                }
            };
            let added: Result<()> = std::thread::scope(|scope| {
                let others: Vec<_> =
                    (1..threads).map(|_| scope.spawn(|| add().map_err(|e| e.to_string()))).collect();
                add()?;
                for other in others {
                    other.join().map_err(|_| "a thread failed")??;
                }
                Ok(())
            });
            added?;
            Ok(Box::new(peer))
        }

        fn scaled(&self, vector: &[f32]) -> Vec<i8> {
            vector.iter().map(|x| (x * self.scale).round() as i8).collect()
        }
    }

    impl VectorSearch for Peer {
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
    }

    impl VectorIndex for Peer {
        fn search_filtered(
            &mut self,
            queries: &[Vec<f32>],
            k: usize,
            ef: usize,
            part: u32,
            each: &mut dyn FnMut(usize, &[u32]),
        ) -> Result<bool> {
            if self.kind == ScalarKind::I8 {
                return Ok(false);
            }
            self.index.change_expansion_search(ef);
            let mut rows = Vec::with_capacity(k);
            for (i, query) in queries.iter().enumerate() {
                let found = self.index.filtered_search(query, k, |row| row % 1000 < u64::from(part))?;
                rows.clear();
                rows.extend(found.keys.iter().map(|row| *row as u32));
                each(i, &rows);
            }
            Ok(true)
        }

        fn bytes(&self) -> usize {
            // What it writes to a file; in memory it takes more.
            self.index.serialized_length()
        }
    }
}
