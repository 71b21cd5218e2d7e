//! Reads the entries of ranges, leaf by leaf, both ways.
//!
//! What is needed of a leaf is copied at once, and its matching entries are returned one by one. Forward the reader
//! continues at the page's right neighbour, backward by a new descent to the position before the page. Either way it
//! remembers the keys at which the page began and ended, so that it can continue whatever happened to the page in between:
//! entries move only to the right, and only within those limits.

use std::cell::Cell;
use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::Arc;

use pgrx::{check_for_interrupts, pg_sys};
use treedb_query::access::{Direction, RowId};

use super::boundary::{Boundary, Side};
use super::cursor::{Cursor, FEW, FewEntries, Kept, LeafPage, LowerBound, PageCopy};
use super::leaf::{LeafView, Place};
use super::range::Conditions;
use super::schema::{ADDRESS, row_id, row_of, row_of_id};
use super::tree::{Reached, Tree, Walk};
use crate::pages::page::{Damage, flag};
use crate::shim::buffer::{self, Page, Shared};
use crate::shim::parallel_scan::SharedScan;
use crate::shim::relation::Relation;
use crate::shim::snapshot::{self, Snapshot};

/// Called for each entry with its row and its key without the row (shortened if it was too long to be stored).
pub(crate) type Visit<'v, E> = dyn FnMut(pg_sys::ItemPointerData, &[u8]) -> Result<ControlFlow<()>, E> + 'v;

/// Reads the entries that match a scan's conditions.
pub(super) struct EntryReader<'s> {
    pub(super) tree: Tree<'s>,
    pub(super) conditions: &'s Conditions,
    /// The table, if [`Self::visit_page`] and [`Self::page_rows`] have to see that it has the rows.
    pub(super) table: Option<Relation<'s>>,
    /// What is read of entries.
    pub(super) wanted: Wanted,
    /// Keep the page pinned.
    pub(super) pin: bool,
    /// Whose entries these are; `None` if that is decided elsewhere.
    pub(super) snapshot: Option<Snapshot<'s>>,
    /// Leave entries out that are marked as dead.
    pub(super) skip_dead: bool,
    /// Other processes read leaves of the same scan.
    pub(super) shared: Option<SharedScan<'s>>,
    /// How many ranges were searched for from the root.
    pub(super) searches: Cell<u32>,
}

/// What is read of entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wanted {
    Rows,
    /// And keys.
    Keys,
    /// And values.
    Entries,
}

/// Where a range goes on after a leaf, or before it in a scan backward.
pub(super) struct Beside {
    /// The next leaf, if it is known.
    pub(super) block: Option<u32>,
    /// Where the leaf that was read ends (or begins), as pages have their bounds.
    pub(super) bound: Vec<u8>,
    /// The leaves up to there.
    pub(super) walk: Walk,
}

impl<'s> EntryReader<'s> {
    /// Of one process, with rows alone, without a pin and with all entries.
    pub(super) fn new(tree: Tree<'s>, conditions: &'s Conditions) -> Self {
        EntryReader {
            tree,
            conditions,
            table: None,
            wanted: Wanted::Rows,
            pin: false,
            snapshot: None,
            skip_dead: false,
            shared: None,
            searches: Cell::new(0),
        }
    }

    /// Keeps of a leaf, to which a `walk` has come, the entries of range number `range`. With `until`, the leaf counts
    /// only up to there.
    fn load(
        &self,
        page: Page<Shared>,
        lower_bound: LowerBound,
        range: usize,
        until: Option<Vec<u8>>,
        walk: Walk,
    ) -> Option<Cursor> {
        let block = page.block();
        snapshot::expect_not_too_old(self.snapshot, self.tree.index, &page);
        let bounds = self.conditions.ranges.get(range)?;
        let (tree, schema) = (&self.tree, self.tree.schema);
        let view = tree.view(&page);
        let leaf = tree.checked(block, LeafView::open(&view, schema.keys));
        let before_until;
        let high = match &until {
            // Whichever is lower.
            Some(until) if schema.order(until, &bounds.high) == Ordering::Less => {
                before_until = schema.before_key(until);
                &before_until
            }
            _ => &bounds.high,
        };
        let entries = tree.checked(block, leaf.select(schema, &bounds.low, high));
        // On a standby the neighbour may be reused as soon as the latch is released.
        let next = view.next().filter(|_| until.is_none() && !snapshot::in_recovery());
        let (wal_position, marked) = (page.wal_position(), view.has(flag::MARKED));
        let ends_inside = || view.bound().is_none_or(|bound| schema.order(bound, high) != Ordering::Less);
        let few = entries.len() <= FEW
            && self.wanted != Wanted::Entries
            && !marked
            && self.conditions.are_ranges()
            && until.is_none();
        let kept = if few && entries.begins_inside() && ends_inside() {
            let mut kept = FewEntries::default();
            for place in (0..entries.len()).filter_map(|i| entries.place(i)) {
                tree.checked(block, kept.push(&leaf, place, self.wanted == Wanted::Keys));
            }
            Kept::Few(kept)
        } else {
            Kept::Page(PageCopy::of(page.bytes()))
        };
        let pinned = self.pin && entries.len() > 0;
        let copy =
            LeafPage { block, kept, wal_position, marked, entries, range, lower_bound, until, next, walk };
        let pin = pinned.then(|| page.into_pin());
        Some(Cursor { page: Arc::new(copy), at: 0, pin, dead: Vec::new() })
    }

    /// The leaf where range number `range` begins (forward) or ends.
    fn first(&self, range: usize, direction: Direction) -> Option<Cursor> {
        let bounds = self.conditions.ranges.get(range)?;
        self.searches.update(|count| count + 1);
        let (page, lower_bound) = match direction {
            Direction::Forward => {
                let reached = self.tree.descend(&bounds.low, Side::After, 0, None, false);
                (reached.page, LowerBound::Unknown)
            }
            Direction::Backward => {
                let Reached { page, lower_bound } =
                    self.tree.descend(&bounds.high, Side::Before, 0, None, true);
                (page, LowerBound::found(lower_bound))
            }
        };
        self.load(page, lower_bound, range, None, Walk::default())
    }

    /// Where the range of a leaf goes on beside it, if it does.
    pub(super) fn beside(&self, page: &LeafPage, direction: Direction) -> Option<Beside> {
        if let Kept::Few(_) = page.kept {
            return None;
        }
        let bounds = self.conditions.ranges.get(page.range)?;
        let (schema, walk) = (self.tree.schema, page.walk(direction));
        match direction {
            Direction::Forward => {
                let bound = page.until.as_deref().or_else(|| page.view(&self.tree).bound())?;
                let goes_on = schema.order(bound, &bounds.high) == Ordering::Less;
                goes_on.then(|| Beside { block: page.next, bound: bound.to_vec(), walk })
            }
            Direction::Backward => {
                let lower_bound = self.lower_bound(page)?;
                let goes_on = schema.order(&lower_bound, &bounds.low) == Ordering::Greater;
                goes_on.then_some(Beside { block: None, bound: lower_bound, walk })
            }
        }
    }

    /// Opens the leaf beside another one.
    pub(super) fn open_beside(&self, beside: Beside, range: usize, direction: Direction) -> Option<Cursor> {
        let Beside { block, bound, mut walk } = beside;
        let boundary = self.tree.schema.before_key(&bound);
        match direction {
            Direction::Forward => {
                let page = match block {
                    Some(next) => {
                        self.tree.move_right(self.tree.read(next), &boundary, Side::After, false, None)
                    }
                    None => self.tree.descend(&boundary, Side::After, 0, None, false).page,
                };
                walk.step(&self.tree, page.block());
                self.load(page, LowerBound::Unknown, range, None, walk)
            }
            Direction::Backward => {
                let reached = self.tree.descend(&boundary, Side::Before, 0, None, true);
                walk.step(&self.tree, reached.page.block());
                let below = LowerBound::found(reached.lower_bound);
                self.load(reached.page, below, range, Some(bound), walk)
            }
        }
    }

    /// Where the keys of a leaf begin; `None` at the left end of the index.
    fn lower_bound(&self, page: &LeafPage) -> Option<Vec<u8>> {
        match &page.lower_bound {
            LowerBound::At(bound) => return Some(bound.clone()),
            LowerBound::Open => return None,
            LowerBound::Unknown => {}
        }
        // A scan that turns round, having read the page forward: its first key will do.
        let (tree, leaf) = (&self.tree, page.leaf(&self.tree));
        let all = tree.checked(page.block, leaf.select(tree.schema, &Boundary::Start, &Boundary::End));
        let mut key = Vec::new();
        tree.checked(page.block, leaf.key_into(all.place(0)?, &mut key));
        Some(key)
    }

    /// Whether all entries of a page's selection match all conditions.
    pub(super) fn matches_all(&self, page: &LeafPage) -> bool {
        self.conditions.are_ranges() && !(self.skip_dead && page.marked)
    }

    /// Whether an entry matches all conditions; `key` is for its key.
    #[inline]
    pub(super) fn matches(
        &self,
        page: &LeafPage,
        leaf: &LeafView<'_>,
        place: Place,
        key: &mut Vec<u8>,
    ) -> bool {
        let (tree, block) = (&self.tree, page.block);
        if self.skip_dead && page.marked && tree.checked(block, leaf.is_marked(place)) {
            return false;
        }
        if self.conditions.are_ranges() {
            return true;
        }
        tree.checked(block, leaf.key_into(place, key));
        self.conditions.matches(tree.schema, key)
    }

    /// The next entry from `cursor` (or from the beginning), on whatever page it is. `key` is for keys of entries.
    pub(super) fn next(
        &self,
        cursor: Option<Cursor>,
        direction: Direction,
        key: &mut Vec<u8>,
    ) -> Option<Cursor> {
        // Where to go on in the cursor's page.
        let (mut cursor, mut at) = match cursor {
            Some(cursor) => {
                let at = beside(cursor.at, direction);
                (cursor, at)
            }
            None => self.begin_scan(direction)?,
        };
        loop {
            if let Some(found) = self.first_match(&cursor.page, at, direction, key) {
                cursor.at = found;
                return Some(cursor);
            }
            check_for_interrupts!();
            let page = Arc::clone(&cursor.page);
            cursor.leave(Some(&self.tree));
            (cursor, at) = self.next_leaf(&page, direction)?;
        }
    }

    /// The leaf where a scan forward begins.
    pub(super) fn first_leaf(&self) -> Option<Cursor> {
        self.begin_scan(Direction::Forward).map(|(cursor, _)| cursor)
    }

    /// The leaf after that of a cursor, which is left.
    pub(super) fn leaf_after(&self, cursor: Cursor) -> Option<Cursor> {
        let page = Arc::clone(&cursor.page);
        cursor.leave(Some(&self.tree));
        self.next_leaf(&page, Direction::Forward).map(|(cursor, _)| cursor)
    }

    /// The first leaf.
    fn begin_scan(&self, direction: Direction) -> Option<(Cursor, Option<usize>)> {
        match self.shared {
            Some(shared) => self.take_leaf(shared, direction),
            None => self.enter(self.first_range(direction)?, direction),
        }
    }

    /// The leaf after or before another one, in its range or in the next one that has a leaf.
    fn next_leaf(&self, page: &LeafPage, direction: Direction) -> Option<(Cursor, Option<usize>)> {
        if let Some(shared) = self.shared {
            return self.take_leaf(shared, direction);
        }
        let range = page.range;
        match self.beside(page, direction) {
            Some(beside) => {
                let next = self.open_beside(beside, range, direction)?;
                Some(Self::begin(next, direction))
            }
            None => self.enter(self.range_after(range, direction)?, direction),
        }
    }

    /// Shows the entries of the cursor's page, from the cursor's own on, to `visit`, until it breaks or fails. The
    /// cursor is at the last one then, and `key` is used for keys, which are read and passed on only `with_keys`.
    pub(super) fn visit_page<E>(
        &self,
        cursor: &mut Cursor,
        direction: Direction,
        with_keys: bool,
        key: &mut Vec<u8>,
        visit: &mut Visit<'_, E>,
    ) -> Result<ControlFlow<()>, E> {
        let page = Arc::clone(&cursor.page);
        let mut at = Some(cursor.at);
        if let Kept::Few(few) = &page.kept {
            while let Some(here) = at
                && let Some(row) = few.row(here)
            {
                cursor.at = here;
                self.expect_row(&page, row);
                if visit(row, few.key(here))?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                at = beside(here, direction);
            }
            return Ok(ControlFlow::Continue(()));
        }
        let (tree, leaf) = (&self.tree, page.leaf(&self.tree));
        while let Some(here) = at
            && let Some(place) = page.entries.place(here)
        {
            cursor.at = here;
            if self.matches(&page, &leaf, place, key) {
                let read = match with_keys {
                    true => key_and_row(&leaf, place, key),
                    false => leaf.row(place, key).map(|row| (row, &[][..])),
                };
                let (row, key) = tree.checked(page.block, read);
                self.expect_row(&page, row);
                if visit(row, key)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            at = beside(here, direction);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Appends the rows of the cursor's page to `rows`. The conditions must be ranges.
    pub(super) fn page_rows(&self, cursor: &Cursor, rows: &mut Vec<RowId>) {
        let page = &cursor.page;
        let before = rows.len();
        match &page.kept {
            Kept::Few(few) => rows.extend((0..few.len()).filter_map(|at| few.row(at)).map(row_id)),
            Kept::Page(_) => {
                let found = page.leaf(&self.tree).rows(&page.entries, self.skip_dead && page.marked, rows);
                self.tree.checked(page.block, found);
            }
        }
        // Its block is the last one that there has to be.
        if let Some(last) = rows.get(before..).and_then(|rows| rows.iter().max()) {
            self.expect_row(page, row_of_id(*last));
        }
    }

    /// Raises an error if the table does not have a row of a page.
    #[inline]
    fn expect_row(&self, page: &LeafPage, row: pg_sys::ItemPointerData) {
        if let Some(table) = self.table {
            buffer::expect_row(table, self.tree.index, page.block, row);
        }
    }

    /// The key of the entry that a cursor is at, without the row; keys are wanted of the entries.
    pub(super) fn key<'k>(&self, cursor: &'k Cursor, buffer: &'k mut Vec<u8>) -> &'k [u8] {
        let page = &cursor.page;
        match &page.kept {
            Kept::Few(few) => few.key(cursor.at),
            Kept::Page(_) => {
                let leaf = page.leaf(&self.tree);
                let place = page.entries.place(cursor.at);
                place.map_or(&[], |place| self.tree.checked(page.block, key_and_row(&leaf, place, buffer)).1)
            }
        }
    }

    /// The first entry of a page from number `at` on that matches all conditions.
    fn first_match(
        &self,
        page: &LeafPage,
        mut at: Option<usize>,
        direction: Direction,
        key: &mut Vec<u8>,
    ) -> Option<usize> {
        if let Kept::Few(few) = &page.kept {
            return at.filter(|at| *at < few.len());
        }
        let leaf = page.leaf(&self.tree);
        loop {
            let here = at?;
            if self.matches(page, &leaf, page.entries.place(here)?, key) {
                return Some(here);
            }
            at = beside(here, direction);
        }
    }

    /// A cursor on a new page, and its first entry.
    pub(super) fn begin(cursor: Cursor, direction: Direction) -> (Cursor, Option<usize>) {
        let at = match direction {
            Direction::Forward => Some(0),
            Direction::Backward => cursor.page.entries.len().checked_sub(1),
        };
        (cursor, at)
    }

    /// The beginning of the first range from number `range` on that has a page.
    pub(super) fn enter(&self, mut range: usize, direction: Direction) -> Option<(Cursor, Option<usize>)> {
        loop {
            if let Some(cursor) = self.first(range, direction) {
                return Some(Self::begin(cursor, direction));
            }
            range = self.range_after(range, direction)?;
        }
    }

    pub(super) fn first_range(&self, direction: Direction) -> Option<usize> {
        let last = self.conditions.ranges.len().checked_sub(1)?;
        Some(if direction == Direction::Forward { 0 } else { last })
    }

    pub(super) fn range_after(&self, range: usize, direction: Direction) -> Option<usize> {
        match direction {
            Direction::Forward => Some(range + 1).filter(|range| *range < self.conditions.ranges.len()),
            Direction::Backward => range.checked_sub(1),
        }
    }
}

/// The number of the entry after or before another one.
pub(super) fn beside(at: usize, direction: Direction) -> Option<usize> {
    match direction {
        Direction::Forward => at.checked_add(1),
        Direction::Backward => at.checked_sub(1),
    }
}

/// The row of an entry and its key without the row, which is read into `buffer`.
fn key_and_row<'k>(
    leaf: &LeafView<'_>,
    place: Place,
    buffer: &'k mut Vec<u8>,
) -> Result<(pg_sys::ItemPointerData, &'k [u8]), Damage> {
    leaf.key_into(place, buffer)?;
    let row = row_of(buffer)?;
    Ok((row, buffer.get(..buffer.len() - ADDRESS).unwrap_or(&[])))
}
