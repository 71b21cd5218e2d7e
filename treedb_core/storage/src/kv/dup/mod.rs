//! Dup tables: many values under one key, sorted, each once. The name is LMDB's (`MDB_DUPSORT`).
//!
//! | file | what |
//! |---|---|
//! | `key_values` | the content of a key's cell: an inline set, or the root of a value tree |
//! | `inline_set` | the values of a key that fit in its cell |
//! | `cursor` | [`DupCursor`]: moves moves in both directions over keys and their values |
//! | `iter` | [`DupValues`] of a key, [`Pairs`] of a range of keys |
//! | `edit` | commands applied to pages |
//! | `pages` | counting, checking and moving a dup table's pages |
//! | `typed` | [`TypedDupTable`]: keys and values with types |
//!
//! Without the feature `dup-tables`, `dup_disabled.rs` takes the place of this module.
//!
//! # Bytes
//!
//! The table's tree maps each key that has values to a cell. A cell without the pointer flag is the set of the values
//! itself, integers little-endian:
//!
//! ```text
//! count u16, at least 1 | end of each value u16, counted from the start of the first value | values, ascending
//! ```
//!
//! A cell with the pointer flag is the root (16 bytes, as in the catalog) of a tree of its own, whose keys are the
//! values and whose values are empty. A set that outgrows a cell becomes a tree; a tree of a single leaf whose values
//! take less than half a cell becomes a set again. So the number of a key's values is always known from its cell.
//!
//! The table's record counts its pairs, and its keys that have a tree.

mod cursor;
mod edit;
mod inline_set;
mod iter;
mod key_values;
mod pages;
mod typed;

use super::catalog::TableKind;
use crate::Result;
use crate::btree::TreeRoot;
use crate::page::Pager;

pub use cursor::DupCursor;
pub use iter::{DupValues, Pairs};
pub use typed::{TypedDupTable, TypedPairs, TypedValues};

pub(super) use edit::check_pair;
pub(super) use key_values::KeyValues;
pub(super) use pages::{ValueTreePosition, check_cell, count_pages, for_each_pair};

/// The longest value of a dup table, in bytes: the same as of a key, because in a value tree it is one.
pub const MAX_DUP_VALUE: usize = super::MAX_KEY;

/// Refuses stores with dup tables where they are not supported; here they are.
pub(super) fn check_supported(_pager: &Pager, _catalog: &TreeRoot) -> Result<()> {
    Ok(())
}

/// Refuses to create a table of a kind that is not supported; here all are.
pub(super) fn check_kind(_kind: TableKind) -> Result<()> {
    Ok(())
}
