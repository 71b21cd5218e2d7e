//! The nearest among some of the nodes, such as those that a filter lets through.
//!
//! Few nodes are compared one by one. To find the nearest of more, the graph is walked: every node that is met leads on, but only those
//! that are wanted take one of the `ef` places, so that the walk goes on until it has found `ef` of them. Where the wanted ones are far
//! from the query, that may be most of the graph: a walk that has compared more nodes than are wanted ends, and these are compared
//! one by one after all. So a search takes at most about twice as long as comparing all nodes that are wanted.

use std::collections::BinaryHeap;

use super::MemoryGraph;
use super::search::{Query, Searcher};
use crate::graph::{self, Nodes, Pool, Scored, Scratch, Stamps, Visited};
use crate::metric::Unfit;
use crate::nearest::Nearest;

/// Nodes that a walk compares for each that it wants to find, if all are wanted, and what a node costs it that costs 1 when nodes are
/// compared one by one.
const COMPARED_PER_FOUND: usize = 13;

/// Nodes whose scores are computed at a time when they are compared one by one.
const SCORED: usize = 64;

/// Nodes that are compared, about, until the caller is asked again whether the search is to go on.
const ASKED: usize = 512;

/// How the nearest among some nodes were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// All of them were compared.
    OneByOne,
    /// By a walk through the graph.
    Walk,
    /// All of them were compared, because a walk took too long.
    AfterWalk,
}

/// What such searches need; kept from one to the next, it allocates nothing.
#[derive(Debug, Default)]
pub(super) struct Among {
    nearest: Nearest<u32>,
    /// A bit for each node that is wanted.
    wanted: Vec<u64>,
    candidates: BinaryHeap<Scored>,
    found: Pool<u32>,
    links: Vec<u32>,
    scores: Vec<f32>,
}

/// A score that compares: one that is too large for the computation, of which infinity less infinity may be left, is as far as can be.
#[inline]
fn comparable(score: f32) -> f32 {
    if score.is_nan() { f32::INFINITY } else { score }
}

impl Among {
    fn want(&mut self, nodes: &[u32]) {
        self.wanted.clear();
        let greatest = nodes.iter().max().copied().unwrap_or(0);
        self.wanted.resize(greatest as usize / 64 + 1, 0);
        for node in nodes {
            if let Some(word) = self.wanted.get_mut(*node as usize / 64) {
                *word |= 1 << (node % 64);
            }
        }
    }

    #[inline]
    fn is_wanted(&self, node: u32) -> bool {
        self.wanted.get(node as usize / 64).is_some_and(|word| word >> (node % 64) & 1 == 1)
    }

    /// Bytes of what grows with the graph, and with what was asked for.
    pub(super) fn bytes(&self) -> usize {
        let walked =
            size_of::<u64>() * self.wanted.capacity() + size_of::<Scored>() * self.candidates.capacity();
        walked + self.nearest.bytes() + self.found.bytes()
    }

    /// The score that a node must be below to be of use, once `ef` are found: until then any score will do, be it infinite.
    #[inline]
    fn limit(&self, ef: usize) -> Option<f32> {
        self.found.score(ef - 1)
    }

    /// Takes a node that was met for the first time.
    #[inline]
    fn meet(&mut self, score: f32, node: u32, ef: usize) {
        let score = comparable(score);
        if self.limit(ef).is_none_or(|limit| score < limit) {
            self.candidates.push(Scored { score, node });
            if self.is_wanted(node) {
                self.found.insert(score, node);
            }
        }
    }
}

impl MemoryGraph {
    /// About the `ef` nearest to a vector among `nodes`, each of which there is and is given once: all of them, if they are no more than
    /// `ef`. They are in [`Searcher::found_among`] then, the nearest first by what searches go by: candidates for the caller to compare
    /// exactly.
    ///
    /// # Errors
    /// What makes the vector unfit for the graph.
    pub fn search_among(
        &self,
        vector: &[f32],
        nodes: &[u32],
        ef: usize,
        searcher: &mut Searcher,
    ) -> Result<Way, Unfit> {
        let way = self.search_among_while(vector, nodes, ef, searcher, &mut || true)?;
        Ok(way.unwrap_or(Way::OneByOne))
    }

    /// The same, as long as `goes_on` says so, which is asked every five hundred nodes or so; `None` if it did not.
    ///
    /// # Errors
    /// As there.
    pub fn search_among_while(
        &self,
        vector: &[f32],
        nodes: &[u32],
        ef: usize,
        searcher: &mut Searcher,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Way>, Unfit> {
        let Searcher { scratch, codes, among, .. } = searcher;
        let (query, ef) = (self.prepare(vector, codes)?, ef.max(1));
        scratch.compared = 0;
        among.nearest.reset(ef);
        // A walk compares the more nodes, the smaller the share of those that are wanted.
        let by_walk = ef.saturating_mul(COMPARED_PER_FOUND).saturating_mul(self.len()) / nodes.len().max(1);
        let mut way = Way::OneByOne;
        if by_walk < nodes.len() {
            among.want(nodes);
            match self.walk_among(&query, ef, nodes.len(), scratch, among, goes_on) {
                None => return Ok(None),
                Some(true) => {
                    let Among { nearest, found, .. } = among;
                    found.found().for_each(|found| nearest.add(found.score, found.node));
                    return Ok(Some(Way::Walk));
                }
                Some(false) => way = Way::AfterWalk,
            }
        }
        scratch.compared += nodes.len();
        let Among { nearest, scores, .. } = among;
        for (at, nodes) in nodes.chunks(SCORED).enumerate() {
            if at % (ASKED / SCORED) == ASKED / SCORED - 1 && !goes_on() {
                return Ok(None);
            }
            let Ok(()) = self.scores(&query, nodes, scores);
            nodes.iter().zip(scores.iter()).for_each(|(node, score)| nearest.add(comparable(*score), *node));
        }
        Ok(Some(way))
    }

    /// Walks the graph until the nearest `ef` of the wanted nodes are found; false if `most` were compared before, or the walk has reached
    /// fewer; `None` if it was not to go on.
    fn walk_among(
        &self,
        query: &Query<'_>,
        ef: usize,
        most: usize,
        scratch: &mut Scratch<u32, Stamps>,
        among: &mut Among,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Option<bool> {
        let mut asked = 0;
        let Ok(()) = graph::search(self, query, 1, scratch);
        scratch.visited.clear();
        among.candidates.clear();
        among.found.reset(ef);
        for nearest in scratch.pool.found() {
            scratch.visited.insert(nearest.node);
            among.meet(nearest.score, nearest.node, ef);
        }
        while let Some(candidate) = among.candidates.pop() {
            if among.limit(ef).is_some_and(|limit| candidate.score > limit) {
                return Some(true);
            }
            if scratch.compared >= most {
                return Some(false);
            }
            if scratch.compared - asked >= ASKED {
                asked = scratch.compared;
                if !goes_on() {
                    return None;
                }
            }
            let (mut links, mut scores) =
                (std::mem::take(&mut among.links), std::mem::take(&mut among.scores));
            let Ok(()) = self.links(candidate.node, 0, &mut links);
            links.retain(|node| scratch.visited.insert(*node));
            if let Some(next) = among.candidates.peek() {
                self.prefetch_links(next.node);
            }
            let Ok(()) = self.scores(query, &links, &mut scores);
            scratch.compared += links.len();
            links.iter().zip(&scores).for_each(|(node, score)| among.meet(*score, *node, ef));
            (among.links, among.scores) = (links, scores);
        }
        Some(among.found.len() == ef)
    }
}

impl Searcher {
    /// What [`MemoryGraph::search_among`] has found: scores and nodes, the nearest first.
    pub fn found_among(&mut self) -> &[(f32, u32)] {
        self.among.nearest.sorted()
    }
}
