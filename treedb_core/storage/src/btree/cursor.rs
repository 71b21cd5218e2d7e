//! A cursor over the entries of a tree, in both directions.

use super::TreeRoot;
use super::path::{At, Path};
use crate::Result;
use crate::page::{PAGE_LINES, PageId, PageSource};
use treedb_formats::node::{Branch, Cell, Leaf, Value};

/// Where a cursor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// Nowhere yet: `next` goes to the first entry, `prev` to the last.
    Start,
    /// Before the first entry.
    Before,
    /// On an entry.
    On,
    /// After the last entry.
    After,
}

/// A position in a tree. Values are borrowed from the pages of `src`, keys from the cursor.
///
/// A cursor that ran over an end is outside: the opposite direction brings it back to the outermost entry.
/// After an error it is on no entry.
pub struct Cursor<'a, S: PageSource + ?Sized> {
    src: &'a S,
    root: TreeRoot,
    path: Path,
    position: Position,
    /// The leaf the cursor is on, and its page.
    leaf: Option<(Leaf<'a>, PageId)>,
    slot: usize,
    cell: Cell<'a>,
    /// Begins with a key of `key_len` bytes.
    key: Vec<u8>,
    key_len: usize,
    /// The slot whose key that is, [`NO_SLOT`] if it is of none of this leaf.
    key_slot: usize,
    ahead: Ahead,
}

/// The leaf after the current one, of which every step prefetches a part, so that it is in the cache when the walk reaches
/// it. Prefetching all of it at once would delay the current reads.
#[derive(Clone, Copy)]
struct Ahead {
    leaf: PageId,
    /// The line to be asked for next.
    line: usize,
}

impl Ahead {
    const NOTHING: Ahead = Ahead { leaf: PageId::NONE, line: PAGE_LINES };
    /// Lines that a step asks for.
    const LINES: usize = 4;

    /// All of `leaf`, within `steps` steps: what is too much for them at once.
    fn of<S: PageSource + ?Sized>(src: &S, leaf: PageId, steps: usize) -> Ahead {
        let line = PAGE_LINES.saturating_sub(steps * Ahead::LINES);
        src.prefetch_lines(leaf, 0, line);
        Ahead { leaf, line }
    }

    #[inline(always)]
    fn step<S: PageSource + ?Sized>(&mut self, src: &S) {
        if self.line < PAGE_LINES {
            src.prefetch_lines(self.leaf, self.line, Ahead::LINES);
            self.line += Ahead::LINES;
        }
    }
}

/// A slot number that no leaf has.
const NO_SLOT: usize = usize::MAX;

impl<'a, S: PageSource + ?Sized> Cursor<'a, S> {
    pub(super) fn new(src: &'a S, root: &TreeRoot) -> Self {
        Cursor {
            src,
            root: *root,
            path: Path::new(),
            position: Position::Start,
            leaf: None,
            slot: 0,
            cell: Cell::EMPTY,
            key: Vec::new(),
            key_len: 0,
            key_slot: NO_SLOT,
            ahead: Ahead::NOTHING,
        }
    }

    /// Goes to another root, and nowhere; no page is borrowed then.
    pub fn reset(&mut self, root: &TreeRoot) {
        self.root = *root;
        self.path.clear();
        self.position = Position::Start;
        self.leaf = None;
        self.cell = Cell::EMPTY;
        self.key_slot = NO_SLOT;
    }

    /// Whether a step on, or back, stays in the leaf it is on.
    #[inline]
    pub(crate) fn stays_in_leaf(&self, forward: bool) -> bool {
        match &self.leaf {
            Some((leaf, _)) if self.position == Position::On => {
                !forward && self.slot > 0 || forward && self.slot + 1 < leaf.count()
            }
            _ => false,
        }
    }

    /// The page of the leaf it borrows from.
    pub(crate) fn leaf_page(&self) -> Option<PageId> {
        self.leaf.as_ref().map(|(_, id)| *id)
    }

    /// Goes to the first key that is not below `key`; `false` if there is none.
    pub fn seek(&mut self, key: &[u8]) -> Result<bool> {
        match self.seek_leaf(key)? {
            None => Ok(false),
            Some((_, slot, count)) if slot < count => self.move_to(slot),
            // Every key of this leaf is below: the wanted one is the next leaf's first.
            Some((_, _, count)) => {
                self.slot = count;
                self.next_leaf()
            }
        }
    }

    /// Goes to `key`; `false`, and nowhere, if it is not in the tree.
    pub fn seek_exact(&mut self, key: &[u8]) -> Result<bool> {
        match self.seek_leaf(key)? {
            Some((true, slot, _)) => self.move_to(slot),
            _ => {
                self.position = Position::Start;
                Ok(false)
            }
        }
    }

    /// Goes to the last key that is not above `key`; `false` if there is none.
    pub fn seek_back(&mut self, key: &[u8]) -> Result<bool> {
        match self.seek_leaf(key)? {
            None => {
                self.position = Position::Before;
                Ok(false)
            }
            Some((true, slot, _)) => self.move_to(slot),
            Some((false, slot, _)) if slot > 0 => self.move_to(slot - 1),
            Some(_) => {
                self.slot = 0;
                self.prev_leaf()
            }
        }
    }

    /// Goes to the first entry; `false` if the tree is empty.
    pub fn first(&mut self) -> Result<bool> {
        self.edge(false)
    }

    /// Goes to the last entry; `false` if the tree is empty.
    pub fn last(&mut self) -> Result<bool> {
        self.edge(true)
    }

    /// Goes to the next entry; `false` after the last.
    #[inline(always)]
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<bool> {
        match &self.leaf {
            Some((leaf, _)) if self.position == Position::On => {
                let slot = self.slot + 1;
                if slot < leaf.count() {
                    self.ahead.step(self.src);
                    self.move_to(slot)
                } else {
                    self.next_leaf()
                }
            }
            _ if self.position == Position::After => Ok(false),
            _ => self.first(),
        }
    }

    /// Goes to the previous entry; `false` before the first.
    #[inline(always)]
    pub fn prev(&mut self) -> Result<bool> {
        match self.position {
            Position::On => match self.slot.checked_sub(1) {
                Some(slot) => {
                    self.ahead.step(self.src);
                    self.move_to(slot)
                }
                None => self.prev_leaf(),
            },
            Position::Before => Ok(false),
            _ => self.last(),
        }
    }

    /// The value the cursor is on.
    #[inline]
    pub fn value(&self) -> Option<Value<'a>> {
        (self.position == Position::On).then_some(self.cell.value)
    }

    /// The key the cursor is on; assembled on demand.
    #[inline]
    pub fn key(&mut self) -> Result<Option<&[u8]>> {
        Ok(self.entry()?.map(|(key, _)| key))
    }

    /// Key and value the cursor is on.
    #[inline(always)]
    pub fn entry(&mut self) -> Result<Option<(&[u8], Value<'a>)>> {
        match &self.leaf {
            Some((leaf, _)) if self.position == Position::On => {
                if self.key_slot != self.slot {
                    let begun = self.key_slot != NO_SLOT;
                    self.key_len = leaf.write_key(self.slot, &self.cell, &mut self.key, begun);
                    self.key_slot = self.slot;
                }
                Ok(self.key.get(..self.key_len).map(|key| (key, self.cell.value)))
            }
            _ => Ok(None),
        }
    }

    /// Moves to a slot of the leaf.
    #[inline(always)]
    fn move_to(&mut self, slot: usize) -> Result<bool> {
        let Some((leaf, id)) = &self.leaf else { return Ok(false) };
        match leaf.cell(slot) {
            Ok(cell) => {
                (self.cell, self.slot, self.position) = (cell, slot, Position::On);
                Ok(true)
            }
            Err(damage) => {
                self.position = Position::Start;
                Err(damage).at(self.src, *id)
            }
        }
    }

    /// Descends to the leaf for `key`: whether it is there, its slot, the leaf's count. `None` in an empty tree.
    fn seek_leaf(&mut self, key: &[u8]) -> Result<Option<(bool, usize, usize)>> {
        self.position = Position::Start;
        self.leaf = None;
        self.path.clear();
        if self.root.depth == 0 {
            self.position = Position::After;
            return Ok(None);
        }
        let mut id = self.root.root;
        for _ in 1..self.root.depth {
            let branch = Branch::open(self.src.page(id)?).at(self.src, id)?;
            let c = branch.find(key).at(self.src, id)?;
            self.path.push(self.src, id, c)?;
            id = PageId(branch.child(c).at(self.src, id)?);
        }
        let leaf = self.open_leaf(id)?;
        let found = leaf.search(key).at(self.src, id)?;
        let (exact, slot) = match found {
            Ok(slot) => (true, slot),
            Err(slot) => (false, slot),
        };
        Ok(Some((exact, slot, leaf.count())))
    }

    fn open_leaf(&mut self, id: PageId) -> Result<Leaf<'a>> {
        let leaf = Leaf::open(self.src.page(id)?).at(self.src, id)?;
        if leaf.count() == 0 {
            return Err(self.src.damaged(id, 2, "a leaf with entries", "none"));
        }
        self.leaf = Some((leaf, id));
        self.key_slot = NO_SLOT;
        self.ahead = Ahead::NOTHING;
        Ok(leaf)
    }

    fn edge(&mut self, last: bool) -> Result<bool> {
        self.position = Position::Start;
        self.leaf = None;
        self.path.clear();
        if self.root.depth == 0 {
            self.position = if last { Position::Before } else { Position::After };
            return Ok(false);
        }
        let leaf = self.descend_edge(self.root.root, 1, last)?;
        self.move_to(if last { leaf.count() - 1 } else { 0 })
    }

    /// Goes down from page `id` of level `level` (the root's is 1) along the first or the last children.
    fn descend_edge(&mut self, mut id: PageId, level: usize, last: bool) -> Result<Leaf<'a>> {
        for _ in level..usize::from(self.root.depth) {
            let branch = Branch::open(self.src.page(id)?).at(self.src, id)?;
            let c = if last { branch.count() } else { 0 };
            self.path.push(self.src, id, c)?;
            id = PageId(branch.child(c).at(self.src, id)?);
        }
        self.open_leaf(id)
    }

    /// To the first entry of the next leaf.
    #[cold]
    fn next_leaf(&mut self) -> Result<bool> {
        self.turn_leaf(true)
    }

    /// To the last entry of the leaf before.
    #[cold]
    fn prev_leaf(&mut self) -> Result<bool> {
        self.turn_leaf(false)
    }

    fn turn_leaf(&mut self, forward: bool) -> Result<bool> {
        self.position = Position::Start;
        let Some((leaf, id)) = self.leaf else { return Ok(false) };
        // The leaf's outermost key: what comes must lie beyond it, or damaged branches could lead in circles.
        self.slot = if forward { leaf.count() - 1 } else { 0 };
        self.key_slot = NO_SLOT;
        leaf.key_into(self.slot, &mut self.key).at(self.src, id)?;
        while let Some(step) = self.path.pop() {
            let branch = Branch::open(self.src.page(step.page)?).at(self.src, step.page)?;
            let c = step.child as usize;
            let c = if forward { c + 1 } else { c.wrapping_sub(1) };
            if c > branch.count() {
                continue;
            }
            self.path.push(self.src, step.page, c)?;
            let child = PageId(branch.child(c).at(self.src, step.page)?);
            let level = self.path.steps().len() + 1;
            // The thread that turns one leaf turns the next as well.
            let after =
                if forward { Some(c + 1).filter(|&after| after <= branch.count()) } else { c.checked_sub(1) };
            let after = after.filter(|_| level == usize::from(self.root.depth));
            let after = after.map(|after| branch.child(after)).transpose().at(self.src, step.page)?;
            let leaf = self.descend_edge(child, level, !forward)?;
            if let Some(after) = after {
                self.ahead = Ahead::of(self.src, PageId(after), leaf.count());
            }
            let beyond = if forward { 0 } else { leaf.count() };
            if let Some((_, id)) = self.leaf
                && leaf.search(&self.key).at(self.src, id)? != Err(beyond)
            {
                return Err(self.src.damaged(id, 2, "keys beyond those of the adjacent leaf", "others"));
            }
            return self.move_to(if forward { 0 } else { leaf.count() - 1 });
        }
        self.position = if forward { Position::After } else { Position::Before };
        Ok(false)
    }
}
