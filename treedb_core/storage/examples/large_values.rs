//! The cost of large values, in elapsed time and in CPU time of the working thread.
//!
//! `cargo run --release -p treedb_storage --example large_values -- [KEYS] [BYTES]`
//!
//! Puts KEYS values of BYTES bytes in random order, 1,000 to a commit, updates them, updates one to a commit, scans them
//! and gets them. The directory is a temporary one, commits are relaxed.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use treedb_storage::{Durability, Options, Reads, Store, Table, TableKind};

type Done = Result<(), Box<dyn std::error::Error>>;

fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Says what each of `ops` steps of `work` took.
fn time(what: &str, ops: u64, work: impl FnOnce() -> Done) -> Done {
    let (begun, busy) = (Instant::now(), cpu());
    work()?;
    let per = |took: Duration| took.as_secs_f64() * 1e6 / ops as f64;
    println!("{what:<28} {:>8.2} us, {:>8.2} us of the processor", per(begun.elapsed()), per(cpu() - busy));
    Ok(())
}

fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn put(store: &Store, table: &Table, numbers: impl Iterator<Item = u64>, batch: usize, value: &[u8]) -> Done {
    let mut txn = store.begin_write()?;
    for (i, n) in numbers.enumerate() {
        txn.put(table, &key(n), value)?;
        if i % batch == batch - 1 {
            txn.commit()?;
            txn = store.begin_write()?;
        }
    }
    Ok(txn.commit()?)
}

fn main() -> Done {
    let mut args = std::env::args().skip(1);
    let mut number = |default: u64| args.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (keys, bytes) = (number(10_000), number(10_000));
    let dir = std::env::temp_dir().join(format!("treedb-large-values-{}", std::process::id()));
    let mut options = Options::default();
    options.durability = Durability::Relaxed;
    let store = Store::open_with(&dir, options)?;
    let mut txn = store.begin_write()?;
    let table = txn.create_table("t", TableKind::Ordered)?;
    txn.commit()?;
    let value = vec![7; bytes as usize];
    let mixed = |round: u64| (0..keys).map(move |n| (n * 7919 + round) % keys);
    time("put, 1,000 to a commit", keys, || put(&store, &table, mixed(0), 1000, &value))?;
    for round in 1..4 {
        time("update, 1,000 to a commit", keys, || put(&store, &table, mixed(round), 1000, &value))?;
    }
    for round in 4..6 {
        time("update, all in a commit", keys, || put(&store, &table, mixed(round), usize::MAX, &value))?;
    }
    for round in 6..9 {
        time("update, 1 to a commit", keys, || put(&store, &table, mixed(round), 1, &value))?;
    }
    store.checkpoint()?;
    let read = store.begin_read()?;
    let mut sum = 0u64;
    for _ in 0..3 {
        time("scan", keys, || {
            let mut cursor = read.cursor(&table)?;
            while cursor.next()? {
                sum += cursor.value()?.map_or(0, |value| u64::from(value[0]) + value.len() as u64);
            }
            Ok(())
        })?;
        time("get", keys, || {
            for n in mixed(1) {
                sum += read.get(&table, &key(n))?.map_or(0, |value| u64::from(value[0]));
            }
            Ok(())
        })?;
    }
    println!("{sum} in all; {:?}", store.stats().values);
    drop(read);
    store.close()?;
    Ok(std::fs::remove_dir_all(&dir)?)
}
