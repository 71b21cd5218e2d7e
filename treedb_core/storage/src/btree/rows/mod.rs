//! The row tree: values under dense u64 row ids. Leaves hold no keys and are not searched: a row's place is its id
//! less the leaf's first id.
//!
//! # Bytes
//!
//! Integers are little-endian; offsets count from the start of the payload.
//!
//! Leaf:
//!
//! | offset | size | what |
//! |---|---|---|
//! | 0 | 1 | kind: 3 |
//! | 1 | 1 | zero |
//! | 2 | 2 | count of slots |
//! | 4 | 2 | rows: slots that are in use |
//! | 6 | 2 | offset of the lowest cell; the payload's length when there is none |
//! | 8 | 2 | dead bytes above that offset |
//! | 10 | 6 | zero |
//! | 16 | 8 | base: the row id of slot 0 |
//! | 24 | 2 x count | slots: offset of the row's cell, 0 where there is no row |
//! | then | | gap |
//! | lowest cell | | cells, growing down from the end |
//!
//! A cell is the length of the value with the "pointer" flag in bit 15 (u16), then the value. The last slot is always
//! in use.
//!
//! Branch:
//!
//! | offset | size | what |
//! |---|---|---|
//! | 0 | 1 | kind: 4 |
//! | 1 | 1 | zero |
//! | 2 | 2 | count of children, at least 1 |
//! | 4 | 12 | zero |
//! | 16 | 8 x capacity | firsts: child `i` holds the ids from first `i` up to first `i + 1`; first 0 is ignored |
//! | then | 4 x capacity | children |
//!
//! The capacity is what the payload has room for: (length - 16) / 12.

mod branch;
mod changed;
mod check;
mod cursor;
mod delete;
mod leaf;
mod own_path;
#[cfg(test)]
mod tests;
mod tree;

pub use cursor::RowCursor;
pub(super) use own_path::RowBranches;
pub use tree::{RowRoot, RowTree};
