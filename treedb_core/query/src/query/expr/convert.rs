//! Type conversions: `$convert`, `$toInt` and the like.

use crate::doc::{Decimal, Value};
use crate::error::{ErrorCode, QueryError, Result};

use super::number::Num;
use super::{Found, Scope, date, nullish, type_name};

/// The type that a value is converted to.
#[derive(Debug, Clone, Copy, PartialEq)]
enum To {
    Double,
    String,
    ObjectId,
    Bool,
    Date,
    Int,
    Long,
    Decimal,
}

impl To {
    const ALL: [(To, &'static str, i64); 8] = [
        (To::Double, "double", 1),
        (To::String, "string", 2),
        (To::ObjectId, "objectId", 7),
        (To::Bool, "bool", 8),
        (To::Date, "date", 9),
        (To::Int, "int", 16),
        (To::Long, "long", 18),
        (To::Decimal, "decimal", 19),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(to, ..)| *to == self).map_or("", |(_, name, _)| name)
    }
}

fn conversion_failure(message: String) -> QueryError {
    QueryError::new(ErrorCode::ConversionFailure, message)
}

fn failure(value: Value<'_>, to: To, why: &str) -> QueryError {
    conversion_failure(format!(
        "Failed to convert {} to {} in $convert: {why}",
        crate::doc::shown(value),
        to.name()
    ))
}

/// A double as a string: whole numbers without a decimal point, very large and small ones with an exponent.
fn double_text(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "Infinity".to_owned() } else { "-Infinity".to_owned() }
    } else if value != 0.0 && !(1e-5..1e17).contains(&value.abs()) {
        let text = format!("{value:e}");
        match text.split_once('e') {
            Some((digits, exponent)) => match exponent.strip_prefix('-') {
                Some(exponent) => format!("{digits}e-{exponent:0>2}"),
                None => format!("{digits}e+{exponent:0>2}"),
            },
            None => text,
        }
    } else {
        value.to_string()
    }
}

/// A number, date, boolean, ObjectId or string as a string.
pub(super) fn text_of(value: Value<'_>) -> Result<String> {
    Ok(match value {
        Value::String(text) | Value::Symbol(text) => super::string::utf8(text).to_owned(),
        Value::Int32(value) => value.to_string(),
        Value::Int64(value) => value.to_string(),
        Value::Double(value) => double_text(value),
        Value::Decimal(bytes) => bson::Decimal128::from_bytes(bytes).to_string(),
        Value::Bool(value) => value.to_string(),
        Value::ObjectId(id) => id.iter().map(|byte| format!("{byte:02x}")).collect(),
        Value::Date(millis) => date::iso(millis)?,
        Value::Timestamp(bits) => format!("Timestamp({}, {})", bits >> 32, bits as u32),
        other => return Err(failure(other, To::String, "unsupported conversion")),
    })
}

/// The integer part of a number; an error if it does not fit 64 bits or the value cannot be converted.
fn long_of(value: Value<'_>, to: To) -> Result<i64> {
    match value {
        Value::Bool(value) => Ok(value.into()),
        Value::Int32(value) => Ok(value.into()),
        Value::Int64(value) => Ok(value),
        Value::Double(number) if number.is_nan() || number.is_infinite() => {
            Err(failure(value, to, "NaN and infinity have no integer"))
        }
        Value::Double(number) if number.abs() < 9_223_372_036_854_775_808.0 => Ok(number as i64),
        Value::Decimal(bytes) => Decimal::new(bytes)
            .round(0, crate::doc::Rounding::Down)
            .as_integer()
            .ok_or_else(|| failure(value, to, "the number does not fit")),
        Value::Double(_) => Err(failure(value, to, "the number does not fit")),
        Value::String(text) => {
            let text = super::string::utf8(text);
            let digits = text.strip_prefix('+').unwrap_or(text);
            match digits.parse() {
                Ok(number) if !digits.starts_with('+') => Ok(number),
                _ => Err(conversion_failure(format!(
                    "Failed to parse number '{text}' in $convert with no onError value: it is not a whole number"
                ))),
            }
        }
        Value::Date(millis) if to == To::Long => Ok(millis),
        other => Err(unsupported(other, to)),
    }
}

fn unsupported(value: Value<'_>, to: To) -> QueryError {
    conversion_failure(format!(
        "Unsupported conversion from {} to {} in $convert with no onError value",
        value.type_name(),
        to.name()
    ))
}

fn converted<'a>(scope: &Scope<'a>, value: Value<'a>, to: To) -> Result<Found<'a>> {
    Ok(Some(match to {
        To::String => match value {
            Value::String(_) => value,
            value => return scope.text(&text_of(value).map_err(|_| unsupported(value, to))?),
        },
        To::Bool => match value {
            Value::Null | Value::Undefined => Value::Null,
            value => Value::Bool(value.truthy()),
        },
        To::Int => {
            let number = long_of(value, to)?;
            Value::Int32(i32::try_from(number).map_err(|_| failure(value, to, "the number does not fit"))?)
        }
        To::Long => Value::Int64(long_of(value, to)?),
        To::Double => match (value, Num::new(value)) {
            (_, Some(number)) => Value::Double(number.double()),
            (Value::Bool(value), _) => Value::Double(f64::from(u8::from(value))),
            (Value::Date(millis), _) => Value::Double(millis as f64),
            (Value::String(text), _) => {
                let text = super::string::utf8(text);
                match text.parse::<f64>() {
                    Ok(number) if !text.starts_with('+') || text.len() > 1 => Value::Double(number),
                    _ => {
                        return Err(conversion_failure(format!(
                            "Failed to parse number '{text}' in $convert with no onError value"
                        )));
                    }
                }
            }
            _ => return Err(unsupported(value, to)),
        },
        To::Decimal => match (value, Num::new(value)) {
            (_, Some(number)) => Num::Decimal(number.decimal()).value(),
            (Value::Bool(value), _) => Num::Decimal(Decimal::from_integer(value.into())).value(),
            (Value::Date(millis), _) => Num::Decimal(Decimal::from_integer(millis)).value(),
            (Value::String(text), _) => {
                let text = super::string::utf8(text);
                match text.parse::<bson::Decimal128>() {
                    Ok(number) => Value::Decimal(number.bytes()),
                    Err(_) => {
                        return Err(conversion_failure(format!(
                            "Failed to parse number '{text}' in $convert with no onError value"
                        )));
                    }
                }
            }
            _ => return Err(unsupported(value, to)),
        },
        To::Date => match value {
            Value::Date(_) => value,
            Value::Int64(_) | Value::Double(_) | Value::Decimal(_) => Value::Date(long_of(value, To::Long)?),
            Value::ObjectId(id) => {
                let [a, b, c, d, ..] = *id;
                Value::Date(i64::from(u32::from_be_bytes([a, b, c, d])) * 1000)
            }
            Value::Timestamp(bits) => Value::Date(i64::try_from(bits >> 32).unwrap_or(0) * 1000),
            Value::String(text) => Value::Date(
                date::parse(super::string::utf8(text), None, "UTC")
                    .map_err(|error| conversion_failure(error.message))?,
            ),
            _ => return Err(unsupported(value, to)),
        },
        To::ObjectId => match value {
            Value::ObjectId(_) => value,
            Value::String(text) => {
                let id = bson::oid::ObjectId::parse_str(super::string::utf8(text)).map_err(|_| {
                    conversion_failure(format!(
                        "Failed to parse objectId {} in $convert with no onError value: it must be 24 hexadecimal digits",
                        crate::doc::shown(value)
                    ))
                })?;
                scope.copy(Value::ObjectId(&id.bytes()))?
            }
            _ => return Err(unsupported(value, to)),
        },
    }))
}

macro_rules! shorthands {
    ($($name:ident $to:ident)*) => {
        $(pub(super) fn $name<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
            match args {
                &[Some(value)] => converted(scope, value, To::$to),
                _ => Ok(Some(Value::Null)),
            }
        })*
    };
}

shorthands! {
    to_bool Bool to_int Int to_long Long to_double Double to_decimal Decimal to_string String to_date Date
    to_object_id ObjectId
}

pub(super) fn convert<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[input, to, on_error, on_null] = args else { return Ok(None) };
    if nullish(to) {
        return Ok(Some(Value::Null));
    }
    let by_number = to.and_then(|to| to.as_integer());
    let known = To::ALL.iter().find(|(_, name, number)| match to {
        Some(Value::String(text)) => text == name.as_bytes(),
        _ => by_number == Some(*number),
    });
    let Some((to, ..)) = known else {
        return Err(QueryError::bad_value(format!(
            "Unknown type in $convert: {}; known are double, string, objectId, bool, date, int, long, decimal",
            to.map_or_else(|| type_name(to).to_owned(), crate::doc::shown)
        )));
    };
    match input {
        Some(value) if !nullish(input) => match (converted(scope, value, *to), on_error) {
            (Err(error), Some(Value::MaxKey)) => Err(error),
            (Err(_), on_error) => Ok(on_error),
            (found, _) => found,
        },
        _ => Ok(on_null),
    }
}
