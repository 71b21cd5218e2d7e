//! Filters: which documents a query means.
//!
//! [`Filter::parse`] turns MongoDB's filter document into a tree of [`Node`]s, [`Filter::matches`] asks it about a
//! document, the planner reads the tree to find index bounds. `$ne` and `$nin` are the negations of `$eq` and `$in`,
//! `$exists: false` that of `$exists: true`.

mod matches;
mod parse;
#[cfg(test)]
mod tests;

use bson::{RawDocument, RawDocumentBuf};

use crate::code::Result;
use crate::doc::{OwnedValue, Path};

/// A condition on documents.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    root: Node,
    source: RawDocumentBuf,
}

/// A part of a filter.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// Every one; all documents if there are none.
    And(Vec<Node>),
    /// At least one.
    Or(Vec<Node>),
    /// Not this.
    Not(Box<Node>),
    /// A value at the path compares like this.
    Compare {
        /// Where.
        path: Path,
        /// How.
        op: Op,
        /// With what.
        value: OwnedValue,
    },
    /// A value at the path equals one of these.
    In {
        /// Where.
        path: Path,
        /// The values in MongoDB's order, each once.
        values: Vec<OwnedValue>,
    },
    /// There is something at the path.
    Exists {
        /// Where.
        path: Path,
    },
}

/// How a value is compared with a constant. All but equality only meet values of the constant's own type class;
/// the exceptions are MinKey and MaxKey, which are compared with everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// `$eq`
    Eq,
    /// `$gt`
    Gt,
    /// `$gte`
    Gte,
    /// `$lt`
    Lt,
    /// `$lte`
    Lte,
}

impl Filter {
    /// Reads a filter document.
    ///
    /// Errors: `BadValue` naming the operator and field for what is unknown or has an impossible operand;
    /// `InvalidBSON` for bytes that are not a document.
    pub fn parse(filter: &RawDocument) -> Result<Self> {
        Ok(Filter { root: parse::filter(filter)?, source: filter.to_owned() })
    }

    /// The filter that every document matches.
    pub fn all() -> Self {
        Filter { root: Node::And(Vec::new()), source: RawDocumentBuf::new() }
    }

    /// The tree.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// The document it was read from.
    pub fn source(&self) -> &RawDocument {
        &self.source
    }

    /// True if every document matches.
    pub fn is_all(&self) -> bool {
        matches!(&self.root, Node::And(nodes) if nodes.is_empty())
    }

    /// Whether `doc`, which is valid BSON, matches.
    pub fn matches(&self, doc: &RawDocument) -> bool {
        matches::matches(&self.root, doc.into())
    }

    /// The nodes that must all match: the root, with every `$and` taken apart.
    pub fn conjuncts(&self) -> Vec<&Node> {
        fn collect<'a>(node: &'a Node, all: &mut Vec<&'a Node>) {
            match node {
                Node::And(nodes) => nodes.iter().for_each(|node| collect(node, all)),
                node => all.push(node),
            }
        }
        let mut all = Vec::new();
        collect(&self.root, &mut all);
        all
    }

    /// The values a matching document is known to have: what an upsert starts from.
    pub fn equalities(&self) -> Vec<(&Path, &OwnedValue)> {
        let equality = |node: &'_ Node| matches!(node, Node::Compare { op: Op::Eq, .. });
        self.conjuncts()
            .into_iter()
            .filter(|node| equality(node))
            .filter_map(|node| match node {
                Node::Compare { path, value, .. } => Some((path, value)),
                _ => None,
            })
            .collect()
    }
}
