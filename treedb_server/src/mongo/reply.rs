//! Building cursor replies: documents are written once, directly into the reply.
//!
//! ```text
//! { cursor: { firstBatch | nextBatch: [ documents ], id: int64, ns: string, postBatchResumeToken: document? } }
//! ```

use bson::{RawDocument, RawDocumentBuf};

use super::error::CommandError;

/// Bytes of documents in one batch, at most (one document may always go in): a reply is itself a document.
pub(crate) const BATCH_BYTES: usize = treedb_query::doc::MAX_DOCUMENT_SIZE;

const DOCUMENT: u8 = 0x03;
const STRING: u8 = 0x02;
const ARRAY: u8 = 0x04;
const INT64: u8 = 0x12;

/// Bytes of a reply around its documents, if the name of its collection is not very long.
const AROUND: usize = 256;

/// A cursor's reply under construction.
pub(crate) struct BatchReply {
    bytes: Vec<u8>,
    /// Where the lengths of the three open documents stand: reply, `cursor`, the batch.
    cursor_at: usize,
    batch_at: usize,
    documents: usize,
    /// The resume token after this batch, of a change stream.
    resume: Option<RawDocumentBuf>,
}

impl BatchReply {
    /// A reply without documents; `field` is `firstBatch` or `nextBatch`.
    pub(crate) fn new(field: &str) -> Self {
        let mut bytes = Vec::with_capacity(AROUND);
        bytes.extend_from_slice(&[0; 4]);
        open(&mut bytes, DOCUMENT, "cursor");
        let cursor_at = bytes.len() - 4;
        open(&mut bytes, ARRAY, field);
        let batch_at = bytes.len() - 4;
        BatchReply { bytes, cursor_at, batch_at, documents: 0, resume: None }
    }

    /// Documents so far.
    pub(crate) fn len(&self) -> usize {
        self.documents
    }

    /// True if `document` may go into this batch as well.
    pub(crate) fn has_room_for(&self, document: &RawDocument) -> bool {
        self.documents == 0 || self.bytes.len() - self.batch_at + document.as_bytes().len() <= BATCH_BYTES
    }

    /// Adds a document.
    pub(crate) fn push(&mut self, document: &RawDocument) {
        if self.documents == 0 {
            // Often the only one: what comes after it has room too.
            self.bytes.reserve(document.as_bytes().len() + AROUND);
            name(&mut self.bytes, DOCUMENT, "0");
        } else {
            name(&mut self.bytes, DOCUMENT, &self.documents.to_string());
        }
        self.bytes.extend_from_slice(document.as_bytes());
        self.documents += 1;
    }

    /// Sets the resume token after this batch.
    pub(crate) fn resume_with(&mut self, token: RawDocumentBuf) {
        self.resume = Some(token);
    }

    /// The reply, but for its `ok`. `id` is 0 when there is nothing more to fetch.
    pub(crate) fn finish(mut self, id: i64, namespace: &str) -> Result<RawDocumentBuf, CommandError> {
        close(&mut self.bytes, self.batch_at);
        name(&mut self.bytes, INT64, "id");
        self.bytes.extend_from_slice(&id.to_le_bytes());
        name(&mut self.bytes, STRING, "ns");
        let length = u32::try_from(namespace.len() + 1).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(namespace.as_bytes());
        self.bytes.push(0);
        if let Some(token) = &self.resume {
            name(&mut self.bytes, DOCUMENT, "postBatchResumeToken");
            self.bytes.extend_from_slice(token.as_bytes());
        }
        close(&mut self.bytes, self.cursor_at);
        close(&mut self.bytes, 0);
        Ok(RawDocumentBuf::from_bytes(self.bytes)?)
    }
}

fn name(bytes: &mut Vec<u8>, kind: u8, name: &str) {
    bytes.push(kind);
    bytes.extend_from_slice(name.as_bytes());
    bytes.push(0);
}

fn open(bytes: &mut Vec<u8>, kind: u8, field: &str) {
    name(bytes, kind, field);
    bytes.extend_from_slice(&[0; 4]);
}

/// Ends the document whose length stands at `at`.
fn close(bytes: &mut Vec<u8>, at: usize) {
    bytes.push(0);
    let length = u32::try_from(bytes.len() - at).unwrap_or(u32::MAX);
    if let Some(field) = bytes.get_mut(at..at + 4) {
        field.copy_from_slice(&length.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc, rawdoc};

    use super::*;

    #[test]
    fn a_batch_is_the_document_that_drivers_expect() {
        let mut reply = BatchReply::new("firstBatch");
        for i in 0..12 {
            reply.push(&rawdoc! { "_id": i });
        }
        let reply = reply.finish(77, "a.b").unwrap();
        let all: Vec<_> = (0..12).map(|i| doc! { "_id": i }).collect();
        let expected = doc! { "cursor": { "firstBatch": all, "id": 77_i64, "ns": "a.b" } };
        assert_eq!(Document::try_from(&*reply).unwrap(), expected);
    }

    #[test]
    fn a_batch_holds_16_mib_and_always_one_document() {
        let mut reply = BatchReply::new("nextBatch");
        let large = rawdoc! { "x": "y".repeat(BATCH_BYTES - 20) };
        assert!(reply.has_room_for(&large));
        reply.push(&large);
        assert!(!reply.has_room_for(&rawdoc! { "x": 1 }));
    }
}
