//! `treedb.find`, `count`, `explain`.

use ::bson::raw::cstr;
use ::bson::rawdoc;
use treedb_query::access::{Direction, Flow, QueryContext, Source};
use treedb_query::query::{Execution, Path, Query, Result, count};

use super::options::Options;
use super::reader::Reader;
use super::spill::{spilling, work_mem};
use super::table::{Need, Table};
use crate::shim::error::accept;
use crate::shim::function::{Args, pg_function};
use crate::shim::memory::Varlena;
use crate::shim::rows::{Rows, Set};
use crate::types::bson;

/// The options of `find`.
const FIND_OPTIONS: &[&str] = &["sort", "projection", "skip", "limit", "hint"];

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
    (Reader::new(Table::open(&args.bytes(0), Need::Select)), query)
}

pg_function! {
    /// `treedb.find(collection, filter, options)`: the documents that match.
    fn treedb_find(args: [Varlena, Varlena, Varlena]) -> Set {
        let mut rows = Rows::begin(args);
        let (reader, query) = parse_call(args, FIND_OPTIONS);
        let context = spilling();
        let mut execution = accept(Execution::new(&reader, &context, query)).with_sort_memory(work_mem());
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
        let (reader, query) = parse_call(args, &["skip", "limit", "hint"]);
        accept(count(&reader, &QueryContext::default(), &query)) as i64
    }
}

pg_function! {
    /// `treedb.explain(collection, filter, options)`: how the query is carried out, and the work it took.
    fn treedb_explain(args: [Varlena, Varlena, Varlena]) -> Varlena<'_> {
        let (reader, query) = parse_call(args, FIND_OPTIONS);
        let context = spilling();
        let mut execution = accept(Execution::new(&reader, &context, query)).with_sort_memory(work_mem());
        accept(execution.run(&reader, &context, &mut |_| Flow::Continue(())));
        let plan = execution.plan();
        let mut shown = match &plan.path {
            Path::Empty => rawdoc! { "path": "nothing" },
            Path::CollectionScan => rawdoc! { "path": "rows" },
            Path::Bitmap(_) => rawdoc! { "path": "sets" },
            Path::Index { name, ranges, direction, index, .. } => {
                let multikey = reader.indexes().get(*index).is_some_and(|index| index.multikey);
                rawdoc! {
                    "path": "index", "index": name.as_str(), "ranges": ranges.len() as i64,
                    "way": if *direction == Direction::Forward { "forward" } else { "backward" }, "multikey": multikey,
                }
            }
        };
        let counters = execution.counters();
        for (name, value) in [
            (cstr!("keysExamined"), counters.keys_examined),
            (cstr!("docsExamined"), counters.docs_examined),
            (cstr!("returned"), counters.returned),
        ] {
            shown.append(name, value as i64);
        }
        shown.append(cstr!("sortInMemory"), plan.sort_in_memory);
        args.memory().varlena(shown.as_bytes())
    }
}
