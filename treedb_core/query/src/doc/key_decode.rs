//! Decodes keys ([`super::key`]): where the encodings in a compound key end, and the value of an encoding.
//!
//! Equal values have the same encoding: [`decode`] returns every number as a double, and a symbol as a
//! string. That is enough to evaluate a condition; to return the value, its type must be known from elsewhere
//! (the type bits of an index entry).

use super::compare::class;
use super::key::{FALSE, NAN, NEGATIVE, POSITIVE, TRUE, ZERO, invert};
use super::value::{Doc, Value};

/// The maximum nesting depth of documents and arrays in a key.
const MAX_NESTING: usize = 200;

/// A reader of encoded bytes, which are inverted for a descending field.
#[derive(Clone, Copy)]
struct Reader<'k> {
    bytes: &'k [u8],
    at: usize,
    mask: u8,
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)? ^ self.mask;
        self.at += 1;
        Some(byte)
    }

    fn skip(&mut self, count: usize) -> Option<()> {
        self.at = self.at.checked_add(count).filter(|at| *at <= self.bytes.len())?;
        Some(())
    }

    /// Moves past the next zero byte.
    fn text(&mut self) -> Option<()> {
        let mask = self.mask;
        self.at += self.bytes.get(self.at..)?.iter().position(|byte| *byte == mask)? + 1;
        Some(())
    }

    fn length(&mut self) -> Option<usize> {
        let mut length = 0_u32;
        for _ in 0..4 {
            length = length << 8 | u32::from(self.byte()?);
        }
        usize::try_from(length).ok()
    }

    fn number(&mut self, negative: bool) -> Option<()> {
        let mask = if negative { 0xff } else { 0 };
        for _ in 0..9 {
            if (self.byte()? ^ mask) & 1 == 0 {
                return Some(());
            }
        }
        self.skip(2)?;
        while (self.byte()? ^ mask) & 1 == 1 {}
        Some(())
    }

    fn fields(&mut self, depth: usize) -> Option<()> {
        while self.byte()? != 0 {
            self.text()?;
            self.value(depth)?;
        }
        Some(())
    }

    /// Moves past one encoded value.
    fn value(&mut self, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match self.byte()? {
            tag @ (NEGATIVE | POSITIVE) => self.number(tag == NEGATIVE),
            0x20 | 0x70 => self.text(),
            0x28 => self.fields(depth),
            0x30 => {
                // The tag of an element is never zero, so a zero byte ends the array.
                loop {
                    let mut ahead = *self;
                    if ahead.byte()? == 0 {
                        *self = ahead;
                        return Some(());
                    }
                    self.value(depth)?;
                }
            }
            0x38 => {
                let length = self.length()?;
                self.skip(length.checked_add(1)?)
            }
            0x40 => self.skip(12),
            0x50 | 0x58 => self.skip(8),
            0x60 => self.text().and_then(|()| self.text()),
            0x68 => {
                let length = self.length()?;
                self.skip(length.checked_add(12)?)
            }
            0x78 => self.text().and_then(|()| self.fields(depth)),
            0x02 | 0x04 | 0x06 | NAN | ZERO | FALSE | TRUE | 0xf0 => Some(()),
            _ => None,
        }
    }
}

/// The length of the encoding at the start of `bytes`; `inverted` if it is inverted. `None` if the bytes are
/// not an encoding.
pub(crate) fn encoded_length(bytes: &[u8], inverted: bool) -> Option<usize> {
    let mut reader = Reader { bytes, at: 0, mask: if inverted { 0xff } else { 0 } };
    reader.value(MAX_NESTING)?;
    Some(reader.at)
}

/// The type class ([`class`]) of the values with this (not inverted) encoding.
pub(crate) fn class_of(encoding: &[u8]) -> Option<u8> {
    Some(match *encoding.first()? {
        NAN | NEGATIVE | ZERO | POSITIVE => class(&Value::Int32(0)),
        FALSE | TRUE => class(&Value::Bool(true)),
        tag => tag,
    })
}

/// The value of an encoding; numbers are returned as doubles and symbols as strings. `text` is a buffer for
/// the result. `None` for documents, arrays and other rare types, and for numbers that are not exactly a
/// double.
pub(crate) fn decode<'v>(encoding: &'v [u8], text: &'v mut Vec<u8>) -> Option<Value<'v>> {
    let (&tag, rest) = encoding.split_first()?;
    Some(match tag {
        0x02 => Value::MinKey,
        0x04 => Value::Undefined,
        0x06 => Value::Null,
        0xf0 => Value::MaxKey,
        NAN => Value::Double(f64::NAN),
        ZERO => Value::Double(0.0),
        POSITIVE => Value::Double(double(rest)?),
        NEGATIVE => {
            text.clear();
            text.extend_from_slice(rest);
            invert(text);
            Value::Double(-double(text)?)
        }
        FALSE => Value::Bool(false),
        TRUE => Value::Bool(true),
        0x20 => Value::String(decode_text(rest, text)?),
        0x38 => {
            let (length, rest) = rest.split_first_chunk::<4>()?;
            let (&subtype, data) = rest.split_first()?;
            Value::Binary(subtype, data.get(..u32::from_be_bytes(*length) as usize)?)
        }
        0x40 => Value::ObjectId(rest.first_chunk()?),
        0x50 => Value::Date((u64::from_be_bytes(*rest.first_chunk()?) ^ 1 << 63).cast_signed()),
        0x58 => Value::Timestamp(u64::from_be_bytes(*rest.first_chunk()?)),
        0x60 => {
            let mut parts = rest.split(|byte| *byte == 0);
            Value::Regex(parts.next()?, parts.next()?)
        }
        0x70 => Value::Code(decode_text(rest, text)?),
        _ => return None,
    })
}

/// The magnitude in the bytes after a positive number's tag, if it is exactly a double.
fn double(bytes: &[u8]) -> Option<f64> {
    let mut bits = 0_u64;
    for (at, byte) in bytes.iter().enumerate().take(9) {
        bits |= u64::from(byte >> 1) << (56 - 7 * at);
        if byte & 1 == 0 {
            return Some(f64::from_bits(bits));
        }
    }
    None
}

/// The string in the bytes after a string's tag.
fn decode_text<'v>(bytes: &'v [u8], out: &'v mut Vec<u8>) -> Option<&'v [u8]> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    let bytes = bytes.get(..end)?;
    if !bytes.contains(&1) {
        return Some(bytes);
    }
    out.clear();
    let mut bytes = bytes.iter();
    while let Some(&byte) = bytes.next() {
        out.push(if byte == 1 { bytes.next()?.checked_sub(1)? } else { byte });
    }
    Some(out)
}

/// An array: for its type class.
pub(crate) const ARRAY: Value<'static> = Value::Array(Doc::EMPTY);

#[cfg(test)]
mod tests {
    use treedb_testing::{Rng, random_document};

    use super::*;
    use crate::doc::compare::compare;
    use crate::doc::key::encode_value;

    #[test]
    fn the_length_of_an_encoding_is_found_and_its_value_decodes_to_an_equal_one() {
        let mut rng = Rng::new(11);
        let (mut decoded, mut text) = (0, Vec::new());
        for _ in 0..400 {
            let doc = random_document(&mut rng, 3);
            let whole = Value::Document((&doc).into());
            for value in Doc::from(&doc).elements().map(|element| element.value()).chain([whole]) {
                let mut key = Vec::new();
                encode_value(value, &mut key);
                let length = key.len();
                key.extend_from_slice(&[0x20, b'x', 0]);
                assert_eq!(encoded_length(&key, false), Some(length), "{value:?}");
                assert_eq!(class_of(&key), Some(class(&value)));
                if let Some(found) = key.get(..length).and_then(|key| decode(key, &mut text)) {
                    assert!(compare(found, value).is_eq(), "{found:?} {value:?}");
                    decoded += 1;
                }
                invert(&mut key);
                assert_eq!(encoded_length(&key, true), Some(length), "{value:?}");
            }
        }
        assert!(decoded > 300, "{decoded}");
    }

    #[test]
    fn random_bytes_are_refused_without_a_panic() {
        let mut rng = Rng::new(12);
        let mut text = Vec::new();
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..rng.below(24)).map(|_| rng.next_u64() as u8).collect();
            for inverted in [false, true] {
                assert!(encoded_length(&bytes, inverted).is_none_or(|length| length <= bytes.len()));
            }
            let _ = decode(&bytes, &mut text);
        }
        assert_eq!(encoded_length(&[0x30; 1000], false), None);
    }
}
