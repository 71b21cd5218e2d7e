//! Values as they are written in shells: JSON, and what JavaScript allows beyond it.
//!
//! Names need no quotation marks, texts have single or double ones, commas may come last, comments are skipped, and what JSON has no
//! type for is written by constructors: `ObjectId("..")`, `ISODate("..")`, `NumberLong(5)`, `/regex/i`. A value is turned into MongoDB's
//! extended JSON, which the reader of `treedb import` makes BSON of, so that both agree about it: `{$oid: ".."}` is an ObjectId too.
//! Nothing is computed: `1 + 1`, variables and functions are errors.

use bson::{Bson, DateTime, Document, rawdoc};
use treedb_query::doc::json::{from_json, to_json};

/// Documents can be nested 100 levels deep; a command has a few more around them.
const DEEPEST: usize = 120;

/// Why a text is no value or statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It ends too early: another line may complete it.
    Incomplete(&'static str),
    /// It is wrong, at this byte.
    Wrong(usize, String),
}

/// A text that is read from left to right.
#[derive(Debug, Clone)]
pub(crate) struct Scanner<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

/// A value that has been read.
#[derive(Debug)]
enum Written {
    Text(String),
    Number(String),
    /// Anything else, as extended JSON.
    Json(String),
}

impl Written {
    fn json(self) -> String {
        match self {
            Written::Text(text) => quoted(&text),
            Written::Number(json) | Written::Json(json) => json,
        }
    }
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let json = to_json(&rawdoc! { "": text });
    json.strip_prefix("{\"\":").and_then(|json| json.strip_suffix('}')).unwrap_or("\"\"").to_owned()
}

/// Whether a name may be written without quotation marks.
pub(crate) fn is_name(text: &str) -> bool {
    !text.starts_with(|c: char| c.is_ascii_digit()) && !text.is_empty() && text.chars().all(is_of_name)
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$')
}

impl<'t> Scanner<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Scanner { text, at: 0, depth: 0 }
    }

    /// What has not been read.
    pub(crate) fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(crate) fn wrong<T>(&self, message: impl Into<String>) -> Result<T, Unreadable> {
        Err(Unreadable::Wrong(self.at, message.into()))
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    /// Reads as long as `wanted`.
    pub(crate) fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    /// Reads a text, if it is what comes next.
    pub(crate) fn accept(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        self.at += if found { text.len() } else { 0 };
        found
    }

    /// Skips spaces, line breaks and comments.
    pub(crate) fn skip(&mut self) -> Result<(), Unreadable> {
        loop {
            self.take_while(char::is_whitespace);
            if self.accept("//") {
                self.take_while(|c| c != '\n');
            } else if self.accept("/*") {
                let Some(end) = self.rest().find("*/") else {
                    return Err(Unreadable::Incomplete("a comment is not closed"));
                };
                self.at += end + 2;
            } else {
                return Ok(());
            }
        }
    }

    /// A name without quotation marks; empty if there is none.
    pub(crate) fn name(&mut self) -> &'t str {
        self.take_while(is_of_name)
    }

    /// The arguments of a call, after its opening parenthesis.
    pub(crate) fn arguments(
        &mut self,
        password: &dyn Fn() -> Result<String, String>,
    ) -> Result<Vec<Bson>, Unreadable> {
        let began = self.at;
        let values = self.list(')', password)?;
        let fields = values.into_iter().enumerate().map(|(n, value)| format!("\"{n}\":{}", value.json()));
        let json = format!("{{{}}}", fields.collect::<Vec<_>>().join(","));
        let read = from_json(&json).ok().and_then(|raw| Document::try_from(&*raw).ok());
        match read {
            Some(read) => Ok(read.into_iter().map(|(_, value)| value).collect()),
            None => {
                let why = from_json(&json).err().map_or_else(String::new, |error| error.message);
                Err(Unreadable::Wrong(began, why))
            }
        }
    }

    fn list(
        &mut self,
        end: char,
        password: &dyn Fn() -> Result<String, String>,
    ) -> Result<Vec<Written>, Unreadable> {
        let mut values = Vec::new();
        loop {
            self.skip()?;
            if self.accept(end.encode_utf8(&mut [0; 4])) {
                return Ok(values);
            }
            values.push(self.value(password)?);
            self.comma_before(end)?;
        }
    }

    /// A comma, or the end of a list.
    fn comma_before(&mut self, end: char) -> Result<(), Unreadable> {
        self.skip()?;
        match self.peek() {
            Some(',') => drop(self.next()),
            Some(c) if c == end => {}
            None => return Err(Unreadable::Incomplete("a bracket is not closed")),
            Some(c) => return self.wrong(format!("expected , or {end} and found {c}")),
        }
        Ok(())
    }

    fn value(&mut self, password: &dyn Fn() -> Result<String, String>) -> Result<Written, Unreadable> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return self.wrong(format!("values are nested more than {DEEPEST} levels deep"));
        }
        self.skip()?;
        let began = self.at;
        let value = match self.peek() {
            None => return Err(Unreadable::Incomplete("a value is missing")),
            Some('{') => self.object(password)?,
            Some('[') => {
                self.next();
                let values: Vec<String> = self.list(']', password)?.into_iter().map(Written::json).collect();
                Written::Json(format!("[{}]", values.join(",")))
            }
            Some('"' | '\'' | '`') => Written::Text(self.text()?),
            Some('/') => self.regex()?,
            Some('0'..='9' | '.' | '-' | '+') => self.number()?,
            Some(c) if is_of_name(c) => {
                let mut name = self.name();
                if name == "new" {
                    self.skip()?;
                    name = self.name();
                }
                self.skip()?;
                let arguments = if self.accept("(") { Some(self.list(')', password)?) } else { None };
                match constructed(name, arguments, password) {
                    Ok(value) => value,
                    Err(message) => return Err(Unreadable::Wrong(began, message)),
                }
            }
            Some(c) => return self.wrong(format!("{c} begins no value")),
        };
        self.depth -= 1;
        Ok(value)
    }

    fn object(&mut self, password: &dyn Fn() -> Result<String, String>) -> Result<Written, Unreadable> {
        self.next();
        let mut json = String::from("{");
        loop {
            self.skip()?;
            if self.accept("}") {
                json.push('}');
                return Ok(Written::Json(json));
            }
            let name = match self.peek() {
                Some('"' | '\'') => self.text()?,
                // Names with dots need quotation marks in JavaScript; here they are understood without.
                Some(c) if is_of_name(c) => self.take_while(|c| is_of_name(c) || c == '.').to_owned(),
                None => return Err(Unreadable::Incomplete("a bracket is not closed")),
                Some(c) => return self.wrong(format!("expected the name of a field and found {c}")),
            };
            self.skip()?;
            if !self.accept(":") {
                return match self.peek() {
                    None => Err(Unreadable::Incomplete("a bracket is not closed")),
                    Some(c) => self.wrong(format!("expected : after {name} and found {c}")),
                };
            }
            let value = self.value(password)?.json();
            if json.len() > 1 {
                json.push(',');
            }
            json.push_str(&quoted(&name));
            json.push(':');
            json.push_str(&value);
            self.comma_before('}')?;
        }
    }

    /// A text in quotation marks.
    pub(crate) fn text(&mut self) -> Result<String, Unreadable> {
        let end = self.next();
        let mut text = String::new();
        let unclosed = Unreadable::Incomplete("a quotation mark is not closed");
        loop {
            match self.next().ok_or_else(|| unclosed.clone())? {
                c if Some(c) == end => return Ok(text),
                '$' if end == Some('`') && self.peek() == Some('{') => {
                    return self.wrong("${..} in texts is not understood here");
                }
                '\n' if end != Some('`') => return self.wrong("a text ends where its line does"),
                '\\' => match self.next().ok_or_else(|| unclosed.clone())? {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    'r' => text.push('\r'),
                    'b' => text.push('\u{8}'),
                    'f' => text.push('\u{c}'),
                    'v' => text.push('\u{b}'),
                    '0' => text.push('\0'),
                    '\n' => {}
                    'x' => text.push(self.escaped(2)?),
                    'u' => text.push(self.unicode()?),
                    other => text.push(other),
                },
                other => text.push(other),
            }
        }
    }

    fn hexadecimal(&mut self, digits: usize) -> Result<u32, Unreadable> {
        let found = self.rest().get(..digits).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        match found {
            Some(code) => {
                self.at += digits;
                Ok(code)
            }
            None => self.wrong(format!("an escape has {digits} hexadecimal digits")),
        }
    }

    fn escaped(&mut self, digits: usize) -> Result<char, Unreadable> {
        let code = self.hexadecimal(digits)?;
        char::from_u32(code).map_or_else(|| self.wrong("an escape is no character"), Ok)
    }

    /// After `\u`: four digits, or two times four for characters beyond them, or any number in braces.
    fn unicode(&mut self) -> Result<char, Unreadable> {
        if self.accept("{") {
            let digits = self.take_while(|c| c.is_ascii_hexdigit()).len();
            self.at -= digits;
            let found = self.escaped(digits.clamp(1, 6))?;
            return if self.accept("}") { Ok(found) } else { self.wrong("an escape is not closed") };
        }
        let high = self.hexadecimal(4)?;
        if !(0xd800..0xdc00).contains(&high) || !self.accept("\\u") {
            return char::from_u32(high).map_or_else(|| self.wrong("an escape is no character"), Ok);
        }
        let low = self.hexadecimal(4)?;
        let whole = 0x10000 + ((high - 0xd800) << 10) + low.wrapping_sub(0xdc00);
        let valid = (0xdc00..0xe000).contains(&low).then_some(whole).and_then(char::from_u32);
        valid.map_or_else(|| self.wrong("an escape is no character"), Ok)
    }

    fn regex(&mut self) -> Result<Written, Unreadable> {
        self.next();
        let (mut pattern, mut class) = (String::new(), false);
        loop {
            match self.next() {
                None | Some('\n') => return self.wrong("a regular expression is not closed by /"),
                Some('\\') => match self.next() {
                    Some('/') => pattern.push('/'),
                    escaped => {
                        pattern.push('\\');
                        pattern.extend(escaped);
                    }
                },
                Some('/') if !class => break,
                Some(c) => {
                    class = c == '[' || class && c != ']';
                    pattern.push(c);
                }
            }
        }
        Ok(regular_expression(&pattern, self.take_while(|c| c.is_ascii_alphabetic())))
    }

    fn number(&mut self) -> Result<Written, Unreadable> {
        let began = self.at;
        let negative = self.peek() == Some('-');
        if negative || self.peek() == Some('+') {
            self.next();
            self.skip()?;
        }
        let sign = if negative { "-" } else { "" };
        if self.accept("Infinity") {
            return Ok(Written::Json(format!("{{\"$numberDouble\":\"{sign}Infinity\"}}")));
        }
        let digits = if self.accept("0x") || self.accept("0X") {
            let digits = self.take_while(|c| c.is_ascii_hexdigit());
            match u64::from_str_radix(digits, 16) {
                Ok(value) => value.to_string(),
                Err(_) => return Err(Unreadable::Wrong(began, "not a number".to_owned())),
            }
        } else {
            let whole = self.take_while(|c| c.is_ascii_digit() || c == '_').replace('_', "");
            // A zero that is not the only digit would begin no number of JSON.
            let whole = whole.trim_start_matches('0');
            let mut digits = if whole.is_empty() { "0".to_owned() } else { whole.to_owned() };
            let from = self.at;
            if self.accept(".") {
                let fraction = self.take_while(|c| c.is_ascii_digit());
                digits.push('.');
                digits.push_str(if fraction.is_empty() { "0" } else { fraction });
            }
            if self.at == from + 1 && self.at == began + sign.len() + 1 {
                return Err(Unreadable::Wrong(began, "not a number".to_owned()));
            }
            if self.accept("e") || self.accept("E") {
                digits.push('e');
                digits.push_str(self.take_while(|c| matches!(c, '+' | '-')));
                digits.push_str(self.take_while(|c| c.is_ascii_digit()));
            }
            digits
        };
        if self.at == began + sign.len() || self.peek().is_some_and(|c| is_of_name(c) || c == '.') {
            return Err(Unreadable::Wrong(began, "not a number".to_owned()));
        }
        if digits.parse::<f64>().is_err() {
            return Err(Unreadable::Wrong(began, "not a number".to_owned()));
        }
        Ok(Written::Number(format!("{sign}{digits}")))
    }
}

fn regular_expression(pattern: &str, options: &str) -> Written {
    // BSON has them in alphabetical order.
    let mut options: Vec<char> = options.chars().collect();
    options.sort_unstable();
    let options: String = options.into_iter().collect();
    Written::Json(format!(
        "{{\"$regularExpression\":{{\"pattern\":{},\"options\":{}}}}}",
        quoted(pattern),
        quoted(&options)
    ))
}

/// The value of a word, or of a constructor with its arguments.
fn constructed(
    name: &str,
    arguments: Option<Vec<Written>>,
    password: &dyn Fn() -> Result<String, String>,
) -> Result<Written, String> {
    let called = arguments.is_some();
    let mut arguments = arguments.unwrap_or_default().into_iter();
    let (first, second) = (arguments.next(), arguments.next());
    // One that was not looked at would mean another value than the same text in JavaScript: `new Date(2024, 0)`.
    let most = match name {
        "Timestamp" | "BinData" | "RegExp" => 2,
        "MinKey" | "MaxKey" | "passwordPrompt" => 0,
        _ => 1,
    };
    let given = usize::from(first.is_some()) + usize::from(second.is_some()) + arguments.count();
    if given > most {
        let hint = match name {
            "Date" | "ISODate" => ": write a date as ISODate(\"2026-01-31T12:00:00Z\")",
            _ => "",
        };
        let what = ["no value", "one value", "two values"][most];
        return Err(format!("{name}(..) takes {what} here{hint}"));
    }
    let wrapped = |kind: &str, text: &str| Ok(Written::Json(format!("{{\"{kind}\":{}}}", quoted(text))));
    // A text, or a number as it was written.
    let plain = |value: Option<Written>| match value {
        Some(Written::Text(text) | Written::Number(text)) => Ok(text),
        _ => Err(format!("{name}(..) needs a text or a number")),
    };
    let whole = |value: Option<Written>| match value {
        Some(Written::Text(text) | Written::Number(text)) => {
            text.parse::<i64>().map_err(|_| format!("{name}(..) needs a whole number"))
        }
        None => Ok(0),
        Some(_) => Err(format!("{name}(..) needs a whole number")),
    };
    match (name, called) {
        ("true" | "false" | "null", false) => Ok(Written::Json(name.to_owned())),
        ("undefined", false) => Ok(Written::Json("null".to_owned())),
        ("Infinity" | "NaN", false) => wrapped("$numberDouble", name),
        ("MinKey", _) => Ok(Written::Json("{\"$minKey\":1}".to_owned())),
        ("MaxKey", _) => Ok(Written::Json("{\"$maxKey\":1}".to_owned())),
        ("passwordPrompt", true) => password().map(Written::Text),
        ("ObjectId" | "ObjectID", true) => match first {
            None => wrapped("$oid", &bson::oid::ObjectId::new().to_hex()),
            some => wrapped("$oid", &plain(some)?),
        },
        ("UUID", true) => match first {
            None => wrapped("$uuid", &bson::Uuid::new().to_string()),
            some => wrapped("$uuid", &plain(some)?),
        },
        ("ISODate" | "Date", true) => date(first),
        ("NumberInt" | "Int32", true) => wrapped("$numberInt", &whole(first)?.to_string()),
        ("NumberLong" | "Long", true) => wrapped("$numberLong", &whole(first)?.to_string()),
        ("NumberDecimal" | "Decimal128", true) => wrapped("$numberDecimal", &plain(first)?),
        ("Double", true) => wrapped("$numberDouble", &plain(first)?),
        ("Timestamp", true) => match first {
            Some(Written::Json(json)) if second.is_none() => {
                Ok(Written::Json(format!("{{\"$timestamp\":{json}}}")))
            }
            seconds => {
                let (t, i) = (whole(seconds)?, whole(second)?);
                Ok(Written::Json(format!("{{\"$timestamp\":{{\"t\":{t},\"i\":{i}}}}}")))
            }
        },
        ("BinData", true) => {
            let subtype = u8::try_from(whole(first)?).map_err(|_| "a subtype is 0 to 255".to_owned())?;
            let bytes = quoted(&plain(second)?);
            Ok(Written::Json(format!("{{\"$binary\":{{\"base64\":{bytes},\"subType\":\"{subtype:02x}\"}}}}")))
        }
        ("RegExp", true) => {
            let options = second.map_or_else(|| Ok(String::new()), |options| plain(Some(options)))?;
            Ok(regular_expression(&plain(first)?, &options))
        }
        ("Code", true) => wrapped("$code", &plain(first)?),
        (_, true) => Err(format!("{name}(..) makes no value that is known here")),
        (_, false) => Err(format!("{name} is no value; texts have quotation marks")),
    }
}

/// A date: now, milliseconds since 1970, or a text as ISO 8601 has it, whose time and zone may be missing.
fn date(value: Option<Written>) -> Result<Written, String> {
    let millis = match value {
        None => DateTime::now().timestamp_millis(),
        Some(Written::Number(number)) => {
            number.parse().map_err(|_| "a date has whole milliseconds".to_owned())?
        }
        Some(Written::Text(text)) => {
            let what = || format!("{text} is no date: write it as 2026-01-31T12:00:00Z");
            let (day, time) = text.split_once(['T', ' ']).unwrap_or((&text, "00:00:00Z"));
            let zone = time.find(['Z', '+', '-']).unwrap_or(time.len());
            let (clock, zone) = time.split_at_checked(zone).ok_or_else(what)?;
            let clock = if clock.len() == 5 { format!("{clock}:00") } else { clock.to_owned() };
            let zone = match zone {
                "" => "Z".to_owned(),
                // Of the form +0200.
                short if short.len() == 5 && !short.contains(':') => {
                    let (hours, minutes) = short.split_at_checked(3).ok_or_else(what)?;
                    format!("{hours}:{minutes}")
                }
                other => other.to_owned(),
            };
            let parsed = DateTime::parse_rfc3339_str(format!("{day}T{clock}{zone}"));
            parsed.map_err(|_| what())?.timestamp_millis()
        }
        Some(Written::Json(_)) => return Err("a date is a text or milliseconds since 1970".to_owned()),
    };
    Ok(Written::Json(format!("{{\"$date\":{{\"$numberLong\":\"{millis}\"}}}}")))
}

#[cfg(test)]
mod tests {
    use bson::{bson, doc, oid::ObjectId};

    use super::*;

    fn read(text: &str) -> Result<Vec<Bson>, Unreadable> {
        let text = format!("{text})");
        let mut scanner = Scanner::new(&text);
        let read = scanner.arguments(&|| Ok("secret".to_owned()))?;
        assert_eq!(scanner.rest(), "", "{text}");
        Ok(read)
    }

    #[test]
    fn values_are_read_as_shells_write_them() {
        let id = ObjectId::parse_str("64b7f8a2c3d4e5f6a7b8c9d0").unwrap();
        let date = DateTime::from_millis(1_577_836_800_000);
        for (text, expected) in [
            ("{}", bson!({})),
            (
                "{a: 1, 'b': \"x\", $c: [1.5, -2,], d.e: null,}",
                bson!({"a": 1, "b": "x", "$c": [1.5, -2], "d.e": null}),
            ),
            ("{a /* x */ : 1 // y\n, b: 2}", bson!({"a": 1, "b": 2})),
            ("5000000000", Bson::Int64(5_000_000_000)),
            ("[0x10, .5, 5., 1e3, +7, 1_000, 007]", bson!([16, 0.5, 5.0, 1000.0, 7, 1000, 7])),
            ("[Infinity, -Infinity, undefined, true]", bson!([f64::INFINITY, f64::NEG_INFINITY, null, true])),
            ("'it\\'s\\n\\u00e9\\x41\\u{1F600}\\ud83d\\ude00'", bson!("it's\né\u{41}😀😀")),
            ("ObjectId('64b7f8a2c3d4e5f6a7b8c9d0')", Bson::ObjectId(id)),
            ("new ObjectId(\"64b7f8a2c3d4e5f6a7b8c9d0\")", Bson::ObjectId(id)),
            ("{$oid: '64b7f8a2c3d4e5f6a7b8c9d0'}", Bson::ObjectId(id)),
            ("ISODate('2020-01-01')", Bson::DateTime(date)),
            ("ISODate('2020-01-01T00:00Z')", Bson::DateTime(date)),
            ("ISODate(\"2020-01-01 02:00:00+0200\")", Bson::DateTime(date)),
            ("new Date(1577836800000)", Bson::DateTime(date)),
            ("{$date: '2020-01-01T00:00:00Z'}", Bson::DateTime(date)),
            ("NumberLong(5)", Bson::Int64(5)),
            ("Long('-9223372036854775808')", Bson::Int64(i64::MIN)),
            ("NumberInt('5')", Bson::Int32(5)),
            ("NumberDecimal('1.50')", Bson::Decimal128("1.50".parse().unwrap())),
            ("Timestamp(5, 6)", Bson::Timestamp(bson::Timestamp { time: 5, increment: 6 })),
            ("Timestamp({t: 5, i: 6})", Bson::Timestamp(bson::Timestamp { time: 5, increment: 6 })),
            ("MinKey", Bson::MinKey),
            ("MaxKey()", Bson::MaxKey),
            (
                "UUID('00112233-4455-6677-8899-aabbccddeeff')",
                Bson::Binary(bson::Uuid::parse_str("00112233-4455-6677-8899-aabbccddeeff").unwrap().into()),
            ),
            ("{n: {$gt: 5}, s: {$in: ['a']}}", Bson::Document(doc! {"n": {"$gt": 5}, "s": {"$in": ["a"]}})),
            ("{pwd: passwordPrompt()}", bson!({"pwd": "secret"})),
        ] {
            assert_eq!(read(text), Ok(vec![expected]), "{text}");
        }
        let regex = |text: &str| match read(text).unwrap().remove(0) {
            Bson::RegularExpression(regex) => (regex.pattern.to_string(), regex.options.to_string()),
            other => panic!("{other}"),
        };
        assert_eq!(regex("/^a[/]b\\/c\\d/si"), ("^a[/]b/c\\d".into(), "is".into()));
        assert_eq!(regex("RegExp('a', 'i')"), ("a".into(), "i".into()));
        assert!(matches!(read("ObjectId()").unwrap()[..], [Bson::ObjectId(_)]));
        assert!(matches!(
            read("1, {a: 1}, [2]").unwrap()[..],
            [Bson::Int32(1), Bson::Document(_), Bson::Array(_)]
        ));
    }

    #[test]
    fn what_ends_too_early_is_told_from_what_is_wrong() {
        for text in ["{", "{a", "{a:", "{a: 1", "{a: [1,", "'abc", "{a: \"x}", "/* x", "ISODate('2020'"] {
            let mut scanner = Scanner::new(text);
            assert!(
                matches!(scanner.arguments(&|| Err(String::new())), Err(Unreadable::Incomplete(_))),
                "{text}"
            );
        }
        for (text, at, what) in [
            ("{a: 1 b: 2}", 6, "expected , or }"),
            ("{a 1}", 3, "expected :"),
            ("{a: b}", 4, "b is no value"),
            ("{a: 1 + 1}", 6, "expected ,"),
            ("[foo(1)]", 1, "foo(..)"),
            ("12x", 0, "not a number"),
            ("1.2.3", 0, "not a number"),
            ("-", 0, "not a number"),
            (".", 0, "not a number"),
            ("ObjectId('xyz')", 0, ""),
            ("new Date(2024, 0)", 0, "write a date as ISODate"),
            ("Date(2024, 0, 1)", 0, "one value"),
            ("ISODate('2024-01-01', 1)", 0, "one value"),
            ("NumberLong(5, 6)", 0, "one value"),
            ("NumberDecimal('1', '2')", 0, "one value"),
            ("ObjectId('64b7f8a2c3d4e5f6a7b8c9d0', 1)", 0, "one value"),
            ("Code('x', {a: 1})", 0, "one value"),
            ("MinKey(1)", 0, "no value"),
            ("Timestamp(1, 2, 3)", 0, "two values"),
            ("ISODate('tomorrow')", 0, "no date"),
            ("'\\u12'", 3, "hexadecimal"),
            ("'\\ud83d'", 7, "no character"),
            ("`a${b}`", 3, "${"),
            ("/abc", 5, "not closed"),
        ] {
            match read(text) {
                Err(Unreadable::Wrong(place, message)) => {
                    assert!(message.contains(what), "{text}: {message}");
                    assert_eq!(place, at, "{text}: {message}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
        let deep = "[".repeat(100_000);
        assert!(matches!(read(&deep), Err(Unreadable::Wrong(_, message)) if message.contains("nested")));
    }
}
