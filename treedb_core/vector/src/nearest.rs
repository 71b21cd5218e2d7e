//! The nearest of many things, which come one after another.

use std::cmp::Ordering;

/// Room beside those that are kept: they are put in order once for so many that are added.
const ROOM: usize = 64;

/// At most so many of what is added: the nearest, and of those at the same distance the least. Adding takes constant time on average,
/// however many are kept. Used again, it allocates nothing.
#[derive(Debug)]
pub struct Nearest<T> {
    found: Vec<(f32, T)>,
    most: usize,
    /// The farthest of those that are kept, once there are as many; what is not nearer is not added.
    farthest: Option<(f32, T)>,
}

impl<T> Default for Nearest<T> {
    fn default() -> Self {
        Nearest { found: Vec::new(), most: 0, farthest: None }
    }
}

fn order<T: Ord>(a: &(f32, T), b: &(f32, T)) -> Ordering {
    a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1))
}

impl<T: Copy + Ord> Nearest<T> {
    /// An empty one that keeps at most `most`.
    pub fn new(most: usize) -> Nearest<T> {
        Nearest { most, ..Nearest::default() }
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        size_of::<(f32, T)>() * self.found.capacity()
    }

    /// Empties it, to keep at most `most`.
    pub fn reset(&mut self, most: usize) {
        self.found.clear();
        (self.most, self.farthest) = (most, None);
    }

    /// Adds one, if it is among the nearest.
    #[inline]
    pub fn add(&mut self, distance: f32, thing: T) {
        let new = (distance, thing);
        if self.farthest.as_ref().is_some_and(|farthest| order(&new, farthest) != Ordering::Less) {
            return;
        }
        self.found.push(new);
        if self.found.len() >= self.most.saturating_mul(2).saturating_add(ROOM) {
            self.shrink();
        }
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.found.len().min(self.most)
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shrink(&mut self) {
        if self.found.len() > self.most {
            if let Some(last) = self.most.checked_sub(1) {
                self.found.select_nth_unstable_by(last, order);
            }
            self.found.truncate(self.most);
            self.farthest = self.found.last().copied();
        }
    }

    /// Those that are kept, the nearest first.
    pub fn sorted(&mut self) -> &[(f32, T)] {
        self.shrink();
        self.found.sort_unstable_by(order);
        &self.found
    }
}

#[cfg(test)]
mod tests {
    use treedb_testing::Rng;

    use super::*;

    #[test]
    fn the_nearest_are_kept_in_order_however_many_are_added() {
        let mut rng = Rng::new(8);
        let mut nearest = Nearest::default();
        for most in [0, 1, 2, 10, 100, 1000] {
            for count in [0, 1, 50, 3000] {
                nearest.reset(most);
                // Many at the same distance.
                let all: Vec<(f32, usize)> = (0..count).map(|n| (rng.below(200) as f32, n)).collect();
                all.iter().for_each(|(distance, n)| nearest.add(*distance, *n));
                let mut wanted = all;
                wanted.sort_by(order);
                wanted.truncate(most);
                assert_eq!(nearest.len(), wanted.len());
                assert_eq!(nearest.sorted(), wanted, "{most} of {count}");
            }
        }
    }
}
