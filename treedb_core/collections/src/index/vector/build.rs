//! Adding the rows of a collection to a vector index, some in each transaction.
//!
//! A build begins in memory, if there is room ([`super::bulk`]). Steps do the rest: each reads rows as they are, under the lock of the
//! writer, and makes the graph agree with them. Rows that were inserted or changed since the build began are there already; what
//! was built in memory is as old as the snapshot that it was built from.

use treedb_query::access::{Direction, Flow, RowId, Source};
use treedb_query::error::Result;
use treedb_query::index::vector::VectorDef;
use treedb_storage::{Reads, Table, WriteTxn};

use super::bulk;
use super::graph::{insert_nodes, remove_node};
use super::record::{encode_vector, links_row, node_of_vector_row, vector_row};
use crate::catalog::meta::{IndexFlags, new_index_table};
use crate::index::{BuildSlice, Prepared, Progress};

/// Rows that one transaction adds to the graph.
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
        let table = table.clone();
        if let (0, Some(target)) = (from, edit.meta.indexes.get(index)) {
            // That of a build in memory that a crash has ended, if there is no memory now.
            edit.txn.drop_table(&new_index_table(edit.meta.id, target.id))?;
        }
        // Nodes of rows with vectors, ascending, and those among them that the graph lacks.
        let (mut nodes, mut missing, mut outdated) = (Vec::new(), Vec::new(), Vec::new());
        let (mut read, mut agreeing, mut next) = (0, 0, None);
        let view = edit.view();
        view.scan_rows(Direction::Forward, from.checked_sub(1).map(RowId), &mut |id, row| {
            if read == STEP_READ || missing.len() == STEP_ROWS {
                next = Some(id.0);
                return Ok(Flow::Break(()));
            }
            read += 1;
            let Some(vector) = def.vector(row.partial_document(&fields)?) else {
                return Ok(Flow::Continue(()));
            };
            nodes.push(id.0);
            let (record, mut agrees) = (encode_vector(def, &vector), false);
            let there =
                view.reads.visit_row(&table, vector_row(id.0), &mut |found| agrees = *found == *record)?;
            if agrees {
                agreeing += 1;
                return Ok(Flow::Continue(()));
            }
            if there {
                outdated.push(id.0);
            }
            missing.push((id.0, vector));
            Ok(Flow::Continue(()))
        })?;
        let mut stored = view.reads.rows(&table, links_row(from))?;
        while let Some((row, _)) = stored.lend_next()? {
            if next.is_some_and(|next| row >= links_row(next)) {
                break;
            }
            outdated.extend(node_of_vector_row(row).filter(|node| nodes.binary_search(node).is_err()));
        }
        drop(stored);
        for node in outdated {
            remove_node(def, edit.txn, &table, node)?;
        }
        let missing: Vec<(u64, &[f32])> = missing.iter().map(|(row, vector)| (*row, &**vector)).collect();
        insert_nodes(def, edit.txn, &table, &missing)?;
        edit.finish_slice(index, IndexFlags::default(), next)?;
        Ok((read - agreeing, next))
    })?;
    let Some((rows, next)) = done else { return Ok(Progress::Dropped) };
    on_progress(rows as u64);
    Ok(if next.is_some() { Progress::More } else { Progress::Ready })
}

/// The vectors of documents that are to be inserted.
pub(super) struct PreparedVectors {
    pub(super) def: VectorDef,
    /// In the order of the documents.
    pub(super) vectors: Vec<Option<Vec<f32>>>,
}

impl Prepared for PreparedVectors {
    fn flags(&self) -> IndexFlags {
        IndexFlags::default()
    }

    fn write(&self, txn: &mut WriteTxn, table: &Table, rows: &[RowId]) -> Result<()> {
        let vectors: Vec<(u64, &[f32])> = rows
            .iter()
            .zip(&self.vectors)
            .filter_map(|(row, vector)| Some((row.0, vector.as_deref()?)))
            .collect();
        insert_nodes(&self.def, txn, table, &vectors).map(drop)
    }
}
