//! Durable commits a second, by one producer and by sixteen.

use super::Scale;
use crate::Result;
use crate::contest::{Side, Turn, Unit, contest};
use crate::report::{Row, rows};
use crate::sides::{Class, Form, KeyForm, Keys, Peer, Walk};

pub(super) const ABOUT: &str = "One put of 100 bytes to a commit, every commit flushed to the disk before it \
    returns. With several producers the order of commits is left to each side; TreeDB's commits share flushes, the \
    peers have one writer that flushes for itself. After each round the whole table goes into a checksum that all \
    sides must agree on.";

const PEERS: &[Peer] = &[Peer::TreeDb, Peer::Lmdb, Peer::Mdbx, Peer::Redb, Peer::Sqlite];
const FORM: Form = Form { keys: KeyForm::Spread, value: 100 };

/// `threads` threads commit `each` numbers of their own, one at a time.
fn produce(side: &dyn Keys, threads: u64, each: u64, version: u64) -> Result<()> {
    let numbers: Vec<u64> = (0..threads * each).collect();
    std::thread::scope(|scope| {
        let numbers = &numbers;
        let run = |t: u64| side.put(&numbers[(t * each) as usize..((t + 1) * each) as usize], 1, version);
        let all: Vec<_> = (0..threads).map(|t| scope.spawn(move || run(t))).collect();
        all.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a producer panicked")?)
    })
}

pub(super) fn run(scale: Scale) -> Result<Vec<Row>> {
    let class = Class::Durable;
    let mut out = Vec::new();
    for (threads, commits) in [(1, 1000), (4, 2000), (16, 4000)] {
        eprintln!("durable: {threads} producers");
        let each = scale.of(commits) / threads + 1;
        let sides = Peer::all(PEERS, class, FORM)?;
        let mut turns: Vec<Side<'_>> = sides
            .iter()
            .map(|(name, side)| {
                let turn = move |round| {
                    let work = || produce(side.as_ref(), threads, each, round).map(|()| 0);
                    let turn = Turn::timed(threads * each, work)?;
                    Ok(Turn { answer: side.walk(Walk::Whole)?, ..turn })
                };
                Side { name, turn: Box::new(turn) }
            })
            .collect();
        let figures = contest(Unit::OpsPerSecond, scale.rounds, &mut turns)?;
        let producers = if threads == 1 { "1 producer".to_owned() } else { format!("{threads} producers") };
        out.extend(rows(
            &format!("durable commits, {producers}"),
            class.label(),
            Unit::OpsPerSecond,
            figures,
            &[],
        ));
    }
    Ok(out)
}
