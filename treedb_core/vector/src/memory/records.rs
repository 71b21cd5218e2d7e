//! Records of one length, in segments that clones share until one of them changes.
//!
//! Segments are listed in branches, which clones share too: a clone counts a reference to each branch, and a change one to each segment of
//! its branch. So a version of a million records costs what it changes and some hundred references more, not one for each segment. Counting
//! one is a wait for memory: each is where the segment is.

use std::sync::Arc;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Fewest and most records of a segment: growing moves no record, and a change copies no more than so many.
const SEGMENT: (usize, usize) = (4, 64);
/// Bytes of a segment of more than the fewest records, at most.
const SEGMENT_BYTES: usize = 1 << 15;
/// Segments of a branch: the fewer, the more references a clone counts; the more, the more each change counts, of which an insertion is some forty.
const BRANCH: usize = 32;

/// Records, numbered from 0. A clone shares the memory: what either changes later is copied then.
#[derive(Debug, Clone)]
pub struct Records<T> {
    /// All but the last have [`BRANCH`] segments.
    branches: Vec<Arc<[Segment<T>]>>,
    /// Elements of a record.
    len: usize,
    /// Of how many records a segment is, as a power of two.
    shift: u32,
    count: usize,
    /// The first record of a segment begins at a cache line.
    in_lines: bool,
}

#[derive(Debug, Clone)]
struct Segment<T> {
    elements: Arc<[T]>,
    /// Where the first record begins.
    from: usize,
}

impl<T: Copy + Default> Segment<T> {
    /// One of `all` elements.
    fn new(all: usize, in_lines: bool) -> Segment<T> {
        let room = Self::room(in_lines);
        // From an iterator that knows its length, they are written once, where they stay.
        let elements: Arc<[T]> = std::iter::repeat_n(T::default(), all + room).collect();
        let from = elements.as_ptr().align_offset(LINE).min(room);
        Segment { elements, from }
    }

    /// Elements that there are more than records have, so that the first can begin at a line.
    fn room(in_lines: bool) -> usize {
        if in_lines { LINE / size_of::<T>().max(1) } else { 0 }
    }

    /// One with the same records, and memory of its own.
    fn copied(&self, all: usize, in_lines: bool) -> Segment<T> {
        let room = Self::room(in_lines);
        let mut elements: Arc<[T]> = Arc::from(&*self.elements);
        let from = elements.as_ptr().align_offset(LINE).min(room);
        if from != self.from
            && let Some(elements) = Arc::get_mut(&mut elements)
            && self.from + all <= elements.len()
            && from + all <= elements.len()
        {
            elements.copy_within(self.from..self.from + all, from);
        }
        Segment { elements, from }
    }

    /// The elements for writing, `all` of them, of this segment alone.
    fn own(&mut self, all: usize, in_lines: bool) -> &mut [T] {
        // Nobody else can begin to share it meanwhile; to ask by `get_mut` would be another locked instruction for each record.
        if Arc::strong_count(&self.elements) > 1 {
            *self = self.copied(all, in_lines);
        }
        let from = self.from;
        Arc::get_mut(&mut self.elements).and_then(|own| own.get_mut(from..from + all)).unwrap_or(&mut [])
    }
}

impl<T: Copy + Default> Records<T> {
    /// Records of so many elements.
    pub fn new(len: usize) -> Records<T> {
        let (fewest, most) = SEGMENT;
        let segment = (SEGMENT_BYTES / (len * size_of::<T>()).max(1)).clamp(fewest, most);
        Records { branches: Vec::new(), len, shift: segment.ilog2(), count: 0, in_lines: false }
    }

    /// Records of so many elements, which take no more cache lines than they have to if they are whole lines.
    pub fn in_lines(len: usize) -> Records<T> {
        Records { in_lines: true, ..Records::new(len) }
    }

    /// Elements of a record.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Adds a record of zeros.
    pub fn push(&mut self) {
        if self.count.is_multiple_of(1 << self.shift) {
            let new = Segment::new(self.len << self.shift, self.in_lines);
            match self.branches.last_mut().filter(|last| last.len() < BRANCH) {
                Some(last) => *last = last.iter().cloned().chain([new]).collect(),
                None => self.branches.push(Arc::from([new])),
            }
        }
        self.count += 1;
    }

    /// A record; empty if there is none of this number.
    #[inline]
    pub fn get(&self, number: u32) -> &[T] {
        let (branch, segment, at) = self.place(number as usize);
        let Some(segment) = self.branches.get(branch).and_then(|branch| branch.get(segment)) else {
            return &[];
        };
        let at = segment.from + at;
        segment.elements.get(at..at + self.len).unwrap_or(&[])
    }

    /// A record for writing.
    #[inline]
    pub fn get_mut(&mut self, number: u32) -> &mut [T] {
        let (branch, segment, at) = self.place(number as usize);
        let Some(branch) = self.branches.get_mut(branch) else { return &mut [] };
        let Some(segment) = Arc::make_mut(branch).get_mut(segment) else { return &mut [] };
        segment.own(self.len << self.shift, self.in_lines).get_mut(at..at + self.len).unwrap_or(&mut [])
    }

    /// The records, those of a segment at a time.
    pub(super) fn segments(&self) -> impl Iterator<Item = &[T]> {
        let segments = self.branches.iter().flat_map(|branch| branch.iter()).enumerate();
        segments.map(|(at, segment)| {
            let records = self.count.saturating_sub(at << self.shift).min(1 << self.shift);
            segment.elements.get(segment.from..segment.from + records * self.len).unwrap_or(&[])
        })
    }

    /// Adds so many records of zeros, but no more than a segment has, for writing. To be called only where the last segment is full.
    pub(super) fn push_segment(&mut self, records: usize) -> &mut [T] {
        let (branch, segment, _) = self.place(self.count);
        let records = records.min(1 << self.shift);
        (0..records).for_each(|_| self.push());
        let Some(branch) = self.branches.get_mut(branch) else { return &mut [] };
        let Some(segment) = Arc::make_mut(branch).get_mut(segment) else { return &mut [] };
        segment.own(self.len << self.shift, self.in_lines).get_mut(..records * self.len).unwrap_or(&mut [])
    }

    /// Where a record is: branch, segment, and the element it begins at among those of the segment's records.
    #[inline]
    fn place(&self, number: usize) -> (usize, usize, usize) {
        let (segment, at) = (number >> self.shift, number & ((1 << self.shift) - 1));
        (segment / BRANCH, segment % BRANCH, at * self.len)
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        self.bytes_of(self.count)
    }

    /// Bytes that so many records take.
    pub fn bytes_of(&self, count: usize) -> usize {
        let segments = count.div_ceil(1 << self.shift);
        let branches = segments.div_ceil(BRANCH) * size_of::<Arc<[Segment<T>]>>();
        segments * (self.elements_bytes() + size_of::<Segment<T>>()) + branches
    }

    /// Bytes of the elements of a segment.
    fn elements_bytes(&self) -> usize {
        ((self.len << self.shift) + Segment::<T>::room(self.in_lines)) * size_of::<T>()
    }

    /// Bytes that they take besides those that they share with `other`, of which they are a clone, or it of them.
    pub fn bytes_beside(&self, other: &Records<T>) -> usize {
        let elements = self.elements_bytes();
        let shared = |own: &Arc<[Segment<T>]>, other: &Arc<[Segment<T>]>| {
            if Arc::ptr_eq(own, other) {
                return own.len() * (elements + size_of::<Segment<T>>());
            }
            let pairs = own.iter().zip(other.iter());
            pairs.filter(|(own, other)| Arc::ptr_eq(&own.elements, &other.elements)).count() * elements
        };
        self.bytes()
            - self.branches.iter().zip(&other.branches).map(|(own, other)| shared(own, other)).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_whole_lines_begin_at_lines() {
        let mut records = Records::<u8>::in_lines(128);
        (0..150).for_each(|_| records.push());
        let copy = records.clone();
        records.get_mut(70).fill(1);
        for number in 0..150 {
            assert_eq!(records.get(number).as_ptr() as usize % LINE, 0);
        }
        assert_eq!((copy.get(70), records.get(70)), (&[0; 128][..], &[1; 128][..]));
    }

    #[test]
    fn a_clone_keeps_what_it_had_when_the_other_changes() {
        let mut records = Records::<u32>::new(3);
        for number in 0..200 {
            records.push();
            records.get_mut(number).copy_from_slice(&[number, 1, 2]);
        }
        let clone = records.clone();
        for number in (0..200).step_by(7) {
            records.get_mut(number).fill(9);
        }
        records.push();
        for number in 0..200 {
            assert_eq!(clone.get(number), [number, 1, 2]);
            let now = if number % 7 == 0 { [9, 9, 9] } else { [number, 1, 2] };
            assert_eq!(records.get(number), now);
        }
        assert_eq!((clone.count(), records.count(), records.get(200)), (200, 201, &[0, 0, 0][..]));
        assert!(records.get(100_000).is_empty());
    }

    #[test]
    fn a_clone_takes_memory_for_what_has_changed_since() {
        for mut records in [Records::<u32>::new(5), Records::in_lines(32)] {
            (0..200).for_each(|_| records.push());
            assert_eq!(records.bytes(), records.bytes_of(200));
            let clone = records.clone();
            let unchanged = clone.bytes_beside(&records);
            assert!(unchanged < 200, "{unchanged}");
            // Two records of one segment, one of another, and the list of the four segments.
            [3, 7, 150].iter().for_each(|number| records.get_mut(*number).fill(1));
            let changed = unchanged + 2 * records.elements_bytes() + 4 * size_of::<Segment<u32>>();
            assert_eq!(clone.bytes_beside(&records), changed);
            assert_eq!(records.bytes_beside(&clone), changed);
        }
    }

    #[test]
    fn a_change_copies_some_thousand_bytes_however_long_records_are() {
        for len in [1, 48, 384, 1536, 4096] {
            let mut records = Records::<f32>::new(len);
            (0..500).for_each(|_| records.push());
            let clone = records.clone();
            records.get_mut(321).fill(1.0);
            let copied = records.bytes_beside(&clone);
            assert!(copied < (4 * 4 * len).max(SEGMENT_BYTES) + 2000, "{len}: {copied}");
            for number in 0..500 {
                let element = if number == 321 { 1.0 } else { 0.0 };
                assert_eq!(records.get(number), vec![element; len]);
            }
        }
    }

    #[test]
    fn a_clone_of_many_records_shares_all_branches_but_those_that_change() {
        const ALL: usize = 40 * SEGMENT.1 * BRANCH;
        let mut records = Records::<u32>::new(1);
        (0..ALL).for_each(|_| records.push());
        let clone = records.clone();
        assert_eq!(clone.branches.len(), 40);
        [5, ALL as u32 - 1].iter().for_each(|number| records.get_mut(*number).fill(1));
        let is_shared = |(own, other): &(&Arc<_>, &Arc<_>)| Arc::ptr_eq(own, other);
        assert_eq!(clone.branches.iter().zip(&records.branches).filter(is_shared).count(), 38);
        // Of the two, all segments but one are shared.
        for branch in [0, 39] {
            let own = clone.branches[branch].iter().filter(|one| Arc::strong_count(&one.elements) == 1);
            assert_eq!(own.count(), 1);
        }
        assert_eq!((clone.get(5), records.get(5)), (&[0][..], &[1][..]));
    }
}
