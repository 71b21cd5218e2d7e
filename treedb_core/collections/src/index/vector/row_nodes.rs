//! The nodes of rows, in an image.
//!
//! Rows are numbered about as densely as they were inserted, so their nodes are in arrays of a radix tree of three levels, of which only
//! those exist that a row is in. A clone shares those that neither changes afterwards.

use std::sync::Arc;

/// Rows of a leaf.
const LEAF: usize = 64;
/// Leaves of a branch: a change of a clone counts a reference to each.
const BRANCH: usize = 512;

type Leaf = [u32; LEAF];

#[derive(Debug, Clone)]
struct Branch {
    leaves: [Option<Arc<Leaf>>; BRANCH],
    /// Leaves that there are.
    count: usize,
}

/// Which node belongs to each row.
#[derive(Debug, Clone, Default)]
pub(super) struct RowNodes {
    branches: Vec<Option<Arc<Branch>>>,
    /// Leaves that there are.
    leaves: usize,
}

/// The places of a row in the levels, from the root on. Rows have at most 40 bits (see [`super::record::node_of`]).
#[inline]
fn places(row: u64) -> (usize, usize, usize) {
    let (leaf, at) = (row / LEAF as u64, row as usize % LEAF);
    ((leaf / BRANCH as u64) as usize, leaf as usize % BRANCH, at)
}

impl RowNodes {
    /// The node of a row, if it has one.
    #[inline]
    pub(super) fn get(&self, row: u64) -> Option<u32> {
        let (branch, leaf, at) = places(row);
        let leaf = self.branches.get(branch)?.as_ref()?.leaves.get(leaf)?.as_ref()?;
        leaf.get(at)?.checked_sub(1)
    }

    /// Sets the node of a row, or that it has none.
    pub(super) fn set(&mut self, row: u64, node: Option<u32>) {
        let (branch, leaf, at) = places(row);
        if branch >= self.branches.len() {
            if node.is_none() {
                return;
            }
            self.branches.resize(branch + 1, None);
        }
        let Some(branch) = self.branches.get_mut(branch) else { return };
        let empty = || Arc::new(Branch { leaves: [const { None }; BRANCH], count: 0 });
        let Branch { leaves, count } = Arc::make_mut(branch.get_or_insert_with(empty));
        let Some(leaf) = leaves.get_mut(leaf) else { return };
        if leaf.is_none() {
            *count += 1;
            self.leaves += 1;
        }
        let leaf = Arc::make_mut(leaf.get_or_insert_with(|| Arc::new([0; LEAF])));
        if let Some(place) = leaf.get_mut(at) {
            // No graph in memory has so many nodes that the last number is one.
            *place = node.map_or(0, |node| node.saturating_add(1));
        }
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        let branches = self.branches.iter().flatten().count() * size_of::<Branch>();
        branches + self.leaves * size_of::<Leaf>() + self.branches.capacity() * size_of::<usize>()
    }

    /// Bytes that it takes besides those that it shares with `other`, of which it is a clone, or `other` of it.
    pub(super) fn bytes_beside(&self, other: &RowNodes) -> usize {
        let mut shared = 0;
        for (own, other) in self.branches.iter().zip(&other.branches) {
            let (Some(own), Some(other)) = (own, other) else { continue };
            if Arc::ptr_eq(own, other) {
                shared += size_of::<Branch>() + own.count * size_of::<Leaf>();
                continue;
            }
            let leaves = own.leaves.iter().zip(&other.leaves);
            let both = leaves.filter_map(|(own, other)| own.as_ref().zip(other.as_ref()));
            shared += both.filter(|(own, other)| Arc::ptr_eq(own, other)).count() * size_of::<Leaf>();
        }
        self.bytes() - shared
    }

    /// Bytes that so many rows take that are numbered one after another.
    pub(super) fn bytes_of(rows: usize) -> usize {
        rows.div_ceil(LEAF) * size_of::<Leaf>() + rows.div_ceil(LEAF * BRANCH) * size_of::<Branch>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use treedb_testing::Rng;

    use super::*;

    #[test]
    fn rows_have_the_nodes_that_were_set_last_in_each_clone() {
        let mut rng = Rng::new(3);
        let (mut rows, mut model) = (RowNodes::default(), BTreeMap::new());
        let mut clones = Vec::new();
        for step in 0..4000_u32 {
            let row = match rng.below(4) {
                0 => (1 << 30) - 1 - rng.below(100) as u64,
                1 => 3_000_000 + rng.below(300_000) as u64,
                _ => rng.below(500) as u64,
            };
            let node = (rng.below(3) > 0).then_some(step);
            rows.set(row, node);
            model.insert(row, node);
            if step % 500 == 0 {
                let clone = rows.clone();
                assert_eq!(clone.bytes_beside(&rows), clone.branches.capacity() * size_of::<usize>());
                clones.push((clone, model.clone()));
            }
        }
        clones.push((rows, model));
        for (rows, model) in &clones {
            for row in (0..600).chain(3_000_000..3_300_000).chain((1 << 30) - 110..1 << 30) {
                assert_eq!(rows.get(row), model.get(&row).copied().flatten(), "{row}");
            }
        }
    }
}
