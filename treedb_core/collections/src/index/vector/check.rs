//! The check of a vector index: its nodes are the rows that have a vector, with these vectors, and the graph leads to all of them.

use std::collections::BTreeSet;

use bson::RawDocument;

use treedb_query::access::RowId;
use treedb_query::index::vector::VectorDef;
use treedb_storage::{ReadTxn, Reads};

use super::graph::damage;
use super::record::{HEAD, encode_vector, node_of_vector_row, vector_row};
use crate::catalog::meta::IndexMeta;
use crate::index::{Checker, Mismatch};
use crate::read::view::View;

/// Checks one index. One that is being built may lack nodes, and may have nodes of rows as they were when the build began; the graph
/// over them must be whole.
pub(super) struct GraphChecker<'c> {
    def: &'c VectorDef,
    view: &'c View<'c, ReadTxn>,
    index: &'c IndexMeta,
    /// The nodes that belong to rows.
    nodes: BTreeSet<u64>,
}

impl<'c> GraphChecker<'c> {
    pub(super) fn new(def: &'c VectorDef, view: &'c View<'c, ReadTxn>, index: &'c IndexMeta) -> Self {
        GraphChecker { def, view, index, nodes: BTreeSet::new() }
    }
}

impl Checker for GraphChecker<'_> {
    fn row(&mut self, row: RowId, document: &RawDocument) -> Result<(), Mismatch> {
        let Some(vector) = self.def.vector(document) else { return Ok(()) };
        let (record, mut same) = (encode_vector(self.def, &vector), false);
        let reads = self.view.reads;
        let there =
            reads.visit_row(&self.index.table, vector_row(row.0), &mut |found| same = *found == *record)?;
        match (there, same) {
            (true, agrees) if agrees || self.index.building.is_some() => {
                self.nodes.insert(row.0);
                Ok(())
            }
            (true, _) => Err(Mismatch::Found(format!("has another vector for row {row:?} than the row"))),
            (false, _) if self.index.building.is_some() => Ok(()),
            (false, _) => Err(Mismatch::Found(format!("has no node for row {row:?}, which has a vector"))),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<u64, Mismatch> {
        let mut rows = self.view.reads.rows(&self.index.table, 0)?;
        while let Some((row, _)) = rows.lend_next()? {
            // Links and vector of a node have the same number, but for the last bit.
            let node = node_of_vector_row(row).unwrap_or(row / 2);
            if row != HEAD && self.index.building.is_some() {
                self.nodes.insert(node);
            } else if row != HEAD && !self.nodes.contains(&node) {
                let what = format!("has a node for row {}, which has no vector", row / 2);
                return Err(Mismatch::Found(what));
            }
        }
        match damage(self.def, self.view.reads, &self.index.table, &self.nodes)? {
            Some(damage) => Err(Mismatch::Found(damage)),
            None => Ok(self.nodes.len() as u64),
        }
    }
}
