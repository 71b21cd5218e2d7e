//! Descending and moving right in a tree of latched pages (a B-link tree).
//!
//! Every page but the rightmost of a level has a bound and a right neighbour. A reader holds one latch at a time: when
//! it reaches a page that was split after it read the parent, its key is beyond the page's bound, and it moves
//! right. Deleted pages keep pointing to the neighbour that took their keys over; they are not reused before every
//! transaction that could be on its way to them has ended.
//!
//! Whatever damaged pages say, every search ends: a descent goes down by one level with each page; the lower bound that it
//! finds lies before what it looks for, so that a scan backward gets nearer to the left end with each page; a [`Walk`] along
//! a level counts the pages; and none is asked for that this backend has latched exclusively ([`Held`]).
//!
//! On a standby, redo of generic WAL records does not wait for readers, so that guarantee does not hold there. Readers
//! keep the parent latched until they have the child instead, and never follow what they read earlier. (On a primary
//! that would deadlock with splits, which latch from the bottom up.)

use pgrx::check_for_interrupts;
use treedb_formats::node::NodeDamage;

use super::boundary::{Boundary, Side};
use super::leaf::LeafView;
use super::meta::Meta;
use super::schema::Schema;
use crate::pages::page::{Damage, View, flag};
use crate::shim::buffer::{self, Exclusive, LockMode, Page, Shared};
use crate::shim::relation::Index;
use crate::shim::{error, index_options, snapshot};

/// An open index and its columns.
#[derive(Clone, Copy)]
pub(super) struct Tree<'s> {
    pub(super) index: Index<'s>,
    pub(super) schema: &'s Schema,
    /// Pages that are latched exclusively while others are searched for.
    held: Option<&'s Held<'s>>,
}

/// A page that this backend has latched exclusively while it searches for others. If a damaged page led to it once more, the
/// backend would wait for itself, which nothing can cancel.
#[derive(Clone, Copy)]
pub(super) struct Held<'h> {
    block: u32,
    /// Those that were latched before.
    more: Option<&'h Held<'h>>,
}

/// How many pages of a level a walk has come to.
#[derive(Clone, Copy, Default)]
pub(super) struct Walk(u32);

/// A walk that has come to so many pages looks for the first time whether the index has as many.
const LONG_WALK: u32 = 64;

impl Walk {
    /// A walk that has come to so many pages.
    pub(super) fn of(pages: u32) -> Walk {
        Walk(pages)
    }

    /// How many pages it has come to.
    pub(super) fn pages(self) -> u32 {
        self.0
    }

    /// Comes to another page; an SQL error if the index does not have so many. Pages may be added meanwhile, but no page is
    /// visited twice. A walk asks for the size of the index only when its length is a power of two: that is a system call.
    #[inline]
    pub(super) fn step(&mut self, tree: &Tree<'_>, block: u32) {
        self.0 = self.0.saturating_add(1);
        if self.0 >= LONG_WALK && self.0.is_power_of_two() && self.0 > tree.index.blocks() {
            error::corrupted(
                &tree.name(),
                block,
                "expected the pages of a level to come to an end, found a ring",
            );
        }
    }
}

/// Most levels of a tree: a branch has at least two children, and there are fewer than 2^32 pages.
const MAX_LEVELS: usize = 32;

/// The blocks of the branches that a descent went through.
#[derive(Default)]
pub(super) struct Stack {
    blocks: [u32; MAX_LEVELS],
    len: usize,
}

impl Stack {
    pub(super) fn push(&mut self, block: u32) {
        if let Some(place) = self.blocks.get_mut(self.len) {
            *place = block;
            self.len += 1;
        }
    }

    pub(super) fn pop(&mut self) -> Option<u32> {
        self.len = self.len.checked_sub(1)?;
        self.blocks.get(self.len).copied()
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }
}

/// Where a descent ended.
pub(super) struct Reached<L: LockMode> {
    /// The page, latched.
    pub(super) page: Page<L>,
    /// Where its keys begin: the bound of its left neighbour. `None` on the leftmost page.
    pub(super) lower_bound: Option<Vec<u8>>,
}

impl<'s> Tree<'s> {
    pub(super) fn new(index: Index<'s>, schema: &'s Schema) -> Self {
        Tree { index, schema, held: None }
    }

    /// A page that the caller has latched, for [`Tree::holding`].
    pub(super) fn held(&self, page: &Page<Exclusive>) -> Held<'s> {
        Held { block: page.block(), more: self.held }
    }

    /// The same tree, for looking for other pages than those held.
    pub(super) fn holding<'h>(&self, held: &'h Held<'h>) -> Tree<'h>
    where
        's: 'h,
    {
        Tree { held: Some(held), ..*self }
    }

    /// The index's name.
    pub(super) fn name(&self) -> String {
        self.index.shown()
    }

    /// How many of `bytes` bytes of a leaf are filled where leaves are written from left to right.
    pub(super) fn filled(&self, bytes: usize) -> usize {
        bytes * index_options::fill_factor(self.index) / 100
    }

    /// The value read from a page, or an SQL error that the page is damaged.
    pub(super) fn checked<T>(&self, block: u32, read: Result<T, Damage>) -> T {
        match read {
            Ok(read) => read,
            Err(damage) if damage.other_version => error::other_version(&self.name(), damage),
            Err(damage) => error::corrupted(&self.name(), block, damage),
        }
    }

    /// The same for a node.
    pub(super) fn checked_node<T>(&self, block: u32, read: Result<T, NodeDamage>) -> T {
        self.checked(block, read.map_err(Damage::from))
    }

    /// Reads and latches a page.
    pub(super) fn read<L: LockMode>(&self, block: u32) -> Page<L> {
        self.expect_block(block);
        Page::read(self.index, block)
    }

    /// Raises an error if no page of the tree can be at this block, or one that is held.
    pub(super) fn expect_block(&self, block: u32) {
        let mut held = self.held;
        while let Some(page) = held {
            if page.block == block {
                error::corrupted(
                    &self.name(),
                    block,
                    "expected one page to lead to this block, found another one",
                );
            }
            held = page.more;
        }
        if block == 0 || !buffer::has_block(*self.index, block) {
            error::corrupted(
                &self.name(),
                block,
                "a page points to this block, which is no part of the tree",
            );
        }
    }

    /// A latched leaf for reading.
    pub(super) fn leaf<'p, L: LockMode>(&self, page: &'p Page<L>) -> LeafView<'p> {
        self.checked(page.block(), LeafView::open(&self.view(page), self.schema.keys))
    }

    /// A latched page for reading.
    pub(super) fn view<'p, L: LockMode>(&self, page: &'p Page<L>) -> View<'p> {
        self.checked(page.block(), View::open(page.bytes()))
    }

    /// The meta page.
    pub(super) fn meta(&self) -> Meta {
        let page: Page<Shared> = Page::read_top(self.index, 0);
        self.checked(0, Meta::read(page.bytes()))
    }

    /// Descends to level `level` (0 for a leaf), to the page where `boundary` is, which is latched as `L` says. `stack`,
    /// if any, gets the blocks of the pages above, topmost first. `want_lower_bound` asks for where the page's keys
    /// begin.
    pub(super) fn descend<L: LockMode>(
        &self,
        boundary: &Boundary,
        side: Side,
        level: u16,
        mut stack: Option<&mut Stack>,
        want_lower_bound: bool,
    ) -> Reached<L> {
        let standby = snapshot::in_recovery();
        let mut lower_bound: Option<Vec<u8>> = None;
        // `first` is the page to begin with, if it is latched already, or else `above` is the page above it.
        let (mut block, mut at, mut first, mut above) = match self.cached_root(level, standby) {
            Some((page, root_level)) => (page.block(), root_level, Some(page), None),
            None => {
                let (meta, page) = self.meta_for(level, standby);
                (meta.root, meta.level, None, Some(page))
            }
        };
        while at > level {
            let page = first.take().unwrap_or_else(|| self.step_down(above.take(), block, standby));
            let page: Page<Shared> =
                self.move_right(page, boundary, side, standby, want_lower_bound.then_some(&mut lower_bound));
            block = page.block();
            let view = self.view(&page);
            self.expect_level(block, &view, at);
            let branch = self.checked(block, view.branch(self.schema.keys));
            let place = self.checked_node(block, self.schema.child(&branch, boundary, side));
            let child = self.checked_node(block, branch.child(place));
            if want_lower_bound && place > 0 {
                let separator = lower_bound.get_or_insert_default();
                self.checked_node(block, branch.separator_into(place - 1, separator));
                // Otherwise a scan that goes on before it would come back here.
                if !self.schema.beyond(Some(separator), boundary, side) {
                    error::corrupted(
                        &self.name(),
                        block,
                        format!(
                            "expected separator {} to be below what is searched for, found a higher one",
                            place - 1
                        ),
                    );
                }
            }
            if let Some(stack) = stack.as_deref_mut() {
                stack.push(block);
            }
            (at, block, above) = (at - 1, child, Some(page));
        }
        let page = self.step_down(above, block, standby);
        let page =
            self.move_right(page, boundary, side, standby, want_lower_bound.then_some(&mut lower_bound));
        self.expect_level(page.block(), &self.view(&page), level);
        Reached { page, lower_bound }
    }

    /// The root and its level, if this backend knows where it is and it is above `level`. A root that was split since
    /// is not the root any more, which its flags tell.
    fn cached_root(&self, level: u16, standby: bool) -> Option<(Page<Shared>, u16)> {
        if standby {
            return None;
        }
        let (block, cached) = self.index.cached_root().filter(|(_, cached)| *cached > level)?;
        self.expect_block(block);
        let page: Page<Shared> = Page::read_top(self.index, block);
        let is_root = View::open(page.bytes())
            .is_ok_and(|view| view.has(flag::ROOT) && !view.has(flag::DELETED) && view.level() == cached);
        is_root.then_some((page, cached))
    }

    /// The meta page, latched; the root is at least of `level`.
    fn meta_for(&self, level: u16, standby: bool) -> (Meta, Page<Shared>) {
        let page: Page<Shared> = Page::read(self.index, 0);
        let meta = self.checked(0, Meta::read(page.bytes()));
        if meta.level < level {
            error::corrupted(
                &self.name(),
                0,
                format!("expected a root of level {level} or more, found {}", meta.level),
            );
        }
        if !standby {
            self.index.cache_root(meta.root, meta.level);
        }
        (meta, page)
    }

    /// Reads and latches a child. The latch of `above` is released before, on a standby after it.
    fn step_down<L: LockMode>(&self, above: Option<Page<Shared>>, block: u32, standby: bool) -> Page<L> {
        match above {
            Some(above) if !standby => {
                self.expect_block(block);
                above.exchange(self.index, block)
            }
            above => {
                let page = self.read(block);
                drop(above);
                page
            }
        }
    }

    /// Raises an error if a page is of another level.
    pub(super) fn expect_level(&self, block: u32, view: &View<'_>, level: u16) {
        if view.level() != level {
            error::corrupted(
                &self.name(),
                block,
                format!("expected a page of level {level}, found {}", view.level()),
            );
        }
    }

    /// Moves right as long as the boundary lies beyond the page's bound, or the page is deleted. `lower_bound` gets
    /// the bound of the last page that was left.
    pub(super) fn move_right<L: LockMode>(
        &self,
        mut page: Page<L>,
        boundary: &Boundary,
        side: Side,
        standby: bool,
        mut lower_bound: Option<&mut Option<Vec<u8>>>,
    ) -> Page<L> {
        let mut walk = Walk::default();
        loop {
            let block = page.block();
            let view = self.view(&page);
            let deleted = view.has(flag::DELETED);
            if !deleted && !self.schema.beyond(view.bound(), boundary, side) {
                return page;
            }
            let Some(next) = view.next() else {
                error::corrupted(
                    &self.name(),
                    block,
                    "expected a right neighbour of a deleted page, found none",
                );
            };
            if let (Some(lower_bound), Some(bound), false) =
                (lower_bound.as_deref_mut(), view.bound(), deleted)
            {
                *lower_bound = Some(bound.to_vec());
            }
            if standby {
                page = self.read(next);
            } else {
                self.expect_block(next);
                page = page.exchange(self.index, next);
                check_for_interrupts!();
            }
            walk.step(self, block);
        }
    }
}
