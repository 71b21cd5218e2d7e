//! Packed leaves: entries of one key length, without values, in byte order.
//!
//! An index of fixed-length columns, or one of few distinct values, has only such entries. A packed leaf holds them as
//! an array, without a slot, a head and a cell header for each: 6 to 10 bytes an entry instead of 16 to 20. It is
//! written as a whole and never changed in place, but for its marks.
//!
//! | offset | size | what |
//! |---|---|---|
//! | 0 | 1 | kind: 5 (1 and 2 are nodes, see [`crate::node`]) |
//! | 1 | 1 | zero |
//! | 2 | 2 | count: number of entries |
//! | 4 | 2 | length of the prefix |
//! | 6 | 2 | width: bytes of each key after the prefix |
//! | 8 | prefix | the bytes that all keys begin with |
//! | then | count x width | the keys after the prefix, ascending |
//! | then | (count + 7) / 8 | marks: one bit for each entry, lowest bit first; the owner decides what they mean |
//!
//! Integers are little-endian. Bytes after the marks are the owner's.
//!
//! # Hostile bytes
//! [`PackedLeaf::open`] checks that the arrays lie inside the payload; nothing panics. That keys ascend is checked by
//! [`PackedLeaf::validate`] only.

use std::cmp::Ordering;

use crate::node::{Found, NodeDamage};

/// Kind byte of a packed leaf.
pub const PACKED: u8 = 5;
/// Bytes before the prefix.
const HEADER: usize = 8;

/// Whether a payload is a packed leaf, by its kind byte.
pub fn is_packed(payload: &[u8]) -> bool {
    payload.first() == Some(&PACKED)
}

/// Bytes that a packed leaf of `count` entries takes.
pub const fn packed_size(count: usize, prefix: usize, width: usize) -> usize {
    HEADER + prefix + count * width + count.div_ceil(8)
}

/// A packed leaf for reading.
#[derive(Clone, Copy, Debug)]
pub struct PackedLeaf<'a> {
    prefix: &'a [u8],
    /// All keys after the prefix.
    keys: &'a [u8],
    /// The same, and what follows them.
    rest: &'a [u8],
    marks: &'a [u8],
    width: usize,
    count: usize,
}

/// A part of each key of a packed leaf, as a big-endian number.
#[derive(Clone, Copy, Debug)]
pub struct PackedNumbers<'a> {
    /// The keys after the prefix and what follows them, so that of most keys eight bytes can be read at once.
    rest: &'a [u8],
    width: usize,
    count: usize,
    /// Where the part begins in a key after the prefix, and how many bytes of it are there.
    at: usize,
    len: usize,
    /// What the prefix has of it, in its place.
    shared: u64,
}

impl PackedNumbers<'_> {
    /// That of key `i`; 0 if there is no such key.
    #[inline]
    pub fn get(&self, i: usize) -> u64 {
        if i >= self.count {
            return 0;
        }
        if self.len == 0 {
            return self.shared;
        }
        let rest = self.rest.get(i * self.width + self.at..).unwrap_or(&[]);
        let number = match rest.first_chunk::<8>() {
            Some(word) => u64::from_be_bytes(*word) >> (64 - 8 * self.len),
            None => big_endian(rest.get(..self.len).unwrap_or(&[])),
        };
        self.shared | number
    }
}

impl<'a> PackedNumbers<'a> {
    /// Those of all keys, in their order: faster than one by one.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = u64> + use<'a> {
        let PackedNumbers { len, shared, count, .. } = *self;
        // Where nothing of the part is in the keys, there may be no bytes either.
        let (from, width) = if len == 0 { (&[0; 1][..], 0) } else { (self.rest, self.width) };
        let from = from.get(self.at.min(from.len())..).unwrap_or(&[]);
        let shift = 64_u32.saturating_sub(8 * len as u32);
        (0..count).map(move |i| {
            let rest = from.get(i * width..).unwrap_or(&[]);
            let number = match rest.first_chunk::<8>() {
                Some(word) => u64::from_be_bytes(*word).checked_shr(shift).unwrap_or(0),
                None => big_endian(rest.get(..len).unwrap_or(&[])),
            };
            shared | number
        })
    }
}

/// Bytes, 8 at most, as a number.
#[inline]
pub fn big_endian(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

impl<'a> PackedLeaf<'a> {
    /// Opens a payload as a packed leaf; checks its header.
    #[inline]
    pub fn open(payload: &'a [u8]) -> Result<PackedLeaf<'a>, NodeDamage> {
        let Some((&[kind, _, c0, c1, p0, p1, w0, w1], rest)) = payload.split_first_chunk::<HEADER>() else {
            return Err(NodeDamage::new(
                0,
                "a payload longer than the header of a packed leaf",
                payload.len(),
            ));
        };
        if kind != PACKED {
            return Err(NodeDamage::new(0, "kind 5, a packed leaf", kind.into()));
        }
        let int = |low, high| usize::from(u16::from_le_bytes([low, high]));
        let (count, prefix, width) = (int(c0, c1), int(p0, p1), int(w0, w1));
        let damage = || NodeDamage::new(2, "a number of entries that the payload has room for", count);
        let (prefix, rest) = rest.split_at_checked(prefix).ok_or_else(damage)?;
        let (keys, behind) = rest.split_at_checked(count * width).ok_or_else(damage)?;
        let marks = behind.get(..count.div_ceil(8)).ok_or_else(damage)?;
        // Keys are different, so only a single one can be all prefix.
        if width == 0 && count > 1 {
            return Err(NodeDamage::new(6, "a width above zero", width));
        }
        Ok(PackedLeaf { prefix, keys, rest, marks, width, count })
    }

    /// Number of entries.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes of the payload in use.
    pub fn end(&self) -> usize {
        packed_size(self.count, self.prefix.len(), self.width)
    }

    /// Key `i` after the prefix.
    #[inline]
    fn suffix(&self, i: usize) -> Result<&'a [u8], NodeDamage> {
        let at = i * self.width;
        match self.keys.get(at..at + self.width) {
            Some(suffix) if i < self.count => Ok(suffix),
            _ => Err(NodeDamage::new(2, "an entry at the place asked for", i)),
        }
    }

    /// Writes key `i` to `out`, replacing what is there.
    #[inline]
    pub fn key_into(&self, i: usize, out: &mut Vec<u8>) -> Result<(), NodeDamage> {
        out.clear();
        self.append_key(i, out)
    }

    /// Appends key `i` to `out`.
    #[inline]
    pub fn append_key(&self, i: usize, out: &mut Vec<u8>) -> Result<(), NodeDamage> {
        let suffix = self.suffix(i)?;
        out.extend_from_slice(self.prefix);
        out.extend_from_slice(suffix);
        Ok(())
    }

    /// Writes key `i` over `out`, which holds another key of this leaf.
    #[inline]
    pub fn replace_key(&self, i: usize, out: &mut Vec<u8>) -> Result<(), NodeDamage> {
        let suffix = self.suffix(i)?;
        out.truncate(self.prefix.len());
        out.extend_from_slice(suffix);
        Ok(())
    }

    /// The last `N` bytes of key `i`; `None` if keys are shorter.
    #[inline]
    pub fn key_tail<const N: usize>(&self, i: usize) -> Option<[u8; N]> {
        let suffix = self.suffix(i).ok()?;
        if let Some(tail) = suffix.last_chunk::<N>() {
            return Some(*tail);
        }
        let mut tail = [0; N];
        let (front, back) = tail.split_at_mut(N - suffix.len());
        back.copy_from_slice(suffix);
        front.copy_from_slice(self.prefix.get(self.prefix.len().checked_sub(front.len())?..)?);
        Some(tail)
    }

    /// Bytes of each key.
    #[inline]
    pub fn key_len(&self) -> usize {
        self.prefix.len() + self.width
    }

    /// The bytes `at..at + len` of each key, 1 to 8; `None` if keys are shorter.
    #[inline]
    pub fn numbers(&self, at: usize, len: usize) -> Option<PackedNumbers<'a>> {
        let end = at.checked_add(len).filter(|end| *end <= self.key_len() && (1..=8).contains(&len))?;
        let prefix = self.prefix.len();
        let shared = self.prefix.get(at.min(prefix)..end.min(prefix))?;
        let own = len - shared.len();
        Some(PackedNumbers {
            rest: self.rest,
            width: self.width,
            count: self.count,
            at: at.saturating_sub(prefix),
            len: own,
            shared: if shared.is_empty() { 0 } else { big_endian(shared) << (8 * own) },
        })
    }

    /// Whether entry `i` is marked.
    #[inline]
    pub fn is_marked(&self, i: usize) -> bool {
        self.marks.get(i / 8).is_some_and(|byte| byte >> (i % 8) & 1 == 1)
    }

    /// Whether any entry is marked.
    pub fn has_marks(&self) -> bool {
        self.marks.iter().any(|byte| *byte != 0)
    }

    /// The place of `key`, which may be shorter or longer than the keys of the leaf.
    pub fn search(&self, key: &[u8]) -> Found {
        let Some((front, suffix)) = key.split_at_checked(self.prefix.len()) else {
            // A key that is shorter than the prefix and begins it is below all keys.
            return Err(if self.prefix < key { self.count } else { 0 });
        };
        match self.prefix.cmp(front) {
            Ordering::Less => return Err(self.count),
            Ordering::Greater => return Err(0),
            Ordering::Equal => {}
        }
        let wanted = head(suffix);
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            let at = middle * self.width;
            let entry = self.keys.get(at..at + self.width).unwrap_or(&[]);
            let order = match head(entry).cmp(&wanted) {
                // Heads are padded with zeros: equal ones say nothing of keys that are shorter or longer.
                Ordering::Equal => entry.cmp(suffix),
                order => order,
            };
            match order {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }

    /// The order of key `i` against `key`, which may be shorter or longer; `Greater` if there is no key `i`.
    pub fn order(&self, i: usize, key: &[u8]) -> Ordering {
        let Ok(suffix) = self.suffix(i) else { return Ordering::Greater };
        match key.split_at_checked(self.prefix.len()) {
            Some((front, rest)) => self.prefix.cmp(front).then_with(|| suffix.cmp(rest)),
            // A key that begins the prefix is below all keys.
            None if self.prefix < key => Ordering::Less,
            None => Ordering::Greater,
        }
    }

    /// Checks that keys ascend.
    pub fn validate(&self) -> Result<(), NodeDamage> {
        let mut last: Option<&[u8]> = None;
        for i in 0..self.count {
            let suffix = self.suffix(i)?;
            if last.is_some_and(|last| last >= suffix) {
                return Err(NodeDamage::new(
                    HEADER + self.prefix.len() + i * self.width,
                    "ascending keys",
                    i,
                ));
            }
            last = Some(suffix);
        }
        Ok(())
    }
}

/// The first 8 bytes as a big-endian number, padded with zeros.
#[inline]
fn head(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(word) => u64::from_be_bytes(*word),
        None => big_endian(bytes) << (8 * (8 - bytes.len()) % 64),
    }
}

/// Writes a packed leaf of `keys` over the beginning of `payload`; `marked` tells which entries are marked. All keys
/// have the same length and begin with the same `prefix` bytes. Returns how many bytes it takes; `None`, and no
/// change, if that is more than there are, or if the keys are not such.
pub fn write_packed<'k>(
    payload: &mut [u8],
    prefix: usize,
    keys: impl ExactSizeIterator<Item = (&'k [u8], bool)> + Clone,
) -> Option<usize> {
    let count = keys.len();
    let first = keys.clone().next().map_or(&[][..], |(key, _)| key);
    let (shared, width) = (first.get(..prefix)?, first.len() - prefix);
    let size = packed_size(count, prefix, width);
    if size > payload.len() || keys.clone().any(|(key, _)| key.len() != first.len()) {
        return None;
    }
    let mut header = [PACKED, 0, 0, 0, 0, 0, 0, 0];
    for (at, number) in [(2, count), (4, prefix), (6, width)] {
        header.get_mut(at..at + 2)?.copy_from_slice(&u16::try_from(number).ok()?.to_le_bytes());
    }
    let (place, rest) = payload.get_mut(..size)?.split_at_mut(HEADER);
    place.copy_from_slice(&header);
    let (place, rest) = rest.split_at_mut(prefix);
    place.copy_from_slice(shared);
    let (places, marks) = rest.split_at_mut(count * width);
    marks.fill(0);
    for (i, (key, marked)) in keys.enumerate() {
        if let (Some(place), Some(suffix)) = (places.get_mut(i * width..(i + 1) * width), key.get(prefix..)) {
            place.copy_from_slice(suffix);
        }
        if marked {
            set_bit(marks, i);
        }
    }
    Some(size)
}

/// Marks entry `i` of a packed leaf.
pub fn mark_packed(payload: &mut [u8], i: usize) -> Result<(), NodeDamage> {
    let leaf = PackedLeaf::open(payload)?;
    if i >= leaf.count {
        return Err(NodeDamage::new(2, "an entry at the place asked for", i));
    }
    let (from, to) = (leaf.end() - leaf.marks.len(), leaf.end());
    if let Some(marks) = payload.get_mut(from..to) {
        set_bit(marks, i);
    }
    Ok(())
}

/// Removes the entries of a packed leaf for which `gone` is true, those behind them moving up. Returns how many bytes the
/// leaf takes afterwards; those up to its former end keep some of what they had.
pub fn remove_packed(payload: &mut [u8], gone: impl Fn(usize) -> bool) -> Result<usize, NodeDamage> {
    let leaf = PackedLeaf::open(payload)?;
    let (count, width, marked) = (leaf.count, leaf.width, leaf.has_marks());
    let from = HEADER + leaf.prefix.len();
    let old_marks = from + count * width;
    // A run of entries that stay is moved at once.
    let (mut kept, mut i) = (0, 0);
    while i < count {
        let run = i;
        while i < count && !gone(i) {
            i += 1;
        }
        if kept < run && run < i {
            payload.copy_within(from + run * width..from + i * width, from + kept * width);
        }
        kept += i - run;
        i += 1;
    }
    let marks = from + kept * width;
    let end = marks + kept.div_ceil(8);
    if !marked {
        payload.iter_mut().take(end).skip(marks).for_each(|byte| *byte = 0);
    } else {
        // Byte by byte: none is written before the bits that were there have been read.
        let (mut byte, mut at) = (0_u8, 0);
        for i in (0..count).filter(|i| !gone(*i)) {
            let bit = payload.get(old_marks + i / 8).map_or(0, |old| old >> (i % 8) & 1);
            byte |= bit << (at % 8);
            at += 1;
            if (at % 8 == 0 || at == kept)
                && let Some(place) = payload.get_mut(marks + (at - 1) / 8)
            {
                *place = byte;
                byte = 0;
            }
        }
    }
    if let Some(place) = payload.get_mut(2..4) {
        place.copy_from_slice(&(kept as u16).to_le_bytes());
    }
    Ok(end)
}

/// Sets bit `i` of marks; nothing if there is none.
pub(crate) fn set_bit(marks: &mut [u8], i: usize) {
    if let Some(byte) = marks.get_mut(i / 8) {
        *byte |= 1 << (i % 8);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use treedb_testing::Rng;

    use super::*;
    use crate::node::common;

    fn leaf_of(keys: &BTreeSet<Vec<u8>>, payload: &mut [u8]) -> Option<usize> {
        let (first, last) = (keys.first()?, keys.last()?);
        write_packed(
            payload,
            common(first, last),
            Vec::from_iter(keys).iter().map(|key| (key.as_slice(), false)),
        )
    }

    #[test]
    fn a_packed_leaf_agrees_with_a_set_of_keys() {
        let mut rng = Rng::new(1);
        for round in 0..500 {
            let len = 1 + rng.below(20);
            let letters = if round % 2 == 0 { 256 } else { 3 };
            let mut key = |len: usize| (0..len).map(|_| rng.below(letters) as u8).collect::<Vec<u8>>();
            let keys: BTreeSet<Vec<u8>> = (0..100).map(|_| key(len)).collect();
            let probes: Vec<Vec<u8>> =
                (0..200).map(|n| key(n % (len + 3))).chain(keys.iter().cloned()).collect();
            let mut payload = vec![0xAA; 8192];
            let end = leaf_of(&keys, &mut payload).unwrap();
            let leaf = PackedLeaf::open(&payload).unwrap();
            leaf.validate().unwrap();
            assert_eq!((leaf.count(), leaf.end()), (keys.len(), end));
            let mut out = Vec::new();
            for (i, key) in keys.iter().enumerate() {
                leaf.key_into(i, &mut out).unwrap();
                assert_eq!(&out, key);
                leaf.key_into(keys.len() - 1, &mut out).unwrap();
                leaf.replace_key(i, &mut out).unwrap();
                assert_eq!(&out, key);
                assert_eq!(leaf.key_tail::<1>(i).as_ref(), key.last_chunk::<1>());
                assert_eq!(leaf.key_tail::<6>(i).as_ref(), key.last_chunk::<6>());
                for at in 0..len {
                    for part in 1..=8 {
                        let number = leaf.numbers(at, part).map(|numbers| numbers.get(i));
                        assert_eq!(number, key.get(at..at + part).map(big_endian));
                    }
                }
            }
            for at in 0..len {
                for part in (1..=8).filter(|part| at + part <= len) {
                    let numbers: Vec<u64> = leaf.numbers(at, part).unwrap().iter().collect();
                    let expected: Vec<u64> = keys.iter().map(|key| big_endian(&key[at..at + part])).collect();
                    assert_eq!(numbers, expected);
                }
            }
            for probe in &probes {
                let below = keys.range(..probe.clone()).count();
                let expected = if keys.contains(probe) { Ok(below) } else { Err(below) };
                assert_eq!(leaf.search(probe), expected, "{probe:?} in {keys:?}");
                for (i, key) in keys.iter().enumerate() {
                    assert_eq!(leaf.order(i, probe), key.cmp(probe), "{probe:?} against {key:?}");
                }
            }
        }
    }

    #[test]
    fn marks_are_kept_for_each_entry() {
        let keys: BTreeSet<Vec<u8>> = (0..50_u8).map(|n| vec![n, n]).collect();
        let mut payload = vec![0; 512];
        let end = leaf_of(&keys, &mut payload).unwrap();
        for i in [0, 7, 8, 49] {
            mark_packed(&mut payload, i).unwrap();
        }
        let leaf = PackedLeaf::open(&payload).unwrap();
        assert_eq!(leaf.end(), end);
        let marked: Vec<usize> = (0..50).filter(|i| leaf.is_marked(*i)).collect();
        assert_eq!(marked, [0, 7, 8, 49]);
        assert!(mark_packed(&mut payload, 50).is_err());
    }

    #[test]
    fn what_is_left_after_a_removal_is_what_was_not_removed() {
        let mut rng = Rng::new(3);
        for round in 0..500 {
            let len = 1 + rng.below(12);
            let keys: BTreeSet<Vec<u8>> = (0..rng.below(120))
                .map(|_| std::iter::repeat_with(|| rng.below(4) as u8).take(len).collect())
                .collect();
            let keys: Vec<Vec<u8>> = keys.into_iter().collect();
            let marks: Vec<bool> = keys.iter().map(|_| round % 2 == 0 && rng.below(3) == 0).collect();
            let share = 1 + rng.below(8);
            let gone: Vec<bool> = keys.iter().map(|_| rng.below(share) == 0).collect();
            let prefix = match (keys.first(), keys.last()) {
                (Some(first), Some(last)) if first != last => common(first, last),
                _ => 0,
            };
            let mut payload = vec![0xAA; 4096];
            let of = keys.iter().zip(&marks).map(|(key, mark)| (key.as_slice(), *mark));
            write_packed(&mut payload, prefix, Vec::from_iter(of).into_iter()).unwrap();
            let end = remove_packed(&mut payload, |i| gone[i]).unwrap();
            let leaf = PackedLeaf::open(&payload).unwrap();
            leaf.validate().unwrap();
            assert_eq!(leaf.end(), end);
            let mut out = Vec::new();
            let left: Vec<(Vec<u8>, bool)> = (0..leaf.count())
                .map(|i| {
                    leaf.key_into(i, &mut out).unwrap();
                    (out.clone(), leaf.is_marked(i))
                })
                .collect();
            let expected: Vec<(Vec<u8>, bool)> =
                (0..keys.len()).filter(|i| !gone[*i]).map(|i| (keys[i].clone(), marks[i])).collect();
            assert_eq!(left, expected);
        }
    }

    #[test]
    fn keys_that_do_not_fit_or_differ_in_length_are_refused() {
        let mut payload = [0; 64];
        let keys = [&b"abcd"[..], &b"abce"[..]];
        assert_eq!(write_packed(&mut payload[..10], 3, keys.iter().map(|key| (*key, false))), None);
        let keys = [&b"abcd"[..], &b"abc"[..]];
        assert_eq!(write_packed(&mut payload, 3, keys.iter().map(|key| (*key, false))), None);
        assert_eq!(payload, [0; 64]);
    }

    #[test]
    fn hostile_bytes_are_damage_and_not_a_panic() {
        let mut rng = Rng::new(2);
        for _ in 0..20_000 {
            let mut payload: Vec<u8> = (0..rng.below(80)).map(|_| rng.below(256) as u8).collect();
            if let Some(kind) = payload.first_mut() {
                *kind = PACKED;
            }
            if let Ok(leaf) = PackedLeaf::open(&payload) {
                let mut out = Vec::new();
                for i in 0..leaf.count() + 1 {
                    let _ = (leaf.key_into(i, &mut out), leaf.key_tail::<6>(i), leaf.is_marked(i));
                }
                let (at, len) = (rng.below(70), rng.below(10));
                if let Some(numbers) = leaf.numbers(at, len) {
                    (0..leaf.count() + 1).for_each(|i| _ = numbers.get(i));
                    assert!(numbers.iter().eq((0..leaf.count()).map(|i| numbers.get(i))));
                }
                let _ = (leaf.search(b"abc"), leaf.order(at, b"abc"), leaf.validate(), leaf.end());
            }
        }
    }
}
