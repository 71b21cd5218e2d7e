//! Who is the writer: whoever holds what only the writer may have.

use std::sync::PoisonError;

use crate::sync::{Condvar, Mutex, MutexGuard};

/// One thing that is held by one owner at a time. Unlike a mutex guard, what is held can be moved to another thread.
#[derive(Debug)]
pub(crate) struct Gate<T> {
    here: Mutex<Here<T>>,
    back: Condvar,
}

#[derive(Debug)]
struct Here<T> {
    thing: Option<T>,
    /// How many wait for it: waking nobody costs a call of the system all the same.
    waiting: usize,
}

impl<T> Gate<T> {
    pub(crate) fn new(thing: T) -> Gate<T> {
        Gate { here: Mutex::new(Here { thing: Some(thing), waiting: 0 }), back: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Here<T>> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the thing and takes it. The taker gives it back, whatever happens.
    pub(crate) fn take(&self) -> T {
        let mut here = self.lock();
        loop {
            if let Some(thing) = here.thing.take() {
                return thing;
            }
            here.waiting += 1;
            here = self.back.wait(here).unwrap_or_else(PoisonError::into_inner);
            here.waiting -= 1;
        }
    }

    /// Gives it back.
    pub(crate) fn give(&self, thing: T) {
        let mut here = self.lock();
        here.thing = Some(thing);
        let waiting = here.waiting > 0;
        drop(here);
        if waiting {
            self.back.notify_one();
        }
    }
}
