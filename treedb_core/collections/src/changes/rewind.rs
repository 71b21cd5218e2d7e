//! [`Database::rewind`]: makes a database what it was at an earlier time.
//!
//! What was written since is undone collection by collection, through the ordinary write path: indexes follow, and the change log records
//! it as it records other writes, so that a rewind can be undone by another one. A collection that was dropped since, and a capped one, is
//! made anew and filled; in others only the rows that differ are written. Rows that were deleted come back behind the others.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bson::{DateTime, Document, RawDocumentBuf};

use treedb_query::access::{Change, RowId, Sink};
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_storage::{ReadTxn, Reads};

use super::AsOf;
use super::as_of::{find_log, resolve_as_of, snapshot_too_old};
use super::dropped_collections::{CollectionsById, RetainedRows};
use super::log::Log;
use super::since::{ChangedRows, LIMITS, Past, Since, indexes_at};
use crate::catalog::meta::{IndexMeta, Meta};
use crate::catalog::namespace::Namespace;
use crate::database::Database;
use crate::{Collection, IndexSpec};

/// Rows that are written in a transaction, and about how many bytes they have at the most.
const BATCH: usize = 1_000;
const BATCH_BYTES: usize = 16 << 20;

/// What [`Database::rewind`] has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewound {
    /// The last change before the state that the database is in now.
    pub change: u64,
    /// Collections that were changed, made again, renamed or dropped.
    pub collections: u64,
    /// Documents that were written or deleted.
    pub documents: u64,
    /// What could not be undone, in words.
    pub notes: Vec<String>,
}

/// A collection of the earlier state.
struct Target {
    id: i64,
    meta: Arc<Meta>,
    /// Its name then, and now if it is still there.
    name: Namespace,
    now: Option<Namespace>,
    /// Its indexes by name, that on `_id` aside.
    indexes: BTreeMap<String, Document>,
}

impl Database {
    /// Makes the database what it was `at` an earlier time: documents, collections with their names, and indexes. Nobody else may
    /// write meanwhile. A rewind that was interrupted leaves a mixture, and has to be repeated before the changes since are too old to be kept. It
    /// is recorded as other writes are, as far as the limits of the change log allow, so that another one can undo it.
    ///
    /// Views and users are not undone, nor are changed options. [`Rewound::notes`] says which collections have other options, limits or fewer indexes than they had. `progress` is called with the number of documents written, and of all that are
    /// to be.
    ///
    /// # Errors
    /// `SnapshotTooOld` if the changes since are not all kept, or a collection was dropped whose documents are not kept;
    /// `IllegalOperation` if changes are not recorded; `NamespaceExists` if a view has the name of a collection; then nothing was changed. Those of writes.
    pub fn rewind(&self, at: AsOf, progress: &mut dyn FnMut(u64, u64)) -> Result<Rewound> {
        // Else the first commits would remove what is to be undone, if it is old.
        let _kept = self.inner.changes.keep_all();
        let reads = self.inner.store.begin_read()?;
        let log = find_log(&reads)?;
        let seq = resolve_as_of(&reads, &log, at)?;
        let since = Since::read(&reads, &log, seq)?;
        let mut names = HashMap::new();
        let mut rewind = Rewind {
            db: self,
            past: Past { reads: &reads, log: &log, seq },
            collections: CollectionsById::new(&self.inner.catalog, &mut names),
            since,
            done: Rewound { change: seq, collections: 0, documents: 0, notes: late(&reads, &log, at)? },
            progress,
            of: 0,
        };
        let targets = rewind.targets()?;
        rewind.run(targets)?;
        Ok(rewind.done)
    }
}

struct Rewind<'a> {
    db: &'a Database,
    past: Past<'a>,
    collections: CollectionsById<'a>,
    since: Since,
    done: Rewound,
    progress: &'a mut dyn FnMut(u64, u64),
    /// Documents that are to be written.
    of: u64,
}

impl Rewind<'_> {
    /// The collections that there were, and the indexes they had.
    fn targets(&mut self) -> Result<Vec<Target>> {
        let Past { reads, log, seq } = self.past;
        let earlier: HashMap<i64, Namespace> =
            log.names_at(reads, seq)?.into_iter().map(|rename| (rename.id, rename.from)).collect();
        let mut targets = Vec::new();
        for now in self.db.inner.catalog.list(reads, "")? {
            let Some(meta) = self.db.inner.catalog.find(reads, &now)? else { continue };
            if !now.is_recorded() || self.since.created.contains(&meta.id) {
                continue;
            }
            let mut indexes = definitions(&meta)?;
            self.since.undo_indexes(meta.id, &mut indexes);
            let name = earlier.get(&meta.id).unwrap_or(&now).clone();
            targets.push(Target { id: meta.id, meta, name, now: Some(now), indexes });
        }
        for dropped in log.dropped_collections(reads)? {
            if dropped.seq <= seq || self.since.created.contains(&dropped.id) {
                continue;
            }
            let name = earlier.get(&dropped.id).unwrap_or(&dropped.namespace).clone();
            let RetainedRows::Available(meta) = self.collections.meta(reads, log, dropped.id)? else {
                let why = format!("{name} was dropped since, and its documents are no longer kept");
                return Err(snapshot_too_old(why));
            };
            let (indexes, all) = indexes_at(reads, log, dropped.id, seq)?;
            if !all {
                self.done.notes.push(format!(
                    "{name} was dropped since: indexes that it had before the first change that is kept are not known"
                ));
            }
            targets.push(Target { id: dropped.id, meta, name, now: None, indexes });
        }
        for target in &mut targets {
            target.indexes.remove("_id_");
            target.indexes.values_mut().for_each(say_collation);
            if self.db.inner.catalog.view(reads, &target.name)?.is_some() {
                let why = format!(
                    "a view has the name of the collection {}: drop it or rename it first",
                    target.name
                );
                return Err(QueryError::new(ErrorCode::NamespaceExists, why));
            }
            if self.since.has_other_limits(target.id) {
                self.done.notes.push(format!(
                    "limits of the capped collection {} were changed since: it has none now",
                    target.name
                ));
            }
            if self.since.is_modified(target.id) {
                self.done
                    .notes
                    .push(format!("options of {} were changed since, and stay as they are", target.name));
            }
        }
        Ok(targets)
    }

    fn run(&mut self, targets: Vec<Target>) -> Result<()> {
        // Room for the names that collections had.
        for name in self.db.inner.catalog.list(self.past.reads, "")? {
            if name.is_recorded() && targets.iter().all(|target| target.now.as_ref() != Some(&name)) {
                self.db.drop_collection(name.as_str())?;
                self.done.collections += 1;
            }
        }
        let renamed = |target: &&Target| target.now.as_ref().is_some_and(|now| *now != target.name);
        for target in targets.iter().filter(renamed) {
            let now = target.now.as_ref().map(Namespace::as_str);
            // Of a rewind that was interrupted.
            if now != Some(between(target).as_str()) {
                self.rename(now, &between(target))?;
            }
        }
        for target in targets.iter().filter(renamed) {
            self.rename(Some(&between(target)), target.name.as_str())?;
            self.done.collections += 1;
        }
        for target in &targets {
            let rows = self.since.rows.get(&target.id);
            self.of += match rows {
                Some(rows) if target.now.is_some() => rows.earlier.len() as u64 + rows.inserted.len(),
                _ if target.now.is_none() => self.past.reads.len(&target.meta.rows)?,
                _ => 0,
            };
        }
        for target in &targets {
            let rows = self.since.rows.remove(&target.id).unwrap_or_default();
            let differs = !rows.earlier.is_empty() || rows.inserted.len() > 0;
            let other_limits = self.since.has_other_limits(target.id);
            let capped = (target.meta.special.capped.is_some() && differs) || other_limits;
            let collection = Collection::new(self.db.clone(), target.name.clone());
            if target.now.is_none() || capped {
                self.make_again(target, &rows)?;
            } else {
                self.drop_indexes(target, &collection)?;
                self.restore(target, &rows)?;
            }
            self.create_indexes(target, &collection)?;
            self.done.collections += u64::from(differs || capped || target.now.is_none());
        }
        Ok(())
    }

    fn rename(&self, from: Option<&str>, to: &str) -> Result<()> {
        from.map_or(Ok(()), |from| self.db.rename_collection(from, to, false))
    }

    fn wrote(&mut self, documents: usize) {
        self.done.documents += documents as u64;
        (self.progress)(self.done.documents, self.of.max(self.done.documents));
    }

    /// Drops the indexes that the collection did not have, before its rows come back.
    fn drop_indexes(&self, target: &Target, collection: &Collection) -> Result<()> {
        for (name, def) in definitions(&target.meta)? {
            if name != "_id_" && !target.indexes.get(&name).is_some_and(|had| is_same(had, &def)) {
                collection.drop_index(&name)?;
            }
        }
        Ok(())
    }

    /// Creates the indexes that it had and has no longer. One that is there with the same name stays.
    fn create_indexes(&mut self, target: &Target, collection: &Collection) -> Result<()> {
        let reads = self.db.inner.store.begin_read()?;
        let meta = self.db.inner.catalog.find(&reads, &target.name)?;
        drop(reads);
        for (name, def) in &target.indexes {
            let is_there = |meta: &Arc<Meta>| meta.indexes.iter().any(|index| index.def.name() == name);
            if !meta.as_ref().is_some_and(is_there)
                && let Err(error) =
                    collection.create_index(IndexSpec::from_document(&RawDocumentBuf::try_from(def)?))
            {
                self.done
                    .notes
                    .push(format!("the index {name} of {} was not made again: {error}", target.name));
            }
        }
        Ok(())
    }

    /// Makes a collection again and inserts all rows that it had.
    fn make_again(&mut self, target: &Target, rows: &ChangedRows) -> Result<()> {
        let mut options = target.meta.options.clone();
        if self.since.has_other_limits(target.id) {
            LIMITS.iter().for_each(|name| drop(options.remove(*name)));
        }
        self.db.drop_collection(target.name.as_str())?;
        self.db.create_collection(target.name.as_str(), options)?;
        let (mut batch, mut bytes, mut written) = (Vec::new(), 0, Vec::new());
        let db = self.db;
        self.past.each_row(&mut self.collections, &target.meta, rows, &mut |document| {
            batch.push(document.to_owned());
            bytes += document.as_bytes().len();
            if batch.len() == BATCH || bytes > BATCH_BYTES {
                written.push(insert(db, &target.name, &std::mem::take(&mut batch))?);
                bytes = 0;
            }
            Ok(())
        })?;
        written.push(insert(db, &target.name, &batch)?);
        self.wrote(written.iter().sum());
        Ok(())
    }

    /// Gives the rows that differ the documents they had.
    fn restore(&mut self, target: &Target, rows: &ChangedRows) -> Result<()> {
        let inserted: Vec<u64> = rows.inserted.iter().collect();
        let mut rest = inserted.as_slice();
        while !rest.is_empty() {
            let mut done = 0;
            // What is deleted is in the transaction's log, with all its bytes.
            edit(self.db, &target.name, &mut |sink| {
                let mut bytes = 0;
                done = 0;
                for row in rest.iter().take(BATCH) {
                    sink.modify(RowId(*row), &mut |document| {
                        bytes += document.as_bytes().len();
                        Ok(Change::Delete)
                    })?;
                    done += 1;
                    if bytes > BATCH_BYTES {
                        break;
                    }
                }
                Ok(())
            })?;
            self.wrote(done);
            rest = rest.get(done..).unwrap_or_default();
        }
        // Rows that are not there, or whose unique keys others have, which have not been restored yet.
        let mut missing = Vec::new();
        let earlier: Vec<u64> = rows.earlier.iter().copied().collect();
        let mut rest = earlier.as_slice();
        while !rest.is_empty() {
            let documents = self.documents(target.id, &mut rest)?;
            let mut gone = Vec::new();
            edit(self.db, &target.name, &mut |sink| {
                gone.clear();
                for (row, document) in &documents {
                    let there = sink.modify(RowId(*row), &mut |_| Ok(Change::Replace(document.clone())));
                    match there {
                        Ok(true) => {}
                        Ok(false) => gone.push(*row),
                        Err(error) if error.code == ErrorCode::DuplicateKey => {
                            sink.modify(RowId(*row), &mut |_| Ok(Change::Delete))?;
                            gone.push(*row);
                        }
                        Err(error) => return Err(error),
                    }
                }
                Ok(())
            })?;
            self.wrote(documents.len() - gone.len());
            missing.append(&mut gone);
        }
        let mut rest = missing.as_slice();
        while !rest.is_empty() {
            let documents: Vec<_> =
                self.documents(target.id, &mut rest)?.into_iter().map(|(_, one)| one).collect();
            let written = insert(self.db, &target.name, &documents)?;
            self.wrote(written);
        }
        Ok(())
    }

    /// The documents that the first of some rows had, which are taken from them.
    fn documents(&mut self, collection: i64, rows: &mut &[u64]) -> Result<Vec<(u64, RawDocumentBuf)>> {
        let (mut documents, mut bytes) = (Vec::new(), 0);
        while let Some((row, others)) = rows.split_first() {
            *rows = others;
            if let Some(document) = self.past.row(&mut self.collections, collection, *row)? {
                bytes += document.as_bytes().len();
                documents.push((*row, document));
            }
            if documents.len() == BATCH || bytes > BATCH_BYTES {
                break;
            }
        }
        Ok(documents)
    }
}

/// What is to be said of a time after the last change.
fn late(reads: &ReadTxn, log: &Log, at: AsOf) -> Result<Vec<String>> {
    let last = DateTime::from_millis(log.end(reads)?.time);
    Ok(match at {
        AsOf::Time(time) if time > last => {
            vec![format!("the last change that is known is of {last}, which is before {time}")]
        }
        _ => Vec::new(),
    })
}

/// The definitions of the indexes of a collection by name, each with its collation: of search indexes those that are ready.
fn definitions(meta: &Meta) -> Result<BTreeMap<String, Document>> {
    let mut found = BTreeMap::new();
    let is_recorded = |index: &&IndexMeta| index.def.as_ordered().is_some() || index.building.is_none();
    for index in meta.indexes.iter().filter(is_recorded) {
        let mut def = Document::try_from(index.def.spec())?;
        say_collation(&mut def);
        found.insert(index.def.name().to_owned(), def);
    }
    Ok(found)
}

/// Gives the definition of an index that has no collation the simple one: it would inherit that of the collection.
fn say_collation(def: &mut Document) {
    if def.contains_key("key") && !def.contains_key("collation") {
        def.insert("collation", bson::doc! { "locale": "simple" });
    }
}

/// Whether two definitions are of the same index. Some options can be changed while it is there, and one only shows in lists.
fn is_same(one: &Document, other: &Document) -> bool {
    const CHANGEABLE: [&str; 3] = ["hidden", "expireAfterSeconds", "background"];
    let fixed = |def: &Document| -> BTreeMap<String, bson::Bson> {
        def.iter()
            .filter(|(name, _)| !CHANGEABLE.contains(&name.as_str()))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect()
    };
    fixed(one) == fixed(other)
}

/// The name of a collection while others get theirs.
fn between(target: &Target) -> String {
    format!("{}.treedb_rewind_{}", target.name.database(), target.id)
}

fn insert(db: &Database, name: &Namespace, documents: &[RawDocumentBuf]) -> Result<usize> {
    edit(db, name, &mut |sink| {
        for document in documents {
            sink.insert(document)?;
        }
        Ok(())
    })?;
    Ok(documents.len())
}

/// Writes without validation: the documents were there.
fn edit(db: &Database, name: &Namespace, work: &mut dyn FnMut(&mut dyn Sink) -> Result<()>) -> Result<()> {
    let done = db.edit(name, false, None, |edit| {
        edit.validates = false;
        work(edit)
    })?;
    done.ok_or_else(|| Database::namespace_not_found(name))
}
