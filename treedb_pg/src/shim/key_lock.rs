//! Locks of keys of an index, and waiting for those who are at work on a row.

use std::ptr;

use pgrx::pg_sys;

use super::relation::{Index, Table};
use super::release::may_release;

/// A lock of the server's on a number within an index. An error releases it, as it does all locks.
pub(crate) struct KeyLock {
    index: pg_sys::Oid,
    number: u32,
}

impl KeyLock {
    /// Waits for the lock. Two that are taken at the same time are taken in the order of their numbers.
    pub(crate) fn take(index: Index<'_>, number: u32) -> KeyLock {
        // SAFETY: an open index, whose locks on pages nobody else uses.
        unsafe { pg_sys::LockPage(index.raw(), number, LOCK) };
        KeyLock { index: index.oid(), number }
    }
}

/// The mode that excludes itself.
const LOCK: pg_sys::LOCKMODE = pg_sys::ExclusiveLock as pg_sys::LOCKMODE;

impl Drop for KeyLock {
    fn drop(&mut self) {
        if may_release() {
            // SAFETY: the lock's tag as the server makes it for a page of a relation: its database, which is this one (there
            // are no collections in shared catalogs), the relation and the page.
            unsafe {
                let tag = pg_sys::LOCKTAG {
                    locktag_field1: pg_sys::MyDatabaseId.into(),
                    locktag_field2: self.index.into(),
                    locktag_field3: self.number,
                    locktag_field4: 0,
                    locktag_type: pg_sys::LockTagType::LOCKTAG_PAGE as u8,
                    locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
                };
                pg_sys::LockRelease(&raw const tag, LOCK, false);
            }
        }
    }
}

/// Another transaction that has inserted a row, or deleted it, and has not ended.
pub(crate) struct Pending {
    transaction: pg_sys::TransactionId,
    /// Of an insert that may still be taken back: INSERT ON CONFLICT.
    token: u32,
}

/// What has become of a row.
pub(crate) enum Row {
    /// No version of it is there.
    Gone,
    Live,
    /// Another transaction is at work on it.
    Pending(Pending),
}

impl Row {
    /// `tid` is the root of a HOT chain, as an index has it.
    pub(crate) fn of(table: Table<'_>, tid: pg_sys::ItemPointerData) -> Row {
        let mut snapshot = pg_sys::SnapshotData {
            snapshot_type: pg_sys::SnapshotType::SNAPSHOT_DIRTY,
            ..Default::default()
        };
        let (mut tid, mut again) = (tid, false);
        // SAFETY: an open table; the snapshot, whose kind has no other fields than those the server sets, outlives the
        // fetch. Nothing here has a destructor that an error would skip.
        unsafe {
            let slot = pg_sys::table_slot_create(table.raw(), ptr::null_mut());
            let fetch = pg_sys::table_index_fetch_begin(table.raw());
            let mut found = Row::Gone;
            while matches!(found, Row::Gone)
                && pg_sys::table_index_fetch_tuple(
                    fetch,
                    &raw mut tid,
                    &raw mut snapshot,
                    slot,
                    &raw mut again,
                    ptr::null_mut(),
                )
            {
                let pending = [snapshot.xmin, snapshot.xmax]
                    .into_iter()
                    .find(|transaction| *transaction != pg_sys::InvalidTransactionId);
                found = pending.map_or(Row::Live, |transaction| {
                    Row::Pending(Pending { transaction, token: snapshot.speculativeToken })
                });
                if !again {
                    break;
                }
            }
            pg_sys::table_index_fetch_end(fetch);
            pg_sys::ExecDropSingleTupleTableSlot(slot);
            found
        }
    }
}

impl Pending {
    /// Waits until it has ended, or has taken its insert back. `row` is the one that is to be inserted.
    pub(crate) fn wait(self, table: Table<'_>, mut row: pg_sys::ItemPointerData) {
        // SAFETY: a transaction that the server has named; the address is for messages.
        unsafe {
            if self.token != 0 {
                pg_sys::SpeculativeInsertionWait(self.transaction, self.token);
            } else {
                let why = pg_sys::XLTW_Oper::XLTW_InsertIndex;
                pg_sys::XactLockTableWait(self.transaction, table.raw(), &raw mut row, why);
            }
        }
    }
}
