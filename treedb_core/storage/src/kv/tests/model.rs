//! Random transactions against `BTreeMap`s, with open snapshots.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};

use treedb_testing::{Rng, in_time};

use super::*;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;
type RowMap = BTreeMap<u64, Vec<u8>>;

#[derive(Clone, Default, PartialEq, Debug)]
struct Model {
    keys: Map,
    rows: RowMap,
    next: u64,
}

fn some_key(rng: &mut Rng) -> Vec<u8> {
    let n = rng.below(600);
    match n % 5 {
        0 => format!("k{n}").into_bytes(),
        1 => (n as u64).to_be_bytes().to_vec(),
        2 => [b"a rather long shared prefix/".as_slice(), n.to_string().as_bytes()].concat(),
        3 => vec![n as u8; n % 200],
        _ => [vec![0xff; n % 9], vec![n as u8]].concat(),
    }
}

fn some_value(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(10) {
        0 => 1100 + rng.below(6000),
        1 => rng.below(1000),
        _ => rng.below(60),
    };
    let byte = rng.below(256) as u8;
    (0..len).map(|i| byte.wrapping_add(i as u8)).collect()
}

fn agree(read: &impl Reads, keys: &Table, rows: &Table, model: &Model, rng: &mut Rng) {
    assert_eq!(read.len(keys).unwrap(), model.keys.len() as u64);
    assert_eq!(read.len(rows).unwrap(), model.rows.len() as u64);
    for _ in 0..20 {
        let key = some_key(rng);
        assert_eq!(read.get(keys, &key).unwrap(), model.keys.get(&key).map(Vec::as_slice));
        let row = 1 + rng.below(model.next as usize + 3) as u64;
        assert_eq!(read.row(rows, row).unwrap(), model.rows.get(&row).map(Vec::as_slice));
    }
    let (from, to) = (some_key(rng), some_key(rng));
    let (from, to) = if from <= to { (from, to) } else { (to, from) };
    let bounds = (Bound::Included(from.as_slice()), Bound::Excluded(to.as_slice()));
    let want: Vec<(Vec<u8>, &[u8])> =
        model.keys.range(from.clone()..to.clone()).map(|(k, v)| (k.clone(), v.as_slice())).collect();
    let seen: Vec<_> = read.range(keys, bounds).unwrap().map(Result::unwrap).collect();
    assert_eq!(seen, want);
    let mut back: Vec<_> = read.range(keys, bounds).unwrap().rev().map(Result::unwrap).collect();
    back.reverse();
    assert_eq!(back, want);
    let mut some: Vec<_> = (0..rng.below(50)).map(|_| some_key(rng)).collect();
    if rng.chance(50) {
        some.sort();
    }
    let some: Vec<&[u8]> = some.iter().map(Vec::as_slice).collect();
    let want: Vec<_> = some.iter().map(|&key| model.keys.get(key).map(Vec::as_slice)).collect();
    assert_eq!(read.get_many(keys, &some).unwrap(), want);
    let key = some_key(rng);
    let prefix = &key[..rng.below(key.len() + 1)];
    let want: Vec<_> = model.keys.iter().filter(|(k, _)| k.starts_with(prefix)).collect();
    let seen: Vec<_> = read.prefix(keys, prefix).unwrap().map(Result::unwrap).collect();
    assert!(seen.iter().map(|(k, v)| (k, *v)).eq(want.iter().map(|(k, v)| (*k, v.as_slice()))));
    let back: Vec<_> = read.prefix(keys, prefix).unwrap().rev().map(Result::unwrap).collect();
    assert!(back.iter().rev().eq(seen.iter()));
    let entry = |(k, v): (&Vec<u8>, _)| (k.clone(), Vec::as_slice(v));
    assert_eq!(read.first(keys).unwrap(), model.keys.first_key_value().map(entry));
    assert_eq!(read.last(keys).unwrap(), model.keys.last_key_value().map(entry));
    let from = rng.below(model.next as usize + 2) as u64;
    let want: Vec<(u64, &[u8])> = model.rows.range(from..).map(|(&k, v)| (k, v.as_slice())).collect();
    let seen: Vec<_> = read.rows(rows, from).unwrap().map(Result::unwrap).collect();
    assert_eq!(seen, want);
    let mut back: Vec<_> = read.rows(rows, from).unwrap().rev().map(Result::unwrap).collect();
    back.reverse();
    assert_eq!(back, want);
}

/// Bounds of every kind.
fn some_bounds(rng: &mut Rng) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let mut end = || match rng.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(some_key(rng)),
        _ => Bound::Excluded(some_key(rng)),
    };
    (end(), end())
}

/// A conditional change, or one of many entries.
fn special(txn: &mut WriteTxn, keys: &Table, rows: &Table, model: &mut Model, rng: &mut Rng) {
    let (key, value) = (some_key(rng), some_value(rng));
    let current = model.keys.get(&key).cloned();
    match rng.below(22) {
        20.. => {
            let small = rng.chance(70);
            let value = |rng: &mut Rng| match small {
                true => vec![rng.below(256) as u8; rng.below(40)],
                false => some_value(rng),
            };
            let mut entries: Vec<_> = (0..rng.below(60)).map(|_| (some_key(rng), value(rng))).collect();
            if rng.chance(80) {
                entries.sort();
            }
            let all: Vec<(&[u8], &[u8])> = entries.iter().map(|(k, v)| (&k[..], &v[..])).collect();
            txn.put_all(keys, &all).unwrap();
            let values: Vec<&[u8]> = all.iter().map(|(_, value)| *value).collect();
            let rows = txn.append_rows(rows, &values).unwrap();
            assert_eq!(rows.clone().count(), values.len());
            model.next = rows.end;
            model.rows.extend(rows.zip(values.iter().map(|value| value.to_vec())));
            model.keys.extend(entries);
        }
        0..4 => {
            assert_eq!(txn.put_if_absent(keys, &key, &value).unwrap(), current.is_none());
            model.keys.entry(key).or_insert(value);
        }
        4..8 => {
            assert_eq!(txn.replace(keys, &key, &value).unwrap(), current);
            model.keys.insert(key, value);
        }
        8..12 => {
            let expected = if rng.chance(70) { current.clone() } else { Some(b"no such value".to_vec()) };
            let new = rng.chance(70).then_some(value);
            let swapped = txn.compare_and_swap(keys, &key, expected.as_deref(), new.as_deref()).unwrap();
            assert_eq!(swapped, expected == current);
            if swapped {
                model.keys.remove(&key);
                model.keys.extend(new.map(|new| (key, new)));
            }
        }
        12..16 => {
            let above = model.keys.last_key_value().is_none_or(|(last, _)| key > *last);
            assert_eq!(txn.append(keys, &key, &value).is_ok(), above);
            if above {
                model.keys.insert(key, value);
            }
        }
        16..19 => {
            let (from, to) = some_bounds(rng);
            let bounds = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
            let within = |key: &[u8]| {
                crate::kv::reads::is_above(key, bounds.0) && crate::kv::reads::is_below(key, bounds.1)
            };
            let before = model.keys.len();
            model.keys.retain(|key, _| !within(key));
            assert_eq!(txn.delete_range(keys, bounds).unwrap(), (before - model.keys.len()) as u64);
        }
        19 if rng.chance(60) => {
            let mut end = || rng.below(model.next as usize + 3) as u64;
            let range = end()..if end() % 4 == 0 { u64::MAX } else { end() };
            let before = model.rows.len();
            model.rows.retain(|row, _| !range.contains(row));
            assert_eq!(txn.delete_rows(rows, range).unwrap(), (before - model.rows.len()) as u64);
        }
        _ if rng.chance(50) => {
            assert_eq!(txn.clear(keys).unwrap(), model.keys.len() as u64);
            model.keys.clear();
        }
        _ => {
            assert_eq!(txn.clear(rows).unwrap(), model.rows.len() as u64);
            model.rows.clear();
        }
    }
}

fn change(txn: &mut WriteTxn, keys: &Table, rows: &Table, model: &mut Model, rng: &mut Rng) {
    if rng.chance(8) {
        return special(txn, keys, rows, model, rng);
    }
    match rng.below(10) {
        0..4 => {
            let (key, value) = (some_key(rng), some_value(rng));
            txn.put(keys, &key, &value).unwrap();
            model.keys.insert(key, value);
        }
        4..6 => {
            let key = some_key(rng);
            assert_eq!(txn.delete(keys, &key).unwrap(), model.keys.remove(&key).is_some());
        }
        6..8 => {
            let value = some_value(rng);
            assert_eq!(txn.append_row(rows, &value).unwrap(), model.next);
            model.rows.insert(model.next, value);
            model.next += 1;
        }
        8 => {
            let row = 1 + rng.below(model.next as usize + 2) as u64;
            assert_eq!(txn.delete_row(rows, row).unwrap(), model.rows.remove(&row).is_some());
        }
        _ => {
            let (row, value) = (1 + rng.below(model.next as usize + 3) as u64, some_value(rng));
            txn.put_row(rows, row, &value).unwrap();
            model.rows.insert(row, value);
            model.next = model.next.max(row + 1);
        }
    }
}

/// Changes with savepoints between them, some rolled back, some released.
fn changes(
    txn: &mut WriteTxn,
    (keys, rows): (&Table, &Table),
    model: &mut Model,
    rng: &mut Rng,
    count: usize,
    depth: usize,
) {
    for _ in 0..count {
        if depth == 4 || !rng.chance(12) {
            change(txn, keys, rows, model, rng);
            continue;
        }
        let (point, then) = (txn.savepoint().unwrap(), model.clone());
        for _ in 0..1 + rng.below(2) {
            let few = rng.below(12);
            changes(txn, (keys, rows), model, rng, few, depth + 1);
            if rng.chance(50) {
                txn.rollback_to(&point).unwrap();
                model.clone_from(&then);
                agree(txn, keys, rows, model, rng);
            }
        }
        // Otherwise it stays until the end, or until an enclosing one is rolled back or released.
        if rng.chance(60) {
            txn.release(point).unwrap();
        }
    }
}

#[test]
fn random_transactions_agree_with_maps_and_snapshots_do_not_change() {
    in_time(|| {
        for (seed, mode) in [(0, Mode::Mapped), (1, Mode::Cached), (2, Mode::Mapped), (3, Mode::Encrypted)] {
            in_mode(mode, || random_transactions(seed));
        }
    });
}

fn random_transactions(seed: u64) {
    let mut rng = Rng::new(seed);
    let disk = SimDisk::new();
    let mut store = open(&disk).unwrap();
    let mut txn = store.begin_write().unwrap();
    let keys = txn.create_table("keys", TableKind::Ordered).unwrap();
    let rows = txn.create_table("rows", TableKind::Rows).unwrap();
    txn.commit().unwrap();
    let mut model = Model { next: 1, ..Model::default() };
    let mut held: Vec<(ReadTxn, Model)> = Vec::new();
    for round in 0..300 {
        let mut txn = store.begin_write().unwrap();
        let mut changed = model.clone();
        let count = 1 + rng.below(30);
        changes(&mut txn, (&keys, &rows), &mut changed, &mut rng, count, 0);
        agree(&txn, &keys, &rows, &changed, &mut rng);
        if rng.chance(85) {
            let how = [Durability::Durable, Durability::Relaxed, Durability::None][rng.below(3)];
            txn.commit_with(how).unwrap();
            model = changed;
        } else {
            drop(txn);
        }
        agree(&store.snapshot().unwrap(), &keys, &rows, &model, &mut rng);
        if rng.chance(15) {
            held.push((store.begin_read().unwrap(), model.clone()));
        }
        if rng.chance(12) && !held.is_empty() {
            let (read, then) = held.swap_remove(rng.below(held.len()));
            agree(&read, &keys, &rows, &then, &mut rng);
        }
        if rng.chance(4) {
            store.checkpoint().unwrap();
        }
        if rng.chance(3) {
            store.check().unwrap();
        }
        if round % 100 == 99 {
            for (read, then) in held.drain(..) {
                agree(&read, &keys, &rows, &then, &mut rng);
            }
            store.close().unwrap();
            store = open(&disk).unwrap();
            agree(&store.snapshot().unwrap(), &keys, &rows, &model, &mut rng);
        }
    }
    let report = store.check().unwrap();
    assert_eq!(report.entries, (model.keys.len() + model.rows.len()) as u64);
}

#[test]
fn readers_concurrent_with_a_writer_on_the_real_disk_see_whole_transactions() {
    readers_concurrent_with_a_writer("concurrent", None);
}

#[test]
fn readers_and_a_writer_that_share_a_small_cache_see_whole_transactions() {
    readers_concurrent_with_a_writer("concurrent-cached", Some(64 << 10));
}

fn readers_concurrent_with_a_writer(name: &'static str, cache_bytes: Option<u64>) {
    in_time(move || {
        let temp = TempDir::new(name);
        let options = Options {
            durability: Durability::Relaxed,
            checkpoint_log_bytes: 200_000,
            checkpoint_dead_pages: 200,
            cache_bytes,
            ..Options::default()
        };
        let store = Store::open_with(temp.path(), options.clone()).unwrap();
        let mut txn = store.begin_write().unwrap();
        let table = txn.create_table("t", TableKind::Ordered).unwrap();
        const KEYS: u32 = 400;
        let fill = |txn: &mut WriteTxn, n: u64| {
            for key in 0..KEYS {
                // Every 50th value is large.
                let len = if key % 50 == 0 { 3000 } else { 16 };
                txn.put(&table, &key.to_be_bytes(), &n.to_le_bytes().repeat(len / 8)).unwrap();
            }
        };
        fill(&mut txn, 0);
        txn.commit().unwrap();
        let stop = AtomicBool::new(false);
        let rounds = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..3)
                .map(|reader| {
                    let (store, table, stop) = (&store, &table, &stop);
                    scope.spawn(move || {
                        let (mut rounds, mut last) = (0, 0);
                        while !stop.load(Ordering::Relaxed) {
                            let owned = store.begin_read().unwrap();
                            let borrowed = store.snapshot().unwrap();
                            let read: &dyn Reads = if reader == 0 { &owned } else { &borrowed };
                            let mut stamps =
                                read.range(table, (Bound::Unbounded, Bound::Unbounded)).unwrap().map(|e| {
                                    let (_, value) = e.unwrap();
                                    let stamp = u64::from_le_bytes(value[..8].try_into().unwrap());
                                    assert!(value.chunks(8).all(|w| w == stamp.to_le_bytes()));
                                    stamp
                                });
                            let first = stamps.next().unwrap();
                            assert!(stamps.all(|stamp| stamp == first), "a partially visible transaction");
                            assert!(first >= last, "an older state than before");
                            last = first;
                            rounds += 1;
                        }
                        rounds
                    })
                })
                .collect();
            for n in 1..150 {
                let mut txn = store.begin_write().unwrap();
                // Savepoints skip transaction numbers: none, one or two.
                let points: Vec<_> = (0..n % 3).map(|_| txn.savepoint().unwrap()).collect();
                fill(&mut txn, n + 1000);
                if let Some(point) = points.first() {
                    txn.rollback_to(point).unwrap();
                }
                fill(&mut txn, n);
                txn.commit().unwrap();
            }
            stop.store(true, Ordering::Relaxed);
            readers.into_iter().map(|r| r.join().unwrap()).sum::<u64>()
        });
        assert!(rounds > 0);
        let stats = store.stats();
        assert!(stats.checkpoint > 2 && stats.readers == 0, "{stats:?}");
        assert!(stats.pages.used < 4000, "{stats:?}");
        store.check().unwrap();
        store.close().unwrap();
        let store = Store::open_with(temp.path(), options).unwrap();
        store.check().unwrap();
        let read = store.begin_read().unwrap();
        assert_eq!(read.get(&table, &7u32.to_be_bytes()).unwrap(), Some(&149u64.to_le_bytes().repeat(2)[..]));
    });
}

#[test]
fn durable_commits_of_many_threads_are_all_recovered() {
    in_time(|| {
        let temp = TempDir::new("threads");
        let store = Store::open(temp.path()).unwrap();
        let mut txn = store.begin_write().unwrap();
        let table = txn.create_table("t", TableKind::Ordered).unwrap();
        txn.commit().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..8u8 {
                let (store, table) = (&store, &table);
                scope.spawn(move || {
                    for n in 0..50u8 {
                        let mut txn = store.begin_write().unwrap();
                        txn.put(table, &[thread, n], &[n]).unwrap();
                        txn.commit().unwrap();
                    }
                });
            }
        });
        assert_eq!(store.snapshot().unwrap().len(&table).unwrap(), 400);
        store.check().unwrap();
    });
}
