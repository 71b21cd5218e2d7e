//! The profiler: a log of slow operations, and those of each database that are kept.
//!
//! What is logged, and kept at level 1, is a part of the slow operations, by a rate; or, where a database has a filter, the operations whose entries
//! match that, slow or not.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bson::raw::cstr;
use bson::{DateTime, RawDocument, RawDocumentBuf, rawdoc};
use treedb_query::query::{self, Filter, PlanSummary};

use super::counters::Kind;
use super::locked;
use super::slots::{Connection, app_name, cut, show, users, without_credentials};

/// Entries of the profiler that are kept for each database.
pub(crate) const PROFILED: usize = 1_000;

/// Which commands of a database the profiler keeps.
#[derive(Debug, Clone, Default)]
pub(crate) struct Profiler {
    /// 0: none, 1: those that are logged, 2: all.
    pub(crate) level: i32,
    /// Which are logged; without one those that are slow.
    pub(crate) filter: Option<Arc<EntryFilter>>,
}

/// A filter of the profiler's entries.
#[derive(Debug)]
pub(crate) struct EntryFilter {
    document: RawDocumentBuf,
    filter: Filter,
}

impl EntryFilter {
    /// Reads a filter.
    ///
    /// # Errors
    /// It is not valid.
    pub(crate) fn parse(document: RawDocumentBuf) -> query::Result<EntryFilter> {
        Ok(EntryFilter { filter: Filter::parse(&document)?, document })
    }

    /// As it was given.
    pub(crate) fn document(&self) -> &RawDocument {
        &self.document
    }

    /// Whether an entry is wanted. One that the filter fails for is not.
    fn matches(&self, entry: &RawDocument) -> bool {
        self.filter.matches(entry).unwrap_or(false)
    }
}

/// An operation that has ended.
pub(crate) struct Ended<'e> {
    pub(crate) connection: &'e dyn Connection,
    /// `mongo` or `native`.
    pub(crate) door: &'static str,
    /// The name of the command.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) database: &'e str,
    pub(crate) namespace: &'e str,
    pub(crate) took: Duration,
    /// By which plan it has found its rows.
    pub(crate) plan: Option<&'e PlanSummary>,
    /// It waits for something to happen, however long that takes.
    pub(crate) waits: bool,
    /// It is about the profile itself.
    pub(crate) of_profile: bool,
    /// Documents in the batch that it has returned.
    pub(crate) returned: Option<i64>,
    /// Bytes of its answer.
    pub(crate) bytes: usize,
    /// How many documents it has changed: fields of the entry.
    pub(crate) changed: RawDocumentBuf,
    /// Number, name and message of its error.
    pub(crate) error: Option<(i32, &'e str, &'e str)>,
}

/// The settings and the entries.
#[derive(Debug)]
pub(super) struct Profilers {
    slow_millis: AtomicI64,
    /// Which part of the slow operations counts: the bits of a number from 0 to 1.
    sample_rate: AtomicU64,
    /// Operations that were logged because they were slow.
    slow: AtomicU64,
    levels: Mutex<HashMap<String, Profiler>>,
    /// Number of databases with a level above 0, or with a filter.
    profiling: AtomicI32,
    kept: Mutex<HashMap<String, VecDeque<RawDocumentBuf>>>,
}

impl Profilers {
    /// None is on; operations that take longer than `slow` will be logged.
    pub(super) fn new(slow: Duration) -> Self {
        Profilers {
            slow_millis: AtomicI64::new(i64::try_from(slow.as_millis()).unwrap_or(i64::MAX)),
            sample_rate: AtomicU64::new(1_f64.to_bits()),
            slow: AtomicU64::new(0),
            levels: Mutex::default(),
            profiling: AtomicI32::new(0),
            kept: Mutex::default(),
        }
    }

    /// Operations that were logged because they were slow.
    pub(super) fn slow(&self) -> u64 {
        self.slow.load(Ordering::Relaxed)
    }

    /// Operations that take longer are logged.
    pub(super) fn slow_millis(&self) -> i64 {
        self.slow_millis.load(Ordering::Relaxed)
    }

    /// Sets that.
    pub(super) fn set_slow_millis(&self, millis: i64) {
        self.slow_millis.store(millis, Ordering::Relaxed);
    }

    /// Which part of the slow operations is logged and kept.
    pub(super) fn sample_rate(&self) -> f64 {
        f64::from_bits(self.sample_rate.load(Ordering::Relaxed))
    }

    /// Sets that.
    pub(super) fn set_sample_rate(&self, rate: f64) {
        self.sample_rate.store(rate.to_bits(), Ordering::Relaxed);
    }

    /// Whether a slow operation is in the sample.
    fn samples(&self) -> bool {
        let rate = self.sample_rate();
        // Without randomness everything is.
        rate >= 1.0 || getrandom::u32().map_or(0.0, |random| f64::from(random) / 2_f64.powi(32)) < rate
    }

    /// The profiler of a database.
    pub(super) fn level(&self, database: &str) -> Profiler {
        locked(&self.levels).get(database).cloned().unwrap_or_default()
    }

    /// Sets it.
    pub(super) fn set_level(&self, database: &str, profiler: Profiler) {
        let mut all = locked(&self.levels);
        all.insert(database.to_owned(), profiler);
        all.retain(|_, profiler| profiler.level > 0 || profiler.filter.is_some());
        self.profiling.store(i32::try_from(all.len()).unwrap_or(i32::MAX), Ordering::Relaxed);
    }

    /// What is kept of a database, the oldest first.
    pub(super) fn kept(&self, database: &str) -> Vec<RawDocumentBuf> {
        locked(&self.kept).get(database).into_iter().flatten().cloned().collect()
    }

    /// Forgets that; false if nothing was kept.
    pub(super) fn forget(&self, database: &str) -> bool {
        locked(&self.kept).remove(database).is_some()
    }

    fn is_slow(&self, took: Duration) -> bool {
        i128::from(self.slow_millis()) <= i128::try_from(took.as_millis()).unwrap_or(i128::MAX)
    }

    /// Whether an operation that took so long might be logged or kept.
    pub(super) fn wants(&self, took: Duration) -> bool {
        self.is_slow(took) || self.profiling.load(Ordering::Relaxed) > 0
    }

    /// Logs and keeps an operation, if that is wanted.
    pub(super) fn record(&self, ended: &Ended<'_>, command: &RawDocument) {
        let Ended { connection, name, namespace, plan, returned, bytes, waits, .. } = *ended;
        let millis = i64::try_from(ended.took.as_millis()).unwrap_or(i64::MAX);
        let Profiler { level, filter } = self.level(ended.database);
        let mut entry = None;
        let wanted = match filter {
            Some(filter) => filter.matches(entry.insert(entry_of(ended, millis, command))),
            None => self.is_slow(ended.took) && !waits && self.samples(),
        };
        if wanted {
            self.slow.fetch_add(1, Ordering::Relaxed);
            tracing::info!(
                door = ended.door,
                connection = connection.number(),
                command = name,
                namespace,
                millis,
                plan = plan.map(tracing::field::display),
                returned,
                bytes,
                code = ended.error.map(|(code, ..)| code),
                "slow operation"
            );
        }
        if ended.of_profile || !(level == 2 || level == 1 && wanted) {
            return;
        }
        let entry = entry.unwrap_or_else(|| entry_of(ended, millis, command));
        let mut all = locked(&self.kept);
        let kept = all.entry(ended.database.to_owned()).or_default();
        if kept.len() >= PROFILED {
            kept.pop_front();
        }
        kept.push_back(entry);
    }
}

/// The entry of an operation that took so long.
fn entry_of(ended: &Ended<'_>, millis: i64, command: &RawDocument) -> RawDocumentBuf {
    let Ended { connection, name, namespace, plan, returned, bytes, .. } = *ended;
    let mut shown = Vec::new();
    show(command, &mut shown);
    let mut entry = rawdoc! {
        "op": ended.kind.name(),
        "ns": namespace,
        "command": without_credentials(name, RawDocumentBuf::from_bytes(shown).unwrap_or_default()),
    };
    if let Some(returned) = returned {
        entry.append(cstr!("nreturned"), returned);
    }
    for (field, value) in ended.changed.iter().flatten() {
        entry.append(field, value);
    }
    entry.append(cstr!("responseLength"), i32::try_from(bytes).unwrap_or(i32::MAX));
    entry.append(cstr!("millis"), millis);
    if let Some(plan) = plan {
        entry.append(cstr!("planSummary"), plan.to_string());
    }
    if let Some((code, name, message)) = ended.error {
        entry.append(cstr!("ok"), 0.0);
        entry.append(cstr!("errMsg"), cut(message));
        entry.append(cstr!("errName"), name);
        entry.append(cstr!("errCode"), code);
    }
    entry.append(cstr!("ts"), DateTime::now());
    entry.append(cstr!("client"), connection.identity().peer().to_string());
    entry.append(cstr!("appName"), app_name(connection).unwrap_or_default());
    entry.append(cstr!("allUsers"), users(connection));
    entry
}
