//! The check of an ordered index: every entry belongs to its row, and no key of a row is missing.

use std::collections::HashMap;

use bson::RawDocument;

use treedb_query::access::{Direction, Flow, KeyRange, RowId};
use treedb_query::error::Result;
use treedb_query::index::ordered::IndexDef;
use treedb_storage::{Reads, SharedReadTxn};

use super::Ordered;
use super::entry::type_bits;
use super::long_key::{PREFIX_LEN, is_long};
use crate::catalog::meta::{IndexFlags, IndexMeta};
use crate::index::{Mismatch, Required};
use crate::read::view::View;

/// Rows whose keys are kept, so that a multikey index does not decode a row for each of its entries.
const RECENT: usize = 1024;
/// Rows whose keys are looked at for each part into which the keys are divided.
const SAMPLED: u64 = 8;

/// What the entries of a row should be.
struct RowEntries {
    keys: Vec<Vec<u8>>,
    type_bits: Vec<u8>,
}

/// Checks the flags of an index by a row, and counts its entries.
pub(super) fn row(
    def: &IndexDef,
    index: &IndexMeta,
    row: RowId,
    document: &RawDocument,
    required: &mut Required,
) -> Result<(), Mismatch> {
    let keys = def.keys(document)?;
    let shortened = keys.keys.iter().any(|key| is_long(key));
    let flags = IndexFlags { multikey: keys.multikey, shortened, ..IndexFlags::default() };
    if index.flags.added_by(flags).is_some() && index.building.is_none() {
        let has = index.flags;
        return Err(Mismatch::Found(format!("has {has:?}, but row {row:?} requires {flags:?}")));
    }
    required.entries += keys.keys.len() as u64;
    Ok(())
}

/// Ranges of about as many entries each, by the keys of rows that are evenly spread.
pub(super) fn parts(def: &IndexDef, view: &View<'_, SharedReadTxn>, parts: usize) -> Result<Vec<KeyRange>> {
    let mut sample = Vec::new();
    if parts > 1 {
        let mut rows = view.reads.rows(&view.meta.rows, 0)?;
        let first = rows.lend_next()?.map_or(0, |(id, _)| id);
        let last = rows.lend_next_back()?.map_or(first, |(id, _)| id);
        let places = SAMPLED * parts as u64;
        for place in 0..places {
            let from = first + ((u128::from(last - first) * u128::from(place)) / u128::from(places)) as u64;
            // What is wrong with a row has been found already.
            if let Some((_, row)) = view.reads.rows(&view.meta.rows, from)?.lend_next()?
                && let Ok(document) = view.meta.decode_row(row)
                && let Ok(keys) = def.keys(&document)
            {
                sample.extend(keys.keys);
            }
        }
        // Long keys are stored in another order than theirs, but not up to this length.
        sample.iter_mut().for_each(|key| key.truncate(PREFIX_LEN));
        sample.sort_unstable();
        sample.dedup();
    }
    let mut ranges = Vec::with_capacity(parts);
    let mut low = Vec::new();
    for part in 1..parts {
        // An index may have fewer keys than parts.
        let at = sample.len() * part / parts;
        if let Some(key) = sample.get(at).filter(|key| **key > low) {
            ranges.push(KeyRange { low: std::mem::replace(&mut low, key.clone()), high: Some(key.clone()) });
        }
    }
    ranges.push(KeyRange { low, high: None });
    Ok(ranges)
}

fn entries_of(def: &IndexDef, view: &View<'_, SharedReadTxn>, row: RowId) -> Result<Option<RowEntries>> {
    let Some(document) = view.document(row)? else { return Ok(None) };
    let keys = def.keys(&document)?;
    let type_bits = type_bits(def, &keys, &document);
    Ok(Some(RowEntries { keys: keys.keys, type_bits }))
}

/// Compares the entries of a range with their rows. One index that is being built must not have wrong entries either.
pub(super) fn entries(
    def: &IndexDef,
    view: &View<'_, SharedReadTxn>,
    index: &IndexMeta,
    keys: &KeyRange,
) -> Result<u64, Mismatch> {
    let (mut entries, mut recent) = (0, HashMap::new());
    let mut mismatch = None;
    let ordered = Ordered { def, table: &index.table };
    view.scan_index(ordered, keys, Direction::Forward, None, &mut |row, key, type_bits| {
        entries += 1;
        if !recent.contains_key(&row) {
            if recent.len() >= RECENT {
                recent.clear();
            }
            let Some(wanted) = entries_of(def, view, row)? else {
                mismatch = Some(format!("has an entry for row {row:?}, which does not exist"));
                return Ok(Flow::Break(()));
            };
            recent.insert(row, wanted);
        }
        let found = recent.get(&row);
        if !type_bits.is_empty() && found.is_some_and(|wanted| type_bits != wanted.type_bits) {
            mismatch = Some(format!("has wrong type bits for row {row:?}"));
        } else if found.is_none_or(|wanted| wanted.keys.binary_search_by(|k| k.as_slice().cmp(key)).is_err())
        {
            mismatch = Some(format!("has a key for row {row:?} that the row does not have"));
        }
        Ok(if mismatch.is_some() { Flow::Break(()) } else { Flow::Continue(()) })
    })?;
    match mismatch {
        Some(mismatch) => Err(Mismatch::Found(mismatch)),
        None => Ok(entries),
    }
}

/// Entries are distinct and each belongs to its row, so equal counts mean that none is missing. One that is being built may lack some.
pub(super) fn count(index: &IndexMeta, entries: u64, required: &Required) -> Result<(), Mismatch> {
    let expected = required.entries;
    if entries != expected && index.building.is_none() {
        return Err(Mismatch::Found(format!("has {entries} entries, but the rows have {expected} keys")));
    }
    Ok(())
}
