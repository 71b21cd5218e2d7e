//! The approximate rank of a key, without counting.

use super::path::At;
use super::{Tree, TreeRoot};
use crate::Result;
use crate::page::{PageId, PageSource};
use treedb_formats::node::{Branch, Leaf};

impl Tree {
    /// The approximate fraction of entries below `key`, from 0 to 1, assuming that every child of a branch has the same
    /// number. Reads one path from the root to a leaf.
    pub fn part_below<S: PageSource + ?Sized>(src: &S, root: &TreeRoot, key: &[u8]) -> Result<f64> {
        let (mut below, mut width) = (0.0, 1.0);
        if root.depth == 0 {
            return Ok(below);
        }
        let mut id = root.root;
        for _ in 1..root.depth {
            let branch = Branch::open(src.page(id)?).at(src, id)?;
            let c = branch.find(key).at(src, id)?;
            width /= (branch.count() + 1) as f64;
            below += width * c as f64;
            id = PageId(branch.child(c).at(src, id)?);
        }
        let leaf = Leaf::open(src.page(id)?).at(src, id)?;
        let (Ok(slot) | Err(slot)) = leaf.search(key).at(src, id)?;
        Ok(below + width * slot as f64 / leaf.count().max(1) as f64)
    }
}
