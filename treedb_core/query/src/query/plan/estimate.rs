//! [`Estimate`]: the work that a plan is expected to take, for an owner that executes the query as a part of something
//! larger, such as a join.
//!
//! How many documents match is told by indexes and statistics, as far as there are any (see `selectivity`).

use crate::access::Source;
use crate::query::Query;

use super::ordered::entries_in;
use super::selectivity::matching_share;
use super::{BitmapScan, Path, Plan};

/// The share of an index's entries that a range has of which nothing is known.
const GUESSED: f64 = 0.1;

/// The work that a plan is expected to take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Index entries examined.
    pub keys: f64,
    /// Documents examined.
    pub documents: f64,
    /// Documents returned.
    pub returned: f64,
}

impl Plan {
    /// The work that this plan, which was chosen for `query` over `source`, is expected to take.
    pub fn estimate(&self, source: &dyn Source, query: &Query) -> Estimate {
        let rows = source.estimated_rows() as f64;
        let matches = match &self.path {
            Path::Empty => 0.0,
            // However the values are distributed.
            _ if self.unique => rows.min(1.0),
            _ => (rows * matching_share(source, query)).max(rows.min(1.0)),
        };
        let (keys, documents) = match &self.path {
            Path::Empty => (0.0, 0.0),
            Path::CollectionScan => (0.0, rows),
            Path::Index { .. } if self.unique => (1.0, 1.0),
            Path::Index { keys: tested, .. } => {
                let alternatives = Plan::alternatives(source, query);
                let own = alternatives.iter().find(|other| other.plan.path == self.path);
                let (keys, fetched) = own.map_or((rows, rows), |own| (own.keys, own.rows));
                // How many rows pass a test of their keys is guessed, while statistics may tell.
                let guessed = tested.test.is_some() && query.limit == 0;
                let fetched = if guessed { fetched.max(matches.min(keys)) } else { fetched };
                // The limit is in the estimate already.
                return returned(query, keys, fetched, matches.min(fetched), 1.0);
            }
            Path::Bitmap(set) => (entries(source, set), matches),
            Path::Near(_) => (matches, matches),
        };
        let wanted = query.skip.saturating_add(query.limit) as f64;
        let part = if query.limit == 0 || self.sort_in_memory || matches == 0.0 {
            1.0
        } else {
            (wanted / matches).min(1.0)
        };
        returned(query, keys, documents, matches, part)
    }
}

/// The estimate of a walk of which only `part` is needed.
fn returned(query: &Query, keys: f64, documents: f64, matches: f64, part: f64) -> Estimate {
    let most = if query.limit == 0 { f64::INFINITY } else { query.limit as f64 };
    let returned = (matches - query.skip as f64).max(0.0).min(most);
    Estimate { keys: keys * part, documents: documents * part, returned }
}

/// About how many entries a bitmap scan visits.
fn entries(source: &dyn Source, set: &BitmapScan) -> f64 {
    match set {
        BitmapScan::Index { index, ranges, .. } => {
            entries_in(source, *index, ranges).unwrap_or_else(|| source.estimated_rows() as f64 * GUESSED)
        }
        BitmapScan::Or(sets) | BitmapScan::And(sets) => sets.iter().map(|set| entries(source, set)).sum(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use bson::{RawDocument, RawDocumentBuf, rawdoc};

    use super::*;
    use crate::access::{Direction, IndexInfo, Probe, QueryContext, RowId, VisitRow};
    use crate::error::Result;
    use crate::index::ordered::IndexDef;

    /// A collection of which only the size and the indexes are known.
    pub(in crate::query::plan) struct Counted(pub u64, pub Vec<IndexInfo>);

    impl Source for Counted {
        fn indexes(&self) -> &[IndexInfo] {
            &self.1
        }

        fn fetch(&self, _: RowId, _: &mut dyn FnMut(&RawDocument) -> Result<()>) -> Result<bool> {
            Ok(false)
        }

        fn scan(&self, _: Direction, _: Option<RowId>, _: &mut VisitRow<'_>) -> Result<()> {
            Ok(())
        }

        fn walk(&self, _: usize, _: Probe<'_>) -> Result<()> {
            Ok(())
        }

        fn estimated_rows(&self) -> u64 {
            self.0
        }
    }

    fn estimate(rows: u64, filter: RawDocumentBuf, limit: u64) -> Estimate {
        let indexed = IndexDef::parse(&rawdoc! { "n": 1 }, None, false).unwrap();
        let indexes = vec![IndexInfo::new(IndexDef::id(), false), IndexInfo::new(indexed, false)];
        let source = Counted(rows, indexes);
        let mut query = Query::parse(&filter, None, None).unwrap();
        query.limit = limit;
        let plan = Plan::choose(&source, &QueryContext::default(), &query).unwrap();
        plan.estimate(&source, &query)
    }

    #[test]
    fn a_collection_scan_examines_every_document_and_returns_those_that_match() {
        let all = estimate(1000, rawdoc! {}, 0);
        assert_eq!(all, Estimate { keys: 0.0, documents: 1000.0, returned: 1000.0 });
        let some = estimate(1000, rawdoc! { "other": 1 }, 0);
        assert_eq!((some.documents, some.returned), (1000.0, 100.0));
    }

    #[test]
    fn a_limit_ends_a_collection_scan_early() {
        let first = estimate(1000, rawdoc! { "other": 1 }, 10);
        assert_eq!((first.documents, first.returned), (100.0, 10.0));
    }

    #[test]
    fn a_look_up_by_a_unique_key_examines_one_document() {
        let one = estimate(1000, rawdoc! { "_id": 7 }, 0);
        assert_eq!(one, Estimate { keys: 1.0, documents: 1.0, returned: 1.0 });
    }

    #[test]
    fn an_index_walk_examines_fewer_documents_than_a_scan() {
        let some = estimate(1000, rawdoc! { "n": { "$gt": 7 } }, 0);
        assert!(some.documents > 1.0 && some.documents < 1000.0, "{some:?}");
        assert!(some.returned <= some.documents, "{some:?}");
    }

    #[test]
    fn a_sort_that_keeps_few_of_an_index_range_is_cheaper_than_a_long_walk_in_order() {
        let indexes = [rawdoc! { "n": 1 }, rawdoc! { "group": 1 }].map(|keys| {
            let def = IndexDef::parse(&keys, None, false).unwrap();
            IndexInfo::new(def, false)
        });
        let source = Counted(4000, indexes.into());
        let sorts = |limit| {
            let mut query = Query::parse(&rawdoc! { "group": 7 }, Some(&rawdoc! { "n": 1 }), None).unwrap();
            query.limit = limit;
            Plan::choose(&source, &QueryContext::default(), &query).unwrap().sort_in_memory
        };
        // 600 documents in order, or the 400 that match, all sorted if there is no limit.
        assert!(!sorts(60));
        // 900 in order, or the 400, of which 90 are kept in order.
        assert!(sorts(90));
        assert!(sorts(0));
    }

    #[test]
    fn an_empty_collection_takes_nothing() {
        assert_eq!(estimate(0, rawdoc! { "n": 1 }, 0).returned, 0.0);
    }
}
