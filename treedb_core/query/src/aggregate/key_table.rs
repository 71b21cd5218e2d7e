//! A hash table of byte strings that numbers its keys from 0 in the order they are inserted.
//!
//! The keys are stored one after another in one buffer, each with an optional payload, so that a new key costs no
//! allocation. A slot of the table has a part of the key's hash and the offset of the key, so that keys that
//! differ are seldom compared. Collisions are resolved by linear probing.
//!
//! Why not `hashbrown::HashTable`: a `$group` over it took 1.0 % more instructions for 100,000 documents with different
//! keys, 3.6 % more for six documents of each of 100,000 keys, and 5.1 % more for 60,000 documents of each of 10 keys
//! (callgrind, release build, `{ _id: "$k", n: { $sum: "$n" } }`).

use std::hash::{BuildHasher, RandomState};

/// Slots of a table when its first key is inserted.
const MIN_SLOTS: usize = 16;
/// Bytes of slots for each key, on average: there are 4/3 to 8/3 slots of 8 bytes.
const SLOT_BYTES: usize = 16;
/// The low bits of a slot: the offset of the key, plus one. The high bits are those of its hash.
const OFFSET: u64 = (1 << 40) - 1;
/// Bit of a key length: the key has a payload.
const HAS_PAYLOAD: u32 = 1 << 31;

/// Byte strings, each with a number.
#[derive(Debug, Clone)]
pub(crate) struct KeyTable {
    seed: HashSeed,
    /// Their number is a power of two or 0; 0 marks an empty slot.
    slots: Vec<u64>,
    /// For each key: its number (u32), its length (u32), the length of the payload (u32, if there is one), key, payload.
    bytes: Vec<u8>,
    len: u32,
}

/// The result of looking a key up.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Entry {
    /// The number of the key.
    Occupied(u32),
    /// The slot for the key, which is not in the table.
    Vacant(usize),
}

impl KeyTable {
    /// An empty table.
    pub(crate) fn new(seed: HashSeed) -> Self {
        KeyTable { seed, slots: Vec::new(), bytes: Vec::new(), len: 0 }
    }

    /// The hash of a key. It is the same in all tables with the same seed.
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        self.seed.hash(key)
    }

    /// The number of keys.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// True if no key can be inserted: numbers or offsets are used up.
    pub(crate) fn is_full(&self) -> bool {
        self.len == u32::MAX || self.bytes.len() as u64 >= OFFSET / 2
    }

    /// Bytes of memory, with the average number of slots for each key.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + self.len() * SLOT_BYTES
    }

    /// Looks up a key whose hash is `hash`. A vacant slot may be used until the next call of this method.
    #[inline]
    pub(crate) fn entry(&mut self, hash: u64, key: &[u8]) -> Entry {
        if self.slots.len() * 3 <= self.len as usize * 4 {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots.get(at).copied().unwrap_or_default();
            if slot == 0 {
                return Entry::Vacant(at);
            }
            if (slot ^ hash) & !OFFSET == 0
                && let Some((number, found, ..)) = entry_at(&self.bytes, (slot & OFFSET) as usize - 1)
                && equal(found, key)
            {
                return Entry::Occupied(number);
            }
            at = (at + 1) & mask;
        }
    }

    /// Inserts a key with a payload in the vacant slot that [`Self::entry`] returned for it. Returns its number.
    pub(crate) fn insert_at(&mut self, slot: usize, hash: u64, key: &[u8], payload: &[u8]) -> u32 {
        let (number, offset) = (self.len, self.bytes.len());
        if let Some(slot) = self.slots.get_mut(slot) {
            *slot = hash & !OFFSET | (offset as u64 + 1);
        }
        self.bytes.extend_from_slice(&number.to_le_bytes());
        if payload.is_empty() {
            self.bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
        } else {
            self.bytes.extend_from_slice(&(key.len() as u32 | HAS_PAYLOAD).to_le_bytes());
            self.bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        }
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(payload);
        self.len += 1;
        number
    }

    /// Inserts a key without a payload; false if it is in the table.
    pub(crate) fn insert(&mut self, key: &[u8]) -> bool {
        let hash = self.hash(key);
        match self.entry(hash, key) {
            Entry::Occupied(_) => false,
            Entry::Vacant(slot) => {
                self.insert_at(slot, hash, key, &[]);
                true
            }
        }
    }

    /// The key at an offset, its payload, and the offset of the next key; `None` at the end. The first key is at offset 0.
    pub(crate) fn read(&self, offset: usize) -> Option<(&[u8], &[u8], usize)> {
        entry_at(&self.bytes, offset).map(|(_, key, payload, next)| (key, payload, next))
    }

    #[cold]
    fn grow(&mut self) {
        let count = (self.slots.len() * 2).max(MIN_SLOTS);
        let (mut slots, mask) = (vec![0_u64; count], count - 1);
        let mut offset = 0;
        while let Some((_, key, _, next)) = entry_at(&self.bytes, offset) {
            let hash = self.seed.hash(key);
            let mut at = hash as usize & mask;
            while slots.get(at).is_some_and(|slot| *slot != 0) {
                at = (at + 1) & mask;
            }
            if let Some(slot) = slots.get_mut(at) {
                *slot = hash & !OFFSET | (offset as u64 + 1);
            }
            offset = next;
        }
        self.slots = slots;
    }
}

/// Whether two keys are equal. Most are short: their words are compared here, without a call.
#[inline]
fn equal(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    match (a.first_chunk::<8>(), b.first_chunk::<8>()) {
        (Some(first), Some(other)) if a.len() <= 16 => {
            first == other && a.last_chunk::<8>() == b.last_chunk::<8>()
        }
        (None, _) => a.iter().zip(b).all(|(a, b)| a == b),
        _ => a == b,
    }
}

/// The number of the key at an offset, the key, its payload, and the offset of the next key.
#[inline]
fn entry_at(bytes: &[u8], offset: usize) -> Option<(u32, &[u8], &[u8], usize)> {
    let rest = bytes.get(offset..)?;
    let (number, rest) = rest.split_first_chunk::<4>()?;
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let (number, len) = (u32::from_le_bytes(*number), u32::from_le_bytes(*len));
    if len & HAS_PAYLOAD == 0 {
        let key = rest.get(..len as usize)?;
        return Some((number, key, &[], offset + 8 + key.len()));
    }
    let (payload_len, rest) = rest.split_first_chunk::<4>()?;
    let (key, rest) = rest.split_at_checked((len & !HAS_PAYLOAD) as usize)?;
    let payload = rest.get(..u32::from_le_bytes(*payload_len) as usize)?;
    Some((number, key, payload, offset + 12 + key.len() + payload.len()))
}

/// The seed of a hash function: random, so that keys with equal hashes cannot be chosen by an attacker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HashSeed(u64);

impl HashSeed {
    pub(crate) fn new() -> Self {
        HashSeed(RandomState::new().hash_one(0_u64))
    }

    /// A hash of a short key: every 8 bytes are mixed in by a multiplication of which both halves are kept.
    #[inline]
    pub(crate) fn hash(self, key: &[u8]) -> u64 {
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
    fn keys_are_numbered_and_read_in_the_order_they_were_inserted() {
        let (mut rng, mut table, mut map) = (Rng::new(3), KeyTable::new(HashSeed::new()), HashMap::new());
        let mut order = Vec::new();
        for _ in 0..20_000 {
            let key: Vec<u8> = (0..rng.below(20)).map(|_| rng.below(3) as u8).collect();
            let payload = vec![7_u8; rng.below(3)];
            let hash = table.hash(&key);
            match (table.entry(hash, &key), map.get(&key)) {
                (Entry::Occupied(number), Some(known)) => assert_eq!(number, *known),
                (Entry::Vacant(slot), None) => {
                    let number = table.insert_at(slot, hash, &key, &payload);
                    assert_eq!(number as usize, order.len());
                    map.insert(key.clone(), number);
                    order.push((key, payload));
                }
                (entry, known) => panic!("{key:?}: {entry:?}, {known:?}"),
            }
        }
        assert!(order.len() > 5000 && table.len() == order.len() && table.size() > order.len() * 16);
        let (mut offset, mut found) = (0, Vec::new());
        while let Some((key, payload, next)) = table.read(offset) {
            found.push((key.to_vec(), payload.to_vec()));
            offset = next;
        }
        assert_eq!(found, order);
    }

    #[test]
    fn keys_that_differ_in_one_byte_spread_over_the_hashes() {
        let seed = HashSeed::new();
        let count = |shift: u32| {
            let all = (0..4096_u64).map(|n| (seed.hash(&n.to_le_bytes()) >> shift) as usize & 4095);
            all.collect::<std::collections::HashSet<_>>().len()
        };
        // Random values meet 63 % of the places.
        assert!(count(0) > 2300 && count(40) > 2300 && count(52) > 2300);
    }
}
