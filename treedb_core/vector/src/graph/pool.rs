//! The best nodes that a search has met, in order.

/// A node that was found, and its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found<N> {
    /// How far it is: the less, the nearer.
    pub score: f32,
    /// The node.
    pub node: N,
    expanded: bool,
}

/// At most so many nodes, the nearest first.
#[derive(Debug)]
pub struct Pool<N> {
    found: Vec<Found<N>>,
    most: usize,
    /// Only so many of the nearest are expanded, once there are `most`.
    wide: usize,
    /// All before this one are expanded.
    next: usize,
    /// The nodes that there was no place for, if they are kept: none is nearer than those that have one.
    others: Vec<Found<N>>,
    keeps_others: bool,
}

impl<N> Default for Pool<N> {
    fn default() -> Self {
        Pool { found: Vec::new(), most: 0, wide: 0, next: 0, others: Vec::new(), keeps_others: false }
    }
}

impl<N: Copy> Pool<N> {
    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        size_of::<Found<N>>() * (self.found.capacity() + self.others.capacity())
    }

    /// Empties it, for at most `most` nodes.
    pub fn reset(&mut self, most: usize) {
        self.reset_wide(most, most);
    }

    /// Empties it, for at most `most` nodes, of which the nearest `wide` are expanded; more until there are so many.
    pub fn reset_wide(&mut self, most: usize, wide: usize) {
        self.found.clear();
        self.found.reserve(most);
        self.most = most;
        self.wide = wide;
        self.next = 0;
        self.others.clear();
        self.keeps_others = false;
    }

    /// Keeps the nodes that there is no place for from now on, so that there can be [more places](Pool::widen) later.
    pub(super) fn keep_others(&mut self) {
        self.keeps_others = true;
    }

    /// Makes it one of at most `most` nodes, more than before, all of which are expanded. The nearest of the others take the places.
    pub(super) fn widen(&mut self, most: usize) {
        (self.most, self.wide) = (most, most);
        let room = most.saturating_sub(self.found.len()).min(self.others.len());
        if (1..self.others.len()).contains(&room) {
            self.others.select_nth_unstable_by(room - 1, |a, b| a.score.total_cmp(&b.score));
        }
        let from = self.found.len();
        self.found.extend(self.others.drain(..room));
        if let Some(new) = self.found.get_mut(from..) {
            new.sort_by(|a, b| a.score.total_cmp(&b.score));
        }
    }

    /// The nodes, the nearest first.
    pub fn found(&self) -> &[Found<N>] {
        &self.found
    }

    /// Adds a node, if it is among the nearest.
    #[inline]
    pub fn insert(&mut self, score: f32, node: N) {
        if self.found.len() == self.most {
            // A NaN is never nearer.
            if !self.found.last().is_some_and(|last| score < last.score) {
                if self.keeps_others {
                    self.others.push(Found { score, node, expanded: false });
                }
                return;
            }
            let last = self.found.pop();
            if self.keeps_others {
                self.others.extend(last);
            }
        }
        let place = self.found.partition_point(|found| found.score <= score);
        self.found.insert(place, Found { score, node, expanded: false });
        self.next = self.next.min(place);
    }

    /// The nearest node that is not expanded, if it is among those to be; it counts as expanded now.
    #[inline]
    pub fn expand(&mut self) -> Option<N> {
        let end = if self.found.len() < self.most { self.most } else { self.wide };
        loop {
            let found = self.found.get_mut(self.next).filter(|_| self.next < end)?;
            self.next += 1;
            if !found.expanded {
                found.expanded = true;
                return Some(found.node);
            }
        }
    }

    /// The node that would be expanded next, if nothing nearer is found.
    #[inline]
    pub fn upcoming(&self) -> Option<N> {
        self.found.get(self.next..)?.iter().find(|found| !found.expanded).map(|found| found.node)
    }
}

#[cfg(test)]
mod tests {
    use treedb_testing::Rng;

    use super::*;

    #[test]
    fn a_pool_expands_only_as_many_of_the_nearest_as_it_is_wide() {
        let mut pool = Pool::default();
        pool.reset_wide(5, 2);
        (0..4).for_each(|node| pool.insert(node as f32, node));
        // More, as long as they are too few.
        assert_eq!([pool.expand(), pool.expand(), pool.expand()], [Some(0), Some(1), Some(2)]);
        pool.insert(8.0, 8);
        assert_eq!(pool.expand(), None);
        // One that is nearer takes a place among the two.
        pool.insert(0.5, 9);
        assert_eq!([pool.expand(), pool.expand()], [Some(9), None]);
        (10..20).for_each(|node| pool.insert(0.7, node));
        assert_eq!((pool.expand(), pool.found().len()), (None, 5));
    }

    #[test]
    fn a_pool_that_keeps_others_becomes_the_one_that_had_more_places_from_the_start() {
        let mut rng = Rng::new(6);
        for most in [1, 5, 40] {
            let (mut pool, mut whole) = (Pool::default(), Pool::default());
            pool.reset(most);
            pool.keep_others();
            whole.reset(3 * most);
            let mut expanded = Vec::new();
            for node in 0..2 * most {
                let score = rng.below(1_000_000) as f32;
                pool.insert(score, node);
                whole.insert(score, node);
                if node % 2 == 0 {
                    expanded.extend(pool.expand());
                }
            }
            for (round, most) in [most + 1, 2 * most, 3 * most].into_iter().enumerate() {
                pool.widen(most);
                let wanted = whole.found().iter().take(most).map(|found| (found.score, found.node));
                assert!(pool.found().iter().map(|found| (found.score, found.node)).eq(wanted));
                let node = 1000 + round;
                pool.insert(0.5, node);
                whole.insert(0.5, node);
                while let Some(node) = pool.expand() {
                    expanded.push(node);
                }
            }
            let count = expanded.len();
            expanded.sort_unstable();
            expanded.dedup();
            assert_eq!(expanded.len(), count, "a node was expanded twice");
            assert!(pool.found().iter().all(|found| expanded.contains(&found.node)));
        }
    }

    #[test]
    fn a_pool_keeps_the_nearest_and_expands_each_once() {
        let mut rng = Rng::new(5);
        for most in [1, 2, 7, 64] {
            let mut pool = Pool::default();
            pool.reset(most);
            let mut all: Vec<(f32, usize)> = Vec::new();
            let mut expanded = Vec::new();
            for node in 0..300 {
                let score = rng.below(1000) as f32;
                all.push((score, node));
                pool.insert(score, node);
                if node % 3 == 0 {
                    expanded.extend(pool.expand());
                }
                // Stable: of equal scores, the one that came first.
                all.sort_by(|a, b| a.0.total_cmp(&b.0));
                let kept: Vec<f32> = pool.found().iter().map(|found| found.score).collect();
                let nearest: Vec<f32> = all.iter().take(most).map(|(score, _)| *score).collect();
                assert_eq!(kept, nearest);
            }
            while let Some(node) = pool.expand() {
                expanded.push(node);
            }
            assert!(pool.found().iter().all(|found| expanded.contains(&found.node)));
            let count = expanded.len();
            expanded.sort_unstable();
            expanded.dedup();
            assert_eq!(expanded.len(), count, "a node was expanded twice");
        }
    }
}
