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
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bson::{RawDocument, RawDocumentBuf};

use self::counters::Counters;
pub(crate) use self::counters::{Access, Counts, Done, Kind, Usage};
use self::profiler::Profilers;
pub(crate) use self::profiler::{Ended, Profiler};
pub(crate) use self::slots::{Connection, Info, Slots, app_name, cut, show};

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is left half done when a holder panics: each change is one assignment or one insertion.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What runs and has run.
pub(crate) struct Operations {
    connections: Mutex<HashMap<i32, Weak<dyn Connection>>>,
    next: AtomicI32,
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
            next: AtomicI32::new(1),
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

    /// The number of a new operation.
    pub(crate) fn next(&self) -> i32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts an operation that has ended, in a collection if it is about one.
    pub(crate) fn count(&self, usage: Option<&Usage>, done: &Done) {
        self.counters.add(usage, done);
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
        self.counters.counts(i64::from(self.next.load(Ordering::Relaxed)) - 1)
    }

    /// How many operations run, and how many of them read and write.
    pub(crate) fn active(&self) -> (i32, i32, i32) {
        let (mut all, mut writers) = (0, 0);
        for kind in self.connections().iter().flat_map(|connection| connection.slots().kinds()) {
            all += 1;
            writers += i32::from(matches!(kind, Kind::Insert | Kind::Update | Kind::Delete));
        }
        (all, all - writers, writers)
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

    /// Whether an operation that took so long might be logged or kept: then it is to be [recorded](Self::record).
    pub(crate) fn wants(&self, took: Duration) -> bool {
        self.profilers.wants(took)
    }

    /// Logs and keeps an operation that has ended, if that is wanted.
    pub(crate) fn record(&self, ended: &Ended<'_>, command: &RawDocument) {
        self.profilers.record(ended, command);
    }
}
