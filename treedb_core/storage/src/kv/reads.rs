//! The reads that every transaction offers.

use std::ops::{self, Bound};

use super::arena::Arena;
use super::catalog::{self, Record, Table, TableKind};
use super::cursor::{Cursor, Range, Rows};
#[cfg(feature = "dup-tables")]
use super::dup::{DupCursor, DupValues, KeyValues, Pairs};
use super::large_values;
use super::stats::TableStats;
use super::table_version::{self, TableVersion};
use crate::Result;
use crate::btree::{RowRoot, RowTree, Tree, TreeRoot, Value};
use crate::page::Pager;
use crate::vlog::ValueLog;
use treedb_formats::key::after_prefix;

/// A range of keys: each end is included, excluded or unbounded.
pub type Bounds<'b> = (Bound<&'b [u8]>, Bound<&'b [u8]>);

/// Whether `key` is not below a range that begins at `low`.
pub(crate) fn is_above(key: &[u8], low: Bound<&[u8]>) -> bool {
    match low {
        Bound::Included(low) => key >= low,
        Bound::Excluded(low) => key > low,
        Bound::Unbounded => true,
    }
}

/// Whether `key` is not above a range that ends at `high`.
pub(crate) fn is_below(key: &[u8], high: Bound<&[u8]>) -> bool {
    match high {
        Bound::Included(high) => key <= high,
        Bound::Excluded(high) => key < high,
        Bound::Unbounded => true,
    }
}

/// A key, assembled from its page, and its value, borrowed from there.
pub type Entry<'a> = (Vec<u8>, &'a [u8]);

/// What a transaction reads from. Not part of the API: it seals [`Reads`].
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct ReadContext<'a> {
    pub(crate) pager: &'a Pager,
    pub(crate) values: &'a ValueLog,
    /// Where results are copied to, if the page file is not mapped.
    pub(crate) arena: Option<&'a Arena>,
}

impl<'a> ReadContext<'a> {
    /// [`Reads::get`], of a file that is not mapped.
    #[cold]
    fn get_copied(self, root: &TreeRoot, key: &[u8]) -> Result<Option<&'a [u8]>> {
        let _epoch = self.pager.enter_epoch();
        self.resolve_for_txn(Tree::get(self.pager, root, key)?)
    }

    /// [`Reads::row`], of a file that is not mapped.
    #[cold]
    fn row_copied(self, root: &TreeRoot, row: u64) -> Result<Option<&'a [u8]>> {
        let _epoch = self.pager.enter_epoch();
        self.resolve_for_txn(RowTree::get(self.pager, root, row)?)
    }

    fn resolve_for_txn(self, cell: Option<Value<'a>>) -> Result<Option<&'a [u8]>> {
        cell.map(|cell| large_values::resolve_for_txn(self.pager, self.values, cell, self.arena)).transpose()
    }

    /// Passes `visit` the value of a cell, which is read within an epoch; false if there is none.
    fn lend(self, cell: Option<Value<'_>>, visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let Some(cell) = cell else { return Ok(false) };
        if cell.pointer && self.arena.is_some() {
            visit(large_values::copy(self.pager, self.values, cell, &mut Vec::new())?);
        } else {
            visit(large_values::resolve(self.pager, self.values, cell)?);
        }
        Ok(true)
    }
}

/// A table as a transaction sees it. Not part of the API.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct TableState {
    pub(crate) record: Record,
}

impl TableState {
    /// Whether this and `other`, found by two transactions of which one is a snapshot that is still open, are of a table
    /// with the same content. False does not mean that the content differs.
    pub fn is_same(&self, other: &TableState) -> bool {
        self.record == other.record
    }

    pub(crate) fn rows(&self) -> RowRoot {
        RowRoot { tree: self.record.root, next: self.record.next_row }
    }
}

/// Reading: of a snapshot ([`ReadTxn`](super::ReadTxn), [`Snapshot`](super::Snapshot)), or of a
/// [`WriteTxn`](super::WriteTxn), which sees its own changes.
///
/// Values are borrowed from the mapped files; nothing is copied. With a bounded cache
/// ([`Options::cache_bytes`](super::Options::cache_bytes)) the result of a call is copied to memory of the
/// transaction, which grows with it; cursors, [`Rows::lend_next`] and [`Reads::visit`] do without. Errors common to all: `NoSuchTable` if the table
/// does not exist in this transaction, `TableMismatch` if it is of another kind, `Corrupt` for damage.
pub trait Reads {
    #[doc(hidden)]
    fn context(&self) -> ReadContext<'_>;
    #[doc(hidden)]
    fn catalog(&self) -> Result<TreeRoot>;
    #[doc(hidden)]
    fn find(&self, table: &Table) -> Result<TableState>;
    /// The root that [`Reads::find`] returns, where nothing else of the record is needed.
    #[doc(hidden)]
    #[inline]
    fn root(&self, table: &Table) -> Result<TreeRoot> {
        Ok(self.find(table)?.record.root)
    }

    /// An unnamed temporary file, for data that does not fit in memory; `None` where none is available.
    #[doc(hidden)]
    fn scratch(&self) -> Result<Option<std::fs::File>> {
        Ok(None)
    }

    /// Number of the transaction that it sees, which is committed; `None` for a transaction in progress.
    fn committed(&self) -> Option<u64> {
        None
    }

    /// Which state of a table it sees; `None` for a transaction in progress, which may change it.
    fn version(&self, table: &Table) -> Result<Option<TableVersion>> {
        self.committed().map(|_| TableVersion::of(self, table)).transpose()
    }

    /// Ranges of row numbers, ascending, that have all rows of a table that were stored since transaction `since`, and others. Of the
    /// rows deleted since then, most were in them; where the number of rows does not tell that all were, all rows need to be
    /// looked at.
    fn new_rows(&self, table: &Table, since: u64) -> Result<Vec<ops::Range<u64>>> {
        table_version::new_rows(self, table, since)
    }

    /// The rows of a table that were stored or deleted after transaction `since`, ascending, and maybe some that were stored as they
    /// were; `None` if that is not known: the first time that a table is asked about, from which on commits keep count of it; after
    /// many changes, many commits without a question, a change of a whole range, and a commit of something else (a compaction) before the
    /// first one that keeps count; and if somebody has asked since a later transaction.
    fn changed_rows(&self, table: &Table, since: u64) -> Option<Vec<u64>> {
        let _ = (table, since);
        None
    }

    /// The table with this name, `None` if there is none.
    fn table(&self, name: &str) -> Result<Option<Table>> {
        let pager = self.context().pager;
        let _epoch = pager.enter_epoch();
        catalog::by_name(pager, &self.catalog()?, name)
    }

    /// All tables, by name.
    fn tables(&self) -> Result<Vec<Table>> {
        let pager = self.context().pager;
        let _epoch = pager.enter_epoch();
        catalog::all(pager, &self.catalog()?)
    }

    /// The value of `key`, `None` if it is not there.
    #[inline]
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<&[u8]>> {
        table.expect(TableKind::Ordered)?;
        let root = self.root(table)?;
        let context = self.context();
        if context.arena.is_some() {
            return context.get_copied(&root, key);
        }
        match Tree::get(context.pager, &root, key)? {
            Some(cell) => large_values::resolve(context.pager, context.values, cell).map(Some),
            None => Ok(None),
        }
    }

    /// Calls `visit` with the value of `key`; returns false, without a call, if it is not there. Whatever the store's cache is,
    /// nothing is copied but large values, and nothing is kept.
    fn visit(&self, table: &Table, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        table.expect(TableKind::Ordered)?;
        let found = self.find(table)?;
        let context = self.context();
        let _epoch = context.pager.enter_epoch();
        context.lend(Tree::get(context.pager, &found.record.root, key)?, visit)
    }

    /// Calls `visit` with row `row`, as [`Reads::visit`] does.
    fn visit_row(&self, table: &Table, row: u64, visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        table.expect(TableKind::Rows)?;
        let found = self.find(table)?;
        let context = self.context();
        let _epoch = context.pager.enter_epoch();
        context.lend(RowTree::get(context.pager, &found.record.root, row)?, visit)
    }

    /// Calls `visit` with those of `rows` that are there, in their order, and with the place of each among them, until it returns false;
    /// as [`Reads::visit_row`] does with each, but the next row is on its way from memory meanwhile, if pages are mapped.
    fn visit_rows(
        &self,
        table: &Table,
        rows: &mut dyn Iterator<Item = u64>,
        visit: &mut dyn FnMut(usize, &[u8]) -> bool,
    ) -> Result<()> {
        table.expect(TableKind::Rows)?;
        let (mut rows, mut goes_on) = (rows.enumerate(), true);
        let context = self.context();
        if context.arena.is_some() {
            // One epoch for all rows would keep their pages in a cache that has a bound.
            while let Some((place, row)) = rows.next().filter(|_| goes_on) {
                self.visit_row(table, row, &mut |value| goes_on = visit(place, value))?;
            }
            return Ok(());
        }
        let found = self.find(table)?;
        let find = |(place, row): (usize, u64)| -> Result<(usize, Option<Value<'_>>)> {
            let cell = RowTree::get(context.pager, &found.record.root, row)?;
            cell.into_iter().for_each(|cell| large_values::prefetch(context.pager, context.values, cell));
            Ok((place, cell))
        };
        let _epoch = context.pager.enter_epoch();
        let mut next = rows.next().map(find);
        while let Some(found) = next.take().filter(|_| goes_on) {
            let (place, cell) = found?;
            next = rows.next().map(find);
            context.lend(cell, &mut |value| goes_on = visit(place, value))?;
        }
        Ok(())
    }

    /// The values of `keys`, in the same order, each as [`Reads::get`] gives it. Faster than single reads: adjacent keys in
    /// ascending order share their descent, and for others the waits for memory overlap.
    fn get_many(&self, table: &Table, keys: &[&[u8]]) -> Result<Vec<Option<&[u8]>>> {
        table.expect(TableKind::Ordered)?;
        let found = self.find(table)?;
        let context = self.context();
        let mut values = Vec::with_capacity(keys.len());
        let _epoch = context.pager.enter_epoch();
        Tree::get_many(context.pager, &found.record.root, keys, &mut |_, cell| {
            let value = cell.map(|cell| {
                large_values::resolve_for_txn(context.pager, context.values, cell, context.arena)
            });
            values.push(value.transpose()?);
            Ok(())
        })?;
        Ok(values)
    }

    /// The lowest key and its value, `None` if the table is empty.
    fn first(&self, table: &Table) -> Result<Option<Entry<'_>>> {
        let mut cursor = self.cursor(table)?;
        cursor.first()?;
        cursor.keep(self.context().arena)
    }

    /// The highest key and its value, `None` if the table is empty.
    fn last(&self, table: &Table) -> Result<Option<Entry<'_>>> {
        let mut cursor = self.cursor(table)?;
        cursor.last()?;
        cursor.keep(self.context().arena)
    }

    /// A cursor over the keys, not yet on any.
    fn cursor(&self, table: &Table) -> Result<Cursor<'_>> {
        table.expect(TableKind::Ordered)?;
        let found = self.find(table)?;
        let context = self.context();
        Ok(Cursor::new(context.pager, context.values, &found.record.root))
    }

    /// Keys and values within `bounds`, from both ends.
    fn range(&self, table: &Table, bounds: Bounds<'_>) -> Result<Range<'_>> {
        table.expect(TableKind::Ordered)?;
        let found = self.find(table)?;
        let context = self.context();
        Ok(Range::new(context, &found.record.root, bounds))
    }

    /// Keys that begin with `prefix`, and their values, from both ends. The empty prefix is that of all keys.
    fn prefix(&self, table: &Table, prefix: &[u8]) -> Result<Range<'_>> {
        let end = after_prefix(prefix);
        let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.range(table, (Bound::Included(prefix), to))
    }

    /// Row `row`, `None` if it is not there.
    #[inline]
    fn row(&self, table: &Table, row: u64) -> Result<Option<&[u8]>> {
        table.expect(TableKind::Rows)?;
        let root = self.root(table)?;
        let context = self.context();
        if context.arena.is_some() {
            return context.row_copied(&root, row);
        }
        match RowTree::get(context.pager, &root, row)? {
            Some(cell) => large_values::resolve(context.pager, context.values, cell).map(Some),
            None => Ok(None),
        }
    }

    /// The rows from number `from` on, from both ends.
    fn rows(&self, table: &Table, from: u64) -> Result<Rows<'_>> {
        table.expect(TableKind::Rows)?;
        let found = self.find(table)?;
        let context = self.context();
        Ok(Rows::new(context, &found.rows(), from))
    }

    /// The number that the next row appended to a table of rows gets: greater than those of all that are there.
    fn next_row(&self, table: &Table) -> Result<u64> {
        table.expect(TableKind::Rows)?;
        Ok(self.find(table)?.record.next_row)
    }

    /// Number of entries: of keys, of rows, of pairs in a dup table.
    fn len(&self, table: &Table) -> Result<u64> {
        Ok(self.find(table)?.record.entries())
    }

    /// About how many keys are within `bounds`, from the descents to its two ends: exact within one page, otherwise assuming
    /// that every child of a branch has the same number.
    fn estimate(&self, table: &Table, (from, to): Bounds<'_>) -> Result<u64> {
        table.expect(TableKind::Ordered)?;
        let root = self.root(table)?;
        let pager = self.context().pager;
        let _epoch = pager.enter_epoch();
        let part = |key: &[u8]| Tree::part_below(pager, &root, key);
        let low = match from {
            Bound::Included(key) | Bound::Excluded(key) if !key.is_empty() => part(key)?,
            _ => 0.0,
        };
        let high = match to {
            Bound::Included(key) | Bound::Excluded(key) => part(key)?,
            Bound::Unbounded => 1.0,
        };
        Ok(((high - low).max(0.0) * root.entries as f64).round() as u64)
    }

    /// True if the table has no entries.
    fn is_empty(&self, table: &Table) -> Result<bool> {
        Ok(self.len(table)? == 0)
    }

    /// Whether `value` is one of the values of `key` in a dup table.
    #[cfg(feature = "dup-tables")]
    fn contains_pair(&self, table: &Table, key: &[u8], value: &[u8]) -> Result<bool> {
        let _epoch = self.context().pager.enter_epoch();
        match self.key_values(table, key)? {
            Some(held) => held.contains(self.context().pager, value),
            None => Ok(false),
        }
    }

    /// How many values `key` has in a dup table. They are not read for it.
    #[cfg(feature = "dup-tables")]
    fn count_values(&self, table: &Table, key: &[u8]) -> Result<u64> {
        Ok(self.key_values(table, key)?.map_or(0, |held| held.count()))
    }

    /// The values of `key` in a dup table, from both ends.
    #[cfg(feature = "dup-tables")]
    fn values(&self, table: &Table, key: &[u8]) -> Result<DupValues<'_>> {
        self.values_in(table, key, (Bound::Unbounded, Bound::Unbounded))
    }

    /// The values of `key` in a dup table that are within `bounds`, from both ends.
    #[cfg(feature = "dup-tables")]
    fn values_in(&self, table: &Table, key: &[u8], bounds: Bounds<'_>) -> Result<DupValues<'_>> {
        let held = self.key_values(table, key)?;
        DupValues::new(self.context(), held, bounds)
    }

    /// The pairs of the keys within `bounds` in a dup table, by key and then by value, from both ends.
    #[cfg(feature = "dup-tables")]
    fn pairs(&self, table: &Table, bounds: Bounds<'_>) -> Result<Pairs<'_>> {
        table.expect(TableKind::Dup)?;
        let found = self.find(table)?;
        Ok(Pairs::new(self.context().pager, &found.record.root, bounds))
    }

    /// A cursor over the pairs of a dup table, not yet on any.
    #[cfg(feature = "dup-tables")]
    fn dup_cursor(&self, table: &Table) -> Result<DupCursor<'_>> {
        table.expect(TableKind::Dup)?;
        let found = self.find(table)?;
        Ok(DupCursor::new(self.context().pager, &found.record.root))
    }

    #[cfg(feature = "dup-tables")]
    #[doc(hidden)]
    fn key_values(&self, table: &Table, key: &[u8]) -> Result<Option<KeyValues<'_>>> {
        table.expect(TableKind::Dup)?;
        let found = self.find(table)?;
        let context = self.context();
        let _epoch = context.pager.enter_epoch();
        let Some(cell) = Tree::get(context.pager, &found.record.root, key)? else { return Ok(None) };
        let bytes = context.arena.map_or(cell.bytes, |arena| arena.keep(cell.bytes));
        KeyValues::open(context.pager, Value { bytes, ..cell }).map(Some)
    }

    /// Statistics of a table; its branches are read for them, not its leaves, but for a dup table with many values under
    /// some key.
    fn table_stats(&self, table: &Table) -> Result<TableStats> {
        let found = self.find(table)?;
        let pager = self.context().pager;
        let _epoch = pager.enter_epoch();
        TableStats::of(pager, table, &found.record)
    }

    /// Statistics of all tables, by name.
    fn all_table_stats(&self) -> Result<Vec<TableStats>> {
        self.tables()?.iter().map(|table| self.table_stats(table)).collect()
    }
}
