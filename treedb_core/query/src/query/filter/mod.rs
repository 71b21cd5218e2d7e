//! Filters: which documents match a query.
//!
//! [`Filter::parse`] parses MongoDB's filter document into a tree of [`Node`]s, [`Filter::matches`] evaluates
//! it for a document, and the planner reads the tree to find index bounds. `$ne` and `$nin` are stored as the
//! negations of `$eq` and `$in`, `$exists: false` as that of `$exists: true`; `$all` becomes an `$and`.
//!
//! | file | what it holds |
//! |---|---|
//! | `parse` | the filter document, logical operators, the operators of a field |
//! | `matches` | evaluation of the tree |
//! | `position` | which element of an array matched: what `$` stands for in an update or projection |
//! | `compare`, `element`, `array`, `regex`, `modulo`, `bits` | one family of operators each |
//! | `geo` | conditions on locations |
//! | `folded` | comparisons under a collation |
//! | `condition`, `schema` | `$expr`, `$jsonSchema` |
//! | `sample` | filters without `$sampleRate` |

mod array;
mod bits;
mod compare;
mod condition;
mod element;
mod folded;
mod geo;
mod matches;
mod modulo;
mod parse;
mod position;
mod regex;
mod sample;
mod schema;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf, rawdoc};

use crate::access::Row;
use crate::doc::{Doc, Fields, OwnedValue, Path, Value};
use crate::error::Result;
use crate::geo::Near;
use crate::query::expr::Variables;

pub use bits::Bits;
pub use compare::Op;
pub use condition::Condition;
pub use element::Types;
pub(in crate::query) use element::type_names;
pub use folded::Folded;
pub use geo::GeoTest;
pub use modulo::Modulo;
pub use regex::Pattern;
pub(crate) use sample::document_without_samples;
pub use schema::Schema;

/// A condition on documents.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    root: Node,
    source: RawDocumentBuf,
    /// The top-level fields that the filter reads; `None` if it may read the whole document.
    fields: Option<Fields>,
    /// It has patterns whose matches may be given up.
    backtracks: bool,
    /// It has tests of locations that cannot say that the operation was stopped.
    may_be_cut_short: bool,
    /// Documents are found in the order of their distance, by its `$near`.
    by_distance: bool,
}

/// A node of a filter's tree.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// All of these match; without any, every document matches.
    And(Vec<Node>),
    /// At least one of these matches.
    Or(Vec<Node>),
    /// This does not match.
    Not(Box<Node>),
    /// A value at the path compares to a constant.
    Compare {
        /// The path of the field.
        path: Path,
        /// The comparison.
        op: Op,
        /// The constant.
        value: OwnedValue,
    },
    /// A value at the path equals one of these.
    In {
        /// The path of the field.
        path: Path,
        /// The values in MongoDB's order, each once.
        values: Vec<OwnedValue>,
    },
    /// A `Compare` or `In` whose strings are compared by a collation.
    Folded(Box<Folded>),
    /// There is a value at the path.
    Exists {
        /// The path of the field.
        path: Path,
    },
    /// A value at the path passes a test.
    Value {
        /// The path of the field.
        path: Path,
        /// The test.
        test: Test,
    },
    /// There is an array of this length at the path.
    Size {
        /// The path of the field.
        path: Path,
        /// The number of elements.
        size: u64,
    },
    /// An array at the path has an element that meets conditions on the element itself.
    Element {
        /// The path of the field.
        path: Path,
        /// The conditions; their nodes have the same path, but apply to the element itself.
        condition: Box<Node>,
    },
    /// An array at the path has a document (or array) that matches a filter.
    Member {
        /// The path of the field.
        path: Path,
        /// The filter; its paths start at the element.
        filter: Box<Node>,
    },
    /// An expression evaluates to true.
    Expr(Box<Condition>),
    /// The document is valid according to a schema.
    Schema(Box<Schema>),
}

/// A test of one value. A missing field never passes.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// `$type`
    Type(Types),
    /// `$regex`
    Regex(Pattern),
    /// `$mod`
    Mod(Modulo),
    /// `$bitsAllSet`, `$bitsAllClear`, `$bitsAnySet`, `$bitsAnyClear`
    Bits(Bits),
    /// `$geoWithin`, `$geoIntersects`
    Geo(Box<GeoTest>),
    /// `$near`, `$nearSphere`
    Near(Arc<Near>),
}

impl Test {
    /// True if a value may need so many steps that there is no answer.
    pub(in crate::query) fn backtracks(&self) -> bool {
        matches!(self, Test::Regex(pattern) if pattern.backtracks())
    }

    pub(super) fn passes(&self, value: Value<'_>) -> bool {
        match self {
            Test::Type(types) => types.has(value),
            Test::Regex(pattern) => pattern.passes(value),
            Test::Mod(modulo) => modulo.passes(value),
            Test::Bits(bits) => bits.passes(value),
            Test::Geo(_) | Test::Near(_) => self.passes_as_location(value),
        }
    }
}

impl Node {
    /// The path of the node, if it has exactly one.
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

    /// True if it has patterns whose matches may be given up.
    fn backtracks(&self) -> bool {
        match self {
            Node::And(nodes) | Node::Or(nodes) => nodes.iter().any(Node::backtracks),
            Node::Not(node) | Node::Element { condition: node, .. } | Node::Member { filter: node, .. } => {
                node.backtracks()
            }
            Node::Value { test: Test::Regex(pattern), .. } => pattern.backtracks(),
            // Its patterns are not looked for.
            Node::Schema(_) => true,
            _ => false,
        }
    }

    /// Adds the names of the top-level fields that the node reads, in the order of the tree; false if it may
    /// read the whole document.
    pub(in crate::query) fn names<'n>(&'n self, names: &mut Vec<&'n str>) -> bool {
        match self {
            // Visits all nodes, also after one that may read the whole document.
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
    /// Parses a filter document.
    ///
    /// # Errors
    /// `BadValue` naming the operator and field for an unknown operator or an invalid operand; `InvalidBSON`
    /// for bytes that are not a document.
    pub fn parse(filter: &RawDocument) -> Result<Self> {
        Self::parse_with(filter, Variables::NONE)
    }

    /// [`Self::parse`] of a filter whose expressions may use `variables`.
    ///
    /// # Errors
    /// As there.
    pub fn parse_with(filter: &RawDocument, variables: &Variables) -> Result<Self> {
        let root = parse::filter(filter, variables)?;
        let places = geo::Places::of(&root);
        places.check(false)?;
        Ok(Self::of(root, filter.to_owned(), places))
    }

    /// [`Self::parse_with`] of a filter that documents are searched for by: it may have a `$near`.
    ///
    /// # Errors
    /// As there.
    pub fn parse_search(filter: &RawDocument, variables: &Variables) -> Result<Self> {
        let root = parse::filter(filter, variables)?;
        let places = geo::Places::of(&root);
        places.check(true)?;
        Ok(Self::of(root, filter.to_owned(), places))
    }

    fn of(root: Node, source: RawDocumentBuf, places: geo::Places) -> Self {
        let mut names = Vec::new();
        let known = root.names(&mut names);
        let fields = known.then(|| Fields::new(names.into_iter().map(str::as_bytes)));
        let backtracks = root.backtracks();
        Filter {
            fields,
            source,
            root,
            backtracks,
            may_be_cut_short: places.in_elements,
            by_distance: places.top > 0,
        }
    }

    /// The filter that every document matches.
    pub fn all() -> Self {
        Filter {
            root: Node::And(Vec::new()),
            source: RawDocumentBuf::new(),
            fields: Some(Fields::default()),
            backtracks: false,
            may_be_cut_short: false,
            by_distance: false,
        }
    }

    /// The top-level fields that the filter reads; `None` if it may read the whole document.
    pub(crate) fn reads(&self) -> Option<Vec<String>> {
        let mut names = Vec::new();
        let known = self.root.names(&mut names);
        known.then(|| names.into_iter().map(str::to_owned).collect())
    }

    /// A filter that matches what both filters match; this one is evaluated first.
    pub fn and(self, other: Filter) -> Filter {
        let source = rawdoc! { "$and": [self.source, other.source] };
        let by_distance = self.by_distance || other.by_distance;
        let root = Node::And(vec![self.root, other.root]);
        let places = geo::Places::of(&root);
        Filter { by_distance, ..Self::of(root, source, places) }
    }

    /// The root of the tree.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// The document it was parsed from.
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
    /// The errors of the expressions of an `$expr`.
    pub fn matches(&self, doc: &RawDocument) -> Result<bool> {
        self.evaluated(|| matches::matches(&self.root, doc.into()))
    }

    /// What `evaluate` finds, if no test in it was given up.
    fn evaluated<T>(&self, evaluate: impl FnOnce() -> Result<T>) -> Result<T> {
        let found = match self.backtracks {
            false => evaluate()?,
            true => regex::with_step_limit(evaluate)?,
        };
        if self.may_be_cut_short {
            crate::query::interrupt::check()?;
        }
        Ok(found)
    }

    /// Whether a row matches. Only the fields that the filter reads are decoded.
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

    /// The position of the array element that made `doc` match. The array is the outermost one on the path to
    /// the value that met the last condition. `None` if no condition was met inside an array, or the document
    /// does not match.
    pub fn position(&self, doc: &RawDocument) -> Option<usize> {
        position::matched(&self.root, Doc::from(doc)).flatten()
    }

    /// The position of the first element of `array` that the filter's `$elemMatch` matches. The filter must
    /// consist of that `$elemMatch` only.
    ///
    /// # Errors
    /// `Location51156` if a pattern needs too many steps; `Interrupted` and `MaxTimeMSExpired` where locations are compared.
    pub(crate) fn matching_element(&self, array: Value<'_>) -> Result<Option<usize>> {
        self.evaluated(|| Ok(matches::matching_element(&self.root, array)))
    }

    /// The nodes that must all match: the root with every `$and` flattened.
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

    /// The paths that must equal a value for a document to match: an upsert inserts these fields.
    pub fn equalities(&self) -> Vec<(&Path, &OwnedValue)> {
        self.conjuncts().into_iter().filter_map(folded::equality).collect()
    }
}
