//! Transactions over any number of collections.

use std::sync::{Arc, Mutex, PoisonError};

use treedb_collections as engine;
use treedb_storage::Durability;

use crate::collection::Collection;
use crate::error::{Error, Result};
use crate::target::{SharedTransaction, Target, ended};

/// Attempts of [`Database::transaction`](crate::Database::transaction) before it returns the last `WriteConflict`.
const ATTEMPTS: u32 = 100;

/// A transaction: a snapshot, and changes that nobody else sees until they are committed.
///
/// The first to write wins: a transaction that changes a document which another has changed since it began, committed or not, gets
/// [`Error::WriteConflict`] from that statement, and can be run again. After a statement that failed, a transaction can only be aborted,
/// which dropping it does too.
///
/// A write outside of transactions waits for an open transaction that has changed the same document
/// ([`Database::set_write_wait`](crate::Database::set_write_wait)): do not write a document in a transaction and, on the same thread
/// before it has ended, outside of it.
pub struct Transaction {
    db: engine::Database,
    shared: SharedTransaction,
}

impl Transaction {
    pub(crate) fn begin(db: &engine::Database) -> Result<Self> {
        let transaction = db.begin()?;
        Ok(Transaction { db: db.clone(), shared: Arc::new(Mutex::new(Some(transaction))) })
    }

    /// A collection as the transaction sees it.
    pub fn collection<T>(&self, name: &str) -> Collection<T> {
        Collection::new(Target::new(self.db.clone(), name, Some(Arc::clone(&self.shared))))
    }

    /// Waits for the transaction that this one has met, if a statement has failed because of it.
    fn wait_for_other(&self) {
        if let Some(open) = &*self.shared.lock().unwrap_or_else(PoisonError::into_inner) {
            open.wait_for_other();
        }
    }

    fn end(&self) -> Result<engine::Transaction> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(shared.take().ok_or_else(ended)?)
    }

    /// Makes the changes visible and durable, all at once.
    ///
    /// # Errors
    /// [`Error::WriteConflict`]: nothing was changed. `NoSuchTransaction` if a statement failed before.
    pub fn commit(self) -> Result<()> {
        Ok(self.end()?.commit()?)
    }

    /// [`Self::commit`], acknowledged as `durability` says.
    ///
    /// # Errors
    /// As there.
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        Ok(self.end()?.commit_with(durability)?)
    }

    /// Drops the changes.
    pub fn abort(self) {}
}

impl Drop for Transaction {
    /// Collections of the transaction that are still there must not keep its snapshot.
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Runs `work` in transactions until one of them does not conflict.
pub(crate) fn run<T>(db: &engine::Database, mut work: impl FnMut(&Transaction) -> Result<T>) -> Result<T> {
    let mut attempt = 0;
    loop {
        let transaction = Transaction::begin(db)?;
        let done = work(&transaction).inspect_err(|_| transaction.wait_for_other());
        match done.and_then(|done| transaction.commit().map(|()| done)) {
            Err(Error::WriteConflict { .. }) if attempt + 1 < ATTEMPTS => {
                treedb_storage::backoff(attempt);
                attempt += 1;
            }
            done => return done,
        }
    }
}
