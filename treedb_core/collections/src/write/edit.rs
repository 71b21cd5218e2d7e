//! A collection being written: [`Sink`] over a kv write transaction.
//!
//! Every change looks at all indexes first (keys of the document, unique keys that exist already) and only then
//! writes, so that an error about the document leaves everything as it was. An error of the storage engine may
//! leave the transaction half changed; whoever sees one drops the transaction, which undoes it.

use std::ops::Range;
use std::sync::Arc;

use bson::RawDocument;

use treedb_query::access::{Change, ReadWritten, RowId, Sink};
use treedb_query::error::Result;
use treedb_storage::{Reads, Table, WriteTxn};

use crate::catalog::Catalog;
use crate::catalog::meta::{Facts, IndexMeta, Meta};
use crate::changes::Pending;
use crate::read::long_key::{is_long, stored};
use crate::read::view::{View, entry, split_entry};
use crate::write::bulk;
use crate::write::change::{IndexChange, check_document, index_changes};
use crate::write::row::{Rows, with_scratch};

/// One collection inside a write transaction.
pub(crate) struct Edit<'a> {
    pub(crate) txn: &'a mut WriteTxn,
    pub(crate) catalog: &'a Catalog,
    /// As the transaction has it: shared with readers until it is changed.
    pub(crate) meta: Arc<Meta>,
    /// What is to be recorded of it; `None` if nothing is.
    pub(crate) pending: Option<Pending>,
}

impl<'a> Edit<'a> {
    /// Writes what there is to be recorded; with `only_full` only if that is much.
    fn record(&mut self, only_full: bool) -> Result<()> {
        match &mut self.pending {
            Some(pending) if !only_full || pending.is_full() => pending.flush(self.txn),
            _ => Ok(()),
        }
    }

    /// The last step of every edit.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.record(false)
    }

    pub(crate) fn view(&self) -> View<'_, WriteTxn> {
        View { reads: self.txn, meta: &self.meta }
    }

    /// What every index must change when the row at `row` (`None`: a new one) goes from `old` to `new`.
    fn changes(
        &self,
        row: Option<RowId>,
        old: Option<&RawDocument>,
        new: Option<&RawDocument>,
    ) -> Result<Vec<IndexChange>> {
        let Edit { txn, meta, .. } = self;
        let defs = meta.indexes.iter().map(|index| &index.def);
        index_changes(&meta.namespace, defs, row, old, new, &|number, key| match meta.indexes.get(number) {
            Some(index) => holder(txn, index, key),
            None => Ok(None),
        })
    }

    /// Carries out `changes` for the row at `row`.
    fn apply(&mut self, row: RowId, changes: Vec<IndexChange>) -> Result<()> {
        let mut news = Vec::new();
        for (number, (index, change)) in self.meta.indexes.iter().zip(changes).enumerate() {
            for key in &change.remove {
                remove_entry(self.txn, index, key, row)?;
            }
            for key in change.add.iter().chain(&change.marked) {
                let (key, value) = entry(index.def.unique, key, row, &change.type_bits);
                self.txn.put(&index.table, &key, &value)?;
            }
            let shortened = change.add.iter().any(|key| is_long(key));
            let facts = Facts { multikey: change.multikey, shortened };
            news.extend(index.facts.news(facts).map(|facts| (number, facts)));
        }
        self.note(&news)
    }

    /// Hands `put` the row that `doc` is stored as. Shapes that it needs become part of the catalog's entry.
    fn store<T>(
        &mut self,
        doc: &RawDocument,
        put: impl FnOnce(&mut WriteTxn, &Table, &[u8]) -> treedb_storage::Result<T>,
    ) -> Result<T> {
        with_scratch(|scratch| {
            let row = self.meta.stored_as.encode(doc, scratch);
            self.grown(row.grown)?;
            Ok(put(self.txn, &self.meta.rows, row.bytes)?)
        })
    }

    /// Stores `doc` as a new row, without entries of indexes.
    pub(crate) fn append(&mut self, doc: &RawDocument) -> Result<RowId> {
        let row = RowId(self.store(doc, |txn, rows, bytes| txn.append_row(rows, bytes))?);
        if let Some(pending) = &mut self.pending {
            pending.insert(row);
        }
        Ok(row)
    }

    /// Stores `docs` as new rows, without entries of indexes, and returns their numbers.
    pub(crate) fn append_all(&mut self, docs: &[&RawDocument]) -> Result<Range<u64>> {
        let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(docs.len()));
        for doc in docs {
            with_scratch(|scratch| {
                let row = self.meta.stored_as.encode(doc, scratch);
                bytes.extend_from_slice(row.bytes);
                self.grown(row.grown)
            })?;
            ends.push(bytes.len());
        }
        let mut from = 0;
        let values: Vec<&[u8]> =
            ends.iter().filter_map(|&end| bytes.get(std::mem::replace(&mut from, end)..end)).collect();
        let rows = self.txn.append_rows(&self.meta.rows, &values)?;
        if let Some(pending) = &mut self.pending {
            rows.clone().for_each(|row| pending.insert(RowId(row)));
        }
        Ok(rows)
    }

    /// Notes how rows are stored from now on, if that is not as before.
    fn grown(&mut self, grown: Option<Rows>) -> Result<()> {
        let Some(grown) = grown else { return Ok(()) };
        let meta = Arc::make_mut(&mut self.meta);
        meta.stored_as = grown;
        self.catalog.write(self.txn, meta)
    }

    /// Inserts `doc`, which is what the JSON `text` says; text is kept as it is where rows are text.
    pub(crate) fn insert_text(&mut self, doc: &RawDocument, text: &str) -> Result<RowId> {
        if !matches!(self.meta.stored_as, Rows::Json) {
            return self.insert(doc);
        }
        check_document(self.meta.validator.as_ref(), None, doc)?;
        let changes = self.changes(None, None, Some(doc))?;
        let row = RowId(self.txn.append_row(&self.meta.rows, text.as_bytes())?);
        if let Some(pending) = &mut self.pending {
            pending.insert(row);
        }
        self.apply(row, changes)?;
        Ok(row)
    }
}

/// The row that has `key` in a unique index.
pub(crate) fn holder(txn: &WriteTxn, index: &IndexMeta, key: &[u8]) -> Result<Option<RowId>> {
    holder_of(txn, index, &stored(key))
}

/// The row that has in a unique index the key that is `stored` so.
pub(crate) fn holder_of(txn: &WriteTxn, index: &IndexMeta, stored: &[u8]) -> Result<Option<RowId>> {
    let entry = txn.get(&index.table, stored)?.map(|value| split_entry(index, stored, value)).transpose()?;
    Ok(entry.map(|(_, row)| row))
}

/// Removes the entry of `row` under `key`; nothing happens if another row has the key, or none (an index that is
/// still being built has not seen every row).
fn remove_entry(txn: &mut WriteTxn, index: &IndexMeta, key: &[u8], row: RowId) -> Result<()> {
    if index.def.unique && holder(txn, index, key)? != Some(row) {
        return Ok(());
    }
    txn.delete(&index.table, &entry(index.def.unique, key, row, &[]).0)?;
    Ok(())
}

impl Sink for Edit<'_> {
    fn read(&self, read: &mut ReadWritten<'_>) -> Result<()> {
        let view = self.view();
        read(&view, &view.context())
    }

    fn insert(&mut self, doc: &RawDocument) -> Result<RowId> {
        check_document(self.meta.validator.as_ref(), None, doc)?;
        let changes = self.changes(None, None, Some(doc))?;
        let row = self.append(doc)?;
        self.apply(row, changes)?;
        Ok(row)
    }

    fn insert_all(&mut self, documents: &[&RawDocument]) -> Result<bool> {
        bulk::insert_all(self, documents)
    }

    fn modify(&mut self, id: RowId, change: &mut dyn FnMut(&RawDocument) -> Result<Change>) -> Result<bool> {
        self.record(true)?;
        let Some(old) = (View { reads: &*self.txn, meta: &self.meta }).document(id)? else {
            return Ok(false);
        };
        let change = change(&old)?;
        let whole = matches!(change, Change::Replace(_));
        match change {
            Change::Keep => {}
            Change::Replace(new) | Change::Update(new) => {
                check_document(self.meta.validator.as_ref(), Some(&old), &new)?;
                let changes = self.changes(Some(id), Some(&old), Some(&new))?;
                if let Some(pending) = &mut self.pending {
                    pending.update(id, &old, &new, whole);
                }
                self.store(&new, |txn, rows, bytes| txn.put_row(rows, id.0, bytes))?;
                self.apply(id, changes)?;
            }
            Change::Delete => {
                let changes = self.changes(Some(id), Some(&old), None)?;
                if let Some(pending) = &mut self.pending {
                    pending.delete(id, &old);
                }
                self.txn.delete_row(&self.meta.rows, id.0)?;
                self.apply(id, changes)?;
            }
        }
        Ok(true)
    }
}
