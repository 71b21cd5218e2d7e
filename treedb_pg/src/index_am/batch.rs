//! Entries of a leaf that a scan has read ahead.
//!
//! The server asks for one entry at a time. A scan reads a batch of them, so that a page is opened, and its conditions
//! are looked at, once for many; and an entry of a batch is returned without any work that could fail.

use pgrx::pg_sys;
use treedb_query::access::Direction;

use super::schema::{no_row, row_numbered};
use crate::pages::page::Damage;
use crate::shim::heap;
use crate::shim::index_scan::Scan;

/// Entries that are read ahead at most.
const MOST: usize = 256;

/// The entries read ahead. There are few at first: a scan may want no more.
pub(super) struct Batch {
    items: Vec<Item>,
    /// The one to return next.
    next: usize,
    direction: Direction,
    /// How many to read ahead.
    size: usize,
    /// How many batches there have been.
    number: u64,
}

pub(super) struct Item {
    /// Number of the entry in the page's selection.
    pub(super) at: usize,
    pub(super) row: pg_sys::ItemPointerData,
    /// Where the entry is in the scan's buffer.
    pub(super) entry: Option<u32>,
}

/// A place in a batch.
#[derive(Clone, Copy)]
pub(super) struct PlaceInBatch {
    number: u64,
    next: usize,
}

impl Batch {
    /// An empty one.
    pub(super) fn new() -> Batch {
        Batch { items: Vec::new(), next: 0, direction: Direction::Forward, size: 0, number: 0 }
    }

    /// Forgets the entries, so that the next one is read from the cursor's place.
    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.next = 0;
        self.number += 1;
    }

    /// Forgets the entries and how many to read ahead, for another scan.
    pub(super) fn reset(&mut self) {
        self.clear();
        self.size = 0;
    }

    /// Begins a new one, of more entries than the last one.
    pub(super) fn begin(&mut self, direction: Direction) {
        self.clear();
        self.direction = direction;
        self.size = (4 * self.size).clamp(1, MOST);
    }

    /// Whether it has as many entries as are to be read ahead.
    pub(super) fn is_full(&self) -> bool {
        self.items.len() >= self.size
    }

    /// Adds the entry with this number in the page's selection, its row yet to be read.
    #[inline]
    pub(super) fn push(&mut self, at: usize) {
        self.items.push(Item { at, row: heap::tid(0, 0), entry: None });
    }

    /// The entries.
    pub(super) fn items(&mut self) -> &mut [Item] {
        &mut self.items
    }

    /// The numbers of the entries in the page's selection.
    pub(super) fn numbers(&self) -> impl ExactSizeIterator<Item = usize> + Clone {
        self.items.iter().map(|item| item.at)
    }

    /// Sets the rows: `address` has the address of an entry's row as a number.
    pub(super) fn set_rows(&mut self, address: impl Fn(usize) -> u64) -> Result<(), Damage> {
        let mut damaged = false;
        for item in &mut self.items {
            let address = address(item.at);
            damaged |= address as u16 == 0;
            item.row = row_numbered(address);
        }
        if damaged { Err(no_row()) } else { Ok(()) }
    }

    /// Sets where the entries are in the scan's buffer: one after the other from `first` on, each of `words` words.
    pub(super) fn set_entries(&mut self, first: u32, words: u32) {
        let mut at = first;
        for item in &mut self.items {
            item.entry = Some(at);
            at += words;
        }
    }

    /// Returns the next entry to the server; its number in the page's selection. `None` if there is none at hand.
    #[inline]
    pub(super) fn next(&mut self, scan: &mut Scan<'_>, direction: Direction) -> Option<usize> {
        let item = self.items.get(self.next).filter(|_| self.direction == direction)?;
        self.next += 1;
        scan.found(item.row, item.entry);
        Some(item.at)
    }

    /// The place after the entry returned last.
    pub(super) fn place(&self) -> PlaceInBatch {
        PlaceInBatch { number: self.number, next: self.next }
    }

    /// Goes back to a place. If it is of another batch, the entries are read again from the cursor's place.
    pub(super) fn go_back(&mut self, place: PlaceInBatch) {
        if place.number == self.number {
            self.next = place.next;
        } else {
            self.clear();
        }
    }

    /// The row in the last block of the table.
    pub(super) fn last_block(&self) -> Option<pg_sys::ItemPointerData> {
        self.items.iter().map(|item| item.row).max_by_key(|row| heap::tid_parts(*row).0)
    }
}
