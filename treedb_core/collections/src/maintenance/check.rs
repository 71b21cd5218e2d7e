//! Checks a collection: rows against indexes, and indexes against rows.

use std::collections::HashMap;

use treedb_query::access::{Direction, Flow, KeyRange, RowId, Source};
use treedb_query::doc;
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_storage::ReadTxn;

use crate::catalog::meta::{IndexFlags, Meta};
use crate::read::long_key::is_long;
use crate::read::view::View;

/// What [`Database::check`](crate::Database::check) has checked in one collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectionCheck {
    /// Its name.
    pub namespace: String,
    /// The number of rows, each decoded and validated.
    pub rows: u64,
    /// The name of each index, and the number of its entries, each compared with its row.
    pub indexes: Vec<(String, u64)>,
}

/// Checks one collection in a snapshot. An index that is being built must not have wrong entries, but may lack some.
pub(crate) fn collection(reads: &ReadTxn, meta: &Meta) -> Result<CollectionCheck> {
    let view = View { reads, meta };
    let inconsistent = |what: String| {
        QueryError::new(
            ErrorCode::InternalError,
            format!("{}: {what}; restore from a backup", meta.namespace),
        )
    };
    let mut rows = 0;
    // The number of entries that each index should have. The entries are compared with their rows below.
    let mut expected = vec![0_u64; meta.indexes.len()];
    view.scan(Direction::Forward, None, &mut |row, document| {
        rows += 1;
        doc::validate(document.as_bytes())?;
        for (index, expected) in meta.indexes.iter().zip(&mut expected) {
            let keys = index.def.keys(document)?;
            let flags =
                IndexFlags { multikey: keys.multikey, shortened: keys.keys.iter().any(|key| is_long(key)) };
            if index.flags.added_by(flags).is_some() && index.building.is_none() {
                return Err(inconsistent(format!(
                    "index {} has {:?}, but row {row:?} requires {flags:?}",
                    index.def.name, index.flags
                )));
            }
            *expected += keys.keys.len() as u64;
        }
        Ok(Flow::Continue(()))
    })?;
    let mut indexes = Vec::new();
    for (index, expected) in meta.indexes.iter().zip(expected) {
        let mut entries = 0;
        // The keys of recent rows, so that a multikey index does not decode a row for each of its entries.
        let mut recent: HashMap<RowId, (Vec<Vec<u8>>, Vec<u8>)> = HashMap::new();
        view.walk(index, &KeyRange::ALL, Direction::Forward, None, &mut |row, key, type_bits| {
            entries += 1;
            if !recent.contains_key(&row) {
                if recent.len() >= 1024 {
                    recent.clear();
                }
                let keys = match view.document(row)? {
                    Some(document) => {
                        let keys = index.def.keys(&document)?;
                        let type_bits = crate::write::change::type_bits(&index.def, &keys, &document);
                        (keys.keys, type_bits)
                    }
                    None => {
                        return Err(inconsistent(format!(
                            "index {} has an entry for row {row:?}, which does not exist",
                            index.def.name
                        )));
                    }
                };
                recent.insert(row, keys);
            }
            let found = recent.get(&row);
            if !type_bits.is_empty() && found.is_some_and(|(_, expected)| type_bits != expected) {
                return Err(inconsistent(format!(
                    "index {} has wrong type bits for row {row:?}",
                    index.def.name
                )));
            }
            if found.is_none_or(|(keys, _)| keys.binary_search_by(|k| k.as_slice().cmp(key)).is_err()) {
                return Err(inconsistent(format!(
                    "index {} has a key for row {row:?} that the row does not have",
                    index.def.name
                )));
            }
            Ok(Flow::Continue(()))
        })?;
        // Entries are distinct and each belongs to its row, so equal counts mean that none is missing.
        if entries != expected && index.building.is_none() {
            return Err(inconsistent(format!(
                "index {} has {entries} entries, but the rows have {expected} keys",
                index.def.name
            )));
        }
        indexes.push((index.def.name.clone(), entries));
    }
    Ok(CollectionCheck { namespace: meta.namespace.to_string(), rows, indexes })
}
