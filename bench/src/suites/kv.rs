//! The key/value store compared with its peers, in one thread, without flushes.

use super::{MIN_ROUNDS, Scale};
use crate::Result;
use crate::comparison::{Candidate, Measurement, Unit, compare};
use crate::engines::{
    DurabilityClass, Engine, EntryFormat, KeyFormat, KeyValueStore, OpenRowStore, OpenStore, Scan, row_stores,
};
use crate::report::{Goals, Row, progress, rows};
use bench_common::Random;

pub(super) const ABOUT: &str = "One thread, everything in memory, no flush at commit. 8-byte keys are in random order, \
    8-byte counters are consecutive integers, 64-byte keys are paths; values have 100 bytes unless the row says \
    otherwise. Beginning and ending transactions is inside the timer. Loads go into new, empty stores, 10,000 entries \
    per commit. Every get and every entry of a scan goes into a checksum that has to agree; after a round of puts the \
    whole table does, outside the timer. To limit the running time, slower peers do not take part at a million keys, \
    and most combinations of key format, value size and table size are left out.";

const FAST: &[Engine] = &[Engine::TreeDb, Engine::Lmdb, Engine::Mdbx, Engine::Redb];
const ALL: &[Engine] = &[
    Engine::TreeDb,
    Engine::Lmdb,
    Engine::Mdbx,
    Engine::Redb,
    Engine::Fjall,
    Engine::RocksDb,
    Engine::Sqlite,
];
/// Includes the second configuration of libmdbx, which is better for some writes.
const WRITERS: &[Engine] = &[Engine::TreeDb, Engine::Lmdb, Engine::Mdbx, Engine::MdbxNoMap, Engine::Redb];

const CLASS: DurabilityClass = DurabilityClass::Relaxed;
/// Entries per commit in loads and large updates.
const BATCH: usize = 10_000;

const GET_SMALL: Goals<'_> = &[("LMDB", 3.33), ("libmdbx", 3.33), ("RocksDB", 3.0)];
const GET: Goals<'_> = &[("LMDB", 2.0), ("libmdbx", 2.0), ("RocksDB", 3.0)];
const GET_MANY: Goals<'_> = &[("LMDB", 3.33)];
const SCAN: Goals<'_> = &[("LMDB", 1.5)];
const SNAPSHOT: Goals<'_> = &[("LMDB", 10.0)];
const SEQUENTIAL: Goals<'_> = &[("LMDB", 1.43)];
const SORTED: Goals<'_> = &[("LMDB", 1.67)];
const RANDOM: Goals<'_> = &[("LMDB", 1.54)];
const UPDATE: Goals<'_> = &[("LMDB", 1.43), ("libmdbx", 1.0), ("libmdbx, no map", 1.0)];
const SINGLE: Goals<'_> = &[("LMDB", 5.0), ("libmdbx", 1.0)];
const BY_ROW: Goals<'_> = &[("LMDB", 3.33)];
const NO_GOAL: Goals<'_> = &[];

/// The number and format of a table's entries.
#[derive(Clone, Copy)]
struct TableShape {
    size: u64,
    format: EntryFormat,
}

impl TableShape {
    fn label(self) -> String {
        let size = match self.size {
            n if n % 1_000_000 == 0 => format!("{}M", n / 1_000_000),
            n => format!("{}k", n / 1000),
        };
        let value = match self.format.value {
            100 => String::new(),
            n => format!(", values of {n}"),
        };
        format!("{size} {}{value}", self.format.keys_label())
    }
}

const fn shape(size: u64, keys: KeyFormat, value: usize) -> TableShape {
    TableShape { size, format: EntryFormat { keys, value } }
}

/// Collects the rows of this suite.
struct Table {
    scale: Scale,
    out: Vec<Row>,
}

/// A round's work on one store, which returns a checksum.
type Work<'a> = &'a dyn Fn(&dyn KeyValueStore, &[u64], u64) -> Result<u64>;
/// The numbers used in a round.
type Numbers<'a> = &'a dyn Fn(u64) -> Vec<u64>;

impl Table {
    fn add(&mut self, name: &str, goals: Goals<'_>, candidates: &mut [Candidate<'_>]) -> Result<()> {
        self.add_rounds(name, self.scale.rounds, goals, candidates)
    }

    fn add_rounds(
        &mut self,
        name: &str,
        rounds: u64,
        goals: Goals<'_>,
        candidates: &mut [Candidate<'_>],
    ) -> Result<()> {
        let samples = compare(Unit::NanosPerOp, rounds, candidates)?;
        let rows = rows(name, CLASS.label(), Unit::NanosPerOp, samples, goals);
        rows.iter().for_each(progress);
        self.out.extend(rows);
        Ok(())
    }

    /// Loads of `numbers` into new stores.
    fn load(
        &mut self,
        what: &str,
        shape: TableShape,
        peers: &[Engine],
        goals: Goals<'_>,
        numbers: Vec<u64>,
        sorted: bool,
    ) -> Result<()> {
        let name = format!("{what}, {}", shape.label());
        if !self.scale.wants(&name) {
            return Ok(());
        }
        eprintln!("kv: {name}");
        // Small loads are repeated, so that a measurement is long enough.
        let times = (self.scale.of(20_000) / numbers.len() as u64).max(1);
        let numbers = &numbers;
        let run = |peer: Engine| -> Result<Measurement> {
            let (mut spent, mut checksum) = (0, None);
            for _ in 0..times {
                let opened = peer.create(CLASS, shape.format)?;
                let store = &opened.store;
                let measured = Measurement::single_threaded(1, || {
                    if sorted { store.put_sorted(numbers, BATCH, 0) } else { store.put(numbers, BATCH, 0) }
                        .map(|()| 0)
                })?;
                spent += measured.spent;
                checksum = Some(store.scan(Scan::Verify)?);
            }
            Ok(Measurement { ops: times * numbers.len() as u64, spent, checksum })
        };
        let mut candidates: Vec<Candidate<'_>> = peers
            .iter()
            .filter(|peer| peer.is_available())
            .map(|&peer| Candidate { name: peer.name(), run: Box::new(move |_| run(peer)) })
            .collect();
        // Loads of a million entries take long.
        let rounds =
            if numbers.len() < 1_000_000 { self.scale.rounds } else { self.scale.rounds.min(MIN_ROUNDS) };
        self.add_rounds(&name, rounds, goals, &mut candidates)
    }

    /// Compares `work` on every store with the round's numbers. After writes, the whole table goes into the checksum,
    /// outside the timer.
    fn work(
        &mut self,
        what: &str,
        on: &mut Loaded<'_>,
        goals: Goals<'_>,
        numbers: Numbers<'_>,
        work: Work<'_>,
        writes: bool,
    ) -> Result<()> {
        let name = format!("{what}, {}", on.shape.label());
        if !self.scale.wants(&name) {
            return Ok(());
        }
        eprintln!("kv: {name}");
        let stores = on.stores()?;
        let run = |store: &dyn KeyValueStore, round| -> Result<Measurement> {
            let numbers = numbers(round);
            let measured =
                Measurement::single_threaded(numbers.len() as u64, || work(store, &numbers, round))?;
            if !writes {
                return Ok(measured);
            }
            Ok(Measurement { checksum: Some(store.scan(Scan::Verify)?), ..measured })
        };
        let mut candidates: Vec<Candidate<'_>> = stores
            .iter()
            .map(|o| Candidate { name: o.name, run: Box::new(move |round| run(o.store.as_ref(), round)) })
            .collect();
        self.add(&name, goals, &mut candidates)?;
        if writes {
            stores.iter().try_for_each(|opened| opened.store.checkpoint())?;
        }
        Ok(())
    }
}

/// Stores that are filled with the numbers below the shape's size when they are first used.
struct Loaded<'p> {
    shape: TableShape,
    peers: &'p [Engine],
    stores: Vec<OpenStore>,
}

impl<'p> Loaded<'p> {
    fn new(shape: TableShape, peers: &'p [Engine]) -> Loaded<'p> {
        Loaded { shape, peers, stores: Vec::new() }
    }

    fn stores(&mut self) -> Result<&[OpenStore]> {
        if self.stores.is_empty() {
            self.stores = Engine::create_all(self.peers, CLASS, self.shape.format)?;
            let numbers = shuffled(self.shape.size);
            for opened in &self.stores {
                opened.store.put(&numbers, BATCH, 0)?;
                opened.store.checkpoint()?;
            }
        }
        Ok(&self.stores)
    }
}

/// The numbers below `count` in random order, whatever the key format.
fn shuffled(count: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..count).collect();
    let mut random = Random::new(count, u64::MAX);
    for i in (1..numbers.len()).rev() {
        let other = random.next().unwrap_or_default() % (i as u64 + 1);
        numbers.swap(i, other as usize);
    }
    numbers
}

fn loads(table: &mut Table, shape: TableShape, peers: &[Engine]) -> Result<()> {
    let counters = TableShape { format: EntryFormat { keys: KeyFormat::Dense, ..shape.format }, ..shape };
    // Ordered loads use sorted 64-byte keys, but counters instead of 8-byte hashes: the common case in practice.
    let ordered = if shape.format.keys == KeyFormat::Long { shape } else { counters };
    let sorted = ordered.format.sorted(shape.size);
    table.load("sequential put", ordered, peers, SEQUENTIAL, sorted.clone(), false)?;
    table.load("sequential put by cursor", ordered, peers, SORTED, sorted, true)?;
    table.load("random put", shape, peers, RANDOM, shuffled(shape.size), false)
}

fn reads(table: &mut Table, on: &mut Loaded<'_>, ops: u64) -> Result<()> {
    let (size, format) = (on.shape.size, on.shape.format);
    let random = |round: u64| Random::new(round + 1, size).take(ops as usize).collect::<Vec<u64>>();
    // Small tables are scanned several times per round.
    let scans = (ops / size).max(1);
    let all = |_| format.sorted(size).repeat(scans as usize);
    let scan_all = |store: &dyn KeyValueStore, order| (0..scans).try_fold(0, |_, _| store.scan(order));
    let get = if size < 100_000 { GET_SMALL } else { GET };
    let get_many = if size < 1_000_000 { NO_GOAL } else { GET_MANY };
    let scan = if size < 100_000 { NO_GOAL } else { SCAN };
    table.work("random get, 1,000 per snapshot", on, get, &random, &|s, n, _| s.get(n, 1000), false)?;
    table.work("random get, each in its own snapshot", on, get, &random, &|s, n, _| s.get(n, 1), false)?;
    table.work("random get, 16 per call", on, get_many, &random, &|s, n, _| s.get_many(n, 16), false)?;
    table.work("random seek", on, NO_GOAL, &random, &|s, n, _| s.seek(n), false)?;
    table.work("scan", on, scan, &all, &|s, _, _| scan_all(s, Scan::Forward), false)?;
    table.work("scan backward", on, scan, &all, &|s, _, _| scan_all(s, Scan::Backward), false)
}

fn writes(table: &mut Table, on: &mut Loaded<'_>, updates: u64, commits: u64) -> Result<()> {
    let size = on.shape.size;
    let random = |round: u64, ops: u64| Random::new(round + 1, size).take(ops as usize).collect::<Vec<u64>>();
    table.work(
        "random update, 10,000 per commit",
        on,
        UPDATE,
        &|round| random(round, updates),
        &|s, n, round| s.put(n, BATCH, round + 1).map(|()| 0),
        true,
    )?;
    table.work(
        "random update, 1 per commit",
        on,
        SINGLE,
        &|round| random(round, commits),
        &|s, n, round| s.put(n, 1, round + 1000).map(|()| 0),
        true,
    )
}

/// Rows under consecutive row numbers.
fn by_row_number(table: &mut Table, size: u64) -> Result<()> {
    let (format, scale) = (EntryFormat { keys: KeyFormat::Dense, value: 100 }, table.scale);
    let (appending, getting) =
        ("append of rows, 1M of 100 bytes", "random get by row number, 1M rows of 100 bytes");
    if scale.wants(appending) {
        eprintln!("kv: {appending}");
        let opened = row_stores(CLASS, format)?;
        let run = |store: &OpenRowStore, round: u64| {
            let append = || store.rows.append(round * size + 1, size, BATCH as u64).map(|()| 0);
            let measured = Measurement::single_threaded(size, append)?;
            let all: Vec<u64> = (1..=(round + 1) * size).collect();
            Ok(Measurement { checksum: Some(store.rows.get(&all)?), ..measured })
        };
        let stores = opened.iter();
        let mut candidates: Vec<Candidate<'_>> =
            stores.map(|o| Candidate { name: o.name, run: Box::new(move |round| run(o, round)) }).collect();
        table.add(appending, NO_GOAL, &mut candidates)?;
    }
    if scale.wants(getting) {
        eprintln!("kv: {getting}");
        let opened = row_stores(CLASS, format)?;
        opened.iter().try_for_each(|store| store.rows.append(1, size, BATCH as u64))?;
        let ops = scale.of(200_000);
        let run = |store: &OpenRowStore, round: u64| {
            let numbers: Vec<u64> = Random::new(round, size).map(|n| n + 1).take(ops as usize).collect();
            Measurement::single_threaded(ops, || store.rows.get(&numbers))
        };
        let stores = opened.iter();
        let mut candidates: Vec<Candidate<'_>> =
            stores.map(|o| Candidate { name: o.name, run: Box::new(move |round| run(o, round)) }).collect();
        table.add(getting, BY_ROW, &mut candidates)?;
    }
    Ok(())
}

pub(super) fn run(scale: Scale) -> Result<Vec<Row>> {
    let mut table = Table { scale, out: Vec::new() };
    let of = |shape: TableShape| TableShape { size: scale.of(shape.size), ..shape };
    for (shape, loaders, stores) in [
        (shape(10_000, KeyFormat::Spread, 100), WRITERS, ALL),
        (shape(100_000, KeyFormat::Spread, 100), WRITERS, ALL),
        (shape(1_000_000, KeyFormat::Spread, 100), WRITERS, FAST),
        (shape(100_000, KeyFormat::Long, 100), WRITERS, ALL),
        (shape(1_000_000, KeyFormat::Long, 100), WRITERS, FAST),
        (shape(100_000, KeyFormat::Spread, 1000), WRITERS, ALL),
        (shape(10_000, KeyFormat::Spread, 10_000), WRITERS, ALL),
    ] {
        let shape = of(shape);
        let large = shape.format.value > 1000;
        loads(&mut table, shape, loaders)?;
        let mut on = Loaded::new(shape, stores);
        reads(&mut table, &mut on, scale.of(200_000))?;
        drop(on);
        let mut on = Loaded::new(shape, loaders);
        writes(&mut table, &mut on, scale.of(if large { 20_000 } else { 100_000 }), scale.of(20_000))?;
    }
    let mut on = Loaded::new(of(shape(10_000, KeyFormat::Spread, 100)), FAST);
    let none = |_| vec![0; scale.of(500_000) as usize];
    let begin: Work<'_> = &|s, n, _| s.snapshots(n.len() as u64).map(|()| 0);
    table.work("begin and end a snapshot", &mut on, SNAPSHOT, &none, begin, false)?;
    by_row_number(&mut table, scale.of(1_000_000))?;
    Ok(table.out)
}
