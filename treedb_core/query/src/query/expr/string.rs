//! String operators, in bytes and in code points.

use crate::doc::Value;
use crate::doc::write::ArrayWriter;
use crate::error::{ErrorCode, QueryError, Result};

use super::number::wrong_type;
use super::{Found, Scope, convert, nullish};

/// A string's bytes as `str`. Documents are validated, so only a slice of a string could end inside a
/// character; for such a slice the result is empty.
pub(super) fn utf8(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// An operand that must be a string; `what` it is, and the code of the error if it is none.
fn string<'a>(code: ErrorCode, operator: &str, what: &str, found: Found<'a>) -> Result<&'a str> {
    match found {
        Some(Value::String(text) | Value::Symbol(text)) => Ok(utf8(text)),
        found => Err(wrong_type(code, &format!("{operator} requires a string as {what}, found:"), found)),
    }
}

fn int<'a>(value: usize) -> Found<'a> {
    Some(Value::Int32(i32::try_from(value).unwrap_or(i32::MAX)))
}

pub(super) fn concat<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let mut out = String::new();
    for &arg in args {
        match arg {
            found if nullish(found) => return Ok(Some(Value::Null)),
            Some(Value::String(text) | Value::Symbol(text)) => out.push_str(utf8(text)),
            found => {
                return Err(wrong_type(
                    ErrorCode::Location16702,
                    "$concat only supports strings, not",
                    found,
                ));
            }
        }
    }
    scope.text(&out)
}

/// An operand as a string, for the operators that convert numbers and dates; null is the empty string.
fn coerced(operator: &str, found: Found<'_>) -> Result<String> {
    match found {
        found if nullish(found) => Ok(String::new()),
        Some(Value::String(text) | Value::Symbol(text) | Value::Code(text)) => Ok(utf8(text).to_owned()),
        Some(value) if value.is_number() || matches!(value, Value::Date(_) | Value::Timestamp(_)) => {
            convert::text_of(value)
        }
        found => {
            let message = format!("{operator}: can't convert to String from BSON type");
            Err(wrong_type(ErrorCode::Location16007, &message, found))
        }
    }
}

pub(super) fn to_lower<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let mut text = coerced("$toLower", args.first().copied().flatten())?;
    text.make_ascii_lowercase();
    scope.text(&text)
}

pub(super) fn to_upper<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let mut text = coerced("$toUpper", args.first().copied().flatten())?;
    text.make_ascii_uppercase();
    scope.text(&text)
}

pub(super) fn strcasecmp<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[a, b] = args else { return Ok(None) };
    let (a, b) = (coerced("$strcasecmp", a)?, coerced("$strcasecmp", b)?);
    Ok(Some(Value::Int32(a.to_ascii_uppercase().cmp(&b.to_ascii_uppercase()) as i32)))
}

/// A number as an integer, without its fraction; `what` it is, and the code of the error if it is none.
fn integer_operand(code: ErrorCode, operator: &str, what: &str, found: Found<'_>) -> Result<i64> {
    match found {
        Some(Value::Double(value)) => Ok(value as i64),
        found => found
            .filter(|value| value.is_number())
            .and_then(|value| value.as_integer())
            .ok_or_else(|| wrong_type(code, &format!("{operator}: {what} must be a number, found"), found)),
    }
}

/// A number that fits 32 bits; `what` it is, and the codes of the error if it is no number, or another one.
pub(super) fn int_operand(
    (type_code, range_code): (ErrorCode, ErrorCode),
    operator: &str,
    what: &str,
    found: Found<'_>,
) -> Result<i32> {
    let number = found.and_then(|value| value.as_integer()).and_then(|number| i32::try_from(number).ok());
    number.ok_or_else(|| match found {
        Some(value) if value.is_number() => QueryError::new(
            range_code,
            format!(
                "{operator}: {what} cannot be represented as a 32-bit integer: {}",
                crate::doc::shown(value)
            ),
        ),
        found => wrong_type(type_code, &format!("{operator}: {what} must be a number, found"), found),
    })
}

pub(super) fn substr_bytes<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    use ErrorCode as C;
    const NAME: &str = "$substrBytes";
    let &[text, start, len] = args else { return Ok(None) };
    let text = coerced(NAME, text)?;
    let start = integer_operand(C::Location16034, NAME, "starting index", start)?;
    let len = integer_operand(C::Location16035, NAME, "length", len)?;
    let Ok(start) = usize::try_from(start) else {
        return Err(QueryError::new(
            C::Location50752,
            format!("{NAME}: starting index must be non-negative (got: {start})"),
        ));
    };
    if start >= text.len() {
        return scope.text("");
    }
    let end = usize::try_from(len).map_or(text.len(), |len| start.saturating_add(len).min(text.len()));
    let within = |at: usize, code, which| match text.is_char_boundary(at) {
        true => Ok(()),
        false => Err(QueryError::new(
            code,
            format!("{NAME}: Invalid range, the {which} is in the middle of a UTF-8 character"),
        )),
    };
    within(start, C::Location28656, "starting index")?;
    within(end, C::Location28657, "ending index")?;
    scope.text(text.get(start..end).unwrap_or_default())
}

pub(super) fn substr_cp<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    use ErrorCode as C;
    const NAME: &str = "$substrCP";
    let &[text, start, len] = args else { return Ok(None) };
    let text = coerced(NAME, text)?;
    let start = int_operand((C::Location34450, C::Location34451), NAME, "starting index", start)?;
    let len = int_operand((C::Location34452, C::Location34453), NAME, "length", len)?;
    let non_negative = |number: i32, code, what| {
        usize::try_from(number).map_err(|_| {
            QueryError::new(code, format!("{NAME}: the {what} must be a nonnegative integer, not {number}"))
        })
    };
    let len = non_negative(len, C::Location34454, "length")?;
    let start = non_negative(start, C::Location34455, "starting index")?;
    scope.text(&text.chars().skip(start).take(len).collect::<String>())
}

pub(super) fn len_bytes<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    Ok(int(string(ErrorCode::Location34473, "$strLenBytes", "its operand", args.first().copied().flatten())?
        .len()))
}

pub(super) fn len_cp<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    Ok(int(string(ErrorCode::Location34471, "$strLenCP", "its operand", args.first().copied().flatten())?
        .chars()
        .count()))
}

/// Start and end of a search, in the unit of the operator; `None` if the start is after the end.
pub(super) fn search_range(operator: &str, args: &[Found<'_>], len: usize) -> Result<Option<(usize, usize)>> {
    let bound = |at: usize, default: usize| match args.get(at) {
        None => Ok(default),
        Some(found) => {
            let codes = (ErrorCode::Location40096, ErrorCode::Location40096);
            let value = int_operand(codes, operator, "starting or ending index", *found)?;
            usize::try_from(value).map_err(|_| {
                QueryError::new(
                    ErrorCode::Location40097,
                    format!("{operator} requires a nonnegative starting and ending index, found: {value}"),
                )
            })
        }
    };
    let (start, end) = (bound(2, 0)?, bound(3, len)?.min(len));
    Ok((start <= end).then_some((start, end)))
}

pub(super) fn index_of_bytes<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    if nullish(args.first().copied().flatten()) {
        return Ok(Some(Value::Null));
    }
    let text = string(
        ErrorCode::Location40091,
        "$indexOfBytes",
        "the first operand",
        args.first().copied().flatten(),
    )?;
    let part = string(
        ErrorCode::Location40092,
        "$indexOfBytes",
        "the second operand",
        args.get(1).copied().flatten(),
    )?;
    let Some((start, end)) = search_range("$indexOfBytes", args, text.len())? else {
        return Ok(Some(Value::Int32(-1)));
    };
    let bytes = text.as_bytes().get(start..end).unwrap_or_default();
    let found = match part.len() {
        0 => Some(0),
        len => bytes.windows(len).position(|window| window == part.as_bytes()),
    };
    Ok(found.map_or(Some(Value::Int32(-1)), |at| int(at + start)))
}

pub(super) fn index_of_cp<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    if nullish(args.first().copied().flatten()) {
        return Ok(Some(Value::Null));
    }
    let text =
        string(ErrorCode::Location40093, "$indexOfCP", "the first operand", args.first().copied().flatten())?;
    let part =
        string(ErrorCode::Location40094, "$indexOfCP", "the second operand", args.get(1).copied().flatten())?;
    let chars: Vec<char> = text.chars().collect();
    let part: Vec<char> = part.chars().collect();
    let Some((start, end)) = search_range("$indexOfCP", args, chars.len())? else {
        return Ok(Some(Value::Int32(-1)));
    };
    let within = chars.get(start..end).unwrap_or_default();
    let found = match part.len() {
        0 => Some(0),
        len => within.windows(len).position(|window| window == part),
    };
    Ok(found.map_or(Some(Value::Int32(-1)), |at| int(at + start)))
}

pub(super) fn split<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[text, by] = args else { return Ok(None) };
    let text = string(ErrorCode::Location40085, "$split", "the first operand", text)?;
    let by = string(ErrorCode::Location40086, "$split", "the separator", by)?;
    if by.is_empty() {
        return Err(QueryError::new(ErrorCode::Location40087, "$split requires a non-empty separator"));
    }
    let mut out = ArrayWriter::new();
    for part in text.split(by) {
        out.push(Value::String(part.as_bytes()));
    }
    scope.array(out).map(Some)
}

/// The characters that `$trim` removes by default: MongoDB's list of white space, NUL included.
fn is_space(char: char) -> bool {
    matches!(char, '\0' | '\t'..='\r' | ' ' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}')
}

fn trimmed<'a>(operator: &str, args: &[Found<'a>], left: bool, right: bool) -> Result<Found<'a>> {
    let &[text, chars] = args else { return Ok(None) };
    let mut text = string(ErrorCode::Location50699, operator, "'input'", text)?;
    let chars = match chars {
        Some(Value::MaxKey) => None,
        chars => Some(string(ErrorCode::Location50700, operator, "'chars'", chars)?),
    };
    let removed = |char: char| chars.map_or_else(|| is_space(char), |chars| chars.contains(char));
    if left {
        text = text.trim_start_matches(removed);
    }
    if right {
        text = text.trim_end_matches(removed);
    }
    Ok(Some(Value::String(text.as_bytes())))
}

pub(super) fn trim<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    trimmed("$trim", args, true, true)
}

pub(super) fn ltrim<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    trimmed("$ltrim", args, true, false)
}

pub(super) fn rtrim<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    trimmed("$rtrim", args, false, true)
}

/// The string to search, what is searched for and what is put there.
fn replacement<'a>(operator: &str, args: &[Found<'a>]) -> Result<[&'a str; 3]> {
    let &[text, find, with] = args else { return Ok([""; 3]) };
    Ok([
        string(ErrorCode::Location51746, operator, "'input'", text)?,
        string(ErrorCode::Location51745, operator, "'find'", find)?,
        string(ErrorCode::Location51744, operator, "'replacement'", with)?,
    ])
}

pub(super) fn replace_one<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let [text, find, with] = replacement("$replaceOne", args)?;
    scope.text(&text.replacen(find, with, 1))
}

pub(super) fn replace_all<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let [text, find, with] = replacement("$replaceAll", args)?;
    // An empty pattern matches between any two characters: the result may be far longer than the operands.
    scope.check_size(text.len().saturating_mul(with.len().max(1)))?;
    scope.text(&text.replace(find, with))
}
