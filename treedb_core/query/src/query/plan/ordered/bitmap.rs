//! Bitmap plans: rows found by several indexes, as in Postgres.
//!
//! An `$or` whose branches each have an index, or several conditions of which none is selective alone. Each index gives
//! a bitmap of row ids; the bitmaps are united or intersected, and the remaining rows are fetched in row order.

use crate::access::Source;
use crate::query::Query;
use crate::query::filter::Node;

use super::candidate::{Candidate, candidates, relevant_indexes};
use super::cost::{self, CostedCandidate};
use super::index_filter::Undecided;
use crate::query::plan::{BitmapScan, KeyPredicate, Path, Plan};

/// The maximum number of branches of an `$or` that are planned.
const MAX_PARTS: usize = 64;
/// The maximum number of branches of all `$or`s of a query that are planned. Each is planned together with all other conditions, of which
/// there may be thousands.
const MAX_PARTS_OF_ALL: usize = 2 * MAX_PARTS;
/// The maximum number of conditions, of all of these branches together, from the second `$or` on.
const MAX_CONDITIONS: usize = 1 << 16;
/// The maximum number of indexes that are intersected.
const MAX_INTERSECTED: usize = 3;
/// A plan with a cost below this, in row fetches, is good enough.
const GOOD_ENOUGH: f64 = 32.0;

/// A bitmap plan that is cheaper than `least`, if there is one.
pub(in crate::query) fn bitmap_plan(
    source: &dyn Source,
    query: &Query,
    conditions: &[&Node],
    found: &[CostedCandidate],
    least: Option<f64>,
) -> Option<Plan> {
    if least.is_some_and(|least| least < GOOD_ENOUGH) {
        return None;
    }
    let mut least = least.unwrap_or(f64::INFINITY);
    let mut best = None;
    for found in [union(source, query, conditions), intersection(source, query, found)] {
        if let Some((set, cost)) = found
            && cost < least
        {
            least = cost;
            best = Some(set);
        }
    }
    let path = match best? {
        BitmapScan::Or(parts) if parts.is_empty() => Path::Empty,
        set => Path::Bitmap(set),
    };
    Some(Plan::new(path, query.sort.is_some()))
}

/// The bitmap of a candidate's index.
fn bitmap_of(candidate: Candidate) -> Option<BitmapScan> {
    match candidate.plan.path {
        Path::Index { index, name, ranges, keys, .. } => {
            Some(BitmapScan::Index { index, name, ranges, keys })
        }
        _ => None,
    }
}

/// The union for an `$or` among the conditions, each branch by the best index for it.
fn union(source: &dyn Source, query: &Query, conditions: &[&Node]) -> Option<(BitmapScan, f64)> {
    let mut best: Option<(BitmapScan, f64)> = None;
    let mut left = MAX_PARTS_OF_ALL;
    let affordable = MAX_CONDITIONS / conditions.len().max(1);
    let mut unordered = None;
    for (at, condition) in conditions.iter().enumerate() {
        let Node::Or(parts) = condition else { continue };
        let planned = MAX_PARTS_OF_ALL - left;
        let is_costly = planned > 0 && planned + parts.len() > affordable;
        if parts.len() > MAX_PARTS.min(left) || is_costly {
            continue;
        }
        left -= parts.len();
        // A bitmap has no sort order.
        let unordered =
            unordered.get_or_insert_with(|| Query { sort: None, limit: 0, skip: 0, ..query.clone() });
        let others =
            || conditions.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, node)| *node);
        if let Some((set, cost)) = united(source, unordered, parts, &others().collect::<Vec<_>>())
            .map(|(set, cost, rows)| (set, cost + cost::sorting(query, rows)))
            && best.as_ref().is_none_or(|(_, least)| cost < *least)
        {
            best = Some((set, cost));
        }
    }
    best
}

/// The union for one `$or`, with its cost without sorting, and its rows.
fn united(
    source: &dyn Source,
    unordered: &Query,
    parts: &[Node],
    others: &[&Node],
) -> Option<(BitmapScan, f64, f64)> {
    let (mut sets, mut whole, mut rows) = (Vec::with_capacity(parts.len()), 0.0, 0.0);
    for part in parts {
        let mut conditions = Vec::new();
        open(part, &mut conditions);
        conditions.extend(others);
        let found: Vec<Candidate> = relevant_indexes(source.indexes(), unordered, &conditions)
            .into_iter()
            .flat_map(|number| candidates(source, number, unordered, &conditions))
            .filter(|one| one.unique || one.helps(unordered))
            .collect();
        if found.iter().any(|one| one.plan.path == Path::Empty) {
            continue;
        }
        let weighed = cost::with_costs(source, unordered, found);
        let best = cost::cheapest(weighed)?;
        (whole, rows) = (whole + cost::gathering(&best), rows + best.cost.rows);
        sets.push(bitmap_of(best.candidate)?);
    }
    Some((BitmapScan::Or(sets), whole + rows, rows))
}

/// The conditions of a branch of an `$or`.
fn open<'n>(node: &'n Node, all: &mut Vec<&'n Node>) {
    match node {
        Node::And(nodes) => nodes.iter().for_each(|node| open(node, all)),
        node => all.push(node),
    }
}

/// The intersection of several candidates.
fn intersection(source: &dyn Source, query: &Query, found: &[CostedCandidate]) -> Option<(BitmapScan, f64)> {
    let all = (source.estimated_rows() as f64).max(1.0);
    let mut bounded: Vec<&CostedCandidate> =
        found.iter().filter(|one| one.candidate.equalities + one.candidate.bounds > 0).collect();
    bounded.sort_by(|a, b| (a.keys * a.candidate.passing).total_cmp(&(b.keys * b.candidate.passing)));
    let first_path = |one: &CostedCandidate| match &one.candidate.plan.path {
        Path::Index { index, .. } => {
            Some(source.indexes().get(*index)?.def.as_ordered()?.keys.first()?.path.as_str().to_owned())
        }
        _ => None,
    };
    let mut chosen: Vec<&CostedCandidate> = Vec::new();
    let mut paths = Vec::new();
    let mut best: Option<(usize, f64)> = None;
    let (mut walked, mut part) = (0.0, 1.0);
    for one in bounded {
        let Some(path) = first_path(one) else { continue };
        // Two indexes with the same first field select the same rows.
        if paths.contains(&path) || chosen.len() == MAX_INTERSECTED {
            continue;
        }
        paths.push(path);
        chosen.push(one);
        walked += cost::gathering(one);
        part *= (one.keys * one.candidate.passing / all).min(1.0);
        // Conditions are rarely independent of each other, so their selectivities are not simply multiplied.
        let rows = all * part.powf(0.75);
        let whole = walked + rows + cost::sorting(query, rows);
        if chosen.len() > 1 && best.is_none_or(|(_, least)| whole < least) {
            best = Some((chosen.len(), whole));
        }
    }
    let (count, whole) = best?;
    chosen.truncate(count);
    let complete = together_complete(&chosen);
    let sets = chosen.into_iter().map(|one| {
        let set = bitmap_of(one.candidate.clone())?;
        Some(match set {
            BitmapScan::Index { index, name, ranges, keys } => {
                BitmapScan::Index { index, name, ranges, keys: KeyPredicate { complete, ..keys } }
            }
            set => set,
        })
    });
    Some((BitmapScan::And(sets.collect::<Option<_>>()?), whole))
}

/// Whether the keys of several indexes decide all conditions.
fn together_complete(chosen: &[&CostedCandidate]) -> bool {
    let mut left: Option<Vec<usize>> = None;
    for one in chosen {
        match (&one.candidate.undecided, &mut left) {
            (Undecided::All, _) => return false,
            // They are in ascending order.
            (Undecided::These(these), Some(left)) => {
                left.retain(|condition| these.binary_search(condition).is_ok());
            }
            (Undecided::These(these), None) => left = Some(these.clone()),
        }
    }
    left.is_some_and(|left| left.is_empty())
}
