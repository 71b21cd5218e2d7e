//! Evaluates a filter tree on a document, or on an element of an array.

use super::Node;
use super::compare::{is_one_of, meets};
use crate::doc::{Doc, Value};
use crate::error::Result;

/// Whether `doc` fits.
///
/// # Errors
/// Those of expressions.
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
            path.visit(doc, true, &mut |found| meets(found, *op, constant))
        }
        Node::In { path, values } => path.visit(doc, true, &mut |found| is_one_of(found, values)),
        Node::Folded(folded) => {
            folded.path().is_some_and(|path| path.visit(doc, true, &mut |found| folded.meets(found)))
        }
        Node::Exists { path } => path.visit(doc, false, &mut |found| found.is_some()),
        Node::Value { path, test } => {
            path.visit(doc, true, &mut |found| found.is_some_and(|value| test.passes(value)))
        }
        Node::Size { path, .. } | Node::Element { path, .. } | Node::Member { path, .. } => {
            path.visit(doc, false, &mut |found| found.is_some_and(|value| element_fits(node, value)))
        }
        Node::Schema(schema) => schema.allows(doc),
        Node::Expr(condition) => condition.holds(doc)?,
    })
}

/// Whether an element of an array fits conditions on itself; also the conditions on arrays, on the array itself.
pub(super) fn element_fits(node: &Node, value: Value<'_>) -> bool {
    match node {
        Node::And(nodes) => nodes.iter().all(|node| element_fits(node, value)),
        Node::Or(nodes) => nodes.iter().any(|node| element_fits(node, value)),
        Node::Not(node) => !element_fits(node, value),
        Node::Compare { op, value: constant, .. } => meets(Some(value), *op, constant.value()),
        Node::In { values, .. } => is_one_of(Some(value), values),
        Node::Folded(folded) => folded.meets(Some(value)),
        Node::Exists { .. } => true,
        Node::Value { test, .. } => test.passes(value),
        Node::Size { size, .. } => {
            matches!(value, Value::Array(array) if array.elements().count() as u64 == *size)
        }
        Node::Element { .. } | Node::Member { .. } => fitting(node, value).is_some(),
        // Only whole documents have these.
        Node::Schema(_) | Node::Expr(_) => false,
    }
}

/// The position of the first element of an array that an `$elemMatch` asks for.
pub(super) fn fitting(node: &Node, value: Value<'_>) -> Option<usize> {
    let Value::Array(array) = value else { return None };
    array.elements().position(|element| match (node, element.value()) {
        (Node::Element { condition, .. }, value) => element_fits(condition, value),
        // Expressions, which could fail, are refused inside of `$elemMatch`.
        (Node::Member { filter, .. }, Value::Document(doc) | Value::Array(doc)) => {
            matches(filter, doc).unwrap_or(false)
        }
        _ => false,
    })
}
