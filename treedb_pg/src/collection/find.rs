//! `treedb.find`, `count`.

use treedb_query::access::{Flow, QueryContext};
use treedb_query::doc::Doc;
use treedb_query::query::{Execution, Query, Result, count};

use super::options::Options;
use super::parallel_pipeline;
use super::reader::Reader;
use super::spill::{spilling, work_mem};
use super::table::{Need, Table};
use crate::shim::error::accept;
use crate::shim::function::{Args, pg_function};
use crate::shim::rows::{Rows, Set};
use crate::shim::snapshot::Registered;
use crate::types::bson;

/// The options of `find`.
const FIND_OPTIONS: &[&str] = &["sort", "projection", "skip", "limit", "hint", "collation"];

/// The query of a filter and of options.
fn parse(filter: &[u8], options: &[u8], allowed: &[&str]) -> Result<Query> {
    Options::read(bson::document(options), allowed)?.query(bson::document(filter))
}

/// The query of a call of `find`.
pub(super) fn parse_find(filter: &[u8], options: &[u8]) -> Result<Query> {
    parse(filter, options, FIND_OPTIONS)
}

/// The collection and the query of a call: name, filter, options.
fn parse_call(args: &Args, allowed: &[&str]) -> (Reader, Query) {
    let query = accept(parse(&args.bytes(1), &args.bytes(2), allowed));
    let table = Table::open(&args.bytes(0), Need::Select);
    (Reader::for_query(table, Registered::active(), &query), query)
}

pg_function! {
    /// `treedb.find(collection, filter, options)`: the documents that match.
    fn treedb_find(args: [Varlena, Varlena, Varlena]) -> Set {
        let mut rows = Rows::begin(args);
        let (mut reader, query) = parse_call(args, FIND_OPTIONS);
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
        let (reader, query) = parse_call(args, &["skip", "limit", "hint", "collation"]);
        let plain = Doc::from(bson::document(&args.bytes(2))).is_empty();
        if plain && let Some(counted) = parallel_pipeline::count(&reader, &query, &args.bytes(1)) {
            return counted as i64;
        }
        let reader = reader.counting();
        accept(count(&reader, &QueryContext::default(), &query)) as i64
    }
}
