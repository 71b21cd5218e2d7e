//! Documents found and not returned yet. A query runs in batches, so that no page is held between calls.

use std::collections::VecDeque;

use bson::RawDocumentBuf;

use treedb_query::access::{Flow, QueryContext, Source};
use treedb_query::error::Result;
use treedb_query::query::Execution;

/// Documents fetched at a time.
const DOCUMENTS: usize = 128;
/// Documents that space is made for when the first is found: few finds have more.
const EXPECTED: usize = 32;
/// Bytes of documents after which a batch is full.
const BYTES: usize = 1 << 20;

/// Counts the documents of a batch.
#[derive(Debug, Default)]
pub(crate) struct BatchLimit {
    documents: usize,
    bytes: usize,
}

impl BatchLimit {
    /// Counts a document; true if the batch is full with it.
    pub(crate) fn add(&mut self, document: &RawDocumentBuf) -> bool {
        self.documents += 1;
        self.bytes += document.as_bytes().len();
        self.documents >= DOCUMENTS || self.bytes >= BYTES
    }
}

/// The rest of a batch, and whether there may be another.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) ready: VecDeque<RawDocumentBuf>,
    pub(crate) more: bool,
}

impl Batch {
    /// Before the first batch.
    pub(crate) fn new() -> Self {
        Batch { ready: VecDeque::new(), more: true }
    }

    /// The only batch, of these documents.
    pub(crate) fn complete(documents: impl IntoIterator<Item = RawDocumentBuf>) -> Self {
        Batch { ready: documents.into_iter().collect(), more: false }
    }

    /// True if the batch is used up and there may be another.
    pub(crate) fn needs_fetch(&self) -> bool {
        self.ready.is_empty() && self.more
    }

    /// Fetches the next batch.
    pub(crate) fn fetch(
        &mut self,
        execution: &mut Execution,
        source: &dyn Source,
        context: &QueryContext<'_>,
    ) -> Result<()> {
        let Batch { ready, more } = self;
        // Nothing is returned after an error: the position of the scan is no longer known.
        *more = false;
        let mut limit = BatchLimit::default();
        *more = execution.run(source, context, &mut |document| {
            let full = limit.add(&document);
            if ready.capacity() == 0 {
                ready.reserve(EXPECTED);
            }
            ready.push_back(document);
            if full { Flow::Break(()) } else { Flow::Continue(()) }
        })?;
        Ok(())
    }
}
