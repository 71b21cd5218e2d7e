//! Commands applied to pages: by a write transaction, and by recovery.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::catalog::{self, Record, TableKind};
use super::command::Command;
use super::dup;
use super::fingers::Fingers;
use super::large_values::{INLINE, pointer};
use super::pending::PendingCommits;
use super::reads::{Bounds, is_above, is_below};
use super::savepoint::SavepointState;
use super::stalls::Debt;
use crate::btree::{Finger, RowRoot, RowTree, Tree, TreeRoot, Value};
use crate::page::{Allocator, PageWriter, Pager};
use crate::vlog::{self, ValueLog, ValuePtr};
use crate::{Error, Result};

/// The longest value, in bytes.
pub const MAX_VALUE: u64 = vlog::MAX_VALUE;

/// Memory for frames that is always kept, in bytes.
const SMALL_FRAME: usize = 4 << 20;
/// Memory of longer frames is never kept.
const LARGE_FRAME: usize = 128 << 20;

/// A table whose record the writer has loaded.
#[derive(Debug)]
pub(super) struct OpenTable {
    record: Record,
    changed: bool,
}

/// The state that only the writer has: page allocation, the tables' roots, and the changes of the transaction in
/// progress.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) alloc: Allocator,
    /// Root of the catalog, with the changes of the transaction in progress.
    pub(crate) catalog: TreeRoot,
    committed: TreeRoot,
    pub(super) tables: BTreeMap<u32, OpenTable>,
    pub(super) fingers: Fingers,
    /// The savepoints of the transaction in progress; the allocator has as many.
    pub(super) savepoints: Vec<SavepointState>,
    /// The frame being built.
    pub(crate) frame: Vec<u8>,
    /// Values the transaction appended, and values it made dead.
    pub(super) appended: Vec<ValuePtr>,
    pub(super) died: Vec<ValuePtr>,
    /// Commits that are not in the log yet.
    pub(crate) pending: PendingCommits,
    /// Bytes logged since the last checkpoint began.
    pub(crate) logged: u64,
    /// Pauses due because of them.
    pub(crate) debt: Debt,
}

impl Writer {
    pub(crate) fn new(alloc: Allocator, catalog: TreeRoot, pending: usize) -> Writer {
        Writer {
            alloc,
            catalog,
            committed: catalog,
            tables: BTreeMap::new(),
            fingers: Fingers::default(),
            savepoints: Vec::new(),
            frame: Vec::new(),
            appended: Vec::new(),
            died: Vec::new(),
            pending: PendingCommits::new(pending),
            logged: 0,
            debt: Debt::default(),
        }
    }

    /// The record of a table as the transaction sees it.
    pub(crate) fn record(&self, pager: &Pager, id: u32) -> Result<Option<Record>> {
        match self.tables.get(&id) {
            Some(open) => Ok(Some(open.record)),
            None => {
                let _epoch = pager.enter_epoch();
                catalog::record(pager, &self.catalog, id)
            }
        }
    }

    /// Called when the transaction has been published. Returns the values it made dead.
    pub(crate) fn committed(&mut self) -> Vec<ValuePtr> {
        self.committed = self.catalog;
        self.savepoints.clear();
        self.appended.clear();
        // Memory touched for the first time costs more than copying into it, so transactions of similar size reuse the
        // buffer; but small ones do not keep that of a large one.
        let (used, whole) = (self.frame.len(), self.frame.capacity());
        if whole > SMALL_FRAME && (used < whole / 4 || used > LARGE_FRAME) {
            self.frame = Vec::new();
        }
        self.frame.clear();
        std::mem::take(&mut self.died)
    }

    /// Discards the transaction: its values are released.
    pub(crate) fn rolled_back(&mut self, values: &ValueLog) -> Result<()> {
        self.catalog = self.committed;
        self.savepoints.clear();
        self.tables.clear();
        self.fingers.reset_all();
        self.frame.clear();
        self.died.clear();
        self.appended.drain(..).try_for_each(|ptr| values.release(ptr))
    }
}

/// What a change of pages needs.
pub(crate) struct Edit<'a> {
    pub(crate) pager: &'a Pager,
    pub(crate) values: &'a ValueLog,
    pub(crate) writer: &'a mut Writer,
}

/// What a command found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The key, row or table existed.
    Existed,
    /// It did not exist.
    Absent,
    /// The table does not exist, or is of another kind: nothing was changed.
    NoTable,
}

impl From<bool> for Outcome {
    fn from(there: bool) -> Outcome {
        if there { Outcome::Existed } else { Outcome::Absent }
    }
}

impl Edit<'_> {
    /// A copy of a table's record, to be changed and stored with [`Edit::put_record`].
    pub(super) fn record(&mut self, id: u32, kind: TableKind) -> Result<Option<Record>> {
        let record = self.writer.record(self.pager, id)?;
        Ok(record.filter(|record| record.kind == kind))
    }

    /// As [`Edit::record`], of a table of either kind that has keys.
    fn record_with_keys(&mut self, id: u32) -> Result<Option<Record>> {
        let record = self.writer.record(self.pager, id)?;
        Ok(record.filter(|record| record.kind != TableKind::Rows))
    }

    pub(super) fn put_record(&mut self, id: u32, record: Record) {
        self.writer.tables.insert(id, OpenTable { record, changed: true });
    }

    /// Changes pages.
    pub(super) fn sink(&mut self) -> PageWriter<'_> {
        self.pager.writer(&mut self.writer.alloc)
    }

    /// The cell for a value: the value itself, or a pointer to where it was appended.
    fn cell<'v>(&mut self, owner: &[u8], value: &'v [u8], place: &'v mut [u8; 16]) -> Result<Value<'v>> {
        if value.len() <= INLINE {
            return Ok(Value::inline(value));
        }
        let ptr = self.values.append(owner, value)?;
        self.writer.appended.push(ptr);
        *place = ptr.to_bytes();
        Ok(Value::pointer(place))
    }

    /// Records that a cell is removed or replaced: a large value in it is dead.
    fn mark_dead(&mut self, record: &mut Record, cell: Option<Value<'_>>) -> Result<()> {
        if let Some(cell) = cell.filter(|cell| cell.pointer) {
            self.writer.died.push(pointer(self.pager, cell)?);
            record.large = record.large.saturating_sub(1);
        }
        Ok(())
    }

    /// Makes a change of pages within an epoch, then evicts pages that the cache has no room for.
    #[inline]
    pub(super) fn in_epoch<T>(&mut self, change: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let pager = self.pager;
        let done = {
            let _epoch = pager.enter_epoch();
            change(self)
        };
        pager.evict_for_writer();
        done
    }

    /// Applies a command. An error leaves the transaction unusable.
    pub(crate) fn apply(&mut self, command: &Command<'_>) -> Result<Outcome> {
        self.in_epoch(|edit| {
            if !matches!(command, Command::Put { .. } | Command::PutRow { .. }) {
                edit.writer.fingers.reset_table(command.table());
            }
            match *command {
                Command::Put { table, key, value } => edit.put(table, key, value),
                Command::Delete { table, key } => edit.delete(table, key),
                Command::PutRow { table, row, value } => edit.put_row(table, row, value),
                Command::DeleteRow { table, row } => edit.delete_row(table, row),
                Command::Create { table, kind, name } => edit.create(table, kind, name),
                Command::Drop { table, name } => edit.drop(table, name),
                Command::Clear { table } => edit.clear(table),
                Command::DeleteRange { table, bounds } => edit.delete_range(table, bounds),
                Command::PutPair { table, key, value } => edit.put_pair(table, key, value),
                Command::DeletePair { table, key, value } => edit.delete_pair(table, key, value),
                Command::DeleteRows { table, from, to } => edit.delete_rows(table, from, to),
                Command::Rename { table, old, new } => edit.rename(table, old, new),
            }
        })
    }

    /// Does a put if `key` is above every key of the table; [`Outcome::Existed`] if one at or above it is.
    pub(super) fn append(&mut self, id: u32, key: &[u8], value: &[u8]) -> Result<Outcome> {
        self.in_epoch(|edit| {
            if let Some((mut sink, record, finger)) = edit.in_place(id, TableKind::Ordered, value) {
                let done = Tree::append_at(&mut sink, &mut record.root, finger, key, Value::inline(value));
                return done.map(|done| Outcome::from(!done));
            }
            let Some(record) = edit.record(id, TableKind::Ordered)? else { return Ok(Outcome::NoTable) };
            if !Tree::is_above_all(edit.pager, &record.root, key)? {
                return Ok(Outcome::Existed);
            }
            edit.put(id, key, value)
        })
    }

    /// What a put of `value` changes in the common case: the value is inline and the table, whose record the writer has
    /// loaded, has no large values. The record is changed in place. `None` in all other cases.
    #[inline]
    pub(super) fn in_place(
        &mut self,
        id: u32,
        kind: TableKind,
        value: &[u8],
    ) -> Option<(PageWriter<'_>, &mut Record, &mut Finger)> {
        let Writer { alloc, fingers, tables, .. } = &mut *self.writer;
        let open = tables
            .get_mut(&id)
            .filter(|open| value.len() <= INLINE && open.record.kind == kind && open.record.large == 0)?;
        open.changed = true;
        let finger = fingers.of(id, alloc.own());
        Some((self.pager.writer(alloc), &mut open.record, finger))
    }

    fn put(&mut self, id: u32, key: &[u8], value: &[u8]) -> Result<Outcome> {
        if let Some((mut sink, record, finger)) = self.in_place(id, TableKind::Ordered, value) {
            return Tree::put_at(&mut sink, &mut record.root, finger, key, Value::inline(value))
                .map(|new| Outcome::from(!new));
        }
        let Some(mut record) = self.record(id, TableKind::Ordered)? else { return Ok(Outcome::NoTable) };
        let pager = self.pager;
        if record.large > 0 {
            let old = Tree::get(pager, &record.root, key)?;
            self.mark_dead(&mut record, old)?;
        }
        let mut place = [0; 16];
        let cell = if value.len() <= INLINE {
            Value::inline(value)
        } else {
            let mut owner = Vec::with_capacity(5 + key.len());
            owner.push(TableKind::Ordered.to_byte());
            owner.extend_from_slice(&id.to_le_bytes());
            owner.extend_from_slice(key);
            self.cell(&owner, value, &mut place)?
        };
        record.large += u64::from(cell.pointer);
        let Writer { alloc, fingers, .. } = &mut *self.writer;
        let finger = fingers.of(id, alloc.own());
        let new = Tree::put_at(&mut pager.writer(alloc), &mut record.root, finger, key, cell)?;
        self.put_record(id, record);
        Ok(Outcome::from(!new))
    }

    fn delete(&mut self, id: u32, key: &[u8]) -> Result<Outcome> {
        let Some(mut record) = self.record_with_keys(id)? else { return Ok(Outcome::NoTable) };
        if record.kind == TableKind::Dup {
            return self.delete_values(id, record, key);
        }
        let pager = self.pager;
        if record.large > 0 {
            let old = Tree::get(pager, &record.root, key)?;
            self.mark_dead(&mut record, old)?;
        }
        let before = record.root;
        let there = Tree::delete(&mut pager.writer(&mut self.writer.alloc), &mut record.root, key)?;
        if record.root != before {
            self.put_record(id, record);
        }
        Ok(Outcome::from(there))
    }

    fn put_row(&mut self, id: u32, row: u64, value: &[u8]) -> Result<Outcome> {
        if let Some((mut sink, record, finger)) = self.in_place(id, TableKind::Rows, value) {
            let Record { root, next_row, .. } = record;
            return RowTree::put_at(&mut sink, root, next_row, finger, row, Value::inline(value))
                .map(|new| Outcome::from(!new));
        }
        self.writer.fingers.reset_table(id);
        let Some(mut record) = self.record(id, TableKind::Rows)? else { return Ok(Outcome::NoTable) };
        let pager = self.pager;
        let mut root = RowRoot { tree: record.root, next: record.next_row };
        if record.large > 0 {
            let old = RowTree::get(pager, &root.tree, row)?;
            self.mark_dead(&mut record, old)?;
        }
        let mut place = [0; 16];
        let cell = if value.len() <= INLINE {
            Value::inline(value)
        } else {
            let mut owner = [0; 13];
            owner[0] = TableKind::Rows.to_byte();
            owner[1..5].copy_from_slice(&id.to_le_bytes());
            owner[5..].copy_from_slice(&row.to_le_bytes());
            self.cell(&owner, value, &mut place)?
        };
        record.large += u64::from(cell.pointer);
        let new = RowTree::put(&mut pager.writer(&mut self.writer.alloc), &mut root, row, cell)?;
        (record.root, record.next_row) = (root.tree, root.next);
        self.put_record(id, record);
        Ok(Outcome::from(!new))
    }

    fn delete_row(&mut self, id: u32, row: u64) -> Result<Outcome> {
        let Some(mut record) = self.record(id, TableKind::Rows)? else { return Ok(Outcome::NoTable) };
        let pager = self.pager;
        let mut root = RowRoot { tree: record.root, next: record.next_row };
        if record.large > 0 {
            let old = RowTree::get(pager, &root.tree, row)?;
            self.mark_dead(&mut record, old)?;
        }
        let there = RowTree::delete(&mut pager.writer(&mut self.writer.alloc), &mut root, row)?;
        if record.root != root.tree {
            (record.root, record.next_row) = (root.tree, root.next);
            self.put_record(id, record);
        }
        Ok(Outcome::from(there))
    }

    fn create(&mut self, id: u32, kind: TableKind, name: &str) -> Result<Outcome> {
        dup::check_kind(kind)?;
        if catalog::by_name(self.pager, &self.writer.catalog, name)?.is_some() {
            return Ok(Outcome::Existed);
        }
        let mut sink = self.pager.writer(&mut self.writer.alloc);
        catalog::create(&mut sink, &mut self.writer.catalog, id, kind, name)?;
        self.writer.tables.insert(id, OpenTable { record: Record::new(kind), changed: false });
        Ok(Outcome::Absent)
    }

    fn drop(&mut self, id: u32, name: &str) -> Result<Outcome> {
        let pager = self.pager;
        let named = catalog::by_name(pager, &self.writer.catalog, name)?.is_some_and(|table| table.id == id);
        let Some(mut record) = self.writer.record(pager, id)?.filter(|_| named) else {
            return Ok(Outcome::NoTable);
        };
        self.empty(&mut record)?;
        let mut sink = pager.writer(&mut self.writer.alloc);
        catalog::remove(&mut sink, &mut self.writer.catalog, id, name)?;
        self.writer.tables.remove(&id);
        Ok(Outcome::Existed)
    }

    fn rename(&mut self, id: u32, old: &str, new: &str) -> Result<Outcome> {
        let (pager, root) = (self.pager, self.writer.catalog);
        let named = catalog::by_name(pager, &root, old)?.is_some_and(|table| table.id == id);
        if !named || catalog::by_name(pager, &root, new)?.is_some() {
            return Ok(Outcome::NoTable);
        }
        let mut sink = pager.writer(&mut self.writer.alloc);
        catalog::rename(&mut sink, &mut self.writer.catalog, id, old, new)?;
        Ok(Outcome::Existed)
    }

    fn delete_rows(&mut self, id: u32, from: u64, to: u64) -> Result<Outcome> {
        let Some(mut record) = self.record(id, TableKind::Rows)? else { return Ok(Outcome::NoTable) };
        let pager = self.pager;
        let mut root = RowRoot { tree: record.root, next: record.next_row };
        let mut rows = Vec::new();
        let mut cursor = RowTree::cursor(pager, &root);
        let mut on = cursor.seek(from)?;
        while let Some((row, cell)) = cursor.row().filter(|&(row, _)| on && row < to) {
            self.mark_dead(&mut record, Some(cell))?;
            rows.push(row);
            on = cursor.next()?;
        }
        if rows.is_empty() {
            return Ok(Outcome::Absent);
        }
        if rows.len() as u64 == root.tree.entries {
            RowTree::clear(&mut self.sink(), &mut root)?;
        } else {
            for row in rows {
                RowTree::delete(&mut self.sink(), &mut root, row)?;
            }
        }
        record.root = root.tree;
        self.put_record(id, record);
        Ok(Outcome::Existed)
    }

    /// Removes everything in a table; its row numbers are not reused.
    fn empty(&mut self, record: &mut Record) -> Result<()> {
        let pager = self.pager;
        let mut root = RowRoot { tree: record.root, next: record.next_row };
        match record.kind {
            TableKind::Ordered => {
                self.mark_range_dead(record, (Bound::Unbounded, Bound::Unbounded))?;
                Tree::clear(&mut pager.writer(&mut self.writer.alloc), &mut record.root)
            }
            TableKind::Dup => {
                self.free_values_in(record, (Bound::Unbounded, Bound::Unbounded))?;
                Tree::clear(&mut self.sink(), &mut record.root)
            }
            TableKind::Rows => {
                if record.large > 0 {
                    let mut cursor = RowTree::cursor(pager, &root);
                    while cursor.next()? {
                        self.mark_dead(record, cursor.row().map(|(_, cell)| cell))?;
                    }
                }
                RowTree::clear(&mut pager.writer(&mut self.writer.alloc), &mut root)?;
                record.root = root.tree;
                Ok(())
            }
        }
    }

    /// Records that the large values within `bounds` are removed. Nothing is read if the table has none.
    fn mark_range_dead(&mut self, record: &mut Record, bounds: Bounds<'_>) -> Result<()> {
        if record.large == 0 {
            return Ok(());
        }
        let mut cursor = Tree::cursor(self.pager, &record.root);
        let mut on = match bounds.0 {
            Bound::Included(key) | Bound::Excluded(key) => cursor.seek(key)?,
            Bound::Unbounded => cursor.first()?,
        };
        while on && record.large > 0 {
            // Most values are not large; their keys need not be assembled.
            let cell = cursor.value().filter(|cell| cell.pointer);
            if let (Some(cell), Some(key)) = (cell, cursor.key()?) {
                if !is_below(key, bounds.1) {
                    break;
                }
                if is_above(key, bounds.0) {
                    self.mark_dead(record, Some(cell))?;
                }
            }
            on = cursor.next()?;
        }
        Ok(())
    }

    fn clear(&mut self, id: u32) -> Result<Outcome> {
        let Some(mut record) = self.writer.record(self.pager, id)? else { return Ok(Outcome::NoTable) };
        if record.root.entries == 0 {
            return Ok(Outcome::Absent);
        }
        self.empty(&mut record)?;
        self.put_record(id, record);
        Ok(Outcome::Existed)
    }

    fn delete_range(&mut self, id: u32, bounds: Bounds<'_>) -> Result<Outcome> {
        let Some(mut record) = self.record_with_keys(id)? else { return Ok(Outcome::NoTable) };
        match record.kind {
            TableKind::Dup => self.free_values_in(&mut record, bounds)?,
            _ => self.mark_range_dead(&mut record, bounds)?,
        }
        let mut sink = self.pager.writer(&mut self.writer.alloc);
        let removed = Tree::delete_range(&mut sink, &mut record.root, bounds)?;
        if removed > 0 {
            self.put_record(id, record);
        }
        Ok(Outcome::from(removed > 0))
    }

    /// Writes the changed records into the catalog and returns its root, ready to be published.
    pub(crate) fn finish(&mut self) -> Result<[u8; 16]> {
        let Writer { alloc, catalog, tables, .. } = &mut *self.writer;
        let _epoch = self.pager.enter_epoch();
        let mut sink = self.pager.writer(alloc);
        // The records of a collection and its indexes are neighbours, and every commit stores them.
        let mut finger = Finger::for_neighbours();
        for (&id, open) in tables.iter_mut().filter(|(_, open)| open.changed) {
            catalog::store(&mut sink, catalog, &mut finger, id, &open.record)?;
            open.changed = false;
        }
        Ok(catalog.to_bytes())
    }
}

/// Refuses rows that no table takes, before anything is changed.
pub(crate) fn check_row(row: u64, value_len: usize) -> Result<()> {
    if row == u64::MAX {
        return Err(Error::Invalid("row numbers end below 2^64 - 1: use a lower one".into()));
    }
    check_limits(&[], value_len)
}

/// Refuses keys and values that no table takes, before anything is changed or copied.
pub(crate) fn check_limits(key: &[u8], value_len: usize) -> Result<()> {
    if key.len() > super::MAX_KEY {
        return Err(Error::KeyTooLong { len: key.len(), limit: super::MAX_KEY });
    }
    if value_len as u64 > MAX_VALUE {
        return Err(Error::ValueTooLong { len: value_len as u64, limit: MAX_VALUE });
    }
    Ok(())
}
