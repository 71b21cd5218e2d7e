//! Adding the rows of a collection to a vector index, some in each transaction.
//!
//! A step reads rows as they are, under the lock of the writer, and adds those of their vectors that are not in the graph: rows that
//! were inserted or changed since the build began are there already.

use treedb_query::access::{Direction, Flow, RowId, Source};
use treedb_query::error::Result;
use treedb_query::index::vector::{VectorDef, Vectors};
use treedb_storage::{Table, WriteTxn};

use super::graph::insert_nodes;
use super::record::node_of;
use crate::catalog::meta::IndexFlags;
use crate::index::{BuildSlice, Prepared, Progress};

/// Rows read in one transaction, or fewer that have as many vectors.
#[cfg(not(test))]
const STEP_ROWS: usize = 128;
/// Small in tests, so that a simulated power loss can happen between any two steps.
#[cfg(test)]
const STEP_ROWS: usize = 7;

/// Adds the next rows.
///
/// # Errors
/// Those of the store; `NamespaceNotFound`.
pub(super) fn build(
    def: &VectorDef,
    slice: &BuildSlice<'_>,
    on_progress: &mut dyn FnMut(u64),
) -> Result<Progress> {
    let fields = def.fields();
    let done = slice.edit(|edit, index| {
        let Some(from) = edit.meta.indexes.get(index).and_then(|target| target.building) else {
            return Ok((0, None));
        };
        let (mut nodes, mut rows, mut next) = (Vec::new(), 0, None);
        edit.view().scan_rows(Direction::Forward, from.checked_sub(1).map(RowId), &mut |id, row| {
            if rows == STEP_ROWS || nodes.len() >= STEP_ROWS {
                next = Some(id.0);
                return Ok(Flow::Break(()));
            }
            rows += 1;
            add_nodes(def, id, &def.vectors(row.partial_document(&fields)?)?, &mut nodes)?;
            Ok(Flow::Continue(()))
        })?;
        if let Some(target) = edit.meta.indexes.get(index) {
            insert_nodes(def, edit.txn, &target.table, &nodes)?;
        }
        edit.finish_slice(index, IndexFlags::default(), next)?;
        Ok((rows, next))
    })?;
    let Some((rows, next)) = done else { return Ok(Progress::Dropped) };
    on_progress(rows as u64);
    Ok(if next.is_some() { Progress::More } else { Progress::Ready })
}

/// Adds the nodes of a row to `nodes`.
fn add_nodes(def: &VectorDef, row: RowId, vectors: &Vectors, nodes: &mut Vec<(u64, Vec<f32>)>) -> Result<()> {
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
    fn flags(&self) -> IndexFlags {
        IndexFlags::default()
    }

    fn write(&self, txn: &mut WriteTxn, table: &Table, rows: &[RowId]) -> Result<()> {
        let mut nodes = Vec::with_capacity(rows.len());
        for (row, vectors) in rows.iter().zip(&self.vectors) {
            add_nodes(&self.def, *row, vectors, &mut nodes)?;
        }
        insert_nodes(&self.def, txn, table, &nodes).map(drop)
    }
}
