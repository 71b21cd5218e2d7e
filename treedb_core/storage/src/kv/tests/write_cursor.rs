//! The write cursor against a map and a position in the map.

use std::collections::BTreeMap;
use std::ops::Bound;

use treedb_testing::{Rng, seeds};

use super::*;
use crate::Error;

/// The expected position of a cursor.
#[derive(Clone, Debug, PartialEq)]
enum Position {
    Fresh,
    Before,
    On(Vec<u8>),
    Gap(Vec<u8>),
    After,
}

#[derive(Default)]
struct Model {
    map: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Model {
    fn at_or_after(&self, key: &[u8], with: bool) -> Option<Vec<u8>> {
        let from = if with { Bound::Included(key) } else { Bound::Excluded(key) };
        self.map.range::<[u8], _>((from, Bound::Unbounded)).next().map(|(key, _)| key.clone())
    }

    fn at_or_before(&self, key: &[u8], with: bool) -> Option<Vec<u8>> {
        let to = if with { Bound::Included(key) } else { Bound::Excluded(key) };
        self.map.range::<[u8], _>((Bound::Unbounded, to)).next_back().map(|(key, _)| key.clone())
    }

    fn next(&self, position: &Position) -> Position {
        let key = match position {
            Position::Fresh | Position::Before => self.map.keys().next().cloned(),
            Position::On(key) | Position::Gap(key) => self.at_or_after(key, false),
            Position::After => None,
        };
        key.map_or(Position::After, Position::On)
    }

    fn prev(&self, position: &Position) -> Position {
        let key = match position {
            Position::Fresh | Position::After => self.map.keys().next_back().cloned(),
            Position::On(key) | Position::Gap(key) => self.at_or_before(key, false),
            Position::Before => None,
        };
        key.map_or(Position::Before, Position::On)
    }
}

fn key(rng: &mut Rng) -> Vec<u8> {
    let n = rng.below(400);
    if n.is_multiple_of(7) { vec![n as u8; n % 300] } else { format!("key {n:05}").into_bytes() }
}

/// Applies one move or change to the cursor and to the model.
fn step(cursor: &mut WriteCursor<'_>, model: &mut Model, position: &Position, rng: &mut Rng) -> Position {
    let key = key(rng);
    let value = vec![rng.below(256) as u8; if rng.chance(5) { 3000 } else { rng.below(90) }];
    let (moved, to) = match rng.below(14) {
        0 => (cursor.seek(&key), model.at_or_after(&key, true).map_or(Position::After, Position::On)),
        1 => (cursor.seek_back(&key), model.at_or_before(&key, true).map_or(Position::Before, Position::On)),
        2 => {
            let there = model.map.contains_key(&key);
            (cursor.seek_exact(&key), if there { Position::On(key) } else { Position::Fresh })
        }
        3 => (cursor.first(), model.next(&Position::Before)),
        4 => (cursor.last(), model.prev(&Position::After)),
        5 | 6 => (cursor.next(), model.next(position)),
        7 | 8 => (cursor.prev(), model.prev(position)),
        9 | 10 => {
            cursor.put(&key, &value).unwrap();
            model.map.insert(key.clone(), value);
            return Position::On(key);
        }
        11 => {
            let on = matches!(position, Position::On(_));
            assert_eq!(cursor.update(&value).unwrap(), on);
            if let Position::On(key) = position {
                model.map.insert(key.clone(), value);
            }
            return position.clone();
        }
        _ => {
            let Position::On(key) = position else {
                assert!(!cursor.delete().unwrap());
                return position.clone();
            };
            assert!(cursor.delete().unwrap());
            model.map.remove(key);
            return Position::Gap(key.clone());
        }
    };
    assert_eq!(moved.unwrap(), matches!(to, Position::On(_)), "{position:?} -> {to:?}");
    to
}

#[test]
fn a_write_cursor_keeps_its_position() {
    for seed in seeds(0..4) {
        let mut rng = Rng::new(seed);
        let store = open(&SimDisk::new()).unwrap();
        let mut model = Model::default();
        for _ in 0..12 {
            let mut txn = store.begin_write().unwrap();
            let table = txn.open_table("t", TableKind::Ordered).unwrap();
            let mut cursor = txn.write_cursor(&table).unwrap();
            let mut position = Position::Fresh;
            for _ in 0..400 {
                position = step(&mut cursor, &mut model, &position, &mut rng);
                if rng.chance(50) {
                    let want = match &position {
                        Position::On(key) => Some((key.as_slice(), model.map[key].as_slice())),
                        _ => None,
                    };
                    assert_eq!(cursor.key().unwrap(), want.map(|(key, _)| key));
                    assert_eq!(cursor.entry().unwrap(), want);
                    assert_eq!(cursor.value().unwrap(), want.map(|(_, value)| value));
                }
            }
            txn.commit().unwrap();
            let read = store.snapshot().unwrap();
            let all: Vec<_> = read.prefix(&table, b"").unwrap().map(Result::unwrap).collect();
            assert!(all.iter().map(|(k, v)| (k, *v)).eq(model.map.iter().map(|(k, v)| (k, v.as_slice()))));
            store.check().unwrap();
        }
    }
}

#[test]
fn every_second_key_is_deleted_while_iterating() {
    let store = open(&SimDisk::new()).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", TableKind::Ordered).unwrap();
    let mut cursor = txn.write_cursor(&table).unwrap();
    for n in 0..3000u32 {
        cursor.put(&n.to_be_bytes(), b"value").unwrap();
    }
    let (mut more, mut seen) = (cursor.first().unwrap(), 0u32);
    while more {
        assert_eq!(cursor.key().unwrap(), Some(&seen.to_be_bytes()[..]));
        if seen.is_multiple_of(2) {
            assert!(cursor.delete().unwrap() && !cursor.delete().unwrap());
        } else {
            assert!(cursor.update(b"other").unwrap());
        }
        seen += 1;
        more = cursor.next().unwrap();
    }
    assert_eq!(seen, 3000);
    txn.commit().unwrap();
    store.check().unwrap();
    let read = store.snapshot().unwrap();
    assert_eq!(read.len(&table).unwrap(), 1500);
    assert_eq!(read.get(&table, &7u32.to_be_bytes()).unwrap(), Some(&b"other"[..]));
}

#[test]
fn a_refused_put_leaves_the_cursor_where_it_was() {
    let store = open(&SimDisk::new()).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", TableKind::Ordered).unwrap();
    let mut cursor = txn.write_cursor(&table).unwrap();
    cursor.put(b"k", b"v").unwrap();
    assert!(matches!(cursor.put(&[1; 4000], b"v"), Err(Error::KeyTooLong { .. })));
    assert_eq!(cursor.entry().unwrap(), Some((&b"k"[..], &b"v"[..])));
    let rows = txn.create_table("rows", TableKind::Rows).unwrap();
    assert!(matches!(txn.write_cursor(&rows), Err(Error::TableMismatch { .. })));
    txn.drop_table("t").unwrap();
    assert!(matches!(txn.write_cursor(&table), Err(Error::NoSuchTable { .. })));
}
