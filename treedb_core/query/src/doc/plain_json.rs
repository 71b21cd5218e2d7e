//! Plain JSON to BSON in one pass, without a tree of values between them.
//!
//! Plain is JSON without the objects that stand for types that JSON lacks (`{"$oid": ".."}`), without names that occur
//! twice in an object, and within the limits of a document. Of other text, wrong text included, nothing is said: the
//! caller reads it in the general way, whose answers and errors count.

use std::borrow::Cow;
use std::fmt;

use bson::RawDocumentBuf;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::validate::{MAX_DEPTH, MAX_DOCUMENT_SIZE};
use super::value::Value;
use super::write::{Name, Writer};

/// The names by which the general way recognises extended types. Operators of filters begin with `$` too.
const EXTENDED: [&str; 16] = [
    "$oid",
    "$symbol",
    "$regularExpression",
    "$numberInt",
    "$numberLong",
    "$numberDouble",
    "$numberDecimal",
    "$binary",
    "$uuid",
    "$code",
    "$timestamp",
    "$date",
    "$minKey",
    "$maxKey",
    "$dbPointer",
    "$undefined",
];

/// The document that `text` is, if it is plain.
pub(super) fn read(text: &str) -> Option<RawDocumentBuf> {
    let document = one_field(text.as_bytes()).or_else(|| fields(text))?;
    (document.as_bytes().len() <= MAX_DOCUMENT_SIZE).then_some(document)
}

/// The same of an object with one field, a whole number or a string, as filters of look-ups are: read without the parser for
/// any JSON, which is so much code that a query that does little else has to wait for it. Of other text nothing is said.
fn one_field(text: &[u8]) -> Option<RawDocumentBuf> {
    let (name, rest) = quoted(after(text, b'{')?)?;
    if name.starts_with(b"$") {
        return None;
    }
    let rest = after(rest, b':')?;
    let (value, rest) = match quoted(rest) {
        Some((string, rest)) => (Value::String(string), rest),
        None => whole_number(without_blanks(rest))?,
    };
    if !without_blanks(after(rest, b'}')?).is_empty() {
        return None;
    }
    let mut writer = Writer::new(text.len() + 16);
    writer.value(name, value);
    Some(writer.finish())
}

/// `text` from the first byte on that is no white space.
fn without_blanks(text: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
    text.get(text.iter().take_while(|byte| blank(byte)).count()..).unwrap_or_default()
}

/// What comes after `byte`, if `text` begins with it after white space.
fn after(text: &[u8], byte: u8) -> Option<&[u8]> {
    match without_blanks(text) {
        [first, rest @ ..] if *first == byte => Some(rest),
        _ => None,
    }
}

/// The string without escapes that `text` begins with after white space, and what comes after it.
fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = after(text, b'"')?;
    let end = text.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..0x20))?;
    let (string, rest) = text.split_at_checked(end)?;
    Some((string, rest.strip_prefix(b"\"")?))
}

/// The whole number that `text` begins with, and what comes after its digits.
fn whole_number(text: &[u8]) -> Option<(Value<'static>, &[u8])> {
    /// So many digits are in 64 bits.
    const MOST_DIGITS: usize = 18;
    let (negative, text) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at_checked(count)?;
    // -0 is a double, and no other number begins with 0.
    if count == 0 || count > MOST_DIGITS || digits.starts_with(b"0") && (negative || count > 1) {
        return None;
    }
    let value = digits.iter().fold(0_i64, |value, digit| value * 10 + i64::from(digit - b'0'));
    Some((whole(if negative { -value } else { value }), rest))
}

/// A whole number in the smallest type that it fits into.
fn whole(value: i64) -> Value<'static> {
    i32::try_from(value).map_or(Value::Int64(value), Value::Int32)
}

/// The same of any object.
fn fields(text: &str) -> Option<RawDocumentBuf> {
    let mut writer = Writer::new(text.len() + 16);
    let mut names = Vec::new();
    let mut json = serde_json::Deserializer::from_str(text);
    json.deserialize_map(Fields { writer: &mut writer, names: &mut names, depth: 1 }).ok()?;
    json.end().ok()?;
    Some(writer.finish())
}

/// Writes the fields of an object into the open document.
struct Fields<'w, 'de> {
    writer: &'w mut Writer,
    /// The names so far in this object, after those of the objects around it.
    names: &'w mut Vec<Cow<'de, str>>,
    /// How deep the document is nested, 1 for the outermost.
    depth: usize,
}

/// Writes a value into the open document, under a name.
struct Field<'w, 'de, 'n> {
    fields: Fields<'w, 'de>,
    name: &'n [u8],
}

/// A name, borrowed from the text unless it has escapes.
struct FieldName;

/// Ends the reading.
fn not_plain<E: Error>() -> E {
    E::custom("not plain JSON")
}

/// Whether a name occurs twice. Few are compared with each other, many are sorted.
fn repeats(names: &mut [Cow<'_, str>]) -> bool {
    const FEW: usize = 16;
    if names.len() > FEW {
        names.sort_unstable();
        return names.windows(2).any(|pair| matches!(pair, [a, b] if a == b));
    }
    (1..names.len()).any(|at| {
        let (before, rest) = names.split_at(at);
        rest.first().is_some_and(|name| before.contains(name))
    })
}

impl<'de> Visitor<'de> for Fields<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        let Fields { writer, names, depth } = self;
        let own = names.len();
        while let Some(name) = object.next_key_seed(FieldName)? {
            if name.starts_with('$') && EXTENDED.contains(&&*name) || name.as_bytes().contains(&0) {
                return Err(not_plain());
            }
            let fields = Fields { writer: &mut *writer, names: &mut *names, depth };
            object.next_value_seed(Field { fields, name: name.as_bytes() })?;
            names.push(name);
        }
        if names.get_mut(own..).is_some_and(repeats) {
            return Err(not_plain());
        }
        names.truncate(own);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Field<'_, 'de, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Field<'_, 'de, '_> {
    fn put<E>(self, value: Value<'_>) -> Result<(), E> {
        self.fields.writer.value(self.name, value);
        Ok(())
    }
}

impl<'de> Visitor<'de> for Field<'_, 'de, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.put(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.put(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.put(whole(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => self.put(Value::Double(value as f64)),
        }
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.put(Value::Double(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.put(Value::String(value.as_bytes()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<(), A::Error> {
        let Field { fields: Fields { writer, names, depth }, name } = self;
        if depth >= MAX_DEPTH {
            return Err(not_plain());
        }
        let open = writer.open_array(name);
        let (mut position, mut name) = (0, Name::default());
        loop {
            let fields = Fields { writer: &mut *writer, names: &mut *names, depth: depth + 1 };
            if array.next_element_seed(Field { fields, name: name.of(position) })?.is_none() {
                break;
            }
            position += 1;
        }
        writer.close(open);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<(), A::Error> {
        let Field { fields: Fields { writer, names, depth }, name } = self;
        if depth >= MAX_DEPTH {
            return Err(not_plain());
        }
        let open = writer.open_document(name);
        Fields { writer: &mut *writer, names, depth: depth + 1 }.visit_map(object)?;
        writer.close(open);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for FieldName {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, name: D) -> Result<Self::Value, D::Error> {
        name.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for FieldName {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}
