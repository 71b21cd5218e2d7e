//! Transactions over any number of collections: a snapshot, and changes that only the transaction sees until it
//! commits.
//!
//! | file | what it holds |
//! |---|---|
//! | `collection` | [`TransactionCollection`]: a collection as the transaction has it; the calls of a [`Collection`](crate::Collection) |
//! | `overlay` | the changes of one collection: rows and index entries that came and went |
//! | `layer` | snapshot and changes as one, for the query layer |
//! | `commit` | first committer wins: looking for conflicts, then the changes once more, for good |
//! | `retry` | [`Database::transact`]: until it does not conflict |
//!
//! # What is promised
//!
//! * It reads the snapshot of its beginning and its own changes, nothing of anybody else's.
//! * *First committer wins*: if a document it changes or deletes was changed by another after the snapshot, or a
//!   unique key it adds was, it gets `WriteConflict`, as soon as it touches the document or when it commits, and can be
//!   run again. What it only reads may have changed (snapshot isolation, as MongoDB's).
//! * It is committed as a whole, in one frame of the log, or not at all.
//! * It waits for nobody, and nobody waits for it but for the time of its commit. Any number may be open.
//! * A statement that fails ends it: everything after it is `NoSuchTransaction`.
//!
//! Its changes are in memory ([`MAX_BYTES`] at most), and its snapshot keeps old pages while it lives: it is for
//! seconds, not for hours.

mod collection;
mod commit;
mod layer;
mod overlay;
mod retry;

pub use collection::{TransactionCollection, TransactionCursor};

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_storage::kv::{Beside, Durability, ReadTxn, Reads};

use crate::catalog::namespace::Namespace;
use crate::database::Database;
use crate::read::aggregate::{AggregateRequest, Aggregation};

use overlay::Op;

pub(crate) use layer::CollectionSnapshot;
pub(crate) use overlay::Overlay;

/// The most bytes of changes a transaction may hold: documents inserted, new versions, and index entries.
pub const MAX_BYTES: usize = 256 << 20;

/// A transaction over any number of collections; see [`Database::begin`]. It may go to another thread. Dropping it undoes
/// everything.
pub struct Transaction {
    db: Database,
    /// Its snapshot, which pipelines read too,
    pinned: Arc<Mutex<ReadTxn>>,
    /// and the transaction's own reader of it.
    reads: Beside,
    /// The collections it has written to. A pipeline keeps what was changed when it began.
    overlays: BTreeMap<Namespace, Arc<Overlay>>,
    /// Its changes, in order, with the collection of each.
    ops: Vec<(Namespace, Op)>,
    /// Bytes of all that.
    bytes: usize,
    /// A statement failed.
    failed: bool,
}

impl Database {
    /// Begins a transaction, on a snapshot of now.
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
            reads: Beside::new(&pinned),
            pinned,
            overlays: BTreeMap::new(),
            ops: Vec::new(),
            bytes: 0,
            failed: false,
        })
    }
}

impl Transaction {
    /// A collection (`database.collection`) as the transaction has it. It comes to be with its first document, when the
    /// transaction commits.
    ///
    /// # Errors
    /// `InvalidNamespace`; `NoSuchTransaction` if a statement has failed.
    pub fn collection(&mut self, namespace: &str) -> Result<TransactionCollection<'_>> {
        self.check_active()?;
        Ok(TransactionCollection::new(self, Namespace::parse(namespace)?))
    }

    /// Makes its changes, all at once, acknowledged as the database's other writes are. See [`Self::commit_with`].
    ///
    /// # Errors
    /// As there.
    pub fn commit(self) -> Result<()> {
        self.commit_as(None)
    }

    /// Makes its changes: visible at once, and durable as `durability` says. It becomes the writer for that.
    ///
    /// # Errors
    /// `WriteConflict` if another has changed what it changes: nothing was changed, it can be run again.
    /// `NoSuchTransaction` if a statement had failed.
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        self.commit_as(Some(durability))
    }

    /// Ends it without a change; what dropping it does.
    pub fn abort(self) {}

    /// Documents it inserts, changes and deletes, each time counted.
    pub fn changes(&self) -> usize {
        self.ops.len()
    }

    /// Bytes its changes take in memory, of [`MAX_BYTES`].
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if a statement has failed, so that it cannot go on.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    fn check_active(&self) -> Result<()> {
        if self.failed {
            return Err(QueryError::new(
                ErrorCode::NoSuchTransaction,
                "the transaction was ended by the statement that failed: begin another",
            ));
        }
        Ok(())
    }

    /// What it sees of a collection.
    fn collection_snapshot(&self, namespace: &Namespace) -> Result<CollectionSnapshot> {
        collection_snapshot(&self.db, &self.reads, &self.overlays, namespace)
    }

    /// Runs a pipeline over what it sees.
    fn aggregate(&self, namespace: &Namespace, request: &AggregateRequest) -> Result<Aggregation> {
        let changed = Some(self.overlays.clone());
        self.db.aggregate_in(Arc::clone(&self.pinned), changed, namespace.as_str(), request)
    }

    /// Runs a statement that writes to a collection. If it fails, so has the transaction.
    fn write<T>(
        &mut self,
        namespace: &Namespace,
        work: impl FnOnce(&mut layer::TransactionSink<'_>) -> Result<T>,
    ) -> Result<T> {
        self.check_active()?;
        // Until it has succeeded.
        self.failed = true;
        if !self.overlays.contains_key(namespace) {
            let base = self.db.inner.catalog.find(&self.reads, namespace)?;
            self.overlays.insert(namespace.clone(), Arc::new(Overlay::new(namespace.clone(), base)));
        }
        let Transaction { db, reads, overlays, ops, bytes, .. } = self;
        let Some(overlay) = overlays.get_mut(namespace) else {
            return Err(Database::namespace_not_found(namespace));
        };
        let overlay = Arc::make_mut(overlay);
        let done = work(&mut layer::TransactionSink { db, reads, overlay, ops, bytes, replaces: false })?;
        self.failed = false;
        Ok(done)
    }
}

/// What somebody sees of a collection who reads a snapshot, and has changed these collections.
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

/// The error of a transaction that came second.
fn conflict(namespace: &Namespace) -> QueryError {
    QueryError::new(
        ErrorCode::WriteConflict,
        format!(
            "WriteConflict: another transaction has changed a document of {namespace} that this one changes, too: run it again"
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
