//! The entries of a leaf as a list: how a leaf is written anew, by a merge of its append area, a split, a vacuum or a
//! build.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

use treedb_formats::append_area::{appended_header, mark_appended};
use treedb_formats::grouped::{Grouping, is_grouped, write_grouped};
use treedb_formats::node::{Keys, LeafMut, NODE_HEADER, Value, common};
use treedb_formats::packed::{packed_size, write_packed};

use super::leaf::{LeafView, Place};
use super::meta::fact;
use super::schema::{ADDRESS, Schema};
use crate::pages::page::{Damage, ROOM, ViewMut, flag};

/// Bytes that a node keeps of an entry beside the end of its key and its value: a head, a slot and a cell's header.
const NODE_ENTRY: usize = 8 + 2 + 4;
/// Bytes of a key that its head holds.
const HEAD: usize = 8;
/// What may be the tail of keys in a grouped leaf: the low half of the block and the offset, which are all that differs in the
/// addresses of the first 65,536 blocks, or the whole address. Where the rows of one value are far apart in a large table, the
/// former would make a group of each.
const TAILS: [usize; 2] = [ADDRESS - 2, ADDRESS];

/// The form of a leaf's sorted part.
#[derive(Clone, Copy)]
enum Form {
    /// A packed leaf with a prefix of this length.
    Packed(usize),
    /// A grouped leaf with tails of this length.
    Grouped(usize),
    /// A node with a prefix of this length.
    Node(usize),
}

/// The size of a grouped leaf as long as entries are added, with either tail.
#[derive(Clone, Copy)]
pub(super) struct Groupings([Grouping; TAILS.len()]);

impl Default for Groupings {
    fn default() -> Self {
        Groupings(TAILS.map(Grouping::new))
    }
}

impl Groupings {
    /// Adds an entry (key and value) after `last`.
    pub(super) fn add(&mut self, last: Option<(&[u8], &[u8])>, entry: (&[u8], &[u8])) {
        let [short, whole] = &mut self.0;
        // What differs without the whole address does with a part of it.
        let last = last.filter(|last| whole.are_one_group(*last, entry));
        whole.add_known(last.is_some(), entry);
        short.add(last, entry);
    }

    /// The tail that makes the leaf smallest, and its size.
    pub(super) fn best(&self) -> (usize, usize) {
        let [short, whole] = &self.0;
        let best = if whole.size() < short.size() { whole } else { short };
        (best.tail(), best.size())
    }
}

/// Whether a leaf is worth to be grouped that takes `other` bytes in another form, in which it is searched faster.
pub(super) fn is_worth_grouping(grouped: usize, other: usize) -> bool {
    4 * grouped < 3 * other
}

/// The facts that a leaf is evidence of.
pub(super) fn facts_of_leaf(page: &mut ViewMut<'_>) -> u32 {
    if is_grouped(page.payload()) { fact::GROUPED } else { 0 }
}

/// An entry in the list.
#[derive(Clone, Copy)]
struct Item {
    /// Where key and value are, one after the other, in the list's bytes.
    at: u32,
    key: u16,
    value: u16,
    marked: bool,
    compressed: bool,
}

/// Entries in order.
pub(super) struct LeafEntries<'s> {
    schema: &'s Schema,
    bytes: Vec<u8>,
    items: Vec<Item>,
    /// They are those of a grouped leaf. Then they are written as one unless another form is smaller, so that what is left of
    /// them fits where they were.
    grouped: bool,
}

impl<'s> LeafEntries<'s> {
    /// No entries yet. There is room for those of a leaf without growing.
    pub(super) fn new(schema: &'s Schema) -> Self {
        let (bytes, items) = (Vec::with_capacity(2 * ROOM), Vec::with_capacity(ROOM / 16));
        LeafEntries { schema, bytes, items, grouped: false }
    }

    /// All entries of a leaf.
    pub(super) fn of(leaf: &LeafView<'_>, schema: &'s Schema) -> Result<Self, Damage> {
        let selection = leaf.all(schema)?;
        let places = (0..selection.len()).map_while(|i| selection.place(i));
        LeafEntries::at(places, leaf, schema)
    }

    /// The entries of a leaf's sorted part.
    pub(super) fn sorted_of(leaf: &LeafView<'_>, schema: &'s Schema) -> Result<Self, Damage> {
        LeafEntries::at((0..leaf.sorted_count()).map(Place::Sorted), leaf, schema)
    }

    /// The entries of a leaf at these places.
    fn at(
        places: impl Iterator<Item = Place>,
        leaf: &LeafView<'_>,
        schema: &'s Schema,
    ) -> Result<Self, Damage> {
        let mut entries = LeafEntries::new(schema);
        entries.grouped = leaf.is_grouped();
        let (mut key, mut previous) = (Vec::new(), None);
        for place in places {
            leaf.key_after(previous, place, &mut key)?;
            previous = Some(place);
            entries.push_marked(&key, leaf.value(place)?, leaf.is_marked(place)?);
        }
        Ok(entries)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Takes the entries from `at` on away, as a list of their own.
    pub(super) fn split_off(&mut self, at: usize) -> LeafEntries<'s> {
        let mut rest = LeafEntries::new(self.schema);
        for item in self.items.drain(at.min(self.items.len())..).collect::<Vec<_>>() {
            rest.push_marked(self.key_of(&item), self.value_of(&item), item.marked);
        }
        rest
    }

    /// Adds an entry at the end.
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.push_marked(key, value, false);
    }

    fn push_marked(&mut self, key: &[u8], value: &[u8], marked: bool) {
        let item = self.store(key, value, marked);
        self.items.push(item);
    }

    fn store(&mut self, key: &[u8], value: &[u8], marked: bool) -> Item {
        let at = self.bytes.len() as u32;
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        let compressed = self.schema.is_compressed(key);
        Item { at, key: key.len() as u16, value: value.len() as u16, marked, compressed }
    }

    /// Inserts an entry where it belongs; nothing, if there is one with this key. Returns its place.
    pub(super) fn insert(&mut self, key: &[u8], value: &[u8]) -> usize {
        let place = self.place_of(key);
        if self.key(place) != key || place == self.len() {
            let item = self.store(key, value, false);
            self.items.insert(place, item);
        }
        place
    }

    /// Keeps the entries for which `keep` is true.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(usize) -> bool) {
        let mut i = 0;
        self.items.retain(|_| {
            i += 1;
            keep(i - 1)
        });
    }

    /// How many entries lie before this key.
    pub(super) fn place_of(&self, key: &[u8]) -> usize {
        self.items.partition_point(|item| self.schema.compare(self.key_of(item), key) == Ordering::Less)
    }

    fn key_of(&self, item: &Item) -> &[u8] {
        let at = item.at as usize;
        self.bytes.get(at..at + usize::from(item.key)).unwrap_or(&[])
    }

    fn value_of(&self, item: &Item) -> &[u8] {
        let at = item.at as usize + usize::from(item.key);
        self.bytes.get(at..at + usize::from(item.value)).unwrap_or(&[])
    }

    /// Key `i`; empty if there is none.
    pub(super) fn key(&self, i: usize) -> &[u8] {
        self.items.get(i).map_or(&[], |item| self.key_of(item))
    }

    /// Value `i`; empty if there is none.
    pub(super) fn value(&self, i: usize) -> &[u8] {
        self.items.get(i).map_or(&[], |item| self.value_of(item))
    }

    /// Key and value of the last entry; empty if there is none.
    pub(super) fn last(&self) -> (&[u8], &[u8]) {
        self.items.last().map_or((&[], &[]), |item| (self.key_of(item), self.value_of(item)))
    }

    /// The facts that a leaf of the entries `range` is evidence of.
    pub(super) fn facts(&self, range: Range<usize>) -> u32 {
        match self.form(self.items.get(range).unwrap_or(&[])).0 {
            Form::Grouped(_) => fact::GROUPED,
            Form::Packed(_) | Form::Node(_) => 0,
        }
    }

    /// Bytes of key and value of entry `i`.
    pub(super) fn entry_len(&self, i: usize) -> usize {
        self.items.get(i).map_or(0, |item| usize::from(item.key) + usize::from(item.value))
    }

    /// Whether entry `i` is marked.
    pub(super) fn is_marked(&self, i: usize) -> bool {
        self.items.get(i).is_some_and(|item| item.marked)
    }

    /// The bound that parts entries below `i` from those at and above: above the former, not above the latter. It is
    /// compressed only if it is shorter then.
    pub(super) fn separator(&self, i: usize) -> Cow<'_, [u8]> {
        let (left, right) = (self.key(i.wrapping_sub(1)), self.key(i));
        match self.schema.keys {
            Keys::Bytewise if self.schema.is_compressed(left) || self.schema.is_compressed(right) => {
                let (left, whole) = (self.schema.expanded(left), self.schema.expanded(right));
                match whole.get(..common(&left, &whole) + 1) {
                    Some(short) if short.len() <= right.len() => short.to_vec().into(),
                    _ => right.into(),
                }
            }
            Keys::Bytewise => right.get(..common(left, right) + 1).unwrap_or(right).into(),
            Keys::Custom => right.into(),
        }
    }

    /// How the keys of a part are searched.
    fn order(&self, part: &[Item]) -> Keys {
        if part.iter().any(|item| item.compressed) { Keys::Custom } else { self.schema.keys }
    }

    /// The bytes that all keys of a part begin with, if their order allows to leave them out.
    fn shared(&self, part: &[Item]) -> usize {
        match (self.order(part), part) {
            (Keys::Bytewise, [first, .., last]) => common(self.key_of(first), self.key_of(last)),
            _ => 0,
        }
    }

    /// The length of the prefix if a part can be a packed leaf.
    fn packed(&self, part: &[Item]) -> Option<usize> {
        let first = part.first()?;
        let alike = part.iter().all(|item| item.key == first.key && item.value == 0);
        let alike = alike && self.order(part) == Keys::Bytewise;
        alike.then(|| self.shared(part))
    }

    /// Bytes of a node of a part with this prefix.
    fn node_size(part: &[Item], prefix: usize) -> usize {
        let entries = part.iter().map(|item| {
            NODE_ENTRY + (usize::from(item.key).saturating_sub(prefix + HEAD)) + usize::from(item.value)
        });
        NODE_HEADER + prefix.next_multiple_of(8) + entries.sum::<usize>()
    }

    /// An upper limit of the size of a node of `count` entries, with `bytes` of keys and values, of which no key is
    /// shorter than `shortest`.
    pub(super) fn node_size_limit(count: usize, bytes: usize, prefix: usize, shortest: usize) -> usize {
        let held = prefix + shortest.saturating_sub(prefix).min(HEAD);
        NODE_HEADER + prefix.next_multiple_of(8) + count * NODE_ENTRY + bytes - count * held
    }

    /// A lower limit of the size of a node of `count` entries, with `bytes` of keys and values, whatever prefix it has of
    /// these bytes that all keys begin with.
    pub(super) fn node_size_least(count: usize, bytes: usize, shared: usize) -> usize {
        NODE_HEADER + count * NODE_ENTRY + bytes.saturating_sub(count * (shared + HEAD))
    }

    /// The prefix that makes a node smallest, and its size.
    fn best_node(&self, part: &[Item]) -> (usize, usize) {
        let shared = self.shared(part);
        let (with, without) = (Self::node_size(part, shared), Self::node_size(part, 0));
        if without <= with { (0, without) } else { (shared, with) }
    }

    /// The form of a leaf of a part, and its size.
    fn form(&self, part: &[Item]) -> (Form, usize) {
        let (form, size) = match self.packed(part) {
            Some(prefix) => {
                let key = part.first().map_or(0, |item| usize::from(item.key));
                (Form::Packed(prefix), packed_size(part.len(), prefix, key - prefix))
            }
            None => {
                let (prefix, size) = self.best_node(part);
                (Form::Node(prefix), size)
            }
        };
        // Of a packed leaf, values of fixed length are read many at a time. But what is left of a grouped leaf stays one: as a packed
        // leaf it may be too long.
        let reads_many =
            !self.grouped && matches!(form, Form::Packed(_)) && self.schema.fixed_columns().is_some();
        if part.is_empty() || reads_many {
            return (form, size);
        }
        let (mut groupings, mut last) = (Groupings::default(), None);
        for item in part {
            let entry = (self.key_of(item), self.value_of(item));
            groupings.add(last, entry);
            last = Some(entry);
        }
        let (tail, grouped) = groupings.best();
        match self.grouped && grouped < size || is_worth_grouping(grouped, size) {
            true => (Form::Grouped(tail), grouped),
            false => (form, size),
        }
    }

    /// Bytes that a leaf of the entries `range` takes.
    pub(super) fn size(&self, range: Range<usize>) -> usize {
        self.form(self.items.get(range).unwrap_or(&[])).1
    }

    /// Writes the entries `range` as the sorted part of a leaf without appended entries. They must fit.
    pub(super) fn write(&self, range: Range<usize>, page: &mut ViewMut<'_>) -> Result<(), Damage> {
        let part = self.items.get(range).unwrap_or(&[]);
        let marked = part.iter().any(|item| item.marked);
        page.set_flags(if marked { flag::MARKED } else { 0 }, flag::MARKED);
        let payload = page.payload();
        payload.fill(0);
        let too_long =
            || Damage::new("entries that fit the page", format!("{} entries that do not", part.len()));
        let hole = match self.form(part).0 {
            Form::Packed(prefix) => {
                let keys = part.iter().map(|item| (self.key_of(item), item.marked));
                write_packed(payload, prefix, keys).ok_or_else(too_long)?..payload.len()
            }
            Form::Grouped(tail) => {
                let entries = part.iter().map(|item| (self.key_of(item), self.value_of(item), item.marked));
                write_grouped(payload, tail, entries).ok_or_else(too_long)?..payload.len()
            }
            Form::Node(prefix) => {
                let shared = part.first().and_then(|first| self.key_of(first).get(..prefix)).unwrap_or(&[]);
                let mut node = match self.order(part) {
                    Keys::Bytewise => LeafMut::init_with_prefix(payload, shared)?,
                    Keys::Custom => LeafMut::init(payload, Keys::Custom)?,
                };
                for (i, item) in part.iter().enumerate() {
                    let value = Value { bytes: self.value_of(item), pointer: item.marked };
                    if !node.insert(i, self.key_of(item), value)? {
                        return Err(too_long());
                    }
                }
                node.view()?.gap()?
            }
        };
        page.set_hole(hole);
        Ok(())
    }

    /// Writes the entries `range` as the sorted part of a leaf, and those of the append area of `old` for which `keep`
    /// is true as its append area.
    pub(super) fn write_beside(
        &self,
        range: Range<usize>,
        old: &LeafView<'_>,
        keep: impl Fn(&[u8]) -> bool,
        page: &mut ViewMut<'_>,
    ) -> Result<(), Damage> {
        let (mut area, mut marked): (Vec<u8>, bool) = (Vec::new(), false);
        for entry in old.appended() {
            let entry = entry?;
            if keep(entry.key) {
                let at = area.len();
                area.extend([&appended_header(entry.key, entry.value)[..], entry.key, entry.value].concat());
                if entry.marked {
                    mark_appended(&mut area, at)?;
                    marked = true;
                }
            }
        }
        self.write(range, page)?;
        if marked {
            page.set_flags(flag::MARKED, 0);
        }
        page.put_area(&area)
    }

    /// Where to split the entries into two leaves: the left half has [`ROOM`] bytes for itself and its bound, the
    /// right half `right_room`. As near to `wanted` as possible; `None` if there is no such place.
    pub(super) fn split_point(&self, wanted: usize, right_room: usize) -> Option<usize> {
        let fits = |at: usize| {
            self.size(0..at) + self.separator(at).len() <= ROOM && self.size(at..self.len()) <= right_room
        };
        let last = self.len().checked_sub(1)?;
        let wanted = wanted.clamp(1, last.max(1));
        (0..self.len()).find_map(|distance| {
            let below = wanted.checked_sub(distance).filter(|at| *at >= 1 && *at <= last && fits(*at));
            below.or_else(|| Some(wanted + distance).filter(|at| *at <= last && fits(*at)))
        })
    }

    /// How many entries a leaf of `bytes` bytes holds.
    pub(super) fn fitting(&self, bytes: usize) -> usize {
        let (mut fit, mut too_many) = (0, self.len() + 1);
        while too_many - fit > 1 {
            let middle = fit + (too_many - fit) / 2;
            if self.size(0..middle) <= bytes { fit = middle } else { too_many = middle }
        }
        fit
    }

    /// Whether entry `i` has another value than the one before it.
    fn begins_value(&self, i: usize) -> bool {
        i > 0 && i < self.len() && self.value_of_key(i) != self.value_of_key(i - 1)
    }

    /// Whether all entries have the same value.
    pub(super) fn is_of_one_value(&self) -> bool {
        self.value_of_key(0) == self.value_of_key(self.len().saturating_sub(1))
    }

    /// Key `i` without its row's address.
    fn value_of_key(&self, i: usize) -> &[u8] {
        let key = self.key(i);
        key.len().checked_sub(ADDRESS).and_then(|len| key.get(..len)).unwrap_or(&[])
    }

    /// The entry nearest to `near` that begins another value, if there is one within a quarter of the entries.
    pub(super) fn between_values(&self, near: usize) -> Option<usize> {
        (0..=self.len() / 4).find_map(|distance| {
            let below = near.checked_sub(distance).filter(|at| self.begins_value(*at));
            below.or_else(|| Some(near + distance).filter(|at| self.begins_value(*at)))
        })
    }

    /// The entry in the middle by bytes.
    pub(super) fn middle(&self) -> usize {
        let total: usize = (0..self.len()).map(|i| self.entry_len(i) + NODE_ENTRY).sum();
        let mut sum = 0;
        (0..self.len())
            .find(|i| {
                sum += self.entry_len(*i) + NODE_ENTRY;
                sum * 2 >= total
            })
            .unwrap_or(0)
    }
}
