//! Parses MongoDB's filter document into [`Node`]s.

use bson::RawDocument;

use super::bits::Bits;
use super::condition::Condition;
use super::element::Types;
use super::modulo::Modulo;
use super::regex::Pattern;
use super::schema::Schema;
use super::{Node, Op, Test, array, geo};
use crate::doc::compare::compare;
use crate::doc::write::{ArrayWriter, Writer};
use crate::doc::{Doc, Element, MESSAGE, OwnedValue, Path, Value, validate_with};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::expr::Variables;

pub(super) fn filter(filter: &RawDocument, variables: &Variables) -> Result<Node> {
    validate_with(filter.as_bytes(), MESSAGE)?;
    document(filter.into(), Some(variables))
}

/// Parses a filter whose expressions may use `variables`: `None` inside an `$elemMatch`, where `$expr` is not allowed.
pub(super) fn document(doc: Doc<'_>, variables: Option<&Variables>) -> Result<Node> {
    let mut nodes = Vec::new();
    for element in doc.elements() {
        let name = element.name_str();
        match name {
            "$and" => nodes.push(unwrap_single(clauses(&element, variables)?, Node::And)),
            "$or" => nodes.push(unwrap_single(clauses(&element, variables)?, Node::Or)),
            "$nor" => nodes.push(Node::Not(Box::new(unwrap_single(clauses(&element, variables)?, Node::Or)))),
            "$comment" => {}
            "$jsonSchema" => nodes.push(Node::Schema(Box::new(Schema::parse(&element)?))),
            "$expr" => match variables {
                Some(variables) => nodes.push(Node::Expr(Box::new(Condition::parse(&element, variables)?))),
                None => {
                    return Err(QueryError::bad_value("$expr can only be applied to the top-level document"));
                }
            },
            "$sampleRate" => nodes.push(sample_rate(&element, variables)?),
            // Fields of a DBRef.
            "$ref" | "$id" | "$db" => field(&Path::new(name), &element, &mut nodes)?,
            "$where" => {
                return Err(QueryError::new(
                    ErrorCode::NotImplemented,
                    "$where is not supported, since no JavaScript is run here: use $expr",
                ));
            }
            "$text" => {
                return Err(QueryError::new(
                    ErrorCode::NotImplemented,
                    "$text is not supported, since there are no text indexes",
                ));
            }
            _ if name.starts_with('$') => {
                return Err(QueryError::bad_value(format!(
                    "unknown top level operator: {name}. If you have a field name that starts with a '$' symbol, \
                     it cannot be queried here"
                )));
            }
            _ => field(&Path::new(name), &element, &mut nodes)?,
        }
    }
    Ok(unwrap_single(nodes, Node::And))
}

/// `$sampleRate`: a random choice, which is what `{ $expr: { $lt: [{ $rand: {} }, rate] } }` is.
fn sample_rate(element: &Element<'_>, variables: Option<&Variables>) -> Result<Node> {
    let rate = match element.value() {
        Value::Double(rate) => Some(rate),
        value => value.as_integer().map(|rate| rate as f64),
    };
    let Some(rate) = rate.filter(|rate| variables.is_some() && (0.0..=1.0).contains(rate)) else {
        return Err(QueryError::bad_value(
            "numeric argument to $sampleRate must be in [0, 1], and only at the top level of a filter",
        ));
    };
    let mut sides = ArrayWriter::new();
    let rand = bson::rawdoc! { "$rand": bson::rawdoc! {} };
    sides.push(Value::Document(Doc::from(&rand)));
    sides.push(Value::Double(rate));
    let mut operator = Writer::new(64);
    operator.value(b"$lt", Value::Array(Doc::new(&sides.into_bytes())));
    let operator = operator.finish();
    let mut condition = Writer::new(64);
    condition.value(b"$expr", Value::Document(Doc::from(&operator)));
    let condition = condition.finish();
    match Doc::from(&condition).elements().next() {
        Some(condition) => {
            Ok(Node::Expr(Box::new(Condition::parse(&condition, Variables::NONE)?.sampling())))
        }
        None => Err(QueryError::bad_value("$sampleRate needs a number")),
    }
}

/// The only node, or a list of the nodes.
pub(super) fn unwrap_single(mut nodes: Vec<Node>, list: fn(Vec<Node>) -> Node) -> Node {
    match nodes.pop() {
        Some(node) if nodes.is_empty() => node,
        Some(node) => {
            nodes.push(node);
            list(nodes)
        }
        None => list(nodes),
    }
}

fn clauses(element: &Element<'_>, variables: Option<&Variables>) -> Result<Vec<Node>> {
    let name = element.name_str();
    let Value::Array(array) = element.value() else {
        return Err(QueryError::bad_value(format!("{name} must be an array")));
    };
    if array.is_empty() {
        return Err(QueryError::bad_value(format!("{name} argument must be a non-empty array")));
    }
    let clause = |element: Element<'_>| match element.value() {
        Value::Document(doc) => document(doc, variables),
        _ => Err(QueryError::bad_value(format!("{name} argument's entries must be objects"))),
    };
    array.elements().map(clause).collect()
}

/// A value at the path matches a pattern.
pub(super) fn regex(path: &Path, pattern: &[u8], options: &[u8]) -> Result<Node> {
    Ok(Node::Value { path: path.clone(), test: Test::Regex(Pattern::of(pattern, options)?) })
}

/// `$regex`, with the `$options` from the same document.
fn regex_operator(path: &Path, operand: &Element<'_>, all: Doc<'_>) -> Result<Node> {
    let options = match all.get("$options") {
        None => None,
        Some(Value::String(options)) => Some(options),
        Some(_) => {
            return Err(QueryError::bad_value(format!("$options has to be a string (field '{path}')")));
        }
    };
    match (operand.value(), options) {
        (Value::String(pattern), options) => regex(path, pattern, options.unwrap_or_default()),
        (Value::Regex(pattern, options), None) => regex(path, pattern, options),
        (Value::Regex(pattern, b""), Some(options)) => regex(path, pattern, options),
        (Value::Regex(..), Some(_)) => Err(QueryError::new(
            ErrorCode::Location51075,
            format!("options set in both $regex and $options (field '{path}')"),
        )),
        _ => Err(QueryError::bad_value(format!("$regex has to be a string (field '{path}')"))),
    }
}

fn field(path: &Path, element: &Element<'_>, nodes: &mut Vec<Node>) -> Result<()> {
    match element.value() {
        Value::Document(doc) if is_operator_document(doc) => operators(path, doc, nodes),
        Value::Regex(pattern, options) => {
            nodes.push(regex(path, pattern, options)?);
            Ok(())
        }
        _ => {
            nodes.push(comparison(path, Op::Eq, element)?);
            Ok(())
        }
    }
}

/// True for `{ $gt: 5 }`. `{ a: 5 }` is a value, and so is a DBRef, whose field names also begin with `$`.
pub(super) fn is_operator_document(doc: Doc<'_>) -> bool {
    doc.elements().next().is_some_and(|element| {
        element.name.starts_with(b"$") && !matches!(element.name, b"$ref" | b"$id" | b"$db")
    })
}

pub(super) fn operators(path: &Path, doc: Doc<'_>, nodes: &mut Vec<Node>) -> Result<()> {
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
            "$type" => value(path, Test::Type(Types::parse(path.as_str(), &element)?)),
            "$mod" => value(path, Test::Mod(Modulo::parse(path.as_str(), &element)?)),
            "$regex" => regex_operator(path, &element, doc)?,
            "$options" if doc.get("$regex").is_some() => continue,
            "$options" => {
                return Err(QueryError::bad_value(format!("$options needs a $regex (field '{path}')")));
            }
            "$size" => array::size(path, &element)?,
            "$elemMatch" => array::elem_match(path, &element)?,
            "$all" => array::all(path, &element)?,
            _ if geo::belongs_to_near(&element, doc) => continue,
            _ => match Bits::parse(name, path.as_str(), &element) {
                Some(bits) => value(path, Test::Bits(bits?)),
                None if let Some(node) = geo::parse(path, &element, doc)? => node,
                None => {
                    return Err(QueryError::bad_value(format!("unknown operator: {name} (field '{path}')")));
                }
            },
        });
    }
    Ok(())
}

fn value(path: &Path, test: Test) -> Node {
    Node::Value { path: path.clone(), test }
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
    let (mut values, mut patterns) = (Vec::new(), Vec::new());
    for element in array.elements() {
        match element.value() {
            Value::Document(doc) if is_operator_document(doc) => {
                return Err(QueryError::bad_value(format!("cannot nest $ under {name} (field '{path}')")));
            }
            Value::Regex(pattern, options) => patterns.push(regex(path, pattern, options)?),
            Value::Undefined => {
                return Err(QueryError::bad_value(format!(
                    "{name} cannot contain undefined (field '{path}')"
                )));
            }
            _ => values.push(OwnedValue::from_element(&element)),
        }
    }
    let node = Node::In { path: path.clone(), values: distinct(values) };
    if patterns.is_empty() {
        return Ok(node);
    }
    patterns.insert(0, node);
    Ok(Node::Or(patterns))
}

/// The values sorted, without duplicates.
pub(super) fn distinct(mut values: Vec<OwnedValue>) -> Vec<OwnedValue> {
    values.sort_by(|a, b| compare(a.value(), b.value()));
    values.dedup_by(|a, b| compare(a.value(), b.value()).is_eq());
    values
}

fn negation(path: &Path, element: &Element<'_>) -> Result<Node> {
    match element.value() {
        Value::Document(doc) if doc.is_empty() => {
            Err(QueryError::bad_value(format!("$not cannot be empty (field '{path}')")))
        }
        Value::Document(doc) => {
            let mut nodes = Vec::new();
            operators(path, doc, &mut nodes)?;
            Ok(Node::Not(Box::new(unwrap_single(nodes, Node::And))))
        }
        Value::Regex(pattern, options) => Ok(Node::Not(Box::new(regex(path, pattern, options)?))),
        _ => Err(QueryError::bad_value(format!("$not needs a regex or a document (field '{path}')"))),
    }
}
