//! Rebuilding indexes whose collation keys have another version than this program's.
//!
//! An index with a collation contains sort keys, and the catalog has their version ([`treedb_query::doc::collation`]). Keys of another
//! version have another order and treat other strings as equal. Such an index is replaced while the database is opened, before
//! any query can use it: the new index is built next to the old one under the same name and replaces it in one transaction.
//! After a crash the old index is still there, and the next opening starts again.
//!
//! Strings that differed under the old rules may be equal under the new ones. A unique index with two such strings cannot be rebuilt:
//! the database is not opened then, and stays usable by the version that wrote it.

use std::sync::Arc;

use bson::Document;

use treedb_query::error::{QueryError, Result};

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

/// Replaces the index `old` by one with sort keys of this version.
fn rebuild(db: &Database, namespace: &Namespace, old: i64) -> Result<()> {
    let begun = db.edit(namespace, false, None, |edit| begin(edit, old))?;
    let Some((new, name)) = begun.flatten() else { return Ok(()) };
    tracing::info!(%namespace, index = name, "rebuilding an index: its collation keys have another version");
    if let Err(error) = build(db, namespace, new, &name, &mut |_| {}) {
        if error.source.is_none() {
            db.edit(namespace, false, None, |edit| edit.remove_indexes(|index| index.id == new))?;
        }
        return Err(QueryError {
            message: format!(
                "{namespace}: the index '{name}' has to be rebuilt for the collations of this version of TreeDB, which \
                 failed: {}. Open the database with the version that wrote it, and drop the index or change the \
                 documents",
                error.message
            ),
            ..error
        });
    }
    db.edit(namespace, false, None, |edit| finish(edit, old))?;
    Ok(())
}

/// Adds the index that will replace `old` and returns its id and name. The index of an earlier attempt is removed. `None` if
/// the old index was still being built: the build starts again, and no replacement is needed.
fn begin(edit: &mut Edit<'_>, old: i64) -> Result<Option<(i64, String)>> {
    let Some(index) = edit.meta.indexes.iter().find(|index| index.id == old) else { return Ok(None) };
    let (def, unfinished) = (index.def.clone(), index.building.is_some());
    edit.remove_indexes(|index| index.def.name() == def.name() && index.id != old)?;
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
