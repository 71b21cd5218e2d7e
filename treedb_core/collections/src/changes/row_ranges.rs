//! [`RowRanges`]: a set of row ids that are mostly consecutive.

use std::collections::BTreeMap;

/// A set of row ids.
#[derive(Debug, Default)]
pub(super) struct RowRanges {
    /// First row, and the row after the last.
    ranges: BTreeMap<u64, u64>,
}

impl RowRanges {
    pub(super) fn insert(&mut self, row: u64) {
        match self.ranges.range_mut(..=row).next_back() {
            Some((_, end)) if *end == row => *end += 1,
            Some((_, end)) if *end > row => {}
            _ => {
                self.ranges.insert(row, row + 1);
            }
        }
    }

    pub(super) fn contains(&self, row: u64) -> bool {
        self.ranges.range(..=row).next_back().is_some_and(|(_, &end)| row < end)
    }

    pub(super) fn len(&self) -> u64 {
        self.ranges.iter().map(|(first, end)| end - first).sum()
    }

    /// About the bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.ranges.len() * 2 * size_of::<(u64, u64)>()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        self.ranges.iter().flat_map(|(&first, &end)| first..end)
    }
}
