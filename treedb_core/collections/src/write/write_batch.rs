//! A write batch: statements over several collections that run one after another and are committed as one.
//!
//! A [`WriteBatch`] holds the write lock from beginning to end. Its statements write directly, so no work is repeated, but other writers
//! wait: it is for statements that are known in advance. A [`Transaction`](crate::Transaction) is for statements with other work in
//! between. If the first statement changes a document that an open transaction has changed, it waits for that, without the lock; a later
//! one fails with `WriteConflict`, for the transaction could not commit while the batch is there.

use std::collections::BTreeMap;
use std::sync::Arc;

use bson::{Bson, Document, RawDocument};

use treedb_query::access::Sink;
use treedb_query::doc::{Origin, with_id};
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_storage::{Durability, WriteTxn};

use crate::catalog::meta::Meta;
use crate::catalog::namespace::Namespace;
use crate::database::Database;
use crate::request::{
    DeleteRequest, FindAndModifyOutcome, FindAndModifyRequest, InsertOutcome, UpdateOutcome, UpdateRequest,
};
use crate::transaction::{Turn, conflict};
use crate::write::edit::Edit;
use crate::write::statement::{self, DeleteStatement, FindAndModifyStatement, UpdateStatement, id_of};

/// Statements committed as one; see [`Database::write_batch`]. The methods and their errors are those of
/// [`Collection`](crate::Collection). After an error other than a refused document the batch cannot be committed. Dropping it
/// rolls everything back.
pub struct WriteBatch {
    db: Database,
    /// `None` after an error of beginning it again.
    txn: Option<WriteTxn>,
    /// The catalog's generation when it began.
    generation: u64,
    /// The collections it has written to, in their present state.
    metas: BTreeMap<Namespace, Arc<Meta>>,
    /// Documents inserted, updated and deleted.
    changes: u64,
    recorded: bool,
    failed: bool,
    validates: bool,
}

impl Database {
    /// Begins a write batch. Other writers, including those of the same thread, wait until it is committed or dropped.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use treedb_collections::{Database, UpdateRequest};
    /// use treedb_storage::Durability;
    ///
    /// # fn main() -> treedb_query::Result<()> {
    /// # let dir = tempfile::tempdir().expect("a temporary directory");
    /// let db = Database::open(dir.path())?;
    /// let mut both = db.write_batch()?;
    /// both.insert_many("shop.orders", &[rawdoc! { "what": "bolts" }, rawdoc! { "what": "nuts" }], true)?;
    /// both.update("shop.days", UpdateRequest::one(rawdoc! { "_id": "today" }, rawdoc! { "$inc": { "n": 2 } }).upsert())?;
    /// both.commit_with(Durability::Durable)?;
    /// assert_eq!(db.collection("shop.orders")?.len()?, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of the storage engine.
    pub fn write_batch(&self) -> Result<WriteBatch> {
        let txn = self.inner.store.begin_write()?;
        let generation = self.inner.catalog.generation(&txn)?;
        let metas = BTreeMap::new();
        Ok(WriteBatch {
            db: self.clone(),
            txn: Some(txn),
            generation,
            metas,
            changes: 0,
            recorded: false,
            failed: false,
            validates: true,
        })
    }
}

impl WriteBatch {
    /// Inserts a document and returns its `_id`.
    ///
    /// # Errors
    /// See the type.
    pub fn insert_one(&mut self, namespace: &str, document: impl AsRef<RawDocument>) -> Result<Bson> {
        let document = with_id(document.as_ref())?;
        let id = id_of(&document)?;
        self.edit(namespace, true, |edit| edit.insert(&document))?;
        self.changes += 1;
        Ok(id)
    }

    /// Inserts documents. The outcome reports refused documents, which do not prevent the others from being committed.
    ///
    /// # Errors
    /// See the type.
    pub fn insert_many<D: AsRef<RawDocument>>(
        &mut self,
        namespace: &str,
        documents: &[D],
        ordered: bool,
    ) -> Result<InsertOutcome> {
        self.insert_many_of(namespace, documents, ordered, Origin::Program)
    }

    /// [`Self::insert_many`] of documents of this origin.
    ///
    /// # Errors
    /// See the type.
    pub fn insert_many_of<D: AsRef<RawDocument>>(
        &mut self,
        namespace: &str,
        documents: &[D],
        ordered: bool,
        origin: Origin,
    ) -> Result<InsertOutcome> {
        let done = self.edit(namespace, true, |edit| statement::insert(edit, documents, ordered, origin))?;
        let done = done.unwrap_or_default();
        self.changes += done.inserted;
        Ok(done)
    }

    /// Updates the documents that match.
    ///
    /// # Errors
    /// See the type.
    pub fn update(&mut self, namespace: &str, request: UpdateRequest) -> Result<UpdateOutcome> {
        let upsert = request.upsert;
        let update = UpdateStatement::parse(request)?;
        let done = self.edit(namespace, upsert, |edit| update.run(edit))?.unwrap_or_default();
        self.changes += done.modified + u64::from(done.upserted.is_some());
        Ok(done)
    }

    /// Deletes the documents that match and returns how many they were.
    ///
    /// # Errors
    /// See the type.
    pub fn delete(&mut self, namespace: &str, request: DeleteRequest) -> Result<u64> {
        let delete = DeleteStatement::parse(request)?;
        let deleted = self.edit(namespace, false, |edit| delete.run(edit))?.unwrap_or_default();
        self.changes += deleted;
        Ok(deleted)
    }

    /// Updates or deletes the first document found, and returns it.
    ///
    /// # Errors
    /// See the type.
    pub fn find_and_modify(
        &mut self,
        namespace: &str,
        request: FindAndModifyRequest,
    ) -> Result<FindAndModifyOutcome> {
        let change = FindAndModifyStatement::parse(request)?;
        let done = self.edit(namespace, change.may_insert(), |edit| change.run(edit))?.unwrap_or_default();
        self.changes += u64::from(done.matched || done.upserted.is_some());
        Ok(done)
    }

    /// Sets whether what is written from now on must match the validators of its collections.
    pub fn set_validation(&mut self, validates: bool) {
        self.validates = validates;
    }

    /// The number of documents inserted, updated and deleted so far.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Commits all changes atomically, with this durability.
    ///
    /// # Errors
    /// `NoSuchTransaction` if a statement has failed: nothing is changed.
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        if self.failed {
            return Err(ended());
        }
        self.txn.ok_or_else(ended)?.commit_with(durability)?;
        if self.recorded {
            self.db.after_commit();
        }
        Ok(())
    }

    fn edit<T>(
        &mut self,
        namespace: &str,
        create: bool,
        mut work: impl FnMut(&mut Edit<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        // Until it has succeeded: a statement that fails may have been executed in part.
        let failed = std::mem::replace(&mut self.failed, true);
        let namespace = Namespace::parse(namespace)?;
        let db = self.db.clone();
        let mut turn = Turn::new(&db.inner.intents);
        loop {
            let Some((meta, created)) = self.meta(&namespace, create)? else {
                self.failed = failed;
                return Ok(None);
            };
            let mut edit = self.db.edit_in(self.txn.as_mut().ok_or_else(ended)?, meta)?;
            if created {
                edit.record_creation();
            }
            // Tailable cursors wait for capped collections.
            self.recorded |= edit.recorder.is_some() || edit.meta.special.capped.is_some();
            edit.validates = self.validates;
            let done = work(&mut edit);
            if let Some(owner) = edit.blocked.get() {
                if !self.metas.is_empty() {
                    return Err(conflict(&namespace));
                }
                // Nothing has been written that would be lost.
                drop(edit);
                self.txn = None;
                turn.wait(owner, &namespace)?;
                let txn = self.db.inner.store.begin_write()?;
                self.generation = self.db.inner.catalog.generation(&txn)?;
                self.txn = Some(txn);
                continue;
            }
            let done = done?;
            let meta = Arc::clone(&edit.meta);
            edit.finish()?;
            self.metas.insert(namespace, meta);
            self.failed = failed;
            return Ok(Some(done));
        }
    }

    /// The collection in its present state; with `create` it is created if it does not exist, which is told.
    fn meta(&mut self, namespace: &Namespace, create: bool) -> Result<Option<(Arc<Meta>, bool)>> {
        if let Some(meta) = self.metas.get(namespace) {
            return Ok(Some((Arc::clone(meta), false)));
        }
        let catalog = &self.db.inner.catalog;
        let txn = self.txn.as_mut().ok_or_else(ended)?;
        // Uncommitted catalog entries must not get into the cache, which all threads share.
        let found = match catalog.generation(&*txn)? == self.generation {
            true => catalog.find(&*txn, namespace)?,
            false => catalog.read(&*txn, namespace)?.map(Arc::new),
        };
        Ok(match found {
            None if create => Some((Arc::new(catalog.create(txn, namespace, Document::new())?), true)),
            found => found.map(|meta| (meta, false)),
        })
    }
}

/// The error of a batch after a statement has failed.
fn ended() -> QueryError {
    QueryError::new(
        ErrorCode::NoSuchTransaction,
        "a statement of the batch has failed, so that it cannot be committed: begin another",
    )
}

impl std::fmt::Debug for WriteBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteBatch")
            .field("collections", &self.metas.keys())
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}
