//! Inserting documents.

use std::borrow::{Borrow, Cow};
use std::collections::{BTreeMap, BTreeSet};

use bson::{Bson, RawDocumentBuf};
use serde::Serialize;

use crate::error::{Error, InsertManyError, Result};
use crate::target::Target;

/// The action of [`Collection::insert_one`](crate::Collection::insert_one).
#[must_use = "an action does nothing until it is run"]
pub struct InsertOne<'c> {
    target: &'c Target,
    document: Result<RawDocumentBuf>,
}

impl<'c> InsertOne<'c> {
    pub(crate) fn new(target: &'c Target, document: &impl Serialize) -> Self {
        InsertOne { target, document: encode(document) }
    }

    /// Inserts the document. Without an `_id` it is given an `ObjectId`.
    ///
    /// # Errors
    /// [`Error::DuplicateKey`], [`Error::Validation`], [`Error::Bson`] if the value is no document, and codes such as
    /// `BSONObjectTooLarge` (16 MiB).
    pub fn run(self) -> Result<InsertOneResult> {
        Ok(InsertOneResult { inserted_id: self.target.insert_one(&self.document?)? })
    }
}

/// What an `insert_one` did.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct InsertOneResult {
    /// The `_id` of the document.
    pub inserted_id: Bson,
}

/// The action of [`Collection::insert_many`](crate::Collection::insert_many).
#[must_use = "an action does nothing until it is run"]
pub struct InsertMany<'c> {
    target: &'c Target,
    documents: Result<Vec<RawDocumentBuf>>,
    ordered: bool,
}

impl<'c> InsertMany<'c> {
    pub(crate) fn new<T: Serialize>(
        target: &'c Target,
        documents: impl Iterator<Item = impl Borrow<T>>,
    ) -> Self {
        let documents = documents.map(|document| encode_with_id(document.borrow())).collect();
        InsertMany { target, documents, ordered: true }
    }

    /// Whether the first document that is refused ends the insert, as it does by default.
    pub fn ordered(mut self, ordered: bool) -> Self {
        self.ordered = ordered;
        self
    }

    /// Inserts the documents, in one commit.
    ///
    /// # Errors
    /// [`Error::InsertMany`] if documents were refused, which tells what was inserted; in a transaction the error of
    /// the first refused document.
    pub fn run(self) -> Result<InsertManyResult> {
        let documents = self.documents?;
        let outcome = self.target.insert_many(&documents, self.ordered)?;
        // Where an ordered insert has stopped, nothing after the refused document was tried.
        let stopped = match outcome.errors.first() {
            Some((at, _)) if self.ordered => *at,
            _ => documents.len(),
        };
        let refused: BTreeSet<usize> = outcome.errors.iter().map(|(at, _)| *at).collect();
        let mut inserted_ids = BTreeMap::new();
        for (at, document) in documents.iter().enumerate().take(stopped) {
            if !refused.contains(&at) {
                inserted_ids
                    .insert(at, document.get("_id")?.map(Bson::try_from).transpose()?.unwrap_or(Bson::Null));
            }
        }
        if outcome.errors.is_empty() {
            return Ok(InsertManyResult { inserted_ids });
        }
        let not_tried = documents.len() - inserted_ids.len() - outcome.errors.len();
        let errors = outcome.errors.into_iter().map(|(at, error)| (at, error.into())).collect();
        Err(Error::InsertMany(Box::new(InsertManyError { inserted_ids, errors, not_tried })))
    }
}

/// What an `insert_many` did.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct InsertManyResult {
    /// The `_id`s of the documents, by position.
    pub inserted_ids: BTreeMap<usize, Bson>,
}

/// A value as a document.
pub(crate) fn encode(value: &impl Serialize) -> Result<RawDocumentBuf> {
    Ok(bson::serialize_to_raw_document_buf(value)?)
}

/// A value as a document whose `_id` is known and in the first place.
fn encode_with_id(value: &impl Serialize) -> Result<RawDocumentBuf> {
    let document = encode(value)?;
    // Owned if an `_id` was added or moved; otherwise the document is what it was and need not be copied. One that is not
    // valid stays as it is, for the insert to refuse it by its position.
    let changed = match treedb_query::doc::with_id(&document) {
        Ok(Cow::Owned(changed)) => Some(changed),
        Ok(Cow::Borrowed(_)) | Err(_) => None,
    };
    Ok(changed.unwrap_or(document))
}
