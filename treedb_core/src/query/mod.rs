//! Filter, update, projection, sort, planner and executor, over [`crate::access`].

pub mod filter;

pub use crate::code::{DuplicateKey, ErrorCode, QueryError, Result};
pub use filter::Filter;
