//! Appending frames: the position of the next frame, buffering, and switching to the next segment.

use std::sync::Arc;
use std::time::Instant;

use super::clean_shutdown::CleanShutdown;
use super::frame::{self, HEADER, Kind, Lsn, MAX_PAYLOAD};
use super::log::{Log, LogOptions, Sync, lock};
use super::mapped;
use super::segment::{FIRST_FRAME, Header, Segment, zero_fill};
use super::timings::Timings;
use crate::cipher;
use crate::sync::atomic::Ordering;
use crate::{Error, Result};

/// Payloads of at least this many bytes are written directly, without copying them to a buffer.
const DIRECT_WRITE: usize = 256 * 1024;
/// Bytes that every segment reserves for its `sealed` frame.
const SEALED_FRAME: u64 = HEADER as u64;
/// A log's first segment starts with this fraction of the full length and grows in place, so that a small
/// database has a small log.
const FIRST_SEGMENT_FRACTION: u64 = 16;
/// For durable frames smaller than this, zeroes are written ahead.
const SMALL_FRAME: usize = 16 * 1024;
/// How many bytes of zeroes are written ahead at a time.
const ZERO_AHEAD: u64 = 256 * 1024;

/// Consecutive bytes of a segment that are not written yet.
struct BufferedBytes {
    segment: Arc<Segment>,
    at: u64,
    bytes: Vec<u8>,
}

impl BufferedBytes {
    fn write(&self) -> Result<()> {
        self.segment.file.write_at(&self.bytes, self.at)
    }
}

/// Appends frames to the end of the log.
pub(super) struct Appender {
    pub(super) segment: Arc<Segment>,
    /// Offset of the next frame in the segment.
    pub(super) at: u64,
    /// The blocks of the segment before this offset have been written to.
    zeroed: u64,
    /// LSN of the next frame.
    pub(super) next: u64,
    /// Frames that wait for their commit group, in order.
    buffers: Vec<BufferedBytes>,
    /// Total bytes in `buffers`.
    buffered: usize,
    /// An empty buffer to reuse.
    spare_buffer: Vec<u8>,
    /// Segments with frames that are not flushed, oldest first.
    dirty: Vec<Arc<Segment>>,
    pub(super) closed: bool,
    /// LSN of the last data frame, or a higher LSN below `next`.
    pub(super) data: Lsn,
    /// Switches to another segment.
    pub(super) switches: Timings,
    /// True if a segment to follow the current one has been requested.
    next_requested: bool,
}

/// What a commit group has to flush.
pub(super) struct FlushWork {
    pub(super) segments: Vec<Arc<Segment>>,
    /// The last frame that the flush makes durable.
    pub(super) upto: Lsn,
}

impl Appender {
    /// Continues at offset `at` of `segment` with frame `next`; the last data frame was `data`.
    pub(super) fn new(segment: Arc<Segment>, at: u64, next: u64, data: Lsn) -> Appender {
        Appender {
            zeroed: zeroed(&segment, at),
            segment,
            at,
            next,
            buffers: Vec::new(),
            buffered: 0,
            spare_buffer: Vec::new(),
            dirty: Vec::new(),
            closed: false,
            data,
            switches: Timings::default(),
            next_requested: false,
        }
    }

    /// Bytes of frames in the current segment.
    pub(super) fn used(&self) -> u64 {
        self.at.saturating_sub(FIRST_FRAME)
    }

    /// Writes everything appended so far to the files and returns what is to be flushed.
    ///
    /// The write happens here, under the lock, and not later in the group: a relaxed frame that is appended
    /// meanwhile must not reach the operating system before the frames that precede it.
    pub(super) fn take_flush_work(&mut self) -> Result<FlushWork> {
        self.write_out()?;
        Ok(FlushWork { segments: std::mem::take(&mut self.dirty), upto: Lsn(self.next - 1) })
    }

    /// Writes the buffered frames to the files, without flushing.
    pub(super) fn write_out(&mut self) -> Result<()> {
        for buffer in &self.buffers {
            buffer.write()?;
        }
        self.buffered = 0;
        if let Some(mut buffer) = self.buffers.drain(..).next_back()
            && buffer.bytes.capacity() > self.spare_buffer.capacity()
            && buffer.bytes.capacity() <= 2 * DIRECT_WRITE
        {
            buffer.bytes.clear();
            self.spare_buffer = buffer.bytes;
        }
        Ok(())
    }

    /// Adds a frame to the last buffer, or starts a new one for it.
    fn buffer_frame(&mut self, header: &[u8; HEADER], payload: &[u8]) {
        let continues = self.buffers.last().is_some_and(|buffer| {
            Arc::ptr_eq(&buffer.segment, &self.segment) && buffer.at + buffer.bytes.len() as u64 == self.at
        });
        if !continues {
            let bytes = std::mem::take(&mut self.spare_buffer);
            self.buffers.push(BufferedBytes { segment: self.segment.clone(), at: self.at, bytes });
        }
        if let Some(buffer) = self.buffers.last_mut() {
            let size = frame::size(payload.len()) as usize;
            let end = buffer.bytes.len() + size;
            buffer.bytes.extend_from_slice(header);
            buffer.bytes.extend_from_slice(payload);
            buffer.bytes.resize(end, 0);
            self.buffered += size;
        }
    }

    /// Writes zeroes where the next frames will be, if the frames are small and nothing has been written
    /// there.
    fn zero_ahead(&mut self, frame: u64) -> Result<()> {
        let end = self.at + frame;
        if end > self.zeroed && frame < SMALL_FRAME as u64 {
            let to = (self.zeroed.max(end) + ZERO_AHEAD).min(self.segment.allocated());
            zero_fill(self.segment.file.as_ref(), self.zeroed.max(self.at), to)?;
            self.zeroed = to;
        }
        Ok(())
    }

    /// Appends one frame to the segment, which has room for it.
    fn put(&mut self, payload: &[u8], sync: Sync, kind: Kind, log: &Log) -> Result<Lsn> {
        let (durable, limit) = (log.durable_lsn(), log.options.max_buffered);
        let lsn = Lsn(self.next);
        let header = frame::header(self.segment.header.generation, lsn, durable, kind, payload);
        if payload.len() >= DIRECT_WRITE {
            // Earlier frames are written first, so that a crash of the process leaves no hole.
            self.write_out()?;
            self.segment.file.write_at(&header, self.at)?;
            self.segment.file.write_at(payload, self.at + HEADER as u64)?;
        } else if sync == Sync::Relaxed {
            // As above: a frame is only valid if all frames before it are there.
            self.write_out()?;
            mapped::store(self.segment.map(log.options.segment_bytes)?, self.at, [&header, payload])?;
        } else {
            self.zero_ahead(frame::size(payload.len()))?;
            self.buffer_frame(&header, payload);
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

/// The offset up to which the blocks of a segment have been written to, if its next frame goes to `at`.
fn zeroed(segment: &Segment, at: u64) -> u64 {
    if segment.recycled { segment.allocated() } else { at }
}

/// The initial length of a log's first segment.
pub(super) fn first_size(options: &LogOptions) -> u64 {
    size_for(options.segment_bytes / FIRST_SEGMENT_FRACTION, 0)
}

/// The length of a segment that fits a frame of `need` bytes: `default` bytes, or more if necessary.
fn size_for(default: u64, need: u64) -> u64 {
    default.max(FIRST_FRAME + need + SEALED_FRAME).next_multiple_of(FIRST_FRAME)
}

impl Log {
    /// Appends a frame of any kind.
    pub(super) fn append_kind(&self, payload: &[u8], sync: Sync, kind: Kind) -> Result<Lsn> {
        let keys = self.options.keys.as_ref().filter(|_| kind == Kind::Encrypted);
        let len = payload.len() + keys.map_or(0, |_| cipher::SEAL);
        if len as u64 > MAX_PAYLOAD {
            return Err(Error::TransactionTooLarge { bytes: len as u64, limit: MAX_PAYLOAD });
        }
        let mut appender = lock(&self.appender);
        self.refuse_if_poisoned()?;
        if appender.closed {
            return Err(Error::Invalid("the log is closed: open the database again".into()));
        }
        let need = frame::size(len);
        let allocated = appender.segment.allocated();
        if appender.at + need + SEALED_FRAME > allocated && !self.grow(&appender, need)? {
            let begun = Instant::now();
            let result = self.next_segment(&mut appender, need);
            appender.switches.add(begun.elapsed());
            result?;
        } else if !appender.next_requested
            && allocated >= self.options.segment_bytes
            && appender.at > allocated / 2
        {
            appender.next_requested = true;
            if lock(&self.files).spares.is_empty() {
                self.next_wanted.store(true, Ordering::Relaxed);
            }
        }
        // Encrypted only now: the seal authenticates the frame's LSN, which is known from here on.
        let sealed = keys.map(|keys| {
            let associated_data =
                frame::associated_data(appender.segment.header.generation, Lsn(appender.next));
            let mut sealed = Vec::with_capacity(len);
            sealed.extend_from_slice(payload);
            let seal = keys.log.seal(&associated_data, &mut sealed)?;
            sealed.extend_from_slice(&seal);
            Ok::<_, Error>(sealed)
        });
        let sealed = sealed.transpose()?;
        let payload = sealed.as_deref().unwrap_or(payload);
        let at = appender.at;
        let put = appender.put(payload, sync, kind, self);
        let recorded = put.and_then(|lsn| {
            match kind {
                Kind::Data | Kind::Encrypted => appender.data = lsn,
                Kind::Closed => CleanShutdown { lsn, at, data: appender.data }.write(&appender.segment)?,
                Kind::Opened | Kind::Sealed => {}
            }
            Ok(lsn)
        });
        appender.closed = kind == Kind::Closed;
        recorded.map_err(|e| self.poison(&e))
    }

    /// Grows the current segment so that a frame of `need` bytes fits; false if it would exceed the full
    /// length.
    fn grow(&self, appender: &Appender, need: u64) -> Result<bool> {
        let (segment, end) =
            (&appender.segment, (appender.at + need + SEALED_FRAME).next_multiple_of(FIRST_FRAME));
        let full = self.options.segment_bytes;
        if end > full {
            return Ok(false);
        }
        // If the disk has no room for doubling the segment, it may have room for this frame.
        let grown = match segment.grow_early((2 * segment.allocated()).clamp(end, full)) {
            Err(Error::DiskFull { .. }) => segment.grow(end),
            other => other,
        };
        match grown {
            Ok(()) => Ok(true),
            // The log is unchanged.
            Err(full @ Error::DiskFull { .. }) => Err(full),
            Err(e) => Err(self.poison(&e)),
        }
    }

    /// Creates the next segment, then seals the current one: if there is a seal, the next segment exists.
    fn next_segment(&self, appender: &mut Appender, need: u64) -> Result<()> {
        let current = appender.segment.header;
        let header = Header {
            generation: current.generation + 1,
            // The seal takes an LSN too.
            first: Lsn(appender.next + 1),
            size: size_for(self.options.segment_bytes, need),
            durable: self.durable_lsn(),
            previous: current.first,
        };
        let created = lock(&self.files).create_segment(
            self.disk.as_ref(),
            &self.dir,
            header,
            self.options.segment_bytes,
        );
        let segment = match created {
            Ok(segment) => segment,
            // The log is unchanged.
            Err(full @ Error::DiskFull { .. }) => return Err(full),
            Err(e) => return Err(self.poison(&e)),
        };
        let (used, size) = (appender.used() + SEALED_FRAME, appender.segment.allocated());
        // The seal is the last frame of this segment: no zeroes are needed after it.
        appender.zeroed = size;
        // Written immediately: relaxed frames in the next segment are not valid until the seal is there.
        appender
            .put(&[], Sync::Durable, Kind::Sealed, self)
            .and_then(|_| appender.write_out())
            .map_err(|e| self.poison(&e))?;
        lock(&self.files).push(&segment, used, size);
        appender.zeroed = zeroed(&segment, FIRST_FRAME);
        appender.segment = segment;
        appender.at = FIRST_FRAME;
        appender.next_requested = false;
        Ok(())
    }
}
