//! The first part of a build: the graph in memory, by several threads, and then in a table.
//!
//! Rows are read from a snapshot until there are no more or the graph takes as much memory as it may. Then the graph is stored in a table
//! that nothing else knows, some hundred nodes in each transaction. Meanwhile others write, and change the table that the index
//! has. In the end the new table takes its place. It is as old as the snapshot, so the steps of [`super::build`] go through all rows
//! after that. After a crash in between the build begins again.

use std::sync::Arc;

use treedb_query::access::{Direction, Flow, RowId, Source};
use treedb_query::error::Result;
use treedb_query::index::vector::VectorDef;
use treedb_storage::{Reads, TableKind};
use treedb_vector::memory::{Builder, Undisturbed};

use super::build::{STEP_ROWS, add_nodes};
use super::built::Built;
use super::centre;
use super::graph::graph_about;
use super::image::Reserved;
use super::record::damaged;
use crate::catalog::meta::{Meta, index_table, new_index_table};
use crate::index::{BuildSlice, Progress};
use crate::read::view::View;

/// Rows that are read at a time, and nodes that one transaction stores.
const STEP: usize = 4 * STEP_ROWS;

/// A node and its vector.
type NodeVector = (u64, Vec<f32>);

/// A graph in memory.
struct Collected<'i> {
    built: Built,
    /// What it takes.
    _memory: Reserved<'i>,
}

/// Builds an index as far as memory goes, if it is worth it; otherwise nothing is done.
pub(super) fn build(
    def: &VectorDef,
    slice: &BuildSlice<'_>,
    on_progress: &mut dyn FnMut(u64),
) -> Result<Option<Progress>> {
    let Some(collected) = collect(def, slice, on_progress)? else { return Ok(None) };
    let Some(table) = slice
        .edit(|edit, index| {
            let Some(name) =
                edit.meta.indexes.get(index).map(|target| new_index_table(edit.meta.id, target.id))
            else {
                return Ok(None);
            };
            // That of a build that a crash has ended.
            edit.txn.drop_table(&name)?;
            edit.txn.create_table(&name, TableKind::Rows).map(Some).map_err(Into::into)
        })?
        .flatten()
    else {
        return Ok(Some(Progress::Dropped));
    };
    let built = &collected.built;
    for from in (0..built.len()).step_by(STEP) {
        let stored = slice.edit(|edit, _| built.store_nodes(def, edit.txn, &table, from..from + STEP))?;
        if stored.is_none() {
            return Ok(Some(Progress::Dropped));
        }
        on_progress(0);
    }
    let replaced = slice.edit(|edit, index| {
        let Some(id) = edit.meta.indexes.get(index).map(|target| target.id) else { return Ok(()) };
        let flags = built.store_head(edit.txn, &table)?;
        let name = index_table(edit.meta.id, id);
        edit.txn.drop_table(&name)?;
        edit.txn.rename_table(&new_index_table(edit.meta.id, id), &name)?;
        let table = edit.txn.table(&name)?.ok_or_else(|| damaged(def, "the table"))?;
        if let Some(target) = Arc::make_mut(&mut edit.meta).indexes.get_mut(index) {
            target.table = table;
        }
        // No row has number 0.
        edit.finish_slice(index, flags, Some(1))
    })?;
    Ok(Some(if replaced.is_some() { Progress::More } else { Progress::Dropped }))
}

/// Rows that were read.
pub(super) struct Slice {
    pub(super) vectors: Vec<NodeVector>,
    /// How many of the rows have vectors.
    rows: u64,
    /// Where the next ones begin.
    pub(super) next: Option<u64>,
}

/// The vectors of the next rows from `from` on, at most `most`, or fewer that have as many vectors.
pub(super) fn read(
    def: &VectorDef,
    reads: &impl Reads,
    meta: &Meta,
    from: u64,
    most: usize,
) -> Result<Slice> {
    let (fields, mut read) = (def.fields(), 0);
    let mut slice = Slice { vectors: Vec::new(), rows: 0, next: None };
    let view = View { reads, meta };
    view.scan_rows(Direction::Forward, from.checked_sub(1).map(RowId), &mut |id, row| {
        if read == most || slice.vectors.len() >= most {
            slice.next = Some(id.0);
            return Ok(Flow::Break(()));
        }
        read += 1;
        let before = slice.vectors.len();
        add_nodes(def, id, &def.vectors(row.partial_document(&fields)?)?, &mut slice.vectors)?;
        slice.rows += u64::from(slice.vectors.len() > before);
        Ok(Flow::Continue(()))
    })?;
    Ok(slice)
}

/// Builds the graph of the rows of the snapshot that there is memory for; `None` if a step does as well.
fn collect<'b>(
    def: &VectorDef,
    slice: &BuildSlice<'b>,
    on_progress: &mut dyn FnMut(u64),
) -> Result<Option<Collected<'b>>> {
    let images = slice.db.inner.catalog.images();
    let mut memory = images.reserve();
    let (mut numbers, mut next) = (Vec::new(), Some(0));
    let reads = slice.reads.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let graph = graph_about(def, centre::of_rows(def, &*reads, &slice.meta)?);
    let mut builder = Builder::new(graph, images.build_threads(), Undisturbed);
    while let Some(from) = next {
        let Slice { vectors, rows, next: after } = read(def, &*reads, &slice.meta, from, STEP)?;
        if from == 0 && after.is_none() && vectors.len() <= STEP_ROWS {
            return Ok(None);
        }
        let nodes = numbers.len() + vectors.len();
        let bytes =
            |builder: &Builder| builder.bytes_of(nodes) + size_of::<u64>() * nodes.next_power_of_two();
        let has_room = memory.grow_to(bytes(&builder) as u64)
            // A build without scores is slower, and much faster than adding rows to the table.
            || builder.shed() && memory.grow_to(bytes(&builder) as u64);
        if builder.graph().is_full() || !has_room {
            if from == 0 {
                return Ok(None);
            }
            break;
        }
        for (number, vector) in &vectors {
            builder.add(vector).map_err(|_| damaged(def, "a vector"))?;
            numbers.push(*number);
        }
        on_progress(rows);
        next = after;
    }
    Ok(Some(Collected { built: Built::new(builder.finish(), numbers), _memory: memory }))
}
