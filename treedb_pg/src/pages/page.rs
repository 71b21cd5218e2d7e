//! Pages of an index in a relation: what surrounds their content, the payload.
//!
//! | offset | size | what |
//! |---|---|---|
//! | 0 | 24 | the server's page header; `pd_lower` to `pd_upper` is the hole: unused bytes inside the payload, always zero |
//! | 24 | 8144 - b | the payload: what the access method stores |
//! | then | b | the page's upper bound: above every key that may ever be on the page; none on the rightmost page |
//! | 8168 | 4 | block of the right neighbour, 0 for none; of a vector index, of the next page with free slots |
//! | 8172 | 2 | level: 0 is a leaf; of a vector index, what the slots are: 1 nodes, 2 vectors, 3 links above level 0 |
//! | 8174 | 2 | flags: 1 the root, 2 split but not in the parent yet, 4 deleted, 8 the meta page, 16 a leaf with marked entries |
//! | 8176 | 8 | of a deleted page: the next transaction id at that time, 64 bits |
//! | 8184 | 2 | length of the bound |
//! | 8186 | 2 | 0xDB15, which marks a page of an index of the extension |
//! | 8188 | 4 | zero |
//!
//! Integers of the last 24 bytes are little-endian. A page keeps its bound beside the payload, which is as long as the
//! bound leaves it. The server leaves the hole out of full-page images, and redo of a change fills it with zeros.

use std::ops::Range;

use treedb_formats::node::{Branch, Keys, NodeDamage};

use crate::shim::buffer::{PAGE_SIZE, hole_of};

/// Where the server's header ends, and the payload begins.
pub(crate) const HEADER: usize = 24;
/// Where the last part begins.
const SPECIAL: usize = PAGE_SIZE - 24;
/// Where the right neighbour is.
pub(crate) const NEXT: usize = SPECIAL;
/// Bytes that payload and bound share.
pub(crate) const ROOM: usize = SPECIAL - HEADER;
/// Where the server's header has the end of the hole.
pub(crate) const UPPER: usize = 14;
/// Marks a page of an index of the extension.
const MARK: u16 = 0xDB15;
/// The server's layout version and page size, as its page header holds them.
const PAGE_VERSION: u16 = PAGE_SIZE as u16 | 4;

/// Flags of a page.
pub(crate) mod flag {
    /// The root of its tree.
    pub(crate) const ROOT: u16 = 1;
    /// Split, but the parent has no downlink to the right half yet.
    pub(crate) const INCOMPLETE: u16 = 2;
    /// Out of the tree; its right neighbour has taken its keys over.
    pub(crate) const DELETED: u16 = 4;
    /// The meta page.
    pub(crate) const META: u16 = 8;
    /// Some entry of the leaf is marked: its row is dead to every transaction.
    pub(crate) const MARKED: u16 = 16;
}

/// How a page differs from a valid one.
#[derive(Debug)]
pub(crate) struct Damage {
    /// What should be there.
    pub(crate) expected: String,
    /// What is there instead.
    pub(crate) found: String,
    /// Not damage: another version of the library has written the index.
    pub(crate) other_version: bool,
}

impl Damage {
    pub(crate) fn new(expected: &str, found: impl ToString) -> Self {
        Damage { expected: expected.into(), found: found.to_string(), other_version: false }
    }

    /// Pages of another version than this library reads.
    pub(crate) fn version(own: u16, found: u16) -> Self {
        Damage { expected: own.to_string(), found: found.to_string(), other_version: true }
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Damage { expected, found, other_version } = self;
        match other_version {
            true => {
                write!(f, "the index has pages of version {found}, this library reads version {expected}")
            }
            false => write!(f, "expected {expected}, found {found}"),
        }
    }
}

impl From<NodeDamage> for Damage {
    fn from(damage: NodeDamage) -> Self {
        Damage {
            expected: format!("{} at byte {} of the node", damage.expected, damage.at),
            found: damage.found.to_string(),
            other_version: false,
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u16::from_le_bytes(*b))
}

/// A page for reading.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    bytes: &'a [u8],
    bound: usize,
}

impl<'a> View<'a> {
    /// Opens a page; checks that it is one of an index of this extension.
    #[inline]
    pub(crate) fn open(bytes: &'a [u8]) -> Result<View<'a>, Damage> {
        if bytes.len() != PAGE_SIZE || word(bytes, SPECIAL + 18) != MARK {
            return Err(Damage::new("a page of an index of treedb", word(bytes, SPECIAL + 18)));
        }
        let bound = usize::from(word(bytes, SPECIAL + 16));
        if bound > ROOM / 2 {
            return Err(Damage::new("a bound of at most half a page", bound));
        }
        Ok(View { bytes, bound })
    }

    fn part(&self, from: usize, to: usize) -> &'a [u8] {
        self.bytes.get(from..to).unwrap_or(&[])
    }

    fn int(&self, at: usize) -> u32 {
        self.part(at, at + 4).first_chunk().map_or(0, |b| u32::from_le_bytes(*b))
    }

    /// Block of the right neighbour.
    pub(crate) fn next(&self) -> Option<u32> {
        match self.int(SPECIAL) {
            0 => None,
            block => Some(block),
        }
    }

    /// 0 for a leaf.
    pub(crate) fn level(&self) -> u16 {
        word(self.bytes, SPECIAL + 4)
    }

    /// See [`flag`].
    pub(crate) fn has(&self, flag: u16) -> bool {
        word(self.bytes, SPECIAL + 6) & flag != 0
    }

    /// The flags after some are set and others cleared: where they belong in the page, and their bytes.
    pub(crate) fn changed_flags(&self, set: u16, clear: u16) -> (usize, [u8; 2]) {
        let at = SPECIAL + 6;
        (at, (word(self.bytes, at) & !clear | set).to_le_bytes())
    }

    /// What takes the page out of the tree, likewise.
    pub(crate) fn deletion(&self, now: u64) -> (usize, [u8; 10]) {
        let (at, [a, b]) = self.changed_flags(flag::DELETED, 0);
        let [c, d, e, f, g, h, i, j] = now.to_le_bytes();
        (at, [a, b, c, d, e, f, g, h, i, j])
    }

    /// The next transaction id when the page was deleted.
    pub(crate) fn deleted_at(&self) -> u64 {
        u64::from(self.int(SPECIAL + 8)) | u64::from(self.int(SPECIAL + 12)) << 32
    }

    /// Above every key of the page; `None` on the rightmost page of a level.
    pub(crate) fn bound(&self) -> Option<&'a [u8]> {
        self.next().map(|_| self.part(SPECIAL - self.bound, SPECIAL))
    }

    /// The payload's bytes.
    pub(crate) fn payload(&self) -> &'a [u8] {
        self.part(HEADER, SPECIAL - self.bound)
    }

    /// The hole, in offsets of the payload.
    pub(crate) fn hole(&self) -> Result<Range<usize>, Damage> {
        let Range { start: lower, end: upper } = hole_of(self.bytes);
        if lower < HEADER || upper < lower || upper > SPECIAL - self.bound {
            return Err(Damage::new("a hole within the payload", format!("bytes {lower} to {upper}")));
        }
        Ok(lower - HEADER..upper - HEADER)
    }

    /// The node of a branch, which must be in order `keys`; in an index in the order of bytes it may be one that is searched
    /// by comparing keys.
    pub(crate) fn branch(&self, keys: Keys) -> Result<Branch<'a>, Damage> {
        let branch = Branch::open(self.payload())?;
        if keys == Keys::Custom && branch.keys() != keys {
            return Err(Damage::new("a branch in the index's order", "one in another order"));
        }
        Ok(branch)
    }
}

/// A page for changing: an image that a WAL record will put in place, or a page of a build.
pub(crate) struct ViewMut<'a> {
    bytes: &'a mut [u8],
}

impl<'a> ViewMut<'a> {
    /// Opens a page; checks that it is one of an index of this extension.
    pub(crate) fn open(bytes: &'a mut [u8]) -> Result<ViewMut<'a>, Damage> {
        View::open(bytes)?;
        Ok(ViewMut { bytes })
    }

    /// Makes a page of the tree, its payload yet to be filled. A page with a right neighbour has a bound.
    pub(crate) fn init(bytes: &'a mut [u8], level: u16, flags: u16, next: Option<(u32, &[u8])>) -> Self {
        // The server's log position and checksum at the front are its own to set.
        if let Some(rest) = bytes.get_mut(8..) {
            rest.fill(0);
        }
        let mut page = ViewMut { bytes };
        page.put(16, &(SPECIAL as u16).to_le_bytes());
        page.put(18, &PAGE_VERSION.to_le_bytes());
        page.put(SPECIAL + 4, &level.to_le_bytes());
        page.put(SPECIAL + 6, &flags.to_le_bytes());
        page.put(SPECIAL + 18, &MARK.to_le_bytes());
        if let Some((block, bound)) = next {
            page.put(SPECIAL, &block.to_le_bytes());
            page.put(SPECIAL - bound.len(), bound);
            page.put(SPECIAL + 16, &(bound.len() as u16).to_le_bytes());
        }
        page.set_hole(0..0);
        page
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    /// The page for reading.
    pub(crate) fn view(&self) -> Result<View<'_>, Damage> {
        View::open(self.bytes)
    }

    /// The payload's bytes.
    pub(crate) fn payload(&mut self) -> &mut [u8] {
        let bound = usize::from(word(self.bytes, SPECIAL + 16)).min(ROOM);
        self.bytes.get_mut(HEADER..SPECIAL - bound).unwrap_or(&mut [])
    }

    /// Sets and clears flags.
    pub(crate) fn set_flags(&mut self, set: u16, clear: u16) {
        let flags = word(self.bytes, SPECIAL + 6) & !clear | set;
        self.put(SPECIAL + 6, &flags.to_le_bytes());
    }

    /// Updates the hole of a branch after its node has changed.
    pub(crate) fn finish_branch(&mut self) -> Result<(), Damage> {
        let gap = Branch::open(self.view()?.payload())?.gap()?;
        self.set_hole(gap);
        Ok(())
    }

    /// Puts bytes at the end of the hole, which they make shorter.
    pub(crate) fn put_area(&mut self, bytes: &[u8]) -> Result<(), Damage> {
        let hole = self.view()?.hole()?;
        let Some(start) = hole.end.checked_sub(bytes.len()).filter(|start| *start >= hole.start) else {
            return Err(Damage::new(&format!("a hole of {} bytes or more", bytes.len()), hole.len()));
        };
        self.put(HEADER + start, bytes);
        self.put(UPPER, &((HEADER + start) as u16).to_le_bytes());
        Ok(())
    }

    /// Makes the hole begin at `start` of the payload, before where it began.
    pub(crate) fn begin_hole(&mut self, start: usize) -> Result<(), Damage> {
        let hole = self.view()?.hole()?;
        let Some(unused) = self.payload().get_mut(start..hole.start) else {
            return Err(Damage::new(&format!("a hole from byte {start} on or behind"), hole.start));
        };
        unused.fill(0);
        self.put(12, &((HEADER + start) as u16).to_le_bytes());
        Ok(())
    }

    /// Declares a part of the payload unused and fills it with zeros. To be called after every change of the payload.
    pub(crate) fn set_hole(&mut self, hole: Range<usize>) {
        self.put(12, &((HEADER + hole.start) as u16).to_le_bytes());
        self.put(UPPER, &((HEADER + hole.end) as u16).to_le_bytes());
        if let Some(hole) = self.payload().get_mut(hole) {
            hole.fill(0);
        }
    }
}
