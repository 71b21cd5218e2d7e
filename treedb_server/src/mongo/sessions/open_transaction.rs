//! An open transaction, and its share of the limits of all open transactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use treedb_collections::Transaction;
use treedb_query::query::ErrorCode;

use super::SessionId;
use crate::mongo::error::CommandError;

/// The resources of all open transactions.
#[derive(Debug, Default)]
pub(super) struct Usage {
    open: AtomicUsize,
    bytes: AtomicUsize,
    begun: AtomicU64,
    committed: AtomicU64,
    aborted: AtomicU64,
    timed_out: AtomicU64,
}

/// Transactions since the server started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SoFar {
    pub(crate) begun: u64,
    pub(crate) committed: u64,
    /// Those that took too long among them.
    pub(crate) aborted: u64,
    pub(crate) timed_out: u64,
}

/// What has become of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    NotBegun,
    /// Unless it is committed still.
    Aborted,
    Committed,
}

/// One transaction's share of them, returned when dropped.
#[derive(Debug)]
pub(super) struct Share {
    usage: Arc<Usage>,
    bytes: usize,
    outcome: Outcome,
}

impl Usage {
    /// Transactions open now.
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Transactions so far.
    pub(super) fn so_far(&self) -> SoFar {
        let [begun, committed, aborted, timed_out] =
            [&self.begun, &self.committed, &self.aborted, &self.timed_out]
                .map(|count| count.load(Ordering::Relaxed));
        SoFar { begun, committed, aborted, timed_out }
    }

    /// So many have taken too long.
    pub(super) fn have_timed_out(&self, count: usize) {
        self.timed_out.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// A share for one more transaction, `limit` at most.
    fn share(self: &Arc<Self>, limit: usize) -> Result<Share, CommandError> {
        let open = self.open.fetch_add(1, Ordering::Relaxed);
        let share = Share { usage: Arc::clone(self), bytes: 0, outcome: Outcome::NotBegun };
        if open >= limit {
            return Err(CommandError::new(
                ErrorCode::ExceededMemoryLimit,
                format!("{limit} transactions are open already: commit or abort some"),
            ));
        }
        Ok(share)
    }
}

impl Share {
    /// The transaction has begun.
    fn has_begun(&mut self) {
        self.outcome = Outcome::Aborted;
        self.usage.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// The transaction has been committed.
    pub(super) fn has_committed(&mut self) {
        self.outcome = Outcome::Committed;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        match self.outcome {
            Outcome::NotBegun => {}
            Outcome::Aborted => {
                self.usage.aborted.fetch_add(1, Ordering::Relaxed);
            }
            Outcome::Committed => {
                self.usage.committed.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.usage.open.fetch_sub(1, Ordering::Relaxed);
        self.usage.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// An open transaction.
#[derive(Debug)]
pub(crate) struct OpenTransaction {
    /// Its session and number.
    pub(crate) key: (SessionId, i64),
    pub(crate) txn: Transaction,
    /// Cursors that read in it.
    pub(crate) cursors: Vec<i64>,
    /// A statement has failed, which the command's reply reports.
    pub(crate) failed: bool,
    pub(super) began: Instant,
    pub(super) share: Share,
}

impl OpenTransaction {
    /// Starts a transaction.
    ///
    /// # Errors
    /// `ExceededMemoryLimit` if `limit` are open; those of the storage engine.
    pub(super) fn begin(
        key: (SessionId, i64),
        database: &treedb_collections::Database,
        usage: &Arc<Usage>,
        limit: usize,
    ) -> Result<Self, CommandError> {
        let mut share = usage.share(limit)?;
        let txn = database.begin()?;
        share.has_begun();
        Ok(OpenTransaction { key, txn, cursors: Vec::new(), failed: false, began: Instant::now(), share })
    }

    /// Updates the size of its changes.
    ///
    /// # Errors
    /// `ExceededMemoryLimit` if the changes of all open transactions take more than `limit` bytes and this one has grown.
    pub(super) fn count(&mut self, limit: usize) -> Result<(), CommandError> {
        let (before, now) = (self.share.bytes, self.txn.bytes());
        let Some(more) = now.checked_sub(before).filter(|&more| more > 0) else { return Ok(()) };
        self.share.bytes = now;
        if self.share.usage.bytes.fetch_add(more, Ordering::Relaxed) + more > limit {
            return Err(CommandError::new(
                ErrorCode::ExceededMemoryLimit,
                format!("the changes of all open transactions take more than {limit} bytes"),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_returned() {
        let usage = Arc::new(Usage::default());
        let first = usage.share(1).unwrap();
        assert_eq!(usage.share(1).unwrap_err().code, 146);
        assert_eq!(usage.open(), 1);
        drop(first);
        assert_eq!(usage.open(), 0);
    }

    #[test]
    fn transactions_are_counted_by_how_they_end() {
        let usage = Arc::new(Usage::default());
        let begin = || {
            let mut share = usage.share(9).unwrap();
            share.has_begun();
            share
        };
        let (mut first, second, open) = (begin(), begin(), begin());
        first.has_committed();
        drop((first, second));
        drop(usage.share(9).unwrap());
        let so_far = SoFar { begun: 3, committed: 1, aborted: 1, timed_out: 0 };
        assert_eq!(usage.so_far(), so_far);
        drop(open);
        assert_eq!(usage.so_far(), SoFar { aborted: 2, ..so_far });
    }
}
