//! Building an index: all entries sorted, pages filled from left to right and logged as a whole.

use treedb_formats::node::{Branch, BranchMut, Keys, Leaf, LeafMut, NodeDamage, Value};

use super::meta::Meta;
use super::page::{ROOM, ViewMut, flag};
use super::schema::Schema;
use super::sorter::Sorter;
use super::tree::Tree;
use crate::shim::buffer::{Exclusive, Fork, Page};
use crate::shim::index_build::{Build, maintenance_memory, report_phase};
use crate::shim::relation::Index;
use crate::shim::{error, wal};

/// Bytes of a leaf that a build leaves free for inserts to come.
const SPARE: usize = ROOM / 10;

/// Numbers of the phases for `pg_stat_progress_create_index`; 1 is the server's own "initializing".
pub(super) mod phase {
    pub(crate) const SCAN: i64 = 2;
    pub(crate) const SORT: i64 = 3;
}

/// A page being filled, one for each level: its node has all the room there is, and is written anew beside its
/// bound when the next page's first key is known.
struct Open {
    block: u32,
    payload: Vec<u8>,
    count: usize,
    /// How many entries there were when the node last took the prefix they share.
    compacted: usize,
}

/// Fills pages of a new index from sorted entries.
pub(super) struct Loader<'s> {
    tree: Tree<'s>,
    levels: Vec<Open>,
    entries: u64,
}

impl<'s> Loader<'s> {
    /// Begins in an empty relation, whose first block becomes the meta page.
    pub(super) fn new(tree: Tree<'s>) -> Self {
        drop(Page::extend(tree.index, Fork::Main));
        let mut loader = Loader { tree, levels: Vec::new(), entries: 0 };
        let mut payload = vec![0; ROOM];
        let made = LeafMut::init(&mut payload, tree.schema.keys).map(|_| ());
        loader.tree.checked_node(1, made);
        let block = loader.extend();
        loader.levels.push(Open { block, payload, count: 0, compacted: 0 });
        loader
    }

    fn extend(&self) -> u32 {
        Page::extend(self.tree.index, Fork::Main).block()
    }

    fn keys(&self) -> Keys {
        self.tree.schema.keys
    }

    /// Writes the page of a level, its node already beside its bound.
    fn write(
        &self,
        block: u32,
        level: u16,
        flags: u16,
        next: Option<(u32, &[u8])>,
        fill: impl FnOnce(&mut [u8]) -> Result<(), NodeDamage>,
    ) {
        let mut page = Page::overwrite(self.tree.index, block);
        let mut view = ViewMut::init(page.bytes_mut(), level, flags, next);
        self.tree.checked_node(block, fill(view.payload()));
        self.tree.checked(block, view.finish());
    }

    /// Adds the next entry.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) {
        self.entries += 1;
        let value = Value::inline(value);
        loop {
            let mut bound = Vec::new();
            {
                let Some(open) = self.levels.first_mut() else { return };
                let block = open.block;
                let mut leaf = match LeafMut::open(&mut open.payload) {
                    Ok(leaf) => leaf,
                    Err(damage) => error::corrupted(&self.tree.name(), block, damage),
                };
                let (count, compacted) = (open.count, open.compacted);
                let mut crowded = || {
                    let crowded = |leaf: &LeafMut<'_>| Ok(leaf.view()?.free()? < SPARE + key.len());
                    // Taking the prefix that the entries share makes room, if there are new ones.
                    if crowded(&leaf)? && count > compacted + compacted / 4 {
                        open.compacted = count;
                        leaf.compact()?;
                    }
                    crowded(&leaf)
                };
                let inserted = match crowded() {
                    Ok(true) if count > 0 => Ok(false),
                    Ok(_) => leaf.insert(count, key, value),
                    Err(damage) => Err(damage),
                };
                if self.tree.checked_node(block, inserted) {
                    open.count += 1;
                    return;
                }
            }
            let new_block = self.extend();
            let Some(open) = self.levels.first() else { return };
            let (block, old) = (open.block, open.payload.clone());
            let leaf = self.tree.checked_node(block, Leaf::open(&old));
            let mut plan = self.tree.checked_node(block, leaf.split(open.count, false, key, value));
            let whole = self.tree.checked_node(block, plan.fit_beside(ROOM, ROOM));
            if !whole {
                plan = self.tree.checked_node(block, leaf.divide());
                self.tree.checked_node(block, plan.fit_beside(ROOM, ROOM));
            }
            self.tree.checked_node(block, plan.separator(&mut bound));
            self.write(block, 0, 0, Some((new_block, &bound)), |payload| plan.left(payload));
            let mut payload = vec![0; ROOM];
            self.tree.checked_node(block, plan.right(&mut payload));
            let count = self.tree.checked_node(block, Leaf::open(&payload).map(|leaf| leaf.count()));
            if let Some(open) = self.levels.first_mut() {
                *open = Open { block: new_block, payload, count, compacted: count };
            }
            self.add_child(1, block, &bound, new_block);
            if whole {
                return;
            }
        }
    }

    /// Adds `right` to level `level`, after `left` and with `separator` between them.
    fn add_child(&mut self, level: usize, left: u32, separator: &[u8], right: u32) {
        if self.levels.len() == level {
            let mut payload = vec![0; ROOM];
            let made = BranchMut::init(&mut payload, self.keys(), left).map(|_| ());
            self.tree.checked_node(left, made);
            let block = self.extend();
            self.levels.push(Open { block, payload, count: 0, compacted: 0 });
        }
        loop {
            let Some(open) = self.levels.get_mut(level) else { return };
            let (block, count) = (open.block, open.count);
            let inserted = BranchMut::open(&mut open.payload).and_then(|mut branch| {
                // Room for the bound that a page gets beside it.
                if count > 1 && branch.view()?.free()? < 2 * separator.len() + 32 {
                    return Ok(false);
                }
                branch.insert(count, separator, right)
            });
            if self.tree.checked_node(block, inserted) {
                if let Some(open) = self.levels.get_mut(level) {
                    open.count += 1;
                }
                return;
            }
            let new_block = self.extend();
            let Some(open) = self.levels.get(level) else { return };
            let old = open.payload.clone();
            let branch = self.tree.checked_node(block, Branch::open(&old));
            let mut plan = self.tree.checked_node(block, branch.split(count, separator, right));
            let whole = self.tree.checked_node(block, plan.fit_beside(ROOM, ROOM));
            if !whole {
                plan = self.tree.checked_node(block, branch.divide());
                self.tree.checked_node(block, plan.fit_beside(ROOM, ROOM));
            }
            let mut bound = Vec::new();
            self.tree.checked_node(block, plan.separator(&mut bound));
            self.write(block, level as u16, 0, Some((new_block, &bound)), |payload| plan.left(payload));
            let mut payload = vec![0; ROOM];
            self.tree.checked_node(block, plan.right(&mut payload));
            let count = self.tree.checked_node(block, Branch::open(&payload).map(|branch| branch.count()));
            if let Some(open) = self.levels.get_mut(level) {
                *open = Open { block: new_block, payload, count, compacted: count };
            }
            self.add_child(level + 1, block, &bound, new_block);
            if whole {
                return;
            }
        }
    }

    /// Writes the last page of every level and the meta page, and logs it all. Returns the number of entries.
    pub(super) fn finish(self, facts: u32) -> u64 {
        let top = self.levels.len() - 1;
        for (level, open) in self.levels.iter().enumerate() {
            let flags = if level == top { flag::ROOT } else { 0 };
            self.write(open.block, level as u16, flags, None, |payload| {
                payload.copy_from_slice(&open.payload);
                if level == 0 {
                    LeafMut::open(payload)?.compact()
                } else {
                    BranchMut::open(payload)?.compact()
                }
            });
        }
        let root = self.levels.last().map_or(1, |open| open.block);
        let mut page = Page::overwrite(self.tree.index, 0);
        Meta { root, level: top as u16, facts, deleted: 0 }.init(page.bytes_mut());
        drop(page);
        wal::log_pages(self.tree.index);
        self.entries
    }
}

/// Fills a new index; returns how many entries it has.
pub(super) fn build(build: &mut Build<'_>) -> u64 {
    let index = build.index();
    if index.blocks() != 0 {
        error::corrupted(&index.shown(), 0, "expected an empty relation to build an index in, found pages");
    }
    let schema = Schema::of(index);
    let mut sorter = Sorter::new(&schema, maintenance_memory());
    let mut facts = 0;
    report_phase(phase::SCAN);
    build.scan(|row| facts |= schema.entries(row, |entry| sorter.add(&entry)));
    report_phase(phase::SORT);
    let mut loader = Loader::new(Tree::new(index, &schema));
    sorter.drain(|key, value| loader.add(key, value));
    loader.finish(facts)
}

/// Makes the initial fork of an unlogged index, which a crash resets it to.
pub(super) fn build_empty(index: Index<'_>) {
    let schema = Schema::of(index);
    let tree = Tree::new(index, &schema);
    let mut meta = Page::extend(index, Fork::Init);
    Meta { root: 1, level: 0, facts: 0, deleted: 0 }.init(meta.bytes_mut());
    let mut root: Page<Exclusive> = Page::extend(index, Fork::Init);
    let mut view = ViewMut::init(root.bytes_mut(), 0, flag::ROOT, None);
    tree.checked_node(1, LeafMut::init(view.payload(), schema.keys).map(|_| ()));
    tree.checked(1, view.finish());
    meta.log();
    root.log();
}
