//! `treedb.keyset`: the keys a document has in an ordered index, several where it has arrays.
//!
//! Stored as a byte of flags (1: the document has an array on a path of the index) and the keys in rising order,
//! each a length of two bytes, little-endian, and the key. Keys longer than [`LONGEST`] are cut: no index keeps more.

use bson::RawDocument;
use treedb_query::index::ordered::{IndexDef, KeySet};

use super::bson::document;
use crate::shim::error::{SqlState, accept, fail};
use crate::shim::function::{Args, pg_function};
use crate::shim::memory::{CString, Varlena};

/// The most bytes of a key that are kept.
pub(crate) const LONGEST: usize = 4096;

const MULTIKEY: u8 = 1;

/// The keys of a document, as they are stored.
pub(crate) struct StoredKeys<'a> {
    /// Whether another document of this kind may have several keys.
    pub(crate) multikey: bool,
    rest: &'a [u8],
}

/// Reads a stored key set. Bytes that are none end it early.
pub(crate) fn read(bytes: &[u8]) -> StoredKeys<'_> {
    match bytes.split_first() {
        Some((flags, rest)) => StoredKeys { multikey: flags & MULTIKEY != 0, rest },
        None => StoredKeys { multikey: false, rest: &[] },
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

fn write(keys: &KeySet) -> Vec<u8> {
    let mut out = vec![if keys.multikey { MULTIKEY } else { 0 }];
    for key in &keys.keys {
        let kept = key.get(..LONGEST).unwrap_or(key);
        // Fits: LONGEST does.
        out.extend_from_slice(&(kept.len() as u16).to_le_bytes());
        out.extend_from_slice(kept);
    }
    out
}

/// The key pattern that a call site was last called with, and its bytes.
#[derive(Default)]
struct LastPattern(Option<(Vec<u8>, IndexDef)>);

/// The keys of document 0 under pattern 1.
fn keys_of(args: &Args) -> KeySet {
    let (bytes, pattern) = (args.bytes(0), args.bytes(1));
    let parse = |pattern: &RawDocument| accept(IndexDef::parse(pattern, None, false));
    accept(args.with_kept(|LastPattern(kept)| {
        if kept.as_ref().is_none_or(|(kept, _)| kept.as_slice() != &*pattern) {
            *kept = None;
        }
        let (_, def) = kept.get_or_insert_with(|| (pattern.to_vec(), parse(document(&pattern))));
        def.keys(document(&bytes))
    }))
}

pg_function! {
    /// `treedb.keys(document, pattern)`: what an index of TreeDB has for a document.
    fn treedb_keys(args: [Varlena, Varlena]) -> Varlena<'_> {
        args.memory().varlena(&write(&keys_of(args)))
    }
}

pg_function! {
    /// `treedb.unique_key(document, pattern)`: what a unique index has for a document, a bytea.
    fn treedb_unique_key(args: [Varlena, Varlena]) -> Varlena<'_> {
        let keys = keys_of(args);
        match keys.keys.as_slice() {
            [key] if !keys.multikey => args.memory().varlena(key),
            _ => {
                let pattern = args.bytes(1);
                let shown = treedb_query::doc::json::to_json(document(&pattern));
                fail(
                    SqlState::ERRCODE_FEATURE_NOT_SUPPORTED,
                    format!("a document has an array where the unique index {shown} leads"),
                    "In PostgreSQL unique indexes do not reach into arrays: drop the index, or keep one value there.",
                )
            }
        }
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
        let keys: Vec<String> = read(&bytes)
            .map(|key| key.iter().map(|byte| format!("{byte:02x}")).collect())
            .collect();
        args.memory().cstring(&format!("{{{}}}", keys.join(",")))
    }
}
