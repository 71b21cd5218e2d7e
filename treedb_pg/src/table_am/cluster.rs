//! VACUUM FULL and CLUSTER: copying a table into new storage, in its own order or in an index's.
//!
//! The server's rewrite module keeps update chains together, freezes and logs; this module reads the old rows,
//! decides which of them are dead, and hands over the rest.

use pgrx::{check_for_interrupts, pg_sys};

use crate::shim::heap::{HeapRow, HeapScan, HeapTable, RowState, is_own_transaction};
use crate::shim::index_build::progress;
use crate::shim::rewrite::{Copy, OldRows};

/// Reports how many blocks of the old table have been read, where its own order is followed.
struct Progress {
    reported: u32,
}

impl Progress {
    fn report(&mut self, scan: &HeapScan<'_>) {
        let (block, blocks) = (scan.block(), scan.own_blocks());
        if block != self.reported && blocks > 0 {
            // A scan may begin in the middle and wrap around.
            let start = i64::from(scan.own_start());
            let done = (i64::from(block) + i64::from(blocks) - start) % i64::from(blocks) + 1;
            progress(pg_sys::PROGRESS_CLUSTER_HEAP_BLKS_SCANNED, done);
            self.reported = block;
        }
    }
}

/// Copies the old table's rows to the new one.
pub(super) fn copy_for_cluster(copy: &mut Copy<'_>) {
    let old = copy.old();
    let catalog = old.is_catalog();
    let mut rewrite = copy.rewrite();
    let mut sort = copy.sort();
    if let Some(index) = copy.order() {
        phase(pg_sys::PROGRESS_CLUSTER_PHASE_INDEX_SCAN_HEAP);
        progress(pg_sys::PROGRESS_CLUSTER_INDEX_RELID, i64::from(u32::from(index.oid())));
    } else {
        phase(pg_sys::PROGRESS_CLUSTER_PHASE_SEQ_SCAN_HEAP);
    }
    let mut rows = copy.rows();
    if let OldRows::Table(scan) = &rows {
        progress(pg_sys::PROGRESS_CLUSTER_TOTAL_HEAP_BLKS, i64::from(scan.own_blocks()));
    }
    let mut blocks = Progress { reported: pg_sys::InvalidBlockNumber };
    while rows.advance() {
        check_for_interrupts!();
        if let OldRows::Table(scan) = &rows {
            blocks.report(scan);
        }
        let Some(row) = rows.row() else { break };
        match fate(old, catalog, &row, copy.oldest_xmin()) {
            Fate::Dead => {
                copy.vacuumed += 1.0;
                if rewrite.dead(&row) {
                    // An earlier recently dead one is now known to be dead.
                    copy.vacuumed += 1.0;
                    copy.recently_dead -= 1.0;
                }
                continue;
            }
            Fate::RecentlyDead => copy.recently_dead += 1.0,
            Fate::Live => {}
        }
        copy.copied += 1.0;
        progress(pg_sys::PROGRESS_CLUSTER_HEAP_TUPLES_SCANNED, copy.copied as i64);
        match &mut sort {
            None => {
                rewrite.copy(&row);
                progress(pg_sys::PROGRESS_CLUSTER_HEAP_TUPLES_WRITTEN, copy.copied as i64);
            }
            Some(sort) => sort.put(&row),
        }
    }
    if let OldRows::Table(scan) = &rows {
        progress(pg_sys::PROGRESS_CLUSTER_HEAP_BLKS_SCANNED, i64::from(scan.own_blocks()));
    }
    drop(rows);
    if let Some(sort) = sort {
        phase(pg_sys::PROGRESS_CLUSTER_PHASE_SORT_TUPLES);
        let mut sorted = sort.sort();
        phase(pg_sys::PROGRESS_CLUSTER_PHASE_WRITE_NEW_HEAP);
        let mut written = 0;
        while let Some(row) = sorted.next() {
            check_for_interrupts!();
            rewrite.copy_sorted(&row);
            written += 1;
            progress(pg_sys::PROGRESS_CLUSTER_HEAP_TUPLES_WRITTEN, written);
        }
        sorted.end();
    }
    rewrite.finish();
}

fn phase(number: u32) {
    progress(pg_sys::PROGRESS_CLUSTER_PHASE, i64::from(number));
}

/// What becomes of a row version.
enum Fate {
    /// Visible to no snapshot: left out.
    Dead,
    /// Deleted, but visible to some older snapshot: copied.
    RecentlyDead,
    /// Copied.
    Live,
}

fn fate(table: HeapTable<'_>, catalog: bool, row: &HeapRow<'_>, oldest_xmin: pg_sys::TransactionId) -> Fate {
    let state = row.visibility(oldest_xmin).state;
    let other = match state {
        RowState::Inserting(xid) => Some(("insert", xid)),
        RowState::Deleting(xid) => Some(("delete", xid)),
        _ => None,
    };
    if let Some((what, xid)) = other
        && !catalog
        && !is_own_transaction(xid)
    {
        // Under an exclusive lock only our own transaction can be at work here.
        pgrx::warning!("concurrent {what} in progress within table \"{}\"", table.shown());
    }
    match state {
        RowState::Dead => Fate::Dead,
        RowState::RecentlyDead | RowState::Deleting(_) => Fate::RecentlyDead,
        RowState::Live | RowState::Inserting(_) => Fate::Live,
    }
}
