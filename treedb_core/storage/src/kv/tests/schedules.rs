//! Writers, readers and checkpoints under random thread schedules.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::super::writer_lock::WriterLock;
use super::*;
use crate::disk::crash::Crash;
use crate::sync::{schedules, thread};

#[test]
fn the_writer_lock_has_one_holder_at_a_time_and_wakes_every_waiter() {
    schedules("the writer lock", 10_000, || {
        let writer_lock = Arc::new(WriterLock::new(0u64));
        let inside = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (writer_lock, inside) = (Arc::clone(&writer_lock), Arc::clone(&inside));
                thread::spawn(move || {
                    for _ in 0..2 {
                        let n = writer_lock.acquire();
                        assert!(!inside.swap(true, Ordering::SeqCst), "two threads have the lock");
                        thread::yield_now();
                        inside.store(false, Ordering::SeqCst);
                        writer_lock.release(n + 1);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(writer_lock.acquire(), 8);
    });
}

/// The number of a snapshot, after checking that every key has the same.
fn stamp(read: &dyn Reads, table: &Table) -> u64 {
    let mut stamps = read.range(table, (Bound::Unbounded, Bound::Unbounded)).unwrap().map(|entry| {
        let (_, value) = entry.unwrap();
        assert!(value.chunks(8).all(|word| word == &value[..8]), "the page was written to");
        u64::from_le_bytes(value[..8].try_into().unwrap())
    });
    let first = stamps.next().unwrap();
    assert!(stamps.all(|stamp| stamp == first), "half a transaction");
    first
}

fn fill(store: &Store, table: &Table, n: u64, how: Durability) {
    let mut txn = store.begin_write().unwrap();
    for key in 0..12u8 {
        // Several leaves, and one value in the value log.
        let words = if key == 5 { 200 } else { 80 };
        txn.put(table, &[key], &n.to_le_bytes().repeat(words)).unwrap();
    }
    txn.commit_with(how).unwrap();
}

#[test]
fn readers_concurrent_with_writers_and_checkpoints_see_whole_transactions() {
    schedules("readers, two writers and checkpoints on one store", 800, || {
        let disk = SimDisk::new();
        let store = open(&disk).unwrap();
        let mut txn = store.begin_write().unwrap();
        let table = txn.create_table("t", TableKind::Ordered).unwrap();
        txn.commit().unwrap();
        fill(&store, &table, 1, Durability::Durable);
        let last = Arc::new(AtomicU64::new(1));
        let mut threads = Vec::new();
        for writer in 0..2u64 {
            let (store, table, last, disk) = (store.clone(), table.clone(), Arc::clone(&last), disk.clone());
            threads.push(thread::spawn(move || {
                for round in 0..3u64 {
                    let how = [Durability::None, Durability::Durable, Durability::Relaxed]
                        [(round + writer) as usize % 3];
                    let n = 10 * (writer + 1) + round;
                    fill(&store, &table, n, how);
                    last.store(n, Ordering::SeqCst);
                    if how == Durability::Durable {
                        let after = open(&disk.crash(Crash::Nothing)).unwrap();
                        // The state after this commit or a later one.
                        assert_ne!(stamp(&after.snapshot().unwrap(), &table), 1, "a durable commit is lost");
                    }
                }
            }));
        }
        for _ in 0..2 {
            let (store, table) = (store.clone(), table.clone());
            threads.push(thread::spawn(move || {
                for _ in 0..2 {
                    let read = store.snapshot().unwrap();
                    let first = stamp(&read, &table);
                    thread::yield_now();
                    assert_eq!(stamp(&read, &table), first, "a snapshot changed");
                }
            }));
        }
        let checkpointed = store.clone();
        threads.push(thread::spawn(move || {
            for _ in 0..2 {
                checkpointed.checkpoint().unwrap();
            }
        }));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        store.check().unwrap();
        assert_eq!(store.stats().readers, 0);
        let newest = stamp(&store.snapshot().unwrap(), &table);
        store.close().unwrap();
        let store = open(&disk).unwrap();
        store.check().unwrap();
        assert_eq!(stamp(&store.snapshot().unwrap(), &table), newest);
    });
}

#[test]
fn changed_rows_beside_two_writers_are_all_that_a_scan_finds() {
    schedules("changed rows beside two writers", 800, || {
        let store = open(&SimDisk::new()).unwrap();
        let mut txn = store.begin_write().unwrap();
        let table = txn.create_table("rows", TableKind::Rows).unwrap();
        txn.commit().unwrap();
        let writers: Vec<_> = (0..2u64)
            .map(|writer| {
                let (store, table) = (store.clone(), table.clone());
                thread::spawn(move || {
                    for round in 0..4 {
                        let mut txn = store.begin_write().unwrap();
                        txn.put_row(&table, 1 + round % 3, &(10 * writer + round).to_le_bytes()).unwrap();
                        txn.delete_row(&table, 1 + (round + writer) % 3).unwrap();
                        txn.commit_with(Durability::None).unwrap();
                    }
                })
            })
            .collect();
        let rows_of = |reads: &dyn Reads| -> BTreeMap<u64, Vec<u8>> {
            (1..4).filter_map(|row| Some((row, reads.row(&table, row).unwrap()?.to_vec()))).collect()
        };
        let (mut since, mut rows) = {
            let reads = store.snapshot().unwrap();
            (reads.txn(), rows_of(&reads))
        };
        for _ in 0..5 {
            thread::yield_now();
            let reads = store.snapshot().unwrap();
            let now = rows_of(&reads);
            if let Some(changed) = reads.changed_rows(&table, since) {
                let told: BTreeMap<_, _> =
                    changed.iter().filter_map(|row| Some((*row, now.get(row)?.clone()))).collect();
                rows.retain(|row, _| !changed.contains(row));
                rows.extend(told);
                assert_eq!(rows, now, "{changed:?} from {since} to {}", reads.txn());
            }
            (since, rows) = (reads.txn(), now);
        }
        writers.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
