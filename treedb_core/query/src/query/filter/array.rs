//! `$size`, `$elemMatch` and `$all`: conditions on arrays.

use super::parse::{self, holds_operators};
use super::{Node, Op};
use crate::doc::{Element, OwnedValue, Path, Value, shown};
use crate::error::{QueryError, Result};

/// `$size`: how many elements there are.
pub(super) fn size(path: &Path, operand: &Element<'_>) -> Result<Node> {
    let value = operand.value();
    let refused = |what: &str| {
        Err(QueryError::bad_value(format!("Failed to parse $size. {what} in: {path}: {}", shown(value))))
    };
    match value.as_integer().map(u64::try_from) {
        Some(Ok(size)) => Ok(Node::Size { path: path.clone(), size }),
        Some(Err(_)) => refused("Expected a non-negative number"),
        None if value.is_number() => refused("Expected an integer"),
        None => refused("Expected a number"),
    }
}

/// `$elemMatch`: one element that fits all of it, as a value or as a document.
pub(super) fn elem_match(path: &Path, operand: &Element<'_>) -> Result<Node> {
    let Value::Document(doc) = operand.value() else {
        return Err(QueryError::bad_value(format!("$elemMatch needs an Object (field '{path}')")));
    };
    let logical = |element: Element<'_>| matches!(element.name, b"$and" | b"$or" | b"$nor" | b"$where");
    if holds_operators(doc) && !doc.elements().next().is_some_and(logical) {
        let mut nodes = Vec::new();
        parse::operators(path, doc, &mut nodes)?;
        let condition = Box::new(parse::only(nodes, Node::And));
        return Ok(Node::Element { path: path.clone(), condition });
    }
    Ok(Node::Member { path: path.clone(), filter: Box::new(parse::document(doc, true)?) })
}

/// The `$elemMatch` that an operand of `$all` is.
fn elem_match_in<'a>(element: &Element<'a>) -> Option<Element<'a>> {
    match element.value() {
        Value::Document(doc) => doc.elements().next().filter(|first| first.name == b"$elemMatch"),
        _ => None,
    }
}

/// `$all`: every one of these, or for each of these `$elemMatch`es an element.
pub(super) fn all(path: &Path, operand: &Element<'_>) -> Result<Node> {
    let Value::Array(array) = operand.value() else {
        return Err(QueryError::bad_value(format!("$all needs an array (field '{path}')")));
    };
    let matching = array.elements().next().is_some_and(|first| elem_match_in(&first).is_some());
    let mut nodes = Vec::new();
    for element in array.elements() {
        nodes.push(match (elem_match_in(&element), element.value()) {
            (Some(operand), _) if matching => elem_match(path, &operand)?,
            (None, _) if matching => {
                return Err(QueryError::bad_value(format!(
                    "$all/$elemMatch has to be consistent (field '{path}')"
                )));
            }
            (_, Value::Document(doc)) if holds_operators(doc) => {
                return Err(QueryError::bad_value(format!("no $ expressions in $all (field '{path}')")));
            }
            (_, Value::Regex(pattern, options)) => parse::regex(path, pattern, options)?,
            _ => Node::Compare { path: path.clone(), op: Op::Eq, value: OwnedValue::from_element(&element) },
        });
    }
    // Of an empty list nothing has all.
    Ok(if nodes.is_empty() { Node::Or(nodes) } else { parse::only(nodes, Node::And) })
}
