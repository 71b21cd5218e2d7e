//! Inserting entries, and splitting pages that are full.
//!
//! An entry goes to the append area of its leaf ([`super::leaf`]). When that has many entries, or the page is full, they
//! are merged into the sorted part. If the page is full then, entries of dead rows are removed ([`super::dead_entries`]), or
//! it is split.
//!
//! A split is two WAL records: one divides the page and marks the left half [`flag::INCOMPLETE`], the other inserts the
//! right half into the parent (or makes a new root) and clears the mark. A crash in between leaves a tree in which
//! every search still finds everything by moving right; the next insert that finds the mark does the second part.
//! Pages without a downlink in the parent can be split in their turn: downlinks must then be inserted from left to
//! right, beginning after the page that has one.
//!
//! Latches are taken from the bottom up and from left to right.

use std::cell::Cell;

use pgrx::check_for_interrupts;
use treedb_formats::append_area::{APPENDED_HEADER, appended_header, appended_size};
use treedb_formats::node::BranchMut;

use super::boundary::{Boundary, Side};
use super::leaf::LeafView;
use super::leaf_entries::{LeafEntries, facts_of_leaf};
use super::meta::Meta;
use super::schema::{ADDRESS, Entry, Schema, facts_of_keys};
use super::separators::{insert_separator, open_to, plan_split};
use super::tree::{Stack, Tree, Walk};
use super::unique_keys::Turn;
use crate::pages::allocate::allocate;
use crate::pages::page::{HEADER, ROOM, UPPER, View, ViewMut, flag};
use crate::shim::buffer::{self, Exclusive, Page};
use crate::shim::index_build::IndexRow;
use crate::shim::relation::{Index, Table};
use crate::shim::wal::{PageImage, Part, Write, write};
use crate::shim::{error, fault};
use crate::types::keyset;

/// How often the parent of a page is searched for again because other backends split pages to its left meanwhile. More
/// is damage.
const MAX_PARENT_RETRIES: u32 = 20;
/// The append area is merged into the sorted part when it has as many entries as that, but at least and at most so many: a
/// merge logs the sorted entries, a search looks at each appended entry.
const MIN_MERGE: usize = 32;
const MAX_MERGE: usize = 160;
/// A leaf that would have room for fewer entries than this part of what it has, or than so many, after a merge, is split instead: the
/// merge would log the whole leaf for them, and the split logs it once more. But no more room than this part of a page is left
/// for that: where entries are much shorter once they are merged, it would be empty.
const SPARE_PART: usize = 4;
const MAX_SPARE: usize = 64;
const SPARE_ROOM: usize = ROOM / 6;
/// Entries that were inserted in a row, at least.
const MIN_ROW: usize = 4;
/// A full leaf from which entries of dead rows were removed is split nevertheless unless there is so much room now:
/// looking for dead rows costs as much as many inserts. btree asks for the same part of a page.
const WORTHWHILE: usize = ROOM / 16;
/// How many hundredths of a leaf are filled where the entries of one value are split: only rows in places of the table that
/// were used before will come between them. btree fills as many.
const ONE_VALUE_FILL: usize = 96;

/// What an insert knows of its row.
#[derive(Clone, Copy)]
pub(super) struct Inserted<'t> {
    /// The table of the index.
    pub(super) table: Table<'t>,
    /// The row is a new version of one whose values in the index are the same: there are probably dead versions.
    pub(super) unchanged: bool,
}

/// What inserts into an index keep from one row to the next.
pub(super) struct Inserter {
    schema: Schema,
    /// Memory for entries.
    entry: Cell<Entry>,
}

impl Inserter {
    pub(super) fn new(index: Index<'_>) -> Inserter {
        Inserter { schema: Schema::of(index), entry: Cell::default() }
    }

    /// Inserts the entries of a row.
    pub(super) fn insert(&self, index: Index<'_>, row: &IndexRow<'_>, inserted: Inserted<'_>) {
        let (tree, mut entry) = (Tree::new(index, &self.schema), self.entry.take());
        if self.schema.is_multikey() {
            if let Some(keys) = row.value(0) {
                let keys = keys.bytes();
                tree.record_facts(facts_of_keys(&keys));
                match index.is_exclusion() {
                    true => insert_unique(&tree, row, &keys, &mut entry, inserted),
                    false => tree.insert_keys(row, &keys, &mut entry, inserted),
                }
            }
        } else {
            tree.record_facts(self.schema.entry(row, &mut entry));
            tree.insert(&mut entry, inserted);
        }
        self.entry.set(entry);
    }
}

/// Inserts the entries of a row whose keys no other row may have.
fn insert_unique(
    tree: &Tree<'_>,
    row: &IndexRow<'_>,
    keys: &[u8],
    entry: &mut Entry,
    inserted: Inserted<'_>,
) {
    // Until the entries are there, others wait that want to insert the same keys.
    let turn = Turn::begin(tree, keys);
    if turn.is_exact() && keyset::read(keys).nth(1).is_none() {
        let mut alone = false;
        tree.schema.entries_of_keys(keys, row.tid(), entry, |entry| {
            alone = tree.insert_alone(entry, inserted);
        });
        if alone {
            return turn.end_alone(tree.index);
        }
    }
    let turn = turn.wait(tree, inserted.table, row);
    tree.insert_keys(row, keys, entry, inserted);
    turn.end(tree.index);
}

impl<'s> Tree<'s> {
    /// Inserts the entries of a key set.
    fn insert_keys(&self, row: &IndexRow<'_>, keys: &[u8], entry: &mut Entry, inserted: Inserted<'_>) {
        self.schema.entries_of_keys(keys, row.tid(), entry, |entry| self.insert(entry, inserted));
    }

    /// Inserts an entry, whose memory stays for the next one.
    fn insert(&self, entry: &mut Entry, inserted: Inserted<'_>) {
        let Entry { key, value } = entry;
        let compressed = self.schema.is_compressed(key);
        let boundary = match compressed {
            true => self.schema.before_key(key),
            false => self.schema.before_owned_key(std::mem::take(key)),
        };
        let whole: &[u8] = if compressed { key } else { boundary.key().unwrap_or(&[]) };
        let page = self.rightmost(&boundary);
        if page.is_none_or(|page| self.append_key(page, whole, value).is_some()) {
            self.insert_at(&boundary, |_, _| true, (whole, value), inserted);
        }
        if !compressed {
            *key = boundary.into_key();
        }
    }

    /// Inserts an entry of a key set, unless there may be another one with the same columns: one latch is held from looking for
    /// such an entry to adding this one. False if nothing was done.
    fn insert_alone(&self, entry: &Entry, inserted: Inserted<'_>) -> bool {
        let Entry { key, value } = entry;
        let columns = key.len().checked_sub(ADDRESS).and_then(|len| key.get(..len)).unwrap_or(&[]);
        let count = self.schema.columns.len();
        let low = self.schema.before(columns.to_vec(), count);
        let high = self.schema.after(columns.to_vec(), count);
        let is_alone = |block: u32, view: &View<'_>| {
            !self.schema.beyond(view.bound(), &high, Side::Before) && {
                let leaf = self.checked(block, LeafView::open(view, self.schema.keys));
                !self.checked(block, leaf.has_any(self.schema, columns))
            }
        };
        if let Some(page) = self.rightmost(&low) {
            if !is_alone(page.block(), &self.view(&page)) {
                return false;
            }
            if self.append_key(page, key, value).is_none() {
                return true;
            }
        }
        self.insert_at(&low, is_alone, (key, value), inserted)
    }

    /// Inserts an entry into the leaf of a boundary if `may` allows it there. False if it does not.
    fn insert_at(
        &self,
        boundary: &Boundary,
        may: impl Fn(u32, &View<'_>) -> bool,
        (key, value): (&[u8], &[u8]),
        inserted: Inserted<'_>,
    ) -> bool {
        loop {
            check_for_interrupts!();
            let mut stack = Stack::default();
            let page: Page<Exclusive> = self.descend(boundary, Side::After, 0, Some(&mut stack), false).page;
            let view = self.view(&page);
            if view.has(flag::INCOMPLETE) {
                self.finish_split(page, &mut stack, MAX_PARENT_RETRIES);
                continue;
            }
            if !may(page.block(), &view) {
                return false;
            }
            let target = (view.next().is_none() && !view.has(flag::ROOT)).then_some(page.block());
            let Some(page) = self.append_key(page, key, value) else {
                if target.is_some() {
                    self.index.set_target_block(target);
                }
                return true;
            };
            if self.merge(page, key, value, inserted, &mut stack) {
                return true;
            }
        }
    }

    /// The rightmost leaf, latched, if the last insert of this backend went there and it has entries before a boundary:
    /// then what comes after the boundary belongs there.
    fn rightmost(&self, boundary: &Boundary) -> Option<Page<Exclusive>> {
        let block = self.index.target_block()?;
        let page = buffer::has_block(*self.index, block).then(|| Page::try_read(self.index, block))??;
        let belongs = View::open(page.bytes()).is_ok_and(|view| {
            let is_last = view.level() == 0
                && view.next().is_none()
                && !view.has(flag::DELETED | flag::INCOMPLETE | flag::META);
            is_last
                && LeafView::open(&view, self.schema.keys)
                    .and_then(|leaf| leaf.sorted_before(self.schema, boundary))
                    .is_ok_and(|before| before > 0)
        });
        if belongs {
            return Some(page);
        }
        self.index.set_target_block(None);
        None
    }

    /// Adds an entry to the append area of the leaf where it belongs. The page is returned if the area must be merged
    /// first.
    fn append_key(&self, mut page: Page<Exclusive>, key: &[u8], value: &[u8]) -> Option<Page<Exclusive>> {
        let block = page.block();
        let view = self.view(&page);
        let leaf = self.checked(block, LeafView::open(&view, self.schema.keys));
        let size = appended_size(key.len(), value.len());
        let limit = leaf.sorted_count().clamp(MIN_MERGE, MAX_MERGE) * size;
        if size > leaf.free() || leaf.area_len() + size > limit {
            return Some(page);
        }
        let upper = HEADER + self.checked(block, view.hole()).end - size;
        let at = upper + APPENDED_HEADER;
        // Of where the hole ends, the higher byte mostly stays: a byte less is eight less in a record that is a little too long.
        let [low, high] = (upper as u16).to_le_bytes();
        let ends = if page.bytes().get(UPPER + 1) == Some(&high) { &[low][..] } else { &[low, high] };
        let parts: [Part<'_>; 4] =
            [(UPPER, ends), (upper, &appended_header(key, value)), (at, key), (at + key.len(), value)];
        write(self.index, &mut [(&mut page, Write::Parts(&parts))]);
        None
    }

    /// Merges the append area of a leaf, and a new entry, into the sorted part; removes entries of dead rows or splits
    /// the leaf if it is full. False if it was split without the entry: then there is room for it now.
    fn merge(
        &self,
        mut page: Page<Exclusive>,
        key: &[u8],
        value: &[u8],
        inserted: Inserted<'_>,
        stack: &mut Stack,
    ) -> bool {
        let block = page.block();
        let old = PageImage::of(page.bytes());
        let view = self.checked(block, View::open(&old));
        let leaf = self.checked(block, LeafView::open(&view, self.schema.keys));
        let mut entries = self.checked(block, LeafEntries::of(&leaf, self.schema));
        let room = view.payload().len();
        // Not for the sake of a few long entries, of which a page cannot have many.
        let spare = match leaf.sorted_count() {
            0..=MIN_MERGE => 0,
            many => {
                let entries = (many / SPARE_PART).min(MAX_SPARE);
                (entries * appended_size(key.len(), value.len())).min(SPARE_ROOM)
            }
        };
        let fits = |entries: &LeafEntries<'_>| entries.size(0..entries.len()) + spare <= room;
        entries.insert(key, value);
        let roomy = |entries: &LeafEntries<'_>| entries.size(0..entries.len()) + WORTHWHILE <= room;
        if !fits(&entries) && !self.remove_dead(block, &mut entries, key, inserted, roomy) {
            return self.split_leaf(page, &view, &leaf, entries, (key, value), stack);
        }
        let mut image = PageImage::of(&old);
        let mut merged = self.checked(block, ViewMut::open(&mut image));
        self.checked(block, entries.write(0..entries.len(), &mut merged));
        self.record_facts(facts_of_leaf(&mut merged));
        write(self.index, &mut [(&mut page, Write::Content(&image))]);
        fault::point("leaf_merge");
        true
    }

    /// Splits a full leaf whose entries, with a new one, are `entries`. False if it had to be split without the new
    /// entry (a key that shares nothing with a long common prefix): then there is room for it now.
    fn split_leaf(
        &self,
        mut page: Page<Exclusive>,
        view: &View<'_>,
        leaf: &LeafView<'_>,
        mut entries: LeafEntries<'s>,
        new: (&[u8], &[u8]),
        stack: &mut Stack,
    ) -> bool {
        let block = page.block();
        let room = view.payload().len();
        let wanted = self.wanted_split(view, leaf, &entries, new.0);
        let mut at = entries.split_point(wanted, room);
        let whole = at.is_some();
        if !whole {
            entries = self.checked(block, LeafEntries::of(leaf, self.schema));
            at = entries.split_point(entries.middle(), room);
        }
        let merged = at.is_some();
        if !merged {
            // One entry may keep a leaf of very many from being packed, and then its half does not fit a page: the
            // append area stays as it is.
            entries = self.checked(block, LeafEntries::sorted_of(leaf, self.schema));
            at = (entries.len() > 1).then(|| entries.middle().clamp(1, entries.len() - 1));
        }
        let Some(at) = at else {
            error::corrupted(
                &self.name(),
                block,
                "expected entries that two pages can hold, found longer ones",
            );
        };
        let bound = &*entries.separator(at);
        self.record_facts(entries.facts(0..at) | entries.facts(at..entries.len()));
        let mut right = allocate(self.index);
        let right_block = right.block();
        let flags = if view.has(flag::ROOT) { flag::ROOT } else { 0 } | flag::INCOMPLETE;
        let (mut left_image, mut right_image) = (PageImage::empty(), PageImage::empty());
        let mut new_right = ViewMut::init(&mut right_image, 0, 0, next_of(view));
        let mut new_left = ViewMut::init(&mut left_image, 0, flags, Some((right_block, bound)));
        let (left, right_half) = (0..at, at..entries.len());
        if merged {
            self.checked(block, entries.write(left, &mut new_left));
            self.checked(block, entries.write(right_half, &mut new_right));
        } else {
            let is_left = |key: &[u8]| self.schema.compare(key, bound) == std::cmp::Ordering::Less;
            self.checked(block, entries.write_beside(left, leaf, is_left, &mut new_left));
            self.checked(block, entries.write_beside(right_half, leaf, |key| !is_left(key), &mut new_right));
        }
        write(
            self.index,
            &mut [(&mut page, Write::Content(&left_image)), (&mut right, Write::Image(&right_image))],
        );
        drop(right);
        fault::point("leaf_split");
        self.finish_split(page, stack, MAX_PARENT_RETRIES);
        whole
    }

    /// Where to split a leaf: in the middle, but after the entries that were inserted last if these came in a row, so
    /// that ascending inserts fill their pages. A leaf at whose end they came leaves behind what a build would: the next
    /// ones will come to the right half. Rows of one value are such: the later ones have the higher addresses. So a leaf of
    /// a few values is split between two of them, as near as possible: then each half is filled from its end.
    fn wanted_split(
        &self,
        view: &View<'_>,
        leaf: &LeafView<'_>,
        entries: &LeafEntries<'_>,
        new: &[u8],
    ) -> usize {
        let wanted = self.after_ascending(view, leaf, entries, new);
        let middle = entries.middle();
        let between =
            wanted.and_then(|at| entries.between_values(at)).or_else(|| entries.between_values(middle));
        between.or(wanted).unwrap_or(middle)
    }

    /// Where to split a leaf whose last entries came in a row, or the last leaf.
    fn after_ascending(
        &self,
        view: &View<'_>,
        leaf: &LeafView<'_>,
        entries: &LeafEntries<'_>,
        new: &[u8],
    ) -> Option<usize> {
        let full = || {
            let one = entries.is_of_one_value();
            entries.fitting(if one { ROOM * ONE_VALUE_FILL / 100 } else { self.filled(ROOM) })
        };
        if view.next().is_none() {
            return Some(full());
        }
        let recent: Vec<&[u8]> = leaf.appended().flatten().map(|entry| entry.key).chain([new]).collect();
        let least = recent.iter().min_by(|a, b| self.schema.compare(a, b));
        let greatest = recent.iter().max_by(|a, b| self.schema.compare(a, b));
        let place = |key: Option<&&[u8]>| key.map_or(0, |key| entries.place_of(key));
        let (first, last) = (place(least), place(greatest));
        let in_a_row = recent.len() >= MIN_ROW && last - first < recent.len() + recent.len() / 8;
        in_a_row.then(|| if last + 1 < entries.len() { last + 1 } else { full() })
    }

    /// Inserts the right neighbour of `page`, which is marked incomplete, into the parent. `stack` has the blocks
    /// above the page, the parent last, or is empty.
    fn finish_split(&self, mut page: Page<Exclusive>, stack: &mut Stack, retries: u32) {
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
            let held = self.held(&page);
            let mut parent = match self.holding(&held).parent_of(&bound, level, stack) {
                Ok(parent) => parent,
                Err(root) => {
                    // The old root was split, and that split broke off before there was a page above it.
                    let Some(retries) = retries.checked_sub(1) else {
                        error::corrupted(&self.name(), block, "expected a page above this one, found none");
                    };
                    drop(page);
                    return self.finish_chain(root, block, level, retries);
                }
            };
            let parent_block = parent.block();
            let view = self.view(&parent);
            if view.has(flag::INCOMPLETE) {
                self.holding(&held).finish_split(parent, stack, MAX_PARENT_RETRIES);
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
            let mut image = PageImage::of(parent.bytes());
            let mut new_parent = self.checked(parent_block, ViewMut::open(&mut image));
            let fits = insert_separator(self.schema, new_parent.payload(), place, &bound, right);
            if self.checked_node(parent_block, fits) {
                self.checked(parent_block, new_parent.finish_branch());
                let (at, flags) = self.view(&page).changed_flags(0, flag::INCOMPLETE);
                let flags: [Part<'_>; 1] = [(at, &flags)];
                write(
                    self.index,
                    &mut [(&mut parent, Write::Content(&image)), (&mut page, Write::Parts(&flags))],
                );
                fault::point("split_finished");
                return;
            }
            if self.split_branch(parent, &mut page, place, &bound, right, stack) {
                return;
            }
            stack.clear();
        }
    }

    /// Finishes the splits of pages from `from`, which the parent knows, to `to`, which hangs on it.
    fn finish_chain(&self, from: u32, to: u32, level: u16, retries: u32) {
        let (mut at, mut walk) = (from, Walk::default());
        loop {
            check_for_interrupts!();
            walk.step(self, at);
            let page: Page<Exclusive> = self.read(at);
            let view = self.view(&page);
            let next = view.next();
            self.expect_level(at, &view, level);
            // Another backend may have finished it already.
            if view.has(flag::INCOMPLETE) {
                self.finish_split(page, &mut Stack::default(), retries);
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
    fn parent_of(&self, bound: &[u8], level: u16, stack: &mut Stack) -> Result<Page<Exclusive>, u32> {
        let boundary = self.schema.before_key(bound);
        // Branches are never deleted, so the block is still one of that level.
        if let Some(block) = stack.pop() {
            let page = self.move_right(self.read(block), &boundary, Side::After, false, None);
            self.expect_level(page.block(), &self.view(&page), level + 1);
            return Ok(page);
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
        stack: &mut Stack,
    ) -> bool {
        let block = page.block();
        let old = PageImage::of(page.bytes());
        let view = self.checked(block, View::open(&old));
        let (room, level) = (view.payload().len(), view.level());
        let node = view.payload();
        let open = self.checked_node(block, open_to(self.schema, node, separator));
        let plan = plan_split(node, open.as_deref(), (place, separator, right_child), room);
        let (plan, whole) = self.checked_node(block, plan);
        let mut bound = Vec::new();
        self.checked_node(block, plan.separator(&mut bound));
        let mut right = allocate(self.index);
        let right_block = right.block();
        let (mut left_image, mut right_image) = (PageImage::empty(), PageImage::empty());
        let mut new_right = ViewMut::init(&mut right_image, level, 0, next_of(&view));
        self.checked_node(block, plan.right(new_right.payload()));
        self.checked(block, new_right.finish_branch());
        let flags = if view.has(flag::ROOT) { flag::ROOT } else { 0 } | flag::INCOMPLETE;
        let mut new_left = ViewMut::init(&mut left_image, level, flags, Some((right_block, &bound)));
        self.checked_node(block, plan.left(new_left.payload()));
        self.checked(block, new_left.finish_branch());
        let (left, new) =
            ((&mut page, Write::Content(&left_image)), (&mut right, Write::Image(&right_image)));
        if whole {
            let (at, flags) = self.view(child).changed_flags(0, flag::INCOMPLETE);
            write(self.index, &mut [left, new, (child, Write::Parts(&[(at, &flags)]))]);
        } else {
            write(self.index, &mut [left, new]);
        }
        drop(right);
        fault::point("branch_split");
        let held = self.held(child);
        self.holding(&held).finish_split(page, stack, MAX_PARENT_RETRIES);
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
        let mut root = allocate(self.index);
        let root_block = root.block();
        let mut image = PageImage::empty();
        let mut new_root = ViewMut::init(&mut image, level + 1, flag::ROOT, None);
        let made = BranchMut::init(new_root.payload(), self.schema.keys, block).map(|_| ());
        let made = made.and_then(|()| insert_separator(self.schema, new_root.payload(), 0, bound, right));
        if !self.checked_node(root_block, made) {
            error::corrupted(
                &self.name(),
                block,
                "expected a bound that fits a new root, found a longer one",
            );
        }
        self.checked(root_block, new_root.finish_branch());
        let meta = Meta { root: root_block, level: level + 1, ..meta }.bytes();
        let (at, flags) = self.view(page).changed_flags(0, flag::ROOT | flag::INCOMPLETE);
        write(
            self.index,
            &mut [
                (&mut meta_page, Write::Parts(&[(HEADER, &meta)])),
                (&mut root, Write::Image(&image)),
                (page, Write::Parts(&[(at, &flags)])),
            ],
        );
        fault::point("new_root");
        self.index.cache_root(root_block, level + 1);
    }

    /// Records facts about the index in the meta page, before the first entry, or leaf, that makes them true.
    pub(super) fn record_facts(&self, facts: u32) {
        if self.index.cached_facts() & facts == facts {
            return;
        }
        let mut page: Page<Exclusive> = Page::read(self.index, 0);
        let meta = self.checked(0, Meta::read(page.bytes()));
        if meta.facts & facts != facts {
            let meta = Meta { facts: meta.facts | facts, ..meta }.bytes();
            write(self.index, &mut [(&mut page, Write::Parts(&[(HEADER, &meta)]))]);
        }
        drop(page);
        self.index.cache_facts(facts);
    }
}

/// Right neighbour and bound of a page that is split: the right half takes them over.
fn next_of<'a>(view: &View<'a>) -> Option<(u32, &'a [u8])> {
    view.next().zip(view.bound())
}
