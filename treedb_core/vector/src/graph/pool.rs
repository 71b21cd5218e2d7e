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
    /// All before this one are expanded.
    next: usize,
    /// The nodes that were not among the nearest, if they are kept.
    rest: Vec<Found<N>>,
    keeps_rest: bool,
}

impl<N> Default for Pool<N> {
    fn default() -> Self {
        Pool { found: Vec::new(), most: 0, next: 0, rest: Vec::new(), keeps_rest: false }
    }
}

impl<N: Copy> Pool<N> {
    /// Empties it, for at most `most` nodes.
    pub fn reset(&mut self, most: usize) {
        self.found.clear();
        self.found.reserve(most);
        self.most = most;
        self.next = 0;
        self.rest.clear();
        self.keeps_rest = false;
    }

    /// From now on keeps the nodes that are not among the nearest, for [`Pool::next_batch`].
    pub fn keep_rest(&mut self) {
        self.keeps_rest = true;
    }

    /// Replaces the nodes by the nearest of those that were kept, at most `most`.
    pub fn next_batch(&mut self, most: usize) {
        if self.rest.len() > most {
            self.rest.select_nth_unstable_by(most, |a, b| a.score.total_cmp(&b.score));
        }
        let others = self.rest.split_off(most.min(self.rest.len()));
        self.found = std::mem::replace(&mut self.rest, others);
        self.found.sort_by(|a, b| a.score.total_cmp(&b.score));
        self.most = most;
        self.next = 0;
    }

    /// The nodes, the nearest first.
    pub fn found(&self) -> &[Found<N>] {
        &self.found
    }

    /// Adds a node, if it is among the nearest.
    #[inline]
    pub fn insert(&mut self, score: f32, node: N) {
        self.put(Found { score, node, expanded: false });
    }

    #[inline]
    fn put(&mut self, new: Found<N>) {
        let score = new.score;
        if self.found.len() == self.most {
            // A NaN is never nearer.
            let nearer = self.found.last().is_some_and(|last| score < last.score);
            let gone = if nearer { self.found.pop() } else { Some(new) };
            if self.keeps_rest {
                self.rest.extend(gone);
            }
            if !nearer {
                return;
            }
        }
        let place = self.found.partition_point(|found| found.score <= score);
        self.found.insert(place, new);
        self.next = self.next.min(place);
    }

    /// Takes those nodes back that were not among the nearest but are now, since the scores of others have been corrected.
    pub fn refill(&mut self) {
        let mut at = 0;
        while let Some(kept) = self.rest.get(at) {
            let farthest = self.found.last().filter(|_| self.found.len() == self.most);
            if kept.score < farthest.map_or(f32::INFINITY, |farthest| farthest.score) {
                let kept = self.rest.swap_remove(at);
                self.put(kept);
            } else {
                at += 1;
            }
        }
    }

    /// The nearest node that is not expanded; it counts as expanded now.
    #[inline]
    pub fn expand(&mut self) -> Option<N> {
        loop {
            let found = self.found.get_mut(self.next)?;
            self.next += 1;
            if !found.expanded {
                found.expanded = true;
                return Some(found.node);
            }
        }
    }

    /// Gives the node that was expanded last another score.
    #[inline]
    pub fn correct(&mut self, score: f32) {
        let Some(at) = self.next.checked_sub(1).filter(|at| *at < self.found.len()) else { return };
        let found = Found { score, ..self.found.remove(at) };
        let place = self.found.partition_point(|other| other.score <= score);
        self.found.insert(place, found);
        // Nodes between the old place and a later new one have moved to the front.
        if place > at {
            self.next = at;
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
    fn batches_of_a_pool_that_keeps_the_rest_have_every_node_once() {
        let mut rng = Rng::new(6);
        let mut pool = Pool::default();
        pool.reset(10);
        pool.keep_rest();
        for node in 0..300 {
            pool.insert(rng.below(100) as f32, node);
        }
        let (mut seen, mut last) = (Vec::new(), 0.0);
        while !pool.found().is_empty() {
            assert!(pool.found().first().unwrap().score >= last);
            last = pool.found().last().unwrap().score;
            seen.extend(pool.found().iter().map(|found| found.node));
            pool.next_batch(7);
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..300).collect::<Vec<_>>());
    }

    #[test]
    fn a_pool_with_corrected_scores_is_in_their_order_and_expands_each_once() {
        let mut rng = Rng::new(8);
        for most in [1, 2, 7, 64] {
            let mut pool = Pool::default();
            pool.reset(most);
            let (mut expanded, mut node) = (Vec::new(), 0);
            loop {
                if node < 300 {
                    for _ in 0..3 {
                        pool.insert(rng.below(1000) as f32, node);
                        node += 1;
                    }
                }
                let Some(next) = pool.expand() else { break };
                let score = rng.below(1000) as f32;
                pool.correct(score);
                expanded.push(next);
                assert!(pool.found().iter().any(|found| found.node == next && found.score == score));
                assert!(pool.found().is_sorted_by(|a, b| a.score <= b.score));
            }
            assert!(pool.found().iter().all(|found| expanded.contains(&found.node)));
            let count = expanded.len();
            expanded.sort_unstable();
            expanded.dedup();
            assert_eq!(expanded.len(), count, "a node was expanded twice");
        }
    }

    #[test]
    fn a_refilled_pool_has_the_nearest_by_their_corrected_scores() {
        let mut rng = Rng::new(9);
        for most in [1, 2, 7, 64] {
            let mut pool = Pool::default();
            pool.reset(most);
            pool.keep_rest();
            let exact: Vec<f32> = (0..300).map(|_| rng.below(1000) as f32).collect();
            for (node, score) in exact.iter().enumerate() {
                // Estimates are never too high.
                pool.insert(score - rng.below(300) as f32, node);
            }
            while pool.upcoming().is_some() {
                while let Some(node) = pool.expand() {
                    pool.correct(exact[node]);
                }
                pool.refill();
            }
            let mut nearest = exact.clone();
            nearest.sort_by(f32::total_cmp);
            let found: Vec<f32> = pool.found().iter().map(|found| found.score).collect();
            assert_eq!(found, nearest[..most]);
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
