//! Fast path for a document without arrays on the index's paths: it has exactly one key, so no list of keys
//! is built.

use bson::RawDocument;

use super::definition::IndexDef;
use super::type_bits::{TypeBits, type_bits_of};
use crate::doc::{Doc, Element, Path, Value};

/// The lengths of a key and of its type bits, which follow each other in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyLengths {
    /// The length of the key in bytes.
    pub key: usize,
    /// The length of the type bits after it, in bytes.
    pub type_bits: usize,
}

impl IndexDef {
    /// Appends the only key of `doc`, and then its type bits if there are any, to `out`. If the document may
    /// not have exactly one key, returns `None` and leaves `out` unchanged; [`IndexDef::keys`] computes the
    /// keys then.
    pub fn single(&self, doc: &RawDocument, out: &mut Vec<u8>) -> Option<KeyLengths> {
        let options = &self.options;
        if !options.kind.is_values() || options.partial.is_some() {
            return None;
        }
        let (start, with_type_bits) = (out.len(), self.holds_values());
        let (mut type_bits, mut any_field) = (TypeBits::default(), false);
        for part in &self.keys {
            let Ok(found) = single_value(&part.path, doc.into()) else {
                out.truncate(start);
                return None;
            };
            any_field |= found.is_some();
            let value = found.map(|element| element.value());
            match options.collation.fold(value.unwrap_or(Value::Null)) {
                Some(folded) => part.encode(folded.value(), out),
                None => part.encode(value.unwrap_or(Value::Null), out),
            }
            if with_type_bits {
                type_bits.push(type_bits_of(value));
            }
        }
        if options.sparse && !any_field {
            out.truncate(start);
            return None;
        }
        let key = out.len() - start;
        if with_type_bits {
            out.extend_from_slice(type_bits.stored());
        }
        Some(KeyLengths { key, type_bits: out.len() - start - key })
    }
}

/// The element at the path, `Ok(None)` if it is missing; `Err` if there is an array on the path.
fn single_value<'a>(path: &Path, doc: Doc<'a>) -> Result<Option<Element<'a>>, ()> {
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

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use treedb_testing::{Rng, random_document};

    use super::*;

    #[test]
    fn the_single_key_equals_the_only_one_of_all_keys() {
        let patterns = [
            rawdoc! { "key": { "a": 1 }, "name": "plain" },
            rawdoc! { "key": { "a": -1, "b.c": 1 }, "name": "compound" },
            rawdoc! { "key": { "a": 1, "b": -1 }, "name": "sparse", "sparse": true },
            rawdoc! { "key": { "a": 1 }, "name": "folded", "collation": { "locale": "en", "strength": 2 } },
            rawdoc! { "key": { "a": "hashed" }, "name": "hashed" },
            rawdoc! { "key": { "$**": 1 }, "name": "wildcard" },
        ];
        let partial = |_: &RawDocument, _: &crate::doc::Collation| unreachable!("there is no partial index");
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
