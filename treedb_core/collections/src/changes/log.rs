//! The tables of the change log in a transaction, and reading them.

use bson::{RawDocumentBuf, Timestamp};

use treedb_query::access::RowId;
use treedb_query::error::Result;
use treedb_storage::{Cursor, Reads, Table};

use super::as_of::{snapshot_too_old, unavailable};
use super::dropped_collections::{self, CollectionsById};
use super::event::cluster_time;
use super::record::{Change, EarlierVersion, Head, Operation, Record, damaged, document, key};
use super::row_history;
use super::settings::Settings;
use crate::read::view::View;

/// Names of the tables.
pub(super) const CHANGES: &str = "changes";
pub(super) const ROW_HISTORY: &str = "changes/trail";
pub(super) const DROPPED: &str = "changes/dropped";

/// A change log that is switched on: its settings and tables.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    pub(crate) settings: Settings,
    pub(super) changes: Table,
    pub(super) row_history: Table,
    pub(super) dropped: Table,
}

/// The end of the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    /// Sequence number of the next change.
    pub(crate) next: u64,
    /// When the last change was committed.
    pub(crate) time: i64,
    /// Bytes of all records so far.
    pub(crate) total: u64,
}

impl Log {
    /// The log as `reads` has it; `None` if it is switched off.
    pub(crate) fn find(reads: &impl Reads) -> Result<Option<Log>> {
        let Some(changes) = reads.table(CHANGES)? else { return Ok(None) };
        let Some(entry) = reads.get(&changes, b"")? else { return Err(damaged("no settings")) };
        let settings = Settings::decode(entry)?;
        if !settings.on {
            return Ok(None);
        }
        let table = |name| reads.table(name)?.ok_or_else(|| damaged("a table is missing"));
        Ok(Some(Log { settings, row_history: table(ROW_HISTORY)?, dropped: table(DROPPED)?, changes }))
    }

    /// The header of the first record that is kept, if there is one.
    pub(crate) fn first(&self, reads: &impl Reads) -> Result<Option<Head>> {
        let mut cursor = reads.cursor(&self.changes)?;
        if cursor.seek(&key(0))? { head(&mut cursor) } else { Ok(None) }
    }

    /// The end of the log.
    pub(crate) fn end(&self, reads: &impl Reads) -> Result<End> {
        let mut cursor = reads.cursor(&self.changes)?;
        let last = if cursor.last()? && !cursor.key()?.is_some_and(<[u8]>::is_empty) {
            head(&mut cursor)?
        } else {
            None
        };
        Ok(match last {
            Some(last) => End { next: last.first + last.count, time: last.time, total: last.total },
            None => End { next: self.settings.from, time: self.settings.since, total: 0 },
        })
    }

    /// The least sequence number that is kept; that of the next change if none is.
    pub(crate) fn min_seq(&self, reads: &impl Reads) -> Result<u64> {
        match self.first(reads)? {
            Some(first) => Ok(first.first),
            None => Ok(self.settings.from),
        }
    }

    /// Visits the records from the one with change `seq` on, or else the first one after it, until `visit` returns false.
    pub(crate) fn walk(
        &self,
        reads: &impl Reads,
        seq: u64,
        visit: &mut dyn FnMut(Record<'_>) -> Result<bool>,
    ) -> Result<()> {
        let mut cursor = reads.cursor(&self.changes)?;
        let mut on = match cursor.seek_back(&key(seq))? && !cursor.key()?.is_some_and(<[u8]>::is_empty) {
            true => true,
            false => cursor.seek(&key(0))?,
        };
        while on {
            let Some((key, value)) = cursor.entry()? else { return Ok(()) };
            let record = Record::parse(key, value)?;
            if record.head.first + record.head.count > seq && !visit(record)? {
                return Ok(());
            }
            on = cursor.next()?;
        }
        Ok(())
    }

    /// Calls `visit` with the change `seq`.
    fn change<T>(
        &self,
        reads: &impl Reads,
        seq: u64,
        visit: impl FnOnce(Change<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut cursor = reads.cursor(&self.changes)?;
        if !cursor.seek_back(&key(seq))? {
            return Err(damaged("a missing change"));
        }
        let Some((key, value)) = cursor.entry()? else { return Err(damaged("a missing change")) };
        match Record::parse(key, value)?.changes_from(seq).next() {
            Some(change) => visit(change?),
            None => Err(damaged("a missing change")),
        }
    }

    /// The version of a row after change `seq`: undoes the later changes of the row.
    pub(crate) fn version(
        &self,
        reads: &impl Reads,
        collections: &mut CollectionsById,
        collection: i64,
        row: u64,
        seq: u64,
    ) -> Result<Version> {
        let mut patches: Vec<(usize, usize, Vec<u8>)> = Vec::new();
        let mut base = None;
        let mut steps = row_history::LaterChanges::new(reads, &self.row_history, collection, row, seq)?;
        while base.is_none()
            && let Some(later) = steps.next()?
        {
            self.change(reads, later, |change| {
                if change.row != row || !change.operation.is_in_row_history() {
                    return Err(damaged("the row history has another row's change"));
                }
                match change.operation {
                    Operation::Update(EarlierVersion::Patch { prefix, suffix, middle })
                    | Operation::Replace(EarlierVersion::Patch { prefix, suffix, middle }) => {
                        patches.push((prefix, suffix, middle.to_vec()));
                    }
                    Operation::Update(EarlierVersion::Whole(old))
                    | Operation::Replace(EarlierVersion::Whole(old))
                    | Operation::Delete(old) => base = Some(document(old)?),
                    _ => {}
                }
                Ok(())
            })?;
        }
        let base = match base {
            Some(base) => Some(base),
            None => match collections.meta(reads, self, collection)? {
                dropped_collections::RetainedRows::Available(meta) => {
                    let view = View { reads, meta: &meta };
                    let mut current = None;
                    treedb_query::access::Source::fetch(&view, RowId(row), &mut |document| {
                        current = Some(document.to_owned());
                        Ok(())
                    })?;
                    current
                }
                dropped_collections::RetainedRows::Discarded => return Ok(Version::Discarded),
            },
        };
        let Some(mut version) = base else {
            return if patches.is_empty() { Ok(Version::Absent) } else { Err(damaged("a row is missing")) };
        };
        for (prefix, suffix, middle) in patches.iter().rev() {
            let earlier = EarlierVersion::Patch { prefix: *prefix, suffix: *suffix, middle };
            version = earlier.restore(Some(&version))?;
        }
        Ok(Version::Document(version))
    }

    /// Number of the last change committed not later than `time` (milliseconds since 1970).
    pub(crate) fn at_time(&self, reads: &impl Reads, time: i64) -> Result<u64> {
        let first = self.first(reads)?;
        let Some(first) = first else { return Ok(self.settings.from.saturating_sub(1)) };
        // Times never decrease, so a binary search finds the record.
        let (mut low, mut high) = (first.first, self.end(reads)?.next);
        while low < high {
            let middle = low + (high - low) / 2;
            let mut found = None;
            self.walk(reads, middle, &mut |record| {
                found = Some(record.head);
                Ok(false)
            })?;
            match found {
                Some(head) if head.time <= time => low = head.first + head.count,
                Some(head) => high = head.first.max(low).min(middle),
                None => high = middle,
            }
        }
        Ok(low.saturating_sub(1))
    }

    /// Number of the last change whose cluster time is not later than `time`.
    ///
    /// # Errors
    /// `SnapshotUnavailable` if `time` is later than the last change: another one may get it yet. `SnapshotTooOld` if it is earlier than
    /// those that are kept.
    pub(crate) fn at_cluster_time(&self, reads: &impl Reads, time: Timestamp) -> Result<u64> {
        let (end, milliseconds) = (self.end(reads)?, i64::from(time.time) * 1000);
        // Changes of one second differ in the increment, the lower half of their number.
        let before = self.at_time(reads, milliseconds - 1)?;
        let last = self.at_time(reads, milliseconds + 999)?;
        let low = u64::from(u32::MAX);
        let same = (last & !low) | u64::from(time.increment);
        let of_second = before + 1..=last;
        let newest = cluster_time(end.time, end.next.saturating_sub(1));
        if time.time > newest.time {
            return Err(unavailable(time, "the last change was before"));
        }
        // The upper half may have grown within the second.
        let mut possible = [Some(same), same.checked_sub(low + 1)].into_iter().flatten();
        let seq = match possible.find(|seq| of_second.contains(seq)) {
            Some(seq) => seq,
            None if same < last => before,
            None if same > last && time.time == newest.time => {
                return Err(unavailable(time, "the last change was before"));
            }
            None => last,
        };
        let is_kept = match self.first(reads)? {
            Some(first) if seq >= first.first => true,
            first => {
                let cut = first.is_some_and(|first| first.first > self.settings.from);
                !cut && time >= cluster_time(self.settings.since, self.settings.from.saturating_sub(1))
            }
        };
        match is_kept {
            true => Ok(seq),
            false => {
                let (seconds, increment) = (time.time, time.increment);
                Err(snapshot_too_old(format!("at ({seconds}, {increment}): changes are not kept that long")))
            }
        }
    }
}

/// The version of a row at some change.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Version {
    Document(RawDocumentBuf),
    Absent,
    /// The collection was dropped, and its rows are no longer kept.
    Discarded,
}

/// The header of the record at the cursor.
fn head(cursor: &mut Cursor<'_>) -> Result<Option<Head>> {
    match cursor.entry()? {
        Some((key, value)) => Ok(Some(Record::parse(key, value)?.head)),
        None => Ok(None),
    }
}
