//! Records the changes that a transaction makes to one collection.

use std::sync::Arc;

use bson::RawDocument;

use treedb_query::access::RowId;
use treedb_query::error::Result;
use treedb_storage::WriteTxn;

use super::log::{End, Log};
use super::record::{Defined, RecordBuilder, key};
use super::row_history;

/// Bytes of changes after which a record is written. Larger values would go to the value log, which is more expensive to
/// write and to trim.
const MAX_RECORD: usize = 768;
/// One of this many changes keeps the whole previous version of its document, which limits how many changes
/// must be undone to get a version.
const WHOLE_VERSION_INTERVAL: u64 = 16;

/// Changes that are not in the log yet. Each is recorded before it is made, when only the storage engine can still refuse it.
/// [`Self::flush`] at the end of the transaction completes the log.
#[derive(Debug)]
pub(crate) struct Recorder {
    log: Arc<Log>,
    collection: i64,
    /// Milliseconds since 1970.
    now: i64,
    body: RecordBuilder,
    /// Changed rows, and the number of their change in the record.
    rows: Vec<(u64, u64)>,
    /// The end of the log, once something was written.
    end: Option<End>,
    sampling_seed: u64,
}

impl Recorder {
    /// A recorder without changes; `now` in milliseconds since 1970.
    pub(crate) fn new(log: Arc<Log>, collection: i64, now: i64, sampling_seed: u64) -> Self {
        Recorder {
            log,
            collection,
            now,
            body: RecordBuilder::default(),
            rows: Vec::new(),
            end: None,
            sampling_seed,
        }
    }

    /// Records an insert.
    #[inline]
    pub(crate) fn insert(&mut self, row: RowId) {
        self.body.insert(row.0);
    }

    /// Records an update, or a replacement if `replaced`.
    pub(crate) fn update(&mut self, row: RowId, old: &RawDocument, new: &RawDocument, replaced: bool) {
        self.rows.push((row.0, self.body.count()));
        self.sampling_seed = (self.sampling_seed ^ row.0).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let whole = self.sampling_seed.is_multiple_of(WHOLE_VERSION_INTERVAL);
        self.body.update(row.0, old.as_bytes(), new.as_bytes(), replaced, whole);
    }

    /// Records a delete.
    pub(crate) fn delete(&mut self, row: RowId, old: &RawDocument) {
        self.rows.push((row.0, self.body.count()));
        self.body.delete(row.0, old.as_bytes());
    }

    /// Records the drop of the collection or, with `database`, of the database called `name`.
    pub(super) fn drop(&mut self, name: &str, database: bool) {
        self.body.drop(name, database);
    }

    /// Records that the collection was renamed.
    pub(super) fn rename(&mut self, from: &str, to: &str) {
        self.body.rename(from, to);
    }

    /// Records a change of the collection's definition.
    pub(crate) fn define(&mut self, defined: Defined, description: &RawDocument) {
        self.body.define(defined, description.as_bytes());
    }

    /// True if [`Self::flush`] is due before the end of the transaction.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.body.len() >= MAX_RECORD
    }

    /// The end of the log after the last flush; `None` if nothing was flushed.
    pub(super) fn end(&self) -> Option<End> {
        self.end
    }

    /// Writes the recorded changes to the log.
    pub(crate) fn flush(&mut self, txn: &mut WriteTxn) -> Result<()> {
        let count = self.body.count();
        if count == 0 {
            return Ok(());
        }
        let end = match self.end {
            Some(end) => end,
            None => self.log.end(txn)?,
        };
        let time = self.now.max(end.time);
        let history_bytes = self.rows.len() as u64 * 32;
        let value = self.body.finish(time, self.collection, end.total, history_bytes);
        txn.append(&self.log.changes, &key(end.next), &value)?;
        for (row, offset) in self.rows.drain(..) {
            row_history::add(txn, &self.log.row_history, self.collection, row, end.next + offset)?;
        }
        let total = super::record::Record::parse(&key(end.next), &value)?.head.total;
        self.end = Some(End { next: end.next + count, time, total });
        Ok(())
    }
}
