//! What every transaction offers for reading.

use std::cell::Cell;
use std::ops::Bound;

use super::catalog::{self, Record, Table, TableKind};
use super::cursor::{Cursor, Range, Rows};
use super::values;
use crate::btree::{RowRoot, RowTree, Tree, TreeRoot};
use crate::error::Result;
use crate::page::Pager;
use crate::vlog::ValueLog;

/// From where to where: both ends may be included, excluded or open.
pub type Bounds<'b> = (Bound<&'b [u8]>, Bound<&'b [u8]>);

/// Where a transaction reads. Not for use outside: it seals [`Reads`].
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Look<'a> {
    pub(crate) pager: &'a Pager,
    pub(crate) values: &'a ValueLog,
    pub(crate) catalog: TreeRoot,
}

/// What the catalog says of a table. Not for use outside.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Found(pub(crate) Record);

impl Found {
    pub(crate) fn rows(&self) -> RowRoot {
        RowRoot { tree: self.0.root, next: self.0.next_row }
    }
}

/// Reading: of a snapshot ([`ReadTxn`](super::ReadTxn), [`Snapshot`](super::Snapshot)), or of a
/// [`WriteTxn`](super::WriteTxn), which sees its own changes.
///
/// Values are borrowed from the mapped files; nothing is copied. Errors common to all: `NoSuchTable` if the table
/// does not exist in this transaction, `TableMismatch` if it is of the other kind, `Corrupt` for damage.
pub trait Reads {
    #[doc(hidden)]
    fn look(&self) -> Look<'_>;
    #[doc(hidden)]
    fn find(&self, table: &Table) -> Result<Found>;

    /// The table with this name, `None` if there is none.
    fn table(&self, name: &str) -> Result<Option<Table>> {
        let look = self.look();
        catalog::by_name(look.pager, &look.catalog, name)
    }

    /// All tables, by name.
    fn tables(&self) -> Result<Vec<Table>> {
        let look = self.look();
        catalog::all(look.pager, &look.catalog)
    }

    /// The value of `key`, `None` if it is not there.
    #[inline]
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<&[u8]>> {
        table.expect(TableKind::Ordered)?;
        let found = self.find(table)?;
        let look = self.look();
        match Tree::get(look.pager, &found.0.root, key)? {
            Some(cell) => values::resolve(look.pager, look.values, cell).map(Some),
            None => Ok(None),
        }
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
        Ok(Range::new(look.pager, look.values, &found.0.root, bounds))
    }

    /// Row `row`, `None` if it is not there.
    #[inline]
    fn row(&self, table: &Table, row: u64) -> Result<Option<&[u8]>> {
        table.expect(TableKind::Rows)?;
        let found = self.find(table)?;
        let look = self.look();
        match RowTree::get(look.pager, &found.rows(), row)? {
            Some(cell) => values::resolve(look.pager, look.values, cell).map(Some),
            None => Ok(None),
        }
    }

    /// The rows from number `from` on, from both ends.
    fn rows(&self, table: &Table, from: u64) -> Result<Rows<'_>> {
        table.expect(TableKind::Rows)?;
        let found = self.find(table)?;
        let look = self.look();
        Ok(Rows::new(look.pager, look.values, &found.rows(), from))
    }

    /// Number of entries.
    fn len(&self, table: &Table) -> Result<u64> {
        Ok(self.find(table)?.0.root.entries)
    }

    /// True if the table has no entries.
    fn is_empty(&self, table: &Table) -> Result<bool> {
        Ok(self.len(table)? == 0)
    }
}

/// The records of the tables a snapshot looked at last, so that it does not descend the catalog for each read.
#[derive(Debug, Default)]
pub(crate) struct RecordCache {
    slots: [Cell<Option<(u32, Record)>>; 4],
}

impl RecordCache {
    #[inline]
    pub(crate) fn find(&self, look: Look<'_>, table: &Table) -> Result<Found> {
        let slot = &self.slots[table.id as usize % self.slots.len()];
        if let Some((id, record)) = slot.get()
            && id == table.id
        {
            return Ok(Found(record));
        }
        let record = catalog::record(look.pager, &look.catalog, table.id)?.ok_or_else(|| table.gone())?;
        slot.set(Some((table.id, record)));
        Ok(Found(record))
    }
}
