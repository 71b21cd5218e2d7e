//! The keys a document has under a key pattern.
//!
//! * A path that leads to nothing has the key null.
//! * An array on the path, or at its end, gives one key for each element; an empty array at the end gives undefined.
//!   Arrays inside that array are keys themselves. That makes an index *multikey*.
//! * Two paths of a compound pattern that lead through the same array move through it together; two different arrays
//!   are refused ("parallel arrays"), because their keys would multiply.
//! * A number in a path selects the element of an array at that position, where there is one.
//!
//! Every value a condition on the path could match has its key here (see [`crate::doc::path`]): more keys than
//! needed are harmless, a missing one would hide the row.

use bson::{RawDocument, RawDocumentBuf};

use super::definition::{IndexDef, KeyPart, SortOrder};
use sha2::{Digest, Sha256};

use super::options::Kind;
use crate::doc::key::invert;
use crate::doc::key_decode::encoded_length;
use crate::doc::write::Writer;
use crate::doc::{Collation, Doc, Element, Value};
use crate::error::{DuplicateKey, ErrorCode, QueryError, Result};

/// A document's keys, encoded, in order, each once. Never empty but under a sparse, partial or wildcard index.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeySet {
    /// Order-preserving bytes of each key: the encodings of the values one after the other, inverted where the
    /// field is descending.
    pub keys: Vec<Vec<u8>>,
    /// True if an array was met on the way.
    pub multikey: bool,
}

impl IndexDef {
    /// The keys of `doc`: all the index has to say about it, whatever kind of index it is.
    ///
    /// Errors: `CannotIndexParallelArrays`; `BadValue` for a number in a path that both selects an element and
    /// names a field of the array's documents; `Location16766` for an array under a hashed index.
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

    /// [`IndexDef::keys`], however many there are.
    pub(super) fn all_keys(&self, doc: &RawDocument) -> Result<KeySet> {
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
        let (coder, mut keys) = (self.coder(), Vec::new());
        let multikey = for_each(&self.keys, doc.into(), &mut |values| {
            if !self.options.sparse || values.iter().any(|slot| slot.element.is_some()) {
                keys.push(coder.key(values));
            }
        })?;
        if multikey && coder.hashed.is_some() {
            return Err(QueryError::new(
                ErrorCode::Location16766,
                format!("hashed indexes do not currently support array values (index {})", self.name),
            ));
        }
        Ok(KeySet::of(keys, multikey))
    }

    /// True if `key` is a whole key: the values of all fields, and nothing after them.
    pub fn is_whole(&self, key: &[u8]) -> bool {
        let encoded = |key: &[u8], inverted| encoded_length(key, inverted);
        let mut at = 0;
        let mut pass = |length: &dyn Fn(&[u8]) -> Option<usize>| {
            let end = key.get(at..).and_then(length).map(|length| at + length);
            at = end.unwrap_or(usize::MAX);
        };
        match &self.options.kind {
            Kind::Wildcard(_) => (0..2).for_each(|_| pass(&|rest| encoded(rest, false))),
            Kind::Values | Kind::Hashed(_) => {
                let hashed_at = self.coder().hashed;
                for (number, part) in self.keys.iter().enumerate() {
                    match hashed_at == Some(number) {
                        true => pass(&|rest| rest.first_chunk::<8>().map(|hash| hash.len())),
                        false => pass(&|rest| encoded(rest, part.direction == SortOrder::Descending)),
                    }
                }
            }
        }
        at == key.len()
    }

    fn coder(&self) -> Coder<'_> {
        let hashed = if let Kind::Hashed(at) = self.options.kind { Some(at) } else { None };
        Coder { parts: &self.keys, collation: &self.options.collation, hashed }
    }

    /// The values behind the key whose encoding is `key`, under the names of the pattern: what a duplicate key
    /// error reports.
    pub fn key_value(&self, doc: &RawDocument, key: &[u8]) -> RawDocumentBuf {
        let mut found = RawDocumentBuf::new();
        // The document has been indexed: its keys cannot be refused now.
        let _ = for_each(&self.keys, doc.into(), &mut |values| {
            if found.iter().next().is_none() && self.coder().key(values) == key {
                found = named(&self.keys, values);
            }
        });
        found
    }

    /// The error for a key of `doc` that this unique index of collection `namespace` has already.
    pub fn duplicate(&self, namespace: &str, key: &[u8], doc: &RawDocument) -> QueryError {
        let key_value = self.key_value(doc, key);
        let shown = crate::doc::shown(Value::Document((&key_value).into()));
        let duplicate = DuplicateKey { index: self.name.clone(), key_pattern: self.key_pattern(), key_value };
        QueryError::duplicate_key(namespace, duplicate, &shown)
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

/// [`IndexDef::keys`] for a bare list of fields: a sort has keys as an index has.
pub fn keys_of(parts: &[KeyPart], collation: &Collation, doc: &RawDocument) -> Result<KeySet> {
    let (coder, mut keys) = (Coder { parts, collation, hashed: None }, Vec::new());
    let multikey = for_each(parts, doc.into(), &mut |values| keys.push(coder.key(values)))?;
    Ok(KeySet::of(keys, multikey))
}

/// What a hashed index holds in the place of a value whose encoding is `encoded`.
pub fn hashed(encoded: &[u8]) -> [u8; 8] {
    let digest: [u8; 32] = Sha256::digest(encoded).into();
    digest.first_chunk().copied().unwrap_or_default()
}

/// Makes the bytes of keys.
struct Coder<'d> {
    parts: &'d [KeyPart],
    collation: &'d Collation,
    /// Position of the field of which a hash is held.
    hashed: Option<usize>,
}

impl Coder<'_> {
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

fn named(parts: &[KeyPart], values: &[Slot<'_>]) -> RawDocumentBuf {
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

/// How far one field of the pattern has come.
#[derive(Debug, Clone, Copy)]
struct Slot<'a> {
    value: Value<'a>,
    /// Where the value came from; `None` for nothing.
    element: Option<Element<'a>>,
    /// Parts of the path already used; `None` once the value is final.
    used: Option<usize>,
}

impl<'a> Slot<'a> {
    const NOTHING: Slot<'static> = Slot { value: Value::Null, element: None, used: None };

    fn found(element: Element<'a>, used: Option<usize>) -> Self {
        Slot { value: element.value(), element: Some(element), used }
    }
}

/// Calls `emit` with the values of each key; true if an array was met.
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
        if let (Value::Array(met), Some(_)) = (slot.value, slot.used) {
            match array {
                Some((first, other)) if !std::ptr::eq(first.as_bytes(), met.as_bytes()) => {
                    return Err(QueryError::new(
                        ErrorCode::CannotIndexParallelArrays,
                        format!("cannot index parallel arrays [{}] [{}]", part.path, other.path),
                    ));
                }
                Some(_) => {}
                None => array = Some((met, part)),
            }
        }
    }
    let Some((array, _)) = array else {
        emit(slots);
        return Ok(());
    };
    *multikey = true;
    let mut elements = array.elements().map(Some).peekable();
    let none = elements.peek().is_none().then_some(None);
    for element in none.into_iter().chain(elements) {
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
                    _ => Slot::NOTHING,
                };
            }
        }
        expand(parts, &mut inner, multikey, emit)?;
    }
    Ok(())
}

/// Follows the path through documents and positions, up to its end or an array.
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
                let named = |element: Element<'_>| matches!(element.value(), Value::Document(doc) if doc.find(name.name.as_bytes()).is_some());
                if array.elements().any(named) {
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
        *slot = next.map_or(Slot::NOTHING, |element| Slot::found(element, Some(used + 1)));
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
            let key = def.coder().key(slots);
            assert!(set.keys.contains(&key));
            assert_eq!(def.key_value(&doc, &key).iter().count(), def.keys.len());
            let values: Vec<_> = slots.iter().map(|slot| crate::doc::shown(slot.value)).collect();
            all.push(values.join(" "));
        })?;
        assert_eq!(multikey, set.multikey);
        Ok((all, multikey))
    }

    #[test]
    fn scalars_and_nothing_have_one_key() {
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
    fn a_duplicate_is_reported_in_mongodbs_words() {
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
    fn keys_come_in_order_and_only_once() {
        let def = IndexDef::parse(&rawdoc! { "a": -1 }, None, false).unwrap();
        let set = def.keys(&rawdoc! { "a": [1, 3, 2, 3, 1.0] }).unwrap();
        assert_eq!(set.keys.len(), 3);
        let single = |value: i32| def.keys(&rawdoc! { "a": value }).unwrap().keys.remove(0);
        assert_eq!(set.keys, [single(3), single(2), single(1)]);
    }
}
