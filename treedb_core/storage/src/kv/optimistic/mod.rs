//! Optimistic transactions: many can run concurrently, each on its own snapshot; conflicts are checked at
//! commit.
//!
//! | file | what it holds |
//! |---|---|
//! | `txn` | [`OptimisticTxn`]: a snapshot, and the transaction's own changes |
//! | `cursor` | [`OptimisticCursor`] and [`OptimisticRange`]: the snapshot merged with the changes |
//! | `read_set` | the keys and spans of keys that a transaction has read |
//! | `recent_commits` | the keys that recent commits wrote |
//! | `retry` | [`Store::transact`](super::Store::transact): retries after conflicts |
//!
//! A transaction reads a snapshot and keeps its changes in memory, invisible to others. Commit takes the
//! writer lock, checks whether a transaction of any kind that committed since the snapshot conflicts, and if
//! not writes the changes as one frame of the log. So the first to commit wins, and the other gets
//! [`Error::Conflict`](crate::Error::Conflict) and may be retried. What conflicts depends on the
//! [`Isolation`].
//!
//! # What is kept in memory
//!
//! While an optimistic transaction is open, the keys of every commit are kept in memory, together with the
//! ranges that were deleted; otherwise nothing is kept, and a commit only reads a counter. Commits that are
//! in the snapshot of every open transaction are dropped. If the others take more than
//! [`Options::optimistic_bytes`](super::Options::optimistic_bytes), the oldest commits are dropped too: a
//! transaction with an older snapshot can no longer be checked and gets a conflict.

mod cursor;
mod read_set;
mod recent_commits;
mod retry;
mod txn;

pub use cursor::{OptimisticCursor, OptimisticRange};
pub use txn::OptimisticTxn;

pub(super) use recent_commits::RecentCommits;

/// What must not have changed since an optimistic transaction's snapshot for it to commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// Everything it has read: keys, found or not, and the ranges its cursors passed. The result is as if the
    /// transaction had run alone at the time of its commit. A key that it writes without reading it may have
    /// been written by another transaction meanwhile: the later write wins.
    #[default]
    Serializable,
    /// The keys it writes, whether it has read them or not. Reads are not tracked, which is cheaper and
    /// causes fewer conflicts; but two transactions that each read what the other writes may both commit
    /// (write skew).
    Snapshot,
}
