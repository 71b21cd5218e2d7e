//! Access method `treedb` for tables: heap's routine with four callbacks replaced. It stores, reads and logs nothing
//! differently; it is here for the sealed pages to come, which will need callbacks of their own.
//!
//! The four are those that heap cannot lend to another access method:
//!
//! * [`index_build`]: `index_build_range_scan` and `index_validate_scan` (heap's refuse any other routine pointer)
//! * [`cluster`]: `relation_copy_for_cluster`, the same
//! * `relation_toast_am`: TOAST tables stay heap tables
//!
//! Scans begin with heap's `scan_begin`, so every callback that reads a `HeapScanDesc` may remain heap's.

use std::sync::OnceLock;

use crate::shim::function::pg_function;
use crate::shim::rewrite::Copy;
use crate::shim::table_method::{Handler, RangeBuild, Routine, TableMethod, Validation, handler};

mod cluster;
mod index_build;

/// The access method.
struct Treedb;

impl TableMethod for Treedb {
    fn build_range_scan(build: &mut RangeBuild<'_>) -> f64 {
        index_build::build_range_scan(build)
    }

    fn validate_scan(validation: &mut Validation<'_>) {
        index_build::validate_scan(validation)
    }

    fn copy_for_cluster(copy: &mut Copy<'_>) {
        cluster::copy_for_cluster(copy)
    }
}

static ROUTINE: OnceLock<Routine> = OnceLock::new();

pg_function! {
    /// Handler of `CREATE ACCESS METHOD treedb TYPE TABLE`.
    fn treedb_table_handler(args: [Internal]) -> Handler {
        handler::<Treedb>(&ROUTINE)
    }
}
