//! The parts that leaves and branches share, for changing: init, insert, remove, replace, compaction.

use super::bytes::{common, head_of, starts_with};
use super::entry_run::{EntryRun, Piece};
use super::raw::{BRANCH, CELL_HEADER, CUSTOM, LEAF, Layout, Load, POINTER, Raw, cell_size, stride};
use super::scratch::Scratch;
use super::{Keys, MAX_PAYLOAD, MIN_PAYLOAD, NODE_HEADER, NodeDamage};

/// Places the arrays grow by at most, so that not every insert moves the slots.
const SLACK: usize = 16;

/// How many places to add when there is a gap of `gap` bytes and entries take `each`.
#[inline]
pub(super) fn slack(gap: usize, each: usize) -> usize {
    (gap / each.max(1)).min(SLACK)
}

#[cold]
fn outside(at: usize) -> NodeDamage {
    NodeDamage::new(at, "a place within the payload", at)
}

/// Stores `bytes` at `at`.
#[inline]
pub fn store(page: &mut [u8], at: usize, bytes: &[u8]) -> Result<(), NodeDamage> {
    match page.get_mut(at..at + bytes.len()) {
        Some(place) => {
            place.copy_from_slice(bytes);
            Ok(())
        }
        None => Err(outside(at)),
    }
}

/// Stores `number` at `at`, in two bytes.
#[inline]
pub fn store_u16(page: &mut [u8], at: usize, number: usize) -> Result<(), NodeDamage> {
    store(page, at, &(number as u16).to_le_bytes())
}

/// Moves `len` bytes within the page; the places may overlap.
#[inline]
pub(super) fn shift(page: &mut [u8], from: usize, to: usize, len: usize) -> Result<(), NodeDamage> {
    if len == 0 {
        return Ok(());
    }
    if from.max(to) + len > page.len() {
        return Err(outside(from.max(to)));
    }
    page.copy_within(from..from + len, to);
    Ok(())
}

/// Writes a leaf's cell header: lengths of key (after the prefix) and value.
#[inline]
fn store_lengths(page: &mut [u8], at: usize, klen: usize, load: &Load<'_>) -> Result<(), NodeDamage> {
    let word = load.value.bytes.len() | if load.value.pointer { POINTER } else { 0 };
    store_u16(page, at, klen)?;
    store_u16(page, at + 2, word)
}

/// Writes a cell at `at` and returns what the slot holds.
pub(super) fn store_cell<const B: bool>(
    page: &mut [u8],
    at: usize,
    klen: usize,
    rest: &[u8],
    load: &Load<'_>,
) -> Result<usize, NodeDamage> {
    if B {
        if klen <= 8 {
            return Ok(klen);
        }
        store_u16(page, at, klen - 8)?;
        store(page, at + 2, rest)?;
    } else {
        store_lengths(page, at, klen, load)?;
        store(page, at + CELL_HEADER, rest)?;
        store(page, at + CELL_HEADER + rest.len(), load.value.bytes)?;
    }
    Ok(at)
}

/// The entries of a node with a new one in place of the `skip` at `i`.
fn run_with<'a, const B: bool>(
    node: Raw<'a, B>,
    i: usize,
    skip: usize,
    key: &'a [u8],
    load: Load<'a>,
) -> Result<EntryRun<'a, B>, NodeDamage> {
    EntryRun::new([
        Piece::Part { node, from: 0, to: i },
        Piece::One { key, load },
        Piece::Part { node, from: i + skip, to: node.count() },
    ])
}

/// Where in a leaf entries have been inserted lately: stored in the header in place of a leftmost child.
#[derive(Clone, Copy)]
pub(super) struct Trend {
    /// The place after the entry that came last.
    next: u16,
    /// How many entries came right after the one before.
    row: u16,
}

impl Trend {
    /// This many inserts in a row are taken for a sequence.
    const CLEAR: u16 = 3;

    #[inline]
    pub(super) fn of(leftmost: u32) -> Self {
        Trend { next: leftmost as u16, row: (leftmost >> 16) as u16 }
    }

    /// True if an entry at slot `i` continues the sequence.
    pub(super) fn leads_to(self, i: usize) -> bool {
        usize::from(self.next) == i && self.row >= Self::CLEAR
    }

    /// As it is once an entry has come to place `i`.
    #[inline]
    fn with(self, i: usize) -> u32 {
        let row = if usize::from(self.next) == i { self.row.saturating_add(1) } else { 0 };
        u32::from(row) << 16 | (i as u32 + 1) & 0xffff
    }

    /// As it is once `count` entries, at least one, have come in a row from place `i` on.
    pub(super) fn with_several(self, i: usize, count: usize) -> u32 {
        let Trend { next, row } = Trend::of(self.with(i));
        let more = count.saturating_sub(1).min(usize::from(u16::MAX)) as u16;
        u32::from(row.saturating_add(more)) << 16 | u32::from(next.wrapping_add(more))
    }
}

/// A node for changing; `B` tells a branch from a leaf.
pub(super) struct RawMut<'a, const B: bool> {
    pub(super) page: &'a mut [u8],
}

impl<'a, const B: bool> RawMut<'a, B> {
    /// Makes the payload an empty node whose keys begin with `prefix`.
    pub(super) fn init(
        page: &'a mut [u8],
        keys: Keys,
        prefix: &[u8],
        leftmost: u32,
    ) -> Result<RawMut<'a, B>, NodeDamage> {
        if !(MIN_PAYLOAD..=MAX_PAYLOAD).contains(&page.len()) {
            return Err(NodeDamage::new(0, "a payload of 256 bytes to 32 KiB", page.len()));
        }
        let len = page.len();
        if NODE_HEADER + prefix.len().next_multiple_of(8) > len {
            return Err(NodeDamage::new(6, "a prefix within the payload", prefix.len()));
        }
        page.fill(0);
        store(page, 0, &[if B { BRANCH } else { LEAF }, if keys == Keys::Custom { CUSTOM } else { 0 }])?;
        store_u16(page, 6, prefix.len())?;
        store_u16(page, 8, len)?;
        store(page, 12, &leftmost.to_le_bytes())?;
        store(page, NODE_HEADER, prefix)?;
        Ok(RawMut { page })
    }

    pub(super) fn open(page: &'a mut [u8]) -> Result<RawMut<'a, B>, NodeDamage> {
        Layout::parse::<B>(page)?;
        Ok(RawMut { page })
    }

    pub(super) fn view(&self) -> Result<Raw<'_, B>, NodeDamage> {
        Raw::open(self.page)
    }

    /// Makes the arrays `by` places larger; the caller has seen that the gap has room for them.
    pub(super) fn grow(&mut self, l: &mut Layout, by: usize) -> Result<(), NodeDamage> {
        let cap = l.cap + by;
        let children = l.heads + 8 * cap;
        let slots = children + if B { 4 * cap } else { 0 };
        shift(self.page, l.slots, slots, 2 * l.count)?;
        if B {
            shift(self.page, l.children, children, 4 * l.count)?;
        }
        (l.cap, l.children, l.slots, l.end) = (cap, children, slots, slots + 2 * cap);
        store_u16(self.page, 4, cap)
    }

    /// Inserts an entry at place `i`; `false`, and no change, if the node is full.
    #[inline]
    pub(super) fn insert(&mut self, i: usize, key: &[u8], load: Load<'_>) -> Result<bool, NodeDamage> {
        let mut l = Layout::parse::<B>(self.page)?;
        if i > l.count {
            return Err(NodeDamage::new(2, "a place for a new entry", i));
        }
        let prefix = self.page.get(NODE_HEADER..NODE_HEADER + l.prefix).ok_or(outside(6))?;
        if !starts_with(key, prefix) {
            return self.insert_rebuilding(i, 0, key, load);
        }
        let klen = key.len() - l.prefix;
        let size = cell_size(B, klen, load.value.bytes.len());
        let gap = l.cells - l.end;
        if l.count == l.cap {
            let by = slack(gap, size + stride(B));
            if by == 0 {
                return self.insert_rebuilding(i, 0, key, load);
            }
            self.grow(&mut l, by)?;
        } else if size > gap {
            return self.insert_rebuilding(i, 0, key, load);
        }
        let cells = l.cells - size;
        let rest = key.get(l.prefix + 8..).unwrap_or(&[]);
        let slot = store_cell::<B>(self.page, cells, klen, rest, &load)?;
        let after = l.count - i;
        shift(self.page, l.heads + 8 * i, l.heads + 8 * i + 8, 8 * after)?;
        store(self.page, l.heads + 8 * i, &head_of(key, l.prefix).to_le_bytes())?;
        if B {
            shift(self.page, l.children + 4 * i, l.children + 4 * i + 4, 4 * after)?;
            store(self.page, l.children + 4 * i, &load.child.to_le_bytes())?;
        }
        shift(self.page, l.slots + 2 * i, l.slots + 2 * i + 2, 2 * after)?;
        store_u16(self.page, l.slots + 2 * i, slot)?;
        store_u16(self.page, 2, l.count + 1)?;
        store_u16(self.page, 8, cells)?;
        if !B {
            store(self.page, 12, &Trend::of(l.leftmost).with(i).to_le_bytes())?;
        }
        Ok(true)
    }

    /// Inserts an entry in place of the `skip` (0 or 1) entries at `i` by writing the whole node anew, if it has
    /// room for that.
    #[inline(never)]
    fn insert_rebuilding(
        &mut self,
        i: usize,
        skip: usize,
        key: &[u8],
        load: Load<'_>,
    ) -> Result<bool, NodeDamage> {
        let l = Layout::parse::<B>(self.page)?;
        let len = self.page.len();
        let node = self.view()?;
        // The size with the node's own prefix, if the key has it: then only dead cells can be reclaimed.
        let shares = node.keys == Keys::Custom || starts_with(key, node.prefix);
        let size = cell_size(B, key.len().saturating_sub(l.prefix), load.value.bytes.len());
        let replaced = if skip == 0 { 0 } else { node.cell_len(i)? + stride(B) };
        let fits_as_it_is = shares && l.free::<B>() + replaced >= size + stride(B);
        let run = run_with(node, i, skip, key, load)?;
        let prefix = if fits_as_it_is { l.prefix.min(key.len()) } else { run.prefix(0..run.len())? };
        if shares && !fits_as_it_is && prefix <= l.prefix {
            return Ok(false);
        }
        let needed = run.size(0..run.len(), prefix)?;
        // A longer prefix must gain a good part of the page: else this would be done for every insert.
        let limit = if fits_as_it_is || !shares { len } else { len - len / 8 };
        if needed > limit {
            return Ok(false);
        }
        let copy = Scratch::copy_of(self.page);
        let run = run_with(Raw::<B>::open(&copy)?, i, skip, key, load)?;
        let leftmost = if B || skip > 0 { l.leftmost } else { Trend::of(l.leftmost).with(i) };
        run.fill(0..run.len(), prefix, leftmost, self.page)?;
        Ok(true)
    }

    /// Writes the node anew over itself with its best prefix, if it has room for that one: where heads hold the keys
    /// whole, a longer prefix gains nothing and takes its own bytes.
    pub(super) fn compact(&mut self) -> Result<(), NodeDamage> {
        let copy = Scratch::copy_of(self.page);
        let node = Raw::<B>::open(&copy)?;
        let leftmost = Layout::parse::<B>(&copy)?.leftmost;
        let run =
            EntryRun::new([Piece::Part { node, from: 0, to: node.count() }, Piece::Empty, Piece::Empty])?;
        let best = run.prefix(0..run.len())?;
        let fits = run.size(0..run.len(), best)? <= self.page.len();
        let prefix = if fits || node.count() == 0 { best } else { node.prefix.len() };
        run.fill(0..run.len(), prefix, leftmost, self.page)
    }

    /// Takes a longer prefix if the head of entry `i` is that of a neighbour and one can be had: equal heads cost each search
    /// looks at the cells, and a node that began with few keys, far apart, has a short prefix.
    pub(super) fn split_equal_heads(&mut self, i: usize) -> Result<(), NodeDamage> {
        let node = self.view()?;
        let alike = |j: usize| j < node.count() && node.head(j) == node.head(i);
        if !alike(i + 1) && !i.checked_sub(1).is_some_and(alike) {
            return Ok(());
        }
        let run =
            EntryRun::new([Piece::Part { node, from: 0, to: node.count() }, Piece::Empty, Piece::Empty])?;
        if run.prefix(0..run.len())? > node.prefix.len() { self.compact() } else { Ok(()) }
    }

    /// Removes entry `i`, in a branch with the child right of it.
    pub(super) fn remove(&mut self, i: usize) -> Result<(), NodeDamage> {
        let l = Layout::parse::<B>(self.page)?;
        let (size, slot) = {
            let node = Raw::<B>::of(self.page, &l)?;
            (node.cell_len(i)?, node.slot(i)?)
        };
        if l.count == 1 {
            // Empty: everything is free again, the prefix too.
            let (keys, leftmost) = (l.keys, l.leftmost);
            RawMut::<B>::init(self.page, keys, &[], leftmost)?;
            return Ok(());
        }
        let after = l.count - i - 1;
        shift(self.page, l.heads + 8 * i + 8, l.heads + 8 * i, 8 * after)?;
        if B {
            shift(self.page, l.children + 4 * i + 4, l.children + 4 * i, 4 * after)?;
        }
        shift(self.page, l.slots + 2 * i + 2, l.slots + 2 * i, 2 * after)?;
        store_u16(self.page, 2, l.count - 1)?;
        if size > 0 && slot == l.cells && slot + size <= self.page.len() {
            store_u16(self.page, 8, l.cells + size)
        } else {
            store_u16(self.page, 10, (l.dead + size).min(self.page.len() - l.cells))
        }
    }

    /// Replaces the value of entry `i` of a leaf; `false`, and no change, if the node is full.
    pub(super) fn replace(&mut self, i: usize, load: Load<'_>) -> Result<bool, NodeDamage> {
        let l = Layout::parse::<B>(self.page)?;
        let (slot, klen, rest, old) = {
            let node = Raw::<B>::of(self.page, &l)?;
            let entry = node.entry(i)?;
            (node.slot(i)?, entry.klen, entry.rest.len(), entry.load.value.bytes.len())
        };
        let new = load.value.bytes;
        if new.len() <= old {
            store_lengths(self.page, slot, klen, &load)?;
            store(self.page, slot + CELL_HEADER + rest, new)?;
            if new.len() < old {
                store_u16(self.page, 10, (l.dead + old - new.len()).min(self.page.len() - l.cells))?;
            }
            return Ok(true);
        }
        let size = CELL_HEADER + rest + new.len();
        if size <= l.cells - l.end {
            let at = l.cells - size;
            shift(self.page, slot + CELL_HEADER, at + CELL_HEADER, rest)?;
            store_lengths(self.page, at, klen, &load)?;
            store(self.page, at + CELL_HEADER + rest, new)?;
            store_u16(self.page, l.slots + 2 * i, at)?;
            store_u16(self.page, 8, at)?;
            let dead = l.dead + CELL_HEADER + rest + old;
            store_u16(self.page, 10, dead.min(self.page.len() - at))?;
            return Ok(true);
        }
        let mut key = Scratch::new();
        self.view()?.key_into(i, &mut key)?;
        self.insert_rebuilding(i, 1, &key, load)
    }

    /// Changes child `c` of a branch.
    pub(super) fn set_child(&mut self, c: usize, child: u32) -> Result<(), NodeDamage> {
        let l = Layout::parse::<B>(self.page)?;
        let at = match c.checked_sub(1) {
            None => 12,
            Some(i) if i < l.count => l.children + 4 * i,
            Some(_) => return Err(NodeDamage::new(2, "a child at the place asked for", c)),
        };
        store(self.page, at, &child.to_le_bytes())
    }
}

/// Bytes two keys have in common, if the order is by bytes.
pub(super) fn shared(keys: Keys, a: &[u8], b: &[u8]) -> usize {
    if keys == Keys::Bytewise { common(a, b) } else { 0 }
}
