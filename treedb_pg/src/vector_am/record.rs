//! What the pages hold: slots of one size, of one of three kinds.
//!
//! A node is a slot on a page of nodes, with its links in level 0 and its vector. Each link has a code of the vector that it
//! leads to, as it is seen from the node ([`treedb_vector::neighbour`]): so a search pins one page for each node that it
//! expands, and none for those that it only compares. The links above level 0, which one node in `m` has, are in a slot for
//! each level, each of which leads to the next.
//!
//! | node: offset | size | what |
//! |---|---|---|
//! | 0 | 6 | the row: block, offset; 0 is the offset of a free slot |
//! | 6 | 2 | level |
//! | 8 | 4 | block of the vector, 0 if it is here |
//! | 12 | 2 | its slot |
//! | 14 | 2 | slot of the links of level 1 |
//! | 16 | 4 | its block, 0 for none |
//! | 20 | 4 | number of links |
//! | 24 | l n | links, the parent first: node, score, 4 bytes each; then the code: its factor, 4 bytes, under cosine its product with the node's own vector, 4 bytes, and its bits |
//! | then | 4 | what the vector is to be multiplied with before it is compared: under cosine, what makes it of length 1 |
//! | then | 4 d | its elements |
//!
//! Codes of 8 bits are of differences from the index's centre, if it has one ([`treedb_vector::centre`]), which is on a page of its own: the
//! elements, 4 bytes each, or of more than 2,000 dimensions 2. Scores are those of such codes then. Under cosine, the products of links with the node's own vector are with its
//! difference from the centre.
//!
//! Links have no codes (so that `l` is 8) under L1 distance, which codes say nothing about; of vectors of few dimensions, which
//! they could not tell apart; and where too few with codes would fit beside the elements. How many links `n` a node has room
//! for [`Layout::new`] decides from `d` and `m`. A node whose links have no codes has codes of 8 bits instead of the elements
//! ([`treedb_vector::code`]): 12 bytes of factors, d bytes. The vector is in a slot of another page then. Vectors of few
//! dimensions are always in their nodes: codes of 8 bits could not tell near ones apart that are far from zero, such as places
//! on a map.
//!
//! A vector of bits is its own code, d / 8 bytes, in the node and, where enough links fit with it, in each link: the scores
//! of all neighbours are exact.
//!
//! | vector: offset | size | what |
//! |---|---|---|
//! | 0 | 6 | the row, as in its node |
//! | 8 | 4 d | elements; or 2 d, if the meta page says that they take 2 bytes: those of `halfvec`, in the index as they are in the column |
//!
//! | links above: offset | size | what |
//! |---|---|---|
//! | 0 | 4 | the node, 0 for a free slot |
//! | 4 | 2 | unused |
//! | 6 | 2 | slot of the links of the next level |
//! | 8 | 4 | its block, 0 for none |
//! | 12 | 4 | number of links |
//! | 16 | 8 m | links |
//!
//! Integers are little-endian. A node's number is its page's block times the number of nodes of a page, plus its slot.

use pgrx::pg_sys;
use treedb_vector::centre::Centre;
use treedb_vector::code::{Coded, Factors, code_bytes, encode_for};
use treedb_vector::element::Element;
use treedb_vector::graph::Link;
use treedb_vector::kernel::{self, Kernels};
use treedb_vector::metric::Metric;
use treedb_vector::neighbour::{Form, Rotation};

use crate::pages::page::{HEADER, ROOM};
use crate::shim::heap;

/// What the slots of a page are: the level in its trailer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Slots {
    Nodes = 1,
    Vectors = 2,
    Above = 3,
}

impl Slots {
    /// That of these slots, of what each of the three kinds has.
    pub(super) fn of<T>(self, [nodes, vectors, above]: [T; 3]) -> T {
        match self {
            Slots::Nodes => nodes,
            Slots::Vectors => vectors,
            Slots::Above => above,
        }
    }
}

/// Vectors of at most this many dimensions are stored in their nodes, whatever else they have.
const EXACT: usize = 64;
/// Links have codes from so many dimensions on.
const CODED: usize = 16;

/// Bytes of a link without a code: node, score.
const LINK: usize = 8;
/// Offsets in a node.
pub(super) mod node {
    pub(crate) const LEVEL: usize = 6;
    pub(crate) const VECTOR: usize = 8;
    pub(crate) const ABOVE: usize = 14;
    pub(crate) const COUNT: usize = 20;
    pub(crate) const LINKS: usize = 24;
}
/// Where the elements of a vector begin.
const ELEMENTS: usize = 8;
/// Offsets in the links above level 0.
pub(super) mod above {
    pub(crate) const NEXT: usize = 6;
    pub(crate) const COUNT: usize = 12;
    pub(crate) const LINKS: usize = 16;
}

/// The place of a slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Place {
    pub(super) block: u32,
    pub(super) slot: u16,
}

/// What a link in level 0 has of the vector that it leads to.
#[derive(Clone, Copy, Debug)]
pub(super) enum LinkCode {
    /// What its score is estimated from.
    Estimate(Form),
    /// So many bytes, the bits that it is.
    Bits(usize),
}

impl LinkCode {
    /// Bytes of a code.
    pub(super) fn bytes(self) -> usize {
        match self {
            LinkCode::Estimate(form) => form.code(),
            LinkCode::Bits(bytes) => bytes,
        }
    }

    /// Vectors are rotated before codes are made of them, which is worth remembering.
    pub(super) fn is_prepared(self) -> bool {
        matches!(self, LinkCode::Estimate(form) if form.of_units)
    }

    /// A vector as [`LinkCode::append`] needs it: if it is rotated, as its difference from the index's centre.
    pub(super) fn prepare(self, rotation: &Rotation, centre: Option<&Centre>, vector: &mut [f32]) {
        if let LinkCode::Estimate(form) = self {
            prepare(form, rotation, centre, vector);
        }
    }

    /// Appends the code of a neighbour, as a node has it, both prepared; `difference` is overwritten.
    pub(super) fn append(
        self,
        rotation: &Rotation,
        neighbour: &[f32],
        node: &[f32],
        difference: &mut Vec<f32>,
        out: &mut Vec<u8>,
    ) {
        match self {
            LinkCode::Estimate(form) => {
                form.code_of(&Kernels::best(), rotation, neighbour, node, difference, out);
            }
            LinkCode::Bits(_) => push_bits(neighbour, out),
        }
    }

    /// Whether two codes can be of one vector.
    pub(super) fn is_same(self, a: &[u8], b: &[u8]) -> bool {
        match self {
            LinkCode::Estimate(form) => form.is_same(a, b),
            LinkCode::Bits(_) => a == b,
        }
    }
}

/// The same of codes of this form.
pub(super) fn prepare(form: Form, rotation: &Rotation, centre: Option<&Centre>, vector: &mut [f32]) {
    if form.of_units {
        // Products with the code of a difference are kept beside it; they are the more exact the shorter the vectors are.
        for (element, centre) in vector.iter_mut().zip(centre.map_or(&[][..], Centre::elements)) {
            *element -= centre;
        }
        form.prepare(rotation, vector);
    }
}

/// Sizes of slots, and how many a page has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) metric: Metric,
    pub(super) dimensions: usize,
    /// Links that a node may have in level 0.
    pub(super) most_below: usize,
    /// Vectors are in their nodes.
    pub(super) exact: bool,
    /// The codes that links in level 0 have.
    pub(super) code: Option<LinkCode>,
    /// What the elements of vectors in slots of their own are kept as.
    stored: Element,
    sizes: [usize; 3],
    /// Slots of a page.
    per_page: [usize; 3],
}

fn word(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u16::from_le_bytes(*b))
}

fn int(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b))
}

/// Bytes of what a node has of its vector.
fn body_bytes(metric: Metric, dimensions: usize, exact: bool) -> usize {
    match exact {
        _ if metric.is_of_bits() => code_bytes(metric, dimensions),
        true => 4 + 4 * dimensions,
        false => Factors::BYTES + dimensions.next_multiple_of(4),
    }
}

impl Layout {
    pub(super) fn new(metric: Metric, dimensions: usize, m: usize, stored: Element) -> Layout {
        // A graph has three times as many links where there is room (see `Limits`). With codes it rather has fewer, but twice as
        // many or hardly fewer, if that lets more nodes share a page. If not even half as many more than a new node gets fit beside the vector,
        // it has no codes: reading the neighbours' codes of 8 bits is faster than vectors on pages of their own.
        let with_codes = |code: LinkCode| {
            let link = LINK + code.bytes();
            let rest = node::LINKS + body_bytes(metric, dimensions, true);
            [2 * m - m / 16, 3 * m / 2].into_iter().find_map(|least| {
                let room = ROOM.checked_div(ROOM / (rest + least * link))? / 4 * 4;
                Some((((room - rest) / link).min(3 * m), true, Some(code)))
            })
        };
        let code = match metric {
            Metric::Hamming | Metric::Jaccard => Some(LinkCode::Bits(code_bytes(metric, dimensions))),
            Metric::L1 => None,
            _ => (dimensions >= CODED).then(|| LinkCode::Estimate(Form::of(metric, dimensions))),
        };
        let in_node = dimensions <= EXACT || metric.is_of_bits();
        let (most_below, exact, code) = code.and_then(with_codes).unwrap_or((3 * m, in_node, None));
        let mut layout =
            Layout { metric, dimensions, most_below, exact, code, stored, sizes: [0; 3], per_page: [0; 3] };
        let node = layout.body_at() + body_bytes(metric, dimensions, exact);
        // None is elsewhere if all are in their nodes.
        let vector = if exact { ELEMENTS } else { ELEMENTS + layout.stored_bytes() };
        let sizes = [node, vector, above::LINKS + LINK * m];
        layout.sizes = sizes.map(|size| size.next_multiple_of(4));
        layout.per_page = layout.sizes.map(|size| ROOM / size);
        layout
    }

    /// A graph is built by the vectors themselves, not by codes of 8 bits, which is faster for longer ones.
    pub(super) fn builds_exactly(&self) -> bool {
        self.dimensions <= EXACT
    }

    /// What the pages have of vectors can be about a centre: codes of 8 bits, or products of links under cosine.
    pub(super) fn may_have_centre(&self) -> bool {
        let has_codes = !self.exact || self.code.is_some_and(LinkCode::is_prepared);
        has_codes && Centre::is_for(self.metric, Element::Float32)
    }

    /// Where only the way to the nearest ones is looked for, vectors are compared by codes of 8 bits, or of bits. Not where lengths
    /// count: codes do not tell vectors apart that have much in common.
    pub(super) fn compares_codes(&self) -> bool {
        (self.dimensions >= CODED && self.metric == Metric::Cosine) || self.metric.is_of_bits()
    }

    /// Whether searches find nodes in the order of the distance: by their vectors, computed as the operators do.
    pub(super) fn finds_in_order(&self) -> bool {
        self.code.is_some() || self.metric.is_of_bits()
    }

    /// Bytes of a link.
    pub(super) fn link(&self, slots: Slots) -> usize {
        match self.code {
            Some(code) if slots == Slots::Nodes => LINK + code.bytes(),
            _ => LINK,
        }
    }

    /// Where in a node that begins which it has of its vector.
    pub(super) fn body_at(&self) -> usize {
        node::LINKS + self.link(Slots::Nodes) * self.most_below
    }

    /// Bytes of a slot.
    pub(super) fn size(&self, slots: Slots) -> usize {
        slots.of(self.sizes)
    }

    /// Slots of a page.
    pub(super) fn per_page(&self, slots: Slots) -> usize {
        slots.of(self.per_page)
    }

    /// Where a slot begins in its page.
    pub(super) fn offset(&self, slots: Slots, slot: u16) -> usize {
        HEADER + usize::from(slot) * self.size(slots)
    }

    /// A slot of a page.
    pub(super) fn slot<'p>(&self, slots: Slots, page: &'p [u8], slot: u16) -> &'p [u8] {
        let from = self.offset(slots, slot);
        page.get(from..from + self.size(slots)).unwrap_or(&[])
    }

    /// Where a node is.
    pub(super) fn place(&self, node: u32) -> Place {
        let per_page = self.per_page(Slots::Nodes) as u32;
        Place { block: node / per_page, slot: (node % per_page) as u16 }
    }

    /// The node at a place; `None` if the relation is too large for its number.
    pub(super) fn node(&self, place: Place) -> Option<u32> {
        let per_page = self.per_page(Slots::Nodes) as u32;
        place.block.checked_mul(per_page)?.checked_add(place.slot.into())
    }

    /// Reads the vector of a node over `out`, of length 1 where only its direction counts: its elements, or what its codes
    /// stand for, which is their difference from the index's centre, if it has one.
    pub(super) fn vector(&self, node: &[u8], out: &mut Vec<f32>) {
        out.clear();
        if self.metric.is_of_bits() {
            out.extend(bits(self.coded(node).codes, self.dimensions));
        } else if self.exact {
            let (unit, elements) = self.elements(node);
            out.extend(elements.map(|element| element * unit));
        } else {
            out.extend(self.coded(node).elements());
        }
    }

    /// What the elements of the vector of a node are to be multiplied with, and the elements, if the node has them.
    pub(super) fn elements<'p>(&self, node: &'p [u8]) -> (f32, impl Iterator<Item = f32> + use<'p>) {
        let (unit, elements) = self.element_bytes(node);
        (unit, elements.as_chunks().0.iter().map(|element| f32::from_le_bytes(*element)))
    }

    /// The same, the elements where they are, or else in `place`.
    #[inline]
    pub(super) fn elements_in<'e>(&self, node: &'e [u8], place: &'e mut Vec<f32>) -> (f32, &'e [f32]) {
        let (unit, elements) = self.element_bytes(node);
        let there = kernel::floats(elements);
        (
            unit,
            there.unwrap_or_else(|| {
                place.clear();
                place.extend(self.elements(node).1);
                place
            }),
        )
    }

    fn element_bytes<'p>(&self, node: &'p [u8]) -> (f32, &'p [u8]) {
        let body = node.get(self.body_at()..).unwrap_or(&[]);
        let (unit, elements) = body.split_first_chunk().unwrap_or((&[0; 4], &[]));
        (f32::from_le_bytes(*unit), elements.get(..4 * self.dimensions).unwrap_or(elements))
    }

    /// What a node has of its vector: `unit` makes it of length 1 where only its direction counts.
    pub(super) fn body(&self, vector: &[f32], unit: f32, coded: Coded<'_>) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(body_bytes(self.metric, self.dimensions, self.exact));
        if self.metric.is_of_bits() {
            bytes.extend_from_slice(coded.codes);
        } else if self.exact {
            bytes.extend_from_slice(&unit.to_le_bytes());
            bytes.extend(vector.iter().flat_map(|element| element.to_le_bytes()));
        } else {
            bytes.extend_from_slice(&coded.factors.to_bytes());
            bytes.extend_from_slice(coded.codes);
        }
        bytes
    }

    /// Bytes of the elements of a vector in a slot of its own.
    fn stored_bytes(&self) -> usize {
        self.dimensions * element_bytes(self.stored)
    }

    /// The bytes of a vector in a slot of its own.
    pub(super) fn vector_bytes(&self, row: pg_sys::ItemPointerData, vector: &[f32]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(ELEMENTS + self.stored_bytes());
        bytes.extend_from_slice(&row_bytes(row));
        bytes.resize(ELEMENTS, 0);
        append_elements(self.stored, vector, &mut bytes);
        bytes
    }

    /// Reads the elements of such a vector over `out`.
    pub(super) fn read_vector(&self, slot: &[u8], out: &mut Vec<f32>) {
        let bytes = slot.get(ELEMENTS..ELEMENTS + self.stored_bytes()).unwrap_or(&[]);
        read_elements(self.stored, bytes, out);
    }

    /// The elements of such a vector, where they are, or else in `place`.
    #[inline]
    pub(super) fn vector_in<'e>(&self, slot: &'e [u8], place: &'e mut Vec<f32>) -> &'e [f32] {
        let bytes = slot.get(ELEMENTS..ELEMENTS + self.stored_bytes()).unwrap_or(&[]);
        kernel::floats(bytes).filter(|_| !self.stored.is_half()).unwrap_or_else(|| {
            self.read_vector(slot, place);
            place
        })
    }

    /// The codes of a node that does not have its vector, or of one whose codes are the vector.
    #[inline]
    pub(super) fn coded<'p>(&self, node: &'p [u8]) -> Coded<'p> {
        let body = node.get(self.body_at()..).unwrap_or(&[]);
        if self.metric.is_of_bits() {
            return self.coded_bits(body);
        }
        let (factors, codes) = body.split_at_checked(Factors::BYTES).unwrap_or_default();
        let codes = codes.get(..self.dimensions).unwrap_or(&[]);
        Coded { factors: Factors::from_bytes(factors), codes }
    }

    /// The codes that bytes begin with, of a vector of bits.
    #[inline]
    pub(super) fn coded_bits<'p>(&self, bytes: &'p [u8]) -> Coded<'p> {
        let codes = bytes.get(..code_bytes(self.metric, self.dimensions)).unwrap_or(&[]);
        match self.metric {
            // The only one that asks how many are set.
            Metric::Jaccard => Coded::of_bits(codes),
            _ => Coded { factors: Factors::default(), codes },
        }
    }

    /// Links in a slot, whose number is at `count` and which begin 4 bytes later, and their codes.
    pub(super) fn links<'p>(
        &self,
        slots: Slots,
        slot: &'p [u8],
        count: usize,
    ) -> impl Iterator<Item = (Link<u32>, &'p [u8])> + use<'p> {
        let number = int(slot, count) as usize;
        let links = slot.get(count + 4..).unwrap_or(&[]).chunks_exact(self.link(slots)).take(number);
        links.map(|link| {
            let (node, score) = (int(link, 0), f32::from_bits(int(link, 4)));
            (Link { node, score }, link_code(link))
        })
    }

    /// The bytes of the links of a node in level 0, and of one of them.
    #[inline]
    pub(super) fn links_below<'p>(&self, node: &'p [u8]) -> (&'p [u8], usize) {
        let stride = self.link(Slots::Nodes);
        let bytes = (int(node, node::COUNT) as usize).min(self.most_below) * stride;
        (node.get(node::LINKS..node::LINKS + bytes).unwrap_or(&[]), stride)
    }
}

/// Appends the bytes of a link, but for its code.
pub(super) fn push_link(link: &Link<u32>, out: &mut Vec<u8>) {
    out.extend_from_slice(&link.node.to_le_bytes());
    out.extend_from_slice(&link.score.to_le_bytes());
}

/// The elements of a vector of bits, 0 or 1.
pub(super) fn bits(codes: &[u8], dimensions: usize) -> impl Iterator<Item = f32> + use<'_> {
    let bits = codes.iter().flat_map(|byte| (0..8).map(move |at| byte << at >> 7));
    bits.take(dimensions).map(f32::from)
}

/// Appends the code of a vector of bits: the first is in the highest place of a byte, as in values of type `bit`.
pub(super) fn push_bits(vector: &[f32], out: &mut Vec<u8>) {
    let at = out.len();
    out.resize(at + code_bytes(Metric::Hamming, vector.len()), 0);
    if let Some(codes) = out.get_mut(at..) {
        // All codes of bits are made alike.
        encode_for(Metric::Hamming, Element::Float32, vector, 1.0, codes);
    }
}

/// The code of a link.
#[inline]
pub(super) fn link_code(link: &[u8]) -> &[u8] {
    link.get(LINK..).unwrap_or(&[])
}

/// The node that a link leads to.
#[inline]
pub(super) fn link_node(link: &[u8]) -> u32 {
    int(link, 0)
}

/// The row of a node, or of a vector; `None` of a free slot.
pub(super) fn row(slot: &[u8]) -> Option<pg_sys::ItemPointerData> {
    match word(slot, 4) {
        0 => None,
        offset => Some(heap::tid(int(slot, 0), offset)),
    }
}

/// The bytes of a row's address.
pub(super) fn row_bytes(row: pg_sys::ItemPointerData) -> [u8; 6] {
    let (block, offset) = heap::tid_parts(row);
    let ([a, b, c, d], [e, f]) = (block.to_le_bytes(), offset.to_le_bytes());
    [a, b, c, d, e, f]
}

/// Whether a slot is free.
pub(super) fn is_free(slots: Slots, slot: &[u8]) -> bool {
    match slots {
        Slots::Nodes | Slots::Vectors => word(slot, 4) == 0,
        Slots::Above => int(slot, 0) == 0,
    }
}

/// The level of a node.
pub(super) fn level(node: &[u8]) -> u8 {
    word(node, node::LEVEL) as u8
}

/// Where the vector of a node is; `None` if it is in the node.
pub(super) fn vector_place(node: &[u8]) -> Option<Place> {
    let block = int(node, node::VECTOR);
    (block != 0).then(|| Place { block, slot: word(node, node::VECTOR + 4) })
}

/// Where the links of level 1 of a node are; `None` if it is in level 0 only.
pub(super) fn above_place(node: &[u8]) -> Option<Place> {
    let block = int(node, node::ABOVE + 2);
    (block != 0).then(|| Place { block, slot: word(node, node::ABOVE) })
}

/// Where the links of the next level are.
pub(super) fn next_place(above: &[u8]) -> Option<Place> {
    let block = int(above, above::NEXT + 2);
    (block != 0).then(|| Place { block, slot: word(above, above::NEXT) })
}

/// The bytes of such a place, in a node or in links.
pub(super) fn above_bytes(place: Option<Place>) -> [u8; 6] {
    let Place { block, slot } = place.unwrap_or_default();
    let ([a, b], [c, d, e, f]) = (slot.to_le_bytes(), block.to_le_bytes());
    [a, b, c, d, e, f]
}

/// The bytes of a node before its links, of which there are none yet.
pub(super) fn node_bytes(
    row: pg_sys::ItemPointerData,
    level: u8,
    vector: Place,
    above: Option<Place>,
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(node::LINKS);
    bytes.extend_from_slice(&row_bytes(row));
    bytes.extend_from_slice(&u16::from(level).to_le_bytes());
    bytes.extend_from_slice(&vector.block.to_le_bytes());
    bytes.extend_from_slice(&vector.slot.to_le_bytes());
    bytes.extend_from_slice(&above_bytes(above));
    bytes.resize(node::LINKS, 0);
    bytes
}

/// Bytes of an element on a page: 2 of those that are kept as halves, otherwise 4.
pub(super) fn element_bytes(stored: Element) -> usize {
    if stored.is_half() { 2 } else { 4 }
}

/// Appends the bytes of elements, which are such that they lose nothing if they are kept as halves.
pub(super) fn append_elements(stored: Element, elements: &[f32], out: &mut Vec<u8>) {
    if stored.is_half() {
        out.extend(elements.iter().flat_map(|element| stored.half(*element).to_le_bytes()));
    } else {
        out.extend(elements.iter().flat_map(|element| element.to_le_bytes()));
    }
}

/// Writes the elements that have these bytes over `out`; halves are finite.
pub(super) fn read_elements(stored: Element, bytes: &[u8], out: &mut Vec<f32>) {
    out.clear();
    if !stored.is_half() {
        out.extend(bytes.as_chunks().0.iter().map(|element| f32::from_le_bytes(*element)));
        return;
    }
    let (kernels, bytes) = (Kernels::best(), bytes.as_chunks().0);
    out.resize(bytes.len(), 0.0);
    let mut halves = [0; 64];
    for (bytes, out) in bytes.chunks(halves.len()).zip(out.chunks_mut(halves.len())) {
        halves.iter_mut().zip(bytes).for_each(|(half, bytes)| *half = u16::from_le_bytes(*bytes));
        stored.widen(&kernels, halves.get(..bytes.len()).unwrap_or(&[]), out);
    }
}

/// The bytes of links above level 0, of which there are none yet.
pub(super) fn above_slot_bytes(owner: u32, next: Option<Place>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(above::LINKS);
    bytes.extend_from_slice(&owner.to_le_bytes());
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(&above_bytes(next));
    bytes.extend_from_slice(&[0; 4]);
    bytes
}
