//! The machine, the commit and the peers' versions that a result file names.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::{Map, Value};

use crate::Result;
use crate::comparison::median;
use crate::results::Machine;

fn line_of(path: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|l| l.starts_with(key))?;
    Some(line.split_once(':').map_or(line, |(_, value)| value).trim().to_owned())
}

fn output(program: &str, args: &[&str]) -> Option<String> {
    let out = Command::new(program).args(args).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// The type of the file system that `dir` is on.
fn file_system(dir: &Path) -> Option<String> {
    let dir = fs::canonicalize(dir).ok()?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?.to_owned(), words.next()?.to_owned()))
    });
    mounts.filter(|(at, _)| dir.starts_with(at)).max_by_key(|(at, _)| at.len()).map(|(_, kind)| kind)
}

/// The median time in microseconds to write 4 KiB to a preallocated file and flush it: the minimum cost of one durable
/// commit.
fn flush_micros(dir: &Path) -> Result<f64> {
    let path = dir.join("flush-probe");
    let mut file = fs::File::options().create(true).write(true).truncate(true).open(&path)?;
    file.write_all(&vec![0; 1 << 20])?;
    file.sync_all()?;
    let mut times = Vec::new();
    for i in 0..200u64 {
        let start = Instant::now();
        file.write_all_at(&[i as u8; 4096], (i % 256) * 4096)?;
        file.sync_data()?;
        times.push(start.elapsed().as_nanos() as f64 / 1000.0);
    }
    fs::remove_file(&path)?;
    Ok(median(&times))
}

/// The checkout that the program was built from.
const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Whether tracked files differ from the last commit. What the benchmarks themselves write does not count.
pub fn has_uncommitted_changes() -> bool {
    let written = [":!bench/results", ":!docs/benchmarks.md", ":!docs/benchmarks", ":!README.md"];
    let args = ["-C", CHECKOUT, "status", "--porcelain", "--untracked-files=no", "--", "."];
    let args: Vec<&str> = args.into_iter().chain(written).collect();
    output("git", &args).is_none_or(|changes| !changes.is_empty())
}

/// Describes the machine, the commit and the peers for a result file.
///
/// # Errors
/// If `dir` cannot be written to.
pub fn describe(dir: &Path) -> Result<Machine> {
    let commit = output("git", &["-C", CHECKOUT, "rev-parse", "--short=12", "HEAD"]);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    Ok(Machine {
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        cpu: line_of("/proc/cpuinfo", "model name").unwrap_or_default(),
        memory: line_of("/proc/meminfo", "MemTotal").unwrap_or_default(),
        kernel: kernel.trim().split('-').next().unwrap_or_default().to_owned(),
        file_system: file_system(dir).unwrap_or_default(),
        write_and_fdatasync_us: (flush_micros(dir)? * 10.0).round() / 10.0,
        load_at_start: load.split(' ').next().unwrap_or_default().to_owned(),
        rustc: output("rustc", &["--version"]).unwrap_or_default(),
        commit: commit.unwrap_or_else(|| "unknown".to_owned()),
        dirty: has_uncommitted_changes(),
        peers: peers(),
    })
}

/// The peers' versions: as reported by C libraries, and from the lock file for crates.
fn peers() -> Map<String, Value> {
    let lmdb = heed::lmdb_version();
    let mut peers = Map::new();
    let mut add = |name: &str, version: Option<String>| {
        peers.insert(name.to_owned(), version.unwrap_or_else(|| "unknown".to_owned()).into());
    };
    add("SQLite", Some(rusqlite::version().to_owned()));
    add("LMDB", Some(format!("{}.{}.{}", lmdb.major, lmdb.minor, lmdb.patch)));
    if cfg!(feature = "peers") {
        add("libmdbx", locked(LOCK, "mdbx-sys"));
        add("redb", locked(LOCK, "redb"));
        add("fjall", locked(LOCK, "fjall"));
        add("RocksDB", output("dpkg-query", &["-W", "-f", "${Version}", "librocksdb-dev"]));
        add("USearch", locked(LOCK, "usearch"));
        add("PoloDB", locked(POLODB_LOCK, "polodb_core"));
    }
    if cfg!(feature = "mongo-driver") {
        add("MongoDB's driver for Rust", locked(LOCK, "mongodb"));
    }
    peers
}

const LOCK: &str = include_str!("../../Cargo.lock");
const POLODB_LOCK: &str = include_str!("../polodb/Cargo.lock");

/// The version of a package in a lock file.
fn locked(lock: &str, package: &str) -> Option<String> {
    let (_, after) = lock.split_once(&format!("name = \"{package}\"\nversion = \""))?;
    Some(after.split_once('"')?.0.to_owned())
}
