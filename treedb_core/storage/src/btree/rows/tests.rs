//! The row tree against a `BTreeMap`, on pages that detect misuse.

use std::collections::{BTreeMap, HashSet};

use treedb_testing::{Rng, seeds};

use super::super::testing::MemPages;
use super::{RowRoot, RowTree};
use crate::Error;
use crate::btree::{Finger, TreeRoot, Value};
use treedb_formats::node;

type Model = BTreeMap<u64, (Vec<u8>, bool)>;

fn random_value(rng: &mut Rng, longest: usize) -> (Vec<u8>, bool) {
    let len = match rng.below(8) {
        0 => rng.below(longest + 1),
        1 => 0,
        _ => rng.below(12),
    };
    (vec![rng.next_u64() as u8; len], rng.below(3) == 0)
}

fn compare_all(pages: &MemPages, root: &RowRoot, model: &Model) {
    let mut seen = HashSet::new();
    let stats = RowTree::check(pages, root, &mut |id| assert!(seen.insert(id))).unwrap();
    assert_eq!(stats.entries, model.len() as u64);
    assert_eq!(pages.live(), seen.len(), "every page in use belongs to the tree");
    assert_eq!(RowRoot::from_bytes(&root.to_bytes()), Some(*root));

    let mut cursor = RowTree::cursor(pages, root);
    for (id, (value, pointer)) in model {
        assert!(cursor.next().unwrap());
        assert_eq!(cursor.row(), Some((*id, Value { bytes: value, pointer: *pointer })));
    }
    assert!(!cursor.next().unwrap());
    assert!(!cursor.next().unwrap());
    assert_eq!(cursor.row(), None);
    for (id, (value, pointer)) in model.iter().rev() {
        assert!(cursor.prev().unwrap());
        assert_eq!(cursor.row(), Some((*id, Value { bytes: value, pointer: *pointer })));
    }
    assert!(!cursor.prev().unwrap());
    assert!(!cursor.prev().unwrap());
    assert_eq!(cursor.next().unwrap(), !model.is_empty());
}

fn compare_seeks(pages: &MemPages, root: &RowRoot, model: &Model, id: u64) {
    let mut cursor = RowTree::cursor(pages, root);
    let expected = model.range(id..).next().map(|(id, _)| *id);
    assert_eq!(cursor.seek(id).unwrap(), expected.is_some());
    assert_eq!(cursor.row().map(|row| row.0), expected);
    let before = model.range(..id).next_back().map(|(id, _)| *id);
    assert_eq!(cursor.prev().unwrap(), before.is_some());
    assert_eq!(cursor.row().map(|row| row.0), before);

    let back = model.range(..=id).next_back().map(|(id, _)| *id);
    assert_eq!(cursor.seek_back(id).unwrap(), back.is_some());
    assert_eq!(cursor.row().map(|row| row.0), back);
    let after = id.checked_add(1).and_then(|id| model.range(id..).next()).map(|(id, _)| *id);
    assert_eq!(cursor.next().unwrap(), after.is_some());
    assert_eq!(cursor.row().map(|row| row.0), after);

    assert_eq!(cursor.seek_exact(id).unwrap(), model.contains_key(&id));
    let got = RowTree::get(pages, &root.tree, id).unwrap();
    assert_eq!(got.map(|value| (value.bytes.to_vec(), value.pointer)), model.get(&id).cloned());
}

/// A row id: within the dense range, slightly above it, in a distant range, or random.
fn random_id(rng: &mut Rng, next: u64) -> u64 {
    match rng.below(20) {
        0 => next + rng.below(300) as u64,
        1 => 1_000_000 + rng.below(500) as u64,
        2 => u64::MAX - 1 - rng.below(200) as u64,
        3 => rng.below(1 << 20) as u64 * 50,
        _ => rng.below(3000) as u64,
    }
}

fn play(payload: usize, seed: u64, steps: usize) {
    let mut rng = Rng::new(seed);
    let mut pages = MemPages::new(payload);
    let mut root = RowRoot::EMPTY;
    let mut model = Model::new();
    let longest = node::max_value(payload);
    let mut deleting = false;
    let mut far = false;
    for step in 0..steps {
        if rng.below(500) == 0 {
            deleting = !deleting;
        }
        let (value, pointer) = random_value(&mut rng, longest);
        let stored = Value { bytes: &value, pointer };
        // Only appends at first: after a distant id, all appended ids would be distant.
        far = far || rng.below(steps / 2) == 0;
        let id = if far {
            random_id(&mut rng, root.next % (1 << 40))
        } else {
            rng.below(root.next as usize) as u64
        };
        if rng.below(10) < if deleting { 8 } else { 1 } {
            let id = model.range(id..).next().map_or(id, |(id, _)| *id);
            assert_eq!(RowTree::delete(&mut pages, &mut root, id).unwrap(), model.remove(&id).is_some());
        } else if rng.below(2) == 0 && root.next < u64::MAX {
            let expected = root.next;
            let id = RowTree::append(&mut pages, &mut root, stored).unwrap();
            assert_eq!(id, expected);
            assert!(model.insert(id, (value, pointer)).is_none());
        } else {
            let new = RowTree::put(&mut pages, &mut root, id, stored).unwrap();
            assert_eq!(new, model.insert(id, (value, pointer)).is_none());
            assert!(root.next > id);
        }
        assert_eq!(root.tree.entries, model.len() as u64);
        if rng.below(40) == 0 {
            pages.seal();
            pages.drop_snapshots();
        }
        let probe = random_id(&mut rng, root.next % (1 << 40));
        compare_seeks(&pages, &root, &model, probe);
        if step % 150 == 0 {
            compare_all(&pages, &root, &model);
        }
    }
    compare_all(&pages, &root, &model);
    let next = root.next;
    while !model.is_empty() {
        let from = random_id(&mut rng, 3000);
        let id = model.range(from..).next().or(model.iter().next()).map_or(0, |(id, _)| *id);
        model.remove(&id);
        assert!(RowTree::delete(&mut pages, &mut root, id).unwrap());
        if model.len().is_multiple_of(97) {
            compare_all(&pages, &root, &model);
        }
    }
    assert_eq!(root, RowRoot { tree: TreeRoot::EMPTY, next });
    assert_eq!(pages.live(), 0);
}

#[test]
fn a_row_tree_of_small_pages_behaves_like_a_btreemap() {
    for seed in seeds(0..8) {
        play(256, seed, 4000);
    }
}

#[test]
fn a_row_tree_of_native_and_large_pages_behaves_like_a_btreemap() {
    play(4064, 11, 6000);
    play(8150, 12, 4000);
    play(32 * 1024, 13, 3000);
}

#[test]
fn appended_rows_fill_their_pages() {
    let mut pages = MemPages::new(4064);
    let mut root = RowRoot::EMPTY;
    for n in 1..=50_000u64 {
        assert_eq!(RowTree::append(&mut pages, &mut root, Value::inline(&n.to_le_bytes())).unwrap(), n);
    }
    let stats = RowTree::check(&pages, &root, &mut |_| {}).unwrap();
    assert!(stats.used * 100 > stats.room * 95, "{stats:?}");
    assert!(stats.room < 50_000 * 13, "{stats:?}");
}

#[test]
fn keeping_every_twentieth_row_frees_pages() {
    let mut pages = MemPages::new(4064);
    let mut root = RowRoot::EMPTY;
    for n in 0..50_000u64 {
        RowTree::append(&mut pages, &mut root, Value::inline(&n.to_le_bytes())).unwrap();
    }
    let before = pages.live();
    for id in (1..=50_000).filter(|id| id % 20 != 0) {
        assert!(RowTree::delete(&mut pages, &mut root, id).unwrap());
    }
    RowTree::check(&pages, &root, &mut |_| {}).unwrap();
    assert!(pages.live() * 2 < before, "{} of {before} pages", pages.live());
}

#[test]
fn a_fragmented_leaf_has_room_for_a_long_row_in_the_middle() {
    let mut pages = MemPages::new(4040);
    let mut root = RowRoot::EMPTY;
    let ids: Vec<u64> = (1..=80).map(|n| 16 * n).collect();
    for &id in &ids {
        RowTree::put(&mut pages, &mut root, id, Value::inline(&[7; 8])).unwrap();
    }
    assert!(!RowTree::put(&mut pages, &mut root, 16 * 3, Value::inline(&[9; 980])).unwrap());
    for &id in &ids {
        let row = RowTree::get(&pages, &root.tree, id).unwrap().unwrap();
        assert_eq!(row.bytes.len(), if id == 16 * 3 { 980 } else { 8 });
    }
}

#[test]
fn a_deleted_last_row_keeps_its_id() {
    let mut pages = MemPages::new(256);
    let mut root = RowRoot::EMPTY;
    assert_eq!(RowTree::append(&mut pages, &mut root, Value::inline(b"a")).unwrap(), 1);
    assert!(RowTree::delete(&mut pages, &mut root, 1).unwrap());
    assert!(!RowTree::delete(&mut pages, &mut root, 1).unwrap());
    assert_eq!(RowTree::append(&mut pages, &mut root, Value::inline(b"b")).unwrap(), 2);
    RowTree::clear(&mut pages, &mut root).unwrap();
    assert_eq!(RowTree::append(&mut pages, &mut root, Value::inline(b"c")).unwrap(), 3);
}

#[test]
fn the_last_row_id_and_long_values_are_refused_and_change_nothing() {
    let mut pages = MemPages::new(4064);
    let mut root = RowRoot::EMPTY;
    let long = vec![7; node::max_value(4064) + 1];
    for rows in 0..2 {
        let before = root;
        let refused = RowTree::put(&mut pages, &mut root, 5, Value::inline(&long));
        assert!(matches!(refused, Err(Error::ValueTooLong { .. })));
        let refused = RowTree::put(&mut pages, &mut root, u64::MAX, Value::inline(b""));
        assert!(matches!(refused, Err(Error::Invalid(_))));
        assert_eq!((root, pages.live()), (before, rows));
        RowTree::put(&mut pages, &mut root, 5, Value::inline(&long[1..])).unwrap();
    }
    RowTree::put(&mut pages, &mut root, u64::MAX - 1, Value::inline(b"last")).unwrap();
    assert!(RowTree::append(&mut pages, &mut root, Value::inline(b"")).is_err());
}

#[test]
fn a_row_snapshot_sees_its_tree_while_the_next_transaction_changes_it() {
    let mut rng = Rng::new(7);
    let mut pages = MemPages::new(512);
    let mut root = RowRoot::EMPTY;
    let mut model = Model::new();
    let mut snapshots = Vec::new();
    for round in 0..12 {
        for _ in 0..400 {
            let id = rng.below(2000) as u64;
            if rng.below(2) == 0 {
                RowTree::put(&mut pages, &mut root, id, Value::inline(&[round])).unwrap();
                model.insert(id, (vec![round], false));
            } else {
                RowTree::delete(&mut pages, &mut root, id).unwrap();
                model.remove(&id);
            }
        }
        pages.seal();
        snapshots.push((root, model.clone()));
        for (root, model) in &snapshots {
            let mut cursor = RowTree::cursor(&pages, root);
            for (id, (value, _)) in model {
                assert!(cursor.next().unwrap());
                assert_eq!(cursor.row(), Some((*id, Value::inline(value))));
            }
            assert!(!cursor.next().unwrap());
        }
    }
}

#[test]
fn damaged_row_pages_give_errors_or_harmless_results() {
    let mut rng = Rng::new(8);
    let (mut caught, mut harmless) = (0, 0);
    for _ in 0..400 {
        let mut pages = MemPages::new(256);
        let mut root = RowRoot::EMPTY;
        for _ in 0..600 {
            let (value, pointer) = random_value(&mut rng, 36);
            if rng.below(3) == 0 {
                let id = random_id(&mut rng, 700);
                RowTree::delete(&mut pages, &mut root, id).unwrap();
            }
            let id = rng.below(900) as u64;
            RowTree::put(&mut pages, &mut root, id, Value { bytes: &value, pointer }).unwrap();
        }
        let ids = pages.ids();
        for _ in 0..1 + rng.below(4) {
            let id = ids[rng.below(ids.len())];
            let bytes = pages.bytes_mut(id).unwrap();
            let at = if rng.below(2) == 0 { rng.below(24) } else { rng.below(bytes.len()) };
            bytes[at] ^= 1 << rng.below(8);
        }
        if rng.below(4) == 0 {
            let copy = pages.bytes_mut(ids[rng.below(ids.len())]).unwrap().clone();
            *pages.bytes_mut(ids[rng.below(ids.len())]).unwrap() = copy;
        }
        if rng.below(8) == 0 {
            root.tree.depth = rng.next_u64() as u16;
        }
        if RowTree::check(&pages, &root, &mut |_| {}).is_ok() {
            harmless += 1
        } else {
            caught += 1
        }
        let mut cursor = RowTree::cursor(&pages, &root);
        while let Ok(true) = cursor.next() {}
        let mut cursor = RowTree::cursor(&pages, &root);
        while let Ok(true) = cursor.prev() {}
        for _ in 0..150 {
            let id = random_id(&mut rng, 900);
            let _ = RowTree::get(&pages, &root.tree, id);
            let _ = RowTree::cursor(&pages, &root).seek(id);
            let _ = RowTree::cursor(&pages, &root).seek_back(id);
            let value = vec![3; rng.below(40)];
            if rng.below(2) == 0 {
                let _ = RowTree::put(&mut pages, &mut root, id, Value::inline(&value));
            } else {
                let _ = RowTree::delete(&mut pages, &mut root, id);
            }
        }
        let _ = RowTree::clear(&mut pages, &mut root);
    }
    assert!(caught > 100, "{caught} caught, {harmless} harmless");
}

#[test]
fn rows_appended_together_are_the_same_as_appended_one_by_one() {
    for seed in seeds(1..40) {
        let payload = if seed % 2 == 0 { 256 } else { 4032 };
        let (mut rng, mut pages, mut model) = (Rng::new(seed), MemPages::new(payload), Model::new());
        let (mut root, mut finger) = (RowRoot::EMPTY, Finger::new());
        let longest = node::max_value(payload);
        for _ in 0..60 {
            let values: Vec<Vec<u8>> =
                (0..rng.below(40)).map(|_| random_value(&mut rng, longest).0).collect();
            let mut rest: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
            while !rest.is_empty() {
                let first = root.next;
                let RowRoot { tree, next } = &mut root;
                let added = RowTree::append_next(&mut pages, tree, next, &mut finger, &rest).unwrap();
                assert!(added > 0 && root.next == first + added as u64);
                model.extend((first..).zip(rest.drain(..added).map(|value| (value.to_vec(), false))));
            }
            if rng.below(3) == 0 {
                finger.reset();
                let id = rng.below(root.next as usize + 9) as u64;
                RowTree::put(&mut pages, &mut root, id, Value::inline(b"put")).unwrap();
                model.insert(id, (b"put".to_vec(), false));
                let id = rng.below(root.next as usize) as u64;
                assert_eq!(RowTree::delete(&mut pages, &mut root, id).unwrap(), model.remove(&id).is_some());
            }
        }
        compare_all(&pages, &root, &model);
    }
}
