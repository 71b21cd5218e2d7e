//! What a key's cell holds.

use super::set::Set;
use crate::btree::{Tree, TreeRoot, Value};
use crate::page::{PageId, PageSource, Pager};
use crate::{Error, Result};

/// The values of a key: a set in its cell, or a tree of their own. Not for use outside.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Held<'a>(pub(super) Values<'a>);

/// See [`Held`].
#[derive(Debug, Clone, Copy)]
pub(super) enum Values<'a> {
    Set(Set<'a>),
    Tree(TreeRoot),
}

/// The error for a cell whose bytes make no sense.
pub(super) fn damaged(pager: &Pager, expected: &str, cell: &[u8]) -> Error {
    let found = format!("{} bytes that begin with {:02x?}", cell.len(), &cell[..cell.len().min(16)]);
    pager.damaged(PageId::NONE, 0, expected, &found)
}

/// The error for a set whose values do not rise, or reach beyond it.
pub(super) fn damaged_set(pager: &Pager) -> Error {
    pager.damaged(PageId::NONE, 0, "rising values in a dup table's cell", "others")
}

impl<'a> Held<'a> {
    /// What `cell` holds.
    pub(in crate::kv) fn open(pager: &Pager, cell: Value<'a>) -> Result<Held<'a>> {
        if !cell.pointer {
            let set = Set::open(cell.bytes);
            let set =
                set.ok_or_else(|| damaged(pager, "a set of values in a dup table's cell", cell.bytes))?;
            return Ok(Held(Values::Set(set)));
        }
        let root = <&[u8; TreeRoot::LEN]>::try_from(cell.bytes).ok().and_then(TreeRoot::from_bytes);
        match root.filter(|root| root.depth > 0) {
            Some(root) => Ok(Held(Values::Tree(root))),
            None => Err(damaged(pager, "the root of a tree in a dup table's cell", cell.bytes)),
        }
    }

    /// The values of `key`; `None` if it has none.
    pub(in crate::kv) fn find(pager: &'a Pager, root: &TreeRoot, key: &[u8]) -> Result<Option<Held<'a>>> {
        Tree::get(pager, root, key)?.map(|cell| Held::open(pager, cell)).transpose()
    }

    /// How many there are.
    pub(in crate::kv) fn count(&self) -> u64 {
        match &self.0 {
            Values::Set(set) => set.count() as u64,
            Values::Tree(root) => root.entries,
        }
    }

    /// The root of their tree, if they have one.
    pub(in crate::kv) fn tree(&self) -> Option<TreeRoot> {
        match self.0 {
            Values::Set(_) => None,
            Values::Tree(root) => Some(root),
        }
    }

    /// Whether `value` is among them.
    pub(in crate::kv) fn contains(&self, pager: &Pager, value: &[u8]) -> Result<bool> {
        match &self.0 {
            Values::Set(set) => Ok(set.search(value).ok_or_else(|| damaged_set(pager))?.is_ok()),
            Values::Tree(root) => Ok(Tree::get(pager, root, value)?.is_some()),
        }
    }

    /// Checks them, every page of their tree included; `visit` gets those pages. Returns how many there are.
    pub(in crate::kv) fn check(&self, pager: &Pager, visit: &mut dyn FnMut(PageId)) -> Result<u64> {
        match &self.0 {
            Values::Set(set) if set.is_sound() => {}
            Values::Set(_) => return Err(damaged_set(pager)),
            Values::Tree(root) => {
                Tree::check(pager, root, visit)?;
            }
        }
        Ok(self.count())
    }
}
