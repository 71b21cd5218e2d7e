//! Values as the shell shows them: what it shows can be entered again and is the same value.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bson::spec::BinarySubtype;
use bson::{RawBsonRef, RawDocument, rawdoc};
use treedb_query::doc::json::to_json;

use crate::statements::literal::is_name;

/// Columns that a document may have to be shown in one line.
const ONE_LINE: usize = 78;

/// A text with its quotation marks. A terminal would take control characters for orders.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            // Formatting characters turn around what is read, too.
            c if c.is_control()
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
            {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A value that is neither a document nor an array, and those in one line.
pub(super) fn value(value: RawBsonRef<'_>) -> String {
    match value {
        RawBsonRef::String(text) => quoted(text),
        RawBsonRef::ObjectId(id) => format!("ObjectId(\"{}\")", id.to_hex()),
        RawBsonRef::DateTime(date) => match date.try_to_rfc3339_string() {
            // Of other years the text is not what a date can be written as.
            Ok(text) if text.len() <= "0000-00-00T00:00:00.000Z".len() && !text.starts_with(['-', '+']) => {
                format!("ISODate(\"{text}\")")
            }
            _ => format!("ISODate({})", date.timestamp_millis()),
        },
        // Small ones would be read as 32-bit integers.
        RawBsonRef::Int64(number) if i32::try_from(number).is_ok() => format!("Long({number})"),
        RawBsonRef::Decimal128(number) => format!("Decimal128(\"{number}\")"),
        RawBsonRef::Timestamp(stamp) => format!("Timestamp({}, {})", stamp.time, stamp.increment),
        RawBsonRef::MinKey => "MinKey()".to_owned(),
        RawBsonRef::MaxKey => "MaxKey()".to_owned(),
        RawBsonRef::Binary(binary) if binary.subtype == BinarySubtype::Uuid && binary.bytes.len() == 16 => {
            let bytes = binary.bytes.first_chunk().copied().unwrap_or_default();
            format!("UUID(\"{}\")", bson::Uuid::from_bytes(bytes))
        }
        RawBsonRef::Binary(binary) => {
            format!("BinData({}, \"{}\")", u8::from(binary.subtype), STANDARD.encode(binary.bytes))
        }
        RawBsonRef::RegularExpression(regex) => {
            format!("RegExp({}, {})", quoted(regex.pattern.as_str()), quoted(regex.options.as_str()))
        }
        RawBsonRef::Document(document) => in_one_line(document, '{', '}'),
        RawBsonRef::Array(array) => {
            let parts: Vec<String> = array.into_iter().flatten().map(self::value).collect();
            format!("[{}]", parts.join(", "))
        }
        other => {
            let json = self::json(&rawdoc! { "": other });
            json.strip_prefix("{\"\":").and_then(|json| json.strip_suffix('}')).unwrap_or(&json).to_owned()
        }
    }
}

/// JSON without characters that a terminal takes for orders: they are only in texts, where they can be escaped.
pub(super) fn json(document: &RawDocument) -> String {
    let json = to_json(document);
    if !json.contains(|c: char| c.is_control()) {
        return json;
    }
    let mut out = String::with_capacity(json.len() + 5);
    for c in json.chars() {
        if c.is_control() {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// The name of a field.
pub(super) fn field(text: &str) -> String {
    if is_name(text) { text.to_owned() } else { quoted(text) }
}

fn in_one_line(document: &RawDocument, open: char, close: char) -> String {
    let mut out = String::from(open);
    for (at, (field, inner)) in document.iter().flatten().enumerate() {
        out.push_str(if at == 0 { " " } else { ", " });
        let _ = write!(out, "{}: {}", self::field(field.as_str()), value(inner));
    }
    if out.len() > 1 {
        out.push(' ');
    }
    out.push(close);
    out
}

/// A value in as many lines as it needs, the first of them after `before` columns, the others `indent` columns further in.
pub(super) fn in_lines(shown: RawBsonRef<'_>, indent: usize, before: usize) -> String {
    let short = value(shown);
    let parts: Vec<(Option<String>, RawBsonRef<'_>)> = match shown {
        _ if before + short.chars().count() <= ONE_LINE => return short,
        RawBsonRef::Document(document) => document
            .iter()
            .flatten()
            .map(|(field, value)| (Some(self::field(field.as_str())), value))
            .collect(),
        RawBsonRef::Array(array) => array.into_iter().flatten().map(|value| (None, value)).collect(),
        _ => return short,
    };
    // Many short values of an array share lines.
    let packed = parts.iter().all(|(field, value)| {
        field.is_none() && !matches!(value, RawBsonRef::Document(_) | RawBsonRef::Array(_))
    });
    let (open, close) = if matches!(shown, RawBsonRef::Array(_)) { ('[', ']') } else { ('{', '}') };
    let mut out = String::from(open);
    let inner = indent + 2;
    let mut column = ONE_LINE;
    for (at, (field, value)) in parts.iter().enumerate() {
        if packed {
            let text = self::value(*value);
            let width = text.chars().count() + 2;
            out.push_str(if at == 0 { "" } else { "," });
            if column + width > ONE_LINE {
                let _ = write!(out, "\n{:inner$}{text}", "");
                column = inner + width;
            } else {
                let _ = write!(out, " {text}");
                column += width;
            }
            continue;
        }
        let label = field.as_ref().map_or(String::new(), |field| format!("{field}: "));
        let value = in_lines(*value, inner, inner + label.chars().count());
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(out, "{comma}\n{:inner$}{label}{value}", "");
    }
    let _ = write!(out, "\n{:indent$}{close}", "");
    out
}

#[cfg(test)]
mod tests {
    use bson::{Document, RawDocumentBuf};
    use treedb_testing::{Rng, random_document};

    use super::*;
    use crate::statements::literal::Scanner;

    #[test]
    fn what_is_shown_can_be_entered_again() {
        let mut rng = Rng::new(5);
        let mut lines = 0;
        for _ in 0..500 {
            let raw = random_document(&mut rng, 3);
            let Ok(document) = Document::try_from(&*raw) else { continue };
            // A field that comes twice is one afterwards.
            if RawDocumentBuf::try_from(&document).unwrap() != raw {
                continue;
            }
            let shown = in_lines(RawBsonRef::Document(&raw), 0, 0);
            lines += shown.lines().count();
            let text = format!("{shown})");
            let read = Scanner::new(&text).arguments(&|| Err(String::new()));
            let read = read.unwrap_or_else(|error| panic!("{shown}: {error:?}")).remove(0);
            let read = RawDocumentBuf::try_from(read.as_document().unwrap()).unwrap();
            let same = value(RawBsonRef::Document(&read)) == value(RawBsonRef::Document(&raw));
            assert!(same, "{shown}");
            for (before, after) in raw.iter().flatten().zip(read.iter().flatten()) {
                assert_eq!(before.1.element_type(), after.1.element_type(), "{shown}");
            }
        }
        assert!(lines > 600, "{lines}");
    }

    #[test]
    fn long_documents_have_lines_and_control_characters_are_escaped() {
        let short = rawdoc! { "_id": 1, "a": { "b": [1, 2] }, "not a name": "\u{1b}[2J\u{202e}" };
        let text = in_lines(RawBsonRef::Document(&short), 0, 0);
        assert_eq!(text, "{ _id: 1, a: { b: [1, 2] }, \"not a name\": \"\\u001b[2J\\u202e\" }");
        let long = rawdoc! { "_id": 1, "text": "x".repeat(80), "list": [{ "a": 1 }, {}] };
        let text = in_lines(RawBsonRef::Document(&long), 0, 0);
        let expected =
            format!("{{\n  _id: 1,\n  text: \"{}\",\n  list: [{{ a: 1 }}, {{}}]\n}}", "x".repeat(80));
        assert_eq!(text, expected);
        let numbers = RawDocumentBuf::try_from(&bson::doc! { "n": (0..60).collect::<Vec<i32>>() }).unwrap();
        let text = in_lines(RawBsonRef::Document(&numbers), 0, 0);
        assert_eq!(text.lines().count(), 8, "{text}");
        assert!(text.lines().all(|line| line.len() <= ONE_LINE), "{text}");
    }
}
