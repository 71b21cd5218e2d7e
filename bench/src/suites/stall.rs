//! The longest writes while checkpoints, flushes and compactions run.

use std::time::Instant;

use super::{MIN_ROUNDS, Scale};
use crate::Result;
use crate::comparison::{Samples, Unit};
use crate::engines::{DurabilityClass, Engine, EntryFormat, KeyFormat, OpenStore, Scan};
use crate::report::{Row, progress, rows};
use bench_common::Random;

pub(super) const ABOUT: &str = "Random updates among a million 8-byte keys with values of 100 bytes, one per commit, \
    without flushes, as fast as one thread can; every commit is timed. There are enough of them that TreeDB makes \
    several checkpoints and that the log-structured peers flush and compact. After each round a checksum over the \
    whole table has to agree.";

const PEERS: &[Engine] = &[Engine::TreeDb, Engine::Fjall, Engine::RocksDb];
const FORMAT: EntryFormat = EntryFormat { keys: KeyFormat::Spread, value: 100 };
/// The longest that a write may take, in microseconds.
const LONGEST: f64 = 20_000.0;

/// Maximum and 99.9th percentile in microseconds, and the checksum.
fn measure(opened: &OpenStore, ops: u64, size: u64, round: u64) -> Result<(f64, f64, u64)> {
    let mut times = Vec::with_capacity(ops as usize);
    for n in Random::new(round + 1, size).take(ops as usize) {
        let start = Instant::now();
        opened.store.put(&[n], 1, round + 1)?;
        times.push(start.elapsed().as_nanos() as u64);
    }
    times.sort_unstable();
    let at = |part: f64| times.get((times.len() as f64 * part) as usize).map_or(0.0, |ns| *ns as f64 / 1e3);
    let longest = times.last().map_or(0.0, |ns| *ns as f64 / 1e3);
    Ok((longest, at(0.999), opened.store.scan(Scan::Verify)?))
}

pub(super) fn run(scale: Scale) -> Result<Vec<Row>> {
    let (size, ops) = (scale.of(1_000_000), scale.of(1_000_000));
    let stores = Engine::create_all(PEERS, DurabilityClass::Relaxed, FORMAT)?;
    for opened in &stores {
        opened.store.put(&FORMAT.sorted(size), 10_000, 0)?;
        opened.store.checkpoint()?;
    }
    let none = || stores.iter().map(|o| Samples { name: o.name, rounds: Vec::new() }).collect::<Vec<_>>();
    let (mut longest, mut rare) = (none(), none());
    // Rounds take long, and there is nothing to warm up.
    for round in 0..scale.rounds.min(MIN_ROUNDS) {
        eprintln!("stall: round {round}");
        let mut checksums = Vec::new();
        for i in 0..stores.len() {
            let at = (i + round as usize) % stores.len();
            let (most, often, checksum) = measure(&stores[at], ops, size, round)?;
            longest[at].rounds.push(most);
            rare[at].rounds.push(often);
            checksums.push(checksum);
        }
        if checksums.iter().any(|checksum| *checksum != checksums[0]) {
            return Err("results differ: the tables are not equal".into());
        }
    }
    longest.push(Samples::target(LONGEST));
    let label = DurabilityClass::Relaxed.label();
    let unit = Unit::Microseconds;
    let mut out = rows("longest write", label, unit, longest, &[(crate::report::THE_GOAL, 1.0)]);
    out.extend(rows("99.9th percentile of writes", label, unit, rare, &[]));
    out.iter().for_each(progress);
    Ok(out)
}
