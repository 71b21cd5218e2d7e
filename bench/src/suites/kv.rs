//! The key/value store beside LMDB and SQLite: 8-byte keys in no order, values of 100 bytes.

use super::Scale;
use crate::Result;
use crate::contest::{Figures, Side, Turn, Unit, contest};
use crate::people::Random;
use crate::report::{Row, rows};
use crate::sides::{Class, Keys, LmdbKeys, SqliteKeys, TreeDbKeys};

pub(super) const ABOUT: &str = "8-byte keys in no order, values of 100 bytes, one thread, everything in memory. \
    Beginning and ending transactions is inside the timer. Every get and every entry of a scan goes into a checksum \
    that all sides must agree on; after a round of puts the whole table does, outside the timer.";

/// A round's work on one side; what it returns is the answer.
type Work<'a> = &'a dyn Fn(&dyn Keys, u64) -> Result<u64>;

/// A contest in which every side does `work`. `check` is asked for the answer outside the timer.
fn contend(
    sides: &[Box<dyn Keys>],
    scale: Scale,
    ops: u64,
    work: Work<'_>,
    check: Option<Work<'_>>,
) -> Result<Vec<Figures>> {
    let turn_of = |side: &'_ dyn Keys, round| {
        let turn = Turn::timed(ops, || work(side, round))?;
        Ok(Turn { answer: check.map_or(Ok(turn.answer), |check| check(side, round))?, ..turn })
    };
    let mut turns: Vec<Side<'_>> = sides
        .iter()
        .map(|side| Side { name: side.name(), turn: Box::new(move |round| turn_of(side.as_ref(), round)) })
        .collect();
    contest(Unit::NanosPerOp, scale.rounds, &mut turns)
}

pub(super) fn run(scale: Scale) -> Result<Vec<Row>> {
    let class = Class::Relaxed;
    let mut out = Vec::new();
    for (size, label) in [(10_000, "10k"), (100_000, "100k"), (1_000_000, "1M")] {
        eprintln!("kv: {label} keys");
        let size = scale.of(size);
        let sides: Vec<Box<dyn Keys>> = vec![
            Box::new(TreeDbKeys::new(class)?),
            Box::new(LmdbKeys::new(class)?),
            Box::new(SqliteKeys::new(class)?),
        ];
        // The keys come in no order as it is.
        for side in &sides {
            side.put(&mut (0..size), size, 10_000, 0)?;
        }
        let mut add = |workload: &str, ops, work: Work<'_>, check: Option<Work<'_>>| -> Result<()> {
            let figures = contend(&sides, scale, ops, work, check)?;
            out.extend(rows(&format!("{workload}, {label} keys"), class.label(), Unit::NanosPerOp, figures));
            Ok(())
        };
        let ops = scale.of(200_000);
        let random = |round: u64| Random::new(round + 1, size);
        add("random get, 1,000 to a snapshot", ops, &|s, r| s.get(&mut random(r), ops, 1000), None)?;
        add("random get, each in its own snapshot", ops, &|s, r| s.get(&mut random(r), ops, 1), None)?;
        add("scan in key order", size, &|s, _| s.scan(), None)?;
        let whole: Work<'_> = &|s, _| s.scan();
        let ops = scale.of(100_000);
        add(
            "random update, 10,000 to a commit",
            ops,
            &|s, r| s.put(&mut random(r), ops, 10_000, r + 1).map(|()| 0),
            Some(whole),
        )?;
        let ops = scale.of(20_000);
        add(
            "random update, 1 to a commit",
            ops,
            &|s, r| s.put(&mut random(r), ops, 1, r + 1000).map(|()| 0),
            Some(whole),
        )?;
    }
    Ok(out)
}
