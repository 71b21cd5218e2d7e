//! Choosing how to find what a query asks for.
//!
//! The conditions that every matching document must fulfil (the top of the filter, `$and`s opened) become intervals
//! of values, the intervals ranges of index keys. Of the indexes that have a range for the query the one with the
//! most equalities wins, then the one that is bounded at both ends, then the one that also gives the order. Without any,
//! an index that gives the order; else every row is looked at. The whole filter is applied to each row afterwards,
//! so ranges may hold more than the filter asks for, never less.

use crate::access::{IndexInfo, KeyRange, Source, Way};
use crate::code::{ErrorCode, QueryError, Result};
use crate::index::ordered::{Direction, KeyPart};

use super::bounds::{Interval, MAX_POINTS, MAX_RANGES};
use super::exec::Query;
use super::filter::{Node, Op};
use super::sort::Sort;

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
    },
}

/// A plan with what speaks for it.
struct Candidate {
    plan: Plan,
    /// Fields with equalities, then whether the next field is bounded on one side or two.
    equalities: usize,
    bounds: usize,
    /// One row at most.
    unique: bool,
}

impl Candidate {
    /// Greater is better.
    fn rank(&self) -> (usize, usize, bool) {
        (self.equalities, self.bounds, !self.plan.sort_in_memory)
    }
}

impl Plan {
    /// The plan for `query` over `source`.
    ///
    /// # Errors
    /// `BadValue` if the hint names an index that does not exist.
    pub fn choose(source: &dyn Source, query: &Query) -> Result<Plan> {
        let all_rows = Plan { path: Path::Rows, sort_in_memory: query.sort.is_some() };
        let conditions = query.filter.conjuncts();
        let indexes = source.indexes().iter().enumerate();
        match query.hint.as_deref() {
            Some("$natural") => return Ok(all_rows),
            Some(name) => {
                let Some((number, index)) = indexes.clone().find(|(_, index)| index.def.name == name) else {
                    return Err(QueryError::new(
                        ErrorCode::BadValue,
                        format!("hint provided does not correspond to an existing index: {name}"),
                    ));
                };
                return Ok(candidate(number, index, &conditions, query.sort.as_ref()).plan);
            }
            None => {}
        }
        let mut best: Option<Candidate> = None;
        for (number, index) in indexes.filter(|(_, index)| query.sort.is_some() || bounds(index, &conditions))
        {
            let one = candidate(number, index, &conditions, query.sort.as_ref());
            // One row at most: no other index can do better.
            if one.unique {
                return Ok(one.plan);
            }
            let helps = one.equalities + one.bounds > 0 || query.sort.is_some() && !one.plan.sort_in_memory;
            // The first of equals, so that a plan does not depend on how often one asks.
            if helps && best.as_ref().is_none_or(|best| one.rank() > best.rank()) {
                best = Some(one);
            }
        }
        Ok(best.map_or(all_rows, |best| best.plan))
    }
}

/// True if a condition may bound a walk of the index: seen at a glance, before anything is built.
fn bounds(index: &IndexInfo, conditions: &[&Node]) -> bool {
    let Some(first) = index.def.keys.first() else { return false };
    conditions.iter().any(|condition| mentions(condition, first.path.as_str()))
}

/// True if a condition on the values at `path` may bound a walk of them.
fn mentions(condition: &Node, path: &str) -> bool {
    match condition {
        Node::In { path: at, .. } | Node::Compare { path: at, .. } | Node::Value { path: at, .. } => {
            at.as_str() == path
        }
        Node::Element { path: at, condition } => at.as_str() == path && mentions(condition, path),
        Node::Member { path: at, filter } => {
            inside(path, at.as_str()).is_some_and(|inner| mentions(filter, inner))
        }
        Node::And(nodes) => nodes.iter().any(|node| mentions(node, path)),
        Node::Or(nodes) => nodes.iter().all(|node| mentions(node, path)),
        Node::Not(_) | Node::Exists { .. } | Node::Size { .. } | Node::Schema(_) | Node::Expr(_) => false,
    }
}

/// What is left of `path` behind `way` and a dot.
fn inside<'p>(path: &'p str, way: &str) -> Option<&'p str> {
    path.strip_prefix(way)?.strip_prefix('.')
}

/// The best use of one index.
fn candidate(number: usize, index: &IndexInfo, conditions: &[&Node], sort: Option<&Sort>) -> Candidate {
    let parts = &index.def.keys;
    let mut prefixes = vec![Vec::new()];
    let (mut equalities, mut bounds) = (0, 0);
    let mut ranges = None;
    for (at, part) in parts.iter().enumerate() {
        // Fields that lead through the same array have the values of one element together in an entry, but two
        // conditions may be met by two elements, that is by two entries: only one of these fields bounds the walk.
        if index.multikey && parts.iter().take(at).any(|earlier| earlier.path.first() == part.path.first()) {
            break;
        }
        let Some(intervals) = intervals(part, conditions, index.multikey) else { break };
        if intervals.is_empty() {
            let plan = Plan { path: Path::Nothing, sort_in_memory: false };
            return Candidate { plan, equalities: usize::MAX, bounds: 0, unique: true };
        }
        let mut directed: Vec<Interval> =
            intervals.iter().map(|interval| interval.directed(part.direction)).collect();
        if part.direction == Direction::Descending {
            directed.reverse();
        }
        if at == 0 && directed.len() > MAX_POINTS {
            directed = Interval::hull(&directed).into_iter().collect();
        } else if at > 0 && prefixes.len() * directed.len() > MAX_RANGES {
            break;
        }
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
    let mut ranges: Vec<KeyRange> =
        ranges.unwrap_or_else(|| prefixes.iter().map(|prefix| KeyRange::prefix(prefix.clone())).collect());
    let way = sort.and_then(|sort| gives_order(index, equalities, bounds > 0, &ranges, sort));
    if way == Some(Way::Backward) {
        ranges.reverse();
    }
    // Equal to one value in each field of a unique index: one row at most, or the few of an array's elements.
    let unique = index.def.unique && equalities == parts.len() && ranges.len() == 1;
    let path = Path::Index {
        index: number,
        name: index.def.name.clone(),
        ranges,
        way: way.unwrap_or(Way::Forward),
        distinct: !index.multikey,
    };
    let plan = Plan { path, sort_in_memory: sort.is_some() && way.is_none() };
    Candidate { plan, equalities, bounds, unique }
}

/// Which way walking `ranges` gives the order of `sort`, if either does. `equal` fields at the front of the index
/// have the same value in all entries of a range; `bounded` tells whether the field after them has bounds.
fn gives_order(
    index: &IndexInfo,
    equal: usize,
    bounded: bool,
    ranges: &[KeyRange],
    sort: &Sort,
) -> Option<Way> {
    if !index.ordered || index.multikey && !gives_least_key_first(index, equal, bounded, ranges, sort) {
        return None;
    }
    let parts = &index.def.keys;
    // One range has one value in each equal field, so those may be left out of the sort; several ranges follow each
    // other in the order of all the fields.
    let first = if ranges.len() == 1 { (0..=equal.min(parts.len())).rev().collect() } else { vec![0] };
    first.into_iter().find_map(|skipped| {
        let used = parts.get(skipped..)?;
        // Of the skipped fields the sort may name any; they decide nothing.
        let asked: Vec<&KeyPart> = sort
            .keys
            .iter()
            .filter(|key| !parts.iter().take(skipped).any(|part| part.path == key.path))
            .collect();
        if asked.len() > used.len() || asked.iter().zip(used).any(|(asked, part)| asked.path != part.path) {
            return None;
        }
        let same = asked.iter().zip(used).all(|(asked, part)| asked.direction == part.direction);
        let turned = asked.iter().zip(used).all(|(asked, part)| asked.direction == part.direction.reversed());
        match (same, turned) {
            (true, _) => Some(Way::Forward),
            (_, true) => Some(Way::Backward),
            _ => None,
        }
    })
}

/// A row of a multikey index is met first under the least of its keys that are walked. The sort goes by the least
/// of all, so every key must be walked as far as the sort's fields go: these have no bounds, and lie in no array
/// that an equality picks elements from.
fn gives_least_key_first(
    index: &IndexInfo,
    equal: usize,
    bounded: bool,
    ranges: &[KeyRange],
    sort: &Sort,
) -> bool {
    let picked = || index.def.keys.iter().take(equal).map(|part| part.path.first());
    let apart = sort.keys.iter().all(|key| picked().all(|first| first != key.path.first()));
    !bounded && ranges.len() == 1 && apart
}

/// The values the conditions leave for a field, in order and apart from each other; `None` if they leave all.
fn intervals(part: &KeyPart, conditions: &[&Node], multikey: bool) -> Option<Vec<Interval>> {
    let of = if multikey { Of::Several } else { Of::One };
    all_of(part.path.as_str(), conditions.iter().copied(), of)
}

/// What the conditions at a path are about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// The one value it leads to in a document.
    One,
    /// The several values it may lead to: two conditions may be met by two of them.
    Several,
    /// One element of an array at its end. Should that be an array itself, its elements are not in the index.
    Element,
}

/// The values that all conditions leave at a path; `None` if they leave all.
fn all_of<'n>(path: &str, conditions: impl Iterator<Item = &'n Node>, of: Of) -> Option<Vec<Interval>> {
    let mut left: Option<Vec<Interval>> = None;
    for condition in conditions {
        let Some(allowed) = allowed(path, condition, of) else { continue };
        left = match left {
            None => Some(allowed),
            // Two conditions on an array may be met by two elements: one of them has to do, the tighter one.
            Some(old) if of == Of::Several => {
                Some(if points(&allowed) && !points(&old) { allowed } else { old })
            }
            Some(old) => Some(common(&old, &allowed)),
        };
    }
    left
}

/// What lies in both; all in order and apart.
fn common(a: &[Interval], b: &[Interval]) -> Vec<Interval> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut found = Vec::new();
    while let (Some(one), Some(other)) = (a.peek(), b.peek()) {
        found.extend(one.intersect(other));
        // Whichever ends first meets nothing more.
        if one.ends_before(other) {
            a.next()
        } else {
            b.next()
        };
    }
    found
}

fn points(intervals: &[Interval]) -> bool {
    intervals.iter().all(|interval| interval.single().is_some())
}

/// The values one condition allows at a path, in order and apart from each other; `None` if it says nothing that an
/// index could use.
fn allowed(path: &str, condition: &Node, of: Of) -> Option<Vec<Interval>> {
    let found = match condition {
        Node::In { path: at, values } if at.as_str() == path => values
            .iter()
            .map(|value| Interval::equal(value.value()))
            .collect::<Option<Vec<_>>>()
            .map(|all| all.concat())?,
        Node::Compare { path: at, op, value } if at.as_str() == path => {
            let value = value.value();
            match op {
                Op::Eq => Interval::equal(value)?,
                Op::Gt => vec![Interval::above(value, false)?],
                Op::Gte => vec![Interval::above(value, true)?],
                Op::Lt => vec![Interval::below(value, false)?],
                Op::Lte => vec![Interval::below(value, true)?],
            }
        }
        Node::Value { path: at, test } if at.as_str() == path => Interval::passing(test)?,
        // All of it is about one element, which is one value; but where a path goes on by positions, the elements of
        // what it ends in are not in the index.
        Node::Element { path: at, condition }
            if of != Of::Element && at.as_str() == path && !at.has_positions() =>
        {
            return allowed(path, condition, Of::Element);
        }
        Node::Member { path: at, filter } if of != Of::Element && !at.has_positions() => {
            let inner = inside(path, at.as_str())?;
            if crate::doc::Path::new(inner).has_positions() {
                return None;
            }
            return allowed(inner, filter, Of::Several);
        }
        Node::And(nodes) => return all_of(path, nodes.iter(), of),
        Node::Or(nodes) => {
            nodes.iter().map(|node| allowed(path, node, of)).collect::<Option<Vec<_>>>()?.concat()
        }
        _ => return None,
    };
    Some(Interval::union(found))
}
