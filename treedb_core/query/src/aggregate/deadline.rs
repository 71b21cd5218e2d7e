//! The time limit of a pipeline.

use std::time::Instant;

use bson::RawDocumentBuf;

use crate::error::Result;
use crate::query::Deadline;

use super::stream::{BoxedStream, DocumentStream, Visitor};

/// A stream that fails once the deadline has passed.
struct DeadlineStream {
    input: BoxedStream,
    deadline: Deadline,
}

/// The documents of `input`, until the time is up.
pub(crate) fn with_deadline(input: BoxedStream, at: Option<Instant>) -> BoxedStream {
    match at {
        Some(_) => Box::new(DeadlineStream { input, deadline: Deadline::new(at) }),
        None => input,
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
