//! The keys a document has under a key pattern.
//!
//! * A missing field has the key null.
//! * An array on the path, or at its end, gives one key for each element; an empty array at the end gives undefined.
//!   Arrays inside that array are keys themselves. This makes an index *multikey*.
//! * Two paths of a compound pattern that go through the same array iterate over it together; two different arrays
//!   are rejected ("parallel arrays"), because the number of keys would be the product of their lengths.
//! * A number in a path selects the element of an array at that position, if there is one.
//!
//! Every value that a condition on the path could match has a key (see [`crate::doc::path`]): extra keys are
//! harmless, but with a missing key a query would not find the row.

use bson::{RawDocument, RawDocumentBuf};

use super::definition::{IndexDef, KeyPart, SortOrder};
use sha2::{Digest, Sha256};

use super::options::Kind;
use crate::doc::key::invert;
use crate::doc::key_decode::encoded_length;
use crate::doc::write::Writer;
use crate::doc::{Collation, Doc, Element, Value};
use crate::error::{DuplicateKey, ErrorCode, QueryError, Result};

/// A document's encoded keys, sorted and without duplicates. Only a sparse, partial or wildcard index may
/// have none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeySet {
    /// The order-preserving encoding of each key: the encodings of the values one after the other, inverted
    /// for descending fields.
    pub keys: Vec<Vec<u8>>,
    /// True if there was an array on a path.
    pub multikey: bool,
}

impl IndexDef {
    /// The keys of `doc` in this index, whatever its kind.
    ///
    /// # Errors
    /// `CannotIndexParallelArrays`; `BadValue` for a number in a path that both selects an element and names
    /// a field of the array's documents; `Location16766` for an array in a hashed index.
    pub fn keys(&self, doc: &RawDocument) -> Result<KeySet> {
        let mut key = Vec::with_capacity(16 * self.keys.len());
        match self.single(doc, &mut key) {
            Some(lengths) => {
                key.truncate(lengths.key);
                Ok(KeySet { keys: vec![key], multikey: false })
            }
            None => self.all_keys(doc),
        }
    }

    /// [`IndexDef::keys`] of a document for which [`IndexDef::single`] has no key: any number of keys.
    ///
    /// # Errors
    /// As there.
    pub fn all_keys(&self, doc: &RawDocument) -> Result<KeySet> {
        if let Some(partial) = &self.options.partial
            && !partial.covers(doc)?
        {
            return Ok(KeySet::default());
        }
        if let Kind::Wildcard(wildcard) = &self.options.kind {
            let mut keys = Vec::new();
            let multikey = wildcard.keys(doc, &self.options.collation, &mut keys);
            return Ok(KeySet::of(keys, multikey));
        }
        if let Kind::Geo(geo) = &self.options.kind {
            let (keys, multikey) = geo.keys(self, doc)?;
            return Ok(KeySet::of(keys, multikey));
        }
        let (key_encoder, mut keys) = (self.key_encoder(), Vec::new());
        let multikey = for_each(&self.keys, doc.into(), &mut |values| {
            if !self.options.sparse || values.iter().any(|slot| slot.element.is_some()) {
                keys.push(key_encoder.key(values));
            }
        })?;
        if multikey && key_encoder.hashed.is_some() {
            return Err(QueryError::new(
                ErrorCode::Location16766,
                format!("hashed indexes do not currently support array values (index {})", self.name),
            ));
        }
        Ok(KeySet::of(keys, multikey))
    }

    /// True if `key` is a complete key: the values of all fields, and nothing after them.
    pub fn is_whole(&self, key: &[u8]) -> bool {
        let encoded = |key: &[u8], inverted| encoded_length(key, inverted);
        let mut at = 0;
        let mut skip = |length: &dyn Fn(&[u8]) -> Option<usize>| {
            let end = key.get(at..).and_then(length).map(|length| at + length);
            at = end.unwrap_or(usize::MAX);
        };
        match &self.options.kind {
            Kind::Wildcard(_) => (0..2).for_each(|_| skip(&|rest| encoded(rest, false))),
            kind => {
                let hashed_at = self.key_encoder().hashed;
                for (number, part) in self.keys.iter().enumerate() {
                    let is_cell = matches!(kind, Kind::Geo(geo) if geo.has(number));
                    match hashed_at == Some(number) || is_cell {
                        true => skip(&|rest| rest.first_chunk::<8>().map(|hash| hash.len())),
                        false => skip(&|rest| encoded(rest, part.direction == SortOrder::Descending)),
                    }
                }
            }
        }
        at == key.len()
    }

    fn key_encoder(&self) -> KeyEncoder<'_> {
        let hashed = if let Kind::Hashed(at) = self.options.kind { Some(at) } else { None };
        KeyEncoder { parts: &self.keys, collation: &self.options.collation, hashed }
    }

    /// The values of the key whose encoding is `key`, with the names of the pattern: what a duplicate key
    /// error reports.
    pub fn key_value(&self, doc: &RawDocument, key: &[u8]) -> RawDocumentBuf {
        let mut found = RawDocumentBuf::new();
        // The document was indexed before, so its keys cannot be rejected now.
        let _ = for_each(&self.keys, doc.into(), &mut |values| {
            if found.iter().next().is_none() && self.key_encoder().key(values) == key {
                found = key_document(&self.keys, values);
            }
        });
        found
    }

    /// The error for a key of `doc` that already exists in this unique index of collection `namespace`.
    pub fn duplicate(&self, namespace: &str, key: &[u8], doc: &RawDocument) -> QueryError {
        let key_value = self.key_value(doc, key);
        let key_value_text = crate::doc::shown(Value::Document((&key_value).into()));
        let duplicate = DuplicateKey { index: self.name.clone(), key_pattern: self.key_pattern(), key_value };
        QueryError::duplicate_key(namespace, duplicate, &key_value_text)
    }
}

impl KeySet {
    fn of(mut keys: Vec<Vec<u8>>, multikey: bool) -> Self {
        if keys.len() > 1 {
            keys.sort_unstable();
            keys.dedup();
        }
        KeySet { keys, multikey }
    }
}

/// [`IndexDef::keys`] for a list of fields: the sort keys of a document.
pub fn keys_of(parts: &[KeyPart], collation: &Collation, doc: &RawDocument) -> Result<KeySet> {
    let (key_encoder, mut keys) = (KeyEncoder { parts, collation, hashed: None }, Vec::new());
    let multikey = for_each(parts, doc.into(), &mut |values| keys.push(key_encoder.key(values)))?;
    Ok(KeySet::of(keys, multikey))
}

/// The hash of a value in a hashed index; `encoded` is the encoding of the value.
pub fn hashed(encoded: &[u8]) -> [u8; 8] {
    let digest: [u8; 32] = Sha256::digest(encoded).into();
    digest.first_chunk().copied().unwrap_or_default()
}

/// Encodes keys.
struct KeyEncoder<'d> {
    parts: &'d [KeyPart],
    collation: &'d Collation,
    /// Position of the hashed field.
    hashed: Option<usize>,
}

impl KeyEncoder<'_> {
    fn key(&self, values: &[Slot<'_>]) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 * self.parts.len());
        for (at, (part, slot)) in self.parts.iter().zip(values).enumerate() {
            let start = out.len();
            self.collation.encode(slot.value, &mut out);
            let Some(bytes) = out.get_mut(start..) else { continue };
            if self.hashed == Some(at) {
                let hash = hashed(bytes);
                out.truncate(start);
                out.extend_from_slice(&hash);
            } else if part.direction == SortOrder::Descending {
                invert(bytes);
            }
        }
        out
    }
}

/// The values of a key as a document, with the names of the pattern.
fn key_document(parts: &[KeyPart], values: &[Slot<'_>]) -> RawDocumentBuf {
    let mut key = Writer::new(64);
    for (part, slot) in parts.iter().zip(values) {
        let name = part.path.as_str().as_bytes();
        match slot.element {
            Some(element) => key.put(name, &element),
            None => key.null(name),
        }
    }
    key.finish()
}

/// The encoded values of `parts` in each key of `doc`, and whether there was an array on a path.
pub(super) fn encoded_parts(
    parts: &[KeyPart],
    collation: &Collation,
    doc: &RawDocument,
) -> Result<(Vec<Vec<Vec<u8>>>, bool)> {
    let mut all = Vec::new();
    let multikey = for_each(parts, doc.into(), &mut |values| {
        let one = |(part, slot): (&KeyPart, &Slot<'_>)| {
            let key_encoder = KeyEncoder { parts: std::slice::from_ref(part), collation, hashed: None };
            key_encoder.key(std::slice::from_ref(slot))
        };
        all.push(parts.iter().zip(values).map(one).collect());
    })?;
    Ok((all, multikey))
}

/// The state of one field of the pattern while its path is followed.
#[derive(Debug, Clone, Copy)]
struct Slot<'a> {
    value: Value<'a>,
    /// The element of the value; `None` if the field is missing.
    element: Option<Element<'a>>,
    /// The number of parts of the path that were followed; `None` once the value is final.
    used: Option<usize>,
}

impl<'a> Slot<'a> {
    const MISSING: Slot<'static> = Slot { value: Value::Null, element: None, used: None };

    fn found(element: Element<'a>, used: Option<usize>) -> Self {
        Slot { value: element.value(), element: Some(element), used }
    }
}

/// Calls `emit` with the values of each key; true if there was an array on a path.
fn for_each<'a>(parts: &[KeyPart], doc: Doc<'a>, emit: &mut dyn FnMut(&[Slot<'a>])) -> Result<bool> {
    let mut slots = vec![Slot { value: Value::Document(doc), element: None, used: Some(0) }; parts.len()];
    let mut multikey = false;
    expand(parts, &mut slots, &mut multikey, emit)?;
    Ok(multikey)
}

fn expand<'a>(
    parts: &[KeyPart],
    slots: &mut [Slot<'a>],
    multikey: &mut bool,
    emit: &mut dyn FnMut(&[Slot<'a>]),
) -> Result<()> {
    let mut array: Option<(Doc<'a>, &KeyPart)> = None;
    for (part, slot) in parts.iter().zip(slots.iter_mut()) {
        advance(part, slot, multikey)?;
        if let (Value::Array(found), Some(_)) = (slot.value, slot.used) {
            match array {
                Some((first, other)) if !std::ptr::eq(first.as_bytes(), found.as_bytes()) => {
                    return Err(QueryError::new(
                        ErrorCode::CannotIndexParallelArrays,
                        format!("cannot index parallel arrays [{}] [{}]", part.path, other.path),
                    ));
                }
                Some(_) => {}
                None => array = Some((found, part)),
            }
        }
    }
    let Some((array, _)) = array else {
        emit(slots);
        return Ok(());
    };
    *multikey = true;
    let mut elements = array.elements().map(Some).peekable();
    // An empty array has one key.
    let empty = elements.peek().is_none().then_some(None);
    for element in empty.into_iter().chain(elements) {
        let mut inner = slots.to_vec();
        for (part, slot) in parts.iter().zip(&mut inner) {
            if let (Value::Array(_), Some(used)) = (slot.value, slot.used) {
                let last = used == part.path.parts().len();
                *slot = match element {
                    Some(element) if last => Slot::found(element, None),
                    Some(element) if matches!(element.value(), Value::Document(_)) => {
                        Slot::found(element, Some(used))
                    }
                    None if last => Slot { value: Value::Undefined, element: slot.element, used: None },
                    _ => Slot::MISSING,
                };
            }
        }
        expand(parts, &mut inner, multikey, emit)?;
    }
    Ok(())
}

/// Follows the path through documents and array positions, until its end or an array.
fn advance(part: &KeyPart, slot: &mut Slot<'_>, multikey: &mut bool) -> Result<()> {
    while let Some(used) = slot.used {
        let Some(name) = part.path.parts().get(used) else {
            if !matches!(slot.value, Value::Array(_)) {
                slot.used = None;
            }
            return Ok(());
        };
        let next = match slot.value {
            Value::Document(doc) => doc.find(name.name.as_bytes()),
            Value::Array(array) => {
                let Some(selected) = name.position.and_then(|position| array.at(position)) else {
                    return Ok(());
                };
                *multikey = true;
                let has_field = |element: Element<'_>| matches!(element.value(), Value::Document(doc) if doc.find(name.name.as_bytes()).is_some());
                if array.elements().any(has_field) {
                    return Err(QueryError::bad_value(format!(
                        "Ambiguous field name found in array (do not use numeric field names in embedded elements \
                         in an array), field: '{}' for index path '{}'",
                        name.name, part.path
                    )));
                }
                Some(selected)
            }
            _ => None,
        };
        *slot = next.map_or(Slot::MISSING, |element| Slot::found(element, Some(used + 1)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    fn keys(pattern: RawDocumentBuf, doc: RawDocumentBuf) -> Result<(Vec<String>, bool)> {
        let def = IndexDef::parse(&pattern, None, false)?;
        let set = def.keys(&doc)?;
        let mut all = Vec::new();
        let multikey = for_each(&def.keys, (&doc).into(), &mut |slots| {
            let key = def.key_encoder().key(slots);
            assert!(set.keys.contains(&key));
            assert_eq!(def.key_value(&doc, &key).iter().count(), def.keys.len());
            let values: Vec<_> = slots.iter().map(|slot| crate::doc::shown(slot.value)).collect();
            all.push(values.join(" "));
        })?;
        assert_eq!(multikey, set.multikey);
        Ok((all, multikey))
    }

    #[test]
    fn scalars_and_missing_fields_have_one_key() {
        for (pattern, doc, expected) in [
            (rawdoc! { "a": 1 }, rawdoc! { "a": 5 }, "5"),
            (rawdoc! { "a": 1 }, rawdoc! {}, "null"),
            (rawdoc! { "a.b": 1 }, rawdoc! { "a": 5 }, "null"),
            (rawdoc! { "a.b": 1, "c": -1 }, rawdoc! { "a": { "b": "x" }, "c": 2 }, "\"x\" 2"),
            (rawdoc! { "a": 1 }, rawdoc! { "a": { "b": 1 } }, "{ b: 1 }"),
        ] {
            assert_eq!(keys(pattern, doc).unwrap(), (vec![expected.to_owned()], false));
        }
    }

    #[test]
    fn arrays_have_a_key_for_each_element() {
        for (pattern, doc, expected) in [
            (rawdoc! { "a": 1 }, rawdoc! { "a": [1, "x", [2, 3]] }, vec!["1", "\"x\"", "[ 2, 3 ]"]),
            (rawdoc! { "a": 1 }, rawdoc! { "a": [] }, vec!["undefined"]),
            (rawdoc! { "a.b": 1 }, rawdoc! { "a": [] }, vec!["null"]),
            (
                rawdoc! { "a.b": 1 },
                rawdoc! { "a": [{ "b": 1 }, 7, { "b": [2, 3] }] },
                vec!["1", "null", "2", "3"],
            ),
            (
                rawdoc! { "a.b": 1, "a.c": 1, "d": 1 },
                rawdoc! { "a": [{ "b": 1, "c": 2 }, { "b": 3 }], "d": 9 },
                vec!["1 2 9", "3 null 9"],
            ),
            (rawdoc! { "a.1": 1 }, rawdoc! { "a": [5, [6, 7]] }, vec!["6", "7"]),
            (rawdoc! { "a.0.b": 1 }, rawdoc! { "a": [{ "b": 4 }, { "b": 5 }] }, vec!["4"]),
        ] {
            let (found, multikey) = keys(pattern, doc).unwrap();
            assert_eq!(found, expected);
            assert!(multikey);
        }
    }

    #[test]
    fn parallel_arrays_are_refused_naming_both_paths() {
        let error = keys(rawdoc! { "a": 1, "b": 1 }, rawdoc! { "a": [1], "b": [2] }).unwrap_err();
        assert_eq!(error.code, ErrorCode::CannotIndexParallelArrays);
        assert_eq!(error.message, "cannot index parallel arrays [b] [a]");
    }

    #[test]
    fn a_duplicate_key_error_has_mongodbs_message() {
        let def = IndexDef::parse(&rawdoc! { "a": 1, "b": -1 }, None, true).unwrap();
        let doc = rawdoc! { "a": ["x", "y"] };
        let key = def.keys(&doc).unwrap().keys.remove(1);
        let error = def.duplicate("db.c", &key, &doc);
        let message =
            "E11000 duplicate key error collection: db.c index: a_1_b_-1 dup key: { a: \"y\", b: null }";
        assert_eq!((error.code, error.message.as_str()), (ErrorCode::DuplicateKey, message));
        assert_eq!(error.duplicate.unwrap().key_value, rawdoc! { "a": "y", "b": null });
    }

    #[test]
    fn keys_are_sorted_without_duplicates() {
        let def = IndexDef::parse(&rawdoc! { "a": -1 }, None, false).unwrap();
        let set = def.keys(&rawdoc! { "a": [1, 3, 2, 3, 1.0] }).unwrap();
        assert_eq!(set.keys.len(), 3);
        let single = |value: i32| def.keys(&rawdoc! { "a": value }).unwrap().keys.remove(0);
        assert_eq!(set.keys, [single(3), single(2), single(1)]);
    }
}
