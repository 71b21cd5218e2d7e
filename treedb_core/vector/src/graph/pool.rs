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

/// At most so many nodes, the nearest first; in some searches more, if some are exactly as far as each other.
#[derive(Debug)]
pub struct Pool<N> {
    found: Vec<Found<N>>,
    most: usize,
    /// Only so many of the nearest are expanded, once there are as many as there may be.
    wide: usize,
    /// How many are exactly as far as the one before them.
    tied: usize,
    /// How many of those do not count towards `most`, as a multiple of `most`.
    free: usize,
    /// `most` and `wide`, and as many more as do not count.
    places: usize,
    wide_places: usize,
    /// How many nodes that are exactly as far as each other are kept.
    most_tied: usize,
    /// All before this one are expanded.
    next: usize,
    /// The nodes that there was no place for, if they are kept: none is nearer than those that have one.
    others: Vec<Found<N>>,
    keeps_others: bool,
}

/// A search that is to keep some number of nodes keeps up to so many times as many more, if these are exactly as far as others.
pub(super) const FREE: usize = 1;

/// How many of these scores, which are in order, are those of nodes that are exactly as far as the one before them.
pub(super) fn tied(scores: impl Iterator<Item = f32> + Clone) -> usize {
    scores.clone().zip(scores.skip(1)).filter(|(before, score)| before == score).count()
}

/// Places for `most` nodes, and for those of `tied` ones that do not count towards them: at most `free` for each.
pub(super) fn places(most: usize, tied: usize, free: usize) -> usize {
    most + tied.min(free * most)
}

/// How many of these nodes, which are in order, are no farther than this.
///
/// What a binary search compares next depends on what it has compared last, and waits for that. Most pools are so small that it takes less
/// time to compare the last node of each block, and then those of one block, all at the same time.
#[inline]
fn place<N>(found: &[Found<N>], score: f32) -> usize {
    const BLOCK: usize = 8;
    const BLOCKS: usize = 16;
    let is_before = |found: &Found<N>| found.score <= score;
    let (mut before, mut rest) = (0, found);
    while rest.len() > BLOCK * BLOCKS {
        let (first, second) = rest.split_at(rest.len() / 2);
        let is_in_second = first.last().is_some_and(is_before);
        before += if is_in_second { first.len() } else { 0 };
        rest = if is_in_second { second } else { first };
    }
    let (blocks, last) = rest.as_chunks::<BLOCK>();
    let whole: usize = blocks.iter().map(|[.., last]| usize::from(is_before(last))).sum();
    let count = |found: &[Found<N>]| found.iter().map(|found| usize::from(is_before(found))).sum::<usize>();
    before + BLOCK * whole + blocks.get(whole).map_or_else(|| count(last), |block| count(block))
}

impl<N> Default for Pool<N> {
    fn default() -> Self {
        Pool {
            found: Vec::new(),
            most: 0,
            wide: 0,
            tied: 0,
            free: 0,
            places: 0,
            wide_places: 0,
            most_tied: usize::MAX,
            next: 0,
            others: Vec::new(),
            keeps_others: false,
        }
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
        (self.most, self.wide, self.free, self.most_tied) = (most, wide, 0, usize::MAX);
        self.set_tied(0);
        self.next = 0;
        self.others.clear();
        self.keeps_others = false;
    }

    /// Nodes that are exactly as far as each other count as one from now on, within the limit of [`FREE`]: they may be copies of one
    /// vector, which fill the pool without leading anywhere else.
    pub(super) fn count_tied_once(&mut self) {
        self.free = FREE;
    }

    /// Keeps at most so many nodes that are exactly as far as each other from now on.
    pub(super) fn limit_tied(&mut self, most: usize) {
        self.most_tied = most;
    }

    /// Keeps the nodes that there is no place for from now on, so that there can be [more places](Pool::widen) later.
    pub(super) fn keep_others(&mut self) {
        self.keeps_others = true;
    }

    /// Makes it one of at most `most` nodes, more than before, all of which are expanded. The nearest of the others take the places.
    pub(super) fn widen(&mut self, most: usize) {
        (self.most, self.wide) = (most, most);
        self.count_tied();
        // Those that are exactly as far make room for more.
        while self.found.len() < self.places && !self.others.is_empty() {
            let room = (self.places - self.found.len()).min(self.others.len());
            if room < self.others.len() {
                self.others.select_nth_unstable_by(room - 1, |a, b| a.score.total_cmp(&b.score));
            }
            let from = self.found.len();
            self.found.extend(self.others.drain(..room));
            if let Some(new) = self.found.get_mut(from..) {
                new.sort_by(|a, b| a.score.total_cmp(&b.score));
            }
            self.count_tied();
        }
    }

    fn count_tied(&mut self) {
        self.set_tied(tied(self.found.iter().map(|found| found.score)));
    }

    /// The nodes, the nearest first.
    pub fn found(&self) -> &[Found<N>] {
        &self.found
    }

    /// Adds a node, if it is among the nearest.
    #[inline(always)]
    pub fn insert(&mut self, score: f32, node: N) {
        let is_full = self.found.len() >= self.places;
        // A NaN is never nearer.
        if is_full && !self.found.last().is_some_and(|last| score < last.score) {
            if self.keeps_others {
                self.others.push(Found { score, node, expanded: false });
            }
            return;
        }
        self.insert_near(is_full, score, node);
    }

    /// Adds a node that is among the nearest.
    fn insert_near(&mut self, is_full: bool, score: f32, node: N) {
        let place = place(&self.found, score);
        if self.is_tied(place, score) {
            self.insert_tied(place, score, node);
            return;
        }
        if is_full {
            self.remove_last();
        }
        self.put(place, score, node);
    }

    #[inline]
    fn put(&mut self, place: usize, score: f32, node: N) {
        self.found.insert(place, Found { score, node, expanded: false });
        self.next = self.next.min(place);
    }

    /// Adds a node that is exactly as far as the one before this place.
    #[cold]
    fn insert_tied(&mut self, place: usize, score: f32, node: N) {
        if place.checked_sub(self.most_tied).is_some_and(|first| self.is_tied(first + 1, score)) {
            return;
        }
        self.set_tied(self.tied + 1);
        if self.found.len() >= self.places {
            self.remove_last();
        }
        self.put(place, score, node);
    }

    /// Whether the node before this place is exactly as far.
    #[inline]
    fn is_tied(&self, place: usize, score: f32) -> bool {
        place
            .checked_sub(1)
            .and_then(|before| self.found.get(before))
            .is_some_and(|before| before.score == score)
    }

    fn set_tied(&mut self, tied: usize) {
        self.tied = tied;
        self.places = places(self.most, tied, self.free);
        self.wide_places = places(self.wide, tied, self.free);
    }

    /// Removes the last node, and with it those before it that are as far, if they do not count.
    #[inline]
    fn remove_last(&mut self) {
        let last = self.found.pop();
        if self.keeps_others {
            self.others.extend(last);
        }
        if self.tied > 0 {
            self.remove_tied(last.map_or(0.0, |last| last.score));
        }
    }

    /// Removes nodes that are as far as one that was the last, as long as there is one that does not count.
    #[cold]
    fn remove_tied(&mut self, score: f32) {
        while self.is_tied(self.found.len(), score) {
            self.set_tied(self.tied.saturating_sub(1));
            if self.found.len() < self.places {
                return;
            }
            let last = self.found.pop();
            if self.keeps_others {
                self.others.extend(last);
            }
        }
    }

    /// The nearest node that is not expanded, if it is among those to be; it counts as expanded now.
    #[inline]
    pub fn expand(&mut self) -> Option<N> {
        let end = if self.found.len() < self.places { self.places } else { self.wide_places };
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
    fn the_place_of_a_score_is_the_one_that_a_binary_search_finds() {
        let mut rng = Rng::new(8);
        for len in (0..300).chain([511, 640, 1000, 5000]) {
            for scores in [1, 10, 100_000] {
                let found =
                    (0..len).map(|_| Found { score: rng.below(scores) as f32, node: 0, expanded: false });
                let mut found: Vec<Found<u32>> = found.collect();
                found.sort_by(|a, b| a.score.total_cmp(&b.score));
                for score in (0..20).map(|_| rng.below(scores + 1) as f32).chain([-1.0, f32::INFINITY]) {
                    let wanted = found.partition_point(|found| found.score <= score);
                    assert_eq!(place(&found, score), wanted, "{score} among {len}");
                }
            }
        }
    }

    #[test]
    fn nodes_that_are_as_far_count_once_until_there_are_many() {
        let mut pool = Pool::default();
        pool.reset(3);
        pool.count_tied_once();
        let scores =
            |pool: &Pool<u32>| -> Vec<f32> { pool.found().iter().map(|found| found.score).collect() };
        for (node, score) in [5.0, 7.0, 5.0, 7.0, 9.0].into_iter().enumerate() {
            pool.insert(score, node as u32);
        }
        assert_eq!(scores(&pool), [5.0, 5.0, 7.0, 7.0, 9.0]);
        assert_eq!(std::iter::from_fn(|| pool.expand()).count(), 5);
        // The last score goes, with all nodes that have it.
        pool.insert(6.0, 10);
        assert_eq!(scores(&pool), [5.0, 5.0, 6.0, 7.0, 7.0]);
        pool.insert(1.0, 11);
        assert_eq!(scores(&pool), [1.0, 5.0, 5.0, 6.0]);
        (20..40).for_each(|node| pool.insert(2.0, node));
        assert_eq!(scores(&pool), [vec![1.0], vec![2.0; 2 + 3 * FREE]].concat());
        let mut pool = Pool::default();
        pool.reset(3);
        (0..9).for_each(|node| pool.insert(2.0, node));
        assert_eq!(scores(&pool), [2.0; 3]);
        pool.limit_tied(2);
        (10..13).for_each(|node| pool.insert(1.0, node));
        assert_eq!(scores(&pool), [1.0, 1.0, 2.0]);
    }

    #[test]
    fn a_pool_that_keeps_others_becomes_the_one_that_had_more_places_from_the_start() {
        let mut rng = Rng::new(6);
        for (most, scores) in [(1, 1_000_000), (5, 1_000_000), (40, 1_000_000), (5, 9), (40, 30), (40, 200)] {
            let (mut pool, mut whole) = (Pool::default(), Pool::default());
            pool.reset(most);
            pool.count_tied_once();
            pool.keep_others();
            whole.reset(3 * (1 + FREE) * most);
            let mut expanded = Vec::new();
            for node in 0..2 * most {
                let score = rng.below(scores) as f32;
                pool.insert(score, node);
                whole.insert(score, node);
                if node % 2 == 0 {
                    expanded.extend(pool.expand());
                }
            }
            for (round, most) in [most + 1, 2 * most, 3 * most].into_iter().enumerate() {
                pool.widen(most);
                assert!(pool.found().len() >= most.min(whole.found().len()));
                let wanted = whole.found().iter().map(|found| found.score);
                assert!(pool.found().iter().map(|found| found.score).eq(wanted.take(pool.found().len())));
                let (node, score) = (1000 + round, rng.below(scores) as f32);
                pool.insert(score, node);
                whole.insert(score, node);
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
