//! What the pages hold: slots of one size, of one of three kinds.
//!
//! A node is a slot on a page of nodes, with its links in level 0 and the codes of its vector: all that a search needs of
//! most nodes. The vector itself is in a slot of another page, and the links above level 0, which one node in `m` has, are
//! in a slot for each level, each of which leads to the next.
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
//! | 24 | 24 m | links, the parent first: node, score, 4 bytes each |
//! | then | 12 | factors of the codes |
//! | then | d | codes |
//!
//! Vectors of few dimensions are in their nodes, in place of codes: 4 d bytes of elements, of length 1 under cosine. Codes
//! could not tell near ones apart that are far from zero, such as places on a map. They have no slot of their own.
//!
//! | vector: offset | size | what |
//! |---|---|---|
//! | 0 | 6 | the row, as in its node |
//! | 8 | 4 d | elements |
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
use treedb_vector::code::{Coded, Factors};
use treedb_vector::graph::Link;

use crate::pages::page::{HEADER, ROOM};
use crate::shim::heap;

/// What the slots of a page are: the level in its trailer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Slots {
    Nodes = 1,
    Vectors = 2,
    Above = 3,
}

/// Vectors of at most this many dimensions are stored in their nodes.
pub(super) const EXACT: usize = 64;

/// Bytes of a link.
pub(super) const LINK: usize = 8;
/// Offsets in a node.
pub(super) mod node {
    pub(crate) const LEVEL: usize = 6;
    pub(crate) const VECTOR: usize = 8;
    pub(crate) const ABOVE: usize = 14;
    pub(crate) const COUNT: usize = 20;
    pub(crate) const LINKS: usize = 24;
}
/// Where the elements of a vector begin.
pub(super) const ELEMENTS: usize = 8;
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

/// Sizes of slots, and how many a page has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) dimensions: usize,
    /// Links that a node may have in level 0.
    pub(super) most_below: usize,
    /// Nodes have the vectors themselves.
    pub(super) exact: bool,
    sizes: [usize; 3],
}

fn word(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u16::from_le_bytes(*b))
}

fn int(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b))
}

impl Layout {
    pub(super) fn new(dimensions: usize, m: usize) -> Layout {
        let most_below = 3 * m;
        let exact = dimensions <= EXACT;
        let codes = if exact { 4 * dimensions } else { Factors::BYTES + dimensions };
        let node = node::LINKS + LINK * most_below + codes;
        let sizes = [node, ELEMENTS + 4 * dimensions, above::LINKS + LINK * m];
        Layout { dimensions, most_below, exact, sizes: sizes.map(|size| size.next_multiple_of(4)) }
    }

    /// Bytes of a slot.
    pub(super) fn size(&self, slots: Slots) -> usize {
        let [nodes, vectors, above] = self.sizes;
        match slots {
            Slots::Nodes => nodes,
            Slots::Vectors => vectors,
            Slots::Above => above,
        }
    }

    /// Slots of a page.
    pub(super) fn per_page(&self, slots: Slots) -> usize {
        ROOM / self.size(slots)
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

    /// The elements of a vector that its node has.
    pub(super) fn floats<'b>(&self, node: &[u8], buffer: &'b mut [f32; EXACT]) -> &'b [f32] {
        let at = node::LINKS + LINK * self.most_below;
        let elements = node.get(at..).unwrap_or(&[]).as_chunks().0;
        for (place, element) in buffer.iter_mut().zip(elements) {
            *place = f32::from_le_bytes(*element);
        }
        buffer.get(..self.dimensions).unwrap_or(&[])
    }

    /// What a node has of its vector: `unit` makes it of length 1 where only its direction counts.
    pub(super) fn body(&self, vector: &[f32], unit: f32, coded: Coded<'_>) -> Vec<u8> {
        if self.exact {
            return vector.iter().flat_map(|element| (element * unit).to_le_bytes()).collect();
        }
        let mut bytes = coded.factors.to_bytes().to_vec();
        bytes.extend_from_slice(coded.codes);
        bytes
    }

    /// The codes of a node.
    pub(super) fn coded<'p>(&self, node: &'p [u8]) -> Coded<'p> {
        let at = node::LINKS + LINK * self.most_below;
        let (factors, codes) =
            node.get(at..).unwrap_or(&[]).split_at_checked(Factors::BYTES).unwrap_or_default();
        let codes = codes.get(..self.dimensions).unwrap_or(&[]);
        Coded { factors: Factors::from_bytes(factors), codes }
    }
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

/// Links in a slot, whose number is at `count` and which begin 4 bytes later.
pub(super) fn links(slot: &[u8], count: usize) -> impl Iterator<Item = Link<u32>> {
    let number = int(slot, count) as usize;
    let links = slot.get(count + 4..).unwrap_or(&[]).as_chunks::<LINK>().0.iter().take(number);
    links.map(|link| Link { node: int(link, 0), score: f32::from_bits(int(link, 4)) })
}

/// The bytes of links: their number, each of them.
pub(super) fn link_bytes(links: &[Link<u32>]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 + LINK * links.len());
    bytes.extend_from_slice(&(links.len() as u32).to_le_bytes());
    for link in links {
        bytes.extend_from_slice(&link.node.to_le_bytes());
        bytes.extend_from_slice(&link.score.to_le_bytes());
    }
    bytes
}

/// The bytes of a node without links.
pub(super) fn node_bytes(
    layout: &Layout,
    row: pg_sys::ItemPointerData,
    level: u8,
    vector: Place,
    above: Option<Place>,
    body: &[u8],
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(layout.size(Slots::Nodes));
    bytes.extend_from_slice(&row_bytes(row));
    bytes.extend_from_slice(&u16::from(level).to_le_bytes());
    bytes.extend_from_slice(&vector.block.to_le_bytes());
    bytes.extend_from_slice(&vector.slot.to_le_bytes());
    bytes.extend_from_slice(&above_bytes(above));
    bytes.resize(node::LINKS + LINK * layout.most_below, 0);
    bytes.extend_from_slice(body);
    bytes
}

/// The bytes of a vector.
pub(super) fn vector_bytes(row: pg_sys::ItemPointerData, vector: &[f32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ELEMENTS + 4 * vector.len());
    bytes.extend_from_slice(&row_bytes(row));
    bytes.resize(ELEMENTS, 0);
    bytes.extend(vector.iter().flat_map(|element| element.to_le_bytes()));
    bytes
}

/// Reads the elements of a vector over `out`.
pub(super) fn elements(slot: &[u8], dimensions: usize, out: &mut Vec<f32>) {
    let elements = slot.get(ELEMENTS..).unwrap_or(&[]).as_chunks().0.iter().take(dimensions);
    out.clear();
    out.extend(elements.map(|element| f32::from_le_bytes(*element)));
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
