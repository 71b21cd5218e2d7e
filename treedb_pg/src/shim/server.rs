//! Functions of the server whose headers the generated bindings do not read.

use pgrx::pg_sys;

#[pgrx::pg_guard]
unsafe extern "C-unwind" {
    /// True if a collation orders by bytes.
    pub(crate) fn lc_collate_is_c(collation: pg_sys::Oid) -> bool;
    /// The planner's cost of a btree path: what it says holds for any ordered tree with btree's strategy numbers.
    pub(crate) fn btcostestimate(
        root: *mut pg_sys::PlannerInfo,
        path: *mut pg_sys::IndexPath,
        loop_count: f64,
        startup: *mut pg_sys::Cost,
        total: *mut pg_sys::Cost,
        selectivity: *mut pg_sys::Selectivity,
        correlation: *mut f64,
        pages: *mut f64,
    );
}
