//! Savepoints: what is rolled back, what is kept, and which pages they use.

use super::*;
use crate::Error;

fn table() -> (Store, Table) {
    let store = open(&SimDisk::new()).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", TableKind::Ordered).unwrap();
    txn.put(&table, b"base", b"0").unwrap();
    txn.commit().unwrap();
    (store, table)
}

#[test]
fn an_inner_savepoint_is_rolled_back_and_the_outer_changes_are_committed() {
    let (store, table) = table();
    let mut txn = store.begin_write().unwrap();
    txn.put(&table, b"a", b"1").unwrap();
    let outer = txn.savepoint().unwrap();
    txn.put(&table, b"b", b"2").unwrap();
    let inner = txn.savepoint().unwrap();
    txn.put(&table, b"a", b"3").unwrap();
    txn.put(&table, b"large", &[3; 5000]).unwrap();
    txn.delete(&table, b"base").unwrap();
    txn.create_table("inner", TableKind::Rows).unwrap();
    txn.rollback_to(&inner).unwrap();
    assert_eq!(txn.get(&table, b"a").unwrap(), Some(&b"1"[..]));
    assert_eq!(txn.len(&table).unwrap(), 3);
    assert!(txn.table("inner").unwrap().is_none());
    assert_eq!(store.stats().values.live, 0);
    txn.release(outer).unwrap();
    txn.commit().unwrap();
    store.check().unwrap();
    let read = store.snapshot().unwrap();
    assert_eq!((read.get(&table, b"b").unwrap(), read.len(&table).unwrap()), (Some(&b"2"[..]), 3));
}

#[test]
fn a_released_savepoint_is_rolled_back_with_the_enclosing_one() {
    let (store, table) = table();
    let mut txn = store.begin_write().unwrap();
    let outer = txn.savepoint().unwrap();
    let inner = txn.savepoint().unwrap();
    txn.put(&table, b"b", b"2").unwrap();
    txn.release(inner).unwrap();
    assert!(txn.get(&table, b"b").unwrap().is_some());
    txn.rollback_to(&outer).unwrap();
    assert!(txn.get(&table, b"b").unwrap().is_none());
    // The savepoint still exists and can be rolled back to again.
    txn.put(&table, b"c", b"3").unwrap();
    txn.rollback_to(&outer).unwrap();
    let before = store.stats();
    txn.commit().unwrap();
    assert_eq!(store.stats().txn, before.txn, "nothing was left to commit");
    store.check().unwrap();
}

#[test]
fn a_savepoint_that_no_longer_exists_is_refused() {
    let (store, table) = table();
    let mut txn = store.begin_write().unwrap();
    let outer = txn.savepoint().unwrap();
    let inner = txn.savepoint().unwrap();
    txn.rollback_to(&outer).unwrap();
    assert!(matches!(txn.rollback_to(&inner), Err(Error::Invalid(_))));
    assert!(matches!(txn.release(inner), Err(Error::Invalid(_))));
    txn.put(&table, b"k", b"v").unwrap();
    txn.commit().unwrap();
    let mut txn = store.begin_write().unwrap();
    assert!(matches!(txn.rollback_to(&outer), Err(Error::Invalid(_))));
    assert!(store.snapshot().unwrap().get(&table, b"k").unwrap().is_some());
}

#[test]
fn a_transaction_continues_from_its_savepoint_after_a_full_disk() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    disk.set_room(Some(4 << 20));
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", TableKind::Ordered).unwrap();
    txn.put(&table, b"before", b"1").unwrap();
    let point = txn.savepoint().unwrap();
    let full = (0..30_000u32).find_map(|n| txn.put(&table, &n.to_be_bytes(), &[1; 900]).err());
    assert!(matches!(full, Some(Error::DiskFull { .. })), "{full:?}");
    assert!(txn.put(&table, b"x", b"y").is_err() && txn.savepoint().is_err());
    txn.rollback_to(&point).unwrap();
    txn.put(&table, b"after", b"2").unwrap();
    txn.commit().unwrap();
    store.check().unwrap();
    assert_eq!(store.snapshot().unwrap().len(&table).unwrap(), 2);
}

#[test]
fn pages_of_rolled_back_changes_are_reused() {
    let (store, table) = table();
    let mut txn = store.begin_write().unwrap();
    let point = txn.savepoint().unwrap();
    let mut used = None;
    for round in 0..50u32 {
        for n in 0..500u32 {
            txn.put(&table, &n.to_be_bytes(), &round.to_be_bytes().repeat(50)).unwrap();
        }
        txn.rollback_to(&point).unwrap();
        let pages = *used.get_or_insert(store.stats().page_file_bytes);
        assert_eq!(store.stats().page_file_bytes, pages, "round {round}");
    }
    txn.commit().unwrap();
    store.check().unwrap();
}

#[test]
fn snapshots_taken_during_savepoints_do_not_see_their_changes() {
    let (store, table) = table();
    for round in 0..20u8 {
        let mut txn = store.begin_write().unwrap();
        for depth in 0..round {
            txn.put(&table, &[depth], &[round]).unwrap();
            let _kept = txn.savepoint().unwrap();
        }
        txn.put(&table, b"base", &[round]).unwrap();
        let read = store.begin_read().unwrap();
        txn.commit_with([Durability::Relaxed, Durability::None][usize::from(round % 2)]).unwrap();
        let want = round.checked_sub(1).map_or(b'0', |before| before);
        assert_eq!(read.get(&table, b"base").unwrap(), Some(&[want][..]));
        assert_eq!(store.snapshot().unwrap().get(&table, b"base").unwrap(), Some(&[round][..]));
        store.check().unwrap();
    }
}

#[test]
fn what_is_to_be_called_if_changes_are_undone_is_called_for_those_that_are_before_the_next_transaction_begins()
 {
    use std::sync::Mutex;

    let store = open(&SimDisk::new()).unwrap();
    let called = std::sync::Arc::<Mutex<Vec<u32>>>::default();
    let begin = || {
        // What was called before is in the log, so it came before this.
        called.lock().unwrap().push(0);
        store.begin_write().unwrap()
    };
    let add = |txn: &mut WriteTxn, number: u32| {
        let called = std::sync::Arc::clone(&called);
        txn.if_undone(move || called.lock().unwrap().push(number));
    };
    let mut txn = begin();
    let table = txn.create_table("some", TableKind::Ordered).unwrap();
    add(&mut txn, 1);
    txn.put(&table, b"a", b"1").unwrap();
    txn.commit().unwrap();
    let mut txn = begin();
    (2..4).for_each(|number| add(&mut txn, number));
    txn.put(&table, b"b", b"1").unwrap();
    drop(txn);
    let mut txn = begin();
    add(&mut txn, 4);
    let first = txn.savepoint().unwrap();
    (5..7).for_each(|number| add(&mut txn, number));
    let second = txn.savepoint().unwrap();
    add(&mut txn, 7);
    txn.rollback_to(&second).unwrap();
    add(&mut txn, 8);
    txn.rollback_to(&first).unwrap();
    add(&mut txn, 9);
    txn.release(first).unwrap();
    txn.put(&table, b"c", b"1").unwrap();
    txn.commit().unwrap();
    drop(begin());
    assert_eq!(*called.lock().unwrap(), [0, 0, 3, 2, 0, 7, 8, 6, 5, 0]);
}
