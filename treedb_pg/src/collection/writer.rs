//! A table of documents being written: [`Sink`] through the server's executor.
//!
//! Rows go the way of any INSERT, UPDATE and DELETE: triggers, generated columns, constraints, the table access
//! method, every index. Before a row is changed it is locked; under READ COMMITTED the newest version is
//! read and changed, under the stricter levels a row changed by another transaction is a serialization failure.
//!
//! All changes of a writer belong to one command: it does not see them itself.

use std::ffi::CStr;

use ::bson::RawDocument;
use treedb_query::QueryError;
use treedb_query::access::{Change, QueryContext, ReadWritten, RowId, Sink};
use treedb_query::query::Result;

use super::reader::{Reader, address, document, row_id};
use super::table::{Need, Table};
use crate::shim::error::{refuse, refuse_about};
use crate::shim::error_frame::ErrorObject;
use crate::shim::modify::{Command, Locked, RowWriter, UniqueViolation};
use crate::shim::table::Slot;
use crate::types::bson;

/// A collection being written.
pub(super) struct Writer {
    reader: Reader,
    rows: RowWriter,
    /// The row to be changed.
    old: Slot,
    /// The unique index that refused a document, for the error that says so.
    violated: ErrorObject,
}

impl Writer {
    /// Begins a command that changes `table` as `need` says: `name` is its name for the message of a read-only
    /// transaction.
    pub(super) fn begin(table: Table, need: Need, name: &CStr) -> Writer {
        let command = match need {
            Need::Update(false) => Command::Update,
            Need::Update(true) => Command::InsertOrUpdate,
            Need::Delete => Command::Delete,
            Need::Insert | Need::Select | Need::Manage => Command::Insert,
        };
        let rows = RowWriter::begin(&table.relation, table.doc, command, name);
        let old = Slot::new(table.relation.get());
        Writer { reader: Reader::new(table), rows, old, violated: ErrorObject::default() }
    }

    /// Ends the command: triggers that wait for its end run now.
    pub(super) fn finish(self) {
        self.rows.finish();
    }

    /// The value, or the SQL error, which names the unique index if one refused a document.
    pub(super) fn accept<T>(&self, result: Result<T>) -> T {
        match result {
            Ok(value) => value,
            Err(error) if error.duplicate.is_some() => refuse_about(&self.violated, error),
            Err(error) => refuse(error),
        }
    }

    /// The error of a unique index in MongoDB's words, if it is one of the collection's. That of another is raised.
    fn duplicate(&mut self, document: &RawDocument, violation: UniqueViolation) -> QueryError {
        let name = violation.object().constraint.as_deref();
        let index = self.reader.indexes.iter().find(|index| name == Some(index.relation_name().as_str()));
        if let Some(index) = index
            && let Ok(keys) = index.info.def.keys(document)
            && let Some(key) = keys.keys.first()
        {
            let error = index.info.def.duplicate(&self.reader.table.namespace(), key, document);
            self.violated = violation.object().clone();
            return error;
        }
        violation.rethrow()
    }
}

impl Sink for Writer {
    fn read(&self, read: &mut ReadWritten<'_>) -> Result<()> {
        read(&self.reader, &QueryContext::default())
    }

    fn insert(&mut self, doc: &RawDocument) -> Result<RowId> {
        match self.rows.insert(doc.as_bytes()) {
            Ok(tid) => Ok(row_id(tid)),
            Err(violation) => Err(self.duplicate(doc, violation)),
        }
    }

    fn modify(&mut self, id: RowId, change: &mut dyn FnMut(&RawDocument) -> Result<Change>) -> Result<bool> {
        pgrx::check_for_interrupts!();
        // The row version the snapshot shows, to begin the lock with: the id may be the root of its HOT chain.
        if !self.reader.read(address(id), &mut self.old)
            || self.rows.lock(self.old.tid(), self.reader.snapshot.get(), &mut self.old) == Locked::Gone
        {
            return Ok(false);
        }
        let change = match document(&self.old, &self.reader.table) {
            Some(bytes) => change(bson::document(&bytes))?,
            None => return Ok(false),
        };
        match change {
            Change::Keep => {}
            Change::Replace(document) | Change::Update(document) => {
                if let Err(violation) = self.rows.update(&mut self.old, document.as_bytes()) {
                    return Err(self.duplicate(&document, violation));
                }
            }
            Change::Delete => {
                if let Err(violation) = self.rows.delete(&mut self.old) {
                    violation.rethrow();
                }
            }
        }
        Ok(true)
    }
}
