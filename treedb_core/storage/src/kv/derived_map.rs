//! The content of a file of derived data, mapped.
//!
//! This is the `unsafe` of derived data. A file is complete before it has its name, and what has a name is never written again, only renamed
//! over or removed (see [`super::derived`]), which leaves a mapping valid, with the bytes that it had. It is mapped to be read only, so that a store that is a
//! mistake ends the process and changes no file. So nothing of a mapping changes.
//!
//! What is not TreeDB may do otherwise. Like the page file ([`crate::page`]), the files of a store are for the process that has the lock of its
//! directory: a file is as long as its header says when it is opened, the mapping is no longer than that, and a program that shortens it or writes into
//! it afterwards breaks the rule that a store's files are its own. (Shortened, a file makes the system end the process that reads what is
//! gone, with `SIGBUS`, as the page file does; so does a device that cannot be read. Removing a file does no harm.)

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::derived::{BLOCK, CHECKSUM, CONTENT_AT, Opened};
use crate::disk::Map;

/// The content of a file of derived data, where the system has it. A block is compared with its checksum the first time that it is asked for.
pub struct DerivedMap {
    opened: Opened,
    map: Box<dyn Map>,
    /// A bit for each block that was compared.
    compared: Box<[AtomicU64]>,
}

impl std::fmt::Debug for DerivedMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DerivedMap")
            .field("path", &self.path())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl DerivedMap {
    /// Of a file that is as long as it has to be; `None` if the checksums of its blocks are damaged.
    pub(super) fn new(opened: Opened, map: Box<dyn Map>) -> Option<Arc<DerivedMap>> {
        let words = opened.content.div_ceil(BLOCK).div_ceil(64);
        let compared = (0..words).map(|_| AtomicU64::new(0)).collect();
        let new = DerivedMap { opened, map, compared };
        (new.opened.checksum_of_checksums(new.checksums()?) == new.opened.checksums).then(|| Arc::new(new))
    }

    /// The path of the file, for messages.
    pub fn path(&self) -> &Path {
        self.opened.file.path()
    }

    /// Bytes of the content.
    pub fn len(&self) -> usize {
        self.opened.content
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The content, of which nothing is known: see [`DerivedMap::is_intact`]. Its first byte is at the beginning of a page of 4,096 bytes.
    pub fn bytes(&self) -> &[u8] {
        self.file_bytes(CONTENT_AT, self.len()).unwrap_or_default()
    }

    /// Whether these bytes of the content are what was written: whole blocks are compared with their checksums, unless they were before.
    pub fn is_intact(&self, range: Range<usize>) -> bool {
        let Some(bytes) = self.bytes().get(range.clone()) else { return false };
        bytes.is_empty()
            || (range.start / BLOCK..range.end.div_ceil(BLOCK)).all(|block| self.is_block_intact(block))
    }

    /// The same bytes, once they are known to be intact.
    ///
    /// # Errors
    /// `InvalidData` if they are not, or not in the content.
    pub fn read(&self, range: Range<usize>) -> io::Result<&[u8]> {
        match self.bytes().get(range.clone()) {
            Some(bytes) if self.is_intact(range) => Ok(bytes),
            _ => {
                let what = format!("{} is damaged", self.path().display());
                Err(io::Error::new(io::ErrorKind::InvalidData, what))
            }
        }
    }

    fn is_block_intact(&self, block: usize) -> bool {
        let (Some(word), bit) = (self.compared.get(block / 64), 1 << (block % 64)) else { return false };
        // Nothing is published by the bit: the bytes were there before, and stay as they are.
        if word.load(Ordering::Relaxed) & bit != 0 {
            return true;
        }
        let (from, to) = (block * BLOCK, self.len().min((block + 1) * BLOCK));
        let (Some(bytes), Some(stored)) = (self.bytes().get(from..to), self.checksum_of(block)) else {
            return false;
        };
        let is_intact = self.opened.checksum(block as u64, bytes) == stored;
        if is_intact {
            word.fetch_or(bit, Ordering::Relaxed);
        }
        is_intact
    }

    fn checksum_of(&self, block: usize) -> Option<u32> {
        self.checksums()?.as_chunks::<CHECKSUM>().0.get(block).map(|sum| u32::from_le_bytes(*sum))
    }

    /// The checksums of all blocks.
    fn checksums(&self) -> Option<&[u8]> {
        self.file_bytes(CONTENT_AT.checked_add(self.len())?, CHECKSUM * self.len().div_ceil(BLOCK))
    }

    /// Bytes of the file; `None` if it has not so many.
    fn file_bytes(&self, at: usize, len: usize) -> Option<&[u8]> {
        if at.checked_add(len)? > self.opened.file_len.min(self.map.len()) {
            return None;
        }
        // SAFETY: the range is inside the mapping, which lives as long as `self` and starts at one address, and inside the file, as long as it
        // was when it was mapped (both checked above). Nobody writes to a file of derived data that has its name, nor shortens it: see the
        // module's header.
        Some(unsafe { std::slice::from_raw_parts(self.map.as_ptr().add(at), len) })
    }
}
