//! The traits between queries and the storage of rows.
//!
//! They have two implementations: the native collections of `treedb_core` and, in the Postgres extension, a
//! table with its indexes. Filters, update operators and pipeline stages are written once over these traits.
//!
//! * [`Source`] reads one snapshot of one collection. Rows are passed to a callback by reference (`&RawDocument`,
//!   directly from the page or from a buffer into which the row is decoded), so only what the query keeps is copied.
//!   The callback can stop a scan, and a later call resumes it after the last position: a cursor borrows nothing between
//!   batches. A query that needs only some fields, or can reject a row by them, takes the row as a [`Row`]: if rows have
//!   to be decoded, then only the requested fields are.
//! * [`Sink`] writes: it inserts rows, and [`Sink::modify`] replaces or deletes one row, given its *current* version
//!   under a lock.
//! * [`statistics::PathStatistics`] tell how values are distributed, where they have been collected.
//! * [`QueryContext`] is what a query needs besides the rows: default collation, temporary files, plan cache.
//!
//! An index is addressed by its position in [`Source::indexes`], and asked by a [`Probe`]. The key bytes of an entry of an
//! ordered index are those of
//! [`crate::index::ordered::IndexDef::keys`]: memcmp order is the order of the index, directions included. The planner
//! turns conditions into [`KeyRange`]s over those bytes and applies the whole filter again to every fetched row, so an
//! implementation may return *more* entries than the range contains (a lossy or coarser index), never fewer.

mod context;
mod index_use;
mod plan_cache;
mod probe;
pub mod statistics;

use std::ops::ControlFlow;
use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};

use crate::doc::{Doc, FieldPeek, Fields, Path};
use crate::error::Result;
use crate::geo::Grid;
use crate::index::Definition;
use crate::index::ordered::{IndexDef, Kind};

pub use treedb_formats::key::after_prefix;

pub use context::{QueryContext, TempFile, TempFiles};
pub use index_use::IndexUse;
pub use plan_cache::{CachedPlan, PlanCache};
pub use probe::{
    Among, Compared, Comparisons, Probe, VisitEntry, VisitNearest, VisitRowId, VisitRowIds, VisitTypedEntry,
};
use statistics::PathStatistics;

/// The address of a row in its collection: dense numbers natively, a TID in Postgres.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(pub u64);

/// An index that a query may use.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexInfo {
    /// What it is an index of; shared, as every query is given it.
    pub def: Arc<Definition>,
    /// True if a row may have more than one entry (some row has, or had, an array on one of the index's paths).
    /// When in doubt: true, which is only slower; a wrong false gives wrong answers.
    pub multikey: bool,
    /// True if entries are in exactly the order of their key bytes, so that a scan can replace a sort. False
    /// for an index over shortened or hashed keys or cells, which can still be searched, and for kinds without an order.
    pub ordered: bool,
    /// How often it was used.
    pub uses: Arc<IndexUse>,
}

impl IndexInfo {
    /// An index whose entries are in the order of `def`.
    pub fn new(def: impl Into<Definition>, multikey: bool) -> Self {
        IndexInfo::shared(Arc::new(def.into()), multikey)
    }

    /// The same of a definition that others have too.
    pub fn shared(def: Arc<Definition>, multikey: bool) -> Self {
        let ordered =
            def.as_ordered().is_some_and(|def| !matches!(def.options.kind, Kind::Hashed(_) | Kind::Geo(_)));
        IndexInfo { def, multikey, ordered, uses: Arc::default() }
    }

    /// The fields of locations by which it may find documents in the order of their distance, each with what its cells are cells of.
    pub fn locations(&self) -> impl Iterator<Item = (Path, Grid)> {
        let visible = self.def.as_ordered().filter(|def| !def.options.hidden);
        let locations = visible.into_iter().flat_map(IndexDef::locations);
        locations.map(|(path, grid)| (path.clone(), grid))
    }
}

/// A range of entry keys, compared bytewise with an entry's key (row id not included):
/// `low <= key`, and `key < high` where there is a `high`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyRange {
    /// The smallest key of the range; empty if there is no limit.
    pub low: Vec<u8>,
    /// The smallest key above the range; `None` if there is no limit.
    pub high: Option<Vec<u8>>,
}

impl KeyRange {
    /// Every entry of the index.
    pub const ALL: KeyRange = KeyRange { low: Vec::new(), high: None };

    /// Every key that starts with `prefix`. Encoded values delimit themselves, so with the encodings of the first
    /// fields of an index as `prefix` these are exactly the entries with those values.
    pub fn prefix(prefix: Vec<u8>) -> Self {
        let high = after_prefix(&prefix);
        KeyRange { low: prefix, high }
    }

    /// True if `key` is in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.low.as_slice() <= key && self.high.as_deref().is_none_or(|high| key < high)
    }
}

/// The direction of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Ascending keys or row ids.
    Forward,
    /// Descending keys or row ids.
    Backward,
}

/// Whether a scan continues: the result of its callback.
pub type Flow = ControlFlow<()>;

/// The callback of a scan: id and document of each row.
pub type VisitRow<'a> = dyn FnMut(RowId, &RawDocument) -> Result<Flow> + 'a;

/// A row that has not been decoded yet.
pub trait Row {
    /// The document.
    ///
    /// # Errors
    /// Those of a damaged row.
    fn document(&mut self) -> Result<&RawDocument>;

    /// The document with at least the fields in `fields`; others may be missing.
    ///
    /// # Errors
    /// Those of a damaged row; damage in other fields may go unnoticed.
    fn partial_document(&mut self, fields: &Fields) -> Result<&RawDocument>;

    /// The document, for the caller to keep.
    ///
    /// # Errors
    /// Those of [`Row::document`].
    fn owned_document(&mut self) -> Result<RawDocumentBuf> {
        self.document().map(RawDocument::to_owned)
    }

    /// The value of the only field in `fields`, if it can be read without decoding the row.
    ///
    /// # Errors
    /// Those of a damaged row; damage elsewhere may go unnoticed.
    fn peek(&mut self, fields: &Fields) -> Result<FieldPeek<'_>> {
        let _ = fields;
        Ok(FieldPeek::Unknown)
    }
}

/// A row that is a document already.
impl Row for &RawDocument {
    fn document(&mut self) -> Result<&RawDocument> {
        Ok(self)
    }

    fn partial_document(&mut self, _: &Fields) -> Result<&RawDocument> {
        Ok(self)
    }

    fn peek(&mut self, fields: &Fields) -> Result<FieldPeek<'_>> {
        Ok(FieldPeek::at(Doc::from(*self), fields))
    }
}

/// The callback of a scan that decodes rows on demand.
pub type VisitLazyRow<'a> = dyn FnMut(RowId, &mut dyn Row) -> Result<Flow> + 'a;

/// One snapshot of one collection, for reading.
pub trait Source {
    /// The indexes a query may use; the position in this slice addresses the index below. Positions do not
    /// change while the source lives; an owner may add indexes between two queries.
    fn indexes(&self) -> &[IndexInfo];

    /// Calls `visit` with the row at `id` and returns true; returns false, without a call, if the row is not
    /// in the snapshot (an index of Postgres may have entries of rows that are not visible).
    fn fetch(&self, id: RowId, visit: &mut dyn FnMut(&RawDocument) -> Result<()>) -> Result<bool>;

    /// Calls `visit` with every row after `after` (all of them for `None`) in the order of their ids
    /// (`direction`), until `visit` breaks or fails; its error is returned. With [`Direction::Backward`],
    /// "after" means smaller ids.
    fn scan(&self, direction: Direction, after: Option<RowId>, visit: &mut VisitRow<'_>) -> Result<()>;

    /// [`Source::fetch`], decoding only the fields of the row that `visit` requests.
    fn fetch_row(&self, id: RowId, visit: &mut dyn FnMut(&mut dyn Row) -> Result<()>) -> Result<bool> {
        self.fetch(id, &mut |mut document| visit(&mut document))
    }

    /// [`Source::fetch_row`] of some rows, in their order, until `visit` breaks or fails. It is told the place of each among them; those that
    /// are not in the snapshot are left out.
    ///
    /// # Errors
    /// As there.
    fn fetch_rows(
        &self,
        ids: &mut dyn Iterator<Item = RowId>,
        visit: &mut dyn FnMut(usize, &mut dyn Row) -> Result<Flow>,
    ) -> Result<()> {
        let (mut flow, mut ids) = (Flow::Continue(()), ids.enumerate());
        while flow == Flow::Continue(())
            && let Some((place, id)) = ids.next()
        {
            self.fetch_row(id, &mut |row| {
                flow = visit(place, row)?;
                Ok(())
            })?;
        }
        Ok(())
    }

    /// [`Source::scan`], decoding only the fields of each row that `visit` requests.
    fn scan_rows(
        &self,
        direction: Direction,
        after: Option<RowId>,
        visit: &mut VisitLazyRow<'_>,
    ) -> Result<()> {
        self.scan(direction, after, &mut |id, mut document| visit(id, &mut document))
    }

    /// Asks index number `index`, and tells the probe's callback of each row found, until it breaks or fails; its
    /// error is returned. See [`Probe`].
    ///
    /// # Errors
    /// [`Probe::refused`] if the index does not answer probes of this kind.
    fn walk(&self, index: usize, probe: Probe<'_>) -> Result<()>;

    /// Tells `visit` how far the nearest of some rows are from a vector, in any order, until it fails: at least as many as are wanted, of the
    /// rows that vector index number `index` has. Returns `None`, without a call, if only their documents can tell: that depends on whether
    /// [`Among::ef`] is given, and not on the rows. The vector is one that could be in the index.
    ///
    /// # Errors
    /// Those of a damaged index and of `visit`.
    fn nearest_among(
        &self,
        index: usize,
        vector: &[f32],
        among: &Among<'_>,
        visit: &mut dyn FnMut(RowId, f32) -> Result<()>,
    ) -> Result<Option<Compared>> {
        let _ = (index, vector, among, visit);
        Ok(None)
    }

    /// [`Source::walk`] with [`Probe::Range`], without the type bits.
    fn index_range(
        &self,
        index: usize,
        range: &KeyRange,
        direction: Direction,
        after: Option<(&[u8], RowId)>,
        visit: &mut VisitEntry<'_>,
    ) -> Result<()> {
        self.index_range_typed(index, range, direction, after, &mut |row, key, _| visit(row, key))
    }

    /// [`Source::walk`] with [`Probe::Range`].
    fn index_range_typed(
        &self,
        index: usize,
        range: &KeyRange,
        direction: Direction,
        after: Option<(&[u8], RowId)>,
        visit: &mut VisitTypedEntry<'_>,
    ) -> Result<()> {
        self.walk(index, Probe::Range { range, direction, after, visit })
    }

    /// [`Source::index_range`] without keys. If `visit` breaks, the key of the entry at which it did is returned.
    fn index_rows(
        &self,
        index: usize,
        range: &KeyRange,
        direction: Direction,
        after: Option<(&[u8], RowId)>,
        visit: &mut VisitRowId<'_>,
    ) -> Result<Option<Vec<u8>>> {
        let mut last = None;
        self.index_range_typed(index, range, direction, after, &mut |row, key, _| {
            let flow = visit(row)?;
            if flow.is_break() {
                last = Some(key.to_vec());
            }
            Ok(flow)
        })?;
        Ok(last)
    }

    /// [`Source::index_rows`] forward: `visit` gets the rows of as many entries as are at hand.
    fn index_row_batches(&self, index: usize, range: &KeyRange, visit: &mut VisitRowIds<'_>) -> Result<()> {
        self.index_rows(index, range, Direction::Forward, None, &mut |row| visit(&[row])).map(drop)
    }

    /// Number of rows in the snapshot, exact or a good estimate: only the choice of a plan depends on it.
    fn estimated_rows(&self) -> u64;

    /// Exact number of rows in the snapshot, if it is known without counting.
    fn known_rows(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Estimated number of entries of index number `index` in `range`; `None` if a scan would be needed. Only
    /// the choice of a plan depends on it.
    fn estimate(&self, _index: usize, _range: &KeyRange) -> Option<u64> {
        None
    }

    /// How the values at a path are distributed, if that is known. Only estimates depend on it.
    fn statistics(&self, _path: &str) -> Option<PathStatistics> {
        None
    }

    /// True if a scan visits exactly the entries that are in the range and belong to rows of the snapshot, so
    /// that a query can rely on an entry without fetching its row. When in doubt: false.
    fn entries_are_exact(&self) -> bool {
        false
    }

    /// True if a scan of index number `index` visits only entries that are in the range, and a row that
    /// [`Source::fetch`] shows has the key of the entry that led to it: then conditions that the key decides need
    /// not be evaluated again on the document. When in doubt: false.
    fn keys_decide(&self, _index: usize) -> bool {
        self.entries_are_exact()
    }

    /// True if, where [`Source::keys_decide`], a scan of index number `index` tells the type bits of values, so that documents can
    /// be built of its entries. Whether the snapshot shows their rows is [`Source::shows`] to say, unless entries are exact.
    fn keys_have_types(&self, _index: usize) -> bool {
        self.entries_are_exact()
    }

    /// Whether the row at `id` is in the snapshot. Called while [`Source::walk`], or a method like it, shows an entry of it.
    ///
    /// # Errors
    /// Those of [`Source::fetch`].
    fn shows(&self, id: RowId) -> Result<bool> {
        self.fetch(id, &mut |_| Ok(()))
    }
}

/// The change of a row by [`Sink::modify`].
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Leave the row as it is.
    Keep,
    /// Store this document in its place: the request replaced the whole document. It has the same `_id`.
    Replace(RawDocumentBuf),
    /// Store this document in its place: the request changed some of its fields. It has the same `_id`. A log
    /// of changes records the two kinds differently.
    Update(RawDocumentBuf),
    /// Delete the row.
    Delete,
}

/// Reads a collection that is being written: see [`Sink::read`].
pub type ReadWritten<'a> = dyn FnMut(&dyn Source, &QueryContext<'_>) -> Result<()> + 'a;

/// A collection being written.
///
/// Each call is all or nothing: when it returns an error, the row and every index are as they were. A key that a
/// unique index already has is [`crate::error::ErrorCode::DuplicateKey`] with
/// [`crate::error::QueryError::duplicate`] filled in.
pub trait Sink {
    /// Calls `read` once with the collection as the writes so far have made it.
    ///
    /// # Errors
    /// Those of `read`.
    fn read(&self, read: &mut ReadWritten<'_>) -> Result<()>;

    /// Inserts `doc`, which is valid BSON with an `_id` first.
    fn insert(&mut self, doc: &RawDocument) -> Result<RowId>;

    /// Inserts all of `docs`, each valid as for [`Sink::insert`], and returns true. If it has no
    /// faster way than one by one, or one of them would be refused, it changes nothing and returns false.
    fn insert_all(&mut self, _docs: &[&RawDocument]) -> Result<bool> {
        Ok(false)
    }

    /// Calls `change` with the current version of the row at `id` and applies the result. False if the row
    /// does not exist (any more). If others may have changed the row since the snapshot, the newest version
    /// is passed, for which `change` checks its conditions again: it may be called more than once, and what
    /// it returns the last time counts.
    fn modify(&mut self, id: RowId, change: &mut dyn FnMut(&RawDocument) -> Result<Change>) -> Result<bool>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_range_holds_every_key_with_the_prefix_and_no_other() {
        let range = KeyRange::prefix(vec![1, 0xff]);
        assert_eq!(range.high, Some(vec![2]));
        assert!(range.contains(&[1, 0xff]) && range.contains(&[1, 0xff, 0xff, 7]));
        assert!(!range.contains(&[1, 0xfe]) && !range.contains(&[2]));
        assert_eq!(KeyRange::prefix(vec![0xff]).high, None);
        assert_eq!(KeyRange::prefix(Vec::new()), KeyRange::ALL);
    }
}
