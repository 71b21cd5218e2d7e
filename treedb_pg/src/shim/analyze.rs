//! ANALYZE of a type's columns: statistics of our own beside the server's.
//!
//! The server asks the `typanalyze` function of a column's type how to analyze it. Ours lets the server collect what it
//! does for any type (NULLs, width, different and common values) and adds a slot to the column's row in `pg_statistic`,
//! whose values are of the column's type. Slots have kinds, and those from 10,000 to 30,000 are free for private use; the
//! view `pg_stats` does not show them. The row belongs to the column: DROP, TRUNCATE and ALTER TABLE treat it as any.

use std::marker::PhantomData;
use std::ptr;

use pgrx::pg_sys;

use super::compat;
use super::datum::{Datum, Layout};
use super::error_frame::guarded;
use super::function::Args;
use super::memory::Memory;

/// What a type adds to the statistics of its columns.
pub(crate) trait ColumnAnalysis: 'static {
    /// The kind of the slot.
    const KIND: i16;

    /// The values of the slot for a column of a table of `rows` rows, with at most `target` entries to a list.
    fn statistics(sample: &SampledColumn<'_>, rows: f64, target: usize) -> Vec<Vec<u8>>;
}

/// The values of a column in the rows that ANALYZE has sampled.
pub(crate) struct SampledColumn<'a> {
    stats: pg_sys::VacAttrStatsP,
    fetch: pg_sys::AnalyzeAttrFetchFunc,
    rows: i32,
    lifetime: PhantomData<&'a ()>,
}

impl SampledColumn<'_> {
    /// How many rows there are.
    pub(crate) fn rows(&self) -> usize {
        usize::try_from(self.rows).unwrap_or(0)
    }

    /// The table, which is locked, and the number of the column; `None` if the values are those of an expression.
    pub(crate) fn column(&self) -> Option<(pg_sys::Oid, i16)> {
        // SAFETY: the statistics of a column that is analyzed, whose table's description stays as it is; an expression has none.
        unsafe {
            let stats = &*self.stats;
            let at = usize::try_from(stats.tupattnum - 1).ok()?;
            if stats.tupDesc.is_null() || !stats.exprvals.is_null() {
                return None;
            }
            let column = compat::attribute(stats.tupDesc, at);
            Some((column.attrelid, column.attnum))
        }
    }

    /// The value in row number `row`; `None` for NULL, and where there is no such row.
    pub(crate) fn value(&self, row: usize) -> Option<Datum<'_>> {
        compat::vacuum_delay(true);
        let (fetch, row) = (self.fetch?, i32::try_from(row).ok().filter(|row| *row < self.rows)?);
        let mut null = false;
        // SAFETY: the server's function for the rows it has sampled, which it keeps until all columns are analyzed. It is
        // called as the server's functions are.
        unsafe {
            let (stats, null) = (self.stats, &raw mut null);
            let value = pg_sys::ffi::pg_guard_ffi_boundary(|| fetch(stats, row, null));
            (!*null).then(|| Datum::from_raw(value, Layout::Varlena))
        }
    }
}

/// What the server's own way to analyze a column needs again.
struct Standard {
    compute: pg_sys::AnalyzeAttrComputeStatsFunc,
    data: *mut std::ffi::c_void,
}

impl Args {
    /// Prepares the analysis of a column, as the `typanalyze` function of its type. False if it is not to be analyzed.
    pub(crate) fn prepare_analysis<T: ColumnAnalysis>(&self) -> bool {
        let Some(stats) = self.internal(0) else { return false };
        // SAFETY: SQL cannot call a function with an argument of type internal; the server calls such functions with the
        // statistics of a column, whose context lives until they have been stored.
        unsafe {
            let stats = stats.cast_mut_ptr::<pg_sys::VacAttrStats>();
            if !pg_sys::std_typanalyze(stats) {
                return false;
            }
            let own = pg_sys::MemoryContextAlloc((*stats).anl_context, size_of::<Standard>());
            let own = own.cast::<Standard>();
            own.write(Standard { compute: (*stats).compute_stats, data: (*stats).extra_data });
            (*stats).compute_stats = Some(compute::<T>);
            (*stats).extra_data = own.cast();
            true
        }
    }
}

fn guarded_callback(work: impl FnOnce()) {
    // SAFETY: only called by the callback below, which has no frame with a destructor outside of it.
    unsafe { guarded(work) }
}

unsafe extern "C-unwind" fn compute<T: ColumnAnalysis>(
    stats: pg_sys::VacAttrStatsP,
    fetch: pg_sys::AnalyzeAttrFetchFunc,
    sampled: i32,
    rows: f64,
) {
    guarded_callback(|| {
        // SAFETY: the server calls this with the statistics that were prepared above.
        unsafe {
            let own = (*stats).extra_data.cast::<Standard>();
            if let Some(compute) = (*own).compute {
                (*stats).extra_data = (*own).data;
                pg_sys::ffi::pg_guard_ffi_boundary(|| compute(stats, fetch, sampled, rows));
                (*stats).extra_data = own.cast();
            }
            if !(*stats).stats_valid {
                return;
            }
            // The server samples 300 rows for each entry that a list may have.
            let target = usize::try_from((*stats).minrows).unwrap_or(0) / 300;
            let sample = SampledColumn { stats, fetch, rows: sampled, lifetime: PhantomData };
            let values = T::statistics(&sample, rows, target.max(1));
            let slots = (*stats).stakind.len();
            let Some(slot) = (0..slots).find(|slot| (&(*stats).stakind)[*slot] == 0) else { return };
            let size = size_of::<pg_sys::Datum>() * values.len().max(1);
            let list = pg_sys::MemoryContextAlloc((*stats).anl_context, size).cast::<pg_sys::Datum>();
            let memory = Memory::of((*stats).anl_context);
            for (at, value) in values.iter().enumerate() {
                list.add(at).write(memory.varlena(value).raw());
            }
            (&mut (*stats).stakind)[slot] = T::KIND;
            (&mut (*stats).numvalues)[slot] = values.len() as i32;
            (&mut (*stats).stavalues)[slot] = list;
        }
    });
}

/// The values of the slot of a kind in the statistics of a column; none if there is no such slot.
pub(crate) fn stored(table: pg_sys::Oid, column: i16, kind: i16) -> Vec<Vec<u8>> {
    // SAFETY: a catalog look-up; the row is released when the slot, which is a copy, has been read.
    unsafe {
        let row = pg_sys::SearchSysCache3(
            pg_sys::SysCacheIdentifier::STATRELATTINH as i32,
            table.into(),
            pg_sys::Datum::from(column),
            pg_sys::Datum::from(false),
        );
        if row.is_null() {
            return Vec::new();
        }
        let mut slot = pg_sys::AttStatsSlot::default();
        let found = pg_sys::get_attstatsslot(
            ptr::from_mut(&mut slot),
            row,
            i32::from(kind),
            pg_sys::InvalidOid,
            pg_sys::ATTSTATSSLOT_VALUES as i32,
        );
        let mut values = Vec::new();
        if found {
            for at in 0..usize::try_from(slot.nvalues).unwrap_or(0) {
                values.push(Datum::from_raw(*slot.values.add(at), Layout::Varlena).bytes().to_vec());
            }
            pg_sys::free_attstatsslot(ptr::from_mut(&mut slot));
        }
        pg_sys::ReleaseSysCache(row);
        values
    }
}
