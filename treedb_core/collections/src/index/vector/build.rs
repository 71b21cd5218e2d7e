//! Adding the rows of a collection to a vector index, some in each transaction.
//!
//! A build begins in memory, if there is room ([`super::bulk`]). Steps do the rest: each reads rows as they are, under the lock of the
//! writer, and makes the graph agree with them. Rows that were inserted or changed since the build began are there already; what
//! was built in memory is as old as the snapshot that it was built from.

use std::collections::BTreeSet;
use std::sync::Arc;

use treedb_query::access::{Direction, Flow, RowId, Source};
use treedb_query::error::Result;
use treedb_query::index::vector::{VectorDef, Vectors};
use treedb_storage::{Reads, Table, WriteTxn};

use super::bulk;
use super::centre;
use super::graph::{insert_nodes, remove_node};
use super::near::Near;
use super::record::{
    centre_in, encode_vector, first_node, links_row, node_of, node_of_vector_row, position_of, row_of,
    vector_row,
};
use crate::catalog::meta::{IndexFlags, IndexMeta, Meta, new_index_table};
use crate::index::{BuildSlice, Prepared, Progress};

/// Rows that one transaction adds to the graph, or fewer that have as many vectors.
#[cfg(not(test))]
pub(super) const STEP_ROWS: usize = 128;
/// Small in tests, so that a simulated power loss can happen between any two steps.
#[cfg(test)]
pub(super) const STEP_ROWS: usize = 7;
/// Rows read in one transaction.
const STEP_READ: usize = 16 * STEP_ROWS;

/// Adds the next rows.
///
/// # Errors
/// Those of the store; `NamespaceNotFound`.
pub(super) fn build(
    def: &VectorDef,
    slice: &BuildSlice<'_>,
    on_progress: &mut dyn FnMut(u64),
) -> Result<Progress> {
    if slice.from == 0
        && let Some(progress) = bulk::build(def, slice, on_progress)?
    {
        return Ok(progress);
    }
    let fields = def.fields();
    let done = slice.edit(|edit, index| {
        let target = edit.meta.indexes.get(index).and_then(|target| Some((target.building?, &target.table)));
        let Some((from, table)) = target else { return Ok((0, None)) };
        let mut table = table.clone();
        let mut flags = IndexFlags::default();
        if let (0, Some(target)) = (from, edit.meta.indexes.get(index)) {
            // That of a build in memory that a crash has ended, if there is no memory now.
            edit.txn.drop_table(&new_index_table(edit.meta.id, target.id))?;
            let (begun, another) = centre::begin(def, edit.txn, &edit.meta, target)?;
            flags = begun;
            if let Some(another) = another {
                table = another.clone();
                if let Some(target) = Arc::make_mut(&mut edit.meta).indexes.get_mut(index) {
                    target.table = another;
                }
            }
        }
        // Nodes that the rows have, and those among them that the graph lacks.
        let (mut nodes, mut missing, mut outdated) = (BTreeSet::new(), Vec::new(), Vec::new());
        let (mut read, mut agreeing, mut next) = (0, 0, None);
        let view = edit.view();
        let centre = centre_in(def, view.reads, &table)?;
        view.scan_rows(Direction::Forward, from.checked_sub(1).map(RowId), &mut |id, row| {
            if read == STEP_READ || missing.len() >= STEP_ROWS {
                next = Some(id.0);
                return Ok(Flow::Break(()));
            }
            read += 1;
            let vectors = def.vectors(row.partial_document(&fields)?)?;
            let before = (nodes.len(), missing.len());
            for (position, vector) in vectors.iter() {
                let node = node_of(def, id.0, position)?;
                nodes.insert(node);
                let (record, mut agrees) = (encode_vector(def, centre.as_deref(), vector), false);
                let there = view
                    .reads
                    .visit_row(&table, vector_row(node), &mut |found| agrees = *found == *record)?;
                if agrees {
                    continue;
                }
                if there {
                    outdated.push(node);
                }
                missing.push((node, vector.to_vec()));
            }
            agreeing += usize::from(nodes.len() > before.0 && missing.len() == before.1);
            Ok(Flow::Continue(()))
        })?;
        stored_nodes(view.reads, &table, from, next, &mut |node| {
            if !nodes.contains(&node) {
                outdated.push(node);
            }
        })?;
        for node in outdated {
            remove_node(def, edit.txn, &table, node)?;
        }
        insert_nodes(def, edit.txn, &table, &missing, None)?;
        edit.finish_slice(index, flags, next)?;
        Ok((read - agreeing, next))
    })?;
    let Some((rows, next)) = done else { return Ok(Progress::Dropped) };
    on_progress(rows as u64);
    Ok(if next.is_some() { Progress::More } else { Progress::Ready })
}

/// Calls `visit` with the nodes in a table that belong to rows from `from` on, but before `next`.
fn stored_nodes(
    reads: &impl Reads,
    table: &Table,
    from: u64,
    next: Option<u64>,
    visit: &mut dyn FnMut(u64),
) -> Result<()> {
    // Nodes are in the order of their positions first: those of each position are looked up by themselves.
    let mut position = 0;
    loop {
        let mut after = None;
        let mut rows = reads.rows(table, links_row(first_node(position, from)))?;
        while let Some((row, _)) = rows.lend_next()? {
            let Some(node) = node_of_vector_row(row) else { continue };
            if position_of(node) > position {
                after = Some(position_of(node));
                break;
            }
            if next.is_some_and(|next| row_of(node) >= next) {
                after = Some(position + 1);
                break;
            }
            visit(node);
        }
        match after {
            Some(after) => position = after,
            None => return Ok(()),
        }
    }
}

/// Adds the nodes of a row to `nodes`.
pub(super) fn add_nodes(
    def: &VectorDef,
    row: RowId,
    vectors: &Vectors,
    nodes: &mut Vec<(u64, Vec<f32>)>,
) -> Result<()> {
    for (position, vector) in vectors.iter() {
        nodes.push((node_of(def, row.0, position)?, vector.to_vec()));
    }
    Ok(())
}

/// The vectors of documents that are to be inserted.
pub(super) struct PreparedVectors {
    pub(super) def: VectorDef,
    /// In the order of the documents.
    pub(super) vectors: Vec<Vectors>,
}

impl Prepared for PreparedVectors {
    fn write(
        &self,
        txn: &mut WriteTxn,
        meta: &Meta,
        index: &IndexMeta,
        rows: &[RowId],
    ) -> Result<IndexFlags> {
        let mut nodes = Vec::with_capacity(rows.len());
        for (row, vectors) in rows.iter().zip(&self.vectors) {
            add_nodes(&self.def, *row, vectors, &mut nodes)?;
        }
        let near = Near::before(&self.def, txn, meta, index)?;
        let flags = centre::grow(&self.def, txn, meta, index, &nodes)?;
        insert_nodes(&self.def, txn, &index.table, &nodes, near.as_ref())?;
        Ok(flags)
    }
}
