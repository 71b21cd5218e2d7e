//! The tree against a `BTreeMap`, on pages that detect misuse.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;

use treedb_testing::{Rng, seeds};

use super::testing::MemPages;
use super::{Finger, Tree, TreeRoot, Value};
use crate::Error;
use crate::page::PageId;
use treedb_formats::node;

type Model = BTreeMap<Vec<u8>, (Vec<u8>, bool)>;

/// A random key of one of several kinds, so that prefixes, heads and rests are all tested.
fn random_key(rng: &mut Rng, kind: usize, longest: usize) -> Vec<u8> {
    let mut key = match kind {
        // Short keys of few different bytes, with 0x00 and 0xff at either end, and the empty key.
        0 => (0..rng.below(5)).map(|_| [0, 1, 0xfe, 0xff][rng.below(4)]).collect(),
        // Numbers.
        1 => (rng.below(3000) as u64).to_be_bytes().to_vec(),
        // Keys that differ only after 8 bytes, and in length.
        2 => [&b"samehead"[..], &vec![rng.below(3) as u8; rng.below(12)], &[rng.below(256) as u8]].concat(),
        // Keys with a long common prefix.
        3 => [&vec![b'p'; longest - 3.min(longest)][..], &(rng.below(900) as u16).to_be_bytes()].concat(),
        // Random bytes of any length.
        _ => (0..rng.below(longest + 1)).map(|_| rng.next_u64() as u8).collect(),
    };
    key.truncate(longest);
    key
}

fn random_value(rng: &mut Rng, longest: usize) -> (Vec<u8>, bool) {
    let len = if rng.below(8) == 0 { rng.below(longest + 1) } else { rng.below(12) };
    (vec![rng.next_u64() as u8; len], rng.below(3) == 0)
}

/// Compares everything the tree returns with the model.
fn compare_all(pages: &MemPages, root: &TreeRoot, model: &Model) {
    let mut seen = HashSet::new();
    let stats = Tree::check(pages, root, &mut |id| assert!(seen.insert(id))).unwrap();
    assert_eq!(stats.entries, model.len() as u64);
    assert_eq!(Tree::count_pages(pages, root).unwrap(), (stats.branches, stats.leaves));
    assert_eq!(pages.live(), seen.len(), "every page in use belongs to the tree");
    assert_eq!(TreeRoot::from_bytes(&root.to_bytes()), Some(*root));

    let mut cursor = Tree::cursor(pages, root);
    for (key, (value, pointer)) in model {
        assert!(cursor.next().unwrap());
        assert_eq!(cursor.entry().unwrap(), Some((&key[..], Value { bytes: value, pointer: *pointer })));
    }
    assert!(!cursor.next().unwrap());
    assert!(!cursor.next().unwrap());
    assert_eq!(cursor.entry().unwrap(), None);
    for (key, (value, pointer)) in model.iter().rev() {
        assert!(cursor.prev().unwrap());
        assert_eq!(cursor.value(), Some(Value { bytes: value, pointer: *pointer }));
        assert_eq!(cursor.key().unwrap(), Some(&key[..]));
    }
    assert!(!cursor.prev().unwrap());
    assert!(!cursor.prev().unwrap());
    assert_eq!(cursor.next().unwrap(), !model.is_empty());
}

/// Compares seeks of every kind around `key`.
fn compare_seeks(pages: &MemPages, root: &TreeRoot, model: &Model, key: &[u8]) {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let from = |bounds: (std::ops::Bound<&[u8]>, std::ops::Bound<&[u8]>)| model.range::<[u8], _>(bounds);
    let mut cursor = Tree::cursor(pages, root);

    let expected = from((Included(key), Unbounded)).next().map(|(k, _)| k.clone());
    assert_eq!(cursor.seek(key).unwrap(), expected.is_some());
    assert_eq!(cursor.key().unwrap(), expected.as_deref());
    let before = from((Unbounded, Excluded(key))).next_back().map(|(k, _)| k.clone());
    assert_eq!(cursor.prev().unwrap(), before.is_some());
    assert_eq!(cursor.key().unwrap(), before.as_deref());
    assert_eq!(cursor.next().unwrap(), expected.is_some());
    assert_eq!(cursor.key().unwrap(), expected.as_deref());

    let back = from((Unbounded, Included(key))).next_back().map(|(k, _)| k.clone());
    assert_eq!(cursor.seek_back(key).unwrap(), back.is_some());
    assert_eq!(cursor.key().unwrap(), back.as_deref());
    let after = from((Excluded(key), Unbounded)).next().map(|(k, _)| k.clone());
    assert_eq!(cursor.next().unwrap(), after.is_some());
    assert_eq!(cursor.key().unwrap(), after.as_deref());

    let above = model.last_key_value().is_none_or(|(last, _)| key > last.as_slice());
    assert_eq!(Tree::is_above_all(pages, root, key).unwrap(), above);
    assert_eq!(cursor.seek_exact(key).unwrap(), model.contains_key(key));
    let got = Tree::get(pages, root, key).unwrap();
    assert_eq!(got.map(|v| (v.bytes.to_vec(), v.pointer)), model.get(key).cloned());
}

fn bound(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// Bounds of every kind, mostly at existing keys.
fn random_bounds(
    rng: &mut Rng,
    model: &Model,
    kind: usize,
    longest: usize,
) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let mut end = || {
        let mut key = random_key(rng, kind, longest);
        if rng.below(3) > 0 {
            key = model.range(key.clone()..).next().map_or(key, |(k, _)| k.clone());
        }
        match rng.below(5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(key),
            _ => Bound::Excluded(key),
        }
    };
    (end(), end())
}

/// Deletes a range from the tree and from the model, and checks the tree.
fn delete_range(
    pages: &mut MemPages,
    root: &mut TreeRoot,
    model: &mut Model,
    bounds: (Bound<&[u8]>, Bound<&[u8]>),
) {
    let before = model.len();
    let (from, to) = bounds;
    let above = |key: &[u8]| match from {
        Bound::Included(from) => key >= from,
        Bound::Excluded(from) => key > from,
        Bound::Unbounded => true,
    };
    let below = |key: &[u8]| match to {
        Bound::Included(to) => key <= to,
        Bound::Excluded(to) => key < to,
        Bound::Unbounded => true,
    };
    model.retain(|key, _| !(above(key) && below(key)));
    let removed = Tree::delete_range(pages, root, bounds).unwrap();
    assert_eq!(removed, (before - model.len()) as u64, "{bounds:?}");
    compare_all(pages, root, model);
}

/// Compares lookups of many keys at once, in the given order.
fn compare_many(pages: &MemPages, root: &TreeRoot, model: &Model, keys: &[Vec<u8>]) {
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut got = Vec::new();
    Tree::get_many(pages, root, &keys, &mut |i, value| {
        assert_eq!(i, got.len());
        got.push(value.map(|v| (v.bytes.to_vec(), v.pointer)));
        Ok(())
    })
    .unwrap();
    let want: Vec<_> = keys.iter().map(|&key| model.get(key).cloned()).collect();
    assert_eq!(got, want);
}

fn play(payload: usize, seed: u64, steps: usize, kinds: &[usize]) {
    let mut rng = Rng::new(seed);
    let mut pages = MemPages::new(payload);
    let mut root = TreeRoot::EMPTY;
    let mut model = Model::new();
    let (longest_key, longest_value) = (node::max_key(payload), node::max_value(payload));
    let mut deleting = false;
    for step in 0..steps {
        // Growing and shrinking phases alternate; the tree shrinks until it is empty.
        if rng.below(600) == 0 {
            deleting = !deleting;
        }
        let kind = kinds[rng.below(kinds.len())];
        let key = random_key(&mut rng, kind, longest_key);
        if rng.below(10) < if deleting { 9 } else { 2 } {
            // Mostly an existing key.
            let key = model.range(key.clone()..).next().map_or(key, |(k, _)| k.clone());
            assert_eq!(Tree::delete(&mut pages, &mut root, &key).unwrap(), model.remove(&key).is_some());
        } else {
            let (value, pointer) = random_value(&mut rng, longest_value);
            let new = Tree::put(&mut pages, &mut root, &key, Value { bytes: &value, pointer }).unwrap();
            assert_eq!(new, model.insert(key.clone(), (value, pointer)).is_none());
        }
        if rng.below(if deleting { 150 } else { 900 }) == 0 {
            let (from, to) = random_bounds(&mut rng, &model, kind, longest_key);
            delete_range(&mut pages, &mut root, &mut model, (bound(&from), bound(&to)));
        }
        assert_eq!(root.entries, model.len() as u64);
        if rng.below(40) == 0 {
            pages.seal();
            pages.drop_snapshots();
        }
        let probe = random_key(&mut rng, kind, longest_key);
        compare_seeks(&pages, &root, &model, &probe);
        if step % 150 == 0 {
            compare_all(&pages, &root, &model);
            let mut keys: Vec<_> =
                (0..rng.below(120)).map(|_| random_key(&mut rng, kind, longest_key)).collect();
            compare_many(&pages, &root, &model, &keys);
            keys.sort();
            compare_many(&pages, &root, &model, &keys);
        }
    }
    compare_all(&pages, &root, &model);
    while let Some((key, _)) = model.pop_first() {
        assert!(Tree::delete(&mut pages, &mut root, &key).unwrap());
        if model.len().is_multiple_of(97) {
            compare_all(&pages, &root, &model);
        }
    }
    assert_eq!(root, TreeRoot::EMPTY);
    assert_eq!(pages.live(), 0);
}

#[test]
fn a_tree_of_small_pages_behaves_like_a_btreemap() {
    for seed in seeds(0..6) {
        play(256, seed, 4000, &[0, 1, 2, 3, 4]);
        play(300, seed, 2000, &[2, 3]);
    }
}

#[test]
fn a_tree_of_native_pages_behaves_like_a_btreemap() {
    play(4096 - 32, 1, 6000, &[0, 1, 2, 3, 4]);
    play(4096 - 24, 2, 6000, &[3, 4]);
}

#[test]
fn a_tree_of_large_pages_behaves_like_a_btreemap() {
    play(8150, 3, 5000, &[1, 3, 4]);
    play(32 * 1024, 4, 3000, &[3, 4]);
}

#[test]
fn every_kind_of_key_works_alone() {
    for kind in 0..5 {
        play(256, 10 + kind as u64, 2500, &[kind]);
        play(1000, 20 + kind as u64, 1500, &[kind]);
    }
}

#[test]
fn ascending_keys_fill_their_pages() {
    let mut pages = MemPages::new(4064);
    let mut root = TreeRoot::EMPTY;
    for n in 0..50_000u64 {
        assert!(Tree::put(&mut pages, &mut root, &n.to_be_bytes(), Value::inline(&n.to_le_bytes())).unwrap());
    }
    let stats = Tree::check(&pages, &root, &mut |_| {}).unwrap();
    assert!(stats.used * 100 > stats.room * 95, "{stats:?}");
}

#[test]
fn descending_and_random_keys_leave_no_page_nearly_empty() {
    let mut rng = Rng::new(5);
    for falling in [true, false] {
        let mut pages = MemPages::new(4064);
        let mut root = TreeRoot::EMPTY;
        for n in (0..30_000u64).rev() {
            let key = if falling { n } else { rng.next_u64() };
            Tree::put(&mut pages, &mut root, &key.to_be_bytes(), Value::inline(b"12345678")).unwrap();
        }
        let stats = Tree::check(&pages, &root, &mut |_| {}).unwrap();
        assert!(stats.used * 100 > stats.room * 48, "{stats:?}");
    }
}

#[test]
fn deletes_leave_no_pages_nearly_empty() {
    let mut rng = Rng::new(6);
    let mut pages = MemPages::new(4064);
    let mut root = TreeRoot::EMPTY;
    for n in 0..30_000u64 {
        Tree::put(&mut pages, &mut root, &n.to_be_bytes(), Value::inline(b"12345678")).unwrap();
    }
    for n in 0..30_000u64 {
        if rng.below(20) != 0 {
            assert!(Tree::delete(&mut pages, &mut root, &n.to_be_bytes()).unwrap());
        }
    }
    let stats = Tree::check(&pages, &root, &mut |_| {}).unwrap();
    assert!(stats.used * 100 > stats.room * 24, "{stats:?}");
}

#[test]
fn a_snapshot_sees_its_tree_while_the_next_transaction_changes_it() {
    let mut rng = Rng::new(7);
    let mut pages = MemPages::new(512);
    let mut root = TreeRoot::EMPTY;
    let mut model = Model::new();
    let mut snapshots = Vec::new();
    for round in 0..12 {
        for _ in 0..400 {
            let kind = 1 + rng.below(4);
            let key = random_key(&mut rng, kind, 100);
            if rng.below(2) == 0 {
                Tree::put(&mut pages, &mut root, &key, Value::inline(&[round])).unwrap();
                model.insert(key, (vec![round], false));
            } else {
                Tree::delete(&mut pages, &mut root, &key).unwrap();
                model.remove(&key);
            }
        }
        pages.seal();
        snapshots.push((root, model.clone()));
        for (root, model) in &snapshots {
            let mut cursor = Tree::cursor(&pages, root);
            for (key, (value, _)) in model {
                assert!(cursor.next().unwrap());
                assert_eq!(cursor.entry().unwrap(), Some((&key[..], Value::inline(value))));
            }
            assert!(!cursor.next().unwrap());
        }
    }
}

#[test]
fn keys_and_values_over_the_limit_are_refused_and_change_nothing() {
    let mut pages = MemPages::new(4064);
    let mut root = TreeRoot::EMPTY;
    let long = vec![7; node::max_key(4064) + 1];
    for filled in [false, true] {
        let before = root;
        let refused = Tree::put(&mut pages, &mut root, &long, Value::inline(b""));
        assert!(matches!(refused, Err(Error::KeyTooLong { len, limit }) if len == limit + 1));
        let refused = Tree::put(&mut pages, &mut root, b"k", Value::inline(&long));
        assert!(matches!(refused, Err(Error::ValueTooLong { len, limit }) if len == limit + 1));
        assert_eq!(root, before);
        assert_eq!(pages.live(), usize::from(filled));
        let fits = &long[1..];
        Tree::put(&mut pages, &mut root, fits, Value::inline(fits)).unwrap();
        assert_eq!(Tree::get(&pages, &root, fits).unwrap(), Some(Value::inline(fits)));
    }
}

#[test]
fn clear_frees_every_page() {
    let mut pages = MemPages::new(256);
    let mut root = TreeRoot::EMPTY;
    for n in 0..3000u32 {
        Tree::put(&mut pages, &mut root, &n.to_be_bytes(), Value::inline(b"x")).unwrap();
    }
    assert!(root.depth > 2);
    Tree::clear(&mut pages, &mut root).unwrap();
    assert_eq!((root, pages.live()), (TreeRoot::EMPTY, 0));
}

#[test]
fn a_full_disk_is_an_error_at_any_allocation() {
    for budget in 0..30 {
        let mut pages = MemPages::new(256);
        let mut root = TreeRoot::EMPTY;
        pages.budget = budget;
        let full = (0..1000u32).find_map(|n| {
            pages.seal();
            Tree::put(&mut pages, &mut root, &n.to_be_bytes(), Value::inline(b"value")).err()
        });
        assert!(matches!(full, Some(Error::DiskFull { .. })));
    }
}

#[test]
fn damaged_pages_give_errors_or_harmless_results() {
    let mut rng = Rng::new(8);
    let (mut caught, mut harmless) = (0, 0);
    for round in 0..300 {
        let mut pages = MemPages::new(256);
        let mut root = TreeRoot::EMPTY;
        for _ in 0..400 {
            let key = random_key(&mut rng, round % 5, 36);
            Tree::put(&mut pages, &mut root, &key, Value::inline(&[1; 9])).unwrap();
        }
        let ids = pages.ids();
        for _ in 0..1 + rng.below(4) {
            let id = ids[rng.below(ids.len())];
            let bytes = pages.bytes_mut(id).unwrap();
            // Half of the flips are in the header and the slot array.
            let at = if rng.below(2) == 0 { rng.below(24) } else { rng.below(bytes.len()) };
            bytes[at] ^= 1 << rng.below(8);
        }
        if rng.below(4) == 0 {
            // A page is replaced by a copy of another: gives cycles and shared pages.
            let copy = pages.bytes_mut(ids[rng.below(ids.len())]).unwrap().clone();
            *pages.bytes_mut(ids[rng.below(ids.len())]).unwrap() = copy;
        }
        if rng.below(8) == 0 {
            root.depth = rng.next_u64() as u16;
        }
        let checked = Tree::check(&pages, &root, &mut |_| {});
        if checked.is_ok() {
            harmless += 1
        } else {
            caught += 1
        }
        let mut cursor = Tree::cursor(&pages, &root);
        while let Ok(true) = cursor.next() {
            let _ = cursor.entry();
        }
        let mut cursor = Tree::cursor(&pages, &root);
        while let Ok(true) = cursor.prev() {
            let _ = cursor.entry();
        }
        for _ in 0..150 {
            let key = random_key(&mut rng, round % 5, 36);
            let _ = Tree::get(&pages, &root, &key);
            let _ = Tree::cursor(&pages, &root).seek(&key);
            let value = vec![3; rng.below(36)];
            if rng.below(2) == 0 {
                let _ = Tree::put(&mut pages, &mut root, &key, Value::inline(&value));
            } else {
                let _ = Tree::delete(&mut pages, &mut root, &key);
            }
        }
        let _ = Tree::clear(&mut pages, &mut root);
    }
    assert!(caught > 100, "{caught} caught, {harmless} harmless");
}

#[test]
fn an_impossible_root_is_not_read() {
    let root = TreeRoot { root: PageId(7), depth: 3, entries: 12 };
    assert_eq!(TreeRoot::from_bytes(&root.to_bytes()), Some(root));
    assert_eq!(TreeRoot::from_bytes(&[0; 16]), Some(TreeRoot::EMPTY));
    for bad in [
        TreeRoot { depth: 0, ..root },
        TreeRoot { depth: 41, ..root },
        TreeRoot { root: PageId::NONE, ..root },
        TreeRoot { entries: 0, ..root },
    ] {
        assert_eq!(TreeRoot::from_bytes(&bad.to_bytes()), None);
    }
}

#[test]
fn adjacent_keys_share_their_descent() {
    let mut pages = MemPages::new(4064);
    let mut root = TreeRoot::EMPTY;
    for n in 0..50_000u64 {
        Tree::put(&mut pages, &mut root, &n.to_be_bytes(), Value::inline(b"12345678")).unwrap();
    }
    assert_eq!(root.depth, 2);
    let sequential: Vec<_> = (20_000..20_032u64).map(u64::to_be_bytes).collect();
    let sequential: Vec<&[u8]> = sequential.iter().map(|key| &key[..]).collect();
    pages.reads.set(0);
    let mut found = 0;
    Tree::get_many(&pages, &root, &sequential, &mut |_, value| {
        found += usize::from(value.is_some());
        Ok(())
    })
    .unwrap();
    assert_eq!(found, 32);
    assert!(pages.reads.get() <= 3, "{} pages for 32 neighbours", pages.reads.get());
}

/// A tree of `count` numbers, each with a value of 8 bytes.
fn numbers(count: u64) -> (MemPages, TreeRoot) {
    let mut pages = MemPages::new(4064);
    let mut root = TreeRoot::EMPTY;
    for n in 0..count {
        Tree::put(&mut pages, &mut root, &n.to_be_bytes(), Value::inline(b"12345678")).unwrap();
    }
    pages.seal();
    (pages, root)
}

#[test]
fn a_range_with_any_bounds_is_deleted_completely() {
    let ends = [0u64, 1, 127, 128, 160, 161, 162, 500, 3_000, 5_998, 5_999, 9_000];
    for from in ends {
        for to in ends {
            for kind in 0..3 {
                let (mut pages, mut root) = numbers(6_000);
                let (low, high) = (from.to_be_bytes(), to.to_be_bytes());
                let bounds = match kind {
                    0 => (Bound::Included(&low[..]), Bound::Excluded(&high[..])),
                    1 => (Bound::Excluded(&low[..]), Bound::Unbounded),
                    _ => (Bound::Unbounded, Bound::Included(&high[..])),
                };
                let want: u64 = match kind {
                    0 => to.min(6_000).saturating_sub(from),
                    1 => 5_999u64.saturating_sub(from),
                    _ => (to + 1).min(6_000),
                };
                assert_eq!(Tree::delete_range(&mut pages, &mut root, bounds).unwrap(), want, "{bounds:?}");
                assert_eq!(root.entries, 6_000 - want);
                let mut seen = 0;
                Tree::check(&pages, &root, &mut |_| seen += 1).unwrap();
                assert_eq!(pages.live(), seen, "{bounds:?}");
            }
        }
    }
}

#[test]
fn a_deleted_range_is_not_searched_and_few_pages_are_copied() {
    let (mut pages, mut root) = numbers(100_000);
    let leaves = Tree::count_pages(&pages, &root).unwrap().1;
    pages.reads.set(0);
    pages.budget = 8;
    let (low, high) = (10_000u64.to_be_bytes(), 95_000u64.to_be_bytes());
    let bounds = (Bound::Included(&low[..]), Bound::Excluded(&high[..]));
    assert_eq!(Tree::delete_range(&mut pages, &mut root, bounds).unwrap(), 85_000);
    let reads = pages.reads.get();
    assert!(reads < leaves / 2, "{reads} reads for {leaves} leaves, of which a seventh is left");
}

#[test]
fn deleted_ranges_leave_no_pages_nearly_empty() {
    let (mut pages, mut root) = numbers(100_000);
    for from in (0..100_000u64).step_by(100) {
        let (low, high) = (from.to_be_bytes(), (from + 95).to_be_bytes());
        let bounds = (Bound::Included(&low[..]), Bound::Excluded(&high[..]));
        assert_eq!(Tree::delete_range(&mut pages, &mut root, bounds).unwrap(), 95);
    }
    let stats = Tree::check(&pages, &root, &mut |_| {}).unwrap();
    assert!(stats.entries == 5000 && stats.used * 100 > stats.room * 45, "{stats:?}");
}

#[test]
fn keys_put_with_a_finger_are_where_a_descent_puts_them() {
    for seed in seeds(0..6) {
        let mut rng = Rng::new(seed + 900);
        let mut pages = MemPages::new(if seed % 2 == 0 { 512 } else { 4032 });
        let (mut root, mut finger, mut model) = (TreeRoot::EMPTY, Finger::new(), BTreeMap::new());
        for round in 0..300 {
            // Runs of ascending or descending keys that begin at random positions; later runs begin at higher
            // keys.
            let (start, step) = ((round * 50 + rng.below(5000)) as u32 + 200, rng.below(7) as u32);
            let append = rng.below(3) == 0;
            for n in 0..rng.below(60) as u32 {
                let key = if step == 0 { start - n } else { start + n * step };
                let (key, value) = (key.to_be_bytes(), vec![n as u8; rng.below(40)]);
                if append {
                    let above =
                        model.last_key_value().is_none_or(|(last, _): (&Vec<u8>, _)| key[..] > last[..]);
                    let cell = Value::inline(&value);
                    let done = Tree::append_at(&mut pages, &mut root, &mut finger, &key, cell).unwrap();
                    assert_eq!(done, above);
                    if done {
                        model.insert(key.to_vec(), value);
                    }
                    continue;
                }
                let new =
                    Tree::put_at(&mut pages, &mut root, &mut finger, &key, Value::inline(&value)).unwrap();
                assert_eq!(new, model.insert(key.to_vec(), value).is_none());
            }
            if rng.below(4) == 0 {
                let key = (rng.below(20_000) as u32).to_be_bytes();
                finger.reset();
                let there = Tree::delete(&mut pages, &mut root, &key).unwrap();
                assert_eq!(there, model.remove(&key[..]).is_some());
            }
        }
        Tree::check(&pages, &root, &mut |_| ()).unwrap();
        let mut cursor = Tree::cursor(&pages, &root);
        for (key, value) in &model {
            assert!(cursor.next().unwrap());
            let (found, cell) = cursor.entry().unwrap().unwrap();
            assert_eq!((found, cell.bytes), (&key[..], &value[..]), "seed {seed}");
        }
        assert!(!cursor.next().unwrap());
    }
}
