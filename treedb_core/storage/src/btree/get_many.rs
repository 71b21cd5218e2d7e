//! Looking up many keys at once.
//!
//! Keys are looked up in groups, and a group descends the tree level by level. Consecutive keys that descend into the same
//! child form a *batch*: the child is opened once, and if the batch's keys ascend and its first and last key descend into
//! the same child again, the keys between them are not searched. Unsorted keys descend in parallel instead: each takes one
//! step, which ends with a prefetch for the next, before any takes the next step, so that the waits for memory overlap.

use super::path::At;
use super::tree::{child_slow, value_slow};
use super::{Tree, TreeRoot};
use crate::Result;
use crate::page::{LEAF_LINES, PageId, PageSource, prefetch_from};
use treedb_formats::node::{Branch, Leaf, Value, cell_of, child_for, value_in};

/// Keys of a group.
const GROUP: usize = 32;
/// Cache lines of a cell to prefetch: enough for a value of 100 bytes.
const CELL_LINES: usize = 2;

/// Keys `from..to` of a group, all below page `page`.
#[derive(Clone, Copy)]
struct KeyBatch {
    page: PageId,
    from: usize,
    to: usize,
}

/// The batches of a group at one level.
struct KeyBatches {
    list: [KeyBatch; GROUP],
    len: usize,
}

impl KeyBatches {
    fn new() -> KeyBatches {
        KeyBatches { list: [KeyBatch { page: PageId::NONE, from: 0, to: 0 }; GROUP], len: 0 }
    }

    fn all(&self) -> &[KeyBatch] {
        self.list.get(..self.len).unwrap_or_default()
    }

    /// Adds a batch, to the one before it if that is below the same page.
    fn add(&mut self, batch: KeyBatch) {
        if let Some(last) = self.len.checked_sub(1).and_then(|i| self.list.get_mut(i))
            && last.page == batch.page
        {
            last.to = batch.to;
        } else if let Some(place) = self.list.get_mut(self.len) {
            *place = batch;
            self.len += 1;
        }
    }
}

impl Tree {
    /// The values of `keys`, given to `each` with the key's place among them, in that order. Ascending keys that are
    /// close to each other share their descent. Nothing is allocated.
    pub fn get_many<'a, S: PageSource + ?Sized>(
        src: &'a S,
        root: &TreeRoot,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<Value<'a>>) -> Result<()>,
    ) -> Result<()> {
        if root.depth == 0 {
            return (0..keys.len()).try_for_each(|i| each(i, None));
        }
        for (n, group) in keys.chunks(GROUP).enumerate() {
            get_group(src, root, group, &mut |i, value| each(n * GROUP + i, value))?;
        }
        Ok(())
    }
}

fn get_group<'a, S: PageSource + ?Sized>(
    src: &'a S,
    root: &TreeRoot,
    keys: &[&[u8]],
    each: &mut dyn FnMut(usize, Option<Value<'a>>) -> Result<()>,
) -> Result<()> {
    if !keys.is_sorted() {
        return get_unsorted(src, root, keys, each);
    }
    let mut batches = KeyBatches::new();
    batches.add(KeyBatch { page: root.root, from: 0, to: keys.len() });
    for _ in 1..root.depth {
        let mut below = KeyBatches::new();
        let mut nodes = [None; GROUP];
        for (node, batch) in nodes.iter_mut().zip(batches.all()) {
            *node = Some(Branch::open(src.page(batch.page)?).at(src, batch.page)?);
        }
        for (branch, batch) in nodes.iter().flatten().zip(batches.all()) {
            split_batch(src, branch, batch, keys, &mut below)?;
        }
        batches = below;
    }
    let mut leaves = [None; GROUP];
    for (leaf, batch) in leaves.iter_mut().zip(batches.all()) {
        *leaf = Some(Leaf::open(src.page(batch.page)?).at(src, batch.page)?);
    }
    for (leaf, batch) in leaves.iter().flatten().zip(batches.all()) {
        for (i, key) in keys.iter().enumerate().take(batch.to).skip(batch.from) {
            each(i, leaf.get(key).at(src, batch.page)?)?;
        }
    }
    Ok(())
}

/// [`get_group`] of unsorted keys.
fn get_unsorted<'a, S: PageSource + ?Sized>(
    src: &'a S,
    root: &TreeRoot,
    keys: &[&[u8]],
    each: &mut dyn FnMut(usize, Option<Value<'a>>) -> Result<()>,
) -> Result<()> {
    let mut ids = [root.root; GROUP];
    for level in 1..root.depth {
        let lines = if level + 1 == root.depth { LEAF_LINES } else { 1 };
        for (id, key) in ids.iter_mut().zip(keys) {
            let page = src.page(*id)?;
            *id = match child_for(page, key) {
                Some(child) => PageId(child),
                None => child_slow(src, *id, page, key)?,
            };
            src.prefetch_lines(*id, 0, lines);
        }
    }
    let mut leaves = [(&[][..], None); GROUP];
    for ((id, key), leaf) in ids.iter().zip(keys).zip(&mut leaves) {
        let page = src.page(*id)?;
        let cell = cell_of(page, key);
        if let Some(Some((at, _))) = cell {
            prefetch_from(page.as_ptr().wrapping_add(at), CELL_LINES);
        }
        *leaf = (page, cell);
    }
    for (i, ((id, key), (page, cell))) in ids.iter().zip(keys).zip(leaves).enumerate() {
        let found = match cell {
            Some(Some((at, prefix))) => value_in(page, at, prefix, key),
            Some(None) => Some(None),
            None => None,
        };
        let found = match found {
            Some(found) => found,
            None => value_slow(src, *id, page, key)?,
        };
        each(i, found)?;
    }
    Ok(())
}

/// Splits a batch, whose keys ascend, among the children of the branch it has reached.
fn split_batch<S: PageSource + ?Sized>(
    src: &S,
    branch: &Branch<'_>,
    batch: &KeyBatch,
    keys: &[&[u8]],
    below: &mut KeyBatches,
) -> Result<()> {
    let find = |i: usize| -> Result<usize> {
        branch.find(keys.get(i).copied().unwrap_or_default()).at(src, batch.page)
    };
    let mut whole = |c: usize, from: usize, to: usize| -> Result<()> {
        let page = PageId(branch.child(c).at(src, batch.page)?);
        below.add(KeyBatch { page, from, to });
        Ok(())
    };
    if batch.to - batch.from > 2 {
        let (first, last) = (find(batch.from)?, find(batch.to - 1)?);
        if first == last {
            return whole(first, batch.from, batch.to);
        }
    }
    (batch.from..batch.to).try_for_each(|i| whole(find(i)?, i, i + 1))
}
