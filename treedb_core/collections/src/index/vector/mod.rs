//! Vector indexes: a graph of near vectors, in a table of rows.
//!
//! An entry is all vectors of a row: the position of each in the document and its elements, 4 bytes each. So a row has one
//! entry at most, and a node of the graph for each vector.
//!
//! | file | what it holds |
//! |---|---|
//! | `record` | the rows of the table |
//! | `graph` | the graph over these rows, for searches and for writes |
//! | `near` | what an insertion searches instead of the table |
//! | `image` | graphs in memory that answer searches instead |
//! | `workspace` | what a search needs besides, kept from one to the next |
//! | `row_nodes` | the nodes of rows, in an image |
//! | `saved` | images in files, for the next opening |
//! | `streamed` | such files of images that are not in memory |
//! | `follow` | building an image, and following the changes of the table |
//! | `search` | the nearest vectors, as many as are asked for |
//! | `among` | the same among the rows that a filter lets through |
//! | `searcher` | the nearest rows, with a workspace that the caller keeps |
//! | `build` | adding the rows of a collection |
//! | `bulk` | the same in memory, as far as it goes |
//! | `built` | storing a graph that was built in memory |
//! | `centre` | what codes are about: chosen by a build, or while the index grows |
//! | `judgement` | the same by some vectors, and whether their codes tell them apart |
//! | `check` | comparing the graph with the rows |

mod among;
mod build;
mod built;
mod bulk;
mod centre;
mod check;
mod follow;
mod graph;
mod image;
mod judgement;
mod near;
mod record;
mod row_nodes;
mod saved;
mod search;
mod searcher;
mod streamed;
mod workspace;

pub(crate) use check::KnownCentre;
pub use image::VectorMemory;
pub(crate) use image::{Asks, Images, log_writing};
pub(crate) use searcher::NearestRows;

use std::collections::BTreeMap;

use bson::RawDocument;

use treedb_query::access::{Among, Compared, KeyRange, Probe, RowId};
use treedb_query::error::Result;
use treedb_query::index::vector::{VectorDef, Vectors};
use treedb_storage::{Reads, SharedReadTxn, Table, TableKind, WriteTxn};

use self::near::Near;
use self::record::node_of;
use self::search::{Search, Wanted};
use super::{
    BuildSlice, Holder, IndexChange, IndexKind, Mismatch, Prepared, Progress, Required, Uncommitted, Versions,
};
use crate::catalog::meta::{IndexFlags, IndexMeta, Meta};
use crate::read::view::View;

/// The entry of a document's vectors; `None` if there are none.
fn entry_of(vectors: &Vectors) -> Option<Vec<u8>> {
    let mut entry = Vec::new();
    for (position, vector) in vectors.iter() {
        entry.extend_from_slice(&position.to_le_bytes());
        entry.extend(vector.iter().flat_map(|element| element.to_le_bytes()));
    }
    (!vectors.is_empty()).then_some(entry)
}

/// The vectors of an entry, as bytes, with their positions.
fn parts_of<'e>(def: &VectorDef, entry: Option<&'e Vec<u8>>) -> impl Iterator<Item = (u32, &'e [u8])> {
    let parts = entry.map_or(&[][..], Vec::as_slice).chunks_exact(4 + 4 * def.dimensions);
    parts.filter_map(|part| {
        let (position, vector) = part.split_first_chunk()?;
        Some((u32::from_le_bytes(*position), vector))
    })
}

/// A vector from the bytes of its elements.
fn floats_of(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|element| f32::from_le_bytes(*element)).collect()
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
        // A document that was there before the index may have too many vectors: it is in no index, and can be changed.
        let old = old.and_then(|old| entry_of(&self.vectors(old).unwrap_or_default()));
        let new = new.map(|new| self.vectors(new)).transpose()?.and_then(|new| entry_of(&new));
        if old == new {
            return Ok(IndexChange::default());
        }
        let (remove, add) = (old.into_iter().collect(), new.into_iter().collect());
        Ok(IndexChange { remove, add, ..IndexChange::default() })
    }

    fn apply(
        &self,
        txn: &mut WriteTxn,
        meta: &Meta,
        index: &IndexMeta,
        row: RowId,
        change: IndexChange,
    ) -> Result<IndexFlags> {
        let table = &index.table;
        let near = match change.add.is_empty() {
            true => None,
            false => Near::before(self, txn, meta, index)?,
        };
        let old: BTreeMap<u32, &[u8]> = parts_of(self, change.remove.first()).collect();
        let new: BTreeMap<u32, &[u8]> = parts_of(self, change.add.first()).collect();
        // A vector that stays where it was keeps its node. If an index that is being built has not got it, the build adds it.
        for (position, _) in old.iter().filter(|(position, vector)| new.get(*position) != Some(*vector)) {
            let node = node_of(self, row.0, *position)?;
            near.as_ref().inspect(|near| near.remove(node));
            graph::remove_node(self, txn, table, node)?;
        }
        let mut nodes = Vec::with_capacity(new.len());
        for (position, vector) in new.iter().filter(|(position, vector)| old.get(*position) != Some(*vector))
        {
            nodes.push((node_of(self, row.0, *position)?, floats_of(vector)));
        }
        let flags = centre::grow(self, txn, meta, index, &nodes)?;
        graph::insert_nodes(self, txn, table, &nodes, near.as_ref())?;
        Ok(flags)
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
        // A document with too many vectors is refused.
        let vectors: Result<Vec<Vectors>> = documents.iter().map(|document| self.vectors(document)).collect();
        let Ok(vectors) = vectors else { return Ok(None) };
        Ok(Some(Box::new(build::PreparedVectors { def: self.clone(), vectors })))
    }

    fn build(&self, slice: &BuildSlice<'_>, on_progress: &mut dyn FnMut(u64)) -> Result<Progress> {
        build::build(self, slice, on_progress)
    }

    fn check_row(
        &self,
        view: &View<'_, SharedReadTxn>,
        index: &IndexMeta,
        row: RowId,
        document: &RawDocument,
        required: &mut Required,
    ) -> Result<(), Mismatch> {
        check::row(self, view, index, row, document, required)
    }

    fn check_parts(&self, _: &View<'_, SharedReadTxn>, _: usize) -> Result<Vec<KeyRange>> {
        Ok(vec![KeyRange::ALL])
    }

    fn check_entries(
        &self,
        view: &View<'_, SharedReadTxn>,
        index: &IndexMeta,
        _: &KeyRange,
        required: &Required,
    ) -> Result<u64, Mismatch> {
        check::graph(self, view, index, required)
    }

    fn check_count(&self, _: &IndexMeta, _: u64, _: &Required) -> Result<(), Mismatch> {
        // Each node has been looked for by its row.
        Ok(())
    }

    fn walk(&self, view: &View<'_, impl Reads>, index: usize, table: &Table, probe: Probe<'_>) -> Result<()> {
        let Probe::Nearest { vector, k, ef, discards, done, visit } = probe else {
            return Err(Probe::refused(index));
        };
        Search { def: self, view, table, vector }.run(Wanted { k, ef, discards }, done, visit)
    }

    fn nearest_among(
        &self,
        view: &View<'_, impl Reads>,
        table: &Table,
        vector: &[f32],
        among: &Among<'_>,
        visit: &mut dyn FnMut(RowId, f32) -> Result<()>,
    ) -> Result<Option<Compared>> {
        among::nearest_among(self, view, table, vector, among, visit)
    }

    fn walk_uncommitted(
        &self,
        base: Option<&View<'_, impl Reads>>,
        index: usize,
        uncommitted: &Uncommitted<'_>,
        probe: Probe<'_>,
    ) -> Result<()> {
        let Probe::Nearest { vector, k, ef, discards, done, visit } = probe else {
            return Err(Probe::refused(index));
        };
        search::nearest_uncommitted(
            self,
            base,
            index,
            uncommitted,
            vector,
            Wanted { k, ef, discards },
            done,
            visit,
        )
    }
}
