//! Where a scan is: on an entry of a leaf, of which it has kept what it needs.
//!
//! Entries whose rows the executor found dead to every transaction are marked when the scan leaves their page, if the
//! page has not changed meanwhile: an address in it could be another row's otherwise.

use std::cell::Cell;
use std::sync::Arc;

use pgrx::pg_sys;
use treedb_query::access::Direction;

use super::leaf::{self, LeafView, Place, Selection};
use super::schema::{ADDRESS, row_of};
use super::tree::{Tree, Walk};
use crate::pages::page::{Damage, View, ViewMut};
use crate::shim::buffer::{Exclusive, Page, Pin};
use crate::shim::fault;
use crate::shim::wal::{PageImage, Write, write};

/// A leaf as a scan found it, and which of its entries are in the scan's range.
pub(super) struct LeafPage {
    pub(super) block: u32,
    pub(super) kept: Kept,
    pub(super) wal_position: u64,
    /// Whether entries may be marked.
    pub(super) marked: bool,
    pub(super) entries: Selection,
    /// Number of the range they are of.
    pub(super) range: usize,
    /// Where the leaf's keys begin, if a scan backward read it.
    pub(super) lower_bound: LowerBound,
    /// Where the leaf ends for this scan, if not at its own bound: a scan backward comes from there.
    pub(super) until: Option<Vec<u8>>,
    /// The right neighbour when the leaf was read, if the leaf counts up to its own bound.
    pub(super) next: Option<u32>,
    /// The leaves up to this one, of a scan that goes on in the direction in which it read it.
    pub(super) walk: Walk,
}

/// What is known of where a leaf's keys begin.
#[derive(Clone)]
pub(super) enum LowerBound {
    Unknown,
    /// At the left end of the index.
    Open,
    At(Vec<u8>),
}

impl LowerBound {
    pub(super) fn found(bound: Option<Vec<u8>>) -> Self {
        bound.map_or(LowerBound::Open, LowerBound::At)
    }
}

/// What a scan keeps of a leaf.
pub(super) enum Kept {
    /// All bytes of the page.
    Page(PageCopy),
    /// The entries: of a range that lies within the leaf, and has few of them, no more is needed.
    Few(FewEntries),
}

/// The rows of [`FEW`] entries at most, and their keys where they are wanted.
#[derive(Default)]
pub(super) struct FewEntries {
    rows: [pg_sys::ItemPointerData; FEW],
    /// Where the key of each ends in `keys`.
    ends: [usize; FEW],
    len: usize,
    /// The keys, without rows.
    keys: Vec<u8>,
}

impl FewEntries {
    /// Adds an entry, with its key if that is wanted; nothing if there is no place for it.
    pub(super) fn push(&mut self, leaf: &LeafView<'_>, place: Place, with_key: bool) -> Result<(), Damage> {
        let (Some(row), Some(end)) = (self.rows.get_mut(self.len), self.ends.get_mut(self.len)) else {
            return Ok(());
        };
        let from = self.keys.len();
        if with_key {
            leaf.append_key(place, &mut self.keys)?;
            *row = row_of(&self.keys)?;
            self.keys.truncate(from.max(self.keys.len().saturating_sub(ADDRESS)));
        } else {
            *row = leaf.row(place, &mut self.keys)?;
            self.keys.truncate(from);
        }
        *end = self.keys.len();
        self.len += 1;
        Ok(())
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The row of entry `at`.
    pub(super) fn row(&self, at: usize) -> Option<pg_sys::ItemPointerData> {
        self.rows.get(..self.len)?.get(at).copied()
    }

    /// The key of entry `at`, without the row.
    pub(super) fn key(&self, at: usize) -> &[u8] {
        let from = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.ends.get(at).and_then(|end| self.keys.get(from..*end)).unwrap_or(&[])
    }
}

/// A copy of a page, in memory that the next copy uses again.
pub(super) struct PageCopy(Vec<u8>);

thread_local! {
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl PageCopy {
    pub(super) fn of(page: &[u8]) -> PageCopy {
        let mut bytes = SPARE.take();
        bytes.clear();
        bytes.extend_from_slice(page);
        PageCopy(bytes)
    }
}

impl Drop for PageCopy {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.0);
        // Where the thread ends, there is no place for it any more.
        let _ = SPARE.try_with(|spare| spare.set(bytes));
    }
}

/// Entries that are kept without their page.
pub(super) const FEW: usize = 4;

impl LeafPage {
    /// The direction in which a scan read it.
    fn direction(&self) -> Direction {
        match self.lower_bound {
            LowerBound::Unknown => Direction::Forward,
            LowerBound::Open | LowerBound::At(_) => Direction::Backward,
        }
    }

    /// The walk that a scan goes on with from here: a new one where it turns round.
    pub(super) fn walk(&self, direction: Direction) -> Walk {
        if direction == self.direction() { self.walk } else { Walk::default() }
    }

    /// Number of the range that its entries are of.
    pub(super) fn range(&self) -> usize {
        self.range
    }

    #[inline]
    pub(super) fn view(&self, tree: &Tree<'_>) -> View<'_> {
        let bytes: &[u8] = if let Kept::Page(copy) = &self.kept { &copy.0 } else { &[] };
        tree.checked(self.block, View::open(bytes))
    }

    #[inline]
    pub(super) fn leaf(&self, tree: &Tree<'_>) -> LeafView<'_> {
        tree.checked(self.block, LeafView::open(&self.view(tree), tree.schema.keys))
    }
}

/// A scan's position. Its pin is not released when this is dropped, see [`Cursor::leave`].
pub(super) struct Cursor {
    pub(super) page: Arc<LeafPage>,
    /// The entry returned last.
    pub(super) at: usize,
    /// Keeps a vacuum from the page.
    pub(super) pin: Option<Pin>,
    /// The entries of the page whose rows are dead to every transaction.
    pub(super) dead: Vec<usize>,
}

impl Cursor {
    /// The leaf.
    pub(super) fn page(&self) -> &LeafPage {
        &self.page
    }

    /// The same cursor, pinned once more.
    pub(super) fn again(&self) -> Cursor {
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
        if let Kept::Few(few) = &self.page.kept {
            return few.row(self.at);
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
            Kept::Page(copy) => now.bytes() == copy.0,
            Kept::Few(_) => false,
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
        let mut image = PageImage::of(now.bytes());
        let mut marked = self.checked(page.block, ViewMut::open(&mut image));
        for place in places {
            self.checked(page.block, leaf::mark(&mut marked, place));
        }
        write(self.index, &mut [(&mut now, Write::Content(&image))]);
        fault::point("entries_marked");
    }
}
