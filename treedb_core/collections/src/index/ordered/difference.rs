//! The entries that a row gains and loses in an ordered index when its document changes.

use bson::RawDocument;

use treedb_query::access::RowId;
use treedb_query::error::Result;
use treedb_query::index::ordered::IndexDef;

use super::entry::type_bits;
use crate::catalog::namespace::Namespace;
use crate::index::{Holder, IndexChange, Versions};

/// The entries that a row gains and loses. Refuses a key that another row has in a unique index.
#[inline]
pub(super) fn difference(
    def: &IndexDef,
    versions: &Versions<'_>,
    holder: &Holder<'_>,
) -> Result<IndexChange> {
    let Versions { namespace, row, old, new } = *versions;
    let mut change = IndexChange::default();
    if let (Some(old), Some(new)) = (old, new)
        && def.is_untouched(old, new)
    {
        return Ok(change);
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
        change.retyped = new_keys.iter().filter(|key| old_keys.binary_search(key).is_ok()).cloned().collect();
    }
    change.add = new_keys.into_iter().filter(|key| old_keys.binary_search(key).is_err()).collect();
    for (key, document) in change.add.iter().zip(new.into_iter().cycle()) {
        check_key(namespace, def, key, row, document, holder)?;
    }
    Ok(change)
}

/// Refuses a key of `document` that a row other than `row` has in a unique index.
pub(crate) fn check_key(
    namespace: &Namespace,
    def: &IndexDef,
    key: &[u8],
    row: Option<RowId>,
    document: &RawDocument,
    holder: &Holder<'_>,
) -> Result<()> {
    if !def.unique {
        return Ok(());
    }
    match holder(key)? {
        Some(other) if Some(other) != row => Err(def.duplicate(namespace.as_str(), key, document)),
        _ => Ok(()),
    }
}
