//! The nearest vectors to another one.

use super::MemoryGraph;
use super::among::Among;
use super::vectors::Elements;
use crate::centre;
use crate::code::{self, Coded};
use crate::few_bits::Target;
use crate::graph::{self, Part, Scratch, Stamps};
use crate::metric::{Metric, Unfit};

/// Candidates that are compared exactly, at least.
const RANKED: usize = 20;

/// A query with its codes.
#[derive(Clone, Copy, Debug)]
pub struct Query<'q> {
    pub(super) vector: Elements<'q>,
    pub(super) unit: f32,
    pub(super) coded: Coded<'q>,
    /// What codes of few bits are compared with.
    pub(super) target: Option<&'q Target>,
    /// Its scores are those that links are chosen by with a reach.
    pub(super) by_reach: bool,
}

/// The codes of a query; kept from one to the next, it allocates nothing.
#[derive(Debug, Default)]
pub(super) struct QueryCodes {
    codes: Vec<u8>,
    difference: Vec<f32>,
    target: Target,
}

/// What a thread needs to search; kept from one search to the next, it allocates nothing.
#[derive(Debug, Default)]
pub struct Searcher {
    pub(super) scratch: Scratch<u32, Stamps>,
    pub(super) codes: QueryCodes,
    pub(super) among: Among,
    nearest: Vec<(f32, u32)>,
    /// A vector whose elements are no floats of 4 bytes.
    unpacked: Vec<f32>,
}

impl Searcher {
    /// How many nodes the last search, or the last part of one, has compared with its query.
    pub fn compared(&self) -> usize {
        self.scratch.compared
    }

    /// Bytes of what grows with the graphs that it was used for, and with what was asked for.
    pub fn bytes(&self) -> usize {
        let nearest = size_of::<(f32, u32)>() * self.nearest.capacity();
        self.scratch.visited.bytes() + self.scratch.pool.bytes() + nearest + self.among.bytes()
    }
}

impl MemoryGraph {
    /// The `k` nearest nodes to a vector with their distances, the nearest first. `ef` nodes are looked at more closely:
    /// the more, the better the answer, and the longer it takes. They may be
    /// fewer than `k`, which is found all the same. Distances are what the codes tell if there is nothing else
    /// ([`MemoryGraph::with_few_bits`]).
    pub fn search<'s>(
        &self,
        vector: &[f32],
        k: usize,
        ef: usize,
        searcher: &'s mut Searcher,
    ) -> Result<&'s [(f32, u32)], Unfit> {
        let unit = self.candidates(vector, ef, k, searcher)?;
        let Searcher { scratch, nearest, unpacked, .. } = searcher;
        nearest.clear();
        let ranked = scratch.pool.found().take(self.ranked(k, ef));
        for found in ranked.clone() {
            self.vectors.prefetch(found.node);
        }
        nearest.extend(ranked.map(|found| match self.metric.is_of_bits() || self.few.is_some() {
            true => (self.distance_of(found.score), found.node),
            false => (self.distance(vector, unit, found.node, unpacked), found.node),
        }));
        nearest.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        nearest.truncate(k);
        Ok(nearest)
    }

    /// Nodes near a vector, about `ef` of them, the nearest first by what searches go by: candidates for the caller to compare
    /// exactly. Those of the parts before are among them, if this is not the first part of a search.
    pub fn search_candidates<'s>(
        &self,
        vector: &[f32],
        ef: usize,
        part: Part,
        searcher: &'s mut Searcher,
    ) -> Result<impl Iterator<Item = u32> + Clone + 's, Unfit> {
        let Searcher { scratch, codes, .. } = &mut *searcher;
        let query = self.prepare(vector, codes)?;
        let Ok(()) = graph::search_part(self, &query, ef, part, scratch);
        Ok(searcher.scratch.pool.found().map(|found| found.node))
    }

    /// Nodes near a vector that is to be linked to some of them, at most `ef`, the nearest first, with the scores that it would have if it were in the
    /// graph. That has codes that are not [of few bits](MemoryGraph::has_few_bits), and no [`Reach`](crate::centre::Reach).
    pub fn search_to_link<'s>(
        &self,
        vector: &[f32],
        ef: usize,
        searcher: &'s mut Searcher,
    ) -> Result<impl Iterator<Item = (f32, u32)> + 's, Unfit> {
        let Searcher { scratch, codes: QueryCodes { codes, difference, .. }, .. } = &mut *searcher;
        let vector = &*self.rounded(vector)?;
        let unit = self.metric.check(vector, self.dimensions)?;
        codes.resize(code::code_bytes(self.metric, self.dimensions), 0);
        let kind = (self.metric, self.element);
        let factors = centre::encode(self.centre.as_deref(), kind, (vector, unit), difference, codes);
        let (vector, coded) = (Elements::Floats(vector), Coded { factors, codes });
        let query = Query { vector, unit, coded, target: None, by_reach: false };
        let Ok(()) = graph::search_to_link(self, &query, ef, scratch);
        Ok(searcher.scratch.pool.found().map(|found| (found.score, found.node)))
    }

    /// Asks for the vector of a node before it is needed.
    #[inline]
    pub fn prefetch_vector(&self, node: u32) {
        self.vectors.prefetch(node);
    }

    /// Searches for candidates, at least `keep` if there are so many; returns what makes the vector of length 1.
    fn candidates(
        &self,
        vector: &[f32],
        ef: usize,
        keep: usize,
        searcher: &mut Searcher,
    ) -> Result<f32, Unfit> {
        let Searcher { scratch, codes, .. } = searcher;
        let query = self.prepare(vector, codes)?;
        let Ok(()) = graph::search_keeping(self, &query, ef, keep, scratch);
        Ok(query.unit)
    }

    /// How many of `ef` candidates are to be compared exactly to find `k`.
    pub fn ranked(&self, k: usize, ef: usize) -> usize {
        let by_bits = self.few.as_ref().map_or(0, |few| few.ranked(ef));
        k.saturating_mul(2).max(RANKED).max(by_bits)
    }

    /// The distance that a score of codes stands for.
    fn distance_of(&self, score: f32) -> f32 {
        match self.metric {
            // Half the squared distance of vectors of length 1.
            Metric::Cosine if self.centre.is_some() => score.max(0.0) / 2.0,
            Metric::Cosine => 1.0 + score,
            Metric::L2 => score.max(0.0).sqrt(),
            _ => score,
        }
    }

    /// A query for a vector; its codes are written over `codes`.
    pub(super) fn prepare<'q>(
        &self,
        vector: &'q [f32],
        codes: &'q mut QueryCodes,
    ) -> Result<Query<'q>, Unfit> {
        let unit = self.metric.check_query(vector, self.dimensions)?;
        let QueryCodes { codes, difference, target } = codes;
        if let Some(few) = &self.few {
            match self.centre.as_ref().filter(|centre| centre.moves_few_bits()) {
                Some(centre) => {
                    centre.subtract_from(vector, unit, difference);
                    few.aim(&self.kernels, difference, 1.0, target);
                }
                None => few.aim(&self.kernels, vector, unit, target),
            }
            let coded = Coded { factors: code::Factors::default(), codes: &[] };
            return Ok(Query {
                vector: Elements::Floats(vector),
                unit,
                coded,
                target: Some(target),
                by_reach: false,
            });
        }
        codes.resize(code::code_bytes(self.metric, self.dimensions), 0);
        let factors = match &self.centre {
            Some(centre) => centre.encode_query(vector, unit, difference, codes),
            None => code::encode_for(self.metric, self.element, vector, unit, codes),
        };
        let coded = Coded { factors, codes: &*codes };
        Ok(Query { vector: Elements::Floats(vector), unit, coded, target: None, by_reach: false })
    }

    /// The metric's distance of a node; `unit` makes the vector of length 1.
    fn distance(&self, vector: &[f32], unit: f32, node: u32, unpacked: &mut Vec<f32>) -> f32 {
        let (other, other_unit) =
            self.vectors.read(node, (self.scored(node), self.centre.as_deref()), &self.kernels, unpacked);
        match self.metric {
            Metric::Cosine => {
                let unit = unit * other_unit;
                1.0 - ((self.kernels.dot)(vector, other) * unit).clamp(-1.0, 1.0)
            }
            metric => metric.distance(vector, other),
        }
    }
}
