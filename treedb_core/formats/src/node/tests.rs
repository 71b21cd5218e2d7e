//! Tests of single nodes: custom key orders, full nodes, invalid bytes.

use std::cmp::Ordering;

use treedb_testing::{Rng, rounds};

use super::{Branch, BranchMut, Keys, Leaf, LeafMut, Scratch, Value, max_key, max_value};

/// The entries of a leaf, after checking that it is valid.
pub(super) fn entries(page: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let leaf = Leaf::open(page).unwrap();
    leaf.validate().unwrap();
    let mut key = Vec::new();
    (0..leaf.count())
        .map(|i| {
            leaf.key_into(i, &mut key).unwrap();
            (key.clone(), leaf.value(i).unwrap().bytes.to_vec())
        })
        .collect()
}

#[test]
fn compacting_a_leaf_full_of_short_keys_changes_no_entry() {
    // Keys that fit completely into their heads gain nothing from a common prefix, which takes space itself:
    // with some payload sizes it no longer fits.
    for payload in 256..400 {
        let mut page = vec![0; payload];
        let mut leaf = LeafMut::init(&mut page, Keys::Bytewise).unwrap();
        let mut n = 0;
        while leaf.insert(n, &(n as u64).to_be_bytes(), Value::inline(b"")).unwrap() {
            n += 1;
        }
        let before = entries(&page);
        LeafMut::open(&mut page).unwrap().compact().unwrap();
        assert_eq!(entries(&page), before);
    }
}

#[test]
fn the_order_of_a_key_in_a_leaf_is_that_of_its_bytes() {
    let mut rng = Rng::new(7);
    let mut key = || -> Vec<u8> {
        let prefix: &[u8] = if rng.next_u64().is_multiple_of(4) { b"" } else { b"common prefix" };
        let len = rng.next_u64() as usize % 14;
        prefix.iter().copied().chain((0..len).map(|_| (rng.next_u64() % 3) as u8)).collect()
    };
    for round in 0..rounds(40) {
        // Half of the leaves have a prefix that all keys share.
        let mut keys: Vec<Vec<u8>> =
            (0..60).map(|_| key()).filter(|key| round % 2 == 0 || key.len() > 12).collect();
        keys.sort();
        keys.dedup();
        let mut page = vec![0; 4064];
        let mut leaf = LeafMut::init(&mut page, Keys::Bytewise).unwrap();
        for (i, key) in keys.iter().enumerate() {
            assert!(leaf.insert(i, key, Value::inline(b"")).unwrap());
        }
        leaf.compact().unwrap();
        let leaf = Leaf::open(&page).unwrap();
        for other in keys.iter().cloned().chain((0..60).map(|_| key())) {
            for (i, key) in keys.iter().enumerate() {
                assert_eq!(leaf.order(i, &other).unwrap(), key.cmp(&other), "{key:?} and {other:?}");
            }
        }
    }
}

/// Shorter keys first, then compared from the last byte to the first: unrelated to bytewise order.
fn custom_order(a: &[u8], b: &[u8]) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.iter().rev().cmp(b.iter().rev()))
}

#[test]
fn a_leaf_with_a_custom_order_keeps_it_in_inserts_splits_and_joins() {
    let mut rng = Rng::new(1);
    for round in 0..rounds(60) {
        let payload = [256, 1000, 4064, 8150][round % 4];
        let mut page = vec![0; payload];
        LeafMut::init(&mut page, Keys::Custom).unwrap();
        let mut model: Vec<Vec<u8>> = Vec::new();
        let mut buffer = Vec::new();
        loop {
            // All keys have a common prefix, which must not be used here.
            let tail = rng.below(max_key(payload) - 3);
            let key = [&b"abc"[..], &(0..tail).map(|_| rng.next_u64() as u8).collect::<Vec<_>>()].concat();
            let mut leaf = LeafMut::open(&mut page).unwrap();
            let found =
                leaf.view().unwrap().search_by(&mut buffer, |stored| custom_order(stored, &key)).unwrap();
            assert_eq!(found, model.binary_search_by(|stored| custom_order(stored, &key)));
            let Err(i) = found else { continue };
            if leaf.insert(i, &key, Value::inline(b"v")).unwrap() {
                model.insert(i, key);
                continue;
            }
            let old = page.clone();
            let split = Leaf::open(&old).unwrap().split(i, false, &key, Value::inline(b"v")).unwrap();
            model.insert(i, key.clone());
            let mut right = vec![0; payload];
            split.right(&mut right).unwrap();
            if !split.left_unchanged() {
                split.left(&mut page).unwrap();
            }
            let mut separator = Vec::new();
            split.separator(&mut separator).unwrap();
            assert_eq!(separator, model[split.left_count()], "the separator is a complete key");
            let both: Vec<_> =
                entries(&page).into_iter().chain(entries(&right)).map(|entry| entry.0).collect();
            assert_eq!(both, model);
            let (left, right) = (Leaf::open(&page).unwrap(), Leaf::open(&right).unwrap());
            let join = left.join(&right).unwrap();
            let mut merged = vec![0; join.size().unwrap().max(256)];
            join.merge(&mut merged).unwrap();
            assert_eq!(entries(&merged).into_iter().map(|entry| entry.0).collect::<Vec<_>>(), model);
            break;
        }
    }
}

#[test]
fn a_branch_with_a_custom_order_finds_the_child_of_every_key() {
    let mut page = vec![0; 4064];
    let mut branch = BranchMut::init(&mut page, Keys::Custom, 100).unwrap();
    let separators: Vec<Vec<u8>> = (1..60).map(|len| vec![b'k'; len]).collect();
    for (i, separator) in separators.iter().enumerate() {
        assert!(branch.insert(i, separator, 101 + i as u32).unwrap());
    }
    let branch = branch.view().unwrap();
    branch.validate().unwrap();
    let mut buffer = Vec::new();
    for (key, child) in [(&b""[..], 0), (b"k", 1), (b"zz", 2), (b"aa", 1), (&[b'k'; 80], 59)] {
        assert_eq!(branch.find_by(&mut buffer, |stored| custom_order(stored, key)).unwrap(), child);
        assert_eq!(branch.child(child).unwrap(), 100 + child as u32);
    }
}

#[test]
fn a_full_node_always_splits_for_the_longest_entry() {
    let mut rng = Rng::new(2);
    for round in 0..rounds(3000) {
        let payload = 256 + rng.below(600);
        let (longest_key, longest_value) = (max_key(payload), max_value(payload));
        // The keys differ in one byte at a random position, so that prefixes of every length occur.
        let at = rng.below(longest_key);
        let make = |rng: &mut Rng| {
            let mut key = vec![b'p'; longest_key - rng.below(if round % 2 == 0 { 1 } else { longest_key })];
            if let Some(byte) = key.get_mut(at) {
                *byte = rng.next_u64() as u8;
            }
            let long = rng.below(3) == 0;
            (key, vec![1; if long { longest_value } else { rng.below(9) }])
        };
        let mut page = vec![0; payload];
        LeafMut::init(&mut page, Keys::Bytewise).unwrap();
        let mut model = std::collections::BTreeMap::new();
        for _ in 0..300 {
            let (mut key, value) = make(&mut rng);
            if rng.below(30) == 0 {
                key[0] = rng.next_u64() as u8;
            }
            let mut leaf = LeafMut::open(&mut page).unwrap();
            let found = leaf.view().unwrap().search(&key).unwrap();
            let fits = match found {
                Ok(i) => leaf.replace(i, Value::inline(&value)).unwrap(),
                Err(i) => leaf.insert(i, &key, Value::inline(&value)).unwrap(),
            };
            model.insert(key.clone(), value.clone());
            if fits {
                continue;
            }
            let (i, replacing) = found.map_or_else(|i| (i, false), |i| (i, true));
            let old = page.clone();
            let split = Leaf::open(&old).unwrap().split(i, replacing, &key, Value::inline(&value)).unwrap();
            let mut right = vec![0; payload];
            split.right(&mut right).unwrap();
            if !split.left_unchanged() {
                split.left(&mut page).unwrap();
            }
            let both: Vec<_> = entries(&page).into_iter().chain(entries(&right)).collect();
            assert_eq!(both, model.into_iter().collect::<Vec<_>>());
            break;
        }
    }
}

#[test]
fn an_entry_that_does_not_fit_leaves_the_page_unchanged() {
    let mut page = vec![0; 512];
    let mut leaf = LeafMut::init(&mut page, Keys::Bytewise).unwrap();
    let mut n = 0;
    while leaf.insert(n, format!("key{n:05}").as_bytes(), Value::inline(&[7; 20])).unwrap() {
        n += 1;
    }
    let before = page.clone();
    let mut leaf = LeafMut::open(&mut page).unwrap();
    assert!(!leaf.insert(0, b"a key without the others' prefix", Value::inline(&[1; 90])).unwrap());
    assert!(!leaf.replace(3, Value::inline(&[1; 100])).unwrap());
    assert_eq!(page, before);

    let mut branch = BranchMut::init(&mut page, Keys::Bytewise, 1).unwrap();
    let mut n = 0;
    while branch.insert(n, format!("separator/{n:05}/and more").as_bytes(), 2).unwrap() {
        n += 1;
    }
    let before = page.clone();
    let mut branch = BranchMut::open(&mut page).unwrap();
    assert!(!branch.set_separator(0, &[b'a'; 100]).unwrap());
    assert!(!branch.insert(0, &[b'a'; 100], 3).unwrap());
    assert_eq!(page, before);
}

#[test]
fn random_bytes_never_cause_a_panic() {
    let mut rng = Rng::new(3);
    let mut opened = 0;
    for round in 0..rounds(40_000) {
        let payload = if round % 3 == 0 { 256 } else { 16 + rng.below(600) };
        let mut page: Vec<u8> = (0..payload).map(|_| rng.next_u64() as u8).collect();
        // An almost valid header, so that the bytes after it are used.
        page[0] = 1 + (round % 2) as u8;
        page[1] = rng.below(2) as u8;
        let count = rng.below(12) as u16;
        page[2..4].copy_from_slice(&count.to_le_bytes());
        page[4..6].copy_from_slice(&(count + rng.below(3) as u16).to_le_bytes());
        page[6..8].copy_from_slice(&(rng.below(20) as u16).to_le_bytes());
        page[8..10].copy_from_slice(&((payload - rng.below(payload / 2)) as u16).to_le_bytes());
        page[10..12].copy_from_slice(&(rng.below(60) as u16).to_le_bytes());
        if rng.below(2) == 0 {
            // Slots that point to random offsets in the page.
            for byte in page[16..].iter_mut().skip(1).step_by(2) {
                *byte &= 1;
            }
        }
        let key: Vec<u8> = (0..rng.below(30)).map(|_| rng.next_u64() as u8).collect();
        let other: Vec<u8> = (0..rng.below(30)).map(|_| rng.next_u64() as u8).collect();
        let mut buffer = Vec::new();
        let copy = Scratch::copy_of(&page);
        if let Ok(leaf) = Leaf::open(&copy) {
            opened += 1;
            let _ = (leaf.validate(), leaf.search(&key), leaf.free());
            let _ = leaf.search_by(&mut buffer, |stored| stored.cmp(&key[..]));
            for i in 0..=leaf.count() {
                let _ = (leaf.value(i), leaf.key_into(i, &mut buffer));
            }
            let value = Value::inline(&other);
            for i in 0..=leaf.count() {
                if let Ok(split) = leaf.split(i, false, &key, value) {
                    let _ = (split.sizes(), split.left(&mut page), split.right(&mut page));
                    let _ = split.separator(&mut buffer);
                }
            }
            if let Ok(split) = leaf.join(&leaf).and_then(|join| {
                let _ = (join.size(), join.merge(&mut page));
                join.share()
            }) {
                let _ = (split.left(&mut page), split.right(&mut page));
            }
            for step in 0..12 {
                page.copy_from_slice(&copy);
                let Ok(mut leaf) = LeafMut::open(&mut page) else { break };
                let i = rng.below(usize::from(count) + 2);
                let _ = match step % 4 {
                    0 => leaf.insert(i, &key, value),
                    1 => leaf.remove(i).map(|()| true),
                    2 => leaf.replace(i, value),
                    _ => leaf.compact().map(|()| true),
                };
                let _ =
                    LeafMut::open(&mut page).and_then(|mut leaf| leaf.insert(0, &other, Value::inline(&key)));
            }
        }
        if let Ok(branch) = Branch::open(&copy) {
            opened += 1;
            let _ = (branch.validate(), branch.find(&key), branch.free());
            let _ = branch.find_by(&mut buffer, |stored| stored.cmp(&key[..]));
            for i in 0..=branch.count() + 1 {
                let _ = (branch.child(i), branch.separator_into(i, &mut buffer));
                if let Ok(split) = branch.split(i, &key, 3) {
                    let _ = (split.sizes(), split.left(&mut page), split.right(&mut page));
                    let _ = split.separator(&mut buffer);
                }
            }
            if let Ok(split) = branch.join(&key, &branch).and_then(|join| {
                let _ = (join.size(), join.merge(&mut page));
                join.share()
            }) {
                let _ = (split.left(&mut page), split.right(&mut page));
            }
            for step in 0..15 {
                page.copy_from_slice(&copy);
                let Ok(mut branch) = BranchMut::open(&mut page) else { break };
                let i = rng.below(usize::from(count) + 2);
                let _ = match step % 5 {
                    0 => branch.insert(i, &key, 3),
                    1 => branch.remove_child(i).map(|()| true),
                    2 => branch.set_separator(i, &key),
                    3 => branch.set_child(i, 9).map(|()| true),
                    _ => branch.compact().map(|()| true),
                };
                let _ = BranchMut::open(&mut page).and_then(|mut branch| branch.insert(0, &other, 4));
            }
        }
    }
    assert!(opened > rounds(10_000), "{opened} were accepted as nodes");
}
