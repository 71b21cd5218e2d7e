//! The check of an ordered index: every entry belongs to its row, and no key of a row is missing.

use std::collections::HashMap;

use bson::RawDocument;

use treedb_query::access::{Direction, Flow, KeyRange, RowId};
use treedb_query::error::Result;
use treedb_query::index::ordered::IndexDef;
use treedb_storage::ReadTxn;

use super::Ordered;
use super::entry::type_bits;
use super::long_key::is_long;
use crate::catalog::meta::{IndexFlags, IndexMeta};
use crate::index::{Checker, Mismatch};
use crate::read::view::View;

/// Rows whose keys are kept, so that a multikey index does not decode a row for each of its entries.
const RECENT: usize = 1024;

/// Checks one index. One that is being built must not have wrong entries, but may lack some.
pub(super) struct EntryChecker<'c> {
    def: &'c IndexDef,
    view: &'c View<'c, ReadTxn>,
    index: &'c IndexMeta,
    /// The number of entries that it should have. The entries are compared with their rows.
    expected: u64,
}

/// What the entries of a row should be.
struct RowEntries {
    keys: Vec<Vec<u8>>,
    type_bits: Vec<u8>,
}

impl<'c> EntryChecker<'c> {
    pub(super) fn new(def: &'c IndexDef, view: &'c View<'c, ReadTxn>, index: &'c IndexMeta) -> Self {
        EntryChecker { def, view, index, expected: 0 }
    }

    fn entries_of(&self, row: RowId) -> Result<Option<RowEntries>> {
        let Some(document) = self.view.document(row)? else { return Ok(None) };
        let keys = self.def.keys(&document)?;
        let type_bits = type_bits(self.def, &keys, &document);
        Ok(Some(RowEntries { keys: keys.keys, type_bits }))
    }
}

impl Checker for EntryChecker<'_> {
    fn row(&mut self, row: RowId, document: &RawDocument) -> Result<(), Mismatch> {
        let keys = self.def.keys(document)?;
        let flags =
            IndexFlags { multikey: keys.multikey, shortened: keys.keys.iter().any(|key| is_long(key)) };
        if self.index.flags.added_by(flags).is_some() && self.index.building.is_none() {
            let has = self.index.flags;
            return Err(Mismatch::Found(format!("has {has:?}, but row {row:?} requires {flags:?}")));
        }
        self.expected += keys.keys.len() as u64;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<u64, Mismatch> {
        let (mut entries, mut recent) = (0, HashMap::new());
        let mut mismatch = None;
        let index = Ordered { def: self.def, table: &self.index.table };
        self.view.scan_index(
            index,
            &KeyRange::ALL,
            Direction::Forward,
            None,
            &mut |row, key, type_bits| {
                entries += 1;
                if !recent.contains_key(&row) {
                    if recent.len() >= RECENT {
                        recent.clear();
                    }
                    let Some(wanted) = self.entries_of(row)? else {
                        mismatch = Some(format!("has an entry for row {row:?}, which does not exist"));
                        return Ok(Flow::Break(()));
                    };
                    recent.insert(row, wanted);
                }
                let found = recent.get(&row);
                if !type_bits.is_empty() && found.is_some_and(|wanted| type_bits != wanted.type_bits) {
                    mismatch = Some(format!("has wrong type bits for row {row:?}"));
                } else if found
                    .is_none_or(|wanted| wanted.keys.binary_search_by(|k| k.as_slice().cmp(key)).is_err())
                {
                    mismatch = Some(format!("has a key for row {row:?} that the row does not have"));
                }
                Ok(if mismatch.is_some() { Flow::Break(()) } else { Flow::Continue(()) })
            },
        )?;
        if let Some(mismatch) = mismatch {
            return Err(Mismatch::Found(mismatch));
        }
        // Entries are distinct and each belongs to its row, so equal counts mean that none is missing.
        if entries != self.expected && self.index.building.is_none() {
            let expected = self.expected;
            return Err(Mismatch::Found(format!("has {entries} entries, but the rows have {expected} keys")));
        }
        Ok(entries)
    }
}
