//! Reading an index in order.
//!
//! A scan reads a leaf's wanted entries at once and hands them out one by one. Forward it goes on by the page's right
//! neighbour, backward by a new walk down to what lies before the page. Either way it remembers the keys at which the
//! page began and ended, so that it can go on whatever happened to the page in between: entries move only to the
//! right, and only within those limits.
//!
//! While entries of a page are handed out to a scan that does not look at the rows' visibility by an MVCC snapshot
//! (or not at the rows at all), the page stays pinned: a vacuum that would remove the entries waits for that before
//! it lets the table reuse the addresses.

use std::ffi::c_void;
use std::rc::Rc;

use pgrx::{PgMemoryContexts, check_for_interrupts, pg_guard, pg_sys};

use super::edge::Side;
use super::range::Wanted;
use super::schema::{Schema, row_of};
use super::tree::{Reached, Tree};
use crate::shim::buffer::{self, Lock};
use crate::shim::{error, heap, server};

/// An entry to hand out.
pub(super) struct Item {
    pub(super) row: pg_sys::ItemPointerData,
    /// Where its key and value are in the page's `bytes`; empty unless they are asked for.
    pub(super) key: (u32, u32),
    value: (u32, u32),
}

/// The wanted entries of one leaf.
pub(super) struct Loaded {
    /// The leaf's block, for messages.
    block: u32,
    pub(super) items: Vec<Item>,
    pub(super) bytes: Vec<u8>,
    /// Number of the range they are of.
    range: usize,
    /// Where the leaf's keys begin; `None` at the left end of the index.
    floor: Option<Vec<u8>>,
    /// Where they end; `None` at the right end.
    bound: Option<Vec<u8>>,
    /// The right neighbour when the leaf was read, if `bound` is the leaf's own.
    next: Option<u32>,
}

/// Which way a scan goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Backward,
}

/// Where a scan is.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) loaded: Rc<Loaded>,
    /// The item handed out last.
    pub(super) at: usize,
    /// The pin that keeps a vacuum from the page, or 0.
    pin: pg_sys::Buffer,
}

/// A scan. Pins are not released when this is dropped: `amendscan` does that, or the end of the transaction.
struct Scan {
    schema: Schema,
    wanted: Option<Wanted>,
    place: Option<Place>,
    marked: Option<Place>,
    /// The last tuple of an index-only scan.
    tuple: Vec<u64>,
}

impl Scan {
    fn forget(&mut self, marked: bool) {
        let place = if marked { self.marked.take() } else { self.place.take() };
        if let Some(place) = place
            && place.pin != 0
        {
            buffer::unpin(place.pin);
        }
    }
}

/// What a scan wants of a page.
pub(super) struct Ask<'s> {
    pub(super) tree: Tree<'s>,
    pub(super) wanted: &'s Wanted,
    /// Keys and values are handed out, not only rows.
    pub(super) keys: bool,
    /// Keep the page pinned.
    pub(super) pin: bool,
    /// Whose entries these are; null if that is decided elsewhere.
    pub(super) snapshot: pg_sys::Snapshot,
}

impl Ask<'_> {
    /// Reads the entries of range number `range` from a leaf. With `until`, the leaf counts only up to there.
    fn load(&self, reached: Reached, range: usize, until: Option<Vec<u8>>) -> Option<Place> {
        let Reached { page, floor } = reached;
        let block = page.block();
        // SAFETY: an open index, a latched page; the snapshot is the scan's, or null.
        let standby = unsafe {
            if pg_sys::old_snapshot_threshold >= 0 {
                // Entries that this snapshot should see may have been removed.
                pg_sys::TestForOldSnapshot(
                    self.snapshot,
                    self.tree.index,
                    page.bytes().as_ptr().cast_mut().cast(),
                );
            }
            pg_sys::RecoveryInProgress()
        };
        let wanted = self.wanted.ranges.get(range)?;
        let schema = self.tree.schema;
        let (loaded, kept) = {
            let view = self.tree.view(&page);
            let leaf = self.tree.sound(block, view.leaf(schema.keys));
            let from = self.tree.sound_node(block, schema.place(&leaf, &wanted.low));
            let mut to = self.tree.sound_node(block, schema.place(&leaf, &wanted.high));
            // On a standby the neighbour may be reused as soon as the latch is gone.
            let mut next = view.next().filter(|_| !standby);
            let mut bound = view.bound().map(<[u8]>::to_vec);
            if let Some(until) = until {
                let edge = schema.before_key(&until);
                to = to.min(self.tree.sound_node(block, schema.place(&leaf, &edge)));
                bound = Some(until);
                next = None;
            }
            let mut items = Vec::with_capacity(to.saturating_sub(from));
            let mut bytes = Vec::new();
            let mut key = Vec::new();
            for i in from..to {
                self.tree.sound_node(block, leaf.key_into(i, &mut key));
                if !self.wanted.holds(schema, &key) {
                    continue;
                }
                let Some(row) = row_of(&key) else {
                    error::corrupted(
                        &self.tree.name(),
                        block,
                        "expected an entry with a row's address, found a shorter one",
                    );
                };
                let mut item = Item { row, key: (0, 0), value: (0, 0) };
                if self.keys {
                    let value = self.tree.sound_node(block, leaf.value(i)).bytes;
                    let start = bytes.len() as u32;
                    bytes.extend_from_slice(&key);
                    let middle = bytes.len() as u32;
                    bytes.extend_from_slice(value);
                    item.key = (start, middle);
                    item.value = (middle, bytes.len() as u32);
                }
                items.push(item);
            }
            let kept = self.pin && !items.is_empty();
            (Loaded { block, items, bytes, range, floor, bound, next }, kept)
        };
        let pin = if kept { page.into_pin() } else { 0 };
        Some(Place { loaded: Rc::new(loaded), at: 0, pin })
    }

    /// The leaf where range number `range` begins (forward) or ends.
    fn first(&self, range: usize, direction: Direction) -> Option<Place> {
        let wanted = self.wanted.ranges.get(range)?;
        let (edge, side) = match direction {
            Direction::Forward => (&wanted.low, Side::Behind),
            Direction::Backward => (&wanted.high, Side::Before),
        };
        self.load(self.tree.descend(edge, side, 0, Lock::Share, None, true), range, None)
    }

    /// The leaf after or before the loaded one, if its range goes on there.
    fn step(&self, loaded: &Loaded, direction: Direction) -> Option<Place> {
        let wanted = self.wanted.ranges.get(loaded.range)?;
        let schema = self.tree.schema;
        match direction {
            Direction::Forward => {
                let bound = loaded.bound.as_deref()?;
                if schema.order(bound, &wanted.high) != std::cmp::Ordering::Less {
                    return None;
                }
                let edge = schema.before_key(bound);
                let reached = match loaded.next {
                    Some(next) => {
                        let page = self.tree.read(next, Lock::Share);
                        let mut floor = Some(bound.to_vec());
                        let page = self.tree.move_right(
                            page,
                            &edge,
                            Side::Behind,
                            Lock::Share,
                            false,
                            Some(&mut floor),
                        );
                        Reached { page, floor }
                    }
                    None => self.tree.descend(&edge, Side::Behind, 0, Lock::Share, None, true),
                };
                self.load(reached, loaded.range, None)
            }
            Direction::Backward => {
                let floor = loaded.floor.as_deref()?;
                if schema.order(floor, &wanted.low) != std::cmp::Ordering::Greater {
                    return None;
                }
                let edge = schema.before_key(floor);
                let reached = self.tree.descend(&edge, Side::Before, 0, Lock::Share, None, true);
                self.load(reached, loaded.range, Some(floor.to_vec()))
            }
        }
    }

    /// The next entry from `place` (or from the beginning), on whatever page it is.
    pub(super) fn next(&self, place: Option<Place>, direction: Direction) -> Option<Place> {
        let mut range = match direction {
            Direction::Forward => 0,
            Direction::Backward => self.wanted.ranges.len().checked_sub(1)?,
        };
        let mut place = match place {
            Some(mut place) => {
                let next = match direction {
                    Direction::Forward => place.at.checked_add(1),
                    Direction::Backward => place.at.checked_sub(1),
                };
                if let Some(at) = next
                    && at < place.loaded.items.len()
                {
                    place.at = at;
                    return Some(place);
                }
                if place.pin != 0 {
                    buffer::unpin(place.pin);
                }
                range = place.loaded.range;
                self.step(&place.loaded, direction)
            }
            None => self.first(range, direction),
        };
        loop {
            check_for_interrupts!();
            match place {
                Some(mut found) if !found.loaded.items.is_empty() => {
                    found.at = match direction {
                        Direction::Forward => 0,
                        Direction::Backward => found.loaded.items.len() - 1,
                    };
                    return Some(found);
                }
                Some(empty) => place = self.step(&empty.loaded, direction),
                None => {
                    range = match direction {
                        Direction::Forward => range + 1,
                        Direction::Backward => range.checked_sub(1)?,
                    };
                    if range >= self.wanted.ranges.len() {
                        return None;
                    }
                    place = self.first(range, direction);
                }
            }
        }
    }
}

/// The scan behind the server's descriptor.
unsafe fn state<'a>(scan: pg_sys::IndexScanDesc) -> &'a mut Scan {
    // SAFETY: set by `begin_scan`, alive until the context of the scan goes away.
    unsafe { &mut *(*scan).opaque.cast::<Scan>() }
}

/// `ambeginscan`.
#[pg_guard]
pub(super) unsafe extern "C-unwind" fn begin_scan(
    index: pg_sys::Relation,
    keys: i32,
    order_bys: i32,
) -> pg_sys::IndexScanDesc {
    // SAFETY: called by the server with an open index.
    unsafe {
        let scan = pg_sys::RelationGetIndexScan(index, keys, order_bys);
        let state =
            Scan { schema: Schema::of(index), wanted: None, place: None, marked: None, tuple: Vec::new() };
        // Dropped with the context, whether or not the scan is ended.
        (*scan).opaque =
            PgMemoryContexts::CurrentMemoryContext.leak_and_drop_on_delete(state).cast::<c_void>();
        (*scan).xs_itupdesc = (*index).rd_att;
        scan
    }
}

/// `amrescan`.
#[pg_guard]
pub(super) unsafe extern "C-unwind" fn rescan(
    scan: pg_sys::IndexScanDesc,
    keys: pg_sys::ScanKey,
    _count: i32,
    _order_bys: pg_sys::ScanKey,
    _order_by_count: i32,
) {
    // SAFETY: a scan of `begin_scan`, which has room for its number of keys.
    unsafe {
        let state = state(scan);
        state.forget(false);
        state.forget(true);
        state.wanted = None;
        let count = usize::try_from((*scan).numberOfKeys).unwrap_or(0);
        if !keys.is_null() && count > 0 {
            std::ptr::copy(keys, (*scan).keyData, count);
        }
    }
}

/// `amendscan`.
#[pg_guard]
pub(super) unsafe extern "C-unwind" fn end_scan(scan: pg_sys::IndexScanDesc) {
    // SAFETY: a scan of `begin_scan`.
    unsafe {
        let state = state(scan);
        state.forget(false);
        state.forget(true);
        state.wanted = None;
        state.tuple = Vec::new();
    }
}

/// Reads the scan's keys, once.
unsafe fn prepare(scan: pg_sys::IndexScanDesc, state: &mut Scan) {
    if state.wanted.is_none() {
        // SAFETY: the descriptor has that many keys.
        let keys = unsafe {
            let count = usize::try_from((*scan).numberOfKeys).unwrap_or(0);
            if count == 0 { &[] } else { std::slice::from_raw_parts((*scan).keyData, count) }
        };
        // SAFETY: the server's own keys.
        state.wanted = Some(unsafe { Wanted::read(&state.schema, keys) });
        // SAFETY: an open index.
        server::count_index_scan(unsafe { (*scan).indexRelation });
    }
}

/// Raises an error if the table has no block that the row could be in: only a damaged entry says so, since a table is
/// made shorter only when nobody scans it.
fn expect_row(table: pg_sys::Relation, tree: &Tree<'_>, leaf: u32, row: pg_sys::ItemPointerData) {
    let (block, offset) = heap::tid_parts(row);
    if !table.is_null() && !buffer::has_block(table, block) {
        let what = format!("an entry is of row ({block},{offset}), which is not in the table");
        error::corrupted(&tree.name(), leaf, what);
    }
}

/// `amgettuple`.
#[pg_guard]
pub(super) unsafe extern "C-unwind" fn get_tuple(
    scan: pg_sys::IndexScanDesc,
    direction: pg_sys::ScanDirection::Type,
) -> bool {
    // SAFETY: a scan of `begin_scan`, after `rescan`.
    unsafe {
        let state = state(scan);
        prepare(scan, state);
        let Scan { schema, wanted: Some(wanted), place, tuple, .. } = state else { return false };
        let keys = (*scan).xs_want_itup;
        let ask = Ask {
            tree: Tree::new((*scan).indexRelation, schema),
            wanted,
            keys,
            pin: keys || !is_mvcc((*scan).xs_snapshot),
            snapshot: (*scan).xs_snapshot,
        };
        let direction = if direction == pg_sys::ScanDirection::BackwardScanDirection {
            Direction::Backward
        } else {
            Direction::Forward
        };
        *place = ask.next(place.take(), direction);
        let Some(place) = place else { return false };
        let Some(item) = place.loaded.items.get(place.at) else { return false };
        expect_row((*scan).heapRelation, &ask.tree, place.loaded.block, item.row);
        (*scan).xs_heaptid = item.row;
        (*scan).xs_recheck = false;
        if keys {
            let part =
                |(from, to): (u32, u32)| place.loaded.bytes.get(from as usize..to as usize).unwrap_or(&[]);
            form_tuple((*scan).xs_itupdesc, schema, part(item.key), part(item.value), tuple);
            (*scan).xs_itup = tuple.as_mut_ptr().cast();
        }
        true
    }
}

/// Whether visibility is decided by an MVCC snapshot, to which a reused address shows nothing wrong.
unsafe fn is_mvcc(snapshot: pg_sys::Snapshot) -> bool {
    // SAFETY: the scan's snapshot, or none (bitmap scans have theirs elsewhere).
    unsafe {
        snapshot.as_ref().is_some_and(|snapshot| {
            matches!(
                snapshot.snapshot_type,
                pg_sys::SnapshotType::SNAPSHOT_MVCC | pg_sys::SnapshotType::SNAPSHOT_HISTORIC_MVCC
            )
        })
    }
}

/// Makes the index tuple of an entry in `out`.
unsafe fn form_tuple(
    columns: pg_sys::TupleDesc,
    schema: &Schema,
    key: &[u8],
    value: &[u8],
    out: &mut Vec<u64>,
) {
    let count = schema.columns.len();
    let mut values = vec![pg_sys::Datum::from(0usize); count];
    let mut nulls = vec![true; count];
    for (number, (column, bytes)) in schema.columns.iter().zip(schema.split(key)).enumerate() {
        let datum =
            if value.contains(&(number as u8)) { Some(column.negative_zero()) } else { column.decode(bytes) };
        if let (Some(datum), Some(value), Some(null)) = (datum, values.get_mut(number), nulls.get_mut(number))
        {
            (*value, *null) = (datum, false);
        }
    }
    // SAFETY: the arrays have an element for each column; the tuple is copied and freed, values by reference too.
    unsafe {
        let tuple = pg_sys::index_form_tuple(columns, values.as_mut_ptr(), nulls.as_mut_ptr());
        let size = usize::from((*tuple).t_info) & pg_sys::INDEX_SIZE_MASK as usize;
        out.clear();
        out.resize(size.div_ceil(8), 0);
        std::ptr::copy_nonoverlapping(tuple.cast::<u8>(), out.as_mut_ptr().cast::<u8>(), size);
        pg_sys::pfree(tuple.cast());
        for (column, (value, null)) in schema.columns.iter().zip(values.iter().zip(&nulls)) {
            if !null && column.by_reference() {
                pg_sys::pfree(value.cast_mut_ptr());
            }
        }
    }
}

/// `amgetbitmap`.
#[pg_guard]
pub(super) unsafe extern "C-unwind" fn get_bitmap(
    scan: pg_sys::IndexScanDesc,
    bitmap: *mut pg_sys::TIDBitmap,
) -> i64 {
    // SAFETY: a scan of `begin_scan`, after `rescan`.
    unsafe {
        let state = state(scan);
        prepare(scan, state);
        let Scan { schema, wanted: Some(wanted), .. } = state else { return 0 };
        let ask = Ask {
            tree: Tree::new((*scan).indexRelation, schema),
            wanted,
            keys: false,
            pin: false,
            snapshot: (*scan).xs_snapshot,
        };
        let mut found = 0;
        let mut place = ask.next(None, Direction::Forward);
        while let Some(mut here) = place {
            let mut rows: Vec<pg_sys::ItemPointerData> =
                here.loaded.items.iter().map(|item| item.row).collect();
            pg_sys::tbm_add_tuples(bitmap, rows.as_mut_ptr(), rows.len() as i32, false);
            found += rows.len() as i64;
            here.at = rows.len();
            place = ask.next(Some(here), Direction::Forward);
        }
        found
    }
}

/// `ammarkpos`.
#[pg_guard]
pub(super) unsafe extern "C-unwind" fn mark(scan: pg_sys::IndexScanDesc) {
    // SAFETY: a scan of `begin_scan`.
    let state = unsafe { state(scan) };
    state.forget(true);
    state.marked = state.place.clone();
    pin_again(state.marked.as_ref());
}

/// `amrestrpos`.
#[pg_guard]
pub(super) unsafe extern "C-unwind" fn restore(scan: pg_sys::IndexScanDesc) {
    // SAFETY: a scan of `begin_scan`.
    let state = unsafe { state(scan) };
    state.forget(false);
    state.place = state.marked.clone();
    pin_again(state.place.as_ref());
}

fn pin_again(place: Option<&Place>) {
    if let Some(place) = place
        && place.pin != 0
    {
        // SAFETY: pinned by the place this is a copy of.
        unsafe { pg_sys::IncrBufferRefCount(place.pin) };
    }
}
