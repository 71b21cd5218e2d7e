//! Access method `treedb_hnsw` for indexes: a navigable graph of vectors in relation pages, for
//! `ORDER BY embedding <-> '{..}' LIMIT 10`.
//!
//! | module | what it is |
//! |---|---|
//! | [`kind`] | operator classes: metrics, types of columns |
//! | [`value`] | vectors as SQL has them; the distance functions |
//! | [`meta`], [`record`] | block 0; what the other pages hold |
//! | [`graph`] | reading the graph |
//! | [`upper`] | what a backend remembers of the levels above 0 |
//! | [`writer`] | changing it: inserts, removals, free slots |
//! | [`build`] | building an index from a table |
//! | [`centre`] | what codes are about where vectors are much alike |
//! | [`spilled`] | vectors of a build that has no memory for them |
//! | [`scan`] | reading rows by distance |
//! | [`vacuum`] | removing nodes of rows that are gone |
//! | [`check`] | `treedb.check` |
//!
//! The algorithms are those of [`treedb_vector`]; pages are those of [`crate::pages`]. An index does not hold rows whose
//! vector is NULL nor, under cosine distance, whose vector has no direction. A row with several vectors (an array of two
//! dimensions) has a node for each; a scan returns it once, when it comes to the nearest of them.

use std::ffi::CStr;

use pgrx::pg_sys;

use crate::shim::catalog;
use crate::shim::distance_method::{DistanceMethod, Target, handler};
use crate::shim::function::pg_function;
use crate::shim::index_build::{Build, IndexRow};
use crate::shim::index_method::{FindGone, Handler, IndexWrites};
use crate::shim::relation::{Index, Relation, Table};
use crate::shim::vacuum::Vacuum;

mod build;
mod centre;
mod check;
mod graph;
mod kind;
mod meta;
mod record;
mod scan;
mod spilled;
mod upper;
mod vacuum;
mod value;
mod writer;

pub(crate) use check::check;
use graph::Graph;
use kind::Kind;
pub(crate) use kind::metric_of_own_type;
use meta::Meta;
pub(crate) use scan::compared_by_last_scan;
pub(crate) use value::{array, bit_string, elements, limited};
use writer::Writer;

pg_function! {
    /// Handler of `CREATE ACCESS METHOD treedb_hnsw TYPE INDEX`.
    fn treedb_hnsw_handler(args: [Internal]) -> Handler {
        handler::<Hnsw>()
    }
}

/// Makes the settings known to the server.
pub(crate) fn define_settings() {
    scan::define_settings();
}

/// Whether a relation is an index of this access method.
pub(crate) fn is_own_index(relation: pg_sys::Oid) -> bool {
    catalog::is_index_of(relation, c"treedb_hnsw")
}

/// The access method.
struct Hnsw;

impl IndexWrites for Hnsw {
    type Inserting = Meta;

    fn build(build: &mut Build<'_>) -> u64 {
        build::build(build)
    }

    fn build_empty(index: Index<'_>) {
        build::build_empty(index)
    }

    fn phase_name(phase: i64) -> Option<&'static CStr> {
        match phase {
            1 => Some(c"initializing"),
            build::phase::GRAPH => Some(c"building graph"),
            build::phase::PAGES => Some(c"writing pages"),
            _ => None,
        }
    }

    fn begin_insert(index: Index<'_>) -> Meta {
        Graph::open(index).meta
    }

    fn insert(meta: &Meta, _table: Table<'_>, index: Index<'_>, row: &IndexRow<'_>, _unchanged: bool) {
        let Some(value) = row.value(0) else { return };
        let mut position = 0;
        value::each_indexable(meta.kind, meta.dimensions, value.bytes(), &mut Vec::new(), |vector, unit| {
            Writer::lock(index).insert(row.tid(), position, vector, unit);
            position += 1;
        });
    }

    fn bulk_delete(vacuum: &mut Vacuum<'_>, find_gone: &mut FindGone<'_>) {
        vacuum::bulk_delete(vacuum, find_gone)
    }

    fn vacuum_cleanup(vacuum: &mut Vacuum<'_>) {
        vacuum::vacuum_cleanup(vacuum)
    }
}

impl DistanceMethod for Hnsw {
    type Scan = scan::State;

    fn is_kind(kind: i32) -> bool {
        Kind::from_number(kind).is_some()
    }

    /// A search descends through the levels, comparing `m` nodes in each, and then the links of `ef_search` nodes.
    fn share_of_first(index: Index<'_>, rows: f64) -> f64 {
        let m = Graph::open(index).meta.m as f64;
        let rows = rows.max(1.0);
        let levels = rows.ln() / m.ln();
        ((levels + scan::ef_search() as f64) * m / rows).min(1.0)
    }

    fn reaches(asked: f64, rows: f64) -> bool {
        scan::reaches(asked, rows)
    }

    fn begin_scan() -> scan::State {
        scan::State::new()
    }

    fn rescan(state: &mut scan::State, index: Index<'_>, target: Target<'_>) {
        state.rescan(index, target);
    }

    fn next(
        state: &mut scan::State,
        index: Index<'_>,
        table: Relation<'_>,
    ) -> Option<pg_sys::ItemPointerData> {
        state.next(index, table)
    }
}
