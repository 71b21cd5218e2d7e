//! Many entries or rows stored in one call.

use std::ops::Range;

use super::catalog::{Record, Table, TableKind};
use super::command::Command;
use super::edit::{check_limits, check_row};
use super::large_values::INLINE;
use super::reads::Reads;
use super::write::{Change, WriteTxn};
use crate::Result;
use crate::btree::{RowTree, Tree};

impl WriteTxn {
    /// Stores `entries`, keys and values, one after the other, as [`WriteTxn::put`] would. Ascending keys cost much
    /// less than single puts: those that go between the same two keys of the table are inserted together. Nothing is
    /// changed if a key or value is too long.
    pub fn put_all(&mut self, table: &Table, entries: &[(&[u8], &[u8])]) -> Result<()> {
        table.expect(TableKind::Ordered)?;
        let mut plain = true;
        for (key, value) in entries {
            check_limits(key, value.len())?;
            plain &= value.len() <= INLINE;
        }
        let mut rest = entries;
        while let Some((key, value)) = rest.first() {
            let several = if plain { self.change()?.put_run(table.id, rest)? } else { None };
            let count = match several {
                Some(count) => count,
                None => {
                    self.put(table, key, value)?;
                    1
                }
            };
            rest = rest.get(count..).unwrap_or_default();
        }
        Ok(())
    }

    /// Stores rows under the next numbers, one after the other, as [`WriteTxn::append_row`] would, and returns these
    /// numbers. Nothing is changed if a value is too long.
    pub fn append_rows(&mut self, table: &Table, values: &[&[u8]]) -> Result<Range<u64>> {
        table.expect(TableKind::Rows)?;
        let first = self.find(table)?.record.next_row;
        let Some(end) = first.checked_add(values.len() as u64) else {
            return check_row(u64::MAX, 0).map(|()| first..first);
        };
        let mut plain = true;
        for (row, value) in (first..end).zip(values) {
            check_row(row, value.len())?;
            plain &= value.len() <= INLINE;
        }
        let (mut row, mut rest) = (first, values);
        while let Some(value) = rest.first() {
            let several = if plain { self.change()?.append_run(table.id, row, rest)? } else { None };
            let count = match several {
                Some(count) => count,
                None => {
                    self.put_row(table, row, value)?;
                    1
                }
            };
            row += count as u64;
            rest = rest.get(count..).unwrap_or_default();
        }
        Ok(first..end)
    }
}

impl Change<'_> {
    /// Stores the first of `values`, all inline, as row `row`, which is the next, and as many of the following as go into
    /// the same leaf. Returns how many; `None`, and no change, if they must be put one by one.
    fn append_run(&mut self, table: u32, row: u64, values: &[&[u8]]) -> Result<Option<usize>> {
        let appended = self.edit(|edit| {
            edit.in_epoch(|edit| match edit.in_place(table, TableKind::Rows, &[]) {
                Some((mut sink, Record { root, next_row, .. }, finger)) => {
                    RowTree::append_next(&mut sink, root, next_row, finger, values).map(Some)
                }
                None => Ok(None),
            })
        })?;
        for (row, value) in (row..).zip(values.iter().take(appended.unwrap_or(0))) {
            Command::PutRow { table, row, value }.encode(&mut self.writer.frame);
        }
        Ok(appended)
    }

    /// Puts the first of `entries`, all inline, and as many of the following as go to the same place of the same leaf.
    /// Returns how many; `None`, and no change, if they must be put one by one.
    fn put_run(&mut self, table: u32, entries: &[(&[u8], &[u8])]) -> Result<Option<usize>> {
        let put = self.edit(|edit| {
            edit.in_epoch(|edit| match edit.in_place(table, TableKind::Ordered, &[]) {
                Some((mut sink, record, finger)) => {
                    Tree::put_next(&mut sink, &mut record.root, finger, entries).map(Some)
                }
                None => Ok(None),
            })
        })?;
        for &(key, value) in entries.iter().take(put.unwrap_or(0)) {
            Command::Put { table, key, value }.encode(&mut self.writer.frame);
        }
        Ok(put)
    }
}
