//! The change log against itself: records behind one another, and the trail against the records, both ways.

use treedb_query::doc;
use treedb_query::error::Result;
use treedb_storage::Reads;

use super::log::Log;
use super::record::{Earlier, What, damaged};
use super::row_history;

/// Looks at all that is kept and returns how many changes that is; 0 if the log is switched off.
pub(crate) fn check(reads: &impl Reads) -> Result<u64> {
    let Some(log) = Log::find(reads)? else { return Ok(0) };
    let least = log.least(reads)?;
    let (mut next, mut time, mut total) = (least, log.settings.since, 0);
    let (mut changes, mut trailed) = (0, 0_u64);
    log.walk(reads, least, &mut |record| {
        let head = record.head;
        if head.first != next || head.time < time || head.total < total {
            return Err(damaged("its records are out of order"));
        }
        (next, time, total) = (head.first + head.count, head.time, head.total);
        let mut seen = 0;
        for change in record.changes() {
            let change = change?;
            seen += 1;
            if change.what.has_trail() {
                trailed += 1;
                let key = row_history::key(head.collection, change.row, change.seq);
                if reads.get(&log.trail, &key)?.is_none() {
                    return Err(damaged("a change that the trail does not know"));
                }
            }
            if let What::Delete(old)
            | What::Update(Earlier::Whole(old))
            | What::Replace(Earlier::Whole(old)) = change.what
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
    for entry in reads.range(&log.trail, (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded))? {
        let (_, _, seq) = row_history::parts(&entry?.0)?;
        if seq >= least {
            trailed = trailed.checked_sub(1).ok_or_else(|| damaged("the trail has too much"))?;
        }
    }
    if trailed != 0 {
        return Err(damaged("the trail has too little"));
    }
    for dropped in log.all_dropped(reads)? {
        dropped.meta(reads)?;
    }
    Ok(changes)
}
