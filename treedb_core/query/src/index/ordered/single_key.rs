//! The key of a document without arrays on the index's paths: there is exactly one, built without a list of keys.

use bson::RawDocument;

use super::definition::{IndexDef, MAX_KEY_PARTS};
use super::options::Kind;
use super::type_bits::{mark, shortened};
use crate::doc::{Doc, Element, Path, Value};

/// A key and its type bits, one after the other in memory that many of them share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyLengths {
    /// Bytes of the key.
    pub key: usize,
    /// Bytes of the type bits after it.
    pub type_bits: usize,
}

impl IndexDef {
    /// Puts the only key of `doc`, and then its type bits if there are any, at the end of `out`. `None`, and `out` as it
    /// was, if the document may have another number of keys than one: then [`IndexDef::keys`] tells.
    pub fn single(&self, doc: &RawDocument, out: &mut Vec<u8>) -> Option<KeyLengths> {
        let options = &self.options;
        if options.kind != Kind::Values || options.partial.is_some() {
            return None;
        }
        let (start, marked) = (out.len(), self.holds_values());
        let (mut type_bits, mut there) = (TypeBits::default(), false);
        for part in &self.keys {
            let Ok(found) = lead(&part.path, doc.into()) else {
                out.truncate(start);
                return None;
            };
            there |= found.is_some();
            let value = found.map(|element| element.value());
            match options.collation.fold(value.unwrap_or(Value::Null)) {
                Some(folded) => part.encode(folded.value(), out),
                None => part.encode(value.unwrap_or(Value::Null), out),
            }
            if marked {
                type_bits.push(mark(value));
            }
        }
        if options.sparse && !there {
            out.truncate(start);
            return None;
        }
        let key = out.len() - start;
        if marked {
            out.extend_from_slice(type_bits.bytes());
        }
        Some(KeyLengths { key, type_bits: out.len() - start - key })
    }
}

/// What the path leads to; `Err` if that may be several things.
fn lead<'a>(path: &Path, doc: Doc<'a>) -> Result<Option<Element<'a>>, ()> {
    let (mut value, mut found) = (Value::Document(doc), None);
    for part in path.parts() {
        match value {
            Value::Document(doc) => match doc.find(part.name.as_bytes()) {
                Some(element) => (value, found) = (element.value(), Some(element)),
                None => return Ok(None),
            },
            Value::Array(_) => return Err(()),
            _ => return Ok(None),
        }
    }
    if matches!(value, Value::Array(_)) { Err(()) } else { Ok(found) }
}

/// One byte for each field, as many as an index may have.
struct TypeBits {
    all: [u8; MAX_KEY_PARTS],
    count: usize,
}

impl Default for TypeBits {
    fn default() -> Self {
        TypeBits { all: [0; MAX_KEY_PARTS], count: 0 }
    }
}

impl TypeBits {
    fn push(&mut self, mark: u8) {
        if let Some(place) = self.all.get_mut(self.count) {
            *place = mark;
            self.count += 1;
        }
    }

    fn bytes(&self) -> &[u8] {
        shortened(self.all.get(..self.count).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use treedb_testing::{Rng, random_document};

    use super::*;

    #[test]
    fn the_only_key_is_the_one_that_all_keys_are() {
        let patterns = [
            rawdoc! { "key": { "a": 1 }, "name": "plain" },
            rawdoc! { "key": { "a": -1, "b.c": 1 }, "name": "compound" },
            rawdoc! { "key": { "a": 1, "b": -1 }, "name": "sparse", "sparse": true },
            rawdoc! { "key": { "a": 1 }, "name": "folded", "collation": { "locale": "en", "strength": 2 } },
            rawdoc! { "key": { "a": "hashed" }, "name": "hashed" },
            rawdoc! { "key": { "$**": 1 }, "name": "wildcard" },
        ];
        let partial =
            |_: &RawDocument, _: &crate::doc::Collation| unreachable!("no partial index is asked for");
        let (mut rng, mut single) = (Rng::new(11), [0; 6]);
        for _ in 0..2000 {
            let doc = random_document(&mut rng, 3);
            for (pattern, single) in patterns.iter().zip(&mut single) {
                let def = IndexDef::from_spec(pattern, &partial).unwrap();
                let mut out = vec![7];
                let Some(lengths) = def.single(&doc, &mut out) else {
                    assert_eq!(out, [7]);
                    continue;
                };
                *single += 1;
                let all = def.all_keys(&doc).unwrap();
                assert_eq!(
                    (all.keys.as_slice(), all.multikey),
                    (&[out[1..1 + lengths.key].to_vec()][..], false)
                );
                let type_bits = if def.holds_values() { def.type_bits(&doc) } else { Vec::new() };
                assert_eq!(out[1 + lengths.key..], type_bits);
                assert_eq!(lengths.type_bits, type_bits.len());
            }
        }
        assert!(single[..4].iter().all(|single| *single > 300) && single[4..] == [0, 0], "{single:?}");
    }
}
