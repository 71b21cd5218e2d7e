//! Access method `treedb_btree` for indexes: an ordered tree in relation pages.
//!
//! | module | what it is |
//! |---|---|
//! | [`meta`] | block 0: where the tree begins |
//! | [`leaf`], [`leaf_entries`] | leaves: a sorted part and recent inserts; how they are written |
//! | [`column`], [`schema`] | values as bytes that order, entries, comparison |
//! | [`boundary`] | positions between entries, found in nodes |
//! | [`tree`] | descending and moving right under latches |
//! | [`insert`] | inserting, splitting, finishing splits |
//! | [`build`], [`sorter`] | building from a table: sort, fill pages, log them |
//! | [`range`], [`scan`] | conditions as ranges, reading them both ways |
//! | [`keyset_scan`] | reading an index of key sets for queries over documents |
//! | [`estimate`] | how many entries lie in a range |
//! | [`vacuum`] | removing entries and empty leaves |
//! | [`check`] | `treedb.check`: the tree by itself, and against its table both ways |
//! | [`inspect`] | `treedb.index_pages`: what each page holds |
//!
//! Branches are nodes of the engine's own format ([`treedb_formats::node`]); pages are those of [`crate::pages`]. Strategies are numbered as btree's, so that the planner
//! takes the order of a scan for that of the type. Unique indexes are the server's own btree's business.

use std::ffi::CStr;

use pgrx::pg_sys;
use treedb_query::access::Direction;

use crate::shim::catalog;
use crate::shim::error::{SqlState, fail};
use crate::shim::function::pg_function;
use crate::shim::index_build::{Build, IndexRow};
use crate::shim::index_method::{Capabilities, FindGone, Handler, IndexMethod, handler};
use crate::shim::index_scan::{Bitmap, Scan};
use crate::shim::relation::{Index, LockMode, OpenRelation, Table};
use crate::shim::snapshot;
use crate::shim::vacuum::Vacuum;

mod boundary;
mod build;
mod check;
mod column;
mod estimate;
mod insert;
mod inspect;
pub(crate) mod keyset_scan;
mod leaf;
mod leaf_entries;
mod meta;
mod range;
mod scan;
mod schema;
mod sorter;
mod tree;
mod vacuum;

use schema::Schema;

pg_function! {
    /// Handler of `CREATE ACCESS METHOD treedb_btree TYPE INDEX`.
    fn treedb_btree_handler(args: [Internal]) -> Handler {
        handler::<Btree>()
    }
}

/// Raises an error if a relation is not an index of this access method.
fn expect_own_index(relation: pg_sys::Oid) {
    if !is_own_index(relation) {
        fail(
            SqlState::ERRCODE_WRONG_OBJECT_TYPE,
            "not an index of treedb_btree",
            "Name an index created USING treedb_btree.",
        );
    }
}

/// Whether a relation is an index of this access method.
fn is_own_index(relation: pg_sys::Oid) -> bool {
    let open = OpenRelation::open(relation, LockMode::AccessShare);
    Some(open.get().access_method()) == catalog::index_access_method(c"treedb_btree")
}

/// The access method.
struct Btree;

impl IndexMethod for Btree {
    const NAME: &'static str = "treedb_btree";
    const CAPABILITIES: Capabilities = Capabilities {
        strategies: 5,
        support: 1,
        order: true,
        backward: true,
        multi_column: true,
        optional_key: true,
        search_array: true,
        search_nulls: true,
        clusterable: true,
    };

    type Inserting = Schema;
    type Scan = scan::State;

    fn build(build: &mut Build<'_>) -> u64 {
        build::build(build)
    }

    fn build_empty(index: Index<'_>) {
        build::build_empty(index)
    }

    fn phase_name(phase: i64) -> Option<&'static CStr> {
        match phase {
            1 => Some(c"initializing"),
            build::phase::SCAN => Some(c"scanning table"),
            build::phase::SORT => Some(c"sorting and writing pages"),
            _ => None,
        }
    }

    fn begin_insert(index: Index<'_>) -> Schema {
        Schema::of(index)
    }

    fn insert(schema: &Schema, table: Table<'_>, index: Index<'_>, row: &IndexRow<'_>, unchanged: bool) {
        insert::insert(schema, index, row, insert::Inserted { table, unchanged })
    }

    fn bulk_delete(vacuum: &mut Vacuum<'_>, find_gone: &mut FindGone<'_>) {
        vacuum::bulk_delete(vacuum, find_gone)
    }

    fn vacuum_cleanup(vacuum: &mut Vacuum<'_>) {
        vacuum::vacuum_cleanup(vacuum)
    }

    /// Not on a standby: there, nothing keeps a removed entry's address from being marked all-visible while a scan
    /// still has it.
    fn can_return(index: Index<'_>, column: usize) -> bool {
        !snapshot::in_recovery()
            && Schema::of(index).columns.get(column).is_some_and(|column| column.kind.decodes())
    }

    /// An index of key sets has rows more than once: only `treedb.find()` knows how to read it.
    fn is_plannable(index: Index<'_>) -> bool {
        !Schema::of(index).is_multikey()
    }

    fn height(index: Index<'_>) -> i32 {
        let schema = Schema::of(index);
        i32::from(tree::Tree::new(index, &schema).height())
    }

    /// An operator class is valid if its support function says a kind of column that there is.
    fn validate(support: Option<i32>) -> bool {
        match support {
            None => {
                pgrx::info!("operator class has no support function 1");
                false
            }
            Some(number) if column::Kind::from_number(number).is_none() => {
                pgrx::info!("support function 1 of the operator class names no kind of column");
                false
            }
            Some(_) => true,
        }
    }

    fn begin_scan(index: Index<'_>) -> scan::State {
        scan::State::begin(index)
    }

    fn rescan(state: &mut scan::State, index: Index<'_>) {
        state.end(index);
    }

    fn next(state: &mut scan::State, scan: &mut Scan<'_>, direction: Direction) -> bool {
        state.next(scan, direction)
    }

    fn bitmap(state: &mut scan::State, scan: &Scan<'_>, bitmap: &mut Bitmap<'_>) -> i64 {
        state.bitmap(scan, bitmap)
    }

    fn end_scan(state: &mut scan::State, index: Index<'_>) {
        state.end(index);
    }

    fn mark(state: &mut scan::State) {
        state.mark();
    }

    fn restore(state: &mut scan::State) {
        state.restore();
    }
}

/// Support function 1 of an operator class: which kind of column it is for.
macro_rules! kind_function {
    ($($name:ident = $number:literal),* $(,)?) => {
        $(pg_function! {
            /// The number of a kind of column; see [`column::Kind`].
            fn $name(args: []) -> i32 {
                $number
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
