//! Requests that find documents: a first batch, then batches of a cursor.
//!
//! ```text
//! FIND   text namespace, u32 batch, u64 skip, u64 limit, u8 which, document filter, document sort (which & 1),
//!        document projection (which & 2)
//! NEXT   u64 cursor, u32 batch
//! both   -> u64 cursor (0: that was all), u32 n, n documents
//! CLOSE  u64 cursor -> u8 existed
//! ```
//!
//! `batch` is the maximal number of documents, 0 for the server's default. A limit of
//! 0 is no limit.

use bson::{RawDocument, RawDocumentBuf};

use super::{Call, Resource, ResourceOf};
use crate::bytes::{Malformed, Reader, put_text};
use crate::frame::opcode;

pub(super) const SORT: u8 = 1;
pub(super) const PROJECTION: u8 = 2;

/// Reads which of sort and projection follow.
pub(super) fn which(body: &mut Reader<'_>) -> Result<u8, Malformed> {
    let start = body.clone();
    match body.u8("which")? {
        which if which & !(SORT | PROJECTION) == 0 => Ok(which),
        which => Err(start.wrong("which", format!("has bits that mean nothing: {which:#04x}"))),
    }
}

/// Documents that match a filter.
#[derive(Debug, Clone, Copy)]
pub struct Find<'a> {
    /// `database.collection`.
    pub namespace: &'a str,
    /// Documents in the first batch at most; 0 leaves it to the server.
    pub batch: u32,
    /// So many matches are left out.
    pub skip: u64,
    /// At most so many documents in all; 0 for no limit.
    pub limit: u64,
    /// Which documents; `{}` for all.
    pub filter: &'a RawDocument,
    /// In which order.
    pub sort: Option<&'a RawDocument>,
    /// Which fields.
    pub projection: Option<&'a RawDocument>,
}

/// Some documents of a find.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// The cursor of the next batch; 0: there is none.
    pub cursor: u64,
    /// The documents.
    pub documents: Vec<RawDocumentBuf>,
}

impl Batch {
    /// The cursor, if there are more batches.
    pub(super) fn resource(&self) -> Option<Resource> {
        (self.cursor != 0).then_some(Resource::Cursor(self.cursor))
    }

    pub(super) fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        let cursor = body.u64("cursor")?;
        let count = body.count("documents", 5)?;
        let documents = (0..count)
            .map(|_| Ok(body.document("document")?.to_owned()))
            .collect::<Result<_, Malformed>>()?;
        Ok(Batch { cursor, documents })
    }
}

/// Writes a batch while its documents are being found.
#[derive(Debug)]
pub struct BatchWriter {
    start: usize,
    count: u32,
}

impl BatchWriter {
    /// Begins a batch at the end of `out`.
    pub fn new(out: &mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; 12]);
        BatchWriter { start, count: 0 }
    }

    /// Documents so far.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Bytes so far.
    pub fn bytes(&self, out: &[u8]) -> usize {
        out.len().saturating_sub(self.start)
    }

    /// Adds a document.
    pub fn push(&mut self, document: &RawDocument, out: &mut Vec<u8>) {
        out.extend_from_slice(document.as_bytes());
        self.count += 1;
    }

    /// Ends the batch; `cursor` is 0 if there is no next one.
    pub fn finish(self, cursor: u64, out: &mut [u8]) {
        if let Some(place) = out.get_mut(self.start..self.start + 12) {
            let (id, count) = place.split_at_mut(8);
            id.copy_from_slice(&cursor.to_le_bytes());
            count.copy_from_slice(&self.count.to_le_bytes());
        }
    }
}

impl<'a> Find<'a> {
    /// Every document of `namespace` that `filter` matches.
    pub fn new(namespace: &'a str, filter: &'a RawDocument) -> Self {
        Find { namespace, batch: 0, skip: 0, limit: 0, filter, sort: None, projection: None }
    }

    /// The same, in this order.
    pub fn sort(self, sort: &'a RawDocument) -> Self {
        Find { sort: Some(sort), ..self }
    }

    /// The same, with these fields only.
    pub fn projection(self, projection: &'a RawDocument) -> Self {
        Find { projection: Some(projection), ..self }
    }

    /// The same, without the first `skip`.
    pub fn skip(self, skip: u64) -> Self {
        Find { skip, ..self }
    }

    /// The same, `limit` documents at most; 0 for no limit.
    pub fn limit(self, limit: u64) -> Self {
        Find { limit, ..self }
    }

    /// The same, at most `batch` documents in the first answer; 0 leaves it to the server.
    pub fn batch(self, batch: u32) -> Self {
        Find { batch, ..self }
    }

    /// Reads the request.
    pub fn read(body: &mut Reader<'a>) -> Result<Self, Malformed> {
        let namespace = body.text("namespace")?;
        let batch = body.u32("batch")?;
        let skip = body.u64("skip")?;
        let limit = body.u64("limit")?;
        let which = which(body)?;
        let filter = body.document("filter")?;
        let mut optional =
            |bit, field| if which & bit != 0 { body.document(field).map(Some) } else { Ok(None) };
        let sort = optional(SORT, "sort")?;
        let projection = optional(PROJECTION, "projection")?;
        Ok(Find { namespace, batch, skip, limit, filter, sort, projection })
    }
}

impl Call for Find<'_> {
    const OPCODE: u16 = opcode::FIND;
    type Answer = Batch;
    const OPENS: Option<ResourceOf<Batch>> = Some(Batch::resource);

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        put_text(out, "namespace", self.namespace)?;
        out.extend_from_slice(&self.batch.to_le_bytes());
        out.extend_from_slice(&self.skip.to_le_bytes());
        out.extend_from_slice(&self.limit.to_le_bytes());
        let sort = if self.sort.is_some() { SORT } else { 0 };
        out.push(sort | if self.projection.is_some() { PROJECTION } else { 0 });
        for document in [Some(self.filter), self.sort, self.projection].into_iter().flatten() {
            out.extend_from_slice(document.as_bytes());
        }
        Ok(())
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<Batch, Malformed> {
        Batch::read(body)
    }
}

/// The next batch of a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    /// The cursor of the previous batch.
    pub cursor: u64,
    /// Documents at most; 0 leaves it to the server.
    pub batch: u32,
}

impl Next {
    /// Reads the request.
    pub fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Next { cursor: body.u64("cursor")?, batch: body.u32("batch")? })
    }
}

impl Call for Next {
    const OPCODE: u16 = opcode::NEXT;
    type Answer = Batch;
    const OPENS: Option<ResourceOf<Batch>> = Some(Batch::resource);

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.extend_from_slice(&self.cursor.to_le_bytes());
        out.extend_from_slice(&self.batch.to_le_bytes());
        Ok(())
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<Batch, Malformed> {
        Batch::read(body)
    }
}

/// Closes a cursor before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Close {
    /// The cursor.
    pub cursor: u64,
}

impl Close {
    /// Reads the request.
    pub fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Close { cursor: body.u64("cursor")? })
    }
}

impl Call for Close {
    const OPCODE: u16 = opcode::CLOSE;
    /// True if there was such a cursor.
    type Answer = bool;

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.extend_from_slice(&self.cursor.to_le_bytes());
        Ok(())
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<bool, Malformed> {
        body.bool("existed")
    }
}
