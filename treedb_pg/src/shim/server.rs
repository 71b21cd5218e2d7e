//! Functions of the server whose headers the generated bindings do not read.

// The wrappers that the guard makes take as many arguments as the server's functions do.
#![allow(clippy::too_many_arguments)]

use std::cmp::Ordering;

use pgrx::pg_sys;

use super::{compat, unguarded};

#[pgrx::pg_guard]
unsafe extern "C-unwind" {
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
    compat::orders_by_bytes(collation)
}

/// Whether texts that are equal in a collation have the same bytes.
pub(crate) fn is_deterministic(collation: pg_sys::Oid) -> bool {
    // SAFETY: a look-up, an error if there is no such collation.
    collation == pg_sys::InvalidOid || unsafe { pg_sys::get_collation_isdeterministic(collation) }
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

/// Bytes that one step of a plan may take in memory.
pub(crate) fn work_mem() -> usize {
    // SAFETY: a setting, which is read by the thread that changes it.
    usize::try_from(unsafe { pg_sys::work_mem }).unwrap_or(0).saturating_mul(1024)
}

/// When the running statement began, in microseconds.
pub(crate) fn statement_start() -> i64 {
    // SAFETY: a plain question to the server.
    unsafe { pg_sys::GetCurrentStatementStartTimestamp() }
}

/// The planner's cost settings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Costs {
    pub(crate) seq_page: f64,
    pub(crate) random_page: f64,
    pub(crate) tuple: f64,
    pub(crate) index_tuple: f64,
    pub(crate) operator: f64,
    /// To begin with workers.
    pub(crate) parallel_setup: f64,
}

/// The planner's cost settings as they are now.
pub(crate) fn costs() -> Costs {
    // SAFETY: settings, which are read by the thread that changes them.
    unsafe {
        Costs {
            seq_page: pg_sys::seq_page_cost,
            random_page: pg_sys::random_page_cost,
            tuple: pg_sys::cpu_tuple_cost,
            index_tuple: pg_sys::cpu_index_tuple_cost,
            operator: pg_sys::cpu_operator_cost,
            parallel_setup: pg_sys::parallel_setup_cost,
        }
    }
}

/// What estimates are made with that may change within a statement, as the server counts them, or within a function: settings of the planner,
/// the user, and what the transaction has written.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Premises {
    costs: Costs,
    /// How many workers scans have: at most so many, by the size of what they read, with the leader or without it.
    workers: (i32, i32, bool),
    user: pg_sys::Oid,
    /// The number of the transaction in this backend, and how many of its commands have written.
    command: (u32, u32),
}

/// The present ones.
pub(crate) fn premises() -> Premises {
    // SAFETY: settings and the state of the backend, which are read by the thread that changes them.
    unsafe {
        let (most, least_size) =
            (pg_sys::max_parallel_workers_per_gather, pg_sys::min_parallel_table_scan_size);
        Premises {
            costs: costs(),
            workers: (most, least_size, pg_sys::parallel_leader_participation),
            user: unguarded::GetUserId(),
            command: (compat::transaction_number(), pg_sys::GetCurrentCommandId(false)),
        }
    }
}
