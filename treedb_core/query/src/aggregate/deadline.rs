//! The time limit of a pipeline, and its interruption.

use std::time::Instant;

use bson::RawDocumentBuf;

use crate::error::Result;
use crate::query::{Deadline, interrupt};

use super::stream::{BoxedStream, DocumentStream, Visitor};

/// A stream that fails once the deadline has passed or the operation was told to stop. The first document is a moment to look, too:
/// the pipelines of a `$lookup` have few documents each, and there may be millions of them.
struct DeadlineStream {
    input: BoxedStream,
    deadline: Deadline,
}

/// The documents of `input`, until the time is up or the operation that the calling thread runs is interrupted.
pub(crate) fn with_deadline(input: BoxedStream, at: Option<Instant>) -> BoxedStream {
    match at {
        None if interrupt::current().is_none() => input,
        _ => Box::new(DeadlineStream { input, deadline: Deadline::eager(at) }),
    }
}

impl DocumentStream for DeadlineStream {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        self.deadline.tick()?;
        self.input.next()
    }

    fn for_each(&mut self, visit: &mut Visitor<'_>) -> Result<()> {
        let DeadlineStream { input, deadline } = self;
        input.for_each(&mut |document| {
            deadline.tick()?;
            visit(document)
        })
    }
}
