//! The graph as it is read from pages: one page at a time is latched, so that what others change meanwhile never blocks a
//! reader for long. A node that was removed meanwhile is infinitely far and has no row.

use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;

use pgrx::{check_for_interrupts, pg_sys};
use treedb_vector::centre::Centre;
use treedb_vector::code::{self, Coded, Factors};
use treedb_vector::element::Element;
use treedb_vector::graph::{Estimate, Nodes, Scored};
use treedb_vector::kernel::Kernels;
use treedb_vector::metric::Metric;
use treedb_vector::neighbour::{Rotation, Seen, Turned};

use super::centre;
use super::meta::Meta;
use super::record::{self, Layout, LinkCode, Place, Slots, above, node};
use super::upper::Upper;
use crate::pages::page::{Damage, View};
use crate::shim::buffer::{PAGE_SIZE, Page, RecentBuffers, Shared, has_block};
use crate::shim::error;
use crate::shim::relation::{Index, Relation};
use crate::shim::upcoming_rows::UpcomingRows;

/// An index whose meta page has been read.
pub(super) struct Graph<'i> {
    pub(super) index: Index<'i>,
    pub(super) meta: Meta,
    pub(super) layout: Layout,
    pub(super) kernels: Kernels,
    /// What codes are about, if not about zero.
    pub(super) centre: Option<Rc<Centre>>,
    known: Rc<Known>,
    /// A scan reads it: searches may go by what this backend remembers of the levels above 0, and scores under cosine are
    /// distances.
    for_scan: bool,
    /// The rows of the nodes that it has expanded.
    rows: RefCell<Rows>,
}

/// What a scan keeps of a node that it has expanded.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    row: pg_sys::ItemPointerData,
    /// Where its vector is, if the node does not have it.
    vector: Option<Place>,
}

/// Rows of nodes.
pub(super) type Rows = HashMap<u32, Kept, BuildHasherDefault<NodeHasher>>;

/// A hash of a node's number: which nodes a search expands is nobody's to choose.
#[derive(Default)]
pub(super) struct NodeHasher(u64);

impl Hasher for NodeHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        // Fibonacci hashing; the table goes by the lowest bits, and the highest.
        let product = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}

/// What a backend knows of an index.
#[derive(Default)]
pub(super) struct Known {
    /// Where its pages were last.
    recent: RefCell<RecentBuffers>,
    /// Where those of its table were.
    table: RefCell<UpcomingRows>,
    upper: RefCell<Upper>,
    /// Where what it has of some nodes is.
    places: RefCell<Vec<Option<usize>>>,
    work: RefCell<Work>,
    rotation: RefCell<Option<(usize, Rc<Rotation>)>>,
    pub(super) centre: RefCell<centre::Read>,
}

impl Known {
    /// Reads and latches a page that may be where it was before.
    fn page(&self, index: Index<'_>, block: u32) -> Page<Shared> {
        if index.is_temporary() {
            return Page::read(index, block);
        }
        Page::read_recent(index, block, &mut self.recent.borrow_mut())
    }
}

/// Memory for expanding a node.
#[derive(Default)]
struct Work {
    vector: Vec<f32>,
    seen: Seen,
}

thread_local! {
    /// Of the indexes that this backend has read. An OID may be reused for another index; stale entries are harmless:
    /// the server checks each buffer, and the rest is kept with what it is of.
    static KNOWN: RefCell<HashMap<u32, Rc<Known>, BuildHasherDefault<NodeHasher>>> = RefCell::default();
}

/// Indexes that are remembered, so that a backend that reads many does not keep memory for each.
const MOST_INDEXES: usize = 16;

fn known(index: Index<'_>) -> Rc<Known> {
    let oid = index.oid().to_u32();
    KNOWN.with_borrow_mut(|all| {
        // Any other one: queries may go round more indexes than that in order.
        if all.len() >= MOST_INDEXES
            && !all.contains_key(&oid)
            && let Some(other) = all.keys().nth(oid as usize % all.len()).copied()
        {
            all.remove(&other);
        }
        all.entry(oid).or_default().clone()
    })
}

/// Nodes that are asked for before the one that is compared.
const AHEAD: usize = 2;
/// Bytes of a vector that are asked for before it is read: the processor notices by itself that more is read in order.
const AHEAD_BYTES: usize = 1024;

/// What a search looks for.
#[derive(Clone, Copy)]
pub(super) struct Query<'q> {
    pub(super) vector: &'q [f32],
    /// What distances from it need beside it ([`treedb_vector::metric::Metric::squares`]).
    pub(super) squares: f32,
    /// The same of length 1 where only its direction counts.
    pub(super) direction: &'q [f32],
    pub(super) coded: Coded<'q>,
    /// The direction as estimates need it: see [`Graph::turn`].
    pub(super) turned: &'q Turned,
}

impl<'i> Graph<'i> {
    /// Reads the meta page.
    pub(super) fn open(index: Index<'i>) -> Graph<'i> {
        let meta = Graph::meta_now(index);
        Graph::of(index, meta, meta.layout(), known(index))
    }

    /// What the meta page says now.
    pub(super) fn meta_now(index: Index<'_>) -> Meta {
        Meta::on(index, &known(index).page(index, 0))
    }

    /// The same of an index whose meta page has been read: where searches begin is read again, the rest never changes.
    pub(super) fn opened(index: Index<'i>, meta: Meta, layout: Layout) -> Graph<'i> {
        Graph::of(index, meta, layout, known(index))
    }

    fn of(index: Index<'i>, meta: Meta, layout: Layout, known: Rc<Known>) -> Graph<'i> {
        let (kernels, centre) = (Kernels::best(), centre::of(index, &meta, &known));
        Graph { index, meta, layout, kernels, centre, known, for_scan: false, rows: RefCell::default() }
    }

    /// Reads the centre again that the meta page names now.
    pub(super) fn begin_centre(&mut self) {
        self.centre = centre::of(self.index, &self.meta, &self.known);
    }

    /// What scores of codes are in the order of.
    fn scores_of(&self) -> Metric {
        if self.centre.is_some() { Centre::scores_of(self.layout.metric) } else { self.layout.metric }
    }

    /// Writes the codes of a vector over `codes`; `unit` is what makes it of length 1 where only its direction counts.
    pub(super) fn encode(&self, vector: &[f32], unit: f32, codes: &mut [u8]) -> Factors {
        match &self.centre {
            Some(centre) => centre.encode(vector, unit, &mut self.known.work.borrow_mut().vector, codes),
            None => code::encode_for(self.layout.metric, Element::Float32, vector, unit, codes),
        }
    }

    /// The same of a vector that is looked for.
    pub(super) fn encode_query(&self, vector: &[f32], unit: f32, codes: &mut [u8]) -> Factors {
        match &self.centre {
            Some(centre) => {
                centre.encode_query(vector, unit, &mut self.known.work.borrow_mut().vector, codes)
            }
            None => self.encode(vector, unit, codes),
        }
    }

    /// Lets searches go by what this backend remembers of the levels above 0. That may be out of date when the index has
    /// just been changed, so it leads a search to where it begins in level 0, but is not for choosing links.
    ///
    /// `rows` are those of the nodes that the scan has expanded before.
    pub(super) fn for_scan(self, rows: Rows) -> Graph<'i> {
        Graph { for_scan: true, rows: RefCell::new(rows), ..self }
    }

    /// The rows of the nodes that have been expanded.
    pub(super) fn into_rows(self) -> Rows {
        self.rows.into_inner()
    }

    /// The rotation of the index's vectors.
    pub(super) fn rotation(&self) -> Rc<Rotation> {
        let mut known = self.known.rotation.borrow_mut();
        match &*known {
            Some((dimensions, rotation)) if *dimensions == self.layout.dimensions => rotation.clone(),
            _ => {
                let rotation = Rc::new(Rotation::new(self.layout.dimensions));
                *known = Some((self.layout.dimensions, rotation.clone()));
                rotation
            }
        }
    }

    /// Rotates the direction of a query, or its difference from the centre, if that is done once for all nodes.
    pub(super) fn turn(&self, direction: &[f32], turned: &mut Turned) {
        if self.layout.code.is_some_and(LinkCode::is_prepared) {
            let (kernels, rotation) = (&self.kernels, self.rotation());
            match &self.centre {
                Some(centre) => {
                    let pairs = direction.iter().zip(centre.elements());
                    turned.turn(kernels, &rotation, pairs.map(|(element, centre)| element - centre));
                }
                None => turned.turn(kernels, &rotation, direction.iter().copied()),
            }
        }
    }

    /// Reads and latches a page that may be where it was before.
    fn page_again(&self, block: u32) -> Page<Shared> {
        self.known.page(self.index, block)
    }

    /// Reads and latches a page of slots of one kind.
    pub(super) fn page(&self, slots: Slots, block: u32) -> Page<Shared> {
        if block == 0 || !has_block(*self.index, block) {
            error::corrupted(
                &self.index.shown(),
                block,
                "a slot is said to be on this page, which is none of slots",
            );
        }
        let page = self.page_again(block);
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
        let page = self.page(slots, place.block);
        read(self.layout.slot(slots, page.bytes(), place.slot))
    }

    /// Reads a node to compare it. What kind of page it is on is not checked, which would be one more cache line to wait
    /// for: it is before the node's links or its row are read.
    #[inline]
    fn glance<R>(&self, node: u32, read: impl FnOnce(&[u8]) -> R) -> R {
        let place = self.layout.place(node);
        let page = self.page_again(place.block);
        read(self.layout.slot(Slots::Nodes, page.bytes(), place.slot))
    }

    /// Asks for what [`Graph::glance`] reads of a node, before it is needed.
    #[inline]
    fn fetch(&self, node: u32) {
        if !self.index.is_temporary() {
            let place = self.layout.place(node);
            let slot = self.layout.offset(Slots::Nodes, place.slot);
            let body = slot + self.layout.body_at()..slot + self.layout.size(Slots::Nodes);
            self.known.recent.borrow().prefetch(place.block, slot, body);
        }
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

    /// The row of a node that a search has found, and how far it is, as a number in the order of the distance; `None` if the
    /// node was removed.
    pub(super) fn row(
        &self,
        found: Scored,
        query: Option<&Query<'_>>,
        other: &mut Vec<f32>,
    ) -> Option<(f32, pg_sys::ItemPointerData)> {
        let in_order = self.layout.finds_in_order();
        // As it was when the node was expanded. It may have been removed since: then its row is one that no snapshot of now sees.
        let kept = self.rows.borrow_mut().remove(&found.node);
        let target = query.filter(|_| !in_order).map(|query| (query.vector, query.squares));
        match (kept, target) {
            (Some(kept), _) if in_order => Some((found.score, kept.row)),
            (Some(Kept { row, vector: Some(place) }), Some(_)) => self.row_at(place, row, target, other),
            (_, Some(_)) => self.row_by_vector(found.node, target, other),
            (_, None) => Some((found.score, self.node(found.node, record::row)?)),
        }
    }

    /// The row of a node, and how far its vector is from another one with what distances from that need beside it, as a number in the order
    /// of the distance; `None` if the node was removed.
    pub(super) fn row_by_vector(
        &self,
        node: u32,
        target: Option<(&[f32], f32)>,
        other: &mut Vec<f32>,
    ) -> Option<(f32, pg_sys::ItemPointerData)> {
        let (score, row, place) = self.node(node, |slot| {
            let row = record::row(slot)?;
            let score = match self.layout.exact {
                true => self.distance(target, self.layout.elements_in(slot, other).1),
                false => 0.0,
            };
            Some((score, row, record::vector_place(slot)))
        })?;
        match place {
            Some(place) => self.row_at(place, row, target, other),
            None => Some((score, row)),
        }
    }

    /// The same of a row whose vector is at a place of its own.
    fn row_at(
        &self,
        place: Place,
        row: pg_sys::ItemPointerData,
        target: Option<(&[f32], f32)>,
        other: &mut Vec<f32>,
    ) -> Option<(f32, pg_sys::ItemPointerData)> {
        let row_bytes = record::row_bytes(row);
        self.read(Slots::Vectors, place, |slot| {
            // Both may have become another row's in between.
            let same = slot.starts_with(&row_bytes);
            let elements = self.layout.vector_in(slot, other);
            same.then(|| (self.distance(target, elements), row))
        })
    }

    fn distance(&self, target: Option<(&[f32], f32)>, elements: &[f32]) -> f32 {
        target.map_or(0.0, |from| self.layout.metric.distance_from(&self.kernels, from, elements))
    }

    /// Asks for the page of a row of the index's table that a scan will return.
    pub(super) fn prefetch_page(&self, table: Relation<'_>, row: pg_sys::ItemPointerData) {
        self.known.table.borrow_mut().prefetch_page(table, row);
    }

    /// Asks for the row itself, some time after its page.
    pub(super) fn prefetch_row(&self, row: pg_sys::ItemPointerData) {
        self.known.table.borrow().prefetch_row(row);
    }

    /// Asks for the vector of a node that has been expanded, before [`Graph::row`] reads it.
    pub(super) fn fetch_vector(&self, node: u32) {
        if let Some(Kept { vector: Some(place), .. }) = self.rows.borrow().get(&node)
            && !self.index.is_temporary()
        {
            let from = self.layout.offset(Slots::Vectors, place.slot);
            let part = from..from + self.layout.size(Slots::Vectors).min(AHEAD_BYTES);
            self.known.recent.borrow().prefetch(place.block, PAGE_SIZE - 1, part);
        }
    }

    /// How far two vectors are from each other, which are as [`Layout::vector`] reads them.
    pub(super) fn between(&self, a: &[f32], b: &[f32]) -> f32 {
        let metric = self.layout.metric;
        match &self.centre {
            // These are differences from it, and scores those of codes of them.
            Some(centre) if !self.layout.exact => match metric {
                Metric::InnerProduct => {
                    let dot = |a: &[f32], b: &[f32]| (self.kernels.dot)(a, b);
                    -2.0 * (dot(a, b) + dot(centre.elements(), a) + dot(centre.elements(), b))
                }
                _ => Centre::scores_of(metric).score(&self.kernels, a, b, 1.0),
            },
            _ => metric.score(&self.kernels, a, b, 1.0),
        }
    }

    /// The score of a node above level 0, whose vector is remembered from now on.
    fn score_above(&self, query: &Query<'_>, node: u32) -> f32 {
        // What is remembered of links may be out of date.
        if !has_block(*self.index, self.layout.place(node).block) {
            return f32::INFINITY;
        }
        let vector = &mut self.known.work.borrow_mut().vector;
        let is_there = self.glance(node, |slot| {
            self.layout.vector(slot, vector);
            record::row(slot).is_some()
        });
        if !is_there {
            return f32::INFINITY;
        }
        self.known.upper.borrow_mut().add_vector((&self.layout, self.centre.as_deref()), node, vector);
        // What is remembered of the others is in this order.
        let metric = if self.layout.compares_codes() { self.scores_of() } else { self.layout.metric };
        metric.score(&self.kernels, vector, query.direction, 1.0)
    }

    /// What vectors that are remembered are compared by.
    fn by(&self) -> (&Layout, &Kernels, Metric) {
        (&self.layout, &self.kernels, self.scores_of())
    }

    /// A scan's query, if searches go by what is remembered of the levels above 0. With estimates, only nodes of these are asked for
    /// their scores.
    fn remembering<'q, 'v>(&self, query: &'q Option<Query<'v>>) -> Option<&'q Query<'v>> {
        query.as_ref().filter(|_| self.for_scan && self.layout.code.is_some())
    }

    /// [`Nodes::estimates`]. Shows what makes the node's vector of length 1 and its elements to `show`, if estimates are made from
    /// them.
    pub(super) fn estimates_showing(
        &self,
        query: &Option<Query<'_>>,
        node: u32,
        out: &mut Vec<Estimate<u32>>,
        show: impl FnOnce(f32, &[f32]),
    ) -> Option<f32> {
        let (Some(code), Some(query)) = (self.layout.code, query) else { return None };
        check_for_interrupts!();
        out.clear();
        let place = self.layout.place(node);
        let page = self.page(Slots::Nodes, place.block);
        let slot = self.layout.slot(Slots::Nodes, page.bytes(), place.slot);
        let Some(row) = record::row(slot) else {
            // If what is remembered has led here, it is out of date.
            self.known.upper.borrow_mut().clear();
            return Some(f32::INFINITY);
        };
        if self.for_scan {
            self.rows.borrow_mut().insert(node, Kept { row, vector: None });
        }
        let (links, stride) = self.layout.links_below(slot);
        let LinkCode::Estimate(form) = code else {
            let metric = self.layout.metric;
            let score = |coded| code::score(metric, &self.kernels, coded, query.coded);
            out.extend(links.chunks_exact(stride).map(|link| Estimate {
                node: record::link_node(link),
                score: score(self.layout.coded_bits(record::link_code(link))),
                error: 0.0,
            }));
            return Some(score(self.layout.coded(slot)));
        };
        let Work { vector: own, seen } = &mut *self.known.work.borrow_mut();
        let (metric, (unit, own)) = (self.layout.metric, self.layout.elements_in(slot, own));
        show(unit, own);
        let (mut shift, mut turned) = (0.0, None);
        let score;
        if form.of_units {
            if self.for_scan {
                // As the distance, to the last bit: it tells which row is the next one.
                let from = (query.vector, query.squares);
                (score, shift) = (metric.distance_from(&self.kernels, from, own), 1.0);
            } else {
                score = metric.score(&self.kernels, own, query.direction, unit);
            }
            seen.look_at_unit(score - shift);
            turned = Some(query.turned);
        } else {
            // The direction of a vector is the vector itself.
            seen.look(metric, &self.kernels, &self.rotation(), own, query.direction);
            score = seen.score;
        }
        seen.estimates(&self.kernels, form, turned, links, stride, shift, out);
        Some(score)
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
    /// Without one, all nodes are as far.
    type Query<'q> = Option<Query<'q>>;
    /// The server's errors unwind.
    type Error = Infallible;

    /// Read again: vacuum may have moved it since the index was opened.
    fn entry(&self) -> Result<Option<(u32, u8)>, Infallible> {
        let Meta { entry, generation, .. } = Meta::on(self.index, &self.page_again(0));
        if self.for_scan {
            let centre = self.meta.centre.map_or(0, |centre| centre.number);
            self.known.upper.borrow_mut().begin((self.index.file_number(), generation, centre));
        }
        Ok(entry)
    }

    fn links(&self, node: u32, level: u8, out: &mut Vec<u32>) -> Result<(), Infallible> {
        check_for_interrupts!();
        out.clear();
        let remembers = self.for_scan && level > 0;
        if remembers && let Some(links) = self.known.upper.borrow().links(node, level) {
            out.extend_from_slice(links);
            return Ok(());
        }
        if let Some((slots, place, count)) = self.links_at(node, level) {
            self.read(slots, place, |slot| {
                out.extend(self.layout.links(slots, slot, count).map(|(link, _)| link.node));
                // What is in the node itself is read with it.
                let is_apart = !self.layout.exact || self.layout.finds_in_order();
                if self.for_scan
                    && level == 0
                    && is_apart
                    && let Some(row) = record::row(slot)
                {
                    self.rows.borrow_mut().insert(node, Kept { row, vector: record::vector_place(slot) });
                }
            });
        }
        if remembers {
            self.known.upper.borrow_mut().add_links(node, level, out);
        }
        Ok(())
    }

    fn estimates(
        &self,
        query: &Option<Query<'_>>,
        node: u32,
        out: &mut Vec<Estimate<u32>>,
    ) -> Result<Option<f32>, Infallible> {
        Ok(self.estimates_showing(query, node, out, |_, _| ()))
    }

    #[inline]
    fn score(&self, query: &Option<Query<'_>>, node: u32) -> Result<f32, Infallible> {
        if let Some(query) = self.remembering(query) {
            let upper = self.known.upper.borrow();
            if let Some(place) = upper.find(&self.layout, node) {
                return Ok(upper.score(self.by(), query, place));
            }
            drop(upper);
            return Ok(self.score_above(query, node));
        }
        let metric = self.layout.metric;
        Ok(self.glance(node, |slot| match (record::row(slot), query) {
            (None, _) => f32::INFINITY,
            (Some(_), None) => 0.0,
            (Some(_), Some(query)) if self.layout.exact && !metric.is_of_bits() => {
                let own = &mut self.known.work.borrow_mut().vector;
                self.layout.vector(slot, own);
                self.between(own, query.direction)
            }
            (Some(_), Some(query)) => {
                code::score(self.scores_of(), &self.kernels, self.layout.coded(slot), query.coded)
            }
        }))
    }

    fn scores(&self, query: &Option<Query<'_>>, nodes: &[u32], out: &mut Vec<f32>) -> Result<(), Infallible> {
        out.clear();
        let Some(query) = self.remembering(query) else {
            let mut upcoming = nodes.iter();
            upcoming.by_ref().take(AHEAD).for_each(|node| self.fetch(*node));
            for node in nodes {
                if let Some(next) = upcoming.next() {
                    self.fetch(*next);
                }
                out.push(self.score(query, *node)?);
            }
            return Ok(());
        };
        let mut places = self.known.places.borrow_mut();
        places.clear();
        // All are asked for before the first of them is needed.
        places.extend(nodes.iter().map(|node| self.known.upper.borrow().find(&self.layout, *node)));
        for (node, place) in nodes.iter().zip(&*places) {
            out.push(match place {
                Some(place) => self.known.upper.borrow().score(self.by(), query, *place),
                None => self.score_above(query, *node),
            });
        }
        Ok(())
    }

    fn scored_links_above(
        &self,
        query: &Option<Query<'_>>,
        (node, level): (u32, u8),
        (links, scores): (&mut Vec<u32>, &mut Vec<f32>),
    ) -> Result<(), Infallible> {
        check_for_interrupts!();
        let is_remembered = self.remembering(query).is_some_and(|query| {
            self.known.upper.borrow_mut().scored_links(self.by(), query, (node, level), (links, scores))
        });
        if !is_remembered {
            self.links(node, level, links)?;
            self.scores(query, links, scores)?;
        }
        Ok(())
    }

    fn tied_are_copies(&self) -> bool {
        !self.layout.metric.is_of_bits()
    }

    fn prefetch(&self, _: u32) {}

    #[inline]
    fn prefetch_links(&self, node: u32) {
        if !self.index.is_temporary() {
            let place = self.layout.place(node);
            let from = self.layout.offset(Slots::Nodes, place.slot);
            let bytes = match self.layout.code {
                Some(_) => self.layout.size(Slots::Nodes),
                None => self.layout.body_at(),
            };
            let part = from..from + bytes;
            // The page says at its end what it is.
            self.known.recent.borrow().prefetch(place.block, PAGE_SIZE - 1, part);
        }
    }
}
