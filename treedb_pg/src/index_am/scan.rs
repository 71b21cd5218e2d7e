//! Scans of the server's: entries in the order of the index, one after the other.
//!
//! While entries of a page are returned to a scan that does not check the rows' visibility with an MVCC snapshot
//! (or does not read the rows at all), the page stays pinned: a vacuum that would remove the entries waits for the pin
//! before it lets the table reuse the addresses.

use std::sync::Arc;

use pgrx::pg_sys;
use treedb_formats::packed::big_endian;
use treedb_query::access::Direction;

use super::batch::{Batch, PlaceInBatch};
use super::cursor::{Cursor, Kept};
use super::entry_reader::{EntryReader, Wanted, beside};
use super::leaf::{LeafView, Selection};
use super::range::Conditions;
use super::schema::{Schema, row_of};
use super::tree::Tree;
use super::unique_keys;
use crate::pages::page::Damage;
use crate::shim::buffer;
use crate::shim::index_scan::{Bitmap, Scan};
use crate::shim::relation::Index;
use crate::shim::snapshot::Snapshot;

/// A scan of the server's. It may be dropped after the transaction has been aborted, so it does not release its pins
/// then: [`State::end`] does that, or the end of the transaction.
pub(super) struct State {
    schema: Schema,
    conditions: Option<Conditions>,
    cursor: Option<Cursor>,
    marked: Option<Marked>,
    /// For the key of an entry.
    key: Vec<u8>,
    batch: Batch,
    /// Of a scan of key sets: the rows still to be returned, as soon as they are read.
    overlapping: Option<Vec<pg_sys::ItemPointerData>>,
}

/// The entry that a scan remembers.
enum Marked {
    /// On the cursor's page.
    Here {
        at: usize,
        place: PlaceInBatch,
    },
    Elsewhere(Cursor),
}

impl State {
    /// Begins a scan.
    pub(super) fn begin(index: Index<'_>) -> State {
        State {
            schema: Schema::of(index),
            conditions: None,
            cursor: None,
            marked: None,
            key: Vec::new(),
            batch: Batch::new(),
            overlapping: None,
        }
    }

    /// Ends a scan, or makes it ready for other keys.
    pub(super) fn end(&mut self, index: Index<'_>) {
        let tree = Tree::new(index, &self.schema);
        if let Some(cursor) = self.cursor.take() {
            cursor.leave(Some(&tree));
        }
        self.forget_mark();
        self.batch.reset();
        self.conditions = None;
        self.overlapping = None;
    }

    /// Reads the scan's keys, once.
    fn prepare(&mut self, scan: &Scan<'_>) {
        if self.conditions.is_none() {
            self.conditions = Some(Conditions::read(&self.schema, scan.keys()));
            scan.index().count_scan();
        }
    }

    /// Goes to the next entry, if it is at hand. Never panics, and calls nothing of the server's.
    #[inline]
    pub(super) fn next_at_hand(&mut self, scan: &mut Scan<'_>, direction: Direction) -> bool {
        if !scan.prior_is_dead()
            && let Some(cursor) = &mut self.cursor
            && let Some(at) = self.batch.next(scan, direction)
        {
            cursor.at = at;
            return true;
        }
        false
    }

    /// Goes to the next entry.
    pub(super) fn next(&mut self, scan: &mut Scan<'_>, direction: Direction) -> bool {
        if let Some(cursor) = &mut self.cursor {
            if scan.prior_is_dead() && !cursor.dead.contains(&cursor.at) {
                cursor.dead.push(cursor.at);
            }
            if let Some(at) = self.batch.next(scan, direction) {
                cursor.at = at;
                return true;
            }
        }
        self.next_batch(scan, direction)
    }

    /// Reads the next entries of a page ahead, and goes to the first of them.
    fn next_batch(&mut self, scan: &mut Scan<'_>, direction: Direction) -> bool {
        if self.schema.is_multikey()
            && let Some(keys) = unique_keys::overlapped(scan.keys())
        {
            let rows = match self.overlapping.take() {
                Some(rows) => rows,
                None if scan.snapshot().is_some_and(|snapshot| !snapshot.is_mvcc())
                    && unique_keys::is_checked(scan.index(), &keys) =>
                {
                    Vec::new()
                }
                None => unique_keys::rows(Tree::new(scan.index(), &self.schema), scan.table(), &keys, None),
            };
            return self.overlapping.insert(rows).pop().map(|row| scan.found_perhaps(row)).is_some();
        }
        self.prepare(scan);
        let State { schema, conditions: Some(conditions), cursor, marked, key, batch, .. } = self else {
            return false;
        };
        let remembered = match (&*marked, &*cursor) {
            (Some(Marked::Here { at, .. }), Some(cursor)) => Some(Cursor { at: *at, ..cursor.again() }),
            _ => None,
        };
        let keys = scan.wants_entry();
        let snapshot = scan.snapshot();
        let reader = EntryReader {
            wanted: if keys { Wanted::Entries } else { Wanted::Rows },
            // An MVCC snapshot is not deceived by an address that was reused.
            pin: keys || !snapshot.is_some_and(Snapshot::is_mvcc),
            snapshot,
            skip_dead: scan.skips_dead(),
            shared: scan.shared(),
            ..EntryReader::new(Tree::new(scan.index(), schema), conditions)
        };
        batch.begin(direction);
        scan.clear_entries();
        *cursor = reader.next(cursor.take(), direction, key);
        scan.count_searches(reader.searches.get());
        if let Some(remembered) = remembered {
            if cursor.as_ref().is_some_and(|cursor| Arc::ptr_eq(&cursor.page, &remembered.page)) {
                remembered.leave(None);
            } else {
                *marked = Some(Marked::Elsewhere(remembered));
            }
        }
        let Some(cursor) = cursor else { return false };
        let (tree, page) = (&reader.tree, &cursor.page);
        let read = match &page.kept {
            Kept::Few(few) => {
                let mut at = Some(cursor.at);
                while let Some(here) = at.filter(|at| *at < few.len() && !batch.is_full()) {
                    batch.push(here);
                    at = beside(here, direction);
                }
                batch.items().iter_mut().for_each(|item| item.row = few.row(item.at).unwrap_or(item.row));
                Ok(())
            }
            Kept::Page(_) => {
                let leaf = page.leaf(tree);
                let (mut at, all) = (Some(cursor.at), reader.matches_all(page));
                while let Some(here) = at.filter(|_| !batch.is_full())
                    && let Some(place) = page.entries.place(here)
                {
                    // The reader has seen that the first one matches.
                    if all || here == cursor.at || reader.matches(page, &leaf, place, key) {
                        batch.push(here);
                    }
                    at = beside(here, direction);
                }
                match keys {
                    true => read_entries(batch, scan, schema, &leaf, &page.entries, key),
                    false => read_rows(batch, &leaf, &page.entries, key),
                }
            }
        };
        tree.checked(page.block, read);
        if let (Some(row), Some(table)) = (batch.last_block(), scan.table()) {
            buffer::expect_row(table, tree.index, page.block, row);
        }
        batch.next(scan, direction).is_some()
    }

    /// Puts all rows into a bitmap; returns how many.
    pub(super) fn bitmap(&mut self, scan: &Scan<'_>, bitmap: &mut Bitmap<'_>) -> i64 {
        self.prepare(scan);
        let State { schema, conditions: Some(conditions), key, .. } = self else { return 0 };
        let reader = EntryReader {
            snapshot: scan.snapshot(),
            skip_dead: scan.skips_dead(),
            ..EntryReader::new(Tree::new(scan.index(), schema), conditions)
        };
        let mut rows: Vec<pg_sys::ItemPointerData> = Vec::new();
        let (mut found, mut block) = (0, None);
        let mut cursor = reader.next(None, Direction::Forward, key);
        while let Some(here) = cursor {
            // A page at a time.
            if block.replace(here.page.block) != Some(here.page.block) {
                bitmap.add(&rows);
                rows.clear();
            }
            rows.extend(here.row(&reader.tree, key));
            found += 1;
            cursor = reader.next(Some(here), Direction::Forward, key);
        }
        bitmap.add(&rows);
        scan.count_searches(reader.searches.get());
        found
    }

    /// Remembers the entry that the scan is at, unless an entry of another page was remembered. Never panics, and calls
    /// nothing of the server's.
    #[inline]
    pub(super) fn mark_at_hand(&mut self) -> bool {
        if let Some(Marked::Elsewhere(_)) = self.marked {
            return false;
        }
        let place = self.batch.place();
        self.marked = self.cursor.as_ref().map(|cursor| Marked::Here { at: cursor.at, place });
        true
    }

    /// Remembers the entry that the scan is at.
    pub(super) fn mark(&mut self) {
        self.forget_mark();
        self.mark_at_hand();
    }

    fn forget_mark(&mut self) {
        if let Some(Marked::Elsewhere(cursor)) = self.marked.take() {
            cursor.leave(None);
        }
    }

    /// Goes back to the entry remembered.
    pub(super) fn restore(&mut self) {
        match &self.marked {
            Some(Marked::Here { at, place }) => {
                self.batch.go_back(*place);
                if let Some(cursor) = &mut self.cursor {
                    cursor.at = *at;
                }
            }
            marked => {
                let remembered = match marked {
                    Some(Marked::Elsewhere(cursor)) => Some(cursor.again()),
                    _ => None,
                };
                if let Some(cursor) = std::mem::replace(&mut self.cursor, remembered) {
                    cursor.leave(None);
                }
                self.batch.clear();
            }
        }
    }
}

/// Reads the rows of a batch's entries.
fn read_rows(
    batch: &mut Batch,
    leaf: &LeafView<'_>,
    entries: &Selection,
    key: &mut Vec<u8>,
) -> Result<(), Damage> {
    if let Some(addresses) = leaf.addresses(entries) {
        return batch.set_rows(addresses);
    }
    for item in batch.items() {
        if let Some(place) = entries.place(item.at) {
            item.row = leaf.row(place, key)?;
        }
    }
    Ok(())
}

/// Reads the rows of a batch's entries, and forms the entries for the server: all at once, where the columns are at the
/// same places in all of them.
fn read_entries(
    batch: &mut Batch,
    scan: &mut Scan<'_>,
    schema: &Schema,
    leaf: &LeafView<'_>,
    entries: &Selection,
    key: &mut Vec<u8>,
) -> Result<(), Damage> {
    let columns = schema.fixed_columns();
    if let (Some(columns), Some(addresses)) = (columns, leaf.addresses(entries))
        && let Some((first, words)) =
            scan.form_fixed_entries(columns, batch.numbers(), |at, len| leaf.numbers(entries, at, len))
    {
        batch.set_entries(first, words);
        return batch.set_rows(addresses);
    }
    let mut previous = None;
    for item in batch.items() {
        let Some(place) = entries.place(item.at) else { continue };
        leaf.key_after(previous.replace(place), place, key)?;
        item.row = row_of(key)?;
        let part = |at: usize, len| key.get(at..at + len).map(|part| move |_: usize| big_endian(part));
        let formed = columns.and_then(|columns| scan.form_fixed_entries(columns, std::iter::once(0), part));
        item.entry = Some(match formed {
            Some((at, _)) => at,
            None => {
                let value = leaf.value(place)?;
                scan.form_entry(|| schema.values(key, value))
            }
        });
    }
    Ok(())
}
