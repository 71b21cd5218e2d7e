//! Documents of a stream that are read more than once: in memory, and beyond its limit in a temporary file.

use bson::{RawDocument, RawDocumentBuf};

use crate::error::{ErrorCode, QueryError, Result};
use crate::query::spill::{SpillReader, SpillWriter};

use super::context::Context;
use super::stream::BoxedStream;

/// All documents of a stream, in its order.
pub(crate) struct Spool {
    /// The first ones.
    documents: Vec<RawDocumentBuf>,
    rest: Rest,
}

/// The documents that there is no memory for.
enum Rest {
    None,
    File(SpillReader),
    /// Temporary files are not allowed, or there is no disk for them: they can be read once.
    Stream(BoxedStream),
    /// That has been done.
    Taken,
}

impl Spool {
    /// Reads all of `input` for a stage.
    ///
    /// # Errors
    /// Those of the stream and of the temporary file.
    pub(crate) fn of(mut input: BoxedStream, stage: &str, context: &Context) -> Result<Spool> {
        let (mut documents, mut bytes) = (Vec::new(), 0);
        while bytes <= context.memory_limit {
            let Some(document) = input.next()? else { return Ok(Spool { documents, rest: Rest::None }) };
            bytes += document.as_bytes().len() + size_of::<RawDocumentBuf>();
            documents.push(document);
        }
        let Ok(file) = context.temp_file(stage) else {
            return Ok(Spool { documents, rest: Rest::Stream(input) });
        };
        let mut file = SpillWriter::new(file);
        while let Some(document) = input.next()? {
            file.put(document.as_bytes(), &[])?;
        }
        Ok(Spool { documents, rest: Rest::File(file.reader()?) })
    }

    /// Calls `visit` with each document.
    ///
    /// # Errors
    /// Those of `visit` and of the temporary file; `WriteConflict` for documents that could not be kept, the second time.
    pub(crate) fn each(&mut self, visit: &mut dyn FnMut(&RawDocument) -> Result<()>) -> Result<()> {
        self.documents.iter().try_for_each(|document| visit(document))?;
        match &mut self.rest {
            Rest::None => Ok(()),
            Rest::File(file) => {
                file.rewind()?;
                while let Some((document, _)) = file.next()? {
                    visit(RawDocument::from_bytes(&document)?)?;
                }
                Ok(())
            }
            rest @ Rest::Stream(_) => {
                let Rest::Stream(mut input) = std::mem::replace(rest, Rest::Taken) else { return Ok(()) };
                while let Some(document) = input.next()? {
                    visit(&document)?;
                }
                Ok(())
            }
            Rest::Taken => Err(QueryError::new(
                ErrorCode::WriteConflict,
                "WriteConflict: an open transaction has changed what is written, and without a temporary file it cannot be written again: try again",
            )),
        }
    }
}
