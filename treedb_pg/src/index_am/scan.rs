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

use std::rc::Rc;

use pgrx::{check_for_interrupts, pg_sys};
use treedb_core::access::Way;

use super::edge::Side;
use super::range::Wanted;
use super::schema::{Schema, row_of};
use super::tree::{Reached, Tree};
use crate::shim::buffer::{self, Pin, Shared};
use crate::shim::index_scan::{Bitmap, Scan};
use crate::shim::relation::{Index, Relation};
use crate::shim::snapshot::{self, Snapshot};
use crate::shim::{error, heap};

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

/// Where a scan is. Its pin is not released when this is dropped, see [`Place::leave`].
pub(super) struct Place {
    pub(super) loaded: Rc<Loaded>,
    /// The item handed out last.
    pub(super) at: usize,
    /// Keeps a vacuum from the page.
    pin: Option<Pin>,
}

impl Place {
    /// The same place, pinned once more.
    fn again(&self) -> Place {
        Place { loaded: Rc::clone(&self.loaded), at: self.at, pin: self.pin.as_ref().map(Pin::again) }
    }

    /// Releases the pin.
    fn leave(self) {
        if let Some(pin) = self.pin {
            pin.release();
        }
    }
}

/// A scan of the server's. It may be dropped after the transaction has been aborted, so it does not release its pins
/// then: [`State::end`] does that, or the end of the transaction.
pub(super) struct State {
    schema: Schema,
    wanted: Option<Wanted>,
    place: Option<Place>,
    marked: Option<Place>,
}

impl State {
    /// Begins a scan.
    pub(super) fn begin(index: Index<'_>) -> State {
        State { schema: Schema::of(index), wanted: None, place: None, marked: None }
    }

    /// Ends a scan, or makes it ready for other keys.
    pub(super) fn end(&mut self) {
        for place in [self.place.take(), self.marked.take()].into_iter().flatten() {
            place.leave();
        }
        self.wanted = None;
    }

    /// Reads the scan's keys, once.
    fn prepare(&mut self, scan: &Scan<'_>) {
        if self.wanted.is_none() {
            self.wanted = Some(Wanted::read(&self.schema, scan.keys()));
            scan.index().count_scan();
        }
    }

    /// Goes to the next entry.
    pub(super) fn next(&mut self, scan: &mut Scan<'_>, way: Way) -> bool {
        self.prepare(scan);
        let State { schema, wanted: Some(wanted), place, .. } = self else { return false };
        let keys = scan.wants_entry();
        let snapshot = scan.snapshot();
        let ask = Ask {
            tree: Tree::new(scan.index(), schema),
            wanted,
            keys,
            // An MVCC snapshot is not deceived by an address that was reused.
            pin: keys || !snapshot.is_some_and(Snapshot::is_mvcc),
            snapshot,
        };
        *place = ask.next(place.take(), way);
        let Some(place) = place else { return false };
        let Some(item) = place.loaded.items.get(place.at) else { return false };
        expect_row(scan.table(), &ask.tree, place.loaded.block, item.row);
        scan.found(item.row);
        if keys {
            let part =
                |(from, to): (u32, u32)| place.loaded.bytes.get(from as usize..to as usize).unwrap_or(&[]);
            let (key, value) = (part(item.key), part(item.value));
            let columns = schema.columns.iter().zip(schema.split(key)).enumerate();
            scan.found_entry(columns.map(|(number, (column, bytes))| {
                if value.contains(&(number as u8)) { Some(column.negative_zero()) } else { column.decode(bytes) }
            }));
        }
        true
    }

    /// Puts all rows into a bitmap; returns how many.
    pub(super) fn bitmap(&mut self, scan: &Scan<'_>, bitmap: &mut Bitmap<'_>) -> i64 {
        self.prepare(scan);
        let State { schema, wanted: Some(wanted), .. } = self else { return 0 };
        let ask = Ask {
            tree: Tree::new(scan.index(), schema),
            wanted,
            keys: false,
            pin: false,
            snapshot: scan.snapshot(),
        };
        let mut found = 0;
        let mut place = ask.next(None, Way::Forward);
        while let Some(mut here) = place {
            let rows: Vec<pg_sys::ItemPointerData> = here.loaded.items.iter().map(|item| item.row).collect();
            bitmap.add(&rows);
            found += rows.len() as i64;
            here.at = rows.len();
            place = ask.next(Some(here), Way::Forward);
        }
        found
    }

    /// Remembers the entry that the scan is at.
    pub(super) fn mark(&mut self) {
        if let Some(marked) = self.marked.take() {
            marked.leave();
        }
        self.marked = self.place.as_ref().map(Place::again);
    }

    /// Goes back to the entry remembered.
    pub(super) fn restore(&mut self) {
        if let Some(place) = self.place.take() {
            place.leave();
        }
        self.place = self.marked.as_ref().map(Place::again);
    }
}

/// Raises an error if the table has no block that the row could be in: only a damaged entry says so, since a table is
/// made shorter only when nobody scans it.
fn expect_row(table: Option<Relation<'_>>, tree: &Tree<'_>, leaf: u32, row: pg_sys::ItemPointerData) {
    let (block, offset) = heap::tid_parts(row);
    if table.is_some_and(|table| !buffer::has_block(table, block)) {
        let what = format!("an entry is of row ({block},{offset}), which is not in the table");
        error::corrupted(&tree.name(), leaf, what);
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
    /// Whose entries these are; `None` if that is decided elsewhere.
    pub(super) snapshot: Option<Snapshot<'s>>,
}

impl Ask<'_> {
    /// Reads the entries of range number `range` from a leaf. With `until`, the leaf counts only up to there.
    fn load(&self, reached: Reached<Shared>, range: usize, until: Option<Vec<u8>>) -> Option<Place> {
        let Reached { page, floor } = reached;
        let block = page.block();
        snapshot::expect_not_too_old(self.snapshot, self.tree.index, &page);
        let standby = snapshot::in_recovery();
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
        let pin = kept.then(|| page.into_pin());
        Some(Place { loaded: Rc::new(loaded), at: 0, pin })
    }

    /// The leaf where range number `range` begins (forward) or ends.
    fn first(&self, range: usize, way: Way) -> Option<Place> {
        let wanted = self.wanted.ranges.get(range)?;
        let (edge, side) = match way {
            Way::Forward => (&wanted.low, Side::Behind),
            Way::Backward => (&wanted.high, Side::Before),
        };
        self.load(self.tree.descend(edge, side, 0, None, true), range, None)
    }

    /// The leaf after or before the loaded one, if its range goes on there.
    fn step(&self, loaded: &Loaded, way: Way) -> Option<Place> {
        let wanted = self.wanted.ranges.get(loaded.range)?;
        let schema = self.tree.schema;
        match way {
            Way::Forward => {
                let bound = loaded.bound.as_deref()?;
                if schema.order(bound, &wanted.high) != std::cmp::Ordering::Less {
                    return None;
                }
                let edge = schema.before_key(bound);
                let reached = match loaded.next {
                    Some(next) => {
                        let page = self.tree.read(next);
                        let mut floor = Some(bound.to_vec());
                        let page =
                            self.tree.move_right(page, &edge, Side::Behind, false, Some(&mut floor));
                        Reached { page, floor }
                    }
                    None => self.tree.descend(&edge, Side::Behind, 0, None, true),
                };
                self.load(reached, loaded.range, None)
            }
            Way::Backward => {
                let floor = loaded.floor.as_deref()?;
                if schema.order(floor, &wanted.low) != std::cmp::Ordering::Greater {
                    return None;
                }
                let edge = schema.before_key(floor);
                let reached = self.tree.descend(&edge, Side::Before, 0, None, true);
                self.load(reached, loaded.range, Some(floor.to_vec()))
            }
        }
    }

    /// The next entry from `place` (or from the beginning), on whatever page it is.
    pub(super) fn next(&self, place: Option<Place>, way: Way) -> Option<Place> {
        let mut range = match way {
            Way::Forward => 0,
            Way::Backward => self.wanted.ranges.len().checked_sub(1)?,
        };
        let mut place = match place {
            Some(mut place) => {
                let next = match way {
                    Way::Forward => place.at.checked_add(1),
                    Way::Backward => place.at.checked_sub(1),
                };
                if let Some(at) = next
                    && at < place.loaded.items.len()
                {
                    place.at = at;
                    return Some(place);
                }
                let Place { loaded, pin, .. } = place;
                if let Some(pin) = pin {
                    pin.release();
                }
                range = loaded.range;
                self.step(&loaded, way)
            }
            None => self.first(range, way),
        };
        loop {
            check_for_interrupts!();
            match place {
                Some(mut found) if !found.loaded.items.is_empty() => {
                    found.at = match way {
                        Way::Forward => 0,
                        Way::Backward => found.loaded.items.len() - 1,
                    };
                    return Some(found);
                }
                Some(empty) => place = self.step(&empty.loaded, way),
                None => {
                    range = match way {
                        Way::Forward => range + 1,
                        Way::Backward => range.checked_sub(1)?,
                    };
                    if range >= self.wanted.ranges.len() {
                        return None;
                    }
                    place = self.first(range, way);
                }
            }
        }
    }
}
