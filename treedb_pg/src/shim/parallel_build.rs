//! Parallel builds of indexes: a leader and its workers read the table together, each sorts what it has read into
//! temporary files that the leader merges.
//!
//! The server launches workers by itself only for its own btree; an extension makes a parallel context of its own. What
//! the processes share lies in the context's segment, under these keys:
//!
//! | key | what |
//! |---|---|
//! | 16 | [`Shared`]: what is built, and the set of shared files; then a [`Report`] for each worker |
//! | 17 | the server's description of the shared scan of the table |
//!
//! beside those of every context ([`super::parallel_segment`]).
//!
//! An error of a worker is raised in the leader, when it takes interrupts. When the leader fails, the server ends the
//! workers, and removes the files with the segment.

use std::ffi::CStr;
use std::marker::PhantomData;

use pgrx::pg_sys;

use super::index_method::IndexMethod;
use super::parallel_segment::{Context, FIRST_OWN, NewContext, run_worker};
use super::relation::{Index, LockMode, OpenIndex, OpenTable, Table};
use super::temp_file::SharedFiles;

const KEY_SHARED: u64 = FIRST_OWN;
const KEY_SCAN: u64 = FIRST_OWN + 1;

/// What is built, by whom.
#[repr(C)]
struct Shared {
    table: pg_sys::Oid,
    index: pg_sys::Oid,
    concurrent: bool,
    /// Processes that memory is shared out to.
    participants: u32,
    files: pg_sys::SharedFileSet,
}

/// What a worker has done, written by it before it ends and read by the leader afterwards.
#[repr(C)]
#[derive(Clone, Copy)]
struct Report {
    rows: f64,
    runs: u32,
    facts: u32,
    broken_hot_chain: bool,
}

/// Bytes of the shared state before the reports.
const REPORTS: usize = size_of::<Shared>().next_multiple_of(align_of::<Report>());

/// The place of a worker's report.
///
/// # Safety
/// `shared` was made for more than `worker` workers.
unsafe fn report_of(shared: *mut Shared, worker: usize) -> *mut Report {
    // SAFETY: the caller's.
    unsafe { shared.cast::<u8>().add(REPORTS).cast::<Report>().add(worker) }
}

/// The sorted runs of a worker.
pub(crate) struct WorkerRuns {
    /// The worker's number.
    pub(crate) worker: u32,
    /// How many runs it has written, numbered from 0.
    pub(crate) runs: u32,
}

/// The workers of a build, as their leader sees them.
pub(super) struct Team<'c> {
    context: Context,
    shared: *mut Shared,
    scan: pg_sys::ParallelTableScanDesc,
    /// Registered for a concurrent build.
    snapshot: pg_sys::Snapshot,
    lifetime: PhantomData<&'c ()>,
}

/// What all workers have done together.
#[derive(Default)]
pub(super) struct Work {
    pub(super) rows: f64,
    pub(super) facts: u32,
    pub(super) broken_hot_chain: bool,
    pub(super) runs: Vec<WorkerRuns>,
}

/// How many workers a build should have, by the settings and the size of the table.
pub(super) fn planned_workers(table: Table<'_>, index: Index<'_>) -> usize {
    // SAFETY: both are open and locked, as the planner wants them.
    let workers = unsafe { pg_sys::plan_create_index_workers(table.oid(), index.oid()) };
    usize::try_from(workers).unwrap_or(0)
}

impl<'c> Team<'c> {
    /// Launches up to `wanted` workers, which run the exported function `worker`. `None` if there are none to be had:
    /// the build is then done by this process alone.
    ///
    /// # Safety
    /// `info` is the server's description of `index`, which is one of `table`; `worker` is a function made by
    /// [`build_worker`].
    pub(super) unsafe fn launch(
        table: Table<'c>,
        index: Index<'c>,
        info: *const pg_sys::IndexInfo,
        wanted: usize,
        worker: &CStr,
    ) -> Option<Team<'c>> {
        // SAFETY: the caller's. The context lives until `end` or the end of the transaction; each chunk is allocated with the
        // size that was reserved for it, and filled before a worker starts.
        unsafe {
            let mut context = NewContext::new(wanted, worker);
            let concurrent = (*info).ii_Concurrent;
            let snapshot = if concurrent {
                pg_sys::RegisterSnapshot(pg_sys::GetTransactionSnapshot())
            } else {
                &raw mut pg_sys::SnapshotAnyData
            };
            let registered = if concurrent { snapshot } else { std::ptr::null_mut() };
            let most = context.most_workers();
            let shared_size = REPORTS + most * size_of::<Report>();
            let scan_size = pg_sys::table_parallelscan_estimate(table.raw(), snapshot);
            context.reserve(shared_size);
            context.reserve(scan_size);
            let Some(context) = context.with_segment() else {
                if concurrent {
                    pg_sys::UnregisterSnapshot(snapshot);
                }
                return None;
            };
            let shared = context.put(KEY_SHARED, shared_size).cast::<Shared>();
            ((*shared).table, (*shared).index, (*shared).concurrent) = (table.oid(), index.oid(), concurrent);
            (*shared).participants = most as u32 + 1;
            pg_sys::SharedFileSetInit(&raw mut (*shared).files, (*context.raw()).seg);
            let scan: pg_sys::ParallelTableScanDesc = context.put(KEY_SCAN, scan_size).cast();
            pg_sys::table_parallelscan_initialize(table.raw(), scan, snapshot);
            let team = Team { context, shared, scan, snapshot: registered, lifetime: PhantomData };
            if !team.context.launch() {
                team.end();
                return None;
            }
            Some(team)
        }
    }

    /// How many workers were launched.
    pub(super) fn launched(&self) -> usize {
        self.context.launched()
    }

    /// The scan of the table that all take part in; the server ends it.
    pub(super) fn scan(&self, table: Table<'_>) -> pg_sys::TableScanDesc {
        // SAFETY: the description was made for this table.
        unsafe { pg_sys::table_beginscan_parallel(table.raw(), self.scan) }
    }

    /// Waits until all workers have ended; an SQL error if one has failed.
    pub(super) fn wait(&self) -> Work {
        let mut work = Work::default();
        self.context.wait();
        for worker in 0..self.launched() {
            // SAFETY: the segment stays until `end`. A worker that has ended has written its report.
            let report = unsafe { report_of(self.shared, worker).read() };
            work.rows += report.rows;
            work.facts |= report.facts;
            work.broken_hot_chain |= report.broken_hot_chain;
            work.runs.push(WorkerRuns { worker: worker as u32, runs: report.runs });
        }
        work
    }

    /// The files of the workers.
    pub(super) fn files(&self, worker: u32) -> SharedFiles<'c> {
        // SAFETY: the segment stays until `end`.
        unsafe { SharedFiles::from_raw(&raw mut (*self.shared).files, worker) }
    }

    /// Removes what the processes shared, the files among it. After an error the server does that.
    pub(super) fn end(mut self) {
        if !self.snapshot.is_null() {
            // SAFETY: registered by `launch`, given back once.
            unsafe { pg_sys::UnregisterSnapshot(self.snapshot) };
        }
        self.context.end();
    }
}

/// A worker's part in a build.
pub(crate) struct Part<'c> {
    table: Table<'c>,
    index: Index<'c>,
    info: *mut pg_sys::IndexInfo,
    scan: pg_sys::ParallelTableScanDesc,
    shared: *mut Shared,
    worker: u32,
    rows: f64,
}

impl<'c> Part<'c> {
    /// The index.
    pub(crate) fn index(&self) -> Index<'c> {
        self.index
    }

    /// How many processes take part in the build.
    pub(crate) fn participants(&self) -> usize {
        // SAFETY: written before the worker was started.
        unsafe { (*self.shared).participants as usize }
    }

    /// Shows every row that falls to this worker to `each`.
    pub(crate) fn scan(&mut self, mut each: impl FnMut(&super::index_build::IndexRow<'_>)) {
        // SAFETY: the server's description of the index; the scan was described by the leader, for this table.
        self.rows = unsafe {
            let scan = pg_sys::table_beginscan_parallel(self.table.raw(), self.scan);
            super::index_build::scan(self.table, self.index, self.info, false, scan, |row, _alive| each(row))
        };
    }

    /// Where this worker puts its sorted runs.
    pub(crate) fn files(&self) -> SharedFiles<'c> {
        // SAFETY: attached, so the files stay as long as the worker does.
        unsafe { SharedFiles::from_raw(&raw mut (*self.shared).files, self.worker) }
    }

    /// Tells the leader what was done.
    pub(crate) fn report(&mut self, facts: u32, runs: u32) {
        // SAFETY: a place of this worker's own, which the leader reads when the worker has ended.
        unsafe {
            let broken_hot_chain = (*self.info).ii_BrokenHotChain;
            report_of(self.shared, self.worker as usize).write(Report {
                rows: self.rows,
                runs,
                facts,
                broken_hot_chain,
            });
        }
    }
}

/// Exports the function that a worker of a build of access method `$method` runs.
macro_rules! build_worker {
    ($name:ident, $method:ty) => {
        const _: () = {
            #[allow(unsafe_code)]
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name(
                segment: *mut pgrx::pg_sys::dsm_segment,
                contents: *mut pgrx::pg_sys::shm_toc,
            ) {
                // SAFETY: called by the server in a worker of a build that `Team::launch` has begun.
                unsafe { $crate::shim::parallel_build::work::<$method>(segment, contents) }
            }
        };
    };
}
pub(crate) use build_worker;

/// What a worker does.
///
/// # Safety
/// Called by the server in a worker that [`Team::launch`] has launched, with its segment.
pub(crate) unsafe fn work<M: IndexMethod>(segment: *mut pg_sys::dsm_segment, contents: *mut pg_sys::shm_toc) {
    // SAFETY: the outermost Rust frame below the server's. What the leader put into the segment stays there as long as
    // the worker is attached to it. The leader holds the same locks, which do not conflict within their group.
    unsafe {
        super::error_frame::guarded(|| {
            let shared = pg_sys::shm_toc_lookup(contents, KEY_SHARED, false).cast::<Shared>();
            let (table_lock, index_lock) = if (*shared).concurrent {
                (LockMode::ShareUpdateExclusive, LockMode::RowExclusive)
            } else {
                (LockMode::Share, LockMode::AccessExclusive)
            };
            let table = OpenTable::open((*shared).table, table_lock);
            let index = OpenIndex::open((*shared).index, index_lock);
            let info = pg_sys::BuildIndexInfo(index.get().raw());
            (*info).ii_Concurrent = (*shared).concurrent;
            pg_sys::SharedFileSetAttach(&raw mut (*shared).files, segment);
            run_worker(contents, |worker| {
                M::build_part(&mut Part {
                    table: table.get(),
                    index: index.get(),
                    info,
                    scan: pg_sys::shm_toc_lookup(contents, KEY_SCAN, false).cast(),
                    shared,
                    worker: worker as u32,
                    rows: 0.0,
                });
            });
        })
    }
}
