//! The cost of a page cache and of encryption compared with the map: gets and cursor steps, interleaved in one process, in
//! thread CPU time. `cargo run --release -p treedb_storage --example cache_cost`
//!
//! `all` has everything in its cache, `1/20` a twentieth: nearly every get reads a page from the system's page cache.

use std::error::Error;

use rustix::time::{ClockId, clock_gettime};
use treedb_storage::{Durability, Options, Reads, Store, Table, TableKind};
use treedb_storage::{Key, Result};
use treedb_testing::Rng;

const KEYS: u64 = 200_000;
const GETS: u64 = 100_000;
const ROUNDS: usize = 5;

/// Nanoseconds of this thread.
fn now() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

struct Side {
    name: &'static str,
    store: Store,
    table: Table,
    gets: Vec<u64>,
    steps: Vec<u64>,
}

fn open(name: &'static str, dir: &std::path::Path, cache: Option<u64>, secret: bool) -> Result<Side> {
    let mut options = Options::default();
    options.durability = Durability::Relaxed;
    options.cache_bytes = cache;
    options.key = if secret { Some(Key::generate()?) } else { None };
    let store = Store::open_with(dir.join(name.replace('/', "-")), options)?;
    let mut txn = store.begin_write()?;
    let table = txn.create_table("t", TableKind::Ordered)?;
    for n in 0..KEYS {
        txn.put(&table, &n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), &[n as u8; 100])?;
    }
    txn.commit()?;
    store.checkpoint()?;
    Ok(Side { name, store, table, gets: Vec::new(), steps: Vec::new() })
}

impl Side {
    fn round(&mut self, seed: u64) -> Result<()> {
        let mut read = self.store.begin_read()?;
        let begun = now();
        let mut rng = Rng::new(seed);
        for n in 0..GETS {
            let key = (rng.next_u64() % KEYS).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            assert!(read.get(&self.table, &key.to_be_bytes())?.is_some());
            if n % 1000 == 999 {
                read.forget();
            }
        }
        self.gets.push((now() - begun) / GETS);
        let begun = now();
        let mut cursor = read.cursor(&self.table)?;
        let mut bytes = 0;
        while cursor.next()? {
            bytes += cursor.entry()?.map_or(0, |(key, value)| key.len() + value.len());
        }
        assert_eq!(bytes as u64, KEYS * 108);
        self.steps.push((now() - begun) / KEYS);
        Ok(())
    }
}

fn median(times: &mut [u64]) -> u64 {
    times.sort_unstable();
    times[times.len() / 2]
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::temp_dir().join(format!("treedb-cache-cost-{}", std::process::id()));
    let mut sides = vec![
        open("mapped", &dir, None, false)?,
        open("cached, all", &dir, Some(256 << 20), false)?,
        open("encrypted, all", &dir, Some(256 << 20), true)?,
        open("cached, 1/20", &dir, Some(2 << 20), false)?,
        open("encrypted, 1/20", &dir, Some(2 << 20), true)?,
    ];
    for round in 0..ROUNDS {
        for side in &mut sides {
            side.round(round as u64 + 1)?;
        }
    }
    let misses = |side: &Side| side.store.stats().cache.map_or(0, |cache| cache.misses);
    println!("{:16} {:>10} {:>12} {:>14}", "", "get, ns", "step, ns", "pages read");
    for side in &mut sides {
        let misses = misses(side);
        println!(
            "{:16} {:>10} {:>12} {:>14}",
            side.name,
            median(&mut side.gets),
            median(&mut side.steps),
            misses
        );
    }
    drop(sides);
    std::fs::remove_dir_all(dir)?;
    Ok(())
}
