//! Snapshots, transaction ids, and the state of the backend.

use std::marker::PhantomData;

use pgrx::pg_sys;

use super::buffer::{LockMode, Page};
use super::relation::{Index, Relation};
use super::release::may_release;
use super::unguarded;

/// A snapshot that lives for `'s`.
#[derive(Clone, Copy)]
pub(crate) struct Snapshot<'s> {
    raw: pg_sys::Snapshot,
    lifetime: PhantomData<&'s ()>,
}

impl Snapshot<'_> {
    /// # Safety
    /// `raw` is a snapshot that lives for the lifetime of the result.
    pub(super) unsafe fn from_raw(raw: pg_sys::Snapshot) -> Self {
        Snapshot { raw, lifetime: PhantomData }
    }

    /// The server's form.
    pub(super) fn raw(self) -> pg_sys::Snapshot {
        self.raw
    }

    /// The one to which every row version is visible.
    pub(crate) fn any() -> Snapshot<'static> {
        Snapshot { raw: any(), lifetime: PhantomData }
    }

    /// Whether it is that one.
    pub(crate) fn is_any(self) -> bool {
        std::ptr::eq(self.raw, any())
    }

    /// Whether it is an MVCC snapshot, which is not deceived by an address that was reused.
    pub(crate) fn is_mvcc(self) -> bool {
        // SAFETY: alive.
        let kind = unsafe { (*self.raw).snapshot_type };
        matches!(kind, pg_sys::SnapshotType::SNAPSHOT_MVCC | pg_sys::SnapshotType::SNAPSHOT_HISTORIC_MVCC)
    }

    /// Notes that a serializable transaction has read all of a relation.
    pub(crate) fn lock_predicate(self, relation: Relation<'_>) {
        // SAFETY: a global of the backend, an open relation and a snapshot. Only serializable transactions take such locks.
        unsafe {
            if pg_sys::XactIsoLevel >= pg_sys::XACT_SERIALIZABLE as i32 {
                super::server::predicate_lock_relation(relation.raw(), self.raw);
            }
        }
    }
}

/// A static of the server.
fn any() -> pg_sys::Snapshot {
    &raw mut pg_sys::SnapshotAnyData
}

/// A snapshot that is kept as long as this lives: registered, or by the executor.
pub(crate) struct Registered {
    raw: pg_sys::Snapshot,
    /// Whether it has to be given back.
    ours: bool,
}

impl Registered {
    /// The snapshot of the running statement; that of the transaction if it has none.
    pub(crate) fn active() -> Registered {
        // SAFETY: there is an active snapshot, which the server copies or counts a reference of.
        unsafe {
            if pg_sys::ActiveSnapshotSet() {
                return Registered::new(pg_sys::RegisterSnapshot(pg_sys::GetActiveSnapshot()));
            }
        }
        Registered::transaction()
    }

    /// That of a statement whose executor calls us.
    ///
    /// # Safety
    /// The result belongs to a node of the executor: it is dropped before the executor ends, which gives the snapshot back
    /// after its nodes have ended.
    pub(super) unsafe fn of_executor(raw: pg_sys::Snapshot) -> Registered {
        Registered { raw, ours: false }
    }

    fn new(raw: pg_sys::Snapshot) -> Registered {
        Registered { raw, ours: true }
    }

    /// The snapshot of the transaction, or a new one where each statement has its own.
    pub(crate) fn transaction() -> Registered {
        // SAFETY: the server makes one, or raises an error outside a transaction.
        Registered::new(unsafe { pg_sys::RegisterSnapshot(pg_sys::GetTransactionSnapshot()) })
    }

    /// A new one, whatever the isolation level.
    pub(crate) fn latest() -> Registered {
        // SAFETY: as above.
        Registered::new(unsafe { pg_sys::RegisterSnapshot(pg_sys::GetLatestSnapshot()) })
    }

    /// The snapshot.
    pub(crate) fn get(&self) -> Snapshot<'_> {
        Snapshot { raw: self.raw, lifetime: PhantomData }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if self.ours && may_release() {
            // SAFETY: registered by us.
            unsafe { pg_sys::UnregisterSnapshot(self.raw) }
        }
    }
}

/// The active snapshot of a part of a statement, which sees what the statement has done so far. Dropped in the reverse
/// order of their making.
pub(crate) struct Pushed(());

impl Pushed {
    /// Ends the current command and makes a snapshot active that shows what it did.
    pub(crate) fn after_own_changes() -> Pushed {
        // SAFETY: inside a transaction, as every function is called; the server copies the snapshot.
        unsafe {
            pg_sys::CommandCounterIncrement();
            pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        }
        Pushed(())
    }
}

impl Drop for Pushed {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: pushed by us.
            unsafe { pg_sys::PopActiveSnapshot() }
        }
    }
}

/// Whether every statement sees what was committed before it began, as under READ COMMITTED; else only what was when the
/// transaction began.
pub(crate) fn is_of_statement() -> bool {
    // SAFETY: a global of this backend, which has one thread.
    unsafe { pg_sys::XactIsoLevel < pg_sys::XACT_REPEATABLE_READ as i32 }
}

/// Whether the server replays WAL: a standby, or a recovery.
pub(crate) fn in_recovery() -> bool {
    unguarded::RecoveryInProgress()
}

/// Whether the transaction began while the server replayed WAL: its snapshots may then be older than what the primary
/// knew when it marked entries as dead.
pub(crate) fn began_in_recovery() -> bool {
    unguarded::TransactionStartedDuringRecovery()
}

/// The next transaction id, 64 bits.
pub(crate) fn next_transaction() -> u64 {
    // SAFETY: a plain question to the server.
    unsafe { pg_sys::ReadNextFullTransactionId() }.value
}

/// Whether every snapshot there is, is newer than this transaction id.
pub(crate) fn is_before_every_snapshot(transaction: u64) -> bool {
    let transaction = pg_sys::FullTransactionId { value: transaction };
    // SAFETY: a plain question to the server; no relation stands for any.
    unsafe { pg_sys::GlobalVisCheckRemovableFullXid(std::ptr::null_mut(), transaction) }
}

/// Raises an error if entries that the snapshot should see may have been removed from a page.
pub(crate) fn expect_not_too_old<L: LockMode>(
    snapshot: Option<Snapshot<'_>>,
    index: Index<'_>,
    page: &Page<L>,
) {
    let snapshot = snapshot.map_or(std::ptr::null_mut(), |snapshot| snapshot.raw);
    // SAFETY: an open index; the server reads the log position of a pinned page. A null snapshot is never too old.
    unsafe { super::compat::expect_not_too_old(snapshot, index.raw(), page.buffer()) }
}

/// A command of a transaction, or of a subtransaction, that has written something: no other one is equal to it, not even
/// after it was rolled back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RunningCommand {
    transaction: pg_sys::TransactionId,
    command: pg_sys::CommandId,
}

impl RunningCommand {
    /// The one that is running, which writes.
    pub(crate) fn of_writer() -> RunningCommand {
        // SAFETY: asks about the running transaction, which gets a number if it has none.
        unsafe {
            RunningCommand {
                transaction: pg_sys::GetCurrentTransactionId(),
                command: pg_sys::GetCurrentCommandId(false),
            }
        }
    }
}
