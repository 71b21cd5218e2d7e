//! Records of one length, in segments that clones share until one of them changes.
//!
//! Segments are listed in branches, which clones share too: a clone counts a reference to each branch, and a change one to each segment of
//! its branch. So a version of a million records costs what it changes and some hundred references more, not one for each segment. Counting
//! one is a wait for memory: each is where the segment is.
//!
//! Records of a [file](super::MappedFile) stay in the file, but for the segments of those that change, which are copied.

use std::io::{self, Write};
use std::sync::Arc;

use super::mapped::{Check, MappedFile, Section, invalid};
use super::segment::{Number, Segment, room};

/// Fewest and most records of a segment: growing moves no record, and a change copies no more than so many.
const SEGMENT: (usize, usize) = (4, 64);
/// Bytes of a segment of more than the fewest records, at most.
const SEGMENT_BYTES: usize = 1 << 15;
/// Segments of a branch: the fewer, the more references a clone counts; the more, the more each change counts, of which an insertion is some forty.
const BRANCH: usize = 32;
/// In a file, records begin at a multiple of so many bytes.
pub(super) const PAGE: usize = 4096;

/// Records, numbered from 0. A clone shares the memory: what either changes later is copied then.
#[derive(Debug, Clone)]
pub struct Records<T> {
    /// All but the last have [`BRANCH`] segments.
    pub(super) branches: Vec<Arc<[Segment<T>]>>,
    /// Elements of a record.
    len: usize,
    /// Of how many records a segment is, as a power of two.
    shift: u32,
    count: usize,
    /// The first record of a segment begins at a cache line.
    in_lines: bool,
    /// Segments that are in a file.
    mapped: usize,
}

/// Writes the segments of records into a file.
#[derive(Debug, Default)]
pub(super) struct SegmentWriter {
    bytes: Vec<u8>,
    written: usize,
}

impl SegmentWriter {
    /// Writes the elements of the next segment.
    pub(super) fn write<T: Number>(&mut self, elements: &[T], out: &mut impl Write) -> io::Result<()> {
        self.bytes.clear();
        T::write(elements, &mut self.bytes);
        out.write_all(&self.bytes)?;
        self.written += self.bytes.len();
        Ok(())
    }

    /// Writes zeros up to the next multiple of [`PAGE`] bytes.
    pub(super) fn finish(self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&vec![0; self.written.next_multiple_of(PAGE) - self.written])
    }
}

impl<T: Number> Records<T> {
    /// Records of so many elements.
    pub fn new(len: usize) -> Records<T> {
        let (fewest, most) = SEGMENT;
        let segment = (SEGMENT_BYTES / (len * size_of::<T>()).max(1)).clamp(fewest, most);
        Records { branches: Vec::new(), len, shift: segment.ilog2(), count: 0, in_lines: false, mapped: 0 }
    }

    /// Records of so many elements, which take no more cache lines than they have to if they are whole lines.
    pub fn in_lines(len: usize) -> Records<T> {
        Records { in_lines: true, ..Records::new(len) }
    }

    /// Elements of a record.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// What records have in common that may be in each other's place.
    pub(super) fn shape(&self) -> (usize, u32, bool) {
        (self.len, self.shift, self.in_lines)
    }

    /// As many records like these, in these segments, of which so many are in a file.
    pub(super) fn with_segments(&self, branches: Vec<Arc<[Segment<T>]>>, mapped: usize) -> Records<T> {
        Records { branches, mapped, ..*self }
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

    /// A record; empty if there is none of this number, or it is damaged.
    #[inline]
    pub fn get(&self, number: u32) -> &[T] {
        let (branch, segment, at) = self.place(number as usize);
        let Some(segment) = self.branches.get(branch).and_then(|branch| branch.get(segment)) else {
            return &[];
        };
        match segment.get(at, self.len) {
            Some(record) => record,
            None => self.checked(segment, number),
        }
    }

    /// A record of a segment that was not checked yet, or is damaged.
    #[cold]
    #[inline(never)]
    fn checked<'s>(&self, segment: &'s Segment<T>, number: u32) -> &'s [T] {
        let (_, _, at) = self.place(number as usize);
        segment.checked(number as usize >> self.shift).get(at..at + self.len).unwrap_or(&[])
    }

    /// A record for writing; empty if there is none of this number, or it is damaged.
    #[inline]
    pub fn get_mut(&mut self, number: u32) -> &mut [T] {
        let (branch, segment, at) = self.place(number as usize);
        let Some(branch) = self.branches.get_mut(branch) else { return &mut [] };
        let Some(segment) = Arc::make_mut(branch).get_mut(segment) else { return &mut [] };
        if self.mapped > 0 && segment.is_mapped() {
            self.mapped -= 1;
        }
        let own = segment.own(number as usize >> self.shift, self.in_lines);
        own.get_mut(at..at + self.len).unwrap_or(&mut [])
    }

    fn segments(&self) -> impl Iterator<Item = &Segment<T>> {
        self.branches.iter().flat_map(|branch| branch.iter())
    }

    /// Writes the records, one after another, and zeros up to the next multiple of 4,096 bytes, for [`Records::map`]. What is written begins
    /// at such a multiple.
    ///
    /// # Errors
    /// Those of `out`; `InvalidData` if there are damaged ones.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        let mut segments = SegmentWriter::default();
        for (number, segment) in self.segments().enumerate() {
            let elements = segment.checked(number);
            if elements.len() != self.len << self.shift {
                return Err(invalid());
            }
            segments.write(elements, out)?;
        }
        segments.finish(out)
    }

    /// So many records like these, of which there are none yet, that were written into a file from `at` on, and where the next bytes of the
    /// file are. They stay in the file; `check` says whether they are what they may be, from the so manieth on.
    ///
    /// # Errors
    /// `InvalidData` if the file has not so many bytes; `Unsupported` if they cannot be used where they are.
    pub fn map(
        &self,
        file: &Arc<MappedFile>,
        at: usize,
        count: usize,
        check: Check<T>,
    ) -> io::Result<(Records<T>, usize)> {
        if cfg!(target_endian = "big") {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let (all, segments) = (self.len << self.shift, count.div_ceil(1 << self.shift));
        let bytes = segments.checked_mul(all).and_then(|all| all.checked_mul(size_of::<T>()));
        let end = bytes.and_then(|bytes| bytes.checked_next_multiple_of(PAGE)?.checked_add(at));
        // Nothing is made for records that the file has no bytes of.
        let end = end.filter(|end| *end <= file.len()).ok_or_else(invalid)?;
        let section = Arc::new(Section::new(file, at, (self.len, all), count, check));
        let segment = |number| Segment::mapped(&section, number).ok_or(io::ErrorKind::Unsupported);
        let branches = (0..segments).step_by(BRANCH).map(|first| {
            (first..segments.min(first + BRANCH)).map(segment).collect::<Result<Vec<_>, _>>().map(Arc::from)
        });
        let branches = branches.collect::<Result<_, _>>()?;
        Ok((Records { branches, count, mapped: segments, ..*self }, end))
    }

    /// Where a record is: branch, segment, and the element it begins at among those of the segment's records.
    #[inline]
    fn place(&self, number: usize) -> (usize, usize, usize) {
        let (segment, at) = (number >> self.shift, number & ((1 << self.shift) - 1));
        (segment / BRANCH, segment % BRANCH, at * self.len)
    }

    /// Bytes that they take in memory, without what is in a file.
    pub fn bytes(&self) -> usize {
        self.bytes_of(self.count)
    }

    /// Bytes that so many records take in memory, without what is in a file now.
    pub fn bytes_of(&self, count: usize) -> usize {
        let own = count.div_ceil(1 << self.shift).saturating_sub(self.mapped);
        own * self.elements_bytes() + self.bytes_of_mapped(count)
    }

    /// Bytes that so many records take in memory while all are in a file.
    pub fn bytes_of_mapped(&self, count: usize) -> usize {
        let segments = count.div_ceil(1 << self.shift);
        segments * size_of::<Segment<T>>() + segments.div_ceil(BRANCH) * size_of::<Arc<[Segment<T>]>>()
    }

    /// Bytes that are in a file.
    pub fn mapped_bytes(&self) -> usize {
        self.mapped * (self.len << self.shift) * size_of::<T>()
    }

    /// Bytes of the elements of a segment.
    fn elements_bytes(&self) -> usize {
        ((self.len << self.shift) + room::<T>(self.in_lines)) * size_of::<T>()
    }

    /// Bytes that they take besides those that they share with `other`, of which they are a clone, or it of them.
    pub fn bytes_beside(&self, other: &Records<T>) -> usize {
        let elements = self.elements_bytes();
        let shared = |own: &Arc<[Segment<T>]>, other: &Arc<[Segment<T>]>| {
            if Arc::ptr_eq(own, other) {
                let in_memory = own.iter().filter(|segment| self.mapped == 0 || !segment.is_mapped()).count();
                return own.len() * size_of::<Segment<T>>() + in_memory * elements;
            }
            own.iter().zip(other.iter()).filter(|(own, other)| own.shares(other)).count() * elements
        };
        self.bytes()
            - self.branches.iter().zip(&other.branches).map(|(own, other)| shared(own, other)).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::segment::LINE;

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
            let own = clone.branches[branch].iter().filter(|one| one.is_alone());
            assert_eq!(own.count(), 1);
        }
        assert_eq!((clone.get(5), records.get(5)), (&[0][..], &[1][..]));
    }
}
