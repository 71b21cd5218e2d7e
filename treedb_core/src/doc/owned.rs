//! A value that owns its bytes: a constant of a filter or an update.

use bson::raw::{RawBsonRef, cstr};
use bson::{RawDocument, RawDocumentBuf};

use super::value::{Doc, Element, Value};
use super::write::Writer;

/// One BSON value with its bytes.
#[derive(Clone, PartialEq)]
pub struct OwnedValue {
    /// A document whose only element, with an empty name, is the value.
    holder: Box<[u8]>,
}

impl OwnedValue {
    /// A copy of an element's value.
    pub fn from_element(element: &Element<'_>) -> Self {
        let mut holder = Writer::new(element.bytes.len() + 8);
        holder.put(b"", element);
        OwnedValue { holder: holder.into_bytes().into_boxed_slice() }
    }

    /// The value.
    pub fn value(&self) -> Value<'_> {
        self.element().map_or(Value::Undefined, |element| element.value())
    }

    /// The value as an element without name.
    pub fn element(&self) -> Option<Element<'_>> {
        Doc::new(&self.holder).elements().next()
    }

    /// The value as the `bson` crate's type; `None` for bytes that were never valid.
    pub fn as_raw(&self) -> Option<RawBsonRef<'_>> {
        RawDocument::from_bytes(&self.holder).ok()?.iter().next()?.ok().map(|(_, value)| value)
    }
}

impl From<RawBsonRef<'_>> for OwnedValue {
    fn from(value: RawBsonRef<'_>) -> Self {
        let mut holder = RawDocumentBuf::new();
        holder.append(cstr!(""), value);
        OwnedValue { holder: holder.into_bytes().into_boxed_slice() }
    }
}

impl std::fmt::Debug for OwnedValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&super::shown(self.value()))
    }
}
