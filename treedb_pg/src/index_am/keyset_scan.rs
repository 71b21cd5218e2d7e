//! Reading an index of key sets in the order of its keys, as queries over documents do.
//!
//! Entries are passed on without regard to visibility; the caller checks each row against its own snapshot. That must
//! be an MVCC snapshot where pages are not pinned, as they can be vacuumed meanwhile.

use std::ops::ControlFlow;

use pgrx::{check_for_interrupts, pg_sys};
use treedb_query::access::{Direction, KeyRange, RowId, after_prefix};
use treedb_query::index::ordered::OtherTypes;

use super::boundary::Boundary;
use super::entry_reader::{EntryReader, Visit, Wanted};
use super::meta::{Meta, fact};
use super::range::{Conditions, Range};
use super::schema::{Schema, append_address, shortened};
pub(crate) use super::schema::{row_id, row_of_id};
use super::tree::Tree;
use crate::shim::buffer;
use crate::shim::relation::{Index, Relation};
use crate::shim::snapshot::{self, Snapshot};

/// Properties that hold for all entries of an index.
pub(crate) struct Facts {
    /// Some row may have several entries.
    pub(crate) multikey: bool,
    /// Entries come in the order of their keys.
    pub(crate) ordered: bool,
    /// Unless rows may have several entries: which values have other types than their keys tell; `None` if that is not known.
    pub(crate) types: Option<OtherTypes>,
}

/// Whether an index of this extension is one of key sets.
pub(crate) fn is_of_key_sets(index: Index<'_>) -> bool {
    Schema::of(index).is_multikey()
}

/// Reads the properties of an index of key sets.
pub(crate) fn facts(index: Index<'_>) -> Facts {
    let schema = Schema::of_key_sets();
    Facts::of(Tree::new(index, &schema).meta())
}

/// The same for the planner; see [`Tree::known_meta`].
pub(crate) fn known_facts(index: Index<'_>) -> Option<Facts> {
    let schema = Schema::of_key_sets();
    Tree::new(index, &schema).known_meta().map(Facts::of)
}

impl Facts {
    fn of(meta: Meta) -> Facts {
        let facts = meta.facts;
        let others = OtherTypes::from_bits((facts >> fact::OTHER_TYPES_SHIFT) as u8);
        Facts {
            multikey: facts & fact::MULTIKEY != 0,
            ordered: facts & fact::SHORTENED == 0,
            types: (facts & fact::TYPED != 0).then_some(others),
        }
    }
}

/// Whether an index has entries with `key` only for rows that have this very key: longer ones are shortened.
pub(crate) fn is_whole(key: &[u8]) -> bool {
    shortened(key).len() == key.len()
}

/// Called for the rows of a leaf.
type VisitRows<'v, E> = dyn FnMut(&[RowId]) -> Result<ControlFlow<()>, E> + 'v;

/// A scan of the entries in a range that a snapshot may need.
pub(crate) struct KeysetScan<'s> {
    pub(crate) index: Index<'s>,
    pub(crate) table: Relation<'s>,
    pub(crate) snapshot: Snapshot<'s>,
    pub(crate) range: &'s KeyRange,
    pub(crate) direction: Direction,
    /// Begin after this entry.
    pub(crate) after: Option<(&'s [u8], pg_sys::ItemPointerData)>,
    /// Keep the page of an entry pinned while it is visited, so that no vacuum removes the entry and lets the table reuse
    /// its row's address meanwhile.
    pub(crate) pin: bool,
}

impl KeysetScan<'_> {
    /// Shows the entries to `visit`.
    pub(crate) fn entries<E>(&self, visit: &mut Visit<'_, E>) -> Result<(), E> {
        self.walk(true, visit).map(drop)
    }

    /// Shows their rows to `visit`. If it breaks, the key of the entry at which it did is returned.
    pub(crate) fn rows<E>(
        &self,
        visit: &mut dyn FnMut(pg_sys::ItemPointerData) -> Result<ControlFlow<()>, E>,
    ) -> Result<Option<Vec<u8>>, E> {
        self.walk(false, &mut |row, _| visit(row))
    }

    /// Passes their rows to `visit` leaf by leaf, forward from the beginning of the range.
    pub(crate) fn leaves<E>(&self, visit: &mut VisitRows<'_, E>) -> Result<(), E> {
        let schema = Schema::of_key_sets();
        let conditions = Conditions::range(bounds_of(self.range));
        let reader = self.reader(&schema, &conditions, Wanted::Rows);
        let mut rows = Vec::new();
        let mut leaf = reader.first_leaf();
        while let Some(cursor) = leaf {
            check_for_interrupts!();
            rows.clear();
            reader.page_rows(&cursor, &mut rows);
            let flow = if rows.is_empty() { Ok(ControlFlow::Continue(())) } else { visit(&rows) };
            if !matches!(flow, Ok(ControlFlow::Continue(()))) {
                cursor.leave(None);
                return flow.map(drop);
            }
            leaf = reader.leaf_after(cursor);
        }
        Ok(())
    }

    /// Begins to read.
    fn reader<'r>(
        &'r self,
        schema: &'r Schema,
        conditions: &'r Conditions,
        wanted: Wanted,
    ) -> EntryReader<'r> {
        self.index.count_scan();
        EntryReader {
            table: Some(self.table),
            wanted,
            pin: self.pin,
            snapshot: Some(self.snapshot),
            skip_dead: !snapshot::began_in_recovery(),
            ..EntryReader::new(Tree::new(self.index, schema), conditions)
        }
    }

    fn walk<E>(&self, with_keys: bool, visit: &mut Visit<'_, E>) -> Result<Option<Vec<u8>>, E> {
        let direction = self.direction;
        let schema = Schema::of_key_sets();
        let mut bounds = bounds_of(self.range);
        if let Some((key, row)) = self.after {
            let mut entry = shortened(key).to_vec();
            append_address(row, &mut entry);
            match direction {
                Direction::Forward => bounds.low = schema.after_key(&entry),
                Direction::Backward => bounds.high = schema.before_key(&entry),
            }
        }
        let conditions = Conditions::range(bounds);
        let reader = self.reader(&schema, &conditions, Wanted::Keys);
        let mut buffer = Vec::new();
        let mut cursor = reader.next(None, direction, &mut buffer);
        while let Some(mut here) = cursor {
            let flow = reader.visit_page(&mut here, direction, with_keys, &mut buffer, visit);
            if !matches!(flow, Ok(ControlFlow::Continue(()))) {
                let last = flow.map(|_| Some(reader.key(&here, &mut buffer).to_vec()));
                here.leave(None);
                return last;
            }
            cursor = reader.next(Some(here), direction, &mut buffer);
        }
        Ok(None)
    }
}

/// The rows that have one of these keys, perhaps: keys may be stored shortened. `but` is left out. `table` has them, if it is known.
pub(super) fn rows_with<'k>(
    tree: Tree<'_>,
    table: Option<Relation<'_>>,
    keys: impl Iterator<Item = &'k [u8]>,
    but: Option<pg_sys::ItemPointerData>,
) -> Vec<pg_sys::ItemPointerData> {
    let mut rows = Vec::new();
    let mut buffer = Vec::new();
    for key in keys {
        // No key is the beginning of another: what comes after it in an entry is the row's address.
        let kept = shortened(key);
        let low = Boundary::Bytes(kept.to_vec());
        let high = after_prefix(kept).map_or(Boundary::End, Boundary::Bytes);
        let conditions = Conditions::range(Range { low, high });
        let tree = Tree::new(tree.index, tree.schema);
        let reader = EntryReader { skip_dead: true, ..EntryReader::new(tree, &conditions) };
        let mut cursor = reader.next(None, Direction::Forward, &mut buffer);
        while let Some(here) = cursor {
            let row = here.row(&reader.tree, &mut buffer);
            if let (Some(table), Some(row)) = (table, row) {
                buffer::expect_row(table, tree.index, here.page.block, row);
            }
            rows.extend(row);
            cursor = reader.next(Some(here), Direction::Forward, &mut buffer);
        }
    }
    let number = |row: &pg_sys::ItemPointerData| crate::shim::heap::tid_parts(*row);
    rows.retain(|row| but.is_none_or(|but| number(&but) != number(row)));
    rows.sort_by_key(number);
    rows.dedup_by_key(|row| number(row));
    rows
}

/// About how many entries lie in `range`.
pub(crate) fn estimate(index: Index<'_>, range: &KeyRange) -> u64 {
    let schema = Schema::of_key_sets();
    Tree::new(index, &schema).estimate(&bounds_of(range))
}

/// A range of keys as one of entries.
fn bounds_of(range: &KeyRange) -> Range {
    Range { low: Boundary::Bytes(shortened(&range.low).to_vec()), high: high(range.high.as_deref()) }
}

/// The upper end of a range. A stored key may be the beginning of a limit that is longer than keys are stored: then
/// everything that begins so is in.
fn high(limit: Option<&[u8]>) -> Boundary {
    let Some(limit) = limit else { return Boundary::End };
    let kept = shortened(limit);
    if kept.len() == limit.len() {
        return Boundary::Bytes(limit.to_vec());
    }
    after_prefix(kept).map_or(Boundary::End, Boundary::Bytes)
}
