//! Finds by the value of one indexed field, without a parsed filter and a plan. The rows are those that the plan would
//! find: [`PointQuery`] knows such a filter by its bytes, and [`treedb_query::query::PointLookup`] the index that answers.
//!
//! Only where the key of an entry decides that its row matches. Anything else is left to the planner.

use ::bson::RawDocument;
use treedb_query::access::{Direction, Flow, KeyRange, RowId, Source};
use treedb_query::doc::{Collation, Doc};
use treedb_query::query::{Counters, Filter, PointLookup, PointQuery, Query, Result};

use super::reader::Reader;
use crate::types::bson;

/// Most keys have no more bytes.
const USUAL_KEY: usize = 32;

/// A filter that may be answered by one key of an index.
pub(super) struct PointFilter<'f> {
    filter: &'f RawDocument,
    field: &'f [u8],
    query: PointQuery<'f>,
}

/// The rows of one key.
pub(super) struct PointScan {
    filter: Box<[u8]>,
    /// The number of the index.
    index: usize,
    range: KeyRange,
    at_most_one: bool,
    /// Where to go on.
    last: Option<(Vec<u8>, RowId)>,
    counters: Counters,
}

impl<'f> PointFilter<'f> {
    /// `filter`, if it is nothing but the value of a field; `None` too if it has to be parsed for its errors.
    pub(super) fn of(filter: &'f RawDocument) -> Option<Self> {
        let field = Doc::from(filter).elements().next()?.name;
        if field.starts_with(b"$") {
            return None;
        }
        match PointQuery::of_filter(filter) {
            Ok(Some(query @ PointQuery::One(_))) => Some(PointFilter { filter, field, query }),
            _ => None,
        }
    }

    /// The query that it is.
    ///
    /// # Errors
    /// None: such a filter can be parsed.
    pub(super) fn query(&self) -> Result<Query> {
        Filter::parse(self.filter).map(Query::new)
    }

    /// The rows that match; `None` if no index says so by a key alone. Indexes on the field are open then.
    pub(super) fn scan(&self, reader: &mut Reader) -> Option<PointScan> {
        reader.open_on(self.field);
        let mut key = Vec::with_capacity(USUAL_KEY);
        let lookup = match self.lookup(reader, &mut key) {
            Some(lookup) if reader.key_decides(lookup.index, &key) => lookup,
            _ => {
                reader.read_facts();
                let lookup = self.lookup(reader, &mut key)?;
                let info = <Reader as Source>::indexes(reader).get(lookup.index)?;
                if !lookup.decides(info) || !reader.keys_decide(lookup.index) {
                    return None;
                }
                lookup
            }
        };
        Some(PointScan {
            filter: self.filter.as_bytes().into(),
            index: lookup.index,
            range: KeyRange::prefix(key),
            at_most_one: lookup.at_most_one,
            last: None,
            counters: Counters::default(),
        })
    }
}

impl PointFilter<'_> {
    /// The index that has the rows, as far as is known of the indexes, and its key.
    fn lookup(&self, reader: &Reader, key: &mut Vec<u8>) -> Option<PointLookup> {
        let indexes = <Reader as Source>::indexes(reader);
        let lookup = self.query.lookup(indexes, &Collation::Simple)?;
        lookup.encode_key(&self.query, indexes.get(lookup.index)?.def.as_ordered()?, key);
        Some(lookup)
    }
}

impl PointScan {
    /// The bytes of the filter.
    pub(super) fn filter(&self) -> &[u8] {
        &self.filter
    }

    /// The query that it answers, for EXPLAIN.
    ///
    /// # Errors
    /// None: such a filter can be parsed.
    pub(super) fn query(&self) -> Result<Query> {
        Filter::parse(bson::document(&self.filter)).map(Query::new)
    }

    /// Whether there is one row at most.
    pub(super) fn at_most_one(&self) -> bool {
        self.at_most_one
    }

    /// Work done so far.
    pub(super) fn counters(&self) -> Counters {
        self.counters
    }

    /// Begins again with the first row.
    pub(super) fn rewind(&mut self) {
        self.last = None;
    }

    /// Passes the next rows to `visit` until it breaks. The snapshot may not show some of them. True if there may be more.
    pub(super) fn rows(
        &mut self,
        reader: &Reader,
        visit: &mut dyn FnMut(RowId) -> Result<Flow>,
    ) -> Result<bool> {
        let PointScan { index, range, last, counters, .. } = self;
        let from = last.take();
        let after = from.as_ref().map(|(key, row)| (key.as_slice(), *row));
        let mut end = None;
        let key = reader.index_rows(*index, range, Direction::Forward, after, &mut |row| {
            counters.keys_examined += 1;
            end = Some(row);
            visit(row)
        })?;
        *last = key.zip(end);
        Ok(last.is_some())
    }

    /// Passes the next documents to `visit` until it breaks. True if there may be more.
    pub(super) fn documents(
        &mut self,
        reader: &Reader,
        visit: &mut dyn FnMut(&RawDocument) -> Result<Flow>,
    ) -> Result<bool> {
        let mut found = 0;
        let more = self.rows(reader, &mut |row| {
            let mut flow = Flow::Continue(());
            reader.fetch(row, &mut |document| {
                found += 1;
                flow = visit(document)?;
                Ok(())
            })?;
            Ok(flow)
        });
        self.counters.docs_examined += found;
        self.counters.returned += found;
        more
    }
}
