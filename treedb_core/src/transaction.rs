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
/// The first to commit wins: a transaction that changes a document which another has changed since it began gets
/// [`Error::WriteConflict`], and can be run again. After a statement that failed, a transaction can only be aborted, which
/// dropping it does too.
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
        let done = work(&transaction).and_then(|done| transaction.commit().map(|()| done));
        match done {
            Err(Error::WriteConflict { .. }) if attempt + 1 < ATTEMPTS => {
                treedb_storage::backoff(attempt);
                attempt += 1;
            }
            done => return done,
        }
    }
}
