//! The rules of `_id`: every document has one, it comes first, and some types are not allowed.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use bson::RawDocument;
use bson::oid::ObjectId;

use crate::doc::path::is_dollar_prefixed;
use crate::doc::validate::contains_timestamp;
use crate::doc::value::kind;
use crate::doc::write::Writer;
use crate::doc::{Doc, Element, Value, validate};
use crate::error::{ErrorCode, QueryError, Result};

/// BSON's type byte of an object id.
const OBJECT_ID: u8 = 0x07;

/// `document`, valid and with its `_id` first: as it is if it has one there, otherwise a copy with the `_id` moved or
/// a new [`ObjectId`] put in front.
///
/// # Errors
/// `InvalidBSON` for damaged bytes, `InvalidIdField` for an `_id` of a type that cannot be one, `DollarPrefixedFieldName` for a document with
/// fields that look like operators, for which no filter could ask.
pub fn with_id(document: &RawDocument) -> Result<Cow<'_, RawDocument>> {
    validate(document.as_bytes())?;
    id_first(document)
}

/// What is known of documents to insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A program wrote them: they are stored as they are, if they are valid.
    Program,
    /// A client of MongoDB's protocol sent them: see [`with_current_timestamps`].
    Client,
    /// They have passed [`validate`]: they are not looked at again.
    Validated,
}

impl Origin {
    /// The document to store: [`with_id`], after what its origin asks for.
    ///
    /// # Errors
    /// Those of [`with_id`].
    pub fn to_insert(self, document: &RawDocument) -> Result<Cow<'_, RawDocument>> {
        match self {
            Origin::Program => with_id(document),
            Origin::Validated => id_first(document),
            Origin::Client => {
                if !contains_timestamp(document.as_bytes())? {
                    return id_first(document);
                }
                match with_current_timestamps(document) {
                    Cow::Borrowed(document) => id_first(document),
                    Cow::Owned(document) => Ok(Cow::Owned(id_first(&document)?.into_owned())),
                }
            }
        }
    }
}

/// A valid document with its `_id` first: see [`with_id`].
fn id_first(document: &RawDocument) -> Result<Cow<'_, RawDocument>> {
    let doc = Doc::from(document);
    let (position, id) = match doc.elements().enumerate().find(|(_, element)| element.name == b"_id") {
        Some((position, id)) => (position, Some(id)),
        None => (0, None),
    };
    if let Some(id) = &id {
        check(id.value())?;
        if position == 0 {
            return Ok(Cow::Borrowed(document));
        }
    }
    let mut out = Writer::new(document.as_bytes().len() + 17);
    match &id {
        Some(id) => out.copy(id),
        None => out.copy(&Element { name: b"_id", kind: OBJECT_ID, bytes: &ObjectId::new().bytes() }),
    }
    for element in doc.elements().filter(|element| element.name != b"_id") {
        out.copy(&element);
    }
    Ok(Cow::Owned(out.finish()))
}

/// A document that a client inserts or replaces another with: timestamps of zero, in other fields than `_id` and not nested, become the
/// current time, as in MongoDB's server. The document need not be valid.
pub fn with_current_timestamps(document: &RawDocument) -> Cow<'_, RawDocument> {
    let is_empty = |field: &Element<'_>| {
        field.kind == kind::TIMESTAMP && field.bytes.iter().all(|&byte| byte == 0) && field.name != b"_id"
    };
    if !Doc::from(document).elements().any(|field| is_empty(&field)) {
        return Cow::Borrowed(document);
    }
    let mut out = Writer::new(document.as_bytes().len());
    for field in Doc::from(document).elements() {
        match is_empty(&field) {
            true => out.value(field.name, Value::Timestamp(next_timestamp())),
            false => out.copy(&field),
        }
    }
    Cow::Owned(out.finish())
}

/// The current time in seconds in the upper half, and a number that tells timestamps of a second apart in the lower one.
fn next_timestamp() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let least = (seconds << 32) | 1;
    let next = |last: u64| Some(least.max(last + 1));
    LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).map_or(least, |last| least.max(last + 1))
}

fn check(id: Value<'_>) -> Result<()> {
    if matches!(id, Value::Array(_) | Value::Regex(..) | Value::Undefined) {
        return Err(QueryError::new(
            ErrorCode::InvalidIdField,
            format!("The '_id' value cannot be of type {}", id.type_name()),
        ));
    }
    if let Value::Document(id) = id
        && let Some(field) = id.elements().find(|field| is_dollar_prefixed(field.name_str()))
    {
        return Err(QueryError::new(
            ErrorCode::DollarPrefixedFieldName,
            format!(
                "_id fields may not contain '$'-prefixed fields: {} is not valid for storage.",
                field.name_str()
            ),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Document, RawDocumentBuf, doc};

    use super::*;

    fn prepared(document: Document) -> Result<Document> {
        let raw = RawDocumentBuf::try_from(&document).unwrap();
        Ok(Document::try_from(&*with_id(&raw)?).unwrap())
    }

    #[test]
    fn the_id_comes_first_and_is_made_when_missing() {
        assert_eq!(prepared(doc! { "_id": 1, "a": 2 }).unwrap(), doc! { "_id": 1, "a": 2 });
        let moved = prepared(doc! { "a": 2, "_id": 1, "b": 3 }).unwrap();
        assert_eq!(moved.keys().collect::<Vec<_>>(), ["_id", "a", "b"]);
        let made = prepared(doc! { "a": 2 }).unwrap();
        assert_eq!(made.keys().collect::<Vec<_>>(), ["_id", "a"]);
        assert!(made.get_object_id("_id").is_ok());
    }

    #[test]
    fn empty_timestamps_become_the_time_unless_they_are_an_id_or_nested() {
        let empty = bson::Timestamp { time: 0, increment: 0 };
        let odd = bson::Timestamp { time: 0, increment: 1 };
        let given =
            doc! { "_id": empty, "a": empty, "b": { "c": empty }, "d": [empty], "e": odd, "f": empty };
        let raw = RawDocumentBuf::try_from(&given).unwrap();
        let made = Document::try_from(&*with_current_timestamps(&raw)).unwrap();
        assert_eq!(made.keys().collect::<Vec<_>>(), ["_id", "a", "b", "d", "e", "f"]);
        for kept in ["_id", "b", "d", "e"] {
            assert_eq!(made.get(kept), given.get(kept), "{kept}");
        }
        let (a, f) = (made.get_timestamp("a").unwrap(), made.get_timestamp("f").unwrap());
        assert!(a.time > 1_700_000_000 && a.increment > 0 && a < f, "{a:?} {f:?}");
        let plain = RawDocumentBuf::try_from(&doc! { "_id": 1, "e": odd }).unwrap();
        assert!(matches!(with_current_timestamps(&plain), Cow::Borrowed(_)));
    }

    #[test]
    fn documents_are_stored_as_their_origin_asks() {
        let empty = bson::Timestamp { time: 0, increment: 0 };
        let given = RawDocumentBuf::try_from(&doc! { "a": empty, "_id": 1, "b": [empty] }).unwrap();
        let of = |origin: Origin| Document::try_from(&*origin.to_insert(&given).unwrap()).unwrap();
        for origin in [Origin::Program, Origin::Validated] {
            assert_eq!(of(origin), doc! { "_id": 1, "a": empty, "b": [empty] }, "{origin:?}");
        }
        let made = of(Origin::Client);
        assert_eq!(made.keys().collect::<Vec<_>>(), ["_id", "a", "b"]);
        assert!(made.get_timestamp("a").unwrap().time > 0);
        assert_eq!(made.get("b"), Some(&Bson::from(vec![empty])));
        let plain = RawDocumentBuf::try_from(&doc! { "_id": 1, "b": 2 }).unwrap();
        assert!(matches!(Origin::Client.to_insert(&plain), Ok(Cow::Borrowed(_))));
        let mut damaged = plain.into_bytes();
        damaged[4] = 0xee;
        let damaged = RawDocument::from_bytes(&damaged).unwrap();
        for origin in [Origin::Program, Origin::Client] {
            assert_eq!(origin.to_insert(damaged).unwrap_err().code, ErrorCode::InvalidBSON);
        }
    }

    #[test]
    fn types_that_cannot_be_an_id_are_refused() {
        let regex = bson::Regex { pattern: "a".try_into().unwrap(), options: "".try_into().unwrap() };
        for id in [Bson::Array(vec![]), Bson::Undefined, Bson::RegularExpression(regex)] {
            assert_eq!(prepared(doc! { "_id": id }).unwrap_err().code, ErrorCode::InvalidIdField);
        }
        assert!(prepared(doc! { "_id": Bson::Null }).is_ok());
        let code = |id: Document| prepared(doc! { "_id": id }).map_err(|error| error.code);
        assert_eq!(code(doc! { "$a": 1 }), Err(ErrorCode::DollarPrefixedFieldName));
        assert!(code(doc! { "$ref": "a", "$id": 1 }).is_ok());
    }
}
