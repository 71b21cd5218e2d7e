//! Which element of an array matched: what `$` stands for in an update or a projection.

use super::compare::{compares, is_one_of};
use super::matches::{matches, matching_element, value_matches};
use super::{Node, Test};
use crate::doc::{Doc, Path, Value};

/// `None` if `doc` does not match. Otherwise the position in the outermost array on the path to the value
/// that met the last condition, `Some(None)` if no condition was met inside an array.
pub(super) fn matched(node: &Node, doc: Doc<'_>) -> Option<Option<usize>> {
    match node {
        Node::And(nodes) => {
            let mut last = None;
            for node in nodes {
                last = matched(node, doc)?.or(last);
            }
            Some(last)
        }
        Node::Or(nodes) => nodes.iter().find_map(|node| matched(node, doc)),
        Node::Compare { path, op, value } => {
            let constant = value.value();
            first(path, doc, true, &|found| compares(found, *op, constant))
        }
        Node::In { path, values } => first(path, doc, true, &|found| is_one_of(found, values)),
        Node::Folded(folded) => first(folded.path()?, doc, true, &|found| folded.compares(found)),
        Node::Value { path, test } => first(path, doc, true, &|found| passes(test, found)),
        Node::Exists { path } => first(path, doc, false, &|found| found.is_some()),
        Node::Size { path, .. } => {
            first(path, doc, false, &|found| found.is_some_and(|value| value_matches(node, value)))
        }
        Node::Element { path, .. } | Node::Member { path, .. } => {
            let mut at = None;
            path.visit_positions(doc, false, &mut |found, outer| {
                at =
                    found.and_then(|value| matching_element(node, value)).map(|inner| outer.unwrap_or(inner));
                at.is_some()
            })
            .then_some(at)
        }
        // These have no position: they are not met by one value.
        Node::Not(_) | Node::Schema(_) | Node::Expr(_) => matches(node, doc).unwrap_or(false).then_some(None),
    }
}

fn passes(test: &Test, found: Option<Value<'_>>) -> bool {
    found.is_some_and(|value| test.passes(value))
}

/// The position of the first value that `accepts` returns true for.
fn first(
    path: &Path,
    doc: Doc<'_>,
    expand: bool,
    accepts: &dyn Fn(Option<Value<'_>>) -> bool,
) -> Option<Option<usize>> {
    let mut at = None;
    let found = path.visit_positions(doc, expand, &mut |value, position| {
        at = position;
        accepts(value)
    });
    found.then_some(at)
}
