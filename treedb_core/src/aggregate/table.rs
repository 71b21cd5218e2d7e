//! Byte keys, each with a number in the order they came and bytes of its own.
//!
//! The keys lie one after the other in one buffer; a slot of the table holds a part of a key's hash and where the key
//! is, so that nearly every key that is looked at is the one that is looked for, and a new key costs no allocation.

use std::hash::{BuildHasher, RandomState};

/// Slots of a table with its first key.
const FIRST: usize = 16;
/// Bytes of slots for each key: there are between four thirds and eight thirds of one.
const SLOTS: usize = 16;
/// Low bits of a slot: where the key is, one added. Above them are bits of its hash.
const PLACE: u64 = (1 << 40) - 1;
/// Marks the length of a key that has bytes of its own behind it.
const MORE: u32 = 1 << 31;

/// Keys and their numbers.
#[derive(Debug, Clone)]
pub(super) struct Table {
    seed: Seed,
    /// A power of two of them, or none.
    slots: Vec<u64>,
    /// Of each key: number (4 bytes), length (4), length of what belongs to it (4, if there is any), both.
    bytes: Vec<u8>,
    len: u32,
}

/// Where a key is or would be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Look {
    /// The number of a key that is there.
    At(u32),
    /// The slot for one that is not.
    Free(usize),
}

impl Table {
    /// No keys.
    pub(super) fn new(seed: Seed) -> Self {
        Table { seed, slots: Vec::new(), bytes: Vec::new(), len: 0 }
    }

    /// The hash of a key, which is that of every table with the same seed.
    #[inline]
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        self.seed.hash(key)
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// True if no key can be added: numbers and places are used up.
    pub(super) fn is_full(&self) -> bool {
        self.len == u32::MAX || self.bytes.len() as u64 >= PLACE / 2
    }

    /// Bytes it takes, the slots a key needs on the average for each.
    pub(super) fn size(&self) -> usize {
        self.bytes.len() + self.len() * SLOTS
    }

    /// Looks for a key, whose hash is `hash`. A slot that is handed out may be filled until the table is used again.
    #[inline]
    pub(super) fn look(&mut self, hash: u64, key: &[u8]) -> Look {
        if self.slots.len() * 3 <= self.len as usize * 4 {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots.get(at).copied().unwrap_or_default();
            if slot == 0 {
                return Look::Free(at);
            }
            if (slot ^ hash) & !PLACE == 0
                && let Some((number, found, ..)) = entry(&self.bytes, (slot & PLACE) as usize - 1)
                && found == key
            {
                return Look::At(number);
            }
            at = (at + 1) & mask;
        }
    }

    /// Puts a key into the slot where [`Self::look`] missed it, with bytes of its own. Returns its number.
    pub(super) fn fill(&mut self, slot: usize, hash: u64, key: &[u8], own: &[u8]) -> u32 {
        let (number, place) = (self.len, self.bytes.len());
        if let Some(slot) = self.slots.get_mut(slot) {
            *slot = hash & !PLACE | (place as u64 + 1);
        }
        self.bytes.extend_from_slice(&number.to_le_bytes());
        if own.is_empty() {
            self.bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
        } else {
            self.bytes.extend_from_slice(&(key.len() as u32 | MORE).to_le_bytes());
            self.bytes.extend_from_slice(&(own.len() as u32).to_le_bytes());
        }
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(own);
        self.len += 1;
        number
    }

    /// Adds a key if it is not there; true if it was not.
    pub(super) fn add(&mut self, key: &[u8]) -> bool {
        let hash = self.hash(key);
        match self.look(hash, key) {
            Look::At(_) => false,
            Look::Free(slot) => {
                self.fill(slot, hash, key, &[]);
                true
            }
        }
    }

    /// The key at a place, its own bytes, and the place of the next; `None` behind the last. The first is at 0.
    pub(super) fn at(&self, place: usize) -> Option<(&[u8], &[u8], usize)> {
        entry(&self.bytes, place).map(|(_, key, own, next)| (key, own, next))
    }

    #[cold]
    fn grow(&mut self) {
        let count = (self.slots.len() * 2).max(FIRST);
        let (mut slots, mask) = (vec![0_u64; count], count - 1);
        let mut place = 0;
        while let Some((_, key, _, next)) = entry(&self.bytes, place) {
            let hash = self.seed.hash(key);
            let mut at = hash as usize & mask;
            while slots.get(at).is_some_and(|slot| *slot != 0) {
                at = (at + 1) & mask;
            }
            if let Some(slot) = slots.get_mut(at) {
                *slot = hash & !PLACE | (place as u64 + 1);
            }
            place = next;
        }
        self.slots = slots;
    }
}

/// The number of the key at a place, the key, its own bytes, and the place of the next.
#[inline]
fn entry(bytes: &[u8], place: usize) -> Option<(u32, &[u8], &[u8], usize)> {
    let rest = bytes.get(place..)?;
    let (number, rest) = rest.split_first_chunk::<4>()?;
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let (number, len) = (u32::from_le_bytes(*number), u32::from_le_bytes(*len));
    if len & MORE == 0 {
        let key = rest.get(..len as usize)?;
        return Some((number, key, &[], place + 8 + key.len()));
    }
    let (more, rest) = rest.split_first_chunk::<4>()?;
    let (key, rest) = rest.split_at_checked((len & !MORE) as usize)?;
    let own = rest.get(..u32::from_le_bytes(*more) as usize)?;
    Some((number, key, own, place + 12 + key.len() + own.len()))
}

/// A secret of its own, so that nobody can choose keys that fall together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seed(u64);

impl Seed {
    pub(super) fn new() -> Self {
        Seed(RandomState::new().hash_one(0_u64))
    }

    /// A hash of a short key: each eight bytes are multiplied in, both halves of the product kept.
    #[inline]
    pub(super) fn hash(self, key: &[u8]) -> u64 {
        let mut state = self.0 ^ key.len() as u64;
        let mut add = |word: u64| {
            let product = u128::from(state ^ word) * u128::from(0xf39c_c060_5ced_c835_u64);
            state = (product as u64) ^ ((product >> 64) as u64) ^ 0x2545_f491_4f6c_dd1d;
        };
        let (words, rest) = key.as_chunks::<8>();
        for word in words {
            add(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        add(u64::from_le_bytes(last));
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    use treedb_testing::Rng;

    #[test]
    fn a_table_numbers_keys_as_a_map_does_and_hands_them_out_in_their_order() {
        let (mut rng, mut table, mut map) = (Rng::new(3), Table::new(Seed::new()), HashMap::new());
        let mut order = Vec::new();
        for _ in 0..20_000 {
            let key: Vec<u8> = (0..rng.below(20)).map(|_| rng.below(3) as u8).collect();
            let own = vec![7_u8; rng.below(3)];
            let hash = table.hash(&key);
            match (table.look(hash, &key), map.get(&key)) {
                (Look::At(number), Some(known)) => assert_eq!(number, *known),
                (Look::Free(slot), None) => {
                    let number = table.fill(slot, hash, &key, &own);
                    assert_eq!(number as usize, order.len());
                    map.insert(key.clone(), number);
                    order.push((key, own));
                }
                (look, known) => panic!("{key:?}: {look:?}, {known:?}"),
            }
        }
        assert!(order.len() > 5000 && table.len() == order.len() && table.size() > order.len() * 16);
        let (mut place, mut found) = (0, Vec::new());
        while let Some((key, own, next)) = table.at(place) {
            found.push((key.to_vec(), own.to_vec()));
            place = next;
        }
        assert_eq!(found, order);
    }

    #[test]
    fn keys_that_differ_in_one_byte_spread_over_the_hashes() {
        let seed = Seed::new();
        let count = |shift: u32| {
            let all = (0..4096_u64).map(|n| (seed.hash(&n.to_le_bytes()) >> shift) as usize & 4095);
            all.collect::<std::collections::HashSet<_>>().len()
        };
        // Thrown by chance, 63 of a hundred places are met.
        assert!(count(0) > 2300 && count(40) > 2300 && count(52) > 2300);
    }
}
