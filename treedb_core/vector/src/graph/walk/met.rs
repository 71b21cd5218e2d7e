//! The nodes that a walk has met, and what it knows of each.

use super::Candidate;
use crate::graph::store::Estimate;
use crate::kernel;

/// What a node is that has been met.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum State {
    /// In order.
    Candidate,
    #[default]
    Waiting,
    Expanded,
}

/// What is known of a node that has been met.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    pub(super) node: u32,
    /// The mean of the estimates.
    pub(super) score: f32,
    /// The square of its error.
    pub(super) variance: f32,
    /// The key that it has among the candidates: if an estimate has said since that it is farther, its key is greater by now.
    pub(super) key: f32,
    pub(super) state: State,
}

/// Variances are between these, so that neither a sum of them nor what it divides is infinite.
pub(super) const VARIANCES: [f32; 2] = [1e-30, 1e30];

/// What a candidate is expanded in the order of: its score may well be as low as this. Not a NaN, which is in no order.
#[inline]
pub(super) fn key(score: f32, variance: f32, caution: f32) -> f32 {
    (score - caution * variance.sqrt()).min(f32::INFINITY)
}

impl Estimate<u32> {
    /// The key of a node of which nothing else is known.
    #[inline]
    pub(super) fn key(&self, caution: f32) -> f32 {
        (self.score - caution * self.error).min(f32::INFINITY)
    }
}

impl Known {
    #[inline]
    pub(super) fn key_now(&self, caution: f32) -> f32 {
        key(self.score, self.variance, caution)
    }
}

/// What meeting a node is.
#[derive(Clone, Copy)]
pub(super) struct Meeting {
    /// Its place in the list.
    pub(super) at: u32,
    pub(super) key: f32,
    /// It may have to be put elsewhere among the candidates in order.
    pub(super) is_moved: bool,
    /// It is new among those that wait, or has a lower key there.
    pub(super) is_waiting: bool,
    /// It is among those that wait.
    pub(super) is_far: bool,
}

/// The nodes that a search has met, and what it knows of their scores: a list, and a hash table with open addressing of the places
/// in it. (An array of places by the nodes' numbers was tried: it is no faster, and grows with the index.)
#[derive(Debug, Default)]
pub(super) struct Met {
    /// There is one more at least than have been met.
    pub(super) nodes: Vec<Known>,
    pub(super) count: usize,
    /// Nodes, and their places in the list after 1, plus [`EXPANDED`] for those that have been; 0 is a free place.
    pub(super) places: Vec<(u32, u32)>,
    /// Where to look for each of the nodes that are met next.
    pub(super) begins: Vec<u32>,
}

/// More than the place of any node in the list.
pub(super) const EXPANDED: u32 = 1 << 31;

/// Places of an empty table: few, so that emptying it takes no time.
pub(super) const PLACES: usize = 1024;

impl Met {
    pub(super) fn bytes(&self) -> usize {
        size_of::<Known>() * self.nodes.capacity() + size_of::<(u32, u32)>() * self.places.capacity()
    }

    pub(super) fn clear(&mut self) {
        self.count = 0;
        self.places.clear();
        self.places.resize(PLACES, (0, 0));
    }

    /// The place where a node would be in an empty table.
    #[inline]
    pub(super) fn first_place(places: &[(u32, u32)], node: u32) -> usize {
        // Fibonacci hashing.
        (u64::from(node).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & places.len().wrapping_sub(1)
    }

    /// The place that a node has, or would have, at `from` or after it.
    #[inline]
    pub(super) fn place(&self, from: usize, node: u32) -> usize {
        let mask = self.places.len().wrapping_sub(1);
        let mut at = from;
        while self.places.get(at).is_some_and(|(known, after)| *known != node && *after != 0) {
            at = (at + 1) & mask;
        }
        at
    }

    /// The place of the node that [`Met::fetch`] was given as this one, and its place in the list after 1 ([`EXPANDED`]); 0 if it has
    /// not been met.
    #[inline]
    pub(super) fn look_up(&self, turn: usize, node: u32) -> (u32, u32) {
        let from = self.begins.get(turn).map_or(0, |begin| *begin as usize);
        let place = self.place(from, node);
        (place as u32, self.places.get(place).map_or(0, |(_, after)| *after))
    }

    /// Lets a node that is met next be looked for from a place on.
    #[inline]
    pub(super) fn begin_at(&mut self, turn: usize, place: u32) {
        if let Some(begin) = self.begins.get_mut(turn) {
            *begin = place;
        }
    }

    /// Makes a node, which has been met, one that has been expanded.
    pub(super) fn expand(&mut self, at: u32, node: u32) {
        self.set_state(at, State::Expanded);
        let place = self.place(Met::first_place(&self.places, node), node);
        if let Some((_, after)) = self.places.get_mut(place) {
            *after |= EXPANDED;
        }
    }

    /// Where in the list a node is.
    pub(super) fn find(&self, node: u32) -> Option<u32> {
        let (_, after) = self.places.get(self.place(Met::first_place(&self.places, node), node))?;
        (after & !EXPANDED).checked_sub(1)
    }

    pub(super) fn known(&self, at: u32) -> Option<Known> {
        self.nodes.get(at as usize).copied()
    }

    /// A node as it is among the candidates.
    pub(super) fn candidate(&self, at: u32) -> Candidate {
        Candidate { key: self.nodes.get(at as usize).map_or(0.0, |known| known.key), met: at }
    }

    pub(super) fn set_state(&mut self, at: u32, state: State) {
        if let Some(known) = self.nodes.get_mut(at as usize) {
            known.state = state;
        }
    }

    pub(super) fn set_key(&mut self, at: u32, key: f32) {
        if let Some(known) = self.nodes.get_mut(at as usize) {
            known.key = key;
        }
    }

    /// Prepares for meeting these nodes.
    pub(super) fn make_room(&mut self, new: &[Estimate<u32>]) {
        let most = self.count + new.len();
        if 2 * most >= self.places.len() {
            self.places.clear();
            self.places.resize((4 * most).next_power_of_two().max(PLACES), (0, 0));
            for (at, after) in (0..self.count).zip(1..) {
                let Some(Known { node, state, .. }) = self.nodes.get(at).copied() else { break };
                let place = self.place(Met::first_place(&self.places, node), node);
                let expanded = if state == State::Expanded { EXPANDED } else { 0 };
                if let Some(place) = self.places.get_mut(place) {
                    *place = (node, after | expanded);
                }
            }
        }
        if self.nodes.len() <= most {
            self.nodes.resize((2 * most).max(PLACES / 2), Known::default());
        }
    }

    /// Asks for the places of nodes before the first of them is needed.
    pub(super) fn fetch(&mut self, new: &[Estimate<u32>]) {
        let Met { places, begins, .. } = self;
        begins.clear();
        begins.extend(new.iter().map(|estimate| {
            let begin = Met::first_place(places, estimate.node);
            if let Some(place) = places.get(begin) {
                kernel::prefetch(std::slice::from_ref(place));
            }
            begin as u32
        }));
    }

    /// Makes another estimate part of what is known of a node: of several, it is the mean, weighted by the squares of the
    /// others' errors. What is known exactly stays as it is. There is room for one more node, which is looked for where
    /// [`Met::fetch`] has said, or [`Met::begin_at`].
    #[inline]
    pub(super) fn meet(&mut self, turn: usize, new: &Estimate<u32>, caution: f32, limit: f32) -> Meeting {
        let nowhere = Meeting { at: 0, key: 0.0, is_moved: false, is_waiting: false, is_far: false };
        // One that was met just now may have taken the place.
        let (place, _) = self.look_up(turn, new.node);
        let Some((node, after)) = self.places.get_mut(place as usize) else { return nowhere };
        let is_new = *after == 0;
        let at = if is_new { self.count } else { (*after & !EXPANDED) as usize - 1 };
        (*node, *after) = (new.node, if is_new { at as u32 + 1 } else { *after });
        self.count += usize::from(is_new);
        let Some(known) = self.nodes.get_mut(at) else { return nowhere };
        let [least, most] = VARIANCES;
        let (old, variance) = (*known, (new.error * new.error).min(most));
        // What is there is of a search before, if the node is new.
        let share = if is_new { 1.0 } else { old.variance / (old.variance + variance).max(least) };
        let score = if is_new { new.score } else { old.score + share * (new.score - old.score) };
        let variance = share * variance;
        let now = key(score, variance, caution);
        let state = if is_new { State::Waiting } else { old.state };
        let (waits, is_near) = (state == State::Waiting, now <= limit);
        let is_less = is_new | (now < old.key);
        let is_waiting = waits & !is_near & is_less;
        let key = if is_waiting { now } else { old.key };
        *known = Known { node: new.node, score, variance, key, state };
        let is_moved = (waits & is_near) | ((state == State::Candidate) & is_less);
        Meeting { at: at as u32, key, is_moved, is_waiting, is_far: waits & !is_near }
    }

    /// The nodes that have been expanded.
    pub(super) fn expanded(&self) -> impl Iterator<Item = u32> {
        let met = self.nodes.iter().take(self.count);
        met.filter(|known| known.state == State::Expanded).map(|known| known.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_nodes_that_belong_in_one_place_of_the_table_are_both_met() {
        let mut met = Met::default();
        met.clear();
        let place = |node| Met::first_place(&met.places, node);
        let other = (2..).find(|node| place(*node) == place(1)).unwrap_or_default();
        let new = [1, other, 1].map(|node| Estimate { node, score: 2.0, error: 0.5 });
        met.make_room(&new);
        met.fetch(&new);
        for (turn, estimate) in new.iter().enumerate() {
            // Before the first of them is met.
            let (place, after) = met.look_up(turn, estimate.node);
            met.begin_at(turn, place);
            assert_eq!(after, 0);
        }
        for (turn, estimate) in new.iter().enumerate() {
            met.meet(turn, estimate, 0.0, f32::INFINITY);
        }
        assert_eq!((met.count, met.find(1), met.find(other)), (2, Some(0), Some(1)));
        met.expand(1, other);
        assert_eq!((met.find(other), met.expanded().collect::<Vec<_>>()), (Some(1), vec![other]));
        assert!(met.look_up(1, other).1 >= EXPANDED && met.look_up(0, 1).1 < EXPANDED);
        // A larger table says so too.
        met.make_room(&vec![Estimate::default(); PLACES]);
        met.fetch(&new);
        assert!(met.look_up(1, other).1 >= EXPANDED && met.look_up(0, 1).1 < EXPANDED);
    }
}
