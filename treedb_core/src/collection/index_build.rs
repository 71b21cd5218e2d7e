//! Creating and dropping indexes of a live collection.
//!
//! A build is a sequence of short write transactions, so that other writers get their turn. The first adds the index to
//! the catalog as *building*: from then on every write maintains it. Each of the next adds the entries of some
//! thousand rows; the last marks it ready, and queries begin to use it. A crash between two of them leaves an index
//! that is still building, which opening the database takes up where it stopped.

use std::sync::Arc;

use crate::code::{ErrorCode, QueryError, Result};
use crate::index::ordered::IndexDef;
use crate::kv::{Durability, TableKind};

use super::database::Database;
use super::edit::Edit;
use super::meta::{IndexMeta, index_table};
use super::namespace::Namespace;

/// Rows a build looks at between two chances for other writers.
#[cfg(not(test))]
const STEP: usize = 4096;
/// In tests every build takes several steps, so that power can go between two of them.
#[cfg(test)]
const STEP: usize = 9;
/// Indexes of one collection: MongoDB's limit.
const MAX_INDEXES: usize = 64;

/// What came of a request to create indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexesCreated {
    /// Indexes before.
    pub before: usize,
    /// Indexes after.
    pub after: usize,
    /// True if the request created the collection.
    pub created_collection: bool,
}

/// Creates the indexes that are not there yet, and waits until they are ready. If one cannot be built (a duplicate
/// key in a unique index), it is gone again when the error is returned.
pub(crate) fn create(db: &Database, namespace: &Namespace, defs: &[IndexDef]) -> Result<IndexesCreated> {
    let existed = {
        let reads = db.inner.store.begin_read()?;
        db.inner.catalog.find(&reads, namespace)?.is_some()
    };
    let (before, new) = db
        .edit(namespace, true, None, |edit| {
            let before = edit.meta.infos.len();
            let mut new = Vec::new();
            for def in defs {
                if add(edit, def)? {
                    new.push(def.name.clone());
                }
            }
            Ok((before, new))
        })?
        .unwrap_or_default();
    for name in &new {
        if let Err(error) = build(db, namespace, name) {
            // The names after it have not been begun and go with it.
            let from = new.iter().position(|other| other == name).unwrap_or(0);
            db.edit(namespace, false, None, |edit| {
                for name in new.iter().skip(from) {
                    remove(edit, name)?;
                }
                Ok(())
            })?;
            return Err(error);
        }
    }
    Ok(IndexesCreated { before, after: before + new.len(), created_collection: !existed })
}

/// Adds `def` to the catalog as an index that is being built. False if the same index exists already.
fn add(edit: &mut Edit<'_>, def: &IndexDef) -> Result<bool> {
    for index in &edit.meta.indexes {
        if def.is_same_as(&index.def)? {
            return Ok(false);
        }
    }
    if edit.meta.indexes.len() >= MAX_INDEXES {
        return Err(QueryError::new(
            ErrorCode::CannotCreateIndex,
            format!("{} has {MAX_INDEXES} indexes already: drop one first", edit.meta.namespace),
        ));
    }
    let meta = Arc::make_mut(&mut edit.meta);
    let id = meta.next_index;
    meta.next_index += 1;
    let table = edit.txn.create_table(&index_table(meta.id, id), TableKind::Ordered)?;
    meta.indexes.push(IndexMeta { id, def: def.clone(), multikey: false, building: Some(0), table });
    meta.arrange();
    edit.catalog.write(edit.txn, meta)?;
    Ok(true)
}

/// Builds the index `name` to its end.
fn build(db: &Database, namespace: &Namespace, name: &str) -> Result<()> {
    loop {
        let going_on = db.edit(namespace, false, Some(Durability::Relaxed), |edit| {
            let at = edit.meta.indexes.iter().position(|index| index.def.name == name);
            let from = at.and_then(|at| edit.meta.indexes.get(at)?.building);
            match (at, from) {
                (Some(at), Some(from)) => Ok(edit.backfill(at, from, STEP)?.is_some()),
                _ => Ok(false),
            }
        })?;
        match going_on {
            Some(true) => {}
            // Acknowledged when it is as durable as the database's other writes.
            Some(false) => return Ok(db.inner.store.begin_write()?.commit()?),
            None => return Err(Database::missing(namespace)),
        }
    }
}

/// Takes up the builds that a crash has interrupted. One that cannot be finished is dropped: nobody was told that
/// the index exists.
pub(crate) fn resume_all(db: &Database) -> Result<()> {
    let reads = db.inner.store.begin_read()?;
    let mut unfinished = Vec::new();
    for namespace in db.inner.catalog.list(&reads, "")? {
        if let Some(meta) = db.inner.catalog.find(&reads, &namespace)? {
            let building = meta.indexes.iter().filter(|index| index.building.is_some());
            unfinished.extend(building.map(|index| (namespace.clone(), index.def.name.clone())));
        }
    }
    drop(reads);
    for (namespace, name) in unfinished {
        match build(db, &namespace, &name) {
            Err(error) if error.source.is_none() => {
                db.edit(&namespace, false, None, |edit| remove(edit, &name))?;
            }
            done => done?,
        }
    }
    Ok(())
}

/// Drops the indexes of these names, all or none.
///
/// # Errors
/// `IndexNotFound`; `InvalidOptions` for the index on `_id`, which every collection keeps.
pub(crate) fn drop_indexes(db: &Database, namespace: &Namespace, names: &[String]) -> Result<usize> {
    db.edit(namespace, false, None, |edit| {
        let before = edit.meta.infos.len();
        for name in names {
            if name == "_id_" {
                return Err(QueryError::new(ErrorCode::InvalidOptions, "cannot drop _id index"));
            }
            if !remove(edit, name)? {
                return Err(QueryError::new(
                    ErrorCode::IndexNotFound,
                    format!("index not found with name [{name}]"),
                ));
            }
        }
        Ok(before)
    })?
    .ok_or_else(|| Database::missing(namespace))
}

/// Removes an index and its entries. False if there is none of that name.
fn remove(edit: &mut Edit<'_>, name: &str) -> Result<bool> {
    let Some(at) = edit.meta.indexes.iter().position(|index| index.def.name == name) else {
        return Ok(false);
    };
    let meta = Arc::make_mut(&mut edit.meta);
    let gone = meta.indexes.remove(at);
    edit.txn.drop_table(&index_table(meta.id, gone.id))?;
    meta.arrange();
    edit.catalog.write(edit.txn, meta)?;
    Ok(true)
}
