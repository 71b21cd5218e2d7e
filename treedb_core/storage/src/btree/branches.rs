//! What the two kinds of trees, with keys and with row ids, share in their branches: one trait for what differs, and
//! the rebalancing after a delete.

use super::path::{At, Path};
use super::tree::own_child;
use super::{TreeRoot, check, delete};
use crate::Result;
use crate::page::{PageId, PageSink};
use treedb_formats::node::{Branch, BranchMut, NodeDamage};

/// How the branches of a kind of tree are read and changed.
pub(super) trait Branches {
    /// Number of children of a branch.
    fn count(page: &[u8]) -> Result<usize, NodeDamage>;
    /// Child `c` of a branch.
    fn child(page: &[u8], c: usize) -> Result<PageId, NodeDamage>;
    /// Adds the children of a branch to `out`.
    fn children(page: &[u8], out: &mut Vec<PageId>) -> Result<(), NodeDamage>;
    /// Removes child `c` of a branch that has others.
    fn remove_child(page: &mut [u8], c: usize) -> Result<(), NodeDamage>;
    /// Whether a branch is less than a quarter full.
    fn is_underfull(page: &[u8]) -> Result<bool, NodeDamage>;
    /// Makes child `c` of an owned branch the transaction's own.
    fn own<S: PageSink + ?Sized>(sink: &mut S, parent: PageId, c: usize, child: PageId) -> Result<PageId>;
    /// Merges child `c`, page `id`, which is underfull, with a neighbour, or moves entries between them. `count` is the
    /// parent's number of children, at least 2. Returns false, and changes nothing, if neither can be done.
    fn fix_underfull<S: PageSink + ?Sized>(
        sink: &mut S,
        parent: PageId,
        c: usize,
        count: usize,
        id: PageId,
        leaf: bool,
    ) -> Result<bool>;
}

/// The branches of trees with keys.
pub(super) struct Bytewise;

impl Branches for Bytewise {
    fn count(page: &[u8]) -> Result<usize, NodeDamage> {
        Ok(Branch::open(page)?.count() + 1)
    }

    fn child(page: &[u8], c: usize) -> Result<PageId, NodeDamage> {
        Branch::open(page)?.child(c).map(PageId)
    }

    fn children(page: &[u8], out: &mut Vec<PageId>) -> Result<(), NodeDamage> {
        check::branch_children(page, out)
    }

    fn remove_child(page: &mut [u8], c: usize) -> Result<(), NodeDamage> {
        BranchMut::open(page)?.remove_child(c)
    }

    fn is_underfull(page: &[u8]) -> Result<bool, NodeDamage> {
        Ok(is_underfull(Branch::open(page)?.free()?, page.len()))
    }

    fn own<S: PageSink + ?Sized>(sink: &mut S, parent: PageId, c: usize, child: PageId) -> Result<PageId> {
        own_child(sink, parent, c, child)
    }

    fn fix_underfull<S: PageSink + ?Sized>(
        sink: &mut S,
        parent: PageId,
        c: usize,
        count: usize,
        id: PageId,
        leaf: bool,
    ) -> Result<bool> {
        delete::merge_or_share(sink, parent, c, count, id, leaf)
    }
}

/// Whether a node of `payload` bytes, of which `free` are not used, is less than a quarter full.
pub(super) fn is_underfull(free: usize, payload: usize) -> bool {
    free > payload - payload / 4
}

/// What a delete has made of a child.
#[derive(Clone, Copy)]
pub(super) enum Child {
    /// It is empty and its page freed: its parent must drop it.
    Removed,
    /// It is less than a quarter full.
    Underfull(PageId),
}

/// Restores the branches of `path`, from the last up, after a delete in the leaf below them, which has become `child`.
pub(super) fn rebalance<B: Branches, S: PageSink + ?Sized>(
    sink: &mut S,
    root: &mut TreeRoot,
    path: &mut Path,
    mut child: Child,
) -> Result<()> {
    let mut leaf = true;
    while let Some(step) = path.pop() {
        let (parent, c) = (step.page, step.child as usize);
        let count = B::count(sink.page(parent)?).at(&*sink, parent)?;
        match child {
            Child::Removed if count == 1 => {
                sink.free(parent)?;
                leaf = false;
                continue;
            }
            Child::Removed => {
                let done = B::remove_child(sink.page_mut(parent)?, c);
                done.at(sink, parent)?;
            }
            Child::Underfull(id) if count > 1 => {
                if !B::fix_underfull(sink, parent, c, count, id, leaf)? {
                    return Ok(());
                }
            }
            Child::Underfull(_) => {}
        }
        if !B::is_underfull(sink.page(parent)?).at(&*sink, parent)? {
            return Ok(());
        }
        (child, leaf) = (Child::Underfull(parent), false);
    }
    match child {
        Child::Removed => *root = TreeRoot::EMPTY,
        Child::Underfull(_) => lower_root::<B, S>(sink, root)?,
    }
    Ok(())
}

/// Removes root branches that have a single child.
pub(super) fn lower_root<B: Branches, S: PageSink + ?Sized>(sink: &mut S, root: &mut TreeRoot) -> Result<()> {
    while root.depth > 1 {
        let top = root.root;
        if B::count(sink.page(top)?).at(&*sink, top)? > 1 {
            break;
        }
        let child = B::child(sink.page(top)?, 0).at(&*sink, top)?;
        sink.free(top)?;
        root.root = child;
        root.depth -= 1;
    }
    Ok(())
}

/// Frees every page of a tree; leaves are not read.
pub(super) fn free_all<B: Branches, S: PageSink + ?Sized>(sink: &mut S, root: &mut TreeRoot) -> Result<()> {
    let mut pages = Vec::new();
    check::walk_pages(&*sink, root, &mut |id, _| pages.push(id), B::children)?;
    for id in pages {
        sink.free(id)?;
    }
    *root = TreeRoot::EMPTY;
    Ok(())
}
