//! Statistics of a table.

use super::catalog::{Record, Table, TableKind};
use super::dup;
use super::large_values::INLINE;
use crate::Result;
use crate::btree::{RowRoot, RowTree, Tree};
use crate::page::{PAGE_SIZE, Pager};

/// Statistics of a table, as of one moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TableStats {
    /// The table.
    pub table: Table,
    /// Entries: keys, rows, or in a dup table pairs.
    pub entries: u64,
    /// Keys of a dup table; for other tables the same as `entries`.
    pub keys: u64,
    /// How many of their values are in the value log.
    pub large_values: u64,
    /// Keys of a dup table whose values have a tree of their own.
    pub value_trees: u64,
    /// Levels of its tree: 0 if it is empty, 1 if it is a single leaf. Value trees are not counted.
    pub depth: u16,
    /// Pages above the leaves, trees of values included.
    pub branch_pages: u64,
    /// Pages of entries, trees of values included.
    pub leaf_pages: u64,
}

impl TableStats {
    /// Takes the statistics; reads the table's branches, not its leaves, unless there are trees of values.
    pub(crate) fn of(pager: &Pager, table: &Table, record: &Record) -> Result<TableStats> {
        let root = record.root;
        let (branch_pages, leaf_pages) = match record.kind {
            TableKind::Ordered => Tree::count_pages(pager, &root)?,
            TableKind::Rows => RowTree::count_pages(pager, &RowRoot { tree: root, next: record.next_row })?,
            TableKind::Dup => dup::count_pages(pager, record)?,
        };
        let (large_values, value_trees) =
            if record.kind == TableKind::Dup { (0, record.large) } else { (record.large, 0) };
        Ok(TableStats {
            table: table.clone(),
            entries: record.entries(),
            keys: root.entries,
            large_values,
            value_trees,
            depth: root.depth,
            branch_pages,
            leaf_pages,
        })
    }

    /// Bytes of its pages.
    pub fn page_bytes(&self) -> u64 {
        self.pages() * PAGE_SIZE as u64
    }

    /// Whether a value of this length is in the value log.
    pub fn is_large(length: usize) -> bool {
        length > INLINE
    }

    /// All its pages.
    pub fn pages(&self) -> u64 {
        self.branch_pages + self.leaf_pages
    }
}
