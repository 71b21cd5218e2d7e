//! Dup tables: many values under one key, sorted, each once.
//!
//! | file | noun |
//! |---|---|
//! | `set` | the values of a key that fit in its cell |
//! | `held` | what a key's cell holds: a set, or the root of a tree |
//! | `cursor` | [`DupCursor`]: both ways through keys and their values |
//! | `iter` | [`DupValues`] of a key, [`Pairs`] of a range of keys |
//! | `edit` | commands applied to pages |
//! | `typed` | [`TypedDupTable`]: keys and values with types |
//!
//! # Bytes
//!
//! The table's tree maps each key that has values to a cell. A cell without the pointer flag is the set of the values
//! itself, integers little-endian:
//!
//! ```text
//! count u16, at least 1 | end of each value u16, counted from the first value's begin | values, rising
//! ```
//!
//! A cell with the pointer flag is the root (16 bytes, as in the catalog) of a tree of its own, whose keys are the
//! values and whose values are empty. A set that outgrows a cell becomes a tree; a tree of a single leaf whose values
//! take less than half a cell becomes a set again. So the number of a key's values is always known from its cell.
//!
//! The table's record counts its pairs, and its keys that have a tree.

mod cursor;
mod edit;
mod held;
mod iter;
mod set;
mod typed;

pub use cursor::DupCursor;
pub use iter::{DupValues, Pairs};
pub use typed::{TypedDupTable, TypedPairs, TypedValues};

pub(super) use edit::check_pair;
pub(super) use held::Held;

/// The longest value of a dup table, in bytes: that of a key, because that is what it becomes where there are many.
pub const MAX_DUP_VALUE: usize = super::MAX_KEY;
