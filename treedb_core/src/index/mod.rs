//! Indexes: maps from the keys of a document to row ids.

pub mod ordered;
