//! TreeDB's query layer: documents, index keys, filters, updates, plans and pipelines.
//!
//! It runs over any place where rows live: the native collections of `treedb_core`, and tables in PostgreSQL. Both
//! implement the traits of [`access`]. Nothing here knows a file or a store.
//!
//! The modules are layers; each uses only the ones below it in this list:
//!
//! | layer | what it is |
//! |---|---|
//! | [`aggregate`] | pipeline stages |
//! | [`query`] | filter, update, projection, sort, planner, executor |
//! | [`access`] | the traits: what queries need of a place where rows live |
//! | [`index`] | index definitions, and the keys of a document |
//! | [`geo`] | locations: GeoJSON, predicates, cells |
//! | [`doc`] | BSON views, paths, comparison, order-preserving keys, template rows |
//! | [`error`] | MongoDB's error codes |

pub mod access;
pub mod aggregate;
pub mod doc;
pub mod error;
pub mod geo;
pub mod index;
pub mod query;

pub use access::RowId;
pub use bson;
pub use error::{DuplicateKey, ErrorCode, QueryError, Result};
