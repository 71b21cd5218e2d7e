//! Functions of the server whose headers the generated bindings do not read.

use pgrx::pg_sys;

#[pgrx::pg_guard]
unsafe extern "C-unwind" {
    /// True if a collation orders by bytes.
    pub(crate) fn lc_collate_is_c(collation: pg_sys::Oid) -> bool;
    /// A hash of 32 bits.
    pub(crate) fn hash_bytes(bytes: *const u8, len: i32) -> u32;
    /// A hash of 64 bits.
    pub(crate) fn hash_bytes_extended(bytes: *const u8, len: i32, seed: u64) -> u64;
    /// Notes that a serializable transaction has read a relation.
    pub(crate) fn PredicateLockRelation(relation: pg_sys::Relation, snapshot: pg_sys::Snapshot);
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

/// The server's hash of some bytes, as a hash support function returns it.
pub(crate) fn hash(bytes: &[u8]) -> pg_sys::Datum {
    // SAFETY: the server reads `len` bytes.
    let hash = unsafe { hash_bytes(bytes.as_ptr(), i32::try_from(bytes.len()).unwrap_or(i32::MAX)) };
    pg_sys::Datum::from(hash)
}

/// The same of 64 bits, with the seed that was passed.
pub(crate) fn hash_extended(bytes: &[u8], seed: pg_sys::Datum) -> pg_sys::Datum {
    let len = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
    // SAFETY: as above.
    let hash = unsafe { hash_bytes_extended(bytes.as_ptr(), len, seed.value() as u64) };
    pg_sys::Datum::from(hash as usize)
}

/// Counts a scan of an index in `pg_stat_user_indexes`.
pub(crate) fn count_index_scan(index: pg_sys::Relation) {
    // SAFETY: an open index. Its counters exist from the first time on that something is counted.
    unsafe {
        if (*index).pgstat_info.is_null() && (*index).pgstat_enabled {
            pg_sys::pgstat_assoc_relation(index);
        }
        if let Some(info) = (*index).pgstat_info.as_mut() {
            info.t_counts.t_numscans += 1;
        }
    }
}
