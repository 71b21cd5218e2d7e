//! Power cuts at every boundary of random workloads, with every kind of outcome on the medium.
//!
//! A workload is run once, on a disk that records. Then at each boundary, for each outcome: the store opens, `check`
//! passes, and what is in it is the state after some commit, at least the last that had been acknowledged as durable
//! and at most the last that had begun.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::ops::Bound;

use super::*;
use crate::disk::crash::{Crash, Dice};
use crate::disk::sim::Fault;

/// Everything in a store.
type State = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// A change, as a model can make it.
#[derive(Clone, Debug)]
enum Op {
    Set { table: String, key: Vec<u8>, value: Vec<u8> },
    Remove { table: String, key: Vec<u8> },
    RemoveRange { table: String, from: Vec<u8>, to: Vec<u8> },
    Clear { table: String },
    Create { table: String },
    Drop { table: String },
}

fn apply(state: &mut State, ops: &[Op]) {
    for op in ops {
        match op.clone() {
            Op::Set { table, key, value } => {
                state.entry(table).or_default().insert(key, value);
            }
            Op::Remove { table, key } => {
                state.entry(table).or_default().remove(&key);
            }
            Op::RemoveRange { table, from, to } => {
                state.entry(table).or_default().retain(|key, _| *key < from || *key >= to);
            }
            Op::Clear { table } => {
                state.entry(table).or_default().clear();
            }
            Op::Create { table } => {
                state.insert(table, BTreeMap::new());
            }
            Op::Drop { table } => {
                state.remove(&table);
            }
        }
    }
}

fn digest(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

/// Reads everything in a store.
fn dump(store: &Store) -> crate::Result<State> {
    let read = store.snapshot()?;
    let mut state = State::new();
    for table in read.tables()? {
        let mut entries = BTreeMap::new();
        match table.kind() {
            TableKind::Ordered => {
                for entry in read.range(&table, (Bound::Unbounded, Bound::Unbounded))? {
                    let (key, value) = entry?;
                    entries.insert(key, value.to_vec());
                }
            }
            TableKind::Rows => {
                for row in read.rows(&table, 0)? {
                    let (row, value) = row?;
                    entries.insert(row.to_be_bytes().to_vec(), value.to_vec());
                }
            }
        }
        state.insert(table.name().to_owned(), entries);
    }
    Ok(state)
}

#[derive(Debug)]
struct Commit {
    ops: Vec<Op>,
    how: Durability,
    begun: u64,
    /// Boundaries passed when the commit returned; `u64::MAX` if it failed.
    acked: u64,
}

/// A checkpoint, or a durable commit of nothing: what was committed before it is durable.
#[derive(Debug)]
struct Checkpointed {
    /// Commits in it.
    commits: usize,
    acked: u64,
}

/// What a workload does how often, in percent of its steps or changes.
#[derive(Clone, Copy)]
struct Profile {
    name: &'static str,
    steps: usize,
    ops: usize,
    /// Durable, relaxed; the rest is not logged.
    durable: u32,
    relaxed: u32,
    checkpoint: u32,
    reopen: u32,
    /// Durable commits of nothing.
    barrier: u32,
    ddl: u32,
    delete: u32,
    large: u32,
    batch: u32,
    /// Tables cleared, ranges deleted.
    range: u32,
    /// Savepoints made, and half of them gone back to.
    savepoint: u32,
    /// Bytes of ordinary values, at most.
    value: usize,
    /// Bytes of unlogged changes that are kept.
    unlogged: usize,
}

const MIXED: Profile = Profile {
    name: "puts, deletes, checkpoints",
    steps: 60,
    ops: 6,
    durable: 50,
    relaxed: 50,
    checkpoint: 8,
    reopen: 2,
    barrier: 0,
    ddl: 0,
    delete: 30,
    large: 0,
    batch: 30,
    range: 0,
    savepoint: 0,
    value: 300,
    unlogged: 1 << 20,
};

/// A run of a workload, and what it knows about itself.
struct Run {
    profile: Profile,
    disk: SimDisk,
    dice: Dice,
    commits: Vec<Commit>,
    checkpoints: Vec<Checkpointed>,
    state: State,
    tables: Vec<Table>,
    made: usize,
}

impl Run {
    fn new(profile: Profile, seed: u64) -> Run {
        let disk = SimDisk::new();
        Run {
            profile,
            disk,
            dice: Dice::new(seed),
            commits: Vec::new(),
            checkpoints: vec![Checkpointed { commits: 0, acked: 0 }],
            state: State::new(),
            tables: Vec::new(),
            made: 0,
        }
    }

    fn open(&self, disk: &SimDisk) -> crate::Result<Store> {
        Store::open_with(dir(), Options { unlogged_bytes: self.profile.unlogged, ..options(disk) })
    }

    fn value(&mut self) -> Vec<u8> {
        let len = if self.dice.chance(self.profile.large) {
            1100 + self.dice.below(9000)
        } else {
            self.dice.below(self.profile.value)
        };
        let byte = self.dice.below(256);
        (0..len).map(|i| (byte + i * 7) as u8).collect()
    }

    /// One change in `txn`, or several in a batch.
    fn change(&mut self, txn: &mut WriteTxn) -> crate::Result<Vec<Op>> {
        if self.tables.is_empty() || self.dice.chance(self.profile.ddl) {
            if self.tables.len() > 2 && self.dice.chance(50) {
                let table = self.tables.swap_remove(self.dice.below(self.tables.len())).name().to_owned();
                txn.drop_table(&table)?;
                return Ok(vec![Op::Drop { table }]);
            }
            self.made += 1;
            let kind = if self.made % 2 == 1 { TableKind::Ordered } else { TableKind::Rows };
            let table = format!("table {}", self.made);
            self.tables.push(txn.create_table(&table, kind)?);
            return Ok(vec![Op::Create { table }]);
        }
        if self.dice.chance(self.profile.batch) {
            let (mut batch, mut ops) = (Batch::new(), Vec::new());
            for _ in 0..2 + self.dice.below(6) {
                let table = self.tables[self.dice.below(self.tables.len())].clone();
                let value = self.value();
                let name = table.name().to_owned();
                if table.kind() == TableKind::Ordered {
                    let key = self.key();
                    batch.put(&table, &key, &value)?;
                    ops.push(Op::Set { table: name, key, value });
                } else {
                    let row = 1 + self.dice.below(60) as u64;
                    batch.put_row(&table, row, &value)?;
                    ops.push(Op::Set { table: name, key: row.to_be_bytes().to_vec(), value });
                }
            }
            txn.write(&batch)?;
            return Ok(ops);
        }
        let table = self.tables[self.dice.below(self.tables.len())].clone();
        let name = table.name().to_owned();
        if self.profile.range > 0 && self.dice.chance(self.profile.range) {
            return self.remove_many(txn, &table);
        }
        let delete = self.dice.chance(self.profile.delete);
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
            (TableKind::Rows, true) => {
                let row = 1 + self.dice.below(60) as u64;
                txn.delete_row(&table, row)?;
                Op::Remove { table: name, key: row.to_be_bytes().to_vec() }
            }
        }])
    }

    /// Removes a range, or everything in a table.
    fn remove_many(&mut self, txn: &mut WriteTxn, table: &Table) -> crate::Result<Vec<Op>> {
        let name = table.name().to_owned();
        if table.kind() == TableKind::Rows || self.dice.chance(20) {
            txn.clear(table)?;
            return Ok(vec![Op::Clear { table: name }]);
        }
        let (from, to) = (self.key(), self.key());
        let (from, to) = if from <= to { (from, to) } else { (to, from) };
        txn.delete_range(table, (Bound::Included(&from), Bound::Excluded(&to)))?;
        Ok(vec![Op::RemoveRange { table: name, from, to }])
    }

    fn key(&mut self) -> Vec<u8> {
        let n = self.dice.below(120);
        if n.is_multiple_of(3) { vec![n as u8; 1 + n % 90] } else { format!("key/{n}").into_bytes() }
    }

    /// So many changes, savepoints among them; `ops` gets those that stay.
    fn changes(&mut self, txn: &mut WriteTxn, count: usize, ops: &mut Vec<Op>) -> crate::Result<()> {
        for _ in 0..count {
            if self.profile.savepoint == 0 || count == 1 || !self.dice.chance(self.profile.savepoint) {
                ops.extend(self.change(txn)?);
                continue;
            }
            let (point, tables, before) = (txn.savepoint()?, self.tables.clone(), ops.len());
            let inner = 1 + self.dice.below(count - 1);
            self.changes(txn, inner, ops)?;
            if self.dice.chance(50) {
                txn.rollback_to(&point)?;
                self.tables = tables;
                ops.truncate(before);
            } else if self.dice.chance(50) {
                txn.release(point)?;
            }
        }
        Ok(())
    }

    fn commit(&mut self, store: &Store) -> crate::Result<()> {
        let tables = self.tables.clone();
        let begun = self.disk.boundaries();
        let mut txn = store.begin_write()?;
        let mut ops = Vec::new();
        let count = 1 + self.dice.below(self.profile.ops);
        self.changes(&mut txn, count, &mut ops).inspect_err(|_| self.tables.clone_from(&tables))?;
        let roll = self.dice.below(100) as u32;
        let how = if roll < self.profile.durable {
            Durability::Durable
        } else if roll < self.profile.durable + self.profile.relaxed {
            Durability::Relaxed
        } else {
            Durability::None
        };
        let visible = store.stats().txn;
        let result = txn.commit_with(how);
        // A commit whose flush failed is visible, and may or may not be there later.
        if result.is_ok() || store.stats().txn != visible {
            apply(&mut self.state, &ops);
            let acked = if result.is_ok() { self.disk.boundaries() } else { u64::MAX };
            self.commits.push(Commit { ops, how, begun, acked });
        } else {
            self.tables = tables;
            // It failed before it was visible, but its frame may have reached the disk.
            self.commits.push(Commit { ops, how, begun, acked: u64::MAX });
        }
        result
    }

    fn checkpoint(&mut self, store: &Store) -> crate::Result<()> {
        self.checkpoints.push(Checkpointed { commits: self.commits.len(), acked: u64::MAX });
        store.checkpoint()?;
        self.acked_checkpoint();
        Ok(())
    }

    fn acked_checkpoint(&mut self) {
        if let Some(last) = self.checkpoints.last_mut() {
            last.acked = self.disk.boundaries();
        }
    }

    /// The whole workload. `Err` when the disk failed.
    fn go(&mut self) -> crate::Result<Store> {
        let mut store = self.open(&self.disk)?;
        for _ in 0..self.profile.steps {
            if self.dice.chance(self.profile.checkpoint) {
                self.checkpoint(&store)?;
            } else if self.profile.barrier > 0 && self.dice.chance(self.profile.barrier) {
                self.checkpoints.push(Checkpointed { commits: self.commits.len(), acked: u64::MAX });
                store.begin_write()?.commit_with(Durability::Durable)?;
                self.acked_checkpoint();
            } else if self.dice.chance(self.profile.reopen) {
                self.checkpoints.push(Checkpointed { commits: self.commits.len(), acked: u64::MAX });
                store.close()?;
                self.acked_checkpoint();
                store = self.open(&self.disk)?;
            } else {
                self.commit(&store)?;
            }
        }
        Ok(store)
    }

    /// Digests of the states that a crash after `point` boundaries may leave: those after some commit, at least the
    /// last one acknowledged. `kept` says whose acknowledgement counts in this kind of crash.
    fn allowed(&self, point: u64, kept: &[Durability]) -> HashMap<u64, usize> {
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

    /// Opens a disk after a crash and compares. Returns the digest of what was found, too.
    fn verify(
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

    /// Power goes again, anywhere in the recovery from `first`. Returns the number of outcomes tried.
    fn cut_recovery(&self, first: &SimDisk, allowed: &HashMap<u64, usize>, what: &dyn Fn() -> String) -> u64 {
        let mut images = 0;
        first.record();
        drop(self.verify(first, allowed, what));
        let mut replay = first.replay();
        while let Some(point) = replay.next_point() {
            let some = [Crash::Nothing, Crash::EvenSectors, Crash::NamesLost, Crash::Random(point)];
            for (i, crash) in some.into_iter().enumerate() {
                let what = || format!("{}, then again after {point} calls of recovery, {crash:?}", what());
                let disk = replay.crash(crash);
                let (store, found) = self.verify(&disk, allowed, &what);
                images += 1;
                if !(point as usize + i).is_multiple_of(4) {
                    abandon(store, &disk);
                    continue;
                }
                // What this recovery found is durable: writing on top of it and losing power keeps it.
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
        images
    }
}

/// Drops a store without the work of closing it.
fn abandon(store: Store, disk: &SimDisk) {
    disk.cut_at(disk.boundaries());
    drop(store);
}

/// A line of the test run's summary, shown whatever the harness captures.
fn summary(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "\nsummary: kv crash: {line}, 0 violations");
}

/// Runs a workload and cuts the power everywhere.
fn cut_everywhere(profile: Profile, seed: u64, random: usize) {
    let mut run = Run::new(profile, seed);
    run.disk.record();
    let store = run.go().unwrap();
    let mut replay = run.disk.replay();
    assert_eq!(dump(&store).unwrap(), run.state);
    drop(store);
    let (mut boundaries, mut images, mut again) = (0, 0, 0);
    // Each recovery has dozens of boundaries itself: it is cut short for some 30 images of each workload.
    let sample = run.disk.boundaries() as usize / 2;
    let mut states = HashSet::new();
    while let Some(point) = replay.next_point() {
        boundaries += 1;
        let allowed = run.allowed(point, &[Durability::Durable]);
        for (i, crash) in Crash::variants(point ^ seed, random).into_iter().enumerate() {
            let disk = replay.crash(crash);
            let what = || format!("seed {seed}, power cut after {point} calls, {crash:?}");
            let (store, found) = run.verify(&disk, &allowed, &what);
            abandon(store, &disk);
            states.insert(found);
            images += 1;
            if (point as usize + 7 * i).is_multiple_of(sample) {
                again += run.cut_recovery(&replay.crash(crash), &allowed, &what);
            }
        }
    }
    let Profile { name, .. } = profile;
    let (commits, found) = (run.commits.len(), states.len());
    summary(&format!(
        "{name} (seed {seed}): {commits} commits, {boundaries} boundaries x {} outcomes, {found} states found, \
         {again} recoveries cut short",
        images / boundaries
    ));
    assert!(boundaries > 40 && images >= 8 * boundaries && found > commits / 3, "{found} of {commits}");
}

#[test]
fn puts_and_deletes_survive_power_cuts() {
    for seed in 1..=2 {
        cut_everywhere(MIXED, seed, 4);
    }
}

#[test]
fn tables_coming_and_going_survive_power_cuts() {
    cut_everywhere(Profile { name: "create and drop", ddl: 25, reopen: 6, ..MIXED }, 3, 4);
}

#[test]
fn large_values_survive_power_cuts() {
    let profile = Profile { name: "large values", large: 35, ops: 4, steps: 45, checkpoint: 14, ..MIXED };
    cut_everywhere(profile, 4, 4);
}

#[test]
fn growth_splits_and_merges_survive_power_cuts() {
    let profile =
        Profile { name: "growth", ops: 40, steps: 40, value: 900, delete: 20, durable: 30, ..MIXED };
    cut_everywhere(profile, 5, 3);
}

#[test]
fn deleted_ranges_and_cleared_tables_survive_power_cuts() {
    let profile = Profile {
        name: "ranges and clear",
        ops: 20,
        steps: 45,
        range: 10,
        delete: 0,
        large: 6,
        ddl: 3,
        value: 700,
        durable: 40,
        relaxed: 40,
        ..MIXED
    };
    cut_everywhere(profile, 10, 3);
}

#[test]
fn what_was_rolled_back_to_a_savepoint_does_not_survive_power_cuts() {
    let profile = Profile {
        name: "savepoints",
        ops: 8,
        steps: 45,
        savepoint: 20,
        range: 3,
        large: 10,
        ddl: 5,
        durable: 40,
        relaxed: 40,
        ..MIXED
    };
    cut_everywhere(profile, 11, 3);
}

const UNLOGGED: Profile = Profile {
    name: "unlogged commits",
    durable: 20,
    relaxed: 20,
    checkpoint: 12,
    large: 10,
    ddl: 6,
    ..MIXED
};

#[test]
fn unlogged_commits_are_lost_from_the_end_only() {
    cut_everywhere(UNLOGGED, 6, 4);
}

#[test]
fn a_logged_commit_behind_too_many_unlogged_ones_leaves_no_hole() {
    cut_everywhere(Profile { name: "too many unlogged", unlogged: 1500, barrier: 10, ..UNLOGGED }, 9, 4);
}

#[test]
fn the_death_of_the_process_followed_by_a_power_cut_loses_nothing_acknowledged() {
    let profile =
        Profile { name: "process death", large: 10, steps: 40, checkpoint: 20, relaxed: 40, ..MIXED };
    let mut whole = Run::new(profile, 7);
    whole.go().unwrap().close().unwrap();
    let end = whole.disk.boundaries();
    let (mut deaths, mut images) = (0, 0);
    for at in (0..end).step_by(3) {
        let mut run = Run::new(profile, 7);
        run.disk.cut_at(at);
        assert!(run.go().and_then(Store::close).is_err());
        run.disk.revive();
        deaths += 1;
        // What the system still holds is not durable until recovery makes it so.
        run.disk.record();
        let survivors = run.allowed(at, &[Durability::Durable, Durability::Relaxed]);
        let (reborn, found) =
            run.verify(&run.disk, &survivors, &|| format!("process death after {at} calls"));
        let mut txn = reborn.begin_write().unwrap();
        let table = txn.open_table("reborn", TableKind::Ordered).unwrap();
        for n in 0..30u8 {
            txn.put(&table, &[n], &[n; 400]).unwrap();
        }
        txn.commit().unwrap();
        let acked = run.disk.boundaries();
        let mut replay = run.disk.replay();
        drop(reborn);
        let allowed = run.allowed(at, &[Durability::Durable]);
        while let Some(point) = replay.next_point() {
            for crash in [Crash::Nothing, Crash::OddSectors, Crash::Random(point), Crash::Random(point ^ at)]
            {
                let what = || format!("process death after {at} calls, power cut after {point}, {crash:?}");
                let disk = replay.crash(crash);
                let store = open(&disk).unwrap_or_else(|e| panic!("{}: {e}", what()));
                store.check().unwrap_or_else(|e| panic!("{}: {e}", what()));
                let mut state = dump(&store).unwrap();
                abandon(store, &disk);
                let reborn = state.remove("reborn");
                let state = digest(&state);
                assert!(reborn.as_ref().is_none_or(|t| t.len() == 30), "{}", what());
                assert!(point < acked || reborn.is_some() && state == found, "{}", what());
                assert!(allowed.contains_key(&state), "{}", what());
                images += 1;
            }
        }
    }
    summary(&format!(
        "process death: {deaths} deaths, then {images} power cuts at all boundaries of what came after"
    ));
}

#[test]
fn a_failed_call_anywhere_fails_cleanly_and_loses_nothing_acknowledged() {
    let profile = Profile {
        name: "failed calls",
        large: 15,
        steps: 30,
        checkpoint: 15,
        ddl: 5,
        reopen: 5,
        durable: 45,
        relaxed: 40,
        unlogged: 1500,
        ..MIXED
    };
    let mut whole = Run::new(profile, 8);
    whole.go().unwrap().close().unwrap();
    let end = whole.disk.tried();
    let (mut failures, mut harmless) = (0, 0);
    for call in 0..end {
        for (fault, sticky) in [(Fault::Io, false), (Fault::Io, true), (Fault::Full, false)] {
            let mut run = Run::new(profile, 8);
            run.disk.fail_at(call, fault, sticky);
            match run.go() {
                Ok(store) => {
                    harmless += 1;
                    drop(store);
                }
                Err(_) => failures += 1,
            }
            run.disk.heal();
            let point = run.disk.boundaries();
            for crash in [Crash::Everything, Crash::Nothing, Crash::Random(call)] {
                let what = || format!("call {call} failed with {fault:?} (sticky: {sticky}), then {crash:?}");
                run.verify(&run.disk.crash(crash), &run.allowed(point, &[Durability::Durable]), &what);
            }
        }
    }
    summary(&format!("failed calls: {end} calls x 3 faults, {failures} failed runs, {harmless} unharmed"));
    assert!(failures as u64 > end);
}
