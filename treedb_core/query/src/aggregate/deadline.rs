//! The time limit of an operation (`maxTimeMS`).

use std::time::Instant;

use bson::RawDocumentBuf;

use crate::error::{ErrorCode, QueryError, Result};

use super::stream::{BoxedStream, DocumentStream, Visitor};

/// Calls of [`Deadline::tick`] for each reading of the clock.
const TICKS_PER_CHECK: u32 = 64;

/// The time at which an operation gives up, if there is one.
pub struct Deadline {
    at: Option<Instant>,
    ticks: u32,
}

impl Deadline {
    /// A deadline at `at`; `None` for no limit.
    pub fn new(at: Option<Instant>) -> Self {
        Deadline { at, ticks: 0 }
    }

    /// For loops: reads the clock on every 64th call.
    ///
    /// # Errors
    /// `MaxTimeMSExpired`.
    #[inline]
    pub fn tick(&mut self) -> Result<()> {
        self.ticks = self.ticks.wrapping_add(1);
        if self.ticks.is_multiple_of(TICKS_PER_CHECK) { self.check() } else { Ok(()) }
    }

    /// Reads the clock.
    ///
    /// # Errors
    /// `MaxTimeMSExpired`.
    pub fn check(&self) -> Result<()> {
        match self.at {
            Some(at) if Instant::now() >= at => {
                Err(QueryError::new(ErrorCode::MaxTimeMSExpired, "operation exceeded time limit"))
            }
            _ => Ok(()),
        }
    }
}

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
