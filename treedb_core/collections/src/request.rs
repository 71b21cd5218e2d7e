//! What the calls of a [`Collection`](crate::Collection) take and return.

use bson::{Bson, RawDocumentBuf, rawdoc};

use treedb_query::error::QueryError;
use treedb_query::query::{Changes, Hint};

use crate::changes::AsOf;

/// A search: which documents, in what order, how many, and which of their fields.
#[derive(Debug, Clone, Default)]
pub struct FindRequest {
    /// The filter; `None` for every document.
    pub filter: Option<RawDocumentBuf>,
    /// The order; `None` for whatever is quickest.
    pub sort: Option<RawDocumentBuf>,
    /// Documents left out at the front.
    pub skip: u64,
    /// Documents handed out at most; 0 for no limit.
    pub limit: u64,
    /// The fields handed out; `None` for all.
    pub projection: Option<RawDocumentBuf>,
    /// The index to use; `None` lets the planner choose.
    pub hint: Option<Hint>,
    /// The moment whose documents are searched; `None` for the present. It takes a scan of the collection.
    pub as_of: Option<AsOf>,
    /// How texts compare in filter and sort: `{ locale: "en", strength: 2 }`; `None` as the collection says, or by their
    /// bytes.
    pub collation: Option<RawDocumentBuf>,
    /// A sort that needs more than 100 MiB is refused instead of going on in scratch files.
    pub in_memory: bool,
}

impl FindRequest {
    /// Every document that `filter` matches.
    pub fn filter(filter: RawDocumentBuf) -> Self {
        FindRequest { filter: Some(filter), ..Self::default() }
    }

    /// The same, in the order of `sort`.
    pub fn sort(self, sort: RawDocumentBuf) -> Self {
        FindRequest { sort: Some(sort), ..self }
    }

    /// The same, `limit` documents at most.
    pub fn limit(self, limit: u64) -> Self {
        FindRequest { limit, ..self }
    }

    /// The same, without the first `skip` documents.
    pub fn skip(self, skip: u64) -> Self {
        FindRequest { skip, ..self }
    }

    /// The same, handing out the fields `projection` names.
    pub fn projection(self, projection: RawDocumentBuf) -> Self {
        FindRequest { projection: Some(projection), ..self }
    }

    /// The same, among the documents as they were at this moment: see
    /// [`Database::record_changes`](crate::Database::record_changes).
    pub fn as_of(self, at: AsOf) -> Self {
        FindRequest { as_of: Some(at), ..self }
    }

    /// The same, texts compared as `collation` says.
    pub fn collation(self, collation: RawDocumentBuf) -> Self {
        FindRequest { collation: Some(collation), ..self }
    }

    /// The same, refused with `QueryExceededMemoryLimitNoDiskUseAllowed` if a sort takes more than the memory there is
    /// for it.
    pub fn in_memory(self) -> Self {
        FindRequest { in_memory: true, ..self }
    }

    /// The same, using this index, given by its name or its key pattern; `$natural` for a collection scan.
    pub fn hint(self, index: impl Into<Hint>) -> Self {
        FindRequest { hint: Some(index.into()), ..self }
    }
}

/// A change of the documents that a filter matches.
#[derive(Debug, Clone)]
pub struct UpdateRequest {
    /// Which documents.
    pub filter: RawDocumentBuf,
    /// Operators, the new document, or the stages of a pipeline.
    pub update: Changes,
    /// The filters of the `$[id]`s in the update's paths.
    pub array_filters: Vec<RawDocumentBuf>,
    /// All of them, or the first found.
    pub multi: bool,
    /// Insert a document made of filter and update when none matches.
    pub upsert: bool,
    /// The index to find them by; `None` lets the planner choose.
    pub hint: Option<Hint>,
    /// How texts compare, in the filter and where operators of the update compare them:
    /// `{ locale: "en", strength: 2 }`; `None` as the collection says.
    pub collation: Option<RawDocumentBuf>,
}

impl UpdateRequest {
    /// Changes the first document found.
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
        }
    }

    /// Changes every document found.
    pub fn many(filter: RawDocumentBuf, update: impl Into<Changes>) -> Self {
        UpdateRequest { multi: true, ..Self::one(filter, update) }
    }

    /// The same, its `$[id]`s meaning the elements that `filters` match.
    pub fn array_filters(self, filters: Vec<RawDocumentBuf>) -> Self {
        UpdateRequest { array_filters: filters, ..self }
    }

    /// The same, inserting when none is found.
    pub fn upsert(self) -> Self {
        UpdateRequest { upsert: true, ..self }
    }

    /// The same, texts of the filter and of operators that compare them compared as `collation` says.
    pub fn collation(self, collation: RawDocumentBuf) -> Self {
        UpdateRequest { collation: Some(collation), ..self }
    }
}

/// What an update did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UpdateOutcome {
    /// Documents the filter matched.
    pub matched: u64,
    /// Documents that are different now.
    pub modified: u64,
    /// `_id` of the document an upsert inserted.
    pub upserted: Option<Bson>,
}

/// A deletion of the documents that a filter matches.
#[derive(Debug, Clone)]
pub struct DeleteRequest {
    /// Which documents.
    pub filter: RawDocumentBuf,
    /// Documents deleted at most; 0 for all.
    pub limit: u64,
    /// The index to find them by; `None` lets the planner choose.
    pub hint: Option<Hint>,
    /// How texts compare in the filter: `{ locale: "en", strength: 2 }`; `None` as the collection says.
    pub collation: Option<RawDocumentBuf>,
}

impl DeleteRequest {
    /// Deletes the first document found.
    pub fn one(filter: RawDocumentBuf) -> Self {
        DeleteRequest { filter, limit: 1, hint: None, collation: None }
    }

    /// Deletes every document found.
    pub fn many(filter: RawDocumentBuf) -> Self {
        DeleteRequest { filter, limit: 0, hint: None, collation: None }
    }

    /// The same, texts of the filter compared as `collation` says.
    pub fn collation(self, collation: RawDocumentBuf) -> Self {
        DeleteRequest { collation: Some(collation), ..self }
    }
}

/// A change of the first document that a search finds, which is handed out as it was before or is after.
#[derive(Debug, Clone, Default)]
pub struct FindAndModifyRequest {
    /// Which document, and which part of it to hand out. The first in the search's order; skip and limit say nothing.
    pub find: FindRequest,
    /// Operators, a replacement or a pipeline; `None` deletes the document.
    pub update: Option<Changes>,
    /// The filters of the `$[id]`s in the update's paths.
    pub array_filters: Vec<RawDocumentBuf>,
    /// Insert a document made of filter and update if none matches.
    pub upsert: bool,
    /// Hand out the document as it is after the change.
    pub after: bool,
}

/// What such a change did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FindAndModifyOutcome {
    /// The document, if there was one to hand out.
    pub document: Option<RawDocumentBuf>,
    /// A document matched.
    pub matched: bool,
    /// `_id` of the document an upsert inserted.
    pub upserted: Option<Bson>,
}

/// What an insert of several documents did.
#[derive(Debug, Default)]
pub struct InsertOutcome {
    /// Documents inserted.
    pub inserted: u64,
    /// Documents refused: their position in the request and why. At most one if the insert was ordered, the
    /// documents behind it not having been tried.
    pub errors: Vec<(usize, QueryError)>,
}

/// The filter that matches everything.
pub(crate) fn everything() -> RawDocumentBuf {
    rawdoc! {}
}
