//! What an image has: a graph in memory, or in a mapped file, with what searches need besides.
//!
//! * A clone shares what neither changes afterwards, so that the contents of two versions take little more than those of one.
//! * What is in a file is never changed there: a record that changes is copied first.
//! * A row is listed with all its nodes, or no row is.

use std::sync::OnceLock;

use treedb_query::index::vector::VectorDef;
use treedb_vector::memory::{MemoryGraph, Records};

use crate::index::vector::graph::empty_image;
use crate::index::vector::record::{position_of, row_of};
use crate::index::vector::row_nodes::RowNodes;

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

    /// The nodes of the rows, by positions, which are listed if they are not.
    pub(super) fn rows(&self) -> &[RowNodes] {
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

    /// Whether the nodes of rows are listed.
    pub(super) fn are_rows_listed(&self) -> bool {
        self.rows.get().is_some()
    }

    /// The nodes of the rows that are listed.
    fn listed_rows(&self) -> &[RowNodes] {
        self.rows.get().map_or(&[], Vec::as_slice)
    }

    /// Bytes that it takes in memory, without what is in its file. The nodes of rows count also before they are listed, by what they take where
    /// rows are numbered one after another: any search may list them, for whom nobody makes room then.
    pub(in super::super) fn bytes(&self) -> u64 {
        let rows = match self.rows.get() {
            Some(rows) => rows.iter().map(RowNodes::bytes).sum(),
            None => RowNodes::bytes_of(self.numbers.count()),
        };
        (self.graph.bytes() + self.numbers.bytes() + rows) as u64
    }

    /// Whether it keeps a file in use.
    pub(in super::super) fn is_mapped(&self) -> bool {
        self.graph.is_mapped()
    }

    /// The same contents, where what they share with those that were `written` is in `file`, which these were written to. `None` if some would stay in
    /// another file. They keep no file if all has changed.
    pub(super) fn moved(&self, written: &Contents, file: &Contents) -> Option<Contents> {
        let mut graph = self.graph.moved(&written.graph, &file.graph)?;
        let numbers = self.numbers.moved(&written.numbers, &file.numbers)?;
        // The graph has the file of both, and knows whether it is damaged.
        if numbers.mapped_bytes() == 0 {
            graph.leave_file();
        }
        Some(Contents { graph, numbers, rows: self.rows.clone(), positions: self.positions })
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
