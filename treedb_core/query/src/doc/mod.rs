//! Documents: BSON views, JSON, dotted paths, order-preserving keys.
//!
//! A document is validated by [`validate`] and then read as a [`Doc`] of [`Value`]s, which borrow from its bytes.
//! [`compare`](compare::compare) is MongoDB's order across all types, [`key`] encodes that order as bytes. [`with_id`]
//! gives a document its `_id` before it is stored. [`template`] rows store a document without the structure it shares
//! with others.

pub(crate) mod by_name;
pub mod collation;
pub mod compare;
mod display;
mod field_peek;
mod id;
pub mod json;
pub mod key;
pub(crate) mod key_decode;
pub(crate) mod number;
mod owned_value;
pub mod path;
mod plain_json;
pub mod template;
mod validate;
pub(crate) mod value;
pub mod write;

pub use by_name::FieldsByName;
pub use collation::Collation;
pub use field_peek::FieldPeek;
pub use id::{Origin, with_current_timestamps, with_id};
pub(crate) use number::{Decimal, Rounding};
pub use owned_value::OwnedValue;
pub use path::Path;
pub use template::Fields;
pub use validate::{Limits, MAX_DEPTH, MAX_DOCUMENT_SIZE, MESSAGE, validate, validate_with};
pub use value::{Doc, Element, Elements, Value};

pub(crate) use display::DisplayValue;

/// A value in the notation of MongoDB's shell, for messages; long strings are truncated.
pub fn shown(value: Value<'_>) -> String {
    display::DisplayValue(value).to_string()
}
