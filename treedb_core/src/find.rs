//! Finding, counting, distinct values.

use std::marker::PhantomData;
use std::ops::ControlFlow;

use bson::{Bson, Document, RawDocument};
use serde::de::DeserializeOwned;
use treedb_collections::FindRequest;

use crate::AsOf;
use crate::Hint;
use crate::convert::{Deferred, IntoDocument};
use crate::cursor::{Cursor, decode};
use crate::error::Result;
use crate::target::Target;

/// A search that is put together.
struct Search<'c> {
    target: &'c Target,
    request: FindRequest,
    deferred: Deferred,
}

impl<'c> Search<'c> {
    fn new(target: &'c Target, filter: impl IntoDocument) -> Self {
        let mut deferred = Deferred::default();
        let request = FindRequest { filter: deferred.take(filter), ..FindRequest::default() };
        Search { target, request, deferred }
    }

    fn ready(self) -> Result<(&'c Target, FindRequest)> {
        self.deferred.check()?;
        Ok((self.target, self.request))
    }
}

/// Options of a search, as methods of an action that has a field `search`.
macro_rules! options {
    (sort) => {
        /// In this order: `doc! { "year": -1, "title": 1 }`.
        pub fn sort(mut self, sort: impl IntoDocument) -> Self {
            self.search.request.sort = self.search.deferred.take(sort);
            self
        }
    };
    (skip) => {
        /// Without the first `skip` documents.
        pub fn skip(mut self, skip: u64) -> Self {
            self.search.request.skip = skip;
            self
        }
    };
    (limit) => {
        /// At most `limit` documents; 0 for all.
        pub fn limit(mut self, limit: u64) -> Self {
            self.search.request.limit = limit;
            self
        }
    };
    (projection) => {
        /// With these fields: `doc! { "title": 1, "_id": 0 }`.
        pub fn projection(mut self, projection: impl IntoDocument) -> Self {
            self.search.request.projection = self.search.deferred.take(projection);
            self
        }
    };
    (hint) => {
        /// With the index of this name or key pattern, or with none (`$natural`).
        pub fn hint(mut self, index: impl Into<Hint>) -> Self {
            self.search.request.hint = Some(index.into());
            self
        }
    };
    (collation) => {
        /// Strings are compared as this says: `doc! { "locale": "en", "strength": 2 }`.
        pub fn collation(mut self, collation: impl IntoDocument) -> Self {
            self.search.request.collation = self.search.deferred.take(collation);
            self
        }
    };
    (let_vars) => {
        /// Variables that expressions in the filter and the projection may use as `$$name`.
        pub fn let_vars(mut self, variables: impl IntoDocument) -> Self {
            self.search.request.variables = self.search.deferred.take(variables);
            self
        }
    };
    (as_of) => {
        /// Among the documents as they were at that time, as far as the change log has them. There are no indexes of that time: a hint that
        /// names one is ignored.
        pub fn as_of(mut self, moment: AsOf) -> Self {
            self.search.request.as_of = Some(moment);
            self
        }
    };
    ($($option:ident)*) => { $(options!($option);)* };
}

/// The action of [`Collection::find`](crate::Collection::find).
#[must_use = "an action does nothing until it is run"]
pub struct Find<'c, T> {
    search: Search<'c>,
    kind: PhantomData<fn() -> T>,
}

impl<'c, T> Find<'c, T> {
    pub(crate) fn new(target: &'c Target, filter: impl IntoDocument) -> Self {
        Find { search: Search::new(target, filter), kind: PhantomData }
    }

    options!(sort skip limit projection hint collation let_vars as_of);

    /// From this key of the index on that [`Self::hint`] names: a value for each of its fields.
    pub fn min(mut self, key: impl IntoDocument) -> Self {
        self.search.request.bounds.min = self.search.deferred.take(key);
        self
    }

    /// Up to this key of that index, and without it.
    pub fn max(mut self, key: impl IntoDocument) -> Self {
        self.search.request.bounds.max = self.search.deferred.take(key);
        self
    }

    /// Whether a sort that needs more than 100 MiB may use temporary files, as it may by default.
    pub fn allow_disk_use(mut self, allow: bool) -> Self {
        self.search.request.in_memory = !allow;
        self
    }

    /// The documents, as a cursor over a snapshot of now. A collection that does not exist is empty.
    ///
    /// # Errors
    /// `BadValue` and others, naming the field of filter, sort or projection.
    pub fn run(self) -> Result<Cursor<T>> {
        let (target, request) = self.search.ready()?;
        Ok(Cursor::new(target.find(request)?))
    }

    /// Calls `visit` with each document, until it breaks. The document is borrowed from the database's file where that is
    /// possible, so that nothing is copied.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn for_each(self, mut visit: impl FnMut(&RawDocument) -> ControlFlow<()>) -> Result<()> {
        let (target, request) = self.search.ready()?;
        target.for_each(request, &mut |document| Ok(visit(document)))
    }

    /// The documents as extended JSON. In a collection of the format `json`, without a projection, it is the text that
    /// was inserted.
    ///
    /// # Errors
    /// As [`Self::run`]; `OperationNotSupportedInTransaction` in a transaction.
    pub fn json(self) -> Result<impl Iterator<Item = Result<String>>> {
        let (target, request) = self.search.ready()?;
        Ok(target.outside("find as JSON")?.find_json(request)?.map(|text| Ok(text?)))
    }

    /// How the find would be carried out, as MongoDB's `explain` shows it, with the work it takes: it is run to its end.
    ///
    /// # Errors
    /// As [`Self::run`]; `OperationNotSupportedInTransaction` in a transaction.
    pub fn explain(self) -> Result<Document> {
        let (target, request) = self.search.ready()?;
        decode(&target.outside("explain")?.explain_find(&request, false, true)?)
    }
}

/// The action of [`Collection::find_one`](crate::Collection::find_one).
#[must_use = "an action does nothing until it is run"]
pub struct FindOne<'c, T> {
    search: Search<'c>,
    kind: PhantomData<fn() -> T>,
}

impl<'c, T> FindOne<'c, T> {
    pub(crate) fn new(target: &'c Target, filter: impl IntoDocument) -> Self {
        FindOne { search: Search::new(target, filter), kind: PhantomData }
    }

    options!(sort skip projection hint collation as_of);

    /// The first document; `None` if none matches.
    ///
    /// # Errors
    /// As [`Find::run`], and [`Error::Bson`](crate::Error::Bson) if the document is no `T`.
    pub fn run(self) -> Result<Option<T>>
    where
        T: DeserializeOwned,
    {
        let (target, request) = self.search.ready()?;
        target.find_one(request)?.map(|document| decode(&document)).transpose()
    }
}

/// The action of [`Collection::count_documents`](crate::Collection::count_documents).
#[must_use = "an action does nothing until it is run"]
pub struct CountDocuments<'c> {
    search: Search<'c>,
}

impl<'c> CountDocuments<'c> {
    pub(crate) fn new(target: &'c Target, filter: impl IntoDocument) -> Self {
        CountDocuments { search: Search::new(target, filter) }
    }

    options!(skip limit hint collation as_of);

    /// How many documents match.
    ///
    /// # Errors
    /// As [`Find::run`].
    pub fn run(self) -> Result<u64> {
        let (target, request) = self.search.ready()?;
        target.count(request)
    }
}

/// The action of [`Collection::distinct`](crate::Collection::distinct).
#[must_use = "an action does nothing until it is run"]
pub struct Distinct<'c> {
    search: Search<'c>,
    path: String,
}

impl<'c> Distinct<'c> {
    pub(crate) fn new(target: &'c Target, path: String, filter: impl IntoDocument) -> Self {
        Distinct { search: Search::new(target, filter), path }
    }

    options!(hint collation as_of);

    /// The values. Those that compare equal are one, an array counts with its elements, and a missing field has none.
    ///
    /// # Errors
    /// As [`Find::run`]; `Location17217` if the values take more than 16 MiB.
    pub fn run(self) -> Result<Vec<Bson>> {
        let (target, request) = self.search.ready()?;
        let values = target.distinct(&self.path, request)?;
        values.into_iter().map(|value| Ok(Bson::try_from(value?)?)).collect()
    }
}
