//! Adding the rows of a collection to a vector index, some in each transaction.
//!
//! A step reads rows as they are, under the lock of the writer, and adds those that have a vector and are not in the graph: rows that
//! were inserted or changed since the build began are there already.

use treedb_query::access::{Direction, Flow, RowId, Source};
use treedb_query::error::Result;
use treedb_query::index::vector::VectorDef;
use treedb_storage::{Table, WriteTxn};

use super::graph::insert_nodes;
use crate::catalog::meta::IndexFlags;
use crate::index::{BuildSlice, Prepared, Progress};

/// Rows read in one transaction.
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
        let (mut vectors, mut rows, mut next) = (Vec::new(), 0, None);
        edit.view().scan_rows(Direction::Forward, from.checked_sub(1).map(RowId), &mut |id, row| {
            if rows == STEP_ROWS {
                next = Some(id.0);
                return Ok(Flow::Break(()));
            }
            rows += 1;
            vectors.extend(def.vector(row.partial_document(&fields)?).map(|vector| (id.0, vector)));
            Ok(Flow::Continue(()))
        })?;
        let vectors: Vec<(u64, &[f32])> = vectors.iter().map(|(row, vector)| (*row, &**vector)).collect();
        if let Some(target) = edit.meta.indexes.get(index) {
            insert_nodes(def, edit.txn, &target.table, &vectors)?;
        }
        edit.finish_slice(index, IndexFlags::default(), next)?;
        Ok((rows, next))
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
