//! Order-preserving encoding of BSON values: comparing two encodings bytewise gives the same order as
//! comparing the values by [`super::compare`]. No encoding is a prefix of another, so encodings can be
//! concatenated to a compound key.
//!
//! Values that compare equal have equal encodings (`1`, `1.0` and decimal `1.00`), so the exact value cannot
//! be decoded from an encoding. Layout: one tag byte, in the order of the types, then
//!
//! | value | bytes after the tag |
//! |---|---|
//! | number | see below; NaN and zero have their own tags and nothing else |
//! | string, symbol, code | the bytes, with 00 as `01 01` and 01 as `01 02`, then `00` |
//! | document | per field: tag of its class, name, `00`, encoding of the value; then `00` |
//! | array | the encodings of the elements, then `00` |
//! | binary | length (4 bytes, big endian), subtype, bytes |
//! | object id | its 12 bytes |
//! | date | 8 bytes, big endian, sign bit inverted |
//! | timestamp | 8 bytes, big endian |
//! | regex | pattern, `00`, options, `00` |
//! | database pointer | length of the namespace (4 bytes), namespace, id |
//! | code with scope | the code as above, the scope as a document without tag |
//! | others | nothing: false and true each have a tag |
//!
//! A number's magnitude is its floor (see `doc::number`): the 63 bits of the double without its sign, seven
//! per byte, highest first. The lowest bit of each byte is set if anything other than zero bits follows; the
//! first byte without it is the last. So 1 takes two bytes and any double at most nine. The part of the
//! number above the floor follows as decimal digits: the position of the decimal point (2 bytes, 20,000
//! added) and pairs of digits, again seven bits and a continuation bit each. All bytes after the tag of a
//! negative number are inverted.

use bson::raw::RawBsonRef;

use super::number::{Digits, Number};
use super::value::{Doc, Value};

pub(super) const NAN: u8 = 0x10;
pub(super) const NEGATIVE: u8 = 0x12;
pub(super) const ZERO: u8 = 0x14;
pub(super) const POSITIVE: u8 = 0x16;
pub(super) const FALSE: u8 = 0x48;
pub(super) const TRUE: u8 = 0x4a;

/// First bytes of encodings, for index bounds that cover a whole type.
pub(crate) mod bracket {
    /// Sorts after NaN and before every other number.
    pub(crate) const NUMBERS: u8 = super::NEGATIVE;
    /// Sorts after every number.
    pub(crate) const AFTER_NUMBERS: u8 = 0x18;
}

/// Bytes that the floor of a number takes at most.
const GROUPS: usize = 9;

/// Appends the encoding of `value` to `out`.
pub fn encode(value: RawBsonRef<'_>, out: &mut Vec<u8>) {
    Value::with(value, |value| encode_value(value, out));
}

/// Inverts `bytes`. Inverted encodings sort in descending order, and none is a prefix of another either.
pub fn invert(bytes: &mut [u8]) {
    for byte in bytes {
        *byte = !*byte;
    }
}

/// [`encode`] for a [`Value`].
pub fn encode_value(value: Value<'_>, out: &mut Vec<u8>) {
    if let Some(number) = Number::new(value) {
        return encode_number(number, out);
    }
    out.push(match value {
        Value::Bool(false) => FALSE,
        Value::Bool(true) => TRUE,
        _ => super::compare::class(&value),
    });
    match value {
        Value::String(text) | Value::Symbol(text) | Value::Code(text) => encode_text(text, out),
        Value::Document(doc) => encode_fields(doc, out),
        Value::Array(doc) => {
            for element in doc.elements() {
                encode_value(element.value(), out);
            }
            out.push(0);
        }
        Value::Binary(subtype, bytes) => {
            out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
            out.push(subtype);
            out.extend_from_slice(bytes);
        }
        Value::ObjectId(id) => out.extend_from_slice(id),
        Value::Date(millis) => out.extend_from_slice(&(millis as u64 ^ 1 << 63).to_be_bytes()),
        Value::Timestamp(bits) => out.extend_from_slice(&bits.to_be_bytes()),
        Value::Regex(pattern, options) => {
            // Neither part can contain a NUL.
            out.extend_from_slice(pattern);
            out.push(0);
            out.extend_from_slice(options);
            out.push(0);
        }
        Value::DbPointer(namespace, id) => {
            out.extend_from_slice(&(namespace.len() as u32).to_be_bytes());
            out.extend_from_slice(namespace);
            out.extend_from_slice(id);
        }
        Value::CodeScope(code, scope) => {
            encode_text(code, out);
            encode_fields(scope, out);
        }
        Value::MinKey | Value::MaxKey | Value::Null | Value::Undefined | Value::Bool(_) => {}
        Value::Double(_) | Value::Int32(_) | Value::Int64(_) | Value::Decimal(_) => {}
    }
}

fn encode_fields(doc: Doc<'_>, out: &mut Vec<u8>) {
    for element in doc.elements() {
        let value = element.value();
        out.push(super::compare::class(&value));
        out.extend_from_slice(element.name);
        out.push(0);
        encode_value(value, out);
    }
    out.push(0);
}

fn encode_text(text: &[u8], out: &mut Vec<u8>) {
    out.reserve(text.len() + 1);
    let mut rest = text;
    if needs_no_escapes(text) {
        out.extend_from_slice(text);
        return out.push(0);
    }
    while let Some(at) = rest.iter().position(|&byte| byte <= 1) {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain);
        if let Some((&byte, after)) = special.split_first() {
            out.extend_from_slice(&[1, byte + 1]);
            rest = after;
        }
    }
    out.extend_from_slice(rest);
    out.push(0);
}

/// True if no byte of a string is 0 or 1; checks eight bytes at a time.
fn needs_no_escapes(text: &[u8]) -> bool {
    let (words, rest) = text.as_chunks::<8>();
    let none = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word);
        // The top bit of a byte is set if the byte was below 2; bytes above such a byte may have it set too.
        word.wrapping_sub(0x0202_0202_0202_0202) & !word & 0x8080_8080_8080_8080 == 0
    };
    words.iter().all(none) && rest.iter().all(|&byte| byte > 1)
}

fn encode_number(number: Number, out: &mut Vec<u8>) {
    let (negative, floor, digits) = match number {
        Number::Nan => return out.push(NAN),
        Number::Zero => return out.push(ZERO),
        Number::Signed { negative, floor, digits } => (negative, floor, digits),
    };
    out.push(if negative { NEGATIVE } else { POSITIVE });
    let bits = floor.to_bits();
    // Nine groups of seven bits, each with the bit that says that more follows.
    let mut groups = [0_u8; GROUPS];
    for (at, group) in groups.iter_mut().enumerate() {
        *group = ((bits >> (7 * (GROUPS - 1 - at))) as u8) << 1 | 1;
    }
    let Some(digits) = digits else {
        // The group of the lowest bit that is set is the last; that of a floor of zero, the first.
        let last = (GROUPS - 1).saturating_sub(bits.trailing_zeros() as usize / 7);
        if let Some(group) = groups.get_mut(last) {
            *group &= !1;
        }
        if negative {
            invert(&mut groups);
        }
        return out.extend_from_slice(groups.get(..=last).unwrap_or_default());
    };
    let start = out.len();
    out.extend_from_slice(&groups);
    encode_digits(digits, out);
    if negative && let Some(bytes) = out.get_mut(start..) {
        invert(bytes);
    }
}

fn encode_digits(digits: Digits, out: &mut Vec<u8>) {
    out.extend_from_slice(&((digits.point + 20_000) as u16).to_be_bytes());
    let pairs = digits.pairs();
    for (at, pair) in pairs.iter().enumerate() {
        out.push(pair << 1 | u8::from(at + 1 < pairs.len()));
    }
}

#[cfg(test)]
mod tests {
    use treedb_testing::{Rng, random_document};

    use super::*;
    use crate::doc::compare::compare;

    fn encoded(value: Value<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        encode_value(value, &mut out);
        out
    }

    #[test]
    fn encodings_sort_like_their_values_and_none_is_a_prefix_of_another() {
        let mut rng = Rng::new(7);
        let docs: Vec<_> = (0..160).map(|_| random_document(&mut rng, 3)).collect();
        let mut values: Vec<(Vec<u8>, Value<'_>)> = Vec::new();
        for doc in &docs {
            values.push((encoded(Value::Document(doc.into())), Value::Document(doc.into())));
            values
                .extend(Doc::from(doc).elements().map(|element| (encoded(element.value()), element.value())));
        }
        let mut seen = std::collections::HashSet::new();
        for (bytes, value) in &values {
            seen.insert(std::mem::discriminant(value));
            for (other_bytes, other) in &values {
                let order = compare(*value, *other);
                assert_eq!(bytes.cmp(other_bytes), order, "{value:?} {other:?}");
                if order.is_ne() {
                    assert!(!other_bytes.starts_with(bytes), "{value:?} {other:?}");
                }
                let (mut inverted, mut other_inverted) = (bytes.clone(), other_bytes.clone());
                invert(&mut inverted);
                invert(&mut other_inverted);
                assert_eq!(inverted.cmp(&other_inverted), order.reverse());
            }
        }
        assert!(seen.len() >= 20, "the generator does not cover all types: {}", seen.len());
    }

    #[test]
    fn encodings_of_close_numbers_of_different_types_sort_exactly() {
        let mut rng = Rng::new(8);
        let mut numbers = Vec::new();
        for _ in 0..60 {
            let base = match rng.below(5) {
                0 => rng.next_u64() as i64,
                1 => (1 << 53) + rng.below(5) as i64,
                2 => i64::MAX - rng.below(2000) as i64,
                // Not zero: the numbers next to it have more digits than `exact` writes.
                3 => 1 + rng.below(1000) as i64,
                _ => -(rng.next_u64() as i64 >> rng.below(60)) | 1,
            };
            numbers.extend([
                Value::Int64(base),
                Value::Double(base as f64),
                Value::Double((base as f64).next_up()),
            ]);
            numbers.push(Value::Double((base as f64) / 10.0));
            for text in
                [format!("{base}"), format!("{base}.5"), format!("{base}E-1"), format!("{base}.0000001")]
            {
                numbers.push(Value::Decimal(text.parse::<bson::Decimal128>().unwrap().bytes()));
            }
        }
        for a in &numbers {
            for b in &numbers {
                assert_eq!(encoded(*a).cmp(&encoded(*b)), exact(*a).cmp(&exact(*b)), "{a:?} {b:?}");
            }
        }

        /// The exact value as decimal digits, computed independently of the encoding: doubles by their exact
        /// decimal expansion.
        fn exact(value: Value<'_>) -> Exact {
            let text = match value {
                Value::Int64(value) => value.to_string(),
                Value::Double(value) => format!("{value:.80}"),
                Value::Decimal(bytes) => {
                    let text = bson::Decimal128::from_bytes(bytes).to_string();
                    assert!(!text.contains('E'), "{text}");
                    text
                }
                _ => unreachable!(),
            };
            let (negative, text) = text.strip_prefix('-').map_or((false, text.as_str()), |rest| (true, rest));
            let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
            let digits = format!("{whole:0>40}{fraction:0<90}");
            let zero = digits.bytes().all(|digit| digit == b'0');
            Exact { negative: negative && !zero, digits }
        }

        #[derive(PartialEq, Eq)]
        struct Exact {
            negative: bool,
            digits: String,
        }
        impl Exact {
            fn cmp(&self, other: &Exact) -> std::cmp::Ordering {
                match (self.negative, other.negative) {
                    (false, false) => self.digits.cmp(&other.digits),
                    (true, true) => other.digits.cmp(&self.digits),
                    (negative, _) => {
                        if negative {
                            std::cmp::Ordering::Less
                        } else {
                            std::cmp::Ordering::Greater
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn small_integers_take_few_bytes() {
        assert_eq!(encoded(Value::Int32(0)).len(), 1);
        assert_eq!(encoded(Value::Int32(1)).len(), 3);
        assert!(encoded(Value::Int32(1999)).len() <= 4);
        assert!(encoded(Value::Double(0.1)).len() <= 10);
        assert_eq!(encoded(Value::String(b"abc")).len(), 5);
    }
}
