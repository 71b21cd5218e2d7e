//! Tests of optimistic transactions: what they see, what they conflict with, and that they are serializable.

use std::collections::BTreeMap;
use std::ops::Bound;

use treedb_testing::{Rng, in_time};

use super::*;
use crate::Error;
use crate::kv::reads::{is_above, is_below};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

const ALL: Bounds<'static> = (Bound::Unbounded, Bound::Unbounded);

fn store_with(options: Options) -> (Store, Table, Table) {
    let store = Store::open_with(dir(), options).unwrap();
    let mut txn = store.begin_write().unwrap();
    let keys = txn.create_table("keys", TableKind::Ordered).unwrap();
    let rows = txn.create_table("rows", TableKind::Rows).unwrap();
    txn.commit().unwrap();
    (store, keys, rows)
}

fn store() -> (Store, Table, Table) {
    store_with(options(&SimDisk::new()))
}

fn put(store: &Store, table: &Table, key: &[u8], value: &[u8]) {
    let mut txn = store.begin_write().unwrap();
    txn.put(table, key, value).unwrap();
    txn.commit().unwrap();
}

/// An operation of a transaction, and what it returned.
#[derive(Debug)]
enum Step {
    Get(Vec<u8>, Option<Vec<u8>>),
    /// Bounds, whether forward, the maximum number of entries, and the entries.
    Scan((Bound<Vec<u8>>, Bound<Vec<u8>>), bool, usize, Vec<(Vec<u8>, Vec<u8>)>),
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeleteRange((Bound<Vec<u8>>, Bound<Vec<u8>>), u64),
}

fn slices((from, to): &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> Bounds<'_> {
    (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice))
}

fn within<'m>(map: &'m Map, bounds: Bounds<'m>) -> impl DoubleEndedIterator<Item = (Vec<u8>, Vec<u8>)> {
    map.iter()
        .filter(move |(key, _)| is_above(key, bounds.0) && is_below(key, bounds.1))
        .map(|(key, value)| (key.clone(), value.clone()))
}

/// Repeats a step on a map; returns whether the result is the same.
fn replay(map: &mut Map, step: &Step) -> bool {
    match step {
        Step::Get(key, seen) => map.get(key) == seen.as_ref(),
        Step::Scan(bounds, forward, count, seen) => {
            let entries = within(map, slices(bounds));
            if *forward {
                entries.take(*count).eq(seen.clone())
            } else {
                entries.rev().take(*count).eq(seen.clone())
            }
        }
        Step::Put(key, value) => {
            map.insert(key.clone(), value.clone());
            true
        }
        Step::Delete(key) => {
            map.remove(key);
            true
        }
        Step::DeleteRange(bounds, seen) => {
            let before = map.len();
            let bounds = slices(bounds);
            map.retain(|key, _| !(is_above(key, bounds.0) && is_below(key, bounds.1)));
            *seen == (before - map.len()) as u64
        }
    }
}

fn some_key(rng: &mut Rng) -> Vec<u8> {
    let n = rng.below(40);
    if n == 0 { Vec::new() } else { format!("key {n}").into_bytes() }
}

fn some_bounds(rng: &mut Rng) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let mut end = || match rng.below(6) {
        0 => Bound::Unbounded,
        1..4 => Bound::Included(some_key(rng)),
        _ => Bound::Excluded(some_key(rng)),
    };
    (end(), end())
}

fn take_step(txn: &mut OptimisticTxn, table: &Table, rng: &mut Rng) -> Step {
    let key = some_key(rng);
    match rng.below(20) {
        0..6 => {
            let seen = txn.get(table, &key).unwrap().map(<[u8]>::to_vec);
            Step::Get(key, seen)
        }
        6..9 => {
            let (bounds, forward) = (some_bounds(rng), rng.chance(50));
            let count = if rng.chance(50) { 1 + rng.below(4) } else { usize::MAX };
            let range = if forward {
                txn.range(table, slices(&bounds)).unwrap()
            } else {
                txn.range_back(table, slices(&bounds)).unwrap()
            };
            let seen = range.take(count).map(|entry| entry.map(|(k, v)| (k, v.to_vec())).unwrap()).collect();
            Step::Scan(bounds, forward, count, seen)
        }
        9..16 => {
            let value = vec![rng.below(256) as u8; rng.below(30)];
            txn.put(table, &key, &value).unwrap();
            Step::Put(key, value)
        }
        16..19 => {
            txn.delete(table, &key).unwrap();
            Step::Delete(key)
        }
        _ => {
            let bounds = some_bounds(rng);
            let removed = txn.delete_range(table, slices(&bounds)).unwrap();
            Step::DeleteRange(bounds, removed)
        }
    }
}

/// A transaction of a random history: its steps, and the contents of the table when it began.
struct Running {
    txn: OptimisticTxn,
    steps: Vec<Step>,
    initial: Map,
}

#[test]
fn random_histories_are_equivalent_to_serial_execution_in_commit_order() {
    in_time(|| {
        for (seed, isolation) in
            [(1, Isolation::Serializable), (2, Isolation::Snapshot), (3, Isolation::Serializable)]
        {
            let mut rng = Rng::new(seed);
            let (store, table, _) = store();
            let mut model = Map::new();
            let mut open: Vec<Running> = Vec::new();
            let (mut committed, mut conflicts) = (0, 0);
            for _ in 0..6000 {
                if open.len() < 4 && rng.chance(30) {
                    let txn = store.begin_optimistic_with(isolation).unwrap();
                    open.push(Running { txn, steps: Vec::new(), initial: model.clone() });
                    continue;
                }
                if rng.chance(2) {
                    // A write transaction between them.
                    let mut txn = store.begin_write().unwrap();
                    let (key, bounds) = (some_key(&mut rng), some_bounds(&mut rng));
                    txn.put(&table, &key, b"writer").unwrap();
                    model.insert(key, b"writer".to_vec());
                    if rng.chance(20) {
                        let bounds = slices(&bounds);
                        txn.delete_range(&table, bounds).unwrap();
                        model.retain(|key, _| !(is_above(key, bounds.0) && is_below(key, bounds.1)));
                    } else if rng.chance(5) {
                        txn.clear(&table).unwrap();
                        model.clear();
                    }
                    txn.commit().unwrap();
                    continue;
                }
                if open.is_empty() {
                    continue;
                }
                let at = rng.below(open.len());
                if !rng.chance(15) {
                    let Running { txn, steps, .. } = &mut open[at];
                    steps.push(take_step(txn, &table, &mut rng));
                    continue;
                }
                let Running { txn, steps, mut initial } = open.swap_remove(at);
                let reads_only = txn.changes() == 0;
                // Every transaction sees its snapshot and its own changes, whether it commits or not.
                assert!(steps.iter().all(|step| replay(&mut initial, step)), "{steps:?}");
                match txn.commit() {
                    Ok(()) if reads_only => {}
                    Ok(()) if isolation == Isolation::Serializable => {
                        committed += 1;
                        // If it commits, it has read what it would read now.
                        assert!(steps.iter().all(|step| replay(&mut model, step)), "{steps:?}");
                    }
                    Ok(()) => {
                        committed += 1;
                        // It deleted only those keys of a range that it saw.
                        for step in &steps {
                            match step {
                                Step::DeleteRange(bounds, _) => {
                                    let bounds = slices(bounds);
                                    let now = store.snapshot().unwrap();
                                    model.retain(|key, _| {
                                        !(is_above(key, bounds.0) && is_below(key, bounds.1))
                                            || now.get(&table, key).unwrap().is_some()
                                    });
                                }
                                step => {
                                    replay(&mut model, step);
                                }
                            }
                        }
                    }
                    Err(Error::Conflict { table, .. }) => {
                        assert_eq!(table, "keys");
                        conflicts += 1;
                    }
                    Err(other) => panic!("{other}"),
                }
                let now = store.snapshot().unwrap();
                let all: Map = now
                    .range(&table, ALL)
                    .unwrap()
                    .map(|e| e.map(|(k, v)| (k, v.to_vec())).unwrap())
                    .collect();
                assert_eq!(all, model);
            }
            assert!(committed > 100 && conflicts > 100, "{committed} committed, {conflicts} conflicts");
            drop(open);
            assert_eq!(store.inner.recent_commits.bytes(), 0);
            store.check().unwrap();
        }
    });
}

#[test]
fn a_cursor_merges_the_snapshot_and_the_changes() {
    let mut rng = Rng::new(7);
    for _ in 0..40 {
        let (store, table, _) = store();
        let mut txn = store.begin_write().unwrap();
        let mut map = Map::new();
        for _ in 0..rng.below(40) {
            let key = some_key(&mut rng);
            txn.put(&table, &key, b"base").unwrap();
            map.insert(key, b"base".to_vec());
        }
        txn.commit().unwrap();
        let mut txn = store.begin_optimistic().unwrap();
        for _ in 0..rng.below(30) {
            let key = some_key(&mut rng);
            if rng.chance(50) {
                txn.put(&table, &key, b"own").unwrap();
                map.insert(key, b"own".to_vec());
            } else {
                txn.delete(&table, &key).unwrap();
                map.remove(&key);
            }
        }
        let all: Vec<_> = map.into_iter().collect();
        let mut cursor = txn.cursor(&table).unwrap();
        let mut at: Option<usize> = None;
        for _ in 0..100 {
            let key = some_key(&mut rng);
            let (moved, to) = match rng.below(7) {
                0 => (cursor.first().unwrap(), (!all.is_empty()).then_some(0)),
                1 => (cursor.last().unwrap(), all.len().checked_sub(1)),
                2 => (cursor.seek(&key).unwrap(), all.iter().position(|(k, _)| *k >= key)),
                3 => (cursor.seek_exact(&key).unwrap(), all.iter().position(|(k, _)| *k == key)),
                4 => (cursor.seek_back(&key).unwrap(), all.iter().rposition(|(k, _)| *k <= key)),
                _ if at.is_none() => continue,
                5 => (cursor.next().unwrap(), at.map(|at| at + 1).filter(|&to| to < all.len())),
                _ => (cursor.prev().unwrap(), at.and_then(|at| at.checked_sub(1))),
            };
            assert_eq!(moved, to.is_some());
            at = to;
            assert_eq!(cursor.key(), at.map(|at| all[at].0.as_slice()));
            assert_eq!(cursor.value().unwrap(), at.map(|at| all[at].1.as_slice()));
        }
    }
}

/// Two transactions that each read both accounts and empty one of them.
fn write_skew(isolation: Isolation) -> (crate::Result<()>, crate::Result<()>) {
    let (store, table, _) = store();
    put(&store, &table, b"a", &[50]);
    put(&store, &table, b"b", &[50]);
    let mut both = [b"a", b"b"].map(|mine| {
        let mut txn = store.begin_optimistic_with(isolation).unwrap();
        let sum: u8 = txn.range(&table, ALL).unwrap().map(|entry| entry.unwrap().1[0]).sum();
        txn.put(&table, mine, &[sum - 100]).unwrap();
        Some(txn)
    });
    let [first, second] = [0, 1].map(|i| both[i].take().unwrap().commit());
    (first, second)
}

#[test]
fn write_skew_is_refused_in_serializable_transactions_and_possible_in_snapshot_ones() {
    let (first, second) = write_skew(Isolation::Serializable);
    first.unwrap();
    let conflict = second.unwrap_err();
    assert!(conflict.is_conflict());
    let message = conflict.to_string();
    assert!(
        message.contains("\"keys\"") && message.contains("\"a\"") && message.contains("again"),
        "{message}"
    );
    let (first, second) = write_skew(Isolation::Snapshot);
    first.and(second).unwrap();
}

#[test]
fn only_reads_conflict_and_a_range_only_as_far_as_it_was_read() {
    let (store, table, rows) = store();
    for key in ["b", "d", "f", "h"] {
        put(&store, &table, key.as_bytes(), b"1");
    }
    let outcome = |read: &dyn Fn(&OptimisticTxn), written: &str| {
        let mut txn = store.begin_optimistic().unwrap();
        read(&txn);
        txn.append_row(&rows, b"row").unwrap();
        put(&store, &table, written.as_bytes(), b"2");
        let conflict = txn.commit().is_err_and(|error| error.is_conflict());
        let mut undo = store.begin_write().unwrap();
        if !["b", "d", "f", "h"].contains(&written) {
            undo.delete(&table, written.as_bytes()).unwrap();
        }
        undo.commit().unwrap();
        conflict
    };
    let get = |txn: &OptimisticTxn| assert_eq!(txn.get(&table, b"c").unwrap(), None);
    assert!(outcome(&get, "c") && !outcome(&get, "b") && !outcome(&get, "cc"));
    let two = |txn: &OptimisticTxn| assert_eq!(txn.range(&table, ALL).unwrap().take(2).count(), 2);
    assert!(outcome(&two, "") && outcome(&two, "c") && outcome(&two, "d"));
    assert!(!outcome(&two, "dd") && !outcome(&two, "f") && !outcome(&two, "z"));
    let back = |txn: &OptimisticTxn| assert_eq!(txn.range_back(&table, ALL).unwrap().take(2).count(), 2);
    assert!(outcome(&back, "z") && outcome(&back, "g") && outcome(&back, "f") && !outcome(&back, "e"));
    let some = |txn: &OptimisticTxn| {
        let bounds = (Bound::Excluded(&b"b"[..]), Bound::Included(&b"e"[..]));
        assert_eq!(txn.range(&table, bounds).unwrap().count(), 1);
    };
    assert!(outcome(&some, "bb") && outcome(&some, "d") && outcome(&some, "e"));
    assert!(!outcome(&some, "b") && !outcome(&some, "ee") && !outcome(&some, "f"));
    let cursor = |txn: &OptimisticTxn| {
        let mut cursor = txn.cursor(&table).unwrap();
        assert!(cursor.seek(b"c").unwrap() && cursor.next().unwrap() && cursor.prev().unwrap());
    };
    assert!(outcome(&cursor, "c") && outcome(&cursor, "e") && outcome(&cursor, "f"));
    assert!(!outcome(&cursor, "b") && !outcome(&cursor, "g"));
    let none = |txn: &OptimisticTxn| drop(txn.range(&table, ALL).unwrap());
    assert!(!outcome(&none, "b"));
}

#[test]
fn forgotten_reads_do_not_conflict_but_changed_keys_cannot_be_forgotten() {
    let (store, keys, rows) = store();
    let mut first = store.begin_write().unwrap();
    let row = first.append_row(&rows, b"old").unwrap();
    first.commit().unwrap();
    for forgets in [false, true] {
        let mut txn = store.begin_optimistic().unwrap();
        assert!(!txn.forget(&keys, b"read").unwrap(), "it was not read yet");
        txn.get(&keys, b"read").unwrap();
        txn.row(&rows, row).unwrap();
        if forgets {
            assert!(txn.forget(&keys, b"read").unwrap() && txn.forget_row(&rows, row).unwrap());
        }
        txn.put(&keys, b"mine", b"1").unwrap();
        let mut other = store.begin_write().unwrap();
        other.put(&keys, b"read", b"changed").unwrap();
        other.put_row(&rows, row, b"new").unwrap();
        other.commit().unwrap();
        let done = txn.commit();
        assert_eq!(done.as_ref().is_err_and(Error::is_conflict), !forgets, "{done:?}");
    }
    let mut txn = store.begin_optimistic().unwrap();
    let appended = txn.append_row(&rows, b"mine").unwrap();
    txn.get(&keys, b"both").unwrap();
    txn.put(&keys, b"both", b"mine").unwrap();
    assert!(!txn.forget_row(&rows, appended).unwrap() && !txn.forget(&keys, b"both").unwrap());
    let mut other = store.begin_write().unwrap();
    other.put_row(&rows, appended, b"theirs").unwrap();
    other.commit().unwrap();
    assert!(txn.commit().unwrap_err().is_conflict());
}

#[test]
fn concurrent_transfers_preserve_the_sum() {
    in_time(|| {
        let temp = TempDir::new("transfers");
        let options = Options { durability: Durability::Relaxed, ..Options::default() };
        let store = Store::open_with(temp.path(), options).unwrap();
        let mut txn = store.begin_write().unwrap();
        let table = txn.create_table("accounts", TableKind::Ordered).unwrap();
        for n in 0..10u8 {
            txn.put(&table, &[n], &100u64.to_le_bytes()).unwrap();
        }
        txn.commit().unwrap();
        let balance = |bytes: Option<&[u8]>| u64::from_le_bytes(bytes.unwrap().try_into().unwrap());
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (store, table) = (&store, &table);
                scope.spawn(move || {
                    let mut rng = Rng::new(thread);
                    let isolation = [Isolation::Serializable, Isolation::Snapshot][thread as usize % 2];
                    for _ in 0..150 {
                        let (from, to) = ([rng.below(10) as u8], [rng.below(10) as u8]);
                        let moved = store.transact(isolation, 1000, |txn| {
                            let left = balance(txn.get(table, &from)?);
                            let amount = left.min(7);
                            txn.put(table, &from, &(left - amount).to_le_bytes())?;
                            let current = balance(txn.get(table, &to)?);
                            txn.put(table, &to, &(current + amount).to_le_bytes())
                        });
                        moved.unwrap();
                        let read = store.snapshot().unwrap();
                        let sum: u64 =
                            read.range(table, ALL).unwrap().map(|e| balance(Some(e.unwrap().1))).sum();
                        assert_eq!(sum, 1000);
                    }
                });
            }
        });
        assert_eq!(store.inner.recent_commits.bytes(), 0);
        store.check().unwrap();
    });
}

#[test]
fn exceeding_the_memory_limit_is_a_conflict_for_the_oldest_transactions_only() {
    let (store, table, _) = store_with(Options { optimistic_bytes: 20_000, ..options(&SimDisk::new()) });
    let mut old = store.begin_optimistic().unwrap();
    old.put(&table, b"old", b"").unwrap();
    for n in 0..100u8 {
        put(&store, &table, &[n], b"");
    }
    let mut new = store.begin_optimistic().unwrap();
    new.put(&table, b"new", b"").unwrap();
    for n in 0..100u8 {
        put(&store, &table, &[n], b"");
        assert!(store.inner.recent_commits.bytes() <= 20_000);
    }
    assert!(old.commit().unwrap_err().is_conflict());
    new.commit().unwrap();
    assert_eq!(store.inner.recent_commits.bytes(), 0);
}

#[test]
fn appended_rows_get_unique_numbers() {
    let (store, _, rows) = store();
    let mut both = [store.begin_optimistic().unwrap(), store.begin_optimistic().unwrap()];
    let numbers = both.each_mut().map(|txn| txn.append_row(&rows, b"row").unwrap());
    assert_eq!(numbers, [1, 2]);
    let seen: Vec<_> = both[1].rows(&rows, 0).unwrap().map(|row| row.unwrap().0).collect();
    assert_eq!(seen, [2]);
    let [first, second] = both;
    second.commit().unwrap();
    first.commit().unwrap();
    let read = store.begin_read().unwrap();
    assert_eq!(
        (read.row(&rows, 1).unwrap(), read.row(&rows, 2).unwrap()),
        (Some(&b"row"[..]), Some(&b"row"[..]))
    );
    let mut late = store.begin_optimistic_with(Isolation::Snapshot).unwrap();
    assert_eq!(late.append_row(&rows, b"late").unwrap(), 3);
    let mut writer = store.begin_write().unwrap();
    assert_eq!(writer.append_row(&rows, b"writer").unwrap(), 3);
    writer.commit().unwrap();
    assert!(late.commit().unwrap_err().is_conflict());
}

#[test]
fn a_dropped_table_is_a_conflict_and_attempts_are_limited() {
    let (store, table, _) = store();
    let mut txn = store.begin_optimistic_with(Isolation::Snapshot).unwrap();
    txn.put(&table, b"k", b"v").unwrap();
    let mut writer = store.begin_write().unwrap();
    writer.drop_table("keys").unwrap();
    let table = writer.create_table("keys", TableKind::Ordered).unwrap();
    writer.commit().unwrap();
    assert!(txn.commit().unwrap_err().is_conflict());
    let mut attempts = 0;
    let result = store.transact(Isolation::Serializable, 3, |txn| {
        attempts += 1;
        txn.get(&table, b"k")?;
        put(&store, &table, b"k", b"theirs");
        txn.put(&table, b"k", b"mine")
    });
    assert!(result.unwrap_err().is_conflict());
    assert_eq!(attempts, 3);
    assert!(matches!(store.transact(Isolation::Snapshot, 0, |_| Ok(())), Err(Error::Invalid(_))));
}

#[test]
fn invalid_requests_are_typed_errors_and_the_transaction_stays_usable() {
    let (store, keys, rows) = store();
    let mut writer = store.begin_write().unwrap();
    let dup = writer.create_table("dup", TableKind::Dup).unwrap();
    writer.commit().unwrap();
    let mut txn = store.begin_optimistic().unwrap();
    assert!(matches!(txn.put(&dup, b"k", b"v"), Err(Error::TableMismatch { .. })));
    assert!(matches!(txn.get(&rows, b"k"), Err(Error::TableMismatch { .. })));
    assert!(matches!(txn.put_row(&keys, 1, b"v"), Err(Error::TableMismatch { .. })));
    assert!(matches!(txn.put_row(&rows, u64::MAX, b"v"), Err(Error::Invalid(_))));
    assert!(matches!(txn.put(&keys, &[0; MAX_KEY + 1], b"v"), Err(Error::KeyTooLong { .. })));
    let mut writer = store.begin_write().unwrap();
    let later = writer.create_table("later", TableKind::Ordered).unwrap();
    writer.commit().unwrap();
    assert!(matches!(txn.put(&later, b"k", b"v"), Err(Error::NoSuchTable { .. })));
    txn.put(&keys, b"k", b"v").unwrap();
    txn.commit().unwrap();
    let reader = store.begin_optimistic().unwrap();
    assert_eq!(reader.get(&keys, b"k").unwrap(), Some(&b"v"[..]));
    put(&store, &keys, b"k", b"w");
    reader.commit().unwrap();
    store.close().unwrap();
}
