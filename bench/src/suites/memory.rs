//! Data that does not fit in memory.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};

use super::Scale;
use crate::Result;
use crate::child::start;
use crate::contest::{Figures, Side, Turn, Unit, contest};
use crate::report::{Goals, Row, hint, rows};
use crate::sides::{Class, Folder, Peer};

pub(super) const ABOUT: &str = "Random gets, 1,000 to a snapshot, among a million entries of 1,000 bytes. The limit is \
    that of a control group around a process of its own for each turn, which counts the system's cache of the files \
    as well; as many gets again go before, to fill it, and the files are dropped from the cache before that. RocksDB \
    has half of the limit as its block cache. It compresses its blocks with zstd: its data is smaller than that of \
    the others, and fits better. LMDB and libmdbx are opened without reading ahead, TreeDB sees that it must not. This suite needs root.";

const PEERS: &[Peer] = &[Peer::TreeDb, Peer::Lmdb, Peer::Mdbx, Peer::RocksDb];
const GOALS: Goals<'_> = &[("LMDB", 0.9)];
const ENTRIES: u64 = 1_000_000;

/// A control group with a memory limit, of either version.
struct Group(PathBuf);

impl Group {
    fn new(limit: u64) -> Result<Group> {
        let places = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
            ("/sys/fs/cgroup/unified", "memory.max"),
        ];
        for (at, file) in places {
            let group = Path::new(at).join(format!("treedb-bench-{}", std::process::id()));
            if fs::create_dir(&group).is_err() {
                continue;
            }
            let group = Group(group);
            if fs::write(group.0.join(file), limit.to_string()).is_ok() {
                return Ok(group);
            }
        }
        Err("no control group with a memory limit can be made here: the suite needs root, and the memory controller".into())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Flushes all files of a folder and drops them from the system's cache: what is cached is charged to who read it
/// first.
fn forget(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            forget(&path)?;
        } else {
            let file = fs::File::open(&path)?;
            file.sync_all()?;
            fadvise(&file, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}

fn gets(scale: Scale, fraction: u64) -> Result<Vec<Figures>> {
    let size = scale.of(ENTRIES);
    let limit = (size * 1000 / fraction).max(64 << 20);
    let group = Group::new(limit)?;
    let at = group.0.to_str().ok_or("a control group's name is not text")?;
    let cache = (limit / 2).to_string();
    let ops = scale.of(if fraction > 1 { 60_000 } else { 200_000 });
    let mut sides: Vec<Side<'_>> = Vec::new();
    for peer in PEERS.iter().filter(|peer| peer.is_here()) {
        let folder = Folder::new("memory")?;
        let path = folder.path().to_str().ok_or("the bench folder's name is not text")?.to_owned();
        start(&["fill", peer.name(), &path, &size.to_string()])?;
        let cache = cache.clone();
        let turn = move |round: u64| {
            forget(folder.path())?;
            let (ops_text, size, seed) = (ops.to_string(), size.to_string(), (round + 1).to_string());
            let said = start(&["gets", peer.name(), &path, &ops_text, &size, &seed, &cache, at])?;
            let (spent, answer) = said.split_once(' ').ok_or("a child said nothing")?;
            Ok(Turn { ops, spent: spent.parse()?, answer: Some(answer.parse()?) })
        };
        sides.push(Side { name: peer.name(), turn: Box::new(turn) });
    }
    contest(Unit::NanosPerOp, scale.rounds.min(5), &mut sides)
}

pub(super) fn run(scale: Scale) -> Result<Vec<Row>> {
    let mut out = Vec::new();
    for (fraction, name) in
        [(4, "random get, data 4 times the memory"), (2, "random get, data twice the memory")]
    {
        if scale.wants(name) {
            eprintln!("memory: {name}");
            let goals = if fraction == 4 { GOALS } else { &[] };
            let rows = rows(name, Class::Relaxed.label(), Unit::NanosPerOp, gets(scale, fraction)?, goals);
            rows.iter().for_each(hint);
            out.extend(rows);
        }
    }
    Ok(out)
}
