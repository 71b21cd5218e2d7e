//! Records of one length, aligned to cache lines.

/// Bytes of a cache line.
const LINE: usize = 64;
/// Records of a segment: growing moves no record.
const SEGMENT: usize = 1024;

/// The bytes of the lines that so many bytes take.
pub(super) const fn lines(bytes: usize) -> usize {
    bytes.next_multiple_of(LINE)
}

/// Records, numbered from 0.
#[derive(Debug)]
pub(super) struct Records {
    segments: Vec<Segment>,
    /// Bytes from one record to the next.
    step: usize,
    count: usize,
}

#[derive(Debug)]
struct Segment {
    bytes: Vec<u8>,
    /// Where the first line begins.
    from: usize,
}

impl Records {
    /// Records of so many bytes.
    pub(super) fn new(len: usize) -> Records {
        Records { segments: Vec::new(), step: lines(len), count: 0 }
    }

    /// Adds a record of zeros.
    pub(super) fn push(&mut self) {
        if self.count.is_multiple_of(SEGMENT) {
            let bytes = vec![0; SEGMENT * self.step + LINE];
            let from = bytes.as_ptr().align_offset(LINE).min(LINE);
            self.segments.push(Segment { bytes, from });
        }
        self.count += 1;
    }

    /// A record; empty if there is none of this number.
    #[inline]
    pub(super) fn get(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let Some(segment) = self.segments.get(number / SEGMENT) else { return &[] };
        let at = segment.from + number % SEGMENT * self.step;
        segment.bytes.get(at..at + self.step).unwrap_or(&[])
    }

    /// A record for writing.
    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> &mut [u8] {
        let number = number as usize;
        let Some(segment) = self.segments.get_mut(number / SEGMENT) else { return &mut [] };
        let at = segment.from + number % SEGMENT * self.step;
        segment.bytes.get_mut(at..at + self.step).unwrap_or(&mut [])
    }

    /// Bytes that they take.
    pub(super) fn bytes(&self) -> usize {
        self.segments.iter().map(|segment| segment.bytes.len()).sum()
    }
}
