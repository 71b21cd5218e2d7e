//! The keys that recent commits wrote: kept while an optimistic transaction is open.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::read_set::{Span, table_key};
use crate::Result;
use crate::kv::command::{Command, Commands};
use crate::kv::snapshot::ReadTxn;
use crate::kv::store::Inner;

/// The approximate memory that a key takes in addition to its bytes.
const OVERHEAD: usize = 96;

/// The keys that recent commits wrote. See the module header.
#[derive(Debug)]
pub(crate) struct RecentCommits {
    /// Number of open optimistic transactions. Commits read this first.
    open: AtomicUsize,
    history: Mutex<History>,
    /// The maximum size of the history in bytes.
    limit: usize,
}

#[derive(Debug, Default)]
struct History {
    /// The number of open transactions for each snapshot, by the last transaction that the snapshot sees.
    snapshots: BTreeMap<u64, usize>,
    /// The table keys that were written, each with the last transaction that wrote it.
    keys: BTreeMap<Arc<[u8]>, u64>,
    /// The same keys in the order of commits.
    order: VecDeque<(u64, Arc<[u8]>)>,
    /// Spans that were deleted as a whole, with their transactions.
    spans: VecDeque<(u64, Span)>,
    bytes: usize,
    /// The last transaction whose writes were dropped.
    dropped: u64,
    /// The next row number by table, for tables in which optimistic transactions have appended rows.
    next_rows: HashMap<u32, u64>,
}

impl RecentCommits {
    pub(crate) fn new(limit: usize) -> RecentCommits {
        RecentCommits { open: AtomicUsize::new(0), history: Mutex::default(), limit }
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a transaction: commits after its snapshot are recorded from now on.
    pub(super) fn begin(&self, inner: &Arc<Inner>) -> Result<ReadTxn> {
        let mut history = self.history();
        self.open.fetch_add(1, Ordering::SeqCst);
        // A commit publishes and then reads `open`; this increments `open` and then reads what is published,
        // with sequential consistency. So either the commit is in the snapshot, or it sees that a transaction
        // is open.
        let read = ReadTxn::new(Arc::clone(inner)).inspect_err(|_| {
            self.open.fetch_sub(1, Ordering::SeqCst);
        })?;
        *history.snapshots.entry(read.txn()).or_default() += 1;
        Ok(read)
    }

    /// Ends a transaction with the snapshot of transaction `txn`.
    pub(super) fn end(&self, txn: u64) {
        let mut history = self.history();
        self.open.fetch_sub(1, Ordering::SeqCst);
        if let Some(count) = history.snapshots.get_mut(&txn) {
            *count -= 1;
            if *count == 0 {
                history.snapshots.remove(&txn);
            }
        }
        match history.snapshots.first_key_value().map(|(&oldest, _)| oldest) {
            Some(oldest) => history.drop_until(oldest),
            None => *history = History::default(),
        }
    }

    /// Records the commands of transaction `txn`, which has just been published. Called by the writer.
    pub(crate) fn committed(&self, txn: u64, frame: &[u8]) {
        if self.open.load(Ordering::SeqCst) > 0 {
            self.record(txn, frame);
        }
    }

    #[cold]
    fn record(&self, txn: u64, frame: &[u8]) {
        let mut history = self.history();
        // Without open transactions nothing needs to be recorded.
        if history.snapshots.last_key_value().is_none() {
            return;
        }
        let recorded = Commands::of_frame(frame).and_then(|mut commands| {
            while let Some(command) = commands.next()? {
                history.add(txn, &command);
                if history.bytes > self.limit {
                    history.drop_oldest(txn, self.limit / 2);
                }
            }
            Ok(())
        });
        if recorded.is_err() {
            // Commands that cannot be decoded may conflict with any transaction.
            history.drop_oldest(txn, 0);
            history.dropped = txn;
        }
    }

    /// A table key in `span` that was written by a transaction after `since`.
    pub(super) fn find_changed(&self, span: &Span, since: u64) -> Option<Vec<u8>> {
        let history = self.history();
        let range = (Bound::Included(span.from.as_slice()), Bound::Excluded(span.to.as_slice()));
        let written = history.keys.range::<[u8], _>(range).find(|&(_, &txn)| txn > since);
        let deleted = || history.spans.iter().find(|(txn, deleted)| *txn > since && deleted.overlaps(span));
        written
            .map(|(table_key, _)| table_key.to_vec())
            .or_else(|| deleted().map(|(_, span)| span.from.clone()))
    }

    /// Whether a table key was written by a transaction after `since`.
    pub(super) fn changed(&self, table_key: &[u8], since: u64) -> bool {
        let history = self.history();
        history.keys.get(table_key).is_some_and(|&txn| txn > since)
            || history.spans.iter().any(|(txn, deleted)| *txn > since && deleted.contains(table_key))
    }

    /// Whether all commits after `since` are still in the history.
    pub(super) fn covers(&self, since: u64) -> bool {
        self.history().dropped <= since
    }

    /// Assigns a row number that no other optimistic transaction gets; `next` is the table's next row number.
    pub(super) fn assign_row(&self, table: u32, next: u64) -> u64 {
        let mut history = self.history();
        let assigned_next = history.next_rows.entry(table).or_insert(next);
        let row = next.max(*assigned_next);
        *assigned_next = row.saturating_add(1);
        row
    }

    /// The size of the history in bytes.
    #[cfg(test)]
    pub(in crate::kv) fn bytes(&self) -> usize {
        self.history().bytes
    }
}

impl History {
    fn add(&mut self, txn: u64, command: &Command<'_>) {
        match *command {
            Command::Put { table, key, .. } | Command::Delete { table, key } => {
                self.add_key(txn, table_key(table, key).into());
            }
            Command::PutRow { table, row, .. } | Command::DeleteRow { table, row } => {
                self.add_key(txn, table_key(table, &row.to_be_bytes()).into());
            }
            Command::DeleteRange { table, bounds: (from, to) } => {
                self.add_span(txn, Span::new(table, from, to));
            }
            Command::DeleteRows { table, from, to } => {
                let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
                self.add_span(txn, Span::new(table, Bound::Included(&from), Bound::Excluded(&to)));
            }
            Command::Clear { table } | Command::Drop { table, .. } => self.add_span(txn, Span::table(table)),
            // Optimistic transactions do not read dup tables; an open one cannot have read a table that is
            // created after its snapshot; table names are not checked for conflicts.
            Command::PutPair { .. }
            | Command::DeletePair { .. }
            | Command::Create { .. }
            | Command::Rename { .. } => {}
        }
    }

    fn add_key(&mut self, txn: u64, table_key: Arc<[u8]>) {
        self.bytes += OVERHEAD + table_key.len();
        self.keys.insert(Arc::clone(&table_key), txn);
        self.order.push_back((txn, table_key));
    }

    fn add_span(&mut self, txn: u64, span: Span) {
        self.bytes += OVERHEAD + span.from.len() + span.to.len();
        self.spans.push_back((txn, span));
    }

    /// Drops the writes of transactions up to `upto`.
    fn drop_until(&mut self, upto: u64) {
        while self.order.front().is_some_and(|(txn, _)| *txn <= upto) {
            self.drop_key();
        }
        while let Some((_, span)) = self.spans.pop_front_if(|(txn, _)| *txn <= upto) {
            self.bytes -= OVERHEAD + span.from.len() + span.to.len();
        }
        self.dropped = self.dropped.max(upto);
    }

    fn drop_key(&mut self) {
        let Some((txn, table_key)) = self.order.pop_front() else { return };
        self.bytes -= OVERHEAD + table_key.len();
        if self.keys.get(&table_key) == Some(&txn) {
            self.keys.remove(&table_key);
        }
    }

    /// Drops the writes of the oldest transactions until at most `bytes` are left; `current` is the newest
    /// transaction.
    fn drop_oldest(&mut self, current: u64, bytes: usize) {
        while self.bytes > bytes {
            let oldest = self.order.front().map(|(txn, _)| *txn);
            let oldest = oldest.into_iter().chain(self.spans.front().map(|(txn, _)| *txn)).min();
            self.drop_until(oldest.unwrap_or(current));
        }
    }
}
