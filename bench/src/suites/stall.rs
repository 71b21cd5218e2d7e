//! How long a write can take while the store tidies up.

use std::time::Instant;

use super::Scale;
use crate::Result;
use crate::contest::{Figures, Unit};
use crate::people::Random;
use crate::report::{Row, hint, rows};
use crate::sides::{Class, Form, KeyForm, Opened, Peer, Walk};

pub(super) const ABOUT: &str = "Random updates among a million 8-byte keys with values of 100 bytes, one to a commit, \
    nothing flushed, as fast as one thread can; every commit is timed. Enough of them that TreeDB makes several \
    checkpoints, and that the log-structured peers flush and compact. After each round the whole table goes into a \
    checksum that all sides must agree on.";

const PEERS: &[Peer] = &[Peer::TreeDb, Peer::Fjall, Peer::RocksDb];
const FORM: Form = Form { keys: KeyForm::Spread, value: 100 };
/// The longest that a write may take, in microseconds.
const LONGEST: f64 = 20_000.0;

/// The longest and the 99.9th percentile, in microseconds, and the answer.
fn turn(side: &Opened, ops: u64, size: u64, round: u64) -> Result<(f64, f64, u64)> {
    let mut times = Vec::with_capacity(ops as usize);
    for n in Random::new(round + 1, size).take(ops as usize) {
        let start = Instant::now();
        side.keys.put(&[n], 1, round + 1)?;
        times.push(start.elapsed().as_nanos() as u64);
    }
    times.sort_unstable();
    let at = |part: f64| times.get((times.len() as f64 * part) as usize).map_or(0.0, |ns| *ns as f64 / 1e3);
    let longest = times.last().map_or(0.0, |ns| *ns as f64 / 1e3);
    Ok((longest, at(0.999), side.keys.walk(Walk::Whole)?))
}

pub(super) fn run(scale: Scale) -> Result<Vec<Row>> {
    let (size, ops) = (scale.of(1_000_000), scale.of(1_000_000));
    let opened = Peer::all(PEERS, Class::Relaxed, FORM)?;
    for side in &opened {
        side.keys.put(&FORM.sorted(size), 10_000, 0)?;
        side.keys.settle()?;
    }
    let none = || opened.iter().map(|o| Figures { name: o.name, rounds: Vec::new() }).collect::<Vec<_>>();
    let (mut longest, mut rare) = (none(), none());
    // A round takes long, and one is as good as another: there is nothing to warm.
    for round in 0..scale.rounds.min(4) {
        eprintln!("stall: round {round}");
        let mut answers = Vec::new();
        for i in 0..opened.len() {
            let at = (i + round as usize) % opened.len();
            let (most, often, answer) = turn(&opened[at], ops, size, round)?;
            longest[at].rounds.push(most);
            rare[at].rounds.push(often);
            answers.push(answer);
        }
        if answers.iter().any(|answer| *answer != answers[0]) {
            return Err("the sides' tables differ".into());
        }
    }
    longest.push(Figures::to_reach(LONGEST));
    let label = Class::Relaxed.label();
    let unit = Unit::Microseconds;
    let mut out = rows("longest write", label, unit, longest, &[(crate::report::THE_GOAL, 1.0)]);
    out.extend(rows("99.9th percentile of writes", label, unit, rare, &[]));
    out.iter().for_each(hint);
    Ok(out)
}
