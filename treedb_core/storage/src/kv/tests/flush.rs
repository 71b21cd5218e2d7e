use treedb_testing::in_time;

use super::*;
use crate::disk::crash::Crash;

/// Makes 20 commits with durability `how`, then cuts the power so that all unflushed writes are lost.
fn after_power_cut(how: Durability, flush: bool) -> u64 {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", TableKind::Rows).unwrap();
    txn.commit_with(Durability::Durable).unwrap();
    for _ in 0..20 {
        let mut txn = store.begin_write().unwrap();
        txn.append_row(&table, b"row").unwrap();
        txn.commit_with(how).unwrap();
    }
    if flush {
        store.flush().unwrap();
    }
    let store = open(&disk.crash(Crash::Nothing)).unwrap();
    let reads = store.begin_read().unwrap();
    reads.len(&reads.table("t").unwrap().unwrap()).unwrap()
}

#[test]
fn a_flush_makes_all_commits_durable() {
    for how in [Durability::Relaxed, Durability::None] {
        assert_eq!(after_power_cut(how, false), 0);
        assert_eq!(after_power_cut(how, true), 20);
    }
}

#[test]
fn a_flush_of_a_new_store_returns() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    store.flush().unwrap();
    store.flush().unwrap();
}

/// A store with a table, and 20 commits of 100 bytes each with durability `how`. If they are unlogged, up to
/// `kept` bytes of them are kept in memory.
fn with_commits(how: Durability, kept: usize) -> (SimDisk, Store, Table) {
    let disk = SimDisk::new();
    let store = Store::open_with(dir(), Options { pending_bytes: kept, ..options(&disk) }).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", TableKind::Rows).unwrap();
    txn.commit_with(how).unwrap();
    for _ in 0..20 {
        let mut txn = store.begin_write().unwrap();
        txn.append_row(&table, &[7; 100]).unwrap();
        txn.commit_with(how).unwrap();
    }
    (disk, store, table)
}

fn rows_after(disk: &SimDisk, crash: Crash) -> u64 {
    let store = open(&disk.crash(crash)).unwrap();
    store.check().unwrap();
    let reads = store.begin_read().unwrap();
    reads.table("t").unwrap().map_or(0, |table| reads.len(&table).unwrap())
}

#[test]
fn an_empty_durable_commit_makes_all_earlier_commits_durable() {
    in_time(|| {
        for how in [Durability::Relaxed, Durability::None] {
            for kept in [1 << 20, 500] {
                let (disk, store, _) = with_commits(how, kept);
                let lost = if how == Durability::None { Crash::Everything } else { Crash::Nothing };
                assert_eq!(rows_after(&disk, lost), 0, "{how:?}");
                for weaker in [Durability::Relaxed, Durability::None] {
                    store.begin_write().unwrap().commit_with(weaker).unwrap();
                    assert_eq!(rows_after(&disk, lost), 0, "{how:?} then {weaker:?}");
                }
                store.begin_write().unwrap().commit_with(Durability::Durable).unwrap();
                assert_eq!(rows_after(&disk, Crash::Nothing), 20, "{how:?}, {kept} bytes kept");
                let calls = disk.boundaries();
                store.begin_write().unwrap().commit_with(Durability::Durable).unwrap();
                assert_eq!(disk.boundaries(), calls, "a second one has nothing to do");
            }
        }
    });
}

#[test]
fn a_logged_commit_logs_the_pending_ones_before_it() {
    in_time(|| {
        for kept in [1 << 20, 500] {
            for (how, crash) in
                [(Durability::Durable, Crash::Nothing), (Durability::Relaxed, Crash::Everything)]
            {
                let (disk, store, table) = with_commits(Durability::None, kept);
                let before = store.stats().checkpoint;
                let mut txn = store.begin_write().unwrap();
                txn.delete_row(&table, 3).unwrap();
                txn.commit_with(how).unwrap();
                assert_eq!(rows_after(&disk, crash), 19, "{how:?}, {kept} bytes kept");
                let mut txn = store.begin_write().unwrap();
                txn.append_row(&table, b"last").unwrap();
                txn.commit_with(Durability::None).unwrap();
                assert_eq!(rows_after(&disk, crash), 19, "{how:?}, {kept} bytes kept");
                let checkpointed = store.stats().checkpoint > before;
                assert_eq!(checkpointed, kept == 500, "kept in memory, or in a checkpoint");
            }
        }
    });
}

#[test]
fn commits_without_durability_write_nothing() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", TableKind::Rows).unwrap();
    txn.append_row(&table, b"row").unwrap();
    txn.commit().unwrap();
    let (calls, log) = (disk.boundaries(), store.stats().log);
    for _ in 0..50 {
        let mut txn = store.begin_write().unwrap();
        txn.put_row(&table, 1, b"other").unwrap();
        txn.commit_with(Durability::None).unwrap();
    }
    assert_eq!((disk.boundaries(), store.stats().log), (calls, log));
}
