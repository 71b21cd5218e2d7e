//! The lock that makes its holder the writer.

use std::sync::PoisonError;

use crate::sync::{Condvar, Mutex, MutexGuard};

/// A value that one owner holds at a time. Unlike a mutex guard, it can be moved to another thread.
#[derive(Debug)]
pub(crate) struct WriterLock<T> {
    state: Mutex<State<T>>,
    released: Condvar,
}

#[derive(Debug)]
struct State<T> {
    value: Option<T>,
    /// Number of waiting threads: notifying costs a system call even if there are none.
    waiters: usize,
}

impl<T> WriterLock<T> {
    pub(crate) fn new(value: T) -> WriterLock<T> {
        WriterLock { state: Mutex::new(State { value: Some(value), waiters: 0 }), released: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the value and takes it. The caller must give it back in all cases.
    pub(crate) fn acquire(&self) -> T {
        let mut state = self.lock();
        loop {
            if let Some(value) = state.value.take() {
                return value;
            }
            state.waiters += 1;
            state = self.released.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiters -= 1;
        }
    }

    /// Gives the value back.
    pub(crate) fn release(&self, value: T) {
        let mut state = self.lock();
        state.value = Some(value);
        let waiters = state.waiters > 0;
        drop(state);
        if waiters {
            self.released.notify_one();
        }
    }
}
