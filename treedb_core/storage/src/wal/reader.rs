//! Reads the frames of a segment in order through a buffer, and searches it for claims.

use std::sync::Arc;

use super::frame::{self, ALIGN, BadFrame, HEADER, Header, Kind, Lsn};
use super::segment::{FIRST_FRAME, Segment};
use crate::Result;

/// Bytes read from the file at a time.
const CHUNK: usize = 256 * 1024;
/// A search for claims computes checksums over at most this many payload bytes per byte of the segment:
/// forged frames must not make opening slow.
const SEARCH_EFFORT: u64 = 64;

/// Reads from a position in a segment.
pub(super) struct Reader {
    pub(super) segment: Arc<Segment>,
    /// Offset of the next frame.
    pub(super) at: u64,
    buf: Vec<u8>,
    /// Offset in the file of the buffer's first byte.
    from: u64,
}

impl Reader {
    /// A reader at the segment's first frame.
    pub(super) fn new(segment: Arc<Segment>) -> Reader {
        Reader { segment, at: FIRST_FRAME, buf: Vec::new(), from: 0 }
    }

    /// The number of bytes from `at` to the end of the segment.
    fn remaining(&self, at: u64) -> u64 {
        self.segment.allocated().saturating_sub(at)
    }

    /// The bytes `at..at + len`; the caller has checked that they are inside the segment.
    fn bytes(&mut self, at: u64, len: usize) -> Result<&[u8]> {
        let buffered = at >= self.from && at + len as u64 <= self.from + self.buf.len() as u64;
        if !buffered {
            let size = (len.max(CHUNK) as u64).min(self.remaining(at)) as usize;
            self.buf.resize(size, 0);
            self.from = at;
            self.segment.file.read_at(&mut self.buf, at)?;
        }
        let start = (at - self.from) as usize;
        Ok(self.buf.get(start..start + len).unwrap_or_default())
    }

    /// The unchecked header at `at`; `None` if the segment has too few bytes left.
    fn header(&mut self, at: u64) -> Result<Option<Header>> {
        if self.remaining(at) < HEADER as u64 {
            return Ok(None);
        }
        Ok(Header::read(self.bytes(at, HEADER)?))
    }

    /// Reads the frame at the position, which must have the LSN `expected`, and moves after it.
    /// [`Reader::payload`] returns its payload until the next call.
    pub(super) fn next(&mut self, expected: Lsn) -> Result<Result<(Header, Kind), BadFrame>> {
        let (at, generation) = (self.at, self.segment.header.generation);
        let remaining = self.remaining(at);
        let Some(header) = self.header(at)? else { return Ok(Err(BadFrame::EndOfSegment)) };
        let kind = match header.check(expected, remaining) {
            Ok(kind) => kind,
            Err(bad) => return Ok(Err(bad)),
        };
        let frame_bytes = self.bytes(at, HEADER + header.len as usize)?;
        if let Err(bad) = header.verify(generation, frame_bytes.get(HEADER..).unwrap_or_default()) {
            return Ok(Err(bad));
        }
        self.at = at + frame::size(header.len as usize);
        Ok(Ok((header, kind)))
    }

    /// The payload of the frame that was read last.
    pub(super) fn payload(&mut self, header: &Header) -> Result<&[u8]> {
        let len = header.len as usize;
        self.bytes(self.at - frame::size(len) + HEADER as u64, len)
    }

    /// The number of bytes from `at` on, a multiple of [`ALIGN`], in which no frame with an LSN above `above`
    /// can start. Only checks bytes in the buffer. Most of a segment is zeroes or frames of its former use:
    /// comparing only LSN and kind of every word is many times as fast as decoding headers.
    fn skippable(&self, at: u64, above: Lsn) -> u64 {
        const WORD: usize = ALIGN as usize;
        /// Words that are compared with zeroes at once.
        const BLOCK: usize = 16;
        const ZEROES: &[[u8; WORD]] = &[[0; WORD]; BLOCK];
        let start = at.saturating_sub(self.from) as usize;
        let (words, _) = self.buf.get(start + WORD..).unwrap_or_default().as_chunks::<WORD>();
        // If a header starts one word before `words[n]`, then `words[n]` is its LSN, and the upper half of
        // `words[n + 1]` are its kind and zeroes.
        let may_be_header = |lsn: &[u8; WORD], last: &[u8; WORD]| {
            let is_kind = (u64::from_le_bytes(*last) >> 32).wrapping_sub(1) < u64::from(Kind::LAST as u8);
            (u64::from_le_bytes(*lsn) > above.0) & is_kind
        };
        let lasts = words.get(1..).unwrap_or_default();
        let mut skipped = 0;
        for (lsns, lasts) in words.chunks(BLOCK).zip(lasts.chunks(BLOCK)) {
            let zeroes = lsns == ZEROES;
            let checked = lsns.len().min(lasts.len());
            let first = if zeroes {
                None
            } else {
                lsns.iter().zip(lasts).position(|(lsn, last)| may_be_header(lsn, last))
            };
            skipped += first.unwrap_or(checked);
            if first.is_some() {
                break;
            }
        }
        skipped as u64 * ALIGN
    }

    /// The highest claim of any valid frame after the position with an LSN above `above`.
    pub(super) fn highest_claim(&mut self, above: Lsn) -> Result<Lsn> {
        let generation = self.segment.header.generation;
        let mut effort = self.segment.allocated().saturating_mul(SEARCH_EFFORT);
        let mut highest = Lsn::NONE;
        let mut at = self.at;
        while let Some(header) = self.header(at)? {
            let skipped = self.skippable(at, above);
            if skipped > 0 {
                at += skipped;
                continue;
            }
            let remaining = self.remaining(at);
            let may_be_frame = header.lsn > above && header.kind().is_some() && header.fits(remaining);
            if may_be_frame {
                let cost = u64::from(header.len);
                if cost > effort {
                    break;
                }
                effort -= cost;
                let frame_bytes = self.bytes(at, HEADER + header.len as usize)?;
                if header.verify(generation, frame_bytes.get(HEADER..).unwrap_or_default()).is_ok() {
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
