//! Opening a store after a clean close, and after the process was killed; checking it.

use std::fs;

use super::Scale;
use crate::Result;
use crate::comparison::{Candidate, Measurement, Samples, Unit, compare};
use crate::engines::{CACHE, CheckedStore, DataDir, DurabilityClass, Engine, Scan};
use crate::report::{Goals, Row, THE_GOAL, progress, rows};
use crate::worker::{SMALL, start};

pub(super) const ABOUT: &str = "8-byte keys in random order, values of 100 bytes. After a clean close: the time to open \
    the store and get one key, with the files in the page cache. After a kill: a process puts entries, 100 per commit, \
    without flushes, and aborts; the result is entries per second of the opening, during which TreeDB replays its whole \
    log. The peers shown there keep a log as well: RocksDB and fjall read it into memory. All tables must be equal \
    afterwards. A check: MiB of the page file per second, by all cores and, in the column of the peer, by one thread; the files are in the page \
    cache.";

const ALL: &[Engine] = &[
    Engine::TreeDb,
    Engine::Lmdb,
    Engine::Mdbx,
    Engine::Redb,
    Engine::Fjall,
    Engine::RocksDb,
    Engine::Sqlite,
];
const FEW: &[Engine] = &[Engine::TreeDb, Engine::Lmdb];
/// Engines with a log to replay.
const LOGGING: &[Engine] = &[Engine::TreeDb, Engine::Fjall, Engine::RocksDb];
/// Maximum time to open, in microseconds.
const OPENING: f64 = 5000.0;
/// Minimum rate of replay, in entries per second.
const REPLAY: f64 = 500_000.0;
const GOAL: Goals<'_> = &[(THE_GOAL, 1.0)];

/// Opens stores that were closed cleanly.
fn clean(scale: Scale, peers: &[Engine], size: u64) -> Result<Vec<Samples>> {
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    for peer in peers.iter().filter(|peer| peer.is_available()) {
        let data_dir = DataDir::new("open")?;
        let store = peer.open(DurabilityClass::Relaxed, SMALL, data_dir.path(), CACHE)?;
        store.put(&SMALL.sorted(size), 10_000, 0)?;
        store.checkpoint()?;
        drop(store);
        let run = move |round: u64| {
            let mut opened = None;
            // Closing is outside the timer.
            let measured = Measurement::wall_clock(1, || {
                let store =
                    opened.insert(peer.open(DurabilityClass::Relaxed, SMALL, data_dir.path(), CACHE)?);
                store.get(&[round % size], 1)
            });
            drop(opened);
            measured
        };
        candidates.push(Candidate { name: peer.name(), run: Box::new(run) });
    }
    let mut samples = compare(Unit::Microseconds, scale.rounds, &mut candidates)?;
    samples.push(Samples::target(OPENING));
    Ok(samples)
}

/// Opens stores whose process was killed.
fn killed(scale: Scale, count: u64) -> Result<Vec<Samples>> {
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    for peer in LOGGING.iter().filter(|peer| peer.is_available()) {
        let run = move |_| {
            let data_dir = DataDir::new("killed")?;
            let path = data_dir.path().to_str().ok_or("the path of the data directory is not UTF-8")?;
            start(&["abort", peer.name(), path, &count.to_string()])?;
            let mut opened = None;
            let measured = Measurement::wall_clock(count, || {
                let store =
                    opened.insert(peer.open(DurabilityClass::Relaxed, SMALL, data_dir.path(), CACHE)?);
                store.get(&[count / 2], 1)
            })?;
            let checksum = opened.as_ref().map(|store| store.scan(Scan::Verify)).transpose()?;
            drop(opened);
            fs::remove_dir_all(data_dir.path())?;
            Ok(Measurement { checksum, ..measured })
        };
        candidates.push(Candidate { name: peer.name(), run: Box::new(run) });
    }
    let mut samples = compare(Unit::OpsPerSecond, scale.rounds, &mut candidates)?;
    samples.push(Samples::target(REPLAY));
    Ok(samples)
}

/// Checks every page and entry, by all cores and by one thread.
fn check(scale: Scale, size: u64) -> Result<Vec<Samples>> {
    let data_dir = DataDir::new("check")?;
    let store = Engine::TreeDb.open(DurabilityClass::Relaxed, SMALL, data_dir.path(), CACHE)?;
    store.put(&SMALL.sorted(size), 10_000, 0)?;
    store.checkpoint()?;
    drop(store);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    for (name, threads) in [("TreeDB, all cores", cores), ("TreeDB, one thread", 1)] {
        let path = data_dir.path();
        let run = move |_| {
            // Opened each time: pages are then verified for the first time.
            let store = CheckedStore::open(path)?;
            Measurement::wall_clock(store.mebibytes(), || store.check(threads))
        };
        candidates.push(Candidate { name, run: Box::new(run) });
    }
    compare(Unit::MebibytesPerSecond, scale.rounds, &mut candidates)
}

pub(super) fn run(scale: Scale) -> Result<Vec<Row>> {
    let mut out = Vec::new();
    let mut add = |name: &str, unit, samples: &dyn Fn() -> Result<Vec<Samples>>| -> Result<()> {
        if scale.wants(name) {
            eprintln!("open: {name}");
            let rows = rows(name, DurabilityClass::Relaxed.label(), unit, samples()?, GOAL);
            rows.iter().for_each(progress);
            out.extend(rows);
        }
        Ok(())
    };
    for (size, label, peers) in [(10_000, "10k", ALL), (1_000_000, "1M", ALL), (10_000_000, "10M", FEW)] {
        let name = format!("open after a clean close, {label} keys");
        add(&name, Unit::Microseconds, &|| clean(scale, peers, scale.of(size)))?;
    }
    for (size, label) in [(1_000_000, "1M"), (10_000_000, "10M")] {
        add(&format!("check of {label} keys"), Unit::MebibytesPerSecond, &|| check(scale, scale.of(size)))?;
    }
    add("log replay of 300k entries after a kill", Unit::OpsPerSecond, &|| killed(scale, scale.of(300_000)))?;
    Ok(out)
}
