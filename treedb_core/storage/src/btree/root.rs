//! The root of a tree.

use crate::page::PageId;

/// No tree is deeper: branches of the longest keys still have four children.
pub(crate) const MAX_DEPTH: usize = 40;

/// What the owner of a tree stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeRoot {
    /// The topmost page; [`PageId::NONE`] in an empty tree.
    pub root: PageId,
    /// Levels: 0 in an empty tree, 1 when the root is a leaf.
    pub depth: u16,
    /// Number of entries.
    pub entries: u64,
}

impl TreeRoot {
    /// Length of the stored form, in bytes.
    pub const LEN: usize = 16;

    /// A tree without entries and pages.
    pub const EMPTY: TreeRoot = TreeRoot { root: PageId::NONE, depth: 0, entries: 0 };

    /// The stored form: root (u32), depth (u16), zero (u16), entries (u64), little-endian.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..4].copy_from_slice(&self.root.0.to_le_bytes());
        bytes[4..6].copy_from_slice(&self.depth.to_le_bytes());
        bytes[8..].copy_from_slice(&self.entries.to_le_bytes());
        bytes
    }

    /// Reads the stored form; `None` if the bytes cannot be a tree's.
    pub fn from_bytes(bytes: &[u8; Self::LEN]) -> Option<TreeRoot> {
        let [r0, r1, r2, r3, d0, d1, z0, z1, entries @ ..] = *bytes;
        let root = TreeRoot {
            root: PageId(u32::from_le_bytes([r0, r1, r2, r3])),
            depth: u16::from_le_bytes([d0, d1]),
            entries: u64::from_le_bytes(entries),
        };
        let sound = if root.depth == 0 {
            root == TreeRoot::EMPTY
        } else {
            root.root != PageId::NONE && usize::from(root.depth) <= MAX_DEPTH && root.entries > 0
        };
        (sound && z0 == 0 && z1 == 0).then_some(root)
    }
}

impl Default for TreeRoot {
    fn default() -> Self {
        TreeRoot::EMPTY
    }
}
