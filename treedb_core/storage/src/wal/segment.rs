//! One segment: its header, its names, and how it is created.
//!
//! A segment is renamed to its final name only after its header and its blocks are durable, so a segment with
//! that name and a bad header is corrupt: no crash can cause this. A segment may grow in place: then the file
//! is longer than the length in its header, and the flush of a commit group makes the new length durable
//! together with the frames.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::frame::Lsn;
use crate::disk::{Disk, DiskFile, Map};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::{Error, Result};

const MAGIC: [u8; 8] = *b"TreeDBwl";
const VERSION: u32 = 1;
/// Length of the header, in bytes.
const HEADER: usize = 64;
/// Offset of the first frame: the header has its own sector.
pub(super) const FIRST_FRAME: u64 = 512;
/// Name of a segment while it is being created.
pub(super) const UNFINISHED: &str = "next.tmp";

/// Name of a spare segment while it is being created.
pub(super) const AHEAD: &str = "ahead.tmp";

/// The name of the segment whose first frame is `first`.
pub(super) fn name(first: Lsn) -> String {
    format!("{:016x}.wal", first.0)
}

/// The name of the spare segment that had `first` as its first frame.
pub(super) fn spare_name(first: Lsn) -> String {
    format!("{:016x}.spare", first.0)
}

/// The LSN in a file name with this ending; `None` for other names.
pub(super) fn parse(name: &str, ending: &str) -> Option<Lsn> {
    let digits = name.strip_suffix(ending)?;
    let valid =
        digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    valid.then(|| u64::from_str_radix(digits, 16).ok().map(Lsn)).flatten()
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
        for (bytes, word) in h[16..56].chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
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
    /// Bytes for which the file has disk blocks.
    allocated: AtomicU64,
    /// The file was a spare: all of its blocks have been written to.
    pub(super) recycled: bool,
    map: OnceLock<Box<dyn Map>>,
}

impl Segment {
    fn new(file: Arc<dyn DiskFile>, header: Header, recycled: bool) -> Result<Arc<Segment>> {
        let allocated = AtomicU64::new(file.len()?.max(header.size));
        Ok(Arc::new(Segment { file, header, allocated, recycled, map: OnceLock::new() }))
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

    /// Creates a segment; header and name are durable when it returns. It reuses the file `spare` (with a new
    /// generation, so that its old frames are invalid) or allocates new blocks.
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
                if let Err(e) = preallocate(disk, &path, |file| file.reserve(header.size)) {
                    // Frees the disk space; the first error is the one to report.
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

    /// Bytes for which the file has disk blocks: the upper bound for frames.
    #[inline]
    pub(super) fn allocated(&self) -> u64 {
        self.allocated.load(Ordering::Acquire)
    }

    /// Records the file's length in the header if the file has grown: from then on a shorter file is corrupt.
    /// The header becomes durable with the next flush.
    pub(super) fn record_length(&self) -> Result<()> {
        let size = self.allocated();
        if size <= self.header.size {
            return Ok(());
        }
        // The length must be durable before the header that states it.
        self.file.sync()?;
        self.file.write_at(&Header { size, ..self.header }.encode(), 0)
    }

    /// Grows the file to `to` bytes. Only called by the appender, under its lock. `DiskFull` if the disk has
    /// no room; the file is unchanged then.
    pub(super) fn grow(&self, to: u64) -> Result<()> {
        self.file.reserve(to)?;
        self.allocated.store(to, Ordering::Release);
        Ok(())
    }

    /// The same for frames that there are not yet: derived data is not removed for them.
    pub(super) fn grow_early(&self, to: u64) -> Result<()> {
        self.file.reserve_early(to)?;
        self.allocated.store(to, Ordering::Release);
        Ok(())
    }

    /// The file's path, for error messages.
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// The memory mapping for storing relaxed frames, created at first use. It has `full` bytes, the length
    /// that the file may grow to.
    pub(super) fn map(&self, full: u64) -> Result<&dyn Map> {
        if self.map.get().is_none() {
            let map = self.file.map(full.max(self.allocated()))?;
            // Only the appender calls this, under its lock; otherwise a second mapping would be dropped here.
            let _ = self.map.set(map);
        }
        match self.map.get() {
            Some(map) => Ok(map.as_ref()),
            None => Err(Error::Invalid("the log segment could not be mapped".into())),
        }
    }
}

/// Creates a file whose blocks `reserve` reserves.
pub(super) fn preallocate(
    disk: &dyn Disk,
    path: &Path,
    reserve: impl FnOnce(&dyn DiskFile) -> Result<()>,
) -> Result<()> {
    let file = disk.open(path, true)?;
    file.set_len(0)?;
    reserve(file.as_ref())
}

/// Writes zeroes to `from..to`. Reserved blocks are marked as unwritten, and the first write to each changes
/// metadata, which makes the next flush slower: so zeroes are written ahead of small frames, many blocks at a
/// time.
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
    fn only_names_in_our_format_are_segments() {
        assert_eq!(parse(&name(Lsn(0xabc)), ".wal"), Some(Lsn(0xabc)));
        assert_eq!(parse(&spare_name(Lsn(7)), ".spare"), Some(Lsn(7)));
        for other in
            ["1.wal", "000000000000000G.wal", "+00000000000000a.wal", "00000000000000AB.wal", "x", ".wal"]
        {
            assert_eq!(parse(other, ".wal"), None, "{other}");
        }
    }
}
