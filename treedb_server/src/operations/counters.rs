//! Counters of operations: by kind, by collection, and how long they took.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bson::raw::cstr;
use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};

use super::locked;

/// Collections that are counted by name; those that are used first.
const COUNTED_COLLECTIONS: usize = 10_000;
/// Powers of two of microseconds in a histogram of latencies.
const BUCKETS: usize = 32;

/// The kinds of operations that MongoDB counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Insert,
    Query,
    Update,
    Delete,
    GetMore,
    Command,
}

impl Kind {
    /// That of a command.
    pub(crate) fn of(command: &str) -> Kind {
        match command {
            "insert" => Kind::Insert,
            "find" => Kind::Query,
            "update" => Kind::Update,
            "delete" => Kind::Delete,
            "getMore" => Kind::GetMore,
            _ => Kind::Command,
        }
    }

    /// As `currentOp` and the profiler call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Insert => "insert",
            Kind::Query => "query",
            Kind::Update => "update",
            Kind::Delete => "remove",
            Kind::GetMore => "getmore",
            Kind::Command => "command",
        }
    }
}

/// Among which latencies an operation is counted, and what it does with its collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Reads,
    Writes,
    Neither,
}

/// What came of an operation.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) kind: Kind,
    pub(crate) access: Access,
    /// An aggregation counts among the reads, and may write; an index build counts among neither.
    pub(crate) lock: Access,
    /// As how many operations it counts: an insert of ten documents is ten.
    pub(crate) statements: u64,
    /// Documents that an insert, update or delete has changed.
    pub(crate) documents: u64,
    pub(crate) took: Duration,
}

/// Counters of a collection.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    kinds: [Timed; 6],
    /// Of those that read the collection and those that change it.
    locks: [Timed; 2],
    /// Of reads, writes and commands.
    latencies: [Latencies; 3],
    /// The collection is gone: one that has its name now has others.
    forgotten: AtomicBool,
}

#[derive(Debug, Default)]
struct Timed {
    count: AtomicU64,
    micros: AtomicU64,
}

#[derive(Debug)]
struct Latencies {
    buckets: [AtomicU64; BUCKETS],
    total: Timed,
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies { buckets: [const { AtomicU64::new(0) }; BUCKETS], total: Timed::default() }
    }
}

/// A count as BSON has it.
pub(crate) fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

impl Timed {
    fn add(&self, micros: u64) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    fn get(&self) -> (u64, u64) {
        (self.count.load(Ordering::Relaxed), self.micros.load(Ordering::Relaxed))
    }
}

impl Usage {
    /// Whether its collection is gone.
    pub(super) fn is_forgotten(&self) -> bool {
        self.forgotten.load(Ordering::Relaxed)
    }

    fn add(&self, done: &Done) {
        let micros = u64::try_from(done.took.as_micros()).unwrap_or(u64::MAX);
        if let Some(timed) = self.kinds.get(done.kind as usize) {
            timed.add(micros);
        }
        if let Some(timed) = self.locks.get(done.lock as usize) {
            timed.add(micros);
        }
        if let Some(latencies) = self.latencies.get(done.access as usize) {
            latencies.total.add(micros);
            let bucket = (micros.max(1).ilog2() as usize).min(BUCKETS - 1);
            if let Some(bucket) = latencies.buckets.get(bucket) {
                bucket.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Its entry of `top`.
    fn top(&self) -> RawDocumentBuf {
        let of = |kinds: &[Kind]| {
            let (mut count, mut time) = (0, 0);
            for kind in kinds {
                let (n, micros) = self.kinds.get(*kind as usize).map_or((0, 0), Timed::get);
                (count, time) = (count + n, time + micros);
            }
            rawdoc! { "time": signed(time), "count": signed(count) }
        };
        let lock = |access: Access| {
            let (count, time) = self.locks.get(access as usize).map_or((0, 0), Timed::get);
            rawdoc! { "time": signed(time), "count": signed(count) }
        };
        use Kind::*;
        rawdoc! {
            "total": of(&[Insert, Query, Update, Delete, GetMore, Command]),
            "readLock": lock(Access::Reads),
            "writeLock": lock(Access::Writes),
            "queries": of(&[Query]),
            "getmore": of(&[GetMore]),
            "insert": of(&[Insert]),
            "update": of(&[Update]),
            "remove": of(&[Delete]),
            "commands": of(&[Command]),
        }
    }

    /// The `latencyStats` of `$collStats`.
    pub(crate) fn latency_stats(&self, histograms: bool) -> RawDocumentBuf {
        let of = |which: usize| {
            let Some(latencies) = self.latencies.get(which) else { return RawDocumentBuf::new() };
            let (ops, micros) = latencies.total.get();
            let mut found = RawDocumentBuf::new();
            if histograms {
                let mut all = RawArrayBuf::new();
                for (power, bucket) in latencies.buckets.iter().enumerate() {
                    let count = bucket.load(Ordering::Relaxed);
                    if count > 0 {
                        all.push(rawdoc! { "micros": 1_i64 << power, "count": signed(count) });
                    }
                }
                found.append(cstr!("histogram"), all);
            }
            found.append(cstr!("latency"), signed(micros));
            found.append(cstr!("ops"), signed(ops));
            found
        };
        let of = |access: Access| of(access as usize);
        rawdoc! { "reads": of(Access::Reads), "writes": of(Access::Writes), "commands": of(Access::Neither) }
    }
}

/// Counters since the server started, for `serverStatus`.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) insert: i64,
    pub(crate) query: i64,
    pub(crate) update: i64,
    pub(crate) delete: i64,
    pub(crate) getmore: i64,
    pub(crate) command: i64,
    pub(crate) inserted: i64,
    pub(crate) updated: i64,
    pub(crate) deleted: i64,
    /// Commands of all kinds.
    pub(crate) requests: i64,
}

/// All counters.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// By [`Kind`].
    kinds: [AtomicU64; 6],
    /// Documents inserted, updated and deleted.
    documents: [AtomicU64; 3],
    usage: Mutex<HashMap<String, Arc<Usage>>>,
    /// Of all operations.
    total: Usage,
}

impl Counters {
    /// Counts an operation, in a collection if it is about one.
    pub(super) fn add(&self, usage: Option<&Usage>, done: &Done) {
        self.add_statements(done.kind, done.statements, done.documents);
        for usage in usage.into_iter().chain([&self.total]) {
            usage.add(done);
        }
    }

    /// Counts statements, and the documents that they have changed.
    pub(super) fn add_statements(&self, kind: Kind, statements: u64, documents: u64) {
        let add = |counter: Option<&AtomicU64>, n: u64| {
            if let Some(counter) = counter {
                counter.fetch_add(n, Ordering::Relaxed);
            }
        };
        add(self.kinds.get(kind as usize), statements);
        match kind {
            Kind::Insert => add(self.documents.first(), documents),
            Kind::Update => add(self.documents.get(1), documents),
            Kind::Delete => add(self.documents.get(2), documents),
            Kind::Query | Kind::GetMore | Kind::Command => {}
        }
    }

    /// The counters of a collection; those of nothing in particular if there are too many.
    pub(super) fn usage_of(&self, namespace: &str) -> Arc<Usage> {
        let mut all = locked(&self.usage);
        if let Some(usage) = all.get(namespace) {
            return Arc::clone(usage);
        }
        let usage = Arc::<Usage>::default();
        if all.len() < COUNTED_COLLECTIONS {
            all.insert(namespace.to_owned(), Arc::clone(&usage));
        }
        usage
    }

    /// The counters of a collection, if it has been used.
    pub(super) fn usage(&self, namespace: &str) -> Option<Arc<Usage>> {
        locked(&self.usage).get(namespace).cloned()
    }

    /// How many reads, writes and other operations there were, and the microseconds in them.
    pub(super) fn latencies(&self) -> RawDocumentBuf {
        self.total.latency_stats(false)
    }

    /// The counters of every collection that was used, by name.
    pub(super) fn top(&self) -> Vec<(String, RawDocumentBuf)> {
        let mut all: Vec<_> =
            locked(&self.usage).iter().map(|(name, usage)| (name.clone(), usage.top())).collect();
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        all
    }

    /// Forgets the counters of the collections of `database`, or of one of them.
    pub(super) fn forget(&self, database: &str, collection: Option<&str>) {
        let whole = collection.map(|collection| format!("{database}.{collection}"));
        locked(&self.usage).retain(|name, usage| {
            let gone = match &whole {
                Some(whole) => name == whole,
                None => name.split_once('.').is_some_and(|(own, _)| own == database),
            };
            if gone {
                usage.forgotten.store(true, Ordering::Relaxed);
            }
            !gone
        });
    }

    /// What was counted; `requests` of all kinds.
    pub(super) fn counts(&self, requests: i64) -> Counts {
        let get = |counter: &AtomicU64| signed(counter.load(Ordering::Relaxed));
        let [insert, query, update, delete, getmore, command] = self.kinds.each_ref().map(get);
        let [inserted, updated, deleted] = self.documents.each_ref().map(get);
        Counts { insert, query, update, delete, getmore, command, inserted, updated, deleted, requests }
    }
}
