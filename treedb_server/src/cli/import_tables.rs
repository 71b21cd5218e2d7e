//! `treedb import --from`.

use std::path::Path;
use std::process::ExitCode;

use treedb_collections::{Database, Durability, Error, Store};
use treedb_storage::{Reads, Table, TableKind, WriteTxn};

use super::Failure;
use super::progress::Progress;
use crate::importers::{self, Sink};
use crate::native::TABLES;

/// Bytes of a transaction, about.
const STEP: usize = 4 << 20;

/// Imports the database of that kind at `path`.
pub(super) fn run(kind: &str, path: &Path, database: Database) -> Result<ExitCode, Failure> {
    let mut load = Load {
        store: database.store(),
        progress: Progress::of_entries("imported", 0),
        txn: None,
        table: None,
        tables: 0,
        bytes: 0,
        imported: 0,
    };
    let walked = importers::walk(kind, path, &mut load).and_then(|()| load.commit());
    let Load { progress, tables, imported, .. } = load;
    walked?;
    progress.finish(imported, &format!("into {tables} tables"));
    database.close()?;
    Ok(ExitCode::SUCCESS)
}

/// A running import.
struct Load<'s> {
    store: &'s Store,
    progress: Progress,
    txn: Option<WriteTxn>,
    table: Option<Table>,
    tables: u64,
    bytes: usize,
    imported: u64,
}

impl Load<'_> {
    /// Commits what there is. It becomes durable when the directory is closed: an import that does not come to its end
    /// is done again.
    fn commit(&mut self) -> Result<(), Failure> {
        self.bytes = 0;
        Ok(self.txn.take().map_or(Ok(()), |txn| txn.commit_with(Durability::None))?)
    }
}

impl Sink for Load<'_> {
    fn expect(&mut self, entries: u64) {
        self.progress = Progress::of_entries("imported", entries);
    }

    fn table(&mut self, name: &str, dup: bool) -> Result<(), Failure> {
        self.commit()?;
        let full = format!("{TABLES}{name}");
        if self.store.snapshot()?.table(&full)?.is_some() {
            return Err(Failure(format!(
                "a table {name:?} is in the directory already: import into another directory"
            )));
        }
        let mut txn = self.store.begin_write()?;
        self.table = Some(txn.create_table(&full, if dup { TableKind::Dup } else { TableKind::Ordered })?);
        self.txn = Some(txn);
        self.tables += 1;
        Ok(())
    }

    fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let Some(table) = &self.table else { return Err(Failure("an entry of no table".into())) };
        let txn = match &mut self.txn {
            Some(txn) => txn,
            none => none.insert(self.store.begin_write()?),
        };
        let stored = match table.kind() {
            TableKind::Dup => txn.put_pair(table, key, value).map(|_| ()),
            _ => txn.put(table, key, value),
        };
        stored.map_err(|error| match error {
            Error::KeyTooLong { .. } | Error::ValueTooLong { .. } => Failure(format!(
                "table {:?}, key {:?}: {error}; TreeDB cannot hold this entry",
                table.name().strip_prefix(TABLES).unwrap_or_default(),
                key.get(..key.len().min(64)).unwrap_or_default().escape_ascii().to_string()
            )),
            error => error.into(),
        })?;
        self.imported += 1;
        self.bytes += key.len() + value.len() + 16;
        if self.bytes >= STEP {
            self.progress.at(self.imported, self.imported);
            self.commit()?;
        }
        Ok(())
    }
}
