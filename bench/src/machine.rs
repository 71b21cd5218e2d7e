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
        "peers": {
            "SQLite": rusqlite::version(),
            "LMDB": heed_version(),
        },
    }))
}

fn heed_version() -> String {
    let v = heed::lmdb_version();
    format!("{}.{}.{}", v.major, v.minor, v.patch)
}
