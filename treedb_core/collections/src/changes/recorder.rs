//! The changes a transaction has made to one collection, on their way into the log.

use std::sync::Arc;

use bson::RawDocument;

use treedb_query::access::RowId;
use treedb_query::error::Result;
use treedb_storage::kv::WriteTxn;

use super::log::{End, Log};
use super::record::{RecordBuilder, key};
use super::row_history;

/// Bytes of a record's changes after which it is written: values over about a quarter page go to the value log, which
/// is dearer to write and to cut off.
const MAX_RECORD: usize = 768;
/// One in so many changes keeps the whole earlier version of its document, so that a version is never far from one.
const WHOLE_VERSION_INTERVAL: u64 = 16;

/// Changes that are not in the table yet. Each is noted before it is made, when nothing but the storage engine can refuse
/// it any more; [`Self::flush`] at the end of the transaction is what makes the log complete.
#[derive(Debug)]
pub(crate) struct Recorder {
    log: Arc<Log>,
    collection: i64,
    /// Milliseconds since 1970.
    now: i64,
    body: RecordBuilder,
    /// Rows that were changed, and by which change of the body.
    rows: Vec<(u64, u64)>,
    /// Where the log ends; known once something was written.
    end: Option<End>,
    sampling_seed: u64,
}

impl Recorder {
    /// Nothing yet; `now` in milliseconds since 1970.
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

    /// A row is inserted.
    #[inline]
    pub(crate) fn insert(&mut self, row: RowId) {
        self.body.insert(row.0);
    }

    /// A row is changed; `replaced` if that was asked for as a whole new document.
    pub(crate) fn update(&mut self, row: RowId, old: &RawDocument, new: &RawDocument, replaced: bool) {
        self.rows.push((row.0, self.body.count()));
        self.sampling_seed = (self.sampling_seed ^ row.0).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let whole = self.sampling_seed.is_multiple_of(WHOLE_VERSION_INTERVAL);
        self.body.update(row.0, old.as_bytes(), new.as_bytes(), replaced, whole);
    }

    /// A row is deleted.
    pub(crate) fn delete(&mut self, row: RowId, old: &RawDocument) {
        self.rows.push((row.0, self.body.count()));
        self.body.delete(row.0, old.as_bytes());
    }

    /// The collection is dropped, or with `database` the whole database, called `name`.
    pub(super) fn drop(&mut self, name: &str, database: bool) {
        self.body.drop(name, database);
    }

    /// True if it is time to call [`Self::flush`] in the middle of a transaction.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.body.len() >= MAX_RECORD
    }

    /// Number of the change noted last, and where the log ends behind it; once flushed.
    pub(super) fn end(&self) -> Option<End> {
        self.end
    }

    /// Writes what was noted.
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
