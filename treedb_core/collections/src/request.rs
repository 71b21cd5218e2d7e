//! Arguments and results of the methods of a [`Collection`](crate::Collection).

use bson::{Bson, RawDocumentBuf, rawdoc};

use treedb_query::error::QueryError;
use treedb_query::query::{Changes, Hint, KeyBounds, Returns};

use crate::changes::AsOf;

/// A query: filter, sort order, skip, limit, projection.
#[derive(Debug, Clone, Default)]
pub struct FindRequest {
    /// The filter; `None` for every document.
    pub filter: Option<RawDocumentBuf>,
    /// The sort order; `None` for any.
    pub sort: Option<RawDocumentBuf>,
    /// Documents to skip.
    pub skip: u64,
    /// The most documents to return; 0 for no limit.
    pub limit: u64,
    /// The fields to return; `None` for all.
    pub projection: Option<RawDocumentBuf>,
    /// The index to use; `None` lets the planner choose.
    pub hint: Option<Hint>,
    /// The moment whose documents are searched; `None` for the present. It takes a scan of the collection: a hint that names an index is
    /// ignored.
    pub as_of: Option<AsOf>,
    /// The collation of filter and sort: `{ locale: "en", strength: 2 }`; `None` for the collection's default.
    pub collation: Option<RawDocumentBuf>,
    /// Refuses a sort that needs more than 100 MiB, instead of using temporary files.
    pub in_memory: bool,
    /// Variables that the expressions of filter and projection, and of an update, may use as `$$name`: a document of expressions.
    pub variables: Option<RawDocumentBuf>,
    /// Bounds of the keys of the index that the hint names.
    pub bounds: KeyBounds,
    /// What is returned of each document.
    pub returns: Returns,
}

impl FindRequest {
    /// The documents that match `filter`.
    pub fn filter(filter: RawDocumentBuf) -> Self {
        FindRequest { filter: Some(filter), ..Self::default() }
    }

    /// Sets the sort order.
    pub fn sort(self, sort: RawDocumentBuf) -> Self {
        FindRequest { sort: Some(sort), ..self }
    }

    /// Sets the limit.
    pub fn limit(self, limit: u64) -> Self {
        FindRequest { limit, ..self }
    }

    /// Sets the number of documents to skip.
    pub fn skip(self, skip: u64) -> Self {
        FindRequest { skip, ..self }
    }

    /// Sets the projection.
    pub fn projection(self, projection: RawDocumentBuf) -> Self {
        FindRequest { projection: Some(projection), ..self }
    }

    /// Reads the collection as of an earlier change or time: see
    /// [`Database::record_changes`](crate::Database::record_changes).
    pub fn as_of(self, at: AsOf) -> Self {
        FindRequest { as_of: Some(at), ..self }
    }

    /// Sets the collation.
    pub fn collation(self, collation: RawDocumentBuf) -> Self {
        FindRequest { collation: Some(collation), ..self }
    }

    /// Sets the variables that expressions may use.
    pub fn variables(self, variables: RawDocumentBuf) -> Self {
        FindRequest { variables: Some(variables), ..self }
    }

    /// Refuses a sort that exceeds the memory limit with `QueryExceededMemoryLimitNoDiskUseAllowed`.
    pub fn in_memory(self) -> Self {
        FindRequest { in_memory: true, ..self }
    }

    /// The same, using this index, given by its name or its key pattern; `$natural` for a collection scan.
    pub fn hint(self, index: impl Into<Hint>) -> Self {
        FindRequest { hint: Some(index.into()), ..self }
    }
}

/// A search for the documents with the nearest vectors.
#[derive(Debug, Clone)]
pub struct VectorSearchRequest {
    /// The name of the vector index.
    pub index: String,
    /// The field, of an index of several; `None` for the only one.
    pub path: Option<String>,
    /// The vector to compare with, with as many dimensions as the index has.
    pub vector: Vec<f32>,
    /// The most documents to return; at least 1.
    pub limit: usize,
    /// Rows that the index looks at, at least `limit`: the more, the better the answer, and the longer it takes. `None`: ten times
    /// `limit`, and at least 100.
    pub candidates: Option<usize>,
    /// Compares with all documents, without the index's graph.
    pub exact: bool,
    /// The greatest distance of a document; `None` for any. Without `candidates`, the index is asked for 100 rows at a time then.
    pub within: Option<f32>,
    /// The filter; `None` for every document.
    pub filter: Option<RawDocumentBuf>,
    /// The collation of the filter; `None` for the collection's default.
    pub collation: Option<RawDocumentBuf>,
    /// The fields to return; `None` for all.
    pub projection: Option<RawDocumentBuf>,
}

impl VectorSearchRequest {
    /// The `limit` documents that are nearest to `vector` by this index.
    pub fn new(index: impl Into<String>, vector: Vec<f32>, limit: usize) -> Self {
        let (index, candidates, exact, within) = (index.into(), None, false, None);
        let (path, filter, collation, projection) = (None, None, None, None);
        VectorSearchRequest {
            index,
            path,
            vector,
            limit,
            candidates,
            exact,
            within,
            filter,
            collation,
            projection,
        }
    }

    /// Compares with the vectors of this field, of an index of several.
    pub fn path(self, path: impl Into<String>) -> Self {
        VectorSearchRequest { path: Some(path.into()), ..self }
    }

    /// Returns only documents that match `filter`.
    pub fn filter(self, filter: RawDocumentBuf) -> Self {
        VectorSearchRequest { filter: Some(filter), ..self }
    }

    /// Returns only the fields of the documents that a find with this projection would.
    pub fn projection(self, projection: RawDocumentBuf) -> Self {
        VectorSearchRequest { projection: Some(projection), ..self }
    }

    /// Sets how many rows the index looks at.
    pub fn candidates(self, candidates: usize) -> Self {
        VectorSearchRequest { candidates: Some(candidates), ..self }
    }

    /// Compares with all documents.
    pub fn exact(self) -> Self {
        VectorSearchRequest { exact: true, ..self }
    }

    /// Returns only documents that are no farther than `distance`: by the index, some near it may be missed.
    pub fn within(self, distance: f32) -> Self {
        VectorSearchRequest { within: Some(distance), ..self }
    }
}

/// An update of the documents that match a filter.
#[derive(Debug, Clone)]
pub struct UpdateRequest {
    /// The filter.
    pub filter: RawDocumentBuf,
    /// Update operators, a replacement document or a pipeline.
    pub update: Changes,
    /// The filters for `$[identifier]` in the update's paths.
    pub array_filters: Vec<RawDocumentBuf>,
    /// Update all documents that match, not only the first found.
    pub multi: bool,
    /// Insert a document made from filter and update if none matches.
    pub upsert: bool,
    /// The index to find them by; `None` lets the planner choose.
    pub hint: Option<Hint>,
    /// How strings are compared, in the filter and by operators of the update:
    /// `{ locale: "en", strength: 2 }`; `None` for the collation of the collection.
    pub collation: Option<RawDocumentBuf>,
    /// Which of the documents is the first; `None` for any. Not with `multi`.
    pub sort: Option<RawDocumentBuf>,
    /// Variables that the expressions of the filter and of a pipeline may use as `$$name`: a document of expressions.
    pub variables: Option<RawDocumentBuf>,
}

impl UpdateRequest {
    /// Updates the first document found.
    pub fn one(filter: RawDocumentBuf, update: impl Into<Changes>) -> Self {
        let update = update.into();
        let array_filters = Vec::new();
        UpdateRequest {
            filter,
            update,
            array_filters,
            multi: false,
            upsert: false,
            hint: None,
            collation: None,
            sort: None,
            variables: None,
        }
    }

    /// Updates all documents that match.
    pub fn many(filter: RawDocumentBuf, update: impl Into<Changes>) -> Self {
        UpdateRequest { multi: true, ..Self::one(filter, update) }
    }

    /// Sets the filters for `$[identifier]`.
    pub fn array_filters(self, filters: Vec<RawDocumentBuf>) -> Self {
        UpdateRequest { array_filters: filters, ..self }
    }

    /// Sets the order in which the first document is found.
    pub fn sort(self, sort: RawDocumentBuf) -> Self {
        UpdateRequest { sort: Some(sort), ..self }
    }

    /// Sets the variables that expressions may use.
    pub fn variables(self, variables: RawDocumentBuf) -> Self {
        UpdateRequest { variables: Some(variables), ..self }
    }

    /// Inserts a document if none matches.
    pub fn upsert(self) -> Self {
        UpdateRequest { upsert: true, ..self }
    }

    /// Sets the collation.
    pub fn collation(self, collation: RawDocumentBuf) -> Self {
        UpdateRequest { collation: Some(collation), ..self }
    }
}

/// The result of an update.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UpdateOutcome {
    /// Documents that matched.
    pub matched: u64,
    /// Documents that were changed.
    pub modified: u64,
    /// The `_id` of the document that an upsert inserted.
    pub upserted: Option<Bson>,
}

/// A deletion of the documents that match a filter.
#[derive(Debug, Clone)]
pub struct DeleteRequest {
    /// The filter.
    pub filter: RawDocumentBuf,
    /// The most documents to delete; 0 for all.
    pub limit: u64,
    /// The index to find them by; `None` lets the planner choose.
    pub hint: Option<Hint>,
    /// How strings are compared in the filter: `{ locale: "en", strength: 2 }`; `None` for the collation of
    /// the collection.
    pub collation: Option<RawDocumentBuf>,
    /// Variables that the expressions of the filter may use as `$$name`: a document of expressions.
    pub variables: Option<RawDocumentBuf>,
}

impl DeleteRequest {
    /// Deletes the first document found.
    pub fn one(filter: RawDocumentBuf) -> Self {
        DeleteRequest { limit: 1, ..Self::many(filter) }
    }

    /// Deletes all documents that match.
    pub fn many(filter: RawDocumentBuf) -> Self {
        DeleteRequest { filter, limit: 0, hint: None, collation: None, variables: None }
    }

    /// Sets the collation.
    pub fn collation(self, collation: RawDocumentBuf) -> Self {
        DeleteRequest { collation: Some(collation), ..self }
    }
}

/// An update or deletion of the first document found, which is returned as it was before or as it is after.
#[derive(Debug, Clone, Default)]
pub struct FindAndModifyRequest {
    /// The query that finds the document, and the projection of the result. Skip and limit are ignored.
    pub find: FindRequest,
    /// Update operators, a replacement document or a pipeline; `None` deletes the document.
    pub update: Option<Changes>,
    /// The filters for `$[identifier]` in the update's paths.
    pub array_filters: Vec<RawDocumentBuf>,
    /// Insert a document made from filter and update if none matches.
    pub upsert: bool,
    /// Return the document as it is after the change.
    pub after: bool,
}

/// The result of a [`FindAndModifyRequest`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FindAndModifyOutcome {
    /// The document, if there is one to return.
    pub document: Option<RawDocumentBuf>,
    /// A document matched.
    pub matched: bool,
    /// The `_id` of the document that an upsert inserted.
    pub upserted: Option<Bson>,
}

/// The result of an insert of several documents.
#[derive(Debug, Default)]
pub struct InsertOutcome {
    /// Documents inserted.
    pub inserted: u64,
    /// Refused documents: position in the request, and error. At most one if the insert was ordered, because the
    /// documents after it were not tried.
    pub errors: Vec<(usize, QueryError)>,
}

/// The filter that matches all documents.
pub(crate) fn empty_filter() -> RawDocumentBuf {
    rawdoc! {}
}
