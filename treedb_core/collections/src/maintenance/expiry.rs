//! Expiry of documents: those whose date, in the field of an index with `expireAfterSeconds`, is that long past.
//!
//! They are found through the index and deleted in short transactions, so that other writers can proceed. Of an array the earliest
//! date counts; values that are not dates never expire. While such an index exists, a thread deletes expired documents in regular
//! intervals, so a document may live somewhat longer than its time.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use treedb_query::access::{Change, Direction, Flow, KeyRange, RowId, Sink, after_prefix};
use treedb_query::doc::Value;
use treedb_query::doc::key::{encode_value, invert};
use treedb_query::error::{ErrorCode, Result};
use treedb_query::index::ordered::{IndexDef, SortOrder};
use treedb_storage::Durability;

use crate::catalog::meta::IndexMeta;
use crate::database::{Database, Inner};
use crate::read::view::View;
use crate::write::edit::Edit;

/// Documents deleted in one transaction.
#[cfg(not(test))]
const BATCH: usize = 512;
/// Small in tests, so that several transactions are needed.
#[cfg(test)]
const BATCH: usize = 5;
/// The default interval between two passes.
const INTERVAL: Duration = Duration::from_secs(60);

/// The thread that deletes expired documents, started with the first index that needs it.
#[derive(Debug)]
pub(crate) struct TtlMonitor {
    signal: Arc<Signal>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Controls the thread.
#[derive(Debug)]
struct Signal {
    control: Mutex<Control>,
    condvar: Condvar,
    /// Locked by the thread while it has a handle of the database.
    pass: Mutex<()>,
}

#[derive(Debug)]
struct Control {
    interval: Duration,
    /// End the current pass early.
    end_pass: bool,
    stop: bool,
}

impl Signal {
    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(&self) -> MutexGuard<'_, ()> {
        self.pass.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the current pass should end.
    fn should_stop(&self) -> bool {
        let control = self.control();
        control.stop || control.end_pass
    }

    /// Waits for the interval; false if the thread is to stop. A changed interval starts again.
    fn wait(&self) -> bool {
        let mut control = self.control();
        loop {
            if control.stop {
                return false;
            }
            let interval = control.interval;
            let (woken, timeout) =
                self.condvar.wait_timeout(control, interval).unwrap_or_else(PoisonError::into_inner);
            control = woken;
            if timeout.timed_out() && !control.stop {
                return true;
            }
        }
    }
}

impl Default for TtlMonitor {
    fn default() -> Self {
        let control = Mutex::new(Control { interval: INTERVAL, end_pass: false, stop: false });
        TtlMonitor {
            signal: Arc::new(Signal { control, condvar: Condvar::new(), pass: Mutex::default() }),
            thread: Mutex::default(),
        }
    }
}

impl TtlMonitor {
    /// Starts the thread for `db`, if it is not running.
    pub(crate) fn start(&self, db: &Database) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_some() || self.signal.control().stop {
            return;
        }
        let (signal, inner) = (Arc::clone(&self.signal), Arc::downgrade(&db.inner));
        let work = move || run(&signal, &inner);
        // If the thread cannot be started, the next index or opening of the database tries again.
        *thread = std::thread::Builder::new().name("treedb-expiry".into()).spawn(work).ok();
    }

    /// Ends the thread if the caller has the last handle of the database, the thread's aside; `handles` counts them.
    pub(crate) fn stop_if_last(&self, handles: &dyn Fn() -> usize) {
        self.signal.control().end_pass = true;
        let pass = self.signal.pass();
        let last = handles() == 1;
        {
            let mut control = self.signal.control();
            control.end_pass = false;
            control.stop |= last;
        }
        drop(pass);
        if last {
            self.stop();
        }
    }

    /// Ends the thread and waits for it.
    pub(crate) fn stop(&self) {
        self.signal.control().stop = true;
        self.signal.condvar.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The last handle may be the thread's own: it cannot wait for itself.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}

impl Drop for TtlMonitor {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(signal: &Signal, inner: &Weak<Inner>) {
    while signal.wait() {
        let _pass = signal.pass();
        let Some(inner) = inner.upgrade() else { return };
        // After an error, such as a full disk, the next pass tries again.
        let _ = Database { inner }.expire_before(now(), &|| signal.should_stop());
    }
}

fn now() -> i64 {
    bson::DateTime::now().timestamp_millis()
}

impl Database {
    /// Deletes the documents that have expired at `now`, by the indexes with `expireAfterSeconds`, and returns their number.
    /// The database does this by itself every minute, or as often as [`Self::expire_every`] says.
    pub fn expire_now(&self, now: bson::DateTime) -> Result<u64> {
        self.expire_before(now.timestamp_millis(), &|| false)
    }

    /// Sets the interval between two passes that delete expired documents; the default is a minute.
    pub fn expire_every(&self, interval: Duration) {
        self.inner.ttl_monitor.signal.control().interval = interval;
        self.inner.ttl_monitor.signal.condvar.notify_all();
    }

    /// Starts the thread if there is an index with `expireAfterSeconds`.
    pub(crate) fn start_ttl_monitor(&self) -> Result<()> {
        if self.has_index(|index| index.building.is_none() && expires(index))? {
            self.inner.ttl_monitor.start(self);
        }
        Ok(())
    }

    fn expire_before(&self, now: i64, stop: &dyn Fn() -> bool) -> Result<u64> {
        let mut expiring = Vec::new();
        {
            let reads = self.inner.store.begin_read()?;
            for namespace in self.inner.catalog.list(&reads, "")? {
                let Some(meta) = self.inner.catalog.find(&reads, &namespace)? else { continue };
                let indexes = meta.indexes.iter().filter(|index| expires(index));
                expiring.extend(indexes.map(|index| (namespace.clone(), index.id)));
            }
        }
        let mut deleted = 0;
        for (namespace, index) in expiring {
            loop {
                if stop() {
                    return Ok(deleted);
                }
                // A deletion that a power loss undoes is repeated.
                let relaxed = Some(Durability::Relaxed);
                let batch = match self.edit(&namespace, false, relaxed, |edit| expire(edit, index, now)) {
                    // A transaction has changed one of them meanwhile: the next pass finds them.
                    Err(error) if error.code == ErrorCode::WriteConflict => break,
                    batch => batch?.unwrap_or(0),
                };
                deleted += batch as u64;
                if batch < BATCH {
                    break;
                }
            }
        }
        Ok(deleted)
    }
}

/// Deletes a batch of the documents that have expired by index `id`, but those that open transactions have changed, which the next
/// pass finds. Returns how many were deleted.
fn expire(edit: &mut Edit<'_>, id: i64, now: i64) -> Result<usize> {
    let mut rows: Vec<RowId> = Vec::new();
    {
        let ready = |index: &&IndexMeta| index.id == id && index.building.is_none();
        let index = edit.meta.indexes.iter().find(ready).and_then(IndexMeta::ordered);
        let Some(index) = index else { return Ok(0) };
        let Some(range) = expired_range(index.def, now) else { return Ok(0) };
        let view = View { reads: &*edit.txn, meta: &edit.meta };
        view.scan_index(index, &range, Direction::Forward, None, &mut |row, _, _| {
            if !rows.contains(&row) && !edit.is_claimed(row) {
                rows.push(row);
            }
            Ok(if rows.len() >= BATCH { Flow::Break(()) } else { Flow::Continue(()) })
        })?;
    }
    for row in &rows {
        edit.modify(*row, &mut |_| Ok(Change::Delete))?;
    }
    Ok(rows.len())
}

/// True for an index with `expireAfterSeconds`.
fn expires(index: &IndexMeta) -> bool {
    index.def.as_ordered().is_some_and(|def| def.options.expire_after.is_some())
}

/// The keys of the documents that have expired at `now`; `None` if the index has no expiry.
fn expired_range(def: &IndexDef, now: i64) -> Option<KeyRange> {
    let last = now.saturating_sub(def.options.expire_after?.saturating_mul(1000));
    let encoded = |millis: i64| {
        let mut key = Vec::new();
        encode_value(Value::Date(millis), &mut key);
        key
    };
    let (mut low, mut high) = (encoded(i64::MIN), encoded(last));
    if def.keys.first()?.direction == SortOrder::Descending {
        invert(&mut low);
        invert(&mut high);
        std::mem::swap(&mut low, &mut high);
    }
    Some(KeyRange { low, high: after_prefix(&high) })
}
