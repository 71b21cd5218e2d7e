//! The best use of one index: the key ranges to scan, the filter on its keys, the sort order it gives.

use std::collections::BTreeSet;

use super::eligible_indexes::{IndexUse, index_uses};
use super::interval::{Interval, MAX_POINTS, MAX_RANGES};
use crate::access::{Direction, IndexInfo, KeyRange, Source};
use crate::index::ordered::{IndexDef, Kind, SortOrder, hashed};
use crate::query::filter::Node;
use crate::query::{Query, Sort};

use super::OrderedIndex;
use super::covering::cover;
use super::field_bounds::field_bounds;
use super::geo_cells::{MOST_RANGES, cells_of, range_of_cells};
use super::index_filter::{IndexFilter, Undecided, index_filter};
use super::index_order::gives_order;
use crate::query::plan::{KeyPredicate, Path, Plan};

/// A plan with the properties by which plans are compared.
#[derive(Debug, Clone)]
pub(in crate::query) struct Candidate {
    pub(in crate::query) plan: Plan,
    /// Fields with equalities, then whether the next field is bounded on one side or two.
    pub(in crate::query) equalities: usize,
    pub(in crate::query) bounds: usize,
    /// True if it finds at most one row.
    pub(in crate::query) unique: bool,
    /// Estimated fraction of the entries in the ranges that pass the index filter.
    pub(in crate::query) passing: f64,
    /// The conditions of the query that its keys leave undecided.
    pub(in crate::query) undecided: Undecided,
}

impl Candidate {
    /// True if the index is useful for the query.
    pub(in crate::query) fn helps(&self, query: &Query) -> bool {
        let tested = match &self.plan.path {
            Path::Index { keys, .. } => keys.test.as_ref().is_some_and(IndexFilter::is_of_use),
            _ => true,
        };
        self.equalities + self.bounds > 0 || tested || query.sort.is_some() && !self.plan.sort_in_memory
    }
}

/// True if a condition may use the index: a cheap check before a candidate is built.
fn is_relevant(def: &IndexDef, conditions: &[&Node]) -> bool {
    if matches!(def.options.kind, Kind::Wildcard(_)) {
        return !conditions.is_empty();
    }
    def.keys.iter().any(|part| conditions.iter().any(|condition| mentions(condition, part.path.as_str())))
}

/// True if a condition may restrict the values at `path`.
fn mentions(condition: &Node, path: &str) -> bool {
    match condition {
        Node::In { path: at, .. }
        | Node::Compare { path: at, .. }
        | Node::Value { path: at, .. }
        | Node::Exists { path: at }
        | Node::Size { path: at, .. }
        | Node::Element { path: at, .. } => at.as_str() == path,
        Node::Member { path: at, .. } => path.starts_with(at.as_str()),
        Node::And(nodes) | Node::Or(nodes) => nodes.iter().any(|node| mentions(node, path)),
        Node::Not(node) => mentions(node, path),
        Node::Folded(folded) => mentions(folded.node(), path),
        Node::Schema(_) | Node::Expr(_) => false,
    }
}

impl Query {
    /// Whether a plan for this query may use an index of this definition. A source that opens its indexes for one query
    /// may leave the others out of [`Source::indexes`].
    pub fn may_use(&self, def: &IndexDef) -> bool {
        let sorted_by = |sort: &Sort| {
            def.keys.iter().any(|part| sort.keys.iter().any(|key| key.path.as_str() == part.path.as_str()))
        };
        self.hint.is_some()
            || self.sort.as_ref().is_some_and(sorted_by)
            || is_relevant(def, &self.filter.conjuncts())
    }
}

/// The positions of the indexes that may be relevant to a query.
pub(in crate::query) fn relevant_indexes(
    indexes: &[IndexInfo],
    query: &Query,
    conditions: &[&Node],
) -> Vec<usize> {
    let all = indexes.iter().enumerate();
    all.filter_map(|(number, info)| Some((number, OrderedIndex::of(info)?)))
        .filter(|(_, index)| query.sort.is_some() || is_relevant(&index.def, conditions))
        .map(|(number, _)| number)
        .collect()
}

/// The ways to use index number `number` for `conditions`, all of which must be met.
pub(in crate::query) fn candidates<'q>(
    source: &'q dyn Source,
    number: usize,
    query: &'q Query,
    conditions: &[&'q Node],
) -> Vec<Candidate> {
    let Some(index) = source.indexes().get(number).and_then(OrderedIndex::of) else { return Vec::new() };
    let ways = index_uses(&index, query, conditions, conditions);
    let candidates = ways.iter().map(|way| {
        let mut found = candidate(number, way, query);
        if matches!(found.plan.path, Path::Index { .. }) {
            found.plan.cover = cover(source, number, &way.index, query);
        }
        found
    });
    candidates.collect()
}

/// The candidate for using index number `number` this way, without what its keys may say of documents.
pub(super) fn candidate(number: usize, direction: &IndexUse<'_>, query: &Query) -> Candidate {
    let IndexUse { index, conditions, .. } = direction;
    let parts = &index.def.keys;
    let hashed_at = if let Kind::Hashed(at) = index.def.options.kind { Some(at) } else { None };
    let mut prefixes = vec![direction.prefix.clone()];
    let (mut equalities, mut bounds) = (0, 0);
    let mut ranges = None;
    let (mut implied, mut picked) = (Vec::new(), Vec::new());
    for (at, part) in parts.iter().enumerate() {
        // Fields in the same array: an entry has the values of one element, but two conditions may be met by
        // two elements, that is by two entries. So only one of these fields can bound the ranges.
        if index.multikey && parts.iter().take(at).any(|earlier| earlier.path.first() == part.path.first()) {
            break;
        }
        if let Kind::Geo(geo) = &index.def.options.kind
            && geo.has(at)
        {
            if let Some(cells) = cells_of(geo, part, conditions)
                && (prefixes.len() == 1 || prefixes.len() * cells.len() <= MOST_RANGES)
            {
                bounds = 2;
                let within =
                    |prefix: &Vec<u8>| cells.iter().map(|cells| range_of_cells(prefix, *cells)).collect();
                ranges =
                    Some(prefixes.iter().flat_map(|prefix| -> Vec<KeyRange> { within(prefix) }).collect());
            }
            break;
        }
        let Some(left) = field_bounds(part, conditions, index) else { break };
        if left.intervals.is_empty() {
            let plan = Plan::new(Path::Empty, false);
            let undecided = Undecided::All;
            return Candidate {
                plan,
                equalities: usize::MAX,
                bounds: 0,
                unique: true,
                passing: 0.0,
                undecided,
            };
        }
        let mut directed: Vec<Interval> =
            left.intervals.iter().map(|interval| interval.directed(part.direction)).collect();
        if part.direction == SortOrder::Descending {
            directed.reverse();
        }
        if hashed_at == Some(at) {
            let points: Option<Vec<&[u8]>> = directed.iter().map(Interval::single).collect();
            let few = |points: &Vec<&[u8]>| at == 0 || points.len() * prefixes.len() <= MAX_RANGES;
            let Some(points) = points.filter(few) else { break };
            // Two values may have the same hash, whose range must be scanned only once.
            let hashes: BTreeSet<[u8; 8]> = points.into_iter().map(hashed).collect();
            prefixes = prefixes
                .iter()
                .flat_map(|prefix| hashes.iter().map(move |hash| [prefix.as_slice(), hash].concat()))
                .collect();
            equalities += 1;
            continue;
        }
        let mut whole = true;
        if at == 0 && directed.len() > MAX_POINTS {
            directed = Interval::hull(&directed).into_iter().collect();
            whole = false;
        } else if at > 0 && prefixes.len() * directed.len() > MAX_RANGES {
            break;
        }
        if whole {
            implied.extend(left.implied);
        }
        picked.extend(left.picked.map(|condition| (at, condition)));
        let points: Option<Vec<&[u8]>> = directed.iter().map(Interval::single).collect();
        match points {
            Some(points) => {
                prefixes = prefixes
                    .iter()
                    .flat_map(|prefix| points.iter().map(move |point| [prefix.as_slice(), point].concat()))
                    .collect();
                equalities += 1;
            }
            None => {
                bounds = if directed.iter().all(Interval::is_bounded) { 2 } else { 1 };
                let found = prefixes
                    .iter()
                    .flat_map(|prefix| directed.iter().filter_map(|interval| interval.range(prefix)))
                    .collect();
                ranges = Some(found);
                break;
            }
        }
    }
    // In a wildcard index the ranges always include the path.
    if direction.ranges.is_some() || !direction.prefix.is_empty() {
        bounds = bounds.max(1);
    }
    let mut ranges: Vec<KeyRange> = ranges
        .or_else(|| direction.ranges.clone())
        .unwrap_or_else(|| prefixes.iter().map(|prefix| KeyRange::prefix(prefix.clone())).collect());
    let order =
        query.sort.as_ref().and_then(|sort| gives_order(index, equalities, bounds > 0, &ranges, sort));
    if order == Some(Direction::Backward) {
        ranges.reverse();
    }
    // Equality with one value in each field of a unique index finds at most one row.
    let unique = index.def.unique && equalities == parts.len() && ranges.len() == 1;
    implied.sort_unstable();
    // A row with several entries must be found by the entry that determines its order, so no entry may be
    // filtered out.
    let (test, undecided) = match order {
        Some(_) if index.multikey => (None, Undecided::All),
        _ => index_filter(index, conditions, &implied, &picked),
    };
    // Otherwise they are not numbered as those of the query.
    let undecided = if direction.all { undecided } else { Undecided::All };
    let complete = matches!(&undecided, Undecided::These(none) if none.is_empty());
    let passing = test.as_ref().map_or(1.0, IndexFilter::passing);
    let path = Path::Index {
        index: number,
        name: index.def.name.clone(),
        ranges,
        direction: order.unwrap_or(Direction::Forward),
        distinct: !index.multikey,
        keys: KeyPredicate { test, complete },
    };
    let mut plan = Plan::new(path, query.sort.is_some() && order.is_none());
    plan.unique = unique;
    Candidate { plan, equalities, bounds, unique, passing, undecided }
}
