//! Durable commits a second, beside the disk's own rate.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::Scale;
use crate::Result;
use crate::contest::{Figures, Side, Turn, Unit, contest};
use crate::report::{Goals, Row, hint, rows};
use crate::sides::{Class, Folder, Form, KeyForm, Keys, Opened, Peer, Walk};

pub(super) const ABOUT: &str = "Every commit is flushed to the disk before it returns. Producers put 100 bytes to a \
    commit, with 8-byte keys in no order; with several the order of commits is left to each side: TreeDB and RocksDB \
    share flushes between commits, the other peers have one writer at a time. The disk itself is a loop that writes \
    4 KiB into a laid-out file and flushes it. Transactions of several entries are one producer's, their \
    keys spread over the table. After each round the whole table goes into a checksum that all sides must agree on. \
    Rows against TreeDB itself are of a store of its own, in the same rounds.";

const PEERS: &[Peer] =
    &[Peer::TreeDb, Peer::Lmdb, Peer::Mdbx, Peer::Redb, Peer::Fjall, Peer::RocksDb, Peer::Sqlite];
const FORM: Form = Form { keys: KeyForm::Spread, value: 100 };
const CLASS: Class = Class::Durable;
const UNIT: Unit = Unit::OpsPerSecond;
const AGAINST: Goals<'_> = &[("the disk", 0.9), ("SQLite", 5.0), ("redb", 3.0)];
const AGAINST_MANY: Goals<'_> = &[("SQLite", 5.0), ("redb", 3.0)];
/// Of the four sizes: ahead of SQLite.
const AHEAD: Goals<'_> = &[("SQLite", 1.0)];

/// `threads` threads commit `each` numbers of their own, one at a time.
fn produce(side: &dyn Keys, threads: usize, each: usize, version: u64) -> Result<()> {
    let numbers: Vec<u64> = (0..(threads * each) as u64).collect();
    std::thread::scope(|scope| {
        let run = |numbers| side.put(numbers, 1, version);
        let all: Vec<_> = numbers.chunks(each).map(|numbers| scope.spawn(move || run(numbers))).collect();
        all.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a producer panicked")?)
    })
}

/// A laid-out file to write into.
struct Disk {
    file: File,
    _folder: Folder,
}

impl Disk {
    const BYTES: u64 = 16 << 20;

    fn new() -> Result<Disk> {
        let folder = Folder::new("disk")?;
        let file = File::options().create_new(true).write(true).open(folder.path().join("file"))?;
        file.write_all_at(&vec![0; Disk::BYTES as usize], 0)?;
        file.sync_all()?;
        Ok(Disk { file, _folder: folder })
    }

    fn turn(&self, count: u64) -> Result<Turn> {
        Turn::timed(count, || {
            for i in 0..count {
                self.file.write_all_at(&[i as u8; 4096], i * 4096 % Disk::BYTES)?;
                self.file.sync_data()?;
            }
            Ok(0)
        })
        .map(|turn| Turn { answer: None, ..turn })
    }
}

fn checked(side: &dyn Keys, turn: Turn) -> Result<Turn> {
    Ok(Turn { answer: Some(side.walk(Walk::Whole)?), ..turn })
}

/// The figures of each count of producers; all counts take turns within a round.
fn producers(scale: Scale, threads: usize, commits: u64) -> Result<Vec<Figures>> {
    let each = (scale.of(commits) as usize / threads).max(1);
    let ops = (each * threads) as u64;
    let opened = Peer::all(PEERS, CLASS, FORM)?;
    let turn = |side: &dyn Keys, round| {
        checked(side, Turn::timed(ops, || produce(side, threads, each, round).map(|()| 0))?)
    };
    let mut sides: Vec<Side<'_>> = opened
        .iter()
        .map(|o: &Opened| Side { name: o.name, turn: Box::new(move |round| turn(o.keys.as_ref(), round)) })
        .collect();
    let few = scale.of(500);
    if threads == 1 {
        let disk = Disk::new()?;
        sides.push(Side { name: "the disk", turn: Box::new(move |_| disk.turn(few)) });
    } else {
        let alone = Peer::TreeDb.keys(CLASS, FORM)?;
        let turn = move |round| -> Result<Turn> {
            let turn = Turn::timed(few, || produce(alone.keys.as_ref(), 1, few as usize, round).map(|()| 0))?;
            Ok(Turn { answer: None, ..turn })
        };
        sides.push(Side { name: "TreeDB, 1 producer", turn: Box::new(turn) });
    }
    contest(UNIT, scale.rounds, &mut sides)
}

/// Transactions of `size` entries, `count` of them, by one producer.
fn transactions(scale: Scale, count: u64, size: u64) -> Result<Vec<Figures>> {
    let opened = Peer::all(PEERS, CLASS, FORM)?;
    let (count, size) = (scale.of(count), size as usize);
    let numbers: Vec<u64> = (0..count * size as u64).collect();
    let turn = |side: &dyn Keys, round| {
        checked(side, Turn::timed(count, || side.put(&numbers, size, round).map(|()| 0))?)
    };
    let mut sides: Vec<Side<'_>> = opened
        .iter()
        .map(|o: &Opened| Side { name: o.name, turn: Box::new(move |round| turn(o.keys.as_ref(), round)) })
        .collect();
    contest(UNIT, scale.rounds, &mut sides)
}

pub(super) fn run(scale: Scale) -> Result<Vec<Row>> {
    let mut out = Vec::new();
    let mut add = |name: &str, goals, figures: &dyn Fn() -> Result<Vec<Figures>>| -> Result<()> {
        if scale.wants(name) {
            eprintln!("durable: {name}");
            let rows = rows(name, CLASS.label(), UNIT, figures()?, goals);
            rows.iter().for_each(hint);
            out.extend(rows);
        }
        Ok(())
    };
    let many_16: Goals<'_> = &[("TreeDB, 1 producer", 4.5), AGAINST_MANY[0], AGAINST_MANY[1]];
    let many_64: Goals<'_> = &[("TreeDB, 1 producer", 8.0), AGAINST_MANY[0], AGAINST_MANY[1]];
    add("durable commits, 1 producer", AGAINST, &|| producers(scale, 1, 500))?;
    add("durable commits, 16 producers", many_16, &|| producers(scale, 16, 2000))?;
    add("durable commits, 64 producers", many_64, &|| producers(scale, 64, 4000))?;
    // A part of the seed's counts of the first two, so that the suite stays within minutes on slow disks.
    for (count, size) in [(1000, 1), (500, 100), (100, 1000), (10, 10_000)] {
        let name = format!("durable transactions of {size} entries, {count} of them");
        add(&name, AHEAD, &|| transactions(scale, count, size))?;
    }
    Ok(out)
}
