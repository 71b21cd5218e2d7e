//! Values in the notation of MongoDB's shell, for error messages and `explain`: `{ a: 5, name: "x" }`.

use std::fmt::{Display, Formatter, Result};

use super::value::{Doc, Value};

/// Shows a value; long ones are cut.
pub(crate) struct DisplayValue<'a>(pub(crate) Value<'a>);

/// Longest string shown in full.
const LONGEST: usize = 200;

impl Display for DisplayValue<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0 {
            Value::Double(value) if value.is_nan() => write!(f, "nan"),
            Value::Double(value) if value.is_infinite() => {
                write!(f, "{}inf", if value < 0.0 { "-" } else { "" })
            }
            Value::Double(value) if value.fract() == 0.0 && value.abs() < 1e15 => write!(f, "{value:.1}"),
            Value::Double(value) => write!(f, "{value}"),
            Value::String(text) | Value::Symbol(text) => quoted(text, f),
            Value::Document(doc) => fields(doc, f),
            Value::Array(doc) => {
                write!(f, "[")?;
                for (at, element) in doc.elements().enumerate() {
                    write!(f, "{}{}", if at == 0 { " " } else { ", " }, DisplayValue(element.value()))?;
                }
                write!(f, " ]")
            }
            Value::Binary(subtype, bytes) => {
                write!(f, "BinData({subtype}, ")?;
                hex(bytes, f)?;
                write!(f, ")")
            }
            Value::Undefined => write!(f, "undefined"),
            Value::ObjectId(id) => {
                write!(f, "ObjectId('")?;
                hex(id, f)?;
                write!(f, "')")
            }
            Value::Bool(value) => write!(f, "{value}"),
            Value::Date(millis) => write!(f, "new Date({millis})"),
            Value::Null => write!(f, "null"),
            Value::Regex(pattern, options) => {
                write!(f, "/{}/{}", String::from_utf8_lossy(pattern), String::from_utf8_lossy(options))
            }
            Value::DbPointer(namespace, id) => {
                write!(f, "DBPointer(")?;
                quoted(namespace, f)?;
                write!(f, ", {})", DisplayValue(Value::ObjectId(id)))
            }
            Value::Code(code) | Value::CodeScope(code, _) => {
                write!(f, "Code(")?;
                quoted(code, f)?;
                write!(f, ")")
            }
            Value::Int32(value) => write!(f, "{value}"),
            Value::Timestamp(bits) => write!(f, "Timestamp({}, {})", bits >> 32, bits as u32),
            Value::Int64(value) => write!(f, "{value}"),
            Value::Decimal(bytes) => write!(f, "{}", bson::Decimal128::from_bytes(bytes)),
            Value::MinKey => write!(f, "MinKey"),
            Value::MaxKey => write!(f, "MaxKey"),
        }
    }
}

fn fields(doc: Doc<'_>, f: &mut Formatter<'_>) -> Result {
    if doc.is_empty() {
        return write!(f, "{{}}");
    }
    write!(f, "{{")?;
    for (at, element) in doc.elements().enumerate() {
        write!(
            f,
            "{}{}: {}",
            if at == 0 { " " } else { ", " },
            element.name_str(),
            DisplayValue(element.value())
        )?;
    }
    write!(f, " }}")
}

fn quoted(text: &[u8], f: &mut Formatter<'_>) -> Result {
    let text = String::from_utf8_lossy(text);
    match text.char_indices().nth(LONGEST) {
        Some((cut, _)) => write!(f, "\"{}...\"", text.get(..cut).unwrap_or_default()),
        None => write!(f, "\"{text}\""),
    }
}

fn hex(bytes: &[u8], f: &mut Formatter<'_>) -> Result {
    for byte in bytes.iter().take(LONGEST) {
        write!(f, "{byte:02x}")?;
    }
    if bytes.len() > LONGEST { write!(f, "...") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn documents_are_shown_as_the_shell_shows_them() {
        let id = bson::oid::ObjectId::parse_str("64b7f8a2c3d4e5f6a7b8c9d0").unwrap();
        let doc = rawdoc! { "_id": id, "a": { "b": [1, 2.0, "x"] }, "c": null, "d": {} };
        assert_eq!(
            DisplayValue(Value::Document((&doc).into())).to_string(),
            "{ _id: ObjectId('64b7f8a2c3d4e5f6a7b8c9d0'), a: { b: [ 1, 2.0, \"x\" ] }, c: null, d: {} }"
        );
    }
}
