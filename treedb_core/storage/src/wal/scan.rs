//! Scans the segments in a directory for the end of the log, or for corruption before it.

use std::path::Path;
use std::sync::Arc;

use super::clean_shutdown::CleanShutdown;
use super::frame::{BadFrame, Kind, Lsn};
use super::reader::Reader;
use super::segment::{Segment, name};
use crate::disk::Disk;
use crate::{Error, Result};

/// The result of a scan.
pub(super) struct ScanResult {
    /// The segments with the log from the caller's LSN on, with the offset after their last valid frame;
    /// oldest first, at least one.
    pub(super) live: Vec<(Arc<Segment>, u64)>,
    /// First LSNs of the segments that the caller no longer needs.
    pub(super) obsolete: Vec<Lsn>,
    /// First LSNs of the segments after the end of the log: there is a hole before their frames.
    pub(super) after_end: Vec<Lsn>,
    /// LSN of the last valid frame.
    pub(super) last: Lsn,
    /// LSN of the last data frame, or a higher LSN below `last`.
    pub(super) data: Lsn,
    /// True if the last valid frame is a `closed` frame.
    pub(super) closed: bool,
    /// The highest generation of the segments.
    pub(super) generation: u64,
}

/// Scans the segments named in `firsts` (sorted, not empty) for the frames above `applied`.
pub(super) fn scan(disk: &dyn Disk, dir: &Path, firsts: &[Lsn], applied: Lsn) -> Result<ScanResult> {
    let needed = Lsn(applied.0 + 1);
    let start = firsts.partition_point(|first| *first <= needed);
    let Some(start) = start.checked_sub(1) else {
        let oldest = firsts.first().copied().unwrap_or_default();
        let expected = format!("a log segment that starts at or before LSN {needed}");
        return Err(Error::damaged(dir, 0, expected, format!("none before {}", name(oldest))));
    };
    let segments =
        firsts[start..].iter().map(|f| Segment::open(disk, dir, *f)).collect::<Result<Vec<_>>>()?;
    let before = Lsn(firsts[start].0.saturating_sub(1));
    let mut result = ScanResult {
        live: Vec::new(),
        obsolete: firsts[..start].to_vec(),
        after_end: Vec::new(),
        last: before,
        data: before,
        closed: false,
        generation: segments.iter().map(|s| s.header.generation).max().unwrap_or(0),
    };
    if let [segment] = &segments[..]
        && let Some((clean_shutdown, end)) = CleanShutdown::read(segment)?
        && clean_shutdown.data <= applied
    {
        result.live.push((segment.clone(), end));
        (result.last, result.data, result.closed) = (clean_shutdown.lsn, clean_shutdown.data, true);
        return Ok(result);
    }
    for (i, segment) in segments.iter().enumerate() {
        let mut reader = Reader::new(segment.clone());
        let stop = read_frames(&mut reader, &mut result)?;
        result.live.push((segment.clone(), reader.at));
        match (stop, segments.get(i + 1)) {
            (Stop::Sealed, next) => check_successor(dir, segment, result.last, next)?,
            (Stop::BadFrame(bad), _) => {
                // Any frame or header after the bad frame may claim that the bad frame was durable.
                let bad_lsn = Lsn(result.last.0 + 1);
                let later = &segments[i + 1..];
                let mut claim = reader.highest_claim(bad_lsn)?;
                for other in later {
                    let highest = Reader::new(other.clone()).highest_claim(bad_lsn)?;
                    claim = claim.max(other.header.durable).max(highest);
                }
                if claim >= bad_lsn {
                    let expected = format!("frame {bad_lsn} of a log that was durable up to {claim}");
                    return Err(Error::damaged(segment.path(), reader.at, expected, bad.to_string()));
                }
                result.after_end = later.iter().map(|s| s.header.first).collect();
                break;
            }
        }
    }
    Ok(result)
}

/// Why reading a segment stopped.
enum Stop {
    /// Its last frame is `sealed`: the log continues in the next segment.
    Sealed,
    /// No valid frame follows.
    BadFrame(BadFrame),
}

/// Reads frames up to the seal or the first that is not valid.
fn read_frames(reader: &mut Reader, result: &mut ScanResult) -> Result<Stop> {
    loop {
        match reader.next(Lsn(result.last.0 + 1))? {
            Ok((header, kind)) => {
                result.last = header.lsn;
                result.closed = kind == Kind::Closed;
                if matches!(kind, Kind::Data | Kind::Encrypted) {
                    result.data = header.lsn;
                }
                if kind == Kind::Sealed {
                    return Ok(Stop::Sealed);
                }
            }
            Err(bad) => return Ok(Stop::BadFrame(bad)),
        }
    }
}

/// Checks that `next` is the segment after one that is sealed by frame `last`: it was created, with a durable
/// name, before the seal was written.
fn check_successor(dir: &Path, sealed: &Segment, last: Lsn, next: Option<&Arc<Segment>>) -> Result<()> {
    let expected_first = Lsn(last.0 + 1);
    match next {
        Some(next) if next.header.first == expected_first && next.header.previous == sealed.header.first => {
            Ok(())
        }
        Some(next) => {
            let found = format!("one that starts at {} after {}", next.header.first, next.header.previous);
            Err(Error::damaged(next.path(), 24, format!("the segment that follows frame {last}"), found))
        }
        None => {
            let expected =
                format!("a segment that follows frame {last}, since {} is sealed", name(sealed.header.first));
            Err(Error::damaged(&dir.join(name(expected_first)), 0, expected, "no such file"))
        }
    }
}
