//! Memory for what a transaction has read, with a bounded page cache: there pages may leave memory.

use bumpalo::Bump;

/// Above this many bytes the memory is freed instead of reused.
const KEEP: usize = 1 << 20;

/// Bytes that live as long as their transaction, or until it forgets them.
#[derive(Default)]
pub(crate) struct Arena(Bump);

impl Arena {
    /// A copy of `bytes`.
    pub(crate) fn keep(&self, bytes: &[u8]) -> &[u8] {
        self.0.alloc_slice_copy(bytes)
    }

    /// Room for `len` bytes, zeroed.
    pub(crate) fn room(&self, len: usize) -> &mut [u8] {
        self.0.alloc_slice_fill_copy(len, 0)
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        if self.0.allocated_bytes() > KEEP {
            self.0 = Bump::new();
        } else {
            self.0.reset();
        }
    }
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arena").field("bytes", &self.0.allocated_bytes()).finish()
    }
}
