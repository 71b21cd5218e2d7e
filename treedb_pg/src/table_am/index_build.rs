//! Reading a table to build or to validate an index.
//!
//! Every row version that some transaction may still see is handed to the index: live ones, recently deleted ones,
//! ones being inserted or deleted now. A HOT chain is one entry, under the address of its root. The rules are those
//! of the server's README.HOT; an index that is built while a broken HOT chain exists is marked unusable for older
//! snapshots (`ii_BrokenHotChain`).
//!
//! A scan may be passed in (of a parallel build): it is used, and ended, here.

use pgrx::{check_for_interrupts, pg_sys};

use crate::shim::error::{SqlState, fail};
use crate::shim::heap::{self, HeapRow, HeapTable, Roots, RowState, is_own_transaction};
use crate::shim::index_build::progress;
use crate::shim::row_form::IndexInfo;
use crate::shim::table_method::{RangeBuild, Validation};

/// The current page's map from HOT chain members to their roots.
struct RootMap {
    block: u32,
    roots: Roots,
}

impl RootMap {
    fn new() -> Self {
        RootMap { block: pg_sys::InvalidBlockNumber, roots: [0; heap::MAX_TUPLES_PER_PAGE] }
    }

    /// Reads the map when the scan has reached another page; true if it has.
    fn follow(&mut self, row: &HeapRow<'_>) -> bool {
        let (block, _) = heap::tid_parts(row.tid());
        let moved = block != self.block;
        if moved {
            row.read_roots(&mut self.roots);
            self.block = block;
        }
        moved
    }

    fn of(&self, offset: u16) -> u16 {
        self.roots.get(usize::from(offset).wrapping_sub(1)).copied().unwrap_or(0)
    }

    /// The address an index keeps for a row: its own, or that of its chain's root.
    fn indexed_tid(&mut self, table: HeapTable<'_>, row: &HeapRow<'_>) -> pg_sys::ItemPointerData {
        let tid = row.tid();
        if !row.is_heap_only() {
            return tid;
        }
        let (block, offset) = heap::tid_parts(tid);
        let mut root = self.of(offset);
        if root == 0 {
            // Only ShareUpdateExclusiveLock was held: the chain grew after the map was read.
            row.read_roots(&mut self.roots);
            root = self.of(offset);
        }
        if root == 0 {
            fail(
                SqlState::ERRCODE_DATA_CORRUPTED,
                format!(
                    "failed to find parent tuple for heap-only tuple at ({block},{offset}) in table \"{}\"",
                    table.shown()
                ),
                "The page's update chains are damaged: check the disk and restore the table from a backup.",
            );
        }
        heap::tid(block, root)
    }
}

/// What a row version means to the index.
struct Decision {
    index_it: bool,
    alive: bool,
    count: bool,
}

/// Decides about one row version where all are shown, waiting for other transactions where their outcome decides.
struct RowFilter<'c> {
    table: HeapTable<'c>,
    info: IndexInfo<'c>,
    oldest_xmin: pg_sys::TransactionId,
    any_visible: bool,
    unique: bool,
    catalog: bool,
}

impl RowFilter<'_> {
    fn decide(&self, row: &HeapRow<'_>) -> Decision {
        loop {
            let seen = row.visibility(self.oldest_xmin);
            match seen.state {
                RowState::Dead => return Decision { index_it: false, alive: false, count: false },
                RowState::Live => return Decision { index_it: true, alive: true, count: true },
                RowState::RecentlyDead => return self.deleted(seen.hot_updated),
                RowState::Inserting(xid) => {
                    if self.any_visible || is_own_transaction(xid) {
                        return Decision { index_it: true, alive: true, count: true };
                    }
                    self.warn("insert");
                    if !self.unique {
                        return Decision { index_it: true, alive: true, count: false };
                    }
                    row.wait_for(xid);
                }
                RowState::Deleting(xid) => {
                    if self.any_visible {
                        return Decision { index_it: true, alive: false, count: true };
                    }
                    if is_own_transaction(xid) {
                        return self.deleted(seen.hot_updated);
                    }
                    self.warn("delete");
                    if !self.unique && !seen.hot_updated {
                        return Decision { index_it: true, alive: false, count: true };
                    }
                    // Should the deleter roll back, this version is the one to index.
                    row.wait_for(xid);
                }
            }
            check_for_interrupts!();
        }
    }

    /// A row version that only older snapshots see. One with a successor in its HOT chain is left out: the chain's
    /// entry leads to the successor's values, so those snapshots must not use the index.
    fn deleted(&self, hot_updated: bool) -> Decision {
        if hot_updated {
            self.info.mark_broken_hot_chain();
        }
        Decision { index_it: !hot_updated, alive: false, count: false }
    }

    fn warn(&self, what: &str) {
        if !self.catalog {
            pgrx::warning!("concurrent {what} in progress within table \"{}\"", self.table.shown());
        }
    }
}

/// Shows a table's rows to the build of an index; returns how many live rows there are.
pub(super) fn build_range_scan(build: &mut RangeBuild<'_>) -> f64 {
    let table = build.table;
    let filter = RowFilter {
        table,
        info: build.info,
        oldest_xmin: build.oldest_xmin(),
        any_visible: build.any_visible,
        unique: build.info.is_unique() || build.info.is_exclusion(),
        catalog: table.is_catalog(),
    };
    let mut scan = build.scan();
    let mut form = build.form();
    let all = scan.shows_all();
    let total = scan.total_blocks();
    if build.progress {
        progress(pg_sys::PROGRESS_SCAN_BLOCKS_TOTAL, i64::from(total));
    }
    let mut rows = 0.0;
    let mut roots = RootMap::new();
    while scan.advance() {
        check_for_interrupts!();
        let Some(row) = scan.row() else { break };
        if roots.follow(&row) && build.progress {
            progress(pg_sys::PROGRESS_SCAN_BLOCKS_DONE, i64::from(scan.blocks_done()));
        }
        let mut alive = true;
        if all {
            let decision = filter.decide(&row);
            if decision.count {
                rows += 1.0;
            }
            if !decision.index_it {
                continue;
            }
            alive = decision.alive;
        } else {
            rows += 1.0;
        }
        let Some(values) = form.form(&row) else { continue };
        let tid = roots.indexed_tid(table, &row);
        build.hand_over(tid, &values, alive);
    }
    if build.progress {
        progress(pg_sys::PROGRESS_SCAN_BLOCKS_DONE, i64::from(total));
    }
    rows
}

/// The second pass of CREATE INDEX CONCURRENTLY. Rows that the snapshot sees and whose address is not among the sorted
/// addresses of the index are inserted into it.
pub(super) fn validate_scan(validation: &mut Validation<'_>) {
    let table = validation.table();
    let mut scan = validation.scan();
    let mut form = validation.form();
    progress(pg_sys::PROGRESS_SCAN_BLOCKS_TOTAL, i64::from(scan.own_blocks()));
    let mut roots = RootMap::new();
    let mut indexed = IndexedAddresses::new();
    while scan.advance() {
        check_for_interrupts!();
        let Some(row) = scan.row() else { break };
        validation.count_row();
        if roots.follow(&row) {
            indexed.on_page(roots.block);
            progress(pg_sys::PROGRESS_SCAN_BLOCKS_DONE, i64::from(roots.block));
        }
        let tid = roots.indexed_tid(table, &row);
        if indexed.has(validation, tid) {
            continue;
        }
        if let Some(values) = form.form(&row) {
            validation.insert(tid, &values);
        }
    }
}

/// The index's addresses, read in step with the table. Roots come out of order within a page (a chain's root may
/// stand before or after other rows), so what was passed on the current page is remembered.
struct IndexedAddresses {
    next: Option<(u32, u16)>,
    ended: bool,
    block: u32,
    passed: [bool; heap::MAX_TUPLES_PER_PAGE + 1],
}

impl IndexedAddresses {
    fn new() -> Self {
        IndexedAddresses {
            next: None,
            ended: false,
            block: pg_sys::InvalidBlockNumber,
            passed: [false; heap::MAX_TUPLES_PER_PAGE + 1],
        }
    }

    fn on_page(&mut self, block: u32) {
        self.block = block;
        self.passed.fill(false);
    }

    /// True if the index has an entry for `tid`.
    fn has(&mut self, validation: &mut Validation<'_>, tid: pg_sys::ItemPointerData) -> bool {
        let wanted = heap::tid_parts(tid);
        while !self.ended && self.next.is_none_or(|next| next < wanted) {
            if let Some((block, offset)) = self.next
                && block == self.block
                && let Some(mark) = self.passed.get_mut(usize::from(offset))
            {
                *mark = true;
            }
            self.next = validation.next_indexed();
            self.ended = self.next.is_none();
        }
        self.next == Some(wanted)
            || (wanted.0 == self.block && self.passed.get(usize::from(wanted.1)).copied().unwrap_or(false))
    }
}
