//! Latency percentiles of finds, and finds by concurrent readers with and without a writer.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use super::Scale;
use crate::Result;
use crate::comparison::{Candidate, Measurement, Samples, Unit, compare};
use crate::engines::{DocumentStore, DurabilityClass};
use crate::report::{Goals, Row, rows};
use bench_common::Random;

type Stores<'s> = &'s [&'s dyn DocumentStore];

/// A percentile, in thousandths, of the latency of finds by `_id`.
fn percentile(
    store: &dyn DocumentStore,
    thousandths: usize,
    size: u64,
    gets: u64,
    round: u64,
) -> Result<Measurement> {
    let order: Vec<u64> = Random::new(round + 1, size).take(gets as usize).collect();
    let mut times = Vec::with_capacity(order.len());
    let mut sum = 0_u64;
    for n in order {
        let start = Instant::now();
        let checksum = store.find_by_id(&mut std::iter::once(n), 1)?;
        times.push(start.elapsed().as_nanos() as u64);
        sum = sum.wrapping_add(checksum);
    }
    times.sort_unstable();
    let at = (times.len() * thousandths / 1000).min(times.len() - 1);
    Ok(Measurement { ops: 1, spent: times[at], checksum: Some(sum) })
}

/// Median and 99th percentile of the latency of finds by `_id`.
pub(super) fn percentiles(scale: Scale, stores: Stores<'_>, size: u64, label: &str) -> Result<Vec<Row>> {
    eprintln!("documents: percentiles");
    let gets = scale.of(20_000).max(100);
    let mut out = Vec::new();
    // At most twice the peer's median; a 99th percentile of at most three times the median.
    let cases: [(&str, usize, Goals<'_>); 2] =
        [("median", 500, &[("LMDB", 0.5)]), ("99th percentile", 990, &[("TreeDB, median", 1.0 / 3.0)])];
    for (what, thousandths, goals) in cases {
        let mut candidates: Vec<Candidate<'_>> = stores
            .iter()
            .map(|store| {
                let run = move |round| percentile(*store, thousandths, size, gets, round);
                Candidate { name: store.name(), run: Box::new(run) }
            })
            .collect();
        if let (990, Some(ours)) = (thousandths, stores.first()) {
            let run = move |round| percentile(*ours, 500, size, gets, round);
            candidates.push(Candidate { name: "TreeDB, median", run: Box::new(run) });
        }
        let samples = compare(Unit::NanosPerOp, scale.rounds, &mut candidates)?;
        let workload = format!("{what} of the latency of finds by `_id`, {label}");
        out.extend(rows(&workload, DurabilityClass::Relaxed.label(), Unit::NanosPerOp, samples, goals));
    }
    Ok(out)
}

/// How many threads read, and whether one writes.
#[derive(Clone, Copy)]
struct Load {
    readers: u64,
    writer: bool,
}

/// How a reader finds documents.
type Get = fn(&dyn DocumentStore, &mut Random, u64) -> Result<u64>;

/// Every reader does `ops` finds. Meanwhile the writer's commits per second are stored in `written`.
fn read(
    store: &dyn DocumentStore,
    get: Get,
    load: Load,
    ops: u64,
    size: u64,
    round: u64,
    written: &mut f64,
) -> Result<Measurement> {
    let (stop, commits) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (stop, commits) = (&stop, &commits);
        let started = Instant::now();
        let writer = load.writer.then(|| {
            scope.spawn(move || -> Result<()> {
                let mut numbers = Random::new(round + 7, size);
                while !stop.load(Ordering::Relaxed) {
                    store.update(&mut numbers, 20)?;
                    commits.fetch_add(20, Ordering::Relaxed);
                }
                Ok(())
            })
        });
        let measured = Measurement::wall_clock(ops * load.readers, || {
            let readers = (0..load.readers).map(|reader| {
                scope.spawn(move || get(store, &mut Random::new(round * 100 + reader, size), ops))
            });
            let readers: Vec<_> = readers.collect();
            readers.into_iter().try_fold(0_u64, |sum, reader| {
                Ok(sum.wrapping_add(reader.join().map_err(|_| "a reader panicked")??))
            })
        });
        stop.store(true, Ordering::Relaxed);
        *written = commits.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64();
        writer.map_or(Ok(Ok(())), |writer| writer.join()).map_err(|_| "the writer panicked")??;
        measured
    })
}

/// One reader and two, with and without a concurrent writer, by `_id` and by the unique index.
pub(super) fn with_writer(scale: Scale, stores: Stores<'_>, size: u64, label: &str) -> Result<Vec<Row>> {
    // The writer sets values that the documents already have, so that readers always find the same.
    for store in stores {
        store.update(&mut (0..size), size)?;
        store.checkpoint()?;
    }
    let ops = scale.of(100_000);
    let of = |readers, writer| Load { readers, writer };
    // TreeDB itself under another load: the load, its name and the ratio to reach.
    type Baseline = (Load, &'static str, f64);
    let cases: [(&str, Load, Option<Baseline>); 4] = [
        ("1 reader", of(1, false), None),
        ("2 readers", of(2, false), Some((of(1, false), "TreeDB, 1 reader", 1.9))),
        ("1 reader with a writer", of(1, true), Some((of(1, false), "TreeDB, no writer", 0.85))),
        ("2 readers with a writer", of(2, true), Some((of(2, false), "TreeDB, 2 readers, no writer", 0.85))),
    ];
    let gets: [(&str, Get); 2] = [
        ("`_id`", |store, order, count| store.find_by_id(order, count)),
        ("unique index", |store, order, count| store.find_by_email(order, count)),
    ];
    let mut out = Vec::new();
    for (what, get) in gets {
        for (name, load, baseline) in cases {
            eprintln!("documents: {name}, by {what}");
            let written: RefCell<BTreeMap<&str, Vec<f64>>> = RefCell::default();
            let run = |name, store: &dyn DocumentStore, load, round| {
                let mut commits = 0.0;
                let measured = read(store, get, load, ops, size, round, &mut commits)?;
                if round > 0 && load.writer {
                    written.borrow_mut().entry(name).or_default().push(commits);
                }
                Ok(measured)
            };
            let run = &run;
            let mut candidates: Vec<Candidate<'_>> = stores
                .iter()
                .map(|store| {
                    let candidate = move |round| run(store.name(), *store, load, round);
                    Candidate { name: store.name(), run: Box::new(candidate) }
                })
                .collect();
            let mut goals: Vec<(&str, f64)> = Vec::new();
            if let (Some((baseline, name, goal)), Some(ours)) = (baseline, stores.first()) {
                let candidate =
                    move |round| Ok(Measurement { checksum: None, ..run(name, *ours, baseline, round)? });
                candidates.push(Candidate { name, run: Box::new(candidate) });
                goals.push((name, goal));
            }
            let samples = compare(Unit::OpsPerSecond, scale.rounds, &mut candidates)?;
            let (durability, unit) = (DurabilityClass::Relaxed.label(), Unit::OpsPerSecond);
            out.extend(rows(&format!("{name} by {what}, {label}"), durability, unit, samples, &goals));
            drop(candidates);
            let mut written = written.take();
            let samples: Vec<Samples> = stores
                .iter()
                .filter_map(|store| {
                    Some(Samples { name: store.name(), rounds: written.remove(store.name())? })
                })
                .collect();
            if load.writer {
                let readers = name.trim_end_matches(" with a writer");
                let workload = format!(
                    "the writer beside {readers} by {what}: updates of a field, 1 per commit, {label}"
                );
                out.extend(rows(&workload, durability, unit, samples, &[]));
            }
        }
    }
    Ok(out)
}
