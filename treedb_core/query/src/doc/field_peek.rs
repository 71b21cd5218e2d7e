//! A look at one field of a document, taken before anything of it is decoded.

use super::template::Fields;
use super::value::{Doc, Value};

/// What a glance says of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FieldPeek<'r> {
    /// This value, which is no array and no document.
    Value(Value<'r>),
    /// It is not there.
    Missing,
    /// Not enough: the document has to be decoded.
    Unknown,
}

impl<'r> FieldPeek<'r> {
    /// At the only one of `fields` in a document.
    pub fn at(doc: Doc<'r>, fields: &Fields) -> FieldPeek<'r> {
        match fields.only() {
            Some(name) => doc.find(name).map_or(FieldPeek::Missing, |element| FieldPeek::of(element.value())),
            None => FieldPeek::Unknown,
        }
    }

    /// At a value.
    pub(crate) fn of(value: Value<'r>) -> FieldPeek<'r> {
        match value {
            Value::Array(_) | Value::Document(_) => FieldPeek::Unknown,
            value => FieldPeek::Value(value),
        }
    }
}
