//! The key/value store beside its peers, one thread, nothing flushed.

use super::Scale;
use crate::Result;
use crate::contest::{Side, Turn, Unit, contest};
use crate::people::Random;
use crate::report::{Goals, Row, hint, rows};
use crate::sides::{Class, Form, KeyForm, Keys, Opened, OpenedRows, Peer, Walk, rows as rows_of};

pub(super) const ABOUT: &str = "One thread, everything in memory, nothing flushed. 8-byte keys are in no order, \
    8-byte counters lie as close write_batch as they can, 64-byte keys are paths; values have 100 bytes where nothing \
    else is said. Beginning and ending transactions is inside the timer. Loads go into new, empty stores, 10,000 \
    entries to a commit. Every get and every entry of a scan goes into a checksum that all sides must agree on; after \
    a round of puts the whole table does, outside the timer. Left out for time: the slower peers at a million keys, \
    and most combinations of key form, value size and table size.";

const FAST: &[Peer] = &[Peer::TreeDb, Peer::Lmdb, Peer::Mdbx, Peer::Redb];
const ALL: &[Peer] =
    &[Peer::TreeDb, Peer::Lmdb, Peer::Mdbx, Peer::Redb, Peer::Fjall, Peer::RocksDb, Peer::Sqlite];
/// The same with libmdbx's other set-up, which is the better one for some writes.
const WRITERS: &[Peer] = &[Peer::TreeDb, Peer::Lmdb, Peer::Mdbx, Peer::MdbxNoMap, Peer::Redb];

const CLASS: Class = Class::Relaxed;
/// Entries to a commit in loads and large updates.
const BATCH: usize = 10_000;

const GET_SMALL: Goals<'_> = &[("LMDB", 3.33), ("libmdbx", 3.33), ("RocksDB", 3.0)];
const GET: Goals<'_> = &[("LMDB", 2.0), ("libmdbx", 2.0), ("RocksDB", 3.0)];
const GET_MANY: Goals<'_> = &[("LMDB", 3.33)];
const SCAN: Goals<'_> = &[("LMDB", 1.5)];
const SNAPSHOT: Goals<'_> = &[("LMDB", 10.0)];
const SEQUENTIAL: Goals<'_> = &[("LMDB", 1.43)];
const SORTED: Goals<'_> = &[("LMDB", 1.67)];
const RANDOM: Goals<'_> = &[("LMDB", 1.54)];
const UPDATE: Goals<'_> = &[("LMDB", 1.43), ("libmdbx", 1.0), ("libmdbx, no map", 1.0)];
const SINGLE: Goals<'_> = &[("LMDB", 5.0), ("libmdbx", 1.0)];
const BY_ROW: Goals<'_> = &[("LMDB", 3.33)];
const NO_GOAL: Goals<'_> = &[];

/// A table: how many keys of what kind.
#[derive(Clone, Copy)]
struct Shape {
    size: u64,
    form: Form,
}

impl Shape {
    fn label(self) -> String {
        let size = match self.size {
            n if n % 1_000_000 == 0 => format!("{}M", n / 1_000_000),
            n => format!("{}k", n / 1000),
        };
        let value = match self.form.value {
            100 => String::new(),
            n => format!(", values of {n}"),
        };
        format!("{size} {}{value}", self.form.keys_label())
    }
}

const fn shape(size: u64, keys: KeyForm, value: usize) -> Shape {
    Shape { size, form: Form { keys, value } }
}

/// The rows so far, and what is needed for more.
struct Table {
    scale: Scale,
    out: Vec<Row>,
}

/// A round's work on one side; what it returns is the answer.
type Work<'a> = &'a dyn Fn(&dyn Keys, &[u64], u64) -> Result<u64>;
/// The numbers of a round.
type Numbers<'a> = &'a dyn Fn(u64) -> Vec<u64>;

impl Table {
    fn add(&mut self, name: &str, goals: Goals<'_>, sides: &mut [Side<'_>]) -> Result<()> {
        self.add_rounds(name, self.scale.rounds, goals, sides)
    }

    fn add_rounds(
        &mut self,
        name: &str,
        rounds: u64,
        goals: Goals<'_>,
        sides: &mut [Side<'_>],
    ) -> Result<()> {
        let figures = contest(Unit::NanosPerOp, rounds, sides)?;
        let rows = rows(name, CLASS.label(), Unit::NanosPerOp, figures, goals);
        rows.iter().for_each(hint);
        self.out.extend(rows);
        Ok(())
    }

    /// Loads of `numbers` into new stores.
    fn load(
        &mut self,
        what: &str,
        shape: Shape,
        peers: &[Peer],
        goals: Goals<'_>,
        numbers: Vec<u64>,
        sorted: bool,
    ) -> Result<()> {
        let name = format!("{what}, {}", shape.label());
        if !self.scale.wants(&name) {
            return Ok(());
        }
        eprintln!("kv: {name}");
        // Small loads several times, so that a turn lasts.
        let times = (self.scale.of(20_000) / numbers.len() as u64).max(1);
        let numbers = &numbers;
        let turn = |peer: Peer| -> Result<Turn> {
            let (mut spent, mut answer) = (0, None);
            for _ in 0..times {
                let opened = peer.keys(CLASS, shape.form)?;
                let side = &opened.keys;
                let turn = Turn::single(1, || {
                    if sorted { side.put_sorted(numbers, BATCH, 0) } else { side.put(numbers, BATCH, 0) }
                        .map(|()| 0)
                })?;
                spent += turn.spent;
                answer = Some(side.walk(Walk::Whole)?);
            }
            Ok(Turn { ops: times * numbers.len() as u64, spent, answer })
        };
        let mut sides: Vec<Side<'_>> = peers
            .iter()
            .filter(|peer| peer.is_here())
            .map(|&peer| Side { name: peer.name(), turn: Box::new(move |_| turn(peer)) })
            .collect();
        // A load of a million lasts: fewer of them say as much.
        let rounds = if numbers.len() < 1_000_000 { self.scale.rounds } else { self.scale.rounds.min(3) };
        self.add_rounds(&name, rounds, goals, &mut sides)
    }

    /// A contest in which every side does `work` with the round's numbers. After writes, the whole table is asked
    /// for, outside the timer.
    fn work(
        &mut self,
        what: &str,
        on: &mut Loaded<'_>,
        goals: Goals<'_>,
        numbers: Numbers<'_>,
        work: Work<'_>,
        writes: bool,
    ) -> Result<()> {
        let name = format!("{what}, {}", on.shape.label());
        if !self.scale.wants(&name) {
            return Ok(());
        }
        eprintln!("kv: {name}");
        let opened = on.sides()?;
        let turn = |side: &dyn Keys, round| -> Result<Turn> {
            let numbers = numbers(round);
            let turn = Turn::single(numbers.len() as u64, || work(side, &numbers, round))?;
            if !writes {
                return Ok(turn);
            }
            Ok(Turn { answer: Some(side.walk(Walk::Whole)?), ..turn })
        };
        let mut sides: Vec<Side<'_>> = opened
            .iter()
            .map(|o| Side { name: o.name, turn: Box::new(move |round| turn(o.keys.as_ref(), round)) })
            .collect();
        self.add(&name, goals, &mut sides)?;
        if writes {
            opened.iter().try_for_each(|opened| opened.keys.settle())?;
        }
        Ok(())
    }
}

/// Stores with the numbers from 0 to the shape's size in them, once they are asked for.
struct Loaded<'p> {
    shape: Shape,
    peers: &'p [Peer],
    sides: Vec<Opened>,
}

impl<'p> Loaded<'p> {
    fn new(shape: Shape, peers: &'p [Peer]) -> Loaded<'p> {
        Loaded { shape, peers, sides: Vec::new() }
    }

    fn sides(&mut self) -> Result<&[Opened]> {
        if self.sides.is_empty() {
            self.sides = Peer::all(self.peers, CLASS, self.shape.form)?;
            let numbers = shuffled(self.shape.size);
            for side in &self.sides {
                side.keys.put(&numbers, BATCH, 0)?;
                side.keys.settle()?;
            }
        }
        Ok(&self.sides)
    }
}

/// The numbers below `count` in no order, whatever the keys' form.
fn shuffled(count: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..count).collect();
    let mut random = Random::new(count, u64::MAX);
    for i in (1..numbers.len()).rev() {
        let other = random.next().unwrap_or_default() % (i as u64 + 1);
        numbers.swap(i, other as usize);
    }
    numbers
}

fn loads(table: &mut Table, shape: Shape, peers: &[Peer]) -> Result<()> {
    let counters = Shape { form: Form { keys: KeyForm::Dense, ..shape.form }, ..shape };
    // 64-byte keys are sorted beforehand, 8-byte ones are counters: what they mostly are where they come in order.
    let ordered = if shape.form.keys == KeyForm::Long { shape } else { counters };
    let sorted = ordered.form.sorted(shape.size);
    table.load("sequential put", ordered, peers, SEQUENTIAL, sorted.clone(), false)?;
    table.load("sequential put by cursor", ordered, peers, SORTED, sorted, true)?;
    table.load("random put", shape, peers, RANDOM, shuffled(shape.size), false)
}

fn reads(table: &mut Table, on: &mut Loaded<'_>, ops: u64) -> Result<()> {
    let (size, form) = (on.shape.size, on.shape.form);
    let random = |round: u64| Random::new(round + 1, size).take(ops as usize).collect::<Vec<u64>>();
    // Tables that are soon walked are walked several times.
    let walks = (ops / size).max(1);
    let all = |_| form.sorted(size).repeat(walks as usize);
    let walk = |side: &dyn Keys, how| (0..walks).try_fold(0, |_, _| side.walk(how));
    let get = if size < 100_000 { GET_SMALL } else { GET };
    let get_many = if size < 1_000_000 { NO_GOAL } else { GET_MANY };
    let scan = if size < 100_000 { NO_GOAL } else { SCAN };
    table.work("random get, 1,000 to a snapshot", on, get, &random, &|s, n, _| s.get(n, 1000), false)?;
    table.work("random get, each in its own snapshot", on, get, &random, &|s, n, _| s.get(n, 1), false)?;
    table.work("random get, 16 at once", on, get_many, &random, &|s, n, _| s.get_many(n, 16), false)?;
    table.work("random seek", on, NO_GOAL, &random, &|s, n, _| s.seek(n), false)?;
    table.work("scan", on, scan, &all, &|s, _, _| walk(s, Walk::Forward), false)?;
    table.work("scan backward", on, scan, &all, &|s, _, _| walk(s, Walk::Backward), false)
}

fn writes(table: &mut Table, on: &mut Loaded<'_>, updates: u64, commits: u64) -> Result<()> {
    let size = on.shape.size;
    let random = |round: u64, ops: u64| Random::new(round + 1, size).take(ops as usize).collect::<Vec<u64>>();
    table.work(
        "random update, 10,000 to a commit",
        on,
        UPDATE,
        &|round| random(round, updates),
        &|s, n, round| s.put(n, BATCH, round + 1).map(|()| 0),
        true,
    )?;
    table.work(
        "random update, 1 to a commit",
        on,
        SINGLE,
        &|round| random(round, commits),
        &|s, n, round| s.put(n, 1, round + 1000).map(|()| 0),
        true,
    )
}

/// Rows under numbers that count up.
fn by_row(table: &mut Table, size: u64) -> Result<()> {
    let (form, scale) = (Form { keys: KeyForm::Dense, value: 100 }, table.scale);
    let (appending, getting) =
        ("append of rows, 1M of 100 bytes", "random get by row number, 1M rows of 100 bytes");
    if scale.wants(appending) {
        eprintln!("kv: {appending}");
        let opened = rows_of(CLASS, form)?;
        let turn = |side: &OpenedRows, round: u64| {
            let append = || side.rows.append(round * size + 1, size, BATCH as u64).map(|()| 0);
            let turn = Turn::single(size, append)?;
            let all: Vec<u64> = (1..=(round + 1) * size).collect();
            Ok(Turn { answer: Some(side.rows.get(&all)?), ..turn })
        };
        let sides = opened.iter();
        let mut sides: Vec<Side<'_>> =
            sides.map(|o| Side { name: o.name, turn: Box::new(move |round| turn(o, round)) }).collect();
        table.add(appending, NO_GOAL, &mut sides)?;
    }
    if scale.wants(getting) {
        eprintln!("kv: {getting}");
        let opened = rows_of(CLASS, form)?;
        opened.iter().try_for_each(|side| side.rows.append(1, size, BATCH as u64))?;
        let ops = scale.of(200_000);
        let turn = |side: &OpenedRows, round: u64| {
            let numbers: Vec<u64> = Random::new(round, size).map(|n| n + 1).take(ops as usize).collect();
            Turn::single(ops, || side.rows.get(&numbers))
        };
        let sides = opened.iter();
        let mut sides: Vec<Side<'_>> =
            sides.map(|o| Side { name: o.name, turn: Box::new(move |round| turn(o, round)) }).collect();
        table.add(getting, BY_ROW, &mut sides)?;
    }
    Ok(())
}

pub(super) fn run(scale: Scale) -> Result<Vec<Row>> {
    let mut table = Table { scale, out: Vec::new() };
    let of = |shape: Shape| Shape { size: scale.of(shape.size), ..shape };
    for (shape, loaders, sides) in [
        (shape(10_000, KeyForm::Spread, 100), WRITERS, ALL),
        (shape(100_000, KeyForm::Spread, 100), WRITERS, ALL),
        (shape(1_000_000, KeyForm::Spread, 100), WRITERS, FAST),
        (shape(100_000, KeyForm::Long, 100), WRITERS, ALL),
        (shape(1_000_000, KeyForm::Long, 100), WRITERS, FAST),
        (shape(100_000, KeyForm::Spread, 1000), WRITERS, ALL),
        (shape(10_000, KeyForm::Spread, 10_000), WRITERS, ALL),
    ] {
        let shape = of(shape);
        let large = shape.form.value > 1000;
        loads(&mut table, shape, loaders)?;
        let mut on = Loaded::new(shape, sides);
        reads(&mut table, &mut on, scale.of(200_000))?;
        drop(on);
        let mut on = Loaded::new(shape, loaders);
        writes(&mut table, &mut on, scale.of(if large { 20_000 } else { 100_000 }), scale.of(20_000))?;
    }
    let mut on = Loaded::new(of(shape(10_000, KeyForm::Spread, 100)), FAST);
    let none = |_| vec![0; scale.of(500_000) as usize];
    let begin: Work<'_> = &|s, n, _| s.snapshots(n.len() as u64).map(|()| 0);
    table.work("begin and end a snapshot", &mut on, SNAPSHOT, &none, begin, false)?;
    by_row(&mut table, scale.of(1_000_000))?;
    Ok(table.out)
}
