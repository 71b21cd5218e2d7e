//! `treedb.bson_value`: one BSON value of any type.
//!
//! Stored as the type byte of the BSON specification and the value's bytes. Ordered as MongoDB orders values of all
//! types, numbers of different types by what they are worth. Text is relaxed extended JSON, so strings have quotes.

use std::cmp::Ordering;

use treedb_query::doc::{Element, OwnedValue, Value, json, key};

use super::bson::{EXACT_TEXT, refuse_text, with_path};
use super::order::{ordered, with_key_of};
use crate::shim::error::accept;
use crate::shim::function::{Args, pg_function};
use crate::shim::memory::{CString, Memory, Varlena};

/// Type byte of a document.
const DOCUMENT: u8 = 0x03;

/// A stored value as an element without name.
pub(crate) fn element(bytes: &[u8]) -> Element<'_> {
    match bytes.split_first() {
        Some((kind, bytes)) => Element { name: &[], kind: *kind, bytes },
        None => Element { name: &[], kind: 0, bytes: &[] },
    }
}

/// A stored value, decoded.
pub(crate) fn decode(bytes: &[u8]) -> Value<'_> {
    element(bytes).value()
}

/// Appends the order-preserving key of a stored value.
pub(crate) fn encode_key(bytes: &[u8], out: &mut Vec<u8>) {
    key::encode_value(decode(bytes), out);
}

/// An element as a value is stored.
pub(crate) fn stored(element: &Element<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + element.bytes.len());
    bytes.push(element.kind);
    bytes.extend_from_slice(element.bytes);
    bytes
}

/// A new value.
pub(crate) fn varlena<'m>(memory: Memory<'m>, element: &Element<'_>) -> Varlena<'m> {
    memory.varlena(&stored(element))
}

/// The value as `->>` shows it: strings without quotes, null as `None`.
pub(crate) fn as_text(element: &Element<'_>) -> Option<String> {
    match element.value() {
        Value::Null | Value::Undefined => None,
        Value::String(text) => Some(String::from_utf8_lossy(text).into_owned()),
        _ => Some(as_json(element)),
    }
}

fn as_json(element: &Element<'_>) -> String {
    let mut out = String::new();
    json::write_value(element, &mut out);
    out
}

fn owned<'m>(memory: Memory<'m>, value: &OwnedValue) -> Varlena<'m> {
    varlena(memory, &value.element().unwrap_or(Element { name: &[], kind: 0, bytes: &[] }))
}

pg_function! {
    /// Text to value.
    fn treedb_value_in(args: [CString]) -> Varlena<'_> {
        match json::value_from_json(&args.cstring(0)) {
            Ok(value) => owned(args.memory(), &value),
            Err(error) => refuse_text(error),
        }
    }
}

pg_function! {
    /// Value to text.
    fn treedb_value_out(args: [Varlena]) -> CString<'_> {
        let bytes = args.bytes(0);
        let value = element(&bytes);
        let exact = if EXACT_TEXT.is_on() && !args.are_of_expression() { json::value_to_exact_json(&value) } else { None };
        args.memory().cstring(&exact.unwrap_or_else(|| as_json(&value)))
    }
}

pg_function! {
    /// Bytes of a message to value: the type byte and the value's bytes.
    fn treedb_value_recv(args: [Internal]) -> Varlena<'_> {
        let bytes = element(args.message(0));
        owned(args.memory(), &accept(OwnedValue::from_bytes(bytes.kind, bytes.bytes)))
    }
}

pg_function! {
    /// Value to bytes of a message.
    fn treedb_value_send(args: [Varlena]) -> Varlena<'_> {
        args.memory().varlena(&args.bytes(0))
    }
}

ordered!(
    decode,
    treedb_value_lt,
    treedb_value_le,
    treedb_value_eq,
    treedb_value_ne,
    treedb_value_ge,
    treedb_value_gt,
    treedb_value_cmp,
    treedb_value_hash,
    treedb_value_hash_extended
);

pg_function! {
    /// A document as a value.
    fn treedb_value_from_bson(args: [Varlena]) -> Varlena<'_> {
        varlena(args.memory(), &Element { name: &[], kind: DOCUMENT, bytes: &args.bytes(0) })
    }
}

/// A value against an encoded key (argument 1, a bytea): how an index on values is searched by keys.
fn order_to_key(args: &Args) -> Ordering {
    order_of(&args.bytes(0), &args.bytes(1))
}

fn order_of(value: &[u8], key: &[u8]) -> Ordering {
    with_key_of(decode(value), |own| own.cmp(key))
}

// A scan of an index on values asks for each of its entries.

fn cmp_key(value: &[u8], key: &[u8]) -> i32 {
    order_of(value, key) as i32
}

fn ge_key(value: &[u8], key: &[u8]) -> bool {
    order_of(value, key).is_ge()
}

fn lt_key(value: &[u8], key: &[u8]) -> bool {
    order_of(value, key).is_lt()
}

pg_function! {
    /// A value against a key: -1, 0 or 1.
    quick = cmp_key;
    fn treedb_value_cmp_key(args: [Varlena, Varlena]) -> i32 {
        order_to_key(args) as i32
    }
}

pg_function! {
    /// A value not below a key.
    quick = ge_key;
    fn treedb_value_ge_key(args: [Varlena, Varlena]) -> bool {
        order_to_key(args).is_ge()
    }
}

pg_function! {
    /// A value below a key.
    quick = lt_key;
    fn treedb_value_lt_key(args: [Varlena, Varlena]) -> bool {
        order_to_key(args).is_lt()
    }
}

pg_function! {
    /// The value at a path in a value, or NULL.
    fn treedb_value_get(args: [Varlena, Varlena]) -> Option<Varlena<'_>> {
        let bytes = args.bytes(0);
        let found = with_path(args, |path| path.select_in(decode(&bytes)));
        found.map(|element| varlena(args.memory(), &element))
    }
}

pg_function! {
    /// The value at a path in a value, as text, or NULL.
    fn treedb_value_get_text(args: [Varlena, Varlena]) -> Option<Varlena<'_>> {
        let bytes = args.bytes(0);
        let found = with_path(args, |path| path.select_in(decode(&bytes)));
        found.and_then(|element| as_text(&element)).map(|text| args.memory().text(&text))
    }
}
