//! A table in numbers.

use super::catalog::{Record, Table, TableKind};
use crate::btree::{RowRoot, RowTree, Tree};
use crate::error::Result;
use crate::page::Pager;

/// Figures of a table, as of one moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TableStats {
    /// The table.
    pub table: Table,
    /// Keys or rows in it.
    pub entries: u64,
    /// How many of their values lie in the value log.
    pub large_values: u64,
    /// Levels of its tree: 0 if it is empty, 1 if it is a single leaf.
    pub depth: u16,
    /// Pages above the leaves.
    pub branch_pages: u64,
    /// Pages of entries.
    pub leaf_pages: u64,
}

impl TableStats {
    /// Takes the figures; reads the table's branches, not its leaves.
    pub(crate) fn of(pager: &Pager, table: &Table, record: &Record) -> Result<TableStats> {
        let root = record.root;
        let (branch_pages, leaf_pages) = match record.kind {
            TableKind::Ordered => Tree::count_pages(pager, &root)?,
            TableKind::Rows => RowTree::count_pages(pager, &RowRoot { tree: root, next: record.next_row })?,
        };
        Ok(TableStats {
            table: table.clone(),
            entries: root.entries,
            large_values: record.large,
            depth: root.depth,
            branch_pages,
            leaf_pages,
        })
    }

    /// All its pages.
    pub fn pages(&self) -> u64 {
        self.branch_pages + self.leaf_pages
    }
}
