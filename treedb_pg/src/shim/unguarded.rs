//! Functions of the server's without a boundary for errors of their own.
//!
//! The bindings set up a boundary ([`guard`]) for each call, so that an error of the server's unwinds our stack. That
//! costs as much as finding a page in the buffer pool. What every step of a descent or every scan calls is therefore
//! declared here, to be called several in one boundary. A function called outside one would jump over our frames,
//! except for the few that are safe: they only answer a question.

use std::ffi::{CStr, c_int, c_void};

pub(super) use pgrx::pg_sys::ffi::pg_guard_ffi_boundary as guard;
use pgrx::pg_sys::{
    AttrNumber, BlockNumber, Buffer, Datum, FmgrInfo, ForkNumber, List, Oid, Relation, TupleTableSlot,
};

use super::compat::FileLocator;

unsafe extern "C-unwind" {
    pub(super) fn ReadBuffer(relation: Relation, block: BlockNumber) -> Buffer;
    pub(super) fn ReadRecentBuffer(
        file: FileLocator,
        fork: ForkNumber::Type,
        block: BlockNumber,
        buffer: Buffer,
    ) -> bool;
    pub(super) fn LockBuffer(buffer: Buffer, mode: c_int);
    pub(super) fn UnlockReleaseBuffer(buffer: Buffer);
    pub(super) fn index_getprocid(index: Relation, column: AttrNumber, number: u16) -> Oid;
    pub(super) fn index_getprocinfo(index: Relation, column: AttrNumber, number: u16) -> *mut FmgrInfo;
    pub(super) fn FunctionCall0Coll(function: *mut FmgrInfo, collation: Oid) -> Datum;
    // Raises no error for a column that a row of a table has.
    pub(super) fn slot_getsomeattrs_int(slot: *mut TupleTableSlot, columns: c_int);

    // These raise no error.
    pub(super) safe fn RecoveryInProgress() -> bool;
    pub(super) safe fn TransactionStartedDuringRecovery() -> bool;
    pub(super) safe fn GetUserId() -> Oid;
    pub(super) safe fn GetDatabaseEncoding() -> c_int;
}

/// Calls `work` with the setting `search_path`.
pub(super) fn with_search_path<R>(work: impl FnOnce(&[u8]) -> R) -> R {
    // SAFETY: a string of the server's, which stays as long as the setting does.
    let path = unsafe {
        let path = pgrx::pg_sys::namespace_search_path;
        if path.is_null() { c"" } else { CStr::from_ptr(path) }
    };
    work(path.to_bytes())
}

/// Element `at` of a list of pointers, which has it.
///
/// # Safety
/// A list of pointers with more than `at` elements.
pub(super) unsafe fn nth(list: *const List, at: usize) -> *mut c_void {
    // SAFETY: the caller's.
    unsafe { (*(*list).elements.add(at)).ptr_value }
}

/// The same of a list of numbers.
///
/// # Safety
/// A list of numbers with more than `at` elements.
pub(super) unsafe fn nth_number(list: *const List, at: usize) -> c_int {
    // SAFETY: the caller's.
    unsafe { (*(*list).elements.add(at)).int_value }
}
