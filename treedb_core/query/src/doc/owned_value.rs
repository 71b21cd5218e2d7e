//! A value that owns its bytes: a constant of a filter or an update.

use bson::raw::{RawBsonRef, cstr};
use bson::{RawDocument, RawDocumentBuf};

use super::validate::validate;
use super::value::{Doc, Element, Value};
use super::write::Writer;
use crate::error::{QueryError, Result};

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

    /// A copy of a value.
    pub fn from_value(value: Value<'_>) -> Self {
        let mut holder = Writer::new(32);
        holder.value(b"", value);
        OwnedValue { holder: holder.into_bytes().into_boxed_slice() }
    }

    /// The value a writer has written, under an empty name.
    pub(crate) fn from_holder(holder: Writer) -> Self {
        OwnedValue { holder: holder.into_bytes().into_boxed_slice() }
    }

    /// Bytes it takes.
    pub fn size(&self) -> usize {
        self.holder.len()
    }

    /// The value.
    pub fn value(&self) -> Value<'_> {
        self.element().map_or(Value::Undefined, |element| element.value())
    }

    /// The value as an element without name.
    pub fn element(&self) -> Option<Element<'_>> {
        Doc::new(&self.holder).elements().next()
    }

    /// A value of type `kind` (the BSON specification's byte) whose bytes are `bytes`.
    ///
    /// # Errors
    /// As [`super::validate`]: the bytes may be anything.
    pub fn from_bytes(kind: u8, bytes: &[u8]) -> Result<Self> {
        let owned = Self::from_element(&Element { name: b"", kind, bytes });
        // An unknown type or a zero would end the document before its end: that is an error of its own.
        validate(&owned.holder)?;
        match owned.element() {
            Some(element) if element.bytes == bytes => Ok(owned),
            _ => Err(QueryError::invalid_bson(
                "not valid BSON: the value is longer or shorter than its type says",
            )),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_value_are_refused() {
        assert_eq!(OwnedValue::from_bytes(0x10, &[1, 0, 0, 0]).unwrap().value(), Value::Int32(1));
        for (kind, bytes) in [
            (0x10, &[1, 0, 0][..]),
            (0x10, &[1, 0, 0, 0, 0]),
            (0x10, &[1, 0, 0, 0, 0x0a, 0]),
            (0x02, &[255, 255, 255, 127]),
            (0x02, &[2, 0, 0, 0, 0xff, 0]),
            (0x00, &[]),
            (0x55, &[1]),
            (0x03, &[4, 0, 0, 0]),
            (0x0b, &[b'a', 0]),
        ] {
            assert!(OwnedValue::from_bytes(kind, bytes).is_err(), "{kind} {bytes:?}");
        }
    }
}
