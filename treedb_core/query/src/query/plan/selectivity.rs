//! Which share of a collection's documents matches a filter.
//!
//! A condition on a path becomes ranges of keys, as for an index on the path ([`super::ordered`]). How many documents
//! are in them is asked of an index that begins with the path, or else of the statistics ([`Source::statistics`]); without
//! either it is a guess. Conditions on different paths count as independent of each other.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::access::statistics::PathStatistics;
use crate::access::{IndexInfo, Source};
use crate::doc::Path;
use crate::index::ordered::{IndexDef, KeyPart, SortOrder};
use crate::query::Query;
use crate::query::filter::{Node, Op};

use super::ordered::{Interval, OrderedIndex, entries_in_region, field_bounds};

/// The share of the rows that an equality leaves of which nothing is known.
const EQUAL: f64 = 0.1;
/// The share that a condition on one side leaves.
const BOUNDED: f64 = 0.4;
/// The share that any other condition leaves.
const OTHER: f64 = 0.5;
/// Ranges that are looked at; the others are assumed to be similar.
const MOST_RANGES: usize = 64;

/// About which share of the documents of `source` matches `query`.
pub fn matching_share(source: &dyn Source, query: &Query) -> f64 {
    all(source, &query.filter.conjuncts())
}

/// The share that meets all of `conditions`.
fn all(source: &dyn Source, conditions: &[&Node]) -> f64 {
    let mut share = 1.0;
    let mut by_path: Vec<(&Path, Vec<&Node>)> = Vec::new();
    let mut places = HashMap::new();
    for condition in conditions {
        let Some(path) = only_path(condition) else {
            share *= one(source, condition);
            continue;
        };
        let place = *places.entry(path.as_str()).or_insert(by_path.len());
        match by_path.get_mut(place) {
            Some((_, same)) => same.push(condition),
            None => by_path.push((path, vec![condition])),
        }
    }
    by_path.into_iter().fold(share, |share, (path, same)| share * at_path(source, path, &same))
}

/// The path of a condition on the values at one path.
fn only_path(condition: &Node) -> Option<&Path> {
    match condition {
        Node::Compare { path, .. } | Node::In { path, .. } | Node::Value { path, .. } => Some(path),
        Node::Element { path, .. } => Some(path),
        Node::Or(nodes) => {
            let (first, others) = nodes.split_first()?;
            let path = only_path(first)?;
            others.iter().all(|node| only_path(node).is_some_and(|other| other == path)).then_some(path)
        }
        _ => None,
    }
}

/// The share that meets conditions on the values at a path.
fn at_path(source: &dyn Source, path: &Path, conditions: &[&Node]) -> f64 {
    match Values::at(source, path) {
        // Two elements of an array may meet two conditions.
        Some(values) if values.on_path.multikey && conditions.len() > 1 => {
            conditions.iter().map(|condition| at_path(source, path, &[condition])).product()
        }
        Some(values) => match values.share(source, conditions) {
            Some(share) => share,
            None => conditions.iter().map(|condition| guessed(source, condition)).product(),
        },
        None => conditions.iter().map(|condition| guessed(source, condition)).product(),
    }
}

/// The share that meets one condition on other than the values at one path.
fn one(source: &dyn Source, condition: &Node) -> f64 {
    match condition {
        Node::Exists { path } => match source.statistics(path.as_str()) {
            Some(values) => 1.0 - values.missing,
            None => OTHER,
        },
        Node::Member { path, filter } => {
            let mut inner = Vec::new();
            inner_paths(path.as_str(), filter, &mut inner);
            let mut seen = HashSet::new();
            let known: Vec<f64> = inner
                .iter()
                .filter(|path| seen.insert(path.as_str()))
                .filter_map(|path| Values::at(source, path)?.share(source, &[condition]))
                .collect();
            if known.is_empty() { OTHER } else { known.into_iter().product() }
        }
        condition => guessed(source, condition),
    }
}

/// The paths of the values that conditions on an element of the array at `above` are about.
fn inner_paths(above: &str, filter: &Node, paths: &mut Vec<Path>) {
    match filter {
        Node::And(nodes) => nodes.iter().for_each(|node| inner_paths(above, node, paths)),
        node => {
            paths.extend(only_path(node).map(|path| Path::new(&format!("{above}.{path}"))));
        }
    }
}

/// The share that meets a condition by its form alone; one on locations, by an index of them.
fn guessed(source: &dyn Source, condition: &Node) -> f64 {
    match condition {
        Node::And(nodes) => all(source, &nodes.iter().collect::<Vec<_>>()),
        Node::Or(nodes) => 1.0 - nodes.iter().map(|node| 1.0 - all(source, &[node])).product::<f64>(),
        Node::Not(node) => 1.0 - all(source, &[node]),
        Node::Compare { op: Op::Eq, .. } => EQUAL,
        Node::Compare { .. } => BOUNDED,
        Node::In { values, .. } => (EQUAL * values.len() as f64).min(1.0),
        Node::Folded(folded) => guessed(source, folded.node()),
        Node::Value { .. } => match entries_in_region(source, condition) {
            Some(entries) => (entries / (source.estimated_rows() as f64).max(1.0)).min(1.0),
            None => OTHER,
        },
        Node::Exists { .. }
        | Node::Size { .. }
        | Node::Element { .. }
        | Node::Member { .. }
        | Node::Expr(_)
        | Node::Schema(_) => OTHER,
    }
}

/// What is known of the values at a path.
struct Values {
    /// An index on the path alone, as ranges of keys are made for it.
    on_path: OrderedIndex<'static>,
    /// The number of an index that begins with the path and has one entry of every document.
    index: Option<usize>,
    /// Otherwise the statistics.
    known: Option<PathStatistics>,
}

impl Values {
    fn at(source: &dyn Source, path: &Path) -> Option<Values> {
        let begins = |index: &IndexInfo| {
            let Some(def) = index.def.as_ordered() else { return false };
            let options = &def.options;
            options.kind.is_values()
                && !options.sparse
                && options.partial.is_none()
                && options.collation.is_simple()
                && !index.multikey
                && def.keys.first().is_some_and(|part| part.path == *path)
        };
        let found = source.indexes().iter().enumerate().find(|(_, index)| begins(index));
        let index = found.map(|(number, _)| number);
        let direction = found.and_then(|(_, index)| Some(index.def.as_ordered()?.keys.first()?.direction));
        let known = if index.is_none() { Some(source.statistics(path.as_str())?) } else { None };
        let mut def = IndexDef::id();
        def.keys = vec![KeyPart { path: path.clone(), direction: direction.unwrap_or(SortOrder::Ascending) }];
        let multikey = known.as_ref().is_some_and(|known| known.multikey);
        let on_path = OrderedIndex { def: Cow::Owned(def), multikey, ordered: true };
        Some(Values { on_path, index, known })
    }

    /// The share that meets all of these conditions; `None` if their ranges do not say.
    fn share(&self, source: &dyn Source, conditions: &[&Node]) -> Option<f64> {
        let part = self.on_path.def.keys.first()?;
        let bounds = field_bounds(part, conditions, &self.on_path)?;
        let rows = (source.estimated_rows() as f64).max(1.0);
        let step = bounds.intervals.len().div_ceil(MOST_RANGES).max(1);
        let looked_at = bounds.intervals.iter().step_by(step);
        let scale = bounds.intervals.len() as f64 / looked_at.len().max(1) as f64;
        let by_index = |interval: &Interval| -> Option<f64> {
            let range = interval.directed(part.direction).range(&[])?;
            Some(source.estimate(self.index?, &range)? as f64 / rows)
        };
        let share = match looked_at.clone().map(by_index).sum::<Option<f64>>() {
            Some(share) => share,
            None => {
                let read = self.known.is_none().then(|| source.statistics(part.path.as_str())).flatten();
                let known = self.known.as_ref().or(read.as_ref())?;
                let by_statistics = |interval: &Interval| match interval.single() {
                    Some(key) => Some(known.share_of_key(key, rows)),
                    None => interval.range(&[]).map(|range| known.share_of_range(&range)),
                };
                looked_at.map(by_statistics).sum::<Option<f64>>()?
            }
        };
        Some((share * scale).min(1.0))
    }
}
