//! Which state of a table a snapshot sees, and what has changed since another one.

use std::ops::Range;

use super::catalog::{Table, TableKind};
use super::reads::Reads;
use crate::Result;
use crate::btree::RowTree;
use crate::page::PageId;

/// A state of a table: snapshots of one store that see the same one see the same entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableVersion {
    /// The root's page and the transaction that wrote it: a page is not changed after that.
    root: (PageId, u64),
    entries: u64,
}

impl TableVersion {
    /// The last transaction that may have changed the table: the state is that of all snapshots since, up to the one that told it. 0 for an
    /// empty table.
    pub fn changed(&self) -> u64 {
        self.root.1
    }

    pub(super) fn of(reads: &(impl Reads + ?Sized), table: &Table) -> Result<TableVersion> {
        let root = reads.root(table)?;
        let pager = reads.context().pager;
        let _epoch = pager.enter_epoch();
        let birth = if root.depth == 0 { 0 } else { pager.view().birth(root.root.0)? };
        Ok(TableVersion { root: (root.root, birth), entries: root.entries })
    }
}

/// See [`Reads::new_rows`].
pub(super) fn new_rows(reads: &(impl Reads + ?Sized), table: &Table, since: u64) -> Result<Vec<Range<u64>>> {
    table.expect(TableKind::Rows)?;
    let root = reads.root(table)?;
    let pager = reads.context().pager;
    let _epoch = pager.enter_epoch();
    RowTree::new_ranges(pager, &root, &|page| Ok(pager.view().birth(page.0)? > since))
}
