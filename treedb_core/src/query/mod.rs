//! Filter, update, projection, sort, planner and executor, over [`crate::access`].

pub use crate::code::{DuplicateKey, ErrorCode, QueryError, Result};
