//! Descents that copy pages on write, and the row tree's branches for code that both kinds of trees share.

use super::super::branches::Branches;
use super::super::path::{At, Path};
use super::super::root::TreeRoot;
use super::branch::{RowBranch, RowBranchMut};
use super::delete::merge;
use crate::Result;
use crate::page::{PageId, PageSink, PageSource};
use treedb_formats::node::NodeDamage;

/// The branches of row trees, for walks that trees share.
pub(in super::super) struct RowBranches;

impl Branches for RowBranches {
    fn count(page: &[u8]) -> Result<usize, NodeDamage> {
        Ok(RowBranch::open(page)?.count())
    }

    fn child(page: &[u8], c: usize) -> Result<PageId, NodeDamage> {
        RowBranch::open(page)?.child(c).map(PageId)
    }

    fn remove_child(page: &mut [u8], c: usize) -> Result<(), NodeDamage> {
        RowBranchMut::open(page)?.remove(c)
    }

    fn is_underfull(page: &[u8]) -> Result<bool, NodeDamage> {
        let branch = RowBranch::open(page)?;
        Ok(branch.count() <= branch.capacity() / 4)
    }

    fn fix_underfull<S: PageSink + ?Sized>(
        sink: &mut S,
        parent: PageId,
        c: usize,
        count: usize,
        id: PageId,
        leaf: bool,
    ) -> Result<bool> {
        let pairs = [c.checked_sub(1), (c + 1 < count).then_some(c)];
        for left in pairs.into_iter().flatten() {
            if merge(sink, parent, left, id, leaf)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn children(page: &[u8], out: &mut Vec<PageId>) -> Result<(), NodeDamage> {
        let branch = RowBranch::open(page)?;
        for c in 0..branch.count() {
            out.push(PageId(branch.child(c)?));
        }
        Ok(())
    }

    fn own<S: PageSink + ?Sized>(sink: &mut S, parent: PageId, c: usize, child: PageId) -> Result<PageId> {
        own_child(sink, parent, c, child)
    }
}

/// Makes the pages from the root down to the leaf for row `row` this transaction's own; `path` gets the branches. Tells
/// whether the leaf is the last one.
pub(super) fn own_path<S: PageSink + ?Sized>(
    sink: &mut S,
    root: &mut TreeRoot,
    row: u64,
    path: &mut Path,
) -> Result<(PageId, bool)> {
    let mut id = sink.writable(root.root)?;
    let mut last = true;
    root.root = id;
    for _ in 1..root.depth {
        let found = RowBranch::open(sink.page_mut(id)?).and_then(|branch| {
            let c = branch.find(row);
            Ok((c, branch.child(c)?, c + 1 == branch.count()))
        });
        let (c, child, last_child) = found.at(sink, id)?;
        last &= last_child;
        path.push(sink, id, c)?;
        id = own_child(sink, id, c, PageId(child))?;
    }
    Ok((id, last))
}

/// The leaf for row `row`; `path` gets the branches above it.
pub(super) fn find_leaf<S: PageSource + ?Sized>(
    src: &S,
    root: &TreeRoot,
    row: u64,
    path: &mut Path,
) -> Result<PageId> {
    let mut id = root.root;
    for _ in 1..root.depth {
        let branch = RowBranch::open(src.page(id)?).at(src, id)?;
        let c = branch.find(row);
        path.push(src, id, c)?;
        id = PageId(branch.child(c).at(src, id)?);
    }
    Ok(id)
}

/// Makes child `c` of an owned branch this transaction's own.
pub(super) fn own_child<S: PageSink + ?Sized>(
    sink: &mut S,
    parent: PageId,
    c: usize,
    child: PageId,
) -> Result<PageId> {
    let own = sink.writable(child)?;
    if own != child {
        let done =
            RowBranchMut::open(sink.page_mut(parent)?).and_then(|mut branch| branch.set_child(c, own.0));
        done.at(sink, parent)?;
    }
    Ok(own)
}
