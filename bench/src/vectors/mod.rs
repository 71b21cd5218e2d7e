//! Vector search: sets of vectors, and indexes over them.
//!
//! | module | contents |
//! |---|---|
//! | `documents` | a set as documents of a collection |
//! | `sets` | the vectors, the queries, and the exact answers |
//! | `index` | TreeDB's graph and its peers behind one trait |
//! | `hnswlib` | a peer in C++ |

mod documents;
#[cfg(feature = "peers")]
mod hnswlib;
mod index;
mod sets;

pub(crate) use documents::Documents;
pub(crate) use index::{VectorIndex, all as all_indexes, with_candidates};
pub(crate) use sets::{K, Set, sets};
