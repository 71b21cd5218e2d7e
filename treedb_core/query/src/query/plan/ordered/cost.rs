//! Cost of plans, in row fetches: keys examined, rows fetched, documents sorted.
//!
//! The owner of an index estimates how many entries are in a range ([`Source::estimate`]); the native storage
//! uses the branch pages of the tree. Without an estimate, the number is guessed from the number of rows and
//! the conditions.

use crate::access::{KeyRange, Source};
use crate::query::Query;

use super::candidate::Candidate;
use crate::query::plan::{Path, Plan};

/// Cost of examining an index key, in row fetches.
const KEY: f64 = 0.25;
/// Cost of gathering the row of an entry for a bitmap, if its key is not looked at.
const GATHER: f64 = 0.08;
/// Cost of adding a row to a bitmap.
const SET: f64 = 0.1;
/// Cost of sorting a document, for each doubling of the number that the sort keeps: all of them, or as many as the limit.
const SORT: f64 = 0.2;
/// The maximum number of ranges that are estimated; the others are assumed to be similar.
const MAX_ESTIMATED: usize = 16;

/// The estimated cost of a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::query) struct Cost {
    /// Keys examined.
    pub(in crate::query) keys: f64,
    /// Rows fetched.
    pub(in crate::query) rows: f64,
    /// Total, in row fetches.
    pub(in crate::query) whole: f64,
}

/// A candidate with its cost.
#[derive(Debug, Clone)]
pub(in crate::query) struct CostedCandidate {
    pub(in crate::query) candidate: Candidate,
    /// The entries in its ranges, even if a scan stops before all of them are visited.
    pub(in crate::query) keys: f64,
    pub(in crate::query) cost: Cost,
}

/// Factor on the cost of a full index scan whose selectivity is only a guess.
const GUESSED: f64 = 1.5;

impl CostedCandidate {
    /// The cost that candidates are compared by.
    fn weight(&self) -> f64 {
        let Candidate { equalities, bounds, passing, .. } = self.candidate;
        let guessed = equalities == 0 && bounds == 0 && passing < 1.0;
        self.cost.whole * if guessed { GUESSED } else { 1.0 }
    }
}

/// The candidates with their costs.
pub(in crate::query) fn with_costs(
    source: &dyn Source,
    query: &Query,
    candidates: Vec<Candidate>,
) -> Vec<CostedCandidate> {
    let keys: Vec<f64> = candidates.iter().map(|one| entries_of(source, one)).collect();
    let matches = candidates.iter().zip(&keys).map(|(one, keys)| keys * one.passing);
    // An upper estimate of the number of documents that match.
    let matches = matches.fold(f64::INFINITY, f64::min);
    let weigh = |(candidate, keys): (Candidate, f64)| {
        let cost = cost(query, &candidate, keys, matches);
        CostedCandidate { candidate, keys, cost }
    };
    candidates.into_iter().zip(keys).map(weigh).collect()
}

/// The cheapest candidate; the first of several with equal cost, so that planning is deterministic.
pub(in crate::query) fn cheapest(weighed: Vec<CostedCandidate>) -> Option<CostedCandidate> {
    weighed.into_iter().reduce(|best, one| {
        let (least, cost) = (best.weight(), one.weight());
        // Estimates are rough: if they hardly differ, the known properties of the candidates decide.
        let better = if (cost - least).abs() <= 0.02 * least.max(cost) {
            let rank = |one: &Candidate| (one.equalities, one.bounds, !one.plan.sort_in_memory);
            rank(&one.candidate) > rank(&best.candidate)
        } else {
            cost < least
        };
        if better { one } else { best }
    })
}

/// The cost of gathering the rows of a candidate's entries.
pub(super) fn gathering(one: &CostedCandidate) -> f64 {
    let tested = match &one.candidate.plan.path {
        Path::Index { keys, .. } => keys.test.is_some(),
        _ => false,
    };
    one.keys * if tested { KEY + SET } else { GATHER }
}

/// The cost of sorting `rows` documents, if the query has a sort. With a limit, only the first ones are kept in order.
pub(in crate::query) fn sorting(query: &Query, rows: f64) -> f64 {
    if query.sort.is_some() { rows * SORT * wanted(query).min(rows).max(2.0).log2() } else { 0.0 }
}

/// The documents after which a query ends; infinity without a limit.
fn wanted(query: &Query) -> f64 {
    if query.limit == 0 { f64::INFINITY } else { query.skip.saturating_add(query.limit) as f64 }
}

/// The cost of a candidate with `keys` entries in its ranges, if `matches` documents match.
fn cost(query: &Query, candidate: &Candidate, keys: f64, matches: f64) -> Cost {
    // A scan in the requested order can stop at the limit.
    let part = if candidate.plan.sort_in_memory { 1.0 } else { (wanted(query) / matches.max(1.0)).min(1.0) };
    let (keys, rows) = (keys * part, keys * part * candidate.passing);
    let sort = if candidate.plan.sort_in_memory { sorting(query, rows.min(matches)) } else { 0.0 };
    Cost { keys, rows, whole: keys * KEY + rows + sort }
}

/// The estimated number of entries in the candidate's ranges.
fn entries_of(source: &dyn Source, candidate: &Candidate) -> f64 {
    let Candidate { plan: Plan { path: Path::Index { index, ranges, .. }, .. }, .. } = candidate else {
        return 0.0;
    };
    entries(source, *index, ranges).unwrap_or_else(|| guessed(source, candidate, ranges.len()))
}

/// The estimated number of entries of an index in ranges of keys, if its owner has estimates.
pub(in crate::query) fn entries(source: &dyn Source, index: usize, ranges: &[KeyRange]) -> Option<f64> {
    let step = ranges.len().div_ceil(MAX_ESTIMATED).max(1);
    let (mut sum, mut looked_at) = (0, 0_usize);
    for range in ranges.iter().step_by(step) {
        sum += source.estimate(index, range)?;
        looked_at += 1;
    }
    Some(sum as f64 * (ranges.len() as f64 / looked_at.max(1) as f64))
}

/// [`entries_of`] if the owner of the index has no estimate.
fn guessed(source: &dyn Source, candidate: &Candidate, ranges: usize) -> f64 {
    let rows = source.estimated_rows() as f64;
    let equal = 0.1_f64.powi(i32::try_from(candidate.equalities).unwrap_or(i32::MAX));
    let bounded = [1.0, 0.4, 0.2].get(candidate.bounds).copied().unwrap_or(0.2);
    (rows * equal * bounded * ranges.max(1) as f64).min(rows)
}
