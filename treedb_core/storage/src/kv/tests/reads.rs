//! Reads: statistics of tables, the list of readers, prefixes at the end of the key space.

use std::collections::BTreeMap;
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

/// What rows should contain.
type Rows = BTreeMap<u64, Vec<u8>>;

/// Random changes of rows in each of many transactions; `check` is given a snapshot after each, and the rows.
fn change_rows(store: &Store, table: &Table, check: &mut dyn FnMut(ReadTxn, &Rows)) {
    let mut rng = treedb_testing::Rng::new(11);
    let mut model = Rows::new();
    for round in 0..60 {
        let mut txn = store.begin_write().unwrap();
        for _ in 0..rng.below(40) {
            let row = 1 + rng.below(3000) as u64;
            let value = vec![rng.below(256) as u8; rng.below(300)];
            txn.put_row(table, row, &value).unwrap();
            model.insert(row, value);
        }
        if round % 5 == 4 {
            // Whole leaves.
            let from = rng.below(3000) as u64;
            for row in from..from + rng.below(600) as u64 {
                txn.delete_row(table, row).unwrap();
                model.remove(&row);
            }
        }
        if round % 7 == 6 {
            let savepoint = txn.savepoint().unwrap();
            txn.put_row(table, 5, b"not kept").unwrap();
            txn.rollback_to(&savepoint).unwrap();
        }
        txn.commit().unwrap();
        check(store.begin_read().unwrap(), &model);
    }
}

#[test]
fn rows_stored_since_a_transaction_are_in_the_new_ranges_and_a_version_has_the_same_rows() {
    for mode in [Mode::Mapped, Mode::Cached] {
        in_mode(mode, || {
            let store = open(&SimDisk::new()).unwrap();
            let mut txn = store.begin_write().unwrap();
            let table = txn.create_table("rows", TableKind::Rows).unwrap();
            assert_eq!((txn.committed(), txn.version(&table).unwrap()), (None, None));
            txn.commit().unwrap();
            let mut states: Vec<(u64, TableVersion, Rows)> = Vec::new();
            change_rows(&store, &table, &mut |reads, rows| {
                let now = reads.committed().unwrap();
                assert_eq!(now, reads.txn());
                let version = reads.version(&table).unwrap().unwrap();
                for (then, earlier, old) in &states {
                    assert!(*earlier != version || old == rows, "two states have one version");
                    let ranges = reads.new_rows(&table, *then).unwrap();
                    assert!(ranges.is_sorted_by(|a, b| a.end < b.start), "{ranges:?}");
                    for (row, value) in rows.iter().filter(|(row, value)| old.get(row) != Some(value)) {
                        assert!(
                            ranges.iter().any(|range| range.contains(row)),
                            "{row} of {value:?} in {ranges:?}"
                        );
                        assert!(reads.may_be_new(&table, *row, *then).unwrap());
                    }
                }
                assert_eq!(reads.new_rows(&table, now).unwrap(), []);
                assert!(rows.keys().all(|row| !reads.may_be_new(&table, *row, now).unwrap()));
                states.push((now, version, rows.clone()));
            });
            // Pages that nothing has changed are not read again.
            let reads = store.begin_read().unwrap();
            let before = reads.committed().unwrap();
            drop(reads);
            let mut txn = store.begin_write().unwrap();
            txn.put_row(&table, 1500, b"one").unwrap();
            txn.commit().unwrap();
            let ranges = store.begin_read().unwrap().new_rows(&table, before).unwrap();
            assert!(ranges.len() == 1 && ranges[0].contains(&1500) && ranges[0].end - ranges[0].start < 1000);
        });
    }
}
