//! Cursors of trees that pin the leaf they are on while pages may leave memory, that is, with a bounded page cache.

use std::sync::Arc;

use super::large_values;
use crate::Result;
use crate::btree::{Cursor, RowCursor, RowRoot, RowTree, Tree, TreeRoot, Value};
use crate::page::{Cache, PageId, Pager};
use crate::vlog::ValueLog;

/// The page that is pinned for a cursor, and the large value that was read last. It shares ownership of the cache, so that
/// dropping a cursor needs nothing that it borrows.
struct LeafPin {
    cache: Arc<Cache>,
    page: Option<PageId>,
    value: Vec<u8>,
}

impl LeafPin {
    /// No page yet; `None` in a mapped file, where nothing need be pinned.
    fn new(pager: &Pager) -> Option<LeafPin> {
        pager.cache().map(|cache| LeafPin { cache: Arc::clone(cache), page: None, value: Vec::new() })
    }

    /// Moves `cursor` with `step`, and pins the leaf it comes to instead of the one it left.
    fn step<C>(
        &mut self,
        pager: &Pager,
        cursor: &mut C,
        step: impl FnOnce(&mut C) -> Result<bool>,
        leaf: impl FnOnce(&C) -> Option<PageId>,
    ) -> Result<bool> {
        let _epoch = pager.enter_epoch();
        let on = step(cursor);
        let page = leaf(cursor);
        if page != self.page {
            self.release();
            if let Some(page) = page {
                pager.pin_page(page)?;
                self.page = Some(page);
            }
        }
        on
    }

    /// Unpins the page; the cursor borrows from it no more.
    fn release(&mut self) {
        if let Some(page) = self.page.take() {
            self.cache.unpin_page(page.0);
        }
    }

    /// The value of a cell of the pinned page, until the next call.
    fn value<'v>(&'v mut self, pager: &Pager, values: &ValueLog, cell: Value<'v>) -> Result<&'v [u8]> {
        if !cell.pointer {
            return Ok(cell.bytes);
        }
        large_values::copy(pager, values, cell, &mut self.value)
    }
}

impl Drop for LeafPin {
    fn drop(&mut self) {
        self.release();
    }
}

/// A cursor over a tree whose leaf stays in memory between steps.
pub(super) struct PinnedCursor<'a> {
    tree: Cursor<'a, Pager>,
    pager: &'a Pager,
    pin: Option<LeafPin>,
}

impl<'a> PinnedCursor<'a> {
    pub(super) fn new(pager: &'a Pager, root: &TreeRoot) -> PinnedCursor<'a> {
        PinnedCursor { tree: Tree::cursor(pager, root), pager, pin: LeafPin::new(pager) }
    }

    #[inline]
    fn step(&mut self, step: impl FnOnce(&mut Cursor<'a, Pager>) -> Result<bool>) -> Result<bool> {
        match &mut self.pin {
            None => step(&mut self.tree),
            Some(pin) => pin.step(self.pager, &mut self.tree, step, Cursor::leaf_page),
        }
    }

    pub(super) fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.step(|tree| tree.seek(key))
    }

    pub(super) fn seek_exact(&mut self, key: &[u8]) -> Result<bool> {
        self.step(|tree| tree.seek_exact(key))
    }

    pub(super) fn seek_back(&mut self, key: &[u8]) -> Result<bool> {
        self.step(|tree| tree.seek_back(key))
    }

    pub(super) fn first(&mut self) -> Result<bool> {
        self.step(Cursor::first)
    }

    pub(super) fn last(&mut self) -> Result<bool> {
        self.step(Cursor::last)
    }

    #[inline(always)]
    pub(super) fn next(&mut self) -> Result<bool> {
        if self.pin.is_some() && !self.tree.stays_in_leaf(true) {
            return self.step(Cursor::next);
        }
        self.tree.next()
    }

    #[inline(always)]
    pub(super) fn prev(&mut self) -> Result<bool> {
        if self.pin.is_some() && !self.tree.stays_in_leaf(false) {
            return self.step(Cursor::prev);
        }
        self.tree.prev()
    }

    #[inline]
    pub(super) fn key(&mut self) -> Result<Option<&[u8]>> {
        self.tree.key()
    }

    /// The cell it is on. In a file that is not mapped, it is valid only until the cursor moves or ends.
    #[inline]
    pub(super) fn value(&self) -> Option<Value<'a>> {
        self.tree.value()
    }

    /// The key and the cell it is on; see [`PinnedCursor::value`].
    #[inline]
    pub(super) fn entry(&mut self) -> Result<Option<(&[u8], Value<'a>)>> {
        self.tree.entry()
    }

    /// The value it is on.
    #[inline]
    pub(super) fn lend<'v>(&'v mut self, values: &'v ValueLog) -> Result<Option<&'v [u8]>> {
        let Some(cell) = self.tree.value() else { return Ok(None) };
        lend(self.pager, &mut self.pin, values, cell).map(Some)
    }

    /// The key and the value it is on.
    #[inline(always)]
    pub(super) fn lend_entry<'v>(&'v mut self, values: &'v ValueLog) -> Result<Option<(&'v [u8], &'v [u8])>> {
        let Some((key, cell)) = self.tree.entry()? else { return Ok(None) };
        Ok(Some((key, lend(self.pager, &mut self.pin, values, cell)?)))
    }

    /// Changes to another root, without a position; no page is borrowed then.
    pub(super) fn reset(&mut self, root: &TreeRoot) {
        self.tree.reset(root);
        if let Some(pin) = &mut self.pin {
            pin.release();
        }
    }
}

/// The value of a cell, until the cursor that is on it moves.
#[inline]
fn lend<'v>(
    pager: &Pager,
    pin: &'v mut Option<LeafPin>,
    values: &'v ValueLog,
    cell: Value<'v>,
) -> Result<&'v [u8]> {
    match pin {
        None => large_values::resolve(pager, values, cell),
        Some(pin) => pin.value(pager, values, cell),
    }
}

/// As [`PinnedCursor`] over rows; it knows whether it has been moved yet.
pub(super) struct PinnedRowCursor<'a> {
    tree: RowCursor<'a, Pager>,
    pager: &'a Pager,
    pin: Option<LeafPin>,
    pub(super) begun: bool,
}

impl<'a> PinnedRowCursor<'a> {
    pub(super) fn new(pager: &'a Pager, root: &RowRoot) -> PinnedRowCursor<'a> {
        PinnedRowCursor { tree: RowTree::cursor(pager, root), pager, pin: LeafPin::new(pager), begun: false }
    }

    /// Moves it and returns the row it comes to. `step` is told whether the cursor had been moved before.
    #[inline]
    pub(super) fn step(
        &mut self,
        step: impl FnOnce(&mut RowCursor<'a, Pager>, bool) -> Result<bool>,
    ) -> Result<Option<u64>> {
        let begun = std::mem::replace(&mut self.begun, true);
        let on = match &mut self.pin {
            None => step(&mut self.tree, begun),
            Some(pin) => pin.step(self.pager, &mut self.tree, |tree| step(tree, begun), RowCursor::leaf_page),
        }?;
        Ok(if on { self.row() } else { None })
    }

    /// The row it is on.
    #[inline]
    pub(super) fn row(&self) -> Option<u64> {
        self.tree.row().map(|(row, _)| row)
    }

    /// The cell it is on; see [`PinnedCursor::value`].
    #[inline]
    pub(super) fn cell(&self) -> Option<Value<'a>> {
        self.tree.row().map(|(_, cell)| cell)
    }

    /// Row `row`, which it is on, and its value.
    #[inline]
    pub(super) fn lend<'v>(&'v mut self, values: &'v ValueLog, row: u64) -> Result<Option<(u64, &'v [u8])>> {
        let Some(cell) = self.cell() else { return Ok(None) };
        Ok(Some((row, lend(self.pager, &mut self.pin, values, cell)?)))
    }
}
