//! A database many times as large as its cache: memory stays within the limit, and results are correct. The
//! test has its own process, because it checks the memory of the process.

// Clippy does not treat the helper functions of tests as tests.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use treedb_storage::{Durability, Options, Reads, Store, TableKind};
use treedb_testing::Rng;

/// The cache size: 512 pages.
const CACHE: u64 = 2 << 20;
/// About 42 MB of entries.
const KEYS: u64 = 160_000;
const VALUE: usize = 240;
/// Memory in addition to the cache: the log's mapped segment, pages in use by current calls, copied values,
/// the allocator.
const OTHER_MEMORY: u64 = 10 << 20;

/// The resident memory of this process, in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * rustix::param::page_size() as u64
}

fn value(key: u64, version: u64) -> Vec<u8> {
    let mut value = vec![key as u8; VALUE];
    value[..8].copy_from_slice(&key.to_le_bytes());
    value[8..16].copy_from_slice(&version.to_le_bytes());
    value
}

fn is_expected(key: u64, value: &[u8]) -> bool {
    value.len() == VALUE && value[..8] == key.to_le_bytes() && value[16..].iter().all(|&b| b == key as u8)
}

fn options() -> Options {
    let mut options = Options::default();
    options.cache_bytes = Some(CACHE);
    options.log_segment_bytes = 1 << 20;
    options.checkpoint_log_bytes = 4 << 20;
    options
}

#[test]
fn a_database_twenty_times_its_cache_stays_within_the_memory_limit() {
    let dir = tempfile::tempdir().unwrap();
    let before = resident();
    let store = Store::open_with(dir.path(), options()).unwrap();
    let most = AtomicU64::new(0);
    let most_pages = AtomicUsize::new(0);
    let look = || {
        most.fetch_max(resident(), Ordering::Relaxed);
        most_pages.fetch_max(store.stats().cache.unwrap().present, Ordering::Relaxed);
    };
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", TableKind::Ordered).unwrap();
    txn.commit().unwrap();
    for chunk in 0..KEYS / 2000 {
        let mut txn = store.begin_write().unwrap();
        for key in chunk * 2000..(chunk + 1) * 2000 {
            txn.put(&table, &key.to_be_bytes(), &value(key, 0)).unwrap();
        }
        txn.commit_with(Durability::Relaxed).unwrap();
        look();
    }
    store.checkpoint().unwrap();
    assert!(store.stats().page_file_bytes > 20 * CACHE);
    let stop = AtomicBool::new(false);
    let (gets, scanned) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (store, table, stop, gets, scanned) = (&store, &table, &stop, &gets, &scanned);
            scope.spawn(move || {
                let mut rng = Rng::new(thread + 1);
                while !stop.load(Ordering::Relaxed) {
                    let mut read = store.snapshot().unwrap();
                    for n in 0..500 {
                        let key = rng.next_u64() % KEYS;
                        let there = read.get(table, &key.to_be_bytes()).unwrap().unwrap();
                        assert!(is_expected(key, there));
                        if n % 100 == 99 {
                            read.forget();
                        }
                    }
                    gets.fetch_add(500, Ordering::Relaxed);
                    let mut cursor = read.cursor(table).unwrap();
                    let mut on = cursor.seek(&(rng.next_u64() % KEYS).to_be_bytes()).unwrap();
                    let (mut count, mut last) = (0, 0);
                    while on && count < 20_000 && !stop.load(Ordering::Relaxed) {
                        let (key, value) = cursor.entry().unwrap().unwrap();
                        let key = u64::from_be_bytes(key.try_into().unwrap());
                        assert!(is_expected(key, value) && (count == 0 || key == last + 1));
                        (count, last) = (count + 1, key);
                        on = cursor.next().unwrap();
                    }
                    scanned.fetch_add(count, Ordering::Relaxed);
                }
            });
        }
        let begun = Instant::now();
        let mut version = 1;
        while begun.elapsed() < Duration::from_secs(4) {
            let mut txn = store.begin_write().unwrap();
            for n in 0..300u64 {
                let key = (n * 7919 + version * 104_729) % KEYS;
                txn.put(&table, &key.to_be_bytes(), &value(key, version)).unwrap();
            }
            txn.commit_with(Durability::Relaxed).unwrap();
            version += 1;
            look();
        }
        stop.store(true, Ordering::Relaxed);
    });
    let stats = store.stats().cache.unwrap();
    let _ = writeln!(
        std::io::stdout().lock(),
        "\nsummary: memory limit: {} MB in the page file, a cache of {} pages: at most {} in memory; the process grew by \
         {} KB at most; {} gets, {} entries scanned, {} misses, {} evictions, {} early writes",
        store.stats().page_file_bytes >> 20,
        stats.budget,
        most_pages.load(Ordering::Relaxed),
        most.load(Ordering::Relaxed).saturating_sub(before) >> 10,
        gets.load(Ordering::Relaxed),
        scanned.load(Ordering::Relaxed),
        stats.misses,
        stats.evictions,
        stats.early_writes,
    );
    assert!(most_pages.load(Ordering::Relaxed) <= stats.budget + 128, "{stats:?}");
    assert!(most.load(Ordering::Relaxed) - before < CACHE + OTHER_MEMORY);
    store.close().unwrap();
}
