//! Get, put, append.

use super::super::finger::Finger;
use super::super::path::{At, Path};
use super::super::root::TreeRoot;
use super::super::tree::check_limits;
use super::branch::{RowBranch, RowBranchMut};
use super::cursor::RowCursor;
use super::leaf::{RowLeaf, RowLeafMut};
use super::own_path::own_path;
use crate::page::{PageId, PageSink, PageSource, ROW_LINES, prefetch_from};
use crate::{Error, Result};
use treedb_formats::node::{Scratch, Value};

/// What the owner of a row tree stores of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowRoot {
    /// Its pages.
    pub tree: TreeRoot,
    /// The id the next appended row gets: above every id that was ever in use.
    pub next: u64,
}

impl RowRoot {
    /// Length of the stored form, in bytes.
    pub const LEN: usize = TreeRoot::LEN + 8;

    /// A tree without rows and pages. The first appended row gets id 1: 0 is left for "none".
    pub const EMPTY: RowRoot = RowRoot { tree: TreeRoot::EMPTY, next: 1 };

    /// The stored form: the tree's root, the next id (u64, little-endian).
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..TreeRoot::LEN].copy_from_slice(&self.tree.to_bytes());
        bytes[TreeRoot::LEN..].copy_from_slice(&self.next.to_le_bytes());
        bytes
    }

    /// Reads the stored form; `None` if the bytes cannot be a row tree's.
    pub fn from_bytes(bytes: &[u8; Self::LEN]) -> Option<RowRoot> {
        let tree = TreeRoot::from_bytes(bytes.first_chunk()?)?;
        Some(RowRoot { tree, next: u64::from_le_bytes(*bytes.last_chunk()?) })
    }
}

impl Default for RowRoot {
    fn default() -> Self {
        RowRoot::EMPTY
    }
}

/// The functions of a row tree, over a root and the pages it is in.
pub struct RowTree;

impl RowTree {
    /// Row `id`, borrowed from its page.
    #[inline]
    pub fn get<'a, S: PageSource + ?Sized>(
        src: &'a S,
        root: &TreeRoot,
        id: u64,
    ) -> Result<Option<Value<'a>>> {
        let Some(page) = RowTree::leaf_of(src, root, id)? else { return Ok(None) };
        let bytes = src.page(page)?;
        prefetch_from(bytes.as_ptr(), ROW_LINES);
        let leaf = RowLeaf::open(bytes).at(src, page)?;
        match leaf.slot_of(id) {
            Some(slot) => leaf.row(slot).at(src, page),
            None => Ok(None),
        }
    }

    /// A cursor, not yet on any row.
    pub fn cursor<'a, S: PageSource + ?Sized>(src: &'a S, root: &RowRoot) -> RowCursor<'a, S> {
        RowCursor::new(src, root)
    }

    /// Stores a row under the next id, and returns that. Errors as [`RowTree::put`].
    pub fn append<S: PageSink + ?Sized>(sink: &mut S, root: &mut RowRoot, value: Value<'_>) -> Result<u64> {
        let id = root.next;
        RowTree::put(sink, root, id, value)?;
        Ok(id)
    }

    /// Stores row `id`; `true` if there was none. [`Error::ValueTooLong`] over the limit of the pages
    /// ([`treedb_formats::node::max_value`]) and [`Error::Invalid`] for the id `u64::MAX`; nothing is changed then.
    pub fn put<S: PageSink + ?Sized>(
        sink: &mut S,
        root: &mut RowRoot,
        id: u64,
        value: Value<'_>,
    ) -> Result<bool> {
        RowTree::put_at(sink, &mut root.tree, &mut root.next, &mut Finger::new(), id, value)
    }

    /// Stores the first of `values` under the id `next`, and those after it under the following ids as long as the same leaf
    /// has room for them. Returns how many, at least one unless there is none. Errors as [`RowTree::put`].
    pub fn append_next<S: PageSink + ?Sized>(
        sink: &mut S,
        tree: &mut TreeRoot,
        next: &mut u64,
        finger: &mut Finger,
        values: &[&[u8]],
    ) -> Result<usize> {
        let Some(first) = values.first() else { return Ok(0) };
        let enough = next.checked_add(values.len() as u64).is_some();
        if enough && finger.last && finger.leaf != PageId::NONE {
            let page = sink.page_mut(finger.leaf)?;
            let added = RowLeafMut::open(page).and_then(|mut leaf| leaf.append(*next, values));
            let added = added.at(sink, finger.leaf)?;
            if added > 0 {
                *next += added as u64;
                tree.entries += added as u64;
                return Ok(added);
            }
        }
        let id = *next;
        RowTree::put_at(sink, tree, next, finger, id, Value::inline(first))?;
        Ok(1)
    }

    /// As [`RowTree::put`], for a row of puts: ids after all others are put where `finger` points.
    pub fn put_at<S: PageSink + ?Sized>(
        sink: &mut S,
        tree: &mut TreeRoot,
        next: &mut u64,
        finger: &mut Finger,
        id: u64,
        value: Value<'_>,
    ) -> Result<bool> {
        let Some(after) = id.checked_add(1) else {
            return Err(Error::Invalid("row ids end below 2^64 - 1: this table has used all of them".into()));
        };
        let new = match put_at_end(sink, finger, id, value)? {
            Some(new) => new,
            None => put(sink, tree, finger, id, value)?,
        };
        *next = after.max(*next);
        tree.entries += u64::from(new);
        Ok(new)
    }
}

/// Stores row `id` in the last leaf, if the finger points there, the row belongs there and there is room for it.
#[inline]
fn put_at_end<S: PageSink + ?Sized>(
    sink: &mut S,
    finger: &Finger,
    id: u64,
    value: Value<'_>,
) -> Result<Option<bool>> {
    if finger.leaf == PageId::NONE || !finger.last {
        return Ok(None);
    }
    let page = sink.page_mut(finger.leaf)?;
    check_limits(page.len(), &[], value)?;
    let done = RowLeafMut::open(page)
        .and_then(|mut leaf| if id < leaf.view()?.base() { Ok(None) } else { leaf.put(id, value) });
    done.at(sink, finger.leaf)
}

fn put<S: PageSink + ?Sized>(
    sink: &mut S,
    root: &mut TreeRoot,
    finger: &mut Finger,
    id: u64,
    value: Value<'_>,
) -> Result<bool> {
    finger.reset();
    if root.depth == 0 {
        let page = sink.allocate()?;
        if let Err(error) = check_limits(sink.page(page)?.len(), &[], value) {
            sink.free(page)?;
            return Err(error);
        }
        write_leaf(sink, page, id, value)?;
        *root = TreeRoot { root: page, depth: 1, entries: 0 };
        return Ok(true);
    }
    check_limits(sink.page(root.root)?.len(), &[], value)?;
    // A leaf that is too full is split until the row fits: every turn leaves fewer rows in the way.
    for _ in 0..16 {
        let mut path = Path::new();
        let (leaf, last) = own_path(sink, root, id, &mut path)?;
        let done = RowLeafMut::open(sink.page_mut(leaf)?).and_then(|mut leaf| leaf.put(id, value));
        if let Some(new) = done.at(sink, leaf)? {
            (finger.leaf, finger.last) = (leaf, last);
            return Ok(new);
        }
        if split_leaf(sink, root, &mut path, leaf, id, value)? {
            return Ok(true);
        }
    }
    Err(sink.damaged(root.root, 0, "leaves that can be parted", "leaves that cannot"))
}

fn write_leaf<S: PageSink + ?Sized>(sink: &mut S, page: PageId, id: u64, value: Value<'_>) -> Result<()> {
    let done = RowLeafMut::init(sink.page_mut(page)?).and_then(|mut leaf| leaf.put(id, value));
    match done.at(sink, page)? {
        Some(_) => Ok(()),
        None => Err(sink.damaged(page, 0, "a row that fits an empty leaf", "a longer one")),
    }
}

/// Makes room for row `id` beside a leaf that is too full for it: `true` if the row is stored with that.
fn split_leaf<S: PageSink + ?Sized>(
    sink: &mut S,
    root: &mut TreeRoot,
    path: &mut Path,
    leaf: PageId,
    id: u64,
    value: Value<'_>,
) -> Result<bool> {
    let copy = Scratch::copy_of(sink.page(leaf)?);
    let old = RowLeaf::open(&copy).at(&*sink, leaf)?;
    let right = sink.allocate()?;
    if id >= old.base() + old.slots() as u64 {
        // After the last row: ids that only grow fill every page.
        write_leaf(sink, right, id, value)?;
        add_child(sink, root, path, id, right)?;
        return Ok(true);
    }
    if id < old.base() {
        let done = RowLeafMut::init(sink.page_mut(right)?).and_then(|mut new| new.take(&old, 0, old.slots()));
        done.at(sink, right)?;
        write_leaf(sink, leaf, id, value)?;
        add_child(sink, root, path, old.base(), right)?;
        return Ok(true);
    }
    if old.rows() < 2 {
        // One row, and the place wanted is a hole before it: the row goes right.
        let first = old.next_row(0).map_or(old.base(), |slot| old.base() + slot as u64);
        if first <= id {
            return Err(sink.damaged(leaf, 4, "a row that fits next to one other", "a longer one"));
        }
        let done = RowLeafMut::init(sink.page_mut(right)?).and_then(|mut new| new.take(&old, 0, old.slots()));
        done.at(sink, right)?;
        write_leaf(sink, leaf, id, value)?;
        add_child(sink, root, path, first, right)?;
        return Ok(true);
    }
    let middle = old.middle().at(&*sink, leaf)?;
    let done =
        RowLeafMut::init(sink.page_mut(right)?).and_then(|mut new| new.take(&old, middle, old.slots()));
    done.at(sink, right)?;
    let done = RowLeafMut::init(sink.page_mut(leaf)?).and_then(|mut left| left.take(&old, 0, middle));
    done.at(sink, leaf)?;
    add_child(sink, root, path, old.base() + middle as u64, right)?;
    Ok(false)
}

/// Adds `right`, whose lowest id is `first`, beside the child that `path` ends with, splitting branches upwards.
fn add_child<S: PageSink + ?Sized>(
    sink: &mut S,
    root: &mut TreeRoot,
    path: &mut Path,
    mut first: u64,
    mut right: PageId,
) -> Result<()> {
    while let Some(step) = path.pop() {
        let (id, c) = (step.page, step.child as usize + 1);
        let done =
            RowBranchMut::open(sink.page_mut(id)?).and_then(|mut branch| branch.insert(c, first, right.0));
        if done.at(sink, id)? {
            return Ok(());
        }
        let new = sink.allocate()?;
        let copy = Scratch::copy_of(sink.page(id)?);
        let old = RowBranch::open(&copy).at(&*sink, id)?;
        if c == old.count() {
            let done = RowBranchMut::init(sink.page_mut(new)?, first, right.0).map(|_| ());
            done.at(sink, new)?;
            right = new;
            continue;
        }
        let middle = old.count() / 2;
        let up = old.first(middle).at(&*sink, id)?;
        let child = old.child(middle).at(&*sink, id)?;
        let done = RowBranchMut::init(sink.page_mut(new)?, up, child).and_then(|mut branch| {
            let next = middle + 1;
            branch.take(&old, next, old.count(), old.first(next)?)?;
            if c > middle { branch.insert(c - middle, first, right.0) } else { Ok(true) }
        });
        done.at(sink, new)?;
        let done = RowBranchMut::open(sink.page_mut(id)?).and_then(|mut branch| {
            branch.truncate(middle)?;
            if c <= middle { branch.insert(c, first, right.0) } else { Ok(true) }
        });
        done.at(sink, id)?;
        (first, right) = (up, new);
    }
    let top = sink.allocate()?;
    let left = root.root.0;
    let done = RowBranchMut::init(sink.page_mut(top)?, 0, left)
        .and_then(|mut branch| branch.insert(1, first, right.0));
    done.at(sink, top)?;
    root.root = top;
    root.depth += 1;
    Ok(())
}
