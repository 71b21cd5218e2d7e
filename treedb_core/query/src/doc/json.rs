//! JSON text to BSON and back: MongoDB's relaxed extended JSON.
//!
//! Plain JSON stays plain; types JSON lacks are objects with one `$` name (`{"$oid": ".."}`, `{"$date": ".."}`).
//! Field order is kept. Whole numbers become 32-bit integers where they fit, then 64-bit ones, then doubles.

use std::io::Write;

use bson::{Bson, Document, RawDocument, RawDocumentBuf};

use super::owned_value::OwnedValue;
use super::plain_json;
use super::value::{Doc, Element, Value};
use super::write::Writer;
use crate::error::{ErrorCode, QueryError, Result};

/// The last millisecond of the year 9999.
const LAST_WRITTEN_DATE: i64 = 253_402_300_799_999;

fn not_json(error: impl std::fmt::Display) -> QueryError {
    QueryError::new(ErrorCode::FailedToParse, format!("not a JSON document: {error}"))
}

/// Parses one JSON object.
///
/// Errors: `FailedToParse` with line and column of what is wrong; those of [`super::validate`] for nesting and size.
pub fn from_json(text: &str) -> Result<RawDocumentBuf> {
    match plain_json::read(text) {
        Some(plain) => Ok(plain),
        None => document(serde_json::from_str(text).map_err(not_json)?),
    }
}

/// Parses one JSON value of any kind: `1`, `"text"`, `{"$oid": ".."}`, `[1, 2]`.
///
/// Errors: as [`from_json`].
pub fn value_from_json(text: &str) -> Result<OwnedValue> {
    let wrong = |error: &dyn std::fmt::Display| {
        QueryError::new(ErrorCode::FailedToParse, format!("not a JSON value: {error}"))
    };
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| wrong(&error))?;
    let value = Bson::try_from(value).map_err(|error| wrong(&error))?;
    let raw = RawDocumentBuf::try_from(&bson::doc! { "": value }).map_err(|error| wrong(&error))?;
    super::validate(raw.as_bytes())?;
    let element = Doc::from(&raw).elements().next();
    element.map(|element| OwnedValue::from_element(&element)).ok_or_else(|| wrong(&"nothing there"))
}

/// Parses documents: a JSON array of objects, or objects one after the other (JSON Lines).
///
/// Errors: as [`from_json`], with the number of the document, from 0.
pub fn documents_from_json(text: &str) -> Result<Vec<RawDocumentBuf>> {
    let values: Vec<serde_json::Value> = if text.trim_start().starts_with('[') {
        serde_json::from_str(text).map_err(not_json)?
    } else {
        let stream = serde_json::Deserializer::from_str(text).into_iter();
        stream.collect::<std::result::Result<_, _>>().map_err(not_json)?
    };
    let numbered = values.into_iter().enumerate();
    numbered
        .map(|(number, value)| {
            document(value)
                .map_err(|error| QueryError::new(error.code, format!("document {number}: {}", error.message)))
        })
        .collect()
}

fn document(value: serde_json::Value) -> Result<RawDocumentBuf> {
    let document = match Bson::try_from(value) {
        Ok(Bson::Document(document)) => document,
        Ok(other) => return Err(not_json(format!("an object is needed, found {:?}", other.element_type()))),
        Err(error) => return Err(not_json(error)),
    };
    let raw = RawDocumentBuf::try_from(&document).map_err(not_json)?;
    super::validate(raw.as_bytes())?;
    Ok(raw)
}

/// Writes a document as relaxed extended JSON, without spaces or line breaks.
pub fn to_json(doc: &RawDocument) -> String {
    let mut out = Vec::with_capacity(doc.as_bytes().len() + 16);
    append_json(doc, &mut out);
    text_of(out)
}

/// [`to_json`], appended to `out`, in UTF-8.
pub fn append_json(doc: &RawDocument, out: &mut Vec<u8>) {
    append_object(doc.into(), out);
}

/// Writes a document as extended JSON that reads as the very same document: relaxed where that is enough, otherwise
/// canonical. `None` if there is no such text (a field comes twice, for one).
pub fn to_exact_json(doc: &RawDocument) -> Option<String> {
    let reads_as = |text: &str| from_json(text).is_ok_and(|read| *read == *doc);
    let relaxed = to_json(doc);
    if reads_as(&relaxed) {
        return Some(relaxed);
    }
    let canonical = Bson::Document(Document::try_from(doc).ok()?).into_canonical_extjson().to_string();
    reads_as(&canonical).then_some(canonical)
}

/// [`to_exact_json`] of one value.
pub fn value_to_exact_json(element: &Element<'_>) -> Option<String> {
    // A document with nothing else in it.
    let length = i32::try_from(element.bytes.len() + 7).ok()?;
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend([element.kind, 0]);
    bytes.extend_from_slice(element.bytes);
    bytes.push(0);
    let text = to_exact_json(&RawDocumentBuf::from_bytes(bytes).ok()?)?;
    Some(text.strip_prefix("{\"\":")?.strip_suffix('}')?.to_owned())
}

/// The text that was written, which is UTF-8.
fn text_of(written: Vec<u8>) -> String {
    String::from_utf8(written).unwrap_or_default()
}

/// [`to_json`] for one value, appended to `out`.
pub fn write_value(element: &Element<'_>, out: &mut String) {
    let mut written = std::mem::take(out).into_bytes();
    append_value(element, &mut written);
    *out = text_of(written);
}

fn append_object(doc: Doc<'_>, out: &mut Vec<u8>) {
    out.push(b'{');
    for (at, element) in doc.elements().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        append_text(element.name, out);
        out.push(b':');
        append_value(&element, out);
    }
    out.push(b'}');
}

fn append_value(element: &Element<'_>, out: &mut Vec<u8>) {
    match element.value() {
        Value::Document(doc) => append_object(doc, out),
        Value::Array(array) => {
            out.push(b'[');
            for (at, element) in array.elements().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                append_value(&element, out);
            }
            out.push(b']');
        }
        Value::String(text) => append_text(text, out),
        Value::Int32(value) => out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes()),
        Value::Int64(value) => out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes()),
        Value::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
        Value::Null => out.extend_from_slice(b"null"),
        Value::Double(value) if value.is_finite() => match serde_json::Number::from_f64(value) {
            Some(number) => display(number, out),
            None => out.extend_from_slice(b"null"),
        },
        Value::ObjectId(id) => {
            out.extend_from_slice(b"{\"$oid\":\"");
            id.iter().for_each(|byte| append_hex(*byte, out));
            out.extend_from_slice(b"\"}");
        }
        // Beyond the years a date can be written with; the `bson` crate would cut it to the nearest.
        Value::Date(millis) if !(0..=LAST_WRITTEN_DATE).contains(&millis) => {
            display(format_args!("{{\"$date\":{{\"$numberLong\":\"{millis}\"}}}}"), out);
        }
        Value::CodeScope(code, scope) => {
            out.extend_from_slice(b"{\"$code\":");
            append_text(code, out);
            out.extend_from_slice(b",\"$scope\":");
            append_object(scope, out);
            out.push(b'}');
        }
        _ => display(extended(element), out),
    }
}

fn display(value: impl std::fmt::Display, out: &mut Vec<u8>) {
    // Writing to memory cannot fail.
    let _ = write!(out, "{value}");
}

fn append_hex(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    let digits = [byte >> 4, byte & 15].map(|digit| DIGITS.get(usize::from(digit)).copied().unwrap_or(b'0'));
    out.extend_from_slice(&digits);
}

/// Writes a string, quoted; what is not UTF-8 in it as replacement characters.
fn append_text(text: &[u8], out: &mut Vec<u8>) {
    let escaped = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    out.reserve(text.len() + 2);
    out.push(b'"');
    if is_plain(text) {
        out.extend_from_slice(text);
        return out.push(b'"');
    }
    let text = String::from_utf8_lossy(text);
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|&byte| escaped(byte))
        && let Some((before, [special, after @ ..])) = rest.split_at_checked(at)
    {
        out.extend_from_slice(before);
        match special {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            control @ ..0x20 => {
                out.extend_from_slice(b"\\u00");
                append_hex(*control, out);
            }
            quoted => out.extend_from_slice(&[b'\\', *quoted]),
        }
        rest = after;
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Whether a string is written as it is: ASCII without control characters, quotes and backslashes. Most are, and most are
/// short: eight bytes are looked at at once.
fn is_plain(text: &[u8]) -> bool {
    const ONES: u64 = u64::MAX / 0xff;
    const TOPS: u64 = ONES * 0x80;
    // Of a word without top bits, the top bits of the bytes that are below 0x20, or are 0 after the exclusive or.
    let other = |word: u64| {
        let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word & TOPS;
        let special = below(word, 0x20) | below(word ^ (ONES * 0x22), 1) | below(word ^ (ONES * 0x5c), 1);
        (special | word & TOPS) != 0
    };
    // Fewer than eight bytes make a word in which some are twice; of more the last eight do, some of which have been seen.
    if let Some(last) = text.last_chunk::<8>() {
        let (words, _) = text.as_chunks::<8>();
        return !words.iter().any(|word| other(u64::from_le_bytes(*word)))
            && !other(u64::from_le_bytes(*last));
    }
    let twice = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let word = match text {
        [] => return true,
        [byte] => u64::from(*byte) * ONES,
        [first, .., last] => match (text.first_chunk::<4>(), text.last_chunk::<4>()) {
            (Some(low), Some(high)) => twice(u32::from_le_bytes(*low), u32::from_le_bytes(*high)),
            _ => {
                let middle = text.get(1).copied().unwrap_or(*last);
                let bytes = u32::from_le_bytes([*first, middle, *last, *last]);
                twice(bytes, bytes)
            }
        },
    };
    !other(word)
}

/// The rarer types, by way of the `bson` crate.
fn extended(element: &Element<'_>) -> serde_json::Value {
    let mut holder = Writer::new(element.bytes.len() + 8);
    holder.put(b"v", element);
    let value = Document::try_from(holder.finish()).ok().and_then(|mut document| document.remove("v"));
    value.map_or(serde_json::Value::Null, Bson::into_relaxed_extjson)
}

#[cfg(test)]
mod tests {
    use treedb_testing::{Rng, random_document};

    use super::*;
    use crate::doc::compare::compare;

    #[test]
    fn json_comes_back_as_it_went_in() {
        let text = r#"{"z":1,"a":[1.5,"x\n\"é",null,true,{}],"b":{"$oid":"64b7f8a2c3d4e5f6a7b8c9d0"},"c":{"$date":"2020-01-01T00:00:00Z"},"d":5000000000,"e":1.0,"f":{"$numberDouble":"NaN"}}"#;
        assert_eq!(to_json(&from_json(text).unwrap()), text);
    }

    #[test]
    fn every_type_survives_the_way_through_json_by_value() {
        let mut rng = Rng::new(3);
        for _ in 0..400 {
            let doc = random_document(&mut rng, 3);
            let json = to_json(&doc);
            let back = from_json(&json).unwrap();
            let (a, b) = (Value::Document((&doc).into()), Value::Document((&back).into()));
            assert!(compare(a, b).is_eq(), "{json}");
        }
    }

    #[test]
    fn every_byte_that_has_to_be_escaped_is_seen_wherever_it_is() {
        for len in 0..20 {
            assert!(is_plain(&vec![b'~'; len]) && is_plain(&vec![0x7f; len]));
            for (at, byte) in (0..len).flat_map(|at| (0..=255_u8).map(move |byte| (at, byte))) {
                let mut text = vec![b'!'; len];
                text[at] = byte;
                let plain = (0x20..0x80).contains(&byte) && byte != b'"' && byte != b'\\';
                assert_eq!(is_plain(&text), plain, "{byte:#x} at {at} of {len}");
            }
        }
    }

    #[test]
    fn plain_text_is_read_in_one_pass_as_it_is_read_in_the_general_way() {
        let general = |text: &str| {
            serde_json::from_str(text)
                .map_err(not_json)
                .and_then(super::document)
                .map_err(|error| error.message)
        };
        let mut rng = Rng::new(7);
        let mut inputs: Vec<String> = (0..400).map(|_| to_json(&random_document(&mut rng, 4))).collect();
        let plain = inputs.iter().filter(|text| plain_json::read(text).is_some()).count();
        assert!((20..380).contains(&plain), "{plain} of 400 are plain");
        let many: Vec<String> = (0..40).map(|at| format!("\"f{}\":{at}", at % 39)).collect();
        inputs.push(format!("{{{}}}", many.join(",")));
        for depth in [99, 100, 101, 127, 128, 129] {
            inputs.push(format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth)));
            inputs.push(format!("{{\"a\":{}1{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1)));
        }
        let written = [
            r#"{}"#,
            r#" { "a" : [ ] , "b" : { } } "#,
            r#"{"a":1,"b":2,"a":{"c":3}}"#,
            r#"{"a":{"x":1,"x":2}}"#,
            r#"{"\u0061":1,"a":2}"#,
            r#"{"a\u0000b":1}"#,
            r#"{"a":"x\u0000y"}"#,
            r#"{"é\n\"\\":"\ud83d\ude00"}"#,
            r#"{"a":"\ud83d"}"#,
            r#"{"a":2147483647,"b":2147483648,"c":-2147483648,"d":-2147483649}"#,
            r#"{"a":9223372036854775807,"b":9223372036854775808,"c":18446744073709551615,"d":18446744073709551616}"#,
            r#"{"a":-9223372036854775808,"b":-9223372036854775809,"c":-0,"d":0,"e":-0.0}"#,
            r#"{"a":1e400}"#,
            r#"{"a":1e300,"b":0.1,"c":1E2,"d":123456789012345678.5}"#,
            r#"{"a":{"$gte":1,"$lt":2}}"#,
            r#"{"a":{"$numberLong":"1"},"b":{"$date":"x"}}"#,
            r#"{"$oid":"64b7f8a2c3d4e5f6a7b8c9d0"}"#,
            r#"{"$numberInt":"1"}"#,
            r#"{"$a":1}"#,
            r#"{"":0}"#,
            r#"{"é":"ü~"}"#,
            r#"{"a":""}"#,
            " { \"a\"\n:\t-12\r} ",
            " { \"a b\" : \"x\" } \n",
            "{\"a\":1}\u{c}",
            "{\u{a0}\"a\":1}",
            "{\"a\tb\":1}",
            "{\"a\":\"x\ny\"}",
            r#"{"a":"x\ty"}"#,
            r#"{"a\"b":1}"#,
            r#"{"a":"x""#,
            r#"{"a":"x\"}"#,
            r#"{"a""#,
            r#"{"a":"#,
            r#"{"a":-}"#,
            r#"{"a":-0}"#,
            r#"{"a":-5}"#,
            r#"{"a":01}"#,
            r#"{"a":00}"#,
            r#"{"a":1.}"#,
            r#"{"a":1.5}"#,
            r#"{"a":1e2}"#,
            r#"{"a":1 2}"#,
            r#"{"a":1,"b":2}"#,
            r#"{"a":999999999999999999}"#,
            r#"{"a":-999999999999999999}"#,
            r#"{"a":1000000000000000000}"#,
            r#"{"a":1} x"#,
            r#"{"a":1,}"#,
            r#"{"a":tru}"#,
            r#"[1]"#,
            "",
        ];
        for text in inputs.iter().map(String::as_str).chain(written) {
            assert_eq!(from_json(text).map_err(|error| error.message), general(text), "{text}");
        }
    }

    #[test]
    fn strings_are_escaped_as_serde_json_escapes_them() {
        let all: String = (0..0x250).filter_map(char::from_u32).chain("\u{2028}\u{10ffff}".chars()).collect();
        for text in [all.as_str(), "", "plain", "\"", "a\\"] {
            let mut written = Vec::new();
            append_text(text.as_bytes(), &mut written);
            assert_eq!(text_of(written), serde_json::Value::from(text).to_string());
        }
        let mut written = Vec::new();
        append_text(b"a\xff\"", &mut written);
        assert_eq!(text_of(written), "\"a\u{fffd}\\\"\"");
    }

    #[test]
    fn documents_come_as_an_array_or_one_behind_the_other() {
        for text in [r#" [{"a":1}, {"b":[2]}]"#, "{\"a\":1}\n{\"b\":[2]}\n", r#"{"a":1}{"b":[2]}"#] {
            let all: Vec<String> =
                documents_from_json(text).unwrap().iter().map(|doc| to_json(doc)).collect();
            assert_eq!(all, [r#"{"a":1}"#, r#"{"b":[2]}"#], "{text}");
        }
        assert!(documents_from_json("").unwrap().is_empty());
        let error = documents_from_json(r#"[{"a":1}, 2]"#).unwrap_err();
        assert!(error.message.starts_with("document 1: "), "{error}");
        assert!(documents_from_json(r#"[{"a":1}] {"b":1}"#).is_err());
    }

    #[test]
    fn a_value_alone_is_one_value_and_nothing_else() {
        for (text, shown) in [("1", "1"), ("\"x\"", "\"x\""), ("[1,{\"a\":null}]", "[ 1, { a: null } ]")] {
            assert_eq!(crate::doc::shown(value_from_json(text).unwrap().value()), shown);
        }
        for text in ["", "1, 2", "1}", "abc", "{\"$oid\": 1}"] {
            assert!(value_from_json(text).is_err(), "{text}");
        }
    }

    #[test]
    fn bad_json_is_refused_with_its_place() {
        for (text, part) in [
            ("{\"a\": }", "column 7"),
            ("[1]", "an object is needed"),
            ("{\"a\": {\"$oid\": \"xyz\"}}", "not a JSON document"),
            ("", "column 0"),
        ] {
            let error = from_json(text).unwrap_err();
            assert_eq!(error.code, ErrorCode::FailedToParse);
            assert!(error.message.contains(part), "{error}");
        }
        let deep = format!("{}1{}", "{\"a\":".repeat(110), "}".repeat(110));
        assert_eq!(from_json(&deep).unwrap_err().code, ErrorCode::Overflow);
        let deeper = format!("{}1{}", "{\"a\":".repeat(5000), "}".repeat(5000));
        assert!(from_json(&deeper).is_err());
    }
}
