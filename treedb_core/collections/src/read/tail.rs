//! Tailable cursors: the documents of a capped collection in the order of insertion, and those that come later.
//!
//! A tail holds no snapshot, only the row it read last. Each read takes the newest snapshot and continues after that row. Rows are deleted
//! from the oldest on, so a tail that is too slow finds that the row after its last is gone: it has lost its position.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bson::{RawDocument, RawDocumentBuf};

use treedb_query::access::{Direction, Flow, RowId, Source};
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::query::{PlanSummary, Query, interrupt};

use crate::catalog::special::first_row;
use crate::collection::Collection;
use crate::read::batch::BatchLimit;
use crate::read::view::View;
use crate::request::FindRequest;
use crate::write::statement::parse;

/// The documents of a capped collection that match a filter, as they are inserted; see [`Collection::tail`].
pub struct Tail {
    collection: Collection,
    /// The collection's number: another one may get its name.
    id: i64,
    query: Query,
    last: Option<RowId>,
    /// Documents to leave out, and to return at most.
    to_skip: u64,
    left: Option<u64>,
    ready: VecDeque<RawDocumentBuf>,
    /// There will be no more documents.
    ended: bool,
}

impl Collection {
    /// The documents that match, in the order of their insertion, and those that are inserted later. A tail of a collection that does not
    /// exist or has no documents is at its end.
    ///
    /// # Errors
    /// `BadValue` if the collection is not capped, or for an order other than that of insertion; those of [`Self::find`].
    pub fn tail(&self, request: &FindRequest) -> Result<Tail> {
        let query = parse(request)?;
        let mut tail = Tail {
            collection: self.clone(),
            id: 0,
            query: Query::new(treedb_query::query::Filter::all()),
            last: None,
            to_skip: request.skip,
            left: Some(request.limit).filter(|limit| *limit > 0),
            ready: VecDeque::new(),
            ended: false,
        };
        let Some((_, meta)) = self.snapshot()? else { return Ok(Tail { ended: true, ..tail }) };
        if meta.special.capped.is_none() {
            return Err(QueryError::bad_value(format!(
                "error processing query: ns={} tailable cursor requested on non capped collection",
                self.namespace()
            )));
        }
        tail.query = query.with_default_collation(&meta.collation)?;
        let forward =
            matches!(tail.query.hint, None | Some(treedb_query::query::Hint::Natural(Direction::Forward)));
        if tail.query.sort.is_some() || !forward {
            return Err(QueryError::bad_value(
                "cannot use tailable option with a sort or hint other than {$natural: 1}",
            ));
        }
        tail.id = meta.id;
        interrupt::note_plan(|| PlanSummary::COLLECTION_SCAN);
        tail.fill()?;
        tail.ended |= tail.last.is_none();
        Ok(tail)
    }
}

impl Tail {
    /// The next document, waiting for it until `timeout`. `None` if there was none; [`Self::is_closed`] tells whether there can be one later.
    ///
    /// # Errors
    /// `CappedPositionLost` if documents were deleted before they were read; `QueryPlanKilled` if the collection was dropped.
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<RawDocumentBuf>> {
        self.wait(timeout)?;
        Ok(self.ready.pop_front())
    }

    /// The document that [`Self::next_timeout`] would return, without taking it.
    ///
    /// # Errors
    /// As there.
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<&RawDocument>> {
        if self.ready.is_empty() && !self.ended {
            let db = self.collection.database().clone();
            db.inner.changes.wait(timeout, || {
                self.fill()?;
                Ok((!self.ready.is_empty() || self.ended).then_some(()))
            })?;
        }
        Ok(self.ready.front().map(|document| &**document))
    }

    /// True if all documents were returned and there will be no others.
    pub fn is_closed(&self) -> bool {
        self.ready.is_empty() && self.ended
    }

    /// Reads the next documents.
    fn fill(&mut self) -> Result<()> {
        let gone = || {
            QueryError::new(
                ErrorCode::QueryPlanKilled,
                "the capped collection was dropped, or has got another name, while a tailable cursor read it",
            )
        };
        let (reads, meta) = self.collection.snapshot()?.ok_or_else(gone)?;
        if meta.id != self.id {
            return Err(gone());
        }
        let (meta, mut limit) = (Arc::clone(&meta), BatchLimit::default());
        let view = View { reads: &reads, meta: &meta };
        if let (Some(last), Some(first)) = (self.last, first_row(&view)?)
            && first.0 > last.0 + 1
        {
            return Err(QueryError::new(
                ErrorCode::CappedPositionLost,
                format!(
                    "CollectionScan died due to position in capped collection being deleted. Last seen record id: RecordId({})",
                    last.0
                ),
            ));
        }
        let Tail { query, last, to_skip, left, ready, ended, .. } = self;
        view.scan(Direction::Forward, *last, &mut |row, document| {
            *last = Some(row);
            if !query.filter.matches(document)? {
                return Ok(Flow::Continue(()));
            }
            if *to_skip > 0 {
                *to_skip -= 1;
                return Ok(Flow::Continue(()));
            }
            let document = treedb_query::query::project(query.projection.as_ref(), document)?;
            let mut full = limit.add(&document);
            ready.push_back(document);
            if let Some(left) = left {
                *left -= 1;
                *ended = *left == 0;
                full |= *ended;
            }
            Ok(if full { Flow::Break(()) } else { Flow::Continue(()) })
        })
    }
}

impl std::fmt::Debug for Tail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tail")
            .field("collection", self.collection.namespace())
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}
