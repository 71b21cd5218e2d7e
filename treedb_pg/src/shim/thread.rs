//! Values that must not leave the server's only thread.

use std::thread::{self, ThreadId};

/// A value that other threads can hold, but not use: what the engine wants `Send`, and is not.
pub(crate) struct ServerThread<T> {
    value: Option<T>,
    home: ThreadId,
}

// SAFETY: the value is reached, and dropped, on the thread that made it and on no other: see `get` and `drop`.
unsafe impl<T> Send for ServerThread<T> {}

impl<T> ServerThread<T> {
    /// Keeps a value to this thread.
    pub(crate) fn new(value: T) -> ServerThread<T> {
        ServerThread { value: Some(value), home: thread::current().id() }
    }

    /// The value; `None` on another thread.
    pub(crate) fn get(&mut self) -> Option<&mut T> {
        if thread::current().id() == self.home { self.value.as_mut() } else { None }
    }
}

impl<T> Drop for ServerThread<T> {
    fn drop(&mut self) {
        if thread::current().id() != self.home {
            // It is leaked, as it cannot be dropped here.
            std::mem::forget(self.value.take());
        }
    }
}
