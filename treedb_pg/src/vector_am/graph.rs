//! The graph as it is read from pages: one page at a time is latched, so that what others change meanwhile never blocks a
//! reader for long. A node that was removed meanwhile is infinitely far and has no row.

use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::rc::Rc;

use pgrx::{check_for_interrupts, pg_sys};
use treedb_vector::code::{self, Coded};
use treedb_vector::graph::Nodes;
use treedb_vector::kernel::Kernels;

use super::meta::Meta;
use super::record::{self, EXACT, Layout, Place, Slots, above, node};
use crate::pages::page::{Damage, View};
use crate::shim::buffer::{LockMode, Page, RecentBuffers, Shared, has_block};
use crate::shim::error;
use crate::shim::relation::Index;

/// An index whose meta page has been read.
pub(super) struct Graph<'i> {
    pub(super) index: Index<'i>,
    pub(super) meta: Meta,
    pub(super) layout: Layout,
    kernels: Kernels,
    /// Unless its buffers are local.
    recent: Option<Rc<RefCell<RecentBuffers>>>,
}

/// Where the pages of indexes were last.
type RecentOfIndexes = HashMap<pg_sys::Oid, Rc<RefCell<RecentBuffers>>>;

thread_local! {
    /// Of the indexes that this backend has read. An OID may be reused for another index; stale entries are harmless,
    /// because the server checks each buffer.
    static RECENT: RefCell<RecentOfIndexes> = RefCell::default();
}

/// Indexes that are remembered, so that a backend that reads many does not keep memory for each.
const MOST_INDEXES: usize = 64;

fn recent_of(all: &mut RecentOfIndexes, index: pg_sys::Oid) -> Rc<RefCell<RecentBuffers>> {
    if all.len() >= MOST_INDEXES && !all.contains_key(&index) {
        all.clear();
    }
    all.entry(index).or_default().clone()
}

/// What a search looks for.
#[derive(Clone, Copy)]
pub(super) struct Query<'q> {
    /// A vector, of length 1 where only its direction counts, and its codes; without one, all nodes are as far.
    pub(super) vector: Option<(&'q [f32], Coded<'q>)>,
}

impl<'i> Graph<'i> {
    /// Reads the meta page.
    pub(super) fn open(index: Index<'i>) -> Graph<'i> {
        let meta = Meta::of(index);
        let known = || RECENT.with_borrow_mut(|recent| recent_of(recent, index.oid()));
        let recent = (!index.is_temporary()).then(known);
        Graph { index, meta, layout: meta.layout(), kernels: Kernels::best(), recent }
    }

    /// Reads and latches a page of slots of one kind.
    pub(super) fn page<L: LockMode>(&self, slots: Slots, block: u32) -> Page<L> {
        if block == 0 || !has_block(*self.index, block) {
            error::corrupted(
                &self.index.shown(),
                block,
                "a slot is said to be on this page, which is none of slots",
            );
        }
        let page: Page<L> = Page::read(self.index, block);
        let found = checked(self.index, block, View::open(page.bytes())).level();
        if found != slots as u16 {
            let what = format!("expected a page of {slots:?}, found one of kind {found}");
            error::corrupted(&self.index.shown(), block, what);
        }
        page
    }

    /// Reads a slot.
    #[inline]
    pub(super) fn read<R>(&self, slots: Slots, place: Place, read: impl FnOnce(&[u8]) -> R) -> R {
        let page: Page<Shared> = self.page(slots, place.block);
        read(self.layout.slot(slots, page.bytes(), place.slot))
    }

    /// Reads a node to compare it. What kind of page it is on is not checked, which would be one more cache line to wait
    /// for: it is before the node's links or its row are read.
    #[inline]
    fn glance<R>(&self, node: u32, read: impl FnOnce(&[u8]) -> R) -> R {
        let place = self.layout.place(node);
        let page: Page<Shared> = match &self.recent {
            Some(recent) => Page::read_recent(self.index, place.block, &mut recent.borrow_mut()),
            None => Page::read(self.index, place.block),
        };
        read(self.layout.slot(Slots::Nodes, page.bytes(), place.slot))
    }

    /// Reads a node.
    #[inline]
    pub(super) fn node<R>(&self, node: u32, read: impl FnOnce(&[u8]) -> R) -> R {
        self.read(Slots::Nodes, self.layout.place(node), read)
    }

    /// Where the links of a node in a level are: what the slot is, where, and where in it. `None` if it is not in that
    /// level, or not any more.
    pub(super) fn links_at(&self, node: u32, level: u8) -> Option<(Slots, Place, usize)> {
        if level == 0 {
            return Some((Slots::Nodes, self.layout.place(node), node::COUNT));
        }
        let mut place = self.node(node, |slot| record::row(slot).and_then(|_| record::above_place(slot)))?;
        for _ in 1..level {
            place = self.read(Slots::Above, place, record::next_place)?;
        }
        Some((Slots::Above, place, above::COUNT))
    }

    /// The row of a node, and its vector, which is written over `vector`; `None` if the node was removed.
    pub(super) fn row(&self, node: u32, vector: &mut Vec<f32>) -> Option<pg_sys::ItemPointerData> {
        let (row, place) = self.node(node, |slot| {
            let row = record::row(slot)?;
            if self.layout.exact {
                let mut buffer = [0.0; EXACT];
                vector.clear();
                vector.extend_from_slice(self.layout.floats(slot, &mut buffer));
            }
            Some((row, record::vector_place(slot)))
        })?;
        let Some(place) = place else { return Some(row) };
        let row_bytes = record::row_bytes(row);
        self.read(Slots::Vectors, place, |slot| {
            // Both may have become another row's in between.
            let same = slot.starts_with(&row_bytes);
            record::elements(slot, self.layout.dimensions, vector);
            same.then_some(row)
        })
    }
}

/// The value read from a page, or an SQL error that the page is damaged.
pub(super) fn checked<T>(index: Index<'_>, block: u32, read: Result<T, Damage>) -> T {
    match read {
        Ok(read) => read,
        Err(damage) if damage.other_version => error::other_version(&index.shown(), damage),
        Err(damage) => error::corrupted(&index.shown(), block, damage),
    }
}

impl Nodes for Graph<'_> {
    type Node = u32;
    type Query<'q> = Query<'q>;
    /// The server's errors unwind.
    type Error = Infallible;

    /// Read again: vacuum may have moved it since the index was opened.
    fn entry(&self) -> Result<Option<(u32, u8)>, Infallible> {
        Ok(Meta::of(self.index).entry)
    }

    fn links(&self, node: u32, level: u8, out: &mut Vec<u32>) -> Result<(), Infallible> {
        check_for_interrupts!();
        out.clear();
        if let Some((slots, place, count)) = self.links_at(node, level) {
            self.read(slots, place, |slot| out.extend(record::links(slot, count).map(|link| link.node)));
        }
        Ok(())
    }

    #[inline]
    fn score(&self, query: &Query<'_>, node: u32) -> Result<f32, Infallible> {
        let metric = self.meta.kind.metric;
        Ok(self.glance(node, |slot| match (record::row(slot), query.vector) {
            (None, _) => f32::INFINITY,
            (Some(_), None) => 0.0,
            (Some(_), Some((vector, _))) if self.layout.exact => {
                let mut buffer = [0.0; EXACT];
                metric.score(&self.kernels, self.layout.floats(slot, &mut buffer), vector, 1.0)
            }
            (Some(_), Some((_, coded))) => code::score(metric, &self.kernels, self.layout.coded(slot), coded),
        }))
    }

    fn prefetch(&self, _: u32) {}

    fn prefetch_links(&self, _: u32) {}
}

impl Graph<'_> {
    /// How far two nodes are from each other, of which the bytes are given.
    pub(super) fn between(&self, a: &[u8], b: &[u8]) -> f32 {
        if self.layout.exact {
            let (mut x, mut y) = ([0.0; EXACT], [0.0; EXACT]);
            let (a, b) = (self.layout.floats(a, &mut x), self.layout.floats(b, &mut y));
            return self.meta.kind.metric.score(&self.kernels, a, b, 1.0);
        }
        let (a, b) = (self.layout.coded(a), self.layout.coded(b));
        code::score(self.meta.kind.metric, &self.kernels, a, b)
    }
}
