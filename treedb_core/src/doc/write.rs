//! Building documents from parts of others, without decoding them.

use bson::RawDocumentBuf;

use super::value::{Element, kind};

/// Writes one document, nested ones included, into a buffer.
#[derive(Debug)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

/// An open document or array; it must be given back to [`Writer::close`].
#[must_use]
#[derive(Debug)]
pub(crate) struct Open(usize);

impl Writer {
    /// A writer whose outermost document is open.
    pub(crate) fn new(capacity: usize) -> Self {
        let mut bytes = Vec::with_capacity(capacity);
        bytes.extend_from_slice(&[0; 4]);
        Writer { bytes }
    }

    /// Copies an element as it is.
    pub(crate) fn copy(&mut self, element: &Element<'_>) {
        self.put(element.name, element);
    }

    /// Copies an element's value under another name.
    pub(crate) fn put(&mut self, name: &[u8], element: &Element<'_>) {
        self.head(element.kind, name);
        self.bytes.extend_from_slice(element.bytes);
    }

    /// Writes a null.
    pub(crate) fn null(&mut self, name: &[u8]) {
        self.head(kind::NULL, name);
    }

    /// Begins a nested document.
    pub(crate) fn open_document(&mut self, name: &[u8]) -> Open {
        self.open(kind::DOCUMENT, name)
    }

    /// Begins a nested array.
    pub(crate) fn open_array(&mut self, name: &[u8]) -> Open {
        self.open(kind::ARRAY, name)
    }

    fn open(&mut self, kind: u8, name: &[u8]) -> Open {
        self.head(kind, name);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        Open(start)
    }

    /// Ends a nested document or array.
    pub(crate) fn close(&mut self, open: Open) {
        self.bytes.push(0);
        let len = (self.bytes.len() - open.0) as u32;
        if let Some(prefix) = self.bytes.get_mut(open.0..).and_then(|rest| rest.first_chunk_mut()) {
            *prefix = len.to_le_bytes();
        }
    }

    /// Ends the outermost document and returns its bytes.
    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        self.close(Open(0));
        self.bytes
    }

    /// Ends the outermost document.
    pub(crate) fn finish(self) -> RawDocumentBuf {
        RawDocumentBuf::from_bytes(self.into_bytes()).unwrap_or_default()
    }

    fn head(&mut self, kind: u8, name: &[u8]) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(name);
        self.bytes.push(0);
    }
}
