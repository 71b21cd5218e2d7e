//! Vector indexes: the vectors of a field, for finding the nearest to another one.
//!
//! | file | what it holds |
//! |---|---|
//! | `definition` | [`VectorDef`]: which field, which distance, how it is indexed |
//! | `field` | the vectors of a document |

mod definition;
mod field;

pub use definition::{Quantization, VectorDef};
pub use field::{Vectors, query_vector};
pub use treedb_vector::element::Element;
pub use treedb_vector::metric::Metric;
