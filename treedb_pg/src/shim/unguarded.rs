//! Functions of the server's without a boundary for errors of their own.
//!
//! The bindings set up a boundary for each call, so that an error of the server's unwinds our stack. That costs as much
//! as finding a page in the buffer pool, and each boundary is code of its own, which no cache has when a statement comes
//! to it. What every step of a descent or every scan calls is therefore declared here, to be called in the one boundary
//! that all share ([`guard`]), several at once where that is possible. A function called outside one would jump over our
//! frames, except for the few that are safe: they only answer a question.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::{ManuallyDrop, MaybeUninit};

use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::pg_sys::{
    AttrNumber, BlockNumber, Buffer, Datum, FmgrInfo, ForkNumber, LOCKMODE, List, MemoryContext,
    MemoryContextCallback, Oid, Relation, Size, TupleTableSlot,
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
    pub(super) fn LockRelationOid(relation: Oid, mode: LOCKMODE);
    pub(super) fn RelationIncrementReferenceCount(relation: Relation);
    pub(super) fn table_open(table: Oid, mode: LOCKMODE) -> Relation;
    pub(super) fn index_open(index: Oid, mode: LOCKMODE) -> Relation;
    pub(super) fn table_slot_create(table: Relation, list: *mut *mut List) -> *mut TupleTableSlot;
    pub(super) fn ExecDropSingleTupleTableSlot(slot: *mut TupleTableSlot);
    pub(super) fn palloc0(size: Size) -> *mut c_void;
    pub(super) fn MemoryContextAlloc(context: MemoryContext, size: Size) -> *mut c_void;
    pub(super) fn AllocSetContextCreateInternal(
        parent: MemoryContext,
        name: *const c_char,
        min: Size,
        initial: Size,
        max: Size,
    ) -> MemoryContext;
    // These raise no error if they are given what they may be given: what is open, pinned and locked, or ours to delete.
    pub(super) fn UnlockReleaseBuffer(buffer: Buffer);
    pub(super) fn relation_close(relation: Relation, mode: LOCKMODE);
    pub(super) fn MemoryContextDelete(context: MemoryContext);
    pub(super) fn MemoryContextRegisterResetCallback(
        context: MemoryContext,
        callback: *mut MemoryContextCallback,
    );
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

/// Calls `work`, in which the server may raise an error: it becomes a panic.
///
/// # Safety
/// In the backend's thread; neither `work` nor what it calls has anything to drop where an error may be raised.
#[inline]
pub(super) unsafe fn guard<R>(work: impl FnOnce() -> R) -> R {
    let (mut work, mut result) = (ManuallyDrop::new(work), MaybeUninit::uninit());
    // SAFETY: the caller's. The boundary calls this once; it has written the result unless there was an error.
    unsafe {
        boundary(&mut || {
            result.write(ManuallyDrop::take(&mut work)());
        });
        result.assume_init()
    }
}

/// The boundary that all share.
///
/// # Safety
/// That of [`guard`].
#[inline(never)]
unsafe fn boundary(work: &mut dyn FnMut()) {
    // SAFETY: the caller's.
    unsafe { pg_guard_ffi_boundary(work) }
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

/// The elements of a list of pointers.
///
/// # Safety
/// A list of such pointers, which stays as it is.
pub(super) unsafe fn elements<T>(list: *const List) -> impl Iterator<Item = *mut T> {
    // SAFETY: the caller's; the empty list is a null pointer.
    let count = unsafe { list.as_ref() }.map_or(0, |list| list.length as usize);
    // SAFETY: the caller's.
    (0..count).map(move |at| unsafe { nth(list, at).cast() })
}

/// The same as [`nth`] of a list of numbers.
///
/// # Safety
/// A list of numbers with more than `at` elements.
pub(super) unsafe fn nth_number(list: *const List, at: usize) -> c_int {
    // SAFETY: the caller's.
    unsafe { (*(*list).elements.add(at)).int_value }
}
