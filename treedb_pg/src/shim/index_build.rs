//! Building an index: the rows of a table as an index sees them.

use std::ffi::{CStr, c_void};

use pgrx::pg_sys;

use super::datum::Datum;
use super::error::{SqlState, fail};
use super::heap;
use super::parallel_build::{self, Team};
use super::relation::{Index, Table, layout};
use super::snapshot::Snapshot;
use super::temp_file::TempFile;

/// The values of a row's columns in an index.
pub(crate) struct IndexRow<'c> {
    index: Index<'c>,
    values: *const pg_sys::Datum,
    nulls: *const bool,
    tid: pg_sys::ItemPointerData,
    /// The server's description of the index, if the row is being inserted by a statement.
    info: *mut pg_sys::IndexInfo,
}

impl<'c> IndexRow<'c> {
    /// # Safety
    /// `values` and `nulls` have an element for each column of the index, and are what its columns are declared as;
    /// they live for `'c`.
    pub(super) unsafe fn from_raw(
        index: Index<'c>,
        values: *const pg_sys::Datum,
        nulls: *const bool,
        tid: pg_sys::ItemPointerData,
    ) -> IndexRow<'c> {
        IndexRow { index, values, nulls, tid, info: std::ptr::null_mut() }
    }

    /// The same of a row that is being inserted.
    ///
    /// # Safety
    /// Also, `info` is the server's description of the index, which lives for `'c`.
    pub(super) unsafe fn inserted(self, info: *mut pg_sys::IndexInfo) -> IndexRow<'c> {
        IndexRow { info, ..self }
    }

    /// Raises the server's error if another row breaks the index's exclusion constraint together with this one; waits
    /// for a transaction that is at work on such a row. False, if it is not to be checked now: the constraint may be
    /// deferred, or the row is one of INSERT ON CONFLICT, which the executor takes back if there is a conflict.
    pub(crate) fn expect_no_conflict(&self, table: Table<'_>) -> bool {
        if self.info.is_null() || !self.index.is_immediate() || heap::is_speculative(table, self.tid) {
            return false;
        }
        let mut tid = self.tid;
        // SAFETY: open relations, the values of the index's columns, and a state of the executor's for expressions.
        unsafe {
            let estate = pg_sys::CreateExecutorState();
            pg_sys::check_exclusion_constraint(
                table.raw(),
                self.index.raw(),
                self.info,
                &raw mut tid,
                self.values.cast_mut(),
                self.nulls.cast_mut(),
                estate,
                false,
            );
            pg_sys::FreeExecutorState(estate);
        }
        true
    }

    /// The index.
    pub(crate) fn index(&self) -> Index<'c> {
        self.index
    }

    /// The row's address.
    pub(crate) fn tid(&self) -> pg_sys::ItemPointerData {
        self.tid
    }

    /// The value of a column, counted from 0; `None` for NULL, or for no such column.
    #[inline]
    pub(crate) fn value(&self, column: usize) -> Option<Datum<'c>> {
        // SAFETY: an element for each column, whose layout is that of the index's column.
        unsafe {
            let layout = layout(self.index.columns(), column)?;
            (!*self.nulls.add(column)).then(|| Datum::from_raw(*self.values.add(column), layout))
        }
    }
}

/// A new index being built.
pub(crate) struct Build<'c> {
    table: Table<'c>,
    index: Index<'c>,
    info: *mut pg_sys::IndexInfo,
    rows: f64,
    team: Option<Team<'c>>,
}

impl<'c> Build<'c> {
    /// # Safety
    /// What the server passes to `ambuild`.
    pub(super) unsafe fn from_raw(
        table: pg_sys::Relation,
        index: pg_sys::Relation,
        info: *mut pg_sys::IndexInfo,
    ) -> Build<'c> {
        // SAFETY: the caller's.
        unsafe {
            Build {
                table: Table::from_raw(table),
                index: Index::from_raw(index),
                info,
                rows: 0.0,
                team: None,
            }
        }
    }

    /// The index.
    pub(crate) fn index(&self) -> Index<'c> {
        self.index
    }

    /// Launches as many workers as the settings and the size of the table ask for, and as there are to be had; returns
    /// how many processes take part, this one included. Each worker runs the exported function `worker`, which
    /// [`build_worker`](super::parallel_build::build_worker) made.
    pub(crate) fn launch(&mut self, worker: &CStr) -> usize {
        let wanted = parallel_build::planned_workers(self.table, self.index);
        if wanted > 0 {
            // SAFETY: the server's description of the index that it wants built.
            self.team = unsafe { Team::launch(self.table, self.index, self.info, wanted, worker) };
        }
        let launched = self.team.as_ref().map_or(0, Team::launched);
        if wanted > 0 {
            pgrx::debug1!(
                "building index \"{}\" with {launched} parallel workers of {wanted} requested",
                self.index.shown()
            );
        }
        launched + 1
    }

    /// How many threads may take part, this one included: as many as [`Build::launch`] would have processes.
    pub(crate) fn threads(&self) -> usize {
        let others = parallel_build::planned_workers(self.table, self.index);
        pgrx::debug1!(
            "building index \"{}\" with {others} threads beside the backend's own",
            self.index.shown()
        );
        others + 1
    }

    /// Shows every row that the index must have to `each`, except those that workers take.
    pub(crate) fn scan(&mut self, mut each: impl FnMut(&IndexRow<'_>)) {
        let with = self.team.as_ref().map_or(std::ptr::null_mut(), |team| team.scan(self.table));
        // SAFETY: the server's description of the index that it wants built; a scan of its table.
        self.rows = unsafe { scan(self.table, self.index, self.info, true, with, |row, _alive| each(row)) };
    }

    /// Shows the rows of so many blocks that are spread evenly over the table, as the index must have them, each with its block, to `each`.
    /// Returns whether these are all blocks.
    pub(crate) fn sample(&self, blocks: u32, mut each: impl FnMut(&IndexRow<'_>, u32) -> bool) -> bool {
        let all = self.table.blocks();
        let (shown, mut goes_on) = (all.min(blocks), true);
        for number in 0..shown {
            let block = (u64::from(number) * u64::from(all) / u64::from(shown)) as u32;
            // SAFETY: the server's description of the index that it wants built; a block that there is.
            unsafe {
                scan_block(self.table, self.index, self.info, block, |row, _alive| {
                    goes_on &= each(row, block)
                });
            }
            if !goes_on {
                break;
            }
        }
        shown == all
    }

    /// Waits for the workers; an SQL error if one has failed. Returns what their reports say together, and the sorted
    /// runs that they have written.
    pub(crate) fn wait_for_workers(&mut self) -> (u32, Vec<TempFile>) {
        let Some(team) = &self.team else { return (0, Vec::new()) };
        let work = team.wait();
        self.rows += work.rows;
        if work.broken_hot_chain {
            // SAFETY: the server's description, which it reads after the build.
            unsafe { (*self.info).ii_BrokenHotChain = true };
        }
        let runs = work.runs.iter().flat_map(|by| (0..by.runs).map(|run| team.files(by.worker).open(run)));
        (work.facts, runs.collect())
    }

    /// Ends what was begun for the workers. Their files must be closed.
    pub(crate) fn dismiss_workers(&mut self) {
        if let Some(team) = self.team.take() {
            team.end();
        }
    }

    /// How many rows the table has, as [`Build::scan`] found.
    pub(crate) fn rows(&self) -> f64 {
        self.rows
    }
}

/// Shows every row that `snapshot` sees, as an index of the table must have it, to `each`. Nothing is built, and nothing
/// is recorded of broken HOT chains.
pub(crate) fn scan_table(
    table: Table<'_>,
    index: Index<'_>,
    snapshot: Snapshot<'_>,
    mut each: impl FnMut(&IndexRow<'_>),
) {
    if index.table_oid() != table.oid() {
        fail(
            SqlState::ERRCODE_WRONG_OBJECT_TYPE,
            format!("index \"{}\" is not one of table \"{}\"", index.shown(), table.shown()),
            "Report this as a bug of treedb.",
        );
    }
    // SAFETY: an index of this table, and the server's description of it, made to be scanned by a snapshot; a new scan,
    // which ends before the snapshot does.
    unsafe {
        let info = pg_sys::BuildIndexInfo(index.raw());
        (*info).ii_Concurrent = true;
        let with =
            pg_sys::table_beginscan_strat(table.raw(), snapshot.raw(), 0, std::ptr::null_mut(), true, true);
        scan(table, index, info, false, with, |row, _alive| each(row));
    }
}

/// Scans a table for one of its indexes, all of it or what `with`, a parallel scan that others take part in, gets.
///
/// # Safety
/// `info` is the server's description of `index`, which is one of `table`; `with` is null or a scan of it that nobody
/// else uses, and which ends here.
pub(super) unsafe fn scan<F: FnMut(&IndexRow<'_>, bool)>(
    table: Table<'_>,
    index: Index<'_>,
    info: *mut pg_sys::IndexInfo,
    progress: bool,
    with: pg_sys::TableScanDesc,
    mut each: F,
) -> f64 {
    // SAFETY: open relations; the callback gets `each`, which outlives the scan.
    unsafe {
        pg_sys::table_index_build_scan(
            table.raw(),
            index.raw(),
            info,
            true,
            progress,
            Some(collect::<F>),
            (&raw mut each).cast::<c_void>(),
            with,
        )
    }
}

/// Scans a block of a table for one of its indexes.
///
/// # Safety
/// As [`scan`]; the table has the block.
unsafe fn scan_block<F: FnMut(&IndexRow<'_>, bool)>(
    table: Table<'_>,
    index: Index<'_>,
    info: *mut pg_sys::IndexInfo,
    block: u32,
    mut each: F,
) {
    // SAFETY: as in `scan`. Others' scans of the table are not followed, so that it begins where it is to.
    unsafe {
        pg_sys::table_index_build_range_scan(
            table.raw(),
            index.raw(),
            info,
            false,
            false,
            false,
            block,
            1,
            Some(collect::<F>),
            (&raw mut each).cast::<c_void>(),
            std::ptr::null_mut(),
        );
    }
}

/// Called by the server for each row of the table.
unsafe extern "C-unwind" fn collect<F: FnMut(&IndexRow<'_>, bool)>(
    index: pg_sys::Relation,
    row: pg_sys::ItemPointer,
    values: *mut pg_sys::Datum,
    nulls: *mut bool,
    alive: bool,
    state: *mut c_void,
) {
    // SAFETY: the outermost Rust frame below the server's. `state` is the closure of `scan`, which nobody else uses
    // meanwhile; the server passes the index and a value for each of its columns.
    unsafe {
        super::error_frame::guarded(|| {
            let each = &mut *state.cast::<F>();
            each(&IndexRow::from_raw(Index::from_raw(index), values, nulls, *row), alive);
        })
    }
}

/// Reports the phase of a build, for `pg_stat_progress_create_index`.
pub(crate) fn report_phase(phase: i64) {
    progress(pg_sys::PROGRESS_CREATEIDX_SUBPHASE, phase);
}

/// Reports how many rows have been read, which is about how many entries there will be.
pub(crate) fn report_entries(rows: f64) {
    progress(pg_sys::PROGRESS_CREATEIDX_TUPLES_TOTAL, rows as i64);
}

/// Reports how many entries are in the index.
pub(crate) fn report_loaded(entries: u64) {
    progress(pg_sys::PROGRESS_CREATEIDX_TUPLES_DONE, entries as i64);
}

/// Writes a number of this backend's progress entry.
pub(crate) fn progress(number: u32, value: i64) {
    if number < pg_sys::PGSTAT_NUM_PROGRESS_PARAM {
        // SAFETY: writes an element of the backend's own array, if it reports progress at all.
        unsafe { pg_sys::pgstat_progress_update_param(number as i32, value) }
    }
}

/// How much memory a build may use, in bytes.
pub(crate) fn maintenance_memory() -> usize {
    // SAFETY: a setting of this backend.
    let kilobytes = unsafe { pg_sys::maintenance_work_mem };
    usize::try_from(kilobytes).unwrap_or(1024).saturating_mul(1024)
}
