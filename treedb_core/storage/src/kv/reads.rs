//! What every transaction offers for reading.

use std::cell::Cell;
use std::ops::Bound;

use super::arena::Arena;
use super::catalog::{self, Record, Table, TableKind};
use super::cursor::{Cursor, Range, Rows};
use super::dup::{DupCursor, DupValues, Held, Pairs};
use super::figures::TableStats;
use super::values;
use crate::Result;
use crate::btree::{RowRoot, RowTree, Tree, TreeRoot, Value};
use crate::page::Pager;
use crate::vlog::ValueLog;

/// From where to where: both ends may be included, excluded or open.
pub type Bounds<'b> = (Bound<&'b [u8]>, Bound<&'b [u8]>);

/// Whether `key` is not below a range that begins at `low`.
pub(crate) fn above(key: &[u8], low: Bound<&[u8]>) -> bool {
    match low {
        Bound::Included(low) => key >= low,
        Bound::Excluded(low) => key > low,
        Bound::Unbounded => true,
    }
}

/// Whether `key` is not above a range that ends at `high`.
pub(crate) fn below(key: &[u8], high: Bound<&[u8]>) -> bool {
    match high {
        Bound::Included(high) => key <= high,
        Bound::Excluded(high) => key < high,
        Bound::Unbounded => true,
    }
}

/// A key, put together from its page, and its value, borrowed from there.
pub type Entry<'a> = (Vec<u8>, &'a [u8]);

/// Where a transaction reads. Not for use outside: it seals [`Reads`].
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Look<'a> {
    pub(crate) pager: &'a Pager,
    pub(crate) values: &'a ValueLog,
    /// Where answers are copied to, if the page file is not mapped.
    pub(crate) arena: Option<&'a Arena>,
}

impl<'a> Look<'a> {
    /// [`Reads::get`], of a file that is not mapped.
    #[cold]
    fn get_copied(self, root: &TreeRoot, key: &[u8]) -> Result<Option<&'a [u8]>> {
        let _stay = self.pager.stay();
        self.answer(Tree::get(self.pager, root, key)?)
    }

    /// [`Reads::row`], of a file that is not mapped.
    #[cold]
    fn row_copied(self, root: &TreeRoot, row: u64) -> Result<Option<&'a [u8]>> {
        let _stay = self.pager.stay();
        self.answer(RowTree::get(self.pager, root, row)?)
    }

    fn answer(self, cell: Option<Value<'a>>) -> Result<Option<&'a [u8]>> {
        cell.map(|cell| values::answer(self.pager, self.values, cell, self.arena)).transpose()
    }

    /// Shows `visit` the value of a cell, which is read during a stay; false if there is none.
    fn lend(self, cell: Option<Value<'_>>, visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let Some(cell) = cell else { return Ok(false) };
        if cell.pointer && self.arena.is_some() {
            visit(values::copy(self.pager, self.values, cell, &mut Vec::new())?);
        } else {
            visit(values::resolve(self.pager, self.values, cell)?);
        }
        Ok(true)
    }
}

/// What the catalog says of a table. Not for use outside.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Found(pub(crate) Record);

impl Found {
    /// Whether this and `other`, found by two transactions of which one is a snapshot that is still held, are of a table
    /// with the same content. They may not be, and the content be the same.
    pub fn is_same(&self, other: &Found) -> bool {
        self.0 == other.0
    }

    pub(crate) fn rows(&self) -> RowRoot {
        RowRoot { tree: self.0.root, next: self.0.next_row }
    }
}

/// Reading: of a snapshot ([`ReadTxn`](super::ReadTxn), [`Snapshot`](super::Snapshot)), or of a
/// [`WriteTxn`](super::WriteTxn), which sees its own changes.
///
/// Values are borrowed from the mapped files; nothing is copied. With a bounded cache
/// ([`Options::cache_bytes`](super::Options::cache_bytes)) what a call answers with is copied to memory of the
/// transaction's, which grows with it; cursors, [`Rows::lend_next`] and [`Reads::visit`] do without. Errors common to all: `NoSuchTable` if the table
/// does not exist in this transaction, `TableMismatch` if it is of the other kind, `Corrupt` for damage.
pub trait Reads {
    #[doc(hidden)]
    fn look(&self) -> Look<'_>;
    #[doc(hidden)]
    fn catalog(&self) -> Result<TreeRoot>;
    #[doc(hidden)]
    fn find(&self, table: &Table) -> Result<Found>;
    /// What [`Reads::find`] tells, for those who need no more of it.
    #[doc(hidden)]
    #[inline]
    fn root(&self, table: &Table) -> Result<TreeRoot> {
        Ok(self.find(table)?.0.root)
    }

    /// A file without a name for what does not fit in memory; `None` where there is none to be had.
    #[doc(hidden)]
    fn scratch(&self) -> Result<Option<std::fs::File>> {
        Ok(None)
    }

    /// The table with this name, `None` if there is none.
    fn table(&self, name: &str) -> Result<Option<Table>> {
        let pager = self.look().pager;
        let _stay = pager.stay();
        catalog::by_name(pager, &self.catalog()?, name)
    }

    /// All tables, by name.
    fn tables(&self) -> Result<Vec<Table>> {
        let pager = self.look().pager;
        let _stay = pager.stay();
        catalog::all(pager, &self.catalog()?)
    }

    /// The value of `key`, `None` if it is not there.
    #[inline]
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<&[u8]>> {
        table.expect(TableKind::Ordered)?;
        let root = self.root(table)?;
        let look = self.look();
        if look.arena.is_some() {
            return look.get_copied(&root, key);
        }
        match Tree::get(look.pager, &root, key)? {
            Some(cell) => values::resolve(look.pager, look.values, cell).map(Some),
            None => Ok(None),
        }
    }

    /// Lends the value of `key` to `visit`; false, and no visit, if it is not there. Whatever the store's cache is,
    /// nothing is copied but large values, and nothing is kept.
    fn visit(&self, table: &Table, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        table.expect(TableKind::Ordered)?;
        let found = self.find(table)?;
        let look = self.look();
        let _stay = look.pager.stay();
        look.lend(Tree::get(look.pager, &found.0.root, key)?, visit)
    }

    /// Lends row `row` to `visit`, as [`Reads::visit`] does.
    fn visit_row(&self, table: &Table, row: u64, visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        table.expect(TableKind::Rows)?;
        let found = self.find(table)?;
        let look = self.look();
        let _stay = look.pager.stay();
        look.lend(RowTree::get(look.pager, &found.0.root, row)?, visit)
    }

    /// The values of `keys`, in the same order, each as [`Reads::get`] gives it. Faster than so many single reads: keys
    /// in rising order share their way through the tree where they are near each other, and for others the waits
    /// for memory overlap.
    fn get_many(&self, table: &Table, keys: &[&[u8]]) -> Result<Vec<Option<&[u8]>>> {
        table.expect(TableKind::Ordered)?;
        let found = self.find(table)?;
        let look = self.look();
        let mut values = Vec::with_capacity(keys.len());
        let _stay = look.pager.stay();
        Tree::get_many(look.pager, &found.0.root, keys, &mut |_, cell| {
            let value = cell.map(|cell| values::answer(look.pager, look.values, cell, look.arena));
            values.push(value.transpose()?);
            Ok(())
        })?;
        Ok(values)
    }

    /// The lowest key and its value, `None` if the table is empty.
    fn first(&self, table: &Table) -> Result<Option<Entry<'_>>> {
        let mut cursor = self.cursor(table)?;
        cursor.first()?;
        cursor.keep(self.look().arena)
    }

    /// The highest key and its value, `None` if the table is empty.
    fn last(&self, table: &Table) -> Result<Option<Entry<'_>>> {
        let mut cursor = self.cursor(table)?;
        cursor.last()?;
        cursor.keep(self.look().arena)
    }

    /// A cursor over the keys, not yet on any.
    fn cursor(&self, table: &Table) -> Result<Cursor<'_>> {
        table.expect(TableKind::Ordered)?;
        let found = self.find(table)?;
        let look = self.look();
        Ok(Cursor::new(look.pager, look.values, &found.0.root))
    }

    /// Keys and values within `bounds`, from both ends.
    fn range(&self, table: &Table, bounds: Bounds<'_>) -> Result<Range<'_>> {
        table.expect(TableKind::Ordered)?;
        let found = self.find(table)?;
        let look = self.look();
        Ok(Range::new(look, &found.0.root, bounds))
    }

    /// Keys that begin with `prefix`, and their values, from both ends. The empty prefix is that of all keys.
    fn prefix(&self, table: &Table, prefix: &[u8]) -> Result<Range<'_>> {
        let end = above_prefix(prefix);
        let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.range(table, (Bound::Included(prefix), to))
    }

    /// Row `row`, `None` if it is not there.
    #[inline]
    fn row(&self, table: &Table, row: u64) -> Result<Option<&[u8]>> {
        table.expect(TableKind::Rows)?;
        let root = self.root(table)?;
        let look = self.look();
        if look.arena.is_some() {
            return look.row_copied(&root, row);
        }
        match RowTree::get(look.pager, &root, row)? {
            Some(cell) => values::resolve(look.pager, look.values, cell).map(Some),
            None => Ok(None),
        }
    }

    /// The rows from number `from` on, from both ends.
    fn rows(&self, table: &Table, from: u64) -> Result<Rows<'_>> {
        table.expect(TableKind::Rows)?;
        let found = self.find(table)?;
        let look = self.look();
        Ok(Rows::new(look, &found.rows(), from))
    }

    /// Number of entries: of keys, of rows, of pairs in a dup table.
    fn len(&self, table: &Table) -> Result<u64> {
        Ok(self.find(table)?.0.entries())
    }

    /// About how many keys lie within `bounds`, from the two ways down to its ends: exact within one page, otherwise as
    /// if every child of a branch had as many.
    fn estimate(&self, table: &Table, (from, to): Bounds<'_>) -> Result<u64> {
        table.expect(TableKind::Ordered)?;
        let root = self.root(table)?;
        let pager = self.look().pager;
        let _stay = pager.stay();
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
    fn contains_pair(&self, table: &Table, key: &[u8], value: &[u8]) -> Result<bool> {
        let _stay = self.look().pager.stay();
        match self.held(table, key)? {
            Some(held) => held.contains(self.look().pager, value),
            None => Ok(false),
        }
    }

    /// How many values `key` has in a dup table. They are not read for it.
    fn count_values(&self, table: &Table, key: &[u8]) -> Result<u64> {
        Ok(self.held(table, key)?.map_or(0, |held| held.count()))
    }

    /// The values of `key` in a dup table, from both ends.
    fn values(&self, table: &Table, key: &[u8]) -> Result<DupValues<'_>> {
        self.values_in(table, key, (Bound::Unbounded, Bound::Unbounded))
    }

    /// The values of `key` in a dup table that are within `bounds`, from both ends.
    fn values_in(&self, table: &Table, key: &[u8], bounds: Bounds<'_>) -> Result<DupValues<'_>> {
        let held = self.held(table, key)?;
        DupValues::new(self.look(), held, bounds)
    }

    /// The pairs of the keys within `bounds` in a dup table, by key and then by value, from both ends.
    fn pairs(&self, table: &Table, bounds: Bounds<'_>) -> Result<Pairs<'_>> {
        table.expect(TableKind::Dup)?;
        let found = self.find(table)?;
        Ok(Pairs::new(self.look().pager, &found.0.root, bounds))
    }

    /// A cursor over the pairs of a dup table, not yet on any.
    fn dup_cursor(&self, table: &Table) -> Result<DupCursor<'_>> {
        table.expect(TableKind::Dup)?;
        let found = self.find(table)?;
        Ok(DupCursor::new(self.look().pager, &found.0.root))
    }

    #[doc(hidden)]
    fn held(&self, table: &Table, key: &[u8]) -> Result<Option<Held<'_>>> {
        table.expect(TableKind::Dup)?;
        let found = self.find(table)?;
        let look = self.look();
        let _stay = look.pager.stay();
        let Some(cell) = Tree::get(look.pager, &found.0.root, key)? else { return Ok(None) };
        let bytes = look.arena.map_or(cell.bytes, |arena| arena.keep(cell.bytes));
        Held::open(look.pager, Value { bytes, ..cell }).map(Some)
    }

    /// Figures of a table; its branches are read for them, not its leaves, but for a dup table with many values under
    /// some key.
    fn table_stats(&self, table: &Table) -> Result<TableStats> {
        let found = self.find(table)?;
        let pager = self.look().pager;
        let _stay = pager.stay();
        TableStats::of(pager, table, &found.0)
    }

    /// Figures of all tables, by name.
    fn all_table_stats(&self) -> Result<Vec<TableStats>> {
        self.tables()?.iter().map(|table| self.table_stats(table)).collect()
    }
}

/// The lowest key above all that begin with `prefix`; `None` if there is none.
pub(crate) fn above_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte < u8::MAX)?;
    let mut end = prefix.get(..=last)?.to_vec();
    *end.last_mut()? += 1;
    Some(end)
}

/// The records of tables that this thread looked at last, so that reads do not descend the catalog each time. A
/// published transaction never changes, so what is known of it holds for every snapshot of it.
pub(crate) mod known {
    use super::{Cell, Pager, Record, Result, Table, TreeRoot, catalog};

    #[derive(Clone, Copy)]
    struct Known {
        /// Which pager of this process, which of its transactions, which table.
        of: (u64, u64, u32),
        record: Record,
    }

    thread_local! {
        static KNOWN: [Cell<Option<Known>>; 16] = const { [const { Cell::new(None) }; 16] };
    }

    #[inline(always)]
    fn slot_of(known: &[Cell<Option<Known>>; 16], table: &Table) -> Option<Known> {
        known[table.id as usize % known.len()].get()
    }

    /// The root of `table` in transaction `txn` of `pager`, which has this catalog.
    #[inline(always)]
    pub(crate) fn root(
        pager: &Pager,
        txn: u64,
        table: &Table,
        catalog: impl FnOnce() -> Result<TreeRoot>,
    ) -> Result<TreeRoot> {
        // Nothing but the root is copied: this is part of every get.
        match KNOWN.with(|known| slot_of(known, table)) {
            Some(known) if known.of == (pager.id(), txn, table.id) => Ok(known.record.root),
            _ => Ok(learn(pager, txn, table, catalog)?.root),
        }
    }

    /// The record of `table` in transaction `txn` of `pager`, which has this catalog.
    #[inline]
    pub(crate) fn record(
        pager: &Pager,
        txn: u64,
        table: &Table,
        catalog: impl FnOnce() -> Result<TreeRoot>,
    ) -> Result<Record> {
        match KNOWN.with(|known| slot_of(known, table)) {
            Some(known) if known.of == (pager.id(), txn, table.id) => Ok(known.record),
            _ => learn(pager, txn, table, catalog),
        }
    }

    #[cold]
    #[inline(never)]
    fn learn(
        pager: &Pager,
        txn: u64,
        table: &Table,
        catalog: impl FnOnce() -> Result<TreeRoot>,
    ) -> Result<Record> {
        let _stay = pager.stay();
        let record = catalog::record(pager, &catalog()?, table.id)?.ok_or_else(|| table.gone())?;
        let of = (pager.id(), txn, table.id);
        KNOWN.with(|known| known[table.id as usize % known.len()].set(Some(Known { of, record })));
        Ok(record)
    }
}
