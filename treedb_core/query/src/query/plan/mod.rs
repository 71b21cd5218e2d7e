//! The planner: chooses how the rows of a query are found.
//!
//! The conditions that every matching document must meet (the top level of the filter, `$and`s flattened) become what indexes
//! are asked; of an ordered index, ranges of its keys. Every fetched row is checked against the whole filter, so what indexes
//! find may be more than the filter selects, never less. A query that can use an index does not scan the collection; of
//! several indexes the one with the lowest estimated cost is used.
//!
//! | file | what it holds |
//! |---|---|
//! | `query` | [`Query`]: what is planned |
//! | `sort` | [`Sort`]: the requested sort order |
//! | `bounds` | plans of the bounds that a request gives for the keys of an index |
//! | `hint` | [`Hint`]: the index that a request wants to be used |
//! | `index_spec` | [`index_of`]: parses the specification of an index |
//! | `implication` | whether conditions imply other conditions |
//! | `ordered` | what ordered indexes can do for a query: all that is about keys and their order |
//! | `estimate` | [`Estimate`]: the work that a plan is expected to take |
//! | `selectivity` | which share of the documents matches |
//! | `query_shape` | the plan cache: chosen indexes by the shape of queries |
//! | `summary` | [`PlanSummary`]: a plan in a few words |

mod bounds;
mod estimate;
mod hint;
mod implication;
mod index_spec;
mod ordered;
mod query;
mod query_shape;
mod selectivity;
mod sort;
mod summary;

use crate::access::{Direction, IndexInfo, KeyRange, QueryContext, Source};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::filter::{Filter, Node};

pub use estimate::Estimate;
pub use hint::Hint;
pub use index_spec::{check_id_index_fields, definition_of, index_of, new_definitions_of};
use ordered::{Candidate, CostedCandidate, candidates, relevant_indexes};
pub(super) use ordered::{Cover, KeyMatch, OrderedIndex, SplitKey, bounds_of};
pub use ordered::{IndexFilter, NearSearch, PointLookup, PointQuery, SearchedFields};
pub use query::{KeyBounds, Query, Returns};
use query_shape::Expected;
pub(super) use query_shape::evict_if_misestimated;
pub use selectivity::matching_share;
pub use sort::Sort;
pub use summary::PlanSummary;
pub(super) use summary::{IDHACK, index_stage, keys_suffice, near_stage};

/// How a query is executed.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Where its rows come from.
    pub path: Path,
    /// True if they have to be sorted.
    pub sort_in_memory: bool,
    /// True for a collection scan from the last row to the first.
    pub backward: bool,
    /// True if it is a look-up of one key of a unique index, which finds one row at most (or the few that an array's
    /// elements lead to).
    pub unique: bool,
    /// How documents are built from keys, if the index covers the query.
    cover: Option<Cover>,
    /// The plan cache entry that it came from.
    expected: Option<Expected>,
}

/// Where a plan's rows come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Path {
    /// No document can match.
    Empty,
    /// All rows of the collection.
    CollectionScan,
    /// Ranges of an index.
    Index {
        /// Its position in [`Source::indexes`].
        index: usize,
        /// Its name.
        name: String,
        /// The ranges, in the order in which they are scanned.
        ranges: Vec<KeyRange>,
        /// The direction of the scan.
        direction: Direction,
        /// True if no row can be found twice.
        distinct: bool,
        /// The conditions evaluated on the keys.
        keys: KeyPredicate,
    },
    /// Bitmaps of row ids from several indexes, in row order.
    Bitmap(BitmapScan),
    /// Rings of growing distance around the point of a `$near`.
    Near(NearSearch),
}

/// A plan by one index, with its estimate.
#[derive(Debug, Clone)]
pub(super) struct Alternative {
    pub(super) plan: Plan,
    /// Keys examined.
    pub(super) keys: f64,
    /// Rows fetched.
    pub(super) rows: f64,
    /// Total cost, in row fetches.
    pub(super) cost: f64,
}

/// A node of a bitmap plan.
#[derive(Debug, Clone, PartialEq)]
pub enum BitmapScan {
    /// The rows of an index's entries.
    Index {
        /// Its position in [`Source::indexes`].
        index: usize,
        /// Its name.
        name: String,
        /// The ranges of its keys.
        ranges: Vec<KeyRange>,
        /// The conditions evaluated on the keys.
        keys: KeyPredicate,
    },
    /// The union of bitmaps.
    Or(Vec<BitmapScan>),
    /// The intersection of bitmaps.
    And(Vec<BitmapScan>),
}

/// Conditions decided by index keys, before a document is fetched.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KeyPredicate {
    /// The filter on the keys.
    pub test: Option<IndexFilter>,
    /// True if a row whose key passes is known to match: the keys cover the whole filter. Of an intersection, if the
    /// keys of all its indexes do together.
    pub complete: bool,
}

fn count_use(source: &dyn Source, index: usize) {
    if let Some(index) = source.indexes().get(index) {
        index.uses.add();
    }
}

impl BitmapScan {
    fn for_each_index(&self, visit: &mut impl FnMut(usize)) {
        match self {
            BitmapScan::Index { index, .. } => visit(*index),
            BitmapScan::Or(sets) | BitmapScan::And(sets) => {
                sets.iter().for_each(|set| set.for_each_index(visit));
            }
        }
    }
}

impl Plan {
    /// A plan with this path, whose rows are sorted in memory or not.
    pub fn new(path: Path, sort_in_memory: bool) -> Plan {
        Plan { path, sort_in_memory, backward: false, unique: false, cover: None, expected: None }
    }

    /// Calls `visit` with the position, in [`Source::indexes`], of each index that the plan reads: as often as it reads it.
    pub fn for_each_index(&self, visit: &mut impl FnMut(usize)) {
        match &self.path {
            Path::Empty | Path::CollectionScan => {}
            Path::Index { index, .. } => visit(*index),
            Path::Bitmap(set) => set.for_each_index(visit),
            Path::Near(search) => visit(search.index),
        }
    }

    /// Counts one more use of each index that the plan reads, of the indexes of `source`.
    pub(in crate::query) fn count_use(&self, source: &dyn Source) {
        self.for_each_index(&mut |index| count_use(source, index));
    }

    /// The plan for `query` over `source`.
    ///
    /// # Errors
    /// `BadValue` if the hint names an index that does not exist, or cannot be used for the query.
    pub fn choose(source: &dyn Source, context: &QueryContext<'_>, query: &Query) -> Result<Plan> {
        let conditions = query.filter.conjuncts();
        if let Some((path, near)) = query.filter.near() {
            bounds::refuse_near(query)?;
            let search = ordered::near_search(source, query, &conditions, path, near)?;
            return Ok(Self::new(Path::Near(search), query.sort.is_some()));
        }
        if let Some(hint) = &query.hint {
            return Self::hinted(source, query, &conditions, hint);
        }
        bounds::refuse(&query.bounds)?;
        if let Some(plan) = ordered::choose_point_lookup(source, query, &conditions) {
            return Ok(plan);
        }
        let relevant_indexes = relevant_indexes(source.indexes(), query, &conditions);
        // With only one index to choose from there is nothing to cache.
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
            // At most one row: no other index can be cheaper.
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
        let weighed = ordered::with_costs(source, query, found);
        let best = ordered::cheapest(weighed.clone());
        let least = best.as_ref().map(|best| best.cost.whole);
        if let Some(plan) = ordered::bitmap_plan(source, query, &conditions, &weighed, least) {
            return Ok(plan);
        }
        let Some(CostedCandidate { candidate: best, cost, .. }) = best else { return Ok(Self::rows(query)) };
        let mut plan = best.plan;
        plan.expected =
            shape.and_then(|shape| query_shape::cache_plan(source, context, &plan, cost.keys, shape));
        Ok(plan)
    }

    /// The plans with each useful index, the cheapest first.
    pub(super) fn alternatives(source: &dyn Source, query: &Query) -> Vec<Alternative> {
        let conditions = query.filter.conjuncts();
        if query.filter.near().is_some() {
            return Vec::new();
        }
        let found = relevant_indexes(source.indexes(), query, &conditions)
            .into_iter()
            .flat_map(|number| candidates(source, number, query, &conditions))
            .filter(|one| one.unique || one.helps(query))
            .collect();
        let mut weighed = ordered::with_costs(source, query, found);
        weighed.sort_by(|a, b| a.cost.whole.total_cmp(&b.cost.whole));
        let alternative = |one: CostedCandidate| Alternative {
            plan: one.candidate.plan,
            keys: one.cost.keys,
            rows: one.cost.rows,
            cost: one.cost.whole,
        };
        weighed.into_iter().map(alternative).collect()
    }

    /// By which fields each useful one of `indexes` is searched for `query`, in which some values may stand for others that are not known yet. `known`
    /// has conditions that the query has whatever these are: they alone decide whether a sparse or a partial index has all documents that
    /// match. An index with a collation of its own is not searched: a value may be a text. What the values are decides nothing else but whether
    /// conditions contradict each other, and these bound the fields of an index as others do.
    pub fn searched_fields(indexes: &[IndexInfo], query: &Query, known: &Filter) -> Vec<SearchedFields> {
        if query.filter.near().is_some() {
            return Vec::new();
        }
        let (conditions, known) = (query.filter.conjuncts(), known.conjuncts());
        relevant_indexes(indexes, query, &conditions)
            .into_iter()
            .flat_map(|number| ordered::searched_fields(indexes, number, query, &conditions, &known))
            .collect()
    }

    /// Whether documents are built from keys, so that rows are fetched only where keys do not suffice.
    pub fn is_covered(&self) -> bool {
        self.cover.is_some()
    }

    /// How documents are built from keys, if the plan covers the query.
    pub(super) fn covered(&self) -> Option<&Cover> {
        self.cover.as_ref()
    }

    /// The plan with the index that a hint names.
    fn hinted(source: &dyn Source, query: &Query, conditions: &[&Node], hint: &Hint) -> Result<Plan> {
        if let Hint::Natural(direction) = hint {
            bounds::refuse(&query.bounds)?;
            return Ok(Plan { backward: *direction == Direction::Backward, ..Self::rows(query) });
        }
        let missing = |why: &str| {
            let message = format!("hint provided does not correspond to an existing index: {hint}{why}");
            Err(QueryError::new(ErrorCode::BadValue, message))
        };
        let Some((number, index)) = hint.find(source.indexes()) else {
            return missing("");
        };
        if index.def.as_ordered().is_some_and(|def| def.options.hidden) {
            return missing(" (it is hidden)");
        }
        if !query.bounds.is_none() {
            return bounds::plan(index, number, query);
        }
        let ways = candidates(source, number, query, conditions);
        match ordered::cheapest(ordered::with_costs(source, query, ways)) {
            Some(best) => Ok(best.candidate.plan),
            None => Err(QueryError::new(
                ErrorCode::NoQueryExecutionPlans,
                format!("error processing query: the index {hint}, which the hint names, cannot answer it"),
            )),
        }
    }

    /// The collection scan.
    fn rows(query: &Query) -> Plan {
        Self::new(Path::CollectionScan, query.sort.is_some())
    }
}
