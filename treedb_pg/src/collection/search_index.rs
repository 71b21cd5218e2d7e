//! The indexes of vectors that a collection has: `treedb_hnsw` over `treedb.vector_at(doc, path, dimensions)`, of bits over
//! `treedb.bits_at(doc, path, bits)`.
//!
//! Path and dimensions are constants of the index's expression, the metric is that of its operator class, and the graph's
//! options and the quantization that was asked for are its storage parameters: the definition is read from the catalog, also of
//! an index that plain SQL created. Its name is that of its relation, without the table's name in front.

use std::ffi::CStr;

use pgrx::check_for_interrupts;
use treedb_query::access::{Comparisons, VisitNearest};
use treedb_query::doc::Path;
use treedb_query::index::vector::{Metric, VectorDef};
use treedb_query::query::Result;
use treedb_query::{ErrorCode, QueryError};

use super::index;
use super::reader::{Reader, document, row_id};
use super::table::Table;
use crate::shim::expression::ColumnCall;
use crate::shim::nearest_scan::NearestScan;
use crate::shim::relation::{Index as OpenedIndex, LockMode, OpenIndex};
use crate::shim::setting::LocalSettings;
use crate::shim::table::Slot;
use crate::shim::vector_options::VectorOptions;
use crate::shim::{catalog, text};
use crate::types::bson;
use crate::vector_am;

/// The function that an index with this metric is over.
pub(super) fn function(metric: Metric) -> &'static CStr {
    if metric.is_of_bits() { c"bits_at" } else { c"vector_at" }
}

/// Most candidates that a scan keeps at a time, which is the greatest value of its setting.
const MOST_CANDIDATES: usize = 10_000;

/// An index of vectors, open as long as its table is used.
pub(super) struct SearchIndex {
    pub(super) relation: OpenIndex,
    pub(super) def: VectorDef,
    /// False while it is being built, or after its building failed.
    pub(super) built: bool,
    /// Whether it may not have every row that a snapshot shows: then only exact searches find them.
    pub(super) too_new: bool,
}

impl SearchIndex {
    /// All that `table` has.
    pub(super) fn all(table: &Table) -> Vec<SearchIndex> {
        let open = |oid| {
            let relation = OpenIndex::open(oid, LockMode::AccessShare);
            let def = read(table, relation.get())?;
            let (built, too_new) = (index::is_built(relation.get()), relation.get().is_too_new());
            Some(SearchIndex { relation, def, built, too_new })
        };
        table.relation.get().indexes().into_iter().filter_map(open).collect()
    }

    /// The one of that name that is built, or else the only one of the vectors at that path.
    pub(super) fn find(table: &Table, wanted: &str) -> Result<SearchIndex> {
        let mut all = SearchIndex::all(table);
        all.retain(|index| index.built);
        if let Some(at) = SearchIndex::position(&all, wanted) {
            return Ok(all.swap_remove(at));
        }
        all.retain(|index| index.def.path.as_str() == wanted);
        match (all.pop(), all.is_empty()) {
            (Some(index), true) => Ok(index),
            (Some(index), false) => {
                let names: Vec<&str> =
                    all.iter().chain([&index]).map(|index| index.def.name.as_str()).collect();
                Err(QueryError::bad_value(format!(
                    "there are several search indexes of the path {wanted}: {}; name one of them",
                    names.join(", ")
                )))
            }
            (None, _) => Err(not_found(wanted)),
        }
    }

    /// The place of the one of that name, or else of the one whose relation is called so.
    pub(super) fn position(all: &[SearchIndex], name: &str) -> Option<usize> {
        { all.iter().position(|index| index.def.name == name) }
            .or_else(|| all.iter().position(|index| index.relation.get().shown() == name))
    }

    /// Shows the rows that the reader's snapshot shows to `visit`, the nearest first as far as the graph knows, until it
    /// has enough. Every row that the graph leads to is visited once: no budget ends the scan, and rows that are found late
    /// come late, so the caller sorts what it takes. What was done is added to `done`.
    pub(super) fn walk(
        &self,
        reader: &Reader,
        vector: &[f32],
        ef: usize,
        done: &mut Comparisons,
        visit: &mut VisitNearest<'_>,
    ) -> Result<()> {
        let ef = text::owned_cstring(&ef.clamp(1, MOST_CANDIDATES).to_string());
        let all = text::owned_cstring(&i32::MAX.to_string());
        let _settings = LocalSettings::set(&[
            (c"treedb.hnsw_ef_search", ef.as_c_str()),
            (c"treedb.hnsw_max_scan_tuples", all.as_c_str()),
            (c"treedb.hnsw_strict_order", c"off"),
        ]);
        let table = &reader.table.relation;
        let target = match self.def.metric.is_of_bits() {
            true => vector_am::bit_string(vector),
            false => vector_am::array(vector),
        };
        let mut scan = NearestScan::begin(table, &self.relation, reader.snapshot.get(), &target);
        let mut slot = Slot::new(table.get());
        while let Some(tid) = scan.next() {
            check_for_interrupts!();
            if reader.read(tid, &mut slot)
                && let Some(bytes) = document(&slot, &reader.table)
            {
                done.documents += 1;
                let vectors = self.def.vectors(bson::document(&bytes))?;
                if let Some(distance) = vectors.distance(self.def.metric, vector)
                    && visit(row_id(tid), distance)?.is_break()
                {
                    break;
                }
            }
        }
        drop(scan);
        done.vectors += vector_am::compared_by_last_scan() as u64;
        Ok(())
    }
}

/// The error for a search index that there is not.
pub(super) fn not_found(name: &str) -> QueryError {
    QueryError::new(ErrorCode::IndexNotFound, format!("search index not found with name or path [{name}]"))
}

/// Reads from the catalog what an index of `table` is a search index of; `None` if it is none.
fn read(table: &Table, index: OpenedIndex<'_>) -> Option<VectorDef> {
    let is_hnsw = catalog::index_access_method(c"treedb_hnsw") == Some(index.access_method());
    if !is_hnsw || index.is_partial() {
        return None;
    }
    let call = ColumnCall::of(index).filter(|call| call.column == table.doc)?;
    let options = VectorOptions::of(index);
    let number = |option: i32| usize::try_from(option).ok();
    let dimensions =
        number(call.number?).filter(|dimensions| number(options.dimensions) == Some(*dimensions))?;
    let metric = vector_am::metric_of_own_type(index)?;
    if !catalog::is_own_function(call.function, function(metric)) {
        return None;
    }
    let mut def = vector_am::limited(VectorDef::new("", dimensions, metric));
    def.name = index::name_of(table, index);
    def.path = Path::new(&text::to_utf8(&call.constant));
    (def.links, def.candidates) = (number(options.m)?, number(options.ef_construction)?);
    if let Some(quantization) = options.quantization() {
        let said = VectorDef { quantization, ..def.clone() };
        // Plain SQL can say of bits or sums what no definition can.
        if VectorDef::from_spec(&said.spec()).is_ok() {
            def = said;
        }
    }
    Some(def)
}
