//! Reads: statistics of tables, the list of readers, prefixes at the end of the key space.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
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
                    }
                }
                assert_eq!(reads.new_rows(&table, now).unwrap(), []);
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

#[test]
fn the_rows_changed_since_a_transaction_are_known_from_the_first_question_on() {
    let store = open(&SimDisk::new()).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("rows", TableKind::Rows).unwrap();
    assert_eq!(txn.changed_rows(&table, 0), None, "the transaction may change them");
    txn.commit().unwrap();
    let (mut last, mut known): (Option<(u64, Rows)>, usize) = (None, 0);
    change_rows(&store, &table, &mut |reads, rows| {
        let now = reads.committed().unwrap();
        if let Some((then, old)) = &last {
            let changed = reads.changed_rows(&table, *then);
            if let Some(changed) = &changed {
                assert!(changed.is_sorted_by(|a, b| a < b));
                for row in old.keys().chain(rows.keys()).filter(|row| old.get(row) != rows.get(row)) {
                    assert!(changed.contains(row), "{row}");
                }
                known += 1;
            }
            assert_eq!(reads.changed_rows(&table, then - 1), None, "they were given up");
        }
        last = Some((now, rows.clone()));
    });
    assert!(known > 50, "{known}");
    // An older snapshot does not hear of what it does not see.
    let old = store.begin_read().unwrap();
    let put = |row: u64| {
        let mut txn = store.begin_write().unwrap();
        txn.put_row(&table, row, b"new").unwrap();
        txn.commit().unwrap();
    };
    put(7);
    let since = old.txn();
    assert_eq!(old.changed_rows(&table, since), Some(vec![]));
    assert_eq!(store.snapshot().unwrap().changed_rows(&table, since), Some(vec![7]));
    // A range was deleted.
    let since = store.snapshot().unwrap().txn();
    put(1);
    assert_eq!(store.snapshot().unwrap().changed_rows(&table, since), Some(vec![1]));
    let mut txn = store.begin_write().unwrap();
    txn.delete_rows(&table, 1..1 << 40).unwrap();
    txn.commit().unwrap();
    assert_eq!(store.snapshot().unwrap().changed_rows(&table, since), None);
}

/// A store with so many tables of rows, about each of which was asked.
fn followed(disk: &SimDisk, tables: usize) -> (Store, Vec<Table>) {
    let store = open(disk).unwrap();
    let mut txn = store.begin_write().unwrap();
    let name = |number| format!("rows {number}");
    let create = |number| txn.create_table(&name(number), TableKind::Rows).unwrap();
    let tables: Vec<Table> = (0..tables).map(create).collect();
    txn.commit().unwrap();
    for table in &tables {
        assert_eq!(store.snapshot().unwrap().changed_rows(table, 0), None);
    }
    (store, tables)
}

fn put_rows(store: &Store, table: &Table, rows: std::ops::Range<u64>, how: Durability) {
    let mut txn = store.begin_write().unwrap();
    rows.for_each(|row| txn.put_row(table, row, &[7; 30]).unwrap());
    txn.commit_with(how).unwrap();
}

#[test]
fn changed_rows_are_kept_of_tables_that_are_asked_about_as_long_as_there_are_not_too_many() {
    let (store, tables) = followed(&SimDisk::new(), 2);
    let counts = || {
        let mut counts = store.inner.changed_rows.counts();
        counts.sort_unstable();
        counts
    };
    let [one, other] = &*tables else { unreachable!() };
    let asked = |table: &Table, since: u64| store.snapshot().unwrap().changed_rows(table, since);
    let since = store.snapshot().unwrap().txn();
    // The writer's log has nothing of a commit that need not be durable.
    put_rows(&store, one, 1..3, Durability::None);
    put_rows(&store, other, 5..6, Durability::Durable);
    assert_eq!((asked(one, since), asked(other, since)), (Some(vec![1, 2]), Some(vec![5])));
    // One transaction with too many.
    put_rows(&store, one, 1..1000, Durability::None);
    assert_eq!(counts(), [1]);
    assert_eq!((asked(one, since), asked(other, since)), (None, Some(vec![5])));
    // Many transactions, none of them in the table that nobody asks about.
    for _ in 0..2 {
        let since = store.snapshot().unwrap().txn();
        assert!(asked(one, since).is_none_or(|rows| rows.is_empty()));
        for row in 1..400 {
            put_rows(&store, one, row..row + 1, Durability::None);
        }
        assert_eq!(asked(one, since).unwrap().len(), 399);
    }
    assert_eq!((counts(), asked(other, since)), (vec![399], None));
    // Too many changes that nobody asks about.
    for _ in 0..200 {
        put_rows(&store, one, 1..2, Durability::None);
    }
    assert_eq!(counts(), [0]);
}

#[test]
fn of_two_who_ask_about_a_table_the_one_behind_is_told_once_that_the_changed_rows_are_not_known() {
    let (store, tables) = followed(&SimDisk::new(), 1);
    let put = |row| {
        put_rows(&store, &tables[0], row..row + 1, Durability::None);
        store.snapshot().unwrap().txn()
    };
    let asked = |since: u64| store.snapshot().unwrap().changed_rows(&tables[0], since);
    let (behind, ahead) = (put(1), put(2));
    put(3);
    assert_eq!((asked(ahead), asked(behind)), (Some(vec![3]), None));
    // In turn, each asks since it asked before.
    let mut since = [put(8), put(9)];
    for row in 10..30 {
        let now = put(row);
        let rows = asked(std::mem::replace(&mut since[row as usize % 2], now)).unwrap();
        assert_eq!(rows, [row - 1, row], "{since:?}");
    }
}

#[test]
fn rows_that_a_compaction_moves_are_not_changed() {
    let (store, tables) = followed(&SimDisk::new(), 1);
    let table = &tables[0];
    put_rows(&store, table, 1..8000, Durability::None);
    let mut txn = store.begin_write().unwrap();
    (1..8000).filter(|row| row % 4 > 0).for_each(|row| assert!(txn.delete_row(table, row).unwrap()));
    txn.commit().unwrap();
    assert_eq!(store.snapshot().unwrap().changed_rows(table, 0), None);
    put_rows(&store, table, 1..2, Durability::None);
    store.checkpoint().unwrap();
    let since = store.snapshot().unwrap().txn();
    let moved = store.compact(|_| {}).unwrap().moved;
    assert!(moved > 0 && store.snapshot().unwrap().txn() > since, "it has transactions of its own");
    put_rows(&store, table, 3..4, Durability::None);
    assert_eq!(store.snapshot().unwrap().changed_rows(table, since), Some(vec![3]));
}

#[test]
fn what_is_told_of_changed_rows_beside_a_writer_is_all_that_a_scan_finds() {
    let store = open(&SimDisk::new()).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("rows", TableKind::Rows).unwrap();
    txn.commit().unwrap();
    let rows_of = |reads: &ReadTxn| -> Rows {
        let (mut rows, mut all) = (reads.rows(&table, 0).unwrap(), Rows::new());
        while let Some((row, value)) = rows.lend_next().unwrap() {
            all.insert(row, value.to_vec());
        }
        all
    };
    let (asked, done) = (AtomicU32::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut rng, mut n) = (treedb_testing::Rng::new(5), 0_u32);
            while !done.load(Ordering::Relaxed) {
                // Not so many between two questions that they are given up.
                if n > 50 * asked.load(Ordering::Relaxed) + 50 {
                    std::thread::yield_now();
                    continue;
                }
                n += 1;
                let mut txn = store.begin_write().unwrap();
                txn.put_row(&table, 1 + rng.below(200) as u64, &n.to_le_bytes()).unwrap();
                txn.delete_row(&table, 1 + rng.below(200) as u64).unwrap();
                txn.commit_with(Durability::None).unwrap();
            }
        });
        let reads = store.begin_read().unwrap();
        let (mut since, mut rows, mut known) = (reads.txn(), rows_of(&reads), 0);
        while known < 50 {
            let reads = store.begin_read().unwrap();
            let all = rows_of(&reads);
            if let Some(changed) = reads.changed_rows(&table, since) {
                known += u32::from(!changed.is_empty());
                for row in changed {
                    match reads.row(&table, row).unwrap() {
                        Some(value) => drop(rows.insert(row, value.to_vec())),
                        None => drop(rows.remove(&row)),
                    }
                }
                // The writer would go on.
                done.store(rows != all, Ordering::Relaxed);
                assert_eq!(rows, all);
            }
            (since, rows) = (reads.txn(), all);
            asked.fetch_add(1, Ordering::Relaxed);
            std::thread::yield_now();
        }
        done.store(true, Ordering::Relaxed);
    });
}
