//! Reading collections: finds, pipelines and the snapshots they read.
//!
//! | file | what it holds |
//! |---|---|
//! | `view` | a collection in a snapshot, as the query layer's [`Source`](treedb_query::access::Source) |
//! | `cursor`, `batch` | [`cursor::Cursor`]: the documents of a find, fetched in batches |
//! | `of_view` | finds in views, by their pipelines |
//! | `point_lookup` | finds by `_id` and other indexed values, by the planner's rules and without a plan |
//! | `vector_search` | the documents with the nearest vectors |
//! | `vector_searcher` | the same one search after another, without allocating |
//! | `distinct` | the distinct values of a field |
//! | `for_each` | documents of a find, borrowed |
//! | `json` | documents as JSON text |
//! | `aggregate` | pipelines over the collections of one snapshot |
//! | `snapshot_collections` | the collections of that snapshot, as the stages see them; and those of an earlier moment |
//! | `examined` | what an aggregation has examined, and its limits |
//! | `explain_pipeline` | what `explain` shows of a pipeline |
//! | `parallel_scan` | a pipeline's first stages, run by several threads over parts of a collection |
//! | `tail` | [`tail::Tail`]: the documents of a capped collection as they are inserted |
//! | `top_k` | the first documents of a sort order |

pub(crate) mod aggregate;
pub(crate) mod batch;
pub(crate) mod cursor;
mod distinct;
pub(crate) mod examined;
mod explain_pipeline;
mod for_each;
pub(crate) mod json;
pub(crate) mod of_view;
pub(crate) mod parallel_scan;
pub(crate) mod point_lookup;
mod snapshot_collections;
pub(crate) mod tail;
mod top_k;
pub(crate) mod vector_search;
pub(crate) mod vector_searcher;
pub(crate) mod view;
