//! Comparisons under a collation: constants are folded when the filter is parsed, values when they are compared.

use super::compare::{is_one_of, meets};
use super::parse::{distinct, only};
use super::{Filter, Node, Op};
use crate::doc::collation::holds_text;
use crate::doc::{Collation, OwnedValue, Path, Value};
use crate::error::Result;

/// A comparison with constants that hold text.
#[derive(Debug, Clone, PartialEq)]
pub struct Folded {
    collation: Collation,
    /// The comparison, its constants folded.
    node: Node,
    /// The comparison as it was asked.
    asked: Node,
}

impl Folded {
    /// How strings compare.
    pub fn collation(&self) -> &Collation {
        &self.collation
    }

    /// The comparison with folded constants ([`Node::Compare`] or [`Node::In`]): what it says holds for folded
    /// values, which is what an index with the same collation has in its keys.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The comparison as it was asked.
    pub fn asked(&self) -> &Node {
        &self.asked
    }

    /// Whether what is found at the path compares as asked.
    pub(super) fn meets(&self, found: Option<Value<'_>>) -> bool {
        // Comparing two strings is several times as fast as making the sort key of one.
        if let (Some(text @ Value::String(_)), Node::Compare { op, value, .. }) = (found, &self.asked)
            && let constant @ Value::String(_) = value.value()
        {
            return op.accepts(self.collation.compare(text, constant));
        }
        let folded = found.and_then(|value| self.collation.fold(value));
        let found = folded.as_ref().map(OwnedValue::value).or(found);
        match &self.node {
            Node::Compare { op, value, .. } => meets(found, *op, value.value()),
            Node::In { values, .. } => is_one_of(found, values),
            _ => false,
        }
    }

    /// Where it is asked.
    pub(super) fn path(&self) -> Option<&Path> {
        self.node.path()
    }
}

impl Filter {
    /// The same filter, its strings compared by `collation`.
    ///
    /// # Errors
    /// None: its expressions were read before.
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
        Node::And(nodes) => only(all(nodes)?, Node::And),
        Node::Or(nodes) => only(all(nodes)?, Node::Or),
        Node::Not(node) => Node::Not(Box::new(fold(*node, collation)?)),
        Node::Element { path, condition } => {
            Node::Element { path, condition: Box::new(fold(*condition, collation)?) }
        }
        Node::Member { path, filter } => Node::Member { path, filter: Box::new(fold(*filter, collation)?) },
        Node::Compare { ref path, op, value: ref constant } if holds_text(constant.value()) => {
            let folded = Node::Compare { path: path.clone(), op, value: value(constant) };
            Node::Folded(Box::new(Folded { collation: collation.clone(), node: folded, asked: node }))
        }
        Node::In { ref path, ref values } if values.iter().any(|value| holds_text(value.value())) => {
            let values = distinct(values.iter().map(value).collect());
            let folded = Node::In { path: path.clone(), values };
            Node::Folded(Box::new(Folded { collation: collation.clone(), node: folded, asked: node }))
        }
        Node::Expr(condition) => Node::Expr(Box::new(condition.collated(collation)?)),
        // A schema compares by bytes whatever the collation: MongoDB's rule.
        node => node,
    })
}

/// The equality with one value that a node is, as it was asked.
pub(super) fn equality(node: &Node) -> Option<(&Path, &OwnedValue)> {
    match node {
        Node::Compare { path, op: Op::Eq, value } => Some((path, value)),
        Node::Folded(folded) => equality(&folded.asked),
        _ => None,
    }
}
