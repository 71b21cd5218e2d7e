//! Leaves of the tree, for reading: a sorted part, and recent inserts.
//!
//! The sorted part is a packed leaf ([`treedb_formats::packed`]) where keys are in byte order, all of one length and without
//! values; a grouped leaf ([`treedb_formats::grouped`]) where many entries differ in their rows only, whatever their order;
//! or a node ([`treedb_formats::node`]), which is in byte order if the index is and none of its keys is compressed. It is
//! written as a whole, in the form that [`super::leaf_entries`] chooses. An insert goes to the append area
//! ([`treedb_formats::append_area`]) at the end of the page's hole, so that it changes, and logs, little more than its
//! own bytes. Readers merge the two.
//!
//! | where in the payload | what |
//! |---|---|
//! | 0 | a packed or a grouped leaf, or the header and arrays of a node |
//! | hole | unused |
//! | end of the hole | the append area, which grows down into the hole |
//! | after the area | the cells of a node |
//!
//! A mark on an entry says that its row is dead to every transaction: scans skip it, and it is removed when the leaf
//! is full.

use std::cmp::Ordering;

use pgrx::pg_sys;
use treedb_formats::append_area::{AppendArea, Appended, Beginning, mark_appended};
use treedb_formats::grouped::{GroupedLeaf, is_grouped, mark_grouped};
use treedb_formats::node::{Keys, Leaf, LeafMut, Value, common};
use treedb_formats::packed::{PackedLeaf, PackedNumbers, big_endian, is_packed, mark_packed};
use treedb_query::access::RowId;

use super::boundary::Boundary;
use super::schema::{ADDRESS, Schema, address, no_row, row_id, row_of, row_of_address};
use crate::pages::page::{Damage, View, ViewMut, flag};

/// Where an entry of a leaf is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Number in the sorted part.
    Sorted(usize),
    /// Offset in the append area.
    Appended(usize),
}

#[derive(Clone, Copy)]
enum Sorted<'a> {
    Node(Leaf<'a>),
    Packed(PackedLeaf<'a>),
    Grouped(GroupedLeaf<'a>),
}

/// A leaf for reading.
#[derive(Clone, Copy)]
pub(super) struct LeafView<'a> {
    sorted: Sorted<'a>,
    area: AppendArea<'a>,
    /// Bytes of the hole.
    free: usize,
}

/// The entries of a leaf that lie between two boundaries, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    /// Entries of the sorted part, if no appended entry is between them.
    from: usize,
    to: usize,
    /// Otherwise each entry: a number in the sorted part, or an offset in the append area with [`APPENDED`].
    merged: Vec<u16>,
}

/// Tells an offset in the append area from a number in the sorted part; both are below the size of a page.
const APPENDED: u16 = 0x8000;

impl Selection {
    /// Whether the leaf has entries before these in its sorted part.
    pub(super) fn begins_inside(&self) -> bool {
        self.from > 0
    }

    /// How many entries there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        if self.merged.is_empty() { self.to - self.from } else { self.merged.len() }
    }

    /// Entry `i`.
    #[inline]
    pub(super) fn place(&self, i: usize) -> Option<Place> {
        match self.merged.get(i) {
            Some(place) if place & APPENDED != 0 => Some(Place::Appended(usize::from(place & !APPENDED))),
            Some(place) => Some(Place::Sorted(usize::from(*place))),
            None => (self.merged.is_empty() && i < self.to - self.from).then(|| Place::Sorted(self.from + i)),
        }
    }
}

impl<'a> LeafView<'a> {
    /// Opens a leaf, which must be in order `keys`.
    #[inline]
    pub(super) fn open(page: &View<'a>, keys: Keys) -> Result<LeafView<'a>, Damage> {
        let (payload, hole) = (page.payload(), page.hole()?);
        let (sorted, used) = if is_packed(payload) {
            let packed = PackedLeaf::open(payload)?;
            (Sorted::Packed(packed), packed.end()..payload.len())
        } else if is_grouped(payload) {
            let grouped = GroupedLeaf::open(payload)?;
            (Sorted::Grouped(grouped), grouped.end()..payload.len())
        } else {
            let node = Leaf::open(payload)?;
            (Sorted::Node(node), node.gap()?)
        };
        let order = match &sorted {
            Sorted::Node(node) => node.keys(),
            Sorted::Packed(_) => Keys::Bytewise,
            Sorted::Grouped(_) => keys,
        };
        // Where keys are in byte order, nodes with compressed ones are not.
        if order != keys && keys == Keys::Custom {
            return Err(Damage::new("a leaf in the index's order", "one in another order"));
        }
        if hole.start != used.start || hole.end > used.end {
            return Err(Damage::new(
                &format!("a hole from byte {} to {} or less of the payload", used.start, used.end),
                format!("{} to {}", hole.start, hole.end),
            ));
        }
        let area = AppendArea::new(payload.get(hole.end..used.end).unwrap_or(&[]));
        Ok(LeafView { sorted, area, free: hole.len() })
    }

    /// Number of entries of the sorted part.
    #[inline]
    pub(super) fn sorted_count(&self) -> usize {
        match &self.sorted {
            Sorted::Node(node) => node.count(),
            Sorted::Packed(packed) => packed.count(),
            Sorted::Grouped(grouped) => grouped.count(),
        }
    }

    /// Whether the sorted part is a grouped leaf.
    pub(super) fn is_grouped(&self) -> bool {
        matches!(self.sorted, Sorted::Grouped(_))
    }

    /// Whether the leaf has no entries.
    pub(super) fn is_empty(&self) -> bool {
        self.sorted_count() == 0 && self.area.is_empty()
    }

    /// Bytes that an append may take.
    #[inline]
    pub(super) fn free(&self) -> usize {
        self.free
    }

    /// Bytes of the append area.
    #[inline]
    pub(super) fn area_len(&self) -> usize {
        self.area.len()
    }

    /// The recent inserts, the last one first.
    pub(super) fn appended(&self) -> impl Iterator<Item = Result<Appended<'a>, Damage>> {
        self.area.entries().map(|entry| entry.map_err(Damage::from))
    }

    /// How many entries of the sorted part lie before a boundary.
    pub(super) fn sorted_before(&self, schema: &Schema, boundary: &Boundary) -> Result<usize, Damage> {
        let found = match (boundary, &self.sorted) {
            (Boundary::Start, _) => return Ok(0),
            (Boundary::End, _) => return Ok(self.sorted_count()),
            (Boundary::Bytes(bytes), Sorted::Packed(packed)) => packed.search(bytes),
            (Boundary::Bytes(bytes), Sorted::Node(node)) if node.keys() == Keys::Bytewise => {
                node.search(bytes)?
            }
            (_, Sorted::Node(node)) => {
                let mut buffer = Vec::new();
                node.search_by(&mut buffer, |key| schema.order(key, boundary))?
            }
            (_, Sorted::Grouped(grouped)) => {
                let mut buffer = Vec::new();
                grouped.search_by(&mut buffer, |key| schema.order(key, boundary))?
            }
            // A packed leaf is in byte order, and so are all boundaries of its index.
            (_, Sorted::Packed(_)) => return Err(Damage::new("a leaf in the index's order", "a packed one")),
        };
        Ok(found.unwrap_or_else(|position| position))
    }

    /// How many entries of the sorted part lie before a boundary, which is not before entry `from`.
    fn sorted_up_to(&self, schema: &Schema, boundary: &Boundary, from: usize) -> Result<usize, Damage> {
        // Most ranges are of one key: the boundary is near.
        const NEAR: usize = 3;
        if let Boundary::Bytes(bytes) = boundary {
            for i in from..(from + NEAR).min(self.sorted_count()) {
                let order = match &self.sorted {
                    Sorted::Packed(packed) => packed.order(i, bytes),
                    Sorted::Node(node) if node.keys() == Keys::Bytewise => node.order(i, bytes)?,
                    Sorted::Node(_) | Sorted::Grouped(_) => break,
                };
                if order != Ordering::Less {
                    return Ok(i);
                }
            }
        }
        Ok(self.sorted_before(schema, boundary)?.max(from))
    }

    /// The entries between two boundaries.
    pub(super) fn select(
        &self,
        schema: &Schema,
        low: &Boundary,
        high: &Boundary,
    ) -> Result<Selection, Damage> {
        let from = self.sorted_before(schema, low)?;
        let to = self.sorted_up_to(schema, high, from)?;
        let mut recent: Vec<Appended<'a>> = Vec::new();
        // What is between two boundaries in the order of bytes begins as both do: this is faster to see.
        let shared = match (low, high) {
            (Boundary::Bytes(low), Boundary::Bytes(high)) => low.get(..common(low, high)).unwrap_or(&[]),
            _ => &[],
        };
        let shared = Beginning::new(shared);
        for entry in self.area.entries() {
            let entry = entry?;
            if !shared.is_of(entry.key) && !schema.is_compressed(entry.key) {
                continue;
            }
            if schema.order(entry.key, low) != Ordering::Less
                && schema.order(entry.key, high) == Ordering::Less
            {
                recent.push(entry);
            }
        }
        if recent.is_empty() {
            return Ok(Selection { from, to, merged: Vec::new() });
        }
        recent.sort_unstable_by(|a, b| schema.compare(a.key, b.key));
        let mut merged = Vec::with_capacity(to - from + recent.len());
        let mut next = from;
        for entry in recent {
            let before = self.sorted_before(schema, &schema.before_key(entry.key))?.min(to);
            merged.extend((next..before).map(|i| i as u16));
            next = next.max(before);
            merged.push(entry.at as u16 | APPENDED);
        }
        merged.extend((next..to).map(|i| i as u16));
        Ok(Selection { from, to, merged })
    }

    /// Whether there are entries that are not marked whose keys begin with `columns`, in byte order.
    pub(super) fn has_any(&self, schema: &Schema, columns: &[u8]) -> Result<bool, Damage> {
        if self.area.has_prefix(columns)? {
            return Ok(true);
        }
        let mut key = Vec::new();
        let from = self.sorted_before(schema, &Boundary::Bytes(columns.to_vec()))?;
        for place in (from..self.sorted_count()).map(Place::Sorted) {
            self.key_into(place, &mut key)?;
            if !key.starts_with(columns) {
                break;
            }
            if !self.is_marked(place)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// All entries.
    pub(super) fn all(&self, schema: &Schema) -> Result<Selection, Damage> {
        self.select(schema, &Boundary::Start, &Boundary::End)
    }

    /// Writes the key of an entry to `out`, replacing what is there.
    #[inline]
    pub(super) fn key_into(&self, place: Place, out: &mut Vec<u8>) -> Result<(), Damage> {
        out.clear();
        self.append_key(place, out)
    }

    /// Appends the key of an entry to `out`.
    #[inline]
    pub(super) fn append_key(&self, place: Place, out: &mut Vec<u8>) -> Result<(), Damage> {
        match (place, &self.sorted) {
            (Place::Sorted(i), Sorted::Packed(packed)) => packed.append_key(i, out)?,
            (Place::Sorted(i), Sorted::Node(node)) => node.append_key(i, out)?,
            (Place::Sorted(i), Sorted::Grouped(grouped)) => grouped.append_key(i, out)?,
            (Place::Appended(at), _) => out.extend_from_slice(self.area.entry(at)?.key),
        }
        Ok(())
    }

    /// Writes the key of an entry over `out`, which holds the key of the entry at `previous`, if that is one.
    #[inline]
    pub(super) fn key_after(
        &self,
        previous: Option<Place>,
        place: Place,
        out: &mut Vec<u8>,
    ) -> Result<(), Damage> {
        match (previous, place, &self.sorted) {
            (Some(Place::Sorted(_)), Place::Sorted(i), Sorted::Packed(packed)) => {
                Ok(packed.replace_key(i, out)?)
            }
            (Some(Place::Sorted(previous)), Place::Sorted(i), Sorted::Grouped(grouped)) => {
                Ok(grouped.replace_key(previous, i, out)?)
            }
            _ => self.key_into(place, out),
        }
    }

    /// The value of an entry.
    #[inline]
    pub(super) fn value(&self, place: Place) -> Result<&'a [u8], Damage> {
        Ok(match (place, &self.sorted) {
            (Place::Sorted(_), Sorted::Packed(_)) => &[],
            (Place::Sorted(i), Sorted::Node(node)) => node.value(i)?.bytes,
            (Place::Sorted(i), Sorted::Grouped(grouped)) => grouped.value(i)?,
            (Place::Appended(at), _) => self.area.entry(at)?.value,
        })
    }

    /// The row of an entry; `buffer` may be used for its key.
    #[inline]
    pub(super) fn row(&self, place: Place, buffer: &mut Vec<u8>) -> Result<pg_sys::ItemPointerData, Damage> {
        let address = match (place, &self.sorted) {
            (Place::Sorted(i), Sorted::Packed(packed)) => packed.key_tail::<ADDRESS>(i),
            (Place::Sorted(i), Sorted::Grouped(grouped)) => grouped.key_tail::<ADDRESS>(i),
            _ => None,
        };
        if let Some(address) = address {
            return row_of_address(address);
        }
        self.key_into(place, buffer)?;
        row_of(buffer)
    }

    /// The bytes `at..at + len`, 1 to 8, of the keys of a selection's entries as big-endian numbers, 0 where the entry is
    /// damaged; `None` if keys of the leaf have different lengths, or are shorter.
    #[inline]
    pub(super) fn numbers<'l>(
        &'l self,
        entries: &'l Selection,
        at: usize,
        len: usize,
    ) -> Option<impl Fn(usize) -> u64 + use<'l, 'a>> {
        let Sorted::Packed(packed) = &self.sorted else { return None };
        let numbers = packed.numbers(at, len)?;
        Some(self.numbers_of(entries, numbers, move |key| key.get(at..at + len)))
    }

    /// Shows the addresses of the rows of the sorted part to `each` as numbers, in order; false, and nothing is shown, if that
    /// is not faster than one by one.
    #[inline]
    pub(super) fn sorted_addresses(&self, mut each: impl FnMut(u64)) -> Result<bool, Damage> {
        match &self.sorted {
            Sorted::Node(_) => return Ok(false),
            Sorted::Grouped(grouped) => grouped.each_end(0..grouped.count(), ADDRESS, each)?,
            Sorted::Packed(packed) => {
                let at = packed.key_len().checked_sub(ADDRESS);
                let Some(numbers) = at.and_then(|at| packed.numbers(at, ADDRESS)) else { return Ok(false) };
                numbers.iter().for_each(&mut each);
            }
        }
        Ok(true)
    }

    /// The addresses of the rows of a selection's entries as numbers, like [`LeafView::numbers`].
    #[inline]
    pub(super) fn addresses<'l>(
        &'l self,
        entries: &'l Selection,
    ) -> Option<impl Fn(usize) -> u64 + use<'l, 'a>> {
        let Sorted::Packed(packed) = &self.sorted else { return None };
        let numbers = packed.numbers(packed.key_len().checked_sub(ADDRESS)?, ADDRESS)?;
        Some(self.numbers_of(entries, numbers, |key| Some(address(key))))
    }

    /// Numbers of the entries of a selection: `sorted` are those of the sorted part, `part` is what they are of a key.
    #[inline]
    fn numbers_of<'l>(
        &'l self,
        entries: &'l Selection,
        sorted: PackedNumbers<'a>,
        part: impl Fn(&'a [u8]) -> Option<&'a [u8]>,
    ) -> impl Fn(usize) -> u64 {
        move |i| match entries.merged.get(i) {
            None => sorted.get(entries.from + i),
            Some(place) if place & APPENDED == 0 => sorted.get(usize::from(*place)),
            Some(place) => {
                let entry = self.area.entry(usize::from(place & !APPENDED)).ok();
                entry.and_then(|entry| part(entry.key)).map_or(0, big_endian)
            }
        }
    }

    /// Appends the rows of the entries of a selection to `rows`; of entries that are not marked if `unmarked`.
    pub(super) fn rows(
        &self,
        entries: &Selection,
        unmarked: bool,
        rows: &mut Vec<RowId>,
    ) -> Result<(), Damage> {
        if let Some(addresses) = self.addresses(entries).filter(|_| !unmarked) {
            let from = rows.len();
            rows.extend((0..entries.len()).map(|i| RowId(addresses(i))));
            let damaged = rows.iter().skip(from).any(|row| row.0 as u16 == 0);
            return if damaged { Err(no_row()) } else { Ok(()) };
        }
        if let (Sorted::Grouped(grouped), false, true) = (&self.sorted, unmarked, entries.merged.is_empty()) {
            let mut damaged = false;
            grouped.each_end(entries.from..entries.to, ADDRESS, |address| {
                damaged |= address as u16 == 0;
                rows.push(RowId(address));
            })?;
            return if damaged { Err(no_row()) } else { Ok(()) };
        }
        let mut key = Vec::new();
        for place in (0..entries.len()).filter_map(|i| entries.place(i)) {
            if !(unmarked && self.is_marked(place)?) {
                rows.push(row_id(self.row(place, &mut key)?));
            }
        }
        Ok(())
    }

    /// Whether an entry is marked.
    #[inline]
    pub(super) fn is_marked(&self, place: Place) -> Result<bool, Damage> {
        Ok(match (place, &self.sorted) {
            (Place::Sorted(i), Sorted::Packed(packed)) => packed.is_marked(i),
            (Place::Sorted(i), Sorted::Node(node)) => node.value(i)?.pointer,
            (Place::Sorted(i), Sorted::Grouped(grouped)) => grouped.is_marked(i),
            (Place::Appended(at), _) => self.area.entry(at)?.marked,
        })
    }

    /// Checks the sorted part and the append area.
    pub(super) fn validate(&self) -> Result<(), Damage> {
        match &self.sorted {
            Sorted::Node(node) => node.validate()?,
            Sorted::Packed(packed) => packed.validate()?,
            Sorted::Grouped(grouped) => grouped.validate()?,
        }
        for entry in self.area.entries() {
            entry?;
        }
        Ok(())
    }
}

/// Marks the entry at `place` of a leaf.
pub(super) fn mark(page: &mut ViewMut<'_>, place: Place) -> Result<(), Damage> {
    page.set_flags(flag::MARKED, 0);
    let area = page.view()?.hole()?.end;
    let payload = page.payload();
    match place {
        Place::Appended(at) => mark_appended(payload.get_mut(area..).unwrap_or(&mut []), at)?,
        Place::Sorted(i) if is_packed(payload) => mark_packed(payload, i)?,
        Place::Sorted(i) if is_grouped(payload) => mark_grouped(payload, i)?,
        Place::Sorted(i) => {
            let value = Leaf::open(payload)?.value(i)?.bytes.to_vec();
            // A value of the same length is replaced in its place.
            LeafMut::open(payload)?.replace(i, Value::pointer(&value))?;
        }
    }
    Ok(())
}
