//! Whether what was taken from the server may be given back to it.
//!
//! Handles are given back when they are dropped, except where the server does that itself: after an error, which
//! unwinds through us, and when the memory of a plan that failed is deleted. Then its resource owners and memory
//! contexts release everything, before us or after us, and only memory of our own is left to be freed.

use std::cell::Cell;

thread_local! {
    static ABANDONING: Cell<bool> = const { Cell::new(false) };
}

/// Whether a handle that is dropped now has to be given back.
#[inline]
pub(super) fn may_release() -> bool {
    !std::thread::panicking() && !ABANDONING.get()
}

/// A value in memory of the server's: it frees its own memory when that goes away, and gives no handle back.
pub(super) struct Abandoned<T>(Option<T>);

impl<T> Abandoned<T> {
    pub(super) fn new(value: T) -> Abandoned<T> {
        Abandoned(Some(value))
    }

    /// The value.
    pub(super) fn get(&mut self) -> Option<&mut T> {
        self.0.as_mut()
    }

    /// Takes the value out: its handles are given back when it is dropped.
    pub(super) fn take(&mut self) -> Option<T> {
        self.0.take()
    }
}

impl<T> Drop for Abandoned<T> {
    fn drop(&mut self) {
        let before = ABANDONING.replace(true);
        drop(self.0.take());
        ABANDONING.set(before);
    }
}
