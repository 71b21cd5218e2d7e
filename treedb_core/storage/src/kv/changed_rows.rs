//! The rows that recent commits changed, in tables that something in memory follows.
//!
//! Pages tell what is new only by the leaf ([`Reads::new_rows`](super::Reads::new_rows)); a commit knows the rows. What they were is
//! kept for a table from the first question about it on, until there are too many of them, or there was no question for many commits: so
//! commits that nothing follows pay for one load.
//!
//! Whoever knows a snapshot learns all rows that changed between it and a later one, or that this is not known:
//!
//! * A commit notes its rows before it is published, so no snapshot can see one whose rows are missing. One that does not see that a table
//!   is followed has begun before the first question about it, so its number is at most the one from which on the rows are known.
//! * Only commits by [`WriteTxn`](super::WriteTxn) change rows, and all their changes are in the frame, whether it is logged or not.
//!   Transactions of [`super::maintenance`] move rows, and a replay ends before anyone can ask.
//! * What somebody has asked about is given up by the next question. Another one who asks since an earlier transaction is told that it is not
//!   known, once: after that both know newer snapshots.

use std::collections::{HashMap, VecDeque};
use std::sync::PoisonError;

use super::command::{Command, Commands};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// Changes of a table that are kept at most, 16 bytes each, and commits of any tables without a question about it.
#[cfg(not(test))]
const MOST: usize = 1 << 15;
#[cfg(test)]
const MOST: usize = 1 << 9;

/// The changed rows of all tables that are followed.
#[derive(Debug, Default)]
pub(super) struct ChangedRows {
    /// How many tables are followed. Commits read this first.
    followed: AtomicUsize,
    tables: Mutex<HashMap<u32, History>>,
}

/// The changes of a table.
#[derive(Debug, Default)]
struct History {
    /// All that was changed after this transaction is here; `None` before the first commit.
    since: Option<u64>,
    /// Transactions, ascending, and rows that they changed.
    changes: VecDeque<(u64, u64)>,
    /// Commits since the last question.
    unasked: usize,
}

impl History {
    /// Gives up what was changed up to a transaction.
    fn forget(&mut self, until: u64) {
        while self.changes.pop_front_if(|(txn, _)| *txn <= until).is_some() {}
        self.since = self.since.map(|since| since.max(until));
    }
}

impl ChangedRows {
    fn tables(&self) -> MutexGuard<'_, HashMap<u32, History>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what the transaction changes that is about to be published, whose number is `txn` or the next one; `before` is the last one
    /// published. Called by the writer, before any snapshot can see the changes.
    #[inline]
    pub(super) fn commit(&self, before: u64, txn: u64, frame: &[u8]) {
        if self.followed.load(Ordering::Acquire) > 0 {
            self.note(before, txn, frame);
        }
    }

    #[cold]
    fn note(&self, before: u64, txn: u64, frame: &[u8]) {
        let mut tables = self.tables();
        for history in tables.values_mut() {
            history.since.get_or_insert(before);
            history.unasked += 1;
        }
        tables.retain(|_, history| history.unasked <= MOST);
        // What cannot be decoded may have changed anything.
        if note_commands(&mut tables, txn, frame).is_none() {
            tables.clear();
        }
        self.followed.store(tables.len(), Ordering::Release);
    }

    /// The rows of a table that were changed after transaction `since`, up to transaction `now`, ascending; `None` if that is not
    /// known. The changes up to `since` are given up.
    pub(super) fn between(&self, table: u32, since: u64, now: u64) -> Option<Vec<u64>> {
        let mut tables = self.tables();
        let history = tables.entry(table).or_default();
        history.unasked = 0;
        let known = history.since.is_some_and(|from| from <= since);
        let rows = known.then(|| {
            history.forget(since);
            let changes = history.changes.iter().take_while(|(txn, _)| *txn <= now);
            changes.map(|(_, row)| *row).collect::<Vec<u64>>()
        });
        self.followed.store(tables.len(), Ordering::Release);
        // Commits need not wait for the rest.
        drop(tables);
        let mut rows = rows?;
        rows.sort_unstable();
        rows.dedup();
        Some(rows)
    }

    /// How many changes are kept of each table that is followed.
    #[cfg(test)]
    pub(super) fn counts(&self) -> Vec<usize> {
        self.tables().values().map(|history| history.changes.len()).collect()
    }
}

/// Notes the commands of a transaction; `None` if they are damaged.
fn note_commands(tables: &mut HashMap<u32, History>, txn: u64, frame: &[u8]) -> Option<()> {
    let mut commands = Commands::of_frame(frame).ok()?;
    while !tables.is_empty()
        && let Some(command) = commands.next().ok()?
    {
        match command {
            Command::PutRow { table, row, .. } | Command::DeleteRow { table, row } => {
                if let Some(history) = tables.get_mut(&table) {
                    history.changes.push_back((txn, row));
                    if history.changes.len() > MOST {
                        tables.remove(&table);
                    }
                }
            }
            Command::Clear { table } | Command::Drop { table, .. } | Command::DeleteRows { table, .. } => {
                tables.remove(&table);
            }
            // Of tables of other kinds, or no change of rows.
            Command::Put { .. }
            | Command::Delete { .. }
            | Command::DeleteRange { .. }
            | Command::PutPair { .. }
            | Command::DeletePair { .. }
            | Command::Create { .. }
            | Command::Rename { .. } => {}
        }
    }
    Some(())
}
