//! The cursors of one connection.
//!
//! A cursor pins a snapshot, whose pages are not reused until it is closed. So their number is limited, they are closed
//! when idle, and they end with their connection. A cursor that is being read is taken out of its slot: a second reader
//! gets an error, and closing it takes effect when it is put back.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use treedb_collections::ErrorCode;

use super::failure::Failure;
use crate::metrics::{Counted, NativeCounts};

/// Cursors that one connection may have open.
pub(crate) const MAX_CURSORS: usize = 64;

/// The open cursors of a connection. `C` is what they read from.
#[derive(Debug)]
pub(crate) struct Cursors<C> {
    open: Mutex<Open<C>>,
    counts: NativeCounts,
}

#[derive(Debug)]
struct Open<C> {
    last_id: u64,
    slots: HashMap<u64, Slot<C>>,
}

#[derive(Debug)]
struct Slot<C> {
    /// `None` while a request reads it.
    cursor: Option<C>,
    used: Instant,
    _counted: Counted,
}

impl<C> Open<C> {
    fn slot(&mut self, id: u64) -> Result<&mut Slot<C>, Failure> {
        let missing = || Failure::new(ErrorCode::CursorNotFound, format!("cursor id {id} not found"));
        self.slots.get_mut(&id).ok_or_else(missing)
    }
}

fn being_read(id: u64) -> Failure {
    let message = format!("cursor id {id} is being read by another request");
    Failure::new(ErrorCode::IllegalOperation, message)
}

impl<C> Cursors<C> {
    /// None, which will be counted by `counts`.
    pub(crate) fn new(counts: NativeCounts) -> Self {
        Cursors { open: Mutex::new(Open { last_id: 0, slots: HashMap::new() }), counts }
    }

    /// Keeps a cursor and returns its id, which is never 0.
    ///
    /// # Errors
    /// There are [`MAX_CURSORS`] already.
    pub(crate) fn keep(&self, cursor: C) -> Result<u64, Failure> {
        let mut open = self.lock();
        if open.slots.len() >= MAX_CURSORS {
            let message = format!(
                "this connection has {MAX_CURSORS} cursors open: read them to their end, or close them"
            );
            return Err(Failure::new(ErrorCode::ExceededMemoryLimit, message));
        }
        open.last_id += 1;
        let id = open.last_id;
        let _counted = Counted::by(&self.counts.cursors);
        open.slots.insert(id, Slot { cursor: Some(cursor), used: Instant::now(), _counted });
        self.counts.opened.inc();
        Ok(id)
    }

    /// Takes a cursor out to read it.
    ///
    /// # Errors
    /// It does not exist, or another request is reading it.
    pub(crate) fn take(&self, id: u64) -> Result<C, Failure> {
        let mut open = self.lock();
        let slot = open.slot(id)?;
        slot.used = Instant::now();
        slot.cursor.take().ok_or_else(|| being_read(id))
    }

    /// Looks whether a cursor could be taken.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub(crate) fn check(&self, id: u64) -> Result<(), Failure> {
        match self.lock().slot(id)?.cursor {
            Some(_) => Ok(()),
            None => Err(being_read(id)),
        }
    }

    /// What `look` finds of a cursor; `None` if it does not exist, or is being read.
    pub(crate) fn look<T>(&self, id: u64, look: impl FnOnce(&C) -> T) -> Option<T> {
        self.lock().slots.get(&id)?.cursor.as_ref().map(look)
    }

    /// Puts a cursor back into its slot; it is dropped if it was closed meanwhile.
    pub(crate) fn put_back(&self, id: u64, cursor: C) {
        let mut open = self.lock();
        if let Some(slot) = open.slots.get_mut(&id) {
            (slot.cursor, slot.used) = (Some(cursor), Instant::now());
        } else {
            // Not under the lock: ending a snapshot may take a while.
            drop(open);
            drop(cursor);
        }
    }

    /// Closes a cursor; false if there is none with this id.
    pub(crate) fn close(&self, id: u64) -> bool {
        let removed = self.lock().slots.remove(&id);
        removed.is_some()
    }

    /// Closes what has not been used for `idle`, and returns which those were.
    pub(crate) fn reap(&self, idle: Duration) -> Vec<u64> {
        let old: Vec<_> = self
            .lock()
            .slots
            .extract_if(|_, slot| slot.cursor.is_some() && slot.used.elapsed() >= idle)
            .collect();
        self.counts.timed_out.inc_by(old.len() as u64);
        old.into_iter().map(|(id, _)| id).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Open<C>> {
        // Whoever panicked did so in between two consistent states: every change here is one statement.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_by_one_request_at_a_time_and_closed_even_then() {
        let cursors = Cursors::new(NativeCounts::default());
        let id = cursors.keep("a").unwrap();
        assert_eq!(cursors.take(id).unwrap(), "a");
        assert_eq!(cursors.take(id).unwrap_err().0.name, "IllegalOperation");
        cursors.put_back(id, "a");
        assert_eq!(cursors.take(id).unwrap(), "a");
        assert!(cursors.close(id) && !cursors.close(id));
        cursors.put_back(id, "a");
        assert_eq!(cursors.take(id).unwrap_err().0.name, "CursorNotFound");
    }

    #[test]
    fn idle_cursors_are_closed_but_not_one_that_is_being_read() {
        let cursors = Cursors::new(NativeCounts::default());
        let (idle, read) = (cursors.keep(1).unwrap(), cursors.keep(2).unwrap());
        cursors.take(read).unwrap();
        assert!(cursors.reap(Duration::from_secs(60)).is_empty());
        assert_eq!(cursors.reap(Duration::ZERO), [idle]);
        let counts = &cursors.counts;
        assert_eq!((counts.cursors.get(), counts.opened.get(), counts.timed_out.get()), (1, 2, 1));
        assert!(cursors.take(idle).is_err());
        cursors.put_back(read, 2);
        assert_eq!(cursors.take(read).unwrap(), 2);
        let gauge = cursors.counts.cursors.clone();
        drop(cursors);
        assert_eq!(gauge.get(), 0);
    }

    #[test]
    fn a_connection_cannot_hoard_cursors() {
        let cursors = Cursors::new(NativeCounts::default());
        for n in 0..MAX_CURSORS {
            cursors.keep(n).unwrap();
        }
        assert_eq!(cursors.keep(0).unwrap_err().0.name, "ExceededMemoryLimit");
        cursors.close(1);
        assert!(cursors.keep(0).is_ok());
    }
}
