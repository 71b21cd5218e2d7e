//! Kinds of values: how each is written in a file, in the environment and as a flag.
//!
//! Sizes and times may have units (`512MiB`, `90s`), and a unit of the wrong kind is an error instead of another number.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::PossibleValue;

use crate::config::{Address, Compressors, MAX_MESSAGE_BYTES};

/// A value as it was given. The environment and flags give texts only.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Raw {
    Text(String),
    Number(String),
    Switch(bool),
    List(Vec<String>),
    /// Something that no setting is: a float, a date, a table.
    Other(&'static str),
}

impl Raw {
    /// A text from the environment or from a flag.
    pub(crate) fn text(text: &str) -> Raw {
        Raw::Text(text.to_owned())
    }

    /// The text, or the number as text.
    fn scalar(&self, expected: &str) -> Result<&str, String> {
        match self {
            Raw::Text(text) | Raw::Number(text) => Ok(text),
            Raw::Switch(_) => Err(format!("expected {expected}, not true or false")),
            Raw::List(_) => Err(format!("expected {expected}, not a list")),
            Raw::Other(what) => Err(format!("expected {expected}, not a {what}")),
        }
    }
}

/// A kind of values.
pub(crate) trait Kind: Sized {
    /// What help calls the value; empty if a flag does without.
    const FORM: &'static str;

    /// Reads a value. The error says what was expected.
    fn parse(raw: &Raw) -> Result<Self, String>;

    /// As TOML.
    fn toml(&self) -> String;

    /// All values, if they can be listed.
    fn choices() -> Vec<PossibleValue> {
        Vec::new()
    }
}

/// A text as TOML.
fn quoted(text: &str) -> String {
    let mut toml = String::with_capacity(text.len() + 2);
    toml.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => toml.extend(['\\', c]),
            c if c.is_control() => toml.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => toml.push(c),
        }
    }
    toml.push('"');
    toml
}

/// A list of texts as TOML.
fn quoted_list<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    format!("[{}]", texts.map(quoted).collect::<Vec<_>>().join(", "))
}

impl Kind for bool {
    const FORM: &'static str = "";

    fn parse(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::Switch(on) => Ok(*on),
            Raw::Text(text) if text == "true" => Ok(true),
            Raw::Text(text) if text == "false" => Ok(false),
            _ => Err("expected true or false".to_owned()),
        }
    }

    fn toml(&self) -> String {
        self.to_string()
    }
}

impl Kind for PathBuf {
    const FORM: &'static str = "PATH";

    fn parse(raw: &Raw) -> Result<Self, String> {
        Ok(String::parse(raw)?.into())
    }

    fn toml(&self) -> String {
        quoted(&self.to_string_lossy())
    }
}

impl Kind for String {
    const FORM: &'static str = "TEXT";

    fn parse(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::Text(text) if !text.is_empty() => Ok(text.clone()),
            Raw::Text(_) => Err("must not be empty".to_owned()),
            Raw::Number(_) => Err("expected a text: write it in quotes".to_owned()),
            other => other.scalar("a text").map(str::to_owned),
        }
    }

    fn toml(&self) -> String {
        quoted(self)
    }
}

impl Kind for Address {
    const FORM: &'static str = "HOST:PORT";

    fn parse(raw: &Raw) -> Result<Self, String> {
        raw.scalar("HOST:PORT, such as \"127.0.0.1:27017\"")?.parse()
    }

    fn toml(&self) -> String {
        quoted(&self.to_string())
    }
}

impl Kind for Compressors {
    const FORM: &'static str = "NAMES";

    fn parse(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::List(names) if names.is_empty() => Ok(Compressors::NONE),
            Raw::List(names) => names.join(",").parse(),
            other => other.scalar("a list of names")?.parse(),
        }
    }

    fn toml(&self) -> String {
        quoted_list(self.names())
    }
}

/// A number without a unit, at least `LEAST`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count<const LEAST: u64>(pub(crate) u64);

impl<const LEAST: u64> Kind for Count<LEAST> {
    const FORM: &'static str = "N";

    fn parse(raw: &Raw) -> Result<Self, String> {
        let (number, unit) = number(raw, "a number")?;
        if !unit.is_empty() {
            return Err(format!("expected a number without a unit, not {unit:?}"));
        }
        at_least(number, LEAST).map(Count)
    }

    fn toml(&self) -> String {
        self.0.to_string()
    }
}

/// Units of sizes, in bytes.
const SIZES: [(&str, u64); 9] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];
/// Units of times, in milliseconds.
const TIMES: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// A size in bytes, at least `LEAST`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bytes<const LEAST: u64>(pub(crate) u64);

/// The size of the largest message, which what holds messages must have.
pub(crate) const MESSAGE: u64 = MAX_MESSAGE_BYTES as u64;

impl<const LEAST: u64> Kind for Bytes<LEAST> {
    const FORM: &'static str = "BYTES";

    fn parse(raw: &Raw) -> Result<Self, String> {
        let expected = "bytes, or a size such as \"64KiB\", \"512MiB\", \"8GiB\"";
        let (number, unit) = number(raw, expected)?;
        let bytes = match (unit, factor(&SIZES, unit)) {
            ("", _) => Some(number),
            (_, Some(factor)) => number.checked_mul(factor),
            (unit, None) if factor(&TIMES, unit).is_some() => {
                return Err(format!("{unit:?} is a unit of time: expected {expected}"));
            }
            (unit, None) => return Err(format!("unknown unit {unit:?}: expected {expected}")),
        };
        let bytes = at_least(bytes.ok_or("too large")?, LEAST);
        match LEAST {
            MESSAGE => bytes.map_err(|least| format!("{least}, the size of the largest message")),
            _ => bytes,
        }
        .map(Bytes)
    }

    fn toml(&self) -> String {
        let unit = SIZES[1..5].iter().rev().find(|(_, factor)| self.0 > 0 && self.0.is_multiple_of(*factor));
        unit.map_or_else(
            || self.0.to_string(),
            |(unit, factor)| quoted(&format!("{}{unit}", self.0 / factor)),
        )
    }
}

/// A time, at least `LEAST` units of `MILLIS` milliseconds: that unit is meant if there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time<const MILLIS: u64, const LEAST: u64>(pub(crate) Duration);

/// A time whose usual unit is the second.
pub(crate) type Seconds<const LEAST: u64> = Time<1_000, LEAST>;
/// A time whose usual unit is the millisecond.
pub(crate) type Millis<const LEAST: u64> = Time<1, LEAST>;
/// A time whose usual unit is the hour.
pub(crate) type Hours<const LEAST: u64> = Time<3_600_000, LEAST>;

/// The longest time, in milliseconds: a hundred years.
const LONGEST: u64 = 100 * 365 * 86_400_000;

impl<const MILLIS: u64, const LEAST: u64> Kind for Time<MILLIS, LEAST> {
    const FORM: &'static str = match MILLIS {
        1 => "MILLISECONDS",
        1_000 => "SECONDS",
        _ => "HOURS",
    };

    fn parse(raw: &Raw) -> Result<Self, String> {
        let expected = format!(
            "{}, or a time such as \"200ms\", \"90s\", \"5m\", \"2h\", \"1d\"",
            Self::FORM.to_lowercase()
        );
        let (number, unit) = number(raw, &expected)?;
        let millis = match (unit, factor(&TIMES, unit)) {
            ("", _) => number.checked_mul(MILLIS),
            (_, Some(factor)) => number.checked_mul(factor),
            (unit, None) if factor(&SIZES, unit).is_some() => {
                return Err(format!("{unit:?} is a unit of size: expected {expected}"));
            }
            (unit, None) => return Err(format!("unknown unit {unit:?}: expected {expected}")),
        };
        let millis = millis.filter(|millis| *millis <= LONGEST).ok_or("longer than a hundred years")?;
        if millis < LEAST * MILLIS {
            return Err(format!("must be at least {LEAST} {}", Self::FORM.to_lowercase()));
        }
        Ok(Time(Duration::from_millis(millis)))
    }

    fn toml(&self) -> String {
        let millis = u64::try_from(self.0.as_millis()).unwrap_or(LONGEST);
        let unit = TIMES[..4].iter().rev().find(|(_, factor)| millis > 0 && millis.is_multiple_of(*factor));
        let (unit, factor) = unit.unwrap_or(&TIMES[1]);
        quoted(&format!("{}{unit}", millis / factor))
    }
}

fn factor(units: &[(&str, u64)], unit: &str) -> Option<u64> {
    units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)
}

fn at_least(number: u64, least: u64) -> Result<u64, String> {
    if number < least { Err(format!("must be at least {least}")) } else { Ok(number) }
}

/// A number and its unit.
fn number<'r>(raw: &'r Raw, expected: &str) -> Result<(u64, &'r str), String> {
    let text = raw.scalar(expected)?.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(digits);
    if digits.is_empty() || unit.starts_with(['.', ',', '_']) {
        return Err(format!("expected {expected}"));
    }
    Ok((digits.parse().map_err(|_| "too large")?, unit.trim_start()))
}

/// One of a few names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice<T>(pub(crate) T);

fn names<T: ValueEnum>() -> Vec<String> {
    let all = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    all.map(|value| value.get_name().to_owned()).collect()
}

fn chosen<T: ValueEnum>(text: &str) -> Result<T, String> {
    T::from_str(text, false).map_err(|_| format!("expected one of {}", names::<T>().join(", ")))
}

fn name_of<T: ValueEnum>(value: &T) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

impl<T: ValueEnum> Kind for Choice<T> {
    const FORM: &'static str = "NAME";

    fn parse(raw: &Raw) -> Result<Self, String> {
        match raw {
            // `change_log = true` says what is meant.
            Raw::Switch(on) if names::<T>() == ["on", "off"] => chosen(if *on { "on" } else { "off" }),
            other => chosen(other.scalar(&format!("one of {}", names::<T>().join(", ")))?),
        }
        .map(Choice)
    }

    fn toml(&self) -> String {
        quoted(&name_of(&self.0))
    }

    fn choices() -> Vec<PossibleValue> {
        T::value_variants().iter().filter_map(ValueEnum::to_possible_value).collect()
    }
}

/// Some of a few names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Several<T>(pub(crate) Vec<T>);

impl<T: ValueEnum> Kind for Several<T> {
    const FORM: &'static str = "NAMES";

    fn parse(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::List(list) => list.iter().map(|name| chosen(name)).collect::<Result<_, _>>(),
            other => {
                let text = other.scalar(&format!("some of {}", names::<T>().join(", ")))?;
                text.split(',').filter(|name| !name.is_empty()).map(|name| chosen(name.trim())).collect()
            }
        }
        .map(Several)
    }

    fn toml(&self) -> String {
        let names: Vec<String> = self.0.iter().map(name_of).collect();
        quoted_list(names.iter().map(String::as_str))
    }

    fn choices() -> Vec<PossibleValue> {
        Choice::<T>::choices()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_have_units_and_the_wrong_ones_are_errors() {
        let bytes = |text: &str| Bytes::<0>::parse(&Raw::text(text)).map(|bytes| bytes.0);
        for (text, size) in
            [("5", 5), ("64KiB", 65_536), ("1 MiB", 1 << 20), ("2GB", 2_000_000_000), ("0", 0)]
        {
            assert_eq!(bytes(text), Ok(size), "{text}");
        }
        let seconds = |text: &str| Seconds::<1>::parse(&Raw::text(text)).map(|time| time.0.as_millis());
        for (text, millis) in [("5", 5_000), ("90s", 90_000), ("2h", 7_200_000), ("1500ms", 1_500)] {
            assert_eq!(seconds(text), Ok(millis), "{text}");
        }
        for (error, message) in [
            (bytes("5m").err(), "a unit of time"),
            (bytes("5M").err(), "unknown unit"),
            (bytes("1.5GiB").err(), "expected bytes"),
            (bytes("").err(), "expected bytes"),
            (bytes("-1").err(), "expected bytes"),
            (bytes("99999999999TiB").err(), "too large"),
            (bytes("99999999999999999999").err(), "too large"),
            (Bytes::<5>::parse(&Raw::text("4")).err(), "at least 5"),
            (Bytes::<0>::parse(&Raw::Switch(true)).err(), "not true or false"),
            (seconds("5MiB").err(), "a unit of size"),
            (seconds("0").err(), "at least 1 seconds"),
            (seconds("40000d").err(), "hundred years"),
            (Count::<0>::parse(&Raw::text("5s")).err(), "without a unit"),
        ] {
            assert!(error.as_ref().is_some_and(|error| error.contains(message)), "{message}: {error:?}");
        }
    }

    #[test]
    fn what_is_printed_reads_as_the_same_value() {
        for size in [0, 1, 1000, 65_536, 3 << 20, 5 << 30] {
            let toml = Bytes::<0>(size).toml();
            assert_eq!(Bytes::<0>::parse(&Raw::text(toml.trim_matches('"'))), Ok(Bytes(size)), "{toml}");
        }
        for millis in [0, 1, 999, 1_000, 90_000, 7_200_000, 172_800_000] {
            let time = Seconds::<0>::parse(&Raw::text(&format!("{millis}ms"))).unwrap();
            assert_eq!(Seconds::parse(&Raw::text(time.toml().trim_matches('"'))), Ok(time));
        }
    }
}
