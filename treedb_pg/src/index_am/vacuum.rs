//! Removing entries of rows that are gone, and pages that have become empty.
//!
//! Entries are removed leaf by leaf along the right neighbours: what a split moves meanwhile moves to the right, so
//! none is missed. Each leaf is latched when nobody has it pinned: after that no scan can hand out what is removed.
//!
//! A leaf that has become empty is taken out of the tree in one WAL record: its parent forgets it, its left neighbour
//! points past it, and its right neighbour has its keys from then on. It is reused when every transaction that could
//! be on its way to it has ended. The rightmost child of a parent stays, empty or not.

use std::ffi::c_void;

use pgrx::{PgBox, pg_guard, pg_sys};
use treedb_formats::node::{BranchMut, LeafMut};

use super::edge::{Edge, Side};
use super::insert::reusable;
use super::meta::Meta;
use super::page::{View, ViewMut, flag};
use super::schema::{Schema, row_of};
use super::tree::Tree;
use crate::shim::buffer::{self, Lock, Page};
use crate::shim::error;
use crate::shim::wal::Change;

impl Tree<'_> {
    /// Takes an empty leaf out of the tree; `left` is its left neighbour. False if it must stay.
    fn delete_leaf(&self, left: Option<u32>, block: u32) -> bool {
        let left = left.map(|left| self.read(left, Lock::Exclusive));
        if let Some(left) = &left {
            let view = self.view(left);
            if view.next() != Some(block) || view.has(flag::DELETED | flag::INCOMPLETE) {
                return false;
            }
        }
        let page = self.read(block, Lock::Exclusive);
        let (right, bound) = {
            let view = self.view(&page);
            let leaf = self.sound(block, view.leaf(self.schema.keys));
            let (Some(right), Some(bound)) = (view.next(), view.bound()) else { return false };
            if leaf.count() > 0 || view.has(flag::DELETED | flag::INCOMPLETE | flag::ROOT) {
                return false;
            }
            (right, bound.to_vec())
        };
        let edge = self.schema.before_key(&bound);
        let parent = self.descend(&edge, Side::Before, 1, Lock::Exclusive, None, false).page;
        let parent_block = parent.block();
        let place = {
            let branch = self.sound(parent_block, self.view(&parent).branch(self.schema.keys));
            let place = self.sound_node(parent_block, self.schema.child(&branch, &edge, Side::Before));
            if self.sound_node(parent_block, branch.child(place)) != block
                || place >= branch.count()
                || self.sound_node(parent_block, branch.child(place + 1)) != right
            {
                return false;
            }
            place
        };
        let mut change = Change::begin(self.index);
        let (parent_copy, left_copy, copy) = match &left {
            Some(left) => {
                let [parent, left, page] = change.pages([(&parent, false), (left, false), (&page, false)]);
                (parent, Some(left), page)
            }
            None => {
                let [parent, page] = change.pages([(&parent, false), (&page, false)]);
                (parent, None, page)
            }
        };
        // The right neighbour takes the place over, and with it the keys.
        let mut parent_copy = self.sound(parent_block, ViewMut::open(parent_copy));
        let moved = BranchMut::open(parent_copy.payload()).and_then(|mut branch| {
            branch.remove_child(place + 1)?;
            branch.set_child(place, right)
        });
        self.sound_node(parent_block, moved);
        self.sound(parent_block, parent_copy.finish());
        if let Some(left_copy) = left_copy {
            self.sound(block, ViewMut::open(left_copy)).set_next(right);
        }
        // SAFETY: a plain question to the server.
        let now = unsafe { pg_sys::ReadNextFullTransactionId() };
        self.sound(block, ViewMut::open(copy)).delete(now.value);
        change.commit();
        true
    }

    /// Changes the count of deleted pages.
    fn record_deleted(&self, count: impl FnOnce(u32) -> u32) {
        let page = Page::read(self.index, 0, Lock::Exclusive);
        let meta = self.sound(0, Meta::read(page.bytes()));
        let deleted = count(meta.deleted);
        if deleted == meta.deleted {
            return;
        }
        let mut change = Change::begin(self.index);
        let [copy] = change.pages([(&page, false)]);
        Meta { deleted, ..meta }.write(&mut self.sound(0, ViewMut::open(copy)));
        change.commit();
    }
}

/// `ambulkdelete`: removes the entries of the rows that the callback names.
#[pg_guard]
pub(super) unsafe extern "C-unwind" fn bulk_delete(
    info: *mut pg_sys::IndexVacuumInfo,
    stats: *mut pg_sys::IndexBulkDeleteResult,
    callback: pg_sys::IndexBulkDeleteCallback,
    callback_state: *mut c_void,
) -> *mut pg_sys::IndexBulkDeleteResult {
    // SAFETY: called by the server with an open index; the result lives in the current context.
    unsafe {
        let stats =
            if stats.is_null() { PgBox::<pg_sys::IndexBulkDeleteResult>::alloc0().into_pg() } else { stats };
        let Some(callback) = callback else { return stats };
        let index = (*info).index;
        let schema = Schema::of(index);
        let tree = Tree::new(index, &schema);
        (*stats).estimated_count = false;
        (*stats).num_index_tuples = 0.0;
        let (mut deleted, mut visited, mut blocks) = (0, 0, 0);
        let mut left = None;
        let mut next =
            Some(tree.descend(&Edge::Start, Side::Behind, 0, Lock::Share, None, false).page.block());
        while let Some(block) = next {
            pg_sys::vacuum_delay_point();
            tree.expect_block(block);
            visited += 1;
            if visited > blocks {
                // Pages are added meanwhile, but no page is come to twice.
                blocks = pg_sys::RelationGetNumberOfBlocksInFork(index, pg_sys::ForkNumber::MAIN_FORKNUM);
                if visited > blocks {
                    error::corrupted(
                        &tree.name(),
                        block,
                        "expected right neighbours to come to an end, found a ring",
                    );
                }
            }
            let page = Page::read_for_cleanup(index, block, (*info).strategy);
            let view = tree.view(&page);
            next = view.next();
            if view.has(flag::DELETED) {
                continue;
            }
            let leaf = tree.sound(block, view.leaf(schema.keys));
            let (count, mut gone) = (leaf.count(), Vec::new());
            let mut key = Vec::new();
            for i in 0..count {
                tree.sound_node(block, leaf.key_into(i, &mut key));
                let Some(mut row) = row_of(&key) else {
                    error::corrupted(
                        &tree.name(),
                        block,
                        "expected an entry with a row's address, found a shorter one",
                    );
                };
                if pg_sys::ffi::pg_guard_ffi_boundary(|| callback(&raw mut row, callback_state)) {
                    gone.push(i);
                }
            }
            if !gone.is_empty() {
                let mut change = Change::begin(index);
                let [copy] = change.pages([(&page, false)]);
                let mut copy = tree.sound(block, ViewMut::open(copy));
                let removed = LeafMut::open(copy.payload()).and_then(|mut leaf| {
                    gone.iter().rev().try_for_each(|i| leaf.remove(*i))?;
                    leaf.compact()
                });
                tree.sound_node(block, removed);
                tree.sound(block, copy.finish());
                change.commit();
            }
            (*stats).tuples_removed += gone.len() as f64;
            (*stats).num_index_tuples += (count - gone.len()) as f64;
            let empty = count == gone.len() && next.is_some();
            drop(page);
            if empty && tree.delete_leaf(left, block) {
                deleted += 1;
            } else {
                left = Some(block);
            }
        }
        if deleted > 0 {
            (*stats).pages_newly_deleted += deleted;
            tree.record_deleted(|before| before + deleted);
        }
        stats
    }
}

/// `amvacuumcleanup`: counts, and makes pages that were deleted long enough ago known to be free.
#[pg_guard]
pub(super) unsafe extern "C-unwind" fn vacuum_cleanup(
    info: *mut pg_sys::IndexVacuumInfo,
    stats: *mut pg_sys::IndexBulkDeleteResult,
) -> *mut pg_sys::IndexBulkDeleteResult {
    // SAFETY: called by the server with an open index.
    unsafe {
        if (*info).analyze_only {
            return stats;
        }
        let index = (*info).index;
        let stats = if stats.is_null() {
            let mut stats = PgBox::<pg_sys::IndexBulkDeleteResult>::alloc0();
            stats.estimated_count = true;
            stats.num_index_tuples = (*info).num_heap_tuples;
            stats.into_pg()
        } else {
            stats
        };
        let schema = Schema::of(index);
        let tree = Tree::new(index, &schema);
        // Below this number no page is one that somebody has just added, but not latched yet: it would be taken for
        // one to be reused, while its owner is about to write to it.
        let blocks = buffer::settled_blocks(index);
        (*stats).num_pages = blocks;
        if tree.meta().deleted > 0 {
            let (mut free, mut waiting) = (0, 0);
            for block in 1..blocks {
                pg_sys::vacuum_delay_point();
                let page = Page::read_with(index, block, Lock::Share, (*info).strategy);
                if reusable(page.bytes()) {
                    free += 1;
                    drop(page);
                    pg_sys::RecordFreeIndexPage(index, block);
                } else if View::open(page.bytes()).is_ok_and(|view| view.has(flag::DELETED)) {
                    waiting += 1;
                }
            }
            tree.record_deleted(|_| free + waiting);
            pg_sys::IndexFreeSpaceMapVacuum(index);
            (*stats).pages_deleted = free + waiting;
            (*stats).pages_free = free;
        }
        stats
    }
}
