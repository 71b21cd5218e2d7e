//! The checks of a changed document before anything is written, and the index entries that it adds and removes. All ways of
//! writing use them: write transactions, and transactions that keep their changes in memory until they commit.

use bson::RawDocument;

use treedb_query::access::RowId;
use treedb_query::doc::Doc;
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::index::ordered::{IndexDef, KeySet};

use crate::catalog::namespace::Namespace;
use crate::catalog::validator::Validator;

/// Largest document, in bytes: MongoDB's limit.
pub const MAX_DOCUMENT: usize = 16 * 1024 * 1024;

/// The changes of one index for one row.
#[derive(Debug, Default)]
pub(crate) struct IndexChange {
    pub(crate) remove: Vec<Vec<u8>>,
    pub(crate) add: Vec<Vec<u8>>,
    /// The type bits of the entry, if it is the row's only one.
    pub(crate) type_bits: Vec<u8>,
    /// Keys whose entries stay but have other type bits.
    pub(crate) retyped: Vec<Vec<u8>>,
    /// The new document has, or may have, several entries.
    pub(crate) multikey: bool,
}

/// Refuses `new`, which replaces `old`, if it is too large or the collection's validator refuses it.
pub(crate) fn check_document(
    validator: Option<&Validator>,
    old: Option<&RawDocument>,
    new: &RawDocument,
) -> Result<()> {
    let size = new.as_bytes().len();
    if size > MAX_DOCUMENT {
        return Err(QueryError::new(
            ErrorCode::BSONObjectTooLarge,
            format!("object to insert too large. size in bytes: {size}, max size: {MAX_DOCUMENT}"),
        ));
    }
    validator.map_or(Ok(()), |validator| validator.check(old, new))
}

/// Finds the row that has a key of the unique index at a position.
pub(crate) type KeyHolder<'h> = dyn Fn(usize, &[u8]) -> Result<Option<RowId>> + 'h;

/// The changes of the indexes `defs` when the row `row` (`None`: a new one) changes from `old` to `new`. `holder` finds the
/// row that has a key of the unique index at a position of `defs`.
pub(crate) fn index_changes<'d>(
    namespace: &Namespace,
    defs: impl ExactSizeIterator<Item = &'d IndexDef>,
    row: Option<RowId>,
    old: Option<&RawDocument>,
    new: Option<&RawDocument>,
    holder: &KeyHolder<'_>,
) -> Result<Vec<IndexChange>> {
    let mut changes = Vec::with_capacity(defs.len());
    for (number, def) in defs.enumerate() {
        let mut change = IndexChange::default();
        if let (Some(old), Some(new)) = (old, new)
            && is_untouched(def, old, new)
        {
            changes.push(change);
            continue;
        }
        let (mut old_keys, mut old_type_bits) = (Vec::new(), Vec::new());
        if let Some(document) = old {
            let keys = def.keys(document)?;
            old_type_bits = type_bits(def, &keys, document);
            old_keys = keys.keys;
        }
        let new_keys = match new {
            Some(document) => {
                let keys = def.keys(document)?;
                change.multikey = keys.multikey;
                change.type_bits = type_bits(def, &keys, document);
                keys.keys
            }
            None => Vec::new(),
        };
        change.remove = old_keys.iter().filter(|key| new_keys.binary_search(key).is_err()).cloned().collect();
        if old_type_bits != change.type_bits {
            change.retyped =
                new_keys.iter().filter(|key| old_keys.binary_search(key).is_ok()).cloned().collect();
        }
        change.add = new_keys.into_iter().filter(|key| old_keys.binary_search(key).is_err()).collect();
        for (key, document) in change.add.iter().zip(new.into_iter().cycle()) {
            check_key(namespace, def, key, row, document, &|key| holder(number, key))?;
        }
        changes.push(change);
    }
    Ok(changes)
}

/// Whether the two documents have equal values in all fields of an index.
fn is_untouched(def: &IndexDef, old: &RawDocument, new: &RawDocument) -> bool {
    let (old, new) = (Doc::from(old), Doc::from(new));
    def.fields().is_some_and(|mut fields| fields.all(|name| old.find(name) == new.find(name)))
}

/// The type bits of a document's only entry; none if it has several.
pub(crate) fn type_bits(def: &IndexDef, keys: &KeySet, document: &RawDocument) -> Vec<u8> {
    if keys.multikey || keys.keys.len() != 1 || !def.holds_values() {
        Vec::new()
    } else {
        def.type_bits(document)
    }
}

/// Refuses a key of `document` that a row other than `row` has in a unique index.
pub(crate) fn check_key(
    namespace: &Namespace,
    def: &IndexDef,
    key: &[u8],
    row: Option<RowId>,
    document: &RawDocument,
    holder: &dyn Fn(&[u8]) -> Result<Option<RowId>>,
) -> Result<()> {
    if !def.unique {
        return Ok(());
    }
    match holder(key)? {
        Some(other) if Some(other) != row => Err(def.duplicate(namespace.as_str(), key, document)),
        _ => Ok(()),
    }
}
