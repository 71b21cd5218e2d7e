//! Delete and clear.

use super::super::path::{At, Path};
use super::super::root::TreeRoot;
use super::branch::{RowBranch, RowBranchMut};
use super::change::{find_leaf, own_child};
use super::leaf::{HEADER, RowLeaf, RowLeafMut};
use super::{RowRoot, RowTree};
use crate::Result;
use crate::page::{PageId, PageSink};
use treedb_formats::node::Scratch;

/// What a child has become.
#[derive(Clone, Copy)]
enum Child {
    /// Empty, its page freed: its parent must drop it.
    Gone,
    /// Under a quarter full.
    Meagre(PageId),
}

impl RowTree {
    /// Removes row `id`; `false` if there is none (nothing is changed then). The id is not given out again.
    pub fn delete<S: PageSink + ?Sized>(sink: &mut S, root: &mut RowRoot, id: u64) -> Result<bool> {
        let tree = &mut root.tree;
        if tree.depth == 0 {
            return Ok(false);
        }
        let mut path = Path::new();
        let page = find_leaf(&*sink, tree, id, &mut path)?;
        let leaf = RowLeaf::open(sink.page(page)?).at(&*sink, page)?;
        let Some(slot) = leaf.slot_of(id) else { return Ok(false) };
        if leaf.row(slot).at(&*sink, page)?.is_none() {
            return Ok(false);
        }
        let page = path.own(sink, tree, page, own_child)?;
        let done = RowLeafMut::open(sink.page_mut(page)?).and_then(|mut leaf| {
            leaf.remove(slot)?;
            let view = leaf.view()?;
            Ok((view.slots(), view.free()))
        });
        let (slots, free) = done.at(sink, page)?;
        let payload = sink.page(page)?.len();
        tree.entries = tree.entries.saturating_sub(1);
        if slots == 0 {
            sink.free(page)?;
            mend(sink, tree, &mut path, Child::Gone, true)?;
        } else if free > payload - payload / 4 {
            mend(sink, tree, &mut path, Child::Meagre(page), true)?;
        }
        Ok(true)
    }

    /// Removes every row and frees every page. Ids are not given out again.
    pub fn clear<S: PageSink + ?Sized>(sink: &mut S, root: &mut RowRoot) -> Result<()> {
        let mut pages = Vec::new();
        super::check::pages(&*sink, &root.tree, &mut |id, _| pages.push(id))?;
        for id in pages {
            sink.free(id)?;
        }
        root.tree = TreeRoot::EMPTY;
        Ok(())
    }
}

/// Mends the branches of `path` after the child at its end has become `child`; `leaf` tells whether it is a leaf.
fn mend<S: PageSink + ?Sized>(
    sink: &mut S,
    root: &mut TreeRoot,
    path: &mut Path,
    mut child: Child,
    mut leaf: bool,
) -> Result<()> {
    while let Some(step) = path.pop() {
        let (parent, c) = (step.page, step.child as usize);
        let count = RowBranch::open(sink.page(parent)?).at(&*sink, parent)?.count();
        match child {
            Child::Gone if count == 1 => {
                sink.free(parent)?;
                leaf = false;
                continue;
            }
            Child::Gone => {
                let done = RowBranchMut::open(sink.page_mut(parent)?).and_then(|mut branch| branch.remove(c));
                done.at(sink, parent)?;
            }
            Child::Meagre(id) if count > 1 => {
                let left = c.checked_sub(1);
                let right = (c + 1 < count).then_some(c);
                let mut merged = false;
                for pair in left.into_iter().chain(right) {
                    merged = merged || merge(sink, parent, pair, id, leaf)?;
                }
                if !merged {
                    return Ok(());
                }
            }
            Child::Meagre(_) => {}
        }
        let branch = RowBranch::open(sink.page(parent)?).at(&*sink, parent)?;
        if branch.count() > branch.capacity() / 4 {
            return Ok(());
        }
        (child, leaf) = (Child::Meagre(parent), false);
    }
    match child {
        Child::Gone => *root = TreeRoot::EMPTY,
        Child::Meagre(_) => lower_root(sink, root)?,
    }
    Ok(())
}

/// Takes away root branches that have a single child.
fn lower_root<S: PageSink + ?Sized>(sink: &mut S, root: &mut TreeRoot) -> Result<()> {
    while root.depth > 1 {
        let top = RowBranch::open(sink.page(root.root)?).at(&*sink, root.root)?;
        if top.count() > 1 {
            break;
        }
        let child = PageId(top.child(0).at(&*sink, root.root)?);
        sink.free(root.root)?;
        root.root = child;
        root.depth -= 1;
    }
    Ok(())
}

/// Puts children `c` and `c + 1` together over page `own` (one of the two), if that leaves room for more.
fn merge<S: PageSink + ?Sized>(
    sink: &mut S,
    parent: PageId,
    c: usize,
    own: PageId,
    leaves: bool,
) -> Result<bool> {
    let branch = RowBranch::open(sink.page(parent)?).at(&*sink, parent)?;
    let left = PageId(branch.child(c).at(&*sink, parent)?);
    let right = PageId(branch.child(c + 1).at(&*sink, parent)?);
    let between = branch.first(c + 1).at(&*sink, parent)?;
    let copies = (Scratch::copy_of(sink.page(left)?), Scratch::copy_of(sink.page(right)?));
    if leaves {
        let a = RowLeaf::open(&copies.0).at(&*sink, left)?;
        let b = RowLeaf::open(&copies.1).at(&*sink, right)?;
        let payload = copies.0.len();
        let size = leaf_size(&a, &b).at(&*sink, own)?;
        if size.is_none_or(|size| size > payload - payload / 8) {
            return Ok(false);
        }
        let done = RowLeafMut::init(sink.page_mut(own)?).and_then(|mut both| {
            both.take(&a, 0, a.slots())?;
            both.take(&b, 0, b.slots())
        });
        done.at(sink, own)?;
    } else {
        let a = RowBranch::open(&copies.0).at(&*sink, left)?;
        let b = RowBranch::open(&copies.1).at(&*sink, right)?;
        if a.count() + b.count() > a.capacity() - a.capacity() / 8 {
            return Ok(false);
        }
        let page = sink.page_mut(own)?;
        let done = a.first(0).and_then(|first| {
            let mut both = RowBranchMut::init(page, first, a.child(0)?)?;
            for c in 1..a.count() {
                both.take(&a, c, c + 1, a.first(c)?)?;
            }
            both.take(&b, 0, b.count(), between)
        });
        done.at(sink, own)?;
    }
    sink.free(if own == left { right } else { left })?;
    let done = RowBranchMut::open(sink.page_mut(parent)?).and_then(|mut branch| {
        branch.remove(c + 1)?;
        branch.set_child(c, own.0)
    });
    done.at(sink, parent)?;
    Ok(true)
}

/// Bytes one leaf of both takes, the holes between them included; `None` if those are too many to count.
fn leaf_size(a: &RowLeaf<'_>, b: &RowLeaf<'_>) -> Result<Option<usize>, treedb_formats::node::NodeDamage> {
    let (Some(last), Some(first)) = (a.row_before(a.slots()), b.next_row(0)) else { return Ok(None) };
    let (end, start) = (a.base() + last as u64 + 1, b.base() + first as u64);
    let holes = match start.checked_sub(end) {
        Some(holes) if holes < 1 << 16 => holes as usize,
        _ => return Ok(None),
    };
    Ok(Some(a.size_of(0, a.slots())? + b.size_of(0, b.slots())? - HEADER + 2 * holes))
}
