//! Which rows may have changed since an earlier state of a tree.

use std::ops::Range;

use super::super::path::At;
use super::super::root::TreeRoot;
use super::branch::RowBranch;
use super::tree::RowTree;
use crate::Result;
use crate::page::{PageId, PageSource};

impl RowTree {
    /// The ranges of ids, ascending, whose leaves `is_new` says were written after an earlier state of the tree. It is asked for a page
    /// only if its parent is new: a page is written with every change below it.
    ///
    /// Rows that are not in these ranges are the same in both states, but for deleted ones: the range of a leaf that became empty
    /// belongs to an old leaf now.
    pub fn new_ranges<S: PageSource + ?Sized>(
        src: &S,
        root: &TreeRoot,
        is_new: &dyn Fn(PageId) -> Result<bool>,
    ) -> Result<Vec<Range<u64>>> {
        let mut ranges = Vec::new();
        if root.depth > 0 && is_new(root.root)? {
            add_new(src, root.root, root.depth, 0..u64::MAX, is_new, &mut ranges)?;
        }
        Ok(ranges)
    }

    /// The leaf in whose range row `id` lies; `None` in an empty tree.
    #[inline]
    pub fn leaf_of<S: PageSource + ?Sized>(src: &S, root: &TreeRoot, id: u64) -> Result<Option<PageId>> {
        if root.depth == 0 {
            return Ok(None);
        }
        let mut page = root.root;
        for _ in 1..root.depth {
            let branch = RowBranch::open(src.page(page)?).at(src, page)?;
            page = PageId(branch.child(branch.find(id)).at(src, page)?);
        }
        Ok(Some(page))
    }
}

/// Adds the ranges of the new leaves below a new page.
fn add_new<S: PageSource + ?Sized>(
    src: &S,
    page: PageId,
    depth: u16,
    range: Range<u64>,
    is_new: &dyn Fn(PageId) -> Result<bool>,
    ranges: &mut Vec<Range<u64>>,
) -> Result<()> {
    if depth <= 1 {
        match ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => ranges.push(range),
        }
        return Ok(());
    }
    let branch = RowBranch::open(src.page(page)?).at(src, page)?;
    let child = |c: usize| branch.child(c).at(src, page).map(PageId);
    for c in 0..branch.count() {
        // Their headers are far apart: the waits for them overlap.
        src.prefetch_lines(child(c)?, 0, 1);
    }
    for c in 0..branch.count() {
        let child = child(c)?;
        if is_new(child)? {
            let from = if c == 0 { range.start } else { branch.first(c).at(src, page)? };
            let to = if c + 1 < branch.count() { branch.first(c + 1).at(src, page)? } else { range.end };
            add_new(src, child, depth - 1, from..to, is_new, ranges)?;
        }
    }
    Ok(())
}
