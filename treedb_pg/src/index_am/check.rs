//! `treedb.check(regclass)`: whether an index is a valid tree, and agrees with its table.
//!
//! The table is locked against changes. Of the tree: every page is reached once, levels and flags are right, keys
//! rise and lie within their page's limits, parents and children agree. Of the entries: every row that is
//! visible to some snapshot has its entries; every other entry points to a row that no snapshot sees any more.

use std::collections::HashSet;

use pgrx::{check_for_interrupts, pg_sys};
use treedb_formats::node::Branch;

use super::boundary::{Boundary, Side};
use super::leaf::{LeafView, Selection};
use super::meta::Meta;
use super::schema::{Entry, Schema, row_of};
use super::sorter::{Heads, Sorter};
use super::tree::Tree;
use super::{expect_own_index, is_own_index};
use crate::pages::allocate::is_unused;
use crate::pages::page::{Damage, View, flag};
use crate::shim::buffer::{Page, Shared};
use crate::shim::function::pg_function;
use crate::shim::index_build::{maintenance_memory, scan_table};
use crate::shim::relation::{LockMode, OpenIndex, OpenRelation, OpenTable};
use crate::shim::rows::{Rows, Set};
use crate::shim::snapshot::Registered;
use crate::shim::table::{Fetch, Slot};
use crate::shim::{catalog, heap};

/// No more problems than these are reported for one index.
const MAX_PROBLEMS: usize = 100;

/// What is wrong with an index.
struct Problems {
    name: String,
    messages: Vec<String>,
}

impl Problems {
    fn report(&mut self, what: impl FnOnce() -> String) {
        if self.messages.len() < MAX_PROBLEMS {
            self.messages.push(format!("{}: {}", self.name, what()));
        }
    }
}

/// A page of a level, as its parent and its neighbours must know it.
struct CheckedPage {
    block: u32,
    bound: Option<Vec<u8>>,
    /// Split, and its right neighbour has no downlink in the parent yet.
    incomplete: bool,
}

/// Checks pages and their relations to each other.
struct Structure<'t> {
    tree: Tree<'t>,
    problems: &'t mut Problems,
    seen: HashSet<u32>,
    blocks: u32,
}

impl Structure<'_> {
    fn check(&mut self) {
        let page: Page<Shared> = Page::read(self.tree.index, 0);
        let meta = match Meta::read(page.bytes()) {
            Ok(meta) => meta,
            Err(damage) => return self.problems.report(|| format!("block 0: {damage}")),
        };
        drop(page);
        self.seen.insert(0);
        // From the top down; each level's children are what the level below must be.
        let mut expected: Option<Vec<(u32, Option<Vec<u8>>)>> = None;
        let mut first = meta.root;
        for level in (0..=meta.level).rev() {
            let mut children = Vec::new();
            let Some(chain) = self.level(first, level, meta.root, &mut children) else { return };
            if let Some(expected) = expected {
                self.compare(&expected, &chain, level);
            }
            first = children.first().map_or(0, |(block, _): &(u32, _)| *block);
            expected = Some(children);
        }
        for block in 1..self.blocks {
            check_for_interrupts!();
            if !self.seen.contains(&block) {
                let page: Page<Shared> = Page::read(self.tree.index, block);
                if !is_unused(page.bytes())
                    && !View::open(page.bytes()).is_ok_and(|view| view.has(flag::DELETED))
                {
                    self.problems.report(|| format!("block {block} is in use, but no page leads to it"));
                }
            }
        }
    }

    /// Checks the pages of a level; `children` gets its downlinks to the level below. `None` if the level
    /// cannot be read to its end.
    fn level(
        &mut self,
        first: u32,
        level: u16,
        root: u32,
        children: &mut Vec<(u32, Option<Vec<u8>>)>,
    ) -> Option<Vec<CheckedPage>> {
        let mut chain = Vec::new();
        let (mut block, mut lower_bound) = (first, None::<Vec<u8>>);
        loop {
            check_for_interrupts!();
            if block == 0 || block >= self.blocks {
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
            match self.page(page.bytes(), block, level, root, lower_bound.as_deref(), children) {
                Err(damage) => {
                    self.problems.report(|| format!("block {block}: {damage}"));
                    return None;
                }
                Ok((known, next)) => {
                    lower_bound.clone_from(&known.bound);
                    chain.push(known);
                    match next {
                        Some(next) => block = next,
                        None => return Some(chain),
                    }
                }
            }
        }
    }

    /// Checks one page.
    fn page(
        &mut self,
        bytes: &[u8],
        block: u32,
        level: u16,
        root: u32,
        lower_bound: Option<&[u8]>,
        children: &mut Vec<(u32, Option<Vec<u8>>)>,
    ) -> Result<(CheckedPage, Option<u32>), Damage> {
        let schema = self.tree.schema;
        let view = View::open(bytes)?;
        if view.level() != level {
            return Err(Damage::new(&format!("a page of level {level}"), view.level()));
        }
        if view.has(flag::DELETED | flag::META) {
            return Err(Damage::new("a page of the tree", "a deleted one or the meta page"));
        }
        if view.has(flag::ROOT) != (block == root) {
            return Err(Damage::new("the root's flag on the root alone", format!("root {root}")));
        }
        let bound = view.bound().map(<[u8]>::to_vec);
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let mut key = Vec::new();
        if level == 0 {
            let leaf = LeafView::open(&view, schema.keys)?;
            leaf.validate()?;
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
                && schema.compare(a, b) != std::cmp::Ordering::Less
            {
                return Err(Damage::new("rising keys", "one that is not above the one before it"));
            }
        }
        if let (Some(lower_bound), Some(key)) = (lower_bound, keys.first())
            && schema.compare(key, lower_bound) == std::cmp::Ordering::Less
        {
            return Err(Damage::new("keys from the left neighbour's bound on", "one below it"));
        }
        if let (Some(bound), Some(key)) = (&bound, keys.last())
            && schema.compare(key, bound) != std::cmp::Ordering::Less
        {
            return Err(Damage::new("keys below the page's bound", "one that is not"));
        }
        Ok((CheckedPage { block, bound, incomplete: view.has(flag::INCOMPLETE) }, view.next()))
    }

    /// Compares the parents' downlinks to a level with the level.
    fn compare(&mut self, expected: &[(u32, Option<Vec<u8>>)], chain: &[CheckedPage], level: u16) {
        let mut pages = chain.iter();
        for (block, upper) in expected {
            let Some(mut page) = pages.next() else {
                return self
                    .problems
                    .report(|| format!("parents of level {level} know block {block}, which is not there"));
            };
            if page.block != *block {
                return self.problems.report(|| {
                    format!("parents of level {level} know block {block} where block {} is", page.block)
                });
            }
            // Pages without a downlink belong to the page they were split from.
            while page.incomplete {
                let Some(next) = pages.next() else { break };
                page = next;
            }
            if page.bound != *upper {
                self.problems.report(|| format!("block {} does not end where its parent says", page.block));
            }
        }
        if let Some(page) = pages.next() {
            self.problems.report(|| format!("block {} of level {level} has no parent", page.block));
        }
    }
}

/// Reads the entries of a tree one by one.
struct EntryCursor<'t> {
    tree: Tree<'t>,
    bytes: Vec<u8>,
    block: u32,
    /// The entries of the page in order.
    all: Selection,
    at: usize,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'t> EntryCursor<'t> {
    fn new(tree: Tree<'t>) -> Self {
        let page: Page<Shared> = tree.descend(&Boundary::Start, Side::After, 0, None, false).page;
        let (bytes, block) = (page.bytes().to_vec(), page.block());
        let mut cursor = EntryCursor {
            tree,
            bytes,
            block,
            all: Selection::default(),
            at: 0,
            key: Vec::new(),
            value: Vec::new(),
        };
        cursor.open();
        cursor.read();
        cursor
    }

    /// Puts the entries of a new page in order.
    fn open(&mut self) {
        let view = self.tree.checked(self.block, View::open(&self.bytes));
        let schema = self.tree.schema;
        let all = LeafView::open(&view, schema.keys).and_then(|leaf| leaf.all(schema));
        self.all = self.tree.checked(self.block, all);
        self.at = 0;
    }

    /// Puts the entry at the current place into `key`, going on to the next page where the current one ends; leaves
    /// `key` empty at the end.
    fn read(&mut self) {
        loop {
            check_for_interrupts!();
            self.key.clear();
            let next = {
                let view = self.tree.checked(self.block, View::open(&self.bytes));
                let leaf = self.tree.checked(self.block, LeafView::open(&view, self.tree.schema.keys));
                if let Some(place) = self.all.place(self.at) {
                    self.tree.checked(self.block, leaf.key_into(place, &mut self.key));
                    self.value = self.tree.checked(self.block, leaf.value(place)).to_vec();
                    return;
                }
                view.next()
            };
            let Some(next) = next else { return };
            let page: Page<Shared> = self.tree.read(next);
            self.bytes = page.bytes().to_vec();
            self.block = next;
            drop(page);
            self.open();
        }
    }

    fn advance(&mut self) {
        self.at += 1;
        self.read();
    }
}

/// Compares the entries with the table's rows.
fn content(table: &OpenTable, tree: Tree<'_>, problems: &mut Problems) {
    let schema = tree.schema;
    // The entries that the rows must have, with 1 in front of the value where the row is visible to some snapshot.
    let mut sorter = Sorter::new(schema, maintenance_memory());
    let mut heads = Heads::new(schema);
    scan_table(table.get(), tree.index, |row, alive| {
        let head = heads.of(row);
        schema.entries(row, |entry| {
            let value = [&[u8::from(alive)], entry.value.as_slice()].concat();
            sorter.add(&Entry { key: entry.key, value }, head);
        });
    });
    let mut cursor = EntryCursor::new(tree);
    let mut lookup = Lookup::new(table);
    let show = |key: &[u8]| {
        let (block, offset) = row_of(key).map_or((0, 0), heap::tid_parts);
        format!("({block},{offset})")
    };
    sorter.drain(|key, value| {
        while !cursor.key.is_empty() && schema.compare(&cursor.key, key) == std::cmp::Ordering::Less {
            lookup.check_unexpected(&cursor.key, problems);
            cursor.advance();
        }
        if cursor.key == key {
            if !value.ends_with(&cursor.value) || value.len() != cursor.value.len() + 1 {
                problems.report(|| format!("the entry of row {} has other included values", show(key)));
            }
            cursor.advance();
        } else if value.starts_with(&[1]) {
            problems.report(|| format!("row {} has no entry", show(key)));
        }
    });
    while !cursor.key.is_empty() {
        lookup.check_unexpected(&cursor.key, problems);
        cursor.advance();
    }
}

/// Looks up the rows that entries point to.
struct Lookup {
    table: OpenTable,
    blocks: u32,
    slot: Slot,
    fetch: Fetch,
    snapshot: Registered,
}

impl Lookup {
    fn new(table: &OpenTable) -> Self {
        Lookup {
            table: table.clone(),
            blocks: table.get().blocks(),
            slot: Slot::new(table.get()),
            fetch: Fetch::begin(table),
            snapshot: Registered::latest(),
        }
    }

    /// Checks an entry that no row must have: it must not point to a visible row, nor to an address that may be reused.
    fn check_unexpected(&mut self, key: &[u8], problems: &mut Problems) {
        let Some(row) = row_of(key) else { return problems.report(|| "an entry is too short".into()) };
        let (block, offset) = heap::tid_parts(row);
        if block >= self.blocks {
            return problems
                .report(|| format!("an entry points to row ({block},{offset}), after the table's end"));
        }
        if heap::is_reusable(self.table.get(), row) {
            return problems
                .report(|| format!("an entry points to row ({block},{offset}), which is free for reuse"));
        }
        let mut dead = false;
        if self.fetch.chain(row, self.snapshot.get(), &mut self.slot, Some(&mut dead)) {
            problems.report(|| format!("an entry points to row ({block},{offset}), which has other values"));
        }
        self.slot.clear();
    }
}

/// Checks an index against its table. Both are locked until the end of the transaction.
fn check_index(index_oid: pg_sys::Oid, problems: &mut Vec<String>) {
    let table = OpenTable::open(catalog::table_of_index(index_oid), LockMode::Share);
    let open = OpenIndex::open(index_oid, LockMode::AccessShare);
    let index = open.get();
    // Left over from a CREATE INDEX CONCURRENTLY that failed in its first pass: it is neither read nor written.
    if !index.is_ready() {
        return;
    }
    let schema = Schema::of(index);
    let tree = Tree::new(index, &schema);
    let mut found = Problems { name: tree.name(), messages: Vec::new() };
    Structure { tree, problems: &mut found, seen: HashSet::new(), blocks: index.blocks() }.check();
    // A tree that cannot be read to its end cannot be compared with the table.
    if found.messages.is_empty() && index.is_valid() {
        content(&table, tree, &mut found);
    }
    problems.append(&mut found.messages);
}

/// The indexes of a relation that are ours: itself, or all those of a table.
fn indexes_of(relation: pg_sys::Oid) -> Vec<pg_sys::Oid> {
    let open = OpenRelation::open(relation, LockMode::AccessShare);
    if open.get().kind() != pg_sys::RELKIND_INDEX {
        let mut indexes = open.get().indexes();
        indexes.retain(|oid| is_own_index(*oid));
        return indexes;
    }
    expect_own_index(relation);
    vec![relation]
}

pg_function! {
    /// `treedb.check(regclass) RETURNS SETOF text`: what is wrong with an index, or with those of a table.
    fn treedb_check(args: [Oid]) -> Set {
        let relation = args.oid(0);
        let mut rows = Rows::begin(args);
        let mut problems = Vec::new();
        catalog::expect_owner(relation);
        for index in indexes_of(relation) {
            check_index(index, &mut problems);
        }
        for problem in problems {
            rows.put(problem.as_bytes());
        }
        rows.finish()
    }
}
