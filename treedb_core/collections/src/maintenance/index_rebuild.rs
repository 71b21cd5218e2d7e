//! Rebuilding the indexes whose sort keys are of another version than this program's.
//!
//! An index with a collation holds sort keys, and the catalog says of which version ([`treedb_query::doc::collation`]). Keys
//! of another version are in another order and equal to other strings, so such an index is replaced while the database
//! is being opened, before any query can use it: the new one is built beside the old one under the same name, and then
//! takes its place in one transaction. A crash in between leaves the old index, and the next opening begins again.
//!
//! Strings that the old rules told apart may be equal by the new ones. A unique index with two of them cannot be
//! rebuilt: the database is then not opened, and is left as it was for the version that wrote it.

use std::sync::Arc;

use bson::Document;

use treedb_query::error::{QueryError, Result};

use crate::catalog::namespace::Namespace;
use crate::database::Database;
use crate::maintenance::index_build::{add_empty, build, remove};
use crate::write::edit::Edit;

/// Rebuilds every outdated index.
///
/// # Errors
/// `DuplicateKey` if two documents have the same key in a unique index now; those of the store.
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

/// Replaces the index `old` by one with keys of this version.
fn rebuild(db: &Database, namespace: &Namespace, old: i64) -> Result<()> {
    let begun = db.edit(namespace, false, None, |edit| begin(edit, old))?;
    let Some((new, name)) = begun.flatten() else { return Ok(()) };
    tracing::info!(%namespace, index = name, "rebuilding an index: its keys are of another version's collations");
    if let Err(error) = build(db, namespace, new, &name) {
        if error.source.is_none() {
            db.edit(namespace, false, None, |edit| remove(edit, |index| index.id == new))?;
        }
        return Err(QueryError {
            message: format!(
                "{namespace}: the index '{name}' must be rebuilt by the rules for collations of this version of \
                 TreeDB, and cannot be: {}. Open the database with the version that wrote it, and drop the index or \
                 change the documents",
                error.message
            ),
            ..error
        });
    }
    db.edit(namespace, false, None, |edit| finish(edit, old))?;
    Ok(())
}

/// Adds the index that is to replace `old`, and returns its id and name. What an earlier attempt has left is removed;
/// `None` if that was all, because the old index was still being built itself.
fn begin(edit: &mut Edit<'_>, old: i64) -> Result<Option<(i64, String)>> {
    let Some(index) = edit.meta.indexes.iter().find(|index| index.id == old) else { return Ok(None) };
    let (def, unfinished) = (index.def.clone(), index.building.is_some());
    while remove(edit, |index| index.def.name == def.name && index.id != old)? {}
    if unfinished {
        // Built from its beginning after this, like any build that was interrupted.
        remove(edit, |index| index.id == old)?;
        add_empty(edit, &def)?;
        return Ok(None);
    }
    let new = add_empty(edit, &def)?;
    Ok(Some((new, def.name)))
}

/// Removes the old index and, with it, what the catalog says of its collation's version.
fn finish(edit: &mut Edit<'_>, old: i64) -> Result<()> {
    let meta = Arc::make_mut(&mut edit.meta);
    if let Some(collation) = meta.collation.document() {
        meta.options.insert("collation", Document::try_from(collation)?);
    }
    remove(edit, |index| index.id == old)?;
    Ok(())
}
