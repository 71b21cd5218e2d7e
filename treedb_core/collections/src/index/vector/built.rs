//! A graph that was built in memory, to be stored in the table of its index.

use std::ops::Range;

use treedb_query::error::Result;
use treedb_query::index::vector::VectorDef;
use treedb_storage::{Table, WriteTxn};
use treedb_vector::code::Coded;
use treedb_vector::graph::{Link, Nodes, NodesMut};
use treedb_vector::memory::MemoryGraph;

use super::record::{
    CENTRE, HEAD, Head, encode_centre, encode_coded, encode_links, encode_vector, links_row, vector_row,
};
use crate::catalog::meta::IndexFlags;

/// A graph in memory whose nodes have the numbers of those of a table.
pub(super) struct Built {
    graph: MemoryGraph,
    /// The number of each node in the table.
    numbers: Vec<u64>,
}

impl Built {
    pub(super) fn new(graph: MemoryGraph, numbers: Vec<u64>) -> Built {
        Built { graph, numbers }
    }

    /// How many nodes it has.
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The number of a node.
    fn number(&self, node: u32) -> u64 {
        self.numbers.get(node as usize).copied().unwrap_or(0)
    }

    /// Stores these nodes.
    pub(super) fn store_nodes(
        &self,
        def: &VectorDef,
        txn: &mut WriteTxn,
        table: &Table,
        nodes: Range<usize>,
    ) -> Result<()> {
        let (mut links, mut vector) = (Vec::new(), Vec::new());
        for (at, number) in self.numbers.iter().enumerate().skip(nodes.start).take(nodes.len()) {
            let node = at as u32;
            let Ok(top) = self.graph.level(node);
            let mut levels = Vec::new();
            for level in 0..=top {
                let Ok(()) = self.graph.scored_links(node, level, &mut links);
                let linked =
                    links.iter().map(|link| Link { score: link.score, node: self.number(link.node) });
                levels.push(linked.collect());
            }
            let coded = self.graph.coded(node);
            let record = match def.has_codes() {
                _ if def.metric.is_of_bits() => encode_coded(Coded::of_bits(coded.codes)),
                true => encode_coded(coded),
                false => encode_vector(def, None, self.graph.read_vector(node, &mut vector)),
            };
            txn.put_row(table, links_row(*number), &encode_links(&levels))?;
            txn.put_row(table, vector_row(*number), &record)?;
        }
        Ok(())
    }

    /// Stores where searches begin, and the centre, if there is one; returns the flags that the index has then.
    pub(super) fn store_head(&self, txn: &mut WriteTxn, table: &Table) -> Result<IndexFlags> {
        let (Ok(entry), Ok(root)) = (self.graph.entry(), self.graph.root());
        let head = Head {
            entry: entry.map(|(node, level)| (self.number(node), level)),
            root: root.map(|node| self.number(node)),
        };
        if let Some(head) = head.encode() {
            txn.put_row(table, HEAD, &head)?;
        }
        let centre = self.graph.centre();
        if let Some(centre) = centre {
            txn.put_row(table, CENTRE, &encode_centre(centre, self.graph.reach()))?;
        }
        let reaching = self.graph.reach().is_some();
        Ok(IndexFlags { centred: centre.is_some(), reaching, ..IndexFlags::default() })
    }
}
