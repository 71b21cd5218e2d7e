//! Append areas: entries of a leaf in the order in which they came.
//!
//! Inserting into a sorted array moves what is above, and a store that logs the bytes it changes would log all of
//! that. An owner of pages may put new entries into an append area first, and merge many at once into the sorted
//! part. The area grows down: the entry that came last is at its beginning.
//!
//! One entry, integers little-endian:
//!
//! | offset | size | what |
//! |---|---|---|
//! | 0 | 2 | length of the key, with the mark in bit 15 |
//! | 2 | 2 | length of the value |
//! | 4 | | the key, then the value |

use crate::node::NodeDamage;

/// Bytes before the key.
pub const APPENDED_HEADER: usize = 4;
/// Bit of the key's length: the entry is marked. The owner decides what that means.
const MARK: u16 = 0x8000;

/// Bytes that an entry takes.
pub const fn appended_size(key: usize, value: usize) -> usize {
    APPENDED_HEADER + key + value
}

/// The header of an entry. Lengths are below 32 KiB.
pub fn appended_header(key: &[u8], value: &[u8]) -> [u8; APPENDED_HEADER] {
    let ([k0, k1], [v0, v1]) = ((key.len() as u16).to_le_bytes(), (value.len() as u16).to_le_bytes());
    [k0, k1, v0, v1]
}

/// Marks the entry at offset `at` of the area.
pub fn mark_appended(area: &mut [u8], at: usize) -> Result<(), NodeDamage> {
    match area.get_mut(at + 1) {
        Some(high) => {
            *high |= (MARK >> 8) as u8;
            Ok(())
        }
        None => Err(NodeDamage::new(at, "an entry within the append area", at)),
    }
}

/// An entry of an append area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended<'a> {
    /// Where it begins in the area.
    pub at: usize,
    /// The whole key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// Whether it is marked.
    pub marked: bool,
}

/// Bytes that some keys begin with.
#[derive(Clone, Copy, Debug)]
pub struct Beginning<'b> {
    bytes: &'b [u8],
    /// The last ones, which are compared first: the end of a value differs more often than its beginning.
    end: Option<&'b [u8; 8]>,
}

impl<'b> Beginning<'b> {
    /// These bytes.
    pub fn new(bytes: &'b [u8]) -> Self {
        Beginning { bytes, end: bytes.last_chunk() }
    }

    /// Whether a key begins with them.
    #[inline]
    pub fn is_of(&self, key: &[u8]) -> bool {
        key.get(..self.bytes.len()).is_some_and(|begin| {
            begin.last() == self.bytes.last()
                && (self.end.is_none() || begin.last_chunk::<8>() == self.end)
                && begin == self.bytes
        })
    }
}

/// An append area for reading.
#[derive(Clone, Copy, Debug)]
pub struct AppendArea<'a> {
    bytes: &'a [u8],
}

impl<'a> AppendArea<'a> {
    /// A view of an area's bytes.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        AppendArea { bytes }
    }

    /// Its size in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The entry that begins at `at`.
    #[inline]
    pub fn entry(&self, at: usize) -> Result<Appended<'a>, NodeDamage> {
        let damage = || NodeDamage::new(at, "an entry within the append area", self.bytes.len());
        let rest = self.bytes.get(at..).ok_or_else(damage)?;
        let (&[k0, k1, v0, v1], rest) = rest.split_first_chunk::<APPENDED_HEADER>().ok_or_else(damage)?;
        let (word, value) = (u16::from_le_bytes([k0, k1]), usize::from(u16::from_le_bytes([v0, v1])));
        let (key, rest) = rest.split_at_checked(usize::from(word & !MARK)).ok_or_else(damage)?;
        let value = rest.get(..value).ok_or_else(damage)?;
        Ok(Appended { at, key, value, marked: word & MARK != 0 })
    }

    /// Whether there is an entry, not marked, whose key begins with `prefix`.
    ///
    /// # Errors
    /// An entry before the one that is found is damaged.
    pub fn has_prefix(&self, prefix: &[u8]) -> Result<bool, NodeDamage> {
        let prefix = Beginning::new(prefix);
        let mut at = 0;
        while at < self.bytes.len() {
            let damage = || NodeDamage::new(at, "an entry within the append area", self.bytes.len());
            let rest = self.bytes.get(at..).unwrap_or(&[]);
            let (&[k0, k1, v0, v1], rest) = rest.split_first_chunk::<APPENDED_HEADER>().ok_or_else(damage)?;
            let (word, value) = (u16::from_le_bytes([k0, k1]), usize::from(u16::from_le_bytes([v0, v1])));
            let key = rest.get(..usize::from(word & !MARK)).ok_or_else(damage)?;
            if prefix.is_of(key) && word & MARK == 0 {
                return Ok(true);
            }
            at += appended_size(key.len(), value);
        }
        // The last entry ends where the area does.
        match at == self.bytes.len() {
            true => Ok(false),
            false => Err(NodeDamage::new(at, "an entry within the append area", self.bytes.len())),
        }
    }

    /// The entries, the one that came last first. It ends after damage.
    pub fn entries(self) -> impl Iterator<Item = Result<Appended<'a>, NodeDamage>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            if at >= self.bytes.len() {
                return None;
            }
            let entry = self.entry(at);
            at = match &entry {
                Ok(entry) => at + appended_size(entry.key.len(), entry.value.len()),
                Err(_) => usize::MAX,
            };
            Some(entry)
        })
    }
}

#[cfg(test)]
mod tests {
    use treedb_testing::Rng;

    use super::*;

    #[test]
    fn entries_come_back_in_reverse_order_with_their_marks() {
        let mut rng = Rng::new(1);
        let mut area = Vec::new();
        let mut model: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for _ in 0..100 {
            let mut bytes =
                |len: usize| (0..rng.below(len)).map(|_| rng.below(256) as u8).collect::<Vec<u8>>();
            let (key, value) = (bytes(40), bytes(9));
            let entry = [&appended_header(&key, &value)[..], &key, &value].concat();
            assert_eq!(entry.len(), appended_size(key.len(), value.len()));
            area.splice(0..0, entry);
            model.insert(0, (key, value));
        }
        let places: Vec<usize> = AppendArea::new(&area).entries().map(|entry| entry.unwrap().at).collect();
        mark_appended(&mut area, places[3]).unwrap();
        let read: Vec<Appended<'_>> = AppendArea::new(&area).entries().map(Result::unwrap).collect();
        let pairs: Vec<(Vec<u8>, Vec<u8>)> =
            read.iter().map(|entry| (entry.key.to_vec(), entry.value.to_vec())).collect();
        assert_eq!(pairs, model);
        assert!(read.iter().enumerate().all(|(i, entry)| entry.marked == (i == 3)));
    }

    #[test]
    fn a_prefix_is_found_in_entries_that_are_not_marked() {
        let mut rng = Rng::new(3);
        for _ in 0..500 {
            let mut area = Vec::new();
            for _ in 0..rng.below(12) {
                let key: Vec<u8> = (0..rng.below(14)).map(|_| rng.below(2) as u8).collect();
                let value: Vec<u8> = vec![7; rng.below(4)];
                area.splice(0..0, [&appended_header(&key, &value)[..], &key, &value].concat());
                if rng.below(3) == 0 {
                    mark_appended(&mut area, 0).unwrap();
                }
            }
            let entries: Vec<_> = AppendArea::new(&area).entries().map(Result::unwrap).collect();
            for _ in 0..20 {
                let prefix: Vec<u8> = (0..rng.below(11)).map(|_| rng.below(2) as u8).collect();
                let wanted = entries.iter().any(|entry| !entry.marked && entry.key.starts_with(&prefix));
                assert_eq!(
                    AppendArea::new(&area).has_prefix(&prefix),
                    Ok(wanted),
                    "{prefix:?} in {entries:?}"
                );
            }
        }
    }

    #[test]
    fn hostile_bytes_are_damage_and_end_the_iteration() {
        let mut rng = Rng::new(2);
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..rng.below(60)).map(|_| (rng.below(256) * rng.below(2)) as u8).collect();
            let read: Vec<_> = AppendArea::new(&bytes).entries().collect();
            assert!(read.iter().rev().skip(1).all(Result::is_ok));
            let damaged = read.iter().any(Result::is_err);
            // No key is so long.
            assert_eq!(AppendArea::new(&bytes).has_prefix(&[9; 64]).is_err(), damaged, "{bytes:?}");
        }
    }
}
