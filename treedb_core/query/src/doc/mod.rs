//! Documents: BSON views, JSON, dotted paths, order-preserving keys.
//!
//! A document enters through [`validate`] and is then walked as a [`Doc`] of [`Value`]s, which borrow from its
//! bytes. [`compare`](compare::compare) is MongoDB's order across all types, [`key`] writes that order as bytes.
//! Before it is stored it gets its identity: [`with_id`]. [`template`] rows hold a document without what it has in common
//! with others.

pub(crate) mod collation;
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
pub mod template;
mod validate;
pub(crate) mod value;
pub mod write;

pub use collation::Collation;
pub use field_peek::FieldPeek;
pub use id::with_id;
pub(crate) use number::{Decimal, Rounding};
pub use owned_value::OwnedValue;
pub use path::Path;
pub use template::Fields;
pub use validate::{Limits, MAX_DEPTH, MAX_DOCUMENT_SIZE, MESSAGE, validate, validate_with};
pub use value::{Doc, Element, Elements, Value};

/// A value in the notation of MongoDB's shell, for messages; long ones are cut.
pub fn shown(value: Value<'_>) -> String {
    display::DisplayValue(value).to_string()
}
