//! Ordered indexes: the keys of a document in an index, and the bytes of index entries.
//!
//! A key is the order-preserving encodings ([`crate::doc::key`]) of its values, one after the other; those of
//! descending fields are inverted. The entries that are stored:
//!
//! | index | key of the entry | value of the entry |
//! |---|---|---|
//! | unique | key | row id, 8 bytes big endian, then type bits |
//! | not unique | key, then row id, 8 bytes big endian | type bits |
//!
//! Type bits ([`IndexDef::type_bits`]) preserve the type information that a key loses; there may be none.
//!
//! No key is a prefix of another, so the row id after it does not affect the order.
//!
//! Long keys are shortened before they are stored, in the native storage as described in
//! `index::ordered::long_key` of `treedb_collections`.
//!
//! Four variants have different keys. In a `2dsphere` or `2d` index a location is replaced by the numbers of its cells
//! (`geo_keys`), 8 bytes big endian. For a hashed field the key has the first 8 bytes of the SHA-256
//! of the value's encoding, not inverted. In a wildcard index the encoding of the path (as a string) precedes
//! that of the value. With a collation the value is encoded with its strings replaced by their sort keys
//! ([`crate::doc::Collation`]).

mod definition;
mod geo_keys;
mod keys;
mod options;
mod single_key;
mod type_bits;
mod wildcard;

pub use definition::{IndexDef, KeyPart, MAX_KEY_PARTS, SortOrder, expiry, pattern_of, same_key_pattern};
pub use geo_keys::GeoFields;
pub use keys::{KeySet, hashed, keys_of};
pub use options::{Covers, IndexOptions, Kind, Partial};
pub(crate) use type_bits::restored;
pub use type_bits::{FETCH, OtherTypes, TypeBits, type_bits_of};
pub use wildcard::{Wildcard, path_prefix};
