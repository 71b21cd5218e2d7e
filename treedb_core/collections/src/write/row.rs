//! How the documents of a collection are stored as rows.
//!
//! The [`Format`] is chosen when the collection is created and holds for all of its rows. Reading a row costs no look-up:
//! the shapes of template rows are part of what the catalog knows of a collection, as of the snapshot. They are only ever
//! added to, in the transaction that stores the first row that needs them.

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

/// What the rows of a collection are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Format {
    /// Template rows: names and types, which documents have in common, are stored once and not in each row. Documents
    /// come back byte for byte.
    #[default]
    Template,
    /// BSON as it came: reading a document copies nothing.
    Bson,
    /// JSON text: what came as text ([`Collection::insert_json`](crate::Collection::insert_json)) goes as the same text, to
    /// the last space. Every other use of a document parses it.
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
    /// `InvalidOptions` for a name that is none, `TypeMismatch` for what is no name.
    pub(crate) fn of(options: &Document) -> Result<Format> {
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

    /// The rows of a new collection.
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
    /// BSON as it is.
    Bson,
    /// Template rows of these shapes.
    Template(Arc<Shapes>),
    /// JSON text; a document that no text says exactly is BSON behind a zero byte.
    Json,
}

/// A document as a row.
pub(crate) struct Encoded<'b> {
    pub(crate) bytes: &'b [u8],
    /// How rows are stored from this one on, if that is not as before.
    pub(crate) grown: Option<Rows>,
}

/// Makes rows' format of the `shapes` of a catalog entry; `None` if they are damaged.
type ReadShapes = fn(&[u8]) -> Option<Rows>;

impl Rows {
    /// The format's number in a catalog entry.
    pub(crate) fn number(&self) -> i32 {
        match self {
            Rows::Bson => 0,
            Rows::Template(_) => 1,
            Rows::Json => 2,
        }
    }

    /// How the format of this number is made of an entry's `shapes`; `None` if there is no such format.
    pub(crate) fn known(number: i32) -> Option<ReadShapes> {
        match number {
            0 => Some(|_| Some(Rows::Bson)),
            1 => Some(|shapes| Some(Rows::Template(Arc::new(Shapes::from_bytes(shapes)?)))),
            2 => Some(|_| Some(Rows::Json)),
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

    /// The text of a row that is one.
    pub(crate) fn text<'r>(&self, row: &'r [u8]) -> Option<&'r str> {
        match self {
            Rows::Json if row.first() != Some(&0) => std::str::from_utf8(row).ok(),
            _ => None,
        }
    }

    /// The row of `doc`, which is valid BSON.
    pub(crate) fn encode<'b>(&self, doc: &'b RawDocument, scratch: &'b mut Scratch) -> Encoded<'b> {
        match self {
            Rows::Bson => Encoded { bytes: doc.as_bytes(), grown: None },
            Rows::Template(shapes) => {
                scratch.row.clear();
                let grown = shapes.encode_grown(doc.as_bytes(), &mut scratch.row);
                Encoded { bytes: &scratch.row, grown: grown.map(|shapes| Rows::Template(Arc::new(shapes))) }
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
                Encoded { bytes: &scratch.row, grown: None }
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

    /// The document that a row's bytes are: borrowed where it is stored as it is.
    pub(crate) fn stored<'r>(&self, row: &'r [u8]) -> Result<Cow<'r, RawDocument>> {
        let plain = match &self.stored_as {
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

/// A row that is decoded as far as somebody asks.
pub(crate) struct Lent<'l, 'r> {
    pub(crate) meta: &'l Meta,
    pub(crate) row: &'r [u8],
    pub(crate) scratch: &'l mut Scratch,
}

impl Lent<'_, '_> {
    /// The document, or those of its fields that are in `fields`.
    #[inline]
    fn decode(&mut self, fields: Option<&Fields>) -> Result<&RawDocument> {
        let plain = match &self.meta.stored_as {
            Rows::Bson => self.row,
            Rows::Template(shapes) => match shapes.open(self.row).ok_or_else(|| self.meta.damaged())? {
                Stored::Plain(doc) => doc,
                Stored::Shaped(row) => {
                    let Scratch { row: out, picks } = &mut *self.scratch;
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

impl Row for Lent<'_, '_> {
    fn document(&mut self) -> Result<&RawDocument> {
        self.decode(None)
    }

    fn partial_document(&mut self, fields: &Fields) -> Result<&RawDocument> {
        self.decode(Some(fields))
    }

    fn peek(&mut self, fields: &Fields) -> Result<FieldPeek<'_>> {
        match &self.meta.stored_as {
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

/// Memory that rows are encoded to and decoded to, used again and again.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) row: Vec<u8>,
    picks: FieldMasks,
}

/// Above so many bytes the memory is given back.
const KEEP: usize = 1 << 20;

thread_local! {
    /// Scratch that nobody uses. There is more than one if rows are read while another is lent.
    static FREE: Cell<Vec<Scratch>> = const { Cell::new(Vec::new()) };
}

/// Lends `work` scratch memory.
pub(crate) fn with_scratch<T>(work: impl FnOnce(&mut Scratch) -> T) -> T {
    let mut scratch = FREE.try_with(|free| {
        let mut all = free.take();
        let one = all.pop();
        free.set(all);
        one
    });
    let mut scratch = scratch.as_mut().ok().and_then(Option::take).unwrap_or_default();
    let done = work(&mut scratch);
    if scratch.row.capacity() > KEEP {
        scratch.row = Vec::new();
    }
    // While a thread ends there is nowhere to keep it.
    let _ = FREE.try_with(|free| {
        let mut all = free.take();
        all.push(scratch);
        free.set(all);
    });
    done
}
