//! The first rows of an order, found without sorting the others and without decoding them.
//!
//! Of each row the first field of the order is looked at where it lies; what comes behind the last of those kept so far is
//! let go at that. A row that is kept is its key and its address: the documents are fetched when it is known which.
//! Rows with equal keys keep the order they are seen in.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::access::{Row, RowId, Source};
use crate::code::Result;
use crate::doc::compare::compare;
use crate::doc::key::{encode_value, invert};
use crate::doc::key_parts::{decode, encoded_length};
use crate::doc::{Fields, Glance, OwnedValue, Value};
use crate::index::ordered::Direction;

use super::exec::Query;
use super::runs::{Keyed, size};
use super::sort::Sort;
use super::used::Used;

/// The first rows so far.
pub(crate) struct Top<'q> {
    query: &'q Query,
    sort: &'q Sort,
    /// The fields of the order.
    fields: Fields,
    /// The first of them, where its value alone may tell that a row is not among the first.
    first: Option<Fields>,
    /// Rows that come behind the last are not asked whether they match: that cannot fail.
    early: bool,
    keep: usize,
    heap: BinaryHeap<Place>,
    /// The first value of the last row kept, once there are as many as wanted.
    last: Option<Last>,
    /// Room for a key.
    key: Vec<u8>,
    /// Bytes that are held, and may be.
    bytes: usize,
    room: usize,
}

/// A row that is kept. The greatest of a heap of these is the last.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    key: Vec<u8>,
    /// How many were seen before.
    number: u64,
    row: RowId,
}

impl Place {
    fn size(&self) -> usize {
        self.key.len() + size_of::<Place>()
    }
}

/// A value to compare with.
enum Last {
    Number(f64),
    Other(OwnedValue),
}

impl Last {
    /// How `value` compares with it, if that is seen at once.
    fn compared(&self, value: Value<'_>) -> Option<Ordering> {
        const EXACT: i64 = 1 << 53;
        match self {
            Last::Number(last) => match value {
                Value::Int32(value) => f64::from(value).partial_cmp(last),
                Value::Int64(value) if (-EXACT..=EXACT).contains(&value) => (value as f64).partial_cmp(last),
                Value::Double(value) => value.partial_cmp(last),
                value => Some(compare(value, Value::Double(*last))),
            },
            Last::Other(last) => Some(compare(value, last.value())),
        }
    }
}

impl<'q> Top<'q> {
    /// For the rows that `query` needs, which may take `room` bytes. `None` if it has no order.
    pub(crate) fn new(query: &'q Query, room: usize) -> Option<Self> {
        let sort = query.sort.as_ref()?;
        let mut keys = sort.keys.iter();
        let fields = Fields::new(keys.clone().map(|part| part.path.first().as_bytes()));
        // With a third field the other two could be parallel arrays, which are an error.
        let first = keys.next().filter(|part| {
            sort.collation.is_simple() && part.path.parts().len() == 1 && sort.keys.len() <= 2
        });
        Some(Top {
            query,
            sort,
            fields,
            first: first.map(|part| Fields::new([part.path.first().as_bytes()])),
            early: query.filter.reads().is_some(),
            keep: query.wanted(),
            heap: BinaryHeap::new(),
            last: None,
            key: Vec::new(),
            bytes: 0,
            room,
        })
    }

    /// True if the order begins with the greatest value.
    fn descends(&self) -> bool {
        self.sort.keys.first().is_some_and(|part| part.direction == Direction::Descending)
    }

    /// Takes a row into account, if it matches; `number` is greater than those of the rows before. False if there is no
    /// more room.
    pub(crate) fn see(&mut self, row: RowId, number: u64, lent: &mut dyn Row) -> Result<bool> {
        let alone = self.sort.keys.len() == 1;
        let (mut asked, mut keyed) = (false, false);
        if !self.early {
            if !self.query.filter.admits(lent)? {
                return Ok(true);
            }
            asked = true;
        }
        if let Some(first) = &self.first
            && (self.last.is_some() || alone && (asked || self.query.filter.is_all()))
        {
            let value = match lent.glance(first)? {
                Glance::Value(value) => Some(value),
                Glance::Missing => Some(Value::Null),
                Glance::Unclear => None,
            };
            if let Some(value) = value {
                let order = self.last.as_ref().and_then(|last| last.compared(value));
                let order = if self.descends() { order.map(Ordering::reverse) } else { order };
                if order == Some(Ordering::Greater) || alone && order == Some(Ordering::Equal) {
                    return Ok(true);
                }
                if alone {
                    self.key.clear();
                    encode_value(value, &mut self.key);
                    if self.descends() {
                        invert(&mut self.key);
                    }
                    keyed = true;
                }
            }
        }
        if !asked && !self.query.filter.admits(lent)? {
            return Ok(true);
        }
        if !keyed {
            self.sort.key_into(lent.part(&self.fields)?, &mut self.key)?;
        }
        self.keep(row, number);
        Ok(self.bytes <= self.room)
    }

    /// Keeps the row of the key that was made last, if it is among the first.
    fn keep(&mut self, row: RowId, number: u64) {
        if self.heap.len() < self.keep {
            let place = Place { key: std::mem::take(&mut self.key), number, row };
            self.bytes += place.size();
            self.heap.push(place);
            return;
        }
        let descends = self.descends();
        let Some(mut last) = self.heap.peek_mut() else { return };
        if (&self.key, number) < (&last.key, last.number) {
            self.bytes = self.bytes - last.key.len() + self.key.len();
            std::mem::swap(&mut last.key, &mut self.key);
            (last.number, last.row) = (number, row);
            // Where every row comes before those seen, nobody asks for it.
            self.last = None;
        } else if self.last.is_none() {
            self.last = first_value(&last.key, descends);
        }
    }

    /// Adds the rows of another that saw those behind.
    pub(crate) fn merge(&mut self, other: Top<'_>) {
        for place in other.heap.into_sorted_vec() {
            self.key = place.key;
            self.keep(place.row, place.number);
        }
    }

    /// The keys and documents of the rows, in order, of which no more is decoded than the query uses; `None` if they take
    /// more than `room` bytes.
    pub(crate) fn documents(self, source: &dyn Source, room: usize) -> Result<Option<Vec<Keyed>>> {
        let used = self.query.used.as_ref().map(Used::fields);
        let (mut all, mut bytes) = (Vec::new(), 0);
        for Place { key, row, .. } in self.heap.into_sorted_vec() {
            let mut found = None;
            source.fetch_row(row, &mut |row| {
                let document = match used {
                    Some(used) => row.part(used)?,
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
fn first_value(key: &[u8], descending: bool) -> Option<Last> {
    let mut first = key.get(..encoded_length(key, descending)?)?.to_vec();
    if descending {
        invert(&mut first);
    }
    let mut text = Vec::new();
    match decode(&first, &mut text)? {
        Value::Double(number) if number.is_nan() => None,
        Value::Double(number) => Some(Last::Number(number)),
        value => Some(Last::Other(OwnedValue::from_value(value))),
    }
}
