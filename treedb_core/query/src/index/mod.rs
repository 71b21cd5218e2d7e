//! Indexes: definitions of every kind, and what a document has in an index.
//!
//! | module | what it holds |
//! |---|---|
//! | `definition` | [`Definition`]: an index of any kind |
//! | [`ordered`] | ordered indexes: key patterns, keys, entries |
//! | [`vector`] | vector indexes: fields, metrics, the vector of a document |

mod definition;
pub mod ordered;
pub mod vector;

pub use definition::Definition;
