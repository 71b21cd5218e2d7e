//! Where the last put of a tree went, so that ascending keys find their leaf without a descent.

use super::path::Path;
use crate::page::PageId;

/// A leaf of a tree that one transaction is changing, and the way to it. The thread that keeps one lifts it when the tree is
/// changed otherwise than through it, or when its pages may not be the transaction's own any more.
pub struct Finger {
    pub(super) path: Path,
    /// [`PageId::NONE`] while it points at nothing.
    pub(super) leaf: PageId,
    /// It is the last leaf: every key above its last one belongs to it.
    pub(super) last: bool,
    /// The last puts went to the same leaf, so that trying it first pays off. It does not for unsorted keys.
    pub(super) sequential: bool,
}

impl Finger {
    /// A finger that points at nothing.
    pub fn new() -> Finger {
        Finger { path: Path::new(), leaf: PageId::NONE, last: false, sequential: false }
    }

    /// A finger for keys in order that are likely to be in one leaf: it is tried from the second one on.
    pub fn for_neighbours() -> Finger {
        Finger { sequential: true, ..Finger::new() }
    }

    /// Makes it point at nothing.
    #[inline]
    pub fn reset(&mut self) {
        (self.leaf, self.sequential) = (PageId::NONE, false);
    }
}

impl Default for Finger {
    fn default() -> Self {
        Finger::new()
    }
}

impl std::fmt::Debug for Finger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Finger")
            .field("leaf", &self.leaf)
            .field("near", &self.sequential)
            .finish_non_exhaustive()
    }
}
