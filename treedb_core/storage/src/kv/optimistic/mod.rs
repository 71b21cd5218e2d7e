//! Optimistic transactions: many at once, each on a snapshot of its own, checked when they commit.
//!
//! | file | noun |
//! |---|---|
//! | `txn` | [`OptimisticTxn`]: a snapshot, and changes that only it sees |
//! | `cursor` | [`OptimisticCursor`] and [`OptimisticRange`]: snapshot and changes as one |
//! | `read_set` | what a transaction has read, as keys and spans of keys |
//! | `recent_commits` | what has been committed lately |
//! | `retry` | [`Store::transact`](super::Store::transact): until it does not conflict |
//!
//! A transaction reads a snapshot and keeps its changes to itself. Commit becomes the writer, checks whether anything
//! that matters to the transaction was committed since its snapshot, by a transaction of any kind, and if not makes its
//! changes in one frame of the log. So the first to commit wins, and the other gets
//! [`Error::Conflict`](crate::Error::Conflict) and may run again. What matters depends on the [`Isolation`].
//!
//! # What is kept in memory
//!
//! While an optimistic transaction is open, the keys of every commit are kept in memory, together with the ranges that
//! were removed; otherwise nothing is kept, and a commit only reads a counter. What every open transaction has in its
//! snapshot is dropped. If more is left than
//! [`Options::optimistic_bytes`](super::Options::optimistic_bytes), the oldest commits are dropped too: a transaction
//! whose snapshot is older cannot be checked any more and gets a conflict.

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
    /// Everything it has read: keys, found or not, and the ranges its cursors went over. Then it is as if it had run alone
    /// at the moment of its commit. A key that is written without having been read may
    /// have been written by another in the meantime: the later write stays.
    #[default]
    Serializable,
    /// What it writes, whether it has read it or not. Reads are not tracked, which is cheaper and conflicts less; but two
    /// transactions that each read what the other writes may both commit (write skew).
    Snapshot,
}
