//! External sort: sorted runs, all but the last in temporary files, merged.

use bson::{RawDocument, RawDocumentBuf};

use crate::access::TempFile;
use crate::error::Result;

use super::spill::{SpillReader, SpillWriter};

/// A document and the bytes that tell its place.
pub(crate) type Keyed = (Vec<u8>, RawDocumentBuf);

/// Bytes that a document takes while it is sorted.
pub(crate) fn size(key: &[u8], document: &RawDocument) -> usize {
    key.len() + document.as_bytes().len() + size_of::<Keyed>()
}

/// Sorted runs. Of documents with equal keys those of the earlier run come first.
#[derive(Default)]
pub(crate) struct Runs {
    runs: Vec<Run>,
}

/// Sorted documents, next first: those in memory or those of a file.
struct Run {
    rest: Rest,
    head: Option<Keyed>,
}

enum Rest {
    Memory(std::vec::IntoIter<Keyed>),
    File(SpillReader),
}

impl Run {
    fn begin(rest: Rest) -> Result<Run> {
        let mut run = Run { rest, head: None };
        run.advance()?;
        Ok(run)
    }

    fn advance(&mut self) -> Result<Option<Keyed>> {
        let next = match &mut self.rest {
            Rest::Memory(all) => all.next(),
            Rest::File(file) => match file.next()? {
                Some((key, document)) => Some((key, RawDocumentBuf::from_bytes(document)?)),
                None => None,
            },
        };
        Ok(std::mem::replace(&mut self.head, next))
    }
}

impl Runs {
    /// Moves documents, which are in order, to a file.
    pub(crate) fn spill(
        &mut self,
        sorted: impl Iterator<Item = Keyed>,
        file: Box<dyn TempFile>,
    ) -> Result<()> {
        let mut file = SpillWriter::new(file);
        for (key, document) in sorted {
            file.put(&key, document.as_bytes())?;
        }
        self.runs.push(Run::begin(Rest::File(file.reader()?))?);
        Ok(())
    }

    /// Adds the last documents, which are in order and stay in memory.
    pub(crate) fn end(&mut self, sorted: Vec<Keyed>) -> Result<()> {
        self.runs.push(Run::begin(Rest::Memory(sorted.into_iter()))?);
        Ok(())
    }

    /// The next document of all.
    pub(crate) fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        // Runs are few: each is as large as the memory.
        let heads = self.runs.iter_mut().filter(|run| run.head.is_some());
        let first = heads.min_by(|a, b| {
            let (a, b) = (a.head.as_ref().map(|(key, _)| key), b.head.as_ref().map(|(key, _)| key));
            a.cmp(&b)
        });
        match first {
            Some(run) => Ok(run.advance()?.map(|(_, document)| document)),
            None => Ok(None),
        }
    }

    /// True if there is no document left.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.iter().all(|run| run.head.is_none())
    }
}

impl std::fmt::Debug for Runs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runs").field("runs", &self.runs.len()).finish()
    }
}
