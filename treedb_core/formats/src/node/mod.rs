//! Nodes of the B+tree on plain byte slices: format, search, change, split, join.
//!
//! A node fills one page payload of 256 bytes to 32 KiB; it knows neither files nor Postgres. Keys of a node are
//! unique. Their order is the order of their bytes ([`Keys::Bytewise`]), or any other that the owner searches by
//! ([`Leaf::search_by`], [`Keys::Custom`]); then separators are whole keys and no prefix is taken.
//!
//! # Bytes
//!
//! Integers are little-endian; offsets count from the start of the payload.
//!
//! | offset | size | what |
//! |---|---|---|
//! | 0 | 1 | kind: 1 leaf, 2 branch (3 and 4 are the row tree's, see `btree::rows`) |
//! | 1 | 1 | flags: bit 0 = custom order |
//! | 2 | 2 | count: entries in use |
//! | 4 | 2 | capacity: entries there is room for in the arrays |
//! | 6 | 2 | length of the prefix |
//! | 8 | 2 | offset of the lowest cell; the payload's length when there is none |
//! | 10 | 2 | dead bytes above that offset (cells no slot points to) |
//! | 12 | 4 | branch: the leftmost child; leaf: the slot after the entry inserted last (u16), and how many inserts before it came in a row (u16): a hint, which may be wrong |
//! | 16 | prefix | the bytes all keys begin with, padded with zeros to a multiple of 8 |
//! | then | 8 x capacity | heads: the first 8 bytes of each key after the prefix, zero-padded, read as a big-endian number |
//! | then | 4 x capacity | branch only: the child right of each separator |
//! | then | 2 x capacity | slots |
//! | then | | gap |
//! | lowest cell | | cells, growing down from the end |
//!
//! A leaf's slot is the offset of its cell: length of the key after the prefix (u16), length of the value with the
//! "pointer" flag in bit 15 (u16), the key's bytes that neither prefix nor head hold, the value.
//!
//! A branch with `count` separators has `count + 1` children; child `i` holds the keys from separator `i - 1`
//! (included) up to separator `i` (excluded). Its slot is the separator's length after the prefix when that is at
//! most 8 (the head holds all of it, there is no cell), otherwise the offset of a cell: number of remaining bytes
//! (u16), those bytes. A branch without separators and with its leftmost child alone is valid.
//!
//! # Hostile bytes
//!
//! `open` checks the header in constant time, so that prefix, heads, children and slots lie inside the payload;
//! what a slot points to is checked when it is used. Every access returns [`NodeDamage`] instead of panicking, and
//! no loop is longer than the payload. `validate` checks everything.

mod branch;
mod bytes;
#[cfg(test)]
mod divide_tests;
mod entry_run;
mod fast_search;
mod insert_many;
mod leaf;
mod raw;
mod raw_mut;
mod scratch;
mod search;
#[cfg(test)]
mod tests;

pub use branch::{Branch, BranchJoin, BranchMut, BranchSplit};
pub use bytes::{common, compare};
pub use fast_search::{cell_of, child_for, value_in, value_of};
pub use leaf::{Leaf, LeafJoin, LeafMut, LeafSplit};
pub use raw::Cell;
pub use raw::POINTER;
pub use raw_mut::{store, store_u16};
pub use scratch::Scratch;
pub use search::lower_bound;

/// Shortest payload a node works on, in bytes.
pub const MIN_PAYLOAD: usize = 256;
/// Longest payload a node works on, in bytes: offsets and lengths have 15 bits.
pub const MAX_PAYLOAD: usize = 32 * 1024;
/// Bytes of a node's header.
pub const NODE_HEADER: usize = 16;

/// The longest key a node of this payload takes, in bytes: two entries of the longest key and value always fit.
pub const fn max_key(payload: usize) -> usize {
    (payload.saturating_sub(NODE_HEADER) / 4).saturating_sub(24)
}

/// The longest value a node of this payload takes, in bytes.
pub const fn max_value(payload: usize) -> usize {
    max_key(payload)
}

/// The gap of a node, in bytes from the start of its payload: its bytes are undefined.
pub fn gap(payload: &[u8]) -> Result<std::ops::Range<usize>, NodeDamage> {
    let (end, cells) = if payload.first() == Some(&raw::BRANCH) {
        let layout = raw::Layout::parse::<true>(payload)?;
        (layout.end, layout.cells)
    } else {
        let layout = raw::Layout::parse::<false>(payload)?;
        (layout.end, layout.cells)
    };
    Ok(end..cells)
}

/// How the keys of a node are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// By their bytes: nodes take common prefixes and shortest separators.
    Bytewise,
    /// By the owner's comparison: no prefix is taken, separators are whole keys, `search` must not be used.
    Custom,
}

/// A value as a leaf holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// A flag for the owner: the bytes are a pointer to the value, not the value.
    pub pointer: bool,
}

impl<'a> Value<'a> {
    /// A value held in the leaf itself.
    pub const fn inline(bytes: &'a [u8]) -> Self {
        Value { bytes, pointer: false }
    }

    /// A pointer to a value that is stored elsewhere.
    pub const fn pointer(bytes: &'a [u8]) -> Self {
        Value { bytes, pointer: true }
    }
}

/// Where a search ended: `Ok(slot)` holds the key, `Err(slot)` is where it would go.
pub type Found = Result<usize, usize>;

/// Why a payload is not a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node is damaged at byte {at}: expected {expected}, found {found}")]
pub struct NodeDamage {
    /// Offset in the payload, in bytes.
    pub at: usize,
    /// What should be there.
    pub expected: &'static str,
    /// The number that is there.
    pub found: u64,
}

impl NodeDamage {
    /// Damage at `at`: `found` is there, and not `expected`.
    #[cold]
    pub fn new(at: usize, expected: &'static str, found: usize) -> Self {
        NodeDamage { at, expected, found: found as u64 }
    }
}
