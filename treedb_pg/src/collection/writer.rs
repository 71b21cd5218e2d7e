//! A table of documents being written: [`Sink`] through the server's executor.
//!
//! Rows go the way of any INSERT, UPDATE and DELETE: triggers, generated columns, constraints, the table access
//! method, every index; but the trigger that gives documents their `_id` is not called for those that have one. An update
//! begins with the version that the snapshot shows. If another transaction has changed the row meanwhile it is locked,
//! under READ COMMITTED, and its newest version is read and changed; under the stricter levels that is a serialization
//! failure.
//!
//! All changes of a writer belong to one command: it does not see them itself.
//!
//! An upsert looks for documents, and inserts one if there is none. If another transaction inserts it in between, a unique
//! index makes this one wait for the other's end, and refuses the second document; then the upsert begins again
//! ([`Writer::upsert`]).

use std::borrow::Cow;
use std::ffi::CStr;

use ::bson::RawDocument;
use pgrx::pg_sys;
use treedb_query::QueryError;
use treedb_query::access::{Change, QueryContext, ReadWritten, RowId, Sink};
use treedb_query::doc::with_id;
use treedb_query::index::ordered::IndexDef;
use treedb_query::query::{Query, Result};

use super::index;
use super::reader::{Reader, address, document, row_id};
use super::table::{Need, Table};
use crate::shim::catalog;
use crate::shim::error::{refuse, refuse_about};
use crate::shim::error_frame::ErrorObject;
use crate::shim::modify::{Command, Locked, RowWriter, UniqueViolation, Updated, Value};
use crate::shim::snapshot::{self, Registered};
use crate::shim::table::Slot;
use crate::types::{bson, keyset};

/// How often an upsert is tried. Each time another transaction has inserted a document of the same key and either it, or
/// a third one, has deleted it before it could be read.
const MOST_TRIES: u32 = 20;

/// A collection being written.
pub(super) struct Writer {
    reader: Reader,
    rows: RowWriter,
    /// The row to be changed.
    old: Slot,
    /// The unique index that refused a document, for the error that says so.
    violated: ErrorObject,
    /// What an upsert asks for: an insert that a unique index on that refuses is undone, so that the command can go on.
    asked: Option<Query>,
    /// Such an index has refused the document.
    taken: bool,
}

impl Writer {
    /// Begins a command that changes `table` as `need` says: `name` is its name for the message of a read-only
    /// transaction, `query` what selects the documents, if there is anything to select.
    pub(super) fn begin(table: Table, need: Need, name: &CStr, query: Option<&Query>) -> Writer {
        let command = match need {
            Need::Update(false) => Command::Update,
            Need::Update(true) => Command::InsertOrUpdate,
            Need::Delete => Command::Delete,
            Need::Insert | Need::Select | Need::Manage => Command::Insert,
        };
        let rows =
            RowWriter::begin(&table.relation, table.doc, command, name, catalog::own_function(c"set_id"));
        let old = Slot::new(table.relation.get());
        Writer {
            reader: reader(table, query),
            rows,
            old,
            violated: ErrorObject::default(),
            asked: None,
            taken: false,
        }
    }

    /// Calls `work`, which upserts by `query`; again, after the insert was refused because another transaction has
    /// inserted the document that the query asks for. MongoDB's conditions: the query is nothing but equalities on the
    /// fields of the unique index, and the new document has these values. Where the transaction cannot see the other
    /// document the error stays.
    pub(super) fn upsert<T>(
        &mut self,
        query: &Query,
        mut work: impl FnMut(&mut Writer) -> Result<T>,
    ) -> Result<T> {
        let defs = self.reader.known_indexes().iter().map(|index| &*index.def);
        let unique = defs.into_iter().any(|def| is_on_what_is_asked(def, query));
        self.asked = (unique && snapshot::is_of_statement()).then(|| query.clone());
        for _ in 1..MOST_TRIES {
            self.taken = false;
            let result = work(self);
            if !(result.is_err() && self.taken) {
                return result;
            }
            pgrx::check_for_interrupts!();
            self.rows.look_again();
            let Table { relation, doc } = &self.reader.table;
            self.reader = reader(Table { relation: relation.clone(), doc: *doc }, Some(query));
        }
        work(self)
    }

    /// Makes ready for selecting by another query.
    pub(super) fn select_by(&mut self, query: &Query) {
        self.reader.open_for(query);
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
        let Reader { table, .. } = &self.reader;
        let name = violation.object().constraint.as_deref().map(|name| index::called(table, name));
        let index = self.reader.known_indexes().iter().find(|index| name == Some(index.def.name.as_str()));
        if let Some(index) = index
            && let Ok(keys) = index.def.keys(document)
            && let Some(key) = keyset::shared(&keys, violation.detail())
        {
            let error = index.def.duplicate(&self.reader.table.namespace(), key, document);
            self.violated = violation.object().clone();
            self.taken = self.asked.as_ref().is_some_and(|query| {
                is_on_what_is_asked(&index.def, query) && query.filter.matches(document).unwrap_or(false)
            });
            return error;
        }
        violation.rethrow()
    }
}

/// Whether an index is unique, and a query nothing but equalities on its fields.
fn is_on_what_is_asked(def: &IndexDef, query: &Query) -> bool {
    let equal = query.filter.equalities();
    def.unique
        && def.options.collation == query.collation
        && equal.len() == def.keys.len()
        && equal.len() == query.filter.conjuncts().len()
        && def.keys.iter().all(|key| equal.iter().any(|(path, _)| path.as_str() == key.path.as_str()))
}

/// Reads what `query` selects from a table.
fn reader(table: Table, query: Option<&Query>) -> Reader {
    match query {
        Some(query) => Reader::for_query(table, Registered::active(), query),
        None => Reader::without_indexes(table, Registered::active()),
    }
}

/// A document to be stored. It is settled if the trigger of its table would leave it as it is.
fn value(document: &RawDocument) -> Value<'_> {
    let settled = matches!(with_id(document), Ok(Cow::Borrowed(_)));
    Value { bytes: document.as_bytes(), settled }
}

impl Sink for Writer {
    fn read(&self, read: &mut ReadWritten<'_>) -> Result<()> {
        read(&self.reader, &QueryContext::default())
    }

    fn insert(&mut self, doc: &RawDocument) -> Result<RowId> {
        let inserted = match self.asked {
            Some(_) => self.rows.try_insert(value(doc)),
            None => self.rows.insert(value(doc)),
        };
        match inserted {
            Ok(tid) => Ok(row_id(tid)),
            Err(violation) => Err(self.duplicate(doc, violation)),
        }
    }

    fn modify(&mut self, id: RowId, change: &mut dyn FnMut(&RawDocument) -> Result<Change>) -> Result<bool> {
        pgrx::check_for_interrupts!();
        // The row version the snapshot shows: the id may be the root of its HOT chain.
        if !self.reader.read(address(id), &mut self.old) {
            return Ok(false);
        }
        // What leaves this version alone may change the newest one.
        if let Some(Change::Replace(document) | Change::Update(document)) = self.changed(change)? {
            let untouched = self.untouched(&document);
            match self.rows.update_unlocked(&mut self.old, value(&document), &untouched) {
                Ok(Updated::Yes) => return Ok(true),
                Ok(Updated::LockFirst) => {}
                Err(violation) => return Err(self.duplicate(&document, violation)),
            }
        }
        if self.rows.lock(self.old.tid(), self.reader.snapshot.get(), &mut self.old) == Locked::Gone {
            return Ok(false);
        }
        match self.changed(change)? {
            None => return Ok(false),
            Some(Change::Keep) => {}
            Some(Change::Replace(document) | Change::Update(document)) => {
                if let Err(violation) = self.rows.update(&mut self.old, value(&document)) {
                    return Err(self.duplicate(&document, violation));
                }
            }
            Some(Change::Delete) => {
                if let Err(violation) = self.rows.delete(&mut self.old) {
                    violation.rethrow();
                }
            }
        }
        Ok(true)
    }
}

impl Writer {
    /// The indexes that have the same for the row in the slot and for a document that replaces its own.
    fn untouched(&self, new: &RawDocument) -> Vec<pg_sys::Oid> {
        let Some(old) = document(&self.old, &self.reader.table) else { return Vec::new() };
        let (old, indexes) = (bson::document(&old), self.reader.known_indexes().iter());
        let untouched = indexes.filter(|index| index.only_keys && index.def.is_untouched(old, new));
        untouched.map(|index| index.oid).collect()
    }

    /// What is to be done with the row in the slot; `None` if it has no document.
    fn changed(&self, change: &mut dyn FnMut(&RawDocument) -> Result<Change>) -> Result<Option<Change>> {
        document(&self.old, &self.reader.table).map(|bytes| change(bson::document(&bytes))).transpose()
    }
}
