//! The first rows of a sort order with a limit, found without sorting or decoding the others.
//!
//! A row is rejected by the first field of its sort key, read in place, if that sorts after the last row kept so far. A
//! kept row is its sort key and its id; documents are fetched at the end. Rows with equal keys stay in the order they
//! came in.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::access::{Row, RowId, Source};
use crate::doc::compare::compare;
use crate::doc::key::invert;
use crate::doc::key_decode::{decode, encoded_length};
use crate::doc::{FieldPeek, Fields, OwnedValue, Value};
use crate::error::Result;
use crate::index::ordered::SortOrder;

use super::external_sort::{Keyed, size};
use crate::query::Query;
use crate::query::Sort;
use crate::query::UsedFields;

/// The first rows of a sort order, of those offered so far.
pub struct TopK<'q> {
    query: &'q Query,
    sort: &'q Sort,
    /// The fields of the order.
    fields: Fields,
    /// The first of them, if its value alone can reject a row.
    first: Option<Fields>,
    /// The filter cannot fail, so that it is not evaluated on rows beyond the cutoff.
    early: bool,
    /// True if the order is descending in its first field.
    descends: bool,
    keep: usize,
    heap: BinaryHeap<HeapEntry>,
    /// The first field of the last row kept, once there are as many rows as needed.
    last: Option<Cutoff>,
    /// A buffer for a key.
    key: Vec<u8>,
    /// Bytes held, and their limit.
    bytes: usize,
    room: usize,
}

/// A row that is kept; the greatest entry of the heap is the last row.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct HeapEntry {
    key: Vec<u8>,
    /// Its position among the rows offered.
    number: u64,
    row: RowId,
}

impl HeapEntry {
    fn size(&self) -> usize {
        self.key.len() + size_of::<HeapEntry>()
    }
}

/// A value beyond which rows are rejected.
enum Cutoff {
    Number(f64),
    Text(Box<[u8]>),
    Other(OwnedValue),
}

impl Cutoff {
    /// How `value` compares with it, if that is cheap to tell.
    #[inline]
    fn compared(&self, value: Value<'_>) -> Option<Ordering> {
        const EXACT: i64 = 1 << 53;
        match (self, value) {
            (Cutoff::Text(last), Value::String(value)) => Some(value.cmp(last)),
            (Cutoff::Number(last), Value::Int32(value)) => f64::from(value).partial_cmp(last),
            (Cutoff::Number(last), Value::Int64(value)) if (-EXACT..=EXACT).contains(&value) => {
                (value as f64).partial_cmp(last)
            }
            (Cutoff::Number(last), Value::Double(value)) => value.partial_cmp(last),
            (Cutoff::Number(last), value) => Some(compare(value, Value::Double(*last))),
            (Cutoff::Text(last), value) => Some(compare(value, Value::String(last))),
            (Cutoff::Other(last), value) => Some(compare(value, last.value())),
        }
    }
}

impl<'q> TopK<'q> {
    /// For the rows that `query` needs, in at most `room` bytes. `None` if it has no sort order.
    pub fn new(query: &'q Query, room: usize) -> Option<Self> {
        let sort = query.sort.as_ref()?;
        let mut keys = sort.keys.iter();
        let fields = Fields::new(keys.clone().map(|part| part.path.first().as_bytes()));
        // With a third field the other two could be parallel arrays, which are an error.
        let first = keys.next().filter(|part| {
            sort.collation.is_simple() && part.path.parts().len() == 1 && sort.keys.len() <= 2
        });
        Some(TopK {
            query,
            sort,
            fields,
            first: first.map(|part| Fields::new([part.path.first().as_bytes()])),
            early: query.filter.reads().is_some(),
            descends: sort.keys.first().is_some_and(|part| part.direction == SortOrder::Descending),
            keep: query.wanted(),
            heap: BinaryHeap::new(),
            last: None,
            key: Vec::new(),
            bytes: 0,
            room,
        })
    }

    /// Keeps a row if it matches and is among the first; `number` increases from row to row. False if the memory is
    /// exhausted.
    #[inline]
    pub fn offer(&mut self, row: RowId, number: u64, lent: &mut dyn Row) -> Result<bool> {
        if self.early && self.is_beyond_cutoff(lent)? || !self.query.filter.admits(lent)? {
            return Ok(true);
        }
        if !self.early && self.is_beyond_cutoff(lent)? {
            return Ok(true);
        }
        if !self.peeked_key(lent)? {
            self.sort.key_into(lent.partial_document(&self.fields)?, &mut self.key)?;
        }
        self.keep(row, number);
        Ok(self.bytes <= self.room)
    }

    /// True if the row's first field sorts after all rows kept so far.
    #[inline]
    fn is_beyond_cutoff(&self, lent: &mut dyn Row) -> Result<bool> {
        let (Some(first), Some(last)) = (&self.first, &self.last) else { return Ok(false) };
        let order = match lent.peek(first)? {
            FieldPeek::Value(value) => last.compared(value),
            FieldPeek::Missing => last.compared(Value::Null),
            FieldPeek::Unknown => None,
        };
        Ok(match order {
            Some(Ordering::Greater) => !self.descends,
            Some(Ordering::Less) => self.descends,
            // Equal rows keep their order.
            Some(Ordering::Equal) => self.sort.keys.len() == 1,
            None => false,
        })
    }

    /// Encodes the key of a row from a peek at its field, if that is enough.
    fn peeked_key(&mut self, lent: &mut dyn Row) -> Result<bool> {
        let (Some(first), [part]) = (&self.first, self.sort.keys.as_slice()) else { return Ok(false) };
        let value = match lent.peek(first)? {
            FieldPeek::Value(value) => value,
            FieldPeek::Missing => Value::Null,
            FieldPeek::Unknown => return Ok(false),
        };
        self.key.clear();
        part.encode(value, &mut self.key);
        Ok(true)
    }

    /// Keeps the row whose key is in the buffer, if it is among the first.
    fn keep(&mut self, row: RowId, number: u64) {
        if self.heap.len() < self.keep {
            let entry = HeapEntry { key: std::mem::take(&mut self.key), number, row };
            self.bytes += entry.size();
            self.heap.push(entry);
            return;
        }
        let descends = self.descends;
        let Some(mut last) = self.heap.peek_mut() else { return };
        if (&self.key, number) < (&last.key, last.number) {
            self.bytes = self.bytes - last.key.len() + self.key.len();
            std::mem::swap(&mut last.key, &mut self.key);
            (last.number, last.row) = (number, row);
            // Computed when it is needed: rows in reverse order never need it.
            self.last = None;
        } else if self.last.is_none() {
            self.last = first_value(&last.key, descends);
        }
    }

    /// Adds the rows of another, which was offered later rows.
    pub fn merge(&mut self, other: TopK<'_>) {
        for entry in other.heap.into_sorted_vec() {
            self.key = entry.key;
            self.keep(entry.row, entry.number);
        }
    }

    /// Keys and documents of the rows, in order, decoding no more than the query uses; `None` if they take more than
    /// `room` bytes.
    pub fn documents(self, source: &dyn Source, room: usize) -> Result<Option<Vec<Keyed>>> {
        let used = self.query.used.as_ref().map(UsedFields::fields);
        let (mut all, mut bytes) = (Vec::new(), 0);
        for HeapEntry { key, row, .. } in self.heap.into_sorted_vec() {
            let mut found = None;
            source.fetch_row(row, &mut |row| {
                let document = match used {
                    Some(used) => row.partial_document(used)?,
                    None => row.document()?,
                };
                found = Some(document.to_owned());
                Ok(())
            })?;
            if let Some(found) = found {
                bytes += size(&key, &found);
                all.push((key, found));
            }
            if bytes > room {
                return Ok(None);
            }
        }
        Ok(Some(all))
    }
}

/// The value of a key's first field.
fn first_value(key: &[u8], descending: bool) -> Option<Cutoff> {
    let mut first = key.get(..encoded_length(key, descending)?)?.to_vec();
    if descending {
        invert(&mut first);
    }
    let mut text = Vec::new();
    match decode(&first, &mut text)? {
        Value::Double(number) if number.is_nan() => None,
        Value::Double(number) => Some(Cutoff::Number(number)),
        Value::String(text) => Some(Cutoff::Text(text.into())),
        value => Some(Cutoff::Other(OwnedValue::from_value(value))),
    }
}
