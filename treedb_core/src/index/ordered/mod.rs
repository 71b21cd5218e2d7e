//! Ordered indexes: the keys a document has under an index definition, and their entry bytes.
//!
//! A key is the order-preserving encoding ([`crate::doc::key`]) of its values, one after the other, each inverted
//! where its field is descending. What the owner of the entries stores:
//!
//! | index | key of the entry | value of the entry |
//! |---|---|---|
//! | unique | key | row id, 8 bytes big endian |
//! | not unique | key, then row id, 8 bytes big endian | nothing |
//!
//! No key is a prefix of another, so the row id behind it does not disturb the order.

mod def;
mod keys;

pub use def::{Direction, IndexDef, KeyPart, MAX_KEY_PARTS, pattern_of};
pub use keys::{KeySet, keys_of};
