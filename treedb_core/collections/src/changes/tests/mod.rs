//! Tests of the change log against models, and of its limits.

mod as_of;
mod model;
mod oplog;
mod retention;
mod rewind;
mod streams;

use std::collections::{BTreeMap, HashMap};

use bson::RawDocumentBuf;

use super::dropped_collections::CollectionsById;
use super::log::{Log, Version};
use super::record::Operation;
use crate::Database;
use treedb_query::error::Result;
use treedb_storage::Reads;

/// Documents by collection and row.
pub(crate) type Rows = BTreeMap<String, BTreeMap<u64, RawDocumentBuf>>;

/// Applies the changes in the log to an empty database: gives its contents, if the log was never truncated.
pub(crate) fn replay(db: &Database) -> Result<Rows> {
    let mut all = Rows::new();
    let reads = db.inner.store.begin_read()?;
    let Some(log) = Log::find(&reads)? else { return Ok(all) };
    let mut names = HashMap::new();
    let mut collections = CollectionsById::new(&db.inner.catalog, &mut names);
    log.walk(&reads, 0, &mut |record| {
        let id = record.head.collection;
        let name = match id {
            0 => String::new(),
            id => collections.name(&reads, &log, id, record.head.first)?.to_string(),
        };
        for change in record.changes() {
            let change = change?;
            let rows = all.entry(name.clone()).or_default();
            let mut after = || -> Result<RawDocumentBuf> {
                match log.version(&reads, &mut collections, id, change.row, change.seq)? {
                    Version::Document(document) => Ok(document),
                    other => panic!("{other:?} behind {change:?}"),
                }
            };
            match &change.operation {
                Operation::Insert => {
                    assert!(rows.insert(change.row, after()?).is_none(), "inserted twice: {change:?}");
                }
                Operation::Update(earlier) | Operation::Replace(earlier) => {
                    let after = after()?;
                    assert_eq!(rows.get(&change.row), Some(&earlier.restore(Some(&after))?), "{change:?}");
                    rows.insert(change.row, after);
                }
                Operation::Delete(old) => {
                    let gone = rows.remove(&change.row);
                    assert_eq!(gone.as_ref().map(|gone| gone.as_bytes()), Some(*old), "{change:?}");
                }
                Operation::Drop(dropped) => {
                    assert_eq!(*dropped, name);
                    all.remove(&name);
                }
                Operation::Rename { from, to } => {
                    assert_eq!(*from, name);
                    let renamed = all.remove(&name).unwrap_or_default();
                    all.insert((*to).to_owned(), renamed);
                    collections.renamed(id);
                }
                Operation::DropDatabase(database) => {
                    assert!(!all.keys().any(|name| name.starts_with(&format!("{database}."))));
                }
                Operation::Defined(..) => {}
            }
        }
        Ok(true)
    })?;
    all.retain(|_, rows| !rows.is_empty());
    Ok(all)
}

/// The current contents.
pub(crate) fn present(db: &Database) -> Result<Rows> {
    let mut all = Rows::new();
    let reads = db.inner.store.begin_read()?;
    for namespace in db.inner.catalog.list(&reads, "")? {
        let Some(meta) = db.inner.catalog.find(&reads, &namespace)? else { continue };
        let mut rows = BTreeMap::new();
        let view = crate::read::view::View { reads: &reads, meta: &meta };
        treedb_query::access::Source::scan(
            &view,
            treedb_query::access::Direction::Forward,
            None,
            &mut |row, document| {
                rows.insert(row.0, document.to_owned());
                Ok(treedb_query::access::Flow::Continue(()))
            },
        )?;
        if !rows.is_empty() {
            all.insert(namespace.to_string(), rows);
        }
    }
    assert!(reads.table("catalog")?.is_some());
    Ok(all)
}
