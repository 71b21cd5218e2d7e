//! String operators, in bytes and in code points.

use crate::doc::Value;
use crate::doc::write::ArrayWriter;
use crate::error::{QueryError, Result};

use super::number::wrong_type;
use super::{Found, Scope, convert, nullish};

/// A string's bytes as `str`. Documents are validated, so only a slice of a string could end inside a
/// character; for such a slice the result is empty.
pub(super) fn utf8(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// An operand that must be a string.
fn string<'a>(operator: &str, found: Found<'a>) -> Result<&'a str> {
    match found {
        Some(Value::String(text) | Value::Symbol(text)) => Ok(utf8(text)),
        found => Err(wrong_type(&format!("{operator} requires a string, found"), found)),
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
            found => return Err(wrong_type("$concat only supports strings, not", found)),
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
        found => Err(wrong_type(&format!("{operator}: can't convert to a string the type"), found)),
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

fn integer_operand(operator: &str, what: &str, found: Found<'_>) -> Result<i64> {
    match found {
        Some(Value::Double(value)) => Ok(value as i64),
        Some(value) => value
            .as_integer()
            .ok_or_else(|| wrong_type(&format!("{operator}: {what} must be a number, found"), found)),
        None => Err(wrong_type(&format!("{operator}: {what} must be a number, found"), found)),
    }
}

pub(super) fn substr_bytes<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[text, start, len] = args else { return Ok(None) };
    let text = coerced("$substrBytes", text)?;
    let (start, len) = (
        integer_operand("$substrBytes", "starting index", start)?,
        integer_operand("$substrBytes", "length", len)?,
    );
    let Ok(start) = usize::try_from(start) else {
        return Err(QueryError::bad_value(format!(
            "$substrBytes: starting index must be non-negative (got: {start})"
        )));
    };
    if start >= text.len() {
        return scope.text("");
    }
    let end = usize::try_from(len).map_or(text.len(), |len| start.saturating_add(len).min(text.len()));
    match text.get(start..end) {
        Some(part) => scope.text(part),
        None => Err(QueryError::bad_value(
            "$substrBytes: invalid range, it starts or ends in the middle of a UTF-8 character",
        )),
    }
}

pub(super) fn substr_cp<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[text, start, len] = args else { return Ok(None) };
    let text = coerced("$substrCP", text)?;
    let (start, len) = (
        integer_operand("$substrCP", "starting index", start)?,
        integer_operand("$substrCP", "length", len)?,
    );
    let (Ok(start), Ok(len)) = (usize::try_from(start), usize::try_from(len)) else {
        return Err(QueryError::bad_value("$substrCP: starting index and length must be non-negative"));
    };
    scope.text(&text.chars().skip(start).take(len).collect::<String>())
}

pub(super) fn len_bytes<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    Ok(int(string("$strLenBytes", args.first().copied().flatten())?.len()))
}

pub(super) fn len_cp<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    Ok(int(string("$strLenCP", args.first().copied().flatten())?.chars().count()))
}

/// Start and end of a search, in the unit of the operator; `None` if the start is after the end.
pub(super) fn search_range(operator: &str, args: &[Found<'_>], len: usize) -> Result<Option<(usize, usize)>> {
    let bound = |at: usize, default: usize| match args.get(at) {
        None => Ok(default),
        Some(found) => {
            let value = found.and_then(|value| value.as_integer());
            value.and_then(|value| usize::try_from(value).ok()).ok_or_else(|| {
                QueryError::bad_value(format!("{operator}: start and end must be non-negative whole numbers"))
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
    let text = string("$indexOfBytes", args.first().copied().flatten())?;
    let part = string("$indexOfBytes", args.get(1).copied().flatten())?;
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
    let text = string("$indexOfCP", args.first().copied().flatten())?;
    let part = string("$indexOfCP", args.get(1).copied().flatten())?;
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
    let (text, by) = (string("$split", text)?, string("$split", by)?);
    if by.is_empty() {
        return Err(QueryError::bad_value("$split requires a non-empty separator"));
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
    let mut text = string(operator, text)?;
    let chars = match chars {
        Some(Value::MaxKey) => None,
        chars => Some(string(operator, chars)?),
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

pub(super) fn replace_one<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[text, find, with] = args else { return Ok(None) };
    let operator = "$replaceOne";
    let (text, find, with) = (string(operator, text)?, string(operator, find)?, string(operator, with)?);
    scope.text(&text.replacen(find, with, 1))
}

pub(super) fn replace_all<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[text, find, with] = args else { return Ok(None) };
    let operator = "$replaceAll";
    let (text, find, with) = (string(operator, text)?, string(operator, find)?, string(operator, with)?);
    // An empty pattern matches between any two characters: the result may be far longer than the operands.
    scope.check_size(text.len().saturating_mul(with.len().max(1)))?;
    scope.text(&text.replace(find, with))
}
