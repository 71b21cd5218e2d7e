//! Removing entries of rows that are gone, and pages that have become empty.
//!
//! Entries are removed leaf by leaf along the right neighbours: what a split moves meanwhile moves to the right, so
//! none is missed. Each leaf is latched when no other backend has it pinned: after that no scan can return what is
//! removed.
//!
//! A leaf that has become empty is unlinked in one WAL record: its parent's downlink is removed, its left neighbour
//! points past it, and its right neighbour takes over its key range. It is reused when every transaction that could
//! be on its way to it has ended. The rightmost child of a parent stays, empty or not.

use treedb_formats::node::BranchMut;

use super::boundary::{Boundary, Side};
use super::leaf::LeafView;
use super::leaf_entries::facts_of_leaf;
use super::leaf_removal;
use super::meta::Meta;
use super::schema::Schema;
use super::tree::{Tree, Walk};
use crate::pages::allocate::reusable;
use crate::pages::page::{HEADER, NEXT, View, ViewMut, flag};
use crate::shim::buffer::{Exclusive, Page, Shared, free_space, settled_blocks};
use crate::shim::index_method::FindGone;
use crate::shim::vacuum::{Vacuum, delay};
use crate::shim::wal::{PageImage, Part, Write, write};
use crate::shim::{fault, snapshot};

impl Tree<'_> {
    /// Takes an empty leaf out of the tree; `left` is its left neighbour. False if it must stay.
    fn delete_leaf(&self, left: Option<u32>, block: u32) -> bool {
        let mut left: Option<Page<Exclusive>> = left.map(|left| self.read(left));
        let held_left = left.as_ref().map(|left| self.held(left));
        let tree = held_left.as_ref().map_or(*self, |held| self.holding(held));
        if let Some(left) = &left {
            let view = self.view(left);
            if view.next() != Some(block) || view.has(flag::DELETED | flag::INCOMPLETE) {
                return false;
            }
        }
        let mut page: Page<Exclusive> = tree.read(block);
        let (right, bound) = {
            let view = self.view(&page);
            let leaf = self.leaf(&page);
            let (Some(right), Some(bound)) = (view.next(), view.bound()) else { return false };
            if !leaf.is_empty() || view.has(flag::DELETED | flag::INCOMPLETE | flag::ROOT) {
                return false;
            }
            (right, bound.to_vec())
        };
        let boundary = self.schema.before_key(&bound);
        let held = tree.held(&page);
        let mut parent: Page<Exclusive> =
            tree.holding(&held).descend(&boundary, Side::Before, 1, None, false).page;
        let parent_block = parent.block();
        let place = {
            let branch = self.checked(parent_block, self.view(&parent).branch(self.schema.keys));
            let place = self.checked_node(parent_block, self.schema.child(&branch, &boundary, Side::Before));
            if self.checked_node(parent_block, branch.child(place)) != block
                || place >= branch.count()
                || self.checked_node(parent_block, branch.child(place + 1)) != right
            {
                return false;
            }
            place
        };
        // The right neighbour takes the place over, and with it the keys.
        let mut image = PageImage::of(parent.bytes());
        let mut new_parent = self.checked(parent_block, ViewMut::open(&mut image));
        let moved = BranchMut::open(new_parent.payload()).and_then(|mut branch| {
            branch.remove_child(place + 1)?;
            branch.set_child(place, right)
        });
        self.checked_node(parent_block, moved);
        self.checked(parent_block, new_parent.finish_branch());
        let (at, deletion) = self.view(&page).deletion(snapshot::next_transaction());
        let (parent, page) =
            ((&mut parent, Write::Content(&image)), (&mut page, Write::Parts(&[(at, &deletion)])));
        match &mut left {
            Some(left) => {
                let next: [Part<'_>; 1] = [(NEXT, &right.to_le_bytes())];
                write(self.index, &mut [parent, (left, Write::Parts(&next)), page]);
            }
            None => write(self.index, &mut [parent, page]),
        }
        fault::point("leaf_deleted");
        true
    }

    /// How many branches there are.
    fn branches(&self) -> u32 {
        let mut count = 0;
        for level in 1..=self.meta().level {
            let mut page: Page<Shared> = self.descend(&Boundary::Start, Side::After, level, None, false).page;
            let mut walk = Walk::default();
            loop {
                walk.step(self, page.block());
                let Some(next) = self.view(&page).next() else { break };
                drop(page);
                delay();
                page = self.read(next);
            }
            count += walk.pages();
        }
        count
    }

    /// Changes the count of deleted pages.
    fn record_deleted(&self, count: impl FnOnce(u32) -> u32) {
        let mut page: Page<Exclusive> = Page::read(self.index, 0);
        let meta = self.checked(0, Meta::read(page.bytes()));
        let deleted = count(meta.deleted);
        if deleted == meta.deleted {
            return;
        }
        let meta = Meta { deleted, ..meta }.bytes();
        write(self.index, &mut [(&mut page, Write::Parts(&[(HEADER, &meta)]))]);
    }
}

/// Removes the entries of rows that are gone.
pub(super) fn bulk_delete(vacuum: &mut Vacuum<'_>, find_gone: &mut FindGone<'_>) {
    let index = vacuum.index();
    let schema = Schema::of(index);
    let tree = Tree::new(index, &schema);
    vacuum.stats.estimated_count = false;
    vacuum.stats.num_index_tuples = 0.0;
    let (mut deleted, mut walk) = (0, Walk::default());
    let mut left = None;
    let (mut key, mut rows, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    let first: Page<Shared> = tree.descend(&Boundary::Start, Side::After, 0, None, false).page;
    let mut next = Some(first.block());
    drop(first);
    while let Some(block) = next {
        delay();
        tree.expect_block(block);
        walk.step(&tree, block);
        let mut page = Page::read_for_cleanup(index, block, vacuum.strategy());
        let view = tree.view(&page);
        next = view.next();
        if view.has(flag::DELETED) {
            continue;
        }
        let leaf = tree.checked(block, LeafView::open(&view, schema.keys));
        rows.clear();
        tree.checked(block, leaf_removal::rows(&leaf, &mut key, &mut rows));
        find_gone(&rows, &mut gone);
        let (count, removed) = (rows.len(), gone.iter().filter(|gone| **gone).count());
        if removed > 0 {
            let mut image = PageImage::of(page.bytes());
            let mut new = tree.checked(block, ViewMut::open(&mut image));
            tree.checked(block, leaf_removal::remove(&leaf, &schema, &gone, &mut new));
            tree.record_facts(facts_of_leaf(&mut new));
            write(index, &mut [(&mut page, Write::Content(&image))]);
            fault::point("leaf_vacuum");
        }
        vacuum.stats.tuples_removed += removed as f64;
        vacuum.stats.num_index_tuples += (count - removed) as f64;
        let empty = count == removed && next.is_some();
        drop(page);
        if empty && tree.delete_leaf(left, block) {
            deleted += 1;
        } else {
            left = Some(block);
        }
    }
    // For `vacuum_cleanup`, which counts all pages.
    vacuum.stats.num_pages = walk.pages();
    if deleted > 0 {
        vacuum.stats.pages_newly_deleted += deleted;
        tree.record_deleted(|before| before + deleted);
    }
}

/// Counts pages, and makes those that were deleted long enough ago known to be free, and those that a crash left empty
/// between their addition and their first use. All pages are read only if there are such: some are marked as deleted,
/// or there are more than those of the tree that was just read.
pub(super) fn vacuum_cleanup(vacuum: &mut Vacuum<'_>) {
    let index = vacuum.index();
    let schema = Schema::of(index);
    let tree = Tree::new(index, &schema);
    // No page below this number has been added by another backend that has not latched it yet: such a page would
    // look free, while its owner is about to write to it.
    let blocks = settled_blocks(index);
    let leaves = std::mem::replace(&mut vacuum.stats.num_pages, blocks);
    if tree.meta().deleted == 0 {
        const META: u32 = 1;
        let all_known = leaves == 0 || META.saturating_add(leaves).saturating_add(tree.branches()) >= blocks;
        if all_known {
            return;
        }
    }
    let (mut free, mut waiting) = (0, 0);
    for block in 1..blocks {
        delay();
        let page: Page<Shared> = Page::read_with(index, block, vacuum.strategy());
        if reusable(page.bytes()) {
            free += 1;
            drop(page);
            free_space::record(index, block);
        } else if View::open(page.bytes()).is_ok_and(|view| view.has(flag::DELETED)) {
            waiting += 1;
        }
    }
    tree.record_deleted(|_| free + waiting);
    free_space::publish(index);
    vacuum.stats.pages_deleted = free + waiting;
    vacuum.stats.pages_free = free;
}
