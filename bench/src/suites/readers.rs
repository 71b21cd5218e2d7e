//! Concurrent readers of the key/value store, with and without a writer.

use std::sync::atomic::{AtomicBool, Ordering};

use super::Scale;
use crate::Result;
use crate::comparison::{Candidate, Measurement, Unit, compare};
use crate::engines::{DurabilityClass, Engine, EntryFormat, KeyFormat, KeyValueStore, OpenStore};
use crate::report::{Goals, Row, progress, rows};
use bench_common::Random;

pub(super) const ABOUT: &str = "Random gets among a million 8-byte keys with values of 100 bytes, 1,000 per snapshot, \
    counted over all readers. The concurrent writer updates random keys as fast as it can, one per commit, without \
    flushes. Rows that compare TreeDB with itself use the same store in the same rounds. On a machine with two cores, \
    two readers and a writer have to share them.";

const PEERS: &[Engine] = &[Engine::TreeDb, Engine::Lmdb, Engine::Mdbx];
const FORMAT: EntryFormat = EntryFormat { keys: KeyFormat::Spread, value: 100 };
const UNIT: Unit = Unit::OpsPerSecond;

/// How many threads read, and whether one writes.
#[derive(Clone, Copy)]
struct Load {
    readers: u64,
    writer: bool,
}

/// Every reader gets `ops` entries.
fn read(store: &dyn KeyValueStore, load: Load, ops: u64, size: u64, round: u64) -> Result<Measurement> {
    let stop = AtomicBool::new(false);
    let orders: Vec<Vec<u64>> = (0..load.readers)
        .map(|reader| Random::new(round * 100 + reader, size).take(ops as usize).collect())
        .collect();
    std::thread::scope(|scope| {
        let stop = &stop;
        let writer = load.writer.then(|| {
            scope.spawn(move || -> Result<()> {
                let mut numbers = Random::new(round + 7, size);
                while !stop.load(Ordering::Relaxed) {
                    let some: Vec<u64> = numbers.by_ref().take(100).collect();
                    // The values that the entries already have, so that readers always find the same.
                    store.put(&some, 1, 0)?;
                }
                Ok(())
            })
        });
        let measured = Measurement::wall_clock(ops * load.readers, || {
            let readers = orders.iter().map(|order| scope.spawn(move || store.get(order, 1000)));
            let readers: Vec<_> = readers.collect();
            readers.into_iter().try_fold(0u64, |sum, reader| {
                Ok(sum.wrapping_add(reader.join().map_err(|_| "a reader panicked")??))
            })
        });
        stop.store(true, Ordering::Relaxed);
        writer.map_or(Ok(Ok(())), |writer| writer.join()).map_err(|_| "the writer panicked")??;
        measured
    })
}

pub(super) fn run(scale: Scale) -> Result<Vec<Row>> {
    let size = scale.of(1_000_000);
    let stores = Engine::create_all(PEERS, DurabilityClass::Relaxed, FORMAT)?;
    for opened in &stores {
        opened.store.put(&FORMAT.sorted(size), 10_000, 0)?;
        opened.store.checkpoint()?;
    }
    let ops = scale.of(300_000);
    let of = |readers, writer| Load { readers, writer };
    // TreeDB itself under another load: the load, its name and the ratio to reach.
    type Baseline = (Load, &'static str, f64);
    let cases: [(&str, Load, Option<Baseline>); 4] = [
        ("1 reader", of(1, false), None),
        ("2 readers", of(2, false), Some((of(1, false), "TreeDB, 1 reader", 1.9))),
        ("1 reader with a writer", of(1, true), Some((of(1, false), "TreeDB, no writer", 0.9))),
        ("2 readers with a writer", of(2, true), Some((of(2, false), "TreeDB, 2 readers, no writer", 0.9))),
    ];
    let mut out = Vec::new();
    for (name, load, baseline) in cases {
        if !scale.wants(name) {
            continue;
        }
        eprintln!("readers: {name}");
        let run = move |opened: &OpenStore, load, round| read(opened.store.as_ref(), load, ops, size, round);
        let mut candidates: Vec<Candidate<'_>> = stores
            .iter()
            .map(|o| Candidate { name: o.name, run: Box::new(move |round| run(o, load, round)) })
            .collect();
        let mut goals: Vec<(&str, f64)> = Vec::new();
        if let (Some((baseline, name, goal)), Some(ours)) = (baseline, stores.first()) {
            let run = move |round| Ok(Measurement { checksum: None, ..run(ours, baseline, round)? });
            candidates.push(Candidate { name, run: Box::new(run) });
            goals.push((name, goal));
        }
        let samples = compare(UNIT, scale.rounds, &mut candidates)?;
        let goals: Goals<'_> = &goals;
        let rows = rows(name, DurabilityClass::Relaxed.label(), UNIT, samples, goals);
        rows.iter().for_each(progress);
        out.extend(rows);
    }
    Ok(out)
}
