//! The plan cache: chosen indexes by the shape of the query, which is its structure and the types of its values.
//!
//! The key ranges are computed from the values each time; a hit saves the ranges and estimates of the other
//! candidates. An entry is valid while the collection has between half and twice as many rows as when it was
//! added, and until a query examines ten times as many keys as expected.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::access::{CachedPlan, QueryContext, Source};
use crate::doc::Value;
use crate::doc::compare::class;
use crate::query::filter::{Node, Test};
use crate::query::{Counters, Query};

use super::Path;
use super::Plan;
use super::ordered::{Candidate, candidates};

/// How many keys more than expected a scan may examine before the entry is removed.
const TOLERANCE: u64 = 100;

/// The estimate for a cached choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Expected {
    shape: u64,
    keys: u64,
}

/// Hash of the shape of a query with these conditions.
pub(super) fn shape(query: &Query, conditions: &[&Node]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for condition in conditions {
        hash_node(condition, &mut hasher);
    }
    query.sort.as_ref().map(|sort| &sort.keys).hash(&mut hasher);
    (query.limit > 0, query.projection.is_some()).hash(&mut hasher);
    hasher.finish()
}

fn hash_node(node: &Node, hasher: &mut DefaultHasher) {
    std::mem::discriminant(node).hash(hasher);
    match node {
        Node::And(nodes) | Node::Or(nodes) => {
            nodes.len().hash(hasher);
            nodes.iter().for_each(|node| hash_node(node, hasher));
        }
        Node::Not(node) => hash_node(node, hasher),
        Node::Folded(folded) => hash_node(folded.node(), hasher),
        Node::Compare { path, op, value } => {
            (path.as_str(), *op as u8, class(&value.value())).hash(hasher);
        }
        Node::In { path, values } => {
            // Lists of about the same length.
            (path.as_str(), values.len().checked_ilog2()).hash(hasher);
            values.first().map(|value| class(&value.value())).hash(hasher);
        }
        Node::Exists { path } | Node::Size { path, .. } => path.as_str().hash(hasher),
        Node::Value { path, test } => {
            path.as_str().hash(hasher);
            std::mem::discriminant(test).hash(hasher);
            match test {
                Test::Regex(pattern) => pattern.prefix().is_empty().hash(hasher),
                Test::Type(types) => types.has(Value::Null).hash(hasher),
                Test::Mod(_) | Test::Bits(_) | Test::Geo(_) | Test::Near(_) => {}
            }
        }
        Node::Element { path, condition } => {
            path.as_str().hash(hasher);
            hash_node(condition, hasher);
        }
        Node::Member { path, filter } => {
            path.as_str().hash(hasher);
            hash_node(filter, hasher);
        }
        Node::Expr(_) | Node::Schema(_) => {}
    }
}

/// The cached choice for this shape, with this query's key ranges.
pub(super) fn cached_plan(
    source: &dyn Source,
    context: &QueryContext<'_>,
    query: &Query,
    conditions: &[&Node],
    shape: u64,
) -> Option<(Candidate, Expected)> {
    let CachedPlan { index: number, keys, rows } = context.plan_cache?.get(shape)?;
    let now = source.estimated_rows();
    if now > rows.saturating_mul(2) || now < rows / 2 {
        return None;
    }
    // If the index can be used in several ways, the cache does not tell which one was chosen.
    let [found] = <[Candidate; 1]>::try_from(candidates(source, number, query, conditions)).ok()?;
    (found.unique || found.helps(query)).then_some((found, Expected { shape, keys }))
}

/// Caches a choice among several indexes.
pub(super) fn cache_plan(
    source: &dyn Source,
    context: &QueryContext<'_>,
    plan: &Plan,
    keys: f64,
    shape: u64,
) -> Option<Expected> {
    let Path::Index { index, .. } = &plan.path else { return None };
    let (keys, rows) = (keys as u64, source.estimated_rows());
    context.plan_cache?.insert(shape, CachedPlan { index: *index, keys, rows });
    Some(Expected { shape, keys })
}

/// Removes the cache entry of `plan` if it examined many more keys than expected.
pub(in crate::query) fn evict_if_misestimated(context: &QueryContext<'_>, plan: &Plan, counters: &Counters) {
    let Some(Expected { shape, keys }) = plan.expected else { return };
    if counters.keys_examined > keys.saturating_mul(10).saturating_add(TOLERANCE)
        && let Some(cache) = context.plan_cache
    {
        cache.remove(shape);
    }
}
