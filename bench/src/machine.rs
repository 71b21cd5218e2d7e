//! What a result was measured on.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use crate::Result;
use crate::contest::median;

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

/// The median time of writing 4 KiB into a laid-out file and flushing it, in microseconds: what one durable commit
/// costs at least.
pub fn flush_micros(dir: &Path) -> Result<f64> {
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

/// Facts for a result file.
///
/// # Errors
/// If the bench folder cannot be written.
pub fn facts(dir: &Path) -> Result<Value> {
    let changed =
        output("git", &["status", "--porcelain", "--untracked-files=no"]).is_none_or(|s| !s.is_empty());
    let commit = output("git", &["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".into());
    Ok(json!({
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "cpu": line_of("/proc/cpuinfo", "model name").unwrap_or_default(),
        "memory": line_of("/proc/meminfo", "MemTotal").unwrap_or_default(),
        "kernel": fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().split('-').next(),
        "file_system": file_system(dir).unwrap_or_default(),
        "write_and_fdatasync_us": (flush_micros(dir)? * 10.0).round() / 10.0,
        "load_at_start": fs::read_to_string("/proc/loadavg").unwrap_or_default().split(' ').next(),
        "rustc": output("rustc", &["--version"]).unwrap_or_default(),
        "commit": if changed { format!("{commit} and uncommitted changes") } else { commit },
        "peers": peers(),
    }))
}

/// The peers' versions: those of C libraries as they say, those of crates from the lock file.
fn peers() -> Value {
    let lmdb = heed::lmdb_version();
    let lmdb = format!("{}.{}.{}", lmdb.major, lmdb.minor, lmdb.patch);
    let mut peers = json!({ "SQLite": rusqlite::version(), "LMDB": lmdb });
    if cfg!(feature = "peers") {
        for (name, package) in [("libmdbx", "mdbx-sys"), ("redb", "redb"), ("fjall", "fjall")] {
            peers[name] = json!(locked(package).unwrap_or_else(|| "unknown".into()));
        }
        let rocksdb = output("dpkg-query", &["-W", "-f", "${Version}", "librocksdb-dev"]);
        peers["RocksDB"] = json!(rocksdb.unwrap_or_else(|| "unknown".into()));
    }
    peers
}

/// The version of a package in the lock file.
fn locked(package: &str) -> Option<String> {
    let lock = include_str!("../../Cargo.lock");
    let (_, after) = lock.split_once(&format!("name = \"{package}\"\nversion = \""))?;
    Some(after.split_once('"')?.0.to_owned())
}
