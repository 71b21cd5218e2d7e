//! Scans of a table by several processes, each of which sends what it has made of its rows to the one that leads them.
//!
//! The server launches workers by itself only for its own nodes. What the processes share lies in the segment of a parallel
//! context, under these keys:
//!
//! | key | what |
//! |---|---|
//! | 16 | [`Shared`]: the table, whether to stop; then for each worker how it has ended ([`Outcome`]) |
//! | 17 | the server's description of the shared scan, with the snapshot |
//! | 18 | the job: bytes that the extension's code reads |
//! | 19 | a queue for each worker |
//!
//! beside those of every context ([`super::parallel_segment`]). An error of a worker is raised in the leader, when it
//! takes interrupts or waits; when the leader fails, the server ends the workers.

use std::ffi::{CStr, c_void};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use pgrx::pg_sys;

use super::parallel_segment::{Context, FIRST_OWN, NewContext, run_worker};
use super::relation::{LockMode, OpenTable, Table};
use super::release::may_release;
use super::row_claims::RowClaims;
use super::snapshot::Snapshot;

const KEY_SHARED: u64 = FIRST_OWN;
const KEY_SCAN: u64 = FIRST_OWN + 1;
const KEY_JOB: u64 = FIRST_OWN + 2;
const KEY_QUEUES: u64 = FIRST_OWN + 3;

/// Bytes of a worker's queue.
const QUEUE: usize = 256 * 1024;

/// What all processes know.
#[repr(C)]
struct Shared {
    table: pg_sys::Oid,
    job_size: usize,
    /// Whether the processes share rows by claims.
    by_claims: bool,
    /// Nothing more is wanted.
    stop: AtomicBool,
    /// How many documents they have looked at, as far as they tell.
    examined: AtomicU64,
}

/// How a worker has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Outcome {
    /// It has sent everything.
    Complete = 1,
    /// What it has made does not fit in its memory.
    TooLarge = 2,
}

/// Bytes of the shared state before the outcomes.
const OUTCOMES: usize = size_of::<Shared>().next_multiple_of(align_of::<AtomicU32>());

/// Where a worker tells how it has ended.
///
/// # Safety
/// `shared` was made for more than `worker` workers, and stays for `'c`.
unsafe fn outcome_of<'c>(shared: *mut Shared, worker: usize) -> &'c AtomicU32 {
    // SAFETY: the caller's; zeros at first, which only atomic operations change.
    unsafe { &*shared.cast::<u8>().add(OUTCOMES).cast::<AtomicU32>().add(worker) }
}

/// How many workers the planner gives to a scan of a table, by its size, its options and the settings; 0 if other processes
/// cannot read it, or if this is one of several.
pub(super) fn most_workers(table: Table<'_>) -> usize {
    workers_for(table, f64::from(table.blocks()))
}

/// The same of a scan that reads so many of its blocks.
pub(super) fn workers_for(table: Table<'_>, blocks: f64) -> usize {
    // SAFETY: settings and the state of the backend; an open table, whose options are those of a plain table.
    unsafe {
        let most = pg_sys::max_parallel_workers_per_gather;
        if most <= 0
            || table.is_temporary()
            || pg_sys::IsInParallelMode()
            || pg_sys::ParallelWorkerNumber >= 0
        {
            return 0;
        }
        let options = (*table.raw()).rd_options.cast::<pg_sys::StdRdOptions>().as_ref();
        let mut planned = pg_sys::RelOptInfo {
            reloptkind: pg_sys::RelOptKind::RELOPT_BASEREL,
            rel_parallel_workers: options.map_or(-1, |options| options.parallel_workers),
            ..pg_sys::RelOptInfo::default()
        };
        let workers = pg_sys::compute_parallel_worker(&raw mut planned, blocks, -1.0, most);
        usize::try_from(workers).unwrap_or(0)
    }
}

/// Among how many processes the planner takes the work to be divided that workers and their leader do.
pub(super) fn divisor(workers: usize) -> f64 {
    // What the planner takes the part of the leader to be, which receives what the others send.
    const LEADER_LESS: f64 = 0.3;
    let count = workers as f64;
    let leader = if leader_takes_part() { (1.0 - LEADER_LESS * count).max(0.0) } else { 0.0 };
    (count + leader).max(1.0)
}

/// How many workers a scan of a table should have, if each row costs `row_cost` in the planner's units; 0 if this process alone
/// is to do it.
pub(crate) fn planned_workers(table: Table<'_>, rows: f64, row_cost: f64) -> usize {
    let workers = most_workers(table);
    let saved = rows * row_cost * (1.0 - 1.0 / divisor(workers));
    // SAFETY: a setting.
    if workers > 0 && saved > unsafe { pg_sys::parallel_setup_cost } { workers } else { 0 }
}

/// Whether the leader of a scan scans a part of the table, as the settings say.
pub(crate) fn leader_takes_part() -> bool {
    // SAFETY: a setting.
    unsafe { pg_sys::parallel_leader_participation }
}

/// The context, ended when the last who uses its segment goes away.
struct Held(Context);

impl Drop for Held {
    fn drop(&mut self) {
        if may_release() {
            self.0.end();
        }
    }
}

/// How the processes of a plan of the server's share what they read of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Division {
    /// They share one scan: each reads blocks that no other one has read.
    Scan,
    /// Each finds all rows, by indexes, and returns those of the blocks that it claims, of which the table has so many.
    Claims(u32),
}

impl Division {
    /// By claims on the blocks that a table has now.
    pub(crate) fn by_claims(table: &OpenTable) -> Division {
        Division::Claims(table.get().blocks())
    }
}

/// What several processes have looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Examined {
    pub(crate) keys: u64,
    pub(crate) documents: u64,
}

/// A scan that several processes share, as one of them sees it.
#[derive(Clone)]
pub(crate) struct SharedScan {
    /// Nothing that may be used if they share rows by claims.
    scan: pg_sys::ParallelTableScanDesc,
    claims: Option<RowClaims>,
    shared: *mut Shared,
    /// What keeps the segment, in the leader of a team. A worker ends with its segment.
    _held: Option<Rc<Held>>,
}

/// Where the server's description of a scan begins, or the claims, behind the shared state, in the memory that the processes of a plan of the
/// server's get from its executor.
const DESCRIPTION: usize = size_of::<Shared>().next_multiple_of(pg_sys::MAXIMUM_ALIGNOF as usize);

impl SharedScan {
    /// How many bytes it takes to say that there is no scan.
    pub(super) const LEAST: usize = DESCRIPTION;

    /// How many bytes a scan takes.
    pub(super) fn size(table: &OpenTable, division: Division, snapshot: Snapshot<'_>) -> usize {
        let size = match division {
            // SAFETY: an open table and a snapshot.
            Division::Scan => unsafe {
                pg_sys::table_parallelscan_estimate(table.get().raw(), snapshot.raw())
            },
            Division::Claims(blocks) => RowClaims::size(blocks),
        };
        DESCRIPTION + size
    }

    /// Makes a scan of a table, divided so, or of none.
    ///
    /// # Safety
    /// `place` has as many bytes as [`SharedScan::size`] said, aligned as the server aligns memory, which nobody else uses; they
    /// stay until the result is dropped.
    pub(super) unsafe fn make(
        place: *mut c_void,
        table: Option<&(OpenTable, Division)>,
        snapshot: Snapshot<'_>,
    ) -> SharedScan {
        // SAFETY: the caller's.
        unsafe {
            let shared = place.cast::<Shared>();
            let oid = table.map_or(pg_sys::InvalidOid, |(table, _)| table.get().oid());
            shared.write(Shared {
                table: oid,
                job_size: 0,
                by_claims: matches!(table, Some((_, Division::Claims(_)))),
                stop: AtomicBool::new(false),
                examined: AtomicU64::new(0),
            });
            if let Some((_, Division::Claims(blocks))) = table {
                RowClaims::make(place.cast::<u8>().add(DESCRIPTION).cast(), *blocks);
            }
            let made = SharedScan::in_place(place);
            if let Some((table, Division::Scan)) = table {
                pg_sys::table_parallelscan_initialize(table.get().raw(), made.scan, snapshot.raw());
            }
            made
        }
    }

    /// The scan that was made at a place; `None` if it is of no table.
    ///
    /// # Safety
    /// [`SharedScan::make`] was called with it by another process, and it stays until the result is dropped.
    pub(super) unsafe fn at(place: *mut c_void) -> Option<SharedScan> {
        // SAFETY: the caller's.
        let made = unsafe { SharedScan::in_place(place) };
        (made.table() != pg_sys::InvalidOid).then_some(made)
    }

    /// # Safety
    /// As [`SharedScan::at`]; claims have been made, if there are any.
    unsafe fn in_place(place: *mut c_void) -> SharedScan {
        // SAFETY: the caller's.
        unsafe {
            let shared = place.cast::<Shared>();
            let behind = place.cast::<u8>().add(DESCRIPTION);
            let claims = (*shared).by_claims.then(|| RowClaims::at(behind.cast()));
            SharedScan { scan: behind.cast(), claims, shared, _held: None }
        }
    }

    /// Makes it begin again.
    ///
    /// # Safety
    /// The table is that of the scan, which no other process takes part in now.
    pub(super) unsafe fn restart(&self, table: &OpenTable) {
        // SAFETY: the caller's.
        unsafe {
            match self.claims {
                Some(claims) => claims.clear(),
                None => pg_sys::table_parallelscan_reinitialize(table.get().raw(), self.scan),
            }
        }
    }

    /// What says which rows are this process's, if they are shared by claims.
    pub(crate) fn claims(&self) -> Option<RowClaims> {
        self.claims
    }

    /// Opens the table, which the leader has locked.
    pub(crate) fn open_table(&self) -> OpenTable {
        OpenTable::open(self.table(), LockMode::AccessShare)
    }

    /// Notes that this process has looked at more. Entries of indexes count where rows are shared by claims.
    pub(crate) fn add_examined(&self, more: Examined) {
        if let Some(claims) = self.claims {
            claims.add_keys(more.keys);
        }
        // SAFETY: in the segment, which stays.
        unsafe { (*self.shared).examined.fetch_add(more.documents, Ordering::Relaxed) };
    }

    /// What all processes have looked at.
    pub(crate) fn examined(&self) -> Examined {
        // SAFETY: in the segment, which stays.
        let documents = unsafe { (*self.shared).examined.load(Ordering::Relaxed) };
        Examined { keys: self.claims.map_or(0, |claims| claims.keys()), documents }
    }

    /// Begins this process's part of a scan that is not shared by claims.
    ///
    /// # Safety
    /// `table` is the table that the scan is of.
    pub(super) unsafe fn begin(&self, table: Table<'_>) -> pg_sys::TableScanDesc {
        // SAFETY: the description was made for this table.
        unsafe { pg_sys::table_beginscan_parallel(table.raw(), self.scan) }
    }

    /// The table that the scan is of.
    pub(super) fn table(&self) -> pg_sys::Oid {
        // SAFETY: in the segment, which stays; nobody changes it.
        unsafe { (*self.shared).table }
    }

    /// Whether nothing more is wanted.
    pub(super) fn is_stopped(&self) -> bool {
        // SAFETY: in the segment, which stays.
        unsafe { (*self.shared).stop.load(Ordering::Relaxed) }
    }
}

/// The workers of a scan, as their leader sees them.
pub(crate) struct Team {
    held: Rc<Held>,
    shared: *mut Shared,
    scan: pg_sys::ParallelTableScanDesc,
    queues: Vec<*mut pg_sys::shm_mq_handle>,
}

impl Team {
    /// Launches up to `wanted` workers, which run the function of this name, made by [`scan_worker`]. `None` if there are
    /// none to be had.
    pub(crate) fn launch(
        table: &OpenTable,
        snapshot: Snapshot<'_>,
        wanted: usize,
        worker: &CStr,
        job: &[u8],
    ) -> Option<Team> {
        // SAFETY: each chunk is allocated with the size that was reserved for it, and filled before a worker starts.
        unsafe {
            let raw = table.get().raw();
            let mut context = NewContext::new(wanted, worker);
            let most = context.most_workers();
            let shared_size = OUTCOMES + most * size_of::<AtomicU32>();
            let scan_size = pg_sys::table_parallelscan_estimate(raw, snapshot.raw());
            for size in [shared_size, scan_size, job.len(), most * QUEUE] {
                context.reserve(size);
            }
            let context = context.with_segment()?;
            let shared = context.put(KEY_SHARED, shared_size).cast::<Shared>();
            ((*shared).table, (*shared).job_size) = (table.get().oid(), job.len());
            let scan: pg_sys::ParallelTableScanDesc = context.put(KEY_SCAN, scan_size).cast();
            pg_sys::table_parallelscan_initialize(raw, scan, snapshot.raw());
            let place = context.put(KEY_JOB, job.len()).cast::<u8>();
            std::ptr::copy_nonoverlapping(job.as_ptr(), place, job.len());
            let queues = context.put(KEY_QUEUES, most * QUEUE).cast::<u8>();
            let queues: Vec<*mut pg_sys::shm_mq> = (0..most)
                .map(|worker| {
                    let queue = pg_sys::shm_mq_create(queues.add(worker * QUEUE).cast(), QUEUE);
                    pg_sys::shm_mq_set_receiver(queue, pg_sys::MyProc);
                    queue
                })
                .collect();
            let mut team = Team { held: Rc::new(Held(context)), shared, scan, queues: Vec::new() };
            if !team.held.0.launch() {
                return None;
            }
            let context = team.held.0.raw();
            for (worker, queue) in queues.into_iter().take(team.launched()).enumerate() {
                // The handle of the worker tells when it ends without having sent anything.
                let process = (*(*context).worker.add(worker)).bgwhandle;
                team.queues.push(pg_sys::shm_mq_attach(queue, (*context).seg, process));
            }
            Some(team)
        }
    }

    /// How many workers were launched.
    pub(crate) fn launched(&self) -> usize {
        self.held.0.launched()
    }

    /// The leader's part of the scan.
    pub(crate) fn scan(&self) -> SharedScan {
        SharedScan { scan: self.scan, claims: None, shared: self.shared, _held: Some(Rc::clone(&self.held)) }
    }

    /// Passes the messages of the workers to `each` until they have ended, or `each` says false. True if all of them have
    /// sent everything.
    pub(crate) fn receive(&mut self, each: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        for (worker, queue) in self.queues.iter().enumerate() {
            loop {
                let (mut size, mut data) = (0, std::ptr::null_mut::<c_void>());
                // SAFETY: our own handle. A message stays until the next one is received.
                let message = unsafe {
                    let got = pg_sys::shm_mq_receive(*queue, &raw mut size, &raw mut data, false);
                    if got != pg_sys::shm_mq_result::SHM_MQ_SUCCESS {
                        break;
                    }
                    std::slice::from_raw_parts(data.cast::<u8>(), size)
                };
                if !each(message) {
                    return false;
                }
            }
            // SAFETY: in the segment, which stays as long as the context.
            let outcome = unsafe { outcome_of(self.shared, worker) }.load(Ordering::Acquire);
            if outcome == Outcome::TooLarge as u32 {
                return false;
            }
            if outcome != Outcome::Complete as u32 {
                // It has failed: waiting for it raises its error.
                self.held.0.wait();
                return false;
            }
        }
        true
    }

    /// Ends the scan: workers that still run stop. An SQL error if one has failed.
    pub(crate) fn end(self) {
        // SAFETY: in the segment; our own handles, of which nothing more is received. A worker that waits for room in its
        // queue wakes up.
        unsafe {
            (*self.shared).stop.store(true, Ordering::Relaxed);
            self.queues.iter().for_each(|queue| pg_sys::shm_mq_detach(*queue));
        }
        self.held.0.wait();
    }
}

/// A worker's part in a scan.
pub(crate) struct Part {
    table: OpenTable,
    scan: SharedScan,
    job: &'static [u8],
    queue: *mut pg_sys::shm_mq_handle,
}

impl Part {
    /// What is to be done.
    pub(crate) fn job(&self) -> &'static [u8] {
        self.job
    }

    /// The table.
    pub(crate) fn table(&self) -> &OpenTable {
        &self.table
    }

    /// This worker's part of the scan.
    pub(crate) fn scan(&self) -> SharedScan {
        self.scan.clone()
    }

    /// Sends a message; false if the leader wants no more.
    pub(crate) fn send(&self, message: &[u8]) -> bool {
        // SAFETY: our own handle; the message is copied.
        let sent =
            unsafe { pg_sys::shm_mq_send(self.queue, message.len(), message.as_ptr().cast(), false, false) };
        sent == pg_sys::shm_mq_result::SHM_MQ_SUCCESS
    }
}

/// Exports the function that a worker of a scan runs: `$work`, which takes a [`Part`] and returns the [`Outcome`].
macro_rules! scan_worker {
    ($name:ident, $work:path) => {
        const _: () = {
            #[allow(unsafe_code)]
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name(
                segment: *mut pgrx::pg_sys::dsm_segment,
                contents: *mut pgrx::pg_sys::shm_toc,
            ) {
                // SAFETY: called by the server in a worker of a scan that `Team::launch` has begun.
                unsafe { $crate::shim::scan_team::work($work, segment, contents) }
            }
        };
    };
}
pub(crate) use scan_worker;

/// What a worker does.
///
/// # Safety
/// Called by the server in a worker that [`Team::launch`] has launched, with its segment.
pub(crate) unsafe fn work(
    part: fn(&Part) -> Outcome,
    segment: *mut pg_sys::dsm_segment,
    contents: *mut pg_sys::shm_toc,
) {
    // SAFETY: the outermost Rust frame below the server's. What the leader put into the segment stays there as long as
    // the worker is attached to it, which is until it ends. The leader has locked the table.
    unsafe {
        super::error_frame::guarded(|| {
            run_worker(contents, |worker| {
                let chunk = |key: u64| pg_sys::shm_toc_lookup(contents, key, false);
                let shared = chunk(KEY_SHARED).cast::<Shared>();
                let queue: *mut pg_sys::shm_mq = chunk(KEY_QUEUES).cast::<u8>().add(worker * QUEUE).cast();
                pg_sys::shm_mq_set_sender(queue, pg_sys::MyProc);
                let queue = pg_sys::shm_mq_attach(queue, segment, std::ptr::null_mut());
                let this = Part {
                    table: OpenTable::open((*shared).table, LockMode::AccessShare),
                    scan: SharedScan { scan: chunk(KEY_SCAN).cast(), claims: None, shared, _held: None },
                    job: std::slice::from_raw_parts(chunk(KEY_JOB).cast::<u8>(), (*shared).job_size),
                    queue,
                };
                let outcome = part(&this);
                // Before the leader sees that nothing more comes.
                outcome_of(shared, worker).store(outcome as u32, Ordering::Release);
                pg_sys::shm_mq_detach(queue);
            });
        })
    }
}
