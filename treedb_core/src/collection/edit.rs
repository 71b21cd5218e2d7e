//! A collection being written: [`Sink`] over a kv write transaction.
//!
//! Every change looks at all indexes first (keys of the document, unique keys that exist already) and only then
//! writes, so that an error about the document leaves everything as it was. An error of the storage engine may
//! leave the transaction half changed; whoever sees one drops the transaction, which undoes it.

use std::sync::Arc;

use bson::RawDocument;

use crate::access::{Change, IndexInfo, KeyRange, RowId, Sink, Source, VisitEntry, VisitRow, Way};
use crate::code::{ErrorCode, QueryError, Result};
use crate::kv::{Reads, WriteTxn};

use super::catalog::Catalog;
use super::meta::{IndexMeta, Meta};
use super::view::{View, entry, split_entry};

/// Largest document, in bytes: MongoDB's limit.
pub const MAX_DOCUMENT: usize = 16 * 1024 * 1024;

/// One collection inside a write transaction.
pub(crate) struct Edit<'a> {
    pub(crate) txn: &'a mut WriteTxn,
    pub(crate) catalog: &'a Catalog,
    /// As the transaction has it: shared with readers until it is changed.
    pub(crate) meta: Arc<Meta>,
}

/// What one index has to change for one row.
#[derive(Default)]
struct IndexChange {
    remove: Vec<Vec<u8>>,
    add: Vec<Vec<u8>>,
    multikey: bool,
}

impl<'a> Edit<'a> {
    /// Refuses a document that the collection's validator does not let in.
    fn check_valid(&self, old: Option<&RawDocument>, new: &RawDocument) -> Result<()> {
        match &self.meta.validator {
            Some(validator) => validator.check(old, new),
            None => Ok(()),
        }
    }

    fn view(&self) -> View<'_, WriteTxn> {
        View { reads: self.txn, meta: &self.meta }
    }

    /// What every index must change when the row at `row` (`None`: a new one) goes from `old` to `new`.
    fn changes(
        &self,
        row: Option<RowId>,
        old: Option<&RawDocument>,
        new: Option<&RawDocument>,
    ) -> Result<Vec<IndexChange>> {
        let mut changes = Vec::with_capacity(self.meta.indexes.len());
        for index in &self.meta.indexes {
            let mut change = IndexChange::default();
            let old_keys = match old {
                Some(document) => index.def.keys(document)?.keys,
                None => Vec::new(),
            };
            let new_keys = match new {
                Some(document) => {
                    let keys = index.def.keys(document)?;
                    change.multikey = keys.multikey;
                    keys.keys
                }
                None => Vec::new(),
            };
            change.remove =
                old_keys.iter().filter(|key| new_keys.binary_search(key).is_err()).cloned().collect();
            change.add = new_keys.into_iter().filter(|key| old_keys.binary_search(key).is_err()).collect();
            for (key, document) in change.add.iter().zip(new.into_iter().cycle()) {
                check_key(self.txn, &self.meta, index, key, row, document)?;
            }
            changes.push(change);
        }
        Ok(changes)
    }

    /// Carries out `changes` for the row at `row`.
    fn apply(&mut self, row: RowId, changes: Vec<IndexChange>) -> Result<()> {
        let mut now_multikey = Vec::new();
        for (number, (index, change)) in self.meta.indexes.iter().zip(changes).enumerate() {
            for key in &change.remove {
                remove_entry(self.txn, index, key, row)?;
            }
            for key in &change.add {
                let (key, value) = entry(index.def.unique, key, row);
                self.txn.put(&index.table, &key, &value)?;
            }
            if change.multikey && !index.multikey {
                now_multikey.push(number);
            }
        }
        if !now_multikey.is_empty() {
            let meta = Arc::make_mut(&mut self.meta);
            for number in now_multikey {
                meta.indexes[number].multikey = true;
            }
            meta.arrange();
            self.catalog.write(self.txn, meta)?;
        }
        Ok(())
    }

    /// Adds the entries of rows from `from` on to the index number `index`, at most `limit` rows. Returns the next
    /// row to look at, `None` when all have been. Entries that concurrent writes have added already are left alone.
    pub(crate) fn backfill(&mut self, index: usize, from: u64, limit: usize) -> Result<Option<u64>> {
        let Some(target) = self.meta.indexes.get(index) else { return Ok(None) };
        let (mut found, mut multikey, mut seen, mut next) = (Vec::new(), false, 0, None);
        for row in self.txn.rows(&self.meta.rows, from)? {
            let (id, bytes) = row?;
            if seen == limit {
                next = Some(id);
                break;
            }
            seen += 1;
            let keys = target.def.keys(RawDocument::from_bytes(bytes)?)?;
            multikey |= keys.multikey;
            found.extend(keys.keys.into_iter().map(|key| (key, RowId(id))));
        }
        // In key order, the tree is filled leaf by leaf.
        found.sort_unstable();
        for (key, row) in found {
            let view = View { reads: &*self.txn, meta: &self.meta };
            if let Some(document) = view.document(row)? {
                check_key(self.txn, &self.meta, target, &key, Some(row), document)?;
            }
            let (key, value) = entry(target.def.unique, &key, row);
            self.txn.put(&target.table, &key, &value)?;
        }
        let meta = Arc::make_mut(&mut self.meta);
        if let Some(target) = meta.indexes.get_mut(index) {
            target.multikey |= multikey;
            target.building = next;
        }
        meta.arrange();
        self.catalog.write(self.txn, meta)?;
        Ok(next)
    }
}

/// Refuses a key that is too long, or that another row than `row` has in a unique index.
fn check_key(
    txn: &WriteTxn,
    meta: &Meta,
    index: &IndexMeta,
    key: &[u8],
    row: Option<RowId>,
    document: &RawDocument,
) -> Result<()> {
    let limit = crate::kv::MAX_KEY - 8;
    if key.len() > limit {
        return Err(QueryError::new(
            ErrorCode::KeyTooLong,
            format!(
                "{}: a key of index {} is {} bytes long, over the limit of {limit}: shorten the value or drop the index",
                meta.namespace,
                index.def.name,
                key.len()
            ),
        ));
    }
    if !index.def.unique {
        return Ok(());
    }
    let Some(holder) = txn.get(&index.table, key)? else { return Ok(()) };
    let (_, holder) = split_entry(index, key, holder)?;
    if Some(holder) == row {
        return Ok(());
    }
    Err(index.def.duplicate(meta.namespace.as_str(), key, document))
}

/// Removes the entry of `row` under `key`; nothing happens if another row has the key, or none (an index that is
/// still being built has not seen every row).
fn remove_entry(txn: &mut WriteTxn, index: &IndexMeta, key: &[u8], row: RowId) -> Result<()> {
    if index.def.unique {
        let holder = txn.get(&index.table, key)?.map(|value| split_entry(index, key, value)).transpose()?;
        if holder.is_none_or(|(_, holder)| holder != row) {
            return Ok(());
        }
    }
    txn.delete(&index.table, &entry(index.def.unique, key, row).0)?;
    Ok(())
}

/// `BSONObjectTooLarge` if a document is over the limit.
fn check_size(document: &RawDocument) -> Result<()> {
    let size = document.as_bytes().len();
    if size <= MAX_DOCUMENT {
        return Ok(());
    }
    Err(QueryError::new(
        ErrorCode::BSONObjectTooLarge,
        format!("object to insert too large. size in bytes: {size}, max size: {MAX_DOCUMENT}"),
    ))
}

impl Source for Edit<'_> {
    fn indexes(&self) -> &[IndexInfo] {
        &self.meta.infos
    }

    fn fetch(&self, id: RowId, visit: &mut dyn FnMut(&RawDocument) -> Result<()>) -> Result<bool> {
        self.view().fetch(id, visit)
    }

    fn scan(&self, way: Way, after: Option<RowId>, visit: &mut VisitRow<'_>) -> Result<()> {
        self.view().scan(way, after, visit)
    }

    fn index_range(
        &self,
        index: usize,
        range: &KeyRange,
        way: Way,
        after: Option<(&[u8], RowId)>,
        visit: &mut VisitEntry<'_>,
    ) -> Result<()> {
        self.view().index_range(index, range, way, after, visit)
    }

    fn estimated_rows(&self) -> u64 {
        self.view().estimated_rows()
    }
}

impl Sink for Edit<'_> {
    fn insert(&mut self, doc: &RawDocument) -> Result<RowId> {
        check_size(doc)?;
        self.check_valid(None, doc)?;
        let changes = self.changes(None, None, Some(doc))?;
        let row = RowId(self.txn.append_row(&self.meta.rows, doc.as_bytes())?);
        self.apply(row, changes)?;
        Ok(row)
    }

    fn modify(&mut self, id: RowId, change: &mut dyn FnMut(&RawDocument) -> Result<Change>) -> Result<bool> {
        let Some(old) = self.view().document(id)? else { return Ok(false) };
        match change(old)? {
            Change::Keep => {}
            Change::Replace(new) => {
                check_size(&new)?;
                self.check_valid(Some(old), &new)?;
                let changes = self.changes(Some(id), Some(old), Some(&new))?;
                self.txn.put_row(&self.meta.rows, id.0, new.as_bytes())?;
                self.apply(id, changes)?;
            }
            Change::Delete => {
                let changes = self.changes(Some(id), Some(old), None)?;
                self.txn.delete_row(&self.meta.rows, id.0)?;
                self.apply(id, changes)?;
            }
        }
        Ok(true)
    }
}
