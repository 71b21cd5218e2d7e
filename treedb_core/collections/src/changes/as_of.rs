//! Reading collections as of an earlier change: the changes since are undone over the present snapshot.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use bson::{Bson, DateTime, RawBson, RawDocument, RawDocumentBuf, Timestamp, rawdoc};

use treedb_query::access::{Direction, Flow, IndexInfo, Probe, RowId, Source, VisitRow};
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::query::{Execution, Filter, Hint, Query};
use treedb_storage::{ReadTxn, Reads};

use super::dropped_collections::{CollectionsById, RetainedRows};
use super::log::{Log, Version};
use super::record::{Operation, damaged};
use super::row_ranges::RowRanges;
use crate::Collection;
use crate::catalog::Catalog;
use crate::catalog::meta::Meta;
use crate::catalog::namespace::Namespace;
use crate::read::view::View;
use crate::request::FindRequest;

/// An earlier state of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AsOf {
    /// After the change with this sequence number.
    Change(u64),
    /// At this time: after the last change committed not later.
    Time(DateTime),
}

/// A version of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Revision {
    /// The change that made it; 0 if it is not kept.
    pub change: u64,
    /// When that was committed; if it is not kept, when the log was switched on.
    pub time: DateTime,
    /// The document; `None` for its deletion.
    pub document: Option<RawDocumentBuf>,
}

/// The rows of a collection that were different after an earlier change.
#[derive(Debug)]
pub(crate) struct AsOfOverlay {
    /// Rows that were changed or deleted since; `None` for those that did not exist.
    rows: BTreeMap<u64, Option<RawDocumentBuf>>,
    /// Rows that were inserted since.
    inserted: RowRanges,
}

/// The log, or an error if it is off.
pub(super) fn find_log(reads: &impl Reads) -> Result<Log> {
    Log::find(reads)?.ok_or_else(|| {
        QueryError::new(
            ErrorCode::IllegalOperation,
            "earlier states cannot be read, because changes are not recorded: switch the change log on",
        )
    })
}

pub(super) fn snapshot_too_old(why: String) -> QueryError {
    QueryError::new(ErrorCode::SnapshotTooOld, why)
}

/// The error of a cluster time that no state is known of yet.
pub(super) fn unavailable(time: Timestamp, why: &str) -> QueryError {
    QueryError::new(
        ErrorCode::SnapshotUnavailable,
        format!("there is no snapshot at the cluster time ({}, {}): {why}", time.time, time.increment),
    )
}

/// The last change before the state `at`.
pub(super) fn resolve_as_of(reads: &ReadTxn, log: &Log, at: AsOf) -> Result<u64> {
    let (min_seq, end) = (log.min_seq(reads)?, log.end(reads)?);
    match at {
        AsOf::Change(seq) if seq >= end.next => {
            Err(QueryError::bad_value(format!("as of change {seq}: the last change is {}", end.next - 1)))
        }
        AsOf::Change(seq) if seq + 1 >= min_seq => Ok(seq),
        AsOf::Change(seq) => {
            Err(snapshot_too_old(format!("as of change {seq}: only changes from {min_seq} on are kept")))
        }
        AsOf::Time(time) => {
            let seq = log.at_time(reads, time.timestamp_millis())?;
            let is_kept = seq >= min_seq
                || (min_seq == log.settings.from && time.timestamp_millis() >= log.settings.since);
            if is_kept {
                Ok(seq)
            } else {
                Err(snapshot_too_old(format!("as of {time}: changes are not kept that long")))
            }
        }
    }
}

impl AsOfOverlay {
    /// The collection that was called `namespace` at `at`, and its rows that were different; `None` if there was none. What these take
    /// is subtracted from `memory`, in bytes.
    ///
    /// # Errors
    /// `SnapshotTooOld` if the changes since are not all kept; `ExceededMemoryLimit` if the rows take more.
    pub(crate) fn find(
        catalog: &Catalog,
        reads: &ReadTxn,
        namespace: &Namespace,
        at: AsOf,
        memory: &mut usize,
    ) -> Result<Option<(Arc<Meta>, AsOfOverlay)>> {
        let log = find_log(reads)?;
        let seq = resolve_as_of(reads, &log, at)?;
        let mut names = HashMap::new();
        let mut collections = CollectionsById::new(catalog, &mut names);
        let earlier_names = log.names_at(reads, seq)?;
        // Of the dropped collections of this name, the first to be dropped since was the one at that time.
        let dropped = log
            .dropped_collections(reads)?
            .into_iter()
            .filter(|dropped| dropped.namespace == *namespace && dropped.seq > seq)
            .filter(|dropped| earlier_names.iter().all(|rename| rename.id != dropped.id))
            .min_by_key(|dropped| dropped.seq);
        // Or the first to be given another name, if that was before; or else the one of today, unless it was called otherwise.
        let renamed =
            earlier_names.iter().filter(|rename| rename.from == *namespace).min_by_key(|rename| rename.seq);
        let dropped_id = match (dropped, renamed) {
            (Some(dropped), Some(renamed)) if renamed.seq < dropped.seq => Some(renamed.id),
            (Some(dropped), _) => Some(dropped.id),
            (None, renamed) => renamed.map(|renamed| renamed.id),
        };
        let meta = match dropped_id {
            None => match catalog.find(reads, namespace)? {
                Some(meta) if earlier_names.iter().all(|rename| rename.id != meta.id) => meta,
                _ => return Ok(None),
            },
            Some(id) => match collections.meta(reads, &log, id)? {
                RetainedRows::Available(meta) => meta,
                RetainedRows::Discarded => {
                    let why = format!("{namespace} was dropped since, and its documents are no longer kept");
                    return Err(snapshot_too_old(why));
                }
            },
        };
        let mut overlay = AsOfOverlay { rows: BTreeMap::new(), inserted: RowRanges::default() };
        let mut rows = 0;
        log.walk(reads, seq + 1, &mut |record| {
            if record.head.collection != meta.id {
                return Ok(true);
            }
            for change in record.changes_from(seq + 1) {
                let change = change?;
                if change.operation == Operation::Insert {
                    overlay.inserted.insert(change.row);
                } else if change.operation.is_in_row_history()
                    && !overlay.rows.contains_key(&change.row)
                    && !overlay.inserted.contains(change.row)
                {
                    let version = log.version(reads, &mut collections, meta.id, change.row, seq)?;
                    let Version::Document(old) = version else {
                        return Err(damaged("a row is missing"));
                    };
                    rows += old.as_bytes().len() + size_of::<RawDocumentBuf>() * 2;
                    overlay.rows.insert(change.row, Some(old));
                }
            }
            if rows + overlay.inserted.bytes() > *memory {
                return Err(QueryError::new(
                    ErrorCode::ExceededMemoryLimit,
                    format!(
                        "{namespace} as of change {seq}: what changed since takes more than the {memory} bytes of memory that are left"
                    ),
                ));
            }
            Ok(true)
        })?;
        *memory -= rows + overlay.inserted.bytes();
        Ok(Some((meta, overlay)))
    }

    /// What is left of a hint: the past has no indexes, so that one that names an index is ignored.
    pub(crate) fn hint(hint: Option<Hint>) -> Option<Hint> {
        hint.filter(|hint| matches!(hint, Hint::Natural(_)))
    }

    /// A query that reads the past, without its hint if that names an index.
    ///
    /// # Errors
    /// `BadValue` for bounds of the keys of an index.
    pub(crate) fn query(query: Query) -> Result<Query> {
        match query.bounds.is_none() {
            true => Ok(Query { hint: Self::hint(query.hint), ..query }),
            false => Err(QueryError::bad_value(
                "min() and max() cannot be used at an earlier time, which has no indexes: put the bounds into the filter",
            )),
        }
    }
}

/// A collection as of an earlier change. It has no indexes, because their entries are those of the present.
pub(crate) struct AsOfView<'a, R> {
    pub(crate) reads: &'a R,
    pub(crate) meta: &'a Meta,
    pub(crate) overlay: &'a AsOfOverlay,
}

impl<R: Reads> Source for AsOfView<'_, R> {
    fn indexes(&self) -> &[IndexInfo] {
        &[]
    }

    fn fetch(&self, id: RowId, visit: &mut dyn FnMut(&RawDocument) -> Result<()>) -> Result<bool> {
        match self.overlay.rows.get(&id.0) {
            Some(Some(document)) => visit(document).map(|()| true),
            Some(None) => Ok(false),
            None if self.overlay.inserted.contains(id.0) => Ok(false),
            None => View { reads: self.reads, meta: self.meta }.fetch(id, visit),
        }
    }

    fn scan(&self, direction: Direction, after: Option<RowId>, visit: &mut VisitRow<'_>) -> Result<()> {
        let changed = match (direction, after) {
            (_, None) => (Bound::Unbounded, Bound::Unbounded),
            (Direction::Forward, Some(RowId(row))) => (Bound::Excluded(row), Bound::Unbounded),
            (Direction::Backward, Some(RowId(row))) => (Bound::Unbounded, Bound::Excluded(row)),
        };
        let changed = self.overlay.rows.range(changed);
        let mut changed: Box<dyn Iterator<Item = _> + '_> = match direction {
            Direction::Forward => Box::new(changed),
            Direction::Backward => Box::new(changed.rev()),
        };
        let changed = RefCell::new(changed.by_ref().peekable());
        let visit = RefCell::new(visit);
        // Visits the changed rows up to `row`; breaks if `visit` does.
        let catch_up = |row: Option<u64>| -> Result<Flow> {
            let mut changed = changed.borrow_mut();
            let before = |other: u64| match (row, direction) {
                (None, _) => true,
                (Some(row), Direction::Forward) => other <= row,
                (Some(row), Direction::Backward) => other >= row,
            };
            while let Some((&row, document)) = changed.next_if(|(row, _)| before(**row)) {
                if let Some(document) = document
                    && (visit.borrow_mut())(RowId(row), document)? == Flow::Break(())
                {
                    return Ok(Flow::Break(()));
                }
            }
            Ok(Flow::Continue(()))
        };
        let mut stopped = false;
        View { reads: self.reads, meta: self.meta }.scan(direction, after, &mut |row, document| {
            let mut flow = catch_up(Some(row.0))?;
            if flow == Flow::Continue(())
                && !self.overlay.rows.contains_key(&row.0)
                && !self.overlay.inserted.contains(row.0)
            {
                flow = (visit.borrow_mut())(row, document)?;
            }
            stopped = flow == Flow::Break(());
            Ok(flow)
        })?;
        if !stopped {
            let _ = catch_up(None)?;
        }
        Ok(())
    }

    fn walk(&self, index: usize, _: Probe<'_>) -> Result<()> {
        Err(Probe::refused(index))
    }

    fn estimated_rows(&self) -> u64 {
        View { reads: self.reads, meta: self.meta }.estimated_rows()
    }
}

impl Collection {
    /// The first document that matched `filter` at `at`.
    ///
    /// # Errors
    /// `SnapshotTooOld` if the changes since are not all kept, `IllegalOperation` if changes are not recorded; those of
    /// [`Self::find`].
    pub fn find_one_as_of(&self, filter: RawDocumentBuf, at: AsOf) -> Result<Option<RawDocumentBuf>> {
        self.find(FindRequest::filter(filter).as_of(at).limit(1))?.next().transpose()
    }

    /// The versions of the documents with this `_id`, the oldest first: one for each change that is kept, preceded by the version
    /// before the first of them. Those of dropped collections are not included.
    ///
    /// # Errors
    /// `IllegalOperation` if changes are not recorded.
    pub fn history(&self, id: impl Into<Bson>) -> Result<Vec<Revision>> {
        let db = self.database();
        let reads = db.inner.store.begin_read()?;
        let log = find_log(&reads)?;
        let Some(meta) = db.inner.catalog.find(&reads, self.namespace())? else { return Ok(Vec::new()) };
        let id = RawBson::try_from(id.into())?;
        let filter = Filter::parse(&rawdoc! { "_id": rawdoc! { "$eq": id } })?;
        let query = Query::new(filter).collated(&meta.collation)?;
        let mut rows = BTreeSet::new();
        let view = View { reads: &reads, meta: &meta };
        let mut search = Execution::new(&view, &view.context(), query.clone())?;
        let mut current = None;
        search.run(&view, &view.context(), &mut |document| {
            current = Some(document);
            Flow::Continue(())
        })?;
        let found = treedb_query::query::find_rows(&view, &view.context(), &query, 0)?;
        rows.extend(found.into_iter().map(|row| row.0));
        let mut revisions = Vec::new();
        let mut names = HashMap::new();
        let mut collections = CollectionsById::new(&db.inner.catalog, &mut names);
        // First find the deleted rows that had the `_id`, then the changes of all its rows.
        for_each_change(&reads, &log, meta.id, &mut |_, change| {
            if let Operation::Delete(old) = &change.operation
                && query.filter.matches(RawDocument::from_bytes(old)?)?
            {
                rows.insert(change.row);
            }
            Ok(())
        })?;
        let mut seen = BTreeSet::new();
        let since = DateTime::from_millis(log.settings.since);
        for_each_change(&reads, &log, meta.id, &mut |time, change| {
            if !change.operation.is_of_a_row() || !rows.contains(&change.row) {
                return Ok(());
            }
            let mut version = |seq| match log.version(&reads, &mut collections, meta.id, change.row, seq)? {
                Version::Document(document) => Ok::<_, QueryError>(Some(document)),
                _ => Ok(None),
            };
            if seen.insert(change.row) && change.operation != Operation::Insert {
                revisions.push(Revision { change: 0, time: since, document: version(change.seq - 1)? });
            }
            let document = version(change.seq)?;
            revisions.push(Revision { change: change.seq, time: DateTime::from_millis(time), document });
            Ok(())
        })?;
        if revisions.is_empty() && current.is_some() {
            revisions.push(Revision { change: 0, time: since, document: current });
        }
        Ok(revisions)
    }
}

/// Visits every change of a collection's rows with its time.
fn for_each_change(
    reads: &ReadTxn,
    log: &Log,
    collection: i64,
    visit: &mut dyn FnMut(i64, &super::record::Change<'_>) -> Result<()>,
) -> Result<()> {
    log.walk(reads, 0, &mut |record| {
        if record.head.collection == collection {
            for change in record.changes() {
                visit(record.head.time, &change?)?;
            }
        }
        Ok(true)
    })
}
