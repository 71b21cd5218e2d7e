//! `treedb.keyset`: the keys a document has in an ordered index, several where it has arrays, none where the index
//! leaves the document out.
//!
//! Which index, says the second argument of `treedb.keys` and `treedb.unique_key`: a key pattern `{"a": 1}`, or a
//! specification as `createIndexes` takes it, without name and `unique`: `{"key": {"a": 1}, "sparse": true}`. They are
//! told apart by their first field, which in a specification is a document.
//!
//! Stored as a byte of flags and the keys in rising order, each a length of two bytes, little-endian, and the key. Keys longer
//! than [`LONGEST`] are cut: no index keeps more. Flags:
//!
//! | flag | what |
//! |---|---|
//! | 1 | the document has an array on a path of the index |
//! | 2, 4, 8 | if there is none: which [`OtherTypes`] its values have |

use std::cell::RefCell;
use std::cmp::Ordering;
use std::sync::Arc;

use bson::raw::cstr;
use bson::{RawDocument, RawDocumentBuf};
use treedb_query::doc::{Doc, Value};
use treedb_query::error::Result;
use treedb_query::index::ordered::{IndexDef, IndexOptions, KeySet, OtherTypes};
use treedb_query::query::index_of;

use super::bson::document;
use crate::shim::error::{SqlState, accept, fail};
use crate::shim::function::{Args, pg_function};
use crate::shim::memory::{CString, Varlena};

/// The most bytes of a key that are kept.
pub(crate) const LONGEST: usize = 4096;

const MULTIKEY: u8 = 1;
/// How far the flags of types are shifted.
const TYPES: u32 = 1;

/// The keys of a document, as they are stored.
pub(crate) struct StoredKeys<'a> {
    /// Whether another document of this kind may have several keys.
    pub(crate) multikey: bool,
    /// Unless it may: which of its values have other types than their keys tell.
    pub(crate) types: OtherTypes,
    rest: &'a [u8],
}

/// Reads a stored key set. Bytes that are none end it early.
pub(crate) fn read(bytes: &[u8]) -> StoredKeys<'_> {
    match bytes.split_first() {
        Some((flags, rest)) => {
            let types = OtherTypes::from_bits(flags >> TYPES);
            StoredKeys { multikey: flags & MULTIKEY != 0, types, rest }
        }
        None => StoredKeys { multikey: false, types: OtherTypes::NONE, rest: &[] },
    }
}

impl<'a> Iterator for StoredKeys<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (len, rest) = self.rest.split_first_chunk::<2>()?;
        let (key, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
        self.rest = rest;
        Some(key)
    }
}

fn write(keys: &KeySet, types: OtherTypes) -> Vec<u8> {
    let mut out = vec![if keys.multikey { MULTIKEY } else { types.bits() << TYPES }];
    for key in &keys.keys {
        let kept = key.get(..LONGEST).unwrap_or(key);
        // Fits: LONGEST does.
        out.extend_from_slice(&(kept.len() as u16).to_le_bytes());
        out.extend_from_slice(kept);
    }
    out
}

/// The index that a pattern or specification describes.
pub(crate) fn definition(description: &RawDocument, name: Option<&str>, unique: bool) -> Result<IndexDef> {
    let first = Doc::from(description).elements().next();
    if !first.is_some_and(|first| first.name == b"key" && matches!(first.value(), Value::Document(_))) {
        return IndexDef::parse(description, name, unique);
    }
    let mut spec = description.to_owned();
    if let Some(name) = name {
        spec.append(cstr!("name"), name);
    }
    if unique {
        spec.append(cstr!("unique"), true);
    }
    index_of(&spec)
}

/// What [`definition`] reads an index from, without name and uniqueness.
pub(crate) fn description(def: &IndexDef) -> RawDocumentBuf {
    if def.options == IndexOptions::default() {
        return def.key_pattern();
    }
    let mut description = RawDocumentBuf::new();
    for element in def.spec().iter().flatten() {
        let (name, value) = element;
        if !matches!(name.as_str(), "v" | "name" | "unique") {
            description.append(name, value);
        }
    }
    description
}

/// A description, and the index that it describes.
type Described = (Vec<u8>, Arc<IndexDef>);

/// The description that a call site was last called with, and its index.
#[derive(Default)]
struct LastIndex(Option<Described>);

/// Most descriptions that a backend remembers; when there would be more, all are forgotten.
const MOST_DESCRIBED: usize = 64;

thread_local! {
    /// Descriptions that were read. A call site is one of a statement: statements that change one document each would
    /// read them again and again.
    static DESCRIBED: RefCell<Vec<Described>> = const { RefCell::new(Vec::new()) };
}

/// The index that `description` describes; an SQL error if it does not.
fn described(description: &[u8]) -> Arc<IndexDef> {
    let known = DESCRIBED.with_borrow(|known| {
        known.iter().find(|(known, _)| known == description).map(|(_, def)| Arc::clone(def))
    });
    known.unwrap_or_else(|| {
        let def = Arc::new(accept(definition(document(description), None, false)));
        DESCRIBED.with_borrow_mut(|known| {
            if known.len() >= MOST_DESCRIBED {
                known.clear();
            }
            known.push((description.to_vec(), Arc::clone(&def)));
        });
        def
    })
}

/// The keys of a document, and if it has no array on a path, which of its values have other types than they tell.
fn typed_keys(def: &IndexDef, document: &RawDocument) -> Result<(KeySet, OtherTypes)> {
    let mut key = Vec::with_capacity(16 * def.keys.len());
    if let Some(lengths) = def.single(document, &mut key) {
        let types = OtherTypes::of_key(key.get(lengths.key..).unwrap_or_default());
        key.truncate(lengths.key);
        return Ok((KeySet { keys: vec![key], multikey: false }, types));
    }
    let keys = def.keys(document)?;
    let told = !keys.multikey && !keys.keys.is_empty() && def.holds_values();
    let types = if told { OtherTypes::of_key(&def.type_bits(document)) } else { OtherTypes::NONE };
    Ok((keys, types))
}

/// The keys of document 0 in the index that argument 1 describes, see [`typed_keys`].
fn keys_of(args: &Args) -> (KeySet, OtherTypes) {
    let (bytes, description) = (args.bytes(0), args.bytes(1));
    accept(args.with_kept(|LastIndex(kept)| {
        if kept.as_ref().is_none_or(|(kept, _)| kept.as_slice() != &*description) {
            *kept = None;
        }
        let (_, def) = kept.get_or_insert_with(|| (description.to_vec(), described(&description)));
        typed_keys(def, document(&bytes))
    }))
}

pg_function! {
    /// `treedb.keys(document, pattern)`: what an index of TreeDB has for a document.
    fn treedb_keys(args: [Varlena, Varlena]) -> Varlena<'_> {
        let (keys, types) = keys_of(args);
        args.memory().varlena(&write(&keys, types))
    }
}

pg_function! {
    /// `treedb.unique_key(document, pattern)`: what a unique index has for a document, a bytea; NULL if the index leaves
    /// the document out.
    fn treedb_unique_key(args: [Varlena, Varlena]) -> Option<Varlena<'_>> {
        let (keys, _) = keys_of(args);
        match keys.keys.as_slice() {
            [] => None,
            [key] if !keys.multikey => Some(args.memory().varlena(key)),
            _ => {
                let pattern = args.bytes(1);
                let shown = treedb_query::doc::json::to_json(document(&pattern));
                fail(
                    SqlState::ERRCODE_FEATURE_NOT_SUPPORTED,
                    format!("a document has an array where the unique index {shown} leads"),
                    "Drop the index and create it again: version 0.1.0 made it, and the later ones make unique indexes that reach into arrays.",
                )
            }
        }
    }
}

/// Whether two key sets have a key in common. Keys come in rising order.
fn overlap(a: &[u8], b: &[u8]) -> bool {
    let (mut a, mut b) = (read(a).peekable(), read(b).peekable());
    while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
        match x.cmp(y) {
            Ordering::Less => drop(a.next()),
            Ordering::Greater => drop(b.next()),
            Ordering::Equal => return true,
        }
    }
    false
}

/// The key of a set that another row has, too, by what an exclusion constraint says of the two; the first one if it
/// does not say.
pub(crate) fn shared<'k>(keys: &'k KeySet, detail: &str) -> Option<&'k Vec<u8>> {
    // `Key (..)=({..}) conflicts with existing key (..)=({..}).`: the last braces.
    let theirs = detail.rsplit_once('{').map_or("", |(_, theirs)| theirs);
    let theirs: Vec<&str> = theirs.split(['}', ',']).collect();
    let found = keys
        .keys
        .iter()
        .find(|key| theirs.contains(&hexadecimal(key.get(..LONGEST).unwrap_or(key)).as_str()));
    found.or_else(|| keys.keys.first())
}

fn hexadecimal(key: &[u8]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

pg_function! {
    /// `keyset && keyset`: what a unique index over arrays does not allow of two documents.
    fn treedb_keyset_overlaps(args: [Varlena, Varlena]) -> bool {
        overlap(&args.bytes(0), &args.bytes(1))
    }
}

pg_function! {
    /// There is no way in for a key set but from a document.
    fn treedb_keyset_in(args: [CString]) -> Varlena<'_> {
        fail(
            SqlState::ERRCODE_FEATURE_NOT_SUPPORTED,
            "a treedb.keyset cannot be written by hand",
            "treedb.keys(document, pattern) makes one.",
        )
    }
}

pg_function! {
    /// The keys in hexadecimal.
    fn treedb_keyset_out(args: [Varlena]) -> CString<'_> {
        let bytes = args.bytes(0);
        let keys: Vec<String> = read(&bytes).map(hexadecimal).collect();
        args.memory().cstring(&format!("{{{}}}", keys.join(",")))
    }
}
