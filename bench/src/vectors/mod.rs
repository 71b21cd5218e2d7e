//! Vector search: sets of vectors, and indexes over them.
//!
//! | module | contents |
//! |---|---|
//! | `documents` | a set as documents of a collection |
//! | `sets` | the vectors, the queries, and the exact answers |
//! | `sweep` | recall and speed for each `ef`, and the time at a recall |
//! | `index` | TreeDB's graph and its peers behind one trait |
//! | `tables` | a set as tables of a Postgres server, one with TreeDB's index and one with pgvector's |
//! | `hnswlib` | a peer in C++ |

mod documents;
#[cfg(feature = "peers")]
mod hnswlib;
mod index;
mod sets;
mod sweep;
mod tables;

pub(crate) use documents::Documents;
pub(crate) use index::{VectorIndex, VectorSearch, all as all_indexes, with_candidates};
pub(crate) use sets::{K, Questions, Set, sets, table_sets};
pub(crate) use sweep::{EFS, Plan, RECALL_EF, Sweep, recall, recalls, sweep};
pub(crate) use tables::{SIDES, Search, Tables};
