//! [`Estimate`]: the work that a plan is expected to take, for an owner that executes the query as a part of something
//! larger, such as a join.
//!
//! Only the number of rows and the kinds of the conditions are known, so these are guesses of the same sort as those
//! that plans are compared by (see `cost`): good enough to tell one row from a thousand.

use crate::access::Source;
use crate::query::Query;
use crate::query::filter::{Node, Op};

use super::{Path, Plan};

/// The share of the rows that an equality leaves.
const EQUAL: f64 = 0.1;
/// The share that a condition on one side leaves.
const BOUNDED: f64 = 0.4;
/// The share that any other condition leaves.
const OTHER: f64 = 0.5;

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
        let matches = (rows * matching_share(query)).max(rows.min(1.0));
        let (keys, documents, matches) = match &self.path {
            Path::Empty => (0.0, 0.0, 0.0),
            Path::CollectionScan => (0.0, rows, matches),
            Path::Index { .. } if self.unique => (1.0, 1.0, matches.min(1.0)),
            Path::Index { .. } => {
                let alternatives = Plan::alternatives(source, query);
                let own = alternatives.iter().find(|other| other.plan.path == self.path);
                let (keys, fetched) = own.map_or((rows, rows), |own| (own.keys, own.rows));
                // The limit is in the estimate already.
                return returned(query, keys, fetched, matches.min(fetched), 1.0);
            }
            Path::Bitmap(_) => (2.0 * matches, matches, matches),
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

/// About which share of the rows meets the conditions of a query.
fn matching_share(query: &Query) -> f64 {
    query.filter.conjuncts().into_iter().map(share).product()
}

/// About which share of the rows meets a condition.
fn share(condition: &Node) -> f64 {
    match condition {
        Node::And(nodes) => nodes.iter().map(share).product(),
        Node::Or(nodes) => nodes.iter().map(share).sum::<f64>().min(1.0),
        Node::Not(node) => 1.0 - share(node),
        Node::Compare { op: Op::Eq, .. } => EQUAL,
        Node::Compare { .. } => BOUNDED,
        Node::In { values, .. } => (EQUAL * values.len() as f64).min(1.0),
        Node::Folded(folded) => share(folded.node()),
        Node::Exists { .. }
        | Node::Value { .. }
        | Node::Size { .. }
        | Node::Element { .. }
        | Node::Member { .. }
        | Node::Expr(_)
        | Node::Schema(_) => OTHER,
    }
}
