//! Ordered indexes: the keys a document has under an index definition, and their entry bytes.
//!
//! A key is the order-preserving encoding ([`crate::doc::key`]) of its values, one after the other, each inverted
//! where its field is descending. What the owner of the entries stores:
//!
//! | index | key of the entry | value of the entry |
//! |---|---|---|
//! | unique | key | row id, 8 bytes big endian, then type bits |
//! | not unique | key, then row id, 8 bytes big endian | type bits |
//!
//! Type bits ([`IndexDef::type_bits`]) tell what a key has lost of its values; there may be none.
//!
//! No key is a prefix of another, so the row id after it does not disturb the order.
//!
//! Long keys are shortened before they are stored: natively as `collection::long_key` says.
//!
//! Three kinds of index have other bytes in their keys: of a hashed field the first 8 bytes of the SHA-256 of the
//! value's encoding, not inverted; under a wildcard the encoding of the path (as a text) in front of the value's; under
//! a collation the encoding of the value with its strings replaced by their sort keys ([`crate::doc::Collation`]).

mod definition;
mod keys;
mod options;
mod single_key;
mod type_bits;
mod wildcard;

pub use definition::{IndexDef, KeyPart, MAX_KEY_PARTS, SortOrder, expiry, pattern_of, same_key_pattern};
pub use keys::{KeySet, hashed, keys_of};
pub use options::{Covers, IndexOptions, Kind, Partial};
pub(crate) use type_bits::restored;
pub use wildcard::{Wildcard, path_prefix};
