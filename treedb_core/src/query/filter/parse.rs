//! From MongoDB's filter document to [`Node`]s.

use bson::RawDocument;

use super::{Node, Op};
use crate::code::{QueryError, Result};
use crate::doc::compare::compare;
use crate::doc::{Doc, Element, MESSAGE, OwnedValue, Path, Value, validate_with};

pub(super) fn filter(filter: &RawDocument) -> Result<Node> {
    validate_with(filter.as_bytes(), MESSAGE)?;
    document(filter.into())
}

fn document(doc: Doc<'_>) -> Result<Node> {
    let mut nodes = Vec::new();
    for element in doc.elements() {
        let name = element.name_str();
        match name {
            "$and" => nodes.push(Node::And(clauses(&element)?)),
            "$or" => nodes.push(Node::Or(clauses(&element)?)),
            "$nor" => nodes.push(Node::Not(Box::new(Node::Or(clauses(&element)?)))),
            "$comment" => {}
            _ if name.starts_with('$') => {
                return Err(QueryError::bad_value(format!(
                    "unknown top level operator: {name}. If you have a field name that starts with a '$' symbol, \
                     it cannot be queried here"
                )));
            }
            _ => field(&Path::new(name), &element, &mut nodes)?,
        }
    }
    Ok(only(nodes, Node::And))
}

/// The list, or its only member.
fn only(mut nodes: Vec<Node>, list: fn(Vec<Node>) -> Node) -> Node {
    match nodes.pop() {
        Some(node) if nodes.is_empty() => node,
        Some(node) => {
            nodes.push(node);
            list(nodes)
        }
        None => list(nodes),
    }
}

fn clauses(element: &Element<'_>) -> Result<Vec<Node>> {
    let name = element.name_str();
    let Value::Array(array) = element.value() else {
        return Err(QueryError::bad_value(format!("{name} must be an array")));
    };
    if array.is_empty() {
        return Err(QueryError::bad_value(format!("{name} argument must be a non-empty array")));
    }
    let clause = |element: Element<'_>| match element.value() {
        Value::Document(doc) => document(doc),
        _ => Err(QueryError::bad_value(format!("{name} argument's entries must be objects"))),
    };
    array.elements().map(clause).collect()
}

fn no_regex(path: &Path) -> QueryError {
    QueryError::bad_value(format!("regular expressions are not supported in filters (field '{path}')"))
}

fn field(path: &Path, element: &Element<'_>, nodes: &mut Vec<Node>) -> Result<()> {
    match element.value() {
        Value::Document(doc) if holds_operators(doc) => operators(path, doc, nodes),
        Value::Regex(..) => Err(no_regex(path)),
        _ => {
            nodes.push(comparison(path, Op::Eq, element)?);
            Ok(())
        }
    }
}

/// `{ $gt: 5 }` is operators, `{ a: 5 }` a value, and so is a DBRef, whose names begin with `$` too.
fn holds_operators(doc: Doc<'_>) -> bool {
    doc.elements().next().is_some_and(|element| {
        element.name.starts_with(b"$") && !matches!(element.name, b"$ref" | b"$id" | b"$db")
    })
}

fn operators(path: &Path, doc: Doc<'_>, nodes: &mut Vec<Node>) -> Result<()> {
    for element in doc.elements() {
        let name = element.name_str();
        nodes.push(match name {
            "$eq" => comparison(path, Op::Eq, &element)?,
            "$gt" => comparison(path, Op::Gt, &element)?,
            "$gte" => comparison(path, Op::Gte, &element)?,
            "$lt" => comparison(path, Op::Lt, &element)?,
            "$lte" => comparison(path, Op::Lte, &element)?,
            "$ne" => match element.value() {
                Value::Regex(..) => {
                    return Err(QueryError::bad_value(format!(
                        "Can't have regex as arg to $ne (field '{path}')."
                    )));
                }
                _ => Node::Not(Box::new(comparison(path, Op::Eq, &element)?)),
            },
            "$in" => one_of(path, &element)?,
            "$nin" => Node::Not(Box::new(one_of(path, &element)?)),
            "$exists" => {
                let exists = Node::Exists { path: path.clone() };
                if element.value().truthy() { exists } else { Node::Not(Box::new(exists)) }
            }
            "$not" => negation(path, &element)?,
            _ => {
                return Err(QueryError::bad_value(format!("unknown operator: {name} (field '{path}')")));
            }
        });
    }
    Ok(())
}

fn comparison(path: &Path, op: Op, element: &Element<'_>) -> Result<Node> {
    match element.value() {
        Value::Undefined => {
            Err(QueryError::bad_value(format!("cannot compare to undefined (field '{path}')")))
        }
        Value::Regex(..) if op != Op::Eq => {
            Err(QueryError::bad_value(format!("Can't have RegEx as arg to predicate over field '{path}'.")))
        }
        _ => Ok(Node::Compare { path: path.clone(), op, value: OwnedValue::from_element(element) }),
    }
}

fn one_of(path: &Path, element: &Element<'_>) -> Result<Node> {
    let name = element.name_str();
    let Value::Array(array) = element.value() else {
        return Err(QueryError::bad_value(format!("{name} needs an array (field '{path}')")));
    };
    let mut values = Vec::new();
    for element in array.elements() {
        match element.value() {
            Value::Document(doc) if holds_operators(doc) => {
                return Err(QueryError::bad_value(format!("cannot nest $ under {name} (field '{path}')")));
            }
            Value::Regex(..) => return Err(no_regex(path)),
            Value::Undefined => {
                return Err(QueryError::bad_value(format!("{name} cannot hold undefined (field '{path}')")));
            }
            _ => values.push(OwnedValue::from_element(&element)),
        }
    }
    values.sort_by(|a, b| compare(a.value(), b.value()));
    values.dedup_by(|a, b| compare(a.value(), b.value()).is_eq());
    Ok(Node::In { path: path.clone(), values })
}

fn negation(path: &Path, element: &Element<'_>) -> Result<Node> {
    match element.value() {
        Value::Document(doc) if doc.is_empty() => {
            Err(QueryError::bad_value(format!("$not cannot be empty (field '{path}')")))
        }
        Value::Document(doc) => {
            let mut nodes = Vec::new();
            operators(path, doc, &mut nodes)?;
            Ok(Node::Not(Box::new(only(nodes, Node::And))))
        }
        Value::Regex(..) => Err(no_regex(path)),
        _ => Err(QueryError::bad_value(format!("$not needs a regex or a document (field '{path}')"))),
    }
}
