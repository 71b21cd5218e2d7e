//! `treedb.vector_search`, and `$vectorSearch` of pipelines: the documents with the nearest vectors, among those that match a filter.

use treedb_query::index::vector::VectorDef;
use treedb_query::query::{NearestAnswer, NearestQuery, Result, nearest};

use super::options::Options;
use super::reader::Reader;
use super::search_index::SearchIndex;
use super::spill::spilling;
use super::table::{Need, Table};
use crate::shim::error::accept;
use crate::shim::function::pg_function;
use crate::shim::rows::{Column, RecordSet, Rows};
use crate::shim::snapshot::Registered;
use crate::shim::text;
use crate::types::bson;
use crate::vector_am;

/// The options of `vector_search`.
const OPTIONS: &[&str] = &["numCandidates", "exact", "within", "projection", "collation"];

/// The documents that a search finds in an open collection, by the index that it names, no farther than `within`, if that is given, and what it
/// did for that.
pub(super) fn search(table: Table, query: &NearestQuery, within: Option<f32>) -> Result<NearestAnswer> {
    let mut index = SearchIndex::find(&table, &query.index)?;
    // Whatever it was asked for: an index has the codes that it has, and documents are compared by their vectors.
    index.def.quantization = VectorDef::new("", index.def.dimensions, index.def.metric).quantization;
    let exact = query.exact || index.too_new;
    let query = NearestQuery { index: index.def.name.clone(), exact, ..query.clone() };
    let reader = Reader::for_query(table, Registered::active(), &query.filter).with_search_index(index);
    nearest(&reader, &spilling(), &query, within)
}

pg_function! {
    /// `treedb.vector_search(collection, index, vector, limit, filter, options)`: documents with their distances and scores.
    fn treedb_vector_search(args: [Varlena, Varlena, Varlena, Int8, Varlena, Varlena]) -> RecordSet {
        let mut rows = Rows::begin(args);
        let (filter, options) = (args.bytes(4), args.bytes(5));
        let options = accept(Options::read(bson::document(&options), OPTIONS));
        let candidates = options.num_candidates;
        let query = NearestQuery {
            index: text::to_utf8(&args.bytes(1)).into_owned(),
            path: None,
            vector: vector_am::elements(&args.bytes(2)),
            limit: usize::try_from(args.int8(3)).unwrap_or(0),
            candidates: candidates.map(|candidates| usize::try_from(candidates).unwrap_or(usize::MAX)),
            exact: options.exact,
            filter: accept(options.query(bson::document(&filter))),
            // The server has a limit of its own.
            deadline: None,
        };
        let table = Table::open(&args.bytes(0), Need::Select);
        for found in accept(search(table, &query, options.within)).neighbors {
            rows.put_record(&[
                Column::Varlena(found.document.as_bytes()),
                Column::Float8(found.distance.into()),
                Column::Float8(found.score),
            ]);
        }
        rows.finish_records()
    }
}
