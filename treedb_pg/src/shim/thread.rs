//! Threads in a backend, which has only one as far as the server knows.
//!
//! A value can be kept to the server's thread. Other threads may run code that calls nothing of the server: they are
//! started with all signals blocked, so that the server's handlers run on its own thread.

use std::thread::{self, ThreadId};

use pgrx::pg_sys;

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

/// Calls `start`, which starts threads that handle no signals.
pub(crate) fn start_without_signals(start: &mut dyn FnMut()) {
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: two sets of this frame; the first is filled before it is read. A thread inherits the signals that the one
    // that starts it has blocked.
    let blocked = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) == 0
    };
    if !blocked {
        return;
    }
    start();
    // SAFETY: the set that the call above has written.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
}

/// Whether the server has something to tell this backend: that its query is cancelled, for example.
pub(crate) fn is_interrupted() -> bool {
    // SAFETY: a number that handlers of signals set.
    unsafe { (&raw const pg_sys::InterruptPending).read_volatile() != 0 }
}
