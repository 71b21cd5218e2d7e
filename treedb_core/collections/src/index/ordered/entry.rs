//! The bytes of the entries of an ordered index.
//!
//! An entry of a non-unique index has the key `key ++ row id` (8 bytes, big endian, so that equal keys are ordered by row id) and
//! the type bits as its value. An entry of a unique index has the key `key`, and as its value the row id, 8 bytes big endian,
//! and the type bits ([`IndexDef::type_bits`], possibly none). Encoded keys are self-delimiting, so
//! appending the row id keeps their order. Long keys are stored shortened ([`super::long_key`]).

use bson::RawDocument;

use treedb_query::access::RowId;
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::index::ordered::{IndexDef, KeySet};

use super::long_key::{is_long, stored};

/// The entry of `row` under `key`: the stored key with the value behind it, and where that begins. Made of the key's own memory,
/// because each write makes one for each index.
#[inline]
pub(crate) fn entry(unique: bool, key: Vec<u8>, row: RowId, type_bits: &[u8]) -> (Vec<u8>, usize) {
    let mut out = if is_long(&key) { stored(&key).into_owned() } else { key };
    let end = append_row(unique, row, type_bits, &mut out);
    (out, end)
}

/// Appends the entry of `row` under the stored `key` to `out`: key, row, type bits. The row is the end of the entry's key or,
/// in a unique index, the beginning of its value. Returns where the value begins.
pub(crate) fn append_entry(
    unique: bool,
    key: &[u8],
    row: RowId,
    type_bits: &[u8],
    out: &mut Vec<u8>,
) -> usize {
    out.extend_from_slice(key);
    append_row(unique, row, type_bits, out)
}

/// What follows the key in an entry; returns where the value begins.
#[inline]
fn append_row(unique: bool, row: RowId, type_bits: &[u8], out: &mut Vec<u8>) -> usize {
    let before = out.len();
    out.extend_from_slice(&row.0.to_be_bytes());
    let end = if unique { before } else { out.len() };
    out.extend_from_slice(type_bits);
    end
}

/// The type bits in the value of an entry.
pub(crate) fn type_bits_of(unique: bool, value: &[u8]) -> &[u8] {
    if unique { value.get(8..).unwrap_or_default() } else { value }
}

/// The stored key and the row of an entry.
pub(crate) fn split_entry<'e>(def: &IndexDef, key: &'e [u8], value: &[u8]) -> Result<(&'e [u8], RowId)> {
    let parts =
        if def.unique { value.first_chunk::<8>().map(|id| (key, id)) } else { key.split_last_chunk::<8>() };
    match parts {
        Some((key, id)) => Ok((key, RowId(u64::from_be_bytes(*id)))),
        None => Err(QueryError::new(
            ErrorCode::InternalError,
            format!("index {} has an entry without a row id: drop it and create it again", def.name),
        )),
    }
}

/// The type bits of a document's only entry; none if it has several.
pub(crate) fn type_bits(def: &IndexDef, keys: &KeySet, document: &RawDocument) -> Vec<u8> {
    if keys.multikey || keys.keys.len() != 1 || !def.holds_values() {
        Vec::new()
    } else {
        def.type_bits(document)
    }
}
