//! Creating and dropping indexes of a live collection.
//!
//! A build is a sequence of short write transactions, so that other writers can proceed. The first adds the index to the catalog as
//! *building*: from then on every write maintains it. The next ones add some thousand entries each
//! ([`crate::maintenance::backfill`]); the last marks the index as ready, and the planner can use it. After a crash the index is
//! still building, and opening the database resumes the build.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use treedb_query::doc::Collation;
use treedb_query::doc::collation::KEY_VERSION;
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::index::Definition;

use crate::catalog::index_spec::IndexSpec;
use crate::catalog::meta::{IndexFlags, IndexMeta, Meta, REACH_SCORES, index_table};
use crate::catalog::namespace::Namespace;
use crate::changes::Defined;
use crate::database::Database;
use crate::index::{IndexKind, Progress, by_kind};
use crate::maintenance::backfill;
use crate::write::edit::Edit;

/// Indexes of one collection: MongoDB's limit.
const MAX_INDEXES: usize = 64;

/// The result of creating indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexesCreated {
    /// The number of indexes before.
    pub before: usize,
    /// The number of indexes after.
    pub after: usize,
    /// True if the request created the collection.
    pub created_collection: bool,
}

/// An index build, and how far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexBuild {
    /// The collection.
    pub namespace: Namespace,
    /// The index.
    pub name: String,
    /// Rows indexed so far, at most `total`.
    pub done: u64,
    /// Rows of the collection when the build began.
    pub total: u64,
}

/// The builds in progress.
#[derive(Debug, Default)]
pub(crate) struct Builds {
    list: Mutex<Vec<(u64, IndexBuild)>>,
    /// Notified when one has ended.
    ended: Condvar,
}

impl Builds {
    fn list(&self) -> MutexGuard<'_, Vec<(u64, IndexBuild)>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a build ends, but no longer than this.
    pub(crate) fn wait(&self, most: Duration) {
        drop(self.ended.wait_timeout(self.list(), most).unwrap_or_else(PoisonError::into_inner));
    }

    /// Adds a build, which is listed until the result is dropped.
    fn begin(&self, build: IndexBuild) -> ListedBuild<'_> {
        let mut list = self.list();
        let number = list.last().map_or(0, |(last, _)| last + 1);
        list.push((number, build.clone()));
        ListedBuild { builds: self, number, build }
    }
}

/// A build in [`Builds`].
struct ListedBuild<'b> {
    builds: &'b Builds,
    number: u64,
    /// As it is listed.
    build: IndexBuild,
}

impl ListedBuild<'_> {
    /// Adds rows that are done; returns the build as it is now.
    fn step(&mut self, rows: u64) -> &IndexBuild {
        self.build.done = self.build.done.saturating_add(rows).min(self.build.total);
        for (_, listed) in self.builds.list().iter_mut().filter(|(number, _)| *number == self.number) {
            listed.done = self.build.done;
        }
        &self.build
    }
}

impl Drop for ListedBuild<'_> {
    fn drop(&mut self) {
        self.builds.list().retain(|(number, _)| *number != self.number);
        self.builds.ended.notify_all();
    }
}

impl Database {
    /// The index builds in progress.
    pub fn index_builds(&self) -> Vec<IndexBuild> {
        self.inner.builds.list().iter().map(|(_, build)| build.clone()).collect()
    }
}

/// Creates the indexes that do not exist, and waits until they are ready. An index that cannot be built (because of a
/// duplicate key in a unique index) is removed before the error is returned. `on_progress` is called as [`build`] does.
pub(crate) fn create(
    db: &Database,
    namespace: &Namespace,
    specs: &[IndexSpec],
    on_progress: &mut dyn FnMut(&IndexBuild),
) -> Result<IndexesCreated> {
    let definitions = |collation: &Collation| {
        let all = specs.iter().map(|spec| spec.definitions(collation)).collect::<Result<Vec<_>>>();
        all.map(|all| all.concat())
    };
    // Invalid specifications are refused before anything is locked.
    let defs = definitions(&Collation::Simple)?;
    let existed = {
        let reads = db.inner.store.begin_read()?;
        db.inner.catalog.find(&reads, namespace)?.is_some()
    };
    let (before, new) = db
        .edit(namespace, true, None, |edit| {
            let before = count(&edit.meta);
            let mut new = Vec::new();
            for def in &definitions(&edit.meta.collation)? {
                if let Some(id) = add(edit, def)? {
                    def.as_ordered().map_or(Ok(()), |def| edit.meta.check_expiring_index(def))?;
                    new.push((id, def.name().to_owned()));
                }
            }
            Ok((before, new))
        })?
        .unwrap_or_default();
    build_all(db, namespace, &new, on_progress)?;
    if defs.iter().any(expires) {
        db.inner.ttl_monitor.start(db);
    }
    Ok(IndexesCreated { before, after: before + new.len(), created_collection: !existed })
}

/// Adds `def` to the catalog as an index that is being built, and returns its id. `None` if the same index exists
/// already.
pub(crate) fn add(edit: &mut Edit<'_>, def: &Definition) -> Result<Option<i64>> {
    for index in &edit.meta.indexes {
        if def.is_same_as(&index.def)? {
            return Ok(None);
        }
    }
    check_count(&edit.meta.namespace, edit.meta.indexes.len())?;
    add_empty(edit, def).map(Some)
}

/// Refuses one more index of a collection that has `count`.
pub(crate) fn check_count(namespace: &Namespace, count: usize) -> Result<()> {
    if count >= MAX_INDEXES {
        return Err(QueryError::new(
            ErrorCode::CannotCreateIndex,
            format!("{namespace} has {MAX_INDEXES} indexes already: drop one first"),
        ));
    }
    Ok(())
}

/// True for an index that deletes documents which expire.
pub(crate) fn expires(def: &Definition) -> bool {
    def.as_ordered().is_some_and(|def| def.options.expire_after.is_some())
}

/// Adds `def` to the catalog as an index that is being built, without checking the others, and returns its id.
pub(crate) fn add_empty(edit: &mut Edit<'_>, def: &Definition) -> Result<i64> {
    add_in_state(edit, def, Some(0))
}

/// Adds `def` to the catalog of a collection without rows: as a ready index.
pub(crate) fn add_ready(edit: &mut Edit<'_>, def: &Definition) -> Result<i64> {
    edit.record_index(Defined::CreateIndexes, def)?;
    add_in_state(edit, def, None)
}

fn add_in_state(edit: &mut Edit<'_>, def: &Definition, building: Option<u64>) -> Result<i64> {
    let meta = Arc::make_mut(&mut edit.meta);
    let id = meta.next_index;
    meta.next_index += 1;
    let kind = by_kind!(def, kind => kind.table_kind());
    let table = edit.txn.create_table(&index_table(meta.id, id), kind)?;
    meta.indexes.push(IndexMeta {
        id,
        def: def.clone(),
        flags: IndexFlags::default(),
        building,
        sort_keys: KEY_VERSION,
        reach_scores: REACH_SCORES,
        table,
        uses: Arc::default(),
    });
    meta.sort_indexes();
    edit.catalog.write(edit.txn, meta)?;
    Ok(id)
}

/// Builds the index `id`, called `name`, until it is ready. `on_progress` is called after each step, outside of transactions, and with all
/// rows done once the index is ready.
///
/// # Errors
/// Those of indexing the documents; `IndexBuildAborted` if it is dropped meanwhile; `Interrupted`.
pub(crate) fn build(
    db: &Database,
    namespace: &Namespace,
    id: i64,
    name: &str,
    on_progress: &mut dyn FnMut(&IndexBuild),
) -> Result<()> {
    let collection = db.collection(namespace.as_str())?;
    let (name, total) = (name.to_owned(), collection.len()?);
    let mut listed = db.inner.builds.begin(IndexBuild { namespace: namespace.clone(), name, done: 0, total });
    loop {
        match backfill::advance(db, namespace, id, |rows| on_progress(listed.step(rows)))? {
            Progress::More => {}
            Progress::Ready => {
                // This commit makes it as durable as the database's other writes.
                db.inner.store.begin_write()?.commit()?;
                db.write_image_of_built(namespace, id);
                on_progress(listed.step(u64::MAX));
                return Ok(());
            }
            Progress::Dropped => {
                return Err(QueryError::new(
                    ErrorCode::IndexBuildAborted,
                    format!("{namespace}: the index was dropped while it was being built"),
                ));
            }
        }
    }
}

/// [Builds](build) indexes, which are given by id and name, one after another. If one fails, all of them that are not ready are removed.
///
/// # Errors
/// Those of [`build`].
pub(crate) fn build_all(
    db: &Database,
    namespace: &Namespace,
    new: &[(i64, String)],
    on_progress: &mut dyn FnMut(&IndexBuild),
) -> Result<()> {
    for (id, name) in new {
        if let Err(error) = build(db, namespace, *id, name, on_progress) {
            // Those after it have not been started, and other fields of a search index are of no use without it.
            let is_new = |index: &IndexMeta| new.iter().any(|(id, _)| index.id == *id);
            db.edit(namespace, false, None, |edit| {
                edit.remove_indexes(|index| is_new(index) && index.building.is_some())
            })?;
            return Err(error);
        }
    }
    Ok(())
}

/// Resumes the builds that a crash has interrupted. An index that cannot be built is dropped: its creation was never
/// acknowledged.
pub(crate) fn resume_all(db: &Database) -> Result<()> {
    let reads = db.inner.store.begin_read()?;
    let mut unfinished = Vec::new();
    for namespace in db.inner.catalog.list(&reads, "")? {
        if let Some(meta) = db.inner.catalog.find(&reads, &namespace)? {
            let building = meta.indexes.iter().filter(|index| index.building.is_some());
            unfinished
                .extend(building.map(|index| (namespace.clone(), index.id, index.def.name().to_owned())));
        }
    }
    drop(reads);
    for (namespace, id, name) in unfinished {
        match build(db, &namespace, id, &name, &mut |_| {}) {
            Err(error) if error.source.is_none() => {
                // With the other fields, if it is one of a search index.
                let is_it = |index: &IndexMeta| {
                    index.id == id || index.is_of_search_index(&name) && index.building.is_some()
                };
                db.edit(&namespace, false, None, |edit| edit.remove_indexes(is_it))?;
            }
            done => done?,
        }
    }
    Ok(())
}

/// Drops the indexes that were being built and would be recorded as created, or as changed, when they are ready. Ordered ones that are built anew
/// beside one of the same name are left to be [resumed](resume_all).
pub(crate) fn drop_unfinished(db: &Database) -> Result<()> {
    let reads = db.inner.store.begin_read()?;
    let mut unfinished = Vec::new();
    for namespace in db.inner.catalog.list(&reads, "")? {
        if let Some(meta) = db.inner.catalog.find(&reads, &namespace)? {
            let is_new = |index: &IndexMeta| {
                meta.indexes.iter().all(|other| other.id == index.id || other.def.name() != index.def.name())
            };
            let building = meta.indexes.iter().filter(|index| {
                index.building.is_some() && (index.def.as_vector().is_some() || is_new(index))
            });
            unfinished.extend(building.map(|index| (namespace.clone(), index.id)));
        }
    }
    drop(reads);
    for (namespace, id) in unfinished {
        db.edit(&namespace, false, None, |edit| edit.remove_indexes(|index| index.id == id))?;
    }
    Ok(())
}

/// How many ready indexes a collection has. Those of vectors are not counted, which are listed and dropped by other commands.
fn count(meta: &Meta) -> usize {
    meta.infos.iter().filter(|info| info.def.as_vector().is_none()).count()
}

/// Drops the indexes of these names, all or none.
///
/// # Errors
/// `IndexNotFound`; `InvalidOptions` for the index on `_id`, which cannot be dropped.
pub(crate) fn drop_indexes(db: &Database, namespace: &Namespace, names: &[String]) -> Result<usize> {
    db.edit(namespace, false, None, |edit| {
        let before = count(&edit.meta);
        for name in names {
            if name == "_id_" {
                return Err(QueryError::new(ErrorCode::InvalidOptions, "cannot drop _id index"));
            }
            let dropped: Vec<_> = edit
                .meta
                .indexes
                .iter()
                .filter(|index| index.building.is_none() && index.def.name() == name)
                .filter(|index| index.def.as_ordered().is_some())
                .map(|index| index.def.clone())
                .collect();
            for def in &dropped {
                edit.record_index(Defined::DropIndexes, def)?;
                if let Some(def) = def.as_ordered().filter(|def| def.options.expire_after.is_some()) {
                    edit.follow_index_expiry(def, None)?;
                }
            }
            edit.record_dropped_search_index(name)?;
            // With one that is being built to replace it.
            if !edit.remove_indexes(|index| index.def.name() == name)? {
                return Err(QueryError::new(
                    ErrorCode::IndexNotFound,
                    format!("index not found with name [{name}]"),
                ));
            }
        }
        Ok(before)
    })?
    .ok_or_else(|| Database::namespace_not_found(namespace))
}
