//! The SQL types of the extension.
//!
//! * [`value`]: `treedb.bson_value`, one BSON value of any type
//! * [`keyset`]: `treedb.keyset`, the index keys of one document

pub(crate) mod keyset;
pub(crate) mod value;
