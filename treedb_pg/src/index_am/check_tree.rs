//! The tree by itself, for `treedb.check`: pages, and their relations to each other.
//!
//! Every page is read once, level by level from the root down, and latched only while it is read; inserts and vacuums go
//! on meanwhile. A page must be right by itself: level, flags, rising keys below its bound. What it must be to others
//! is compared with what is known of them, which may be older. Two things can happen between: a split makes a page's
//! bound lower and adds a page after it; a vacuum takes an empty leaf out, whose right neighbour takes its keys over.
//! Both change the page that they concern. So a difference is reported if the pages that it is between have not changed
//! since the check began, by their positions in the WAL; an index that is not logged has none, and there only what
//! contradicts itself within a page is known to be wrong. Pages taken out meanwhile are not used again before the
//! check's snapshot is gone. (On a standby they may be: what is found there is looked for once more.)

use std::cmp::Ordering;
use std::collections::HashSet;

use pgrx::check_for_interrupts;
use treedb_formats::node::Branch;

use super::leaf::{LeafView, Place};
use super::meta::Meta;
use super::schema::Schema;
use super::tree::Tree;
use crate::pages::allocate::is_unused;
use crate::pages::check::Problems;
use crate::pages::page::{Damage, View, flag};
use crate::shim::buffer::{Page, Shared};
use crate::shim::wal;

/// How often a check is repeated as long as it finds something in an index that changes.
const ATTEMPTS: usize = 3;

/// A page of a level, as its parent and its neighbours must know it.
struct CheckedPage {
    block: u32,
    bound: Option<Vec<u8>>,
    /// Split, and its right neighbour has no downlink in the parent yet.
    incomplete: bool,
    /// It may have been changed since the check began.
    changed: bool,
}

/// A downlink: the page, and where it ends.
type Downlink = (u32, Option<Vec<u8>>);

/// One pass over all pages.
struct Pass<'t> {
    tree: Tree<'t>,
    problems: &'t mut Problems,
    seen: HashSet<u32>,
    /// Blocks when the pass began.
    blocks: u32,
    /// Position in the WAL when it began; `None` if the index is not logged.
    began: Option<u64>,
    /// Some page has changed since.
    any_changed: bool,
}

/// Reports what is wrong with the pages of a tree.
pub(super) fn check_tree(tree: Tree<'_>, problems: &mut Problems) {
    for attempt in 1..=ATTEMPTS {
        let mut found = problems.none_yet();
        let mut pass = Pass {
            tree,
            problems: &mut found,
            seen: HashSet::new(),
            blocks: tree.index.blocks(),
            began: tree.index.is_logged().then(wal::position),
            any_changed: false,
        };
        pass.run();
        let changed = pass.any_changed;
        if found.is_empty() || !changed || attempt == ATTEMPTS {
            return problems.append(found);
        }
    }
}

impl Pass<'_> {
    fn run(&mut self) {
        let page: Page<Shared> = Page::read(self.tree.index, 0);
        let meta = match Meta::read(page.bytes()) {
            Ok(meta) => meta,
            Err(damage) => return self.problems.report(|| format!("block 0: {damage}")),
        };
        drop(page);
        self.seen.insert(0);
        // From the top down; each level's children are what the level below must be.
        let mut expected: Option<Vec<Downlink>> = None;
        let mut first = meta.root;
        for level in (0..=meta.level).rev() {
            let mut children = Vec::new();
            let Some(chain) = self.level(first, level, meta.root, &mut children) else { return };
            if let Some(expected) = expected {
                self.compare(&expected, &chain, level);
            }
            first = children.first().map_or(0, |(block, _): &Downlink| *block);
            expected = Some(children);
        }
        for block in 1..self.blocks {
            check_for_interrupts!();
            if !self.seen.contains(&block) {
                let page: Page<Shared> = Page::read(self.tree.index, block);
                let idle = is_unused(page.bytes())
                    || View::open(page.bytes()).is_ok_and(|view| view.has(flag::DELETED));
                // One that has not changed has been in its level's chain all the time.
                if !idle && !self.has_changed(&page) {
                    self.problems.report(|| format!("block {block} is in use, but no page leads to it"));
                }
            }
        }
    }

    /// Whether a page may have been changed since the pass began.
    fn has_changed(&mut self, page: &Page<Shared>) -> bool {
        let changed = self.began.is_none_or(|began| page.wal_position() > began);
        self.any_changed |= changed;
        changed
    }

    /// Checks the pages of a level; `children` gets its downlinks to the level below. `None` if the level
    /// cannot be read to its end.
    fn level(
        &mut self,
        first: u32,
        level: u16,
        root: u32,
        children: &mut Vec<Downlink>,
    ) -> Option<Vec<CheckedPage>> {
        let mut chain: Vec<CheckedPage> = Vec::new();
        let mut block = first;
        loop {
            check_for_interrupts!();
            if block == 0 || block >= self.blocks && block >= self.tree.index.blocks() {
                self.problems.report(|| {
                    format!("level {level} leads to block {block}, which the index does not have")
                });
                return None;
            }
            if !self.seen.insert(block) {
                self.problems.report(|| format!("block {block} is reached twice"));
                return None;
            }
            let page: Page<Shared> = Page::read(self.tree.index, block);
            let changed = self.has_changed(&page);
            let deleted = View::open(page.bytes()).ok().filter(|view| changed && view.has(flag::DELETED));
            let next = if let Some(view) = deleted {
                // Taken out after the page that leads to it was read.
                view.next()
            } else {
                let before = chain.last().and_then(|before| before.bound.as_deref());
                match self.page(page.bytes(), block, level, before, children) {
                    Err(damage) => {
                        self.problems.report(|| format!("block {block}: {damage}"));
                        return None;
                    }
                    Ok(read) => {
                        drop(page);
                        if read.is_root != (block == root) && !self.root_has_moved(root) {
                            self.problems.report(|| {
                                format!("block {block}: expected the root's flag on the root alone, found root {root}")
                            });
                            return None;
                        }
                        if read.below_lower_bound && !chain.last().is_some_and(|left| self.has_moved(left)) {
                            self.problems.report(|| {
                                format!("block {block}: expected keys from the left neighbour's bound on, found one below it")
                            });
                            return None;
                        }
                        chain.push(CheckedPage {
                            block,
                            bound: read.bound,
                            incomplete: read.incomplete,
                            changed,
                        });
                        read.next
                    }
                }
            };
            match next {
                Some(next) => block = next,
                None => return Some(chain),
            }
        }
    }

    /// Whether there is another root by now.
    fn root_has_moved(&mut self, root: u32) -> bool {
        let page: Page<Shared> = Page::read(self.tree.index, 0);
        self.any_changed |= Meta::read(page.bytes()).is_ok_and(|meta| meta.root != root);
        Meta::read(page.bytes()).is_ok_and(|meta| meta.root != root)
    }

    /// Whether a page ends elsewhere by now, or is taken out: then the page after it may have taken keys over.
    fn has_moved(&mut self, page: &CheckedPage) -> bool {
        let now: Page<Shared> = Page::read(self.tree.index, page.block);
        let moved = View::open(now.bytes())
            .is_ok_and(|view| view.has(flag::DELETED) || view.bound() != page.bound.as_deref());
        self.any_changed |= moved;
        moved
    }

    /// Checks one page by itself, and its keys against its left neighbour's bound.
    fn page(
        &mut self,
        bytes: &[u8],
        block: u32,
        level: u16,
        lower_bound: Option<&[u8]>,
        children: &mut Vec<Downlink>,
    ) -> Result<ReadPage, Damage> {
        let schema = self.tree.schema;
        let view = View::open(bytes)?;
        if view.level() != level {
            return Err(Damage::new(&format!("a page of level {level}"), view.level()));
        }
        if view.has(flag::DELETED | flag::META) {
            return Err(Damage::new("a page of the tree", "a deleted one or the meta page"));
        }
        let bound = view.bound().map(<[u8]>::to_vec);
        expect_intact(schema, bound.as_deref().unwrap_or(&[]))?;
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let mut key = Vec::new();
        if level == 0 {
            let leaf = LeafView::open(&view, schema.keys)?;
            leaf.validate()?;
            // Before keys are compared, as comparing damaged ones is an error.
            for place in (0..leaf.sorted_count()).map(Place::Sorted) {
                leaf.key_into(place, &mut key)?;
                expect_intact(schema, &key)?;
            }
            for entry in leaf.appended() {
                expect_intact(schema, entry?.key)?;
            }
            let all = leaf.all(schema)?;
            for place in (0..all.len()).filter_map(|i| all.place(i)) {
                leaf.key_into(place, &mut key)?;
                leaf.value(place)?;
                keys.push(key.clone());
            }
        } else {
            view.branch(schema.keys)?;
            let branch = Branch::open(view.payload())?;
            branch.validate()?;
            for i in 0..=branch.count() {
                let upper = if i < branch.count() {
                    branch.separator_into(i, &mut key)?;
                    expect_intact(schema, &key)?;
                    keys.push(key.clone());
                    Some(key.clone())
                } else {
                    bound.clone()
                };
                children.push((branch.child(i)?, upper));
            }
        }
        for pair in keys.windows(2) {
            if let [a, b] = pair
                && schema.compare(a, b) != Ordering::Less
            {
                return Err(Damage::new("rising keys", "one that is not above the one before it"));
            }
        }
        if let (Some(bound), Some(key)) = (&bound, keys.last())
            && schema.compare(key, bound) != Ordering::Less
        {
            return Err(Damage::new("keys below the page's bound", "one that is not"));
        }
        if view.next() == Some(block) {
            return Err(Damage::new("another page as the right neighbour", "this one"));
        }
        let below = |(lower, first): (&[u8], &Vec<u8>)| schema.compare(first, lower) == Ordering::Less;
        Ok(ReadPage {
            below_lower_bound: lower_bound.zip(keys.first()).is_some_and(below),
            bound,
            incomplete: view.has(flag::INCOMPLETE),
            is_root: view.has(flag::ROOT),
            next: view.next(),
        })
    }

    /// Compares the parents' downlinks to a level with the level.
    fn compare(&mut self, expected: &[Downlink], chain: &[CheckedPage], level: u16) {
        let mut pages = chain.iter().peekable();
        let mut last: Option<&CheckedPage> = None;
        let known: HashSet<u32> = expected.iter().map(|(block, _)| *block).collect();
        for (block, upper) in expected {
            match pages.peek() {
                Some(page) if page.block == *block => {}
                // Taken out since its parent was read; a page that was split off from it before may still be there.
                _ if self.is_deleted_since(*block) => {}
                None => {
                    return self.problems.report(|| {
                        format!("parents of level {level} know block {block}, which is not there")
                    });
                }
                Some(page) => {
                    let other = page.block;
                    return self.problems.report(|| {
                        format!("parents of level {level} know block {block} where block {other} is")
                    });
                }
            }
            // Pages without a downlink belong to the page they were split from.
            let mut page: Option<&CheckedPage> = None;
            while let Some(next) = pages.next_if(|next| {
                let split_off = |page: &CheckedPage| {
                    page.bound != *upper && (page.incomplete || page.changed || next.changed)
                };
                next.block == *block || !known.contains(&next.block) && page.map_or(next.changed, split_off)
            }) {
                page = Some(next);
            }
            if let Some(page) = page
                && page.bound != *upper
                && !page.changed
            {
                self.problems.report(|| format!("block {} does not end where its parent says", page.block));
            }
            last = page.or(last);
        }
        for page in pages {
            if !page.changed && last.is_none_or(|last| !last.changed) {
                self.problems.report(|| format!("block {} of level {level} has no parent", page.block));
            }
            last = Some(page);
        }
    }

    /// Whether a page has been taken out since the pass began.
    fn is_deleted_since(&mut self, block: u32) -> bool {
        if block >= self.tree.index.blocks() {
            return false;
        }
        let page: Page<Shared> = Page::read(self.tree.index, block);
        self.has_changed(&page) && View::open(page.bytes()).is_ok_and(|view| view.has(flag::DELETED))
    }
}

/// An error if something in a key cannot be decompressed.
fn expect_intact(schema: &Schema, key: &[u8]) -> Result<(), Damage> {
    match schema.is_intact(key) {
        true => Ok(()),
        false => Err(Damage::new("a compressed value", "bytes that cannot be decompressed")),
    }
}

/// What a page says of itself.
struct ReadPage {
    bound: Option<Vec<u8>>,
    incomplete: bool,
    is_root: bool,
    next: Option<u32>,
    /// Some key is below the left neighbour's bound.
    below_lower_bound: bool,
}
