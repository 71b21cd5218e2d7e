//! Indexes: definitions, and the keys of a document in them.

pub mod ordered;
