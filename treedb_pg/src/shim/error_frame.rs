//! Errors of the server on their way through Rust.
//!
//! An error that the server raises while Rust code calls it becomes a Rust panic, so that destructors run, and at the
//! outermost Rust frame an error of the server again. The panic knows the SQLSTATE, the message, the detail and the
//! hint; the context, the names of schema, table, column, type and constraint, and the position in a query it does not.
//! So every outermost Rust frame is [`guarded`]: it has an error context callback of the server's, which copies each
//! error that is raised beneath it, whole, and raises that copy in the end.
//!
//! Invariants: the innermost frame is [`CURRENT`], and its callback is on the server's stack of callbacks as long as it
//! lives. A frame's copy is in the memory context that was current when the frame began, which outlives it: the server
//! keeps it until the call has returned. Only the last error is kept; it is the one that is on its way if SQLSTATE and
//! message say so.

use std::any::Any;
use std::ffi::{CStr, c_void};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use pgrx::pg_sys;
use pgrx::pg_sys::panic::{CaughtError, ErrorReportWithLevel};

use super::error::SqlState;
use super::text;

/// The same functions as in `pg_sys`, but an error raised in them does not become a panic: they are called where there
/// is no Rust frame left, or where the server is handling an error.
mod raw {
    use pgrx::pg_sys;

    unsafe extern "C-unwind" {
        pub(super) fn CopyErrorData() -> *mut pg_sys::ErrorData;
        pub(super) fn FreeErrorData(data: *mut pg_sys::ErrorData);
        pub(super) fn ThrowErrorData(data: *mut pg_sys::ErrorData);
        pub(super) fn pstrdup(string: *const std::ffi::c_char) -> *mut std::ffi::c_char;
    }
}

/// The innermost frame.
static CURRENT: AtomicPtr<Frame> = AtomicPtr::new(ptr::null_mut());

/// An outermost Rust frame, as the server's error handling sees it.
struct Frame {
    callback: pg_sys::ErrorContextCallback,
    outer: *mut Frame,
    /// Where errors are copied to.
    memory: pg_sys::MemoryContext,
    /// The last error; null if there was none.
    error: *mut pg_sys::ErrorData,
}

/// A [`Frame`] in its place on the stack, taken off both stacks when it goes away.
struct Pushed<'f>(&'f mut Frame);

impl Frame {
    fn new() -> Frame {
        Frame {
            callback: pg_sys::ErrorContextCallback::default(),
            outer: ptr::null_mut(),
            // SAFETY: a global of this backend, which has one thread.
            memory: unsafe { pg_sys::CurrentMemoryContext },
            error: ptr::null_mut(),
        }
    }

    fn push(&mut self) -> Pushed<'_> {
        // SAFETY: globals of this backend, which has one thread. The frame stays in its place until `Pushed` has taken
        // it off.
        unsafe {
            self.callback = pg_sys::ErrorContextCallback {
                previous: pg_sys::error_context_stack,
                callback: Some(keep),
                arg: ptr::from_mut(self).cast(),
            };
            pg_sys::error_context_stack = &raw mut self.callback;
        }
        self.outer = CURRENT.swap(ptr::from_mut(self), Ordering::Relaxed);
        Pushed(self)
    }
}

impl Drop for Pushed<'_> {
    fn drop(&mut self) {
        // SAFETY: as above; everything that was pushed later is off again.
        unsafe { pg_sys::error_context_stack = self.0.callback.previous };
        CURRENT.store(self.0.outer, Ordering::Relaxed);
    }
}

/// The callback: keeps a copy of the error that is being raised.
unsafe extern "C-unwind" fn keep(frame: *mut c_void) {
    // SAFETY: the server calls this while it raises an error or a notice, and while the frame is pushed. No value here
    // has a destructor, so an error that is raised in here (no memory) may jump over it.
    unsafe {
        let frame = frame.cast::<Frame>();
        let outer = pg_sys::CurrentMemoryContext;
        pg_sys::CurrentMemoryContext = (*frame).memory;
        let error = raw::CopyErrorData();
        if (*error).elevel == pgrx::PgLogLevel::ERROR as i32 {
            if !(*frame).error.is_null() {
                raw::FreeErrorData((*frame).error);
            }
            // These two the server does not copy: it takes them for constants, which they are not if the error was
            // raised by Rust code.
            if !(*error).filename.is_null() {
                (*error).filename = raw::pstrdup((*error).filename);
            }
            if !(*error).funcname.is_null() {
                (*error).funcname = raw::pstrdup((*error).funcname);
            }
            (*frame).error = error;
        } else {
            raw::FreeErrorData(error);
        }
        pg_sys::CurrentMemoryContext = outer;
    }
}

/// The call of a callback or function: errors and panics of `work` become SQL errors, and the server's own errors stay
/// as they were.
///
/// # Safety
/// The outermost Rust frame below the server's, which an error leaves without running destructors.
#[inline]
pub(crate) unsafe fn guarded<R>(work: impl FnOnce() -> R) -> R {
    let (mut work, mut result) = (ManuallyDrop::new(work), MaybeUninit::uninit());
    // SAFETY: `run` calls this once. The rest is the caller's; nothing here has a destructor.
    unsafe {
        run(&mut || {
            result.write(ManuallyDrop::take(&mut work)());
        });
        result.assume_init()
    }
}

/// Calls `work`, or raises its error. One function for all callbacks: a statement comes to each of them once, and what is not yet
/// in a cache it has to wait for.
///
/// # Safety
/// That of [`guarded`].
#[inline(never)]
unsafe fn run(work: &mut dyn FnMut()) {
    // SAFETY: the caller's; `Caught` has no destructor where an error is raised.
    unsafe {
        match caught(work) {
            Ok(()) => {}
            Err(Caught::Whole(error)) => {
                raw::ThrowErrorData(error);
                unreachable!("an error at level ERROR does not return")
            }
            Err(Caught::Panic(panic)) => pg_sys::panic::pgrx_extern_c_guard(|| resume_unwind(panic)),
        }
    }
}

/// What ended the work of a frame.
enum Caught {
    /// An error of the server's, of which all is known.
    Whole(*mut pg_sys::ErrorData),
    Panic(Box<dyn Any + Send>),
}

/// Runs `work` in a frame.
fn caught(work: &mut dyn FnMut()) -> Result<(), Caught> {
    let mut frame = Frame::new();
    let pushed = frame.push();
    let result = catch_unwind(AssertUnwindSafe(work));
    let error = pushed.0.error;
    drop(pushed);
    let panic = match result {
        Ok(()) => return Ok(()),
        Err(panic) => panic,
    };
    // SAFETY: the frame's copy.
    if !report_of(&*panic).is_some_and(|report| unsafe { is_same(error, report) }) {
        return Err(Caught::Panic(panic));
    }
    // SAFETY: as above. The server reads the names of file and function when it reports the error, which may be after
    // the frame's memory is gone.
    unsafe {
        for name in [&mut (*error).filename, &mut (*error).funcname] {
            if !name.is_null() {
                *name = pg_sys::MemoryContextStrdup(pg_sys::ErrorContext, *name);
            }
        }
    }
    Err(Caught::Whole(error))
}

/// What a panic says about an SQL error; `None` for any other.
fn report_of(panic: &(dyn Any + Send)) -> Option<&ErrorReportWithLevel> {
    match panic.downcast_ref::<CaughtError>() {
        Some(CaughtError::PostgresError(report) | CaughtError::ErrorReport(report)) => Some(report),
        Some(CaughtError::RustPanic { .. }) => None,
        None => panic.downcast_ref::<ErrorReportWithLevel>(),
    }
}

/// Whether a copy is of the error of a report.
///
/// # Safety
/// A copy of an error, or null.
unsafe fn is_same(error: *const pg_sys::ErrorData, report: &ErrorReportWithLevel) -> bool {
    // SAFETY: the caller's; strings are closed by a zero byte.
    unsafe {
        error.as_ref().is_some_and(|error| {
            // A report knows the server's own codes; all others, such as those of `RAISE .. USING ERRCODE`, are one to it.
            SqlState::from(error.sqlerrcode) == report.sql_error_code()
                && !error.message.is_null()
                && text::lossy(CStr::from_ptr(error.message)) == report.message()
        })
    }
}

/// The object that an error is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ErrorObject {
    pub(crate) schema: Option<String>,
    pub(crate) table: Option<String>,
    pub(crate) constraint: Option<String>,
}

impl ErrorObject {
    /// The object of the error that was caught last.
    pub(super) fn of(report: &ErrorReportWithLevel) -> ErrorObject {
        // SAFETY: the innermost frame is alive; its copy is of the server's.
        unsafe {
            let Some(frame) = CURRENT.load(Ordering::Relaxed).as_ref() else { return ErrorObject::default() };
            if !is_same(frame.error, report) {
                return ErrorObject::default();
            }
            let name = |name: *const std::ffi::c_char| {
                (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
            };
            let error = &*frame.error;
            ErrorObject {
                schema: name(error.schema_name),
                table: name(error.table_name),
                constraint: name(error.constraint_name),
            }
        }
    }
}

/// Notes the object of the error that is going to be raised with this SQLSTATE, message, detail and hint.
pub(super) fn announce(state: SqlState, message: &str, detail: &str, hint: &str, object: &ErrorObject) {
    // SAFETY: the innermost frame is alive, and so is its memory, where the server allocates the strings.
    unsafe {
        let Some(frame) = CURRENT.load(Ordering::Relaxed).as_mut() else { return };
        let string = |text: &str| {
            let text = text::owned_cstring(text);
            pg_sys::MemoryContextStrdup(frame.memory, text.as_ptr())
        };
        let name = |name: &Option<String>| name.as_deref().map_or(ptr::null_mut(), string);
        let error = pg_sys::MemoryContextAllocZero(frame.memory, size_of::<pg_sys::ErrorData>())
            .cast::<pg_sys::ErrorData>();
        (*error).elevel = pgrx::PgLogLevel::ERROR as i32;
        (*error).sqlerrcode = state as i32;
        (*error).message = string(message);
        if !detail.is_empty() {
            (*error).detail = string(detail);
        }
        if !hint.is_empty() {
            (*error).hint = string(hint);
        }
        (*error).schema_name = name(&object.schema);
        (*error).table_name = name(&object.table);
        (*error).constraint_name = name(&object.constraint);
        (*error).assoc_context = frame.memory;
        if !frame.error.is_null() {
            pg_sys::FreeErrorData(frame.error);
        }
        frame.error = error;
    }
}
