//! The longest stall of a relaxed write while checkpoints are made concurrently.
//!
//! `cargo run --release -p treedb_storage --example stalls -- [SECONDS] [KEYS] [LOG MIB]`
//!
//! One thread commits single puts of 100 bytes under random keys as fast as it can, in a store of KEYS keys that makes a
//! checkpoint whenever the log has grown by LOG MIB, and times each commit. The time for which the thread was runnable but
//! had no processor, according to the system, is left out: other programs cause that. The directory is a temporary one.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use treedb_storage::{Durability, Options, Store, TableKind};
use treedb_testing::Rng;

/// For how long this thread has waited for a processor so far.
fn waited(schedstat: &File) -> Duration {
    let mut text = [0; 64];
    let len = schedstat.read_at(&mut text, 0).unwrap_or(0);
    let text = std::str::from_utf8(text.get(..len).unwrap_or_default()).unwrap_or_default();
    Duration::from_nanos(text.split_whitespace().nth(1).and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mut number = |default: u64| args.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (seconds, keys, log) = (number(10), number(1_000_000), number(32));
    let dir = std::env::temp_dir().join(format!("treedb-stalls-{}", std::process::id()));
    let mut options = Options::default();
    options.checkpoint_log_bytes = log << 20;
    let store = Store::open_with(&dir, options)?;
    let key = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let mut txn = store.begin_write()?;
    let table = txn.create_table("t", TableKind::Ordered)?;
    for n in 0..keys {
        txn.put(&table, &key(n), &[1; 100])?;
        if n % 10_000 == 9_999 {
            txn.commit_with(Durability::Relaxed)?;
            txn = store.begin_write()?;
        }
    }
    txn.commit_with(Durability::Relaxed)?;
    store.checkpoint()?;

    let schedstat = File::open("/proc/thread-self/schedstat")?;
    let mut times = Vec::new();
    let (begun, mut rng) = (Instant::now(), Rng::new(1));
    let first = store.stats().checkpoint;
    let (mut checkpoints, mut last) = (0, first);
    while begun.elapsed() < Duration::from_secs(seconds) {
        let (started, before) = (Instant::now(), waited(&schedstat));
        let mut txn = store.begin_write()?;
        txn.put(&table, &key(rng.next_u64() % keys), &[2; 100])?;
        txn.commit_with(Durability::Relaxed)?;
        let whole = started.elapsed();
        times.push(whole.saturating_sub(waited(&schedstat).saturating_sub(before)));
        if times.len() % 1000 == 0 && store.stats().checkpoint != last {
            last = store.stats().checkpoint;
            checkpoints += 1;
        }
    }
    times.sort_unstable();
    let at = |part: f64| times.get((times.len() as f64 * part) as usize).copied().unwrap_or_default();
    println!("{} commits of one put, {checkpoints} checkpoints, {keys} keys", times.len());
    println!("median {:?}, 99 % {:?}, 99.9 % {:?}, 99.99 % {:?}", at(0.5), at(0.99), at(0.999), at(0.9999));
    for limit in [1, 5, 10, 20, 50, 100] {
        let over = times.iter().filter(|time| **time > Duration::from_millis(limit)).count();
        println!("over {limit:>3} ms: {over}");
    }
    let longest: Vec<_> = times.iter().rev().take(5).collect();
    println!("longest: {longest:?}");
    println!("{:?}", store.stats());
    store.close()?;
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
