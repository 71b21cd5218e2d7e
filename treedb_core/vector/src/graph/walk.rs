//! A search that goes on for as long as its caller asks for more nodes.
//!
//! It knows two kinds of nodes. Candidates have been met, and their scores are estimated, if the store can do that from the
//! node that they were met from ([`Nodes::estimates`]). Results have been expanded, and their scores are those of the store.
//! The candidate that is nearest by its estimate is expanded next, until there are as many results as the caller wants to
//! choose from, and no candidate is nearer than the last of those. So what is found depends on estimates only in how many
//! nodes are expanded, and an estimate that is too high delays a node but does not lose it.
//!
//! A node that is met again has another estimate, and is a candidate by the mean of both, weighted by how exact they are. Most
//! candidates are never expanded: those beyond what is wanted now wait in no order.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashSet, VecDeque};

use super::search::descend_all;
use super::store::{Estimate, Nodes};
use crate::kernel;

/// A node that was found, and its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    /// How far it is: the less, the nearer.
    pub score: f32,
    /// The node.
    pub node: u32,
}

impl Eq for Scored {}

impl PartialOrd for Scored {
    fn partial_cmp(&self, other: &Scored) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scored {
    /// The nearest is the greatest, which a heap returns first.
    fn cmp(&self, other: &Scored) -> Ordering {
        other.score.total_cmp(&self.score).then(other.node.cmp(&self.node))
    }
}

/// A node that may be expanded.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// What it is expanded in the order of: its score may well be as low as this. A node that was met again may have a higher
    /// one by now.
    key: f32,
    node: u32,
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Candidate) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Candidate) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Candidate) -> Ordering {
        other.key.total_cmp(&self.key).then(other.node.cmp(&self.node))
    }
}

/// How far scores may lie below their estimates, in standard errors, before a node is found too late.
///
/// For the first nodes it is cheaper to keep some more results; who goes on wants them in order. (Measured on 72 dimensions of
/// noise, and on clusters in 64 to 384.)
const FIRST: f32 = 0.25;
const GOING_ON: f32 = 1.0;

/// Waiting candidates that are put in order at a time, at least, and the share of them: a small heap stays in the cache.
const BATCH: usize = 64;
const SHARE: usize = 16;

/// A search, and what it has found. Kept from one search to the next, it allocates nothing.
#[derive(Debug, Default)]
pub struct Walk {
    candidates: BinaryHeap<Candidate>,
    /// Candidates beyond `limit`, in no order, and the least key of them.
    waiting: Vec<Candidate>,
    least: f32,
    limit: f32,
    results: Results,
    met: Met,
    /// How many nodes have been compared with the query.
    compared: usize,
    caution: f32,
    /// A node was removed before its links were read: what they led to may not have been met.
    lost: bool,
    /// Nodes that were expanded before the search began again, and how often it did.
    before: HashSet<u32>,
    tries: usize,
    links: Vec<u32>,
    scores: Vec<f32>,
    estimates: Vec<Estimate<u32>>,
}

/// How often a search begins again whose node was unlinked under it.
const TRIES: usize = 16;

impl Walk {
    /// Bytes of memory that it keeps, about.
    pub fn bytes(&self) -> usize {
        let candidates = self.candidates.capacity() + self.waiting.capacity();
        let results = self.results.near.capacity() + self.results.far.capacity();
        size_of::<Candidate>() * candidates
            + size_of::<Scored>() * results
            + size_of::<Place>() * self.met.places.capacity()
    }

    /// How many nodes have been compared with the query.
    pub fn compared(&self) -> usize {
        self.compared
    }

    /// Begins a search where the descent through the levels above level 0 has led to.
    ///
    /// The graph may change meanwhile. If that node was unlinked before its links in level 0 were read, they lead nowhere,
    /// and the search begins again.
    pub fn begin<S: Nodes<Node = u32>>(&mut self, store: &S, query: &S::Query<'_>) -> Result<(), S::Error> {
        for _ in 0..TRIES {
            self.clear();
            let Some(nearest) =
                descend_all(store, query, (&mut self.links, &mut self.scores), &mut self.compared)?
            else {
                return Ok(());
            };
            self.from(store, query, &[nearest])?;
            let has_links = self.met.count > 1;
            // The only node there is has no links either.
            if has_links || store.entry()?.is_none_or(|(entry, _)| entry == nearest.1) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Begins again when there are no candidates left, if nodes have been removed that could have led to others. Nodes that have
    /// been expanded lead on then, but are no results again. False if the whole graph has been seen.
    fn begin_again<S: Nodes<Node = u32>>(
        &mut self,
        store: &S,
        query: &S::Query<'_>,
    ) -> Result<bool, S::Error> {
        if !std::mem::take(&mut self.lost) || self.tries == TRIES {
            return Ok(false);
        }
        self.tries += 1;
        let known = self.before.len();
        self.before.extend(self.met.expanded());
        if self.tries > 1 && self.before.len() == known {
            return Ok(false);
        }
        self.met.clear();
        (self.least, self.limit) = (f32::INFINITY, f32::INFINITY);
        let Some(nearest) =
            descend_all(store, query, (&mut self.links, &mut self.scores), &mut self.compared)?
        else {
            return Ok(false);
        };
        self.from(store, query, &[nearest])?;
        Ok(true)
    }

    /// Begins a search in level 0 at these nodes, whose scores are known.
    pub fn begin_at<S: Nodes<Node = u32>>(
        &mut self,
        store: &S,
        query: &S::Query<'_>,
        nodes: &[(f32, u32)],
    ) -> Result<(), S::Error> {
        self.clear();
        self.from(store, query, nodes)
    }

    fn clear(&mut self) {
        self.candidates.clear();
        self.waiting.clear();
        self.results.clear();
        self.met.clear();
        self.before.clear();
        (self.compared, self.caution, self.lost, self.tries) = (0, FIRST, false, 0);
        (self.least, self.limit) = (f32::INFINITY, f32::INFINITY);
    }

    fn from<S: Nodes<Node = u32>>(
        &mut self,
        store: &S,
        query: &S::Query<'_>,
        nodes: &[(f32, u32)],
    ) -> Result<(), S::Error> {
        self.results.widen(nodes.len());
        for (score, node) in nodes {
            self.meet(Estimate { node: *node, score: *score, error: 0.0 });
        }
        for (score, node) in nodes {
            self.expand(store, query, Estimate { node: *node, score: *score, error: 0.0 }, true)?;
        }
        Ok(())
    }

    /// Goes on until there are `wanted` results, and no candidate is nearer than the last of them, or until the whole graph
    /// has been seen. Once `most` nodes have been compared with the query, only nodes that were met before are expanded.
    pub fn search<S: Nodes<Node = u32>>(
        &mut self,
        store: &S,
        query: &S::Query<'_>,
        wanted: usize,
        most: usize,
    ) -> Result<(), S::Error> {
        self.results.widen(wanted);
        loop {
            let nearest = self.candidates.peek().map_or(f32::INFINITY, |candidate| candidate.key);
            if self.results.has(wanted, nearest.min(self.least)) {
                // Until more are wanted, none that is farther will be.
                self.limit = self.limit.min(nearest);
                return Ok(());
            }
            if !self.waiting.is_empty() && (self.least <= nearest || self.candidates.is_empty()) {
                self.order_next();
                continue;
            }
            let Some(candidate) = self.candidates.pop() else {
                if self.compared < most && self.begin_again(store, query)? {
                    continue;
                }
                return Ok(());
            };
            let Some(estimate) = self.met.unexpanded(candidate.node) else { continue };
            let key = self.key(&estimate);
            if key > candidate.key {
                self.add(Candidate { key, ..candidate });
                continue;
            }
            // Maybe the next one, while this one is read.
            if let Some(next) = self.candidates.peek() {
                store.prefetch_links(next.node);
            }
            self.expand(store, query, estimate, self.compared < most)?;
            self.limit = self.limit.min(self.results.last(wanted));
        }
    }

    /// What a candidate is expanded in the order of.
    #[inline]
    fn key(&self, estimate: &Estimate<u32>) -> f32 {
        estimate.score - self.caution * estimate.error
    }

    #[inline]
    fn add(&mut self, candidate: Candidate) {
        if candidate.key > self.limit {
            self.least = self.least.min(candidate.key);
            self.waiting.push(candidate);
        } else {
            self.candidates.push(candidate);
        }
    }

    /// Puts the next of the candidates that wait in order.
    fn order_next(&mut self) {
        let count = (self.waiting.len() / SHARE).max(BATCH);
        let mut least = f32::INFINITY;
        if count < self.waiting.len() {
            let (_, next, _) = self.waiting.select_nth_unstable_by(count, |a, b| a.key.total_cmp(&b.key));
            least = next.key;
        }
        self.candidates.extend(self.waiting.drain(..count.min(self.waiting.len())));
        (self.least, self.limit) = (least, least);
    }

    /// From now on nodes are to be found in order, as far as estimates can tell.
    pub fn go_on(&mut self) {
        if self.caution != GOING_ON {
            self.caution = GOING_ON;
            self.waiting.extend(self.candidates.drain());
            let (met, caution) = (&self.met, self.caution);
            self.waiting.retain_mut(|candidate| match met.unexpanded(candidate.node) {
                Some(estimate) => {
                    candidate.key = estimate.score - caution * estimate.error;
                    true
                }
                None => false,
            });
            self.order_next();
        }
    }

    /// The results, the nearest first: as many as were wanted last, or a few more.
    pub fn found(&self) -> impl Iterator<Item = Scored> {
        self.results.near.iter().copied()
    }

    /// How many results there are, up to as many as were wanted last.
    pub fn count(&self) -> usize {
        self.results.near.len()
    }

    /// Takes the nearest result away.
    pub fn take(&mut self) -> Option<Scored> {
        self.results.take()
    }

    /// Makes a node a candidate.
    #[inline]
    fn meet(&mut self, estimate: Estimate<u32>) {
        let node = estimate.node;
        match self.met.meet(estimate) {
            Meeting::First => {
                self.compared += 1;
                self.add(Candidate { key: self.key(&estimate), node });
            }
            Meeting::Again { before, now } => {
                let key = self.key(&now);
                // One with a higher key is put in its place when it is about to be expanded.
                if key < self.key(&before) {
                    self.add(Candidate { key, node });
                }
            }
            Meeting::Expanded => {}
        }
    }

    /// Makes a candidate a result, and the nodes that it links to candidates, if `follow` says so.
    fn expand<S: Nodes<Node = u32>>(
        &mut self,
        store: &S,
        query: &S::Query<'_>,
        candidate: Estimate<u32>,
        follow: bool,
    ) -> Result<(), S::Error> {
        let node = candidate.node;
        self.met.expand(node);
        let mut estimates = std::mem::take(&mut self.estimates);
        let score = match store.estimates(query, node, &mut estimates)? {
            Some(score) => score,
            None => {
                estimates.clear();
                if follow {
                    self.compare(store, query, node, &mut estimates)?;
                }
                candidate.score
            }
        };
        if follow {
            // All places are asked for before the first of them is needed.
            for estimate in &estimates {
                self.met.prefetch(estimate.node);
            }
            for estimate in &estimates {
                self.meet(*estimate);
            }
        }
        self.estimates = estimates;
        // Infinitely far is what has been removed.
        if score == f32::INFINITY {
            self.lost = true;
        } else if !self.before.contains(&node) {
            self.results.insert(Scored { score, node });
        }
        Ok(())
    }

    /// Asks a store that cannot estimate scores for those of the nodes that a node links to and that are new.
    fn compare<S: Nodes<Node = u32>>(
        &mut self,
        store: &S,
        query: &S::Query<'_>,
        node: u32,
        out: &mut Vec<Estimate<u32>>,
    ) -> Result<(), S::Error> {
        store.links(node, 0, &mut self.links)?;
        self.lost |= self.links.is_empty();
        let met = &self.met;
        self.links.retain(|node| !met.has(*node));
        for node in &self.links {
            store.prefetch(*node);
        }
        for node in &self.links {
            out.push(Estimate { node: *node, score: store.score(query, *node)?, error: 0.0 });
        }
        Ok(())
    }
}

/// Results in order: those that are wanted next in a list, the others in a heap.
#[derive(Debug, Default)]
struct Results {
    /// The nearest first; none of the others is nearer than the last of these.
    near: VecDeque<Scored>,
    far: BinaryHeap<Scored>,
    wanted: usize,
}

impl Results {
    fn clear(&mut self) {
        self.near.clear();
        self.far.clear();
        self.wanted = 0;
    }

    /// Lets the list have so many, if there are so many.
    fn widen(&mut self, wanted: usize) {
        self.wanted = wanted;
        while self.near.len() < wanted {
            let Some(next) = self.far.pop() else { return };
            self.near.push_back(next);
        }
    }

    /// Whether there are so many that are no farther than this.
    fn has(&self, wanted: usize, score: f32) -> bool {
        wanted.checked_sub(1).is_none_or(|last| self.near.get(last).is_some_and(|last| last.score <= score))
    }

    /// The score of the last one of so many; infinity if there are fewer.
    fn last(&self, wanted: usize) -> f32 {
        wanted.checked_sub(1).and_then(|last| self.near.get(last)).map_or(f32::INFINITY, |last| last.score)
    }

    fn insert(&mut self, new: Scored) {
        let is_near = self.near.len() < self.wanted && self.far.is_empty();
        if !is_near && self.near.back().is_none_or(|last| new < *last) {
            self.far.push(new);
            return;
        }
        let place = self.near.partition_point(|known| *known >= new);
        self.near.insert(place, new);
        if self.near.len() > self.wanted {
            self.far.extend(self.near.pop_back());
        }
    }

    fn take(&mut self) -> Option<Scored> {
        let first = self.near.pop_front();
        if self.near.is_empty() {
            self.near.extend(self.far.pop());
        }
        first.or_else(|| self.near.pop_front())
    }
}

/// What meeting a node is.
enum Meeting {
    First,
    /// It was met before; what is known of its score has changed.
    Again {
        before: Estimate<u32>,
        now: Estimate<u32>,
    },
    Expanded,
}

/// The nodes that a search has met, and what it knows of their scores: a hash table with open addressing.
#[derive(Debug, Default)]
struct Met {
    places: Vec<Place>,
    /// Places of other searches than this one are free.
    now: u32,
    count: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    search: u32,
    node: u32,
    /// The mean of the estimates.
    score: f32,
    /// Its error, [`EXPANDED`] of nodes that have been expanded.
    error: f32,
}

const EXPANDED: f32 = -1.0;

impl Place {
    fn estimate(&self) -> Estimate<u32> {
        Estimate { node: self.node, score: self.score, error: self.error }
    }
}

impl Met {
    fn clear(&mut self) {
        if self.places.is_empty() {
            self.places.resize(4096, Place::default());
        }
        self.count = 0;
        self.now = match self.now.checked_add(1) {
            Some(now) => now,
            None => {
                self.places.fill(Place::default());
                1
            }
        };
    }

    /// The place where a node would be in an empty table.
    #[inline]
    fn first_place(places: &[Place], node: u32) -> usize {
        // Fibonacci hashing.
        (u64::from(node).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & places.len().wrapping_sub(1)
    }

    /// The place that a node has, or would have.
    #[inline]
    fn place(places: &[Place], now: u32, node: u32) -> usize {
        let mask = places.len().wrapping_sub(1);
        let mut at = Met::first_place(places, node);
        while places.get(at).is_some_and(|place| place.search == now && place.node != node) {
            at = (at + 1) & mask;
        }
        at
    }

    #[inline]
    fn known(&self, node: u32) -> Option<&Place> {
        self.places.get(Met::place(&self.places, self.now, node)).filter(|place| place.search == self.now)
    }

    /// Asks the processor to bring the place of a node nearer.
    #[inline]
    fn prefetch(&self, node: u32) {
        let at = Met::first_place(&self.places, node);
        if let Some(place) = self.places.get(at) {
            kernel::prefetch(std::slice::from_ref(place));
        }
    }

    fn has(&self, node: u32) -> bool {
        self.known(node).is_some()
    }

    /// What is known of the score of a node that has not been expanded.
    #[inline]
    fn unexpanded(&self, node: u32) -> Option<Estimate<u32>> {
        self.known(node).filter(|place| place.error != EXPANDED).map(Place::estimate)
    }

    #[inline]
    fn meet(&mut self, new: Estimate<u32>) -> Meeting {
        if 2 * self.count >= self.places.len() {
            self.grow();
        }
        let at = Met::place(&self.places, self.now, new.node);
        let Some(place) = self.places.get_mut(at) else { return Meeting::Expanded };
        if place.search != self.now {
            *place = Place { search: self.now, node: new.node, score: new.score, error: new.error };
            self.count += 1;
            return Meeting::First;
        }
        if place.error == EXPANDED {
            return Meeting::Expanded;
        }
        // Weighted by the squares of the other one's error. What is known exactly stays as it is.
        let before = place.estimate();
        let (old, other) = (before.error * before.error, new.error * new.error);
        let sum = old + other;
        if old > 0.0 && sum.is_finite() {
            let share = old / sum;
            place.score += share * (new.score - before.score);
            place.error = (share * other).sqrt();
        }
        Meeting::Again { before, now: place.estimate() }
    }

    /// The nodes that have been expanded.
    fn expanded(&self) -> impl Iterator<Item = u32> {
        let own = self.places.iter().filter(|place| place.search == self.now && place.error == EXPANDED);
        own.map(|place| place.node)
    }

    fn expand(&mut self, node: u32) {
        let at = Met::place(&self.places, self.now, node);
        if let Some(place) = self.places.get_mut(at) {
            place.error = EXPANDED;
        }
    }

    fn grow(&mut self) {
        let larger = vec![Place::default(); (2 * self.places.len()).max(4096)];
        let old = std::mem::replace(&mut self.places, larger);
        for place in old.into_iter().filter(|place| place.search == self.now) {
            let at = Met::place(&self.places, self.now, place.node);
            if let Some(free) = self.places.get_mut(at) {
                *free = place;
            }
        }
    }
}
