//! A handle of a collection: insert, find, update, delete, count, indexes.

use std::sync::Arc;

use bson::{Bson, Document, RawDocument, RawDocumentBuf};

use treedb_query::access::{Flow, Sink};
use treedb_query::aggregate::DEFAULT_MEMORY_LIMIT;
use treedb_query::doc::{Collation, Origin, OwnedValue, with_id};
use treedb_query::error::Result;
use treedb_query::query::explain::{self, Wanted};
use treedb_query::query::{
    Counters, NearestAnswer, Neighbor, NeighborRef, Plan, PlanSummary, PointQuery, SearchWork, count,
    distinct_by_index, interrupt,
};
use treedb_storage::{Durability, ReadTxn};

use crate::catalog::index_spec::IndexSpec;
use crate::catalog::meta::Meta;
use crate::catalog::namespace::Namespace;
use crate::catalog::search_index::SearchIndex;
use crate::catalog::view_def::is_about_a_view;
use crate::changes::AsOfOverlay;
use crate::database::Database;
use crate::maintenance::check::{self, CollectionCheck};
use crate::maintenance::index_build::{self, IndexBuild, IndexesCreated};
use crate::maintenance::index_rebuild;
use crate::maintenance::recall::{Recall, recall};
use crate::maintenance::stats::{self, CollectionStats};
use crate::read::cursor::Cursor;
use crate::read::of_view::FoundInView;
use crate::read::point_lookup::{self, PointFind};
use crate::read::vector_search::{for_each_neighbor, vector_search, vector_search_many};
use crate::read::vector_searcher::VectorSearcher;
use crate::read::view::View;
use crate::request::{
    DeleteRequest, FindAndModifyOutcome, FindAndModifyRequest, FindRequest, InsertOutcome, UpdateOutcome,
    UpdateRequest, VectorSearchRequest,
};
use crate::write::edit::Edit;
use crate::write::statement::{
    self, DeleteStatement, FindAndModifyStatement, ParsedQuery, UpdateStatement, id_of, parse,
};

/// A collection of documents, by name. Cheap to clone; may be used from any number of threads.
///
/// Readers and writers do not block each other; writers of one database take turns. Each call is one transaction, which
/// takes effect completely or not at all. The exception is an insert of several documents, which keeps those that were
/// accepted: ordered, it stops at the first refused document; unordered, it continues with the next.
#[derive(Clone)]
pub struct Collection {
    db: Database,
    namespace: Namespace,
    durability: Option<Durability>,
    /// Whether its validator applies to what this handle writes.
    validates: bool,
}

impl Collection {
    pub(crate) fn new(db: Database, namespace: Namespace) -> Self {
        Collection { db, namespace, durability: None, validates: true }
    }

    /// The same collection, with this durability of its writes instead of the database's.
    pub fn with_durability(&self, durability: Durability) -> Self {
        Collection { durability: Some(durability), ..self.clone() }
    }

    /// The same collection; what this handle writes need not match the validator.
    pub fn without_validation(&self) -> Self {
        Collection { validates: false, ..self.clone() }
    }

    /// False for [`Self::without_validation`].
    pub fn validates(&self) -> bool {
        self.validates
    }

    /// The collection of another name (`database.collection`), written to as this one is.
    ///
    /// # Errors
    /// `InvalidNamespace`.
    pub fn sibling(&self, namespace: &str) -> Result<Self> {
        Ok(Collection { namespace: Namespace::parse(namespace)?, ..self.clone() })
    }

    /// The database it is in.
    pub fn database(&self) -> &Database {
        &self.db
    }

    /// Its name.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Inserts a document and returns its `_id`, which is generated if it has none. The collection is created with its
    /// first document.
    ///
    /// # Errors
    /// `DuplicateKey`, `BSONObjectTooLarge` (16 MiB), `InvalidIdField`, `CannotIndexParallelArrays`.
    pub fn insert_one(&self, document: impl AsRef<RawDocument>) -> Result<Bson> {
        let document = with_id(document.as_ref())?;
        let id = id_of(&document)?;
        self.edit(true, |edit| edit.insert(&document))?;
        Ok(id)
    }

    /// Inserts documents in one transaction. The outcome reports refused documents; with `ordered` the first one ends the
    /// insert, and the documents before it stay.
    ///
    /// # Errors
    /// Only those of the storage engine; nothing was inserted then.
    pub fn insert_many<D: AsRef<RawDocument>>(
        &self,
        documents: &[D],
        ordered: bool,
    ) -> Result<InsertOutcome> {
        self.insert_many_of(documents, ordered, Origin::Program)
    }

    /// [`Self::insert_many`] of documents of this origin.
    ///
    /// # Errors
    /// As there.
    pub fn insert_many_of<D: AsRef<RawDocument>>(
        &self,
        documents: &[D],
        ordered: bool,
        origin: Origin,
    ) -> Result<InsertOutcome> {
        let done = self.edit(true, |edit| statement::insert(edit, documents, ordered, origin))?;
        Ok(done.unwrap_or_default())
    }

    /// The documents that match, as a cursor over a snapshot taken now. A collection that does not exist is empty.
    ///
    /// # Errors
    /// `BadValue` and others of the filter, sort and projection, each naming the field.
    pub fn find(&self, request: FindRequest) -> Result<Cursor> {
        if let Some(point) = point_lookup::of_request(&request)? {
            match self.snapshot() {
                Ok(None) => return Ok(Cursor::empty()),
                Ok(Some((reads, meta))) => {
                    return match PointFind::new(&point, &request, &meta)? {
                        Some(find) => Cursor::by_point_lookup(reads, meta, find),
                        None => {
                            let query = parse(&request)?.with_default_collation(&meta.collation)?;
                            Cursor::open(reads, meta, query)
                        }
                    };
                }
                Err(error) if is_about_a_view(&error) => {}
                Err(error) => return Err(error),
            }
        }
        self.find_by_plan(request)
    }

    /// [`Collection::find`] by a plan, even for a point look-up.
    pub(crate) fn find_by_plan(&self, request: FindRequest) -> Result<Cursor> {
        let query = parse(&request)?;
        if let Some(at) = request.as_of {
            let reads = self.db.inner.store.begin_read()?;
            let mut memory = DEFAULT_MEMORY_LIMIT;
            return match AsOfOverlay::find(&self.db.inner.catalog, &reads, &self.namespace, at, &mut memory) {
                Ok(Some((meta, past))) => {
                    let query = AsOfOverlay::query(query.with_default_collation(&meta.collation)?)?;
                    Cursor::open_as_of(reads, meta, past, query)
                }
                Ok(None) => Ok(Cursor::empty()),
                Err(error) if is_about_a_view(&error) => {
                    FoundInView::new(&request, |pipeline| self.aggregate(pipeline)).map(Cursor::of_view)
                }
                Err(error) => Err(error),
            };
        }
        match self.snapshot() {
            Ok(Some((reads, meta))) => {
                let query = query.with_default_collation(&meta.collation)?;
                Cursor::open(reads, meta, query)
            }
            Ok(None) => Ok(Cursor::empty()),
            Err(error) if is_about_a_view(&error) => {
                FoundInView::new(&request, |pipeline| self.aggregate(pipeline)).map(Cursor::of_view)
            }
            Err(error) => Err(error),
        }
    }

    /// The first document that matches.
    pub fn find_one(&self, filter: RawDocumentBuf) -> Result<Option<RawDocumentBuf>> {
        if let Some(point) = PointQuery::of_filter(&filter)? {
            let reads = self.db.inner.store.snapshot()?;
            let found = self.db.inner.catalog.with_meta(&reads, reads.txn(), &self.namespace, |meta| {
                point_lookup::first(&point, &reads, meta)
            });
            match found {
                Ok(Some(found)) => {
                    if let Some(found) = found? {
                        return Ok(found);
                    }
                }
                Ok(None) => {}
                Err(error) if is_about_a_view(&error) => {}
                Err(error) => return Err(error),
            }
        }
        self.find_by_plan(FindRequest::filter(filter).limit(1))?.next().transpose()
    }

    /// The documents with the nearest vectors by a vector index, among those that match a filter. As many are found as there are, up to
    /// the limit.
    ///
    /// # Errors
    /// `IndexNotFound`; `BadValue` for a vector that the index cannot compare; those of the filter.
    pub fn vector_search(&self, request: &VectorSearchRequest) -> Result<Vec<Neighbor>> {
        Ok(self.vector_search_answer(request)?.neighbors)
    }

    /// What [`Self::vector_search`] finds, and what it did for that.
    ///
    /// # Errors
    /// As there.
    pub fn vector_search_answer(&self, request: &VectorSearchRequest) -> Result<NearestAnswer> {
        let Some((reads, meta)) = self.snapshot()? else {
            return Err(Database::namespace_not_found(&self.namespace));
        };
        let view = View { reads: &reads, meta: &meta };
        vector_search(&view, &view.context(), request)
    }

    /// Searches by the vector index of this name, one after another, that keep what they need: see [`VectorSearcher`].
    pub fn vector_searcher(&self, index: &str) -> VectorSearcher {
        VectorSearcher::new(self.clone(), index)
    }

    /// Shows what [`Self::vector_search`] finds to `visit`, one after another, until it breaks. The documents are borrowed: keeping
    /// none of them saves the time and the memory of copying them.
    ///
    /// # Errors
    /// As there; those of `visit`.
    pub fn for_each_neighbor(
        &self,
        request: &VectorSearchRequest,
        visit: &mut dyn FnMut(NeighborRef<'_>) -> Result<Flow>,
    ) -> Result<SearchWork> {
        let Some((reads, meta)) = self.snapshot()? else {
            return Err(Database::namespace_not_found(&self.namespace));
        };
        let view = View { reads: &reads, meta: &meta };
        for_each_neighbor(&view, &view.context(), request, visit)
    }

    /// What [`Self::vector_search`] finds for each of many requests, in their order: in one snapshot, on all cores.
    ///
    /// # Errors
    /// As there.
    pub fn vector_search_many(&self, requests: &[VectorSearchRequest]) -> Result<Vec<Vec<Neighbor>>> {
        let Some((reads, meta)) = self.snapshot()? else {
            return Err(Database::namespace_not_found(&self.namespace));
        };
        vector_search_many(reads, &meta, requests)
    }

    /// Searches for the neighbours of about `searches` vectors of each vector index, and compares what the index finds with all documents.
    ///
    /// # Errors
    /// `NamespaceNotFound`.
    pub fn recall(&self, searches: usize) -> Result<Vec<Recall>> {
        self.recall_within(searches, None)
    }

    /// [`Self::recall`] with fewer searches, but not fewer than 10, if comparing them with all documents would multiply more elements of vectors
    /// than `most_elements`: a core multiplies about 10,000,000,000 of them in a second.
    ///
    /// # Errors
    /// `NamespaceNotFound`; `Interrupted`.
    pub fn recall_within(&self, searches: usize, most_elements: Option<u64>) -> Result<Vec<Recall>> {
        let Some((reads, meta)) = self.snapshot()? else {
            return Err(Database::namespace_not_found(&self.namespace));
        };
        recall(&View { reads: &reads, meta: &meta }, searches, most_elements)
    }

    /// How many documents match, `skip` and `limit` of the request applied.
    pub fn count(&self, request: FindRequest) -> Result<u64> {
        if request.as_of.is_some() {
            return self.find(request)?.try_fold(0, |count, document| document.map(|_| count + 1));
        }
        let request = FindRequest { sort: None, projection: None, ..request };
        let query = parse(&request)?;
        match self.snapshot() {
            Ok(Some((reads, meta))) => {
                let view = View { reads: &reads, meta: &meta };
                count(&view, &view.context(), &query.with_default_collation(&meta.collation)?)
            }
            Ok(None) => {
                interrupt::note_plan(|| PlanSummary::EOF);
                Ok(0)
            }
            Err(error) if is_about_a_view(&error) => {
                self.find(request)?.try_fold(0, |count, document| document.map(|_| count + 1))
            }
            Err(error) => Err(error),
        }
    }

    /// The distinct values of a field in all documents, if an index has them; `None` if the documents have to be read.
    /// Values that compare equal are one; a missing field has none.
    pub(crate) fn distinct_by_index(&self, path: &str) -> Result<Option<Vec<OwnedValue>>> {
        match self.snapshot() {
            Ok(Some((_, meta))) if !meta.collation.is_simple() => Ok(None),
            Ok(Some((reads, meta))) => distinct_by_index(&View { reads: &reads, meta: &meta }, path),
            Ok(None) => {
                interrupt::note_plan(|| PlanSummary::EOF);
                Ok(Some(Vec::new()))
            }
            Err(error) if is_about_a_view(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The default collation of the collection or view; the simple one if it does not exist.
    pub fn collation(&self) -> Result<Collation> {
        match self.snapshot() {
            Ok(found) => Ok(found.map(|(_, meta)| meta.collation.clone()).unwrap_or_default()),
            Err(error) if is_about_a_view(&error) => {
                let reads = self.db.inner.store.begin_read()?;
                let view = self.db.inner.catalog.view(&reads, &self.namespace)?;
                Ok(view.map(|view| view.collation).unwrap_or_default())
            }
            Err(error) => Err(error),
        }
    }

    /// The number of rows, without reading them.
    pub fn len(&self) -> Result<u64> {
        use treedb_storage::Reads;
        match self.snapshot()? {
            Some((reads, meta)) => Ok(reads.len(&meta.rows)?),
            None => Ok(0),
        }
    }

    /// True if the collection has no rows, or does not exist.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Sizes of the collection and its indexes; `None` if it does not exist. Documents are read for it: all of a small collection, a
    /// sample of a large one. Those of `local.oplog.rs` are those of the change log.
    pub fn stats(&self) -> Result<Option<CollectionStats>> {
        if self.namespace.is_oplog() {
            return self.db.oplog_stats();
        }
        self.snapshot()?.map(|(reads, meta)| stats::of(&reads, &meta)).transpose()
    }

    /// Bytes on disk of the collection and its indexes; 0 if it does not exist.
    pub fn disk_size(&self) -> Result<u64> {
        if self.namespace.is_oplog() {
            return Ok(self.db.oplog_stats()?.map_or(0, |stats| stats.storage_bytes));
        }
        self.snapshot()?.map_or(Ok(0), |(reads, meta)| stats::disk_size(&reads, &meta))
    }

    /// The number and the bytes of all documents, as BSON; of none if the collection does not exist. All of them are read.
    pub fn data_size(&self) -> Result<(u64, u64)> {
        self.snapshot()?.map_or(Ok((0, 0)), |(reads, meta)| stats::data_size(&reads, &meta))
    }

    /// Verifies the collection: every document valid, every index entry against its row and every row against its indexes. `None` if it
    /// does not exist. [`Database::check`] also verifies the pages.
    ///
    /// # Errors
    /// The first inconsistency found, and where it is; `Interrupted`.
    pub fn check(&self) -> Result<Option<CollectionCheck>> {
        let Some((reads, meta)) = self.snapshot()? else { return Ok(None) };
        Ok(check::collections(reads, &[meta], 1, &|_| {})?.pop())
    }

    /// The plan of `request`, and the work it takes: the query is run to its end. `None` if the collection does not exist.
    pub fn explain(&self, request: FindRequest) -> Result<Option<(Plan, Counters)>> {
        let mut cursor = self.find(request)?;
        for document in cursor.by_ref() {
            document?;
        }
        let counters = cursor.counters();
        Ok(cursor.plan().cloned().map(|plan| (plan, counters)))
    }

    /// The document that `explain` returns for a find, or with `counting` for a count: the winning and rejected plans and,
    /// with `execute`, the execution statistics. Of a view it is that of the pipeline ([`Self::explain_pipeline`]).
    ///
    /// # Errors
    /// Those of [`Collection::find`].
    pub fn explain_find(
        &self,
        request: &FindRequest,
        counting: bool,
        execute: bool,
    ) -> Result<RawDocumentBuf> {
        if let Some(pipeline) = self.pipeline_of_find(request)? {
            return self.explain_pipeline(&pipeline, execute);
        }
        let query = parse(request)?;
        let Some((reads, meta)) = self.snapshot()? else {
            let query = query.with_default_collation(&Collation::Simple)?;
            return Ok(explain::of_nothing(self.namespace.as_str(), &query, execute));
        };
        let query = query.with_default_collation(&meta.collation)?;
        let view = View { reads: &reads, meta: &meta };
        let wanted = if counting { Wanted::Count } else { Wanted::Documents };
        explain::explain_query(&view, &view.context(), self.namespace.as_str(), &query, wanted, execute)
    }

    /// The document that `explain` returns for an update: the plan that finds the documents and, with `execute`, how many of them it would
    /// change (`nWouldModify`), and whether it would insert one (`nWouldUpsert`). Nothing is changed.
    ///
    /// # Errors
    /// Those of [`Collection::update`].
    pub fn explain_update(&self, request: UpdateRequest, execute: bool) -> Result<RawDocumentBuf> {
        self.explain_write(UpdateStatement::parse(request)?.explained(), execute)
    }

    /// The same for a deletion: `nWouldDelete`.
    ///
    /// # Errors
    /// Those of [`Collection::delete`].
    pub fn explain_delete(&self, request: DeleteRequest, execute: bool) -> Result<RawDocumentBuf> {
        self.explain_write(DeleteStatement::parse(request)?.explained(), execute)
    }

    /// The same for [`Collection::find_and_modify`].
    ///
    /// # Errors
    /// Those of [`Collection::find_and_modify`].
    pub fn explain_find_and_modify(
        &self,
        request: FindAndModifyRequest,
        execute: bool,
    ) -> Result<RawDocumentBuf> {
        self.explain_write(FindAndModifyStatement::parse(request)?.explained(), execute)
    }

    fn explain_write(
        &self,
        (query, limit, write): (&ParsedQuery, u64, explain::Write<'_>),
        execute: bool,
    ) -> Result<RawDocumentBuf> {
        let namespace = self.namespace.as_str();
        let Some((reads, meta)) = self.snapshot()? else {
            let query = query.for_collection(&Collation::Simple)?;
            return Ok(explain::explain_write_of_nothing(namespace, &query, write, execute));
        };
        let query = query.for_collection(&meta.collation)?;
        let view = View { reads: &reads, meta: &meta };
        explain::explain_write(&view, &view.context(), namespace, &query, limit, write, execute)
    }

    /// The document that `explain` returns for the distinct values of the field at `path`.
    ///
    /// # Errors
    /// Those of [`Collection::find`].
    pub fn explain_distinct(
        &self,
        path: &str,
        request: &FindRequest,
        execute: bool,
    ) -> Result<RawDocumentBuf> {
        if request.collation.is_some() || self.is_view()? {
            return self.explain_find(request, false, execute);
        }
        let query = parse(request)?;
        let Some((reads, meta)) = self.snapshot()? else {
            let query = query.with_default_collation(&Collation::Simple)?;
            return Ok(explain::of_nothing(self.namespace.as_str(), &query, execute));
        };
        let query = query.with_default_collation(&meta.collation)?;
        let view = View { reads: &reads, meta: &meta };
        let context = view.context();
        explain::explain_distinct(&view, &context, self.namespace.as_str(), path, &query, execute)
    }

    /// Updates the documents that match.
    ///
    /// # Errors
    /// Those of the update's operators, each naming the field; the first error undoes the whole request.
    pub fn update(&self, request: UpdateRequest) -> Result<UpdateOutcome> {
        let upsert = request.upsert;
        let update = UpdateStatement::parse(request)?;
        let done = self.edit(upsert, |edit| update.run(edit))?;
        Ok(done.unwrap_or_default())
    }

    /// Deletes the documents that match and returns their number.
    pub fn delete(&self, request: DeleteRequest) -> Result<u64> {
        let delete = DeleteStatement::parse(request)?;
        let done = self.edit(false, |edit| delete.run(edit))?;
        Ok(done.unwrap_or_default())
    }

    /// Atomically updates or deletes the first document found, and returns it.
    ///
    /// # Errors
    /// Those of [`Collection::find`] and [`Collection::update`].
    pub fn find_and_modify(&self, request: FindAndModifyRequest) -> Result<FindAndModifyOutcome> {
        let change = FindAndModifyStatement::parse(request)?;
        let done = self.edit(change.may_insert(), |edit| change.run(edit))?;
        Ok(done.unwrap_or_default())
    }

    /// Creates an index and returns its name, once it is ready. It is not an error if the index exists
    /// already.
    ///
    /// Other writers can proceed while it is built. If it cannot be built, it is removed.
    ///
    /// # Errors
    /// `DuplicateKey` if a unique index would have duplicate keys, `CannotCreateIndex` naming the field,
    /// `IndexOptionsConflict` and `IndexKeySpecsConflict` if it conflicts with another index.
    pub fn create_index(&self, spec: impl Into<IndexSpec>) -> Result<String> {
        let spec = spec.into();
        self.create_indexes(std::slice::from_ref(&spec))?;
        spec.index_name()
    }

    /// Creates several indexes: all of them, or no new one.
    pub fn create_indexes(&self, specs: &[IndexSpec]) -> Result<IndexesCreated> {
        self.create_indexes_with_progress(specs, &mut |_| {})
    }

    /// The same. `on_progress` is called after each step of a build, some thousand rows or fewer, and with all rows done when the index is
    /// ready; not for an index that exists. It may read and write: nothing is locked meanwhile.
    pub fn create_indexes_with_progress(
        &self,
        specs: &[IndexSpec],
        on_progress: &mut dyn FnMut(&IndexBuild),
    ) -> Result<IndexesCreated> {
        index_build::create(&self.db, &self.namespace, specs, on_progress)
    }

    /// Drops the index of this name.
    ///
    /// # Errors
    /// `IndexNotFound`, `NamespaceNotFound`, `InvalidOptions` for the index on `_id`.
    pub fn drop_index(&self, name: &str) -> Result<()> {
        self.drop_indexes(&[name.to_owned()]).map(drop)
    }

    /// Drops the indexes of these names, all or none. Returns the number of indexes before.
    pub fn drop_indexes(&self, names: &[String]) -> Result<usize> {
        index_build::drop_indexes(&self.db, &self.namespace, names)
    }

    /// Builds the indexes anew but those of vectors, and returns how many they are: what a damaged index holds is replaced by what the
    /// documents say. Each is used until the one that replaces it is ready; reads and writes go on meanwhile.
    ///
    /// # Errors
    /// `NamespaceNotFound`; `BackgroundOperationInProgressForNamespace` while an index is built; `DuplicateKey` if documents contradict a
    /// unique index, which then stays as it was.
    pub fn rebuild_indexes(&self) -> Result<usize> {
        index_rebuild::rebuild_all(&self.db, &self.namespace)
    }

    /// The indexes, as MongoDB lists them: `{ v: 2, key: { year: 1 }, name: "year_1" }`. `None` if the collection
    /// does not exist.
    pub fn indexes(&self) -> Result<Option<Vec<Document>>> {
        self.snapshot()?.map(|(_, meta)| meta.list_indexes()).transpose()
    }

    /// The search indexes, those being built included. `None` if the collection does not exist.
    pub fn search_indexes(&self) -> Result<Option<Vec<SearchIndex>>> {
        Ok(self.snapshot()?.map(|(_, meta)| SearchIndex::all(&meta)))
    }

    /// Gives the collection another name (`database.collection`), by which it is known from then on; see
    /// [`Database::rename_collection`]. Returns the handle of the new name.
    ///
    /// # Errors
    /// As there.
    pub fn rename(&self, to: &str, drop_target: bool) -> Result<Collection> {
        self.db.rename_collection(self.namespace.as_str(), to, drop_target)?;
        Ok(Collection { namespace: Namespace::parse(to)?, ..self.clone() })
    }

    pub(crate) fn snapshot(&self) -> Result<Option<(ReadTxn, Arc<Meta>)>> {
        let reads = self.db.inner.store.begin_read()?;
        let meta = self.db.inner.catalog.with_meta(&reads, reads.txn(), &self.namespace, Arc::clone)?;
        Ok(meta.map(|meta| (reads, meta)))
    }

    pub(crate) fn edit<T>(
        &self,
        create: bool,
        mut work: impl FnMut(&mut Edit<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        self.db.edit_documents(&self.namespace, create, self.durability, |edit| {
            edit.validates = self.validates;
            work(edit)
        })
    }
}
