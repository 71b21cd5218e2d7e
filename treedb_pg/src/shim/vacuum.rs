//! The server's description of a vacuum of one index.

use pgrx::pg_sys;

use super::buffer::Strategy;
use super::relation::Index;

/// A vacuum of an index.
pub(crate) struct Vacuum<'c> {
    info: &'c pg_sys::IndexVacuumInfo,
    /// What is counted: plain numbers.
    pub(crate) stats: &'c mut pg_sys::IndexBulkDeleteResult,
}

impl<'c> Vacuum<'c> {
    /// # Safety
    /// What the server passes to `ambulkdelete` and `amvacuumcleanup`; nobody else uses `stats` for `'c`.
    pub(super) unsafe fn from_raw(
        info: *mut pg_sys::IndexVacuumInfo,
        stats: *mut pg_sys::IndexBulkDeleteResult,
    ) -> Vacuum<'c> {
        // SAFETY: the caller's.
        unsafe { Vacuum { info: &*info, stats: &mut *stats } }
    }

    /// The index.
    pub(crate) fn index(&self) -> Index<'c> {
        // SAFETY: open and locked during the callback.
        unsafe { Index::from_raw(self.info.index) }
    }

    /// The buffers to read pages through.
    pub(crate) fn strategy(&self) -> Strategy<'c> {
        // SAFETY: the server's, for the vacuum.
        unsafe { Strategy::from_raw(self.info.strategy) }
    }
}

/// Sleeps as the settings for the cost of a vacuum ask for, and takes interrupts.
pub(crate) fn delay() {
    super::compat::vacuum_delay(false);
}
