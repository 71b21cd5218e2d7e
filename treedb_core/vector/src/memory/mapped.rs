//! Records in a file that is mapped: used where they lie, once they were checked.
//!
//! Bytes of a file may be any. A segment of records is checked the first time that one of its records is asked for: by the file, whose
//! checksums tell whether it is what was written, and by whoever knows what the records mean, such as that links are to nodes that there are.
//! Records of a segment that fails are empty, and the file is [noted](MappedFile::is_damaged) to be damaged: what was computed since is worth
//! nothing, and who asks before using it never gets a wrong answer. Checked bytes stay as they are as long as nobody writes to the file, which is
//! what its owner promises.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The bytes of a mapped file. They never change.
pub trait MappedBytes: Send + Sync + fmt::Debug {
    /// All of them.
    fn bytes(&self) -> &[u8];
    /// Whether those of a range are what was written. It is asked more than once.
    fn is_intact(&self, range: Range<usize>) -> bool;
}

/// A mapped file, and whether it turned out to be damaged.
#[derive(Debug)]
pub struct MappedFile {
    bytes: Box<dyn MappedBytes>,
    is_damaged: AtomicBool,
}

/// The error of bytes that are no graph.
pub(super) fn invalid() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

impl MappedFile {
    /// A file with these bytes.
    pub fn new(bytes: impl MappedBytes + 'static) -> Arc<MappedFile> {
        Arc::new(MappedFile { bytes: Box::new(bytes), is_damaged: AtomicBool::new(false) })
    }

    /// Whether anything of it was asked for that is not what was written. A thread that asked for that knows.
    #[inline]
    pub fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Relaxed)
    }

    /// Bytes in a file.
    pub fn len(&self) -> usize {
        self.bytes.bytes().len()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Some of its bytes, of which nothing is known.
    pub(super) fn unchecked(&self, range: Range<usize>) -> Option<&[u8]> {
        self.bytes.bytes().get(range)
    }

    /// Some of its bytes.
    ///
    /// # Errors
    /// `InvalidData` if they are not what was written, or not in the file.
    pub fn read(&self, range: Range<usize>) -> io::Result<&[u8]> {
        let bytes = self.bytes.bytes().get(range.clone()).filter(|_| self.bytes.is_intact(range));
        bytes.ok_or_else(invalid)
    }
}

/// Whether records are what they may be: the number of the first, and their elements.
pub type Check<T> = Box<dyn Fn(usize, &[T]) -> bool + Send + Sync>;

/// Records of a mapped file.
pub(super) struct Section<T> {
    file: Arc<MappedFile>,
    /// Where they begin.
    at: usize,
    /// Elements of a record, and of a segment.
    len: usize,
    all: usize,
    /// How many records there are. What follows in the last segment is zeros.
    count: usize,
    check: Check<T>,
}

impl<T> fmt::Debug for Section<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Section").field("at", &self.at).field("count", &self.count).finish_non_exhaustive()
    }
}

impl<T: Copy + Default + PartialEq> Section<T> {
    /// So many records of `len` elements, which are at `at` in a file, in segments of `all` elements.
    pub(super) fn new(
        file: &Arc<MappedFile>,
        at: usize,
        (len, all): (usize, usize),
        count: usize,
        check: Check<T>,
    ) -> Section<T> {
        Section { file: Arc::clone(file), at, len, all, count, check }
    }

    /// Where a segment is in the file.
    fn range(&self, segment: usize) -> Option<Range<usize>> {
        let bytes = self.all.checked_mul(size_of::<T>())?;
        let from = segment.checked_mul(bytes)?.checked_add(self.at)?;
        Some(from..from.checked_add(bytes)?)
    }

    /// The bytes of a segment, of which nothing is known.
    pub(super) fn unchecked(&self, segment: usize) -> Option<&[u8]> {
        self.file.unchecked(self.range(segment)?)
    }

    /// Whether a segment, which has these elements, is what it may be. If it is not, the file is damaged, and from then on nothing else of it is
    /// read.
    pub(super) fn is_sound(&self, segment: usize, elements: &[T]) -> bool {
        if self.file.is_damaged() {
            return false;
        }
        let first = segment * (self.all / self.len.max(1));
        let used = self.count.saturating_sub(first).saturating_mul(self.len).min(elements.len());
        let (records, rest) = elements.split_at_checked(used).unwrap_or_default();
        let is_sound = self.range(segment).is_some_and(|range| self.file.bytes.is_intact(range))
            && rest.iter().all(|element| *element == T::default())
            && (self.check)(first, records);
        if !is_sound {
            self.file.is_damaged.store(true, Ordering::Relaxed);
        }
        is_sound
    }
}

/// The nodes and levels that a graph in a file has.
#[derive(Debug)]
pub struct KnownNodes {
    nodes: usize,
    levels: usize,
    free: Vec<u64>,
    free_levels: Vec<u64>,
}

/// A bit for each of so many, set for these; `None` if one is there twice, or beyond.
fn bits(count: usize, set: &[u32]) -> Option<Vec<u64>> {
    let mut bits = vec![0; count.div_ceil(64)];
    for number in set {
        let (word, bit) = (bits.get_mut(*number as usize / 64)?, 1 << (number % 64));
        if *number as usize >= count || *word & bit != 0 {
            return None;
        }
        *word |= bit;
    }
    Some(bits)
}

fn is_set(bits: &[u64], number: u32) -> bool {
    bits.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
}

impl KnownNodes {
    /// So many nodes and levels, with number 0, of which these are free; `None` if that cannot be.
    pub(super) fn new(nodes: usize, levels: usize, free: &[u32], free_levels: &[u32]) -> Option<KnownNodes> {
        let (free, free_levels) = (bits(nodes, free)?, bits(levels, free_levels)?);
        let known = KnownNodes { nodes, levels, free, free_levels };
        // Number 0 says that there is none.
        (levels > 0 && !is_set(&known.free_levels, 0)).then_some(known)
    }

    /// Whether there is a node of this number.
    pub fn there_is(&self, node: u32) -> bool {
        (node as usize) < self.nodes && !is_set(&self.free, node)
    }

    fn all_are(&self, links: Option<&[u32]>) -> bool {
        links.is_some_and(|links| links.iter().all(|node| self.there_is(*node)))
    }

    /// Whether a node may have this record of links in level 0.
    pub(super) fn may_have_links(&self, node: u32, record: &[u32]) -> bool {
        let [numbers, places @ ..] = record else { return false };
        let (count, level) = ((numbers & 0xff) as usize, numbers >> 8);
        let is_free_of_links = *numbers == 0 || self.there_is(node);
        let has_levels = (level as usize) < self.levels && (level == 0 || !is_set(&self.free_levels, level));
        is_free_of_links && has_levels && self.all_are(places.get(..count))
    }

    /// Whether a level may have this record.
    pub(super) fn may_have_level(&self, level: u32, record: &[u32]) -> bool {
        let [count, next, places @ ..] = record else { return false };
        match level {
            0 => (*count, *next) == (0, 0),
            // It has what it had when it was in use.
            _ if is_set(&self.free_levels, level) => true,
            _ => (*next as usize) < self.levels && self.all_are(places.get(..*count as usize)),
        }
    }
}
