//! How the documents of a collection are stored as rows.
//!
//! The [`Format`] is chosen when the collection is created and applies to all of its rows. Reading a row needs no further look-up:
//! the shapes of template rows are part of the collection's catalog entry in the snapshot. Shapes are only ever added, in the
//! transaction that stores the first row that needs them.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;

use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};

use treedb_query::access::Row;
use treedb_query::doc::json::{from_json, to_exact_json};
pub(crate) use treedb_query::doc::template::{FieldMasks, Shapes, Stored};
use treedb_query::doc::{Doc, FieldPeek, Fields, with_id};
use treedb_query::error::{ErrorCode, QueryError, Result};

use crate::catalog::meta::Meta;

/// The row format of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Format {
    /// Template rows: field names and types that documents have in common are stored once instead of in each row. Documents
    /// are returned byte for byte.
    #[default]
    Template,
    /// Plain BSON: reading a document copies nothing.
    Bson,
    /// JSON text: text that was inserted ([`Collection::insert_json`](crate::Collection::insert_json)) is returned unchanged.
    /// Every other use of a document parses it.
    Json,
}

impl Format {
    const ALL: [(Format, &'static str); 3] =
        [(Format::Template, "template"), (Format::Bson, "bson"), (Format::Json, "json")];

    /// The name in a collection's options.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(format, _)| *format == self).map_or("", |(_, name)| name)
    }

    /// The options of a collection with this format, for
    /// [`Database::create_collection`](crate::Database::create_collection): `{ storageEngine: { treedb: { format: name } } }`.
    pub fn options(self) -> Document {
        doc! { "storageEngine": { "treedb": { "format": self.name() } } }
    }

    /// The format that a collection's options ask for.
    ///
    /// # Errors
    /// `InvalidOptions` for an unknown name, `TypeMismatch` for a value that is not a string.
    pub(crate) fn from_options(options: &Document) -> Result<Format> {
        let settings = options.get("storageEngine").and_then(Bson::as_document);
        let Some(settings) = settings.and_then(|engines| engines.get("treedb")) else {
            return Ok(Format::default());
        };
        let format = match settings {
            Bson::Document(settings) => settings.get("format"),
            _ => return Err(wrong_type("storageEngine.treedb", "a document")),
        };
        match format {
            None => Ok(Format::default()),
            Some(Bson::String(name)) => {
                let known = Self::ALL.iter().find(|(_, known)| known == name);
                known.map(|(format, _)| *format).ok_or_else(|| {
                    let names = Self::ALL.map(|(_, name)| name).join(", ");
                    QueryError::new(
                        ErrorCode::InvalidOptions,
                        format!("storageEngine.treedb.format: there is no format '{name}', only {names}"),
                    )
                })
            }
            Some(_) => Err(wrong_type("storageEngine.treedb.format", "the name of a format")),
        }
    }

    /// The row format of a new collection.
    pub(crate) fn rows(self) -> Rows {
        match self {
            Format::Template => Rows::Template(Arc::default()),
            Format::Bson => Rows::Bson,
            Format::Json => Rows::Json,
        }
    }
}

fn wrong_type(option: &str, wanted: &str) -> QueryError {
    QueryError::new(ErrorCode::TypeMismatch, format!("{option} has to be {wanted}"))
}

/// How the rows of one collection are read and written.
#[derive(Debug, Clone)]
pub(crate) enum Rows {
    /// Plain BSON.
    Bson,
    /// Template rows of these shapes.
    Template(Arc<Shapes>),
    /// JSON text; a document that text cannot represent exactly is a zero byte and BSON.
    Json,
}

/// A document as a row.
pub(crate) struct EncodedRow<'b> {
    pub(crate) bytes: &'b [u8],
    /// The row format with the shapes that this row adds, if any.
    pub(crate) new_format: Option<Rows>,
}

/// Makes a row format from the `shapes` of a catalog entry; `None` if they are damaged.
type ReadShapes = fn(&[u8]) -> Option<Rows>;

impl Rows {
    /// The format's number in a catalog entry.
    pub(crate) fn number(&self) -> i32 {
        match self {
            Rows::Bson => 0,
            Rows::Template(shapes) if shapes.has_whole_doubles() => 1,
            Rows::Json => 2,
            Rows::Template(_) => 3,
        }
    }

    /// The decoder of the format with this number; `None` if there is no such format.
    pub(crate) fn decoder(number: i32) -> Option<ReadShapes> {
        match number {
            0 => Some(|_| Some(Rows::Bson)),
            1 => Some(|shapes| {
                Some(Rows::Template(Arc::new(Shapes::from_bytes(shapes)?.with_whole_doubles())))
            }),
            2 => Some(|_| Some(Rows::Json)),
            3 => Some(|shapes| Some(Rows::Template(Arc::new(Shapes::from_bytes(shapes)?)))),
            _ => None,
        }
    }

    /// The `shapes` of a catalog entry.
    pub(crate) fn shapes(&self) -> Option<Vec<u8>> {
        match self {
            Rows::Template(shapes) => Some(shapes.to_bytes()),
            Rows::Bson | Rows::Json => None,
        }
    }

    /// The text of a row that is text.
    pub(crate) fn text<'r>(&self, row: &'r [u8]) -> Option<&'r str> {
        match self {
            Rows::Json if row.first() != Some(&0) => std::str::from_utf8(row).ok(),
            _ => None,
        }
    }

    /// The row of `doc`, which is valid BSON.
    pub(crate) fn encode<'b>(&self, doc: &'b RawDocument, scratch: &'b mut Scratch) -> EncodedRow<'b> {
        match self {
            Rows::Bson => EncodedRow { bytes: doc.as_bytes(), new_format: None },
            Rows::Template(shapes) => {
                scratch.row.clear();
                let new_format = shapes.encode_grown(doc.as_bytes(), &mut scratch.row);
                EncodedRow {
                    bytes: &scratch.row,
                    new_format: new_format.map(|shapes| Rows::Template(Arc::new(shapes))),
                }
            }
            Rows::Json => {
                scratch.row.clear();
                match to_exact_json(doc) {
                    Some(text) => scratch.row.extend_from_slice(text.as_bytes()),
                    None => {
                        scratch.row.push(0);
                        scratch.row.extend_from_slice(doc.as_bytes());
                    }
                }
                EncodedRow { bytes: &scratch.row, new_format: None }
            }
        }
    }
}

impl Meta {
    fn damaged(&self) -> QueryError {
        QueryError::new(
            ErrorCode::InternalError,
            format!("{}: a row is damaged: restore the database from a backup", self.namespace),
        )
    }

    /// The document of a row that is text.
    fn parsed(&self, row: &[u8]) -> Result<RawDocumentBuf> {
        let text = std::str::from_utf8(row).map_err(|_| self.damaged())?;
        let doc = from_json(text).map_err(|_| self.damaged())?;
        Ok(with_id(&doc)?.into_owned())
    }

    /// Decodes a row; borrowed if the row has the document's bytes.
    pub(crate) fn decode_row<'r>(&self, row: &'r [u8]) -> Result<Cow<'r, RawDocument>> {
        let plain = match &self.row_format {
            Rows::Bson => row,
            Rows::Template(shapes) => match shapes.open(row).ok_or_else(|| self.damaged())? {
                Stored::Plain(doc) => doc,
                Stored::Shaped(row) => {
                    let mut doc = Vec::new();
                    row.decode(&mut doc).ok_or_else(|| self.damaged())?;
                    return Ok(Cow::Owned(RawDocumentBuf::from_bytes(doc)?));
                }
            },
            Rows::Json => match row.split_first() {
                Some((0, doc)) => doc,
                _ => return Ok(Cow::Owned(self.parsed(row)?)),
            },
        };
        Ok(Cow::Borrowed(RawDocument::from_bytes(plain)?))
    }
}

/// A row that is decoded on demand, as far as needed.
pub(crate) struct LazyRow<'l, 'r> {
    pub(crate) meta: &'l Meta,
    pub(crate) row: &'r [u8],
    pub(crate) scratch: &'l mut Scratch,
}

impl LazyRow<'_, '_> {
    /// The document, or at least those of its fields that are in `fields`.
    #[inline]
    fn decode(&mut self, fields: Option<&Fields>) -> Result<&RawDocument> {
        let plain = match &self.meta.row_format {
            Rows::Bson => self.row,
            Rows::Template(shapes) => match shapes.open(self.row).ok_or_else(|| self.meta.damaged())? {
                Stored::Plain(doc) => doc,
                Stored::Shaped(row) => {
                    let Scratch { row: out, picks, .. } = &mut *self.scratch;
                    out.clear();
                    let done = match fields {
                        Some(fields) => picks.decode(&row, fields, out),
                        None => row.decode(out),
                    };
                    done.ok_or_else(|| self.meta.damaged())?;
                    out
                }
            },
            Rows::Json => match self.row.split_first() {
                Some((0, doc)) => doc,
                _ => {
                    self.scratch.row.clear();
                    self.scratch.row.extend_from_slice(self.meta.parsed(self.row)?.as_bytes());
                    &self.scratch.row
                }
            },
        };
        Ok(RawDocument::from_bytes(plain)?)
    }
}

impl Row for LazyRow<'_, '_> {
    fn document(&mut self) -> Result<&RawDocument> {
        self.decode(None)
    }

    fn partial_document(&mut self, fields: &Fields) -> Result<&RawDocument> {
        self.decode(Some(fields))
    }

    /// Decodes a row of a shape right into the document, which is likely to be as long as the one before.
    fn owned_document(&mut self) -> Result<RawDocumentBuf> {
        let Rows::Template(shapes) = &self.meta.row_format else {
            return self.document().map(RawDocument::to_owned);
        };
        match shapes.open(self.row).ok_or_else(|| self.meta.damaged())? {
            Stored::Plain(doc) => Ok(RawDocument::from_bytes(doc)?.to_owned()),
            Stored::Shaped(row) => {
                let mut document = Vec::with_capacity(self.scratch.owned.min(MAX_KEPT_CAPACITY));
                row.decode(&mut document).ok_or_else(|| self.meta.damaged())?;
                self.scratch.owned = document.len() + ROOM;
                if document.capacity() - document.len() > document.len() / 8 + ROOM {
                    document.shrink_to_fit();
                }
                Ok(RawDocumentBuf::from_bytes(document)?)
            }
        }
    }

    fn peek(&mut self, fields: &Fields) -> Result<FieldPeek<'_>> {
        match &self.meta.row_format {
            Rows::Bson => Ok(FieldPeek::at(Doc::from(RawDocument::from_bytes(self.row)?), fields)),
            Rows::Template(shapes) => match shapes.open(self.row).ok_or_else(|| self.meta.damaged())? {
                Stored::Plain(doc) => Ok(FieldPeek::at(Doc::from(RawDocument::from_bytes(doc)?), fields)),
                Stored::Shaped(row) => {
                    self.scratch.picks.peek(&row, fields).ok_or_else(|| self.meta.damaged())
                }
            },
            Rows::Json => Ok(FieldPeek::Unknown),
        }
    }
}

/// Reusable buffers for encoding and decoding rows.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) row: Vec<u8>,
    picks: FieldMasks,
    /// Bytes that were needed to decode the last document that was kept.
    owned: usize,
}

/// Bytes beyond a document's end that decoding it may write.
const ROOM: usize = 64;

/// A larger buffer is freed after use.
const MAX_KEPT_CAPACITY: usize = 1 << 20;

thread_local! {
    /// Unused buffers. There are several if rows are read while another row is in use.
    static FREE: Cell<Vec<Scratch>> = const { Cell::new(Vec::new()) };
}

/// Calls `work` with a buffer.
pub(crate) fn with_scratch<T>(work: impl FnOnce(&mut Scratch) -> T) -> T {
    let mut scratch = FREE.try_with(|free| {
        let mut all = free.take();
        let one = all.pop();
        free.set(all);
        one
    });
    let mut scratch = scratch.as_mut().ok().and_then(Option::take).unwrap_or_default();
    let done = work(&mut scratch);
    if scratch.row.capacity() > MAX_KEPT_CAPACITY {
        scratch.row = Vec::new();
    }
    // The pool is not available while the thread ends.
    let _ = FREE.try_with(|free| {
        let mut all = free.take();
        all.push(scratch);
        free.set(all);
    });
    done
}
