//! Access method `treedb` for tables.
//!
//! Rows lie in heap's page format and are written, locked, pruned, frozen, logged and decoded by the server's own
//! exported functions; that is what makes UPDATE, ON CONFLICT, SSI, logical decoding, VACUUM and standby conflicts
//! right here. The routine is heap's, with the callbacks replaced that heap cannot lend to another access method:
//!
//! * [`index_build`]: `index_build_range_scan` and `index_validate_scan` (heap's refuse any other routine pointer)
//! * [`cluster`]: `relation_copy_for_cluster`, the same
//! * `relation_toast_am`: TOAST tables stay heap tables
//!
//! Scans begin with heap's `scan_begin`, so every callback that reads a `HeapScanDesc` may remain heap's.

use std::sync::OnceLock;

use pgrx::{pg_guard, pg_sys};

use crate::shim::function::pg_function;

mod cluster;
mod index_build;

/// A routine that lives as long as the backend, as the server wants it.
struct Routine(pg_sys::TableAmRoutine);

// SAFETY: a table of function pointers that is never written again.
unsafe impl Sync for Routine {}
// SAFETY: as above.
unsafe impl Send for Routine {}

static ROUTINE: OnceLock<Routine> = OnceLock::new();

/// Heap's routine with this access method's callbacks in place of what heap does not lend.
fn routine() -> &'static pg_sys::TableAmRoutine {
    let routine = ROUTINE.get_or_init(|| {
        // SAFETY: the server returns its static routine.
        let mut own = unsafe { *pg_sys::GetHeapamTableAmRoutine() };
        own.relation_toast_am = Some(toast_am);
        own.index_build_range_scan = Some(index_build::build_range_scan);
        own.index_validate_scan = Some(index_build::validate_scan);
        own.relation_copy_for_cluster = Some(cluster::copy_for_cluster);
        Routine(own)
    });
    &routine.0
}

/// TOAST tables are plain heap tables: the server's detoasting reads them directly.
#[pg_guard]
unsafe extern "C-unwind" fn toast_am(_relation: pg_sys::Relation) -> pg_sys::Oid {
    pg_sys::HEAP_TABLE_AM_OID
}

pg_function! {
    /// Handler of `CREATE ACCESS METHOD treedb TYPE TABLE`.
    fn treedb_table_handler(_args) {
        pg_sys::Datum::from(std::ptr::from_ref(routine()))
    }
}
