//! The target of a write statement: a collection, a transaction, or a batch that is committed as one.

use std::borrow::Cow;

use bson::{RawBson, RawDocument};
use treedb_collections::{
    Collection, DeleteRequest, FindAndModifyOutcome, FindAndModifyRequest, Transaction,
    TransactionCollection, UpdateRequest, WriteBatch,
};

use treedb_query::doc::{Origin, with_current_timestamps};

use super::error::CommandError;

type Result<T> = std::result::Result<T, CommandError>;

/// The target of a write statement.
pub(crate) enum WriteTarget<'t> {
    /// The collection: each statement commits by itself.
    Collection(&'t Collection),
    /// A transaction. The collection provides name and indexes.
    Transaction(&'t mut Transaction, &'t Collection),
    /// A batch that is committed as one. The collection provides name and indexes.
    Batch(&'t mut WriteBatch, &'t Collection),
}

/// The outcome of a statement.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Outcome {
    /// Documents found, inserted, upserted or deleted.
    pub(crate) found: u64,
    /// Documents that were modified.
    pub(crate) modified: u64,
    /// `_id` of the document that an upsert inserted.
    pub(crate) upserted: Option<RawBson>,
}

impl WriteTarget<'_> {
    /// Inserts a document.
    pub(crate) fn insert(&mut self, document: &RawDocument, origin: Origin) -> Result<Outcome> {
        let document = match origin {
            Origin::Client => with_current_timestamps(document),
            Origin::Program | Origin::Validated => Cow::Borrowed(document),
        };
        let document = &*document;
        match self {
            WriteTarget::Collection(collection) => collection.insert_one(document)?,
            WriteTarget::Transaction(txn, collection) => part(txn, collection)?.insert_one(document)?,
            WriteTarget::Batch(batch, collection) => {
                writes(batch, collection).insert_one(collection.namespace().as_str(), document)?
            }
        };
        Ok(Outcome { found: 1, ..Outcome::default() })
    }

    /// Updates documents.
    pub(crate) fn update(&mut self, request: UpdateRequest) -> Result<Outcome> {
        let done = match self {
            WriteTarget::Collection(collection) => collection.update(request)?,
            WriteTarget::Transaction(txn, collection) => part(txn, collection)?.update(request)?,
            WriteTarget::Batch(batch, collection) => {
                writes(batch, collection).update(collection.namespace().as_str(), request)?
            }
        };
        let upserted = done.upserted.map(RawBson::try_from).transpose()?;
        let found = done.matched + u64::from(upserted.is_some());
        Ok(Outcome { found, modified: done.modified, upserted })
    }

    /// Deletes documents.
    pub(crate) fn delete(&mut self, request: DeleteRequest) -> Result<Outcome> {
        let found = match self {
            WriteTarget::Collection(collection) => collection.delete(request)?,
            WriteTarget::Transaction(txn, collection) => part(txn, collection)?.delete(request)?,
            WriteTarget::Batch(batch, collection) => {
                writes(batch, collection).delete(collection.namespace().as_str(), request)?
            }
        };
        Ok(Outcome { found, ..Outcome::default() })
    }

    /// Updates or deletes a document and returns it.
    pub(crate) fn find_and_modify(&mut self, request: FindAndModifyRequest) -> Result<FindAndModifyOutcome> {
        Ok(match self {
            WriteTarget::Collection(collection) => collection.find_and_modify(request)?,
            WriteTarget::Transaction(txn, collection) => part(txn, collection)?.find_and_modify(request)?,
            WriteTarget::Batch(batch, collection) => {
                writes(batch, collection).find_and_modify(collection.namespace().as_str(), request)?
            }
        })
    }
}

/// The collection in a transaction, with or without its validator.
fn part<'t>(txn: &'t mut Transaction, collection: &Collection) -> Result<TransactionCollection<'t>> {
    Ok(txn.collection(collection.namespace().as_str())?.validated(collection.validates()))
}

/// The batch, with or without the collection's validator.
fn writes<'b>(batch: &'b mut WriteBatch, collection: &Collection) -> &'b mut WriteBatch {
    batch.set_validation(collection.validates());
    batch
}

impl Outcome {
    /// True if something was written.
    pub(crate) fn wrote(&self) -> bool {
        self.found > 0 || self.modified > 0
    }
}
