//! Ways through a table.

use std::ops::Bound;

use super::arena::Arena;
use super::hold::{Place, RowPlace};
use super::reads::{Bounds, Look, above, below};
use super::values::answer;
use crate::Result;
use crate::btree::{RowRoot, TreeRoot};
use crate::page::Pager;
use crate::vlog::ValueLog;

/// A place in an ordered table, to be moved both ways. It begins outside: `next` goes to the first key, `prev` to the
/// last. Keys and values are lent by the cursor until it moves: values from the files or the cache, keys put together.
/// Moving allocates nothing.
pub struct Cursor<'a> {
    place: Place<'a>,
    pager: &'a Pager,
    values: &'a ValueLog,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(pager: &'a Pager, values: &'a ValueLog, root: &TreeRoot) -> Cursor<'a> {
        Cursor { place: Place::new(pager, root), pager, values }
    }

    /// Goes to the first key not below `key`; false if there is none.
    pub fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.place.seek(key)
    }

    /// Goes to `key`; false if it is not there.
    pub fn seek_exact(&mut self, key: &[u8]) -> Result<bool> {
        self.place.seek_exact(key)
    }

    /// Goes to the last key not above `key`; false if there is none.
    pub fn seek_back(&mut self, key: &[u8]) -> Result<bool> {
        self.place.seek_back(key)
    }

    /// Goes to the first key; false if the table is empty.
    pub fn first(&mut self) -> Result<bool> {
        self.place.first()
    }

    /// Goes to the last key; false if the table is empty.
    pub fn last(&mut self) -> Result<bool> {
        self.place.last()
    }

    /// Goes one key on; false behind the last.
    #[inline(always)]
    #[expect(clippy::should_implement_trait, reason = "keys are borrowed from the cursor")]
    pub fn next(&mut self) -> Result<bool> {
        self.place.next()
    }

    /// Goes one key back; false before the first.
    #[inline(always)]
    pub fn prev(&mut self) -> Result<bool> {
        self.place.prev()
    }

    /// The key it is on.
    #[inline]
    pub fn key(&mut self) -> Result<Option<&[u8]>> {
        self.place.key()
    }

    /// The value it is on.
    #[inline]
    pub fn value(&mut self) -> Result<Option<&[u8]>> {
        self.place.lend(self.values)
    }

    /// Key and value it is on.
    #[inline(always)]
    pub fn entry(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.place.lend_entry(self.values)
    }
}

impl<'a> Cursor<'a> {
    /// Goes to another root, and outside; it looks at no page then.
    pub(crate) fn reset(&mut self, root: &TreeRoot) {
        self.place.reset(root);
    }

    /// The value it is on, for longer than the cursor; in `arena`, if the file is not mapped.
    pub(crate) fn keep_value(&self, arena: Option<&'a Arena>) -> Result<Option<&'a [u8]>> {
        let Some(cell) = self.place.value() else { return Ok(None) };
        answer(self.pager, self.values, cell, arena).map(Some)
    }

    /// Key and value it is on, for longer than the cursor; see [`Cursor::keep_value`].
    pub(crate) fn keep(&mut self, arena: Option<&'a Arena>) -> Result<Option<(Vec<u8>, &'a [u8])>> {
        let Some(key) = self.place.key()? else { return Ok(None) };
        let key = key.to_vec();
        Ok(self.keep_value(arena)?.map(|value| (key, value)))
    }
}

/// The keys and values between two bounds, from either end. After an error it is at its end.
pub struct Range<'a> {
    front: Cursor<'a>,
    back: Cursor<'a>,
    arena: Option<&'a Arena>,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    begun_front: bool,
    begun_back: bool,
    done: bool,
}

pub(super) fn owned(bound: Bound<&[u8]>) -> Bound<Vec<u8>> {
    bound.map(<[u8]>::to_vec)
}

pub(super) fn slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

impl<'a> Range<'a> {
    pub(crate) fn new(look: Look<'a>, root: &TreeRoot, (from, to): Bounds<'_>) -> Range<'a> {
        Range {
            front: Cursor::new(look.pager, look.values, root),
            back: Cursor::new(look.pager, look.values, root),
            arena: look.arena,
            from: owned(from),
            to: owned(to),
            begun_front: false,
            begun_back: false,
            done: false,
        }
    }

    fn forward(&mut self) -> Result<Option<(Vec<u8>, &'a [u8])>> {
        let front = &mut self.front;
        let mut on = match (&self.from, self.begun_front) {
            (_, true) => front.next()?,
            (Bound::Unbounded, false) => front.first()?,
            (Bound::Included(key) | Bound::Excluded(key), false) => front.seek(key)?,
        };
        self.begun_front = true;
        while on {
            let Some(key) = front.key()? else { break };
            if !above(key, slice(&self.from)) {
                // The excluded lower bound itself.
                on = front.next()?;
                continue;
            }
            if !below(key, slice(&self.to)) {
                break;
            }
            let key = key.to_vec();
            if self.begun_back && self.back.key()?.is_some_and(|back| key.as_slice() >= back) {
                break;
            }
            return Ok(front.keep_value(self.arena)?.map(|value| (key, value)));
        }
        Ok(None)
    }

    fn backward(&mut self) -> Result<Option<(Vec<u8>, &'a [u8])>> {
        let back = &mut self.back;
        let mut on = match (&self.to, self.begun_back) {
            (_, true) => back.prev()?,
            (Bound::Unbounded, false) => back.last()?,
            (Bound::Included(key) | Bound::Excluded(key), false) => back.seek_back(key)?,
        };
        self.begun_back = true;
        while on {
            let Some(key) = back.key()? else { break };
            if !below(key, slice(&self.to)) {
                on = back.prev()?;
                continue;
            }
            if !above(key, slice(&self.from)) {
                break;
            }
            let key = key.to_vec();
            if self.begun_front && self.front.key()?.is_some_and(|front| key.as_slice() <= front) {
                break;
            }
            return Ok(back.keep_value(self.arena)?.map(|value| (key, value)));
        }
        Ok(None)
    }
}

/// Turns a step's result into an iterator's item, and ends the iterator when there is nothing more.
pub(super) fn item<T>(done: &mut bool, step: Result<Option<T>>) -> Option<Result<T>> {
    let item = step.transpose();
    *done = !matches!(item, Some(Ok(_)));
    item
}

impl<'a> Iterator for Range<'a> {
    type Item = Result<(Vec<u8>, &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let step = self.forward();
        item(&mut self.done, step)
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let step = self.backward();
        item(&mut self.done, step)
    }
}

/// The rows from a number on, from either end. After an error it is at its end.
pub struct Rows<'a> {
    front: RowPlace<'a>,
    back: RowPlace<'a>,
    look: Look<'a>,
    from: u64,
    done: bool,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(look: Look<'a>, root: &RowRoot, from: u64) -> Rows<'a> {
        let (front, back) = (RowPlace::new(look.pager, root), RowPlace::new(look.pager, root));
        Rows { front, back, look, from, done: false }
    }

    /// The next row as `next` gives it, lent until the walk goes on: a walk over many rows takes no memory for them,
    /// whatever the store's cache is.
    #[inline]
    pub fn lend_next(&mut self) -> Result<Option<(u64, &[u8])>> {
        match self.go(Self::forward)? {
            Some(row) => self.front.lend(self.look.values, row),
            None => Ok(None),
        }
    }

    /// The next row from the back as `next_back` gives it, lent until the walk goes on.
    #[inline]
    pub fn lend_next_back(&mut self) -> Result<Option<(u64, &[u8])>> {
        match self.go(Self::backward)? {
            Some(row) => self.back.lend(self.look.values, row),
            None => Ok(None),
        }
    }

    /// Goes a step, unless the walk is at its end, which it is behind an error.
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
    fn keep(&self, end: &RowPlace<'a>, row: u64) -> Result<(u64, &'a [u8])> {
        match end.cell() {
            Some(cell) => {
                let value = answer(self.look.pager, self.look.values, cell, self.look.arena)?;
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
