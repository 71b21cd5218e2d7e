//! The check of a vector index: its nodes are the vectors of the rows, and the graph leads to all of them.

use std::collections::BTreeSet;

use bson::RawDocument;

use treedb_query::access::RowId;
use treedb_query::index::vector::VectorDef;
use treedb_storage::{ReadTxn, Reads};

use super::graph::damage;
use super::record::{HEAD, encode_vector, node_of, node_of_vector_row, position_of, row_of, vector_row};
use crate::catalog::meta::IndexMeta;
use crate::index::{Checker, Mismatch};
use crate::read::view::View;

/// Checks one index. One that is being built may lack nodes, and may have nodes of rows as they were when the build began; the graph
/// over them must be whole.
pub(super) struct GraphChecker<'c> {
    def: &'c VectorDef,
    view: &'c View<'c, ReadTxn>,
    index: &'c IndexMeta,
    /// The nodes that belong to vectors of rows.
    nodes: BTreeSet<u64>,
}

impl<'c> GraphChecker<'c> {
    pub(super) fn new(def: &'c VectorDef, view: &'c View<'c, ReadTxn>, index: &'c IndexMeta) -> Self {
        GraphChecker { def, view, index, nodes: BTreeSet::new() }
    }
}

impl Checker for GraphChecker<'_> {
    fn row(&mut self, row: RowId, document: &RawDocument) -> Result<(), Mismatch> {
        for (position, vector) in self.def.vectors(document)?.iter() {
            let node = node_of(self.def, row.0, position)?;
            let (record, mut same) = (encode_vector(self.def, vector), false);
            let reads = self.view.reads;
            let there = reads
                .visit_row(&self.index.table, vector_row(node), &mut |found| same = *found == *record)?;
            match (there, same) {
                (true, same) if same || self.index.building.is_some() => drop(self.nodes.insert(node)),
                (true, _) => {
                    let what =
                        format!("has another vector for row {row:?} at position {position} than the row");
                    return Err(Mismatch::Found(what));
                }
                (false, _) if self.index.building.is_some() => {}
                (false, _) => {
                    let what =
                        format!("has no node for row {row:?}, which has a vector at position {position}");
                    return Err(Mismatch::Found(what));
                }
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<u64, Mismatch> {
        let mut rows = self.view.reads.rows(&self.index.table, 0)?;
        while let Some((row, _)) = rows.lend_next()? {
            // Links and vector of a node have the same number, but for the last bit.
            let node = node_of_vector_row(row).unwrap_or(row / 2);
            if row != HEAD && self.index.building.is_some() {
                self.nodes.insert(node);
            } else if row != HEAD && !self.nodes.contains(&node) {
                let (row, position) = (row_of(node), position_of(node));
                let what = format!("has a node for row {row}, which has no vector at position {position}");
                return Err(Mismatch::Found(what));
            }
        }
        match damage(self.def, self.view.reads, &self.index.table, &self.nodes)? {
            Some(damage) => Err(Mismatch::Found(damage)),
            None => Ok(self.nodes.len() as u64),
        }
    }
}
