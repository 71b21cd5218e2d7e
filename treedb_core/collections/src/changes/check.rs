//! Consistency checks of the change log: the order of its records, and the row history against the records, both ways.

use treedb_query::doc;
use treedb_query::error::Result;
use treedb_storage::Reads;

use super::log::Log;
use super::record::{EarlierVersion, Operation, damaged};
use super::row_history;

/// Records and entries of the row history between two reports of progress.
const STEP: u64 = 4_096;

/// Numbers of records and of entries of the row history that [`check`] reads, about.
pub(crate) fn entries_to_check(reads: &impl Reads) -> Result<u64> {
    match Log::find(reads)? {
        Some(log) => Ok(reads.len(&log.changes)? + reads.len(&log.row_history)?),
        None => Ok(0),
    }
}

/// Checks all changes that are kept and returns their number; 0 if the log is off. `on_checked` is called with the number of records and
/// entries of the row history since its last call.
pub(crate) fn check(reads: &impl Reads, on_checked: &dyn Fn(u64)) -> Result<u64> {
    let Some(log) = Log::find(reads)? else { return Ok(0) };
    let min_seq = log.min_seq(reads)?;
    let (mut next, mut time, mut total) = (min_seq, log.settings.since, 0);
    let (mut changes, mut expected_entries) = (0, 0_u64);
    let mut read = 0_u64;
    let mut count = || {
        read += 1;
        if read.is_multiple_of(STEP) {
            on_checked(STEP);
        }
    };
    log.walk(reads, min_seq, &mut |record| {
        let head = record.head;
        if head.first != next || head.time < time || head.total < total {
            return Err(damaged("records are out of order"));
        }
        (next, time, total) = (head.first + head.count, head.time, head.total);
        let mut seen = 0;
        for change in record.changes() {
            let change = change?;
            seen += 1;
            if change.operation.is_in_row_history() {
                expected_entries += 1;
                let key = row_history::key(head.collection, change.row, change.seq);
                if reads.get(&log.row_history, &key)?.is_none() {
                    return Err(damaged("a change is missing in the row history"));
                }
            }
            if let Operation::Delete(old)
            | Operation::Update(EarlierVersion::Whole(old))
            | Operation::Replace(EarlierVersion::Whole(old)) = change.operation
            {
                doc::validate(old)?;
            }
        }
        if seen != head.count {
            return Err(damaged("a record with a wrong number of changes"));
        }
        changes += seen;
        count();
        Ok(true)
    })?;
    // The first epoch may still have entries of changes that were removed.
    for entry in reads.range(&log.row_history, (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded))? {
        count();
        let (_, _, seq) = row_history::decode_key(&entry?.0)?;
        if seq >= min_seq {
            expected_entries = expected_entries
                .checked_sub(1)
                .ok_or_else(|| damaged("the row history has too many entries"))?;
        }
    }
    if expected_entries != 0 {
        return Err(damaged("the row history has too few entries"));
    }
    for dropped in log.dropped_collections(reads)? {
        dropped.meta(reads)?;
    }
    log.renames(reads)?;
    Ok(changes)
}
