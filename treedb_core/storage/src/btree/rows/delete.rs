//! Delete and clear.

use super::super::branches::{Child, free_all, is_underfull, rebalance};
use super::super::path::{At, Path};
use super::branch::{RowBranch, RowBranchMut};
use super::leaf::{HEADER, RowLeaf, RowLeafMut};
use super::own_path::{RowBranches, find_leaf, own_child};
use super::{RowRoot, RowTree};
use crate::Result;
use crate::page::{PageId, PageSink};
use treedb_formats::node::Scratch;

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
            rebalance::<RowBranches, S>(sink, tree, &mut path, Child::Removed)?;
        } else if is_underfull(free, payload) {
            rebalance::<RowBranches, S>(sink, tree, &mut path, Child::Underfull(page))?;
        }
        Ok(true)
    }

    /// Removes every row and frees every page. Ids are not given out again.
    pub fn clear<S: PageSink + ?Sized>(sink: &mut S, root: &mut RowRoot) -> Result<()> {
        free_all::<RowBranches, S>(sink, &mut root.tree)
    }
}

/// Merges children `c` and `c + 1` into page `own` (one of the two), if that leaves room for more.
pub(super) fn merge<S: PageSink + ?Sized>(
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
