//! What runs, and what has run: the operation of each connection, counters by kind and by collection, and a log of slow ones.
//!
//! | | |
//! |---|---|
//! | [`Slot`] | the operation that a connection runs, for `currentOp` and `killOp`; part of the connection's session |
//! | [`Running`] | entered where a command begins, finished where it ends |
//! | [`Operations`] | the connections, the counters of `serverStatus` and `top`, the settings and the entries of the profiler |
//!
//! A command costs two short locks that nobody else takes unless somebody looks, a copy of its first [`SHOWN_BYTES`], and some
//! relaxed counters.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use bson::raw::cstr;
use bson::{DateTime, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use treedb_collections::Namespace;
use treedb_query::query::PlanSummary;
use treedb_query::query::interrupt::Interrupt;

use super::args::{Arg, number};
use super::commands::Request;
use super::connection::Session;
use super::cursors::Deadline;
use super::error::CommandError;

/// Longer commands are shown by their first field and their length.
const SHOWN_BYTES: usize = 1024;

/// Bytes of a text that is shown: more than a namespace can have.
const SHOWN_TEXT: usize = 256;
/// Collections that are counted by name; those that are used first.
const COUNTED_COLLECTIONS: usize = 10_000;
/// Entries of the profiler that are kept for each database.
pub(crate) const PROFILED: usize = 1_000;
/// Powers of two of microseconds in a histogram of latencies.
const BUCKETS: usize = 32;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is left half done when a holder panics: each change is one assignment or one insertion.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

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
    fn of(command: &str) -> Kind {
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
    fn name(self) -> &'static str {
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

/// The operation that a connection runs.
#[derive(Debug, Default)]
pub(crate) struct Slot(Mutex<Shown>);

#[derive(Debug, Default)]
struct Shown {
    running: Option<Info>,
    /// The collection of the last command, whose counters the next one probably needs too.
    usage: Option<(String, Arc<Usage>)>,
    /// The command that runs, or its beginning.
    command: Vec<u8>,
}

#[derive(Debug, Clone)]
struct Info {
    opid: i32,
    kind: Kind,
    name: &'static str,
    namespace: String,
    began: Instant,
    interrupt: Arc<Interrupt>,
}

/// Counters of a collection.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    kinds: [Timed; 6],
    /// Of reads, writes and commands.
    latencies: [Latencies; 3],
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

fn signed(n: u64) -> i64 {
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
    fn add(&self, kind: Kind, writes: bool, reads: bool, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if let Some(timed) = self.kinds.get(kind as usize) {
            timed.add(micros);
        }
        let which = if writes {
            1
        } else if reads {
            0
        } else {
            2
        };
        if let Some(latencies) = self.latencies.get(which) {
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
        use Kind::*;
        rawdoc! {
            "total": of(&[Insert, Query, Update, Delete, GetMore, Command]),
            "readLock": of(&[Query, GetMore, Command]),
            "writeLock": of(&[Insert, Update, Delete]),
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
        rawdoc! { "reads": of(0), "writes": of(1), "commands": of(2) }
    }
}

/// Which commands of a database the profiler keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Profiler {
    /// 0: none, 1: slow ones, 2: all.
    pub(crate) level: i32,
}

/// What runs and has run.
#[derive(Debug)]
pub(crate) struct Operations {
    connections: Mutex<HashMap<i32, Weak<Session>>>,
    next: AtomicI32,
    /// By [`Kind`].
    counters: [AtomicU64; 6],
    /// Documents inserted, updated and deleted.
    documents: [AtomicU64; 3],
    usage: Mutex<HashMap<String, Arc<Usage>>>,
    /// Of all commands.
    total: Usage,
    slow_millis: AtomicI64,
    /// Commands that were logged because they were slow.
    slow: AtomicU64,
    profilers: Mutex<HashMap<String, Profiler>>,
    /// Whether one of them is on.
    profiling: AtomicI32,
    profiled: Mutex<HashMap<String, VecDeque<RawDocumentBuf>>>,
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

/// A connection in the list, until it is dropped.
#[derive(Debug)]
pub(crate) struct Listed<'o> {
    operations: &'o Operations,
    id: i32,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        locked(&self.operations.connections).remove(&self.id);
    }
}

impl Operations {
    /// Nothing has run; commands that take longer than `slow` will be logged.
    pub(crate) fn new(slow: Duration) -> Self {
        Operations {
            connections: Mutex::default(),
            next: AtomicI32::new(1),
            counters: Default::default(),
            documents: Default::default(),
            usage: Mutex::default(),
            total: Usage::default(),
            slow_millis: AtomicI64::new(i64::try_from(slow.as_millis()).unwrap_or(i64::MAX)),
            slow: AtomicU64::new(0),
            profilers: Mutex::default(),
            profiling: AtomicI32::new(0),
            profiled: Mutex::default(),
        }
    }

    /// Lists a connection until the result is dropped.
    pub(crate) fn list(&self, session: &Arc<Session>) -> Listed<'_> {
        locked(&self.connections).insert(session.id, Arc::downgrade(session));
        Listed { operations: self, id: session.id }
    }

    /// Begins the operation that `request` is.
    ///
    /// # Errors
    /// Those of a `maxTimeMS` that is none.
    pub(crate) fn begin<'r>(&self, request: &'r Request<'r>) -> Result<Running<'r>, CommandError> {
        let name = request.command.name;
        let kind = Kind::of(name);
        let interrupt = Arc::new(Interrupt::new(time_limit(request)?).holding(request.message.reserved()));
        let opid = self.next.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        let (namespace, counted) = namespace(request);
        let mut shown = locked(&request.session.operation.0);
        let usage = counted.then(|| match &shown.usage {
            Some((last, usage)) if *last == namespace => Arc::clone(usage),
            // What no collection can be called is refused, and not counted.
            _ if Namespace::parse(&namespace).is_err() => Arc::default(),
            _ => {
                let usage = self.usage_of(&namespace);
                shown.usage = Some((namespace.clone(), Arc::clone(&usage)));
                usage
            }
        });
        shown.command.clear();
        let body = request.body().as_bytes();
        if body.len() <= SHOWN_BYTES {
            shown.command.extend_from_slice(body);
        } else {
            shown.command.extend_from_slice(beginning(request.body()).as_bytes());
        }
        let info = Info { opid, kind, name, namespace, began, interrupt: Arc::clone(&interrupt) };
        let before = shown.running.replace(info);
        drop(shown);
        let entered = Some(Arc::clone(&interrupt).enter());
        Ok(Running { request, began, usage, before, interrupt, entered })
    }

    /// The counters of a collection; those of nothing in particular if there are too many.
    fn usage_of(&self, namespace: &str) -> Arc<Usage> {
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
    pub(crate) fn usage(&self, namespace: &str) -> Option<Arc<Usage>> {
        locked(&self.usage).get(namespace).cloned()
    }

    /// The `opLatencies` of `serverStatus`: how many reads, writes and other commands there were, and the microseconds in them.
    pub(crate) fn latencies(&self) -> RawDocumentBuf {
        self.total.latency_stats(false)
    }

    /// The counters of every collection that was used, by name.
    pub(crate) fn top(&self) -> Vec<(String, RawDocumentBuf)> {
        let mut all: Vec<_> =
            locked(&self.usage).iter().map(|(name, usage)| (name.clone(), usage.top())).collect();
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        all
    }

    /// Forgets the counters of collections that are no more: those of `database`, with its profile, or of one of its collections.
    pub(crate) fn forget(&self, database: &str, collection: Option<&str>) {
        let mut usage = locked(&self.usage);
        match collection {
            Some(collection) => drop(usage.remove(&format!("{database}.{collection}"))),
            None => {
                usage.retain(|name, _| name.split_once('.').is_none_or(|(own, _)| own != database));
                drop(locked(&self.profiled).remove(database));
            }
        }
    }

    /// What was counted.
    pub(crate) fn counts(&self) -> Counts {
        let get = |counter: &AtomicU64| signed(counter.load(Ordering::Relaxed));
        let [insert, query, update, delete, getmore, command] = self.counters.each_ref().map(get);
        let [inserted, updated, deleted] = self.documents.each_ref().map(get);
        let requests = i64::from(self.next.load(Ordering::Relaxed)) - 1;
        Counts { insert, query, update, delete, getmore, command, inserted, updated, deleted, requests }
    }

    /// How many commands run, and how many of them read and write.
    pub(crate) fn active(&self) -> (i32, i32, i32) {
        let (mut all, mut writers) = (0, 0);
        for session in self.sessions() {
            if let Some(info) = &locked(&session.operation.0).running {
                all += 1;
                writers += i32::from(matches!(info.kind, Kind::Insert | Kind::Update | Kind::Delete));
            }
        }
        (all, all - writers, writers)
    }

    /// The connections.
    pub(crate) fn sessions(&self) -> Vec<Arc<Session>> {
        let mut all: Vec<_> = locked(&self.connections).values().filter_map(Weak::upgrade).collect();
        all.sort_by_key(|session| session.id);
        all
    }

    /// The operations, as `currentOp` shows them; also the connections that run none, if `idle`.
    pub(crate) fn current(&self, idle: bool, is_wanted: impl Fn(&Session) -> bool) -> Vec<RawDocumentBuf> {
        let sessions = self.sessions();
        sessions
            .iter()
            .filter(|session| is_wanted(session))
            .filter_map(|session| session.shown(idle))
            .collect()
    }

    /// The connection that runs the operation `opid`.
    pub(crate) fn who_runs(&self, opid: i32) -> Option<Arc<Session>> {
        let runs = |session: &Arc<Session>| {
            locked(&session.operation.0).running.as_ref().is_some_and(|info| info.opid == opid)
        };
        self.sessions().into_iter().find(runs)
    }

    /// Commands that were logged because they were slow.
    pub(crate) fn slow(&self) -> u64 {
        self.slow.load(Ordering::Relaxed)
    }

    /// Commands that take longer are logged.
    pub(crate) fn slow_millis(&self) -> i64 {
        self.slow_millis.load(Ordering::Relaxed)
    }

    /// Sets that.
    pub(crate) fn set_slow_millis(&self, millis: i64) {
        self.slow_millis.store(millis, Ordering::Relaxed);
    }

    /// The profiler of a database.
    pub(crate) fn profiler(&self, database: &str) -> Profiler {
        locked(&self.profilers).get(database).copied().unwrap_or(Profiler { level: 0 })
    }

    /// Sets it.
    pub(crate) fn set_profiler(&self, database: &str, profiler: Profiler) {
        let mut all = locked(&self.profilers);
        all.insert(database.to_owned(), profiler);
        all.retain(|_, profiler| profiler.level > 0);
        self.profiling.store(i32::try_from(all.len()).unwrap_or(i32::MAX), Ordering::Relaxed);
    }

    /// What the profiler of a database has kept, the oldest first.
    pub(crate) fn profiled(&self, database: &str) -> Vec<RawDocumentBuf> {
        locked(&self.profiled).get(database).into_iter().flatten().cloned().collect()
    }

    /// Logs and keeps a command that took `took` and found its rows by `plan`, if that is wanted.
    fn record(
        &self,
        request: &Request<'_>,
        took: Duration,
        plan: Option<&PlanSummary>,
        done: &Result<RawDocumentBuf, CommandError>,
    ) {
        let slow = i128::from(self.slow_millis()) <= i128::try_from(took.as_millis()).unwrap_or(i128::MAX);
        let profiling = self.profiling.load(Ordering::Relaxed) > 0;
        if !slow && !profiling {
            return;
        }
        let session = request.session;
        let (namespace, _) = namespace(request);
        let name = request.command.name;
        let millis = i64::try_from(took.as_millis()).unwrap_or(i64::MAX);
        let returned = done.as_ref().ok().and_then(|reply| documents_in(reply));
        let bytes = done.as_ref().map_or(0, |reply| reply.as_bytes().len());
        // Waiting is what these are for.
        let waits = matches!(name, "hello" | "isMaster") || name == "getMore" && returned == Some(0);
        if slow && !waits {
            self.slow.fetch_add(1, Ordering::Relaxed);
            tracing::info!(
                connection = session.id,
                command = name,
                namespace,
                millis,
                plan = plan.map(tracing::field::display),
                returned,
                bytes,
                code = done.as_ref().err().map(|error| error.code),
                "slow operation"
            );
        }
        let level = self.profiler(request.database).level;
        let own = request.collection_name().is_ok_and(|name| name == "system.profile") || name == "profile";
        if own || !(level == 2 || level == 1 && slow && !waits) {
            return;
        }
        let body = request.body();
        let command = if body.as_bytes().len() <= SHOWN_BYTES { body.to_owned() } else { beginning(body) };
        let mut entry = rawdoc! {
            "op": Kind::of(name).name(),
            "ns": namespace,
            "command": without_credentials(name, command),
        };
        if let Some(returned) = returned {
            entry.append(cstr!("nreturned"), returned);
        }
        if let Ok(reply) = done {
            for (field, shown) in [("n", cstr!("n")), ("nModified", cstr!("nModified"))] {
                if let Ok(Some(value)) = reply.get(field) {
                    entry.append(shown, value);
                }
            }
        }
        entry.append(cstr!("responseLength"), i32::try_from(bytes).unwrap_or(i32::MAX));
        entry.append(cstr!("millis"), millis);
        if let Some(plan) = plan {
            entry.append(cstr!("planSummary"), plan.to_string());
        }
        if let Err(error) = done {
            entry.append(cstr!("ok"), 0.0);
            entry.append(cstr!("errMsg"), cut(&error.message));
            entry.append(cstr!("errName"), &*error.name);
            entry.append(cstr!("errCode"), error.code);
        }
        entry.append(cstr!("ts"), DateTime::now());
        entry.append(cstr!("client"), session.identity.peer().to_string());
        entry.append(cstr!("appName"), session.app_name().unwrap_or_default());
        let users = session.users();
        entry.append(cstr!("allUsers"), users);
        let mut all = locked(&self.profiled);
        let kept = all.entry(request.database.to_owned()).or_default();
        if kept.len() >= PROFILED {
            kept.pop_front();
        }
        kept.push_back(entry);
    }
}

impl Session {
    /// What `currentOp` shows of the connection; `None` if it runs nothing and is not wanted then.
    fn shown(&self, idle: bool) -> Option<RawDocumentBuf> {
        let (running, command) = {
            let shown = locked(&self.operation.0);
            (shown.running.clone(), shown.command.clone())
        };
        if running.is_none() && !idle {
            return None;
        }
        let mut found = rawdoc! {
            "type": "op",
            "host": super::commands::hostname(),
            "desc": format!("conn{}", self.id),
            "connectionId": self.id,
            "client": self.identity.peer().to_string(),
        };
        if let Some(name) = self.app_name() {
            found.append(cstr!("appName"), name);
        }
        if let Some(metadata) = self.metadata() {
            found.append(cstr!("clientMetadata"), metadata);
        }
        let users = self.users();
        if (&*users as &bson::RawArray).into_iter().next().is_some() {
            found.append(cstr!("effectiveUsers"), users);
        }
        found.append(cstr!("active"), running.is_some());
        found.append(cstr!("currentOpTime"), DateTime::now());
        let Some(Info { opid, kind, name, namespace, began, interrupt }) = running else {
            return Some(found);
        };
        let took = began.elapsed();
        found.append(cstr!("opid"), opid);
        found.append(cstr!("secs_running"), i64::try_from(took.as_secs()).unwrap_or(i64::MAX));
        found.append(cstr!("microsecs_running"), i64::try_from(took.as_micros()).unwrap_or(i64::MAX));
        found.append(cstr!("op"), kind.name());
        found.append(cstr!("ns"), namespace);
        let command = RawDocumentBuf::from_bytes(command).unwrap_or_default();
        if let Ok(Some(lsid)) = command.get("lsid") {
            found.append(cstr!("lsid"), lsid);
        }
        found.append(cstr!("command"), without_credentials(name, command));
        if let Some(plan) = interrupt.plan() {
            found.append(cstr!("planSummary"), plan.to_string());
        }
        found.append(cstr!("numYields"), 0);
        if interrupt.is_killed() {
            found.append(cstr!("killPending"), true);
        }
        Some(found)
    }

    /// Tells the operation of this number to stop, if the connection runs it.
    pub(crate) fn kill(&self, opid: i32) {
        if let Some(info) = locked(&self.operation.0).running.as_ref().filter(|info| info.opid == opid) {
            info.interrupt.kill();
        }
    }

    /// Tells whatever the connection runs to stop.
    pub(crate) fn kill_running(&self) {
        if let Some(info) = &locked(&self.operation.0).running {
            info.interrupt.kill();
        }
    }

    fn users(&self) -> RawArrayBuf {
        let mut users = RawArrayBuf::new();
        if let Some(user) = self.identity.user() {
            users.push(rawdoc! { "user": user.name.as_str(), "db": user.database.as_str() });
        }
        users
    }
}

/// A command that runs, until it is finished or dropped.
pub(crate) struct Running<'r> {
    request: &'r Request<'r>,
    began: Instant,
    usage: Option<Arc<Usage>>,
    /// What the connection ran already: a command within a command.
    before: Option<Info>,
    interrupt: Arc<Interrupt>,
    entered: Option<treedb_query::query::interrupt::Entered>,
}

impl Running<'_> {
    /// Counts and logs what came of it.
    pub(crate) fn finish(self, done: &Result<RawDocumentBuf, CommandError>) {
        let took = self.began.elapsed();
        let request = self.request;
        let operations = &request.context.operations;
        let (name, kind) = (request.command.name, Kind::of(request.command.name));
        let add = |counter: Option<&AtomicU64>, n: u64| {
            if let Some(counter) = counter {
                counter.fetch_add(n, Ordering::Relaxed);
            }
        };
        let statements = match kind {
            Kind::Insert => request.statement_count("documents"),
            Kind::Update => request.statement_count("updates"),
            Kind::Delete => request.statement_count("deletes"),
            _ => 1,
        };
        add(operations.counters.get(kind as usize), statements);
        if let Ok(reply) = done {
            let field =
                |name: &str| reply.get(name).ok().flatten().and_then(number).map_or(0, |n| n.max(0.0) as u64);
            match kind {
                Kind::Insert => add(operations.documents.first(), field("n")),
                Kind::Update => add(operations.documents.get(1), field("nModified")),
                Kind::Delete => add(operations.documents.get(2), field("n")),
                _ => {}
            }
        }
        let writes = matches!(kind, Kind::Insert | Kind::Update | Kind::Delete)
            || matches!(name, "findAndModify" | "bulkWrite");
        let reads =
            matches!(kind, Kind::Query | Kind::GetMore) || matches!(name, "aggregate" | "count" | "distinct");
        for usage in self.usage.as_deref().into_iter().chain([&operations.total]) {
            usage.add(kind, writes, reads, took);
        }
        operations.record(request, took, self.interrupt.plan(), done);
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        drop(self.entered.take());
        let before = self.before.take();
        locked(&self.request.session.operation.0).running = before;
    }
}

/// When a command has to end. Cursors have their own limit, which counts from batch to batch.
fn time_limit(request: &Request<'_>) -> Result<Option<Instant>, CommandError> {
    if request.command.name == "getMore" {
        return Ok(None);
    }
    match request.fields.max_time {
        Some(limit) => {
            let limit = Arg::new(request.command.name, "maxTimeMS", limit);
            Ok(Deadline::after(limit.count()?).instant())
        }
        None => Ok(None),
    }
}

/// The namespace of a command, and whether it is a collection whose operations are counted.
fn namespace(request: &Request<'_>) -> (String, bool) {
    let name = match request.command.name {
        "getMore" => request.body().get("collection").ok().flatten(),
        _ => request.subject().ok(),
    };
    let about = request.is_about_a_collection();
    match name.and_then(|name| name.as_str()) {
        Some(collection) if about => {
            let name = format!("{}.{}", request.database, cut(collection));
            (name, !collection.starts_with("$cmd"))
        }
        _ => (format!("{}.$cmd", request.database), false),
    }
}

/// How many documents a reply has in its batch; `None` if it has no batch.
fn documents_in(reply: &RawDocument) -> Option<i64> {
    let cursor = reply.get_document("cursor").ok()?;
    let batch = cursor.get_array("firstBatch").or_else(|_| cursor.get_array("nextBatch")).ok()?;
    Some(i64::try_from(batch.into_iter().count()).unwrap_or(i64::MAX))
}

/// The beginning of a text, which is whole for all names that a collection can have.
fn cut(text: &str) -> &str {
    let end = text.char_indices().map(|(at, _)| at).find(|at| *at >= SHOWN_TEXT);
    end.and_then(|end| text.get(..end)).unwrap_or(text)
}

/// The beginning of a long command, as MongoDB shows it.
fn beginning(body: &RawDocument) -> RawDocumentBuf {
    let mut short = RawDocumentBuf::new();
    if let Some(Ok((name, value))) = body.iter().next()
        && matches!(value, RawBsonRef::String(_) | RawBsonRef::Int32(_) | RawBsonRef::Int64(_))
    {
        match value {
            RawBsonRef::String(text) => short.append(name, cut(text)),
            value => short.append(name, value),
        }
    }
    for kept in ["lsid", "$db", "comment"] {
        if let (Ok(Some(value)), Ok(name)) = (body.get(kept), bson::raw::CString::try_from(kept))
            && !matches!(value, RawBsonRef::String(text) if text.len() > SHOWN_TEXT)
            && !matches!(value, RawBsonRef::Document(document) if document.as_bytes().len() > SHOWN_TEXT)
            && !matches!(value, RawBsonRef::Array(array) if array.as_bytes().len() > SHOWN_TEXT)
        {
            short.append(name, value);
        }
    }
    short.append(cstr!("$truncated"), format!("{} bytes", body.as_bytes().len()));
    short
}

/// A command as others may see it.
fn without_credentials(name: &str, command: RawDocumentBuf) -> RawDocumentBuf {
    match name {
        "saslStart" | "saslContinue" | "createUser" | "updateUser" | "hello" | "isMaster" => {
            let mut short = RawDocumentBuf::new();
            if let Some(Ok((name, value))) = command.iter().next() {
                short.append(name, value);
            }
            short
        }
        _ => command,
    }
}
