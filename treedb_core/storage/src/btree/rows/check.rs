//! Check: every page once, ids within the branches' bounds, counts right.

use std::collections::HashSet;

use super::super::branches::Branches;
use super::super::check::{Alone, CheckedTree, PageCount, Part, Visitor, walk_pages};
use super::super::path::At;
use super::super::{TreeRoot, TreeStats};
use super::branch::{HEADER as BRANCH_HEADER, RowBranch};
use super::leaf::{HEADER, RowLeaf};
use super::own_path::RowBranches;
use super::{RowRoot, RowTree};
use crate::Result;
use crate::page::{PageId, PageSource};

impl RowTree {
    /// All of a tree, to be checked; `None` if it is empty.
    pub(crate) fn part<S: PageSource + ?Sized>(src: &S, root: &RowRoot) -> Result<Option<Part<u64>>> {
        Part::whole(src, &root.tree, 0, root.next)
    }

    /// Reads the whole tree and checks its structure; `visit` gets every page once. The first damage found is the
    /// error.
    pub fn check<S: PageSource + ?Sized>(
        src: &S,
        root: &RowRoot,
        visit: &mut dyn FnMut(PageId),
    ) -> Result<TreeStats> {
        let Some(part) = RowTree::part(src, root)? else { return Ok(TreeStats::default()) };
        let stats = part.check::<RowTree, S, _>(src, &mut Alone { src, seen: HashSet::new(), visit })?;
        root.tree.expect_entries(src, stats.entries)?;
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

impl CheckedTree for RowTree {
    type Bound = u64;

    fn branch<S: PageSource + ?Sized>(
        src: &S,
        part: &Part<u64>,
        page: &[u8],
        stats: &mut TreeStats,
        children: &mut Vec<Part<u64>>,
    ) -> Result<()> {
        let id = part.page;
        let branch = RowBranch::open(page).at(src, id)?;
        stats.room += page.len().saturating_sub(BRANCH_HEADER) as u64;
        stats.used += 12 * branch.count() as u64;
        let mut low = part.low;
        for c in 0..branch.count() {
            let high = if c + 1 < branch.count() { branch.first(c + 1).at(src, id)? } else { part.high };
            if high <= low || high > part.high {
                let at = BRANCH_HEADER + 8 * c;
                return Err(src.damaged(id, at, "first ids in rising order", &high.to_string()));
            }
            let page = PageId(branch.child(c).at(src, id)?);
            children.push(Part { page, level: part.level - 1, low, high });
            low = high;
        }
        Ok(())
    }

    fn leaf<S: PageSource + ?Sized, V: Visitor>(
        src: &S,
        part: &Part<u64>,
        page: &[u8],
        stats: &mut TreeStats,
        visitor: &mut V,
    ) -> Result<()> {
        let (id, low, high) = (part.page, part.low, part.high);
        let leaf = RowLeaf::open(page).at(src, id)?;
        leaf.validate().at(src, id)?;
        stats.entries += leaf.rows() as u64;
        stats.room += page.len().saturating_sub(HEADER) as u64;
        stats.used += page.len().saturating_sub(HEADER + leaf.free()) as u64;
        if leaf.rows() == 0 {
            return Err(src.damaged(id, 4, "a leaf with rows", "none"));
        }
        if leaf.base() < low || leaf.base() + leaf.slots() as u64 > high {
            let expected = format!("row ids from {low} up to {high}");
            return Err(src.damaged(id, 16, &expected, &leaf.base().to_string()));
        }
        for slot in 0..leaf.slots() {
            if let Some(value) = leaf.row(slot).at(src, id)? {
                visitor.value(value)?;
            }
        }
        Ok(())
    }
}
