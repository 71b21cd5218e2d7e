//! Branches: separators and the children between them.

use std::cmp::Ordering;
use std::ops::Range;

use super::entry_run::{EntryRun, Piece};
use super::raw::{Layout, Load, Raw};
use super::raw_mut::RawMut;
use super::scratch::Scratch;
use super::{Found, Keys, NodeDamage};

/// A branch for reading: `count` separators, `count + 1` children.
#[derive(Clone, Copy)]
pub struct Branch<'a> {
    raw: Raw<'a, true>,
}

/// The child for a search result: keys equal to a separator are right of it.
fn child_of(found: Found) -> usize {
    match found {
        Ok(i) => i + 1,
        Err(i) => i,
    }
}

impl<'a> Branch<'a> {
    /// Opens a payload as a branch; checks its header.
    #[inline]
    pub fn open(page: &'a [u8]) -> Result<Branch<'a>, NodeDamage> {
        Ok(Branch { raw: Raw::open(page)? })
    }

    /// Number of separators; there is one child more.
    #[inline]
    pub fn count(&self) -> usize {
        self.raw.count()
    }

    /// How the keys are ordered.
    pub fn keys(&self) -> Keys {
        self.raw.keys
    }

    /// Child `c`, from 0 up to and including `count`.
    #[inline]
    pub fn child(&self, c: usize) -> Result<u32, NodeDamage> {
        self.raw.child(c)
    }

    /// The child in whose range `key` lies, in byte order.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Result<usize, NodeDamage> {
        Ok(child_of(self.raw.search(key)?))
    }

    /// The child in whose range the key lies that `order`, of a separator against it, looks for. Separators are put
    /// together in `buffer`.
    pub fn find_by(
        &self,
        buffer: &mut Vec<u8>,
        order: impl FnMut(&[u8]) -> Ordering,
    ) -> Result<usize, NodeDamage> {
        Ok(child_of(self.raw.search_by(buffer, order)?))
    }

    /// Puts separator `i` (between child `i` and child `i + 1`) into `out`, replacing what is there.
    pub fn separator_into(&self, i: usize, out: &mut Vec<u8>) -> Result<(), NodeDamage> {
        self.raw.key_into(i, out)
    }

    /// Bytes that are not used by any entry, dead cells included.
    pub fn free(&self) -> Result<usize, NodeDamage> {
        Ok(Layout::parse::<true>(self.raw.page)?.free::<true>())
    }

    /// The bytes between the entry arrays and the lowest cell: they mean nothing, an owner that logs or compresses
    /// pages may leave them out.
    pub fn gap(&self) -> Result<Range<usize>, NodeDamage> {
        Ok(Layout::parse::<true>(self.raw.page)?.gap())
    }

    /// Checks every entry; see the module's header.
    pub fn validate(&self) -> Result<(), NodeDamage> {
        self.raw.validate()
    }

    /// Plans to split a branch into which a separator does not fit: it goes to place `i`, with the child right of
    /// it. `self` must be a copy: the pages of both halves are written over.
    pub fn split<'b>(&self, i: usize, separator: &'b [u8], child: u32) -> Result<BranchSplit<'b>, NodeDamage>
    where
        'a: 'b,
    {
        let node = self.raw;
        let run = EntryRun::new([
            Piece::Part { node, from: 0, to: i },
            Piece::One { key: separator, load: Load::child(child) },
            Piece::Part { node, from: i, to: node.count() },
        ])?;
        let append = i == node.count() && i > 1;
        let at = if append { i - 1 } else { run.cut(node.page.len())? };
        Ok(BranchSplit { run, at, leftmost: self.raw.child(0)? })
    }

    /// Plans to split this branch in the middle, with nothing added. `self` must be a copy: the pages of both halves are
    /// written over. A branch of fewer than two separators cannot be split.
    pub fn divide(&self) -> Result<BranchSplit<'a>, NodeDamage> {
        let node = self.raw;
        let run =
            EntryRun::new([Piece::Part { node, from: 0, to: node.count() }, Piece::Empty, Piece::Empty])?;
        Ok(BranchSplit { run, at: run.cut(node.page.len())?, leftmost: self.raw.child(0)? })
    }

    /// Plans to merge this branch with its right neighbour, or to redistribute their entries; `between` is
    /// the separator between the two. Both must be copies if their pages are written over.
    pub fn join<'b>(&self, between: &'b [u8], right: &Branch<'b>) -> Result<BranchJoin<'b>, NodeDamage>
    where
        'a: 'b,
    {
        let all = |node: Raw<'b, true>| Piece::Part { node, from: 0, to: node.count() };
        let middle = Piece::One { key: between, load: Load::child(right.child(0)?) };
        Ok(BranchJoin {
            run: EntryRun::new([all(self.raw), middle, all(right.raw)])?,
            leftmost: self.child(0)?,
            payload: self.raw.page.len(),
        })
    }
}

/// The plan of a branch's split; the separator at the cut goes up to the parent.
pub struct BranchSplit<'a> {
    run: EntryRun<'a, true>,
    at: usize,
    leftmost: u32,
}

impl BranchSplit<'_> {
    /// Moves the cut so that the left half and the separator fit `left` bytes together and the right half fits
    /// `right` bytes; see [`LeafSplit::fit_beside`](super::LeafSplit::fit_beside).
    pub fn fit_beside(&mut self, left: usize, right: usize) -> Result<bool, NodeDamage> {
        let Some(at) = self.run.cut_beside(self.at, left, right)? else { return Ok(false) };
        self.at = at;
        Ok(true)
    }

    /// Writes the left half over `page`.
    pub fn left(&self, page: &mut [u8]) -> Result<(), NodeDamage> {
        self.run.fill_best(0..self.at, self.leftmost, page)
    }

    /// Writes the right half over `page`.
    pub fn right(&self, page: &mut [u8]) -> Result<(), NodeDamage> {
        self.run.fill_best(self.at + 1..self.run.len(), self.run.child(self.at)?, page)
    }

    /// Bytes of payload the left and the right half need, for owners whose pages differ in size.
    pub fn sizes(&self) -> Result<(usize, usize), NodeDamage> {
        Ok((self.run.best_size(0..self.at)?, self.run.best_size(self.at + 1..self.run.len())?))
    }

    /// The separator between the halves.
    pub fn separator(&self, out: &mut Vec<u8>) -> Result<(), NodeDamage> {
        self.run.key_into(self.at, out)
    }
}

/// The plan of putting two branches together.
pub struct BranchJoin<'a> {
    run: EntryRun<'a, true>,
    leftmost: u32,
    payload: usize,
}

impl<'a> BranchJoin<'a> {
    /// Bytes a single branch of both takes, to be compared with the payload.
    pub fn size(&self) -> Result<usize, NodeDamage> {
        self.run.best_size(0..self.run.len())
    }

    /// Writes one branch of both over `page`.
    pub fn merge(&self, page: &mut [u8]) -> Result<(), NodeDamage> {
        self.run.fill_best(0..self.run.len(), self.leftmost, page)
    }

    /// Plans to share the children out evenly.
    pub fn share(self) -> Result<BranchSplit<'a>, NodeDamage> {
        let at = self.run.cut(self.payload)?;
        Ok(BranchSplit { run: self.run, at, leftmost: self.leftmost })
    }
}

/// A branch for changing.
pub struct BranchMut<'a> {
    raw: RawMut<'a, true>,
}

impl<'a> BranchMut<'a> {
    /// Makes a payload a branch with one child.
    pub fn init(page: &'a mut [u8], keys: Keys, leftmost: u32) -> Result<BranchMut<'a>, NodeDamage> {
        Ok(BranchMut { raw: RawMut::init(page, keys, &[], leftmost)? })
    }

    /// Opens a payload as a branch; checks its header.
    #[inline]
    pub fn open(page: &'a mut [u8]) -> Result<BranchMut<'a>, NodeDamage> {
        Ok(BranchMut { raw: RawMut::open(page)? })
    }

    /// The branch for reading.
    #[inline]
    pub fn view(&self) -> Result<Branch<'_>, NodeDamage> {
        Ok(Branch { raw: self.raw.view()? })
    }

    /// Inserts separator `i` and the child right of it (child `i + 1`); `false`, and no change, if the branch is full.
    pub fn insert(&mut self, i: usize, separator: &[u8], child: u32) -> Result<bool, NodeDamage> {
        let fits = self.raw.insert(i, separator, Load::child(child))?;
        if fits {
            self.raw.split_equal_heads(i)?;
        }
        Ok(fits)
    }

    /// Changes child `c`, from 0 up to and including `count`.
    pub fn set_child(&mut self, c: usize, child: u32) -> Result<(), NodeDamage> {
        self.raw.set_child(c, child)
    }

    /// Replaces separator `i`; `false`, and no change, if the branch is full.
    pub fn set_separator(&mut self, i: usize, separator: &[u8]) -> Result<bool, NodeDamage> {
        let child = self.view()?.child(i + 1)?;
        let old = Scratch::copy_of(self.raw.page);
        self.raw.remove(i)?;
        if self.raw.insert(i, separator, Load::child(child))? {
            return Ok(true);
        }
        self.raw.page.copy_from_slice(&old);
        Ok(false)
    }

    /// Removes child `c` and the separator left of it (right of it for child 0). The last child cannot be removed.
    pub fn remove_child(&mut self, c: usize) -> Result<(), NodeDamage> {
        if c == 0 {
            let second = self.view()?.child(1)?;
            self.raw.remove(0)?;
            return self.raw.set_child(0, second);
        }
        self.raw.remove(c - 1)
    }

    /// Writes the branch anew over itself: takes the longest common prefix, drops dead cells.
    pub fn compact(&mut self) -> Result<(), NodeDamage> {
        self.raw.compact()
    }
}
