//! Documents found and not handed out yet: a search goes on batch by batch, so that what it reads is not held in between.

use std::collections::VecDeque;

use bson::RawDocumentBuf;

use treedb_query::access::{Flow, QueryContext, Source};
use treedb_query::error::Result;
use treedb_query::query::Execution;

/// Documents fetched at a time.
const DOCUMENTS: usize = 128;
/// Bytes of documents after which a batch is long enough.
const BYTES: usize = 1 << 20;

/// What a batch holds already.
#[derive(Debug, Default)]
pub(crate) struct Room {
    documents: usize,
    bytes: usize,
}

impl Room {
    /// Counts a document in; true if the batch is full with it.
    pub(crate) fn is_full_with(&mut self, document: &RawDocumentBuf) -> bool {
        self.documents += 1;
        self.bytes += document.as_bytes().len();
        self.documents >= DOCUMENTS || self.bytes >= BYTES
    }
}

/// What is left of a batch, and whether there may be another.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) ready: VecDeque<RawDocumentBuf>,
    pub(crate) more: bool,
}

impl Batch {
    /// Before the first.
    pub(crate) fn begun() -> Self {
        Batch { ready: VecDeque::new(), more: true }
    }

    /// The last, and these are its documents.
    pub(crate) fn last(documents: impl IntoIterator<Item = RawDocumentBuf>) -> Self {
        Batch { ready: documents.into_iter().collect(), more: false }
    }

    /// True if nothing is left of the batch and another has to be fetched.
    pub(crate) fn is_wanting(&self) -> bool {
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
        // Nothing is handed out behind an error: the place of the walk is no longer known.
        *more = false;
        let mut room = Room::default();
        *more = execution.run(source, context, &mut |document| {
            let full = room.is_full_with(&document);
            ready.push_back(document);
            if full { Flow::Break(()) } else { Flow::Continue(()) }
        })?;
        Ok(())
    }
}
