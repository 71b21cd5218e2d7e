//! How long a store takes to open after a clean shutdown, and after its process was killed.
//!
//! `cargo run --release -p treedb_storage --example opening -- [KEYS] [COMMANDS] [PAGES MIB]`
//!
//! Opens a store of KEYS keys that was closed, half of whose pages are free, in files of at least PAGES MIB; then a copy of
//! its files taken when COMMANDS puts and deletes, ten to a transaction, were in the log but in no checkpoint. The
//! directory is a temporary one.

use std::path::Path;
use std::time::{Duration, Instant};

use treedb_storage::{Durability, Options, Reads, Store, TableKind};

type Done = Result<(), Box<dyn std::error::Error>>;

fn copy(from: &Path, to: &Path) -> Done {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            std::fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

/// How long each of a few openings takes, after a close each.
fn times(dir: &Path, options: &Options) -> Result<Vec<Duration>, Box<dyn std::error::Error>> {
    let mut times = Vec::new();
    for _ in 0..5 {
        let begun = Instant::now();
        let store = Store::open_with(dir, options.clone())?;
        times.push(begun.elapsed());
        store.close()?;
    }
    Ok(times)
}

fn main() -> Done {
    let mut args = std::env::args().skip(1);
    let mut number = |default: u64| args.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (keys, commands, mib) = (number(1_000_000), number(1_000_000), number(0));
    let temp = std::env::temp_dir().join(format!("treedb-opening-{}", std::process::id()));
    let dir = temp.join("store");
    let mut options = Options::default();
    options.checkpoint_log_bytes = 4 << 30;
    let store = Store::open_with(&dir, options.clone())?;
    let mut txn = store.begin_write()?;
    let table = txn.create_table("t", TableKind::Ordered)?;
    let ballast = txn.create_table("ballast", TableKind::Rows)?;
    let key = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    for n in 0..keys.max(mib << 10) {
        if n < keys {
            txn.put(&table, &key(n), &[1; 100])?;
        }
        if n < mib << 10 {
            txn.append_row(&ballast, &[2; 1000])?;
        }
        if n % 10_000 == 9_999 {
            txn.commit_with(Durability::None)?;
            txn = store.begin_write()?;
        }
    }
    txn.commit_with(Durability::None)?;
    // Every other page of the ballast's becomes a free one.
    let mut txn = store.begin_write()?;
    for row in (1..=mib << 10).filter(|row| row / 3 % 2 == 0) {
        txn.delete_row(&ballast, row)?;
    }
    txn.commit_with(Durability::None)?;
    store.checkpoint()?;
    let stats = store.stats();
    store.close()?;
    println!("{keys} keys, page file of {} MiB: {:?}", stats.page_file_bytes >> 20, stats.pages);
    println!("open after a close: {:?}", times(&dir, &options)?);

    let store = Store::open_with(&dir, options.clone())?;
    for from in (0..commands).step_by(10) {
        let mut txn = store.begin_write()?;
        for n in from..from + 10 {
            if n % 4 == 3 {
                txn.delete(&table, &key((n - 3).wrapping_mul(31) % keys))?;
            } else {
                txn.put(&table, &key(n.wrapping_mul(31) % keys), &[3; 20])?;
            }
        }
        txn.commit_with(Durability::Relaxed)?;
    }
    copy(&dir, &temp.join("copy"))?;
    store.close()?;
    println!("open after these commands and a close: {:?}", times(&dir, &options)?);
    let begun = Instant::now();
    let store = Store::open_with(temp.join("copy"), options)?;
    let took = begun.elapsed();
    let log = store.stats().log;
    println!(
        "recovery: {commands} commands, {} MiB of log, in {took:?}: {:.0} commands/s",
        log.bytes >> 20,
        commands as f64 / took.as_secs_f64()
    );
    let read = store.begin_read()?;
    println!("{} entries", read.len(&table)?);
    drop(read);
    drop(store);
    std::fs::remove_dir_all(&temp)?;
    Ok(())
}
