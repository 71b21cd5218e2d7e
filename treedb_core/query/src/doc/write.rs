//! Builds documents from parts of others, without decoding them.

use bson::{RawDocument, RawDocumentBuf};

use super::value::{Doc, Element, Value, kind};

/// Writes one document, nested ones included, into a buffer.
#[derive(Debug, Clone)]
pub struct Writer {
    bytes: Vec<u8>,
}

/// An open document or array; it must be given back to [`Writer::close`].
#[must_use]
#[derive(Debug)]
pub struct Open(usize);

impl Writer {
    /// A writer whose outermost document is open.
    pub fn new(capacity: usize) -> Self {
        let mut bytes = Vec::with_capacity(capacity);
        bytes.extend_from_slice(&[0; 4]);
        Writer { bytes }
    }

    /// Copies an element as it is.
    pub fn copy(&mut self, element: &Element<'_>) {
        self.put(element.name, element);
    }

    /// Copies an element's value under another name.
    pub fn put(&mut self, name: &[u8], element: &Element<'_>) {
        self.head(element.kind, name);
        self.bytes.extend_from_slice(element.bytes);
    }

    /// Writes a null.
    pub(crate) fn null(&mut self, name: &[u8]) {
        self.head(kind::NULL, name);
    }

    /// Writes a decoded value.
    pub fn value(&mut self, name: &[u8], value: Value<'_>) {
        match value {
            Value::Double(v) => self.fixed(kind::DOUBLE, name, &v.to_le_bytes()),
            Value::String(text) => self.text(kind::STRING, name, text),
            Value::Document(doc) => self.fixed(kind::DOCUMENT, name, doc.as_bytes()),
            Value::Array(doc) => self.fixed(kind::ARRAY, name, doc.as_bytes()),
            Value::Binary(subtype, bytes) => {
                self.head(kind::BINARY, name);
                // The old subtype repeats its length inside.
                let old = if subtype == 2 { 4 } else { 0 };
                self.bytes.extend_from_slice(&((bytes.len() + old) as u32).to_le_bytes());
                self.bytes.push(subtype);
                if subtype == 2 {
                    self.bytes.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                }
                self.bytes.extend_from_slice(bytes);
            }
            Value::Undefined => self.head(kind::UNDEFINED, name),
            Value::ObjectId(id) => self.fixed(kind::OBJECT_ID, name, id),
            Value::Bool(v) => self.fixed(kind::BOOL, name, &[u8::from(v)]),
            Value::Date(v) => self.fixed(kind::DATE, name, &v.to_le_bytes()),
            Value::Null => self.null(name),
            Value::Regex(pattern, options) => {
                self.head(kind::REGEX, name);
                for part in [pattern, options] {
                    self.bytes.extend_from_slice(part);
                    self.bytes.push(0);
                }
            }
            Value::DbPointer(namespace, id) => {
                self.text(kind::DB_POINTER, name, namespace);
                self.bytes.extend_from_slice(id);
            }
            Value::Code(code) => self.text(kind::CODE, name, code),
            Value::Symbol(text) => self.text(kind::SYMBOL, name, text),
            Value::CodeScope(code, scope) => {
                self.head(kind::CODE_SCOPE, name);
                let len = 4 + 4 + code.len() + 1 + scope.as_bytes().len();
                self.bytes.extend_from_slice(&(len as u32).to_le_bytes());
                self.string(code);
                self.bytes.extend_from_slice(scope.as_bytes());
            }
            Value::Int32(v) => self.fixed(kind::INT32, name, &v.to_le_bytes()),
            Value::Timestamp(v) => self.fixed(kind::TIMESTAMP, name, &v.to_le_bytes()),
            Value::Int64(v) => self.fixed(kind::INT64, name, &v.to_le_bytes()),
            Value::Decimal(bytes) => self.fixed(kind::DECIMAL, name, &bytes),
            Value::MinKey => self.head(kind::MIN_KEY, name),
            Value::MaxKey => self.head(kind::MAX_KEY, name),
        }
    }

    /// Bytes written so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    fn fixed(&mut self, kind: u8, name: &[u8], bytes: &[u8]) {
        self.head(kind, name);
        self.bytes.extend_from_slice(bytes);
    }

    fn text(&mut self, kind: u8, name: &[u8], text: &[u8]) {
        self.head(kind, name);
        self.string(text);
    }

    fn string(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(&(text.len() as u32 + 1).to_le_bytes());
        self.bytes.extend_from_slice(text);
        self.bytes.push(0);
    }

    /// Begins a nested document.
    pub fn open_document(&mut self, name: &[u8]) -> Open {
        self.open(kind::DOCUMENT, name)
    }

    /// Begins a nested array.
    pub fn open_array(&mut self, name: &[u8]) -> Open {
        self.open(kind::ARRAY, name)
    }

    fn open(&mut self, kind: u8, name: &[u8]) -> Open {
        self.head(kind, name);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        Open(start)
    }

    /// Ends a nested document or array.
    pub fn close(&mut self, open: Open) {
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

    /// Ends the outermost document and returns a reference to it. [`Self::restart`] begins another in the
    /// same buffer.
    pub(crate) fn document(&mut self) -> bson::error::Result<&RawDocument> {
        self.close(Open(0));
        RawDocument::from_bytes(&self.bytes)
    }

    /// Begins another document and forgets what was written.
    pub(crate) fn restart(&mut self) {
        self.bytes.truncate(4);
    }

    /// Ends the outermost document.
    pub fn finish(self) -> RawDocumentBuf {
        RawDocumentBuf::from_bytes(self.into_bytes()).unwrap_or_default()
    }

    fn head(&mut self, kind: u8, name: &[u8]) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(name);
        self.bytes.push(0);
    }
}

/// The name of an array's element: its position in decimal digits, of which there are twenty at most.
#[derive(Default)]
pub(super) struct Name([u8; 20]);

impl Name {
    pub(super) fn of(&mut self, mut position: usize) -> &[u8] {
        let mut start = self.0.len();
        for digit in self.0.iter_mut().rev() {
            *digit = b'0' + (position % 10) as u8;
            (position, start) = (position / 10, start - 1);
            if position == 0 {
                break;
            }
        }
        self.0.get(start..).unwrap_or_default()
    }
}

/// Writes the elements of one array, which is not part of a document yet.
#[derive(Debug, Clone)]
pub(crate) struct ArrayWriter {
    writer: Writer,
    len: usize,
}

impl ArrayWriter {
    /// An array without elements.
    pub(crate) fn new() -> Self {
        ArrayWriter { writer: Writer::new(64), len: 0 }
    }

    /// Appends a value.
    pub(crate) fn push(&mut self, value: Value<'_>) {
        let mut name = Name::default();
        self.writer.value(name.of(self.len), value);
        self.len += 1;
    }

    /// Appends the value of an element.
    pub(crate) fn push_element(&mut self, element: &Element<'_>) {
        let mut name = Name::default();
        self.writer.put(name.of(self.len), element);
        self.len += 1;
    }

    /// Appends the elements of another.
    pub(crate) fn append(&mut self, other: ArrayWriter) {
        if self.len == 0 {
            *self = other;
            return;
        }
        let bytes = other.into_bytes();
        for element in Doc::new(&bytes).elements() {
            self.push_element(&element);
        }
    }

    /// Elements written.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes written so far.
    pub(crate) fn bytes(&self) -> usize {
        self.writer.len()
    }

    /// The array's bytes, length first.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.writer.into_bytes()
    }
}
