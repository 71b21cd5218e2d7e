//! Indexes: maps from keys, terms and vectors to row ids.
//!
//! `ordered` is built; `text`, `vector` and `column` mark the places of the later kinds.

pub mod column;
pub mod ordered;
pub mod text;
pub mod vector;
