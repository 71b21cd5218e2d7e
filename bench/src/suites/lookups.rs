//! Look-ups of documents one by one: how long the slowest take, and how readers do beside each other and beside a writer.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use super::Scale;
use crate::Result;
use crate::contest::{Figures, Side, Turn, Unit, contest};
use crate::people::Random;
use crate::report::{Goals, Row, rows};
use crate::sides::{Class, Documents};

type Sides<'s> = &'s [Box<dyn Documents>];

/// The time that so many thousandths of look-ups by `_id` do not take longer than, each timed by itself.
fn percentile(side: &dyn Documents, thousandths: usize, size: u64, gets: u64, round: u64) -> Result<Turn> {
    let order: Vec<u64> = Random::new(round + 1, size).take(gets as usize).collect();
    let mut times = Vec::with_capacity(order.len());
    let mut sum = 0_u64;
    for n in order {
        let start = Instant::now();
        let answer = side.by_id(&mut std::iter::once(n), 1)?;
        times.push(start.elapsed().as_nanos() as u64);
        sum = sum.wrapping_add(answer);
    }
    times.sort_unstable();
    let at = (times.len() * thousandths / 1000).min(times.len() - 1);
    Ok(Turn { ops: 1, spent: times[at], answer: Some(sum) })
}

/// The middle and the slowest hundredth of look-ups by `_id`.
pub(super) fn percentiles(scale: Scale, sides: Sides<'_>, size: u64, label: &str) -> Result<Vec<Row>> {
    eprintln!("documents: percentiles");
    let gets = scale.of(20_000).max(100);
    let mut out = Vec::new();
    // Of a peer, at most twice its time; of its own middle, at most three times.
    let cases: [(&str, usize, Goals<'_>); 2] =
        [("half", 500, &[("LMDB", 0.5)]), ("99 of 100", 990, &[("TreeDB, half", 1.0 / 3.0)])];
    for (what, thousandths, goals) in cases {
        let mut turns: Vec<Side<'_>> = sides
            .iter()
            .map(|side| {
                let turn = move |round| percentile(side.as_ref(), thousandths, size, gets, round);
                Side { name: side.name(), turn: Box::new(turn) }
            })
            .collect();
        if let (990, Some(ours)) = (thousandths, sides.first()) {
            let turn = move |round| percentile(ours.as_ref(), 500, size, gets, round);
            turns.push(Side { name: "TreeDB, half", turn: Box::new(turn) });
        }
        let figures = contest(Unit::NanosPerOp, scale.rounds, &mut turns)?;
        let workload = format!("{what} of the look-ups by `_id` take no longer than this, {label}");
        out.extend(rows(&workload, Class::Relaxed.label(), Unit::NanosPerOp, figures, goals));
    }
    Ok(out)
}

/// How many read, and whether one writes.
#[derive(Clone, Copy)]
struct Crowd {
    readers: u64,
    writer: bool,
}

/// How a reader looks documents up.
type Get = fn(&dyn Documents, &mut Random, u64) -> Result<u64>;

/// Every reader does `ops` look-ups. What a writer does meanwhile goes to `written`, as commits a second.
fn read(
    side: &dyn Documents,
    get: Get,
    crowd: Crowd,
    ops: u64,
    size: u64,
    round: u64,
    written: &mut f64,
) -> Result<Turn> {
    let (stop, commits) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (stop, commits) = (&stop, &commits);
        let started = Instant::now();
        let writer = crowd.writer.then(|| {
            scope.spawn(move || -> Result<()> {
                let mut numbers = Random::new(round + 7, size);
                while !stop.load(Ordering::Relaxed) {
                    side.update(&mut numbers, 20)?;
                    commits.fetch_add(20, Ordering::Relaxed);
                }
                Ok(())
            })
        });
        let turn = Turn::timed(ops * crowd.readers, || {
            let readers = (0..crowd.readers).map(|reader| {
                scope.spawn(move || get(side, &mut Random::new(round * 100 + reader, size), ops))
            });
            let readers: Vec<_> = readers.collect();
            readers.into_iter().try_fold(0_u64, |sum, reader| {
                Ok(sum.wrapping_add(reader.join().map_err(|_| "a reader panicked")??))
            })
        });
        stop.store(true, Ordering::Relaxed);
        *written = commits.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64();
        writer.map_or(Ok(Ok(())), |writer| writer.join()).map_err(|_| "the writer panicked")??;
        turn
    })
}

/// One reader, two, and both beside a writer, by `_id` and by the unique index.
pub(super) fn crowds(scale: Scale, sides: Sides<'_>, size: u64, label: &str) -> Result<Vec<Row>> {
    // The writer gives documents the filler they have: what readers find does not depend on how far it got.
    for side in sides {
        side.update(&mut (0..size), size)?;
        side.settle()?;
    }
    let ops = scale.of(100_000);
    let of = |readers, writer| Crowd { readers, writer };
    type Own = (Crowd, &'static str, f64);
    let cases: [(&str, Crowd, Option<Own>); 4] = [
        ("1 reader", of(1, false), None),
        ("2 readers", of(2, false), Some((of(1, false), "TreeDB, 1 reader", 1.9))),
        ("1 reader beside a writer", of(1, true), Some((of(1, false), "TreeDB, no writer", 0.85))),
        ("2 readers beside a writer", of(2, true), Some((of(2, false), "TreeDB, 2 and no writer", 0.85))),
    ];
    let gets: [(&str, Get); 2] = [
        ("`_id`", |side, order, count| side.by_id(order, count)),
        ("unique index", |side, order, count| side.by_email(order, count)),
    ];
    let mut out = Vec::new();
    for (what, get) in gets {
        for (name, crowd, own) in cases {
            eprintln!("documents: {name}, by {what}");
            let written: RefCell<BTreeMap<&str, Vec<f64>>> = RefCell::default();
            let turn = |name, side: &dyn Documents, crowd, round| {
                let mut commits = 0.0;
                let turn = read(side, get, crowd, ops, size, round, &mut commits)?;
                if round > 0 && crowd.writer {
                    written.borrow_mut().entry(name).or_default().push(commits);
                }
                Ok(turn)
            };
            let turn = &turn;
            let mut turns: Vec<Side<'_>> = sides
                .iter()
                .map(|side| {
                    let one = move |round| turn(side.name(), side.as_ref(), crowd, round);
                    Side { name: side.name(), turn: Box::new(one) }
                })
                .collect();
            let mut goals: Vec<(&str, f64)> = Vec::new();
            if let (Some((own, name, goal)), Some(ours)) = (own, sides.first()) {
                let one = move |round| Ok(Turn { answer: None, ..turn(name, ours.as_ref(), own, round)? });
                turns.push(Side { name, turn: Box::new(one) });
                goals.push((name, goal));
            }
            let figures = contest(Unit::OpsPerSecond, scale.rounds, &mut turns)?;
            let (durability, unit) = (Class::Relaxed.label(), Unit::OpsPerSecond);
            out.extend(rows(&format!("{name} by {what}, {label}"), durability, unit, figures, &goals));
            drop(turns);
            let mut written = written.take();
            let figures: Vec<Figures> = sides
                .iter()
                .filter_map(|side| Some(Figures { name: side.name(), rounds: written.remove(side.name())? }))
                .collect();
            if crowd.writer {
                let workload =
                    format!("the writer beside {name}: changes of a field, 1 to a commit ({what})")
                        .replace(" beside a writer", "");
                out.extend(rows(&workload, durability, unit, figures, &[]));
            }
        }
    }
    Ok(out)
}
