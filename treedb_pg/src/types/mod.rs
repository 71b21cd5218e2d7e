//! The SQL types of the extension.
//!
//! * [`bson`]: `treedb.bson`, a BSON document
//! * [`value`]: `treedb.bson_value`, one BSON value of any type
//! * [`keyset`]: `treedb.keyset`, the index keys of one document
//! * [`matching`]: the operator `@@`
//! * [`operators`]: `@> <@ ? ?| ?& #> #>>`
//! * [`implied`]: the filters by which indexes are searched for these
//! * [`value_range`]: the filters for comparisons of values at paths
//! * [`order`]: comparison and hash functions of a type

pub(crate) mod bson;
pub(crate) mod implied;
pub(crate) mod keyset;
mod matching;
mod operators;
mod order;
pub(crate) mod value;
pub(crate) mod value_range;
