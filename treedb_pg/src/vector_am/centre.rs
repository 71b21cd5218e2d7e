//! The centre that an index's codes are about ([`treedb_vector::centre`]), where vectors have far more in common than they differ: when it is
//! chosen, and its page.
//!
//! A build chooses it by rows from all over the table, before it reads the table. An index that was created with fewer rows is judged when it has
//! grown to so many vectors as [`Centre::STEPS`] say, until there is one or there are no more steps. Whoever inserts the vector that makes them so
//! many makes the codes of all anew, node by node, holding the lock that only one session at a time has. The meta page says how far that has
//! come: if it ends by a crash or an error, the next writer, or a vacuum, does the rest. No node comes or goes meanwhile.
//!
//! A scan that begins meanwhile compares all nodes by their vectors. One that began before looks at the meta page after each search: if there is
//! a centre now, it may have taken codes for what they are not, and begins again ([`super::scan`]).
//!
//! A centre never changes: `REINDEX` chooses another one. All elements fit on its page: of more than
//! [`MOST_DIMENSIONS`], rounded to 2 bytes each. That only moves the centre a little, which is as good anywhere near the mean.

use std::rc::Rc;

use pgrx::check_for_interrupts;
use treedb_vector::centre::Centre;
use treedb_vector::code::Coded;
use treedb_vector::element::Element;
use treedb_vector::metric::Metric;

use super::graph::{Known, checked};
use super::meta::{CentreAt, Choice, MOST_COUNTED, Meta};
use super::record::{self, Place, Slots};
use super::value;
use super::writer::{Parts, Writer, each_node_of_page};
use crate::pages::page::{ROOM, View, ViewMut};
use crate::shim::buffer::{Page, Shared, has_block};
use crate::shim::error;
use crate::shim::fault;
use crate::shim::index_build::{Build, IndexRow};
use crate::shim::relation::Index;
use crate::shim::vector_options::MOST_DIMENSIONS;

/// The level in the trailer of its page, beside those of [`Slots`].
const LEVEL: u16 = 4;

/// Vectors that a build wants to tell by.
const ENOUGH: usize = 256;
/// An index that has grown to more before it could choose has none: to somewhat more than the last of the steps, since what was cancelled
/// there is done when the next page is added.
const MOST_RECODED: usize = 5120;
/// By so many vectors of a grown index, about, it is decided.
const SAMPLED: usize = 512;
/// Each node is at most so often a piece of the work.
const PIECES: usize = 2;
const _: () = assert!(PIECES * MOST_RECODED <= MOST_COUNTED);

/// A build looks at the rows of so many blocks. If these have too few vectors, as where a condition keeps few rows in the index, it looks at more,
/// and in the end at all until there are enough.
const BLOCKS: [u32; 3] = [32, 512, u32::MAX];
/// Vectors of a block that it takes at most, where it looks at so many blocks.
const OF_A_BLOCK: [usize; 3] = [16, 2, 16];

/// Codes of whole vectors do not tell these apart where they have so much more in common than they differ, as the squares of lengths: a code of
/// 8 bits is of the whole vector. Without a centre, a graph is built by the vectors then. *Measured*, 96 dimensions, cosine, recall at `ef` 20 by
/// codes and by vectors: .68 and .68 at 48, .58 and .68 at 190, .22 and .67 at 770.
const ALIKE: f64 = 16.0;

/// Vectors of rows from all over a table.
pub(super) struct Sample {
    metric: Metric,
    dimensions: usize,
    elements: Vec<f32>,
}

impl Sample {
    fn new(meta: &Meta) -> Sample {
        Sample { metric: meta.kind.metric, dimensions: meta.dimensions, elements: Vec::new() }
    }

    /// That of the table of a build; empty if nothing is to be told by it.
    pub(super) fn of_build(build: &mut Build<'_>, meta: &Meta) -> Sample {
        let (mut sample, mut row_vectors) = (Sample::new(meta), Vec::new());
        let layout = meta.layout();
        let uses_codes = layout.may_have_centre() || !layout.builds_exactly();
        if !uses_codes || !Centre::is_for(sample.metric, Element::Float32) {
            return sample;
        }
        for (blocks, most) in BLOCKS.into_iter().zip(OF_A_BLOCK) {
            sample.elements.clear();
            let (mut block, mut of_block) = (None, 0);
            let each = |row: &IndexRow<'_>, of: u32| {
                if block != Some(of) {
                    (block, of_block) = (Some(of), 0);
                }
                if let Some(value) = row.value(0).filter(|_| of_block < most) {
                    let each = |vector: &[f32], _| {
                        // A row may have any number of vectors.
                        if of_block < most {
                            of_block += 1;
                            sample.elements.extend_from_slice(vector);
                        }
                    };
                    value::each_indexable(meta.kind, meta.dimensions, value.bytes(), &mut row_vectors, each);
                }
                blocks < u32::MAX || sample.count() < ENOUGH
            };
            let is_all = build.sample(blocks, each);
            if is_all || sample.count() >= ENOUGH {
                break;
            }
        }
        sample
    }

    fn count(&self) -> usize {
        self.elements.len() / self.dimensions.max(1)
    }

    fn vectors(&self) -> impl Iterator<Item = &[f32]> {
        self.elements.chunks_exact(self.dimensions.max(1))
    }

    /// The centre of such vectors, if they are to have one.
    pub(super) fn centre(&self) -> Option<Centre> {
        let vectors: Vec<&[f32]> = self.vectors().collect();
        let centre = Centre::of_alike(self.metric, Element::Float32, &vectors)?;
        let elements = stored_as(self.dimensions);
        let rounded = centre.elements().iter().map(|element| elements.nearest(*element)).collect();
        Centre::new(self.metric, Element::Float32, rounded)
    }

    /// Whether they have far more in common than they differ: those of places that are near each other and far from zero.
    pub(super) fn are_alike(&self) -> bool {
        let count = self.count() as f64;
        let (mut mean, mut squares) = (vec![0.0; self.dimensions], 0.0);
        for vector in self.vectors() {
            let unit = self.metric.check(vector, self.dimensions).unwrap_or(1.0);
            for (sum, element) in mean.iter_mut().zip(vector) {
                let element = f64::from(element * unit);
                *sum += element / count;
                squares += element * element / count;
            }
        }
        let common: f64 = mean.iter().map(|element| element * element).sum();
        self.count() >= Centre::FEWEST && common > ALIKE * (squares - common)
    }
}

/// What the elements of a centre are on its page.
fn stored_as(dimensions: usize) -> Element {
    if dimensions <= MOST_DIMENSIONS as usize { Element::Float32 } else { Element::Float16 }
}

/// Makes `page` the page of a centre.
pub(super) fn init_page(page: &mut [u8], centre: &Centre) {
    let (elements, mut bytes) = (centre.elements(), Vec::new());
    record::append_elements(stored_as(elements.len()), elements, &mut bytes);
    let mut page = ViewMut::init(page, LEVEL, 0, None);
    page.set_hole(bytes.len()..ROOM);
    if let Some(place) = page.payload().get_mut(..bytes.len()) {
        place.copy_from_slice(&bytes);
    }
}

/// Reads a centre.
fn read(index: Index<'_>, meta: &Meta, block: u32) -> Centre {
    if !has_block(*index, block) {
        error::corrupted(&index.shown(), block, "the centre is said to be on this page, which there is not");
    }
    let page: Page<Shared> = Page::read(index, block);
    let view = checked(index, block, View::open(page.bytes()));
    let (stored, mut elements) = (stored_as(meta.dimensions), Vec::new());
    let bytes = view.payload().get(..meta.dimensions * record::element_bytes(stored)).unwrap_or(&[]);
    record::read_elements(stored, bytes, &mut elements);
    let centre = Centre::new(meta.kind.metric, Element::Float32, elements);
    let is_whole = |centre: &Centre| centre.elements().len() == meta.dimensions;
    // What is read of halves is finite whatever they are.
    let is_finite = !stored.is_half() || all_finite(bytes);
    centre.filter(is_whole).filter(|_| is_finite && view.level() == LEVEL).unwrap_or_else(|| {
        error::corrupted(&index.shown(), block, "expected the page of a centre, which has finite elements")
    })
}

/// Whether none of these elements of 2 bytes is infinite or NaN.
fn all_finite(halves: &[u8]) -> bool {
    const EXPONENT: u16 = 0x7c00;
    halves.as_chunks().0.iter().all(|half| u16::from_le_bytes(*half) & EXPONENT != EXPONENT)
}

/// The centre that a backend has read, and of what files it is.
pub(super) type Read = Option<(u32, CentreAt, Rc<Centre>)>;

/// The centre of an index, read once.
pub(super) fn of(index: Index<'_>, meta: &Meta, known: &Known) -> Option<Rc<Centre>> {
    let at = meta.centre?;
    let file = index.file_number();
    let mut known = known.centre.borrow_mut();
    if let Some((of, known_at, centre)) = &*known
        && (*of, *known_at) == (file, at)
    {
        return Some(centre.clone());
    }
    let centre = Rc::new(read(index, meta, at.block));
    *known = Some((file, at, centre.clone()));
    Some(centre)
}

/// The score of two vectors that codes about a centre have given this one, as the metric has it.
pub(super) fn metric_score(metric: Metric, centre: &Centre, score: f32) -> f32 {
    match metric {
        Metric::Cosine => score / 2.0 - 1.0,
        Metric::InnerProduct => {
            score / 2.0 - centre.elements().iter().map(|element| element * element).sum::<f32>()
        }
        _ => score,
    }
}

/// A piece of making codes anew, of one node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Piece {
    /// The codes that it has in place of its vector.
    Own,
    /// The codes of its links, or their scores where they have none: those of nodes that have their vectors are of these.
    Links,
}

impl Writer<'_> {
    /// Chooses a centre when there are enough vectors for the next step, if that is still open, and makes all codes be about it. To be called
    /// when a page of nodes was added.
    pub(super) fn choose_centre(&mut self) {
        let Choice::Open { judged } = self.graph.meta.choice else { return };
        let (step, layout) = (Centre::STEPS.get(judged).copied().unwrap_or(0), self.graph.layout);
        // About so many pages a node takes, without those of links above level 0: nodes are counted only when there may be enough.
        let share = |slots| 1.0 / layout.per_page(slots).max(1) as f64;
        let pages = share(Slots::Nodes) + if layout.exact { 0.0 } else { share(Slots::Vectors) };
        if f64::from(self.graph.index.blocks()) < step as f64 * pages {
            return;
        }
        let mut nodes = Vec::new();
        for block in 1..self.graph.index.blocks() {
            check_for_interrupts!();
            let page: Page<Shared> = Page::read(self.graph.index, block);
            each_node_of_page(&self.graph, &page, &mut |node, slot| {
                nodes.push((node, record::vector_place(slot)));
            });
            // Then it has none, however many there are.
            if nodes.len() > MOST_RECODED {
                break;
            }
        }
        if nodes.len() < step {
            return;
        }
        let mut sample = Sample::new(&self.graph.meta);
        let count = nodes.len();
        if count <= MOST_RECODED {
            for (node, place) in nodes.into_iter().step_by((count / SAMPLED).max(1)) {
                sample.elements.extend(self.stored_vector(node, place));
            }
        }
        let Some(centre) = sample.centre() else {
            self.graph.meta.choice = Choice::after(count);
            self.write_meta();
            return;
        };
        pgrx::debug1!(
            "the vectors of index \"{}\" are much alike: their codes are about a centre now",
            self.graph.index.shown()
        );
        self.add_centre(centre);
        fault::point("hnsw_centre");
        self.recode();
    }

    /// Makes the codes of all nodes be about the centre, and the scores of links theirs, as far as that is not done yet.
    pub(super) fn recode(&mut self) {
        let mut nodes = Vec::new();
        self.each_node(|node, slot| nodes.push((node, record::level(slot), record::vector_place(slot))));
        self.forget_vectors();
        let done = match self.graph.meta.choice {
            Choice::Recoding { done } => done,
            _ => 0,
        };
        let kinds: &[Piece] =
            if self.graph.layout.exact { &[Piece::Links] } else { &[Piece::Own, Piece::Links] };
        let count = kinds.len() * nodes.len();
        pgrx::debug1!(
            "making codes of index \"{}\" anew, from piece {done} of {count} on",
            self.graph.index.shown()
        );
        let pieces = kinds.iter().flat_map(|kind| nodes.iter().map(move |node| (*kind, *node)));
        for (at, (kind, (node, level, place))) in pieces.enumerate().skip(done) {
            check_for_interrupts!();
            self.forget_many_vectors();
            match kind {
                Piece::Own => {
                    self.note_recoded(at + 1);
                    self.write_own_codes(node, place);
                }
                Piece::Links => {
                    let top = if self.graph.layout.exact { 0 } else { level };
                    for level in 1..=top {
                        self.write_codes(node, level);
                    }
                    self.note_recoded(at + 1);
                    self.write_codes(node, 0);
                }
            }
            fault::piece("hnsw_node_recoded", at + 1, count);
        }
        self.forget_vectors();
        self.graph.meta.choice = Choice::Made;
        self.write_meta();
        fault::point("hnsw_recoded");
    }

    /// Makes the codes anew that a node has in place of its vector, which is at a place.
    fn write_own_codes(&mut self, node: u32, place: Option<Place>) {
        let layout = self.graph.layout;
        let vector = self.stored_vector(node, place);
        let Ok(unit) = layout.metric.check(&vector, layout.dimensions) else { return };
        let mut codes = vec![0; vector.len()];
        let factors = self.graph.encode(&vector, unit, &mut codes);
        let body = layout.body(&vector, unit, Coded { factors, codes: &codes });
        let Place { block, slot } = layout.place(node);
        let at = layout.offset(Slots::Nodes, slot) + layout.body_at();
        self.write(Parts::from([(block, vec![(at, body)])]));
    }

    /// Makes the codes of a node's links in a level anew, or their scores where they have none.
    fn write_codes(&mut self, node: u32, level: u8) {
        let layout = self.graph.layout;
        let Some((slots, Place { block, slot }, count)) = self.graph.links_at(node, level) else { return };
        let old: Vec<_> = self.graph.read(slots, Place { block, slot }, |bytes| {
            layout.links(slots, bytes, count).map(|(link, _)| link).collect()
        });
        if old.is_empty() {
            return;
        }
        let mut bytes = Vec::with_capacity(old.len() * layout.link(slots));
        let mut difference = Vec::new();
        for mut link in old {
            let code = layout.code.filter(|_| slots == Slots::Nodes);
            if code.is_none() {
                link.score = self.graph.between(&self.vector(node), &self.vector(link.node));
            }
            record::push_link(&link, &mut bytes);
            if let Some(code) = code {
                let (of, from) = (self.prepared(link.node), self.prepared(node));
                code.append(&self.graph.rotation(), &of, &from, &mut difference, &mut bytes);
            }
        }
        let at = layout.offset(slots, slot) + count + 4;
        self.write(Parts::from([(block, vec![(at, bytes)])]));
    }

    /// The vector of a node as it was inserted, or in its direction.
    fn stored_vector(&self, node: u32, place: Option<Place>) -> Vec<f32> {
        let (layout, mut vector) = (&self.graph.layout, Vec::new());
        match place {
            Some(place) => {
                self.graph.read(Slots::Vectors, place, |slot| layout.read_vector(slot, &mut vector));
            }
            None => self.graph.node(node, |slot| layout.vector(slot, &mut vector)),
        }
        vector
    }
}
