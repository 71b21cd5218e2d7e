//! Vector indexes: a graph of near vectors, in a table of rows.
//!
//! An entry is a vector's elements, 4 bytes each; a row has one at most.
//!
//! | file | what it holds |
//! |---|---|
//! | `record` | the rows of the table |
//! | `graph` | the graph over these rows, for searches and for writes |
//! | `image` | graphs in memory that answer searches instead |
//! | `follow` | building an image, and following the changes of the table |
//! | `search` | the nearest vectors, as many as are asked for |
//! | `build` | adding the rows of a collection |
//! | `bulk` | the same in memory, as far as it goes |
//! | `check` | comparing the graph with the rows |

mod build;
mod bulk;
mod check;
mod follow;
mod graph;
mod image;
mod record;
mod search;

pub(crate) use image::Images;

use bson::RawDocument;

use treedb_query::access::{Probe, RowId};
use treedb_query::error::Result;
use treedb_query::index::vector::VectorDef;
use treedb_storage::{ReadTxn, Reads, Table, TableKind, WriteTxn};

use super::{BuildSlice, Checker, Holder, IndexChange, IndexKind, Prepared, Progress, Uncommitted, Versions};
use crate::catalog::meta::{IndexFlags, IndexMeta};
use crate::read::view::View;

/// The entry of a vector.
fn entry_of(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|element| element.to_le_bytes()).collect()
}

/// The vector of an entry.
fn vector_of(entry: &[u8]) -> Vec<f32> {
    entry.as_chunks().0.iter().map(|element| f32::from_le_bytes(*element)).collect()
}

impl IndexKind for VectorDef {
    fn table_kind(&self) -> TableKind {
        TableKind::Rows
    }

    fn difference(&self, versions: &Versions<'_>, _: &Holder<'_>) -> Result<IndexChange> {
        let Versions { old, new, .. } = *versions;
        if let (Some(old), Some(new)) = (old, new)
            && self.is_untouched(old, new)
        {
            return Ok(IndexChange::default());
        }
        let entry = |document: Option<&RawDocument>| {
            document.and_then(|document| self.vector(document)).map(|vector| entry_of(&vector))
        };
        let (old, new) = (entry(old), entry(new));
        if old == new {
            return Ok(IndexChange::default());
        }
        let (remove, add) = (old.into_iter().collect(), new.into_iter().collect());
        Ok(IndexChange { remove, add, ..IndexChange::default() })
    }

    fn apply(
        &self,
        txn: &mut WriteTxn,
        table: &Table,
        row: RowId,
        change: &IndexChange,
    ) -> Result<IndexFlags> {
        if !change.remove.is_empty() {
            graph::remove_node(self, txn, table, row.0)?;
        }
        for entry in &change.add {
            graph::insert_nodes(self, txn, table, &[(row.0, &vector_of(entry))])?;
        }
        Ok(IndexFlags::default())
    }

    fn holder(&self, _: &impl Reads, _: &Table, _: &[u8]) -> Result<Option<RowId>> {
        Ok(None)
    }

    fn prepare(
        &self,
        _: &WriteTxn,
        _: &Table,
        documents: &[&RawDocument],
    ) -> Result<Option<Box<dyn Prepared>>> {
        let vectors = documents.iter().map(|document| self.vector(document)).collect();
        Ok(Some(Box::new(build::PreparedVectors { def: self.clone(), vectors })))
    }

    fn build(&self, slice: &BuildSlice<'_>, on_progress: &mut dyn FnMut(u64)) -> Result<Progress> {
        build::build(self, slice, on_progress)
    }

    fn checker<'c>(&'c self, view: &'c View<'c, ReadTxn>, index: &'c IndexMeta) -> Box<dyn Checker + 'c> {
        Box::new(check::GraphChecker::new(self, view, index))
    }

    fn walk(&self, view: &View<'_, impl Reads>, index: usize, table: &Table, probe: Probe<'_>) -> Result<()> {
        let Probe::Nearest { vector, k, ef, visit } = probe else { return Err(Probe::refused(index)) };
        search::nearest(self, view, table, vector, k, ef, visit)
    }

    fn walk_uncommitted(
        &self,
        base: Option<&View<'_, impl Reads>>,
        index: usize,
        uncommitted: &Uncommitted<'_>,
        probe: Probe<'_>,
    ) -> Result<()> {
        let Probe::Nearest { vector, k, ef, visit } = probe else { return Err(Probe::refused(index)) };
        search::nearest_uncommitted(self, base, index, uncommitted, vector, k, ef, visit)
    }
}
