//! `treedb.find`, `count`, `explain`.

use ::bson::raw::cstr;
use ::bson::rawdoc;
use pgrx::pg_sys;
use treedb_query::access::{Direction, Flow, QueryContext, Source};
use treedb_query::query::{Execution, Path, Query, count};

use super::options::Options;
use super::reader::Reader;
use super::table::{Need, Table};
use crate::shim::error::accept;
use crate::shim::function::{Args, pg_function};
use crate::shim::rows::Rows;
use crate::types::bson;

/// The collection and the query of a call: name, filter, options.
fn asked(args: &Args, allowed: &[&str]) -> (Reader, Query) {
    let (filter, options) = (args.bytes(1), args.bytes(2));
    let options = accept(Options::read(bson::document(&options), allowed));
    let query = accept(options.query(bson::document(&filter)));
    (Reader::new(Table::open(&args.bytes(0), Need::Select)), query)
}

pg_function! {
    /// `treedb.find(collection, filter, options)`: the documents that match.
    fn treedb_find(args) {
        let mut rows = Rows::begin(args.raw(), true);
        let (reader, query) = asked(&args, &["sort", "projection", "skip", "limit", "hint"]);
        let mut execution = accept(Execution::new(&reader, &QueryContext::default(), query));
        accept(execution.run(&reader, &QueryContext::default(), &mut |document| {
            let datum = bson::datum(&document);
            rows.put([Some(datum)]);
            // SAFETY: the store has its own copy.
            unsafe { pg_sys::pfree(datum.cast_mut_ptr()) };
            Flow::Continue(())
        }));
        args.null()
    }
}

pg_function! {
    /// `treedb.count(collection, filter, options)`.
    fn treedb_count(args) {
        let (reader, query) = asked(&args, &["skip", "limit", "hint"]);
        pg_sys::Datum::from(accept(count(&reader, &QueryContext::default(), &query)) as i64)
    }
}

pg_function! {
    /// `treedb.explain(collection, filter, options)`: how the query is carried out, and the work it took.
    fn treedb_explain(args) {
        let (reader, query) = asked(&args, &["sort", "projection", "skip", "limit", "hint"]);
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
        bson::datum(&shown)
    }
}
