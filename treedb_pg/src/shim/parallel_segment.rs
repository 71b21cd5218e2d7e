//! What parallel contexts of this extension have in common: chunks of the segment that the processes share, the text of
//! the query, and what each worker used of buffers and WAL.
//!
//! Keys below [`FIRST_OWN`] are those of this module; others are the user's.

use std::ffi::{CStr, c_char, c_void};

use pgrx::pg_sys;

const KEY_QUERY: u64 = 1;
const KEY_BUFFERS: u64 = 2;
const KEY_WAL: u64 = 3;
/// The first key that users of this module may give to their chunks.
pub(super) const FIRST_OWN: u64 = 16;

/// A parallel context that has been made, whose segment has not.
pub(super) struct NewContext {
    context: *mut pg_sys::ParallelContext,
    query: *const c_char,
    query_size: usize,
}

/// A parallel context with its segment, in the leader.
pub(super) struct Context {
    raw: *mut pg_sys::ParallelContext,
    buffers: *mut pg_sys::BufferUsage,
    wal: *mut pg_sys::WalUsage,
}

impl NewContext {
    /// Enters parallel mode and makes a context of up to `wanted` workers, which run the exported function `worker`.
    ///
    /// # Safety
    /// The function is one that runs in a worker with the chunks that the caller is going to put into the segment.
    pub(super) unsafe fn new(wanted: usize, worker: &CStr) -> NewContext {
        // SAFETY: the library of this name is this one. The text of the query lives as long as the query.
        unsafe {
            pg_sys::EnterParallelMode();
            let workers = i32::try_from(wanted).unwrap_or(i32::MAX);
            let context =
                pg_sys::CreateParallelContext(c"$libdir/treedb_pg".as_ptr(), worker.as_ptr(), workers);
            let query = pg_sys::debug_query_string;
            let query_size = if query.is_null() { 0 } else { CStr::from_ptr(query).count_bytes() + 1 };
            let mut new = NewContext { context, query, query_size };
            let most = new.most_workers();
            new.reserve(most * size_of::<pg_sys::BufferUsage>());
            new.reserve(most * size_of::<pg_sys::WalUsage>());
            if query_size > 0 {
                new.reserve(query_size);
            }
            new
        }
    }

    /// How many workers there can be.
    pub(super) fn most_workers(&self) -> usize {
        // SAFETY: our own context.
        usize::try_from(unsafe { (*self.context).nworkers }).unwrap_or(0)
    }

    /// Adds room for a chunk, and its key.
    pub(super) fn reserve(&mut self, bytes: usize) {
        // What the server's macro does; chunks are aligned to this.
        const ALIGN: usize = pg_sys::ALIGNOF_BUFFER as usize;
        // SAFETY: our own context, whose segment has not been made yet.
        let estimator = unsafe { &mut (*self.context).estimator };
        estimator.space_for_chunks += bytes.next_multiple_of(ALIGN);
        estimator.number_of_keys += 1;
    }

    /// Makes the segment. `None` without shared memory: then there are no workers, and the context is gone.
    pub(super) fn with_segment(self) -> Option<Context> {
        let most = self.most_workers();
        // SAFETY: our own context; each chunk is allocated with the size that was reserved for it.
        unsafe {
            pg_sys::InitializeParallelDSM(self.context);
            let mut context =
                Context { raw: self.context, buffers: std::ptr::null_mut(), wal: std::ptr::null_mut() };
            if (*context.raw).seg.is_null() {
                context.end();
                return None;
            }
            context.buffers = context.put(KEY_BUFFERS, most * size_of::<pg_sys::BufferUsage>()).cast();
            context.wal = context.put(KEY_WAL, most * size_of::<pg_sys::WalUsage>()).cast();
            if self.query_size > 0 {
                let text = context.put(KEY_QUERY, self.query_size).cast::<c_char>();
                std::ptr::copy_nonoverlapping(self.query, text, self.query_size);
            }
            Some(context)
        }
    }
}

impl Context {
    /// The server's form.
    pub(super) fn raw(&self) -> *mut pg_sys::ParallelContext {
        self.raw
    }

    /// A chunk of zeros under a key; room for it has been reserved.
    pub(super) fn put(&self, key: u64, size: usize) -> *mut c_void {
        // SAFETY: our own context, whose segment exists; the server refuses chunks for which there is no room.
        unsafe {
            let place = pg_sys::shm_toc_allocate((*self.raw).toc, size);
            pg_sys::shm_toc_insert((*self.raw).toc, key, place);
            std::ptr::write_bytes(place.cast::<u8>(), 0, size);
            place
        }
    }

    /// Launches the workers; false if there are none to be had.
    pub(super) fn launch(&self) -> bool {
        // SAFETY: our own context.
        unsafe { pg_sys::LaunchParallelWorkers(self.raw) };
        self.launched() > 0
    }

    /// How many workers were launched.
    pub(super) fn launched(&self) -> usize {
        // SAFETY: our own context.
        usize::try_from(unsafe { (*self.raw).nworkers_launched }).unwrap_or(0)
    }

    /// Waits until all workers have ended, and adds what they used to what this process did; an SQL error if one has failed.
    pub(super) fn wait(&self) {
        // SAFETY: our own context. A worker that has ended has written what it used.
        unsafe {
            pg_sys::WaitForParallelWorkersToFinish(self.raw);
            for worker in 0..self.launched() {
                pg_sys::InstrAccumParallelQuery(self.buffers.add(worker), self.wal.add(worker));
            }
        }
    }

    /// Ends workers that still run, removes the segment and leaves parallel mode. After an error the server does that.
    pub(super) fn end(&mut self) {
        // SAFETY: our own context, ended once.
        unsafe {
            pg_sys::DestroyParallelContext(self.raw);
            pg_sys::ExitParallelMode();
        }
    }
}

/// What a worker does: `work`, with the number of the worker, between the beginning and the end that all have in common.
///
/// # Safety
/// The process is a worker of a [`Context`], and `contents` are those of its segment.
pub(super) unsafe fn run_worker(contents: *mut pg_sys::shm_toc, work: impl FnOnce(usize)) {
    // SAFETY: the caller's; the leader has put these chunks there.
    unsafe {
        let query: *const c_char = pg_sys::shm_toc_lookup(contents, KEY_QUERY, true).cast();
        pg_sys::debug_query_string = query;
        pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, query);
        pg_sys::InstrStartParallelQuery();
        let worker = usize::try_from(pg_sys::ParallelWorkerNumber).unwrap_or(0);
        work(worker);
        let buffers = pg_sys::shm_toc_lookup(contents, KEY_BUFFERS, false).cast::<pg_sys::BufferUsage>();
        let wal = pg_sys::shm_toc_lookup(contents, KEY_WAL, false).cast::<pg_sys::WalUsage>();
        pg_sys::InstrEndParallelQuery(buffers.add(worker), wal.add(worker));
    }
}
