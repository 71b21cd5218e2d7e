//! Execution of plans.
//!
//! | file | what it holds |
//! |---|---|
//! | `execution` | [`Execution`]: runs a plan, batch by batch |
//! | `walk` | the rows that a plan leads to, one after the other |
//! | `bitmap`, `row_set` | the rows that several indexes lead to together |
//! | `returned` | what a find returns beside or instead of a document: the keys of its index, the number of its row |
//! | `row_candidates` | [`RowCandidates`]: the rows that an index leads to, for an owner that reads them itself |
//! | `counters` | [`Counters`]: keys and documents examined |
//! | `count` | [`count`], [`find_rows`]: queries that need no documents |
//! | `near` | the rows of a `$near`, the nearest first |
//! | `nearest` | [`nearest()`]: the documents with the nearest vectors |
//! | `search_work` | [`SearchWork`]: what such a search did |
//! | `distinct` | [`distinct_by_index`]: the distinct values of a field, from an index |
//! | `distinct_values` | [`DistinctValues`]: the same, from documents |
//! | `top_k` | [`TopK`]: the first rows of a sort order with a limit |
//! | `external_sort` | sorted runs, merged |
//! | `spill` | records in temporary files |
//! | `write` | [`update()`], [`delete`]: finds rows and changes them |
//! | `find_and_modify` | [`find_and_modify()`]: changes the first document of an order |
//! | `explain` | what MongoDB's `explain` shows of a plan |

mod bitmap;
mod count;
mod counters;
mod distinct;
mod distinct_values;
mod execution;
pub mod explain;
pub(crate) mod external_sort;
mod find_and_modify;
mod near;
mod nearest;
mod returned;
mod row_candidates;
mod row_set;
mod search_work;
pub(crate) mod spill;
mod top_k;
mod walk;
mod write;

pub use count::{count, counted, find_rows};
pub use counters::Counters;
pub use distinct::distinct_by_index;
pub use distinct_values::DistinctValues;
pub use execution::{Execution, project};
pub use find_and_modify::{Modified, find_and_modify};
pub use nearest::{NearestAnswer, NearestQuery, Neighbor, NeighborRef, for_each_nearest, nearest};
pub use row_candidates::RowCandidates;
pub use search_work::{SearchEnd, SearchPath, SearchWork};
pub use top_k::TopK;
pub use write::{Updated, delete, update};
