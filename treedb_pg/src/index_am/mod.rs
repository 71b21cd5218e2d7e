//! Access method `treedb_btree` for indexes: an ordered tree in relation pages.
//!
//! | module | what it is |
//! |---|---|
//! | [`meta`] | block 0: where the tree begins |
//! | [`leaf`], [`leaf_entries`] | leaves: a sorted part and recent inserts; how they are written |
//! | [`kind`], [`column`], [`stored`], [`schema`] | values as bytes, entries, comparison |
//! | [`boundary`] | positions between entries, found in nodes |
//! | [`separators`] | separators of branches, compressed ones too |
//! | [`tree`] | descending and moving right under latches |
//! | [`insert`], [`dead_entries`] | inserting, splitting, finishing splits; making room instead |
//! | [`build`], [`sorter`] | building from a table: sort, fill pages, log them |
//! | [`argument`], [`range`] | what columns are compared with, conditions as ranges |
//! | [`entry_reader`], [`cursor`] | reading ranges both ways; where a scan is, and what it keeps of a leaf |
//! | [`scan`], [`batch`] | scans of the server's; entries read ahead for them |
//! | [`parallel_scan`] | sharing the leaves of a scan among processes |
//! | [`keyset_scan`] | reading an index of key sets for queries over documents |
//! | [`unique_keys`] | key sets that no two documents share: the operator `&&`, and who waits for whom |
//! | [`estimate`] | how many entries lie in a range |
//! | [`vacuum`], [`leaf_removal`] | removing entries and empty leaves |
//! | [`check`], [`check_tree`] | `treedb.check`: the tree by itself, and against its table both ways |
//! | [`inspect`] | `treedb.index_pages`: what each page holds |
//!
//! Branches are nodes of the engine's own format ([`treedb_formats::node`]); pages are those of [`crate::pages`]. Strategies are numbered as btree's, so that the planner
//! takes the order of a scan for that of the type; 6 is `&&` of key sets. Unique indexes are the server's own btree's
//! business, but for those of key sets, which are exclusion constraints.

use std::ffi::CStr;

use pgrx::pg_sys;
use treedb_query::access::Direction;

use crate::shim::catalog;
use crate::shim::error::{SqlState, fail};
use crate::shim::function::pg_function;
use crate::shim::index_build::{Build, IndexRow};
use crate::shim::index_method::{Capabilities, FindGone, Handler, IndexMethod, IndexWrites, handler};
use crate::shim::index_scan::{Bitmap, Scan};
use crate::shim::parallel_build::{Part, build_worker};
use crate::shim::relation::{Index, Table};
use crate::shim::snapshot;
use crate::shim::vacuum::Vacuum;

mod argument;
mod batch;
mod boundary;
mod build;
mod check;
mod check_tree;
mod column;
mod cursor;
mod dead_entries;
mod entry_reader;
mod estimate;
mod insert;
mod inspect;
pub(crate) mod keyset_scan;
mod kind;
mod leaf;
mod leaf_entries;
mod leaf_removal;
mod meta;
mod parallel_scan;
mod range;
mod scan;
mod schema;
mod separators;
mod sorter;
mod stored;
mod tree;
mod unique_keys;
mod vacuum;

use kind::Kind;
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
    catalog::is_index_of(relation, c"treedb_btree")
}

/// The access method.
struct Btree;

build_worker!(treedb_btree_build_part, Btree);

impl IndexWrites for Btree {
    type Inserting = insert::Inserter;

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
            build::phase::SORT => Some(c"sorting live tuples"),
            build::phase::LOAD => Some(c"loading tuples in tree"),
            _ => None,
        }
    }

    fn begin_insert(index: Index<'_>) -> insert::Inserter {
        insert::Inserter::new(index)
    }

    fn insert(
        inserter: &insert::Inserter,
        table: Table<'_>,
        index: Index<'_>,
        row: &IndexRow<'_>,
        unchanged: bool,
    ) {
        inserter.insert(index, row, insert::Inserted { table, unchanged })
    }

    fn bulk_delete(vacuum: &mut Vacuum<'_>, find_gone: &mut FindGone<'_>) {
        vacuum::bulk_delete(vacuum, find_gone)
    }

    fn vacuum_cleanup(vacuum: &mut Vacuum<'_>) {
        vacuum::vacuum_cleanup(vacuum)
    }
}

impl IndexMethod for Btree {
    const CAPABILITIES: Capabilities = Capabilities {
        strategies: 6,
        order: true,
        backward: true,
        multi_column: true,
        optional_key: true,
        search_array: true,
        search_nulls: true,
        clusterable: true,
        include: true,
        parallel: true,
    };

    type Scan = scan::State;

    fn build_part(part: &mut Part<'_>) {
        build::build_part(part)
    }

    /// Not on a standby: there, nothing keeps a removed entry's address from being marked all-visible while a scan
    /// still has it.
    fn can_return(index: Index<'_>, column: usize) -> bool {
        !snapshot::in_recovery() && Schema::of(index).returns(column)
    }

    /// An index of key sets has rows more than once: only `treedb.find()` knows how to read it.
    fn is_plannable(index: Index<'_>) -> bool {
        !Schema::of(index).is_multikey()
    }

    fn height(index: Index<'_>) -> i32 {
        let schema = Schema::of(index);
        tree::Tree::new(index, &schema).known_height().map_or(-1, i32::from)
    }

    fn check_kind(kind: i32, len: i16, by_value: bool) -> Result<bool, String> {
        let kind = Kind::from_number(kind)
            .ok_or_else(|| format!("support function 11 returns {kind}, which is no kind of column"))?;
        if !kind.fits(len, by_value) {
            return Err(format!(
                "support function 11 says {kind:?}, but the type is not stored as that kind is"
            ));
        }
        Ok(kind != Kind::Keys)
    }

    fn begin_scan(index: Index<'_>) -> scan::State {
        scan::State::begin(index)
    }

    fn rescan(state: &mut scan::State, index: Index<'_>) {
        state.end(index);
    }

    fn next_at_hand(state: &mut scan::State, scan: &mut Scan<'_>, direction: Direction) -> bool {
        state.next_at_hand(scan, direction)
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

    fn mark_at_hand(state: &mut scan::State) -> bool {
        state.mark_at_hand()
    }

    fn mark(state: &mut scan::State) {
        state.mark();
    }

    fn restore(state: &mut scan::State) {
        state.restore();
    }
}
