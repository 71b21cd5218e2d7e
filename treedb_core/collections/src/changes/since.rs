//! [`Since`]: what happened to a database after an earlier change, as far as the change log says.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bson::{Document, RawDocument};

use treedb_query::access::{Flow, RowId, Source};
use treedb_query::error::Result;
use treedb_storage::ReadTxn;

use super::dropped_collections::CollectionsById;
use super::log::{Log, Version};
use super::record::{Change, Defined, Operation, damaged};
use super::row_ranges::RowRanges;
use crate::catalog::meta::Meta;
use crate::read::view::View;

/// Options of a capped collection.
pub(super) const LIMITS: [&str; 3] = ["capped", "size", "max"];

/// The rows of a collection that were different.
#[derive(Debug, Default)]
pub(super) struct ChangedRows {
    /// Rows that were changed or deleted since.
    pub(super) earlier: BTreeSet<u64>,
    /// Rows that were inserted since.
    pub(super) inserted: RowRanges,
}

/// What happened after a change.
#[derive(Debug, Default)]
pub(super) struct Since {
    /// By the collection's id.
    pub(super) rows: HashMap<i64, ChangedRows>,
    /// Collections that were created.
    pub(super) created: HashSet<i64>,
    /// Indexes that were created or dropped, in this order.
    indexes: Vec<(i64, Defined, Vec<Document>)>,
    /// How options of collections, or of their indexes, were changed.
    modified: HashMap<i64, Vec<Document>>,
}

fn document(description: &[u8]) -> Result<Document> {
    Document::from_reader(description).map_err(|_| damaged("a description"))
}

/// The definitions of indexes in a record of their creation or removal.
fn definitions(description: &[u8]) -> Result<Vec<Document>> {
    let wrong = || damaged("the description of an index");
    let description = document(description)?;
    let list = description.get_array("indexes").map_err(|_| wrong())?;
    list.iter().map(|def| def.as_document().cloned().ok_or_else(wrong)).collect()
}

impl Since {
    /// What happened after change `seq`.
    pub(super) fn read(reads: &ReadTxn, log: &Log, seq: u64) -> Result<Since> {
        let mut since = Since::default();
        log.walk(reads, seq + 1, &mut |record| {
            let collection = record.head.collection;
            for change in record.changes_from(seq + 1) {
                since.add(collection, &change?)?;
            }
            Ok(true)
        })?;
        Ok(since)
    }

    fn add(&mut self, collection: i64, change: &Change<'_>) -> Result<()> {
        match &change.operation {
            Operation::Defined(Defined::Create, _) => {
                self.created.insert(collection);
            }
            Operation::Defined(Defined::Modify, description) => {
                self.modified.entry(collection).or_default().push(document(description)?);
            }
            Operation::Defined(defined, description) => {
                self.indexes.push((collection, *defined, definitions(description)?));
            }
            operation if operation.is_of_a_row() => {
                let rows = self.rows.entry(collection).or_default();
                if *operation == Operation::Insert {
                    rows.inserted.insert(change.row);
                } else if !rows.inserted.contains(change.row) {
                    rows.earlier.insert(change.row);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether options of a collection or of its indexes were changed, other than the limits of a capped one.
    pub(super) fn is_modified(&self, collection: i64) -> bool {
        let is_limit =
            |description: &Document| description.keys().all(|name| LIMITS.contains(&name.as_str()));
        self.modified.get(&collection).is_some_and(|all| !all.iter().all(is_limit))
    }

    /// Whether a collection was made capped, or its limits were changed.
    pub(super) fn has_other_limits(&self, collection: i64) -> bool {
        let is_limit =
            |description: &Document| description.keys().any(|name| LIMITS.contains(&name.as_str()));
        self.modified.get(&collection).is_some_and(|all| all.iter().any(is_limit))
    }

    /// Undoes what happened to the indexes of a collection, whose definitions are given by name.
    pub(super) fn undo_indexes(&self, collection: i64, indexes: &mut BTreeMap<String, Document>) {
        for (id, defined, definitions) in self.indexes.iter().rev() {
            for def in definitions.iter().filter(|_| *id == collection) {
                let name = def.get_str("name").unwrap_or_default().to_owned();
                match defined {
                    Defined::CreateIndexes => drop(indexes.remove(&name)),
                    _ => drop(indexes.insert(name, def.clone())),
                }
            }
        }
    }
}

/// Changes options of an index.
fn modify(def: &mut Document, changed: &Document) {
    for (name, value) in changed.iter().filter(|(name, _)| *name != "name") {
        match value {
            bson::Bson::Boolean(false) => drop(def.remove(name)),
            value => drop(def.insert(name.clone(), value.clone())),
        }
    }
}

/// The indexes that a collection had after change `seq`, by name, as far as they were created after the first change that is kept; and
/// whether the collection was, so that these are all.
pub(super) fn indexes_at(
    reads: &ReadTxn,
    log: &Log,
    collection: i64,
    seq: u64,
) -> Result<(BTreeMap<String, Document>, bool)> {
    let (mut found, mut all) = (BTreeMap::new(), false);
    log.walk(reads, 0, &mut |record| {
        if record.head.collection != collection {
            return Ok(record.head.first <= seq);
        }
        for change in record.changes() {
            let change = change?;
            if change.seq > seq {
                return Ok(false);
            }
            match change.operation {
                Operation::Defined(Defined::Create, _) => all = true,
                Operation::Defined(Defined::CreateIndexes, description) => {
                    for def in definitions(description)? {
                        found.insert(def.get_str("name").unwrap_or_default().to_owned(), def);
                    }
                }
                Operation::Defined(Defined::Modify, description) => {
                    let description = document(description)?;
                    if let Ok(changed) = description.get_document("index")
                        && let Some(def) = found.get_mut(changed.get_str("name").unwrap_or_default())
                    {
                        modify(def, changed);
                    }
                }
                Operation::Defined(Defined::DropIndexes, description) => {
                    for def in definitions(description)? {
                        found.remove(def.get_str("name").unwrap_or_default());
                    }
                }
                _ => {}
            }
        }
        Ok(true)
    })?;
    Ok((found, all))
}

/// Rows of collections as they were after a change.
pub(super) struct Past<'a> {
    pub(super) reads: &'a ReadTxn,
    pub(super) log: &'a Log,
    pub(super) seq: u64,
}

impl Past<'_> {
    /// A row that was changed or deleted since; `None` if there was none.
    pub(super) fn row(
        &self,
        collections: &mut CollectionsById<'_>,
        collection: i64,
        row: u64,
    ) -> Result<Option<bson::RawDocumentBuf>> {
        match self.log.version(self.reads, collections, collection, row, self.seq)? {
            Version::Document(document) => Ok(Some(document)),
            Version::Absent => Ok(None),
            Version::Discarded => Err(damaged("the rows of a collection are missing")),
        }
    }

    /// Passes all rows that a collection had to `visit`, in their order.
    pub(super) fn each_row(
        &self,
        collections: &mut CollectionsById<'_>,
        meta: &Meta,
        changed: &ChangedRows,
        visit: &mut dyn FnMut(&RawDocument) -> Result<()>,
    ) -> Result<()> {
        let mut earlier = changed.earlier.iter().copied().peekable();
        let mut emit = |row: u64, visit: &mut dyn FnMut(&RawDocument) -> Result<()>| {
            self.row(collections, meta.id, row)?.map_or(Ok(()), |document| visit(&document))
        };
        let view = View { reads: self.reads, meta };
        view.scan(treedb_query::access::Direction::Forward, None, &mut |RowId(row), document| {
            while let Some(before) = earlier.next_if(|before| *before < row) {
                emit(before, visit)?;
            }
            if earlier.next_if_eq(&row).is_some() {
                emit(row, visit)?;
            } else if !changed.inserted.contains(row) {
                visit(document)?;
            }
            Ok(Flow::Continue(()))
        })?;
        earlier.try_for_each(|row| emit(row, visit))
    }
}
