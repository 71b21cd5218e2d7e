//! Indexes of vectors, and searches for the documents with the nearest ones.

use std::marker::PhantomData;
use std::ops::ControlFlow;

use bson::Document;
use serde::de::DeserializeOwned;
use treedb_collections::{IndexBuild, IndexSpec, NeighborRef, SearchWork, VectorSearchRequest};

use crate::convert::{Deferred, IntoDocument};
use crate::cursor::decode;
use crate::error::{Error, ErrorCode, Result};
use crate::index::OnProgress;
use crate::target::Target;

/// An index of vectors to create: its definition, in the words of MongoDB's `createSearchIndexes`, and its name.
///
/// ```
/// use treedb_core::{SearchIndexModel, bson::doc};
///
/// SearchIndexModel::new(doc! { "fields": [{
///     "type": "vector", "path": "embedding", "numDimensions": 384, "similarity": "cosine", "quantization": "scalar",
/// }] }).name("by_meaning");
/// ```
///
/// The similarity is `cosine`, `euclidean` or `dotProduct`, as in MongoDB, `manhattan` (the sum of absolute differences), or, of bits,
/// `hamming` (how many differ) or `jaccard` (1 minus the part that is set in both of those set in one). The quantization is
/// `scalar` (the default of MongoDB's three: a byte for each element is searched, and what is found is put in exact order by the vectors, which
/// are in memory too), `none`, or, for less memory, `binary`, `bits2` or `bits4`: 1, 2 or 4 bits for each element are searched, and what is found
/// is put in exact order by the documents.
/// `elements` are `float32`, or, rounded, `float16` or `bfloat16`; or `int8`: only vectors of whole numbers from -128 to 127 are in such an
/// index, and they are searched as they are.
///
/// A document is in the index if the field is an array of so many numbers, or binary data of subtype 9; or an array of such vectors, or
/// several of them in an array of documents (path `chunks.embedding`): then the nearest of them counts. An index takes 1,000
/// vectors of a document. Bits are binary data of subtype 9 with packed bits, or numbers that are 0 or 1.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchIndexModel {
    spec: Document,
}

impl SearchIndexModel {
    /// An index with this definition. Without a name it is called `PATH_vectorSearch`.
    pub fn new(definition: Document) -> Self {
        SearchIndexModel { spec: bson::doc! { "type": "vectorSearch", "definition": definition } }
    }

    /// Called `name`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.spec.insert("name", name.into());
        self
    }
}

impl From<Document> for SearchIndexModel {
    fn from(definition: Document) -> Self {
        SearchIndexModel::new(definition)
    }
}

/// The action of [`Collection::create_search_index`](crate::Collection::create_search_index).
#[must_use = "an action does nothing until it is run"]
pub struct CreateSearchIndex<'c> {
    target: &'c Target,
    index: SearchIndexModel,
    on_progress: OnProgress<'c>,
}

impl<'c> CreateSearchIndex<'c> {
    pub(crate) fn new(target: &'c Target, index: SearchIndexModel) -> Self {
        CreateSearchIndex { target, index, on_progress: Box::new(|_| {}) }
    }

    /// Calls `on_progress` while documents that are there are indexed: see [`CreateIndexes::on_progress`](crate::CreateIndexes::on_progress).
    pub fn on_progress(mut self, on_progress: impl FnMut(&IndexBuild) + 'c) -> Self {
        self.on_progress = Box::new(on_progress);
        self
    }

    /// Creates the index and returns its name, once it is ready: later searches find all documents. One that exists
    /// already is no error.
    ///
    /// # Errors
    /// `CannotCreateIndex` for a definition that is not complete or not supported; `IndexOptionsConflict`;
    /// `OperationNotSupportedInTransaction`.
    pub fn run(mut self) -> Result<String> {
        let collection = self.target.outside("create_search_index")?;
        let spec = IndexSpec::from_document(&self.index.spec.into_document()?);
        collection.create_indexes_with_progress(std::slice::from_ref(&spec), &mut self.on_progress)?;
        Ok(spec.index_name()?)
    }
}

/// A document that a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct Neighbor<T> {
    /// The document.
    pub document: T,
    /// Its distance by the similarity of the index: the smaller, the nearer.
    pub distance: f32,
    /// MongoDB's `vectorSearchScore`: the greater, the nearer.
    pub score: f64,
}

/// The documents that a search found, the nearest first, and what it did for that.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorAnswer<T> {
    /// The documents.
    pub neighbors: Vec<Neighbor<T>>,
    /// How they were found: which path led to them, how many vectors were compared, and why the search ended.
    pub work: SearchWork,
}

/// The action of [`Collection::vector_search`](crate::Collection::vector_search).
#[must_use = "an action does nothing until it is run"]
pub struct VectorSearch<'c, T> {
    target: &'c Target,
    request: VectorSearchRequest,
    deferred: Deferred,
    kind: PhantomData<fn() -> T>,
}

impl<'c, T> VectorSearch<'c, T> {
    pub(crate) fn new(target: &'c Target, request: VectorSearchRequest) -> Self {
        VectorSearch { target, request, deferred: Deferred::default(), kind: PhantomData }
    }

    /// Compares with the vectors of the field at `path`, which has to be said of an index of several.
    ///
    /// ```
    /// # use treedb_core::{Database, bson::{Document, doc}};
    /// # fn main() -> treedb_core::Result<()> {
    /// # let db = Database::in_memory()?;
    /// # let places = db.collection::<Document>("places");
    /// places.create_search_index(doc! { "fields": [
    ///     { "type": "vector", "path": "at", "numDimensions": 2, "similarity": "euclidean" },
    ///     { "type": "vector", "path": "look", "numDimensions": 3, "similarity": "cosine" },
    /// ] }).run()?;
    /// places.insert_one(doc! { "_id": 1, "at": [5, 5], "look": [0.2, 0.1, 0.9] }).run()?;
    /// let alike = places.vector_search("at_vectorSearch", [0.0, 0.0, 1.0], 1).path("look").run()?;
    /// assert_eq!(alike[0].document.get_i32("_id")?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.request.path = Some(path.into());
        self
    }

    /// Among the documents that match `filter`. As many are found as match, up to the limit.
    pub fn filter(mut self, filter: impl IntoDocument) -> Self {
        self.request.filter = self.deferred.take(filter);
        self
    }

    /// How many candidates the index keeps, at least the limit: the more, the better its recall, and the longer it
    /// takes. By default ten times the limit, and at least 100.
    pub fn num_candidates(mut self, candidates: usize) -> Self {
        self.request.candidates = Some(candidates);
        self
    }

    /// Only documents that are no farther than `distance`. There may be fewer than the limit; by the index, some near the distance may be
    /// missed, the fewer, the more candidates.
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
    /// let near = places.vector_search("at_vectorSearch", [50.2, 0.0], 1000).within(2.5).run()?;
    /// assert_eq!(near.len(), 5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn within(mut self, distance: f32) -> Self {
        self.request.within = Some(distance);
        self
    }

    /// Compares with the vectors of all documents instead of using the index's graph.
    pub fn exact(mut self) -> Self {
        self.request.exact = true;
        self
    }

    /// Strings of the filter are compared as this says: `doc! { "locale": "en", "strength": 2 }`.
    pub fn collation(mut self, collation: impl IntoDocument) -> Self {
        self.request.collation = self.deferred.take(collation);
        self
    }

    /// Only these fields of the documents, as a find with this projection returns them: `doc! { "embedding": 0 }`. Without their vectors the
    /// documents are found in much less time.
    ///
    /// ```
    /// # use treedb_core::{Database, bson::{Document, doc}};
    /// # fn main() -> treedb_core::Result<()> {
    /// # let db = Database::in_memory()?;
    /// # let places = db.collection::<Document>("places");
    /// # places.create_search_index(doc! { "fields": [
    /// #     { "type": "vector", "path": "at", "numDimensions": 2, "similarity": "euclidean" },
    /// # ] }).run()?;
    /// places.insert_many((0..100).map(|n| doc! { "_id": n, "name": "here", "at": [n, 0] })).run()?;
    /// let near = places.vector_search("at_vectorSearch", [50.2, 0.0], 1).projection(doc! { "at": 0 }).run()?;
    /// assert_eq!(near[0].document, doc! { "_id": 50, "name": "here" });
    /// # Ok(())
    /// # }
    /// ```
    pub fn projection(mut self, projection: impl IntoDocument) -> Self {
        self.request.projection = self.deferred.take(projection);
        self
    }

    /// The documents with the nearest vectors, the nearest first.
    ///
    /// # Errors
    /// `IndexNotFound`; `NamespaceNotFound`; `BadValue` for a vector that the index cannot compare, which says why, for a
    /// field that the index does not have, or none of several, for a limit of 0, for fewer candidates than the limit and for a distance that is not a number; [`Error::Bson`] if a document is
    /// no `T`.
    pub fn run(self) -> Result<Vec<Neighbor<T>>>
    where
        T: DeserializeOwned,
    {
        Ok(self.answer()?.neighbors)
    }

    /// The same documents, and what the search did for that.
    ///
    /// ```
    /// # use treedb_core::{Database, SearchPath, bson::{Document, doc}};
    /// # fn main() -> treedb_core::Result<()> {
    /// # let db = Database::in_memory()?;
    /// # let places = db.collection::<Document>("places");
    /// # places.create_search_index(doc! { "fields": [
    /// #     { "type": "vector", "path": "at", "numDimensions": 2, "similarity": "euclidean" },
    /// # ] }).run()?;
    /// places.insert_many((0..100).map(|n| doc! { "_id": n, "at": [n, 0] })).run()?;
    /// let answer = places.vector_search("at_vectorSearch", [50.2, 0.0], 3).exact().answer()?;
    /// assert_eq!((answer.neighbors.len(), answer.work.path), (3, SearchPath::AllDocuments));
    /// assert_eq!(answer.work.vectors_compared, 100);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn answer(self) -> Result<VectorAnswer<T>>
    where
        T: DeserializeOwned,
    {
        self.deferred.check()?;
        let answer = self.target.vector_search(&self.request)?;
        Ok(VectorAnswer { neighbors: decoded(answer.neighbors)?, work: answer.work })
    }

    /// Calls `visit` with each of the documents, the nearest first, until it breaks; returns what the search did. The documents are
    /// borrowed, as BSON: nothing is made a `T`, nor copied without a [projection](Self::projection), which takes much of the time of a search
    /// for documents with long vectors. In a transaction, which `visit` may use, they are copied first.
    ///
    /// ```
    /// # use std::ops::ControlFlow;
    /// # use treedb_core::{Database, bson::{Document, doc}};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let db = Database::in_memory()?;
    /// # let places = db.collection::<Document>("places");
    /// # places.create_search_index(doc! { "fields": [
    /// #     { "type": "vector", "path": "at", "numDimensions": 2, "similarity": "euclidean" },
    /// # ] }).run()?;
    /// places.insert_many((0..100).map(|n| doc! { "_id": n, "at": [n, 0] })).run()?;
    /// let mut ids = Vec::new();
    /// places.vector_search("at_vectorSearch", [50.2, 0.0], 3).for_each(|found| {
    ///     ids.extend(found.document.get_i32("_id").ok());
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!(ids, [50, 51, 49]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Self::run`] but [`Error::Bson`].
    pub fn for_each(self, mut visit: impl FnMut(NeighborRef<'_>) -> ControlFlow<()>) -> Result<SearchWork> {
        self.deferred.check()?;
        self.target.for_each_neighbor(&self.request, &mut visit)
    }
}

/// The action of [`Collection::vector_search_many`](crate::Collection::vector_search_many).
#[must_use = "an action does nothing until it is run"]
pub struct VectorSearchMany<'c, T> {
    /// The search for each of the vectors.
    search: VectorSearch<'c, T>,
    vectors: Vec<Vec<f32>>,
}

impl<'c, T> VectorSearchMany<'c, T> {
    pub(crate) fn new(search: VectorSearch<'c, T>, vectors: Vec<Vec<f32>>) -> Self {
        VectorSearchMany { search, vectors }
    }

    /// See [`VectorSearch::path`].
    pub fn path(self, path: impl Into<String>) -> Self {
        VectorSearchMany { search: self.search.path(path), ..self }
    }

    /// See [`VectorSearch::filter`].
    pub fn filter(self, filter: impl IntoDocument) -> Self {
        VectorSearchMany { search: self.search.filter(filter), ..self }
    }

    /// See [`VectorSearch::projection`].
    pub fn projection(self, projection: impl IntoDocument) -> Self {
        VectorSearchMany { search: self.search.projection(projection), ..self }
    }

    /// See [`VectorSearch::num_candidates`].
    pub fn num_candidates(self, candidates: usize) -> Self {
        VectorSearchMany { search: self.search.num_candidates(candidates), ..self }
    }

    /// See [`VectorSearch::exact`].
    pub fn exact(self) -> Self {
        VectorSearchMany { search: self.search.exact(), ..self }
    }

    /// See [`VectorSearch::collation`].
    pub fn collation(self, collation: impl IntoDocument) -> Self {
        VectorSearchMany { search: self.search.collation(collation), ..self }
    }

    /// For each vector, in their order, the documents with the nearest vectors, the nearest first.
    ///
    /// # Errors
    /// Those of [`VectorSearch::run`].
    pub fn run(self) -> Result<Vec<Vec<Neighbor<T>>>>
    where
        T: DeserializeOwned,
    {
        let VectorSearch { target, request, deferred, .. } = self.search;
        deferred.check()?;
        let request = |vector| VectorSearchRequest { vector, ..request.clone() };
        let requests: Vec<_> = self.vectors.into_iter().map(request).collect();
        target.vector_search_many(&requests)?.into_iter().map(decoded).collect()
    }
}

/// What was found, as values.
fn decoded<T: DeserializeOwned>(found: Vec<treedb_collections::Neighbor>) -> Result<Vec<Neighbor<T>>> {
    let decoded = |found: treedb_collections::Neighbor| {
        let document = decode(&found.document)?;
        Ok(Neighbor { document, distance: found.distance, score: found.score })
    };
    found.into_iter().map(decoded).collect()
}

/// The search indexes of a collection.
pub(crate) fn list(target: &Target) -> Result<Vec<Document>> {
    let Some(indexes) = target.outside("list_search_indexes")?.search_indexes()? else {
        let message = format!("ns does not exist: {}", target.name());
        return Err(Error::command(ErrorCode::NamespaceNotFound, message));
    };
    indexes.iter().map(|index| decode(&index.listed())).collect()
}

/// Gives a search index another definition.
pub(crate) fn update(target: &Target, name: &str, definition: Document) -> Result<()> {
    let definition = definition.into_document()?;
    Ok(target.outside("update_search_index")?.update_search_index(name, &definition)?)
}

/// Drops a search index; an index of another kind that has the name stays.
pub(crate) fn drop(target: &Target, name: &str) -> Result<()> {
    Ok(target.outside("drop_search_index")?.drop_search_index(name)?)
}
