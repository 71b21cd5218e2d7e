//! Functions of the server whose headers the generated bindings do not read.

// The wrappers that the guard makes take as many arguments as the server's functions do.
#![allow(clippy::too_many_arguments)]

use std::cmp::Ordering;

use pgrx::pg_sys;

#[pgrx::pg_guard]
unsafe extern "C-unwind" {
    /// True if a collation orders by bytes.
    fn lc_collate_is_c(collation: pg_sys::Oid) -> bool;
    /// A hash of 32 bits.
    fn hash_bytes(bytes: *const u8, len: i32) -> u32;
    /// A hash of 64 bits.
    fn hash_bytes_extended(bytes: *const u8, len: i32, seed: u64) -> u64;
    /// Notes that a serializable transaction has read a relation.
    #[link_name = "PredicateLockRelation"]
    pub(super) fn predicate_lock_relation(relation: pg_sys::Relation, snapshot: pg_sys::Snapshot);
    /// The planner's cost of a btree path: what it says holds for any ordered tree with btree's strategy numbers.
    pub(super) fn btcostestimate(
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

/// Whether a collation orders by bytes.
pub(crate) fn orders_by_bytes(collation: pg_sys::Oid) -> bool {
    // SAFETY: a look-up, an error if there is no such collation.
    unsafe { lc_collate_is_c(collation) }
}

/// The order of two texts in a collation.
pub(crate) fn compare_text(a: &[u8], b: &[u8], collation: pg_sys::Oid) -> Ordering {
    // SAFETY: the server reads exactly that many bytes of each.
    let order = unsafe {
        pg_sys::varstr_cmp(
            a.as_ptr().cast::<std::ffi::c_char>().cast_mut(),
            a.len() as i32,
            b.as_ptr().cast::<std::ffi::c_char>().cast_mut(),
            b.len() as i32,
            collation,
        )
    };
    order.cmp(&0)
}

/// The server's hash of some bytes, as a hash support function returns it.
pub(crate) fn hash(bytes: &[u8]) -> i32 {
    // SAFETY: the server reads `len` bytes.
    unsafe { hash_bytes(bytes.as_ptr(), i32::try_from(bytes.len()).unwrap_or(i32::MAX)) as i32 }
}

/// The same of 64 bits, with the seed that was passed.
pub(crate) fn hash_extended(bytes: &[u8], seed: i64) -> i64 {
    let len = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
    // SAFETY: as above.
    unsafe { hash_bytes_extended(bytes.as_ptr(), len, seed as u64) as i64 }
}
