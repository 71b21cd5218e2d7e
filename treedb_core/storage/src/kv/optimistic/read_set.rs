//! The keys and spans of keys that a transaction has read.
//!
//! A *table key* is the table's number followed by a key or a row number, encoded so that the bytes sort in
//! the same order. So the table keys of all tables are totally ordered, and a range of a table is a span from
//! one table key up to another.

use std::collections::BTreeSet;
use std::ops::Bound;

/// The table key of a key or row number.
pub(super) fn table_key(table: u32, key: &[u8]) -> Vec<u8> {
    let mut table_key = Vec::with_capacity(8 + key.len() + 1);
    table_key.extend_from_slice(&u64::from(table).to_be_bytes());
    table_key.extend_from_slice(key);
    table_key
}

/// The smallest table key above `table_key`.
fn successor(mut table_key: Vec<u8>) -> Vec<u8> {
    table_key.push(0);
    table_key
}

/// The table and the key of a table key.
pub(super) fn split_table_key(table_key: &[u8]) -> (u32, &[u8]) {
    match table_key.split_first_chunk::<8>() {
        Some((table, key)) => (u64::from_be_bytes(*table) as u32, key),
        None => (0, table_key),
    }
}

/// The table keys from `from` up to, but not including, `to`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: Vec<u8>,
    pub(super) to: Vec<u8>,
}

impl Span {
    /// The start of a span of `table`.
    pub(super) fn begin(table: u32, from: Bound<&[u8]>) -> Vec<u8> {
        match from {
            Bound::Included(key) => table_key(table, key),
            Bound::Excluded(key) => successor(table_key(table, key)),
            Bound::Unbounded => table_key(table, &[]),
        }
    }

    /// The end of a span of `table`.
    pub(super) fn end(table: u32, to: Bound<&[u8]>) -> Vec<u8> {
        match to {
            Bound::Included(key) => successor(table_key(table, key)),
            Bound::Excluded(key) => table_key(table, key),
            Bound::Unbounded => (u64::from(table) + 1).to_be_bytes().to_vec(),
        }
    }

    pub(super) fn new(table: u32, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Span {
        Span { from: Span::begin(table, from), to: Span::end(table, to) }
    }

    /// The span of a whole table.
    pub(super) fn table(table: u32) -> Span {
        Span::new(table, Bound::Unbounded, Bound::Unbounded)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.from >= self.to
    }

    pub(super) fn contains(&self, table_key: &[u8]) -> bool {
        self.from.as_slice() <= table_key && table_key < self.to.as_slice()
    }

    pub(super) fn overlaps(&self, other: &Span) -> bool {
        (&self.from).max(&other.from) < (&self.to).min(&other.to)
    }
}

/// The keys and spans that a transaction has read.
#[derive(Debug, Default)]
pub(super) struct ReadSet {
    keys: BTreeSet<Vec<u8>>,
    spans: Vec<Span>,
}

impl ReadSet {
    pub(super) fn add_key(&mut self, table: u32, key: &[u8]) {
        self.keys.insert(table_key(table, key));
    }

    /// Removes a key; false if it was not in the set.
    pub(super) fn forget(&mut self, table: u32, key: &[u8]) -> bool {
        self.keys.remove(&table_key(table, key))
    }

    /// Adds a span and returns its number, by which it can be extended.
    pub(super) fn add_span(&mut self, span: Span) -> usize {
        self.spans.push(span);
        self.spans.len() - 1
    }

    /// The span with this number.
    pub(super) fn span(&mut self, number: usize) -> Option<&mut Span> {
        self.spans.get_mut(number)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().map(Vec::as_slice)
    }

    pub(super) fn spans(&self) -> impl Iterator<Item = &Span> {
        self.spans.iter().filter(|span| !span.is_empty())
    }
}
