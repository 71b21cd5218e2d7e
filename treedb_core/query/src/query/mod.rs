//! Filters, updates, projections, expressions, the planner and the executor, over [`crate::access`].
//!
//! | module | what it holds |
//! |---|---|
//! | `expr` | [`expr::Expr`]: a value computed from a document |
//! | `filter` | [`Filter`]: whether a document matches |
//! | `update` | [`Update`]: what a document becomes |
//! | `projection` | [`Projection`], [`Reshape`]: which fields are returned; [`UsedFields`]: which are decoded |
//! | `validation` | [`Validator`]: whether a collection accepts a document |
//! | `deadline` | [`Deadline`]: when an operation gives up |
//! | [`interrupt`] | telling an operation of another thread to stop, and how it finds its rows |
//! | `plan` | [`Query`] and [`Plan`]: which indexes, which ranges of their keys |
//! | `exec` | [`Execution`], [`count`], [`update()`], [`delete`]: carrying a plan out; `explain` |

pub(crate) mod byte_form;
mod deadline;
mod exec;
pub mod expr;
pub mod filter;
pub mod interrupt;
mod plan;
mod projection;
mod update;
mod validation;

pub use crate::error::{DuplicateKey, ErrorCode, QueryError, Result};
pub use deadline::Deadline;
pub use exec::{
    Counters, DistinctValues, Execution, Modified, NearestAnswer, NearestQuery, Neighbor, NeighborRef,
    RowCandidates, SearchEnd, SearchPath, SearchWork, TopK, Updated, count, counted, delete,
    distinct_by_index, explain, find_and_modify, find_rows, for_each_nearest, nearest, project, update,
};
pub(crate) use exec::{external_sort, spill};
pub use filter::Filter;
pub use plan::{
    BitmapScan, Estimate, Hint, IndexFilter, KeyBounds, KeyPredicate, NearSearch, Path, Plan, PlanSummary,
    PointLookup, PointQuery, Query, Returns, SearchedFields, Sort, check_id_index_fields, definition_of,
    index_of, matching_share, new_definitions_of,
};
pub use projection::{MatchRate, Projection, Reshape, UsedFields};
pub(crate) use projection::{borrow_document, finish_document};
pub use update::{Changes, Update};
pub use validation::Validator;
