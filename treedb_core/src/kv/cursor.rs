//! Ways through a table.

use std::ops::Bound;

use super::reads::{Bounds, above, below};
use super::values::resolve;
use crate::btree::{self, RowCursor, RowRoot, RowTree, Tree, TreeRoot};
use crate::error::Result;
use crate::page::Pager;
use crate::vlog::ValueLog;

/// A place in an ordered table, to be moved both ways. It begins outside: `next` goes to the first key, `prev` to the
/// last. Values are borrowed from the files, keys from the cursor; moving allocates nothing.
pub struct Cursor<'a> {
    tree: btree::Cursor<'a, Pager>,
    pager: &'a Pager,
    values: &'a ValueLog,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(pager: &'a Pager, values: &'a ValueLog, root: &TreeRoot) -> Cursor<'a> {
        Cursor { tree: Tree::cursor(pager, root), pager, values }
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

    /// Goes one key on; false behind the last.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "keys are borrowed from the cursor")]
    pub fn next(&mut self) -> Result<bool> {
        self.tree.next()
    }

    /// Goes one key back; false before the first.
    #[inline]
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
    pub fn value(&self) -> Result<Option<&'a [u8]>> {
        self.tree.value().map(|cell| resolve(self.pager, self.values, cell)).transpose()
    }

    /// Key and value it is on.
    #[inline]
    pub fn entry(&mut self) -> Result<Option<(&[u8], &'a [u8])>> {
        let (pager, values) = (self.pager, self.values);
        match self.tree.entry()? {
            Some((key, cell)) => Ok(Some((key, resolve(pager, values, cell)?))),
            None => Ok(None),
        }
    }
}

impl<'a> Cursor<'a> {
    /// Goes to another root, and outside; it looks at no page then.
    pub(crate) fn reset(&mut self, root: &TreeRoot) {
        self.tree.reset(root);
    }

    /// Key and value it is on, for longer than the cursor.
    pub(crate) fn lend(&mut self) -> Result<Option<(Vec<u8>, &'a [u8])>> {
        Ok(self.entry()?.map(|(key, value)| (key.to_vec(), value)))
    }
}

/// The keys and values between two bounds, from either end. After an error it is at its end.
pub struct Range<'a> {
    front: Cursor<'a>,
    back: Cursor<'a>,
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
    pub(crate) fn new(
        pager: &'a Pager,
        values: &'a ValueLog,
        root: &TreeRoot,
        (from, to): Bounds<'_>,
    ) -> Range<'a> {
        Range {
            front: Cursor::new(pager, values, root),
            back: Cursor::new(pager, values, root),
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
            let Some((key, value)) = front.entry()? else { break };
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
            return Ok(Some((key, value)));
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
            let Some((key, value)) = back.entry()? else { break };
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
            return Ok(Some((key, value)));
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
    front: RowCursor<'a, Pager>,
    back: RowCursor<'a, Pager>,
    pager: &'a Pager,
    values: &'a ValueLog,
    from: u64,
    begun_front: bool,
    begun_back: bool,
    done: bool,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(pager: &'a Pager, values: &'a ValueLog, root: &RowRoot, from: u64) -> Rows<'a> {
        Rows {
            front: RowTree::cursor(pager, root),
            back: RowTree::cursor(pager, root),
            pager,
            values,
            from,
            begun_front: false,
            begun_back: false,
            done: false,
        }
    }

    fn forward(&mut self) -> Result<Option<(u64, &'a [u8])>> {
        let on = if self.begun_front { self.front.next()? } else { self.front.seek(self.from)? };
        self.begun_front = true;
        let Some((row, cell)) = self.front.row().filter(|_| on) else { return Ok(None) };
        if self.begun_back && self.back.row().is_some_and(|(back, _)| row >= back) {
            return Ok(None);
        }
        Ok(Some((row, resolve(self.pager, self.values, cell)?)))
    }

    fn backward(&mut self) -> Result<Option<(u64, &'a [u8])>> {
        let on = if self.begun_back { self.back.prev()? } else { self.back.last()? };
        self.begun_back = true;
        let Some((row, cell)) = self.back.row().filter(|_| on) else { return Ok(None) };
        if row < self.from || self.begun_front && self.front.row().is_some_and(|(front, _)| row <= front) {
            return Ok(None);
        }
        Ok(Some((row, resolve(self.pager, self.values, cell)?)))
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Result<(u64, &'a [u8])>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let step = self.forward();
        item(&mut self.done, step)
    }
}

impl DoubleEndedIterator for Rows<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let step = self.backward();
        item(&mut self.done, step)
    }
}
