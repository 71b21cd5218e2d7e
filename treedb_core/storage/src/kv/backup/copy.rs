//! Walks a snapshot and emits the commands that create its content.

use super::super::catalog::{self, Table, TableKind};
use super::super::command::Command;
use super::super::dup;
use super::super::reads::Reads;
use super::super::snapshot::ReadTxn;
use super::BackupProgress;
use crate::Result;

/// Entries between two calls of the progress function.
const OFTEN: u64 = 4096;

/// Receives each command.
pub(super) type Emit<'a> = &'a mut dyn FnMut(&Command<'_>) -> Result<()>;

/// A snapshot to be copied.
pub(super) struct SnapshotCopy<'r> {
    read: &'r ReadTxn,
    /// By number, so that the copy assigns them in the same order.
    tables: Vec<Table>,
    copied: BackupProgress,
}

impl<'r> SnapshotCopy<'r> {
    pub(super) fn new(read: &'r ReadTxn) -> Result<SnapshotCopy<'r>> {
        let mut tables = read.tables()?;
        tables.retain(|table| !table.is_local());
        tables.sort_unstable_by_key(Table::id);
        let mut of = 0;
        for table in &tables {
            of += read.len(table)?;
        }
        Ok(SnapshotCopy { read, tables, copied: BackupProgress { of, ..BackupProgress::default() } })
    }

    /// Entries and rows there are.
    pub(super) fn of(&self) -> u64 {
        self.copied.of
    }

    /// Gives the commands that make the snapshot out of nothing to `emit`, in order.
    pub(super) fn run(
        mut self,
        emit: Emit<'_>,
        progress: &mut dyn FnMut(BackupProgress),
    ) -> Result<BackupProgress> {
        for table in std::mem::take(&mut self.tables) {
            emit(&Command::Create { table: table.id, kind: table.kind, name: table.name() })?;
            match table.kind {
                TableKind::Ordered => self.keys(&table, emit, progress)?,
                TableKind::Rows => self.rows(&table, emit, progress)?,
                TableKind::Dup => self.pairs(&table, emit, progress)?,
            }
        }
        self.last_number(emit)?;
        progress(self.copied);
        Ok(self.copied)
    }

    fn keys(
        &mut self,
        table: &Table,
        emit: Emit<'_>,
        progress: &mut dyn FnMut(BackupProgress),
    ) -> Result<()> {
        let mut cursor = self.read.cursor(table)?;
        while cursor.next()? {
            let Some((key, value)) = cursor.entry()? else { break };
            emit(&Command::Put { table: table.id, key, value })?;
            self.step(key.len() + value.len(), progress);
        }
        Ok(())
    }

    fn pairs(
        &mut self,
        table: &Table,
        emit: Emit<'_>,
        progress: &mut dyn FnMut(BackupProgress),
    ) -> Result<()> {
        dup::for_each_pair(self.read, table, |key, value| {
            emit(&Command::PutPair { table: table.id, key, value })?;
            self.step(key.len() + value.len(), progress);
            Ok(())
        })
    }

    fn rows(
        &mut self,
        table: &Table,
        emit: Emit<'_>,
        progress: &mut dyn FnMut(BackupProgress),
    ) -> Result<()> {
        let mut last = 0;
        let mut rows = self.read.rows(table, 0)?;
        while let Some((row, value)) = rows.lend_next()? {
            emit(&Command::PutRow { table: table.id, row, value })?;
            self.step(size_of::<u64>() + value.len(), progress);
            last = row;
        }
        // Numbers of removed rows are not reused in the copy either.
        let next = self.read.find(table)?.record.next_row;
        if let Some(highest) = next.checked_sub(1).filter(|&highest| highest > last) {
            emit(&Command::PutRow { table: table.id, row: highest, value: &[] })?;
            emit(&Command::DeleteRow { table: table.id, row: highest })?;
        }
        Ok(())
    }

    /// Numbers of dropped tables are not reused either.
    fn last_number(&self, emit: Emit<'_>) -> Result<()> {
        let highest = {
            let pager = self.read.context().pager;
            let _epoch = pager.enter_epoch();
            catalog::next_number(pager, &self.read.catalog()?)? - 1
        };
        let is_copied = |table: &Table| table.id == highest && !table.is_local();
        if self.read.tables()?.iter().any(is_copied) || highest == 0 {
            return Ok(());
        }
        let mut name = "dropped".to_owned();
        while self.read.table(&name)?.is_some() {
            name.push('\'');
        }
        emit(&Command::Create { table: highest, kind: TableKind::Ordered, name: &name })?;
        emit(&Command::Drop { table: highest, name: &name })
    }

    fn step(&mut self, bytes: usize, progress: &mut dyn FnMut(BackupProgress)) {
        self.copied.entries += 1;
        self.copied.bytes += bytes as u64;
        if self.copied.entries.is_multiple_of(OFTEN) {
            progress(self.copied);
        }
    }
}
