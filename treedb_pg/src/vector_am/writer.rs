//! Changing the graph in its pages.
//!
//! One backend at a time changes an index: it holds the lock of its page 0. What the graph's algorithms change is collected
//! until they say that the graph holds together ([`NodesMut::settle`]); then it is written as one WAL record of at most four
//! pages. So the graph is whole after a crash, or an error, between any two of them: at worst there is a node that is not
//! linked yet, whose row was not committed, or one that is linked no longer, whose row is gone. A vacuum removes both.
//!
//! Pages with free slots are in a list for each kind of slots, through their right neighbours; the last one names itself.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::convert::Infallible;
use std::hash::BuildHasherDefault;
use std::rc::Rc;

use pgrx::{check_for_interrupts, pg_sys};
use treedb_vector::centre::Centre;
use treedb_vector::code::{self, Coded};
use treedb_vector::graph::{self, Estimate, Hashed, Link, Nodes, NodesMut, Scratch, TIED, Walk};
use treedb_vector::neighbour::Turned;

use super::centre;
use super::graph::{Graph, NodeHasher, Query, checked};
use super::meta::Choice;
use super::record::{self, Layout, Place, Slots, node};
use super::scan::MOST_SPARE;
use crate::pages::allocate::{allocate, is_unused};
use crate::pages::page::{NEXT, View, ViewMut};
use crate::shim::buffer::{Exclusive, Fork, Page, Shared};
use crate::shim::error::{SqlState, fail};
use crate::shim::fault;
use crate::shim::key_lock::KeyLock;
use crate::shim::relation::Index;
use crate::shim::wal::{PageImage, Part, Write, write};

/// Parts of pages to be written, by blocks.
pub(super) type Parts = BTreeMap<u32, PageParts>;

/// Bytes to be written to a page, each part at an offset.
type PageParts = Vec<(usize, Vec<u8>)>;

/// Vectors of nodes.
type Vectors = HashMap<u32, Rc<[f32]>, BuildHasherDefault<NodeHasher>>;

/// The links that a node has in a level now.
type Changed = (u32, u8, Vec<Link<u32>>);

/// Bytes of vectors that a writer that comes by all nodes remembers, about.
const MOST_REMEMBERED: usize = 8 << 20;

/// Pages of a record.
const MOST_PAGES: usize = 4;

/// What searches for what to link a node to need.
struct Memory {
    scratch: Option<Scratch<u32, Hashed>>,
    walk: RefCell<Walk>,
}

thread_local! {
    /// What a writer leaves to the next one, which need not allocate it.
    static SPARE: Cell<Option<(Scratch<u32, Hashed>, Walk)>> = const { Cell::new(None) };
}

impl Default for Memory {
    fn default() -> Self {
        let (scratch, walk) = SPARE.take().unzip();
        Memory { scratch, walk: RefCell::new(walk.unwrap_or_default()) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(scratch) = self.scratch.take() {
            let mut walk = self.walk.take();
            if walk.bytes() > MOST_SPARE {
                walk = Walk::default();
            }
            // When the session ends there is no next writer.
            let _ = SPARE.try_with(|spare| spare.set(Some((scratch, walk))));
        }
    }
}

/// The only writer of an index while it exists.
pub(super) struct Writer<'i> {
    pub(super) graph: Graph<'i>,
    /// Links that have changed since the graph was whole.
    changed: Vec<Changed>,
    /// Links that had changed when it was, and are not written yet: those of several changes share a record.
    whole: Vec<Changed>,
    /// Changes may wait for others.
    gathers: bool,
    meta_changed: bool,
    /// Links above level 0 have changed, or where searches begin.
    upper_changed: bool,
    /// Vectors of nodes that were compared with each other.
    vectors: RefCell<Vectors>,
    /// The same as codes of links need them.
    prepared: RefCell<Vectors>,
    memory: Memory,
    /// A page of nodes was added.
    has_grown: bool,
    /// Changes are logged.
    logs: bool,
    _lock: Option<KeyLock>,
}

impl<'i> Writer<'i> {
    /// Waits until nobody else changes the index.
    pub(super) fn lock(index: Index<'i>) -> Writer<'i> {
        let lock = KeyLock::take(index, 0);
        Writer { _lock: Some(lock), ..Writer::unlocked(index) }
    }

    /// For the rest of a build, in a relation that nobody else knows: nothing is logged, since all pages are when the build ends.
    pub(super) fn of_build(index: Index<'i>) -> Writer<'i> {
        Writer { logs: false, ..Writer::unlocked(index) }
    }

    /// Ends a build that has so many vectors: those that it has told by are as many.
    pub(super) fn end_build(mut self, vectors: usize) {
        if self.graph.meta.choice != Choice::Made {
            self.graph.meta.choice = Choice::after(vectors);
            self.write_meta();
        }
    }

    /// For reading only.
    pub(super) fn unlocked(index: Index<'i>) -> Writer<'i> {
        Writer {
            graph: Graph::open(index),
            changed: Vec::new(),
            whole: Vec::new(),
            gathers: false,
            meta_changed: false,
            upper_changed: false,
            vectors: RefCell::default(),
            prepared: RefCell::default(),
            memory: Memory::default(),
            has_grown: false,
            logs: true,
            _lock: None,
        }
    }

    fn layout(&self) -> &Layout {
        &self.graph.layout
    }

    /// Lets the next record say too how far the new codes are.
    pub(super) fn note_recoded(&mut self, done: usize) {
        self.graph.meta.choice = Choice::Recoding { done };
        self.meta_changed = true;
    }

    /// Writes parts of pages.
    pub(super) fn write(&mut self, mut parts: Parts) {
        if std::mem::take(&mut self.meta_changed) {
            parts.entry(0).or_default().push(self.graph.meta.part());
        }
        let (mut pages, parts): (Vec<Page<Exclusive>>, Vec<PageParts>) =
            parts.into_iter().map(|(block, parts)| (Page::read(self.graph.index, block), parts)).unzip();
        if !self.logs {
            for (page, parts) in pages.iter_mut().zip(&parts) {
                let bytes = page.bytes_mut();
                for (at, part) in parts {
                    put(bytes, *at, part);
                }
            }
            return;
        }
        let parts: Vec<Vec<Part<'_>>> = parts
            .iter()
            .map(|parts| parts.iter().map(|(at, part)| (*at, part.as_slice())).collect())
            .collect();
        let mut writes: Vec<(&mut Page<Exclusive>, Write<'_>)> =
            pages.iter_mut().zip(&parts).map(|(page, parts)| (page, Write::Parts(parts))).collect();
        if !writes.is_empty() {
            write(self.graph.index, &mut writes);
        }
    }

    /// Writes the meta page.
    pub(super) fn write_meta(&mut self) {
        self.meta_changed = true;
        self.write(Parts::new());
    }

    /// Makes a centre the index's; codes are yet to be made about it.
    pub(super) fn add_centre(&mut self, centre: Centre) {
        let index = self.graph.index;
        let mut page = allocate(index);
        let mut meta: Page<Exclusive> = Page::read(index, 0);
        let mut image = PageImage::empty();
        centre::init_page(&mut image, &centre);
        self.graph.meta.set_centre(page.block(), Choice::Recoding { done: 0 });
        // Codes that backends remember are about zero.
        self.graph.meta.generation = self.graph.meta.generation.wrapping_add(1);
        let (at, bytes) = self.graph.meta.part();
        let meta_part: [Part<'_>; 1] = [(at, &bytes)];
        write(index, &mut [(&mut meta, Write::Parts(&meta_part)), (&mut page, Write::Image(&image))]);
        drop((meta, page));
        self.graph.begin_centre();
    }

    /// Adds a page of slots to the list of those with free ones.
    fn add_page(&mut self, slots: Slots) {
        let index = self.graph.index;
        self.has_grown |= slots == Slots::Nodes;
        let mut page = if self.logs { allocate(index) } else { Page::extend(index, Fork::Main) };
        let mut meta: Page<Exclusive> = Page::read(index, 0);
        self.graph.meta.set_room(slots, page.block());
        let block = page.block();
        if !self.logs {
            init_page(&self.graph.layout, slots, page.bytes_mut(), Some(block));
            let (at, bytes) = self.graph.meta.part();
            put(meta.bytes_mut(), at, &bytes);
            return;
        }
        let mut image = PageImage::empty();
        init_page(&self.graph.layout, slots, &mut image, Some(block));
        let (at, bytes) = self.graph.meta.part();
        let meta_part: [Part<'_>; 1] = [(at, &bytes)];
        write(index, &mut [(&mut meta, Write::Parts(&meta_part)), (&mut page, Write::Image(&image))]);
        fault::point("hnsw_page");
    }

    /// `count` free slots of one page.
    fn free_slots(&mut self, slots: Slots, count: usize) -> Vec<Place> {
        loop {
            let block = self.graph.meta.room(slots);
            if block == 0 {
                self.add_page(slots);
                continue;
            }
            let page = self.graph.page(slots, block);
            let layout = self.layout();
            let free: Vec<Place> = (0..layout.per_page(slots) as u16)
                .filter(|slot| record::is_free(slots, layout.slot(slots, page.bytes(), *slot)))
                .map(|slot| Place { block, slot })
                .take(count)
                .collect();
            let next = checked(self.graph.index, block, View::open(page.bytes())).next();
            drop(page);
            if free.len() == count {
                return free;
            }
            let next = next.filter(|next| *next != block).unwrap_or(0);
            self.graph.meta.set_room(slots, next);
            self.meta_changed = true;
            self.write(Parts::from([(block, vec![(NEXT, vec![0; 4])])]));
        }
    }

    /// Adds a page that is about to get a free slot to the list of such pages.
    fn add_room(&mut self, slots: Slots, block: u32, parts: &mut Parts) {
        let page = self.graph.page(slots, block);
        if checked(self.graph.index, block, View::open(page.bytes())).next().is_none() {
            let first = self.graph.meta.room(slots);
            let next = if first == 0 { block } else { first };
            parts.entry(block).or_default().push((NEXT, next.to_le_bytes().to_vec()));
            self.graph.meta.set_room(slots, block);
            self.meta_changed = true;
        }
    }

    /// Adds a vector of a row, the one at this position; `unit` is what it is to be multiplied with before its direction is
    /// compared.
    pub(super) fn insert(&mut self, row: pg_sys::ItemPointerData, position: u32, vector: &[f32], unit: f32) {
        self.finish_recoding();
        let limits = self.graph.meta.limits();
        let most = self.layout().per_page(Slots::Above) as u8;
        let level = graph::level_of(mixed(row, position), &limits).min(most);
        let metric = self.layout().metric;
        let mut codes = vec![0; code::code_bytes(metric, vector.len())];
        let factors = self.graph.encode(vector, unit, &mut codes);
        let coded = Coded { factors, codes: &codes };

        let above = if level == 0 { Vec::new() } else { self.free_slots(Slots::Above, level.into()) };
        let nodes = self.free_slots(Slots::Nodes, 1);
        let vectors = if self.layout().exact { Vec::new() } else { self.free_slots(Slots::Vectors, 1) };
        let (Some(at), vector_at) = (nodes.first(), vectors.first()) else { return };
        let Some(node) = self.layout().node(*at) else {
            fail(
                SqlState::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                format!("index \"{}\" has as many vectors as it can have", self.graph.index.shown()),
                "Partition the table.",
            )
        };
        let mut parts = Parts::new();
        let mut put = |slots: Slots, place: Place, from: usize, bytes: Vec<u8>| {
            let at = self.graph.layout.offset(slots, place.slot) + from;
            parts.entry(place.block).or_default().push((at, bytes));
        };
        let first = above.first().copied();
        let layout = self.graph.layout;
        let vector_place = vector_at.copied().unwrap_or_default();
        // What links the slot had before is of no interest: it has none.
        put(Slots::Nodes, *at, 0, record::node_bytes(row, level, vector_place, first));
        put(Slots::Nodes, *at, layout.body_at(), layout.body(vector, unit, coded));
        if let Some(place) = vector_at {
            put(Slots::Vectors, *place, 0, layout.vector_bytes(row, vector));
        }
        for (number, place) in above.iter().enumerate() {
            put(Slots::Above, *place, 0, record::above_slot_bytes(node, above.get(number + 1).copied()));
        }
        self.write(parts);
        fault::point("hnsw_node");
        self.link(node, level, (vector, unit), coded);
        // While a build writes, nobody has to know.
        if std::mem::take(&mut self.has_grown) && self.logs {
            self.choose_centre();
        }
    }

    /// Links a node that has no links; its vector is `vector`.
    fn link(&mut self, node: u32, level: u8, (vector, unit): (&[f32], f32), coded: Coded<'_>) {
        let (limits, metric) = (self.graph.meta.limits(), self.layout().metric);
        let mut scratch = self.memory.scratch.take().unwrap_or_default();
        // As others will read it.
        let direction: Vec<f32> = match self.layout().exact {
            true => vector.iter().map(|element| element * unit).collect(),
            false => coded.elements().collect(),
        };
        let mut turned = Turned::default();
        self.graph.turn(&direction, &mut turned);
        let squares = metric.squares(&self.graph.kernels, vector);
        let query = Some(Query { vector, squares, direction: &direction, coded, turned: &turned });
        self.gathers = true;
        let Ok(()) = graph::insert(self, node, level, &query, &limits, &mut scratch);
        self.gathers = false;
        self.write_whole();
        self.memory.scratch = Some(scratch);
        self.forget_vectors();
    }

    /// Makes the rest of the codes be about the centre that a writer has chosen, if it ended before it had made all.
    pub(super) fn finish_recoding(&mut self) {
        if let Choice::Recoding { .. } = self.graph.meta.choice {
            self.recode();
        }
    }

    /// Removes a node.
    pub(super) fn remove(&mut self, node: u32) {
        self.finish_recoding();
        let limits = self.graph.meta.limits();
        let Ok(()) = graph::delete(self, node, &limits);
        self.forget_vectors();
        fault::point("hnsw_unlinked");
        let at = self.layout().place(node);
        let start = self.layout().offset(Slots::Nodes, at.slot);
        // One slot for each level; damaged ones could be a ring.
        for _ in 0..=u8::MAX {
            let (level, above) =
                self.graph.node(node, |slot| (record::level(slot), record::above_place(slot)));
            let Some(place) = above else { break };
            let next = self.graph.read(Slots::Above, place, record::next_place);
            let level = u16::from(level.saturating_sub(1)).to_le_bytes().to_vec();
            let mut parts = Parts::new();
            parts.insert(
                at.block,
                vec![(start + node::LEVEL, level), (start + node::ABOVE, record::above_bytes(next).to_vec())],
            );
            self.add_room(Slots::Above, place.block, &mut parts);
            let owner = self.layout().offset(Slots::Above, place.slot);
            parts.entry(place.block).or_default().push((owner, vec![0; 4]));
            self.write(parts);
            fault::point("hnsw_level_freed");
        }
        let vector = self.graph.node(node, record::vector_place);
        let mut parts = Parts::new();
        for (slots, place) in [(Slots::Nodes, Some(at)), (Slots::Vectors, vector)] {
            let Some(place) = place else { continue };
            self.add_room(slots, place.block, &mut parts);
            let row = self.layout().offset(slots, place.slot);
            parts.entry(place.block).or_default().push((row, vec![0; 6]));
        }
        self.write(parts);
    }

    /// Shows every node to `each`.
    pub(super) fn each_node(&self, mut each: impl FnMut(u32, &[u8])) {
        for block in 1..self.graph.index.blocks() {
            check_for_interrupts!();
            let page: Page<Shared> = Page::read(self.graph.index, block);
            each_node_of_page(&self.graph, &page, &mut each);
        }
    }

    /// The vector of a node, read once.
    pub(super) fn vector(&self, node: u32) -> Rc<[f32]> {
        if let Some(vector) = self.vectors.borrow().get(&node) {
            return vector.clone();
        }
        let mut vector = Vec::new();
        self.graph.node(node, |slot| self.layout().vector(slot, &mut vector));
        let vector: Rc<[f32]> = vector.into();
        self.vectors.borrow_mut().insert(node, vector.clone());
        vector
    }

    /// The same as codes of links need it.
    pub(super) fn prepared(&self, node: u32) -> Rc<[f32]> {
        if let Some(prepared) = self.prepared.borrow().get(&node) {
            return prepared.clone();
        }
        let vector = self.vector(node);
        let prepared = match self.layout().code {
            Some(code) if code.is_prepared() => {
                let mut prepared = vector.to_vec();
                code.prepare(&self.graph.rotation(), self.graph.centre.as_deref(), &mut prepared);
                prepared.into()
            }
            _ => vector,
        };
        self.prepared.borrow_mut().insert(node, prepared.clone());
        prepared
    }

    pub(super) fn forget_vectors(&self) {
        self.vectors.borrow_mut().clear();
        self.prepared.borrow_mut().clear();
    }

    /// Forgets them if they take much memory.
    pub(super) fn forget_many_vectors(&self) {
        let count = self.vectors.borrow().len() + self.prepared.borrow().len();
        if count * self.layout().dimensions * size_of::<f32>() > MOST_REMEMBERED {
            self.forget_vectors();
        }
    }

    /// The bytes of new links of a node, of which each that it has already stays where it is: only what is new is written.
    /// The first link, which leads to the parent, is the first one. `old` is what the slot has.
    fn place_links(&self, slots: Slots, node: u32, links: &[Link<u32>], old: &[u8], count: usize) -> Vec<u8> {
        let layout = self.layout();
        let had: Vec<(Link<u32>, &[u8])> = layout.links(slots, old, count).collect();
        let mut placed: Vec<Option<&Link<u32>>> = vec![None; links.len()];
        let (first, others) = links.split_at(links.len().min(1));
        let mut rest: Vec<&Link<u32>> = Vec::new();
        for (place, link) in placed.iter_mut().zip(first) {
            *place = Some(link);
        }
        // Most follow one another there as they do here.
        let mut next = 1;
        for link in others {
            let is_it = |(had, _): &(Link<u32>, &[u8])| had.node == link.node;
            let at = match had.get(next).is_some_and(is_it) {
                true => Some(next),
                false => had.iter().position(is_it),
            };
            next = at.map_or(next, |at| at + 1);
            match at.and_then(|at| placed.get_mut(at)) {
                Some(place) if place.is_none() => *place = Some(link),
                _ => rest.push(link),
            }
        }
        let mut rest = rest.into_iter();
        let placed = placed.into_iter().filter_map(|place| place.or_else(|| rest.next()));
        let new_code = layout.code.filter(|_| slots == Slots::Nodes);
        let mut difference = Vec::new();
        let mut bytes = Vec::with_capacity(links.len() * layout.link(slots));
        for (at, link) in placed.enumerate() {
            record::push_link(link, &mut bytes);
            let is_it = |(had, _): &&(Link<u32>, &[u8])| had.node == link.node;
            if let Some((_, code)) = had.get(at).filter(is_it).or_else(|| had.iter().find(is_it)) {
                bytes.extend_from_slice(code);
            } else if let Some(new_code) = new_code {
                let (of, from) = (self.prepared(link.node), self.prepared(node));
                new_code.append(&self.graph.rotation(), &of, &from, &mut difference, &mut bytes);
            }
        }
        bytes
    }
}

/// Writes bytes over a part of a page.
pub(super) fn put(page: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = page.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

/// Shows every node of a page to `each`, if it is a page of nodes.
pub(super) fn each_node_of_page(graph: &Graph<'_>, page: &Page<Shared>, each: &mut impl FnMut(u32, &[u8])) {
    if is_unused(page.bytes()) {
        return;
    }
    let block = page.block();
    if checked(graph.index, block, View::open(page.bytes())).level() != Slots::Nodes as u16 {
        return;
    }
    for slot in 0..graph.layout.per_page(Slots::Nodes) as u16 {
        let bytes = graph.layout.slot(Slots::Nodes, page.bytes(), slot);
        if let (Some(_), Some(node)) = (record::row(bytes), graph.layout.node(Place { block, slot })) {
            each(node, bytes);
        }
    }
}

/// Makes a page of free slots; `next` is the next one in the list of those, its own block for the last one.
pub(super) fn init_page(layout: &Layout, slots: Slots, page: &mut [u8], next: Option<u32>) {
    let mut page = ViewMut::init(page, slots as u16, 0, next.map(|block| (block, &[][..])));
    let used = layout.per_page(slots) * layout.size(slots);
    page.set_hole(used..crate::pages::page::ROOM);
}

/// A uniformly distributed number from a row's address and a position in it, for the level of a vector (Steele and others'
/// splitmix64).
fn mixed(row: pg_sys::ItemPointerData, position: u32) -> u64 {
    let (block, offset) = crate::shim::heap::tid_parts(row);
    let place = u64::from(position) << 48 ^ (u64::from(block) << 16 | u64::from(offset));
    let number = place.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// The runs of new links that differ from what is there, and where each begins.
fn differences(old: &[u8], new: &[u8], stride: usize) -> Vec<(usize, Vec<u8>)> {
    let mut runs: Vec<(usize, Vec<u8>)> = Vec::new();
    let mut at = 0;
    for link in new.chunks_exact(stride) {
        if old.get(at..at + link.len()) != Some(link) {
            match runs.last_mut().filter(|(from, run)| from + run.len() == at) {
                Some((_, run)) => run.extend_from_slice(link),
                None => runs.push((at, link.to_vec())),
            }
        }
        at += link.len();
    }
    runs
}

impl Nodes for Writer<'_> {
    type Node = u32;
    type Query<'q> = Option<Query<'q>>;
    type Error = Infallible;

    fn entry(&self) -> Result<Option<(u32, u8)>, Infallible> {
        Ok(self.graph.meta.entry)
    }

    fn links(&self, node: u32, level: u8, out: &mut Vec<u32>) -> Result<(), Infallible> {
        self.graph.links(node, level, out)
    }

    fn estimates(
        &self,
        query: &Option<Query<'_>>,
        node: u32,
        out: &mut Vec<Estimate<u32>>,
    ) -> Result<Option<f32>, Infallible> {
        Ok(self.graph.estimates_showing(query, node, out, |unit, elements| {
            // Links are chosen among the nodes that a search has expanded.
            let vector = || elements.iter().map(|element| element * unit).collect();
            self.vectors.borrow_mut().entry(node).or_insert_with(vector);
        }))
    }

    fn score(&self, query: &Option<Query<'_>>, node: u32) -> Result<f32, Infallible> {
        self.graph.score(query, node)
    }

    fn scores(&self, query: &Option<Query<'_>>, nodes: &[u32], out: &mut Vec<f32>) -> Result<(), Infallible> {
        self.graph.scores(query, nodes, out)
    }

    fn tied_are_copies(&self) -> bool {
        self.graph.tied_are_copies()
    }

    fn prefetch(&self, _: u32) {}

    fn prefetch_links(&self, node: u32) {
        self.graph.prefetch_links(node);
    }
}

impl NodesMut for Writer<'_> {
    fn root(&self) -> Result<Option<u32>, Infallible> {
        Ok(self.graph.meta.root)
    }

    fn set_root(&mut self, root: Option<u32>) -> Result<(), Infallible> {
        self.graph.meta.root = root;
        self.meta_changed = true;
        Ok(())
    }

    fn set_entry(&mut self, entry: Option<(u32, u8)>) -> Result<(), Infallible> {
        self.graph.meta.entry = entry;
        (self.meta_changed, self.upper_changed) = (true, true);
        Ok(())
    }

    fn scored_links(&self, node: u32, level: u8, out: &mut Vec<Link<u32>>) -> Result<(), Infallible> {
        check_for_interrupts!();
        out.clear();
        let mut changed = self.changed.iter().chain(&self.whole);
        if let Some((_, _, links)) = changed.find(|(of, at, _)| (*of, *at) == (node, level)) {
            out.extend_from_slice(links);
        } else if let Some((slots, place, count)) = self.graph.links_at(node, level) {
            let layout = self.layout();
            self.graph.read(slots, place, |slot| {
                out.extend(layout.links(slots, slot, count).map(|(link, _)| link));
            });
        }
        Ok(())
    }

    fn set_links(&mut self, node: u32, level: u8, links: &[Link<u32>]) -> Result<(), Infallible> {
        self.changed.retain(|(of, at, _)| (*of, *at) != (node, level));
        self.changed.push((node, level, links.to_vec()));
        Ok(())
    }

    fn nearest(
        &self,
        query: &Option<Query<'_>>,
        from: &[(f32, u32)],
        ef: usize,
        out: &mut Vec<(f32, u32)>,
    ) -> Result<bool, Infallible> {
        if self.layout().code.is_none() {
            return Ok(false);
        }
        let mut walk = self.memory.walk.borrow_mut();
        let Ok(()) = walk.begin_at(self, query, from);
        let Ok(()) = walk.search(self, query, ef, usize::MAX);
        out.extend(walk.found().take(ef).map(|found| (found.score, found.node)));
        // Too many that are exactly as far hide what lies behind them, but if they are copies of the vector itself.
        let tied = |from: &[(f32, u32)]| matches!(from, [first, .., last] if first.0 == last.0);
        let is_own = match (query, out.first()) {
            (Some(query), Some((_, first))) => *self.vector(*first) == *query.direction,
            _ => false,
        };
        let is_flooded = !is_own && out.windows(TIED + 1).any(tied);
        if is_flooded {
            out.clear();
        }
        Ok(!is_flooded)
    }

    fn level(&self, node: u32) -> Result<u8, Infallible> {
        Ok(self.graph.node(node, record::level))
    }

    fn between(&self, a: u32, b: u32) -> Result<f32, Infallible> {
        Ok(self.graph.between(&self.vector(a), &self.vector(b)))
    }

    fn is_copy(&self, a: u32, b: u32) -> Result<bool, Infallible> {
        Ok(self.vector(a) == self.vector(b))
    }

    fn settle(&mut self) -> Result<(), Infallible> {
        let changed = std::mem::take(&mut self.changed);
        let is_above = changed.iter().any(|(_, level, _)| *level > 0);
        if !self.gathers || self.meta_changed || self.upper_changed || is_above {
            self.write_whole();
            self.write_links(changed);
            return Ok(());
        }
        let block = |(node, _, _): &Changed| self.layout().place(*node).block;
        let blocks: BTreeSet<u32> = self.whole.iter().chain(&changed).map(block).collect();
        if blocks.len() > MOST_PAGES {
            self.write_whole();
        }
        self.whole.retain(|(node, _, _)| !changed.iter().any(|(other, _, _)| node == other));
        self.whole.extend(changed);
        Ok(())
    }
}

impl Writer<'_> {
    /// Writes what has been gathered, and nothing that has changed since.
    fn write_whole(&mut self) {
        let whole = std::mem::take(&mut self.whole);
        if !whole.is_empty() {
            let since = (std::mem::take(&mut self.meta_changed), std::mem::take(&mut self.upper_changed));
            self.write_links(whole);
            (self.meta_changed, self.upper_changed) = since;
        }
    }

    /// Writes links of at most four pages, and what else has changed.
    fn write_links(&mut self, changed: Vec<Changed>) {
        let mut parts = Parts::new();
        for (node, level, links) in changed {
            let Some((slots, place, count)) = self.graph.links_at(node, level) else { continue };
            let old = self.graph.read(slots, place, <[u8]>::to_vec);
            let new = self.place_links(slots, node, &links, &old, count);
            let (number, at) = ((links.len() as u32).to_le_bytes(), count + 4);
            let start = self.layout().offset(slots, place.slot);
            let changes = parts.entry(place.block).or_default();
            if old.get(count..at) != Some(&number) {
                changes.push((start + count, number.to_vec()));
            }
            let differences = differences(old.get(at..).unwrap_or(&[]), &new, self.layout().link(slots));
            changes.extend(differences.into_iter().map(|(from, bytes)| (start + at + from, bytes)));
            self.upper_changed |= level > 0;
        }
        parts.retain(|_, parts| !parts.is_empty());
        if std::mem::take(&mut self.upper_changed) {
            // With the change where the record has room; otherwise after it, so that nobody takes old links for new ones.
            if parts.len() == MOST_PAGES {
                self.write(std::mem::take(&mut parts));
            }
            self.graph.meta.generation = self.graph.meta.generation.wrapping_add(1);
            self.meta_changed = true;
        }
        self.write(parts);
        fault::point("hnsw_settled");
    }
}
