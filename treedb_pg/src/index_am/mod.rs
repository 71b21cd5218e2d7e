//! Access method `treedb_btree` for indexes: an ordered tree in relation pages.
//!
//! | module | what it is |
//! |---|---|
//! | [`page`], [`meta`] | the bytes of a page around the node, and of block 0 |
//! | [`column`], [`schema`] | values as bytes that order, entries, comparison |
//! | [`edge`] | places between entries, found in nodes |
//! | [`tree`] | walking down and right under latches |
//! | [`insert`] | inserting, splitting, finishing splits |
//! | [`build`], [`sorter`] | building from a table: sort, fill pages, log them |
//! | [`range`], [`scan`] | conditions as ranges, reading them both ways |
//! | [`walk`] | reading an index of key sets for queries over documents |
//! | [`vacuum`] | removing entries and empty leaves |
//! | [`check`] | `treedb.check`: the tree by itself, and against its table both ways |
//!
//! Nodes are the engine's own ([`treedb_formats::node`]). Strategies are numbered as btree's, so that the planner
//! takes the order of a scan for that of the type. Unique indexes are the server's own btree's business.

use std::ffi::c_char;

use pgrx::{PgBox, pg_guard, pg_sys};

use crate::shim::error::{SqlState, fail};
use crate::shim::function::pg_function;
use crate::shim::server;

mod build;
mod check;
mod column;
mod edge;
mod insert;
mod meta;
mod page;
mod range;
mod scan;
mod schema;
mod sorter;
mod tree;
mod vacuum;
pub(crate) mod walk;

use schema::Schema;

/// Cost of a path that must not be taken: above the server's own for disabled ones.
const NEVER: f64 = 1e30;

pg_function! {
    /// Handler of `CREATE ACCESS METHOD treedb_btree TYPE INDEX`.
    fn treedb_btree_handler(_args) {
        // SAFETY: the server copies the routine and frees it.
        let mut am = unsafe { PgBox::<pg_sys::IndexAmRoutine>::alloc_node(pg_sys::NodeTag::T_IndexAmRoutine) };
        am.amstrategies = 5;
        am.amsupport = 1;
        am.amcanorder = true;
        am.amcanbackward = true;
        am.amcanmulticol = true;
        am.amoptionalkey = true;
        am.amsearcharray = true;
        am.amsearchnulls = true;
        am.amclusterable = true;
        am.amkeytype = pg_sys::InvalidOid;
        am.amparallelvacuumoptions =
            (pg_sys::VACUUM_OPTION_PARALLEL_BULKDEL | pg_sys::VACUUM_OPTION_PARALLEL_COND_CLEANUP) as u8;
        am.ambuild = Some(build::build);
        am.ambuildempty = Some(build::build_empty);
        am.aminsert = Some(build::insert);
        am.ambulkdelete = Some(vacuum::bulk_delete);
        am.amvacuumcleanup = Some(vacuum::vacuum_cleanup);
        am.amcanreturn = Some(can_return);
        am.amcostestimate = Some(cost_estimate);
        am.amoptions = Some(options);
        am.ambuildphasename = Some(build_phase_name);
        am.amvalidate = Some(validate);
        am.ambeginscan = Some(scan::begin_scan);
        am.amrescan = Some(scan::rescan);
        am.amgettuple = Some(scan::get_tuple);
        am.amgetbitmap = Some(scan::get_bitmap);
        am.amendscan = Some(scan::end_scan);
        am.ammarkpos = Some(scan::mark);
        am.amrestrpos = Some(scan::restore);
        pg_sys::Datum::from(am.into_pg())
    }
}

/// Whether an index-only scan may take a column's value from the entry. Not on a standby: there, nothing keeps a
/// removed entry's address from being marked all-visible while a scan still has it.
#[pg_guard]
unsafe extern "C-unwind" fn can_return(index: pg_sys::Relation, column: i32) -> bool {
    // SAFETY: a plain question to the server.
    if unsafe { pg_sys::RecoveryInProgress() } {
        return false;
    }
    let number = usize::try_from(column).unwrap_or(0).wrapping_sub(1);
    Schema::of(index).columns.get(number).is_some_and(|column| column.kind.decodes())
}

/// `amcostestimate`.
#[pg_guard]
#[allow(clippy::too_many_arguments)]
unsafe extern "C-unwind" fn cost_estimate(
    root: *mut pg_sys::PlannerInfo,
    path: *mut pg_sys::IndexPath,
    loop_count: f64,
    startup: *mut pg_sys::Cost,
    total: *mut pg_sys::Cost,
    selectivity: *mut pg_sys::Selectivity,
    correlation: *mut f64,
    pages: *mut f64,
) {
    // SAFETY: called by the planner with an index it has locked.
    unsafe {
        server::btcostestimate(root, path, loop_count, startup, total, selectivity, correlation, pages);
        let index = pg_sys::index_open((*(*path).indexinfo).indexoid, pg_sys::NoLock as i32);
        let multi = Schema::of(index).multi();
        pg_sys::index_close(index, pg_sys::NoLock as i32);
        if multi {
            // Rows come more than once: only treedb.find() knows how to read it.
            (*startup, *total) = (NEVER, NEVER);
        }
    }
}

/// `amoptions`: there are none.
#[pg_guard]
unsafe extern "C-unwind" fn options(options: pg_sys::Datum, validate: bool) -> *mut pg_sys::bytea {
    if validate && options.value() != 0 {
        fail(
            SqlState::ERRCODE_INVALID_PARAMETER_VALUE,
            "treedb_btree indexes have no storage parameters",
            "Leave the WITH clause out.",
        );
    }
    std::ptr::null_mut()
}

/// `ambuildphasename`, for `pg_stat_progress_create_index`.
#[pg_guard]
unsafe extern "C-unwind" fn build_phase_name(phase: i64) -> *mut c_char {
    let name = match phase {
        1 => c"initializing",
        build::phase::SCAN => c"scanning table",
        build::phase::SORT => c"sorting and writing pages",
        _ => return std::ptr::null_mut(),
    };
    name.as_ptr().cast_mut()
}

/// `amvalidate`: an operator class is valid if its support function says a kind of column that there is.
#[pg_guard]
unsafe extern "C-unwind" fn validate(class: pg_sys::Oid) -> bool {
    // SAFETY: catalog look-ups and a call of a function without arguments.
    unsafe {
        let family = pg_sys::get_opclass_family(class);
        let input = pg_sys::get_opclass_input_type(class);
        let function = pg_sys::get_opfamily_proc(family, input, input, 1);
        if function == pg_sys::InvalidOid {
            pgrx::info!("operator class has no support function 1");
            return false;
        }
        let number = pg_sys::OidFunctionCall0Coll(function, pg_sys::InvalidOid).value() as i32;
        if column::Kind::from_number(number).is_none() {
            pgrx::info!("support function 1 of the operator class names no kind of column");
            return false;
        }
        true
    }
}

/// Support function 1 of an operator class: which kind of column it is for.
macro_rules! kind_function {
    ($($name:ident = $number:literal),* $(,)?) => {
        $(pg_function! {
            /// The number of a kind of column; see [`column::Kind`].
            fn $name(_args) {
                pg_sys::Datum::from($number)
            }
        })*
    };
}

kind_function!(
    treedb_kind_int2 = 1,
    treedb_kind_int4 = 2,
    treedb_kind_int8 = 3,
    treedb_kind_float4 = 4,
    treedb_kind_float8 = 5,
    treedb_kind_text = 6,
    treedb_kind_uuid = 7,
    treedb_kind_value = 8,
    treedb_kind_keyset = 9,
);
