//! Check: every page once, every key in order and within its separators, counts right.

use std::collections::HashSet;

use super::path::At;
use super::root::MAX_DEPTH;
use super::{Tree, TreeRoot};
use crate::Result;
use crate::page::{PageId, PageSource};
use treedb_formats::node::{Branch, Leaf, NODE_HEADER, NodeDamage, compare};

/// What [`Tree::check`] counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeStats {
    /// Levels.
    pub depth: u16,
    /// Entries.
    pub entries: u64,
    /// Leaf pages.
    pub leaves: u64,
    /// Branch pages.
    pub branches: u64,
    /// Bytes of all pages' payloads that entries use.
    pub used: u64,
    /// Bytes of all pages' payloads, node headers left out.
    pub room: u64,
}

impl Tree {
    /// Reads the whole tree and checks its structure; `visit` gets every page once. The first damage found is the
    /// error.
    pub fn check<S: PageSource + ?Sized>(
        src: &S,
        root: &TreeRoot,
        visit: &mut dyn FnMut(PageId),
    ) -> Result<TreeStats> {
        let mut stats = TreeStats { depth: root.depth, ..TreeStats::default() };
        if root.depth == 0 {
            return Ok(stats);
        }
        depth_is_sound(src, root)?;
        let mut walk = Walk { src, seen: HashSet::new(), visit, stats: &mut stats };
        walk.node(root.root, root.depth, None, None)?;
        if stats.entries != root.entries {
            let expected = format!("{} entries", root.entries);
            return Err(src.damaged(root.root, 0, &expected, &stats.entries.to_string()));
        }
        Ok(stats)
    }

    /// Numbers of branch pages and of leaf pages; leaves are not read.
    pub fn count_pages<S: PageSource + ?Sized>(src: &S, root: &TreeRoot) -> Result<(u64, u64)> {
        let mut count = PageCount::default();
        pages(src, root, &mut |_, level| count.add(level))?;
        Ok(count.0)
    }
}

/// Branch pages and leaf pages of a tree.
#[derive(Default)]
pub(super) struct PageCount(pub(super) (u64, u64));

impl PageCount {
    /// Counts a page of this level.
    pub(super) fn add(&mut self, level: u16) {
        if level > 1 { self.0.0 += 1 } else { self.0.1 += 1 }
    }
}

pub(super) fn depth_is_sound<S: PageSource + ?Sized>(src: &S, root: &TreeRoot) -> Result<()> {
    if usize::from(root.depth) > MAX_DEPTH {
        return Err(src.damaged(root.root, 0, "a tree of at most 40 levels", &root.depth.to_string()));
    }
    Ok(())
}

pub(super) fn first_visit<S: PageSource + ?Sized>(
    src: &S,
    seen: &mut HashSet<PageId>,
    id: PageId,
) -> Result<()> {
    if !seen.insert(id) {
        return Err(src.damaged(id, 0, "a page with one reference", "two references"));
    }
    Ok(())
}

/// Every page of a tree, with its level (1 for leaves), parents before children; leaves are not read.
pub(super) fn pages<S: PageSource + ?Sized>(
    src: &S,
    root: &TreeRoot,
    visit: &mut dyn FnMut(PageId, u16),
) -> Result<()> {
    walk_pages(src, root, visit, branch_children)
}

/// Adds the children of a branch to `out`.
pub(super) fn branch_children(page: &[u8], out: &mut Vec<PageId>) -> Result<(), NodeDamage> {
    let branch = Branch::open(page)?;
    for c in 0..=branch.count() {
        out.push(PageId(branch.child(c)?));
    }
    Ok(())
}

/// Every page of a tree whose branches' children `children_of` lists, with its level.
pub(super) fn walk_pages<S: PageSource + ?Sized>(
    src: &S,
    root: &TreeRoot,
    visit: &mut dyn FnMut(PageId, u16),
    children_of: impl Fn(&[u8], &mut Vec<PageId>) -> Result<(), NodeDamage>,
) -> Result<()> {
    if root.depth == 0 {
        return Ok(());
    }
    depth_is_sound(src, root)?;
    let mut seen = HashSet::new();
    let mut children = Vec::new();
    let mut todo = vec![(root.root, root.depth)];
    while let Some((id, level)) = todo.pop() {
        first_visit(src, &mut seen, id)?;
        visit(id, level);
        if level > 1 {
            children_of(src.page(id)?, &mut children).at(src, id)?;
            todo.extend(children.drain(..).map(|child| (child, level - 1)));
        }
    }
    Ok(())
}

struct Walk<'a, S: PageSource + ?Sized> {
    src: &'a S,
    seen: HashSet<PageId>,
    visit: &'a mut dyn FnMut(PageId),
    stats: &'a mut TreeStats,
}

impl<S: PageSource + ?Sized> Walk<'_, S> {
    /// Checks a node and all below it; its keys must lie in `low..high`.
    fn node(&mut self, id: PageId, level: u16, low: Option<&[u8]>, high: Option<&[u8]>) -> Result<()> {
        first_visit(self.src, &mut self.seen, id)?;
        (self.visit)(id);
        let page = self.src.page(id)?;
        self.stats.room += page.len().saturating_sub(NODE_HEADER) as u64;
        if level == 1 {
            return self.leaf(id, page, low, high);
        }
        self.stats.branches += 1;
        let branch = Branch::open(page).at(self.src, id)?;
        branch.validate().at(self.src, id)?;
        self.count_used(page, branch.free().at(self.src, id)?);
        // The separators left and right of the child.
        let mut left = low.map(<[u8]>::to_vec);
        for c in 0..=branch.count() {
            let right = if c < branch.count() {
                let mut separator = Vec::new();
                branch.separator_into(c, &mut separator).at(self.src, id)?;
                self.within(id, &separator, left.as_deref(), high)?;
                Some(separator)
            } else {
                high.map(<[u8]>::to_vec)
            };
            let child = PageId(branch.child(c).at(self.src, id)?);
            self.node(child, level - 1, left.as_deref(), right.as_deref())?;
            left = right;
        }
        Ok(())
    }

    fn leaf(&mut self, id: PageId, page: &[u8], low: Option<&[u8]>, high: Option<&[u8]>) -> Result<()> {
        let leaf = Leaf::open(page).at(self.src, id)?;
        leaf.validate().at(self.src, id)?;
        self.stats.leaves += 1;
        self.stats.entries += leaf.count() as u64;
        self.count_used(page, leaf.free().at(self.src, id)?);
        let Some(last) = leaf.count().checked_sub(1) else {
            return Err(self.src.damaged(id, 2, "a leaf with entries", "none"));
        };
        let mut key = Vec::new();
        // The keys in between rise: `validate` has seen that.
        for slot in [0, last] {
            leaf.key_into(slot, &mut key).at(self.src, id)?;
            self.within(id, &key, low, high)?;
        }
        Ok(())
    }

    fn count_used(&mut self, page: &[u8], free: usize) {
        self.stats.used += page.len().saturating_sub(NODE_HEADER + free) as u64;
    }

    fn within(&self, id: PageId, key: &[u8], low: Option<&[u8]>, high: Option<&[u8]>) -> Result<()> {
        if low.is_some_and(|low| compare(key, low).is_lt()) {
            return Err(self.src.damaged(
                id,
                0,
                "keys not below the separator left of them",
                "a key below it",
            ));
        }
        if high.is_some_and(|high| compare(key, high).is_ge()) {
            return Err(self.src.damaged(id, 0, "keys below the separator right of them", "a key above it"));
        }
        Ok(())
    }
}
