//! A collection, and the actions on it.

use std::fmt;
use std::marker::PhantomData;

use bson::Document;
use treedb_collections::{Recall, VectorSearchRequest};
use treedb_storage::Durability;

use crate::aggregate::Aggregate;
use crate::convert::{IntoDocument, IntoPipeline, UpdateModifications};
use crate::delete::Delete;
use crate::find::{CountDocuments, Distinct, Find, FindOne};
use crate::find_and_modify::{FindOneAndDelete, FindOneAndReplace, FindOneAndUpdate};
use crate::index::{CreateIndexes, IndexModel};
use crate::insert::{InsertMany, InsertOne};
use crate::target::Target;
use crate::update::{Replace, Update};
use crate::vector_search::{self, CreateSearchIndex, SearchIndexModel, VectorSearch, VectorSearchMany};
use crate::watch::Watch;
use crate::{Error, Result, Revision, VectorSearcher};

/// A collection of documents that are values of `T`: of any type with serde's `Serialize` and `Deserialize`, by default
/// [`Document`]. `RawDocumentBuf` is the fastest.
///
/// A handle is cheap to clone and can be used by any number of threads. The methods and their options are those of the
/// `mongodb` crate's synchronous API: each returns an action, which does something when it is [`run`](InsertOne::run).
/// The collection itself is created by its first document or index.
///
/// Readers see the snapshot of their beginning; they do not wait for writers, nor writers for readers. Writers of a
/// database take turns. Each action is atomic, except an [`insert_many`](Self::insert_many) in which documents are
/// refused.
pub struct Collection<T = Document> {
    pub(crate) target: Target,
    kind: PhantomData<fn(T) -> T>,
}

impl<T> Clone for Collection<T> {
    fn clone(&self) -> Self {
        Collection::new(self.target.clone())
    }
}

impl<T> fmt::Debug for Collection<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Collection").field(&self.target.name()).finish()
    }
}

impl<T> Collection<T> {
    pub(crate) fn new(target: Target) -> Self {
        Collection { target, kind: PhantomData }
    }

    /// Its full name, `database.collection`.
    pub fn namespace(&self) -> &str {
        self.target.name()
    }

    /// The same collection, with documents of another type.
    pub fn clone_with_type<U>(&self) -> Collection<U> {
        Collection::new(self.target.clone())
    }

    /// The same collection, its writes acknowledged as `durability` says instead of as the database's options say.
    pub fn with_durability(&self, durability: Durability) -> Self {
        Collection::new(self.target.with_durability(durability))
    }

    /// Inserts a document.
    pub fn insert_one<'c>(&'c self, document: impl std::borrow::Borrow<T> + 'c) -> InsertOne<'c>
    where
        T: serde::Serialize,
    {
        InsertOne::new(&self.target, document.borrow())
    }

    /// Inserts documents, in one commit.
    pub fn insert_many<'c>(
        &'c self,
        documents: impl IntoIterator<Item = impl std::borrow::Borrow<T>>,
    ) -> InsertMany<'c>
    where
        T: serde::Serialize,
    {
        InsertMany::new(&self.target, documents.into_iter())
    }

    /// Finds the documents that match `filter`, as a cursor.
    pub fn find(&self, filter: impl IntoDocument) -> Find<'_, T> {
        Find::new(&self.target, filter)
    }

    /// Finds the first document that matches `filter`.
    pub fn find_one(&self, filter: impl IntoDocument) -> FindOne<'_, T> {
        FindOne::new(&self.target, filter)
    }

    /// Counts the documents that match `filter`.
    pub fn count_documents(&self, filter: impl IntoDocument) -> CountDocuments<'_> {
        CountDocuments::new(&self.target, filter)
    }

    /// The number of documents in the collection, from the tree's own count.
    ///
    /// # Errors
    /// `OperationNotSupportedInTransaction` in a transaction.
    pub fn estimated_document_count(&self) -> Result<u64> {
        Ok(self.target.outside("estimated_document_count")?.len()?)
    }

    /// The distinct values of the field at `path` among the documents that match `filter`.
    pub fn distinct(&self, path: impl Into<String>, filter: impl IntoDocument) -> Distinct<'_> {
        Distinct::new(&self.target, path.into(), filter)
    }

    /// Updates the first document that matches `filter`.
    pub fn update_one(
        &self,
        filter: impl IntoDocument,
        update: impl Into<UpdateModifications>,
    ) -> Update<'_> {
        Update::new(&self.target, filter, update.into(), false)
    }

    /// Updates every document that matches `filter`.
    pub fn update_many(
        &self,
        filter: impl IntoDocument,
        update: impl Into<UpdateModifications>,
    ) -> Update<'_> {
        Update::new(&self.target, filter, update.into(), true)
    }

    /// Replaces the first document that matches `filter`; its `_id` stays.
    pub fn replace_one(
        &self,
        filter: impl IntoDocument,
        replacement: impl std::borrow::Borrow<T>,
    ) -> Replace<'_>
    where
        T: serde::Serialize,
    {
        Replace::new(&self.target, filter, replacement.borrow())
    }

    /// Deletes the first document that matches `filter`.
    pub fn delete_one(&self, filter: impl IntoDocument) -> Delete<'_> {
        Delete::new(&self.target, filter, 1)
    }

    /// Deletes every document that matches `filter`.
    pub fn delete_many(&self, filter: impl IntoDocument) -> Delete<'_> {
        Delete::new(&self.target, filter, 0)
    }

    /// Updates the first document that matches `filter`, and returns it.
    pub fn find_one_and_update(
        &self,
        filter: impl IntoDocument,
        update: impl Into<UpdateModifications>,
    ) -> FindOneAndUpdate<'_, T> {
        FindOneAndUpdate::new(&self.target, filter, update.into())
    }

    /// Replaces the first document that matches `filter`, and returns it.
    pub fn find_one_and_replace(
        &self,
        filter: impl IntoDocument,
        replacement: impl std::borrow::Borrow<T>,
    ) -> FindOneAndReplace<'_, T>
    where
        T: serde::Serialize,
    {
        FindOneAndReplace::new(&self.target, filter, replacement.borrow())
    }

    /// Deletes the first document that matches `filter`, and returns it.
    pub fn find_one_and_delete(&self, filter: impl IntoDocument) -> FindOneAndDelete<'_, T> {
        FindOneAndDelete::new(&self.target, filter)
    }

    /// Runs an aggregation pipeline over the collection.
    pub fn aggregate(&self, pipeline: impl IntoPipeline) -> Aggregate<'_> {
        Aggregate::new(&self.target, pipeline)
    }

    /// Creates an index, while others read and write: `create_index(doc! { "year": 1 })`, or an [`IndexModel`] with
    /// options.
    pub fn create_index(&self, index: impl Into<IndexModel>) -> CreateIndexes<'_> {
        CreateIndexes::new(&self.target, [index.into()])
    }

    /// Creates several indexes: all of them or none.
    pub fn create_indexes(&self, indexes: impl IntoIterator<Item = IndexModel>) -> CreateIndexes<'_> {
        CreateIndexes::new(&self.target, indexes)
    }

    /// The indexes, as MongoDB's `listIndexes` shows them: `{ v: 2, key: { year: 1 }, name: "year_1" }`.
    ///
    /// # Errors
    /// `NamespaceNotFound` if the collection does not exist.
    pub fn list_indexes(&self) -> Result<Vec<Document>> {
        let indexes = self.target.outside("list_indexes")?.indexes()?;
        indexes.ok_or_else(|| {
            Error::command(
                crate::ErrorCode::NamespaceNotFound,
                format!("ns does not exist: {}", self.namespace()),
            )
        })
    }

    /// Drops the index of this name.
    ///
    /// # Errors
    /// `IndexNotFound`, `NamespaceNotFound`; `InvalidOptions` for the index on `_id`.
    pub fn drop_index(&self, name: &str) -> Result<()> {
        Ok(self.target.outside("drop_index")?.drop_index(name)?)
    }

    /// Creates an index of vectors, while others read and write.
    pub fn create_search_index(&self, index: impl Into<SearchIndexModel>) -> CreateSearchIndex<'_> {
        CreateSearchIndex::new(&self.target, index.into())
    }

    /// The indexes of vectors, as `$listSearchIndexes` shows them: `{ id: .., name: "by_meaning", type: "vectorSearch",
    /// status: "READY", queryable: true, latestDefinition: { fields: [..] } }`. The status of one that is being built is
    /// `BUILDING`.
    ///
    /// # Errors
    /// `NamespaceNotFound` if the collection does not exist.
    pub fn list_search_indexes(&self) -> Result<Vec<Document>> {
        vector_search::list(&self.target)
    }

    /// Gives the index of vectors of this name another definition: `doc! { "fields": [..] }`. It returns when the index
    /// is ready; until then searches use it as it was.
    ///
    /// # Errors
    /// `IndexNotFound`, `NamespaceNotFound`; `CannotCreateIndex` as for a new index.
    pub fn update_search_index(&self, name: &str, definition: Document) -> Result<()> {
        vector_search::update(&self.target, name, definition)
    }

    /// Drops the index of vectors of this name.
    ///
    /// # Errors
    /// `IndexNotFound`, `NamespaceNotFound`.
    pub fn drop_search_index(&self, name: &str) -> Result<()> {
        vector_search::drop(&self.target, name)
    }

    /// Finds the `limit` documents whose vectors are nearest to `vector`, by the index of vectors of this name. In a
    /// transaction its own changes are found.
    ///
    /// ```
    /// # use treedb_core::{Database, bson::{Document, doc}};
    /// # fn main() -> treedb_core::Result<()> {
    /// # let db = Database::in_memory()?;
    /// let places = db.collection::<Document>("places");
    /// places.create_search_index(doc! { "fields": [
    ///     { "type": "vector", "path": "at", "numDimensions": 2, "similarity": "euclidean" },
    /// ] }).run()?;
    /// places.insert_many([doc! { "_id": "a", "at": [0, 1] }, doc! { "_id": "b", "at": [5, 5] }]).run()?;
    /// let nearest = places.vector_search("at_vectorSearch", vec![4.0, 4.0], 1).run()?;
    /// assert_eq!(nearest[0].document.get_str("_id")?, "b");
    /// # Ok(())
    /// # }
    /// ```
    pub fn vector_search(
        &self,
        index: impl Into<String>,
        vector: impl Into<Vec<f32>>,
        limit: usize,
    ) -> VectorSearch<'_, T> {
        VectorSearch::new(&self.target, VectorSearchRequest::new(index, vector.into(), limit))
    }

    /// Searches by the index of vectors of this name, one after another, which find the `_id`s of the nearest documents and keep what they
    /// need: a search of an index in memory allocates nothing. Each thread has its own.
    ///
    /// ```
    /// # use treedb_core::{Database, bson::{Document, doc}};
    /// # fn main() -> treedb_core::Result<()> {
    /// # let db = Database::in_memory()?;
    /// # let places = db.collection::<Document>("places");
    /// # places.create_search_index(doc! { "fields": [
    /// #     { "type": "vector", "path": "at", "numDimensions": 2, "similarity": "euclidean" },
    /// # ] }).run()?;
    /// places.insert_many((0..100).map(|n| doc! { "_id": n, "at": [n, 0] })).run()?;
    /// let mut searcher = places.vector_searcher("at_vectorSearch")?;
    /// let mut found = Vec::new();
    /// for place in [50.2, 7.0] {
    ///     searcher.search(&[place, 0.0], 2, 100, |id, distance| found.push((id.as_i32(), distance)))?;
    /// }
    /// assert_eq!(found[2], (Some(7), 0.0));
    /// assert_eq!(found.len(), 4);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `OperationNotSupportedInTransaction`.
    pub fn vector_searcher(&self, index: &str) -> Result<VectorSearcher> {
        Ok(self.target.outside("vector_searcher")?.vector_searcher(index))
    }

    /// Finds the `limit` nearest documents to each of many vectors: in one snapshot, on all cores. In a transaction its own
    /// changes are found, on one core.
    ///
    /// ```
    /// # use treedb_core::{Database, bson::{Document, doc}};
    /// # fn main() -> treedb_core::Result<()> {
    /// # let db = Database::in_memory()?;
    /// # let places = db.collection::<Document>("places");
    /// # places.create_search_index(doc! { "fields": [
    /// #     { "type": "vector", "path": "at", "numDimensions": 2, "similarity": "euclidean" },
    /// # ] }).run()?;
    /// places.insert_many([doc! { "_id": "a", "at": [0, 1] }, doc! { "_id": "b", "at": [5, 5] }]).run()?;
    /// let found = places.vector_search_many("at_vectorSearch", [[4.0, 4.0], [0.0, 0.0]], 1).run()?;
    /// let ids: Vec<&str> = found.iter().map(|nearest| nearest[0].document.get_str("_id")).collect::<Result<_, _>>()?;
    /// assert_eq!(ids, ["b", "a"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn vector_search_many(
        &self,
        index: impl Into<String>,
        vectors: impl IntoIterator<Item = impl Into<Vec<f32>>>,
        limit: usize,
    ) -> VectorSearchMany<'_, T> {
        let search = VectorSearch::new(&self.target, VectorSearchRequest::new(index, Vec::new(), limit));
        VectorSearchMany::new(search, vectors.into_iter().map(Into::into).collect())
    }

    /// Measures the recall of every index of vectors: searches for the neighbours of about `searches` documents, and compares what the
    /// index finds with what comparing all documents finds, which takes as long as so many exact searches.
    ///
    /// ```
    /// # use treedb_core::{Database, bson::{Document, doc}};
    /// # fn main() -> treedb_core::Result<()> {
    /// # let db = Database::in_memory()?;
    /// # let places = db.collection::<Document>("places");
    /// # places.create_search_index(doc! { "fields": [
    /// #     { "type": "vector", "path": "at", "numDimensions": 2, "similarity": "euclidean" },
    /// # ] }).run()?;
    /// # places.insert_many((0..50).map(|n| doc! { "at": [n, n * n % 7] })).run()?;
    /// for measured in places.recall(20)? {
    ///     println!("{}: {:.3} with {} candidates", measured.index, measured.recall, measured.candidates);
    ///     assert!(measured.recall > 0.9);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NamespaceNotFound`.
    pub fn recall(&self, searches: usize) -> Result<Vec<Recall>> {
        Ok(self.target.outside("recall")?.recall(searches)?)
    }

    /// Drops the collection with its documents and indexes. It is no error if it does not exist.
    ///
    /// # Errors
    /// Those of the storage engine.
    pub fn drop(&self) -> Result<()> {
        self.target.outside("drop")?;
        self.target.database().drop_collection(self.namespace())?;
        Ok(())
    }

    /// Gives the collection another name, by which it is known from then on: `films`, in the database `test`, or `cinema.films`. With
    /// `drop_target` a collection that has the name is dropped.
    ///
    /// # Errors
    /// `NamespaceNotFound`, `NamespaceExists`, `IllegalOperation`.
    pub fn rename(&self, to: &str, drop_target: bool) -> Result<Collection<T>> {
        self.target.outside("rename")?;
        let renamed = Target::new(self.target.database().clone(), to, None);
        self.target.database().rename_collection(self.namespace(), renamed.name(), drop_target)?;
        Ok(Collection::new(renamed))
    }

    /// The documents of a capped collection (`create_collection` with the options `capped` and `size`) that match, in the order of their
    /// insertion, and those that are inserted later: see [`Tail::next_timeout`](crate::Tail::next_timeout).
    ///
    /// # Errors
    /// `BadValue` for a collection that is not capped; those of the filter.
    pub fn tail(&self, filter: impl IntoDocument) -> Result<crate::Tail> {
        let request = treedb_collections::FindRequest::filter(filter.into_document()?);
        Ok(self.target.outside("tail")?.tail(&request)?)
    }

    /// Watches the changes of the collection. The database must record changes: see
    /// [`Database::record_changes`](crate::Database::record_changes).
    pub fn watch(&self) -> Watch<'_, T> {
        Watch::new(&self.target)
    }

    /// The versions of the document with this `_id`, the oldest first, as far as the change log has them.
    ///
    /// # Errors
    /// `IllegalOperation` if changes are not recorded.
    pub fn history(&self, id: impl Into<bson::Bson>) -> Result<Vec<Revision>> {
        Ok(self.target.outside("history")?.history(id)?)
    }

    /// Inserts the document that `text` is in extended JSON (relaxed or canonical), and returns its `_id`. In a
    /// collection of the format `json` the text itself is stored.
    ///
    /// # Errors
    /// `FailedToParse` with line and column, and those of [`Self::insert_one`].
    pub fn insert_json(&self, text: &str) -> Result<bson::Bson> {
        Ok(self.target.outside("insert_json")?.insert_json(text)?)
    }
}
