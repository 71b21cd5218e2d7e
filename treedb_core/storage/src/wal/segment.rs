//! One segment: its header, its names, and how it comes to be.
//!
//! A segment's final name appears only after its header and its first blocks are durable, so a named segment with a
//! bad header is damage, whatever the crash. It may grow in place: beyond the length in its header, what counts is the file's
//! length, which the flush of a group makes durable together with the frames there.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::frame::Lsn;
use crate::disk::{Disk, DiskFile, Map};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::{Error, Result};

const MAGIC: [u8; 8] = *b"TreeDBwl";
const VERSION: u32 = 1;
/// Bytes of the header.
const HEADER: usize = 64;
/// Offset of the first frame: a sector of its own for the header.
pub(super) const FIRST_FRAME: u64 = 512;
/// Name of a segment while it is created.
pub(super) const UNFINISHED: &str = "next.tmp";

/// Name of a segment that is created ahead of use, while it is created.
pub(super) const AHEAD: &str = "ahead.tmp";

/// The name of the segment whose first frame is `first`.
pub(super) fn name(first: Lsn) -> String {
    format!("{:016x}.wal", first.0)
}

/// The name a segment gets when it is put aside for another use.
pub(super) fn spare_name(first: Lsn) -> String {
    format!("{:016x}.spare", first.0)
}

/// The LSN in a name with this ending, if it is one.
pub(super) fn parse(name: &str, ending: &str) -> Option<Lsn> {
    let digits = name.strip_suffix(ending)?;
    let plain =
        digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    plain.then(|| u64::from_str_radix(digits, 16).ok().map(Lsn)).flatten()
}

/// A segment's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) generation: u64,
    pub(super) first: Lsn,
    pub(super) size: u64,
    pub(super) durable: Lsn,
    pub(super) previous: Lsn,
}

impl Header {
    fn encode(&self) -> [u8; HEADER] {
        let mut h = [0u8; HEADER];
        h[0..8].copy_from_slice(&MAGIC);
        h[8..12].copy_from_slice(&VERSION.to_le_bytes());
        h[12..16].copy_from_slice(&(FIRST_FRAME as u32).to_le_bytes());
        let words = [self.generation, self.first.0, self.size, self.durable.0, self.previous.0];
        for (place, word) in h[16..56].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let crc = crc32c::crc32c(&h[..60]);
        h[60..64].copy_from_slice(&crc.to_le_bytes());
        h
    }

    /// Reads and checks the header of `file`.
    pub(super) fn read(file: &dyn DiskFile) -> Result<Header> {
        let len = file.len()?;
        if len < FIRST_FRAME {
            return Err(Error::damaged(
                file.path(),
                0,
                "the header of a log segment",
                format!("a file of {len} bytes"),
            ));
        }
        let mut h = [0u8; HEADER];
        file.read_at(&mut h, 0)?;
        let half = |at: usize| u32::from_le_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]);
        let word = |at: usize| u64::from(half(at)) | u64::from(half(at + 4)) << 32;
        if h[0..8] != MAGIC {
            return Err(Error::foreign(file.path(), "log segment", &h[0..8]));
        }
        let computed = crc32c::crc32c(&h[..60]);
        if half(60) != computed {
            let found = format!("{:08x}", half(60));
            return Err(Error::damaged(file.path(), 60, format!("header checksum {computed:08x}"), found));
        }
        if half(8) != VERSION || half(12) != FIRST_FRAME as u32 {
            return Err(Error::other_version(file.path(), "log segment", half(8), VERSION));
        }
        let header = Header {
            generation: word(16),
            first: Lsn(word(24)),
            size: word(32),
            durable: Lsn(word(40)),
            previous: Lsn(word(48)),
        };
        if len < header.size || header.size < FIRST_FRAME {
            let expected = format!("a file of {} bytes", header.size);
            return Err(Error::damaged(file.path(), len.min(header.size), expected, format!("{len} bytes")));
        }
        Ok(header)
    }
}

/// An open segment.
pub(super) struct Segment {
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) header: Header,
    /// Bytes the file has blocks for.
    room: AtomicU64,
    /// All of its blocks have been written to.
    pub(super) recycled: bool,
    map: OnceLock<Box<dyn Map>>,
}

impl Segment {
    fn new(file: Arc<dyn DiskFile>, header: Header, recycled: bool) -> Result<Arc<Segment>> {
        let room = AtomicU64::new(file.len()?.max(header.size));
        Ok(Arc::new(Segment { file, header, room, recycled, map: OnceLock::new() }))
    }

    /// Opens the segment named after `first` and checks its header.
    pub(super) fn open(disk: &dyn Disk, dir: &Path, first: Lsn) -> Result<Arc<Segment>> {
        let file = disk.open(&dir.join(name(first)), false)?;
        let header = Header::read(file.as_ref())?;
        if header.first != first {
            let found = format!("{}", header.first);
            return Err(Error::damaged(
                file.path(),
                24,
                format!("first LSN {first}, as in the file's name"),
                found,
            ));
        }
        Segment::new(file, header, false)
    }

    /// Makes a segment, durable, name included: from `spare` (its bytes stay, its generation does not) or with
    /// fresh blocks.
    pub(super) fn create(
        disk: &dyn Disk,
        dir: &Path,
        header: Header,
        spare: Option<PathBuf>,
    ) -> Result<Arc<Segment>> {
        let recycled = spare.is_some();
        let from = match spare {
            Some(path) => path,
            None => {
                let path = dir.join(UNFINISHED);
                if let Err(e) = preallocate(disk, &path, header.size) {
                    // Give the room back; the error that stopped us is the one to report.
                    let _ = disk.remove(&path);
                    return Err(e);
                }
                path
            }
        };
        let file = disk.open(&from, false)?;
        file.write_at(&header.encode(), 0)?;
        file.sync()?;
        drop(file);
        let path = dir.join(name(header.first));
        disk.rename(&from, &path)?;
        disk.sync_dir(dir)?;
        Segment::new(disk.open(&path, false)?, header, recycled)
    }

    /// Bytes the file has blocks for: frames end before that.
    #[inline]
    pub(super) fn room(&self) -> u64 {
        self.room.load(Ordering::Acquire)
    }

    /// Records the file's length in the header, if it has grown: from then on a shorter file is damage. Durable with the
    /// next flush.
    pub(super) fn note_length(&self) -> Result<()> {
        let size = self.room();
        if size <= self.header.size {
            return Ok(());
        }
        // The length first: a header must not state one that the file does not have.
        self.file.sync()?;
        self.file.write_at(&Header { size, ..self.header }.encode(), 0)
    }

    /// Makes the file `to` bytes long. The appender's call alone, under the log's lock. `DiskFull` if there is no room;
    /// nothing has changed then.
    pub(super) fn grow(&self, to: u64) -> Result<()> {
        self.file.reserve(to)?;
        self.room.store(to, Ordering::Release);
        Ok(())
    }

    /// The file's path, for messages.
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// The mapping that relaxed frames are stored through, made at first use: of `full` bytes, which the file may grow
    /// to.
    pub(super) fn map(&self, full: u64) -> Result<&dyn Map> {
        if self.map.get().is_none() {
            let made = self.file.map(full.max(self.room()))?;
            // Only the appender maps, under the log's lock; were there two, the second mapping would be dropped.
            let _ = self.map.set(made);
        }
        match self.map.get() {
            Some(map) => Ok(map.as_ref()),
            None => Err(Error::Invalid("the log segment could not be mapped".into())),
        }
    }
}

/// A file of `size` bytes whose blocks are reserved.
pub(super) fn preallocate(disk: &dyn Disk, path: &Path, size: u64) -> Result<()> {
    let file = disk.open(path, true)?;
    file.set_len(0)?;
    file.reserve(size)
}

/// Writes zeroes to `from..to`. Reserved blocks count as unwritten, and the first write to each changes metadata, which
/// the next flush pays for: so zeroes are written ahead of small frames, many blocks at once.
pub(super) fn zero_fill(file: &dyn DiskFile, from: u64, to: u64) -> Result<()> {
    static ZEROES: [u8; 64 * 1024] = [0; 64 * 1024];
    let mut at = from;
    while at < to {
        let len = (ZEROES.len() as u64).min(to - at);
        file.write_at(&ZEROES[..len as usize], at)?;
        at += len;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_we_make_are_segments() {
        assert_eq!(parse(&name(Lsn(0xabc)), ".wal"), Some(Lsn(0xabc)));
        assert_eq!(parse(&spare_name(Lsn(7)), ".spare"), Some(Lsn(7)));
        for other in
            ["1.wal", "000000000000000G.wal", "+00000000000000a.wal", "00000000000000AB.wal", "x", ".wal"]
        {
            assert_eq!(parse(other, ".wal"), None, "{other}");
        }
    }
}
