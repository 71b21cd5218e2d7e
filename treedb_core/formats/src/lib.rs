//! Formats that TreeDB's two stores share: the native one (`treedb_storage`) and Postgres' relation files (`treedb_pg`).
//!
//! Everything here works on plain byte slices and knows neither files nor Postgres.
//!
//! | module | what it holds |
//! |---|---|
//! | [`node`] | leaves and branches of a B+tree: format, search, change, split, join |
//! | [`packed`] | leaves of keys of one length, without values |
//! | [`grouped`] | leaves of entries of which many differ in the last bytes of their keys only |
//! | [`append_area`] | entries of a leaf that have not been merged into its sorted part yet |
//! | [`key`] | prefixes of keys that are compared bytewise |
//! | [`error`] | the error of a store, which the query layer wraps |

pub mod append_area;
pub mod error;
pub mod grouped;
pub mod key;
pub mod node;
pub mod packed;

pub use error::{Corruption, Error, Result};
