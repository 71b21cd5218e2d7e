//! Runs: up to three pieces of nodes and new entries seen as one sorted sequence.
//!
//! A split is a run of "old entries, the new one, old entries" written to two pages; a merge is a run of two nodes
//! written to one; borrowing is a merge written to two; compaction is a run of one node written over itself. So
//! there is one routine that measures and one that writes. Sources are copies, never the page written to.

use std::ops::Range;

use super::bytes::{copy, head_of};
use super::raw::{CELL_HEADER, Entry, Layout, Load, Raw, Stored, cell_size, stride};
use super::raw_mut::{RawMut, shared, slack, store, store_cell};
use super::scratch::Scratch;
use super::{Keys, NODE_HEADER, NodeDamage};

/// A part of a run.
#[derive(Clone, Copy)]
pub(super) enum Piece<'a, const B: bool> {
    /// Entries `from..to` of a node.
    Part { node: Raw<'a, B>, from: usize, to: usize },
    /// An entry that is in no node yet.
    One { key: &'a [u8], load: Load<'a> },
    /// Nothing.
    Empty,
}

impl<'a, const B: bool> Piece<'a, B> {
    fn len(&self) -> usize {
        match self {
            Piece::Part { from, to, .. } => to - from,
            Piece::One { .. } => 1,
            Piece::Empty => 0,
        }
    }
}

/// Up to three pieces as one sequence.
#[derive(Clone, Copy)]
pub(super) struct EntryRun<'a, const B: bool> {
    pieces: [Piece<'a, B>; 3],
    keys: Keys,
}

/// The keys of a piece's entries have this prefix, then what the entry says.
struct Item<'a> {
    prefix: &'a [u8],
    entry: Entry<'a>,
}

impl<'a, const B: bool> EntryRun<'a, B> {
    pub(super) fn new(pieces: [Piece<'a, B>; 3]) -> Result<Self, NodeDamage> {
        let mut keys = None;
        for piece in &pieces {
            if let Piece::Part { node, from, to } = piece {
                if from > to || *to > node.count() || keys.is_some_and(|keys| keys != node.keys) {
                    return Err(NodeDamage::new(2, "parts of nodes of one order", *to));
                }
                keys = Some(node.keys);
            }
        }
        Ok(EntryRun { pieces, keys: keys.unwrap_or(Keys::Bytewise) })
    }

    pub(super) fn len(&self) -> usize {
        self.pieces.iter().map(Piece::len).sum()
    }

    fn locate(&self, mut v: usize) -> Result<(&Piece<'a, B>, usize), NodeDamage> {
        for piece in &self.pieces {
            if v < piece.len() {
                return Ok((piece, v));
            }
            v -= piece.len();
        }
        Err(NodeDamage::new(2, "an entry in the run", v))
    }

    /// Writes key `v` to `out`.
    pub(super) fn key_into(&self, v: usize, out: &mut Vec<u8>) -> Result<(), NodeDamage> {
        out.clear();
        match self.locate(v)? {
            (Piece::Part { node, from, .. }, i) => node.append_key(from + i, out),
            (Piece::One { key, .. }, _) => {
                out.extend_from_slice(key);
                Ok(())
            }
            (Piece::Empty, _) => Ok(()),
        }
    }

    /// The child of entry `v` of a run of branches.
    pub(super) fn child(&self, v: usize) -> Result<u32, NodeDamage> {
        match self.locate(v)? {
            (Piece::Part { node, from, .. }, i) => node.child(from + i + 1),
            (Piece::One { load, .. }, _) => Ok(load.child),
            (Piece::Empty, _) => Ok(0),
        }
    }

    /// The best prefix for a node of `range`: what its first and last key share. A single key takes what it shares
    /// with its neighbour in the run: all of it would not survive the next insert.
    pub(super) fn prefix(&self, range: Range<usize>) -> Result<usize, NodeDamage> {
        let (low, high) = match range.len() {
            0 => return Ok(0),
            1 if range.start > 0 => (range.start - 1, range.start),
            1 if range.end < self.len() => (range.start, range.end),
            1 => return Ok(0),
            _ => (range.start, range.end - 1),
        };
        if self.keys == Keys::Custom {
            return Ok(0);
        }
        let (mut a, mut b) = (Scratch::new(), Scratch::new());
        self.key_into(low, &mut a)?;
        self.key_into(high, &mut b)?;
        Ok(shared(self.keys, &a, &b))
    }

    /// Bytes a node of `range` takes, given the length of its prefix.
    pub(super) fn size(&self, range: Range<usize>, prefix: usize) -> Result<usize, NodeDamage> {
        let mut size = NODE_HEADER + prefix.next_multiple_of(8);
        self.measure(range, prefix, |cost| size += cost)?;
        Ok(size)
    }

    /// Calls `each` with the bytes that each entry of `range` takes in a node with a prefix of `prefix` bytes.
    fn measure(
        &self,
        range: Range<usize>,
        prefix: usize,
        mut each: impl FnMut(usize),
    ) -> Result<(), NodeDamage> {
        let mut first = 0;
        for piece in &self.pieces {
            let from = range.start.max(first);
            let to = range.end.min(first + piece.len());
            if from < to {
                match piece {
                    Piece::Part { node, from: start, .. } => {
                        for i in start + from - first..start + to - first {
                            let (klen, value) = node.lengths(i)?;
                            each(cost::<B>(node.prefix.len() + klen, prefix, value));
                        }
                    }
                    Piece::One { key, load } => each(cost::<B>(key.len(), prefix, load.value.bytes.len())),
                    Piece::Empty => {}
                }
            }
            first += piece.len();
        }
        Ok(())
    }

    /// Bytes a node of `range` takes with its best prefix.
    pub(super) fn best_size(&self, range: Range<usize>) -> Result<usize, NodeDamage> {
        let prefix = self.prefix(range.clone())?;
        self.size(range, prefix)
    }

    /// Where to cut the run in two nodes of about the same size, each within `payload`: the number of entries that
    /// go left (in a branch the entry there goes up, into neither).
    pub(super) fn cut(&self, payload: usize) -> Result<usize, NodeDamage> {
        let len = self.len();
        if len < 2 {
            return Err(NodeDamage::new(2, "at least two entries to part", len));
        }
        let prefix = self.prefix(0..len)?;
        let total = self.size(0..len, prefix)?;
        let (mut left, mut v, mut middle) = (NODE_HEADER, 0, 0);
        self.measure(0..len, prefix, |cost| {
            v += 1;
            if 2 * left + cost <= total {
                middle = v;
            }
            left += cost;
        })?;
        let middle = middle.clamp(1, len - 1);
        if self.parts_fit(middle, payload)? {
            return Ok(middle);
        }
        // A key that does not share the others' long prefix needs a node of its own; it is the first or the last.
        for k in [1, len - 1].into_iter().chain(1..len) {
            if self.parts_fit(k, payload)? {
                return Ok(k);
            }
        }
        Err(NodeDamage::new(2, "entries that fit two nodes", total))
    }

    /// Where to cut the run if entries come in order at place `i`, the next one there: as many as go left. What is after
    /// that place is parted from it, so that from then on entries come to the end of a leaf, which leaves full ones; but
    /// a little is carried along. As [`EntryRun::cut`] where that does not fit.
    pub(super) fn cut_at(&self, i: usize, payload: usize) -> Result<usize, NodeDamage> {
        let after_heads = self.best_size(i + 1..self.len())?;
        let at = if 8 * after_heads < payload { i } else { i + 1 };
        let fits = (1..self.len()).contains(&at) && self.parts_fit(at, payload)?;
        if fits { Ok(at) } else { self.cut(payload) }
    }

    /// Where to cut the run for an owner that stores a page's upper bound next to its node: the left part and the
    /// separator must fit `left` bytes together, the right part `right` bytes. `wish` is tried first, then shorter
    /// left parts down to the middle, then the edges. `None` if nothing fits.
    pub(super) fn cut_beside(
        &self,
        wish: usize,
        left: usize,
        right: usize,
    ) -> Result<Option<usize>, NodeDamage> {
        let len = self.len();
        let Some(last) = len.checked_sub(1).filter(|last| *last > 0) else { return Ok(None) };
        let middle = self.cut(left.max(right)).unwrap_or(len / 2);
        let mut separator = Scratch::new();
        for k in [wish, wish - wish / 32, wish - wish / 8, middle, len / 2, len / 4, 3 * len / 4, 1, last] {
            let k = k.clamp(1, last);
            self.parting_key(k, &mut separator)?;
            let from = if B { k + 1 } else { k };
            if self.best_size(0..k)? + separator.len() <= left && self.best_size(from..len)? <= right {
                return Ok(Some(k));
            }
        }
        Ok(None)
    }

    /// What parts the halves of a cut at `k`: in a branch the separator there, in a leaf the shortest.
    fn parting_key(&self, k: usize, out: &mut Vec<u8>) -> Result<(), NodeDamage> {
        if B { self.key_into(k, out) } else { self.separator(k, out) }
    }

    fn parts_fit(&self, k: usize, payload: usize) -> Result<bool, NodeDamage> {
        let right = if B { k + 1 } else { k };
        Ok(self.best_size(0..k)? <= payload && self.best_size(right..self.len())? <= payload)
    }

    /// Writes the entries of `range` as a node over `page`, with a prefix of `prefix` bytes that all of them have.
    pub(super) fn fill(
        &self,
        range: Range<usize>,
        prefix: usize,
        leftmost: u32,
        page: &mut [u8],
    ) -> Result<(), NodeDamage> {
        let size = self.size(range.clone(), prefix)?;
        let count = range.len();
        // Checked before anything is written: a page that cannot take the entries is not changed.
        let gap =
            page.len().checked_sub(size).ok_or(NodeDamage::new(2, "entries that fit the node", size))?;
        let mut scratch = Scratch::new();
        if prefix > 0 {
            // A single key's prefix is shared with its neighbour: any key of the range has it.
            self.key_into(range.start, &mut scratch)?;
        }
        let shared =
            scratch.get(..prefix).ok_or(NodeDamage::new(6, "keys as long as their prefix", prefix))?;
        let node = RawMut::<B>::init(page, self.keys, shared, leftmost)?;
        let cap = count + slack(gap, size.checked_div(count).unwrap_or(size));
        store(node.page, 4, &(cap as u16).to_le_bytes())?;
        let l = Layout::parse::<B>(node.page)?;
        let mut filler = Filler::<B> { l, page: node.page, prefix, cells: l.cells, i: 0 };
        let mut first = 0;
        for piece in &self.pieces {
            let from = range.start.max(first);
            let to = range.end.min(first + piece.len());
            match piece {
                Piece::Part { node, from: start, .. } if from < to => {
                    filler.part(node, start + from - first..start + to - first)?;
                }
                Piece::One { key, load } if from < to => {
                    let rest = key.get(8..).unwrap_or(&[]);
                    let entry = Entry { head: head_of(key, 0), klen: key.len(), rest, load: *load };
                    filler.add(&Item { prefix: &[], entry })?;
                }
                _ => {}
            }
            first += piece.len();
        }
        let cells = filler.cells;
        store(node.page, 2, &(count as u16).to_le_bytes())?;
        store(node.page, 8, &(cells as u16).to_le_bytes())
    }

    /// Writes `range` with its best prefix.
    pub(super) fn fill_best(
        &self,
        range: Range<usize>,
        leftmost: u32,
        page: &mut [u8],
    ) -> Result<(), NodeDamage> {
        let prefix = self.prefix(range.clone())?;
        self.fill(range, prefix, leftmost, page)
    }

    /// The shortest key that is above entry `k - 1` and not above entry `k`; all of key `k` in a custom order.
    pub(super) fn separator(&self, k: usize, out: &mut Vec<u8>) -> Result<(), NodeDamage> {
        self.key_into(k, out)?;
        if self.keys == Keys::Bytewise && k > 0 {
            let mut left = Scratch::new();
            self.key_into(k - 1, &mut left)?;
            out.truncate(shared(self.keys, &left, out) + 1);
        }
        Ok(())
    }
}

/// Bytes that an entry with a key of `key` bytes and a value of `value` takes in a node with a prefix of `prefix` bytes.
#[inline(always)]
fn cost<const B: bool>(key: usize, prefix: usize, value: usize) -> usize {
    stride(B) + cell_size(B, key.saturating_sub(prefix), value)
}

/// A node being filled, entry by entry, with cells from the end of the page on.
struct Filler<'p, const B: bool> {
    l: Layout,
    page: &'p mut [u8],
    /// Length of the prefix.
    prefix: usize,
    cells: usize,
    i: usize,
}

impl<const B: bool> Filler<'_, B> {
    /// Takes room for a cell and returns where it begins.
    #[inline(always)]
    fn room(&mut self, bytes: usize) -> Result<usize, NodeDamage> {
        match self.cells.checked_sub(bytes).filter(|cells| *cells >= self.l.end) {
            Some(cells) => {
                self.cells = cells;
                Ok(cells)
            }
            None => Err(NodeDamage::new(self.l.end, "room for a cell", bytes)),
        }
    }

    /// Notes the entry whose cell has been written.
    #[inline(always)]
    fn note(&mut self, head: u64, child: u32, slot: usize) -> Result<(), NodeDamage> {
        store(self.page, self.l.heads + 8 * self.i, &head.to_le_bytes())?;
        if B {
            store(self.page, self.l.children + 4 * self.i, &child.to_le_bytes())?;
        }
        store(self.page, self.l.slots + 2 * self.i, &(slot as u16).to_le_bytes())?;
        self.i += 1;
        Ok(())
    }

    fn add(&mut self, item: &Item<'_>) -> Result<(), NodeDamage> {
        let mut suffix = Scratch::new();
        let entry = refit(item, self.prefix, &mut suffix)?;
        let rest = match entry.rest {
            Rest::Kept(rest) => rest,
            Rest::Moved => suffix.get(8..).unwrap_or(&[]),
        };
        let cells = self.room(cell_size(B, entry.klen, item.entry.load.value.bytes.len()))?;
        let slot = store_cell::<B>(self.page, cells, entry.klen, rest, &item.entry.load)?;
        self.note(entry.head, item.entry.load.child, slot)
    }

    /// Adds entries of a node. Where its prefix stays or grows by no more than a head holds, a leaf's cells are copied as
    /// they are stored, without what the head takes from them.
    fn part(&mut self, node: &Raw<'_, B>, range: Range<usize>) -> Result<(), NodeDamage> {
        let more = self.prefix.checked_sub(node.prefix.len()).filter(|more| !B && *more <= 8);
        let Some(more) = more else {
            for i in range {
                self.add(&Item { prefix: node.prefix, entry: node.entry(i)? })?;
            }
            return Ok(());
        };
        for i in range {
            let Stored { head, klen, word, bytes } = node.stored(i)?;
            let Some(new) = klen.checked_sub(more) else {
                return Err(NodeDamage::new(6, "keys as long as their prefix", klen));
            };
            let (old_rest, rest) = (klen.saturating_sub(8), new.saturating_sub(8));
            let head = shifted(head, bytes.get(..old_rest).unwrap_or(&[]), more);
            let bytes = bytes.get(old_rest - rest..).unwrap_or(&[]);
            let at = self.room(CELL_HEADER + bytes.len())?;
            let [k0, k1] = (new as u16).to_le_bytes();
            if let Some((header, cell)) =
                self.page.get_mut(at..at + CELL_HEADER + bytes.len()).and_then(<[u8]>::split_first_chunk_mut)
            {
                *header = [k0, k1, word[0], word[1]];
                copy(bytes, cell);
            }
            self.note(head, 0, at)?;
        }
        Ok(())
    }
}

/// The head of a key whose prefix grows by `more` bytes, 8 at most: the prefix takes from the head, and the head from
/// `rest`, which is after it.
#[inline(always)]
fn shifted(head: u64, rest: &[u8], more: usize) -> u64 {
    let bits = 8 * more as u32;
    head.unbounded_shl(bits) | head_of(rest, 0).unbounded_shr(64 - bits)
}

/// Where the bytes after the head are.
enum Rest<'a> {
    Kept(&'a [u8]),
    /// After the first 8 bytes of the scratch buffer.
    Moved,
}

struct Refitted<'a> {
    head: u64,
    klen: usize,
    rest: Rest<'a>,
}

/// Head and rest of an entry for another length of prefix; `suffix` is a buffer for keys longer than a head.
#[inline]
fn refit<'a>(item: &Item<'a>, prefix: usize, suffix: &mut Vec<u8>) -> Result<Refitted<'a>, NodeDamage> {
    let entry = &item.entry;
    let old = item.prefix.len();
    if old == prefix {
        return Ok(Refitted { head: entry.head, klen: entry.klen, rest: Rest::Kept(entry.rest) });
    }
    let Some(klen) = (old + entry.klen).checked_sub(prefix) else {
        return Err(NodeDamage::new(6, "keys as long as their prefix", entry.klen));
    };
    if klen <= 8 && entry.klen <= 8 {
        // Both fit a head: shift it.
        let head = if prefix > old {
            entry.head.checked_shl(8 * (prefix - old) as u32).unwrap_or(0)
        } else {
            head_of(item.prefix, prefix) | entry.head.checked_shr(8 * (old - prefix) as u32).unwrap_or(0)
        };
        return Ok(Refitted { head, klen, rest: Rest::Kept(&[]) });
    }
    if let Some(more) = prefix.checked_sub(old).filter(|more| *more <= 8) {
        let head = shifted(entry.head, entry.rest, more);
        return Ok(Refitted { head, klen, rest: Rest::Kept(entry.rest.get(more..).unwrap_or(&[])) });
    }
    suffix.clear();
    suffix.extend_from_slice(item.prefix.get(prefix..).unwrap_or(&[]));
    let head = entry.head.to_be_bytes();
    suffix.extend_from_slice(head.get(..entry.klen).unwrap_or(&head));
    suffix.extend_from_slice(entry.rest);
    suffix.drain(..prefix.saturating_sub(old));
    Ok(Refitted { head: head_of(suffix, 0), klen, rest: Rest::Moved })
}
