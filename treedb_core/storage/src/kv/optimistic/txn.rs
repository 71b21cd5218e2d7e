//! The optimistic transaction: a snapshot, and the transaction's own changes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::Isolation;
use super::cursor::{Changes, OptimisticCursor, OptimisticRange, SnapshotCursor};
use super::read_set::{ReadSet, split_table_key, table_key};
use crate::kv::catalog::{Table, TableKind};
use crate::kv::edit::{check_limits, check_row};
use crate::kv::options::Durability;
use crate::kv::pinned_cursor::PinnedRowCursor;
use crate::kv::reads::{Bounds, Reads};
use crate::kv::snapshot::{ReadTxn, Snapshot};
use crate::kv::store::{Inner, Store};
use crate::kv::write::WriteTxn;
use crate::{Error, Result};
use treedb_formats::key::after_prefix;

/// A transaction that is checked for conflicts when it commits: see [`Store::begin_optimistic`]. It can be
/// sent to another thread, and any number of them may be open. Its changes are in memory until it commits.
/// Dropping it discards them.
///
/// Works on ordered tables and tables of rows; `TableMismatch` for dup tables.
#[derive(Debug)]
pub struct OptimisticTxn {
    inner: Arc<Inner>,
    read: ReadTxn,
    isolation: Isolation,
    writes: BTreeMap<u32, Writes>,
    reads: RefCell<ReadSet>,
    /// The names of the tables it has read from, for error messages.
    names: RefCell<BTreeMap<u32, Arc<str>>>,
}

/// The changes of a table.
#[derive(Debug)]
struct Writes {
    table: Table,
    changes: Changes,
}

impl Store {
    /// Begins an optimistic transaction with [`Isolation::Serializable`]. It never waits and does not block
    /// others.
    ///
    /// ```
    /// use treedb_storage::{Store, TableKind};
    ///
    /// # fn main() -> treedb_storage::Result<()> {
    /// # let dir = tempfile::tempdir().expect("a temporary directory");
    /// let store = Store::open(dir.path())?;
    /// let mut txn = store.begin_write()?;
    /// let stock = txn.create_table("stock", TableKind::Ordered)?;
    /// txn.put(&stock, b"bolts", &[7])?;
    /// txn.commit()?;
    ///
    /// let (mut mine, mut yours) = (store.begin_optimistic()?, store.begin_optimistic()?);
    /// for txn in [&mut mine, &mut yours] {
    ///     let left = txn.get(&stock, b"bolts")?.map_or(0, |value| value[0]);
    ///     txn.put(&stock, b"bolts", &[left - 1])?;
    /// }
    /// mine.commit()?;
    /// assert!(yours.commit().unwrap_err().is_conflict());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Poisoned` after a failed write or flush, `Invalid` after [`Store::close`].
    pub fn begin_optimistic(&self) -> Result<OptimisticTxn> {
        self.begin_optimistic_with(Isolation::default())
    }

    /// Begins an optimistic transaction. Errors as [`Store::begin_optimistic`].
    pub fn begin_optimistic_with(&self, isolation: Isolation) -> Result<OptimisticTxn> {
        self.inner.refuse_writes()?;
        let read = self.inner.recent_commits.begin(&self.inner)?;
        Ok(OptimisticTxn {
            inner: Arc::clone(&self.inner),
            read,
            isolation,
            writes: BTreeMap::new(),
            reads: RefCell::default(),
            names: RefCell::default(),
        })
    }
}

impl Drop for OptimisticTxn {
    fn drop(&mut self) {
        self.inner.recent_commits.end(self.read.txn());
    }
}

fn row_number(key: &[u8]) -> u64 {
    key.first_chunk().map_or(0, |&bytes| u64::from_be_bytes(bytes))
}

fn row_bounds(from: &[u8; 8]) -> Bounds<'_> {
    (Bound::Included(from), Bound::Unbounded)
}

/// Errors common to all methods: `NoSuchTable` if the table does not exist in the snapshot, `TableMismatch` if it is
/// of another kind, `Corrupt` for damage. No error of a method makes the transaction unusable.
impl OptimisticTxn {
    /// The number of the last transaction that its snapshot sees.
    pub fn txn(&self) -> u64 {
        self.read.txn()
    }

    /// The table with this name, `None` if there is none. Tables are created and dropped by a
    /// [`WriteTxn`]; dropping a table conflicts with transactions that have read it.
    pub fn table(&self, name: &str) -> Result<Option<Table>> {
        self.read.table(name)
    }

    /// All tables, by name.
    pub fn tables(&self) -> Result<Vec<Table>> {
        self.read.tables()
    }

    /// The set to which a read of `table` is added; `None` if reads are not tracked.
    fn tracked_reads(&self, table: &Table) -> Option<&RefCell<ReadSet>> {
        if self.isolation == Isolation::Snapshot {
            return None;
        }
        self.names.borrow_mut().entry(table.id).or_insert_with(|| Arc::clone(&table.name));
        Some(&self.reads)
    }

    /// The transaction's own change of a key, if there is one; `Some(None)` if it deleted the key.
    fn own_change(&self, table: &Table, key: &[u8]) -> Option<Option<&[u8]>> {
        self.writes.get(&table.id)?.changes.get(key).map(Option::as_deref)
    }

    /// The value of `key`, `None` if it does not exist.
    pub fn get(&self, table: &Table, key: &[u8]) -> Result<Option<&[u8]>> {
        table.expect(TableKind::Ordered)?;
        if let Some(own) = self.own_change(table, key) {
            return Ok(own);
        }
        if let Some(reads) = self.tracked_reads(table) {
            reads.borrow_mut().add_key(table.id, key);
        }
        self.read.get(table, key)
    }

    /// The row with number `row`, `None` if it does not exist.
    pub fn row(&self, table: &Table, row: u64) -> Result<Option<&[u8]>> {
        table.expect(TableKind::Rows)?;
        let key = row.to_be_bytes();
        if let Some(own) = self.own_change(table, &key) {
            return Ok(own);
        }
        if let Some(reads) = self.tracked_reads(table) {
            reads.borrow_mut().add_key(table.id, &key);
        }
        self.read.row(table, row)
    }

    /// Removes `key` from the read set, so that another transaction's change of it is not a conflict: for
    /// keys that turned out to be irrelevant. False if it was not read by [`OptimisticTxn::get`], or if this
    /// transaction changes it. Ranges that a cursor passed are not removed.
    pub fn forget(&self, table: &Table, key: &[u8]) -> Result<bool> {
        table.expect(TableKind::Ordered)?;
        Ok(self.forget_key(table, key))
    }

    /// [`OptimisticTxn::forget`] for a row that was read by [`OptimisticTxn::row`].
    pub fn forget_row(&self, table: &Table, row: u64) -> Result<bool> {
        table.expect(TableKind::Rows)?;
        Ok(self.forget_key(table, &row.to_be_bytes()))
    }

    fn forget_key(&self, table: &Table, key: &[u8]) -> bool {
        // The read of an appended row is kept: its number must not have been used by another transaction.
        self.own_change(table, key).is_none() && self.reads.borrow_mut().forget(table.id, key)
    }

    fn cursor_of(&self, table: &Table) -> Result<OptimisticCursor<'_>> {
        let context = self.read.context();
        let base = if table.kind == TableKind::Rows {
            let root = self.read.find(table)?.rows();
            let cursor = Box::new(PinnedRowCursor::new(context.pager, &root));
            SnapshotCursor::Rows { cursor, context, key: [0; 8] }
        } else {
            SnapshotCursor::Keys { cursor: Box::new(self.read.cursor(table)?), context }
        };
        let changes = self.writes.get(&table.id).map(|writes| &writes.changes);
        Ok(OptimisticCursor::new(table.id, base, changes, self.tracked_reads(table)))
    }

    /// A cursor over the keys, positioned before the first.
    pub fn cursor(&self, table: &Table) -> Result<OptimisticCursor<'_>> {
        table.expect(TableKind::Ordered)?;
        self.cursor_of(table)
    }

    /// Keys and values within `bounds`, in ascending order.
    pub fn range(&self, table: &Table, bounds: Bounds<'_>) -> Result<OptimisticRange<'_>> {
        Ok(OptimisticRange::new(self.cursor(table)?, bounds, true))
    }

    /// Keys and values within `bounds`, in descending order.
    pub fn range_back(&self, table: &Table, bounds: Bounds<'_>) -> Result<OptimisticRange<'_>> {
        Ok(OptimisticRange::new(self.cursor(table)?, bounds, false))
    }

    /// Keys that begin with `prefix`, and their values, in ascending order.
    pub fn prefix(&self, table: &Table, prefix: &[u8]) -> Result<OptimisticRange<'_>> {
        let end = after_prefix(prefix);
        let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.range(table, (Bound::Included(prefix), to))
    }

    /// The rows from number `from` on.
    pub fn rows(
        &self,
        table: &Table,
        from: u64,
    ) -> Result<impl Iterator<Item = Result<(u64, &[u8])>> + use<'_>> {
        table.expect(TableKind::Rows)?;
        let range = OptimisticRange::new(self.cursor_of(table)?, row_bounds(&from.to_be_bytes()), true);
        Ok(range.map(|entry| entry.map(|(key, value)| (row_number(&key), value))))
    }

    /// Records a change; a missing table is reported here (`NoSuchTable`) and not only at commit.
    fn change(&mut self, table: &Table, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        if !self.writes.contains_key(&table.id) {
            self.read.find(table)?;
            self.writes.insert(table.id, Writes { table: table.clone(), changes: Changes::new() });
        }
        if let Some(writes) = self.writes.get_mut(&table.id) {
            writes.changes.insert(key.to_vec(), value.map(<[u8]>::to_vec));
        }
        Ok(())
    }

    /// Stores `value` under `key`, replacing an existing value. Limits as for [`WriteTxn::put`].
    pub fn put(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
        table.expect(TableKind::Ordered)?;
        check_limits(key, value.len())?;
        self.change(table, key, Some(value))
    }

    /// Deletes `key` if it exists; does not check whether it exists.
    pub fn delete(&mut self, table: &Table, key: &[u8]) -> Result<()> {
        table.expect(TableKind::Ordered)?;
        check_limits(key, 0)?;
        self.change(table, key, None)
    }

    /// Deletes the keys within `bounds` and returns their number. The range is read for this.
    pub fn delete_range(&mut self, table: &Table, bounds: Bounds<'_>) -> Result<u64> {
        let keys = self.range(table, bounds)?.map(|entry| entry.map(|(key, _)| key));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        for key in &keys {
            self.change(table, key, None)?;
        }
        Ok(keys.len() as u64)
    }

    /// Stores a row under a new number, above all numbers in use, which no other optimistic transaction gets,
    /// and returns the number. A transaction that does not commit leaves a gap. If a [`WriteTxn`] uses the
    /// number for another row before the commit, that is a conflict.
    pub fn append_row(&mut self, table: &Table, value: &[u8]) -> Result<u64> {
        table.expect(TableKind::Rows)?;
        let next = Snapshot::new(&self.inner)?.find(table)?.record.next_row;
        let row = self.inner.recent_commits.assign_row(table.id, next);
        if let Some(reads) = self.tracked_reads(table) {
            reads.borrow_mut().add_key(table.id, &row.to_be_bytes());
        }
        self.put_row(table, row, value)?;
        Ok(row)
    }

    /// Stores row `row`, replacing an existing row. Limits as for [`WriteTxn::put_row`].
    pub fn put_row(&mut self, table: &Table, row: u64, value: &[u8]) -> Result<()> {
        table.expect(TableKind::Rows)?;
        check_row(row, value.len())?;
        self.change(table, &row.to_be_bytes(), Some(value))
    }

    /// Deletes row `row` if it exists; does not check whether it exists.
    pub fn delete_row(&mut self, table: &Table, row: u64) -> Result<()> {
        table.expect(TableKind::Rows)?;
        self.change(table, &row.to_be_bytes(), None)
    }

    /// The number of keys and rows it changes.
    pub fn changes(&self) -> usize {
        self.writes.values().map(|writes| writes.changes.len()).sum()
    }

    /// Commits with the store's default durability. See [`OptimisticTxn::commit_with`].
    pub fn commit(self) -> Result<()> {
        let durability = self.inner.options.durability;
        self.commit_with(durability)
    }

    /// Checks for conflicts and writes the changes as one frame of the log: they become visible together,
    /// with the given durability. A transaction without changes needs no check and returns immediately.
    ///
    /// It takes the writer lock for this: a thread that holds a [`WriteTxn`] deadlocks.
    ///
    /// # Errors
    /// `Conflict` if something it depends on (see [`Isolation`]) was changed since its snapshot, or if so
    /// much was committed since that this is no longer known: nothing was changed, and it can be retried.
    /// Otherwise as [`WriteTxn::commit_with`].
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        if self.changes() == 0 {
            return Ok(());
        }
        let mut txn = WriteTxn::new(Arc::clone(&self.inner))?;
        self.check()?;
        for Writes { table, changes } in self.writes.values() {
            for (key, value) in changes {
                match (table.kind, value) {
                    (TableKind::Rows, Some(value)) => txn.put_row(table, row_number(key), value)?,
                    (TableKind::Rows, None) => txn.delete_row(table, row_number(key)).map(|_| ())?,
                    (_, Some(value)) => txn.put(table, key, value)?,
                    (_, None) => txn.delete(table, key).map(|_| ())?,
                }
            }
        }
        txn.commit_with(durability)
    }

    /// `Conflict` if something the transaction depends on has changed. The caller holds the writer lock, so
    /// that nothing changes meanwhile.
    fn check(&self) -> Result<()> {
        let (recent_commits, since) = (&self.inner.recent_commits, self.read.txn());
        if !recent_commits.covers(since) {
            let table = self.writes.values().next().map_or(String::new(), |w| w.table.name().to_owned());
            let what = "may have changed: too much was committed since this transaction began";
            return Err(Error::Conflict { table, key: Vec::new(), what });
        }
        let changed = match self.isolation {
            Isolation::Serializable => {
                let reads = self.reads.borrow();
                let key = reads.keys().find(|key| recent_commits.changed(key, since)).map(<[u8]>::to_vec);
                key.or_else(|| reads.spans().find_map(|span| recent_commits.find_changed(span, since)))
            }
            Isolation::Snapshot => {
                let mut keys = self
                    .writes
                    .iter()
                    .flat_map(|(&table, writes)| writes.changes.keys().map(move |key| table_key(table, key)));
                keys.find(|key| recent_commits.changed(key, since))
            }
        };
        match changed {
            Some(key) => Err(self.conflict(&key)),
            None => Ok(()),
        }
    }

    fn conflict(&self, table_key: &[u8]) -> Error {
        let (id, key) = split_table_key(table_key);
        let name = self.names.borrow().get(&id).map(ToString::to_string);
        let table = name.or_else(|| self.writes.get(&id).map(|writes| writes.table.name().to_owned()));
        let what = "was changed by another transaction first";
        Error::Conflict { table: table.unwrap_or_default(), key: key.to_vec(), what }
    }
}
