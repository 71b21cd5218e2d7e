//! The first rows of a sort order with a limit, found without sorting or decoding the others.
//!
//! A row is rejected by the first field of its sort key, read in place, if that sorts after the last row kept
//! so far. Of a kept row only the sort key and the row id are stored; documents are fetched at the end. Rows
//! with equal keys stay in the order in which they were offered.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::access::{Row, RowId, Source};
use crate::doc::compare::compare;
use crate::doc::key::invert;
use crate::doc::key_decode::{decode, encoded_length};
use crate::doc::{FieldPeek, Fields, OwnedValue, Value};
use crate::error::Result;
use crate::index::ordered::SortOrder;

use super::external_sort::{KeyedDocument, memory_size};
use crate::query::Query;
use crate::query::Sort;
use crate::query::UsedFields;

/// The first rows, by the sort order, of those offered so far.
pub struct TopK<'q> {
    query: &'q Query,
    sort: &'q Sort,
    /// The fields of the sort key.
    fields: Fields,
    /// The first of these fields, if its value alone can reject a row.
    first: Option<Fields>,
    /// The filter cannot fail, so it need not be evaluated for rows beyond the cutoff.
    cutoff_first: bool,
    /// True if the first field is sorted in descending order.
    descending: bool,
    keep: usize,
    heap: BinaryHeap<HeapEntry>,
    /// The first field of the last kept row, once there are as many rows as needed.
    last: Option<Cutoff>,
    /// A buffer for a key.
    key: Vec<u8>,
    /// Bytes of memory used, and their limit.
    bytes: usize,
    memory_limit: usize,
}

/// A row that is kept; the greatest entry of the heap is the last row.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct HeapEntry {
    key: Vec<u8>,
    /// Its position among the offered rows.
    number: u64,
    row: RowId,
}

impl HeapEntry {
    fn memory_size(&self) -> usize {
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
    /// Compares `value` with it; `None` if that would be expensive.
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
    /// Collects the rows that `query` needs, in at most `memory_limit` bytes. `None` if the query has no sort order.
    pub fn new(query: &'q Query, memory_limit: usize) -> Option<Self> {
        let sort = query.sort.as_ref()?;
        let mut keys = sort.keys.iter();
        let fields = Fields::new(keys.clone().map(|part| part.path.first().as_bytes()));
        // With a third field the other two could be parallel arrays, which must be reported as an error.
        let first = keys.next().filter(|part| {
            sort.collation.is_simple() && part.path.parts().len() == 1 && sort.keys.len() <= 2
        });
        Some(TopK {
            query,
            sort,
            fields,
            first: first.map(|part| Fields::new([part.path.first().as_bytes()])),
            cutoff_first: query.filter.reads().is_some(),
            descending: sort.keys.first().is_some_and(|part| part.direction == SortOrder::Descending),
            keep: query.wanted(),
            heap: BinaryHeap::new(),
            last: None,
            key: Vec::new(),
            bytes: 0,
            memory_limit,
        })
    }

    /// Keeps a row if it matches and is among the first; `number` must increase from row to row. False if the
    /// memory limit is reached.
    #[inline]
    pub fn offer(&mut self, row: RowId, number: u64, row_data: &mut dyn Row) -> Result<bool> {
        if self.cutoff_first && self.is_beyond_cutoff(row_data)? || !self.query.filter.admits(row_data)? {
            return Ok(true);
        }
        if !self.cutoff_first && self.is_beyond_cutoff(row_data)? {
            return Ok(true);
        }
        if !self.peeked_key(row_data)? {
            self.sort.key_into(row_data.partial_document(&self.fields)?, &mut self.key)?;
        }
        self.keep(row, number);
        Ok(self.bytes <= self.memory_limit)
    }

    /// True if the row's first field sorts after all rows kept so far.
    #[inline]
    fn is_beyond_cutoff(&self, row_data: &mut dyn Row) -> Result<bool> {
        let (Some(first), Some(last)) = (&self.first, &self.last) else { return Ok(false) };
        let order = match row_data.peek(first)? {
            FieldPeek::Value(value) => last.compared(value),
            FieldPeek::Missing => last.compared(Value::Null),
            FieldPeek::Unknown => None,
        };
        Ok(match order {
            Some(Ordering::Greater) => !self.descending,
            Some(Ordering::Less) => self.descending,
            // Rows with equal keys stay in their order.
            Some(Ordering::Equal) => self.sort.keys.len() == 1,
            None => false,
        })
    }

    /// Encodes the sort key of a row without decoding the row, if possible.
    fn peeked_key(&mut self, row_data: &mut dyn Row) -> Result<bool> {
        let (Some(first), [part]) = (&self.first, self.sort.keys.as_slice()) else { return Ok(false) };
        let value = match row_data.peek(first)? {
            FieldPeek::Value(value) => value,
            FieldPeek::Missing => Value::Null,
            FieldPeek::Unknown => return Ok(false),
        };
        self.key.clear();
        part.encode(value, &mut self.key);
        Ok(true)
    }

    /// Keeps the row whose key is in `self.key`, if it is among the first.
    fn keep(&mut self, row: RowId, number: u64) {
        if self.heap.len() < self.keep {
            let entry = HeapEntry { key: std::mem::take(&mut self.key), number, row };
            self.bytes += entry.memory_size();
            self.heap.push(entry);
            return;
        }
        let descending = self.descending;
        let Some(mut last) = self.heap.peek_mut() else { return };
        if (&self.key, number) < (&last.key, last.number) {
            self.bytes = self.bytes - last.key.len() + self.key.len();
            std::mem::swap(&mut last.key, &mut self.key);
            (last.number, last.row) = (number, row);
            // Computed when it is needed: if rows are offered in reverse order, never.
            self.last = None;
        } else if self.last.is_none() {
            self.last = first_value(&last.key, descending);
        }
    }

    /// Adds the rows of another collector, which was offered later rows.
    pub fn merge(&mut self, other: TopK<'_>) {
        for entry in other.heap.into_sorted_vec() {
            self.key = entry.key;
            self.keep(entry.row, entry.number);
        }
    }

    /// Sort keys and documents of the rows, sorted; only the fields that the query uses are decoded. `None` if they take
    /// more than `memory_limit` bytes.
    pub fn documents(self, source: &dyn Source, memory_limit: usize) -> Result<Option<Vec<KeyedDocument>>> {
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
                bytes += memory_size(&key, &found);
                all.push((key, found));
            }
            if bytes > memory_limit {
                return Ok(None);
            }
        }
        Ok(Some(all))
    }
}

/// The value of the first field of a sort key.
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
