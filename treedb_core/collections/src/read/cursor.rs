//! The cursor over the documents of a find.

use std::sync::Arc;

use bson::RawDocumentBuf;

use treedb_query::access::QueryContext;
use treedb_query::error::Result;
use treedb_query::query::{Counters, Execution, Plan, PlanSummary, Query, interrupt};
use treedb_storage::ReadTxn;

use crate::catalog::meta::Meta;
use crate::changes::{AsOfOverlay, AsOfView};
use crate::read::batch::Batch;
use crate::read::of_view::FoundInView;
use crate::read::point_lookup::PointFind;
use crate::read::view::View;

/// The documents of a find, in its order, from one snapshot: later writes are not visible.
///
/// A cursor owns all it needs: it can be kept, sent to another thread, and read after its collection was dropped. The pages
/// of its snapshot are not reused while it exists, so a cursor that stays open for long costs disk space.
pub struct Cursor {
    state: State,
    batch: Batch,
}

enum State {
    /// The collection does not exist.
    Empty,
    /// The only document is in the batch already.
    One(Box<PointFind>, Arc<Meta>),
    Point(Box<Walked<PointFind>>),
    Walk(Box<Walk>),
    AsOf(Box<Walk>, Box<AsOfOverlay>),
    View(Box<FoundInView>),
}

/// A running query: snapshot, collection, position.
struct Walked<E> {
    reads: ReadTxn,
    meta: Arc<Meta>,
    execution: E,
}

type Walk = Walked<Execution>;

impl Cursor {
    /// A cursor without documents, for a collection that does not exist.
    pub(crate) fn empty() -> Self {
        interrupt::note_plan(|| PlanSummary::EOF);
        Cursor { state: State::Empty, batch: Batch::complete([]) }
    }

    /// The documents of a find in a view.
    pub(crate) fn of_view(found: FoundInView) -> Self {
        Cursor { state: State::View(Box::new(found)), batch: Batch::complete([]) }
    }

    /// The answer of a point look-up in `reads`.
    pub(crate) fn by_point_lookup(reads: ReadTxn, meta: Arc<Meta>, mut find: PointFind) -> Result<Self> {
        if find.is_one() {
            let batch = Batch::complete(find.one(&reads, &meta)?);
            return Ok(Cursor { state: State::One(Box::new(find), meta), batch });
        }
        let walk = Box::new(Walked { reads, meta, execution: find });
        Ok(Cursor { state: State::Point(walk), batch: Batch::new() })
    }

    /// Plans `query` over the collection in `reads`.
    pub(crate) fn open(reads: ReadTxn, meta: Arc<Meta>, query: Query) -> Result<Self> {
        let view = View { reads: &reads, meta: &meta };
        let execution = Execution::new(&view, &view.context(), query)?;
        let walk = Box::new(Walk { reads, meta, execution });
        Ok(Cursor { state: State::Walk(walk), batch: Batch::new() })
    }

    /// The snapshot and collection that are read; `None` if the documents are not read from one.
    pub(crate) fn snapshot(&self) -> Option<(&ReadTxn, &Meta)> {
        match &self.state {
            State::Walk(walk) => Some((&walk.reads, &walk.meta)),
            State::Point(walk) => Some((&walk.reads, &walk.meta)),
            State::Empty | State::One(..) | State::AsOf(..) | State::View(_) => None,
        }
    }

    /// Plans `query` over the collection as it was.
    pub(crate) fn open_as_of(
        reads: ReadTxn,
        meta: Arc<Meta>,
        past: AsOfOverlay,
        query: Query,
    ) -> Result<Self> {
        let view = AsOfView { reads: &reads, meta: &meta, overlay: &past };
        let execution = Execution::new(&view, &QueryContext::default(), query)?;
        let state = State::AsOf(Box::new(Walk { reads, meta, execution }), Box::new(past));
        Ok(Cursor { state, batch: Batch::new() })
    }

    /// The plan; `None` if the collection does not exist.
    pub fn plan(&self) -> Option<&Plan> {
        match &self.state {
            State::Empty | State::View(_) => None,
            State::One(find, meta) => find.plan(meta),
            State::Point(walk) => walk.execution.plan(&walk.meta),
            State::Walk(walk) | State::AsOf(walk, _) => Some(walk.execution.plan()),
        }
    }

    /// Work done so far.
    pub fn counters(&self) -> Counters {
        match &self.state {
            State::Empty | State::View(_) => Counters::default(),
            State::One(find, _) => find.counters(),
            State::Point(walk) => walk.execution.counters(),
            State::Walk(walk) | State::AsOf(walk, _) => walk.execution.counters(),
        }
    }

    /// True if the next call of `next` returns a document. May fetch a batch.
    pub fn has_next(&mut self) -> Result<bool> {
        self.fill()?;
        Ok(!self.batch.ready.is_empty())
    }

    /// Fetches the next batch if the last is used up.
    fn fill(&mut self) -> Result<()> {
        if let State::View(found) = &mut self.state {
            if self.batch.ready.is_empty() {
                self.batch.ready.extend(found.next()?);
            }
            return Ok(());
        }
        while self.batch.needs_fetch() {
            let (walk, overlay) = match &mut self.state {
                State::Walk(walk) => (walk, None),
                State::AsOf(walk, past) => (walk, Some(past)),
                State::Point(walk) => {
                    let Walked { reads, meta, execution } = &mut **walk;
                    execution.fetch(reads, meta, &mut self.batch)?;
                    continue;
                }
                State::Empty | State::One(..) | State::View(_) => return Ok(()),
            };
            let Walk { reads, meta, execution } = &mut **walk;
            match overlay {
                None => {
                    let view = View { reads: &*reads, meta };
                    self.batch.fetch(execution, &view, &view.context())?;
                }
                Some(overlay) => {
                    let view = AsOfView { reads, meta, overlay };
                    self.batch.fetch(execution, &view, &QueryContext::default())?;
                }
            }
        }
        Ok(())
    }
}

impl Iterator for Cursor {
    type Item = Result<RawDocumentBuf>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.fill() {
            Ok(()) => self.batch.ready.pop_front().map(Ok),
            Err(error) => Some(Err(error)),
        }
    }
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").field("plan", &self.plan()).field("counters", &self.counters()).finish()
    }
}
