//! Rebuilding indexes: those of a collection on request, and those whose collation keys, or scores of links, have another version than this
//! program's.
//!
//! A new index is built next to the old one under the same name, which queries use until the new one replaces it.
//!
//! An index with a collation contains sort keys, and the catalog has their version ([`treedb_query::doc::collation`]). Keys of another
//! version have another order and treat other strings as equal. Such an index is replaced while the database is opened, before
//! any query can use it.
//! After a crash the old index is still there, and the next opening starts again.
//!
//! Strings that differed under the old rules may be equal under the new ones. A unique index with two such strings cannot be rebuilt:
//! the database is not opened then, and stays usable by the version that wrote it.

use std::sync::Arc;

use bson::Document;

use treedb_query::error::{ErrorCode, QueryError, Result};

use crate::catalog::namespace::Namespace;
use crate::database::Database;
use crate::maintenance::index_build::{add_empty, build};
use crate::write::edit::Edit;

/// Rebuilds every outdated index.
///
/// # Errors
/// `DuplicateKey` if two documents now have the same key in a unique index; those of the store.
pub(crate) fn rebuild_outdated(db: &Database) -> Result<()> {
    let reads = db.inner.store.begin_read()?;
    let mut outdated = Vec::new();
    for namespace in db.inner.catalog.list(&reads, "")? {
        if let Some(meta) = db.inner.catalog.find(&reads, &namespace)? {
            let old = meta.indexes.iter().filter(|index| index.is_outdated());
            outdated.extend(old.map(|index| (namespace.clone(), index.id)));
        }
    }
    drop(reads);
    for (namespace, old) in outdated {
        rebuild(db, &namespace, old)?;
    }
    Ok(())
}

/// Builds every index of a collection anew but those of vectors, one after another, and returns how many they are. Each is used until the
/// one that replaces it is ready; after an error some have been rebuilt, and the others are as they were.
///
/// # Errors
/// `NamespaceNotFound`; `BackgroundOperationInProgressForNamespace` while an index is built; those of building an index.
pub(crate) fn rebuild_all(db: &Database, namespace: &Namespace) -> Result<usize> {
    let reads = db.inner.store.begin_read()?;
    let meta = db.inner.catalog.find(&reads, namespace)?;
    let meta = meta.ok_or_else(|| Database::namespace_not_found(namespace))?;
    drop(reads);
    let ordered = meta.indexes.iter().filter(|index| index.def.as_vector().is_none());
    let mut rebuilt = 0;
    for old in ordered.map(|index| index.id) {
        let begun = db.edit(namespace, false, None, |edit| begin_on_request(edit, old))?;
        let begun = begun.ok_or_else(|| Database::namespace_not_found(namespace))?;
        // Otherwise it was dropped meanwhile.
        if let Some((new, name)) = begun {
            build_or_remove(db, namespace, new, &name)?;
            rebuilt += 1;
        }
    }
    Ok(rebuilt)
}

/// Adds the index that will replace `old` and returns its id and name. `None` if there is no longer an index of that id.
pub(crate) fn begin_on_request(edit: &mut Edit<'_>, old: i64) -> Result<Option<(i64, String)>> {
    if edit.meta.indexes.iter().any(|index| index.building.is_some()) {
        let message = format!(
            "cannot perform operation: an index build is currently running for collection '{}'",
            edit.meta.namespace
        );
        return Err(QueryError::new(ErrorCode::BackgroundOperationInProgressForNamespace, message));
    }
    let Some(index) = edit.meta.indexes.iter().find(|index| index.id == old) else { return Ok(None) };
    let def = index.def.clone();
    Ok(Some((add_empty(edit, &def)?, def.name().to_owned())))
}

/// Builds the index `new`, which is removed if that fails.
fn build_or_remove(db: &Database, namespace: &Namespace, new: i64, name: &str) -> Result<()> {
    build(db, namespace, new, name, &mut |_| {}).or_else(|error| {
        if error.source.is_none() {
            db.edit(namespace, false, None, |edit| {
                edit.remove_indexes(|index| index.id == new && index.building.is_some())
            })?;
        }
        Err(error)
    })
}

/// Replaces the index `old` by one with sort keys of this version.
fn rebuild(db: &Database, namespace: &Namespace, old: i64) -> Result<()> {
    let begun = db.edit(namespace, false, None, |edit| begin(edit, old))?;
    let Some((new, name)) = begun.flatten() else { return Ok(()) };
    tracing::info!(%namespace, index = name, "rebuilding an index: its collation keys, or the scores of its links, have another version");
    build_or_remove(db, namespace, new, &name).map_err(|error| QueryError {
        message: format!(
            "{namespace}: the index '{name}' has to be rebuilt for this version of TreeDB, which \
             failed: {}. Open the database with the version that wrote it, and drop the index or change the \
             documents",
            error.message
        ),
        ..error
    })?;
    db.edit(namespace, false, None, |edit| finish(edit, old))?;
    Ok(())
}

/// Adds the index that will replace `old` and returns its id and name. The index of an earlier attempt is removed. `None` if
/// the old index was still being built: the build starts again, and no replacement is needed.
fn begin(edit: &mut Edit<'_>, old: i64) -> Result<Option<(i64, String)>> {
    let Some(index) = edit.meta.indexes.iter().find(|index| index.id == old) else { return Ok(None) };
    let (def, unfinished) = (index.def.clone(), index.building.is_some());
    // Not the other fields of a search index.
    edit.remove_indexes(|index| {
        let is_other = index.def.name() == def.name() && index.id != old;
        is_other && (index.building.is_some() || index.def.as_ordered().is_some())
    })?;
    if unfinished {
        // Built from the beginning afterwards, like any interrupted build.
        edit.remove_indexes(|index| index.id == old)?;
        add_empty(edit, &def)?;
        return Ok(None);
    }
    let new = add_empty(edit, &def)?;
    Ok(Some((new, def.name().to_owned())))
}

/// Removes the old index and stores the collation as this version understands it.
fn finish(edit: &mut Edit<'_>, old: i64) -> Result<()> {
    let meta = Arc::make_mut(&mut edit.meta);
    if let Some(collation) = meta.collation.document() {
        meta.options.insert("collation", Document::try_from(collation)?);
    }
    edit.remove_indexes(|index| index.id == old)?;
    Ok(())
}
