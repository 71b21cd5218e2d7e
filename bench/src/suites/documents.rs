//! Documents with two indexes: inserts, finds by `_id` and by index, updates, deletes, and file sizes.

use bench_common::{CITIES, IdPattern, Random};

use super::{Scale, concurrent_reads, packages};
use crate::Result;
use crate::comparison::{Candidate, Measurement, Samples, Unit, compare};
#[cfg(feature = "peers")]
use crate::engines::PoloDbDocuments;
use crate::engines::{
    DocumentStore, DurabilityClass, Layout, LmdbDocuments, SqliteDocuments, TreeDbDocuments, is_chosen,
};
use crate::report::{Goals, Row, progress, rows};

pub(super) const ABOUT: &str = "Documents of about 112 bytes as JSON, with a unique index on `email` and an index on \
    `city`, in one thread unless the row says otherwise, everything in memory. Every engine encodes documents from \
    fields and decodes them to fields inside the timer. Checksums over all fields that were read have to agree; after \
    inserts and deletes, the number of documents in total and in one city, counted through the index, has to agree. \
    File sizes are allocated bytes after a checkpoint; TreeDB's include the preallocated segments of its command log. \
    Latency percentiles are of finds timed one by one. Concurrent readers and writers are threads that share one \
    TreeDB or LMDB; rows that compare TreeDB with itself use the same store in the same rounds, and on a machine with \
    two cores two readers and a writer have to share them. PoloDB flushes at every commit and has no other mode, so it \
    takes part in the reads and in the writes that are flushed at commit, in a process of its own; its `$group` cannot \
    group by a field, so there is no row for that. Debian packages are those that `apt-cache dumpavail` lists, about \
    800 bytes each, with integer ids and all their fields, all strings except two sizes; there is a unique index on \
    name and version and an index on the section. SQLite has a column for every field that occurs in any package.";

/// Documents per transaction in bulk inserts.
const BATCH: u64 = 16_000;
/// The table size for latencies, concurrent reads and file sizes.
const MEDIUM: &str = "100k documents";

pub(super) const INSERT: Goals<'_> = &[("SQLite, columns", 3.0)];
pub(super) const BY_ID: Goals<'_> = &[("SQLite, columns", 4.0), ("LMDB", 0.5)];
pub(super) const BY_UNIQUE: Goals<'_> = &[("SQLite, columns", 4.0)];
pub(super) const BY_OTHER: Goals<'_> = &[("SQLite, columns", 5.0)];
const UPDATE: Goals<'_> = &[("SQLite, JSON", 3.0)];
pub(super) const NONE: Goals<'_> = &[];

/// An engine of this suite.
struct DocumentEngine {
    name: &'static str,
    open: fn(DurabilityClass, IdPattern) -> Result<Box<dyn DocumentStore>>,
    /// Whether it can commit without a flush.
    relaxed: bool,
}

/// All engines, TreeDB first.
const ENGINES: &[DocumentEngine] = &[
    DocumentEngine {
        name: "TreeDB",
        open: |class, ids| Ok(Box::new(TreeDbDocuments::new(class, ids)?)),
        relaxed: true,
    },
    DocumentEngine {
        name: "LMDB",
        open: |class, ids| Ok(Box::new(LmdbDocuments::new(class, ids)?)),
        relaxed: true,
    },
    DocumentEngine {
        name: "SQLite, columns",
        open: |class, ids| Ok(Box::new(SqliteDocuments::new(class, Layout::Columns, ids)?)),
        relaxed: true,
    },
    DocumentEngine {
        name: "SQLite, JSON",
        open: |class, ids| Ok(Box::new(SqliteDocuments::new(class, Layout::Json, ids)?)),
        relaxed: true,
    },
    #[cfg(feature = "peers")]
    DocumentEngine {
        name: "PoloDB",
        open: |_, ids| Ok(Box::new(PoloDbDocuments::new(ids)?)),
        relaxed: false,
    },
];

/// The engines that `BENCH_PEERS` selects and that can give this guarantee; all of the selected ones for reads.
fn engines(guarantee: Option<DurabilityClass>) -> impl Iterator<Item = &'static DocumentEngine> {
    ENGINES.iter().filter(move |engine| {
        (engine.relaxed || guarantee != Some(DurabilityClass::Relaxed))
            && (engine.name == "TreeDB" || is_chosen(engine.name))
    })
}

/// The number of documents in total and in one city, as one checksum.
fn counts_checksum(store: &dyn DocumentStore) -> Result<u64> {
    let (total, in_city) = store.counts()?;
    Ok(total << 32 | in_city)
}

/// A bulk insert into an empty store.
struct Insert {
    what: &'static str,
    class: DurabilityClass,
    count: u64,
    batch: u64,
    shuffled: bool,
    ids: IdPattern,
    goals: Goals<'static>,
}

const IN_ORDER: Insert = Insert {
    what: "insert 100k, two indexes, ids in order, 16,000 per commit",
    class: DurabilityClass::Relaxed,
    count: 100_000,
    batch: BATCH,
    shuffled: false,
    ids: IdPattern::Sequential,
    goals: INSERT,
};

const INSERTS: &[Insert] = &[
    IN_ORDER,
    Insert { what: "insert 100k, two indexes, ids in order, 1,000 per commit", batch: 1000, ..IN_ORDER },
    Insert { what: "insert 100k, two indexes, ids shuffled, 16,000 per commit", shuffled: true, ..IN_ORDER },
    Insert {
        what: "insert 100k, two indexes, random ids and values, 16,000 per commit",
        ids: IdPattern::Random,
        ..IN_ORDER
    },
    Insert {
        what: "insert 100k, two indexes, ids in order, 1,000 per commit, flushed",
        class: DurabilityClass::Durable,
        batch: 1000,
        ..IN_ORDER
    },
    Insert {
        what: "insert 20k, two indexes, 1 per commit",
        count: 20_000,
        batch: 1,
        goals: NONE,
        ..IN_ORDER
    },
    Insert {
        what: "insert 500, two indexes, 1 per commit",
        class: DurabilityClass::Durable,
        count: 500,
        batch: 1,
        ..IN_ORDER
    },
];

/// Every engine inserts into a new, empty store in each round.
fn run_insert(scale: Scale, insert: &Insert) -> Result<Vec<Samples>> {
    let &Insert { class, batch, shuffled, ids, .. } = insert;
    let count = scale.of(insert.count);
    // 7919 is a prime that divides none of the counts, so that each number occurs once.
    let number = move |i: u64| if shuffled { i.wrapping_mul(7919) % count } else { i };
    let mut candidates: Vec<Candidate<'_>> = engines(Some(class))
        .map(|engine| {
            let run = move |_| {
                let store = (engine.open)(class, ids)?;
                let work = || store.insert(&mut (0..count).map(number), count, batch).map(|()| 0);
                let measured = Measurement::wall_clock(count, work)?;
                Ok(Measurement { checksum: Some(counts_checksum(store.as_ref())?), ..measured })
            };
            Candidate { name: engine.name, run: Box::new(run) }
        })
        .collect();
    compare(Unit::OpsPerSecond, scale.rounds, &mut candidates)
}

/// Stores of `size` documents.
fn open_filled(
    guarantee: Option<DurabilityClass>,
    ids: IdPattern,
    size: u64,
) -> Result<Vec<Box<dyn DocumentStore>>> {
    let class = guarantee.unwrap_or(DurabilityClass::Relaxed);
    let stores: Vec<_> = engines(guarantee).map(|engine| (engine.open)(class, ids)).collect::<Result<_>>()?;
    for store in &stores {
        store.insert(&mut (0..size), size, BATCH)?;
        store.checkpoint()?;
    }
    Ok(stores)
}

/// The stores that take part in relaxed writes.
fn relaxed(stores: &[Box<dyn DocumentStore>]) -> Vec<&dyn DocumentStore> {
    let can_relax = |name| engines(Some(DurabilityClass::Relaxed)).any(|engine| engine.name == name);
    stores.iter().map(|store| store.as_ref()).filter(|store| can_relax(store.name())).collect()
}

/// Compares what `run` does with each store in each round.
fn compare_stores<'s>(
    unit: Unit,
    rounds: u64,
    stores: impl Iterator<Item = &'s dyn DocumentStore>,
    run: impl Fn(&dyn DocumentStore, u64) -> Result<Measurement>,
) -> Result<Vec<Samples>> {
    let run = &run;
    let mut candidates: Vec<Candidate<'_>> = stores
        .map(|store| Candidate { name: store.name(), run: Box::new(move |round| run(store, round)) })
        .collect();
    compare(unit, rounds, &mut candidates)
}

/// Sets a field of random documents and reads some of them back, outside the timer.
fn update(store: &dyn DocumentStore, round: u64, count: u64, size: u64) -> Result<Measurement> {
    let order = || Random::new(round + 100, size);
    let measured = Measurement::wall_clock(count, || store.update(&mut order(), count).map(|()| 0))?;
    Ok(Measurement { checksum: Some(store.find_by_id(&mut order(), count.min(500))?), ..measured })
}

/// Deletes the last documents that earlier rounds have left.
fn delete(store: &dyn DocumentStore, round: u64, count: u64, size: u64) -> Result<Measurement> {
    let end = size.saturating_sub(round * count);
    let mut order = end.saturating_sub(count)..end;
    let measured = Measurement::wall_clock(count, || store.delete(&mut order, count).map(|()| 0))?;
    Ok(Measurement { checksum: Some(counts_checksum(store)?), ..measured })
}

/// Collects the rows of this suite.
struct Table {
    scale: Scale,
    rows: Vec<Row>,
}

impl Table {
    fn add(
        &mut self,
        workload: &str,
        class: DurabilityClass,
        unit: Unit,
        samples: Vec<Samples>,
        goals: Goals<'_>,
    ) {
        let new = rows(workload, class.label(), unit, samples, goals);
        new.iter().for_each(progress);
        self.rows.extend(new);
    }

    /// Finds, updates and, for the medium size, everything else, over `size` documents.
    fn reads(&mut self, size: u64, label: &str, ids: IdPattern) -> Result<()> {
        let (scale, class, unit) = (self.scale, DurabilityClass::Relaxed, Unit::NanosPerOp);
        if !scale.wants(label) {
            return Ok(());
        }
        eprintln!("documents: reads of {label}");
        let size = scale.of(size);
        let stores = open_filled(None, ids, size)?;
        let all = || stores.iter().map(|store| store.as_ref());
        let gets = scale.of(50_000);
        let samples = compare_stores(unit, scale.rounds, all(), |store, round| {
            let mut order = Random::new(round + 1, size);
            Measurement::wall_clock(gets, || store.find_by_id(&mut order, gets))
        })?;
        self.add(&format!("find a document by `_id`, {label}"), class, unit, samples, BY_ID);
        let samples = compare_stores(unit, scale.rounds, all(), |store, round| {
            let mut order = Random::new(round + 1, size);
            Measurement::wall_clock(gets, || store.find_by_email(&mut order, gets))
        })?;
        self.add(&format!("find a document by unique index, {label}"), class, unit, samples, BY_UNIQUE);
        let in_city = size / CITIES;
        let samples = compare_stores(unit, scale.rounds, all(), |store, round| {
            Measurement::wall_clock(in_city, || store.find_by_city(round))
        })?;
        let workload = format!("find the documents of one of {CITIES} cities by its index, {label}");
        self.add(&workload, class, unit, samples, BY_OTHER);
        let relaxed = relaxed(&stores);
        let count = scale.of(20_000);
        let samples = compare_stores(unit, scale.rounds, relaxed.iter().copied(), |store, round| {
            update(store, round, count, size)
        })?;
        let workload = format!("update a field of a document found by `_id`, 1 per commit, {label}");
        self.add(&workload, class, unit, samples, UPDATE);
        if label != MEDIUM {
            return Ok(());
        }
        // TreeDB and LMDB, whose stores several threads may use at once.
        let concurrent: Vec<&dyn DocumentStore> =
            relaxed.iter().copied().filter(|store| ["TreeDB", "LMDB"].contains(&store.name())).collect();
        self.rows.extend(concurrent_reads::percentiles(scale, &concurrent, size, label)?);
        self.rows.extend(concurrent_reads::with_writer(scale, &concurrent, size, label)?);
        let unit = Unit::BytesPerDocument;
        let samples = compare_stores(unit, scale.rounds, all(), |store, _| {
            store.checkpoint()?;
            Ok(Measurement {
                ops: size,
                spent: store.bytes_on_disk()?,
                checksum: Some(counts_checksum(store)?),
            })
        })?;
        self.add("file size, 100k documents with two indexes", class, unit, samples, NONE);
        let count = scale.of(5000);
        let unit = Unit::NanosPerOp;
        let samples = compare_stores(unit, scale.rounds, relaxed.iter().copied(), |store, round| {
            delete(store, round, count, size)
        })?;
        self.add(&format!("delete a document by `_id`, 1 per commit, {label}"), class, unit, samples, NONE);
        Ok(())
    }

    /// Updates and deletes that are flushed at commit.
    fn flushed_writes(&mut self, size: u64, label: &str) -> Result<()> {
        let (scale, class, unit) = (self.scale, DurabilityClass::Durable, Unit::NanosPerOp);
        let names = ["update a field of a document found by `_id`", "delete a document by `_id`"]
            .map(|what| format!("{what}, 1 per commit, flushed, {label}"));
        if !names.iter().any(|name| scale.wants(name)) {
            return Ok(());
        }
        eprintln!("documents: flushed writes to {label}");
        let size = scale.of(size);
        let stores = open_filled(Some(class), IdPattern::Sequential, size)?;
        let count = scale.of(500);
        for (name, work) in names.iter().zip([update, delete]) {
            let stores = stores.iter().map(|store| store.as_ref());
            let samples =
                compare_stores(unit, scale.rounds, stores, |store, round| work(store, round, count, size))?;
            self.add(name, class, unit, samples, NONE);
        }
        Ok(())
    }
}

pub(super) fn run(scale: Scale) -> Result<Vec<Row>> {
    let mut table = Table { scale, rows: Vec::new() };
    for insert in INSERTS.iter().filter(|insert| scale.wants(insert.what)) {
        eprintln!("documents: {}", insert.what);
        let samples = run_insert(scale, insert)?;
        table.add(insert.what, insert.class, Unit::OpsPerSecond, samples, insert.goals);
    }
    table.reads(10_000, "10k documents", IdPattern::Sequential)?;
    table.reads(100_000, MEDIUM, IdPattern::Sequential)?;
    table.reads(1_000_000, "1M documents", IdPattern::Sequential)?;
    table.reads(1_000_000, "1M documents with random ids and values", IdPattern::Random)?;
    table.flushed_writes(100_000, MEDIUM)?;
    table.rows.extend(packages::run(scale)?);
    Ok(table.rows)
}
