//! A collection in a write transaction: [`Sink`] over the store's.
//!
//! Every change first checks all indexes (the document's keys, duplicates in unique indexes) and then writes, so that an error of
//! the document leaves everything unchanged. An error of the storage engine may leave the transaction half changed: the caller
//! drops the transaction, which rolls it back.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use bson::{Document, RawDocument, RawDocumentBuf, doc};

use treedb_query::access::{Change, ReadWritten, RowId, Sink};
use treedb_query::error::Result;
use treedb_query::index::Definition;
use treedb_storage::{Table, WriteTxn};

use crate::catalog::Catalog;
use crate::catalog::meta::Meta;
use crate::catalog::validator::Validator;
use crate::changes::{Defined, Recorder};
use crate::index::{IndexChange, IndexKind, Versions, by_kind, index_changes};
use crate::read::view::View;
use crate::transaction::{Intent, Intents, Owner, conflict};
use crate::write::bulk;
use crate::write::change::check_document;
use crate::write::row::{Rows, with_scratch};

/// A collection in a write transaction.
pub(crate) struct Edit<'a> {
    pub(crate) txn: &'a mut WriteTxn,
    pub(crate) catalog: &'a Catalog,
    /// What open transactions have changed.
    pub(crate) intents: &'a Intents,
    /// The transaction that this commits.
    pub(crate) owner: Option<Owner>,
    /// An open transaction that has changed what this was to change: nothing of it may be committed.
    pub(crate) blocked: Cell<Option<Owner>>,
    /// The transaction's version, shared with readers until it is changed.
    pub(crate) meta: Arc<Meta>,
    /// What is to be recorded of it; `None` if nothing is.
    pub(crate) recorder: Option<Recorder>,
    /// Whether the collection's validator applies.
    pub(crate) validates: bool,
    /// Bytes by which the documents have grown since the last count, if the collection is capped.
    pub(crate) grown: i64,
    /// Whether any has been counted: the bytes may be the same, and the documents more.
    pub(crate) changed: bool,
}

impl<'a> Edit<'a> {
    /// Writes the recorded changes to the log; with `only_full` only if the recorder is full.
    fn flush_recorder(&mut self, only_full: bool) -> Result<()> {
        match &mut self.recorder {
            Some(recorder) if !only_full || recorder.is_full() => recorder.flush(self.txn),
            _ => Ok(()),
        }
    }

    /// Records that the collection was created.
    pub(crate) fn record_creation(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            let mut description = doc! { "idIndex": { "v": 2, "key": { "_id": 1 }, "name": "_id_" } };
            description.extend(self.meta.options.clone());
            record(recorder, Defined::Create, &description);
        }
    }

    /// Records that an index was created or dropped: of a search index all fields, by the definition of one of them.
    pub(crate) fn record_index(&mut self, defined: Defined, def: &Definition) -> Result<()> {
        if let Some(recorder) = &mut self.recorder {
            let spec = Document::try_from(def.spec())?;
            record(recorder, defined, &doc! { "indexes": [spec] });
        }
        Ok(())
    }

    /// Records a change of options.
    pub(crate) fn record_modification(&mut self, description: &Document) {
        if let Some(recorder) = &mut self.recorder {
            record(recorder, Defined::Modify, description);
        }
    }

    /// The last step of every edit.
    pub(crate) fn finish(mut self) -> Result<()> {
        if self.meta.special.capped.is_some() {
            self.enforce_cap()?;
        }
        self.flush_recorder(false)
    }

    /// The validator that applies.
    pub(crate) fn validator(&self) -> Option<&Validator> {
        self.meta.validator.as_ref().filter(|_| self.validates)
    }

    pub(crate) fn view(&self) -> View<'_, WriteTxn> {
        View { reads: self.txn, meta: &self.meta }
    }

    /// The changes of every index when the row `row` (`None`: a new one) changes from `old` to `new`.
    fn changes(
        &self,
        row: Option<RowId>,
        old: Option<&RawDocument>,
        new: Option<&RawDocument>,
    ) -> Result<Vec<IndexChange>> {
        let Edit { txn, meta, .. } = self;
        let defs = meta.indexes.iter().map(|index| &index.def);
        let versions = Versions { namespace: &meta.namespace, row, old, new };
        index_changes(defs, &versions, &|number, key| match meta.indexes.get(number) {
            Some(index) => {
                self.check_claim(|| Intent::key(index.def.name(), key))?;
                by_kind!(&index.def, kind => kind.holder(*txn, &index.table, key))
            }
            None => Ok(None),
        })
    }

    /// Refuses to change what an open transaction has changed.
    #[inline]
    fn check_claim(&self, intent: impl FnOnce() -> Intent) -> Result<()> {
        if self.intents.is_empty() {
            return Ok(());
        }
        let owner = self.intents.owner(&self.meta.namespace, intent(), self.owner);
        if owner.is_some() {
            self.blocked.set(owner);
            return Err(conflict(&self.meta.namespace));
        }
        Ok(())
    }

    /// True if an open transaction has changed a row.
    pub(crate) fn is_claimed(&self, row: RowId) -> bool {
        !self.intents.is_empty()
            && self.intents.owner(&self.meta.namespace, Intent::row(row), self.owner).is_some()
    }

    /// Applies `changes` of the indexes for the row `row`.
    fn apply(&mut self, row: RowId, changes: Vec<IndexChange>) -> Result<()> {
        let mut new_flags = Vec::new();
        for (number, (index, change)) in self.meta.indexes.iter().zip(changes).enumerate() {
            let flags = by_kind!(&index.def, kind => kind.apply(self.txn, &self.meta, index, row, change))?;
            new_flags.extend(index.flags.added_by(flags).map(|flags| (number, flags)));
        }
        self.set_flags(&new_flags)
    }

    /// Encodes `doc` as a row for `put`. New shapes are added to the catalog entry.
    fn store<T>(
        &mut self,
        doc: &RawDocument,
        put: impl FnOnce(&mut WriteTxn, &Table, &[u8]) -> treedb_storage::Result<T>,
    ) -> Result<T> {
        with_scratch(|scratch| {
            let row = self.meta.row_format.encode(doc, scratch);
            self.set_row_format(row.new_format)?;
            Ok(put(self.txn, &self.meta.rows, row.bytes)?)
        })
    }

    /// Refuses a document that the collection cannot have.
    fn check_new(&self, doc: &RawDocument) -> Result<()> {
        self.meta.special.check(doc)?;
        check_document(self.validator(), None, doc)
    }

    /// Stores `doc` as a new row, without index entries.
    pub(crate) fn append(&mut self, doc: &RawDocument) -> Result<RowId> {
        self.count_bytes(0, doc.as_bytes().len());
        let row = RowId(self.store(doc, |txn, rows, bytes| txn.append_row(rows, bytes))?);
        if let Some(recorder) = &mut self.recorder {
            recorder.insert(row);
        }
        Ok(row)
    }

    /// Stores `docs` as new rows, without index entries, and returns their ids.
    pub(crate) fn append_all(&mut self, docs: &[&RawDocument]) -> Result<Range<u64>> {
        let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(docs.len()));
        for doc in docs {
            self.count_bytes(0, doc.as_bytes().len());
            with_scratch(|scratch| {
                let row = self.meta.row_format.encode(doc, scratch);
                bytes.extend_from_slice(row.bytes);
                self.set_row_format(row.new_format)
            })?;
            ends.push(bytes.len());
        }
        let mut from = 0;
        let values: Vec<&[u8]> =
            ends.iter().filter_map(|&end| bytes.get(std::mem::replace(&mut from, end)..end)).collect();
        let rows = self.txn.append_rows(&self.meta.rows, &values)?;
        if let Some(recorder) = &mut self.recorder {
            rows.clone().for_each(|row| recorder.insert(RowId(row)));
        }
        Ok(rows)
    }

    /// Stores a changed row format in the catalog.
    fn set_row_format(&mut self, new_format: Option<Rows>) -> Result<()> {
        let Some(new_format) = new_format else { return Ok(()) };
        let meta = Arc::make_mut(&mut self.meta);
        meta.row_format = new_format;
        self.catalog.write(self.txn, meta)
    }

    /// Inserts `doc`, parsed from the JSON `text`. The text itself is stored if the collection's format is JSON.
    pub(crate) fn insert_text(&mut self, doc: &RawDocument, text: &str) -> Result<RowId> {
        if !matches!(self.meta.row_format, Rows::Json) {
            return self.insert(doc);
        }
        self.check_new(doc)?;
        let changes = self.changes(None, None, Some(doc))?;
        self.count_bytes(0, doc.as_bytes().len());
        let row = RowId(self.txn.append_row(&self.meta.rows, text.as_bytes())?);
        if let Some(recorder) = &mut self.recorder {
            recorder.insert(row);
        }
        self.apply(row, changes)?;
        Ok(row)
    }
}

fn record(recorder: &mut Recorder, defined: Defined, description: &Document) {
    // What cannot be a document, because of a name with a NUL, has been refused.
    if let Ok(description) = RawDocumentBuf::try_from(description) {
        recorder.define(defined, &description);
    }
}

impl Sink for Edit<'_> {
    fn read(&self, read: &mut ReadWritten<'_>) -> Result<()> {
        let view = self.view();
        read(&view, &view.context())
    }

    fn insert(&mut self, doc: &RawDocument) -> Result<RowId> {
        self.check_new(doc)?;
        let changes = self.changes(None, None, Some(doc))?;
        let row = self.append(doc)?;
        self.apply(row, changes)?;
        Ok(row)
    }

    fn insert_all(&mut self, documents: &[&RawDocument]) -> Result<bool> {
        bulk::insert_all(self, documents)
    }

    fn modify(&mut self, id: RowId, change: &mut dyn FnMut(&RawDocument) -> Result<Change>) -> Result<bool> {
        self.flush_recorder(true)?;
        let Some(old) = (View { reads: &*self.txn, meta: &self.meta }).document(id)? else {
            return Ok(false);
        };
        let change = change(&old)?;
        let whole = matches!(change, Change::Replace(_));
        if !matches!(change, Change::Keep) {
            self.check_claim(|| Intent::row(id))?;
        }
        match change {
            Change::Keep => {}
            Change::Replace(new) | Change::Update(new) => {
                self.meta.special.check(&new)?;
                check_document(self.validator(), Some(&old), &new)?;
                let changes = self.changes(Some(id), Some(&old), Some(&new))?;
                if let Some(recorder) = &mut self.recorder {
                    recorder.update(id, &old, &new, whole);
                }
                let lengths = (old.as_bytes().len(), new.as_bytes().len());
                self.store(&new, |txn, rows, bytes| txn.put_row(rows, id.0, bytes))?;
                self.count_bytes(lengths.0, lengths.1);
                self.apply(id, changes)?;
            }
            Change::Delete => {
                let changes = self.changes(Some(id), Some(&old), None)?;
                if let Some(recorder) = &mut self.recorder {
                    recorder.delete(id, &old);
                }
                let length = old.as_bytes().len();
                self.txn.delete_row(&self.meta.rows, id.0)?;
                self.count_bytes(length, 0);
                self.apply(id, changes)?;
            }
        }
        Ok(true)
    }
}
