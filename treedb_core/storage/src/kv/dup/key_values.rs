//! The content of a key's cell.

use super::inline_set::InlineSet;
use crate::btree::{Tree, TreeRoot, Value};
use crate::page::{PageId, PageSource, Pager};
use crate::{Error, Result};

/// The values of a key: a set in its cell, or a tree of their own. Not part of the API.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct KeyValues<'a>(pub(super) Repr<'a>);

/// How the values of a key are stored.
#[derive(Debug, Clone, Copy)]
pub(super) enum Repr<'a> {
    Inline(InlineSet<'a>),
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

impl<'a> KeyValues<'a> {
    /// Opens a cell.
    pub(in crate::kv) fn open(pager: &Pager, cell: Value<'a>) -> Result<KeyValues<'a>> {
        if !cell.pointer {
            let set = InlineSet::open(cell.bytes);
            let set =
                set.ok_or_else(|| damaged(pager, "a set of values in a dup table's cell", cell.bytes))?;
            return Ok(KeyValues(Repr::Inline(set)));
        }
        let root = <&[u8; TreeRoot::LEN]>::try_from(cell.bytes).ok().and_then(TreeRoot::from_bytes);
        match root.filter(|root| root.depth > 0) {
            Some(root) => Ok(KeyValues(Repr::Tree(root))),
            None => Err(damaged(pager, "the root of a tree in a dup table's cell", cell.bytes)),
        }
    }

    /// The values of `key`; `None` if it has none.
    pub(in crate::kv) fn find(
        pager: &'a Pager,
        root: &TreeRoot,
        key: &[u8],
    ) -> Result<Option<KeyValues<'a>>> {
        Tree::get(pager, root, key)?.map(|cell| KeyValues::open(pager, cell)).transpose()
    }

    /// How many there are.
    pub(in crate::kv) fn count(&self) -> u64 {
        match &self.0 {
            Repr::Inline(set) => set.count() as u64,
            Repr::Tree(root) => root.entries,
        }
    }

    /// The root of their tree, if they have one.
    pub(in crate::kv) fn tree(&self) -> Option<TreeRoot> {
        match self.0 {
            Repr::Inline(_) => None,
            Repr::Tree(root) => Some(root),
        }
    }

    /// Whether `value` is among them.
    pub(in crate::kv) fn contains(&self, pager: &Pager, value: &[u8]) -> Result<bool> {
        match &self.0 {
            Repr::Inline(set) => Ok(set.search(value).ok_or_else(|| damaged_set(pager))?.is_ok()),
            Repr::Tree(root) => Ok(Tree::get(pager, root, value)?.is_some()),
        }
    }

    /// Checks them, unless they have a tree of their own.
    pub(super) fn check_inline(&self, pager: &Pager) -> Result<()> {
        match &self.0 {
            Repr::Inline(set) if !set.is_sound() => Err(damaged_set(pager)),
            _ => Ok(()),
        }
    }
}
