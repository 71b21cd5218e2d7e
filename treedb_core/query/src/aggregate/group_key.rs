//! Keys of values for hash tables, such as the groups of a `$group`.
//!
//! Values that compare as equal have equal keys (`1`, `1.0` and decimal `1.00`), other values have different keys, and no
//! key is a prefix of another. Unlike the keys of [`crate::doc::key`] they have no order, which makes them cheap. The key of
//! most values is their BSON type and bytes, so that the value need not be stored beside it.

use crate::doc::key::encode_value;
use crate::doc::number::Number;
use crate::doc::value::kind;
use crate::doc::{Collation, Element, Value};

/// The key of a missing value.
pub(crate) const MISSING: u8 = 0;
/// The first byte of a key that is made from an order-preserving key.
const ORDERED: u8 = 0x80;

/// Appends the key of a value. True if it is the type and the BSON of the value.
#[inline]
pub(crate) fn append_key(value: Value<'_>, out: &mut Vec<u8>) -> bool {
    let mut fixed = |kind: u8, bytes: &[u8]| {
        out.push(kind);
        out.extend_from_slice(bytes);
        true
    };
    match value {
        Value::String(bytes) => string(bytes, out),
        Value::Int32(number) => fixed(kind::INT32, &number.to_le_bytes()),
        Value::Int64(number) => integer(number, out) == kind::INT64,
        Value::Double(number) => double(number, out),
        Value::ObjectId(id) => fixed(kind::OBJECT_ID, id),
        Value::Bool(is) => fixed(kind::BOOL, &[u8::from(is)]),
        Value::Date(millis) => fixed(kind::DATE, &millis.to_le_bytes()),
        Value::Timestamp(bits) => fixed(kind::TIMESTAMP, &bits.to_le_bytes()),
        Value::Null => fixed(kind::NULL, &[]),
        other => uncommon(other, out),
    }
}

/// [`append_key`] of the value as `collation` compares it.
#[inline]
pub(crate) fn append_collated_key(collation: &Collation, value: Value<'_>, out: &mut Vec<u8>) -> bool {
    match collation.fold(value) {
        Some(folded) => {
            append_key(folded.value(), out);
            false
        }
        None => append_key(value, out),
    }
}

/// The value whose key is its type and its BSON.
pub(crate) fn element_of_key<'a>(name: &'a [u8], bytes: &'a [u8]) -> Element<'a> {
    match bytes.split_first() {
        Some((kind, bytes)) => Element { name, kind: *kind, bytes },
        None => Element { name, kind: kind::NULL, bytes: &[] },
    }
}

fn string(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    out.push(kind::STRING);
    out.extend_from_slice(&(bytes.len() as u32 + 1).to_le_bytes());
    out.extend_from_slice(bytes);
    out.push(0);
    true
}

/// Every whole number as the smallest type that holds it. Returns that type.
fn integer(number: i64, out: &mut Vec<u8>) -> u8 {
    match i32::try_from(number) {
        Ok(small) => {
            out.push(kind::INT32);
            out.extend_from_slice(&small.to_le_bytes());
            kind::INT32
        }
        Err(_) => {
            out.push(kind::INT64);
            out.extend_from_slice(&number.to_le_bytes());
            kind::INT64
        }
    }
}

fn double(number: f64, out: &mut Vec<u8>) -> bool {
    const END: f64 = 9_223_372_036_854_775_808.0;
    if number.fract() == 0.0 && (-END..END).contains(&number) {
        integer(number as i64, out);
        return false;
    }
    let canonical = if number.is_nan() { f64::NAN } else { number };
    out.push(kind::DOUBLE);
    out.extend_from_slice(&canonical.to_le_bytes());
    canonical.to_bits() == number.to_bits()
}

#[cold]
fn uncommon(value: Value<'_>, out: &mut Vec<u8>) -> bool {
    match value {
        // Compares like a string.
        Value::Symbol(bytes) => drop(string(bytes, out)),
        Value::Decimal(_) => match (value.as_integer(), Number::new(value)) {
            (Some(number), _) => drop(integer(number, out)),
            (_, Some(Number::Nan)) => drop(double(f64::NAN, out)),
            (_, Some(Number::Signed { negative, floor, digits: None })) => {
                double(if negative { -floor } else { floor }, out);
            }
            _ => ordered(value, out),
        },
        _ => ordered(value, out),
    }
    false
}

fn ordered(value: Value<'_>, out: &mut Vec<u8>) {
    out.push(ORDERED);
    encode_value(value, out);
}

#[cfg(test)]
mod tests {
    use treedb_testing::{Rng, random_document};

    use super::*;
    use crate::doc::compare::compare;
    use crate::doc::{Doc, OwnedValue};

    fn assert_keys_are_equal_as_values_are(values: &[Value<'_>]) {
        let keys: Vec<Vec<u8>> = values
            .iter()
            .map(|value| {
                let mut out = Vec::new();
                if append_key(*value, &mut out) {
                    let read = OwnedValue::from_element(&element_of_key(b"", &out));
                    assert!(read == OwnedValue::from_value(*value), "{value:?}");
                }
                out
            })
            .collect();
        for (a, x) in values.iter().zip(&keys) {
            for (b, y) in values.iter().zip(&keys) {
                assert_eq!(compare(*a, *b).is_eq(), x == y, "{a:?} {b:?}");
                assert!(x == y || !y.starts_with(x), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn values_of_every_type_have_equal_keys_exactly_if_they_compare_as_equal() {
        let mut rng = Rng::new(11);
        let docs: Vec<_> = (0..160).map(|_| random_document(&mut rng, 3)).collect();
        let values = docs.iter().flat_map(|doc| Doc::from(doc).elements().map(|element| element.value()));
        let values: Vec<_> = values.collect();
        assert_keys_are_equal_as_values_are(&values);
    }

    #[test]
    fn numbers_of_every_type_have_equal_keys_exactly_if_they_compare_as_equal() {
        let mut rng = Rng::new(12);
        let mut numbers = vec![
            Value::Double(-0.0),
            Value::Double(f64::INFINITY),
            Value::Double(f64::NAN),
            Value::Double(-f64::NAN),
        ];
        let decimal = |text: &str| Value::Decimal(text.parse::<bson::Decimal128>().unwrap().bytes());
        numbers.extend(["NaN", "Infinity", "-Infinity", "0E3", "-0", "1E40", "1E-40", "0.5"].map(decimal));
        for base in [0, 1, -1, i64::MAX, i64::MIN, i64::from(i32::MAX), i64::from(i32::MIN), 1 << 31, 1 << 53]
        {
            for off in -2..=2 {
                let base = base.saturating_add(off);
                numbers.extend([Value::Int64(base), Value::Double(base as f64), decimal(&format!("{base}"))]);
                numbers.extend([decimal(&format!("{base}.00")), decimal(&format!("{base}.5"))]);
                numbers.extend(i32::try_from(base).map(Value::Int32));
                numbers.push(Value::Double(base as f64 + 0.5));
            }
        }
        for _ in 0..60 {
            let number = f64::from_bits(rng.next_u64());
            numbers.push(Value::Double(number));
            numbers.push(Value::Double((rng.next_u64() as i64 >> rng.below(60)) as f64 / 4.0));
        }
        assert_keys_are_equal_as_values_are(&numbers);
        let symbol = OwnedValue::from_value(Value::Symbol(b"a"));
        assert_keys_are_equal_as_values_are(&[
            Value::String(b"a"),
            symbol.value(),
            Value::Undefined,
            Value::Null,
        ]);
    }
}
