//! Changes to dup tables.

use std::ops::Bound;

use super::super::*;
use super::model::{Op, pair};
use super::run::Run;

impl Run {
    /// One change to a dup table, or several in a batch. There are few keys, so that some have many values.
    pub(super) fn change_pairs(&mut self, txn: &mut WriteTxn) -> crate::Result<Vec<Op>> {
        let table = self.tables[self.rng.below(self.tables.len())].clone();
        let name = table.name().to_owned();
        if self.rng.chance(self.profile.range) {
            let key = format!("key {}", self.rng.below(6)).into_bytes();
            match self.rng.below(3) {
                0 => {
                    txn.clear(&table)?;
                    return Ok(vec![Op::Clear { table: name }]);
                }
                1 => {
                    txn.delete_values(&table, &key)?;
                    let to = [key.as_slice(), b"\0"].concat();
                    return Ok(vec![Op::RemovePairs { table: name, from: key, to }]);
                }
                _ => {
                    let to = format!("key {}", self.rng.below(8)).into_bytes();
                    txn.delete_range(&table, (Bound::Included(&key), Bound::Excluded(&to)))?;
                    return Ok(vec![Op::RemovePairs { table: name, from: key, to }]);
                }
            }
        }
        let (mut batch, mut ops) = (Batch::new(), Vec::new());
        let count = if self.rng.chance(self.profile.batch) { 2 + self.rng.below(20) } else { 1 };
        for _ in 0..count {
            let key = format!("key {}", self.rng.below(6)).into_bytes();
            let mut value = self.rng.below(300).to_string().into_bytes();
            value.resize(value.len() + 2 * (value[0] as usize - 40), b'.');
            if self.rng.chance(self.profile.delete) {
                batch.delete_pair(&table, &key, &value)?;
                ops.push(Op::Remove { table: name.clone(), key: pair(&key, &value) });
            } else {
                batch.put_pair(&table, &key, &value)?;
                ops.push(Op::Set { table: name.clone(), key: pair(&key, &value), value: Vec::new() });
            }
        }
        txn.write(&batch)?;
        Ok(ops)
    }
}
