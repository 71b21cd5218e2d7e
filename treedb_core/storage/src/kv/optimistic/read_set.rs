//! What a transaction has read, as keys and spans of keys.
//!
//! A *place* is the table's number followed by a key or a row number, as bytes that sort in the same order. So the places
//! of all tables are totally ordered, and everything between two bounds is a span from one place up to another.

use std::collections::BTreeSet;
use std::ops::Bound;

/// The place of a key.
pub(super) fn place(table: u32, key: &[u8]) -> Vec<u8> {
    let mut place = Vec::with_capacity(8 + key.len() + 1);
    place.extend_from_slice(&u64::from(table).to_be_bytes());
    place.extend_from_slice(key);
    place
}

/// The next place there can be.
fn successor(mut place: Vec<u8>) -> Vec<u8> {
    place.push(0);
    place
}

/// Table and key of a place.
pub(super) fn parts(place: &[u8]) -> (u32, &[u8]) {
    match place.split_first_chunk::<8>() {
        Some((table, key)) => (u64::from_be_bytes(*table) as u32, key),
        None => (0, place),
    }
}

/// Places from one up to, and without, another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: Vec<u8>,
    pub(super) to: Vec<u8>,
}

impl Span {
    /// Where a span of `table` begins.
    pub(super) fn begin(table: u32, from: Bound<&[u8]>) -> Vec<u8> {
        match from {
            Bound::Included(key) => place(table, key),
            Bound::Excluded(key) => successor(place(table, key)),
            Bound::Unbounded => place(table, &[]),
        }
    }

    /// Where a span of `table` ends.
    pub(super) fn end(table: u32, to: Bound<&[u8]>) -> Vec<u8> {
        match to {
            Bound::Included(key) => successor(place(table, key)),
            Bound::Excluded(key) => place(table, key),
            Bound::Unbounded => (u64::from(table) + 1).to_be_bytes().to_vec(),
        }
    }

    pub(super) fn new(table: u32, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Span {
        Span { from: Span::begin(table, from), to: Span::end(table, to) }
    }

    /// All of a table.
    pub(super) fn table(table: u32) -> Span {
        Span::new(table, Bound::Unbounded, Bound::Unbounded)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.from >= self.to
    }

    pub(super) fn contains(&self, place: &[u8]) -> bool {
        self.from.as_slice() <= place && place < self.to.as_slice()
    }

    pub(super) fn meets(&self, other: &Span) -> bool {
        (&self.from).max(&other.from) < (&self.to).min(&other.to)
    }
}

/// What a transaction has read.
#[derive(Debug, Default)]
pub(super) struct ReadSet {
    places: BTreeSet<Vec<u8>>,
    spans: Vec<Span>,
}

impl ReadSet {
    pub(super) fn key(&mut self, table: u32, key: &[u8]) {
        self.places.insert(place(table, key));
    }

    /// Removes a key; false if it was not there.
    pub(super) fn forget(&mut self, table: u32, key: &[u8]) -> bool {
        self.places.remove(&place(table, key))
    }

    /// Adds a span, which can be extended through the number returned.
    pub(super) fn open(&mut self, span: Span) -> usize {
        self.spans.push(span);
        self.spans.len() - 1
    }

    /// The span of that number.
    pub(super) fn span(&mut self, number: usize) -> Option<&mut Span> {
        self.spans.get_mut(number)
    }

    pub(super) fn places(&self) -> impl Iterator<Item = &[u8]> {
        self.places.iter().map(Vec::as_slice)
    }

    pub(super) fn spans(&self) -> impl Iterator<Item = &Span> {
        self.spans.iter().filter(|span| !span.is_empty())
    }
}
