//! Operators on documents.

use crate::doc::write::{ArrayWriter, Writer};
use crate::doc::{Doc, Value};
use crate::error::{ErrorCode, QueryError, Result};

use super::number::wrong_type;
use super::{Found, Scope, nullish};

/// The fields of `docs` as one document. Of fields with the same name the last value is kept, in the position
/// of the first.
pub(crate) fn merged<'d>(docs: &[Doc<'d>]) -> Writer {
    let mut names: Vec<(&[u8], Value<'d>)> = Vec::new();
    for doc in docs {
        for element in doc.elements() {
            match names.iter_mut().find(|(name, _)| *name == element.name) {
                Some((_, value)) => *value = element.value(),
                None => names.push((element.name, element.value())),
            }
        }
    }
    let mut out = Writer::new(64);
    for (name, value) in names {
        out.value(name, value);
    }
    out
}

pub(super) fn merge<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let mut docs = Vec::new();
    // The only operand may be an array of documents.
    let elements;
    let args = match args {
        [Some(Value::Array(array))] => {
            elements = array.elements().map(|element| Some(element.value())).collect::<Vec<_>>();
            elements.as_slice()
        }
        args => args,
    };
    for &arg in args {
        match arg {
            Some(Value::Document(doc)) => docs.push(doc),
            found if nullish(found) => {}
            found => {
                return Err(wrong_type("$mergeObjects requires object inputs, but input is of type", found));
            }
        }
    }
    scope.document(merged(&docs)).map(Some)
}

pub(super) fn to_array<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[Some(Value::Document(doc))] = args else {
        return Err(wrong_type(
            "$objectToArray requires a document input, found:",
            args.first().copied().flatten(),
        ));
    };
    let mut out = ArrayWriter::new();
    for element in doc.elements() {
        let mut pair = Writer::new(element.bytes.len() + 32);
        pair.value(b"k", Value::String(element.name));
        pair.put(b"v", &element);
        let bytes = pair.into_bytes();
        out.push(Value::Document(Doc::new(&bytes)));
    }
    scope.array(out).map(Some)
}

pub(super) fn from_array<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[Some(Value::Array(array))] = args else {
        return Err(wrong_type(
            "$arrayToObject requires an array input, found:",
            args.first().copied().flatten(),
        ));
    };
    let wrong = || {
        QueryError::new(
            ErrorCode::TypeMismatch,
            "$arrayToObject requires an array of [key, value] pairs or of documents with exactly the fields k and v; \
             the keys must be strings without zero bytes",
        )
    };
    let mut names: Vec<(&[u8], Value<'a>)> = Vec::new();
    for element in array.elements() {
        let (key, value) = match element.value() {
            Value::Array(pair) => {
                let mut items = pair.elements().map(|item| item.value());
                match (items.next(), items.next(), items.next()) {
                    (Some(key), Some(value), None) => (key, value),
                    _ => return Err(wrong()),
                }
            }
            Value::Document(pair) => match (pair.get("k"), pair.get("v"), pair.elements().count()) {
                (Some(key), Some(value), 2) => (key, value),
                _ => return Err(wrong()),
            },
            _ => return Err(wrong()),
        };
        let Value::String(key) = key else { return Err(wrong()) };
        if key.contains(&0) {
            return Err(wrong());
        }
        match names.iter_mut().find(|(name, _)| *name == key) {
            Some((_, earlier)) => *earlier = value,
            None => names.push((key, value)),
        }
    }
    let mut out = Writer::new(64);
    for (name, value) in names {
        out.value(name, value);
    }
    scope.document(out).map(Some)
}

fn field_name<'a>(operator: &str, found: Found<'a>) -> Result<&'a [u8]> {
    match found {
        Some(Value::String(name)) if !name.contains(&0) => Ok(name),
        found => Err(wrong_type(&format!("{operator} requires 'field' to be a string, but got"), found)),
    }
}

pub(super) fn get_field<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[field, input] = args else { return Ok(None) };
    let name = field_name("$getField", field)?;
    match input {
        Some(Value::MaxKey) => match scope.current {
            Value::Document(doc) => Ok(doc.find(name).map(|element| element.value())),
            _ => Ok(None),
        },
        Some(Value::Document(doc)) => Ok(doc.find(name).map(|element| element.value())),
        Some(Value::Null | Value::Undefined) => Ok(Some(Value::Null)),
        _ => Ok(None),
    }
}

fn with_field<'a>(
    scope: &Scope<'a>,
    operator: &str,
    field: Found<'a>,
    input: Found<'a>,
    value: Found<'a>,
) -> Result<Found<'a>> {
    let name = field_name(operator, field)?;
    let doc = match input {
        Some(Value::Document(doc)) => doc,
        found if nullish(found) => return Ok(Some(Value::Null)),
        found => {
            return Err(wrong_type(&format!("{operator} requires 'input' to be an object, found"), found));
        }
    };
    let mut out = Writer::new(doc.as_bytes().len() + 32);
    let mut replaced = false;
    for element in doc.elements() {
        if element.name != name {
            out.copy(&element);
        } else if let Some(value) = value {
            replaced = true;
            out.value(name, value);
        }
    }
    if let (false, Some(value)) = (replaced, value) {
        out.value(name, value);
    }
    scope.document(out).map(Some)
}

pub(super) fn set_field<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[field, input, value] = args else { return Ok(None) };
    with_field(scope, "$setField", field, input, value)
}

pub(super) fn unset_field<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[field, input] = args else { return Ok(None) };
    with_field(scope, "$unsetField", field, input, None)
}
