//! Documents on their way from stage to stage.

use bson::{RawDocument, RawDocumentBuf};

use crate::access::Flow;
use crate::error::Result;

/// What is shown of each document.
pub type Visit<'a> = dyn FnMut(&RawDocument) -> Result<Flow> + 'a;

/// Documents one after the other. A stage pulls from the one before it.
pub trait Stream: Send {
    /// The next document; `None` behind the last.
    ///
    /// # Errors
    /// Those of the stages; nothing is handed out behind an error.
    fn next(&mut self) -> Result<Option<RawDocumentBuf>>;

    /// Lends the remaining documents to `visit` until it says stop: what a stage uses that keeps none of them, so that
    /// rows are read where they lie. Behind a stop the stream is not used again.
    ///
    /// # Errors
    /// As [`Self::next`], and those of `visit`.
    fn each(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        while let Some(document) = self.next()? {
            if visit(&document)? == Flow::Break(()) {
                break;
            }
        }
        Ok(())
    }
}

/// A stream of any kind.
pub type Docs = Box<dyn Stream>;

/// Documents that are there already.
#[derive(Debug)]
pub struct List(std::vec::IntoIter<RawDocumentBuf>);

impl List {
    /// The documents of `all`, in order.
    pub fn new(all: Vec<RawDocumentBuf>) -> Self {
        List(all.into_iter())
    }
}

impl Stream for List {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        Ok(self.0.next())
    }
}

/// All of a stream's documents, as long as they take no more than `memory` bytes; `what` for the message.
pub(crate) fn collect(mut input: Docs, memory: usize, what: &str) -> Result<Vec<RawDocumentBuf>> {
    let (mut all, mut bytes) = (Vec::new(), 0);
    while let Some(document) = input.next()? {
        bytes += document.as_bytes().len() + size_of::<RawDocumentBuf>();
        if bytes > memory {
            return Err(super::too_much_memory(what, memory));
        }
        all.push(document);
    }
    Ok(all)
}

/// When the time is up.
pub struct Clock {
    until: Option<std::time::Instant>,
    count: u32,
}

impl Clock {
    /// A clock that says stop at `until`; never without one.
    pub fn new(until: Option<std::time::Instant>) -> Self {
        Clock { until, count: 0 }
    }

    /// Looks at the time now and then.
    ///
    /// # Errors
    /// `MaxTimeMSExpired`.
    #[inline]
    pub fn tick(&mut self) -> Result<()> {
        self.count = self.count.wrapping_add(1);
        if self.count.is_multiple_of(64) { self.look() } else { Ok(()) }
    }

    /// Looks at the time.
    ///
    /// # Errors
    /// `MaxTimeMSExpired`.
    pub fn look(&self) -> Result<()> {
        match self.until {
            Some(until) if std::time::Instant::now() >= until => Err(crate::error::QueryError::new(
                crate::error::ErrorCode::MaxTimeMSExpired,
                "operation exceeded time limit",
            )),
            _ => Ok(()),
        }
    }
}

/// Stops when the time is up.
pub(crate) struct Timed {
    pub(crate) input: Docs,
    pub(crate) clock: Clock,
}

impl Stream for Timed {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        self.clock.tick()?;
        self.input.next()
    }

    fn each(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        let Timed { input, clock } = self;
        input.each(&mut |document| {
            clock.tick()?;
            visit(document)
        })
    }
}
