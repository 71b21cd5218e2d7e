//! Changes to pages as atomic WAL records.
//!
//! A [`Change`] works on copies of up to four pages, which it borrows exclusively until it ends. Committing writes one
//! generic WAL record and puts the copies in place; dropping it leaves the pages as they were. So an error in the
//! middle of a change, a Rust panic included, never leaves half of it behind. On a standby, redo locks the pages in
//! the order in which they were registered: parents before children, left before right, the order in which readers
//! lock there.

use std::marker::PhantomData;

use pgrx::pg_sys;

use super::buffer::{Exclusive, PAGE_SIZE, Page};
use super::relation::Index;

/// What happens to the content that a page has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// Changed here and there: the record has the bytes that changed.
    Edited,
    /// Written anew: the record has the whole page.
    Replaced,
}

/// A change being prepared, of pages that are locked for `'p`.
pub(crate) struct Change<'p> {
    state: *mut pg_sys::GenericXLogState,
    pages: PhantomData<&'p mut Page<Exclusive>>,
}

impl<'p> Change<'p> {
    /// Begins a change of pages of `index`.
    pub(crate) fn begin(index: Index<'_>) -> Change<'p> {
        // SAFETY: an open relation.
        Change { state: unsafe { pg_sys::GenericXLogStart(index.raw()) }, pages: PhantomData }
    }

    /// Registers all pages of the change, at most four, and returns their copies in the same order.
    pub(crate) fn pages<const N: usize>(
        &mut self,
        pages: [(&'p mut Page<Exclusive>, Content); N],
    ) -> [&mut [u8]; N] {
        const { assert!(N <= pg_sys::MAX_GENERIC_XLOG_PAGES as usize) };
        pages.map(|(page, content)| {
            let flags = if content == Content::Replaced { pg_sys::GENERIC_XLOG_FULL_IMAGE as i32 } else { 0 };
            // SAFETY: each page is another one, being borrowed exclusively for longer than the record is prepared,
            // so each copy is its own memory (an error if there are more than four). The copies live as long as the
            // state, which ends with `self`.
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
        // SAFETY: begun by us; the pages are still locked, and nobody has a view of them.
        unsafe { pg_sys::GenericXLogFinish(state) };
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: begun by us and not finished.
            unsafe { pg_sys::GenericXLogAbort(self.state) }
        }
    }
}

/// Logs every page of the main fork as a whole, if changes of the index are logged: the end of a build.
pub(crate) fn log_pages(index: Index<'_>) {
    if index.needs_wal() {
        let (fork, blocks) = (pg_sys::ForkNumber::MAIN_FORKNUM, index.blocks());
        // SAFETY: an open relation, all of whose blocks have been written and none of which is locked by us.
        unsafe { pg_sys::log_newpage_range(index.raw(), fork, 0, blocks, true) };
    }
}
