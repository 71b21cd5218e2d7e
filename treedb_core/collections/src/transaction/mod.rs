//! Transactions over any number of collections: a snapshot, and changes that are visible only to the transaction until it commits.
//!
//! | file | what it holds |
//! |---|---|
//! | `catalog` | collections and indexes that the transaction creates |
//! | `collection` | [`TransactionCollection`]: a collection in the transaction, with the methods of a [`Collection`](crate::Collection) |
//! | `overlay` | the changes of one collection: rows and index entries added and removed |
//! | `layer` | snapshot and changes combined, for the query layer |
//! | `commit` | checking for conflicts, then applying the changes |
//! | `intents` | what open transactions have changed, which others must not change |
//! | `retry` | [`Database::transact`]: retrying after conflicts |
//!
//! # Guarantees
//!
//! * A transaction reads the snapshot of its beginning and its own changes, and no changes of others.
//! * *First writer wins*: if another transaction has changed a document that it updates or deletes, or added or removed a unique key
//!   that it adds or removes, and is still open or has committed after the snapshot, the statement gets `WriteConflict`: the
//!   transaction is aborted, and can be retried. Documents that it only reads may have changed (snapshot isolation, as in MongoDB).
//! * Writes outside of transactions wait for an open transaction that has changed the same document or key; see
//!   [`Database::set_write_wait`]. If such a write is in progress while the transaction writes the document, or if a collection is
//!   created, dropped or renamed meanwhile, the commit gets `WriteConflict`.
//! * It is committed atomically, in one frame of the log.
//! * It waits for no other transaction. Any number can be open.
//! * A statement that fails aborts it: everything after that is `NoSuchTransaction`.
//!
//! The changes are kept in memory (at most [`MAX_BYTES`]), and the snapshot keeps old pages in use: a transaction should take
//! seconds, not hours.

mod catalog;
mod collection;
mod commit;
mod intents;
mod layer;
mod overlay;
mod retry;

pub use collection::{TransactionCollection, TransactionCursor};

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_storage::{Durability, ReadTxn, Reads, SharedReadTxn};

use crate::catalog::namespace::Namespace;
use crate::database::{CollectionInfo, Database};
use crate::read::aggregate::{AggregateRequest, Aggregation};

use intents::Claims;
use overlay::Op;

pub(crate) use intents::{Intent, Intents, Owner, Turn};
pub(crate) use layer::CollectionSnapshot;
pub(crate) use overlay::Overlay;

/// The most bytes of changes a transaction may hold: documents inserted, new versions, and index entries.
pub const MAX_BYTES: usize = 256 << 20;

/// A transaction over any number of collections; see [`Database::begin`]. It can be sent to another thread. Dropping it aborts
/// it.
pub struct Transaction {
    db: Database,
    /// Its snapshot, shared with pipelines.
    pinned: Arc<Mutex<ReadTxn>>,
    /// and the transaction's own reader of it.
    reads: SharedReadTxn,
    /// The collections it has written to. A pipeline keeps what was changed when it began.
    overlays: BTreeMap<Namespace, Arc<Overlay>>,
    /// The changes in order, each with its collection.
    ops: Vec<(Namespace, Op)>,
    /// What it has changed, as others see it.
    claims: Claims,
    /// The transaction that had claimed what a statement of this one wanted to change.
    lost_to: Option<(Owner, Namespace)>,
    /// Bytes of the changes.
    bytes: usize,
    /// A statement has failed.
    failed: bool,
}

impl Database {
    /// Begins a transaction on a snapshot of the present state.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use treedb_collections::{Database, UpdateRequest};
    ///
    /// # fn main() -> treedb_query::Result<()> {
    /// # let dir = tempfile::tempdir().expect("a temporary directory");
    /// let db = Database::open(dir.path())?;
    /// let (stock, orders) = (db.collection("shop.stock")?, db.collection("shop.orders")?);
    /// stock.insert_one(rawdoc! { "_id": "bolts", "left": 7 })?;
    ///
    /// let mut txn = db.begin()?;
    /// txn.collection("shop.stock")?
    ///     .update(UpdateRequest::one(rawdoc! { "_id": "bolts" }, rawdoc! { "$inc": { "left": -2 } }))?;
    /// txn.collection("shop.orders")?.insert_one(rawdoc! { "what": "bolts", "many": 2 })?;
    /// assert_eq!(orders.len()?, 0);
    /// txn.commit()?;
    /// assert_eq!(orders.len()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of the storage engine.
    pub fn begin(&self) -> Result<Transaction> {
        let pinned = Arc::new(Mutex::new(self.inner.store.begin_read()?));
        Ok(Transaction {
            db: self.clone(),
            reads: SharedReadTxn::new(&pinned),
            pinned,
            overlays: BTreeMap::new(),
            ops: Vec::new(),
            claims: Claims::new(&self.inner.intents),
            lost_to: None,
            bytes: 0,
            failed: false,
        })
    }
}

impl Transaction {
    /// A collection (`database.collection`) in the transaction. If it does not exist, it is created with its first document when
    /// the transaction commits.
    ///
    /// # Errors
    /// `InvalidNamespace`; `NoSuchTransaction` if a statement has failed.
    pub fn collection(&mut self, namespace: &str) -> Result<TransactionCollection<'_>> {
        self.check_active()?;
        Ok(TransactionCollection::new(self, Namespace::parse(namespace)?))
    }

    /// The collections of a database, by name, as they were when the transaction began: what it creates itself is not among them.
    ///
    /// # Errors
    /// `InvalidNamespace`; those of the storage engine.
    pub fn list_collections(&self, database: &str) -> Result<Vec<CollectionInfo>> {
        self.db.collections_in(&self.reads, database)
    }

    /// Commits with the durability of the database's other writes. See [`Self::commit_with`].
    ///
    /// # Errors
    /// As there.
    pub fn commit(self) -> Result<()> {
        self.commit_as(None)
    }

    /// Commits all changes atomically, with this durability. Takes the write lock.
    ///
    /// # Errors
    /// `WriteConflict` if the same documents were changed while this one wrote them: nothing is changed, and the transaction can be
    /// retried. `NoSuchTransaction` if a statement has failed.
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        self.commit_as(Some(durability))
    }

    /// Aborts the transaction, as dropping it does.
    pub fn abort(self) {}

    /// The number of inserts, updates and deletes of documents, and of collections created, so far.
    pub fn changes(&self) -> usize {
        self.ops.len() + self.overlays.values().filter(|overlay| overlay.created.is_some()).count()
    }

    /// Bytes of memory that its changes take, of at most [`MAX_BYTES`].
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if a statement has failed, so that the transaction is aborted.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// After a statement that failed because another transaction has changed the same document: waits until that one has ended, for a
    /// second at most. To run the work again before that would be in vain.
    pub fn wait_for_other(&self) {
        if let Some((winner, namespace)) = &self.lost_to {
            self.claims.wait_for(*winner, namespace);
        }
    }

    fn check_active(&self) -> Result<()> {
        if self.failed {
            return Err(QueryError::new(
                ErrorCode::NoSuchTransaction,
                "the transaction was aborted because a statement failed: begin another",
            ));
        }
        Ok(())
    }

    /// A collection as the transaction sees it.
    fn collection_snapshot(&self, namespace: &Namespace) -> Result<CollectionSnapshot> {
        collection_snapshot(&self.db, &self.reads, &self.overlays, namespace)
    }

    /// Runs a pipeline in the transaction.
    fn aggregate(&self, namespace: &Namespace, request: &AggregateRequest) -> Result<Aggregation> {
        let changed = Some(self.overlays.clone());
        self.db.aggregate_in(Arc::clone(&self.pinned), changed, namespace.as_str(), request)
    }

    /// Runs a statement that writes. If it fails, the transaction is aborted, and others need not wait for it.
    fn statement<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.check_active()?;
        // Until it has succeeded.
        self.failed = true;
        let done = work(self);
        match &done {
            Ok(_) => self.failed = false,
            Err(_) => self.claims.release(),
        }
        done
    }

    /// Runs a statement that writes to a collection.
    fn write<T>(
        &mut self,
        namespace: &Namespace,
        work: impl FnOnce(&mut layer::TransactionSink<'_>) -> Result<T>,
    ) -> Result<T> {
        self.statement(|transaction| transaction.write_to(namespace, work))
    }

    fn write_to<T>(
        &mut self,
        namespace: &Namespace,
        work: impl FnOnce(&mut layer::TransactionSink<'_>) -> Result<T>,
    ) -> Result<T> {
        if !self.overlays.contains_key(namespace) {
            let base = self.db.inner.catalog.find(&self.reads, namespace)?;
            self.overlays.insert(namespace.clone(), Arc::new(Overlay::new(namespace.clone(), base)));
        }
        let Transaction { db, reads, overlays, ops, claims, lost_to, bytes, .. } = self;
        let Some(overlay) = overlays.get_mut(namespace) else {
            return Err(Database::namespace_not_found(namespace));
        };
        let special = overlay.base.as_ref().map(|base| &base.special);
        if special.is_some_and(|special| special.capped.is_some() || special.time_field.is_some()) {
            return Err(QueryError::new(
                ErrorCode::OperationNotSupportedInTransaction,
                format!(
                    "Collection '{namespace}' is capped or a time series. Writes in transactions are not allowed on such collections."
                ),
            ));
        }
        let overlay = Arc::make_mut(overlay);
        let validates = true;
        let sink = layer::TransactionSink { db, reads, overlay, ops, claims, lost_to, bytes, validates };
        work(&mut { sink })
    }
}

/// A collection in the snapshot `reads` with the changes of a transaction.
///
/// # Errors
/// Those of the catalog.
pub(crate) fn collection_snapshot(
    db: &Database,
    reads: &impl Reads,
    changed: &BTreeMap<Namespace, Arc<Overlay>>,
    namespace: &Namespace,
) -> Result<CollectionSnapshot> {
    Ok(match changed.get(namespace) {
        Some(overlay) => CollectionSnapshot::new(overlay.base.clone(), Some(Arc::clone(overlay))),
        None => CollectionSnapshot::new(db.inner.catalog.find(reads, namespace)?, None),
    })
}

/// The error of a conflict with a transaction that was there first.
pub(crate) fn conflict(namespace: &Namespace) -> QueryError {
    QueryError::new(
        ErrorCode::WriteConflict,
        format!(
            "WriteConflict: another transaction has changed a document of {namespace} that this one changes: retry the transaction"
        ),
    )
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction")
            .field("collections", &self.overlays.keys())
            .field("changes", &self.ops.len())
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}
