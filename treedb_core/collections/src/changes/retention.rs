//! Retention: removing changes that are too old or exceed the size limit.
//!
//! Records are removed from the oldest on, in short transactions. The last one always stays, because it marks the end of the log. The
//! rows of a dropped collection are removed together with the record of its drop, or earlier if their size exceeds the limit.

use std::ops::Bound;
use std::sync::atomic::Ordering;

use treedb_query::error::Result;
use treedb_storage::{Durability, Reads};

use super::log::Log;
use super::record::{Head, key};
use super::{dropped_collections, row_history};
use crate::catalog::meta::rows_table;
use crate::database::Database;

/// The least milliseconds between two checks of the log by committing transactions.
const TRIM_INTERVAL_MS: i64 = 1000;
/// Records removed in one transaction.
const TRIM_RECORDS: usize = 512;
/// Milliseconds for which the rows of a dropped collection are kept regardless of their size, so that streams that keep up can
/// still read its documents.
const DROPPED_GRACE_MS: i64 = 60_000;

/// What to remove.
#[derive(Debug, Default)]
struct TrimPlan {
    /// Records before this change are removed.
    to: Option<u64>,
    /// Dropped collections whose rows are removed.
    rows: Vec<dropped_collections::DroppedCollection>,
    /// There is more to remove.
    more: bool,
}

/// Bytes of the records before `first`, the first one that is kept.
pub(super) fn bytes_before(reads: &impl Reads, log: &Log, first: Head) -> Result<u64> {
    let bytes = reads.get(&log.changes, &key(first.first))?.map_or(0, |value| value.len() as u64 + 8);
    Ok(first.total.saturating_sub(bytes))
}

fn make_plan(reads: &impl Reads, log: &Log, now: i64) -> Result<TrimPlan> {
    let mut plan = TrimPlan::default();
    let Some(first) = log.first(reads)? else { return Ok(plan) };
    let end = log.end(reads)?;
    let options = log.settings.options;
    let oldest = now.saturating_sub(i64::try_from(options.keep.as_millis()).unwrap_or(i64::MAX));
    let mut kept = log.dropped_collections(reads)?;
    let before = bytes_before(reads, log, first)?;
    let bytes = end.total.saturating_sub(before);
    let rows: u64 = kept.iter().filter(|dropped| dropped.entry.is_some()).map(|dropped| dropped.bytes).sum();
    // Rows of dropped collections are removed first if the size limit is exceeded.
    let mut over = (bytes + rows).saturating_sub(options.bytes);
    kept.sort_by_key(|dropped| dropped.seq);
    for dropped in &kept {
        let old = dropped.time < oldest;
        let large = over > 0 && dropped.time < now - DROPPED_GRACE_MS;
        if dropped.entry.is_some() && (old || large) {
            over = over.saturating_sub(dropped.bytes);
            plan.rows.push(dropped.clone());
        }
    }
    let (mut seen, mut previous) = (0, before);
    log.walk(reads, first.first, &mut |record| {
        let head = record.head;
        let kept = end.total.saturating_sub(previous);
        previous = head.total;
        let is_last = head.first + head.count >= end.next;
        if is_last || (head.time >= oldest && kept <= options.bytes) {
            return Ok(false);
        }
        seen += 1;
        plan.to = Some(head.first + head.count);
        plan.more = seen >= TRIM_RECORDS;
        Ok(!plan.more)
    })?;
    Ok(plan)
}

impl Database {
    /// Removes recorded changes that are too old or exceed the size limit. Commits do this from time to time; a database without
    /// writes needs this call.
    pub fn trim_changes(&self) -> Result<()> {
        let changes = &self.inner.changes;
        if changes.keeps_all() {
            return Ok(());
        }
        let now = changes.now();
        changes.last_trim.store(now, Ordering::Relaxed);
        loop {
            {
                // Usually there is nothing to do, and no need for the write lock.
                let reads = self.inner.store.begin_read()?;
                let Some(log) = Log::find(&reads)? else { return Ok(()) };
                let plan = make_plan(&reads, &log, now)?;
                if plan.to.is_none() && plan.rows.is_empty() {
                    return Ok(());
                }
            }
            let mut txn = self.inner.store.begin_write()?;
            let Some(log) = Log::find(&txn)? else { return Ok(()) };
            let plan = make_plan(&txn, &log, now)?;
            if let Some(to) = plan.to {
                txn.delete_range(&log.changes, (Bound::Included(&key(0)), Bound::Excluded(&key(to))))?;
                row_history::trim(&mut txn, &log.row_history, to)?;
                for rename in log.renames(&txn)?.iter().filter(|rename| rename.seq < to) {
                    rename.remove(&mut txn, &log)?;
                }
                for dropped in log.dropped_collections(&txn)?.iter().filter(|dropped| dropped.seq < to) {
                    txn.drop_table(&rows_table(dropped.id))?;
                    txn.delete(&log.dropped, &dropped.id.to_be_bytes())?;
                }
            }
            for dropped in plan.rows.iter().filter(|dropped| plan.to.is_none_or(|to| dropped.seq >= to)) {
                txn.drop_table(&rows_table(dropped.id))?;
                dropped_collections::DroppedCollection { entry: None, ..dropped.clone() }
                    .store(&mut txn, &log)?;
            }
            txn.commit_with(Durability::Relaxed)?;
            if !plan.more {
                return Ok(());
            }
        }
    }

    /// Must be called after changes were committed: wakes change streams, and trims the log from time to time.
    pub(crate) fn after_commit(&self) {
        let changes = &self.inner.changes;
        changes.notify();
        let (now, last) = (changes.now(), changes.last_trim.load(Ordering::Relaxed));
        // One of the concurrent committers trims the log. An error does not matter to its commit, which is done: a later
        // committer tries again.
        if (last.saturating_add(TRIM_INTERVAL_MS) < now || now < last)
            && changes.last_trim.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            let _ = self.trim_changes();
        }
    }
}
