//! What an image has: a graph in memory, or in a mapped file, with what searches need besides.
//!
//! * A clone shares what neither changes afterwards, so that the contents of two versions take little more than those of one.
//! * What is in a file is never changed there: a record that changes is copied first.
//! * A row is listed with all its nodes, or no row is.

use std::sync::OnceLock;

use treedb_query::access::RowId;
use treedb_query::error::Result;
use treedb_query::index::vector::VectorDef;
use treedb_query::query::interrupt;
use treedb_vector::memory::{MemoryGraph, Records};

use crate::index::vector::graph::empty_image;
use crate::index::vector::record::{position_of, row_of};
use crate::index::vector::row_nodes::RowNodes;

/// Rows whose nodes are looked up before a query may end.
const ROWS_AT_ONCE: usize = 4096;

/// A graph in memory, with what searches need besides. A clone shares the memory of what neither changes afterwards.
#[derive(Debug, Clone)]
pub(in super::super) struct Contents {
    pub(in super::super) graph: MemoryGraph,
    /// The number that each node has in the table; 0 for a node without a vector: none, or one that was linked to before its
    /// vector was read.
    pub(in super::super) numbers: Records<u64>,
    /// The nodes of the rows, by the positions of vectors in documents: most rows have one at the first position only. Of an image from a file
    /// they are listed when they are first asked for.
    rows: OnceLock<Vec<RowNodes>>,
    /// How many positions there are, or may be.
    positions: usize,
}

impl Contents {
    pub(in super::super) fn new(def: &VectorDef) -> Contents {
        let (graph, numbers) = (empty_image(def), Records::new(1));
        Contents { graph, numbers, rows: OnceLock::from(Vec::new()), positions: 0 }
    }

    /// Those of a file, in which there may be vectors at so many positions.
    pub(in super::super) fn of_file(graph: MemoryGraph, numbers: Records<u64>, positions: usize) -> Contents {
        Contents { graph, numbers, rows: OnceLock::new(), positions }
    }

    /// How many positions vectors may have in documents.
    pub(in super::super) fn positions(&self) -> usize {
        self.positions
    }

    /// Whether anything that was read of its file is damaged: then what was found is worth nothing.
    #[inline]
    pub(in super::super) fn is_damaged(&self) -> bool {
        self.graph.is_damaged()
    }

    /// The nodes of the rows, by positions.
    fn rows(&self) -> &[RowNodes] {
        self.rows.get_or_init(|| {
            let mut rows = vec![RowNodes::default(); self.positions];
            for node in 0..self.numbers.count() as u32 {
                let number = self.number(node);
                if let Some(rows) = rows.get_mut(position_of(number) as usize).filter(|_| number != 0) {
                    rows.set(row_of(number), Some(node));
                }
            }
            rows
        })
    }

    /// Asks for what comparing with these nodes exactly needs, so that it is known whether the image is damaged there. Returns whether it is not.
    pub(in super::super) fn check_nodes(&self, nodes: &[u32]) -> bool {
        if !self.graph.is_mapped() {
            return true;
        }
        for node in nodes {
            let number = self.number(*node);
            self.graph.check_vector(*node);
            if self.several() {
                self.nodes_of(row_of(number)).for_each(|node| self.graph.check_vector(node));
            }
        }
        !self.is_damaged()
    }

    /// The number that a node has in the table; 0 if there is no such node.
    #[inline]
    pub(in super::super) fn number(&self, node: u32) -> u64 {
        self.numbers.get(node).first().copied().unwrap_or(0)
    }

    /// Whether rows may have several vectors.
    #[inline]
    pub(in super::super) fn several(&self) -> bool {
        self.positions > 1
    }

    /// The nodes of a row.
    pub(in super::super) fn nodes_of(&self, row: u64) -> impl Iterator<Item = u32> {
        self.rows().iter().filter_map(move |rows| rows.get(row))
    }

    /// Adds the nodes of rows to `nodes`.
    ///
    /// # Errors
    /// The query is to end: rows may be many, and so may positions.
    pub(in super::super) fn add_nodes(&self, rows: &[RowId], nodes: &mut Vec<u32>) -> Result<()> {
        for of_position in self.rows() {
            for part in rows.chunks(ROWS_AT_ONCE) {
                interrupt::check()?;
                nodes.extend(part.iter().filter_map(|row| of_position.get(row.0)));
            }
        }
        Ok(())
    }

    /// Sets the node of a row's vector at a position, or that there is none.
    pub(in super::super) fn set_node(&mut self, row: u64, position: u64, node: Option<u32>) {
        let position = position as usize;
        self.rows();
        let Some(rows) = self.rows.get_mut() else { return };
        if node.is_some() && position >= rows.len() {
            rows.resize_with(position + 1, RowNodes::default);
        }
        self.positions = self.positions.max(rows.len());
        if let Some(rows) = rows.get_mut(position) {
            rows.set(row, node);
        }
    }

    /// Whether a node has a vector.
    pub(in super::super) fn has_vector(&self, node: u32) -> bool {
        self.number(node) != 0
    }

    /// Whether more than a fifth of the nodes are free: of vectors that were removed.
    pub(in super::super) fn has_many_free_nodes(&self) -> bool {
        self.graph.free_nodes().len() > self.graph.len() / 4
    }

    /// The nodes of the rows that are listed.
    fn listed_rows(&self) -> &[RowNodes] {
        self.rows.get().map_or(&[], Vec::as_slice)
    }

    /// Bytes that it takes in memory, without what is in its file.
    pub(in super::super) fn bytes(&self) -> u64 {
        let rows: usize = self.listed_rows().iter().map(RowNodes::bytes).sum();
        (self.graph.bytes() + self.numbers.bytes() + rows) as u64
    }

    /// Whether it keeps a file in use.
    pub(in super::super) fn is_mapped(&self) -> bool {
        self.graph.is_mapped()
    }

    /// Bytes of what is in its file.
    pub(in super::super) fn mapped_bytes(&self) -> u64 {
        (self.graph.mapped_bytes() + self.numbers.mapped_bytes()) as u64
    }

    /// Bytes that it takes besides those that it shares with newer ones.
    pub(super) fn bytes_beside(&self, newer: &Contents) -> u64 {
        // A newer one has as many positions, or more, unless only this one was asked for rows.
        let (own, newer_rows) = (self.listed_rows(), newer.listed_rows());
        let beside = own.iter().zip(newer_rows).map(|(own, newer)| own.bytes_beside(newer));
        let others = own.iter().skip(newer_rows.len()).map(RowNodes::bytes);
        let rows: usize = beside.chain(others).sum();
        let numbers = self.numbers.bytes_beside(&newer.numbers);
        (self.graph.bytes_beside(&newer.graph) + numbers + rows) as u64
    }
}
