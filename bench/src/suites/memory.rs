//! Data that does not fit in memory.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};

use super::{MIN_ROUNDS, Scale};
use crate::Result;
use crate::comparison::{Candidate, Measurement, Samples, Unit, compare};
use crate::engines::{DataDir, DurabilityClass, Engine};
use crate::report::{Goals, Row, progress, rows};
use crate::worker::start;

pub(super) const ABOUT: &str = "Random gets, 1,000 per snapshot, among a million entries of 1,000 bytes. Each engine runs in a \
    process of its own in a control group with a memory limit, which includes the page cache. Before each measurement \
    the files are dropped from the page cache, and as many gets as are measured run to fill it again. RocksDB has half \
    of the limit as its block cache; it compresses its blocks with zstd, so that its data is smaller than that of the \
    others. LMDB and libmdbx are opened without read-ahead; TreeDB turns it off by itself. This suite needs root.";

const PEERS: &[Engine] = &[Engine::TreeDb, Engine::Lmdb, Engine::Mdbx, Engine::RocksDb];
const GOALS: Goals<'_> = &[("LMDB", 0.9)];
const ENTRIES: u64 = 1_000_000;

/// A control group with a memory limit (cgroup v1 or v2).
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
        Err("cannot create a control group with a memory limit: this suite needs root and the memory controller".into())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Flushes all files of a directory and drops them from the page cache, because cached pages are charged to the group
/// that read them first.
fn drop_from_page_cache(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            drop_from_page_cache(&path)?;
        } else {
            let file = fs::File::open(&path)?;
            file.sync_all()?;
            fadvise(&file, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}

fn gets(scale: Scale, fraction: u64) -> Result<Vec<Samples>> {
    let size = scale.of(ENTRIES);
    let limit = (size * 1000 / fraction).max(64 << 20);
    let group = Group::new(limit)?;
    let at = group.0.to_str().ok_or("the path of the control group is not UTF-8")?;
    let cache = (limit / 2).to_string();
    let ops = scale.of(if fraction > 1 { 60_000 } else { 200_000 });
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    for peer in PEERS.iter().filter(|peer| peer.is_available()) {
        let data_dir = DataDir::new("memory")?;
        let path = data_dir.path().to_str().ok_or("the path of the data directory is not UTF-8")?.to_owned();
        start(&["fill", peer.name(), &path, &size.to_string()])?;
        let cache = cache.clone();
        let run = move |round: u64| {
            drop_from_page_cache(data_dir.path())?;
            let (ops_text, size, seed) = (ops.to_string(), size.to_string(), (round + 1).to_string());
            let output = start(&["gets", peer.name(), &path, &ops_text, &size, &seed, &cache, at])?;
            let (spent, checksum) = output.split_once(' ').ok_or("the worker printed nothing")?;
            Ok(Measurement { ops, spent: spent.parse()?, checksum: Some(checksum.parse()?) })
        };
        candidates.push(Candidate { name: peer.name(), run: Box::new(run) });
    }
    compare(Unit::NanosPerOp, scale.rounds.min(MIN_ROUNDS), &mut candidates)
}

pub(super) fn run(scale: Scale) -> Result<Vec<Row>> {
    let mut out = Vec::new();
    for (fraction, name) in
        [(4, "random get, data 4 times the memory"), (2, "random get, data twice the memory")]
    {
        if scale.wants(name) {
            eprintln!("memory: {name}");
            let goals = if fraction == 4 { GOALS } else { &[] };
            let rows =
                rows(name, DurabilityClass::Relaxed.label(), Unit::NanosPerOp, gets(scale, fraction)?, goals);
            rows.iter().for_each(progress);
            out.extend(rows);
        }
    }
    Ok(out)
}
