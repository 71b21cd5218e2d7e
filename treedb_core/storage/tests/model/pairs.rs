//! Operations on a dup table, and its reading beside a set of pairs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use treedb_storage::Result;
use treedb_storage::{Reads, Table, WriteTxn};

use super::{expect, key};

/// The values of each key; a key without values is not in it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Pairs(BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>);

/// Few keys, so that some get many values.
pub(super) fn dup_key(n: u8) -> Vec<u8> {
    key(n % 20)
}

/// Values in an order of their own, up to the longest there may be.
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

    /// Puts values number `from` and so on under a key.
    pub(super) fn put(&mut self, txn: &mut WriteTxn, table: &Table, put: [u8; 4]) -> Result<()> {
        let [n, from, count, len] = put;
        let key = dup_key(n);
        for i in 0..=count {
            let value = value(from.wrapping_add(i), len);
            let new = txn.put_pair(table, &key, &value)?;
            let right = self.0.entry(key.clone()).or_default().insert(value);
            expect(new == right, || format!("put of a value of {key:?} was new: {new}"))?;
        }
        Ok(())
    }

    /// Deletes so many values of a key from a place on, and tries one more that is not there.
    pub(super) fn delete(&mut self, txn: &mut WriteTxn, table: &Table, delete: [u8; 3]) -> Result<()> {
        let [n, from, count] = delete;
        let key = dup_key(n);
        let values = self.0.entry(key.clone()).or_default();
        let from = usize::from(from).checked_rem(values.len()).unwrap_or(0);
        let gone: Vec<_> = values.iter().skip(from).take(usize::from(count) + 1).cloned().collect();
        for value in &gone {
            values.remove(value);
            expect(txn.delete_pair(table, &key, value)?, || format!("a value of {key:?} was not there"))?;
        }
        let absent = gone.first().cloned().unwrap_or_default();
        expect(!txn.delete_pair(table, &key, &absent)?, || format!("a value of {key:?} was there twice"))?;
        self.0.retain(|_, values| !values.is_empty());
        Ok(())
    }

    pub(super) fn delete_values(&mut self, txn: &mut WriteTxn, table: &Table, n: u8) -> Result<()> {
        let key = dup_key(n);
        let right = self.0.remove(&key).map_or(0, |values| values.len() as u64);
        let gone = txn.delete_values(table, &key)?;
        expect(gone == right, || format!("{gone} values of {key:?} deleted, not {right}"))
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
        let (gone, right) = (txn.delete_range(table, bounds)?, (before - self.len()) as u64);
        expect(gone == right, || format!("{gone} pairs deleted in a range, not {right}"))
    }

    /// Reads everything, and in more than one way.
    pub(super) fn agree(&self, read: &dyn Reads, table: &Table) -> Result<()> {
        let all = (Bound::Unbounded, Bound::Unbounded);
        let (mut up, mut down) = (read.pairs(table, all)?, read.pairs(table, all)?);
        let pairs = || self.0.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
        let mut backwards: Vec<_> = pairs().collect();
        backwards.reverse();
        for (low, high) in pairs().zip(backwards) {
            for (seen, (key, value)) in [(up.next(), low), (down.next_back(), high)] {
                let right = seen.transpose()?.is_some_and(|(k, v)| k == *key && v == *value);
                expect(right, || format!("something else for a value of {key:?}"))?;
            }
        }
        let ended = up.next().is_none() && down.next_back().is_none();
        expect(ended, || "more pairs than there should be".into())?;
        let mut cursor = read.dup_cursor(table)?;
        let mut there = cursor.first()?;
        for (key, values) in &self.0 {
            let on = there && cursor.key()? == Some(key) && cursor.count() == values.len() as u64;
            expect(on && cursor.last_dup()?, || format!("the cursor is not on {key:?}"))?;
            let last = values.last().map(Vec::as_slice);
            expect(cursor.value()? == last, || format!("the cursor is not on the last value of {key:?}"))?;
            there = cursor.next_key()?;
        }
        expect(!there, || "the cursor finds one more key".into())?;
        for n in 0..20 {
            let (key, none) = (dup_key(n), BTreeSet::new());
            let values = self.0.get(&key).unwrap_or(&none);
            let counted = read.count_values(table, &key)?;
            expect(counted == values.len() as u64, || format!("{key:?} has {counted} values"))?;
            let mut found = read.values(table, &key)?;
            for value in values {
                let right = found.next().transpose()?.as_ref() == Some(value);
                let there = right && read.contains_pair(table, &key, value)?;
                expect(there, || format!("a value of {key:?} asked for by itself"))?;
            }
        }
        Ok(())
    }
}
