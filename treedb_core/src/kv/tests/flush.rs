use super::*;
use crate::disk::crash::Crash;

/// A store with 20 relaxed commits, and the disk that a power cut leaves when nothing unflushed reaches it.
fn after_power_cut(flush: bool) -> u64 {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", TableKind::Rows).unwrap();
    txn.commit_with(Durability::Durable).unwrap();
    for _ in 0..20 {
        let mut txn = store.begin_write().unwrap();
        txn.append_row(&table, b"row").unwrap();
        txn.commit_with(Durability::Relaxed).unwrap();
    }
    if flush {
        store.flush().unwrap();
    }
    let store = open(&disk.crash(Crash::Nothing)).unwrap();
    let reads = store.begin_read().unwrap();
    reads.len(&reads.table("t").unwrap().unwrap()).unwrap()
}

#[test]
fn a_flush_makes_relaxed_commits_durable() {
    assert_eq!(after_power_cut(false), 0);
    assert_eq!(after_power_cut(true), 20);
}

#[test]
fn a_flush_of_a_new_store_returns() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    store.flush().unwrap();
    store.flush().unwrap();
}
