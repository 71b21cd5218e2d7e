//! Scans the segments of a folder for the end of the log, or for damage that hides it.

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
    /// The segments that hold the log from the caller's LSN on, with the offset after their last good frame;
    /// oldest first, at least one.
    pub(super) kept: Vec<(Arc<Segment>, u64)>,
    /// Names of segments that hold nothing the caller needs any more.
    pub(super) old: Vec<Lsn>,
    /// Names of segments after the end: their frames follow a hole that a crash left.
    pub(super) beyond: Vec<Lsn>,
    /// Number of the last good frame.
    pub(super) last: Lsn,
    /// Number of the last frame of data, or a higher one before `last`.
    pub(super) data: Lsn,
    /// True if the last good frame says that nothing was written after it.
    pub(super) closed: bool,
    /// The highest generation seen.
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
        kept: Vec::new(),
        old: firsts[..start].to_vec(),
        beyond: Vec::new(),
        last: before,
        data: before,
        closed: false,
        generation: segments.iter().map(|s| s.header.generation).max().unwrap_or(0),
    };
    if let [segment] = &segments[..]
        && let Some((clean_shutdown, end)) = CleanShutdown::read(segment)?
        && clean_shutdown.data <= applied
    {
        result.kept.push((segment.clone(), end));
        (result.last, result.data, result.closed) = (clean_shutdown.lsn, clean_shutdown.data, true);
        return Ok(result);
    }
    for (i, segment) in segments.iter().enumerate() {
        let mut reader = Reader::new(segment.clone());
        let stop = frames(&mut reader, &mut result)?;
        result.kept.push((segment.clone(), reader.at));
        match (stop, segments.get(i + 1)) {
            (Stop::Sealed, next) => follows(dir, segment, result.last, next)?,
            (Stop::BadFrame(bad), _) => {
                // Whatever follows the bad frame may claim that the frame was durable.
                let want = Lsn(result.last.0 + 1);
                let later = &segments[i + 1..];
                let mut claim = reader.highest_claim(want)?;
                for other in later {
                    let theirs = Reader::new(other.clone()).highest_claim(want)?;
                    claim = claim.max(other.header.durable).max(theirs);
                }
                if claim >= want {
                    let expected = format!("frame {want} of a log that was durable up to {claim}");
                    return Err(Error::damaged(segment.path(), reader.at, expected, bad.to_string()));
                }
                result.beyond = later.iter().map(|s| s.header.first).collect();
                break;
            }
        }
    }
    Ok(result)
}

/// Why reading a segment stopped.
enum Stop {
    /// Its last frame says that the log goes on in the next.
    Sealed,
    /// No good frame follows.
    BadFrame(BadFrame),
}

/// Reads good frames until they stop.
fn frames(reader: &mut Reader, result: &mut ScanResult) -> Result<Stop> {
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

/// Checks that `next` continues a segment sealed by frame `last`: it was made, name and all, before the seal.
fn follows(dir: &Path, sealed: &Segment, last: Lsn, next: Option<&Arc<Segment>>) -> Result<()> {
    let want = Lsn(last.0 + 1);
    match next {
        Some(next) if next.header.first == want && next.header.previous == sealed.header.first => Ok(()),
        Some(next) => {
            let found = format!("one that starts at {} after {}", next.header.first, next.header.previous);
            Err(Error::damaged(next.path(), 24, format!("the segment that follows frame {last}"), found))
        }
        None => {
            let expected =
                format!("a segment that follows frame {last}, since {} is sealed", name(sealed.header.first));
            Err(Error::damaged(&dir.join(name(want)), 0, expected, "no such file"))
        }
    }
}
