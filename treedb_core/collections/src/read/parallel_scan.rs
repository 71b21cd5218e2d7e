//! A scan of a collection by several threads in the same snapshot. The row ids are divided into ranges, of which each thread
//! scans one. If most ids have no row and the order does not matter, the ranges are smaller, and each of n threads scans
//! every nth range.

use std::sync::{Arc, Mutex};

use bson::RawDocumentBuf;

use treedb_query::access::{Direction, Flow, RowId, Source, VisitLazyRow};
use treedb_query::aggregate::{BoxedStream, DocumentStream, Visitor};
use treedb_query::error::Result;
use treedb_query::query::interrupt::InterruptTick;
use treedb_query::query::{Counters, MatchRate, Query};
use treedb_storage::{ReadTxn, Reads, SharedReadTxn};

use crate::catalog::meta::Meta;
use crate::read::examined::Examined;
use crate::read::view::View;

/// Rows for each thread for which it pays off to start one.
const ROWS_PER_THREAD: u64 = 40_000;
/// Ranges for each thread if most ids have no row, so that all threads get some of the rows.
const SPARSE_RANGES: u64 = 8;
/// Documents copied at a time for [`DocumentStream::next`].
const BATCH: usize = 128;

/// How the row ids are divided.
pub(crate) struct ParallelScan {
    threads: u64,
    first: u64,
    /// Ids of a range.
    step: u64,
    /// Ids from the beginning of a thread's range to that of its next one.
    stride: u64,
    last: u64,
}

impl ParallelScan {
    /// For `threads` threads, or as many as pay off; `None` if that is one. With `in_order`, each thread reads a single range.
    pub(crate) fn new<R: Reads>(
        view: &View<'_, R>,
        threads: Option<usize>,
        in_order: bool,
    ) -> Result<Option<ParallelScan>> {
        let threads = match threads {
            Some(threads) => threads as u64,
            None => {
                let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
                cores.min(view.estimated_rows() / ROWS_PER_THREAD)
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
        let ranges =
            if in_order || ids / 2 <= view.estimated_rows() { threads } else { threads * SPARSE_RANGES };
        let step = ids / ranges + 1;
        let stride = if ranges == threads { u64::MAX } else { threads.saturating_mul(step) };
        Ok(Some(ParallelScan { threads, first, step, stride, last }))
    }

    /// The rows of each thread.
    pub(crate) fn partitions(
        &self,
        reads: &Arc<Mutex<ReadTxn>>,
        meta: &Arc<Meta>,
        examined: &Arc<Examined>,
    ) -> Vec<Partition> {
        let partition = |number| Partition {
            reads: SharedReadTxn::new(reads),
            meta: Arc::clone(meta),
            next: self.first.saturating_add(number * self.step),
            stride: self.stride,
            step: self.step,
            last: self.last,
            at: None,
            examined: Arc::clone(examined),
        };
        (0..self.threads).map(partition).collect()
    }

    /// The documents that `query` finds, as one stream for each thread.
    pub(crate) fn streams(
        &self,
        reads: &Arc<Mutex<ReadTxn>>,
        meta: &Arc<Meta>,
        query: &Arc<Query>,
        examined: &Arc<Examined>,
    ) -> Vec<BoxedStream> {
        let stream = |partition| -> BoxedStream {
            let scan = FilteredScan { partition, query: Arc::clone(query), tally: MatchRate::default() };
            Box::new(PartitionStream { scan, ready: Vec::new().into_iter() })
        };
        self.partitions(reads, meta, examined).into_iter().map(stream).collect()
    }
}

/// The rows that one thread reads.
pub(crate) struct Partition {
    reads: SharedReadTxn,
    meta: Arc<Meta>,
    /// The first id of the current range.
    next: u64,
    stride: u64,
    step: u64,
    last: u64,
    /// The last row of the current range that was visited before a stop.
    at: Option<RowId>,
    examined: Arc<Examined>,
}

impl Partition {
    /// Calls `visit` with the remaining rows until it says stop; true if it did.
    pub(crate) fn for_each(&mut self, visit: &mut VisitLazyRow<'_>) -> Result<bool> {
        while self.next <= self.last {
            let end = self.next.saturating_add(self.step);
            let after = self.at.or(self.next.checked_sub(1).map(RowId));
            let (at, mut stopped, mut examined) = (&mut self.at, false, Counters::default());
            let mut interrupt = InterruptTick::default();
            let view = View { reads: &self.reads, meta: &self.meta };
            view.scan_rows(Direction::Forward, after, &mut |id, row| {
                if id.0 >= end {
                    return Ok(Flow::Break(()));
                }
                interrupt.tick()?;
                examined.docs_examined += 1;
                let flow = visit(id, row)?;
                if flow == Flow::Break(()) {
                    (*at, stopped) = (Some(id), true);
                }
                Ok(flow)
            })?;
            self.examined.add(examined, &mut Counters::default());
            if stopped {
                return Ok(true);
            }
            self.at = None;
            self.next = self.next.saturating_add(self.stride);
        }
        Ok(false)
    }
}

/// The documents of a query in the rows of one thread.
struct FilteredScan {
    partition: Partition,
    query: Arc<Query>,
    tally: MatchRate,
}

impl FilteredScan {
    /// Calls `visit` with the remaining documents until it says stop; true if it did.
    fn for_each(&mut self, visit: &mut Visitor<'_>) -> Result<bool> {
        let FilteredScan { partition, query, tally } = self;
        let (filter, used) = (&query.filter, query.used.as_ref());
        partition.for_each(&mut |_, row| {
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

/// The documents of one thread, borrowed or copied in batches.
struct PartitionStream {
    scan: FilteredScan,
    ready: std::vec::IntoIter<RawDocumentBuf>,
}

impl DocumentStream for PartitionStream {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if let Some(document) = self.ready.next() {
            return Ok(Some(document));
        }
        let mut batch = Vec::with_capacity(BATCH);
        self.scan.for_each(&mut |document| {
            batch.push(document.to_owned());
            Ok(if batch.len() < BATCH { Flow::Continue(()) } else { Flow::Break(()) })
        })?;
        self.ready = batch.into_iter();
        Ok(self.ready.next())
    }

    fn for_each(&mut self, visit: &mut Visitor<'_>) -> Result<()> {
        for document in self.ready.by_ref() {
            if visit(&document)? == Flow::Break(()) {
                return Ok(());
            }
        }
        self.scan.for_each(visit).map(drop)
    }
}
