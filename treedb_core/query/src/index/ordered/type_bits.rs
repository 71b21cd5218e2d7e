//! Type bits: the type information that the key of an index entry loses.
//!
//! Values that compare equal have the same key, whatever type of number they are, and a missing field has the
//! key of null. Type bits tell the difference, so that the index can answer a query without fetching the row
//! (a covered query). They follow the row id in the entry (in the value of a unique index's entry, and are
//! the value otherwise): one byte for each field of the index, or a single zero if all are zero. If a row has
//! several entries in the index, these have no type bits, nor have entries of a file that was written before
//! there were type bits: the row has to be fetched.
//!
//! | type bits | the value is |
//! |---|---|
//! | 0 | the key's: a 32-bit integer if it is a whole number that fits, a 64-bit one if it is a larger whole number, else a double; a string |
//! | 1 | a 64-bit integer that would fit 32 bits |
//! | 2 | a double that is a whole number |
//! | 3 | a symbol |
//! | 4 | missing |
//! | 128 and more | the key's, or not in the key: an owner that does not store type bits knows of all entries together which [`OtherTypes`] there are |
//! | 255 | not in the key: the row has to be fetched |

use bson::RawDocument;

use super::definition::{IndexDef, MAX_KEY_PARTS};
use crate::doc::key_decode::decode;
use crate::doc::{Doc, Value};

const DEFAULT: u8 = 0;
const INT64: u8 = 1;
const DOUBLE: u8 = 2;
const SYMBOL: u8 = 3;
const MISSING: u8 = 4;
/// The row has to be fetched.
pub const FETCH: u8 = 255;

/// Type bits of entries of which some may have other types than their keys tell; the flags of [`OtherTypes`] are added.
const MIXED: u8 = 128;

/// Which values of an index have other types than their keys tell, for an owner that does not store type bits: where no value of
/// a kind has, keys tell the types of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OtherTypes(u8);

impl OtherTypes {
    /// None.
    pub const NONE: OtherTypes = OtherTypes(0);
    const NUMBER: u8 = 1;
    const STRING: u8 = 2;
    const MISSING: u8 = 4;
    const ALL: u8 = 7;

    /// Those among the values of one key, by its type bits as [`IndexDef::single`] makes them.
    pub fn of_key(type_bits: &[u8]) -> OtherTypes {
        let flag = |bits: &u8| match *bits {
            DEFAULT => 0,
            SYMBOL => OtherTypes::STRING,
            MISSING => OtherTypes::MISSING,
            // Not in the key whatever it is, unless it is a number.
            _ => OtherTypes::NUMBER,
        };
        OtherTypes(type_bits.iter().fold(0, |all, bits| all | flag(bits)))
    }

    /// As a number, below 8.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// That number as what it stands for.
    pub fn from_bits(bits: u8) -> OtherTypes {
        OtherTypes(bits & OtherTypes::ALL)
    }

    /// The type bits of every entry of an index with so many fields.
    pub fn type_bits(self, fields: usize) -> Vec<u8> {
        match self {
            OtherTypes::NONE => vec![DEFAULT],
            OtherTypes(flags) => vec![MIXED | flags; fields],
        }
    }

    /// Whether a value, decoded from a key of an entry with such type bits, may be another one.
    fn include(self, value: &Value<'_>) -> bool {
        let flag = match value {
            Value::String(_) => OtherTypes::STRING,
            Value::Null => OtherTypes::MISSING,
            value if value.is_number() => OtherTypes::NUMBER,
            _ => 0,
        };
        self.0 & flag != 0
    }
}

/// 2^63: above every 64-bit integer.
const LIMIT: f64 = 9_223_372_036_854_775_808.0;

fn is_whole(number: f64) -> bool {
    number.fract() == 0.0 && (-LIMIT..LIMIT).contains(&number)
}

/// The type bits of a value; `None` is a missing field.
pub fn type_bits_of(value: Option<Value<'_>>) -> u8 {
    match value {
        None => MISSING,
        Some(Value::Int64(number)) if i32::try_from(number).is_ok() => INT64,
        Some(Value::Double(number)) if number.is_nan() || number == 0.0 && number.is_sign_negative() => FETCH,
        Some(Value::Double(number)) if is_whole(number) => DOUBLE,
        Some(Value::Symbol(_)) => SYMBOL,
        Some(Value::Decimal(_) | Value::Document(_) | Value::Array(_) | Value::CodeScope(..)) => FETCH,
        Some(_) => DEFAULT,
    }
}

/// The type bits of a key, one byte for each field: without memory of their own, because each write has those of each index.
#[derive(Debug, Clone, Copy, Default)]
pub struct TypeBits {
    bytes: [u8; MAX_KEY_PARTS],
    count: usize,
}

impl TypeBits {
    /// Those of an entry.
    pub fn of(bytes: &[u8]) -> Self {
        let mut all = TypeBits::default();
        bytes.iter().for_each(|bits| all.push(*bits));
        all
    }

    /// Adds those of the next field.
    #[inline]
    pub(super) fn push(&mut self, bits: u8) {
        if let Some(slot) = self.bytes.get_mut(self.count) {
            *slot = bits;
            self.count += 1;
        }
    }

    /// As they are stored in an entry.
    #[inline]
    pub fn stored(&self) -> &[u8] {
        shortened(self.bytes.get(..self.count).unwrap_or_default())
    }
}

impl IndexDef {
    /// The type bits of the only entry of `doc`, which has no array on the index's paths.
    pub fn type_bits(&self, doc: &RawDocument) -> Vec<u8> {
        let doc = Doc::from(doc);
        let mut type_bits = TypeBits::default();
        self.keys.iter().for_each(|part| type_bits.push(type_bits_of(part.path.get(doc))));
        type_bits.stored().to_vec()
    }
}

/// `type_bits` as they are stored: a single zero if all are zero.
fn shortened(type_bits: &[u8]) -> &[u8] {
    match type_bits {
        [first, ..] if type_bits.iter().all(|bits| *bits == DEFAULT) => std::slice::from_ref(first),
        type_bits => type_bits,
    }
}

/// Decodes the value of a field of an entry from its encoding (not inverted) and the entry's type bits:
/// `Some(None)` if the field is missing, `None` if the row has to be fetched. `text` is a buffer for the
/// result.
pub(crate) fn restored<'v>(
    encoding: &'v [u8],
    type_bits: &[u8],
    part: usize,
    text: &'v mut Vec<u8>,
) -> Option<Option<Value<'v>>> {
    let bits = match type_bits {
        [DEFAULT] => DEFAULT,
        type_bits => *type_bits.get(part)?,
    };
    if bits == MISSING {
        return Some(None);
    }
    if bits == FETCH {
        return None;
    }
    let value = decode(encoding, text)?;
    let bits = match bits {
        MIXED.. if OtherTypes::from_bits(bits).include(&value) => return None,
        MIXED.. => DEFAULT,
        bits => bits,
    };
    Some(Some(match (value, bits) {
        (Value::Double(number), DEFAULT) if is_whole(number) => {
            let whole = number as i64;
            i32::try_from(whole).map_or(Value::Int64(whole), Value::Int32)
        }
        (value @ Value::Double(_), DEFAULT | DOUBLE) => value,
        (Value::Double(number), INT64) if is_whole(number) => Value::Int64(number as i64),
        (Value::String(text), SYMBOL) => Value::Symbol(text),
        (value, DEFAULT) if !value.is_number() => value,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use treedb_testing::{Rng, random_document};

    use super::*;
    use crate::doc::key::encode_value;
    use bson::rawdoc;

    #[test]
    fn a_value_is_restored_exactly_or_has_to_be_fetched() {
        let mut rng = Rng::new(5);
        let (mut found, mut fetched, mut text) = (0, 0, Vec::new());
        let more = [
            Value::Double(0.0),
            Value::Double(-0.0),
            Value::Double(1e300),
            Value::Double(LIMIT),
            Value::Double(-1.5),
            Value::Double(f64::INFINITY),
            Value::Int64(i64::MIN),
            Value::Int64(i64::MAX),
            Value::Int64(1 << 53),
            Value::Int64(-5),
            Value::Int32(i32::MIN),
            Value::Int64(i64::from(i32::MAX) + 1),
        ];
        let docs: Vec<_> = (0..300).map(|_| random_document(&mut rng, 2)).collect();
        let values = docs.iter().flat_map(|doc| Doc::from(doc).elements().map(|element| element.value()));
        for value in values.chain(more) {
            let mut key = Vec::new();
            encode_value(value, &mut key);
            match restored(&key, &[type_bits_of(Some(value))], 0, &mut text) {
                Some(restored) => {
                    assert_eq!(restored, Some(value));
                    found += 1;
                }
                None => fetched += 1,
            }
        }
        assert!(found > 300 && fetched > 100, "{found} {fetched}");
    }

    #[test]
    fn keys_tell_the_types_of_all_kinds_of_which_no_value_has_another_one() {
        let mut rng = Rng::new(7);
        let mut text = Vec::new();
        for round in 0..200 {
            let docs: Vec<_> = (0..1 + round % 5).map(|_| random_document(&mut rng, 2)).collect();
            let mut values: Vec<Option<Value<'_>>> = docs
                .iter()
                .flat_map(|doc| Doc::from(doc).elements().map(|element| Some(element.value())))
                .collect();
            values.extend((round % 3 == 0).then_some(None));
            let all =
                values.iter().fold(0, |all, value| all | OtherTypes::of_key(&[type_bits_of(*value)]).bits());
            let all = OtherTypes::from_bits(all);
            for value in &values {
                let mut key = Vec::new();
                encode_value(value.unwrap_or(Value::Null), &mut key);
                let restored = restored(&key, &all.type_bits(1), 0, &mut text);
                assert!(restored.is_none_or(|restored| restored == *value), "{value:?} {all:?} {restored:?}");
                let plain = matches!(value, Some(Value::Bool(_) | Value::ObjectId(_) | Value::Date(_)));
                assert!(!plain || restored.is_some(), "{value:?} {all:?}");
            }
        }
        let two = [Value::Int32(5), Value::String(b"x")].map(|value| {
            let mut key = Vec::new();
            encode_value(value, &mut key);
            key
        });
        let bits = OtherTypes::of_key(&[DOUBLE, MISSING]).type_bits(2);
        assert_eq!(restored(&two[0], &bits, 0, &mut text), None);
        assert_eq!(restored(&two[1], &bits, 1, &mut text), Some(Some(Value::String(b"x"))));
        assert_eq!(
            restored(&two[0], &OtherTypes::of_key(&[DEFAULT]).type_bits(2), 1, &mut text),
            Some(Some(Value::Int32(5)))
        );
    }

    #[test]
    fn a_missing_field_is_distinguished_from_null_by_type_bits_only() {
        let def = IndexDef::parse(&rawdoc! { "a": 1, "b": 1 }, None, false).unwrap();
        assert_eq!(def.type_bits(&rawdoc! { "a": 1, "b": "x" }), [DEFAULT]);
        assert_eq!(def.type_bits(&rawdoc! { "a": 1.0 }), [DOUBLE, MISSING]);
        let (mut null, mut text) = (Vec::new(), Vec::new());
        encode_value(Value::Null, &mut null);
        assert_eq!(restored(&null, &[DOUBLE, MISSING], 1, &mut text), Some(None));
        assert_eq!(restored(&null, &[DEFAULT], 1, &mut text), Some(Some(Value::Null)));
        assert_eq!(restored(&null, &[], 1, &mut text), None);
    }
}
