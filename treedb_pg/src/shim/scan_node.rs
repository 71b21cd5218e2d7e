//! The executor's nodes of custom scans: what a node does, as a trait, and the plan state and callbacks that the server
//! calls.
//!
//! What a node has open is dropped when the executor ends. After an error the executor does not end: then it goes away
//! with the memory of the query, and the server has released what it had open.

use std::ffi::{CStr, CString, c_void};
use std::marker::PhantomData;

use pgrx::{check_for_interrupts, pg_sys};

use super::release::Abandoned;
use super::streamed::Explanation;
use super::unguarded;

/// A node that has begun.
///
/// # Safety
/// Each unsafe function is called by the callbacks here, with a plan state of this node, which nobody else uses until the
/// function returns.
pub(super) trait ScanNode: Sized + 'static {
    /// What EXPLAIN calls the plan's node.
    const NAME: &'static CStr;

    /// Begins the node; the current memory context is that of the query, where expressions are prepared too.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn begin(node: *mut pg_sys::CustomScanState) -> Self;

    /// Sets the conditions that the server evaluates on the next row; unless it does, they are those of the plan.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn choose_conditions(&mut self, _node: *mut pg_sys::CustomScanState) {}

    /// Puts the next row into the scan's slot, which is clear, and stays so if there are no more. The row before this one
    /// is not used any more.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn fetch(&mut self, node: *mut pg_sys::CustomScanState, slot: *mut pg_sys::TupleTableSlot);

    /// Called in place of [`ScanNode::fetch`] when a row of this or of another table is looked at again because it was
    /// changed meanwhile; false if there is no row.
    ///
    /// # Safety
    /// See the trait; `slot` is the scan's.
    unsafe fn recheck(scan: *mut pg_sys::ScanState, slot: *mut pg_sys::TupleTableSlot) -> bool;

    /// Begins again with the next row; the scan's slot is clear.
    fn rescan(&mut self);

    /// How many bytes of memory the processes of a parallel plan share of this node. Called in the leader.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn shared_size(&mut self, node: *mut pg_sys::CustomScanState) -> usize;

    /// Fills that memory, and takes part.
    ///
    /// # Safety
    /// See the trait; `place` has that many bytes, aligned as the server aligns memory, and stays until
    /// [`ScanNode::leave_shared`].
    unsafe fn make_shared(&mut self, node: *mut pg_sys::CustomScanState, place: *mut c_void);

    /// Makes what is shared begin again: there are no workers now.
    ///
    /// # Safety
    /// See the trait; `place` is that of [`ScanNode::make_shared`].
    unsafe fn restart_shared(&mut self, place: *mut c_void);

    /// Takes part, in a worker.
    ///
    /// # Safety
    /// See the trait; the leader has filled the memory at `place`, which stays until the worker ends.
    unsafe fn join_shared(&mut self, place: *mut c_void);

    /// The memory goes away. No more rows are asked for, unless it is made again.
    fn leave_shared(&mut self);

    /// Shows the node in EXPLAIN: `running` if it has been executed. `sql` is the text of an expression of the plan.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn explain(
        running: Option<&Self>,
        node: *mut pg_sys::CustomScanState,
        sql: &dyn Fn(*mut pg_sys::Node) -> Option<CString>,
        shown: &mut Explanation<'_>,
    );
}

/// What plans and plan states of `N` are executed by.
pub(super) struct NodeMethods<N>(PhantomData<N>);

impl<N: ScanNode> NodeMethods<N> {
    /// How a plan becomes a plan state.
    pub(super) const SCAN: &'static pg_sys::CustomScanMethods = &pg_sys::CustomScanMethods {
        CustomName: N::NAME.as_ptr(),
        CreateCustomScanState: Some(create_state::<N>),
    };

    const EXECUTION: &'static pg_sys::CustomExecMethods = &pg_sys::CustomExecMethods {
        CustomName: N::NAME.as_ptr(),
        BeginCustomScan: Some(begin::<N>),
        ExecCustomScan: Some(execute::<N>),
        EndCustomScan: Some(end::<N>),
        ReScanCustomScan: Some(rescan::<N>),
        MarkPosCustomScan: None,
        RestrPosCustomScan: None,
        EstimateDSMCustomScan: Some(shared_size::<N>),
        InitializeDSMCustomScan: Some(make_shared::<N>),
        ReInitializeDSMCustomScan: Some(restart_shared::<N>),
        InitializeWorkerCustomScan: Some(join_shared::<N>),
        ShutdownCustomScan: Some(shut_down::<N>),
        ExplainCustomScan: Some(explain::<N>),
    };
}

/// A plan of a custom path, without the path's own expressions and numbers.
///
/// # Safety
/// Called by the planner, with the path, the columns and the conditions of the plan.
pub(super) unsafe fn new_plan(
    path: *mut pg_sys::CustomPath,
    columns: *mut pg_sys::List,
    conditions: *mut pg_sys::List,
    methods: &'static pg_sys::CustomScanMethods,
) -> *mut pg_sys::CustomScan {
    // SAFETY: memory of the size of the node, zeroed, which is a valid node once it has its tag.
    unsafe {
        let scan = pg_sys::palloc0(size_of::<pg_sys::CustomScan>()).cast::<pg_sys::CustomScan>();
        (*scan).scan.plan.type_ = pg_sys::NodeTag::T_CustomScan;
        (*scan).scan.plan.targetlist = columns;
        (*scan).scan.plan.qual = pg_sys::extract_actual_clauses(conditions, false);
        (*scan).flags = (*path).flags;
        (*scan).methods = methods;
        scan
    }
}

/// A plan state: the server's, and ours after it.
#[repr(C)]
struct State<N> {
    server: pg_sys::CustomScanState,
    /// Called when the memory of the query goes away.
    forgotten: pg_sys::MemoryContextCallback,
    /// What the node runs, in memory of our own, from when it begins until that call; null before and after. Not here, as
    /// a plan state is filled with zeros for each execution.
    running: *mut Abandoned<N>,
}

/// A callback: errors and panics of `work` become SQL errors.
fn guarded<R: Copy>(work: impl FnOnce() -> R) -> R {
    // SAFETY: only called by the callbacks of this module, which are the outermost Rust frames below the server's.
    unsafe { super::error_frame::guarded(work) }
}

// What all callbacks rely on: the server passes plans that were made with the methods of `N`, and plan states that
// `create_state` made of them, which nobody else uses until the callback returns.

unsafe extern "C-unwind" fn create_state<N: ScanNode>(_plan: *mut pg_sys::CustomScan) -> *mut pg_sys::Node {
    guarded(|| {
        // SAFETY: memory of the size of the state, zeroed, which is a valid one of a node that has not begun.
        unsafe {
            let state = unguarded::guard(|| unguarded::palloc0(size_of::<State<N>>())).cast::<State<N>>();
            (*state).server.ss.ps.type_ = pg_sys::NodeTag::T_CustomScanState;
            (*state).server.methods = NodeMethods::<N>::EXECUTION;
            state.cast()
        }
    })
}

/// What a plan state runs.
///
/// # Safety
/// A plan state of `create_state` for the same `N`; the result is used by one callback only.
unsafe fn running<'c, N>(node: *mut pg_sys::CustomScanState) -> Option<&'c mut N> {
    // SAFETY: written by `begin`, and alive until the memory of the query goes away.
    unsafe { (*node.cast::<State<N>>()).running.as_mut()?.get() }
}

/// The memory of a query goes away, and with it a node that may not have ended.
unsafe extern "C-unwind" fn forget<N>(state: *mut c_void) {
    guarded(|| {
        // SAFETY: registered by `begin`, which has written it; the server calls this once.
        unsafe {
            let state = &mut *state.cast::<State<N>>();
            let running = std::mem::replace(&mut state.running, std::ptr::null_mut());
            if !running.is_null() {
                drop(Box::from_raw(running));
            }
        }
    })
}

unsafe extern "C-unwind" fn begin<N: ScanNode>(
    node: *mut pg_sys::CustomScanState,
    _estate: *mut pg_sys::EState,
    _flags: i32,
) {
    guarded(|| {
        // SAFETY: see above.
        unsafe {
            let running = Box::new(Abandoned::new(N::begin(node)));
            let state = node.cast::<State<N>>();
            (*state).running = Box::into_raw(running);
            (*state).forgotten.func = Some(forget::<N>);
            (*state).forgotten.arg = state.cast();
            // The context of the query, where the state is too.
            let memory = pg_sys::CurrentMemoryContext;
            unguarded::MemoryContextRegisterResetCallback(memory, &raw mut (*state).forgotten);
        }
    })
}

unsafe extern "C-unwind" fn execute<N: ScanNode>(
    node: *mut pg_sys::CustomScanState,
) -> *mut pg_sys::TupleTableSlot {
    guarded(|| {
        // SAFETY: see above. Conditions and projection are the server's part.
        unsafe {
            if let Some(running) = running::<N>(node) {
                running.choose_conditions(node);
            }
            let state = &raw mut (*node).ss;
            let plain = (*state).ps.qual.is_null()
                && (*state).ps.ps_ProjInfo.is_null()
                && (*(*state).ps.state).es_epq_active.is_null();
            if !plain {
                return pg_sys::ExecScan(state, Some(access::<N>), Some(recheck::<N>));
            }
            // What the server does without any of these.
            check_for_interrupts!();
            let scratch = (*(*state).ps.ps_ExprContext).ecxt_per_tuple_memory;
            if !(*scratch).isReset || !(*scratch).firstchild.is_null() {
                pg_sys::MemoryContextReset(scratch);
            }
            next_row::<N>(node)
        }
    })
}

/// Takes the row out of a slot, as `ExecClearTuple` does; false if that is not done, as the slot is none whose values
/// belong to others.
///
/// # Safety
/// A slot, which nobody else uses.
unsafe fn clear_virtual(slot: *mut pg_sys::TupleTableSlot) -> bool {
    // SAFETY: the caller's.
    unsafe {
        let slot = &mut *slot;
        let flags = u32::from(slot.tts_flags);
        if flags & pg_sys::TTS_FLAG_SHOULDFREE != 0
            || !std::ptr::eq(slot.tts_ops, &raw const pg_sys::TTSOpsVirtual)
        {
            return false;
        }
        slot.tts_flags |= pg_sys::TTS_FLAG_EMPTY as u16;
        slot.tts_nvalid = 0;
        slot.tts_tid = super::heap::tid(pg_sys::InvalidBlockNumber, 0);
        true
    }
}

/// Takes the row out of a slot.
///
/// # Safety
/// A slot, which nobody else uses.
unsafe fn clear(slot: *mut pg_sys::TupleTableSlot) {
    // SAFETY: the caller's. Most slots that rows are read into are clear, or virtual ones whose values belong to nobody.
    unsafe {
        if !clear_virtual(slot) {
            pg_sys::ExecClearTuple(slot);
        }
    }
}

/// Makes the values of a clear slot its row, as `ExecStoreVirtualTuple` does.
///
/// # Safety
/// A clear slot with values for all columns.
pub(super) unsafe fn store_virtual(slot: *mut pg_sys::TupleTableSlot) {
    // SAFETY: the caller's.
    unsafe {
        let slot = &mut *slot;
        slot.tts_flags &= !(pg_sys::TTS_FLAG_EMPTY as u16);
        slot.tts_nvalid = (*slot.tts_tupleDescriptor).natts as pg_sys::AttrNumber;
    }
}

/// Puts the next row into the scan's slot, and returns it.
///
/// # Safety
/// As for the callbacks.
unsafe fn next_row<N: ScanNode>(node: *mut pg_sys::CustomScanState) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: the caller's.
    unsafe {
        let slot = (*node).ss.ss_ScanTupleSlot;
        clear(slot);
        if let Some(running) = running::<N>(node) {
            running.fetch(node, slot);
        }
        slot
    }
}

/// Puts the next row into the scan's slot.
pub(super) unsafe extern "C-unwind" fn access<N: ScanNode>(
    scan: *mut pg_sys::ScanState,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: see above.
    guarded(|| unsafe { next_row::<N>(scan.cast()) })
}

unsafe extern "C-unwind" fn recheck<N: ScanNode>(
    scan: *mut pg_sys::ScanState,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: see above.
    guarded(|| unsafe { N::recheck(scan, slot) })
}

unsafe extern "C-unwind" fn rescan<N: ScanNode>(node: *mut pg_sys::CustomScanState) {
    guarded(|| {
        // SAFETY: see above. The scan's slot is cleared before the row that it points to goes away.
        unsafe {
            pg_sys::ExecScanReScan(&raw mut (*node).ss);
            if let Some(running) = running::<N>(node) {
                running.rescan();
            }
        }
    })
}

unsafe extern "C-unwind" fn shared_size<N: ScanNode>(
    node: *mut pg_sys::CustomScanState,
    _context: *mut pg_sys::ParallelContext,
) -> pg_sys::Size {
    // SAFETY: see above.
    guarded(|| unsafe { running::<N>(node).map_or(0, |running| running.shared_size(node)) })
}

unsafe extern "C-unwind" fn make_shared<N: ScanNode>(
    node: *mut pg_sys::CustomScanState,
    _context: *mut pg_sys::ParallelContext,
    place: *mut c_void,
) {
    guarded(|| {
        // SAFETY: see above; memory of the size that was asked for, which stays until the node is shut down.
        unsafe {
            if let Some(running) = running::<N>(node) {
                running.make_shared(node, place);
            }
        }
    })
}

unsafe extern "C-unwind" fn restart_shared<N: ScanNode>(
    node: *mut pg_sys::CustomScanState,
    _context: *mut pg_sys::ParallelContext,
    place: *mut c_void,
) {
    guarded(|| {
        // SAFETY: see above; the memory of `make_shared`, and no workers.
        unsafe {
            if let Some(running) = running::<N>(node) {
                running.restart_shared(place);
            }
        }
    })
}

unsafe extern "C-unwind" fn join_shared<N: ScanNode>(
    node: *mut pg_sys::CustomScanState,
    _contents: *mut pg_sys::shm_toc,
    place: *mut c_void,
) {
    guarded(|| {
        // SAFETY: see above; the memory that the leader's `make_shared` has filled.
        unsafe {
            if let Some(running) = running::<N>(node) {
                running.join_shared(place);
            }
        }
    })
}

unsafe extern "C-unwind" fn shut_down<N: ScanNode>(node: *mut pg_sys::CustomScanState) {
    guarded(|| {
        // SAFETY: see above.
        unsafe {
            if let Some(running) = running::<N>(node) {
                running.leave_shared();
            }
        }
    })
}

unsafe extern "C-unwind" fn end<N: ScanNode>(node: *mut pg_sys::CustomScanState) {
    guarded(|| {
        // SAFETY: see above. The scan's slot is cleared before the row that it points to goes away.
        unsafe {
            clear((*node).ss.ss_ScanTupleSlot);
            let state = &mut *node.cast::<State<N>>();
            if let Some(running) = state.running.as_mut() {
                drop(running.take());
            }
        }
    })
}

unsafe extern "C-unwind" fn explain<N: ScanNode>(
    node: *mut pg_sys::CustomScanState,
    ancestors: *mut pg_sys::List,
    state: *mut pg_sys::ExplainState,
) {
    guarded(|| {
        // SAFETY: see above; EXPLAIN's own state.
        unsafe {
            let names = pg_sys::set_deparse_context_plan((*state).deparse_cxt, (*node).ss.ps.plan, ancestors);
            let prefix = (*state).verbose || pg_sys::list_length((*state).rtable) > 1;
            let sql = |expression| {
                let sql = pg_sys::deparse_expression(expression, names, prefix, false);
                Some(CStr::from_ptr(sql).to_owned())
            };
            let running = running::<N>(node).map(|running| &*running);
            N::explain(running, node, &sql, &mut Explanation::from_raw(state));
        }
    })
}
