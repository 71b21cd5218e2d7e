//! The SQL types of the extension.
//!
//! * [`bson`]: `treedb.bson`, a BSON document
//! * [`value`]: `treedb.bson_value`, one BSON value of any type
//! * [`keyset`]: `treedb.keyset`, the index keys of one document
//! * [`matching`]: the operator `@@`
//! * [`order`]: what the server asks of a type with an order
//! * [`message`]: binary input

pub(crate) mod bson;
pub(crate) mod keyset;
mod matching;
mod message;
mod order;
pub(crate) mod value;
