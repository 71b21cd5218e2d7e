//! The records of the tables that a thread used last, so that not every read descends the catalog. A published
//! transaction never changes, so a cached record holds for every snapshot of it.

use std::cell::Cell;

use super::catalog::{self, Record, Table};
use crate::Result;
use crate::btree::TreeRoot;
use crate::page::Pager;

const SLOTS: usize = 16;

#[derive(Clone, Copy)]
struct CachedRecord {
    /// The pager (unique in the process), the transaction, the table.
    key: (u64, u64, u32),
    record: Record,
}

thread_local! {
    static RECORDS: [Cell<Option<CachedRecord>>; SLOTS] = const { [const { Cell::new(None) }; SLOTS] };
}

#[inline(always)]
fn slot_of(records: &[Cell<Option<CachedRecord>>; SLOTS], table: &Table) -> Option<CachedRecord> {
    records[table.id as usize % SLOTS].get()
}

/// The root of `table` in transaction `txn` of `pager`, whose catalog `catalog` returns.
#[inline(always)]
pub(crate) fn root(
    pager: &Pager,
    txn: u64,
    table: &Table,
    catalog: impl FnOnce() -> Result<TreeRoot>,
) -> Result<TreeRoot> {
    // Only the root is copied: this is part of every get.
    match RECORDS.with(|records| slot_of(records, table)) {
        Some(cached) if cached.key == (pager.id(), txn, table.id) => Ok(cached.record.root),
        _ => Ok(load(pager, txn, table, catalog)?.root),
    }
}

/// The record of `table` in transaction `txn` of `pager`, whose catalog `catalog` returns.
#[inline]
pub(crate) fn record(
    pager: &Pager,
    txn: u64,
    table: &Table,
    catalog: impl FnOnce() -> Result<TreeRoot>,
) -> Result<Record> {
    match RECORDS.with(|records| slot_of(records, table)) {
        Some(cached) if cached.key == (pager.id(), txn, table.id) => Ok(cached.record),
        _ => load(pager, txn, table, catalog),
    }
}

#[cold]
#[inline(never)]
fn load(
    pager: &Pager,
    txn: u64,
    table: &Table,
    catalog: impl FnOnce() -> Result<TreeRoot>,
) -> Result<Record> {
    let _epoch = pager.enter_epoch();
    let record = catalog::record(pager, &catalog()?, table.id)?.ok_or_else(|| table.gone())?;
    let key = (pager.id(), txn, table.id);
    RECORDS.with(|records| records[table.id as usize % SLOTS].set(Some(CachedRecord { key, record })));
    Ok(record)
}
