//! What is read when `/metrics` is: the state of storage, cursors, transactions, indexes and the process, which others count.
//!
//! Names are those of Prometheus: seconds and bytes, counters end in `_total`, families begin with `treedb_` but for those of the
//! process, which are called as in every other program.

use std::fmt::Debug;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};
use treedb_collections::VectorMemory;
use treedb_storage::{Stats, Timings};

use crate::context::Context;
use crate::metrics::Door;

/// Indexes whose use is told, in the order of their names: each is a series that Prometheus has to keep.
const MOST_INDEXES: usize = 2_000;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Index {
    database: String,
    collection: String,
    index: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Version {
    version: &'static str,
}

/// The text that Prometheus reads. It may wait for the disk.
pub(crate) fn text(context: &Context) -> String {
    let mut text = String::new();
    let mut ours = Families(Registry::with_prefix("treedb"));
    ours.operations(context);
    ours.storage(&context.database.stats(), context.database.store().poisoned().is_some());
    ours.vectors(&context.database.vector_memory_use());
    ours.indexes(context);
    let mut of_process = Families(Registry::with_prefix("process"));
    of_process.process();
    // Writing into a String cannot fail.
    let _ = encode_registry(&mut text, context.metrics.registry());
    let _ = encode_registry(&mut text, &ours.0);
    let _ = encode_registry(&mut text, &of_process.0);
    let _ = encode_eof(&mut text);
    text
}

/// Families of this moment.
struct Families(Registry);

impl Families {
    fn count(&mut self, name: &str, help: &str, value: u64) {
        self.0.register(name, help, ConstCounter::new(value));
    }

    fn seconds(&mut self, name: &str, help: &str, time: Duration) {
        self.0.register_with_unit(name, help, Unit::Seconds, ConstCounter::new(time.as_secs_f64()));
    }

    /// How often and how long; `name` is what happened, `lasted` the time in it.
    fn timings(&mut self, name: &str, lasted: &str, help: &str, timings: Timings) {
        self.count(name, help, timings.count);
        self.seconds(lasted, &format!("Time in that: {help}"), timings.total);
        let longest = ConstGauge::new(timings.longest.as_secs_f64());
        self.0.register_with_unit(
            format!("{lasted}_longest"),
            format!("The longest of them: {help}"),
            Unit::Seconds,
            longest,
        );
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.0.register(name, help, ConstGauge::new(value));
    }

    fn bytes(&mut self, name: &str, help: &str, value: u64) {
        self.0.register_with_unit(name, help, Unit::Bytes, ConstGauge::new(value));
    }

    fn counts<L>(&mut self, name: &str, help: &str, values: impl IntoIterator<Item = (L, u64)>)
    where
        L: Clone + Eq + std::hash::Hash + EncodeLabelSet + Debug + Send + Sync + 'static,
    {
        let family = Family::<L, Counter>::default();
        for (labels, value) in values {
            family.get_or_create(&labels).inc_by(value);
        }
        self.0.register(name, help, family);
    }

    fn operations(&mut self, context: &Context) {
        self.0.register(
            "build_info",
            "What is running; always 1",
            [(Version { version: env!("CARGO_PKG_VERSION") }, 1_i64)].into_iter().fold(
                Family::<Version, Gauge>::default(),
                |family, (labels, value)| {
                    family.get_or_create(&labels).set(value);
                    family
                },
            ),
        );
        let (counts, native) = (context.operations.counts(), &context.metrics.native);
        let kinds = [
            ("insert", counts.insert),
            ("query", counts.query),
            ("update", counts.update),
            ("delete", counts.delete),
            ("getmore", counts.getmore),
            ("command", counts.command),
        ];
        let unsigned = |n: i64| u64::try_from(n).unwrap_or_default();
        self.counts(
            "operations",
            "Operations by kind, as opcounters has them: an insert of ten documents is ten",
            kinds.map(|(kind, n)| (Kind { kind }, unsigned(n))),
        );
        let documents = [
            ("inserted", unsigned(counts.inserted)),
            ("updated", unsigned(counts.updated)),
            ("deleted", unsigned(counts.deleted)),
            ("returned", context.cursors.returned() + native.returned.get()),
        ];
        self.counts(
            "documents",
            "Documents that were inserted, updated, deleted and returned",
            documents.map(|(kind, n)| (Kind { kind }, n)),
        );
        self.count("slow_operations", "Operations that were logged as slow", context.operations.slow());
        let by_door =
            |mongo, native| [("mongo", mongo), ("native", native)].map(|(door, n)| (Door { door }, n));
        self.counts(
            "cursors_opened",
            "Cursors that outlived their first batch",
            by_door(context.cursors.opened(), native.opened.get()),
        );
        self.counts(
            "cursors_timed_out",
            "Cursors closed because nobody used them",
            by_door(context.cursors.timed_out(), native.timed_out.get()),
        );
        self.gauge("transactions", "Transactions open now", context.sessions.open() as u64);
        let transactions = context.sessions.transactions();
        self.count("transactions_begun", "Transactions begun", transactions.begun);
        self.count("transactions_committed", "Transactions committed", transactions.committed);
        self.count(
            "transactions_aborted",
            "Transactions aborted: by their clients, by an error, or because they took too long",
            transactions.aborted,
        );
        self.count(
            "transactions_timed_out",
            "Transactions aborted because they took too long",
            transactions.timed_out,
        );
        self.gauge(
            "sessions",
            "Sessions with a transaction or a retryable write",
            context.sessions.known().len() as u64,
        );
        self.gauge("connections_limit", "Most connections at a time", context.limits.connections as u64);
        let (succeeded, failed) = context.access.authentications();
        self.count("authentications", "Log-ins that succeeded", succeeded);
        self.count("authentication_failures", "Log-ins that failed or had to wait", failed);
        self.gauge("backups", "Online backups running", context.backups.jobs().len() as u64);
        self.gauge("index_builds", "Index builds running", context.database.index_builds().len() as u64);
    }

    fn vectors(&mut self, memory: &VectorMemory) {
        self.bytes("vector_memory", "Copies of vector indexes in memory", memory.bytes);
        self.bytes(
            "vector_files",
            "Copies of vector indexes that are used in their files",
            memory.mapped_bytes,
        );
        self.bytes("vector_builds", "Vector indexes that are being built, in memory", memory.building_bytes);
        self.bytes("vector_memory_limit", "What both may take together", memory.limit_bytes);
        self.gauge("vector_indexes_in_memory", "Vector indexes with a copy, or a part of one", memory.images);
        self.gauge(
            "vector_indexes_not_in_memory",
            "Vector indexes that have been searched and have no copy, which takes several times as long",
            memory.without_image,
        );
    }

    fn storage(&mut self, stats: &Stats, poisoned: bool) {
        self.gauge(
            "storage_poisoned",
            "1 if a failed write or flush made the database refuse writes",
            u64::from(poisoned),
        );
        self.bytes("storage_page_file", "The page file", stats.page_file_bytes);
        let pages = &stats.pages;
        let family = Family::<State, Gauge>::default();
        for (state, n) in [("live", pages.live), ("free", pages.free), ("kept", pages.kept)] {
            family.get_or_create(&State { state }).set(i64::from(n));
        }
        self.0.register(
            "storage_pages",
            "Pages of the page file: of the current state, free, and dead ones that a snapshot or a checkpoint keeps",
            family,
        );
        self.bytes("storage_value_log", "The value log, where large values are", stats.values.bytes);
        self.bytes("storage_value_log_live", "Values in the value log that are not dead", stats.values.live);
        self.gauge("storage_snapshots", "Snapshots open now", stats.readers as u64);
        let behind = stats.oldest_reader.map_or(0, |oldest| stats.txn.saturating_sub(oldest));
        self.gauge(
            "storage_oldest_snapshot_age_commits",
            "Commits since the oldest snapshot was taken",
            behind,
        );
        self.count(
            "storage_commits",
            "Commits of the storage engine since the database was created",
            stats.commits(),
        );
        self.bytes("log", "Command log since the last checkpoint: what recovery would read", stats.log.bytes);
        self.gauge("log_segments", "Segments of the command log", stats.log.segments as u64);
        self.gauge(
            "log_unflushed_frames",
            "Frames of the command log that are not on disk yet",
            stats.log.last.0.saturating_sub(stats.log.durable.0),
        );
        self.timings(
            "log_flushes",
            "log_flush",
            "Writes and flushes of the command log, each for a group of commits",
            stats.log.flushes,
        );
        self.timings("checkpoints", "checkpoint", "Checkpoints", stats.checkpoints);
        self.gauge(
            "checkpoint_age_commits",
            "Commits since the last checkpoint",
            stats.commits_since_checkpoint(),
        );
        self.timings(
            "write_stalls",
            "write_stall",
            "Writes held up by checkpoints, pauses and log segments",
            stats.stalls,
        );
        if let Some(cache) = stats.cache {
            self.gauge("cache_pages", "Pages in the page cache", cache.present as u64);
            self.gauge("cache_pages_limit", "Most pages in the page cache", cache.budget as u64);
            self.count("cache_misses", "Pages read from the file", cache.misses);
            self.count("cache_evictions", "Pages that left the page cache", cache.evictions);
            self.count(
                "cache_early_writes",
                "Changed pages written before a checkpoint, to make room",
                cache.early_writes,
            );
        }
    }

    fn indexes(&mut self, context: &Context) {
        // A database that cannot be read has a figure for that, and the log says why.
        let uses = context.database.index_uses(MOST_INDEXES).unwrap_or_default();
        let uses = uses.into_iter().map(|(namespace, index, operations)| {
            let labels = Index {
                database: namespace.database().to_owned(),
                collection: namespace.collection().to_owned(),
                index,
            };
            (labels, operations)
        });
        self.counts("index_uses", "Operations that used an index, since the server started", uses);
    }

    /// What the system says of the process; nothing where it does not.
    fn process(&mut self) {
        let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return };
        // The name of the program, in parentheses, may have spaces. Times are in hundredths of seconds.
        let fields: Vec<u64> = stat.rsplit_once(')').map_or(Vec::new(), |(_, fields)| {
            fields.split_whitespace().skip(1).map(|field| field.parse().unwrap_or_default()).collect()
        });
        let field = |at: usize| fields.get(at).copied().unwrap_or_default();
        let ticks = rustix::param::clock_ticks_per_second().max(1);
        let cpu = ConstCounter::new((field(10) + field(11)) as f64 / ticks as f64);
        self.0.register_with_unit("cpu", "Processor time, of user and system", Unit::Seconds, cpu);
        self.bytes("resident_memory", "Resident memory", field(20) * rustix::param::page_size() as u64);
        self.bytes("virtual_memory", "Virtual memory", field(19));
        self.gauge("threads", "Threads", field(16));
        if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
            self.gauge("open_fds", "Open file descriptors", open.count() as u64);
        }
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        if let Some(limit) = limit {
            self.gauge("max_fds", "Most open file descriptors", limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Limits;
    use crate::context::tests::context;

    #[test]
    fn storage_indexes_and_process_are_told_with_names_and_units() {
        let (context, _dir) = context(Limits::default());
        let films = context.database.collection("shop.films").unwrap();
        films.insert_one(bson::rawdoc! { "_id": 1, "a": 1 }).unwrap();
        let definition = bson::rawdoc! { "path": "v", "numDimensions": 2, "similarity": "cosine" };
        films.create_index(treedb_collections::IndexSpec::vector(definition).name("near")).unwrap();
        films.insert_one(bson::rawdoc! { "_id": 2, "v": [1, 2] }).unwrap();
        let nearest = treedb_collections::VectorSearchRequest::new("near", vec![1.0, 2.0], 1);
        assert_eq!(films.vector_search(&nearest).unwrap().len(), 1);
        context.database.checkpoint().unwrap();
        assert!(films.find_one(bson::rawdoc! { "_id": 1 }).unwrap().is_some());
        let text = text(&context);
        let value = |series: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("{series} in\n{text}")).parse().unwrap()
        };
        assert_eq!(
            value("treedb_index_uses_total{database=\"shop\",collection=\"films\",index=\"_id_\"}"),
            1.0
        );
        assert!(value("treedb_checkpoints_total") >= 1.0 && value("treedb_checkpoint_seconds_total") > 0.0);
        assert!(value("treedb_log_flushes_total") >= 1.0 && value("treedb_log_flush_seconds_total") > 0.0);
        assert!(
            value("treedb_storage_page_file_bytes") > 0.0
                && value("treedb_storage_pages{state=\"live\"}") > 0.0
        );
        assert_eq!(value("treedb_storage_poisoned"), 0.0);
        assert!(
            value("treedb_vector_memory_bytes") > 300.0 && value("treedb_vector_indexes_in_memory") == 1.0
        );
        assert!(value("treedb_vector_memory_limit_bytes") >= f64::from(1 << 30));
        assert_eq!(value("treedb_vector_indexes_not_in_memory"), 0.0);
        assert!(value("process_resident_memory_bytes") > 1e6 && value("process_threads") >= 1.0);
        assert!(value("process_open_fds") > 3.0 && value("process_cpu_seconds_total") >= 0.0);
        assert!(text.ends_with("# EOF\n"));
    }
}
