//! Fields of a table, and what a cell means.

use std::str::FromStr;

use bson::oid::ObjectId;
use bson::{Bson, DateTime, Decimal128, Document};
use clap::ValueEnum;
use treedb_query::doc::MAX_DEPTH;
use treedb_query::doc::json::from_json;

/// A column: a name, whose dots lead into documents, and a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Field {
    pub(super) name: String,
    pub(super) kind: CellType,
}

/// What the cells of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum CellType {
    /// A number if it is written as one, otherwise a text
    Auto,
    String,
    Int,
    Long,
    Double,
    Decimal,
    Bool,
    Date,
    Objectid,
    Json,
}

/// `NAME` or `NAME:TYPE`. A name may have colons, if what follows the last is no type.
impl FromStr for Field {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let typed =
            text.rsplit_once(':').and_then(|(name, kind)| Some((name, CellType::from_str(kind, true).ok()?)));
        let (name, kind) = typed.unwrap_or((text, CellType::Auto));
        let name = name.trim();
        if name.is_empty() || name.split('.').any(str::is_empty) {
            return Err(format!("{text:?} is not the name of a field"));
        }
        if name.split('.').count() > MAX_DEPTH {
            let start: String = name.chars().take(30).collect();
            return Err(format!(
                "\"{start}...\" has more than {MAX_DEPTH} parts, but documents are not nested deeper"
            ));
        }
        if name.starts_with('$') || name.contains('\0') {
            return Err(format!("{text:?}: a field cannot be called that"));
        }
        Ok(Field { name: name.to_owned(), kind })
    }
}

/// A number, as `auto` reads it: whole ones as `int` or `long`, others as `double`. Leading zeros and signs other than a minus
/// belong to texts: telephone numbers, postal codes.
fn number(text: &str) -> Option<Bson> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let leading_zero = digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.");
    if leading_zero || !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let long: i64 = text.parse().ok()?;
        return Some(i32::try_from(long).map_or(Bson::Int64(long), Bson::Int32));
    }
    text.parse().ok().filter(|double: &f64| double.is_finite()).map(Bson::Double)
}

impl CellType {
    /// The value of a cell; `None` if it has none.
    ///
    /// # Errors
    /// It is not of this type: what was expected.
    pub(super) fn value(self, text: &str) -> Result<Option<Bson>, String> {
        let trimmed = text.trim();
        if trimmed.is_empty() && !matches!(self, CellType::Auto | CellType::String) {
            return Ok(None);
        }
        let wrong = |expected: &str| format!("{text:?} is not {expected}");
        Ok(Some(match self {
            CellType::Auto => number(trimmed).unwrap_or_else(|| Bson::String(text.to_owned())),
            CellType::String => Bson::String(text.to_owned()),
            CellType::Int => Bson::Int32(trimmed.parse().map_err(|_| wrong("an int (32 bits)"))?),
            CellType::Long => Bson::Int64(trimmed.parse().map_err(|_| wrong("a long (64 bits)"))?),
            CellType::Double => Bson::Double(trimmed.parse().map_err(|_| wrong("a number"))?),
            CellType::Decimal => {
                Bson::Decimal128(trimmed.parse::<Decimal128>().map_err(|_| wrong("a decimal number"))?)
            }
            CellType::Bool => match trimmed.to_ascii_lowercase().as_str() {
                "true" | "t" | "yes" | "1" => Bson::Boolean(true),
                "false" | "f" | "no" | "0" => Bson::Boolean(false),
                _ => return Err(wrong("true or false")),
            },
            CellType::Date => Bson::DateTime(date(trimmed).ok_or_else(|| {
                wrong("a date, such as 2026-01-02 or 2026-01-02T03:04:05.006Z or milliseconds since 1970")
            })?),
            CellType::Objectid => Bson::ObjectId(
                ObjectId::parse_str(trimmed).map_err(|_| wrong("an ObjectId (24 hexadecimal digits)"))?,
            ),
            CellType::Json => {
                let holder = from_json(&format!("{{\"\":{trimmed}}}")).map_err(|_| wrong("JSON"))?;
                let mut holder = Document::try_from(holder).map_err(|error| error.to_string())?;
                // Of several values one would have been meant.
                holder.remove("").filter(|_| holder.is_empty()).ok_or_else(|| wrong("one JSON value"))?
            }
        }))
    }
}

/// A date: a day, a time with its zone, or milliseconds.
fn date(text: &str) -> Option<DateTime> {
    if let Ok(millis) = text.parse() {
        return Some(DateTime::from_millis(millis));
    }
    let text = text.replacen(' ', "T", 1);
    let complete = if text.contains('T') { text } else { format!("{text}T00:00:00Z") };
    // Without a zone it is in UTC.
    let zoned =
        complete.ends_with(['Z', 'z']) || complete.get(10..).is_some_and(|time| time.contains(['+', '-']));
    DateTime::parse_rfc3339_str(if zoned { complete } else { format!("{complete}Z") }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_may_have_a_type() {
        let field = |text: &str| text.parse::<Field>().map(|field| (field.name, field.kind));
        assert_eq!(field("a"), Ok(("a".into(), CellType::Auto)));
        assert_eq!(field("a.b:Date"), Ok(("a.b".into(), CellType::Date)));
        assert_eq!(field("x:y"), Ok(("x:y".into(), CellType::Auto)));
        for bad in ["", ":int", "a..b", ".a", "$a"] {
            assert!(field(bad).is_err(), "{bad}");
        }
        assert!(field(&vec!["a"; MAX_DEPTH].join(".")).is_ok());
        let error = field(&vec!["a"; MAX_DEPTH + 1].join(".")).unwrap_err();
        assert!(error.contains("more than 100 parts"), "{error}");
    }

    #[test]
    fn cells_have_the_values_of_their_type() {
        use CellType::*;
        for (kind, text, value) in [
            (Auto, "7", Bson::Int32(7)),
            (Auto, "-3000000000", Bson::Int64(-3_000_000_000)),
            (Auto, "1.5", Bson::Double(1.5)),
            (Auto, "2e3", Bson::Double(2000.0)),
            (Auto, "007", Bson::String("007".into())),
            (Auto, "+49", Bson::String("+49".into())),
            (Auto, "99999999999999999999", Bson::String("99999999999999999999".into())),
            (Auto, "NaN", Bson::String("NaN".into())),
            (Auto, " a ", Bson::String(" a ".into())),
            (Auto, "", Bson::String("".to_owned())),
            (String, "7", Bson::String("7".into())),
            (Long, "7", Bson::Int64(7)),
            (Double, "7", Bson::Double(7.0)),
            (Bool, "TRUE", Bson::Boolean(true)),
            (Date, "2026-01-02", Bson::DateTime(DateTime::from_millis(1_767_312_000_000))),
            (Date, "2026-01-02 00:00:00.5", Bson::DateTime(DateTime::from_millis(1_767_312_000_500))),
            (Date, "2026-01-02T01:00:00+01:00", Bson::DateTime(DateTime::from_millis(1_767_312_000_000))),
            (Date, "5", Bson::DateTime(DateTime::from_millis(5))),
            (Json, "[1, {\"a\": true}]", bson::bson!([1, { "a": true }])),
            (
                Json,
                "{\"$oid\": \"0123456789abcdef01234567\"}",
                Bson::ObjectId("0123456789abcdef01234567".parse().unwrap()),
            ),
        ] {
            assert_eq!(kind.value(text), Ok(Some(value)), "{kind:?} {text:?}");
        }
        for kind in [Int, Long, Double, Decimal, Bool, Date, Objectid, Json] {
            assert_eq!(kind.value(" "), Ok(None), "{kind:?}");
            assert!(kind.value("xyz").is_err(), "{kind:?}");
        }
        assert!(Json.value("1, \"a\": 2").is_err() && Json.value("1}, {").is_err());
        assert!(Int.value("3000000000").unwrap_err().contains("32 bits"));
    }
}
