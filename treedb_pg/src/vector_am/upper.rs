//! What a backend remembers of the levels above 0: the links of the nodes that its searches have come by, and codes of 8 bits of
//! their vectors, or the vectors where codes could not tell them apart.
//!
//! It is of one generation of the index's files, which the meta page tells at the beginning of each search. A search that is
//! under way when the index changes may still go by what was, and codes are not the vectors: both only choose where to begin in
//! level 0.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use treedb_vector::code::{self, Coded, Factors, code_bytes};
use treedb_vector::element::Element;
use treedb_vector::kernel::{self, Kernels};

use super::graph::{NodeHasher, Query};
use super::record::Layout;

/// Bytes that a backend remembers of an index. Those of the highest levels, which every search needs, come first.
const MOST: usize = 16 << 20;

/// A generation of an index: the number of its files, and of their changes.
pub(super) type Generation = (u32, u32);

/// What is remembered of an index.
#[derive(Default)]
pub(super) struct Upper {
    of: Option<Generation>,
    /// Where vectors of nodes are among those that follow.
    places: HashMap<u32, usize, BuildHasherDefault<NodeHasher>>,
    /// One of the two is empty.
    codes: Vec<u8>,
    floats: Vec<f32>,
    /// Those of the codes.
    factors: Vec<Factors>,
    links: HashMap<(u32, u8), Vec<u32>, BuildHasherDefault<NodeHasher>>,
    bytes: usize,
}

impl Upper {
    /// Forgets what is of another generation.
    pub(super) fn begin(&mut self, generation: Generation) {
        if self.of != Some(generation) {
            self.clear();
            self.of = Some(generation);
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.of = None;
        self.places.clear();
        self.codes.clear();
        self.floats.clear();
        self.factors.clear();
        self.links.clear();
        self.bytes = 0;
    }

    /// Where the vector of a node is, which is asked for before it is needed.
    pub(super) fn find(&self, layout: &Layout, node: u32) -> Option<usize> {
        let place = self.places.get(&node).copied()?;
        if layout.compares_codes() {
            kernel::prefetch(self.codes(layout, place));
        } else {
            kernel::prefetch(self.vector(layout, place));
        }
        Some(place)
    }

    /// How far the vector at a place is from a query.
    pub(super) fn score(&self, layout: &Layout, kernels: &Kernels, query: &Query<'_>, place: usize) -> f32 {
        if layout.compares_codes() {
            let factors = self.factors.get(place).copied().unwrap_or_default();
            let coded = Coded { factors, codes: self.codes(layout, place) };
            code::score(layout.metric, kernels, coded, query.coded)
        } else {
            layout.metric.score(kernels, self.vector(layout, place), query.direction, 1.0)
        }
    }

    fn codes(&self, layout: &Layout, place: usize) -> &[u8] {
        let width = code_bytes(layout.metric, layout.dimensions);
        self.codes.get(place * width..(place + 1) * width).unwrap_or(&[])
    }

    fn vector(&self, layout: &Layout, place: usize) -> &[f32] {
        let width = layout.dimensions;
        self.floats.get(place * width..(place + 1) * width).unwrap_or(&[])
    }

    pub(super) fn links(&self, node: u32, level: u8) -> Option<&[u32]> {
        self.links.get(&(node, level)).map(Vec::as_slice)
    }

    /// Makes room for so many bytes; false if there is none, or nothing is to be remembered now.
    fn take(&mut self, bytes: usize) -> bool {
        let has_room = self.of.is_some() && self.bytes + bytes <= MOST;
        self.bytes += if has_room { bytes } else { 0 };
        has_room
    }

    /// Remembers the vector of a node, of length 1 where only its direction counts.
    pub(super) fn add_vector(&mut self, layout: &Layout, node: u32, vector: &[f32]) {
        let codes = code_bytes(layout.metric, layout.dimensions);
        let bytes = if layout.compares_codes() { codes } else { size_of_val(vector) };
        if vector.len() != layout.dimensions || self.places.contains_key(&node) || !self.take(bytes) {
            return;
        }
        self.places.insert(node, self.places.len());
        if layout.compares_codes() {
            let from = self.codes.len();
            self.codes.resize(from + codes, 0);
            let place = self.codes.get_mut(from..).unwrap_or_default();
            self.factors.push(code::encode_for(layout.metric, Element::Float32, vector, 1.0, place));
        } else {
            self.floats.extend_from_slice(vector);
        }
    }

    pub(super) fn add_links(&mut self, node: u32, level: u8, links: &[u32]) {
        if self.take(size_of_val(links)) {
            self.links.insert((node, level), links.to_vec());
        }
    }
}
