//! Opening: after a clean close, and after the process was killed.

use std::fs;

use super::Scale;
use crate::Result;
use crate::child::{SMALL, start};
use crate::contest::{Figures, Side, Turn, Unit, contest};
use crate::report::{Goals, Row, THE_GOAL, hint, rows};
use crate::sides::{CACHE, Class, Folder, Peer, Walk};

pub(super) const ABOUT: &str = "8-byte keys in no order, values of 100 bytes. After a clean close: what it takes to \
    open the store and get one key; the files are in the system's cache. After a kill: a process puts entries, 100 to \
    a commit, nothing flushed, and is aborted; the figure is entries a second while opening, TreeDB replaying its \
    whole log. The others that are shown keep a log, too: RocksDB and fjall read it into memory. All tables must be \
    equal afterwards.";

const ALL: &[Peer] =
    &[Peer::TreeDb, Peer::Lmdb, Peer::Mdbx, Peer::Redb, Peer::Fjall, Peer::RocksDb, Peer::Sqlite];
const FEW: &[Peer] = &[Peer::TreeDb, Peer::Lmdb];
/// Those with a log to replay.
const LOGGING: &[Peer] = &[Peer::TreeDb, Peer::Fjall, Peer::RocksDb];
/// Microseconds an opening may take.
const OPENING: f64 = 5000.0;
/// Commands a second that recovery must replay.
const REPLAY: f64 = 500_000.0;
const GOAL: Goals<'_> = &[(THE_GOAL, 1.0)];

/// Openings of closed stores.
fn clean(scale: Scale, peers: &[Peer], size: u64) -> Result<Vec<Figures>> {
    let mut sides: Vec<Side<'_>> = Vec::new();
    for peer in peers.iter().filter(|peer| peer.is_here()) {
        let folder = Folder::new("open")?;
        let side = peer.open(Class::Relaxed, SMALL, folder.path(), CACHE)?;
        side.put(&SMALL.sorted(size), 10_000, 0)?;
        side.settle()?;
        drop(side);
        let turn = move |round: u64| {
            let mut opened = None;
            // Closing is outside the timer.
            let turn = Turn::timed(1, || {
                let side = opened.insert(peer.open(Class::Relaxed, SMALL, folder.path(), CACHE)?);
                side.get(&[round % size], 1)
            });
            drop(opened);
            turn
        };
        sides.push(Side { name: peer.name(), turn: Box::new(turn) });
    }
    let mut figures = contest(Unit::Microseconds, scale.rounds, &mut sides)?;
    figures.push(Figures::to_reach(OPENING));
    Ok(figures)
}

/// Openings of stores whose process was killed.
fn killed(scale: Scale, count: u64) -> Result<Vec<Figures>> {
    let mut sides: Vec<Side<'_>> = Vec::new();
    for peer in LOGGING.iter().filter(|peer| peer.is_here()) {
        let turn = move |_| {
            let folder = Folder::new("killed")?;
            let path = folder.path().to_str().ok_or("the bench folder's name is not text")?;
            start(&["die", peer.name(), path, &count.to_string()])?;
            let mut opened = None;
            let turn = Turn::timed(count, || {
                let side = opened.insert(peer.open(Class::Relaxed, SMALL, folder.path(), CACHE)?);
                side.get(&[count / 2], 1)
            })?;
            let answer = opened.as_ref().map(|side| side.walk(Walk::Whole)).transpose()?;
            drop(opened);
            fs::remove_dir_all(folder.path())?;
            Ok(Turn { answer, ..turn })
        };
        sides.push(Side { name: peer.name(), turn: Box::new(turn) });
    }
    let mut figures = contest(Unit::OpsPerSecond, scale.rounds, &mut sides)?;
    figures.push(Figures::to_reach(REPLAY));
    Ok(figures)
}

pub(super) fn run(scale: Scale) -> Result<Vec<Row>> {
    let mut out = Vec::new();
    let mut add = |name: &str, unit, figures: &dyn Fn() -> Result<Vec<Figures>>| -> Result<()> {
        if scale.wants(name) {
            eprintln!("open: {name}");
            let rows = rows(name, Class::Relaxed.label(), unit, figures()?, GOAL);
            rows.iter().for_each(hint);
            out.extend(rows);
        }
        Ok(())
    };
    for (size, label, peers) in [(10_000, "10k", ALL), (1_000_000, "1M", ALL), (10_000_000, "10M", FEW)] {
        let name = format!("open after a clean close, {label} keys");
        add(&name, Unit::Microseconds, &|| clean(scale, peers, scale.of(size)))?;
    }
    add("replay of 300k small commands after a kill", Unit::OpsPerSecond, &|| {
        killed(scale, scale.of(300_000))
    })?;
    Ok(out)
}
