//! Operations on a dup table and on its model, a map of sets.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use treedb_storage::Result;
use treedb_storage::{Reads, Table, WriteTxn};

use super::{expect, key};

/// The values of each key; keys without values are not in the map.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Pairs(BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>);

/// There are few keys, so that some have many values.
pub(super) fn dup_key(n: u8) -> Vec<u8> {
    key(n % 20)
}

/// Values in an order unrelated to their number, up to the maximum length.
fn value(n: u8, len: u8) -> Vec<u8> {
    let len = if len < 240 { usize::from(len) } else { 400 + usize::from(len - 240) * 30 };
    [&n.wrapping_mul(167).to_be_bytes()[..], &vec![n; len]].concat()
}

impl Pairs {
    pub(super) fn len(&self) -> usize {
        self.0.values().map(BTreeSet::len).sum()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Puts several values under a key, numbered from `from`.
    pub(super) fn put(&mut self, txn: &mut WriteTxn, table: &Table, put: [u8; 4]) -> Result<()> {
        let [n, from, count, len] = put;
        let key = dup_key(n);
        for i in 0..=count {
            let value = value(from.wrapping_add(i), len);
            let new = txn.put_pair(table, &key, &value)?;
            let expected = self.0.entry(key.clone()).or_default().insert(value);
            expect(new == expected, || format!("put of a value of {key:?} was new: {new}"))?;
        }
        Ok(())
    }

    /// Deletes several values of a key, and tries to delete one that does not exist.
    pub(super) fn delete(&mut self, txn: &mut WriteTxn, table: &Table, delete: [u8; 3]) -> Result<()> {
        let [n, from, count] = delete;
        let key = dup_key(n);
        let values = self.0.entry(key.clone()).or_default();
        let from = usize::from(from).checked_rem(values.len()).unwrap_or(0);
        let deleted: Vec<_> = values.iter().skip(from).take(usize::from(count) + 1).cloned().collect();
        for value in &deleted {
            values.remove(value);
            expect(txn.delete_pair(table, &key, value)?, || format!("a value of {key:?} was not there"))?;
        }
        let absent = deleted.first().cloned().unwrap_or_default();
        expect(!txn.delete_pair(table, &key, &absent)?, || format!("a value of {key:?} was there twice"))?;
        self.0.retain(|_, values| !values.is_empty());
        Ok(())
    }

    pub(super) fn delete_values(&mut self, txn: &mut WriteTxn, table: &Table, n: u8) -> Result<()> {
        let key = dup_key(n);
        let expected = self.0.remove(&key).map_or(0, |values| values.len() as u64);
        let deleted = txn.delete_values(table, &key)?;
        expect(deleted == expected, || format!("{deleted} values of {key:?} deleted, not {expected}"))
    }

    pub(super) fn delete_range(
        &mut self,
        txn: &mut WriteTxn,
        table: &Table,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        inside: impl Fn(&[u8]) -> bool,
    ) -> Result<()> {
        let before = self.len();
        self.0.retain(|key, _| !inside(key));
        let (deleted, expected) = (txn.delete_range(table, bounds)?, (before - self.len()) as u64);
        expect(deleted == expected, || format!("{deleted} pairs deleted in a range, not {expected}"))
    }

    /// Reads everything, in more than one way.
    pub(super) fn agree(&self, read: &dyn Reads, table: &Table) -> Result<()> {
        let all = (Bound::Unbounded, Bound::Unbounded);
        let (mut up, mut down) = (read.pairs(table, all)?, read.pairs(table, all)?);
        let pairs = || self.0.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
        let mut backwards: Vec<_> = pairs().collect();
        backwards.reverse();
        for (low, high) in pairs().zip(backwards) {
            for (seen, (key, value)) in [(up.next(), low), (down.next_back(), high)] {
                let matches = seen.transpose()?.is_some_and(|(k, v)| k == *key && v == *value);
                expect(matches, || format!("another value of {key:?} than expected"))?;
            }
        }
        let ended = up.next().is_none() && down.next_back().is_none();
        expect(ended, || "more pairs than expected".into())?;
        let mut cursor = read.dup_cursor(table)?;
        let mut there = cursor.first()?;
        for (key, values) in &self.0 {
            let on = there && cursor.key()? == Some(key) && cursor.count() == values.len() as u64;
            expect(on && cursor.last_dup()?, || format!("the cursor is not on {key:?}"))?;
            let last = values.last().map(Vec::as_slice);
            expect(cursor.value()? == last, || format!("the cursor is not on the last value of {key:?}"))?;
            there = cursor.next_key()?;
        }
        expect(!there, || "the cursor finds an additional key".into())?;
        for n in 0..20 {
            let (key, none) = (dup_key(n), BTreeSet::new());
            let values = self.0.get(&key).unwrap_or(&none);
            let counted = read.count_values(table, &key)?;
            expect(counted == values.len() as u64, || format!("{key:?} has {counted} values"))?;
            let mut found = read.values(table, &key)?;
            for value in values {
                let matches = found.next().transpose()?.as_ref() == Some(value);
                let there = matches && read.contains_pair(table, &key, value)?;
                expect(there, || format!("a lookup of a value of {key:?} fails"))?;
            }
        }
        Ok(())
    }
}
