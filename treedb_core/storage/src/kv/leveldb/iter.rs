//! Snapshots and iterators.

use super::db::Db;
use crate::Result;
use crate::kv::cursor::Cursor;
use crate::kv::reads::Reads;
use crate::kv::snapshot::{ReadTxn, Snapshot};

/// The state of a database at one moment.
#[derive(Debug)]
pub struct DbSnapshot {
    pub(super) read: ReadTxn,
}

/// What keeps an iterator's pages from being reused.
enum Pin<'d> {
    Own { _snapshot: Snapshot<'d> },
    Borrowed,
}

/// A position in a database, which moves in both directions; LevelDB's iterator. It begins not valid, is not valid after the last
/// and before the first key, and after an error, which [`DbIterator::status`] gives.
pub struct DbIterator<'d> {
    cursor: Cursor<'d>,
    /// Declared after the cursor, so that it is dropped after it.
    _pin: Pin<'d>,
    key: Vec<u8>,
    valid: bool,
    status: Result<()>,
}

impl<'d> DbIterator<'d> {
    pub(super) fn new(db: &'d Db, snapshot: Option<&'d DbSnapshot>) -> Result<DbIterator<'d>> {
        let inner = &*db.store.inner;
        let (found, pin) = match snapshot {
            Some(snapshot) => (snapshot.read.find(&db.table)?, Pin::Borrowed),
            None => {
                let snapshot = db.store.snapshot()?;
                (snapshot.find(&db.table)?, Pin::Own { _snapshot: snapshot })
            }
        };
        let cursor = Cursor::new(&inner.pager, &inner.values, &found.record.root);
        Ok(DbIterator { cursor, _pin: pin, key: Vec::new(), valid: false, status: Ok(()) })
    }

    /// Records the result of a move.
    fn moved(&mut self, on: Result<bool>) {
        let on = on.and_then(|on| {
            self.key.clear();
            if let Some(key) = self.cursor.key()?.filter(|_| on) {
                self.key.extend_from_slice(key);
                self.cursor.value()?;
            }
            Ok(on)
        });
        self.valid = matches!(on, Ok(true));
        self.status = on.map(|_| ());
    }

    /// Goes to the first key not below `key`.
    pub fn seek(&mut self, key: &[u8]) {
        let on = self.cursor.seek(key);
        self.moved(on);
    }

    /// Goes to the first key.
    pub fn seek_to_first(&mut self) {
        let on = self.cursor.first();
        self.moved(on);
    }

    /// Goes to the last key.
    pub fn seek_to_last(&mut self) {
        let on = self.cursor.last();
        self.moved(on);
    }

    /// Goes to the next key. Nothing if it is not valid.
    pub fn next(&mut self) {
        if self.valid {
            let on = self.cursor.next();
            self.moved(on);
        }
    }

    /// Goes to the previous key. Nothing if it is not valid.
    pub fn prev(&mut self) {
        if self.valid {
            let on = self.cursor.prev();
            self.moved(on);
        }
    }

    /// Whether it is on a key.
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// The key it is on; empty if it is not valid.
    pub fn key(&self) -> &[u8] {
        if self.valid { &self.key } else { &[] }
    }

    /// The value it is on, borrowed from the files; empty if it is not valid.
    pub fn value(&mut self) -> &[u8] {
        self.entry().1
    }

    /// Key and value it is on; both empty if it is not valid.
    pub fn entry(&mut self) -> (&[u8], &[u8]) {
        if !self.valid {
            return (&[], &[]);
        }
        // The value was read when it came here: there can be no error.
        (&self.key, self.cursor.value().ok().flatten().unwrap_or_default())
    }

    /// The error that made it not valid, once.
    ///
    /// # Errors
    /// `Corrupt` if the last move found damage.
    pub fn status(&mut self) -> Result<()> {
        std::mem::replace(&mut self.status, Ok(()))
    }
}
