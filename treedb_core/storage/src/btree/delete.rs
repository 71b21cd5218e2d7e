//! Delete, and what keeps pages from staying near empty.

use super::path::{At, Path};
use super::tree::own_child;
use super::{Tree, TreeRoot};
use crate::Result;
use crate::page::{PageId, PageSink, PageSource};
use treedb_formats::node::{Branch, BranchMut, Leaf, LeafMut, NodeDamage, Scratch};

/// What a child has become.
#[derive(Clone, Copy)]
enum Child {
    /// Empty, its page freed: its parent must drop it.
    Gone,
    /// Under a quarter full.
    Meagre(PageId),
}

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
            mend(sink, root, &mut path, Child::Gone, true)?;
        } else if meagre(free, sink.page(id)?.len()) {
            mend(sink, root, &mut path, Child::Meagre(id), true)?;
        }
        Ok(true)
    }

    /// Removes every entry and frees every page.
    pub fn clear<S: PageSink + ?Sized>(sink: &mut S, root: &mut TreeRoot) -> Result<()> {
        let mut pages = Vec::new();
        super::check::pages(&*sink, root, &mut |id, _| pages.push(id))?;
        for id in pages {
            sink.free(id)?;
        }
        *root = TreeRoot::EMPTY;
        Ok(())
    }
}

/// Whether a node with `free` bytes is under a quarter full.
fn meagre(free: usize, payload: usize) -> bool {
    free > payload - payload / 4
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
        let count = Branch::open(sink.page(parent)?).at(&*sink, parent)?.count();
        match child {
            Child::Gone if count == 0 => {
                sink.free(parent)?;
                leaf = false;
                continue;
            }
            Child::Gone => {
                let done =
                    BranchMut::open(sink.page_mut(parent)?).and_then(|mut branch| branch.remove_child(c));
                done.at(sink, parent)?;
            }
            Child::Meagre(id) if count > 0 => {
                if !relieve(sink, parent, c, count, id, leaf)? {
                    return Ok(());
                }
            }
            Child::Meagre(_) => {}
        }
        let page = sink.page(parent)?;
        if !meagre(Branch::open(page).and_then(|branch| branch.free()).at(&*sink, parent)?, page.len()) {
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

/// Mends what has become thin on the way to `key`, on every level: nodes under a quarter full are put together with a
/// neighbour or take entries from one. A node without neighbours gets some when the branch above it is mended, so
/// this goes on until a round finds nothing to do.
pub(super) fn mend_along<S: PageSink + ?Sized>(sink: &mut S, root: &mut TreeRoot, key: &[u8]) -> Result<()> {
    for _ in 0..=root.depth {
        let mut path = Path::new();
        let leaf = find_leaf(&*sink, root, key, &mut path)?;
        // The root may be as thin as it is.
        let below_root = path.steps().iter().map(|step| step.page).skip(1).chain([leaf]);
        let mut thin = false;
        for id in below_root.filter(|_| root.depth > 1) {
            thin |= is_thin(&*sink, id, id == leaf)?;
        }
        if !thin {
            return Ok(());
        }
        let mut id = path.own(sink, root, leaf, own_child)?;
        let (mut leaf, mut mended) = (true, false);
        while let Some(step) = path.pop() {
            let (parent, c) = (step.page, step.child as usize);
            let count = Branch::open(sink.page(parent)?).at(&*sink, parent)?.count();
            if count > 0 && is_thin(&*sink, id, leaf)? {
                mended |= relieve(sink, parent, c, count, id, leaf)?;
            }
            (id, leaf) = (parent, false);
        }
        lower_root(sink, root)?;
        if !mended {
            return Ok(());
        }
    }
    Ok(())
}

fn is_thin<S: PageSource + ?Sized>(src: &S, id: PageId, leaf: bool) -> Result<bool> {
    let page = src.page(id)?;
    let free = if leaf {
        Leaf::open(page).and_then(|leaf| leaf.free())
    } else {
        Branch::open(page).and_then(|branch| branch.free())
    };
    Ok(meagre(free.at(src, id)?, page.len()))
}

/// Takes away root branches that have a single child.
pub(super) fn lower_root<S: PageSink + ?Sized>(sink: &mut S, root: &mut TreeRoot) -> Result<()> {
    while root.depth > 1 {
        let top = Branch::open(sink.page(root.root)?).at(&*sink, root.root)?;
        if top.count() > 0 {
            break;
        }
        let child = PageId(top.child(0).at(&*sink, root.root)?);
        sink.free(root.root)?;
        root.root = child;
        root.depth -= 1;
    }
    Ok(())
}

/// Puts child `c`, page `id`, together with a neighbour, or takes entries from one; `false` if neither can be done.
fn relieve<S: PageSink + ?Sized>(
    sink: &mut S,
    parent: PageId,
    c: usize,
    count: usize,
    id: PageId,
    leaf: bool,
) -> Result<bool> {
    let pairs = [c.checked_sub(1), (c < count).then_some(c)];
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
