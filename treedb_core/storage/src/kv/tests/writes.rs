//! Conditional changes, and changes that delete many entries.

use std::ops::Bound;

use super::*;
use crate::Error;

fn table() -> (Store, Table) {
    let store = open(&SimDisk::new()).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", TableKind::Ordered).unwrap();
    txn.commit().unwrap();
    (store, table)
}

#[test]
fn a_value_is_swapped_only_for_the_one_that_was_expected() {
    let (store, table) = table();
    let mut txn = store.begin_write().unwrap();
    assert!(!txn.compare_and_swap(&table, b"k", Some(b"1"), Some(b"2")).unwrap());
    assert!(txn.compare_and_swap(&table, b"k", None, Some(b"1")).unwrap());
    assert!(!txn.compare_and_swap(&table, b"k", None, Some(b"2")).unwrap());
    assert!(txn.compare_and_swap(&table, b"k", Some(b"1"), Some(&[2; 5000])).unwrap());
    assert!(txn.compare_and_swap(&table, b"k", Some(&[2; 5000]), None).unwrap());
    assert!(txn.compare_and_swap(&table, b"k", None, None).unwrap());
    assert!(txn.put_if_absent(&table, b"k", b"3").unwrap());
    assert!(!txn.put_if_absent(&table, b"k", b"4").unwrap());
    assert_eq!(txn.replace(&table, b"k", b"5").unwrap().as_deref(), Some(&b"3"[..]));
    assert_eq!(txn.replace(&table, b"l", b"6").unwrap(), None);
    assert_eq!(txn.len(&table).unwrap(), 2);
}

#[test]
fn an_append_out_of_order_is_refused_and_changes_nothing() {
    let (store, table) = table();
    let mut txn = store.begin_write().unwrap();
    for n in 0..2000u32 {
        txn.append(&table, &n.to_be_bytes(), b"v").unwrap();
    }
    for n in [0u32, 7, 1999] {
        let error = txn.append(&table, &n.to_be_bytes(), b"w").unwrap_err();
        assert!(matches!(&error, Error::Invalid(why) if why.contains("rising order")), "{error}");
    }
    assert!(matches!(txn.append(&table, &[9; 4000], b""), Err(Error::KeyTooLong { .. })));
    txn.append(&table, &2000u32.to_be_bytes(), b"v").unwrap();
    txn.commit().unwrap();
    assert_eq!(store.snapshot().unwrap().len(&table).unwrap(), 2001);
}

#[test]
fn if_one_entry_is_too_long_all_entries_are_refused() {
    let (store, table) = table();
    let mut txn = store.begin_write().unwrap();
    let error = txn.put_all(&table, &[(b"a", b"1"), (&[9; 4000], b"2")]).unwrap_err();
    assert!(matches!(error, Error::KeyTooLong { .. }), "{error}");
    assert_eq!(txn.len(&table).unwrap(), 0);
    txn.put_all(&table, &[(b"a", b"1"), (b"b", b"2"), (b"b", b"3")]).unwrap();
    assert_eq!(txn.get(&table, b"b").unwrap(), Some(&b"3"[..]));
    assert_eq!(txn.len(&table).unwrap(), 2);
}

#[test]
fn large_values_of_a_deleted_range_and_of_a_cleared_table_are_freed() {
    let (store, table) = table();
    let mut txn = store.begin_write().unwrap();
    for n in 0..100u8 {
        txn.put(&table, &[n], &vec![n; if n % 2 == 0 { 5000 } else { 50 }]).unwrap();
    }
    txn.commit().unwrap();
    store.checkpoint().unwrap();
    let live = store.stats().values.live;
    let mut txn = store.begin_write().unwrap();
    let bounds = (Bound::Excluded(&[9u8][..]), Bound::Included(&[59u8][..]));
    assert_eq!(txn.delete_range(&table, bounds).unwrap(), 50);
    assert_eq!(txn.delete_range(&table, bounds).unwrap(), 0);
    assert_eq!(txn.delete_range(&table, (bounds.1, bounds.0)).unwrap(), 0);
    txn.commit().unwrap();
    store.check().unwrap();
    store.checkpoint().unwrap();
    assert_eq!(store.stats().values.live, live / 2);
    let mut txn = store.begin_write().unwrap();
    assert_eq!(txn.clear(&table).unwrap(), 50);
    assert_eq!(txn.clear(&table).unwrap(), 0);
    txn.commit().unwrap();
    store.check().unwrap();
    store.checkpoint().unwrap();
    assert_eq!(store.stats().values.live, 0);
}

#[test]
fn a_batch_clears_and_deletes_ranges_in_order() {
    let (store, table) = table();
    let mut batch = Batch::new();
    for n in 0..10u8 {
        batch.put(&table, &[n], b"v").unwrap();
    }
    batch.delete_range(&table, (Bound::Included(&[3]), Bound::Excluded(&[6]))).unwrap();
    let mut txn = store.begin_write().unwrap();
    txn.write(&batch).unwrap();
    assert_eq!(txn.len(&table).unwrap(), 7);
    batch.clear();
    batch.clear_table(&table);
    batch.put(&table, b"k", b"v").unwrap();
    txn.write(&batch).unwrap();
    txn.commit().unwrap();
    assert_eq!(store.snapshot().unwrap().len(&table).unwrap(), 1);
}

#[test]
fn a_cleared_table_of_rows_does_not_reuse_numbers() {
    let store = open(&SimDisk::new()).unwrap();
    let mut txn = store.begin_write().unwrap();
    let rows = txn.create_table("rows", TableKind::Rows).unwrap();
    for n in 1..=5 {
        assert_eq!(txn.append_row(&rows, b"row").unwrap(), n);
    }
    assert_eq!(txn.clear(&rows).unwrap(), 5);
    assert_eq!(txn.append_row(&rows, b"row").unwrap(), 6);
}

#[test]
fn a_range_of_rows_is_deleted_with_its_large_values() {
    let store = open(&SimDisk::new()).unwrap();
    let mut txn = store.begin_write().unwrap();
    let rows = txn.create_table("rows", TableKind::Rows).unwrap();
    for n in 1..=400u64 {
        txn.append_row(&rows, &vec![n as u8; if n % 20 == 0 { 4000 } else { 60 }]).unwrap();
    }
    txn.commit().unwrap();
    let mut txn = store.begin_write().unwrap();
    assert_eq!(txn.delete_rows(&rows, 100..300).unwrap(), 200);
    assert_eq!(txn.delete_rows(&rows, 100..300).unwrap(), 0);
    assert_eq!(txn.delete_rows(&rows, std::ops::Range { start: 300, end: 100 }).unwrap(), 0);
    assert_eq!(txn.table_stats(&rows).unwrap().large_values, 10);
    let mut batch = Batch::new();
    batch.delete_rows(&rows, 0..u64::MAX).unwrap();
    let other = txn.create_table("other", TableKind::Ordered).unwrap();
    batch.drop_table(&other);
    txn.write(&batch).unwrap();
    assert_eq!(txn.append_row(&rows, b"next").unwrap(), 401);
    assert!(txn.table("other").unwrap().is_none());
    txn.commit().unwrap();
    assert_eq!(store.check().unwrap().entries, 1);
}

#[test]
fn a_renamed_table_is_the_same_table() {
    let (store, table) = table();
    let mut txn = store.begin_write().unwrap();
    txn.put(&table, b"k", b"v").unwrap();
    let other = txn.create_table("other", TableKind::Rows).unwrap();
    assert!(matches!(txn.rename_table("t", "other"), Err(Error::TableMismatch { .. })));
    assert!(matches!(txn.rename_table("t", ""), Err(Error::Invalid(_))));
    assert!(!txn.rename_table("nothing", "new").unwrap());
    assert!(txn.rename_table("t", "t").unwrap());
    assert!(txn.rename_table("t", "new").unwrap());
    assert!(txn.rename_table("other", "t").unwrap());
    txn.commit().unwrap();
    let read = store.snapshot().unwrap();
    assert_eq!(read.get(&table, b"k").unwrap(), Some(&b"v"[..]));
    assert_eq!(read.table("new").unwrap().map(|found| found.id()), Some(table.id()));
    assert_eq!(read.table("t").unwrap().map(|found| found.id()), Some(other.id()));
    assert!(read.table("other").unwrap().is_none());
    store.check().unwrap();
}
