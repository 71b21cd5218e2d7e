//! Dup tables against maps of sets, with snapshots and savepoints, and invalid requests.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use treedb_testing::{Rng, in_time};

use super::*;
use crate::Error;
use crate::disk::crash::Crash;
use crate::kv::reads::{is_above, is_below};

type Model = BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>;

const ALL: Bounds<'static> = (Bound::Unbounded, Bound::Unbounded);

fn some_key(rng: &mut Rng) -> Vec<u8> {
    match rng.below(4) {
        0 => vec![rng.below(3) as u8; rng.below(4)],
        1 => format!("a longer key, number {}", rng.below(5)).into_bytes(),
        _ => vec![b'k', rng.below(6) as u8],
    }
}

fn some_value(rng: &mut Rng) -> Vec<u8> {
    let n = rng.below(250);
    match n % 8 {
        0 => vec![n as u8; n],
        1 => vec![n as u8; 3 * n],
        _ => format!("v{n}").into_bytes(),
    }
}

fn pairs_of(model: &Model) -> Vec<(Vec<u8>, Vec<u8>)> {
    model.iter().flat_map(|(key, values)| values.iter().map(|value| (key.clone(), value.clone()))).collect()
}

fn slices((from, to): &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> Bounds<'_> {
    (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice))
}

fn some_bounds(rng: &mut Rng, some: fn(&mut Rng) -> Vec<u8>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let mut end = || match rng.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(some(rng)),
        _ => Bound::Excluded(some(rng)),
    };
    (end(), end())
}

/// Consumes the iterator from randomly chosen ends.
fn both_ends<T>(mut iter: impl DoubleEndedIterator<Item = crate::Result<T>>, rng: &mut Rng) -> Vec<T> {
    let (mut front, mut back) = (Vec::new(), Vec::new());
    loop {
        let forward = rng.chance(50);
        match if forward { iter.next() } else { iter.next_back() } {
            Some(item) if forward => front.push(item.unwrap()),
            Some(item) => back.push(item.unwrap()),
            None => break,
        }
    }
    back.reverse();
    front.extend(back);
    front
}

fn agree(read: &impl Reads, table: &Table, model: &Model, rng: &mut Rng) {
    let all = pairs_of(model);
    assert_eq!(read.len(table).unwrap(), all.len() as u64);
    assert_eq!(both_ends(read.pairs(table, ALL).unwrap(), rng), all);
    for _ in 0..5 {
        let (key, value) = (some_key(rng), some_value(rng));
        let values = model.get(&key).cloned().unwrap_or_default();
        assert_eq!(read.contains_pair(table, &key, &value).unwrap(), values.contains(&value));
        assert_eq!(read.count_values(table, &key).unwrap(), values.len() as u64);
        assert!(both_ends(read.values(table, &key).unwrap(), rng).iter().eq(&values));
        let bounds = some_bounds(rng, some_value);
        let bounds = slices(&bounds);
        let want = values.iter().filter(|value| is_above(value, bounds.0) && is_below(value, bounds.1));
        assert!(both_ends(read.values_in(table, &key, bounds).unwrap(), rng).iter().eq(want));
        let bounds = some_bounds(rng, some_key);
        let bounds = slices(&bounds);
        let want = all.iter().filter(|(key, _)| is_above(key, bounds.0) && is_below(key, bounds.1));
        assert!(both_ends(read.pairs(table, bounds).unwrap(), rng).iter().eq(want));
    }
    move_cursor(read, table, &all, rng);
}

/// Moves a cursor at random and compares its position with that in the list of all pairs.
fn move_cursor(read: &impl Reads, table: &Table, all: &[(Vec<u8>, Vec<u8>)], rng: &mut Rng) {
    let mut cursor = read.dup_cursor(table).unwrap();
    let mut at: Option<usize> = None;
    let first_of = |key: &[u8]| all.iter().position(|(k, _)| k == key);
    let last_of = |key: &[u8]| all.iter().rposition(|(k, _)| k == key);
    for _ in 0..60 {
        let (key, value) = (some_key(rng), some_value(rng));
        let here = at.map(|at| all[at].0.clone());
        let (moved, to) = match rng.below(14) {
            0 => (cursor.first().unwrap(), (!all.is_empty()).then_some(0)),
            1 => (cursor.last().unwrap(), all.len().checked_sub(1)),
            2 => (cursor.seek(&key).unwrap(), all.iter().position(|(k, _)| *k >= key)),
            3 => (cursor.seek_exact(&key).unwrap(), first_of(&key)),
            4 => (cursor.seek_back(&key).unwrap(), all.iter().rposition(|(k, _)| *k <= key)),
            5 => {
                let pair = (key, value);
                (cursor.seek_both(&pair.0, &pair.1).unwrap(), all.iter().position(|p| *p == pair))
            }
            6 => {
                let place = all.iter().position(|(k, v)| *k == key && *v >= value);
                (cursor.seek_both_range(&key, &value).unwrap(), place)
            }
            7 => {
                let pair = (key, value);
                (cursor.seek_pair(&pair.0, &pair.1).unwrap(), all.iter().position(|p| *p >= pair))
            }
            8 => (cursor.first_dup().unwrap(), here.and_then(|key| first_of(&key))),
            9 => (cursor.last_dup().unwrap(), here.and_then(|key| last_of(&key))),
            // The other moves need a current position.
            _ if at.is_none() => continue,
            10 => (cursor.next().unwrap(), at.map(|at| at + 1).filter(|&to| to < all.len())),
            11 => (cursor.prev().unwrap(), at.and_then(|at| at.checked_sub(1))),
            12 => {
                let next = here.and_then(|key| last_of(&key)).map(|last| last + 1);
                (cursor.next_key().unwrap(), next.filter(|&to| to < all.len()))
            }
            _ => {
                let forward = rng.chance(50);
                let to = if forward { at.map(|at| at + 1) } else { at.and_then(|at| at.checked_sub(1)) };
                let to = to.filter(|&to| all.get(to).is_some_and(|(key, _)| Some(key) == here.as_ref()));
                let moved = if forward { cursor.next_dup() } else { cursor.prev_dup() }.unwrap();
                assert_eq!(moved, to.is_some());
                // The cursor does not move if there is none.
                (true, to.or(at))
            }
        };
        assert_eq!(moved, to.is_some());
        at = to;
        let pair = at.map(|at| (all[at].0.as_slice(), all[at].1.as_slice()));
        assert_eq!(cursor.pair().unwrap(), pair);
        let count = pair.map_or(0, |(key, _)| all.iter().filter(|(k, _)| k == key).count());
        assert_eq!(cursor.count(), count as u64);
    }
}

fn change(txn: &mut WriteTxn, table: &Table, model: &mut Model, rng: &mut Rng) {
    let (key, value) = (some_key(rng), some_value(rng));
    match rng.below(100) {
        0..60 => {
            assert_eq!(
                txn.put_pair(table, &key, &value).unwrap(),
                model.entry(key).or_default().insert(value)
            );
        }
        60..94 => {
            let there = model.get_mut(&key).is_some_and(|values| values.remove(&value));
            assert_eq!(txn.delete_pair(table, &key, &value).unwrap(), there);
            model.retain(|_, values| !values.is_empty());
        }
        94..97 => {
            let there = model.remove(&key).map_or(0, |values| values.len());
            assert_eq!(txn.delete_values(table, &key).unwrap(), there as u64);
        }
        97..99 => {
            let bounds = some_bounds(rng, some_key);
            let bounds = slices(&bounds);
            let before = pairs_of(model).len();
            model.retain(|key, _| !(is_above(key, bounds.0) && is_below(key, bounds.1)));
            let removed = txn.delete_range(table, bounds).unwrap();
            assert_eq!(removed, (before - pairs_of(model).len()) as u64);
        }
        _ if rng.chance(20) => {
            assert_eq!(txn.clear(table).unwrap(), pairs_of(model).len() as u64);
            model.clear();
        }
        _ => {
            let mut batch = Batch::new();
            batch.put_pair(table, &key, &value).unwrap();
            batch.put_pair(table, b"batch", &value).unwrap();
            batch.delete_pair(table, b"batch", b"v1").unwrap();
            batch.delete(table, b"k\x01").unwrap();
            txn.write(&batch).unwrap();
            model.entry(key).or_default().insert(value.clone());
            let of_batch = model.entry(b"batch".to_vec()).or_default();
            of_batch.insert(value);
            of_batch.remove(&b"v1"[..]);
            model.remove(&b"k\x01"[..]);
            model.retain(|_, values| !values.is_empty());
        }
    }
}

fn store_with_table(disk: &SimDisk) -> (Store, Table) {
    let store = open(disk).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("pairs", TableKind::Dup).unwrap();
    txn.commit().unwrap();
    (store, table)
}

#[test]
fn random_transactions_agree_with_maps_of_sets_and_snapshots_do_not_change() {
    in_time(|| {
        for (seed, mode) in [(0, Mode::Mapped), (1, Mode::Cached), (2, Mode::Encrypted)] {
            in_mode(mode, || random_transactions(seed));
        }
    });
}

fn random_transactions(seed: u64) {
    let mut rng = Rng::new(seed);
    let disk = SimDisk::new();
    let (mut store, table) = store_with_table(&disk);
    let mut model = Model::new();
    let mut held: Vec<(ReadTxn, Model)> = Vec::new();
    for round in 0..120 {
        let mut txn = store.begin_write().unwrap();
        let mut changed = model.clone();
        for _ in 0..1 + rng.below(120) {
            change(&mut txn, &table, &mut changed, &mut rng);
        }
        if rng.chance(40) {
            let (point, then) = (txn.savepoint().unwrap(), changed.clone());
            for _ in 0..1 + rng.below(60) {
                change(&mut txn, &table, &mut changed, &mut rng);
            }
            if rng.chance(50) {
                txn.rollback_to(&point).unwrap();
                changed = then;
            }
        }
        agree(&txn, &table, &changed, &mut rng);
        if rng.chance(85) {
            let how = [Durability::Durable, Durability::Relaxed, Durability::None][rng.below(3)];
            txn.commit_with(how).unwrap();
            model = changed;
        } else {
            drop(txn);
        }
        if rng.chance(15) {
            held.push((store.begin_read().unwrap(), model.clone()));
        }
        if rng.chance(12) && !held.is_empty() {
            let (read, then) = held.swap_remove(rng.below(held.len()));
            agree(&read, &table, &then, &mut rng);
        }
        if rng.chance(5) {
            store.checkpoint().unwrap();
        }
        if rng.chance(10) {
            assert_eq!(store.check().unwrap().entries, pairs_of(&model).len() as u64);
        }
        if round % 40 == 39 {
            held.clear();
            store.flush().unwrap();
            // Recovery from the log gives the same contents.
            let image = disk.crash(Crash::Nothing);
            let recovered = open(&image).unwrap();
            recovered.check().unwrap();
            agree(&recovered.snapshot().unwrap(), &table, &model, &mut rng);
            store.close().unwrap();
            store = open(&disk).unwrap();
            agree(&store.snapshot().unwrap(), &table, &model, &mut rng);
        }
    }
    let mut txn = store.begin_write().unwrap();
    txn.drop_table("pairs").unwrap();
    txn.commit().unwrap();
    assert_eq!(store.check().unwrap().entries, 0);
}

#[test]
fn a_key_has_a_value_tree_while_it_has_many_values() {
    let disk = SimDisk::new();
    let (store, table) = store_with_table(&disk);
    let mut txn = store.begin_write().unwrap();
    for n in 0..5000u32 {
        assert!(txn.put_pair(&table, b"many", &n.to_be_bytes()).unwrap());
    }
    assert!(txn.put_pair(&table, b"one", b"").unwrap());
    txn.commit().unwrap();
    let read = store.snapshot().unwrap();
    let stats = read.table_stats(&table).unwrap();
    assert_eq!((stats.entries, stats.keys, stats.value_trees), (5001, 2, 1));
    assert!(stats.pages() > 10, "{stats:?}");
    assert_eq!(read.count_values(&table, b"many").unwrap(), 5000);
    drop(read);
    let mut txn = store.begin_write().unwrap();
    for n in 3..5000u32 {
        assert!(txn.delete_pair(&table, b"many", &n.to_be_bytes()).unwrap());
    }
    txn.commit().unwrap();
    let read = store.snapshot().unwrap();
    let stats = read.table_stats(&table).unwrap();
    assert_eq!((stats.entries, stats.keys, stats.value_trees, stats.pages()), (4, 2, 0, 1));
    store.check().unwrap();
}

#[test]
fn puts_of_existing_pairs_and_deletes_of_missing_ones_are_not_logged() {
    let (store, table) = store_with_table(&SimDisk::new());
    let mut txn = store.begin_write().unwrap();
    assert!(txn.put_pair(&table, b"k", b"v").unwrap());
    txn.commit().unwrap();
    let before = store.stats().txn;
    let mut txn = store.begin_write().unwrap();
    assert!(!txn.put_pair(&table, b"k", b"v").unwrap());
    assert!(!txn.delete_pair(&table, b"k", b"w").unwrap());
    assert_eq!(txn.delete_values(&table, b"l").unwrap(), 0);
    txn.commit().unwrap();
    assert_eq!(store.stats().txn, before);
}

#[test]
fn invalid_pairs_are_a_typed_error_and_change_nothing() {
    let (store, table) = store_with_table(&SimDisk::new());
    let mut txn = store.begin_write().unwrap();
    let ordered = txn.create_table("ordered", TableKind::Ordered).unwrap();
    let longest = vec![7; MAX_DUP_VALUE];
    assert!(txn.put_pair(&table, &[1; MAX_KEY], &longest).unwrap());
    assert!(txn.put_pair(&table, b"", b"").unwrap());
    let too_long = txn.put_pair(&table, b"k", &vec![7; MAX_DUP_VALUE + 1]).unwrap_err();
    assert!(matches!(too_long, Error::ValueTooLong { limit, .. } if limit == MAX_DUP_VALUE as u64));
    assert!(matches!(txn.put_pair(&table, &[1; MAX_KEY + 1], b""), Err(Error::KeyTooLong { .. })));
    assert!(matches!(txn.put(&table, b"k", b"v"), Err(Error::TableMismatch { .. })));
    assert!(matches!(txn.get(&table, b"k"), Err(Error::TableMismatch { .. })));
    assert!(matches!(txn.cursor(&table), Err(Error::TableMismatch { .. })));
    assert!(matches!(txn.put_pair(&ordered, b"k", b"v"), Err(Error::TableMismatch { .. })));
    assert!(matches!(txn.values(&ordered, b"k"), Err(Error::TableMismatch { .. })));
    assert!(matches!(txn.open_table("pairs", TableKind::Ordered), Err(Error::TableMismatch { .. })));
    txn.commit().unwrap();
    assert_eq!(store.snapshot().unwrap().len(&table).unwrap(), 2);
    store.check().unwrap();
}

#[test]
fn typed_pairs_are_in_the_order_of_their_types() {
    let (store, _) = store_with_table(&SimDisk::new());
    let mut txn = store.begin_write().unwrap();
    let table = TypedDupTable::<String, i64>::open(&mut txn, "typed").unwrap();
    for n in [-5, 3, -200, 40, 0] {
        assert!(table.put(&mut txn, "a", n).unwrap());
        assert!(table.put(&mut txn, "b", n + 1).unwrap());
    }
    assert!(table.delete(&mut txn, "a", 3).unwrap());
    txn.commit().unwrap();
    let read = store.begin_read().unwrap();
    let of_a: Vec<i64> = table.values(&read, "a").unwrap().map(Result::unwrap).collect();
    assert_eq!(of_a, [-200, -5, 0, 40]);
    let some: Vec<i64> = table.values_in(&read, "b", -4..=4).unwrap().rev().map(Result::unwrap).collect();
    assert_eq!(some, [4, 1, -4]);
    let pairs: Vec<_> = table.pairs(&read, "b"..).unwrap().map(Result::unwrap).collect();
    assert_eq!((pairs.len(), &pairs[0]), (5, &("b".to_owned(), -199)));
    let found = TypedDupTable::<String, i64>::find(&read, "typed").unwrap().unwrap();
    assert!(found.contains(&read, "a", 40).unwrap());
    let other = TypedDupTable::<u32, i64>::of(found.table().clone()).unwrap();
    assert!(matches!(other.pairs(&read, ..).unwrap().next(), Some(Err(Error::TableMismatch { .. }))));
}
