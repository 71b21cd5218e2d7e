//! A zero-copy view of BSON bytes that cannot panic.
//!
//! [`Doc`] walks the elements of a document or array, [`Value`] is one decoded value. Strings and names stay bytes: they
//! are compared, copied and encoded far more often than displayed. The bytes are expected to be valid
//! ([`super::validate`]); on others a walk ends early.

use bson::raw::RawBsonRef;
use bson::{RawDocument, RawDocumentBuf};

/// The element types of BSON, as their byte in a document.
pub(crate) mod kind {
    pub(crate) const DOUBLE: u8 = 0x01;
    pub(crate) const STRING: u8 = 0x02;
    pub(crate) const DOCUMENT: u8 = 0x03;
    pub(crate) const ARRAY: u8 = 0x04;
    pub(crate) const BINARY: u8 = 0x05;
    pub(crate) const UNDEFINED: u8 = 0x06;
    pub(crate) const OBJECT_ID: u8 = 0x07;
    pub(crate) const BOOL: u8 = 0x08;
    pub(crate) const DATE: u8 = 0x09;
    pub(crate) const NULL: u8 = 0x0a;
    pub(crate) const REGEX: u8 = 0x0b;
    pub(crate) const DB_POINTER: u8 = 0x0c;
    pub(crate) const CODE: u8 = 0x0d;
    pub(crate) const SYMBOL: u8 = 0x0e;
    pub(crate) const CODE_SCOPE: u8 = 0x0f;
    pub(crate) const INT32: u8 = 0x10;
    pub(crate) const TIMESTAMP: u8 = 0x11;
    pub(crate) const INT64: u8 = 0x12;
    pub(crate) const DECIMAL: u8 = 0x13;
    pub(crate) const MAX_KEY: u8 = 0x7f;
    pub(crate) const MIN_KEY: u8 = 0xff;
}

/// One BSON value, decoded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// 64-bit floating point.
    Double(f64),
    /// UTF-8 string.
    String(&'a [u8]),
    /// Embedded document.
    Document(Doc<'a>),
    /// Array: a document whose names do not count.
    Array(Doc<'a>),
    /// Binary data: subtype and bytes.
    Binary(u8, &'a [u8]),
    /// Deprecated, but still found.
    Undefined,
    /// 12-byte id.
    ObjectId(&'a [u8; 12]),
    /// True or false.
    Bool(bool),
    /// Milliseconds since 1970.
    Date(i64),
    /// Null.
    Null,
    /// Regular expression: pattern and options.
    Regex(&'a [u8], &'a [u8]),
    /// Deprecated: namespace and id.
    DbPointer(&'a [u8], &'a [u8; 12]),
    /// JavaScript.
    Code(&'a [u8]),
    /// Deprecated; equal to a string in every comparison.
    Symbol(&'a [u8]),
    /// JavaScript with its scope.
    CodeScope(&'a [u8], Doc<'a>),
    /// 32-bit integer.
    Int32(i32),
    /// MongoDB's internal timestamp: seconds in the upper half, increment in the lower.
    Timestamp(u64),
    /// 64-bit integer.
    Int64(i64),
    /// 128-bit decimal, as stored (binary integer encoding, little endian).
    Decimal([u8; 16]),
    /// Before everything.
    MinKey,
    /// After everything.
    MaxKey,
}

/// The elements of a document or an array.
#[derive(Clone, Copy, PartialEq)]
pub struct Doc<'a>(&'a [u8]);

/// One element: name, type byte and the bytes of the value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Element<'a> {
    /// Field name, or position in an array.
    pub name: &'a [u8],
    /// Type byte of the BSON specification.
    pub kind: u8,
    /// The value's bytes, without type and name.
    pub bytes: &'a [u8],
}

impl std::fmt::Debug for Doc<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", super::display::DisplayValue(Value::Document(*self)))
    }
}

impl<'a> From<&'a RawDocument> for Doc<'a> {
    fn from(raw: &'a RawDocument) -> Self {
        Doc(raw.as_bytes())
    }
}

impl<'a> From<&'a RawDocumentBuf> for Doc<'a> {
    fn from(raw: &'a RawDocumentBuf) -> Self {
        Doc(raw.as_bytes())
    }
}

/// An empty document's bytes.
const EMPTY: [u8; 5] = [5, 0, 0, 0, 0];

impl<'a> Doc<'a> {
    /// The document without fields.
    pub const EMPTY: Doc<'static> = Doc(&EMPTY);

    /// A view of `bytes`, which hold one document or array, length first.
    pub fn new(bytes: &'a [u8]) -> Self {
        Doc(bytes)
    }

    /// The whole document's bytes.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The elements, in order.
    pub fn elements(self) -> Elements<'a> {
        Elements { rest: self.0.get(4..).unwrap_or_default() }
    }

    /// The first element, if its name begins with `$`: the operator of an expression or an update.
    pub fn operator(self) -> Option<Element<'a>> {
        self.elements().next().filter(|first| first.name.starts_with(b"$"))
    }

    /// True if there is no element.
    pub fn is_empty(self) -> bool {
        self.0.len() <= 5
    }

    /// The value of the first field of that name.
    pub fn get(self, name: &str) -> Option<Value<'a>> {
        self.find(name.as_bytes()).map(|element| element.value())
    }

    /// The first element of that name.
    pub fn find(self, name: &[u8]) -> Option<Element<'a>> {
        // Most names differ in their length or first byte: few are compared.
        let first = name.first();
        self.elements().find(|element| element.name.first() == first && element.name == name)
    }

    /// The element at `position` of an array.
    pub fn at(self, position: usize) -> Option<Element<'a>> {
        self.elements().nth(position)
    }
}

/// Iterator over the elements of a [`Doc`].
#[derive(Debug, Clone)]
pub struct Elements<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        let (&kind, rest) = self.rest.split_first()?;
        if kind == 0 {
            return None;
        }
        let (name, rest) = split_name(rest)?;
        let (bytes, rest) = rest.split_at_checked(value_len(kind, rest)?)?;
        self.rest = rest;
        Some(Element { name, kind, bytes })
    }
}

/// The bytes before the first NUL and those after it; `None` if there is none.
#[inline]
fn split_name(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (end, _) = name_end(bytes)?;
    Some((bytes.get(..end)?, bytes.get(end + 1..)?))
}

/// Where the first NUL is, and whether all bytes before it are ASCII; `None` if there is none.
#[inline]
pub(super) fn name_end(bytes: &[u8]) -> Option<(usize, bool)> {
    const LOW: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = u64::from_le_bytes([0x80; 8]);
    // Most names are shorter than a word: one look at eight bytes finds their end.
    if let Some(word) = bytes.first_chunk() {
        let word = u64::from_le_bytes(*word);
        // The lowest bit is that of the first 0: those above it may be of bytes that a borrow has reached.
        let zeros = word.wrapping_sub(LOW) & !word & HIGH;
        if zeros != 0 {
            let before = (zeros & zeros.wrapping_neg()) - 1;
            return Some((zeros.trailing_zeros() as usize / 8, word & before & HIGH == 0));
        }
    }
    let mut high = 0;
    let end = bytes.iter().position(|&byte| {
        high |= byte;
        byte == 0
    })?;
    Some((end, high.is_ascii()))
}

/// Bytes taken by a value of type `kind` at the start of `bytes`; `None` if it does not fit or the type is unknown.
#[inline]
pub(crate) fn value_len(kind: u8, bytes: &[u8]) -> Option<usize> {
    let prefixed = |extra: usize| length(bytes)?.checked_add(extra);
    let len = match kind {
        kind::NULL | kind::UNDEFINED | kind::MIN_KEY | kind::MAX_KEY => 0,
        kind::BOOL => 1,
        kind::INT32 => 4,
        kind::DOUBLE | kind::DATE | kind::TIMESTAMP | kind::INT64 => 8,
        kind::OBJECT_ID => 12,
        kind::DECIMAL => 16,
        kind::STRING | kind::CODE | kind::SYMBOL => prefixed(4)?,
        kind::DOCUMENT | kind::ARRAY | kind::CODE_SCOPE => prefixed(0)?,
        kind::BINARY => prefixed(5)?,
        kind::DB_POINTER => prefixed(16)?,
        kind::REGEX => {
            let pattern = bytes.iter().position(|&byte| byte == 0)?;
            pattern + 2 + bytes.get(pattern + 1..)?.iter().position(|&byte| byte == 0)?
        }
        _ => return None,
    };
    (len <= bytes.len()).then_some(len)
}

/// The non-negative little-endian i32 at the start of `bytes`.
pub(crate) fn length(bytes: &[u8]) -> Option<usize> {
    usize::try_from(i32::from_le_bytes(*bytes.first_chunk()?)).ok()
}

/// A length-prefixed string at the start of `bytes`, without its closing NUL.
fn string(bytes: &[u8]) -> Option<&[u8]> {
    bytes.get(4..4 + length(bytes)?.checked_sub(1)?)
}

impl<'a> Element<'a> {
    /// The name as text.
    pub fn name_str(&self) -> &'a str {
        std::str::from_utf8(self.name).unwrap_or("\u{fffd}")
    }

    /// The value, decoded. Bytes that were not validated may give [`Value::Undefined`].
    #[inline]
    pub fn value(&self) -> Value<'a> {
        decode(self.kind, self.bytes).unwrap_or(Value::Undefined)
    }
}

#[inline]
fn decode(kind: u8, bytes: &[u8]) -> Option<Value<'_>> {
    Some(match kind {
        kind::DOUBLE => Value::Double(f64::from_le_bytes(*bytes.first_chunk()?)),
        kind::STRING => Value::String(string(bytes)?),
        kind::DOCUMENT => Value::Document(Doc(bytes)),
        kind::ARRAY => Value::Array(Doc(bytes)),
        kind::BINARY => {
            let (subtype, data) = (*bytes.get(4)?, bytes.get(5..)?);
            // The old subtype repeats its length inside.
            if subtype == 2 { Value::Binary(subtype, data.get(4..)?) } else { Value::Binary(subtype, data) }
        }
        kind::UNDEFINED => Value::Undefined,
        kind::OBJECT_ID => Value::ObjectId(bytes.first_chunk()?),
        kind::BOOL => Value::Bool(*bytes.first()? != 0),
        kind::DATE => Value::Date(i64::from_le_bytes(*bytes.first_chunk()?)),
        kind::NULL => Value::Null,
        kind::REGEX => {
            let mut parts = bytes.split(|&byte| byte == 0);
            Value::Regex(parts.next()?, parts.next()?)
        }
        kind::DB_POINTER => Value::DbPointer(string(bytes)?, bytes.last_chunk()?),
        kind::CODE => Value::Code(string(bytes)?),
        kind::SYMBOL => Value::Symbol(string(bytes)?),
        kind::CODE_SCOPE => {
            let code = string(bytes.get(4..)?)?;
            Value::CodeScope(code, Doc(bytes.get(9 + code.len()..)?))
        }
        kind::INT32 => Value::Int32(i32::from_le_bytes(*bytes.first_chunk()?)),
        kind::TIMESTAMP => Value::Timestamp(u64::from_le_bytes(*bytes.first_chunk()?)),
        kind::INT64 => Value::Int64(i64::from_le_bytes(*bytes.first_chunk()?)),
        kind::DECIMAL => Value::Decimal(*bytes.first_chunk()?),
        kind::MIN_KEY => Value::MinKey,
        kind::MAX_KEY => Value::MaxKey,
        _ => return None,
    })
}

impl<'a> Value<'a> {
    /// Calls `with` with the value that `raw` stands for. (A callback, because one deprecated type hides its
    /// fields and has to be written out to be read.)
    pub fn with<T>(raw: RawBsonRef<'_>, with: impl FnOnce(Value<'_>) -> T) -> T {
        let oid;
        let value = match raw {
            RawBsonRef::Double(v) => Value::Double(v),
            RawBsonRef::String(v) => Value::String(v.as_bytes()),
            RawBsonRef::Array(v) => Value::Array(Doc(v.as_bytes())),
            RawBsonRef::Document(v) => Value::Document(v.into()),
            RawBsonRef::Boolean(v) => Value::Bool(v),
            RawBsonRef::Null => Value::Null,
            RawBsonRef::RegularExpression(v) => {
                Value::Regex(v.pattern.as_str().as_bytes(), v.options.as_str().as_bytes())
            }
            RawBsonRef::JavaScriptCode(v) => Value::Code(v.as_bytes()),
            RawBsonRef::JavaScriptCodeWithScope(v) => Value::CodeScope(v.code.as_bytes(), v.scope.into()),
            RawBsonRef::Int32(v) => Value::Int32(v),
            RawBsonRef::Int64(v) => Value::Int64(v),
            RawBsonRef::Timestamp(v) => Value::Timestamp(u64::from(v.time) << 32 | u64::from(v.increment)),
            RawBsonRef::Binary(v) => Value::Binary(u8::from(v.subtype), v.bytes),
            RawBsonRef::ObjectId(v) => {
                oid = v.bytes();
                Value::ObjectId(&oid)
            }
            RawBsonRef::DateTime(v) => Value::Date(v.timestamp_millis()),
            RawBsonRef::Symbol(v) => Value::Symbol(v.as_bytes()),
            RawBsonRef::Decimal128(v) => Value::Decimal(v.bytes()),
            RawBsonRef::Undefined => Value::Undefined,
            RawBsonRef::MaxKey => Value::MaxKey,
            RawBsonRef::MinKey => Value::MinKey,
            RawBsonRef::DbPointer(_) => {
                let mut holder = RawDocumentBuf::new();
                holder.append(bson::raw::cstr!(""), raw);
                return with(Doc::from(&holder).get("").unwrap_or(Value::Undefined));
            }
        };
        with(value)
    }

    /// The type's name as error messages give it: `int`, `objectId`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Double(_) => "double",
            Value::String(_) => "string",
            Value::Document(_) => "object",
            Value::Array(_) => "array",
            Value::Binary(..) => "binData",
            Value::Undefined => "undefined",
            Value::ObjectId(_) => "objectId",
            Value::Bool(_) => "bool",
            Value::Date(_) => "date",
            Value::Null => "null",
            Value::Regex(..) => "regex",
            Value::DbPointer(..) => "dbPointer",
            Value::Code(_) => "javascript",
            Value::Symbol(_) => "symbol",
            Value::CodeScope(..) => "javascriptWithScope",
            Value::Int32(_) => "int",
            Value::Timestamp(_) => "timestamp",
            Value::Int64(_) => "long",
            Value::Decimal(_) => "decimal",
            Value::MinKey => "minKey",
            Value::MaxKey => "maxKey",
        }
    }

    /// True for the four kinds of number.
    pub fn is_number(&self) -> bool {
        matches!(self, Value::Double(_) | Value::Int32(_) | Value::Int64(_) | Value::Decimal(_))
    }

    /// Whether the value counts as true where an option is a yes or no: numbers other than zero, `true`, and
    /// everything that is not null.
    pub fn truthy(&self) -> bool {
        match self {
            Value::Bool(value) => *value,
            Value::Null | Value::Undefined => false,
            Value::Double(value) => *value != 0.0,
            Value::Int32(value) => *value != 0,
            Value::Int64(value) => *value != 0,
            Value::Decimal(_) => super::compare::compare(*self, Value::Int32(0)).is_ne(),
            _ => true,
        }
    }

    /// The number as an integer, if it is one and fits.
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Value::Int32(value) => Some(i64::from(*value)),
            Value::Int64(value) => Some(*value),
            Value::Double(value) if value.fract() == 0.0 && value.abs() < 9.2e18 => Some(*value as i64),
            Value::Decimal(bytes) => super::number::Decimal::new(*bytes).as_integer(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use treedb_testing::Rng;

    use super::*;

    #[test]
    fn a_name_ends_at_its_first_nul_whatever_is_around_it() {
        let (mut rng, mut ended) = (Rng::new(3), 0);
        for _ in 0..20_000 {
            // Bytes that differ from 0 in one bit, and those that a borrow from above could change.
            let bytes: Vec<u8> =
                (0..rng.below(20)).map(|_| [0, 1, 0x7f, 0x80, 0x81, 0xff, b'a'][rng.below(7)]).collect();
            let expected = bytes.iter().position(|&byte| byte == 0);
            let found = split_name(&bytes);
            assert_eq!(found, expected.map(|end| (&bytes[..end], &bytes[end + 1..])), "{bytes:?}");
            assert_eq!(name_end(&bytes), expected.map(|end| (end, bytes[..end].is_ascii())), "{bytes:?}");
            ended += usize::from(found.is_some());
        }
        assert!(ended > 10_000 && ended < 19_000, "{ended}");
    }
}
