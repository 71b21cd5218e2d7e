//! A random workload, and the states that are allowed after a crash.

use std::collections::HashMap;
use std::ops::Bound;

use treedb_testing::Rng;

use super::super::*;
use super::abandon;
use super::model::{Op, State, apply, digest, dump};
use crate::disk::crash::Crash;

#[derive(Debug)]
pub(super) struct Commit {
    pub(super) ops: Vec<Op>,
    pub(super) how: Durability,
    pub(super) begun: u64,
    /// The number of boundaries when the commit returned; `u64::MAX` if it failed.
    pub(super) acked: u64,
}

/// A checkpoint, or an empty durable commit: the commits before it are durable.
#[derive(Debug)]
pub(super) struct Checkpointed {
    /// The number of commits before it.
    pub(super) commits: usize,
    pub(super) acked: u64,
}

/// How often a workload does what, in percent of its steps or changes.
#[derive(Clone, Copy)]
pub(super) struct Profile {
    pub(super) name: &'static str,
    pub(super) steps: usize,
    pub(super) ops: usize,
    /// Durable and relaxed commits; the others are not logged.
    pub(super) durable: u32,
    pub(super) relaxed: u32,
    pub(super) checkpoint: u32,
    pub(super) reopen: u32,
    /// Empty durable commits.
    pub(super) barrier: u32,
    pub(super) ddl: u32,
    /// Renames, in percent of the changes to tables that are not removals.
    pub(super) rename: u32,
    pub(super) delete: u32,
    pub(super) large: u32,
    pub(super) batch: u32,
    /// Two concurrent optimistic transactions instead of an ordinary one.
    pub(super) optimistic: u32,
    /// Steps through the LevelDB interface.
    pub(super) leveldb: u32,
    /// Whether every table is a dup table.
    pub(super) dup: bool,
    /// Tables cleared, ranges deleted.
    pub(super) range: u32,
    /// Savepoints; half of them are rolled back.
    pub(super) savepoint: u32,
    /// Compactions.
    pub(super) compact: u32,
    /// The maximum length of ordinary values.
    pub(super) value: usize,
    /// How many bytes of unlogged changes are kept in memory.
    pub(super) pending: usize,
    /// One in this many outcomes is tested, a different one at each boundary.
    pub(super) every: usize,
}

pub(super) const MIXED: Profile = Profile {
    name: "puts, deletes, checkpoints",
    steps: 60,
    ops: 6,
    durable: 50,
    relaxed: 50,
    checkpoint: 8,
    reopen: 2,
    barrier: 0,
    ddl: 0,
    rename: 0,
    delete: 30,
    large: 0,
    batch: 30,
    optimistic: 0,
    leveldb: 0,
    dup: false,
    range: 0,
    savepoint: 0,
    compact: 0,
    value: 300,
    pending: 1 << 20,
    every: 1,
};

/// A run of a workload: its state and what was acknowledged.
pub(super) struct Run {
    pub(super) profile: Profile,
    pub(super) disk: SimDisk,
    pub(super) rng: Rng,
    pub(super) commits: Vec<Commit>,
    pub(super) checkpoints: Vec<Checkpointed>,
    pub(super) state: State,
    pub(super) tables: Vec<Table>,
    pub(super) made: usize,
}

/// The numbers of outcomes tested by depth: power cuts during recovery, during the recovery after those, and
/// so on.
pub(super) type Deep = [u64; 3];

/// At each depth, one in this many outcomes is tested at the next depth.
const SAMPLE: [u64; 2] = [40, 40];
/// Sampling stops after this many outcomes at the next depth.
const ENOUGH: u64 = 400;

impl Run {
    pub(super) fn new(profile: Profile, seed: u64) -> Run {
        let disk = SimDisk::new();
        Run {
            profile,
            disk,
            rng: Rng::new(seed),
            commits: Vec::new(),
            checkpoints: vec![Checkpointed { commits: 0, acked: 0 }],
            state: State::new(),
            tables: Vec::new(),
            made: 0,
        }
    }

    pub(super) fn open(&self, disk: &SimDisk) -> crate::Result<Store> {
        Store::open_with(dir(), Options { pending_bytes: self.profile.pending, ..options(disk) })
    }

    pub(super) fn value(&mut self) -> Vec<u8> {
        let len = if self.rng.chance(self.profile.large) {
            1100 + self.rng.below(9000)
        } else {
            self.rng.below(self.profile.value)
        };
        let byte = self.rng.below(256);
        (0..len).map(|i| (byte + i * 7) as u8).collect()
    }

    /// One change in `txn`, or several in a batch.
    pub(super) fn change(&mut self, txn: &mut WriteTxn) -> crate::Result<Vec<Op>> {
        if self.tables.is_empty() || self.rng.chance(self.profile.ddl) {
            if self.tables.len() > 2 && self.rng.chance(50) {
                let table = self.tables.swap_remove(self.rng.below(self.tables.len())).name().to_owned();
                txn.drop_table(&table)?;
                return Ok(vec![Op::Drop { table }]);
            }
            if !self.tables.is_empty() && self.rng.chance(self.profile.rename) {
                return self.rename(txn);
            }
            self.made += 1;
            let kind = match self.made % 2 {
                _ if self.profile.dup => TableKind::Dup,
                1 => TableKind::Ordered,
                _ => TableKind::Rows,
            };
            let table = format!("table {}", self.made);
            self.tables.push(txn.create_table(&table, kind)?);
            return Ok(vec![Op::Create { table }]);
        }
        if self.profile.dup {
            return self.change_pairs(txn);
        }
        if self.rng.chance(self.profile.batch) {
            let (mut batch, mut ops) = (Batch::new(), Vec::new());
            for _ in 0..2 + self.rng.below(6) {
                let table = self.tables[self.rng.below(self.tables.len())].clone();
                let value = self.value();
                let name = table.name().to_owned();
                if table.kind() == TableKind::Ordered {
                    let key = self.key();
                    batch.put(&table, &key, &value)?;
                    ops.push(Op::Set { table: name, key, value });
                } else {
                    let row = 1 + self.rng.below(60) as u64;
                    batch.put_row(&table, row, &value)?;
                    ops.push(Op::Set { table: name, key: row.to_be_bytes().to_vec(), value });
                }
            }
            txn.write(&batch)?;
            return Ok(ops);
        }
        let table = self.tables[self.rng.below(self.tables.len())].clone();
        let name = table.name().to_owned();
        if self.profile.range > 0 && self.rng.chance(self.profile.range) {
            return self.remove_many(txn, &table);
        }
        let delete = self.rng.chance(self.profile.delete);
        Ok(vec![match (table.kind(), delete) {
            (TableKind::Ordered, false) => {
                let (key, value) = (self.key(), self.value());
                txn.put(&table, &key, &value)?;
                Op::Set { table: name, key, value }
            }
            (TableKind::Ordered, true) => {
                let key = self.key();
                txn.delete(&table, &key)?;
                Op::Remove { table: name, key }
            }
            (TableKind::Rows, false) => {
                let value = self.value();
                let row = txn.append_row(&table, &value)?;
                Op::Set { table: name, key: row.to_be_bytes().to_vec(), value }
            }
            (TableKind::Dup, _) => unreachable!("see change_pairs"),
            (TableKind::Rows, true) => {
                let row = 1 + self.rng.below(60) as u64;
                txn.delete_row(&table, row)?;
                Op::Remove { table: name, key: row.to_be_bytes().to_vec() }
            }
        }])
    }

    /// Renames a table.
    fn rename(&mut self, txn: &mut WriteTxn) -> crate::Result<Vec<Op>> {
        self.made += 1;
        let at = self.rng.below(self.tables.len());
        let (old, new) = (self.tables[at].name().to_owned(), format!("renamed {}", self.made));
        assert!(txn.rename_table(&old, &new)?);
        self.tables[at] = txn.table(&new)?.expect("it has just been given this name");
        Ok(vec![Op::Rename { old, new }])
    }

    /// Removes a range, or everything in a table.
    pub(super) fn remove_many(&mut self, txn: &mut WriteTxn, table: &Table) -> crate::Result<Vec<Op>> {
        let name = table.name().to_owned();
        if table.kind() == TableKind::Rows && self.rng.chance(70) {
            let (from, to) = (self.rng.below(80) as u64, self.rng.below(120) as u64);
            txn.delete_rows(table, from..to)?;
            let [from, to] = [from, to].map(|row| row.to_be_bytes().to_vec());
            return Ok(vec![Op::RemoveRange { table: name, from, to }]);
        }
        if table.kind() == TableKind::Rows || self.rng.chance(20) {
            txn.clear(table)?;
            return Ok(vec![Op::Clear { table: name }]);
        }
        let (from, to) = (self.key(), self.key());
        let (from, to) = if from <= to { (from, to) } else { (to, from) };
        txn.delete_range(table, (Bound::Included(&from), Bound::Excluded(&to)))?;
        Ok(vec![Op::RemoveRange { table: name, from, to }])
    }

    pub(super) fn key(&mut self) -> Vec<u8> {
        let n = self.rng.below(120);
        if n.is_multiple_of(3) { vec![n as u8; 1 + n % 90] } else { format!("key/{n}").into_bytes() }
    }

    /// Makes a number of changes, with savepoints between them; adds those that are not rolled back to `ops`.
    pub(super) fn changes(
        &mut self,
        txn: &mut WriteTxn,
        count: usize,
        ops: &mut Vec<Op>,
    ) -> crate::Result<()> {
        for _ in 0..count {
            if self.profile.savepoint == 0 || count == 1 || !self.rng.chance(self.profile.savepoint) {
                ops.extend(self.change(txn)?);
                continue;
            }
            let (point, tables, before) = (txn.savepoint()?, self.tables.clone(), ops.len());
            let inner = 1 + self.rng.below(count - 1);
            self.changes(txn, inner, ops)?;
            if self.rng.chance(50) {
                txn.rollback_to(&point)?;
                self.tables = tables;
                ops.truncate(before);
            } else if self.rng.chance(50) {
                txn.release(point)?;
            }
        }
        Ok(())
    }

    pub(super) fn commit(&mut self, store: &Store) -> crate::Result<()> {
        let tables = self.tables.clone();
        let begun = self.disk.boundaries();
        let mut txn = store.begin_write()?;
        let mut ops = Vec::new();
        let count = 1 + self.rng.below(self.profile.ops);
        self.changes(&mut txn, count, &mut ops).inspect_err(|_| self.tables.clone_from(&tables))?;
        let how = self.durability();
        let visible = store.stats().txn;
        let result = txn.commit_with(how);
        self.ended(store, Commit { ops, how, begun, acked: u64::MAX }, visible, &result, tables);
        result
    }

    pub(super) fn durability(&mut self) -> Durability {
        let roll = self.rng.below(100) as u32;
        if roll < self.profile.durable {
            Durability::Durable
        } else if roll < self.profile.durable + self.profile.relaxed {
            Durability::Relaxed
        } else {
            Durability::None
        }
    }

    /// Records the result of a commit; `visible` is the transaction before it, `tables` are the tables before
    /// it.
    pub(super) fn ended(
        &mut self,
        store: &Store,
        commit: Commit,
        visible: u64,
        result: &crate::Result<()>,
        tables: Vec<Table>,
    ) {
        // A commit whose flush failed is visible; after a crash it may or may not be there.
        if result.is_ok() || store.stats().txn != visible {
            apply(&mut self.state, &commit.ops);
            let acked = if result.is_ok() { self.disk.boundaries() } else { u64::MAX };
            self.commits.push(Commit { acked, ..commit });
        } else {
            self.tables = tables;
            // It failed before it was visible, but its frame may have reached the disk.
            self.commits.push(commit);
        }
    }

    pub(super) fn checkpoint(&mut self, store: &Store) -> crate::Result<()> {
        self.checkpoints.push(Checkpointed { commits: self.commits.len(), acked: u64::MAX });
        store.checkpoint()?;
        self.acked_checkpoint();
        Ok(())
    }

    pub(super) fn compact(&mut self, store: &Store) -> crate::Result<()> {
        self.checkpoints.push(Checkpointed { commits: self.commits.len(), acked: u64::MAX });
        store.inner.log.prepare()?;
        store.compact(|_| {})?;
        self.acked_checkpoint();
        Ok(())
    }

    fn acked_checkpoint(&mut self) {
        if let Some(last) = self.checkpoints.last_mut() {
            last.acked = self.disk.boundaries();
        }
    }

    /// Runs the workload. `Err` if the disk failed.
    pub(super) fn go(&mut self) -> crate::Result<Store> {
        let mut store = self.open(&self.disk)?;
        for _ in 0..self.profile.steps {
            if self.rng.chance(self.profile.checkpoint) {
                self.checkpoint(&store)?;
            } else if self.profile.compact > 0 && self.rng.chance(self.profile.compact) {
                self.compact(&store)?;
            } else if self.profile.leveldb > 0 && self.rng.chance(self.profile.leveldb) {
                self.step_leveldb(&store)?;
            } else if self.profile.barrier > 0 && self.rng.chance(self.profile.barrier) {
                self.checkpoints.push(Checkpointed { commits: self.commits.len(), acked: u64::MAX });
                store.begin_write()?.commit_with(Durability::Durable)?;
                self.acked_checkpoint();
            } else if self.rng.chance(self.profile.reopen) {
                self.checkpoints.push(Checkpointed { commits: self.commits.len(), acked: u64::MAX });
                store.close()?;
                self.acked_checkpoint();
                store = self.open(&self.disk)?;
            } else if !self.tables.is_empty() && self.rng.chance(self.profile.optimistic) {
                self.commit_optimistic(&store)?;
            } else {
                self.commit(&store)?;
            }
        }
        Ok(store)
    }

    /// Digests of the states that are allowed after a crash at boundary `point`: those after some commit, at
    /// least the last acknowledged one. `kept` are the durabilities that survive this kind of crash.
    pub(super) fn allowed(&self, point: u64, kept: &[Durability]) -> HashMap<u64, usize> {
        let begun = self.commits.iter().take_while(|c| c.begun <= point).count();
        let acked = self.commits.iter().rposition(|c| kept.contains(&c.how) && c.acked <= point);
        let in_checkpoint = self.checkpoints.iter().filter(|c| c.acked <= point).map(|c| c.commits).max();
        let least = acked.map_or(0, |i| i + 1).max(in_checkpoint.unwrap_or(0));
        let mut state = State::new();
        let mut allowed = HashMap::new();
        for upto in 0..=begun {
            if let Some(commit) = upto.checked_sub(1).and_then(|i| self.commits.get(i)) {
                apply(&mut state, &commit.ops);
            }
            if upto >= least {
                allowed.insert(digest(&state), upto);
            }
        }
        allowed
    }

    /// Opens the store after a crash and compares its contents. Also returns the digest of the contents.
    pub(super) fn verify(
        &self,
        disk: &SimDisk,
        allowed: &HashMap<u64, usize>,
        what: &dyn Fn() -> String,
    ) -> (Store, u64) {
        let name = self.profile.name;
        let store = self.open(disk).unwrap_or_else(|e| panic!("{name}: {}: {e}", what()));
        store.check().unwrap_or_else(|e| panic!("{name}: {}: check: {e}", what()));
        let state = dump(&store).unwrap_or_else(|e| panic!("{name}: {}: read: {e}", what()));
        let found = digest(&state);
        assert!(
            allowed.contains_key(&found),
            "{name}: {}: found {} tables, none of the states after commits {:?}",
            what(),
            state.len(),
            allowed.values().collect::<Vec<_>>(),
        );
        (store, found)
    }

    /// Cuts the power again at every boundary of the recovery from `first`, and for some of those images
    /// again during the next recovery, as long as `deeper` is above 0. Adds the numbers of outcomes to
    /// `images`, by depth.
    pub(super) fn cut_recovery(
        &self,
        first: &SimDisk,
        allowed: &HashMap<u64, usize>,
        images: &mut Deep,
        deeper: usize,
        what: &dyn Fn() -> String,
    ) {
        // Recovery changes the disk; the images below must be of the disk before it.
        let first = first.crash(Crash::Everything);
        first.record();
        drop(self.verify(&first, allowed, what));
        let mut replay = first.replay();
        let depth = images.len() - 1 - deeper;
        while let Some(point) = replay.next_point() {
            let some = [Crash::Nothing, Crash::EvenSectors, Crash::NamesLost, Crash::Random(point)];
            for (i, crash) in some.into_iter().enumerate() {
                let what = || format!("{}, then again after {point} calls of recovery, {crash:?}", what());
                let disk = replay.crash(crash);
                let (store, found) = self.verify(&disk, allowed, &what);
                images[depth] += 1;
                let more = deeper > 0 && images[depth + 1] < ENOUGH;
                if more && images[depth].is_multiple_of(SAMPLE[depth]) {
                    abandon(store, &disk);
                    self.cut_recovery(&replay.crash(crash), allowed, images, deeper - 1, &what);
                    continue;
                }
                if !(point as usize + i).is_multiple_of(4) {
                    abandon(store, &disk);
                    continue;
                }
                // What this recovery found is durable: it survives a further commit and power cut.
                let mut txn = store.begin_write().unwrap();
                txn.open_table("after", TableKind::Ordered).unwrap();
                txn.commit().unwrap();
                let disk = disk.crash(Crash::Random(point));
                drop(store);
                let mut state = dump(&open(&disk).unwrap()).unwrap();
                assert!(state.remove("after").is_some(), "{}: the commit after it is lost", what());
                assert_eq!(digest(&state), found, "{}: the commit after it changed what was there", what());
            }
        }
    }
}
