//! A source in memory: rows in a map, each index a sorted set of entries.

use std::collections::{BTreeMap, BTreeSet};

use bson::{RawDocument, RawDocumentBuf};

use treedb_query::access::{
    Direction, Flow, IndexInfo, KeyRange, PlanCache, Probe, QueryContext, RowId, Source, VisitRow,
};
use treedb_query::error::Result;
use treedb_query::index::ordered::IndexDef;

/// Rows and indexes.
#[derive(Default)]
pub(super) struct Memory {
    rows: BTreeMap<u64, RawDocumentBuf>,
    infos: Vec<IndexInfo>,
    entries: Vec<BTreeSet<(Vec<u8>, u64)>>,
    pub(super) plans: PlanCache,
    /// How many times as large as it is the source says that it is: plans for large collections are worth it then.
    pub(super) scale: u64,
}

impl Memory {
    pub(super) fn new(docs: &[RawDocumentBuf]) -> Self {
        let rows = docs.iter().enumerate().map(|(id, doc)| (id as u64, doc.clone())).collect();
        Memory { rows, scale: 1, ..Memory::default() }
    }

    /// True if the row has an entry in the index.
    pub(super) fn has_entries(&self, index: usize, row: u64) -> bool {
        self.entries[index].iter().any(|(_, id)| *id == row)
    }

    /// The definition of an index.
    pub(super) fn ordered(&self, index: usize) -> &IndexDef {
        self.infos[index].def.as_ordered().unwrap()
    }

    /// Adds an index; an error, and no index, if a row has no keys under it.
    pub(super) fn index(&mut self, def: IndexDef) -> Result<()> {
        let (mut entries, mut multikey) = (BTreeSet::new(), false);
        for (id, doc) in &self.rows {
            let keys = def.keys(doc)?;
            multikey |= keys.multikey;
            entries.extend(keys.keys.into_iter().map(|key| (key, *id)));
        }
        self.infos.push(IndexInfo::new(def, multikey));
        self.entries.push(entries);
        Ok(())
    }
}

/// Shows items of an iterator until told to stop.
fn show<T>(items: impl Iterator<Item = T>, mut visit: impl FnMut(T) -> Result<Flow>) -> Result<()> {
    for item in items {
        if visit(item)? == Flow::Break(()) {
            break;
        }
    }
    Ok(())
}

impl Memory {
    pub(super) fn context(&self) -> QueryContext<'_> {
        QueryContext { plan_cache: Some(&self.plans), ..QueryContext::default() }
    }
}

impl Source for Memory {
    fn indexes(&self) -> &[IndexInfo] {
        &self.infos
    }

    fn fetch(&self, id: RowId, visit: &mut dyn FnMut(&RawDocument) -> Result<()>) -> Result<bool> {
        self.rows.get(&id.0).map_or(Ok(false), |doc| visit(doc).map(|()| true))
    }

    fn scan(&self, direction: Direction, after: Option<RowId>, visit: &mut VisitRow<'_>) -> Result<()> {
        let behind = |id: u64| {
            after.is_none_or(|last| if direction == Direction::Forward { id > last.0 } else { id < last.0 })
        };
        let rows = self.rows.iter().filter(|(id, _)| behind(**id));
        match direction {
            Direction::Forward => show(rows, |(id, doc)| visit(RowId(*id), doc)),
            Direction::Backward => show(rows.rev(), |(id, doc)| visit(RowId(*id), doc)),
        }
    }

    fn walk(&self, index: usize, probe: Probe<'_>) -> Result<()> {
        let Probe::Range { range, direction, after, visit } = probe else {
            return Err(Probe::refused(index));
        };
        let def = self.ordered(index);
        let mut visit = |key: &[u8], id: u64| {
            let type_bits = self.rows.get(&id).map(|doc| def.type_bits(doc));
            visit(RowId(id), key, &type_bits.unwrap_or_default())
        };
        let behind = |entry: &(Vec<u8>, u64)| {
            after.is_none_or(|(key, row)| {
                let order = (entry.0.as_slice(), entry.1).cmp(&(key, row.0));
                if direction == Direction::Forward { order.is_gt() } else { order.is_lt() }
            })
        };
        let entries = self.entries[index].iter().filter(|entry| range.contains(&entry.0) && behind(entry));
        match direction {
            Direction::Forward => show(entries, |(key, id)| visit(key, *id)),
            Direction::Backward => show(entries.rev(), |(key, id)| visit(key, *id)),
        }
    }

    fn estimated_rows(&self) -> u64 {
        self.rows.len() as u64 * self.scale
    }

    fn estimate(&self, index: usize, range: &KeyRange) -> Option<u64> {
        let entries = self.entries[index].iter().filter(|entry| range.contains(&entry.0));
        Some(entries.count() as u64 * self.scale)
    }

    fn entries_are_exact(&self) -> bool {
        true
    }
}
