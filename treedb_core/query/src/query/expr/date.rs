//! Date operators: date parts, formatting, parsing and arithmetic, in any time zone.
//!
//! A zone is an offset (`+02`, `-0330`, `+02:00`), `UTC`/`GMT`/`Z`, or a name of the IANA database, whose rules are
//! compiled in.

use jiff::civil::{self, ISOWeekDate, Weekday};
use jiff::tz::{Offset, TimeZone};
use jiff::{Span, Timestamp, Zoned};

use crate::doc::Value;
use crate::doc::write::Writer;
use crate::error::{ErrorCode, QueryError, Result};

use super::local_time::Local;
use super::number::wrong_type;
use super::string::utf8;
use super::{Found, Scope, nullish};

/// Milliseconds of a day.
const DAY: i64 = 86_400_000;
/// 2000-01-01T00:00:00Z, a Saturday: the reference point of the bins of `$dateTrunc`.
const BIN_ORIGIN: i64 = 946_684_800_000;

/// The time zone without offset.
pub(crate) fn utc() -> TimeZone {
    TimeZone::UTC
}

pub(super) fn out_of_range(error: impl std::fmt::Display) -> QueryError {
    QueryError::new(ErrorCode::Overflow, format!("the date is outside the supported range: {error}"))
}

fn zone_named(name: &str) -> Result<TimeZone> {
    let unknown = || {
        QueryError::new(ErrorCode::Location40485, format!("unrecognized time zone identifier: \"{name}\""))
    };
    if matches!(name, "UTC" | "GMT" | "Z" | "z") {
        return Ok(TimeZone::UTC);
    }
    if let Some(seconds) = offset_seconds(name) {
        return Ok(TimeZone::fixed(Offset::from_seconds(seconds).map_err(|_| unknown())?));
    }
    if name.is_empty() || name.len() > 100 {
        return Err(unknown());
    }
    TimeZone::get(name).map_err(|_| unknown())
}

/// `+hh`, `+hhmm`, `+hh:mm` in seconds.
fn offset_seconds(text: &str) -> Option<i32> {
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let digits = text.get(1..)?.replace(':', "");
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (hours, minutes) = match digits.len() {
        2 => (digits.as_str(), "0"),
        4 => digits.split_at(2),
        _ => return None,
    };
    Some(sign * (hours.parse::<i32>().ok()? * 3600 + minutes.parse::<i32>().ok()? * 60))
}

fn zone(found: Found<'_>) -> Result<TimeZone> {
    match found {
        Some(Value::String(name)) => zone_named(utf8(name)),
        found => Err(not_a_zone(found)),
    }
}

fn not_a_zone(found: Found<'_>) -> QueryError {
    wrong_type(ErrorCode::Location40517, "timezone must evaluate to a string, found", found)
}

/// The time of a date, a timestamp or an ObjectId, in milliseconds since 1970; `None` for any other value.
fn millis_of(found: Found<'_>) -> Option<i64> {
    match found {
        Some(Value::Date(millis)) => Some(millis),
        Some(Value::Timestamp(bits)) => Some(i64::try_from(bits >> 32).unwrap_or(0) * 1000),
        Some(Value::ObjectId(id)) => {
            let [a, b, c, d, ..] = *id;
            Some(i64::from(u32::from_be_bytes([a, b, c, d])) * 1000)
        }
        _ => None,
    }
}

/// [`millis_of`], or an error.
fn millis(found: Found<'_>) -> Result<i64> {
    millis_of(found)
        .ok_or_else(|| wrong_type(ErrorCode::Location16006, "can't convert to Date from BSON type", found))
}

fn zoned(millis: i64, zone: TimeZone) -> Result<Zoned> {
    Ok(Timestamp::from_millisecond(millis).map_err(out_of_range)?.to_zoned(zone))
}

fn date_in_zone(args: &[Found<'_>]) -> Result<Local> {
    let &[date, at] = args else { return Local::new(0, TimeZone::UTC) };
    Local::new(millis(date)?, zone(at)?)
}

macro_rules! parts {
    ($($name:ident $part:expr;)*) => {
        $(pub(super) fn $name<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
            let date = date_in_zone(args)?;
            let part: fn(&Zoned) -> i32 = $part;
            Ok(Some(Value::Int32(part(&date))))
        })*
    };
}

parts! {
    month |date| date.month().into();
    day_of_month |date| date.day().into();
    day_of_week |date| date.weekday().to_sunday_one_offset().into();
    day_of_year |date| date.day_of_year().into();
    hour |date| date.hour().into();
    minute |date| date.minute().into();
    second |date| date.second().into();
    millisecond |date| date.millisecond().into();
    week sunday_week;
    iso_week |date| date.date().iso_week_date().week().into();
    iso_day_of_week |date| date.weekday().to_monday_one_offset().into();
}

pub(super) fn year<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    // A date's year is below 300 million, so it fits.
    Ok(Some(Value::Int32(i32::try_from(date_in_zone(args)?.year()).map_err(out_of_range)?)))
}

/// The week of the year. Weeks begin on Sundays; the days before the first Sunday are week 0.
fn sunday_week(date: &Zoned) -> i32 {
    let (day, weekday) = (i32::from(date.day_of_year()), i32::from(date.weekday().to_sunday_zero_offset()));
    (day + 6 - weekday) / 7
}

pub(super) fn iso_week_year<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    Ok(Some(Value::Int64(date_in_zone(args)?.iso_year())))
}

pub(super) fn ts_second<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    match args {
        [Some(Value::Timestamp(bits))] => Ok(Some(Value::Int64(i64::try_from(bits >> 32).unwrap_or(0)))),
        _ => Err(wrong_type(
            ErrorCode::Location5687301,
            "$tsSecond requires a timestamp, found",
            args.first().copied().flatten(),
        )),
    }
}

pub(super) fn ts_increment<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    match args {
        [Some(Value::Timestamp(bits))] => Ok(Some(Value::Int64(i64::from(*bits as u32)))),
        _ => Err(wrong_type(
            ErrorCode::Location5687302,
            "$tsIncrement requires a timestamp, found",
            args.first().copied().flatten(),
        )),
    }
}

/// A date as `2020-01-31T13:05:00.000Z`.
pub(super) fn iso(millis: i64) -> Result<String> {
    format_date(&Local::new(millis, TimeZone::UTC)?, "%Y-%m-%dT%H:%M:%S.%LZ")
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

fn month_name(date: &Zoned) -> &'static str {
    usize::try_from(date.month() - 1).ok().and_then(|at| MONTHS.get(at)).copied().unwrap_or_default()
}

fn format_date(date: &Local, format: &str) -> Result<String> {
    use std::fmt::Write;
    if !(0..=9999).contains(&date.year()) {
        return Err(QueryError::new(
            ErrorCode::Location18537,
            format!("$dateToString is only defined on year 0-9999, tried to use year {}", date.year()),
        ));
    }
    let mut out = String::with_capacity(format.len() + 16);
    let mut chars = format.chars();
    while let Some(char) = chars.next() {
        if char != '%' {
            out.push(char);
            continue;
        }
        let code = chars.next();
        let iso = date.date().iso_week_date();
        let offset = date.offset().seconds() / 60;
        // Writing to a string cannot fail.
        let _ = match code {
            Some('%') => write!(out, "%"),
            Some('Y') => write!(out, "{:04}", date.year()),
            Some('m') => write!(out, "{:02}", date.month()),
            Some('d') => write!(out, "{:02}", date.day()),
            Some('H') => write!(out, "{:02}", date.hour()),
            Some('M') => write!(out, "{:02}", date.minute()),
            Some('S') => write!(out, "{:02}", date.second()),
            Some('L') => write!(out, "{:03}", date.millisecond()),
            Some('j') => write!(out, "{:03}", date.day_of_year()),
            Some('w') => write!(out, "{}", date.weekday().to_sunday_one_offset()),
            Some('u') => write!(out, "{}", date.weekday().to_monday_one_offset()),
            Some('U') => write!(out, "{:02}", sunday_week(date)),
            Some('V') => write!(out, "{:02}", iso.week()),
            Some('G') => write!(out, "{:04}", date.iso_year()),
            Some('b') => write!(out, "{:.3}", month_name(date)),
            Some('B') => write!(out, "{}", month_name(date)),
            Some('Z') => write!(out, "{offset}"),
            Some('z') => {
                let sign = if offset < 0 { '-' } else { '+' };
                write!(out, "{sign}{:02}{:02}", offset.abs() / 60, offset.abs() % 60)
            }
            other => return Err(bad_specifier(other)),
        };
    }
    Ok(out)
}

/// The error of a `%` with a character that has no meaning after it, or with none.
fn bad_specifier(found: Option<char>) -> QueryError {
    match found {
        Some(found) => QueryError::new(
            ErrorCode::Location18536,
            format!("Invalid format character '%{found}' in format string"),
        ),
        None => QueryError::new(ErrorCode::Location18535, "Unmatched '%' at end of format string"),
    }
}

pub(super) fn to_string<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[date, format, at, on_null] = args else { return Ok(None) };
    if nullish(date) {
        return Ok(on_null);
    }
    if nullish(format) || nullish(at) {
        return Ok(Some(Value::Null));
    }
    let at = zone(at)?;
    let format = match format {
        Some(Value::MaxKey) if at == TimeZone::UTC => "%Y-%m-%dT%H:%M:%S.%LZ",
        Some(Value::MaxKey) => "%Y-%m-%dT%H:%M:%S.%L",
        Some(Value::String(format)) => utf8(format),
        format => {
            let message = "$dateToString requires that 'format' be a string, found:";
            return Err(wrong_type(ErrorCode::Location18533, message, format));
        }
    };
    scope.text(&format_date(&Local::new(millis(date)?, at)?, format)?)
}

fn unparsable(text: &str, why: impl std::fmt::Display) -> QueryError {
    QueryError::new(ErrorCode::ConversionFailure, format!("Error parsing date string '{text}': {why}"))
}

/// Parses a date in ISO 8601 or in `format`, as milliseconds since 1970. `at` is the time zone of a string
/// that has none.
pub(super) fn parse(text: &str, format: Option<&str>, at: &str) -> Result<i64> {
    let (date, offset) = match format {
        Some(format) => parse_with_format(text, format)?,
        None => iso_parts(text)
            .ok_or_else(|| unparsable(text, "it is not an ISO 8601 date like 2020-01-31T13:05:00Z"))?,
    };
    let zone = match offset {
        Some(seconds) => {
            TimeZone::fixed(Offset::from_seconds(seconds).map_err(|error| unparsable(text, error))?)
        }
        None => zone_named(at)?,
    };
    let found = date.to_zoned(zone).map_err(|error| unparsable(text, error))?;
    Ok(found.timestamp().as_millisecond())
}

/// Removes `least` to `most` digits from the front and returns their value.
fn digits(text: &mut &str, least: usize, most: usize) -> Option<i64> {
    let len = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    if len < least {
        return None;
    }
    let (number, rest) = text.split_at_checked(len)?;
    *text = rest;
    number.parse().ok()
}

/// Removes `char` from the front; false if the string does not start with it.
fn take(text: &mut &str, char: char) -> bool {
    match text.strip_prefix(char) {
        Some(rest) => {
            *text = rest;
            true
        }
        None => false,
    }
}

/// Removes the digits of a fraction of any length from the front and returns the milliseconds.
fn fraction(text: &mut &str) -> Option<i64> {
    let len = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at_checked(len).filter(|_| len > 0)?;
    *text = rest;
    format!("{digits:0<3}").get(..3)?.parse().ok()
}

/// Removes an offset or a Z from the front and returns the offset in seconds.
fn offset(text: &mut &str) -> Option<i32> {
    if take(text, 'Z') || take(text, 'z') {
        return Some(0);
    }
    let len = 1 + text.get(1..)?.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b':').count();
    let (digits, rest) = text.split_at_checked(len)?;
    let seconds = offset_seconds(digits)?;
    *text = rest;
    Some(seconds)
}

fn civil_date(parts: [i64; 7]) -> Option<civil::DateTime> {
    let [year, month, day, hour, minute, second, milli] = parts;
    civil::DateTime::new(
        i16::try_from(year).ok()?,
        i8::try_from(month).ok()?,
        i8::try_from(day).ok()?,
        i8::try_from(hour).ok()?,
        i8::try_from(minute).ok()?,
        i8::try_from(second).ok()?,
        i32::try_from(milli).ok()?.checked_mul(1_000_000)?,
    )
    .ok()
}

fn iso_parts(text: &str) -> Option<(civil::DateTime, Option<i32>)> {
    let mut rest = text.trim();
    let text = &mut rest;
    let mut parts = [0, 1, 1, 0, 0, 0, 0];
    parts[0] = digits(text, 4, 4)?;
    let dashed = take(text, '-');
    parts[1] = digits(text, 2, 2)?;
    if dashed == take(text, '-') {
        parts[2] = digits(text, 2, 2)?;
    } else if !text.is_empty() {
        return None;
    }
    let mut zone = None;
    if take(text, 'T') || take(text, 't') || take(text, ' ') {
        parts[3] = digits(text, 2, 2)?;
        if take(text, ':') || text.starts_with(|char: char| char.is_ascii_digit()) {
            parts[4] = digits(text, 2, 2)?;
            if take(text, ':') || text.starts_with(|char: char| char.is_ascii_digit()) {
                parts[5] = digits(text, 2, 2)?;
                if take(text, '.') || take(text, ',') {
                    parts[6] = fraction(text)?;
                }
            }
        }
        take(text, ' ');
        if !text.is_empty() {
            zone = Some(offset(text)?);
        }
    }
    if !text.is_empty() {
        return None;
    }
    Some((civil_date(parts)?, zone))
}

fn parse_with_format(all: &str, format: &str) -> Result<(civil::DateTime, Option<i32>)> {
    let mut rest = all;
    let text = &mut rest;
    let mut parts = [1970, 1, 1, 0, 0, 0, 0];
    let (mut iso, mut day_of_year, mut zone) = ([None; 3], None, None);
    let mut chars = format.chars();
    let mismatch = |what: &str| unparsable(all, format!("it does not match the format at {what}"));
    while let Some(char) = chars.next() {
        if char != '%' {
            if !take(text, char) {
                return Err(mismatch(&format!("'{char}'")));
            }
            continue;
        }
        let code = chars.next().ok_or_else(|| bad_specifier(None))?;
        let number = |text: &mut &str, least, most| {
            digits(text, least, most).ok_or_else(|| mismatch(&format!("%{code}")))
        };
        match code {
            'Y' => parts[0] = number(text, 4, 4)?,
            'm' => parts[1] = number(text, 2, 2)?,
            'd' => parts[2] = number(text, 2, 2)?,
            'H' => parts[3] = number(text, 2, 2)?,
            'M' => parts[4] = number(text, 2, 2)?,
            'S' => parts[5] = number(text, 2, 2)?,
            'L' => parts[6] = fraction(text).ok_or_else(|| mismatch("%L"))?,
            'j' => day_of_year = Some(number(text, 3, 3)?),
            'G' => iso[0] = Some(number(text, 4, 4)?),
            'V' => iso[1] = Some(number(text, 2, 2)?),
            'u' => iso[2] = Some(number(text, 1, 1)?),
            'b' | 'B' => {
                let found = MONTHS.iter().position(|month| {
                    let name = if code == 'b' { month.get(..3).unwrap_or(month) } else { month };
                    let fits = text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
                    if fits {
                        *text = text.get(name.len()..).unwrap_or_default();
                    }
                    fits
                });
                parts[1] = found.ok_or_else(|| mismatch("%b"))? as i64 + 1;
            }
            'z' => zone = Some(offset(text).ok_or_else(|| mismatch("%z"))?),
            'Z' => {
                let sign = if take(text, '-') { -1 } else { 1 };
                take(text, '+');
                zone = Some(sign * 60 * number(text, 1, 4)? as i32);
            }
            '%' if take(text, '%') => {}
            '%' => return Err(mismatch("%%")),
            _ => return Err(bad_specifier(Some(code))),
        }
    }
    if !text.is_empty() {
        return Err(unparsable(all, "there is more text than the format describes"));
    }
    let date = civil_date(parts).ok_or_else(|| unparsable(all, "there is no such day or time"))?;
    let day = match (iso, day_of_year) {
        ([Some(year), week, day], _) => iso_day(year, week.unwrap_or(1), day.unwrap_or(1))
            .ok_or_else(|| unparsable(all, "there is no such week"))?,
        (_, Some(day)) => Span::new()
            .try_days(day - 1)
            .and_then(|span| date.date().first_of_year().checked_add(span))
            .map_err(|error| unparsable(all, error))?,
        _ => date.date(),
    };
    Ok((day.to_datetime(date.time()), zone))
}

fn iso_day(year: i64, week: i64, day: i64) -> Option<civil::Date> {
    let first = ISOWeekDate::new(i16::try_from(year).ok()?, 1, Weekday::Monday).ok()?.date();
    let days = week.checked_sub(1)?.checked_mul(7)?.checked_add(day.checked_sub(1)?)?;
    first.checked_add(Span::new().try_days(days).ok()?).ok()
}

pub(super) fn from_string<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[text, format, at, on_error, on_null] = args else { return Ok(None) };
    if nullish(text) {
        return Ok(on_null);
    }
    if nullish(format) || nullish(at) {
        return Ok(Some(Value::Null));
    }
    let format = match format {
        Some(Value::MaxKey) => None,
        Some(Value::String(format)) => Some(utf8(format)),
        format => {
            let message = "$dateFromString requires that 'format' be a string, found:";
            return Err(wrong_type(ErrorCode::Location40684, message, format));
        }
    };
    let Some(Value::String(at)) = at else { return Err(not_a_zone(at)) };
    let found = match text {
        Some(Value::String(text)) => parse(utf8(text), format, utf8(at)),
        text => {
            let message = "$dateFromString requires that 'dateString' be a string, found:";
            Err(wrong_type(ErrorCode::ConversionFailure, message, text))
        }
    };
    match (found, on_error) {
        (Ok(millis), _) => Ok(Some(Value::Date(millis))),
        (Err(error), Some(Value::MaxKey)) => Err(error),
        (Err(error), _) if error.code != ErrorCode::ConversionFailure => Err(error),
        (Err(_), on_error) => Ok(on_error),
    }
}

pub(super) fn to_parts<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[date, at, iso8601] = args else { return Ok(None) };
    let zone = zone(at)?;
    let Some(Value::Bool(iso8601)) = iso8601 else {
        return Err(wrong_type(ErrorCode::Location40521, "iso8601 must evaluate to a bool, found", iso8601));
    };
    let date = Local::new(millis(date)?, zone)?;
    let mut out = Writer::new(96);
    let year = |year: i64| i32::try_from(year).map_err(out_of_range);
    let mut int = |name: &str, value: i32| out.value(name.as_bytes(), Value::Int32(value));
    if iso8601 {
        let iso = date.date().iso_week_date();
        int("isoWeekYear", year(date.iso_year())?);
        int("isoWeek", iso.week().into());
        int("isoDayOfWeek", date.weekday().to_monday_one_offset().into());
    } else {
        int("year", year(date.year())?);
        int("month", date.month().into());
        int("day", date.day().into());
    }
    int("hour", date.hour().into());
    int("minute", date.minute().into());
    int("second", date.second().into());
    int("millisecond", date.millisecond().into());
    scope.document(out).map(Some)
}

/// Which numbers a part of `$dateFromParts` may be.
#[derive(Clone, Copy)]
enum PartKind {
    /// From 1 to 9999.
    Year,
    /// Those of 16 bits: a limit of MongoDB, which counts months, weeks and days one after the other.
    Small,
    Any,
}

/// The parts of `$dateFromParts`, in the order of its operands.
const PARTS: [(&str, PartKind); 10] = [
    ("year", PartKind::Year),
    ("month", PartKind::Small),
    ("day", PartKind::Small),
    ("isoWeekYear", PartKind::Year),
    ("isoWeek", PartKind::Small),
    ("isoDayOfWeek", PartKind::Small),
    ("hour", PartKind::Small),
    ("minute", PartKind::Small),
    ("second", PartKind::Any),
    ("millisecond", PartKind::Any),
];

/// A part of `$dateFromParts`.
fn date_part(name: &str, kind: PartKind, found: Found<'_>) -> Result<i64> {
    let number = found.and_then(|part| part.as_integer()).ok_or_else(|| {
        wrong_type(ErrorCode::Location40515, &format!("'{name}' must evaluate to an integer, found"), found)
    })?;
    let (range, code) = match kind {
        PartKind::Year if name == "year" => (1..=9999, ErrorCode::Location40523),
        PartKind::Year => (1..=9999, ErrorCode::Location31095),
        PartKind::Small => (i64::from(i16::MIN)..=i64::from(i16::MAX), ErrorCode::Location31034),
        PartKind::Any => return Ok(number),
    };
    if range.contains(&number) {
        return Ok(number);
    }
    let (low, high) = range.into_inner();
    Err(QueryError::new(
        code,
        format!("'{name}' must evaluate to an integer in the range {low} to {high}, found {number}"),
    ))
}

pub(super) fn from_parts<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let (Some((at, parts)), true) = (args.split_last(), args.len() == 11) else { return Ok(None) };
    let zone = zone(*at)?;
    let mut numbers = [None; 10];
    for ((number, part), (name, kind)) in numbers.iter_mut().zip(parts).zip(PARTS) {
        *number = match part {
            Some(Value::MaxKey) => None,
            part => Some(date_part(name, kind, *part)?),
        };
    }
    let [year, month, day, iso_year, iso_week, iso_day_of_week, hour, minute, second, milli] =
        numbers.map(|number| number.unwrap_or(0));
    let start = match (numbers[0], numbers[3]) {
        (Some(_), None) => {
            // Months outside 1 to 12 carry into other years.
            let months = year * 12 + month - 1;
            let first = i16::try_from(months.div_euclid(12))
                .ok()
                .and_then(|year| civil::Date::new(year, months.rem_euclid(12) as i8 + 1, 1).ok());
            first.and_then(|first| first.checked_add(Span::new().try_days(day - 1).ok()?).ok())
        }
        (None, Some(_)) => iso_day(iso_year, iso_week, iso_day_of_week),
        // The parser has refused these.
        _ => return Ok(None),
    };
    let time_of_day = Span::new()
        .try_hours(hour)
        .and_then(|span| span.try_minutes(minute))
        .and_then(|span| span.try_seconds(second))
        .and_then(|span| span.try_milliseconds(milli))
        .map_err(out_of_range)?;
    let start = start.ok_or_else(|| out_of_range("no such day"))?;
    let local = start.to_datetime(civil::Time::midnight()).checked_add(time_of_day).map_err(out_of_range)?;
    let found = local.to_zoned(zone).map_err(out_of_range)?;
    Ok(Some(Value::Date(found.timestamp().as_millisecond())))
}

/// A unit of date arithmetic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Unit {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    /// A unit of fixed length, in milliseconds.
    Clock(i64),
}

impl Unit {
    pub(crate) fn parse(name: &str) -> Option<Unit> {
        Some(match name {
            "year" => Unit::Year,
            "quarter" => Unit::Quarter,
            "month" => Unit::Month,
            "week" => Unit::Week,
            "day" => Unit::Day,
            "hour" => Unit::Clock(3_600_000),
            "minute" => Unit::Clock(60_000),
            "second" => Unit::Clock(1000),
            "millisecond" => Unit::Clock(1),
            _ => return None,
        })
    }
}

fn unit(found: Found<'_>) -> Result<Unit> {
    match found {
        Some(Value::String(name)) => Unit::parse(utf8(name)).ok_or_else(|| {
            QueryError::new(ErrorCode::FailedToParse, format!("unknown time unit value: {}", utf8(name)))
        }),
        found => Err(wrong_type(ErrorCode::Location5439013, "'unit' must be a string, found", found)),
    }
}

fn amount(code: ErrorCode, operator: &str, what: &str, found: Found<'_>) -> Result<i64> {
    found
        .and_then(|value| value.as_integer())
        .ok_or_else(|| wrong_type(code, &format!("{operator}: {what} must be a whole number, found"), found))
}

/// Adds `amount` units to `millis`. Units of a day or longer are calendar units in `zone`.
pub(crate) fn moved(millis: i64, unit: Unit, amount: i64, zone: &TimeZone) -> Result<i64> {
    let span = match unit {
        Unit::Clock(len) => {
            let by = amount.checked_mul(len).and_then(|by| millis.checked_add(by));
            return by.ok_or_else(|| out_of_range("overflow"));
        }
        Unit::Year => Span::new().try_years(amount),
        Unit::Quarter => amount
            .checked_mul(3)
            .map_or_else(|| Span::new().try_months(i64::MAX), |by| Span::new().try_months(by)),
        Unit::Month => Span::new().try_months(amount),
        Unit::Week => Span::new().try_weeks(amount),
        Unit::Day => Span::new().try_days(amount),
    };
    let moved =
        zoned(millis, zone.clone())?.checked_add(span.map_err(out_of_range)?).map_err(out_of_range)?;
    Ok(moved.timestamp().as_millisecond())
}

fn add_amount<'a>(operator: &str, args: &[Found<'a>], sign: i64) -> Result<Found<'a>> {
    let &[date, by, count, at] = args else { return Ok(None) };
    let (by, zone) = (unit(by)?, zone(at)?);
    let date = millis_of(date).ok_or_else(|| {
        let message = format!("{operator} requires startDate to be convertible to a date, found");
        wrong_type(ErrorCode::Location5166403, &message, date)
    })?;
    let count = amount(ErrorCode::Location5166405, operator, "amount", count)?.checked_mul(sign);
    let count = count.ok_or_else(|| out_of_range("overflow"))?;
    Ok(Some(Value::Date(moved(date, by, count, &zone)?)))
}

pub(super) fn add<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    add_amount("$dateAdd", args, 1)
}

pub(super) fn subtract<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    add_amount("$dateSubtract", args, -1)
}

/// The first day of the week: Monday is 0.
fn first_weekday(found: Found<'_>) -> Result<i64> {
    const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    const NAMES: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let name = match found {
        Some(Value::String(name)) => utf8(name).to_ascii_lowercase(),
        found => {
            return Err(wrong_type(ErrorCode::Location5439015, "startOfWeek must be a string, found", found));
        }
    };
    let at = DAYS.iter().zip(NAMES).position(|(short, long)| *short == name || long == name);
    at.map(|at| at as i64).ok_or_else(|| {
        QueryError::new(ErrorCode::Location5439016, format!("startOfWeek '{name}' is not a day of the week"))
    })
}

/// The local time of `date`, in milliseconds since 1970 as if it were UTC.
fn local_millis(date: &Zoned) -> i64 {
    date.timestamp().as_millisecond() + i64::from(date.offset().seconds()) * 1000
}

/// The number of the week of `day` (days since 1970-01-01, a Thursday), for weeks that begin on `first`
/// (Monday is 0).
fn week_number(day: i64, first: i64) -> i64 {
    (day + 3 - first).div_euclid(7)
}

/// The time that `$dateDiff` or `$dateTrunc` starts from.
fn date_operand(operator: &str, found: Found<'_>) -> Result<i64> {
    millis_of(found).ok_or_else(|| {
        wrong_type(ErrorCode::Location5166307, &format!("{operator} requires a date, found"), found)
    })
}

pub(super) fn diff<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[from, to, by, at, first] = args else { return Ok(None) };
    let (by, at) = (unit(by)?, zone(at)?);
    let (from, to) = (date_operand("$dateDiff", from)?, date_operand("$dateDiff", to)?);
    let (from, to) = (zoned(from, at.clone())?, zoned(to, at)?);
    let months = |date: &Zoned| i64::from(date.year()) * 12 + i64::from(date.month()) - 1;
    let day = |date: &Zoned| local_millis(date).div_euclid(DAY);
    let count = match by {
        Unit::Year => i64::from(to.year()) - i64::from(from.year()),
        Unit::Quarter => months(&to).div_euclid(3) - months(&from).div_euclid(3),
        Unit::Month => months(&to) - months(&from),
        Unit::Week => {
            let first = first_weekday(first)?;
            week_number(day(&to), first) - week_number(day(&from), first)
        }
        Unit::Day => day(&to) - day(&from),
        Unit::Clock(3_600_000) => {
            // Elapsed hours: if the offset changed in between, a skipped or repeated hour counts as it
            // elapsed.
            let hours =
                |date: &Zoned| date.timestamp().as_millisecond() + i64::from(from.offset().seconds()) * 1000;
            hours(&to).div_euclid(3_600_000) - hours(&from).div_euclid(3_600_000)
        }
        Unit::Clock(len) => {
            let units = |date: &Zoned| date.timestamp().as_millisecond().div_euclid(len);
            units(&to) - units(&from)
        }
    };
    Ok(Some(Value::Int64(count)))
}

pub(super) fn trunc<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[date, by, bin, at, first] = args else { return Ok(None) };
    let bin = amount(ErrorCode::Location5439017, "$dateTrunc", "binSize", bin)?;
    if !(1..=1 << 40).contains(&bin) {
        let code = if bin < 1 { ErrorCode::Location5439018 } else { ErrorCode::Location5439006 };
        return Err(QueryError::new(
            code,
            format!("$dateTrunc: binSize must be greater than 0 and of moderate size, not {bin}"),
        ));
    }
    let (unit, zone) = (unit(by)?, zone(at)?);
    let date = zoned(date_operand("$dateTrunc", date)?, zone.clone())?;
    let floor = |value: i64, size: i64| value.div_euclid(size).saturating_mul(size);
    let local = local_millis(&date);
    let days = |local: i64| (local - BIN_ORIGIN).div_euclid(DAY);
    let months = |size: i64| {
        let month = (i64::from(date.year()) - 2000) * 12 + i64::from(date.month()) - 1;
        let month = floor(month, size);
        let year = i16::try_from(2000 + month.div_euclid(12)).ok();
        let start = year.and_then(|year| civil::Date::new(year, month.rem_euclid(12) as i8 + 1, 1).ok());
        start.ok_or_else(|| out_of_range("no such month"))
    };
    let start = match unit {
        Unit::Year => months(bin.saturating_mul(12))?,
        Unit::Quarter => months(bin.saturating_mul(3))?,
        Unit::Month => months(bin)?,
        Unit::Week | Unit::Day => {
            // Weeks are counted from the first `startOfWeek` day on or after the Saturday 2000-01-01.
            let (origin, size) = match unit {
                Unit::Week => ((first_weekday(first)? - 5).rem_euclid(7), bin.saturating_mul(7)),
                _ => (0, bin),
            };
            let day = floor(days(local) - origin, size) + origin;
            let day = Span::new().try_days(day).map_err(out_of_range)?;
            civil::date(2000, 1, 1).checked_add(day).map_err(out_of_range)?
        }
        Unit::Clock(len) => {
            let size = len.saturating_mul(bin);
            let by = local - BIN_ORIGIN - floor(local - BIN_ORIGIN, size);
            return Ok(Some(Value::Date(date.timestamp().as_millisecond() - by)));
        }
    };
    let found = start.to_datetime(civil::Time::midnight()).to_zoned(zone).map_err(out_of_range)?;
    Ok(Some(Value::Date(found.timestamp().as_millisecond())))
}
