//! Building an index: all entries sorted, pages filled from left to right and logged as a whole.

use std::cell::Cell;
use std::ops::Range;

use treedb_formats::node::{Branch, BranchMut, Keys, common};
use treedb_formats::packed::packed_size;

use super::leaf_entries::{Groupings, LeafEntries, facts_of_leaf, is_worth_grouping};
use super::meta::Meta;
use super::schema::{Entry, Schema};
use super::separators::{insert_separator, open_to, plan_split};
use super::sorter::{Heads, Sorter};
use super::tree::Tree;
use crate::pages::page::{Damage, ROOM, ViewMut, flag};
use crate::shim::buffer::{Exclusive, Fork, Page};
use crate::shim::index_build::{
    Build, IndexRow, maintenance_memory, report_entries, report_loaded, report_phase,
};
use crate::shim::parallel_build::Part;
use crate::shim::relation::Index;
use crate::shim::{error, wal};

/// Numbers of the phases for `pg_stat_progress_create_index`, those of the server's btree; 1 is the server's own
/// "initializing".
pub(super) mod phase {
    pub(crate) const SCAN: i64 = 2;
    pub(crate) const SORT: i64 = 3;
    pub(crate) const LOAD: i64 = 5;
}

/// An upper limit of the bytes that the entries of a leaf take, kept while entries are added.
#[derive(Clone, Copy, Default)]
struct LeafSize {
    count: usize,
    /// Bytes that all keys begin with.
    prefix: usize,
    /// Length of the shortest and of the longest key.
    shortest: usize,
    longest: usize,
    /// Bytes of all keys and of all values.
    keys: usize,
    values: usize,
    /// Some key is compressed.
    compressed: bool,
    /// As a grouped leaf.
    groupings: Groupings,
}

impl LeafSize {
    /// Adds an entry, which comes after all others, of which these are the first key and the last entry.
    fn add(&mut self, schema: &Schema, first: &[u8], last: (&[u8], &[u8]), (key, value): (&[u8], &[u8])) {
        let alone = self.count == 0;
        self.compressed |= schema.is_compressed(key);
        self.prefix = match schema.keys {
            _ if self.compressed => 0,
            Keys::Custom => 0,
            Keys::Bytewise if alone => key.len(),
            Keys::Bytewise => common(first.get(..self.prefix).unwrap_or(first), key),
        };
        self.groupings.add((!alone).then_some(last), (key, value));
        self.count += 1;
        self.shortest = if alone { key.len() } else { self.shortest.min(key.len()) };
        self.longest = self.longest.max(key.len());
        self.keys += key.len();
        self.values += value.len();
    }

    fn bytes(&self, schema: &Schema) -> usize {
        let packed = schema.keys == Keys::Bytewise
            && !self.compressed
            && self.values == 0
            && self.shortest == self.longest;
        let all = self.keys + self.values;
        let (least, most) = if packed {
            let size = packed_size(self.count, self.prefix, self.longest - self.prefix);
            (size, size)
        } else {
            (
                LeafEntries::node_size_least(self.count, all, self.prefix),
                LeafEntries::node_size_limit(self.count, all, self.prefix, self.shortest),
            )
        };
        let (_, grouped) = self.groupings.best();
        match is_worth_grouping(grouped, least) && !(packed && schema.fixed_columns().is_some()) {
            true => grouped,
            false => most,
        }
    }
}

/// The branch of a level that is being filled: its node has all the room there is, and is written anew beside its
/// bound when the next page's first key is known.
struct OpenBranch {
    block: u32,
    payload: Vec<u8>,
    count: usize,
}

/// Fills pages of a new index from sorted entries.
pub(super) struct Loader<'s> {
    tree: Tree<'s>,
    /// The leaf that is being filled, its entries and their size.
    leaf: u32,
    entries: LeafEntries<'s>,
    size: LeafSize,
    /// From level 1 up.
    branches: Vec<OpenBranch>,
    count: u64,
    /// Bytes that a leaf is filled with; the rest is left free for inserts to come.
    filled: usize,
    /// What the leaves that were written are evidence of.
    facts: Cell<u32>,
}

impl<'s> Loader<'s> {
    /// Begins in an empty relation, whose first block becomes the meta page.
    pub(super) fn new(tree: Tree<'s>) -> Self {
        drop(Page::extend(tree.index, Fork::Main));
        let leaf = Page::extend(tree.index, Fork::Main).block();
        let entries = LeafEntries::new(tree.schema);
        let (size, filled) = (LeafSize::default(), tree.filled(ROOM));
        Loader { tree, leaf, entries, size, branches: Vec::new(), count: 0, filled, facts: Cell::new(0) }
    }

    fn extend(&self) -> u32 {
        Page::extend(self.tree.index, Fork::Main).block()
    }

    fn keys(&self) -> Keys {
        self.tree.schema.keys
    }

    /// Writes the page of a level.
    fn write(
        &self,
        block: u32,
        level: u16,
        flags: u16,
        next: Option<(u32, &[u8])>,
        fill: impl FnOnce(&mut ViewMut<'_>) -> Result<(), Damage>,
    ) {
        let mut page = Page::overwrite(self.tree.index, block);
        let mut view = ViewMut::init(page.bytes_mut(), level, flags, next);
        self.tree.checked(block, fill(&mut view));
    }

    /// Writes some of the entries as the leaf that is being filled.
    fn write_leaf(&self, range: Range<usize>, flags: u16, next: Option<(u32, &[u8])>) {
        self.write(self.leaf, 0, flags, next, |page| {
            self.entries.write(range, page)?;
            self.facts.update(|facts| facts | facts_of_leaf(page));
            Ok(())
        });
    }

    /// Adds the next entry.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) {
        if self.count == 0 {
            report_phase(phase::LOAD);
        }
        self.count += 1;
        if self.count.is_multiple_of(1024) {
            report_loaded(self.count);
        }
        let (first, last) = (self.entries.key(0), self.entries.last());
        self.size.add(self.tree.schema, first, last, (key, value));
        self.entries.push(key, value);
        if self.size.count == 1 || self.size.bytes(self.tree.schema) <= self.filled {
            return;
        }
        // All but this entry, or fewer, if these are too long beside their bound.
        let last = self.entries.len() - 1;
        let Some(at) =
            (1..=last).rev().find(|at| self.entries.size(0..*at) + self.entries.separator(*at).len() <= ROOM)
        else {
            error::corrupted(
                &self.tree.name(),
                self.leaf,
                "expected entries that a page can hold, found longer ones",
            );
        };
        let (block, new_block, bound) = (self.leaf, self.extend(), self.entries.separator(at).into_owned());
        self.write_leaf(0..at, 0, Some((new_block, &bound)));
        let rest = self.entries.split_off(at);
        (self.leaf, self.entries, self.size) = (new_block, rest, LeafSize::default());
        for i in 0..self.entries.len() {
            let entry = |i: usize| (self.entries.key(i), self.entries.value(i));
            let last = entry(i.saturating_sub(1));
            self.size.add(self.tree.schema, self.entries.key(0), last, entry(i));
        }
        self.add_child(1, block, &bound, new_block);
    }

    /// Adds `right` to level `level`, after `left` and with `separator` between them.
    fn add_child(&mut self, level: usize, left: u32, separator: &[u8], right: u32) {
        let number = level - 1;
        if self.branches.len() == number {
            let mut payload = vec![0; ROOM];
            let made = BranchMut::init(&mut payload, self.keys(), left).map(|_| ());
            self.tree.checked_node(left, made);
            let block = self.extend();
            self.branches.push(OpenBranch { block, payload, count: 0 });
        }
        loop {
            let Some(open) = self.branches.get_mut(number) else { return };
            let (block, count) = (open.block, open.count);
            let free = Branch::open(&open.payload).and_then(|branch| branch.free());
            // Room for the bound that a page gets beside it.
            let inserted = match free {
                Ok(free) if count > 1 && free < 2 * separator.len() + 32 => Ok(false),
                Ok(_) => insert_separator(self.tree.schema, &mut open.payload, count, separator, right),
                Err(damage) => Err(damage),
            };
            if self.tree.checked_node(block, inserted) {
                open.count += 1;
                return;
            }
            let new_block = self.extend();
            let Some(open) = self.branches.get(number) else { return };
            let old = open.payload.clone();
            let open = self.tree.checked_node(block, open_to(self.tree.schema, &old, separator));
            let plan = plan_split(&old, open.as_deref(), (count, separator, right), ROOM);
            let (plan, whole) = self.tree.checked_node(block, plan);
            let mut bound = Vec::new();
            self.tree.checked_node(block, plan.separator(&mut bound));
            self.write(block, level as u16, 0, Some((new_block, &bound)), |page| {
                plan.left(page.payload())?;
                page.finish_branch()
            });
            let mut payload = vec![0; ROOM];
            self.tree.checked_node(block, plan.right(&mut payload));
            let count = self.tree.checked_node(block, Branch::open(&payload).map(|branch| branch.count()));
            if let Some(open) = self.branches.get_mut(number) {
                *open = OpenBranch { block: new_block, payload, count };
            }
            self.add_child(level + 1, block, &bound, new_block);
            if whole {
                return;
            }
        }
    }

    /// Writes the last page of every level and the meta page, and logs it all. Returns the number of entries.
    pub(super) fn finish(self, facts: u32) -> u64 {
        let top = self.branches.len();
        let flags = |level: usize| if level == top { flag::ROOT } else { 0 };
        self.write_leaf(0..self.entries.len(), flags(0), None);
        let facts = facts | self.facts.get();
        for (number, open) in self.branches.iter().enumerate() {
            let level = number + 1;
            self.write(open.block, level as u16, flags(level), None, |page| {
                page.payload().copy_from_slice(&open.payload);
                BranchMut::open(page.payload())?.compact()?;
                page.finish_branch()
            });
        }
        let root = self.branches.last().map_or(self.leaf, |open| open.block);
        let mut page = Page::overwrite(self.tree.index, 0);
        Meta { root, level: top as u16, facts, deleted: 0 }.init(page.bytes_mut());
        drop(page);
        report_loaded(self.count);
        wal::log_pages(self.tree.index, 0..self.tree.index.blocks());
        self.count
    }
}

/// Fills a new index; returns how many entries it has.
pub(super) fn build(build: &mut Build<'_>) -> u64 {
    let index = build.index();
    if index.blocks() != 0 {
        error::corrupted(&index.shown(), 0, "expected an empty relation to build an index in, found pages");
    }
    let schema = Schema::of(index);
    let processes = build.launch(c"treedb_btree_build_part");
    let mut sorter = Sorter::new(&schema, maintenance_memory() / processes);
    report_phase(phase::SCAN);
    let mut facts = schema.first_facts() | collect(&schema, &mut sorter, |each| build.scan(each));
    if processes > 1 {
        // While the workers sort and write theirs.
        sorter.sort();
    }
    let (of_workers, runs) = build.wait_for_workers();
    facts |= of_workers;
    sorter.take_over(runs, maintenance_memory());
    report_phase(phase::SORT);
    report_entries(build.rows());
    let mut loader = Loader::new(Tree::new(index, &schema));
    sorter.drain(|key, value| loader.add(key, value));
    let entries = loader.finish(facts);
    build.dismiss_workers();
    entries
}

/// A worker's part of a build: the entries of the rows that fall to it, sorted.
pub(super) fn build_part(part: &mut Part<'_>) {
    let schema = Schema::of(part.index());
    let budget = maintenance_memory() / part.participants().max(1);
    let mut sorter = Sorter::of_worker(&schema, budget, part.files());
    let facts = collect(&schema, &mut sorter, |each| part.scan(each));
    let runs = sorter.hand_over();
    part.report(facts, runs);
}

/// Collects the entries of the rows that `scan` shows; returns the facts they are evidence of.
fn collect(
    schema: &Schema,
    sorter: &mut Sorter<'_>,
    scan: impl FnOnce(&mut dyn FnMut(&IndexRow<'_>)),
) -> u32 {
    let mut facts = 0;
    let mut heads = Heads::new(schema);
    let mut entry = Entry::default();
    scan(&mut |row| {
        let head = heads.of(row);
        facts |= schema.entries(row, &mut entry, |entry| sorter.add(entry, head));
    });
    facts
}

/// Makes the initial fork of an unlogged index, which a crash resets it to.
pub(super) fn build_empty(index: Index<'_>) {
    let schema = Schema::of(index);
    let tree = Tree::new(index, &schema);
    let mut meta = Page::extend(index, Fork::Init);
    Meta { root: 1, level: 0, facts: schema.first_facts(), deleted: 0 }.init(meta.bytes_mut());
    let mut root: Page<Exclusive> = Page::extend(index, Fork::Init);
    let mut view = ViewMut::init(root.bytes_mut(), 0, flag::ROOT, None);
    tree.checked(1, LeafEntries::new(&schema).write(0..0, &mut view));
    meta.log();
    root.log();
}
