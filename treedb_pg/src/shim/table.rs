//! Rows of a table: fetched by address, or scanned, into a slot.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr;

use pgrx::pg_sys;
use treedb_query::access::Direction;

use super::datum::Datum;
use super::error::{SqlState, fail};
use super::heap;
use super::index_scan::to_server;
use super::relation::{OpenTable, Table, layout};
use super::release::may_release;
use super::scan_team::SharedScan;
use super::snapshot::{self, Snapshot};
use super::unguarded;

/// A place for one row of a table at a time, whose page stays pinned while the row is in it.
pub(crate) struct Slot {
    slot: *mut pg_sys::TupleTableSlot,
    table: pg_sys::Oid,
}

impl Slot {
    /// An empty slot for rows of a table.
    pub(crate) fn new(table: Table<'_>) -> Slot {
        // SAFETY: an open table, whose description of columns the slot keeps.
        let slot = unsafe { unguarded::guard(|| unguarded::table_slot_create(table.raw(), ptr::null_mut())) };
        Slot { slot, table: table.oid() }
    }

    /// The server's form.
    pub(super) fn raw(&mut self) -> *mut pg_sys::TupleTableSlot {
        self.slot
    }

    /// Raises an error if the slot is for rows of another table, which are decoded otherwise.
    pub(super) fn expect_table(&self, table: &OpenTable) {
        if self.table != table.get().oid() {
            fail(
                SqlState::ERRCODE_INTERNAL_ERROR,
                "a slot is for rows of another table",
                "Report this as a bug of treedb.",
            );
        }
    }

    /// Whether there is no row in it.
    pub(super) fn is_empty(&self) -> bool {
        // SAFETY: made by us.
        unsafe { u32::from((*self.slot).tts_flags) & pg_sys::TTS_FLAG_EMPTY != 0 }
    }

    /// The address of the row.
    pub(crate) fn tid(&self) -> pg_sys::ItemPointerData {
        // SAFETY: made by us.
        unsafe { (*self.slot).tts_tid }
    }

    /// The value of the column of that number in the row; `None` for NULL, or if there is no row.
    pub(crate) fn value(&self, column: i16) -> Option<Datum<'_>> {
        let at = usize::try_from(column).ok()?.checked_sub(1)?;
        // SAFETY: holds a row, and the row has that column; it stays in the slot while `self` is borrowed.
        unsafe {
            let layout = layout((*self.slot).tts_tupleDescriptor, at)?;
            if self.is_empty() {
                return None;
            }
            self.decode(i32::from(column));
            let (value, null) =
                ((*self.slot).tts_values.add(at).read(), (*self.slot).tts_isnull.add(at).read());
            (!null).then(|| Datum::from_raw(value, layout))
        }
    }

    /// Decodes the values of the first columns of the row, as the header's `slot_getsomeattrs` does.
    ///
    /// # Safety
    /// It holds a row with as many columns.
    pub(super) unsafe fn decode(&self, columns: i32) {
        // SAFETY: made by us, and the caller's.
        unsafe {
            if i32::from((*self.slot).tts_nvalid) < columns {
                unguarded::slot_getsomeattrs_int(self.slot, columns);
            }
        }
    }

    /// Takes the row out.
    pub(crate) fn clear(&mut self) {
        if self.is_empty() {
            return;
        }
        // SAFETY: made by us; every slot has this operation (the header's `ExecClearTuple`).
        unsafe {
            if let Some(clear) = (*(*self.slot).tts_ops).clear {
                self.release(|slot| clear(slot));
            }
        }
    }

    /// Calls `work`, which gives up the row or the slot. Slots of heap do that without an error.
    ///
    /// # Safety
    /// A function of the server's, called as it may be.
    unsafe fn release(&self, work: impl FnOnce(*mut pg_sys::TupleTableSlot)) {
        // SAFETY: made by us, and the caller's.
        unsafe {
            if ptr::eq((*self.slot).tts_ops, &raw const pg_sys::TTSOpsBufferHeapTuple) {
                work(self.slot);
            } else {
                unguarded::guard(|| work(self.slot));
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if may_release() {
            // SAFETY: made by us.
            unsafe { self.release(|slot| unguarded::ExecDropSingleTupleTableSlot(slot)) }
        }
    }
}

/// The pages of a table all of whose rows every snapshot shows, as its visibility map says.
///
/// A bit of the map tells nothing of an address that is no row's any more. So whoever asks has got the address from an
/// entry of an index, and keeps that entry's page pinned meanwhile.
pub(crate) struct VisiblePages {
    table: OpenTable,
    /// The page of the map that was read last.
    map: Cell<pg_sys::Buffer>,
}

impl VisiblePages {
    /// The map of a table; `None` where rows have to be read nevertheless: by serializable transactions, which note what
    /// they have read, and while WAL is replayed, as removed entries do not conflict with snapshots there.
    pub(crate) fn of(table: &OpenTable, snapshot: Snapshot<'_>) -> Option<VisiblePages> {
        // SAFETY: a variable of the backend.
        let serializable = unsafe { pg_sys::XactIsoLevel } == pg_sys::XACT_SERIALIZABLE as i32;
        let usable = snapshot.is_mvcc() && !serializable && !snapshot::began_in_recovery();
        usable.then(|| VisiblePages { table: table.clone(), map: Cell::new(pg_sys::InvalidBuffer as i32) })
    }

    /// Whether every snapshot shows all rows of the page of an address.
    pub(crate) fn contains(&self, tid: pg_sys::ItemPointerData) -> bool {
        let mut map = self.map.get();
        let (block, _) = heap::tid_parts(tid);
        // SAFETY: an open table; the server exchanges the pinned page of the map for another one where it has to.
        let bits = unsafe { pg_sys::visibilitymap_get_status(self.table.get().raw(), block, &raw mut map) };
        self.map.set(map);
        u32::from(bits) & pg_sys::VISIBILITYMAP_ALL_VISIBLE != 0
    }
}

impl Drop for VisiblePages {
    fn drop(&mut self) {
        let map = self.map.get();
        if map != pg_sys::InvalidBuffer as i32 && may_release() {
            // SAFETY: pinned by the server for us.
            unsafe { pg_sys::ReleaseBuffer(map) }
        }
    }
}

/// A method that every table access method has.
fn method<F>(method: Option<F>) -> F {
    method.unwrap_or_else(|| {
        fail(
            SqlState::ERRCODE_INTERNAL_ERROR,
            "the access method of a table lacks a method that each has to have",
            "Report this to the authors of the access method.",
        )
    })
}

/// Looks rows of a table up by address.
pub(crate) struct Fetch {
    fetch: *mut pg_sys::IndexFetchTableData,
    table: OpenTable,
}

impl Fetch {
    /// Begins looking rows up.
    pub(crate) fn begin(table: &OpenTable) -> Fetch {
        let raw = table.get().raw();
        // SAFETY: an open table, which stays open as long as this.
        let fetch = unsafe {
            let begin = method((*(*raw).rd_tableam).index_fetch_begin);
            unguarded::guard(|| begin(raw))
        };
        Fetch { fetch, table: table.clone() }
    }

    /// The same, and a slot for the rows.
    pub(crate) fn begin_with_slot(table: &OpenTable) -> (Fetch, Slot) {
        let raw = table.get().raw();
        // SAFETY: as above, and as for a slot alone. Begun looking up holds nothing but memory.
        let (fetch, slot) = unsafe {
            let begin = method((*(*raw).rd_tableam).index_fetch_begin);
            unguarded::guard(|| (begin(raw), unguarded::table_slot_create(raw, ptr::null_mut())))
        };
        (Fetch { fetch, table: table.clone() }, Slot { slot, table: table.get().oid() })
    }

    /// Puts the version of the row that a snapshot shows into `slot`: `tid` is the root of a HOT chain, as an index
    /// has it. False if there is none; then `dead` says whether no snapshot shows one.
    pub(crate) fn chain(
        &self,
        tid: pg_sys::ItemPointerData,
        snapshot: Snapshot<'_>,
        slot: &mut Slot,
        dead: Option<&mut bool>,
    ) -> bool {
        slot.expect_table(&self.table);
        let (mut at, mut again) = (tid, false);
        let dead = dead.map_or(ptr::null_mut(), |dead| &raw mut *dead);
        let (snapshot, slot) = (snapshot.raw(), slot.raw());
        // SAFETY: the fetch and the slot are of this table; an address without a row is answered by false.
        unsafe {
            let fetch = method((*(*self.table.get().raw()).rd_tableam).index_fetch_tuple);
            unguarded::guard(|| fetch(self.fetch, &raw mut at, snapshot, slot, &raw mut again, dead))
        }
    }

    /// The same, where `tid` may also be the address of a row version, as a scan of the table has it.
    pub(crate) fn row(&self, tid: pg_sys::ItemPointerData, snapshot: Snapshot<'_>, slot: &mut Slot) -> bool {
        if self.chain(tid, snapshot, slot, None) {
            return true;
        }
        let mut at = tid;
        // SAFETY: as above.
        unsafe {
            pg_sys::table_tuple_fetch_row_version(
                self.table.get().raw(),
                &raw mut at,
                snapshot.raw(),
                slot.raw(),
            )
        }
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        if may_release() {
            // SAFETY: begun by us.
            unsafe {
                let end = method((*(*self.table.get().raw()).rd_tableam).index_fetch_end);
                unguarded::guard(|| end(self.fetch))
            }
        }
    }
}

/// A scan of a table, ended when it goes away.
pub(crate) struct TableScan<'s> {
    scan: pg_sys::TableScanDesc,
    table: OpenTable,
    /// Only a range of addresses is scanned.
    range: bool,
    /// Other processes scan the rest.
    shared: Option<SharedScan>,
    snapshot: PhantomData<Snapshot<'s>>,
}

impl<'s> TableScan<'s> {
    /// Scans all rows, by address.
    pub(crate) fn all(table: &OpenTable, snapshot: Snapshot<'s>) -> TableScan<'s> {
        // SAFETY: an open table, which stays open as long as this, and a snapshot that lives as long. Without
        // synchronized scans rows come by address.
        let scan = unsafe {
            pg_sys::table_beginscan_strat(table.get().raw(), snapshot.raw(), 0, ptr::null_mut(), true, false)
        };
        TableScan { scan, table: table.clone(), range: false, shared: None, snapshot: PhantomData }
    }

    /// Scans the part of the rows that falls to this process, in no order, under the snapshot that the scan was made with.
    pub(crate) fn shared(table: &OpenTable, shared: SharedScan) -> TableScan<'static> {
        if shared.table() != table.get().oid() {
            fail(
                SqlState::ERRCODE_INTERNAL_ERROR,
                "a scan is of another table",
                "Report this as a bug of treedb.",
            );
        }
        // SAFETY: the table of the scan.
        let scan = unsafe { shared.begin(table.get()) };
        TableScan { scan, table: table.clone(), range: false, shared: Some(shared), snapshot: PhantomData }
    }

    /// Scans the rows from one address to another, both included.
    pub(crate) fn range(
        table: &OpenTable,
        snapshot: Snapshot<'s>,
        mut low: pg_sys::ItemPointerData,
        mut high: pg_sys::ItemPointerData,
    ) -> TableScan<'s> {
        let raw = table.get().raw();
        // SAFETY: an open table, which has a routine.
        let able = unsafe {
            let routine = &*(*raw).rd_tableam;
            routine.scan_set_tidrange.is_some() && routine.scan_getnextslot_tidrange.is_some()
        };
        if !able {
            fail(
                SqlState::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!(
                    "the access method of table \"{}\" has no scans of a range of rows",
                    table.get().shown()
                ),
                "Move the collection to a table USING heap.",
            );
        }
        // The server notes for serializable transactions what a scan of all rows has read, not what one of a range has.
        snapshot.lock_predicate(*table.get());
        // SAFETY: as `all`; the server copies the addresses.
        let scan =
            unsafe { pg_sys::table_beginscan_tidrange(raw, snapshot.raw(), &raw mut low, &raw mut high) };
        TableScan { scan, table: table.clone(), range: true, shared: None, snapshot: PhantomData }
    }

    /// Puts the next row into `slot`; false at the end.
    pub(crate) fn next(&mut self, direction: Direction, slot: &mut Slot) -> bool {
        slot.expect_table(&self.table);
        if self.shared.as_ref().is_some_and(SharedScan::is_stopped) {
            slot.clear();
            return false;
        }
        // SAFETY: the scan's own table and slot.
        unsafe {
            if self.range {
                pg_sys::table_scan_getnextslot_tidrange(self.scan, to_server(direction), slot.raw())
            } else {
                pg_sys::table_scan_getnextslot(self.scan, to_server(direction), slot.raw())
            }
        }
    }
}

impl Drop for TableScan<'_> {
    fn drop(&mut self) {
        if may_release() {
            // SAFETY: begun by us.
            unsafe { pg_sys::table_endscan(self.scan) }
        }
    }
}
