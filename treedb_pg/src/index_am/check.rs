//! `treedb.check(relation, heapallindexed)`: whether an index is a valid tree, and agrees with its table.
//!
//! Others may read and write meanwhile, and it works on a standby. Of the tree ([`super::check_tree`]): every page is
//! reached once, levels and flags are right, keys rise and lie within their page's limits, parents and children agree.
//! Of the entries: every row that is visible to a snapshot taken before has its entries, which stay as long as the
//! snapshot does; every other entry points to a row that the snapshot does not see, and to none that is free. An entry
//! that seems not to is looked for again before it is reported: a vacuum may have removed it, and then its row.

use std::cmp::Ordering;

use pgrx::{check_for_interrupts, pg_sys};

use super::boundary::{Boundary, Side};
use super::check_tree::check_tree;
use super::leaf::{LeafView, Selection};
use super::schema::{Entry, Schema, row_of};
use super::sorter::{Heads, Sorter};
use super::tree::Tree;
use super::{expect_own_index, is_own_index};
use crate::pages::check::Problems;
use crate::pages::page::View;
use crate::shim::buffer::{Page, Shared};
use crate::shim::function::pg_function;
use crate::shim::index_build::{maintenance_memory, scan_table};
use crate::shim::relation::{LockMode, OpenIndex, OpenRelation, OpenTable};
use crate::shim::rows::{Rows, Set};
use crate::shim::snapshot::{self, Registered};
use crate::shim::table::{Fetch, Slot};
use crate::shim::{catalog, heap};
use crate::vector_am;

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
            let on = {
                let view = self.tree.checked(self.block, View::open(&self.bytes));
                let leaf = self.tree.checked(self.block, LeafView::open(&view, self.tree.schema.keys));
                if let Some(place) = self.all.place(self.at) {
                    self.tree.checked(self.block, leaf.key_into(place, &mut self.key));
                    self.value = self.tree.checked(self.block, leaf.value(place)).to_vec();
                    return;
                }
                view.next().zip(view.bound().map(|bound| self.tree.schema.before_key(bound)))
            };
            let Some((next, boundary)) = on else { return };
            // On a standby the neighbour may have become another page.
            let page: Page<Shared> = if snapshot::in_recovery() {
                self.tree.descend(&boundary, Side::After, 0, None, false).page
            } else {
                self.tree.move_right(self.tree.read(next), &boundary, Side::After, false, None)
            };
            (self.bytes, self.block) = (page.bytes().to_vec(), page.block());
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
    // Taken before anything is read: the entries of the rows that it sees stay as long as it does.
    let snapshot = Registered::latest();
    let mut sorter = Sorter::new(schema, maintenance_memory());
    let mut heads = Heads::new(schema);
    let mut entry = Entry::default();
    scan_table(table.get(), tree.index, snapshot.get(), |row| {
        let head = heads.of(row);
        schema.entries(row, &mut entry, |entry| sorter.add(entry, head));
    });
    let mut cursor = EntryCursor::new(tree);
    let mut lookup = Lookup::new(table, tree, snapshot);
    let show = |key: &[u8]| {
        let (block, offset) = row_of(key).map_or((0, 0), heap::tid_parts);
        format!("({block},{offset})")
    };
    sorter.drain(|key, value| {
        let order = |cursor: &EntryCursor<'_>| match cursor.key.is_empty() {
            true => Ordering::Greater,
            false => schema.compare(&cursor.key, key),
        };
        while order(&cursor) == Ordering::Less {
            lookup.check_unexpected(&cursor.key, problems);
            cursor.advance();
        }
        if order(&cursor) == Ordering::Equal {
            if !schema.same_columns(value, &cursor.value) {
                problems.report(|| format!("the entry of row {} has other included values", show(key)));
            }
            cursor.advance();
        } else {
            problems.report(|| format!("row {} has no entry", show(key)));
        }
    });
    while !cursor.key.is_empty() {
        lookup.check_unexpected(&cursor.key, problems);
        cursor.advance();
    }
}

/// Looks up the rows that entries point to.
struct Lookup<'t> {
    table: OpenTable,
    tree: Tree<'t>,
    slot: Slot,
    fetch: Fetch,
    snapshot: Registered,
}

impl<'t> Lookup<'t> {
    fn new(table: &OpenTable, tree: Tree<'t>, snapshot: Registered) -> Self {
        Lookup {
            table: table.clone(),
            tree,
            slot: Slot::new(table.get()),
            fetch: Fetch::begin(table),
            snapshot,
        }
    }

    /// Checks an entry of no row that the snapshot sees: it must not point to such a row, nor to an address that may be
    /// given to another one.
    fn check_unexpected(&mut self, key: &[u8], problems: &mut Problems) {
        // What is found is true of this entry only if it was there all the time.
        if self.problem_of(key).is_some()
            && self.is_there(key)
            && let Some(problem) = self.problem_of(key)
        {
            problems.report(|| problem);
        }
    }

    fn problem_of(&mut self, key: &[u8]) -> Option<String> {
        let row = match row_of(key) {
            Ok(row) => row,
            Err(damage) => return Some(damage.to_string()),
        };
        let (block, offset) = heap::tid_parts(row);
        let entry = format!("an entry points to row ({block},{offset})");
        if block >= self.table.get().blocks() {
            return Some(format!("{entry}, after the table's end"));
        }
        if heap::is_reusable(self.table.get(), row) {
            return Some(format!("{entry}, which is free for reuse"));
        }
        let seen = self.fetch.chain(row, self.snapshot.get(), &mut self.slot, None);
        self.slot.clear();
        seen.then(|| format!("{entry}, which has other values"))
    }

    /// Whether an entry is in the index now.
    fn is_there(&self, key: &[u8]) -> bool {
        let (tree, schema) = (&self.tree, self.tree.schema);
        let (from, to) = (schema.before_key(key), schema.after_key(key));
        let page: Page<Shared> = tree.descend(&from, Side::After, 0, None, false).page;
        tree.checked(page.block(), tree.leaf(&page).select(schema, &from, &to)).len() > 0
    }
}

/// Checks an index and, if `heapallindexed` asks for that, compares it with its table.
fn check_index(index_oid: pg_sys::Oid, heapallindexed: bool, problems: &mut Vec<String>) {
    let table = OpenTable::open(catalog::table_of_index(index_oid), LockMode::AccessShare);
    let open = OpenIndex::open(index_oid, LockMode::AccessShare);
    let index = open.get();
    // Left over from a CREATE INDEX CONCURRENTLY that failed in its first pass: it is neither read nor written.
    if !index.is_ready() {
        return;
    }
    let mut found = Problems::of(index.shown());
    if vector_am::is_own_index(index_oid) {
        vector_am::check(&table, index, heapallindexed, &mut found);
        return problems.append(&mut found.into_messages());
    }
    let schema = Schema::of(index);
    let tree = Tree::new(index, &schema);
    check_tree(tree, &mut found);
    // A tree that cannot be read to its end cannot be compared with the table.
    if heapallindexed && found.is_empty() && index.is_valid() {
        content(&table, tree, &mut found);
    }
    problems.append(&mut found.into_messages());
}

/// The indexes of a relation that are ours: itself, or all those of a table.
fn indexes_of(relation: pg_sys::Oid) -> Vec<pg_sys::Oid> {
    let open = OpenRelation::open(relation, LockMode::AccessShare);
    if open.get().kind() != pg_sys::RELKIND_INDEX {
        let mut indexes = open.get().indexes();
        indexes.retain(|oid| is_own_index(*oid) || vector_am::is_own_index(*oid));
        return indexes;
    }
    if !vector_am::is_own_index(relation) {
        expect_own_index(relation);
    }
    vec![relation]
}

pg_function! {
    /// `treedb.check(regclass, bool) RETURNS SETOF text`: what is wrong with an index, or with those of a table.
    fn treedb_check(args: [Oid, Bool]) -> Set {
        let (relation, heapallindexed) = (args.oid(0), args.bool(1));
        let mut rows = Rows::begin(args);
        let mut problems = Vec::new();
        catalog::expect_owner(relation);
        for index in indexes_of(relation) {
            check_index(index, heapallindexed, &mut problems);
        }
        for problem in problems {
            rows.put(problem.as_bytes());
        }
        rows.finish()
    }
}
