//! Appending: where the next frame goes, and how its bytes get there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::clean_shutdown::CleanShutdown;
use super::frame::{self, HEADER, Kind, Lsn, MAX_PAYLOAD};
use super::log::{Log, LogOptions, Sync, lock};
use super::mapped;
use super::segment::{FIRST_FRAME, Header, Segment, zero_fill};
use crate::cipher;
use crate::sync::atomic::Ordering;
use crate::{Error, Result};

/// Frames of at least this many payload bytes are written at once, without a copy.
const DIRECT: usize = 256 * 1024;
/// Room that every segment keeps for the frame that seals it.
const SEAL: u64 = HEADER as u64;
/// The part of the full length that a log's first segment begins with: it grows in place, so that a small database has a
/// small log.
const FIRST_PART: u64 = 16;
/// Frames of less than this have zeroes written ahead of them, if they are to be flushed one by one.
const SMALL: usize = 16 * 1024;
/// How many zeroes are written at once.
const AHEAD: u64 = 256 * 1024;

/// Bytes that belong next to each other in a segment and are not written yet.
struct Run {
    segment: Arc<Segment>,
    at: u64,
    bytes: Vec<u8>,
}

impl Run {
    fn write(&self) -> Result<()> {
        self.segment.file.write_at(&self.bytes, self.at)
    }
}

/// The end of the log.
pub(super) struct Tail {
    pub(super) segment: Arc<Segment>,
    /// Offset in the segment of the next frame.
    pub(super) at: u64,
    /// Blocks of the segment before this offset have been written to.
    zeroed: u64,
    /// Number of the next frame.
    pub(super) next: u64,
    /// Frames waiting for their group, in order.
    runs: Vec<Run>,
    buffered: usize,
    /// A buffer to use again.
    spare_buffer: Vec<u8>,
    /// Segments with frames that no flush has covered, oldest first.
    dirty: Vec<Arc<Segment>>,
    pub(super) closed: bool,
    /// Number of the last frame of data, or a higher one before `next`.
    pub(super) data: Lsn,
    pub(super) switched: Switched,
    /// True if a segment to follow the current one has been asked for.
    asked: bool,
}

/// How often appends switched to another segment, and how long that took.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Switched {
    pub(super) count: u64,
    pub(super) total: Duration,
    pub(super) longest: Duration,
}

/// What a group has to flush.
pub(super) struct Work {
    pub(super) segments: Vec<Arc<Segment>>,
    /// The last frame covered.
    pub(super) upto: Lsn,
}

impl Tail {
    /// Appending continues at `at` of `segment` with frame `next`; the last frame of data was `data`.
    pub(super) fn new(segment: Arc<Segment>, at: u64, next: u64, data: Lsn) -> Tail {
        Tail {
            zeroed: zeroed(&segment, at),
            segment,
            at,
            next,
            runs: Vec::new(),
            buffered: 0,
            spare_buffer: Vec::new(),
            dirty: Vec::new(),
            closed: false,
            data,
            switched: Switched::default(),
            asked: false,
        }
    }

    /// Bytes of frames in the current segment.
    pub(super) fn used(&self) -> u64 {
        self.at.saturating_sub(FIRST_FRAME)
    }

    /// Takes everything appended so far for one group, written out.
    ///
    /// It is written here, under the lock, and not by the group later: a relaxed frame that is appended meanwhile
    /// must not get to the system before the frames before it.
    pub(super) fn take(&mut self) -> Result<Work> {
        self.write_out()?;
        Ok(Work { segments: std::mem::take(&mut self.dirty), upto: Lsn(self.next - 1) })
    }

    /// Writes what is buffered, without a flush.
    pub(super) fn write_out(&mut self) -> Result<()> {
        for run in &self.runs {
            run.write()?;
        }
        self.buffered = 0;
        if let Some(mut run) = self.runs.drain(..).next_back()
            && run.bytes.capacity() > self.spare_buffer.capacity()
            && run.bytes.capacity() <= 2 * DIRECT
        {
            run.bytes.clear();
            self.spare_buffer = run.bytes;
        }
        Ok(())
    }

    /// Adds a frame to the last run, or starts a run for it.
    fn buffer(&mut self, header: &[u8; HEADER], payload: &[u8]) {
        let joins = self.runs.last().is_some_and(|run| {
            Arc::ptr_eq(&run.segment, &self.segment) && run.at + run.bytes.len() as u64 == self.at
        });
        if !joins {
            let bytes = std::mem::take(&mut self.spare_buffer);
            self.runs.push(Run { segment: self.segment.clone(), at: self.at, bytes });
        }
        if let Some(run) = self.runs.last_mut() {
            let whole = frame::size(payload.len()) as usize;
            let end = run.bytes.len() + whole;
            run.bytes.extend_from_slice(header);
            run.bytes.extend_from_slice(payload);
            run.bytes.resize(end, 0);
            self.buffered += whole;
        }
    }

    /// Writes zeroes where the next frames go, if nothing has been written there and those are small.
    fn zero_ahead(&mut self, frame: u64) -> Result<()> {
        let end = self.at + frame;
        if end > self.zeroed && frame < SMALL as u64 {
            let to = (self.zeroed.max(end) + AHEAD).min(self.segment.room());
            zero_fill(self.segment.file.as_ref(), self.zeroed.max(self.at), to)?;
            self.zeroed = to;
        }
        Ok(())
    }

    /// Puts one frame at the end. There is room for it.
    fn put(&mut self, payload: &[u8], sync: Sync, kind: Kind, log: &Log) -> Result<Lsn> {
        let (durable, limit) = (log.durable_lsn(), log.options.max_buffered);
        let lsn = Lsn(self.next);
        let header = frame::header(self.segment.header.generation, lsn, durable, kind, payload);
        if payload.len() >= DIRECT {
            // After all earlier frames, so that a crash of the process leaves no hole.
            self.write_out()?;
            self.segment.file.write_at(&header, self.at)?;
            self.segment.file.write_at(payload, self.at + HEADER as u64)?;
        } else if sync == Sync::Relaxed {
            // As above: a frame counts only after all the frames before it.
            self.write_out()?;
            mapped::store(self.segment.map(log.options.segment_bytes)?, self.at, [&header, payload])?;
        } else {
            self.zero_ahead(frame::size(payload.len()))?;
            self.buffer(&header, payload);
            if self.buffered > limit {
                self.write_out()?;
            }
        }
        if !self.dirty.last().is_some_and(|last| Arc::ptr_eq(last, &self.segment)) {
            self.dirty.push(self.segment.clone());
        }
        self.at += frame::size(payload.len());
        self.next += 1;
        Ok(lsn)
    }
}

/// The offset before which nothing need be written ahead in a segment whose next frame goes to `at`.
fn zeroed(segment: &Segment, at: u64) -> u64 {
    if segment.recycled { segment.room() } else { at }
}

/// Length that a log's first segment begins with.
pub(super) fn first_size(options: &LogOptions) -> u64 {
    size_for(options.segment_bytes / FIRST_PART, 0)
}

/// Length of a segment of `usual` bytes that has to hold a frame of `need` bytes.
fn size_for(usual: u64, need: u64) -> u64 {
    usual.max(FIRST_FRAME + need + SEAL).next_multiple_of(FIRST_FRAME)
}

impl Log {
    /// Appends a frame of any kind.
    pub(super) fn append_kind(&self, payload: &[u8], sync: Sync, kind: Kind) -> Result<Lsn> {
        let keys = self.options.keys.as_ref().filter(|_| kind == Kind::Encrypted);
        let len = payload.len() + keys.map_or(0, |_| cipher::SEAL);
        if len as u64 > MAX_PAYLOAD {
            return Err(Error::TransactionTooLarge { bytes: len as u64, limit: MAX_PAYLOAD });
        }
        let mut tail = lock(&self.tail);
        self.refuse_if_poisoned()?;
        if tail.closed {
            return Err(Error::Invalid("the log is closed: open the database again".into()));
        }
        let need = frame::size(len);
        let room = tail.segment.room();
        if tail.at + need + SEAL > room && !self.grow(&tail, need)? {
            let begun = Instant::now();
            let made = self.next_segment(&mut tail, need);
            let (took, switched) = (begun.elapsed(), &mut tail.switched);
            switched.count += 1;
            switched.total += took;
            switched.longest = switched.longest.max(took);
            made?;
        } else if !tail.asked && room >= self.options.segment_bytes && tail.at > room / 2 {
            tail.asked = true;
            if lock(&self.files).spares.is_empty() {
                self.wanting.store(true, Ordering::Relaxed);
            }
        }
        // Only now is the frame's number known, which is authenticated.
        let sealed = keys.map(|keys| {
            let place = frame::associated_data(tail.segment.header.generation, Lsn(tail.next));
            let mut sealed = Vec::with_capacity(len);
            sealed.extend_from_slice(payload);
            let seal = keys.log.seal(&place, &mut sealed)?;
            sealed.extend_from_slice(&seal);
            Ok::<_, Error>(sealed)
        });
        let sealed = sealed.transpose()?;
        let payload = sealed.as_deref().unwrap_or(payload);
        let at = tail.at;
        let put = tail.put(payload, sync, kind, self);
        let noted = put.and_then(|lsn| {
            match kind {
                Kind::Data | Kind::Encrypted => tail.data = lsn,
                Kind::Closed => CleanShutdown { lsn, at, data: tail.data }.write(&tail.segment)?,
                Kind::Opened | Kind::Sealed => {}
            }
            Ok(lsn)
        });
        tail.closed = kind == Kind::Closed;
        noted.map_err(|e| self.poison(&e))
    }

    /// Makes the current segment longer, so that a frame of `need` bytes fits; false if it would get too long.
    fn grow(&self, tail: &Tail, need: u64) -> Result<bool> {
        let (segment, end) = (&tail.segment, (tail.at + need + SEAL).next_multiple_of(FIRST_FRAME));
        let full = self.options.segment_bytes;
        if end > full {
            return Ok(false);
        }
        // Where there is no room for so much, there may be for this frame.
        let grown = match segment.grow((2 * segment.room()).clamp(end, full)) {
            Err(Error::DiskFull { .. }) => segment.grow(end),
            other => other,
        };
        match grown {
            Ok(()) => Ok(true),
            // The log is as it was.
            Err(full @ Error::DiskFull { .. }) => Err(full),
            Err(e) => Err(self.poison(&e)),
        }
    }

    /// Makes the next segment, then seals the current one: whoever finds the seal finds the segment.
    fn next_segment(&self, tail: &mut Tail, need: u64) -> Result<()> {
        let current = tail.segment.header;
        let header = Header {
            generation: current.generation + 1,
            // The seal takes a number.
            first: Lsn(tail.next + 1),
            size: size_for(self.options.segment_bytes, need),
            durable: self.durable_lsn(),
            previous: current.first,
        };
        let made = lock(&self.files).make(self.disk.as_ref(), &self.dir, header, self.options.segment_bytes);
        let segment = match made {
            Ok(segment) => segment,
            // The log is as it was.
            Err(full @ Error::DiskFull { .. }) => return Err(full),
            Err(e) => return Err(self.poison(&e)),
        };
        let (used, size) = (tail.used() + SEAL, tail.segment.room());
        // Nothing follows in this segment: no zeroes are needed.
        tail.zeroed = size;
        // Written at once: relaxed frames in the next segment count for nothing while the seal is not there.
        tail.put(&[], Sync::Durable, Kind::Sealed, self)
            .and_then(|_| tail.write_out())
            .map_err(|e| self.poison(&e))?;
        lock(&self.files).push(&segment, used, size);
        tail.zeroed = zeroed(&segment, FIRST_FRAME);
        tail.segment = segment;
        tail.at = FIRST_FRAME;
        tail.asked = false;
        Ok(())
    }
}
