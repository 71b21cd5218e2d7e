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
//! | `intervals` | from conditions to the values they leave at a path |
//! | `candidate` | the best use of one index |
//! | `key_test` | conditions tested on keys |
//! | `order` | whether a walk gives the order asked for |
//! | `cost` | which candidate is cheapest |

mod candidate;
mod cost;
mod intervals;
mod key_test;
mod order;

use crate::access::{KeyRange, Source, Way};
use crate::code::{ErrorCode, QueryError, Result};

use super::exec::Query;
use super::usable::uses;
use candidate::{Candidate, candidate, concerns};
pub use key_test::KeyTest;
pub(super) use key_test::{Room, Truth};

/// How a query is carried out.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Where the rows come from.
    pub path: Path,
    /// True if they must be sorted after that.
    pub sort_in_memory: bool,
}

/// Where a plan's rows come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Path {
    /// Nowhere: no document can match.
    Nothing,
    /// From every row of the collection.
    Rows,
    /// From ranges of an index.
    Index {
        /// Its position in [`Source::indexes`].
        index: usize,
        /// Its name.
        name: String,
        /// The ranges, in the order they are walked.
        ranges: Vec<KeyRange>,
        /// Which way.
        way: Way,
        /// True if no row can be met twice.
        distinct: bool,
        /// What the keys tell about their rows.
        keys: OnKeys,
    },
}

/// What the keys of an index tell before a document is fetched.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OnKeys {
    /// What they are tested for.
    pub test: Option<KeyTest>,
    /// True if a key that passes answers for its row: nothing of the filter is left.
    pub complete: bool,
}

impl Plan {
    /// The plan for `query` over `source`.
    ///
    /// # Errors
    /// `BadValue` if the hint names an index that does not exist.
    pub fn choose(source: &dyn Source, query: &Query) -> Result<Plan> {
        let conditions = query.filter.conjuncts();
        let indexes = source.indexes().iter().enumerate();
        match query.hint.as_deref() {
            Some("$natural") => return Ok(Self::rows(query)),
            Some(name) => {
                let Some((number, index)) = indexes.clone().find(|(_, index)| index.def.name == name) else {
                    return Err(QueryError::new(
                        ErrorCode::BadValue,
                        format!("hint provided does not correspond to an existing index: {name}"),
                    ));
                };
                if index.def.options.hidden {
                    return Err(QueryError::new(
                        ErrorCode::BadValue,
                        format!(
                            "hint provided does not correspond to an existing index: {name} (it is hidden)"
                        ),
                    ));
                }
                let ways = uses(index, query, &conditions);
                let ways = ways.iter().map(|way| candidate(number, way, query)).collect();
                return match cost::cheapest(source, query, ways) {
                    Some(best) => Ok(best.plan),
                    None => Err(QueryError::new(
                        ErrorCode::NoQueryExecutionPlans,
                        format!(
                            "error processing query: the index {name}, which the hint names, cannot answer it"
                        ),
                    )),
                };
            }
            None => {}
        }
        let mut found: Vec<Candidate> = Vec::new();
        let ways =
            indexes.filter(|(_, index)| query.sort.is_some() || concerns(index, &conditions)).flat_map(
                |(number, index)| uses(index, query, &conditions).into_iter().map(move |way| (number, way)),
            );
        for (number, way) in ways {
            let one = candidate(number, &way, query);
            // One row at most: no other index can do better.
            if one.unique {
                return Ok(one.plan);
            }
            if one.helps(query) {
                found.push(one);
            }
        }
        Ok(cost::cheapest(source, query, found).map_or_else(|| Self::rows(query), |best| best.plan))
    }

    /// The plan that looks at every row.
    fn rows(query: &Query) -> Plan {
        Plan { path: Path::Rows, sort_in_memory: query.sort.is_some() }
    }
}
