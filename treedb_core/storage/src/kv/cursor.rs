//! Cursors and ranges over a table.

use std::cmp::Ordering;

use super::arena::Arena;
use super::large_values::resolve_for_txn;
use super::pinned_cursor::{PinnedCursor, PinnedRowCursor};
use super::reads::{Bounds, ReadContext};
use super::two_ended::{RangeCursor, TwoEnded};
use crate::Result;
use crate::btree::{RowRoot, TreeRoot};
use crate::page::Pager;
use crate::vlog::ValueLog;

/// A position in an ordered table, which moves in both directions. It starts outside: `next` goes to the
/// first key, `prev` to the last. Keys and values are borrowed from the cursor until it moves: values from
/// the files or the cache, keys from a buffer. Moving allocates nothing.
pub struct Cursor<'a> {
    tree: PinnedCursor<'a>,
    pager: &'a Pager,
    values: &'a ValueLog,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(pager: &'a Pager, values: &'a ValueLog, root: &TreeRoot) -> Cursor<'a> {
        Cursor { tree: PinnedCursor::new(pager, root), pager, values }
    }

    /// Goes to the first key not below `key`; false if there is none.
    pub fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.tree.seek(key)
    }

    /// Goes to `key`; false if it is not there.
    pub fn seek_exact(&mut self, key: &[u8]) -> Result<bool> {
        self.tree.seek_exact(key)
    }

    /// Goes to the last key not above `key`; false if there is none.
    pub fn seek_back(&mut self, key: &[u8]) -> Result<bool> {
        self.tree.seek_back(key)
    }

    /// Goes to the first key; false if the table is empty.
    pub fn first(&mut self) -> Result<bool> {
        self.tree.first()
    }

    /// Goes to the last key; false if the table is empty.
    pub fn last(&mut self) -> Result<bool> {
        self.tree.last()
    }

    /// Goes to the next key; false after the last.
    #[inline(always)]
    #[expect(clippy::should_implement_trait, reason = "keys are borrowed from the cursor")]
    pub fn next(&mut self) -> Result<bool> {
        self.tree.next()
    }

    /// Goes to the previous key; false before the first.
    #[inline(always)]
    pub fn prev(&mut self) -> Result<bool> {
        self.tree.prev()
    }

    /// The key it is on.
    #[inline]
    pub fn key(&mut self) -> Result<Option<&[u8]>> {
        self.tree.key()
    }

    /// The value it is on.
    #[inline]
    pub fn value(&mut self) -> Result<Option<&[u8]>> {
        self.tree.lend(self.values)
    }

    /// Key and value it is on.
    #[inline(always)]
    pub fn entry(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.tree.lend_entry(self.values)
    }
}

impl<'a> Cursor<'a> {
    /// Changes to another root, without a position; it borrows no page then.
    pub(crate) fn reset(&mut self, root: &TreeRoot) {
        self.tree.reset(root);
    }

    /// The value it is on, for longer than the cursor; in `arena`, if the file is not mapped.
    #[cfg(feature = "optimistic")]
    pub(crate) fn keep_value(&self, arena: Option<&'a Arena>) -> Result<Option<&'a [u8]>> {
        let Some(cell) = self.tree.value() else { return Ok(None) };
        resolve_for_txn(self.pager, self.values, cell, arena).map(Some)
    }

    /// Key and value it is on, for longer than the cursor; see [`Cursor::keep_value`].
    pub(crate) fn keep(&mut self, arena: Option<&'a Arena>) -> Result<Option<(Vec<u8>, &'a [u8])>> {
        let (pager, values) = (self.pager, self.values);
        let Some((key, cell)) = self.tree.entry()? else { return Ok(None) };
        Ok(Some((key.to_vec(), resolve_for_txn(pager, values, cell, arena)?)))
    }
}

impl RangeCursor for Cursor<'_> {
    fn first(&mut self) -> Result<bool> {
        Cursor::first(self)
    }
    fn last(&mut self) -> Result<bool> {
        Cursor::last(self)
    }
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        Cursor::seek(self, key)
    }
    fn seek_back(&mut self, key: &[u8]) -> Result<bool> {
        Cursor::seek_back(self, key)
    }
    fn next(&mut self) -> Result<bool> {
        Cursor::next(self)
    }
    fn prev(&mut self) -> Result<bool> {
        Cursor::prev(self)
    }
    fn next_key(&mut self) -> Result<bool> {
        Cursor::next(self)
    }
    fn prev_key(&mut self) -> Result<bool> {
        Cursor::prev(self)
    }
    fn key(&mut self) -> Result<Option<&[u8]>> {
        Cursor::key(self)
    }
    fn compare(&mut self, other: &mut Self) -> Result<Option<Ordering>> {
        Ok(self.key()?.zip(other.key()?).map(|(mine, theirs)| mine.cmp(theirs)))
    }
}

/// The keys and values between two bounds, from either end. It ends after an error.
pub struct Range<'a> {
    ends: TwoEnded<Cursor<'a>>,
    arena: Option<&'a Arena>,
}

impl<'a> Range<'a> {
    pub(crate) fn new(context: ReadContext<'a>, root: &TreeRoot, bounds: Bounds<'_>) -> Range<'a> {
        let cursor = || Cursor::new(context.pager, context.values, root);
        Range { ends: TwoEnded::new(cursor(), cursor(), bounds), arena: context.arena }
    }
}

impl<'a> Iterator for Range<'a> {
    type Item = Result<(Vec<u8>, &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        let arena = self.arena;
        self.ends.step(true, |front| front.keep(arena))
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let arena = self.arena;
        self.ends.step(false, |back| back.keep(arena))
    }
}

/// The rows from a number on, from either end. It ends after an error.
pub struct Rows<'a> {
    front: PinnedRowCursor<'a>,
    back: PinnedRowCursor<'a>,
    context: ReadContext<'a>,
    from: u64,
    done: bool,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(context: ReadContext<'a>, root: &RowRoot, from: u64) -> Rows<'a> {
        let (front, back) =
            (PinnedRowCursor::new(context.pager, root), PinnedRowCursor::new(context.pager, root));
        Rows { front, back, context, from, done: false }
    }

    /// The next row like `next`, borrowed until the next call: a scan of many rows needs no memory for them,
    /// also with a bounded cache.
    #[inline]
    pub fn lend_next(&mut self) -> Result<Option<(u64, &[u8])>> {
        match self.go(Self::forward)? {
            Some(row) => self.front.lend(self.context.values, row),
            None => Ok(None),
        }
    }

    /// The next row from the end like `next_back`, borrowed until the next call.
    #[inline]
    pub fn lend_next_back(&mut self) -> Result<Option<(u64, &[u8])>> {
        match self.go(Self::backward)? {
            Some(row) => self.back.lend(self.context.values, row),
            None => Ok(None),
        }
    }

    /// Takes a step, unless the walk has ended, as it does after an error.
    #[inline]
    fn go(&mut self, step: impl FnOnce(&mut Self) -> Result<Option<u64>>) -> Result<Option<u64>> {
        if self.done {
            return Ok(None);
        }
        self.done = true;
        let row = step(self)?;
        self.done = row.is_none();
        Ok(row)
    }

    fn forward(&mut self) -> Result<Option<u64>> {
        let from = self.from;
        let row = self.front.step(|tree, begun| if begun { tree.next() } else { tree.seek(from) })?;
        Ok(row.filter(|&row| !self.back.begun || self.back.row().is_none_or(|back| row < back)))
    }

    fn backward(&mut self) -> Result<Option<u64>> {
        let row = self.back.step(|tree, begun| if begun { tree.prev() } else { tree.last() })?;
        let row = row.filter(|&row| row >= self.from);
        Ok(row.filter(|&row| !self.front.begun || self.front.row().is_none_or(|front| row > front)))
    }

    /// The value of a row stepped to at one end, for longer than the walk.
    #[inline]
    fn keep(&self, end: &PinnedRowCursor<'a>, row: u64) -> Result<(u64, &'a [u8])> {
        match end.cell() {
            Some(cell) => {
                let value =
                    resolve_for_txn(self.context.pager, self.context.values, cell, self.context.arena)?;
                Ok((row, value))
            }
            None => Ok((row, &[])),
        }
    }

    fn item(&mut self, row: Result<Option<u64>>, front: bool) -> Option<Result<(u64, &'a [u8])>> {
        let end = if front { &self.front } else { &self.back };
        let item = row.and_then(|row| row.map(|row| self.keep(end, row)).transpose()).transpose();
        self.done = !matches!(item, Some(Ok(_)));
        item
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Result<(u64, &'a [u8])>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let row = self.go(Self::forward);
        self.item(row, true)
    }
}

impl DoubleEndedIterator for Rows<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let row = self.go(Self::backward);
        self.item(row, false)
    }
}
