//! `treedb.distinct`: the distinct values of a field.

use ::bson::RawDocumentBuf;
use treedb_query::access::{Flow, QueryContext};
use treedb_query::doc::{Doc, OwnedValue};
use treedb_query::query::{DistinctValues, Execution, distinct_by_index};

use super::options::Options;
use super::reader::Reader;
use super::table::{Need, Table};
use crate::shim::error::accept;
use crate::shim::function::pg_function;
use crate::shim::rows::{Rows, Set};
use crate::shim::text;
use crate::types::{bson, value};

pg_function! {
    /// `treedb.distinct(collection, field, filter, options)`: each value once; of an array, each element is one. Without a filter
    /// an index may tell the values, which costs a descent for each of them.
    fn treedb_distinct(args: [Varlena, Varlena, Varlena, Varlena]) -> Set {
        let mut rows = Rows::begin(args);
        let (field, filter, options) = (args.bytes(1), args.bytes(2), args.bytes(3));
        let options = accept(Options::read(bson::document(&options), &["hint", "collation"]));
        let query = accept(options.query(bson::document(&filter)));
        let path = text::to_utf8(&field);
        let mut values = DistinctValues::new(&path, options.collation.unwrap_or_default());
        let mut reader = Reader::new(Table::open(&args.bytes(0), Need::Select));
        let whole = query.is_unconditional();
        if whole {
            reader.use_visibility();
        }
        let by_index = if whole { accept(distinct_by_index(&reader, &path)) } else { None };
        let mut added = Ok(());
        match by_index {
            Some(found) => added = found.iter().filter_map(OwnedValue::as_raw).try_for_each(|value| values.push(value)),
            None => {
                let mut execution = accept(Execution::new(&reader, &QueryContext::default(), query));
                accept(execution.run(&reader, &QueryContext::default(), &mut |document: RawDocumentBuf| {
                    added = values.add(&document);
                    if added.is_ok() { Flow::Continue(()) } else { Flow::Break(()) }
                }));
            }
        }
        accept(added);
        let values = values.finish();
        for element in Doc::new(values.as_bytes()).elements() {
            rows.put(&value::stored(&element));
        }
        rows.finish()
    }
}
