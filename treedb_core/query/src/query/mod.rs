//! Filter, update, projection, sort, planner and executor, over [`crate::access`].
//!
//! | file | what it holds |
//! |---|---|
//! | `expr` | [`expr::Expr`]: a value computed from a document |
//! | `filter` | [`Filter`]: does a document match |
//! | `update` | [`Update`]: what a document becomes |
//! | `projection` | [`Projection`]: which fields are handed out |
//! | `reshape` | [`Reshape`]: a document made from a document |
//! | `runs`, `spill` | sorted runs in scratch files, and the records in them |
//! | `regular` | how regular expressions are compiled |
//! | `sort` | [`Sort`]: in what order |
//! | `top` | the first rows of an order |
//! | `index_spec` | [`index_of`]: reading an index's specification |
//! | `usable`, `implies` | which indexes may serve a query |
//! | `used` | [`Used`]: which fields are decoded |
//! | `plan`, `bounds` | [`Plan`]: which index, which ranges of its keys |
//! | `walk` | the rows that a plan leads to, one after the other |
//! | `exec` | [`Query`], [`Execution`]: carrying a plan out, batch by batch |
//! | `distinct` | the different values of a field, by an index |
//! | `explain` | plans in MongoDB's words |
//! | `write` | [`update()`], [`delete`]: finding rows and changing them |

mod bounds;
mod distinct;
mod exec;
pub mod explain;
pub mod expr;
pub mod filter;
mod implies;
mod index_spec;
mod plan;
mod projection;
mod regular;
mod reshape;
pub(crate) mod runs;
mod sort;
pub(crate) mod spill;
mod top;
mod update;
mod usable;
mod used;
mod walk;
mod write;

pub use crate::error::{DuplicateKey, ErrorCode, QueryError, Result};
pub use distinct::distinct_by_index;
pub use exec::project;
pub use exec::{Counters, Execution, Query, count, counted, find_rows};
pub use filter::Filter;
pub use index_spec::index_of;
pub use plan::{IndexFilter, OnKeys, Path, Plan, RowSet};
pub use projection::Projection;
pub use reshape::Reshape;
pub(crate) use reshape::{finished, lent};
pub use sort::Sort;
pub use top::Top;
pub use update::{Changes, Update};
pub use used::Tally;
pub use used::Used;
pub use write::{Updated, delete, update};
