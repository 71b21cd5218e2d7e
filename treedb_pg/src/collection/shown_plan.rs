//! How documents are searched for, as EXPLAIN shows it: the stages of MongoDB's `explain` on one line, and the names of the indexes,
//! by which statistics and `DROP INDEX` know them.
//!
//! The label is not `Plan`: in JSON that is what EXPLAIN calls the node itself.

use std::ffi::CString;

use treedb_query::query::explain::{self, Wanted};
use treedb_query::query::{Plan, Query};

use super::point_scan::PointScan;
use super::reader::Reader;
use super::spill::spilling;
use crate::shim::error::accept;
use crate::shim::snapshot::Registered;
use crate::shim::streamed::Explanation;
use crate::shim::text;

/// The plan of a search.
pub(super) struct ShownPlan {
    /// Its stages, the last one first.
    stages: String,
    /// The names of the indexes it reads, each once.
    indexes: Vec<CString>,
}

impl ShownPlan {
    /// That of a query for documents.
    pub(super) fn of(reader: &Reader, query: &Query, plan: &Plan) -> ShownPlan {
        ShownPlan::wanted(reader, query, plan, Wanted::Documents)
    }

    /// That of a query whose documents are counted.
    pub(super) fn of_count(reader: &Reader, query: &Query, plan: &Plan) -> ShownPlan {
        ShownPlan::wanted(reader, query, plan, Wanted::Count)
    }

    /// That which a look-up of a key stands for.
    pub(super) fn of_point(reader: &Reader, scan: &PointScan) -> ShownPlan {
        let query = accept(scan.query());
        // That look-up may know less of the indexes than a plan does.
        let reader = Reader::for_query(reader.table.clone(), Registered::active(), &query);
        let plan = accept(Plan::choose(&reader, &spilling(), &query));
        ShownPlan::of(&reader, &query, &plan)
    }

    fn wanted(reader: &Reader, query: &Query, plan: &Plan, wanted: Wanted) -> ShownPlan {
        let mut indexes = Vec::new();
        plan.for_each_index(&mut |at| {
            if let Some(name) = reader.indexes.get(at).map(|index| index.relation.get().name())
                && !indexes.contains(&name)
            {
                indexes.push(name);
            }
        });
        ShownPlan { stages: explain::one_line(&explain::stages(reader, query, plan, wanted)), indexes }
    }

    /// Shows it.
    pub(super) fn show(&self, shown: &mut Explanation<'_>) {
        shown.text(c"Search Plan", &text::owned_cstring(&self.stages));
        if !self.indexes.is_empty() {
            shown.list(c"Indexes", &self.indexes);
        }
    }
}
