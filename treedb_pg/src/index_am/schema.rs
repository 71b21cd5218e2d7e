//! The columns of an index, and its entries.
//!
//! An entry's key is the encoded columns followed by the row's address, block (4 bytes) and offset (2), big-endian:
//! so no two entries are equal. The value is empty, or the numbers of the columns whose value is -0, one byte each.
//!
//! Entries are in the order of their bytes, unless a text column has a collation of its own order: then columns are
//! compared one by one ([`Keys::Custom`]).

use std::cmp::Ordering;

use pgrx::pg_sys;
use treedb_formats::node::Keys;

use super::column::{Column, Kind};
use super::meta::fact;
use crate::shim::error::{SqlState, fail};
use crate::shim::heap;
use crate::shim::index_build::IndexRow;
use crate::shim::relation::Index;
use crate::shim::server;
use crate::types::keyset;

/// Bytes of a row's address at the end of a key.
pub(super) const ADDRESS: usize = 6;
/// The longest key, address included. At least four entries fit a page, beside a bound as long as they are.
pub(super) const MAX_KEY: usize = 1900;

/// The columns of an index.
#[derive(Clone, Debug)]
pub(super) struct Schema {
    pub(super) columns: Vec<Column>,
    pub(super) keys: Keys,
}

/// An entry to be stored.
pub(super) struct Entry {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
}

impl Schema {
    /// Reads the columns of an open index.
    pub(super) fn of(index: Index<'_>) -> Schema {
        let columns = index.key_columns().into_iter().enumerate().map(|(at, column)| {
            let Some(kind) = column.support.and_then(Kind::from_number) else {
                fail(
                    SqlState::ERRCODE_INVALID_OBJECT_DEFINITION,
                    format!("operator class of column {} is not one of treedb_btree", at + 1),
                    "Use the operator classes that the extension brings.",
                )
            };
            let collated = kind == Kind::Text && !server::orders_by_bytes(column.collation);
            Column {
                kind,
                descending: column.descending,
                nulls_first: column.nulls_first,
                collation: collated.then_some(column.collation),
            }
        });
        let columns: Vec<Column> = columns.collect();
        let custom = columns.iter().any(|column| column.collation.is_some());
        Schema { columns, keys: if custom { Keys::Custom } else { Keys::Bytewise } }
    }

    /// Whether the index has several entries for a row.
    pub(super) fn is_multikey(&self) -> bool {
        self.columns.first().is_some_and(|column| column.kind == Kind::Keys)
    }

    /// The entries of a row, and the facts they are evidence of.
    pub(super) fn entries(&self, row: &IndexRow<'_>, mut each: impl FnMut(Entry)) -> u32 {
        if self.is_multikey() {
            let Some(value) = row.value(0) else { return 0 };
            let bytes = value.bytes();
            let set = keyset::read(&bytes);
            let mut facts = if set.multikey { fact::MULTIKEY } else { 0 };
            let mut last: Option<&[u8]> = None;
            for key in set {
                let kept = shortened(key);
                if kept.len() < key.len() {
                    facts |= fact::SHORTENED;
                }
                // Two long keys may be the same after shortening; keys come in rising order.
                if last.replace(kept) != Some(kept) {
                    let mut key = kept.to_vec();
                    append_address(row.tid(), &mut key);
                    each(Entry { key, value: Vec::new() });
                }
            }
            return facts;
        }
        let mut key = Vec::with_capacity(16 * self.columns.len() + ADDRESS);
        let mut negative_zeros = Vec::new();
        for (number, column) in self.columns.iter().enumerate() {
            match row.value(number) {
                None => column.encode_null(&mut key),
                Some(value) => {
                    if !column.encode(value, &mut key) {
                        negative_zeros.push(number as u8);
                    }
                }
            }
        }
        append_address(row.tid(), &mut key);
        if key.len() > MAX_KEY {
            fail(
                SqlState::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                format!(
                    "index row of {} bytes is over the limit of {MAX_KEY} for index \"{}\"",
                    key.len(),
                    row.index().shown()
                ),
                "Values this long cannot be ordered by an index. Index a part of the value, such as left(column, 400), or a hash of it.",
            );
        }
        each(Entry { key, value: negative_zeros });
        0
    }

    /// The order of two keys.
    pub(super) fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self.keys {
            Keys::Bytewise => a.cmp(b),
            Keys::Custom => {
                self.compare_columns(a, b, self.columns.len()).then_with(|| address(a).cmp(address(b)))
            }
        }
    }

    /// The order of the first `count` columns of two keys. Bytes that are no columns come first.
    pub(super) fn compare_columns(&self, a: &[u8], b: &[u8], count: usize) -> Ordering {
        let (mut a_at, mut b_at) = (0, 0);
        for column in self.columns.iter().take(count) {
            let (a_end, b_end) = (column.end(a, a_at), column.end(b, b_at));
            let (Some(a_end), Some(b_end)) = (a_end, b_end) else {
                // A marker alone stands for all values (see `Ends` of the scan's ranges); anything else is damage.
                return a.get(a_at).cmp(&b.get(b_at));
            };
            let order = match (a.get(a_at..a_end), b.get(b_at..b_end)) {
                (Some(a), Some(b)) => column.compare(a, b),
                (a, b) => a.cmp(&b),
            };
            if order != Ordering::Equal {
                return order;
            }
            (a_at, b_at) = (a_end, b_end);
        }
        Ordering::Equal
    }

    /// The encoded columns of a key, one after the other; fewer if the key is damaged.
    pub(super) fn split<'k>(&self, key: &'k [u8]) -> impl Iterator<Item = &'k [u8]> {
        let mut at = 0;
        self.columns.iter().map_while(move |column| {
            let end = column.end(key, at)?;
            let part = key.get(at..end)?;
            at = end;
            Some(part)
        })
    }
}

/// The part of a document's key that an entry keeps.
pub(super) fn shortened(key: &[u8]) -> &[u8] {
    key.get(..MAX_KEY - ADDRESS).unwrap_or(key)
}

/// Appends a row's address.
pub(super) fn append_address(row: pg_sys::ItemPointerData, key: &mut Vec<u8>) {
    let (block, offset) = heap::tid_parts(row);
    key.extend_from_slice(&block.to_be_bytes());
    key.extend_from_slice(&offset.to_be_bytes());
}

/// The address bytes of a key.
pub(super) fn address(key: &[u8]) -> &[u8] {
    key.len().checked_sub(ADDRESS).and_then(|at| key.get(at..)).unwrap_or(&[])
}

/// The row a key is of; `None` if the key is too short to have one.
pub(super) fn row_of(key: &[u8]) -> Option<pg_sys::ItemPointerData> {
    key.last_chunk().map(|address| row_of_address(*address))
}

/// The row whose address this is.
#[inline]
pub(super) fn row_of_address([a, b, c, d, e, f]: [u8; ADDRESS]) -> pg_sys::ItemPointerData {
    heap::tid(u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([e, f]))
}
