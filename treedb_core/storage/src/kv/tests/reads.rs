//! Reads: statistics of tables, the list of readers, prefixes at the end of the key space.

use std::time::Duration;

use super::*;

#[test]
fn the_statistics_of_a_table_agree_with_check() {
    let store = open(&SimDisk::new()).unwrap();
    let mut txn = store.begin_write().unwrap();
    let keys = txn.create_table("keys", TableKind::Ordered).unwrap();
    let rows = txn.create_table("rows", TableKind::Rows).unwrap();
    txn.create_table("void", TableKind::Ordered).unwrap();
    for n in 0..3000u32 {
        txn.put(&keys, &n.to_be_bytes(), &[7; 20]).unwrap();
        txn.append_row(&rows, &[7; 20]).unwrap();
    }
    txn.put(&keys, b"large", &[7; 9000]).unwrap();
    // The page of the catalog is counted; there are no pages of the free list without a checkpoint.
    let stats = txn.all_table_stats().unwrap();
    txn.commit().unwrap();
    let pages: u64 = stats.iter().map(TableStats::pages).sum();
    let report = store.check().unwrap();
    assert_eq!(u64::from(store.stats().pages.live), pages + 1);
    assert_eq!(report.entries, stats.iter().map(|table| table.entries).sum::<u64>());
    let [keys, rows, void] = &stats[..] else { panic!("{stats:?}") };
    assert_eq!((keys.table.name(), keys.entries, keys.large_values, keys.depth), ("keys", 3001, 1, 2));
    assert_eq!((rows.table.name(), rows.entries, rows.large_values, rows.depth), ("rows", 3000, 0, 2));
    assert!(keys.branch_pages == 1 && keys.leaf_pages > 20 && rows.leaf_pages > 15, "{stats:?}");
    assert_eq!((void.table.name(), void.entries, void.depth, void.pages()), ("void", 0, 0, 0));
}

#[test]
fn the_list_of_readers_has_the_transaction_and_age_of_each() {
    let store = open(&SimDisk::new()).unwrap();
    assert!(store.readers().is_empty());
    let commit = |name: &str| {
        let mut txn = store.begin_write().unwrap();
        txn.create_table(name, TableKind::Ordered).unwrap();
        txn.commit().unwrap();
    };
    let old = store.begin_read().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(store.readers()[0].age, Duration::ZERO, "there is no newer transaction");
    commit("a");
    std::thread::sleep(Duration::from_millis(60));
    assert!(store.readers()[0].age >= Duration::from_millis(40));
    let middle = store.snapshot().unwrap();
    commit("b");
    let new = store.snapshot().unwrap();
    let readers = store.readers();
    assert_eq!(readers.iter().map(|r| r.txn).collect::<Vec<_>>(), [old.txn(), middle.txn(), new.txn()]);
    assert!(readers[0].age >= Duration::from_millis(40), "{readers:?}");
    assert!(readers[1].age < readers[0].age && readers[2].age == Duration::ZERO, "{readers:?}");
    drop(middle);
    drop(old);
    assert_eq!(store.readers().len(), 1);
    drop(new);
    assert!(store.readers().is_empty());
}

#[test]
fn a_prefix_of_0xff_bytes_has_no_upper_bound() {
    let store = open(&SimDisk::new()).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", TableKind::Ordered).unwrap();
    let keys: [&[u8]; 6] = [b"", b"a", b"a\xff", b"b", b"\xff", b"\xff\xff\x01"];
    for key in keys {
        txn.put(&table, key, b"v").unwrap();
    }
    let under = |prefix: &[u8]| -> Vec<Vec<u8>> {
        let found: Vec<_> = txn.prefix(&table, prefix).unwrap().map(|e| e.unwrap().0).collect();
        let mut back: Vec<_> = txn.prefix(&table, prefix).unwrap().rev().map(|e| e.unwrap().0).collect();
        back.reverse();
        assert_eq!(found, back);
        found
    };
    assert_eq!(under(b""), keys);
    assert_eq!(under(b"a"), [&b"a"[..], b"a\xff"]);
    assert_eq!(under(b"a\xff"), [b"a\xff"]);
    assert_eq!(under(b"\xff"), [&b"\xff"[..], b"\xff\xff\x01"]);
    assert_eq!(under(b"\xff\xff\xff"), [&b""[..]; 0]);
}
