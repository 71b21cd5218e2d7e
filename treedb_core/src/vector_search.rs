//! Indexes of vectors, and searches for the documents with the nearest ones.

use std::marker::PhantomData;

use bson::Document;
use serde::de::DeserializeOwned;
use treedb_collections::{IndexSpec, VectorSearchRequest};

use crate::convert::{Deferred, IntoDocument};
use crate::cursor::decode;
use crate::error::{Error, ErrorCode, Result};
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
/// The similarity is `cosine`, `euclidean` or `dotProduct`, the quantization `scalar` (the default: a byte for each
/// element is searched, and what is found is put in exact order) or `none`. A document is in the index if the field is
/// an array of so many numbers, or binary data of subtype 9.
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
}

impl<'c> CreateSearchIndex<'c> {
    pub(crate) fn new(target: &'c Target, index: SearchIndexModel) -> Self {
        CreateSearchIndex { target, index }
    }

    /// Creates the index and returns its name, once it is ready: later searches find all documents. One that exists
    /// already is no error.
    ///
    /// # Errors
    /// `CannotCreateIndex` for a definition that is not complete or not supported; `IndexOptionsConflict`;
    /// `OperationNotSupportedInTransaction`.
    pub fn run(self) -> Result<String> {
        let collection = self.target.outside("create_search_index")?;
        Ok(collection.create_index(IndexSpec::from_document(&self.index.spec.into_document()?))?)
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

    /// The documents with the nearest vectors, the nearest first.
    ///
    /// # Errors
    /// `IndexNotFound`; `NamespaceNotFound`; `BadValue` for a vector that the index cannot compare, which says why, for a
    /// limit of 0 and for fewer candidates than the limit; [`Error::Bson`] if a document is no `T`.
    pub fn run(self) -> Result<Vec<Neighbor<T>>>
    where
        T: DeserializeOwned,
    {
        self.deferred.check()?;
        let found = self.target.vector_search(&self.request)?.into_iter();
        let decoded = |found: treedb_collections::Neighbor| {
            let document = decode(&found.document)?;
            Ok(Neighbor { document, distance: found.distance, score: found.score })
        };
        found.map(decoded).collect()
    }
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
