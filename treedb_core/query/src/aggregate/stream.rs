//! Documents on their way from stage to stage.

use bson::{RawDocument, RawDocumentBuf};

use crate::access::Flow;
use crate::error::Result;

use super::operand::memory_exceeded;

/// Called with each document of a stream; says whether to go on.
pub type Visitor<'a> = dyn FnMut(&RawDocument) -> Result<Flow> + 'a;

/// Documents in order. A stage pulls them from the stage before it.
pub trait DocumentStream: Send {
    /// The next document; `None` after the last.
    ///
    /// # Errors
    /// Those of the stages. The stream must not be used after an error.
    fn next(&mut self) -> Result<Option<RawDocumentBuf>>;

    /// Calls `visit` with each remaining document until it says stop. The documents are borrowed, so a stage that keeps
    /// none of them reads rows without copying them. The stream must not be used after a stop.
    ///
    /// # Errors
    /// As [`Self::next`], and those of `visit`.
    fn for_each(&mut self, visit: &mut Visitor<'_>) -> Result<()> {
        while let Some(document) = self.next()? {
            if visit(&document)? == Flow::Break(()) {
                break;
            }
        }
        Ok(())
    }
}

/// A stream of any kind.
pub type BoxedStream = Box<dyn DocumentStream>;

/// The documents of a vector, in order.
#[derive(Debug)]
pub struct VecStream(std::vec::IntoIter<RawDocumentBuf>);

impl VecStream {
    /// A stream of `documents`.
    pub fn new(documents: Vec<RawDocumentBuf>) -> Self {
        VecStream(documents.into_iter())
    }
}

impl DocumentStream for VecStream {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        Ok(self.0.next())
    }
}

/// All documents of a stream. Fails when they take more than `memory_limit` bytes; `stage` is named in the message.
pub(crate) fn collect(
    mut input: BoxedStream,
    memory_limit: usize,
    stage: &str,
) -> Result<Vec<RawDocumentBuf>> {
    let (mut documents, mut bytes) = (Vec::new(), 0);
    while let Some(document) = input.next()? {
        bytes += document.as_bytes().len() + size_of::<RawDocumentBuf>();
        if bytes > memory_limit {
            return Err(memory_exceeded(stage, memory_limit));
        }
        documents.push(document);
    }
    Ok(documents)
}
