//! A collection read by several threads in the same snapshot: its row ids are cut into spans, of which each thread scans
//! one. Where most ids have no row and the order does not matter, the spans are smaller and each thread scans every
//! so-manieth.

use std::sync::{Arc, Mutex};

use bson::RawDocumentBuf;

use treedb_query::access::{Direction, Flow, RowId, Source, VisitLent};
use treedb_query::aggregate::{Docs, Stream, Visit};
use treedb_query::error::Result;
use treedb_query::query::{Counters, Query, Tally};
use treedb_storage::kv::{Beside, ReadTxn, Reads};

use crate::catalog::meta::Meta;
use crate::read::aggregate::Work;
use crate::read::view::View;

/// Rows that a thread must have to read to be worth its beginning.
const WORTH: u64 = 40_000;
/// Spans that a thread reads where most ids have no row, so that no thread has all of those.
const SPANS: u64 = 8;
/// Documents copied at a time for those who want them one by one.
const BATCH: usize = 128;

/// How row ids are cut.
pub(crate) struct Cuts {
    threads: u64,
    first: u64,
    /// Ids of a span.
    step: u64,
    /// Ids from the beginning of one of a thread's spans to that of the next.
    stride: u64,
    last: u64,
}

impl Cuts {
    /// For so many threads, or as many as pay; `None` if one is enough. If `in_order`, each thread reads one span.
    pub(crate) fn of<R: Reads>(
        view: &View<'_, R>,
        threads: Option<usize>,
        in_order: bool,
    ) -> Result<Option<Cuts>> {
        let threads = match threads {
            Some(threads) => threads as u64,
            None => {
                let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
                cores.min(view.estimated_rows() / WORTH)
            }
        };
        if threads < 2 {
            return Ok(None);
        }
        let end = |direction| {
            let mut end = 0;
            view.scan_rows(direction, None, &mut |id, _| {
                end = id.0;
                Ok(Flow::Break(()))
            })?;
            Ok::<_, treedb_query::error::QueryError>(end)
        };
        let (first, last) = (end(Direction::Forward)?, end(Direction::Backward)?);
        let ids = last.saturating_sub(first);
        let spans = if in_order || ids / 2 <= view.estimated_rows() { threads } else { threads * SPANS };
        let step = ids / spans + 1;
        let stride = if spans == threads { u64::MAX } else { threads.saturating_mul(step) };
        Ok(Some(Cuts { threads, first, step, stride, last }))
    }

    /// What each thread reads.
    pub(crate) fn spans(&self, reads: &Arc<Mutex<ReadTxn>>, meta: &Arc<Meta>, work: &Arc<Work>) -> Vec<Span> {
        let span = |number| Span {
            reads: Beside::new(reads),
            meta: Arc::clone(meta),
            next: self.first.saturating_add(number * self.step),
            stride: self.stride,
            step: self.step,
            last: self.last,
            at: None,
            work: Arc::clone(work),
        };
        (0..self.threads).map(span).collect()
    }

    /// A stream for each thread of the documents that `query` finds.
    pub(crate) fn parts(
        &self,
        reads: &Arc<Mutex<ReadTxn>>,
        meta: &Arc<Meta>,
        query: &Arc<Query>,
        work: &Arc<Work>,
    ) -> Vec<Docs> {
        let part = |span| -> Docs {
            let part = Part { span, query: Arc::clone(query), tally: Tally::default() };
            Box::new(OneByOne { part, ready: Vec::new().into_iter() })
        };
        self.spans(reads, meta, work).into_iter().map(part).collect()
    }
}

/// The rows that one thread reads.
pub(crate) struct Span {
    reads: Beside,
    meta: Arc<Meta>,
    /// First id of the next of its spans.
    next: u64,
    stride: u64,
    step: u64,
    last: u64,
    /// The row that was shown last, where the walk was stopped.
    at: Option<RowId>,
    work: Arc<Work>,
}

impl Span {
    /// Shows the rows that are left until `visit` says stop; true if it did.
    pub(crate) fn walk(&mut self, visit: &mut VisitLent<'_>) -> Result<bool> {
        while self.next <= self.last {
            let end = self.next.saturating_add(self.step);
            let after = self.at.or(self.next.checked_sub(1).map(RowId));
            let (at, mut stopped, mut looked) = (&mut self.at, false, Counters::default());
            let view = View { reads: &self.reads, meta: &self.meta };
            view.scan_rows(Direction::Forward, after, &mut |id, row| {
                if id.0 >= end {
                    return Ok(Flow::Break(()));
                }
                looked.docs_examined += 1;
                let flow = visit(id, row)?;
                if flow == Flow::Break(()) {
                    (*at, stopped) = (Some(id), true);
                }
                Ok(flow)
            })?;
            self.work.add(looked, &mut Counters::default());
            if stopped {
                return Ok(true);
            }
            self.at = None;
            self.next = self.next.saturating_add(self.stride);
        }
        Ok(false)
    }
}

/// The documents of a query that one thread finds.
struct Part {
    span: Span,
    query: Arc<Query>,
    tally: Tally,
}

impl Part {
    /// Shows the documents that are left until `visit` says stop; true if it did.
    fn walk(&mut self, visit: &mut Visit<'_>) -> Result<bool> {
        let Part { span, query, tally } = self;
        let (filter, used) = (&query.filter, query.used.as_ref());
        span.walk(&mut |_, row| {
            let document = match used {
                Some(used) => used.of(filter, row, tally)?,
                None if filter.admits(row)? => Some(row.document()?),
                None => None,
            };
            match document {
                Some(document) => visit(document),
                None => Ok(Flow::Continue(())),
            }
        })
    }
}

/// A part, for those who lend its documents and for those who take them one by one.
struct OneByOne {
    part: Part,
    ready: std::vec::IntoIter<RawDocumentBuf>,
}

impl Stream for OneByOne {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if let Some(document) = self.ready.next() {
            return Ok(Some(document));
        }
        let mut batch = Vec::with_capacity(BATCH);
        self.part.walk(&mut |document| {
            batch.push(document.to_owned());
            Ok(if batch.len() < BATCH { Flow::Continue(()) } else { Flow::Break(()) })
        })?;
        self.ready = batch.into_iter();
        Ok(self.ready.next())
    }

    fn each(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        for document in self.ready.by_ref() {
            if visit(&document)? == Flow::Break(()) {
                return Ok(());
            }
        }
        self.part.walk(visit).map(drop)
    }
}
