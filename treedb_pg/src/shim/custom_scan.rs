//! The executor's node for a [`StreamedFunction`] in FROM: arguments are evaluated when the scan begins or begins again,
//! rows are read in batches and handed out one by one.
//!
//! A row stays where it is in its batch until the next one is read: it is valid until the next row is asked for, as the
//! executor expects of any node.

use std::ffi::{CStr, CString, c_void};

use pgrx::pg_sys;

use super::catalog;
use super::compat;
use super::datum::{Datum, Layout};
use super::error::{SqlState, fail};
use super::memory::Context;
use super::prepared::Prepared;
use super::relation::OpenTable;
use super::scan_node::{NodeMethods, ScanNode, access, store_virtual};
use super::scan_team::{Division, Examined, SharedScan, leader_takes_part};
use super::snapshot::{Registered, Snapshot};
use super::streamed::{ARGUMENTS, Argument, Batch, Call, Explanation, Returned, StreamedFunction};
use super::unguarded;

/// What plans of calls of `T` are executed by.
pub(super) struct Methods<T>(std::marker::PhantomData<T>);

impl<T: StreamedFunction> Methods<T> {
    /// How a plan becomes a plan state.
    pub(super) const SCAN: &'static pg_sys::CustomScanMethods = NodeMethods::<Running<T>>::SCAN;
}

/// A node that has begun.
struct Running<T> {
    /// Dropped before the contexts that it lives in.
    stream: Option<T>,
    /// Whether the arguments have been evaluated, and the stream begun for them.
    opened: bool,
    /// Whether the stream has more rows than those of the batch.
    more: bool,
    /// Whether the next row is NULL, as an argument is.
    absent: bool,
    rows: Batch,
    arguments: [Prepared; ARGUMENTS],
    /// How many rows are likely to be asked for; 0 for all.
    wanted: usize,
    /// The table of a call that several processes share, and how they do, in their leader.
    table: Option<(OpenTable, Division)>,
    /// This process's part of that.
    part: Part,
    /// What all processes have looked at, once they are done.
    examined: Option<Examined>,
    /// Whether the next batch is the first of a stream, which is read in `memory`: most calls have one.
    fresh: bool,
    /// What is allocated while a batch is read.
    scratch: Option<Context>,
    /// What the stream allocates in.
    memory: Context,
}

/// Which part of a call a process executes.
enum Part {
    /// All of it.
    All,
    /// What falls to it of a scan.
    Shared(SharedScan),
    /// Nothing: its leader executes all.
    Nothing,
}

/// The call that a node executes.
///
/// # Safety
/// A plan state of a plan that `function_path` made.
unsafe fn call_of(node: *mut pg_sys::CustomScanState) -> *mut pg_sys::FuncExpr {
    // SAFETY: `function_path` makes plans with one expression, the call.
    unsafe {
        let plan = (*node).ss.ps.plan.cast::<pg_sys::CustomScan>();
        unguarded::nth((*plan).custom_exprs, 0).cast()
    }
}

/// Raises an error unless the user may execute a function, as the server does for a function in FROM.
///
/// # Safety
/// Called while a statement is being executed.
unsafe fn expect_execute(function: pg_sys::Oid) {
    // SAFETY: catalog look-ups; the hook is the server's way to call it.
    unsafe {
        catalog::once_allowed(function, pg_sys::ACL_EXECUTE, || {
            let allowed = compat::may(compat::Object::Function, function, pg_sys::ACL_EXECUTE);
            if allowed != pg_sys::AclResult::ACLCHECK_OK {
                let name = pg_sys::get_func_name(function);
                pg_sys::aclcheck_error(allowed, pg_sys::ObjectType::OBJECT_FUNCTION, name);
            }
        });
        let hook = pg_sys::object_access_hook;
        if hook.is_some() {
            pg_sys::RunFunctionExecuteHook(function);
        }
    }
}

/// Raises an error unless the leader of a parallel plan executes its part of the plan too: it is the only process that can
/// execute a call which several processes cannot share.
fn expect_leader() {
    if !leader_takes_part() {
        fail(
            SqlState::ERRCODE_FEATURE_NOT_SUPPORTED,
            "a parallel plan leads to a temporary table, and its leader takes no part",
            "Plan the statement again (DISCARD PLANS), or set parallel_leader_participation to on.",
        );
    }
}

impl<T: StreamedFunction> ScanNode for Running<T> {
    const NAME: &'static CStr = T::NODE;

    unsafe fn begin(node: *mut pg_sys::CustomScanState) -> Self {
        // SAFETY: the caller's; plans are those that `function_path` made of calls of `T::FUNCTION`.
        unsafe {
            let call = call_of(node);
            expect_execute((*call).funcid);
            let arguments =
                std::array::from_fn(|at| Prepared::new(unguarded::nth((*call).args, at).cast(), node));
            let plan = (*node).ss.ps.plan.cast::<pg_sys::CustomScan>();
            Running {
                stream: None,
                opened: false,
                more: false,
                absent: false,
                rows: Batch::default(),
                arguments,
                wanted: usize::try_from(unguarded::nth_number((*plan).custom_private, 0)).unwrap_or(0),
                table: None,
                part: Part::All,
                examined: None,
                fresh: false,
                scratch: None,
                memory: Context::new(c"TreeDB scan"),
            }
        }
    }

    unsafe fn fetch(&mut self, node: *mut pg_sys::CustomScanState, slot: *mut pg_sys::TupleTableSlot) {
        // SAFETY: the caller's; the slot is a virtual one with one column.
        unsafe {
            let next = self.next(node);
            if next.is_some() || std::mem::take(&mut self.absent) {
                *(*slot).tts_values = next.unwrap_or(pg_sys::Datum::null());
                *(*slot).tts_isnull = next.is_none();
                store_virtual(slot);
            }
        }
    }

    /// The rows of this node are those of the statement's snapshot then too: calls whose rows the server keeps for that
    /// purpose are not planned as this node.
    unsafe fn recheck(scan: *mut pg_sys::ScanState, _slot: *mut pg_sys::TupleTableSlot) -> bool {
        // SAFETY: the caller's.
        unsafe { u32::from((*access::<Self>(scan)).tts_flags) & pg_sys::TTS_FLAG_EMPTY == 0 }
    }

    fn rescan(&mut self) {
        self.rows.clear();
        (self.opened, self.more, self.absent) = (false, false, false);
    }

    unsafe fn shared_size(&mut self, node: *mut pg_sys::CustomScanState) -> usize {
        // SAFETY: the caller's; the snapshot is the statement's.
        unsafe {
            let call = self.call(node);
            self.table = call.as_ref().and_then(T::shared);
            if call.is_some() && self.table.is_none() {
                expect_leader();
            }
            let snapshot = Snapshot::from_raw((*(*node).ss.ps.state).es_snapshot);
            self.table
                .as_ref()
                .map_or(SharedScan::LEAST, |(table, division)| SharedScan::size(table, *division, snapshot))
        }
    }

    unsafe fn make_shared(&mut self, node: *mut pg_sys::CustomScanState, place: *mut c_void) {
        // SAFETY: the caller's; the snapshot is the statement's.
        unsafe {
            let snapshot = Snapshot::from_raw((*(*node).ss.ps.state).es_snapshot);
            let shared = SharedScan::make(place, self.table.as_ref(), snapshot);
            self.part = if self.table.is_some() { Part::Shared(shared) } else { Part::All };
        }
    }

    unsafe fn restart_shared(&mut self, place: *mut c_void) {
        // SAFETY: the caller's; the table is that of the scan.
        unsafe {
            match (&self.table, SharedScan::at(place)) {
                (Some((table, _)), Some(shared)) => shared.restart(table),
                _ => expect_leader(),
            }
        }
    }

    unsafe fn join_shared(&mut self, place: *mut c_void) {
        // SAFETY: the caller's.
        self.part = unsafe { SharedScan::at(place) }.map_or(Part::Nothing, Part::Shared);
    }

    fn leave_shared(&mut self) {
        if let Part::Shared(shared) = &self.part {
            self.examined = Some(shared.examined());
            (self.opened, self.more, self.part) = (true, false, Part::Nothing);
        }
    }

    unsafe fn explain(
        running: Option<&Self>,
        node: *mut pg_sys::CustomScanState,
        sql: &dyn Fn(*mut pg_sys::Node) -> Option<CString>,
        shown: &mut Explanation<'_>,
    ) {
        // SAFETY: the caller's.
        let arguments = unsafe { arguments_of((*call_of(node)).args, sql) };
        let stream = running.and_then(|running| running.stream.as_ref());
        T::explain(stream, &arguments, running.and_then(|running| running.examined), shown);
    }
}

impl<T: StreamedFunction> Running<T> {
    /// The next row; `None` if there are no more.
    ///
    /// # Safety
    /// `node` is the plan state that this belongs to, and the row before this one is not used any more.
    unsafe fn next(&mut self, node: *mut pg_sys::CustomScanState) -> Option<pg_sys::Datum> {
        loop {
            if let Some(value) = self.rows.take(T::RETURNED) {
                return Some(value);
            }
            self.rows.clear();
            if !self.opened {
                self.opened = true;
                // SAFETY: the caller's.
                self.more = unsafe { self.open(node) };
            }
            let Running { stream, more, rows, fresh, scratch, memory, .. } = self;
            let stream = stream.as_mut().filter(|_| *more)?;
            // After an error there are no more rows.
            *more = false;
            let in_memory = std::mem::take(fresh) || T::KEEPS_MEMORY;
            let context = match in_memory {
                true => &*memory,
                // SAFETY: a stream uses nothing of an earlier call of `fill` unless it says so.
                false => unsafe { Context::emptied(scratch, c"TreeDB rows", memory) },
            };
            *more = context.enter(|| stream.fill(rows));
        }
    }

    /// Evaluates the arguments; `None` if there are no rows, as one of them is NULL.
    ///
    /// # Safety
    /// `node` is the plan state that this belongs to. The arguments live until the next row is asked for.
    unsafe fn call<'c>(&self, node: *mut pg_sys::CustomScanState) -> Option<Call<'c>> {
        // SAFETY: arguments of this node, of variable length, as the declaration of the function says.
        let evaluated = unsafe {
            self.arguments
                .map(|argument| argument.value(node).map(|value| Datum::from_raw(value, Layout::Varlena)))
        };
        let [Some(first), Some(second), Some(third)] = evaluated else { return None };
        Some(Call { arguments: [first, second, third], wanted: self.wanted })
    }

    /// Evaluates the arguments and begins the stream; false if there are no rows.
    ///
    /// # Safety
    /// `node` is the plan state that this belongs to.
    unsafe fn open(&mut self, node: *mut pg_sys::CustomScanState) -> bool {
        // SAFETY: the caller's.
        let Some(call) = (unsafe { self.call(node) }) else {
            self.absent = T::RETURNED == Returned::Number;
            return false;
        };
        let Running { stream, part, fresh, scratch, memory, .. } = self;
        let part = match part {
            Part::All => None,
            Part::Shared(shared) => Some(shared.clone()),
            Part::Nothing => return false,
        };
        let reopened = part.is_none()
            && stream.as_mut().is_some_and(|stream| {
                // SAFETY: as for the next rows.
                let scratch = unsafe { Context::emptied(scratch, c"TreeDB rows", memory) };
                scratch.enter(|| stream.reopen(&call))
            });
        if !reopened {
            drop(stream.take());
            // SAFETY: the stream that used it is gone.
            unsafe { memory.reset() };
            // SAFETY: the stream is dropped when the node ends.
            let snapshot = unsafe { Registered::of_executor((*(*node).ss.ps.state).es_snapshot) };
            *stream = Some(memory.enter(|| match part {
                Some(part) => T::open_part(&call, snapshot, part),
                None => T::open(&call, snapshot),
            }));
            *fresh = true;
        }
        true
    }
}

/// The arguments of a call; `shown` makes the SQL of those that are no constants.
///
/// # Safety
/// The list of arguments of a call of a [`StreamedFunction`], which lives as long as the result is used.
pub(super) unsafe fn arguments_of<'a>(
    list: *mut pg_sys::List,
    shown: impl Fn(*mut pg_sys::Node) -> Option<CString>,
) -> [Argument<'a>; ARGUMENTS] {
    // SAFETY: the function is declared with as many arguments, all of variable length.
    unsafe {
        if pg_sys::list_length(list) != ARGUMENTS as i32 {
            fail(
                SqlState::ERRCODE_INTERNAL_ERROR,
                "a function of treedb is called with another number of arguments than it has",
                "Report this as a bug of treedb.",
            );
        }
        std::array::from_fn(|at| argument_of(pg_sys::list_nth(list, at as i32).cast(), &shown))
    }
}

/// An argument; `shown` makes its SQL if it is no constant.
///
/// # Safety
/// An expression of a type of variable length, which lives as long as the result is used.
pub(super) unsafe fn argument_of<'a>(
    argument: *mut pg_sys::Node,
    shown: impl Fn(*mut pg_sys::Node) -> Option<CString>,
) -> Argument<'a> {
    // SAFETY: the tag of a node says what structure it is.
    unsafe {
        if (*argument).type_ != pg_sys::NodeTag::T_Const {
            return Argument::Expression(shown(argument));
        }
        let constant = &*argument.cast::<pg_sys::Const>();
        if constant.constisnull {
            Argument::Null
        } else {
            Argument::Constant(Datum::from_raw(constant.constvalue, Layout::Varlena))
        }
    }
}
