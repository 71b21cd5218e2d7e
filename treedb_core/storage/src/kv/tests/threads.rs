//! Commits with every durability by several threads, with concurrent checkpoints and power cuts.

use std::sync::atomic::{AtomicU64, Ordering};

use treedb_testing::{Rng, in_time};

use super::*;
use crate::Error;
use crate::disk::crash::Crash;

const THREADS: u8 = 4;
const EACH: u64 = 60;

/// Each thread puts its keys in order until the disk fails. Returns for each thread how many were
/// acknowledged as durable.
fn work(disk: &SimDisk, seed: u64) -> Vec<u64> {
    let options = Options {
        pending_bytes: 400,
        checkpoint_log_bytes: 6000,
        checkpoint_dead_pages: 60,
        background: seed.is_multiple_of(2),
        ..options(disk)
    };
    let acked: Vec<AtomicU64> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
    let Ok(store) = Store::open_with(dir(), options) else { return vec![0; THREADS.into()] };
    std::thread::scope(|scope| {
        for (thread, acked) in (0..THREADS).zip(&acked) {
            let store = &store;
            scope.spawn(move || {
                let mut rng = Rng::new(seed << 8 | u64::from(thread));
                for n in 0..EACH {
                    let how = [Durability::Durable, Durability::Relaxed, Durability::None][rng.below(3)];
                    let barrier = how != Durability::Durable && rng.chance(10);
                    let one = || -> crate::Result<()> {
                        let mut txn = store.begin_write()?;
                        let table = txn.open_table("t", TableKind::Ordered)?;
                        let key = [&[thread][..], &n.to_be_bytes()].concat();
                        txn.put(&table, &key, &[thread; 60])?;
                        txn.commit_with(how)?;
                        if barrier { store.flush() } else { Ok(()) }
                    };
                    if one().is_err() {
                        return;
                    }
                    if how == Durability::Durable || barrier {
                        acked.store(n + 1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    acked.into_iter().map(AtomicU64::into_inner).collect()
}

/// How many of each thread's keys exist; they must be its first ones.
fn kept(disk: &SimDisk, what: &str) -> Vec<u64> {
    let store = open(disk).unwrap_or_else(|e| panic!("{what}: {e}"));
    store.check().unwrap_or_else(|e| panic!("{what}: {e}"));
    let read = store.snapshot().unwrap();
    let Some(table) = read.table("t").unwrap() else { return vec![0; THREADS.into()] };
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let mut counts = vec![0; THREADS.into()];
    for entry in read.range(&table, all).unwrap() {
        let (key, _) = entry.unwrap();
        let count = &mut counts[usize::from(key[0])];
        assert_eq!(key[1..], u64::to_be_bytes(*count), "{what}: a hole");
        *count += 1;
    }
    counts
}

#[test]
fn power_cuts_with_several_threads_leave_no_hole_and_lose_no_acknowledged_commit() {
    in_time(|| {
        let mut total = 0;
        for seed in 0..150 {
            let disk = SimDisk::new();
            disk.cut_at(12 + seed * 4);
            let acked = work(&disk, seed);
            total += acked.iter().sum::<u64>();
            for crash in Crash::variants(seed, 4) {
                let what = format!("seed {seed}, {crash:?}");
                let kept = kept(&disk.crash(crash), &what);
                assert!(kept.iter().zip(&acked).all(|(k, a)| k >= a), "{what}: {kept:?} of {acked:?}");
            }
        }
        assert!(total > 2000, "{total}");
    });
}

#[test]
fn all_commits_of_finished_threads_are_in_the_closed_store() {
    in_time(|| {
        for seed in 100..104 {
            let disk = SimDisk::new();
            work(&disk, seed);
            assert_eq!(kept(&disk.crash(Crash::Nothing), "closed"), vec![EACH; THREADS.into()]);
        }
    });
}

#[test]
fn a_panic_of_the_writer_poisons_the_store_and_releases_the_writer_lock() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let inner = Arc::clone(&store.inner);
    let panicked = std::thread::spawn(move || inner.with_writer(|_| panic!("on purpose"))).join();
    assert!(panicked.is_err());
    assert!(matches!(store.begin_write(), Err(Error::Poisoned { .. })));
    assert!(store.snapshot().unwrap().tables().unwrap().is_empty());
    assert!(matches!(store.close(), Err(Error::Poisoned { .. })));
    assert!(open(&disk).unwrap().begin_write().is_ok());
}

#[test]
fn a_store_dropped_while_its_thread_prepares_pages_is_closed() {
    let dir = TempDir::new("ready");
    for round in 0..12u64 {
        let store = Store::open(dir.path()).unwrap();
        let mut txn = store.begin_write().unwrap();
        let table = txn.open_table("t", TableKind::Ordered).unwrap();
        for n in 0..1500 {
            txn.put(&table, &(round * 10_000 + n).to_be_bytes(), &[round as u8; 100]).unwrap();
        }
        txn.commit_with(Durability::Relaxed).unwrap();
        // The directory must be unlocked immediately, or opening it again would fail.
        drop(store);
    }
    let store = Store::open(dir.path()).unwrap();
    let reads = store.begin_read().unwrap();
    assert_eq!(reads.len(&reads.table("t").unwrap().unwrap()).unwrap(), 12 * 1500);
    store.check().unwrap();
}
