//! Buffers for copies of a node while it is rebuilt, kept per thread so that a split allocates nothing.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// More buffers than that are given back to the allocator.
const KEPT: usize = 4;

thread_local! {
    static FREE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A byte buffer on loan from this thread's pool.
pub struct Scratch(Vec<u8>);

impl Scratch {
    /// An empty buffer.
    pub fn new() -> Self {
        let kept = FREE.try_with(|free| free.try_borrow_mut().ok().and_then(|mut free| free.pop()));
        Scratch(kept.ok().flatten().unwrap_or_default())
    }

    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut scratch = Scratch::new();
        scratch.0.extend_from_slice(bytes);
        scratch
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Scratch::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.0);
        buffer.clear();
        // The pool may be gone already while the thread ends.
        let _ = FREE.try_with(|free| {
            if let Ok(mut free) = free.try_borrow_mut()
                && free.len() < KEPT
            {
                free.push(buffer);
            }
        });
    }
}

impl Deref for Scratch {
    type Target = Vec<u8>;
    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}
