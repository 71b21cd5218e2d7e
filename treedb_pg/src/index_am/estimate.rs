//! How many entries lie between two positions, from two descents: exact within one leaf, otherwise as if all pages of
//! a level held as many entries. How many entries there are at all is what the server has counted, extrapolated to the
//! pages that there are now, or as if all leaves were like those at the two positions.

use super::boundary::{Boundary, Side};
use super::leaf::LeafView;
use super::meta::Meta;
use super::range::Range;
use super::tree::{Reached, Tree};
use crate::pages::page::View;
use crate::shim::buffer::{Page, Shared};

/// Where a boundary is in the tree.
struct Rank {
    /// The part of all entries that lie before it, from 0 to 1.
    part: f64,
    /// The leaf, and how many of its entries lie before the boundary.
    leaf: u32,
    place: usize,
    /// About how many entries the tree has.
    entries: f64,
}

impl Tree<'_> {
    /// About how many entries lie in a range.
    pub(super) fn estimate(&self, range: &Range) -> u64 {
        let (low, high) = (self.rank(&range.low), self.rank(&range.high));
        if low.leaf == high.leaf {
            return high.place.saturating_sub(low.place) as u64;
        }
        // The leaves at the boundaries say little of the others: a build ends a leaf where a value ends.
        let entries = self.index.extrapolated_rows().unwrap_or((low.entries + high.entries) / 2.0);
        ((high.part - low.part) * entries).max(1.0) as u64
    }

    fn rank(&self, boundary: &Boundary) -> Rank {
        let (mut part, mut width) = (0.0, 1.0);
        let mut level = self.height();
        while level > 0 {
            let page: Page<Shared> = self.descend(boundary, Side::After, level, None, false).page;
            let block = page.block();
            let branch = self.checked(block, self.view(&page).branch(self.schema.keys));
            let child = self.checked_node(block, self.schema.child(&branch, boundary, Side::After));
            width /= (branch.count() + 1) as f64;
            part += width * child as f64;
            level -= 1;
        }
        let Reached { page, .. } = self.descend::<Shared>(boundary, Side::After, 0, None, false);
        let block = page.block();
        let view: View<'_> = self.view(&page);
        let leaf = self.checked(block, LeafView::open(&view, self.schema.keys));
        let before = leaf.select(self.schema, &Boundary::Start, boundary).map(|selection| selection.len());
        let place = self.checked(block, before);
        let count = self.checked(block, leaf.all(self.schema)).len();
        part += width * place as f64 / count.max(1) as f64;
        Rank { part, leaf: block, place, entries: count.max(1) as f64 / width }
    }

    /// How many levels there are above the leaves.
    pub(super) fn height(&self) -> u16 {
        self.index.cached_root().map_or_else(|| self.meta().level, |(_, level)| level)
    }

    /// The same for the planner; see [`Tree::known_meta`].
    pub(super) fn known_height(&self) -> Option<u16> {
        match self.index.cached_root() {
            Some((_, level)) => Some(level),
            None => self.known_meta().map(|meta| meta.level),
        }
    }

    /// The meta page for the planner, which asks it of indexes that a query does not use in the end: `None` where it is
    /// damaged or of another version, which is an error for those that read the index.
    pub(super) fn known_meta(&self) -> Option<Meta> {
        let page: Page<Shared> = Page::read_top(self.index, 0);
        Meta::read(page.bytes()).ok()
    }
}
