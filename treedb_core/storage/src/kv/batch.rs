//! Changes collected first and made later, in one transaction.

use super::catalog::{Table, TableKind};
use super::command::Command;
#[cfg(feature = "dup-tables")]
use super::dup::check_pair;
use super::edit::{check_limits, check_row};
use super::reads::Bounds;
use crate::Result;

/// A list of changes to any number of tables. [`WriteTxn::write`](super::WriteTxn::write) makes them in order, and they
/// become visible together. Changes that depend on stored data, or that
/// assign numbers, need a transaction.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    pub(crate) commands: Vec<u8>,
    len: usize,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    fn push(&mut self, command: Command<'_>) {
        command.encode(&mut self.commands);
        self.len += 1;
    }

    /// Stores `value` under `key`. `TableMismatch` if the table does not map keys to one value each; limits as for
    /// [`WriteTxn::put`](super::WriteTxn::put).
    pub fn put(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
        table.expect(TableKind::Ordered)?;
        check_limits(key, value.len())?;
        self.push(Command::Put { table: table.id, key, value });
        Ok(())
    }

    /// Removes `key`, in a dup table with all its values, if it is there. `TableMismatch` if the table holds rows.
    pub fn delete(&mut self, table: &Table, key: &[u8]) -> Result<()> {
        table.expect_keys()?;
        self.push(Command::Delete { table: table.id, key });
        Ok(())
    }

    /// Removes the keys within `bounds`. `TableMismatch` if the table holds rows.
    pub fn delete_range(&mut self, table: &Table, bounds: Bounds<'_>) -> Result<()> {
        table.expect_keys()?;
        self.push(Command::DeleteRange { table: table.id, bounds });
        Ok(())
    }

    /// Removes everything in a table.
    pub fn clear_table(&mut self, table: &Table) {
        self.push(Command::Clear { table: table.id });
    }

    /// Stores row `row`. `TableMismatch` if the table maps keys; limits as for
    /// [`WriteTxn::put_row`](super::WriteTxn::put_row).
    pub fn put_row(&mut self, table: &Table, row: u64, value: &[u8]) -> Result<()> {
        table.expect(TableKind::Rows)?;
        check_row(row, value.len())?;
        self.push(Command::PutRow { table: table.id, row, value });
        Ok(())
    }

    /// Removes row `row`, if it is there. `TableMismatch` if the table maps keys.
    pub fn delete_row(&mut self, table: &Table, row: u64) -> Result<()> {
        table.expect(TableKind::Rows)?;
        self.push(Command::DeleteRow { table: table.id, row });
        Ok(())
    }

    /// Removes the rows whose numbers are in `range`. `TableMismatch` if the table maps keys.
    pub fn delete_rows(&mut self, table: &Table, range: std::ops::Range<u64>) -> Result<()> {
        table.expect(TableKind::Rows)?;
        self.push(Command::DeleteRows { table: table.id, from: range.start, to: range.end });
        Ok(())
    }

    /// Removes a table and everything in it. Its name must still be the one the handle was made with when the batch is
    /// written.
    pub fn drop_table(&mut self, table: &Table) {
        self.push(Command::Drop { table: table.id, name: table.name() });
    }

    /// Adds `value` to the values of `key`, if it is not among them. `TableMismatch` if it is not a dup table; limits
    /// as for [`WriteTxn::put_pair`](super::WriteTxn::put_pair).
    #[cfg(feature = "dup-tables")]
    pub fn put_pair(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
        table.expect(TableKind::Dup)?;
        check_pair(key, value)?;
        self.push(Command::PutPair { table: table.id, key, value });
        Ok(())
    }

    /// Removes `value` from the values of `key`, if it is among them. `TableMismatch` if it is not a dup table.
    #[cfg(feature = "dup-tables")]
    pub fn delete_pair(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
        table.expect(TableKind::Dup)?;
        self.push(Command::DeletePair { table: table.id, key, value });
        Ok(())
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is nothing to change.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the changes, keys and values included.
    pub fn bytes(&self) -> usize {
        self.commands.len()
    }

    /// Forgets the changes, keeping the memory.
    pub fn clear(&mut self) {
        self.commands.clear();
        self.len = 0;
    }
}
