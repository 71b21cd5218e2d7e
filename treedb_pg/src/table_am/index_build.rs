//! Reading a table to build or to validate an index.
//!
//! Every row version that some transaction may still see is handed to the index: live ones, recently deleted ones,
//! ones being inserted or deleted now. A HOT chain is one entry, under the address of its root. The rules are those
//! of the server's README.HOT; an index that is built while a broken HOT chain exists is marked unusable for older
//! snapshots (`ii_BrokenHotChain`).
//!
//! A scan may be passed in (parallel build of the server's own btree): it is used, and ended, here.

use std::ptr;

use pgrx::{check_for_interrupts, pg_guard, pg_sys};

use crate::shim::error::{SqlState, fail};
use crate::shim::heap;

/// Line pointers of a page: the root of each HOT chain member, by offset - 1.
type Roots = [pg_sys::OffsetNumber; heap::MAX_TUPLES_PER_PAGE];

/// Evaluates the index's predicate and expressions on rows.
struct RowForm {
    estate: *mut pg_sys::EState,
    econtext: *mut pg_sys::ExprContext,
    predicate: *mut pg_sys::ExprState,
    slot: *mut pg_sys::TupleTableSlot,
    info: *mut pg_sys::IndexInfo,
    values: [pg_sys::Datum; pg_sys::INDEX_MAX_KEYS as usize],
    nulls: [bool; pg_sys::INDEX_MAX_KEYS as usize],
}

impl RowForm {
    unsafe fn new(table: pg_sys::Relation, info: *mut pg_sys::IndexInfo) -> Self {
        // SAFETY: the server passes an open table and a filled IndexInfo.
        unsafe {
            let estate = pg_sys::CreateExecutorState();
            let econtext = pg_sys::MakePerTupleExprContext(estate);
            let slot = pg_sys::table_slot_create(table, ptr::null_mut());
            (*econtext).ecxt_scantuple = slot;
            let predicate = pg_sys::ExecPrepareQual((*info).ii_Predicate, estate);
            RowForm {
                estate,
                econtext,
                predicate,
                slot,
                info,
                values: [pg_sys::Datum::from(0usize); pg_sys::INDEX_MAX_KEYS as usize],
                nulls: [false; pg_sys::INDEX_MAX_KEYS as usize],
            }
        }
    }

    /// Fills `values` and `nulls` from the row in the slot; false if a partial index leaves the row out.
    unsafe fn form(&mut self) -> bool {
        // SAFETY: the slot holds a row of the table, its page pinned.
        unsafe {
            pg_sys::MemoryContextReset((*self.econtext).ecxt_per_tuple_memory);
            if !self.predicate.is_null() && !pg_sys::ExecQual(self.predicate, self.econtext) {
                return false;
            }
            pg_sys::FormIndexDatum(
                self.info,
                self.slot,
                self.estate,
                self.values.as_mut_ptr(),
                self.nulls.as_mut_ptr(),
            );
            true
        }
    }

    unsafe fn end(self) {
        // SAFETY: made in `new`; expression states pointed into the executor state that goes away here.
        unsafe {
            pg_sys::ExecDropSingleTupleTableSlot(self.slot);
            pg_sys::FreeExecutorState(self.estate);
            (*self.info).ii_ExpressionsState = ptr::null_mut();
            (*self.info).ii_PredicateState = ptr::null_mut();
        }
    }
}

/// The current page's map from HOT chain members to their roots.
struct RootMap {
    block: pg_sys::BlockNumber,
    roots: Roots,
}

impl RootMap {
    fn new() -> Self {
        RootMap { block: pg_sys::InvalidBlockNumber, roots: [0; heap::MAX_TUPLES_PER_PAGE] }
    }

    unsafe fn read(&mut self, scan: pg_sys::HeapScanDesc) {
        // SAFETY: the scan pins its current page.
        unsafe {
            pg_sys::LockBuffer((*scan).rs_cbuf, pg_sys::BUFFER_LOCK_SHARE as i32);
            pg_sys::heap_get_root_tuples(pg_sys::BufferGetPage((*scan).rs_cbuf), self.roots.as_mut_ptr());
            pg_sys::LockBuffer((*scan).rs_cbuf, pg_sys::BUFFER_LOCK_UNLOCK as i32);
            self.block = (*scan).rs_cblock;
        }
    }

    /// Reads the map when the scan has come to another page; true if it has.
    unsafe fn follow(&mut self, scan: pg_sys::HeapScanDesc) -> bool {
        // SAFETY: as `read`.
        unsafe {
            let moved = (*scan).rs_cblock != self.block;
            if moved {
                self.read(scan);
            }
            moved
        }
    }

    fn of(&self, offset: pg_sys::OffsetNumber) -> pg_sys::OffsetNumber {
        self.roots.get(usize::from(offset).wrapping_sub(1)).copied().unwrap_or(0)
    }

    /// The address an index keeps for `tuple`: its own, or that of its chain's root.
    unsafe fn indexed_tid(
        &mut self,
        table: pg_sys::Relation,
        scan: pg_sys::HeapScanDesc,
        tuple: pg_sys::HeapTuple,
    ) -> pg_sys::ItemPointerData {
        // SAFETY: the tuple lies in the scan's pinned page.
        unsafe {
            let tid = (*tuple).t_self;
            if !heap::is_heap_only((*tuple).t_data) {
                return tid;
            }
            let (block, offset) = heap::tid_parts(tid);
            let mut root = self.of(offset);
            if root == 0 {
                // Only ShareUpdateExclusiveLock was held: the chain grew after the map was read.
                self.read(scan);
                root = self.of(offset);
            }
            if root == 0 {
                let name = pgrx::name_data_to_str(&(*(*table).rd_rel).relname);
                fail(
                    SqlState::ERRCODE_DATA_CORRUPTED,
                    format!(
                        "failed to find parent tuple for heap-only tuple at ({block},{offset}) in table \"{name}\""
                    ),
                    "The page's update chains are damaged: check the disk and restore the table from a backup.",
                );
            }
            heap::tid(block, root)
        }
    }
}

/// What a row version means to the index.
struct Verdict {
    index_it: bool,
    alive: bool,
    count: bool,
}

/// Decides about one row version under [`heap::snapshot_any`], waiting for other transactions where their outcome
/// decides.
struct Judge {
    table: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    oldest_xmin: pg_sys::TransactionId,
    any_visible: bool,
    unique: bool,
    catalog: bool,
}

impl Judge {
    unsafe fn judge(&self, tuple: pg_sys::HeapTuple, buffer: pg_sys::Buffer) -> Verdict {
        use pg_sys::HTSV_Result as State;
        // SAFETY: the tuple lies in the pinned page of `buffer`.
        unsafe {
            loop {
                pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
                let state = pg_sys::HeapTupleSatisfiesVacuum(tuple, self.oldest_xmin, buffer);
                let header = (*tuple).t_data;
                let hot_updated = heap::is_hot_updated(header);
                let (inserter, deleter) = match state {
                    State::HEAPTUPLE_INSERT_IN_PROGRESS => (Some(heap::xmin(header)), None),
                    State::HEAPTUPLE_DELETE_IN_PROGRESS => (None, Some(heap::update_xid(header))),
                    _ => (None, None),
                };
                pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_UNLOCK as i32);
                match state {
                    State::HEAPTUPLE_DEAD => return Verdict { index_it: false, alive: false, count: false },
                    State::HEAPTUPLE_LIVE => return Verdict { index_it: true, alive: true, count: true },
                    State::HEAPTUPLE_RECENTLY_DEAD => {
                        if hot_updated {
                            (*self.info).ii_BrokenHotChain = true;
                        }
                        return Verdict { index_it: !hot_updated, alive: false, count: false };
                    }
                    _ => {}
                }
                if let Some(xid) = inserter {
                    let own = pg_sys::TransactionIdIsCurrentTransactionId(xid);
                    if self.any_visible || own {
                        return Verdict { index_it: true, alive: true, count: true };
                    }
                    self.warn("insert");
                    if !self.unique {
                        return Verdict { index_it: true, alive: true, count: false };
                    }
                    self.wait(xid, tuple);
                } else if let Some(xid) = deleter {
                    if self.any_visible {
                        return Verdict { index_it: true, alive: false, count: true };
                    }
                    if pg_sys::TransactionIdIsCurrentTransactionId(xid) {
                        if hot_updated {
                            (*self.info).ii_BrokenHotChain = true;
                        }
                        return Verdict { index_it: !hot_updated, alive: false, count: false };
                    }
                    self.warn("delete");
                    if !self.unique && !hot_updated {
                        return Verdict { index_it: true, alive: false, count: true };
                    }
                    // Should the deleter roll back, this version is the one to index.
                    self.wait(xid, tuple);
                }
                check_for_interrupts!();
            }
        }
    }

    unsafe fn warn(&self, what: &str) {
        if !self.catalog {
            // SAFETY: an open table.
            let name = unsafe { pgrx::name_data_to_str(&(*(*self.table).rd_rel).relname) };
            pgrx::warning!("concurrent {what} in progress within table \"{name}\"");
        }
    }

    unsafe fn wait(&self, xid: pg_sys::TransactionId, tuple: pg_sys::HeapTuple) {
        // SAFETY: no buffer is locked here.
        unsafe {
            pg_sys::XactLockTableWait(
                xid,
                self.table,
                &raw mut (*tuple).t_self,
                pg_sys::XLTW_Oper::XLTW_InsertIndexUnique,
            );
        }
    }
}

/// `index_build_range_scan` of the table access method.
#[pg_guard]
#[allow(clippy::too_many_arguments)]
pub(super) unsafe extern "C-unwind" fn build_range_scan(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    allow_sync: bool,
    any_visible: bool,
    progress: bool,
    start_block: pg_sys::BlockNumber,
    blocks: pg_sys::BlockNumber,
    callback: pg_sys::IndexBuildCallback,
    callback_state: *mut std::ffi::c_void,
    scan: pg_sys::TableScanDesc,
) -> f64 {
    // SAFETY: called by the server with an open, locked table and index.
    unsafe {
        let Some(callback) = callback else { return 0.0 };
        let mut form = RowForm::new(table, info);
        let concurrent = (*info).ii_Concurrent;
        let bootstrap = pg_sys::Mode == pg_sys::ProcessingMode::BootstrapProcessing;
        let judge = Judge {
            table,
            info,
            // A concurrent build sees by an MVCC snapshot instead.
            oldest_xmin: if concurrent || bootstrap {
                pg_sys::InvalidTransactionId
            } else {
                pg_sys::GetOldestNonRemovableTransactionId(table)
            },
            any_visible,
            unique: (*info).ii_Unique || !(*info).ii_ExclusionOps.is_null(),
            catalog: pg_sys::IsSystemRelation(table),
        };

        let mut registered: pg_sys::Snapshot = ptr::null_mut();
        let scan = if !scan.is_null() {
            scan
        } else {
            let snapshot = if concurrent || bootstrap {
                registered = pg_sys::RegisterSnapshot(pg_sys::GetTransactionSnapshot());
                registered
            } else {
                heap::snapshot_any()
            };
            pg_sys::table_beginscan_strat(table, snapshot, 0, ptr::null_mut(), true, allow_sync)
        };
        let heap_scan = scan.cast::<pg_sys::HeapScanDescData>();
        let any = ptr::eq((*scan).rs_snapshot, heap::snapshot_any());
        let total = total_blocks(heap_scan);
        if progress {
            pg_sys::pgstat_progress_update_param(pg_sys::PROGRESS_SCAN_BLOCKS_TOTAL as i32, i64::from(total));
        }
        if !allow_sync {
            pg_sys::heap_setscanlimits(scan, start_block, blocks);
        }

        let mut rows = 0.0;
        let mut roots = RootMap::new();
        let mut reported = pg_sys::InvalidBlockNumber;
        while pg_sys::heap_getnextslot(scan, pg_sys::ScanDirection::ForwardScanDirection, form.slot) {
            check_for_interrupts!();
            if progress && (*heap_scan).rs_cblock != reported {
                reported = (*heap_scan).rs_cblock;
                pg_sys::pgstat_progress_update_param(
                    pg_sys::PROGRESS_SCAN_BLOCKS_DONE as i32,
                    i64::from(blocks_done(heap_scan)),
                );
            }
            roots.follow(heap_scan);
            let tuple = &raw mut (*heap_scan).rs_ctup;
            let mut alive = true;
            if any {
                let verdict = judge.judge(tuple, (*heap_scan).rs_cbuf);
                if verdict.count {
                    rows += 1.0;
                }
                if !verdict.index_it {
                    continue;
                }
                alive = verdict.alive;
            } else {
                rows += 1.0;
            }
            if !form.form() {
                continue;
            }
            let mut tid = roots.indexed_tid(table, heap_scan, tuple);
            let (values, nulls) = (form.values.as_mut_ptr(), form.nulls.as_mut_ptr());
            pg_sys::ffi::pg_guard_ffi_boundary(|| {
                callback(index, &raw mut tid, values, nulls, alive, callback_state);
            });
        }
        if progress {
            pg_sys::pgstat_progress_update_param(pg_sys::PROGRESS_SCAN_BLOCKS_DONE as i32, i64::from(total));
        }
        pg_sys::table_endscan(scan);
        if !registered.is_null() {
            pg_sys::UnregisterSnapshot(registered);
        }
        form.end();
        rows
    }
}

/// Blocks the scan will read, all workers together.
unsafe fn total_blocks(scan: pg_sys::HeapScanDesc) -> pg_sys::BlockNumber {
    // SAFETY: a heap scan; the parallel part, if any, is the block-based one heap uses.
    unsafe {
        let parallel = (*scan).rs_base.rs_parallel;
        if parallel.is_null() {
            (*scan).rs_nblocks
        } else {
            (*parallel.cast::<pg_sys::ParallelBlockTableScanDescData>()).phs_nblocks
        }
    }
}

/// Blocks read so far, for progress reports: a synchronised scan begins in the middle and wraps around.
unsafe fn blocks_done(scan: pg_sys::HeapScanDesc) -> pg_sys::BlockNumber {
    // SAFETY: as above.
    unsafe {
        let parallel = (*scan).rs_base.rs_parallel;
        let start = if parallel.is_null() {
            (*scan).rs_startblock
        } else {
            (*parallel.cast::<pg_sys::ParallelBlockTableScanDescData>()).phs_startblock
        };
        let current = (*scan).rs_cblock;
        if current > start {
            current - start
        } else {
            total_blocks(scan).saturating_sub(start).saturating_add(current)
        }
    }
}

/// `index_validate_scan` of the table access method: the second pass of CREATE INDEX CONCURRENTLY. Rows that
/// `snapshot` sees and whose address is not among the sorted addresses of the index are inserted into it.
#[pg_guard]
pub(super) unsafe extern "C-unwind" fn validate_scan(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    snapshot: pg_sys::Snapshot,
    state: *mut pg_sys::ValidateIndexState,
) {
    // SAFETY: called by the server with an open, locked table and index.
    unsafe {
        let mut form = RowForm::new(table, info);
        // From block 0 upwards, as the sorted addresses go.
        let scan = pg_sys::table_beginscan_strat(table, snapshot, 0, ptr::null_mut(), true, false);
        let heap_scan = scan.cast::<pg_sys::HeapScanDescData>();
        pg_sys::pgstat_progress_update_param(
            pg_sys::PROGRESS_SCAN_BLOCKS_TOTAL as i32,
            i64::from((*heap_scan).rs_nblocks),
        );
        let mut roots = RootMap::new();
        let mut indexed = IndexedAddresses::new((*state).tuplesort);
        while pg_sys::heap_getnextslot(scan, pg_sys::ScanDirection::ForwardScanDirection, form.slot) {
            check_for_interrupts!();
            (*state).htups += 1.0;
            if roots.follow(heap_scan) {
                indexed.on_page(roots.block);
                pg_sys::pgstat_progress_update_param(
                    pg_sys::PROGRESS_SCAN_BLOCKS_DONE as i32,
                    i64::from(roots.block),
                );
            }
            let mut tid = roots.indexed_tid(table, heap_scan, &raw mut (*heap_scan).rs_ctup);
            if indexed.has(tid) || !form.form() {
                continue;
            }
            let unique = if (*info).ii_Unique {
                pg_sys::IndexUniqueCheck::UNIQUE_CHECK_YES
            } else {
                pg_sys::IndexUniqueCheck::UNIQUE_CHECK_NO
            };
            pg_sys::index_insert(
                index,
                form.values.as_mut_ptr(),
                form.nulls.as_mut_ptr(),
                &raw mut tid,
                table,
                unique,
                false,
                info,
            );
            (*state).tups_inserted += 1.0;
        }
        pg_sys::table_endscan(scan);
        form.end();
    }
}

/// The index's addresses, read in step with the table. Roots come out of order within a page (a chain's root may
/// stand before or after other rows), so what was passed on the current page is remembered.
struct IndexedAddresses {
    sort: *mut pg_sys::Tuplesortstate,
    next: Option<(u32, u16)>,
    ended: bool,
    block: u32,
    passed: [bool; heap::MAX_TUPLES_PER_PAGE + 1],
}

impl IndexedAddresses {
    fn new(sort: *mut pg_sys::Tuplesortstate) -> Self {
        IndexedAddresses {
            sort,
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
    unsafe fn has(&mut self, tid: pg_sys::ItemPointerData) -> bool {
        let wanted = heap::tid_parts(tid);
        while !self.ended && self.next.is_none_or(|next| next < wanted) {
            if let Some((block, offset)) = self.next
                && block == self.block
                && let Some(mark) = self.passed.get_mut(usize::from(offset))
            {
                *mark = true;
            }
            let (mut value, mut null) = (pg_sys::Datum::from(0usize), false);
            // SAFETY: the server's sort of encoded addresses (int8).
            let got = unsafe {
                pg_sys::tuplesort_getdatum(self.sort, true, &raw mut value, &raw mut null, ptr::null_mut())
            };
            if got {
                // The server encodes an address as block << 16 | offset.
                let encoded = value.value() as u64;
                self.next = Some(((encoded >> 16) as u32, encoded as u16));
            } else {
                self.next = None;
                self.ended = true;
            }
        }
        self.next == Some(wanted)
            || (wanted.0 == self.block && self.passed.get(usize::from(wanted.1)).copied().unwrap_or(false))
    }
}
