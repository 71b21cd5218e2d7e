//! Filters: which documents a query means.
//!
//! [`Filter::parse`] turns MongoDB's filter document into a tree of [`Node`]s, [`Filter::matches`] asks it about a
//! document, the planner reads the tree to find index bounds. `$ne` and `$nin` are the negations of `$eq` and `$in`,
//! `$exists: false` that of `$exists: true`; `$all` is an `$and`.
//!
//! | file | what it holds |
//! |---|---|
//! | `parse` | the filter document, logical operators, the operators of a field |
//! | `matches` | evaluation of the tree |
//! | `position` | which element of an array matched: what a `$` in an update or projection means |
//! | `compare`, `element`, `array`, `regex`, `modulo`, `bits` | one family of operators each |
//! | `folded` | comparisons under a collation |
//! | `condition`, `schema` | `$expr`, `$jsonSchema` |

mod array;
mod bits;
mod compare;
mod condition;
mod element;
mod folded;
mod matches;
mod modulo;
mod parse;
mod position;
mod regex;
mod schema;
#[cfg(test)]
mod tests;

use bson::{RawDocument, RawDocumentBuf, rawdoc};

use crate::access::Row;
use crate::doc::{Doc, Fields, OwnedValue, Path, Value};
use crate::error::Result;

pub use bits::Bits;
pub use compare::Op;
pub use condition::Condition;
pub use element::Types;
pub use folded::Folded;
pub use modulo::Modulo;
pub use regex::Pattern;
pub use schema::Schema;

/// A condition on documents.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    root: Node,
    source: RawDocumentBuf,
    /// The fields of a document that decide; `None` if all of it may.
    fields: Option<Fields>,
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
    /// One of the two above, its strings compared by a collation.
    Folded(Box<Folded>),
    /// There is something at the path.
    Exists {
        /// Where.
        path: Path,
    },
    /// A value at the path passes a test.
    Value {
        /// Where.
        path: Path,
        /// Which.
        test: Test,
    },
    /// An array of this many elements lies at the path.
    Size {
        /// Where.
        path: Path,
        /// How many.
        size: u64,
    },
    /// An array at the path has an element that fits conditions on itself.
    Element {
        /// Where.
        path: Path,
        /// What it fits; its nodes have the same path, and are about the element itself.
        condition: Box<Node>,
    },
    /// An array at the path has a document (or array) that matches a filter.
    Member {
        /// Where.
        path: Path,
        /// The filter; its paths begin in the element.
        filter: Box<Node>,
    },
    /// An expression gives something true.
    Expr(Box<Condition>),
    /// The document is as a schema says.
    Schema(Box<Schema>),
}

/// A test of one value, which nothing at a path never passes.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// `$type`
    Type(Types),
    /// `$regex`
    Regex(Pattern),
    /// `$mod`
    Mod(Modulo),
    /// `$bitsAllSet` and its like
    Bits(Bits),
}

impl Test {
    pub(super) fn passes(&self, value: Value<'_>) -> bool {
        match self {
            Test::Type(types) => types.has(value),
            Test::Regex(pattern) => pattern.passes(value),
            Test::Mod(modulo) => modulo.passes(value),
            Test::Bits(bits) => bits.passes(value),
        }
    }
}

impl Node {
    /// Where it looks, if that is one place.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Node::Compare { path, .. }
            | Node::In { path, .. }
            | Node::Exists { path }
            | Node::Value { path, .. }
            | Node::Size { path, .. }
            | Node::Element { path, .. }
            | Node::Member { path, .. } => Some(path),
            Node::Folded(folded) => folded.node().path(),
            Node::And(_) | Node::Or(_) | Node::Not(_) | Node::Expr(_) | Node::Schema(_) => None,
        }
    }

    /// Adds the names of the fields that decide, each where it is asked for; false if all of the document may.
    pub(in crate::query) fn names<'n>(&'n self, names: &mut Vec<&'n str>) -> bool {
        match self {
            // All of them, even behind one that may read everything.
            Node::And(nodes) | Node::Or(nodes) => nodes.iter().filter(|node| !node.names(names)).count() == 0,
            Node::Not(node) => node.names(names),
            node => match node.path() {
                Some(path) => {
                    names.push(path.first());
                    true
                }
                None => false,
            },
        }
    }
}

impl Filter {
    /// Reads a filter document.
    ///
    /// Errors: `BadValue` naming the operator and field for what is unknown or has an impossible operand;
    /// `InvalidBSON` for bytes that are not a document.
    pub fn parse(filter: &RawDocument) -> Result<Self> {
        Ok(Self::of(parse::filter(filter)?, filter.to_owned()))
    }

    fn of(root: Node, source: RawDocumentBuf) -> Self {
        let mut names = Vec::new();
        let known = root.names(&mut names);
        let fields = known.then(|| Fields::new(names.into_iter().map(str::as_bytes)));
        Filter { fields, source, root }
    }

    /// The filter that every document matches.
    pub fn all() -> Self {
        Filter { root: Node::And(Vec::new()), source: RawDocumentBuf::new(), fields: Some(Fields::default()) }
    }

    /// The top-level fields that decide whether a document matches; `None` if all of it may.
    pub(crate) fn reads(&self) -> Option<Vec<String>> {
        let mut names = Vec::new();
        let known = self.root.names(&mut names);
        known.then(|| names.into_iter().map(str::to_owned).collect())
    }

    /// What matches both, this one first.
    pub fn and(self, other: Filter) -> Filter {
        let source = rawdoc! { "$and": [self.source, other.source] };
        Self::of(Node::And(vec![self.root, other.root]), source)
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
    ///
    /// # Errors
    /// Those of the expressions of an `$expr`.
    pub fn matches(&self, doc: &RawDocument) -> Result<bool> {
        matches::matches(&self.root, doc.into())
    }

    /// Whether a row matches. No more of it is decoded than decides.
    ///
    /// # Errors
    /// As [`Filter::matches`], and those of a damaged row.
    pub fn admits(&self, row: &mut dyn Row) -> Result<bool> {
        match &self.fields {
            _ if self.is_all() => Ok(true),
            Some(fields) => self.matches(row.partial_document(fields)?),
            None => self.matches(row.document()?),
        }
    }

    /// The position of the element of an array by which `doc` matches: of the outermost array on the way to the value
    /// that the last condition was met by. `None` if no condition needed an array, or the document does not match.
    pub fn position(&self, doc: &RawDocument) -> Option<usize> {
        position::matched(&self.root, Doc::from(doc)).flatten()
    }

    /// The position of the first element of an array that the filter's `$elemMatch`, which is all there is of it, asks
    /// for.
    pub(crate) fn fitting_element(&self, array: Value<'_>) -> Option<usize> {
        matches::fitting(&self.root, array)
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
        self.conjuncts().into_iter().filter_map(folded::equality).collect()
    }
}
