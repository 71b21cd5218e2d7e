//! A search that goes on for as long as its caller asks for more nodes.
//!
//! It knows two kinds of nodes. Candidates have been met, and their scores are estimated, if the store can do that from the
//! node that they were met from ([`Nodes::estimates`]). Results have been expanded, and their scores are those of the store.
//! The candidate that is nearest by its estimate is expanded next, until there are as many results as the caller wants to
//! choose from, and no candidate is nearer than the last of those. So what is found depends on estimates only in how many
//! nodes are expanded, and an estimate that is too high delays a node but does not lose it.
//!
//! A node that is met again has another estimate, and is a candidate by the mean of both, weighted by how exact they are.
//!
//! Most candidates are never expanded. So only as many are kept in order as may be expanded for what is wanted now; those that
//! lie beyond the last of them wait in no order. And most estimates are of nodes that are too far to become candidates at all
//! ([`Walk::horizon`]): they are only listed, as they are, until the search has come that far. What is done for each neighbour has no
//! branch that depends on what is known of it ([`Met::meet`]): whether a node is new, or near, cannot be predicted.

mod met;

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashSet, VecDeque};

use met::{EXPANDED, Meeting, Met, State};

use super::pool::{FREE, places, tied};
use super::search::descend_all;
use super::store::{Estimate, Nodes};

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

/// How far scores may lie below their estimates, in standard errors, before a node is found too late.
///
/// For the first nodes it is cheaper to keep some more results; who goes on wants them in order. (Measured on 72 dimensions of
/// noise, and on clusters in 64 to 384.)
///
/// Tried for scans of a thousand rows: a lower caution; following the links of a result only once it is among those that are wanted;
/// following only some of each node's links. Where vectors lie along a curve each finds as many of the nearest in less time, a twentieth to a third,
/// but in clusters .70 to .90 of them instead of .93.
const FIRST: f32 = 0.25;
const GOING_ON: f32 = 1.0;

/// Candidates that are kept in order beyond those that are wanted, and half as many as these: scores are not in the order of estimates.
const SPARE: usize = 8;
/// A search goes on once so many results have been taken away: before that, as few are put in order as if it were about to end.
const MANY: usize = 32;
/// A search that goes on keeps at least so many, and this share of those that wait, so that it need not look through all of
/// them for each.
const BATCH: usize = 64;
const SHARE: usize = 16;
/// Candidates that are put aside, or in order, at a time, at least.
const STEP: usize = 16;
/// How far beyond the horizon an estimate must lie, in standard errors, for its node not to be met: one that looks farther than it
/// is has to be met again.
const DISTANT: f32 = 1.5;
/// Distant nodes that are met at a time, at least, and this share of them.
const APPROACHED: usize = 64;
/// Estimates of distant nodes from which on each node is to have only one.
const LONG: usize = 1 << 16;

/// A search, and what it has found. Kept from one search to the next, it allocates nothing.
#[derive(Debug, Default)]
pub struct Walk {
    candidates: Candidates,
    /// Candidates with keys beyond `limit`, in no order. One that has another key than [`met::Known::key`] is out of date.
    waiting: Vec<Candidate>,
    /// No key of them is less.
    least: f32,
    /// The greatest key of candidates that are kept in order.
    limit: f32,
    distant: Distant,
    /// A node is met if its key may be as low as this; at least `limit`.
    horizon: f32,
    results: Results,
    met: Met,
    /// How many nodes have been met, and compared with the query in the levels above.
    compared: usize,
    caution: f32,
    /// Results that have been taken away.
    taken: usize,
    /// A node was removed before its links were read: what they led to may not have been met.
    lost: bool,
    /// Nodes that were expanded before the search began again, and how often it did.
    before: HashSet<u32>,
    tries: usize,
    links: Vec<u32>,
    scores: Vec<f32>,
    estimates: Vec<Estimate<u32>>,
    /// Places among the nodes that have been met of those that are to be put in order.
    moved: Vec<u32>,
}

/// How often a search begins again whose node was unlinked under it.
const TRIES: usize = 16;

impl Walk {
    /// Bytes of memory that it keeps, about.
    pub fn bytes(&self) -> usize {
        let results = self.results.near.capacity() + self.results.far.capacity();
        let candidates = self.candidates.nearest_last.capacity() + self.waiting.capacity();
        let estimates = self.distant.places.capacity() + self.estimates.capacity();
        size_of::<Candidate>() * candidates
            + size_of::<Scored>() * results
            + size_of::<Estimate<u32>>() * estimates
            + self.met.bytes()
    }

    /// How many nodes have been compared with the query, and were not too far to become candidates.
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
                descend_all(store, query, (&mut self.links, &mut self.scores), &mut (), &mut self.compared)?
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
        self.begin_candidates();
        let Some(nearest) =
            descend_all(store, query, (&mut self.links, &mut self.scores), &mut (), &mut self.compared)?
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
        self.results.clear();
        self.met.clear();
        self.before.clear();
        (self.compared, self.caution, self.taken) = (0, FIRST, 0);
        (self.lost, self.tries) = (false, 0);
        self.begin_candidates();
    }

    fn begin_candidates(&mut self) {
        self.candidates.nearest_last.clear();
        self.waiting.clear();
        self.distant.clear();
        (self.least, self.limit) = (f32::INFINITY, f32::INFINITY);
        self.horizon = f32::INFINITY;
    }

    fn from<S: Nodes<Node = u32>>(
        &mut self,
        store: &S,
        query: &S::Query<'_>,
        nodes: &[(f32, u32)],
    ) -> Result<(), S::Error> {
        self.results.widen(nodes.len());
        let mut estimates = std::mem::take(&mut self.estimates);
        estimates.clear();
        estimates.extend(nodes.iter().map(|(score, node)| Estimate {
            node: *node,
            score: *score,
            error: 0.0,
        }));
        self.met.make_room(&estimates);
        self.met.fetch(&estimates);
        self.meet(&estimates);
        self.estimates = estimates;
        for (score, node) in nodes {
            if let Some(at) = self.met.find(*node) {
                self.candidates.remove(self.met.candidate(at));
                self.expand(store, query, (at, *node, *score), true)?;
            }
        }
        Ok(())
    }

    /// Goes on until there are `wanted` results, and no candidate is nearer than the last of them, or until the whole graph
    /// has been seen. Once `most` nodes have been met, only those are expanded.
    pub fn search<S: Nodes<Node = u32>>(
        &mut self,
        store: &S,
        query: &S::Query<'_>,
        wanted: usize,
        most: usize,
    ) -> Result<(), S::Error> {
        let (asked, mut wanted) = (wanted, wanted);
        self.results.widen(wanted);
        // The node whose links were asked for ahead.
        let mut fetched = None;
        loop {
            let nearest = self.candidates.nearest().map_or(f32::INFINITY, |candidate| candidate.key);
            if self.compared >= most {
                self.distant.clear();
            }
            if self.results.has(wanted, nearest.min(self.least).min(self.distant.least)) {
                // Of copies it takes many to lead to other nodes.
                let tied = if store.tied_are_copies() { self.results.tied(wanted) } else { 0 };
                let more = places(asked, tied, FREE);
                if more <= wanted {
                    return Ok(());
                }
                wanted = more;
                self.results.widen(wanted);
                continue;
            }
            if !self.waiting.is_empty() && self.least <= nearest.min(self.distant.least) {
                self.order_next(wanted);
                continue;
            }
            if self.distant.count > 0 && self.distant.least <= nearest {
                self.approach(most - self.compared);
                continue;
            }
            let Some(candidate) = self.candidates.nearest_last.pop() else {
                if self.compared < most && self.begin_again(store, query)? {
                    continue;
                }
                return Ok(());
            };
            let Some(known) = self.met.known(candidate.met) else { continue };
            // Since it was put in order, an estimate may have said that it is farther.
            let key = known.key_now(self.caution);
            if key > candidate.key && self.candidates.nearest().is_some_and(|next| next.key < key) {
                self.enter(candidate.met);
                continue;
            }
            let found = (candidate.met, known.node, known.score);
            if fetched != Some(known.node) {
                store.prefetch_links(known.node);
            }
            // Maybe the next one, while this one is read.
            fetched =
                self.candidates.nearest().and_then(|next| self.met.known(next.met)).map(|next| next.node);
            if let Some(next) = fetched {
                store.prefetch_links(next);
            }
            self.expand(store, query, found, self.compared < most)?;
            self.put_aside(wanted);
        }
    }

    /// Whether so many results have been taken away that many more may be.
    fn goes_on(&self) -> bool {
        self.taken >= MANY
    }

    /// How many candidates are kept in order.
    fn room(&self, wanted: usize) -> usize {
        let spare = if self.goes_on() { BATCH.max(self.waiting.len() / SHARE) } else { SPARE + wanted / 2 };
        wanted.saturating_sub(self.results.near.len()) + spare
    }

    /// Puts candidates aside that are more than are kept in order, the farthest.
    fn put_aside(&mut self, wanted: usize) {
        let excess = self.candidates.nearest_last.len().saturating_sub(self.room(wanted));
        if excess < STEP {
            return;
        }
        for candidate in self.candidates.nearest_last.drain(..excess) {
            self.least = self.least.min(candidate.key);
            self.met.set_state(candidate.met, State::Waiting);
            self.waiting.push(candidate);
        }
        self.limit = self.candidates.nearest_last.first().map_or(self.limit, |last| last.key);
        if !self.goes_on() {
            self.horizon = self.limit;
        }
    }

    /// Meets the nearest of the distant nodes, at most so many.
    fn approach(&mut self, most: usize) {
        let mut distant = std::mem::take(&mut self.distant);
        // A few more than may be met, as when a node is expanded: most of the listed ones may be known already.
        let least = if self.goes_on() { APPROACHED } else { STEP };
        let count = least.max(distant.count / SHARE).min(most.max(APPROACHED));
        let nearest = distant.take_nearest(count, self.caution);
        self.met.make_room(nearest);
        self.met.fetch(nearest);
        self.meet(nearest);
        self.horizon = distant.least;
        self.distant = distant;
    }

    /// Puts the next of the candidates that wait in order.
    fn order_next(&mut self, wanted: usize) {
        let count = self.room(wanted).saturating_sub(self.candidates.nearest_last.len()).max(STEP);
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut least = f32::INFINITY;
        if count < waiting.len() {
            let (_, next, _) = waiting.select_nth_unstable_by(count, |a, b| in_order(a.key, b.key));
            least = next.key;
        }
        (self.least, self.limit) = (least, least);
        self.horizon = self.horizon.max(least);
        for candidate in waiting.drain(..count.min(waiting.len())) {
            let known = self.met.known(candidate.met);
            if known.is_some_and(|known| known.state == State::Waiting && known.key == candidate.key) {
                self.enter(candidate.met);
            }
        }
        // Those that have to wait on.
        waiting.append(&mut self.waiting);
        self.waiting = waiting;
    }

    /// From now on nodes are to be found in order, as far as estimates can tell.
    pub fn go_on(&mut self) {
        if self.caution == GOING_ON {
            return;
        }
        self.caution = GOING_ON;
        let mut candidates = std::mem::take(&mut self.candidates.nearest_last);
        for candidate in candidates.drain(..) {
            self.enter(candidate.met);
        }
        let (met, mut least) = (&mut self.met, f32::INFINITY);
        self.waiting.retain_mut(|candidate| {
            let Some(known) = met.nodes.get_mut(candidate.met as usize) else { return false };
            if known.state != State::Waiting || known.key != candidate.key {
                return false;
            }
            known.key = known.key_now(GOING_ON);
            candidate.key = known.key;
            least = least.min(known.key);
            true
        });
        self.least = least;
        self.distant.see(GOING_ON);
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
        let taken = self.results.take();
        self.taken += usize::from(taken.is_some());
        taken
    }

    /// Puts the estimates of nodes aside that have not been met, and are too far to be; returns how many there are of the others that have
    /// not been expanded, which come first then.
    fn keep_near(&mut self, estimates: &mut [Estimate<u32>]) -> usize {
        let Walk { met, distant, horizon, caution, .. } = self;
        met.make_room(estimates);
        met.fetch(estimates);
        distant.make_room(estimates.len(), *caution, |node| met.find(node).is_some());
        let mut near = 0;
        for at in 0..estimates.len() {
            let Some(estimate) = estimates.get(at).copied() else { break };
            let (place, after) = met.look_up(at, estimate.node);
            let is_far = (estimate.key(DISTANT) > *horizon) & (after == 0);
            if let Some(place) = estimates.get_mut(near) {
                *place = estimate;
            }
            met.begin_at(near, place);
            // What has been expanded has its score, and leads to nothing new.
            near += usize::from(!is_far & (after < EXPANDED));
            distant.add_if(is_far, estimate, *caution);
        }
        near
    }

    /// Makes nodes candidates, or candidates with other estimates, after [`Met::fetch`] or [`Walk::keep_near`].
    fn meet(&mut self, estimates: &[Estimate<u32>]) {
        let Walk { met, waiting, moved, caution, limit, .. } = self;
        let (known, mut waits) = (met.count, waiting.len());
        // Room for all of them: what is written beyond the last one is written over.
        waiting.resize(waits + estimates.len(), Candidate::default());
        moved.resize(moved.len().max(estimates.len()), 0);
        let (mut moves, mut least) = (0, self.least);
        for (turn, estimate) in estimates.iter().enumerate() {
            let Meeting { at, key, is_moved, is_waiting, is_far } =
                met.meet(turn, estimate, *caution, *limit);
            if let Some(place) = moved.get_mut(moves) {
                *place = at;
            }
            moves += usize::from(is_moved);
            if let Some(place) = waiting.get_mut(waits) {
                *place = Candidate { key, met: at };
            }
            waits += usize::from(is_waiting);
            least = least.min(if is_far { key } else { f32::INFINITY });
        }
        waiting.truncate(waits);
        self.least = least;
        self.compared += met.count - known;
        for at in 0..moves {
            let Some(at) = self.moved.get(at).copied() else { break };
            self.put_in_order(at);
        }
    }

    /// Puts a node that has a new estimate where it belongs among the candidates.
    fn put_in_order(&mut self, at: u32) {
        let Some(known) = self.met.known(at) else { return };
        let key = known.key_now(self.caution);
        match known.state {
            State::Candidate if key < known.key => {
                self.candidates.change(self.met.candidate(at), key);
                self.met.set_key(at, key);
            }
            State::Waiting => self.enter(at),
            _ => {}
        }
    }

    /// Puts a node that has been met among the candidates in order, or among those that wait.
    fn enter(&mut self, at: u32) {
        let Some(known) = self.met.known(at) else { return };
        let key = known.key_now(self.caution);
        self.met.set_key(at, key);
        if key <= self.limit {
            self.met.set_state(at, State::Candidate);
            self.candidates.insert(Candidate { key, met: at });
        } else {
            self.met.set_state(at, State::Waiting);
            self.least = self.least.min(key);
            self.waiting.push(Candidate { key, met: at });
        }
    }

    /// Makes a node that was a candidate a result, and the nodes that it links to candidates, if `follow` says so.
    fn expand<S: Nodes<Node = u32>>(
        &mut self,
        store: &S,
        query: &S::Query<'_>,
        (at, node, score): (u32, u32, f32),
        follow: bool,
    ) -> Result<(), S::Error> {
        self.met.expand(at, node);
        let mut estimates = std::mem::take(&mut self.estimates);
        let score = match store.estimates(query, node, &mut estimates)? {
            Some(score) => {
                if follow {
                    let near = self.keep_near(&mut estimates);
                    self.meet(estimates.get(..near).unwrap_or(&[]));
                }
                score
            }
            None => {
                estimates.clear();
                if follow {
                    // Not to be compared again.
                    self.compare(store, query, node, &mut estimates)?;
                    self.met.make_room(&estimates);
                    self.met.fetch(&estimates);
                    self.meet(&estimates);
                }
                score
            }
        };
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
        self.links.retain(|node| met.find(*node).is_none());
        store.scores(query, &self.links, &mut self.scores)?;
        let scored = self.links.iter().zip(&self.scores);
        out.extend(scored.map(|(node, score)| Estimate { node: *node, score: *score, error: 0.0 }));
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

    /// How many of the first ones are exactly as far as the one before them.
    fn tied(&self, count: usize) -> usize {
        tied(self.near.iter().take(count).map(|scored| scored.score))
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

/// The order of two keys, none of which is a NaN: with one comparison, where a total order of all floats takes several steps. Lists of
/// thousands are parted by it again and again.
#[inline(always)]
fn in_order(a: f32, b: f32) -> Ordering {
    a.partial_cmp(&b).unwrap_or(Ordering::Equal)
}

/// A node that may be expanded: what it is expanded in the order of, and its place among the nodes that have been met.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Candidate {
    key: f32,
    met: u32,
}

/// Candidates in order. There are few, and a new one is near the end more often than not.
#[derive(Debug, Default)]
struct Candidates {
    nearest_last: Vec<Candidate>,
}

impl Candidates {
    fn nearest(&self) -> Option<&Candidate> {
        self.nearest_last.last()
    }

    /// The first place of those that are no farther.
    #[inline]
    fn place(&self, key: f32) -> usize {
        self.nearest_last.partition_point(|candidate| candidate.key > key)
    }

    #[inline]
    fn insert(&mut self, new: Candidate) {
        let place = self.place(new.key);
        self.nearest_last.insert(place, new);
    }

    /// Where a candidate is; several may be as far.
    fn find(&self, old: Candidate) -> Option<usize> {
        let from = self.place(old.key);
        let found = self.nearest_last.get(from..)?.iter().position(|candidate| candidate.met == old.met);
        found.map(|found| from + found)
    }

    fn remove(&mut self, old: Candidate) {
        if let Some(at) = self.find(old) {
            self.nearest_last.remove(at);
        }
    }

    /// Gives a candidate another key.
    fn change(&mut self, old: Candidate, key: f32) {
        let Some(from) = self.find(old) else { return };
        let place = self.place(key);
        // Those in between make room.
        let (at, between) = match place > from {
            true => (place - 1, from..place),
            false => (place, place..from + 1),
        };
        if let Some(between) = self.nearest_last.get_mut(between) {
            if at > from { between.rotate_left(1) } else { between.rotate_right(1) }
        }
        if let Some(candidate) = self.nearest_last.get_mut(at) {
            candidate.key = key;
        }
    }
}

/// Estimates of nodes that were too far to be met, one for each time that they were not, in no order.
#[derive(Debug)]
struct Distant {
    /// Those that count are the first.
    places: Vec<Estimate<u32>>,
    count: usize,
    /// None of their keys is less.
    least: f32,
}

impl Default for Distant {
    fn default() -> Self {
        Distant { places: Vec::new(), count: 0, least: f32::INFINITY }
    }
}

impl Distant {
    fn clear(&mut self) {
        (self.count, self.least) = (0, f32::INFINITY);
    }

    /// Prepares for so many more. Of long lists only the nearest estimate of each node that has not been met is kept, so that they are not
    /// longer than the graph has nodes, or twice that.
    fn make_room(&mut self, more: usize, caution: f32, is_met: impl Fn(u32) -> bool) {
        if self.places.len() < self.count + more && self.count >= LONG {
            self.places.truncate(self.count);
            self.places.retain(|estimate| !is_met(estimate.node));
            let by_key = |a: &Estimate<u32>, b: &Estimate<u32>| a.key(caution).total_cmp(&b.key(caution));
            self.places.sort_unstable_by(|a, b| a.node.cmp(&b.node).then_with(|| by_key(a, b)));
            self.places.dedup_by_key(|estimate| estimate.node);
            self.count = self.places.len();
        }
        let most = self.count + more;
        if self.places.len() < most {
            self.places.resize(2 * most, Estimate::default());
        }
    }

    /// Adds an estimate, for which there is room, or writes it where the next one will be written over it.
    #[inline]
    fn add_if(&mut self, condition: bool, estimate: Estimate<u32>, caution: f32) {
        if let Some(place) = self.places.get_mut(self.count) {
            *place = estimate;
        }
        self.count += usize::from(condition);
        self.least = self.least.min(if condition { estimate.key(caution) } else { f32::INFINITY });
    }

    /// Takes the nearest away, so many if there are more.
    fn take_nearest(&mut self, count: usize, caution: f32) -> &[Estimate<u32>] {
        let all = self.places.get_mut(..self.count).unwrap_or_default();
        let left = all.len().saturating_sub(count);
        self.least = f32::INFINITY;
        if left > 0 {
            // The nearest are the last.
            let by_key = |a: &Estimate<u32>, b: &Estimate<u32>| in_order(b.key(caution), a.key(caution));
            let (_, farthest, _) = all.select_nth_unstable_by(left, by_key);
            self.least = farthest.key(caution);
        }
        let nearest = left..self.count;
        self.count = left;
        self.places.get(nearest).unwrap_or(&[])
    }

    /// Looks at all of them again, with another caution.
    fn see(&mut self, caution: f32) {
        let all = self.places.get(..self.count).unwrap_or(&[]);
        self.least = all.iter().map(|estimate| estimate.key(caution)).fold(f32::INFINITY, f32::min);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_of_distant_nodes_keeps_the_nearest_estimate_of_each_that_has_not_been_met() {
        const NODES: u32 = 1000;
        let mut distant = Distant::default();
        for at in 0..40 * LONG as u32 {
            distant.make_room(1, 0.0, |node| node % 2 == 0);
            // Of a node, later estimates are lower.
            let score = (NODES - at % NODES) as f32 + 1.0 / (1.0 + at as f32);
            distant.add_if(true, Estimate { node: at % NODES, score, error: 0.0 }, 0.0);
        }
        assert!(distant.places.len() <= 4 * LONG, "{} of {NODES} nodes", distant.places.len());
        // The nearest ones are still there: the last node, whose score is 1, or a little more.
        assert!(distant.least > 1.0 && distant.least < 1.001, "{}", distant.least);
        let nearest = distant.take_nearest(10, 0.0);
        assert!(nearest.iter().all(|estimate| estimate.node == NODES - 1), "{nearest:?}");
    }
}
