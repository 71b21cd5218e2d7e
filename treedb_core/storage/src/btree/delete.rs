//! Delete: remove an entry, merge the nodes that have become underfull.

use super::branches::{Branches, Bytewise, Child, free_all, is_underfull, lower_root, rebalance};
use super::path::{At, Path};
use super::tree::own_child;
use super::{Tree, TreeRoot};
use crate::Result;
use crate::page::{PageId, PageSink, PageSource};
use treedb_formats::node::{Branch, BranchMut, Leaf, LeafMut, NodeDamage, Scratch};

impl Tree {
    /// Removes `key`; `false` if it is not in the tree (nothing is changed then).
    pub fn delete<S: PageSink + ?Sized>(sink: &mut S, root: &mut TreeRoot, key: &[u8]) -> Result<bool> {
        if root.depth == 0 {
            return Ok(false);
        }
        let mut path = Path::new();
        let id = find_leaf(&*sink, root, key, &mut path)?;
        let Ok(slot) = Leaf::open(sink.page(id)?).and_then(|leaf| leaf.search(key)).at(&*sink, id)? else {
            return Ok(false);
        };
        let id = path.own(sink, root, id, own_child)?;
        let done = LeafMut::open(sink.page_mut(id)?).and_then(|mut leaf| {
            leaf.remove(slot)?;
            let view = leaf.view()?;
            Ok((view.count(), view.free()?))
        });
        let (count, free) = done.at(sink, id)?;
        root.entries = root.entries.saturating_sub(1);
        if count == 0 {
            sink.free(id)?;
            rebalance::<Bytewise, S>(sink, root, &mut path, Child::Removed)?;
        } else if is_underfull(free, sink.page(id)?.len()) {
            rebalance::<Bytewise, S>(sink, root, &mut path, Child::Underfull(id))?;
        }
        Ok(true)
    }

    /// Removes every entry and frees every page.
    pub fn clear<S: PageSink + ?Sized>(sink: &mut S, root: &mut TreeRoot) -> Result<()> {
        free_all::<Bytewise, S>(sink, root)
    }
}

/// The leaf for `key`; `path` gets the branches above it.
fn find_leaf<S: PageSource + ?Sized>(
    src: &S,
    root: &TreeRoot,
    key: &[u8],
    path: &mut Path,
) -> Result<PageId> {
    let mut id = root.root;
    for _ in 1..root.depth {
        let branch = Branch::open(src.page(id)?).at(src, id)?;
        let c = branch.find(key).at(src, id)?;
        path.push(src, id, c)?;
        id = PageId(branch.child(c).at(src, id)?);
    }
    Ok(id)
}

/// Merges underfull nodes on the path to `key`, on every level, with a neighbour, or moves entries from one to them. A
/// node without neighbours gets some when the branch above it is merged, so this repeats until a round changes nothing.
pub(super) fn rebalance_along<S: PageSink + ?Sized>(
    sink: &mut S,
    root: &mut TreeRoot,
    key: &[u8],
) -> Result<()> {
    for _ in 0..=root.depth {
        let mut path = Path::new();
        let leaf = find_leaf(&*sink, root, key, &mut path)?;
        // The root may be underfull.
        let below_root = path.steps().iter().map(|step| step.page).skip(1).chain([leaf]);
        let mut underfull = false;
        for id in below_root.filter(|_| root.depth > 1) {
            underfull |= page_is_underfull(&*sink, id, id == leaf)?;
        }
        if !underfull {
            return Ok(());
        }
        let mut id = path.own(sink, root, leaf, own_child)?;
        let (mut leaf, mut changed) = (true, false);
        while let Some(step) = path.pop() {
            let (parent, c) = (step.page, step.child as usize);
            let count = Bytewise::count(sink.page(parent)?).at(&*sink, parent)?;
            if count > 1 && page_is_underfull(&*sink, id, leaf)? {
                changed |= merge_or_share(sink, parent, c, count, id, leaf)?;
            }
            (id, leaf) = (parent, false);
        }
        lower_root::<Bytewise, S>(sink, root)?;
        if !changed {
            return Ok(());
        }
    }
    Ok(())
}

fn page_is_underfull<S: PageSource + ?Sized>(src: &S, id: PageId, leaf: bool) -> Result<bool> {
    let page = src.page(id)?;
    let free = if leaf {
        Leaf::open(page).and_then(|leaf| leaf.free())
    } else {
        Branch::open(page).and_then(|branch| branch.free())
    };
    Ok(is_underfull(free.at(src, id)?, page.len()))
}

/// See [`Branches::fix_underfull`](super::branches::Branches::fix_underfull).
pub(super) fn merge_or_share<S: PageSink + ?Sized>(
    sink: &mut S,
    parent: PageId,
    c: usize,
    count: usize,
    id: PageId,
    leaf: bool,
) -> Result<bool> {
    let pairs = [c.checked_sub(1), (c + 1 < count).then_some(c)];
    for share in [false, true] {
        for left in pairs.into_iter().flatten() {
            let done = if leaf {
                pair_leaves(sink, parent, left, id, share)?
            } else {
                pair_branches(sink, parent, left, id, share)?
            };
            if done {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Two neighbours under one parent: copies of them, and the separator between them.
struct Pair {
    /// The left one is child `c` of the parent.
    c: usize,
    parent: PageId,
    left: (PageId, Scratch),
    right: (PageId, Scratch),
    between: Scratch,
}

impl Pair {
    fn read<S: PageSink + ?Sized>(sink: &S, parent: PageId, c: usize) -> Result<Pair> {
        let branch = Branch::open(sink.page(parent)?).at(sink, parent)?;
        let mut between = Scratch::new();
        branch.separator_into(c, &mut between).at(sink, parent)?;
        let left = PageId(branch.child(c).at(sink, parent)?);
        let right = PageId(branch.child(c + 1).at(sink, parent)?);
        Ok(Pair {
            c,
            parent,
            left: (left, Scratch::copy_of(sink.page(left)?)),
            right: (right, Scratch::copy_of(sink.page(right)?)),
            between,
        })
    }

    /// Whether a node of `size` bytes would leave room for inserts.
    fn roomy(&self, size: usize) -> bool {
        let payload = self.left.1.len();
        size <= payload - payload / 8
    }

    /// Has the merged node written over page `own` (one of the two) and drops the other.
    fn merge<S: PageSink + ?Sized>(
        &self,
        sink: &mut S,
        own: PageId,
        write: impl FnOnce(&mut [u8]) -> Result<(), NodeDamage>,
    ) -> Result<bool> {
        let done = write(sink.page_mut(own)?);
        done.at(sink, own)?;
        sink.free(if own == self.left.0 { self.right.0 } else { self.left.0 })?;
        let done = BranchMut::open(sink.page_mut(self.parent)?).and_then(|mut branch| {
            branch.remove_child(self.c + 1)?;
            branch.set_child(self.c, own.0)
        });
        done.at(sink, self.parent)?;
        Ok(true)
    }

    /// Has both written anew, with another separator; `false`, and no change, if the parent has no room for it.
    fn share<S: PageSink + ?Sized>(
        &self,
        sink: &mut S,
        separator: &[u8],
        write_left: impl FnOnce(&mut [u8]) -> Result<(), NodeDamage>,
        write_right: impl FnOnce(&mut [u8]) -> Result<(), NodeDamage>,
    ) -> Result<bool> {
        let left = own_child(sink, self.parent, self.c, self.left.0)?;
        let right = own_child(sink, self.parent, self.c + 1, self.right.0)?;
        let done = BranchMut::open(sink.page_mut(self.parent)?)
            .and_then(|mut branch| branch.set_separator(self.c, separator));
        if !done.at(sink, self.parent)? {
            return Ok(false);
        }
        let done = write_left(sink.page_mut(left)?);
        done.at(sink, left)?;
        let done = write_right(sink.page_mut(right)?);
        done.at(sink, right)?;
        Ok(true)
    }
}

fn pair_leaves<S: PageSink + ?Sized>(
    sink: &mut S,
    parent: PageId,
    c: usize,
    own: PageId,
    share: bool,
) -> Result<bool> {
    let pair = Pair::read(&*sink, parent, c)?;
    let left = Leaf::open(&pair.left.1).at(&*sink, pair.left.0)?;
    let right = Leaf::open(&pair.right.1).at(&*sink, pair.right.0)?;
    let join = left.join(&right).at(&*sink, parent)?;
    if !share {
        return Ok(
            pair.roomy(join.size().at(&*sink, parent)?) && pair.merge(sink, own, |page| join.merge(page))?
        );
    }
    let plan = join.share().at(&*sink, parent)?;
    let mut separator = Scratch::new();
    plan.separator(&mut separator).at(&*sink, parent)?;
    pair.share(sink, &separator, |page| plan.left(page), |page| plan.right(page))
}

fn pair_branches<S: PageSink + ?Sized>(
    sink: &mut S,
    parent: PageId,
    c: usize,
    own: PageId,
    share: bool,
) -> Result<bool> {
    let pair = Pair::read(&*sink, parent, c)?;
    let left = Branch::open(&pair.left.1).at(&*sink, pair.left.0)?;
    let right = Branch::open(&pair.right.1).at(&*sink, pair.right.0)?;
    let join = left.join(&pair.between, &right).at(&*sink, parent)?;
    if !share {
        return Ok(
            pair.roomy(join.size().at(&*sink, parent)?) && pair.merge(sink, own, |page| join.merge(page))?
        );
    }
    let plan = join.share().at(&*sink, parent)?;
    let mut separator = Scratch::new();
    plan.separator(&mut separator).at(&*sink, parent)?;
    pair.share(sink, &separator, |page| plan.left(page), |page| plan.right(page))
}
