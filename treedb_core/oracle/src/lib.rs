//! Tests of the query layer beside a naive evaluation of MongoDB's definitions.
//!
//! | module | what it holds |
//! |---|---|
//! | [`query`] | random documents, filters, sorts, projections, indexes and updates, and what they must give |
//! | [`aggregate`] | random pipelines, and what they must give |
//!
//! The naive evaluation shares nothing with the query layer but BSON itself. The tests of `treedb_core` use the same
//! generators for whole collections.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![cfg_attr(
    not(test),
    allow(dead_code, unused_imports, reason = "most of it serves the tests in this package")
)]
#![allow(missing_docs, reason = "for tests alone")]

pub mod aggregate;
pub mod query;
