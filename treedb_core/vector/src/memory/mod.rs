//! A graph in memory.
//!
//! A node's links in level 0 and its codes are one record, so that a search reads one place for each node; the vectors
//! themselves are beside them, and only the nearest that a search has found are compared exactly.
//!
//! | module | what it holds |
//! |---|---|
//! | `records` | records of one length, aligned to cache lines |

mod records;

use std::collections::HashMap;
use std::convert::Infallible;

use records::Records;

use crate::code::{self, Coded, Factors};
use crate::graph::{self, Limits, Link, Nodes, NodesMut, Scratch, Stamps};
use crate::kernel::{self, Kernels};
use crate::metric::{Metric, Unfit};

/// Offsets in the second part of a record: the number of links, the links.
const COUNT: usize = 0;
const LINKS: usize = 4;

/// Candidates that are compared exactly, at least.
const RANKED: usize = 20;

/// Vectors, and a graph over them. Nodes are numbered from 0; the number of a removed one is used again.
#[derive(Debug)]
pub struct MemoryGraph {
    metric: Metric,
    dimensions: usize,
    limits: Limits,
    kernels: Kernels,
    /// Searches go by the vectors instead of their codes.
    exact: bool,
    entry: Option<(u32, u8)>,
    root: Option<u32>,
    /// Codes and factors from the first line on, the number of links and links from [`MemoryGraph::links_at`] on.
    records: Records,
    /// Where the second part of a record begins: at a line, since only the first part is needed of most.
    links_at: usize,
    /// Scores of the links in level 0.
    scores: Records,
    /// The vectors, little-endian, and what makes each of length 1.
    vectors: Vec<f32>,
    units: Vec<f32>,
    /// Links above level 0, of the few nodes that have any.
    above: HashMap<u32, Vec<Vec<Link<u32>>>>,
    free: Vec<u32>,
    random: u64,
    scratch: Scratch<u32, Stamps>,
}

/// A query with its codes.
#[derive(Clone, Copy, Debug)]
pub struct Query<'q> {
    vector: &'q [f32],
    unit: f32,
    coded: Coded<'q>,
}

/// What a thread needs to search; kept from one search to the next, it allocates nothing.
#[derive(Debug, Default)]
pub struct Searcher {
    scratch: Scratch<u32, Stamps>,
    codes: Vec<u8>,
    nearest: Vec<(f32, u32)>,
}

impl Searcher {
    /// How many nodes the last search has compared with its query.
    pub fn compared(&self) -> usize {
        self.scratch.compared
    }
}

impl MemoryGraph {
    /// An empty one.
    pub fn new(metric: Metric, dimensions: usize, limits: Limits) -> MemoryGraph {
        let links_at = records::lines(dimensions + Factors::BYTES);
        let record = links_at + LINKS + 4 * limits.links_below;
        MemoryGraph {
            metric,
            dimensions,
            limits,
            kernels: Kernels::best(),
            exact: metric == Metric::L1,
            entry: None,
            root: None,
            records: Records::new(record),
            links_at,
            scores: Records::new(4 * limits.links_below),
            vectors: Vec::new(),
            units: Vec::new(),
            above: HashMap::new(),
            free: Vec::new(),
            random: 0,
            scratch: Scratch::default(),
        }
    }

    /// Lets searches and links go by the vectors, not by their codes, which cannot tell vectors of few dimensions apart
    /// that are near each other and far from zero. To be called before anything is inserted.
    pub fn exact(self) -> MemoryGraph {
        MemoryGraph { exact: true, ..self }
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.units.len() - self.free.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of records, vectors and links.
    pub fn bytes(&self) -> usize {
        let above: usize =
            self.above.values().flatten().map(|links| links.len() * size_of::<Link<u32>>()).sum();
        self.records.bytes() + self.scores.bytes() + 4 * (self.vectors.len() + self.units.len()) + above
    }

    /// Adds a vector; returns its node.
    pub fn insert(&mut self, vector: &[f32]) -> Result<u32, Unfit> {
        let unit = self.metric.check(vector, self.dimensions)?;
        let node = match self.free.pop() {
            Some(node) => node,
            None => {
                self.records.push();
                self.scores.push();
                self.vectors.resize(self.vectors.len() + self.dimensions, 0.0);
                self.units.push(0.0);
                self.units.len() as u32 - 1
            }
        };
        let from = node as usize * self.dimensions;
        if let Some(place) = self.vectors.get_mut(from..from + self.dimensions) {
            place.copy_from_slice(vector);
        }
        if let Some(place) = self.units.get_mut(node as usize) {
            *place = unit;
        }
        let mut codes = vec![0; self.dimensions];
        let factors = code::encode(vector, unit, &mut codes);
        let (factors_at, count_at) = (self.dimensions, self.links_at + COUNT);
        let record = self.records.get_mut(node);
        for (place, bytes) in [(0, &codes[..]), (factors_at, &factors.to_bytes()), (count_at, &[0; 4])] {
            if let Some(place) = record.get_mut(place..place + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        }
        let level = graph::level_of(self.next_random(), &self.limits);
        if level > 0 {
            self.above.insert(node, vec![Vec::new(); usize::from(level)]);
        }
        let limits = self.limits;
        let mut scratch = std::mem::take(&mut self.scratch);
        let query = Query { vector, unit, coded: Coded { factors, codes: &codes } };
        let Ok(()) = graph::insert(self, node, level, &query, &limits, &mut scratch);
        self.scratch = scratch;
        Ok(node)
    }

    /// Removes a node that there is.
    pub fn remove(&mut self, node: u32) {
        let limits = self.limits;
        let Ok(()) = graph::delete(self, node, &limits);
        self.above.remove(&node);
        self.free.push(node);
    }

    /// What is wrong with the graph, if anything is.
    pub fn check(&self) -> Vec<graph::Damage<u32>> {
        let nodes = (0..self.units.len() as u32).filter(|node| !self.free.contains(node)).collect();
        let Ok(damage) = graph::check(self, &nodes, &self.limits);
        damage
    }

    /// The `k` nearest nodes to a vector with their distances, the nearest first. `ef` nodes are looked at more closely:
    /// the more, the better the answer, and the longer it takes.
    pub fn search<'s>(
        &self,
        vector: &[f32],
        k: usize,
        ef: usize,
        searcher: &'s mut Searcher,
    ) -> Result<&'s [(f32, u32)], Unfit> {
        let unit = self.metric.check(vector, self.dimensions)?;
        let Searcher { scratch, codes, nearest } = searcher;
        codes.resize(self.dimensions, 0);
        let factors = code::encode(vector, unit, codes);
        let query = Query { vector, unit, coded: Coded { factors, codes } };
        let Ok(()) = graph::search(self, &query, ef.max(k), scratch);
        nearest.clear();
        let ranked = scratch.pool.found().iter().take((2 * k).max(RANKED));
        for found in ranked.clone() {
            self.prefetch_vector(found.node);
        }
        nearest.extend(ranked.map(|found| (self.distance(vector, unit, found.node), found.node)));
        nearest.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        nearest.truncate(k);
        Ok(nearest)
    }

    /// The vector of a node; empty if there is none of this number.
    pub fn vector(&self, node: u32) -> &[f32] {
        let from = node as usize * self.dimensions;
        self.vectors.get(from..from + self.dimensions).unwrap_or(&[])
    }

    /// What makes the vector of a node of length 1 where only its direction counts, otherwise 1.
    pub fn unit(&self, node: u32) -> f32 {
        self.units.get(node as usize).copied().unwrap_or(0.0)
    }

    fn prefetch_vector(&self, node: u32) {
        let from = node as usize * self.dimensions;
        if let Some(vector) = self.vectors.get(from..from + self.dimensions) {
            kernel::prefetch_floats(vector);
        }
    }

    /// The metric's distance of a node; `unit` makes the vector of length 1.
    fn distance(&self, vector: &[f32], unit: f32, node: u32) -> f32 {
        let other = self.vector(node);
        match self.metric {
            Metric::Cosine => {
                let unit = unit * self.unit(node);
                1.0 - ((self.kernels.dot)(vector, other) * unit).clamp(-1.0, 1.0)
            }
            metric => metric.distance(vector, other),
        }
    }

    /// How far a node is from a vector, which `unit` makes of length 1.
    fn exact_score(&self, vector: &[f32], unit: f32, node: u32) -> f32 {
        let unit = unit * self.unit(node);
        self.metric.score(&self.kernels, vector, self.vector(node), unit)
    }

    /// The codes of a node's vector.
    pub fn coded(&self, node: u32) -> Coded<'_> {
        let (codes, rest) = self.records.get(node).split_at_checked(self.dimensions).unwrap_or_default();
        Coded { factors: Factors::from_bytes(rest), codes }
    }

    /// The links of a node in level 0.
    fn below(&self, node: u32) -> impl Iterator<Item = u32> {
        let record = self.records.get(node).get(self.links_at..).unwrap_or(&[]);
        let count = record.first_chunk().map_or(0, |count| u32::from_le_bytes(*count)) as usize;
        let links = record.get(LINKS..LINKS + 4 * count).unwrap_or(&[]);
        links.as_chunks().0.iter().map(|link| u32::from_le_bytes(*link))
    }

    /// Steele and others' splitmix64: the same graph from the same inserts.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

impl Nodes for MemoryGraph {
    type Node = u32;
    type Query<'q> = Query<'q>;
    type Error = Infallible;

    fn entry(&self) -> Result<Option<(u32, u8)>, Infallible> {
        Ok(self.entry)
    }

    #[inline]
    fn links(&self, node: u32, level: u8, out: &mut Vec<u32>) -> Result<(), Infallible> {
        out.clear();
        match level.checked_sub(1) {
            None => out.extend(self.below(node)),
            Some(at) => {
                let links = self.above.get(&node).and_then(|levels| levels.get(usize::from(at)));
                out.extend(links.into_iter().flatten().map(|link| link.node));
            }
        }
        Ok(())
    }

    #[inline]
    fn score(&self, query: &Query<'_>, node: u32) -> Result<f32, Infallible> {
        Ok(match self.exact {
            true => self.exact_score(query.vector, query.unit, node),
            false => code::score(self.metric, &self.kernels, self.coded(node), query.coded),
        })
    }

    #[inline]
    fn prefetch(&self, node: u32) {
        match self.exact {
            true => self.prefetch_vector(node),
            false => kernel::prefetch(self.records.get(node).get(..self.links_at).unwrap_or(&[])),
        }
    }

    #[inline]
    fn prefetch_links(&self, node: u32) {
        kernel::prefetch(self.records.get(node).get(self.links_at..).unwrap_or(&[]));
    }
}

impl NodesMut for MemoryGraph {
    fn root(&self) -> Result<Option<u32>, Infallible> {
        Ok(self.root)
    }

    fn set_root(&mut self, root: Option<u32>) -> Result<(), Infallible> {
        self.root = root;
        Ok(())
    }

    fn set_entry(&mut self, entry: Option<(u32, u8)>) -> Result<(), Infallible> {
        self.entry = entry;
        Ok(())
    }

    fn scored_links(&self, node: u32, level: u8, out: &mut Vec<Link<u32>>) -> Result<(), Infallible> {
        out.clear();
        match level.checked_sub(1) {
            None => {
                let scores =
                    self.scores.get(node).as_chunks().0.iter().map(|score| f32::from_le_bytes(*score));
                out.extend(self.below(node).zip(scores).map(|(node, score)| Link { score, node }));
            }
            Some(at) => {
                let links = self.above.get(&node).and_then(|levels| levels.get(usize::from(at)));
                out.extend(links.into_iter().flatten());
            }
        }
        Ok(())
    }

    fn set_links(&mut self, node: u32, level: u8, links: &[Link<u32>]) -> Result<(), Infallible> {
        match level.checked_sub(1) {
            None => {
                let links_at = self.links_at;
                let record = self.records.get_mut(node).get_mut(links_at..).unwrap_or(&mut []);
                if let Some(count) = record.first_chunk_mut() {
                    *count = (links.len() as u32).to_le_bytes();
                }
                let places = record.get_mut(LINKS..).unwrap_or(&mut []).as_chunks_mut().0;
                for (place, link) in places.iter_mut().zip(links) {
                    *place = link.node.to_le_bytes();
                }
                for (place, link) in self.scores.get_mut(node).as_chunks_mut().0.iter_mut().zip(links) {
                    *place = link.score.to_le_bytes();
                }
            }
            Some(at) => {
                let place = self.above.get_mut(&node).and_then(|levels| levels.get_mut(usize::from(at)));
                if let Some(place) = place {
                    place.clear();
                    place.extend_from_slice(links);
                }
            }
        }
        Ok(())
    }

    fn level(&self, node: u32) -> Result<u8, Infallible> {
        Ok(self.above.get(&node).map_or(0, |levels| levels.len() as u8))
    }

    fn between(&self, a: u32, b: u32) -> Result<f32, Infallible> {
        Ok(match self.exact {
            true => self.exact_score(self.vector(a), self.unit(a), b),
            false => code::score(self.metric, &self.kernels, self.coded(a), self.coded(b)),
        })
    }
}
