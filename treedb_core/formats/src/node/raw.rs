//! The parts that leaves and branches share, for reading: the header, the arrays, search, assembling keys.

use std::cmp::Ordering;
use std::ops::Range;

use super::bytes::{compare, copy, head_of, same, starts_with, u16_at};
use super::search::lower_bound;
use super::{Found, Keys, MAX_PAYLOAD, NODE_HEADER, NodeDamage, Value};

/// Kind byte of a leaf.
pub(super) const LEAF: u8 = 1;
/// Kind byte of a branch.
pub(super) const BRANCH: u8 = 2;
/// Flag bit: keys are in an order of the owner's.
pub(super) const CUSTOM: u8 = 1;
/// Bit of a leaf cell's value length: the value is a pointer.
pub const POINTER: usize = 0x8000;
/// Bytes of a leaf cell before the key's rest.
pub(super) const CELL_HEADER: usize = 4;

/// Bytes of the arrays an entry takes.
pub(super) const fn stride(branch: bool) -> usize {
    if branch { 8 + 4 + 2 } else { 8 + 2 }
}

/// Bytes of the cell of an entry whose key has `klen` bytes after the prefix.
#[inline(always)]
pub(super) const fn cell_size(branch: bool, klen: usize, value: usize) -> usize {
    let rest = klen.saturating_sub(8);
    if !branch {
        CELL_HEADER + rest + value
    } else if rest == 0 {
        0
    } else {
        2 + rest
    }
}

/// The header's numbers, checked against each other: the arrays lie between header and lowest cell.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    pub(super) keys: Keys,
    pub(super) count: usize,
    pub(super) cap: usize,
    pub(super) prefix: usize,
    pub(super) cells: usize,
    pub(super) dead: usize,
    pub(super) leftmost: u32,
    /// Offset of the heads.
    pub(super) heads: usize,
    /// Offset of the children (of the slots in a leaf).
    pub(super) children: usize,
    /// Offset of the slots.
    pub(super) slots: usize,
    /// Offset after the slots.
    pub(super) end: usize,
}

impl Layout {
    /// Reads all of the header.
    #[inline]
    pub(super) fn parse<const B: bool>(page: &[u8]) -> Result<Layout, NodeDamage> {
        let layout = Layout::parse_arrays::<B>(page)?;
        if layout.dead > page.len() - layout.cells {
            return Err(NodeDamage::new(10, "no more dead bytes than cells have", layout.dead));
        }
        Ok(layout)
    }

    /// Reads the header for a search: the number of dead bytes is not checked.
    #[inline(always)]
    fn parse_arrays<const B: bool>(page: &[u8]) -> Result<Layout, NodeDamage> {
        let Some(h) = page.first_chunk::<NODE_HEADER>() else {
            return Err(NodeDamage::new(0, "a payload longer than the node header", page.len()));
        };
        let word = |at: usize| u16::from_le_bytes([h[at], h[at + 1]]) as usize;
        let kind = if B { BRANCH } else { LEAF };
        if h[0] != kind {
            let expected = if B { "kind 2, a branch" } else { "kind 1, a leaf" };
            return Err(NodeDamage::new(0, expected, h[0] as usize));
        }
        let (count, cap, prefix, cells, dead) = (word(2), word(4), word(6), word(8), word(10));
        let heads = NODE_HEADER + prefix.next_multiple_of(8);
        let children = heads + 8 * cap;
        let slots = children + if B { 4 * cap } else { 0 };
        let end = slots + 2 * cap;
        if count > cap {
            return Err(NodeDamage::new(2, "a count within the capacity", count));
        }
        if end > cells {
            return Err(NodeDamage::new(4, "arrays that end before the lowest cell", end));
        }
        if cells > page.len() || page.len() > MAX_PAYLOAD {
            return Err(NodeDamage::new(8, "a lowest cell within the payload", cells));
        }
        let leftmost = u32::from_le_bytes([h[12], h[13], h[14], h[15]]);
        let keys = if h[1] & CUSTOM == 0 { Keys::Bytewise } else { Keys::Custom };
        Ok(Layout { keys, count, cap, prefix, cells, dead, leftmost, heads, children, slots, end })
    }

    /// The bytes between arrays and lowest cell.
    pub(super) fn gap(&self) -> Range<usize> {
        self.end..self.cells
    }

    /// Bytes that no entry uses: the gap, unused places in the arrays, dead cells.
    pub(super) fn free<const B: bool>(&self) -> usize {
        self.cells - self.end + self.dead + (self.cap - self.count) * stride(B)
    }
}

/// One entry, its key without the prefix.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) head: u64,
    /// Length of the key after the prefix.
    pub(super) klen: usize,
    /// The key's bytes after the head.
    pub(super) rest: &'a [u8],
    pub(super) load: Load<'a>,
}

/// Where a leaf's cell is, the length of its key after the prefix, the word with the value's length, and what is after
/// these in the page.
type CellHeader<'a> = (usize, usize, [u8; 2], &'a [u8]);

/// An entry of a leaf with its cell's bytes as they are.
pub(super) struct Stored<'a> {
    pub(super) head: u64,
    /// Length of the key after the prefix.
    pub(super) klen: usize,
    /// The word with the value's length.
    pub(super) word: [u8; 2],
    /// The key's bytes after the head, then the value.
    pub(super) bytes: &'a [u8],
}

/// What a key carries: a value in a leaf, a child in a branch (the other field is empty).
#[derive(Clone, Copy)]
pub(super) struct Load<'a> {
    pub(super) value: Value<'a>,
    pub(super) child: u32,
}

impl<'a> Load<'a> {
    pub(super) fn value(value: Value<'a>) -> Self {
        Load { value, child: 0 }
    }

    pub(super) fn child(child: u32) -> Self {
        Load { value: Value::inline(&[]), child }
    }
}

/// The cell of an entry of a leaf.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'a> {
    /// Length of the key after the prefix.
    klen: usize,
    /// The key's bytes after the head.
    rest: &'a [u8],
    /// The value.
    pub value: Value<'a>,
}

impl Cell<'_> {
    /// A cell of nothing.
    pub const EMPTY: Cell<'static> = Cell { klen: 0, rest: &[], value: Value::inline(&[]) };
}

/// Makes `out` the prefix and room for `more` bytes.
#[cold]
fn begin_key(prefix: &[u8], more: usize, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(prefix);
    out.resize(prefix.len() + more, 0);
}

/// A node for reading; `B` tells a branch from a leaf.
#[derive(Clone, Copy)]
pub(super) struct Raw<'a, const B: bool> {
    pub(super) page: &'a [u8],
    pub(super) prefix: &'a [u8],
    heads: &'a [[u8; 8]],
    /// Offsets of the children and of the slots: of both arrays few entries are checked.
    children: usize,
    slots: usize,
    pub(super) leftmost: u32,
    pub(super) keys: Keys,
}

impl<'a, const B: bool> Raw<'a, B> {
    #[inline(always)]
    pub(super) fn open(page: &'a [u8]) -> Result<Self, NodeDamage> {
        Raw::of(page, &Layout::parse_arrays::<B>(page)?)
    }

    /// As [`Raw::open`], of a payload whose header has been read.
    #[inline(always)]
    pub(super) fn of(page: &'a [u8], l: &Layout) -> Result<Self, NodeDamage> {
        let part = |at: usize, len: usize| {
            page.get(at..at + len).ok_or(NodeDamage {
                at,
                expected: "arrays within the payload",
                found: len as u64,
            })
        };
        Ok(Raw {
            page,
            prefix: part(NODE_HEADER, l.prefix)?,
            heads: part(l.heads, 8 * l.count)?.as_chunks().0,
            children: l.children,
            slots: l.slots,
            leftmost: l.leftmost,
            keys: l.keys,
        })
    }

    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        self.heads.len()
    }

    /// Offset of the cell of entry `i` (in a branch also a length up to 8).
    #[inline(always)]
    pub(super) fn slot(&self, i: usize) -> Result<usize, NodeDamage> {
        match u16_at(self.page, self.slots + 2 * i) {
            Some(slot) if i < self.count() => Ok(slot),
            _ => Err(NodeDamage::new(2, "an entry at the place asked for", i)),
        }
    }

    #[inline(always)]
    pub(super) fn head(&self, i: usize) -> u64 {
        self.heads.get(i).map_or(u64::MAX, |word| u64::from_le_bytes(*word))
    }

    /// Child `c` of a branch, up to and including `count`.
    #[inline(always)]
    pub(super) fn child(&self, c: usize) -> Result<u32, NodeDamage> {
        let Some(i) = c.checked_sub(1) else { return Ok(self.leftmost) };
        match self.page.get(self.children + 4 * i..).and_then(|children| children.first_chunk()) {
            Some(child) if i < self.count() => Ok(u32::from_le_bytes(*child)),
            _ => Err(NodeDamage::new(2, "a child at the place asked for", c)),
        }
    }

    /// Length after the prefix and bytes after the head of key `i`.
    #[inline(always)]
    pub(super) fn key_parts(&self, i: usize) -> Result<(usize, &'a [u8]), NodeDamage> {
        let slot = self.slot(i)?;
        if B && slot <= 8 {
            return Ok((slot, &[]));
        }
        let Some(word) = u16_at(self.page, slot) else {
            return Err(NodeDamage::new(slot, "a cell within the payload", slot));
        };
        let (klen, at) = if B { (8 + word, slot + 2) } else { (word, slot + CELL_HEADER) };
        let rest = klen.saturating_sub(8);
        match self.page.get(at..at + rest) {
            Some(rest) => Ok((klen, rest)),
            None => Err(NodeDamage::new(slot, "a key within the payload", klen)),
        }
    }

    /// Lengths of entry `i`: of its key after the prefix, and of its value, which a branch has none of.
    #[inline(always)]
    pub(super) fn lengths(&self, i: usize) -> Result<(usize, usize), NodeDamage> {
        if B {
            return Ok((self.key_parts(i)?.0, 0));
        }
        let (_, klen, word, _) = self.cell_header(i)?;
        Ok((klen, u16::from_le_bytes(word) as usize & !POINTER))
    }

    /// The beginning of the cell of entry `i` of a leaf.
    #[inline(always)]
    fn cell_header(&self, i: usize) -> Result<CellHeader<'a>, NodeDamage> {
        let slot = self.slot(i)?;
        match self.page.get(slot..).unwrap_or(&[]).split_first_chunk::<CELL_HEADER>() {
            Some(([k0, k1, v0, v1], cell)) => {
                Ok((slot, u16::from_le_bytes([*k0, *k1]) as usize, [*v0, *v1], cell))
            }
            None => Err(NodeDamage::new(slot, "a cell within the payload", slot)),
        }
    }

    /// Entry `i` of a leaf as it is stored.
    #[inline(always)]
    pub(super) fn stored(&self, i: usize) -> Result<Stored<'a>, NodeDamage> {
        let (slot, klen, word, cell) = self.cell_header(i)?;
        let len = klen.saturating_sub(8) + (u16::from_le_bytes(word) as usize & !POINTER);
        match cell.get(..len) {
            Some(bytes) => Ok(Stored { head: self.head(i), klen, word, bytes }),
            None => Err(NodeDamage::new(slot, "key and value within the payload", len)),
        }
    }

    /// The cell of entry `i` of a leaf.
    #[inline(always)]
    pub(super) fn cell(&self, i: usize) -> Result<Cell<'a>, NodeDamage> {
        let (slot, klen, word, cell) = self.cell_header(i)?;
        let word = u16::from_le_bytes(word) as usize;
        let Some((rest, cell)) = cell.split_at_checked(klen.saturating_sub(8)) else {
            return Err(NodeDamage::new(slot, "a key within the payload", klen));
        };
        match cell.get(..word & !POINTER) {
            Some(bytes) => Ok(Cell { klen, rest, value: Value { bytes, pointer: word & POINTER != 0 } }),
            None => Err(NodeDamage::new(slot, "a value within the payload", word & !POINTER)),
        }
    }

    /// The value of entry `i` of a leaf.
    #[inline(always)]
    pub(super) fn value(&self, i: usize) -> Result<Value<'a>, NodeDamage> {
        Ok(self.cell(i)?.value)
    }

    /// The value of `key` in a leaf in byte order.
    #[inline(always)]
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Value<'a>>, NodeDamage> {
        let skip = self.prefix.len();
        if !starts_with(key, self.prefix) {
            return Ok(None);
        }
        let head = head_of(key, skip);
        let i = lower_bound(self.heads, head);
        if i == self.count() || self.head(i) != head {
            return Ok(None);
        }
        if i + 1 < self.count() && self.head(i + 1) == head {
            return match self.search_equal_heads(i, head, key, skip)? {
                Ok(i) => Ok(Some(self.value(i)?)),
                Err(_) => Ok(None),
            };
        }
        let Cell { klen, rest, value } = self.cell(i)?;
        let same = klen == key.len() - skip && (klen <= 8 || same(rest, key.get(skip + 8..).unwrap_or(&[])));
        Ok(same.then_some(value))
    }

    /// Entry `i`.
    #[inline(always)]
    pub(super) fn entry(&self, i: usize) -> Result<Entry<'a>, NodeDamage> {
        let (klen, rest) = self.key_parts(i)?;
        let load = if B { Load::child(self.child(i + 1)?) } else { Load::value(self.value(i)?) };
        Ok(Entry { head: self.head(i), klen, rest, load })
    }

    /// Bytes of entry `i`'s cell.
    pub(super) fn cell_len(&self, i: usize) -> Result<usize, NodeDamage> {
        let (klen, _) = self.key_parts(i)?;
        Ok(cell_size(B, klen, if B { 0 } else { self.value(i)?.bytes.len() }))
    }

    /// Appends key `i` to `out`.
    #[inline]
    pub(super) fn append_key(&self, i: usize, out: &mut Vec<u8>) -> Result<(), NodeDamage> {
        out.extend_from_slice(self.prefix);
        self.append_suffix(i, out)
    }

    /// Appends what follows the prefix in key `i` to `out`.
    #[inline]
    fn append_suffix(&self, i: usize, out: &mut Vec<u8>) -> Result<(), NodeDamage> {
        let (klen, rest) = self.key_parts(i)?;
        // Always eight bytes, which is one store; the excess is truncated.
        out.extend_from_slice(&self.head(i).to_be_bytes());
        if klen < 8 {
            out.truncate(out.len() - (8 - klen));
        } else if !rest.is_empty() {
            out.extend_from_slice(rest);
        }
        Ok(())
    }

    /// Writes key `i`, whose cell is `cell`, over the beginning of `out`, and returns its length; `out` may be longer.
    /// It begins with the node's prefix already if `known`.
    #[inline(always)]
    pub(super) fn write_key(&self, i: usize, cell: &Cell<'_>, out: &mut Vec<u8>, known: bool) -> usize {
        let at = self.prefix.len();
        if !known || out.len() < at + 16 + cell.rest.len() {
            begin_key(self.prefix, 16 + cell.rest.len(), out);
        }
        // The word in which the prefix ends is written again with it: a later read of that word must hit a single
        // store, or store forwarding fails.
        let (word, over) = (at / 8 * 8, 8 * (at % 8) as u32);
        let head = self.head(i);
        if let Some([first, second]) =
            out.get_mut(word..).and_then(|out| out.as_chunks_mut::<8>().0.first_chunk_mut())
        {
            let prefix = u64::from_be_bytes(*first) & !(u64::MAX >> over);
            *first = (prefix | head >> over).to_be_bytes();
            *second = head.unbounded_shl(64 - over).to_be_bytes();
        }
        if !cell.rest.is_empty()
            && let Some(out) = out.get_mut(at + 8..at + 8 + cell.rest.len())
        {
            copy(cell.rest, out);
        }
        at + cell.klen
    }

    /// Writes key `i` to `out`, replacing what is there.
    pub(super) fn key_into(&self, i: usize, out: &mut Vec<u8>) -> Result<(), NodeDamage> {
        out.clear();
        self.append_key(i, out)
    }

    /// The place of `key` in byte order.
    #[inline(always)]
    pub(super) fn search(&self, key: &[u8]) -> Result<Found, NodeDamage> {
        let skip = self.prefix.len();
        if !starts_with(key, self.prefix) {
            let below = compare(key, self.prefix) == Ordering::Less;
            return Ok(Err(if below { 0 } else { self.count() }));
        }
        let head = head_of(key, skip);
        let i = lower_bound(self.heads, head);
        if i == self.count() || self.head(i) != head {
            return Ok(Err(i));
        }
        if i + 1 == self.count() || self.head(i + 1) != head {
            return Ok(match self.compare_tail(i, key, skip)? {
                Ordering::Less => Err(i + 1),
                Ordering::Equal => Ok(i),
                Ordering::Greater => Err(i),
            });
        }
        self.search_equal_heads(i, head, key, skip)
    }

    /// The order of key `i` against `key`, in byte order.
    pub(super) fn order(&self, i: usize, key: &[u8]) -> Result<Ordering, NodeDamage> {
        let skip = self.prefix.len();
        if !starts_with(key, self.prefix) {
            return Ok(compare(self.prefix, key));
        }
        match self.head(i).cmp(&head_of(key, skip)) {
            Ordering::Equal => self.compare_tail(i, key, skip),
            order => Ok(order),
        }
    }

    /// The order of key `i` against `key`, whose head is the same.
    #[inline(always)]
    fn compare_tail(&self, i: usize, key: &[u8], skip: usize) -> Result<Ordering, NodeDamage> {
        let (klen, rest) = self.key_parts(i)?;
        let wanted = key.len() - skip;
        // A key that ends within its head is a prefix of every other key with that head that is longer.
        if klen <= 8 || wanted <= 8 {
            return Ok(klen.cmp(&wanted));
        }
        Ok(compare(rest, key.get(skip + 8..).unwrap_or(&[])))
    }

    #[inline(never)]
    fn search_equal_heads(
        &self,
        from: usize,
        head: u64,
        key: &[u8],
        skip: usize,
    ) -> Result<Found, NodeDamage> {
        let after = self.heads.get(from..).unwrap_or(&[]);
        let equal = head.checked_add(1).map_or(after.len(), |next| lower_bound(after, next));
        let (mut low, mut high) = (from, from + equal);
        while low < high {
            let mid = low + (high - low) / 2;
            match self.compare_tail(mid, key, skip)? {
                Ordering::Less => low = mid + 1,
                Ordering::Equal => return Ok(Ok(mid)),
                Ordering::Greater => high = mid,
            }
        }
        Ok(Err(low))
    }

    /// The slot found by a search with `order`, which compares a stored key with the one wanted; keys are assembled in `key`.
    pub(super) fn search_by(
        &self,
        key: &mut Vec<u8>,
        mut order: impl FnMut(&[u8]) -> Ordering,
    ) -> Result<Found, NodeDamage> {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let mid = low + (high - low) / 2;
            self.key_into(mid, key)?;
            match order(key) {
                Ordering::Less => low = mid + 1,
                Ordering::Equal => return Ok(Ok(mid)),
                Ordering::Greater => high = mid,
            }
        }
        Ok(Err(low))
    }

    /// Checks every entry: cells within the cell area and apart from each other, dead bytes counted right, heads
    /// padded with zeros, keys rising (if they are in byte order).
    pub(super) fn validate(&self) -> Result<(), NodeDamage> {
        let l = Layout::parse::<B>(self.page)?;
        let mut cells = Vec::with_capacity(self.count());
        for i in 0..self.count() {
            let slot = self.slot(i)?;
            let (klen, _) = self.key_parts(i)?;
            let len = self.cell_len(i)?;
            if len > 0 {
                if slot < l.cells {
                    return Err(NodeDamage::new(slot, "a cell above the lowest one", slot));
                }
                cells.push((slot, len));
            }
            if klen < 8 && self.head(i) << (8 * klen) != 0 && klen > 0 || klen == 0 && self.head(i) != 0 {
                return Err(NodeDamage::new(l.heads + 8 * i, "a head padded with zeros", klen));
            }
        }
        cells.sort_unstable();
        if let Some(pair) = cells.windows(2).find(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
            return Err(NodeDamage::new(pair[1].0, "cells that do not overlap", pair[0].1));
        }
        let used: usize = cells.iter().map(|cell| cell.1).sum();
        if used + l.dead != self.page.len() - l.cells {
            return Err(NodeDamage::new(10, "live and dead cells that fill the cell area", l.dead));
        }
        if self.keys == Keys::Bytewise {
            for i in 1..self.count() {
                let rising = match self.head(i - 1).cmp(&self.head(i)) {
                    Ordering::Equal => {
                        let ((a_len, a), (b_len, b)) = (self.key_parts(i - 1)?, self.key_parts(i)?);
                        if a_len <= 8 || b_len <= 8 { a_len < b_len } else { compare(a, b) == Ordering::Less }
                    }
                    order => order == Ordering::Less,
                };
                if !rising {
                    return Err(NodeDamage::new(l.heads + 8 * i, "keys in rising order", i));
                }
            }
        } else if l.prefix != 0 {
            return Err(NodeDamage::new(6, "no prefix where keys are not in byte order", l.prefix));
        }
        Ok(())
    }
}
