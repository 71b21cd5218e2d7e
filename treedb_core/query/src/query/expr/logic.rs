//! Comparison operators and other short operators.

use crate::doc::Value;
use crate::error::{ErrorCode, Result};

use super::{Found, Scope, nullish, truthy, type_name};

macro_rules! comparisons {
    ($($name:ident $test:ident)*) => {
        $(pub(super) fn $name<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
            let &[a, b] = args else { return Ok(None) };
            Ok(Some(Value::Bool(scope.order(a, b).$test())))
        })*
    };
}

comparisons! { eq is_eq ne is_ne lt is_lt lte is_le gt is_gt gte is_ge }

pub(super) fn cmp<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[a, b] = args else { return Ok(None) };
    Ok(Some(Value::Int32(scope.order(a, b) as i32)))
}

pub(super) fn not<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[a] = args else { return Ok(None) };
    Ok(Some(Value::Bool(!truthy(a))))
}

pub(super) fn type_of<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[a] = args else { return Ok(None) };
    Ok(Some(Value::String(type_name(a).as_bytes())))
}

pub(super) fn is_array<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    Ok(Some(Value::Bool(matches!(args, [Some(Value::Array(_))]))))
}

pub(super) fn is_number<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    Ok(Some(Value::Bool(matches!(args, [Some(value)] if value.is_number()))))
}

pub(super) fn rand<'a>(_: &Scope<'a>, _: &[Found<'a>]) -> Result<Found<'a>> {
    Ok(Some(Value::Double(random())))
}

/// A random number, at least 0 and less than 1.
pub(crate) fn random() -> f64 {
    let mut bytes = [0; 8];
    // If the system's random source fails, return 0, which is in the range.
    if getrandom::fill(&mut bytes).is_err() {
        return 0.0;
    }
    (u64::from_le_bytes(bytes) >> 11) as f64 / (1_u64 << 53) as f64
}

pub(super) fn bson_size<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    match args {
        &[found] if nullish(found) => Ok(Some(Value::Null)),
        [Some(Value::Document(doc))] => {
            Ok(Some(Value::Int32(i32::try_from(doc.as_bytes().len()).unwrap_or(i32::MAX))))
        }
        _ => Err(super::number::wrong_type(
            ErrorCode::Location31393,
            "$bsonSize requires a document input, found",
            args.first().copied().flatten(),
        )),
    }
}

pub(super) fn binary_size<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let len = match args {
        &[found] if nullish(found) => return Ok(Some(Value::Null)),
        [Some(Value::String(text))] => text.len(),
        [Some(Value::Binary(_, bytes))] => bytes.len(),
        _ => {
            return Err(super::number::wrong_type(
                ErrorCode::Location51276,
                "$binarySize requires a string or BinData argument, found",
                args.first().copied().flatten(),
            ));
        }
    };
    Ok(Some(Value::Int32(i32::try_from(len).unwrap_or(i32::MAX))))
}
