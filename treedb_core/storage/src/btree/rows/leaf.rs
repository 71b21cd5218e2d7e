//! Leaves of the row tree.

use treedb_formats::node::{
    MAX_PAYLOAD, MIN_PAYLOAD, NodeDamage, POINTER, Scratch, Value, max_value, store, store_u16,
};

/// Kind byte.
const KIND: u8 = 3;
/// Bytes before the slots.
pub(super) const HEADER: usize = 24;
/// Bytes of a cell before the value.
const CELL_HEADER: usize = 2;

/// A leaf for reading.
#[derive(Clone, Copy)]
pub(super) struct RowLeaf<'a> {
    page: &'a [u8],
    slots: &'a [[u8; 2]],
    base: u64,
    rows: usize,
    cells: usize,
    dead: usize,
}

impl<'a> RowLeaf<'a> {
    /// Opens a payload as a leaf; checks its header in constant time.
    #[inline(always)]
    pub(super) fn open(page: &'a [u8]) -> Result<RowLeaf<'a>, NodeDamage> {
        let Some(h) = page.first_chunk::<HEADER>() else {
            return Err(NodeDamage::new(0, "a payload longer than the leaf header", page.len()));
        };
        let word = |at: usize| u16::from_le_bytes([h[at], h[at + 1]]) as usize;
        if h[0] != KIND {
            return Err(NodeDamage::new(0, "kind 3, a leaf of rows", h[0] as usize));
        }
        let (count, rows, cells, dead) = (word(2), word(4), word(6), word(8));
        let base = u64::from_le_bytes([h[16], h[17], h[18], h[19], h[20], h[21], h[22], h[23]]);
        let Some(slots) = page.get(HEADER..HEADER + 2 * count).filter(|_| HEADER + 2 * count <= cells) else {
            return Err(NodeDamage::new(2, "slots that end before the lowest cell", count));
        };
        if cells > page.len() || page.len() > MAX_PAYLOAD {
            return Err(NodeDamage::new(6, "a lowest cell within the payload", cells));
        }
        if dead > page.len() - cells {
            return Err(NodeDamage::new(8, "no more dead bytes than cells have", dead));
        }
        if base.checked_add(count as u64).is_none() {
            return Err(NodeDamage::new(16, "row ids within 64 bits", count));
        }
        Ok(RowLeaf { page, slots: slots.as_chunks().0, base, rows, cells, dead })
    }

    /// Id of slot 0.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Number of slots.
    #[inline(always)]
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes no row and no slot uses.
    pub(super) fn free(&self) -> usize {
        self.cells - (HEADER + 2 * self.slots.len()) + self.dead
    }

    /// The slot of row `id`, if it has one; there may be no row in it.
    #[inline(always)]
    pub(super) fn slot_of(&self, id: u64) -> Option<usize> {
        let slot = usize::try_from(id.checked_sub(self.base)?).ok()?;
        (slot < self.slots.len()).then_some(slot)
    }

    /// The row in slot `slot`.
    #[inline(always)]
    pub(super) fn row(&self, slot: usize) -> Result<Option<Value<'a>>, NodeDamage> {
        let at = match self.slots.get(slot) {
            None | Some([0, 0]) => return Ok(None),
            Some(at) => u16::from_le_bytes(*at) as usize,
        };
        let cell = self.page.get(at..).unwrap_or(&[]);
        let Some(word) = cell.first_chunk::<CELL_HEADER>() else {
            return Err(NodeDamage::new(at, "a cell within the payload", at));
        };
        let word = u16::from_le_bytes(*word) as usize;
        match cell.get(CELL_HEADER..CELL_HEADER + (word & !POINTER)) {
            Some(bytes) => Ok(Some(Value { bytes, pointer: word & POINTER != 0 })),
            None => Err(NodeDamage::new(at, "a value within the payload", word & !POINTER)),
        }
    }

    /// The first slot in use from `slot` on.
    #[inline(always)]
    pub(super) fn next_row(&self, slot: usize) -> Option<usize> {
        let after = self.slots.get(slot..)?;
        Some(slot + after.iter().position(|at| *at != [0, 0])?)
    }

    /// The last slot in use before `slot`.
    #[inline(always)]
    pub(super) fn row_before(&self, slot: usize) -> Option<usize> {
        self.slots.get(..slot.min(self.slots.len()))?.iter().rposition(|at| *at != [0, 0])
    }

    /// Bytes a leaf of slots `from..to` takes, holes at its ends left out.
    pub(super) fn size_of(&self, from: usize, to: usize) -> Result<usize, NodeDamage> {
        let (Some(first), Some(last)) = (self.next_row(from), self.row_before(to)) else { return Ok(HEADER) };
        let mut size = HEADER + 2 * (last + 1).saturating_sub(first);
        for slot in first..=last {
            if let Some(value) = self.row(slot)? {
                size += CELL_HEADER + value.bytes.len();
            }
        }
        Ok(size)
    }

    /// Where to part the rows in two halves of about the same size: a slot in use, not the first.
    pub(super) fn middle(&self) -> Result<usize, NodeDamage> {
        let Some(first) = self.next_row(0) else {
            return Err(NodeDamage::new(4, "rows to part", 0));
        };
        let used = self.page.len() - self.free();
        let mut left = HEADER;
        let mut slot = first;
        while let Some(next) = self.next_row(slot + 1) {
            // With the slots up to the next row: if holes did not count, a leaf of many holes would be parted off one
            // row at a time.
            left += CELL_HEADER + self.row(slot)?.map_or(0, |value| value.bytes.len()) + 2 * (next - slot);
            if 2 * left >= used || self.next_row(next + 1).is_none() {
                return Ok(next);
            }
            slot = next;
        }
        Err(NodeDamage::new(4, "two rows to part", self.rows))
    }

    /// Checks every row: cells within the cell area and apart from each other, counts right.
    pub(super) fn validate(&self) -> Result<(), NodeDamage> {
        let mut cells = Vec::with_capacity(self.rows);
        for (slot, at) in self.slots.iter().enumerate() {
            if let Some(value) = self.row(slot)? {
                let at = u16::from_le_bytes(*at) as usize;
                if at < self.cells {
                    return Err(NodeDamage::new(at, "a cell above the lowest one", at));
                }
                cells.push((at, CELL_HEADER + value.bytes.len()));
            }
        }
        cells.sort_unstable();
        if let Some(pair) = cells.windows(2).find(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
            return Err(NodeDamage::new(pair[1].0, "cells that do not overlap", pair[0].1));
        }
        let used: usize = cells.iter().map(|cell| cell.1).sum();
        if used + self.dead != self.page.len() - self.cells {
            return Err(NodeDamage::new(8, "live and dead cells that fill the cell area", self.dead));
        }
        if cells.len() != self.rows {
            return Err(NodeDamage::new(4, "as many rows as slots in use", self.rows));
        }
        if self.slots.last().is_some_and(|at| *at == [0, 0]) {
            return Err(NodeDamage::new(2, "a last slot in use", self.slots.len()));
        }
        Ok(())
    }
}

/// A leaf for changing.
pub(super) struct RowLeafMut<'a> {
    page: &'a mut [u8],
}

impl<'a> RowLeafMut<'a> {
    /// Makes a payload an empty leaf.
    pub(super) fn init(page: &'a mut [u8]) -> Result<RowLeafMut<'a>, NodeDamage> {
        if !(MIN_PAYLOAD..=MAX_PAYLOAD).contains(&page.len()) {
            return Err(NodeDamage::new(0, "a payload of 256 bytes to 32 KiB", page.len()));
        }
        let len = page.len();
        page.fill(0);
        store(page, 0, &[KIND])?;
        store_u16(page, 6, len)?;
        Ok(RowLeafMut { page })
    }

    pub(super) fn open(page: &'a mut [u8]) -> Result<RowLeafMut<'a>, NodeDamage> {
        RowLeaf::open(page)?;
        Ok(RowLeafMut { page })
    }

    #[inline]
    pub(super) fn view(&self) -> Result<RowLeaf<'_>, NodeDamage> {
        RowLeaf::open(self.page)
    }

    /// Stores a row: `Some(true)` if it is new, `Some(false)` if it replaced one, `None` (and no change) if the leaf is
    /// full.
    pub(super) fn put(&mut self, id: u64, value: Value<'_>) -> Result<Option<bool>, NodeDamage> {
        let leaf = self.view()?;
        let (count, base) = (leaf.slots(), if leaf.slots() == 0 { id } else { leaf.base() });
        if let Some(slot) = leaf.slot_of(id)
            && let Some(old) = leaf.row(slot)?
        {
            return Ok(self.replace(slot, old.bytes.len(), value)?.then_some(false));
        }
        // Slots to add before the first and after the last; an id far away is for another leaf.
        let (before, after) = match id.checked_sub(base) {
            None => (base - id, 0),
            Some(slot) => (0, (slot + 1).saturating_sub(count as u64)),
        };
        let limit = (self.page.len() / 2) as u64;
        if before > limit || after > limit {
            return Ok(None);
        }
        let (before, after) = (before as usize, after as usize);
        let size = CELL_HEADER + value.bytes.len();
        let needed = size + 2 * (before + after);
        let gap = leaf.cells - (HEADER + 2 * count);
        if needed > gap {
            if needed > leaf.free() {
                return Ok(None);
            }
            self.compact()?;
            // Holes at the ends are gone: the counts above may be others now.
            return if self.view()?.dead == 0 { self.put(id, value) } else { Ok(None) };
        }
        let (rows, cells) = (leaf.rows, leaf.cells - size);
        if before > 0 {
            self.page.copy_within(HEADER..HEADER + 2 * count, HEADER + 2 * before);
        }
        for slot in (0..before).chain(before + count..before + count + after) {
            store(self.page, HEADER + 2 * slot, &[0, 0])?;
        }
        let base = base - before as u64;
        self.store_cell(cells, value)?;
        store_u16(self.page, HEADER + 2 * (id - base) as usize, cells)?;
        store_u16(self.page, 2, before + count + after)?;
        store_u16(self.page, 4, rows + 1)?;
        store_u16(self.page, 6, cells)?;
        store(self.page, 16, &base.to_le_bytes())?;
        Ok(Some(true))
    }

    /// Stores rows with the ids from `id` on, as many as the gap has room for, if `id` is right after the last; returns how
    /// many.
    pub(super) fn append(&mut self, id: u64, values: &[&[u8]]) -> Result<usize, NodeDamage> {
        let leaf = self.view()?;
        let (count, rows, mut cells) = (leaf.slots(), leaf.rows, leaf.cells);
        let base = if count == 0 { id } else { leaf.base() };
        if id.checked_sub(base) != Some(count as u64) {
            return Ok(0);
        }
        let most = max_value(self.page.len());
        let mut added = 0;
        for value in values {
            let (slot, size) = (HEADER + 2 * (count + added), CELL_HEADER + value.len());
            if value.len() > most || slot + 2 + size > cells {
                break;
            }
            cells -= size;
            self.store_cell(cells, Value::inline(value))?;
            store_u16(self.page, slot, cells)?;
            added += 1;
        }
        if added > 0 {
            store_u16(self.page, 2, count + added)?;
            store_u16(self.page, 4, rows + added)?;
            store_u16(self.page, 6, cells)?;
            store(self.page, 16, &base.to_le_bytes())?;
        }
        Ok(added)
    }

    fn store_cell(&mut self, at: usize, value: Value<'_>) -> Result<(), NodeDamage> {
        store_u16(self.page, at, value.bytes.len() | if value.pointer { POINTER } else { 0 })?;
        store(self.page, at + CELL_HEADER, value.bytes)
    }

    /// Replaces the value in `slot`, which has `old` bytes; `false`, and no change, if the leaf is full.
    fn replace(&mut self, slot: usize, old: usize, value: Value<'_>) -> Result<bool, NodeDamage> {
        let leaf = self.view()?;
        let (cells, dead) = (leaf.cells, leaf.dead);
        let gap = cells - (HEADER + 2 * leaf.slots());
        let at = leaf.slots.get(slot).map_or(0, |at| u16::from_le_bytes(*at) as usize);
        let size = CELL_HEADER + value.bytes.len();
        if value.bytes.len() <= old {
            self.store_cell(at, value)?;
            store_u16(self.page, 8, (dead + old - value.bytes.len()).min(self.page.len() - cells))?;
            return Ok(true);
        }
        if size > gap {
            // Drop the old value, so that its bytes and the holes it may leave can be had.
            let kept = Scratch::copy_of(self.page);
            let id = leaf.base() + slot as u64;
            self.remove(slot)?;
            if self.put(id, value)?.is_none() {
                self.page.copy_from_slice(&kept);
                return Ok(false);
            }
            return Ok(true);
        }
        self.store_cell(cells - size, value)?;
        store_u16(self.page, HEADER + 2 * slot, cells - size)?;
        store_u16(self.page, 6, cells - size)?;
        store_u16(self.page, 8, (dead + CELL_HEADER + old).min(self.page.len() - cells + size))?;
        Ok(true)
    }

    /// Removes the row in `slot`; `false` if there is none.
    pub(super) fn remove(&mut self, slot: usize) -> Result<bool, NodeDamage> {
        let leaf = self.view()?;
        let Some(value) = leaf.row(slot)? else { return Ok(false) };
        let size = CELL_HEADER + value.bytes.len();
        let at = leaf.slots.get(slot).map_or(0, |at| u16::from_le_bytes(*at) as usize);
        let (cells, dead, rows) = (leaf.cells, leaf.dead, leaf.rows.saturating_sub(1));
        let count = if slot + 1 == leaf.slots() {
            leaf.row_before(slot).map_or(0, |last| last + 1)
        } else {
            leaf.slots()
        };
        store_u16(self.page, HEADER + 2 * slot, 0)?;
        store_u16(self.page, 2, count)?;
        store_u16(self.page, 4, rows)?;
        if count == 0 {
            store_u16(self.page, 6, self.page.len())?;
            store_u16(self.page, 8, 0)?;
        } else if at == cells && at + size <= self.page.len() {
            store_u16(self.page, 6, at + size)?;
        } else {
            store_u16(self.page, 8, (dead + size).min(self.page.len() - cells))?;
        }
        Ok(true)
    }

    /// Writes the leaf anew without dead cells and without holes at its ends.
    fn compact(&mut self) -> Result<(), NodeDamage> {
        let copy = Scratch::copy_of(self.page);
        let old = RowLeaf::open(&copy)?;
        RowLeafMut::init(self.page)?.take(&old, 0, old.slots())
    }

    /// Adds the rows in slots `from..to` of another leaf.
    pub(super) fn take(&mut self, other: &RowLeaf<'_>, from: usize, to: usize) -> Result<(), NodeDamage> {
        let mut next = other.next_row(from);
        while let Some(slot) = next.filter(|slot| *slot < to) {
            if let Some(value) = other.row(slot)?
                && self.put(other.base() + slot as u64, value)?.is_none()
            {
                return Err(NodeDamage::new(2, "rows that fit the leaf", slot));
            }
            next = other.next_row(slot + 1);
        }
        Ok(())
    }
}
