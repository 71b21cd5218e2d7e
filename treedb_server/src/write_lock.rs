//! The lock of `fsync`: while it is held nothing is written, and all that was written is in the page file, so that the files can be copied.
//!
//! Writes enter here before they begin, and wait without a thread of their own while the lock is held or wanted. Whoever takes it waits until
//! those that have entered are done, and then is the writer of the store, so that the server's own work, such as the deletion of expired
//! documents, waits as well. A command of an open transaction may still enter while the lock is only wanted: a write that is waited for may wait
//! for that transaction.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use treedb_collections::Database;
use treedb_query::error::{ErrorCode, QueryError};
use treedb_query::query::interrupt;
use treedb_storage::WriteTxn;

/// Nothing enters but the commands of open transactions. The bits below this one and the next count those that have entered.
const CLOSED: usize = 1 << (usize::BITS - 1);
/// Nothing enters.
const LOCKED: usize = CLOSED >> 1;

/// Time between two looks at whether the lock can be taken.
const PAUSE: Duration = Duration::from_millis(2);

/// The lock.
#[derive(Debug)]
pub(crate) struct WriteLock {
    gate: AtomicUsize,
    /// Whether writes may enter, for those that wait.
    open: watch::Sender<bool>,
    holder: Mutex<Holder>,
    /// The server stops: the lock can no longer be taken.
    stopped: AtomicBool,
}

#[derive(Debug, Default)]
struct Holder {
    /// How many times it was taken and not returned.
    count: i64,
    /// Somebody waits for those that have entered.
    taking: bool,
    /// Held as long as the lock is.
    writer: Option<WriteTxn>,
}

/// A write that has entered, until it is dropped.
#[derive(Debug)]
pub(crate) struct Writing(Arc<WriteLock>);

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.gate.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Opens the gate again if the lock could not be taken.
struct Taking<'l> {
    lock: &'l WriteLock,
    taken: bool,
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        let mut holder = self.lock.holder();
        holder.taking = false;
        if !self.taken {
            drop(holder);
            self.lock.let_in();
        }
    }
}

impl Default for WriteLock {
    fn default() -> Self {
        WriteLock {
            gate: AtomicUsize::new(0),
            open: watch::Sender::new(true),
            holder: Mutex::default(),
            stopped: AtomicBool::new(false),
        }
    }
}

impl WriteLock {
    fn holder(&self) -> MutexGuard<'_, Holder> {
        // Nothing is left half done when a holder panics: what is changed last is the gate.
        self.holder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a write begin, unless the lock is held, or wanted and the write is not one `of_open_transaction`.
    pub(crate) fn try_enter(self: &Arc<Self>, of_open_transaction: bool) -> Option<Writing> {
        let before = self.gate.fetch_add(1, Ordering::SeqCst);
        let writing = Writing(Arc::clone(self));
        let keeps_out = if of_open_transaction { LOCKED } else { LOCKED | CLOSED };
        (before & keeps_out == 0).then_some(writing)
    }

    /// Waits until a write may begin. Cancel safe.
    pub(crate) async fn enter(self: &Arc<Self>, of_open_transaction: bool) -> Writing {
        loop {
            if let Some(writing) = self.try_enter(of_open_transaction) {
                return writing;
            }
            // The sender is in `self`.
            let _ = self.open.subscribe().wait_for(|open| *open).await;
        }
    }

    /// Whether the lock is held.
    pub(crate) fn is_held(&self) -> bool {
        self.gate.load(Ordering::SeqCst) & LOCKED != 0
    }

    /// Brings the page file up to date, which it is while the lock is held. May block.
    ///
    /// # Errors
    /// Those of the store; `Interrupted`, `MaxTimeMSExpired`.
    pub(crate) fn checkpoint(self: &Arc<Self>, database: &Database) -> Result<(), QueryError> {
        loop {
            if self.holder().count > 0 {
                return Ok(());
            }
            if let Some(_writing) = self.try_enter(false) {
                return database.checkpoint();
            }
            interrupt::check()?;
            std::thread::sleep(PAUSE);
        }
    }

    /// Takes the lock, once more if it is held, and returns how many times it is held then. May block.
    ///
    /// # Errors
    /// `None` if it could not be taken by `until`; those of the store; `Interrupted`, `MaxTimeMSExpired`, `ShutdownInProgress`.
    pub(crate) fn take(&self, database: &Database, until: Instant) -> Result<Option<i64>, QueryError> {
        loop {
            let mut holder = self.holder();
            if holder.count > 0 {
                holder.count += 1;
                return Ok(Some(holder.count));
            }
            if !holder.taking {
                holder.taking = true;
                break;
            }
            drop(holder);
            if !self.pause(until)? {
                return Ok(None);
            }
        }
        let mut taking = Taking { lock: self, taken: false };
        // Before the gate is closed: who finds it closed waits for the other value.
        self.open.send_replace(false);
        self.gate.fetch_or(CLOSED, Ordering::SeqCst);
        let (closed, locked) = (CLOSED, CLOSED | LOCKED);
        while self.gate.compare_exchange(closed, locked, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            if !self.pause(until)? {
                return Ok(None);
            }
        }
        let writer = loop {
            database.checkpoint()?;
            let writer = database.store().begin_write()?;
            let stats = database.store().stats();
            if stats.txn == stats.checkpoint {
                break writer;
            }
            // The server's own work came between.
            drop(writer);
            if !self.pause(until)? {
                return Ok(None);
            }
        };
        let mut holder = self.holder();
        if self.stopped.load(Ordering::SeqCst) {
            return Err(stopping());
        }
        (holder.count, holder.writer) = (1, Some(writer));
        taking.taken = true;
        drop(holder);
        Ok(Some(1))
    }

    /// Waits a moment. False if `until` has passed.
    fn pause(&self, until: Instant) -> Result<bool, QueryError> {
        interrupt::check()?;
        if self.stopped.load(Ordering::SeqCst) {
            return Err(stopping());
        }
        std::thread::sleep(PAUSE);
        Ok(Instant::now() < until)
    }

    /// Returns the lock once, and how many times it is still held; `None` if it was not held.
    pub(crate) fn give_back(&self) -> Option<i64> {
        let mut holder = self.holder();
        let left = holder.count.checked_sub(1).filter(|left| *left >= 0)?;
        holder.count = left;
        if left == 0 {
            holder.writer = None;
            drop(holder);
            self.let_in();
        }
        Some(left)
    }

    /// Returns the lock altogether, and for good.
    pub(crate) fn stop(&self) {
        let mut holder = self.holder();
        self.stopped.store(true, Ordering::SeqCst);
        holder.count = 0;
        if holder.writer.take().is_some() {
            drop(holder);
            self.let_in();
        }
    }

    fn let_in(&self) {
        self.gate.fetch_and(!(CLOSED | LOCKED), Ordering::SeqCst);
        self.open.send_replace(true);
    }
}

fn stopping() -> QueryError {
    QueryError::new(ErrorCode::ShutdownInProgress, "the server is shutting down")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database() -> (Database, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        (Database::open(dir.path()).unwrap(), dir)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(50)
    }

    #[tokio::test]
    async fn writes_wait_until_the_lock_was_given_back_as_often_as_it_was_taken() {
        let (database, _dir) = database();
        database.collection("a.b").unwrap().insert_one(bson::rawdoc! { "_id": 1 }).unwrap();
        let lock = Arc::new(WriteLock::default());
        assert_eq!(lock.give_back(), None);
        assert_eq!(lock.take(&database, soon()).unwrap(), Some(1));
        assert_eq!(lock.take(&database, soon()).unwrap(), Some(2));
        let stats = database.store().stats();
        assert_eq!(stats.txn, stats.checkpoint);
        assert!(lock.is_held() && lock.try_enter(false).is_none() && lock.try_enter(true).is_none());
        let waits = {
            let lock = Arc::clone(&lock);
            tokio::spawn(async move { lock.enter(false).await })
        };
        assert_eq!(lock.give_back(), Some(1));
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!waits.is_finished());
        assert_eq!(lock.give_back(), Some(0));
        drop(waits.await.unwrap());
        assert!(!lock.is_held());
        database.collection("a.b").unwrap().insert_one(bson::rawdoc! { "_id": 2 }).unwrap();
    }

    #[test]
    fn it_is_taken_once_the_writes_that_have_begun_are_done_and_not_before() {
        let (database, _dir) = database();
        let lock = Arc::new(WriteLock::default());
        let writing = lock.try_enter(false).unwrap();
        assert_eq!(lock.take(&database, soon()).unwrap(), None);
        // Those after it go on.
        drop(lock.try_enter(false).unwrap());
        let taker = {
            let (lock, database) = (Arc::clone(&lock), database.clone());
            std::thread::spawn(move || lock.take(&database, Instant::now() + Duration::from_secs(60)))
        };
        while lock.try_enter(false).is_some() {
            std::thread::yield_now();
        }
        // A transaction that is open goes on, since what has begun may wait for it.
        drop(lock.try_enter(true).unwrap());
        assert!(!lock.is_held() && !taker.is_finished());
        drop(writing);
        assert_eq!(taker.join().unwrap().unwrap(), Some(1));
        lock.stop();
        assert!(lock.try_enter(false).is_some());
        assert_eq!(lock.take(&database, soon()).unwrap_err().code, ErrorCode::ShutdownInProgress);
    }
}
