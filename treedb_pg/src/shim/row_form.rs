//! The values that a row has in an index: the index's predicate and expressions, evaluated.

use std::marker::PhantomData;
use std::ptr;

use pgrx::pg_sys;

use super::error::{SqlState, fail};
use super::heap::{HeapRow, HeapTable};

const MOST: usize = pg_sys::INDEX_MAX_KEYS as usize;

/// The server's description of an index that is being built.
#[derive(Clone, Copy)]
pub(crate) struct IndexInfo<'c> {
    raw: *mut pg_sys::IndexInfo,
    lifetime: PhantomData<&'c ()>,
}

impl IndexInfo<'_> {
    /// # Safety
    /// A filled description, which lives for the lifetime of the result.
    pub(super) unsafe fn from_raw(raw: *mut pg_sys::IndexInfo) -> Self {
        IndexInfo { raw, lifetime: PhantomData }
    }

    /// The server's form.
    pub(super) fn raw(self) -> *mut pg_sys::IndexInfo {
        self.raw
    }

    /// Whether it is built while others change the table.
    pub(crate) fn is_concurrent(self) -> bool {
        // SAFETY: filled.
        unsafe { (*self.raw).ii_Concurrent }
    }

    /// Whether it is unique.
    pub(crate) fn is_unique(self) -> bool {
        // SAFETY: filled.
        unsafe { (*self.raw).ii_Unique }
    }

    /// Whether it is for an exclusion constraint.
    pub(crate) fn is_exclusion(self) -> bool {
        // SAFETY: filled.
        unsafe { !(*self.raw).ii_ExclusionOps.is_null() }
    }

    /// Notes that older snapshots must not use the index.
    pub(crate) fn mark_broken_hot_chain(self) {
        // SAFETY: filled; nobody else has a reference to it.
        unsafe { (*self.raw).ii_BrokenHotChain = true };
    }
}

/// Evaluates the predicate and the expressions of an index on rows of its table.
pub(crate) struct RowForm<'c> {
    table: HeapTable<'c>,
    info: IndexInfo<'c>,
    estate: *mut pg_sys::EState,
    econtext: *mut pg_sys::ExprContext,
    predicate: *mut pg_sys::ExprState,
    values: [pg_sys::Datum; MOST],
    nulls: [bool; MOST],
}

/// A row's values in an index, until the next row's are formed.
pub(crate) struct FormedRow<'f> {
    info: *const pg_sys::IndexInfo,
    values: *mut pg_sys::Datum,
    nulls: *mut bool,
    lifetime: PhantomData<&'f mut ()>,
}

impl FormedRow<'_> {
    /// Values and flags, an element for each column of the index that `info` describes.
    pub(super) fn raw(&self, info: IndexInfo<'_>) -> (*mut pg_sys::Datum, *mut bool) {
        if !ptr::eq(self.info, info.raw) {
            fail(
                SqlState::ERRCODE_INTERNAL_ERROR,
                "a row was formed for another index",
                "Report this as a bug of treedb.",
            );
        }
        (self.values, self.nulls)
    }
}

impl<'c> RowForm<'c> {
    /// # Safety
    /// `info` describes an index of `table`.
    pub(super) unsafe fn new(table: HeapTable<'c>, info: IndexInfo<'c>) -> RowForm<'c> {
        // SAFETY: the caller's; expression states live in the executor's state.
        unsafe {
            let estate = pg_sys::CreateExecutorState();
            let econtext = pg_sys::MakePerTupleExprContext(estate);
            let predicate = pg_sys::ExecPrepareQual((*info.raw).ii_Predicate, estate);
            RowForm {
                table,
                info,
                estate,
                econtext,
                predicate,
                values: [pg_sys::Datum::from(0usize); MOST],
                nulls: [false; MOST],
            }
        }
    }

    /// The values of a row; `None` if a partial index leaves it out.
    pub(crate) fn form<'f>(&'f mut self, row: &'f HeapRow<'_>) -> Option<FormedRow<'f>> {
        if !ptr::eq(row.table().raw(), self.table.raw()) {
            fail(
                SqlState::ERRCODE_INTERNAL_ERROR,
                "a row is of another table",
                "Report this as a bug of treedb.",
            );
        }
        // SAFETY: the slot holds a row of the table, whose page is pinned; values of the last row are not used any
        // more, as they borrowed `self`.
        unsafe {
            pg_sys::MemoryContextReset((*self.econtext).ecxt_per_tuple_memory);
            (*self.econtext).ecxt_scantuple = row.slot();
            if !self.predicate.is_null() && !pg_sys::ExecQual(self.predicate, self.econtext) {
                return None;
            }
            let (values, nulls) = (self.values.as_mut_ptr(), self.nulls.as_mut_ptr());
            pg_sys::FormIndexDatum(self.info.raw, row.slot(), self.estate, values, nulls);
            Some(FormedRow { info: self.info.raw, values, nulls, lifetime: PhantomData })
        }
    }
}

impl Drop for RowForm<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: made by us; the description's expression states pointed into what goes away here.
            unsafe {
                pg_sys::FreeExecutorState(self.estate);
                (*self.info.raw).ii_ExpressionsState = ptr::null_mut();
                (*self.info.raw).ii_PredicateState = ptr::null_mut();
            }
        }
    }
}
