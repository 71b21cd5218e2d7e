//! The change log of an open database: its cached settings, switching it on and off, and notifying those who wait for changes.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use treedb_query::error::Result;
use treedb_storage::{Reads, TableKind, WriteTxn};

use super::AsOf;
use super::as_of::unavailable;
use super::dropped_collections::DroppedCollection;
use super::event::cluster_time;
use super::log::{CHANGES, DROPPED, End, Log, ROW_HISTORY};
use super::recorder::Recorder;
use super::renames::Rename;
use super::settings::{ChangeLogOptions, ChangeLogStatus, Settings};
use crate::catalog::meta::{Meta, rows_table};
use crate::catalog::namespace::Namespace;
use crate::database::Database;

/// A database's change log.
#[derive(Debug, Default)]
pub(crate) struct ChangeLog {
    /// The log in the newest transaction; `None` if it was not read yet or is being changed.
    cached: Mutex<Option<Option<Arc<Log>>>>,
    notifier: Notifier,
    sampling_seed: AtomicU64,
    /// When the log was last trimmed: milliseconds since 1970.
    pub(super) last_trim: AtomicI64,
    /// Those for whom nothing is removed ([`ChangeLog::keep_all`]).
    keepers: AtomicU64,
    /// The time that tests set; 0 for the system's clock.
    clock: AtomicI64,
}

/// Wakes threads that wait for changes.
#[derive(Debug, Default)]
struct Notifier {
    waiters: AtomicU64,
    notified: Mutex<u64>,
    condvar: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps everything in the log while it lives.
#[derive(Debug)]
pub(super) struct Kept<'a>(&'a AtomicU64);

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl ChangeLog {
    /// Nothing is removed from the log until the result is dropped.
    pub(super) fn keep_all(&self) -> Kept<'_> {
        self.keepers.fetch_add(1, Ordering::SeqCst);
        Kept(&self.keepers)
    }

    /// Whether somebody needs everything that is in the log.
    pub(super) fn keeps_all(&self) -> bool {
        self.keepers.load(Ordering::SeqCst) > 0
    }

    /// Milliseconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        match self.clock.load(Ordering::Relaxed) {
            0 => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
            }
            set => set,
        }
    }

    /// Sets the clock.
    #[cfg(test)]
    pub(crate) fn set_now(&self, now: i64) {
        self.clock.store(now, Ordering::Relaxed);
    }

    /// The log for the writer; `None` if it is off. `txn` must not have changed its settings.
    fn current(&self, txn: &WriteTxn) -> Result<Option<Arc<Log>>> {
        // Only the writer calls this, and a change of the settings clears the cache before it is committed.
        if let Some(cached) = &*lock(&self.cached) {
            return Ok(cached.clone());
        }
        let found = Log::find(txn)?.map(Arc::new);
        *lock(&self.cached) = Some(found.clone());
        Ok(found)
    }

    /// A recorder for the changes of a collection; `None` if they are not recorded.
    pub(crate) fn begin(&self, txn: &WriteTxn, collection: i64) -> Result<Option<Recorder>> {
        let Some(log) = self.current(txn)? else { return Ok(None) };
        let sampling_seed = self.sampling_seed.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        Ok(Some(Recorder::new(log, collection, self.now(), sampling_seed)))
    }

    /// Records that a collection was dropped. Keeps its rows, whose table still exists, if the log needs them, or drops the table.
    pub(crate) fn collection_dropped(&self, txn: &mut WriteTxn, meta: &Meta) -> Result<()> {
        let recorder = if meta.namespace.is_recorded() { self.begin(txn, meta.id)? } else { None };
        let Some(mut recorder) = recorder else {
            txn.drop_table(&rows_table(meta.id))?;
            return Ok(());
        };
        recorder.drop(meta.namespace.as_str(), false);
        recorder.flush(txn)?;
        match recorder.end() {
            Some(end) => self.keep_rows(txn, meta, end),
            None => Ok(()),
        }
    }

    /// Records that the collection `id` was renamed. The collection `replaced`, which had the name, was dropped by that.
    pub(crate) fn collection_renamed(
        &self,
        txn: &mut WriteTxn,
        id: i64,
        (from, to): (&Namespace, &Namespace),
        replaced: Option<&Meta>,
    ) -> Result<()> {
        let recorder = if from.is_recorded() { self.begin(txn, id)? } else { None };
        let (Some(mut recorder), Some(log)) = (recorder, self.current(txn)?) else {
            if let Some(replaced) = replaced {
                txn.drop_table(&rows_table(replaced.id))?;
            }
            return Ok(());
        };
        recorder.rename(from.as_str(), to.as_str());
        recorder.flush(txn)?;
        let Some(end) = recorder.end() else { return Ok(()) };
        Rename { id, seq: end.next - 1, from: from.clone() }.store(txn, &log)?;
        match replaced {
            Some(replaced) => self.keep_rows(txn, replaced, end),
            None => Ok(()),
        }
    }

    /// Keeps the rows of a collection that was dropped by the change before `end`.
    fn keep_rows(&self, txn: &mut WriteTxn, meta: &Meta, end: End) -> Result<()> {
        let Some(log) = self.current(txn)? else { return Ok(()) };
        let pages = txn.table_stats(&meta.rows)?.pages();
        let entry = Meta { indexes: Vec::new(), infos: Vec::new(), ..meta.clone() }.encode()?;
        let dropped = DroppedCollection {
            id: meta.id,
            namespace: meta.namespace.clone(),
            seq: end.next - 1,
            time: end.time,
            bytes: pages.saturating_mul(4096),
            entry: Some(entry),
        };
        dropped.store(txn, &log)
    }

    /// Records that a database was dropped, after its collections.
    pub(crate) fn database_dropped(&self, txn: &mut WriteTxn, name: &str) -> Result<()> {
        if let Some(mut recorder) = self.begin(txn, 0)? {
            recorder.drop(name, true);
            recorder.flush(txn)?;
        }
        Ok(())
    }

    /// Must be called after changes were committed.
    #[inline]
    pub(crate) fn notify(&self) {
        // The commit happens before this load of the counter; a waiter increments the counter before it reads the log. So either
        // the waiter sees the commit, or this thread sees the waiter.
        fence(Ordering::SeqCst);
        if self.notifier.waiters.load(Ordering::Relaxed) > 0 {
            *lock(&self.notifier.notified) += 1;
            self.notifier.condvar.notify_all();
        }
    }

    /// Calls `check` after each commit until it returns something or the timeout is over.
    pub(crate) fn wait<T>(
        &self,
        timeout: Duration,
        mut check: impl FnMut() -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        if let Some(found) = check()? {
            return Ok(Some(found));
        }
        let until = std::time::Instant::now().checked_add(timeout);
        self.notifier.waiters.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let found = loop {
            let before = *lock(&self.notifier.notified);
            match check() {
                Ok(None) => {}
                found => break found,
            }
            // Also wakes without a notification after an hour, because a long timeout could overflow.
            let left = until.map_or(Duration::from_secs(3600), |until| {
                until.saturating_duration_since(std::time::Instant::now())
            });
            if left.is_zero() {
                break Ok(None);
            }
            let notified = lock(&self.notifier.notified);
            let waited =
                self.notifier.condvar.wait_timeout_while(notified, left, |notified| *notified == before);
            drop(waited);
        };
        self.notifier.waiters.fetch_sub(1, Ordering::SeqCst);
        found
    }

    /// Clears the cached settings, which are about to change.
    fn invalidate(&self) {
        *lock(&self.cached) = None;
    }
}

impl Database {
    /// Switches the change log on or, with `None`, off, which deletes the recorded changes. If the log is on already, only its
    /// limits change. The setting is stored in the database.
    ///
    /// The log costs little for inserts in batches. A change in a transaction of its own takes about a quarter more processor
    /// time: an update or delete also writes the earlier version of its row.
    pub fn record_changes(&self, options: Option<ChangeLogOptions>) -> Result<()> {
        let changes = &self.inner.changes;
        let mut txn = self.inner.store.begin_write()?;
        let now = changes.now();
        let log = Log::find(&txn)?;
        let table = txn.open_table(CHANGES, TableKind::Ordered)?;
        let before = txn.get(&table, b"")?.map(Settings::decode).transpose()?;
        let mut settings = before.unwrap_or(Settings {
            on: false,
            from: 1,
            since: now,
            options: options.unwrap_or_default(),
        });
        match (options, log) {
            (Some(options), Some(_)) => settings.options = options,
            (Some(options), None) => {
                txn.open_table(ROW_HISTORY, TableKind::Ordered)?;
                txn.open_table(DROPPED, TableKind::Ordered)?;
                settings = Settings { on: true, since: now.max(settings.since), options, ..settings };
            }
            (None, Some(log)) => {
                let end = log.end(&txn)?;
                for dropped in log.dropped_collections(&txn)? {
                    txn.drop_table(&rows_table(dropped.id))?;
                }
                txn.drop_table(ROW_HISTORY)?;
                txn.drop_table(DROPPED)?;
                txn.clear(&table)?;
                settings = Settings { on: false, from: end.next, since: end.time, ..settings };
            }
            // Stored anyway: see `change_log_is_configured`.
            (None, None) => {}
        }
        txn.put(&table, b"", &settings.encode()?)?;
        changes.invalidate();
        txn.commit()?;
        changes.notify();
        Ok(())
    }

    /// The state of the change log; `None` if it is off.
    pub fn change_log(&self) -> Result<Option<ChangeLogStatus>> {
        let reads = self.inner.store.begin_read()?;
        let Some(log) = Log::find(&reads)? else { return Ok(None) };
        let (first, end) = (log.first(&reads)?, log.end(&reads)?);
        let before = first.map(|first| super::retention::bytes_before(&reads, &log, first)).transpose()?;
        Ok(Some(ChangeLogStatus {
            options: log.settings.options,
            first: first.map_or(end.next, |first| first.first),
            next: end.next,
            oldest: first.map_or(end.time, |first| first.time),
            bytes: end.total.saturating_sub(before.unwrap_or(end.total)),
        }))
    }

    /// The cluster time of the last change, as MongoDB has it; `None` if changes are not recorded. A change stream that starts at
    /// this time returns that change first.
    ///
    /// # Errors
    /// Those of the storage engine.
    pub fn operation_time(&self) -> Result<Option<bson::Timestamp>> {
        let reads = self.inner.store.begin_read()?;
        let Some(log) = Log::find(&reads)? else { return Ok(None) };
        let end = log.end(&reads)?;
        Ok(Some(cluster_time(end.time, end.next.saturating_sub(1))))
    }

    /// The state at this cluster time: after the last change that was not later ([`Self::operation_time`]).
    ///
    /// # Errors
    /// `SnapshotUnavailable` if the time is later than the last change, as more changes may get that time, or if changes are not recorded;
    /// `SnapshotTooOld` if it is earlier than those that are kept.
    pub fn at_operation_time(&self, time: bson::Timestamp) -> Result<AsOf> {
        let reads = self.inner.store.begin_read()?;
        match Log::find(&reads)? {
            Some(log) => log.at_cluster_time(&reads, time).map(AsOf::Change),
            None => Err(unavailable(time, "changes are not recorded")),
        }
    }

    /// True if [`Self::record_changes`] was ever called, be it to switch the log off.
    pub fn change_log_is_configured(&self) -> Result<bool> {
        let reads = self.inner.store.begin_read()?;
        match reads.table(CHANGES)? {
            Some(table) => Ok(reads.get(&table, b"")?.is_some()),
            None => Ok(false),
        }
    }
}
