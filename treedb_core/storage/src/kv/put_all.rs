//! Many entries or rows put in one call.

use std::ops::Range;

use super::catalog::{Record, Table, TableKind};
use super::command::Command;
use super::edit::{Edit, check_limits, check_row};
use super::reads::Reads;
use super::values::INLINE;
use super::write::{Change, WriteTxn};
use crate::Result;
use crate::btree::{Finger, RowTree, Tree};
use crate::page::PageWriter;

impl WriteTxn {
    /// Stores `entries`, keys and values, one after the other, as [`WriteTxn::put`] would. Keys that rise cost a good
    /// deal less than single puts: those that go between the same two keys of the table go there together. Nothing is
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
            let several = if plain { self.change()?.put_next(table.id, rest)? } else { None };
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
        let first = self.find(table)?.0.next_row;
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
            let several = if plain { self.change()?.append_next(table.id, row, rest)? } else { None };
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
    /// Stores the first of `values`, small ones, as row `row`, which is the next, and what goes with it; how many. `None`,
    /// and no change, if it is not as simple as that.
    fn append_next(&mut self, table: u32, row: u64, values: &[&[u8]]) -> Result<Option<usize>> {
        let Some(count) = self.change(|edit| edit.append_next(table, values))? else { return Ok(None) };
        for (row, value) in (row..).zip(values.iter().take(count)) {
            Command::PutRow { table, row, value }.encode(&mut self.writer.frame);
        }
        Ok(Some(count))
    }

    /// Puts the first of `entries`, small ones, and what goes with it; how many. `None`, and no change, if it is not as
    /// simple as that.
    fn put_next(&mut self, table: u32, entries: &[(&[u8], &[u8])]) -> Result<Option<usize>> {
        let Some(count) = self.change(|edit| edit.put_next(table, entries))? else { return Ok(None) };
        for &(key, value) in entries.iter().take(count) {
            Command::Put { table, key, value }.encode(&mut self.writer.frame);
        }
        Ok(Some(count))
    }
}

impl Edit<'_> {
    fn put_next(&mut self, id: u32, entries: &[(&[u8], &[u8])]) -> Result<Option<usize>> {
        self.in_place(id, TableKind::Ordered, |sink, record, finger| {
            Tree::put_next(sink, &mut record.root, finger, entries)
        })
    }

    fn append_next(&mut self, id: u32, values: &[&[u8]]) -> Result<Option<usize>> {
        self.in_place(id, TableKind::Rows, |sink, Record { root, next_row, .. }, finger| {
            RowTree::append_next(sink, root, next_row, finger, values)
        })
    }

    /// Changes a table whose record can be changed where it is; `None`, and no change, if it cannot.
    fn in_place(
        &mut self,
        id: u32,
        kind: TableKind,
        change: impl FnOnce(&mut PageWriter<'_>, &mut Record, &mut Finger) -> Result<usize>,
    ) -> Result<Option<usize>> {
        let done = {
            let _stay = self.pager.stay();
            let Some((mut sink, record, finger)) = self.plain(id, kind, &[]) else { return Ok(None) };
            change(&mut sink, record, finger)
        };
        self.pager.relieve();
        done.map(Some)
    }
}
