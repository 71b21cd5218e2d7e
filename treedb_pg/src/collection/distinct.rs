//! `treedb.distinct`: the distinct values of a field.

use ::bson::RawDocumentBuf;
use treedb_query::access::{Flow, QueryContext};
use treedb_query::doc::Doc;
use treedb_query::query::{DistinctValues, Execution};

use super::options::Options;
use super::reader::Reader;
use super::table::{Need, Table};
use crate::shim::error::accept;
use crate::shim::function::pg_function;
use crate::shim::rows::{Rows, Set};
use crate::shim::text;
use crate::types::{bson, value};

pg_function! {
    /// `treedb.distinct(collection, field, filter, options)`: each value once; of an array, each element is one.
    fn treedb_distinct(args: [Varlena, Varlena, Varlena, Varlena]) -> Set {
        let mut rows = Rows::begin(args);
        let (field, filter, options) = (args.bytes(1), args.bytes(2), args.bytes(3));
        let options = accept(Options::read(bson::document(&options), &["hint", "collation"]));
        let query = accept(options.query(bson::document(&filter)));
        let mut values = DistinctValues::new(&text::to_utf8(&field), options.collation.unwrap_or_default());
        let reader = Reader::new(Table::open(&args.bytes(0), Need::Select));
        let mut added = Ok(());
        let mut execution = accept(Execution::new(&reader, &QueryContext::default(), query));
        accept(execution.run(&reader, &QueryContext::default(), &mut |document: RawDocumentBuf| {
            added = values.add(&document);
            if added.is_ok() { Flow::Continue(()) } else { Flow::Break(()) }
        }));
        accept(added);
        let values = values.finish();
        for element in Doc::new(values.as_bytes()).elements() {
            rows.put(&value::stored(&element));
        }
        rows.finish()
    }
}
