//! Snapshots: transactions pinned for reading.

use std::sync::{Arc, Mutex, PoisonError};

use super::arena::Arena;
use super::catalog::Table;
use super::reads::{ReadContext, Reads, TableState};
use super::record_cache;
use super::store::Inner;
use crate::btree::TreeRoot;
use crate::page::Pin;
use crate::{Error, Result};

/// A pin, and what reads through it need.
#[derive(Debug)]
struct Pinned {
    pin: Pin,
    arena: Option<Box<Arena>>,
}

impl Pinned {
    #[inline(always)]
    fn new(inner: &Inner) -> Pinned {
        let arena = if inner.pager.is_mapped() { None } else { new_arena() };
        Pinned { pin: inner.pager.pin(), arena }
    }

    #[inline]
    fn context<'a>(&'a self, inner: &'a Inner) -> ReadContext<'a> {
        ReadContext { pager: &inner.pager, values: &inner.values, arena: self.arena.as_deref() }
    }

    fn forget(&mut self) {
        if let Some(arena) = &mut self.arena {
            arena.clear();
        }
    }

    fn catalog(&self) -> Result<TreeRoot> {
        root_of(self.pin.root())
    }

    #[inline]
    fn find(&self, inner: &Inner, table: &Table) -> Result<TableState> {
        record_cache::record(&inner.pager, self.pin.txn(), table, || self.catalog())
            .map(|record| TableState { record })
    }

    #[inline(always)]
    fn root(&self, inner: &Inner, table: &Table) -> Result<TreeRoot> {
        record_cache::root(&inner.pager, self.pin.txn(), table, || self.catalog())
    }
}

fn root_of(bytes: &[u8; 16]) -> Result<TreeRoot> {
    TreeRoot::from_bytes(bytes)
        .ok_or_else(|| Error::Invalid("the meta page has no valid catalog root".into()))
}

/// Not inlined into snapshots that need none.
#[cold]
fn new_arena() -> Option<Box<Arena>> {
    Some(Box::default())
}

/// A snapshot that holds its store open: it may go to another thread and outlive the handle it was made from.
#[derive(Debug)]
pub struct ReadTxn {
    pinned: Pinned,
    inner: Arc<Inner>,
}

impl ReadTxn {
    pub(crate) fn new(inner: Arc<Inner>) -> Result<ReadTxn> {
        Ok(ReadTxn { pinned: Pinned::new(&inner), inner })
    }

    /// Number of the transaction it sees.
    pub fn txn(&self) -> u64 {
        self.pinned.pin.txn()
    }

    /// Frees the memory of what was read so far. A transaction that reads for a long time calls this now and then if the store
    /// has a bounded cache; without one there is no such memory.
    pub fn forget(&mut self) {
        self.pinned.forget();
    }
}

impl Drop for ReadTxn {
    fn drop(&mut self) {
        self.inner.pager.unpin(&self.pinned.pin);
    }
}

impl Reads for ReadTxn {
    #[inline]
    fn context(&self) -> ReadContext<'_> {
        self.pinned.context(&self.inner)
    }

    fn scratch(&self) -> Result<Option<std::fs::File>> {
        self.inner.scratch()
    }

    fn committed(&self) -> Option<u64> {
        Some(self.pinned.pin.txn())
    }

    fn changed_rows(&self, table: &Table, since: u64) -> Option<Vec<u64>> {
        self.inner.changed_rows.between(table.id, since, self.pinned.pin.txn())
    }

    fn catalog(&self) -> Result<TreeRoot> {
        self.pinned.catalog()
    }

    #[inline]
    fn find(&self, table: &Table) -> Result<TableState> {
        self.pinned.find(&self.inner, table)
    }

    #[inline]
    fn root(&self, table: &Table) -> Result<TreeRoot> {
        self.pinned.root(&self.inner, table)
    }
}

/// Another reader of the snapshot of a [`ReadTxn`], in the same or another thread. It has no pin of its own, but keeps the
/// [`ReadTxn`] alive.
#[derive(Debug)]
pub struct SharedReadTxn {
    txn: u64,
    root: [u8; 16],
    arena: Option<Box<Arena>>,
    inner: Arc<Inner>,
    _pinned: Arc<Mutex<ReadTxn>>,
}

impl SharedReadTxn {
    /// Another reader of what `pinned` reads.
    pub fn new(pinned: &Arc<Mutex<ReadTxn>>) -> SharedReadTxn {
        let txn = pinned.lock().unwrap_or_else(PoisonError::into_inner);
        let arena = if txn.inner.pager.is_mapped() { None } else { new_arena() };
        let (pin, inner) = (&txn.pinned.pin, Arc::clone(&txn.inner));
        SharedReadTxn { txn: pin.txn(), root: *pin.root(), arena, inner, _pinned: Arc::clone(pinned) }
    }

    /// Number of the transaction it sees.
    pub fn txn(&self) -> u64 {
        self.txn
    }
}

impl Reads for SharedReadTxn {
    #[inline]
    fn context(&self) -> ReadContext<'_> {
        ReadContext { pager: &self.inner.pager, values: &self.inner.values, arena: self.arena.as_deref() }
    }

    fn scratch(&self) -> Result<Option<std::fs::File>> {
        self.inner.scratch()
    }

    fn committed(&self) -> Option<u64> {
        Some(self.txn)
    }

    fn changed_rows(&self, table: &Table, since: u64) -> Option<Vec<u64>> {
        self.inner.changed_rows.between(table.id, since, self.txn)
    }

    fn catalog(&self) -> Result<TreeRoot> {
        root_of(&self.root)
    }

    #[inline]
    fn find(&self, table: &Table) -> Result<TableState> {
        record_cache::record(&self.inner.pager, self.txn, table, || self.catalog())
            .map(|record| TableState { record })
    }
}

/// A snapshot that borrows its store: begins and ends without a lock, an allocation or a shared counter.
#[derive(Debug)]
pub struct Snapshot<'s> {
    pinned: Pinned,
    inner: &'s Inner,
}

impl<'s> Snapshot<'s> {
    #[inline]
    pub(crate) fn new(inner: &'s Inner) -> Result<Snapshot<'s>> {
        Ok(Snapshot { pinned: Pinned::new(inner), inner })
    }

    /// Number of the transaction it sees.
    pub fn txn(&self) -> u64 {
        self.pinned.pin.txn()
    }

    /// Frees the memory of what was read so far; see [`ReadTxn::forget`].
    pub fn forget(&mut self) {
        self.pinned.forget();
    }
}

impl Drop for Snapshot<'_> {
    #[inline]
    fn drop(&mut self) {
        self.inner.pager.unpin(&self.pinned.pin);
    }
}

impl Reads for Snapshot<'_> {
    #[inline]
    fn context(&self) -> ReadContext<'_> {
        self.pinned.context(self.inner)
    }

    fn committed(&self) -> Option<u64> {
        Some(self.pinned.pin.txn())
    }

    fn changed_rows(&self, table: &Table, since: u64) -> Option<Vec<u64>> {
        self.inner.changed_rows.between(table.id, since, self.pinned.pin.txn())
    }

    fn catalog(&self) -> Result<TreeRoot> {
        self.pinned.catalog()
    }

    #[inline]
    fn find(&self, table: &Table) -> Result<TableState> {
        self.pinned.find(self.inner, table)
    }

    #[inline]
    fn root(&self, table: &Table) -> Result<TreeRoot> {
        self.pinned.root(self.inner, table)
    }
}
