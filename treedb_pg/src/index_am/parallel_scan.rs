//! Parallel scans: several processes read the leaves of one scan.
//!
//! Each leaf is read by one process, whichever takes its turn when the scan reaches it; so each of them returns its
//! entries in the order of the index, and all together return each entry once. A process that has the turn reads its
//! leaf, then passes on where the scan goes on: beside the leaf, at the next range, or nowhere. All processes make the
//! same ranges of the same conditions, so a range is known by its number. A key goes along with the next leaf's number,
//! because the leaf may have been split in between.

use treedb_query::access::Direction;

use super::cursor::{Cursor, LeafPage};
use super::entry_reader::{Beside, EntryReader};
use super::tree::Walk;
use crate::shim::parallel_scan::{Place, SharedScan};

impl EntryReader<'_> {
    /// The next leaf for this process, and where its entries begin; `None` at the end.
    pub(super) fn take_leaf(
        &self,
        shared: SharedScan<'_>,
        direction: Direction,
    ) -> Option<(Cursor, Option<usize>)> {
        let (turn, place) = shared.take()?;
        let found = match place {
            Place::Beginning => self.first_range(direction).and_then(|range| self.enter(range, direction)),
            Place::Range(range) => self.enter(range, direction),
            Place::Beside { range, block, key, leaves } => {
                let beside = Beside { block, bound: key, walk: Walk::of(leaves) };
                let cursor = self.open_beside(beside, range, direction);
                cursor.map(|cursor| Self::begin(cursor, direction))
            }
        };
        turn.pass_on(
            found.as_ref().and_then(|(cursor, _)| self.place_after(cursor.page(), direction)).as_ref(),
        );
        found
    }

    /// Where a scan goes on after a leaf.
    fn place_after(&self, page: &LeafPage, direction: Direction) -> Option<Place> {
        let range = page.range();
        match self.beside(page, direction) {
            Some(Beside { block, bound, walk }) => {
                Some(Place::Beside { range, block, key: bound, leaves: walk.pages() })
            }
            None => self.range_after(range, direction).map(Place::Range),
        }
    }
}
