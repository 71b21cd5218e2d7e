//! The lock of `fsync`: while it is held nothing is written, and all that was written is in the page file, so that the files can be copied.
//!
//! Each write asks here before it begins. While the lock is held or requested, it waits asynchronously, without blocking a thread. The command that
//! takes the lock first waits for the writes in progress, then holds the write transaction of the store, so that background work, such as the
//! deletion of expired documents, waits as well. Commands of open transactions may still begin while the lock is only requested: a write in
//! progress may be waiting for such a transaction.
//!
//! Writes that wait keep their messages, which count against the budget of the server. So that others can go on, and somebody can log in to
//! give the lock back, they hold no more than a part of it: what would be more is refused.

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
    /// Bytes of the budget that writes which wait hold.
    waiting: AtomicUsize,
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

/// A write that waits, and the bytes that it holds.
struct Waiting<'l>(&'l WriteLock, usize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(self.1, Ordering::SeqCst);
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
            self.lock.let_in(&holder);
        }
    }
}

impl Default for WriteLock {
    fn default() -> Self {
        WriteLock {
            gate: AtomicUsize::new(0),
            open: watch::Sender::new(true),
            waiting: AtomicUsize::new(0),
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

    /// Waits until a write may begin that holds so many bytes of the budget. Cancel safe.
    ///
    /// # Errors
    /// `ExceededMemoryLimit` if it would have to wait, and all that wait would hold more than `most`.
    pub(crate) async fn enter(
        self: &Arc<Self>,
        of_open_transaction: bool,
        (held, most): (usize, usize),
    ) -> Result<Writing, QueryError> {
        if let Some(writing) = self.try_enter(of_open_transaction) {
            return Ok(writing);
        }
        let before = self.waiting.fetch_add(held, Ordering::SeqCst);
        let _waiting = Waiting(self, held);
        if held > most.saturating_sub(before) {
            return Err(QueryError::new(
                ErrorCode::ExceededMemoryLimit,
                "writes are locked out by fsync with lock, and those that wait hold too much memory already: unlock it, and try again",
            ));
        }
        loop {
            // The sender is in `self`.
            let _ = self.open.subscribe().wait_for(|open| *open).await;
            if let Some(writing) = self.try_enter(of_open_transaction) {
                return Ok(writing);
            }
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
                // Before the gate is closed: who finds it closed waits for the other value.
                self.open.send_replace(false);
                self.gate.fetch_or(CLOSED, Ordering::SeqCst);
                break;
            }
            drop(holder);
            if !self.pause(until)? {
                return Ok(None);
            }
        }
        let mut taking = Taking { lock: self, taken: false };
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
            self.let_in(&holder);
        }
        Some(left)
    }

    /// Returns the lock altogether, and for good.
    pub(crate) fn stop(&self) {
        let mut holder = self.holder();
        self.stopped.store(true, Ordering::SeqCst);
        holder.count = 0;
        if holder.writer.take().is_some() {
            self.let_in(&holder);
        }
    }

    /// Opens the gate. Nobody takes the lock meanwhile, who would close it.
    fn let_in(&self, _holder: &Holder) {
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
            tokio::spawn(async move { lock.enter(false, (10, 20)).await })
        };
        assert_eq!(lock.give_back(), Some(1));
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!waits.is_finished());
        assert_eq!(lock.give_back(), Some(0));
        drop(waits.await.unwrap().unwrap());
        assert!(!lock.is_held());
        database.collection("a.b").unwrap().insert_one(bson::rawdoc! { "_id": 2 }).unwrap();
    }

    #[tokio::test]
    async fn what_waits_for_the_lock_holds_a_part_of_the_memory_at_most() {
        let (database, _dir) = database();
        let lock = Arc::new(WriteLock::default());
        // Nothing is refused where nothing has to wait.
        drop(lock.enter(false, (1000, 20)).await.unwrap());
        lock.take(&database, soon()).unwrap();
        assert_eq!(lock.enter(false, (21, 20)).await.unwrap_err().code, ErrorCode::ExceededMemoryLimit);
        let waits = {
            let lock = Arc::clone(&lock);
            tokio::spawn(async move { lock.enter(false, (15, 20)).await })
        };
        while lock.waiting.load(Ordering::SeqCst) != 15 {
            tokio::task::yield_now().await;
        }
        assert_eq!(lock.enter(false, (6, 20)).await.unwrap_err().code, ErrorCode::ExceededMemoryLimit);
        waits.abort();
        assert!(waits.await.unwrap_err().is_cancelled());
        // What no longer waits holds nothing.
        assert_eq!(lock.waiting.load(Ordering::SeqCst), 0);
        lock.give_back();
        drop(lock.enter(false, (6, 20)).await.unwrap());
    }

    #[test]
    fn takers_that_give_up_and_holders_never_leave_the_gate_closed() {
        let (database, _dir) = database();
        let lock = Arc::new(WriteLock::default());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..100 {
                        let until = Instant::now() + Duration::from_millis(round % 3);
                        if lock.take(&database, until).unwrap().is_some() {
                            assert!(lock.is_held() && lock.try_enter(true).is_none());
                            lock.give_back().unwrap();
                        }
                        drop(lock.try_enter(false));
                    }
                });
            }
        });
        assert!(!lock.is_held() && *lock.open.borrow() && lock.try_enter(false).is_some());
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
