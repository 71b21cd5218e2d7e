//! Reading an index in order.
//!
//! A scan copies a leaf's matching entries at once and returns them one by one. Forward it continues at the page's
//! right neighbour, backward by a new descent to the position before the page. Either way it remembers the keys at
//! which the page began and ended, so that it can continue whatever happened to the page in between: entries move only
//! to the right, and only within those limits.
//!
//! While entries of a page are returned to a scan that does not check the rows' visibility with an MVCC snapshot
//! (or does not read the rows at all), the page stays pinned: a vacuum that would remove the entries waits for the pin
//! before it lets the table reuse the addresses.

use std::sync::Arc;

use pgrx::{check_for_interrupts, pg_sys};
use treedb_query::access::Direction;

use super::boundary::Side;
use super::range::Conditions;
use super::schema::{Schema, row_of};
use super::tree::{Reached, Tree};
use crate::shim::buffer::{self, Pin, Shared};
use crate::shim::index_scan::{Bitmap, Scan};
use crate::shim::relation::{Index, Relation};
use crate::shim::snapshot::{self, Snapshot};
use crate::shim::{error, heap};

/// An entry to be returned.
pub(super) struct Item {
    pub(super) row: pg_sys::ItemPointerData,
    /// Where its key and value are in the page's `bytes`; empty unless the reader returns keys.
    pub(super) key: (u32, u32),
    value: (u32, u32),
}

/// The matching entries of one leaf.
pub(super) struct LeafEntries {
    /// The leaf's block, for messages.
    block: u32,
    pub(super) items: Vec<Item>,
    pub(super) bytes: Vec<u8>,
    /// Number of the range they are of.
    range: usize,
    /// Where the leaf's keys begin; `None` at the left end of the index.
    lower_bound: Option<Vec<u8>>,
    /// Where they end; `None` at the right end.
    bound: Option<Vec<u8>>,
    /// The right neighbour when the leaf was read, if `bound` is the leaf's own.
    next: Option<u32>,
}

/// A scan's position. Its pin is not released when this is dropped, see [`Cursor::leave`].
pub(super) struct Cursor {
    pub(super) leaf: Arc<LeafEntries>,
    /// The item returned last.
    pub(super) at: usize,
    /// Keeps a vacuum from the page.
    pin: Option<Pin>,
}

impl Cursor {
    /// The same cursor, pinned once more.
    fn again(&self) -> Cursor {
        Cursor { leaf: Arc::clone(&self.leaf), at: self.at, pin: self.pin.as_ref().map(Pin::again) }
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
    conditions: Option<Conditions>,
    cursor: Option<Cursor>,
    marked: Option<Cursor>,
}

impl State {
    /// Begins a scan.
    pub(super) fn begin(index: Index<'_>) -> State {
        State { schema: Schema::of(index), conditions: None, cursor: None, marked: None }
    }

    /// Ends a scan, or makes it ready for other keys.
    pub(super) fn end(&mut self) {
        for cursor in [self.cursor.take(), self.marked.take()].into_iter().flatten() {
            cursor.leave();
        }
        self.conditions = None;
    }

    /// Reads the scan's keys, once.
    fn prepare(&mut self, scan: &Scan<'_>) {
        if self.conditions.is_none() {
            self.conditions = Some(Conditions::read(&self.schema, scan.keys()));
            scan.index().count_scan();
        }
    }

    /// Goes to the next entry.
    pub(super) fn next(&mut self, scan: &mut Scan<'_>, direction: Direction) -> bool {
        self.prepare(scan);
        let State { schema, conditions: Some(conditions), cursor, .. } = self else { return false };
        let keys = scan.wants_entry();
        let snapshot = scan.snapshot();
        let reader = EntryReader {
            tree: Tree::new(scan.index(), schema),
            conditions,
            keys,
            // An MVCC snapshot is not deceived by an address that was reused.
            pin: keys || !snapshot.is_some_and(Snapshot::is_mvcc),
            snapshot,
        };
        *cursor = reader.next(cursor.take(), direction);
        let Some(cursor) = cursor else { return false };
        let Some(item) = cursor.leaf.items.get(cursor.at) else { return false };
        expect_row(scan.table(), &reader.tree, cursor.leaf.block, item.row);
        scan.found(item.row);
        if keys {
            let part =
                |(from, to): (u32, u32)| cursor.leaf.bytes.get(from as usize..to as usize).unwrap_or(&[]);
            let (key, value) = (part(item.key), part(item.value));
            let columns = schema.columns.iter().zip(schema.split(key)).enumerate();
            scan.found_entry(columns.map(|(number, (column, bytes))| {
                if value.contains(&(number as u8)) {
                    Some(column.negative_zero())
                } else {
                    column.decode(bytes)
                }
            }));
        }
        true
    }

    /// Puts all rows into a bitmap; returns how many.
    pub(super) fn bitmap(&mut self, scan: &Scan<'_>, bitmap: &mut Bitmap<'_>) -> i64 {
        self.prepare(scan);
        let State { schema, conditions: Some(conditions), .. } = self else { return 0 };
        let reader = EntryReader {
            tree: Tree::new(scan.index(), schema),
            conditions,
            keys: false,
            pin: false,
            snapshot: scan.snapshot(),
        };
        let mut found = 0;
        let mut cursor = reader.next(None, Direction::Forward);
        while let Some(mut here) = cursor {
            let rows: Vec<pg_sys::ItemPointerData> = here.leaf.items.iter().map(|item| item.row).collect();
            bitmap.add(&rows);
            found += rows.len() as i64;
            here.at = rows.len();
            cursor = reader.next(Some(here), Direction::Forward);
        }
        found
    }

    /// Remembers the entry that the scan is at.
    pub(super) fn mark(&mut self) {
        if let Some(marked) = self.marked.take() {
            marked.leave();
        }
        self.marked = self.cursor.as_ref().map(Cursor::again);
    }

    /// Goes back to the entry remembered.
    pub(super) fn restore(&mut self) {
        if let Some(cursor) = self.cursor.take() {
            cursor.leave();
        }
        self.cursor = self.marked.as_ref().map(Cursor::again);
    }
}

/// Raises an error if the table has no block that the row could be in: only a damaged entry can point
/// there, since a table is truncated only while no other backend reads it.
fn expect_row(table: Option<Relation<'_>>, tree: &Tree<'_>, leaf: u32, row: pg_sys::ItemPointerData) {
    let (block, offset) = heap::tid_parts(row);
    if table.is_some_and(|table| !buffer::has_block(table, block)) {
        let what = format!("an entry is of row ({block},{offset}), which is not in the table");
        error::corrupted(&tree.name(), leaf, what);
    }
}

/// Reads the entries that match a scan's conditions.
pub(super) struct EntryReader<'s> {
    pub(super) tree: Tree<'s>,
    pub(super) conditions: &'s Conditions,
    /// Keys and values are returned, not only rows.
    pub(super) keys: bool,
    /// Keep the page pinned.
    pub(super) pin: bool,
    /// Whose entries these are; `None` if that is decided elsewhere.
    pub(super) snapshot: Option<Snapshot<'s>>,
}

impl EntryReader<'_> {
    /// Reads the entries of range number `range` from a leaf. With `until`, the leaf counts only up to there.
    fn load(&self, reached: Reached<Shared>, range: usize, until: Option<Vec<u8>>) -> Option<Cursor> {
        let Reached { page, lower_bound } = reached;
        let block = page.block();
        snapshot::expect_not_too_old(self.snapshot, self.tree.index, &page);
        let standby = snapshot::in_recovery();
        let bounds = self.conditions.ranges.get(range)?;
        let schema = self.tree.schema;
        let (leaf, kept) = {
            let view = self.tree.view(&page);
            let leaf = self.tree.checked(block, view.leaf(schema.keys));
            let from = self.tree.checked_node(block, schema.position(&leaf, &bounds.low));
            let mut to = self.tree.checked_node(block, schema.position(&leaf, &bounds.high));
            // On a standby the neighbour may be reused as soon as the latch is released.
            let mut next = view.next().filter(|_| !standby);
            let mut bound = view.bound().map(<[u8]>::to_vec);
            if let Some(until) = until {
                let boundary = schema.before_key(&until);
                to = to.min(self.tree.checked_node(block, schema.position(&leaf, &boundary)));
                bound = Some(until);
                next = None;
            }
            let mut items = Vec::with_capacity(to.saturating_sub(from));
            let mut bytes = Vec::new();
            let mut key = Vec::new();
            for i in from..to {
                self.tree.checked_node(block, leaf.key_into(i, &mut key));
                if !self.conditions.matches(schema, &key) {
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
                    let value = self.tree.checked_node(block, leaf.value(i)).bytes;
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
            (LeafEntries { block, items, bytes, range, lower_bound, bound, next }, kept)
        };
        let pin = kept.then(|| page.into_pin());
        Some(Cursor { leaf: Arc::new(leaf), at: 0, pin })
    }

    /// The leaf where range number `range` begins (forward) or ends.
    fn first(&self, range: usize, direction: Direction) -> Option<Cursor> {
        let bounds = self.conditions.ranges.get(range)?;
        let (boundary, side) = match direction {
            Direction::Forward => (&bounds.low, Side::After),
            Direction::Backward => (&bounds.high, Side::Before),
        };
        self.load(self.tree.descend(boundary, side, 0, None, true), range, None)
    }

    /// The leaf after or before the leaf one, if its range goes on there.
    fn step(&self, leaf: &LeafEntries, direction: Direction) -> Option<Cursor> {
        let bounds = self.conditions.ranges.get(leaf.range)?;
        let schema = self.tree.schema;
        match direction {
            Direction::Forward => {
                let bound = leaf.bound.as_deref()?;
                if schema.order(bound, &bounds.high) != std::cmp::Ordering::Less {
                    return None;
                }
                let boundary = schema.before_key(bound);
                let reached = match leaf.next {
                    Some(next) => {
                        let page = self.tree.read(next);
                        let mut lower_bound = Some(bound.to_vec());
                        let page =
                            self.tree.move_right(page, &boundary, Side::After, false, Some(&mut lower_bound));
                        Reached { page, lower_bound }
                    }
                    None => self.tree.descend(&boundary, Side::After, 0, None, true),
                };
                self.load(reached, leaf.range, None)
            }
            Direction::Backward => {
                let lower_bound = leaf.lower_bound.as_deref()?;
                if schema.order(lower_bound, &bounds.low) != std::cmp::Ordering::Greater {
                    return None;
                }
                let boundary = schema.before_key(lower_bound);
                let reached = self.tree.descend(&boundary, Side::Before, 0, None, true);
                self.load(reached, leaf.range, Some(lower_bound.to_vec()))
            }
        }
    }

    /// The next entry from `cursor` (or from the beginning), on whatever page it is.
    pub(super) fn next(&self, cursor: Option<Cursor>, direction: Direction) -> Option<Cursor> {
        let mut range = match direction {
            Direction::Forward => 0,
            Direction::Backward => self.conditions.ranges.len().checked_sub(1)?,
        };
        let mut cursor = match cursor {
            Some(mut cursor) => {
                let next = match direction {
                    Direction::Forward => cursor.at.checked_add(1),
                    Direction::Backward => cursor.at.checked_sub(1),
                };
                if let Some(at) = next
                    && at < cursor.leaf.items.len()
                {
                    cursor.at = at;
                    return Some(cursor);
                }
                let Cursor { leaf, pin, .. } = cursor;
                if let Some(pin) = pin {
                    pin.release();
                }
                range = leaf.range;
                self.step(&leaf, direction)
            }
            None => self.first(range, direction),
        };
        loop {
            check_for_interrupts!();
            match cursor {
                Some(mut found) if !found.leaf.items.is_empty() => {
                    found.at = match direction {
                        Direction::Forward => 0,
                        Direction::Backward => found.leaf.items.len() - 1,
                    };
                    return Some(found);
                }
                Some(empty) => cursor = self.step(&empty.leaf, direction),
                None => {
                    range = match direction {
                        Direction::Forward => range + 1,
                        Direction::Backward => range.checked_sub(1)?,
                    };
                    if range >= self.conditions.ranges.len() {
                        return None;
                    }
                    cursor = self.first(range, direction);
                }
            }
        }
    }
}
