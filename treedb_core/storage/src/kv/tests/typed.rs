//! Typed tables.

use super::*;
use crate::Error;

#[test]
fn a_typed_table_is_in_the_order_of_its_keys() {
    let store = open(&SimDisk::new()).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = TypedTable::<i64, String>::open(&mut txn, "t").unwrap();
    for n in [5, -3, i64::MIN, 0, -1, i64::MAX] {
        table.put(&mut txn, n, &n.to_string()).unwrap();
    }
    assert!(!table.put_if_absent(&mut txn, 0, "again").unwrap());
    assert!(table.append(&mut txn, 7, "below the last").is_err());
    assert_eq!(table.get(&txn, -3).unwrap(), Some("-3"));
    assert_eq!(table.get(&txn, 3).unwrap(), None);
    let keys = |range: TypedRange<'_, i64, String>| -> Vec<i64> { range.map(|e| e.unwrap().0).collect() };
    assert_eq!(keys(table.range(&txn, ..).unwrap()), [i64::MIN, -3, -1, 0, 5, i64::MAX]);
    assert_eq!(keys(table.range(&txn, -3..5).unwrap()), [-3, -1, 0]);
    assert_eq!(keys(table.range(&txn, -1..=5).unwrap()), [-1, 0, 5]);
    assert_eq!(table.range(&txn, ..0).unwrap().next_back().unwrap().unwrap(), (-1, "-1"));
    assert_eq!(table.first(&txn).unwrap().map(|(key, _)| key), Some(i64::MIN));
    assert_eq!(table.last(&txn).unwrap().map(|(key, _)| key), Some(i64::MAX));
    assert_eq!(table.delete_range(&mut txn, ..0).unwrap(), 3);
    assert!(table.delete(&mut txn, 5).unwrap());
    assert_eq!(table.len(&txn).unwrap(), 2);
    txn.commit().unwrap();
    let read = store.snapshot().unwrap();
    let found = TypedTable::<i64, String>::find(&read, "t").unwrap().unwrap();
    assert_eq!(found.get(&read, 0).unwrap(), Some("0"));
    assert!(TypedTable::<i64, String>::find(&read, "u").unwrap().is_none());
}

#[test]
fn a_table_of_other_types_is_a_mismatch() {
    let store = open(&SimDisk::new()).unwrap();
    let mut txn = store.begin_write().unwrap();
    let bytes = TypedTable::<Vec<u8>, Vec<u8>>::open(&mut txn, "t").unwrap();
    bytes.put(&mut txn, b"odd", b"value").unwrap();
    let other = TypedTable::<u32, u64>::of(bytes.table().clone()).unwrap();
    assert!(matches!(other.first(&txn), Err(Error::TableMismatch { .. })));
    let other = TypedTable::<Vec<u8>, u64>::of(bytes.table().clone()).unwrap();
    assert!(matches!(other.get(&txn, b"odd"), Err(Error::TableMismatch { .. })));
    assert!(matches!(other.range(&txn, ..).unwrap().next(), Some(Err(Error::TableMismatch { .. }))));
    let rows = txn.create_table("rows", TableKind::Rows).unwrap();
    assert!(matches!(TypedTable::<u64, u64>::of(rows), Err(Error::TableMismatch { .. })));
}

#[test]
fn typed_prefixes_select_by_leading_parts_and_keys_are_in_order() {
    let store = open(&SimDisk::new()).unwrap();
    let mut txn = store.begin_write().unwrap();
    let pairs = TypedTable::<(String, u32), u64>::open(&mut txn, "pairs").unwrap();
    let words = TypedTable::<String, u64>::open(&mut txn, "words").unwrap();
    for (i, word) in ["a", "ab", "abc", "b"].into_iter().enumerate() {
        words.put(&mut txn, word, i as u64).unwrap();
        for n in 0..3 {
            pairs.put(&mut txn, (word, n), u64::from(n)).unwrap();
        }
    }
    let of_ab: Vec<_> = pairs.prefix::<(String,)>(&txn, ("ab",)).unwrap().map(|e| e.unwrap().0).collect();
    assert_eq!(of_ab, [0, 1, 2].map(|n| ("ab".to_owned(), n)));
    let from_ab: Vec<_> = words.prefix::<String>(&txn, "ab").unwrap().map(|e| e.unwrap().0).collect();
    assert_eq!(from_ab, ["ab", "abc"]);
    assert_eq!(words.get_many(&txn, ["b", "x", "a"]).unwrap(), [Some(3), None, Some(0)]);
}
