//! Reading an index in order.
//!
//! A scan copies a leaf's bytes at once and returns its matching entries one by one. Forward it continues at the page's
//! right neighbour, backward by a new descent to the position before the page. Either way it remembers the keys at
//! which the page began and ended, so that it can continue whatever happened to the page in between: entries move only
//! to the right, and only within those limits.
//!
//! While entries of a page are returned to a scan that does not check the rows' visibility with an MVCC snapshot
//! (or does not read the rows at all), the page stays pinned: a vacuum that would remove the entries waits for the pin
//! before it lets the table reuse the addresses.
//!
//! Entries whose rows the executor found dead to every transaction are marked when the scan leaves their page, if the
//! page has not changed meanwhile: an address in it could be another row's otherwise.

use std::cell::Cell;
use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::Arc;

use pgrx::{check_for_interrupts, pg_sys};
use treedb_query::access::Direction;

use super::batch::{Batch, PlaceInBatch};
use super::boundary::{Boundary, Side};
use super::leaf::{self, LeafView, Place, Selection};
use super::range::Conditions;
use super::schema::{ADDRESS, Schema, row_of};
use super::tree::{Reached, Tree};
use super::unique_keys;
use crate::pages::page::{Damage, View, ViewMut, flag};
use crate::shim::buffer::{self, Exclusive, PAGE_SIZE, Page, Pin, Shared};
use crate::shim::index_scan::{Bitmap, Scan};
use crate::shim::parallel_scan::SharedScan;
use crate::shim::relation::{Index, Relation};
use crate::shim::snapshot::{self, Snapshot};
use crate::shim::wal::{Change, Content};
use crate::shim::{error, heap};

/// A leaf as a scan found it, and which of its entries are in the scan's range.
pub(super) struct LeafPage {
    block: u32,
    kept: Kept,
    wal_position: u64,
    /// Whether entries may be marked.
    marked: bool,
    entries: Selection,
    /// Number of the range they are of.
    range: usize,
    /// Where the leaf's keys begin, if a scan backward read it.
    lower_bound: LowerBound,
    /// Where the leaf ends for this scan, if not at its own bound: a scan backward comes from there.
    until: Option<Vec<u8>>,
    /// The right neighbour when the leaf was read, if the leaf counts up to its own bound.
    next: Option<u32>,
}

/// What is known of where a leaf's keys begin.
#[derive(Clone)]
enum LowerBound {
    Unknown,
    /// At the left end of the index.
    Open,
    At(Vec<u8>),
}

impl LowerBound {
    fn found(bound: Option<Vec<u8>>) -> Self {
        bound.map_or(LowerBound::Open, LowerBound::At)
    }
}

/// What a scan keeps of a leaf.
enum Kept {
    /// All bytes of the page.
    Page(Vec<u8>),
    /// The rows of the entries: of a range that lies within the leaf, and has few of them, no more is needed.
    Rows(Vec<pg_sys::ItemPointerData>),
}

/// Called for each entry with its row and its key without the row (shortened if it was too long to be stored).
pub(crate) type Visit<'v, E> = dyn FnMut(pg_sys::ItemPointerData, &[u8]) -> Result<ControlFlow<()>, E> + 'v;

/// Entries whose rows are kept without the page.
const FEW: usize = 4;

impl LeafPage {
    /// Number of the range that its entries are of.
    pub(super) fn range(&self) -> usize {
        self.range
    }

    #[inline]
    fn view(&self, tree: &Tree<'_>) -> View<'_> {
        let bytes: &[u8] = if let Kept::Page(bytes) = &self.kept { bytes } else { &[] };
        tree.checked(self.block, View::open(bytes))
    }

    #[inline]
    fn leaf(&self, tree: &Tree<'_>) -> LeafView<'_> {
        tree.checked(self.block, LeafView::open(&self.view(tree), tree.schema.keys))
    }
}

/// A scan's position. Its pin is not released when this is dropped, see [`Cursor::leave`].
pub(super) struct Cursor {
    page: Arc<LeafPage>,
    /// The entry returned last.
    at: usize,
    /// Keeps a vacuum from the page.
    pin: Option<Pin>,
    /// The entries of the page whose rows are dead to every transaction.
    dead: Vec<usize>,
}

impl Cursor {
    /// The leaf.
    pub(super) fn page(&self) -> &LeafPage {
        &self.page
    }

    /// The same cursor, pinned once more.
    fn again(&self) -> Cursor {
        Cursor {
            page: Arc::clone(&self.page),
            at: self.at,
            pin: self.pin.as_ref().map(Pin::again),
            dead: Vec::new(),
        }
    }

    /// Marks the entries of dead rows and releases the pin.
    pub(super) fn leave(self, tree: Option<&Tree<'_>>) {
        if let Some(tree) = tree
            && !self.dead.is_empty()
        {
            tree.mark_dead(&self.page, &self.dead, self.pin.is_some());
        }
        if let Some(pin) = self.pin {
            pin.release();
        }
    }

    /// Where in the page the entry is.
    fn place(&self) -> Option<Place> {
        self.page.entries.place(self.at)
    }

    /// The row of the entry; `buffer` may be used for its key.
    #[inline]
    pub(super) fn row(&self, tree: &Tree<'_>, buffer: &mut Vec<u8>) -> Option<pg_sys::ItemPointerData> {
        if let Kept::Rows(rows) = &self.page.kept {
            return rows.get(self.at).copied();
        }
        let place = self.place()?;
        Some(tree.checked(self.page.block, self.page.leaf(tree).row(place, buffer)))
    }
}

impl Tree<'_> {
    /// Marks entries of a leaf that a scan has read, unless it has changed since. `pinned` tells that the scan has kept
    /// the page pinned: then no address in it can have become another row's.
    fn mark_dead(&self, page: &LeafPage, dead: &[usize], pinned: bool) {
        let logged = self.index.is_logged();
        if !pinned && !logged {
            return;
        }
        let Some(mut now) = Page::<Exclusive>::try_read(self.index, page.block) else { return };
        let same = match &page.kept {
            _ if logged => now.wal_position() == page.wal_position,
            Kept::Page(bytes) => now.bytes() == bytes,
            Kept::Rows(_) => false,
        };
        if !same {
            return;
        }
        let leaf = self.leaf(&now);
        let places: Vec<Place> = dead
            .iter()
            .filter_map(|i| page.entries.place(*i))
            .filter(|place| !self.checked(page.block, leaf.is_marked(*place)))
            .collect();
        if places.is_empty() {
            return;
        }
        let mut change = Change::begin(self.index);
        let [copy] = change.pages([(&mut now, Content::Edited)]);
        let mut copy = self.checked(page.block, ViewMut::open(copy));
        for place in places {
            self.checked(page.block, leaf::mark(&mut copy, place));
        }
        change.commit();
    }
}

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
                None => unique_keys::rows(Tree::new(scan.index(), &self.schema), &keys, None),
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
            keys,
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
        if let Kept::Rows(rows) = &page.kept {
            let Some(row) = rows.get(cursor.at) else { return false };
            expect_row(scan.table(), tree, page.block, *row);
            scan.found(*row, None);
            return true;
        }
        let leaf = page.leaf(tree);
        let columns = schema.fixed_columns();
        let (mut at, mut previous) = (Some(cursor.at), None);
        while let Some(place) = at.and_then(|at| page.entries.place(at)).filter(|_| !batch.is_full()) {
            let here = at.unwrap_or_default();
            at = match direction {
                Direction::Forward => here.checked_add(1),
                Direction::Backward => here.checked_sub(1),
            };
            // The reader has seen that the first one matches.
            if here != cursor.at && !reader.matches(page, &leaf, place, key) {
                continue;
            }
            let row = if keys {
                tree.checked(page.block, leaf.key_after(previous.replace(place), place, key));
                let entry =
                    columns.and_then(|columns| scan.form_fixed_entry(columns, key)).unwrap_or_else(|| {
                        let value = tree.checked(page.block, leaf.value(place));
                        scan.form_entry(|| schema.values(key, value))
                    });
                let row =
                    row_of(key).ok_or_else(|| Damage::new("an entry with a row's address", "a shorter one"));
                (row, Some(entry))
            } else {
                (leaf.row(place, key), None)
            };
            batch.push(here, tree.checked(page.block, row.0), row.1);
        }
        if let Some(row) = batch.last_block() {
            expect_row(scan.table(), tree, page.block, row);
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

/// Raises an error if the table has no block that the row could be in: only a damaged entry can point
/// there, since a table is truncated only while no other backend reads it.
fn expect_row(table: Option<Relation<'_>>, tree: &Tree<'_>, leaf: u32, row: pg_sys::ItemPointerData) {
    let (block, offset) = heap::tid_parts(row);
    if table.is_some_and(|table| !buffer::has_block(table, block)) {
        let what = format!("an entry is of row ({block},{offset}), which is not in the table");
        error::corrupted(&tree.name(), leaf, what);
    }
}

/// Reads the entries that match a scan's conditions.
pub(super) struct EntryReader<'s> {
    pub(super) tree: Tree<'s>,
    pub(super) conditions: &'s Conditions,
    /// Keys of entries are read, not only rows.
    pub(super) keys: bool,
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

/// Where a range goes on after a leaf, or before it in a scan backward.
pub(super) struct Beside {
    /// The next leaf, if it is known.
    pub(super) block: Option<u32>,
    /// Where the leaf that was read ends (or begins).
    pub(super) boundary: Boundary,
}

impl<'s> EntryReader<'s> {
    /// Of one process, with rows alone, without a pin and with all entries.
    pub(super) fn new(tree: Tree<'s>, conditions: &'s Conditions) -> Self {
        EntryReader {
            tree,
            conditions,
            keys: false,
            pin: false,
            snapshot: None,
            skip_dead: false,
            shared: None,
            searches: Cell::new(0),
        }
    }

    /// Copies a leaf with the entries of range number `range`. With `until`, the leaf counts only up to there. `spare`
    /// is a page whose memory may be used again.
    fn load(
        &self,
        page: Page<Shared>,
        lower_bound: LowerBound,
        range: usize,
        until: Option<Vec<u8>>,
        spare: Option<Arc<LeafPage>>,
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
        let few = entries.len() <= FEW && !self.keys && !marked && self.conditions.are_ranges();
        let kept = if few && until.is_none() && entries.begins_inside() && ends_inside() {
            let mut key = Vec::new();
            let places = (0..entries.len()).filter_map(|i| entries.place(i));
            Kept::Rows(places.map(|place| tree.checked(block, leaf.row(place, &mut key))).collect())
        } else {
            let mut bytes = match spare.and_then(Arc::into_inner).map(|spare| spare.kept) {
                Some(Kept::Page(spare)) => spare,
                _ => Vec::with_capacity(PAGE_SIZE),
            };
            bytes.clear();
            bytes.extend_from_slice(page.bytes());
            Kept::Page(bytes)
        };
        let pinned = self.pin && entries.len() > 0;
        let copy = LeafPage { block, kept, wal_position, marked, entries, range, lower_bound, until, next };
        let pin = pinned.then(|| page.into_pin());
        Some(Cursor { page: Arc::new(copy), at: 0, pin, dead: Vec::new() })
    }

    /// The leaf where range number `range` begins (forward) or ends.
    fn first(&self, range: usize, direction: Direction, spare: Option<Arc<LeafPage>>) -> Option<Cursor> {
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
        self.load(page, lower_bound, range, None, spare)
    }

    /// Where the range of a leaf goes on beside it, if it does.
    pub(super) fn beside(&self, page: &LeafPage, direction: Direction) -> Option<Beside> {
        if let Kept::Rows(_) = page.kept {
            return None;
        }
        let bounds = self.conditions.ranges.get(page.range)?;
        let schema = self.tree.schema;
        match direction {
            Direction::Forward => {
                let bound = page.until.as_deref().or_else(|| page.view(&self.tree).bound())?;
                let goes_on = schema.order(bound, &bounds.high) == Ordering::Less;
                goes_on.then(|| Beside { block: page.next, boundary: schema.before_key(bound) })
            }
            Direction::Backward => {
                let lower_bound = self.lower_bound(page)?;
                let goes_on = schema.order(&lower_bound, &bounds.low) == Ordering::Greater;
                goes_on.then(|| Beside { block: None, boundary: schema.before_owned_key(lower_bound) })
            }
        }
    }

    /// Opens the leaf beside another one.
    pub(super) fn open_beside(
        &self,
        beside: Beside,
        range: usize,
        direction: Direction,
        spare: Option<Arc<LeafPage>>,
    ) -> Option<Cursor> {
        let Beside { block, boundary } = beside;
        match direction {
            Direction::Forward => {
                let page = match block {
                    Some(next) => {
                        self.tree.move_right(self.tree.read(next), &boundary, Side::After, false, None)
                    }
                    None => self.tree.descend(&boundary, Side::After, 0, None, false).page,
                };
                self.load(page, LowerBound::Unknown, range, None, spare)
            }
            Direction::Backward => {
                let reached = self.tree.descend(&boundary, Side::Before, 0, None, true);
                let below = LowerBound::found(reached.lower_bound);
                let until = boundary.key().map(<[u8]>::to_vec);
                self.load(reached.page, below, range, until, spare)
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

    /// Whether an entry matches all conditions; `key` is for its key.
    #[inline]
    fn matches(&self, page: &LeafPage, leaf: &LeafView<'_>, place: Place, key: &mut Vec<u8>) -> bool {
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
                let at = match direction {
                    Direction::Forward => Some(cursor.at + 1),
                    Direction::Backward => cursor.at.checked_sub(1),
                };
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
            (cursor, at) = self.next_leaf(page, direction)?;
        }
    }

    /// The first leaf.
    fn begin_scan(&self, direction: Direction) -> Option<(Cursor, Option<usize>)> {
        match self.shared {
            Some(shared) => self.take_leaf(shared, direction, None),
            None => self.enter(self.first_range(direction)?, direction, None),
        }
    }

    /// The leaf after or before another one, in its range or in the next one that has a leaf.
    fn next_leaf(&self, page: Arc<LeafPage>, direction: Direction) -> Option<(Cursor, Option<usize>)> {
        if let Some(shared) = self.shared {
            return self.take_leaf(shared, direction, Some(page));
        }
        let range = page.range;
        match self.beside(&page, direction) {
            Some(beside) => {
                let next = self.open_beside(beside, range, direction, Some(page))?;
                Some(Self::begin(next, direction))
            }
            None => self.enter(self.range_after(range, direction)?, direction, None),
        }
    }

    /// Shows the entries of the cursor's page, from the cursor's own on, to `visit`, until it breaks or fails. The
    /// cursor is at the last one then, and `key` is used for keys.
    pub(super) fn visit_page<E>(
        &self,
        cursor: &mut Cursor,
        direction: Direction,
        key: &mut Vec<u8>,
        visit: &mut Visit<'_, E>,
    ) -> Result<ControlFlow<()>, E> {
        let page = Arc::clone(&cursor.page);
        let (tree, leaf) = (&self.tree, page.leaf(&self.tree));
        let mut at = Some(cursor.at);
        while let Some(here) = at
            && let Some(place) = page.entries.place(here)
        {
            cursor.at = here;
            if self.matches(&page, &leaf, place, key) {
                let row = leaf.key_into(place, key).and_then(|()| {
                    row_of(key).ok_or_else(|| Damage::new("an entry with a row's address", "a shorter one"))
                });
                let row = tree.checked(page.block, row);
                if visit(row, key.get(..key.len() - ADDRESS).unwrap_or(&[]))?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            at = match direction {
                Direction::Forward => Some(here + 1),
                Direction::Backward => here.checked_sub(1),
            };
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The first entry of a page from number `at` on that matches all conditions.
    fn first_match(
        &self,
        page: &LeafPage,
        mut at: Option<usize>,
        direction: Direction,
        key: &mut Vec<u8>,
    ) -> Option<usize> {
        if let Kept::Rows(rows) = &page.kept {
            return at.filter(|at| *at < rows.len());
        }
        let leaf = page.leaf(&self.tree);
        loop {
            let here = at?;
            if self.matches(page, &leaf, page.entries.place(here)?, key) {
                return Some(here);
            }
            at = match direction {
                Direction::Forward => Some(here + 1),
                Direction::Backward => here.checked_sub(1),
            };
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
    pub(super) fn enter(
        &self,
        mut range: usize,
        direction: Direction,
        spare: Option<Arc<LeafPage>>,
    ) -> Option<(Cursor, Option<usize>)> {
        let mut spare = spare;
        loop {
            if let Some(cursor) = self.first(range, direction, spare.take()) {
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
