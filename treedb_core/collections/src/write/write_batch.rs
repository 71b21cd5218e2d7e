//! Statements over several collections that are carried out one after another and committed as one.
//!
//! Whoever has a [`WriteBatch`] is the writer from its beginning to its end: what a statement changes is changed at once, once,
//! and nobody can come in between. So there are no conflicts and nothing is done twice, but other writers wait: it
//! is for statements that are known beforehand. A [`Transaction`](crate::Transaction) is for those that somebody thinks
//! about in between.

use std::collections::BTreeMap;
use std::sync::Arc;

use bson::{Bson, Document, RawDocument};

use treedb_query::access::Sink;
use treedb_query::doc::with_id;
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_storage::{Durability, WriteTxn};

use crate::catalog::meta::Meta;
use crate::catalog::namespace::Namespace;
use crate::database::Database;
use crate::request::{
    DeleteRequest, FindAndModifyOutcome, FindAndModifyRequest, InsertOutcome, UpdateOutcome, UpdateRequest,
};
use crate::write::edit::Edit;
use crate::write::statement::{self, Deleting, FindingAndModifying, Updating, id_of};

/// Statements committed as one; see [`Database::write_batch`]. What the calls do and which errors they have, the methods of
/// [`Collection`](crate::Collection) of the same names tell. Dropping it undoes everything.
pub struct WriteBatch {
    db: Database,
    txn: WriteTxn,
    /// The catalog's generation when it began.
    generation: u64,
    /// The collections it has written to, as it has them.
    metas: BTreeMap<Namespace, Arc<Meta>>,
    /// Documents that came, went, or may be different now.
    changes: u64,
    recorded: bool,
    failed: bool,
}

impl Database {
    /// Becomes the writer, for several statements that are to be committed as one. Other writers, those of the same thread
    /// too, wait until it is committed or dropped.
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
            txn,
            generation,
            metas,
            changes: 0,
            recorded: false,
            failed: false,
        })
    }
}

impl WriteBatch {
    /// Inserts a document and returns its `_id`.
    ///
    /// # Errors
    /// See the type; it cannot be committed then.
    pub fn insert_one(&mut self, namespace: &str, document: impl AsRef<RawDocument>) -> Result<Bson> {
        let document = with_id(document.as_ref())?;
        let id = id_of(&document)?;
        self.edit(namespace, true, |edit| edit.insert(&document))?;
        self.changes += 1;
        Ok(id)
    }

    /// Inserts documents. What is refused is told in the outcome, and does not keep the others from being committed.
    ///
    /// # Errors
    /// See the type; it cannot be committed then.
    pub fn insert_many<D: AsRef<RawDocument>>(
        &mut self,
        namespace: &str,
        documents: &[D],
        ordered: bool,
    ) -> Result<InsertOutcome> {
        let done = self.edit(namespace, true, |edit| statement::insert(edit, documents, ordered))?;
        let done = done.unwrap_or_default();
        self.changes += done.inserted;
        Ok(done)
    }

    /// Changes the documents that match.
    ///
    /// # Errors
    /// See the type; it cannot be committed then.
    pub fn update(&mut self, namespace: &str, request: UpdateRequest) -> Result<UpdateOutcome> {
        let upsert = request.upsert;
        let update = Updating::read(request)?;
        let done = self.edit(namespace, upsert, |edit| update.run(edit))?.unwrap_or_default();
        self.changes += done.modified + u64::from(done.upserted.is_some());
        Ok(done)
    }

    /// Deletes the documents that match and returns how many they were.
    ///
    /// # Errors
    /// See the type; it cannot be committed then.
    pub fn delete(&mut self, namespace: &str, request: DeleteRequest) -> Result<u64> {
        let delete = Deleting::read(request)?;
        let deleted = self.edit(namespace, false, |edit| delete.run(edit))?.unwrap_or_default();
        self.changes += deleted;
        Ok(deleted)
    }

    /// Changes or deletes the first document that a search finds, and hands it out.
    ///
    /// # Errors
    /// See the type; it cannot be committed then.
    pub fn find_and_modify(
        &mut self,
        namespace: &str,
        request: FindAndModifyRequest,
    ) -> Result<FindAndModifyOutcome> {
        let change = FindingAndModifying::read(request)?;
        let done = self.edit(namespace, change.may_insert(), |edit| change.run(edit))?.unwrap_or_default();
        self.changes += u64::from(done.matched || done.upserted.is_some());
        Ok(done)
    }

    /// Documents that came, went, or may be different now, each time counted.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Makes all changes visible, at once, and durable as `durability` says.
    ///
    /// # Errors
    /// `NoSuchTransaction` if a statement had failed: nothing is changed.
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        if self.failed {
            return Err(QueryError::new(
                ErrorCode::NoSuchTransaction,
                "one of the statements has failed, so none of them is committed",
            ));
        }
        self.txn.commit_with(durability)?;
        if self.recorded {
            self.db.changes_committed();
        }
        Ok(())
    }

    fn edit<T>(
        &mut self,
        namespace: &str,
        create: bool,
        work: impl FnOnce(&mut Edit<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        // Until it has succeeded: a statement that fails may have been carried out in part.
        let failed = std::mem::replace(&mut self.failed, true);
        let namespace = Namespace::parse(namespace)?;
        let Some(meta) = self.meta(&namespace, create)? else {
            self.failed = failed;
            return Ok(None);
        };
        let mut edit = self.db.edit_in(&mut self.txn, meta)?;
        self.recorded |= edit.pending.is_some();
        let done = work(&mut edit)?;
        let meta = Arc::clone(&edit.meta);
        edit.finish()?;
        self.metas.insert(namespace, meta);
        self.failed = failed;
        Ok(Some(done))
    }

    /// The collection as it is now, made if it is to be.
    fn meta(&mut self, namespace: &Namespace, create: bool) -> Result<Option<Arc<Meta>>> {
        if let Some(meta) = self.metas.get(namespace) {
            return Ok(Some(Arc::clone(meta)));
        }
        let catalog = &self.db.inner.catalog;
        // What others may remember must have been committed.
        let found = match catalog.generation(&self.txn)? == self.generation {
            true => catalog.find(&self.txn, namespace)?,
            false => catalog.read(&self.txn, namespace)?.map(Arc::new),
        };
        Ok(match found {
            None if create => Some(Arc::new(catalog.create(&mut self.txn, namespace, Document::new())?)),
            found => found,
        })
    }
}

impl std::fmt::Debug for WriteBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteBatch")
            .field("collections", &self.metas.keys())
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}
