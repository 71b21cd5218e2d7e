//! Ordered indexes: a table of keys in order.
//!
//! | file | what it holds |
//! |---|---|
//! | `entry` | the bytes of an entry |
//! | `long_key` | keys that are too long for an entry |
//! | `scan` | the entries in a range of keys |
//! | `difference` | the entries that a row gains and loses |
//! | `sorted` | many entries, sorted before they are written |
//! | `build` | the entries of an index build: read from a snapshot, sorted, written |
//! | `check` | comparing entries with rows |
//! | `uncommitted` | scans in an open transaction |

mod build;
mod check;
mod difference;
pub(crate) mod entry;
pub(crate) mod long_key;
mod scan;
mod sorted;
mod uncommitted;

use bson::RawDocument;

use treedb_query::access::{KeyRange, Probe, RowId};
use treedb_query::error::Result;
use treedb_query::index::ordered::IndexDef;
use treedb_storage::{Reads, SharedReadTxn, Table, TableKind, WriteTxn};

use super::{
    BuildSlice, Holder, IndexChange, IndexKind, Mismatch, Prepared, Progress, Required, Uncommitted, Versions,
};
use crate::catalog::meta::{IndexFlags, IndexMeta, Meta};
use crate::read::view::View;

use entry::{entry, split_entry};
use long_key::{StoredRange, is_long, stored};

/// An ordered index: its definition, and the table of its entries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ordered<'i> {
    pub(crate) def: &'i IndexDef,
    pub(crate) table: &'i Table,
}

impl IndexMeta {
    /// The index, if it is an ordered one.
    #[inline]
    pub(crate) fn ordered(&self) -> Option<Ordered<'_>> {
        Some(Ordered { def: self.def.as_ordered()?, table: &self.table })
    }
}

impl Ordered<'_> {
    /// The row that has a key of a unique index, given in its stored form.
    fn holder_of(self, reads: &impl Reads, stored: &[u8]) -> Result<Option<RowId>> {
        let found = reads.get(self.table, stored)?;
        Ok(found.map(|value| split_entry(self.def, stored, value)).transpose()?.map(|(_, row)| row))
    }

    /// Removes the entry of `row` under `key`. Does nothing if no row or another one has the key: an index that is being built
    /// does not have all entries.
    fn remove_entry(self, txn: &mut WriteTxn, key: Vec<u8>, row: RowId) -> Result<()> {
        if self.def.unique && self.holder_of(txn, &stored(&key))? != Some(row) {
            return Ok(());
        }
        let (entry, end) = entry(self.def.unique, key, row, &[]);
        txn.delete(self.table, entry.get(..end).unwrap_or_default())?;
        Ok(())
    }

    /// About how many entries are in a range.
    pub(crate) fn estimate(self, reads: &impl Reads, range: &KeyRange) -> Option<u64> {
        reads.estimate(self.table, StoredRange::of(self.def, range).bounds()).ok()
    }
}

impl IndexKind for IndexDef {
    fn table_kind(&self) -> TableKind {
        TableKind::Ordered
    }

    #[inline]
    fn difference(&self, versions: &Versions<'_>, holder: &Holder<'_>) -> Result<IndexChange> {
        difference::difference(self, versions, holder)
    }

    #[inline]
    fn apply(
        &self,
        txn: &mut WriteTxn,
        _: &Meta,
        index: &IndexMeta,
        row: RowId,
        change: IndexChange,
    ) -> Result<IndexFlags> {
        let table = &index.table;
        for key in change.remove {
            Ordered { def: self, table }.remove_entry(txn, key, row)?;
        }
        let shortened = change.add.iter().any(|key| is_long(key));
        for key in change.add.into_iter().chain(change.retyped) {
            let (entry, end) = entry(self.unique, key, row, change.type_bits.stored());
            let (key, value) = entry.split_at_checked(end).unwrap_or_default();
            txn.put(table, key, value)?;
        }
        Ok(IndexFlags { multikey: change.multikey, shortened, ..IndexFlags::default() })
    }

    #[inline]
    fn holder(&self, reads: &impl Reads, table: &Table, key: &[u8]) -> Result<Option<RowId>> {
        Ordered { def: self, table }.holder_of(reads, &stored(key))
    }

    fn prepare(
        &self,
        txn: &WriteTxn,
        table: &Table,
        documents: &[&RawDocument],
    ) -> Result<Option<Box<dyn Prepared>>> {
        let entries = sorted::PreparedEntries::of(Ordered { def: self, table }, txn, documents)?;
        Ok(entries.map(|entries| Box::new(entries) as Box<dyn Prepared>))
    }

    fn build(&self, slice: &BuildSlice<'_>, on_progress: &mut dyn FnMut(u64)) -> Result<Progress> {
        build::build(self, slice, on_progress)
    }

    fn check_row(
        &self,
        _: &View<'_, SharedReadTxn>,
        index: &IndexMeta,
        row: RowId,
        document: &RawDocument,
        required: &mut Required,
    ) -> Result<(), Mismatch> {
        check::row(self, index, row, document, required)
    }

    fn check_parts(&self, view: &View<'_, SharedReadTxn>, parts: usize) -> Result<Vec<KeyRange>> {
        check::parts(self, view, parts)
    }

    fn check_entries(
        &self,
        view: &View<'_, SharedReadTxn>,
        index: &IndexMeta,
        keys: &KeyRange,
        _: &Required,
    ) -> Result<u64, Mismatch> {
        check::entries(self, view, index, keys)
    }

    fn check_count(&self, index: &IndexMeta, entries: u64, required: &Required) -> Result<(), Mismatch> {
        check::count(index, entries, required)
    }

    #[inline]
    fn walk(&self, view: &View<'_, impl Reads>, index: usize, table: &Table, probe: Probe<'_>) -> Result<()> {
        let Probe::Range { range, direction, after, visit } = probe else {
            return Err(Probe::refused(index));
        };
        view.scan_index(Ordered { def: self, table }, range, direction, after, visit)
    }

    fn walk_uncommitted(
        &self,
        base: Option<&View<'_, impl Reads>>,
        index: usize,
        uncommitted: &Uncommitted<'_>,
        probe: Probe<'_>,
    ) -> Result<()> {
        let Probe::Range { range, direction, after, visit } = probe else {
            return Err(Probe::refused(index));
        };
        uncommitted::scan(base, index, uncommitted, range, direction, after, visit)
    }
}
