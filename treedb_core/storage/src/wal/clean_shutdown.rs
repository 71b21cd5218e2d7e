//! The note of a log that was closed in order: where its last frame is, so that opening need not look for it.
//!
//! It lies in the sector of the segment's header and is written with the `closed` frame. It is taken back, durably,
//! before any frame but `opened` follows: so where there is a note, everything after its frame is of no account. A
//! note that does not hold, be it torn, of the file's former use, or without its frame, costs the search for the end
//! that a log without one needs.

use std::sync::Arc;

use super::frame::{self, Kind, Lsn};
use super::reader::Reader;
use super::segment::{FIRST_FRAME, Segment};
use crate::Result;

/// Offset of the note: after the header, in the same sector.
const AT: u64 = 64;
/// Bytes of it.
const LEN: usize = 32;

/// The end of a log that was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CleanShutdown {
    /// Number of the frame that closed it.
    pub(super) lsn: Lsn,
    /// Offset of that frame in its segment.
    pub(super) at: u64,
    /// Number of the last commit before it.
    pub(super) data: Lsn,
}

impl CleanShutdown {
    fn encode(&self, generation: u64) -> [u8; LEN] {
        let mut note = [0; LEN];
        for (place, word) in note[8..].chunks_exact_mut(8).zip([self.lsn.0, self.at, self.data.0]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let crc = crc32c::crc32c_append(generation as u32, &note[4..]);
        note[0..4].copy_from_slice(&crc.to_le_bytes());
        note
    }

    /// Notes it in its segment. The note is durable with its frame's flush, or not at all.
    pub(super) fn write(&self, segment: &Segment) -> Result<()> {
        segment.file.write_at(&self.encode(segment.header.generation), AT)
    }

    /// The note in `segment`, the log's last, and the offset after its frame, if it holds.
    pub(super) fn read(segment: &Arc<Segment>) -> Result<Option<(CleanShutdown, u64)>> {
        let mut note = [0; LEN];
        segment.file.read_at(&mut note, AT)?;
        let mut words = note[8..].chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
        let mut word = || words.next().unwrap_or(0);
        let clean_shutdown = CleanShutdown { lsn: Lsn(word()), at: word(), data: Lsn(word()) };
        let inside = clean_shutdown.at >= FIRST_FRAME && clean_shutdown.at.is_multiple_of(frame::ALIGN);
        if note != clean_shutdown.encode(segment.header.generation) || !inside {
            return Ok(None);
        }
        let mut reader = Reader::new(segment.clone());
        reader.at = clean_shutdown.at;
        Ok(match reader.next(clean_shutdown.lsn)? {
            Ok((_, Kind::Closed)) => Some((clean_shutdown, reader.at)),
            _ => None,
        })
    }
}

/// Takes a note back, if there is one; durable with the segment's next flush.
pub(super) fn erase(segment: &Segment) -> Result<()> {
    segment.file.write_at(&[0; LEN], AT)
}
