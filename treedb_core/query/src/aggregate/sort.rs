//! `$sort`: in memory, or in sorted runs on disk that are merged.

use bson::{RawDocument, RawDocumentBuf};

use crate::access::Flow;
use crate::doc::Doc;
use crate::doc::write::Writer;
use crate::error::Result;
use crate::query::external_sort::{Keyed, Runs, size};
use crate::query::{Query, Sort};

use super::pipeline::timed;
use super::stream::{Docs, List, Stream};
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
    runs: Runs,
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
        Sorting { sort, wanted, needed, context: context.clone(), input: Some(input), runs: Runs::default() }
    }

    fn read(&mut self, mut input: Docs) -> Result<()> {
        let Sorting { sort, wanted, needed, context, runs, .. } = self;
        let mut all: Vec<Keyed> = Vec::new();
        // The place of the last of the first ones, once there are as many as are wanted.
        let (mut bytes, mut last): (usize, Option<Vec<u8>>) = (0, None);
        let mut key = Vec::new();
        input.each(&mut |document| {
            sort.key_into(document, &mut key)?;
            if last.as_ref().is_some_and(|last| *last <= key) {
                return Ok(Flow::Continue(()));
            }
            let document = held(document, needed.as_deref());
            bytes += size(&key, &document);
            all.push((key.clone(), document));
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
                let file = context.scratch("$sort")?;
                all.sort_by(|a, b| a.0.cmp(&b.0));
                runs.spill(all.drain(..), file)?;
                bytes = 0;
            }
            Ok(Flow::Continue(()))
        })?;
        all.sort_by(|a, b| a.0.cmp(&b.0));
        runs.end(all)
    }
}

/// The first documents of a collection, as those of [`Sorting`] over what a query finds. The collection is asked for them
/// first.
pub(super) struct First {
    namespace: String,
    query: Query,
    sort: Sort,
    wanted: usize,
    needed: Option<Vec<String>>,
    context: Context,
    found: Option<Docs>,
}

impl First {
    pub(super) fn new(
        namespace: &str,
        query: Query,
        sort: Sort,
        wanted: usize,
        needed: Option<Vec<String>>,
        context: &Context,
    ) -> Self {
        let (namespace, context) = (namespace.to_owned(), context.clone());
        First { namespace, query, sort, wanted, needed, context, found: None }
    }

    fn found(&self) -> Result<Docs> {
        let First { namespace, query, sort, wanted, needed, context, .. } = self;
        let first = Query { sort: Some(sort.clone()), limit: *wanted as u64, ..query.clone() };
        if let Some(found) = context.world.first(namespace, &first, context)? {
            return Ok(Box::new(List::new(found)));
        }
        let all = timed(context.world.find(namespace, query.clone())?, context);
        Ok(Box::new(Sorting::new(sort.clone(), Some(*wanted), needed.clone(), all, context)))
    }
}

impl Stream for First {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if self.found.is_none() {
            self.found = Some(self.found()?);
        }
        self.found.as_mut().map_or(Ok(None), |found| found.next())
    }
}

impl Stream for Sorting {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if let Some(input) = self.input.take() {
            self.read(input)?;
        }
        self.runs.next()
    }
}
