//! Inserting many documents, as long as none is refused.
//!
//! Every index prepares what it will have of all documents before anything is written, so that it is known whether one is refused; in that
//! case nothing is written, and the caller inserts the documents one by one to find out which.

use std::sync::Arc;

use bson::RawDocument;

use treedb_query::access::RowId;
use treedb_query::error::Result;

use crate::catalog::meta::IndexFlags;
use crate::catalog::validator::Validator;
use crate::index::{IndexKind, Prepared, by_kind};
use crate::write::change::check_document;
use crate::write::edit::Edit;

/// Fewer documents are inserted one by one.
const MIN_DOCUMENTS: usize = 8;

/// Rows that are written in one call.
const CHUNK: usize = 512;

/// Inserts `documents`, each valid, with an `_id` first. False, and nothing is changed, if one of them would be refused or if
/// there are only few.
///
/// # Errors
/// Those of the storage engine.
pub(crate) fn insert_all(edit: &mut Edit<'_>, documents: &[&RawDocument]) -> Result<bool> {
    let validator = edit.validator();
    // A validator that warns would log its warnings twice if another document is refused.
    // Keys that open transactions have claimed are looked up one by one.
    if documents.len() < MIN_DOCUMENTS
        || edit.intents.has_keys(&edit.meta.namespace)
        || validator.is_some_and(Validator::warns)
        || documents.iter().any(|document| {
            edit.meta.special.check(document).is_err() || check_document(validator, None, document).is_err()
        })
    {
        return Ok(false);
    }
    let Some(prepared) = prepare(edit, documents)? else { return Ok(false) };
    let mut rows = Vec::with_capacity(documents.len());
    for chunk in documents.chunks(CHUNK) {
        rows.extend(edit.append_all(chunk)?.map(RowId));
    }
    let mut new_flags = Vec::new();
    for (number, (index, prepared)) in edit.meta.indexes.iter().zip(&prepared).enumerate() {
        let flags = prepared.write(edit.txn, &edit.meta, index, &rows)?;
        new_flags.extend(index.flags.added_by(flags).map(|flags| (number, flags)));
    }
    edit.set_flags(&new_flags)?;
    Ok(true)
}

/// What each index will have of the documents; `None` if one of them is refused.
fn prepare(edit: &Edit<'_>, documents: &[&RawDocument]) -> Result<Option<Vec<Box<dyn Prepared>>>> {
    let mut all = Vec::with_capacity(edit.meta.indexes.len());
    for index in &edit.meta.indexes {
        match by_kind!(&index.def, kind => kind.prepare(edit.txn, &index.table, documents))? {
            Some(prepared) => all.push(prepared),
            None => return Ok(None),
        }
    }
    Ok(Some(all))
}

impl Edit<'_> {
    /// Sets new flags of indexes, by position.
    pub(crate) fn set_flags(&mut self, new_flags: &[(usize, IndexFlags)]) -> Result<()> {
        if new_flags.is_empty() {
            return Ok(());
        }
        let meta = Arc::make_mut(&mut self.meta);
        for (number, flags) in new_flags {
            if let Some(index) = meta.indexes.get_mut(*number) {
                index.flags = *flags;
            }
        }
        meta.sort_indexes();
        self.catalog.write(self.txn, meta)
    }
}
