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
                let message = "$mergeObjects requires object inputs, but input is of type";
                return Err(wrong_type(ErrorCode::Location40400, message, found));
            }
        }
    }
    scope.document(merged(&docs)).map(Some)
}

pub(super) fn to_array<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[Some(Value::Document(doc))] = args else {
        return Err(wrong_type(
            ErrorCode::Location40390,
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
            ErrorCode::Location40386,
            "$arrayToObject requires an array input, found:",
            args.first().copied().flatten(),
        ));
    };
    let mut names: Vec<(&[u8], Value<'a>)> = Vec::new();
    let pairs = array.elements().next().is_some_and(|first| matches!(first.value(), Value::Array(_)));
    for (at, element) in array.elements().enumerate() {
        let (key, value) = key_and_value(element.value(), pairs, at == 0)?;
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

/// The key and the value of an element of the operand of `$arrayToObject`; `pairs` if the first of them is an array.
fn key_and_value<'a>(element: Value<'a>, pairs: bool, is_first: bool) -> Result<(&'a [u8], Value<'a>)> {
    use ErrorCode as C;
    let wrong = |code, what: &str| {
        QueryError::new(
            code,
            format!(
                "$arrayToObject requires an array of [key, value] pairs or of documents with exactly the fields k and v; \
                 the keys must be strings without zero bytes. Found {what}: {}",
                crate::doc::shown(element)
            ),
        )
    };
    let (key, value) = match element {
        Value::Array(pair) if pairs => {
            let mut items = pair.elements().map(|item| item.value());
            match (items.next(), items.next(), items.next()) {
                (Some(key), Some(value), None) => (key, value),
                _ => return Err(wrong(C::Location40397, "an array that is not a pair")),
            }
        }
        Value::Document(pair) if !pairs => match (pair.get("k"), pair.get("v"), pair.elements().count()) {
            (Some(key), Some(value), 2) => (key, value),
            (_, _, 2) => return Err(wrong(C::Location40393, "other fields than k and v")),
            _ => return Err(wrong(C::Location40392, "more or fewer fields than two")),
        },
        _ if is_first => return Err(wrong(C::Location40398, "neither a pair nor a document")),
        _ if pairs => return Err(wrong(C::Location40396, "something else after a pair")),
        _ => return Err(wrong(C::Location40391, "something else after a document")),
    };
    let (type_code, zero_code) = match pairs {
        true => (C::Location40395, C::Location4940400),
        false => (C::Location40394, C::Location4940401),
    };
    match key {
        Value::String(key) if key.contains(&0) => Err(wrong(zero_code, "a key with a zero byte")),
        Value::String(key) => Ok((key, value)),
        _ => Err(wrong(type_code, "a key that is not a string")),
    }
}

fn field_name<'a>(code: ErrorCode, operator: &str, found: Found<'a>) -> Result<&'a [u8]> {
    match found {
        Some(Value::String(name)) if !name.contains(&0) => Ok(name),
        found => {
            let message = format!("{operator} requires 'field' to be a string without zero bytes, but got");
            Err(wrong_type(code, &message, found))
        }
    }
}

pub(super) fn get_field<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[field, input] = args else { return Ok(None) };
    let name = field_name(ErrorCode::Location3041704, "$getField", field)?;
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
    let name = field_name(ErrorCode::Location4161107, operator, field)?;
    let doc = match input {
        Some(Value::Document(doc)) => doc,
        found if nullish(found) => return Ok(Some(Value::Null)),
        found => {
            let message = format!("{operator} requires 'input' to be an object, found");
            return Err(wrong_type(ErrorCode::Location4161105, &message, found));
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
