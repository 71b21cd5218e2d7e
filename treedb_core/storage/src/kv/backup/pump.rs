//! Walks a snapshot and says it as commands.

use super::super::catalog::{self, Table, TableKind};
use super::super::command::Command;
use super::super::reads::Reads;
use super::super::snapshot::ReadTxn;
use super::Copied;
use crate::Result;

/// Entries between two calls of the progress function.
const OFTEN: u64 = 4096;

/// Gets each command.
pub(super) type Take<'a> = &'a mut dyn FnMut(&Command<'_>) -> Result<()>;

/// A snapshot to be copied.
pub(super) struct Pump<'r> {
    read: &'r ReadTxn,
    /// By number, so that numbers are given again in the order they were given.
    tables: Vec<Table>,
    copied: Copied,
}

impl<'r> Pump<'r> {
    pub(super) fn new(read: &'r ReadTxn) -> Result<Pump<'r>> {
        let mut tables = read.tables()?;
        tables.sort_unstable_by_key(Table::id);
        let mut of = 0;
        for table in &tables {
            of += read.len(table)?;
        }
        Ok(Pump { read, tables, copied: Copied { of, ..Copied::default() } })
    }

    /// Entries and rows there are.
    pub(super) fn of(&self) -> u64 {
        self.copied.of
    }

    /// Gives the commands that make the snapshot out of nothing to `take`, in order.
    pub(super) fn run(mut self, take: Take<'_>, progress: &mut dyn FnMut(Copied)) -> Result<Copied> {
        for table in std::mem::take(&mut self.tables) {
            take(&Command::Create { table: table.id, kind: table.kind, name: table.name() })?;
            match table.kind {
                TableKind::Ordered => self.keys(&table, take, progress)?,
                TableKind::Rows => self.rows(&table, take, progress)?,
                TableKind::Dup => self.pairs(&table, take, progress)?,
            }
        }
        self.last_number(take)?;
        progress(self.copied);
        Ok(self.copied)
    }

    fn keys(&mut self, table: &Table, take: Take<'_>, progress: &mut dyn FnMut(Copied)) -> Result<()> {
        let mut cursor = self.read.cursor(table)?;
        while cursor.next()? {
            let Some((key, value)) = cursor.entry()? else { break };
            take(&Command::Put { table: table.id, key, value })?;
            self.step(key.len() + value.len(), progress);
        }
        Ok(())
    }

    fn pairs(&mut self, table: &Table, take: Take<'_>, progress: &mut dyn FnMut(Copied)) -> Result<()> {
        let mut cursor = self.read.dup_cursor(table)?;
        while cursor.next()? {
            let Some((key, value)) = cursor.pair()? else { break };
            take(&Command::PutPair { table: table.id, key, value })?;
            self.step(key.len() + value.len(), progress);
        }
        Ok(())
    }

    fn rows(&mut self, table: &Table, take: Take<'_>, progress: &mut dyn FnMut(Copied)) -> Result<()> {
        let mut last = 0;
        let mut rows = self.read.rows(table, 0)?;
        while let Some((row, value)) = rows.lend_next()? {
            take(&Command::PutRow { table: table.id, row, value })?;
            self.step(size_of::<u64>() + value.len(), progress);
            last = row;
        }
        // Numbers of removed rows are not given again, in the copy either.
        let next = self.read.find(table)?.0.next_row;
        if let Some(highest) = next.checked_sub(1).filter(|&highest| highest > last) {
            take(&Command::PutRow { table: table.id, row: highest, value: &[] })?;
            take(&Command::DeleteRow { table: table.id, row: highest })?;
        }
        Ok(())
    }

    /// Nor are numbers of dropped tables.
    fn last_number(&self, take: Take<'_>) -> Result<()> {
        let highest = {
            let pager = self.read.look().pager;
            let _stay = pager.stay();
            catalog::next_number(pager, &self.read.catalog()?)? - 1
        };
        if self.read.tables()?.iter().any(|table| table.id == highest) || highest == 0 {
            return Ok(());
        }
        let mut name = "dropped".to_owned();
        while self.read.table(&name)?.is_some() {
            name.push('\'');
        }
        take(&Command::Create { table: highest, kind: TableKind::Ordered, name: &name })?;
        take(&Command::Drop { table: highest, name: &name })
    }

    fn step(&mut self, bytes: usize, progress: &mut dyn FnMut(Copied)) {
        self.copied.entries += 1;
        self.copied.bytes += bytes as u64;
        if self.copied.entries.is_multiple_of(OFTEN) {
            progress(self.copied);
        }
    }
}
