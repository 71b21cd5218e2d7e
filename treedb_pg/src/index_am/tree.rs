//! Walking down and along a tree of latched pages (a B-link tree).
//!
//! Every page but the rightmost of a level has a bound and a right neighbour. A reader holds one latch at a time: when
//! it comes to a page that was split after it read the parent, what it looks for is beyond the bound, and it moves
//! right. Pages that were deleted keep pointing to the neighbour that took their keys over; they are not reused
//! before every transaction that could be on its way to them has ended.
//!
//! On a standby, redo of generic WAL records waits for nobody, so that last promise does not hold there. Readers
//! keep the parent latched until they have the child instead, and never follow what they read earlier. (On a primary
//! that would deadlock with splits, which latch from the bottom up.)

use pgrx::{check_for_interrupts, pg_sys};
use treedb_formats::node::NodeDamage;

use super::edge::{Edge, Side};
use super::meta::Meta;
use super::page::{Damage, View, flag};
use super::schema::Schema;
use crate::shim::buffer::{self, Lock, Page};
use crate::shim::error;

/// No walk along a level takes more steps than that before it is taken for one in a ring.
pub(super) const MOST_MOVES: u32 = 1_000_000;

/// An open index and its columns.
#[derive(Clone, Copy)]
pub(super) struct Tree<'s> {
    pub(super) index: pg_sys::Relation,
    pub(super) schema: &'s Schema,
}

/// Where a walk down ended.
pub(super) struct Reached {
    /// The page, latched.
    pub(super) page: Page,
    /// Where its keys begin: the bound of its left neighbour. `None` on the leftmost page.
    pub(super) floor: Option<Vec<u8>>,
}

impl<'s> Tree<'s> {
    pub(super) fn new(index: pg_sys::Relation, schema: &'s Schema) -> Self {
        Tree { index, schema }
    }

    /// The index's name.
    pub(super) fn name(&self) -> String {
        // SAFETY: an open index.
        unsafe { pgrx::name_data_to_str(&(*(*self.index).rd_rel).relname).to_owned() }
    }

    /// What was read of a page, or an SQL error that the page is damaged.
    pub(super) fn sound<T>(&self, block: u32, read: Result<T, Damage>) -> T {
        match read {
            Ok(read) => read,
            Err(damage) => error::corrupted(&self.name(), block, damage),
        }
    }

    /// The same for a node.
    pub(super) fn sound_node<T>(&self, block: u32, read: Result<T, NodeDamage>) -> T {
        self.sound(block, read.map_err(Damage::from))
    }

    /// Reads and latches a page.
    pub(super) fn read(&self, block: u32, lock: Lock) -> Page {
        self.expect_block(block);
        Page::read(self.index, block, lock)
    }

    /// Raises an error if no page of the tree can be at this block.
    pub(super) fn expect_block(&self, block: u32) {
        if block == 0 || !buffer::has_block(self.index, block) {
            error::corrupted(
                &self.name(),
                block,
                "a page points to this block, which is no part of the tree",
            );
        }
    }

    /// A latched page for reading.
    pub(super) fn view<'p>(&self, page: &'p Page) -> View<'p> {
        self.sound(page.block(), View::open(page.bytes()))
    }

    /// The meta page.
    pub(super) fn meta(&self) -> Meta {
        let page = Page::read(self.index, 0, Lock::Share);
        self.sound(0, Meta::read(page.bytes()))
    }

    /// Goes down to level `level` (0 for a leaf), to the page where `edge` is. The page there is latched with `lock`;
    /// `stack`, if any, gets the blocks of the pages above, topmost first. `want_floor` asks for where the page's keys
    /// begin.
    pub(super) fn descend(
        &self,
        edge: &Edge,
        side: Side,
        level: u16,
        lock: Lock,
        mut stack: Option<&mut Vec<u32>>,
        want_floor: bool,
    ) -> Reached {
        // SAFETY: plain questions to the server.
        let standby = unsafe { pg_sys::RecoveryInProgress() };
        let meta_page = Page::read(self.index, 0, Lock::Share);
        let meta = self.sound(0, Meta::read(meta_page.bytes()));
        if meta.level < level {
            error::corrupted(
                &self.name(),
                0,
                format!("expected a root of level {level} or more, found {}", meta.level),
            );
        }
        let mode = |at: u16| if at == level { lock } else { Lock::Share };
        let mut at = meta.level;
        let mut page = if standby {
            let page = self.read(meta.root, mode(at));
            drop(meta_page);
            page
        } else {
            drop(meta_page);
            self.read(meta.root, mode(at))
        };
        let mut floor: Option<Vec<u8>> = None;
        loop {
            page = self.move_right(page, edge, side, mode(at), standby, want_floor.then_some(&mut floor));
            let block = page.block();
            let view = self.view(&page);
            if view.level() != at {
                error::corrupted(
                    &self.name(),
                    block,
                    format!("expected a page of level {at}, found {}", view.level()),
                );
            }
            if at == level {
                return Reached { page, floor };
            }
            let branch = self.sound(block, view.branch(self.schema.keys));
            let place = self.sound_node(block, self.schema.child(&branch, edge, side));
            let child = self.sound_node(block, branch.child(place));
            if want_floor && place > 0 {
                let separator = floor.get_or_insert_default();
                self.sound_node(block, branch.separator_into(place - 1, separator));
            }
            if let Some(stack) = stack.as_deref_mut() {
                stack.push(block);
            }
            at -= 1;
            if standby {
                let next = self.read(child, mode(at));
                page = next;
            } else {
                drop(page);
                page = self.read(child, mode(at));
            }
        }
    }

    /// Goes right from a page as long as what is wanted lies beyond its bound, or the page is deleted. `floor` gets
    /// the bound of the last page that was left behind.
    pub(super) fn move_right(
        &self,
        mut page: Page,
        edge: &Edge,
        side: Side,
        lock: Lock,
        standby: bool,
        mut floor: Option<&mut Option<Vec<u8>>>,
    ) -> Page {
        let mut moves = 0_u32;
        loop {
            let block = page.block();
            let view = self.view(&page);
            let deleted = view.has(flag::DELETED);
            if !deleted && !self.schema.beyond(view.bound(), edge, side) {
                return page;
            }
            let Some(next) = view.next() else {
                error::corrupted(
                    &self.name(),
                    block,
                    "expected a right neighbour of a deleted page, found none",
                );
            };
            if let (Some(floor), Some(bound), false) = (floor.as_deref_mut(), view.bound(), deleted) {
                *floor = Some(bound.to_vec());
            }
            if standby {
                page = self.read(next, lock);
            } else {
                drop(page);
                page = self.read(next, lock);
                check_for_interrupts!();
            }
            moves += 1;
            if moves > MOST_MOVES {
                error::corrupted(
                    &self.name(),
                    block,
                    "expected right neighbours to come to an end, found a ring",
                );
            }
        }
    }
}
