//! A collection in a snapshot combined with a transaction's changes, as one [`Source`] and [`Sink`]; or without the changes since an
//! earlier moment.

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};

use crate::catalog::meta::Meta;
use crate::catalog::namespace::Namespace;
use crate::changes::{AsOfOverlay, AsOfView};
use crate::database::Database;
use crate::index::{IndexChange, IndexKind, Uncommitted, Versions, by_kind, index_changes};
use crate::read::view::View;
use crate::write::change::check_document;
use treedb_query::access::{
    Among, Change, Compared, Direction, Flow, IndexInfo, KeyRange, Probe, QueryContext, ReadWritten, Row,
    RowId, Sink, Source, TempFile, TempFiles, VisitLazyRow, VisitRow,
};
use treedb_query::doc::Collation;
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_storage::{Reads, SharedReadTxn};

use super::intents::{CLAIM_BYTES, Claims, Intent, Owner};
use super::overlay::{FIRST_NEW_ROW, Op, Overlay};
use super::{MAX_BYTES, conflict};

/// The most entries of the transaction that are counted for an estimate.
const MAX_COUNTED: usize = 1000;

/// A collection in a snapshot, and the changes of a transaction or those to be undone, if any.
#[derive(Debug, Clone)]
pub(crate) struct CollectionSnapshot {
    /// The collection in the snapshot, if it exists there.
    meta: Option<Arc<Meta>>,
    overlay: Option<Arc<Overlay>>,
    /// What the collection was at an earlier moment. There is no overlay then.
    past: Option<Arc<AsOfOverlay>>,
}

impl CollectionSnapshot {
    pub(crate) fn new(meta: Option<Arc<Meta>>, overlay: Option<Arc<Overlay>>) -> Self {
        CollectionSnapshot { meta, overlay, past: None }
    }

    /// The collection as it was.
    pub(crate) fn of_past(meta: Arc<Meta>, past: AsOfOverlay) -> Self {
        CollectionSnapshot { meta: Some(meta), overlay: None, past: Some(Arc::new(past)) }
    }

    /// True if the collection does not exist.
    pub(crate) fn is_nothing(&self) -> bool {
        self.meta.is_none() && self.overlay.is_none()
    }

    /// The collection in the snapshot, if that is what is read: no transaction has changed it, and it is not that of an earlier moment.
    pub(crate) fn unchanged(&self) -> Option<&Arc<Meta>> {
        self.meta.as_ref().filter(|_| self.overlay.is_none() && self.past.is_none())
    }

    /// The combined collection, read by `reads`.
    pub(crate) fn through<'a, R: Reads>(&'a self, reads: &'a R) -> Layer<'a, R> {
        let (meta, overlay) = (self.meta.as_deref(), self.overlay.as_deref());
        Layer { reads, meta, overlay, past: self.past.as_deref() }
    }
}

/// A collection as a transaction sees it, or as it was.
pub(crate) struct Layer<'a, R> {
    reads: &'a R,
    meta: Option<&'a Meta>,
    overlay: Option<&'a Overlay>,
    past: Option<&'a AsOfOverlay>,
}

impl<R: Reads> Layer<'_, R> {
    fn view(&self) -> Option<View<'_, R>> {
        self.meta.map(|meta| View { reads: self.reads, meta })
    }

    /// The collection as it was, if that is what is read.
    fn past(&self) -> Option<AsOfView<'_, R>> {
        Some(AsOfView { reads: self.reads, meta: self.meta?, overlay: self.past? })
    }

    /// Visits the rows of the snapshot that were not deleted, in their present version.
    fn old_rows(
        &self,
        overlay: &Overlay,
        direction: Direction,
        after: Option<RowId>,
        visit: &mut VisitLazyRow<'_>,
    ) -> Result<Flow> {
        let mut last = Flow::Continue(());
        if let Some(view) = self.view() {
            view.scan_rows(direction, after, &mut |row, stored| {
                last = match overlay.rows.get(&row.0) {
                    Some(Some(changed)) => visit(row, &mut &**changed)?,
                    Some(None) => Flow::Continue(()),
                    None => visit(row, stored)?,
                };
                Ok(last)
            })?;
        }
        Ok(last)
    }
}

/// Visits rows that the transaction inserted.
fn new_rows<'r>(
    rows: impl Iterator<Item = (&'r u64, &'r Option<RawDocumentBuf>)>,
    visit: &mut VisitLazyRow<'_>,
) -> Result<Flow> {
    for (&row, document) in rows {
        if let Some(document) = document
            && visit(RowId(row), &mut &**document)? == Flow::Break(())
        {
            return Ok(Flow::Break(()));
        }
    }
    Ok(Flow::Continue(()))
}

impl<R: Reads> Layer<'_, R> {
    /// What queries of the collection need beside its rows.
    pub(crate) fn context(&self) -> QueryContext<'_> {
        QueryContext {
            collation: match (self.meta, self.overlay.and_then(|overlay| overlay.created.as_ref())) {
                (Some(meta), _) => &meta.collation,
                (None, Some(created)) => &created.collation,
                (None, None) => &Collation::Simple,
            },
            temp_files: Some(self),
            // Plans of the present use indexes that the past has not got.
            plan_cache: self.meta.filter(|_| self.past.is_none()).map(|meta| &*meta.plans),
        }
    }
}

impl<R: Reads> TempFiles for Layer<'_, R> {
    fn create(&self) -> Result<Option<Box<dyn TempFile>>> {
        Ok(self.reads.scratch()?.map(|file| Box::new(file) as Box<dyn TempFile>))
    }
}

impl<R: Reads> Source for Layer<'_, R> {
    fn indexes(&self) -> &[IndexInfo] {
        match (&self.overlay, &self.meta) {
            _ if self.past.is_some() => &[],
            (Some(overlay), _) => &overlay.infos,
            (None, Some(meta)) => &meta.infos,
            (None, None) => &[],
        }
    }

    fn fetch(&self, id: RowId, visit: &mut dyn FnMut(&RawDocument) -> Result<()>) -> Result<bool> {
        self.fetch_row(id, &mut |row| visit(row.document()?))
    }

    fn fetch_row(&self, id: RowId, visit: &mut dyn FnMut(&mut dyn Row) -> Result<()>) -> Result<bool> {
        if let Some(past) = self.past() {
            return past.fetch_row(id, visit);
        }
        match self.overlay.and_then(|overlay| overlay.rows.get(&id.0)) {
            Some(Some(document)) => visit(&mut &**document).map(|()| true),
            Some(None) => Ok(false),
            None => self.view().map_or(Ok(false), |view| view.fetch_row(id, visit)),
        }
    }

    fn scan(&self, direction: Direction, after: Option<RowId>, visit: &mut VisitRow<'_>) -> Result<()> {
        self.scan_rows(direction, after, &mut |id, row| visit(id, row.document()?))
    }

    fn scan_rows(
        &self,
        direction: Direction,
        after: Option<RowId>,
        visit: &mut VisitLazyRow<'_>,
    ) -> Result<()> {
        if let Some(past) = self.past() {
            return past.scan_rows(direction, after, visit);
        }
        let Some(overlay) = self.overlay else {
            return self.view().map_or(Ok(()), |view| view.scan_rows(direction, after, visit));
        };
        // New rows have the greatest ids: they come last, or first in a backward scan.
        let in_new = after.is_some_and(|RowId(row)| row >= FIRST_NEW_ROW);
        match direction {
            Direction::Forward => {
                if !in_new && self.old_rows(overlay, direction, after, visit)? == Flow::Break(()) {
                    return Ok(());
                }
                let from = after.filter(|_| in_new).map_or(FIRST_NEW_ROW, |RowId(row)| row + 1);
                new_rows(overlay.rows.range(from..), visit).map(drop)
            }
            Direction::Backward => {
                let to = after.map_or(u64::MAX, |RowId(row)| row);
                if to > FIRST_NEW_ROW
                    && new_rows(overlay.rows.range(FIRST_NEW_ROW..to).rev(), visit)? == Flow::Break(())
                {
                    return Ok(());
                }
                self.old_rows(overlay, direction, after.filter(|_| !in_new), visit).map(drop)
            }
        }
    }

    fn walk(&self, index: usize, probe: Probe<'_>) -> Result<()> {
        if let Some(past) = self.past() {
            return past.walk(index, probe);
        }
        let (base, Some(overlay)) = (self.view(), self.overlay) else {
            return self.view().map_or(Ok(()), |view| view.walk(index, probe));
        };
        let (Some(info), Some(entries)) = (overlay.infos.get(index), overlay.pending.get(index)) else {
            return Err(Probe::refused(index));
        };
        let uncommitted = Uncommitted { entries, rows: &overlay.rows };
        by_kind!(&*info.def, kind => kind.walk_uncommitted(base.as_ref(), index, &uncommitted, probe))
    }

    fn nearest_among(
        &self,
        index: usize,
        vector: &[f32],
        among: &Among<'_>,
        visit: &mut dyn FnMut(RowId, f32) -> Result<()>,
    ) -> Result<Option<Compared>> {
        match (self.view(), self.overlay) {
            (Some(view), None) => view.nearest_among(index, vector, among, visit),
            // The index does not have what the transaction has changed.
            _ => Ok(None),
        }
    }

    fn estimated_rows(&self) -> u64 {
        let base = self.view().map_or(0, |view| view.estimated_rows());
        base.saturating_add_signed(self.overlay.map_or(0, |overlay| overlay.row_delta))
    }

    fn known_rows(&self) -> Result<Option<u64>> {
        if self.past.is_some() {
            return Ok(None);
        }
        let base = self.view().map_or(Ok(Some(0)), |view| view.known_rows())?;
        Ok(base.map(|rows| rows.saturating_add_signed(self.overlay.map_or(0, |overlay| overlay.row_delta))))
    }

    fn estimate(&self, index: usize, range: &KeyRange) -> Option<u64> {
        let base = self.view().map_or(Some(0), |view| view.estimate(index, range))?;
        let pending = self.overlay.and_then(|overlay| overlay.pending.get(index));
        let own = pending
            .map_or(0, |pending| pending.range(range, Direction::Forward, None).take(MAX_COUNTED).count());
        Some(base.saturating_add(own as u64))
    }

    fn entries_are_exact(&self) -> bool {
        true
    }
}

/// A collection that a transaction writes to.
pub(super) struct TransactionSink<'a> {
    pub(super) db: &'a Database,
    pub(super) reads: &'a SharedReadTxn,
    pub(super) overlay: &'a mut Overlay,
    pub(super) ops: &'a mut Vec<(Namespace, Op)>,
    pub(super) claims: &'a mut Claims,
    pub(super) lost_to: &'a mut Option<(Owner, Namespace)>,
    pub(super) bytes: &'a mut usize,
    /// Whether the collection's validator applies.
    pub(super) validates: bool,
}

impl TransactionSink<'_> {
    fn layer(&self) -> Layer<'_, SharedReadTxn> {
        let meta = self.overlay.base.as_deref();
        Layer { reads: self.reads, meta, overlay: Some(self.overlay), past: None }
    }

    /// The row that has a key of the unique index at `index`.
    fn holder(&self, index: usize, key: &[u8]) -> Result<Option<RowId>> {
        let Some(pending) = self.overlay.pending.get(index) else { return Ok(None) };
        if let Some(row) = pending.holder(key) {
            return Ok(Some(row));
        }
        let base = self.overlay.base.as_ref().and_then(|meta| meta.indexes.get(index));
        let Some(base) = base else { return Ok(None) };
        let found = by_kind!(&base.def, kind => kind.holder(self.reads, &base.table, key))?;
        Ok(found.filter(|row| !pending.has_removed(key, *row)))
    }

    fn validator(&self) -> Option<&crate::catalog::validator::Validator> {
        if !self.validates {
            return None;
        }
        match &self.overlay.base {
            Some(base) => base.validator.as_ref(),
            None => self.overlay.created.as_ref()?.validator.as_ref(),
        }
    }

    fn push_op(&mut self, bytes: usize, op: Op) -> Result<()> {
        *self.bytes += bytes + size_of::<(Namespace, Op)>();
        if !self.validates {
            self.overlay.unvalidated.insert(op.row().0);
        }
        self.ops.push((self.overlay.namespace.clone(), op));
        if *self.bytes > MAX_BYTES {
            return Err(QueryError::new(
                ErrorCode::TransactionTooLarge,
                format!(
                    "the transaction's changes take more than {MAX_BYTES} bytes: split it into smaller transactions"
                ),
            ));
        }
        Ok(())
    }

    /// Claims a row of the snapshot, which this transaction changes for the first time, and the keys that unique indexes gain and lose.
    ///
    /// # Errors
    /// `WriteConflict` if another open transaction has claimed one of them, or one of them was changed since the snapshot.
    fn claim(&mut self, row: Option<RowId>, changes: &[IndexChange]) -> Result<()> {
        let namespace = &self.overlay.namespace;
        let row = row.filter(|row| row.0 < FIRST_NEW_ROW && !self.overlay.rows.contains_key(&row.0));
        let unique = || {
            let indexes = self.overlay.infos.iter().zip(changes).enumerate();
            indexes.filter(|(_, (info, _))| info.def.as_ordered().is_some_and(|def| def.unique))
        };
        let keys = unique().flat_map(|(_, (info, change))| {
            change.add.iter().chain(change.remove.iter()).map(|key| Intent::key(info.def.name(), key))
        });
        let wanted = row.map(Intent::row).into_iter().chain(keys);
        match self.claims.claim(namespace, wanted, self.reads.txn()) {
            Ok(claimed) => *self.bytes += claimed * CLAIM_BYTES,
            Err(winner) => {
                *self.lost_to = Some((winner, namespace.clone()));
                return Err(conflict(namespace));
            }
        }
        // What others have committed before this claim.
        let Some(meta) = &self.overlay.base else { return Ok(()) };
        let now = self.db.inner.store.snapshot()?;
        if now.txn() == self.reads.txn() {
            return Ok(());
        }
        let lost = || Err(conflict(namespace));
        if let Some(row) = row {
            let current = match now.row(&meta.rows, row.0) {
                // The collection was dropped.
                Err(crate::Error::NoSuchTable { .. }) => return lost(),
                current => current?,
            };
            if current != self.reads.row(&meta.rows, row.0)? {
                return lost();
            }
        }
        for (number, (_, change)) in unique() {
            let Some(index) = meta.indexes.get(number) else { continue };
            for key in change.add.iter() {
                let before = by_kind!(&index.def, kind => kind.holder(self.reads, &index.table, key))?;
                match by_kind!(&index.def, kind => kind.holder(&now, &index.table, key)) {
                    Ok(holder) if holder == before => {}
                    Ok(_) => return lost(),
                    // The index was dropped.
                    Err(error) if error.source.as_deref().is_some_and(is_no_table) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

fn is_no_table(error: &crate::Error) -> bool {
    matches!(error, crate::Error::NoSuchTable { .. })
}

impl Sink for TransactionSink<'_> {
    fn read(&self, read: &mut ReadWritten<'_>) -> Result<()> {
        let layer = self.layer();
        read(&layer, &layer.context())
    }

    fn insert(&mut self, doc: &RawDocument) -> Result<RowId> {
        check_document(self.validator(), None, doc)?;
        let defs = self.overlay.infos.iter().map(|info| &*info.def);
        let versions = Versions { namespace: &self.overlay.namespace, row: None, old: None, new: Some(doc) };
        let changes = index_changes(defs, &versions, &|index, key| self.holder(index, key))?;
        self.claim(None, &changes)?;
        let row = self.overlay.new_row();
        let entries = self.overlay.apply(row, changes);
        self.overlay.rows.insert(row.0, Some(doc.to_owned()));
        self.overlay.row_delta += 1;
        self.push_op(entries + 2 * doc.as_bytes().len(), Op::Insert(row, doc.to_owned()))?;
        Ok(row)
    }

    fn modify(&mut self, id: RowId, change: &mut dyn FnMut(&RawDocument) -> Result<Change>) -> Result<bool> {
        let mut old: Option<RawDocumentBuf> = None;
        self.layer().fetch(id, &mut |document| {
            old = Some(document.to_owned());
            Ok(())
        })?;
        let Some(old) = old else { return Ok(false) };
        let change = change(&old)?;
        let whole = matches!(change, Change::Replace(_));
        let new = match change {
            Change::Keep => return Ok(true),
            Change::Replace(new) | Change::Update(new) => Some(new),
            Change::Delete => None,
        };
        if let Some(new) = &new {
            check_document(self.validator(), Some(&old), new)?;
        }
        let defs = self.overlay.infos.iter().map(|info| &*info.def);
        let versions = Versions {
            namespace: &self.overlay.namespace,
            row: Some(id),
            old: Some(&old),
            new: new.as_deref(),
        };
        let changes = index_changes(defs, &versions, &|index, key| self.holder(index, key))?;
        self.claim(Some(id), &changes)?;
        let entries = self.overlay.apply(id, changes);
        self.overlay.rows.insert(id.0, new.clone());
        match new {
            Some(new) => {
                self.push_op(
                    entries + 2 * new.as_bytes().len(),
                    Op::Replace { row: id, document: new, whole },
                )?;
            }
            None => {
                self.overlay.row_delta -= 1;
                self.push_op(entries, Op::Delete(id))?;
            }
        }
        Ok(true)
    }
}
