//! Implication: whether conditions guarantee that a field exists, or that another condition holds.
//!
//! This is checked before a sparse or partial index is used, so if it is unclear the result is false. A
//! condition is met by one value at its path (or by a missing field, which counts as null); conclusions about
//! that value are true for any document, with or without arrays.

use std::cmp::Ordering;

use crate::doc::compare::{class, compare};
use crate::doc::{OwnedValue, Path, Value};

use crate::query::filter::{Node, Op, Test, Types};

/// True if every document that meets `condition` has something at `path`.
pub(in crate::query) fn exists(condition: &Node, path: &str) -> bool {
    let at = |at: &Path| at.as_str() == path;
    match condition {
        Node::Compare { path, op, value } => at(path) && !null_meets(*op, value.value()),
        Node::In { path, values } => {
            at(path) && !values.iter().any(|value| null_meets(Op::Eq, value.value()))
        }
        Node::Folded(folded) => exists(folded.node(), path),
        Node::Exists { path }
        | Node::Value { path, .. }
        | Node::Size { path, .. }
        | Node::Element { path, .. }
        | Node::Member { path, .. } => at(path),
        Node::And(nodes) => nodes.iter().any(|node| exists(node, path)),
        Node::Or(nodes) => !nodes.is_empty() && nodes.iter().all(|node| exists(node, path)),
        Node::Not(_) | Node::Expr(_) | Node::Schema(_) => false,
    }
}

/// True if every document that meets all of `conditions` meets `wanted`.
pub(in crate::query) fn implied(conditions: &[&Node], wanted: &Node) -> bool {
    if let Node::And(nodes) = wanted {
        return nodes.iter().all(|wanted| implied(conditions, wanted));
    }
    if conditions.iter().any(|condition| follows(condition, wanted)) {
        return true;
    }
    matches!(wanted, Node::Or(nodes) if nodes.iter().any(|wanted| implied(conditions, wanted)))
}

/// True if `wanted` follows from one condition.
fn follows(condition: &Node, wanted: &Node) -> bool {
    if condition == wanted {
        return true;
    }
    match condition {
        Node::And(nodes) => return implied(&nodes.iter().collect::<Vec<_>>(), wanted),
        Node::Or(nodes) => return !nodes.is_empty() && nodes.iter().all(|node| implied(&[node], wanted)),
        _ => {}
    }
    match (condition, wanted) {
        (_, Node::Exists { path }) => exists(condition, path.as_str()),
        (Node::Folded(one), Node::Folded(other)) => {
            one.collation() == other.collation() && follows(one.node(), other.node())
        }
        (Node::Compare { path, op: Op::Eq, value }, _) => equal(path, value, wanted),
        (Node::In { path, values }, _) => values.iter().all(|value| equal(path, value, wanted)),
        (Node::Compare { path, op, value }, Node::Compare { path: at, op: wanted, value: bound }) => {
            path == at && within((*op, value.value()), (*wanted, bound.value()))
        }
        (Node::Compare { path, value, .. }, Node::Value { path: at, test: Test::Type(types) }) => {
            // Values that compare with a value of a class have the same class.
            path == at && ranges(value.value()) && whole_class(*types, value.value())
        }
        _ => false,
    }
}

/// True if every value that equals `value` meets `wanted`.
fn equal(path: &Path, value: &OwnedValue, wanted: &Node) -> bool {
    let value = value.value();
    match wanted {
        Node::Compare { path: at, op, value: bound } => path == at && meets(value, *op, bound.value()),
        Node::In { path: at, values } => {
            path == at && values.iter().any(|one| compare(one.value(), value).is_eq())
        }
        Node::Exists { path: at } => path == at && !null_meets(Op::Eq, value),
        Node::Value { path: at, test: Test::Type(types) } => {
            path == at && !null_meets(Op::Eq, value) && whole_class(*types, value)
        }
        Node::Or(nodes) => nodes.iter().any(|node| equal(path, &OwnedValue::from_value(value), node)),
        Node::And(nodes) => nodes.iter().all(|node| equal(path, &OwnedValue::from_value(value), node)),
        _ => false,
    }
}

/// True if every value that compares by `op` with `value` also does so by the wanted operator and bound.
fn within((op, value): (Op, Value<'_>), (wanted, bound): (Op, Value<'_>)) -> bool {
    if !ranges(value) || !ranges(bound) || class(&value) != class(&bound) {
        return false;
    }
    let order = compare(value, bound);
    match (op, wanted) {
        (Op::Gt, Op::Gt | Op::Gte) | (Op::Gte, Op::Gte) => order != Ordering::Less,
        (Op::Gte, Op::Gt) => order == Ordering::Greater,
        (Op::Lt, Op::Lt | Op::Lte) | (Op::Lte, Op::Lte) => order != Ordering::Greater,
        (Op::Lte, Op::Lt) => order == Ordering::Less,
        _ => false,
    }
}

/// True if a comparison with `value` only matches values of its class, and follows their order.
fn ranges(value: Value<'_>) -> bool {
    let nan = value.is_number() && compare(value, Value::Double(f64::NAN)).is_eq();
    !nan && !matches!(value, Value::MinKey | Value::MaxKey | Value::Null | Value::Undefined)
}

/// True if `value` compares by `op` with `bound`; false if it is unclear.
fn meets(value: Value<'_>, op: Op, bound: Value<'_>) -> bool {
    let order = compare(value, bound);
    match op {
        Op::Eq => order.is_eq(),
        _ if !ranges(value) || !ranges(bound) || class(&value) != class(&bound) => false,
        Op::Gt => order.is_gt(),
        Op::Gte => order.is_ge(),
        Op::Lt => order.is_lt(),
        Op::Lte => order.is_le(),
    }
}

/// True if a missing field or null may compare by `op` with `value`.
fn null_meets(op: Op, value: Value<'_>) -> bool {
    match value {
        Value::Null | Value::Undefined => true,
        Value::MinKey | Value::MaxKey => op != Op::Eq,
        _ => false,
    }
}

/// True if all values that compare with `value` are of one of the types.
fn whole_class(types: Types, value: Value<'_>) -> bool {
    let of = |all: &[Value<'_>]| all.iter().all(|value| types.has(*value));
    match value {
        value if value.is_number() => {
            of(&[Value::Double(0.0), Value::Int32(0), Value::Int64(0), Value::Decimal([0; 16])])
        }
        Value::String(_) | Value::Symbol(_) => of(&[Value::String(b""), Value::Symbol(b"")]),
        value => types.has(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Filter;
    use bson::{RawDocumentBuf, rawdoc};

    fn implies(condition: RawDocumentBuf, wanted: RawDocumentBuf) -> bool {
        let (condition, wanted) = (Filter::parse(&condition).unwrap(), Filter::parse(&wanted).unwrap());
        implied(&condition.conjuncts(), wanted.root())
    }

    #[test]
    fn tighter_conditions_imply_wider_ones_and_not_the_other_way_round() {
        for (tight, wide) in [
            (rawdoc! { "a": 6 }, rawdoc! { "a": { "$gt": 5 } }),
            (rawdoc! { "a": { "$gt": 6 } }, rawdoc! { "a": { "$gte": 6 } }),
            (rawdoc! { "a": { "$gte": 6, "$lt": 8 } }, rawdoc! { "a": { "$gt": 5 } }),
            (rawdoc! { "a": { "$in": [6, 7.5] } }, rawdoc! { "a": { "$gt": 5 } }),
            (rawdoc! { "a": { "$in": [6, 7] } }, rawdoc! { "a": { "$in": [5, 6, 7] } }),
            (rawdoc! { "a": 6, "b": 1 }, rawdoc! { "a": { "$gt": 5 }, "b": { "$exists": true } }),
            (rawdoc! { "a": { "$lt": "x" } }, rawdoc! { "a": { "$type": ["string", "symbol"] } }),
            (rawdoc! { "a": { "$gt": 1 } }, rawdoc! { "a": { "$exists": true } }),
            (rawdoc! { "a": "x" }, rawdoc! { "$or": [{ "a": "x" }, { "b": 1 }] }),
            (rawdoc! { "$or": [{ "a": 7 }, { "a": 8 }] }, rawdoc! { "a": { "$gt": 5 } }),
            (rawdoc! { "a": { "$elemMatch": { "$gt": 1 } } }, rawdoc! { "a": { "$exists": true } }),
        ] {
            assert!(implies(tight.clone(), wide.clone()), "{tight:?} {wide:?}");
            assert!(!implies(wide.clone(), tight.clone()), "{wide:?} {tight:?}");
        }
    }

    #[test]
    fn nothing_follows_where_null_or_another_type_could_match() {
        for (condition, wanted) in [
            (rawdoc! { "a": null }, rawdoc! { "a": { "$exists": true } }),
            (rawdoc! { "a": { "$in": [1, null] } }, rawdoc! { "a": { "$exists": true } }),
            (rawdoc! { "a": { "$gte": null } }, rawdoc! { "a": { "$exists": true } }),
            (rawdoc! { "a": { "$ne": 1 } }, rawdoc! { "a": { "$exists": true } }),
            (rawdoc! { "a": "x" }, rawdoc! { "a": { "$gt": 1 } }),
            (rawdoc! { "a": 1 }, rawdoc! { "a": { "$type": "int" } }),
            (rawdoc! { "a": { "$gt": f64::NAN } }, rawdoc! { "a": { "$gt": 1 } }),
            (rawdoc! { "a": { "$gt": bson::RawBson::MinKey } }, rawdoc! { "a": { "$exists": true } }),
            (rawdoc! { "a.b": 1 }, rawdoc! { "a": { "$exists": true } }),
            (rawdoc! { "$or": [{ "a": 7 }, { "b": 8 }] }, rawdoc! { "a": { "$gt": 5 } }),
        ] {
            assert!(!implies(condition.clone(), wanted.clone()), "{condition:?} {wanted:?}");
        }
    }
}
