//! [`RowSet`]: a set of rows, for plans that combine several indexes.
//!
//! Up to [`RowSet::FEW`] rows are a sorted list, which is made, intersected and read several times as fast as a
//! compressed bitmap, above all where a row's id is an address and few rows have neighbours. More rows are a bitmap,
//! which is smaller.

use roaring::RoaringTreemap;

use crate::access::RowId;

/// Rows, in order.
#[derive(Debug, Clone)]
pub(super) enum RowSet {
    /// Sorted and different.
    Few(Vec<RowId>),
    Many(RoaringTreemap),
}

impl Default for RowSet {
    fn default() -> Self {
        RowSet::Few(Vec::new())
    }
}

impl RowSet {
    /// The largest list.
    const FEW: usize = 256 * 1024;

    pub(super) fn is_empty(&self) -> bool {
        match self {
            RowSet::Few(rows) => rows.is_empty(),
            RowSet::Many(rows) => rows.is_empty(),
        }
    }

    pub(super) fn contains(&self, row: RowId) -> bool {
        match self {
            RowSet::Few(rows) => rows.binary_search(&row).is_ok(),
            RowSet::Many(rows) => rows.contains(row.0),
        }
    }

    /// The rows of both sets.
    pub(super) fn union(self, other: RowSet) -> RowSet {
        if self.is_empty() {
            return other;
        }
        let mut all = RowSetBuilder::from(self);
        match other {
            RowSet::Few(rows) => all.extend(&rows),
            RowSet::Many(rows) => all.many |= rows,
        }
        all.finish()
    }
}

impl IntoIterator for RowSet {
    type Item = RowId;
    type IntoIter = RowIter;

    fn into_iter(self) -> RowIter {
        match self {
            RowSet::Few(rows) => RowIter::Few(rows.into_iter()),
            RowSet::Many(rows) => RowIter::Many(Box::new(rows.into_iter())),
        }
    }
}

/// The rows of a set, in order.
pub(super) enum RowIter {
    Few(std::vec::IntoIter<RowId>),
    Many(Box<roaring::treemap::IntoIter>),
}

impl std::fmt::Debug for RowIter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowIter").finish_non_exhaustive()
    }
}

impl Iterator for RowIter {
    type Item = RowId;

    #[inline]
    fn next(&mut self) -> Option<RowId> {
        match self {
            RowIter::Few(rows) => rows.next(),
            RowIter::Many(rows) => rows.next().map(RowId),
        }
    }
}

/// Rows on their way into a set, in any order.
#[derive(Debug, Default)]
pub(super) struct RowSetBuilder {
    rows: Vec<RowId>,
    many: RoaringTreemap,
}

impl From<RowSet> for RowSetBuilder {
    fn from(set: RowSet) -> Self {
        match set {
            RowSet::Few(rows) => RowSetBuilder { rows, ..Self::default() },
            RowSet::Many(many) => RowSetBuilder { many, ..Self::default() },
        }
    }
}

impl RowSetBuilder {
    pub(super) fn push(&mut self, row: RowId) {
        self.rows.push(row);
        if self.rows.len() > RowSet::FEW {
            self.settle();
        }
    }

    pub(super) fn extend(&mut self, rows: &[RowId]) {
        self.rows.extend_from_slice(rows);
        if self.rows.len() > RowSet::FEW {
            self.settle();
        }
    }

    /// Entries of equal keys come in the order of their rows, so there is often nothing to sort.
    fn sort(&mut self) {
        if !self.rows.is_sorted_by(|a, b| a < b) {
            self.rows.sort_unstable();
            self.rows.dedup();
        }
    }

    /// Adds a list that has become too long to the bitmap.
    fn settle(&mut self) {
        self.sort();
        if self.rows.len() * 2 <= RowSet::FEW && self.many.is_empty() {
            return;
        }
        let mut sorted = RoaringTreemap::new();
        // It fails at a row that is not above the one before, of which there is none.
        let _ = sorted.append(self.rows.drain(..).map(|row| row.0));
        self.many |= sorted;
    }

    pub(super) fn finish(mut self) -> RowSet {
        if self.many.is_empty() {
            self.sort();
            RowSet::Few(self.rows)
        } else {
            self.settle();
            RowSet::Many(self.many)
        }
    }
}

/// Finds rows of a set that come roughly in its order, as those of one key of an index do.
pub(super) struct Finder<'s> {
    set: &'s RowSet,
    /// The row looked for last, and the place in the list where it is or would be.
    last: RowId,
    at: usize,
}

impl<'s> Finder<'s> {
    pub(super) fn new(set: &'s RowSet) -> Self {
        Finder { set, last: RowId(0), at: 0 }
    }

    /// Whether the set has the row.
    #[inline]
    pub(super) fn has(&mut self, row: RowId) -> bool {
        let rows = match self.set {
            RowSet::Few(rows) => rows.as_slice(),
            RowSet::Many(rows) => return rows.contains(row.0),
        };
        if row < self.last {
            self.at = rows.partition_point(|one| *one < row);
        } else {
            self.at += distance(rows.get(self.at..).unwrap_or(&[]), row);
        }
        self.last = row;
        rows.get(self.at) == Some(&row)
    }
}

/// How many of `rows`, which are sorted, come before `row`, which is near: a search in growing steps.
#[inline]
fn distance(rows: &[RowId], row: RowId) -> usize {
    let (mut low, mut step) = (0, 1);
    while rows.get(low).is_some_and(|one| *one < row) {
        let high = (low + step).min(rows.len());
        if rows.get(high).is_none_or(|one| *one >= row) {
            let between = rows.get(low..high).unwrap_or(&[]);
            return low + between.partition_point(|one| *one < row);
        }
        (low, step) = (high, step * 2);
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use treedb_testing::Rng;

    fn random(rng: &mut Rng, count: usize, below: usize) -> Vec<RowId> {
        (0..count).map(|_| RowId(rng.below(below) as u64)).collect()
    }

    #[test]
    fn sets_of_any_size_are_united_and_searched_as_sets_are() {
        let mut rng = Rng::new(11);
        for (count, below) in [(0, 9), (5, 9), (400, 3_000), (3_000, 400), (RowSet::FEW + 9_000, 9_000_000)] {
            let (one, other) = (random(&mut rng, count, below), random(&mut rng, count / 2, below));
            let set_of = |rows: &[RowId]| {
                let mut builder = RowSetBuilder::default();
                builder.extend(&rows[..rows.len() / 2]);
                rows[rows.len() / 2..].iter().for_each(|row| builder.push(*row));
                builder.finish()
            };
            let expected: BTreeSet<RowId> = one.iter().chain(&other).copied().collect();
            let all = set_of(&one).union(set_of(&other));
            assert_eq!(all.is_empty(), expected.is_empty());
            let mut asked = random(&mut rng, 2_000, below + 10);
            asked.sort();
            asked.extend(random(&mut rng, 200, below + 10));
            let mut finder = Finder::new(&all);
            for row in asked {
                assert_eq!(finder.has(row), expected.contains(&row), "{row:?} of {count}");
                assert_eq!(all.contains(row), expected.contains(&row), "{row:?} of {count}");
            }
            assert!(all.into_iter().eq(expected), "{count}");
        }
    }

    #[test]
    fn many_rows_that_are_the_same_stay_a_list() {
        let mut builder = RowSetBuilder::default();
        (0..2 * RowSet::FEW as u64).for_each(|n| builder.push(RowId(n % 10)));
        assert!(matches!(builder.finish(), RowSet::Few(rows) if rows.len() == 10));
    }
}
