//! `treedb.find`, `count`.

use treedb_query::access::{Flow, QueryContext};
use treedb_query::query::{Counters, Execution, Plan, Query, Result, counted};

use super::options::Options;
use super::parallel_pipeline;
use super::reader::Reader;
use super::spill::{spilling, work_mem};
use super::table::{Need, Table};
use crate::shim::error::accept;
use crate::shim::function::pg_function;
use crate::shim::rows::{Rows, Set};
use crate::shim::snapshot::Registered;
use crate::types::bson;

/// The options of `find`.
const FIND_OPTIONS: &[&str] = &["sort", "projection", "skip", "limit", "hint", "collation"];

/// The options of `count`.
const COUNT_OPTIONS: &[&str] = &["skip", "limit", "hint", "collation"];

/// The query of a filter and of options.
fn parse(filter: &[u8], options: &[u8], allowed: &[&str]) -> Result<Query> {
    Options::read(bson::document(options), allowed)?.query(bson::document(filter))
}

/// The query of a call of `find`.
pub(super) fn parse_find(filter: &[u8], options: &[u8]) -> Result<Query> {
    parse(filter, options, FIND_OPTIONS)
}

/// The query of a call of `count`.
pub(super) fn parse_count(filter: &[u8], options: &[u8]) -> Result<Query> {
    parse(filter, options, COUNT_OPTIONS)
}

pg_function! {
    /// `treedb.find(collection, filter, options)`: the documents that match.
    fn treedb_find(args: [Varlena, Varlena, Varlena]) -> Set {
        let mut rows = Rows::begin(args);
        let query = accept(parse_find(&args.bytes(1), &args.bytes(2)));
        let table = Table::open(&args.bytes(0), Need::Select);
        let mut reader = Reader::for_query(table, Registered::active(), &query);
        let context = spilling();
        let mut execution = accept(Execution::new(&reader, &context, query)).with_sort_memory(work_mem());
        reader.read_for(execution.plan());
        accept(execution.lend(&reader, &context, &mut |document| {
            rows.put(document.as_bytes());
            Ok(Flow::Continue(()))
        }));
        rows.finish()
    }
}

pg_function! {
    /// `treedb.count(collection, filter, options)`.
    fn treedb_count(args: [Varlena, Varlena, Varlena]) -> i64 {
        let (filter, options) = (args.bytes(1), args.bytes(2));
        let query = accept(parse_count(&filter, &options));
        let table = Table::open(&args.bytes(0), Need::Select);
        let mut reader = Reader::for_query(table, Registered::active(), &query);
        Counted::of(&mut reader, &query, &filter, &options).number()
    }
}

/// Documents that have been counted.
pub(super) struct Counted {
    /// How many there are, and the work that it took this process.
    pub(super) counters: Counters,
    pub(super) plan: Plan,
    /// How many workers have helped.
    pub(super) workers: usize,
}

impl Counted {
    /// Counts the documents that `query` finds, which is that of a call with this filter and these options. `reader` has the
    /// indexes that the query may use.
    pub(super) fn of(reader: &mut Reader, query: &Query, filter: &[u8], options: &[u8]) -> Counted {
        if let Some((plan, number, workers)) = parallel_pipeline::count(reader, query, filter, options) {
            let counters = Counters { returned: number, ..Counters::default() };
            return Counted { counters, plan, workers };
        }
        reader.use_visibility();
        let (plan, counters) = accept(counted(reader, &QueryContext::default(), query));
        Counted { counters, plan, workers: 0 }
    }

    /// How many there are.
    pub(super) fn number(&self) -> i64 {
        i64::try_from(self.counters.returned).unwrap_or(i64::MAX)
    }
}
