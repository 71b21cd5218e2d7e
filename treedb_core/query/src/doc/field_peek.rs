//! [`FieldPeek`]: the value of one field, read before the document is decoded.

use super::template::Fields;
use super::value::{Doc, Value};

/// What is known of a field without decoding its document.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FieldPeek<'r> {
    /// Its value, which is neither an array nor a document.
    Value(Value<'r>),
    /// The field is missing.
    Missing,
    /// Unknown: the document has to be decoded.
    Unknown,
}

impl<'r> FieldPeek<'r> {
    /// Looks up the only field of `fields` in a document.
    pub fn at(doc: Doc<'r>, fields: &Fields) -> FieldPeek<'r> {
        match fields.only() {
            Some(name) => doc.find(name).map_or(FieldPeek::Missing, |element| FieldPeek::of(element.value())),
            None => FieldPeek::Unknown,
        }
    }

    /// What a value tells.
    pub(crate) fn of(value: Value<'r>) -> FieldPeek<'r> {
        match value {
            Value::Array(_) | Value::Document(_) => FieldPeek::Unknown,
            value => FieldPeek::Value(value),
        }
    }
}
