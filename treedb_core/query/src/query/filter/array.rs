//! `$size`, `$elemMatch` and `$all`: conditions on arrays.

use super::parse::{self, is_operator_document};
use super::{Node, Op};
use crate::doc::{Element, OwnedValue, Path, Value, shown};
use crate::error::{QueryError, Result};

/// `$size`: the number of elements.
pub(super) fn size(path: &Path, operand: &Element<'_>) -> Result<Node> {
    let value = operand.value();
    let invalid = |what: &str| {
        Err(QueryError::bad_value(format!("Failed to parse $size. {what} in: {path}: {}", shown(value))))
    };
    match value.as_integer().map(u64::try_from) {
        Some(Ok(size)) => Ok(Node::Size { path: path.clone(), size }),
        Some(Err(_)) => invalid("Expected a non-negative number"),
        None if value.is_number() => invalid("Expected an integer"),
        None => invalid("Expected a number"),
    }
}

/// `$elemMatch`: one element that meets all conditions, as a value or as a document.
pub(super) fn elem_match(path: &Path, operand: &Element<'_>) -> Result<Node> {
    let Value::Document(doc) = operand.value() else {
        return Err(QueryError::bad_value(format!("$elemMatch needs an Object (field '{path}')")));
    };
    let logical = |element: Element<'_>| matches!(element.name, b"$and" | b"$or" | b"$nor" | b"$where");
    if is_operator_document(doc) && !doc.elements().next().is_some_and(logical) {
        let mut nodes = Vec::new();
        parse::operators(path, doc, &mut nodes)?;
        let condition = Box::new(parse::unwrap_single(nodes, Node::And));
        return Ok(Node::Element { path: path.clone(), condition });
    }
    Ok(Node::Member { path: path.clone(), filter: Box::new(parse::document(doc, None)?) })
}

/// The `$elemMatch` in an operand of `$all`, if that is what it is.
fn elem_match_in<'a>(element: &Element<'a>) -> Option<Element<'a>> {
    match element.value() {
        Value::Document(doc) => doc.elements().next().filter(|first| first.name == b"$elemMatch"),
        _ => None,
    }
}

/// `$all`: the array contains every value, or an element for each of the `$elemMatch`es.
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
            (_, Value::Document(doc)) if is_operator_document(doc) => {
                return Err(QueryError::bad_value(format!("no $ expressions in $all (field '{path}')")));
            }
            (_, Value::Regex(pattern, options)) => parse::regex(path, pattern, options)?,
            _ => Node::Compare { path: path.clone(), op: Op::Eq, value: OwnedValue::from_element(&element) },
        });
    }
    // As in MongoDB, `$all: []` matches nothing: an `$or` of nothing.
    Ok(if nodes.is_empty() { Node::Or(nodes) } else { parse::unwrap_single(nodes, Node::And) })
}
