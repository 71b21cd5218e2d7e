//! B+trees over [`crate::page`]: search, insert, delete, cursor, bulk load, check. The nodes themselves are in
//! [`treedb_formats::node`].
//!
//! | file | what |
//! |---|---|
//! | `root` | [`TreeRoot`]: what the owner of a tree stores |
//! | `tree` | [`Tree`]: get and put; `delete`, `clear` beside it |
//! | `check` | checking a tree, as a whole or by parts |
//! | `finger` | [`Finger`]: where the last put went, so that ascending keys need no descent |
//! | `branches` | what trees with keys and row trees share: rebalancing |
//! | `get_many` | looking up many keys at once |
//! | `put_all` | inserting many entries at once |
//! | `estimate` | the approximate rank of a key |
//! | `delete_range` | deleting a range of keys |
//! | `relocate` | moving pages to the front of the file |
//! | `cursor` | [`Cursor`]: a cursor, in both directions |
//! | `rows` | [`RowTree`]: values under dense row ids, without keys and without search |
//!
//! A tree is a [`TreeRoot`] (a [`RowRoot`]) that its owner keeps (in a catalog, in a meta page) and pages it reaches. Changing pages
//! is copy on write through [`PageSink::writable`](crate::page::PageSink::writable), along the path from the root.
//! When a change returns an error, the tree must be discarded with its transaction; errors of reads change
//! nothing.
//!
//! # Invariants
//!
//! - Every leaf is at the same depth; no leaf but the root's is empty; an empty tree has no page.
//! - Keys ascend within a leaf and from leaf to leaf; separator `i` of a branch is above every key of child `i` and not
//!   above any key of child `i + 1`.
//! - Leaves under a quarter full have been merged with a neighbour where the two fit.

mod branches;
mod check;
mod cursor;
mod delete;
mod delete_range;
mod estimate;
mod finger;
mod get_many;
mod path;
mod put_all;
mod relocate;
mod root;
mod rows;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod tree;

pub use check::TreeStats;
pub(crate) use check::{CheckedTree, KeyBound, Part, Visitor};
pub use cursor::Cursor;
pub use finger::Finger;
pub use relocate::Position;
pub use root::TreeRoot;
pub use rows::{RowCursor, RowRoot, RowTree};
pub use tree::Tree;
pub use treedb_formats::node::Value;

/// The longest key every tree takes whose pages have a payload of at least 4,032 bytes, in bytes. Trees of other
/// pages take keys up to [`treedb_formats::node::max_key`].
pub const MAX_KEY: usize = treedb_formats::node::max_key(4096 - 64);

/// The longest value every tree takes whose pages have a payload of at least 4,032 bytes, in bytes: about a quarter
/// page. Longer values are the owner's to put elsewhere. Trees of other pages take values up to [`treedb_formats::node::max_value`].
pub const MAX_VALUE: usize = treedb_formats::node::max_value(4096 - 64);
