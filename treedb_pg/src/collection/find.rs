//! `treedb.find`, `count`, `explain`.

use ::bson::raw::cstr;
use ::bson::rawdoc;
use treedb_query::access::{Direction, Flow, QueryContext, Source};
use treedb_query::query::{Execution, Path, Query, count};

use super::options::Options;
use super::reader::Reader;
use super::table::{Need, Table};
use crate::shim::error::accept;
use crate::shim::function::{Args, pg_function};
use crate::shim::memory::Varlena;
use crate::shim::rows::{Rows, Set};
use crate::types::bson;

/// The collection and the query of a call: name, filter, options.
fn parse_call(args: &Args, allowed: &[&str]) -> (Reader, Query) {
    let (filter, options) = (args.bytes(1), args.bytes(2));
    let options = accept(Options::read(bson::document(&options), allowed));
    let query = accept(options.query(bson::document(&filter)));
    (Reader::new(Table::open(&args.bytes(0), Need::Select)), query)
}

pg_function! {
    /// `treedb.find(collection, filter, options)`: the documents that match.
    fn treedb_find(args: [Varlena, Varlena, Varlena]) -> Set {
        let mut rows = Rows::begin(args);
        let (reader, query) = parse_call(args, &["sort", "projection", "skip", "limit", "hint"]);
        let mut execution = accept(Execution::new(&reader, &QueryContext::default(), query));
        accept(execution.run(&reader, &QueryContext::default(), &mut |document| {
            rows.put(document.as_bytes());
            Flow::Continue(())
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
        let (reader, query) = parse_call(args, &["sort", "projection", "skip", "limit", "hint"]);
        let mut execution = accept(Execution::new(&reader, &QueryContext::default(), query));
        accept(execution.run(&reader, &QueryContext::default(), &mut |_| Flow::Continue(())));
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
