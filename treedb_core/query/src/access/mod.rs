//! What queries need of a place where rows live.
//!
//! Two owners implement these traits: the native [`crate::collection`] and, in the Postgres extension, a table with
//! its indexes. A filter, an update operator or a pipeline stage is written once over them.
//!
//! * [`Source`] reads: one snapshot of one collection. Rows are *lent* to a callback (`&RawDocument` straight from
//!   the page, or from a buffer the owner decodes into), so nothing is copied that the query does not keep. A walk
//!   can be stopped by the callback and taken up again later from the last position it was shown: that is how a
//!   cursor with batches is built without holding borrows between the batches.
//!   Whoever needs only some fields, or may reject a row by some of them, takes the row as a [`Row`]: an owner that
//!   decodes rows then decodes no more than was asked for.
//! * [`Sink`] writes: insert, and [`Sink::modify`], which replaces or deletes one row after looking at its *current*
//!   version under whatever lock the owner has.
//!
//! An index is addressed by its position in [`Source::indexes`]. The key bytes of an entry are those of
//! [`crate::index::ordered::IndexDef::keys`]: memcmp order is the index's order, directions included. The planner
//! turns conditions into [`KeyRange`]s over those bytes; it always applies the whole filter again to the fetched
//! row, so an owner may yield *more* entries than the range holds (a lossy or coarser index), never fewer.

mod context;
mod plan_cache;

use std::ops::ControlFlow;

use bson::{RawDocument, RawDocumentBuf};

use crate::doc::{Doc, FieldPeek, Fields};
use crate::error::Result;
use crate::index::ordered::{IndexDef, Kind};

pub use context::{QueryContext, TempFile, TempFiles};
pub use plan_cache::{CachedPlan, PlanCache};

/// The address of a row in its collection: dense numbers natively, a TID in Postgres.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(pub u64);

/// An index a query may use.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexInfo {
    /// Name, key pattern, uniqueness.
    pub def: IndexDef,
    /// True if a row may have more than one entry (some row has, or had, an array on one of the index's paths).
    /// When in doubt: true, it is only slower. Wrongly false gives wrong answers.
    pub multikey: bool,
    /// True if entries come in exactly the order of their key bytes and can give a query its order. An index over
    /// shortened or hashed keys says false: it can still find.
    pub ordered: bool,
}

impl IndexInfo {
    /// An index whose entries come in the order of `def`.
    pub fn new(def: IndexDef, multikey: bool) -> Self {
        let ordered = !matches!(def.options.kind, Kind::Hashed(_));
        IndexInfo { def, multikey, ordered }
    }
}

/// A range of entry keys, compared bytewise with an entry's key (row id not included):
/// `low <= key`, and `key < high` where there is a `high`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyRange {
    /// The least key of the range; empty for no limit.
    pub low: Vec<u8>,
    /// The least key above the range; `None` for no limit.
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

    /// True if `key` lies in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.low.as_slice() <= key && self.high.as_deref().is_none_or(|high| key < high)
    }
}

/// The least byte string above every string that starts with `prefix`; `None` if there is none (all 0xFF).
pub fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let keep = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut next = prefix.get(..=keep)?.to_vec();
    *next.last_mut()? += 1;
    Some(next)
}

/// Which way a walk goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the least key or row id up.
    Forward,
    /// From the greatest down.
    Backward,
}

/// Whether a walk goes on: what its callback returns.
pub type Flow = ControlFlow<()>;

/// What a scan shows: each row, with its address.
pub type VisitRow<'a> = dyn FnMut(RowId, &RawDocument) -> Result<Flow> + 'a;

/// A row that is lent before it is decoded.
pub trait Row {
    /// The document.
    ///
    /// # Errors
    /// Those of a damaged row.
    fn document(&mut self) -> Result<&RawDocument>;

    /// The document, where fields that are not in `fields` may be missing.
    ///
    /// # Errors
    /// Those of a damaged row; damage in fields that were not asked for may go unseen.
    fn partial_document(&mut self, fields: &Fields) -> Result<&RawDocument>;

    /// The only one of `fields`, where it can be read without decoding anything.
    ///
    /// # Errors
    /// Those of a damaged row; damage elsewhere may go unseen.
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

/// What a scan of rows shows: each row, with its address, not decoded.
pub type VisitLazyRow<'a> = dyn FnMut(RowId, &mut dyn Row) -> Result<Flow> + 'a;

/// What an index walk shows: each entry's row and key bytes.
pub type VisitEntry<'a> = dyn FnMut(RowId, &[u8]) -> Result<Flow> + 'a;

/// What an index walk shows with the entries' marks: row, key bytes, marks.
pub type VisitTypedEntry<'a> = dyn FnMut(RowId, &[u8], &[u8]) -> Result<Flow> + 'a;

/// One snapshot of one collection, for reading.
pub trait Source {
    /// The indexes a query may use; the position in this slice addresses the index below. It does not change
    /// while the source lives.
    fn indexes(&self) -> &[IndexInfo];

    /// Lends the row at `id` to `visit` and returns true; returns false, without a call, if the snapshot has none
    /// there (an index of Postgres may lead to rows that are not visible).
    fn fetch(&self, id: RowId, visit: &mut dyn FnMut(&RawDocument) -> Result<()>) -> Result<bool>;

    /// Lends every row after `after` (all of them for `None`) in the order of their ids (`direction`), until `visit`
    /// says stop or returns an error, which is handed on. With [`Direction::Backward`], "after" means smaller ids.
    fn scan(&self, direction: Direction, after: Option<RowId>, visit: &mut VisitRow<'_>) -> Result<()>;

    /// [`Source::fetch`], of as much of the row as `visit` asks for.
    fn fetch_row(&self, id: RowId, visit: &mut dyn FnMut(&mut dyn Row) -> Result<()>) -> Result<bool> {
        self.fetch(id, &mut |mut document| visit(&mut document))
    }

    /// [`Source::scan`], of as much of each row as `visit` asks for.
    fn scan_rows(
        &self,
        direction: Direction,
        after: Option<RowId>,
        visit: &mut VisitLazyRow<'_>,
    ) -> Result<()> {
        self.scan(direction, after, &mut |id, mut document| visit(id, &mut document))
    }

    /// Walks the entries of index number `index` whose keys lie in `range`, in key order (`direction`; entries of equal
    /// keys by row id), until `visit` says stop or returns an error, which is handed on. With `after`, the walk
    /// begins behind that entry: the key bytes and row it was shown last.
    ///
    /// A row with several entries (multikey) is shown once for each.
    fn index_range(
        &self,
        index: usize,
        range: &KeyRange,
        direction: Direction,
        after: Option<(&[u8], RowId)>,
        visit: &mut VisitEntry<'_>,
    ) -> Result<()>;

    /// [`Source::index_range`], showing with each entry the marks that its owner stored with it
    /// ([`IndexDef::type_bits`]); none where it does not store them.
    fn index_range_typed(
        &self,
        index: usize,
        range: &KeyRange,
        direction: Direction,
        after: Option<(&[u8], RowId)>,
        visit: &mut VisitTypedEntry<'_>,
    ) -> Result<()> {
        self.index_range(index, range, direction, after, &mut |row, key| visit(row, key, &[]))
    }

    /// Rows in the snapshot: exact or a good estimate; only the choice of a plan rests on it.
    fn estimated_rows(&self) -> u64;

    /// How many rows the snapshot has, if that is known without counting.
    fn known_rows(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// About how many entries of index number `index` lie in `range`; `None` if that takes a walk. Only the choice
    /// of a plan rests on it.
    fn estimate(&self, _index: usize, _range: &KeyRange) -> Option<u64> {
        None
    }

    /// True if a walk shows just the entries that are in the range and belong to rows of the snapshot: then an entry
    /// can answer for its row. Where in doubt: false, and every row is fetched.
    fn entries_are_exact(&self) -> bool {
        false
    }
}

/// What to do with a row that [`Sink::modify`] showed.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Leave it.
    Keep,
    /// Store this document in its place: the request replaced the whole document. It has the same `_id`.
    Replace(RawDocumentBuf),
    /// Store this document in its place: the request changed some of its fields. It has the same `_id`. An owner that
    /// keeps a log of changes records the two kinds differently.
    Update(RawDocumentBuf),
    /// Delete it.
    Delete,
}

/// Reads a collection that is being written: see [`Sink::read`].
pub type ReadWritten<'a> = dyn FnMut(&dyn Source, &QueryContext<'_>) -> Result<()> + 'a;

/// A collection being written.
///
/// Each call is all or nothing: when it returns an error, the row and every index are as they were. A key that a
/// unique index has already is [`crate::error::ErrorCode::DuplicateKey`] with
/// [`crate::error::QueryError::duplicate`] filled in.
pub trait Sink {
    /// Calls `read` once with the collection as the writes so far have made it.
    ///
    /// # Errors
    /// Those of `read`.
    fn read(&self, read: &mut ReadWritten<'_>) -> Result<()>;

    /// Inserts `doc`, which is valid BSON with an `_id` first.
    fn insert(&mut self, doc: &RawDocument) -> Result<RowId>;

    /// Inserts all of `docs`, each as [`Sink::insert`] wants it, and returns true. An owner that has no quicker way than
    /// one by one, or finds that one of them would be refused, changes nothing and returns false.
    fn insert_all(&mut self, _docs: &[&RawDocument]) -> Result<bool> {
        Ok(false)
    }

    /// Shows the current version of the row at `id` to `change` and carries out what it returns. False if there is
    /// no such row (any more). Where others may have changed the row since the snapshot, the owner locks it and
    /// shows the newest version; `change` checks its conditions again.
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
