//! Inserting entries, and splitting pages that are full.
//!
//! A split is two WAL records: one divides the page and marks the left half [`flag::INCOMPLETE`], the other inserts the
//! right half into the parent (or makes a new root) and clears the mark. A crash in between leaves a tree in which
//! every search still finds everything by moving right; the next insert that finds the mark does the second part.
//! Pages without a downlink in the parent can be split in their turn: downlinks must then be inserted from left to
//! right, beginning after the page that has one.
//!
//! Latches are taken from the bottom up and from left to right.

use pgrx::check_for_interrupts;
use treedb_formats::node::{Branch, BranchMut, Leaf, LeafMut, Value};

use super::boundary::Side;
use super::meta::Meta;
use super::page::{ROOM, View, ViewMut, flag};
use super::schema::{Entry, Schema};
use super::tree::{MAX_MOVES, Tree};
use crate::shim::buffer::{Exclusive, Page, free_space};
use crate::shim::index_build::IndexRow;
use crate::shim::relation::Index;
use crate::shim::wal::{Change, Content};
use crate::shim::{error, fault, snapshot};

/// How often the parent of a page is searched for again because other backends split pages to its left meanwhile. More
/// is damage.
const MAX_PARENT_RETRIES: u32 = 20;

/// Inserts the entries of a row.
pub(super) fn insert(schema: &Schema, index: Index<'_>, row: &IndexRow<'_>) {
    let tree = Tree::new(index, schema);
    let mut entries: Vec<Entry> = Vec::with_capacity(1);
    let facts = schema.entries(row, |entry| entries.push(entry));
    if facts != 0 {
        tree.record_facts(facts);
    }
    for entry in &entries {
        tree.insert(entry);
    }
}

impl Tree<'_> {
    /// Inserts an entry. One that is there already stays.
    pub(super) fn insert(&self, entry: &Entry) {
        let boundary = self.schema.before_key(&entry.key);
        loop {
            check_for_interrupts!();
            let mut stack = Vec::new();
            let mut page: Page<Exclusive> =
                self.descend(&boundary, Side::After, 0, Some(&mut stack), false).page;
            let block = page.block();
            let view = self.view(&page);
            if view.has(flag::INCOMPLETE) {
                self.finish_split(page, &mut stack, MAX_PARENT_RETRIES);
                continue;
            }
            let leaf = self.checked(block, view.leaf(self.schema.keys));
            let place = self.checked_node(block, self.schema.position(&leaf, &boundary));
            if place < leaf.count() {
                let mut there = Vec::new();
                self.checked_node(block, leaf.key_into(place, &mut there));
                if there == entry.key {
                    return;
                }
            }
            let value = Value::inline(&entry.value);
            let mut change = Change::begin(self.index);
            let [copy] = change.pages([(&mut page, Content::Edited)]);
            let mut copy = self.checked(block, ViewMut::open(copy));
            let fits =
                LeafMut::open(copy.payload()).and_then(|mut leaf| leaf.insert(place, &entry.key, value));
            if self.checked_node(block, fits) {
                self.checked(block, copy.finish());
                change.commit();
                return;
            }
            drop(change);
            if self.split_leaf(page, place, entry, &mut stack) {
                return;
            }
        }
    }

    /// Splits a full leaf into which an entry goes at `place`. False if the leaf had to be parted without the entry
    /// (a key that shares nothing with a long common prefix): then there is room for it now.
    fn split_leaf(
        &self,
        mut page: Page<Exclusive>,
        place: usize,
        entry: &Entry,
        stack: &mut Vec<u32>,
    ) -> bool {
        let block = page.block();
        let old = page.bytes().to_vec();
        let view = self.checked(block, View::open(&old));
        let room = view.payload().len();
        let leaf = self.checked_node(block, Leaf::open(view.payload()));
        let value = Value::inline(&entry.value);
        let mut plan = self.checked_node(block, leaf.split(place, false, &entry.key, value));
        let whole = self.checked_node(block, plan.fit_beside(ROOM, room));
        if !whole {
            plan = self.checked_node(block, leaf.divide());
            if !self.checked_node(block, plan.fit_beside(ROOM, room)) {
                error::corrupted(
                    &self.name(),
                    block,
                    "expected entries that two pages can hold, found longer ones",
                );
            }
        }
        let mut bound = Vec::new();
        self.checked_node(block, plan.separator(&mut bound));
        let mut right = self.allocate();
        let right_block = right.block();
        let mut change = Change::begin(self.index);
        let [left_copy, right_copy] =
            change.pages([(&mut page, Content::Edited), (&mut right, Content::Replaced)]);
        let mut right_copy = ViewMut::init(right_copy, 0, 0, next_of(&view));
        self.checked_node(block, plan.right(right_copy.payload()));
        self.checked(block, right_copy.finish());
        let flags = if view.has(flag::ROOT) { flag::ROOT } else { 0 } | flag::INCOMPLETE;
        let mut left_copy = ViewMut::init(left_copy, 0, flags, Some((right_block, &bound)));
        self.checked_node(block, plan.left(left_copy.payload()));
        self.checked(block, left_copy.finish());
        change.commit();
        drop(right);
        fault::point("leaf_split");
        self.finish_split(page, stack, MAX_PARENT_RETRIES);
        whole
    }

    /// Inserts the right neighbour of `page`, which is marked incomplete, into the parent. `stack` has the blocks
    /// above the page, the parent last, or is empty.
    fn finish_split(&self, mut page: Page<Exclusive>, stack: &mut Vec<u32>, retries: u32) {
        let block = page.block();
        let (right, bound, level, is_root) = {
            let view = self.view(&page);
            let (Some(right), Some(bound)) = (view.next(), view.bound()) else {
                error::corrupted(
                    &self.name(),
                    block,
                    "expected a split page to have a right neighbour, found none",
                );
            };
            (right, bound.to_vec(), view.level(), view.has(flag::ROOT))
        };
        if is_root {
            return self.new_root(&mut page, right, &bound, level);
        }
        loop {
            check_for_interrupts!();
            let mut parent = match self.parent_of(&bound, level, stack) {
                Ok(parent) => parent,
                Err(root) => {
                    // The old root was split, and that split broke off before there was a page above it.
                    drop(page);
                    return self.finish_chain(root, block, level, retries);
                }
            };
            let parent_block = parent.block();
            let view = self.view(&parent);
            if view.has(flag::INCOMPLETE) {
                self.finish_split(parent, stack, MAX_PARENT_RETRIES);
                // What is left of the stack belongs to levels further up.
                stack.clear();
                continue;
            }
            let branch = self.checked(parent_block, view.branch(self.schema.keys));
            let boundary = self.schema.before_key(&bound);
            let place = self.checked_node(parent_block, self.schema.child(&branch, &boundary, Side::After));
            let child = self.checked_node(parent_block, branch.child(place));
            if child != block {
                let Some(retries) = retries.checked_sub(1) else {
                    error::corrupted(
                        &self.name(),
                        parent_block,
                        format!("expected child {block}, found {child}"),
                    );
                };
                // The parent knows neither the right half nor this page: an earlier split was not finished.
                drop(parent);
                drop(page);
                return self.finish_chain(child, block, level, retries);
            }
            let mut change = Change::begin(self.index);
            let [parent_copy, page_copy] =
                change.pages([(&mut parent, Content::Edited), (&mut page, Content::Edited)]);
            let mut parent_copy = self.checked(parent_block, ViewMut::open(parent_copy));
            let fits =
                BranchMut::open(parent_copy.payload()).and_then(|mut b| b.insert(place, &bound, right));
            if self.checked_node(parent_block, fits) {
                self.checked(parent_block, parent_copy.finish());
                self.checked(block, ViewMut::open(page_copy)).set_flags(0, flag::INCOMPLETE);
                change.commit();
                return;
            }
            drop(change);
            if self.split_branch(parent, &mut page, place, &bound, right, stack) {
                return;
            }
            stack.clear();
        }
    }

    /// Finishes the splits of pages from `from`, which the parent knows, to `to`, which hangs on it.
    fn finish_chain(&self, from: u32, to: u32, level: u16, retries: u32) {
        let mut at = from;
        for _ in 0..MAX_MOVES {
            let page: Page<Exclusive> = self.read(at);
            let view = self.view(&page);
            let next = view.next();
            if view.level() != level {
                error::corrupted(
                    &self.name(),
                    at,
                    format!("expected a page of level {level}, found {}", view.level()),
                );
            }
            // Another backend may have finished it already.
            if view.has(flag::INCOMPLETE) {
                self.finish_split(page, &mut Vec::new(), retries);
            }
            match next {
                _ if at == to => return,
                Some(next) => at = next,
                None => break,
            }
        }
        error::corrupted(&self.name(), from, format!("expected block {to} on its right, found an end"));
    }

    /// The page of the level above `level` where `bound` belongs, latched exclusively; or the root, if it is of
    /// `level` itself.
    fn parent_of(&self, bound: &[u8], level: u16, stack: &mut Vec<u32>) -> Result<Page<Exclusive>, u32> {
        let boundary = self.schema.before_key(bound);
        // Branches are never deleted, so the block is still one of that level.
        if let Some(block) = stack.pop() {
            return Ok(self.move_right(self.read(block), &boundary, Side::After, false, None));
        }
        // The page was the root when the walk began and is not any more, or it is on the right of one.
        let meta = self.meta();
        if meta.level == level {
            return Err(meta.root);
        }
        Ok(self.descend(&boundary, Side::After, level + 1, Some(stack), false).page)
    }

    /// Splits a full branch into which a separator goes at `place`, telling of the split of `child`. False if the
    /// branch had to be parted without it.
    fn split_branch(
        &self,
        mut page: Page<Exclusive>,
        child: &mut Page<Exclusive>,
        place: usize,
        separator: &[u8],
        right_child: u32,
        stack: &mut Vec<u32>,
    ) -> bool {
        let block = page.block();
        let old = page.bytes().to_vec();
        let view = self.checked(block, View::open(&old));
        let (room, level) = (view.payload().len(), view.level());
        let branch = self.checked_node(block, Branch::open(view.payload()));
        let mut plan = self.checked_node(block, branch.split(place, separator, right_child));
        let whole = self.checked_node(block, plan.fit_beside(ROOM, room));
        if !whole {
            plan = self.checked_node(block, branch.divide());
            if !self.checked_node(block, plan.fit_beside(ROOM, room)) {
                error::corrupted(
                    &self.name(),
                    block,
                    "expected separators that two pages can hold, found longer ones",
                );
            }
        }
        let mut bound = Vec::new();
        self.checked_node(block, plan.separator(&mut bound));
        let mut right = self.allocate();
        let (right_block, child_block) = (right.block(), child.block());
        let mut change = Change::begin(self.index);
        let [left_copy, right_copy, child_copy] = change.pages([
            (&mut page, Content::Edited),
            (&mut right, Content::Replaced),
            (child, Content::Edited),
        ]);
        let mut right_copy = ViewMut::init(right_copy, level, 0, next_of(&view));
        self.checked_node(block, plan.right(right_copy.payload()));
        self.checked(block, right_copy.finish());
        let flags = if view.has(flag::ROOT) { flag::ROOT } else { 0 } | flag::INCOMPLETE;
        let mut left_copy = ViewMut::init(left_copy, level, flags, Some((right_block, &bound)));
        self.checked_node(block, plan.left(left_copy.payload()));
        self.checked(block, left_copy.finish());
        if whole {
            self.checked(child_block, ViewMut::open(child_copy)).set_flags(0, flag::INCOMPLETE);
        }
        change.commit();
        drop(right);
        fault::point("branch_split");
        self.finish_split(page, stack, MAX_PARENT_RETRIES);
        whole
    }

    /// Makes a new root over `page`, the old root, and its right neighbour.
    fn new_root(&self, page: &mut Page<Exclusive>, right: u32, bound: &[u8], level: u16) {
        let block = page.block();
        let mut meta_page: Page<Exclusive> = Page::read(self.index, 0);
        let meta = self.checked(0, Meta::read(meta_page.bytes()));
        if meta.root != block || meta.level != level {
            error::corrupted(&self.name(), 0, format!("expected root {block}, found {}", meta.root));
        }
        let mut root = self.allocate();
        let root_block = root.block();
        let mut change = Change::begin(self.index);
        let [meta_copy, root_copy, page_copy] = change.pages([
            (&mut meta_page, Content::Edited),
            (&mut root, Content::Replaced),
            (page, Content::Edited),
        ]);
        let mut root_copy = ViewMut::init(root_copy, level + 1, flag::ROOT, None);
        let made = BranchMut::init(root_copy.payload(), self.schema.keys, block)
            .and_then(|mut branch| branch.insert(0, bound, right));
        if !self.checked_node(root_block, made) {
            error::corrupted(
                &self.name(),
                block,
                "expected a bound that fits a new root, found a longer one",
            );
        }
        self.checked(root_block, root_copy.finish());
        self.checked(block, ViewMut::open(page_copy)).set_flags(0, flag::ROOT | flag::INCOMPLETE);
        let meta = Meta { root: root_block, level: level + 1, ..meta };
        meta.write(&mut self.checked(0, ViewMut::open(meta_copy)));
        change.commit();
    }

    /// Records facts about the index's entries in the meta page, before the first entry that makes them true.
    pub(super) fn record_facts(&self, facts: u32) {
        if self.meta().facts & facts == facts {
            return;
        }
        let mut page: Page<Exclusive> = Page::read(self.index, 0);
        let meta = self.checked(0, Meta::read(page.bytes()));
        let mut change = Change::begin(self.index);
        let [copy] = change.pages([(&mut page, Content::Edited)]);
        Meta { facts: meta.facts | facts, ..meta }.write(&mut self.checked(0, ViewMut::open(copy)));
        change.commit();
    }

    /// A page to be written over: one that was deleted long enough ago, or a new one at the end of the relation.
    pub(super) fn allocate(&self) -> Page<Exclusive> {
        loop {
            let Some(block) = free_space::take(self.index) else {
                return Page::extend_shared(self.index);
            };
            // The free space map is only a hint: it may name a page that is in use. A latched page
            // is in use; waiting for it could be a deadlock with ourselves.
            if let Some(page) = Page::try_read(self.index, block)
                && reusable(page.bytes())
            {
                return page;
            }
        }
    }
}

/// Right neighbour and bound of a page that is split: the right half takes them over.
fn next_of<'a>(view: &View<'a>) -> Option<(u32, &'a [u8])> {
    view.next().zip(view.bound())
}

/// True if no backend can be on its way to this page any more: it was never used, or was deleted before every running
/// transaction began.
pub(super) fn reusable(page: &[u8]) -> bool {
    // A page that the server has added but that was never written has no upper limit of its free space.
    if page.get(14..16) == Some(&[0, 0]) {
        return true;
    }
    let Ok(view) = View::open(page) else { return false };
    view.has(flag::DELETED) && snapshot::is_before_every_snapshot(view.deleted_at())
}
