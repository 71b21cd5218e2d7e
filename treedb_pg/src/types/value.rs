//! `treedb.bson_value`: one BSON value of any type.
//!
//! Stored as the type byte of the BSON specification and the value's bytes. Ordered as MongoDB orders values of all
//! types, numbers of different types by what they are worth.

use treedb_core::doc::key;
use treedb_core::doc::{Element, Value};

/// A stored value, decoded.
pub(crate) fn decode(bytes: &[u8]) -> Value<'_> {
    match bytes.split_first() {
        Some((kind, bytes)) => Element { name: &[], kind: *kind, bytes }.value(),
        None => Value::Undefined,
    }
}

/// Appends the order-preserving key of a stored value.
pub(crate) fn encode_key(bytes: &[u8], out: &mut Vec<u8>) {
    key::encode_value(decode(bytes), out);
}
