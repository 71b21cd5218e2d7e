//! What runs, and what has run, over both protocols: the operations of each connection, counters by kind and by collection, and a log
//! of slow ones.
//!
//! | file | what it holds |
//! |---|---|
//! | `slots` | [`Connection`], and the operations that one runs: `currentOp`, `killOp` |
//! | `counters` | how many there were, and how long they took: `serverStatus`, `top` |
//! | `profiler` | those that were slow, or are kept for another reason: `profile` |
//!
//! How an operation begins and ends is each protocol's own: `mongo::running`, `native::running`.

mod counters;
mod profiler;
mod slots;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bson::{RawDocument, RawDocumentBuf};

use self::counters::Counters;
pub(crate) use self::counters::{Access, Counts, Done, Kind, Usage, signed};
use self::profiler::Profilers;
pub(crate) use self::profiler::{Ended, EntryFilter, PROFILED, Profiler};
pub(crate) use self::slots::{Connection, Info, SHOWN_BYTES, Slots, app_name, append_length, cut, show};
use crate::mongo::sessions::Which;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is left half done when a holder panics: each change is one assignment or one insertion.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number that the `begun`th operation has for those who ask for it: MongoDB's are of 32 bits.
fn number_of(begun: u64) -> i32 {
    (begun & u64::from(i32::MAX.unsigned_abs())) as i32
}

/// What runs and has run.
pub(crate) struct Operations {
    connections: Mutex<HashMap<i32, Weak<dyn Connection>>>,
    /// How many operations there were.
    begun: AtomicU64,
    counters: Counters,
    profilers: Profilers,
}

/// A connection in the list, until it is dropped.
pub(crate) struct Listed<'o> {
    operations: &'o Operations,
    number: i32,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        locked(&self.operations.connections).remove(&self.number);
    }
}

impl Operations {
    /// Nothing has run; operations that take longer than `slow` will be logged.
    pub(crate) fn new(slow: Duration) -> Self {
        Operations {
            connections: Mutex::default(),
            begun: AtomicU64::new(0),
            counters: Counters::default(),
            profilers: Profilers::new(slow),
        }
    }

    /// Lists a connection until the result is dropped.
    pub(crate) fn list<C: Connection + 'static>(&self, connection: &Arc<C>) -> Listed<'_> {
        let (number, listed) = (connection.number(), Arc::downgrade(connection));
        locked(&self.connections).insert(number, listed);
        Listed { operations: self, number }
    }

    /// The number of a new operation, which is not negative. Numbers come again after two thousand million operations, by when those that
    /// had them have ended.
    pub(crate) fn next(&self) -> i32 {
        number_of(self.begun.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Counts an operation that has ended, in a collection if it is about one.
    pub(crate) fn count(&self, usage: Option<&Usage>, done: &Done) {
        self.counters.add(usage, done);
    }

    /// Counts statements of a command that does not count itself, and the documents that they have changed.
    pub(crate) fn count_statements(&self, kind: Kind, statements: u64, documents: u64) {
        self.counters.add_statements(kind, statements, documents);
    }

    /// The counters of a collection, which begin now if it has not been used.
    pub(crate) fn usage_of(&self, namespace: &str) -> Arc<Usage> {
        self.counters.usage_of(namespace)
    }

    /// The counters of a collection, if it has been used.
    pub(crate) fn usage(&self, namespace: &str) -> Option<Arc<Usage>> {
        self.counters.usage(namespace)
    }

    /// The `opLatencies` of `serverStatus`: how many reads, writes and other operations there were, and the microseconds in them.
    pub(crate) fn latencies(&self) -> RawDocumentBuf {
        self.counters.latencies()
    }

    /// The counters of every collection that was used, by name.
    pub(crate) fn top(&self) -> Vec<(String, RawDocumentBuf)> {
        self.counters.top()
    }

    /// Forgets the counters of collections that are no more: those of `database`, with its profile, or of one of its collections.
    pub(crate) fn forget(&self, database: &str, collection: Option<&str>) {
        self.counters.forget(database, collection);
        if collection.is_none() {
            self.profilers.forget(database);
        }
    }

    /// What was counted.
    pub(crate) fn counts(&self) -> Counts {
        self.counters.counts(i64::try_from(self.begun.load(Ordering::Relaxed)).unwrap_or(i64::MAX))
    }

    /// How many operations run, and how many of them read and write.
    pub(crate) fn active(&self) -> (i32, i32, i32) {
        let (mut all, mut readers, mut writers) = (0, 0, 0);
        for lock in self.connections().iter().flat_map(|connection| connection.slots().locks()) {
            all += 1;
            readers += i32::from(lock == Access::Reads);
            writers += i32::from(lock == Access::Writes);
        }
        (all, readers, writers)
    }

    /// The connections.
    fn connections(&self) -> Vec<Arc<dyn Connection>> {
        let mut all: Vec<_> = locked(&self.connections).values().filter_map(Weak::upgrade).collect();
        all.sort_by_key(|connection| connection.number());
        all
    }

    /// The operations, as `currentOp` shows them; also the connections that run none, if `idle`.
    pub(crate) fn current(
        &self,
        idle: bool,
        is_wanted: impl Fn(&dyn Connection) -> bool,
    ) -> Vec<RawDocumentBuf> {
        let connections = self.connections();
        let wanted = connections.iter().filter(|connection| is_wanted(&***connection));
        wanted.flat_map(|connection| slots::shown(&**connection, idle)).collect()
    }

    /// Tells the operations of these sessions to stop, but those of the connection `but`, which asks for it.
    pub(crate) fn kill_of_sessions(&self, which: &Which, but: i32) {
        for connection in self.connections().iter().filter(|connection| connection.number() != but) {
            connection.slots().kill_of_sessions(which, connection.identity().owner().as_ref());
        }
    }

    /// The connection that runs the operation `opid`.
    pub(crate) fn who_runs(&self, opid: i32) -> Option<Arc<dyn Connection>> {
        self.connections().into_iter().find(|connection| connection.slots().runs(opid))
    }

    /// Operations that were logged because they were slow.
    pub(crate) fn slow(&self) -> u64 {
        self.profilers.slow()
    }

    /// Operations that take longer are logged.
    pub(crate) fn slow_millis(&self) -> i64 {
        self.profilers.slow_millis()
    }

    /// Sets that.
    pub(crate) fn set_slow_millis(&self, millis: i64) {
        self.profilers.set_slow_millis(millis);
    }

    /// Which part of the slow operations is logged and kept.
    pub(crate) fn sample_rate(&self) -> f64 {
        self.profilers.sample_rate()
    }

    /// Sets that.
    pub(crate) fn set_sample_rate(&self, rate: f64) {
        self.profilers.set_sample_rate(rate);
    }

    /// The profiler of a database.
    pub(crate) fn profiler(&self, database: &str) -> Profiler {
        self.profilers.level(database)
    }

    /// Sets it.
    pub(crate) fn set_profiler(&self, database: &str, profiler: Profiler) {
        self.profilers.set_level(database, profiler);
    }

    /// What the profiler of a database has kept, the oldest first.
    pub(crate) fn profiled(&self, database: &str) -> Vec<RawDocumentBuf> {
        self.profilers.kept(database)
    }

    /// Forgets what the profiler of a database has kept; false if that was nothing.
    pub(crate) fn forget_profile(&self, database: &str) -> bool {
        self.profilers.forget(database)
    }

    /// Whether an operation that took so long might be logged or kept: then it is to be [recorded](Self::record).
    pub(crate) fn wants(&self, took: Duration) -> bool {
        self.profilers.wants(took)
    }

    /// Logs and keeps an operation that has ended, if that is wanted.
    pub(crate) fn record(&self, ended: &Ended<'_>, command: &RawDocument) {
        self.profilers.record(ended, command);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_operations_are_never_negative_and_requests_are_counted_beyond_them() {
        let operations = Operations::new(Duration::from_millis(100));
        assert_eq!([operations.next(), operations.next()], [1, 2]);
        operations.begun.store(u64::from(i32::MAX.unsigned_abs()) - 1, Ordering::Relaxed);
        assert_eq!([operations.next(), operations.next(), operations.next()], [i32::MAX, 0, 1]);
        assert_eq!(operations.counts().requests, i64::from(i32::MAX) + 2);
    }

    #[test]
    fn what_a_connection_counts_after_a_drop_is_of_the_collection_that_is_made_anew() {
        let (operations, slots) = (Operations::new(Duration::from_millis(100)), Slots::default());
        let insert = || {
            let (kind, took) = (Kind::Insert, Duration::from_micros(5));
            let (access, lock) = (Access::Writes, Access::Writes);
            let done = Done { kind, access, lock, statements: 1, documents: 1, took };
            operations.count(Some(&slots.usage("shop.films", &operations)), &done);
        };
        let counted = || {
            let top = operations.top();
            let (_, films) = top.iter().find(|(name, _)| name == "shop.films")?;
            films.get_document("insert").ok()?.get_i64("count").ok()
        };
        insert();
        insert();
        assert_eq!(counted(), Some(2));
        for (collection, wanted) in [(Some("films"), 1), (None, 1)] {
            operations.forget("shop", collection);
            assert_eq!(counted(), None);
            insert();
            assert_eq!(counted(), Some(wanted));
        }
    }
}
