//! One segment: its file, its header, and how far it is filled.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::pointer::ValuePtr;
use super::record::{ALIGN, HEADER, Header, MIN_RECORD, size};
use super::state::SegmentState;
use super::view::View;
use super::write_buffer::{Failure, WriteBuffer};
use crate::cipher::{Keys, SEAL};
use crate::disk::{Disk, DiskFile};
use crate::page::prefetch_from;
use crate::{Error, Result};

const MAGIC: [u8; 8] = *b"TreeDBvl";
const VERSION: u32 = 1;
/// Offset of the first record.
pub(super) const FIRST: u64 = 512;
/// Records up to this length are buffered.
const MAX_BUFFERED: usize = 256 * 1024;
/// Records of at least this length are asked for as a whole where the system does not read ahead: page by page would
/// take longer than the call does.
const LONG: usize = 16 * 1024;
/// The least and the most a file grows by at a time.
const GROW: (u64, u64) = (64 << 10, 4 << 20);

/// The name of segment `id`.
pub(super) fn name(id: u32) -> String {
    format!("{id:08x}.val")
}

/// The number in a segment's name, if it is one.
pub(super) fn parse(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".val")?;
    let plain = digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    plain.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

/// An open segment.
pub(super) struct Segment {
    pub(super) id: u32,
    pub(super) capacity: u64,
    file: Arc<dyn DiskFile>,
    view: OnceLock<View>,
    /// Offset after the last record. Stored after the record's bytes are written, or wait to be.
    end: AtomicU64,
    /// The last records, which have not been written yet.
    pub(super) buffer: WriteBuffer,
    live: AtomicU64,
    /// Bytes that the file has; only the appender changes it.
    grown: AtomicU64,
    /// True if the system reads ahead in the view.
    ahead: AtomicBool,
    /// One bit for each `MIN_RECORD` bytes: the record that starts there has been verified.
    verified: OnceLock<Box<[AtomicU64]>>,
    /// True if there are records that no sync has covered.
    pub(super) dirty: AtomicBool,
    /// Keys of an encrypted log.
    pub(super) keys: Option<Arc<Keys>>,
}

/// What all segments of a log have in common.
#[derive(Debug, Clone, Default)]
pub(super) struct Common {
    /// Keys of an encrypted log.
    pub(super) keys: Option<Arc<Keys>>,
    pub(super) failure: Failure,
}

/// How far a segment is filled, and how much of that is live.
struct Fill {
    end: u64,
    live: u64,
    /// Bytes of the file.
    grown: u64,
}

impl Segment {
    fn over(id: u32, capacity: u64, file: Arc<dyn DiskFile>, fill: &Fill, common: &Common) -> Segment {
        Segment {
            keys: common.keys.clone(),
            id,
            capacity,
            buffer: WriteBuffer::new(file.clone(), fill.end, common.failure.clone()),
            file,
            view: OnceLock::new(),
            ahead: AtomicBool::new(true),
            end: AtomicU64::new(fill.end),
            live: AtomicU64::new(fill.live),
            grown: AtomicU64::new(fill.grown),
            verified: OnceLock::new(),
            dirty: AtomicBool::new(false),
        }
    }

    /// Makes an empty segment, reusing the file `used` if given (its blocks are kept; its old records are invalid,
    /// because their checksums are seeded with another number). Neither its header nor its name is durable yet.
    pub(super) fn create(
        disk: &dyn Disk,
        dir: &Path,
        id: u32,
        capacity: u64,
        used: Option<&Path>,
        common: &Common,
    ) -> Result<Segment> {
        let path = dir.join(name(id));
        if let Some(used) = used {
            disk.rename(used, &path)?;
        }
        let file = disk.open(&path, true)?;
        let mut header = [0u8; 64];
        header[0..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[12..16].copy_from_slice(&(FIRST as u32).to_le_bytes());
        header[16..24].copy_from_slice(&u64::from(id).to_le_bytes());
        header[24..32].copy_from_slice(&capacity.to_le_bytes());
        let crc = crc32c::crc32c(&header[..60]);
        header[60..64].copy_from_slice(&crc.to_le_bytes());
        // A crash may have left a file of this name there.
        let fresh = || if used.is_none() { file.set_len(0) } else { Ok(()) };
        let laid = fresh()
            .and_then(|()| file.reserve(FIRST))
            .and_then(|()| file.write_at(&header, 0))
            .and_then(|()| file.len());
        let grown = match laid {
            Ok(len) => len.min(capacity),
            Err(e) => {
                let _ = disk.remove(&path);
                return Err(e);
            }
        };
        let segment = Segment::over(id, capacity, file, &Fill { end: FIRST, live: 0, grown }, common);
        segment.dirty.store(true, Ordering::Relaxed);
        Ok(segment)
    }

    /// Opens a segment that a checkpoint knows, as it was then.
    pub(super) fn open(
        disk: &dyn Disk,
        dir: &Path,
        state: &SegmentState,
        common: &Common,
    ) -> Result<Segment> {
        let SegmentState { id, end, live } = *state;
        let path = dir.join(name(id));
        if !disk.exists(&path)? {
            return Err(Error::damaged(
                &path,
                0,
                "a value segment that the checkpoint names",
                "no such file",
            ));
        }
        let file = disk.open(&path, false)?;
        let len = file.len()?;
        if len < end || end < FIRST {
            let expected = format!("at least {} bytes", end.max(FIRST));
            return Err(Error::damaged(&path, len.min(end), expected, format!("{len} bytes")));
        }
        let mut h = [0u8; 64];
        file.read_at(&mut h, 0)?;
        let half = |at: usize| u32::from_le_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]);
        let word = |at: usize| u64::from(half(at)) | u64::from(half(at + 4)) << 32;
        if h[0..8] != MAGIC {
            return Err(Error::foreign(&path, "value segment", &h[0..8]));
        }
        let computed = crc32c::crc32c(&h[..60]);
        if half(60) != computed {
            let found = format!("{:08x}", half(60));
            return Err(Error::damaged(&path, 60, format!("header checksum {computed:08x}"), found));
        }
        if half(8) != VERSION || half(12) != FIRST as u32 {
            return Err(Error::other_version(&path, "value segment", half(8), VERSION));
        }
        if word(16) != u64::from(id) {
            let found = format!("number {}", word(16));
            return Err(Error::damaged(&path, 16, format!("number {id}, as in the file's name"), found));
        }
        let capacity = word(24);
        if capacity < end {
            return Err(Error::damaged(
                &path,
                24,
                format!("a capacity of at least {end}"),
                format!("{capacity}"),
            ));
        }
        Ok(Segment::over(id, capacity, file, &Fill { end, live, grown: len }, common))
    }

    pub(super) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    pub(super) fn live(&self) -> u64 {
        self.live.load(Ordering::Relaxed)
    }

    pub(super) fn add_live(&self, bytes: u64) {
        self.live.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts from the live bytes; false if there are fewer, which means damage.
    pub(super) fn take_live(&self, bytes: u64) -> bool {
        self.live.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |live| live.checked_sub(bytes)).is_ok()
    }

    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Makes all records durable.
    pub(super) fn sync(&self) -> Result<()> {
        self.buffer.write_out()?;
        self.file.sync()
    }

    /// True if there are records that are not in the file.
    pub(super) fn waits(&self) -> bool {
        self.end() > self.buffer.written()
    }

    /// True if a record of `size` bytes fits.
    pub(super) fn has_room(&self, size: u64) -> bool {
        self.end() + size <= self.capacity
    }

    /// Appends a record for which there is room; true if there is something for a helper to write, if there is one.
    /// Called by one thread at a time. After an error the segment is as it was.
    pub(super) fn append(&self, owner: &[u8], value: &[u8], helped: bool) -> Result<(ValuePtr, bool)> {
        let at = self.end();
        let size = size(value.len() as u64, owner.len() as u64, self.keys.is_some());
        self.grow(at + size)?;
        let (header, full) = if let Some(keys) = &self.keys {
            let (header, record) = self.seal(keys, at, owner, value)?;
            (header, self.put(size, &[&record], helped)?)
        } else {
            let header = Header::new(self.id, value, owner);
            let full = self.put(size, &[&header.encode(), value, owner], helped)?;
            self.set_verified(at);
            (header, full)
        };
        self.end.store(at + size, Ordering::Release);
        self.dirty.store(true, Ordering::Release);
        let ptr =
            ValuePtr { segment: self.id, offset: (at / ALIGN) as u32, len: header.len, check: header.check };
        Ok((ptr, full))
    }

    /// Buffers a record of `size` bytes, given in parts, or writes a long one directly.
    fn put(&self, size: u64, parts: &[&[u8]], helped: bool) -> Result<bool> {
        if size <= MAX_BUFFERED as u64 {
            return self.buffer.push(size as usize, parts, helped);
        }
        self.buffer.write(size, parts).map(|()| false)
    }

    /// An encrypted record for the place `at`, header and all.
    fn seal(&self, keys: &Keys, at: u64, owner: &[u8], value: &[u8]) -> Result<(Header, Vec<u8>)> {
        let mut header = Header::secret(value.len(), owner.len());
        let mut record = Vec::with_capacity(HEADER + header.body() as usize);
        record.extend_from_slice(&[0; HEADER]);
        record.extend_from_slice(value);
        record.extend_from_slice(owner);
        let seal = keys.values.seal(&header.associated_data(self.id, at), &mut record[HEADER..])?;
        record.extend_from_slice(&seal);
        header.check = header.checksum(self.id, &[&record[HEADER..]]);
        record[..HEADER].copy_from_slice(&header.encode());
        Ok((header, record))
    }

    /// Makes the file at least `need` bytes long, by steps that grow with it.
    fn grow(&self, need: u64) -> Result<()> {
        let have = self.grown.load(Ordering::Relaxed);
        if need > have {
            let step = have.clamp(GROW.0, GROW.1);
            let len = need.max(have + step).min(self.capacity);
            self.file.reserve(len)?;
            self.grown.store(len, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The value of a pointer into this segment.
    pub(super) fn value(&self, ptr: ValuePtr) -> Result<&[u8]> {
        let header = self.header(ptr.at())?;
        self.check_pointer(ptr, &header)?;
        Ok(self.body(ptr.at(), &header)?.0)
    }

    /// Asks for the memory of the value of a pointer, which is about to be read, where it is mapped.
    #[inline]
    pub(super) fn prefetch(&self, ptr: ValuePtr) {
        if let Some(view) = self.view.get() {
            view.prefetch(ptr.at() as usize, HEADER + ptr.len as usize);
            let word = self.bits().get((ptr.at() / (64 * MIN_RECORD)) as usize);
            word.into_iter().for_each(|word| prefetch_from(std::ptr::from_ref(word).cast(), 1));
        }
    }

    /// Checks that a record is the one the pointer means.
    fn check_pointer(&self, ptr: ValuePtr, header: &Header) -> Result<()> {
        if header.check != ptr.check || header.len != ptr.len {
            let expected = format!("a value of {} bytes with checksum {:08x}", ptr.len, ptr.check);
            let found = format!("one of {} bytes with checksum {:08x}", header.len, header.check);
            return Err(Error::damaged(self.path(), ptr.at(), expected, found));
        }
        Ok(())
    }

    /// Reads the value of a pointer from the file into the room given for it.
    pub(super) fn read<'b>(
        &self,
        ptr: ValuePtr,
        room: impl FnOnce(usize) -> &'b mut [u8],
    ) -> Result<&'b [u8]> {
        let header = self.read_header(ptr.at())?;
        self.check_pointer(ptr, &header)?;
        let text = self.read_text(ptr.at(), &header, room)?;
        Ok(text.get(..ptr.len as usize).unwrap_or_default())
    }

    /// As [`Segment::header`], from the file.
    pub(super) fn read_header(&self, at: u64) -> Result<Header> {
        self.check_inside(at, HEADER as u64)?;
        let mut bytes = [0; HEADER];
        self.fetch(&mut bytes, at)?;
        self.check_plausible(at, Header::decode(&bytes))
    }

    /// Reads value and owner's name of the record at `at`, one after the other, from the file into the room given for
    /// them. They are verified and, if they must be, decrypted.
    pub(super) fn read_text<'b>(
        &self,
        at: u64,
        header: &Header,
        room: impl FnOnce(usize) -> &'b mut [u8],
    ) -> Result<&'b [u8]> {
        let body = at + HEADER as u64;
        self.check_inside(body, header.body())?;
        let text = room(header.text() as usize);
        self.fetch(text, body)?;
        let Some(keys) = &self.keys else {
            self.verify_checksum(at, header, &[text])?;
            return Ok(text);
        };
        let mut seal = [0; SEAL];
        self.fetch(&mut seal, body + header.text())?;
        self.verify_checksum(at, header, &[text, &seal])?;
        if !keys.values.open(&header.associated_data(self.id, at), text, &seal) {
            let expected = "a value sealed with the database's key for this place";
            return Err(Error::damaged(self.path(), at, expected, "bytes that fail authentication"));
        }
        Ok(text)
    }

    /// The header at `at`, which has to be a plausible one of a record that ends before the segment's end.
    pub(super) fn header(&self, at: u64) -> Result<Header> {
        let bytes = self.bytes(at, HEADER as u64)?;
        self.check_plausible(at, Header::decode(bytes))
    }

    fn check_plausible(&self, at: u64, header: Option<Header>) -> Result<Header> {
        match header {
            Some(header)
                if header.plausible()
                    && header.is_secret() == self.keys.is_some()
                    && at.is_multiple_of(ALIGN)
                    && at >= FIRST =>
            {
                Ok(header)
            }
            header => Err(Error::damaged(self.path(), at, "a record", format!("{header:?}"))),
        }
    }

    /// Turns the system's read-ahead on or off.
    pub(super) fn read_ahead(&self, on: bool) {
        self.ahead.store(on, Ordering::Relaxed);
        if let Some(view) = self.view.get() {
            view.read_ahead(on);
        }
    }

    /// Value and owner's name of the record at `at`, its checksum verified.
    pub(super) fn body(&self, at: u64, header: &Header) -> Result<(&[u8], &[u8])> {
        let body = self.bytes(at + HEADER as u64, header.body())?;
        if body.len() >= LONG && !self.ahead.load(Ordering::Relaxed) {
            self.view.get().inspect(|view| view.will_need(at as usize, body.len()));
        }
        if !self.is_verified(at) {
            self.verify_checksum(at, header, &[body])?;
            self.set_verified(at);
        }
        Ok(body.split_at_checked(header.len as usize).unwrap_or_default())
    }

    /// Checks a record's body, in parts, against its checksum.
    fn verify_checksum(&self, at: u64, header: &Header, body: &[&[u8]]) -> Result<()> {
        let computed = header.checksum(self.id, body);
        if computed == header.check {
            return Ok(());
        }
        let expected = format!("a record with checksum {:08x}", header.check);
        Err(Error::damaged(self.path(), at, expected, format!("{computed:08x}")))
    }

    /// Checks that the bytes `at..at + len` belong to the records so far, and makes sure that they are in the file.
    fn check_inside(&self, at: u64, len: u64) -> Result<()> {
        let end = self.end();
        if at.checked_add(len).is_none_or(|to| to > end) {
            let expected = format!("{len} bytes at {at}");
            return Err(Error::damaged(self.path(), at, expected, format!("records that end at {end}")));
        }
        self.buffer.reach(at + len)
    }

    /// Reads bytes for which [`check_inside`](Segment::check_inside) succeeded.
    fn fetch(&self, to: &mut [u8], at: u64) -> Result<()> {
        match self.buffer.stuck(at, to.len() as u64) {
            Some(stuck) => to.copy_from_slice(stuck),
            None => self.file.read_at(to, at)?,
        }
        Ok(())
    }

    /// The bytes `at..at + len` of the records so far.
    fn bytes(&self, at: u64, len: u64) -> Result<&[u8]> {
        self.check_inside(at, len)?;
        if at + len > self.buffer.written()
            && let Some(stuck) = self.buffer.stuck(at, len)
        {
            return Ok(stuck);
        }
        if self.view.get().is_none() {
            let made = View::new(self.file.map(self.capacity)?);
            if !self.ahead.load(Ordering::Relaxed) {
                made.read_ahead(false);
            }
            // If two threads map, one mapping is dropped again.
            let _ = self.view.set(made);
        }
        match self.view.get().and_then(|view| view.written(at as usize, len as usize)) {
            Some(bytes) => Ok(bytes),
            None => Err(Error::damaged(
                self.path(),
                at,
                "bytes inside the mapping",
                format!("capacity {}", self.capacity),
            )),
        }
    }

    fn bits(&self) -> &[AtomicU64] {
        self.verified.get_or_init(|| {
            let words = self.capacity.div_ceil(MIN_RECORD * 64) as usize;
            (0..words).map(|_| AtomicU64::new(0)).collect()
        })
    }

    fn is_verified(&self, at: u64) -> bool {
        let bit = at / MIN_RECORD;
        self.bits().get((bit / 64) as usize).is_some_and(|w| w.load(Ordering::Relaxed) >> (bit % 64) & 1 == 1)
    }

    fn set_verified(&self, at: u64) {
        let bit = at / MIN_RECORD;
        if let Some(word) = self.bits().get((bit / 64) as usize) {
            word.fetch_or(1 << (bit % 64), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_in_our_format_are_segments() {
        assert_eq!(parse(&name(0xabc)), Some(0xabc));
        for other in ["1.val", "0000000G.val", "+000000a.val", "000000AB.val", "x", ".val"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
