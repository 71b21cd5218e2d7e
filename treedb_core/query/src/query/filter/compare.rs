//! Comparing a found value with constants: `$eq $gt $gte $lt $lte $in`.

use std::cmp::Ordering;

use crate::doc::compare::{class, compare};
use crate::doc::{OwnedValue, Value};

/// A comparison with a constant. Only values of the constant's type class match; the exceptions are the
/// constants MinKey and MaxKey, which are compared with values of all types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// `$eq`
    Eq,
    /// `$gt`
    Gt,
    /// `$gte`
    Gte,
    /// `$lt`
    Lt,
    /// `$lte`
    Lte,
}

impl Op {
    /// Whether the comparison is true for a value with this order relative to the constant.
    pub(super) fn accepts(self, order: Ordering) -> bool {
        match self {
            Op::Eq => order == Ordering::Equal,
            Op::Gt => order == Ordering::Greater,
            Op::Gte => order != Ordering::Less,
            Op::Lt => order == Ordering::Less,
            Op::Lte => order != Ordering::Greater,
        }
    }
}

fn is_nan(value: Value<'_>) -> bool {
    value.is_number() && compare(value, Value::Double(f64::NAN)).is_eq()
}

/// Whether the comparison with `constant` is true for the value found at a path. A missing field counts as
/// null.
pub(super) fn compares(found: Option<Value<'_>>, op: Op, constant: Value<'_>) -> bool {
    let value = found.unwrap_or(Value::Null);
    let unbounded = matches!(constant, Value::MinKey | Value::MaxKey);
    if !unbounded && class(&value) != class(&constant) {
        return false;
    }
    let order = compare(value, constant);
    // NaN equals NaN; it is neither less nor greater than any other number.
    if !unbounded && order.is_ne() && (is_nan(value) || is_nan(constant)) {
        return false;
    }
    op.accepts(order)
}

/// Whether the value found at a path is one of `values`, which are sorted. A missing field counts as null.
pub(super) fn is_one_of(found: Option<Value<'_>>, values: &[OwnedValue]) -> bool {
    let value = found.unwrap_or(Value::Null);
    values.binary_search_by(|candidate| compare(candidate.value(), value)).is_ok()
}
