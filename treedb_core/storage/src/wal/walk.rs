//! Finds the end of the log among the segments of a folder, or the damage that hides it.

use std::path::Path;
use std::sync::Arc;

use super::closing::Closing;
use super::frame::{Bad, Kind, Lsn};
use super::reader::Reader;
use super::segment::{Segment, name};
use crate::disk::Disk;
use crate::{Error, Result};

/// What the segments hold.
pub(super) struct Walked {
    /// The segments that hold the log from the caller's LSN on, with the offset behind their last good frame;
    /// oldest first, at least one.
    pub(super) kept: Vec<(Arc<Segment>, u64)>,
    /// Names of segments that hold nothing the caller needs any more.
    pub(super) old: Vec<Lsn>,
    /// Names of segments behind the end: their frames follow a hole that a crash left.
    pub(super) beyond: Vec<Lsn>,
    /// Number of the last good frame.
    pub(super) last: Lsn,
    /// Number of the last frame of data, or a higher one before `last`.
    pub(super) data: Lsn,
    /// True if the last good frame says that nothing was written behind it.
    pub(super) closed: bool,
    /// The highest generation seen.
    pub(super) generation: u64,
}

/// Walks the segments named in `firsts` (sorted, not empty) for the frames above `applied`.
pub(super) fn walk(disk: &dyn Disk, dir: &Path, firsts: &[Lsn], applied: Lsn) -> Result<Walked> {
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
    let mut walked = Walked {
        kept: Vec::new(),
        old: firsts[..start].to_vec(),
        beyond: Vec::new(),
        last: before,
        data: before,
        closed: false,
        generation: segments.iter().map(|s| s.header.generation).max().unwrap_or(0),
    };
    if let [segment] = &segments[..]
        && let Some((closing, end)) = Closing::read(segment)?
        && closing.data <= applied
    {
        walked.kept.push((segment.clone(), end));
        (walked.last, walked.data, walked.closed) = (closing.lsn, closing.data, true);
        return Ok(walked);
    }
    for (i, segment) in segments.iter().enumerate() {
        let mut reader = Reader::new(segment.clone());
        let stop = frames(&mut reader, &mut walked)?;
        walked.kept.push((segment.clone(), reader.at));
        match (stop, segments.get(i + 1)) {
            (Stop::Sealed, next) => follows(dir, segment, walked.last, next)?,
            (Stop::Bad(bad), _) => {
                // Everything behind the bad frame is asked whether the frame was durable once.
                let want = Lsn(walked.last.0 + 1);
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
                walked.beyond = later.iter().map(|s| s.header.first).collect();
                break;
            }
        }
    }
    Ok(walked)
}

/// Why reading a segment stopped.
enum Stop {
    /// Its last frame says that the log goes on in the next.
    Sealed,
    /// No good frame follows.
    Bad(Bad),
}

/// Reads good frames until they stop.
fn frames(reader: &mut Reader, walked: &mut Walked) -> Result<Stop> {
    loop {
        match reader.next(Lsn(walked.last.0 + 1))? {
            Ok((header, kind)) => {
                walked.last = header.lsn;
                walked.closed = kind == Kind::Closed;
                if matches!(kind, Kind::Data | Kind::Secret) {
                    walked.data = header.lsn;
                }
                if kind == Kind::Sealed {
                    return Ok(Stop::Sealed);
                }
            }
            Err(bad) => return Ok(Stop::Bad(bad)),
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
