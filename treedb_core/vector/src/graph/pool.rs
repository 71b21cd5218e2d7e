//! The best nodes that a search has met, in order.
//!
//! A search adds hundreds of nodes, most of them somewhere among a hundred others: that takes a fifth of the time of adding a vector to a
//! graph. So scores are apart from nodes, to be compared several at a time; what lies behind a place moves in whole blocks; and which nodes
//! are expanded is a bit of each.

/// A node that was found, and its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found<N> {
    /// How far it is: the less, the nearer.
    pub score: f32,
    /// The node.
    pub node: N,
}

/// At most so many nodes, the nearest first; in some searches more, if some are exactly as far as each other.
#[derive(Debug)]
pub struct Pool<N> {
    /// Their scores; infinity beyond the last.
    scores: Vec<f32>,
    /// The nodes; any beyond the last.
    nodes: Vec<N>,
    /// Whether each is expanded, the lowest bit first; zeros beyond the last.
    expanded: Vec<u64>,
    len: usize,
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
    /// The nodes that there was no place for, if they are kept, and whether they are expanded: none is nearer than those that have one.
    others: Vec<(Found<N>, bool)>,
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

/// How many nodes are moved, or scores compared, by one step. The vectors have at least twice as many places more than there are nodes.
const BLOCK: usize = 16;
/// Scores that are compared with a new one, at most.
const AT_ONCE: usize = BLOCK * BLOCK;
/// Bits of a word.
const BITS: usize = u64::BITS as usize;

/// How many of the first `len` of these scores, which are in order, are no greater than this; those beyond are infinite.
///
/// What a binary search compares next depends on what it has compared last, and waits for that. Most pools are so small that it takes less
/// time to compare all.
#[inline]
fn place(scores: &[f32], len: usize, score: f32) -> usize {
    let (mut before, mut left) = (0, len);
    while left > AT_ONCE {
        let half = left / 2;
        let is_in_second = scores.get(before + half - 1).is_some_and(|last| *last <= score);
        (before, left) = if is_in_second { (before + half, left - half) } else { (before, half) };
    }
    // In whole blocks, which is done by several at a time.
    let all = scores.get(before..before + left.next_multiple_of(BLOCK)).unwrap_or(&[]);
    let count: u32 = all.iter().map(|other| u32::from(*other <= score)).sum();
    // Those beyond are no greater than an infinite one.
    len.min(before + count as usize)
}

/// Moves the elements from a place up to `len` one place up, and as many after them as fill whole blocks.
#[inline]
fn move_up<T: Copy>(elements: &mut [T], place: usize, len: usize) {
    for from in (place..len).step_by(BLOCK).rev() {
        if let Some((block, to)) = elements.get_mut(from..from + BLOCK + 1).and_then(|part| {
            let block: [T; BLOCK] = *part.first_chunk()?;
            Some((block, part.last_chunk_mut::<BLOCK>()?))
        }) {
            *to = block;
        }
    }
}

impl<N> Default for Pool<N> {
    fn default() -> Self {
        Pool {
            scores: Vec::new(),
            nodes: Vec::new(),
            expanded: Vec::new(),
            len: 0,
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
        size_of::<f32>() * self.scores.capacity()
            + size_of::<N>() * self.nodes.capacity()
            + size_of::<u64>() * self.expanded.capacity()
            + size_of::<(Found<N>, bool)>() * self.others.capacity()
    }

    /// Empties it, for at most `most` nodes.
    pub fn reset(&mut self, most: usize) {
        self.reset_wide(most, most);
    }

    /// Empties it, for at most `most` nodes, of which the nearest `wide` are expanded; more until there are so many.
    pub fn reset_wide(&mut self, most: usize, wide: usize) {
        self.scores.iter_mut().take(self.len).for_each(|score| *score = f32::INFINITY);
        self.expanded.fill(0);
        self.len = 0;
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
        while self.len < self.places && !self.others.is_empty() {
            let room = (self.places - self.len).min(self.others.len());
            if room < self.others.len() {
                self.others.select_nth_unstable_by(room - 1, |a, b| a.0.score.total_cmp(&b.0.score));
            }
            let mut others = std::mem::take(&mut self.others);
            if let Some(nearest) = others.get_mut(..room) {
                nearest.sort_by(|a, b| a.0.score.total_cmp(&b.0.score));
            }
            for (found, expanded) in others.drain(..room) {
                self.put(self.len, found.score, found.node, expanded);
            }
            self.others = others;
            self.count_tied();
        }
    }

    fn count_tied(&mut self) {
        self.set_tied(tied(self.scores().iter().copied()));
    }

    #[inline]
    fn scores(&self) -> &[f32] {
        self.scores.get(..self.len).unwrap_or(&[])
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The nodes, the nearest first.
    #[inline]
    pub fn found(&self) -> impl DoubleEndedIterator<Item = Found<N>> + Clone {
        let found = |(node, score): (&N, &f32)| Found { node: *node, score: *score };
        self.nodes.get(..self.len).unwrap_or(&[]).iter().zip(self.scores()).map(found)
    }

    /// The score of the so manieth of them, from 0 on.
    #[inline]
    pub fn score(&self, at: usize) -> Option<f32> {
        self.scores().get(at).copied()
    }

    /// The greatest score, if there are as many nodes as there may be: nothing that is not nearer is added.
    #[inline(always)]
    fn limit(&self) -> Option<f32> {
        if self.len < self.places { None } else { self.scores().last().copied() }
    }

    /// Adds those of some nodes that are among the nearest. Calls `is_next` with each that is to be expanded next, unless others come before it.
    #[inline(always)]
    pub(super) fn insert_all(&mut self, nodes: &[N], scores: &[f32], mut is_next: impl FnMut(N)) {
        for (nodes, scores) in nodes.chunks(BITS).zip(scores.chunks(BITS)) {
            // Most are not near, but which of them cannot be predicted: there is no branch for each.
            let mut near = u64::MAX;
            if let (Some(limit), false) = (self.limit(), self.keeps_others) {
                let bits = scores.iter().enumerate();
                near = bits.fold(0, |near, (at, score)| near | u64::from(*score < limit) << at);
            }
            while let Some((node, score)) =
                nodes.get(near.trailing_zeros() as usize).zip(scores.get(near.trailing_zeros() as usize))
            {
                near &= near - 1;
                if self.insert(*score, *node) {
                    is_next(*node);
                }
            }
        }
    }

    /// Adds a node, if it is among the nearest. True if it is the one that is expanded next, unless others come before it.
    #[inline(always)]
    pub fn insert(&mut self, score: f32, node: N) -> bool {
        // A NaN, as of vectors whose squares are too large for a float, would be nowhere in the order: it is as far as can be.
        let score = score.min(f32::INFINITY);
        let is_full = self.len >= self.places;
        if is_full && !self.scores().last().is_some_and(|last| score < *last) {
            if self.keeps_others {
                self.others.push((Found { score, node }, false));
            }
            return false;
        }
        self.insert_near(is_full, score, node)
    }

    /// Adds a node that is among the nearest.
    fn insert_near(&mut self, is_full: bool, score: f32, node: N) -> bool {
        let place = place(&self.scores, self.len, score);
        if self.is_tied(place, score) {
            return self.insert_tied(place, score, node);
        }
        if is_full {
            self.remove_last();
        }
        self.put(place, score, node, false)
    }

    /// Puts a node at a place; true if it is the next to be expanded.
    #[inline]
    fn put(&mut self, place: usize, score: f32, node: N, expanded: bool) -> bool {
        if self.len + 2 * BLOCK >= self.scores.len() {
            self.make_room(node);
        }
        move_up(&mut self.scores, place, self.len);
        move_up(&mut self.nodes, place, self.len);
        if let (Some(to), Some(other)) = (self.scores.get_mut(place), self.nodes.get_mut(place)) {
            (*to, *other) = (score, node);
        }
        let (mut carry, mut low) = (u64::from(expanded), (1 << (place % BITS)) - 1);
        for word in self.expanded.iter_mut().take(self.len / BITS + 1).skip(place / BITS) {
            let over = *word >> (BITS - 1);
            *word = *word & low | (*word & !low) << 1 | carry << low.count_ones();
            (carry, low) = (over, 0);
        }
        self.len += 1;
        let is_next = place <= self.next;
        self.next = self.next.min(place);
        is_next
    }

    /// Makes room for more nodes; `any` is put where there are none yet.
    #[cold]
    fn make_room(&mut self, any: N) {
        let room = (self.len + 1).max(self.places).next_multiple_of(BITS) + 2 * BLOCK;
        self.scores.resize(room, f32::INFINITY);
        self.nodes.resize(room, any);
        self.expanded.resize(room.div_ceil(BITS), 0);
    }

    /// Adds a node that is exactly as far as the one before this place.
    #[cold]
    fn insert_tied(&mut self, place: usize, score: f32, node: N) -> bool {
        if place.checked_sub(self.most_tied).is_some_and(|first| self.is_tied(first + 1, score)) {
            return false;
        }
        self.set_tied(self.tied + 1);
        if self.len >= self.places {
            self.remove_last();
        }
        self.put(place, score, node, false)
    }

    /// Whether the node before this place is exactly as far.
    #[inline]
    fn is_tied(&self, place: usize, score: f32) -> bool {
        place
            .checked_sub(1)
            .and_then(|before| self.scores().get(before))
            .is_some_and(|before| *before == score)
    }

    fn set_tied(&mut self, tied: usize) {
        self.tied = tied;
        self.places = places(self.most, tied, self.free);
        self.wide_places = places(self.wide, tied, self.free);
    }

    /// Takes the last node out; its score.
    #[inline]
    fn pop(&mut self) -> f32 {
        let Some(last) = self.len.checked_sub(1) else { return f32::INFINITY };
        self.len = last;
        let (word, bit) = (self.expanded.get_mut(last / BITS), 1 << (last % BITS));
        let expanded = word.is_some_and(|word| {
            let was = *word & bit != 0;
            *word &= !bit;
            was
        });
        let score = self.scores.get_mut(last).map(|place| std::mem::replace(place, f32::INFINITY));
        let score = score.unwrap_or(f32::INFINITY);
        if self.keeps_others
            && let Some(node) = self.nodes.get(last)
        {
            self.others.push((Found { score, node: *node }, expanded));
        }
        score
    }

    /// Removes the last node, and with it those before it that are as far, if they do not count.
    #[inline]
    fn remove_last(&mut self) {
        let score = self.pop();
        if self.tied > 0 {
            self.remove_tied(score);
        }
    }

    /// Removes nodes that are as far as one that was the last, as long as there is one that does not count.
    #[cold]
    fn remove_tied(&mut self, score: f32) {
        while self.is_tied(self.len, score) {
            self.set_tied(self.tied.saturating_sub(1));
            if self.len < self.places {
                return;
            }
            self.pop();
        }
    }

    /// The place of the nearest node that is not expanded.
    #[inline]
    fn unexpanded(&self) -> usize {
        let mut low = u64::MAX << (self.next % BITS);
        for (at, word) in self.expanded.iter().enumerate().skip(self.next / BITS) {
            let left = !*word & low;
            if left != 0 {
                return at * BITS + left.trailing_zeros() as usize;
            }
            low = u64::MAX;
        }
        usize::MAX
    }

    /// The nearest node that is not expanded, if it is among those to be; it counts as expanded now.
    #[inline]
    pub fn expand(&mut self) -> Option<N> {
        let end = if self.len < self.places { self.places } else { self.wide_places };
        let at = self.unexpanded();
        if at >= end.min(self.len) {
            return None;
        }
        self.next = at + 1;
        *self.expanded.get_mut(at / BITS)? |= 1 << (at % BITS);
        self.nodes.get(at).copied()
    }

    /// The node that would be expanded next, if nothing nearer is found.
    #[inline]
    pub fn upcoming(&self) -> Option<N> {
        let at = self.unexpanded();
        self.nodes.get(at).copied().filter(|_| at < self.len)
    }
}

#[cfg(test)]
mod tests {
    use treedb_testing::Rng;

    use super::*;

    #[test]
    fn a_score_that_is_no_number_is_beyond_all_others() {
        let mut pool = Pool::default();
        pool.reset(4);
        for (node, score) in [f32::NAN, 3.0, -f32::NAN, 1.0, 2.0, f32::NAN, 0.0].into_iter().enumerate() {
            pool.insert(score, node);
        }
        let found: Vec<_> = pool.found().map(|found| (found.node, found.score)).collect();
        assert_eq!(found, [(6, 0.0), (3, 1.0), (4, 2.0), (1, 3.0)]);
        pool.reset(4);
        pool.keep_others();
        (0..9).for_each(|node| {
            pool.insert(if node % 2 == 0 { -f32::NAN } else { 9.0 - node as f32 }, node);
        });
        pool.widen(6);
        let found: Vec<_> = pool.found().map(|found| found.node).collect();
        assert_eq!(found[..4], [7, 5, 3, 1]);
        assert!(pool.found().skip(4).all(|found| found.score == f32::INFINITY && found.node % 2 == 0));
    }

    #[test]
    fn a_pool_expands_only_as_many_of_the_nearest_as_it_is_wide() {
        let mut pool = Pool::default();
        pool.reset_wide(5, 2);
        (0..4).for_each(|node| {
            pool.insert(node as f32, node);
        });
        // More, as long as they are too few.
        assert_eq!([pool.expand(), pool.expand(), pool.expand()], [Some(0), Some(1), Some(2)]);
        pool.insert(8.0, 8);
        assert_eq!(pool.expand(), None);
        // One that is nearer takes a place among the two.
        pool.insert(0.5, 9);
        assert_eq!([pool.expand(), pool.expand()], [Some(9), None]);
        (10..20).for_each(|node| {
            pool.insert(0.7, node);
        });
        assert_eq!((pool.expand(), pool.len()), (None, 5));
    }

    #[test]
    fn the_place_of_a_score_is_the_one_that_a_binary_search_finds() {
        let mut rng = Rng::new(8);
        for len in (0..300).chain([511, 640, 1000, 5000]) {
            for scores in [1, 10, 100_000] {
                let mut found: Vec<f32> = (0..len).map(|_| rng.below(scores) as f32).collect();
                found.sort_by(f32::total_cmp);
                found.extend([f32::INFINITY; 2 * BLOCK]);
                for score in (0..20).map(|_| rng.below(scores + 1) as f32).chain([-1.0, f32::INFINITY]) {
                    let wanted = found[..len].partition_point(|found| *found <= score);
                    assert_eq!(place(&found, len, score), wanted, "{score} among {len}");
                }
            }
        }
    }

    #[test]
    fn nodes_that_are_as_far_count_once_until_there_are_many() {
        let mut pool = Pool::default();
        pool.reset(3);
        pool.count_tied_once();
        let scores = |pool: &Pool<u32>| -> Vec<f32> { pool.found().map(|found| found.score).collect() };
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
        (20..40).for_each(|node| {
            pool.insert(2.0, node);
        });
        assert_eq!(scores(&pool), [vec![1.0], vec![2.0; 2 + 3 * FREE]].concat());
        let mut pool = Pool::default();
        pool.reset(3);
        (0..9).for_each(|node| {
            pool.insert(2.0, node);
        });
        assert_eq!(scores(&pool), [2.0; 3]);
        pool.limit_tied(2);
        (10..13).for_each(|node| {
            pool.insert(1.0, node);
        });
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
                assert!(pool.len() >= most.min(whole.len()));
                let wanted = whole.found().map(|found| found.score);
                assert!(pool.found().map(|found| found.score).eq(wanted.take(pool.len())));
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
            assert!(pool.found().all(|found| expanded.contains(&found.node)));
        }
    }

    #[test]
    fn a_pool_keeps_the_nearest_and_expands_each_once() {
        let mut rng = Rng::new(5);
        for most in [1, 2, 7, 64, 130, 400] {
            let mut pool = Pool::default();
            pool.reset(most);
            let mut all: Vec<(f32, usize)> = Vec::new();
            let mut expanded = Vec::new();
            for node in 0..600 {
                let score = rng.below(1000) as f32;
                all.push((score, node));
                pool.insert(score, node);
                if node % 3 == 0 {
                    expanded.extend(pool.expand());
                }
                // Stable: of equal scores, the one that came first.
                all.sort_by(|a, b| a.0.total_cmp(&b.0));
                let kept: Vec<f32> = pool.found().map(|found| found.score).collect();
                let nearest: Vec<f32> = all.iter().take(most).map(|(score, _)| *score).collect();
                assert_eq!(kept, nearest);
            }
            while let Some(node) = pool.expand() {
                expanded.push(node);
            }
            assert!(pool.found().all(|found| expanded.contains(&found.node)));
            let count = expanded.len();
            expanded.sort_unstable();
            expanded.dedup();
            assert_eq!(expanded.len(), count, "a node was expanded twice");
        }
    }

    #[test]
    fn nodes_that_are_added_at_once_are_those_that_are_added_one_by_one() {
        let mut rng = Rng::new(9);
        for (most, scores, keeps_others) in
            [(1, 50, false), (10, 100_000, false), (90, 100, false), (200, 100_000, false), (10, 1000, true)]
        {
            let (mut at_once, mut one_by_one) = (Pool::default(), Pool::default());
            for pool in [&mut at_once, &mut one_by_one] {
                pool.reset(most);
                pool.count_tied_once();
                pool.limit_tied(32);
                if keeps_others {
                    pool.keep_others();
                }
            }
            for round in 0..60 {
                let count = rng.below(140);
                let nodes: Vec<usize> = (0..count).map(|n| 1000 * round + n).collect();
                let score = |rng: &mut Rng| [rng.below(scores) as f32, f32::INFINITY];
                let scores: Vec<f32> =
                    nodes.iter().map(|_| score(&mut rng)[rng.below(40).saturating_sub(38)]).collect();
                let (mut next, mut wanted) = (Vec::new(), Vec::new());
                at_once.insert_all(&nodes, &scores, |node| next.push(node));
                for (node, score) in nodes.iter().zip(&scores) {
                    if one_by_one.insert(*score, *node) {
                        wanted.push(*node);
                    }
                }
                assert_eq!((next, at_once.upcoming()), (wanted, one_by_one.upcoming()));
                let found = |pool: &Pool<usize>| -> Vec<(u32, usize)> {
                    pool.found().map(|found| (found.score.to_bits(), found.node)).collect()
                };
                assert_eq!(found(&at_once), found(&one_by_one));
                assert_eq!(
                    (at_once.expand(), at_once.others.len()),
                    (one_by_one.expand(), one_by_one.others.len())
                );
            }
        }
    }
}
