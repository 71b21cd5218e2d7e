//! A table of documents for the query layer: [`Source`] under one snapshot.
//!
//! A row's id is its address: block times 65,536 and offset. An index leads to the root of a HOT chain, a scan to
//! the row version itself; [`Reader::fetch`] takes both.

use std::cell::Cell;

use ::bson::RawDocument;
use pgrx::{check_for_interrupts, pg_sys};
use treedb_query::access::{Direction, Flow, IndexInfo, KeyRange, RowId, Source, VisitEntry, VisitRow};
use treedb_query::doc::{Value, key};
use treedb_query::query::Result;
use treedb_query::{ErrorCode, QueryError};

use super::index::{Index, Kind};
use super::table::Table;
use crate::index_am::walk;
use crate::shim::heap;
use crate::shim::server;
use crate::shim::varlena::{self, Bytes};
use crate::types::bson;
use crate::types::value;

/// The id of the row at an address.
pub(super) fn row_id(tid: pg_sys::ItemPointerData) -> RowId {
    let (block, offset) = heap::tid_parts(tid);
    RowId(u64::from(block) << 16 | u64::from(offset))
}

/// The address of a row.
pub(super) fn address(row: RowId) -> pg_sys::ItemPointerData {
    heap::tid((row.0 >> 16) as u32, row.0 as u16)
}

/// A slot for rows of a table.
pub(super) struct Slot(*mut pg_sys::TupleTableSlot);

impl Slot {
    pub(super) fn new(table: &Table) -> Slot {
        // SAFETY: an open table.
        Slot(unsafe { pg_sys::table_slot_create(table.relation, std::ptr::null_mut()) })
    }

    pub(super) fn raw(&self) -> *mut pg_sys::TupleTableSlot {
        self.0
    }

    pub(super) fn tid(&self) -> pg_sys::ItemPointerData {
        // SAFETY: holds a row.
        unsafe { (*self.0).tts_tid }
    }

    /// The document of the row in the slot; `None` where the column is NULL.
    pub(super) fn document(&self, table: &Table) -> Option<Bytes> {
        let mut null = false;
        // SAFETY: holds a row of the table.
        let datum = unsafe { pg_sys::slot_getattr(self.0, i32::from(table.doc), &raw mut null) };
        (!null).then(|| Bytes::of(datum))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: made by us.
            unsafe { pg_sys::ExecDropSingleTupleTableSlot(self.0) }
        }
    }
}

/// A collection as a snapshot shows it.
pub(super) struct Reader {
    pub(super) table: Table,
    pub(super) snapshot: pg_sys::Snapshot,
    pub(super) indexes: Vec<Index>,
    infos: Vec<IndexInfo>,
    fetch: *mut pg_sys::IndexFetchTableData,
    spare: Cell<Option<Slot>>,
}

impl Reader {
    /// Reads `table` under the active snapshot, which must stay active.
    pub(super) fn new(table: Table) -> Reader {
        let mut indexes = Index::all(&table);
        indexes.retain(|index| index.usable);
        let infos = indexes.iter().map(|index| index.info.clone()).collect();
        // SAFETY: an open table.
        let (snapshot, fetch) =
            unsafe { (pg_sys::GetActiveSnapshot(), pg_sys::table_index_fetch_begin(table.relation)) };
        Reader { table, snapshot, indexes, infos, fetch, spare: Cell::new(None) }
    }

    /// Puts the version of the row at `tid` that the snapshot shows into `slot`.
    pub(super) fn read(&self, tid: pg_sys::ItemPointerData, slot: &Slot) -> bool {
        let (mut at, mut again) = (tid, false);
        // SAFETY: the fetch and the slot are of this table; an address without a row is answered by false.
        unsafe {
            pg_sys::table_index_fetch_tuple(
                self.fetch,
                &raw mut at,
                self.snapshot,
                slot.raw(),
                &raw mut again,
                std::ptr::null_mut(),
            ) || pg_sys::table_tuple_fetch_row_version(
                self.table.relation,
                &raw mut at,
                self.snapshot,
                slot.raw(),
            )
        }
    }

    fn slot(&self) -> Slot {
        self.spare.take().unwrap_or_else(|| Slot::new(&self.table))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: begun by us.
            unsafe { pg_sys::table_index_fetch_end(self.fetch) }
        }
    }
}

/// A scan of a table, ended when it goes away.
struct TableScan(pg_sys::TableScanDesc);

impl Drop for TableScan {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: begun by us.
            unsafe { pg_sys::table_endscan(self.0) }
        }
    }
}

impl Source for Reader {
    fn indexes(&self) -> &[IndexInfo] {
        &self.infos
    }

    fn fetch(&self, id: RowId, visit: &mut dyn FnMut(&RawDocument) -> Result<()>) -> Result<bool> {
        let slot = self.slot();
        let mut found = Ok(false);
        if self.read(address(id), &slot)
            && let Some(bytes) = slot.document(&self.table)
        {
            found = visit(bson::document(&bytes)).map(|()| true);
        }
        self.spare.set(Some(slot));
        found
    }

    fn scan(&self, direction: Direction, after: Option<RowId>, visit: &mut VisitRow<'_>) -> Result<()> {
        let slot = Slot::new(&self.table);
        let plain = direction == Direction::Forward && after.is_none();
        let scan_direction = match direction {
            Direction::Forward => pg_sys::ScanDirection::ForwardScanDirection,
            Direction::Backward => pg_sys::ScanDirection::BackwardScanDirection,
        };
        // SAFETY: an open table and a registered snapshot. Without synchronized scans rows come by address.
        let scan = unsafe {
            if plain {
                pg_sys::table_beginscan_strat(
                    self.table.relation,
                    self.snapshot,
                    0,
                    std::ptr::null_mut(),
                    true,
                    false,
                )
            } else {
                let (mut low, mut high) = (heap::tid(0, 0), heap::tid(u32::MAX, u16::MAX));
                match (direction, after) {
                    (Direction::Forward, Some(row)) => low = address(RowId(row.0.saturating_add(1))),
                    (Direction::Backward, Some(row)) => high = address(RowId(row.0.saturating_sub(1))),
                    _ => {}
                }
                pg_sys::table_beginscan_tidrange(
                    self.table.relation,
                    self.snapshot,
                    &raw mut low,
                    &raw mut high,
                )
            }
        };
        let scan = TableScan(scan);
        loop {
            check_for_interrupts!();
            // SAFETY: the scan's own table and slot.
            let found = unsafe {
                if plain {
                    pg_sys::table_scan_getnextslot(scan.0, scan_direction, slot.raw())
                } else {
                    pg_sys::table_scan_getnextslot_tidrange(scan.0, scan_direction, slot.raw())
                }
            };
            if !found {
                return Ok(());
            }
            if let Some(bytes) = slot.document(&self.table)
                && visit(row_id(slot.tid()), bson::document(&bytes))? == Flow::Break(())
            {
                return Ok(());
            }
        }
    }

    fn index_range(
        &self,
        index: usize,
        range: &KeyRange,
        direction: Direction,
        after: Option<(&[u8], RowId)>,
        visit: &mut VisitEntry<'_>,
    ) -> Result<()> {
        let Some(index) = self.indexes.get(index) else {
            return Err(QueryError::new(ErrorCode::IndexNotFound, format!("no index number {index}")));
        };
        match index.kind {
            Kind::KeySets => {
                // SAFETY: open, and a snapshot.
                unsafe { server::predicate_lock_relation(index.relation, self.snapshot) };
                let after = after.map(|(key, row)| (key, address(row)));
                walk::walk(index.relation, self.snapshot, range, direction, after, &mut |tid, key| {
                    check_for_interrupts!();
                    visit(row_id(tid), key)
                })
            }
            Kind::Keys => self.btree(index, range, direction, after, visit).map(drop),
            Kind::Values => self.values(index, range, direction, after, visit),
        }
    }

    fn estimated_rows(&self) -> u64 {
        // SAFETY: open. Before the first ANALYZE the number is -1.
        let known = unsafe { (*(*self.table.relation).rd_rel).reltuples };
        if known >= 0.0 {
            return known as u64;
        }
        // SAFETY: open.
        let blocks = unsafe {
            pg_sys::RelationGetNumberOfBlocksInFork(self.table.relation, pg_sys::ForkNumber::MAIN_FORKNUM)
        };
        u64::from(blocks) * 20
    }
}

/// A scan of one of the server's indexes, ended when it goes away.
struct IndexScan(pg_sys::IndexScanDesc);

impl Drop for IndexScan {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: begun by us.
            unsafe { pg_sys::index_endscan(self.0) }
        }
    }
}

impl Reader {
    /// An index on values. A document without the field has no value there, NULL to the server, and the key of null
    /// to queries: these entries are walked where null is.
    fn values(
        &self,
        index: &Index,
        range: &KeyRange,
        direction: Direction,
        after: Option<(&[u8], RowId)>,
        visit: &mut VisitEntry<'_>,
    ) -> Result<()> {
        let mut null = Vec::new();
        key::encode_value(Value::Null, &mut null);
        if !range.contains(&null) {
            return self.btree(index, range, direction, after, visit).map(drop);
        }
        let below = KeyRange { low: range.low.clone(), high: Some(null.clone()) };
        let from = KeyRange { low: null.clone(), high: range.high.clone() };
        let mut parts = [Some(below), None, Some(from)];
        if direction == Direction::Backward {
            parts.reverse();
        }
        for part in parts {
            let flow = match part {
                Some(part) => self.btree(index, &part, direction, after, visit)?,
                None => self.nulls(index, &null, direction, after, visit)?,
            };
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Entries of the server's btree in a range of keys.
    fn btree(
        &self,
        index: &Index,
        range: &KeyRange,
        direction: Direction,
        after: Option<(&[u8], RowId)>,
        visit: &mut VisitEntry<'_>,
    ) -> Result<Flow> {
        let limits = [(4, Some(range.low.as_slice())), (1, range.high.as_deref())];
        let keys: Vec<pg_sys::ScanKeyData> = limits
            .iter()
            .filter_map(|(strategy, limit)| limit.map(|limit| scan_key(index.kind, *strategy, limit)))
            .collect();
        self.entries(index, keys, direction, after, visit, &|datum, out| match index.kind {
            Kind::Values => value::encode_key(&Bytes::of(datum), out),
            _ => out.extend_from_slice(&Bytes::of(datum)),
        })
    }

    /// Entries without a value, whose key is `null`.
    fn nulls(
        &self,
        index: &Index,
        null: &[u8],
        direction: Direction,
        after: Option<(&[u8], RowId)>,
        visit: &mut VisitEntry<'_>,
    ) -> Result<Flow> {
        let mut wanted = pg_sys::ScanKeyData::default();
        // SAFETY: a key of the kind that asks for NULLs has no function and no argument.
        unsafe {
            pg_sys::ScanKeyEntryInitialize(
                &raw mut wanted,
                (pg_sys::SK_ISNULL | pg_sys::SK_SEARCHNULL) as i32,
                1,
                0,
                pg_sys::InvalidOid,
                pg_sys::InvalidOid,
                pg_sys::InvalidOid,
                pg_sys::Datum::from(0usize),
            );
        }
        self.entries(index, vec![wanted], direction, after, visit, &|_, out| out.extend_from_slice(null))
    }

    /// Shows the entries that fulfil `keys`; `encode` appends the key of an entry's value.
    fn entries(
        &self,
        index: &Index,
        mut keys: Vec<pg_sys::ScanKeyData>,
        direction: Direction,
        after: Option<(&[u8], RowId)>,
        visit: &mut VisitEntry<'_>,
        encode: &dyn Fn(pg_sys::Datum, &mut Vec<u8>),
    ) -> Result<Flow> {
        let scan_direction = match direction {
            Direction::Forward => pg_sys::ScanDirection::ForwardScanDirection,
            Direction::Backward => pg_sys::ScanDirection::BackwardScanDirection,
        };
        // SAFETY: open relations; the scan copies the keys, whose arguments live as long as this call's memory.
        let scan = unsafe {
            let count = keys.len() as i32;
            let scan = pg_sys::index_beginscan(self.table.relation, index.relation, self.snapshot, count, 0);
            (*scan).xs_want_itup = true;
            pg_sys::index_rescan(scan, keys.as_mut_ptr(), count, std::ptr::null_mut(), 0);
            IndexScan(scan)
        };
        let mut key = Vec::new();
        loop {
            check_for_interrupts!();
            // SAFETY: the scan is ours; after a hit it holds the entry, which has one column.
            let row = unsafe {
                let tid = pg_sys::index_getnext_tid(scan.0, scan_direction);
                if tid.is_null() {
                    return Ok(Flow::Continue(()));
                }
                let (mut datum, mut null) = ([pg_sys::Datum::from(0usize)], [false]);
                let (entry, columns) = ((*scan.0).xs_itup, (*scan.0).xs_itupdesc);
                pg_sys::index_deform_tuple(entry, columns, datum.as_mut_ptr(), null.as_mut_ptr());
                key.clear();
                encode(datum[0], &mut key);
                row_id(*tid)
            };
            // Entries before the place to go on from.
            if let Some((last, last_row)) = after {
                let place = (key.as_slice(), row).cmp(&(last, last_row));
                if (direction == Direction::Forward && place.is_le())
                    || (direction == Direction::Backward && place.is_ge())
                {
                    continue;
                }
            }
            if visit(row, &key)?.is_break() {
                return Ok(Flow::Break(()));
            }
        }
    }
}

/// The scan key for `>=` (strategy 4) or `<` (1) a limit.
fn scan_key(kind: Kind, strategy: u16, limit: &[u8]) -> pg_sys::ScanKeyData {
    let mut key = pg_sys::ScanKeyData::default();
    // SAFETY: functions of two arguments, a value of the index's type and a bytea, that return a boolean.
    unsafe {
        let limit = varlena::new(limit);
        let (function, subtype) = match (kind, strategy) {
            (Kind::Values, 4) => (server::own_function(c"bson_value_ge_key"), pg_sys::BYTEAOID),
            (Kind::Values, _) => (server::own_function(c"bson_value_lt_key"), pg_sys::BYTEAOID),
            (_, 4) => (pg_sys::Oid::from(pg_sys::F_BYTEAGE), pg_sys::InvalidOid),
            (_, _) => (pg_sys::Oid::from(pg_sys::F_BYTEALT), pg_sys::InvalidOid),
        };
        pg_sys::ScanKeyEntryInitialize(
            &raw mut key,
            0,
            1,
            strategy,
            subtype,
            pg_sys::InvalidOid,
            function,
            limit,
        );
    }
    key
}
