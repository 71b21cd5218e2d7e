//! Requests that insert, get, update, delete and count documents.
//!
//! ```text
//! INSERT  text namespace, u32 n, n documents         -> u32 inserted, u32 m, m x (u32 index, error)
//! GET     text namespace, document {_id: value}      -> u8 found, the document if found
//! UPDATE  text namespace, document filter, document update
//!                                                    -> u64 matched, u64 modified, u8 upserted, {_id: value} if so
//! DELETE  text namespace, u64 limit, document filter -> u64 deleted
//! COUNT   text namespace, u64 skip, u64 limit, document filter -> u64
//! ```
//!
//! A namespace is `database.collection`. A limit of 0 is no limit.

use bson::{RawDocument, RawDocumentBuf};

use super::{Ack, Call, MULTI, UNORDERED, UPSERT};
use crate::bytes::{Malformed, Reader, length, put_text};
use crate::error_frame::ErrorFrame;
use crate::frame::{MAX_ITEMS, opcode};

/// The least bytes of a document.
const LEAST_DOCUMENT: usize = 5;

/// Inserts documents into a collection, which is created if it does not exist.
#[derive(Debug, Clone)]
pub struct Insert<'a> {
    /// `database.collection`.
    pub namespace: &'a str,
    /// One document or more. Those without an `_id` get one from the server, which does not tell it: a client that
    /// wants to know it sends its own.
    pub documents: Vec<&'a RawDocument>,
    /// True: the first document that fails ends the insert. False: the others are inserted all the same.
    pub ordered: bool,
    /// When to acknowledge.
    pub ack: Ack,
}

/// The outcome of an insert.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inserted {
    /// Documents that are now there.
    pub count: u32,
    /// Documents that are not, and why.
    pub errors: Vec<DocumentError>,
}

/// A document that could not be inserted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("document {index}: {error}")]
pub struct DocumentError {
    /// Its place in the request, from 0.
    pub index: u32,
    /// Why.
    pub error: ErrorFrame,
}

impl<'a> Insert<'a> {
    /// Reads the request.
    pub fn read(flags: u16, body: &mut Reader<'a>) -> Result<Self, Malformed> {
        let namespace = body.text("namespace")?;
        let start = body.clone();
        let count = body.count("documents", LEAST_DOCUMENT)?;
        if count == 0 || count > MAX_ITEMS {
            return Err(start.wrong("documents", format!("must be 1 to {MAX_ITEMS}, are {count}")));
        }
        let documents = (0..count).map(|_| body.document("document")).collect::<Result<_, _>>()?;
        Ok(Insert { namespace, documents, ordered: flags & UNORDERED == 0, ack: Ack::of(flags) })
    }
}

impl Call for Insert<'_> {
    const OPCODE: u16 = opcode::INSERT;
    type Answer = Inserted;

    fn flags(&self) -> u16 {
        self.ack as u16 | if self.ordered { 0 } else { UNORDERED }
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        put_text(out, "namespace", self.namespace)?;
        out.extend_from_slice(&length(out.len(), "documents", self.documents.len())?.to_le_bytes());
        for document in &self.documents {
            out.extend_from_slice(document.as_bytes());
        }
        Ok(())
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<Inserted, Malformed> {
        let count = body.u32("inserted")?;
        let errors = body.count("errors", 14)?;
        let errors = (0..errors)
            .map(|_| Ok(DocumentError { index: body.u32("index")?, error: ErrorFrame::read(body)? }))
            .collect::<Result<_, Malformed>>()?;
        Ok(Inserted { count, errors })
    }
}

impl Inserted {
    /// Appends the answer's body.
    pub fn answer(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&length(out.len(), "errors", self.errors.len())?.to_le_bytes());
        for DocumentError { index, error } in &self.errors {
            out.extend_from_slice(&index.to_le_bytes());
            error.write(out)?;
        }
        Ok(())
    }
}

/// One document by its `_id`.
#[derive(Debug, Clone, Copy)]
pub struct Get<'a> {
    /// `database.collection`.
    pub namespace: &'a str,
    /// `{_id: value}`: one field, of any type that an `_id` can have.
    pub id: &'a RawDocument,
}

impl<'a> Get<'a> {
    /// Reads the request.
    pub fn read(body: &mut Reader<'a>) -> Result<Self, Malformed> {
        let namespace = body.text("namespace")?;
        let start = body.clone();
        let id = body.document("_id")?;
        let mut fields = id.iter();
        let one = matches!(fields.next(), Some(Ok((name, _))) if name == "_id") && fields.next().is_none();
        if !one {
            return Err(start.wrong("_id", "must be a document of one field, `_id`"));
        }
        Ok(Get { namespace, id })
    }

    /// Appends the answer's body.
    pub fn answer(found: Option<&RawDocument>, out: &mut Vec<u8>) {
        put_found(out, found);
    }
}

impl Call for Get<'_> {
    const OPCODE: u16 = opcode::GET;
    type Answer = Option<RawDocumentBuf>;

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        put_text(out, "namespace", self.namespace)?;
        out.extend_from_slice(self.id.as_bytes());
        Ok(())
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<Option<RawDocumentBuf>, Malformed> {
        found(body)
    }
}

fn put_found(out: &mut Vec<u8>, document: Option<&RawDocument>) {
    out.push(u8::from(document.is_some()));
    if let Some(document) = document {
        out.extend_from_slice(document.as_bytes());
    }
}

fn found(body: &mut Reader<'_>) -> Result<Option<RawDocumentBuf>, Malformed> {
    if body.bool("found")? { Ok(Some(body.document("document")?.to_owned())) } else { Ok(None) }
}

/// Changes the documents that match a filter.
#[derive(Debug, Clone, Copy)]
pub struct Update<'a> {
    /// `database.collection`.
    pub namespace: &'a str,
    /// Which documents.
    pub filter: &'a RawDocument,
    /// Update operators (`{$set: {a: 1}}`), or a replacement.
    pub update: &'a RawDocument,
    /// Every match, or only the first.
    pub multi: bool,
    /// Insert a document if none matches.
    pub upsert: bool,
    /// When to acknowledge.
    pub ack: Ack,
}

/// The outcome of an update.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Updated {
    /// Documents that matched.
    pub matched: u64,
    /// Documents that are different now.
    pub modified: u64,
    /// `{_id: value}` of the document that was inserted, if one was.
    pub upserted: Option<RawDocumentBuf>,
}

impl<'a> Update<'a> {
    /// A change of the first document that matches.
    pub fn one(namespace: &'a str, filter: &'a RawDocument, update: &'a RawDocument) -> Self {
        Update { namespace, filter, update, multi: false, upsert: false, ack: Ack::Server }
    }

    /// Reads the request.
    pub fn read(flags: u16, body: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Update {
            namespace: body.text("namespace")?,
            filter: body.document("filter")?,
            update: body.document("update")?,
            multi: flags & MULTI != 0,
            upsert: flags & UPSERT != 0,
            ack: Ack::of(flags),
        })
    }
}

impl Call for Update<'_> {
    const OPCODE: u16 = opcode::UPDATE;
    type Answer = Updated;

    fn flags(&self) -> u16 {
        self.ack as u16 | if self.multi { MULTI } else { 0 } | if self.upsert { UPSERT } else { 0 }
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        put_text(out, "namespace", self.namespace)?;
        out.extend_from_slice(self.filter.as_bytes());
        out.extend_from_slice(self.update.as_bytes());
        Ok(())
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<Updated, Malformed> {
        Ok(Updated { matched: body.u64("matched")?, modified: body.u64("modified")?, upserted: found(body)? })
    }
}

impl Updated {
    /// Appends the answer's body.
    pub fn answer(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.matched.to_le_bytes());
        out.extend_from_slice(&self.modified.to_le_bytes());
        put_found(out, self.upserted.as_deref());
    }
}

/// Deletes the documents that match a filter.
#[derive(Debug, Clone, Copy)]
pub struct Delete<'a> {
    /// `database.collection`.
    pub namespace: &'a str,
    /// At most so many; 0 for all.
    pub limit: u64,
    /// Which documents.
    pub filter: &'a RawDocument,
    /// When to acknowledge.
    pub ack: Ack,
}

impl<'a> Delete<'a> {
    /// Reads the request.
    pub fn read(flags: u16, body: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Delete {
            namespace: body.text("namespace")?,
            limit: body.u64("limit")?,
            filter: body.document("filter")?,
            ack: Ack::of(flags),
        })
    }
}

impl Call for Delete<'_> {
    const OPCODE: u16 = opcode::DELETE;
    type Answer = u64;

    fn flags(&self) -> u16 {
        self.ack as u16
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        put_text(out, "namespace", self.namespace)?;
        out.extend_from_slice(&self.limit.to_le_bytes());
        out.extend_from_slice(self.filter.as_bytes());
        Ok(())
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<u64, Malformed> {
        body.u64("deleted")
    }
}

/// Counts the documents that match a filter.
#[derive(Debug, Clone, Copy)]
pub struct Count<'a> {
    /// `database.collection`.
    pub namespace: &'a str,
    /// So many matches are not counted.
    pub skip: u64,
    /// Counts no further than this; 0 for no limit.
    pub limit: u64,
    /// Which documents.
    pub filter: &'a RawDocument,
}

impl<'a> Count<'a> {
    /// Reads the request.
    pub fn read(body: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Count {
            namespace: body.text("namespace")?,
            skip: body.u64("skip")?,
            limit: body.u64("limit")?,
            filter: body.document("filter")?,
        })
    }
}

impl Call for Count<'_> {
    const OPCODE: u16 = opcode::COUNT;
    type Answer = u64;

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        put_text(out, "namespace", self.namespace)?;
        out.extend_from_slice(&self.skip.to_le_bytes());
        out.extend_from_slice(&self.limit.to_le_bytes());
        out.extend_from_slice(self.filter.as_bytes());
        Ok(())
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<u64, Malformed> {
        body.u64("count")
    }
}
