//! Comparisons under a collation: constants are folded when the filter is parsed, values when they are compared.

use super::compare::{compares, is_one_of};
use super::parse::{distinct, unwrap_single};
use super::{Filter, Node, Op};
use crate::doc::collation::holds_text;
use crate::doc::{Collation, OwnedValue, Path, Value};
use crate::error::Result;

/// A comparison with constants that contain strings.
#[derive(Debug, Clone, PartialEq)]
pub struct Folded {
    collation: Collation,
    /// The comparison with folded constants.
    node: Node,
    /// The comparison as written in the filter.
    original: Node,
}

impl Folded {
    /// The collation by which strings are compared.
    pub fn collation(&self) -> &Collation {
        &self.collation
    }

    /// The comparison with folded constants ([`Node::Compare`] or [`Node::In`]). It applies to folded values,
    /// which is what the keys of an index with the same collation contain.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The comparison as written in the filter.
    pub fn original(&self) -> &Node {
        &self.original
    }

    /// Whether the comparison is true for the value found at the path.
    pub(super) fn compares(&self, found: Option<Value<'_>>) -> bool {
        // Comparing two strings is several times as fast as computing the sort key of one.
        if let (Some(text @ Value::String(_)), Node::Compare { op, value, .. }) = (found, &self.original)
            && let constant @ Value::String(_) = value.value()
        {
            return op.accepts(self.collation.compare(text, constant));
        }
        let folded = found.and_then(|value| self.collation.fold(value));
        let found = folded.as_ref().map(OwnedValue::value).or(found);
        match &self.node {
            Node::Compare { op, value, .. } => compares(found, *op, value.value()),
            Node::In { values, .. } => is_one_of(found, values),
            _ => false,
        }
    }

    /// The path of the field.
    pub(super) fn path(&self) -> Option<&Path> {
        self.node.path()
    }
}

impl Filter {
    /// The same filter with another collation.
    ///
    /// # Errors
    /// None: its expressions were parsed before.
    pub fn collated(mut self, collation: &Collation) -> Result<Self> {
        if !collation.is_simple() {
            self.root = fold(self.root, collation)?;
        }
        Ok(self)
    }
}

fn fold(node: Node, collation: &Collation) -> Result<Node> {
    let all =
        |nodes: Vec<Node>| nodes.into_iter().map(|node| fold(node, collation)).collect::<Result<Vec<_>>>();
    let value = |value: &OwnedValue| collation.fold(value.value()).unwrap_or_else(|| value.clone());
    Ok(match node {
        Node::And(nodes) => unwrap_single(all(nodes)?, Node::And),
        Node::Or(nodes) => unwrap_single(all(nodes)?, Node::Or),
        Node::Not(node) => Node::Not(Box::new(fold(*node, collation)?)),
        Node::Element { path, condition } => {
            Node::Element { path, condition: Box::new(fold(*condition, collation)?) }
        }
        Node::Member { path, filter } => Node::Member { path, filter: Box::new(fold(*filter, collation)?) },
        Node::Compare { ref path, op, value: ref constant } if holds_text(constant.value()) => {
            let folded = Node::Compare { path: path.clone(), op, value: value(constant) };
            Node::Folded(Box::new(Folded { collation: collation.clone(), node: folded, original: node }))
        }
        Node::In { ref path, ref values } if values.iter().any(|value| holds_text(value.value())) => {
            let values = distinct(values.iter().map(value).collect());
            let folded = Node::In { path: path.clone(), values };
            Node::Folded(Box::new(Folded { collation: collation.clone(), node: folded, original: node }))
        }
        Node::Expr(condition) => Node::Expr(Box::new(condition.collated(collation)?)),
        // As in MongoDB, a schema compares strings by their bytes whatever the collation.
        node => node,
    })
}

/// Path and value, as written in the filter, if the node is an equality with one value.
pub(super) fn equality(node: &Node) -> Option<(&Path, &OwnedValue)> {
    match node {
        Node::Compare { path, op: Op::Eq, value } => Some((path, value)),
        Node::Folded(folded) => equality(&folded.original),
        _ => None,
    }
}
