//! Reads the frames that opening found.

use std::sync::Arc;

use super::frame::{Frame, Kind, Lsn};
use super::reader::Reader;
use super::segment::Segment;
use crate::error::{Error, Result};

/// The frames above the checkpoint, in order. It holds its files open, so the log may be appended to and cut while
/// it reads.
pub struct Recovery {
    /// Segments and the offsets behind their last good frames; the current one first.
    segments: std::vec::IntoIter<(Arc<Segment>, u64)>,
    current: Option<(Reader, u64)>,
    next: Lsn,
    above: Lsn,
    last: Lsn,
}

impl std::fmt::Debug for Recovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recovery").field("next", &self.next).field("last", &self.last).finish_non_exhaustive()
    }
}

impl Recovery {
    pub(super) fn new(segments: Vec<(Arc<Segment>, u64)>, above: Lsn, last: Lsn) -> Recovery {
        let next = segments.first().map_or(Lsn(last.0 + 1), |(s, _)| s.header.first);
        Recovery { segments: segments.into_iter(), current: None, next, above, last }
    }

    /// Number of the last frame that is there, the log's own included: nothing follows it. Equal to the checkpoint
    /// or less if there is nothing to replay.
    pub fn last(&self) -> Lsn {
        self.last
    }

    /// The next frame, or `None` behind the last.
    ///
    /// # Errors
    /// `Corrupt` if the file has changed since it was opened; `Io` from the disk.
    #[allow(clippy::should_implement_trait, reason = "a frame borrows the reader's buffer")]
    pub fn next(&mut self) -> Result<Option<Frame<'_>>> {
        let header = loop {
            let Some((reader, end)) = &mut self.current else {
                let Some((segment, end)) = self.segments.next() else { return Ok(None) };
                self.current = Some((Reader::new(segment), end));
                continue;
            };
            if reader.at >= *end {
                self.current = None;
                continue;
            }
            let at = reader.at;
            match reader.next(self.next)? {
                Ok((header, kind)) => {
                    self.next = Lsn(header.lsn.0 + 1);
                    if kind == Kind::Data && header.lsn > self.above {
                        break header;
                    }
                }
                Err(bad) => {
                    let expected = format!("frame {}, which was there when the log was opened", self.next);
                    return Err(Error::damaged(reader.segment.path(), at, expected, bad.to_string()));
                }
            }
        };
        match &mut self.current {
            Some((reader, _)) => Ok(Some(Frame { lsn: header.lsn, payload: reader.payload(&header)? })),
            None => Ok(None),
        }
    }
}
