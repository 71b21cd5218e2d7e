//! Updating and replacing documents.

use bson::{Bson, RawDocument};
use serde::Serialize;
use treedb_collections::UpdateRequest;
use treedb_query::query::Changes;

use crate::Hint;
use crate::convert::{Deferred, IntoDocument, IntoPipeline, UpdateModifications};
use crate::error::{Error, ErrorCode, Result};
use crate::insert::encode;
use crate::target::Target;

/// The action of [`Collection::update_one`](crate::Collection::update_one) and
/// [`update_many`](crate::Collection::update_many).
#[must_use = "an action does nothing until it is run"]
pub struct Update<'c> {
    target: &'c Target,
    request: Result<UpdateRequest>,
    deferred: Deferred,
}

impl<'c> Update<'c> {
    pub(crate) fn new(
        target: &'c Target,
        filter: impl IntoDocument,
        update: UpdateModifications,
        multi: bool,
    ) -> Self {
        let request = operators(update).and_then(|changes| {
            Ok(UpdateRequest { multi, ..UpdateRequest::one(filter.into_document()?, changes) })
        });
        Update { target, request, deferred: Deferred::default() }
    }

    /// Inserts a document made of filter and update if none matches.
    pub fn upsert(self, upsert: bool) -> Self {
        self.set(|request, _| request.upsert = upsert)
    }

    /// The conditions of the elements that `$[name]` in the update's paths stands for.
    pub fn array_filters(self, filters: impl IntoPipeline) -> Self {
        let filters = filters.into_pipeline();
        let request =
            self.request.and_then(|request| Ok(UpdateRequest { array_filters: filters?, ..request }));
        Update { request, ..self }
    }

    /// Finds the documents with the index of this name or key pattern.
    pub fn hint(self, index: impl Into<Hint>) -> Self {
        self.set(|request, _| request.hint = Some(index.into()))
    }

    /// Strings are compared as this says.
    pub fn collation(self, collation: impl IntoDocument) -> Self {
        self.set(|request, deferred| request.collation = deferred.take(collation))
    }

    /// Of several documents that match, the first of this order is updated. Not by `update_many`.
    pub fn sort(self, sort: impl IntoDocument) -> Self {
        self.set(|request, deferred| request.sort = deferred.take(sort))
    }

    /// Variables that expressions in the filter and in a pipeline may use as `$$name`.
    pub fn let_vars(self, variables: impl IntoDocument) -> Self {
        self.set(|request, deferred| request.variables = deferred.take(variables))
    }

    fn set(mut self, change: impl FnOnce(&mut UpdateRequest, &mut Deferred)) -> Self {
        if let Ok(request) = &mut self.request {
            change(request, &mut self.deferred);
        }
        self
    }

    /// Updates the documents: all of them, or none if there is an error.
    ///
    /// # Errors
    /// [`Error::DuplicateKey`], [`Error::Validation`], and codes that name the operator and field.
    pub fn run(self) -> Result<UpdateResult> {
        self.deferred.check()?;
        Ok(UpdateResult::from(self.target.update(self.request?)?))
    }
}

/// The action of [`Collection::replace_one`](crate::Collection::replace_one).
#[must_use = "an action does nothing until it is run"]
pub struct Replace<'c>(Update<'c>);

impl<'c> Replace<'c> {
    pub(crate) fn new(target: &'c Target, filter: impl IntoDocument, replacement: &impl Serialize) -> Self {
        let request =
            whole(replacement).and_then(|changes| Ok(UpdateRequest::one(filter.into_document()?, changes)));
        Replace(Update { target, request, deferred: Deferred::default() })
    }

    /// Inserts the replacement if no document matches.
    pub fn upsert(self, upsert: bool) -> Self {
        Replace(self.0.upsert(upsert))
    }

    /// Finds the document with the index of this name or key pattern.
    pub fn hint(self, index: impl Into<Hint>) -> Self {
        Replace(self.0.hint(index))
    }

    /// Strings of the filter are compared as this says.
    pub fn collation(self, collation: impl IntoDocument) -> Self {
        Replace(self.0.collation(collation))
    }

    /// Replaces the document.
    ///
    /// # Errors
    /// As [`Update::run`]; `ImmutableField` for another `_id`.
    pub fn run(self) -> Result<UpdateResult> {
        self.0.run()
    }
}

/// What an update did.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct UpdateResult {
    /// Documents that the filter matched.
    pub matched_count: u64,
    /// Documents that are different now.
    pub modified_count: u64,
    /// The `_id` of the document that an upsert inserted.
    pub upserted_id: Option<Bson>,
}

impl From<treedb_collections::UpdateOutcome> for UpdateResult {
    fn from(done: treedb_collections::UpdateOutcome) -> Self {
        UpdateResult {
            matched_count: done.matched,
            modified_count: done.modified,
            upserted_id: done.upserted,
        }
    }
}

fn begins_with_operator(document: &RawDocument) -> bool {
    document.iter().next().is_some_and(|field| field.is_ok_and(|(name, _)| name.as_str().starts_with('$')))
}

/// An update by operators or by a pipeline: a whole document is [`replace_one`](crate::Collection::replace_one)'s.
pub(crate) fn operators(update: UpdateModifications) -> Result<Changes> {
    match update.0? {
        Changes::Document(document) if !begins_with_operator(&document) => Err(Error::command(
            ErrorCode::BadValue,
            "an update needs operators such as $set: use replace_one to put a document in another's place",
        )),
        changes => Ok(changes),
    }
}

/// A document that takes another's place.
pub(crate) fn whole(replacement: &impl Serialize) -> Result<Changes> {
    let document = encode(replacement)?;
    if begins_with_operator(&document) {
        let message =
            "a replacement is a document without operators: use update_one for operators such as $set";
        return Err(Error::command(ErrorCode::BadValue, message));
    }
    Ok(Changes::Document(document))
}
