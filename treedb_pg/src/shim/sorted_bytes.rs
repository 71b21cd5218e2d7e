//! Sorting strings of bytes as the server sorts: in `work_mem`, and in temporary files beyond it.

use std::ptr;

use pgrx::pg_sys;

use super::compat;
use super::datum::{Bytes, Datum, Layout};
use super::memory::aligned_varlena;
use super::release::may_release;

/// Strings of bytes: first all are added, then they come in order.
pub(crate) struct SortedBytes {
    sort: *mut pg_sys::Tuplesortstate,
    /// Whether all have been added.
    sorted: bool,
}

impl SortedBytes {
    /// A sort whose memory is that of the context that is current now.
    pub(crate) fn begin() -> SortedBytes {
        const NO_OPTIONS: i32 = 0;
        // SAFETY: the type has an order, without a collation; no other process takes part.
        let sort = unsafe {
            let kind = pg_sys::lookup_type_cache(pg_sys::BYTEAOID, pg_sys::TYPECACHE_LT_OPR as i32);
            let (none, memory) = (pg_sys::InvalidOid, pg_sys::work_mem);
            pg_sys::tuplesort_begin_datum(
                pg_sys::BYTEAOID,
                (*kind).lt_opr,
                none,
                false,
                memory,
                ptr::null_mut(),
                NO_OPTIONS,
            )
        };
        SortedBytes { sort, sorted: false }
    }

    /// Adds a string; not after one was taken.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let value = aligned_varlena(bytes);
        // SAFETY: our own sort, which copies the value.
        unsafe {
            pg_sys::tuplesort_putdatum(self.sort, pg_sys::Datum::from(value.as_ptr().cast_mut()), false)
        }
    }

    /// The least of those that have not been taken yet; `None` if there is none.
    pub(crate) fn next(&mut self) -> Option<Bytes<'_>> {
        // SAFETY: our own sort, performed once; the value is alive until the next one is taken.
        unsafe {
            if !self.sorted {
                self.sorted = true;
                pg_sys::tuplesort_performsort(self.sort);
            }
            compat::sorted_datum(self.sort).map(|value| Datum::from_raw(value, Layout::Varlena).bytes())
        }
    }
}

impl Drop for SortedBytes {
    fn drop(&mut self) {
        if may_release() {
            // SAFETY: our own sort, ended once.
            unsafe { pg_sys::tuplesort_end(self.sort) }
        }
    }
}
