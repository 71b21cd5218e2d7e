//! Reads a segment front to back through a buffer, and searches it for claims.

use std::sync::Arc;

use super::frame::{self, ALIGN, BadFrame, HEADER, Header, Kind, Lsn};
use super::segment::{FIRST_FRAME, Segment};
use crate::Result;

/// Bytes fetched at a time.
const CHUNK: usize = 256 * 1024;
/// Bytes of payload a search for claims checks at most for each byte of the segment: bytes made to look like
/// frames must not make opening slow.
const SEARCH_EFFORT: u64 = 64;

/// A position in a segment.
pub(super) struct Reader {
    pub(super) segment: Arc<Segment>,
    /// Offset of the next frame.
    pub(super) at: u64,
    buf: Vec<u8>,
    /// Offset in the file of the buffer's first byte.
    from: u64,
}

impl Reader {
    /// At the segment's first frame.
    pub(super) fn new(segment: Arc<Segment>) -> Reader {
        Reader { segment, at: FIRST_FRAME, buf: Vec::new(), from: 0 }
    }

    fn room(&self, at: u64) -> u64 {
        self.segment.room().saturating_sub(at)
    }

    /// The bytes `at..at + len`, which the caller has checked to lie inside the segment.
    fn bytes(&mut self, at: u64, len: usize) -> Result<&[u8]> {
        let inside = at >= self.from && at + len as u64 <= self.from + self.buf.len() as u64;
        if !inside {
            let fetch = (len.max(CHUNK) as u64).min(self.room(at)) as usize;
            self.buf.resize(fetch, 0);
            self.from = at;
            self.segment.file.read_at(&mut self.buf, at)?;
        }
        let start = (at - self.from) as usize;
        Ok(self.buf.get(start..start + len).unwrap_or_default())
    }

    /// The header at `at`, unchecked; `None` if the segment ends before it would.
    fn header(&mut self, at: u64) -> Result<Option<Header>> {
        if self.room(at) < HEADER as u64 {
            return Ok(None);
        }
        Ok(Header::read(self.bytes(at, HEADER)?))
    }

    /// Reads the frame at the position, which has to be number `want`, and steps after it. The payload stays
    /// readable by [`Reader::payload`] until the next call.
    pub(super) fn next(&mut self, want: Lsn) -> Result<Result<(Header, Kind), BadFrame>> {
        let (at, generation) = (self.at, self.segment.header.generation);
        let room = self.room(at);
        let Some(header) = self.header(at)? else { return Ok(Err(BadFrame::End)) };
        let kind = match header.check(want, room) {
            Ok(kind) => kind,
            Err(bad) => return Ok(Err(bad)),
        };
        let whole = self.bytes(at, HEADER + header.len as usize)?;
        if let Err(bad) = header.verify(generation, whole.get(HEADER..).unwrap_or_default()) {
            return Ok(Err(bad));
        }
        self.at = at + frame::size(header.len as usize);
        Ok(Ok((header, kind)))
    }

    /// The payload of the frame just read.
    pub(super) fn payload(&mut self, header: &Header) -> Result<&[u8]> {
        let len = header.len as usize;
        self.bytes(self.at - frame::size(len) + HEADER as u64, len)
    }

    /// How many bytes from `at` on, a multiple of [`ALIGN`], no frame above `above` can start in. Looks at what is in
    /// the buffer only. Most of a segment is zeroes or frames of its former use: a pass over its words that compares
    /// number and kind is many times as fast as taking headers apart.
    fn unlikely(&self, at: u64, above: Lsn) -> u64 {
        const WORD: usize = ALIGN as usize;
        /// Words checked together.
        const BLOCK: usize = 16;
        const ZEROES: &[[u8; WORD]] = &[[0; WORD]; BLOCK];
        let start = at.saturating_sub(self.from) as usize;
        let (words, _) = self.buf.get(start + WORD..).unwrap_or_default().as_chunks::<WORD>();
        // Of a header at word n of the buffer's rest, `words[n]` is the number, and the half word after the next one
        // the kind and zeroes.
        let likely = |number: &[u8; WORD], last: &[u8; WORD]| {
            let kind = (u64::from_le_bytes(*last) >> 32).wrapping_sub(1) < u64::from(Kind::LAST as u8);
            (u64::from_le_bytes(*number) > above.0) & kind
        };
        let lasts = words.get(1..).unwrap_or_default();
        let mut clear = 0;
        for (numbers, lasts) in words.chunks(BLOCK).zip(lasts.chunks(BLOCK)) {
            let zeroes = numbers == ZEROES;
            let tried = numbers.len().min(lasts.len());
            let first = if zeroes {
                None
            } else {
                numbers.iter().zip(lasts).position(|(number, last)| likely(number, last))
            };
            clear += first.unwrap_or(tried);
            if first.is_some() {
                break;
            }
        }
        clear as u64 * ALIGN
    }

    /// The highest claim of any whole frame after the position with a number above `above`.
    pub(super) fn highest_claim(&mut self, above: Lsn) -> Result<Lsn> {
        let generation = self.segment.header.generation;
        let mut effort = self.segment.room().saturating_mul(SEARCH_EFFORT);
        let mut highest = Lsn::NONE;
        let mut at = self.at;
        while let Some(header) = self.header(at)? {
            let skipped = self.unlikely(at, above);
            if skipped > 0 {
                at += skipped;
                continue;
            }
            let room = self.room(at);
            let likely = header.lsn > above && header.kind().is_some() && header.fits(room);
            if likely {
                let cost = u64::from(header.len);
                if cost > effort {
                    break;
                }
                effort -= cost;
                let whole = self.bytes(at, HEADER + header.len as usize)?;
                if header.verify(generation, whole.get(HEADER..).unwrap_or_default()).is_ok() {
                    highest = highest.max(header.claim());
                    at += frame::size(header.len as usize);
                    continue;
                }
            }
            at += ALIGN;
        }
        Ok(highest)
    }
}
