//! `$sort`: in memory, or in sorted runs on disk that are merged.

use bson::{RawDocument, RawDocumentBuf};

use crate::access::Flow;
use crate::code::Result;
use crate::doc::Doc;
use crate::doc::write::Writer;
use crate::query::Sort;

use super::spill::{SpillReader, SpillWriter};
use super::stream::{Docs, Stream};
use super::world::Context;

/// The documents of a stream in order.
pub(super) struct Sorting {
    sort: Sort,
    /// Documents that are wanted at most.
    wanted: Option<usize>,
    /// Top-level fields that are used behind the sort; `None` for all.
    needed: Option<Vec<String>>,
    context: Context,
    input: Option<Docs>,
    runs: Vec<Run>,
}

/// Sorted documents, next first: those in memory or those of a file.
struct Run {
    rest: Rest,
    head: Option<(Vec<u8>, RawDocumentBuf)>,
}

enum Rest {
    Memory(std::vec::IntoIter<(Vec<u8>, RawDocumentBuf)>),
    File(SpillReader),
}

impl Run {
    fn advance(&mut self) -> Result<Option<(Vec<u8>, RawDocumentBuf)>> {
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

/// What is kept of a document while it is sorted.
fn held(document: &RawDocument, needed: Option<&[String]>) -> RawDocumentBuf {
    let Some(needed) = needed else { return document.to_owned() };
    let mut out = Writer::new(document.as_bytes().len());
    for element in Doc::from(document).elements() {
        if needed.iter().any(|name| name.as_bytes() == element.name) {
            out.copy(&element);
        }
    }
    out.finish()
}

impl Sorting {
    pub(super) fn new(
        sort: Sort,
        wanted: Option<usize>,
        needed: Option<Vec<String>>,
        input: Docs,
        context: &Context,
    ) -> Self {
        Sorting { sort, wanted, needed, context: context.clone(), input: Some(input), runs: Vec::new() }
    }

    fn read(&mut self, mut input: Docs) -> Result<()> {
        let Sorting { sort, wanted, needed, context, runs, .. } = self;
        let mut all: Vec<(Vec<u8>, RawDocumentBuf)> = Vec::new();
        // The place of the last of the first ones, once there are as many as are wanted.
        let (mut bytes, mut last): (usize, Option<Vec<u8>>) = (0, None);
        let size = |key: &Vec<u8>, document: &RawDocumentBuf| {
            key.len() + document.as_bytes().len() + size_of::<(Vec<u8>, RawDocumentBuf)>()
        };
        input.each(&mut |document| {
            let key = sort.key(document)?;
            if last.as_ref().is_some_and(|last| *last <= key) {
                return Ok(Flow::Continue(()));
            }
            let document = held(document, needed.as_deref());
            bytes += size(&key, &document);
            all.push((key, document));
            // Now and then what cannot be among the first is let go. The sort is stable: so is the choice.
            if let Some(wanted) = *wanted
                && all.len() / 2 > wanted.saturating_add(500)
            {
                all.sort_by(|a, b| a.0.cmp(&b.0));
                all.truncate(wanted);
                last = all.last().map(|(key, _)| key.clone());
                bytes = all.iter().map(|(key, document)| size(key, document)).sum();
            }
            if bytes > context.memory {
                let mut file = SpillWriter::new(context.scratch("$sort")?);
                all.sort_by(|a, b| a.0.cmp(&b.0));
                for (key, document) in all.drain(..) {
                    file.put(&key, document.as_bytes())?;
                }
                runs.push(Run { rest: Rest::File(file.reader()?), head: None });
                bytes = 0;
            }
            Ok(Flow::Continue(()))
        })?;
        all.sort_by(|a, b| a.0.cmp(&b.0));
        runs.push(Run { rest: Rest::Memory(all.into_iter()), head: None });
        for run in runs {
            run.advance()?;
        }
        Ok(())
    }
}

impl Stream for Sorting {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if let Some(input) = self.input.take() {
            self.read(input)?;
        }
        // Of equal documents the earlier run's came first. Runs are few: each is as large as the memory.
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
}
