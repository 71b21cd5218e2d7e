//! Evaluates a filter tree for a document, or for an element of an array.

use super::compare::{compares, is_one_of};
use super::{Node, geo};
use crate::doc::{Doc, Value};
use crate::error::Result;

/// Whether `doc` matches.
///
/// # Errors
/// The errors of expressions; `Interrupted` and `MaxTimeMSExpired` while locations are compared.
pub(super) fn matches(node: &Node, doc: Doc<'_>) -> Result<bool> {
    Ok(match node {
        Node::And(nodes) => {
            for node in nodes {
                if !matches(node, doc)? {
                    return Ok(false);
                }
            }
            true
        }
        Node::Or(nodes) => {
            for node in nodes {
                if matches(node, doc)? {
                    return Ok(true);
                }
            }
            false
        }
        Node::Not(node) => !matches(node, doc)?,
        Node::Compare { path, op, value } => {
            let constant = value.value();
            path.visit(doc, true, &mut |found| compares(found, *op, constant))
        }
        Node::In { path, values } => path.visit(doc, true, &mut |found| is_one_of(found, values)),
        Node::Folded(folded) => {
            folded.path().is_some_and(|path| path.visit(doc, true, &mut |found| folded.compares(found)))
        }
        Node::Exists { path } => path.visit(doc, false, &mut |found| found.is_some()),
        Node::Value { path, test } if test.is_geo() => geo::passes_at(path, test, doc)?.unwrap_or(false),
        Node::Value { path, test } => {
            path.visit(doc, true, &mut |found| found.is_some_and(|value| test.passes(value)))
        }
        Node::Size { path, .. } | Node::Element { path, .. } | Node::Member { path, .. } => {
            path.visit(doc, false, &mut |found| found.is_some_and(|value| value_matches(node, value)))
        }
        Node::Schema(schema) => schema.allows(doc),
        Node::Expr(condition) => condition.is_true(doc)?,
    })
}

/// Whether a value meets conditions on the value itself: an element of an array, or, for the conditions on
/// arrays, the array.
pub(super) fn value_matches(node: &Node, value: Value<'_>) -> bool {
    match node {
        Node::And(nodes) => nodes.iter().all(|node| value_matches(node, value)),
        Node::Or(nodes) => nodes.iter().any(|node| value_matches(node, value)),
        Node::Not(node) => !value_matches(node, value),
        Node::Compare { op, value: constant, .. } => compares(Some(value), *op, constant.value()),
        Node::In { values, .. } => is_one_of(Some(value), values),
        Node::Folded(folded) => folded.compares(Some(value)),
        Node::Exists { .. } => true,
        Node::Value { test, .. } => test.passes(value),
        Node::Size { size, .. } => {
            matches!(value, Value::Array(array) if array.elements().count() as u64 == *size)
        }
        Node::Element { .. } | Node::Member { .. } => matching_element(node, value).is_some(),
        // These conditions are only allowed on whole documents.
        Node::Schema(_) | Node::Expr(_) => false,
    }
}

/// The position of the first element of an array that an `$elemMatch` matches.
pub(super) fn matching_element(node: &Node, value: Value<'_>) -> Option<usize> {
    let Value::Array(array) = value else { return None };
    array.elements().position(|element| match (node, element.value()) {
        (Node::Element { condition, .. }, value) => value_matches(condition, value),
        // Expressions, which can fail, are not allowed inside `$elemMatch`; tests of locations can be stopped, which the filter finds
        // out afterwards.
        (Node::Member { filter, .. }, Value::Document(doc) | Value::Array(doc)) => {
            matches(filter, doc).unwrap_or(false)
        }
        _ => false,
    })
}
