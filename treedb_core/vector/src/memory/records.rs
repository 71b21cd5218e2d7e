//! Records of one length, in segments that clones share until one of them changes.

use std::sync::Arc;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Records of a segment: growing moves no record, and a change copies no more than so many.
const SEGMENT: usize = 64;

/// Records, numbered from 0. A clone shares the memory: what either changes later is copied then.
#[derive(Debug, Clone)]
pub struct Records<T> {
    segments: Vec<Segment<T>>,
    /// Elements of a record.
    len: usize,
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
    fn new(len: usize, in_lines: bool) -> Segment<T> {
        let room = Self::room(in_lines);
        // From an iterator that knows its length, they are written once, where they stay.
        let elements: Arc<[T]> = std::iter::repeat_n(T::default(), SEGMENT * len + room).collect();
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

    /// The elements for writing, of this segment alone.
    fn own(&mut self, len: usize, in_lines: bool) -> &mut [T] {
        let all = SEGMENT * len;
        if Arc::get_mut(&mut self.elements).is_none() {
            *self = self.copied(all, in_lines);
        }
        let from = self.from;
        Arc::get_mut(&mut self.elements).and_then(|own| own.get_mut(from..from + all)).unwrap_or(&mut [])
    }
}

impl<T: Copy + Default> Records<T> {
    /// Records of so many elements.
    pub fn new(len: usize) -> Records<T> {
        Records { segments: Vec::new(), len, count: 0, in_lines: false }
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
        if self.count.is_multiple_of(SEGMENT) {
            self.segments.push(Segment::new(self.len, self.in_lines));
        }
        self.count += 1;
    }

    /// A record; empty if there is none of this number.
    #[inline]
    pub fn get(&self, number: u32) -> &[T] {
        let number = number as usize;
        let Some(segment) = self.segments.get(number / SEGMENT) else { return &[] };
        let at = segment.from + number % SEGMENT * self.len;
        segment.elements.get(at..at + self.len).unwrap_or(&[])
    }

    /// A record for writing.
    #[inline]
    pub fn get_mut(&mut self, number: u32) -> &mut [T] {
        let number = number as usize;
        let Some(segment) = self.segments.get_mut(number / SEGMENT) else { return &mut [] };
        let at = number % SEGMENT * self.len;
        segment.own(self.len, self.in_lines).get_mut(at..at + self.len).unwrap_or(&mut [])
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        let elements: usize = self.segments.iter().map(|segment| segment.elements.len()).sum();
        elements * size_of::<T>() + self.segments.len() * size_of::<Segment<T>>()
    }

    /// Bytes that so many records take.
    pub fn bytes_of(&self, count: usize) -> usize {
        let room = Segment::<T>::room(self.in_lines);
        let segment = (SEGMENT * self.len + room) * size_of::<T>() + size_of::<Segment<T>>();
        count.div_ceil(SEGMENT) * segment
    }

    /// Bytes that they take besides those that they share with `other`, of which they are a clone, or it of them.
    pub fn bytes_beside(&self, other: &Records<T>) -> usize {
        let shared = |(own, other): (&Segment<T>, &Segment<T>)| {
            if Arc::ptr_eq(&own.elements, &other.elements) { own.elements.len() * size_of::<T>() } else { 0 }
        };
        self.bytes() - self.segments.iter().zip(&other.segments).map(shared).sum::<usize>()
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
            // Two records of one segment, one of another.
            [3, 7, 150].iter().for_each(|number| records.get_mut(*number).fill(1));
            let segment = records.bytes_of(1) - size_of::<Segment<u32>>();
            assert_eq!(clone.bytes_beside(&records), unchanged + 2 * segment);
            assert_eq!(records.bytes_beside(&clone), unchanged + 2 * segment);
        }
    }
}
