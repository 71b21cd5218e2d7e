//! Choosing how to find what a query asks for.
//!
//! The conditions that every matching document must fulfil (the top of the filter, `$and`s opened) become intervals
//! of values, the intervals ranges of index keys; what the ranges leave open is tested on the keys, as far as the
//! index has the fields for it. The filter is applied to each row that is fetched, so ranges and tests may let pass
//! more than the filter asks for, never less. A query that can use an index does not look at every row; of several
//! indexes the cheapest by estimate is taken.
//!
//! | file | what it holds |
//! |---|---|
//! | `query` | [`Query`]: what is planned |
//! | `sort` | [`Sort`]: the order a query asks for |
//! | `point_lookup` | [`PointLookup`]: finds that one key of an index answers |
//! | `hint` | [`Hint`]: the index that a request wants to be used |
//! | `index_spec` | [`index_of`]: reads the specification of an index |
//! | `eligible_indexes` | which indexes can serve a query, and how |
//! | `implication` | what follows from conditions |
//! | `interval` | intervals of encoded values, and the key ranges they become |
//! | `field_bounds` | the intervals that conditions leave for a field of an index |
//! | `candidate` | the best use of one index |
//! | `index_filter` | conditions tested on keys |
//! | `covering` | documents built from keys alone |
//! | `index_order` | whether a walk of an index gives the order asked for |
//! | `cost` | which candidate is cheapest |
//! | `bitmap` | rows found by several indexes |
//! | `query_shape` | the plan cache: choices remembered by the shape of queries |

mod bitmap;
mod candidate;
mod cost;
mod covering;
mod eligible_indexes;
mod field_bounds;
mod hint;
mod implication;
mod index_filter;
mod index_order;
mod index_spec;
mod interval;
mod point_lookup;
mod query;
mod query_shape;
mod sort;

use crate::access::{Direction, IndexInfo, KeyRange, QueryContext, Source};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::filter::Node;

use candidate::{Candidate, candidates, relevant_indexes};
use cost::CostedCandidate;
pub(super) use covering::Cover;
pub use hint::Hint;
pub use index_filter::IndexFilter;
pub(super) use index_filter::{KeyMatch, SplitKey};
pub use index_spec::index_of;
use interval::Interval;
pub use point_lookup::{PointLookup, PointQuery};
pub use query::Query;
use query_shape::Expected;
pub(super) use query_shape::evict_if_misestimated;
pub use sort::Sort;

/// How a query is carried out.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Where the rows come from.
    pub path: Path,
    /// True if they must be sorted after that.
    pub sort_in_memory: bool,
    /// How the documents are put together from keys, if the index has all that is handed out.
    cover: Option<Cover>,
    /// What was expected of it when it was remembered.
    expected: Option<Expected>,
}

/// Where a plan's rows come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Path {
    /// Nowhere: no document can match.
    Empty,
    /// From every row of the collection.
    CollectionScan,
    /// From ranges of an index.
    Index {
        /// Its position in [`Source::indexes`].
        index: usize,
        /// Its name.
        name: String,
        /// The ranges, in the order they are walked.
        ranges: Vec<KeyRange>,
        /// Which way.
        direction: Direction,
        /// True if no row can be met twice.
        distinct: bool,
        /// What the keys tell about their rows.
        keys: KeyPredicate,
    },
    /// From sets of rows that indexes give, in the order of the rows.
    Bitmap(BitmapScan),
}

/// A plan by one index, and what it is estimated to take.
#[derive(Debug, Clone)]
pub(super) struct Alternative {
    pub(super) plan: Plan,
    /// Keys it walks.
    pub(super) keys: f64,
    /// Rows it fetches.
    pub(super) rows: f64,
    /// All of it, in fetches of a row.
    pub(super) cost: f64,
}

/// True if the keys of an index are the encodings of its rows' values, whole and in their order.
fn keys_are_values(index: &IndexInfo) -> bool {
    index.ordered && index.def.holds_values()
}

/// The intervals of values of each field of an index that conditions leave, as `explain` shows them.
pub(super) fn bounds_of(index: &IndexInfo, conditions: &[&Node]) -> Vec<Vec<String>> {
    let left = |part| match field_bounds::field_bounds(part, conditions, index) {
        Some(left) => left.intervals.iter().map(Interval::shown).collect(),
        None => vec!["[MinKey, MaxKey]".to_owned()],
    };
    index.def.keys.iter().map(left).collect()
}

/// Rows that indexes give.
#[derive(Debug, Clone, PartialEq)]
pub enum BitmapScan {
    /// Those of an index's entries.
    Index {
        /// Its position in [`Source::indexes`].
        index: usize,
        /// Its name.
        name: String,
        /// The ranges of its keys.
        ranges: Vec<KeyRange>,
        /// What the keys tell about their rows.
        keys: KeyPredicate,
    },
    /// Those that are in one of the sets.
    Or(Vec<BitmapScan>),
    /// Those that are in all of the sets.
    And(Vec<BitmapScan>),
}

/// What the keys of an index tell before a document is fetched.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KeyPredicate {
    /// What they are tested for.
    pub test: Option<IndexFilter>,
    /// True if a key that passes answers for its row: nothing of the filter is left.
    pub complete: bool,
}

impl Plan {
    /// Rows that come from `path` and are sorted in memory or not.
    pub fn new(path: Path, sort_in_memory: bool) -> Plan {
        Plan { path, sort_in_memory, cover: None, expected: None }
    }

    /// The plan for `query` over `source`.
    ///
    /// # Errors
    /// `BadValue` if the hint names an index that does not exist, or cannot be used for the query.
    pub fn choose(source: &dyn Source, context: &QueryContext<'_>, query: &Query) -> Result<Plan> {
        let conditions = query.filter.conjuncts();
        if let Some(hint) = &query.hint {
            return Self::hinted(source, query, &conditions, hint);
        }
        if let Some(plan) = point_lookup::choose(source, query, &conditions) {
            return Ok(plan);
        }
        let relevant_indexes = relevant_indexes(source, query, &conditions);
        // With one index to choose from there is nothing to remember.
        let shape = (relevant_indexes.len() > 1).then(|| query_shape::shape(query, &conditions));
        if let Some((found, expected)) =
            shape.and_then(|shape| query_shape::cached_plan(source, context, query, &conditions, shape))
        {
            return Ok(Plan { expected: Some(expected), ..found.plan });
        }
        let mut found: Vec<Candidate> = Vec::new();
        for one in
            relevant_indexes.into_iter().flat_map(|number| candidates(source, number, query, &conditions))
        {
            // One row at most: no other index can do better.
            if one.unique {
                return Ok(one.plan);
            }
            if one.helps(query) {
                found.push(one);
            }
        }
        let several = found.len() > 1 || conditions.iter().any(|condition| matches!(condition, Node::Or(_)));
        if !several {
            return Ok(found.pop().map_or_else(|| Self::rows(query), |only| only.plan));
        }
        let weighed = cost::with_costs(source, query, found);
        let best = cost::cheapest(weighed.clone());
        let least = best.as_ref().map(|best| best.cost.whole);
        if let Some(plan) = bitmap::bitmap_plan(source, query, &conditions, &weighed, least) {
            return Ok(plan);
        }
        let Some(CostedCandidate { candidate: best, cost, .. }) = best else { return Ok(Self::rows(query)) };
        let mut plan = best.plan;
        plan.expected =
            shape.and_then(|shape| query_shape::cache_plan(source, context, &plan, cost.keys, shape));
        Ok(plan)
    }

    /// The plans by each index that is of use, the cheapest first.
    pub(super) fn alternatives(source: &dyn Source, query: &Query) -> Vec<Alternative> {
        let conditions = query.filter.conjuncts();
        let found = relevant_indexes(source, query, &conditions)
            .into_iter()
            .flat_map(|number| candidates(source, number, query, &conditions))
            .filter(|one| one.unique || one.helps(query))
            .collect();
        let mut weighed = cost::with_costs(source, query, found);
        weighed.sort_by(|a, b| a.cost.whole.total_cmp(&b.cost.whole));
        let alternative = |one: CostedCandidate| Alternative {
            plan: one.candidate.plan,
            keys: one.cost.keys,
            rows: one.cost.rows,
            cost: one.cost.whole,
        };
        weighed.into_iter().map(alternative).collect()
    }

    /// How the documents are put together from keys, if they are.
    pub(super) fn covered(&self) -> Option<&Cover> {
        self.cover.as_ref()
    }

    /// The plan by the index that a hint names.
    fn hinted(source: &dyn Source, query: &Query, conditions: &[&Node], hint: &Hint) -> Result<Plan> {
        if *hint == Hint::Natural {
            return Ok(Self::rows(query));
        }
        let missing = |why: &str| {
            let message = format!("hint provided does not correspond to an existing index: {hint}{why}");
            Err(QueryError::new(ErrorCode::BadValue, message))
        };
        let Some((number, index)) = hint.find(source.indexes()) else {
            return missing("");
        };
        if index.def.options.hidden {
            return missing(" (it is hidden)");
        }
        let ways = candidates(source, number, query, conditions);
        match cost::cheapest(cost::with_costs(source, query, ways)) {
            Some(best) => Ok(best.candidate.plan),
            None => Err(QueryError::new(
                ErrorCode::NoQueryExecutionPlans,
                format!("error processing query: the index {hint}, which the hint names, cannot answer it"),
            )),
        }
    }

    /// The plan that looks at every row.
    fn rows(query: &Query) -> Plan {
        Self::new(Path::CollectionScan, query.sort.is_some())
    }
}
