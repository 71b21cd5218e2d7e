//! Work that needs a process of its own, because it is killed or has little memory.
//!
//! The benchmark program starts itself again with [`COMMAND`] and the arguments of a task; the worker prints one line.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use bench_common::Random;

use crate::Result;
use crate::comparison::Measurement;
use crate::engines::{CACHE, DurabilityClass, Engine, EntryFormat, KeyFormat};

/// The first argument of a worker.
pub const COMMAND: &str = "worker";

/// Entries that soon exceed the memory limit.
pub const LARGE: EntryFormat = EntryFormat { keys: KeyFormat::Spread, value: 1000 };
/// Entries of small transactions.
pub const SMALL: EntryFormat = EntryFormat { keys: KeyFormat::Spread, value: 100 };

fn argument<T: FromStr>(args: &[String], at: usize) -> Result<T> {
    args.get(at).and_then(|arg| arg.parse().ok()).ok_or_else(|| "a worker got invalid arguments".into())
}

/// Moves the calling process to a control group.
fn join_group(group: &str) -> Result<()> {
    if group.is_empty() {
        return Ok(());
    }
    Ok(std::fs::write(Path::new(group).join("cgroup.procs"), std::process::id().to_string())?)
}

/// Runs a task in a worker process.
///
/// # Errors
/// From the engine and the file system, or for invalid arguments.
pub fn run(args: &[String]) -> Result<()> {
    let task: String = argument(args, 0)?;
    let engine = Engine::named(&argument::<String>(args, 1)?).ok_or("there is no such engine")?;
    let dir: PathBuf = argument(args, 2)?;
    let count: u64 = argument(args, 3)?;
    match task.as_str() {
        // Fills a store with large entries, in key order, and closes it.
        "fill" => {
            let store = engine.open(DurabilityClass::Relaxed, LARGE, &dir, CACHE)?;
            store.put(&LARGE.sorted(count), 10_000, 0)?;
            store.checkpoint()
        }
        // Fills a store with small transactions, and aborts.
        "abort" => {
            let store = engine.open_without_checkpoints(SMALL, &dir)?;
            store.put(&(0..count).collect::<Vec<u64>>(), 100, 0)?;
            println!("done");
            std::process::abort()
        }
        // Random gets in a control group, after as many to warm the caches.
        "gets" => {
            let (size, seed, cache) = (argument(args, 4)?, argument(args, 5)?, argument(args, 6)?);
            join_group(&argument::<String>(args, 7)?)?;
            let store = engine.open(DurabilityClass::Relaxed, LARGE, &dir, cache)?;
            let mut random = Random::new(seed, size);
            let mut numbers = || random.by_ref().take(count as usize).collect::<Vec<u64>>();
            let (warm_up, timed) = (numbers(), numbers());
            store.get(&warm_up, 1000)?;
            let measured = Measurement::wall_clock(count, || store.get(&timed, 1000))?;
            println!("{} {}", measured.spent, measured.checksum.unwrap_or_default());
            Ok(())
        }
        _ => Err("a worker got an unknown task".into()),
    }
}

/// Starts a worker and returns what it printed.
///
/// # Errors
/// From the system, or if the worker failed (except by the abort it was asked for).
pub fn start(args: &[&str]) -> Result<String> {
    let out = Command::new(std::env::current_exe()?).arg(COMMAND).args(args).output()?;
    let printed = String::from_utf8_lossy(&out.stdout).trim().to_owned();
    if !out.status.success() && printed != "done" {
        return Err(format!("worker {args:?}: {}", String::from_utf8_lossy(&out.stderr).trim()).into());
    }
    Ok(printed)
}
