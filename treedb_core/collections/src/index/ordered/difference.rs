//! The entries that a row gains and loses in an ordered index when its document changes.

use bson::RawDocument;

use treedb_query::access::RowId;
use treedb_query::error::Result;
use treedb_query::index::ordered::{IndexDef, TypeBits};

use super::entry::type_bits;
use crate::catalog::namespace::Namespace;
use crate::index::{EntryList, Holder, IndexChange, Versions};

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
    let (old_keys, new_keys) = (Keyed::of(def, old)?, Keyed::of(def, new)?);
    (change.multikey, change.type_bits) = (new_keys.multikey, new_keys.type_bits);
    (change.remove, change.add) = (old_keys.keys, new_keys.keys);
    if !change.remove.is_empty() && !change.add.is_empty() {
        let (before, now) = (change.remove, change.add);
        let select = |from: &[Vec<u8>], among: &[Vec<u8>], wanted: bool| -> EntryList {
            from.iter().filter(|key| among.binary_search(key).is_ok() == wanted).cloned().collect()
        };
        change.remove = select(&before, &now, false);
        if old_keys.type_bits.stored() != change.type_bits.stored() {
            change.retyped = select(&now, &before, true);
        }
        change.add = select(&now, &before, false);
    }
    for (key, document) in change.add.iter().zip(new.into_iter().cycle()) {
        check_key(namespace, def, key, row, document, holder)?;
    }
    Ok(change)
}

/// Bytes to reserve for an entry.
const TYPICAL_ENTRY_LEN: usize = 64;

/// What a document has in an index: nothing if there is no document.
#[derive(Default)]
struct Keyed {
    keys: EntryList,
    type_bits: TypeBits,
    multikey: bool,
}

impl Keyed {
    #[inline]
    fn of(def: &IndexDef, document: Option<&RawDocument>) -> Result<Self> {
        let Some(document) = document else { return Ok(Keyed::default()) };
        let mut key = Vec::with_capacity(TYPICAL_ENTRY_LEN);
        if let Some(lengths) = def.single(document, &mut key) {
            let type_bits = TypeBits::of(key.get(lengths.key..).unwrap_or_default());
            key.truncate(lengths.key);
            return Ok(Keyed { keys: EntryList::One(key), type_bits, multikey: false });
        }
        let keys = def.all_keys(document)?;
        let type_bits = TypeBits::of(&type_bits(def, &keys, document));
        Ok(Keyed { keys: keys.keys.into_iter().collect(), type_bits, multikey: keys.multikey })
    }
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
