//! Check: every page once, ids within the branches' bounds, counts right.

use std::collections::HashSet;

use super::super::branches::Branches;
use super::super::check::{PageCount, depth_is_sound, first_visit, walk_pages};
use super::super::path::At;
use super::super::{TreeRoot, TreeStats};
use super::branch::{HEADER as BRANCH_HEADER, RowBranch};
use super::leaf::{HEADER, RowLeaf};
use super::own_path::RowBranches;
use super::{RowRoot, RowTree};
use crate::Result;
use crate::page::{PageId, PageSource};

impl RowTree {
    /// Reads the whole tree and checks its structure; `visit` gets every page once. The first damage found is the
    /// error.
    pub fn check<S: PageSource + ?Sized>(
        src: &S,
        root: &RowRoot,
        visit: &mut dyn FnMut(PageId),
    ) -> Result<TreeStats> {
        let tree = &root.tree;
        let mut stats = TreeStats { depth: tree.depth, ..TreeStats::default() };
        if tree.depth == 0 {
            return Ok(stats);
        }
        depth_is_sound(src, tree)?;
        let mut walk = Walk { src, seen: HashSet::new(), visit, stats: &mut stats };
        walk.node(tree.root, tree.depth, 0, root.next)?;
        if stats.entries != tree.entries {
            let expected = format!("{} rows", tree.entries);
            return Err(src.damaged(tree.root, 0, &expected, &stats.entries.to_string()));
        }
        Ok(stats)
    }

    /// Numbers of branch pages and of leaf pages; leaves are not read.
    pub fn count_pages<S: PageSource + ?Sized>(src: &S, root: &RowRoot) -> Result<(u64, u64)> {
        let mut count = PageCount::default();
        pages(src, &root.tree, &mut |_, level| count.add(level))?;
        Ok(count.0)
    }
}

/// Every page of a row tree, with its level (1 for leaves), parents before children; leaves are not read.
pub(super) fn pages<S: PageSource + ?Sized>(
    src: &S,
    root: &TreeRoot,
    visit: &mut dyn FnMut(PageId, u16),
) -> Result<()> {
    walk_pages(src, root, visit, RowBranches::children)
}

struct Walk<'a, S: PageSource + ?Sized> {
    src: &'a S,
    seen: HashSet<PageId>,
    visit: &'a mut dyn FnMut(PageId),
    stats: &'a mut TreeStats,
}

impl<S: PageSource + ?Sized> Walk<'_, S> {
    /// Checks a node and all below it; its ids must lie in `low..high`.
    fn node(&mut self, id: PageId, level: u16, low: u64, high: u64) -> Result<()> {
        first_visit(self.src, &mut self.seen, id)?;
        (self.visit)(id);
        let page = self.src.page(id)?;
        if level == 1 {
            return self.leaf(id, page, low, high);
        }
        let branch = RowBranch::open(page).at(self.src, id)?;
        self.stats.branches += 1;
        self.stats.room += page.len().saturating_sub(BRANCH_HEADER) as u64;
        self.stats.used += 12 * branch.count() as u64;
        let mut from = low;
        for c in 0..branch.count() {
            let to = if c + 1 < branch.count() { branch.first(c + 1).at(self.src, id)? } else { high };
            if to <= from || to > high {
                return Err(self.src.damaged(
                    id,
                    BRANCH_HEADER + 8 * c,
                    "first ids in rising order",
                    &to.to_string(),
                ));
            }
            self.node(PageId(branch.child(c).at(self.src, id)?), level - 1, from, to)?;
            from = to;
        }
        Ok(())
    }

    fn leaf(&mut self, id: PageId, page: &[u8], low: u64, high: u64) -> Result<()> {
        let leaf = RowLeaf::open(page).at(self.src, id)?;
        leaf.validate().at(self.src, id)?;
        self.stats.leaves += 1;
        self.stats.entries += leaf.rows() as u64;
        self.stats.room += page.len().saturating_sub(HEADER) as u64;
        self.stats.used += page.len().saturating_sub(HEADER + leaf.free()) as u64;
        if leaf.rows() == 0 {
            return Err(self.src.damaged(id, 4, "a leaf with rows", "none"));
        }
        if leaf.base() < low || leaf.base() + leaf.slots() as u64 > high {
            let expected = format!("row ids from {low} up to {high}");
            return Err(self.src.damaged(id, 16, &expected, &leaf.base().to_string()));
        }
        Ok(())
    }
}
