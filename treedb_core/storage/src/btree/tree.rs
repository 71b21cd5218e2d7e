//! Get and put.

use std::ops::Range;

use super::cursor::Cursor;
use super::finger::Finger;
use super::path::{At, Path, Step};
use super::root::TreeRoot;
use crate::page::{LEAF_LINES, PageId, PageSink, PageSource, prefetch_from};
use crate::{Error, Result};
use treedb_formats::node::{
    Branch, BranchMut, Found, Keys, Leaf, LeafMut, Scratch, Value, child_for, common, gap, max_key,
    max_value, value_of,
};

/// The functions of a tree with keys in byte order, over a root and the pages it is in.
pub struct Tree;

impl Tree {
    /// The value of `key`, borrowed from its page.
    #[inline]
    pub fn get<'a, S: PageSource + ?Sized>(
        src: &'a S,
        root: &TreeRoot,
        key: &[u8],
    ) -> Result<Option<Value<'a>>> {
        if root.depth == 0 {
            return Ok(None);
        }
        let mut id = root.root;
        for _ in 1..root.depth {
            let page = src.page(id)?;
            id = match child_for(page, key) {
                Some(child) => PageId(child),
                None => child_slow(src, id, page, key)?,
            };
        }
        let page = src.page(id)?;
        prefetch_from(page.as_ptr(), LEAF_LINES);
        match value_of(page, key) {
            Some(found) => Ok(found),
            None => value_slow(src, id, page, key),
        }
    }

    /// Whether `key` is above every key of the tree.
    pub fn is_above_all<S: PageSource + ?Sized>(src: &S, root: &TreeRoot, key: &[u8]) -> Result<bool> {
        if root.depth == 0 {
            return Ok(true);
        }
        let mut id = root.root;
        for _ in 1..root.depth {
            let branch = Branch::open(src.page(id)?).at(src, id)?;
            id = PageId(branch.child(branch.count()).at(src, id)?);
        }
        let leaf = Leaf::open(src.page(id)?).at(src, id)?;
        Ok(leaf.search(key).at(src, id)? == Err(leaf.count()))
    }

    /// A cursor, not yet on any entry.
    pub fn cursor<'a, S: PageSource + ?Sized>(src: &'a S, root: &TreeRoot) -> Cursor<'a, S> {
        Cursor::new(src, root)
    }

    /// Stores `value` under `key`; `true` if the key was new. [`Error::KeyTooLong`] and [`Error::ValueTooLong`] over
    /// the limits of the pages ([`max_key`], [`max_value`]); nothing is changed then.
    pub fn put<S: PageSink + ?Sized>(
        sink: &mut S,
        root: &mut TreeRoot,
        key: &[u8],
        value: Value<'_>,
    ) -> Result<bool> {
        Tree::put_at(sink, root, &mut Finger::new(), key, value)
    }

    /// As [`Tree::put`], for a series of puts: ascending keys are put where `finger` points.
    pub fn put_at<S: PageSink + ?Sized>(
        sink: &mut S,
        root: &mut TreeRoot,
        finger: &mut Finger,
        key: &[u8],
        value: Value<'_>,
    ) -> Result<bool> {
        Ok(store::<S, false>(sink, root, finger, key, value)? == Some(true))
    }

    /// As [`Tree::put_at`] for a key above every key of the tree; `false` if it is not: then no entry is changed, though
    /// pages may have been copied.
    pub fn append_at<S: PageSink + ?Sized>(
        sink: &mut S,
        root: &mut TreeRoot,
        finger: &mut Finger,
        key: &[u8],
        value: Value<'_>,
    ) -> Result<bool> {
        Ok(store::<S, true>(sink, root, finger, key, value)?.is_some())
    }
}

/// The child of page `id` in whose range `key` is: the slow path, for every case.
#[cold]
#[inline(never)]
pub(super) fn child_slow<S: PageSource + ?Sized>(
    src: &S,
    id: PageId,
    page: &[u8],
    key: &[u8],
) -> Result<PageId> {
    let child = Branch::open(page).and_then(|branch| branch.child(branch.find(key)?));
    child.map(PageId).at(src, id)
}

/// The value of `key` in the leaf on page `id`: the slow path, for every case.
#[cold]
#[inline(never)]
pub(super) fn value_slow<'a, S: PageSource + ?Sized>(
    src: &S,
    id: PageId,
    page: &'a [u8],
    key: &[u8],
) -> Result<Option<Value<'a>>> {
    Leaf::open(page).and_then(|leaf| leaf.get(key)).at(src, id)
}

/// Stores an entry; `true` if its key was new. If `ABOVE`, only after all others: `None` otherwise.
fn store<S: PageSink + ?Sized, const ABOVE: bool>(
    sink: &mut S,
    root: &mut TreeRoot,
    finger: &mut Finger,
    key: &[u8],
    value: Value<'_>,
) -> Result<Option<bool>> {
    if root.depth == 0 {
        finger.reset();
        let id = first_leaf(sink, key, value)?;
        *root = TreeRoot { root: id, depth: 1, entries: 1 };
        return Ok(Some(true));
    }
    let found = locate(sink, root, finger, key, value)?;
    let leaf = finger.leaf;
    if ABOVE {
        let count = Leaf::open(sink.page(leaf)?).at(sink, leaf)?.count();
        if !finger.last || found != Err(count) {
            return Ok(None);
        }
    }
    store_at(sink, root, finger, found, key, value)?;
    Ok(Some(found.is_err()))
}

/// Points the finger at the leaf of `key` and returns its slot there. Refuses keys and values over the limits.
#[inline]
pub(super) fn locate<S: PageSink + ?Sized>(
    sink: &mut S,
    root: &mut TreeRoot,
    finger: &mut Finger,
    key: &[u8],
    value: Value<'_>,
) -> Result<Found> {
    if let Some(found) = find_at_finger(sink, finger, key, value)? {
        return Ok(found);
    }
    check_limits(sink.page(root.root)?.len(), key, value)?;
    let before = std::mem::replace(&mut finger.leaf, PageId::NONE);
    finger.path.clear();
    (finger.leaf, finger.last) = own_path(sink, root, key, &mut finger.path)?;
    finger.sequential |= finger.leaf == before;
    let leaf = Leaf::open(sink.page(finger.leaf)?).and_then(|leaf| leaf.search(key));
    leaf.at(sink, finger.leaf)
}

/// Stores an entry at the place that was found for it in the leaf that the finger points at.
#[inline]
pub(super) fn store_at<S: PageSink + ?Sized>(
    sink: &mut S,
    root: &mut TreeRoot,
    finger: &mut Finger,
    found: Found,
    key: &[u8],
    value: Value<'_>,
) -> Result<()> {
    let mut node = LeafMut::over(sink.page_mut(finger.leaf)?);
    let done = match found {
        Ok(i) => node.replace(i, value),
        Err(i) => node.insert(i, key, value),
    };
    if !done.at(sink, finger.leaf)? {
        split_at(sink, root, finger, found, key, value)?;
    }
    root.entries += u64::from(found.is_err());
    Ok(())
}

/// The slot of `key` in the leaf that the finger points at, `None` if it may belong to another leaf. Refuses keys and
/// values over the limits.
#[inline]
fn find_at_finger<S: PageSource + ?Sized>(
    src: &S,
    finger: &mut Finger,
    key: &[u8],
    value: Value<'_>,
) -> Result<Option<Found>> {
    if !finger.sequential || finger.leaf == PageId::NONE {
        return Ok(None);
    }
    let page = src.page(finger.leaf)?;
    check_limits(page.len(), key, value)?;
    let leaf = Leaf::open(page).at(src, finger.leaf)?;
    let found = leaf.search(key).at(src, finger.leaf)?;
    // A key between two keys of the leaf belongs to it; for one after its last key, the branches above decide.
    finger.sequential = match found {
        Ok(_) => true,
        Err(i) => i > 0 && (i < leaf.count() || finger.last || is_below_next(src, &finger.path, key)?),
    };
    Ok(finger.sequential.then_some(found))
}

/// Whether `key`, which is above every key of the leaf that `path` leads to, is below those of the next leaf.
fn is_below_next<S: PageSource + ?Sized>(src: &S, path: &Path, key: &[u8]) -> Result<bool> {
    match fork(src, path)? {
        Some((branch, step)) => Ok(branch.find(key).at(src, step.page)? == step.child as usize),
        None => Ok(false),
    }
}

/// The lowest branch on `path` with a child after the one taken: the path to the next leaf starts there. `None` if there
/// is no next leaf.
pub(super) fn fork<'a, S: PageSource + ?Sized>(
    src: &'a S,
    path: &Path,
) -> Result<Option<(Branch<'a>, Step)>> {
    for step in path.steps().iter().rev() {
        let branch = Branch::open(src.page(step.page)?).at(src, step.page)?;
        if (step.child as usize) < branch.count() {
            return Ok(Some((branch, *step)));
        }
    }
    Ok(None)
}

/// Refuses keys and values that a page of `payload` bytes does not take.
pub(super) fn check_limits(payload: usize, key: &[u8], value: Value<'_>) -> Result<()> {
    if key.len() > max_key(payload) {
        return Err(Error::KeyTooLong { len: key.len(), limit: max_key(payload) });
    }
    if value.bytes.len() > max_value(payload) {
        let (len, limit) = (value.bytes.len() as u64, max_value(payload) as u64);
        return Err(Error::ValueTooLong { len, limit });
    }
    Ok(())
}

/// Makes a leaf of one entry.
fn first_leaf<S: PageSink + ?Sized>(sink: &mut S, key: &[u8], value: Value<'_>) -> Result<PageId> {
    let id = sink.allocate()?;
    let page = sink.page_mut(id)?;
    if let Err(error) = check_limits(page.len(), key, value) {
        sink.free(id)?;
        return Err(error);
    }
    let done = LeafMut::init(page, Keys::Bytewise).and_then(|mut leaf| leaf.insert(0, key, value));
    done.at(sink, id)?;
    Ok(id)
}

/// Makes the pages from the root down to the leaf for `key` this transaction's own; `path` gets the branches. Returns
/// the leaf, and whether it is the tree's last.
pub(super) fn own_path<S: PageSink + ?Sized>(
    sink: &mut S,
    root: &mut TreeRoot,
    key: &[u8],
    path: &mut Path,
) -> Result<(PageId, bool)> {
    let mut id = sink.writable_but(root.root, unused)?;
    let mut last = true;
    root.root = id;
    for _ in 1..root.depth {
        let found = Branch::open(sink.page(id)?).and_then(|branch| {
            let c = branch.find(key)?;
            Ok((c, branch.child(c)?, c == branch.count()))
        });
        let (c, child, last_child) = found.at(sink, id)?;
        last &= last_child;
        path.push(sink, id, c)?;
        if path.steps().len() + 1 == usize::from(root.depth) {
            // A leaf is rarely in the processor's cache: what the search and a copy read is prefetched together.
            sink.prefetch(PageId(child));
        }
        id = own_child(sink, id, c, PageId(child))?;
    }
    Ok((id, last))
}

/// The bytes of a node that need not be copied; none if it does not look like one.
fn unused(page: &[u8]) -> Range<usize> {
    gap(page).unwrap_or(0..0)
}

/// Makes child `c` of an owned branch this transaction's own.
pub(super) fn own_child<S: PageSink + ?Sized>(
    sink: &mut S,
    parent: PageId,
    c: usize,
    child: PageId,
) -> Result<PageId> {
    let own = sink.writable_but(child, unused)?;
    if own != child {
        let done = BranchMut::open(sink.page_mut(parent)?).and_then(|mut branch| branch.set_child(c, own.0));
        done.at(sink, parent)?;
    }
    Ok(own)
}

/// Splits the leaf that the finger points at, and stores the entry. This consumes the finger's path: unless the entry is
/// alone in its leaf and the path differs in the last step only, the next put descends again.
#[inline(never)]
fn split_at<S: PageSink + ?Sized>(
    sink: &mut S,
    root: &mut TreeRoot,
    finger: &mut Finger,
    found: Found,
    key: &[u8],
    value: Value<'_>,
) -> Result<()> {
    let leaf = std::mem::replace(&mut finger.leaf, PageId::NONE);
    let path = &mut finger.path;
    let (above, length, depth) = (path.steps().last().copied(), path.steps().len(), root.depth);
    let view = Leaf::open(sink.page(leaf)?).at(sink, leaf)?;
    let mut before = Scratch::new();
    match found {
        Err(i) if i > 0 && i == view.count() => view.key_into(i - 1, &mut before).at(sink, leaf)?,
        _ => return split_leaf(sink, root, path, leaf, found, key, value),
    }
    // After all others: ascending keys fill every page.
    let (right, shared) = (sink.allocate()?, common(&before, key));
    let page = sink.page_mut(right)?;
    let done = LeafMut::init_with_prefix(page, key.get(..shared).unwrap_or(key))
        .and_then(|mut leaf| leaf.insert(0, key, value));
    if !done.at(sink, right)? {
        return Err(sink.damaged(right, 0, "room for an entry in an empty leaf", "none"));
    }
    before.clear();
    before.extend_from_slice(key.get(..=shared).unwrap_or(key));
    add_child(sink, root, path, &mut before, right)?;
    if let Some(step) = above.filter(|_| path.steps().len() + 1 == length && root.depth == depth) {
        path.push(sink, step.page, step.child as usize + 1)?;
        finger.leaf = right;
    }
    Ok(())
}

/// Splits a leaf that is too full for the entry, and puts the entry where it belongs.
fn split_leaf<S: PageSink + ?Sized>(
    sink: &mut S,
    root: &mut TreeRoot,
    path: &mut Path,
    leaf: PageId,
    found: Found,
    key: &[u8],
    value: Value<'_>,
) -> Result<()> {
    let old = Scratch::copy_of(sink.page(leaf)?);
    let (i, replacing) = match found {
        Ok(i) => (i, true),
        Err(i) => (i, false),
    };
    let split = Leaf::open(&old).and_then(|old| old.split(i, replacing, key, value)).at(sink, leaf)?;
    let right = sink.allocate()?;
    let done = split.right(sink.page_mut(right)?);
    done.at(sink, leaf)?;
    if !split.left_unchanged() {
        let done = split.left(sink.page_mut(leaf)?);
        done.at(sink, leaf)?;
    }
    let mut separator = Scratch::new();
    split.separator(&mut separator).at(sink, leaf)?;
    add_child(sink, root, path, &mut separator, right)
}

/// Adds the new page `right`, next to the child that `path` ends with, to its parent, splitting branches upwards as
/// needed.
pub(super) fn add_child<S: PageSink + ?Sized>(
    sink: &mut S,
    root: &mut TreeRoot,
    path: &mut Path,
    separator: &mut Vec<u8>,
    mut right: PageId,
) -> Result<()> {
    while let Some(step) = path.pop() {
        let (id, c) = (step.page, step.child as usize);
        let done =
            BranchMut::open(sink.page_mut(id)?).and_then(|mut branch| branch.insert(c, separator, right.0));
        if done.at(sink, id)? {
            return Ok(());
        }
        let old = Scratch::copy_of(sink.page(id)?);
        let mut up = Scratch::new();
        let new = sink.allocate()?;
        {
            let split = Branch::open(&old).and_then(|old| old.split(c, separator, right.0)).at(sink, id)?;
            let done = split.right(sink.page_mut(new)?);
            done.at(sink, id)?;
            let done = split.left(sink.page_mut(id)?);
            done.at(sink, id)?;
            split.separator(&mut up).at(sink, id)?;
        }
        separator.clear();
        separator.extend_from_slice(&up);
        right = new;
    }
    let top = sink.allocate()?;
    let left = root.root.0;
    let done = BranchMut::init(sink.page_mut(top)?, Keys::Bytewise, left)
        .and_then(|mut branch| branch.insert(0, separator, right.0));
    done.at(sink, top)?;
    root.root = top;
    root.depth += 1;
    Ok(())
}
