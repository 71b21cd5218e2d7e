//! The write transaction.

use std::sync::Arc;

use super::arena::Arena;
use super::batch::Batch;
use super::catalog::{self, LOCAL_TABLES, MAX_NAME, Table, TableKind};
use super::command::{Command, Commands, FORMAT};
use super::dup;
use super::edit::{Edit, Outcome, Writer, check_limits, check_row};
use super::options::Durability;
use super::reads::{Bounds, ReadContext, Reads, TableState};
use super::snapshot::ReadTxn;
use super::store::Inner;
use super::table_version::TableVersion;
use super::undone::IfUndone;
use crate::btree::TreeRoot;
use crate::wal;
use crate::{Error, Result};

/// The write transaction: there is one at a time. It sees its own changes; other transactions see them after
/// [`commit`](WriteTxn::commit). Dropping it without a commit undoes everything.
///
/// An error for a request that is impossible (`KeyTooLong`, `ValueTooLong`, `NoSuchTable`,
/// `TableMismatch`) leaves the transaction as it was. After any other error of a change (`DiskFull`, `Corrupt`, `Io`)
/// it can only be dropped, or rolled back to a [`Savepoint`](super::Savepoint) made before.
#[derive(Debug)]
pub struct WriteTxn {
    pub(super) inner: Arc<Inner>,
    /// `None` only once the transaction has ended.
    pub(super) writer: Option<Box<Writer>>,
    pub(super) broken: bool,
    /// Copies of what was read, if the page file is not mapped. Cleared by the next change, which ends all borrows.
    arena: Option<Box<Arena>>,
    pub(super) if_undone: IfUndone,
}

/// The parts of a transaction that a change needs.
pub(super) struct Change<'t> {
    pub(super) inner: &'t Inner,
    pub(super) writer: &'t mut Writer,
    broken: &'t mut bool,
}

impl Change<'_> {
    /// Applies a command and adds it to the frame, unless it changed nothing.
    pub(super) fn run(&mut self, command: &Command<'_>) -> Result<Outcome> {
        let outcome = self.edit(|edit| edit.apply(command))?;
        if outcome != Outcome::NoTable && !command.is_noop(outcome) {
            command.encode(&mut self.writer.frame);
        }
        Ok(outcome)
    }

    /// Changes pages; the caller adds the commands to the frame. An error leaves the transaction broken.
    #[inline]
    pub(super) fn edit<T>(&mut self, change: impl FnOnce(&mut Edit<'_>) -> Result<T>) -> Result<T> {
        if *self.broken {
            return Err(WriteTxn::ended());
        }
        let mut edit = Edit { pager: &self.inner.pager, values: &self.inner.values, writer: self.writer };
        let done = change(&mut edit);
        if self.inner.pager.wants_pages() && self.inner.options.background {
            self.inner.worker.wake_for_pages();
        }
        *self.broken |= done.is_err();
        done
    }
}

impl WriteTxn {
    pub(crate) fn new(inner: Arc<Inner>) -> Result<WriteTxn> {
        inner.refuse_writes()?;
        let mut writer = inner.writer_lock.acquire();
        // The store may have been poisoned or closed while this waited.
        if let Err(error) = inner.refuse_writes() {
            inner.writer_lock.release(writer);
            return Err(error);
        }
        inner.pager.begin(&mut writer.alloc);
        writer.frame.clear();
        writer.frame.push(FORMAT);
        let arena = (!inner.pager.is_mapped()).then(Box::default);
        Ok(WriteTxn { inner, writer: Some(writer), broken: false, arena, if_undone: IfUndone::default() })
    }

    /// Calls `call` if the transaction ends without a commit, or with one that has nothing to commit, or is rolled back to a
    /// [`Savepoint`](super::Savepoint) made before: for what somebody keeps in memory about its changes. That is before another transaction begins, the last call first; `call` must not wait for one.
    pub fn if_undone(&mut self, call: impl FnOnce() + Send + Sync + 'static) {
        self.if_undone.add(call);
    }

    /// Which state of a table was committed last, if this transaction has not changed it, which others see too; `None` also for an empty one.
    pub fn unchanged(&self, table: &Table) -> Result<Option<TableVersion>> {
        let version = TableVersion::of(self, table)?;
        // Not by the number of this transaction, which grows with each savepoint.
        Ok((1..=self.inner.pager.current()).contains(&version.changed()).then_some(version))
    }

    /// What was committed before, for reading.
    pub fn committed_before(&self) -> Result<ReadTxn> {
        ReadTxn::new(Arc::clone(&self.inner))
    }

    pub(super) fn ended() -> Error {
        Error::Invalid("the transaction has failed or ended: begin another".into())
    }

    /// The writer, unless the transaction has failed or ended.
    pub(super) fn working(&mut self) -> Result<&mut Writer> {
        self.writer.as_deref_mut().filter(|_| !self.broken).ok_or_else(Self::ended)
    }

    /// Starts a change: fails if the transaction has failed or ended.
    pub(super) fn change(&mut self) -> Result<Change<'_>> {
        if let Some(arena) = &mut self.arena {
            arena.clear();
        }
        match self.writer.as_deref_mut() {
            Some(writer) if !self.broken => {
                Ok(Change { inner: &self.inner, writer, broken: &mut self.broken })
            }
            _ => Err(Self::ended()),
        }
    }

    /// Makes a change in a table; whether what it is about existed.
    fn run_on(&mut self, table: &Table, command: &Command<'_>) -> Result<bool> {
        match self.change()?.run(command)? {
            Outcome::Existed => Ok(true),
            Outcome::Absent => Ok(false),
            Outcome::NoTable => Err(table.gone()),
        }
    }

    /// Creates a table. `TableMismatch` if the name is taken; `Invalid` for an empty name, one over [`MAX_NAME`]
    /// bytes, or one of a [local table](LOCAL_TABLES).
    pub fn create_table(&mut self, name: &str, kind: TableKind) -> Result<Table> {
        refuse_local(name)?;
        self.create_any_table(name, kind)
    }

    /// The [local table](LOCAL_TABLES) of this name, which begins as all of theirs do; created if there is none.
    ///
    /// # Errors
    /// As [`WriteTxn::open_table`]; `Invalid` for another name.
    pub fn open_local_table(&mut self, name: &str, kind: TableKind) -> Result<Table> {
        if !name.starts_with(LOCAL_TABLES) {
            return Err(Error::Invalid(format!("{name:?}: a local table's name begins with {LOCAL_TABLES}")));
        }
        match self.table(name)? {
            Some(table) => table.expect(kind).map(|()| table),
            None => self.create_any_table(name, kind),
        }
    }

    fn create_any_table(&mut self, name: &str, kind: TableKind) -> Result<Table> {
        dup::check_kind(kind)?;
        self.check_name(name)?;
        let id = {
            let pager = self.context().pager;
            let _epoch = pager.enter_epoch();
            catalog::next_number(pager, &self.catalog()?)?
        };
        self.change()?.run(&Command::Create { table: id, kind, name })?;
        Ok(Table { id, name: name.into(), kind })
    }

    /// Whether a new table can have this name.
    fn check_name(&self, name: &str) -> Result<()> {
        if name.is_empty() || name.len() > MAX_NAME {
            return Err(Error::Invalid(format!(
                "a table's name has 1 to {MAX_NAME} bytes, this one has {}",
                name.len()
            )));
        }
        if self.table(name)?.is_some() {
            return Err(Error::TableMismatch { name: name.to_owned(), what: "exists already".into() });
        }
        Ok(())
    }

    /// Renames the table `old` to `new`; false if there is no table `old`. Its handles stay valid. Errors as
    /// [`WriteTxn::create_table`].
    pub fn rename_table(&mut self, old: &str, new: &str) -> Result<bool> {
        let Some(table) = self.table(old)? else { return Ok(false) };
        refuse_local(old).and_then(|()| refuse_local(new))?;
        if old != new {
            self.check_name(new)?;
            self.change()?.run(&Command::Rename { table: table.id, old, new })?;
        }
        Ok(true)
    }

    /// The table with this name, created if there is none. `TableMismatch` if there is one of another kind.
    pub fn open_table(&mut self, name: &str, kind: TableKind) -> Result<Table> {
        match self.table(name)? {
            Some(table) => table.expect(kind).map(|()| table),
            None => self.create_table(name, kind),
        }
    }

    /// Removes a table and everything in it; false if there is none of this name. Its handles are invalid from then on.
    pub fn drop_table(&mut self, name: &str) -> Result<bool> {
        match self.table(name)? {
            Some(table) => {
                Ok(self.change()?.run(&Command::Drop { table: table.id, name })? == Outcome::Existed)
            }
            None => Ok(false),
        }
    }

    /// Stores `value` under `key`, instead of what was there. `KeyTooLong` over [`MAX_KEY`](super::MAX_KEY),
    /// `ValueTooLong` over [`MAX_VALUE`](super::MAX_VALUE).
    pub fn put(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
        table.expect(TableKind::Ordered)?;
        check_limits(key, value.len())?;
        self.run_on(table, &Command::Put { table: table.id, key, value }).map(|_| ())
    }

    /// Removes `key`; false if it was not there.
    pub fn delete(&mut self, table: &Table, key: &[u8]) -> Result<bool> {
        table.expect(TableKind::Ordered)?;
        self.run_on(table, &Command::Delete { table: table.id, key })
    }

    /// Stores `value` under `key` unless something is there; true if it was stored. Limits as for [`WriteTxn::put`].
    pub fn put_if_absent(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<bool> {
        let absent = self.get(table, key)?.is_none();
        if absent {
            self.put(table, key, value)?;
        }
        Ok(absent)
    }

    /// Stores `value` under `key` and returns what was there before. Limits as for [`WriteTxn::put`].
    pub fn replace(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        let old = self.get(table, key)?.map(<[u8]>::to_vec);
        self.put(table, key, value)?;
        Ok(old)
    }

    /// Stores `new` under `key` if `expected` is what is there, where `None` means absent; true if it
    /// was stored. Limits as for [`WriteTxn::put`].
    pub fn compare_and_swap(
        &mut self,
        table: &Table,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        if let Some(new) = new {
            check_limits(key, new.len())?;
        }
        if self.get(table, key)? != expected {
            return Ok(false);
        }
        match new {
            Some(new) => self.put(table, key, new)?,
            None => self.delete(table, key).map(|_| ())?,
        }
        Ok(true)
    }

    /// Stores `value` under `key`, which must be above every key of the table: `Invalid`, and no change, if it is not.
    /// Limits as for [`WriteTxn::put`].
    pub fn append(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
        table.expect(TableKind::Ordered)?;
        check_limits(key, value.len())?;
        let mut change = self.change()?;
        match change.edit(|edit| edit.append(table.id, key, value))? {
            Outcome::Absent => {
                Command::Put { table: table.id, key, value }.encode(&mut change.writer.frame);
                Ok(())
            }
            Outcome::Existed => Err(Error::Invalid(format!(
                "table {:?} has a key at or above the appended one: append in rising order, or put",
                table.name()
            ))),
            Outcome::NoTable => Err(table.gone()),
        }
    }

    /// Removes the keys within `bounds` and returns how many entries there were; bounds that contain nothing remove
    /// nothing.
    ///
    /// Whole subtrees are removed without reading their keys, so the cost per key falls with the number of keys. Only in
    /// dup tables and those with values in the value log are all entries of the range read.
    pub fn delete_range(&mut self, table: &Table, bounds: Bounds<'_>) -> Result<u64> {
        table.expect_keys()?;
        let before = self.len(table)?;
        self.run_on(table, &Command::DeleteRange { table: table.id, bounds })?;
        Ok(before - self.len(table)?)
    }

    /// Removes everything in a table of any kind and returns how many entries there were. Numbers of removed rows are not
    /// reused.
    pub fn clear(&mut self, table: &Table) -> Result<u64> {
        let before = self.len(table)?;
        self.run_on(table, &Command::Clear { table: table.id })?;
        Ok(before)
    }

    /// Adds `value` to the values of `key` in a dup table; false, and no change, if it is among them. `KeyTooLong`
    /// over [`MAX_KEY`](super::MAX_KEY), `ValueTooLong` over [`MAX_DUP_VALUE`](super::MAX_DUP_VALUE).
    #[cfg(feature = "dup-tables")]
    pub fn put_pair(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<bool> {
        table.expect(TableKind::Dup)?;
        dup::check_pair(key, value)?;
        self.run_on(table, &Command::PutPair { table: table.id, key, value }).map(|there| !there)
    }

    /// Removes `value` from the values of `key` in a dup table; false if it was not among them.
    #[cfg(feature = "dup-tables")]
    pub fn delete_pair(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<bool> {
        table.expect(TableKind::Dup)?;
        self.run_on(table, &Command::DeletePair { table: table.id, key, value })
    }

    /// Removes `key` with all its values from a dup table and returns how many there were.
    #[cfg(feature = "dup-tables")]
    pub fn delete_values(&mut self, table: &Table, key: &[u8]) -> Result<u64> {
        let count = self.count_values(table, key)?;
        self.run_on(table, &Command::Delete { table: table.id, key })?;
        Ok(count)
    }

    /// Stores a row under the next number, counting from 1, and returns that. Numbers of removed rows are not
    /// reused.
    pub fn append_row(&mut self, table: &Table, value: &[u8]) -> Result<u64> {
        table.expect(TableKind::Rows)?;
        let row = self.find(table)?.record.next_row;
        check_row(row, value.len())?;
        self.run_on(table, &Command::PutRow { table: table.id, row, value })?;
        Ok(row)
    }

    /// Stores row `row`, instead of what was there. `ValueTooLong` over [`MAX_VALUE`](super::MAX_VALUE).
    pub fn put_row(&mut self, table: &Table, row: u64, value: &[u8]) -> Result<()> {
        table.expect(TableKind::Rows)?;
        check_row(row, value.len())?;
        self.run_on(table, &Command::PutRow { table: table.id, row, value }).map(|_| ())
    }

    /// Removes row `row`; false if it was not there.
    pub fn delete_row(&mut self, table: &Table, row: u64) -> Result<bool> {
        table.expect(TableKind::Rows)?;
        self.run_on(table, &Command::DeleteRow { table: table.id, row })
    }

    /// Removes the rows whose numbers are in `range` and returns how many there were. Their numbers are not
    /// reused. Each row is read, unless the whole table is emptied.
    pub fn delete_rows(&mut self, table: &Table, range: std::ops::Range<u64>) -> Result<u64> {
        table.expect(TableKind::Rows)?;
        let before = self.len(table)?;
        self.run_on(table, &Command::DeleteRows { table: table.id, from: range.start, to: range.end })?;
        Ok(before - self.len(table)?)
    }

    /// Makes all changes of a batch, in order. After an error, whichever it is, the transaction can only be dropped.
    pub fn write(&mut self, batch: &Batch) -> Result<()> {
        let mut commands = Commands::new(&batch.commands);
        let result = self.run_all(&mut commands);
        self.broken |= result.is_err();
        result
    }

    fn run_all(&mut self, commands: &mut Commands<'_>) -> Result<()> {
        loop {
            let command = match commands.next() {
                Ok(Some(command)) => command,
                Ok(None) => return Ok(()),
                Err(bad) => {
                    return Err(Error::Invalid(format!("batch, byte {}: expected {}", bad.at, bad.expected)));
                }
            };
            self.apply(&command)?;
        }
    }

    /// Makes the change of a command whose limits have been checked.
    pub(super) fn apply(&mut self, command: &Command<'_>) -> Result<()> {
        match self.change()?.run(command)? {
            Outcome::NoTable => Err(Error::NoSuchTable { name: format!("number {}", command.table()) }),
            Outcome::Existed | Outcome::Absent => Ok(()),
        }
    }

    /// Bytes of the changes so far, as encoded for the log.
    pub(super) fn frame_bytes(&self) -> usize {
        self.writer.as_ref().map_or(0, |writer| writer.frame.len())
    }

    /// Commits with the store's default durability. See [`WriteTxn::commit_with`].
    pub fn commit(self) -> Result<()> {
        let durability = self.inner.options.durability;
        self.commit_with(durability)
    }

    /// Makes the changes visible at once and durable as `durability` says. A transaction that changed nothing is a
    /// barrier if it is committed as durable: when it returns, every commit before it, whatever its durability, is
    /// durable. Otherwise it returns right away.
    ///
    /// # Errors
    /// `DiskFull`, and `TransactionTooLarge` for about 4 GiB of changes: nothing was committed, and the store still works. `Poisoned` if a write or flush failed now or earlier: if
    /// it was the flush of this very commit, the changes are visible, and whether they are there after the store is
    /// opened again is not known. `Invalid` after an earlier error of this transaction.
    pub fn commit_with(mut self, durability: Durability) -> Result<()> {
        if self.broken {
            return Err(Self::ended());
        }
        let inner = Arc::clone(&self.inner);
        let Some(writer) = self.writer.as_deref_mut() else { return Err(Self::ended()) };
        if writer.frame.len() <= 1 {
            return self.barrier(durability);
        }
        let root = Edit { pager: &inner.pager, values: &inner.values, writer }.finish()?;
        let sync = match durability {
            Durability::Durable => Some(wal::Sync::Durable),
            Durability::Relaxed => Some(wal::Sync::Relaxed),
            Durability::None => None,
        };
        let durable = inner.pager.durable();
        let gap = writer.pending.gap_after(durable);
        let mut pause = None;
        let lsn = match sync {
            Some(sync) if !gap => {
                let (lsn, bytes) = writer.pending.append(&inner.log, &writer.frame, sync)?;
                writer.logged += bytes as u64;
                pause = inner.pause_due(writer, bytes);
                Some(lsn)
            }
            _ => None,
        };
        inner.changed_rows.commit(inner.pager.current(), writer.alloc.txn, &writer.frame);
        let txn = inner.pager.publish(&mut writer.alloc, &root);
        self.if_undone.committed();
        if lsn.is_none() {
            writer.pending.add(&writer.frame, txn, durable);
        }
        #[cfg(feature = "optimistic")]
        inner.recent_commits.committed(txn, &writer.frame);
        let dead = writer.committed();
        if !dead.is_empty() {
            inner.dead.add(txn, &dead);
        }
        let due = inner.checkpoint_due(writer);
        if let Some(writer) = self.writer.take() {
            inner.writer_lock.release(writer);
        }
        let flushed = match lsn {
            Some(lsn) if durability == Durability::Durable => inner.log.wait_durable(lsn),
            None if sync.is_some() => return inner.checkpoint_for_commit(),
            _ => Ok(()),
        };
        if inner.options.background && inner.log.wants_segment() {
            inner.worker.wake_for_segment();
        }
        inner.checkpoint_if(due);
        inner.pause(pause);
        flushed
    }

    /// Ends a transaction that changed nothing.
    fn barrier(mut self, durability: Durability) -> Result<()> {
        let inner = Arc::clone(&self.inner);
        let Some(writer) = self.writer.as_deref_mut().filter(|_| durability == Durability::Durable) else {
            return Ok(());
        };
        if writer.pending.gap_after(inner.pager.durable()) {
            drop(self);
            return inner.checkpoint_for_commit();
        }
        if writer.pending.has_commands() {
            let (_, bytes) = writer.pending.append(&inner.log, &writer.frame, wal::Sync::Durable)?;
            writer.logged += bytes as u64;
        }
        let last = inner.log.last_lsn();
        drop(self);
        inner.log.wait_durable(last)
    }
}

/// Refuses the name of a table that is of the directory, not of its contents: a backup leaves it out.
fn refuse_local(name: &str) -> Result<()> {
    match name.starts_with(LOCAL_TABLES) {
        true => {
            Err(Error::Invalid(format!("{name:?}: names that begin with {LOCAL_TABLES} are TreeDB's own")))
        }
        false => Ok(()),
    }
}

impl Drop for WriteTxn {
    fn drop(&mut self) {
        let Some(mut writer) = self.writer.take() else { return };
        self.inner.pager.roll_back(&mut writer.alloc);
        if let Err(error) = writer.rolled_back(&self.inner.values) {
            self.inner.poison(&error);
        }
        self.if_undone.undo(0);
        self.inner.writer_lock.release(writer);
    }
}

impl Reads for WriteTxn {
    #[inline]
    fn context(&self) -> ReadContext<'_> {
        ReadContext { pager: &self.inner.pager, values: &self.inner.values, arena: self.arena.as_deref() }
    }

    fn catalog(&self) -> Result<TreeRoot> {
        self.writer.as_ref().map(|writer| writer.catalog).ok_or_else(Self::ended)
    }

    #[inline]
    fn find(&self, table: &Table) -> Result<TableState> {
        let Some(writer) = &self.writer else { return Err(Self::ended()) };
        writer
            .record(&self.inner.pager, table.id)?
            .map(|record| TableState { record })
            .ok_or_else(|| table.gone())
    }
}
