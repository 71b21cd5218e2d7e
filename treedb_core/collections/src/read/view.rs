//! A collection in a snapshot, as the query layer's [`Source`], over any transaction of the store.
//!
//! An entry of a non-unique index has the key `key ++ row id` (8 bytes, big endian, so that equal keys are ordered by row id) and
//! the type bits as its value. An entry of a unique index has the key `key`, and as its value the row id, 8 bytes big endian,
//! and the type bits ([`treedb_query::index::ordered::IndexDef::type_bits`], possibly none). Encoded keys are self-delimiting, so
//! appending the row id keeps their order. Long keys are stored shortened ([`crate::read::long_key`]); scans return whole keys.

use std::borrow::Cow;

use bson::RawDocument;

use treedb_query::access::{
    Direction, Flow, IndexInfo, KeyRange, QueryContext, Row, RowId, Source, TempFile, TempFiles, VisitEntry,
    VisitLazyRow, VisitRow, VisitTypedEntry, after_prefix,
};
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_storage::{Cursor, Reads};

use crate::catalog::meta::{IndexMeta, Meta};
use crate::read::long_key::{StoredRange, shared_prefix, stored};
use crate::write::row::{LazyRow, with_scratch};

/// A collection as one transaction sees it.
pub(crate) struct View<'a, R> {
    pub(crate) reads: &'a R,
    pub(crate) meta: &'a Meta,
}

/// The stored key and value of the entry of `row` under `key`.
pub(crate) fn entry(unique: bool, key: &[u8], row: RowId, type_bits: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut out = Vec::with_capacity(key.len() + 8 + type_bits.len());
    let end = append_entry(unique, &stored(key), row, type_bits, &mut out);
    let value = out.split_off(end);
    (out, value)
}

/// Appends the entry of `row` under the stored `key` to `out`: key, row, type bits. The row is the end of the entry's key or,
/// in a unique index, the beginning of its value. Returns where the value begins.
pub(crate) fn append_entry(
    unique: bool,
    key: &[u8],
    row: RowId,
    type_bits: &[u8],
    out: &mut Vec<u8>,
) -> usize {
    out.extend_from_slice(key);
    let before = out.len();
    out.extend_from_slice(&row.0.to_be_bytes());
    let end = if unique { before } else { out.len() };
    out.extend_from_slice(type_bits);
    end
}

/// The type bits in the value of an entry.
pub(crate) fn type_bits_of(unique: bool, value: &[u8]) -> &[u8] {
    if unique { value.get(8..).unwrap_or_default() } else { value }
}

/// The stored key and the row of an entry.
pub(crate) fn split_entry<'e>(index: &IndexMeta, key: &'e [u8], value: &[u8]) -> Result<(&'e [u8], RowId)> {
    let parts = if index.def.unique {
        value.first_chunk::<8>().map(|id| (key, id))
    } else {
        key.split_last_chunk::<8>()
    };
    match parts {
        Some((key, id)) => Ok((key, RowId(u64::from_be_bytes(*id)))),
        None => Err(QueryError::new(
            ErrorCode::InternalError,
            format!("index {} has an entry without a row id: drop it and create it again", index.def.name),
        )),
    }
}

impl<'a, R: Reads> View<'a, R> {
    /// The document of the row `id`, borrowed if the collection stores plain BSON.
    pub(crate) fn document(&self, id: RowId) -> Result<Option<Cow<'a, RawDocument>>> {
        self.reads.row(&self.meta.rows, id.0)?.map(|row| self.meta.decode_row(row)).transpose()
    }

    /// Scans the entries of `index`, which may be one that is being built.
    pub(crate) fn walk(
        &self,
        index: &IndexMeta,
        range: &KeyRange,
        direction: Direction,
        after: Option<(&[u8], RowId)>,
        visit: &mut VisitTypedEntry<'_>,
    ) -> Result<()> {
        let stored = StoredRange::of(&index.def, range);
        let (low, high) = (&*stored.low, stored.high.as_deref());
        let mut cursor = self.reads.cursor(&index.table)?;
        let mut on = match after {
            // The stored order does not tell which entries come after it.
            Some((key, _))
                if stored.single.is_none()
                    && let Some(prefix) = shared_prefix(key) =>
            {
                match direction {
                    Direction::Forward => cursor.seek(prefix)?,
                    Direction::Backward => seek_before(&mut cursor, after_prefix(prefix).as_deref())?,
                }
            }
            Some((key, row)) => {
                let last = entry(index.def.unique, key, row, &[]).0;
                match direction {
                    Direction::Forward => cursor.seek(&last)? && skip_key(&mut cursor, direction, &last)?,
                    Direction::Backward => seek_before(&mut cursor, Some(&last))?,
                }
            }
            None => match direction {
                Direction::Forward => cursor.seek(low)?,
                Direction::Backward => seek_before(&mut cursor, high)?,
            },
        };
        while on {
            let Some((key, value)) = cursor.entry()? else { return Ok(()) };
            let past = match direction {
                Direction::Forward => high.is_some_and(|high| key >= high),
                Direction::Backward => key < low,
            };
            if past {
                return Ok(());
            }
            let (key, row) = split_entry(index, key, value)?;
            let shown = match &stored.single {
                Some((only, stored)) if key == &**stored => Some(*only),
                Some(_) => None,
                None => {
                    if let Some(prefix) = shared_prefix(key) {
                        let prefix = prefix.to_vec();
                        if self.walk_shared_prefix(index, &prefix, range, direction, after, visit)?
                            == Flow::Break(())
                        {
                            return Ok(());
                        }
                        on = match (direction, after_prefix(&prefix)) {
                            (Direction::Forward, Some(next)) => cursor.seek(&next)?,
                            (Direction::Forward, None) => false,
                            (Direction::Backward, _) => seek_before(&mut cursor, Some(&prefix))?,
                        };
                        continue;
                    }
                    Some(key).filter(|key| !stored.is_wider || range.contains(key))
                }
            };
            if let Some(key) = shown
                && visit(row, key, type_bits_of(index.def.unique, value))? == Flow::Break(())
            {
                return Ok(());
            }
            on = match direction {
                Direction::Forward => cursor.next()?,
                Direction::Backward => cursor.prev()?,
            };
        }
        Ok(())
    }
}

/// Moves to the last entry before `key`, or to the last of all for `None`.
fn seek_before(cursor: &mut Cursor<'_>, key: Option<&[u8]>) -> treedb_storage::Result<bool> {
    match key {
        Some(key) => Ok(cursor.seek_back(key)? && skip_key(cursor, Direction::Backward, key)?),
        None => cursor.last(),
    }
}

/// Moves past `key` if the cursor is at it; false if there is no further entry.
fn skip_key(cursor: &mut Cursor<'_>, direction: Direction, key: &[u8]) -> treedb_storage::Result<bool> {
    if cursor.key()? != Some(key) {
        return Ok(true);
    }
    Ok(match direction {
        Direction::Forward => cursor.next()?,
        Direction::Backward => cursor.prev()?,
    })
}

impl<R: Reads> View<'_, R> {
    /// What queries of the collection need beside its rows.
    pub(crate) fn context(&self) -> QueryContext<'_> {
        QueryContext {
            collation: &self.meta.collation,
            temp_files: Some(self),
            plan_cache: Some(&self.meta.plans),
        }
    }
}

impl<R: Reads> TempFiles for View<'_, R> {
    fn create(&self) -> Result<Option<Box<dyn TempFile>>> {
        Ok(self.reads.scratch()?.map(|file| Box::new(file) as Box<dyn TempFile>))
    }
}

impl<R: Reads> Source for View<'_, R> {
    fn indexes(&self) -> &[IndexInfo] {
        &self.meta.infos
    }

    fn fetch(&self, id: RowId, visit: &mut dyn FnMut(&RawDocument) -> Result<()>) -> Result<bool> {
        self.fetch_row(id, &mut |row| visit(row.document()?))
    }

    fn fetch_row(&self, id: RowId, visit: &mut dyn FnMut(&mut dyn Row) -> Result<()>) -> Result<bool> {
        with_scratch(|scratch| {
            let mut visited = Ok(());
            let there = self.reads.visit_row(&self.meta.rows, id.0, &mut |row| {
                visited = visit(&mut LazyRow { meta: self.meta, row, scratch });
            })?;
            visited.map(|()| there)
        })
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
        let from = match (direction, after) {
            (Direction::Forward, Some(RowId(last))) => match last.checked_add(1) {
                Some(next) => next,
                None => return Ok(()),
            },
            _ => 0,
        };
        let mut rows = self.reads.rows(&self.meta.rows, from)?;
        with_scratch(|scratch| {
            loop {
                let next = match direction {
                    Direction::Forward => rows.lend_next()?,
                    Direction::Backward => rows.lend_next_back()?,
                };
                let Some((id, row)) = next else { return Ok(()) };
                if direction == Direction::Backward && after.is_some_and(|RowId(last)| id >= last) {
                    continue;
                }
                if visit(RowId(id), &mut LazyRow { meta: self.meta, row, scratch })? == Flow::Break(()) {
                    return Ok(());
                }
            }
        })
    }

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

    fn index_range_typed(
        &self,
        index: usize,
        range: &KeyRange,
        direction: Direction,
        after: Option<(&[u8], RowId)>,
        visit: &mut VisitTypedEntry<'_>,
    ) -> Result<()> {
        match self.meta.indexes.get(index) {
            Some(index) => self.walk(index, range, direction, after, visit),
            None => Err(QueryError::new(ErrorCode::IndexNotFound, format!("no index number {index}"))),
        }
    }

    fn estimated_rows(&self) -> u64 {
        self.reads.len(&self.meta.rows).unwrap_or(0)
    }

    fn known_rows(&self) -> Result<Option<u64>> {
        Ok(Some(self.reads.len(&self.meta.rows)?))
    }

    fn estimate(&self, index: usize, range: &KeyRange) -> Option<u64> {
        let index = self.meta.indexes.get(index)?;
        self.reads.estimate(&index.table, StoredRange::of(&index.def, range).bounds()).ok()
    }

    fn entries_are_exact(&self) -> bool {
        true
    }
}
