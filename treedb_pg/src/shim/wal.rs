//! Changes to pages as atomic WAL records.
//!
//! A [`Change`] works on copies of up to four locked pages. Committing writes one generic WAL record and puts the
//! copies in place; dropping it leaves the pages as they were. So an error in the middle of a change, a Rust panic
//! included, never leaves half of it behind. On a standby, redo locks the pages in the order in which they were
//! taken up: parents before children, left before right, the order in which readers lock there.

use pgrx::pg_sys;

use super::buffer::{PAGE_SIZE, Page};

/// A change being prepared.
pub(crate) struct Change {
    state: *mut pg_sys::GenericXLogState,
}

impl Change {
    /// Begins a change of pages of `relation`.
    pub(crate) fn begin(relation: pg_sys::Relation) -> Change {
        // SAFETY: an open relation.
        Change { state: unsafe { pg_sys::GenericXLogStart(relation) } }
    }

    /// Takes up pages, at most four, all different and locked exclusively; `true` marks one whose old content does
    /// not matter. Returns their copies, in the same order.
    pub(crate) fn pages<const N: usize>(&mut self, pages: [(&Page, bool); N]) -> [&mut [u8]; N] {
        const { assert!(N <= pg_sys::MAX_GENERIC_XLOG_PAGES as usize) };
        pages.map(|(page, fresh)| {
            let flags = if fresh { pg_sys::GENERIC_XLOG_FULL_IMAGE as i32 } else { 0 };
            // SAFETY: the record has room for four pages and each is another one, so each copy is its own memory,
            // which lives as long as the record's state.
            unsafe {
                let copy = pg_sys::GenericXLogRegisterBuffer(self.state, page.buffer(), flags);
                std::slice::from_raw_parts_mut(copy.cast::<u8>(), PAGE_SIZE)
            }
        })
    }

    /// Logs the change and carries it out.
    pub(crate) fn commit(self) {
        let state = self.state;
        std::mem::forget(self);
        // SAFETY: begun by us, pages still locked by the caller.
        unsafe { pg_sys::GenericXLogFinish(state) };
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: begun by us and not finished.
            unsafe { pg_sys::GenericXLogAbort(self.state) }
        }
    }
}
