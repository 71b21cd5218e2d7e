//! Type conversions: `$convert`, `$toInt` and the like.

use crate::doc::{Decimal, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::filter::type_names;

use super::binary::{self, ByteOrder, Format};
use super::number::Num;
use super::{Found, Scope, date, nullish};

/// The type that a value is converted to.
#[derive(Debug, Clone, Copy, PartialEq)]
enum To {
    Double,
    String,
    /// Of this subtype.
    Binary(u8),
    ObjectId,
    Bool,
    Date,
    Int,
    Long,
    Decimal,
}

impl To {
    const ALL: [(To, &'static str); 9] = [
        (To::Double, "double"),
        (To::String, "string"),
        (To::Binary(binary::GENERIC), "binData"),
        (To::ObjectId, "objectId"),
        (To::Bool, "bool"),
        (To::Date, "date"),
        (To::Int, "int"),
        (To::Long, "long"),
        (To::Decimal, "decimal"),
    ];

    fn name(self) -> &'static str {
        let same = |to: &To| std::mem::discriminant(to) == std::mem::discriminant(&self);
        Self::ALL.iter().find(|(to, _)| same(to)).map_or("", |(_, name)| name)
    }
}

/// How binary data is read and written.
#[derive(Debug, Clone, Copy)]
struct Notation {
    format: Option<Format>,
    order: ByteOrder,
}

impl Notation {
    /// That of an operator without these operands.
    const fn of(format: Format) -> Self {
        Notation { format: Some(format), order: ByteOrder::Little }
    }

    /// The format of a conversion that needs one.
    fn format(self, value: Value<'_>, to: To) -> Result<Format> {
        self.format.ok_or_else(|| {
            QueryError::new(
                ErrorCode::Location4341115,
                format!(
                    "Format must be specified when converting from '{}' to '{}'",
                    value.type_name(),
                    to.name()
                ),
            )
        })
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
        other => Err(unsupported(other, to.name())),
    }
}

fn unsupported(value: Value<'_>, to: &str) -> QueryError {
    conversion_failure(format!(
        "Unsupported conversion from {} to {to} in $convert with no onError value",
        value.type_name()
    ))
}

/// A number that is stored in `bytes` of this length, or not.
fn stored<T>(value: Value<'_>, bytes: &[u8], number: Option<T>) -> Result<T> {
    number.ok_or_else(|| {
        conversion_failure(format!(
            "Failed to convert '{}' to number in $convert because of invalid length: {}",
            crate::doc::shown(value),
            bytes.len()
        ))
    })
}

/// `value` as binary data.
fn binary_of<'a>(scope: &Scope<'a>, value: Value<'a>, subtype: u8, notation: Notation) -> Result<Value<'a>> {
    let to = To::Binary(subtype);
    let bytes = match value {
        Value::Binary(same, _) if same == subtype => return Ok(value),
        Value::Binary(..) => {
            return Err(conversion_failure(
                "Conversions between different BinData subtypes are not supported".to_owned(),
            ));
        }
        Value::String(text) => {
            let (text, format) = (super::string::utf8(text), notation.format(value, to)?);
            binary::from_text(text, format, subtype).map_err(|why| {
                conversion_failure(format!(
                    "Failed to parse BinData '{text}' in $convert with no onError value: {why}"
                ))
            })?
        }
        value => binary::from_number(value, notation.order).ok_or_else(|| unsupported(value, to.name()))?,
    };
    Ok(Value::Binary(subtype, scope.bytes(&bytes)?))
}

fn converted<'a>(scope: &Scope<'a>, value: Value<'a>, to: To, notation: Notation) -> Result<Found<'a>> {
    let order = notation.order;
    Ok(Some(match to {
        To::Binary(subtype) => binary_of(scope, value, subtype, notation)?,
        To::String => match value {
            Value::String(_) => value,
            Value::Binary(subtype, bytes) => {
                let text = binary::to_text(subtype, bytes, notation.format(value, to)?).map_err(|why| {
                    conversion_failure(format!(
                        "Failed to convert '{}' to string in $convert with no onError value: {why}",
                        crate::doc::shown(value)
                    ))
                })?;
                return scope.text(&text);
            }
            value => return scope.text(&text_of(value).map_err(|_| unsupported(value, to.name()))?),
        },
        To::Bool => match value {
            Value::Null | Value::Undefined => Value::Null,
            value => Value::Bool(value.truthy()),
        },
        To::Int => match value {
            Value::Binary(_, bytes) => {
                let number = binary::to_integer(bytes, order).filter(|_| bytes.len() <= size_of::<i32>());
                Value::Int32(stored(value, bytes, number.and_then(|number| i32::try_from(number).ok()))?)
            }
            value => {
                let number = long_of(value, to)?;
                Value::Int32(
                    i32::try_from(number).map_err(|_| failure(value, to, "the number does not fit"))?,
                )
            }
        },
        To::Long => match value {
            Value::Binary(_, bytes) => Value::Int64(stored(value, bytes, binary::to_integer(bytes, order))?),
            value => Value::Int64(long_of(value, to)?),
        },
        To::Double => match (value, Num::new(value)) {
            (Value::Binary(_, bytes), _) => {
                Value::Double(stored(value, bytes, binary::to_double(bytes, order))?)
            }
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
            _ => return Err(unsupported(value, to.name())),
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
            _ => return Err(unsupported(value, to.name())),
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
            _ => return Err(unsupported(value, to.name())),
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
            _ => return Err(unsupported(value, to.name())),
        },
    }))
}

macro_rules! shorthands {
    ($($name:ident $to:ident)*) => {
        $(pub(super) fn $name<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
            match args {
                &[Some(value)] => converted(scope, value, To::$to, Notation::of(Format::Auto)),
                _ => Ok(Some(Value::Null)),
            }
        })*
    };
}

shorthands! {
    to_bool Bool to_int Int to_long Long to_double Double to_decimal Decimal to_string String to_date Date
    to_object_id ObjectId
}

pub(super) fn to_uuid<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let to = To::Binary(binary::UUID);
    match *args {
        // The bytes of a number, which `$convert` gives any subtype, are none.
        [Some(value @ (Value::String(_) | Value::Binary(..)))] => {
            converted(scope, value, to, Notation::of(Format::Uuid))
        }
        [Some(value)] => Err(unsupported(value, to.name())),
        _ => Ok(Some(Value::Null)),
    }
}

/// The type that the operand `to` names, or only its name if nothing is converted to it; `None` for null.
///
/// # Errors
/// `BadValue` for an unknown name, `FailedToParse` for what is no type.
fn target(to: Found<'_>) -> Result<Option<std::result::Result<To, &'static str>>> {
    let refused = |message: String| QueryError::new(ErrorCode::FailedToParse, message);
    let (kind, subtype) = match to {
        Some(Value::Document(doc)) => {
            for element in doc.elements() {
                let name = element.name_str();
                if !matches!(name, "type" | "subtype") {
                    return Err(refused(format!("$convert found an unknown argument in 'to': {name}")));
                }
            }
            match doc.get("type") {
                Some(kind) => (Some(kind), doc.get("subtype")),
                None => return Err(refused("Missing 'type' in the 'to' argument of $convert".to_owned())),
            }
        }
        to => (to, None),
    };
    let name = match kind {
        kind if nullish(kind) => return Ok(None),
        Some(Value::String(text)) => {
            let text = super::string::utf8(text);
            type_names()
                .find(|(_, name)| *name == text)
                .map(|(_, name)| name)
                .ok_or_else(|| QueryError::bad_value(format!("Unknown type name: {text}")))?
        }
        Some(kind) if kind.is_number() => match kind.as_integer() {
            None => return Err(refused("In $convert, numeric 'to' argument is not an integer".to_owned())),
            Some(number) => {
                type_names().find(|(known, _)| *known == number).map(|(_, name)| name).ok_or_else(|| {
                    refused(format!(
                        "In $convert, numeric value for 'to' does not correspond to a BSON type: {number}"
                    ))
                })?
            }
        },
        kind => {
            return Err(refused(format!(
                "$convert's 'to' argument must be a string, number or object, but is {}",
                super::type_name(kind)
            )));
        }
    };
    Ok(Some(match To::ALL.iter().find(|(_, known)| *known == name) {
        Some((To::Binary(generic), _)) => Ok(To::Binary(subtype.map_or(Ok(*generic), binary::subtype)?)),
        Some((to, _)) => Ok(*to),
        None => Err(name),
    }))
}

pub(super) fn convert<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[input, to, on_error, on_null, format, order] = args else { return Ok(None) };
    let to = target(to)?;
    let value = match input {
        Some(value) if !nullish(input) => value,
        _ => return Ok(on_null),
    };
    let Some(to) = to else { return Ok(Some(Value::Null)) };
    let notation = Notation { format: Format::parse(format)?, order: ByteOrder::parse(order)? };
    let found = match to {
        Ok(to) => converted(scope, value, to, notation),
        Err(name) => Err(unsupported(value, name)),
    };
    match (found, on_error) {
        (Err(error), on_error)
            if error.code == ErrorCode::ConversionFailure && !matches!(on_error, Some(Value::MaxKey)) =>
        {
            Ok(on_error)
        }
        (found, _) => found,
    }
}
