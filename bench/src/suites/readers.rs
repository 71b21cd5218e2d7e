//! Readers beside each other and beside a writer.

use std::sync::atomic::{AtomicBool, Ordering};

use super::Scale;
use crate::Result;
use crate::contest::{Side, Turn, Unit, contest};
use crate::people::Random;
use crate::report::{Goals, Row, hint, rows};
use crate::sides::{Class, Form, KeyForm, Keys, Opened, Peer};

pub(super) const ABOUT: &str = "Random gets among a million 8-byte keys with values of 100 bytes, 1,000 to a \
    snapshot, by all readers write_batch. The writer beside them updates random keys, one to a commit, nothing flushed, \
    as fast as it can. Rows against TreeDB itself are of the same store in the same rounds. On a machine with two \
    cores, two readers and a writer have to share.";

const PEERS: &[Peer] = &[Peer::TreeDb, Peer::Lmdb, Peer::Mdbx];
const FORM: Form = Form { keys: KeyForm::Spread, value: 100 };
const UNIT: Unit = Unit::OpsPerSecond;

/// How many read, and whether one writes.
#[derive(Clone, Copy)]
struct Crowd {
    readers: u64,
    writer: bool,
}

/// Every reader gets `ops` numbers.
fn read(side: &dyn Keys, crowd: Crowd, ops: u64, size: u64, round: u64) -> Result<Turn> {
    let stop = AtomicBool::new(false);
    let orders: Vec<Vec<u64>> = (0..crowd.readers)
        .map(|reader| Random::new(round * 100 + reader, size).take(ops as usize).collect())
        .collect();
    std::thread::scope(|scope| {
        let stop = &stop;
        let writer = crowd.writer.then(|| {
            scope.spawn(move || -> Result<()> {
                let mut numbers = Random::new(round + 7, size);
                while !stop.load(Ordering::Relaxed) {
                    let some: Vec<u64> = numbers.by_ref().take(100).collect();
                    // The values they have: readers' answers do not depend on how far the writer got.
                    side.put(&some, 1, 0)?;
                }
                Ok(())
            })
        });
        let turn = Turn::timed(ops * crowd.readers, || {
            let readers = orders.iter().map(|order| scope.spawn(move || side.get(order, 1000)));
            let readers: Vec<_> = readers.collect();
            readers.into_iter().try_fold(0u64, |sum, reader| {
                Ok(sum.wrapping_add(reader.join().map_err(|_| "a reader panicked")??))
            })
        });
        stop.store(true, Ordering::Relaxed);
        writer.map_or(Ok(Ok(())), |writer| writer.join()).map_err(|_| "the writer panicked")??;
        turn
    })
}

pub(super) fn run(scale: Scale) -> Result<Vec<Row>> {
    let size = scale.of(1_000_000);
    let opened = Peer::all(PEERS, Class::Relaxed, FORM)?;
    for side in &opened {
        side.keys.put(&FORM.sorted(size), 10_000, 0)?;
        side.keys.settle()?;
    }
    let ops = scale.of(300_000);
    let of = |readers, writer| Crowd { readers, writer };
    // What is compared with which crowd of TreeDB's own, and the ratio to reach.
    type Own = (Crowd, &'static str, f64);
    let cases: [(&str, Crowd, Option<Own>); 4] = [
        ("1 reader", of(1, false), None),
        ("2 readers", of(2, false), Some((of(1, false), "TreeDB, 1 reader", 1.9))),
        ("1 reader beside a writer", of(1, true), Some((of(1, false), "TreeDB, no writer", 0.9))),
        ("2 readers beside a writer", of(2, true), Some((of(2, false), "TreeDB, 2 and no writer", 0.9))),
    ];
    let mut out = Vec::new();
    for (name, crowd, own) in cases {
        if !scale.wants(name) {
            continue;
        }
        eprintln!("readers: {name}");
        let turn = move |side: &Opened, crowd, round| read(side.keys.as_ref(), crowd, ops, size, round);
        let mut sides: Vec<Side<'_>> = opened
            .iter()
            .map(|o| Side { name: o.name, turn: Box::new(move |round| turn(o, crowd, round)) })
            .collect();
        let mut goals: Vec<(&str, f64)> = Vec::new();
        if let (Some((own, name, goal)), Some(ours)) = (own, opened.first()) {
            let turn = move |round| Ok(Turn { answer: None, ..turn(ours, own, round)? });
            sides.push(Side { name, turn: Box::new(turn) });
            goals.push((name, goal));
        }
        let figures = contest(UNIT, scale.rounds, &mut sides)?;
        let goals: Goals<'_> = &goals;
        let rows = rows(name, Class::Relaxed.label(), UNIT, figures, goals);
        rows.iter().for_each(hint);
        out.extend(rows);
    }
    Ok(out)
}
