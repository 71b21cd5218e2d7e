//! Deleting a range of keys.
//!
//! Subtrees that are wholly inside the range are removed without copying pages or searching leaves. Only the two paths to
//! the ends of the range are changed, and rebalanced afterwards where nodes have become underfull.
//!
//! A tree stores its number of entries, so those of the removed leaves must be counted: from each leaf's header, or, if
//! fewer leaves remain than were removed, from the headers of the remaining ones.

use std::collections::HashSet;
use std::ops::Bound;

use super::branches::{Bytewise, lower_root};
use super::check::first_visit;
use super::delete::rebalance_along;
use super::path::At;
use super::tree::own_child;
use super::{Tree, TreeRoot};
use crate::Result;
use crate::page::{PageId, PageSink, PageSource};
use treedb_formats::node::{Branch, BranchMut, Leaf, LeafMut};

/// A range of keys: each end is included, excluded or unbounded.
type Bounds<'b> = (Bound<&'b [u8]>, Bound<&'b [u8]>);

/// What is left of a node.
enum Rest {
    /// Nothing: all of it was in the range. Its page and those below are listed in [`Cut`].
    Nothing,
    /// It is on this page now.
    Page(PageId),
}

/// What is removed.
#[derive(Default)]
struct Cut {
    /// Pages that are gone.
    branches: Vec<PageId>,
    leaves: Vec<PageId>,
    /// Entries removed from leaves that stay.
    entries: u64,
}

fn key_of<'b>(bound: &Bound<&'b [u8]>) -> Option<&'b [u8]> {
    match *bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}

/// True if there is an entry within the bounds.
fn holds_any<S: PageSource + ?Sized>(src: &S, root: &TreeRoot, (from, to): &Bounds<'_>) -> Result<bool> {
    let mut cursor = Tree::cursor(src, root);
    let mut on = match from {
        Bound::Included(key) | Bound::Excluded(key) => cursor.seek(key)?,
        Bound::Unbounded => cursor.first()?,
    };
    if let Bound::Excluded(from) = from
        && on
        && cursor.key()? == Some(*from)
    {
        on = cursor.next()?;
    }
    let key = if on { cursor.key()? } else { None };
    Ok(key.is_some_and(|key| match to {
        Bound::Included(to) => key <= *to,
        Bound::Excluded(to) => key < *to,
        Bound::Unbounded => true,
    }))
}

impl Tree {
    /// Removes the entries within `bounds` and returns how many there were. Bounds that contain nothing remove
    /// nothing, and then nothing is changed.
    pub fn delete_range<S: PageSink + ?Sized>(
        sink: &mut S,
        root: &mut TreeRoot,
        bounds: Bounds<'_>,
    ) -> Result<u64> {
        if !holds_any(&*sink, root, &bounds)? {
            return Ok(0);
        }
        let mut cut = Cut::default();
        let before = *root;
        match cut_node(sink, root.root, root.depth, bounds, None, &mut cut)? {
            Rest::Nothing => *root = TreeRoot::EMPTY,
            Rest::Page(page) => root.root = page,
        }
        if root.depth > 0 {
            root.entries = entries_left(&*sink, &before, root, &cut)?;
        }
        let mut seen = HashSet::new();
        for &page in cut.branches.iter().chain(&cut.leaves) {
            first_visit(&*sink, &mut seen, page)?;
            sink.free(page)?;
        }
        let removed = before.entries.saturating_sub(root.entries);
        if removed > 0 && root.depth > 0 {
            lower_root::<Bytewise, S>(sink, root)?;
            for end in [key_of(&bounds.0), key_of(&bounds.1)].into_iter().flatten() {
                rebalance_along(sink, root, end)?;
            }
        }
        Ok(removed)
    }
}

/// Takes the range out of the node `id` of level `level` (1 for leaves), child of `above` if it is not the root.
fn cut_node<S: PageSink + ?Sized>(
    sink: &mut S,
    id: PageId,
    level: u16,
    bounds: Bounds<'_>,
    above: Option<(PageId, usize)>,
    cut: &mut Cut,
) -> Result<Rest> {
    if bounds == (Bound::Unbounded, Bound::Unbounded) {
        cut_whole(&*sink, id, level, cut)?;
        return Ok(Rest::Nothing);
    }
    if level == 1 {
        return cut_leaf(sink, id, bounds, above, cut);
    }
    let (from, to) = bounds;
    let branch = Branch::open(sink.page(id)?).at(&*sink, id)?;
    let last = branch.count();
    let find = |key: Option<&[u8]>, open: usize| key.map_or(Ok(open), |key| branch.find(key));
    let first_cut = find(key_of(&from), 0).at(&*sink, id)?;
    let last_cut = find(key_of(&to), last).at(&*sink, id)?;
    let child_of = |c: usize| branch.child(c).map(PageId);
    let between = (first_cut + 1..last_cut).map(child_of).collect::<Result<Vec<_>, _>>().at(&*sink, id)?;
    let ends = [child_of(first_cut).at(&*sink, id)?, child_of(last_cut).at(&*sink, id)?];
    for &child in &between {
        cut_whole(&*sink, child, level - 1, cut)?;
    }
    // The branch must be this transaction's own before a child of it is: a child's new number is stored in it.
    let own = own_node(sink, id, above)?;
    let mut gone = !between.is_empty();
    let (mut low, mut high) = (first_cut + 1, last_cut);
    if first_cut == last_cut {
        if let Rest::Nothing = cut_node(sink, ends[0], level - 1, bounds, Some((own, first_cut)), cut)? {
            (low, high, gone) = (first_cut, last_cut + 1, true);
        }
    } else {
        let left = cut_node(sink, ends[0], level - 1, (from, Bound::Unbounded), Some((own, first_cut)), cut)?;
        if let Rest::Nothing = left {
            (low, gone) = (first_cut, true);
        }
        let right = cut_node(sink, ends[1], level - 1, (Bound::Unbounded, to), Some((own, last_cut)), cut)?;
        if let Rest::Nothing = right {
            (high, gone) = (last_cut + 1, true);
        }
    }
    if !gone {
        return Ok(Rest::Page(own));
    }
    if low == 0 && high == last + 1 {
        cut.branches.push(own);
        return Ok(Rest::Nothing);
    }
    let done = BranchMut::open(sink.page_mut(own)?)
        .and_then(|mut branch| (low..high).rev().try_for_each(|c| branch.remove_child(c)));
    done.at(&*sink, own)?;
    Ok(Rest::Page(own))
}

fn cut_leaf<S: PageSink + ?Sized>(
    sink: &mut S,
    id: PageId,
    (from, to): Bounds<'_>,
    above: Option<(PageId, usize)>,
    cut: &mut Cut,
) -> Result<Rest> {
    let leaf = Leaf::open(sink.page(id)?).at(&*sink, id)?;
    // The first slot whose key is not below `key`, or, `beyond`, is above it.
    let place = |key: &[u8], beyond: bool| {
        leaf.search(key).map(|found| match found {
            Ok(slot) => slot + usize::from(beyond),
            Err(slot) => slot,
        })
    };
    let low = match from {
        Bound::Included(key) => place(key, false),
        Bound::Excluded(key) => place(key, true),
        Bound::Unbounded => Ok(0),
    };
    let high = match to {
        Bound::Included(key) => place(key, true),
        Bound::Excluded(key) => place(key, false),
        Bound::Unbounded => Ok(leaf.count()),
    };
    let (low, high) = (low.at(&*sink, id)?, high.at(&*sink, id)?);
    if low == 0 && high == leaf.count() {
        cut.leaves.push(id);
        return Ok(Rest::Nothing);
    }
    if low >= high {
        return Ok(Rest::Page(id));
    }
    let own = own_node(sink, id, above)?;
    let done = LeafMut::open(sink.page_mut(own)?)
        .and_then(|mut leaf| (low..high).rev().try_for_each(|slot| leaf.remove(slot)));
    done.at(&*sink, own)?;
    cut.entries += (high - low) as u64;
    Ok(Rest::Page(own))
}

/// Makes a node this transaction's own, and its number known to the branch above it.
fn own_node<S: PageSink + ?Sized>(
    sink: &mut S,
    id: PageId,
    above: Option<(PageId, usize)>,
) -> Result<PageId> {
    match above {
        Some((parent, c)) => own_child(sink, parent, c, id),
        None => sink.writable(id),
    }
}

/// Cuts off everything from node `id` down; leaves are not read.
fn cut_whole<S: PageSource + ?Sized>(src: &S, id: PageId, level: u16, cut: &mut Cut) -> Result<()> {
    let subtree = TreeRoot { root: id, depth: level, entries: 0 };
    super::check::pages(src, &subtree, &mut |page, level| {
        if level > 1 { cut.branches.push(page) } else { cut.leaves.push(page) }
    })
}

/// How many entries are left in `after`, which is `before` without what was cut.
fn entries_left<S: PageSource + ?Sized>(
    src: &S,
    before: &TreeRoot,
    after: &TreeRoot,
    cut: &Cut,
) -> Result<u64> {
    let count = |id: PageId| -> Result<u64> { Ok(Leaf::open(src.page(id)?).at(src, id)?.count() as u64) };
    if let Some(left) = leaves_up_to(src, after, cut.leaves.len())? {
        return left.into_iter().try_fold(0, |sum, id| Ok(sum + count(id)?));
    }
    let gone = cut.leaves.iter().try_fold(cut.entries, |sum, &id| Ok::<_, crate::Error>(sum + count(id)?))?;
    Ok(before.entries.saturating_sub(gone))
}

/// The leaves of a tree if they are fewer than `limit`; no more branches than needed are read for it.
fn leaves_up_to<S: PageSource + ?Sized>(
    src: &S,
    root: &TreeRoot,
    limit: usize,
) -> Result<Option<Vec<PageId>>> {
    let mut nodes = vec![root.root];
    for _ in 1..root.depth {
        let mut below = Vec::new();
        for id in nodes {
            let branch = Branch::open(src.page(id)?).at(src, id)?;
            for c in 0..=branch.count() {
                below.push(PageId(branch.child(c).at(src, id)?));
            }
            if below.len() >= limit {
                return Ok(None);
            }
        }
        nodes = below;
    }
    Ok((nodes.len() < limit).then_some(nodes))
}
