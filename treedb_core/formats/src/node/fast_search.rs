//! The fast path through a node: what a get does at each level.
//!
//! Every function here returns `None` in the uncommon cases: equal heads, a custom order, damage.
//! [`Leaf`](super::Leaf) and [`Branch`](super::Branch), which handle every case and explain damage, are used then. What is left is straight code: the header's numbers are checked all at once, and nothing of a node is
//! kept in memory. No branch depends on the key or on the length of the prefix, so that the processor is at the
//! next key while a leaf is still on its way.

use super::bytes::{same, u16_at};
use super::raw::{BRANCH, CELL_HEADER, LEAF, POINTER, stride};
use super::search::lower_bound;
use super::{NODE_HEADER, Value};

/// The parts of a node that a search needs.
struct Parts<'a> {
    page: &'a [u8],
    /// Length of the prefix.
    prefix: usize,
    heads: &'a [[u8; 8]],
    /// Offset after the heads and the unused places for heads.
    after_heads: usize,
}

impl<'a> Parts<'a> {
    /// The parts of a node in byte order.
    #[inline(always)]
    fn of<const B: bool>(page: &'a [u8]) -> Option<Parts<'a>> {
        let (low, high) = page.first_chunk::<NODE_HEADER>()?.split_at(8);
        let low = u64::from_le_bytes(*low.first_chunk()?);
        let field = |at: u32| (low >> (8 * at)) as u16 as usize;
        let (count, cap, prefix) = (field(2), field(4), field(6));
        let cells = u16_at(high, 0)?;
        let heads = NODE_HEADER + ((prefix + 7) & !7);
        let after_heads = heads + 8 * cap;
        let end = after_heads + (stride(B) - 8) * cap;
        // Kind and flags: no flag is set in byte order.
        let kind = usize::from(if B { BRANCH } else { LEAF });
        if (field(0) != kind) | (count > cap) | (end > cells) | (cells > page.len()) {
            return None;
        }
        let heads = page.get(heads..heads + 8 * count)?.as_chunks().0;
        Some(Parts { page, prefix, heads, after_heads })
    }

    /// The head of `key`, if that begins with the prefix.
    #[inline(always)]
    fn head_of(&self, key: &[u8]) -> Option<u64> {
        let Some(first) = key.first_chunk::<8>() else { return self.head_of_short(key) };
        let prefix = self.page.get(NODE_HEADER..)?;
        let begins = if self.prefix < 8 {
            let differ = u64::from_le_bytes(*first) ^ u64::from_le_bytes(*prefix.first_chunk()?);
            differ & ((1 << (8 * self.prefix)) - 1) == 0
        } else {
            same(key.get(..self.prefix)?, prefix.get(..self.prefix)?)
        };
        if !begins {
            return None;
        }
        // Near the key's end its last 8 bytes: what belongs to the prefix is shifted out.
        let from = self.prefix.min(key.len() - 8);
        let word = u64::from_be_bytes(*key.get(from..)?.first_chunk()?);
        Some(word.unbounded_shl(8 * (self.prefix - from) as u32))
    }

    /// The same of a key of less than 8 bytes.
    #[inline(always)]
    fn head_of_short(&self, key: &[u8]) -> Option<u64> {
        if self.prefix > key.len() {
            return None;
        }
        let missing = 8 * (8 - key.len()) as u32;
        let word = match (key.first_chunk(), key.last_chunk()) {
            // The two overlap in the same bytes.
            (Some(first), Some(last)) => {
                u64::from(u32::from_be_bytes(*first)) << 32 | u64::from(u32::from_be_bytes(*last)) << missing
            }
            _ => key.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)).unbounded_shl(missing),
        };
        let prefix = u64::from_be_bytes(*self.page.get(NODE_HEADER..)?.first_chunk()?);
        let differ = (word ^ prefix).unbounded_shr(64 - 8 * self.prefix as u32);
        (differ == 0).then(|| word << (8 * self.prefix))
    }
}

/// The child of a branch in whose range `key` lies.
#[inline(always)]
pub fn child_for(page: &[u8], key: &[u8]) -> Option<u32> {
    let node = Parts::of::<true>(page)?;
    let head = node.head_of(key)?;
    let c = lower_bound(node.heads, head);
    if node.heads.get(c).is_some_and(|equal| u64::from_le_bytes(*equal) == head) {
        return None;
    }
    let at = if c == 0 { 12 } else { node.after_heads + 4 * c - 4 };
    Some(u32::from_le_bytes(*page.get(at..)?.first_chunk()?))
}

/// Where in a leaf the cell of `key` is, in bytes from the payload's start, and the length of the prefix; the cell's own
/// key may still be another. `Some(None)` if it is not there.
#[inline(always)]
pub fn cell_of(page: &[u8], key: &[u8]) -> Option<Option<(usize, usize)>> {
    let node = Parts::of::<false>(page)?;
    let head = node.head_of(key)?;
    let i = lower_bound(node.heads, head);
    let is = |word: &[u8; 8]| u64::from_le_bytes(*word) == head;
    let Some(found) = node.heads.get(i) else { return Some(None) };
    if !is(found) {
        return Some(None);
    }
    if node.heads.get(i + 1).is_some_and(is) {
        return None;
    }
    Some(Some((u16_at(page, node.after_heads + 2 * i)?, node.prefix)))
}

/// The value in the cell at `cell` of a leaf with a prefix of this length, if the cell is that of `key`.
#[inline(always)]
pub fn value_in<'a>(page: &'a [u8], cell: usize, prefix: usize, key: &[u8]) -> Option<Option<Value<'a>>> {
    let ([k0, k1, v0, v1], cell) = page.get(cell..)?.split_first_chunk::<CELL_HEADER>()?;
    let klen = u16::from_le_bytes([*k0, *k1]) as usize;
    let word = u16::from_le_bytes([*v0, *v1]) as usize;
    if klen != key.len() - prefix {
        return Some(None);
    }
    let mut value = cell;
    if klen > 8 {
        let (rest, after) = cell.split_at_checked(klen - 8)?;
        if !same(rest, key.get(prefix + 8..)?) {
            return Some(None);
        }
        value = after;
    }
    let bytes = value.get(..word & !POINTER)?;
    Some(Some(Value { bytes, pointer: word & POINTER != 0 }))
}

/// The value of `key` in a leaf; `Some(None)` if it is not there.
#[inline(always)]
pub fn value_of<'a>(page: &'a [u8], key: &[u8]) -> Option<Option<Value<'a>>> {
    match cell_of(page, key)? {
        Some((cell, prefix)) => value_in(page, cell, prefix, key),
        None => Some(None),
    }
}

#[cfg(test)]
mod tests {
    use treedb_testing::Rng;

    use super::super::{Keys, Leaf, LeafMut};
    use super::*;

    #[test]
    fn the_fast_path_agrees_with_the_slow_one_for_short_keys_too() {
        let (mut rng, mut told) = (Rng::new(5), 0);
        for round in 0..300 {
            let mut page = vec![0; 1024];
            let shared = vec![b'p'; round % 9];
            let mut key = || {
                let tail = (0..rng.below(9)).map(|_| [0, 1, b'a', 0xff][rng.below(4)]).collect::<Vec<_>>();
                let shared = if rng.below(9) > 0 { &shared[..] } else { &[] };
                [shared, &tail].concat()
            };
            let mut leaf = LeafMut::init(&mut page, Keys::Bytewise).unwrap();
            for _ in 0..30 {
                let new = key();
                if let Err(i) = leaf.view().unwrap().search(&new).unwrap() {
                    leaf.insert(i, &new, Value::inline(&new)).unwrap();
                }
            }
            leaf.compact().unwrap();
            for _ in 0..60 {
                let sought = key();
                let careful = Leaf::open(&page).unwrap().get(&sought).unwrap();
                if let Some(found) = value_of(&page, &sought) {
                    assert_eq!(found, careful, "{sought:?}");
                    told += usize::from(sought.len() < 8);
                }
            }
        }
        assert!(told > 3000, "{told} short keys");
    }
}
