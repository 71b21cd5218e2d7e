//! A collection in a snapshot, as the query layer's [`Source`], over any transaction of the store.

use std::borrow::Cow;

use bson::RawDocument;

use treedb_query::access::{
    Among, Compared, Direction, Flow, IndexInfo, KeyRange, Probe, QueryContext, Row, RowId, Source, TempFile,
    TempFiles, VisitLazyRow, VisitRow,
};
use treedb_query::error::Result;
use treedb_storage::Reads;

use crate::catalog::meta::Meta;
use crate::index::{IndexKind, by_kind};
use crate::write::row::{LazyRow, with_scratch};

/// A collection as one transaction sees it.
pub(crate) struct View<'a, R> {
    pub(crate) reads: &'a R,
    pub(crate) meta: &'a Meta,
}

impl<'a, R: Reads> View<'a, R> {
    /// The document of the row `id`, borrowed if the collection stores plain BSON.
    pub(crate) fn document(&self, id: RowId) -> Result<Option<Cow<'a, RawDocument>>> {
        self.reads.row(&self.meta.rows, id.0)?.map(|row| self.meta.decode_row(row)).transpose()
    }
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

    fn fetch_rows(
        &self,
        ids: &mut dyn Iterator<Item = RowId>,
        visit: &mut dyn FnMut(usize, &mut dyn Row) -> Result<Flow>,
    ) -> Result<()> {
        with_scratch(|scratch| {
            let mut visited = Ok(Flow::Continue(()));
            self.reads.visit_rows(&self.meta.rows, &mut ids.map(|id| id.0), &mut |place, row| {
                visited = visit(place, &mut LazyRow { meta: self.meta, row, scratch });
                matches!(visited, Ok(Flow::Continue(())))
            })?;
            visited.map(drop)
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

    fn walk(&self, index: usize, probe: Probe<'_>) -> Result<()> {
        match self.meta.indexes.get(index) {
            Some(found) => by_kind!(&found.def, kind => kind.walk(self, index, &found.table, probe)),
            None => Err(Probe::refused(index)),
        }
    }

    fn nearest_among(
        &self,
        index: usize,
        vector: &[f32],
        among: &Among<'_>,
        visit: &mut dyn FnMut(RowId, f32) -> Result<()>,
    ) -> Result<Option<Compared>> {
        match self.meta.indexes.get(index) {
            Some(found) => {
                by_kind!(&found.def, kind => kind.nearest_among(self, &found.table, vector, among, visit))
            }
            None => Ok(None),
        }
    }

    fn estimated_rows(&self) -> u64 {
        self.reads.len(&self.meta.rows).unwrap_or(0)
    }

    fn known_rows(&self) -> Result<Option<u64>> {
        Ok(Some(self.reads.len(&self.meta.rows)?))
    }

    fn estimate(&self, index: usize, range: &KeyRange) -> Option<u64> {
        self.meta.indexes.get(index)?.ordered()?.estimate(self.reads, range)
    }

    fn entries_are_exact(&self) -> bool {
        true
    }
}
