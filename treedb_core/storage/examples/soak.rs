//! A soak test: a store under a mixed load for a long time, to find leaks, growth and errors.
//!
//! `cargo run --release -p treedb_storage --example soak -- [SECONDS] [SEED]`, or `make soak`
//!
//! In phases of some seconds each, a store in a temporary directory is opened (mapped and with a small cache in turn) and
//! used: one thread changes random keys, rows, pairs and large values in transactions of all sizes and durabilities, with
//! savepoints, ranges, checkpoints and compactions, and keeps a model of it in maps; two threads hold snapshots, for up to
//! a second each, and check that these do not change. At the end of each phase everything is compared with the model,
//! [`Store::check`] reads every page, and sizes are checked against their bounds. It ends with an error at the first
//! violation.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use treedb_storage::{Durability, Options, Reads, Store, Table, TableKind, WriteTxn};
use treedb_testing::Rng;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const PHASE: Duration = Duration::from_secs(15);
const KEYS: usize = 30_000;
const ROWS: usize = 10_000;
const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

/// What the store holds.
#[derive(Default, Clone)]
struct Model {
    keys: BTreeMap<Vec<u8>, Vec<u8>>,
    rows: BTreeMap<u64, Vec<u8>>,
    pairs: BTreeSet<(Vec<u8>, Vec<u8>)>,
}

struct Tables {
    keys: Table,
    rows: Table,
    pairs: Table,
    /// Twenty keys that always have the same value.
    stamps: Table,
}

impl Tables {
    fn open(store: &Store) -> Result<Tables> {
        let mut txn = store.begin_write()?;
        let tables = Tables {
            keys: txn.open_table("keys", TableKind::Ordered)?,
            rows: txn.open_table("rows", TableKind::Rows)?,
            pairs: txn.open_table("pairs", TableKind::Dup)?,
            stamps: txn.open_table("stamps", TableKind::Ordered)?,
        };
        txn.commit()?;
        Ok(tables)
    }
}

fn ensure(right: bool, what: impl FnOnce() -> String) -> Result<()> {
    if right { Ok(()) } else { Err(what().into()) }
}

fn key(n: usize) -> Vec<u8> {
    match n % 10 {
        0 => vec![n as u8; 100 + n % 300],
        _ => format!("key {:08}", n.wrapping_mul(7919) % 100_000_000).into_bytes(),
    }
}

fn value(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(100) {
        0 => 20_000 + rng.below(100_000),
        1..4 => 1100 + rng.below(8000),
        _ => rng.below(300),
    };
    vec![rng.below(256) as u8; len]
}

fn change(txn: &mut WriteTxn, tables: &Tables, model: &mut Model, rng: &mut Rng) -> Result<()> {
    match rng.below(100) {
        0..45 => {
            let (key, value) = (key(rng.below(KEYS)), value(rng));
            txn.put(&tables.keys, &key, &value)?;
            model.keys.insert(key, value);
        }
        45..60 => {
            let key = key(rng.below(KEYS));
            let was = txn.delete(&tables.keys, &key)?;
            ensure(was == model.keys.remove(&key).is_some(), || format!("delete of {key:?}: {was}"))?;
        }
        60..75 => {
            let (row, value) = (1 + rng.below(ROWS) as u64, value(rng));
            txn.put_row(&tables.rows, row, &value)?;
            model.rows.insert(row, value);
        }
        75..82 => {
            let row = 1 + rng.below(ROWS) as u64;
            let was = txn.delete_row(&tables.rows, row)?;
            ensure(was == model.rows.remove(&row).is_some(), || format!("delete of row {row}: {was}"))?;
        }
        82..93 => {
            let pair = (key(rng.below(60)), key(rng.below(4000)));
            let new = txn.put_pair(&tables.pairs, &pair.0, &pair.1)?;
            ensure(new == model.pairs.insert(pair), || "a pair that was there, or was not".into())?;
        }
        93..99 => {
            let pair = (key(rng.below(60)), key(rng.below(4000)));
            let was = txn.delete_pair(&tables.pairs, &pair.0, &pair.1)?;
            ensure(was == model.pairs.remove(&pair), || "a pair that was there, or was not".into())?;
        }
        _ => {
            let (from, to) = (key(rng.below(KEYS)), key(rng.below(KEYS)));
            let (from, to) = if from <= to { (from, to) } else { (to, from) };
            // Not too much of it.
            let ranged = model.keys.range(from.clone()..to.clone());
            let end = ranged.map(|(key, _)| key.clone()).nth(200).unwrap_or(to);
            let bounds = (Bound::Included(&from[..]), Bound::Excluded(&end[..]));
            let gone = txn.delete_range(&tables.keys, bounds)?;
            let before = model.keys.len();
            model.keys.retain(|key, _| *key < from || *key >= end);
            ensure(gone == (before - model.keys.len()) as u64, || format!("{gone} keys in a range"))?;
        }
    }
    Ok(())
}

/// One transaction, with a savepoint gone back to now and then.
fn transaction(store: &Store, tables: &Tables, model: &mut Model, rng: &mut Rng, n: u64) -> Result<usize> {
    let mut txn = store.begin_write()?;
    let count = [1, 1, 1, 3, 10, 40, 400][rng.below(7)];
    let undone = if rng.chance(1) { rng.below(20) } else { 0 };
    if undone > 0 {
        let (point, mut other) = (txn.savepoint()?, model.clone());
        for _ in 0..undone {
            change(&mut txn, tables, &mut other, rng)?;
        }
        txn.rollback_to(&point)?;
    }
    for _ in 0..count {
        change(&mut txn, tables, model, rng)?;
    }
    for key in 0..20u8 {
        txn.put(&tables.stamps, &[key; 40], &n.to_be_bytes().repeat(30))?;
    }
    let how = [Durability::Durable, Durability::Relaxed, Durability::Relaxed, Durability::None][rng.below(4)];
    txn.commit_with(how)?;
    Ok(count)
}

/// Takes snapshots and holds them, until it is reported to stop. Returns how many.
fn watch(store: &Store, tables: &Tables, stop: &AtomicBool, seed: u64) -> Result<u64> {
    let (mut rng, mut snapshots) = (Rng::new(seed), 0);
    while !stop.load(Ordering::Relaxed) {
        let read = store.begin_read()?;
        let look = || -> Result<(Vec<u8>, u64)> {
            let mut stamps = read.range(&tables.stamps, ALL)?;
            let Some(first) = stamps.next().transpose()? else { return Ok((Vec::new(), 0)) };
            for other in stamps {
                ensure(other?.1 == first.1, || "half a transaction".into())?;
            }
            let mut sum = 0u64;
            for entry in read.rows(&tables.rows, 0)?.take(3000) {
                let (row, value) = entry?;
                let whole = value.iter().all(|&byte| byte == value[0]);
                ensure(whole, || format!("row {row} is of two values"))?;
                sum = sum.wrapping_mul(31).wrapping_add(row ^ value.len() as u64);
            }
            Ok((first.1.to_vec(), sum))
        };
        let first = look()?;
        std::thread::sleep(Duration::from_millis(rng.below(1000) as u64));
        ensure(look()? == first, || "a snapshot changed".into())?;
        snapshots += 1;
    }
    Ok(snapshots)
}

/// Everything in the store beside everything in the model.
fn compare(store: &Store, tables: &Tables, model: &Model) -> Result<()> {
    let read = store.begin_read()?;
    let mut keys = model.keys.iter();
    for entry in read.range(&tables.keys, ALL)? {
        let (key, value) = entry?;
        let right = keys.next().is_some_and(|(k, v)| *k == key && v == value);
        ensure(right, || format!("something else at key {key:?}"))?;
    }
    let mut rows = model.rows.iter();
    for entry in read.rows(&tables.rows, 0)? {
        let (row, value) = entry?;
        ensure(rows.next().is_some_and(|(r, v)| *r == row && v == value), || {
            format!("something else at row {row}")
        })?;
    }
    let mut pairs = model.pairs.iter();
    for entry in read.pairs(&tables.pairs, ALL)? {
        let pair = entry?;
        ensure(pairs.next() == Some(&pair), || format!("something else for {:?}", pair.0))?;
    }
    let ended = keys.next().is_none() && rows.next().is_none() && pairs.next().is_none();
    ensure(ended, || "something is missing at the end of a table".into())
}

/// Resident memory that is the process's own, without pages of files, in KiB; and open files.
fn of_process() -> Result<(u64, usize)> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or_default();
    let kib = line.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0);
    Ok((kib, std::fs::read_dir("/proc/self/fd")?.count()))
}

fn bytes_in(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let about = entry.metadata()?;
        bytes += if about.is_dir() { bytes_in(&entry.path())? } else { about.len() };
    }
    Ok(bytes)
}

/// The worst statistics so far.
#[derive(Debug, Default)]
struct Worst {
    /// Page file at rest, in hundredths of its live pages.
    pages_percent: u64,
    /// Value log at rest, in hundredths of what is live in it.
    values_percent: u64,
    directory_mib: u64,
    files: usize,
}

fn phase(dir: &Path, cached: bool, seed: u64, model: &mut Model, worst: &mut Worst) -> Result<String> {
    let mut options = Options::default();
    options.checkpoint_log_bytes = 4 << 20;
    options.log_segment_bytes = 1 << 20;
    options.value_segment_bytes = 4 << 20;
    options.cache_bytes = cached.then_some(2 << 20);
    let store = Store::open_with(dir, options)?;
    let tables = Tables::open(&store)?;
    compare(&store, &tables, model)?;
    let (stop, largest) = (AtomicBool::new(false), AtomicU64::new(0));
    let (begun, mut rng) = (Instant::now(), Rng::new(seed));
    let (mut changes, mut transactions, mut compactions) = (0, 0u64, 0);
    let snapshots = std::thread::scope(|scope| -> Result<u64> {
        let watchers: Vec<_> = (0..2u64)
            .map(|n| {
                let (store, tables, stop) = (&store, &tables, &stop);
                scope.spawn(move || watch(store, tables, stop, seed * 2 + n))
            })
            .collect();
        let mut work = || -> Result<()> {
            while begun.elapsed() < PHASE && !watchers.iter().any(|watcher| watcher.is_finished()) {
                changes += transaction(&store, &tables, model, &mut rng, transactions)?;
                transactions += 1;
                if rng.below(4000) == 0 {
                    store.checkpoint()?;
                }
                if rng.below(6000) == 0 {
                    store.compact(|_| {})?;
                    compactions += 1;
                }
                if transactions.is_multiple_of(500) {
                    largest.fetch_max(bytes_in(dir)?, Ordering::Relaxed);
                }
            }
            Ok(())
        };
        let worked = work();
        stop.store(true, Ordering::Relaxed);
        let mut snapshots = 0;
        for watcher in watchers {
            snapshots += watcher.join().map_err(|_| "a reader panicked")??;
        }
        worked.map(|()| snapshots)
    })?;
    // At rest: no one reads, and two checkpoints let go of what the one before kept.
    store.checkpoint()?;
    store.checkpoint()?;
    compare(&store, &tables, model)?;
    let report = store.check()?;
    let stats = store.stats();
    ensure(stats.readers == 0, || format!("{} readers are left", stats.readers))?;
    let live = u64::from(stats.pages.live) * 4096;
    let pages_percent = stats.page_file_bytes * 100 / live.max(1);
    let values_percent = stats.values.bytes * 100 / stats.values.live.max(1);
    worst.pages_percent = worst.pages_percent.max(pages_percent);
    worst.values_percent = worst.values_percent.max(values_percent);
    worst.directory_mib = worst.directory_mib.max(largest.into_inner() >> 20);
    ensure(values_percent <= 200, || format!("more than half of the value log is dead: {:?}", stats.values))?;
    if rng.chance(30) {
        store.compact(|_| {})?;
        let stats = store.stats();
        let live = u64::from(stats.pages.live) * 4096;
        ensure(stats.page_file_bytes <= live + live / 10 + (1 << 20), || {
            format!("{} bytes after a compaction, {live} are live", stats.page_file_bytes)
        })?;
        compare(&store, &tables, model)?;
        store.check()?;
    }
    store.close()?;
    let (anonymous, files) = of_process()?;
    worst.files = worst.files.max(files);
    Ok(format!(
        "{}: {transactions} transactions, {changes} changes, {snapshots} snapshots, {compactions} compactions; {} entries, \
         pages {} MiB ({pages_percent} % of live), values {} MiB ({values_percent} %), memory {} MiB, {files} files",
        if cached { "cached" } else { "mapped" },
        report.entries,
        stats.page_file_bytes >> 20,
        stats.values.bytes >> 20,
        anonymous >> 10,
    ))
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let mut number = |default: u64| args.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (seconds, seed) = (number(600), number(1));
    let dir = std::env::temp_dir().join(format!("treedb-soak-{}", std::process::id()));
    let (begun, mut model, mut worst) = (Instant::now(), Model::default(), Worst::default());
    let mut warm = None;
    for n in 0u64.. {
        if begun.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
        let told = phase(&dir, n % 2 == 1, seed.wrapping_mul(1_000_003) + n, &mut model, &mut worst)?;
        println!("{:>5} s  {told}", begun.elapsed().as_secs());
        // Once the number of entries has settled, memory and open files are what they were.
        let (memory, files) = of_process()?;
        match warm {
            None if n == 7 => warm = Some((memory, files)),
            Some((then, open)) => {
                ensure(memory <= then + then / 2 + (32 << 10), || {
                    format!("{then} KiB have become {memory}")
                })?;
                ensure(files <= open, || format!("{open} open files have become {files}"))?;
            }
            None => {}
        }
    }
    println!("worst: {worst:?}");
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
