//! A hash table of byte strings that numbers its keys from 0 in the order they are inserted.
//!
//! The keys are stored one after another in one buffer, each with an optional payload, so that a new key costs no
//! allocation. The table itself is a [`HashTable`] of their offsets, each with some bits of the key's hash, so that keys
//! that differ are seldom compared.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

/// Bytes of the hash table for each key, on average: 9 bytes a slot, of which 7/16 to 7/8 are used.
const SLOT_BYTES: usize = 16;
/// The low bits of an entry of the hash table: the offset of the key. The high bits are those of its hash.
const OFFSET: u64 = (1 << 40) - 1;
/// Bit of a key length: the key has a payload.
const HAS_PAYLOAD: u32 = 1 << 31;

/// Byte strings, each with a number.
#[derive(Debug, Clone)]
pub(crate) struct KeyTable {
    seed: HashSeed,
    slots: HashTable<u64>,
    /// For each key: its number (u32), its length (u32), the length of the payload (u32, if there is one), key, payload.
    bytes: Vec<u8>,
    len: u32,
}

impl KeyTable {
    /// An empty table.
    pub(crate) fn new(seed: HashSeed) -> Self {
        KeyTable { seed, slots: HashTable::new(), bytes: Vec::new(), len: 0 }
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

    /// The number of a key whose hash is `hash`.
    #[inline]
    pub(crate) fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        let mut number = None;
        self.slots.find(hash, |slot| {
            if (slot ^ hash) & !OFFSET == 0
                && let Some((found, bytes, ..)) = entry_at(&self.bytes, (slot & OFFSET) as usize)
                && bytes == key
            {
                number = Some(found);
            }
            number.is_some()
        });
        number
    }

    /// Inserts a key that is not in the table, with a payload. Returns its number.
    pub(crate) fn insert_new(&mut self, hash: u64, key: &[u8], payload: &[u8]) -> u32 {
        let (number, offset) = (self.len, self.bytes.len() as u64);
        let KeyTable { seed, slots, bytes, .. } = self;
        slots.insert_unique(hash, hash & !OFFSET | offset, |slot| {
            entry_at(bytes, (slot & OFFSET) as usize).map_or(0, |(_, key, ..)| seed.hash(key))
        });
        bytes.extend_from_slice(&number.to_le_bytes());
        if payload.is_empty() {
            bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
        } else {
            bytes.extend_from_slice(&(key.len() as u32 | HAS_PAYLOAD).to_le_bytes());
            bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        }
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(payload);
        self.len += 1;
        number
    }

    /// Inserts a key without a payload; false if it is in the table.
    pub(crate) fn insert(&mut self, key: &[u8]) -> bool {
        let hash = self.hash(key);
        let is_new = self.find(hash, key).is_none();
        if is_new {
            self.insert_new(hash, key, &[]);
        }
        is_new
    }

    /// The key at an offset, its payload, and the offset of the next key; `None` at the end. The first key is at offset 0.
    pub(crate) fn read(&self, offset: usize) -> Option<(&[u8], &[u8], usize)> {
        entry_at(&self.bytes, offset).map(|(_, key, payload, next)| (key, payload, next))
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
            match (table.find(hash, &key), map.get(&key)) {
                (Some(number), Some(known)) => assert_eq!(number, *known),
                (None, None) => {
                    let number = table.insert_new(hash, &key, &payload);
                    assert_eq!(number as usize, order.len());
                    map.insert(key.clone(), number);
                    order.push((key, payload));
                }
                (found, known) => panic!("{key:?}: {found:?}, {known:?}"),
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
