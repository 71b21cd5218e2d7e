//! TreeDB.

pub use treedb_collections::*;
