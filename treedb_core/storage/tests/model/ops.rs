//! Operations on a store, and the model of maps with their expected results. The property test generates
//! lists of them; the fuzzer decodes them from bytes.

#[path = "pairs.rs"]
mod pairs;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

use treedb_storage::disk::SimDisk;
use treedb_storage::disk::crash::Crash;
use treedb_storage::{Durability, Options, ReadTxn, Reads, Savepoint, Store, Table, TableKind, WriteTxn};
use treedb_storage::{Error, Result};

use pairs::Pairs;

/// The tables, by name and kind.
const TABLES: [(&str, TableKind); 4] = [
    ("keys", TableKind::Ordered),
    ("more keys", TableKind::Ordered),
    ("rows", TableKind::Rows),
    ("pairs", TableKind::Dup),
];
/// The index of the dup table in [`TABLES`].
const PAIRS: u8 = 3;
/// The maximum number of open snapshots.
const SNAPSHOTS: usize = 6;

/// An operation on a store. Tables, keys and lengths are small numbers; [`key`] and [`value`] turn them into
/// bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    Put { table: u8, key: u8, len: u8 },
    PutMany { table: u8, from: u8, count: u8, len: u8 },
    Delete { table: u8, key: u8 },
    DeleteRange { table: u8, from: u8, to: u8, how: u8 },
    DeleteByCursor { table: u8, from: u8, count: u8 },
    Clear { table: u8 },
    Drop { table: u8 },
    AppendRow { len: u8 },
    PutPairs { key: u8, from: u8, count: u8, len: u8 },
    DeletePairs { key: u8, from: u8, count: u8 },
    DeleteValues { key: u8 },
    DeletePairRange { from: u8, to: u8, how: u8 },
    Savepoint,
    RollbackTo { which: u8 },
    Release { which: u8 },
    Commit { how: u8 },
    Rollback,
    Checkpoint,
    Snapshot,
    EndSnapshot { which: u8 },
    Check,
    Reopen,
    ProcessDeath,
    PowerCut { rng: u8 },
}

/// The number of bytes that [`Op::decode`] takes.
pub(crate) const OP_BYTES: usize = 5;

impl Op {
    /// Decodes an operation. All bytes are valid; zeroes are the simplest operation.
    pub(crate) fn decode([what, a, b, c, d]: [u8; OP_BYTES]) -> Op {
        let table = a % 3;
        match what % 50 {
            0..8 => Op::Put { table, key: b, len: c },
            8..12 => Op::PutMany { table, from: b, count: c, len: d },
            12..16 => Op::Delete { table, key: b },
            16..18 => Op::DeleteRange { table, from: b, to: c, how: d },
            18 => Op::DeleteByCursor { table, from: b, count: c },
            19 => Op::Clear { table: a % 4 },
            20 => Op::Drop { table: a % 4 },
            21..23 => Op::AppendRow { len: c },
            23 => Op::Savepoint,
            24 => Op::RollbackTo { which: a },
            25 => Op::Release { which: a },
            26..32 => Op::Commit { how: a },
            32 => Op::Rollback,
            33 => Op::Checkpoint,
            34 => Op::Snapshot,
            35 => Op::EndSnapshot { which: a },
            36 => Op::Check,
            37 => Op::Reopen,
            38 => Op::ProcessDeath,
            39 => Op::PowerCut { rng: a },
            40..45 => Op::PutPairs { key: a, from: b, count: c, len: d },
            45..48 => Op::DeletePairs { key: a, from: b, count: c },
            48 => Op::DeleteValues { key: a },
            _ => Op::DeletePairRange { from: b, to: c, how: d },
        }
    }
}

/// Keys of all lengths, many with a common prefix.
fn key(n: u8) -> Vec<u8> {
    match n % 8 {
        0 => vec![n; usize::from(n) / 8],
        1 => [&[7; 900][..], &[n]].concat(),
        2 => [&[7; 40][..], &[n, 0, n]].concat(),
        _ => format!("key/{n:03}").into_bytes(),
    }
}

fn row(n: u8) -> u64 {
    // Mostly adjacent, some far apart.
    if n < 200 { 1 + u64::from(n) } else { u64::from(n) * 1_000_003 }
}

/// Values of different lengths; some do not fit into a page.
fn value(len: u8, seed: u8) -> Vec<u8> {
    let len = usize::from(len);
    let len = if len < 200 { len } else { (len - 199) * 170 };
    (0..len).map(|i| (i * 3) as u8 ^ seed).collect()
}

/// The contents of a table; the key of a row is its number, big-endian.
#[derive(Debug, Clone, Default, PartialEq)]
struct Rows {
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
    next_row: u64,
    /// The contents of the dup table.
    pairs: Pairs,
}

impl Rows {
    fn len(&self) -> usize {
        self.entries.len() + self.pairs.len()
    }
}

/// The contents of a store by table.
type Model = BTreeMap<usize, Rows>;

/// The state after a commit. A crash may lose it, depending on its durability.
struct Commit {
    model: Model,
    how: Durability,
}

/// A transaction in progress, the contents it should see, and its savepoints.
type Txn = (WriteTxn, Model, Vec<(Savepoint, Model)>);

/// A store and its expected contents.
pub(crate) struct Machine {
    disk: SimDisk,
    /// `None` only while it is reopened.
    store: Option<Store>,
    txn: Option<Txn>,
    snapshots: Vec<(ReadTxn, Model)>,
    /// The commits from the last durable one on.
    history: Vec<Commit>,
    step: u8,
}

fn open(disk: &SimDisk) -> Result<Store> {
    let mut options = Options::default();
    options.disk = Arc::new(disk.clone());
    options.background = false;
    options.growth = 16;
    options.max_bytes = 64 << 20;
    options.log_segment_bytes = 32 << 10;
    options.value_segment_bytes = 32 << 10;
    options.pending_bytes = 3000;
    options.checkpoint_log_bytes = 48 << 10;
    options.checkpoint_dead_pages = 40;
    Store::open_with(PathBuf::from("/data/store"), options)
}

/// Returns an error, which ends the run, unless `condition` is true.
fn expect(condition: bool, what: impl FnOnce() -> String) -> Result<()> {
    if condition { Ok(()) } else { Err(Error::Invalid(what())) }
}

/// Reads everything, in more than one way. The error names the first difference from `model`.
fn agree(read: &dyn Reads, model: &Model) -> Result<()> {
    expect(read.tables()?.len() == model.len(), || "the number of tables is wrong".into())?;
    for (index, (name, kind)) in TABLES.iter().enumerate() {
        let (table, rows) = (read.table(name)?, model.get(&index));
        let (Some(table), Some(rows)) = (&table, rows) else {
            expect(table.is_none() && rows.is_none(), || {
                format!("table {name:?} is missing or should not exist")
            })?;
            continue;
        };
        let len = read.len(table)?;
        expect(len == rows.len() as u64, || format!("{name:?} has {len} entries"))?;
        if *kind == TableKind::Dup {
            rows.pairs.agree(read, table)?;
            continue;
        }
        if *kind == TableKind::Rows {
            let mut seen = read.rows(table, 0)?;
            for (key, value) in &rows.entries {
                let Some((row, found)) = seen.next().transpose()? else {
                    return Err(Error::Invalid(format!("rows end before {key:?}")));
                };
                let matches = row.to_be_bytes()[..] == key[..] && found == value;
                expect(matches && read.row(table, row)? == Some(value), || {
                    format!("row {row}, not {key:?}")
                })?;
            }
            expect(seen.next().is_none(), || "more rows than expected".into())?;
            continue;
        }
        let all = (Bound::Unbounded, Bound::Unbounded);
        let (mut up, mut down) = (read.range(table, all)?, read.range(table, all)?);
        for (low, high) in rows.entries.iter().zip(rows.entries.iter().rev()) {
            for (seen, (key, value)) in [(up.next(), low), (down.next_back(), high)] {
                let matches = seen.transpose()?.is_some_and(|(k, v)| k == *key && v == value);
                expect(matches, || format!("{name:?} has another value for {key:?}"))?;
            }
        }
        let ended = up.next().is_none() && down.next_back().is_none();
        expect(ended, || "more keys than expected".into())?;
        let asked: Vec<Vec<u8>> = (0..=255).map(key).collect();
        let asked: Vec<&[u8]> = asked.iter().map(Vec::as_slice).collect();
        for (key, value) in asked.iter().zip(read.get_many(table, &asked)?) {
            let matches = value == rows.entries.get(*key).map(Vec::as_slice);
            expect(matches && read.get(table, key)? == value, || {
                format!("a lookup of {key:?} gives another value")
            })?;
        }
    }
    Ok(())
}

/// Bounds of every kind.
fn bounds<'k>(from: &'k [u8], to: &'k [u8], how: u8) -> (Bound<&'k [u8]>, Bound<&'k [u8]>) {
    let bound = |how: u8, key| match how % 3 {
        0 => Bound::Included(key),
        1 => Bound::Excluded(key),
        _ => Bound::Unbounded,
    };
    (bound(how, from), bound(how / 3, to))
}

fn is_inside(key: &[u8], (low, high): (Bound<&[u8]>, Bound<&[u8]>)) -> bool {
    let above = match low {
        Bound::Included(low) => key >= low,
        Bound::Excluded(low) => key > low,
        Bound::Unbounded => true,
    };
    above
        && match high {
            Bound::Included(high) => key <= high,
            Bound::Excluded(high) => key < high,
            Bound::Unbounded => true,
        }
}

impl Machine {
    pub(crate) fn new() -> Result<Machine> {
        let disk = SimDisk::new();
        let store = open(&disk)?;
        let history = vec![Commit { model: Model::new(), how: Durability::Durable }];
        Ok(Machine { disk, store: Some(store), txn: None, snapshots: Vec::new(), history, step: 0 })
    }

    /// Applies all operations and compares the contents at the end.
    pub(crate) fn run(ops: impl IntoIterator<Item = Op>) -> Result<()> {
        let mut machine = Machine::new()?;
        for op in ops {
            machine.step = machine.step.wrapping_add(1);
            machine.apply(op)?;
        }
        machine.commit(Durability::Durable)?;
        machine.end_snapshots()?;
        machine.reopen()?;
        machine.store()?.check()?;
        Ok(())
    }

    fn store(&self) -> Result<&Store> {
        self.store.as_ref().ok_or_else(|| Error::Invalid("the store is not open".into()))
    }

    fn committed(&self) -> &Model {
        &self.history[self.history.len() - 1].model
    }

    /// Runs `change` on a table in the current transaction. Begins a transaction and creates the table if
    /// there is none.
    fn change(
        &mut self,
        table: u8,
        change: impl FnOnce(&mut WriteTxn, &Table, &mut Rows) -> Result<()>,
    ) -> Result<()> {
        self.begin()?;
        let Some((txn, model, _)) = &mut self.txn else { return Ok(()) };
        let index = usize::from(table);
        let handle = txn.open_table(TABLES[index].0, TABLES[index].1)?;
        let rows = model.entry(index).or_insert_with(|| Rows { next_row: 1, ..Rows::default() });
        change(txn, &handle, rows)
    }

    fn begin(&mut self) -> Result<()> {
        if self.txn.is_none() {
            self.txn = Some((self.store()?.begin_write()?, self.committed().clone(), Vec::new()));
        }
        Ok(())
    }

    fn put(txn: &mut WriteTxn, table: &Table, rows: &mut Rows, n: u8, value: Vec<u8>) -> Result<()> {
        let key = if table.kind() == TableKind::Rows {
            let row = row(n);
            txn.put_row(table, row, &value)?;
            rows.next_row = rows.next_row.max(row + 1);
            row.to_be_bytes().to_vec()
        } else {
            let key = key(n);
            txn.put(table, &key, &value)?;
            key
        };
        rows.entries.insert(key, value);
        Ok(())
    }

    fn delete(txn: &mut WriteTxn, table: &Table, rows: &mut Rows, n: u8) -> Result<()> {
        let (was, key) = if table.kind() == TableKind::Rows {
            (txn.delete_row(table, row(n))?, row(n).to_be_bytes().to_vec())
        } else {
            (txn.delete(table, &key(n))?, key(n))
        };
        expect(was == rows.entries.remove(&key).is_some(), || format!("delete of {key:?}"))
    }

    pub(crate) fn apply(&mut self, op: Op) -> Result<()> {
        let step = self.step;
        match op {
            Op::Put { table, key, len } => {
                self.change(table, |txn, table, rows| Self::put(txn, table, rows, key, value(len, step)))
            }
            Op::PutMany { table, from, count, len } => self.change(table, |txn, table, rows| {
                (0..count).try_for_each(|i| {
                    Self::put(txn, table, rows, from.wrapping_add(i), value(len.min(210), i ^ step))
                })
            }),
            Op::Delete { table, key } => {
                self.change(table, |txn, table, rows| Self::delete(txn, table, rows, key))
            }
            Op::DeleteRange { table, from, to, how } => self.change(table, |txn, table, rows| {
                if table.kind() == TableKind::Rows {
                    return (from.min(to)..from.max(to)).try_for_each(|n| Self::delete(txn, table, rows, n));
                }
                let (from, to) = (key(from), key(to));
                let bounds = bounds(&from, &to, how);
                let before = rows.entries.len();
                rows.entries.retain(|key, _| !is_inside(key, bounds));
                let deleted = txn.delete_range(table, bounds)?;
                let matches = deleted == (before - rows.entries.len()) as u64;
                expect(matches, || format!("{deleted} keys deleted in a range"))
            }),
            Op::DeleteByCursor { table, from, count } => self.change(table % 2, |txn, table, rows| {
                let mut cursor = txn.write_cursor(table)?;
                let mut found = cursor.seek(&key(from))?;
                for _ in 0..count % 32 {
                    let expected = rows.entries.range(key(from)..).next().map(|(key, _)| key.clone());
                    let matches = found == expected.is_some() && cursor.key()? == expected.as_deref();
                    expect(matches, || format!("the cursor is not on {expected:?}"))?;
                    let Some(key) = expected else { break };
                    expect(cursor.delete()?, || "the cursor deleted nothing".into())?;
                    rows.entries.remove(&key);
                    found = cursor.seek(&self::key(from))?;
                }
                Ok(())
            }),
            Op::Clear { table } => self.change(table, |txn, table, rows| {
                let deleted = txn.clear(table)?;
                let matches = deleted == rows.len() as u64;
                rows.entries.clear();
                rows.pairs.clear();
                expect(matches, || format!("{deleted} entries cleared"))
            }),
            Op::Drop { table } => {
                self.begin()?;
                let Some((txn, model, _)) = &mut self.txn else { return Ok(()) };
                let was = model.remove(&usize::from(table)).is_some();
                let dropped = txn.drop_table(TABLES[usize::from(table)].0)?;
                expect(dropped == was, || "dropping a table gave the wrong result".into())
            }
            Op::AppendRow { len } => self.change(2, |txn, table, rows| {
                let value = value(len, step);
                let row = txn.append_row(table, &value)?;
                expect(row == rows.next_row, || format!("row {row}, not {}", rows.next_row))?;
                rows.next_row = row + 1;
                rows.entries.insert(row.to_be_bytes().to_vec(), value);
                Ok(())
            }),
            Op::PutPairs { key, from, count, len } => {
                self.change(PAIRS, |txn, table, rows| rows.pairs.put(txn, table, [key, from, count, len]))
            }
            Op::DeletePairs { key, from, count } => {
                self.change(PAIRS, |txn, table, rows| rows.pairs.delete(txn, table, [key, from, count]))
            }
            Op::DeleteValues { key } => {
                self.change(PAIRS, |txn, table, rows| rows.pairs.delete_values(txn, table, key))
            }
            Op::DeletePairRange { from, to, how } => self.change(PAIRS, |txn, table, rows| {
                let (from, to) = (pairs::dup_key(from), pairs::dup_key(to));
                let bounds = bounds(&from, &to, how);
                rows.pairs.delete_range(txn, table, bounds, |key| is_inside(key, bounds))
            }),
            Op::Savepoint => {
                self.begin()?;
                let Some((txn, model, points)) = &mut self.txn else { return Ok(()) };
                points.push((txn.savepoint()?, model.clone()));
                Ok(())
            }
            Op::RollbackTo { which } => {
                let Some((txn, model, points)) = &mut self.txn else { return Ok(()) };
                let Some(index) = usize::from(which).checked_rem(points.len()) else { return Ok(()) };
                points.truncate(index + 1);
                txn.rollback_to(&points[index].0)?;
                model.clone_from(&points[index].1);
                agree(txn, model)
            }
            Op::Release { which } => {
                let Some((txn, _, points)) = &mut self.txn else { return Ok(()) };
                let Some(index) = usize::from(which).checked_rem(points.len()) else { return Ok(()) };
                points.truncate(index + 1);
                points.pop().map_or(Ok(()), |(point, _)| txn.release(point))
            }
            Op::Commit { how } => self
                .commit([Durability::Durable, Durability::Relaxed, Durability::None][usize::from(how % 3)]),
            Op::Rollback => {
                self.txn = None;
                agree(&self.store()?.begin_read()?, self.committed())
            }
            Op::Checkpoint => {
                self.commit(Durability::Relaxed)?;
                self.store()?.checkpoint()?;
                self.mark_durable();
                Ok(())
            }
            Op::Snapshot => {
                if self.snapshots.len() < SNAPSHOTS {
                    self.snapshots.push((self.store()?.begin_read()?, self.committed().clone()));
                }
                Ok(())
            }
            Op::EndSnapshot { which } => {
                let Some(index) = usize::from(which).checked_rem(self.snapshots.len()) else { return Ok(()) };
                let (read, model) = self.snapshots.swap_remove(index);
                agree(&read, &model)
            }
            Op::Check => {
                self.commit(Durability::None)?;
                let entries: usize = self.committed().values().map(Rows::len).sum();
                let found = self.store()?.check()?.entries;
                expect(found == entries as u64, || format!("check found {found} entries"))
            }
            Op::Reopen => {
                self.commit(Durability::None)?;
                self.end_snapshots()?;
                self.reopen()
            }
            Op::ProcessDeath => {
                self.crash()?;
                self.disk.revive();
                self.recover(&[Durability::Durable, Durability::Relaxed])
            }
            Op::PowerCut { rng } => {
                self.crash()?;
                let variants = Crash::variants(rng.into(), 4);
                self.disk = self.disk.crash(variants[usize::from(rng) % variants.len()]);
                self.recover(&[Durability::Durable])
            }
        }
    }

    /// Commits the transaction in progress, if there is one.
    fn commit(&mut self, how: Durability) -> Result<()> {
        let Some((txn, model, _)) = self.txn.take() else { return Ok(()) };
        agree(&txn, &model)?;
        // A relaxed commit without changes does nothing; a durable one makes the commits before it durable.
        let how = match how {
            Durability::Relaxed if model == *self.committed() => Durability::None,
            how => how,
        };
        txn.commit_with(how)?;
        self.history.push(Commit { model, how });
        if how == Durability::Durable {
            self.mark_durable();
        }
        agree(&self.store()?.snapshot()?, self.committed())
    }

    /// Marks everything committed so far as durable.
    fn mark_durable(&mut self) {
        self.history.drain(..self.history.len() - 1);
        self.history[0].how = Durability::Durable;
    }

    fn end_snapshots(&mut self) -> Result<()> {
        self.snapshots.drain(..).try_for_each(|(read, model)| agree(&read, &model))
    }

    fn reopen(&mut self) -> Result<()> {
        if let Some(store) = self.store.take() {
            store.close()?;
        }
        self.mark_durable();
        self.store = Some(open(&self.disk)?);
        agree(&self.store()?.snapshot()?, self.committed())
    }

    /// Simulates a crash: nothing reaches the disk from here on.
    fn crash(&mut self) -> Result<()> {
        self.end_snapshots()?;
        self.disk.cut_at(self.disk.boundaries());
        self.txn = None;
        self.store = None;
        Ok(())
    }

    /// Opens the store after a crash. It must have the state after some commit, at least after the last
    /// commit whose durability is in `surviving`. What recovery found is durable.
    fn recover(&mut self, surviving: &[Durability]) -> Result<()> {
        let store = open(&self.disk)?;
        let least = self.history.iter().rposition(|commit| surviving.contains(&commit.how)).unwrap_or(0);
        let mut newest = None;
        let found = self.history[least..].iter().rev().position(|commit| {
            let compared = store.snapshot().and_then(|read| agree(&read, &commit.model));
            compared.map_err(|error| newest.get_or_insert(error.to_string()).clone()).is_ok()
        });
        let Some(found) = found else {
            let newest = newest.unwrap_or_default();
            return Err(Error::Invalid(format!(
                "the state is not that after any commit; difference from the newest: {newest}"
            )));
        };
        self.history.truncate(self.history.len() - found);
        self.mark_durable();
        self.store = Some(store);
        Ok(())
    }
}
