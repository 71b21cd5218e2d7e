//! Who is the writer: whoever holds what only the writer may have.

use std::sync::PoisonError;

use crate::sync::{Condvar, Mutex, MutexGuard};

/// One thing that is held by one owner at a time. Unlike a mutex guard, what is held can be moved to another thread.
#[derive(Debug)]
pub(crate) struct Gate<T> {
    here: Mutex<Option<T>>,
    back: Condvar,
}

impl<T> Gate<T> {
    pub(crate) fn new(thing: T) -> Gate<T> {
        Gate { here: Mutex::new(Some(thing)), back: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the thing and takes it. The taker gives it back, whatever happens.
    pub(crate) fn take(&self) -> T {
        let mut here = self.lock();
        loop {
            match here.take() {
                Some(thing) => return thing,
                None => here = self.back.wait(here).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Gives it back.
    pub(crate) fn give(&self, thing: T) {
        *self.lock() = Some(thing);
        self.back.notify_one();
    }
}
