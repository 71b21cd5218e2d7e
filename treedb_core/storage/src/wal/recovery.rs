//! Reads the frames that were found when the log was opened.

use std::sync::Arc;

use super::frame::{self, Frame, Kind, Lsn};
use super::reader::Reader;
use super::segment::Segment;
use crate::cipher::{Keys, SEAL};
use crate::{Error, Result};

/// Reads the frames above the checkpoint, in order. It keeps its files open, so the log may be appended to
/// and truncated meanwhile.
pub struct Recovery {
    /// The segments still to be read, with the offsets after their last valid frames.
    segments: std::vec::IntoIter<(Arc<Segment>, u64)>,
    current: Option<(Reader, u64)>,
    next: Lsn,
    above: Lsn,
    last: Lsn,
    /// Keys of an encrypted log.
    pub(super) keys: Option<Arc<Keys>>,
    /// The last decrypted payload.
    decrypted: Vec<u8>,
}

impl std::fmt::Debug for Recovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recovery").field("next", &self.next).field("last", &self.last).finish_non_exhaustive()
    }
}

impl Recovery {
    pub(super) fn new(segments: Vec<(Arc<Segment>, u64)>, above: Lsn, last: Lsn) -> Recovery {
        let next = segments.first().map_or(Lsn(last.0 + 1), |(s, _)| s.header.first);
        let (segments, decrypted) = (segments.into_iter(), Vec::new());
        Recovery { segments, current: None, next, above, last, keys: None, decrypted }
    }

    /// LSN of the last frame in the log, including the log's own frames. At or below the checkpoint if there
    /// is nothing to replay.
    pub fn last(&self) -> Lsn {
        self.last
    }

    /// The next frame, `None` after the last.
    ///
    /// # Errors
    /// `Corrupt` if the file has changed since it was opened, or if a frame was not encrypted with the log's
    /// key; `Encrypted` if a frame is encrypted and there is no key; `Io` from the disk.
    #[allow(clippy::should_implement_trait, reason = "a frame borrows the reader's buffer")]
    pub fn next(&mut self) -> Result<Option<Frame<'_>>> {
        let (header, kind) = loop {
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
                    if matches!(kind, Kind::Data | Kind::Encrypted) && header.lsn > self.above {
                        break (header, kind);
                    }
                }
                Err(bad) => {
                    let expected = format!("frame {}, which existed when the log was opened", self.next);
                    return Err(Error::damaged(reader.segment.path(), at, expected, bad.to_string()));
                }
            }
        };
        let Some((reader, _)) = &mut self.current else { return Ok(None) };
        let lsn = header.lsn;
        let path = reader.segment.path().to_path_buf();
        match (&self.keys, kind == Kind::Encrypted) {
            (None, false) => Ok(Some(Frame { lsn, payload: reader.payload(&header)? })),
            (None, true) => Err(Error::Encrypted { path }),
            (Some(_), false) => Err(Error::damaged(
                &path,
                reader.at,
                format!("frame {lsn} encrypted"),
                "an unencrypted frame",
            )),
            (Some(keys), true) => {
                let associated_data = frame::associated_data(reader.segment.header.generation, lsn);
                self.decrypted.clear();
                self.decrypted.extend_from_slice(reader.payload(&header)?);
                let seal = self.decrypted.last_chunk::<SEAL>().copied();
                self.decrypted.truncate(self.decrypted.len().saturating_sub(SEAL));
                if seal.is_some_and(|seal| keys.log.open(&associated_data, &mut self.decrypted, &seal)) {
                    return Ok(Some(Frame { lsn, payload: &self.decrypted }));
                }
                let found = "a seal that fails authentication";
                Err(Error::damaged(&path, reader.at, format!("frame {lsn} sealed with the log's key"), found))
            }
        }
    }
}
