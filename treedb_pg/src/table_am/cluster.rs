//! VACUUM FULL and CLUSTER: copying a table into new storage, in its own order or in an index's.
//!
//! The server's rewrite module keeps update chains together, freezes and logs; this module reads the old rows,
//! decides which of them are dead, and hands over the rest.

use std::ptr;

use pgrx::{check_for_interrupts, pg_guard, pg_sys};

use crate::shim::error::{SqlState, fail};
use crate::shim::heap::{self, RewriteStateData};

/// Forms rows anew for the new table: dropped columns become NULL.
struct Copier {
    old: pg_sys::TupleDesc,
    new: pg_sys::TupleDesc,
    values: Vec<pg_sys::Datum>,
    nulls: Vec<bool>,
    rewrite: *mut RewriteStateData,
}

impl Copier {
    unsafe fn copy(&mut self, tuple: pg_sys::HeapTuple) {
        // SAFETY: the tuple is of the old table; the arrays have room for every attribute.
        unsafe {
            pg_sys::heap_deform_tuple(tuple, self.old, self.values.as_mut_ptr(), self.nulls.as_mut_ptr());
            let attributes = (*self.new).attrs.as_slice(self.nulls.len());
            for (null, attribute) in self.nulls.iter_mut().zip(attributes) {
                *null |= attribute.attisdropped;
            }
            let copy = pg_sys::heap_form_tuple(self.new, self.values.as_mut_ptr(), self.nulls.as_mut_ptr());
            heap::rewrite_heap_tuple(self.rewrite, tuple, copy);
            pg_sys::heap_freetuple(copy);
        }
    }
}

/// Where the old rows come from.
enum Rows {
    Index(pg_sys::IndexScanDesc),
    Table { scan: pg_sys::TableScanDesc, reported: pg_sys::BlockNumber },
}

impl Rows {
    /// The next row into `slot`.
    unsafe fn next(&mut self, slot: *mut pg_sys::TupleTableSlot) -> bool {
        // SAFETY: scans of the old table, under an exclusive lock.
        unsafe {
            match self {
                Rows::Index(scan) => {
                    let found =
                        pg_sys::index_getnext_slot(*scan, pg_sys::ScanDirection::ForwardScanDirection, slot);
                    if found && (**scan).xs_recheck {
                        fail(
                            SqlState::ERRCODE_FEATURE_NOT_SUPPORTED,
                            "CLUSTER does not support lossy index conditions",
                            "CLUSTER by a btree index.",
                        );
                    }
                    found
                }
                Rows::Table { scan, reported } => {
                    let found =
                        pg_sys::heap_getnextslot(*scan, pg_sys::ScanDirection::ForwardScanDirection, slot);
                    let heap_scan = scan.cast::<pg_sys::HeapScanDescData>();
                    let blocks = (*heap_scan).rs_nblocks;
                    let block = (*heap_scan).rs_cblock;
                    if !found {
                        progress(pg_sys::PROGRESS_CLUSTER_HEAP_BLKS_SCANNED, i64::from(blocks));
                    } else if block != *reported && blocks > 0 {
                        // A scan may begin in the middle and wrap around.
                        let start = i64::from((*heap_scan).rs_startblock);
                        let done = (i64::from(block) + i64::from(blocks) - start) % i64::from(blocks) + 1;
                        progress(pg_sys::PROGRESS_CLUSTER_HEAP_BLKS_SCANNED, done);
                        *reported = block;
                    }
                    found
                }
            }
        }
    }

    unsafe fn end(self) {
        // SAFETY: begun in `copy_for_cluster`.
        unsafe {
            match self {
                Rows::Index(scan) => pg_sys::index_endscan(scan),
                Rows::Table { scan, .. } => pg_sys::table_endscan(scan),
            }
        }
    }
}

fn progress(param: u32, value: i64) {
    // SAFETY: writes this backend's progress entry.
    unsafe { pg_sys::pgstat_progress_update_param(param as i32, value) }
}

/// `relation_copy_for_cluster` of the table access method.
#[pg_guard]
#[allow(clippy::too_many_arguments)]
pub(super) unsafe extern "C-unwind" fn copy_for_cluster(
    old: pg_sys::Relation,
    new: pg_sys::Relation,
    old_index: pg_sys::Relation,
    use_sort: bool,
    oldest_xmin: pg_sys::TransactionId,
    xid_cutoff: *mut pg_sys::TransactionId,
    multi_cutoff: *mut pg_sys::MultiXactId,
    num_tuples: *mut f64,
    tups_vacuumed: *mut f64,
    tups_recently_dead: *mut f64,
) {
    // SAFETY: called by the server with both tables locked exclusively.
    unsafe {
        let attributes = (*(*new).rd_att).natts.max(0) as usize;
        let rewrite = heap::begin_heap_rewrite(old, new, oldest_xmin, *xid_cutoff, *multi_cutoff);
        let mut copier = Copier {
            old: (*old).rd_att,
            new: (*new).rd_att,
            values: vec![pg_sys::Datum::from(0usize); attributes],
            nulls: vec![false; attributes],
            rewrite,
        };
        let sort = if use_sort {
            pg_sys::tuplesort_begin_cluster(
                copier.old,
                old_index,
                pg_sys::maintenance_work_mem,
                ptr::null_mut(),
                pg_sys::TUPLESORT_NONE as i32,
            )
        } else {
            ptr::null_mut()
        };

        let mut rows = if !old_index.is_null() && !use_sort {
            progress(
                pg_sys::PROGRESS_CLUSTER_PHASE,
                i64::from(pg_sys::PROGRESS_CLUSTER_PHASE_INDEX_SCAN_HEAP),
            );
            progress(pg_sys::PROGRESS_CLUSTER_INDEX_RELID, i64::from(u32::from((*old_index).rd_id)));
            let scan = pg_sys::index_beginscan(old, old_index, heap::snapshot_any(), 0, 0);
            pg_sys::index_rescan(scan, ptr::null_mut(), 0, ptr::null_mut(), 0);
            Rows::Index(scan)
        } else {
            progress(pg_sys::PROGRESS_CLUSTER_PHASE, i64::from(pg_sys::PROGRESS_CLUSTER_PHASE_SEQ_SCAN_HEAP));
            let scan = pg_sys::table_beginscan(old, heap::snapshot_any(), 0, ptr::null_mut());
            let blocks = (*scan.cast::<pg_sys::HeapScanDescData>()).rs_nblocks;
            progress(pg_sys::PROGRESS_CLUSTER_TOTAL_HEAP_BLKS, i64::from(blocks));
            Rows::Table { scan, reported: pg_sys::InvalidBlockNumber }
        };

        let slot = pg_sys::table_slot_create(old, ptr::null_mut());
        let catalog = pg_sys::IsSystemRelation(old);
        while rows.next(slot) {
            check_for_interrupts!();
            let tuple = pg_sys::ExecFetchSlotHeapTuple(slot, false, ptr::null_mut());
            let buffer = (*slot.cast::<pg_sys::BufferHeapTupleTableSlot>()).buffer;
            match fate(old, catalog, tuple, buffer, oldest_xmin) {
                Fate::Dead => {
                    *tups_vacuumed += 1.0;
                    if heap::rewrite_heap_dead_tuple(rewrite, tuple) {
                        // An earlier recently dead one is now known to be dead.
                        *tups_vacuumed += 1.0;
                        *tups_recently_dead -= 1.0;
                    }
                    continue;
                }
                Fate::RecentlyDead => *tups_recently_dead += 1.0,
                Fate::Live => {}
            }
            *num_tuples += 1.0;
            progress(pg_sys::PROGRESS_CLUSTER_HEAP_TUPLES_SCANNED, *num_tuples as i64);
            if sort.is_null() {
                copier.copy(tuple);
                progress(pg_sys::PROGRESS_CLUSTER_HEAP_TUPLES_WRITTEN, *num_tuples as i64);
            } else {
                pg_sys::tuplesort_putheaptuple(sort, tuple);
            }
        }
        rows.end();
        pg_sys::ExecDropSingleTupleTableSlot(slot);

        if !sort.is_null() {
            progress(pg_sys::PROGRESS_CLUSTER_PHASE, i64::from(pg_sys::PROGRESS_CLUSTER_PHASE_SORT_TUPLES));
            pg_sys::tuplesort_performsort(sort);
            progress(
                pg_sys::PROGRESS_CLUSTER_PHASE,
                i64::from(pg_sys::PROGRESS_CLUSTER_PHASE_WRITE_NEW_HEAP),
            );
            let mut written = 0;
            loop {
                check_for_interrupts!();
                let tuple = pg_sys::tuplesort_getheaptuple(sort, true);
                if tuple.is_null() {
                    break;
                }
                copier.copy(tuple);
                written += 1;
                progress(pg_sys::PROGRESS_CLUSTER_HEAP_TUPLES_WRITTEN, written);
            }
            pg_sys::tuplesort_end(sort);
        }
        heap::end_heap_rewrite(rewrite);
    }
}

/// What becomes of a row version.
enum Fate {
    /// Nobody can see it: left out.
    Dead,
    /// Deleted, but somebody may still see it: copied.
    RecentlyDead,
    /// Copied.
    Live,
}

unsafe fn fate(
    table: pg_sys::Relation,
    catalog: bool,
    tuple: pg_sys::HeapTuple,
    buffer: pg_sys::Buffer,
    oldest_xmin: pg_sys::TransactionId,
) -> Fate {
    use pg_sys::HTSV_Result as State;
    // SAFETY: the tuple lies in the pinned page of `buffer`.
    unsafe {
        pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
        let state = pg_sys::HeapTupleSatisfiesVacuum(tuple, oldest_xmin, buffer);
        let header = (*tuple).t_data;
        let other = match state {
            State::HEAPTUPLE_INSERT_IN_PROGRESS => Some(("insert", heap::xmin(header))),
            State::HEAPTUPLE_DELETE_IN_PROGRESS => Some(("delete", heap::update_xid(header))),
            _ => None,
        };
        pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_UNLOCK as i32);
        if let Some((what, xid)) = other
            && !catalog
            && !pg_sys::TransactionIdIsCurrentTransactionId(xid)
        {
            // Under an exclusive lock only our own transaction can be at work here.
            let name = pgrx::name_data_to_str(&(*(*table).rd_rel).relname);
            pgrx::warning!("concurrent {what} in progress within table \"{name}\"");
        }
        match state {
            State::HEAPTUPLE_DEAD => Fate::Dead,
            State::HEAPTUPLE_RECENTLY_DEAD | State::HEAPTUPLE_DELETE_IN_PROGRESS => Fate::RecentlyDead,
            _ => Fate::Live,
        }
    }
}
