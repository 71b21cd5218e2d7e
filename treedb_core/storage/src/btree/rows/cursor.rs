//! A cursor over the rows of a row tree, in both directions.

use super::super::path::{At, Path};
use super::RowRoot;
use super::branch::RowBranch;
use super::leaf::RowLeaf;
use crate::Result;
use crate::page::{PageId, PageSource};
use treedb_formats::node::Value;

/// Where a cursor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// Nowhere yet: `next` goes to the first row, `prev` to the last.
    Start,
    /// Before the first row.
    Before,
    /// On a row.
    On,
    /// After the last row.
    After,
}

/// A position in a row tree. Values are borrowed from the pages of `src`.
///
/// A cursor that ran over an end is outside: the opposite direction brings it back to the outermost row. After an
/// error it is on no entry.
pub struct RowCursor<'a, S: PageSource + ?Sized> {
    src: &'a S,
    root: PageId,
    depth: u16,
    path: Path,
    position: Position,
    leaf: Option<(RowLeaf<'a>, PageId)>,
    slot: usize,
    value: Value<'a>,
}

impl<'a, S: PageSource + ?Sized> RowCursor<'a, S> {
    pub(super) fn new(src: &'a S, root: &RowRoot) -> Self {
        RowCursor {
            src,
            root: root.tree.root,
            depth: root.tree.depth,
            path: Path::new(),
            position: Position::Start,
            leaf: None,
            slot: 0,
            value: Value::inline(&[]),
        }
    }

    /// The page of the leaf it borrows from.
    pub(crate) fn leaf_page(&self) -> Option<PageId> {
        self.leaf.as_ref().map(|(_, id)| *id)
    }

    /// Goes to the first row whose id is not below `id`; `false` if there is none.
    pub fn seek(&mut self, id: u64) -> Result<bool> {
        let Some(leaf) = self.descend(id)? else {
            self.position = Position::After;
            return Ok(false);
        };
        let from = id.saturating_sub(leaf.base()).min(leaf.slots() as u64) as usize;
        match leaf.next_row(from) {
            Some(slot) => self.move_to(slot),
            None => self.turn_leaf(true),
        }
    }

    /// Goes to row `id`; `false`, and nowhere, if there is none.
    pub fn seek_exact(&mut self, id: u64) -> Result<bool> {
        let Some(leaf) = self.descend(id)? else { return Ok(false) };
        match leaf.slot_of(id) {
            Some(slot) => self.move_to(slot),
            None => Ok(false),
        }
    }

    /// Goes to the last row whose id is not above `id`; `false` if there is none.
    pub fn seek_back(&mut self, id: u64) -> Result<bool> {
        let Some(leaf) = self.descend(id)? else {
            self.position = Position::Before;
            return Ok(false);
        };
        let before = match id.checked_sub(leaf.base()) {
            Some(slot) => slot.min(leaf.slots() as u64) as usize + 1,
            None => 0,
        };
        match leaf.row_before(before) {
            Some(slot) => self.move_to(slot),
            None => self.turn_leaf(false),
        }
    }

    /// Goes to the first row; `false` if there is none.
    pub fn first(&mut self) -> Result<bool> {
        self.edge(false)
    }

    /// Goes to the last row; `false` if there is none.
    pub fn last(&mut self) -> Result<bool> {
        self.edge(true)
    }

    /// Goes to the next row; `false` after the last.
    #[inline]
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<bool> {
        if self.position == Position::On
            && let Some((leaf, _)) = &self.leaf
        {
            return match leaf.next_row(self.slot + 1) {
                Some(slot) => self.move_to(slot),
                None => self.turn_leaf(true),
            };
        }
        match self.position {
            Position::After => Ok(false),
            _ => self.first(),
        }
    }

    /// Goes to the previous row; `false` before the first.
    #[inline]
    pub fn prev(&mut self) -> Result<bool> {
        if self.position == Position::On
            && let Some((leaf, _)) = &self.leaf
        {
            return match leaf.row_before(self.slot) {
                Some(slot) => self.move_to(slot),
                None => self.turn_leaf(false),
            };
        }
        match self.position {
            Position::Before => Ok(false),
            _ => self.last(),
        }
    }

    /// The row the cursor is on.
    #[inline]
    pub fn row(&self) -> Option<(u64, Value<'a>)> {
        match &self.leaf {
            Some((leaf, _)) if self.position == Position::On => {
                Some((leaf.base() + self.slot as u64, self.value))
            }
            _ => None,
        }
    }

    /// Moves to a slot of the leaf, if there is a row in it.
    #[inline]
    fn move_to(&mut self, slot: usize) -> Result<bool> {
        self.position = Position::Start;
        let Some((leaf, id)) = &self.leaf else { return Ok(false) };
        let Some(value) = leaf.row(slot).at(self.src, *id)? else { return Ok(false) };
        (self.value, self.slot, self.position) = (value, slot, Position::On);
        Ok(true)
    }

    /// Descends to the leaf for row `row`; `None` in an empty tree.
    fn descend(&mut self, row: u64) -> Result<Option<RowLeaf<'a>>> {
        self.position = Position::Start;
        self.leaf = None;
        self.path.clear();
        if self.depth == 0 {
            return Ok(None);
        }
        let mut id = self.root;
        for _ in 1..self.depth {
            let branch = RowBranch::open(self.src.page(id)?).at(self.src, id)?;
            let c = branch.find(row);
            self.path.push(self.src, id, c)?;
            id = PageId(branch.child(c).at(self.src, id)?);
        }
        self.open_leaf(id).map(Some)
    }

    fn open_leaf(&mut self, id: PageId) -> Result<RowLeaf<'a>> {
        let leaf = RowLeaf::open(self.src.page(id)?).at(self.src, id)?;
        if leaf.next_row(0).is_none() {
            return Err(self.src.damaged(id, 4, "a leaf with rows", "none"));
        }
        self.leaf = Some((leaf, id));
        Ok(leaf)
    }

    fn edge(&mut self, last: bool) -> Result<bool> {
        self.position = Position::Start;
        self.leaf = None;
        self.path.clear();
        if self.depth == 0 {
            self.position = if last { Position::Before } else { Position::After };
            return Ok(false);
        }
        let leaf = self.descend_edge(self.root, 1, last)?;
        self.move_to_edge(&leaf, last)
    }

    fn move_to_edge(&mut self, leaf: &RowLeaf<'a>, last: bool) -> Result<bool> {
        let slot = if last { leaf.row_before(leaf.slots()) } else { leaf.next_row(0) };
        self.move_to(slot.unwrap_or(0))
    }

    /// Goes down from page `id` of level `level` (the root's is 1) along the first or the last children.
    fn descend_edge(&mut self, mut id: PageId, level: usize, last: bool) -> Result<RowLeaf<'a>> {
        for _ in level..usize::from(self.depth) {
            let branch = RowBranch::open(self.src.page(id)?).at(self.src, id)?;
            let c = if last { branch.count() - 1 } else { 0 };
            self.path.push(self.src, id, c)?;
            id = PageId(branch.child(c).at(self.src, id)?);
        }
        self.open_leaf(id)
    }

    /// To the first row of the next leaf, or the last of the leaf before.
    #[cold]
    fn turn_leaf(&mut self, forward: bool) -> Result<bool> {
        self.position = Position::Start;
        let Some((old, _)) = self.leaf else { return Ok(false) };
        while let Some(step) = self.path.pop() {
            let branch = RowBranch::open(self.src.page(step.page)?).at(self.src, step.page)?;
            let c = step.child as usize;
            let c = if forward { c + 1 } else { c.wrapping_sub(1) };
            if c >= branch.count() {
                continue;
            }
            self.path.push(self.src, step.page, c)?;
            let child = PageId(branch.child(c).at(self.src, step.page)?);
            let level = self.path.steps().len() + 1;
            let leaf = self.descend_edge(child, level, !forward)?;
            // Damaged branches could lead in circles: the ids must go on rising (or falling).
            let beyond = if forward {
                leaf.base() >= old.base() + old.slots() as u64
            } else {
                leaf.base() + leaf.slots() as u64 <= old.base()
            };
            if !beyond {
                return Err(self.src.damaged(
                    child,
                    16,
                    "row ids beyond those of the adjacent leaf",
                    "others",
                ));
            }
            return self.move_to_edge(&leaf, !forward);
        }
        self.position = if forward { Position::After } else { Position::Before };
        Ok(false)
    }
}
