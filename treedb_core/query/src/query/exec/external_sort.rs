//! External merge sort: sorted runs, all but the last one in temporary files.

use bson::{RawDocument, RawDocumentBuf};

use crate::access::TempFile;
use crate::error::Result;

use super::spill::{SpillReader, SpillWriter};

/// A document and its sort key.
pub(crate) type KeyedDocument = (Vec<u8>, RawDocumentBuf);

/// The memory that a document takes while it is sorted, in bytes.
pub(crate) fn memory_size(key: &[u8], document: &RawDocument) -> usize {
    key.len() + document.as_bytes().len() + size_of::<KeyedDocument>()
}

/// Sorted runs to merge. Of documents with equal keys, those of the earlier run come first.
#[derive(Default)]
pub(crate) struct SortedRuns {
    runs: Vec<Run>,
}

/// A sorted run: its next document, and the others in memory or in a file.
struct Run {
    remaining: Remaining,
    head: Option<KeyedDocument>,
}

enum Remaining {
    Memory(std::vec::IntoIter<KeyedDocument>),
    File(SpillReader),
}

impl Run {
    fn begin(remaining: Remaining) -> Result<Run> {
        let mut run = Run { remaining, head: None };
        run.advance()?;
        Ok(run)
    }

    fn advance(&mut self) -> Result<Option<KeyedDocument>> {
        let next = match &mut self.remaining {
            Remaining::Memory(all) => all.next(),
            Remaining::File(file) => match file.next()? {
                Some((key, document)) => Some((key, RawDocumentBuf::from_bytes(document)?)),
                None => None,
            },
        };
        Ok(std::mem::replace(&mut self.head, next))
    }
}

impl SortedRuns {
    /// Adds a run of sorted documents, which is written to a file.
    pub(crate) fn spill(
        &mut self,
        sorted: impl Iterator<Item = KeyedDocument>,
        file: Box<dyn TempFile>,
    ) -> Result<()> {
        let mut file = SpillWriter::new(file);
        for (key, document) in sorted {
            file.put(&key, document.as_bytes())?;
        }
        self.runs.push(Run::begin(Remaining::File(file.reader()?))?);
        Ok(())
    }

    /// Adds the last run of sorted documents, which stays in memory.
    pub(crate) fn add_in_memory(&mut self, sorted: Vec<KeyedDocument>) -> Result<()> {
        self.runs.push(Run::begin(Remaining::Memory(sorted.into_iter()))?);
        Ok(())
    }

    /// The next document of the merged runs.
    pub(crate) fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        // There are few runs, because each is as large as the memory limit.
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

impl std::fmt::Debug for SortedRuns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SortedRuns").field("runs", &self.runs.len()).finish()
    }
}
