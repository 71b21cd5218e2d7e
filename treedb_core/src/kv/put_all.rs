//! Many entries put in one call.

use super::catalog::{Table, TableKind};
use super::command::Command;
use super::edit::{Edit, Met, check_limits};
use super::values::INLINE;
use super::write::{Change, WriteTxn};
use crate::btree::Tree;
use crate::error::Result;

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
            let command = Command::Put { table: table.id, key, value };
            let mut change = self.change()?;
            let several = if plain { change.put_next(table.id, rest)? } else { None };
            let met = several.map_or_else(|| change.run(&command).map(|met| (met, 1)), Ok)?;
            let (Met::There | Met::Nothing, count) = met else { return Err(table.gone()) };
            rest = rest.get(count..).unwrap_or_default();
        }
        Ok(())
    }
}

impl Change<'_> {
    /// Puts the first of `entries`, small ones, and what goes with it; how many. `None`, and no change, if it is not as
    /// simple as that.
    fn put_next(&mut self, table: u32, entries: &[(&[u8], &[u8])]) -> Result<Option<(Met, usize)>> {
        let Some(count) = self.change(|edit| edit.put_next(table, entries))? else { return Ok(None) };
        for &(key, value) in entries.iter().take(count) {
            Command::Put { table, key, value }.encode(&mut self.writer.frame);
        }
        Ok(Some((Met::Nothing, count)))
    }
}

impl Edit<'_> {
    fn put_next(&mut self, id: u32, entries: &[(&[u8], &[u8])]) -> Result<Option<usize>> {
        let done = {
            let _stay = self.pager.stay();
            let Some((mut sink, record, finger)) = self.plain(id, TableKind::Ordered, &[]) else {
                return Ok(None);
            };
            Tree::put_next(&mut sink, &mut record.root, finger, entries)
        };
        self.pager.relieve();
        done.map(Some)
    }
}
