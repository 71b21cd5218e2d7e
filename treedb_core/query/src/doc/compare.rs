//! MongoDB's order across all values of all types.
//!
//! Types come first: MinKey, undefined, null, numbers, strings and symbols, documents, arrays, binary data, object
//! ids, booleans, dates, timestamps, regular expressions, database pointers, code, code with scope, MaxKey. Numbers
//! of all kinds compare by value, NaN below the others. Documents compare field by field in their order: type
//! class, then name, then value; arrays element by element; binary data by length first.

use std::cmp::Ordering;

use super::number::Number;
use super::value::{Doc, Value};

/// The place of a value's type in the order; values of one class compare by value.
pub(crate) fn class(value: &Value<'_>) -> u8 {
    match value {
        Value::MinKey => 0x02,
        Value::Undefined => 0x04,
        Value::Null => 0x06,
        Value::Double(_) | Value::Int32(_) | Value::Int64(_) | Value::Decimal(_) => 0x10,
        Value::String(_) | Value::Symbol(_) => 0x20,
        Value::Document(_) => 0x28,
        Value::Array(_) => 0x30,
        Value::Binary(..) => 0x38,
        Value::ObjectId(_) => 0x40,
        Value::Bool(_) => 0x48,
        Value::Date(_) => 0x50,
        Value::Timestamp(_) => 0x58,
        Value::Regex(..) => 0x60,
        Value::DbPointer(..) => 0x68,
        Value::Code(_) => 0x70,
        Value::CodeScope(..) => 0x78,
        Value::MaxKey => 0xf0,
    }
}

/// MongoDB's order of two values.
pub fn compare(a: Value<'_>, b: Value<'_>) -> Ordering {
    match (a, b) {
        (Value::Int32(a), Value::Int32(b)) => a.cmp(&b),
        (Value::Int64(a), Value::Int64(b)) => a.cmp(&b),
        (Value::Int32(a), Value::Int64(b)) => i64::from(a).cmp(&b),
        (Value::Int64(a), Value::Int32(b)) => a.cmp(&i64::from(b)),
        (Value::String(a) | Value::Symbol(a), Value::String(b) | Value::Symbol(b)) => a.cmp(b),
        (Value::Document(a), Value::Document(b)) => compare_elements(a, b, true),
        (Value::Array(a), Value::Array(b)) => compare_elements(a, b, false),
        (Value::Binary(sub_a, a), Value::Binary(sub_b, b)) => {
            a.len().cmp(&b.len()).then(sub_a.cmp(&sub_b)).then_with(|| a.cmp(b))
        }
        (Value::ObjectId(a), Value::ObjectId(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(&b),
        (Value::Date(a), Value::Date(b)) => a.cmp(&b),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(&b),
        (Value::Regex(a, a_options), Value::Regex(b, b_options)) => {
            a.cmp(b).then_with(|| a_options.cmp(b_options))
        }
        (Value::DbPointer(a, a_id), Value::DbPointer(b, b_id)) => {
            a.len().cmp(&b.len()).then_with(|| a.cmp(b)).then_with(|| a_id.cmp(b_id))
        }
        (Value::Code(a), Value::Code(b)) => a.cmp(b),
        (Value::CodeScope(a, a_scope), Value::CodeScope(b, b_scope)) => {
            a.cmp(b).then_with(|| compare_elements(a_scope, b_scope, true))
        }
        (a, b) => match (Number::new(a), Number::new(b)) {
            (Some(a), Some(b)) => a.cmp(b),
            _ => class(&a).cmp(&class(&b)),
        },
    }
}

fn compare_elements(a: Doc<'_>, b: Doc<'_>, names: bool) -> Ordering {
    let (mut left, mut right) = (a.elements(), b.elements());
    loop {
        match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(a), Some(b)) => {
                let (x, y) = (a.value(), b.value());
                let order = class(&x)
                    .cmp(&class(&y))
                    .then_with(|| if names { a.name.cmp(b.name) } else { Ordering::Equal })
                    .then_with(|| compare(x, y));
                if order.is_ne() {
                    return order;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn types_come_in_mongodbs_order() {
        let doc = rawdoc! {
            "a": bson::RawBson::MinKey, "b": bson::RawBson::Undefined, "c": null, "d": f64::NAN, "e": 5,
            "f": "a", "g": {}, "h": [], "i": bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![] },
            "j": bson::oid::ObjectId::from_bytes([0; 12]), "k": false, "l": true,
            "m": bson::DateTime::from_millis(-1), "n": bson::Timestamp { time: 1, increment: 0 },
            "o": bson::Regex { pattern: bson::raw::cstr!("a").into(), options: bson::raw::cstr!("").into() }, "p": bson::RawBson::JavaScriptCode("x".into()),
            "q": bson::RawBson::MaxKey,
        };
        let values: Vec<_> = Doc::from(&doc).elements().map(|element| element.value()).collect();
        for (at, a) in values.iter().enumerate() {
            for (other, b) in values.iter().enumerate() {
                assert_eq!(compare(*a, *b), at.cmp(&other), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn documents_compare_type_then_name_then_value() {
        let order = |a: &bson::RawDocumentBuf, b: &bson::RawDocumentBuf| {
            compare(Value::Document(a.into()), Value::Document(b.into()))
        };
        assert_eq!(order(&rawdoc! {"b": 1}, &rawdoc! {"a": "x"}), Ordering::Less);
        assert_eq!(order(&rawdoc! {"b": 1}, &rawdoc! {"a": 2}), Ordering::Greater);
        assert_eq!(order(&rawdoc! {"a": 1}, &rawdoc! {"a": 1.0}), Ordering::Equal);
        assert_eq!(order(&rawdoc! {"a": 1}, &rawdoc! {"a": 1, "b": null}), Ordering::Less);
        assert_eq!(order(&rawdoc! {"a": 1, "b": 2}, &rawdoc! {"b": 2, "a": 1}), Ordering::Less);
    }
}
