//! Grouped leaves: entries of which many have the same key but for its last bytes, and the same value.
//!
//! An index with few distinct values has such entries: the last bytes of a key tell the row. Entries next to one another
//! that differ only in these bytes, the tail, are a group, which has what they share once. Nothing is asked of the order
//! of keys but that the entries of a group are in the order of their tails: there may be several groups with the same
//! head, where the owner's order puts entries with other bytes between them. A grouped leaf is written as a whole; in
//! place, only its marks are changed and entries removed.
//!
//! | offset | size | what |
//! |---|---|---|
//! | 0 | 1 | kind: 6 (1 and 2 are nodes, see [`crate::node`], 5 is a packed leaf) |
//! | 1 | 1 | length of the tail, 1 to 8 |
//! | 2 | 2 | count: number of entries |
//! | 4 | 2 | number of groups |
//! | 6 | 2 | bytes of all heads and values |
//! | 8 | 6 x groups | for each group where it ends: its last entry's number + 1 (2), the end of its head (2) and of its value (2) among heads and values |
//! | then | count x tail | the last bytes of each key |
//! | then | (count + 7) / 8 | marks: one bit for each entry, lowest bit first; the owner decides what they mean |
//! | then | | of each group its head, which is what its keys begin with, and its value |
//!
//! Integers are little-endian. Bytes after the last value are the owner's.
//!
//! # Hostile bytes
//! [`GroupedLeaf::open`] checks that the arrays lie inside the payload; what a group says of itself is checked when it is
//! used. Nothing panics. [`GroupedLeaf::validate`] checks all groups, and that the tails of each ascend.

use std::cmp::Ordering;
use std::ops::Range;

use crate::node::{Found, NodeDamage};
use crate::packed::{big_endian, set_bit};

/// Kind byte of a grouped leaf.
pub const GROUPED: u8 = 6;
/// Bytes before the groups.
const HEADER: usize = 8;
/// Bytes of a group beside its head and its value.
const GROUP: usize = 6;

/// Whether a payload is a grouped leaf, by its kind byte.
pub fn is_grouped(payload: &[u8]) -> bool {
    payload.first() == Some(&GROUPED)
}

/// A key and its value.
type Pair<'a> = (&'a [u8], &'a [u8]);

/// What the size of a grouped leaf depends on, kept while entries are added.
#[derive(Clone, Copy, Debug)]
pub struct Grouping {
    tail: usize,
    entries: usize,
    groups: usize,
    /// Of heads and values.
    bytes: usize,
}

impl Grouping {
    /// No entries yet; keys have `tail` bytes of their own.
    pub const fn new(tail: usize) -> Grouping {
        Grouping { tail, entries: 0, groups: 0, bytes: 0 }
    }

    /// Adds an entry that comes after `last`, the one that was added before it. Keys are at least as long as the tail.
    #[inline]
    pub fn add(&mut self, last: Option<Pair<'_>>, entry: Pair<'_>) {
        let joins = last.is_some_and(|last| self.are_one_group(last, entry));
        self.add_known(joins, entry);
    }

    /// Adds an entry that `joins` the group of the one that was added before it, or begins another one.
    #[inline]
    pub fn add_known(&mut self, joins: bool, entry: Pair<'_>) {
        self.entries += 1;
        if !joins {
            self.groups += 1;
            self.bytes += self.head(entry.0).len() + entry.1.len();
        }
    }

    /// Bytes that a grouped leaf of the entries takes.
    pub const fn size(&self) -> usize {
        HEADER + GROUP * self.groups + self.entries * self.tail + self.entries.div_ceil(8) + self.bytes
    }

    /// How many bytes at the end of each key are its own.
    pub const fn tail(&self) -> usize {
        self.tail
    }

    /// Whether two entries next to one another are in one group.
    #[inline]
    pub fn are_one_group(&self, a: Pair<'_>, b: Pair<'_>) -> bool {
        a.0.len() == b.0.len() && a.1 == b.1 && self.head(a.0) == self.head(b.0)
    }

    fn head<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        key.get(..key.len().saturating_sub(self.tail)).unwrap_or(&[])
    }
}

/// A grouped leaf for reading.
#[derive(Clone, Copy, Debug)]
pub struct GroupedLeaf<'a> {
    groups: &'a [[u8; GROUP]],
    tails: &'a [u8],
    marks: &'a [u8],
    /// Heads and values.
    bytes: &'a [u8],
    tail: usize,
    count: usize,
}

/// Entries that share head and value.
#[derive(Clone, Copy)]
struct Group<'a> {
    from: usize,
    to: usize,
    head: &'a [u8],
    value: &'a [u8],
}

/// What a group has of itself: the ends of its entries, its head and its value.
fn ends([e0, e1, h0, h1, v0, v1]: [u8; GROUP]) -> (usize, usize, usize) {
    let int = |low, high| usize::from(u16::from_le_bytes([low, high]));
    (int(e0, e1), int(h0, h1), int(v0, v1))
}

impl<'a> GroupedLeaf<'a> {
    /// Opens a payload as a grouped leaf; checks its header.
    #[inline]
    pub fn open(payload: &'a [u8]) -> Result<GroupedLeaf<'a>, NodeDamage> {
        let Some((&[kind, tail, c0, c1, g0, g1, b0, b1], rest)) = payload.split_first_chunk::<HEADER>()
        else {
            return Err(NodeDamage::new(
                0,
                "a payload longer than the header of a grouped leaf",
                payload.len(),
            ));
        };
        if kind != GROUPED {
            return Err(NodeDamage::new(0, "kind 6, a grouped leaf", kind.into()));
        }
        let tail = usize::from(tail);
        if !(1..=8).contains(&tail) {
            return Err(NodeDamage::new(1, "a tail of 1 to 8 bytes", tail));
        }
        let int = |low, high| usize::from(u16::from_le_bytes([low, high]));
        let (count, groups, bytes) = (int(c0, c1), int(g0, g1), int(b0, b1));
        let damage = || NodeDamage::new(2, "a number of entries that the payload has room for", count);
        let (groups, rest) = rest.split_at_checked(GROUP * groups).ok_or_else(damage)?;
        let (tails, rest) = rest.split_at_checked(count * tail).ok_or_else(damage)?;
        let (marks, rest) = rest.split_at_checked(count.div_ceil(8)).ok_or_else(damage)?;
        let bytes = rest.get(..bytes).ok_or_else(damage)?;
        Ok(GroupedLeaf { groups: groups.as_chunks().0, tails, marks, bytes, tail, count })
    }

    /// Number of entries.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes of the payload in use.
    pub fn end(&self) -> usize {
        HEADER + GROUP * self.groups.len() + self.tails.len() + self.marks.len() + self.bytes.len()
    }

    /// Group `number`, which has entries.
    #[inline]
    fn group(&self, number: usize) -> Result<Group<'a>, NodeDamage> {
        let at = HEADER + GROUP * number;
        let own =
            self.groups.get(number).ok_or(NodeDamage::new(4, "a group at the place asked for", number))?;
        let before = number.checked_sub(1).and_then(|before| self.groups.get(before));
        let (from, _, begin) = before.map_or((0, 0, 0), |before| ends(*before));
        let (to, head, value) = ends(*own);
        if from >= to || to > self.count {
            return Err(NodeDamage::new(at, "a group that ends after the one before it", to));
        }
        match (self.bytes.get(begin..head), self.bytes.get(head..value)) {
            (Some(head), Some(value)) => Ok(Group { from, to, head, value }),
            _ => Err(NodeDamage::new(at + 2, "a head and a value within their bytes", head)),
        }
    }

    /// The group of entry `i`.
    #[inline]
    fn group_of(&self, i: usize) -> Result<Group<'a>, NodeDamage> {
        let group = self.group(self.groups.partition_point(|group| ends(*group).0 <= i))?;
        match (group.from..group.to).contains(&i) {
            true => Ok(group),
            false => Err(NodeDamage::new(2, "an entry at the place asked for", i)),
        }
    }

    /// The end of key `i`.
    #[inline]
    fn tail(&self, i: usize) -> Result<&'a [u8], NodeDamage> {
        let at = i * self.tail;
        self.tails.get(at..at + self.tail).ok_or(NodeDamage::new(2, "an entry at the place asked for", i))
    }

    /// Appends key `i` to `out`.
    #[inline]
    pub fn append_key(&self, i: usize, out: &mut Vec<u8>) -> Result<(), NodeDamage> {
        out.extend_from_slice(self.group_of(i)?.head);
        out.extend_from_slice(self.tail(i)?);
        Ok(())
    }

    /// Writes key `i` over `out`, which holds key `previous`.
    #[inline]
    pub fn replace_key(&self, previous: usize, i: usize, out: &mut Vec<u8>) -> Result<(), NodeDamage> {
        let group = self.group_of(i)?;
        match (group.from..group.to).contains(&previous) {
            true => out.truncate(group.head.len()),
            false => {
                out.clear();
                out.extend_from_slice(group.head);
            }
        }
        out.extend_from_slice(self.tail(i)?);
        Ok(())
    }

    /// The value of entry `i`.
    #[inline]
    pub fn value(&self, i: usize) -> Result<&'a [u8], NodeDamage> {
        Ok(self.group_of(i)?.value)
    }

    /// Shows to `each` the last `len` bytes, up to 8, of the keys of `entries` as big-endian numbers, in order.
    pub fn each_end(
        &self,
        entries: Range<usize>,
        len: usize,
        mut each: impl FnMut(u64),
    ) -> Result<(), NodeDamage> {
        let (of_head, mut at) = (len.saturating_sub(self.tail), entries.start);
        while at < entries.end {
            let group = self.group_of(at)?;
            let head = group.head.len().checked_sub(of_head).and_then(|from| group.head.get(from..));
            let head = head.ok_or(NodeDamage::new(HEADER, "keys of at least so many bytes", len))?;
            // Nothing of the head belongs to it where the tail is as long.
            let head = big_endian(head).checked_shl(8 * self.tail as u32).unwrap_or(0);
            let own = u64::MAX >> (64 - 8 * len.clamp(1, 8));
            for i in at..group.to.min(entries.end) {
                each((head | big_endian(self.tail(i)?)) & own);
            }
            at = group.to;
        }
        Ok(())
    }

    /// The last `N` bytes of key `i`, up to 8; `None` if there are no such bytes.
    #[inline]
    pub fn key_tail<const N: usize>(&self, i: usize) -> Option<[u8; N]> {
        let mut tail = None;
        self.each_end(i..i + 1, N, |number| tail = number.to_be_bytes().last_chunk::<N>().copied()).ok()?;
        tail
    }

    /// Whether entry `i` is marked.
    #[inline]
    pub fn is_marked(&self, i: usize) -> bool {
        self.marks.get(i / 8).is_some_and(|byte| byte >> (i % 8) & 1 == 1)
    }

    /// The slot found by a search with `order`, which compares a stored key with the one wanted. Stored keys are put together
    /// in `buffer`.
    pub fn search_by(
        &self,
        buffer: &mut Vec<u8>,
        mut order: impl FnMut(&[u8]) -> Ordering,
    ) -> Result<Found, NodeDamage> {
        // The first group whose last key is not below the one wanted, and within it the first such key.
        let (mut low, mut high) = (0, self.groups.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let group = self.group(middle)?;
            buffer.clear();
            buffer.extend_from_slice(group.head);
            buffer.extend_from_slice(self.tail(group.to - 1)?);
            match order(buffer) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(Ok(group.to - 1)),
            }
        }
        if low == self.groups.len() {
            return Ok(Err(self.count));
        }
        let group = self.group(low)?;
        (low, high) = (group.from, group.to - 1);
        buffer.clear();
        buffer.extend_from_slice(group.head);
        while low < high {
            let middle = low + (high - low) / 2;
            buffer.truncate(group.head.len());
            buffer.extend_from_slice(self.tail(middle)?);
            match order(buffer) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(Ok(middle)),
            }
        }
        Ok(Err(low))
    }

    /// Checks that the groups have all entries, heads and values, and that the tails of each ascend.
    pub fn validate(&self) -> Result<(), NodeDamage> {
        for number in 0..self.groups.len() {
            let group = self.group(number)?;
            for i in group.from + 1..group.to {
                if self.tail(i - 1)? >= self.tail(i)? {
                    let at = HEADER + GROUP * self.groups.len() + i * self.tail;
                    return Err(NodeDamage::new(at, "ascending keys", i));
                }
            }
        }
        let (entries, _, bytes) = self.groups.last().map_or((0, 0, 0), |last| ends(*last));
        if (entries, bytes) != (self.count, self.bytes.len()) {
            return Err(NodeDamage::new(4, "groups with all entries, heads and values", entries));
        }
        Ok(())
    }
}

/// Writes a grouped leaf of `entries` (key, value, whether it is marked) over the beginning of `payload`. Returns how many
/// bytes it takes; `None`, and no change, if that is more than there are, if `tail` is not 1 to 8, or if a key is shorter.
pub fn write_grouped<'k>(
    payload: &mut [u8],
    tail: usize,
    entries: impl Iterator<Item = (&'k [u8], &'k [u8], bool)> + Clone,
) -> Option<usize> {
    let (mut all, mut last) = (Grouping::new(tail), None);
    for (key, value, _) in entries.clone() {
        if key.len() < tail {
            return None;
        }
        all.add(last, (key, value));
        last = Some((key, value));
    }
    let size = all.size();
    if size > payload.len() || size > usize::from(u16::MAX) || !(1..=8).contains(&tail) {
        return None;
    }
    let mut header = [GROUPED, tail as u8, 0, 0, 0, 0, 0, 0];
    for (at, number) in [(2, all.entries), (4, all.groups), (6, all.bytes)] {
        header.get_mut(at..at + 2)?.copy_from_slice(&(number as u16).to_le_bytes());
    }
    let (place, rest) = payload.get_mut(..size)?.split_at_mut(HEADER);
    place.copy_from_slice(&header);
    let (groups, rest) = rest.split_at_mut(GROUP * all.groups);
    let (tails, rest) = rest.split_at_mut(tail * all.entries);
    let (marks, bytes) = rest.split_at_mut(all.entries.div_ceil(8));
    marks.fill(0);
    let mut now = Grouping::new(tail);
    let mut last = None;
    let (groups, tails) = (groups.as_chunks_mut::<GROUP>().0, tails.chunks_exact_mut(tail));
    for ((i, (key, value, marked)), place) in entries.enumerate().zip(tails) {
        let (begin, groups_before) = (now.bytes, now.groups);
        now.add(last, (key, value));
        last = Some((key, value));
        let (head, own) = key.split_at(key.len() - tail);
        place.copy_from_slice(own);
        if marked {
            set_bit(marks, i);
        }
        let (head_end, value_end) = (begin + head.len(), begin + head.len() + value.len());
        if now.groups > groups_before {
            bytes.get_mut(begin..head_end)?.copy_from_slice(head);
            bytes.get_mut(head_end..value_end)?.copy_from_slice(value);
            let group = groups.get_mut(groups_before)?;
            for (at, end) in [(2, head_end), (4, value_end)] {
                group.get_mut(at..at + 2)?.copy_from_slice(&(end as u16).to_le_bytes());
            }
        }
        groups.get_mut(now.groups - 1)?.get_mut(..2)?.copy_from_slice(&(now.entries as u16).to_le_bytes());
    }
    Some(size)
}

/// Marks entry `i` of a grouped leaf.
pub fn mark_grouped(payload: &mut [u8], i: usize) -> Result<(), NodeDamage> {
    let leaf = GroupedLeaf::open(payload)?;
    if i >= leaf.count {
        return Err(NodeDamage::new(2, "an entry at the place asked for", i));
    }
    let to = leaf.end() - leaf.bytes.len();
    let from = to - leaf.marks.len();
    if let Some(marks) = payload.get_mut(from..to) {
        set_bit(marks, i);
    }
    Ok(())
}

/// Removes the entries of a grouped leaf for which `gone` is true. Returns how many bytes the leaf takes afterwards; those up
/// to its former end keep some of what they had.
pub fn remove_grouped(payload: &mut [u8], gone: impl Fn(usize) -> bool) -> Result<usize, NodeDamage> {
    let old = payload.to_vec();
    let leaf = GroupedLeaf::open(&old)?;
    let mut marks = vec![0; leaf.marks.len()];
    let (mut groups, mut tails, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    let mut kept = 0;
    for number in 0..leaf.groups.len() {
        let group = leaf.group(number)?;
        let before = kept;
        for i in (group.from..group.to).filter(|i| !gone(*i)) {
            tails.extend_from_slice(leaf.tail(i)?);
            if leaf.is_marked(i) {
                set_bit(&mut marks, kept);
            }
            kept += 1;
        }
        if kept > before {
            bytes.extend_from_slice(group.head);
            let head_end = bytes.len();
            bytes.extend_from_slice(group.value);
            for end in [kept, head_end, bytes.len()] {
                groups.extend_from_slice(&(end as u16).to_le_bytes());
            }
        }
    }
    marks.truncate(kept.div_ceil(8));
    let mut header = [GROUPED, leaf.tail as u8, 0, 0, 0, 0, 0, 0];
    for (at, number) in [(2, kept), (4, groups.len() / GROUP), (6, bytes.len())] {
        if let Some(place) = header.get_mut(at..at + 2) {
            place.copy_from_slice(&(number as u16).to_le_bytes());
        }
    }
    let left = [&header[..], &groups, &tails, &marks, &bytes].concat();
    match payload.get_mut(..left.len()) {
        Some(place) if left.len() <= leaf.end() => place.copy_from_slice(&left),
        // Only if groups say that they share bytes.
        _ => return Err(NodeDamage::new(6, "heads and values that do not overlap", left.len())),
    }
    Ok(left.len())
}

#[cfg(test)]
mod tests {
    use treedb_testing::Rng;

    use super::*;

    /// Key, value, mark.
    type Entry = (Vec<u8>, Vec<u8>, bool);

    fn write(payload: &mut [u8], tail: usize, entries: &[Entry]) -> Option<usize> {
        write_grouped(
            payload,
            tail,
            entries.iter().map(|(key, value, marked)| (&key[..], &value[..], *marked)),
        )
    }

    /// Different keys in the order of their bytes, of which many share a head.
    fn entries(rng: &mut Rng, shortest: usize) -> Vec<Entry> {
        let heads: Vec<Vec<u8>> = (0..1 + rng.below(6))
            .map(|_| (0..shortest + rng.below(9)).map(|_| rng.below(3) as u8).collect())
            .collect();
        let mut entries: Vec<Entry> = (0..rng.below(150))
            .map(|_| {
                let mut key = heads[rng.below(heads.len())].clone();
                key.extend((0..8).map(|_| (rng.below(3) * rng.below(2)) as u8));
                let value = vec![7; (rng.below(20) / 18) * rng.below(3)];
                (key, value, rng.below(5) == 0)
            })
            .collect();
        entries.sort();
        entries.dedup_by(|a, b| a.0 == b.0);
        entries
    }

    #[test]
    fn a_grouped_leaf_gives_back_the_entries_that_it_was_made_of() {
        let mut rng = Rng::new(1);
        for round in 0..500 {
            let (tail, entries) = (1 + round % 8, entries(&mut rng, 0));
            let mut payload = vec![0xAA; 8192];
            let end = write(&mut payload, tail, &entries).unwrap();
            let leaf = GroupedLeaf::open(&payload).unwrap();
            leaf.validate().unwrap();
            assert_eq!((leaf.count(), leaf.end()), (entries.len(), end));
            let (mut key, mut after) = (Vec::new(), Vec::new());
            for (i, (wanted, value, marked)) in entries.iter().enumerate() {
                key.clear();
                leaf.append_key(i, &mut key).unwrap();
                assert_eq!((&key, leaf.value(i).unwrap(), leaf.is_marked(i)), (wanted, &value[..], *marked));
                let previous = rng.below(entries.len());
                after.clear();
                leaf.append_key(previous, &mut after).unwrap();
                leaf.replace_key(previous, i, &mut after).unwrap();
                assert_eq!(&after, wanted);
                assert_eq!(leaf.key_tail::<6>(i).as_ref(), wanted.last_chunk::<6>());
                assert_eq!(leaf.key_tail::<1>(i).as_ref(), wanted.last_chunk::<1>());
            }
            let (from, to) = (rng.below(entries.len() + 1), rng.below(entries.len() + 1));
            let mut found = Vec::new();
            leaf.each_end(from..to, 6, |number| found.push(number)).unwrap();
            let wanted = entries.iter().take(to).skip(from);
            let wanted: Vec<u64> =
                wanted.map(|(key, ..)| big_endian(key.last_chunk::<6>().unwrap())).collect();
            assert_eq!(found, wanted);
            for probe in entries
                .iter()
                .map(|(key, ..)| key.clone())
                .chain((0..50).map(|_| (0..rng.below(16)).map(|_| rng.below(3) as u8).collect()))
            {
                let place = entries.partition_point(|(key, ..)| *key < probe);
                let there = entries.get(place).is_some_and(|(key, ..)| *key == probe);
                let wanted = if there { Ok(place) } else { Err(place) };
                assert_eq!(leaf.search_by(&mut key, |stored| stored.cmp(&probe)), Ok(wanted));
            }
        }
    }

    #[test]
    fn entries_that_differ_in_their_last_bytes_only_have_the_rest_once() {
        let entries: Vec<Entry> =
            (0..1000_u32).map(|n| ([&[7; 40][..], &n.to_be_bytes()].concat(), vec![9; 20], false)).collect();
        let mut payload = vec![0; 8192];
        assert_eq!(write(&mut payload, 4, &entries), Some(8 + 6 + 4 * 1000 + 125 + 40 + 20));
        // In an order in which others are between them they are several groups.
        let other = ([&[8; 40][..], &[0; 4]].concat(), Vec::new(), false);
        let between: Vec<Entry> = [&entries[..500], &[other], &entries[500..]].concat();
        assert_eq!(write(&mut payload, 4, &between), Some(8 + 6 * 3 + 4 * 1001 + 126 + 2 * 60 + 40));
        GroupedLeaf::open(&payload).unwrap().validate().unwrap();
    }

    #[test]
    fn a_part_of_the_entries_takes_no_more_than_all_of_them() {
        let mut rng = Rng::new(4);
        for _ in 0..300 {
            let mut entries = entries(&mut rng, 0);
            let mut payload = vec![0; 8192];
            let all = write(&mut payload, 4, &entries).unwrap();
            let share = 1 + rng.below(5);
            entries.retain(|_| rng.below(share) > 0);
            assert!(write(&mut payload, 4, &entries).unwrap() <= all);
        }
    }

    #[test]
    fn what_is_left_after_a_removal_is_what_was_not_removed() {
        let mut rng = Rng::new(5);
        for round in 0..500 {
            let entries = entries(&mut rng, 1);
            let mut payload = vec![0xAA; 8192];
            let all = write(&mut payload, 1 + round % 8, &entries).unwrap();
            let share = 1 + rng.below(8);
            let gone: Vec<bool> = entries.iter().map(|_| rng.below(share) == 0).collect();
            let end = remove_grouped(&mut payload, |i| gone[i]).unwrap();
            let leaf = GroupedLeaf::open(&payload).unwrap();
            leaf.validate().unwrap();
            assert_eq!(leaf.end(), end);
            assert!(end <= all);
            let left: Vec<Entry> = (0..leaf.count())
                .map(|i| {
                    let mut key = Vec::new();
                    leaf.append_key(i, &mut key).unwrap();
                    (key, leaf.value(i).unwrap().to_vec(), leaf.is_marked(i))
                })
                .collect();
            let kept = entries.iter().zip(&gone).filter(|(_, gone)| !**gone);
            assert_eq!(left, kept.map(|(entry, _)| entry.clone()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn marks_are_kept_for_each_entry() {
        let mut rng = Rng::new(3);
        let mut entries = entries(&mut rng, 2);
        entries.iter_mut().for_each(|entry| entry.2 = false);
        let mut payload = vec![0xAA; 4096];
        let end = write(&mut payload, 4, &entries).unwrap();
        let last = entries.len() - 1;
        for i in [0, 7, 8, last] {
            mark_grouped(&mut payload, i).unwrap();
        }
        let leaf = GroupedLeaf::open(&payload).unwrap();
        leaf.validate().unwrap();
        assert_eq!(leaf.end(), end);
        let marked: Vec<usize> = (0..=last).filter(|i| leaf.is_marked(*i)).collect();
        assert_eq!(marked, [0, 7, 8, last]);
        assert!(mark_grouped(&mut payload, last + 1).is_err());
    }

    #[test]
    fn entries_that_do_not_fit_or_are_too_short_are_refused() {
        let mut payload = [0; 32];
        let entry = |key: &[u8]| (key.to_vec(), Vec::new(), false);
        assert_eq!(write(&mut payload, 4, &[entry(b"abc")]), None);
        assert_eq!(write(&mut payload, 0, &[entry(b"abc")]), None);
        assert_eq!(write(&mut payload, 9, &[entry(b"abcabcabc")]), None);
        assert_eq!(write(&mut payload, 4, &[entry(&[1; 18])]), None);
        assert_eq!(payload, [0; 32]);
        assert_eq!(write(&mut payload, 4, &[entry(&[1; 17])]), Some(32));
    }

    #[test]
    fn hostile_bytes_are_damage_and_not_a_panic() {
        let mut rng = Rng::new(2);
        for round in 0..20_000 {
            let mut payload: Vec<u8> = (0..rng.below(90)).map(|_| rng.below(256) as u8).collect();
            if round % 2 == 0 {
                let made = entries(&mut rng, 0);
                payload = vec![0; 2048];
                write(&mut payload, 1 + rng.below(8), &made);
                for _ in 0..1 + rng.below(4) {
                    let at = rng.below(60);
                    payload[at] = rng.below(256) as u8;
                }
            }
            if let Some(kind) = payload.first_mut() {
                *kind = GROUPED;
            }
            if let Ok(leaf) = GroupedLeaf::open(&payload) {
                let mut out = Vec::new();
                for i in 0..leaf.count().min(200) + 1 {
                    let _ = (leaf.append_key(i, &mut out), leaf.key_tail::<6>(i), leaf.is_marked(i));
                    let _ = (leaf.replace_key(0, i, &mut out), leaf.value(i));
                    out.clear();
                }
                let _ = leaf.search_by(&mut out, |key| key.cmp(b"abc"));
                let _ = (leaf.each_end(0..leaf.count(), 6, |_| {}), leaf.validate(), leaf.end());
                let _ = mark_grouped(&mut payload, rng.below(200));
                let _ = remove_grouped(&mut payload, |i| i % 3 == 0);
            }
        }
    }

    #[test]
    fn of_what_validate_accepts_every_entry_can_be_read_and_removed() {
        let mut rng = Rng::new(5);
        let (mut accepted, mut refused) = (0, 0);
        for _ in 0..5_000 {
            let tail = 1 + rng.below(8);
            let made = entries(&mut rng, 0);
            let mut payload = vec![0; 4096];
            let end = write(&mut payload, tail, &made).unwrap();
            for _ in 0..1 + rng.below(4) {
                // Mostly header and groups, and often a number that is only a little off.
                let most = if rng.below(3) == 0 { end } else { end.min(50) };
                let at = 1 + rng.below(most - 1);
                payload[at] =
                    if rng.below(2) == 0 { rng.below(256) as u8 } else { payload[at].wrapping_add(1) };
            }
            let Ok(leaf) = GroupedLeaf::open(&payload) else { continue };
            if leaf.validate().is_err() {
                refused += 1;
                continue;
            }
            accepted += 1;
            let count = leaf.count();
            let read = |payload: &[u8], i| {
                let (leaf, mut key) = (GroupedLeaf::open(payload).unwrap(), Vec::new());
                leaf.append_key(i, &mut key).unwrap();
                (key, leaf.value(i).unwrap().to_vec(), leaf.is_marked(i))
            };
            let all: Vec<Entry> = (0..count).map(|i| read(&payload, i)).collect();
            assert!(leaf.append_key(count, &mut Vec::new()).is_err());
            assert!(leaf.search_by(&mut Vec::new(), |key| key.cmp(b"abc")).is_ok());
            let former = leaf.end();
            let end = remove_grouped(&mut payload, |i| i % 3 == 0).unwrap();
            let left = GroupedLeaf::open(&payload).unwrap();
            left.validate().unwrap();
            assert!(left.end() == end && end <= former);
            let kept: Vec<Entry> = (0..left.count()).map(|i| read(&payload, i)).collect();
            let expected: Vec<Entry> =
                all.into_iter().enumerate().filter(|(i, _)| i % 3 > 0).map(|(_, entry)| entry).collect();
            assert_eq!(kept, expected);
        }
        assert!(accepted > 300 && refused > 300, "{accepted} accepted, {refused} refused");
    }
}
