//! Indexes: definitions of every kind, and what a document has in an index.
//!
//! | module | what it holds |
//! |---|---|
//! | `definition` | [`Definition`]: an index of any kind |
//! | [`ordered`] | ordered indexes: key patterns, keys, entries |

mod definition;
pub mod ordered;

pub use definition::Definition;
