//! The record of a clean shutdown: where the log's last frame is, so that opening need not search for it.
//!
//! It is in the sector of the segment's header and written together with the `closed` frame. It is erased,
//! durably, before any frame but `opened` follows; so if there is a record, everything after its frame is
//! ignored. If the record is invalid (torn, from a former use of the file, or without its frame), the end of
//! the log is searched for.

use std::sync::Arc;

use super::frame::{self, Kind, Lsn};
use super::reader::Reader;
use super::segment::{FIRST_FRAME, Segment};
use crate::Result;

/// Offset of the record: after the header, in the same sector.
const AT: u64 = 64;
/// Length of the record in bytes.
const LEN: usize = 32;

/// The end of a log that was shut down cleanly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CleanShutdown {
    /// LSN of the `closed` frame.
    pub(super) lsn: Lsn,
    /// Offset of that frame in its segment.
    pub(super) at: u64,
    /// LSN of the last data frame before it.
    pub(super) data: Lsn,
}

impl CleanShutdown {
    fn encode(&self, generation: u64) -> [u8; LEN] {
        let mut record = [0; LEN];
        for (bytes, word) in record[8..].chunks_exact_mut(8).zip([self.lsn.0, self.at, self.data.0]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let crc = crc32c::crc32c_append(generation as u32, &record[4..]);
        record[0..4].copy_from_slice(&crc.to_le_bytes());
        record
    }

    /// Writes the record to its segment. It becomes durable with the flush of its frame.
    pub(super) fn write(&self, segment: &Segment) -> Result<()> {
        segment.file.write_at(&self.encode(segment.header.generation), AT)
    }

    /// The record of `segment`, the log's last one, and the offset after its frame; `None` if it is not
    /// valid.
    pub(super) fn read(segment: &Arc<Segment>) -> Result<Option<(CleanShutdown, u64)>> {
        let mut record = [0; LEN];
        segment.file.read_at(&mut record, AT)?;
        let mut words = record[8..].chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
        let mut word = || words.next().unwrap_or(0);
        let shutdown = CleanShutdown { lsn: Lsn(word()), at: word(), data: Lsn(word()) };
        let inside = shutdown.at >= FIRST_FRAME && shutdown.at.is_multiple_of(frame::ALIGN);
        if record != shutdown.encode(segment.header.generation) || !inside {
            return Ok(None);
        }
        let mut reader = Reader::new(segment.clone());
        reader.at = shutdown.at;
        Ok(match reader.next(shutdown.lsn)? {
            Ok((_, Kind::Closed)) => Some((shutdown, reader.at)),
            _ => None,
        })
    }
}

/// Erases the record, if there is one; durable with the segment's next flush.
pub(super) fn erase(segment: &Segment) -> Result<()> {
    segment.file.write_at(&[0; LEN], AT)
}
