use std::ops::Bound;

use super::crash::model::dump;
use super::*;

/// Commits `entries` keys of table "t" and as many rows of table "r", 200 bytes each, in transactions of 100.
fn fill(store: &Store, entries: u32) -> (Table, Table) {
    let mut txn = store.begin_write().unwrap();
    let keys = txn.open_table("t", TableKind::Ordered).unwrap();
    let rows = txn.open_table("r", TableKind::Rows).unwrap();
    txn.commit_with(Durability::Relaxed).unwrap();
    for from in (0..entries).step_by(100) {
        let mut txn = store.begin_write().unwrap();
        for n in from..from + 100 {
            // Not in key order, so that adjacent keys are inserted at different times.
            let key = n.wrapping_mul(0x9e37_79b9).to_be_bytes();
            txn.put(&keys, &key, &[n as u8; 200]).unwrap();
            txn.append_row(&rows, &[n as u8; 200]).unwrap();
        }
        txn.commit_with(Durability::Relaxed).unwrap();
    }
    (keys, rows)
}

/// Deletes all keys and rows except every `keep`-th.
fn thin_out(store: &Store, keys: &Table, rows: &Table, keep: usize) {
    let mut txn = store.begin_write().unwrap();
    let all: Vec<_> =
        txn.range(keys, (Bound::Unbounded, Bound::Unbounded)).unwrap().map(|e| e.unwrap().0).collect();
    for (_, key) in all.iter().enumerate().filter(|(i, _)| !i.is_multiple_of(keep)) {
        txn.delete(keys, key).unwrap();
    }
    for row in (1..=all.len() as u64).filter(|row| !row.is_multiple_of(keep as u64)) {
        txn.delete_row(rows, row).unwrap();
    }
    txn.commit_with(Durability::Relaxed).unwrap();
}

fn bytes_of_pages(stats: &Stats) -> u64 {
    u64::from(stats.pages.live) * 4096
}

#[test]
fn compaction_leaves_a_file_of_live_pages_with_everything_in_it() {
    in_mode(Mode::Mapped, compacted);
    in_mode(Mode::Cached, compacted);
}

fn compacted() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let (keys, rows) = fill(&store, 4000);
    thin_out(&store, &keys, &rows, 4);
    store.checkpoint().unwrap();
    let (before, state) = (store.stats(), dump(&store).unwrap());
    let done = store.compact(|_| {}).unwrap();
    let after = store.stats();
    assert!(done.moved > 0 && done.after < done.before, "{done:?}");
    assert_eq!(after.page_file_bytes, disk.contents(&dir().join("pages")).unwrap().len() as u64);
    assert!(before.page_file_bytes > 2 * bytes_of_pages(&before), "{before:?}");
    assert!(after.page_file_bytes <= bytes_of_pages(&after) + 40 * 4096, "{after:?}");
    assert_eq!(dump(&store).unwrap(), state);
    store.check().unwrap();
    // The file can grow again, and everything is there after reopening.
    fill(&store, 500);
    let state = dump(&store).unwrap();
    store.check().unwrap();
    store.close().unwrap();
    let store = open(&disk).unwrap();
    store.check().unwrap();
    assert_eq!(dump(&store).unwrap(), state);
}

#[test]
fn a_snapshot_keeps_its_pages_during_a_compaction() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let (keys, rows) = fill(&store, 2000);
    let snapshot = store.begin_read().unwrap();
    thin_out(&store, &keys, &rows, 50);
    store.compact(|_| {}).unwrap();
    let long = store.stats().page_file_bytes;
    assert_eq!(snapshot.range(&keys, (Bound::Unbounded, Bound::Unbounded)).unwrap().count(), 2000);
    for (n, row) in (0u64..).zip(snapshot.rows(&rows, 0).unwrap()) {
        let (row, value) = row.unwrap();
        assert_eq!((row, value), (n + 1, &[n as u8; 200][..]));
    }
    drop(snapshot);
    store.compact(|_| {}).unwrap();
    let short = store.stats().page_file_bytes;
    assert!(short < long / 4, "{short} {long} {:?}", store.stats());
    store.check().unwrap();
}

#[test]
fn a_file_that_is_mostly_free_at_its_end_shrinks_by_itself() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    fill(&store, 3000);
    store.checkpoint().unwrap();
    let full = store.stats().page_file_bytes;
    let mut txn = store.begin_write().unwrap();
    txn.drop_table("t").unwrap();
    txn.drop_table("r").unwrap();
    txn.commit().unwrap();
    for n in 0..4u8 {
        let mut txn = store.begin_write().unwrap();
        let table = txn.open_table("other", TableKind::Ordered).unwrap();
        txn.put(&table, b"key", &[n]).unwrap();
        txn.commit().unwrap();
        store.checkpoint().unwrap();
    }
    let small = store.stats().page_file_bytes;
    assert!(small < full / 4, "{small} of {full}");
    store.check().unwrap();
}

#[test]
fn readers_and_writers_are_not_blocked_by_compaction_of_a_real_file() {
    let temp = TempDir::new("compact");
    let store = Store::open_with(temp.path(), Options { growth: 64, ..Options::default() }).unwrap();
    let (keys, rows) = fill(&store, 20_000);
    thin_out(&store, &keys, &rows, 4);
    store.checkpoint().unwrap();
    let expected = store.snapshot().unwrap().len(&keys).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let over = || stop.load(std::sync::atomic::Ordering::Relaxed);
    let (mut reads, mut writes) = (0, 0);
    let (before, after) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !over() {
                let snapshot = store.snapshot().unwrap();
                let mut sum = 0;
                for entry in snapshot.range(&keys, (Bound::Unbounded, Bound::Unbounded)).unwrap() {
                    let (_, value) = entry.unwrap();
                    sum += u64::from(value.iter().all(|&b| b == value[0]));
                }
                assert_eq!(sum, expected);
                reads += 1;
            }
            reads
        });
        let writer = scope.spawn(|| {
            let mut writes = 0u64;
            while !over() {
                let mut txn = store.begin_write().unwrap();
                let table = txn.open_table("w", TableKind::Ordered).unwrap();
                txn.put(&table, &(writes % 500).to_be_bytes(), &writes.to_be_bytes()).unwrap();
                txn.commit_with(Durability::Relaxed).unwrap();
                writes += 1;
            }
            writes
        });
        let before = store.stats().page_file_bytes;
        for _ in 0..3 {
            store.compact(|_| {}).unwrap();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        reads += reader.join().unwrap();
        writes += writer.join().unwrap();
        (before, store.stats().page_file_bytes)
    });
    store.compact(|_| {}).unwrap();
    let rest = store.stats().page_file_bytes;
    let told = format!("{before} -> {after} -> {rest} bytes, {reads} reads, {writes} writes");
    assert!(rest < before && rest <= bytes_of_pages(&store.stats()) + 40 * 4096, "{told}");
    assert_eq!(rest, std::fs::metadata(temp.path().join("pages")).unwrap().len());
    store.check().unwrap();
}

#[test]
fn value_trees_are_moved_to_the_front_too() {
    in_mode(Mode::Mapped, values_moved);
    in_mode(Mode::Cached, values_moved);
}

fn values_moved() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let mut txn = store.begin_write().unwrap();
    let pairs = txn.create_table("pairs", TableKind::Dup).unwrap();
    let filler = txn.create_table("filler", TableKind::Rows).unwrap();
    for n in 0..6000u32 {
        txn.append_row(&filler, &[n as u8; 200]).unwrap();
    }
    txn.commit().unwrap();
    // One key with a large value tree, some with small ones, and many without, after pages that will be
    // freed.
    let mut txn = store.begin_write().unwrap();
    for n in 0..20_000u32 {
        let key = if n % 2 == 0 { 7u32 } else { n % 40 };
        txn.put_pair(&pairs, &key.to_be_bytes(), format!("a value with number {n}").as_bytes()).unwrap();
        txn.put_pair(&pairs, format!("one of many {}", n % 500).as_bytes(), b"").unwrap();
    }
    txn.commit().unwrap();
    let mut txn = store.begin_write().unwrap();
    txn.drop_table("filler").unwrap();
    txn.commit().unwrap();
    store.checkpoint().unwrap();
    let state = dump(&store).unwrap();
    let done = store.compact(|_| {}).unwrap();
    let after = store.stats();
    assert!(done.moved > 100, "{done:?}");
    assert!(after.page_file_bytes <= bytes_of_pages(&after) + 40 * 4096, "{after:?}");
    assert_eq!(dump(&store).unwrap(), state);
    store.check().unwrap();
    store.close().unwrap();
    let store = open(&disk).unwrap();
    store.check().unwrap();
    assert_eq!(dump(&store).unwrap(), state);
}
