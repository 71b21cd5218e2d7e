//! Inserting many entries at once: ascending ones go into a leaf together.

use super::finger::Finger;
use super::path::{At, Path};
use super::root::TreeRoot;
use super::tree::{Tree, fork, locate, store_at};
use crate::Result;
use crate::page::{PageSink, PageSource};
use treedb_formats::node::{LeafMut, Scratch, Value};

impl Tree {
    /// Stores the first of `entries`, keys and values, and those after it that go to the same place of the same leaf:
    /// keys that rise, with no stored key among them. Returns how many, at least one unless there is none; the owner
    /// calls it for the rest. Errors as [`Tree::put`]; values are inline.
    pub fn put_next<S: PageSink + ?Sized>(
        sink: &mut S,
        root: &mut TreeRoot,
        finger: &mut Finger,
        entries: &[(&[u8], &[u8])],
    ) -> Result<usize> {
        let Some(&(key, value)) = entries.first() else { return Ok(0) };
        let value = Value::inline(value);
        if root.depth == 0 {
            Tree::put_at(sink, root, finger, key, value)?;
            return Ok(1);
        }
        let found = locate(sink, root, finger, key, value)?;
        if let Err(place) = found {
            let leaf = finger.leaf;
            let mut bound = Scratch::new();
            let bounded = !finger.last && next_leaf(sink, &finger.path, &mut bound)?;
            let mut node = LeafMut::over(sink.page_mut(leaf)?);
            let count = node.insert_all(place, entries, bounded.then_some(&bound)).at(sink, leaf)?;
            if count > 0 {
                root.entries += count as u64;
                return Ok(count);
            }
        }
        store_at(sink, root, finger, found, key, value)?;
        Ok(1)
    }
}

/// Makes `bound` the key where the leaf after the one that `path` leads to begins; false if there is none.
fn next_leaf<S: PageSource + ?Sized>(src: &S, path: &Path, bound: &mut Vec<u8>) -> Result<bool> {
    let Some((branch, step)) = fork(src, path)? else { return Ok(false) };
    branch.separator_into(step.child as usize, bound).at(src, step.page)?;
    Ok(true)
}
