//! The change log against itself: records behind one another, and the trail against the records, both ways.

use treedb_query::doc;
use treedb_query::error::Result;
use treedb_storage::kv::Reads;

use super::log::Log;
use super::record::{EarlierVersion, Operation, damaged};
use super::row_history;

/// Looks at all that is kept and returns how many changes that is; 0 if the log is switched off.
pub(crate) fn check(reads: &impl Reads) -> Result<u64> {
    let Some(log) = Log::find(reads)? else { return Ok(0) };
    let min_seq = log.min_seq(reads)?;
    let (mut next, mut time, mut total) = (min_seq, log.settings.since, 0);
    let (mut changes, mut expected_entries) = (0, 0_u64);
    log.walk(reads, min_seq, &mut |record| {
        let head = record.head;
        if head.first != next || head.time < time || head.total < total {
            return Err(damaged("its records are out of order"));
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
                    return Err(damaged("a change that the trail does not know"));
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
            return Err(damaged("a record does not have the changes it says"));
        }
        changes += seen;
        Ok(true)
    })?;
    // Entries of the first epoch may be left of changes that were cut off.
    for entry in reads.range(&log.row_history, (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded))? {
        let (_, _, seq) = row_history::decode_key(&entry?.0)?;
        if seq >= min_seq {
            expected_entries =
                expected_entries.checked_sub(1).ok_or_else(|| damaged("the trail has too much"))?;
        }
    }
    if expected_entries != 0 {
        return Err(damaged("the trail has too little"));
    }
    for dropped in log.dropped_collections(reads)? {
        dropped.meta(reads)?;
    }
    Ok(changes)
}
