//! The keys that recent commits wrote: kept while an optimistic transaction is open.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::read_set::{Span, place};
use crate::Result;
use crate::kv::command::{Command, Commands};
use crate::kv::snapshot::ReadTxn;
use crate::kv::store::Inner;

/// Bytes that a key in memory takes besides its own.
const OVERHEAD: usize = 96;

/// See the module.
#[derive(Debug)]
pub(crate) struct RecentCommits {
    /// Number of open optimistic transactions. Commits read this first.
    open: AtomicUsize,
    kept: Mutex<Kept>,
    /// The most bytes that are kept.
    limit: usize,
}

#[derive(Debug, Default)]
struct Kept {
    /// The open transactions by what their snapshots see.
    snapshots: BTreeMap<u64, usize>,
    /// Every place that was written, with the last transaction that did.
    places: BTreeMap<Arc<[u8]>, u64>,
    /// The same in the order of commits.
    order: VecDeque<(u64, Arc<[u8]>)>,
    /// Spans that were removed at once.
    spans: VecDeque<(u64, Span)>,
    bytes: usize,
    /// The last transaction that is no longer here.
    forgotten: u64,
    /// The next number of rows that optimistic transactions have been given numbers of.
    rows: HashMap<u32, u64>,
}

impl RecentCommits {
    pub(crate) fn new(limit: usize) -> RecentCommits {
        RecentCommits { open: AtomicUsize::new(0), kept: Mutex::default(), limit }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a transaction: what is committed after its snapshot is kept from now on.
    pub(super) fn begin(&self, inner: &Arc<Inner>) -> Result<ReadTxn> {
        let mut kept = self.kept();
        self.open.fetch_add(1, Ordering::SeqCst);
        // A commit publishes and then reads `open`; this increments `open` and then reads what is published, all of it
        // sequentially consistent. So either the commit is in the snapshot, or it sees this transaction.
        let read = ReadTxn::new(Arc::clone(inner)).inspect_err(|_| {
            self.open.fetch_sub(1, Ordering::SeqCst);
        })?;
        *kept.snapshots.entry(read.txn()).or_default() += 1;
        Ok(read)
    }

    /// Ends a transaction whose snapshot sees `txn`.
    pub(super) fn end(&self, txn: u64) {
        let mut kept = self.kept();
        self.open.fetch_sub(1, Ordering::SeqCst);
        if let Some(count) = kept.snapshots.get_mut(&txn) {
            *count -= 1;
            if *count == 0 {
                kept.snapshots.remove(&txn);
            }
        }
        match kept.snapshots.first_key_value().map(|(&oldest, _)| oldest) {
            Some(oldest) => kept.forget(oldest),
            None => *kept = Kept::default(),
        }
    }

    /// Notes the commands of transaction `txn`, which has just been published. The writer calls this.
    pub(crate) fn committed(&self, txn: u64, frame: &[u8]) {
        if self.open.load(Ordering::SeqCst) > 0 {
            self.note(txn, frame);
        }
    }

    #[cold]
    fn note(&self, txn: u64, frame: &[u8]) {
        let mut kept = self.kept();
        // What every snapshot sees is not needed.
        if kept.snapshots.last_key_value().is_none() {
            return;
        }
        let noted = Commands::of_frame(frame).and_then(|mut commands| {
            while let Some(command) = commands.next()? {
                kept.add(txn, &command);
                if kept.bytes > self.limit {
                    kept.forget_oldest(txn, self.limit / 2);
                }
            }
            Ok(())
        });
        if noted.is_err() {
            // What cannot be decoded cannot be compared: any transaction may conflict.
            kept.forget_oldest(txn, 0);
            kept.forgotten = txn;
        }
    }

    /// A place within `span` that was written by a transaction after `since`.
    pub(super) fn changed_span(&self, span: &Span, since: u64) -> Option<Vec<u8>> {
        let kept = self.kept();
        let range = (Bound::Included(span.from.as_slice()), Bound::Excluded(span.to.as_slice()));
        let written = kept.places.range::<[u8], _>(range).find(|&(_, &txn)| txn > since);
        let removed = || kept.spans.iter().find(|(txn, removed)| *txn > since && removed.meets(span));
        written.map(|(place, _)| place.to_vec()).or_else(|| removed().map(|(_, span)| span.from.clone()))
    }

    /// Whether a place was written by a transaction after `since`.
    pub(super) fn changed(&self, place: &[u8], since: u64) -> bool {
        let kept = self.kept();
        kept.places.get(place).is_some_and(|&txn| txn > since)
            || kept.spans.iter().any(|(txn, removed)| *txn > since && removed.contains(place))
    }

    /// Whether everything after `since` is still here.
    pub(super) fn reaches(&self, since: u64) -> bool {
        self.kept().forgotten <= since
    }

    /// A row number that no other optimistic transaction gets; `next` is the table's next one.
    pub(super) fn row(&self, table: u32, next: u64) -> u64 {
        let mut kept = self.kept();
        let following = kept.rows.entry(table).or_insert(next);
        let row = next.max(*following);
        *following = row.saturating_add(1);
        row
    }

    /// Bytes kept.
    #[cfg(test)]
    pub(in crate::kv) fn bytes(&self) -> usize {
        self.kept().bytes
    }
}

impl Kept {
    fn add(&mut self, txn: u64, command: &Command<'_>) {
        match *command {
            Command::Put { table, key, .. } | Command::Delete { table, key } => {
                self.add_place(txn, place(table, key).into());
            }
            Command::PutRow { table, row, .. } | Command::DeleteRow { table, row } => {
                self.add_place(txn, place(table, &row.to_be_bytes()).into());
            }
            Command::DeleteRange { table, bounds: (from, to) } => {
                self.add_span(txn, Span::new(table, from, to));
            }
            Command::DeleteRows { table, from, to } => {
                let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
                self.add_span(txn, Span::new(table, Bound::Included(&from), Bound::Excluded(&to)));
            }
            Command::Clear { table } | Command::Drop { table, .. } => self.add_span(txn, Span::table(table)),
            // Optimistic transactions do not read dup tables; an open one cannot have read a table that is created now;
            // names of tables are not checked.
            Command::PutPair { .. }
            | Command::DeletePair { .. }
            | Command::Create { .. }
            | Command::Rename { .. } => {}
        }
    }

    fn add_place(&mut self, txn: u64, place: Arc<[u8]>) {
        self.bytes += OVERHEAD + place.len();
        self.places.insert(Arc::clone(&place), txn);
        self.order.push_back((txn, place));
    }

    fn add_span(&mut self, txn: u64, span: Span) {
        self.bytes += OVERHEAD + span.from.len() + span.to.len();
        self.spans.push_back((txn, span));
    }

    /// Forgets what transactions up to `upto` wrote.
    fn forget(&mut self, upto: u64) {
        while self.order.front().is_some_and(|(txn, _)| *txn <= upto) {
            self.forget_place();
        }
        while let Some((_, span)) = self.spans.pop_front_if(|(txn, _)| *txn <= upto) {
            self.bytes -= OVERHEAD + span.from.len() + span.to.len();
        }
        self.forgotten = self.forgotten.max(upto);
    }

    fn forget_place(&mut self) {
        let Some((txn, place)) = self.order.pop_front() else { return };
        self.bytes -= OVERHEAD + place.len();
        if self.places.get(&place) == Some(&txn) {
            self.places.remove(&place);
        }
    }

    /// Forgets the oldest transactions until at most `bytes` are left; `current` is the newest.
    fn forget_oldest(&mut self, current: u64, bytes: usize) {
        while self.bytes > bytes {
            let oldest = self.order.front().map(|(txn, _)| *txn);
            let oldest = oldest.into_iter().chain(self.spans.front().map(|(txn, _)| *txn)).min();
            self.forget(oldest.unwrap_or(current));
        }
    }
}
