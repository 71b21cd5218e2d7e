//! Whether a document matches.

use std::cmp::Ordering;

use super::{Node, Op};
use crate::doc::compare::{class, compare};
use crate::doc::{Doc, OwnedValue, Value};

pub(super) fn matches(node: &Node, doc: Doc<'_>) -> bool {
    match node {
        Node::And(nodes) => nodes.iter().all(|node| matches(node, doc)),
        Node::Or(nodes) => nodes.iter().any(|node| matches(node, doc)),
        Node::Not(node) => !matches(node, doc),
        Node::Compare { path, op, value } => {
            let constant = value.value();
            path.visit(doc, true, &mut |found| meets(found, *op, constant))
        }
        Node::In { path, values } => path.visit(doc, true, &mut |found| is_one_of(found, values)),
        Node::Exists { path } => path.visit(doc, false, &mut |found| found.is_some()),
    }
}

fn is_nan(value: Value<'_>) -> bool {
    value.is_number() && compare(value, Value::Double(f64::NAN)).is_eq()
}

/// Whether a value found at a path compares as asked. Nothing at a path counts as null.
fn meets(found: Option<Value<'_>>, op: Op, constant: Value<'_>) -> bool {
    let value = found.unwrap_or(Value::Null);
    let unbounded = matches!(constant, Value::MinKey | Value::MaxKey);
    if !unbounded && class(&value) != class(&constant) {
        return false;
    }
    let order = compare(value, constant);
    // NaN equals NaN and is neither below nor above anything.
    if !unbounded && order.is_ne() && (is_nan(value) || is_nan(constant)) {
        return false;
    }
    match op {
        Op::Eq => order == Ordering::Equal,
        Op::Gt => order == Ordering::Greater,
        Op::Gte => order != Ordering::Less,
        Op::Lt => order == Ordering::Less,
        Op::Lte => order != Ordering::Greater,
    }
}

fn is_one_of(found: Option<Value<'_>>, values: &[OwnedValue]) -> bool {
    let value = found.unwrap_or(Value::Null);
    values.binary_search_by(|candidate| compare(candidate.value(), value)).is_ok()
}
