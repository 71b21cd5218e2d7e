//! The guarantees of the interface, one test each.

use std::ops::Bound;

use super::*;
use crate::Error;
use crate::disk::Disk;
use crate::disk::crash::Crash;

fn filled() -> (SimDisk, Store, Table) {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", TableKind::Ordered).unwrap();
    for key in ["b", "d", "f", "h"] {
        txn.put(&table, key.as_bytes(), key.to_uppercase().as_bytes()).unwrap();
    }
    txn.commit().unwrap();
    (disk, store, table)
}

#[test]
fn a_key_is_read_after_a_put_and_missing_after_a_delete() {
    let (_disk, store, table) = filled();
    assert_eq!(store.snapshot().unwrap().get(&table, b"d").unwrap(), Some(&b"D"[..]));
    let mut txn = store.begin_write().unwrap();
    assert!(txn.delete(&table, b"d").unwrap());
    assert!(!txn.delete(&table, b"d").unwrap());
    txn.put(&table, b"", b"the empty key").unwrap();
    assert_eq!(txn.get(&table, b"d").unwrap(), None, "a transaction sees its own changes");
    assert_eq!(
        store.begin_read().unwrap().get(&table, b"d").unwrap(),
        Some(&b"D"[..]),
        "other readers do not see them"
    );
    txn.commit().unwrap();
    let read = store.begin_read().unwrap();
    assert_eq!((read.get(&table, b"d").unwrap(), read.len(&table).unwrap()), (None, 4));
    assert_eq!(read.get(&table, b"").unwrap(), Some(&b"the empty key"[..]));
    store.check().unwrap();
}

#[test]
fn a_dropped_transaction_changes_nothing() {
    let (_disk, store, table) = filled();
    let before = store.stats();
    for _ in 0..3 {
        let mut txn = store.begin_write().unwrap();
        txn.put(&table, b"b", &[7; 5000]).unwrap();
        txn.put(&table, b"x", b"y").unwrap();
        let other = txn.create_table("u", TableKind::Rows).unwrap();
        txn.append_row(&other, b"row").unwrap();
    }
    let read = store.begin_read().unwrap();
    assert_eq!(read.get(&table, b"b").unwrap(), Some(&b"B"[..]));
    assert!(read.get(&table, b"x").unwrap().is_none() && read.table("u").unwrap().is_none());
    assert_eq!(store.stats().txn, before.txn);
    assert_eq!(store.stats().values.live, 0);
    store.check().unwrap();
}

#[test]
fn ranges_are_double_ended() {
    let (_disk, store, table) = filled();
    let read = store.begin_read().unwrap();
    let keys = |bounds: Bounds<'_>, back: bool| -> String {
        let range = read.range(&table, bounds).unwrap().map(|e| String::from_utf8(e.unwrap().0).unwrap());
        if back {
            let range = read.range(&table, bounds).unwrap().rev();
            return range.map(|e| String::from_utf8(e.unwrap().0).unwrap()).collect();
        }
        range.collect()
    };
    use Bound::{Excluded, Included, Unbounded};
    for (bounds, want) in [
        ((Unbounded, Unbounded), "bdfh"),
        ((Included(&b"d"[..]), Unbounded), "dfh"),
        ((Excluded(&b"d"[..]), Unbounded), "fh"),
        ((Included(&b"c"[..]), Included(&b"f"[..])), "df"),
        ((Excluded(&b"b"[..]), Excluded(&b"h"[..])), "df"),
        ((Unbounded, Excluded(&b"b"[..])), ""),
        ((Included(&b"i"[..]), Unbounded), ""),
        ((Included(&b"f"[..]), Included(&b"d"[..])), ""),
    ] {
        assert_eq!(keys(bounds, false), want, "{bounds:?}");
        assert_eq!(keys(bounds, true), want.chars().rev().collect::<String>(), "{bounds:?}");
    }
    let mut both = read.range(&table, (Unbounded, Unbounded)).unwrap();
    let mut seen = Vec::new();
    for turn in 0..5 {
        let next = if turn % 2 == 0 { both.next() } else { both.next_back() };
        seen.extend(next.map(|e| e.unwrap().0[0]));
    }
    assert_eq!(seen, b"bhdf");
    let mut cursor = read.cursor(&table).unwrap();
    assert!(cursor.seek(b"e").unwrap());
    assert_eq!(cursor.entry().unwrap(), Some((&b"f"[..], &b"F"[..])));
    assert!(cursor.prev().unwrap() && cursor.key().unwrap() == Some(b"d"));
    assert!(!cursor.seek_exact(b"e").unwrap());
    assert!(cursor.seek_back(b"e").unwrap() && cursor.value().unwrap() == Some(b"D"));
}

#[test]
fn rows_are_numbered_from_one_and_numbers_are_not_reused() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let mut txn = store.begin_write().unwrap();
    let rows = txn.create_table("rows", TableKind::Rows).unwrap();
    for n in 1..=100u64 {
        assert_eq!(txn.append_row(&rows, format!("row {n}").as_bytes()).unwrap(), n);
    }
    for n in 90..=100 {
        assert!(txn.delete_row(&rows, n).unwrap());
    }
    txn.commit().unwrap();
    drop(store);
    let store = open(&disk).unwrap();
    let mut txn = store.begin_write().unwrap();
    let rows = txn.table("rows").unwrap().unwrap();
    assert_eq!(txn.append_row(&rows, b"new").unwrap(), 101);
    txn.put_row(&rows, 500, b"far").unwrap();
    assert_eq!(txn.append_row(&rows, b"next").unwrap(), 501);
    txn.commit().unwrap();
    let read = store.snapshot().unwrap();
    assert_eq!(read.row(&rows, 42).unwrap(), Some(&b"row 42"[..]));
    assert_eq!(read.row(&rows, 95).unwrap(), None);
    let seen: Vec<u64> = read.rows(&rows, 88).unwrap().map(|r| r.unwrap().0).collect();
    assert_eq!(seen, [88, 89, 101, 500, 501]);
    let back: Vec<u64> = read.rows(&rows, 88).unwrap().rev().map(|r| r.unwrap().0).collect();
    assert_eq!(back, [501, 500, 101, 89, 88]);
    assert_eq!(read.len(&rows).unwrap(), 92);
    store.check().unwrap();
}

/// The first `most` of these rows that there are, with their places among them.
fn visited(reads: &impl Reads, table: &Table, rows: &[u64], most: usize) -> Vec<(usize, Vec<u8>)> {
    let mut seen = Vec::new();
    let mut visit = |place, row: &[u8]| {
        seen.push((place, row.to_vec()));
        seen.len() < most
    };
    reads.visit_rows(table, &mut rows.iter().copied(), &mut visit).unwrap();
    seen
}

#[test]
fn rows_are_visited_in_the_order_they_are_asked_for_until_the_visit_ends() {
    for mode in [Mode::Mapped, Mode::Cached, Mode::Encrypted] {
        in_mode(mode, || {
            let disk = SimDisk::new();
            let store = open(&disk).unwrap();
            let mut txn = store.begin_write().unwrap();
            let rows = txn.create_table("rows", TableKind::Rows).unwrap();
            // Some are in the log of values, and some of those over several pages.
            let row = |n: u64| vec![n as u8; [3, 700, 1500, 9000][n as usize % 4]];
            (1..=200).for_each(|n| assert_eq!(txn.append_row(&rows, &row(n)).unwrap(), n));
            (1..=200).step_by(7).for_each(|n| assert!(txn.delete_row(&rows, n).unwrap()));
            let asked: Vec<u64> = (0..300).map(|n| n * 83 % 211).collect();
            let there = |n: &u64| (1..=200).contains(n) && n % 7 != 1;
            let all: Vec<_> =
                asked.iter().enumerate().filter(|(_, n)| there(n)).map(|(at, n)| (at, row(*n))).collect();
            // In the transaction that has written them, and afterwards.
            for most in [1, 2, 50, all.len(), 1000] {
                assert!(visited(&txn, &rows, &asked, most) == all[..most.min(all.len())], "{mode:?}, {most}");
            }
            txn.commit().unwrap();
            let read = store.begin_read().unwrap();
            for most in [1, 2, 50, all.len(), 1000] {
                assert!(
                    visited(&read, &rows, &asked, most) == all[..most.min(all.len())],
                    "{mode:?}, {most}"
                );
            }
            read.visit_rows(&rows, &mut std::iter::empty(), &mut |_, _| unreachable!("no row is asked for"))
                .unwrap();
        });
    }
}

#[test]
fn tables_are_created_listed_and_dropped() {
    let (disk, store, table) = filled();
    let mut txn = store.begin_write().unwrap();
    assert!(matches!(txn.create_table("t", TableKind::Rows), Err(Error::TableMismatch { .. })));
    assert!(matches!(txn.open_table("t", TableKind::Rows), Err(Error::TableMismatch { .. })));
    assert_eq!(txn.open_table("t", TableKind::Ordered).unwrap().id(), table.id());
    assert!(matches!(txn.create_table("", TableKind::Rows), Err(Error::Invalid(_))));
    let rows = txn.create_table("a rows", TableKind::Rows).unwrap();
    assert!(matches!(txn.put(&rows, b"k", b"v"), Err(Error::TableMismatch { .. })));
    assert!(matches!(txn.row(&table, 1), Err(Error::TableMismatch { .. })));
    txn.commit().unwrap();
    let before = store.begin_read().unwrap();
    let mut txn = store.begin_write().unwrap();
    assert!(txn.drop_table("t").unwrap());
    assert!(!txn.drop_table("t").unwrap());
    assert!(matches!(txn.put(&table, b"k", b"v"), Err(Error::NoSuchTable { .. })));
    let again = txn.create_table("t", TableKind::Ordered).unwrap();
    assert_ne!(again.id(), table.id());
    txn.commit().unwrap();
    assert_eq!(before.get(&table, b"b").unwrap(), Some(&b"B"[..]), "a snapshot keeps its tables");
    drop(before);
    store.check().unwrap();
    drop(store);
    let store = open(&disk).unwrap();
    let read = store.begin_read().unwrap();
    let names: Vec<String> = read.tables().unwrap().iter().map(|t| t.name().to_owned()).collect();
    assert_eq!(names, ["a rows", "t"]);
    assert!(
        matches!(read.get(&table, b"b"), Err(Error::NoSuchTable { .. })),
        "a handle of a dropped table is invalid"
    );
}

#[test]
fn large_values_are_read_and_replaced_and_their_space_is_reclaimed() {
    let (disk, store, table) = filled();
    let large =
        |seed: u8, len: usize| -> Vec<u8> { (0..len).map(|i| (i as u8).wrapping_mul(seed)).collect() };
    for round in 1..40u8 {
        let mut txn = store.begin_write().unwrap();
        txn.put(&table, b"big", &large(round, 20_000)).unwrap();
        txn.put(&table, b"bigger", &large(round, 90_000)).unwrap();
        txn.commit().unwrap();
        if round % 5 == 0 {
            store.checkpoint().unwrap();
        }
    }
    let read = store.begin_read().unwrap();
    assert_eq!(read.get(&table, b"bigger").unwrap(), Some(&large(39, 90_000)[..]));
    let mut txn = store.begin_write().unwrap();
    txn.put(&table, b"bigger", b"small").unwrap();
    assert!(txn.delete(&table, b"big").unwrap());
    txn.commit().unwrap();
    for _ in 0..3 {
        store.begin_write().unwrap().commit().unwrap();
        let mut txn = store.begin_write().unwrap();
        txn.put(&table, b"c", b"c").unwrap();
        txn.commit().unwrap();
        store.checkpoint().unwrap();
    }
    assert_eq!(
        read.get(&table, b"big").unwrap(),
        Some(&large(39, 20_000)[..]),
        "a snapshot keeps its values"
    );
    drop(read);
    for n in 0..3u8 {
        let mut txn = store.begin_write().unwrap();
        txn.put(&table, b"c", &[n]).unwrap();
        txn.commit().unwrap();
        store.checkpoint().unwrap();
    }
    let stats = store.stats().values;
    assert_eq!((stats.live, stats.bytes, stats.segments), (0, 0, 0), "{stats:?}");
    assert_eq!(store.check().unwrap().large_values, 0);
    drop(store);
    open(&disk).unwrap().check().unwrap();
}

#[test]
fn a_batch_is_atomic() {
    let (_disk, store, table) = filled();
    let mut batch = Batch::new();
    batch.put(&table, b"one", b"1").unwrap();
    batch.delete(&table, b"b").unwrap();
    batch.put(&table, b"two", &[2; 3000]).unwrap();
    let mut txn = store.begin_write().unwrap();
    txn.write(&batch).unwrap();
    txn.commit().unwrap();
    let read = store.begin_read().unwrap();
    assert_eq!(read.len(&table).unwrap(), 5);
    assert_eq!(read.get(&table, b"two").unwrap(), Some(&[2u8; 3000][..]));
    assert!(matches!(batch.put(&table, &[0; MAX_KEY + 1], b""), Err(Error::KeyTooLong { .. })));
    let mut txn = store.begin_write().unwrap();
    let gone = txn.create_table("gone", TableKind::Ordered).unwrap();
    txn.drop_table("gone").unwrap();
    batch.put(&gone, b"x", b"").unwrap();
    assert!(matches!(txn.write(&batch), Err(Error::NoSuchTable { .. })));
    assert!(txn.commit().is_err(), "a transaction whose batch failed cannot be committed");
    assert_eq!(store.begin_read().unwrap().len(&table).unwrap(), 5);
}

#[test]
fn limits_are_typed_errors_that_leave_the_transaction_usable() {
    let (_disk, store, table) = filled();
    let mut txn = store.begin_write().unwrap();
    assert!(matches!(txn.put(&table, &[1; MAX_KEY + 1], b""), Err(Error::KeyTooLong { .. })));
    txn.put(&table, &[1; MAX_KEY], &[1; 700]).unwrap();
    txn.put(&table, &[2; MAX_KEY], &[1; 1500]).unwrap();
    txn.commit().unwrap();
    assert_eq!(store.snapshot().unwrap().len(&table).unwrap(), 6);
    store.check().unwrap();
}

#[test]
fn a_directory_is_locked_by_one_store_at_a_time() {
    let (disk, store, _) = filled();
    match open(&disk) {
        Err(Error::InUse { pid, .. }) => assert_eq!(pid, std::process::id()),
        other => panic!("{other:?}"),
    }
    let other = store.clone();
    store.close().unwrap();
    assert!(matches!(other.begin_write(), Err(Error::Invalid(_))));
    assert!(other.begin_read().is_ok());
    assert!(open(&disk).is_err(), "a handle still keeps it open");
    drop(other);
    open(&disk).unwrap();
}

#[test]
fn a_new_store_makes_every_parent_directory_durable() {
    let disk = SimDisk::new();
    // As if a process had crashed just after it created the directories.
    disk.create_dir(&dir()).unwrap();
    let store = open(&disk).unwrap();
    let mut txn = store.begin_write().unwrap();
    txn.create_table("t", TableKind::Ordered).unwrap();
    txn.commit().unwrap();
    let after = open(&disk.crash(Crash::Nothing)).unwrap();
    assert!(after.snapshot().unwrap().table("t").unwrap().is_some());
}

#[test]
fn closing_leaves_nothing_to_replay() {
    let (disk, store, table) = filled();
    store.close().unwrap();
    let store = open(&disk).unwrap();
    let stats = store.stats();
    assert_eq!(stats.txn, stats.checkpoint, "opened at the checkpoint");
    assert_eq!(store.begin_read().unwrap().get(&table, b"h").unwrap(), Some(&b"H"[..]));
}

#[test]
fn checkpoints_are_due_by_log_bytes_and_by_dead_pages() {
    for (log_bytes, dead_pages) in [(20_000, usize::MAX), (u64::MAX, 10)] {
        let disk = SimDisk::new();
        let options = Options {
            checkpoint_log_bytes: log_bytes,
            checkpoint_dead_pages: dead_pages,
            durability: Durability::Relaxed,
            ..options(&disk)
        };
        let store = Store::open_with(dir(), options).unwrap();
        let mut txn = store.begin_write().unwrap();
        let table = txn.create_table("t", TableKind::Ordered).unwrap();
        (0..1000u32).for_each(|n| txn.put(&table, &n.to_be_bytes(), &[0; 100]).unwrap());
        txn.commit().unwrap();
        store.checkpoint().unwrap();
        let first = store.stats().checkpoint;
        for n in 0..1500u32 {
            let mut txn = store.begin_write().unwrap();
            txn.put(&table, &(n * 7 % 1000).to_be_bytes(), &[1; 100]).unwrap();
            txn.commit().unwrap();
        }
        let stats = store.stats();
        assert!(stats.checkpoint > first + 1 && stats.log.bytes < 100_000, "{stats:?}");
        store.check().unwrap();
    }
}
