//! Power cuts with concurrent optimistic transactions.

use super::super::*;
use super::model::Op;
use super::run::{Commit, Run};

impl Run {
    /// Two transactions on one snapshot. The second one commits only if it does not write what the first one wrote.
    pub(super) fn commit_optimistic(&mut self, store: &Store) -> crate::Result<()> {
        let mut both = Vec::new();
        for _ in 0..2 {
            let mut txn = store.begin_optimistic_with(Isolation::Snapshot)?;
            let mut ops = Vec::new();
            for _ in 0..1 + self.rng.below(self.profile.ops) {
                ops.push(self.change_optimistic(&mut txn)?);
            }
            both.push((txn, ops));
        }
        for (txn, ops) in both {
            let (begun, how) = (self.disk.boundaries(), self.durability());
            let visible = store.stats().txn;
            match txn.commit_with(how) {
                Err(conflict) if conflict.is_conflict() => {}
                result => {
                    let tables = self.tables.clone();
                    self.ended(store, Commit { ops, how, begun, acked: u64::MAX }, visible, &result, tables);
                    result?;
                }
            }
        }
        Ok(())
    }

    fn change_optimistic(&mut self, txn: &mut OptimisticTxn) -> crate::Result<Op> {
        let table = self.tables[self.rng.below(self.tables.len())].clone();
        let (name, value) = (table.name().to_owned(), self.value());
        let delete = self.rng.chance(self.profile.delete);
        if table.kind() == TableKind::Rows {
            let row = if self.rng.chance(50) {
                txn.append_row(&table, &value)?
            } else {
                1 + self.rng.below(60) as u64
            };
            let key = row.to_be_bytes().to_vec();
            if delete {
                txn.delete_row(&table, row)?;
                return Ok(Op::Remove { table: name, key });
            }
            txn.put_row(&table, row, &value)?;
            return Ok(Op::Set { table: name, key, value });
        }
        let key = self.key();
        if delete {
            txn.delete(&table, &key)?;
            return Ok(Op::Remove { table: name, key });
        }
        txn.put(&table, &key, &value)?;
        Ok(Op::Set { table: name, key, value })
    }
}
